"""Sentences that say what the numbers say, and no more."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from shiftbench.data.benchmark import Benchmark
from shiftbench.data.scores import Scores
from shiftbench.reporting.tables import Row, percent, pivot
from shiftbench.reporting.targets import WORDS
from shiftbench.scoring import MEAN
from shiftbench.scoring.metrics import in_words

if TYPE_CHECKING:
    from markupsafe import Markup

MOST = 6
"""Benchmarks outside every family that get a sentence of their own."""
SHORT = 14
"""Letters of a word that fits on a line of every column."""


def overview(scores: Scores, benchmarks: Sequence[Benchmark], methods: Sequence[str]) -> str:
    """How much was measured on what."""
    names = {benchmark.name for benchmark in benchmarks}
    single = {(row["benchmark"], row["run"]) for row in scores if row["seed"] != -1 and row["benchmark"] in names}
    told = {(row["benchmark"], row["method"]): row["run"] for row in scores if row["seed"] == -1}
    runs = len(single) or sum(int(run.removeprefix(MEAN)) for run in told.values())
    sources = sorted({str((b.card.get("collection") or {}).get("name", "")) for b in benchmarks} - {""})
    made = f" made from the collection{'s' if len(sources) > 1 else ''} {_listed(sources)}" if sources else ""
    measured = f"{_many(len(methods), 'method')} in {_many(runs, 'run')}" if methods else "No method yet"
    return f"{measured} on {_many(len(benchmarks), 'benchmark')}{made}."


def findings(table: Row) -> list[tuple[str, str]]:
    """Title and sentence: what a family's table shows about its first method and the best one at the hardest shift."""
    rows, columns = table["rows"], table["columns"]
    if not rows:
        return []
    first = rows[0]
    if table["kind"] == "other":
        half = len(columns) // 2
        return [line for place in range(min(half, MOST)) for line in _plain(rows, columns, place, place + half)]
    if table["kind"] == "distance":
        near, far = first["cells"][0], first["cells"][-1]
        if not near or not far:
            return []
        moved = "falls" if far["high"] < near["low"] else "goes"
        return [(f"{table['title']}, farther away.",
                 f"As the distance grows from {columns[0]['x']:.2f} to {columns[-1]['x']:.2f}, {first['method']} "
                 f"{moved} from {percent(near['value'])}\u00a0% to {percent(far['value'])}\u00a0% "
                 f"({columns[0]['block'].lower()})."
                 + _best(rows, len(columns) - 1, "there"))]
    last = len(columns) - 1
    share = columns[last]["head"].removeprefix("p = ")
    return [(f"{table['title']}, rare groups.", f"With a minority share of {share}: {text}")
            for _, text in _plain(rows, columns, last // 2, last)]


def ranks_by_its_own(benchmark: Benchmark) -> bool:
    """Whether another number than the average of classes ranks on a benchmark."""
    return not benchmark.target.has_classes or benchmark.headline != "accuracy"


def ranked(scores: Scores, benchmarks: Sequence[Benchmark]) -> list[tuple[str, str]]:
    """Title and sentence of each benchmark, by the number that ranks there: what its first and its best method have."""
    made = []
    for benchmark in benchmarks:
        metric = benchmark.headline
        rows = [{"method": row["method"], "cells": [row["cells"].get(benchmark.name)]}
                for row in pivot(scores, metric, "test") if benchmark.name in row["cells"]]
        if not rows:
            continue
        first, kind = rows[0]["cells"][0], benchmark.target.kind
        what = in_words(metric).replace("macro f1", "macro F1") if kind == "class" else WORDS.get(metric, metric)
        per = "" if "× 100" in what else "\u00a0%"
        whose = f": “{first['group']}”, n\u00a0=\u00a0{first['n']:,}" if metric.startswith("worst_") else ""
        made.append((f"{benchmark.name}.", f"{rows[0]['method']} has {percent(first['value'])}{per} on test in what "
                     f"ranks here ({what}{whose})." + _best(rows, 0, "by it", per)))
    return made


def _plain(rows: Sequence[Row], columns: Sequence[Row], place: int, other: int) -> list[tuple[str, str]]:
    """One benchmark: average and worst group of the first method, and the method with the best worst group."""
    average, worst = rows[0]["cells"][place], rows[0]["cells"][other]
    if not average or not worst:
        return []
    return [(f"{columns[place]['benchmark']}.",
             f"{rows[0]['method']} has {percent(average['value'])}\u00a0% on average and "
             f"{percent(worst['value'])}\u00a0% in its worst group “{worst['group']}” (n\u00a0=\u00a0{worst['n']:,})."
             + _best(rows, other, "for the worst group"))]


def _best(rows: Sequence[Row], place: int, where: str, per: str = "\u00a0%") -> str:
    """Which method is ahead of which others in a column, and nothing where no difference is supported."""
    known = [(row["method"], row["cells"][place]) for row in rows if row["cells"][place]]
    best = next((pair for pair in known if pair[1]["best"]), None)
    if best is None:
        return ""
    tied = [method for method, cell in known if cell["tied"]]
    beaten = [method for method, cell in known if not cell["tied"] and method != best[0]]
    if not beaten:
        return f" The {len(known)} methods cannot be told apart {where}."
    told = f" Best {where} is {best[0]} with {percent(best[1]['value'])}{per}"
    if not tied:
        return told + ", distinguishable from every other method."
    return (f" Ahead {where} is {best[0]} with {percent(best[1]['value'])}{per}, distinguishable from "
            f"{_listed(beaten)}, but not from {_listed(tied)}.")


def seeds_in_words(counts: Mapping[str, Collection[int]]) -> str:
    """How many seeds values are the mean of, for the end of a caption; method by method where the counts differ.

    >>> seeds_in_words({"erm": {2}, "irm": {2}}), seeds_in_words({"erm": {2}, "irm": {1}}), seeds_in_words({"erm": {1}})
    (', mean over 2 seeds', ', mean over seeds (erm 2, irm 1)', '')
    """
    each = {n for runs in counts.values() for n in runs}
    if len(each) == 1:
        (n,) = each
        return f", mean over {n} seeds" if n > 1 else ""
    listed = [f"{method} {min(runs)}" + (f" to {max(runs)}" if len(set(runs)) > 1 else "")
              for method, runs in counts.items() if runs]
    return f", mean over seeds ({', '.join(listed)})" if listed else ""


def breakable(name: object) -> "Markup":
    """A name as HTML whose lines may break behind each _, + and comma of a long word, so that none breaks elsewhere.

    >>> print(breakable("resnet50_imagenet1k_v2"), breakable("group_dro"), breakable("<b> & co"))
    resnet50_<wbr>imagenet1k_<wbr>v2 group_dro &lt;b&gt; &amp; co
    """
    from markupsafe import Markup, escape

    pieces = (re.sub(r"(?<=[_+,])(?=\w)", "\n", word) if len(word) > SHORT else word
              for word in re.split(r"(\s+)", str(name).replace("\n", " ")))
    return Markup("<wbr>").join(escape(piece) for piece in "".join(pieces).split("\n"))


def told(selection: Row) -> dict[str, str]:
    """How the runs of the page were chosen: in a line for its top, and in full."""
    counts: dict[int, list[str]] = {}
    for method, n in selection["settings"]:
        counts.setdefault(n, []).append(method)
    trained = _listed([f"{_listed(methods)} with {n}" for n, methods in sorted(counts.items())]) + " settings"
    best = "lowest" if selection["lower"] else "highest"
    at = _listed(selection["open"])
    open_too = f" {selection['rule']} cannot choose on {at}: there each setting is a row of its own." if at else ""
    if not selection["by"]:
        return {"short": f"Methods have several settings.{open_too}", "long": f"There are runs of {trained}.{open_too}"}
    return {
        "short": f"Of a method’s several settings the tables show one run per seed: the one with the {best} "
                 f"{selection['by']}.",
        "long": f"There are runs of {trained}. The tables of this page show, for each method and seed, the run with "
                f"the {best} {selection['by']}{_touched(selection)}. Another rule takes other runs: this is what each "
                f"would give on test, and how far that is behind the best run there was.{open_too}"}


def _touched(selection: Row) -> str:
    labels = next(rule["labels"] for rule in selection["rules"] if rule["head"] == selection["rule"])
    return "; no label from after the shift had a part in it" if labels == "none" else (
        "; its labels are from after the shift, but of no domain of the test")


def summary(benchmark: Benchmark) -> str:
    """What test shows more and less often than training: three points or more, and beyond chance (5 %)."""
    parts = [part for part in benchmark.card.get("explanation") or [] if _told(part) and part.get("p", 0.0) < 0.05]
    parts = [part for part in parts if abs(part["test"] - part["train"]) >= 0.03]
    more = [part for part in parts if part["test"] > part["train"]][:3]
    less = [part for part in parts if part["test"] < part["train"]][:3]
    sentences = []
    if more:
        sentences.append(f"Test shows more {_shares(more)}.")
    if less:
        sentences.append(f"{'It' if more else 'Test'} shows less {_shares(less)}.")
    return " ".join(sentences)


def _told(part: Any) -> bool:
    return isinstance(part, dict) and all(isinstance(part.get(key), int | float) for key in ("train", "test"))


def _shares(parts: Sequence[Row]) -> str:
    return _listed([f"{part['tag']} ({percent(part['train'], 0)}\u00a0→\u00a0{percent(part['test'], 0)}\u00a0%)"
                    for part in parts])


def _listed(words: Sequence[str]) -> str:
    """
    >>> _listed(["a"]), _listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _many(n: int, word: str) -> str:
    return f"{n:,} {word}{'' if n == 1 else 's'}"
