"""The folder of a run: run.json, log.jsonl, checkpoint.safetensors, predictions.parquet and, written last, done.

While a run is trained resume.safetensors holds what another process needs to go on exactly."""

from __future__ import annotations

import contextlib
import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

import shiftbench
from shiftbench.core.backend import choose_device
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import file_digest, file_digests, read_json, write_json, write_text, writing
from shiftbench.core.registry import import_name
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.methods.method import METHODS
from shiftbench.methods.presets import VARIANTS, variant_of
from shiftbench.models.names import OBJECT, library_of
from shiftbench.models.net import read_weights, tensors_digest, write_weights
from shiftbench.models.wrapped import file_of
from shiftbench.scoring.listing import lines
from shiftbench.training.run import Run, own_parts, run_facts

if TYPE_CHECKING:
    from shiftbench.training.lane import Lane

CHECKPOINT, RESUME = "checkpoint.safetensors", "resume.safetensors"


def begin(
    folder: Path, run: Run, benchmark: Benchmark, collection: Collection, device: str, benchmark_path: Path | str | None
) -> bool:
    """Check the files in a run's folder, or write its run.json; True where the run is done."""
    if run.benchmark != benchmark.digest:
        raise ShiftBenchError(f"run {run.id}: made for benchmark {run.benchmark[:12]}, but '{benchmark.name}' is now "
                              f"{benchmark.digest[:12]}. The benchmark was rebuilt; make the run again.")
    facts = _facts(run, benchmark, collection, benchmark_path)
    if (folder / "run.json").is_file():
        _check_same(folder, facts)
    if is_done(folder):
        tidy(folder)
        return True
    machine = _machine(choose_device(device))
    if not (folder / "run.json").is_file():
        write_json(folder / "run.json", {**facts, **machine})
    return False


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
    settings, method = facts["run"], str(facts["run"].get("method", ""))
    if method not in METHODS and (variant := variant_of(method)):  # as runs were written when presets were methods
        settings = {**settings, "method": VARIANTS[variant].method, "preset": variant}
    try:
        return Run.of(settings, str(path))
    except ShiftBenchError as problem:
        sources = {str(code["import"]) for code in facts.get("own", {}).values() if code["import"]}
        if not sources:
            raise
        raise ShiftBenchError(f"{problem} The run was made with --import {' --import '.join(sorted(sources))}.") from (
            problem)


def _facts(run: Run, benchmark: Benchmark, collection: Collection, path: Path | str | None) -> dict[str, Any]:
    weights, code = Path(run.weights), _users_code(run)
    return {
        **run_facts(run.id, benchmark, path, run.to_json()),
        **({"own": code} if code else {}),
        "weights_digest": tensors_digest(read_weights(weights)) if weights.is_file() else None,
        "images": sides_of(collection),
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


def tidy(folder: Path) -> None:
    """Remove what only an unfinished run needs."""
    for file in (folder / RESUME, folder / "failed.json", folder / "lock", *folder.glob("stage-*.safetensors")):
        file.unlink(missing_ok=True)


# Checkpoint and log: what another process goes on from

@dataclass
class Point:
    """The counters of a stage of training: what resuming exactly needs in addition to tensors."""

    stage: int = 0
    step: int = 0  # updates done
    loss_sum: float = 0.0  # of training losses since the last evaluation
    loss_count: int = 0
    best: tuple[float, ...] = ()
    best_step: int = 0
    waited: int = 0  # evaluations since the best one
    seconds: float = 0.0


def save_weights(path: Path, weights: dict[str, Tensor], **facts: str) -> None:
    """Write tensors and facts about them, under a temporary name first."""
    with writing(path) as hidden:
        write_weights(hidden, weights, facts)


def save_checkpoint(path: Path, lane: Lane) -> None:
    tensors = {f"best/{key}": value for key, value in lane.best.items()}
    tensors |= {f"net/{key}": value for key, value in lane.net.state_dict().items()}
    tensors |= {f"state/{key}": value for key, value in lane.state.state_dict().items()}
    for number, parameter in enumerate(lane.parameters):
        for key, value in lane.optimizer.state.get(parameter, {}).items():
            if isinstance(value, Tensor):
                tensors[f"optimizer/{number}/{key}"] = value
    save_weights(path, tensors, run=lane.run.id, point=json.dumps(asdict(lane.point)))


def read_point(path: Path, run_id: str) -> Point | None:
    """The counters of a checkpoint; None where there is none. A file of another run, or a damaged one, is an error."""
    if not path.is_file():
        return None
    from safetensors import SafetensorError, safe_open

    try:
        # Not "pt": torch opens the file a second time, by its name, when another process may have replaced it.
        with safe_open(path, framework="np") as file:
            facts: dict[str, Any] = file.metadata() or {}
            point = Point(**json.loads(facts["point"]))
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as problem:
        raise ShiftBenchError(f"{path}: not a readable checkpoint. Delete it to start this run again.") from problem
    if facts.get("run") != run_id:
        raise ShiftBenchError(f"{path}: is the checkpoint of run {facts.get('run')}, not of {run_id}. Delete it.")
    point.best = tuple(point.best)
    return point


def restore(path: Path, lane: Lane) -> None:
    """Put a checkpoint's tensors back where `save_checkpoint` found them."""
    from safetensors import safe_open

    tables: dict[str, dict[str, Tensor]] = {"best": {}, "net": {}, "state": {}, "optimizer": {}}
    with safe_open(path, framework="pt") as file:
        for name in file.keys():  # noqa: SIM118 - not a mapping
            table, _, key = name.partition("/")
            tables[table][key] = file.get_tensor(name)
    lane.net.load_state_dict(tables["net"])
    lane.state.load_state_dict(tables["state"])
    lane.best = {key: value.to(lane.data.device) for key, value in tables["best"].items()}
    parameters = lane.parameters
    for name, value in tables["optimizer"].items():
        number, _, key = name.partition("/")
        parameter = parameters[int(number)]
        # Fused optimizers walk raw memory: the moments must lie in memory as the parameter does.
        like = parameter.detach() if value.shape == parameter.shape else value.to(parameter.device)
        lane.optimizer.state[parameter][key] = torch.empty_like(like).copy_(value)


class Log:
    """The log of a run: one JSON line per evaluation, appended as training goes. Without a path nothing is written."""

    def __init__(self, path: Path | None) -> None:
        self.path = path

    def write(self, line: dict[str, object]) -> None:
        if self.path:
            with self.path.open("a", encoding="utf-8") as handle:
                handle.write(json.dumps(line) + "\n")

    def cut(self, point: Point) -> None:
        """Drop what a killed process wrote after the checkpoint: those evaluations come again."""
        if self.path is None or not self.path.exists():
            return
        earlier = [line for line in lines(self.path) if (line["stage"], line["step"]) <= (point.stage, point.step)]
        # A process killed here must not lose the lines before the checkpoint.
        write_text(self.path, "".join(f"{json.dumps(line)}\n" for line in earlier))
