"""The page: what it says, put together from scores and cards; `page.html` says how it looks."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from shiftbench import __version__
from shiftbench.core.arrays import encode
from shiftbench.core.files import writing
from shiftbench.data.benchmark import SPLITS, Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.groupings import OWN, spaced, titled, untitled
from shiftbench.data.scores import ALL, Scores
from shiftbench.reporting.breeds import of_runs
from shiftbench.reporting.breeds_section import section as breeds
from shiftbench.reporting.figures import dumbbells, ladder, panels
from shiftbench.reporting.fine_grained_section import section as fine_grained
from shiftbench.reporting.nooch_items import Compared
from shiftbench.reporting.nooch_section import section as nooch
from shiftbench.reporting.pictures import samples
from shiftbench.reporting.selection import section, shown_scores
from shiftbench.reporting.tables import Row, classes, families, family_table, methods_in, percent, pivot
from shiftbench.reporting.targets import Column, over_all, task, trains
from shiftbench.reporting.targets import columns as columns_of
from shiftbench.reporting.terminal import FEWEST, probability
from shiftbench.reporting.words import (
    breakable,
    findings,
    overview,
    ranked,
    ranks_by_its_own,
    seeds_in_words,
    summary,
    told,
)
from shiftbench.scoring import BEHIND, GAP, Comparison, comparisons
from shiftbench.scoring.intervals import LEVEL
from shiftbench.scoring.select import DEFAULT
from shiftbench.sweeps.status import Status
from shiftbench.sweeps.status import summary as summary_of

GROUPS = 8
"""Groups whose bars are drawn; of more, those with the lowest accuracy."""
OVER = (("worst_group_accuracy", "Worst group", 1), ("tenth_percentile_accuracy", "Tenth percentile", FEWEST))
"""Columns for each grouping of the card: metric, head and from how many groups on."""
LISTED = 200
"""Runs that are named of those which the page lacks."""
WORST = "worst_group_accuracy"
VERSUS = 40
"""Comparisons of two methods that a card lists."""
ZERO = "\u200b"
"""A place where a line may break."""


def report(
    scores: Scores,
    benchmarks: Sequence[Benchmark],
    out: Path | str,
    *,
    collections: Sequence[Collection | None] | None = None,
    title: str = "shiftbench report",
    level: float = LEVEL,
    rule: str = DEFAULT,
    compared: Sequence[Compared] = (),
    absent: Sequence[Status] = (),
) -> Path:
    """Write one self-contained HTML page: findings, a table and a figure per family of shifts, a card per benchmark.

    Where methods have several settings the tables show the runs that `rule` chooses, which may use no target label, and
    a section sets all rules side by side. Pictures come from the collection whose digest the card names. `level` is
    that of the scores' intervals. `compared` are items on which two methods differ most, `absent` the runs that the
    scores lack.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    given, everything = scores, of_runs(scores)
    scores = shown_scores(everything, benchmarks, rule)
    known = {name: _unknown(name) for name in sorted(set(scores["benchmark"].tolist()))}
    known |= {one.name: one for one in benchmarks if one.name in known or "left_out" not in one.card}
    images = {collection.digest: collection for collection in collections or () if collection is not None}
    groups = families(list(known.values()))
    methods = methods_in(row["method"] for metric in sorted({"accuracy", *(one.headline for one in known.values())})
                         for split in SPLITS for row in pivot(scores, metric, split))
    order = [benchmark for family in groups for benchmark in family.members]
    # Families are compared by accuracy, which other targets do not have.
    groups = [family._replace(members=tuple(one for one in family.members if one.target.has_classes))
              for family in groups]
    selection = section(everything, benchmarks, rule, [one.name for one in order])
    shown = {
        "title": title, "version": __version__, "level": f"{100 * level:g}",
        "methods": [*methods, *(name for name, _ in selection["settings"] if name not in methods)] if selection
        else methods,
        "overview": overview(everything, order, methods),
        "selection": selection and selection | told(selection),
        "fine": fine_grained(scores, order, level),
        "breeds": breeds(given, order, level, rule),
        "nooch": nooch(scores, order, level, compared=compared, images=images),
        "findings": [line for family in groups for line in findings(family_table(scores, family._replace(
            members=tuple(one for one in family.members if not ranks_by_its_own(one)))))]
        + ranked(scores, [one for one in order if ranks_by_its_own(one)]),
        "kinds": {one.target.kind for one in order},
        "families": [_family(scores, family_table(scores, family), family.members) for family in groups
                     if len(family.members) > 1],
        "cards": [_card(scores, benchmark, images) for benchmark in order],
        "absent": _absent(absent),
    }
    folder = Path(__file__).parent
    drawer = Environment(loader=FileSystemLoader(folder), autoescape=True, undefined=StrictUndefined,
                         trim_blocks=True, lstrip_blocks=True)
    drawer.filters |= {"percent": percent, "breakable": breakable}
    text = drawer.get_template("page.html").render(**shown)
    with writing(out) as hidden:
        hidden.write_text(text, encoding="utf-8")
    return Path(out)


