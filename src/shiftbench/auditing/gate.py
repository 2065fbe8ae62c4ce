"""May this model be released? Contexts once found and floors of metrics are tests that a new model has to pass.

Non-inferiority, not "no significant difference": a check passes only where the data show that the loss rose by less
than the budget. Where they show neither that nor the contrary, there are too few items to tell.

    pass:  high < limit,     fail:  low > limit,     unsure:  otherwise

`low` and `high` are one-sided limits at 1 - alpha / m for m checks (Bonferroni), so that all of them hold at once with
probability 1 - alpha: whichever check one looks at, a model that is worse than its limit passes it with probability
alpha / m at most. (A gate that must pass every check would be valid without the correction, as an intersection-union
test: Berger, 1982. The correction is the price of believing each line on its own.)
"""

import math
import shlex
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from scipy.special import betaincinv, stdtrit

from shiftbench.auditing.contexts import Context, contexts_of, inside, load_contexts
from shiftbench.auditing.findings import Audit, count_items, with_minus
from shiftbench.auditing.join import TEST, Items, join, label_of
from shiftbench.auditing.model_outputs import Loss, loss_named
from shiftbench.core.arrays import Floats, Ints, encode, positions
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.registry import find
from shiftbench.core.tables import Tabular
from shiftbench.data.benchmark import MARKER, Benchmark
from shiftbench.data.predictions import PREDICTIONS, Predictions, read_predictions
from shiftbench.data.scores import ALL, RUN, Measure
from shiftbench.scoring.intervals import LEVEL as CONFIDENCE
from shiftbench.scoring.intervals import checked
from shiftbench.scoring.judge import score
from shiftbench.scoring.metrics import METRICS, is_worst, metric_of

PASS, FAIL, UNSURE = VERDICTS = ("pass", "fail", "unsure")
WARN = "warn"
POLICIES = (FAIL, WARN, PASS)
"""What a check that is unsure does to the gate: it fails, or passes with or without a warning."""
LEAST = 20
"""Items, or clusters of them, below which a mean loss has no interval: Student's law needs some to hold."""
ALL_ITEMS = "all items"
CHANGE, LEVEL, FLOOR = "change", "level", "floor"


class Check(NamedTuple):
    """One test: the change of a loss, the level of a loss, or a metric, against its limit."""

    name: str  # all items, a context in words, or a measure: worst_group_accuracy[region]
    kind: str  # change, level or floor
    n: int
    value: float
    low: float
    high: float
    limit: float  # the most that a loss may be or may rise by, the least that a metric may be
    unit: str = "share"  # of the loss or metric: share or number
    lower: bool = True  # whether smaller is better, so that the limit is a most

    @property
    def verdict(self) -> str:
        """Whether the interval lies on the right side of the limit, on the wrong side, or on both."""
        if self.lower:
            return PASS if self.high < self.limit else FAIL if self.low > self.limit else UNSURE
        return PASS if self.low > self.limit else FAIL if self.high < self.limit else UNSURE

    @property
    def is_empty(self) -> bool:
        """Whether it is a context without any item, of which nothing can be said."""
        return self.n == 0 and self.kind != FLOOR

    @property
    def needed(self) -> float:
        """About how many items would decide it, if the value is right: half-widths shrink as 1 / √n. NaN: unknown."""
        room = self.limit - self.value
        half = self.high - self.value if room > 0 else self.value - self.low
        return self.n * (half / room) ** 2 if self.n and room and math.isfinite(half) else math.nan

    def sentence(self) -> str:
        """The check in words, without its name: +3.2 points [+0.1, +6.4], 312 items; at most +1.0 is allowed."""
        if self.is_empty:
            return f"no item is in it; {self._asked()}"
        unit = {"share": " points" if self.kind == CHANGE else " %", "number": ""}[self.unit]
        value, low, high = (self._written(number) for number in (self.value, self.low, self.high))
        ends = f" [{low}, {high}]" if math.isfinite(self.low) or math.isfinite(self.high) else ""
        words = f"{value}{unit}{ends}, {count_items(self.n)}; {self._asked()}"
        if self.verdict == UNSURE:
            words += ": too few items to tell"
            if math.isfinite(self.needed) and self.needed > self.n:
                words += f", about {math.ceil(self.needed / 10) * 10:,} would do if the estimate is right"
        return words

    def _asked(self) -> str:
        limit = self._written(self.limit)
        return f"at most {limit} is allowed" if self.lower else f"at least {limit} is asked for"

    def _written(self, value: float) -> str:
        if not math.isfinite(value):
            return "–" if math.isnan(value) else "∞" if value > 0 else "−∞"
        sign = "+" if self.kind == CHANGE else ""
        return with_minus(f"{100 * value:{sign}.1f}" if self.unit == "share" else f"{value:{sign}.3f}")


