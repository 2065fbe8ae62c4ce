"""Conditions on top of a shift: label noise and size."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import parse_changes
from shiftbench.data.benchmark import Benchmark
from shiftbench.shifts import Noise, Recipe, Size, Spurious, Under, build
from tests.shifts.test_fine_grained import GRID, LOW, SHIFTS_BEFORE, chosen, grid, quick
from tests.strategies import seeds


@pytest.mark.parametrize("shift", SHIFTS_BEFORE, ids=lambda shift: shift.name)
@given(p=st.floats(0, 1), seed=st.integers(0, 1000))
@quick
def test_noise_is_wrong_where_it_is_and_nowhere_but_in_training(shift, p, seed):
    """Other splits keep label and group; a noisy label differs from the true one, which is kept; groups follow."""
    clean = shift.build(GRID, seed)
    noisy = Noise(p)(clean)
    words = np.asarray(noisy.names["label"])
    truth = noisy.extra["true_label"]
    assert (truth == words[clean.label]).all()
    wrong = noisy.label != clean.label
    assert set(noisy.split[wrong].tolist()) <= {"train"}
    seen = [f"{words[y]}, {noisy.names['domain'][d]}" for y, d in zip(noisy.label, noisy.domain, strict=True)]
    assert [noisy.names["group"][g] for g in noisy.group] == seen
    assert noisy.card["conditions"] == [{"name": "noise", "p": p}]
    assert "conditions" not in clean.card
    more = Noise(min(1.0, p + 0.2))(clean)
    assert (more.label[wrong] == noisy.label[wrong]).all()
    assert (Noise(1.0)(clean).label != clean.label)[clean.rows("train")].all()


def test_noise_has_its_probability_and_every_wrong_label_is_as_likely():
    """Over 6,000 training items, shares within four standard errors of p and of p / (|Y| − 1)."""
    clean = replace(LOW, n_low=10).build(grid(1500), 0)
    noisy = Noise(0.3)(clean)
    train = clean.rows("train")
    assert (noisy.label != clean.label)[train].mean() == pytest.approx(0.3, abs=4 * (0.21 / len(train)) ** 0.5)
    step = (noisy.label - clean.label)[train] % 3
    assert (step == 1).mean() == pytest.approx(0.15, abs=4 * (0.13 / len(train)) ** 0.5)


def test_noise_of_an_item_does_not_depend_on_the_other_ids():
    """A longer id elsewhere widens the column and changes no label."""
    clean = LOW.build(GRID, 4)
    assert Noise(0.5)(replace(clean, items=clean.items.astype("U40"))).digest == Noise(0.5)(clean).digest


@pytest.mark.parametrize("shift", SHIFTS_BEFORE, ids=lambda shift: shift.name)
@given(n=st.integers(20, 48), p=st.floats(0, 1), seed=st.integers(0, 1000))
@quick
def test_size_and_noise_commute_and_keep_the_rest(shift, n, p, seed):
    """n items remain, those of other splits all; each cell keeps its share to within one; either order, one digest."""
    full = shift.build(GRID, seed)
    cut = Size(n)(full)
    assert len(cut.rows("train")) == n
    assert (cut.items[cut.split != "train"] == full.items[full.split != "train"]).all()
    before, after = full.counts()["train"], cut.counts()["train"]
    parts = 2 if "part" in full.extra else 1
    for group, there in before.items():
        assert abs(after.get(group, 0) - there * n / len(full.rows("train"))) < parts + 1e-9
    assert Noise(p)(cut).digest == Size(n)(Noise(p)(full)).digest
    if "weight" in full.extra:
        few = cut.extra["part"] == "few"
        assert cut.extra["weight"][cut.split == "train"].mean() == pytest.approx(1)
        if few.any():
            whole = full.extra["weight"][full.extra["part"] == "few"].sum() / full.extra["weight"].sum()
            assert cut.extra["weight"][few].sum() / cut.extra["weight"].sum() == pytest.approx(whole)


@given(n=st.integers(10, 100), ratio=st.floats(0.001, 0.1), seed=seeds)
@quick
def test_size_holds_the_ratio_of_low_items(n, ratio, seed):
    """max(1, round(ratio · n)) of the n items are of the part `few`."""
    cut = Size(n, ratio)(replace(LOW, n_low=12).build(GRID, seed))
    assert len(cut.rows("train")) == n
    assert len(chosen(cut, part="few")) == max(1, round(ratio * n))


RECIPE = """
collection = "grid"
seed = 2
[shift.spurious]
label = "shape"
factor = "colour"
n_uncorrelated = 9
pairs = {square = "red", ellipse = ["green", "blue"]}
[condition.noise]
p = 0.2
[condition.size]
n = 50
"""


def test_conditions_are_tables_of_a_recipe(tmp_path):
    """TOML and Python agree, --set reaches a condition in the file or adds one, and the file keeps everything."""
    GRID.save(tmp_path / "grid")
    (tmp_path / "r.toml").write_text(RECIPE)
    made = build(tmp_path / "r.toml", tmp_path / "b")
    shift = Spurious("shape", "colour", 9, pairs={"square": "red", "ellipse": ("green", "blue")})
    assert made.digest == Under(shift, (Noise(0.2), Size(50))).build(GRID, 2).digest
    assert [one["name"] for one in Benchmark.load(tmp_path / "b").card["conditions"]] == ["noise", "size"]
    changed = Recipe.load(tmp_path / "r.toml", parse_changes(["condition.size.n=40", "n_uncorrelated=3"])).shift
    assert changed == Under(replace(shift, n_uncorrelated=3), (Noise(0.2), Size(40)))
    (tmp_path / "plain.toml").write_text(RECIPE.partition("[condition")[0])
    added = Recipe.load(tmp_path / "plain.toml", parse_changes(["condition.noise.p=0.4"])).shift
    assert added == Under(shift, (Noise(0.4),))
    assert Recipe.load(tmp_path / "plain.toml").shift == shift


@pytest.mark.parametrize(("old", "new", "message"), [
    ("condition.noise", "condition.nois", "Did you mean 'noise'"),
    ("p = 0.2", "q = 0.2", "No setting named 'q'"),
    ("n = 50", "", "'n' is missing"),
    ("[condition.size]\nn = 50", "", None),
    ("[condition.noise]\np = 0.2\n[condition.size]\nn = 50", "[condition]\nnoise = 0.2", "tables \\[condition.NAME\\]"),
])
def test_bad_conditions_are_explained(tmp_path, old, new, message):
    """Unknown names suggest the nearest; what is missing or no table is said."""
    (tmp_path / "r.toml").write_text(RECIPE.replace(old, new))
    if message is None:
        assert len(Recipe.load(tmp_path / "r.toml").shift.conditions) == 1
        return
    with pytest.raises(ShiftBenchError, match=message):
        Recipe.load(tmp_path / "r.toml")
