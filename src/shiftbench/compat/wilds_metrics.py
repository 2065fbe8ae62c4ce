"""WILDS' `common.metrics`: metrics and losses of tensors, of all items, of every item and of every group.

Losses need gradients, so these work in torch; metrics beyond means come from our own scorer.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from shiftbench.compat.grouper import as_array
from shiftbench.compat.wilds_tensors import avg_over_groups, get_counts, maximum, minimum, numel
from shiftbench.core.backend import torch
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.scoring.beyond_classes import detection_accuracy, pearson_by_group, precision_items

Function = Callable[..., Any]


class Metric:
    """A number for all items, one for every group, and the worst of those.

    A metric of one's own overrides `_compute` (all items) or `_compute_element_wise` (each item), and `worst`.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    @property
    def agg_metric_field(self) -> str:
        """The key of the value of all items."""
        return f"{self.name}_all"

    def group_metric_field(self, group_idx: int) -> str:
        return f"{self.name}_group:{group_idx}"

    @property
    def worst_group_metric_field(self) -> str:
        return f"{self.name}_wg"

    def group_count_field(self, group_idx: int) -> str:
        return f"count_group:{group_idx}"

    def _compute(self, y_pred: Any, y_true: Any) -> Any:
        raise NotImplementedError

    def worst(self, metrics: Any) -> Any:
        raise NotImplementedError

    def compute(self, y_pred: Any, y_true: Any, return_dict: bool = True) -> Any:
        """The value of all items, 0 if there are none: a tensor, or its number under `agg_metric_field`."""
        if numel(y_true):
            value = self._compute(y_pred, y_true)
        else:
            value = torch.tensor(0.0, device=getattr(y_true, "device", None))
        return {self.agg_metric_field: value.item()} if return_dict else value

    def compute_group_wise(self, y_pred: Any, y_true: Any, g: Any, n_groups: int, return_dict: bool = True) -> Any:
        """Values and counts of the groups, 0 where a group has no items, and the worst of those that have some."""
        values, counts, worst = self._compute_group_wise(y_pred, y_true, g, n_groups)
        if not return_dict:
            return values, counts, worst
        results: dict[str, float] = {}
        for group in range(n_groups):
            results[self.group_metric_field(group)] = values[group].item()
            results[self.group_count_field(group)] = counts[group].item()
        return {**results, self.worst_group_metric_field: worst.item()}

    def _compute_group_wise(self, y_pred: Any, y_true: Any, g: Any, n_groups: int) -> tuple[Any, Any, Any]:
        counts, empty = get_counts(g, n_groups), torch.tensor(0.0, device=g.device)
        values = torch.stack([
            self._compute(y_pred[g == group], y_true[g == group]) if counts[group] else empty
            for group in range(n_groups)])
        return values, counts, self.worst(values[counts > 0])


class ElementwiseMetric(Metric):
    """The mean of a number per item."""

    @property
    def agg_metric_field(self) -> str:
        return f"{self.name}_avg"

    def _compute_element_wise(self, y_pred: Any, y_true: Any) -> Any:
        raise NotImplementedError

    def _compute(self, y_pred: Any, y_true: Any) -> Any:
        return self._compute_element_wise(y_pred, y_true).mean()

    def _compute_group_wise(self, y_pred: Any, y_true: Any, g: Any, n_groups: int) -> tuple[Any, Any, Any]:
        values, counts = avg_over_groups(self._compute_element_wise(y_pred, y_true), g, n_groups)
        return values, counts, self.worst(values[counts > 0])

    def compute_element_wise(self, y_pred: Any, y_true: Any, return_dict: bool = True) -> Any:
        values = self._compute_element_wise(y_pred, y_true)
        if values.dim() != 1 or len(values) != len(y_pred):
            raise ShiftBenchError(f"Metric '{self.name}' gives values of the shape {tuple(values.shape)} for "
                                  f"{len(y_pred)} items; one per item is needed.")
        return {self.name: values} if return_dict else values

    def compute_flattened(self, y_pred: Any, y_true: Any, return_dict: bool = True) -> Any:
        values = self.compute_element_wise(y_pred, y_true, return_dict=False)
        index = torch.arange(y_true.numel())
        return {self.name: values, "index": index} if return_dict else (values, index)


