"""Inputs for the evaluation of each of WILDS' ten, small and odd."""

import importlib
import math
import os
from typing import Any, NamedTuple

import numpy as np
import pytest

from shiftbench.compat.wilds_eval import evaluate
from shiftbench.compat.wilds_metadata import DATASETS
from shiftbench.readers.wilds.comments import IDENTITIES

SESSIONS = ["Arvalis_1", "ETHZ_1", "UQ 1", "UQ_2"]
LENGTH = 6


class Inputs(NamedTuple):
    """What `eval` takes, and what the data set knows: its whole metadata, and names."""

    predicted: Any
    label: Any
    metadata: np.ndarray
    full: np.ndarray
    names: dict[str, list[Any]] | None = None


def mix(n: int, size: int, seed: int) -> np.ndarray:
    """Whole numbers below `size` that look random and are the same everywhere."""
    at = np.arange(1, n + 1) * (2 * seed + 1)
    return (at * at * 31 + at * 17 + seed * 101) % 10007 % 211 % size


def columns(n: int, sizes: list[int], seed: int) -> np.ndarray:
    return np.stack([mix(n, size, seed + at) for at, size in enumerate(sizes)], axis=1)


def inputs(name: str, n: int = 40, seed: int = 1) -> Inputs:
    """A small data set of each kind; the rows that are judged are the first ones, so that some groups are empty."""
    whole = 4 * n
    guess = np.where(mix(n, 5, seed) < 2, mix(n, 4, seed + 1), mix(n, 3, seed + 2))
    label = mix(n, 3, seed + 2)
    if name == "amazon":
        full = columns(whole, [9, 5, 3, 4, 3], seed)
        full[:n, 0] %= 7
        return Inputs(guess, label, full[:n], full, {"user": [f"A{code}" for code in range(9)]})
    if name == "camelyon17":
        full = columns(whole, [2, 6, 2], seed)
        full[:n, 1] = full[:n, 1] // 2 * 2
        return Inputs(guess % 2, label % 2, full[:n], full)
    if name == "civilcomments":
        full = columns(whole, [2] * 16, seed)
        full[:n, -1] = label % 2
        return Inputs(guess % 2, label % 2, full[:n], full)
    if name == "fmow":
        full = columns(whole, [4, 3, 3], seed)
        return Inputs(guess, label, full[:n], full, {"region": ["Asia", "Other", "North Africa", "Europe"],
                                                     "year": [2002, 2003, 2004]})
    if name == "globalwheat":
        full = columns(whole, [4, 2, 2, 2], seed)
        full[:n, 0] %= 3
        truth, found = [], []
        for at in range(n):
            left = columns(at % 4, [40, 40], seed + at).astype(np.float32)
            truth.append({"boxes": np.concatenate([left, left + 10], axis=1)})
            moved = np.concatenate([left, left, left + 30]) + columns(3 * len(left), [5, 5], seed + 2 * at)
            found.append({"boxes": np.concatenate([moved, moved + 10], axis=1).astype(np.float32),
                          "scores": (mix(len(moved), 8, at + seed) / 8 + 0.125).astype(np.float32)})
        return Inputs(found, truth, full[:n], full, {"session": SESSIONS})
    if name == "iwildcam":
        full = columns(whole, [4, 9, 2, 12, 28, 24, 60, 60, 3], seed)
        return Inputs(guess, label, full[:n], full)
    if name == "ogb-molpcba":
        truth = np.stack([mix(n, 3, seed + task) for task in range(5)], axis=1).astype(float)
        truth[truth == 2] = math.nan
        truth[:, 4] = np.where(truth[:, 4] == 1, math.nan, truth[:, 4])
        return Inputs(np.stack([mix(n, 9, seed + 9 + task) for task in range(5)], axis=1) / 4, truth,
                      columns(n, [3], seed), columns(n, [3], seed))
    if name == "poverty":
        truth = (mix(n, 100, seed) / 50 - 1).astype(np.float32)[:, None]
        given = (truth + (mix(n, 100, seed + 3) / 100).astype(np.float32)[:, None]).astype(np.float32)
        full = columns(whole, [2, 2, 4], seed).astype(float)
        return Inputs(given, truth, full[:n], full, {"country": ["angola", "benin", "ghana", "mali"]})
    if name == "py150":
        kind = mix(n * LENGTH, 7, seed).reshape(n, LENGTH)
        kind[mix(n * LENGTH, 9, seed + 1).reshape(n, LENGTH) == 0] = -100
        truth = mix(n * LENGTH, 3, seed + 2).reshape(n, LENGTH).astype(np.float32)
        given = np.where(mix(n * LENGTH, 3, seed + 3).reshape(n, LENGTH) > 0, truth, 1 + truth).astype(np.int64)
        truth[kind == -100] = math.nan
        truth[0, :2] = math.nan  # also where the kind is known
        full = np.concatenate([columns(n, [5], seed), kind, np.ones((n, 1), np.int64)], axis=1)
        return Inputs(given, truth, full, full)
    full = columns(whole, [4, 5, 4, 9, 2, 3], seed)
    full[:n, 0] %= 3
    return Inputs(guess, label, full[:n], full, {"cell_type": ["HEPG2", "HUVEC", "RPE", "U2OS"]})


