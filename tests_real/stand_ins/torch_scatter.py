"""What wilds 2.0.0 uses of torch-scatter, in plain torch: the original has to be compiled for each torch."""

import torch
from torch import Tensor


def scatter(src: Tensor, index: Tensor, dim_size: int, reduce: str) -> Tensor:
    """The mean of the values of each group, 0 for a group without any."""
    if reduce != "mean":
        raise NotImplementedError(reduce)
    total = torch.zeros(dim_size, dtype=src.dtype).index_add_(0, index, src)
    count = torch.zeros(dim_size, dtype=src.dtype).index_add_(0, index, torch.ones_like(src))
    return total / count.clamp(min=1)
