"""Boards and pages of targets that are no classes: ranked and shown by what their kind has for accuracy."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import ttest_rel

from shiftbench.core.arrays import child
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.prediction_lists import Answers
from shiftbench.data.predictions import Predictions
from shiftbench.data.scores import ALL, Measure, Scores
from shiftbench.leaderboard import make_board, make_folds, write_board
from shiftbench.reporting import report
from shiftbench.scoring import means, score
from tests.leaderboard.test_boards import submit
from tests.scoring.test_target_scores import guess, heads, numbers, wealth, wheat

SPLIT = np.repeat(["train", "val", "id_test", "test"], 40)


def poverty(seed=0):
    """A benchmark of one number, and a function that predicts it with some noise."""
    truth, predicted, urban = wealth(seed, len(SPLIT))
    made = numbers(truth.astype(np.float64), urban, split=SPLIT, names=("rural", "urban"))
    return made, lambda run, noise: guess(made, predicted + noise * child(run, "noise").normal(size=predicted.shape))


def lines(place, made, one, split="test", name="poverty_split:{}_seed:{}_epoch:best_pred.csv", seed=0):
    """A split as WILDS writes it: a number per line, in the order of the split."""
    rows = made.rows(split)
    (place / name.format(split, seed)).write_text("\n".join(f"{value:.9g}" for value in one.scores[rows, 0]) + "\n")


def test_numbers_are_ranked_by_the_worst_group(tmp_path):
    """Tables and WILDS' lines of numbers are read alike, and the board has what scoring has."""
    made, predict = poverty()
    submit(tmp_path, "good", made, [predict(seed, 0.1) for seed in range(3)])
    place = submit(tmp_path, "lines", made)
    for seed in range(3):
        lines(place, made, predict(9 + seed, 2.0), seed=seed)
    board = make_board(tmp_path, made, seeds=3)
    assert str(board.measure) == "worst_group_r"
    assert [one.verified.entry.folder for one in board.table(True)] == ["good", "lines"]
    cell = board.listed[0].cell("test", "worst_group_r")
    each = [score(made, predict(seed, 0.1)).where(metric="worst_group_r", split="test")["value"][0]
            for seed in range(3)]
    assert cell["value"] == pytest.approx(np.mean(each))
    assert cell["std"] == pytest.approx(np.std(each, ddof=1))
    assert cell["group"] in ("rural", "urban")
    page = write_board(board, tmp_path / "out").read_text()
    assert "Worst-group Pearson’s r" in page
    assert f"{cell['value']:.3f}" in page
    assert json.loads((tmp_path / "out" / "board.json").read_text())["metric"] == "worst_group_r"
    with pytest.raises(ShiftBenchError, match="No metric named 'accuracy'"):
        make_board(tmp_path, made, metric="accuracy")


@pytest.mark.parametrize(("text", "why"), [("1\n2\n", "2 lines"), ("a\n" * 40, "numbers"), ("1,2\n" * 40, "2 numbers"),
                                           ("nan\n" * 40, "no number")])
def test_lines_that_are_no_numbers_are_a_reason(tmp_path, text, why):
    """A file that cannot be read is listed with what is wrong, and never an error."""
    made, _ = poverty()
    (submit(tmp_path, "odd", made) / "poverty_split:test_seed:0_pred.csv").write_text(text)
    (one,) = make_board(tmp_path, made, seeds=1).listed
    assert one.rank is None
    assert why in " ".join(one.verified.reasons)


def test_boxes_are_ranked_by_the_mean_over_domains(tmp_path):
    """Answers are read from tables, from a file per split too; copies are found."""
    truth, boxes, found, session = heads(0, 40)
    made = wheat(truth, session, split=np.repeat(["val", "test"], 20))

    def detected(seed, share):
        kept = [child(seed, "kept", str(at)).random(len(one)) < share for at, one in enumerate(boxes)]
        return Answers.of(made.items, made.split, {
            "boxes": [one[mine] / 1024 for one, mine in zip(boxes, kept, strict=True)],
            "scores": [one[mine] for one, mine in zip(found, kept, strict=True)]})

    submit(tmp_path, "all", made, [detected(0, 1.0)])
    submit(tmp_path, "copy", made, [detected(0, 1.0)])
    place = submit(tmp_path, "few", made)
    for split in ("val", "test"):
        detected(1, 0.3).take(made.rows(split)).save(place / f"{split}-seed-0.parquet")
    (submit(tmp_path, "lines", made) / "wheat_split:test_seed:0.csv").write_text("0\n" * 20)
    board = make_board(tmp_path, made, seeds=1)
    assert board.measure == made.headline == Measure("detection_accuracy_by_domain")
    assert [one.verified.entry.folder for one in board.table(True)] == ["all", "few"]
    why = {one.verified.entry.folder: " ".join(one.verified.reasons) for one in board.refused}
    assert "duplicate" in why["copy"]
    assert "read from tables" in why["lines"]
    alone = score(made, detected(1, 0.3))
    for split in ("val", "test"):
        cell = board.table(True)[1].cell(split, board.measure)
        assert cell["value"] == alone.where(metric=board.measure.metric, split=split, group=ALL)["value"][0]


