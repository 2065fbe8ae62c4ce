"""Where a run stands, on disk: its checkpoint (nets, optimizer and counters, one safetensors file) and its log.

Nothing is pickled. `data.run_log` reads the log.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import write_text, writing
from shiftbench.core.later import torch
from shiftbench.data.run_log import lines

if TYPE_CHECKING:
    from torch import Tensor, nn


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


@dataclass
class Parts:
    """Everything with tensors that a stage of training changes."""

    net: nn.Module
    state: nn.Module
    optimizer: torch.optim.Optimizer
    best: dict[str, Tensor]  # weights of the best evaluation so far
    device: torch.device


def save_weights(path: Path, weights: dict[str, Tensor], **facts: str) -> None:
    """Write tensors, and words about them, under a temporary name first."""
    from shiftbench.models.weights import write_weights

    with writing(path) as hidden:
        write_weights(hidden, weights, facts)


def save_checkpoint(path: Path, run_id: str, point: Point, parts: Parts) -> None:
    tensors = {f"best/{key}": value for key, value in parts.best.items()}
    tensors |= {f"net/{key}": value for key, value in parts.net.state_dict().items()}
    tensors |= {f"state/{key}": value for key, value in parts.state.state_dict().items()}
    for number, parameter in enumerate(_parameters(parts.optimizer)):
        for key, value in parts.optimizer.state.get(parameter, {}).items():
            if isinstance(value, torch.Tensor):
                tensors[f"optimizer/{number}/{key}"] = value
    save_weights(path, tensors, run=run_id, point=json.dumps(asdict(point)))


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


def restore(path: Path, parts: Parts) -> None:
    """Put a checkpoint's tensors back where `save_checkpoint` found them."""
    from safetensors import safe_open

    tables: dict[str, dict[str, Tensor]] = {"best": {}, "net": {}, "state": {}, "optimizer": {}}
    with safe_open(path, framework="pt") as file:
        for name in file.keys():  # noqa: SIM118 - not a mapping
            table, _, key = name.partition("/")
            tables[table][key] = file.get_tensor(name)
    parts.net.load_state_dict(tables["net"])
    parts.state.load_state_dict(tables["state"])
    parts.best = {key: value.to(parts.device) for key, value in tables["best"].items()}
    parameters = _parameters(parts.optimizer)
    for name, value in tables["optimizer"].items():
        number, _, key = name.partition("/")
        parameter = parameters[int(number)]
        # Fused optimizers walk raw memory: the moments must lie in memory as the parameter does.
        like = parameter.detach() if value.shape == parameter.shape else value.to(parameter.device)
        parts.optimizer.state[parameter][key] = torch.empty_like(like).copy_(value)


def _parameters(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


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
        kept = [line for line in lines(self.path) if (line["stage"], line["step"]) <= (point.stage, point.step)]
        # A process killed here must not lose the lines before the checkpoint.
        write_text(self.path, "".join(f"{json.dumps(line)}\n" for line in kept))
