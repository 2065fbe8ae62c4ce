"""The same predictions as run folders and as files from outside give the same numbers wherever runs are compared."""

import json
from dataclasses import replace
from shutil import copytree

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shiftbench as sb
from shiftbench.cli import app
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import file_digests
from shiftbench.core.tables import write_table
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.scores import run_id
from shiftbench.leaderboard.writing import plain
from shiftbench.scoring import score_runs
from tests.leaderboard.test_boards import guesses
from tests.strategies import toy

NUMBERS = ("stat", "runs", "benchmark", "digest", "method", "seed", "split", "by", "group", "n", "metric")
SPLITS = ("train", "id_val", "id_test", "test")
MODELS = [("erm", 0.1, 0.70), ("erm", 0.01, 0.78), ("irm", 0.1, 0.74)]


def run_folder(place, benchmark, home, predictions, **settings):
    """A finished run as training leaves it."""
    settings = {"benchmark": benchmark.digest, "model": "small-cnn", **settings}
    folder = place / run_id(settings)
    folder.mkdir(parents=True)
    predictions.save(folder / "predictions.parquet")
    (folder / "run.json").write_text(json.dumps({
        "id": run_id(settings), "run": settings, "files": file_digests(folder, ["predictions.parquet"]),
        "benchmark": {"name": benchmark.name, "digest": benchmark.digest, "path": str(home)}}))
    (folder / "done").write_text("")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Three settings of two methods with three seeds each: `runs`, one table of all, and a file for each."""
    place = tmp_path_factory.mktemp("outside")
    collection = toy(400, 1)
    split = np.random.default_rng(1).choice(SPLITS, 400, p=[0.2, 0.2, 0.2, 0.4])
    Benchmark.of(collection, None, 0, np.arange(400), split, label=collection.factor("class"),
                 domain=collection.factor("place"), card={"name": "bench"}).save(place / "bench")
    benchmark, parts = Benchmark.load(place / "bench"), []
    for number, (method, lr, skill) in enumerate(MODELS):
        for seed in range(3):
            made = guesses(benchmark, 10 * number + seed, skill, splits=("id_val", "id_test", "test"))
            run_folder(place / "runs", benchmark, place / "bench", made, method=method, lr=lr, seed=seed)
            table = made.to_arrow()
            write_table(place / f"{method}-{lr}-{seed}.csv", table)
            words = {"method": method, "setting": f"lr={lr}", "seed": seed}
            parts.append(pa.table({**{key: [value] * len(made) for key, value in words.items()},
                                   **{name: table[name] for name in table.column_names}}))
    pq.write_table(pa.concat_tables(parts), place / "all.parquet")
    return place


def words(place):
    """A file for each model, and the words for them."""
    listed = [(method, lr, seed) for method, lr, _ in MODELS for seed in range(3)]
    return [place / f"{method}-{lr}-{seed}.csv" for method, lr, seed in listed], {
        "method": [method for method, _, _ in listed], "setting": [f"lr={lr}" for _, lr, _ in listed],
        "seed": [seed for *_, seed in listed]}


def same(one, other):
    """Equal but for the names of runs and settings."""
    one, other = (sorted(scores, key=lambda row: [str(row[name]) for name in NUMBERS] + [row["value"]])
                  for scores in (one, other))
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        assert [a[name] for name in NUMBERS] == [b[name] for name in NUMBERS]
        np.testing.assert_allclose([a[name] for name in ("value", "low", "high", "p")],
                                   [b[name] for name in ("value", "low", "high", "p")], atol=1e-12)


def test_scores_intervals_and_comparisons_are_those_of_runs(place):
    """From one table with columns and from files with words: each run, each mean, each difference."""
    own = score_runs(place / "runs")
    assert set(own["stat"]) == {"run", "mean", "difference"}
    same(own, sb.score(place / "bench", place / "all.parquet"))
    files, described = words(place)
    same(own, sb.score(place / "bench", *files, **described))


def test_selection_is_that_of_runs(place):
    """Every rule chooses the same seed and regret, and refuses the same."""
    files, described = words(place)
    own = sb.select(place / "runs")
    for outside in (sb.select(place / "all.parquet", benchmarks=place / "bench"),
                    sb.select(files, benchmarks=place / "bench", **described)):
        chosen, others = (sorted((choice.rule, choice.benchmark, choice.method, choice.seed, choice.among,
                                  choice.criterion, choice.test, choice.low, choice.high, choice.regret)
                                 for choice in selection.choices) for selection in (own, outside))
        assert chosen == others
        assert len(chosen) > 5


def test_tables_and_pages_compare_items_as_those_of_runs(place, tmp_path):
    """The means, differences and p-values of `table` are equal, and the report shows both methods."""
    own = sb.table(place / "runs")
    outside = sb.table(place / "all.parquet", benchmarks=place / "bench")
    assert [line[3:] for line in own] == [line[3:] for line in outside]
    page = sb.report(place / "all.parquet", tmp_path / "r.html", benchmarks=place / "bench").read_text()
    assert "irm" in page


def test_gaps_are_those_of_runs(place):
    """Of runs on a benchmark with id_test and test."""
    same(sb.gap(place / "runs"), sb.gap(place / "all.parquet", benchmarks=place / "bench"))


def test_rows_of_a_board_are_those_of_runs(place, tmp_path):
    """Ranks, means, deviations and paired comparisons; a benchmark in memory serves as well."""
    benchmark = sb.Benchmark.load(place / "bench")
    own, outside = sb.board(place / "runs", benchmark), sb.board(place / "all.parquet", benchmark, tmp_path / "board")
    rows = [[(entry.rank, entry.verified.entry.method.split()[0], cell["value"], cell["std"], cell["low"],
              cell["high"], cell["behind"] and cell["behind"].p)
             for entry in board.listed if (cell := entry.cell("test", board.measure))] for board in (own, outside)]
    assert rows[0] == rows[1]
    assert [row[0] for row in rows[0]] == [1, 2, 3]
    assert (tmp_path / "board" / "index.html").is_file()


def test_an_outside_model_is_compared_with_runs(place):
    """A folder of runs and a file together: the file is one more method, on the same items."""
    lines = sb.table([place / "runs", place / "irm-0.1-0.csv"], benchmarks=place / "bench", name="mine", method="mine")
    assert {line.method.split(" ")[0] for line in lines} == {"erm", "irm", "mine"}


def test_a_single_described_model_is_one_run(place):
    """Its words are the columns of the scores; there is no mean."""
    scores = sb.score(place / "bench", place / "erm-0.1-0.csv", name="a7", method="forest", setting="depth=3", seed=4)
    assert set(zip(scores["run"], scores["method"], scores["seed"], scores["stat"], strict=True)) == {
        ("a7", "forest", 4, "run")}


def test_a_class_may_be_called_as_a_column(place):
    """Where the benchmark has a class named `model`, that column holds its scores."""
    collection = sb.Collection("odd", np.asarray(["a", "b"]))
    benchmark = Benchmark.of(collection, None, 0, np.arange(2), np.asarray(["test", "test"]),
                             label=np.asarray(["model", "other"]), domain=np.asarray(["x", "x"]))
    scores = sb.score(benchmark, {"item": ["a", "b"], "model": [3.0, 0.0], "other": [0.0, 3.0]})
    assert scores.where(metric="accuracy", group="all", by="")["value"].tolist() == [1.0]


@pytest.mark.parametrize(("words", "message"), [
    ({"method": ["a", "b"]}, "There are 2 words for method, but 3 files"),
    ({"method": "a"}, "second model of method 'a' with seed 0 on 'bench'"),
    ({"method": "a", "seed": [0, 1, 1]}, "second model of method 'a' with seed 1"),
])
def test_words_that_do_not_tell_models_apart_are_one_line(place, words, message):
    """Too few words, or the same for two models."""
    files = [place / f"erm-0.1-{seed}.csv" for seed in range(3)]
    with pytest.raises(ShiftBenchError, match=message):
        sb.score(place / "bench", *files, **words)


def test_wrong_files_are_one_line_that_names_the_model(place, tmp_path):
    """Missing items name file and model; so do a missing benchmark, words without predictions, and a bad seed."""
    table = pq.read_table(place / "all.parquet")
    write_table(tmp_path / "cut.csv", table.slice(0, len(table) - 3))
    with pytest.raises(ShiftBenchError, match=r"cut\.csv \(method irm, setting lr=0\.1, seed 2\): \d of the"):
        sb.score(place / "bench", tmp_path / "cut.csv")
    with pytest.raises(ShiftBenchError, match=r"all\.parquet: predictions say nothing about their benchmark"):
        sb.select(place / "all.parquet")
    with pytest.raises(ShiftBenchError, match="runs: holds no predictions for name, method"):
        sb.select(place / "runs", method="a")
    with pytest.raises(ShiftBenchError, match="column 'seed' has 'x'"):
        sb.score(place / "bench", {"item": ["a"], "prediction": ["cat"], "seed": ["x"]})


@pytest.mark.slow
def test_the_command_line_has_the_same_words(place, tmp_path, capsys):
    """`score`, `select`, `gap`, `table`, `report` and `board` take files with --method, --setting and --seed."""
    files, described = words(place)
    said = [word for key, values in described.items() for value in values for word in (f"--{key}", str(value))]
    bench = ["--benchmark", str(place / "bench")]
    app(["score", str(place / "bench"), *map(str, files), *said, "--json"], standalone_mode=False)
    for verb, more in (("select", ["--json"]), ("gap", ["--json"]), ("table", ["--json"]),
                       ("report", ["--out", str(tmp_path / "r.html")]), ("board", ["--out", str(tmp_path / "b"),
                                                                                   "--json"])):
        capsys.readouterr()
        app([verb, *map(str, files), *said, *bench, *more], standalone_mode=False)
        assert "irm" in (capsys.readouterr().out + (tmp_path / "r.html").read_text() if verb == "report"
                         else capsys.readouterr().out)


def finished(place):
    """The folders of the runs."""
    return sorted(file.parent for file in (place / "runs").glob("*/done"))


def test_the_folder_of_a_run_is_a_source_everywhere(place, tmp_path):
    """Alone, and in a list with others: what a folder that holds these runs gives."""
    runs = finished(place)
    alone = tmp_path / "alone"
    copytree(runs[0], alone / runs[0].name)
    for source in (runs[0], str(runs[0]), [runs[0]]):
        assert sb.table(source) == sb.table(alone)
        assert sb.select(source, "id") == sb.select(alone, "id")
        page = sb.report(source, tmp_path / "r.html").read_text()
        assert page == sb.report(alone, tmp_path / "r.html").read_text()
        assert plain(sb.board(source, place / "bench", seeds=1)) == plain(sb.board(alone, place / "bench", seeds=1))
    assert sb.gap(runs[0]) == sb.gap(alone)
    assert score_runs(runs[0]) == score_runs(alone)
    assert sb.table(runs) == sb.table(place / "runs")
    assert sb.select(runs) == sb.select(place / "runs")
    assert sb.gap(*runs) == sb.gap(runs) == sb.gap(place / "runs")
    assert plain(sb.board(runs, place / "bench")) == plain(sb.board(place / "runs", place / "bench"))


def test_messages_name_what_the_user_named(place, tmp_path):
    """Not the folder in which runs of several places are gathered."""
    for name in ("one", "two"):
        copytree(finished(place)[0], tmp_path / name / "r")
        (tmp_path / name / "r" / "done").unlink()
    with pytest.raises(ShiftBenchError, match=rf"^{tmp_path}/one, {tmp_path}/two: no finished run is in there "
                                              r"\(2 failed or unfinished; shiftbench show DIR says which\)"):
        sb.table([tmp_path / "one", tmp_path / "two"])
    copytree(finished(place)[0], tmp_path / "three" / "damaged")
    with (tmp_path / "three" / "damaged" / "predictions.parquet").open("ab") as file:
        file.write(b"x")
    with pytest.raises(ShiftBenchError, match=rf"^{tmp_path}/three/damaged/predictions.parquet: does not match"):
        sb.table([tmp_path / "three" / "damaged", finished(place)[1]])
    with pytest.warns(UserWarning, match=rf"^{tmp_path}/three/damaged, .*unreadable: .*, on bench, seed 0, "
                                         "damaged/predictions.parquet: does not match"):
        page = sb.report([tmp_path / "three" / "damaged", finished(place)[1]], tmp_path / "r.html").read_text()
    assert "staging" not in page


def test_two_runs_of_one_name_are_refused(place, tmp_path):
    """In two folders, and in a folder and from outside."""
    run = finished(place)[0]
    copytree(run, tmp_path / "again" / run.name)
    with pytest.raises(ShiftBenchError, match=rf"^{tmp_path}/again/{run.name}: a run of this name is in another"):
        sb.table([place / "runs", tmp_path / "again"])
    message = f"Two runs are named '{run.name}'. Give the one from outside another name"
    with pytest.raises(ShiftBenchError, match=message):
        sb.table([place / "runs", place / "irm-0.1-0.csv"], benchmarks=place / "bench", name=run.name)


def test_words_are_counted_before_files_are_read(place, tmp_path):
    """One for all files, or one for each: any other number is an error, whatever the files hold."""
    with pytest.raises(ShiftBenchError, match=r"^There are 3 words for seed, but 2 files .* Give one --seed for all"):
        sb.table([tmp_path / "a.csv", tmp_path / "b.csv"], benchmarks=place / "bench", seed=[0, 1, 2])


@pytest.mark.parametrize("seed", ["a", 1.5, -1])
def test_a_seed_is_a_whole_number(place, seed):
    """Anything else is refused, also in Python: -1 marks means, and 1.5 would become 1."""
    with pytest.raises(ShiftBenchError, match=rf"^irm-0\.1-0: seed has '{seed}', which is no whole number from 0\.$"):
        sb.score(place / "bench", place / "irm-0.1-0.csv", seed=[seed])


def test_an_unknown_reference_is_named(place):
    """A wrong word is an error of its own, not a reference that has no runs."""
    with pytest.raises(ShiftBenchError, match=r"^No reference named 'random'\. Did you mean 'random-split'\?"):
        sb.gap(place / "runs", reference="random")


def test_a_board_counts_a_seed_once(place, tmp_path):
    """Two models of one method, setting and seed are refused whatever their names, and so is a run in two folders."""
    files = [place / "irm-0.1-0.csv", place / "irm-0.1-1.csv"]
    with pytest.raises(ShiftBenchError, match=r"^Two runs of 'irm' on benchmark 'bench' have seed 0, .*--setting\.$"):
        sb.board(files, place / "bench", method="irm", name=["one", "two"])
    assert len(sb.board(files, place / "bench", method="irm", seed=[0, 1], seeds=2).table(True)) == 1
    run = finished(place)[0]
    copytree(run, tmp_path / run.name)
    with pytest.raises(ShiftBenchError, match="a run of this name is in another folder too"):
        sb.board([place / "runs", tmp_path], place / "bench")


def test_logits_from_outside_are_read_once(place):
    """Logits that look like probabilities stay logits, for a table as for a score."""
    benchmark = sb.Benchmark.load(place / "bench")
    rows = np.flatnonzero(benchmark.split == "test")
    logits = np.zeros((len(rows), len(benchmark.names["label"])))
    logits[np.arange(len(rows)), benchmark.label[rows]] = 1.0
    predictions = sb.Predictions.of(benchmark, benchmark.items[rows], logits=logits)
    value = sb.score(benchmark, predictions).where(metric="nll", split="test", group="all", by="")["value"]
    (line,) = sb.table(predictions, benchmarks=benchmark, metrics="nll")
    assert line.mean == value == pytest.approx(np.log(len(benchmark.names["label"]) - 1 + np.e) - 1)


def test_words_describe_no_runs(place):
    """Of several folders of runs as of one."""
    with pytest.raises(ShiftBenchError, match="holds no predictions for name, method"):
        sb.table(finished(place), method="mine")


# Folds

def two_folds():
    """Two benchmarks of the same items: what one holds out, the other trains on."""
    collection = toy(200, 1)
    for fold, held in enumerate(("test", "train")):
        split = np.where(np.arange(200) < 100, held, "train" if held == "test" else "test")
        yield Benchmark.of(collection, None, 0, np.arange(200), split, label=collection.factor("class"),
                           domain=collection.factor("place"), card={"name": f"fold-{fold}"})


def apart(fold, first):
    """The test of a fold alone, as a benchmark that shares no item with the other's."""
    rows = fold.rows("test")
    return replace(fold, items=fold.items[rows], split=fold.split[rows], label=fold.label[rows],
                   domain=fold.domain[rows], group=fold.group[rows], card={**fold.card, "name": f"apart-{first}"})


