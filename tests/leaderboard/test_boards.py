"""A board says what scoring says, trusts nobody's numbers, and lists every submission with what it lacks."""

import csv
import dataclasses
import json
import math
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from typer.testing import CliRunner

import shiftbench as sb
from shiftbench.cli import app
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.predictions import Predictions
from shiftbench.leaderboard import make_board, required_seeds, submission
from shiftbench.scoring import means, score
from tests.strategies import toy

SPLITS = ("train", "val", "id_test", "test")


@pytest.fixture(scope="module")
def benchmark() -> Benchmark:
    collection = toy(500, 1)
    split = np.random.default_rng(1).choice(SPLITS, 500, p=[0.2, 0.2, 0.2, 0.4])
    return Benchmark.of(collection, None, 0, np.arange(500), split, label=collection.factor("class"),
                        domain=collection.factor("place"), card={"name": "toy"})


def guesses(benchmark: Benchmark, seed: int, skill: float, splits=("val", "id_test", "test")) -> Predictions:
    """Right with a given probability, with scores; items in any order."""
    rng = np.random.default_rng(seed)
    classes = len(benchmark.names["label"])
    right = rng.random(len(benchmark)) < skill
    guess = np.where(right, benchmark.label, (benchmark.label + 1) % classes)
    table = (np.eye(classes)[guess] + rng.random((len(benchmark), classes)) / 2).astype(np.float32)
    rows = rng.permutation(np.flatnonzero(np.isin(benchmark.split, splits)))
    return Predictions(benchmark.items[rows], benchmark.split[rows], table[rows], benchmark.names["label"])


def submit(root, name, made, predictions=(), **facts):
    """Write a submission; a fact that is None is left out."""
    place = root / name
    place.mkdir(parents=True)
    said = {"method": name.upper(), "authors": [f"{name} author"], "selected_on": "val", "external_data": False,
            "benchmark": made.digest, **facts}
    lines = [f"{key} = {json.dumps(value)}" for key, value in said.items() if value is not None]
    (place / "submission.toml").write_text("\n".join(lines) + "\n")
    for seed, one in enumerate(predictions):
        one.save(place / f"seed-{seed}.parquet")
    return place


def seeds(benchmark, skill, n=3, first=0, **more):
    return [guesses(benchmark, first + seed, skill, **more) for seed in range(n)]


def by_name(board):
    return {one.verified.entry.folder: one for one in board.listed}


def wilds_files(place, benchmark, predictions, word=str):
    """The same predictions as WILDS writes them: a file per split and seed, a code per line."""
    for seed, one in enumerate(predictions):
        code = dict(zip(one.item.tolist(), one.predicted.tolist(), strict=True))
        for split in np.unique(one.split).tolist():
            lines = [word(code[item]) for item in benchmark.items[benchmark.rows(split)].tolist()]
            (place / f"toy_split:{split}_seed:{seed}_epoch:best_pred.csv").write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def folder(benchmark, tmp_path_factory):
    root = tmp_path_factory.mktemp("board") / "submissions"
    submit(root, "good", benchmark, seeds(benchmark, 0.9), paper="https://example.org/?a=1&b=<2>", accuracy=0.999,
           code="https://example.org/code", parameters=25_000_000)
    submit(root, "near", benchmark, seeds(benchmark, 0.89, first=10))
    submit(root, "far", benchmark, seeds(benchmark, 0.5, first=20, splits=("test",)))
    submit(root, "more", benchmark, seeds(benchmark, 0.95, first=30), external_data="<b>JFT</b>", model="ViT")
    wilds_files(submit(root, "lines", benchmark), benchmark, seeds(benchmark, 0.8, first=40))
    submit(root, "other", benchmark, seeds(benchmark, 0.9, first=50), benchmark="0" * 64)
    part = seeds(benchmark, 0.9, first=60)
    rows = np.arange(len(part[2])) != np.flatnonzero(part[2].split == "test")[0]
    part[2] = Predictions(part[2].item[rows], part[2].split[rows], part[2].scores[rows], part[2].classes)
    submit(root, "partial", benchmark, part)
    submit(root, "peeks", benchmark, seeds(benchmark, 0.97, first=70), selected_on="test")
    submit(root, "two", benchmark, seeds(benchmark, 0.9, n=2, first=80))
    submit(root, "zcopy", benchmark, seeds(benchmark, 0.9))
    submit(root, "silent", benchmark, seeds(benchmark, 0.9, first=90), external_data=None, paper="javascript:alert(1)",
           method="<script>x</script>")
    (root / "empty").mkdir()
    return root


