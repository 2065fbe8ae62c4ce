"""The page says what the scores say, in one file that loads nothing and trusts no name."""

import base64
import io
import math
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from rich.console import Console

from shiftbench.benchmark import Benchmark
from shiftbench.collection import Collection
from shiftbench.predictions import Predictions
from shiftbench.reporting import (
    as_table,
    distance_tables,
    families,
    family_table,
    pivot,
    report,
    scores_table,
    share_tables,
)
from shiftbench.reporting.figures import LINE, ladder
from shiftbench.reporting.tables import percent
from shiftbench.scores import ALL, Scores
from shiftbench.scoring import BEHIND, means, score

VOID = {"meta", "img", "br"}
EVIL = '<script>alert("1")</script> & <img src=x onerror=alert(1)> [bold]{{ 7 * 7 }}'


class Page(HTMLParser):
    """Checks that tags nest, and keeps what a test may ask for."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str, str]] = []
        self.words: list[str] = []
        self.data: list[tuple[float, str]] = []
        self.feed(text)
        self.close()
        assert not self.stack, self.stack

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.stack.append(tag)
        if tag == "data":
            self.data.append((float(dict(attrs)["value"]), ""))

    def handle_startendtag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag

    def handle_data(self, text):
        if self.stack and self.stack[-1] == "data":
            self.data[-1] = (self.data[-1][0], text)
        self.words.append(text)


def pictures(n: int = 240, name: str = "toy") -> Collection:
    rng = np.random.default_rng(0)
    return Collection(
        name, np.asarray([f"{name} {k}" for k in range(n)]),
        {"class": rng.choice(["cat", EVIL], n), "place": rng.choice(["in", "out"], n)},
        pixels=rng.integers(0, 256, (n, 8, 8, 3), dtype=np.uint8))


def benchmark(collection: Collection, name: str, seed: int = 0, **card: object) -> Benchmark:
    split = np.random.default_rng(1000 + seed).choice(["train", "id_test", "test"], len(collection))
    return Benchmark.of(collection, None, seed, np.arange(len(collection)), split, label=collection.factor("class"),
                        domain=collection.factor("place"), card={"name": name, **card})


def guesses(made: Benchmark, skill: float, seed: int) -> Predictions:
    rng = np.random.default_rng(seed)
    guess = np.where(rng.random(len(made)) < skill, made.label, 1 - made.label)
    return Predictions(made.items, made.split, np.eye(2, dtype=np.float32)[guess], made.names["label"])


@pytest.fixture(scope="module")
def study() -> tuple[Scores, list[Benchmark], Collection]:
    """A ladder, a subpopulation shift at two shares and one other; three methods, two seeds."""
    collection = pictures()
    made = [benchmark(collection, f"far-{k}", k, shift="subset", distance=distance, params={"test": "x"},
                      explanation=[{"tag": EVIL, "kind": "object", "train": 0.1, "test": 0.9, "lift": 9.0}],
                      notes=[EVIL]) for k, distance in enumerate([1.4, 0.4, 0.9])]
    made += [benchmark(collection, f"rare-{p}", 5, shift="subpopulation", params={"p": p}) for p in (0.01, 0.12)]
    made += [benchmark(collection, "lone", 6)]
    parts = []
    for place, one in enumerate(made):
        runs = {}
        for method, skill in (("erm", 0.6), ("best", 0.95), (EVIL, 0.93)):
            runs[method] = [guesses(one, skill, 100 * place + seed) for seed in range(2)]
            parts += [score(one, run, run=f"{method}{seed}", method=method, seed=seed, replicates=50)
                      for seed, run in enumerate(runs[method])]
        parts.append(means(one, runs, replicates=100))
    return Scores.join(parts), made, collection


@pytest.fixture(scope="module")
def page(study, tmp_path_factory) -> str:
    scores, made, collection = study
    out = tmp_path_factory.mktemp("page") / "report.html"
    return report(scores, made, out, collections=[collection, None], title=EVIL).read_text(encoding="utf-8")


def test_the_page_is_whole_and_loads_nothing(page):
    """Every tag is closed, no script runs, no address is anywhere, and every link stays inside the page."""
    parsed = Page(page)
    assert not parsed.tags & {"script", "link", "iframe", "object", "embed", "base", "form"}
    assert "http://" not in page
    assert "https://" not in page
    assert "url(" not in page
    assert "@import" not in page
    ids = {value for _, name, value in parsed.attributes if name == "id"}
    for tag, name, value in parsed.attributes:
        assert not name.startswith("on"), (tag, name)
        if name == "src":
            assert value.startswith("data:image/")
        if name == "href":
            assert value.removeprefix("#") in ids
    assert ("meta", "content", "default-src 'none'; img-src data:; style-src 'unsafe-inline'") in parsed.attributes


def test_names_are_text(page):
    """A class, group, tag, method, note or title made of HTML is printed as it stands and makes no element."""
    parsed = Page(page)
    text = " ".join(parsed.words)
    assert "script" not in parsed.tags
    assert ("img", "src", "x") not in parsed.attributes
    assert text.count(EVIL) > 20


def test_every_number_is_a_score(study, page):
    """Each number in a table or bar is a value of the scores, rounded to a tenth of a per cent."""
    scores, _, _ = study
    known = set(scores["value"].tolist())
    found = Page(page).data
    assert len(found) > 100
    for value, shown in found:
        assert value in known
        assert shown == percent(value)


def test_the_two_tables(study):
    """A ladder's columns run from near to far, a mixture's from common to rare; cells are the scored means."""
    scores, made, _ = study
    (ladder_table,), (share_table,) = distance_tables(scores, made), share_tables(scores, made)
    assert [column["head"] for column in ladder_table["columns"]] == ["d = 0.40", "d = 0.90", "d = 1.40"]
    assert [column["head"] for column in share_table["columns"]] == 2 * ["p = 12\u00a0%", "p = 1\u00a0%"]
    assert [row["method"] for row in ladder_table["rows"]] == ["erm", EVIL, "best"]
    for table in (ladder_table, share_table):
        for row in table["rows"]:
            for column, cell in zip(table["columns"], row["cells"], strict=True):
                one = scores.where(method=row["method"], benchmark=column["benchmark"], run="mean of 2", split="test",
                                   metric=column["metric"])
                (wanted,) = one.where(group=ALL) if column["metric"] == "accuracy" else one
                assert {key: cell[key] for key in ("value", "low", "high", "n")} == {
                    key: wanted[key] for key in ("value", "low", "high", "n")}
                assert cell["runs"] == 2


def test_marks_are_honest(study):
    """One method is best in each column; another is marked ≈ exactly when its paired interval reaches 0."""
    scores, made, _ = study
    rows = pivot(scores, "accuracy")
    for one in made:
        column = {row["method"]: row["cells"][one.name] for row in rows}
        best = max(column, key=lambda method: column[method]["value"])
        assert [method for method, cell in column.items() if cell["best"]] == [best]
        for method, cell in column.items():
            (behind,) = scores.where(benchmark=one.name, method=method, split="test", metric="accuracy" + BEHIND,
                                         group=ALL)
            assert cell["tied"] == (method != best and behind["low"] <= 0)
    assert not any(row["cells"][one.name]["tied"] for row in rows for one in made if row["method"] == "erm")


def test_single_runs_are_averaged_cautiously(study):
    """Without scored means a cell is the mean of its runs, its interval at least as wide as theirs on average."""
    scores, _, _ = study
    single = Scores({name: values[scores["seed"] >= 0] for name, values in scores.columns.items()})
    for row in pivot(single, "accuracy"):
        for name, cell in row["cells"].items():
            runs = single.where(method=row["method"], benchmark=name, split="test", metric="accuracy", group=ALL)
            assert cell["value"] == pytest.approx(runs["value"].mean())
            assert cell["high"] - cell["low"] >= (runs["high"] - runs["low"]).mean() - 1e-12
            assert cell["runs"] == 2


def test_one_model_without_a_method_or_a_card(study, tmp_path):
    """Scores of a foreign model on a benchmark that is not at hand still make a page; so do no scores at all."""
    _, made, _ = study
    scores = score(made[-1], guesses(made[-1], 0.8, 1), run="mine.csv", replicates=0)
    text = report(scores, [], tmp_path / "a.html").read_text(encoding="utf-8")
    assert "mine.csv" in text
    assert "was not given to the report" in text
    Page(text)
    empty = report(Scores.of([]), made, tmp_path / "b.html").read_text(encoding="utf-8")
    assert "No scores of this benchmark yet" in empty
    Page(empty)


def test_pictures_are_the_items(study, page):
    """Train and test images of each class are inside the page and are those of the named items, up to compression."""
    _, made, collection = study
    attributes = Page(page).attributes
    sources, texts = ([value for tag, name, value in attributes if (tag, name) == ("img", wanted)]
                      for wanted in ("src", "alt"))
    assert len(sources) == len(made) * 2 * 2 * 5
    for source, text in zip(sources[:20], texts[:20], strict=True):
        raw = base64.b64decode(source.partition(",")[2])
        pixels = np.asarray(Image.open(io.BytesIO(raw)).convert("RGB")).astype(float)
        item = text.partition(" item ")[2].partition(":")[0]
        (row,) = collection.index(np.asarray([item]))
        assert pixels.shape == (8, 8, 3)
        assert abs(pixels.mean() - collection.pixels[row].mean()) < 12


def test_the_page_repeats(study, tmp_path):
    """The same scores and benchmarks give the same bytes."""
    scores, made, collection = study
    pages = [report(scores, made, tmp_path / name, collections=[collection]).read_bytes() for name in ("a", "b")]
    assert pages[0] == pages[1]


def test_families_keep_experiments_apart(study):
    """Another collection or other test subsets are another ladder; a lone rung is none."""
    _, made, _ = study
    kinds = [(family.kind, len(family.members)) for family in families(made)]
    assert kinds == [("distance", 3), ("share", 2), ("other", 1)]
    other = [benchmark(pictures(name="more"), f"m{k}", k, shift="subset", distance=float(k), params={"test": "x"})
             for k in range(2)]
    assert [len(family.members) for family in families(made + other)] == [3, 2, 2, 1]
    assert [family.kind for family in families(made[:1])] == ["other"]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.floats(0, 1), min_size=3, max_size=3), min_size=1, max_size=12))
def test_the_plot_keeps_order_and_room(values):
    """A higher accuracy stands higher, everything lies in the frame, and no two names overlap."""
    table = {"columns": [{"x": x} for x in (0.4, 0.7, 1.4)], "rows": [
        {"method": f"m{k}", "cells": [{"value": v, "low": max(0, v - 0.1), "high": min(1, v + 0.1)} for v in row]}
        for k, row in enumerate(values)]}
    figure = ladder(table, baseline=[0.9, None, 0.8], chance=0.5, width=760, height=380, right=150)
    points = [point for line in figure["lines"] for point in line["points"]]
    for one in points:
        assert figure["top"] - 1e-6 <= one["high"] <= one["y"] <= one["low"] <= figure["bottom"] + 1e-6
        assert figure["left"] <= one["x"] <= figure["right"]
        for other in points:
            if one["cell"]["value"] > other["cell"]["value"]:
                assert one["y"] <= other["y"]
    labels = sorted([line["label"] for line in figure["lines"]] + [figure["before_label"]])
    assert (np.diff(labels) >= LINE - 1e-6).all()


def test_terminal_tables(study):
    """The terminal prints the same numbers as the page, and names as they stand."""
    scores, made, _ = study
    console = Console(width=400, file=io.StringIO(), no_color=True)
    for table in [family_table(scores, family) for family in families(made)]:
        console.print(as_table(table))
        for row in table["rows"]:
            for cell in row["cells"]:
                assert percent(cell["value"]) in console.file.getvalue()
    console.print(scores_table(scores.where(run="erm0", benchmark="lone")))
    printed = console.file.getvalue()
    assert EVIL in printed
    (gap,) = scores.where(run="erm0", benchmark="lone", metric="accuracy_gap")
    assert percent(gap["value"]) in printed
    assert not math.isnan(gap["value"])


def test_import_is_light():
    """Scoring and reporting load what they draw with only when they draw."""
    script = ("import shiftbench.scoring, shiftbench.reporting, sys;"
              "heavy = {'torch', 'matplotlib', 'jinja2', 'PIL', 'rich', 'scipy', 'numba'} & set(sys.modules);"
              "assert not heavy, heavy")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
