"""The interface of the package `wilds`, on any benchmark: change the import, or run an unchanged script.

    from shiftbench.compat.wilds import CombinatorialGrouper, get_dataset, get_eval_loader, get_train_loader

    python -m shiftbench.compat.wilds [--use NAME=FOLDER] SCRIPT ARGS…
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from shiftbench.compat import wilds_metrics, wilds_subset, wilds_tensors
from shiftbench.compat.grouper import QUIRKS, CombinatorialGrouper, as_array
from shiftbench.compat.wilds_eval import evaluate
from shiftbench.compat.wilds_metadata import (
    ADDITIONAL,
    CLASSES,
    DATASETS,
    MEANS,
    NAMES,
    OFFICIAL,
    SPREADS,
    UNLABELED,
    UNLABELED_SPLITS,
)
from shiftbench.compat.wilds_subset import WILDSDataset, WILDSSubset, WILDSUnlabeledDataset
from shiftbench.core.arrays import Floats, Ints
from shiftbench.core.backend import torch
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.registry import listed
from shiftbench.data.benchmark import MARKER, Benchmark, collection_folder
from shiftbench.data.collection import Collection
from shiftbench.readers.wilds.comments import amazon_name, amazon_splits
from shiftbench.readers.wilds.photos import HELD_OUT
from shiftbench.shifts.suites import WILDS

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
                compat=compat, split_scheme=asked.scheme, no_nl=asked.no_nl, ood_val=asked.ood_val)


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


# Options of the package's `get_dataset` for single data sets: folds, schemes, seeds, channels, names of splits

DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "poverty": {"no_nl": False, "fold": "A", "use_ood_val": True, "cache_size": 100},
    "fmow": {"seed": 111, "use_ood_val": True},
}
SCHEMES = ("mixed-to-test", "test-to-test", "official_with_subsampled_test")


class Options(NamedTuple):
    """A data set as the package's options ask for it."""

    name: str  # of the collection, where it is one of the ten; else empty
    scheme: str = "official"
    fold: str = ""
    no_nl: bool = False  # images without their last channel, the light at night
    ood_val: bool = True  # whether `val` is the out-of-distribution one
    explicit: bool = False  # whether the script itself asked for a fold or a scheme

    @staticmethod
    def of(dataset: str, scheme: str, options: Mapping[str, Any]) -> "Options":
        """Check what a script asks for; an option that the package does not take for a data set is an error."""
        name = {theirs: ours for ours, theirs in NAMES.items()}.get(dataset, dataset)
        defaults = DEFAULTS.get(name, {})
        for key in options:
            if key not in defaults:
                raise unknown("option", key, defaults, f"get_dataset('{dataset}')")
        settings = {**defaults, **options}
        fold = str(settings.get("fold", ""))
        if fold and fold not in HELD_OUT:
            raise unknown("fold", fold, HELD_OUT, dataset)
        if scheme == OFFICIAL.get(name):
            scheme = "official"
        is_published = name in WILDS or name == "poverty"
        of_amazon = name == "amazon" and bool(amazon_splits(scheme))
        if scheme != "official" and not of_amazon and not (is_published and scheme in SCHEMES):
            raise unknown("split scheme", scheme, ("official", *SCHEMES), dataset)
        if scheme != "official" and int(settings.get("seed", 111)) != 111:
            raise ShiftBenchError(f"{dataset}: split_scheme='{scheme}' is drawn when the data set is read, with the "
                                  "package's seed 111. Leave out `seed`.")
        return Options(name if is_published else "", scheme, fold,
                       bool(settings.get("no_nl", False)), bool(settings.get("use_ood_val", True)),
                       scheme != "official" or "fold" in options)

    @property
    def is_apart(self) -> bool:
        """Whether the scheme has its own items, collection and benchmark, as Amazon's other schemes have."""
        return self.name == "amazon" and bool(amazon_splits(self.scheme))

    @property
    def folders(self) -> tuple[str, ...]:
        """Names under which `build wilds` may have put the benchmark, the one that is asked for first."""
        if self.name == "poverty":
            others = [fold for fold in HELD_OUT if fold != self.fold]
            return (f"poverty-{self.fold}", *(f"poverty-{fold}" for fold in others))
        if self.is_apart:
            return (amazon_name(self.scheme), "amazon-time" if self.scheme.startswith("time") else "amazon-category")
        return (self.name,) if self.name else ()

    def built(self, benchmark: Benchmark, collection: Collection) -> Benchmark:
        """The benchmark with the split that is asked for, which may be another than its own."""
        if self.is_apart:
            if collection.name != amazon_name(self.scheme):
                raise ShiftBenchError(f"Benchmark '{benchmark.name}' is of collection '{collection.name}', but "
                                      f"split_scheme='{self.scheme}' has reviews of its own. Read and build it: "
                                      f"shiftbench read wilds amazon --scheme {self.scheme}.")
            return benchmark
        if collection.name != self.name:
            if self.scheme != "official":
                raise ShiftBenchError(f"Benchmark '{benchmark.name}' is not {self.name} of WILDS but of collection "
                                      f"'{collection.name}': it has one split scheme, the official one.")
            return benchmark
        shift = WILDS[f"poverty-{self.fold}" if self.fold else self.name]
        factor = shift.split
        if self.scheme != "official":
            suffix = self.scheme.replace("-", "_")
            factor = f"split_{suffix}" + (f"_{self.fold}" if self.fold else "")
        if factor not in collection.factors:
            raise ShiftBenchError(f"Collection '{collection.name}' has no factor '{factor}', so "
                                  f"split_scheme='{self.scheme}' is not known. Read it again: shiftbench read wilds "
                                  f"{self.name}.")
        current = str((benchmark.card.get("params") or {}).get("split", ""))
        folds = [f"split_{fold}" for fold in HELD_OUT]
        if current == factor or not (self.explicit or current in folds):
            return benchmark
        rebuilt = replace(shift, split=factor, ignore=(*shift.ignore, "unused")).build(collection)
        return replace(rebuilt, card={**rebuilt.card, "name": benchmark.name})


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
    how: dict[str, Any] = {"batch_size": batch_size, "shuffle": True}
    if loader == "group":
        groups = _grouper(grouper, "the 'group' loader")
        if n_groups_per_batch is None:
            raise ShiftBenchError("The 'group' loader needs n_groups_per_batch.")
        how = {"batch_sampler": GroupSampler(
            groups.metadata_to_group(dataset.metadata_array), batch_size, n_groups_per_batch,
            uniform_over_groups=uniform_over_groups is None or uniform_over_groups,
            distinct_groups=bool(distinct_groups))}
    elif uniform_over_groups:
        group, count = _grouper(grouper, "uniform_over_groups").metadata_to_group(
            dataset.metadata_array, return_counts=True)
        sampler = torch.utils.data.WeightedRandomSampler(1 / count[group], len(dataset), replacement=True)
        how = {"batch_size": batch_size, "sampler": sampler}
    return torch.utils.data.DataLoader(dataset, collate_fn=dataset.collate, **how, **loader_kwargs)


