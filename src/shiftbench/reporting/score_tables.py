"""Scores as tables of methods × benchmarks, and how numbers, names and tables are written.

The page, the terminal, Markdown and LaTeX print the same cells: see `pivot`.
"""

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from shiftbench.core.errors import printable
from shiftbench.core.table_formats import no_formula
from shiftbench.data.scores import ALL, DIFFERENCE, MEAN, Scores
from shiftbench.scoring import GAP
from shiftbench.scoring.intervals import LEVEL, seeds_half_width
from shiftbench.scoring.metrics import is_worst, metric_of, percent

if TYPE_CHECKING:
    from markupsafe import Markup

Row = dict[str, Any]

BASELINES = ("erm", "resnet18", "resnet50")
"""Plain ERM: the first of these that a table has leads it."""
COLUMN = {"under": "", "block": "", "badge": "", "form": "", "worst": False, "marks": True, "edge": False}
"""What a column of a page's table is unless it says so: see `methods_table`."""
SHORT = 14
"""Longest word, in letters, that fits on a line of any column."""


def pivot(
    scores: Scores, metric: str, split: str = "test", group: str | None = ALL, *, by: str = "", level: float = LEVEL
) -> list[Row]:
    """One row per method, or per label of a method with several settings: {"method": …, "cells": {benchmark: cell}}.

    A cell holds value, low, high, n, group, runs (how many the mean is over), best (the best of its benchmark, and
    ahead of another) and tied (does not differ significantly from the best value). Means over seeds are taken as scored
    where the scores have them; else they are made from single runs at the `level` of their intervals, see `_mean`. The
    group of a worst group's or class's score is its answer, so any matches.
    """
    rows = scores.where(split=split, metric=metric, by=by)
    cells: dict[tuple[str, str], list[Row]] = {}
    behind: dict[tuple[str, str], Row] = {}
    for name, row in zip(rows.names.tolist(), rows, strict=True):
        if row["stat"] == DIFFERENCE and (is_worst(metric) or row["group"] == group):
            behind[name, row["benchmark"]] = row
        elif row["stat"] != DIFFERENCE and (group is None or is_worst(metric) or row["group"] == group):
            cells.setdefault((name, row["benchmark"]), []).append(row)
    # Where a benchmark has means as scored, single runs of a method with several settings are no row of their own.
    scored = {key for key, rows in cells.items() if any(row["stat"] == MEAN for row in rows)}
    settled = {benchmark for _, benchmark in scored}
    means = {key: _mean(rows, level) for key, rows in cells.items() if key in scored or key[1] not in settled}
    for benchmark in {benchmark for _, benchmark in means}:
        column = {method: cell for (method, name), cell in means.items() if name == benchmark}
        _mark(column, {method: behind.get((method, benchmark)) for method in column}, metric_of(metric).lower)
    return [{"method": method, "cells": {name: cell for (other, name), cell in means.items() if other == method}}
            for method in methods_in(method for method, _ in means)]


def column_of(
    scores: Scores, benchmark: str, metric: str, split: str = "test", group: str | None = ALL, *, by: str = "",
    level: float = LEVEL,
) -> dict[str, Row]:
    """Method -> its cell of one benchmark."""
    unit = metric_of(metric).unit
    return {row["method"]: {**row["cells"][benchmark], "unit": unit}
            for row in pivot(scores, metric, split, group, by=by, level=level) if benchmark in row["cells"]}


def methods_table(columns: Sequence[tuple[Row, Mapping[str, Row | None]]], names: Sequence[str] = ()) -> Row:
    """Methods, or other `names`, × columns: {"columns", "blocks", "rows", "seeds"}, which `score_table` draws.

    A column is what stands above it (`head`, `under`, `block` over several columns, `worst` where its cells name their
    group, `marks` where the best is marked) and method -> cell. `seeds` says how many seeds the cells
    are means over.
    """
    cells = [column for _, column in columns]
    heads = [{**COLUMN, **head} for head, _ in columns]
    for before, head in pairwise(heads):
        head["edge"] = head["block"] != before["block"]
    methods = names or methods_in(method for column in cells for method, cell in column.items() if cell)
    return {"columns": heads, "blocks": list(Counter(head["block"] for head in heads).items()),
            "rows": [{"method": method, "form": "", "under": "", "cells": [column.get(method) for column in cells]}
                     for method in methods],
            "seeds": seeds_in_words({method: {cell["runs"] for column in cells if (cell := column.get(method))
                                              and "runs" in cell} for method in methods})}