def _absent(runs: Sequence[Status]) -> Row | None:
    """The runs that failed, have not ended or are left over, and how many of each."""
    if not runs:
        return None
    return {"summary": summary_of(one.state for one in runs), "runs": runs[:LISTED], "more": max(0, len(runs) - LISTED)}


def _family(scores: Scores, table: Row, members: Sequence[Benchmark]) -> Row:
    """A family's table and, for a ladder, its figure in a wide and a narrow form."""
    cells = [cell for row in table["rows"] for cell in row["cells"] if cell]
    table |= {"seeds": _seeds(table), "blocks": _blocks(table["columns"]),
              "figures": [], "panels": None, "n": _sizes(table)}
    if table["kind"] == "distance" and cells:
        first = table["rows"][0]["method"]
        before = {row["method"]: row["cells"] for row in pivot(scores, "accuracy", "id_test")}.get(first, {})
        baseline = [before[b.name]["value"] if b.name in before else None for b in members]
        chance = 1 / len(members[0].names["label"])
        table["figures"] = [
            ladder(table, baseline=baseline, chance=chance, width=760, height=380, right=150) | {"form": "wide"},
            ladder(table, baseline=baseline, chance=chance, width=380, height=380, right=92) | {"form": "narrow"}]
        table["first"] = first
    if table["kind"] == "share" and cells:
        table["panels"] = panels(table)
    return table


def _seeds(table: Row) -> str:
    """How many seeds a value is the mean of."""
    return seeds_in_words({row["method"]: {cell["runs"] for cell in row["cells"] if cell} for row in table["rows"]})


def _sizes(table: Row) -> str:
    """How many test items stand behind the numbers."""
    cells = [(column["metric"], cell) for row in table["rows"]
             for column, cell in zip(table["columns"], row["cells"], strict=True) if cell]
    sizes = {metric: sorted({cell["n"] for name, cell in cells if name == metric}) for metric, _ in cells}
    told = {metric: f"{n[0]:,}" if len(n) == 1 else f"{n[0]:,} to {n[-1]:,}" for metric, n in sizes.items() if n}
    worst = f", {told['worst_group_accuracy']} in the worst group" if "worst_group_accuracy" in told else ""
    return f"Test items: {told['accuracy']}{worst}." if "accuracy" in told else ""


def _blocks(columns: Sequence[Row]) -> list[tuple[str, int]]:
    """Heads that span several columns: (text, how many)."""
    names = [column["block"] for column in columns]
    return [(name, names.count(name)) for name in dict.fromkeys(names)]


def _card(scores: Scores, benchmark: Benchmark, images: dict[str, Collection]) -> Row:
    """All that is known of one shift."""
    card, mine = benchmark.card, scores.where(benchmark=benchmark.name)
    source = card.get("collection") or {}
    collection = images.get(str(source.get("digest")))
    recipe = {key: card[key] for key in ("shift", "params", "seed", "collection") if key in card}
    has_pictures = collection is not None and collection.pixels is not None
    return {
        "name": benchmark.name, "shift": str(card.get("shift", "")), "trains": trains(benchmark),
        "task": classes(benchmark) if benchmark.target.has_classes else task(benchmark),
        "collection": str(source.get("name", "")), "summary": summary(benchmark),
        "facts": _facts(benchmark), "explanation": dumbbells(_supported(card)),
        "pictures": samples(benchmark, collection) if collection is not None and has_pictures else [],
        "n_classes": len(benchmark.names["label"]),
        "splits": benchmark.splits, "counts": _counts(benchmark),
        "notes": [str(note) for note in card.get("notes") or []],
        "table": _table(mine, benchmark), "bars": _bars(mine, benchmark), "versus": _versus(mine),
        "recipe": json.dumps(recipe, indent=2, ensure_ascii=False, default=str), "digest": benchmark.digest,
    }


def _supported(card: Mapping[str, Any]) -> list[Row]:
    """Tags whose shares differ beyond chance; a card of an older build has no p-value, and all its tags are shown."""
    return [part for part in card.get("explanation") or [] if isinstance(part, dict) and part.get("p", 0.0) < 0.05]


def _facts(benchmark: Benchmark) -> list[tuple[str, str]]:
    card, params = benchmark.card, benchmark.card.get("params") or {}
    facts = [("shift", str(card.get("shift", "")))]
    if isinstance(card.get("distance"), int | float):
        facts.append(("distance", f"{card['distance']:.2f}"))
        facts += [(str(name), f"{value:.2f}") for name, value in list((card.get("subsets") or {}).items())[:6]]
    facts += [(key, f"{params[key]:g}") for key in ("p", "rho") if isinstance(params.get(key), int | float)]
    return [*facts, *((split, f"{len(benchmark.rows(split)):,}") for split in benchmark.splits)]


def _counts(benchmark: Benchmark) -> list[Row]:
    counts, splits = benchmark.counts(), benchmark.splits
    return [{"group": name, "cells": [counts[split].get(name, 0) for split in splits]}
            for name in benchmark.names["group"] if any(name in part for part in counts.values())]


