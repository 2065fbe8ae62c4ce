"""In-distribution settings of WILDS: what each is made of, when it can be made, and the gap against it."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import shiftbench as sb
from shiftbench.cli import app
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import SPLITS, Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.predictions import Predictions
from shiftbench.scoring.gaps import GAPS, IN, OUT, Side, gap
from shiftbench.shifts import Given
from shiftbench.shifts.in_distribution import LEAST, SETTINGS, in_distribution, kind_of, legal
from tests.strategies import seeds

DRAWN = ("test-to-test", "mixed-to-test")


def hospitals(n: int = 600, seed: int = 0, seen: float = 0.0, splits: tuple[str, ...] = SPLITS[:5]) -> Benchmark:
    """Items of two hospitals before the shift and two after it; a share `seen` of test is of one of the first."""
    rng = np.random.default_rng(seed)
    split = rng.permutation(np.resize(np.asarray([*splits, "train", "train", "train"]), n))
    moved = np.isin(split, ("val", "test", "target_train"))
    domain = np.where(moved, rng.choice(["d", "e"], n), rng.choice(["a", "b"], n))
    domain = np.where((split == "test") & (rng.random(n) < seen), "a", domain)
    images = Collection("scans", np.asarray([f"scan{k}" for k in range(n)]), {
        "tumor": rng.choice(["no", "yes"], n), "hospital": domain, "split": split})
    benchmark = Given("tumor", domain="hospital").build(images)
    return replace(benchmark, extra={"weight": np.where(benchmark.split == "train", 1.0, 0.0)})


def items(benchmark: Benchmark, split: str) -> set[str]:
    return set(benchmark.items[benchmark.rows(split)].tolist())


@settings(max_examples=40)
@given(st.integers(550, 700), seeds, st.sampled_from(SETTINGS), st.floats(0.05, 0.95), st.sampled_from([
    SPLITS[:5], ("train", "test"), ("train", "val", "test"), SPLITS]))
def test_a_setting_shares_no_item_and_tests_what_the_reference_tests(n, seed, setting, moved, splits):
    """No item is in two splits, all are the reference's with its labels; what is drawn from test leaves LEAST of it."""
    reference = hospitals(n, seed % 7, seen=1.0, splits=splits)
    made = in_distribution(reference, setting, seed, moved=moved)
    assert len(np.unique(made.items)) == len(made)
    words = dict(zip(reference.items.tolist(), reference.label.tolist(), strict=True))
    assert [words[item] for item in made.items.tolist()] == made.label.tolist()
    assert made.digest == in_distribution(reference, setting, seed, moved=moved).digest
    if setting in DRAWN:
        assert items(made, "test") <= items(reference, "test")
        assert len(items(made, "test")) >= LEAST
        assert items(made, "train") & (items(reference, "test") | items(reference, "target_train"))
    if setting == "test-to-test":
        assert not items(made, "train") & items(reference, "train")
        assert len(items(made, "train")) <= len(items(reference, "train"))
    if setting == "mixed-to-test":
        assert len(items(made, "train")) == len(items(reference, "train"))
        assert 2 * len(items(made, "train") & items(reference, "train")) >= len(items(reference, "train"))
        assert items(made, "val") == items(reference, "val")
    if setting == "train-to-train":
        assert items(made, "test") == items(reference, "test")
        assert items(made, "id_test") <= (items(reference, "id_test") or items(reference, "train"))
    if setting == "average":
        assert made.digest == reference.digest
    if setting == "random-split":
        assert all(len(items(made, split)) == len(items(reference, split)) for split in SPLITS)


@settings(max_examples=20)
@given(seeds, st.floats(0.1, 0.9))
def test_what_is_drawn_from_test_has_its_shares(seed, moved):
    """Of every cell of label × domain the tested part keeps its share, to within an item."""
    reference = hospitals(700, seed % 5)
    made = in_distribution(reference, "mixed-to-test", seed, moved=moved)
    before, after = (np.bincount(one.group[one.rows("test")], minlength=99) for one in (reference, made))
    assert np.abs(after - before * after.sum() / before.sum()).max() <= 1


def test_the_card_tells_what_was_compared():
    """The card has the setting, the kind of shift, and the reference by its digest; weights are 1 on average."""
    reference = hospitals()
    made = in_distribution(reference, "mixed-to-test", 3)
    told = made.card["setting"]
    assert told["name"] == "mixed-to-test"
    assert told["kind"] == "domain generalization"
    assert told["reference"]["digest"] == reference.digest
    assert (told["train"], told["tested"]) == (len(made.rows("train")), len(made.rows("test")))
    assert made.extra["weight"][made.rows("train")].mean() == pytest.approx(1)
    assert (made.extra["weight"][made.rows("train")] > 0).all()


