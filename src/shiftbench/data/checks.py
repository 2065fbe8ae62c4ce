"""Check what a benchmark is fit for: leakage, empty cells, small splits, missing classes, missing image files."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from shiftbench.core.arrays import Bools, Strs, Values, encode
from shiftbench.data.benchmark import Benchmark, cells
from shiftbench.data.collection import Collection
from shiftbench.data.image_files import missing_files
from shiftbench.data.target import BOXES

SMALL_SPLIT = 30
"""With fewer items, the 95 % interval of an accuracy of 0.9 is wider than 0.2, too wide to report."""
SMALL_GROUP = 10

PURPOSES = {"training": ("train",), "selection": ("id_val", "val"), "scoring": ("test",)}
"""What a benchmark may be used for, and the splits of which it needs one: a run trains on train, its weights and its
settings are chosen on id_val or val, and any model's predictions are scored on test."""
VERBS = {"training": ("train", "sweep"), "selection": ("select",), "scoring": ("score", "report", "board")}


class Finding(NamedTuple):
    """One thing to know about a benchmark. `unfit` findings make `shiftbench check` exit with 1.

    `splits` lists the splits that it makes unfit.
    """

    unfit: bool
    what: str
    where: str
    detail: str
    splits: tuple[str, ...] = ()


def check(benchmark: Benchmark, hashes: Values | None = None, missing: Bools | None = None) -> list[Finding]:
    """All findings, the worst first.

    If pixels are available, `hashes` holds a content hash per row, and `missing` marks rows without an image file.
    """
    findings = [*_sizes(benchmark), *_leaks(benchmark, hashes), *_classes(benchmark), *_cells(benchmark)]
    for split in benchmark.splits if missing is not None else ():
        findings += _missing(benchmark.items[(benchmark.split == split) & missing], split)
    return sorted(findings, key=lambda finding: not finding.unfit)


def check_collection(collection: Collection) -> list[Finding]:
    """The problems of a collection: missing image files."""
    return list(_missing(collection.items[missing_files(collection.pixels, collection.root)], ""))


def uses(benchmark: Benchmark, findings: list[Finding]) -> dict[str, str]:
    """Every purpose by name, with the reason why the benchmark is not fit for it; '' if it is fit.

    A benchmark without training items may still be fit for scoring.
    """
    reasons = {}
    for purpose, needed in PURPOSES.items():
        present = [split for split in needed if split in benchmark.splits]
        spoiled = [finding for finding in findings if finding.unfit and set(present) & set(finding.splits)]
        reasons[purpose] = (f"no item is in {' or '.join(needed)}" if not present else
                            f"{spoiled[0].what} ({spoiled[0].where})" if spoiled else "")
    return reasons


def _missing(items: Strs, split: str) -> Iterator[Finding]:
    if len(items):
        yield Finding(True, "missing image file", split, f"{len(items):,} items: {', '.join(items.tolist())}",
                      (split,) if split else ())


def fit(findings: list[Finding]) -> bool:
    """Whether no finding makes the benchmark unfit."""
    return not any(finding.unfit for finding in findings)


def _leaks(benchmark: Benchmark, hashes: Values | None) -> Iterator[Finding]:
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
            yield Finding(True, f"{what} in two splits", str(pair), f"{n} items, for example {benchmark.items[first]}",
                          (str(split[double[pairs == pair][0]]), str(split[double[pairs == pair][0] + 1])))


def _sizes(benchmark: Benchmark) -> Iterator[Finding]:
    if "test" not in benchmark.splits:
        yield Finding(True, "empty split", "test", "it has no items, so nothing can be scored", ("test",))
    for split in benchmark.splits:
        n = len(benchmark.rows(split))
        if n < SMALL_SPLIT:
            yield Finding(True, "small split", split, f"{n} items; an interval needs at least {SMALL_SPLIT}", (split,))


def _truth(benchmark: Benchmark) -> Iterator[Finding]:
    """Check a target that is not a class: numbers must differ, tasks need a yes and a no, detection needs boxes."""
    target = benchmark.target
    for split in benchmark.splits:
        rows = benchmark.rows(split)
        if target.one_per_column:
            table = target.numbers(benchmark.extra, rows)
            low, high = (np.where(np.isnan(table), end, table) for end in (np.inf, -np.inf))
            flat = [name for name, same in zip(target.columns, low.min(axis=0) >= high.max(axis=0),
                                               strict=True) if same]
            if flat:
                bad = target.in_units or len(flat) == len(target.columns)
                yield Finding(bad, "one answer", split, _few("all items have the same of", flat), (split,))
        elif target.detects and not (np.asarray(benchmark.extra[BOXES])[rows] != "").any():
            yield Finding(True, "no boxes", split, "no image has one", (split,))


def _ranked_elsewhere(benchmark: Benchmark) -> bool:
    """Whether the card names its own headline, which gaps in the grid of labels × domains leave defined.

    Real data have such gaps: no camera of iWildCam sees every animal, no user of Amazon gives every number of stars.
    """
    return bool(benchmark.card.get("headline"))


def _classes(benchmark: Benchmark) -> Iterator[Finding]:
    if not benchmark.target.has_classes:
        yield from _truth(benchmark)
        return
    names = benchmark.names["label"]
    if len(names) < 2:
        yield Finding(True, "one class", "label", "there is nothing to tell apart", benchmark.splits)
    for split in benchmark.splits:
        absent = np.setdiff1d(np.arange(len(names)), benchmark.label[benchmark.rows(split)])
        if len(absent):
            bad = split == "train" or not _ranked_elsewhere(benchmark)
            yield Finding(bad, "missing class", split, _few("no item of", [names[code] for code in absent]), (split,))


def _cells(benchmark: Benchmark) -> Iterator[Finding]:
    """Cells of labels × domains in a split. An empty cell in test leaves its score, and the worst, undefined: unfit
    where the worst of these cells is the headline. For a benchmark that is only scored on, it is a note."""
    labels, domains = benchmark.names["label"], benchmark.names["domain"]
    for split in benchmark.splits:
        rows = benchmark.rows(split)
        counts = np.zeros((len(labels), len(domains)), np.int64)
        np.add.at(counts, (benchmark.label[rows], benchmark.domain[rows]), 1)
        there = np.outer(counts.sum(axis=1), counts.sum(axis=0)) > 0
        y, d = np.nonzero(there & (counts == 0))
        empty = cells(y, labels, d, domains, benchmark.card.get("factors", {})).tolist()
        if empty:
            bad = split == "test" and "train" in benchmark.splits and not _ranked_elsewhere(benchmark)
            yield Finding(bad, "empty cell", split, _few("no item in", empty), (split,))
        groups = np.bincount(benchmark.group[rows], minlength=len(benchmark.names["group"]))
        small = [benchmark.names["group"][g] for g in np.flatnonzero((groups > 0) & (groups < SMALL_GROUP))]
        if small and split != "train":
            yield Finding(False, "small group", split, _few(f"under {SMALL_GROUP} items in", small), (split,))


def _few(what: str, names: list[str]) -> str:
    """The first three names and how many more."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{what} " + ", ".join(f"'{name}'" for name in names[:3]) + more