@pytest.fixture(scope="module")
def board(folder, benchmark):
    return make_board(folder, benchmark)


def test_numbers_are_those_of_scoring(board, benchmark):
    """Mean, interval and each seed's value equal scoring the predictions directly; the deviation has ddof 1."""
    runs = seeds(benchmark, 0.9)
    direct = means(benchmark, {"good": runs})
    for split in ("test", "val", "id_test"):
        for metric in ("accuracy", "worst_group_accuracy", "macro_f1"):
            cell = by_name(board)["good"].cell(split, metric)
            rows = [row for row in direct.where(split=split, metric=metric)
                    if row["group"] == "all" or metric.startswith("worst")]
            assert [cell[key] for key in ("value", "low", "high")] == pytest.approx(
                [rows[0][key] for key in ("value", "low", "high")])
            each = [next(row["value"] for row in score(benchmark, one, replicates=0).where(split=split, metric=metric))
                    for one in runs]
            assert list(cell["seeds"].values()) == pytest.approx(each)
            assert cell["std"] == pytest.approx(np.std(each, ddof=1))


def test_order_ties_and_tables(board):
    """Those that count stand by their mean; what cannot be told from the best is marked; other data stand apart."""
    order = [(one.verified.entry.folder, one.rank) for one in board.table(True)]
    values = [one.cell("test", "accuracy")["value"] for one in board.table(True)]
    assert values == sorted(values, reverse=True)
    assert {name for name, _ in order} == {"good", "near", "lines", "far"}
    assert [rank for _, rank in order] == [1, 2, 3, 4]
    assert order[-1][0] == "far"
    assert [(one.verified.entry.folder, one.rank) for one in board.table(False)] == [("more", 1)]
    first, second = board.table(True)[:2]
    assert first.cell("test", "accuracy")["best"]
    assert second.cell("test", "accuracy")["tied"]
    assert not by_name(board)["far"].cell("test", "accuracy")["tied"]


@pytest.mark.parametrize(("name", "why"), [
    ("other", "another benchmark"), ("partial", "1 of the .* items of split 'test' are missing"),
    ("peeks", "by test, which is for the final evaluation only"), ("two", "2 of the 3 seeds"),
    ("zcopy", "predictions are those of 'good'"), ("silent", "'external_data' is missing"),
    ("silent", "'paper' is not a link"), ("empty", "has no submission.toml"),
])
def test_what_does_not_count_is_listed_with_its_reason(board, folder, name, why):
    """An entry that breaks a rule keeps its place on the board, without a rank, and the reason names no machine."""
    one = by_name(board)[name]
    assert one.rank is None
    assert re.search(why, " ".join(one.verified.reasons))
    assert str(folder) not in " ".join(one.verified.reasons)


def test_silence_is_no_declaration(board):
    """What a submission does not say is shown as not declared, never as none."""
    rules = {rule.name: rule for rule in by_name(board)["silent"].verified.rules}
    assert (rules["External data (9.1)"].met, rules["External data (9.1)"].says) == (False, "not declared")
    rules = {rule.name: rule for rule in by_name(board)["good"].verified.rules}
    assert (rules["External data (9.1)"].met, rules["External data (9.1)"].says) == (True, "none")
    assert all(rule.met for rule in rules.values())


def test_numbers_without_rank(board):
    """A submission whose predictions are sound has its numbers even where it does not count; else it has none."""
    assert by_name(board)["peeks"].cell("test", "accuracy")["value"] > 0.9
    assert not by_name(board)["partial"].cells
    assert by_name(board)["far"].cell("val", "accuracy") is None


