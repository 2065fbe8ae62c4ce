"""The selection rules: the metric and splits of each, the labels it uses, and the runs that it chooses from."""

import re
from typing import NamedTuple

import numpy as np

from shiftbench.core.arrays import Bools, Floats, Ints, Strs, encode
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.scores import ALL, RUN, Measure, Scores
from shiftbench.data.target import KINDS
from shiftbench.scoring.metrics import is_worst, metric_of
from shiftbench.shifts.leave_one_domain_out import MARK

TARGETS = ("accuracy", "worst_group_accuracy")
"""The measures that judge a choice on test, and by which the oracle chooses."""

NONE, SHIFTED, UNKNOWN, TARGET = LABELS = ("none", "shifted", "unknown", "target")
"""Labels from after the shift that a choice used, in order of harm: none; those of other domains than the test's;
those of `val`, with no benchmark at hand to look up its domains; those of the test's own domains or items."""

DEFAULT = "id"
"""The rule of a report's tables."""


class Rule(NamedTuple):
    """A criterion: a metric on the first of some splits that was scored."""

    head: str  # its name in tables
    metric: str  # empty: what a choice is judged by on test, or the headline
    splits: tuple[str, ...]
    uses: str  # what must be known to apply it
    headline: bool = False  # by the metric that ranks methods on the benchmark, as its card says

    @property
    def lower(self) -> bool:
        """Whether smaller is better."""
        return metric_of(self.metric).lower


RULES: dict[str, Rule] = {
    "id": Rule("ID validation", "accuracy", ("id_val",), "labels of items drawn as training was"),
    "leave_one_domain_out": Rule("Leave one domain out", "accuracy", (MARK,),
                                 "the domains of training, and one more run for each"),
    "worst_group": Rule("Worst group", "worst_group_accuracy", ("id_val", "val"),
                        "labels and groups of validation items"),
    "worst_class": Rule("Worst class", "worst_class_accuracy", ("id_val", "val"), "labels of validation items"),
    "nooch": Rule("NOOCh", "worst_group_nll", ("id_val", "val"), "labels and groups of validation items"),
    "f1": Rule("Validation F1", "macro_f1", ("val", "id_val"), "labels of validation items, shifted ones first"),
    "accuracy": Rule("Validation accuracy", "accuracy", ("val", "id_val"),
                     "labels of validation items, shifted ones first"),
    "ood": Rule("OOD validation", "accuracy", ("val",), "labels of items drawn after the shift"),
    "wilds": Rule("WILDS", "", ("val",), "labels and groups of items drawn after the shift", headline=True),
    "oracle": Rule("Oracle", "", ("test",), "the labels of the test"),
}
"""`nooch` minimises the larger of the mean losses of hard positives and hard negatives (Madras & Zemel, 2021, §6);
where no group is named so, the largest group's. `f1` is Wiles et al.'s (2022): top-1 F1 on the validation set, which is
out of distribution where there is such a one; `accuracy` is the same by top-1 accuracy, as their released code has it.
`wilds` is Koh et al.'s (2021): the benchmark's own headline on `val`, FMoW's worst region, Amazon's user at the tenth
percentile, and so on. `oracle` chooses by the reported value itself: it is the upper bound.
"""


def labels_of(split: str, benchmark: Benchmark | None) -> str:
    """Which labels from after the shift a criterion on this split uses.

    `val` is drawn after the shift. Where it has domains of the test its labels are the target's; where it has none, it
    is another shift of the same kind.
    """
    if split == "test":
        return TARGET
    if split != "val":
        return NONE
    if benchmark is None or not {"val", "test"} <= set(benchmark.splits):
        return UNKNOWN
    val, test = (set(benchmark.domain[benchmark.rows(part)].tolist()) for part in ("val", "test"))
    return TARGET if val & test else SHIFTED


# The single runs of a table of scores, in columns: who each run is, and any one of its scores.

HARD = (re.compile(r"\bhard[ _-]?positive", re.I), re.compile(r"\bhard[ _-]?negative", re.I))
"""Patterns of the names of NOOCh's groups, with any text around them."""

ACCURACY, NLL, HARD_LOSS = Measure("accuracy"), Measure("nll"), Measure("nll of hard items")
INSTEAD = tuple(sorted({target.headline for target in KINDS.values()} - {"accuracy"}))
"""The metrics that replace `accuracy` if the target is not a class."""


class Number(NamedTuple):
    """One score of every run, its interval and its number of items; NaN if a run has none."""

    value: Floats
    low: Floats
    high: Floats
    n: Floats


