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

from shiftbench.core.backend import load_torch
from shiftbench.core.errors import Advance, Say, ShiftBenchError, unknown
from shiftbench.core.registry import listed, make

if TYPE_CHECKING:
    from shiftbench.auditing.findings import Audit
    from shiftbench.auditing.gate import Gate
    from shiftbench.conflict.matrix import Conflicts
    from shiftbench.data.benchmark import Benchmark
    from shiftbench.data.checks import Finding
    from shiftbench.data.collection import Collection
    from shiftbench.data.predictions import Predictions
    from shiftbench.data.scores import Scores
    from shiftbench.hierarchies.hierarchy import Hierarchy
    from shiftbench.hierarchies.superclasses import Superclasses
    from shiftbench.human import Key
    from shiftbench.leaderboard import Board
    from shiftbench.metagraph.graph import MetaGraph
    from shiftbench.methods import Method
    from shiftbench.reporting.comparison import Comparison
    from shiftbench.scoring.hard_items import Ranked
    from shiftbench.scoring.outside_runs import Words
    from shiftbench.scoring.select import Selection
    from shiftbench.shifts.shift import Shift
    from shiftbench.shifts.subset import Rung
    from shiftbench.sweeps.status import Status
    from shiftbench.sweeps.study import Study
    from shiftbench.training.retrain import Retrained
    from shiftbench.training.run import Outcome
    from shiftbench.webapp.launch import Page, Running

    Place = Path | str
    Benchmarks = Benchmark | Place | Sequence[Benchmark | Place]
    PerModel = str | Sequence[str]  # a word for all models of predictions, or one for each in their order


# Data

def download(
    *name: str, root: Place = "data", origin: Place | None = None, accept_licence: bool = False,
    keep_archives: bool = False, progress: Advance | None = None,
) -> Path:
    """Fetch a published data set and return its folder: download("wilds", "camelyon17", accept_licence=True).

    `origin` is your own folder or address that has the files under the same names. An interrupted download resumes,
    and a finished one is not repeated.
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

    If `out` holds another collection, it is replaced only with `overwrite`. Image files that do not exist are counted
    in a warning; with `drop_missing` their items are dropped.
    """
    from shiftbench.readers.annotation_files import keep, read_files

    collection = read_files(format, sources, drop_missing=drop_missing, **options)
    if out is None:
        return collection
    keep(collection, out, overwrite)
    return collection.lying_in(out)