class MultiTaskMetric(Metric):
    """The mean over every label that is not NaN, of whichever task and item."""

    def _compute_flattened(self, flattened_y_pred: Any, flattened_y_true: Any) -> Any:
        raise NotImplementedError

    def compute_flattened(self, y_pred: Any, y_true: Any, return_dict: bool = True) -> Any:
        """The values of the labels that are not NaN, and the item that each belongs to."""
        labelled = ~torch.isnan(y_true)
        index = torch.where(labelled)[0]
        values = self._compute_flattened(y_pred[labelled], y_true[labelled])
        return {self.name: values, "index": index} if return_dict else (values, index)

    def _compute(self, y_pred: Any, y_true: Any) -> Any:
        values, _ = self.compute_flattened(y_pred, y_true, return_dict=False)
        return values.mean() if values.numel() else torch.tensor(0.0, device=y_true.device)

    def _compute_group_wise(self, y_pred: Any, y_true: Any, g: Any, n_groups: int) -> tuple[Any, Any, Any]:
        flattened, index = self.compute_flattened(y_pred, y_true, return_dict=False)
        values, counts = avg_over_groups(flattened, g[index], n_groups)
        return values, counts, self.worst(values[counts > 0])


class _LeastIsWorst:
    def worst(self, metrics: Any) -> Any:
        return minimum(metrics)


class _LargestIsWorst:
    """A loss of a function of predictions and labels; the largest is the worst."""

    def __init__(self, loss_fn: Function, name: str | None = None) -> None:
        self.loss_fn = loss_fn
        super().__init__(name="loss" if name is None else name)  # type: ignore[call-arg]

    def worst(self, metrics: Any) -> Any:
        return maximum(metrics)


class Loss(_LargestIsWorst, Metric):
    """A function that gives one number for all items."""

    def _compute(self, y_pred: Any, y_true: Any) -> Any:
        return self.loss_fn(y_pred, y_true)


class ElementwiseLoss(_LargestIsWorst, ElementwiseMetric):
    """A function that gives a number per item."""

    def _compute_element_wise(self, y_pred: Any, y_true: Any) -> Any:
        return self.loss_fn(y_pred, y_true)


class MultiTaskLoss(_LargestIsWorst, MultiTaskMetric):
    """A function that gives a number per label; torch's own two losses get labels of the type that they take."""

    def _compute_flattened(self, flattened_y_pred: Any, flattened_y_true: Any) -> Any:
        if isinstance(self.loss_fn, torch.nn.BCEWithLogitsLoss):
            return self.loss_fn(flattened_y_pred.float(), flattened_y_true.float())
        if isinstance(self.loss_fn, torch.nn.CrossEntropyLoss):
            return self.loss_fn(flattened_y_pred, flattened_y_true.long())
        return self.loss_fn(flattened_y_pred, flattened_y_true)


def mse_loss(out: Any, targets: Any) -> Any:
    """The squared error of each item, the mean over its outputs."""
    if out.size() != targets.size() or (out.numel() and out.dim() < 2):
        raise ShiftBenchError(f"Predictions have the shape {tuple(out.shape)}, targets {tuple(targets.shape)}: both "
                              "must be items × outputs.")
    return ((out - targets) ** 2).mean(dim=tuple(range(1, targets.dim()))) if out.numel() else torch.Tensor()


class MSE(ElementwiseLoss):
    def __init__(self, name: str | None = None) -> None:
        super().__init__(mse_loss, "mse" if name is None else name)


class _OfPredictions(_LeastIsWorst):
    """A metric of what `prediction_fn` makes of a model's outputs; without one, of the outputs."""

    called = ""

    def __init__(self, prediction_fn: Function | None = None, name: str | None = None) -> None:
        self.prediction_fn = prediction_fn
        super().__init__(name=self.called if name is None else name)  # type: ignore[call-arg]

    def predicted(self, outputs: Any) -> Any:
        return outputs if self.prediction_fn is None else self.prediction_fn(outputs)


class Accuracy(_OfPredictions, ElementwiseMetric):
    called = "acc"

    def _compute_element_wise(self, y_pred: Any, y_true: Any) -> Any:
        return (self.predicted(y_pred) == y_true).float()


class MultiTaskAccuracy(_OfPredictions, MultiTaskMetric):
    called = "acc"

    def _compute_flattened(self, flattened_y_pred: Any, flattened_y_true: Any) -> Any:
        return (self.predicted(flattened_y_pred) == flattened_y_true).float()


class MultiTaskAveragePrecision(_OfPredictions, MultiTaskMetric):
    """Average precision of all labels that are not NaN together."""

    def __init__(self, prediction_fn: Function | None = None, name: str | None = None, average: str | None = "macro"
                 ) -> None:
        self.average, self.called = average, "avgprec" if average is None else f"avgprec-{average}"
        super().__init__(prediction_fn, name)

    def _compute_flattened(self, flattened_y_pred: Any, flattened_y_true: Any) -> Any:
        scores = as_array(self.predicted(flattened_y_pred)).reshape(-1, 1)
        truth = (as_array(flattened_y_true).reshape(-1, 1) > 0).astype(np.float64)
        return torch.tensor(precision_items(truth, scores).value, device=flattened_y_pred.device)

    def _compute_group_wise(self, y_pred: Any, y_true: Any, g: Any, n_groups: int) -> tuple[Any, Any, Any]:
        return Metric._compute_group_wise(self, y_pred, y_true, g, n_groups)