class Runs:
    """One entry per run. Means over runs are left out."""

    def __init__(self, scores: Scores) -> None:
        self.scores = scores.where(stat=RUN)
        keys = {"benchmark": self.scores["benchmark"], "run": self.scores["run"], "method": self.scores.names,
                "seed": self.scores["seed"], "setting": self.scores["setting"]}
        # A run's rows are mostly adjacent, so it is enough to look at the first row of every stretch.
        begins = np.r_[True, np.zeros(max(0, len(self.scores) - 1), np.bool_)][: len(self.scores)]
        for values in keys.values():
            begins[1:] |= values[1:] != values[:-1]
        heads = {name: values[begins] for name, values in keys.items()}
        codes = {name: encode(values) for name, values in heads.items()}
        key = np.zeros(len(heads["run"]), np.int64)
        for name in ("benchmark", "run", "method", "seed"):
            code, names = codes[name]
            _, first, key = np.unique(key * max(1, len(names)) + code, return_index=True, return_inverse=True)
        self.of_row: Ints = key[np.cumsum(begins) - 1]  # the run's number for every row
        self.benchmarks, self.methods = codes["benchmark"][1], codes["method"][1]
        self.benchmark, self.method, self.rank, setting = (
            codes[name][0][first] for name in ("benchmark", "method", "run", "setting"))
        self.seed: Ints = heads["seed"][first]
        self.name: Strs = heads["run"][first]
        self.setting: Strs = heads["setting"][first]
        # A rule chooses among the runs of one cell; runs with one number in `alike` differ only in their benchmark.
        self.cell: Ints = self.method * max(1, len(codes["seed"][1])) + codes["seed"][0][first]
        _, self.alike = np.unique(self.cell * max(1, len(codes["setting"][1])) + setting, return_inverse=True)
        self._numbers: dict[tuple[str, Measure], Number] = {}
        self._words: dict[tuple[str, str], Bools] = {}

    def __len__(self) -> int:
        return len(self.name)

    def of(self, benchmark: int) -> Ints:
        """The runs on a benchmark."""
        return np.flatnonzero(self.benchmark == benchmark)

    @property
    def originals(self) -> list[int]:
        """The benchmarks that are not parts of another benchmark in the table with a domain left out."""
        return [code for code, name in enumerate(self.benchmarks)
                if MARK not in name or name.rpartition(MARK)[0] not in self.benchmarks]

    def parts(self, benchmark: int) -> list[int]:
        """The benchmarks that leave out a domain of this one."""
        whole = self.benchmarks[benchmark]
        return [code for code, name in enumerate(self.benchmarks) if MARK in name and name.rpartition(MARK)[0] == whole]

    @property
    def several(self) -> set[str]:
        """The benchmarks on which a method has runs that differ in more than their seed."""
        cells = self.benchmark * (1 + int(self.cell.max(initial=0))) + self.cell
        _, first, n = np.unique(cells, return_index=True, return_counts=True)
        return {self.benchmarks[code] for code in self.benchmark[first[n > 1]] if code in self.originals}

    def number(self, split: str, measure: Measure) -> Number:
        """A score over all items, or over whichever group or class is the worst.

        Where the target is no class, `accuracy` is its headline.
        """
        if (split, measure) not in self._numbers:
            number = self._number(split, measure)
            for other in INSTEAD if measure == ACCURACY else ():
                lacks = np.isnan(number.value)
                number = Number(*(np.where(lacks, more, values) for values, more in zip(
                    number, self._number(split, Measure(other)), strict=True)))
            self._numbers[split, measure] = number
        return self._numbers[split, measure]

    def _number(self, split: str, measure: Measure) -> Number:
        rows = self._rows(split, measure)
        if not is_worst(measure.metric):
            rows = rows & self._is("group", ALL)
        return Number(*(self._by_run(rows, name) for name in Number._fields))

    def which(self, split: str, measure: Measure) -> Strs:
        """The worst group or class of every run; empty if a run has no such score."""
        rows, group = self._rows(split, measure), np.zeros(len(self), self.scores["group"].dtype)
        group[self.of_row[rows]] = self.scores["group"][rows]
        return group

    def hard(self, split: str) -> Number:
        """The larger of the mean losses of hard positives and of hard negatives; NaN if no group has such a name."""
        if (split, HARD_LOSS) not in self._numbers:
            rows = np.flatnonzero(self._rows(split, NLL))
            code, names = encode(self.scores["group"][rows])
            loss, size = np.full((2, len(self)), np.nan), np.zeros((2, len(self)))
            for side, pattern in enumerate(HARD):
                matching = rows[np.asarray([bool(pattern.search(name)) for name in names], np.bool_)[code]]
                n = self.scores["n"][matching].astype(np.float64)
                total = np.bincount(self.of_row[matching], n * self.scores["value"][matching], minlength=len(self))
                size[side] = np.bincount(self.of_row[matching], n, minlength=len(self))
                np.divide(total, size[side], out=loss[side], where=size[side] > 0)
            none = np.full(len(self), np.nan)
            self._numbers[split, HARD_LOSS] = Number(np.fmax(*loss), none, none, size.max(axis=0))
        return self._numbers[split, HARD_LOSS]

    def best(self, candidates: Ints, criterion: Floats) -> Ints:
        """The candidate with the smallest criterion for each method and seed; NaN is no criterion.

        Ties go to the smaller nll on id_val, then to the run whose name comes first.
        """
        runs = candidates[~np.isnan(criterion[candidates])]
        loss = self.number("id_val", NLL).value[runs]
        order = runs[np.lexsort((self.rank[runs], np.where(np.isnan(loss), np.inf, loss), criterion[runs],
                                 self.cell[runs]))]
        return order[np.unique(self.cell[order], return_index=True)[1]]

    def _rows(self, split: str, measure: Measure) -> Bools:
        return self._is("split", split) & self._is("metric", measure.metric) & self._is("by", measure.by)

    def _is(self, column: str, word: str) -> Bools:
        if (column, word) not in self._words:
            self._words[column, word] = np.asarray(self.scores[column] == word)
        return self._words[column, word]

    def _by_run(self, rows: Bools, column: str) -> Floats:
        values = np.full(len(self), np.nan)
        values[self.of_row[rows]] = self.scores[column][rows]
        return values
