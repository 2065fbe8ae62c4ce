"""Draws of the low-data items: other items for each seed, and all else as it was, from the shift to the report."""

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import shiftbench as sb
from shiftbench.cli import app
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import lock
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.scores import ALL, label_of
from shiftbench.methods.presets import NINETEEN
from shiftbench.scoring import score_runs
from shiftbench.scoring.select import chosen_means, select
from shiftbench.shifts import LowData, Noise, Size, Under, Unseen
from shiftbench.shifts.low_data import same_rows, shared_splits
from shiftbench.shifts.suites import members, replicate
from shiftbench.sweeps.study import Study
from tests.shifts.test_fine_grained import GRID, LOW, SPURIOUS, chosen
from tests.strategies import seeds

EXAMPLES = Path(__file__).parents[2] / "examples" / "fine_grained"
quick = settings(max_examples=20, deadline=None)
KINDS = {
    "low_data": replace(LOW, n_ood=9), "at random": replace(LOW, balanced=False, n_ood=9),
    "spurious": replace(SPURIOUS, n_uncorrelated=10, n_ood=9),
    "against": replace(SPURIOUS, n_uncorrelated=10, against=True),
}
HELD = ("test", "val", "id_val", "id_test")
LOW_DIGEST = "90825945d2e0583f088b7c3e1e593fb861fc08496695effe12d20346efce91da"
SPURIOUS_DIGEST = "7bc6438799e21c3eae73ec7cc407506cc85ccef112ea5b48bdef6211c5fcf7e6"


def rows(made: Benchmark, split: str) -> list[tuple[str, int, int, int]]:
    at = made.rows(split)
    return list(zip(made.items[at].tolist(), made.label[at].tolist(), made.domain[at].tolist(),
                    made.group[at].tolist(), strict=True))


@pytest.mark.parametrize("kind", KINDS)
@given(n=st.integers(1, 20), draw=st.integers(1, 50), seed=seeds)
@quick
def test_a_draw_takes_other_low_items_and_moves_nothing_else(kind, n, draw, seed):
    """Test, validation and the cells of the large part are the seed's; the N items are the draw's, and still N."""
    field = "n_low" if isinstance(KINDS[kind], LowData) else "n_uncorrelated"
    shift = replace(KINDS[kind], **{field: n})
    first, other = shift.build(GRID, seed), replace(shift, draw=draw).build(GRID, seed)
    for split in HELD:
        assert rows(first, split) == rows(other, split)
    assert shared_splits([first, other])[-2:] == ("id_test", "test")
    assert len(chosen(other, part="few")) == n
    assert len(set(other.items.tolist())) == len(other)
    low = GRID.factor("colour") == "blue"
    together = np.asarray([pair in {("ellipse", "blue"), ("heart", "green"), ("square", "red")} for pair in
                           zip(GRID.factor("shape").tolist(), GRID.factor("colour").tolist(), strict=True)])
    large = set(GRID.items[together if field == "n_uncorrelated" else ~low].tolist())
    assert chosen(first) & large == chosen(other) & large
    assert other.extra["weight"][other.extra["part"] == "few"].sum() == pytest.approx(
        first.extra["weight"][first.extra["part"] == "few"].sum(), rel=0.2)
    assert other.card["draw"] == draw
    assert "draw" not in first.card


def test_draws_differ_from_each_other():
    """Ten draws of ten items are ten sets, and together they reach most of what there is to draw from."""
    sets = [chosen(replace(LOW, draw=draw).build(GRID), part="few") for draw in range(10)]
    assert len({frozenset(one) for one in sets}) == 10
    assert len(set().union(*sets)) > 45  # of 3 cells of 40, less 8 for the test and some for validation
    cells = {tuple(np.unique(one.group[one.extra["part"] == "few"]).tolist()) for one in (
        replace(LOW, n_low=1, draw=draw).build(GRID) for draw in range(12))}
    assert len(cells) == 3