def test_wilds_files_are_the_same_predictions(board, benchmark, tmp_path):
    """Codes or names, one per line in the order of the split, score as the table with ids does."""
    runs = seeds(benchmark, 0.8, first=40)
    direct = means(benchmark, {"lines": runs}).where(split="test", metric="accuracy", group="all")
    assert by_name(board)["lines"].cell("test", "accuracy")["value"] == pytest.approx(next(iter(direct))["value"])
    place = submit(tmp_path / "all", "named", benchmark)
    wilds_files(place, benchmark, runs, word=lambda code: benchmark.names["label"][code])
    made = by_name(make_board(tmp_path / "all", benchmark))["named"]
    assert made.cell("test", "accuracy")["seeds"] == by_name(board)["lines"].cell("test", "accuracy")["seeds"]


def test_wilds_own_numbers_are_those_of_the_column_y(benchmark, tmp_path):
    """Where rows keep WILDS' numbers of the classes, its files mean those, in whatever order the names are."""
    y = (benchmark.label + 7) % 11
    made = dataclasses.replace(benchmark, extra={"y": y})
    one = guesses(made, 0, 0.8)
    number = {int(code): int(value) for code, value in zip(made.label, y, strict=True)}
    place = submit(tmp_path, "theirs", made)
    wilds_files(place, made, [one], word=lambda code: str(number[code]))
    parts = submission.find_files(place)[0]
    read = submission.load(parts, made)
    order = np.argsort(read.item)
    assert np.array_equal(read.predicted[order], one.predicted[np.argsort(one.item)])



@pytest.mark.parametrize(("file", "text", "why"), [
    ("toy_split:test_seed:0_pred.csv", "0\n1\n", "2 lines, but split 'test' has"),
    ("toy_split:test_fold:A_pred.csv", "0\n", "every fold has its own items"),
    ("toy_split:id_val_seed:0.csv", "0\n", "no split 'id_val'"),
    ("model.pth", "x", "may hold code"), ("mine.csv", "item,prediction\n", "which seed"),
    ("seed-0.parquet", "no parquet", "not a readable parquet"), ("seed-0.csv", "a,b\n1,2\n", "has no column 'item'"),
])
def test_a_bad_file_is_a_reason(benchmark, tmp_path, file, text, why):
    """Whatever a stranger's file holds, the board is made and says what is wrong with it."""
    place = submit(tmp_path, "one", benchmark)
    (place / file).write_text(text)
    one = by_name(make_board(tmp_path, benchmark))["one"]
    assert one.rank is None
    assert why in " ".join(one.verified.reasons)


@pytest.mark.parametrize("text", [
    "method = ", "method = " + "[" * 20_000, "parameters = " + "9" * 5000, "a = 1\n" * 2, "x" * 100_000, "\0",
    'method = ["a"]\nauthors = 3\nexternal_data = true\nselected_on = []\nparameters = true\npaper = 1\nbenchmark = 2',
])
def test_a_hostile_submission_file_is_a_reason(benchmark, tmp_path, text):
    """No `submission.toml` keeps the board from being made and written."""
    place = submit(tmp_path / "all", "one", benchmark)
    (place / "submission.toml").write_text(text)
    (tmp_path / "all" / "bad\udcff\n").mkdir()
    made = sb.board(tmp_path / "all", benchmark, tmp_path / "out")
    assert [one.rank for one in made.listed] == [None, None]
    assert all(one.verified.reasons for one in made.listed)
    assert (tmp_path / "out" / "index.html").read_text()


def test_nothing_outside_a_submission_is_read(benchmark, tmp_path, monkeypatch):
    """A link out of the folder is refused, and so is a file that is too large, before it is opened."""
    secret = tmp_path / "secret.parquet"
    guesses(benchmark, 0, 0.9).save(secret)
    place = submit(tmp_path / "all", "link", benchmark)
    (place / "seed-0.parquet").symlink_to(secret)
    (tmp_path / "away").mkdir()
    (tmp_path / "all" / "whole").symlink_to(submit(tmp_path / "away", "whole", benchmark))
    submit(tmp_path / "all", "large", benchmark, seeds(benchmark, 0.9, first=5))
    monkeypatch.setattr(submission, "MOST_BYTES", 100)
    found = by_name(make_board(tmp_path / "all", benchmark))
    assert "leads out" in found["link"].verified.reasons[0]
    assert "leads out" in found["whole"].verified.reasons[0]
    assert "at most 100 are read" in found["large"].verified.reasons[0]


