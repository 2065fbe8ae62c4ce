"""From a benchmark to runs. Only these verbs load torch, after they have checked their arguments."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shiftbench.api.folders import Advance, Place, benchmark_of, collection_folder_of
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.later import load_torch
from shiftbench.core.registry import find, listed
from shiftbench.data.benchmark import TARGET_TRAIN, Benchmark
from shiftbench.data.collection import Collection

if TYPE_CHECKING:
    from shiftbench.conflict.matrix import Conflicts
    from shiftbench.core.arrays import Ints
    from shiftbench.sweeps.study import Study
    from shiftbench.training.retrain import Retrained
    from shiftbench.training.run import Outcome, Run


def embed(
    benchmark: Benchmark | Place, model: str = "efficientnet-lite0", size: int = 224,
    collection: Place | None = None, progress: Advance | None = None,
) -> Path:
    """Cache the features of every item of a benchmark, once; training a head then takes a second."""
    from shiftbench.models.names import backbone

    backbone(model)
    loaded = benchmark_of(benchmark)
    folder = collection_folder_of(benchmark, collection)
    images = Collection.load(folder)
    rows = images.index(loaded.items)
    load_torch()
    from shiftbench.training.features import embed as embed_items

    embed_items(images, rows, backbone=model, size=size, folder=folder, progress=progress)
    return folder / "features"


def train(
    benchmark: Place, method: str = "", out: Place = "runs", *, preset: str | Sequence[str] = (),
    collection: Place | None = None, device: str = "auto", params: Mapping[str, Any] | None = None,
    progress: Advance | None = None, say: Callable[[str], None] | None = None, **settings: Any,
) -> Path:
    """Train one method on one benchmark with one seed, and return the run's folder. A finished run is not repeated.

    `params` are the method's own settings, `settings` those of the run: model, features, steps, lr, seed, … `preset`
    names settings of both (`shiftbench methods --presets`); those that you give win over a protocol's, and a variant
    such as `resnet50` brings its method. `say` is called with a line for each setting that has no effect; the run's log
    has it too.
    """
    from shiftbench.training.device import check_device

    check_device(device)
    run_of(method, params or {}, settings, preset)  # which checks all of it
    loaded = Benchmark.load(benchmark)
    folder = collection_folder_of(benchmark, collection)
    images = Collection.load(folder)
    load_torch()
    from shiftbench.training.folder import is_done
    from shiftbench.training.folder import train as train_run

    run = run_of(method, params or {}, settings, preset, loaded)
    if run.features and not is_done(Path(out) / run.id):
        _embed_first(run, images, images.index(loaded.items), folder, progress, say)
    return train_run(loaded, images, run, Path(out), device=device,
                     benchmark_path=Path(benchmark), collection_path=folder, progress=progress, say=say)


def _embed_first(run: "Run", images: Collection, rows: "Ints", folder: Path, progress: Advance | None,
                 say: Callable[[str], None] | None) -> None:
    """Compute a backbone's features that are not cached yet, and say so: it may take longer than the training."""
    from shiftbench.training.features import count_missing
    from shiftbench.training.features import embed as embed_items
    from shiftbench.training.run import COLUMNS, SENTENCES, split_features

    if run.features in (COLUMNS, SENTENCES):
        return
    backbone, size = split_features(run.features)
    missing = count_missing(images, rows, backbone, size, folder)
    if missing and say is not None:
        say(f"features {backbone}@{size} of {missing:,} of {len(rows):,} items are not cached: computing them once, "
            f"into {folder / 'features'}. Others, or a smaller size, by --features BACKBONE@SIZE.")
    if missing:
        embed_items(images, rows, backbone, size, folder=folder, progress=progress)


def run_of(method: str, params: Mapping[str, Any], settings: Mapping[str, Any],
           preset: str | Sequence[str] = (), benchmark: Benchmark | None = None) -> "Run":
    """A run that is checked, on a benchmark or on none yet. A head works on a backbone's features by default."""
    from shiftbench.methods.presets import expand
    from shiftbench.models.names import CATALOGUE
    from shiftbench.training.run import Run, default_model, on_benchmark, split_settings, task_of

    if not method and not preset:
        raise ShiftBenchError("train: name a method or a preset. `shiftbench methods` lists both.")
    method, variant, protocol = expand(listed(preset), method, task_of(benchmark) if benchmark else "")
    own, of_run = split_settings(protocol)
    if "steps" in settings:
        of_run.pop("epochs", None)
    of_run = {"model": default_model(method, variant), **of_run, **settings}
    if find(CATALOGUE, "model", of_run["model"]).takes == "features":
        of_run.setdefault("features", "efficientnet-lite0")
    run = Run.of({"benchmark": "", "method": method, "preset": variant, "params": {**own, **params}, **of_run}, "train")
    return run if benchmark is None else Run.of(on_benchmark(run.to_json(), benchmark), "train")


