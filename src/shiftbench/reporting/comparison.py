"""Methods compared: means with intervals, differences to one of them and p-values; as data, CSV, Markdown or LaTeX."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from shiftbench.core.arrays import in_short
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.registry import find
from shiftbench.core.tables import Tabular
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.scores import ALL, DIFFERENCE, RUN, Measure, Scores
from shiftbench.data.target import Target
from shiftbench.reporting import score_tables
from shiftbench.reporting.score_tables import capital, column_of, latex, markdown
from shiftbench.scoring import means
from shiftbench.scoring.intervals import LEVEL
from shiftbench.scoring.metrics import in_words, metric_of
from shiftbench.scoring.reading import RunIndex
from shiftbench.scoring.runs import read_chosen

SUFFIXES = {".csv": "csv", ".md": "md", ".markdown": "md", ".tex": "latex"}
"""File suffix -> format."""
PAIRED, APART = "same items", "intervals"
"""How a p-value was computed: from the predictions on the same items, or from two intervals alone."""


class Line(NamedTuple):
    """One method on one benchmark, by one metric: its mean over runs, and its difference to `reference`.

    `difference` is this mean minus the reference's, `p` the probability of one at least as large if the two methods
    were equal. Both and the interval are corrected for the number of comparisons (Bonferroni). `by` is their
    basis: predictions on the same items or, where only scores are known, the two intervals, which is the more cautious.
    """

    benchmark: str
    split: str
    metric: str
    grouping: str  # "" for the benchmark's own groups
    method: str
    runs: int
    n: int
    mean: float
    low: float
    high: float
    best: bool
    reference: str
    difference: float
    difference_low: float
    difference_high: float
    p: float
    by: str


class Difference(NamedTuple):
    """The difference of a method to the reference: the method minus the reference."""

    value: float
    low: float
    high: float
    p: float
    by: str


NONE = Difference(math.nan, math.nan, math.nan, math.nan, "")


def lines(
    scores: Scores, benchmarks: Sequence[Benchmark], metrics: Sequence[str] = (), *, split: str = "test",
    against: str = "", folder: Path | str | RunIndex | None = None, level: float = LEVEL,
) -> list[Line]:
    """The lines of every benchmark and metric, methods in the order of a report.

    `scores` are those to show, one setting per method (`shown_scores`). `metrics` default to average and worst group,
    or to the metrics that rank a target without classes. Every method is compared with the best one, or with the method
    `against`; the comparison is paired by item where `folder` has the runs and their predictions.
    """
    by_name: dict[str, list[Benchmark]] = {}
    for benchmark in benchmarks:
        by_name.setdefault(benchmark.name, []).append(benchmark)
    table: list[Line] = []
    names = [name for name in by_name if name in scores["benchmark"]]
    for name in dict.fromkeys([*names, *sorted(set(scores["benchmark"].tolist()))]):
        rows, draws = scores.where(benchmark=name), by_name.get(name, [])
        wanted = [Measure.parse(metric) for metric in metrics] or _usual(draws[0] if draws else None)
        cells = {measure: column_of(rows, name, measure.metric, split, by=measure.by, level=level)
                 for measure in wanted}
        methods = dict.fromkeys(method for column in cells.values() for method in column)
        if against and methods and against not in methods:
            raise unknown("method", against, methods, f"Table of '{name}'")
        paired = {}
        if against and folder is not None and draws:
            paired = _against(folder, rows, draws, wanted, split, against, level)
        for measure in wanted:
            table += _lines(rows, name, split, measure, cells[measure], against, paired, level)
    if not table:
        on = scores.where(split=split)
        measures = sorted({str(Measure(*pair)) for pair in zip(on["metric"].tolist(), on["by"].tolist(), strict=True)})
        raise ShiftBenchError(f"The scores have no {', '.join(metrics) or 'accuracy'} on {split}. " + (
            f"On this split they have: {', '.join(measures)}." if measures else
            f"Their splits: {', '.join(sorted(set(scores['split'].tolist())))}."))
    return table


def _usual(benchmark: Benchmark | None) -> list[Measure]:
    target = Target() if benchmark is None else benchmark.target
    return list(dict.fromkeys(map(Measure, (target.headline, *target.ranking))))


def _lines(
    scores: Scores, benchmark: str, split: str, measure: Measure, cells: Mapping[str, Mapping[str, Any]], against: str,
    paired: Mapping[tuple[str, Measure], Difference], level: float,
) -> list[Line]:
    lower = metric_of(measure.metric).lower
    values = {method: cell["value"] for method, cell in cells.items() if not math.isnan(cell["value"])}
    best = (min if lower else max)(values, key=lambda method: values[method]) if len(values) > 1 else ""
    reference = against or best
    behind = {} if against or lower else _behind(scores, split, measure)
    pairs = len(values) - 1 if against else len(values) * (len(values) - 1) // 2
    lines = []
    for method, cell in cells.items():
        difference = NONE
        if method != reference and reference in values and method in values:
            difference = paired.get((method, measure)) or behind.get(method) or _apart(
                cell, cells[reference], pairs, level)
        lines.append(Line(benchmark, split, measure.metric, measure.by, method, cell["runs"], cell["n"], cell["value"],
                          cell["low"], cell["high"], method == best, "" if method == reference else reference,
                          *difference))
    return lines


def _behind(scores: Scores, split: str, measure: Measure) -> dict[str, Difference]:
    """Each method's scored difference to the best, on the same items."""
    rows = scores.where(stat=DIFFERENCE, split=split, group=ALL, **measure._asdict())
    return {name: Difference(-row["value"], -row["high"], -row["low"], row["p"], PAIRED)
            for name, row in zip(rows.names.tolist(), rows, strict=True)}


