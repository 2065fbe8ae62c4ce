"""The verbs in Python: the same words as on the command line. Each takes folders or objects and returns an object.

    import shiftbench as sb
    scenes = sb.read("world", "scenes", out="collections/scenes")
    bench = sb.build("recipe.toml", out="benchmarks/cat-dog")
    sb.train("benchmarks/cat-dog", method="group_dro", out="runs", seed=1)
    sb.report("runs", out="report.html")

Stages are imported inside the functions: torch is loaded by `train` and `embed` alone.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shiftbench.benchmark import Benchmark
from shiftbench.checks import Finding
from shiftbench.collection import Collection
from shiftbench.errors import ShiftBenchError
from shiftbench.predictions import Predictions
from shiftbench.registry import find
from shiftbench.scores import Scores

if TYPE_CHECKING:
    from shiftbench.annotation import Key
    from shiftbench.conflict.result import Conflicts
    from shiftbench.criteria.ranking import Ranked
    from shiftbench.hierarchies.hierarchy import Hierarchy
    from shiftbench.hierarchies.superclasses import Superclasses
    from shiftbench.metagraph.graph import MetaGraph
    from shiftbench.selection import Selection
    from shiftbench.shifts.ladder import Rung
    from shiftbench.sweeps.study import Study
    from shiftbench.sweeps.work import Outcome
    from shiftbench.training.retrain import Retrained

Place = Path | str
Advance = Callable[[int, int], None]


def read(format: str, *sources: Place, out: Place | None = None, **options: Any) -> Collection:
    """Read annotations, or draw a world, into a collection: read("world", "scenes", items=6000, seed=0)."""
    from shiftbench.readers import READERS
    from shiftbench.worlds import WORLDS

    def world(name: str, **drawing: Any) -> Collection:
        return find(WORLDS, "world", name)(**drawing)

    collection = find({**READERS, "world": world}, "format", format)(*map(str, sources), **options)
    if out is not None:
        collection.save(out)
    return collection


def graph(collection: Collection | Place, cls: str, **options: Any) -> "MetaGraph":
    """The meta-graph of a class: its subsets, how they overlap, their communities and their embedding."""
    from shiftbench.metagraph.graph import meta_graph

    return meta_graph(_collection(collection), cls, **options)


def hierarchy(
    source: Collection | Place, *, edits: Place | None = None, classes: Place | None = None, tree: bool = False
) -> "Hierarchy":
    """A class hierarchy from BREEDS' files, WordNet 3.0, a collection, or a file of parents and children.

    `edits` is a script that is applied to it, `classes` a file with the ids of the leaves to keep.
    """
    from shiftbench.hierarchies.edges import open_hierarchy, read_classes
    from shiftbench.hierarchies.edits import edited

    made = open_hierarchy(source, None if classes is None else read_classes(classes))
    return edited(made, edits or [], tree=tree) if edits or tree else made


def superclasses(
    source: "Hierarchy | Collection | Place | None" = None, *, level: int | None = None, task: str = "", **choice: Any
) -> "Superclasses":
    """The superclasses of a level, or of a task by name, with the subclasses of their source and of their target.

    superclasses("breeds", level=4, subclasses=8, split="bad"); superclasses(task="living17") needs no files.
    """
    from shiftbench.hierarchies.hierarchy import Hierarchy
    from shiftbench.hierarchies.superclasses import superclasses as cut
    from shiftbench.hierarchies.tasks import named_task

    made = source if source is None or isinstance(source, Hierarchy) else hierarchy(source)
    if task:
        fixed = {"level": level, "root": choice.pop("root", ""), "subclasses": choice.pop("subclasses", None)}
        given = [key for key, value in fixed.items() if value not in (None, "")]
        if given:
            raise ShiftBenchError(f"Task '{task}' has its own {' and '.join(given)}. Leave them or the task out.")
        choice.pop("balanced", None)
        return named_task(task, made, **choice)
    if made is None or level is None:
        raise ShiftBenchError("Superclasses are cut from a hierarchy at a level, or come with a task. Give one.")
    return cut(made, level, **choice)


def ladder(collection: Collection | Place, test: str, k: int = 4, **options: Any) -> "list[Rung]":
    """k training sets for the class of a test subset, from near to far: ladder(scenes, "dog(shelf)", 4)."""
    from shiftbench.shifts.ladder import ladder as climb

    return climb(_collection(collection), test, k, **options)


def build(recipe: Place, out: Place | None = None, changes: Mapping[str, Any] | None = None) -> Benchmark:
    """Apply the shift of a recipe to its collection; `changes` replace settings of the file."""
    from shiftbench.shifts.recipe import build as build_recipe

    return build_recipe(recipe, out, changes)


def suite(
    name: str, collection: Collection | Place, out: Place, *, seed: int = 0, only: str = "", draws: int = 0,
    progress: Advance | None = None,
) -> list[Path]:
    """Build the benchmarks of a paper's table on a collection: suite("metashift/table1", "collections/vg", "out").

    With `draws`, each that has low-data items is built so many times with other such items, `low-10.0`, `low-10.1`, …
    ImageNet as it is unpacked, a folder with train/ and val/, is read first, into a collection below `out`.
    """
    from shiftbench.collection import MARKER
    from shiftbench.shifts.draws import members
    from shiftbench.shifts.suites import suite as shifts_of

    wanted = members(shifts_of(name, only), range(draws), seed)
    if not isinstance(collection, Collection) and not (Path(collection) / MARKER).is_file() and (
            Path(collection) / "train").is_dir():
        raw, collection = collection, Path(out) / "collection"
        read("imagenet", raw, out=collection)
    images, path = _collection(collection), None if isinstance(collection, Collection) else Path(collection)
    folders = []
    for number, one in enumerate(wanted):
        folders.append(one.save(images, out, path))
        if progress:
            progress(number + 1, len(wanted))
    return folders


def check(benchmark: Benchmark | Place, collection: Collection | Place | None = None) -> list[Finding]:
    """What is wrong with a benchmark. Where images are at hand, the same content under two ids is a leak."""
    from shiftbench.checks import check as find_faults
    from shiftbench.pixels.decode import content_hashes

    made = _benchmark(benchmark)
    images = _collection_of(benchmark, collection, needed=False)
    hashes = None
    if images is not None and images.pixels is not None:
        hashes = content_hashes(images, images.index(made.items))
    return find_faults(made, hashes)


def embed(
    benchmark: Benchmark | Place, model: str = "efficientnet-lite0", size: int = 224,
    collection: Place | None = None, progress: Advance | None = None,
) -> Path:
    """Cache the features of every item of a benchmark, once; training a head then takes a second."""
    from shiftbench.training.embed import embed as embed_items

    made = _benchmark(benchmark)
    folder = _collection_folder(benchmark, collection)
    images = Collection.load(folder)
    embed_items(images, images.index(made.items), backbone=model, size=size, folder=folder, progress=progress)
    return folder / "features"


def train(
    benchmark: Place, method: str, out: Place, *, collection: Place | None = None, device: str = "auto",
    params: Mapping[str, Any] | None = None, progress: Advance | None = None, **settings: Any,
) -> Path:
    """Train one method on one benchmark with one seed; gives the folder of the run. A finished run is not repeated.

    `params` are the method's own settings, `settings` those of the run: model, features, steps, lr, seed, …
    """
    from shiftbench.models import MODELS
    from shiftbench.training.folder import train as train_run
    from shiftbench.training.run import Run, default_model

    made = Benchmark.load(benchmark)
    settings = {"model": default_model(method), **settings}
    if find(MODELS, "model", settings["model"]).takes == "features":
        settings.setdefault("features", "efficientnet-lite0")
    run = Run.of({"benchmark": made.digest, "method": method, "params": params or {}, **settings}, "train")
    folder = _collection_folder(benchmark, collection)
    return train_run(made, Collection.load(folder), run, Path(out), device=device, benchmark_path=Path(benchmark),
                     collection_path=folder, progress=progress)


def pretrain(
    collection: Place, label: str, out: Place, *, model: str = "resnet18", seed: int = 0, device: str = "auto",
    progress: Advance | None = None, **settings: Any,
) -> Path:
    """Train a model to tell a factor of a collection; gives the weight file, for `weights=` of runs on other data.

    pretrain("collections/scenes", "breed", "pretrained/scenes", steps=5000); started again it goes on.
    """
    import shutil

    from shiftbench.files import writing
    from shiftbench.shifts.iid import IID
    from shiftbench.shifts.recipe import Recipe
    from shiftbench.shifts.recipe import build as build_recipe

    build_recipe(Recipe(Path(collection), IID(label), seed), Path(out) / "benchmark")
    run = train(Path(out) / "benchmark", "erm", Path(out) / "runs", model=model, seed=seed, device=device,
                progress=progress, **settings)
    with writing(Path(out) / "weights.safetensors") as hidden:
        shutil.copyfile(run / "checkpoint.safetensors", hidden)
    return Path(out) / "weights.safetensors"


def retrain(
    runs: Place, *, steps: int = 40_000, rates: Sequence[float] | None = None, collection: Place | None = None,
    device: str = "auto", progress: Advance | None = None,
) -> "dict[str, Retrained]":
    """Train the last layer of every finished run on the target (BREEDS' target-RT); by run. What is done stays done."""
    from shiftbench.scoring import runs_in
    from shiftbench.training.retrain import LEARNS, RATES
    from shiftbench.training.retrain import retrain as retrain_run

    found: dict[str, Retrained] = {}
    listed = [run for run in runs_in(runs)[0] if LEARNS in Benchmark.load(run.benchmark_folder).splits]
    if not listed:
        raise ShiftBenchError(f"{runs}: no finished run is on a benchmark with split '{LEARNS}'. Benchmarks of shift "
                              "'breeds' have it.")
    for number, run in enumerate(listed):
        folder = _collection_folder(run.benchmark_folder, collection)
        found[run.folder.name] = retrain_run(run.folder, Benchmark.load(run.benchmark_folder), Collection.load(folder),
                                             steps=steps, rates=rates or RATES, device=device, cache=folder)
        if progress:
            progress(number + 1, len(listed))
    return found


def score(
    benchmark: Benchmark | Place, *predictions: Predictions | Place, study: Place | None = None,
    nooch: Place | None = None, task: str = "", **options: Any,
) -> Scores:
    """Score predictions of any model on a benchmark: average, per group and worst group, each with an interval.

    Files that end in .json are annotators' answers to a study, whose key is in the folder `study`: their accuracy and
    agreement come with every model's accuracy on the same pairs of superclasses. `nooch` is the folder of NOOCh's
    published lists, which then say what is hard; no benchmark is needed with it: score("my.csv", nooch="nooch").
    """
    from shiftbench.annotation import find_key, human_scores, is_answers, model_scores, read_answers
    from shiftbench.scoring import score as score_one

    if nooch is not None:
        return _score_on_lists(benchmark, predictions, nooch, task, options)
    made = _benchmark(benchmark)
    if not predictions:
        raise ShiftBenchError("There are no predictions to score. Name at least one file.")
    answers = [given for given in predictions if not isinstance(given, Predictions) and is_answers(given)]
    parts, models = [], []
    for given in predictions:
        if not isinstance(given, Predictions) and is_answers(given):
            continue
        loaded = given if isinstance(given, Predictions) else Predictions.load(given, made)
        name = "predictions" if isinstance(given, Predictions) else Path(given).stem
        parts.append(score_one(made, loaded, run=name, method=name, **options))
        models.append((name, loaded))
    if answers or study is not None:
        key = find_key(study, answers)
        key.check(made)
        known = {name: options[name] for name in ("level", "replicates") if name in options}
        if answers:
            parts.append(human_scores(made, key, read_answers(answers, key), **known))
        parts.append(model_scores(made, key, models, **known))
    return Scores.join(parts)


def _score_on_lists(
    benchmark: Benchmark | Place, predictions: Sequence[Predictions | Place], folder: Place, task: str,
    options: Mapping[str, Any],
) -> Scores:
    """`score` on published lists; what comes first is a benchmark, or a file of predictions like the others."""
    from shiftbench.scoring import score as score_one
    from shiftbench.scoring.official import challenges, on_lists

    parts = []
    if not isinstance(benchmark, Benchmark) and Path(benchmark).is_file():
        for given in (benchmark, *predictions):
            if isinstance(given, Predictions):
                raise ShiftBenchError("Without a benchmark, name files of predictions to score on published lists.")
            name = Path(given).stem
            parts += [score_one(made, loaded, run=f"{name}, {made.name}", method=name, **options)
                      for made, loaded in challenges(given, folder, task)]
        return Scores.join(parts)
    own = _benchmark(benchmark)
    if not predictions:
        raise ShiftBenchError("There are no predictions to score. Name at least one file.")
    for given in predictions:
        loaded = given if isinstance(given, Predictions) else Predictions.load(given, own)
        name = "predictions" if isinstance(given, Predictions) else Path(given).stem
        parts += [score_one(made, loaded, run=f"{name}, {made.name}", method=name, **options)
                  for made in on_lists(own, folder, task)]
    return Scores.join(parts)


def sweep(
    study: "Study | Place", out: Place, *, engine: str = "local", workers: int = 0, device: str = "auto",
    retry_failed: bool = False, changes: Mapping[str, Any] | None = None, logs: Sequence[str] = (),
    checkpoint_seconds: float = 30.0, progress: "Callable[[Outcome, int], None] | None" = None,
) -> "list[Outcome]":
    """Do every run of a study, and say how each ended. Finished runs are found, whoever made them, and not repeated.

    `engine` is `local` (processes on this machine) or `ray` (a cluster; `out` may be a URL there). `logs` names where
    the logs are copied while it goes on: tensorboard, mlflow. `progress(end, total)` hears of every run that ended.
    """
    from shiftbench.sweeps.engines import ENGINES, check_place
    from shiftbench.sweeps.features import embed_missing
    from shiftbench.sweeps.mirror import Mirror
    from shiftbench.sweeps.plan import plan
    from shiftbench.sweeps.study import Study

    run_packs = find(ENGINES, "engine", engine)
    wanted = study if isinstance(study, Study) else Study.load(study, changes)
    check_place(out, engine, logs, wanted.leave_one_domain_out)
    jobs = wanted.jobs(out)
    report = None if progress is None else lambda end: progress(end, len(jobs))
    with Mirror(out, logs, [job.run.id for job in jobs]):
        embed_missing(jobs, device)
        return run_packs(plan(jobs, device, workers or os.cpu_count() or 1), out, workers=workers, device=device,
                         report=report, retry_failed=retry_failed, checkpoint_seconds=checkpoint_seconds)


def fetch(url: str, out: Place) -> list[str]:
    """Bring the finished runs of a store to a folder on this machine; gives their names. What is there is not fetched
    again."""
    from shiftbench.sweeps.storage import fetch as bring
    from shiftbench.sweeps.storage import is_url

    if not is_url(url):
        raise ShiftBenchError(f"{url}: not a URL, such as s3://bucket/runs. A folder of runs needs no fetching.")
    return bring(url, out)


def select(
    source: Scores | Place, rule: str = "", *, target: str = "accuracy", benchmarks: Sequence[Place] = (),
    allow_target: bool = False,
) -> "Selection":
    """Which of several settings counts: what a rule chooses, or all rules side by side with their regret.

    A single rule that used labels of the target is refused unless `allow_target`.
    """
    from shiftbench.scoring import benchmarks_of, score_runs
    from shiftbench.selection import RULES, refuse_target
    from shiftbench.selection import select as apply

    runs = not isinstance(source, Scores) and Path(source).is_dir()
    folders = [*benchmarks, *benchmarks_of(source)] if runs and not isinstance(source, Scores) else benchmarks
    scores = source if isinstance(source, Scores) else score_runs(source) if runs else Scores.load(source)
    found = apply(scores, [rule] if rule else tuple(RULES), targets=[target],
                  benchmarks=[Benchmark.load(folder) for folder in folders])
    refuse_target(found.choices if rule else (), allow_target=allow_target)
    return found


def hardest(source: Scores | Place, n: int = 12, *, method: str = "erm", split: str = "test") -> "list[Ranked]":
    """The n tasks (benchmarks) whose hard items cost a method most more than all items do, as NOOCh chose its suite."""
    from shiftbench.criteria.ranking import hardest_tasks
    from shiftbench.scoring import MEAN, score_runs

    scores = source if isinstance(source, Scores) else (
        score_runs(source) if Path(source).is_dir() else Scores.load(source))
    found = scores.where(method=method, split=split, metric="nll")
    losses: dict[str, dict[str, list[float]]] = {"hard": {}, "all": {}}
    for row in found:
        if row["group"] in losses and not row["run"].startswith(MEAN):
            losses[row["group"]].setdefault(row["benchmark"], []).append(row["value"])
    if not losses["hard"]:
        raise ShiftBenchError(f"No run of method '{method}' has a loss on hard items of {split}. Train it on "
                              "benchmarks of shift 'context' first, or name another method.")
    hard, every = ({task: sum(values) / len(values) for task, values in part.items()} for part in losses.values())
    return hardest_tasks(hard, every, min(n, len(hard)))


def power(
    benchmark: Benchmark | Place, difference: float | None = None, *, split: str = "test", **known: Any
) -> list[dict[str, Any]]:
    """Per group of a split: its items, the smallest difference they show, and what a difference (a share) needs."""
    from shiftbench.stats import group_power

    made = _benchmark(benchmark)
    return group_power({"all": len(made.rows(split)), **made.counts()[split]}, difference, **known)


def conflicts(
    benchmark: Benchmark | Place, out: Place | None = None, *, collection: Place | None = None, device: str = "auto",
    progress: Advance | None = None, **settings: Any,
) -> "Conflicts":
    """What training on each subset does to the loss on every other: a matrix, its heatmap and what stands out.

    `settings` are those of `shiftbench.conflict.Settings`: model, features, steps, repeats, makeup, seed, …
    """
    from shiftbench.conflict import Settings
    from shiftbench.conflict import conflicts as measure
    from shiftbench.registry import make

    wanted = make(Settings, settings, "conflicts")
    folder = _collection_folder(benchmark, collection)
    found = measure(_benchmark(benchmark), Collection.load(folder), wanted, device=device, cache=folder,
                    progress=progress)
    if out is not None:
        found.save(out)
    return found


def report(
    source: Scores | Place, out: Place, *, benchmarks: Sequence[Place] = (), rule: str = "id",
    title: str = "shiftbench report", compare: Sequence[str] = (),
) -> Path:
    """One self-contained HTML page from a folder of runs or a table of scores.

    Where a method has several settings, `rule` chooses the one that counts; one that used target labels is refused.
    `compare` names two methods of a runs folder: of benchmarks with hard items the page shows those on which the two
    differ most; without it the baseline and the method that is best on hard items.
    """
    from shiftbench.reporting import compared
    from shiftbench.reporting import report as write_report
    from shiftbench.scoring import benchmarks_of, score_runs
    from shiftbench.selection import chosen_means

    if isinstance(source, Scores):
        scores, folders = source, list(benchmarks)
    elif Path(source).is_dir():
        scores, folders = score_runs(source), [*benchmarks, *benchmarks_of(source)]
    else:
        scores, folders = Scores.load(source), list(benchmarks)
    made, items = [Benchmark.load(folder) for folder in folders], []
    if len(compare) not in (0, 2):
        raise ShiftBenchError(f"compare names {len(compare)} methods, but it takes two: erm,group_dro.")
    if not isinstance(source, Scores) and Path(source).is_dir():
        scores = Scores.join([scores, chosen_means(source, scores, made, rule)])
        items = compared(source, scores, made, compare, rule=rule)
    elif compare:
        raise ShiftBenchError("Two methods are compared item by item, by predictions: report on a folder of runs.")
    images = [_collection_of(folder, None, needed=False) for folder in folders]
    return write_report(scores, made, out, collections=images, title=title, rule=rule, compared=items)


def study(
    benchmark: Benchmark | Place, out: Place, *, collection: Collection | Place | None = None,
    progress: Advance | None = None, **design: Any,
) -> "Key":
    """A web page on which people sort images into two unnamed superclasses, and its key; `score` reads their answers.

    `design` are the fields of `shiftbench.annotation.Design`: partners, examples, questions, conditions, size, rescale,
    seed. Hand out the folder `page` of `out`, and keep `key.json`.
    """
    from shiftbench.annotation import Design, write_study
    from shiftbench.registry import make

    images = _collection_of(benchmark, collection)
    assert images is not None
    return write_study(_benchmark(benchmark), images, out, make(Design, design, "study"), progress)


def export(
    benchmark: Benchmark | Place, out: Place, *, to: str = "folder", copy: bool = False,
    collection: Collection | Place | None = None,
) -> Path:
    """Write a benchmark in a layout that other tools read: `folder` (MetaShift's, an ImageFolder) or `csv`."""
    from shiftbench.exports import export as write_export

    images = _collection_of(benchmark, collection, needed=False)
    return write_export(_benchmark(benchmark), images, out, to=to, copy=copy)


def _benchmark(given: Benchmark | Place) -> Benchmark:
    return given if isinstance(given, Benchmark) else Benchmark.load(given)


def _collection(given: Collection | Place) -> Collection:
    return given if isinstance(given, Collection) else Collection.load(given)


def _collection_folder(benchmark: Benchmark | Place, override: Place | None) -> Path:
    """Where the collection of a saved benchmark is."""
    from shiftbench.shifts.recipe import collection_folder

    if isinstance(benchmark, Benchmark):
        if override is None:
            raise ShiftBenchError("A benchmark in memory does not know where its collection is. Give `collection`.")
        return Path(override)
    return collection_folder(Benchmark.load(benchmark), benchmark, override)


def _collection_of(
    benchmark: Benchmark | Place, given: Collection | Place | None, needed: bool = True
) -> Collection | None:
    """The collection itself; None where it is not to be had and not needed."""
    if isinstance(given, Collection):
        return given
    try:
        return Collection.load(_collection_folder(benchmark, given))
    except ShiftBenchError:
        if needed or given is not None:
            raise
        return None
