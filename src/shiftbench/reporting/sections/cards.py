"""A card per benchmark: what differs between training and test, pictures, and the scores of every method."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from shiftbench.core.arrays import encode
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.groupings import OWN, spaced
from shiftbench.data.scores import ALL, Measure, Scores
from shiftbench.reporting.charts import (
    Bar,
    Dot,
    Entry,
    Figure,
    Look,
    hundredths,
    legends,
    looks_of,
    numbers,
    rows,
    scale,
    shares,
)
from shiftbench.reporting.page import Chapter, Content, Results
from shiftbench.reporting.pictures import samples
from shiftbench.reporting.score_tables import (
    Comparison,
    Row,
    breakable,
    capital,
    column_of,
    comparisons,
    enumeration,
    methods_table,
    probability,
    with_interval,
)
from shiftbench.scoring import GAP
from shiftbench.scoring.metrics import in_words, is_worst, metric_of, own_metrics, percent

GROUPS = 8
"""How many groups have bars: those with the lowest accuracy."""
FEWEST = 10
"""The tenth percentile is shown from this many groups on."""
OVER = (("worst_group_accuracy", "Worst group", 1), ("tenth_percentile_accuracy", "Tenth percentile", FEWEST))
"""Columns for each grouping of the card: metric, head and the fewest groups for it."""
WORST = "worst_group_accuracy"
VERSUS = 40
"""Comparisons of two methods that a card lists."""
ZERO = "\u200b"
"""A place where a line may break."""

Column = tuple[Measure, str, str, str]
"""A column of a card's table: measure, split, head and the text under the head."""


def content(results: Results) -> Content | None:
    """One card per benchmark, in the order of the page."""
    looks = looks_of(results.methods)
    cards = [_card(results, benchmark, looks) for benchmark in results.benchmarks]
    shifts, many = any(map(trains, results.benchmarks)), len(cards) > 1
    head = ("The shifts" if many else "The shift") if shifts else ("The benchmarks" if many else "The benchmark")
    text = ("What differs between training and test in each benchmark, and what every method makes of it."
            if shifts else "What is tested on, and what every model makes of it.")
    chapters = [Chapter("", head, [("under", {"text": text})])] if cards else []
    chapters += [Chapter(f"b{number}", "", [("card", {"card": card, "anchor": f"b{number}"})], card["name"])
                 for number, card in enumerate(cards, 1)]
    return {"chapters": chapters, "figures": [figure for card in cards for figure in card["figures"]]}


def _card(results: Results, benchmark: Benchmark, looks: Mapping[str, Look]) -> Row:
    """The facts of one benchmark's card."""
    card, scores = benchmark.card, results.shown.where(benchmark=benchmark.name)
    source = card.get("collection") or {}
    collection = results.images.get(str(source.get("digest")))
    recipe = {key: card[key] for key in ("shift", "params", "seed", "collection") if key in card}
    has_pictures = collection is not None and collection.pixels is not None
    tags, bars = _tags(card), _bars(scores, benchmark)
    return {
        "name": benchmark.name,
        "task": benchmark.target.task(benchmark.names["label"]),
        "collection": str(source.get("name", "")), "summary": summary(benchmark), "facts": _facts(benchmark),
        "explanation": tags, "n_classes": len(benchmark.names["label"]),
        "pictures": samples(benchmark, collection) if collection is not None and has_pictures else [],
        "splits": benchmark.splits, "counts": _counts(benchmark),
        "notes": [str(note) for note in card.get("notes") or []],
        "table": _table(scores, benchmark), "bars": bars, "versus": _versus(scores),
        "recipe": json.dumps(recipe, indent=2, ensure_ascii=False, default=str), "digest": benchmark.digest,
        "figures": [*_tags_figure(benchmark.name, tags), *_bars_figures(benchmark.name, bars, looks, results.level)],
    }


def _facts(benchmark: Benchmark) -> list[tuple[str, str]]:
    card, params = benchmark.card, benchmark.card.get("params") or {}
    facts = [("shift", str(card.get("shift", "")))]
    if isinstance(card.get("distance"), int | float):
        facts.append(("distance", f"{card['distance']:.2f}"))
        facts += [(str(name), f"{value:.2f}") for name, value in list((card.get("subsets") or {}).items())[:6]]
    facts += [(key, f"{params[key]:g}") for key in ("p", "rho") if isinstance(params.get(key), int | float)]
    return [*facts, *((split, f"{len(benchmark.rows(split)):,}") for split in benchmark.splits)]


def _counts(benchmark: Benchmark) -> list[list[str]]:
    """A row per group: its name, and how many items it has in each split."""
    counts, splits = benchmark.counts(), benchmark.splits
    return [[breakable(name), *(f"{counts[split].get(name, 0):,}" for split in splits)]
            for name in benchmark.names["group"] if any(name in sizes for sizes in counts.values())]


def trains(benchmark: Benchmark) -> bool:
    """Whether a benchmark has training items; a benchmark that was not given counts as having some."""
    return not len(benchmark) or "train" in benchmark.splits