def _apart(cell: Mapping[str, Any], other: Mapping[str, Any], pairs: int, level: float) -> Difference:
    """The difference of two means, tested by their intervals.

    z = δ / √(w₁² + w₂²), where w is a half-width divided by the normal quantile of the level.
    """
    from scipy.special import ndtr, ndtri

    quantile = float(ndtri((1 + level) / 2))
    spread = math.hypot(cell["high"] - cell["low"], other["high"] - other["low"]) / 2 / quantile
    value = cell["value"] - other["value"]
    if math.isnan(spread) or not spread:
        return Difference(value, math.nan, math.nan, math.nan, "")
    half = float(ndtri(1 - (1 - level) / 2 / pairs)) * spread
    p = min(1.0, 2 * float(ndtr(-abs(value) / spread)) * pairs)
    return Difference(value, value - half, value + half, p, APART)


def _against(
    folder: Path | str | RunIndex, scores: Scores, draws: Sequence[Benchmark], measures: Sequence[Measure], split: str,
    against: str, level: float,
) -> dict[tuple[str, Measure], Difference]:
    """Compare every other method with `against`, pair by pair, on the same items and over seeds."""
    single = scores.where(stat=RUN)
    runs: dict[str, dict[str, None]] = {}
    for method, run in zip(single.names.tolist(), single["run"].tolist(), strict=True):
        runs.setdefault(method, {})[run] = None
    index = RunIndex.of(folder)
    read = {method: read_chosen(index, list(names), draws) for method, names in runs.items()}
    others = [method for method in read if method != against]
    differences = {}
    for method in others if against in read else ():
        both = means(draws[0], {against: read[against], method: read[method]}, level=1 - (1 - level) / len(others))
        for measure in measures:
            rows = {row["method"]: row for row in both.where(stat=DIFFERENCE, split=split, group=ALL,
                                                             **measure._asdict())}
            if not rows:
                continue
            weaker = method if rows[method]["value"] > 0 or not rows[against]["value"] > 0 else against
            sign, row = (-1, rows[method]) if weaker == method else (1, rows[against])
            low, high = sorted((sign * row["low"], sign * row["high"]))
            differences[method, measure] = Difference(sign * row["value"], low, high, min(1.0, row["p"] * len(others)),
                                                      PAIRED)
    return differences


# As text

