"""Imported first by every part that trains: says which extra to install where torch is missing."""

from shiftbench.errors import ShiftBenchError

try:
    import torch  # noqa: F401
except ModuleNotFoundError as problem:
    if problem.name != "torch":
        raise
    raise ShiftBenchError('Training needs torch, which is not installed. Install it with: '
                          'pip install "shiftbench[train]"') from problem