def pretrain(
    collection: Place, label: str, out: Place, *, model: str = "resnet18", seed: int = 0, device: str = "auto",
    progress: Advance | None = None, **settings: Any,
) -> Path:
    """Train a model to predict a factor of a collection, and return the weight file (`weights=` of other runs).

    pretrain("collections/scenes", "breed", "pretrained/scenes", steps=5000); started again it goes on.
    """
    import shutil

    from shiftbench.core.files import writing
    from shiftbench.shifts.recipe import Recipe
    from shiftbench.shifts.recipe import build as build_recipe
    from shiftbench.shifts.splits import IID
    from shiftbench.training.device import check_device

    check_device(device)
    run_of("erm", {}, {**settings, "model": model, "seed": seed})
    build_recipe(Recipe(Path(collection), IID(label), seed), Path(out) / "benchmark")
    run = train(Path(out) / "benchmark", "erm", Path(out) / "runs", model=model, seed=seed, device=device,
                progress=progress, **settings)
    with writing(Path(out) / "weights.safetensors") as hidden:
        shutil.copyfile(run / "checkpoint.safetensors", hidden)
    return Path(out) / "weights.safetensors"


def retrain(
    runs: Place, *, steps: int = 40_000, rates: float | Sequence[float] | None = None, collection: Place | None = None,
    device: str = "auto", progress: Advance | None = None,
) -> "dict[str, Retrained]":
    """Train the last layer of every finished run on the target (BREEDS' target-RT); by run. What is done stays done."""
    from shiftbench.scoring import runs_in
    from shiftbench.training.device import check_device

    check_device(device)
    listed = [run for run in runs_in(runs)[0] if TARGET_TRAIN in Benchmark.load(run.benchmark_folder).splits]
    if not listed:
        raise ShiftBenchError(f"{runs}: no finished run is on a benchmark with split '{TARGET_TRAIN}'. Benchmarks of "
                              "shift 'breeds' have it.")
    load_torch()
    from shiftbench.training.retrain import RATES
    from shiftbench.training.retrain import retrain as retrain_run

    chosen = (rates,) if isinstance(rates, int | float) else rates
    outcomes: dict[str, Retrained] = {}
    for number, run in enumerate(listed):
        folder = collection_folder_of(run.benchmark_folder, collection)
        outcomes[run.folder.name] = retrain_run(
            run.folder, Benchmark.load(run.benchmark_folder), Collection.load(folder), steps=steps,
            rates=chosen or RATES, device=device, cache=folder)
        if progress:
            progress(number + 1, len(listed))
    return outcomes


def sweep(
    study: "Study | Place", out: Place, *, engine: str = "local", workers: int = 0, device: str = "auto",
    retry_failed: bool = False, changes: Mapping[str, Any] | None = None, logs: str | Sequence[str] = (),
    checkpoint_seconds: float = 30.0, progress: "Callable[[Outcome, int], None] | None" = None,
) -> "list[Outcome]":
    """Do every run of a study, and say how each ended. Finished runs are found, whoever made them, and not repeated.

    `engine` is `local` (processes on this machine) or `ray` (a cluster; `out` may be a URL there). `logs` names where
    the logs are copied while it goes on: tensorboard, mlflow. `progress(end, total)` hears of every run that ended.
    """
    from shiftbench.sweeps.jobs import ENGINES, check_out, embed_missing, make_packs
    from shiftbench.sweeps.log_mirror import Mirror
    from shiftbench.sweeps.study import Study
    from shiftbench.training.device import check_device

    run_packs = find(ENGINES, "engine", engine)
    check_device(device)
    wanted = study if isinstance(study, Study) else Study.load(study, changes)
    logs = listed(logs, ",")
    check_out(out, engine, logs, wanted.leave_one_domain_out)
    jobs = wanted.jobs(out)
    report = None if progress is None else lambda end: progress(end, len(jobs))
    with Mirror(out, logs, [job.run.id for job in jobs]):
        load_torch()
        embed_missing(jobs, device)
        return run_packs(make_packs(jobs, device, workers or os.cpu_count() or 1), out, workers=workers, device=device,
                         report=report, retry_failed=retry_failed, checkpoint_seconds=checkpoint_seconds)


def fetch(url: str, out: Place) -> list[str]:
    """Copy the finished runs of a store to a folder on this machine, and return their names. Existing runs are not
    fetched again."""
    from shiftbench.sweeps.storage import fetch as bring
    from shiftbench.sweeps.storage import is_url

    if not is_url(url):
        raise ShiftBenchError(f"{url}: not a URL, such as s3://bucket/runs. A folder of runs needs no fetching.")
    return bring(url, out)


def conflicts(
    benchmark: Benchmark | Place, out: Place | None = None, *, collection: Place | None = None, device: str = "auto",
    progress: Advance | None = None, **settings: Any,
) -> "Conflicts":
    """What training on each subset does to the loss on every other: a matrix, its heatmap and what stands out.

    `settings` are those of `shiftbench.conflict.Settings`: model, features, steps, repeats, makeup, seed, …
    """
    from shiftbench.conflict import Settings
    from shiftbench.core.registry import make
    from shiftbench.training.device import check_device

    check_device(device)
    wanted = make(Settings, settings, "conflicts")
    wanted.run("", 0)  # which checks the rest
    loaded, folder = benchmark_of(benchmark), collection_folder_of(benchmark, collection)
    images = Collection.load(folder)
    load_torch()
    from shiftbench.conflict.measure import conflicts as measure

    outcome = measure(loaded, images, wanted, device=device, cache=folder, progress=progress)
    if out is not None:
        outcome.save(out)
    return outcome
