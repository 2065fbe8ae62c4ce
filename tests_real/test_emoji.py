"""Four vendors draw the same emoji: a model that learned from three of them knows less of the fourth's."""

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import shiftbench as sb
from shiftbench.compat import run_script
from shiftbench.compat.wilds import CombinatorialGrouper, get_dataset, get_train_loader, wilds_modules
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.predictions import Predictions
from shiftbench.data.scores import Scores
from shiftbench.scoring import runs_in, score
from tests_real.emoji import SIDE, VENDORS, draw, write_table

UNSEEN = ("openmoji", "fluent")
"""OpenMoji draws with black outlines and is unlike the other three; Fluent is like two of them."""
METHODS = ("erm", "coral", "irm", "group_dro")
RECIPE = """
[shift.given]
label = "label"
domain = "domain"
split = "no_{unseen}"
ignore = ["unused"]
"""
STUDY = """
benchmarks = ["benchmarks/*"]
seeds = 3
[run]
model = "mlp"
features = "efficientnet-lite0@96"
batches = "domain"
batch_size = 16
steps = 200
[methods.erm]
[methods.coral]
[methods.irm]
[methods.group_dro]
"""
SCRIPT = Path(__file__).parent.parent / "examples" / "wilds_script.py"
READ = "shiftbench read table emoji.csv --id emoji --label group --domain vendor --image file --images {images} --quiet"


@pytest.fixture(scope="module")
def drawn(cache):
    return draw(cache)


@pytest.fixture(scope="module")
def made(drawn, place, shell):
    """The table, its collection and a benchmark for each unseen vendor, by the command line alone."""
    glyphs, pictures = drawn
    write_table(glyphs, place / "emoji.csv")
    shell(READ.format(images=pictures) + " --out collections/emoji")
    for unseen in UNSEEN:
        (place / f"{unseen}.toml").write_text(RECIPE.format(unseen=unseen))
        shell(f"shiftbench build {unseen}.toml --collection collections/emoji --out benchmarks/{unseen} --quiet")
    return place


@pytest.fixture(scope="module")
def gaps(made, shell):
    """What the shift costs each method: on each benchmark, and against training that has seen OpenMoji."""
    shell("shiftbench build benchmarks/openmoji --reference mixed-to-test --set moved=0.001 "
          "--out benchmarks/openmoji-mixed --quiet")  # from target_train alone: test stays whole
    for unseen in UNSEEN:
        shell(f"shiftbench embed benchmarks/{unseen} --size 96 --quiet")
    (made / "study.toml").write_text(STUDY)
    shell("shiftbench sweep study.toml --out runs --quiet")
    shell("shiftbench gap runs --out gaps.csv --quiet")
    return {(row["benchmark"], row["split"], row["method"], row["metric"]): row for row in Scores.load("gaps.csv")}


def test_pictures_are_real(drawn):
    """All four vendors have drawn every glyph, none is blank, and no two vendors' pictures of it are equal."""
    glyphs, pictures = drawn
    assert len(glyphs) > 1300
    seen = np.stack([[np.asarray(Image.open(pictures / vendor / f"{glyph.code}.png").convert("RGB").resize((24, 24)))
                      for glyph in glyphs] for vendor in VENDORS]).astype(np.int16)
    assert Image.open(pictures / "noto" / f"{glyphs[0].code}.png").size == (SIDE, SIDE)
    assert (np.ptp(seen.reshape(*seen.shape[:2], -1), axis=2) > 20).all()
    for one in range(4):
        for other in range(one):
            assert (np.abs(seen[one] - seen[other]).max(axis=(1, 2, 3)) > 0).all()


def test_no_glyph_is_on_both_sides(made):
    """A glyph that is trained on is tested for no vendor, and the unseen vendor is in no training row."""
    for unseen in UNSEEN:
        benchmark = Benchmark.load(made / "benchmarks" / unseen)
        world = Collection.load(made / "collections" / "emoji")
        glyph = world.factors["glyph"][world.index(benchmark.items)]
        inside = {split: set(glyph[benchmark.rows(split)]) for split in ("train", "id_val", "id_test", "test")}
        assert inside["id_test"] == inside["test"]
        assert not inside["train"] & inside["test"]
        assert not inside["id_val"] & (inside["train"] | inside["test"])
        vendor = np.asarray(benchmark.names["domain"])[benchmark.domain]
        assert set(vendor[benchmark.rows("test")]) == {unseen}
        for split in ("train", "id_val", "id_test"):
            assert set(vendor[benchmark.rows(split)]) == set(VENDORS) - {unseen}


def test_a_second_reading_is_the_same_benchmark(made, drawn, shell):
    """Read and built again from the same table, a benchmark has the same digest; check finds nothing wrong with it."""
    shell(READ.format(images=drawn[1]) + " --out again/emoji")
    shell("shiftbench build openmoji.toml --collection again/emoji --out again/openmoji --quiet")
    assert Benchmark.load("again/openmoji").digest == Benchmark.load("benchmarks/openmoji").digest
    assert Benchmark.load("again/openmoji").digest != Benchmark.load("benchmarks/fluent").digest
    shell("shiftbench check benchmarks/openmoji")