@pytest.mark.slow
def test_other_metrics_rank(folder, benchmark, tmp_path, few_replicates):
    """Any metric ranks, one that is better when lower from below; an unknown one is an error."""
    for metric, lower in (("worst_group_accuracy", False), ("macro_recall", False), ("nll", True)):
        made = make_board(folder, benchmark, metric=metric)
        cells = [one.cell("test", metric) for one in made.table(True) if one.cell("test", metric)]
        values = [cell["value"] for cell in cells]
        assert values == sorted(values, reverse=not lower)
        assert cells[0]["best"]
        assert len(values) == (3 if metric == "nll" else 4)  # lines of classes have no loss
    assert by_name(made)["lines"].rank is None
    assert "bare choices" in by_name(made)["lines"].verified.reasons[0]
    wilds_files(submit(tmp_path, "lines", benchmark), benchmark, seeds(benchmark, 0.8))
    assert make_board(tmp_path, benchmark, metric="nll").listed[0].rank is None
    with pytest.raises(ShiftBenchError, match="No metric named 'acuracy'"):
        make_board(folder, benchmark, metric="acuracy")


def test_seeds_are_those_of_the_data(benchmark):
    """WILDS asks for ten seeds of Camelyon17, five of CivilComments, three of others."""
    def of(name):
        return Benchmark(benchmark.items, benchmark.split, benchmark.label, benchmark.domain, benchmark.group,
                         benchmark.names, {"collection": {"name": name}})
    assert [required_seeds(of(name)) for name in ("camelyon17", "civilcomments", "iwildcam")] == [10, 5, 3]


class Links(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.links, self.loaded = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for key, value in attrs if key == "href"]
        self.loaded += [value for key, value in attrs if key in ("src", "srcset", "action", "data")]


def test_written_files(folder, benchmark, tmp_path):
    """The page has every entry, escaped, loads nothing, and links only to what is declared; tables say the same."""
    saved = benchmark.save(tmp_path / "toy")
    out = tmp_path / "out"
    made = sb.board(folder, saved, out)
    text = (out / "index.html").read_text()
    page = Links()
    page.feed(text)
    for one in made.listed:
        assert one.verified.entry.folder in text
    assert not page.loaded
    assert not {"script", "img", "link", "iframe"} & set(page.tags)
    assert "url(" not in text
    assert set(page.links) == {"https://example.org/?a=1&b=<2>", "https://example.org/code"}
    assert "&lt;script&gt;" in text
    assert "<b>JFT" not in text
    facts = json.loads((out / "board.json").read_text())
    assert {entry["folder"] for entry in facts["entries"]} == {path.name for path in folder.iterdir()}
    assert facts["benchmark"]["digest"] == benchmark.digest
    rows = list(csv.DictReader((out / "board.csv").open()))
    good = next(entry for entry in facts["entries"] if entry["folder"] == "good")
    line = next(row for row in rows if row["folder"] == "good")
    assert float(line["test:accuracy:value"]) == pytest.approx(good["scores"]["test"]["accuracy"]["value"])
    assert good["scores"]["test"]["accuracy"]["value"] < 0.99  # not what it says of itself
    assert len(rows) == len(made.listed)


@pytest.mark.slow
def test_command_line(folder, benchmark, tmp_path):
    """`shiftbench board` prints the table or JSON and writes the folder; a second time over its own files."""
    saved = benchmark.save(tmp_path / "toy")
    command = ["board", str(folder), "--benchmark", str(saved), "--out", str(tmp_path / "out")]
    for extra in ([], ["--json", "--seeds", "2"]):
        done = CliRunner().invoke(app, [*command, *extra])
        assert done.exit_code == 0, done.output
    entries = {entry["folder"]: entry for entry in json.loads(done.output)["entries"]}
    assert entries["two"]["valid"]
    assert not any(isinstance(value, float) and math.isnan(value) for entry in entries.values()
                   for value in entry["scores"].get("test", {}).get("accuracy", {}).values())
