"""shiftbench: controlled, explained, measured distribution shifts.

    import shiftbench as sb

Every verb of the command line is a function here: sb.read, sb.build, sb.check, sb.embed, sb.train, sb.score, sb.report.
Names are loaded when they are first used, so that the import is quick and needs no torch.
"""

from importlib import import_module
from typing import Any

from shiftbench.api import HOME as VERBS

__version__ = "0.1.0"

_HOME = {
    **{verb: f"api.{module}" for verb, module in VERBS.items()}, "demo": "demonstration",
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
