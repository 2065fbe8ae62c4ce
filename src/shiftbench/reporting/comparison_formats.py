"""A comparison of methods as text: CSV for programs, Markdown for notes, LaTeX for papers."""

import csv
import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from shiftbench.core.errors import ShiftBenchError, printable
from shiftbench.core.registry import find
from shiftbench.core.tables import no_formula
from shiftbench.reporting.comparison import PAIRED, Line
from shiftbench.scoring.intervals import LEVEL
from shiftbench.scoring.metrics import in_words

SUFFIXES = {".csv": "csv", ".md": "md", ".markdown": "md", ".tex": "latex"}
"""Endings of files by which a format is known."""
HEADS = {"macro_f1": "macro F1", "nll": "log-loss", "worst_group_nll": "worst-group log-loss", "mse": "squared error",
         "r": "Pearson’s r", "worst_group_r": "worst-group r", "worst_group_accuracy": "worst-group accuracy",
         "worst_class_accuracy": "worst-class accuracy", "auc": "AUC", "mean_ap": "average precision"}
PLAIN = re.compile(r"(^|_)(nll|mse|r)$")
"""Metrics that are no share of items and are written as they are."""


def to_csv(lines: Sequence[Line], level: float = LEVEL) -> str:
    """One line per benchmark, metric and method, with all there is to know; shares are not per cent."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(Line._fields)
    for line in lines:
        table.writerow([f"{value:.6g}" if isinstance(value, float) else no_formula(value) if isinstance(value, str) else
                        int(value) for value in ("" if isinstance(value, float) and math.isnan(value) else value
                                                 for value in line)])
    return text.getvalue()


def to_markdown(lines: Sequence[Line], level: float = LEVEL) -> str:
    """A table per benchmark: of each metric mean and interval, the difference to the reference, and p."""
    blocks = []
    for benchmark, block in _blocks(lines).items():
        heads = ["Method", "Runs"]
        for metric in block:
            reference = _reference(block[metric])
            heads += [_head(metric), f"to {_markdown(reference)}" if reference else "difference", "p"]
        rows = []
        for method, cells in _methods(block).items():
            row = [_markdown(method), str(max(cell.runs for cell in cells.values()))]
            for metric in block:
                cell = cells.get(metric)
                mean = "–" if cell is None else _mean(cell)
                row += [f"**{mean}**" if cell and cell.best else mean, _difference(cell), _p(cell)]
            rows.append(row)
        table = [heads, ["--", *["--:"] * (len(heads) - 1)], *rows]
        blocks.append("\n".join([f"**{_markdown(benchmark)}**, {block[next(iter(block))][0].split}", "",
                                 *(f"| {' | '.join(row)} |" for row in table)]))
    return "\n\n".join([*blocks, _note(lines, level)]) + "\n"


def to_latex(lines: Sequence[Line], level: float = LEVEL) -> str:
    """One tabular with a block per benchmark; needs the package booktabs."""
    blocks = _blocks(lines)
    metrics = list(dict.fromkeys(line.metric for line in lines))
    text = [f"% {_note(lines, level)}", "% Needs \\usepackage{booktabs}.",
            f"\\begin{{tabular}}{{lr{'rrr' * len(metrics)}}}", "\\toprule",
            " & ".join(["Method", "Runs", *(part for metric in metrics for part in (
                _latex(_head(metric)), "$\\Delta$", "$p$"))]) + r" \\"]
    for benchmark, block in blocks.items():
        text += ["\\midrule", f"\\multicolumn{{{2 + 3 * len(metrics)}}}{{l}}{{\\emph{{{_latex(benchmark)}}}}} \\\\"]
        for method, cells in _methods(block).items():
            row = [_latex(method), str(max(cell.runs for cell in cells.values()))]
            for metric in metrics:
                cell = cells.get(metric)
                mean = "--" if cell is None else _latex(_mean(cell))
                row += [f"\\textbf{{{mean}}}" if cell and cell.best else mean, _latex(_difference(cell)),
                        _latex(_p(cell))]
            text.append(" & ".join(row) + r" \\")
    return "\n".join([*text, "\\bottomrule", "\\end{tabular}"]) + "\n"


FORMATS: Mapping[str, Callable[[Sequence[Line]], str]] = {"csv": to_csv, "md": to_markdown, "latex": to_latex}


def writer(name: str = "", out: Path | str | None = None) -> Callable[[Sequence[Line]], str]:
    """The function that writes a format: the one named, else that of the file's ending, else Markdown."""
    if name or out is None:
        return find(FORMATS, "format", name or "md")
    ending = Path(out).suffix.lower()
    if ending not in SUFFIXES:
        raise ShiftBenchError(f"{out}: its ending says no format. Name one: {', '.join(FORMATS)} (--format), or end it "
                              f"in {', '.join(SUFFIXES)}.")
    return FORMATS[SUFFIXES[ending]]


