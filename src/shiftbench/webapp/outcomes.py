"""What a run predicts of the items of its benchmark: joined, with the sealed items set apart, and the runs by name.

A run is named by the id of its folder of runs and its own name, with a slash between: runs/3fa9c1e0. The verb `show`
names it by its folder.
"""

from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from shiftbench.auditing.contexts import inside
from shiftbench.auditing.join import Items, join
from shiftbench.auditing.model_outputs import Loss, loss_named
from shiftbench.auditing.predicates import Predicate
from shiftbench.core.arrays import Bools, Floats, Ints, read_array
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.files import read_json
from shiftbench.data.benchmark import MARKER, Benchmark
from shiftbench.data.collection import MARKER as COLLECTION
from shiftbench.data.collection import Collection
from shiftbench.data.predictions import PREDICTIONS, Predictions
from shiftbench.data.scores import label_of
from shiftbench.scoring.listing import Finished, names_in, runs_in
from shiftbench.webapp.looks import sealed
from shiftbench.webapp.studio import Query, Studio

LARGE = 0.75
"""A prediction of a number is called wrong where its loss is above that of this share of the open items."""
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
    subject: str  # how the books call it
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


def outcomes(studio: Studio, query: Query) -> Outcomes:
    """The items that a request is about. The run says which benchmark it was trained on."""
    run = find_run(studio, query.text("run"))
    against = find_run(studio, query.text("against")) if query.text("against") else None
    id = benchmark_of(studio, run)
    folder = studio.shelf.find("benchmark", id).path
    names = (query.text("run"), query.text("against"))
    stamps = tuple(one.folder.joinpath(PREDICTIONS).stat().st_mtime_ns for one in (run, against) if one is not None)
    key = ("outcomes", *names, *stamps, id, folder.joinpath(MARKER).stat().st_mtime_ns)

    def compute() -> Outcomes:
        held = joined(names, run, against, folder, studio.shelf.benchmark(id))
        on = "" if held.items.collection is None else collection_id(studio, held.items.collection)
        return held._replace(benchmark=id, on=on, home=studio.shelf.find("collection", on).path if on else None)

    return studio.once(key, compute)


def outcomes_in(folder: Path, data: Path | None = None, against: Path | None = None) -> Outcomes:
    """The items of a run's folder, without a studio; `data` is its benchmark, where that is not where the run says."""
    run, *other = (finished_run(path.parent, path.name, str(path.parent))
                   for path in (folder, against) if path is not None)
    home = data or run.benchmark_folder
    benchmark = Benchmark.load(home)
    for one in (run, *other):
        if one.benchmark["digest"] != benchmark.digest:
            raise ShiftBenchError(f"{one.folder}: was trained on another benchmark than {home}, or that has changed "
                                  "since. Name the run's own with --data.")
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
    folders = (folder, *(one.folder for one in (run, against) if one is not None))
    home = None if items.collection is None else items.collection.home
    return Outcomes(*names, "", folders, "", home, subject, loss, items, sealed(items.known.items))


def _predictions(run: Finished, benchmark: Benchmark) -> Predictions:
    predictions = run.predictions(benchmark)
    if not isinstance(predictions, Predictions):
        raise ShiftBenchError(f"{run.folder}: predicts lists, but failures are shown of classes and numbers.")
    return predictions


def collection_id(studio: Studio, collection: Collection) -> str:
    """The id of a collection: where it was loaded from, else of one that is the same; "" if it is not on the shelf."""
    first = "" if collection.home is None else studio.shelf.id_of("collection", collection.home)
    for thing in () if first else studio.shelf.things("collection"):
        with suppress(ShiftBenchError, KeyError, TypeError):
            if read_json(thing.path / COLLECTION)["digest"] == collection.digest:
                return thing.id
    return first


# Runs by name

def find_run(studio: Studio, name: str) -> Finished:
    """A finished run; an error names those that are there."""
    folder, _, own = name.rpartition("/")
    return finished_run(studio.shelf.runs(folder or own), own, folder)


def finished_run(folder: Path, name: str, title: str) -> Finished:
    """The run of this name in a folder of runs, which errors call by its title."""
    if name not in names_in(folder, [name]).done:
        raise unknown("finished run", name, names_in(folder).done, title)
    return runs_in(folder, [name])[0][0]


def benchmark_of(studio: Studio, run: Finished) -> str:
    """The id of a run's benchmark: the one that has its digest, by preference where the run found it."""
    first = studio.shelf.id_of("benchmark", run.benchmark_folder) if run.benchmark["path"] else ""
    for id in [first, *(thing.id for thing in studio.shelf.things("benchmark"))]:
        if id and studio.shelf.benchmark(id).digest == run.benchmark["digest"]:
            return id
    raise ShiftBenchError(f"{run.folder.name}: its benchmark '{run.benchmark['name']}' is not in the studio's folder, "
                          "or has changed since.")


def listed_runs(studio: Studio) -> list[tuple[str, str, str]]:
    """Every finished run: its name, the digest of its benchmark, and what it is in words."""
    listed = []
    for thing in studio.shelf.things("runs"):
        names = tuple(names_in(thing.path).done)
        runs = studio.once(("runs", thing.path, names), partial(_finished, thing.path))
        listed += [(f"{thing.id}/{run.folder.name}", str(run.benchmark["digest"]),
                    f"{run.benchmark['name']}: {label_of(run.settings)}, {run.model}, seed {run.head['seed']}")
                   for run in runs]
    return sorted(listed, key=lambda one: one[2])


def _finished(folder: Path) -> list[Finished]:
    return runs_in(folder, left_out={})[0]


# The embedding map

def embeddings(held: Outcomes) -> dict[str, Path]:
    """The features of the items that lie on disk, by name."""
    files = () if held.home is None else sorted((held.home / "features").glob("*/features.npy"))
    return {file.parent.name: file.parent for file in files}


def two_components(studio: Studio, held: Outcomes, name: str) -> tuple[Ints, Floats]:
    """Open items that have features, and these in their first two principal components, between 0 and 1."""
    folders = embeddings(held)
    if name not in folders:
        raise unknown("features", name, folders, "the collection")

    def compute() -> tuple[Ints, Floats]:
        chosen, table = mapped(held, folders[name])
        return chosen, principal(table)

    return studio.once(("map", held.subject, name, folders[name].stat().st_mtime_ns), compute)


def mapped(held: Outcomes, folder: Path) -> tuple[Ints, Floats]:
    """The open items that a map shows, and their features."""
    table, present = (read_array(folder / file) for file in ("features.npy", "present.npy"))
    count = 0 if held.items.collection is None else len(held.items.collection)
    if table.ndim != 2 or len(table) != count or present.shape != (count,) or held.items.rows is None:
        raise ShiftBenchError(f"{folder}: holds no features of the {count:,} items of the collection.")
    rows = held.items.rows
    chosen = np.flatnonzero(~held.sealed & np.asarray(present, np.bool_)[rows])[:MAPPED]
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
