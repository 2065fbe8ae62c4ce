"""How often an audit reports what is not there, and how often its intervals miss: split, search, choice and test.

A draw makes a table, or takes it with permuted losses, splits the items, by label where there are labels, searches all
conjunctions of up to three predicates on one part and confirms on the other. What a context truly is comes from the
rates that losses were drawn with, on the confirming items. Per case, in per cent:

    reports       draws with a finding
    false         mean share of false findings (not worse than the rest) among those shown, and among all; 0 without any
    missed        mean share of the intervals that miss, of the loss inside and of the difference; 0 without findings
    seen          planted contexts that a finding matches, by at least 80 % of the items of both together

At a false discovery rate of 10 % the first three may be 10 at most in cases where nothing is planted, and the second
and third in all cases.
Run: python bench/audit_null.py [DRAWS] [FILE.md]; the table for docs/audit_statistics.md is written to FILE.md.
"""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from shiftbench.auditing.audit import split_items
from shiftbench.auditing.confirm import confirm
from shiftbench.auditing.findings import Finding
from shiftbench.auditing.predicates import ALONE, Predicate, Predicates, packed
from shiftbench.auditing.search import describe, search
from shiftbench.core.arrays import Bools, Floats, Ints, child

FDR = 0.1
MATCH = 0.8
Random = np.random.Generator


class Table(NamedTuple):
    """Columns × items, the losses of a draw, their expectation, the planted contexts, clusters, and labels.

    A column that says what was `predicted` is combined with no other, as in an audit.
    """

    columns: Ints
    loss: Floats
    mean: Floats
    planted: tuple[Bools, ...] = ()
    cluster: Ints | None = None
    label: Ints | None = None
    predicted: int = -1


class Outcome(NamedTuple):
    """One draw's shares."""

    reports: float
    false_shown: float
    false_all: float
    missed_loss: float
    missed_difference: float
    seen: float


def columns_of(rng: Random, n: int, count: int, values: int, copy: float = 0.0) -> Ints:
    """Columns of random values; with `copy`, each repeats the one before it in that share of the items."""
    columns = rng.integers(0, values, (count, n))
    for number in range(1, count):
        same = rng.random(n) < copy
        columns[number, same] = columns[number - 1, same]
    return columns


def predicates_in(columns: Ints, alone: int = -1) -> Predicates:
    """A predicate for every value of every column; those of the column `alone` are combined with no other."""
    pairs = [(number, value) for number in range(len(columns)) for value in range(int(columns[number].max()) + 1)]
    return Predicates(
        tuple(Predicate(f"c{number}", str(value), "factor", f"c{number} is {value}") for number, value in pairs),
        np.stack([packed(columns[number] == value) for number, value in pairs]), columns.shape[1],
        np.asarray([ALONE if number == alone else number for number, _ in pairs], np.int32))


def permuted(rng: Random, columns: Ints, share: float) -> Table:
    """A fixed number of errors in random places."""
    n = columns.shape[1]
    loss = rng.permutation((np.arange(n) < round(share * n)).astype(np.float64))
    return Table(columns, loss, np.full(n, loss.mean()))


def labelled(rng: Random, items: int, labels: int, share: float, predictions: bool) -> Table:
    """Labels that are all as frequent and as hard: a wrong prediction is any other label; with the predictions or not.

    So the share of errors is the same for every label and for every prediction.
    """
    label = rng.permutation(np.arange(items) % labels)
    wrong = rng.random(items) < share
    predicted = np.where(wrong, (label + rng.integers(1, labels, items)) % labels, label)
    columns = np.stack([label, predicted] if predictions else [label])
    return Table(columns, wrong.astype(np.float64), np.full(items, share), label=label, predicted=1)


def skewed(rng: Random, columns: Ints) -> Table:
    """Log-losses: many small, few large."""
    n = columns.shape[1]
    return Table(columns, rng.gamma(0.5, 1.0, n), np.full(n, 0.5))


def five(columns: Ints) -> tuple[Bools, ...]:
    """One planted context of a single predicate, three of two and one of three."""
    members = ([(0, 0)], [(1, 1), (2, 2)], [(3, 0), (4, 1)], [(5, 2), (6, 3)], [(1, 3), (4, 0), (7, 1)])
    return tuple(np.logical_and.reduce([columns[column] == value for column, value in row]) for row in members)


def planted(rng: Random, columns: Ints, binary: bool = True) -> Table:
    contexts = five(columns)
    mean = np.minimum(0.1 + 0.25 * np.sum(contexts, axis=0), 0.9)
    n = columns.shape[1]
    loss = (rng.random(n) < mean).astype(np.float64) if binary else rng.gamma(0.5, 2.0, n) * mean
    return Table(columns, loss, mean, contexts)


def clustered(rng: Random, items: int, within: bool) -> Table:
    """Videos of 12 frames with an error rate of their own; contexts are of whole videos, or of frames as well."""
    videos = items // 12
    cluster = np.repeat(np.arange(videos), 12)
    columns = rng.integers(0, 3, (6, videos))[:, cluster]
    if within:
        columns[3:] = rng.integers(0, 3, (3, len(cluster)))
    loss = (rng.random(len(cluster)) < rng.beta(0.4, 1.6, videos)[cluster]).astype(np.float64)
    return Table(columns, loss, np.full(len(cluster), 0.2), cluster=cluster)


