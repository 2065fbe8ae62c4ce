"""A choice looks at what its rule names and at nothing else, and says which labels that took."""

import math
import subprocess
import sys
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.scores import ALL, MEAN, Measure, Scores
from shiftbench.scoring.rules import DEFAULT, RULES, TARGETS
from shiftbench.scoring.select import Choice, chosen, over_benchmarks, over_seeds, refuse_target, select
from shiftbench.shifts.leave_one_domain_out import MARK

METRICS = ("accuracy", "worst_group_accuracy", "worst_class_accuracy", "macro_f1", "nll", "worst_group_nll")
SPLITS = ("id_val", "val", "test")
quick = settings(max_examples=30, deadline=None)


def run_rows(benchmark, method, setting, seed, value, run="", splits=SPLITS):
    """The rows of one run; `value(split, metric)` gives its scores."""
    return [{"run": run or f"{method}-{setting}-{seed}", "benchmark": benchmark, "method": method, "setting": setting,
             "seed": seed, "split": split, "group": "g" if metric.startswith("worst") else ALL,
             "n": 10 if metric.startswith("worst") else 40, "metric": metric, "value": value(split, metric),
             "low": value(split, metric) - 0.1, "high": value(split, metric) + 0.1}
            for split, metric in product(splits, METRICS)]