def _blocks(lines: Sequence[Line]) -> dict[str, dict[str, list[Line]]]:
    """Benchmark -> metric -> its lines."""
    found: dict[str, dict[str, list[Line]]] = {}
    for line in lines:
        found.setdefault(line.benchmark, {}).setdefault(line.metric, []).append(line)
    return found


def _methods(block: Mapping[str, Sequence[Line]]) -> dict[str, dict[str, Line]]:
    """Method -> metric -> its line, methods in their order."""
    found: dict[str, dict[str, Line]] = {}
    for metric, listed in block.items():
        for line in listed:
            found.setdefault(line.method, {})[metric] = line
    return found


def _reference(lines: Sequence[Line]) -> str:
    return next((line.reference for line in lines if line.reference), "")


def _head(metric: str) -> str:
    words = HEADS.get(metric) or in_words(metric)
    return words[:1].upper() + words[1:] + ("" if PLAIN.search(metric) else ", %")


def _number(value: float, metric: str, sign: str = "") -> str:
    if math.isnan(value):
        return "–"
    return (f"{value:{sign}.3f}" if PLAIN.search(metric) else f"{100 * value:{sign}.1f}").replace("-", "−")


def _mean(line: Line) -> str:
    mean = _number(line.mean, line.metric)
    return mean if math.isnan(line.low) else (
        f"{mean} [{_number(line.low, line.metric)}, {_number(line.high, line.metric)}]")


def _difference(line: Line | None) -> str:
    return "–" if line is None or not line.reference else _number(line.difference, line.metric, "+")


def _p(line: Line | None) -> str:
    if line is None or math.isnan(line.p):
        return "–"
    return "< 0.001" if line.p < 0.001 else f"{line.p:.3f}"


def _note(lines: Sequence[Line], level: float) -> str:
    runs = sorted({line.runs for line in lines})
    over = f"{runs[0]}" if len(runs) == 1 else f"{runs[0]} to {runs[-1]}"
    kinds = {line.by for line in lines if line.by}
    how = "from the two intervals, since only scores were at hand"
    if PAIRED in kinds:
        how = "paired by item" + (" where predictions were at hand, else from the intervals" if len(kinds) > 1 else "")
    compared = f" Differences and p-values: {how}; corrected for all comparisons (Bonferroni)." if kinds else ""
    return (f"Mean over {over} run{'' if runs == [1] else 's'} with its {100 * level:g} % interval; bold is best."
            f"{compared}")


def _markdown(text: str) -> str:
    return re.sub(r"([\\`*_|<>\[\]])", r"\\\1", printable(text))


def _latex(text: str) -> str:
    named = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "–": "--",
             "<": "$<$", ">": "$>$", "−": "$-$", "’": "'"}
    return "".join(named.get(sign, f"\\{sign}" if sign in "&%$#_{}" else sign) for sign in printable(text))