def _table(scores: Scores, benchmark: Benchmark) -> Row:
    """Methods × what was measured on one benchmark, the groupings of its card among it."""
    columns, cells, name = [], [], benchmark.name
    further = [(titled(metric, said), "test", head, f"by {spaced(said, ZERO)}, test")
               for said in _groupings(scores, benchmark) for metric, head, fewest in OVER
               if len(set(scores.where(split="test", metric=titled("accuracy", said))["group"].tolist())) >= fewest]
    own = _class_columns(benchmark) if benchmark.target.has_classes else columns_of(benchmark)
    for metric, split, head, under in (*own, *further):
        column = {row["method"]: row["cells"][name] for row in pivot(scores, metric, split) if name in row["cells"]}
        if column:
            columns.append({"metric": metric, "split": split, "head": head, "under": under})
            cells.append(column)
    methods = methods_in(method for column in cells for method in column)
    table = {"columns": columns, "rows": [{"method": method, "cells": [column.get(method) for column in cells]}
                                          for method in methods]}
    return table | {"seeds": _seeds(table)}


def _class_columns(benchmark: Benchmark) -> list[Column]:
    """Of a card's table where classes are predicted: metric, split, head and what stands under it."""
    return [("accuracy", "id_test", over_all(benchmark, "id_test"), "id_test"),
            ("accuracy", "test", over_all(benchmark, "test"), "test"), ("accuracy_gap", GAP, "Gap", "points lost"),
            ("worst_group_accuracy", "test", "Worst group", "test"), ("macro_f1", "test", "Macro F1", "test")]


def _versus(scores: Scores) -> Row:
    """Methods side by side on test: over all items, then the groups in which a difference is supported."""
    listed = [one for one in comparisons(scores) if one.split == "test"]
    whole = [one for one in listed if one.group == ALL and not one.by and one.metric in ("accuracy", WORST)]
    groups = [one for one in listed if one.group != ALL]
    return {"rows": [_beside(one) for one in [*whole, *(one for one in groups if one.low > 0)][:VERSUS]],
            "groups": len(groups), "told": sum(one.low > 0 for one in groups)}


def _beside(one: Comparison) -> Row:
    of = "All items" if one.metric == "accuracy" else "Worst group"
    return one._asdict() | {"difference": one.difference, "p": probability(one.p),
                            "where": of if one.group == ALL else one.group}


def _groupings(scores: Scores, benchmark: Benchmark) -> list[str]:
    """What the card asks to group by, then what the scores were grouped by besides (`score --by`)."""
    scored = [untitled(metric) for metric in dict.fromkeys(scores.where(split="test")["metric"].tolist())]
    return list(dict.fromkeys([*map(str, benchmark.card.get(OWN) or ()),
                               *(said for name, said in scored if said and name == "worst_group_accuracy")]))


def _bars(scores: Scores, benchmark: Benchmark) -> list[Row]:
    """For the benchmark's groups and for each further grouping: accuracy of every method, the hardest groups first."""
    metric = benchmark.target.of_groups
    named = [(metric, "")] if metric else []
    named += [(titled("accuracy", said), said) for said in _groupings(scores, benchmark)]
    return [bars for name, said in named if (bars := _bars_of(scores, benchmark, name, said))["groups"]]


def _bars_of(scores: Scores, benchmark: Benchmark, metric: str, said: str) -> Row:
    """The groups of one grouping; how many training items each has is known of the benchmark's own alone."""
    trained = benchmark.counts().get("train", {}) if not said else {}
    groups: list[Row] = []
    for group, mine in _by_group(scores, metric).items():
        rows = [{"method": row["method"], **row["cells"][benchmark.name]}
                for row in pivot(mine, metric, "test", group) if benchmark.name in row["cells"]]
        if rows and group != ALL:
            groups.append({"group": group, "n": rows[0]["n"], "trained": trained.get(group, 0) if trained else None,
                           "rows": rows})
    groups.sort(key=lambda one: (float(np.mean([row["value"] for row in one["rows"]])), one["group"]))
    return {"by": spaced(said), "groups": groups[:GROUPS], "all": len(groups)}


def _by_group(scores: Scores, metric: str) -> dict[str, Scores]:
    """The rows of a metric on test by group, sorted once: Amazon has thousands of groups, and as many rows each way."""
    some = np.flatnonzero((scores["split"] == "test") & np.isin(scores["metric"], (metric, metric + BEHIND)))
    codes, names = encode(scores["group"][some])
    order = np.argsort(codes, kind="stable")
    parts = np.split(some[order], np.searchsorted(codes[order], np.arange(1, len(names))))
    return {name: Scores({key: values[part] for key, values in scores.columns.items()})
            for name, part in zip(names, parts, strict=False)}


def _unknown(name: str) -> Benchmark:
    """Stands in for a benchmark that has scores but was not given: its numbers are shown, its card is empty."""
    none, words = np.zeros(0, np.int64), np.zeros(0, np.str_)
    return Benchmark(words, words, none, none, none, {"label": (), "domain": (), "group": ()},
                     {"name": name, "notes": ["The benchmark was not given to the report, so its card is empty."]})