@st.composite
def tables(draw, names=("one", "two")) -> Scores:
    """Two methods with up to four settings, three seeds, values on a coarse grid so that ties are common."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows = []
    for name in names:
        for method, n in (("erm", draw(st.integers(1, 4))), ("irm", draw(st.integers(1, 4)))):
            for setting, seed in product(range(n), range(draw(st.integers(1, 3)))):
                known = {key: rng.integers(0, 5) / 4 for key in product(SPLITS, METRICS)}
                rows += run_rows(name, method, f"s{setting}", seed, lambda *key, known=known: known[key])
                for part in range(2):
                    left = {key: rng.integers(0, 5) / 4 for key in product(SPLITS, METRICS)}
                    rows += run_rows(f"{name}{MARK}d{part}", method, f"s{setting}", seed,
                                     lambda *key, left=left: left[key], f"{part}{setting}{seed}")
    return Scores.of(rows)


class Looked:
    """Any value of a table, and the runs a choice was made among, found the slow way."""

    def __init__(self, scores: Scores) -> None:
        self.rows = {(row["benchmark"], row["method"], row["setting"], row["seed"], row["split"], row["metric"]): row
                     for row in scores}
        self.settings: dict[tuple[str, str, int], list[str]] = {}
        for benchmark, method, setting, seed, split, metric in self.rows:
            if (split, metric) == ("test", "nll"):
                self.settings.setdefault((benchmark, method, seed), []).append(setting)

    def value(self, one: Choice, setting: str, split: str, metric: str, part: str = "") -> float:
        return self.rows[one.benchmark + part, one.method, setting, one.seed, split, metric]["value"]

    def rivals(self, one: Choice) -> list[str]:
        """Their settings."""
        return self.settings[one.benchmark, one.method, one.seed]

    def criterion(self, one: Choice, setting: str) -> float:
        """What the rule of a choice makes of a rival: the larger, the better."""
        if one.rule == "leave_one_domain_out":
            return float(np.mean([self.value(one, setting, "test", "accuracy", f"{MARK}d{part}") for part in range(2)]))
        split = {"ood": "val", "f1": "val", "accuracy": "val", "wilds": "val", "oracle": "test"}.get(one.rule, "id_val")
        metric = "macro_f1" if one.rule == "wilds" else RULES[one.rule].metric or one.target
        found = self.value(one, setting, split, metric)
        return -found if RULES[one.rule].lower else found


def ranked_by_f1() -> list[Benchmark]:
    """The benchmarks of a table, whose headline is macro F1."""
    made = rows_of({"train": "a", "val": "b", "test": "c"})
    return [replace(made, card={"name": name, "headline": "macro_f1"}) for name in ("one", "two")]


@pytest.mark.slow
@quick
@given(tables())
def test_the_chosen_run_has_the_best_criterion(scores):
    """Every rule takes, per benchmark, method and seed, a run that no other beats; ties go to nll, then to the name."""
    found = select(scores, benchmarks=ranked_by_f1())
    assert not found.refused
    assert {one.rule for one in found.choices} == set(RULES)
    cells = {(row["benchmark"], row["method"], row["seed"]) for row in scores if MARK not in row["benchmark"]}
    assert len(found.choices) == len(cells) * len(RULES) * len(TARGETS)
    looked = Looked(scores)
    for one in found.choices:
        rivals = looked.rivals(one)
        best = min(rivals, key=lambda setting, one=one: (
            -looked.criterion(one, setting), looked.value(one, setting, "id_val", "nll"), setting))
        assert (one.run, one.setting) == (f"{one.method}-{best}-{one.seed}", best)
        assert one.among == len(rivals)
        assert abs(one.criterion) == pytest.approx(abs(looked.criterion(one, best)))


@pytest.mark.slow
@quick
@given(tables())
def test_regret_is_never_negative(scores):
    """The oracle regrets nothing, the others something or nothing, and a blind choice lies between worst and best."""
    looked = Looked(scores)
    for one in select(scores).choices:
        values = [looked.value(one, setting, "test", one.target) for setting in looked.rivals(one)]
        assert one.oracle == max(values)
        assert one.blind == pytest.approx(np.mean(values))
        assert one.regret >= 0
        assert one.rule != "oracle" or one.regret == 0


@pytest.mark.slow
@quick
@given(tables(), st.integers(0, 1000))
def test_a_choice_depends_on_nothing_else(scores, seed):
    """Other scores on test, another order of the rows, means in the table: no honest rule chooses another run."""
    rng = np.random.default_rng(seed)
    # Tests of the parts that leave a domain out are training items, so these stay as they are.
    on_test = (scores["split"] == "test") & ~np.char.count(scores["benchmark"], MARK).astype(bool)
    moved = {**scores.columns, "value": np.where(on_test, rng.random(len(scores)), scores["value"])}
    order = rng.permutation(len(scores))
    mean = scores.take(np.arange(min(20, len(scores)))).assign(run="", stat=MEAN, runs=2, seed=-1, value=9.0)
    other = Scores.join([Scores({name: values[order] for name, values in moved.items()}), mean])
    honest = [name for name in RULES if name != "oracle"]
    assert ([(one.rule, one.target, one.run) for one in select(scores, honest).choices]
            == [(one.rule, one.target, one.run) for one in select(other, honest).choices])


@pytest.mark.slow
@quick
@given(tables(), st.sampled_from(sorted(RULES)))
def test_chosen_keeps_whole_runs(scores, rule):
    """One run per benchmark, method and seed, with all its rows as they were; the parts and all other runs are gone."""
    kept = chosen(scores, rule, allow_target=True, benchmarks=ranked_by_f1())
    runs = {(row["benchmark"], row["method"], row["seed"], row["run"]) for row in kept}
    assert len(runs) == len({key[:3] for key in runs})
    assert {key[0] for key in runs} == {"one", "two"}
    choices = select(scores, [rule], benchmarks=ranked_by_f1()).choices
    for benchmark, method, seed, run in runs:
        assert kept.where(benchmark=benchmark, run=run) == scores.where(benchmark=benchmark, run=run)
        assert (benchmark, run) in {(one.benchmark, one.run) for one in choices
                                    if (one.method, one.seed) == (method, seed)}
    assert select(kept, [DEFAULT]).choices  # the choice can be made again, and is the same
    assert chosen(kept, "id") == kept


def flat(**changes):
    """Scores of a run: 0.5 but for what `changes` names: id_val_accuracy=0.9."""
    return lambda split, metric: changes.get(f"{split}_{metric}", 0.5)


def test_nooch_minimises_the_larger_hard_loss():
    """The mean loss of hard positives and of hard negatives, items weighing alike; without them the worst group's."""
    def hard(run, losses):
        head = {"run": run, "benchmark": "b", "method": "m", "setting": run, "seed": 0, "split": "id_val",
                "metric": "nll", "low": math.nan, "high": math.nan}
        return [{**head, "group": group, "n": n, "value": value} for group, n, value in losses]

    rows = run_rows("b", "m", "x", 0, flat(id_val_worst_group_nll=0.1), "x") + run_rows("b", "m", "y", 0, flat(), "y")
    (one,) = select(Scores.of(rows), ["nooch"], targets=["accuracy"]).choices
    assert (one.run, one.by) == ("x", "worst-group log-loss on id_val")
    rows += hard("x", [("car, hard positive", 10, 1.0), ("bus, hard_positive", 30, 2.0), ("hard-negative", 5, 0.1),
                       ("easy", 100, 9.0)])
    rows += hard("y", [("car, hard positive", 10, 1.7), ("bus, hard_positive", 30, 1.7), ("hard-negative", 5, 1.2)])
    (one,) = select(Scores.of(rows), ["nooch"], targets=["accuracy"]).choices
    assert one.run == "y"
    assert one.criterion == pytest.approx(1.7)
    assert "hard positives and hard negatives" in one.by