def methods_in(names: Iterable[str]) -> list[str]:
    """Each method once, the baseline first, the others by name.

    The baseline is `erm`, else ERM with one of the usual nets (BASELINES), else the preset of ERM that sets the least
    besides the net, else the first by name.

    >>> methods_in(["irm", "erm", "coral"]), methods_in(["adversarial", "vit", "irm"])
    (['erm', 'coral', 'irm'], ['vit', 'adversarial', 'irm'])
    """
    methods = sorted(set(names))
    first = next((name for name in BASELINES if name in methods), "") or _plainest(methods)
    return sorted(methods, key=lambda name: name != first)


def _plainest(methods: Sequence[str]) -> str:
    from shiftbench.methods.presets import VARIANTS

    further = {name: len(VARIANTS[name].settings.keys() - {"model"}) for name in methods
               if name in VARIANTS and VARIANTS[name].method == "erm"}
    return min(further or methods, key=lambda name: further.get(name, 0), default="")


def _mean(rows: Sequence[Row], level: float) -> Row:
    """One cell from the rows of a method on a benchmark.

    Without a mean as scored, the interval is put together from the runs': a half-width √(w² + s²) with w the runs' mean
    half-width, since they share their items, and s Student's of the runs (`seeds_half_width`).
    """
    scored = [row for row in rows if row["stat"] == MEAN]
    if scored or len(rows) == 1:
        row = (scored or rows)[0]
        return {key: row[key] for key in ("value", "low", "high", "n", "group", "runs")}
    k, value = len(rows), sum(row["value"] for row in rows) / len(rows)
    items = sum(row["high"] - row["low"] for row in rows) / k / 2
    half = math.hypot(items, seeds_half_width(np.asarray([row["value"] for row in rows]), level))
    lowest = min(rows, key=lambda row: row["value"])
    return {"value": value, "low": value - half, "high": value + half, "n": lowest["n"], "group": lowest["group"],
            "runs": k}


def _mark(column: Mapping[str, Row], behind: Mapping[str, Row | None], lower: bool) -> None:
    """Mark the best cell of a column and those that do not differ significantly from it; where none differs, all tie.

    The test is the paired interval of the difference where it was scored, corrected for all pairs of methods of the
    column (see `scoring.judge.means`); else whether the two intervals overlap, which is more cautious.
    """
    known = {method: cell for method, cell in column.items() if not math.isnan(cell["value"])}
    best = (min if lower else max)(known, key=lambda method: known[method]["value"]) if len(known) > 1 else None
    for method, cell in column.items():
        cell |= {"best": method == best, "tied": False}
        if best is None or method == best or method not in known:
            continue
        difference, top = behind[method], known[best]
        if difference is not None:
            cell["tied"] = not difference["low"] > 0  # an unknown interval separates nothing
        else:
            cell["tied"] = not (cell["low"] > top["high"] if lower else top["low"] > cell["high"])
    if best is not None and all(cell["tied"] for method, cell in known.items() if method != best):
        known[best] |= {"best": False, "tied": True}


# Models side by side

class Comparison(NamedTuple):
    """Two models on the same items of a split or of a group; `p` is corrected for how many are compared."""

    benchmark: str
    split: str
    metric: str
    by: str  # the grouping, "" for the benchmark's own groups
    group: str
    n: int
    best: str
    other: str
    best_value: float
    other_value: float
    low: float
    high: float
    p: float

    @property
    def difference(self) -> float:
        return self.best_value - self.other_value