@dataclass(frozen=True)
class Gate(Tabular):
    """The outcome of a gate: its checks, and what a check that is unsure does."""

    checks: tuple[Check, ...]
    unsure: str = "fail"
    level: float = CONFIDENCE  # with which all intervals hold at once
    notes: tuple[str, ...] = ()
    search: str = ""  # the audit that looks for contexts that got worse, where there is an old model

    @property
    def passed(self) -> bool:
        return not any(self.blocks(check) for check in self.checks)

    @property
    def outcome(self) -> str:
        """pass, fail, or warn: nothing keeps the model from being released, but a warning was asked for."""
        if not self.passed:
            return FAIL
        return WARN if self.unsure == WARN and self.open else PASS

    @property
    def open(self) -> tuple[Check, ...]:
        """The checks that have too few items to tell."""
        return tuple(check for check in self.checks if check.verdict == UNSURE)

    def blocks(self, check: Check) -> bool:
        """Whether a check keeps the model from being released."""
        return check.verdict == FAIL or (check.verdict == UNSURE and self.unsure == "fail")

    def sentences(self) -> list[str]:
        """The outcome, each check, and what was tested."""
        return [self.headline(), *(f"{check.verdict}: {check.name}: {check.sentence()}." for check in self.checks),
                *self.scope()]

    def headline(self) -> str:
        """The outcome, and how many checks had which."""
        counts = {verdict: sum(check.verdict == verdict for check in self.checks) for verdict in VERDICTS}
        outcomes = ", ".join(f"{n} {words}" for words, n in zip(
            ("passed", "failed", "with too few items to tell"), counts.values(), strict=True) if n)
        word = {PASS: "Pass", WARN: "Pass with a warning", FAIL: "Fail"}[self.outcome]
        line = f"{word}: {outcomes} of {len(self.checks)} check{'' if len(self.checks) == 1 else 's'}."
        return line if self.outcome != WARN else f"{line} What has too few items is not shown to hold (--unsure warn)."

    def scope(self) -> list[str]:
        """How many contexts were tested, and how to look for others."""
        names = [check.name for check in self.checks if check.kind != FLOOR]
        count = len(names) - (ALL_ITEMS in names)
        parts = ["all items"] * (ALL_ITEMS in names)
        parts += [f"{count:,} context{'' if count == 1 else 's'}"] if count else []
        lines = [f"Tested: {' and '.join(parts)}, as listed."] if parts else []
        if self.search:
            lines.append(f"A gate tests the listed contexts only. To look for others: {self.search}")
        return lines

    def __repr__(self) -> str:
        return "\n".join([*self.sentences(), *(f"note: {note}" for note in self.notes)])

    def to_arrow(self) -> pa.Table:
        rows = [{**check._asdict(), "verdict": check.verdict, "needed": check.needed} for check in self.checks]
        return pa.Table.from_pylist(rows)


# Limits: exact for right and wrong, Student's for other losses

def share_limits(wrong: int, n: int, error: float) -> tuple[float, float]:
    """Clopper's and Pearson's limits of a share, each of which misses it with probability `error` at most."""
    low = float(betaincinv(wrong, n - wrong + 1, error)) if wrong else 0.0
    high = float(betaincinv(wrong + 1, n - wrong, 1 - error)) if wrong < n else 1.0
    return low, high


def paired_limits(worse: int, better: int, n: int, error: float) -> tuple[float, float]:
    """Limits of the change in error of two models on the same n items, exact for any n.

    `worse` items are wrong for the new model alone, `better` for the old one alone. With psi the share of items on
    which one of the two alone is wrong, and theta the new model's share of these,

        delta = psi (2 theta - 1),     worse | D ~ Binomial(D, theta),     D = worse + better ~ Binomial(n, psi).

    Each limit is the extreme of delta over Clopper's and Pearson's limits of theta, at 3/4 of `error`, and of psi, at
    1/8 on either side: it misses delta with probability `error` at most. The score interval of Tango (1998) is narrower
    but not exact: with a budget of a point and no item that differs it passes a model that is worse in 6.6 % of cases
    where 5 % are allowed.
    """
    differ = worse + better
    least, most = share_limits(differ, n, error / 8)
    theta = share_limits(worse, differ, 3 * error / 4) if differ else (0.0, 1.0)
    low, high = (2 * end - 1 for end in theta)
    return low * (most if low < 0 else least), high * (most if high > 0 else least)


