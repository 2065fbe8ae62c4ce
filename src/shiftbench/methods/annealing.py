"""A penalty whose weight is held down in the first steps of a run, while the net has nothing yet to be regularised."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shiftbench.core.errors import ShiftBenchError
from shiftbench.methods.method import Number, after, at_most, first_step
from shiftbench.methods.space import Power

if TYPE_CHECKING:
    from torch import Tensor

ANNEAL = Power(10, -3.7, 0)
"""DomainBed draws 10^U(0, 4) of its 5,001 steps; here as a share of the steps, which ends with the run."""


def annealed(step: int | Tensor, penalty: Number, anneal: Number, steps: int) -> Number:
    """The weight at a step: min(1, penalty) in the share `anneal` of the steps, then the penalty."""
    return after(step, first_step(anneal, steps), penalty, at_most(penalty, 1.0))


def check_anneal(method: str, anneal: float) -> None:
    if not 0 <= anneal <= 1:
        raise ShiftBenchError(f"{method}: 'anneal' is {anneal:g}, but it is a share of the run's steps, from 0 to 1. "
                              "For 500 of 5,000 steps write anneal=0.1.")


def idle_penalty(penalty: float, anneal: float, steps: int) -> dict[str, str]:
    """Where no step has the full penalty, it is as if the penalty were 1."""
    if penalty <= 1 or first_step(anneal, steps) < steps:
        return {}
    return {"penalty": f"anneal={anneal:g} holds its weight at 1 in all {steps:,} steps"}