def get_eval_loader(
    loader: str, dataset: Rows, batch_size: int, grouper: CombinatorialGrouper | None = None, **loader_kwargs: Any
) -> Any:
    """Every item once, in the order of the rows. A grouper is taken and not used, as in the package."""
    if loader != "standard":
        raise unknown("loader", loader, LOADERS[:1])
    dataset.inputs.ready()
    return torch.utils.data.DataLoader(dataset, batch_size, shuffle=False, collate_fn=dataset.collate, **loader_kwargs)


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


# The modules of the package by name, with what its examples and users import from them

METRIC = ("Metric", "ElementwiseMetric", "MultiTaskMetric")
LOSS = ("Loss", "ElementwiseLoss", "MultiTaskLoss")
METRICS = ("Accuracy", "MultiTaskAccuracy", "MultiTaskAveragePrecision", "Recall", "F1", "PearsonCorrelation", "MSE",
           "PrecisionAtRecall", "DummyMetric", "DetectionAccuracy", "mse_loss")
OUTPUTS = ("binary_logits_to_score", "multiclass_logits_to_pred", "binary_logits_to_pred", "pseudolabel_binary_logits",
           "pseudolabel_multiclass_logits", "pseudolabel_identity", "pseudolabel_detection",
           "pseudolabel_detection_discard_empty")
GROUPS = ("minimum", "maximum", "split_into_groups", "get_counts", "avg_over_groups", "map_to_id_array",
          "subsample_idxs", "shuffle_arr", "threshold_at_recall", "numel")