SIXTEEN = "worst_group_accuracy[male+female,label]"


@pytest.mark.parametrize(("headline", "better"), [(SIXTEEN, "x"), ("tenth_percentile_accuracy[user]", "x"),
                                                  ("worst_group_r", "x"), ("nll", "y"), ("macro_f1", "x")])
def test_wilds_chooses_by_the_headline_on_val(headline, better):
    """What ranks methods, of any grouping and in its direction, on `val` alone; without the card it is not known."""
    known = replace(rows_of({"train": "ab", "val": "c", "test": "d"}), card={"name": "b", "headline": headline})
    rows = []
    for run, value in (("x", 0.7), ("y", 0.3)):
        rows += run_rows("b", "m", run, 0, flat(val_accuracy=1 - value, val_nll=value, val_macro_f1=value,
                                                id_val_macro_f1=1 - value, test_macro_f1=1 - value), run)
        rows += [{**rows[-1], "split": "val", "group": "male = 1, label = toxic" if headline.startswith("worst")
                  else ALL, **Measure.parse(headline)._asdict(), "value": value}] * (headline not in METRICS)
    scores = Scores.of(rows)
    (one,) = select(scores, ["wilds"], targets=["accuracy"], benchmarks=[known]).choices
    assert (one.run, one.labels, one.criterion) == (better, "shifted", 0.7 if better == "x" else 0.3)
    assert select(scores, ["ood"], targets=["accuracy"], benchmarks=[known]).choices[0].run == "y"
    (refused,) = select(scores, ["wilds"], targets=["accuracy"]).refused
    assert "--benchmark" in refused.why


def test_leaving_out_needs_every_part():
    """A setting without a run on one of the parts cannot win; without parts or settings the rule chooses nothing."""
    rows = [row for setting in "xy" for row in run_rows("b", "m", setting, 0, flat(), setting)]
    (none,) = select(Scores.of(rows), ["leave_one_domain_out"], targets=["accuracy"]).refused
    assert "without one of its domains" in none.why
    parts = run_rows("b~d0", "m", "x", 0, flat(test_accuracy=0.6), "p") + run_rows("b~d1", "m", "x", 0, flat(), "q")
    parts += run_rows("b~d0", "m", "y", 0, flat(test_accuracy=0.9), "r")
    (one,) = select(Scores.of(rows + parts), ["leave_one_domain_out"], targets=["accuracy"]).choices
    assert (one.run, one.labels) == ("x", "none")
    assert one.criterion == pytest.approx(0.55)
    unnamed = Scores.of([{**row, "setting": ""} for row in rows + parts])
    (none,) = select(unnamed, ["leave_one_domain_out"], targets=["accuracy"]).refused
    assert "lack the settings" in none.why