class _ByClass(_OfPredictions, Metric):
    """Recall or F1 of the classes that the labels have, averaged as scikit-learn's `average` says."""

    def __init__(self, prediction_fn: Function | None = None, name: str | None = None, average: str | None = "binary"
                 ) -> None:
        if average not in ("binary", "macro", "micro", "weighted"):
            raise unknown("average", str(average), ("binary", "macro", "micro", "weighted"))
        self.average, self.called = average, f"{type(self).__name__.replace('Recall', 'recall')}-{average}"
        super().__init__(prediction_fn, name)

    def _compute(self, y_pred: Any, y_true: Any) -> Any:
        predicted, label = as_array(self.predicted(y_pred)), as_array(y_true)
        classes = np.asarray([1]) if self.average == "binary" else np.unique(label)
        right = np.asarray([((label == code) & (predicted == code)).sum() for code in classes], np.float64)
        truly = np.asarray([(label == code).sum() for code in classes], np.float64)
        guessed = np.asarray([(predicted == code).sum() for code in classes], np.float64)
        if self.average == "micro":
            right, truly, guessed = (counts.sum(keepdims=True) for counts in (right, truly, guessed))
        values = self._of_counts(right, truly, guessed)
        return torch.tensor(np.average(values, weights=truly) if self.average == "weighted" else values.mean())

    @staticmethod
    def _of_counts(right: Any, truly: Any, guessed: Any) -> Any:
        raise NotImplementedError


class Recall(_ByClass):
    @staticmethod
    def _of_counts(right: Any, truly: Any, guessed: Any) -> Any:
        return right / np.maximum(truly, 1)


class F1(_ByClass):
    @staticmethod
    def _of_counts(right: Any, truly: Any, guessed: Any) -> Any:
        return 2 * right / np.maximum(truly + guessed, 1)


class PearsonCorrelation(_LeastIsWorst, Metric):
    def __init__(self, name: str | None = None) -> None:
        super().__init__(name="r" if name is None else name)

    def _compute(self, y_pred: Any, y_true: Any) -> Any:
        predicted, label = as_array(y_pred.squeeze()), as_array(y_true.squeeze())
        return torch.tensor(pearson_by_group(label, predicted, np.zeros(len(label), np.int64), 1)[0])


class PrecisionAtRecall(_LeastIsWorst, Metric):
    """The share of positives among the items whose score is above a threshold; 0 where there is none."""

    def __init__(self, threshold: float, score_fn: Function, name: str | None = None) -> None:
        self.threshold, self.score_fn = threshold, score_fn
        super().__init__(name="precision_at_global_recall" if name is None else name)

    def _compute(self, y_pred: Any, y_true: Any) -> Any:
        above = as_array(self.score_fn(y_pred) > self.threshold)
        return torch.tensor(float((as_array(y_true)[above] == 1).mean()) if above.any() else 0.0)


class DummyMetric(_OfPredictions, Metric):
    """Always −1."""

    called = "dummy"

    def _compute(self, y_pred: Any, y_true: Any) -> Any:
        return torch.tensor(-1)

    def _compute_group_wise(self, y_pred: Any, y_true: Any, g: Any, n_groups: int) -> tuple[Any, Any, Any]:
        values = -torch.ones(n_groups, device=g.device)
        return values, get_counts(g, n_groups), self.worst(values)


class DetectionAccuracy(_LeastIsWorst, ElementwiseMetric):
    """Of each image TP / (TP + FP + FN), see `detection_accuracy`. The package overlooks an `iou_threshold` but 0.5."""

    def __init__(self, iou_threshold: float = 0.5, score_threshold: float = 0.5, name: str | None = None) -> None:
        self.iou_threshold, self.score_threshold = iou_threshold, score_threshold
        super().__init__(name="detection_acc" if name is None else name)

    def _compute_element_wise(self, y_pred: Any, y_true: Any) -> Any:
        values = detection_accuracy([as_array(image["boxes"]) for image in y_true],
                                    [as_array(image["boxes"]) for image in y_pred],
                                    [as_array(image["scores"]) for image in y_pred],
                                    overlap=self.iou_threshold, confidence=self.score_threshold)
        return torch.from_numpy(values).float()
