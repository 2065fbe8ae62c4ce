"""Search spaces: the law a sweep draws a hyperparameter from. The laws are DomainBed's (Gulrajani et al., 2021)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Power:
    """base ** U(low, high), rounded down to a whole number where the field is one."""

    base: float
    low: float
    high: float
    whole: bool = False

    def draw(self, rng: np.random.Generator) -> float | int:
        value = float(self.base ** rng.uniform(self.low, self.high))
        return int(value) if self.whole else value

    def __str__(self) -> str:
        return f"{self.base:g}^U({self.low:g}, {self.high:g})"


@dataclass(frozen=True)
class Choice:
    """One of the options, each as likely."""

    options: tuple[Any, ...]

    def draw(self, rng: np.random.Generator) -> Any:
        return self.options[int(rng.integers(len(self.options)))]

    def __str__(self) -> str:
        return f"one of {', '.join(str(option) for option in self.options)}"


Law = Power | Choice
Space = Mapping[str, Law]

RUN_SPACE: Space = {"lr": Power(10, -5, -3.5), "weight_decay": Power(10, -6, -2),
                    "batch_size": Power(2, 3, 5.5, whole=True)}
"""What DomainBed draws for every method, for image models; keys are fields of a Run."""
