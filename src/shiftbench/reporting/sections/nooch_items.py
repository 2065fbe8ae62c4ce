"""Items on which one method beats another most, with both losses (Figures 7 and 8 of Madras & Zemel, 2021)."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from shiftbench.core.arrays import Floats
from shiftbench.core.errors import unknown
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.predictions import PREDICTIONS, Predictions
from shiftbench.data.scores import RUN, Scores
from shiftbench.reporting.results import Compared, Strip, shown_scores
from shiftbench.reporting.sections.nooch import BASELINE, cells, nooch_in
from shiftbench.reporting.tables import methods_in
from shiftbench.scoring import read_run
from shiftbench.scoring.hard_items import HARD, SIDES, kinds_of
from shiftbench.scoring.metrics import losses
from shiftbench.scoring.select import DEFAULT

TOP = 8


def beaten(benchmark: Benchmark, loss: Mapping[str, Floats], top: int = TOP) -> tuple[Strip, ...]:
    """The test items where one of two methods beats the other most; `loss[method]` is of every test item in order.

    Only items on which it is better at all; of equal differences the first item.
    """
    rows = benchmark.rows("test")
    kind = kinds_of(benchmark, rows)
    if kind is None:
        return ()
    first, second = loss
    strips = []
    for better, worse in ((first, second), (second, first)):
        gain = loss[worse] - loss[better]
        for name in (*SIDES, HARD):
            mine = np.flatnonzero((kind == name) & (gain > 0))
            order = mine[np.argsort(-gain[mine], kind="stable")][:top]
            if len(order):
                strips.append(Strip(name, better, worse, rows[order],
                                    np.stack([loss[better][order], loss[worse][order]], axis=1)))
    return tuple(strips)


def compared(
    folder: Path | str, scores: Scores, benchmarks: Sequence[Benchmark], pair: Sequence[str] = (), *,
    rule: str = DEFAULT, top: int = TOP,
) -> list[Compared]:
    """Two methods of a runs folder on every benchmark with hard items; losses are means over seeds.

    Without a pair, the baseline `erm` (else the first method) and whichever other has the largest AUC on hard items.
    """
    mine = nooch_in(benchmarks)
    if not mine:
        return []
    shown = shown_scores(scores, benchmarks, rule)
    made = []
    for one in mine:
        runs = _runs(shown, one)
        for name in pair:
            if name not in runs:
                raise unknown("method", name, methods_in(runs), f"Runs on '{one.name}'")
        chosen = tuple(pair) or _usual(shown, one, runs)
        loss = {name: _losses(folder, one, runs[name]) for name in chosen}
        if len(loss) == 2 and all(len(found) for found in loss.values()):
            first, second = loss
            strips = beaten(one, {name: np.mean(found, axis=0) for name, found in loss.items()}, top)
            made.append(Compared(one, (first, second), (len(loss[first]), len(loss[second])), strips))
    return made


def _runs(shown: Scores, benchmark: Benchmark) -> dict[str, list[str]]:
    """Method -> the runs that the report shows of it."""
    found: dict[str, list[str]] = {}
    single = shown.where(stat=RUN, benchmark=benchmark.name)
    for method, run in sorted(set(zip(single.names.tolist(), single["run"].tolist(), strict=True))):
        found.setdefault(method, []).append(run)
    return found


def _usual(shown: Scores, benchmark: Benchmark, runs: Mapping[str, object]) -> tuple[str, ...]:
    hard = {name: cell["value"] for name, cell in cells(shown, benchmark, "auc", HARD).items()
            if name in runs and not np.isnan(cell["value"])}
    first = BASELINE if BASELINE in runs else next(iter(methods_in(runs)), "")
    others = [name for name in methods_in(hard) if name != first]
    return (first, max(others, key=lambda name: hard[name])) if others else ()


def _losses(folder: Path | str, benchmark: Benchmark, runs: Sequence[str]) -> list[Floats]:
    """The loss of every test item in every run that was made on just this benchmark and predicted its test."""
    found, rows = [], benchmark.rows("test")
    for run in runs:
        own = read_run(Path(folder) / run) if (Path(folder) / run / PREDICTIONS).is_file() else None
        if own is None or str(own.benchmark["digest"]) != benchmark.digest:
            continue
        read = Predictions.load(own.checked(PREDICTIONS), benchmark)
        order = np.argsort(read.item)
        there = np.isin(benchmark.items[rows], read.item)
        if there.all() and len(rows):
            at = order[np.searchsorted(read.item, benchmark.items[rows], sorter=order)]
            found.append(losses(benchmark.label[rows], read.scores[at]))
    return found
