"""Our replacements for the modules of the package `wilds`, by name: those that its examples and users import."""

import warnings
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np

from shiftbench.compat import wilds, wilds_metadata, wilds_metrics, wilds_subset, wilds_tensors
from shiftbench.compat.grouper import QUIRKS, CombinatorialGrouper, Described, as_array
from shiftbench.core.errors import ShiftBenchError

METRIC = ("Metric", "ElementwiseMetric", "MultiTaskMetric")
LOSS = ("Loss", "ElementwiseLoss", "MultiTaskLoss")
METRICS = ("Accuracy", "MultiTaskAccuracy", "MultiTaskAveragePrecision", "Recall", "F1", "PearsonCorrelation", "MSE",
           "PrecisionAtRecall", "DummyMetric", "DetectionAccuracy", "mse_loss")
OUTPUTS = ("binary_logits_to_score", "multiclass_logits_to_pred", "binary_logits_to_pred", "pseudolabel_binary_logits",
           "pseudolabel_multiclass_logits", "pseudolabel_identity", "pseudolabel_detection",
           "pseudolabel_detection_discard_empty")
GROUPS = ("minimum", "maximum", "split_into_groups", "get_counts", "avg_over_groups", "map_to_id_array",
          "subsample_idxs", "shuffle_arr", "threshold_at_recall", "numel")
UNLABELED = ("WILDSUnlabeledDataset", "WILDSUnlabeledSubset", "WILDSPseudolabeledSubset")


class PackageGrouper(CombinatorialGrouper):
    """The package's grouper: its numbers, its names, and its warnings, which name fields in the order asked for."""

    def __init__(self, dataset: Described | list[Described], groupby_fields: list[str] | None) -> None:
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
    wilds.USED.update(use)
    get_dataset = partial(wilds.get_dataset, compat=QUIRKS)
    published = (*wilds_metadata.DATASETS, *wilds_metadata.ADDITIONAL)
    more = [*wilds_metadata.ADDITIONAL, *(name for name in use if name not in published)]
    lists: dict[str, object] = {
        "benchmark_datasets": list(wilds_metadata.DATASETS), "additional_datasets": more,
        "supported_datasets": [*wilds_metadata.DATASETS, *more], "unlabeled_datasets": list(wilds_metadata.UNLABELED),
        "unlabeled_splits": list(wilds_metadata.UNLABELED_SPLITS)}
    metric, loss = _names(wilds_metrics, METRIC), _names(wilds_metrics, LOSS)
    groups = _names(wilds_tensors, GROUPS)
    modules: dict[str, dict[str, object]] = {
        "wilds": {"get_dataset": get_dataset, "__version__": "2.0.0", **lists},
        "wilds.get_dataset": {"get_dataset": get_dataset},
        "wilds.version": {"__version__": "2.0.0"},
        "wilds.common": {},
        "wilds.common.data_loaders": _names(wilds, ("get_train_loader", "get_eval_loader", "GroupSampler")),
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
        "wilds.datasets.wilds_dataset": _names(wilds, ("WILDSDataset", "WILDSSubset")),
        "wilds.datasets.unlabeled": {},
        "wilds.datasets.unlabeled.wilds_unlabeled_dataset": _names(wilds_subset, UNLABELED),
    }
    for name, word in wilds_metadata.CLASSES.items():
        stem = name.replace("-", "")
        modules[f"wilds.datasets.{stem}_dataset"] = {f"{word}Dataset": partial(get_dataset, name)}
        if name in wilds_metadata.UNLABELED:
            modules[f"wilds.datasets.unlabeled.{stem}_unlabeled_dataset"] = {
                f"{word}UnlabeledDataset": partial(get_dataset, name, unlabeled=True)}
    modules["wilds.datasets.poverty_dataset"] |= {
        "_MEANS_2009_17": wilds_metadata.MEANS, "_STD_DEVS_2009_17": wilds_metadata.SPREADS,
        "DHS_COUNTRIES": list(wilds_metadata.DATASETS["poverty"].names["country"])}
    return modules


def _names(module: object, names: tuple[str, ...]) -> dict[str, object]:
    return {name: getattr(module, name) for name in names}
