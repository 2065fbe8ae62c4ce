"""How the learning rate goes during a stage: a factor of every step, a pure function of where the step is."""

from __future__ import annotations

import numpy as np

from shiftbench.core.arrays import Floats
from shiftbench.core.later import torch

SCHEDULES = ("constant", "thirds", "cosine", "linear")
"""`thirds`: a tenth after a third of the steps and again after two (BREEDS). `cosine`: (1 + cos(pi t / T)) / 2.
`linear`: 1 - t / T (WILDS' transformers)."""


def factors(schedule: str, first: int, n: int, steps: int) -> Floats:
    """By what the learning rate is multiplied in the n steps from `first` on, of `steps` in all.

    >>> factors("thirds", 0, 6, 6).tolist()
    [1.0, 1.0, 0.1, 0.1, 0.01, 0.01]
    """
    done = np.arange(first, first + n) / steps
    if schedule == "thirds":
        return np.asarray([1.0, 0.1, 0.01])[np.minimum(3 * done, 2).astype(np.int64)]
    if schedule == "cosine":
        return (1 + np.cos(np.pi * np.minimum(done, 1.0))) / 2
    if schedule == "linear":
        return 1 - np.minimum(done, 1.0)
    return np.ones(n)


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        if isinstance(group["lr"], torch.Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate
