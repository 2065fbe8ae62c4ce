"""Tables for the terminal: collections, benchmarks, predictions, scores, families of shifts, and chosen settings."""

import math
from collections import Counter
from collections.abc import Collection as Several
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from shiftbench.core.arrays import encode
from shiftbench.core.errors import printable
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.groupings import spaced
from shiftbench.data.predictions import Predictions
from shiftbench.data.scores import ALL, DIFFERENCE, MEAN, Measure, Scores
from shiftbench.reporting.score_tables import capital, comparisons, methods_in, probability
from shiftbench.scoring import GAP
from shiftbench.scoring.metrics import in_unit, in_words, metric_of, percent
from shiftbench.scoring.rules import INSTEAD, LABELS, RULES, TARGETS
from shiftbench.scoring.select import Choice, Mean, Selection, over_benchmarks, over_seeds

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text


# The contents of a collection, counted

COLUMNS = ("name", "is", "values", "how many items")


def collection_facts(collection: Collection) -> dict[str, Any]:
    """Counts of everything in a collection."""
    tags = collection.tags
    times = np.bincount(tags.tag, minlength=len(tags.names))
    kinds = sorted(set(tags.kinds))
    return {
        "name": collection.name, "items": len(collection), "digest": collection.digest,
        "images": "none" if collection.pixels is None else "files" if collection.pixels.dtype.kind == "U"
        else "×".join(map(str, collection.pixels.shape[1:3])),
        "texts": len(collection.texts.item), "boxes": len(tags.boxes),
        "factors": {name: _values(values) for name, values in collection.factors.items()},
        "tags": {kind: {tags.names[code]: int(times[code]) for code in np.argsort(-times, kind="stable")
                        if tags.kinds[code] == kind} for kind in kinds},
        "parents": len(collection.parents),
    }


def _values(values: Any) -> dict[str, Any]:
    """How often each value occurs; for numbers with many values, their range and how many are missing."""
    if values.dtype.kind == "f" or (values.dtype.kind in "iu" and len(np.unique(values)) > 50):
        known = values[~np.isnan(values)]
        lacking = {"missing": len(values) - len(known)} if len(known) < len(values) else {}
        return {"least": known.min().item(), "most": known.max().item(), **lacking} if len(known) else lacking
    codes, names = encode(values)
    return dict(zip(names, np.bincount(codes, minlength=len(names)).tolist(), strict=True))


def contents_title(facts: dict[str, Any]) -> str:
    """The counts of `collection_facts` in a line."""
    return (f"{facts['items']:,} items, images {facts['images']}, {facts['texts']:,} texts, {facts['boxes']:,} boxes, "
            f"{facts['parents']:,} names in the hierarchy")


def contents_rows(collection: Collection, facts: dict[str, Any]) -> list[tuple[str, str, int, str]]:
    """A row per factor and per kind of tag: its values, and how many items have the first of them."""
    rows: list[tuple[str, str, int, str]] = []
    for name, values in facts["factors"].items():
        column = collection.factors[name]
        many = len(np.unique(column[~np.isnan(column)])) if column.dtype.kind in "fiu" else len(values.keys() - {""})
        rows.append((name, "factor", many, _most(values)))
    return rows + [(kind, "tags", len(names), _most(names)) for kind, names in facts["tags"].items()]


def _most(values: dict[str, Any]) -> str:
    known, gaps = {name: n for name, n in values.items() if name}, values.get("")
    first = [f"{name} {n:,.6g}" if isinstance(n, float) else f"{name} {n:,}" for name, n in list(known.items())[:8]]
    return ", ".join([*first, *(["…"] if len(known) > 8 else []), *([f"missing {gaps:,}"] if gaps else [])])


# Tables

GROUPS = 20
"""How many groups are printed for a metric: the worst ones."""
ITEMS, CLASSES = 10, 8
"""Items and classes of predictions that are shown."""
FEWEST = 10
"""The tenth percentile is printed from this many groups on."""
SIGNS = {"none": "", "shifted": " ?", "unknown": " ?", "target": " !"}
"""Marks after the name of a rule: which labels from after the shift it used."""


def _empty(left: Sequence[str], right: Sequence[str] = (), title: str = "", caption: str = "") -> "Table":
    """A table without rows: columns that are read from the left, then numbers."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(printable(title)) if title else None, title_justify="left", title_style="bold",
                  box=box.SIMPLE_HEAD, pad_edge=False, caption=caption or None, caption_justify="left")
    for name in left:
        table.add_column(Text(name))
    for name in right:
        table.add_column(Text(name), justify="right")
    return table


def _name(text: str) -> "Text":
    from rich.text import Text

    return Text(printable(text))


def drawn_table(
    title: str, left: Sequence[str], right: Sequence[str], rows: Iterable[Sequence[str]],
    bold: Several[tuple[int, int]] = (), caption: str = "",
) -> "Table":
    """A table of words: columns that are read from the left, then numbers; `bold` are cells by row and column."""
    from rich.text import Text

    drawn = _empty(left, right, title, caption)
    for number, row in enumerate(rows):
        drawn.add_row(*(Text(printable(word), "bold" if (number, column) in bold else "")
                        for column, word in enumerate(row)))
    return drawn


def as_table(table: dict[str, Any]) -> "Table":
    """A family's table (`distance_tables`, `share_tables`), value and interval in each cell; * is the best."""
    blocks = list(dict.fromkeys(column["block"] for column in table["columns"]))
    heads = [printable(column["head"]) if len(blocks) == 1 else
             f"{column['block'].split()[0].lower()}\n{printable(column['head'])}" for column in table["columns"]]
    drawn = _empty(["method"], heads, f"{table['title']}: {' and '.join(block.lower() for block in blocks)} on test, %",
                   "* best   ≈ does not differ significantly from the best")
    for row in table["rows"]:
        drawn.add_row(_name(row["method"]), *(_cell(cell) for cell in row["cells"]))
    return drawn


def _cell(cell: dict[str, Any] | None) -> "Text":
    from rich.text import Text

    if cell is None:
        return Text("–", "dim")
    mark = "*" if cell.get("best") else "≈" if cell.get("tied") else " "
    value = Text(percent(cell["value"]) + mark, "bold" if cell.get("best") else "")
    return value.append(" ").append(_interval(cell))


def counts_table(benchmark: Benchmark) -> "Table":
    """The number of items of each group in every split; only the largest of many groups."""
    counts = benchmark.counts()
    total = Counter[str]()
    for groups in counts.values():
        total.update(groups)
    more = f"The {GROUPS} largest of {len(total):,} groups." if len(total) > GROUPS else ""
    drawn = _empty(["group"], list(counts), f"{benchmark.name}: {len(benchmark):,} rows", more)
    for name, _ in total.most_common(GROUPS):
        drawn.add_row(_name(name), *(f"{counts[split].get(name, 0):,}" for split in counts))
    return drawn


def contents_table(collection: Collection) -> "Table":
    """The factors and kinds of tags of a collection, with their values."""
    facts = collection_facts(collection)
    drawn = _empty(COLUMNS, (), f"{collection.name}: {contents_title(facts)}")
    for name, *cells in contents_rows(collection, facts):
        drawn.add_row(_name(name), *(_name(str(cell)) for cell in cells))
    return drawn


def predictions_table(predictions: Predictions) -> "Table":
    """The first rows of predictions: item, split and the score of each of the first classes."""
    classes = predictions.classes[:CLASSES]
    more = f"The first {ITEMS} of {len(predictions):,} items." if len(predictions) > ITEMS else ""
    if len(predictions.classes) > CLASSES:
        more += f" The first {CLASSES} of {len(predictions.classes):,} classes."
    drawn = _empty(["item", "split"], classes, f"Predictions: {len(predictions):,} items", more.strip())
    for item, split, scores in zip(predictions.item[:ITEMS].tolist(), predictions.split[:ITEMS].tolist(),
                                   predictions.scores[:ITEMS, :CLASSES].tolist(), strict=True):
        drawn.add_row(_name(item), split, *(f"{score:.4g}" for score in scores))
    return drawn


# Scores

def score_tables(scores: Scores) -> "list[Table]":
    """Every number, then models side by side where there are several."""
    beside = versus_table(scores) if DIFFERENCE in scores["stat"] else None
    has_values = bool((scores["stat"] != DIFFERENCE).any())
    return ([scores_table(scores)] if has_values else []) + ([] if beside is None else [beside])


def scores_table(scores: Scores) -> "Table":
    """Every split of every run: average, groups and worst group with intervals, then macro F1 and the gap.

    Only the worst of many groups are shown; the table as a file has all.
    """
    from rich.text import Text

    kept = [{**row, "name": name} for name, row in zip(scores.names.tolist(), scores, strict=True)
            if row["stat"] != DIFFERENCE]
    blocks = _by_metric(kept)
    many = any(len(block) > GROUPS and block[0]["group"] != ALL for block in blocks)
    drawn = _empty(("run", "split", "metric", "group"), ("n", "%", "interval"), caption=(
        f"Of more than {GROUPS} groups the worst are shown; --out has all." if many else ""))
    before: tuple[str, ...] = ("", "")
    run_names = _run_names(kept)
    for row in _printed(blocks):
        head = (row["name"] if row["stat"] == MEAN else run_names[row["run"], row["name"], row["seed"]], row["split"])
        cells = [word if word != old or (number and head[0] != before[0]) else ""
                 for number, (word, old) in enumerate(zip(head, before, strict=True))]
        strong = row["metric"] == "worst_group_accuracy" or (row["metric"] == "accuracy" and row["group"] == ALL)
        drawn.add_row(*map(_name, cells), _name(in_words(row["metric"], row["by"])),
                      _name("" if row["group"] == ALL else row["group"]), f"{row['n']:,}",
                      Text(_number(row, "value"), "bold" if strong else ""), _interval(row),
                      end_section=row["split"] == GAP)
        before = head
    return drawn


def _run_names(rows: list[dict[str, Any]]) -> dict[tuple[str, str, int], str]:
    """The names of single runs: the method, the seed if it has several, and the run's own name in brackets.

    A name that begins with the method is used as it is.
    """
    runs = dict.fromkeys((row["run"], row["name"], row["seed"]) for row in rows if row["stat"] != MEAN)
    seeds: dict[str, set[int]] = {}
    for _, name, seed in runs:
        seeds.setdefault(name, set()).add(seed)
    return {(run, name, seed): run if run == name or run.startswith(f"{name},") else
            name + (f", seed {seed}" if len(seeds[name]) > 1 else "") + (f" ({run})" if run else "")
            for run, name, seed in runs}


def _by_metric(rows: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The rows of each grouping and metric, those over all items apart from those of groups."""
    blocks: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        blocks.setdefault((*_grouping_of(row), row["metric"], row["group"] == ALL), []).append(row)
    return list(blocks.values())


def _goodness(row: dict[str, Any]) -> float:
    """A sort key in which higher is better, for losses too; a group without a value is never among the worst."""
    value = metric_of(row["metric"]).sign * row["value"]
    return math.inf if math.isnan(value) else float(value)


def _printed(blocks: list[list[dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    """The printed rows, of groups the worst ones first, and how many groups a further grouping has."""
    parts = Counter(_grouping_of(row) for block in blocks for row in block if row["metric"] == "accuracy" and row["by"])
    for block in blocks:
        many = parts[_grouping_of(block[0])]
        if block[0]["group"] != ALL:
            yield from sorted(block, key=_goodness)[:GROUPS]
        elif block[0]["metric"] != "tenth_percentile_accuracy" or many >= FEWEST:
            yield from ({**row, "group": f"{many:,} groups"} if many else row for row in block)


def _grouping_of(row: dict[str, Any]) -> tuple[Any, ...]:
    """The method and the grouping of a row."""
    return tuple(row[name] for name in ("benchmark", "run", "name", "seed", "split", "by"))


def _interval(cell: dict[str, Any]) -> "Text":
    from rich.text import Text

    between = " to " if cell["low"] < 0 else "–"  # a dash next to a minus is unreadable
    return Text("" if math.isnan(cell["low"]) else f"{_number(cell, 'low')}{between}{_number(cell, 'high')}", "dim")


def _number(row: dict[str, Any], key: str) -> str:
    """A share in per cent; a loss, a correlation and a count as they are."""
    metric = row.get("metric", "")
    if metric == "tasks_judged":
        return f"{row[key]:.0f}"
    return in_unit(row[key], {"unit": metric_of(metric).unit})


def versus_table(scores: Scores) -> "Table | None":
    """Models side by side on the same items: all items, then the groups where the difference is most significant."""
    pairs = comparisons(scores)
    if not pairs:
        return None
    more = f" The first {GROUPS} of {len(pairs)}; --out has all." if len(pairs) > GROUPS else ""
    drawn = _empty(("split", "metric", "group"), ("n", "ahead", "%", "behind", "%", "difference", "interval", "p"),
                   "Side by side, on the same items",
                   f"p is corrected for all pairs of models and for the groups of a grouping.{more}")
    for pair in pairs[:GROUPS]:
        metric = in_words(pair.metric) + (f" by {spaced(pair.by)}" if pair.by else "")
        drawn.add_row(pair.split, _name(metric), _name("" if pair.group == ALL else pair.group), f"{pair.n:,}",
                      _name(pair.best), percent(pair.best_value), _name(pair.other), percent(pair.other_value),
                      percent(pair.difference), _interval(pair._asdict()), probability(pair.p))
    return drawn


# Choices among settings

def selection_tables(selection: Selection) -> "list[Table]":
    """The runs that one rule chose; or several rules side by side, by each target."""
    if len({choice.rule for choice in selection.choices}) < 2:
        return [choices_table(selection.choices)]
    return [rules_table(selection, target) for target in dict.fromkeys(choice.target for choice in selection.choices)]


def rules_table(selection: Selection, target: str = TARGETS[0]) -> "Table":
    """Every rule side by side for the terminal: its score on test and, after ↓, its regret."""
    means = over_seeds(choice for choice in selection.choices if choice.target == target)
    used = [name for name in RULES if any(mean.rule == name for mean in means)]
    labels = {mean.rule: mean.labels for mean in sorted(means, key=lambda mean: LABELS.index(mean.labels))}
    metrics = selection.metrics
    instead = [] if target in metrics or target != "accuracy" else [name for name in INSTEAD if name in metrics]
    measures = [Measure(name) for name in instead] or [Measure.parse(target)]
    head, share = " or ".join(in_words(*measure) for measure in measures), all(
        metric_of(measure.metric).unit == "share" for measure in measures)
    unit = {"unit": "share" if share else "number"}
    heads = [name.replace("_", " ") + SIGNS[labels[name]] for name in used]
    drawn = _empty(("benchmark", "method"), ("settings", *heads),
                   f"{capital(head)} on test{', %' if share else ''}, by rule of choice",
                   "↓ regret: points behind the oracle   ! used target labels   ? used labels from after the shift, of "
                   "domains that are not the test's or not known")
    names = list(dict.fromkeys(mean.benchmark for mean in means))
    blocks = [(name, [mean for mean in means if mean.benchmark == name]) for name in names]
    if len(names) > 1:
        blocks.append((f"mean of {len(names)}", over_benchmarks(means)))
    for name, rows in blocks:
        methods = methods_in(mean.method for mean in rows)
        for method in methods:
            by_rule = {mean.rule: mean for mean in rows if mean.method == method}
            drawn.add_row(_name(name if method == methods[0] else ""), _name(method),
                          str(max(mean.among for mean in by_rule.values())),
                          *(_short(by_rule.get(rule), len(names), unit) for rule in used),
                          end_section=method == methods[-1])
    return drawn


def _short(mean: Mean | None, benchmarks: int, cell: dict[str, Any]) -> "Text":
    from rich.text import Text

    if mean is None:
        return Text("–", "dim")
    regret = f"↓{in_unit(mean.regret, cell)}" if mean.among > 1 and mean.rule != "oracle" else ""
    if not mean.benchmark and mean.benchmarks < benchmarks:  # a mean over other benchmarks cannot be compared
        return Text(f"{regret} on {mean.benchmarks}" if regret else "–", "dim")
    whose = f"\n{printable(mean.whose)}" if mean.whose else ""
    return Text(in_unit(mean.test, cell)).append((f" {regret}" if regret else "") + whose, "dim")


def choices_table(choices: Iterable[Choice]) -> "Table":
    """The chosen runs, one per row."""
    from rich.text import Text

    chosen = list(choices)
    worst = ["worst group", "n"] if any(choice.group for choice in chosen) else []
    drawn = _empty(())
    for name in ("benchmark", "method", "seed", "run", "of", "criterion", "test %", *worst, "regret"):
        left = name in ("benchmark", "method", "run", "worst group")
        drawn.add_column(name, justify="left" if left else "right")
    for choice in chosen:
        benchmark, method, run, group = map(_name, (choice.benchmark, choice.method, choice.run, choice.group))
        drawn.add_row(benchmark, method, str(choice.seed), run, str(choice.among), f"{choice.criterion:.4f}",
                      percent(choice.test), *((group, Text(f"{choice.n:,}")) if worst else ()), percent(choice.regret))
    return drawn