def to_csv(lines: Sequence[Line], level: float = LEVEL) -> str:
    """One line per benchmark, metric and method, with every field; shares run from 0 to 1."""
    return score_tables.to_csv(Line._fields, lines)


class Block(NamedTuple):
    """The table of one benchmark in words; of the cells in `best`, by row and column, the mean is the best."""

    benchmark: str
    split: str
    heads: list[str]
    rows: list[list[str]]
    best: set[tuple[int, int]]


def blocks_in_words(
    lines: Sequence[Line], escaped: Callable[[str], str] = str, measures: Sequence[Measure] = ()
) -> Iterator[Block]:
    """A table per benchmark: each metric's mean and interval, the difference to the reference, and p.

    Names come from data: `escaped` makes them safe in a format. `measures` default to those that the benchmark has.
    """
    for benchmark, block in _blocks(lines).items():
        table = Block(escaped(benchmark), block[next(iter(block))][0].split, ["Method", "Runs"], [], set())
        for metric in measures or block:
            reference = next((line.reference for line in block.get(metric, ()) if line.reference), "")
            table.heads.extend([measure_in_words(*metric), f"to {escaped(reference)}" if reference else "difference",
                                "p"])
        for number, (method, cells) in enumerate(_methods(block).items()):
            row = [escaped(method), str(max(cell.runs for cell in cells.values()))]
            for metric in measures or block:
                cell = cells.get(metric)
                if cell and cell.best:
                    table.best.add((number, len(row)))
                row += ["–" if cell is None else mean_in_words(cell), difference_in_words(cell), p_in_words(cell)]
            table.rows.append(row)
        yield table


def to_markdown(lines: Sequence[Line], level: float = LEVEL) -> str:
    """A table per benchmark: each metric's mean and interval, the difference to the reference, and p."""
    blocks = []
    for block in blocks_in_words(lines, markdown):
        rows = [[f"**{word}**" if (number, column) in block.best else word for column, word in enumerate(row)]
                for number, row in enumerate(block.rows)]
        table = [block.heads, ["--", *["--:"] * (len(block.heads) - 1)], *rows]
        blocks.append("\n".join([f"**{block.benchmark}**, {block.split}", "",
                                 *(f"| {' | '.join(row)} |" for row in table)]))
    return "\n\n".join([*blocks, note_in_words(lines, level)]) + "\n"


def to_latex(lines: Sequence[Line], level: float = LEVEL) -> str:
    """One tabular with a block per benchmark; needs the package booktabs."""
    metrics = list(dict.fromkeys(Measure(line.metric, line.grouping) for line in lines))
    text = [f"% {note_in_words(lines, level)}", "% Needs \\usepackage{booktabs}.",
            f"\\begin{{tabular}}{{lr{'rrr' * len(metrics)}}}", "\\toprule",
            " & ".join(["Method", "Runs", *(heading for metric in metrics for heading in (
                latex(measure_in_words(*metric)), "$\\Delta$", "$p$"))]) + r" \\"]
    for block in blocks_in_words(lines, latex, metrics):
        text += ["\\midrule", f"\\multicolumn{{{2 + 3 * len(metrics)}}}{{l}}{{\\emph{{{block.benchmark}}}}} \\\\"]
        for number, (method, *words) in enumerate(block.rows):
            cells = [f"\\textbf{{{latex(word)}}}" if (number, column) in block.best else latex(word)
                     for column, word in enumerate(words, 1)]
            text.append(" & ".join([method, *cells]) + r" \\")
    return "\n".join([*text, "\\bottomrule", "\\end{tabular}"]) + "\n"


FORMATS: Mapping[str, Callable[[Sequence[Line]], str]] = {"csv": to_csv, "md": to_markdown, "latex": to_latex}


