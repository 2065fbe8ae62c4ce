"""Conditions: what a shift's training set goes through afterwards. Functions from a benchmark to a benchmark."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from shiftbench.core.arrays import Bools, Floats, Ints, Strs, Values, encode, uniform
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.registry import Registry, register
from shiftbench.data.benchmark import Benchmark, cells
from shiftbench.shifts.shift import quota, share

CONDITIONS: Registry[Any] = Registry()
"""Every condition by its name in recipes: `CONDITIONS["noise"]` is `Noise`."""


@register(CONDITIONS, "noise")
@dataclass(frozen=True)
class Noise:
    """Label noise (Wiles et al., 2022, §2.3): each training item has, with probability p, a wrong label for good.

        ŷ_i = y_i                              with probability 1 − p
              uniform over Y \\ {y_i}           with probability p

    Only `train` is touched. The true label is kept in column `true_label`, as a word. An item's noise depends on the
    benchmark's seed and its id alone: a larger p adds wrong labels and changes none. Groups that are cells of label ×
    domain follow the label that is seen. Our reading: the authors' code draws ŷ from all of Y anew at every step, so
    that a share 1 / |Y| of its noise is none; its noise q is our p = q (1 − 1 / |Y|).
    """

    p: float = 0.1

    def __call__(self, benchmark: Benchmark) -> Benchmark:
        share("p", self.p)
        if "true_label" in benchmark.extra:
            raise ShiftBenchError(f"Benchmark '{benchmark.name}' has label noise already. Apply it once.")
        names = benchmark.names["label"]
        if len(names) < 2:
            raise ShiftBenchError(f"Benchmark '{benchmark.name}' has one class: a label cannot be wrong.")
        words = np.asarray(names, np.str_)
        key, seed = _keys(benchmark.items), int(benchmark.card.get("seed", 0))
        wrong = (benchmark.split == "train") & (uniform(seed, "noise", key) < self.p)
        step = 1 + (uniform(seed, "noise label", key) * (len(names) - 1)).astype(np.int64)
        label = np.where(wrong, (benchmark.label + step) % len(names), benchmark.label)
        group, group_names = benchmark.group, benchmark.names["group"]
        before, after = (cells(codes, names, benchmark.domain, benchmark.names["domain"],
                               benchmark.card.get("factors", {})) for codes in (benchmark.label, label))
        if (before == np.asarray(group_names, np.str_)[group]).all():
            group, group_names = encode(after)
        note = f"{int(wrong.sum())} of {len(benchmark.rows('train'))} training labels are wrong (noise p = {self.p:g})."
        return _under(self, Benchmark(
            benchmark.items, benchmark.split, label, benchmark.domain, group, {**benchmark.names, "group": group_names},
            benchmark.card, {**benchmark.extra, "true_label": words[benchmark.label]}), note)


@register(CONDITIONS, "size")
@dataclass(frozen=True)
class Size:
    """Data-set size (Wiles et al., 2022, §2.3 and D.2): n training items in all, at a fixed ratio N / n.

        |train| = n,     |few| = max(1, round(ratio · n))  where training has a part `few`

    With ratio = 0 every cell of part × label × domain keeps its share. Other splits stay as they are, and so does how
    often each part is drawn (with resampling = "importance": each cell). Which items stay depends on the benchmark's
    seed and their ids alone: where n grows, items are added to each cell by the same order.
    """

    n: int
    ratio: float = 0.0  # N / n; 0: as it is

    def __call__(self, benchmark: Benchmark) -> Benchmark:
        share("ratio", self.ratio)
        train = benchmark.rows("train")
        if not 1 <= self.n <= len(train):
            raise ShiftBenchError(f"[condition.size] n = {self.n}, but benchmark '{benchmark.name}' has {len(train)} "
                                  f"training items: give a number from 1 to {len(train)}.")
        part = np.asarray(benchmark.extra.get("part", np.full(len(benchmark), "main")))[train].astype(np.str_)
        few = part == "few"
        truth = encode(benchmark.extra["true_label"])[0] if "true_label" in benchmark.extra else benchmark.label
        # By true label, so that size and noise may be applied in either order.
        cell = np.unique((few * (truth.max() + 1) + truth[train]) * len(benchmark.names["domain"])
                         + benchmark.domain[train], return_inverse=True)[1]
        order = np.lexsort((uniform(int(benchmark.card.get("seed", 0)), "size", _keys(benchmark.items[train])), cell))
        counts = np.bincount(cell)
        if self.ratio:
            wanted = self._parts(counts, np.bincount(cell, weights=few) > 0, benchmark.name)
        else:
            wanted = quota(self.n, counts / counts.sum())
        rank = np.arange(len(order)) - (np.cumsum(counts) - counts)[cell[order]]
        kept = np.zeros(len(train), np.bool_)
        kept[order] = rank < wanted[cell[order]]
        rows = np.sort(np.concatenate([train[kept], np.flatnonzero(benchmark.split != "train")]))
        extra = dict(benchmark.extra)
        if "weight" in extra:
            weight = extra["weight"].astype(np.float64)
            if benchmark.card.get("params", {}).get("resampling") == "importance":
                weight[train] = _of_cells(weight[train], cell, kept)
            else:
                weight[train] = _reweighted(weight[train], few, kept)
            extra["weight"] = weight
        return _under(self, _rows(benchmark, rows, extra), f"Cut to {self.n} of {len(train)} training items.")

    def _parts(self, counts: Ints, few: Bools, name: str) -> Ints:
        """n items of which `ratio · n` are of the part `few`, each part by the shares of its cells."""
        if not few.any():
            raise ShiftBenchError(f"[condition.size] ratio = {self.ratio}, but benchmark '{name}' has no part 'few'. "
                                  "Leave ratio out, or use shift low_data or spurious.")
        low = max(1, round(self.ratio * self.n))
        wanted = np.zeros_like(counts)
        for where, n, word in ((few, low, "few"), (~few, self.n - low, "main")):
            there = int(counts[where].sum())
            if n > there:
                raise ShiftBenchError(f"[condition.size] n = {self.n} at ratio {self.ratio:g} takes {n} items of the "
                                      f"part '{word}', but '{name}' has {there}. Lower n, or raise the shift's number.")
            wanted[where] = quota(n, counts[where] / max(there, 1))
        return wanted


def condition_facts(condition: Any) -> dict[str, Any]:
    """A condition as cards list it: its name and its settings."""
    return {"name": getattr(condition, "name", ""), **asdict(condition)}


def _under(condition: Any, benchmark: Benchmark, note: str) -> Benchmark:
    """The benchmark with a card that tells of the condition, its own copy."""
    card = {**benchmark.card, "conditions": [*benchmark.card.get("conditions", []), condition_facts(condition)],
            "notes": [*benchmark.card.get("notes", []), note], "counts": benchmark.counts()}
    return replace(benchmark, card=json.loads(json.dumps(card)))


def _rows(benchmark: Benchmark, rows: Ints, extra: Mapping[str, Values]) -> Benchmark:
    """Some rows of a benchmark: classes and domains keep their codes, groups without rows are forgotten."""
    group, names = encode(np.asarray(benchmark.names["group"], np.str_)[benchmark.group[rows]])
    return Benchmark(benchmark.items[rows], benchmark.split[rows], benchmark.label[rows], benchmark.domain[rows],
                     group, {**benchmark.names, "group": names}, benchmark.card,
                     {key: values[rows] for key, values in extra.items()})


def _reweighted(weight: Floats, few: Bools, kept: Bools) -> Floats:
    """Weights with which each part is drawn as often as before, 1 on average over the kept items."""
    scaled = weight.copy()
    for rows in (few, ~few):
        if weight[rows & kept].sum() > 0:
            scaled[rows] *= weight[rows].sum() / weight[rows & kept].sum()
    return scaled * (int(kept.sum()) / float(scaled[kept].sum()))


def _of_cells(weight: Floats, cell: Ints, kept: Bools) -> Floats:
    """Weights with which each cell is drawn as often as before, 1 on average over the kept items."""
    total, left = np.bincount(cell, weight), np.bincount(cell, weight * kept)
    scaled: Floats = weight * (total / np.where(left > 0, left, np.inf))[cell]
    return scaled * (int(kept.sum()) / float(scaled[kept].sum()))


def _keys(items: Strs) -> Ints:
    """A number per id, the same whatever the other ids are (FNV-1a over code points)."""
    width = items.dtype.itemsize // 4
    letters = np.ascontiguousarray(items).view(np.uint32).reshape(len(items), width).astype(np.uint64)
    key = np.full(len(items), 0xCBF29CE484222325, np.uint64)
    for column in letters.T:
        # Ids are padded with zeros to the longest; the padding must not count.
        key = np.where(column > 0, (key ^ column) * np.uint64(0x100000001B3), key)
    return key.view(np.int64)
