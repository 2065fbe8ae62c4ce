"""The folder of a run: run.json, log.jsonl, checkpoint.safetensors, predictions.parquet and, written last, done."""

import contextlib
import json
import platform
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

import shiftbench
from shiftbench.core.errors import ShiftBenchError, first_line
from shiftbench.core.files import file_digests, lock, read_json, write_json, write_text
from shiftbench.core.registry import import_name
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.predictions import PREDICTIONS, Predictions
from shiftbench.methods.presets import VARIANTS, variant_of
from shiftbench.models.names import OBJECT, library_of
from shiftbench.models.weights import file_digest, read_weights, tensors_digest
from shiftbench.models.wrapped import file_of
from shiftbench.training.data import load
from shiftbench.training.device import choose_device
from shiftbench.training.evaluate import predict_all
from shiftbench.training.features import Report
from shiftbench.training.lane import RESUME, save_weights
from shiftbench.training.loop import Fitting, Say, learn
from shiftbench.training.run import Outcome, Run, own_parts, run_facts

CHECKPOINT = "checkpoint.safetensors"


def train(
    benchmark: Benchmark, collection: Collection, run: Run, out: Path | str, *, device: str = "auto",
    benchmark_path: Path | str | None = None, collection_path: Path | str | None = None,
    progress: Report | None = None, checkpoint_seconds: float = 30.0, say: Say | None = None,
) -> Path:
    """Train a run and return its folder, `out`/ID. A finished run is not repeated; an unfinished one resumes. One that
    fails before it has trained, for instance because its net is refused, leaves no folder.

    `collection_path` is the collection's folder, which holds cached features; without it they are computed again.
    `progress(done, total)` is called now and then, `say` with a line for each setting that has no effect. A killed
    process loses at most `checkpoint_seconds` of work.
    """
    problems: list[Exception] = []

    def keep(folder: Path, problem: Exception) -> str:
        problems.append(problem)
        if folder.is_dir() and {path.name for path in folder.iterdir()} <= {"run.json", "lock"}:
            shutil.rmtree(folder, ignore_errors=True)
        return str(problem)

    (end,) = train_pack(benchmark, collection, [run], out, device=device, benchmark_path=benchmark_path,
                        collection_path=collection_path, progress=progress, checkpoint_seconds=checkpoint_seconds,
                        failed=keep, say=say)
    if problems:
        if isinstance(problems[0], MemoryError) or "allocate" in str(problems[0]):
            raise ShiftBenchError(f"run {run.id}: memory ran out ({first_line(problems[0])}). Lower batch_size, which "
                                  f"is {run.batch_size:,}, or size.") from problems[0]
        raise problems[0]
    if end.state == "busy":
        raise ShiftBenchError(f"{Path(out) / run.id}: another process is doing this run. Wait for it, or end it.")
    return Path(out) / run.id


def train_pack(
    benchmark: Benchmark, collection: Collection, runs: Sequence[Run], out: Path | str, *, device: str = "auto",
    benchmark_path: Path | str | None = None, collection_path: Path | str | None = None,
    progress: Report | None = None, checkpoint_seconds: float = 30.0,
    failed: Callable[[Path, Exception], str] | None = None, say: Say | None = None,
) -> list[Outcome]:
    """Train several runs on one benchmark, together where possible. Each ends by itself: an error in one is passed to
    `failed` (default: written to its failed.json), and the others go on."""
    ends: dict[str, Outcome] = {}
    started = time.monotonic()

    def end(run: Run, problem: Exception | None = None, state: str = "done", notes: tuple[str, ...] = ()) -> None:
        reason = "" if problem is None else (failed or fail)(Path(out) / run.id, problem)
        ends[run.id] = Outcome(run.id, state if problem is None else "failed", reason, time.monotonic() - started,
                               notes)

    def close(fitting: Fitting) -> None:
        try:
            if fitting.problem is None:
                _finish(fitting)
        except Exception as problem:
            fitting.problem = problem
        end(fitting.run, fitting.problem, notes=fitting.notes)

    with contextlib.ExitStack() as locks:
        fittings = []
        for run in {run.id: run for run in runs}.values():
            folder = Path(out) / run.id
            try:
                if _begin(benchmark, run, folder, device, benchmark_path, sides_of(collection)):
                    end(run)
                elif not locks.enter_context(lock(folder / "lock")):
                    end(run, state="busy")
                elif is_done(folder):  # by another process, a moment ago
                    end(run)
                else:
                    data = load(benchmark, collection, run, choose_device(device), collection_path, progress, say)
                    fittings.append(Fitting(run, data, folder, say))
            except Exception as problem:
                end(run, problem)
        learn(fittings, checkpoint_seconds=checkpoint_seconds, progress=progress, ended=close)
    return [ends[run.id] for run in runs]


