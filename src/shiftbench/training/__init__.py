"""The only training loop: a Run and a Benchmark become Predictions."""

import shiftbench.pixels.needs_torch  # noqa: F401
from shiftbench.training.embed import embed
from shiftbench.training.folder import train
from shiftbench.training.run import Run

__all__ = ["Run", "embed", "train"]