def comparisons(scores: Scores) -> list[Comparison]:
    """All comparisons: over all items first, then groups with the strongest evidence first."""
    values: dict[tuple[Any, ...], float] = {}
    tables: dict[tuple[Any, ...], dict[str, dict[str, Any]]] = {}
    names = scores.names.tolist()
    for name, row in sorted(zip(names, scores, strict=True), key=lambda pair: pair[1]["stat"] == MEAN):  # means win
        key = (row["benchmark"], row["split"], row["metric"], row["by"])
        if row["stat"] == DIFFERENCE:
            tables.setdefault((*key, row["group"]), {})[name] = row
        else:
            values[*key, ALL if is_worst(row["metric"]) else row["group"], name] = row["value"]
    pairs = []
    for key, rows in tables.items():
        best = min(rows, key=lambda name: rows[name]["value"])
        for name, row in rows.items():
            if name != best and (*key, name) in values and (*key, best) in values:
                pairs.append(Comparison(
                    **{column: row[column] for column in ("benchmark", "split", "metric", "by", "group", "n")},
                    best=best, other=name, best_value=values[*key, best], other_value=values[*key, name],
                    low=row["low"], high=row["high"], p=row["p"]))
    return sorted(pairs, key=lambda pair: (pair.split != "test", pair.split, pair.group != ALL, bool(pair.by),
                                           pair.group == ALL and pair.metric != "accuracy", pair.p))


# Numbers and names

def with_interval(cell: Mapping[str, Any], write: Callable[[float], str] = percent, unit: str = " %") -> str:
    """A number for a title: `82.3 % (80.1 to 84.2)`."""
    ends = f" ({write(cell['low'])} to {write(cell['high'])})" if math.isfinite(cell["low"]) else ""
    return f"{write(cell['value'])}{unit}{ends}"


def probability(p: float) -> str:
    """
    >>> probability(0.0264), probability(4e-5), probability(1.0), probability(math.nan)
    ('0.026', '4e-05', '1', '–')
    """
    return "–" if math.isnan(p) else f"{p:.2g}" if p >= 0.001 else f"{p:.0e}"


def seeds_in_words(counts: Mapping[str, Collection[int]]) -> str:
    """The number of seeds behind the means, for the end of a caption; by method where the numbers differ.

    >>> seeds_in_words({"erm": {2}, "irm": {2}}), seeds_in_words({"erm": {2}, "irm": {1}}), seeds_in_words({"erm": {1}})
    (', mean over 2 seeds', ', mean over seeds (erm 2, irm 1)', '')
    """
    sizes = {n for runs in counts.values() for n in runs}
    if len(sizes) == 1:
        (n,) = sizes
        return f", mean over {n} seeds" if n > 1 else ""
    phrases = [f"{method} {min(runs)}" + (f" to {max(runs)}" if len(set(runs)) > 1 else "")
               for method, runs in counts.items() if runs]
    return f", mean over seeds ({', '.join(phrases)})" if phrases else ""


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def enumeration(words: Sequence[str]) -> str:
    """
    >>> enumeration(["a"]), enumeration(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def breakable(name: object) -> "Markup":
    """A name as HTML whose lines may break behind each _, + and comma of a long word, and nowhere else.

    >>> print(breakable("resnet50_imagenet1k_v2"), breakable("group_dro"), breakable("<b> & co"))
    resnet50_<wbr>imagenet1k_<wbr>v2 group_dro &lt;b&gt; &amp; co
    """
    from markupsafe import Markup, escape

    pieces = (re.sub(r"(?<=[_+,])(?=\w)", "\n", word) if len(word) > SHORT else word
              for word in re.split(r"(\s+)", str(name).replace("\n", " ")))
    return Markup("<wbr>").join(escape(piece) for piece in "".join(pieces).split("\n"))


# Tables as text and as plain data

def to_csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table for programs: six digits, empty cells for unknown values, no text that a spreadsheet would evaluate."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(columns)
    table.writerows([_csv_cell(value) for value in row] for row in rows)
    return text.getvalue()


def _csv_cell(value: Any) -> Any:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return f"{value:.6g}" if isinstance(value, float) else no_formula(value) if isinstance(value, str) else int(value)


def to_latex(columns: Sequence[str], rows: Iterable[Sequence[Any]], note: str = "") -> str:
    """A tabular with one line per row; needs the package booktabs."""
    table = list(rows)
    numeric = [all(not isinstance(row[column], str) for row in table) for column in range(len(columns))]
    lines = [" & ".join(latex(_plain(value)) for value in row) + r" \\" for row in table]
    return "\n".join([
        *([f"% {printable(note)}"] if note else []), "% Needs \\usepackage{booktabs}.",
        f"\\begin{{tabular}}{{{''.join('r' if right else 'l' for right in numeric)}}}", "\\toprule",
        " & ".join(latex(name.replace("_", " ")) for name in columns) + r" \\", "\\midrule", *lines, "\\bottomrule",
        "\\end{tabular}", ""])


def _plain(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    return f"{value:.4g}".replace("-", "−") if isinstance(value, float) else str(value)


def latex(text: str) -> str:
    """A text escaped for LaTeX."""
    named = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "–": "--",
             "<": "$<$", ">": "$>$", "−": "$-$", "’": "'"}
    return "".join(named.get(sign, f"\\{sign}" if sign in "&%$#_{}" else sign) for sign in printable(text))


def markdown(text: str) -> str:
    """A text escaped for Markdown."""
    return re.sub(r"([\\`*_|<>\[\]])", r"\\\1", printable(text))


def as_markdown(table: Mapping[str, Any]) -> str:
    """A family's table (`family_table`): value and interval, bold is the best, ≈ marks a tie with it."""
    blocks = list(dict.fromkeys(column["block"] for column in table["columns"]))
    heads = [column["under"] + ", " + column["head"] if len(blocks) == 1 else
             f"{column['block'].split()[0].lower()}, {column['head']}" for column in table["columns"]]
    rows = [[row["method"], *map(_markdown_cell, row["cells"])] for row in table["rows"]]
    title = f"{table['title']}: {' and '.join(block.lower() for block in blocks)} on test, %"
    return "\n".join([title, "", _line(["method", *heads]), "|--" * (len(heads) + 1) + "|", *map(_line, rows)])


