"""Is a benchmark fit to be used? Leakage, empty cells, small splits, missing classes."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from shiftbench.arrays import Strs, encode
from shiftbench.benchmark import Benchmark
from shiftbench.target import BOXES

SMALL_SPLIT = 30
"""Under this many items a 95 % interval of an accuracy of 0.9 is wider than 0.2: say nothing rather than that."""
SMALL_GROUP = 10


class Finding(NamedTuple):
    """One thing to know about a benchmark. `unfit` findings make `shiftbench check` exit with 1."""

    unfit: bool
    what: str
    where: str
    detail: str


def check(benchmark: Benchmark, hashes: Strs | None = None) -> list[Finding]:
    """Everything found, the worst first. `hashes` holds a content hash per row, where pixels are at hand."""
    found = [*_sizes(benchmark), *_leaks(benchmark, hashes), *_classes(benchmark), *_cells(benchmark)]
    return sorted(found, key=lambda finding: not finding.unfit)


def fit(findings: list[Finding]) -> bool:
    """Whether nothing found makes the benchmark unfit."""
    return not any(finding.unfit for finding in findings)


def _leaks(benchmark: Benchmark, hashes: Strs | None) -> Iterator[Finding]:
    sources = [("same item", benchmark.items)] + ([("same content", hashes)] if hashes is not None else [])
    for what, values in sources:
        codes, _ = encode(values)
        order = np.argsort(codes, kind="stable")
        split, code = benchmark.split[order], codes[order]
        double = np.flatnonzero((code[1:] == code[:-1]) & (split[1:] != split[:-1]))
        pairs = np.asarray([" and ".join(sorted(pair)) for pair in zip(split[double], split[double + 1], strict=True)])
        for pair in np.unique(pairs) if len(pairs) else []:
            n = int((pairs == pair).sum())
            first = order[double[pairs == pair][0]]
            yield Finding(True, f"{what} in two splits", str(pair), f"{n} items, for example {benchmark.items[first]}")


def _sizes(benchmark: Benchmark) -> Iterator[Finding]:
    for split in ("train", "test"):
        if split not in benchmark.splits:
            yield Finding(True, "empty split", split, "it has no items")
    for split in benchmark.splits:
        n = len(benchmark.rows(split))
        if n < SMALL_SPLIT:
            yield Finding(True, "small split", split, f"{n} items; an interval needs at least {SMALL_SPLIT}")


def _truth(benchmark: Benchmark) -> Iterator[Finding]:
    """Of a target that is no class: numbers that differ, tasks with a yes and a no, boxes."""
    kind = benchmark.target.kind
    for split in benchmark.splits:
        rows = benchmark.rows(split)
        if kind in ("number", "tasks"):
            table = np.stack([np.asarray(benchmark.extra[name])[rows] for name in benchmark.target.columns], axis=1)
            low, high = (np.where(np.isnan(table), end, table) for end in (np.inf, -np.inf))
            flat = [name for name, same in zip(benchmark.target.columns, low.min(axis=0) >= high.max(axis=0),
                                               strict=True) if same]
            if flat:
                bad = kind == "number" or len(flat) == len(benchmark.target.columns)
                yield Finding(bad, "one answer", split, _few("all items have the same of", flat))
        elif kind == "boxes" and not (np.asarray(benchmark.extra[BOXES])[rows] != "").any():
            yield Finding(True, "no boxes", split, "no image has one")


def _ranked_elsewhere(benchmark: Benchmark) -> bool:
    """Whether the card names its own headline, which gaps in the grid of labels × domains leave defined.

    Real data have such gaps: no camera of iWildCam sees every animal, no user of Amazon gives every number of stars.
    """
    return bool(benchmark.card.get("headline"))


def _classes(benchmark: Benchmark) -> Iterator[Finding]:
    if benchmark.target.kind != "class":
        yield from _truth(benchmark)
        return
    names = benchmark.names["label"]
    if len(names) < 2:
        yield Finding(True, "one class", "label", "there is nothing to tell apart")
    for split in benchmark.splits:
        absent = np.setdiff1d(np.arange(len(names)), benchmark.label[benchmark.rows(split)])
        if len(absent):
            bad = split == "train" or not _ranked_elsewhere(benchmark)
            yield Finding(bad, "missing class", split, _few("no item of", [names[code] for code in absent]))


def _cells(benchmark: Benchmark) -> Iterator[Finding]:
    """Cells of the labels × domains of a split. An empty one in test leaves its score, and the worst, undefined: unfit
    where the worst of these cells is what counts."""
    labels, domains = benchmark.names["label"], benchmark.names["domain"]
    for split in benchmark.splits:
        rows = benchmark.rows(split)
        counts = np.zeros((len(labels), len(domains)), np.int64)
        np.add.at(counts, (benchmark.label[rows], benchmark.domain[rows]), 1)
        there = np.outer(counts.sum(axis=1), counts.sum(axis=0)) > 0
        empty = [f"{labels[y]}, {domains[d]}" for y, d in np.argwhere(there & (counts == 0))]
        if empty:
            bad = split == "test" and not _ranked_elsewhere(benchmark)
            yield Finding(bad, "empty cell", split, _few("no item in", empty))
        groups = np.bincount(benchmark.group[rows], minlength=len(benchmark.names["group"]))
        small = [benchmark.names["group"][g] for g in np.flatnonzero((groups > 0) & (groups < SMALL_GROUP))]
        if small and split != "train":
            yield Finding(False, "small group", split, _few(f"under {SMALL_GROUP} items in", small))


def _few(what: str, names: list[str]) -> str:
    """The first three names and how many more."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{what} " + ", ".join(f"'{name}'" for name in names[:3]) + more
