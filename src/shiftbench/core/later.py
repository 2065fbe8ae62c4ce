"""torch, imported when it is first used.

Methods and augmentations are read for their names, fields and defaults long before anything is trained: by `shiftbench
methods`, by the check of a study, by a report. Importing torch takes seconds, so their files import it from here:

    from shiftbench.core.later import F, nn, torch

The names stand for the modules, and the first attribute asked of one loads torch. Annotations are not evaluated (`from
__future__ import annotations`), so `Tensor` is imported for type checkers alone. A class that inherits from a torch
class needs torch at once: nets live in `models`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from shiftbench.core.errors import ShiftBenchError

if TYPE_CHECKING:
    import torch
    import torch.nn.functional as F
    from torch import nn

__all__ = ["F", "Later", "load_torch", "nn", "notebook", "torch", "torch_rows"]


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
    """`compat.torch_rows`, the rows of a benchmark as a data set of torch (`Benchmark.torch`)."""
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