@pytest.mark.parametrize(("rule", "keep", "why"), [
    ("id", lambda row: row["split"] != "id_val", "no accuracy on id_val"),
    ("ood", lambda row: row["split"] != "val", "no accuracy on val"),
    ("oracle", lambda row: row["split"] != "test", "no accuracy on test"),
    ("worst_class", lambda row: row["metric"] != "worst_class_accuracy", "no worst-class accuracy on id_val or val"),
    ("nooch", lambda row: "nll" not in row["metric"], "no worst-group log-loss"),
])
def test_a_rule_without_its_scores_says_so(rule, keep, why):
    """No other split or metric steps in; the other rules still choose."""
    rows = [row for setting in "xy" for row in run_rows("b", "m", setting, 0, flat(), setting) if keep(row)]
    found = select(Scores.of(rows), targets=["accuracy"])
    assert rule not in {one.rule for one in found.choices}
    assert any(one.rule == rule and why in one.why for one in found.refused)
    assert found.choices
    assert not len(chosen(Scores.of(rows), rule, allow_target=True))


def test_one_class_has_no_worst():
    """Where the worst class is all there is, its accuracy is the average and the rule would be another one."""
    rows = [{**row, "n": 40} for setting in "xy" for row in run_rows("b", "m", setting, 0, flat(), setting)]
    found = select(Scores.of(rows), ["worst_class", "worst_group"], targets=["accuracy"])
    assert [one.why for one in found.refused] == ["id_val has one class, so there is no worst",
                                                  "id_val has one group, so there is no worst"]


def rows_of(domains: dict[str, str]) -> Benchmark:
    """A benchmark whose splits have the named domains."""
    words = [(split, domain) for split, named in domains.items() for domain in named for _ in range(4)]
    collection = Collection("c", np.asarray([f"i{k}" for k in range(len(words))]))
    return Benchmark.of(collection, None, 0, np.arange(len(words)), np.asarray([split for split, _ in words]),
                        label=np.arange(len(words)) % 2, domain=np.asarray([domain for _, domain in words]),
                        card={"name": "b"})


@pytest.mark.parametrize(("rule", "domains", "labels"), [
    ("ood", {"train": "ab", "val": "c", "test": "d"}, "shifted"),
    ("ood", {"train": "ab", "val": "cd", "test": "d"}, "target"),
    ("ood", {"train": "ab", "test": "d"}, "unknown"),
    ("ood", None, "unknown"),
    ("id", {"train": "ab", "id_val": "ab", "test": "d"}, "none"),
    ("oracle", {"train": "ab", "test": "d"}, "target"),
])
def test_a_choice_says_which_labels_it_used(rule, domains, labels):
    """`val` is the target where it shares a domain with test; target or unknown is refused unless allowed."""
    scores = Scores.of([row for setting in "xy" for row in run_rows("b", "m", setting, 0, flat(), setting)])
    known = [rows_of(domains)] if domains else []
    made = select(scores, [rule], benchmarks=known).choices
    assert {one.labels for one in made} == {labels}
    if labels in ("target", "unknown"):
        with pytest.raises(ShiftBenchError, match=f"Rule '{rule}' chose runs of 'b' by .*allow_target=True"):
            refuse_target(made)
        with pytest.raises(ShiftBenchError):
            chosen(scores, rule, benchmarks=known)
    else:
        refuse_target(made)
    assert len(chosen(scores, rule, benchmarks=known, allow_target=True))


def test_no_interval_is_made_up():
    """Runs without intervals or without a test have means without them, not the whole of [0, 1]."""
    rows = [{**row, "low": math.nan, "high": math.nan} for seed in range(2)
            for row in run_rows("b", "m", "x", seed, flat())]
    (mean,) = over_seeds(select(Scores.of(rows), ["id"], targets=["accuracy"]).choices)
    assert mean.test == 0.5
    assert math.isnan(mean.low)
    assert math.isnan(mean.high)
    untested = Scores.of([row for row in rows if row["split"] != "test"])
    (mean,) = over_seeds(select(untested, ["id"], targets=["accuracy"]).choices)
    assert math.isnan(mean.test)
    assert math.isnan(mean.regret_low)