def test_items_set_aside_for_the_target_are_trained_on_first():
    """Where target_train has as many items as are asked for, test stays whole."""
    reference = hospitals(900, splits=("train", "test", "target_train"))
    rows = np.concatenate([reference.rows(split)[:100] for split in ("train", "test", "target_train")])
    small = Benchmark(reference.items[rows], reference.split[rows], reference.label[rows], reference.domain[rows],
                      reference.group[rows], reference.names, reference.card)
    assert items(in_distribution(small, "test-to-test"), "test") == items(small, "test")
    assert items(in_distribution(small, "test-to-test"), "train") <= items(small, "target_train")


@pytest.mark.parametrize(("seen", "kind"), [
    (0.0, "domain generalization"), (0.5, "hybrid"), (1.0, "subpopulation shift")])
def test_the_kind_of_shift_follows_from_its_domains(seen, kind):
    """Disjoint domains are domain generalization, test's among training's subpopulation shift, some of each hybrid."""
    assert kind_of(hospitals(seen=seen)) == kind


def test_groups_of_another_factor_make_a_hybrid():
    """New hospitals with the same sexes on both sides are a hybrid, as FMoW's new years with the same regions."""
    reference = hospitals()
    sex = np.arange(len(reference)) % 2
    crossed = replace(reference, group=sex, names={**reference.names, "group": ("f", "m")})
    assert kind_of(crossed) == "hybrid"
    assert not legal(crossed)["average"]


@pytest.mark.parametrize(("setting", "broken", "says"), [
    ("average", {}, "not in training"),
    ("mixed-to-test", {"n": 150}, "under 30 are left"),
    ("test-to-test", {"n": 150}, "under 30 are left"),
    ("test-to-test", {"many": True}, "under 10 items"),
    ("random-split", {"noisy": True}, "noisy"),
    ("train-to-train", {"noisy": True, "splits": ("train", "test")}, "noisy"),
    ("train-to-train", {"n": 60, "splits": ("train", "test")}, "too few"),
    ("test-to-test", {"splits": ("train", "val")}, "no split 'test'"),
    ("random-split", {"double": True}, "two rows"),
])
def test_a_setting_that_cannot_be_made_says_why(setting, broken, says):
    """`legal` gives the reason, and making it all the same is an error that gives it too."""
    reference = hospitals(broken.get("n", 600), splits=broken.get("splits", SPLITS[:5]))
    if "many" in broken:
        n = len(reference)
        reference = replace(reference, domain=np.arange(n) // 4, names={
            **reference.names, "domain": tuple(map(str, range(n)))})
    if "noisy" in broken:
        reference = replace(reference, extra={"true_label": np.full(len(reference), "no")})
    if "double" in broken:
        reference = replace(reference, items=np.append(reference.items[1:], reference.items[1]))
    assert says in legal(reference)[setting]
    with pytest.raises(ShiftBenchError, match=says):
        in_distribution(reference, setting)


def test_new_groups_have_an_average_where_one_says_so():
    """Amazon's users are new in test; with `unseen` their average is compared, and the card tells."""
    made = in_distribution(hospitals(), "average", unseen=True)
    assert "not all in training" in " ".join(made.card["notes"])


def test_a_setting_that_the_data_set_has_is_taken_as_it_is(tmp_path):
    """With `given`, rows are those of the data set's own column, and the reference is told."""
    rng = np.random.default_rng(0)
    split = np.repeat(["train", "test"], [300, 100])
    mixed = np.repeat(["unused", "train", "test", "train"], [40, 260, 60, 40])
    images = Collection("scans", np.asarray([f"s{k}" for k in range(400)]), {
        "tumor": rng.choice(["no", "yes"], 400), "hospital": np.where(split == "test", "b", "a"), "split": split,
        "split_mixed_to_test": mixed})
    images.save(tmp_path / "scans")
    recipe = tmp_path / "given.toml"
    recipe.write_text(f'collection = "{tmp_path / "scans"}"\n[shift.given]\nlabel = "tumor"\ndomain = "hospital"\n')
    reference = sb.build(recipe, tmp_path / "b")
    made = sb.setting(tmp_path / "b", "mixed-to-test", tmp_path / "m", given="split_mixed_to_test")
    assert items(made, "test") == {f"s{k}" for k in range(300, 360)}
    assert items(made, "train") == {f"s{k}" for k in [*range(40, 300), *range(360, 400)]}
    assert made.card["setting"]["given"] == "split_mixed_to_test"
    assert made.card["setting"]["reference"]["digest"] == reference.digest