class Comparison(list[Line], Tabular):
    """The lines of a table, as a notebook shows them and as a paper prints them."""

    def __repr__(self) -> str:
        named = "; ".join(f"{name}s: {in_short(dict.fromkeys(getattr(line, name) for line in self))}"
                          for name in ("benchmark", "method", "split", "metric")) if self else "none"
        return f"Comparison({len(self):,} lines; {named})"

    def _repr_html_(self) -> str:
        from shiftbench.reporting.notebook import tables_html
        from shiftbench.reporting.terminal import drawn_table

        return tables_html(drawn_table(f"{block.benchmark}, {block.split}", block.heads[:1], block.heads[1:],
                                       block.rows, block.best, note_in_words(self)) for block in blocks_in_words(self))

    def to_markdown(self) -> str:
        """A table per benchmark, and a note on how to read it."""
        return to_markdown(self)

    _repr_markdown_ = to_markdown

    def to_latex(self) -> str:
        """A tabular with booktabs: \\input it."""
        return to_latex(self)

    def to_arrow(self) -> pa.Table:
        return pa.table({name: [getattr(line, name) for line in self] for name in Line._fields})


def writer(name: str = "", out: Path | str | None = None) -> Callable[[Sequence[Line]], str]:
    """The function that writes a format: the named one, else the one of the file's suffix, else Markdown."""
    if name or out is None:
        return find(FORMATS, "format", name or "md")
    ending = Path(out).suffix.lower()
    if ending not in SUFFIXES:
        raise ShiftBenchError(f"{out}: its suffix names no format. Name one: {', '.join(FORMATS)} (--format), or end "
                              f"it in {', '.join(SUFFIXES)}.")
    return FORMATS[SUFFIXES[ending]]


def _blocks(lines: Sequence[Line]) -> dict[str, dict[Measure, list[Line]]]:
    """Benchmark -> measure -> its lines."""
    blocks: dict[str, dict[Measure, list[Line]]] = {}
    for line in lines:
        blocks.setdefault(line.benchmark, {}).setdefault(Measure(line.metric, line.grouping), []).append(line)
    return blocks


def _methods(block: Mapping[Measure, Sequence[Line]]) -> dict[str, dict[Measure, Line]]:
    """Method -> measure -> its line, methods in their order."""
    methods: dict[str, dict[Measure, Line]] = {}
    for metric, lines in block.items():
        for line in lines:
            methods.setdefault(line.method, {})[metric] = line
    return methods


def measure_in_words(metric: str, by: str) -> str:
    """The head of a column."""
    return capital(in_words(metric, by)) + (", %" if metric_of(metric).unit == "share" else "")


def number_in_words(value: float, metric: str, sign: str = "") -> str:
    """A value of a metric as tables show it: shares in per cent; `sign` "+" for a difference."""
    if math.isnan(value):
        return "–"
    return metric_of(metric).show(value, sign).replace("-", "−")


def mean_in_words(line: Line) -> str:
    """A mean with its interval, if it has one."""
    mean = number_in_words(line.mean, line.metric)
    return mean if math.isnan(line.low) else (
        f"{mean} [{number_in_words(line.low, line.metric)}, {number_in_words(line.high, line.metric)}]")


def difference_in_words(line: Line | None) -> str:
    return "–" if line is None or not line.reference else number_in_words(line.difference, line.metric, "+")


def p_in_words(line: Line | None) -> str:
    if line is None or math.isnan(line.p):
        return "–"
    return "< 0.001" if line.p < 0.001 else f"{line.p:.3f}"


def note_in_words(lines: Sequence[Line], level: float = LEVEL) -> str:
    """A note on the numbers of a table and on how they were compared."""
    runs = sorted({line.runs for line in lines})
    over = f"{runs[0]}" if len(runs) == 1 else f"{runs[0]} to {runs[-1]}"
    kinds = {line.by for line in lines if line.by}
    how = "from the two intervals, since only scores were at hand"
    if PAIRED in kinds:
        how = "paired by item" + (" where predictions were at hand, else from the intervals" if len(kinds) > 1 else "")
    compared = f" Differences and p-values: {how}; corrected for all comparisons (Bonferroni)." if kinds else ""
    return (f"Mean over {over} run{'' if runs == [1] else 's'} with its {100 * level:g} % interval; bold is best."
            f"{compared}")