class PackageGrouper(CombinatorialGrouper):
    """The package's grouper: its numbers, its names, and its warnings, which name fields in the order asked for."""

    def __init__(self, dataset: Any, groupby_fields: list[str] | None) -> None:
        whole = dataset if isinstance(dataset, list) else [dataset]
        if any(hasattr(data, "indices") for data in whole):
            raise ShiftBenchError("A grouper is made of whole data sets, and this is a subset: its groups would have "
                                  "other numbers. Give the data set.")
        super().__init__(dataset, groupby_fields, compat=QUIRKS)
        columns = np.concatenate([as_array(data.metadata_array)[:, self._index] for data in whole])
        fields = self.groupby_fields or []
        if (columns != columns.astype(np.int64)).any():
            warnings.warn(f"CombinatorialGrouper: converting metadata with fields [{', '.join(fields)}] into long",
                          stacklevel=2)
        for field, least in zip(fields, columns.astype(np.int64).min(axis=0).tolist(), strict=True):
            if least > 0:
                warnings.warn(f"Minimum metadata value for CombinatorialGrouper is not 0 ({field}, {least}). This will "
                              "result in empty groups", stacklevel=2)


def wilds_modules(use: Mapping[str, Path]) -> dict[str, dict[str, object]]:
    """What a script finds in `wilds` and below it, with further data sets by `use`.

    The script was written for the package, so data sets and groupers behave as the package does (`compat="wilds-2.0"`).
    """
    USED.update(use)
    named_data = partial(get_dataset, compat=QUIRKS)
    published = (*DATASETS, *ADDITIONAL)
    more = [*ADDITIONAL, *(name for name in use if name not in published)]
    lists: dict[str, object] = {
        "benchmark_datasets": list(DATASETS), "additional_datasets": more,
        "supported_datasets": [*DATASETS, *more], "unlabeled_datasets": list(UNLABELED),
        "unlabeled_splits": list(UNLABELED_SPLITS)}
    metric, loss = _names(wilds_metrics, METRIC), _names(wilds_metrics, LOSS)
    groups = _names(wilds_tensors, GROUPS)
    modules: dict[str, dict[str, object]] = {
        "wilds": {"get_dataset": named_data, "__version__": "2.0.0", **lists},
        "wilds.get_dataset": {"get_dataset": named_data},
        "wilds.version": {"__version__": "2.0.0"},
        "wilds.common": {},
        "wilds.common.data_loaders": {"get_train_loader": get_train_loader, "get_eval_loader": get_eval_loader,
                                      "GroupSampler": GroupSampler},
        "wilds.common.grouper": {"Grouper": CombinatorialGrouper, "CombinatorialGrouper": PackageGrouper},
        "wilds.common.utils": groups,
        "wilds.common.metrics": {},
        "wilds.common.metrics.metric": metric,
        "wilds.common.metrics.loss": loss,
        "wilds.common.metrics.all_metrics": {
            **metric, "ElementwiseLoss": wilds_metrics.ElementwiseLoss, **_names(wilds_metrics, METRICS),
            **_names(wilds_tensors, OUTPUTS),
            **{name: groups[name] for name in ("avg_over_groups", "minimum", "maximum", "get_counts")}},
        "wilds.datasets": {},
        "wilds.datasets.wilds_dataset": _names(wilds_subset, ("WILDSDataset", "WILDSSubset")),
        "wilds.datasets.unlabeled": {},
        "wilds.datasets.unlabeled.wilds_unlabeled_dataset": _names(
            wilds_subset, ("WILDSUnlabeledDataset", "WILDSUnlabeledSubset", "WILDSPseudolabeledSubset")),
    }
    for name, word in CLASSES.items():
        stem = name.replace("-", "")
        modules[f"wilds.datasets.{stem}_dataset"] = {f"{word}Dataset": partial(named_data, name)}
        if name in UNLABELED:
            modules[f"wilds.datasets.unlabeled.{stem}_unlabeled_dataset"] = {
                f"{word}UnlabeledDataset": partial(named_data, name, unlabeled=True)}
    modules["wilds.datasets.poverty_dataset"] |= {
        "_MEANS_2009_17": MEANS, "_STD_DEVS_2009_17": SPREADS,
        "DHS_COUNTRIES": list(DATASETS["poverty"].names["country"])}
    return modules


def _names(module: object, names: tuple[str, ...]) -> dict[str, object]:
    return {name: getattr(module, name) for name in names}


if __name__ == "__main__":
    # Not this module, which is called __main__: workers must find its classes.
    from shiftbench.compat import main, wilds

    main(wilds.wilds_modules)