def values(board):
    return {entry.verified.entry.method: (entry.rank, entry.cell("test", board.measure)["seeds"])
            for entry in board.listed}


def test_a_board_of_folds_takes_predictions_and_runs(tmp_path, shell):
    """A file for each model with the items of all folds, a file for each model and fold, and a folder of runs: the same
    numbers as the boards of each fold."""
    folds = list(two_folds())
    models = {"m1": 0.9, "m2": 0.6}
    made = {(name, number): guesses(fold, 7 * number, skill, splits=("test",))
            for name, skill in models.items() for number, fold in enumerate(folds)}
    for (name, number), one in made.items():
        one.save(tmp_path / f"{name}-{number}.parquet")
        fold = folds[number]
        fold.save(tmp_path / fold.name)
        run_folder(tmp_path / "runs", fold, tmp_path / fold.name, one, method=name, seed=0)
    own = [sb.board(tmp_path / "runs", fold, seeds=1) for fold in folds]
    expected = {name: (rank, {f"fold-{number}": board.listed[rank - 1].cell("test", "accuracy")["value"]
                              for number, board in enumerate(own)}) for rank, name in enumerate(models, start=1)}
    files = [tmp_path / f"{name}-{number}.parquet" for name in models for number in range(2)]
    assert values(sb.board(tmp_path / "runs", folds)) == expected
    assert values(sb.board(files, folds, method=["m1", "m1", "m2", "m2"])) == expected
    words = [word for fold in folds for word in ("--benchmark", tmp_path / fold.name)]
    assert shell("board", tmp_path / "runs", *words, "--out", tmp_path / "board")[0] == 0
    apart_folds = [apart(fold, number) for number, fold in enumerate(folds)]
    whole = [pd.concat([made[name, number].to_pandas() for number in range(2)]) for name in models]
    board = sb.board(whole, apart_folds, method=list(models))
    assert [one[0] for one in values(board).values()] == [1, 2]
    assert [list(one[1].values()) for one in values(board).values()] == [
        list(one[1].values()) for one in expected.values()]
    with pytest.raises(ShiftBenchError, match="1 ids are not in the benchmark, the first is 'x'"):
        sb.board([whole[0].replace({"item": {whole[0]["item"].iloc[0]: "x"}})], apart_folds)


