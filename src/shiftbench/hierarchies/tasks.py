"""BREEDS' four named tasks: their settings (Table 2) and the subclasses of their random split (Tables 8 to 11)."""

from functools import cache
from importlib.resources import files
from typing import NamedTuple

from shiftbench.errors import ShiftBenchError
from shiftbench.files import read_json
from shiftbench.hierarchies.hierarchy import Hierarchy
from shiftbench.hierarchies.superclasses import Superclasses, superclasses
from shiftbench.registry import find


class Task(NamedTuple):
    """Where a task cuts the authors' hierarchy, and how many subclasses a superclass has."""

    root: str
    level: int
    subclasses: int


TASKS = {
    "entity13": Task("n00001740", 3, 20),
    "entity30": Task("n00001740", 4, 8),
    "living17": Task("n00004258", 5, 4),
    "nonliving26": Task("n00021939", 5, 4),
}


def named_task(
    name: str, hierarchy: Hierarchy | None = None, split: str = "rand", *, adversariality: float | None = None,
    seed: int = 0, compat: str = "",
) -> Superclasses:
    """A task by name. Without a hierarchy it is the paper's table, its random split; with one, the task's cut of it."""
    task = find(TASKS, "task", name.lower().replace("-", "").replace("_", ""))
    if hierarchy is not None:
        return superclasses(hierarchy, task.level, task.root, task.subclasses, split, adversariality=adversariality,
                            seed=seed, compat=compat)
    if split != "rand" or adversariality is not None:
        asked = f"split '{split}'" if split != "rand" else f"adversariality {adversariality}"
        raise ShiftBenchError(f"Task '{name}': {asked} needs the hierarchy. Give the folder of BREEDS' files; the "
                              "random split alone is built in.")
    return _tables()[next(key for key in TASKS if TASKS[key] is task)]


@cache
def _tables() -> dict[str, Superclasses]:
    """The wnids of Tables 8 to 11, in their order."""
    raw = read_json(str(files(__package__) / "tasks.json"))
    names = raw["names"]
    return {
        task: Superclasses(
            tuple(row["superclass"] for row in rows), tuple(tuple(row["source"]) for row in rows),
            tuple(tuple(row["target"]) for row in rows),
            titles={node: names[node] for row in rows for node in (row["superclass"], *row["source"], *row["target"])})
        for task, rows in raw["tasks"].items()
    }