def changes(rng: Random, columns: Ints) -> Table:
    """Two models that disagree more in some contexts, and are worse by 2 points everywhere."""
    n = columns.shape[1]
    often = np.where(columns[0] == 0, 0.3, 0.06)
    draw = rng.random(n)
    loss = np.where(draw < often / 2 + 0.01, 1.0, np.where(draw < often, -1.0, 0.0))
    return Table(columns, loss, np.full(n, 0.02))


CASES: Mapping[str, Callable[[Random], Table]] = {
    "nothing, 8 columns of 4 values, 2,400 items": lambda rng: permuted(rng, columns_of(rng, 2400, 8, 4), 0.15),
    "nothing, each column repeats 80 % of the one before": lambda rng: permuted(
        rng, columns_of(rng, 2400, 8, 4, copy=0.8), 0.15),
    "nothing, 12 columns of 2 values, 3 % errors, 1,000 items": lambda rng: permuted(
        rng, columns_of(rng, 1000, 12, 2), 0.03),
    "nothing, 4 columns of 20 values, 50 % errors, 5,000 items": lambda rng: permuted(
        rng, columns_of(rng, 5000, 4, 20), 0.5),
    "nothing, 10 labels, 40 % errors, 6,000 items": lambda rng: labelled(rng, 6000, 10, 0.4, predictions=False),
    "nothing, 10 labels and what was predicted, 40 % errors, 6,000 items": lambda rng: labelled(
        rng, 6000, 10, 0.4, predictions=True),
    "nothing, skewed log-losses": lambda rng: skewed(rng, columns_of(rng, 2400, 6, 3)),
    "nothing, clusters of 12, contexts of whole clusters": lambda rng: clustered(rng, 2400, within=False),
    "nothing, clusters of 12, contexts that cut them": lambda rng: clustered(rng, 2400, within=True),
    "two models, the same change everywhere": lambda rng: changes(rng, columns_of(rng, 2400, 6, 3)),
    "5 planted": lambda rng: planted(rng, columns_of(rng, 4000, 8, 4)),
    "5 planted, each column repeats 60 % of the one before": lambda rng: planted(
        rng, columns_of(rng, 4000, 8, 4, copy=0.6)),
    "5 planted, skewed losses": lambda rng: planted(rng, columns_of(rng, 4000, 8, 4), binary=False),
}


def audit(table: Table, seed: int, dependence: str = "prds") -> tuple[tuple[Finding, ...], Predicates, Bools]:
    """The chain of an audit, without reading and writing."""
    predicates = predicates_in(table.columns, table.predicted)
    held = split_items(predicates.n, seed=seed, strata=table.label, cluster=table.cluster)
    explore, loss = predicates.take(~held), table.loss[~held]
    slices = describe(explore, loss, search(explore, loss, depth=3, least=20))
    confirmed = confirm(predicates, table.loss, slices, held, fdr=FDR, dependence=dependence, cluster=table.cluster,
                        seed=seed)
    return confirmed.findings, predicates, held


def outcome(table: Table, seed: int, dependence: str = "prds") -> Outcome:
    """Audit a table, and hold what is reported against what the losses were drawn from."""
    findings, predicates, held = audit(table, seed, dependence)
    numbers = {predicate: number for number, predicate in enumerate(predicates.list)}
    masks = [np.logical_and.reduce([predicates.mask(numbers[member]) for member in finding.members])
             for finding in findings]
    inside = [float(table.mean[mask & held].mean()) for mask in masks]
    outside = [float(table.mean[~mask & held].mean()) for mask in masks]
    false = [one <= other + 1e-9 for one, other in zip(inside, outside, strict=True)]
    shown = [bad for bad, finding in zip(false, findings, strict=True) if finding.parent < 0]
    loss = [not finding.low <= one <= finding.high for finding, one in zip(findings, inside, strict=True)]
    difference = [not finding.difference_low - 1e-9 <= one - other <= finding.difference_high + 1e-9
                  for finding, one, other in zip(findings, inside, outside, strict=True)]
    seen = [any((mask & context).sum() >= MATCH * (mask | context).sum() for mask in masks)
            for context in table.planted]
    return Outcome(float(len(findings) > 0), *(float(np.mean(part)) if part else 0.0 for part in (
        shown, false, loss, difference)), float(np.mean(seen)) if seen else np.nan)


def simulate(case: str, draws: int, dependence: str = "prds") -> Outcome:
    """Means over draws."""
    rng = child(0, "bench", "audit", case)
    results = [outcome(CASES[case](rng), seed, dependence) for seed in range(draws)]
    return Outcome(*np.mean(results, axis=0).tolist())


def main(draws: int, path: str | None) -> None:
    lines = ["| table | reports | false, shown | false, all | missed, loss | missed, difference | planted, seen |",
             "|--|--|--|--|--|--|--|"]
    for case in CASES:
        cells = ["–" if np.isnan(value) else f"{100 * value:.1f}" for value in simulate(case, draws)]
        lines.append(f"| {case} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    lines.append(f"\n{draws:,} draws of each, in per cent; `python bench/audit_null.py {draws}`.")
    if path:
        Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000, sys.argv[2] if len(sys.argv) > 2 else None)
