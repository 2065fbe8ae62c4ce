"""A run's predictions joined with the items of its benchmark, with the sealed items marked; and runs by name.

A run is named by the id of its folder of runs and its own name, with a slash between: runs/3fa9c1e0. The verb `show`
names it by its folder.
"""

from pathlib import Path
from threading import RLock
from typing import NamedTuple

import numpy as np

from shiftbench.auditing.clusters import kept_features
from shiftbench.auditing.contexts import inside
from shiftbench.auditing.join import Items, join
from shiftbench.auditing.model_outputs import Loss, loss_named
from shiftbench.auditing.predicates import Predicate
from shiftbench.core.arrays import Bools, Floats, Ints
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.data.benchmark import MARKER, Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.predictions import PREDICTIONS, Predictions
from shiftbench.data.scores import label_of
from shiftbench.scoring.listing import Finished, names_in, runs_in
from shiftbench.webapp.looks import sealed
from shiftbench.webapp.studio import Query, Studio

LARGE = 0.75
"""A predicted number counts as wrong if its loss is above this quantile of the open items' losses."""
MAPPED = 20_000
"""Items of an embedding map."""


class Outcomes(NamedTuple):
    """The joined items of a run, or of a run against another, and which of them are sealed."""

    run: str
    against: str
    benchmark: str  # its id
    folders: tuple[Path, ...]  # of the benchmark, the run and the other run
    on: str  # the id of its collection, "" if that is not on the shelf
    home: Path | None  # the folder of its collection, which features lie in
    subject: str  # its name in the books
    loss: Loss
    items: Items
    sealed: Bools

    @property
    def wrong(self) -> Bools:
        """Which items count as failures: errors; items that only the run has wrong; or large losses."""
        loss = self.items.loss
        if self.against:
            return np.asarray(loss > 0, np.bool_)
        if self.loss.unit == "share":
            return np.asarray(loss > 0.5, np.bool_)
        return np.asarray(loss > np.quantile(loss[~self.sealed], LARGE), np.bool_)

    def inside(self, where: tuple[Predicate, ...]) -> Bools:
        """Which items fulfil a filter."""
        return inside(where, self.items.known, truth=self.items.truth, label=self.items.label,
                      predicted=self.items.predicted)


def find_outcomes(studio: Studio, query: Query) -> Outcomes:
    """The outcomes that a request is about, on the benchmark that the run was trained on."""
    run = find_run(studio, query.text("run"))
    against = find_run(studio, query.text("against")) if query.text("against") else None
    id = benchmark_of(studio, run)
    folder = studio.shelf.find("benchmark", id).path
    names = (query.text("run"), query.text("against"))
    runs = [run] if against is None else [run, against]
    stamps = tuple(finished.folder.joinpath(PREDICTIONS).stat().st_mtime_ns for finished in runs)
    key = ("outcomes", *names, *stamps, id, folder.joinpath(MARKER).stat().st_mtime_ns)

    def compute() -> Outcomes:
        outcomes = joined(names, run, against, folder, studio.shelf.benchmark(id))
        on = "" if outcomes.items.collection is None else collection_id(studio, outcomes.items.collection)
        return outcomes._replace(benchmark=id, on=on, home=studio.shelf.find("collection", on).path if on else None)

    return studio.once(key, compute)


def outcomes_in(folder: Path, data: Path | None = None, against: Path | None = None) -> Outcomes:
    """The outcomes of a run's folder, without a studio; `data` is its benchmark if that has moved."""
    run, *other = (finished_run(path.parent, path.name, str(path.parent))
                   for path in (folder, against) if path is not None)
    home = data or run.benchmark_folder
    benchmark = Benchmark.load(home)
    for finished in (run, *other):
        if finished.benchmark["digest"] != benchmark.digest:
            raise ShiftBenchError(f"{finished.folder}: was trained on another benchmark than {home}, or that has "
                                  "changed since. Name the run's own with --data.")
    names = (str(folder), "" if against is None else str(against))
    return joined(names, run, other[0] if other else None, home, benchmark)


def joined(
    names: tuple[str, str], run: Finished, against: Finished | None, folder: Path, benchmark: Benchmark
) -> Outcomes:
    """The items of a benchmark with what a run, or two, predict of them."""
    loss = loss_named("error" if benchmark.target.has_classes else "squared")
    old = None if against is None else _predictions(against, benchmark)
    items = join(_predictions(run, benchmark), folder, loss, against=old)
    subject = f"{benchmark.name} {benchmark.digest[:12]}: {' against '.join(filter(None, names))}"
    folders = (folder, *(finished.folder for finished in (run, against) if finished is not None))
    home = None if items.collection is None else items.collection.home
    return Outcomes(*names, "", folders, "", home, subject, loss, items, sealed(items.known.items))


def _predictions(run: Finished, benchmark: Benchmark) -> Predictions:
    predictions = run.predictions(benchmark)
    if not isinstance(predictions, Predictions):
        raise ShiftBenchError(f"{run.folder}: predicts lists, but failures are shown of classes and numbers.")
    return predictions