def test_a_model_that_lacks_a_fold_is_listed_with_the_reason(tmp_path):
    """It does not count, and neither does one with too few seeds."""
    folds = list(two_folds())
    files = {f"{name}-{number}": guesses(fold, len(name), 0.8, splits=("test",)) for number, fold in enumerate(folds)
             for name in ("whole", "half") if (name, number) != ("half", 1)}
    board = sb.board(list(files.values()), folds, method=[name.split("-")[0] for name in files])
    assert [(entry.verified.entry.method, entry.rank) for entry in board.listed] == [("whole", 1), ("half", None)]
    assert board.listed[1].verified.reasons == ("Fold fold-1: There are no predictions of it.",)
    board = sb.board(list(files.values()), folds, method=[name.split("-")[0] for name in files], seeds=2)
    assert "1 of the 2 seeds" in " ".join(board.listed[0].verified.reasons)


def test_folders_of_runs_are_scored_under_their_own_names(place):
    """`sb.score(bench, *runs)` gives what scoring their folder does; a run on other rows is refused."""
    folders = finished(place)
    same(sb.score(place / "bench", *folders), score_runs(place / "runs"))
    whole = sb.Benchmark.load(place / "bench")
    other = replace(whole, card={**whole.card, "name": "other"}, label=1 - whole.label)
    with pytest.raises(ShiftBenchError, match="is a run on benchmark 'bench', whose rows are not those of 'other'"):
        sb.score(other, folders[0])
