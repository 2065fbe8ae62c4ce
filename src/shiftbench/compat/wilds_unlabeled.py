"""WILDS' `datasets.unlabeled`: items without labels, and items with labels that a model has given them."""

from collections.abc import Callable
from typing import Any

import numpy as np

from shiftbench.compat.wilds_subset import Transform, WILDSDataset, WILDSSubset, drawn_share
from shiftbench.compat.wilds_ten import UNLABELED_SPLITS
from shiftbench.core.arrays import Ints
from shiftbench.core.errors import ShiftBenchError, unknown

ADAPTING = "target_train"
"""The split of a benchmark whose items a method may adapt with; the package calls such items test_unlabeled."""
SPLIT = "test_unlabeled"
FIRST = 10
"""Numbers of unlabeled splits begin here, so that none is that of a labelled one."""


class WILDSUnlabeledDataset(WILDSDataset):
    """The items of a benchmark's `target_train`; row i is (x, metadata), and y stays with the benchmark.

    Columns, names and numbers are those of the labelled data set, so that one grouper can be built on both.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        if ADAPTING not in self.benchmark.splits:
            raise ShiftBenchError(f"Benchmark '{self.benchmark.name}' has no split '{ADAPTING}', whose items are the "
                                  "unlabeled ones. Build it with items to adapt with.")
        self._own = {SPLIT: ADAPTING}
        self.split_dict = {SPLIT: FIRST + list(UNLABELED_SPLITS).index(SPLIT)}
        self.split_names = {SPLIT: UNLABELED_SPLITS[SPLIT]}
        self._rows = self.benchmark.rows(ADAPTING)
        self._y, self.y_array = self.y_array, None
        self.metadata_array = self.metadata_array[self._rows]

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, idx: int) -> tuple[Any, Any]:  # type: ignore[override]
        return self.get_input(int(self._rows[idx])), self.metadata_array[idx]

    @property
    def split_array(self) -> Ints:
        return np.full(len(self), self.split_dict[SPLIT])

    def get_subset(
        self, split: str, frac: float = 1.0, transform: Transform | None = None, load_y: bool = False
    ) -> "WILDSUnlabeledSubset":
        """The rows of the unlabeled split; with `load_y` their true labels, as in WILDS' fully labelled runs."""
        if split not in self.split_dict:
            raise unknown("split", split, self.split_dict, self.dataset_name)
        return WILDSUnlabeledSubset(self, drawn_share(np.arange(len(self)), frac), transform, load_y)

    def eval(self, *arguments: Any, **options: Any) -> Any:
        raise AttributeError("Unlabeled items have no labels to judge by.")


class WILDSUnlabeledSubset(WILDSSubset):
    """Some rows of an unlabeled data set: (x, metadata), or (x, y, metadata) with `load_y`."""

    def __init__(self, dataset: WILDSUnlabeledDataset, indices: Ints, transform: Transform | None, load_y: bool = False
                 ) -> None:
        super().__init__(dataset, indices, transform)
        self.load_y = load_y

    def __getitem__(self, idx: int) -> Any:
        row = self.indices[idx]
        x, metadata = self.dataset[row]  # type: ignore[misc]
        x = x if self.transform is None else self.transform(x)
        return (x, self.dataset._y[self.dataset._rows[row]], metadata) if self.load_y else (x, metadata)  # type: ignore[attr-defined]


class WILDSPseudolabeledSubset(WILDSSubset):
    """The rows of an unlabeled subset with labels that a model has given them: (x, label, metadata)."""

    def __init__(
        self, reference_subset: WILDSUnlabeledSubset, pseudolabels: Any, transform: Transform | None,
        collate: Callable[..., Any] | None = None,
    ) -> None:
        if len(reference_subset) != len(pseudolabels):
            raise ShiftBenchError(f"There are {len(reference_subset)} items but {len(pseudolabels)} labels.")
        super().__init__(reference_subset.dataset, reference_subset.indices, transform)
        self.pseudolabels = pseudolabels
        if collate is not None:
            self.collate = collate

    def __getitem__(self, idx: int) -> Any:
        x, metadata = self.dataset[self.indices[idx]]  # type: ignore[misc]
        return x if self.transform is None else self.transform(x), self.pseudolabels[idx], metadata