def test_an_unseen_vendor_costs(gaps, tell):
    """Every method is far above chance on new glyphs of the vendors it knows, and worse on the same of OpenMoji.

    Fluent, which looks like what was seen, costs less.
    """
    for unseen in UNSEEN:
        benchmark = Benchmark.load(f"benchmarks/{unseen}")
        label = benchmark.label[benchmark.rows("id_test")]
        chance = np.bincount(label).max() / len(label)
        for method in METHODS:
            inside, outside, gap = (gaps[unseen, f"train-to-train{end}", method, metric] for end, metric in (
                (" (in)", "accuracy"), (" (out)", "accuracy"), ("", "accuracy_gap")))
            tell(f"emoji, {unseen} unseen, {method}: id_test {inside['value']:.3f}, test {outside['value']:.3f}, "
                 f"gap {gap['value']:.3f} [{gap['low']:.3f}, {gap['high']:.3f}]; largest class {chance:.3f}")
            assert inside["low"] > 2 * chance
            assert outside["value"] > 1.5 * chance
            assert outside["low"] > chance
            if unseen == "openmoji":
                assert gap["low"] > 0
                assert gap["value"] > gaps["fluent", "train-to-train", method, "accuracy_gap"]["value"]


def test_it_is_the_shift_that_costs(gaps, tell):
    """Of the same pictures, a model that has seen OpenMoji draw other glyphs knows more: they are not just harder."""
    for method in METHODS:
        gap = gaps["openmoji", "mixed-to-test", method, "accuracy_gap"]
        tell(f"emoji, openmoji seen or unseen, same pictures, {method}: gap {gap['value']:.3f} "
             f"[{gap['low']:.3f}, {gap['high']:.3f}]")
    assert gaps["openmoji", "mixed-to-test", "erm", "accuracy_gap"]["low"] > 0


def test_a_wilds_script_runs_on_it(made, capsys):
    """The example script for the package `wilds` trains with its group loader on the emoji, and is above chance."""
    run_script(SCRIPT, ["--dataset", "openmoji", "--root_dir", "benchmarks", "--loader", "group", "--epochs", "3",
                        "--n_groups_per_batch", "3", "--batch_size", "48", "--lr", "0.003"], wilds_modules({}))
    said = capsys.readouterr().out
    assert said.count("Average acc") == 5
    averages = dict(zip(get_dataset("openmoji", root_dir="benchmarks").split_dict, re.findall(
        r"Average acc: ([0-9.]+)", said), strict=True))
    benchmark = Benchmark.load("benchmarks/openmoji")
    label = benchmark.label[benchmark.rows("id_test")]
    assert float(averages["id_test"]) > np.bincount(label).max() / len(label)


def test_the_wilds_interface_agrees_with_our_scores(gaps):
    """`eval` on a run's predictions gives our scores; the group loader's batches have as many items of each vendor."""
    data = get_dataset("openmoji", root_dir="benchmarks", groupby_fields=["domain", "y"])
    benchmark = Benchmark.load("benchmarks/openmoji")
    run = next(run for run in runs_in("runs")[0] if run.benchmark["digest"] == benchmark.digest)
    said = Predictions.load(run.folder / "predictions.parquet", benchmark)
    ours = {(row["split"], row["metric"]): row["value"] for row in score(benchmark, said, replicates=0)
            if row["group"] == "all" or row["metric"] == "worst_group_accuracy"}
    answer = dict(zip(said.item.tolist(), said.scores.argmax(axis=1).tolist(), strict=True))
    for split in ("id_test", "test"):
        subset, items = data.get_subset(split), benchmark.items[benchmark.rows(split)]
        found, _ = data.eval(np.asarray([answer[item] for item in items.tolist()]), subset.y_array,
                             subset.metadata_array)
        assert found["acc_avg"] == pytest.approx(ours[split, "accuracy"])
        assert found["acc_wg"] == pytest.approx(ours[split, "worst_group_accuracy"])
    grouper = CombinatorialGrouper(data, ["domain"])
    seen = data.get_subset("train", transform=np.array)
    x, y, metadata = next(iter(get_train_loader("group", seen, 12, grouper=grouper, n_groups_per_batch=3)))
    assert x.shape == (12, SIDE, SIDE, 3)
    assert len(y) == 12
    assert sorted(np.unique(grouper.metadata_to_group(metadata), return_counts=True)[1]) == [4, 4, 4]


def test_an_audit_names_glyphs_that_look_alike(gaps, tell):
    """Of the same model on the unseen vendor: each context that is named has its interval above the rest's error."""
    benchmark = Benchmark.load("benchmarks/openmoji")
    run = next(run for run in runs_in("runs")[0] if run.benchmark["digest"] == benchmark.digest)
    audit = sb.audit(run.folder, "benchmarks/openmoji", depth=2)
    assert audit.card["n"] == len(benchmark.rows("test"))
    tell(f"emoji, openmoji unseen, {run.settings['method']}: {audit.sentences()[0]}")
    assert all(finding.difference_low > 0 for finding in audit)
