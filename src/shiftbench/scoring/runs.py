"""Scores of a runs folder: every finished run, and each method's mean over its seeds."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from shiftbench.benchmark import Benchmark
from shiftbench.errors import ShiftBenchError
from shiftbench.files import read_json
from shiftbench.predictions import Predictions
from shiftbench.scores import Scores
from shiftbench.scoring.judge import means, score
from shiftbench.stats import LEVEL, REPLICATES


class Finished(NamedTuple):
    """A finished run on disk: what `run.json` says of it."""

    folder: Path
    settings: dict[str, Any]
    benchmark: dict[str, Any]

    @property
    def setting(self) -> str:
        """A name for all that decides the run but benchmark and seed: equal for the runs that a mean is over."""
        kept = {key: value for key, value in self.settings.items() if key not in ("benchmark", "seed")}
        return hashlib.sha256(_written(kept).encode()).hexdigest()[:12]

    @property
    def benchmark_folder(self) -> Path:
        """Where the benchmark is: the path as the run knew it, else the same path seen from the runs folder."""
        if not self.benchmark["path"]:
            raise ShiftBenchError(f"{self.folder}: its benchmark '{self.benchmark['name']}' was in no folder when it "
                                  "was trained. Save it, and give it to score_runs as one of `benchmarks`.")
        path = Path(str(self.benchmark["path"]))
        near = [path, self.folder.parent / path, self.folder.parent.parent / path]
        return next((place for place in near if place.is_dir()), path)


def runs_in(folder: Path | str) -> tuple[list[Finished], int]:
    """The finished runs of a runs folder, by name, and the number of unfinished ones."""
    place = Path(folder)
    if not place.is_dir():
        raise ShiftBenchError(f"{place}: no such folder. A runs folder holds one folder per run.")
    finished, unfinished = [], 0
    for marker in sorted(place.glob("[!.]*/run.json")):
        if not (marker.parent / "done").exists():
            unfinished += 1
            continue
        finished.append(read_run(marker.parent))
    return finished, unfinished


def read_run(folder: Path) -> Finished:
    """What run.json says of a run, finished or not."""
    facts = read_json(folder / "run.json")
    run, benchmark = (facts.get("run"), facts.get("benchmark")) if isinstance(facts, dict) else (None, None)
    if not (isinstance(run, dict) and {"method", "seed"} <= run.keys()
            and isinstance(benchmark, dict) and {"name", "digest", "path"} <= benchmark.keys()):
        raise ShiftBenchError(f"{folder / 'run.json'}: does not describe a run: it needs 'run' with method and seed, "
                              "and 'benchmark' with name, digest and path. Train again.")
    return Finished(folder, run, benchmark)


def benchmarks_of(folder: Path | str) -> list[Path]:
    """Where the benchmarks of a folder's finished runs are, each once; those in no folder are left out."""
    return list(dict.fromkeys(run.benchmark_folder for run in runs_in(folder)[0] if run.benchmark["path"]))


def score_runs(
    folder: Path | str,
    *,
    replicates: int = REPLICATES,
    level: float = LEVEL,
    benchmarks: Sequence[Benchmark] = (),
    only: Sequence[str] | None = None,
) -> Scores:
    """Scores of every finished run of a folder, and of the means over the runs that differ only in their seed.

    `only` names the runs to take; default: all. A benchmark is taken by name from `benchmarks`, else from where the run
    found it; one that has changed since is an error. Unfinished runs are left out; `runs_in` counts them.
    """
    finished, unfinished = runs_in(folder)
    if only is not None:
        finished = [run for run in finished if run.folder.name in set(only)]
    if not finished:
        raise ShiftBenchError(f"{folder}: has no finished run" + (
            f" ({unfinished} unfinished). Start the same training again to finish." if unfinished
            else ". Train first, or name the folder that holds the runs."))
    known = {benchmark.name: benchmark for benchmark in benchmarks}
    parts: list[Scores] = []
    together: dict[str, list[tuple[Finished, Predictions]]] = {}
    for run in finished:
        name = str(run.benchmark["name"])
        if name not in known:
            known[name] = Benchmark.load(run.benchmark_folder)
        benchmark = known[name]
        if benchmark.digest != run.benchmark["digest"]:
            raise ShiftBenchError(f"{run.folder}: benchmark digest is {str(run.benchmark['digest'])[:8]}…, but "
                                  f"{run.benchmark['path']} now has {benchmark.digest[:8]}…. The benchmark was "
                                  "rebuilt; train again.")
        predictions = Predictions.load(run.folder / "predictions.parquet", benchmark)
        together.setdefault(name, []).append((run, predictions))
        parts.append(_named(name, score(
            benchmark, predictions, run=run.folder.name, method=str(run.settings["method"]),
            setting=run.setting, seed=int(run.settings["seed"]), replicates=replicates, level=level)))
    for name, runs in together.items():
        methods: dict[str, list[Predictions]] = {}
        for label, (_, predictions) in zip(labels([run.settings for run, _ in runs]), runs, strict=True):
            methods.setdefault(label, []).append(predictions)
        parts.append(_named(name, means(known[name], methods, replicates=replicates, level=level)))
    return Scores.join(parts)


def labels(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """What to call each run so that only runs that differ in nothing but their seed have the same name.

    >>> labels([{"method": "irm", "seed": 0}, {"method": "dro", "eta": 0.1}, {"method": "dro", "eta": 1.0}])
    ['irm', 'dro (eta=0.1)', 'dro (eta=1.0)']
    """
    flat = [{key: _written(value) for key, value in _flat(one).items() if key != "seed"} for one in settings]
    names = []
    for one in flat:
        rivals = [other for other in flat if other["method"] == one["method"]]
        keys = sorted({key for other in rivals for key in other})
        telling = [key for key in keys if len({other.get(key) for other in rivals}) > 1]
        told = ", ".join(f"{key}={one[key]}" for key in telling if key in one)
        method = str(json.loads(one["method"]))
        names.append(f"{method} ({told})" if told else method)
    return names


def _flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Nested settings under their innermost names: a method's own parameters need no prefix to be read."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        flat |= _flat(value) if isinstance(value, Mapping) else {key: value}
    return flat


def _written(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _named(name: str, scores: Scores) -> Scores:
    """The benchmark's name as the runs know it, whatever the folder is called now."""
    return Scores({**scores.columns, "benchmark": np.full(len(scores), name)})