def export(
    benchmark: Benchmark | Place, out: Place, *, to: str = "folder", copy: bool = False,
    collection: Collection | Place | None = None, licence: str = "", citation: str = "",
) -> Path:
    """Write a benchmark in a layout that other tools read: `folder` (MetaShift's), `csv`, `coco`, `hf` (parquet for
    `datasets`), `torch` (ImageFolder), `domainbed`, `wilds`; croissant.json describes it, with licence and citation.

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
    return write_export(loaded, collection_if_there(loaded, collection), out, to=to, copy=copy,
                        licence=licence, citation=citation)


def trust(collection: Collection | Place, root: Place | None = None) -> Path:
    """Allow a collection that was made elsewhere to use its image folder, or another folder; return that folder."""
    from shiftbench.data.collection import MARKER
    from shiftbench.data.image_files import trust_root

    loaded = _collection(collection)
    if loaded.root is None or loaded.home is None:
        raise ShiftBenchError(f"{loaded.home or loaded.name}: names no folder of files, so there is nothing to trust.")
    folder = loaded.root if root is None else Path(root).resolve()
    trust_root(loaded.home / MARKER, folder)
    return folder


# Shifts

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
    from shiftbench.hierarchies.sources import edited, open_hierarchy, read_classes

    opened = open_hierarchy(source, None if classes is None else read_classes(classes))
    return edited(opened, edits or [], tree=tree) if edits or tree else opened


def superclasses(
    source: Hierarchy | Collection | Place | None = None, *, level: int | None = None, task: str = "", **choice: Any
) -> Superclasses:
    """The superclasses of a level, or of a task by name, with the subclasses of their source and of their target.

    superclasses("breeds", level=4, subclasses=8, split="bad"); superclasses(task="living17") needs no files.
    """
    from shiftbench.hierarchies.superclasses import named_task
    from shiftbench.hierarchies.superclasses import superclasses as cut

    opened = None if source is None else _hierarchy(source)
    if task:
        return named_task(task, opened, level=level, **choice)
    if opened is None or level is None:
        raise ShiftBenchError("Superclasses are cut from a hierarchy at a level, or come with a task. Give one.")
    return cut(opened, level, **choice)


def ladder(collection: Collection | Place, test: str, k: int = 4, **options: Any) -> list[Rung]:
    """k training sets for the class of a test subset, from near to far: ladder(scenes, "dog(shelf)", 4)."""
    from shiftbench.shifts.subset import ladder as climb

    return climb(_collection(collection), test, k, **options)


def build(
    recipe: Shift | Audit | Place, out: Place | None = None, changes: Mapping[str, Any] | None = None, *,
    collection: Collection | Place | None = None, seed: int = 0, finding: int = 0, label: str = "",
) -> Benchmark:
    """Apply the shift of a recipe to its collection; `changes` replace settings of the file.

    Or a shift to a collection, with a seed: build(sb.Given(), collection=scenes, seed=0). Or make the shift of a
    `finding` of an audit, counted from 1, which trains without the items of the context and tests on them beside
    others: build(audit, finding=3, collection=scenes). `label` is then the factor to predict, by default the audit's.
    """
    from shiftbench.auditing.findings import Audit
    from shiftbench.data.benchmark import save_for
    from shiftbench.shifts.recipe import applied
    from shiftbench.shifts.recipe import build as build_recipe

    if finding or isinstance(recipe, Audit):
        from shiftbench.auditing.contexts import build_finding

        audit = recipe if isinstance(recipe, Audit) else Audit.load(_path(recipe, "an Audit", "file"))
        if collection is None or not finding:
            raise ShiftBenchError("A benchmark of an audit is made of one finding and of a collection: sb.build(audit, "
                                  "finding=1, collection=scenes). Give both.")
        images = _collection(collection)
        benchmark = build_finding(audit, finding, images, label=label, seed=seed, changes=changes)
    elif isinstance(recipe, str | Path):
        if collection is not None or seed:
            raise ShiftBenchError(f"{recipe}: a recipe has its own collection and seed. Change them with `changes`.")
        return build_recipe(recipe, out, changes)
    else:
        if isinstance(recipe, type):
            raise ShiftBenchError(f"{recipe.__name__} is a class, and a shift has its settings: write "
                                  f"{recipe.__name__}(…).")
        if not hasattr(recipe, "build"):
            _path(recipe, "a shift, nor an audit, nor a recipe,", "file")
        if collection is None or changes:
            raise ShiftBenchError("A shift is built on a collection and has its settings: sb.build(sb.Given(), "
                                  "collection=scenes). Give both, without `changes`.")
        images = _collection(collection)
        benchmark = applied(recipe, images, seed)
    return benchmark if out is None else save_for(benchmark, out, images.home)


def suite(
    name: Place, collection: Collection | Place | None, out: Place, *, seed: int | None = None, only: str = "",
    replicates: int = 0, changes: Mapping[str, Any] | None = None, progress: Advance | None = None,
) -> list[Path]:
    """Build the benchmarks of a paper's table on a collection: suite("metashift/table1", "collections/vg", "out").

    Or those of a recipe that describes several, as `leave_one_domain_out` without `test` describes one per domain; its
    collection and seed are the recipe's unless given.
    `changes` replace settings of every benchmark, as in `build`. With `replicates`, each benchmark with low-data
    items is built that many times, with other such items each time: `low-10.0`, `low-10.1`, …
    ImageNet as it is unpacked, a folder with train/ and val/, is read first, into a collection below `out`.
    """
    from shiftbench.core.files import path_of
    from shiftbench.data.collection import Collection
    from shiftbench.shifts.suites import build_suite

    path_of(name, "the name of a suite nor the file of a recipe")
    if collection is not None and not isinstance(collection, Collection):
        _path(collection, "a Collection")
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
    images = collection_of(original, collection) if given else None
    counterpart = make_reference(original, to, seed, given=given, collection=images, **options)
    return counterpart if out is None else save_for(counterpart, out, collection_path(original, collection))


def check(benchmark: Benchmark | Collection | Place, collection: Collection | Place | None = None) -> list[Finding]:
    """The problems of a benchmark or a collection; `shiftbench.data.checks.uses` says what it is fit for.

    Where images are available, a missing file is a finding, and the same content under two ids is a leak.
    """
    from shiftbench.data.benchmark import collection_if_there
    from shiftbench.data.checks import check as find_faults
    from shiftbench.data.checks import check_collection
    from shiftbench.images.decode import hashes_and_missing

    if _is_collection(benchmark):
        return check_collection(_collection(benchmark))
    loaded = _benchmark(benchmark)
    images = collection_if_there(loaded, collection)
    if images is None or images.pixels is None:
        return find_faults(loaded)
    return find_faults(loaded, *hashes_and_missing(images, loaded.items))


def power(
    benchmark: Benchmark | Place, difference: float | None = None, *, split: str = "test", **assumed: Any
) -> list[dict[str, Any]]:
    """Each group's items, the smallest difference they can show, and how many items a difference (a share) needs.

    `assumed` are accuracy, correlation or disagreement of the two models, level, power and comparisons.
    """
    from shiftbench.data.scores import ALL
    from shiftbench.scoring.differences import group_power

    loaded = _benchmark(benchmark)
    if split not in loaded.splits:
        raise unknown("split", split, loaded.splits)
    return group_power({ALL: len(loaded.rows(split)), **loaded.counts()[split]}, difference, **assumed)


# Training

def embed(
    benchmark: Benchmark | Place, model: str = "efficientnet-lite0", size: int = 224,
    collection: Collection | Place | None = None, progress: Advance | None = None,
) -> Path:
    """Cache the features of every item of a benchmark, once; training a head then takes a second.

    They are kept in the folder of the collection, which must therefore be saved: read(…, out=FOLDER), or `save`.
    """
    from shiftbench.models.names import backbone

    backbone(model)
    loaded, images = _with_collection(benchmark, collection)
    if images.home is None:
        raise ShiftBenchError(f"collection: '{images.name}' has no folder to keep its features in. Save it and name "
                              "its folder.")
    rows = images.index(loaded.items)
    load_torch()
    from shiftbench.training.inputs import embed as embed_items

    embed_items(images, rows, backbone=model, size=size, folder=images.home, progress=progress)
    return images.home / "features"


def train(
    benchmark: Benchmark | Place, method: str | Method = "", out: Place = "runs", *, preset: str | Sequence[str] = (),
    collection: Collection | Place | None = None, device: str = "auto", params: Mapping[str, Any] | None = None,
    strict: bool = False, progress: Advance | None = None, say: Say | None = None, **settings: Any,
) -> Path:
    """Train one method on one benchmark with one seed, and return the run's folder. A finished run is not repeated.

    A method is a name, or an object of its class: train(bench, "irm", params={"penalty": 10.0}), or IRM(penalty=10.0).
    `params` are the method's own settings, `settings` those of the run: model, features, steps, lr, seed, … `preset`
    names settings of both (`shiftbench methods --presets`); those that you give win over a protocol's, and a variant
    such as `resnet50` brings its method. `say` is called with a line for each setting that has no effect; the run's log
    has it too. `strict` refuses pretrained weights that have seen subclasses of the target (BREEDS).

    `model` is a name (`resnet18`, `timm:resnet18`, `my_file.py:build`; docs/models.md), an nn.Module with as many
    outputs as there are classes, or a function that builds one for a number of classes.

    A benchmark in memory comes with its `collection` and is saved as out/benchmarks/NAME, where its runs find it.
    """
    from shiftbench.core.backend import check_device
    from shiftbench.models.names import ESTIMATOR, check_unseen
    from shiftbench.training.run import run_of

    check_device(device)
    params, model = params or {}, settings.get("model", "")
    if not isinstance(method, str):
        from shiftbench.methods.method import described

        method, own = described(method)
        params = {**own, **params}
    if isinstance(model, str) and model.startswith(ESTIMATOR):
        from shiftbench.training.estimators import fit as fit_copy
        from shiftbench.training.estimators import fit_settings

        if preset:
            raise ShiftBenchError(f"train: a preset has settings of nets, and model '{model}' is fitted at once. Leave "
                                  "the preset out.")
        fitting = fit_settings(method or "erm", {**params, **settings}, say)
        loaded, folder, images = _in_folders(benchmark, collection, out)
        return fit_copy(loaded, images, out=Path(out), benchmark_path=folder, progress=progress, say=say, **fitting)
    if not isinstance(model, str):
        settings["model"] = _model_name(settings, _benchmark(benchmark))
    run_of(method, params, settings, preset)  # which checks all of it
    loaded, folder, images = _in_folders(benchmark, collection, out)
    run = run_of(method, params, settings, preset, loaded)
    if strict:
        check_unseen(run.to_json(), loaded)
    load_torch()
    from shiftbench.training.loop import train as train_run

    return train_run(loaded, images, run, out, device=device, benchmark_path=folder, progress=progress, say=say)


def fit(
    benchmark: Benchmark | Place, estimator: Any, features: str | Sequence[str] = "columns", out: Place = "runs", *,
    weights: str = "", name: str = "", collection: Collection | Place | None = None, seed: int = 0,
    progress: Advance | None = None, say: Say | None = None,
) -> Path:
    """Fit an estimator with scikit-learn's interface on the training rows; return the run's folder, as `train` does.

    `features` are `columns` (the collection's feature columns), a list of factors, which the estimator gets as a data
    frame, or cached features: BACKBONE@SIZE, `sentences`. `weights` by `group`, `class` or `domain` give each of them
    the same mass. Tables show the run as `name`, by default the estimator's class. A copy is fitted: your estimator
    stays as it is. sb.fit(bench, LogisticRegression(), out="runs")
    """
    from shiftbench.training.estimators import WEIGHTS, check_estimator
    from shiftbench.training.estimators import fit as fit_copy

    if weights not in WEIGHTS:
        raise unknown("weights", weights, [word for word in WEIGHTS if word], "fit")
    check_estimator(estimator, _benchmark(benchmark))
    loaded, folder, images = _in_folders(benchmark, collection, out)
    method, params = WEIGHTS[weights]
    return fit_copy(loaded, images, estimator, Path(out), benchmark_path=folder, features=features, method=method,
                    params=params, name=name, seed=seed, progress=progress, say=say)


def pretrain(
    collection: Collection | Place, label: str, out: Place, *, model: str = "resnet18", seed: int = 0,
    device: str = "auto", progress: Advance | None = None, **settings: Any,
) -> Path:
    """Train a model to predict a factor of a collection, and return the weight file (`weights=` of other runs).

    pretrain("collections/scenes", "breed", "pretrained/scenes", steps=5000); an interrupted call resumes.
    """
    from shiftbench.core.backend import check_device
    from shiftbench.core.files import copy_file
    from shiftbench.shifts.splits import IID
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
    """Train the last layer of every finished run on the target (BREEDS' target-RT); results by run, none repeated."""
    from shiftbench.core.backend import check_device
    from shiftbench.data.benchmark import TARGET_TRAIN
    from shiftbench.scoring import runs_in

    check_device(device)
    fit = [run for run in runs_in(runs)[0] if TARGET_TRAIN in _benchmark(run.benchmark_folder).splits]
    if not fit:
        raise ShiftBenchError(f"{runs}: no finished run is on a benchmark with split '{TARGET_TRAIN}'. Benchmarks of "
                              "shift 'breeds' have it.")
    load_torch()
    from shiftbench.training.retrain import retrain_all

    return retrain_all(fit, steps=steps, rates=rates, collection=collection, device=device, progress=progress)


def sweep(
    study: Study | Place | Mapping[str, Any], out: Place, *, benchmarks: Benchmarks = (),
    collection: Collection | Place | None = None, engine: str = "local", workers: int = 0, device: str = "auto",
    retry_failed: bool = False, changes: Mapping[str, Any] | None = None, logs: str | Sequence[str] = (),
    checkpoint_seconds: float = 30.0, strict: bool = False, progress: Callable[[Outcome, int], None] | None = None,
) -> list[Outcome]:
    """Train every run of a study, and return how each ended. Finished runs, whoever made them, are not repeated.

    A study is a file, or a dict of what the file would say: sweep({"methods": {"erm": {}, "irm": {"penalty": [1, 10]}},
    "seeds": 3, "run": {"steps": 300}}, out="runs", benchmarks=[bench]).
    `engine` is `local` (processes on this machine) or `ray` (a cluster; `out` may be a URL there). `logs` names where
    the logs are also written: tensorboard, mlflow. `progress(end, total)` is called for every run that ends. `strict`
    refuses the study, before a run is trained, where pretrained weights have seen subclasses of a target.

    `benchmarks` replace the study's; those in memory come with their `collection` and are saved below `out`.
    """
    from shiftbench.core.backend import check_device
    from shiftbench.sweeps.jobs import sweep as do_all
    from shiftbench.sweeps.study import Study

    check_device(device)
    if folders := [str(_in_folders(benchmark, collection, out)[1]) for benchmark in _each(benchmarks)]:
        if isinstance(study, Study):
            study = replace(study, benchmarks=tuple(folders), suites=(), recipes=())
        else:
            changes = {**(changes or {}), "benchmarks": folders}
    if not isinstance(study, Study):
        study = Study.load(study if isinstance(study, Mapping) else _path(study, "a Study", "file"), changes)
    return do_all(study, out, engine=engine, workers=workers, device=device, retry_failed=retry_failed,
                  logs=listed(logs, ","), checkpoint_seconds=checkpoint_seconds, strict=strict, progress=progress)


def fetch(url: str, out: Place) -> list[str]:
    """Copy the finished runs of a store to a folder on this machine, and return their names. Existing runs are not
    fetched again."""
    from shiftbench.sweeps.storage import fetch as copy_runs
    from shiftbench.sweeps.storage import is_url

    if not is_url(url):
        raise ShiftBenchError(f"{url}: not a URL, such as s3://bucket/runs. A folder of runs needs no fetching.")
    return copy_runs(url, out)


def predict(
    source: Benchmark | Collection | Place, model: Any, out: Place | None = None, *,
    collection: Collection | Place | None = None, split: str | Sequence[str] = (), label: str = "",
    classes: Place | Sequence[str] = (), map: Any = None, hierarchy: Hierarchy | Place | None = None,
    allow_unmapped: bool = False, map_out: Place | None = None,
    prompt: str | Sequence[str] = (), weights: str = "", takes: str = "", size: int = 0,
    mean: str | float | Sequence[float] = (), std: str | float | Sequence[float] = (), outputs: str = "auto",
    batch_size: int = 0, device: str = "auto", overwrite: bool = False, progress: Advance | None = None,
    say: Say | None = None,
) -> Predictions:
    """Run a finished model on the items of a benchmark or a collection, and return its predictions.

    `model` is timm:NAME, torchvision:NAME, hf:FOLDER, hf-nli:FOLDER, openclip:MODEL/WEIGHTS, model.onnx,
    FILE.py:FUNCTION, the folder of a finished run, a function of a batch, or a torch module. Its classes are mapped to
    the labels: `map` (class -> label, or a table of that) wins over equal names, synonyms and `hierarchy`; `classes`
    names the outputs of a model that does not. A label without a class is an error unless `allow_unmapped`. `say` is
    called with lines about the map, and `map_out` is a file for all of it (docs/predict.md).

    `out` is a .parquet or .csv file that `score`, `gap`, `select`, `report` and `board` take. An interrupted call can
    be repeated: it resumes, and the file has the same bytes. For a collection, the labels are the values of factor
    `label`, or the model's own classes.
    """
    from shiftbench.core.backend import check_device
    from shiftbench.predicting.class_names import read_class_names, read_map
    from shiftbench.predicting.classifier import Options, channels
    from shiftbench.predicting.predict import Request, check_out
    from shiftbench.predicting.predict import predict as run_model

    check_device(device)
    options = Options(listed(prompt), weights, takes, size, channels(mean, "mean"), channels(std, "std"),
                      outputs, device)
    file = None if out is None else check_out(Path(out), overwrite)
    class_map = dict(map) if isinstance(map, Mapping) else {} if map is None else read_map(map)
    names = read_class_names(classes) if isinstance(classes, str | Path) else tuple(classes)
    if _is_collection(source):
        images = _collection(source)
        request = Request.of_collection(images, label)
    else:
        loaded, images = _with_collection(source, collection)
        request = Request.of(loaded, images, listed(split, ","))
    tree = hierarchy if hierarchy is not None else images if images.parents else None
    request = replace(request, class_map=class_map, allow_unmapped=allow_unmapped,
                      hierarchy=None if tree is None else _hierarchy(tree))
    return run_model(request, model, options, classes=names, batch_size=batch_size, out=file, progress=progress,
                     say=say, show=None if map_out is None else lambda table: table.save(map_out))


# Judging

def score(
    benchmark: Benchmark | Place, *models: Any, ids: Any = None, probabilities: Any = None, logits: Any = None,
    predictions: Any = None, classes: Any = None, metrics: str | Sequence[str] = (), by: str | Sequence[str] = (),
    replicates: int = 1000, level: float = 0.95, study: Place | None = None, nooch: Place | None = None,
    task: str = "", collection: Collection | Place | None = None, ignore_splits: bool = False,
    columns: Mapping[str, str] | None = None,
    name: PerModel = "", method: PerModel = "", setting: PerModel = "", seed: int | Sequence[int] = (),
    ignore_extra: bool = False,
) -> Scores:
    """Score predictions of any model on a benchmark: average, per group and worst group, each with an interval.

    A model's predictions are a file, the folder of a run, an object, a data frame or dict with the columns of a file,
    or arrays: `ids` and one of `probabilities`, `logits` and `predictions` (docs/python.md); `classes` names the
    columns where they are in an order of their own. `name`, `method`, `setting` and `seed` describe each model as a
    run: one word for all, or one for each; columns of these names in a file do so too, and a file may hold several
    models. Models described so are scored as runs are, with each method's mean over its seeds.

    Several models are also compared, on the same items: rows of stat `difference` say how far each is behind the best
    one, with an interval and a p-value (docs/statistics.md).

    `metrics` are further metrics, and `by` further groupings of any columns, as "region" or "male+female,label"
    (docs/groups.md); a column that the benchmark does not keep is looked for in its collection. `replicates` are those
    of the bootstrap, for metrics without a formula; 0 turns all intervals off.

    Predictions whose `split` says `train` of items that the benchmark holds out are refused: the model has seen them.
    `ignore_splits` scores them nevertheless. `columns` says what the files call our columns, {"item": "img",
    "prediction": "pred"}; `ignore_extra` leaves out, and counts, predictions of items that the benchmark does not have.

    Files that end in .json are annotators' answers to a study, whose key is in the folder `study`: their accuracy and
    agreement come with every model's accuracy on the same pairs of superclasses. `nooch` is the folder of NOOCh's
    published lists, which then say what is hard; no benchmark is needed with it: score("my.csv", nooch="nooch").
    """
    from shiftbench.data.benchmark import collection_if_there
    from shiftbench.data.groupings import needs_collection
    from shiftbench.data.predictions import Predictions, is_answers, model_names, read_predictions
    from shiftbench.scoring.judge import is_described, score_models

    by, words = listed(by), _words(name, method, setting, seed)
    options: dict[str, Any] = {"metrics": listed(metrics, ","), "by": by, "replicates": replicates, "level": level}
    if nooch is not None:
        from shiftbench.scoring.official import score_on_lists

        if columns or ignore_extra:
            raise ShiftBenchError("--column and --ignore-extra are for a benchmark, not for NOOCh's lists: rename the "
                                  "columns to item and prediction.")
        return score_on_lists(benchmark, models, nooch, task, ignore_splits=ignore_splits, **options)
    loaded = _benchmark(benchmark)
    reading: dict[str, Any] = {"ignore_splits": ignore_splits, "columns": columns, "ignore_extra": ignore_extra}
    if ids is not None:
        models = (*models, Predictions.of(loaded, ids, probabilities=probabilities, logits=logits,
                                          predictions=predictions, classes=classes, ignore_extra=ignore_extra))
    elif any(values is not None for values in (probabilities, logits, predictions, classes)):
        raise ShiftBenchError("ids: is missing. Say which item each prediction is of.")
    if not models:
        raise ShiftBenchError("There are no predictions to score. Name at least one file.")
    if by and (collection is not None or needs_collection(loaded, by)):
        options["collection"] = collection_if_there(loaded, collection)
    answers = [Path(str(source)) for source in models if is_answers(source)]
    files = [source for source in models if not is_answers(source)]
    if files and (words or any(is_described(file, loaded, (columns or {}).values()) for file in files)):
        if answers:
            raise ShiftBenchError("name, method, setting and seed describe models, not annotators. Score them apart.")
        from shiftbench.scoring.outside_runs import outside_runs, score_outside

        return score_outside(loaded, outside_runs(files, [loaded], words, **reading), **options)
    named = {title: read_predictions(source, loaded, **reading)
             for title, source in zip(model_names(models), models, strict=True) if not is_answers(source)}
    if not answers and study is None:
        return score_models(loaded, named, **options)
    from shiftbench.human.people import score_people

    return score_people(loaded, answers, named, study, **options)


def audit(
    predictions: Any, data: Any, *, label: str = "", loss: str = "error", against: Any = None, split: str = "",
    depth: int = 3, least: int = 0, confirm: float = 0.5, fdr: float = 0.1, dependence: str = "prds",
    better: bool = False, cluster: str = "", include: str | Sequence[str] = (), exclude: str | Sequence[str] = (),
    most_values: int = 20, features: Any = None, flips: Mapping[str, Any] | None = None, id: str = "",
    columns: Mapping[str, str] | None = None, unsealed: bool = False, seed: int = 0, out: Place | None = None,
    keep: Place | None = None, progress: Advance | None = None,
) -> Audit:
    """Find the contexts in which a model fails, and say how sure that is: audit("predictions.csv", "metadata.csv").

    `data` is a table, a collection or a benchmark, joined with the predictions by id (`id` names the column). The truth
    is in its column `label`, or in that of the predictions. `loss` is error, nll, squared, absolute, or a metric of
    your own that has `items`. With the predictions `against` of an old model the loss is the change of each item.

    Contexts of up to `depth` predicates that hold at least `least` items (0: 20, or 0.5 % of them) are searched on one
    part of the items and tested on the other, a share `confirm`; among those reported, at most a share `fdr` is false
    on average. Items of one `cluster`, as the frames of a video, stay in one part. `include` and `exclude` name
    columns; a column with more than `most_values` values forms that many groups. `better` searches contexts that are
    better than the rest too. `features`, a table by id or the folder that `embed` wrote, add clusters of items that
    look alike. `flips` are error rates of annotations, {"light=night": 0.08} (docs/audit.md). `unsealed` leaves out the
    items that the studio keeps to confirm findings made by hand.
    `out` is a .html, .json or .parquet file; `keep` is a .toml file of contexts to which the findings are added.
    """
    from shiftbench.auditing.audit import Options
    from shiftbench.auditing.audit import audit as search_and_confirm
    from shiftbench.auditing.clusters import read_features
    from shiftbench.auditing.join import join
    from shiftbench.auditing.model_outputs import loss_named

    file = None if out is None else Path(out)
    if file is not None and file.suffix not in (".html", ".json", ".parquet"):
        raise ShiftBenchError(f"{file}: an audit is written to a file that ends in .html, .json or .parquet.")
    options = Options(depth, least, confirm, fdr, dependence, better, cluster, listed(include), listed(exclude),
                      most_values, flips or {}, seed)
    measure = loss_named(loss)
    items = join(predictions, data, measure, label=label, against=against, split=split, id=id, columns=columns)
    if unsealed:
        from shiftbench.webapp.looks import open_items

        items = open_items(items)
    embedded = None if features is None else read_features(features, items, id)
    old = "" if against is None else str(against) if isinstance(against, str | Path) else "the old model"
    report, predicates, confirming = search_and_confirm(items, measure, options, against=old, features=embedded,
                                                        progress=progress)
    sources = {name: str(Path(source).resolve()) for name, source in (("predictions", predictions), ("data", data))
               if isinstance(source, str | Path)}
    report = replace(report, card={**report.card, "sources": sources})
    if file is not None and file.suffix == ".html":
        from shiftbench.reporting.audit_evidence import Evidence
        from shiftbench.reporting.audit_page import audit_page

        audit_page(report, file, Evidence(items, predicates, confirming))
    elif file is not None:
        report.save(file)
    if keep is not None:
        from shiftbench.auditing.contexts import keep as keep_contexts

        keep_contexts(report, keep)
    return report


def gate(
    new: Any, data: Any, *, against: Any = None, budget: float = 1.0, floors: Mapping[str, float] | None = None,
    contexts: Place | Audit | None = None, unsure: str = "fail", level: float = 0.95, loss: str = "", label: str = "",
    split: str = "", id: str = "", columns: Mapping[str, str] | None = None, cluster: str = "",
    junit: Place | None = None, summary: Place | None = None,
) -> Gate:
    """May a new model be released? gate("new.csv", "metadata.csv", against="old.csv", contexts="saved.toml").passed

    In every context of `contexts` (an audit, or the file that `audit --keep` writes), and over all items, the loss may
    rise over that of the predictions `against` by less than `budget` points; without an old model it may be that at
    which the context was kept, plus the budget. `floors` are the least values of metrics:
    {"worst_group_accuracy[region]": 0.8}.

    A check passes only where an interval says so, and all intervals hold at once with probability `level`. Where there
    are too few items to tell, `unsure` decides: fail, warn or pass. Predictions and data are joined as in `audit`.
    `junit` is an XML file with a test case per check, `summary` a Markdown file for a pull request.
    """
    from shiftbench.auditing.gate import gate as test
    from shiftbench.core.files import write_text
    from shiftbench.reporting.gate_summary import gate_junit, gate_markdown

    outcome = test(new, data, against=against, budget=budget, floors=floors, contexts=contexts or (), unsure=unsure,
                   level=level, loss=loss, label=label, split=split, id=id, columns=columns, cluster=cluster)
    if junit is not None:
        write_text(junit, gate_junit(outcome))
    if summary is not None:
        write_text(summary, gate_markdown(outcome))
    return outcome


def select(
    source: Any, rule: str = "", *, target: str = "accuracy", benchmarks: Benchmarks = (), allow_target: bool = False,
    out: Place | None = None,
    name: PerModel = "", method: PerModel = "", setting: PerModel = "", seed: int | Sequence[int] = (),
    ignore_extra: bool = False,
) -> Selection:
    """Choose among settings: by one rule, or compare all rules with their regret.

    `source` is a table of scores, a run or a folder of runs, or predictions (several in a list, runs among them) with
    their benchmark and the words that describe them, as in `score`. A single rule that used labels of the target is
    refused unless `allow_target`; `out` is a file for the scores of the runs that it chooses.
    """
    from shiftbench.scoring.outside_runs import runs_or_scores
    from shiftbench.scoring.rules import RULES
    from shiftbench.scoring.runs import scores_of
    from shiftbench.scoring.select import chosen, refuse_target
    from shiftbench.scoring.select import select as apply

    runs = runs_or_scores(source, benchmarks, _words(name, method, setting, seed), ignore_extra=ignore_extra)
    scores, folders = scores_of(runs, benchmarks)
    if out is not None and not rule:
        raise ShiftBenchError(f"--out writes the runs that one rule chooses. Name it with --rule: {', '.join(RULES)}.")
    loaded = [benchmark for benchmark, _ in folders]
    selection = apply(scores, [rule] if rule else tuple(RULES), targets=[target], benchmarks=loaded)
    if rule:
        refuse_target(selection.choices, allow_target=allow_target)
    if out is not None:
        chosen(scores, rule, target=target, benchmarks=loaded, allow_target=allow_target).save(out)
    return selection


def hardest(source: Scores | Place, n: int = 12, *, method: str = "erm", split: str = "test") -> list[Ranked]:
    """Rank tasks (benchmarks) by how much more hard items cost than the average item; the first n."""
    from shiftbench.core.tables import is_frame
    from shiftbench.data.scores import Scores
    from shiftbench.scoring.hard_items import hardest as rank
    from shiftbench.scoring.runs import scores_of

    scores, _ = scores_of(Scores.from_frame(source) if is_frame(source) else source)
    return rank(scores, n, method=method, split=split)


def gap(
    *runs: Any, reference: str = "", level: float = 0.95, benchmarks: Benchmarks = (),
    name: PerModel = "", method: PerModel = "", setting: PerModel = "", seed: int | Sequence[int] = (),
    ignore_extra: bool = False,
) -> Scores:
    """What the shift costs each method: in distribution minus out of distribution, with an interval.

    `runs` are runs, or folders of them, on a benchmark and on what `reference` made of it: gap("runs", "runs-mixed").
    Or predictions, with one of `benchmarks` for each, and the words that describe them, as in `score`.
    """
    from shiftbench.data.scores import Scores
    from shiftbench.scoring.gaps import gaps_of
    from shiftbench.scoring.outside_runs import is_predictions, runs_or_scores

    words = _words(name, method, setting, seed)
    sources = [source for run in runs for source in (run if isinstance(run, list | tuple) else [run])]
    if sources and not words and not any(map(is_predictions, sources)):
        return gaps_of(sources, reference=reference, level=level)
    loaded = [_benchmark(benchmark) for benchmark in _each(benchmarks)]
    compared = runs_or_scores(sources, loaded, words, ignore_extra=ignore_extra)
    assert not isinstance(compared, Scores)  # predictions are among the sources
    return gaps_of(compared, reference=reference, level=level, benchmarks=loaded)


def table(
    source: Any, out: Place | None = None, *, format: str = "", metrics: str | Sequence[str] = (),
    split: str = "test", against: str = "", benchmarks: Benchmarks = (), rule: str = "id",
    study: Study | Place | None = None,
    name: PerModel = "", method: PerModel = "", setting: PerModel = "", seed: int | Sequence[int] = (),
    ignore_extra: bool = False,
) -> Comparison:
    """Every method's mean with its interval, and its difference to the best method with a p-value.

    `source` is runs or predictions as in `select`, where differences are paired by item and over seeds, or
    a table of scores. `against` names the method to compare with instead of the best. Where a method has several
    settings, `rule` chooses.
    `study` keeps the runs of that study. `out` is written as `format`: csv, md or latex, or what its ending says; in
    Python the table has `to_latex()` and `to_pandas()`.
    """
    from shiftbench.core.files import write_text
    from shiftbench.reporting.comparison import Comparison, lines, writer
    from shiftbench.reporting.page import read_source, shown_scores
    from shiftbench.scoring.outside_runs import runs_or_scores

    write = writer(format, out)
    runs = runs_or_scores(source, benchmarks, _words(name, method, setting, seed), ignore_extra=ignore_extra)
    results = read_source(runs, benchmarks, rule=rule, study=study)
    rows = Comparison(lines(
        shown_scores(results.scores, results.benchmarks, rule), results.benchmarks, listed(metrics, ","),
        split=split, against=against, folder=results.runs))
    if out is not None:
        write_text(out, write(rows))
    return rows


def conflicts(
    benchmark: Benchmark | Place, out: Place | None = None, *, collection: Collection | Place | None = None,
    device: str = "auto", progress: Advance | None = None, **settings: Any,
) -> Conflicts:
    """The effect of training on each subset on the loss on every other: a matrix, its heatmap, the strongest conflicts.

    `settings` are those of `shiftbench.conflict.Settings`: model, features, steps, repeats, makeup, seed, …
    """
    from shiftbench.conflict import Settings
    from shiftbench.core.backend import check_device

    check_device(device)
    plan = make(Settings, settings, "conflicts")
    plan.run("", 0)  # which checks the rest
    loaded, images = _with_collection(benchmark, collection)
    load_torch()
    from shiftbench.conflict.measure import conflicts as measure

    matrix = measure(loaded, images, plan, device=device, progress=progress)
    if out is not None:
        matrix.save(out)
    return matrix


# Sharing

def report(
    source: Any, out: Place, *, benchmarks: Benchmarks = (), rule: str = "id", title: str = "",
    compare: str | Sequence[str] = (), study: Study | Place | None = None, figures: Place | None = None,
    left_out: list[Status] | None = None,
    name: PerModel = "", method: PerModel = "", setting: PerModel = "", seed: int | Sequence[int] = (),
    ignore_extra: bool = False,
) -> Path:
    """One self-contained HTML page from a run, a folder of runs, a table of scores, or predictions as in `select`.

    An audit, or the .json or .parquet file of one, has its own page: what was found, without the examples that only
    `audit` shows.

    Runs that failed, that have not ended or that cannot be read are in no number; they are named on the page and in
    a warning, and added to `left_out`. With `study` the page has only the runs of that study; what is missing of it,
    and what else lies in the folder, is named as well.

    Where a method has several settings, `rule` chooses the one that counts; one that used target labels is refused.
    `compare` names two methods of a runs folder: for benchmarks with hard items the page shows those on which the
    two differ most. Default: the baseline and the method that is best on hard items.

    `figures` is a folder: each figure is written there as SVG and PNG, and the table behind it as CSV and LaTeX.
    """
    from shiftbench.reporting.page import check_compared, is_score_table, read_source
    from shiftbench.reporting.page import report as write_report

    runs, words = source, _words(name, method, setting, seed)
    if words or ignore_extra or not is_score_table(source):
        from shiftbench.auditing.findings import Audit, is_audit
        from shiftbench.scoring.outside_runs import runs_or_scores

        if is_audit(source):
            from shiftbench.reporting.audit_page import audit_page

            if benchmarks or compare or study is not None or figures is not None:
                raise ShiftBenchError("The page of an audit shows the audit alone, no benchmarks, methods or figures.")
            return audit_page(source if isinstance(source, Audit) else Audit.load(source), out,
                              title=title or "shiftbench audit")
        runs = runs_or_scores(source, benchmarks, words, ignore_extra=ignore_extra)
    compared = check_compared(listed(compare, ","), runs)
    results = read_source(runs, benchmarks, rule=rule, study=study, tolerant=True)
    page = write_report(results.scores, results.benchmarks, out, collections=results.pictures(),
                        title=title or "shiftbench report", rule=rule, index=results.runs, compare=compared,
                        absent=results.absent, figures=figures)
    if results.absent:
        from shiftbench.core.arrays import in_short
        from shiftbench.core.tables import table_name
        from shiftbench.sweeps.status import in_words

        title = in_short(map(table_name, source)) if isinstance(source, list | tuple) else table_name(source)
        warnings.warn(f"{title}: {in_words(results.absent)}", UserWarning, stacklevel=2)
    if left_out is not None:
        left_out += results.absent
    return page


def studio(
    *folders: Place, embed: bool = False, view: str = "home", host: str = "127.0.0.1", port: int = 0, token: str = "",
    edit: bool = False,
) -> Running | Page:
    """Explore the contents of folders in a browser: studio("demo") serves them, and a notebook shows them in a frame.

    It listens on this machine only, at a free port, behind a random token; `.url` is the address, `.stop()` ends it.
    With `embed` one view becomes a page without a server: studio("demo", embed=True, view="compare?on=scores.parquet").
    """
    from shiftbench.core.files import path_of
    from shiftbench.webapp.launch import page, start

    for folder in folders:
        path_of(folder, "the folder of a collection, nor of a benchmark, nor one of runs")
    if embed:
        return page(folders or ["."], view)
    return start(folders or ["."], host=host, port=port, token=token, edit=edit)


def board(
    folder: Any, benchmark: Benchmarks, out: Place | None = None, *, metric: str = "", seeds: int | None = None,
    title: str = "",
    name: PerModel = "", method: PerModel = "", setting: PerModel = "", seed: int | Sequence[int] = (),
    ignore_extra: bool = False,
) -> Board:
    """A leaderboard of a folder of submissions, each number recomputed from its predictions; see docs/board.md.

    `metric` on test ranks the submissions, by default the benchmark's headline. If you name several benchmarks (folds
    of one), the mean over them ranks. A submission for another benchmark, with too few seeds or against the rules is
    listed with the reason. `out` is the folder for index.html, board.json and board.csv.

    In place of submissions: runs, or predictions with the words that describe them, as in `select`. A file may predict
    one fold or several.
    """
    from shiftbench.leaderboard import holds_submissions, make_board, make_folds, write_board
    from shiftbench.scoring.outside_runs import runs_on_folds

    words = _words(name, method, setting, seed)
    submitted = holds_submissions(folder) and not words
    if submitted and ignore_extra:
        raise ShiftBenchError("--ignore-extra is for predictions; a submission predicts the items of its benchmark.")
    folds = [_benchmark(fold) for fold in _each(benchmark)]
    runs = [] if submitted else runs_on_folds(folder, folds, words, ignore_extra=ignore_extra)
    if isinstance(benchmark, Sequence) and not isinstance(benchmark, str):
        ranking = make_folds(folder if submitted else runs, folds, metric=metric, seeds=1 if seeds is None else seeds)
    else:
        ranking = make_board(folder if submitted else runs[0], folds[0], metric=metric, seeds=seeds)
    if out is not None:
        write_board(ranking, out, title=title)
    return ranking


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
    images = collection_of(loaded, collection)
    return write_study(loaded, images, out, make(Design, design, "study"), progress)


# What verbs are given: folders or objects, one or several

def _benchmark(source: Any) -> Benchmark:
    from shiftbench.data.benchmark import Benchmark

    return source if isinstance(source, Benchmark) else Benchmark.load(_path(source, "a Benchmark"))


def _collection(source: Any) -> Collection:
    from shiftbench.data.collection import Collection

    return source if isinstance(source, Collection) else Collection.load(_path(source, "a Collection"))


def _is_collection(source: Any) -> bool:
    """Whether this is a collection or the folder of one."""
    from shiftbench.data.collection import MARKER, Collection

    return isinstance(source, Collection) or (isinstance(source, str | Path) and (Path(source) / MARKER).is_file())


def _hierarchy(source: Hierarchy | Collection | Place) -> Hierarchy:
    from shiftbench.hierarchies.hierarchy import Hierarchy
    from shiftbench.hierarchies.sources import open_hierarchy

    return source if isinstance(source, Hierarchy) else open_hierarchy(source)


def _with_collection(benchmark: Any, collection: Collection | Place | None) -> tuple[Benchmark, Collection]:
    """A benchmark and the collection that it was built from."""
    from shiftbench.data.benchmark import check_origin, collection_of

    loaded = _benchmark(benchmark)
    images = collection_of(loaded, collection)
    if benchmark is loaded or collection is images:  # the digests of folders were compared
        check_origin(loaded, images)
    return loaded, images


def _in_folders(
    benchmark: Benchmark | Place, collection: Collection | Place | None, out: Place
) -> tuple[Benchmark, Path, Collection]:
    """A benchmark, its folder and its collection. Objects in memory are saved below `out`, where their runs find them.
    """
    from shiftbench.data.benchmark import saved_below

    loaded, images = _with_collection(benchmark, collection)
    if isinstance(benchmark, str | Path):
        return loaded, Path(benchmark), images
    if "://" in str(out):
        raise ShiftBenchError(f"{out}: is a URL, where a benchmark in memory cannot be saved. Save it, and name its "
                              "folder.")
    return saved_below(loaded, images, out)


def _path(source: Any, instead: str, what: str = "folder") -> Path:
    from shiftbench.core.files import path_of

    return path_of(source, f"{instead} nor the {what} of one")


def _words(name: PerModel, method: PerModel, setting: PerModel, seed: int | Sequence[int]) -> Words:
    """What the user says about predictions from outside."""
    words = {"name": listed(name), "method": listed(method), "setting": listed(setting),
             "seed": (seed,) if isinstance(seed, int) else tuple(seed)}
    return {key: values for key, values in words.items() if values}


def _each(benchmarks: Benchmarks) -> Sequence[Benchmark | Place]:
    return benchmarks if isinstance(benchmarks, Sequence) and not isinstance(benchmarks, str) else [benchmarks]


def _model_name(settings: Mapping[str, Any], benchmark: Benchmark) -> str:
    """The name of a module, or of a function that builds one, by which training finds it in this process."""
    load_torch()
    from shiftbench.models.wrapped import name_object

    outputs = benchmark.target.n or len(benchmark.names["label"])
    return name_object(settings["model"], outputs, int(settings.get("size") or 32),
                       "features" if settings.get("features") else "images")
