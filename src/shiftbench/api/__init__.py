"""The verbs in Python: the same words as on the command line. Each takes folders or objects and returns an object.

    import shiftbench as sb
    scenes = sb.read("world", "scenes", out="collections/scenes")
    bench = sb.build("recipe.toml", out="benchmarks/cat-dog")
    sb.train("benchmarks/cat-dog", method="group_dro", out="runs", seed=1)
    sb.report("runs", out="report.html")

A verb is loaded when it is first used, and its stages inside it: the package loads quickly, and only training loads
torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shiftbench.api.comparing import gap, table
    from shiftbench.api.judging import board, hardest, power, report, score, select, study
    from shiftbench.api.making import (
        build,
        check,
        download,
        export,
        graph,
        hierarchy,
        ladder,
        read,
        reference,
        setting,
        suite,
        superclasses,
        trust,
    )
    from shiftbench.api.training import conflicts, embed, fetch, pretrain, retrain, sweep, train

HOME = {
    **dict.fromkeys(("gap", "table"), "comparing"),
    **dict.fromkeys(("board", "hardest", "power", "report", "score", "select", "study"), "judging"),
    **dict.fromkeys(("build", "check", "download", "export", "graph", "hierarchy", "ladder", "read", "reference",
                     "setting", "suite", "superclasses", "trust"), "making"),
    **dict.fromkeys(("conflicts", "embed", "fetch", "pretrain", "retrain", "sweep", "train"), "training"),
}
"""Verb -> its module."""

__all__ = ["HOME", "board", "build", "check", "conflicts", "download", "embed", "export", "fetch", "gap", "graph",
           "hardest", "hierarchy", "ladder", "power", "pretrain", "read", "reference", "report", "retrain", "score",
           "select", "setting", "study", "suite", "superclasses", "sweep", "table", "train", "trust"]


def __getattr__(name: str) -> Any:
    if name not in HOME:
        raise AttributeError(f"module 'shiftbench.api' has no attribute '{name}'")
    return getattr(import_module(f"shiftbench.api.{HOME[name]}"), name)
