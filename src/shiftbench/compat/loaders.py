"""WILDS' loaders: plain, uniform over groups, or batches of some groups with as many items of each."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from torch.utils.data import DataLoader, WeightedRandomSampler

import shiftbench.images.needs_torch  # noqa: F401
from shiftbench.compat.grouper import CombinatorialGrouper, as_array
from shiftbench.compat.wilds_subset import WILDSDataset, WILDSSubset
from shiftbench.core.arrays import Floats, Ints
from shiftbench.core.errors import ShiftBenchError, unknown

Rows = WILDSDataset | WILDSSubset
LOADERS = ("standard", "group")


def get_train_loader(
    loader: str,
    dataset: Rows,
    batch_size: int,
    uniform_over_groups: bool | None = None,
    grouper: CombinatorialGrouper | None = None,
    distinct_groups: bool | None = True,
    n_groups_per_batch: int | None = None,
    **loader_kwargs: Any,
) -> Any:
    """Batches (x, y, metadata) to train on; further options go to torch's DataLoader.

    `standard`: every item once an epoch, in random order; with `uniform_over_groups` as many draws with replacement, in
    which every group is as likely, and `n_groups_per_batch` has no meaning. `group`: see `GroupSampler`, uniform over
    groups by default. Random numbers come from torch's and numpy's global generators, as in the package: a script seeds
    both.
    """
    if loader not in LOADERS:
        raise unknown("loader", loader, LOADERS)
    dataset.inputs.ready()
    if loader == "standard":
        if not uniform_over_groups:
            return DataLoader(dataset, batch_size, shuffle=True, collate_fn=dataset.collate, **loader_kwargs)
        group, count = _grouper(grouper, "uniform_over_groups").metadata_to_group(
            dataset.metadata_array, return_counts=True)
        sampler = WeightedRandomSampler(1 / count[group], len(dataset), replacement=True)
        return DataLoader(dataset, batch_size, sampler=sampler, collate_fn=dataset.collate, **loader_kwargs)
    groups = _grouper(grouper, "the 'group' loader")
    if n_groups_per_batch is None:
        raise ShiftBenchError("The 'group' loader needs n_groups_per_batch.")
    sampler = GroupSampler(
        groups.metadata_to_group(dataset.metadata_array), batch_size, n_groups_per_batch,
        uniform_over_groups=uniform_over_groups is None or uniform_over_groups, distinct_groups=bool(distinct_groups))
    return DataLoader(dataset, batch_sampler=sampler, collate_fn=dataset.collate, **loader_kwargs)


def get_eval_loader(
    loader: str, dataset: Rows, batch_size: int, grouper: CombinatorialGrouper | None = None, **loader_kwargs: Any
) -> Any:
    """Every item once, in the order of the rows. A grouper is taken and not used, as in the package."""
    if loader != "standard":
        raise unknown("loader", loader, LOADERS[:1])
    dataset.inputs.ready()
    return DataLoader(dataset, batch_size, shuffle=False, collate_fn=dataset.collate, **loader_kwargs)


class GroupSampler:
    """Row numbers of batches: `n_groups_per_batch` groups, and from each batch_size / n_groups_per_batch items.

    Groups are drawn uniformly or by their size, without replacement where they must be distinct; the items of a group
    without replacement if it has more of them than are drawn. An epoch has ⌊items / batch_size⌋ batches.
    """

    def __init__(
        self, group_ids: Any, batch_size: int, n_groups_per_batch: int, uniform_over_groups: bool, distinct_groups: bool
    ) -> None:
        group = as_array(group_ids)
        if n_groups_per_batch < 1 or batch_size % n_groups_per_batch:
            raise ShiftBenchError(f"batch_size is {batch_size}, which {n_groups_per_batch} groups cannot share "
                                  "equally. Choose a multiple.")
        if len(group) < batch_size:
            raise ShiftBenchError(f"There are {len(group)} items, fewer than one batch of {batch_size}.")
        order = np.argsort(group, kind="stable")
        present, start, count = np.unique(group[order], return_index=True, return_counts=True)
        if distinct_groups and n_groups_per_batch > len(present):
            raise ShiftBenchError(f"n_groups_per_batch is {n_groups_per_batch}, but only {len(present)} groups have "
                                  "items here. Take fewer, or distinct_groups=False.")
        self._rows: list[Ints] = np.split(order, start[1:])
        self._share: Floats | None = None if uniform_over_groups else count / count.sum()
        self._groups, self._each, self._distinct = n_groups_per_batch, batch_size // n_groups_per_batch, distinct_groups
        self._batches = len(group) // batch_size

    def __len__(self) -> int:
        return self._batches

    def __iter__(self) -> Iterator[Ints]:
        draw = np.random.choice  # scripts seed the global generator
        for _ in range(self._batches):
            chosen = draw(len(self._rows), self._groups, replace=not self._distinct, p=self._share)
            yield np.concatenate([
                draw(self._rows[code], self._each, replace=len(self._rows[code]) <= self._each) for code in chosen])


def _grouper(grouper: CombinatorialGrouper | None, what: str) -> CombinatorialGrouper:
    if grouper is None:
        raise ShiftBenchError(f"A grouper is needed for {what}: CombinatorialGrouper(dataset, ['domain']).")
    return grouper
