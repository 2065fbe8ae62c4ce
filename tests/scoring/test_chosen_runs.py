"""Runs are chosen from a folder: parts that leave a domain out, means over chosen runs, reports and the command."""

import json
from itertools import product

import numpy as np
import pytest
import typer
from hypothesis import given
from typer.testing import CliRunner

from shiftbench.cli.judging import select as verb
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import write_json
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.predictions import Predictions
from shiftbench.data.scores import ALL, DIFFERENCE, MEAN, RUN, Scores
from shiftbench.reporting.page import shown_scores
from shiftbench.scoring import means, score
from shiftbench.scoring.rules import RULES, Runs
from shiftbench.scoring.select import chosen, chosen_means, select, setting_of
from shiftbench.shifts.leave_one_domain_out import MARK, leave_out
from tests.scoring.test_select import quick
from tests.strategies import benchmarks, toy


@quick
@given(benchmarks())
def test_parts_are_the_training_rows_dealt_again(made):
    """The left-out domain's training items are the test, the others train, and nothing is from after the shift."""
    train = made.rows("train")
    domains = np.unique(made.domain[train])
    alone = [code for code in domains if set(made.label[train].tolist()) - set(
        made.label[train[made.domain[train] != code]].tolist())]
    if len(domains) < 2 or len(alone) == len(domains):
        with pytest.raises(ShiftBenchError, match="Choose another selection rule"):
            leave_out(made)
        return
    parts = leave_out(made)
    assert len(parts) == len(domains) - len(alone)
    assert len({part.name for part in parts}) == len({part.digest for part in parts}) == len(parts)
    shifted = set(made.items[np.isin(made.split, ("val", "test"))].tolist())
    for part in parts:
        name = part.card["left_out"]["domain"]
        out = made.domain == made.names["domain"].index(name)
        here = {split: set(part.items[part.rows(split)].tolist()) for split in ("train", "id_val", "id_test", "test")}
        assert here["test"] == set(made.items[train[out[train]]].tolist())
        for split in ("train", "id_val", "id_test"):
            assert here[split] == set(made.items[(made.split == split) & ~out].tolist())
        assert not shifted & set(part.items.tolist())
        assert len(part.items) == len(set(part.items.tolist()))
        assert part.names == made.names
        assert part.card["left_out"]["digest"] == made.digest
        assert part.name.startswith(made.name + MARK)
        assert part.card["counts"] == part.counts()
        assert len([note for note in part.card["notes"] if "would lose" in note]) == len(alone)


