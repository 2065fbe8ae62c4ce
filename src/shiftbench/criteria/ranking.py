"""Which tasks make a suite: those whose hard items cost most more than all items do (Madras & Zemel, 2021, §3.2)."""

import math
from collections.abc import Mapping
from typing import NamedTuple

from shiftbench.errors import ShiftBenchError, unknown


class Ranked(NamedTuple):
    """A task and by how much its mean loss on hard items exceeds that on all items."""

    task: str
    hard: float
    all: float
    gap: float


def hardest_tasks(hard: Mapping[str, float], every: Mapping[str, float], n: int = 12) -> list[Ranked]:
    """The n tasks with the largest  mean loss on hard items − mean loss on all items,  largest first.

    Tasks without a loss on hard items (NaN: they have none) do not take part; of equal ones the name decides.

    >>> chosen = hardest_tasks({"car": 0.9, "tie": 0.3, "cat": 0.4}, {"car": 0.4, "tie": 0.1, "cat": 0.1}, 2)
    >>> [one.task for one in chosen]
    ['car', 'cat']
    """
    for task in hard:
        if task not in every:
            raise unknown("task", task, every, "Mean losses on all items")
    able = [Ranked(task, loss, every[task], loss - every[task]) for task, loss in hard.items()
            if math.isfinite(loss) and math.isfinite(every[task])]
    if not 1 <= n <= len(able):
        raise ShiftBenchError(f"{n} tasks are asked for, but {len(able)} of {len(hard)} have losses on hard and on all "
                              "items. Ask for as many as there are, or train more tasks.")
    return sorted(able, key=lambda one: (-one.gap, one.task))[:n]
