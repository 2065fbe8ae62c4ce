"""The only training loop: a Run and a Benchmark become Predictions."""

from shiftbench.training.run import Run

__all__ = ["Run"]
