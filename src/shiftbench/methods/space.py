"""Search spaces: the law a sweep draws a setting from, and the spaces of the papers by name.

A method's own `space` has DomainBed's laws for its parameters (Gulrajani & Lopez-Paz, 2021), or SubpopBench's for a
method that DomainBed lacks (Yang et al., 2023).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import floor, isfinite
from typing import Any, NamedTuple

import numpy as np

from shiftbench.core.errors import ShiftBenchError, unknown


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
class Uniform:
    """U(low, high), rounded down to a whole number where the field is one."""

    low: float
    high: float
    whole: bool = False

    def draw(self, rng: np.random.Generator) -> float | int:
        value = float(rng.uniform(self.low, self.high))
        return floor(value) if self.whole else value

    def __str__(self) -> str:
        return f"U({self.low:g}, {self.high:g})"


@dataclass(frozen=True)
class Choice:
    """One of the options, each as likely."""

    options: tuple[Any, ...]

    def draw(self, rng: np.random.Generator) -> Any:
        return self.options[int(rng.integers(len(self.options)))]

    def __str__(self) -> str:
        return f"one of {', '.join(str(option) for option in self.options)}"


Law = Power | Uniform | Choice
Space = Mapping[str, Law]

LAWS = {"power": "[base, low, high]", "uniform": "[low, high]", "choice": "[option, …]"}
RULES = {"power": "Its numbers are finite, low must not be above high, and base must be above 0.",
         "uniform": "Its numbers are finite, and low must not be above high.", "choice": "It has at least one option."}


def law(table: Mapping[str, Any], whole: bool, where: str) -> Law:
    """A law as a file writes it: {power = [10, 0, 4]} is 10^U(0, 4); `whole` where the field is a whole number.

    >>> str(law({"power": [10, 0, 4]}, True, "study.toml"))
    '10^U(0, 4)'
    """
    if len(table) != 1:
        raise ShiftBenchError(f"{where}: a law is a table with one entry: "
                              f"{', '.join(f'{{{key} = {shape}}}' for key, shape in LAWS.items())}.")
    ((name, values),) = table.items()
    if name not in LAWS:
        raise unknown("law", name, LAWS, where)
    items = values if isinstance(values, list) else []
    if name == "choice" and items:
        return Choice(tuple(items))
    numbers = [float(item) for item in items if type(item) in (int, float) and isfinite(item)]
    if len(numbers) == len(items) == {"power": 3, "uniform": 2}.get(name) and numbers[-2] <= numbers[-1]:
        if name == "uniform":
            return Uniform(numbers[0], numbers[1], whole)
        if numbers[0] > 0:
            return Power(numbers[0], numbers[1], numbers[2], whole)
    raise ShiftBenchError(f"{where}: write the law as {{{name} = {LAWS[name]}}}, not with {values!r}. {RULES[name]}")


class Drawn(NamedTuple):
    """A setting of a named space: its value in draw 0, and the law of the other draws."""

    default: Any
    law: Law


class Grid(NamedTuple):
    """A setting of a named space that takes each of these values."""

    values: tuple[Any, ...]


@dataclass(frozen=True)
class Named:
    """A paper's search space. `run` is about fields of a Run, `methods` about one method's settings; a plain value is
    what the laws beside it presuppose. `own` says whether the methods' own spaces (DomainBed's) belong to it."""

    run: Mapping[str, Any] = field(default_factory=dict)
    methods: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    own: bool = False


RUN_SPACE: Space = {"lr": Power(10, -5, -3.5), "weight_decay": Power(10, -6, -2),
                    "batch_size": Power(2, 3, 5.5, whole=True)}
"""What DomainBed draws for every method, for image models; keys are fields of a Run."""

SPACES: Mapping[str, Named] = {
    "defaults": Named(),
    "domainbed": Named(
        {"optimizer": "adam", "batches": "domain", "lr": Drawn(5e-5, RUN_SPACE["lr"]),
         "weight_decay": Drawn(0.0, RUN_SPACE["weight_decay"]), "batch_size": Drawn(32, RUN_SPACE["batch_size"])},
        {"group_dro": {"by": "domain"}}, own=True),
    "domainbed-small": Named(
        {"optimizer": "adam", "batches": "domain", "weight_decay": 0.0, "lr": Drawn(1e-3, Power(10, -4.5, -2.5)),
         "batch_size": Drawn(64, Power(2, 3, 9, whole=True))},
        {"group_dro": {"by": "domain"}}, own=True),
    "subpopbench": Named(
        {"optimizer": "sgd", "momentum": 0.9, "batches": "plain", "lr": Drawn(1e-3, Power(10, -4, -2)),
         "weight_decay": Drawn(1e-4, Power(10, -6, -3)), "batch_size": Drawn(108, Power(2, 6, 6.75, whole=True))},
        own=True),
    "wilds": Named(methods={
        "coral": {"penalty": Grid((0.1, 1.0, 10.0))}, "irm": {"penalty": Grid((1.0, 10.0, 100.0, 1000.0))}}),
    "wiles": Named(
        {"optimizer": "adam", "batches": "plain", "batch_size": 128, "lr": Grid((1e-2, 1e-3, 1e-4))},
        {**{name: {"penalty": Grid((0.01, 0.1, 1.0, 10.0))} for name in ("irm", "coral", "cdann")},
         "dann": {"penalty": Grid((0.01, 0.1, 1.0, 10.0)), "width": 64, "depth": 2}, "jtt": {"upweight": 20.0},
         "vit": {"batch_size": 1024}, "mixup": {"alpha": 0.2}, "bn_adapt": {"ratio": 10.0},
         "stargan": {"lr": 1e-4, "adversarial": Grid((0.01, 0.1, 1.0, 10.0)), "gan_lr": Grid((1e-3, 1e-4, 1e-5))},
         "beta_vae": {"lr": 1e-4, "beta": Grid((1e-4, 0.00464, 0.215, 10.0)),
                      "latent": Grid((10, 77, 143, 210))}}),
}
"""Search spaces by name. What a study writes at a method or pins wins over them; they win over its table [run].

