"""In-distribution references of WILDS: what each is made of, when it can be made, and the gap against it."""

import json
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
from shiftbench.shifts.in_distribution import LEAST, REFERENCES, kind_of, legal, reference, reference_facts
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
@given(st.integers(550, 700), seeds, st.sampled_from(REFERENCES), st.floats(0.05, 0.95), st.sampled_from([
    SPLITS[:5], ("train", "test"), ("train", "val", "test"), SPLITS]))
def test_a_reference_shares_no_item_and_tests_what_the_benchmark_tests(n, seed, name, moved, splits):
    """No item is in two splits, all are the benchmark's with its labels; what is drawn from test leaves LEAST of it."""
    shifted = hospitals(n, seed % 7, seen=1.0, splits=splits)
    made = reference(shifted, name, seed, moved=moved)
    assert len(np.unique(made.items)) == len(made)
    words = dict(zip(shifted.items.tolist(), shifted.label.tolist(), strict=True))
    assert [words[item] for item in made.items.tolist()] == made.label.tolist()
    assert made.digest == reference(shifted, name, seed, moved=moved).digest
    if name in DRAWN:
        assert items(made, "test") <= items(shifted, "test")
        assert len(items(made, "test")) >= LEAST
        assert items(made, "train") & (items(shifted, "test") | items(shifted, "target_train"))
    if name == "test-to-test":
        assert not items(made, "train") & items(shifted, "train")
        assert len(items(made, "train")) <= len(items(shifted, "train"))
    if name == "mixed-to-test":
        assert len(items(made, "train")) == len(items(shifted, "train"))
        assert 2 * len(items(made, "train") & items(shifted, "train")) >= len(items(shifted, "train"))
        assert items(made, "val") == items(shifted, "val")
    if name == "train-to-train":
        assert items(made, "test") == items(shifted, "test")
        assert items(made, "id_test") <= (items(shifted, "id_test") or items(shifted, "train"))
    if name == "average":
        assert made.digest == shifted.digest
    if name == "random-split":
        assert all(len(items(made, split)) == len(items(shifted, split)) for split in SPLITS)


@settings(max_examples=20)
@given(seeds, st.floats(0.1, 0.9))
def test_what_is_drawn_from_test_has_its_shares(seed, moved):
    """Of every cell of label × domain the tested part keeps its share, to within an item."""
    shifted = hospitals(700, seed % 5)
    made = reference(shifted, "mixed-to-test", seed, moved=moved)
    before, after = (np.bincount(one.group[one.rows("test")], minlength=99) for one in (shifted, made))
    assert np.abs(after - before * after.sum() / before.sum()).max() <= 1


def test_the_card_tells_what_was_compared():
    """The card has the name, the kind of shift, and the benchmark by its digest; weights are 1 on average."""
    shifted = hospitals()
    made = reference(shifted, "mixed-to-test", 3)
    told = made.card["reference"]
    assert told["name"] == "mixed-to-test"
    assert told["kind"] == "domain generalization"
    assert told["shifted"]["digest"] == shifted.digest
    assert (told["train"], told["tested"]) == (len(made.rows("train")), len(made.rows("test")))
    assert made.extra["weight"][made.rows("train")].mean() == pytest.approx(1)
    assert (made.extra["weight"][made.rows("train")] > 0).all()


def test_the_card_of_an_older_version_is_read():
    """A card that has the reference as `setting`, and its benchmark there as `reference`, says the same."""
    facts = reference(hospitals(), "mixed-to-test").card["reference"]
    old = {("reference" if key == "shifted" else key): value for key, value in facts.items()}
    assert reference_facts({"setting": old}) == reference_facts({"reference": facts}) == facts
    assert reference_facts({}) == {}


def test_items_set_aside_for_the_target_are_trained_on_first():
    """Where target_train has as many items as are asked for, test stays whole."""
    shifted = hospitals(900, splits=("train", "test", "target_train"))
    rows = np.concatenate([shifted.rows(split)[:100] for split in ("train", "test", "target_train")])
    small = Benchmark(shifted.items[rows], shifted.split[rows], shifted.label[rows], shifted.domain[rows],
                      shifted.group[rows], shifted.names, shifted.card)
    assert items(reference(small, "test-to-test"), "test") == items(small, "test")
    assert items(reference(small, "test-to-test"), "train") <= items(small, "target_train")


@pytest.mark.parametrize(("seen", "kind"), [
    (0.0, "domain generalization"), (0.5, "hybrid"), (1.0, "subpopulation shift")])
def test_the_kind_of_shift_follows_from_its_domains(seen, kind):
    """Disjoint domains are domain generalization, test's among training's subpopulation shift, some of each hybrid."""
    assert kind_of(hospitals(seen=seen)) == kind


