"""Targets that are boxes: detection accuracy image by image, by group, and as a mean over domains."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from shiftbench.core.arrays import Floats, Ints, Strs
from shiftbench.data.prediction_lists import Answers
from shiftbench.data.target import Boxes, boxes_of
from shiftbench.scoring.measured import Measured
from shiftbench.scoring.metrics.detection import detection_accuracy
from shiftbench.scoring.target_estimates import shares, worst_of
from shiftbench.scoring.target_measures import Part, grouped, over_all

METRIC = "detection_accuracy"
BY_DOMAIN = METRIC + "_by_domain"


def measure_boxes(
    part: Part, truth: Sequence[Boxes], answers: Sequence[Answers], owner: Sequence[int], level: float | None
) -> list[Measured]:
    """`detection_accuracy` over all images, in every group and in the worst, and the mean over domains of theirs.

    Boxes with a score above ½ count, and find a true box with which they share ½ or more, see `metrics.detection`.
    """
    values = np.stack([detection_accuracy(truth, one.lists("boxes"), one.lists("scores")) for one in answers])
    return [*grouped(part, METRIC, values, values, owner, level, shares,
                     partial(worst_of, owner=owner, level=level, make=shares)),
            over_all(BY_DOMAIN, domain_items(values, part.domain), len(part.rows), owner, level, shares)]


def box_lists(column: Strs) -> list[Boxes]:
    """The true boxes of every item, M × 4."""
    row, box = boxes_of(column)
    return np.split(box, np.searchsorted(row, np.arange(1, len(column)))) if len(column) else []


def domain_items(values: Floats, domain: Ints) -> Floats:
    """Contributions to the mean over domains of each one's mean; their mean over all items is that mean.

        c_i = M + n / (D n_d) √(n_d / (n_d − 1)) (v_i − m_d)

    Domains are taken as given, so only what items vary within them counts; the one item of a domain varies as much as
    it differs from M.
    """
    codes, code, size = np.unique(domain, return_inverse=True, return_counts=True)
    many = np.bincount(code)[code]
    within = np.stack([np.bincount(code, one) / size for one in values])
    mean = within.mean(axis=1, keepdims=True)
    apart = values - np.where(many > 1, within[:, code], mean)
    apart *= values.shape[1] / (len(codes) * many) * np.sqrt(many / np.maximum(many - 1, 1))
    return np.asarray(mean + apart - apart.mean(axis=1, keepdims=True))
