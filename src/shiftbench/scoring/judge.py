"""What predictions are worth on a benchmark, with intervals: one run, or the means of methods over their runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from shiftbench.answers import Answers
from shiftbench.arrays import Bools, Floats, Ints
from shiftbench.benchmark import Benchmark
from shiftbench.collection import Collection
from shiftbench.errors import ShiftBenchError
from shiftbench.groupings import Grouping, groupings_of
from shiftbench.metrics import METRICS, Table, f1_items, has_probabilities, losses
from shiftbench.predictions import Predictions
from shiftbench.registry import find
from shiftbench.scores import ALL, Scores
from shiftbench.scoring.estimates import Estimate, loss, share, worst_loss, worst_share
from shiftbench.scoring.groups import by_grouping
from shiftbench.scoring.kinds import SIDES, by_kind, kinds_of
from shiftbench.scoring.rows import CORRECTED, GAP, MEAN, Row, Rows, predicted_splits
from shiftbench.scoring.targets import mean_target, score_target
from shiftbench.stats import LEVEL, REPLICATES, bootstrap, interval


def score(
    benchmark: Benchmark,
    predictions: Predictions | Answers,
    *,
    run: str = "",
    method: str = "",
    setting: str = "",
    seed: int = 0,
    replicates: int = REPLICATES,
    level: float = LEVEL,
    metrics: Sequence[str] = (),
    by: Sequence[str] = (),
    collection: Collection | None = None,
) -> Scores:
    """Every split that was predicted, each number with an interval over its items.

    Per split: `accuracy` of all items and of every group that has items; `worst_group_accuracy` (its group is the
    lowest, n that group's size) and `worst_class_accuracy` (its group is the class); `macro_f1`; where the scores are
    more than a choice, `nll` of all and of every group and `worst_group_nll`, the highest; and, where both are there,
    `accuracy_gap` = id_test − test. Where rows have a `kind`, what `kinds.by_kind` says of hard and easy items.

    A share has Wilson's interval, macro F1 the same to first order, a loss Student's. A worst group's value is the
    plain minimum, as every paper has it; its interval and `worst_group_accuracy_corrected` are of the truly worst
    group, without the downward bias of a minimum (see `stats.worst`). Further `metrics` by name (`auc`, …) are scored
    over all items with percentile bootstrap intervals. With 0 replicates there are no intervals.

    `by` are further groupings of any columns, the collection's factors among them where it is given (see `groupings`),
    beside those of the benchmark's card. Of each: `accuracy[region]` of every group, `worst_group_accuracy[region]`,
    `mean_group_accuracy[region]` and `tenth_percentile_accuracy[region]` (see `scoring.groups`).
    """
    if benchmark.target.kind != "class":
        if by:
            raise ShiftBenchError(f"Benchmark '{benchmark.name}' asks for {benchmark.target.kind}, not for classes, so "
                                  "that it is scored by its own groups alone. Leave out `by`.")
        return score_target(benchmark, predictions, run=run, method=method, setting=setting, seed=seed,
                            replicates=replicates, level=level)
    predictions = _of_classes(benchmark, predictions)
    head = {"run": run, "benchmark": benchmark.name, "method": method, "setting": setting, "seed": seed}
    judge = _Judge([head], [0], level if replicates else None, groupings_of(benchmark, by, collection))
    parts = predicted_splits(benchmark, predictions)
    rows = judge.every_split(benchmark, [predictions], [parts])
    for split, part in parts.items() if metrics else ():
        label, table = benchmark.label[benchmark.rows(split)], predictions.scores[part]
        for name in metrics:
            if any(row["split"] == split and row["metric"] == name for row in rows):
                continue
            metric = partial(find(METRICS, "metric", name), label, table)
            draws = bootstrap(metric, len(label), replicates=replicates, seed=seed, purpose=split)
            low, high = interval(draws[:, None], level)
            rows += judge.rows(split, ALL, len(label), name, np.asarray([metric()]), low, high)
    return Scores.of(rows)


def means(
    benchmark: Benchmark,
    runs: Mapping[str, Sequence[Predictions | Answers]],
    *,
    replicates: int = REPLICATES,
    level: float = LEVEL,
    by: Sequence[str] = (),
    collection: Collection | None = None,
) -> Scores:
    """Each method's mean over its runs (seeds) on the same items, and how far it is behind the best method.

    Intervals are about other items and other seeds: both parts are in them, each counted once (see `stats.parts`).
    `worst_group_accuracy` is the mean of each run's worst; its group is the lowest on average.

    `accuracy_behind_best` (and so on) is the best mean minus this one, paired by item. Its interval and its p-value,
    `p_accuracy_behind_best`, are corrected for all pairs of methods in this metric, split and group (Bonferroni): in 19
    of 20 benchmarks on which methods are equal no interval misses 0. One that reaches 0 says that the two cannot be
    told apart. For a worst group the interval is of the corrected values.
    """
    if benchmark.target.kind != "class":
        return mean_target(benchmark, runs, replicates=replicates, level=level)
    heads = [{"run": f"{MEAN}{len(part)}", "benchmark": benchmark.name, "method": method, "seed": -1}
             for method, part in runs.items()]
    owner = [code for code, part in enumerate(runs.values()) for _ in part]
    predictions = [_of_classes(benchmark, one) for part in runs.values() for one in part]
    judge = _Judge(heads, owner, level if replicates else None, groupings_of(benchmark, by, collection))
    parts = [predicted_splits(benchmark, one) for one in predictions]
    return Scores.of(judge.every_split(benchmark, predictions, parts))


def _of_classes(benchmark: Benchmark, predictions: Predictions | Answers) -> Predictions:
    if isinstance(predictions, Answers):
        raise ShiftBenchError(f"Benchmark '{benchmark.name}' asks for classes, but these predictions are lists.")
    return predictions


@dataclass(frozen=True)
class _Judge(Rows):
    """Rows of classes; `groupings` are those to score by besides the benchmark's groups."""

    groupings: tuple[Grouping, ...] = ()

    def every_split(
        self, benchmark: Benchmark, predictions: Sequence[Predictions], parts: Sequence[Mapping[str, Ints]]
    ) -> list[Row]:
        """The rows of every split that all runs predict, and of the gap."""
        rows: list[Row] = []
        average: dict[str, Estimate] = {}
        for split in benchmark.splits:
            if all(split in part for part in parts):
                tables = [one.scores[part[split]] for one, part in zip(predictions, parts, strict=True)]
                found, average[split] = self.one_split(benchmark, split, tables)
                rows += found
        if "id_test" in average and "test" in average:
            n = len(benchmark.rows("test"))
            rows += self.estimated(GAP, [ALL], [n], "accuracy_gap", average["id_test"] - average["test"])
        return rows

    def one_split(self, benchmark: Benchmark, split: str, tables: Sequence[Table]) -> tuple[list[Row], Estimate]:
        """The rows of one split, and its average accuracy; `tables` has each run's scores, items × classes."""
        level = self.level or LEVEL
        chosen, names = benchmark.rows(split), benchmark.names
        order = np.argsort(benchmark.group[chosen], kind="stable")
        label, group = benchmark.label[chosen][order], benchmark.group[chosen][order]
        codes, start, size = np.unique(group, return_index=True, return_counts=True)
        groups, n = [names["group"][code] for code in codes], len(label)
        predicted = np.stack([table.argmax(axis=1) for table in tables])[:, order]
        hits = predicted == label

        average = share(hits, self.owner, level)
        rows = self.estimated(split, [ALL], [n], "accuracy", average)
        by_group = share(hits, self.owner, level, start)
        rows += self.estimated(split, groups, size, "accuracy", by_group)
        worst = worst_share(hits, start, self.owner, self.level)
        rows += self.worst(split, groups, "worst_group_accuracy", worst)
        corrected = worst.estimate._replace(value=worst.estimate.centre)
        rows += self.worst(split, groups, "worst_group_accuracy" + CORRECTED, worst._replace(estimate=corrected))
        by_label = np.argsort(label, kind="stable")
        classes, first = np.unique(label[by_label], return_index=True)
        rows += self.worst(split, [names["label"][code] for code in classes], "worst_class_accuracy",
                           worst_share(hits[:, by_label], first, self.owner, self.level))
        f1 = f1_items(label, predicted, len(names["label"]))
        f1s = share(f1, self.owner, level)
        rows += self.estimated(split, [ALL], [n], "macro_f1", f1s)
        loss_items = None
        if all(has_probabilities(table) for table in tables):
            loss_items = np.stack([losses(label, table[order]) for table in tables])
            rows += self.estimated(split, [ALL], [n], "nll", loss(loss_items, self.owner, level))
            rows += self.estimated(split, groups, size, "nll", loss(loss_items, self.owner, level, start))
            rows += self.worst(split, groups, "worst_group_nll", worst_loss(loss_items, start, self.owner, self.level))
        rows += self.by_kind(benchmark, split, chosen[order], tables, order, loss_items, groups)
        for grouping in self.groupings:
            rows += self.by_grouping(split, hits, grouping.within(chosen[order]))
        if len(self.heads) > 1:
            rows += self.behind(split, ALL, n, "accuracy", hits, average.value[:, 0])
            rows += self.behind(split, ALL, n, "macro_f1", f1, f1s.value[:, 0])
            rows += self.behind(split, ALL, n, "worst_group_accuracy", worst.items, worst.estimate.value[:, 0],
                                centre=worst.estimate.centre[:, 0], size=worst.fewest, unsure=worst.unsure)
            for place, stop in enumerate(np.append(start[1:], n)):
                rows += self.behind(split, groups[place], int(size[place]), "accuracy", hits[:, start[place]:stop],
                                    by_group.value[:, place])
        return rows, average

    def by_kind(
        self, benchmark: Benchmark, split: str, chosen: Ints, tables: Sequence[Table], order: Ints,
        loss_items: Floats | None, groups: Sequence[str],
    ) -> list[Row]:
        """The rows of hard and easy items, where the benchmark tells them apart."""
        kind = kinds_of(benchmark, chosen)
        if kind is None:
            return []
        scores = np.stack([np.asarray(table, np.float32)[order].T for table in tables])
        rows: list[Row] = []
        for told in by_kind(kind, benchmark.label[chosen], scores, loss_items, self.owner, self.level, groups):
            if told.worst is not None:
                rows += self.worst(split, SIDES, told.metric, told.worst)
                continue
            rows += self.estimated(split, [told.group], [told.n], told.metric, told.estimate)
            if told.items is not None and len(self.heads) > 1 and np.isfinite(told.estimate.value).all():
                rows += self.behind(split, told.group, told.n, told.metric, told.items, told.estimate.value[:, 0])
        return rows

    def by_grouping(self, split: str, hits: Bools, part: Grouping) -> list[Row]:
        """The rows of one grouping of a split's items."""
        rows: list[Row] = []
        for told in by_grouping(hits, part, self.owner, self.level):
            rows += (self.estimated(split, told.groups, told.n, told.metric, told.estimate) if told.worst is None
                     else self.worst(split, told.groups, told.metric, told.worst))
            if told.items is not None and len(self.heads) > 1:
                rest = {} if told.worst is None else {
                    "centre": told.estimate.centre[:, 0], "size": told.worst.fewest, "unsure": told.worst.unsure}
                rows += self.behind(split, ALL, hits.shape[1], told.metric, told.items, told.estimate.value[:, 0],
                                    **rest)
        return rows
