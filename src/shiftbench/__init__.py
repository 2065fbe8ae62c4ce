"""shiftbench: controlled, explained, measured distribution shifts.

    import shiftbench as sb

The verbs of the command line are functions here: sb.read, sb.build, sb.check, sb.embed, sb.train, sb.score, sb.report.
What you write yourself joins with sb.register.method, .shift, .reader, .metric, .model and .section.
Names are loaded when they are first used, so that the import is quick and needs no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # so that an editor completes the verbs and a type checker knows them
    from shiftbench import register as register
    from shiftbench.api import *  # noqa: F403
    from shiftbench.core.errors import ShiftBenchError as ShiftBenchError
    from shiftbench.data.benchmark import Benchmark as Benchmark
    from shiftbench.data.collection import Collection as Collection
    from shiftbench.data.collection import Tags as Tags
    from shiftbench.data.collection import Texts as Texts
    from shiftbench.data.predictions import Predictions as Predictions
    from shiftbench.data.scores import Scores as Scores
    from shiftbench.demonstration import demo as demo
    from shiftbench.methods import METHODS as METHODS
    from shiftbench.methods.method import Method as Method
    from shiftbench.shifts import CONDITIONS as CONDITIONS
    from shiftbench.shifts import IID as IID
    from shiftbench.shifts import SHIFTS as SHIFTS
    from shiftbench.shifts import Breeds as Breeds
    from shiftbench.shifts import Context as Context
    from shiftbench.shifts import Correlation as Correlation
    from shiftbench.shifts import Given as Given
    from shiftbench.shifts import LeaveOneDomainOut as LeaveOneDomainOut
    from shiftbench.shifts import LowData as LowData
    from shiftbench.shifts import Noise as Noise
    from shiftbench.shifts import Recipe as Recipe
    from shiftbench.shifts import Size as Size
    from shiftbench.shifts import Spurious as Spurious
    from shiftbench.shifts import Subpopulation as Subpopulation
    from shiftbench.shifts import Subset as Subset
    from shiftbench.shifts import Temporal as Temporal
    from shiftbench.shifts import Under as Under
    from shiftbench.shifts import Unseen as Unseen
    from shiftbench.sweeps.study import Study as Study

__version__ = "0.2.0"

VERBS = ("audit", "board", "build", "check", "conflicts", "download", "embed", "export", "fetch", "fit", "gap", "gate",
         "graph", "hardest", "hierarchy", "ladder", "power", "predict", "pretrain", "read", "reference", "report",
         "retrain", "score", "select", "studio", "study", "suite", "superclasses", "sweep", "table", "train", "trust")
"""The functions of shiftbench.api, named here so that they need not be loaded."""

_HOME = {
    **dict.fromkeys(VERBS, "api"), "demo": "demonstration",
    **dict.fromkeys(("Collection", "Tags", "Texts"), "data.collection"), "Benchmark": "data.benchmark",
    "Predictions": "data.predictions", "Scores": "data.scores", "ShiftBenchError": "core.errors",
    **dict.fromkeys(("Breeds", "Given", "Subset", "Correlation", "Subpopulation", "Recipe", "SHIFTS"), "shifts"),
    **dict.fromkeys(("IID", "Spurious", "LowData", "Unseen", "Noise", "Size", "Under", "CONDITIONS"), "shifts"),
    **dict.fromkeys(("Context", "LeaveOneDomainOut", "Temporal"), "shifts"),
    "METHODS": "methods", "Method": "methods", "Study": "sweeps.study",
}
"""Where each public name lives."""

__all__ = ["__version__", *_HOME, "register"]


if not TYPE_CHECKING:  # a type checker would take any name for one of these, a misspelt one too

    def __getattr__(name: str) -> Any:
        if name == "register":  # a module: its functions are the decorators
            return import_module(f"shiftbench.{name}")
        if name not in _HOME:
            raise AttributeError(f"module 'shiftbench' has no attribute '{name}'")
        return getattr(import_module(f"shiftbench.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