# Tags whose shares differ between training and test

def summary(benchmark: Benchmark) -> str:
    """What test shows more and less often than training: three points or more, and beyond chance (5 %)."""
    tags = [tag for tag in _supported(benchmark.card) if abs(tag["test"] - tag["train"]) >= 0.03]
    more = [tag for tag in tags if tag["test"] > tag["train"]][:3]
    less = [tag for tag in tags if tag["test"] < tag["train"]][:3]
    sentences = []
    if more:
        sentences.append(f"Test shows more {_shares(more)}.")
    if less:
        sentences.append(f"{'It' if more else 'Test'} shows less {_shares(less)}.")
    return " ".join(sentences)


def _shares(tags: Sequence[Row]) -> str:
    return enumeration([f"{tag['tag']} ({percent(tag['train'], 0)}\u00a0→\u00a0{percent(tag['test'], 0)}\u00a0%)"
                        for tag in tags])


def _supported(card: Mapping[str, Any]) -> list[Row]:
    """Tags whose shares differ beyond chance; a card of an older build has no p-value, and all its tags are shown."""
    return [tag for tag in card.get("explanation") or [] if isinstance(tag, dict) and tag.get("p", 0.0) < 0.05
            and all(isinstance(tag.get(side), int | float) and math.isfinite(tag[side]) for side in ("train", "test"))]


def _tags(card: Mapping[str, Any]) -> list[Row]:
    """Share of each tag in train and in test, also in per cent of the largest share of any."""
    tags = _supported(card)
    most = max((max(tag["train"], tag["test"]) for tag in tags), default=0.0) or 1.0
    return [{**tag, "at_train": 100 * tag["train"] / most, "at_test": 100 * tag["test"] / most, "times": _times(tag)}
            for tag in tags]


def _times(tag: Mapping[str, Any]) -> str:
    """The lift in words: a tag that only one side has is new or gone, since no factor says it.

    >>> _times({"train": 0.1, "test": 0.3, "lift": 3.0}), _times({"train": 0.0, "test": 0.3, "lift": 260.0})
    ('× 3.0', 'new')
    """
    lift = tag.get("lift")
    if not tag["train"] or not tag["test"]:
        return "new" if tag["test"] else "gone"
    if not isinstance(lift, int | float) or not math.isfinite(lift):
        return ""
    return f"× {lift:.0f}" if lift >= 10 else f"× {lift:.1f}" if lift >= 1 else f"× {lift:.2f}"


def _tags_figure(name: str, tags: Sequence[Row]) -> list[Figure]:
    if not tags:
        return []
    drawn = [Entry(str(tag["tag"]), Look(1), number=tag["times"], bridge=(tag["train"], tag["test"]), dots=(
        Dot(tag["train"], style="hollow-dot"), Dot(tag["test"])),
        title=f"{tag['tag']}: {percent(tag['train'])} % in training, {percent(tag['test'])} % in test") for tag in tags]
    x = scale([0.0, max(max(tag["train"], tag["test"]) for tag in tags)], write=hundredths, least=0.0, most=1.0)
    return [Figure(f"tags-{name}", f"{name}: tags whose shares differ most",
                   "Share of items with the tag, per cent. Hollow: training. Full: test. At the right: the lift.",
                   (rows(name, drawn, x, width=440, left=130, right=60, height=24),), ("tag", "train", "test", "lift"),
                   tuple((str(tag["tag"]), float(tag["train"]), float(tag["test"]), tag.get("lift")) for tag in tags),
                   legends=legends([("training", "hollow-dot"), ("test", Look(1))]))]


# Scores

def _table(scores: Scores, benchmark: Benchmark) -> Row:
    """Methods × what was measured on one benchmark, the groupings of its card among it."""
    further = [(Measure(metric, by), "test", head, f"by {spaced(by, ZERO)}, test")
               for by in _groupings(scores, benchmark) for metric, head, fewest in OVER
               if len(set(scores.where(split="test", metric="accuracy", by=by)["group"].tolist())) >= fewest]
    return methods_table([
        ({"head": head, "under": under, "worst": is_worst(metric), "marks": split == "test"}, column)
        for (metric, by), split, head, under in (*_columns(benchmark), *further)
        if (column := column_of(scores, benchmark.name, metric, split, by=by))])


def _columns(benchmark: Benchmark) -> list[Column]:
    """What a card's table shows of every method."""
    before, after = _over_all(benchmark, "id_test"), _over_all(benchmark, "test")
    further = [(Measure(metric.name), "test", capital(in_words(metric.name)), "test")
               for metric in own_metrics(benchmark.target)]
    if benchmark.target.has_classes:
        return [(Measure("accuracy"), "id_test", before, "id_test"), (Measure("accuracy"), "test", after, "test"),
                (Measure("accuracy_gap"), GAP, "Gap", "points lost"), (Measure(WORST), "test", "Worst group", "test"),
                (Measure("macro_f1"), "test", "Macro F1", "test"), *further]
    first = benchmark.headline
    measure = in_words(*first)
    lost = "points lost" if metric_of(first.metric).unit == "share" else "lost"
    return [(first, "id_test", before, f"{measure}, id_test"), (first, "test", after, f"{measure}, test"),
            (Measure(f"{first.metric}_gap"), GAP, "Gap", lost),
            *((Measure(name), "test", capital(in_words(name)), "test") for name in benchmark.target.ranking
              if name != first.metric), *further]


