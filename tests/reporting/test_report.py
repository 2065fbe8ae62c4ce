"""The page says what the scores say, in one file that loads nothing and trusts no name."""

import base64
import io
import math
import subprocess
import sys
from html.parser import HTMLParser
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from rich.console import Console

import shiftbench as sb
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.predictions import Predictions
from shiftbench.data.scores import ALL, Scores
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
from shiftbench.reporting.page import results_of
from shiftbench.reporting.sections.selection import content
from shiftbench.scoring import means, score
from shiftbench.scoring.metrics import percent
from shiftbench.scoring.rules import RULES
from shiftbench.scoring.select import chosen, over_benchmarks, over_seeds, select
from shiftbench.shifts.leave_one_domain_out import leave_out

VOID = {"meta", "img", "br", "wbr"}
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


@pytest.mark.slow
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
                one = scores.where(method=row["method"], benchmark=column["benchmark"], stat="mean", split="test",
                                   metric=column["metric"])
                (wanted,) = one.where(group=ALL) if column["metric"] == "accuracy" else one
                assert {key: cell[key] for key in ("value", "low", "high", "n")} == {
                    key: wanted[key] for key in ("value", "low", "high", "n")}
                assert cell["runs"] == 2


def test_marks_are_honest(study):
    """A method is marked ≈ exactly when its paired interval reaches 0; the best is shaded, unless all tie with it."""
    scores, made, _ = study
    rows = pivot(scores, "accuracy")
    for one in made:
        column = {row["method"]: row["cells"][one.name] for row in rows}
        best = max(column, key=lambda method: column[method]["value"])
        ties = {method: cell["tied"] for method, cell in column.items() if method != best}
        assert [method for method, cell in column.items() if cell["best"]] == ([] if all(ties.values()) else [best])
        assert column[best]["tied"] == all(ties.values())
        for method in ties:
            (behind,) = scores.where(stat="difference", benchmark=one.name, method=method, split="test",
                                     metric="accuracy", group=ALL)
            assert ties[method] == (behind["low"] <= 0)
    far_behind = [row["cells"][one.name]["tied"] for row in rows for one in made if row["method"] == "erm"]
    assert sum(far_behind) <= 1  # 30 points; two seeds that differ much can still hide it once


def test_single_runs_are_averaged_cautiously(study):
    """Without scored means a cell is the mean of its runs; its interval has theirs and Student's over runs in it."""
    scores, _, _ = study
    single = scores.where(stat="run")
    for level, t in ((0.95, 12.706), (0.9, 6.314)):  # of one degree of freedom
        for row in pivot(single, "accuracy", level=level):
            for name, cell in row["cells"].items():
                runs = single.where(method=row["method"], benchmark=name, split="test", metric="accuracy", group=ALL)
                assert cell["value"] == pytest.approx(runs["value"].mean())
                items, seeds = (runs["high"] - runs["low"]).mean() / 2, t * runs["value"].std(ddof=1) / math.sqrt(2)
                assert cell["high"] - cell["low"] == pytest.approx(2 * math.hypot(items, seeds), rel=1e-4)
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


@pytest.fixture(scope="module")
def sweep() -> tuple[Scores, list[Benchmark], Collection]:
    """Two benchmarks and the parts of one, two methods with three settings and one with one, two seeds, `val` too."""
    collection = pictures(600)
    split = np.random.default_rng(1).choice(["train", "id_val", "id_test", "val", "test"], 600)
    made = [Benchmark.of(collection, None, 0, np.arange(600), np.roll(split, k), label=collection.factor("class"),
                         domain=collection.factor("place"), card={"name": f"b{k}", "shift": "given"}) for k in range(2)]
    made += leave_out(made[0])
    parts, by_setting = [], {}
    for place, one in enumerate(made):
        for method, skills in ((EVIL, (0.6, 0.9, 0.8)), ("erm", (0.7, 0.75, 0.7)), ("plain", (0.65,))):
            for (number, skill), seed in product(enumerate(skills), range(2)):
                guess = guesses(one, skill, 1000 * place + 10 * number + seed)
                parts.append(score(one, guess, run=f"{method}{number}{seed}", method=method, setting=f"s{number}",
                                   seed=seed, replicates=50))
                by_setting.setdefault((place, f"{method} (s={number})"), []).append(guess)
    for place, one in enumerate(made[:2]):
        runs = {label: found for (where, label), found in by_setting.items() if where == place}
        parts.append(means(one, runs, replicates=50))
    return Scores.join(parts), made, collection


@pytest.fixture(scope="module")
def sweep_page(sweep, tmp_path_factory) -> str:
    scores, made, collection = sweep
    out = tmp_path_factory.mktemp("sweep") / "report.html"
    return report(scores, made, out, collections=[collection]).read_text(encoding="utf-8")


def section_of(page: str) -> str:
    return page.partition('<section id="selection">')[2].partition("</section>")[0]


