"""Run another tool in its own environment: PYTHON others.py TOOL reads names of tables (.npz) and answers each.

An answer is a line of JSON: the seconds of processor time that it took, and the first ten contexts, each with its
values and the number that the tool ranks by. Each is called as its documentation does, and where it lets one choose,
with at most three values in a context and at least 20 items. This file imports nothing of shiftbench.
"""

import json
import sys
import time
import warnings

import numpy as np

DEPTH, LEAST, MOST = 3, 20, 10
FDR = 0.1


def _frame(codes, **more):
    import pandas as pd

    return pd.DataFrame({f"c{column}": codes[:, column].astype(str) for column in range(codes.shape[1])}).assign(**more)


def sliceline(codes, error):
    from sliceline.slicefinder import Slicefinder

    finder = Slicefinder(alpha=0.95, k=MOST, max_l=DEPTH, min_sup=LEAST, verbose=False)
    finder.fit(codes + 1, error.astype(float))  # 0 means no value
    return [({column: int(value) - 1 for column, value in enumerate(row) if value is not None}, facts["slice_score"])
            for row, facts in zip(finder.top_slices_, finder.top_slices_statistics_, strict=True)]


def divexplorer(codes, error):
    from divexplorer import DivergenceExplorer

    frame = _frame(codes, error=error * 1)
    found = DivergenceExplorer(frame).get_pattern_divergence(
        min_support=LEAST / len(frame), boolean_outcomes=["error"])
    found = found[found["length"].between(1, DEPTH) & (found["error_div"] > 0) & (found["error_t"] > 2)]
    found = found.sort_values("error_t", ascending=False).head(MOST)
    return [({int(word.split("=")[0][1:]): int(word.split("=")[1]) for word in items}, score)
            for items, score in zip(found["itemset"], found["error_t"], strict=True)]


def pysubgroup(codes, error):
    import pysubgroup as ps

    frame = _frame(codes, error=error)
    task = ps.SubgroupDiscoveryTask(frame, ps.BinaryTarget("error", True), ps.create_selectors(frame, ignore=["error"]),
                                    result_set_size=MOST, depth=DEPTH, qf=ps.WRAccQF(),
                                    constraints=[ps.MinSupportConstraint(LEAST)])
    found = ps.Apriori().execute(task).to_descriptions()
    return [({int(one.attribute_name[1:]): int(one.attribute_value) for one in group.selectors}, score)
            for score, group in found]


def giskard(codes, error, threshold=0.05):
    """Its scan for performance bias, of accuracy, with the false discovery rate that it has as an experiment.

    A slice is one value of one column with at least 5 % of the items. A slice is reported if its p-value passes the
    Benjamini–Hochberg step (`alpha`) and its accuracy is lower than that of all items by `threshold`, as a share; 0.05
    is the default of the package. Its step takes argsort() for ranks, so that p-values are compared with bars
    in no order, and ends in an error where none passes: a scan then shows no issue. Half of the labels, drawn, are "a".
    """
    import logging

    import giskard as gk

    logging.disable(logging.CRITICAL)
    label = np.random.default_rng(0).integers(0, 2, len(error))
    frame = _frame(codes, said=label ^ error, label=np.asarray(["a", "b"])[label])
    columns = [name for name in frame if name.startswith("c")]
    model = gk.Model(lambda rows: np.eye(2)[rows["said"].to_numpy(int)] * 0.9 + 0.05, model_type="classification",
                     classification_labels=["a", "b"], feature_names=[*columns, "said"])
    data = gk.Dataset(frame, target="label", cat_columns=[*columns])
    params = {"performance_bias": {"alpha": FDR, "threshold": threshold, "metrics": ["accuracy"],
                                   "loss": lambda model, data: error[data.df.index] * 1.0}}
    try:
        report = gk.scan(model, data, features=columns, params=params, only="performance_bias", verbose=False,
                         raise_exceptions=True)
    except ValueError as problem:
        if "zero-size array" not in str(problem):
            raise
        return []
    issues = sorted(report.issues, key=lambda issue: issue.meta["p_value"])[:MOST]
    return [({int(clause.column[1:]): int(clause.value) for clause in issue.slicing_fn.query.get_all_clauses()},
             -np.log10(issue.meta["p_value"] + 1e-99)) for issue in issues]


def giskard_test(codes, error):
    """Its test alone: every slice that passes the Benjamini–Hochberg step, however little worse it is."""
    return giskard(codes, error, threshold=0.0)


def deepchecks(codes, error):
    """Its weak segments: leaves of trees on two columns each, which may unite values.

    A split must lower the variance of the error by 0.003, a constant of the package.
    """
    import pandas as pd
    from deepchecks.core.errors import DeepchecksProcessError
    from deepchecks.tabular import Dataset
    from deepchecks.tabular.checks import WeakSegmentsPerformance

    frame = _frame(codes, label=error * 1)  # it sorts values by the mean label; that of the error suits it best
    columns = [name for name in frame if name != "label"]
    check = WeakSegmentsPerformance(score_per_sample=pd.Series(1.0 - error), n_top_features=len(columns),
                                    segment_minimum_size_ratio=LEAST / len(frame), n_samples=len(frame))
    data = Dataset(frame, label="label", cat_features=columns)
    answers = error * 1
    try:
        value = check.run(data, y_pred=answers, y_proba=np.eye(2)[answers], model_classes=[0, 1],
                          feature_importance=pd.Series(1 / len(columns), columns), with_display=False).value
    except DeepchecksProcessError:  # "unable to train an error model": nothing is weak
        return []
    cells = []
    for row in value["weak_segments_list"].itertuples(index=False):
        score, one, some, two, others = row[:5]
        pairs = [(one, some)] + ([(two, others)] if two else [])
        cells.append(({int(name[1:]): [int(word) for word in words] for name, words in pairs},
                      value["avg_score"] - score))
    return cells[:MOST]


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    run = globals()[sys.argv[1]]
    for path in sys.stdin:
        with np.load(path.strip()) as arrays:
            codes, error = arrays["codes"], arrays["error"]
        start = time.process_time()
        cells = [[cell, float(score)] for cell, score in run(codes, error)]
        print("REPORT " + json.dumps({"seconds": time.process_time() - start, "cells": cells}), flush=True)