def _over_all(benchmark: Benchmark, split: str) -> str:
    """The head of the number over all items; without training items there is no shift to name."""
    heads = {"id_test": "Before the shift", "test": "After the shift"}
    return heads[split] if trains(benchmark) else "Average"


def _versus(scores: Scores) -> Row:
    """Methods side by side on test: over all items, then the groups in which a difference is supported."""
    pairs = [pair for pair in comparisons(scores) if pair.split == "test"]
    whole = [pair for pair in pairs if pair.group == ALL and not pair.by and pair.metric in ("accuracy", WORST)]
    groups = [pair for pair in pairs if pair.group != ALL]
    return {"rows": [_beside(pair) for pair in [*whole, *(pair for pair in groups if pair.low > 0)][:VERSUS]],
            "groups": len(groups), "supported": sum(pair.low > 0 for pair in groups)}


def _beside(pair: Comparison) -> list[str]:
    items = "All items" if pair.metric == "accuracy" else "Worst group"
    interval = Markup(" <small>{} to {}</small>").format(percent(pair.low), percent(pair.high))
    return [breakable(items if pair.group == ALL else pair.group), f"{pair.n:,}", breakable(pair.best),
            percent(pair.best_value), breakable(pair.other), percent(pair.other_value),
            percent(pair.difference) + (interval if pair.low == pair.low else ""), probability(pair.p)]


def _groupings(scores: Scores, benchmark: Benchmark) -> list[str]:
    """The groupings of the card, then the further groupings of the scores (`score --by`)."""
    scored = scores.where(split="test", metric=WORST)["by"].tolist()
    return list(dict.fromkeys([*map(str, benchmark.card.get(OWN) or ()), *filter(None, scored)]))


def _bars(scores: Scores, benchmark: Benchmark) -> list[Row]:
    """For the benchmark's groups and for each further grouping: accuracy of every method, the hardest groups first."""
    metric = benchmark.target.of_groups
    named = [(metric, "")] if metric else []
    named += [("accuracy", by) for by in _groupings(scores, benchmark)]
    return [bars for name, by in named if (bars := _bars_of(scores, benchmark, name, by))["groups"]]


def _bars_of(scores: Scores, benchmark: Benchmark, metric: str, by: str) -> Row:
    """The groups of one grouping; training counts are known only for the benchmark's own groups."""
    trained = benchmark.counts().get("train", {}) if not by else {}
    groups: list[Row] = []
    for group, group_scores in _by_group(scores.where(split="test", metric=metric, by=by)).items():
        cells = [{"method": method, **cell} for method, cell in column_of(
            group_scores, benchmark.name, metric, "test", group, by=by).items()]
        if cells and group != ALL:
            groups.append({"group": group, "n": cells[0]["n"], "trained": trained.get(group, 0) if trained else None,
                           "rows": cells})
    groups.sort(key=lambda panel: (float(np.mean([row["value"] for row in panel["rows"]])), panel["group"]))
    return {"by": spaced(by) if by else "", "groups": groups[:GROUPS], "all": len(groups)}


def _by_group(scores: Scores) -> dict[str, Scores]:
    """The rows of each group, sorted once: Amazon has thousands of groups, and as many rows each way."""
    codes, names = encode(scores["group"])
    order = np.argsort(codes, kind="stable")
    parts = np.split(order, np.searchsorted(codes[order], np.arange(1, len(names))))
    return {name: scores.take(rows) for name, rows in zip(names, parts, strict=False)}


def _bars_figures(name: str, groupings: Sequence[Row], looks: Mapping[str, Look], level: float) -> list[Figure]:
    """Accuracy group by group as a figure of its own, a panel per group."""
    figures = []
    for bars in groupings:
        panels = [rows(f"{panel['group']} (n = {panel['n']:,})", [
            Entry(row["method"], looks.get(row["method"], Look()), (Bar(row),), number=percent(row["value"]),
                 title=f"{row['method']}: {with_interval(row)}") for row in panel["rows"]],
            shares(), left=110, right=44, height=18) for panel in bars["groups"]]
        figures.append(Figure(
            f"groups-{name}{'-' if bars['by'] else ''}{bars['by']}", f"{name}: accuracy by {bars['by'] or 'group'}",
            f"Test accuracy in per cent with its {100 * level:g} % interval, the hardest group first"
            + (f": {len(panels)} of {bars['all']} groups." if bars["all"] > len(panels) else "."), tuple(panels),
            ("group", "method", "value", "low", "high", "n"),
            tuple((panel["group"], row["method"], *numbers(row), row["n"])
                  for panel in bars["groups"] for row in panel["rows"])))
    return figures