def ours(name: str, case: Inputs, compat: str | None = "wilds-2.0") -> dict[str, float]:
    return evaluate(name, case.predicted, case.label, case.metadata, metadata_map=case.names, full_metadata=case.full,
                    compat=compat)


MODULES = {"ogb-molpcba": "ogbmolpcba"}
CLASSES = {"amazon": "AmazonDataset", "camelyon17": "Camelyon17Dataset", "civilcomments": "CivilCommentsDataset",
           "fmow": "FMoWDataset", "globalwheat": "GlobalWheatDataset", "iwildcam": "IWildCamDataset",
           "ogb-molpcba": "OGBPCBADataset", "poverty": "PovertyMapDataset", "py150": "Py150Dataset",
           "rxrx1": "RxRx1Dataset"}
GROUPS = {"amazon": "user", "camelyon17": "slide", "globalwheat": "session", "iwildcam": "location",
          "poverty": "urban", "rxrx1": "cell_type"}


def package(name: str, case: Inputs) -> dict[str, float]:
    """The package's own `eval` on a data set of its class that has been given our metadata; skips without it."""
    try:
        torch = importlib.import_module("torch")
        module = importlib.import_module(f"wilds.datasets.{MODULES.get(name, name)}_dataset")
        importlib.import_module("torch_scatter")
    except ImportError as missing:
        if "SHIFTBENCH_WILDS" in os.environ:
            raise
        pytest.skip(f"the package wilds cannot be imported: {missing}")
    group = importlib.import_module("wilds.common.grouper").CombinatorialGrouper
    metrics = importlib.import_module("wilds.common.metrics.all_metrics")
    kind = getattr(module, CLASSES[name])
    data = kind.__new__(kind)
    data._metadata_fields, data._metadata_map = list(DATASETS[name].fields), case.names
    data._metadata_array, data._split_scheme = torch.from_numpy(case.full), "user"
    data._metric = metrics.DetectionAccuracy()
    data._identity_vars = list(IDENTITIES)
    if name == "civilcomments":
        data._eval_groupers = [group(data, [identity, "y"]) for identity in IDENTITIES]
    elif name == "fmow":
        data._eval_groupers = {field: group(data, [field]) for field in ("year", "region")}
    elif name in GROUPS:
        data._eval_grouper = group(data, [GROUPS[name]])
    elif name == "ogb-molpcba":
        data._metric = importlib.import_module("ogb.graphproppred").Evaluator("ogbg-molpcba")
        data._metric.num_tasks = case.label.shape[1]
    elif name == "py150":
        data._TYPE2ID = {"class": 0, "method": 1, "punctuation": 2, "keyword": 3, "builtin": 4, "literal": 5,
                         "other_identifier": 6, "masked": -100}
    if name == "globalwheat":
        predicted, label = ([{key: torch.from_numpy(part) for key, part in one.items()} for one in many]
                            for many in (case.predicted, case.label))
    else:
        predicted, label = torch.from_numpy(case.predicted), torch.from_numpy(case.label)
    return dict(data.eval(predicted, label, torch.from_numpy(case.metadata))[0])


def close(name: str, wanted: dict[str, float]) -> Any:
    """Counts and shares are equal to the last digit; sums of 32-bit floats depend on their order."""
    summed = name in ("globalwheat", "poverty", "iwildcam", "ogb-molpcba")
    return pytest.approx(wanted, rel=2e-6 if summed else 0, abs=0, nan_ok=True)


def shown(name: str, found: dict[str, float]) -> dict[str, float]:
    """Of many groups, those that are recorded below."""
    return {key: value for key, value in found.items() if key in RECORDED[name]}