def _begin(benchmark: Benchmark, run: Run, folder: Path, device: str, path: Path | str | None, sides: Any) -> bool:
    """Check the files in a run's folder, or write its run.json; True where the run is done."""
    if run.benchmark != benchmark.digest:
        raise ShiftBenchError(f"run {run.id}: made for benchmark {run.benchmark[:12]}, but '{benchmark.name}' is now "
                              f"{benchmark.digest[:12]}. The benchmark was rebuilt; make the run again.")
    facts = _facts(benchmark, run, path, sides)
    if (folder / "run.json").is_file():
        _check_same(folder, facts)
    if is_done(folder):
        _tidy(folder)
        return True
    chosen = choose_device(device)
    if not (folder / "run.json").is_file():
        write_json(folder / "run.json", {**facts, **_machine(chosen)})
    return False


def _finish(fitting: Fitting) -> None:
    """Predict, and write what a finished run leaves; `done` last."""
    run, data, learned, folder = fitting.run, fitting.data, fitting.learned, fitting.folder
    assert learned is not None
    assert folder is not None
    predictions = predict_all(run, data, learned.net)
    if isinstance(predictions, Predictions) and not np.isfinite(predictions.scores).all():
        raise ShiftBenchError(f"run {run.id}: after {learned.step} steps '{run.label}' predicts numbers that are "
                              "not finite. Lower lr.")
    predictions.save(folder / PREDICTIONS)
    save_weights(folder / CHECKPOINT, learned.net.state_dict(), run=run.id, model=run.model,
                 classes=json.dumps(data.benchmark.names["label"], ensure_ascii=False))
    sign(folder, PREDICTIONS, CHECKPOINT)
    write_text(folder / "done", f"{learned.step} steps, weights of step {learned.best_step}\n")
    _tidy(folder)


def sign(folder: Path, *names: str) -> None:
    """Record the digests of files in run.json, so that a later reader can check that they are as the run left them."""
    facts = read_json(folder / "run.json")
    write_json(folder / "run.json", {**facts, "files": {**facts.get("files", {}), **file_digests(folder, names)}})


def fail(folder: Path, problem: BaseException | str) -> str:
    """Record why a run failed, in failed.json; returns the reason in one line."""
    name = "" if isinstance(problem, ShiftBenchError | str) else f"{type(problem).__name__}: "
    reason = name + str(problem).strip().partition("\n")[0]
    with contextlib.suppress(ShiftBenchError, OSError):  # a full disk cannot take the record: the caller still knows
        write_json(folder / "failed.json", {"reason": reason, "when": datetime.now(UTC).isoformat(timespec="seconds")})
    return reason


def is_done(folder: Path | str) -> bool:
    return (Path(folder) / "done").is_file()


def load_run(folder: Path | str) -> Run:
    """The Run of a run folder."""
    path = Path(folder) / "run.json"
    facts = read_json(path)
    if not isinstance(facts, dict) or not isinstance(facts.get("run"), dict):
        raise ShiftBenchError(f"{path}: does not describe a run.")
    settings, variant = facts["run"], variant_of(str(facts["run"].get("method", "")))
    if variant:  # as runs were written when presets were methods
        settings = {**settings, "method": VARIANTS[variant].method, "preset": variant}
    try:
        return Run.of(settings, str(path))
    except ShiftBenchError as problem:
        sources = {str(code["import"]) for code in facts.get("own", {}).values() if code["import"]}
        if not sources:
            raise
        raise ShiftBenchError(f"{problem} The run was made with --import {' --import '.join(sorted(sources))}.") from (
            problem)


