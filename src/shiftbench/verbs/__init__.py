"""The verbs in Python: the same words as on the command line. Each takes folders or objects and returns an object.

    import shiftbench as sb
    scenes = sb.read("world", "scenes", out="collections/scenes")
    bench = sb.build("recipe.toml", out="benchmarks/cat-dog")
    sb.train("benchmarks/cat-dog", method="group_dro", out="runs", seed=1)
    sb.report("runs", out="report.html")

Stages are imported inside the functions, so that the package loads quickly and only training loads torch.
"""

from shiftbench.verbs.comparing import gap, setting
from shiftbench.verbs.judging import board, hardest, power, report, score, select, study
from shiftbench.verbs.making import build, check, export, graph, hierarchy, ladder, read, suite, superclasses
from shiftbench.verbs.training import conflicts, embed, fetch, pretrain, retrain, sweep, train

__all__ = ["board", "build", "check", "conflicts", "embed", "export", "fetch", "gap", "graph", "hardest", "hierarchy",
           "ladder", "power", "pretrain", "read", "report", "retrain", "score", "select", "setting", "study", "suite",
           "superclasses", "sweep", "train"]