def test_the_first_draw_is_what_was_always_built():
    """Digests from before there were draws."""
    assert replace(LOW, n_low=5).build(GRID).digest == LOW_DIGEST
    assert replace(SPURIOUS, n_uncorrelated=5).build(GRID).digest == SPURIOUS_DIGEST


@given(draw=st.integers(1, 50), p=st.floats(0.1, 0.9), seed=st.integers(0, 999))
@quick
def test_conditions_treat_every_draw_alike(draw, p, seed):
    """An item has the same label noise in all draws, and the size keeps its ratio of low items."""
    plain = Under(replace(LOW, n_low=6), (Noise(p), Size(60, 0.1)))
    again = replicate(plain, draw)
    first, other = plain.build(GRID, seed), again.build(GRID, seed)
    seen = [dict(zip(made.items.tolist(), made.label.tolist(), strict=True)) for made in (first, other)]
    assert {item: seen[1][item] for item in seen[0] if item in seen[1]} == {
        item: label for item, label in seen[0].items() if item in seen[1]}
    assert len(other.rows("train")) == 60
    assert len(chosen(other, part="few")) == 6
    assert chosen(first, part="main") == chosen(other, part="main")


def test_only_shifts_with_low_items_are_drawn_again():
    """`unseen` and low data at N = 0 are built once, for all seeds; others once per draw, under one name."""
    shifts = {"low-10": LOW, "unseen": Unseen("shape", "colour", ("blue",)), "low-0": replace(LOW, n_low=0)}
    assert [(one.folder, one.name, one.replicate) for one in members(shifts.items(), range(2))] == [
        ("low-10.0", "low-10", 0), ("low-10.1", "low-10", 1), ("unseen", "unseen", None), ("low-0", "low-0", None)]
    with pytest.raises(ShiftBenchError, match="counted from 0"):
        replace(LOW, draw=-1).build(GRID)


def test_a_suite_with_draws(tmp_path):
    """The folders have numbers, the cards one name, and the collection is found from each."""
    GRID.save(tmp_path / "grid")
    told = CliRunner().invoke(app, ["build", "fine_grained/sprites/noise", "--collection", str(tmp_path / "grid"),
                                    "--replicates", "2", "--out", str(tmp_path / "b"), "--json"])
    assert told.exit_code == 0, told.output
    cards = [one["card"] for one in json.loads(told.stdout)]
    assert [(one["name"], one["draw"]) for one in cards[:3]] == [("noise-10", 0), ("noise-10", 1), ("noise-20", 0)]
    assert sorted(os.listdir(tmp_path / "b"))[:2] == ["noise-10.0", "noise-10.1"]
    first, other = (Benchmark.load(tmp_path / "b" / f"noise-10.{draw}") for draw in range(2))
    assert same_rows(first, other)
    assert not same_rows(first, other, "train")
    told = CliRunner().invoke(app, ["build", "x.toml", "--replicates", "2", "--out", str(tmp_path / "c")])
    assert "--set draw=1" in str(told.exception)


STUDY = """
suites = ["fine_grained/sprites/low_data", "fine_grained/sprites/unseen"]
recipes = ["own.toml"]
members = ["low-10", "unseen", "own"]
redraw = true
seeds = 2
[run]
model = "small-cnn"
steps = 3
batch_size = 8
eval_every = 3
lr = [1e-3, 1e-2]
[methods.erm]
[methods.irm]
lr = 1e-3
[world]
name = "sprites"
items = 360
size = 32
"""
OWN = """
collection = "nowhere"
seed = 1
[shift.spurious]
label = "colour"
factor = "shape"
n_uncorrelated = 6
"""


@pytest.fixture
def study(tmp_path):
    (tmp_path / "own.toml").write_text(OWN)
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    return path


