"""torch: imported when it is first used, on which device it computes, and how its results are made to repeat.

Methods and augmentations are read for their names, fields and defaults long before anything is trained: by `shiftbench
methods`, by the check of a study, by a report. Importing torch takes seconds, so their files import it from here:

    from shiftbench.core.backend import F, nn, torch

The names stand for the modules, and the first attribute asked of one loads torch. Annotations are not evaluated (`from
__future__ import annotations`), so `Tensor` is imported for type checkers alone. A class that inherits from a torch
class needs torch at once: nets live in `models`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from shiftbench.core.errors import ShiftBenchError

if TYPE_CHECKING:
    import torch
    import torch.nn.functional as F
    from torch import nn

__all__ = ["F", "Later", "check_device", "choose_device", "full_precision", "load_torch", "nn", "notebook",
           "one_thread", "repeatable", "set_threads", "torch", "torch_rows"]


def load_torch(module: str = "torch") -> Any:
    """A module of torch; where torch is missing, the error says which extra to install."""
    try:
        import_module("torch")
    except ModuleNotFoundError as problem:
        if problem.name != "torch":
            raise
        raise ShiftBenchError('Training needs torch, which is not installed. Install it with: '
                              'pip install "shiftbench[train]"') from problem
    return import_module(module)


def notebook() -> Any:
    """`reporting.notebook`, which draws what a notebook asks of an object (`_repr_html_`, `plot`).

    With `torch_rows` it is what the types of `data` call of later rooms, only when asked; tests/test_layers.py allows
    no other.
    """
    return import_module("shiftbench.reporting.notebook")


def torch_rows() -> Any:
    """`compat.items`, the rows of a benchmark as a data set of torch (`Benchmark.torch`)."""
    return load_torch("shiftbench.compat.items")


class Later:
    """A module of torch that is loaded by the first use of an attribute; from then on attributes are plain ones."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        value = getattr(load_torch(self._module), name)
        setattr(self, name, value)
        return value


if not TYPE_CHECKING:
    torch, nn, F = Later("torch"), Later("torch.nn"), Later("torch.nn.functional")


# The device


def check_device(name: str) -> None:
    """Refuse a name that no device has. Torch finds out later whether this machine has the device."""
    backend, _, number = name.partition(":")
    if backend not in ("auto", "cpu", "cuda") or (number and not number.isdecimal()):
        raise ShiftBenchError(f"No device named '{name}'. Known devices: auto, cpu, cuda, cuda:N.")


def choose_device(name: str = "auto") -> torch.device:
    """`auto` is the GPU where there is one; `cpu`, `cuda` and `cuda:1` are taken by name."""
    check_device(name)
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    backend, _, number = name.partition(":")
    if backend == "cuda" and int(number or 0) >= torch.cuda.device_count():
        raise ShiftBenchError(f"Device '{name}' is not here: torch sees {torch.cuda.device_count()} GPUs. "
                              "Use device=auto or device=cpu.")
    return torch.device(name)


@contextmanager
def repeatable(device: torch.device, seed: int, *purpose: str) -> Iterator[None]:
    """Within the block torch draws from its own random stream and adds in a fixed order; afterwards all is as before.

    The only place where torch is seeded. On a GPU this also asks for algorithms that repeat; the few operations that
    have none still run, with torch's warning.
    """
    from shiftbench.core.arrays import child  # numpy and pyarrow, which no `--help` waits for

    on_gpu = device.type == "cuda"
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    fills_memory = torch.utils.deterministic.fill_uninitialized_memory
    with torch.random.fork_rng(devices=[device] if on_gpu else []):
        torch.manual_seed(int(child(seed, *purpose).integers(2**63)))
        if on_gpu:
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
            torch.use_deterministic_algorithms(True, warn_only=True)
            torch.utils.deterministic.fill_uninitialized_memory = False
        try:
            yield
        finally:
            if on_gpu:  # on a CPU nothing was changed, and the call would load torch's compiler
                torch.use_deterministic_algorithms(before[0], warn_only=before[1])
                torch.utils.deterministic.fill_uninitialized_memory = fills_memory


@contextmanager
def full_precision(device: torch.device) -> Iterator[None]:
    """Within the block nothing is differentiated, and a GPU multiplies in full 32 bits (no TF32), in a fixed order."""
    if device.type != "cuda":
        with torch.inference_mode():
            yield
        return
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with repeatable(device, 0, "full precision"), torch.inference_mode(), torch.backends.cudnn.flags(
                enabled=True, benchmark=False, deterministic=True, allow_tf32=False):
            yield
    finally:
        torch.set_float32_matmul_precision(before)


def set_threads(n: int) -> None:
    """Compute with n threads from now on: one per process where several processes share the cores."""
    torch.set_num_threads(max(1, n))


@contextmanager
def one_thread() -> Iterator[None]:
    """Within the block torch computes with one thread: products as small as those of heads are slower on several."""
    before = torch.get_num_threads()
    set_threads(1)
    try:
        yield
    finally:
        set_threads(before)
