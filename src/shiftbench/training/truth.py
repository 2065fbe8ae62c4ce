"""What a net should say of every row, as a tensor of the benchmark's kind of target."""

import numpy as np
import torch
from torch import Tensor

from shiftbench.data.benchmark import Benchmark
from shiftbench.data.target import BOXES, NO_LABEL, TOKEN_KINDS, TOKENS, boxes_of, kinds_of, tokens_of


def truth_of(benchmark: Benchmark, n_places: int = 0, height: int = 0, width: int = 0) -> Tensor:
    """Classes as codes (N); numbers and tasks as N × outputs, NaN where there is none; of tokens the next one at each
    of `n_places` places; boxes as N × most × 4 in pixels of an image of this size, NaN behind an item's last."""
    target = benchmark.target
    if target.one_per_column:
        columns = [np.asarray(benchmark.extra[name], np.float32) for name in target.columns]
        return torch.from_numpy(np.stack(columns, axis=1))
    if target.per_place:
        codes = tokens_of(np.asarray(benchmark.extra[TOKENS]))
        after = np.concatenate([codes[:, 1:], np.full((len(codes), 1), NO_LABEL)], axis=1)
        if TOKEN_KINDS in benchmark.extra:  # a token whose kind is masked is not asked for, as in WILDS
            kinds = kinds_of(np.asarray(benchmark.extra[TOKEN_KINDS]))
            after[:, :kinds.shape[1] - 1][kinds[:, 1:] == NO_LABEL] = NO_LABEL
        return torch.from_numpy(after[:, :n_places])
    if target.detects:
        row, box = boxes_of(np.asarray(benchmark.extra[BOXES]))
        count = np.bincount(row, minlength=len(benchmark))
        place = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
        corners = np.full((len(benchmark), max(1, int(count.max(initial=0))), 4), np.nan, np.float32)
        corners[row, place] = box * np.asarray([width, height, width, height], np.float32)
        return torch.from_numpy(corners)
    return torch.from_numpy(benchmark.label.astype(np.int64))