def collection_id(studio: Studio, collection: Collection) -> str:
    """The id of a collection: that of its folder, else of an equal collection; "" if it is not on the shelf."""
    first = "" if collection.home is None else studio.shelf.id_of("collection", collection.home)
    equal = (thing.id for thing, digest in studio.shelf.digests("collection") if digest == collection.digest)
    return first or next(equal, "")


# Runs by name

def find_run(studio: Studio, name: str) -> Finished:
    """The finished run of this name; the error for an unknown one lists those that exist."""
    folder, _, run = name.rpartition("/")
    return finished_run(studio.shelf.runs(folder or run), run, folder)


def finished_run(folder: Path, name: str, title: str) -> Finished:
    """The run of this name in a folder of runs, which errors call by its title."""
    if name not in names_in(folder, [name]).done:
        raise unknown("finished run", name, names_in(folder).done, title)
    return runs_in(folder, [name])[0][0]


def benchmark_of(studio: Studio, run: Finished) -> str:
    """The id of a run's benchmark: the one that has its digest, preferably at the path that the run names."""
    wanted = run.benchmark["digest"]
    first = studio.shelf.id_of("benchmark", run.benchmark_folder) if run.benchmark["path"] else ""
    if first and studio.shelf.benchmark(first).digest == wanted:
        return first
    for thing, digest in studio.shelf.digests("benchmark"):
        if digest == wanted:
            return thing.id
    raise ShiftBenchError(f"{run.folder.name}: its benchmark '{run.benchmark['name']}' is not in the studio's folder, "
                          "or has changed since.")


def listed_runs(studio: Studio) -> list[tuple[str, str, str]]:
    """Every finished run: its name, the digest of its benchmark, and a description."""
    entries = [(f"{thing.id}/{run.folder.name}", str(run.benchmark["digest"]),
                f"{run.benchmark['name']}: {label_of(run.settings)}, {run.model}, seed {run.head['seed']}")
               for thing in studio.shelf.things("runs") for run in finished_runs(thing.path)]
    return sorted(entries, key=lambda entry: entry[2])


_FINISHED: dict[Path, dict[str, Finished]] = {}
_LOCK = RLock()


def finished_runs(folder: Path) -> list[Finished]:
    """The finished runs of a folder; each run.json is read once."""
    with _LOCK:
        names = names_in(folder).done
        kept = _FINISHED.get(folder, {})
        new = set(names) - set(kept)
        kept = kept | {run.folder.name: run for run in (runs_in(folder, new, left_out={})[0] if new else [])}
        _FINISHED[folder] = {name: kept[name] for name in names if name in kept}
        return list(_FINISHED[folder].values())


# The embedding map

def embeddings(outcomes: Outcomes) -> dict[str, Path]:
    """The features of the items that lie on disk, by name."""
    files = () if outcomes.home is None else sorted((outcomes.home / "features").glob("*/features.npy"))
    return {file.parent.name: file.parent for file in files}


def two_components(studio: Studio, outcomes: Outcomes, name: str) -> tuple[Ints, Floats]:
    """Open items that have features, and these in their first two principal components, between 0 and 1."""
    folders = embeddings(outcomes)
    if name not in folders:
        raise unknown("features", name, folders, "the collection")

    def compute() -> tuple[Ints, Floats]:
        chosen, table = mapped(outcomes, folders[name])
        return chosen, principal(table)

    return studio.once(("map", outcomes.subject, name, folders[name].stat().st_mtime_ns), compute)


def mapped(outcomes: Outcomes, folder: Path) -> tuple[Ints, Floats]:
    """The open items that a map shows, and their features."""
    table, rows = kept_features(folder, outcomes.items)
    chosen = np.flatnonzero(~outcomes.sealed & (rows >= 0))[:MAPPED]
    if len(chosen) < 3:
        raise ShiftBenchError(f"{folder}: has features of {len(chosen)} of these items. Run `shiftbench embed` first.")
    return chosen, np.asarray(table[rows[chosen]], np.float32)


def principal(features: Floats) -> Floats:
    """Two principal components of rows, each between 0 and 1; the larger weight of each is positive."""
    centred = np.nan_to_num(features - features.mean(axis=0))
    if len(centred) < centred.shape[1]:  # the smaller of the two products has the same values
        values, vectors = np.linalg.eigh(centred @ centred.T)
        axes = centred.T @ vectors[:, :-3:-1] / np.sqrt(np.maximum(values[:-3:-1], 1e-30))
    else:
        axes = np.linalg.eigh(centred.T @ centred)[1][:, :-3:-1]
    axes = np.hstack([axes, np.zeros((len(axes), 2 - axes.shape[1]))])
    axes = axes * np.where(axes[np.abs(axes).argmax(axis=0), np.arange(2)] < 0, -1, 1)
    points = centred @ axes
    reach = np.ptp(points, axis=0)
    return np.asarray((points - points.min(axis=0)) / np.where(reach > 0, reach, 1), np.float32)