def test_a_worst_group_on_val_is_marked():
    """Without id_val the worst group of val is taken, and the choice says so and whose labels these are."""
    rows = [row for setting in "xy" for row in run_rows("b", "m", setting, 0, flat(), setting, ("val", "test"))]
    (one,) = select(Scores.of(rows), ["worst_group"], targets=["accuracy"],
                    benchmarks=[rows_of({"train": "a", "val": "b", "test": "b"})]).choices
    assert (one.by, one.labels) == ("worst-group accuracy on val", "target")


def test_names_of_rules_and_targets_are_checked():
    """A misspelt rule or target suggests the nearest."""
    with pytest.raises(ShiftBenchError, match=r"No rule named 'worst_grup'\. Did you mean 'worst_group'"):
        chosen(Scores.of([]), "worst_grup")
    with pytest.raises(ShiftBenchError, match="Did you mean 'accuracy'"):
        select(Scores.of([]), targets=["acuracy"])


@pytest.mark.parametrize(("level", "t"), [(0.95, 4.30265), (0.9, 2.91999)])
def test_seeds_widen_a_mean_by_students_t(level, t):
    """With three seeds a standard error counts 4.30 times at 95 %, and less at another level."""
    values = (0.4, 0.5, 0.6)
    rows = [row for seed, value in enumerate(values) for setting, best in (("x", 0.0), ("y", 0.3))
            for row in run_rows("b", "m", setting, seed, flat(test_accuracy=value + best, id_val_accuracy=0.9 - best))]
    (mean,) = over_seeds(select(Scores.of(rows), ["id"], targets=["accuracy"]).choices, level)
    assert mean.high - mean.test == pytest.approx(math.hypot(0.1, t * 0.1 / math.sqrt(3)), rel=1e-4)
    assert (mean.regret_low, mean.regret, mean.regret_high) == pytest.approx((0.3, 0.3, 0.3))


@pytest.mark.slow
@quick
@given(tables())
def test_means_lie_in_their_intervals(scores):
    """Over seeds and over benchmarks: plain means, regret = oracle − test, intervals that hold their value."""
    choices = select(scores).choices
    seeds = over_seeds(choices)
    for mean in seeds:
        mine = [one for one in choices if (one.benchmark, one.method, one.rule, one.target)
                == (mean.benchmark, mean.method, mean.rule, mean.target)]
        assert mean.test == pytest.approx(np.mean([one.test for one in mine]))
        assert mean.seeds == len(mine)
        assert mean.low <= mean.test <= mean.high
        assert mean.low <= max(0, mean.test - 0.1) + 1e-9  # at least as wide as the runs' own, within [0, 1]
        assert mean.high >= min(1, mean.test + 0.1) - 1e-9
        assert math.isnan(mean.regret_low) if len(mine) == 1 else mean.regret_low <= mean.regret <= mean.regret_high
    for mean in [*seeds, *over_benchmarks(seeds)]:
        assert mean.regret == pytest.approx(mean.oracle - mean.test)
    for mean in over_benchmarks(seeds):
        mine = [one for one in seeds if (one.method, one.rule, one.target) == (mean.method, mean.rule, mean.target)]
        assert mean.benchmarks == len(mine) == 2
        assert mean.test == pytest.approx(np.mean([one.test for one in mine]))


@pytest.mark.slow
def test_import_is_light():
    """Choosing needs neither torch nor what draws tables."""
    script = ("import shiftbench.scoring.select, shiftbench.cli.judging, sys;"
              "heavy = {'torch', 'matplotlib', 'jinja2', 'scipy', 'numba', 'igraph'} & set(sys.modules);"
              "assert not heavy, heavy")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
