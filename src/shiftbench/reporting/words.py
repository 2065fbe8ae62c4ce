"""Sentences that say what the numbers say, and no more."""

from collections.abc import Sequence
from typing import Any

from shiftbench.benchmark import Benchmark
from shiftbench.reporting.tables import Row, percent
from shiftbench.scores import Scores
from shiftbench.scoring import MEAN


def overview(scores: Scores, benchmarks: Sequence[Benchmark], methods: Sequence[str]) -> str:
    """How much was measured on what."""
    runs = {(row["benchmark"], row["run"]) for row in scores if not row["run"].startswith(MEAN)}
    sources = sorted({str((b.card.get("collection") or {}).get("name", "")) for b in benchmarks} - {""})
    made = f" made from {_listed(sources)}" if sources else ""
    measured = f"{_many(len(methods), 'method')} in {_many(len(runs), 'run')}" if methods else "No method yet"
    return f"{measured} on {_many(len(benchmarks), 'benchmark')}{made}."


def findings(table: Row) -> list[str]:
    """What a family's table shows about its first method and the best one at the hardest shift."""
    rows, columns = table["rows"], table["columns"]
    if not rows or table["kind"] == "single":
        return []
    first = rows[0]
    if table["kind"] == "distance":
        near, far = first["cells"][0], first["cells"][-1]
        if not near or not far:
            return []
        moved = "falls" if far["high"] < near["low"] else "goes"
        return [f"{table['title']}: as the distance grows from {columns[0]['x']:.2f} to {columns[-1]['x']:.2f}, "
                f"{first['method']} {moved} from {percent(near['value'])} % to {percent(far['value'])} %."
                + _best(rows, len(columns) - 1)]
    last = len(columns) - 1
    average, worst = first["cells"][last // 2], first["cells"][last]
    if not average or not worst:
        return []
    return [f"{table['title']}: with a minority share of {columns[last]['head'].removeprefix('p = ')}, "
            f"{first['method']} has {percent(average['value'])} % on average and {percent(worst['value'])} % in its worst group, "
            f"{worst['group']}." + _best(rows, last)]


def _best(rows: Sequence[Row], place: int) -> str:
    """Which method is best in a column, and which others cannot be told from it."""
    known = [(row["method"], row["cells"][place]) for row in rows if row["cells"][place]]
    best = next((pair for pair in known if pair[1]["best"]), None)
    if best is None:
        return ""
    tied = [method for method, cell in known if cell["tied"]]
    told = f" {best[0]} is best there with {percent(best[1]['value'])} %"
    if not tied:
        return told + ", distinguishable from every other method."
    if len(tied) == len(known) - 1:
        return told + ", but no method can be told from it."
    return told + f", not distinguishable from {_listed(tied)}."


def summary(benchmark: Benchmark) -> str:
    """What test shows more and less often than training."""
    parts = [part for part in benchmark.card.get("explanation") or [] if _told(part)]
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
    return _listed([f"{part['tag']} ({percent(part['train'], 0)} → {percent(part['test'], 0)} %)" for part in parts])


def _listed(words: Sequence[str]) -> str:
    """
    >>> _listed(["a"]), _listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _many(n: int, word: str) -> str:
    return f"{n:,} {word}{'' if n == 1 else 's'}"