def predictions(benchmark: Benchmark, right: dict[str, float], seed: int) -> Predictions:
    """A run that is right about a share of each domain's items, and always about the same ones of an easy half."""
    rng = np.random.default_rng(seed)
    share = np.asarray([right[name] for name in benchmark.names["domain"]])[benchmark.domain]
    label = np.where(rng.random(len(benchmark)) < share, benchmark.label, 1 - benchmark.label)
    return Predictions(benchmark.items, benchmark.split, np.eye(2, dtype=np.float32)[label], benchmark.names["label"])


def value(scores, split: str, metric: str) -> float:
    return float(scores.where(split=split, metric=metric)["value"][0])


BEFORE = {"a": 0.9, "b": 0.9, "d": 0.6, "e": 0.6}
AFTER = {"a": 0.9, "b": 0.9, "d": 0.85, "e": 0.85}


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_gap_is_the_difference_of_its_sides_and_lies_in_its_interval(setting):
    """In − out is the gap of every metric; its interval holds it and, of accuracy, the truth it was drawn from."""
    reference = hospitals(3000, seen=1.0 if setting == "average" else 0.0)
    outside = Side(reference, [predictions(reference, BEFORE, seed) for seed in range(3)])
    made = in_distribution(reference, setting, unseen=True)
    inside = None if setting in ("train-to-train", "average") else Side(
        made, [predictions(made, AFTER, 10 + seed) for seed in range(2)])
    found = gap(outside, inside, setting=setting, method="erm")
    for row in found:
        assert row["low"] <= row["value"] <= row["high"]
    for metric in ("accuracy", "macro_f1", "worst_group_accuracy")[2 * (setting == "average"):]:
        average = "accuracy" if setting == "average" else metric
        assert value(found, setting, metric + GAPS) == pytest.approx(
            value(found, setting + IN, average) - value(found, setting + OUT, metric))
    if setting in DRAWN:
        row = next(iter(found.where(metric="accuracy_gap")))
        assert row["low"] <= 0.25 <= row["high"]
        assert row["n"] == len(made.rows("test"))


def test_the_gap_of_a_benchmark_against_itself_is_nothing():
    """Runs that say the same on both sides have gap 0 in every metric, with an interval around it."""
    reference = hospitals(800)
    runs = [predictions(reference, BEFORE, seed) for seed in range(3)]
    made = in_distribution(reference, "mixed-to-test")
    for row in gap(Side(reference, runs), Side(made, runs)):
        if row["metric"].endswith(GAPS):
            assert row["value"] == pytest.approx(0, abs=1e-12)
            assert row["low"] <= 0 <= row["high"]


@pytest.mark.parametrize("kind", ["class", "number"])
def test_the_gap_to_the_worst_group_does_not_depend_on_the_order_of_rows(kind):
    """Average − worst group pairs each item with itself, so shuffled rows have the same gap and the same interval."""
    plain = hospitals(800, seen=1.0)
    rng = np.random.default_rng(0)
    truth = rng.normal(size=len(plain))
    said = (truth + np.where(plain.domain == 0, 2.0, 0.5) * rng.normal(size=len(plain))).astype(np.float32)
    if kind == "number":
        plain = replace(plain, label=np.zeros(len(plain), np.int64), names={**plain.names, "label": ("wealth",)},
                        extra={"wealth": truth}, card={"target": {"kind": "number", "columns": ["wealth"]}})
    run = predictions(plain, {"a": 0.5, "b": 0.9, "d": 0.8, "e": 0.9}, 0) if kind == "class" else Predictions(
        plain.items, plain.split, said[:, None], ("wealth",))
    order = rng.permutation(len(plain))
    mixed = replace(plain, **{name: getattr(plain, name)[order] for name in (
        "items", "split", "label", "domain", "group")}, extra={name: one[order] for name, one in plain.extra.items()})
    metric = ("worst_group_accuracy" if kind == "class" else "worst_group_r") + GAPS
    one, two = (next(iter(gap(Side(side, [run]), setting="average").where(metric=metric))) for side in (plain, mixed))
    assert one["low"] < one["value"] < one["high"]
    for end in ("value", "low", "high"):
        assert one[end] == pytest.approx(two[end], abs=1e-9)


def test_pairing_by_item_narrows_the_gap():
    """Two models that err on the same items are compared more sharply item by item than as two separate tests."""
    reference = hospitals(2000)
    hard = np.random.default_rng(0).random(len(reference)) < 0.4
    slip = [np.random.default_rng(seed).random(len(reference)) < 0.02 for seed in (1, 2)]
    both = [Predictions(reference.items, reference.split, np.eye(2, dtype=np.float32)[
        np.where(hard ^ one, 1 - reference.label, reference.label)], reference.names["label"]) for one in slip]
    made = in_distribution(reference, "mixed-to-test")
    row = next(iter(gap(Side(reference, both[:1]), Side(made, both[1:])).where(metric="accuracy_gap")))
    sides = [next(iter(gap(Side(reference, both[:1]), Side(made, both[1:])).where(metric="accuracy", split=split)))
             for split in ("mixed-to-test" + IN, "mixed-to-test" + OUT)]
    assert row["high"] - row["low"] < 0.5 * np.hypot(*[side["high"] - side["low"] for side in sides])


