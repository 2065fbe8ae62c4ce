"""Inputs of different lengths, one behind the other: a batch is as long as its longest."""

from typing import NamedTuple

import torch
from torch import Tensor

PADDING = -1


class Ragged(NamedTuple):
    """Item i has the lines `values[start[i]:start[i + 1]]`."""

    values: Tensor  # lines × columns
    start: Tensor  # items + 1

    @property
    def items(self) -> int:
        return len(self.start) - 1

    @property
    def nbytes(self) -> int:
        return int(self.values.nbytes)

    def to(self, device: torch.device) -> "Ragged":
        return Ragged(self.values.to(device), self.start.to(device))

    def take(self, rows: Tensor) -> Tensor:
        """The lines of these items, items × longest × columns as 64-bit numbers; PADDING behind an item's end."""
        rows = rows.to(self.start.device)
        first, stop = self.start[rows], self.start[rows + 1]
        place = torch.arange(int((stop - first).max()) if len(rows) else 0, device=first.device)
        inside = place < (stop - first)[:, None]
        line = torch.where(inside, first[:, None] + place, 0)
        return torch.where(inside[:, :, None], self.values[line].long(), PADDING)
