"""Files of predictions that others wrote: columns by other names, more items than were asked for, a confidence."""

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest

import shiftbench as sb
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark
from shiftbench.leaderboard.writing import plain

N = 60


def benchmark(classes=("cat", "dog")) -> Benchmark:
    label = np.arange(N) % len(classes)
    same = np.zeros(N, np.int64)
    return Benchmark(np.char.mod("i%02d", np.arange(N)), np.full(N, "test"), label, same, label,
                     {"label": classes, "domain": ("all",), "group": classes})


def written(path, head, rows):
    path.write_text("\n".join([",".join(head), *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


def answers(made):
    """Every tenth prediction is of the next class."""
    names = made.names["label"]
    return [names[(label + (k % 10 == 0)) % len(names)] for k, label in enumerate(made.label.tolist())]


def test_columns_may_have_any_names(tmp_path, shell):
    """--column says which is which; the same scores come out as with our names."""
    made = benchmark()
    rows = list(zip(made.items, answers(made), ["x"] * N, strict=True))
    ours = written(tmp_path / "ours.csv", ["item", "prediction", "note"], rows)
    other = written(tmp_path / "other.csv", ["img", "pred", "label"], rows)
    wanted, found = sb.score(made, ours), sb.score(made, other, columns={"item": "img", "prediction": "pred"})
    assert wanted["value"].tolist() == found["value"].tolist()
    made.save(tmp_path / "b")
    words = ["--column", "item=img", "--column", "prediction=pred", "--json"]
    assert shell("score", tmp_path / "b", other, *words)[0] == 0
    assert "Write --column item=img" in shell("score", tmp_path / "b", other, "--column", "img")[2]


@pytest.mark.parametrize(("columns", "message"), [
    ({"item": "im"}, "No column named 'im'. Did you mean 'img'"),
    ({"itme": "img"}, "No column of predictions named 'itme'. Did you mean 'item'"),
    ({}, "Say which it is: --column item=NAME"),
])
def test_names_that_are_not_there_are_told(tmp_path, columns, message):
    """A slip in either name is answered with the nearest that is right."""
    made = benchmark()
    path = written(tmp_path / "p.csv", ["img", "prediction"], zip(made.items, answers(made), strict=True))
    with pytest.raises(ShiftBenchError, match=message):
        sb.score(made, path, columns=columns)


def test_a_column_of_scores_for_a_class_may_have_any_name(tmp_path):
    """Class by class, as the file calls them."""
    made = benchmark()
    path = written(tmp_path / "p.csv", ["id", "p0", "p1"], [(item, 0.75, 0.25) for item in made.items])
    loaded = sb.Predictions.load(path, made, columns={"cat": "p0", "dog": "p1"})
    assert np.allclose(np.exp(loaded.scores), [0.75, 0.25])


def sure(n=N, seed=0):
    """Probabilities of two classes."""
    first = np.random.default_rng(seed).uniform(0, 1, n)
    return np.stack([first, 1 - first], axis=1)


@pytest.mark.parametrize("mark", ["", "score:"])
def test_an_item_without_probabilities_does_not_turn_the_others_into_logits(tmp_path, mark):
    """Where most rows sum to 1 and some do not, the file is refused: the item and the number of them are named."""
    made, values = benchmark(), sure()
    values[7] = values[9] = [0.3, 0.3]
    head = ["item", f"{mark}cat", f"{mark}dog"]
    path = written(tmp_path / "p.csv", head, zip(made.items, *values.T, strict=True))
    with pytest.raises(ShiftBenchError, match=r"p\.csv: 2 of 60 items have no probabilities: the first, 'i07', sums to "
                                              r"0\.6\..*logit:CLASS"):
        sb.score(made, path)
    path = written(tmp_path / "q.csv", ["item", "logit:cat", "logit:dog"], zip(made.items, *values.T, strict=True))
    assert np.allclose(sb.Predictions.load(path, made).scores, values)
    path = written(tmp_path / "r.csv", head, zip(made.items, *values.T / 2, strict=True))  # surely no probabilities
    assert np.allclose(sb.Predictions.load(path, made).scores, values / 2)


@pytest.mark.parametrize(("row", "fault"), [([0.2, 0.2], r"sums to 0\.4"), ([5, 0.5], r"sums to 5\.5"),
                                            ([1.25, -0.25], r"has -0\.25 in it")])
@pytest.mark.parametrize("form", ["prob:", "prob_", "list"])
def test_what_is_called_a_probability_is_one(form, row, fault):
    """Columns prob:CLASS and a list of probabilities are held to what the arrays are held to."""
    made, values = benchmark(), sure()
    values[3] = row
    table = {"item": made.items, **({"probabilities": values} if form == "list" else {
        f"{form}cat": values[:, 0], f"{form}dog": values[:, 1]})}
    with pytest.raises(ShiftBenchError, match=f"^dict: 1 of 60 items have no probabilities: the first, 'i03', {fault}"):
        sb.score(made, table)


def test_probabilities_of_other_classes_count_to_the_sum():
    """A file of a model with more classes than the benchmark has."""
    made = benchmark()
    values = np.random.default_rng(0).dirichlet([1, 1, 1], N)
    table = {"item": made.items, **{f"prob:{name}": values[:, code] for code, name in enumerate(("cat", "dog", "cow"))}}
    assert np.allclose(np.exp(sb.Predictions.load(table, made).scores), values[:, :2])


def test_a_class_may_begin_like_a_word_for_its_scores():
    """Columns of the classes probable and unlikely are named by the classes, and hold logits."""
    made = benchmark(("probable", "unlikely"))
    values = np.random.default_rng(0).normal(size=(N, 2))
    table = {"item": made.items, "probable": values[:, 0], "unlikely": values[:, 1]}
    assert np.allclose(sb.Predictions.load(table, made).scores, values)


@pytest.mark.parametrize("form", ["file", "frame", "object"])
def test_predictions_of_a_whole_collection_go_on_to_every_verb(tmp_path, form):
    """More items and more classes in another order: `ignore_extra` of each verb, and the numbers are the benchmark's.
    """
    made = replace(benchmark(), split=np.where(np.arange(N) % 3, "test", "id_test"))
    classes, values = ("dog", "bird", "cat"), np.random.default_rng(0).normal(size=(N + 5, 3)).astype(np.float32)
    items = np.asarray([*made.items, *(f"x{k}" for k in range(5))])
    every = sb.Predictions(items, np.full(len(items), ""), values, classes)
    own = sb.Predictions(made.items, made.split, values[:N, [2, 0]], made.names["label"])
    source = {"file": every.save(tmp_path / "p.parquet"), "frame": every.to_pandas(), "object": every}[form]
    verbs = {"score": lambda thing, **more: sb.score(made, thing, **more),
             "gap": lambda thing, **more: sb.gap(thing, benchmarks=made, **more),
             "table": lambda thing, **more: sb.table(thing, benchmarks=made, **more),
             "select": lambda thing, **more: sb.select(thing, "oracle", benchmarks=made, allow_target=True, **more),
             "report": lambda thing, **more: sb.report(thing, tmp_path / "r.html", benchmarks=made, **more).read_text(),
             "board": lambda thing, **more: plain(sb.board(thing, made, seeds=1, **more))}
    for name, verb in verbs.items():
        with pytest.raises(ShiftBenchError, match="5 ids are not in the benchmark"):
            verb(source, method="m")
        with pytest.warns(UserWarning, match="5 of 65 ids are not in the benchmark"):
            outcome = verb(source, method="m", ignore_extra=True)
        assert outcome == verb(own, method="m"), name


def test_the_command_line_of_every_verb_leaves_extra_items_out(tmp_path, shell):
    """--ignore-extra is an option of all verbs that take predictions."""
    made = replace(benchmark(), split=np.where(np.arange(N) % 3, "test", "id_test"))
    made.save(tmp_path / "b")
    path = written(tmp_path / "p.csv", ["item", "prediction"], [*zip(made.items, answers(made), strict=True),
                                                                ("x1", "cat")])
    for verb, *words in (("gap",), ("select",), ("table",), ("report", "--out", tmp_path / "r.html"),
                         ("board", "--seeds", "1", "--out", tmp_path / "board")):
        code, _, err = shell(verb, path, "--benchmark", tmp_path / "b", *words)
        assert (code, "--ignore-extra" in err) == (1, True)
        code, _, err = shell(verb, path, "--benchmark", tmp_path / "b", *words, "--ignore-extra")
        assert (code, "1 of 61 ids are not in the benchmark" in err) == (0, True)


def test_extra_items_are_counted_and_left_out_on_request(tmp_path, shell):
    """Unknown ids are an error that names the option; with it they are counted, and the others are scored."""
    made = benchmark()
    rows = [*zip(made.items, answers(made), strict=True), ("x1", "cat"), ("x2", "bird")]
    path = written(tmp_path / "p.csv", ["item", "prediction"], rows)
    with pytest.raises(ShiftBenchError, match=r"2 ids are not in the benchmark, the first is 'x1'.*--ignore-extra"):
        sb.score(made, path)
    with pytest.warns(UserWarning, match="2 of 62 ids are not in the benchmark, the first is 'x1'; they are left out"):
        scores = sb.score(made, path, ignore_extra=True)
    assert scores.where(metric="accuracy", group="all")["value"] == [0.9]
    made.save(tmp_path / "b")
    code, out, err = shell("score", tmp_path / "b", path, "--ignore-extra", "--json")
    assert (code, "note:" in err, "2 of 62 ids" in err) == (0, True, True)
    assert json.loads(out)
    strange = written(tmp_path / "q.csv", ["item", "prediction"], [("x1", "cat")])
    with pytest.raises(ShiftBenchError, match="1 ids are not in the benchmark"):
        sb.score(made, strange, ignore_extra=True)


def test_the_confidence_of_two_classes_is_their_probability(tmp_path):
    """With two classes a prediction and its confidence score as the probabilities of both do, to the last digit."""
    made = benchmark()
    sure = np.round(np.random.default_rng(0).uniform(0.5, 1, N), 3)
    chosen = answers(made)
    one = written(tmp_path / "one.csv", ["item", "prediction", "confidence"],
                  zip(made.items, chosen, sure, strict=True))
    two = written(tmp_path / "two.csv", ["item", "prob:cat", "prob:dog"], [
        (item, p if word == "cat" else 1 - p, 1 - p if word == "cat" else p)
        for item, word, p in zip(made.items, chosen, sure, strict=True)])
    loaded, wanted = sb.Predictions.load(one, made), sb.Predictions.load(two, made)
    assert np.allclose(np.exp(loaded.scores), np.exp(wanted.scores), atol=3e-6)
    assert (loaded.predicted == [made.names["label"].index(word) for word in chosen]).all()
    assert "nll" in set(sb.score(made, one)["metric"])
    renamed = written(tmp_path / "named.csv", ["item", "prediction", "p"], zip(made.items, chosen, sure, strict=True))
    assert "nll" not in set(sb.score(made, renamed)["metric"])
    assert "nll" in set(sb.score(made, renamed, columns={"confidence": "p"})["metric"])


def test_the_confidence_of_many_classes_is_used_with_a_note(tmp_path):
    """The predicted class keeps its probability and stays the likeliest; that the rest is spread evenly is said."""
    made = benchmark(("a", "b", "c", "d"))
    path = written(tmp_path / "p.csv", ["item", "prediction", "confidence"],
                   [(item, word, 0.25 if k % 2 else 0.7) for k, (item, word) in enumerate(
                       zip(made.items, answers(made), strict=True))])
    with pytest.warns(UserWarning, match="spread evenly over the other 3 classes"):
        loaded = sb.Predictions.load(path, made)
    assert np.allclose(np.exp(loaded.scores).sum(axis=1), 1, atol=1e-5)
    assert np.allclose(np.exp(loaded.scores).max(axis=1)[::2], 0.7)
    assert [made.names["label"][code] for code in loaded.predicted] == answers(made)


@pytest.mark.parametrize("wrong", [0.2, 7.5, -1])
def test_a_confidence_that_is_none_is_not_used_and_told(tmp_path, wrong):
    """A number that cannot be the probability of the likeliest class leaves the predictions as they are."""
    made = benchmark()
    path = written(tmp_path / "p.csv", ["item", "prediction", "confidence"],
                   [(item, word, wrong if k == 4 else 0.9) for k, (item, word) in enumerate(
                       zip(made.items, answers(made), strict=True))])
    with pytest.warns(UserWarning, match="'confidence' is not used: row 5 has"):
        loaded = sb.Predictions.load(path, made)
    assert set(np.exp(loaded.scores).ravel().tolist()) == {0.0, 1.0}


def test_predictions_without_a_confidence_are_bare_choices(tmp_path):
    """As ever: certain of the choice, no log-loss."""
    made = benchmark()
    path = written(tmp_path / "p.csv", ["item", "prediction"], zip(made.items, answers(made), strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded = sb.Predictions.load(path, made)
    assert np.isneginf(loaded.scores).sum() == N
    assert (loaded.scores.max(axis=1) == 0).all()