def mean_limits(values: Floats, error: float, cluster: Ints | None = None) -> tuple[float, float]:
    """Student's limits of a mean; with clusters, of a ratio of sums over whole clusters, linearised.

    Infinite below LEAST items or clusters, where nothing is known of the tails.
    """
    mean = float(values.mean()) if len(values) else math.nan
    rest: Floats = values - mean
    if cluster is not None and len(rest):
        rest = np.asarray(np.bincount(np.unique(cluster, return_inverse=True)[1], rest), np.float64)
    k = len(rest)
    if k < LEAST or not math.isfinite(mean):
        return -math.inf, math.inf
    half = float(stdtrit(k - 1, 1 - error)) * math.sqrt(k / (k - 1) * float((rest**2).sum())) / len(values)
    return mean - half, mean + half


# The gate

def gate(
    new: Any, data: Any, *, against: Any = None, budget: float = 1.0, floors: Mapping[str, float] | None = None,
    contexts: Path | str | Audit | Sequence[Context] = (), unsure: str = "fail", level: float = CONFIDENCE,
    loss: str = "", label: str = "", split: str = "", id: str = "", columns: Mapping[str, str] | None = None,
    cluster: str = "",
) -> Gate:
    """Test a new model: contexts that were kept against the budget, metrics against their floors.

    With `against`, the loss of the old model's predictions, in each context and over all items, may rise by less than
    `budget`, paired by item. Without it, the loss in each context may be that at which it was kept plus the budget. A
    budget is in points where the loss is a share (1.0 is 0.01), else in the unit of the loss. `contexts` are a file
    that `keep` wrote, an audit, or contexts. `floors` are the least values of metrics,
    {"worst_group_accuracy[region]": 0.8}; of a metric of which lower is better, the most.

    Predictions and data are joined as in an audit. Items of one `cluster` are not independent: intervals are then over
    clusters.
    """
    if unsure not in POLICIES:
        raise unknown("choice of --unsure", unsure, POLICIES)
    if isinstance(contexts, Audit):
        kept_loss, kept = str(contexts.card.get("loss") or ""), tuple(contexts_of(contexts))
    else:
        kept_loss, kept = load_contexts(contexts) if isinstance(contexts, str | Path) else ("", tuple(contexts))
    item_loss = loss_named(loss or kept_loss or "error")
    measures = {Measure.parse(name): floor for name, floor in (floors or {}).items()}
    for measure, floor in measures.items():
        find(METRICS, "metric", measure.metric)
        if not math.isfinite(floor):
            raise ShiftBenchError(f"The floor of '{measure}' is {floor}, but must be a number.")
        if metric_of(measure.metric).unit == "share" and floor > 1:
            raise ShiftBenchError(f"The floor of '{measure}' is {floor:g}, but it is a share of at most 1. For "
                                  f"{floor:g} % write {floor / 100:g}.")
    n_checks = len(kept) + (against is not None) + len(measures)
    if not n_checks:
        raise ShiftBenchError("There is nothing to test. Name the old model with --against, contexts that were kept "
                              "with --contexts, or the least value of a metric with --floor.")
    if not math.isfinite(budget):
        raise ShiftBenchError(f"The budget is {budget}, but must be a number.")
    search = "" if against is None else _search(
        new, data, against, {"id": id, "label": label, "split": split, "cluster": cluster,
                             "loss": "" if item_loss.name == "error" else item_loss.name}, columns or {})
    if isinstance(data, str | Path) and (Path(data) / MARKER).is_file():
        data = Benchmark.load(data)
    items = join(new, data, item_loss, label=label, against=against, split=split, id=id, columns=columns)
    error = (1 - checked(level)) / n_checks
    room = budget / 100 if item_loss.unit == "share" else budget
    checks = loss_checks(items, kept, item_loss, room, error, cluster, paired=against is not None)
    if measures:
        checks += _floors(new, data, items, measures, error)
    notes = [*items.notes, *(f"The limit of '{check.name}' is 100 % or more, so that it tests nothing."
                             for check in checks if check.kind == LEVEL and check.unit == "share" and check.limit >= 1),
             *([f"Intervals are over clusters of '{cluster}'; those of floors are over items."]
                             if cluster and measures else [])]
    return Gate(tuple(checks), unsure, level, tuple(notes), search)


def _search(new: Any, data: Any, against: Any, options: Mapping[str, str], columns: Mapping[str, str]) -> str:
    """The audit of the same files, with the options that the gate was given; what is no file is named by a word."""
    new, data, against = (shlex.quote(str(source)) if isinstance(source, str | Path) else word
                          for source, word in ((new, "NEW"), (data, "DATA"), (against, "OLD")))
    words = [f" --{name} {shlex.quote(value)}" for name, value in options.items() if value]
    words += [f" --column {shlex.quote(f'{role}={name}')}" for role, name in columns.items()]
    return f"shiftbench audit {new} --data {data} --against {against}{''.join(words)}"


