"""Hard items of NOOCh as pictures: by the CE criterion (Figure 1), and where CE and gist disagree (Figures 2 and 8)."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from shiftbench.core.arrays import Floats, Ints
from shiftbench.core.rng import child
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.reporting.pictures import pictures_of
from shiftbench.reporting.score_tables import Row
from shiftbench.reporting.sections.nooch_scores import criterion
from shiftbench.scoring.hard_items import EASY, SIDES, kinds_of

PER_STRIP = 4
"""Items of a strip: the paper shows one or two."""

Losses = Callable[[Benchmark], Mapping[str, Floats]]
"""Method -> its loss on every test item of a benchmark, as far as there are predictions."""


class Example(NamedTuple):
    """Some test items of one kind, and of which benchmark they are rows."""

    benchmark: Benchmark
    kind: str
    rows: Ints
    besides: str = ""  # the criterion by which they are easy


def examples(benchmark: Benchmark) -> list[Example]:
    """A few hard positives and hard negatives of the test items, chosen at random but always the same (Figure 1)."""
    rows = benchmark.rows("test")
    kind = kinds_of(benchmark, rows)
    return [] if kind is None else [Example(benchmark, side, few) for side in SIDES
                                    if len(few := _few(rows[kind == side], benchmark.name, side))]


def disagreements(one: Benchmark, other: Benchmark) -> list[Example]:
    """Test items that are hard by either criterion and easy by the other (Figures 2 and 8)."""
    listed = []
    for first, second in ((one, other), (other, one)):
        rows, others = first.rows("test"), second.rows("test")
        kind, theirs = kinds_of(first, rows), kinds_of(second, others)
        if kind is None or theirs is None:
            return []
        easy = np.isin(first.items[rows], second.items[others[theirs == EASY]])
        listed += [Example(first, side, few, criterion(second)) for side in SIDES
                   if len(few := _few(rows[(kind == side) & easy], first.name, side))]
    return listed


def pairs(benchmarks: Sequence[Benchmark]) -> list[tuple[Benchmark, Benchmark]]:
    """Benchmarks of one task by CE and by gist, ours or the published lists', on one collection."""
    by_task: dict[tuple[str, ...], dict[str, Benchmark]] = {}
    for benchmark in benchmarks:
        name = str((benchmark.card.get("criterion") or {}).get("name") or "").lower()
        if name.removeprefix("published ") in ("ce", "gist"):
            task = (str(benchmark.card.get("positive")), str((benchmark.card.get("collection") or {}).get("digest")),
                    name.partition(" ")[0] if name.startswith("published") else "")
            by_task.setdefault(task, {})[name.removeprefix("published ")] = benchmark
    return [(both["ce"], both["gist"]) for both in by_task.values() if len(both) == 2]


def figures(benchmarks: Sequence[Benchmark], images: Mapping[str, Collection], losses: Losses) -> list[Row]:
    """Figure 1 of every benchmark by CE, 2 and 8 of every task with both criteria; none where there are no pictures."""
    benchmarks = [one for one in benchmarks if _collection(one, images) is not None]
    by_ce = [one for one in benchmarks if criterion(one) in ("CE criterion", "Published CE lists")]
    listed = [("Figure 1", one.name, examples(one)) for one in by_ce]
    listed += [("Figures 2 and 8", f"{one.name} and {other.name}", disagreements(one, other))
               for one, other in pairs(benchmarks)]
    return [{"figure": figure, "name": name, "strips": [_strip(one, images, losses) for one in chosen]}
            for figure, name, chosen in listed if chosen]


def _strip(example: Example, images: Mapping[str, Collection], losses: Losses) -> Row:
    benchmark = example.benchmark
    collection = _collection(benchmark, images)
    pictures = pictures_of(benchmark, collection, example.rows) if collection is not None else []
    place = np.searchsorted(benchmark.rows("test"), example.rows)
    own = losses(benchmark)
    entries = [{"item": str(benchmark.items[row]), "group": benchmark.names["group"][benchmark.group[row]],
                "source": pictures[number]["source"] if pictures else "",
                "losses": [(method, f"{values[place[number]]:.2f}") for method, values in own.items()]}
               for number, row in enumerate(example.rows.tolist())]
    return {"kind": example.kind.replace("_", " "), "criterion": criterion(benchmark), "besides": example.besides,
            "entries": entries}


def _collection(benchmark: Benchmark, images: Mapping[str, Collection]) -> Collection | None:
    return images.get(str((benchmark.card.get("collection") or {}).get("digest")))


def _few(rows: Ints, *purpose: str) -> Ints:
    chosen = child(0, "report", "nooch", *purpose).permutation(len(rows))[:PER_STRIP]
    return rows[np.sort(chosen)]