def test_groups_of_another_factor_make_a_hybrid():
    """New hospitals with the same sexes on both sides are a hybrid, as FMoW's new years with the same regions."""
    shifted = hospitals()
    sex = np.arange(len(shifted)) % 2
    crossed = replace(shifted, group=sex, names={**shifted.names, "group": ("f", "m")})
    assert kind_of(crossed) == "hybrid"
    assert not legal(crossed)["average"]


@pytest.mark.parametrize(("name", "broken", "says"), [
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
def test_a_reference_that_cannot_be_made_says_why(name, broken, says):
    """`legal` gives the reason, and making it all the same is an error that gives it too."""
    shifted = hospitals(broken.get("n", 600), splits=broken.get("splits", SPLITS[:5]))
    if "many" in broken:
        n = len(shifted)
        shifted = replace(shifted, domain=np.arange(n) // 4, names={
            **shifted.names, "domain": tuple(map(str, range(n)))})
    if "noisy" in broken:
        shifted = replace(shifted, extra={"true_label": np.full(len(shifted), "no")})
    if "double" in broken:
        shifted = replace(shifted, items=np.append(shifted.items[1:], shifted.items[1]))
    assert says in legal(shifted)[name]
    with pytest.raises(ShiftBenchError, match=says):
        reference(shifted, name)


def test_new_groups_have_an_average_where_one_says_so():
    """Amazon's users are new in test; with `unseen` their average is compared, and the card tells."""
    made = reference(hospitals(), "average", unseen=True)
    assert "not all in training" in " ".join(made.card["notes"])


def test_a_reference_that_the_data_set_has_is_taken_as_it_is(tmp_path):
    """With `given`, rows are those of the data set's own column, and the card names the benchmark."""
    rng = np.random.default_rng(0)
    split = np.repeat(["train", "test"], [300, 100])
    mixed = np.repeat(["unused", "train", "test", "train"], [40, 260, 60, 40])
    images = Collection("scans", np.asarray([f"s{k}" for k in range(400)]), {
        "tumor": rng.choice(["no", "yes"], 400), "hospital": np.where(split == "test", "b", "a"), "split": split,
        "split_mixed_to_test": mixed})
    images.save(tmp_path / "scans")
    recipe = tmp_path / "given.toml"
    recipe.write_text(f'collection = "{tmp_path / "scans"}"\n[shift.given]\nlabel = "tumor"\ndomain = "hospital"\n')
    shifted = sb.build(recipe, tmp_path / "b")
    made = sb.reference(tmp_path / "b", "mixed-to-test", tmp_path / "m", given="split_mixed_to_test")
    assert items(made, "test") == {f"s{k}" for k in range(300, 360)}
    assert items(made, "train") == {f"s{k}" for k in [*range(40, 300), *range(360, 400)]}
    assert made.card["reference"]["given"] == "split_mixed_to_test"
    assert made.card["reference"]["shifted"]["digest"] == shifted.digest


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


@pytest.mark.parametrize("name", REFERENCES)
def test_the_gap_is_the_difference_of_its_sides_and_lies_in_its_interval(name):
    """In − out is the gap of every metric; its interval holds it and, of accuracy, the truth it was drawn from."""
    shifted = hospitals(3000, seen=1.0 if name == "average" else 0.0)
    outside = Side(shifted, [predictions(shifted, BEFORE, seed) for seed in range(3)])
    made = reference(shifted, name, unseen=True)
    inside = None if name in ("train-to-train", "average") else Side(
        made, [predictions(made, AFTER, 10 + seed) for seed in range(2)])
    found = gap(outside, inside, reference=name, method="erm")
    for row in found:
        assert row["low"] <= row["value"] <= row["high"]
    for metric in ("accuracy", "macro_f1", "worst_group_accuracy")[2 * (name == "average"):]:
        average = "accuracy" if name == "average" else metric
        assert value(found, name, metric + GAPS) == pytest.approx(
            value(found, name + IN, average) - value(found, name + OUT, metric))
    if name in DRAWN:
        row = next(iter(found.where(metric="accuracy_gap")))
        assert row["low"] <= 0.25 <= row["high"]
        assert row["n"] == len(made.rows("test"))


def test_the_gap_of_a_benchmark_against_itself_is_nothing():
    """Runs that say the same on both sides have gap 0 in every metric, with an interval around it."""
    shifted = hospitals(800)
    runs = [predictions(shifted, BEFORE, seed) for seed in range(3)]
    made = reference(shifted, "mixed-to-test")
    for row in gap(Side(shifted, runs), Side(made, runs)):
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
    one, two = (next(iter(gap(Side(side, [run]), reference="average").where(metric=metric))) for side in (plain, mixed))
    assert one["low"] < one["value"] < one["high"]
    for end in ("value", "low", "high"):
        assert one[end] == pytest.approx(two[end], abs=1e-9)


def test_pairing_by_item_narrows_the_gap():
    """Two models that err on the same items are compared more sharply item by item than as two separate tests."""
    shifted = hospitals(2000)
    hard = np.random.default_rng(0).random(len(shifted)) < 0.4
    slip = [np.random.default_rng(seed).random(len(shifted)) < 0.02 for seed in (1, 2)]
    both = [Predictions(shifted.items, shifted.split, np.eye(2, dtype=np.float32)[
        np.where(hard ^ one, 1 - shifted.label, shifted.label)], shifted.names["label"]) for one in slip]
    made = reference(shifted, "mixed-to-test")
    row = next(iter(gap(Side(shifted, both[:1]), Side(made, both[1:])).where(metric="accuracy_gap")))
    sides = [next(iter(gap(Side(shifted, both[:1]), Side(made, both[1:])).where(metric="accuracy", split=split)))
             for split in ("mixed-to-test" + IN, "mixed-to-test" + OUT)]
    assert row["high"] - row["low"] < 0.5 * np.hypot(*[side["high"] - side["low"] for side in sides])


def test_a_gap_of_numbers_is_told_by_their_correlation():
    """Where numbers are asked for, the reference keeps the target, and r falls out of distribution."""
    plain = hospitals(1500)
    rng = np.random.default_rng(0)
    truth = rng.normal(size=len(plain))
    shifted = replace(plain, label=np.zeros(len(plain), np.int64), names={**plain.names, "label": ("wealth",)},
                        extra={"wealth": truth}, card={"target": {"kind": "number", "columns": ["wealth"]}})
    made = reference(shifted, "mixed-to-test")
    assert made.target.kind == "number"

    def run(noise: float) -> Predictions:
        scores = (truth + noise * rng.normal(size=len(truth))).astype(np.float32)[:, None]
        return Predictions(shifted.items, shifted.split, scores, ("wealth",))

    sides = Side(shifted, [run(2.0), run(2.0)]), Side(made, [run(0.3), run(0.3)])
    row = next(iter(gap(*sides).where(metric="r_gap", split="mixed-to-test")))
    assert row["low"] <= 1 / np.hypot(1, 0.3) - 1 / np.hypot(1, 2) <= row["high"]
    for row in gap(sides[0], reference="train-to-train").where(split="train-to-train"):
        assert row["low"] <= 0 <= row["high"]
    assert "worst_group_r_gap" in gap(sides[0], reference="average")["metric"]


def test_a_gap_needs_the_benchmark_of_the_reference():
    """Runs on a reference of another benchmark, or none, are refused."""
    shifted, other = hospitals(seed=0), hospitals(seed=1)
    made = reference(other, "mixed-to-test")
    outside = Side(shifted, [predictions(shifted, BEFORE, 0)])
    with pytest.raises(ShiftBenchError, match="no reference of"):
        gap(outside, Side(made, [predictions(made, AFTER, 0)]))
    with pytest.raises(ShiftBenchError, match="needs runs"):
        gap(outside, reference="mixed-to-test")


@pytest.mark.slow
def test_from_a_benchmark_to_its_gap_on_the_command_line(tmp_path):
    """check lists, build makes, train runs on both, gap tells what the shift costs."""
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
    listed = run(app, ["check", str(tmp_path / "b"), "--references"])
    assert listed.exit_code == 0
    assert "domain generalization" in listed.output
    folders = [str(tmp_path / "b"), "--out", str(tmp_path / "m")]
    wrong = run(app, ["build", *folders, "--reference", "mixed-to-test", "--set", "move=0.5"])
    assert "No setting named 'move'. Did you mean 'moved'?" in str(wrong.exception)
    made = run(app, ["build", *folders, "--reference", "mixed-to-test", "--set", "moved=0.5", "--json"])
    assert made.exit_code == 0, made.output
    assert json.loads(made.output)["card"] == Benchmark.load(tmp_path / "m").card
    for folder in ("b", "m"):
        sb.train(tmp_path / folder, method="erm", model="pixel-mlp", steps=60, eval_every=60, out=tmp_path / "runs")
    told = run(app, ["gap", str(tmp_path / "runs"), "--out", str(tmp_path / "gaps.csv")])
    assert told.exit_code == 0, told.output
    found = sb.Scores.load(tmp_path / "gaps.csv")
    assert set(found["split"]) >= {"mixed-to-test", "train-to-train"}
    assert next(iter(found.where(split="train-to-train", metric="accuracy_gap")))["low"] > 0
    with pytest.raises(ShiftBenchError, match="allow no gap to reference random-split"):
        sb.gap(tmp_path / "runs", reference="random-split")