def test_parts_can_be_saved_whatever_the_domains_are_called(tmp_path):
    """Domains that are no file names, and two that become the same one, make folders that differ and load again."""
    words = ["sofa / bench", "sofa bench", "../..", "ñandú"]
    split = np.asarray(["train", "train", "id_val", "test"])[np.arange(64) // 16]
    collection = Collection("c", np.asarray([f"i{k}" for k in range(64)]))
    made = Benchmark.of(collection, None, 0, np.arange(64), split, label=np.arange(64) // 4 % 2,
                        domain=np.asarray(words)[np.arange(64) % 4], card={"name": "b"})
    parts = leave_out(made)
    for part in parts:
        folder = part.save(tmp_path / part.name)
        assert folder.parent == tmp_path
        assert Benchmark.load(folder) == part
        assert Benchmark.load(folder).name == part.name
    assert sorted(part.name for part in parts) == ["b~domain", "b~sofa-bench", "b~sofa-bench-2", "b~ñandú"]


def skilled(made: Benchmark, skill: float, seed: int) -> Predictions:
    rng = np.random.default_rng(seed)
    guess = np.where(rng.random(len(made)) < skill, made.label, 1 - made.label)
    return Predictions(made.items, made.split, np.eye(2, dtype=np.float32)[guess], made.names["label"])


@pytest.fixture(scope="module")
def study(tmp_path_factory) -> tuple[Scores, Benchmark, object]:
    """Predictions of two methods, three settings and two seeds on a benchmark and on its parts, scored and saved."""
    collection = toy(600)
    split = np.random.default_rng(3).choice(["train", "id_val", "id_test", "test"], 600)
    made = Benchmark.of(collection, None, 0, np.arange(600), split, label=collection.factor("class"),
                        domain=collection.factor("place"), card={"name": "b"})
    folder = tmp_path_factory.mktemp("runs")
    scores, by_setting = [], {}
    for method, (number, skill), seed in product(("erm", "irm"), enumerate((0.6, 0.95, 0.75)), range(2)):
        for place, one in enumerate((made, *leave_out(made))):
            run = f"{method}{number}{seed}{place}"
            # On the parts the second setting is the worst: only leaving out would not take it.
            guess = skilled(one, 1.5 - skill if place else skill, hash((number, seed, place)) % 1000)
            guess.save(folder / run / "predictions.parquet")
            write_json(folder / run / "run.json", {
                "run": {"method": method, "seed": seed},
                "benchmark": {"name": one.name, "digest": one.digest, "path": None}})
            (folder / run / "done").touch()
            scores.append(score(one, guess, run=run, method=method, setting=f"s{number}", seed=seed, replicates=50))
            if not place:
                by_setting.setdefault(f"{method} (s={number})", []).append(guess)
    scores.append(means(made, by_setting, replicates=50))
    return Scores.join(scores), made, folder


@pytest.mark.slow
def test_real_scores_are_chosen_from(study):
    """On scores of predictions: id takes the skilled setting, leaving out the one that is best on left-out domains."""
    scores, made, _ = study
    settings_of = {rule: {one.setting for one in select(scores, [rule], benchmarks=[made]).choices} for rule in RULES}
    assert settings_of["id"] == settings_of["oracle"] == {"s1"}
    assert settings_of["leave_one_domain_out"] == {"s0"}
    assert Runs(scores).several == {"b"}


def test_means_over_chosen_runs_are_scored_from_predictions(study):
    """They equal the means of the chosen single runs, carry paired differences, and say who chose."""
    scores, made, folder = study
    found = chosen_means(folder, scores, [made], replicates=50)
    assert set(found["setting"].tolist()) == {setting_of("id")}
    assert set(found["stat"].tolist()) == {MEAN, DIFFERENCE}
    assert set(found["runs"].tolist()) == {2}
    single = chosen(scores, "id")
    for method in ("erm", "irm"):
        (mean,) = found.where(stat=MEAN, method=method, split="test", metric="accuracy", group=ALL)
        runs = single.where(method=method, split="test", metric="accuracy", group=ALL)
        assert mean["value"] == pytest.approx(runs["value"].mean())
        assert len(found.where(stat=DIFFERENCE, method=method, metric="accuracy", split="test", group=ALL)) == 1
    with pytest.raises(ShiftBenchError, match="allow_target"):
        chosen_means(folder, scores, [made], "oracle")


def test_a_report_is_made_from_chosen_runs(study):
    """One row of runs per method and seed, the parts gone; means over the chosen where scored, no others."""
    scores, made, folder = study
    shown = shown_scores(scores, [made])
    assert shown == chosen(scores, "id")
    both = shown_scores(Scores.join([scores, chosen_means(folder, scores, [made], replicates=0)]), [made])
    assert both.where(stat=RUN) == shown
    assert set(both["runs"].tolist()) == {1, 2}
    assert set(both["method"].tolist()) == {"erm", "irm"}
    with pytest.raises(ShiftBenchError, match="--allow-target"):
        shown_scores(scores, [made], "oracle")


@pytest.mark.slow
def test_what_no_rule_can_choose_is_shown_by_setting(study):
    """Without id_val every setting is a method of its own; one setting each changes nothing at all."""
    scores, made, _ = study
    blind = Scores({name: values[scores["split"] != "id_val"] for name, values in scores.columns.items()})
    shown = shown_scores(blind, [made])
    assert set(shown.names.tolist()) == {f"{method} (s{k})" for method in ("erm", "irm") for k in range(3)}
    alone = scores.where(setting="s1", benchmark="b")
    assert shown_scores(alone, [made]) == alone


@pytest.fixture
def command(study, tmp_path):
    scores, _, _ = study
    path = scores.save(tmp_path / "scores.parquet")
    app = typer.Typer()
    app.command()(verb)
    return lambda *words: CliRunner().invoke(app, [str(path), *words])


def test_the_command_compares_and_chooses(command, tmp_path, study):
    """All rules as a table, one rule as runs, JSON with choices, means and refusals, and scores of the chosen."""
    table = command()
    assert table.exit_code == 0
    for word in ("leave one", "worst group", "oracle !", "ood chose nothing on b"):
        assert word in table.output
    out = tmp_path / "chosen.parquet"
    told = json.loads(command("--rule", "id", "--json", "--out", str(out)).output)
    assert {one["setting"] for one in told["choices"]} == {"s1"}
    assert told["means"][0]["regret"] == 0
    assert Scores.load(out) == chosen(study[0], "id")
    assert isinstance(command("--rule", "oracle").exception, ShiftBenchError)
    assert command("--rule", "oracle", "--allow-target").exit_code == 0
    assert isinstance(command("--out", "x.csv").exception, ShiftBenchError)
