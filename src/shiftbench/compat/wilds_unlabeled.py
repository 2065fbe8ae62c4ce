"""WILDS' `datasets.unlabeled`: items without labels, and items with labels that a model has given them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from shiftbench.compat.wilds_metadata import FROM, Y, labelled_first
from shiftbench.compat.wilds_subset import Transform, WILDSDataset, WILDSSubset, drawn_share
from shiftbench.compat.wilds_ten import GAPS, UNLABELED_SPLITS
from shiftbench.core.arrays import Ints, Strs
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.data.benchmark import TARGET_TRAIN, UNLABELLED, Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.target import NO_LABEL

USUAL = "test_unlabeled"
"""What the package calls items of the target, where a collection does not say which of its splits they are of."""
SOURCE = "train_unlabeled"
"""The split whose rows have from_source_domain = 1."""
FIRST = 10
"""Numbers of unlabeled splits begin here, so that none is that of a labelled one."""


def package_splits(benchmark: Benchmark, collection: Collection) -> Strs:
    """The package's split of each row to adapt with, of `unlabelled` and of `target_train`; empty for other rows.

    The factor that a benchmark takes its split from still says which of the four a row of `unlabelled` was; a word that
    is none of them, and a row of `target_train`, is `test_unlabeled`.
    """
    factor = str((benchmark.card.get("params") or {}).get("split") or "split")
    words = np.full(len(benchmark), USUAL)
    if factor in collection.factors:
        own = collection.factors[factor].astype(np.str_)[collection.index(benchmark.items)]
        words = np.where(np.isin(own, list(UNLABELED_SPLITS)), own, words)
    return np.where(np.isin(benchmark.split, (UNLABELLED, TARGET_TRAIN)), words, "")


class WILDSUnlabeledDataset(WILDSDataset):
    """The items of a benchmark to adapt with, in the package's unlabeled splits (`package_splits`); row i is (x,
    metadata).

    Columns, names and numbers are those of the labelled data set, so that one grouper can be built on both. y of a row
    of `target_train` stays with the benchmark; y of a row of `unlabelled` is -100, and what is not known of it is what
    the package says there.
    """

    _take = staticmethod(labelled_first)
    _has_labels = False

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        split = package_splits(self.benchmark, self.collection)
        self._rows = np.flatnonzero(split != "")
        if not len(self._rows):
            raise ShiftBenchError(f"Benchmark '{self.benchmark.name}' has no rows of split '{UNLABELLED}' or "
                                  f"'{TARGET_TRAIN}', whose items are the unlabeled ones. Build it with items to adapt "
                                  "with; those of WILDS are read with: shiftbench read wilds NAME --unlabelled.")
        self._split, words = split[self._rows], list(UNLABELED_SPLITS)
        present = [word for word in words if (self._split == word).any()]
        self.split_dict = {word: FIRST + words.index(word) for word in present}
        self.split_names = {word: UNLABELED_SPLITS[word] for word in present}
        hidden = torch.from_numpy(self.benchmark.split[self._rows] == UNLABELLED)
        self._y, self.y_array = self.y_array[self._rows], None
        if isinstance(self._y, torch.Tensor):
            self._y[hidden] = torch.nan if self._y.is_floating_point() else NO_LABEL
        self.metadata_array = self.metadata_array[self._rows]
        gaps = GAPS.get(self._named.name, {}) if self._named is not None else {}
        for field, number in {**gaps, Y: NO_LABEL}.items():
            if field in self.metadata_fields:
                self.metadata_array[hidden, self.metadata_fields.index(field)] = number
        self.metadata_array[hidden, self.metadata_fields.index(FROM)] = torch.from_numpy(
            self._split == SOURCE)[hidden].to(self.metadata_array.dtype)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, idx: int) -> tuple[Any, Any]:  # type: ignore[override]
        return self.get_input(int(self._rows[idx])), self.metadata_array[idx]

    @property
    def split_array(self) -> Ints:
        return np.asarray([self.split_dict[word] for word in self._split.tolist()], np.int64)

    def get_subset(
        self, split: str, frac: float = 1.0, transform: Transform | None = None, load_y: bool = False
    ) -> "WILDSUnlabeledSubset":
        """The rows of an unlabeled split; with `load_y` their true labels, as in WILDS' fully labelled runs."""
        if split not in self.split_dict:
            raise unknown("split", split, self.split_dict, self.dataset_name)
        return WILDSUnlabeledSubset(self, drawn_share(np.flatnonzero(self._split == split), frac), transform, load_y)

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
        return (x, self.dataset._y[row], metadata) if self.load_y else (x, metadata)  # type: ignore[attr-defined]


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