@pytest.mark.slow
def test_every_rule_stands_beside_the_others(sweep, sweep_page):
    """For each rule, method and target: mean and regret over seeds, then over benchmarks; the page prints these."""
    scores, made, _ = sweep
    by_seed = over_seeds(select(scores, benchmarks=made).choices)
    found = content(results_of(scores, made))
    known = {(mean.benchmark, mean.target, mean.method, mean.rule): mean
             for mean in [*by_seed, *over_benchmarks(by_seed)]}
    printed = {value for value, _ in Page(f"<main>{section_of(sweep_page)}</main>").data}
    values, seen = set(), 0
    for block in found["blocks"]:
        for table in block["tables"]:
            for row in table["rows"]:
                for rule, cell in zip(found["rules"], row["cells"], strict=True):
                    mean = known.get((block["benchmark"], table["target"], row["method"], rule["name"]))
                    assert (cell is None) == (mean is None)
                    if cell:
                        assert (cell["value"], cell["low"], cell["regret"]) == (mean.test, mean.low, mean.regret)
                        assert cell["part"] == (1 if not block["benchmark"] and mean.benchmarks == 1 else 0)
                        assert cell["part"] or cell["value"] in printed
                        values |= {cell["value"], cell["regret"]}
                        seen += 1
                values |= {row["blind"]["value"], row["blind"]["regret"]}
            total = table["total"]["cells"][0]
            assert total["regret"] == pytest.approx(np.mean([row["cells"][0]["regret"] for row in table["rows"]
                                                             if row["among"] > 1]))
            values |= {cell[key] for cell in [*table["total"]["cells"], table["total"]["blind"]] if cell
                       for key in ("value", "regret")}
    assert seen == len(known)
    assert printed <= values
    assert content(results_of(scores.where(setting="s0"), made)) is None


@pytest.mark.slow
def test_rules_that_used_target_labels_are_marked(sweep, sweep_page):
    """The heads of the oracle and of a `val` that shares domains with test carry the mark, no other does."""
    heads = [part.partition("</th>")[0] for part in section_of(sweep_page).split('<th scope="col"')[1:]]
    for name, rule in RULES.items():
        mine = [head for head in heads if head.partition(">")[2].startswith(rule.head)]
        shifted = name in ("f1", "accuracy", "ood", "wilds", "oracle")
        assert all(("target labels" in head) == shifted for head in mine), name
    assert sum("target labels" in head for head in heads) >= 4


@pytest.mark.slow
def test_the_tables_of_a_sweep_show_chosen_runs(sweep, sweep_page, tmp_path):
    """One row per method, of the runs that id_val chose; the parts that leave a domain out have no card."""
    scores, made, collection = sweep
    one_each = chosen(scores, "id", benchmarks=made)
    before, after = (page.partition('<section id="selection">') for page in (sweep_page, report(
        one_each, made, tmp_path / "a.html", collections=[collection]).read_text(encoding="utf-8")))
    cards = Page(before[2].partition("</section>")[2].partition("</main>")[0]).data
    plain = Page(after[0].partition("<main>")[2].partition("</main>")[0]).data
    assert cards
    assert set(cards) <= set(plain)
    assert "~" not in sweep_page.replace(section_of(sweep_page), "")
    assert "(s=" not in sweep_page
    assert 'id="selection"' not in after[0] + after[2]
    assert "How the runs were chosen" in sweep_page


def test_a_report_refuses_to_choose_by_the_target(sweep, tmp_path):
    """The oracle stands in its column and nowhere else."""
    scores, made, _ = sweep
    with pytest.raises(ShiftBenchError, match="--allow-target"):
        report(scores, made, tmp_path / "a.html", rule="oracle")


@pytest.mark.slow
def test_import_is_light():
    """Scoring and reporting load what they draw with only when they draw."""
    script = ("import shiftbench.scoring, shiftbench.reporting, sys;"
              "heavy = {'torch', 'matplotlib', 'jinja2', 'PIL', 'rich', 'scipy', 'numba'} & set(sys.modules);"
              "assert not heavy, heavy")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("names", "first"), [
    (["adversarial", "augmix", "resnet18"], "resnet18"), (["adversarial", "erm", "resnet18"], "erm"),
    (["adversarial", "augmix"], "adversarial"), (["irm", "vit", "coral"], "vit"), (["mine", "hers"], "hers")])
def test_the_baseline_comes_first(study, tmp_path, names, first):
    """Plain ERM, else ERM that chooses no more than a net, else the first by name leads every table and sentence."""
    scores, benchmarks, _ = study
    one = scores.where(benchmark=benchmarks[0].name)
    renamed = Scores.join([one.take(one.names == method).assign(method=np.full(np.sum(one.names == method), name))
                           for method, name in zip(sorted(set(one.names.tolist())), names, strict=False)])
    names = sorted(set(renamed.names.tolist()))
    results = results_of(renamed, benchmarks[:1])
    assert results.shown_methods == [first, *(name for name in names if name != first)]


def test_a_parquet_file_with_a_damaged_name_is_one_line(tmp_path):
    """A byte of a column's name in the footer is none of UTF-8: pyarrow stumbles over it before any reader does."""
    file = tmp_path / "scores.parquet"
    pq.write_table(pa.table({"column": [1, 2]}), file, store_schema=False)
    file.write_bytes(file.read_bytes().replace(b"column", b"\xffolumn"))
    with pytest.raises(ShiftBenchError, match=r"scores\.parquet"):
        sb.report(file, tmp_path / "report.html")
