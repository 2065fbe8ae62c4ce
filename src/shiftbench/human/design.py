"""Design the tasks of annotators: the two superclasses, the example images, and the images to sort."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shiftbench.core.arrays import Ints
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.rng import child
from shiftbench.data.benchmark import Benchmark

CONDITIONS = {"source": ("id_test", "id_val"), "target": ("test",)}
"""The splits of the images to sort: the first of these that has rows."""
EXAMPLES = "train"
"""The split of the example images of both groups."""


@dataclass(frozen=True)
class Design:
    """What a human study asks (Santurkar et al., 2021, A.6); the defaults are the paper's.

    Every superclass meets `partners` others, drawn at random; a pair drawn from both sides is one pair. Each pair is
    a task per condition, with the same examples in both, so that the images to sort are all that differs.
    """

    partners: int = 3
    examples: int = 20  # per group
    questions: int = 12  # half of each group
    conditions: tuple[str, ...] = ("source", "target")
    size: int = 224  # pixels per side of an image on the page
    rescale: int = 256  # its shorter side before the centre is cut out
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("partners", 1), ("examples", 1), ("questions", 2), ("size", 16)):
            if getattr(self, name) < least:
                raise ShiftBenchError(f"human study: '{name}' is {getattr(self, name)}, but must be {least} at least.")
        if self.questions % 2:
            raise ShiftBenchError(f"human study: 'questions' is {self.questions}, but half of them are of each group. "
                                  "Give an even number.")
        if self.rescale < self.size:
            raise ShiftBenchError(f"human study: the centre of {self.size} pixels cannot be cut out of an image "
                                  f"rescaled to {self.rescale}. Give a larger 'rescale'.")
        for name in self.conditions:
            if name not in CONDITIONS:
                raise unknown("condition", name, CONDITIONS)
        if not self.conditions or len(set(self.conditions)) < len(self.conditions):
            raise ShiftBenchError("human study: name each condition once: source, target or both.")


@dataclass(frozen=True, eq=False)
class Task:
    """Two groups of examples and images to sort into them; rows and labels are those of the benchmark."""

    condition: str
    split: str
    labels: tuple[int, int]  # of group 0 and group 1
    examples: tuple[Ints, Ints]
    questions: Ints
    truth: Ints  # 0 or 1 per question


class Deck:
    """Rows of a split and class, dealt in random order; none comes again before all have come."""

    def __init__(self, rows: Ints, rng: np.random.Generator) -> None:
        self.rows, self.rng, self.left = rows, rng, rng.permutation(rows)

    def deal(self, n: int) -> Ints:
        if len(self.left) < n:
            self.left = self.rng.permutation(self.rows)
        dealt, self.left = self.left[:n], self.left[n:]
        return dealt


def plan(benchmark: Benchmark, design: Design) -> tuple[list[Task], list[str]]:
    """The tasks in the order of the page, and notes on what could not be done.

    First every pair once, half of them under each condition, then every pair under its other condition: whoever does
    no more than the first half of the tasks sees no pair twice.
    """
    splits = {name: _split(benchmark, name) for name in design.conditions}
    needs = {EXAMPLES: design.examples} | dict.fromkeys(splits.values(), design.questions // 2)
    able, notes = _able(benchmark, needs)
    names = benchmark.names["label"]
    decks = {(split, code): Deck(benchmark.rows(split)[benchmark.label[benchmark.rows(split)] == code],
                                 child(design.seed, "annotation", split, names[code]))
             for split in needs for code in able}
    rng = child(design.seed, "annotation", "order")
    pairs = _pairs(able, names, design)
    dealt = []
    for index in rng.permutation(len(pairs)):
        labels = tuple(rng.permutation(pairs[index]).tolist())
        shown = (decks[EXAMPLES, labels[0]].deal(design.examples), decks[EXAMPLES, labels[1]].deal(design.examples))
        dealt.append((labels, shown))
    rounds = len(design.conditions)
    tasks = []
    for turn in range(rounds):
        for index, (labels, shown) in enumerate(dealt):
            condition = design.conditions[(index + turn) % rounds]
            asked = np.concatenate([decks[splits[condition], code].deal(design.questions // 2) for code in labels])
            order = rng.permutation(design.questions)
            tasks.append(Task(condition, splits[condition], labels, shown, asked[order],
                              np.repeat([0, 1], design.questions // 2)[order]))
    # The conditions take turns over pairs in random order; shuffling each round leaves no pattern to read off.
    half = len(dealt)
    return [tasks[start + index] for start in range(0, len(tasks), half) for index in rng.permutation(half)], notes


def _split(benchmark: Benchmark, condition: str) -> str:
    for split in CONDITIONS[condition]:
        if len(benchmark.rows(split)):
            return split
    others = [name for name in CONDITIONS if name != condition]
    raise ShiftBenchError(f"Benchmark '{benchmark.name}' has no split {' or '.join(CONDITIONS[condition])}, from which "
                          f"the images of condition '{condition}' come. Ask for condition {others[0]} alone.")


def _able(benchmark: Benchmark, needs: dict[str, int]) -> tuple[list[int], list[str]]:
    """The superclasses with enough items in every split, and a note on the others."""
    names = benchmark.names["label"]
    short: dict[int, str] = {}
    for split, n in needs.items():
        counts = np.bincount(benchmark.label[benchmark.rows(split)], minlength=len(names))
        short |= {int(code): f"{names[code]} ({counts[code]} of {n} in {split})" for code in np.flatnonzero(counts < n)}
    able = [code for code in range(len(names)) if code not in short]
    listed = ", ".join(list(short.values())[:6]) + (f" and {len(short) - 6} more" if len(short) > 6 else "")
    if len(able) < 2:
        raise ShiftBenchError(f"Benchmark '{benchmark.name}': {len(able)} of {len(names)} superclasses have enough "
                              f"items for a human study, but two are needed. Too few: {listed}. Lower 'examples' or "
                              "'questions'.")
    many = f"{len(short)} superclasses have too few and are" if len(short) > 1 else "1 superclass has too few and is"
    return able, [f"{many} left out: {listed}."] if short else []


def _pairs(able: Sequence[int], names: Sequence[str], design: Design) -> list[tuple[int, int]]:
    pairs: set[tuple[int, int]] = set()
    for code in able:
        others = [other for other in able if other != code]
        rng = child(design.seed, "annotation", "partners", names[code])
        for other in rng.permutation(others)[:design.partners].tolist():
            pairs.add((min(code, other), max(code, other)))
    return sorted(pairs)