def _markdown_cell(cell: Mapping[str, Any] | None) -> str:
    if cell is None:
        return "–"
    value = f"**{percent(cell['value'])}**" if cell["best"] else percent(cell["value"])
    return f"{value}{' ≈' if cell['tied'] else ''} <sub>{percent(cell['low'])}–{percent(cell['high'])}</sub>"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace(chr(0xA0), ' ').replace('|', chr(92) + '|') for cell in cells)} |"


def to_json(scores: Scores, *, level: float = LEVEL) -> dict[str, Any]:
    """Runs and means, each with its splits, each with its average, its worst group and every group; NaN is null.

    Scores over a further grouping are in the split's `groupings`, under its name. How far a model is behind the best is
    under the name of the metric with `_behind_best`, with its p-value.
    """
    runs: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in scores:
        key = {name: row[name] for name in ("run", "benchmark", "method", "label", "seed", "runs")}
        run = runs.setdefault(tuple(key.values()), {**key, "splits": {}})
        behind = row["stat"] == DIFFERENCE
        entry: dict[str, Any] = {name: row[name] if math.isfinite(row[name]) else None
                                 for name in ("value", "low", "high", *(["p"] if behind else []))}
        entry["n"] = row["n"]
        if row["split"] == GAP:
            run[row["metric"]] = entry
            continue
        split = run["splits"].setdefault(row["split"], {"groups": {}})
        metric = row["metric"] + ("_behind_best" if behind else "")
        if row["by"]:
            split = split.setdefault("groupings", {}).setdefault(row["by"], {"groups": {}})
        if is_worst(row["metric"]):
            split[metric] = {"group": row["group"], **entry}
        elif row["group"] == ALL:
            split[metric] = entry
        else:
            split["groups"].setdefault(row["group"], {})[metric] = entry
    kind = "Wilson, Student; worst groups corrected; AUC: DeLong on the logit scale"
    return {"interval": {"kind": kind, "level": level}, "runs": list(runs.values())}