def test_a_gap_of_numbers_is_told_by_their_correlation():
    """Where numbers are asked for, the setting keeps the target, and r falls out of distribution."""
    plain = hospitals(1500)
    rng = np.random.default_rng(0)
    truth = rng.normal(size=len(plain))
    reference = replace(plain, label=np.zeros(len(plain), np.int64), names={**plain.names, "label": ("wealth",)},
                        extra={"wealth": truth}, card={"target": {"kind": "number", "columns": ["wealth"]}})
    made = in_distribution(reference, "mixed-to-test")
    assert made.target.kind == "number"

    def run(noise: float) -> Predictions:
        scores = (truth + noise * rng.normal(size=len(truth))).astype(np.float32)[:, None]
        return Predictions(reference.items, reference.split, scores, ("wealth",))

    sides = Side(reference, [run(2.0), run(2.0)]), Side(made, [run(0.3), run(0.3)])
    row = next(iter(gap(*sides).where(metric="r_gap", split="mixed-to-test")))
    assert row["low"] <= 1 / np.hypot(1, 0.3) - 1 / np.hypot(1, 2) <= row["high"]
    for row in gap(sides[0], setting="train-to-train").where(split="train-to-train"):
        assert row["low"] <= 0 <= row["high"]
    assert "worst_group_r_gap" in gap(sides[0], setting="average")["metric"]


def test_a_gap_needs_the_reference_of_the_setting():
    """Runs on a setting of another benchmark, or none, are refused."""
    reference, other = hospitals(seed=0), hospitals(seed=1)
    made = in_distribution(other, "mixed-to-test")
    outside = Side(reference, [predictions(reference, BEFORE, 0)])
    with pytest.raises(ShiftBenchError, match="no setting of"):
        gap(outside, Side(made, [predictions(made, AFTER, 0)]))
    with pytest.raises(ShiftBenchError, match="needs runs"):
        gap(outside, setting="mixed-to-test")


def test_from_a_benchmark_to_its_gap_on_the_command_line(tmp_path):
    """setting lists and makes, train runs on both, gap tells what the shift costs; a lone reference tells its own."""
    rng = np.random.default_rng(0)
    n = 400
    split = np.repeat(["train", "id_val", "id_test", "test"], n // 4)
    label = rng.integers(0, 2, n)
    pixels = rng.integers(0, 60, (n, 8, 8, 3), dtype=np.uint8)
    place = np.where(split == "test", 1 - label, label)  # what tells the classes apart in training misleads in test
    pixels[np.arange(n), :, :4] += (130 * place).astype(np.uint8)[:, None, None, None]
    pixels[np.arange(n), :, 4:] += (60 * label).astype(np.uint8)[:, None, None, None]
    images = Collection("cells", np.asarray([f"c{k}" for k in range(n)]), {
        "label": np.asarray(["no", "yes"])[label], "hospital": np.where(split == "test", "b", "a"), "split": split},
        pixels=pixels)
    images.save(tmp_path / "cells")
    recipe = tmp_path / "given.toml"
    recipe.write_text(f'collection = "{tmp_path / "cells"}"\n[shift.given]\nlabel = "label"\ndomain = "hospital"\n')
    sb.build(recipe, tmp_path / "b")
    run = CliRunner().invoke
    listed = run(app, ["setting", str(tmp_path / "b")])
    assert listed.exit_code == 0
    assert "domain generalization" in listed.output
    made = run(app, ["setting", str(tmp_path / "b"), "--to", "mixed-to-test", "--out", str(tmp_path / "m"), "--json"])
    assert made.exit_code == 0, made.output
    for folder in ("b", "m"):
        sb.train(tmp_path / folder, method="erm", model="pixel-mlp", steps=60, eval_every=60, out=tmp_path / "runs")
    told = run(app, ["gap", str(tmp_path / "runs"), "--out", str(tmp_path / "gaps.csv")])
    assert told.exit_code == 0, told.output
    found = sb.Scores.load(tmp_path / "gaps.csv")
    assert set(found["split"]) >= {"mixed-to-test", "train-to-train"}
    assert next(iter(found.where(split="train-to-train", metric="accuracy_gap")))["low"] > 0
    with pytest.raises(ShiftBenchError, match="tell no gap of setting random-split"):
        sb.gap(tmp_path / "runs", setting="random-split")