def loss_checks(
    items: Items, contexts: Sequence[Context], loss: Loss, room: float, error: float, cluster: str, *, paired: bool
) -> list[Check]:
    """A check per context; of two models, whose losses are `paired`, also one of all items, which comes first.

    `room` is the budget in the unit of the loss, `error` the probability with which each limit may be wrong.
    """
    groups = encode(items.known.factor(cluster))[0] if cluster else None
    masks = {context: inside(context.members, items.known, truth=items.truth, label=items.label)
             for context in contexts}
    whole = {Context(()): np.ones(len(items), np.bool_)} if paired else {}
    checks = []
    for context, mask in {**whole, **masks}.items():
        values, within = items.loss[mask], None if groups is None else groups[mask]
        exact = loss.name == "error" and within is None and len(values) > 0
        if exact and paired:
            low, high = paired_limits(int((values > 0).sum()), int((values < 0).sum()), len(values), error)
        elif exact:
            low, high = share_limits(int(values.sum()), len(values), error)
        else:
            low, high = mean_limits(values, error, within)
        if not paired and math.isnan(context.loss):
            raise ShiftBenchError(f"The context '{context.name}' has no loss to compare with. Name the old model with "
                                  "--against, or write loss = … into its [[context]].")
        limit = room if paired else context.loss + room
        mean = float(values.mean()) if len(values) else math.nan
        checks.append(Check(context.name or ALL_ITEMS, CHANGE if paired else LEVEL, len(values), mean, low, high, limit,
                            loss.unit))
    return checks


def _floors(
    new: Any, data: Any, items: Items, measures: Mapping[Measure, float], error: float
) -> list[Check]:
    """A check per floor, with the intervals of `score`."""
    if isinstance(data, Benchmark) and items.label == label_of(data):
        benchmark = _test_items(data, items)
    else:
        benchmark = _as_benchmark(items)
        new = _taken(new, benchmark) if isinstance(new, Predictions) else new
    if isinstance(new, str | Path) and Path(new).is_dir():
        new = Path(new) / PREDICTIONS
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* are not in the benchmark")  # the join has named them, or the split has
        predictions = read_predictions(new, benchmark, ignore_splits=True, columns=items.columns, ignore_extra=True)
    scores = score(benchmark, predictions, level=1 - 2 * error, metrics=[measure.metric for measure in measures],
                   by=[measure.by for measure in measures if measure.by], collection=items.known)
    checks = []
    for measure, floor in measures.items():
        rows = scores.where(stat=RUN, split=TEST, metric=measure.metric, by=measure.by)
        row = next((row for row in rows if is_worst(measure.metric) or row["group"] == ALL), None)
        if row is None:
            raise ShiftBenchError(f"There is no {measure} of these predictions. Known here: "
                                  f"{', '.join(dict.fromkeys(scores['metric'].tolist()))}.")
        metric = metric_of(measure.metric)
        low, high = (math.copysign(math.inf, side) if math.isnan(end) else end
                     for end, side in ((row["low"], -1), (row["high"], 1)))
        checks.append(Check(str(measure), FLOOR, row["n"], row["value"], low, high, floor, metric.unit, metric.lower))
    return checks


def _test_items(benchmark: Benchmark, items: Items) -> Benchmark:
    """A benchmark whose test items are those that are tested, of whichever split they are."""
    if items.split == TEST:
        return benchmark
    rows = positions(items.ids, benchmark.items)
    return replace(benchmark, items=benchmark.items[rows], split=np.full(len(rows), TEST), label=benchmark.label[rows],
                   domain=benchmark.domain[rows], group=benchmark.group[rows],
                   extra={name: values[rows] for name, values in benchmark.extra.items()})


def _as_benchmark(items: Items) -> Benchmark:
    """Items as a benchmark of test items, whose groups are its classes."""
    zeros, split = np.zeros(len(items), np.int64), np.full(len(items), TEST)
    if items.truth.dtype.kind == "f":
        card = {"target": {"kind": "number", "columns": ["label"], "n": 0}}
        return Benchmark(items.known.items, split, zeros, zeros, zeros,
                         {"label": ("label",), "domain": (ALL,), "group": (ALL,)}, card, {"label": items.truth})
    names = tuple(sorted({*encode(items.truth)[1], *encode(items.predicted)[1]}))
    codes = positions(items.truth, np.asarray(names, np.str_))
    return Benchmark(items.known.items, split, codes, zeros, codes,
                     {"label": names, "domain": (ALL,), "group": names})


def _taken(predictions: Predictions, benchmark: Benchmark) -> Predictions:
    """The predictions of a benchmark's items, with a column of scores for each of its classes."""
    rows = positions(benchmark.items, predictions.item)
    names = benchmark.names["label"]
    column = positions(np.asarray(names, np.str_), np.asarray(predictions.classes, np.str_))
    scores = np.where(column >= 0, predictions.scores[rows][:, column], -np.inf).astype(np.float32)
    return Predictions(benchmark.items, benchmark.split, scores, names)
