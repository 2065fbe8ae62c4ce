"""Just train twice: what a first model gets wrong counts more for the second."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import ClassVar

from shiftbench.core.backend import torch
from shiftbench.core.registry import register
from shiftbench.methods.erm import ERM
from shiftbench.methods.method import METHODS, Method, Stage, Trained, check_share
from shiftbench.methods.space import Power, Space


@register(METHODS, "jtt")
@dataclass(frozen=True)
class JTT(Method):
    """Just train twice (Liu et al., 2021).

        E = { i : f_1(x_i) != y_i },     min  1/n ( lambda * sum_{i in E} l(f(x_i), y_i)  +  sum_{i not in E} l )

    f_1 is ERM's after the share `first` of the run's steps; E are its errors among the training items. f starts from
    scratch. It needs to know neither domains nor groups in training.

    Our reading, where codes differ. The loss of an error is multiplied by lambda, as in SubpopBench and Wiles et al.;
    the paper shows it lambda times as often, which is the same in the mean, up to a factor on the whole loss. f_1 has
    the weights that the run chooses (`select_on`), as every stage does; the paper takes the last. Half of the steps is
    what Wiles et al. and SubpopBench give f_1. lambda is SubpopBench's; Wiles et al. have 20.
    """

    upweight: float = 10.0  # lambda
    first: float = 0.5  # share of the run's steps that f_1 is trained for

    family: ClassVar[str] = "adaptive"
    space: ClassVar[Space] = {"upweight": Power(10, 0, 2.5)}

    def __post_init__(self) -> None:
        check_share(self, "first", positive=True)

    def fit(self) -> Generator[Stage, Trained, Trained]:
        first = yield Stage(ERM(), share=self.first)
        wrong = first.wrong("train")
        idle = {} if wrong.any() else {"upweight": "the first model makes no error on the training items"}
        return (yield Stage(self, weights=torch.where(wrong, self.upweight, 1.0), idle=idle))