`defaults`         nothing is searched: each method with its defaults.
`domainbed`        Gulrajani & Lopez-Paz (2021), fine-tuning of image models; the batch size is per domain, the groups
                   of Group DRO are domains. Its dropout has no counterpart here.
`domainbed-small`  the same for small images and, the nearest there is, for heads on cached features.
`subpopbench`      Yang et al. (2023), image data: SGD, batches drawn uniformly from all items. Methods that DomainBed
                   has too keep DomainBed's laws; those of CVaR-DRO, focal loss, JTT, LISA and LfF are its own.
`wilds`            Koh et al. (2021): the penalties of CORAL and IRM alone, which §6.3 says were tuned on the
                   out-of-distribution validation set; all else is that of the preset `wilds-NAME`. The text at hand
                   has no appendix D: these are the powers of ten that enclose what the package settled on.
`wiles`            Wiles et al. (2022), Table 4: every value with every other, nothing drawn, batches of 128 (the
                   transformer's of 1,024). Its "log(beta_norm): linspace(1e-4, 10, 4)" is read as equal steps of
                   the logarithm from 1e-4 to 10: as exponents they would drown the image. They tried at most eight of
                   a method's settings per seed; here it is all. CDANN, which they lack, has DANN's grid.
"""


def listed(method: str, name: str) -> dict[str, str]:
    """The entries of a named space for a method, as text: setting -> value or values."""
    space = SPACES[name]
    entries = {**space.run, **space.methods.get(method, {})}
    return {key: ", ".join(map(str, entry.values)) if isinstance(entry, Grid) else
            str(entry.law) if isinstance(entry, Drawn) else str(entry) for key, entry in entries.items()}