def folds():
    """Three folds of the same kind, each a benchmark of its own with its own predictions."""
    for place, letter in enumerate("ABC"):
        made, predict = poverty(place)
        card = {**made.card, "name": f"fold-{letter}", "params": {"split": f"split_{letter}"}}
        yield letter, replace(made, card=card), predict


def test_a_board_of_no_folds_is_refused(tmp_path):
    """An empty list of benchmarks has nothing to rank on."""
    with pytest.raises(ShiftBenchError, match="There is no benchmark to rank on"):
        make_folds(tmp_path, [])


def test_folds_are_one_entry(tmp_path):
    """A submission's number is the mean over folds ± their standard deviation, from files that name their fold."""
    every = list(folds())
    digests = " ".join(made.digest for _, made, _ in every)
    for name, noise in (("good", 0.1), ("poor", 3.0)):
        place = submit(tmp_path, name, every[0][1], benchmark=digests)
        for letter, made, predict in every:
            if name == "good":
                predict(0, noise).save(place / f"fold-{letter}-seed-0.parquet")
            else:
                lines(place, made, predict(1, noise), name="poverty_split:{}_fold:" + letter + "_epoch:best_pred.csv")
    lone = submit(tmp_path, "lone", every[0][1], benchmark=digests)
    every[0][2](2, 0.1).save(lone / "fold-A-seed-0.parquet")
    board = make_folds(tmp_path, [made for _, made, _ in every])
    assert [one.verified.entry.folder for one in board.table(True)] == ["good", "poor"]
    each = [score(made, predict(0, 0.1)).where(metric="worst_group_r", split="test")
            for _, made, predict in every]
    values = [float(one["value"][0]) for one in each]
    cell = board.listed[0].cell("test", "worst_group_r")
    assert cell["value"] == pytest.approx(np.mean(values))
    assert cell["std"] == pytest.approx(np.std(values, ddof=1))
    assert cell["seeds"] == pytest.approx(dict(zip("ABC", values, strict=True)))
    assert cell["low"] < cell["value"] < cell["high"]
    assert cell["high"] - cell["low"] < min(float(one["high"][0] - one["low"][0]) for one in each)
    assert cell["best"]
    other = board.listed[1].cell("test", "worst_group_r")
    assert cell["behind"] is None
    law = ttest_rel(values, list(other["seeds"].values()))
    pair, interval = other["behind"], law.confidence_interval(0.95)
    assert (pair.best, pair.other, pair.difference) == ("good", "poor", pytest.approx(cell["value"] - other["value"]))
    assert (pair.low, pair.high, pair.p) == pytest.approx((interval.low, interval.high, law.pvalue))
    assert other["tied"] == (pair.low <= 0)
    (refused,) = board.refused
    assert refused.verified.entry.folder == "lone"
    assert "Fold B:" in " ".join(refused.verified.reasons)
    text = write_board(board, tmp_path / "out").read_text()
    assert "standard deviation over folds" in text
    assert "fold by fold" in text
    assert all(made.digest in text for _, made, _ in every)
    with pytest.raises(ShiftBenchError, match="Folds must differ; got A, A"):
        make_folds(tmp_path, [every[0][1]] * 2)


def test_the_page_shows_the_headline(tmp_path):
    """A report has the kind's own numbers before and after the shift, and bars of accuracies alone."""
    made, predict = poverty()
    runs = {"erm": [predict(seed, 0.1) for seed in range(2)], "irm": [predict(seed, 3.0) for seed in range(2)]}
    scores = Scores.join([means(made, runs), *(
        score(made, one, run=f"{name}-{seed}", method=name, seed=seed)
        for name, part in runs.items() for seed, one in enumerate(part))])
    page = report(scores, [made], tmp_path / "page.html").read_text()
    value = scores.where(metric="worst_group_r", split="test", method="erm", stat="mean")["value"][0]
    assert f"{value:.3f}" in page
    assert "worst-group Pearson’s r, test" in page
    assert "2 methods in 4 runs" in page
    assert "Accuracy by group" not in page


def test_predictions_of_another_target_do_not_count(tmp_path):
    """Scores of classes are no answer to a benchmark of numbers."""
    made, _ = poverty()
    other = Predictions(made.items, made.split, np.zeros((len(made), 2), np.float32), ("cat", "dog"))
    submit(tmp_path, "classes", made, [other])
    (one,) = make_board(tmp_path, made, seeds=1).listed
    assert "y0" in " ".join(one.verified.reasons)