def test_a_study_makes_its_own_data_once(study, tmp_path):
    """The world and the benchmarks lie below the runs; a second look makes nothing, in scratch nothing is kept."""
    out, said = tmp_path / "R", []
    plan = Study.load(study)
    looked = plan.jobs(out, tmp_path / "scratch")
    assert not out.exists()
    plan.prepare(out, say=said.append)
    assert [words.partition(",")[0] for words in said] == [
        "drawing sprites", f"building 5 benchmarks below {out}/benchmarks"]
    assert sorted(os.listdir(out / "benchmarks")) == ["low-10.0", "low-10.1", "own.0", "own.1", "unseen"]
    jobs = plan.jobs(out)
    assert [job.settings for job in jobs] == [job.settings for job in looked]
    assert plan.jobs(out, tmp_path / "other") == jobs
    assert not (tmp_path / "other").exists()
    before = {file: os.stat(file) for file in out.rglob("*") if file.is_file()}
    plan.prepare(out, say=said.append)
    assert len(said) == 2
    assert {file: os.stat(file) for file in out.rglob("*") if file.is_file()} == before
    pairs = {(os.path.basename(job.benchmark), job.settings["seed"]) for job in jobs}
    assert pairs == {("low-10.0", 0), ("low-10.1", 1), ("own.0", 0), ("own.1", 1), ("unseen", 0), ("unseen", 1)}
    assert len(jobs) == 3 * 3 * 2


def test_what_a_killed_process_left_is_completed_and_a_second_one_waits(study, tmp_path, monkeypatch):
    """A missing benchmark alone is built; who finds another process at work waits until it has ended."""
    out, plan = tmp_path / "R", Study.load(study)
    jobs = plan.jobs(out)
    kept = os.stat(out / "benchmarks" / "own.0" / "benchmark.json")
    for file in (out / "benchmarks" / "low-10.1").iterdir():
        file.unlink()
    (out / "benchmarks" / "low-10.1").rmdir()
    waiting, sleep = Event(), time.sleep

    def sleeps(seconds: float) -> None:
        waiting.set()
        sleep(seconds)

    monkeypatch.setattr("shiftbench.core.files.sleep", sleeps)
    with ThreadPoolExecutor(1) as pool:
        with lock(out / ".making") as mine:  # a lock is of the open file, so it keeps out a thread as it does a process
            assert mine
            other = pool.submit(plan.jobs, out)
            assert waiting.wait(60)
            assert not (out / "benchmarks" / "low-10.1").exists()
        assert other.result() == jobs
    assert plan.jobs(out) == jobs
    assert os.stat(out / "benchmarks" / "own.0" / "benchmark.json") == kept


@pytest.mark.parametrize(("old", "new", "message"), [
    ('"low-10", ', '"low-010", ', "No member named 'low-010'. Did you mean 'low-10'?"),
    ("fine_grained/sprites/unseen", "fine_grained/sprites/unsen", "Did you mean 'fine_grained/sprites/unseen'?"),
    ("size = 32", "size = 33", "size is 33"), ("size = 32", "sise = 32", "No setting named 'sise'"),
    ("size = 32", "size = 'x'", "'size' is 'x'"), ('name = "sprites"', "", "'name' is missing"),
    ('name = "sprites"', 'name = "sprits"', "Did you mean 'sprites'?"),
    ("redraw = true", 'redraw = true\ncollection = "x"', "both [world] and collection"),
    ('[world]\nname = "sprites"\nitems = 360\nsize = 32', "", "suites need a collection"),
    ('suites = ["fine_grained/sprites/low_data", "fine_grained/sprites/unseen"]\nrecipes = ["own.toml"]', "",
     "names no benchmark"),
    ('recipes = ["own.toml"]', 'recipes = ["unown.toml"]', "no such file"),
    ('recipes = ["own.toml"]', 'recipes = ["own.toml", "own.toml"]', "two of its benchmarks are named 'own'"),
])
def test_wrong_sources_are_one_clear_message(study, tmp_path, old, new, message):
    """The nearest name, or what to write; nothing is trained."""
    assert old in STUDY
    study.write_text(STUDY.replace(old, new))
    with pytest.raises(ShiftBenchError) as problem:
        Study.load(study).jobs(tmp_path / "R")
    assert message in str(problem.value)