def _facts(benchmark: Benchmark, run: Run, path: Path | str | None, sides: Any) -> dict[str, Any]:
    weights, code = Path(run.weights), _users_code(run)
    return {
        **run_facts(run.id, benchmark, path, run.to_json()),
        **({"own": code} if code else {}),
        "weights_digest": tensors_digest(read_weights(weights)) if weights.is_file() else None,
        "images": sides,
        **_model_facts(run.model),
    }


def _model_facts(name: str) -> dict[str, Any]:
    """For an outside model, what else determines its net: the version of its library or the digest of its file."""
    library = library_of(name)
    if library == "file":
        return {"model": {"file": file_digest(file_of(name))}}
    if library == OBJECT:
        return {"model": {"note": "a module in memory: only the same object resumes this run"}}
    return {"model": {library: version({"hf": "transformers"}.get(library, library))}} if library else {}


def _machine(device: torch.device) -> dict[str, Any]:
    """What else could explain a difference between two machines. The Run's id does not depend on it."""
    return {
        "versions": {"shiftbench": shiftbench.__version__, "python": platform.python_version(),
                     "torch": version("torch"), "numpy": version("numpy")},
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "threads": torch.get_num_threads(),
    }


def _check_same(folder: Path, facts: dict[str, Any]) -> None:
    stored = read_json(folder / "run.json")
    if not isinstance(stored, dict) or stored.get("id") != facts["id"]:
        raise ShiftBenchError(f"{folder / 'run.json'}: does not describe run {facts['id']}. Delete the folder.")
    _check_code(folder, stored, facts.get("own", {}))
    weights = Path(facts["run"]["weights"])
    if stored.get("weights_digest") != facts["weights_digest"] and not (
            weights.is_file() and stored.get("weights_digest") == file_digest(weights)):  # as earlier runs noted it
        raise ShiftBenchError(f"{folder}: the weight file {facts['run']['weights']} has changed since this run. "
                              "Give the new file a new name, or delete the folder.")
    if stored.get("model", {}).get("file") != facts.get("model", {}).get("file"):
        raise ShiftBenchError(f"{folder}: the file of model {facts['run']['model']} has changed since this run. "
                              "Give the new file a new name, or delete the folder.")
    if None not in (stored.get("images"), facts["images"]) and stored["images"] != facts["images"]:
        raise ShiftBenchError(f"{folder}: this run saw images of height and width {stored['images']}, but those of "
                              f"the collection are {facts['images']}. Keep runs on images of another size in a "
                              "folder of their own.")


def check_code(folder: Path, run: Run) -> None:
    """Raise an error where the code of a user's method, model or metric has changed since the run was made."""
    if (folder / "run.json").is_file():
        _check_code(folder, read_json(folder / "run.json"), _users_code(run))


def _check_code(folder: Path, stored: Any, code: Mapping[str, Mapping[str, str]]) -> None:
    for subject, now in code.items():
        before = stored.get("own", {}).get(subject, {}).get("code", "")
        if before and now["code"] and before != now["code"]:
            raise ShiftBenchError(f"{folder}: {subject} has changed since this run. Register it under another name, or "
                                  "delete the folder.")


def _users_code(run: Run) -> dict[str, dict[str, str]]:
    """The user's code that the run uses: where each piece is, and its digest."""
    return {subject: {"import": import_name(owner.module), "code": owner.code}
            for subject, owner in own_parts(run.to_json()).items()}


def sides_of(collection: Collection) -> list[int] | None:
    """Height and width of a collection's images, where it has them: a run depends on them, and the digest does not."""
    pixels = collection.pixels
    return None if pixels is None or pixels.ndim != 4 else [int(side) for side in pixels.shape[1:3]]


def _tidy(folder: Path) -> None:
    """Remove what only an unfinished run needs."""
    for file in (folder / RESUME, folder / "failed.json", folder / "lock", *folder.glob("stage-*.safetensors")):
        file.unlink(missing_ok=True)
