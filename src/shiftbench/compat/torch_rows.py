"""The rows of a split for a training loop of one's own: a data set of torch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils.data import Dataset

from shiftbench.compat.items import Inputs, targets
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import SPLITS, UNLABELLED, Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.target import NO_LABEL


class TorchRows(Dataset[tuple[Any, Any, dict[str, Any]]]):  # type: ignore[misc]
    """(x, y, {"id", "domain", "group"}) of each row of a split; domain and group are codes, whose words `names` has.

    x is an image, a text, or the features of a table; `transform` gets a picture of pillow, and without one an image is
    float32, channels × height × width, from 0 to 1. y is the code of the class, and -100, which losses of torch ignore,
    where a row has none; of another target it is what `compat.items.targets` says. Files are opened when a row is asked
    for, so that it can be sent to the workers of a DataLoader.
    """

    def __init__(
        self, benchmark: Benchmark, collection: Collection, split: str, transform: Callable[[Any], Any] | None = None
    ) -> None:
        self.rows = benchmark.rows(split)
        if not len(self.rows):
            there = [name for name in SPLITS if (benchmark.split == name).any()]
            raise ShiftBenchError(f"Benchmark '{benchmark.name}' has no rows of split '{split}'. It has "
                                  f"{', '.join(there)}.")
        self.split, self.transform, self.names = split, transform, benchmark.names
        self.ids, self.domain, self.group = benchmark.items, benchmark.domain, benchmark.group
        self._inputs = Inputs(benchmark, collection)
        self._inputs.ready()
        hidden = benchmark.target.has_classes and split == UNLABELLED
        self._y = torch.full((len(benchmark),), NO_LABEL) if hidden else targets(benchmark, collection)

    def __repr__(self) -> str:
        return f"TorchRows('{self.split}': {len(self):,} rows; labels: {', '.join(self.names['label'][:6])})"

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[Any, Any, dict[str, Any]]:
        row = int(self.rows[index])
        x = self._inputs[row]
        if self.transform is not None:
            x = self.transform(x)
        elif isinstance(x, Image.Image):
            x = torch.from_numpy(np.array(x, np.float32).transpose(2, 0, 1) / 255)
        y = self._y[row]
        return x, int(y) if isinstance(y, torch.Tensor) and y.ndim == 0 and not y.is_floating_point() else y, {
            "id": str(self.ids[row]), "domain": int(self.domain[row]), "group": int(self.group[row])}