def test_other_data_in_the_same_folder_is_refused(study, tmp_path):
    """A benchmark that was built otherwise is neither used nor replaced: its runs could not be scored any more."""
    out = tmp_path / "R"
    Study.load(study).prepare(out)
    with pytest.raises(ShiftBenchError, match=r"low-10\.0 is there, but was built from another collection"):
        Study.load(study, {"world.items": 450}).prepare(out)
    with pytest.raises(ShiftBenchError, match=r"low-10\.0 is there, but was built from another collection"):
        Study.load(study, {"world.size": 64}).prepare(out)
    (tmp_path / "own.toml").write_text(OWN.replace("= 6", "= 7"))
    with pytest.raises(ShiftBenchError, match=r"own\.0 is there, but"):
        Study.load(study).prepare(out)
    with pytest.raises(ShiftBenchError, match="must be a folder"):
        Study.load(study).prepare("s3://bucket/runs")


def test_a_study_on_another_collection(study, tmp_path):
    """--set collection takes the place of the world."""
    GRID.save(tmp_path / "grid")
    plan = Study.load(study, {"collection": str(tmp_path / "grid"), "seeds": [3]})
    assert {job.collection for job in plan.jobs(tmp_path / "R")} == {str(tmp_path / "grid")}
    assert not (tmp_path / "R" / "collections").exists()
    assert {Benchmark.load(job.benchmark).card.get("draw") for job in plan.jobs(tmp_path / "R")} == {3, None}


def test_seeds_need_draws_and_names_need_one_test(study, tmp_path):
    """A seed without a draw, draws of other tests and equal names without draws are refused."""
    out = tmp_path / "R"
    Study.load(study).prepare(out)
    listed = tmp_path / "listed.toml"
    runs = STUDY.partition("[run]")[2].partition("[world]")[0]
    listed.write_text(f'benchmarks = ["R/benchmarks/low-10.*", "R/benchmarks/unseen"]\nseeds = 2\n[run]{runs}')
    assert [job.run.id for job in Study.load(listed).jobs(out)] == [
        job.run.id for job in Study.load(study, {"members": ["low-10", "unseen"]}).jobs(out)]
    assert {job.settings["seed"] for job in Study.load(listed, {"seeds": [1]}).jobs(out)} == {1}
    with pytest.raises(ShiftBenchError, match=r"has replicate 0, 1 of .*, but none for seed 2\. .*--replicates 3"):
        Study.load(listed, {"seeds": 3}).jobs(out)
    other = Benchmark.load(out / "benchmarks" / "own.1")
    other.save(out / "benchmarks" / "low-10.2", "low-10")
    with pytest.raises(ShiftBenchError, match="both named 'low-10'"):
        Study.load(listed).jobs(out)
    replace(other, card={**other.card, "draw": 2}).save(out / "benchmarks" / "low-10.2", "low-10")
    with pytest.raises(ShiftBenchError, match="their tests differ"):
        Study.load(listed).jobs(out)


def test_parts_that_leave_a_domain_out_are_of_their_draw(study, tmp_path):
    """Each draw has parts of its own, for its own seed, that share a name as the draws do."""
    jobs = Study.load(study, {"members": ["low-10"], "leave_one_domain_out": True}).jobs(tmp_path / "R")
    pairs = {(os.path.basename(job.benchmark), job.settings["seed"]) for job in jobs}
    assert pairs == {(f"low-10{part}.{seed}", seed) for part in ("", "~red", "~green", "~blue") for seed in (0, 1)}
    for job in jobs:
        made = Benchmark.load(job.benchmark)
        assert made.digest == job.settings["benchmark"]
        assert os.path.basename(job.benchmark) == f"{made.name}.{made.card['draw']}"


