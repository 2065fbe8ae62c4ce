"""The interface of the package `wilds`, on any benchmark: change the import, or run an unchanged script.

    from shiftbench.compat.wilds import CombinatorialGrouper, get_dataset, get_eval_loader, get_train_loader

    python -m shiftbench.compat.wilds [--use NAME=FOLDER] SCRIPT ARGS…
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch.utils.data import DataLoader, WeightedRandomSampler

from shiftbench.compat.grouper import CombinatorialGrouper, as_array
from shiftbench.compat.wilds_eval import evaluate
from shiftbench.compat.wilds_metadata import DATASETS
from shiftbench.compat.wilds_options import Options
from shiftbench.compat.wilds_subset import WILDSDataset, WILDSSubset, WILDSUnlabeledDataset
from shiftbench.core.arrays import Floats, Ints
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.registry import listed
from shiftbench.data.benchmark import MARKER, Benchmark, collection_folder
from shiftbench.data.collection import Collection

__all__ = ["CombinatorialGrouper", "GroupSampler", "WILDSDataset", "WILDSSubset", "evaluate", "get_dataset",
           "get_eval_loader", "get_train_loader"]

USED: dict[str, Path] = {}
"""The folders of benchmarks that `--use` gives, by the name that a script has for its data set."""
Rows = WILDSDataset | WILDSSubset
LOADERS = ("standard", "group")


def get_dataset(
    dataset: str | Path | Benchmark,
    version: str | None = None,
    unlabeled: bool = False,
    *,
    root_dir: str | Path = "data",
    download: bool = False,
    split_scheme: str = "official",
    collection: Collection | Path | str | None = None,
    groupby_fields: str | Sequence[str] = ("group",),
    groupings: str | Sequence[str] | None = None,
    compat: str | None = None,
    **options: Any,
) -> WILDSDataset:
    """A benchmark as a WILDS data set: its folder, or the folder's name below `root_dir`.

    `version` is ignored. As in the package, `download` changes nothing where the data is there; where it is not,
    nothing is fetched. A name of WILDS' ten takes the package's own options, on the benchmark that `build wilds` made:
    `fold`, `no_nl` and `use_ood_val` of poverty, `seed` and `use_ood_val` of fmow, and each `split_scheme` whose factor
    its collection has (`mixed-to-test`, …); any other benchmark has one scheme, the official one.
    `groupby_fields` are the columns whose groups `eval` judges, by default the benchmark's own groups; `groupings` are
    further ones, which may overlap, by default those of its card (docs/groups.md). `unlabeled` gives the items of the
    splits `unlabelled` and `target_train`, without labels. `compat="wilds-2.0"` is the
    package's behaviour, defects included; one of WILDS' ten then has the package's own keys and numbers of classes.
    """
    groupby_fields, groupings = listed(groupby_fields), None if groupings is None else listed(groupings)
    cls = WILDSUnlabeledDataset if unlabeled else WILDSDataset
    asked = Options.of(dataset if isinstance(dataset, str) else "", split_scheme, options)
    if isinstance(dataset, Benchmark):
        if not isinstance(collection, Collection):
            raise ShiftBenchError("A benchmark in memory does not know where its collection is. Give `collection`.")
        return cls(dataset, collection, groupby_fields=groupby_fields, groupings=groupings, compat=compat)
    names = (*asked.folders, dataset) if asked.is_apart else (dataset, *asked.folders)
    folder = folder_of(dataset, root_dir, names)
    benchmark = Benchmark.load(folder)
    if not isinstance(collection, Collection):
        collection = Collection.load(collection_folder(benchmark, collection))
    return cls(asked.built(benchmark, collection), collection, groupby_fields=groupby_fields, groupings=groupings,
                compat=compat, options=asked)


def folder_of(name: str | Path, root: str | Path, names: Sequence[str | Path]) -> Path:
    """The folder of the benchmark that a script calls `name`: from `--use`, below the root, or the name itself.

    `names` are its possible names below the root, the likeliest first.
    """
    if str(name) in USED:
        return USED[str(name)]
    below = [Path(root) / other for other in names]
    for folder in (below[0], Path(name), *below[1:]):
        if (folder / MARKER).is_file():
            return folder
    read = f" First: shiftbench read wilds {name} --root DIR, and shiftbench build." if name in DATASETS else ""
    raise ShiftBenchError(f"There is no benchmark at {Path(root) / name}, nor at {name}; nothing is downloaded.{read} "
                          f"Name its folder, or run the script with --use {name}=FOLDER.")


# Loaders: plain, uniform over groups, or batches of some groups with as many items of each

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

    `standard`: every item once an epoch, in random order; with `uniform_over_groups` as many draws with replacement,
    with all groups equally likely; `n_groups_per_batch` has no effect. `group`: see `GroupSampler`, uniform over groups
    by default. Random numbers come from torch's and numpy's global generators, as in the package: a script seeds both.
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


if __name__ == "__main__":
    from shiftbench.compat.run_script import main
    from shiftbench.compat.wilds_names import wilds_modules

    main(wilds_modules)
