"""The verbs in Python: the same words as on the command line. Each takes folders or objects and returns an object.

    import shiftbench as sb
    scenes = sb.read("world", "scenes", out="collections/scenes")
    bench = sb.build("recipe.toml", out="benchmarks/cat-dog")
    sb.train("benchmarks/cat-dog", method="group_dro", out="runs", seed=1)
    sb.report("runs", out="report.html")

A verb loads what it is given and calls one room of the package, which it imports when it is called: this file loads
quickly, and only training loads torch, after its arguments were checked.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.later import load_torch
from shiftbench.core.registry import find, listed, make

if TYPE_CHECKING:
    from shiftbench.conflict.matrix import Conflicts
    from shiftbench.data.benchmark import Benchmark
    from shiftbench.data.checks import Finding
    from shiftbench.data.collection import Collection
    from shiftbench.data.scores import Scores
    from shiftbench.hierarchies.hierarchy import Hierarchy
    from shiftbench.hierarchies.superclasses import Superclasses
    from shiftbench.human import Key
    from shiftbench.leaderboard import Board
    from shiftbench.metagraph.graph import MetaGraph
    from shiftbench.reporting.comparison import Line
    from shiftbench.scoring.select import Selection
    from shiftbench.shifts.context.challenge_sets import Ranked
    from shiftbench.shifts.shift import Shift
    from shiftbench.shifts.subset import Rung
    from shiftbench.sweeps.status import Status
    from shiftbench.sweeps.study import Study
    from shiftbench.training.retrain import Retrained
    from shiftbench.training.run import Outcome

    Place = Path | str
    Benchmarks = Benchmark | Place | Sequence[Benchmark | Place]
    Advance = Callable[[int, int], None]


def _benchmark(source: Benchmark | Place) -> Benchmark:
    from shiftbench.data.benchmark import Benchmark

    return source if isinstance(source, Benchmark) else Benchmark.load(_place(source, "a Benchmark"))


def _collection(source: Collection | Place) -> Collection:
    from shiftbench.data.collection import Collection

    return source if isinstance(source, Collection) else Collection.load(_place(source, "a Collection"))


def _place(source: Any, instead: str) -> Path:
    from os import PathLike

    if not isinstance(source, str | PathLike):
        raise ShiftBenchError(f"{type(source).__name__} is neither {instead} nor the folder of one.")
    return Path(source)


def _scores(source: Any) -> Scores | Place:
    """Scores, or the folder or file that they come from; a data frame is a table of scores."""
    from shiftbench.core.tables import is_frame
    from shiftbench.data.scores import Scores

    return Scores.from_frame(source) if is_frame(source) else source


def _with_collection(
    benchmark: Benchmark | Place, collection: Collection | Place | None
) -> tuple[Benchmark, Collection]:
    """A benchmark and the collection that it was built from."""
    from shiftbench.data.benchmark import collection_of

    loaded = _benchmark(benchmark)
    images = collection_of(loaded, benchmark, collection)
    in_memory = benchmark is loaded or collection is images  # those in folders were compared
    digest = loaded.card.get("collection", {}).get("digest")
    if in_memory and digest and digest != images.digest:
        raise ShiftBenchError(f"collection: '{images.name}' has digest {images.digest[:8]}, but benchmark "
                              f"'{loaded.name}' was built from {str(digest)[:8]}. Give the collection that it was "
                              "built from.")
    return loaded, images


def _in_folders(
    benchmark: Benchmark | Place, collection: Collection | Place | None, out: Place
) -> tuple[Benchmark, Path, Collection]:
    """A benchmark, its folder and its collection. What is in memory is saved below `out`: its runs need it again."""
    from shiftbench.data.benchmark import saved_below

    loaded, images = _with_collection(benchmark, collection)
    if isinstance(benchmark, str | Path):
        return loaded, Path(benchmark), images
    if "://" in str(out):
        raise ShiftBenchError(f"{out}: is a URL, where a benchmark in memory cannot be saved. Save it, and name its "
                              "folder.")
    return saved_below(loaded, images, out)


# Data and shifts

def download(
    *name: str, root: Place = "data", origin: Place | None = None, accept_licence: bool = False,
    keep_archives: bool = False, progress: Advance | None = None,
) -> Path:
    """Fetch a published data set and give its folder: download("wilds", "camelyon17", accept_licence=True).

    `origin` is a folder or an address of one's own that has the files under the same names. A broken download goes on
    where it stopped, and a finished one is not repeated.
    """
    from shiftbench.downloads.data_sets import find_source
    from shiftbench.downloads.fetching import Options
    from shiftbench.downloads.fetching import download as bring

    options = Options(None if origin is None else str(origin), keep_archives, progress or (lambda done, total: None))
    return bring(find_source(*name), root, accept_licence, options)[0]



def read(
    format: str, *sources: Any, out: Place | None = None, overwrite: bool = False, drop_missing: bool = False,
    **options: Any,
) -> Collection:
    """Read annotations, or draw a world, into a collection: read("world", "scenes", items=6000, seed=0).

    Where `out` holds another collection it is replaced only with `overwrite`. Image files that are not there are
    counted in a warning; with `drop_missing` their items are dropped.
    """
    from shiftbench.readers import READERS, keep, read_files
    from shiftbench.worlds import WORLDS

    if format not in (*READERS, "world"):
        raise unknown("format", format, [*READERS, "world"])
    collection = (find(WORLDS, "world", *map(str, sources))(**options) if format == "world" else
                  read_files(format, sources, drop_missing=drop_missing, **options))
    if out is None:
        return collection
    keep(collection, out, overwrite)
    return replace(collection, home=Path(out))


def graph(collection: Collection | Place, cls: str, **options: Any) -> MetaGraph:
    """The meta-graph of a class: its subsets, how they overlap, their communities and their embedding."""
    from shiftbench.metagraph.graph import meta_graph

    return meta_graph(_collection(collection), cls, **options)


def hierarchy(
    source: Collection | Place, *, edits: Place | None = None, classes: Place | None = None, tree: bool = False
) -> Hierarchy:
    """A class hierarchy from BREEDS' files, WordNet 3.0, a collection, or a file of parents and children.

    `edits` is a script to apply to it, and `classes` is a file with the ids of the leaves to keep.
    """
    from shiftbench.hierarchies.edits import edited
    from shiftbench.hierarchies.sources import open_hierarchy, read_classes

    whole = open_hierarchy(source, None if classes is None else read_classes(classes))
    return edited(whole, edits or [], tree=tree) if edits or tree else whole


def superclasses(
    source: Hierarchy | Collection | Place | None = None, *, level: int | None = None, task: str = "", **choice: Any
) -> Superclasses:
    """The superclasses of a level, or of a task by name, with the subclasses of their source and of their target.

    superclasses("breeds", level=4, subclasses=8, split="bad"); superclasses(task="living17") needs no files.
    """
    from shiftbench.hierarchies.hierarchy import Hierarchy
    from shiftbench.hierarchies.superclasses import named_task
    from shiftbench.hierarchies.superclasses import superclasses as cut

    whole = source if source is None or isinstance(source, Hierarchy) else hierarchy(source)
    if task:
        return named_task(task, whole, level=level, **choice)
    if whole is None or level is None:
        raise ShiftBenchError("Superclasses are cut from a hierarchy at a level, or come with a task. Give one.")
    return cut(whole, level, **choice)


def ladder(collection: Collection | Place, test: str, k: int = 4, **options: Any) -> list[Rung]:
    """k training sets for the class of a test subset, from near to far: ladder(scenes, "dog(shelf)", 4)."""
    from shiftbench.shifts.subset import ladder as climb

    return climb(_collection(collection), test, k, **options)


def build(
    recipe: Shift | Place, out: Place | None = None, changes: Mapping[str, Any] | None = None, *,
    collection: Collection | Place | None = None, seed: int = 0,
) -> Benchmark:
    """Apply the shift of a recipe to its collection; `changes` replace settings of the file.

    Or a shift to a collection, with a seed: build(sb.Given(), collection=scenes, seed=0).
    """
    from shiftbench.data.benchmark import save_for
    from shiftbench.shifts.recipe import build as build_recipe

    if isinstance(recipe, str | Path):
        if collection is not None or seed:
            raise ShiftBenchError(f"{recipe}: a recipe has its own collection and seed. Change them with `changes`.")
        return build_recipe(recipe, out, changes)
    if not hasattr(recipe, "build") or collection is None or changes:
        raise ShiftBenchError("A shift is built on a collection and has its settings: sb.build(sb.Given(), "
                              "collection=scenes). Give both, without `changes`.")
    images = _collection(collection)
    benchmark = recipe.build(images, seed)
    return benchmark if out is None else save_for(benchmark, out, images.home)


def suite(
    name: Place, collection: Collection | Place | None, out: Place, *, seed: int | None = None, only: str = "",
    replicates: int = 0, changes: Mapping[str, Any] | None = None, progress: Advance | None = None,
) -> list[Path]:
    """Build the benchmarks of a paper's table on a collection: suite("metashift/table1", "collections/vg", "out").

    Or those of a recipe that stands for several, as `leave_one_domain_out` without `test` does for one per domain; its
    collection and seed are the recipe's unless given.
    `changes` replace settings of every benchmark, as in `build`. With `replicates`, each benchmark with low-data
    items is built that many times, with other such items each time: `low-10.0`, `low-10.1`, …
    ImageNet as it is unpacked, a folder with train/ and val/, is read first, into a collection below `out`.
    """
    from shiftbench.shifts.suites import build_suite

    return list(build_suite(name, collection, out, seed=seed, only=only, replicates=replicates, changes=changes,
                            progress=progress))


def reference(
    benchmark: Benchmark | Place, to: str, out: Place | None = None, *, seed: int = 0, given: str = "",
    collection: Collection | Place | None = None, **options: Any,
) -> Benchmark:
    """The in-distribution reference of a benchmark: reference("benchmarks/a", "mixed-to-test", "benchmarks/a-mixed").

    `given` is the factor with the split of that reference, where the data set has one; docs/settings.md explains
    `moved` and `unseen`.
    """
    from shiftbench.data.benchmark import collection_of, collection_path, save_for
    from shiftbench.shifts.in_distribution import reference as make_reference

    original = _benchmark(benchmark)
    images = collection_of(original, benchmark, collection) if given else None
    counterpart = make_reference(original, to, seed, given=given, collection=images, **options)
    return counterpart if out is None else save_for(counterpart, out, collection_path(original, benchmark, collection))


setting = reference
"""Its older name."""


def check(benchmark: Benchmark | Collection | Place, collection: Collection | Place | None = None) -> list[Finding]:
    """What is wrong with a benchmark, or with a collection; `shiftbench.data.checks.uses` says what it is fit for.

    Where images are at hand, a file that is not there is a finding, and the same content under two ids is a leak.
    """
    from shiftbench.data.benchmark import collection_if_there
    from shiftbench.data.checks import check as find_faults
    from shiftbench.data.checks import check_collection
    from shiftbench.data.collection import MARKER, Collection
    from shiftbench.images.decode import hashes_and_missing

    if isinstance(benchmark, Collection):
        return check_collection(benchmark)
    if isinstance(benchmark, Path | str) and (Path(benchmark) / MARKER).is_file():
        return check_collection(Collection.load(benchmark))
    loaded = _benchmark(benchmark)
    images = collection_if_there(loaded, benchmark, collection)
    if images is None or images.pixels is None:
        return find_faults(loaded)
    return find_faults(loaded, *hashes_and_missing(images, loaded.items))


def trust(collection: Collection | Place, root: Place | None = None) -> Path:
    """Confirm the folder below which a collection that was made elsewhere has its files, or say another; gives it."""
    from shiftbench.data.collection import MARKER
    from shiftbench.data.roots import confirm

    loaded = _collection(collection)
    if loaded.root is None or loaded.home is None:
        raise ShiftBenchError(f"{loaded.home or loaded.name}: names no folder of files, so there is nothing to trust.")
    folder = loaded.root if root is None else Path(root).resolve()
    confirm(loaded.home / MARKER, folder)
    return folder


def export(
    benchmark: Benchmark | Place, out: Place, *, to: str = "folder", copy: bool = False,
    collection: Collection | Place | None = None,
) -> Path:
    """Write a benchmark in a layout that other tools read: `folder` (MetaShift's, an ImageFolder), `csv`, `coco`.

    With `to="wilds-submission"` the folder is one of runs, whose predictions are written for WILDS' leaderboard.
    """
    if to == "wilds-submission":
        from shiftbench.compat.wilds_submission import write_submission

        if not isinstance(benchmark, str | Path):
            raise ShiftBenchError("A submission is made of runs: name their folder.")
        return write_submission(benchmark, out)
    from shiftbench.data.benchmark import collection_if_there
    from shiftbench.exports import export as write_export

    loaded = _benchmark(benchmark)
    return write_export(loaded, collection_if_there(loaded, benchmark, collection), out, to=to, copy=copy)


# Training

def embed(
    benchmark: Benchmark | Place, model: str = "efficientnet-lite0", size: int = 224,
    collection: Collection | Place | None = None, progress: Advance | None = None,
) -> Path:
    """Cache the features of every item of a benchmark, once; training a head then takes a second.

    They lie in the folder of the collection, so that it needs one: read(…, out=FOLDER), or save it.
    """
    from shiftbench.models.names import backbone

    backbone(model)
    loaded, images = _with_collection(benchmark, collection)
    if images.home is None:
        raise ShiftBenchError(f"collection: '{images.name}' lies in no folder, where its features are kept. Save it "
                              "and name its folder.")
    rows = images.index(loaded.items)
    load_torch()
    from shiftbench.training.features import embed as embed_items

    embed_items(images, rows, backbone=model, size=size, folder=images.home, progress=progress)
    return images.home / "features"


def train(
    benchmark: Benchmark | Place, method: str = "", out: Place = "runs", *, preset: str | Sequence[str] = (),
    collection: Collection | Place | None = None, device: str = "auto", params: Mapping[str, Any] | None = None,
    strict: bool = False, progress: Advance | None = None, say: Callable[[str], None] | None = None, **settings: Any,
) -> Path:
    """Train one method on one benchmark with one seed, and return the run's folder. A finished run is not repeated.

    `params` are the method's own settings, `settings` those of the run: model, features, steps, lr, seed, … `preset`
    names settings of both (`shiftbench methods --presets`); those that you give win over a protocol's, and a variant
    such as `resnet50` brings its method. `say` is called with a line for each setting that has no effect; the run's log
    has it too. `strict` refuses pretrained weights that have seen subclasses of the target (BREEDS).

    A benchmark in memory comes with its `collection` and is saved as out/benchmarks/NAME, where its runs find it.
    """
    from shiftbench.training.device import check_device
    from shiftbench.training.pretrained import check_unseen
    from shiftbench.training.run import run_of

    check_device(device)
    run_of(method, params or {}, settings, preset)  # which checks all of it
    loaded, folder, images = _in_folders(benchmark, collection, out)
    run = run_of(method, params or {}, settings, preset, loaded)
    if strict:
        check_unseen(run.to_json(), loaded)
    load_torch()
    from shiftbench.training.folder import train as train_run

    return train_run(loaded, images, run, out, device=device, benchmark_path=folder,
                     collection_path=images.home, progress=progress, say=say)


def pretrain(
    collection: Collection | Place, label: str, out: Place, *, model: str = "resnet18", seed: int = 0,
    device: str = "auto", progress: Advance | None = None, **settings: Any,
) -> Path:
    """Train a model to predict a factor of a collection, and return the weight file (`weights=` of other runs).

    pretrain("collections/scenes", "breed", "pretrained/scenes", steps=5000); started again it goes on.
    """
    from shiftbench.core.files import copy_file
    from shiftbench.shifts.splits import IID
    from shiftbench.training.device import check_device
    from shiftbench.training.run import run_of

    check_device(device)
    run_of("erm", {}, {**settings, "model": model, "seed": seed})
    images = _collection(collection)
    build(IID(label), Path(out) / "benchmark", collection=images, seed=seed)
    run = train(Path(out) / "benchmark", "erm", Path(out) / "runs", collection=images, model=model, seed=seed,
                device=device, progress=progress, **settings)
    return copy_file(run / "checkpoint.safetensors", Path(out) / "weights.safetensors")


def retrain(
    runs: Place, *, steps: int = 40_000, rates: float | Sequence[float] | None = None,
    collection: Collection | Place | None = None, device: str = "auto", progress: Advance | None = None,
) -> dict[str, Retrained]:
    """Train the last layer of every finished run on the target (BREEDS' target-RT); by run. What is done stays done."""
    from shiftbench.data.benchmark import TARGET_TRAIN
    from shiftbench.scoring import runs_in
    from shiftbench.training.device import check_device

    check_device(device)
    fit = [run for run in runs_in(runs)[0] if TARGET_TRAIN in _benchmark(run.benchmark_folder).splits]
    if not fit:
        raise ShiftBenchError(f"{runs}: no finished run is on a benchmark with split '{TARGET_TRAIN}'. Benchmarks of "
                              "shift 'breeds' have it.")
    load_torch()
    from shiftbench.training.retrain import retrain_all

    return retrain_all(fit, steps=steps, rates=rates, collection=collection, device=device, progress=progress)


def sweep(
    study: Study | Place, out: Place, *, benchmarks: Benchmarks = (),
    collection: Collection | Place | None = None, engine: str = "local", workers: int = 0, device: str = "auto",
    retry_failed: bool = False, changes: Mapping[str, Any] | None = None, logs: str | Sequence[str] = (),
    checkpoint_seconds: float = 30.0, strict: bool = False, progress: Callable[[Outcome, int], None] | None = None,
) -> list[Outcome]:
    """Do every run of a study, and say how each ended. Finished runs are found, whoever made them, and not repeated.

    `engine` is `local` (processes on this machine) or `ray` (a cluster; `out` may be a URL there). `logs` names where
    the logs are copied while it goes on: tensorboard, mlflow. `progress(end, total)` hears of every run that ended.
    `strict` refuses the study, before a run is trained, where pretrained weights have seen subclasses of a target.

    `benchmarks` take the place of the study's; those in memory come with their `collection` and are saved below `out`.
    """
    from shiftbench.sweeps.jobs import sweep as do_all
    from shiftbench.sweeps.study import Study
    from shiftbench.training.device import check_device

    check_device(device)
    members = benchmarks if isinstance(benchmarks, Sequence) and not isinstance(benchmarks, str) else [benchmarks]
    if members:
        folders = [str(_in_folders(one, collection, out)[1]) for one in members]
        if isinstance(study, Study):
            study = replace(study, benchmarks=tuple(folders), suites=(), recipes=())
        else:
            changes = {**(changes or {}), "benchmarks": folders}
    plan = study if isinstance(study, Study) else Study.load(study, changes)
    return do_all(plan, out, engine=engine, workers=workers, device=device, retry_failed=retry_failed,
                  logs=listed(logs, ","), checkpoint_seconds=checkpoint_seconds, strict=strict, progress=progress)


def fetch(url: str, out: Place) -> list[str]:
    """Copy the finished runs of a store to a folder on this machine, and return their names. Existing runs are not
    fetched again."""
    from shiftbench.sweeps.storage import fetch as copy_runs
    from shiftbench.sweeps.storage import is_url

    if not is_url(url):
        raise ShiftBenchError(f"{url}: not a URL, such as s3://bucket/runs. A folder of runs needs no fetching.")
    return copy_runs(url, out)


def conflicts(
    benchmark: Benchmark | Place, out: Place | None = None, *, collection: Collection | Place | None = None,
    device: str = "auto", progress: Advance | None = None, **settings: Any,
) -> Conflicts:
    """What training on each subset does to the loss on every other: a matrix, its heatmap and what stands out.

    `settings` are those of `shiftbench.conflict.Settings`: model, features, steps, repeats, makeup, seed, …
    """
    from shiftbench.conflict import Settings
    from shiftbench.training.device import check_device

    check_device(device)
    plan = make(Settings, settings, "conflicts")
    plan.run("", 0)  # which checks the rest
    loaded, images = _with_collection(benchmark, collection)
    load_torch()
    from shiftbench.conflict.measure import conflicts as measure

    matrix = measure(loaded, images, plan, device=device, cache=images.home, progress=progress)
    if out is not None:
        matrix.save(out)
    return matrix


# Scores

def score(
    benchmark: Benchmark | Place, *models: Any, ids: Any = None, probabilities: Any = None,
    logits: Any = None, predictions: Any = None, classes: Any = None, name: str = "", method: str = "", seed: int = 0,
    study: Place | None = None, nooch: Place | None = None, task: str = "", by: str | Sequence[str] = (),
    collection: Collection | Place | None = None, ignore_splits: bool = False,
    columns: Mapping[str, str] | None = None, ignore_extra: bool = False, **options: Any,
) -> Scores:
    """Score predictions of any model on a benchmark: average, per group and worst group, each with an interval.

    A model's predictions are a file, an object, a data frame or dict with the columns of a file, or arrays: `ids` and
    one of `probabilities`, `logits` and `predictions` (docs/python.md); `classes` names the columns where they are in
    an order of their own. `name`, `method` and `seed` describe the run in the table, where there is one model.

    Several models are also compared, on the same items: rows of stat `difference` say how far each is behind the best
    one, with an interval and a p-value (docs/statistics.md).

    `by` are further groupings of any columns, as "region" or "male+female,label" (docs/groups.md); a column that the
    benchmark does not keep is looked for in its collection.

    Predictions whose `split` says `train` of items that the benchmark holds out are refused: the model has seen them.
    `ignore_splits` scores them all the same. `columns` says what the files call our columns, {"item": "img",
    "prediction": "pred"}; `ignore_extra` leaves out, and counts, predictions of items that the benchmark has not.

    Files that end in .json are annotators' answers to a study, whose key is in the folder `study`: their accuracy and
    agreement come with every model's accuracy on the same pairs of superclasses. `nooch` is the folder of NOOCh's
    published lists, which then say what is hard; no benchmark is needed with it: score("my.csv", nooch="nooch").
    """
    from shiftbench.data.benchmark import collection_if_there
    from shiftbench.data.groupings import needs_collection
    from shiftbench.data.predictions import Predictions, is_answers, model_names, read_predictions
    from shiftbench.scoring import score as score_model
    from shiftbench.scoring import score_models

    if "metrics" in options:
        options["metrics"] = listed(options["metrics"], ",")
    if by:
        options["by"] = by = listed(by)
    if nooch is not None:
        from shiftbench.scoring.official import score_on_lists

        if columns or ignore_extra:
            raise ShiftBenchError("--column and --ignore-extra are for a benchmark, not for NOOCh's lists: rename the "
                                  "columns to item and prediction.")
        return score_on_lists(benchmark, models, nooch, task, ignore_splits=ignore_splits, **options)
    loaded = _benchmark(benchmark)
    if ids is not None:
        models = (*models, Predictions.of(loaded, ids, probabilities=probabilities, logits=logits,
                                          predictions=predictions, classes=classes, ignore_extra=ignore_extra))
    elif any(values is not None for values in (probabilities, logits, predictions, classes)):
        raise ShiftBenchError("ids: is missing. Say which item each prediction is of.")
    if not models:
        raise ShiftBenchError("There are no predictions to score. Name at least one file.")
    if by and (collection is not None or needs_collection(loaded, by)):
        options["collection"] = collection_if_there(loaded, benchmark, collection)
    named = {shown: read_predictions(source, loaded, ignore_splits=ignore_splits, columns=columns,
                                     ignore_extra=ignore_extra)
             for shown, source in zip(model_names(models), models, strict=True) if not is_answers(source)}
    answers = [Path(str(source)) for source in models if is_answers(source)]
    if name or method or seed:
        if len(named) != 1 or answers:
            raise ShiftBenchError(f"name, method and seed describe one model, but there are {len(models)}. Score each "
                                  "by itself.")
        own = name or method or next(iter(named))
        return score_model(loaded, *named.values(), run=own, method=method or own, seed=seed, **options)
    if not answers and study is None:
        return score_models(loaded, named, **options)
    from shiftbench.human.people import score_people

    return score_people(loaded, answers, named, study, **options)


def gap(*runs: Place, reference: str = "", level: float = 0.95) -> Scores:
    """What the shift costs each method: in distribution minus out of distribution, with an interval.

    `runs` are folders with runs on a benchmark and on what `reference` made of it: gap("runs", "runs-mixed").
    """
    from shiftbench.scoring.gaps import gaps_of

    return gaps_of(runs, reference=reference, level=level)


def select(
    source: Scores | Place, rule: str = "", *, target: str = "accuracy", benchmarks: Benchmarks = (),
    allow_target: bool = False,
) -> Selection:
    """Which of several settings counts: what a rule chooses, or all rules side by side with their regret.

    A single rule that used labels of the target is refused unless `allow_target`.
    """
    from shiftbench.scoring.runs import scores_of
    from shiftbench.scoring.select import RULES, refuse_target
    from shiftbench.scoring.select import select as apply

    scores, folders = scores_of(_scores(source), benchmarks)
    selection = apply(scores, [rule] if rule else tuple(RULES), targets=[target],
                      benchmarks=[benchmark for benchmark, _ in folders])
    refuse_target(selection.choices if rule else (), allow_target=allow_target)
    return selection


def hardest(source: Scores | Place, n: int = 12, *, method: str = "erm", split: str = "test") -> list[Ranked]:
    """Rank tasks (benchmarks) by how much more hard items cost than the average item; the first n."""
    from shiftbench.scoring.hard_items import hardest as rank
    from shiftbench.scoring.runs import scores_of

    return rank(scores_of(_scores(source))[0], n, method=method, split=split)


def power(
    benchmark: Benchmark | Place, difference: float | None = None, *, split: str = "test", **known: Any
) -> list[dict[str, Any]]:
    """Per group of a split: its items, the smallest difference they show, and what a difference (a share) needs."""
    from shiftbench.scoring.intervals import group_power

    loaded = _benchmark(benchmark)
    return group_power({"all": len(loaded.rows(split)), **loaded.counts()[split]}, difference, **known)


# Pages and tables

def report(
    source: Scores | Place, out: Place, *, benchmarks: Benchmarks = (), rule: str = "id",
    title: str = "shiftbench report", compare: str | Sequence[str] = (), study: Study | Place | None = None,
    figures: Place | None = None, left_out: list[Status] | None = None,
) -> Path:
    """One self-contained HTML page from a folder of runs or a table of scores.

    Runs that failed, that have not ended or that cannot be read are in no number; they are named on the page and in
    a warning, and added to `left_out`. With `study` the page has the runs of
    that study alone; what is missing of it, and what else lies in the folder, is named as well.

    Where a method has several settings, `rule` chooses the one that counts; one that used target labels is refused.
    `compare` names two methods of a runs folder: of benchmarks with hard items the page shows those on which the two
    differ most; without it the baseline and the method that is best on hard items.

    `figures` is a folder: each figure is written there as SVG and PNG, and the table behind it as CSV and LaTeX.
    """
    from shiftbench.reporting.page import report as write_report
    from shiftbench.reporting.results import check_compared, read_source
    from shiftbench.sweeps.status import in_words

    source = _scores(source)
    compared = check_compared(listed(compare, ","), source)
    results = read_source(source, benchmarks, rule=rule, study=study, tolerant=True)
    page = write_report(results.scores, results.benchmarks, out, collections=results.pictures(), title=title, rule=rule,
                        index=results.runs, compare=compared, absent=results.absent, figures=figures)
    if results.absent:
        warnings.warn(f"{source}: {in_words(results.absent)}", UserWarning, stacklevel=2)
    if left_out is not None:
        left_out += results.absent
    return page


def table(
    source: Scores | Place, out: Place | None = None, *, format: str = "", metrics: str | Sequence[str] = (),
    split: str = "test", against: str = "", benchmarks: Benchmarks = (), rule: str = "id",
    study: Study | Place | None = None,
) -> list[Line]:
    """Every method's mean with its interval, and its difference to the best method with a p-value.

    `source` is a folder of runs, where differences are paired by item and over seeds, or a table of scores. `against`
    names the method to compare with instead of the best. Where a method has several settings, `rule` chooses.
    `study` keeps the runs of that study. `out` is written as `format`: csv, md or latex, or what its ending says.
    """
    from shiftbench.core.files import write_text
    from shiftbench.reporting.comparison import lines, writer
    from shiftbench.reporting.results import read_source, shown_scores

    write = writer(format, out)
    results = read_source(_scores(source), benchmarks, rule=rule, study=study)
    rows = lines(shown_scores(results.scores, results.benchmarks, rule), results.benchmarks, listed(metrics, ","),
                 split=split, against=against, folder=results.runs)
    if out is not None:
        write_text(out, write(rows))
    return rows


def study(
    benchmark: Benchmark | Place, out: Place, *, collection: Collection | Place | None = None,
    progress: Advance | None = None, **design: Any,
) -> Key:
    """A web page on which people sort images into two unnamed superclasses, and its key; `score` reads their answers.

    `design` are the fields of `shiftbench.human.Design`: partners, examples, questions, conditions, size, rescale,
    seed. Hand out the folder `page` of `out`, and keep `key.json`.
    """
    from shiftbench.data.benchmark import collection_of
    from shiftbench.human import Design, write_study

    loaded = _benchmark(benchmark)
    images = collection_of(loaded, benchmark, collection)
    return write_study(loaded, images, out, make(Design, design, "study"), progress)


def board(
    folder: Place, benchmark: Benchmark | Place | Sequence[Benchmark | Place], out: Place | None = None, *,
    metric: str = "", seeds: int | None = None, title: str = "",
) -> Board:
    """A leaderboard of a folder of submissions, each number recomputed from its predictions; see docs/board.md.

    Ranked by `metric` on test, by default what the benchmark's target has for accuracy; of several benchmarks, folds of
    one, by its mean over them. A submission of another benchmark, with too few seeds or against the rules is listed
    with the reason. `out` is the folder for index.html, board.json and board.csv.
    """
    from shiftbench.leaderboard import make_board, make_folds, write_board

    if isinstance(benchmark, Sequence) and not isinstance(benchmark, str):
        ranking = make_folds(folder, [_benchmark(fold) for fold in benchmark], metric=metric)
    else:
        ranking = make_board(folder, _benchmark(benchmark), metric=metric, seeds=seeds)
    if out is not None:
        write_board(ranking, out, title=title)
    return ranking