@pytest.mark.parametrize(("name", "runs"), [("smoke", 19 * 3), ("small", 19 * 3 * 3), ("paper", 106 * 27 * 5)])
def test_the_papers_studies_have_its_methods_and_shifts(name, runs):
    """Nineteen methods each, the three shifts, and at the paper's size every N, p and n with Table 4's settings."""
    plan = Study.load(EXAMPLES / f"{name}.toml")
    assert {label_of(one) for one in plan.settings()} == set(NINETEEN)
    built = plan.builds.members(plan.seeds)
    assert {one.facts["shift"] for one in built} == {"spurious", "low_data", "unseen"}
    assert {one.replicate for one in built} == {None, *plan.seeds}
    assert len(plan.settings()) * len({one.name for one in built}) * len(plan.seeds) == runs
    assert {one["select_on"] for one in plan.settings()} == {"macro_f1"}


def test_the_smallest_study_of_the_paper_can_start_from_nothing(tmp_path):
    """57 runs on benchmarks that are drawn and built."""
    jobs = Study.load(EXAMPLES / "smoke.toml").jobs(tmp_path)
    assert len({job.run.id for job in jobs}) == 57
    tests = [list(Benchmark.load(job.benchmark).counts()["test"].values()) for job in jobs[::19]]
    assert all(len(one) == 9 and min(one) == max(one) == 4 for one in tests)


@pytest.mark.slow
@pytest.mark.usefixtures("workers_here")
def test_from_nothing_to_a_report(study, tmp_path):
    """Sweep, score, select, show and report on draws: one name, every seed its own draw, means over both."""
    out = tmp_path / "R"
    run = CliRunner().invoke(app, ["sweep", str(study), "--out", str(out), "--device", "cpu", "--workers", "1",
                                   "--set", "members=['low-10', 'unseen']"])
    assert run.exit_code == 0, run.output
    assert "drawing sprites" in run.stderr
    scores = score_runs(out, replicates=20)
    assert set(scores["benchmark"].tolist()) == {"low-10", "unseen"}
    mean = scores.where(benchmark="low-10", split="test", metric="macro_f1", group=ALL, stat="mean")
    assert sorted(mean.names.tolist()) == ["erm (lr=0.001)", "erm (lr=0.01)", "irm"]
    assert set(mean["method"].tolist()) == {"erm", "irm"}
    assert set(mean["runs"].tolist()) == {2}
    single = scores.where(stat="run", benchmark="low-10", split="test", metric="macro_f1", group=ALL, method="irm")
    seeds_of = dict(zip(single["seed"].tolist(), single["value"].tolist(), strict=True))
    of_mean = {row["method"]: row["value"] for row in mean}
    assert of_mean["irm"] == pytest.approx((seeds_of[0] + seeds_of[1]) / 2)
    made = [Benchmark.load(folder) for folder in (out / "benchmarks").iterdir()]
    choices = select(scores, ["f1"], benchmarks=made).choices
    assert {(one.by, one.labels) for one in choices} == {("macro F1 on id_val", "none")}
    assert {(one.benchmark, one.method, one.seed) for one in choices} == {
        (name, method, seed) for name in ("low-10", "unseen") for method in ("erm", "irm") for seed in (0, 1)}
    rescored = chosen_means(out, scores, made, "f1", replicates=20)
    assert set(rescored["runs"].tolist()) == {2}
    page = sb.report(out, tmp_path / "r.html", rule="f1").read_text()
    assert page.count("<h3>low-10</h3>") == 1
    assert CliRunner().invoke(app, ["show", str(out)]).exit_code == 0
    told = CliRunner().invoke(app, ["select", str(out), "--rule", "f1", "--json"])
    assert told.exit_code == 0, told.output
    dry = CliRunner().invoke(app, ["sweep", str(study), "--out", str(out), "--dry-run", "--json", "--device", "cpu",
                                   "--set", "members=['low-10', 'unseen']"])
    assert json.loads(dry.stdout)["left"] == 0
