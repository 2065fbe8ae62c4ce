"""Models by name: nets with two parts, `features` and `head`. `names` lists them and needs no torch."""

from typing import Any

from shiftbench.core.backend import load_torch

__all__ = ["MODELS", "Net", "build"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'shiftbench.models' has no attribute '{name}'")
    return getattr(load_torch("shiftbench.models.net"), name)
