"""The optimizer of a run, and how its learning rate goes: a factor for every step, a pure function of where it is."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from shiftbench.core.arrays import Floats
from shiftbench.training.run import Run


def make_optimizer(run: Run, parameters: list[nn.Parameter] | list[dict[str, Any]], on_gpu: bool = False,
                   lr: float | None = None) -> torch.optim.Optimizer:
    """Fused: one call for all tensors, which takes most of a step's time on small heads.

    On a GPU Adam counts its steps there, so that a step can be recorded; so is the learning rate, where it changes.
    """
    rate: float | Tensor = run.lr if lr is None else lr
    if on_gpu and run.schedule != "constant":
        rate = torch.tensor(rate, device="cuda")
    if run.optimizer == "sgd":
        return torch.optim.SGD(parameters, rate, run.momentum, weight_decay=run.weight_decay, fused=True)
    cls = torch.optim.Adam if run.optimizer == "adam" else torch.optim.AdamW
    return cls(parameters, rate, weight_decay=run.weight_decay, fused=True, capturable=on_gpu)


def factors(schedule: str, first: int, n: int, steps: int) -> Floats:
    """The factors of the learning rate in the n steps from `first` on, of `steps` in all.

    >>> factors("thirds", 0, 6, 6).tolist()
    [1.0, 1.0, 0.1, 0.1, 0.01, 0.01]
    """
    done = np.arange(first, first + n) / steps
    if schedule == "thirds":
        return np.asarray([1.0, 0.1, 0.01])[np.minimum(3 * done, 2).astype(np.int64)]
    if schedule == "cosine":
        return (1 + np.cos(np.pi * np.minimum(done, 1.0))) / 2
    if schedule == "linear":
        return 1 - np.minimum(done, 1.0)
    return np.ones(n)