RECORDED: dict[str, dict[str, float]] = {
    "amazon": {"acc_avg": 0.800000011920929, "acc_wg": 0.7142857313156128, "acc_user:A0": 0.7142857313156128,
               "count_user:A0": 7.0, "acc_user:A4": 0.875, "count_user:A4": 8.0, "acc_user:A7": 0.0,
               "count_user:A7": 0.0, "10th_percentile_acc": 0.7357142925262451},
    "camelyon17": {"acc_avg": 0.875, "acc_slide:0": 0.8571428656578064, "count_slide:0": 14.0, "acc_slide:1": 0.0,
                   "count_slide:1": 0.0, "acc_slide:2": 0.8461538553237915, "count_slide:2": 13.0,
                   "acc_slide:4": 0.9230769276618958, "acc_wg": 0.8461538553237915},
    "civilcomments": {"acc_avg": 0.875, "acc_y:0_male:1": 1.0, "count_y:0_male:1": 14.0, "count_y:1_male:1": 3.0,
                      "acc_y:0_female:1": 0.7142857313156128, "acc_y:1_LGBTQ:1": 0.8571428656578064,
                      "acc_y:0_christian:1": 0.8333333134651184, "acc_y:0_muslim:1": 0.8125,
                      "acc_y:0_other_religions:1": 0.7647058963775635, "count_y:0_other_religions:1": 17.0,
                      "acc_y:0_black:1": 0.9333333373069763, "acc_y:1_white:1": 0.75, "acc_wg": 0.7142857313156128},
    "fmow": {"acc_avg": 0.800000011920929, "acc_year:2002": 0.8125, "acc_year:2003": 0.7857142686843872,
             "count_year:2003": 14.0, "acc_worst_year": 0.7857142686843872, "acc_region:Asia": 0.7272727489471436,
             "acc_region:Other": 1.0, "acc_region:NorthAfrica": 0.5833333134651184, "count_region:NorthAfrica": 12.0,
             "acc_worst_region": 0.5833333134651184},
    "globalwheat": {"detection_acc_avg": 0.35080355405807495, "detection_acc_session:Arvalis_1": 0.254323273897171,
                    "count_session:Arvalis_1": 19.0, "detection_acc_session:ETHZ_1": 0.30000001192092896,
                    "detection_acc_session:UQ1": 0.5416666865348816, "detection_acc_session:UQ_2": 0.0,
                    "count_session:UQ_2": 0.0, "detection_acc_wg": 0.254323273897171,
                    "detection_acc_avg_dom": 0.3653299907843272},
    "iwildcam": {"acc_avg": 0.800000011920929, "recall-macro_all": 0.7994047403335571,
                 "F1-macro_all": 0.8065909147262573},
    "ogb-molpcba": {"ap": 0.35788164423020075},
    "poverty": {"mse_avg": 0.2893424928188324, "mse_urban:0": 0.32187825441360474, "count_urban:0": 23.0,
                "mse_urban:1": 0.2453235238790512, "count_urban:1": 17.0, "mse_wg": 0.32187825441360474,
                "r_all": 0.8761516809463501, "r_urban:0": 0.8792455792427063, "r_urban:1": 0.8822733759880066,
                "r_wg": 0.8792455792427063},
    "py150": {"acc": 0.5694444179534912, "Acc (Class-Method)": 0.5694444179534912,
              "Acc (Overall)": 0.6521739363670349, "Acc (class)": 0.5714285969734192,
              "Acc (method)": 0.5675675868988037, "Acc (punctuation)": 0.8399999737739563,
              "Acc (keyword)": 0.7352941036224365, "Acc (builtin)": 0.4444444477558136,
              "Acc (literal)": 0.6818181872367859, "Acc (other_identifier)": 0.7241379022598267},
    "rxrx1": {"acc_avg": 0.800000011920929, "acc_cell_type:HEPG2": 0.8421052694320679, "count_cell_type:HEPG2": 19.0,
              "acc_cell_type:HUVEC": 1.0, "acc_cell_type:RPE": 0.5833333134651184, "acc_cell_type:U2OS": 0.0,
              "count_cell_type:U2OS": 0.0, "acc_wg": 0.5833333134651184},
}
"""What wilds 2.0.0 gave for `inputs(name)`, run with torch 2.15 and scikit-learn 1.9."""
