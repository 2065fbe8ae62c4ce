"""shiftbench: controlled, explained, measured distribution shifts.

    import shiftbench as sb

Every verb of the command line is a function here: sb.read, sb.build, sb.check, sb.embed, sb.train, sb.score, sb.report.
Names are loaded when they are first used, so that the import is quick and needs no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # so that an editor completes the verbs and a type checker knows them
    from shiftbench.api import *  # noqa: F403
    from shiftbench.data.benchmark import Benchmark as Benchmark
    from shiftbench.data.collection import Collection as Collection
    from shiftbench.data.predictions import Predictions as Predictions
    from shiftbench.data.scores import Scores as Scores

__version__ = "0.1.0"

VERBS = ("board", "build", "check", "conflicts", "download", "embed", "export", "fetch", "gap", "graph", "hardest",
         "hierarchy", "ladder", "power", "pretrain", "read", "reference", "report", "retrain", "score", "select",
         "setting", "study", "suite", "superclasses", "sweep", "table", "train", "trust")
"""The functions of shiftbench.api, named here so that they need not be loaded."""

_HOME = {
    **dict.fromkeys(VERBS, "api"), "demo": "demonstration",
    **dict.fromkeys(("Collection", "Tags", "Texts"), "data.collection"), "Benchmark": "data.benchmark",
    "Predictions": "data.predictions", "Scores": "data.scores", "ShiftBenchError": "core.errors",
    **dict.fromkeys(("Breeds", "Given", "Subset", "Correlation", "Subpopulation", "Recipe", "SHIFTS"), "shifts"),
    **dict.fromkeys(("IID", "Spurious", "LowData", "Unseen", "Noise", "Size", "Under", "CONDITIONS"), "shifts"),
    **dict.fromkeys(("Context", "LeaveOneDomainOut", "Temporal"), "shifts"),
    "METHODS": "methods", "Study": "sweeps.study",
}
"""Where each public name lives."""

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'shiftbench' has no attribute '{name}'")
    return getattr(import_module(f"shiftbench.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
