"""NOOCh's further suites: every class, the published lists, Waterbirds; and the beta at which P(hard | y) is alike."""

import numpy as np
import pytest

from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.collection import Collection
from shiftbench.shifts import Context
from shiftbench.shifts.challenge_sets import (
    CRITERIA,
    PHASES,
    SIZES,
    TASKS,
    HardIds,
    listed_tasks,
    read_lists,
    slug,
)
from shiftbench.shifts.cues import alike, areas
from shiftbench.shifts.suites import build_suite, suite
from shiftbench.sweeps.study_benchmarks import Builds
from tests.shifts.test_context import REAL, photos
from tests.shifts.test_criteria import write_lists


def shares(benchmark) -> list[float]:
    """P(hard | Y = 1) and P(hard | Y = 0) on the training items."""
    rows = benchmark.rows("train")
    hard, label = benchmark.extra["kind"][rows] != "easy", benchmark.label[rows]
    return [float(hard[label == benchmark.names["label"].index(word)].mean()) for word in ("car", "no car")]


def test_beta_can_make_hard_items_equally_common():
    """beta = "alike" is where P(hard | y) is nearest for both labels: nearer than at others, and on the card."""
    collection = photos(600)
    built = Context("car", beta="alike").build(collection)
    own = abs(np.subtract(*shares(built)))
    beta = built.card["criterion"]["beta"]
    assert 0 < beta < 1
    assert own < 0.05
    for other in (0.01, 0.05, 0.1, 0.3, 0.5, 0.6):
        assert own <= abs(np.subtract(*shares(Context("car", beta=other).build(collection))))
    again = Context("car", beta=beta).build(collection)
    assert again.digest == built.digest
    with pytest.raises(ShiftBenchError, match="alike"):
        Context("car", beta="same").build(collection)


def test_alike_by_hand():
    """Positives with largest cues .1 .2 .6 .8 and negatives with .05 .3 .7 .9: at beta .5 (and .65) half of either is
    hard, and the first such place is taken."""
    collection = photos(8)
    table = areas(collection, ("object", "stuff"))
    area = np.asarray([0.1, 0.2, 0.6, 0.8, 0.05, 0.3, 0.7, 0.9], np.float32)
    tag = np.ones(8, np.int64)
    table = type(table)(np.arange(8), tag, area, table.names, table.kinds, 8)
    cue = np.arange(len(table.names)) == 1
    carried = np.arange(8) < 4
    assert alike(table, cue, carried, np.ones(8, np.bool_)) == pytest.approx(0.45)


def test_every_class_with_a_cue_is_a_benchmark(tmp_path):
    """nooch/all has each tag that has a cue, by the criterion in its name; --only chooses among them; a study says that
    it cannot know them."""
    collection = photos(200)
    collection.save(tmp_path / "photos")
    built = build_suite("nooch/all", tmp_path / "photos", tmp_path / "b", only="ce-")
    able = {name for name in collection.tags.names if _builds(name, collection)}
    assert {folder.name for folder in built} == {f"ce-{name}" for name in able}
    assert "ce-car" in {folder.name for folder in built}
    alone = build_suite("nooch/all", tmp_path / "photos", tmp_path / "one", only="ce-car")
    assert [folder.name for folder in alone] == ["ce-car"]
    with pytest.raises(ShiftBenchError, match="depends on the collection"):
        Builds(suites=("nooch/all",), collection=str(tmp_path / "photos")).members()


def _builds(name: str, collection: Collection) -> bool:
    try:
        Context(name).build(collection)
    except ShiftBenchError:
        return False
    return True


def test_the_published_sets_are_one_suite(tmp_path, monkeypatch):
    """24 benchmarks with the split and the lists where the authors' repository has them; lists of another size than the
    published ones are named on the card."""
    shifts = dict(suite("nooch/published"))
    assert len(shifts) == 24
    assert {shift.label: shift.cue for shift in shifts.values()} == TASKS == {task: TASKS[task] for task in SIZES}
    assert {shift.split for shift in shifts.values()} == {"data/cocostuff_split_image_ids.npz"}
    assert {shift.lists for shift in shifts.values()} == {"nooch"}
    collection = photos(300)
    part = collection.factors["part"]
    ids = np.arange(300)
    collection = Collection("photos", ids.astype(str), collection.factors, collection.tags)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    np.savez(tmp_path / "data" / "cocostuff_split_image_ids.npz",
             **{f"{word}_ids": ids[part == word] for word in ("train", "valid", "test")})
    own = Context("car", split="part", rename={"valid": "id_val"}).build(collection)
    for phase, split in (("valid", "id_val"), ("test", "test")):
        rows = own.rows(split)
        sides = [own.items[rows][own.extra["kind"][rows] == kind] for kind in ("hard_positive", "hard_negative")]
        write_lists(tmp_path / "nooch", "CE", "car", phase, HardIds(*sides))
    built = shifts["ce-car"].build(collection)
    assert any("the published ones have 1539 and 949" in note for note in built.card["notes"])
    assert (built.extra["kind"] == own.extra["kind"]).all()


def test_the_twelve_tasks_and_the_sizes_of_their_sets():
    """Task, cue, and images on the authors' lists: hard positives and negatives of validation, then of test. The 24
    sets have twelve sizes, since both criteria list as many."""
    rows = [line.split(" | ") for line in """
        car | road | 740 465 1539 949
        bowl | dining table | 452 533 944 1084
        boat | sea | 163 362 361 756
        fire hydrant | pavement | 107 776 189 1577
        airplane | sky-other | 121 1818 258 3622
        cow | grass | 100 1238 194 2360
        backpack | person | 292 3223 607 6413
        cup | dining table | 345 3408 743 6852
        surfboard | sea | 75 1981 147 4011
        tie | person | 67 3158 136 6347
        sports ball | playingfield | 61 3273 151 6574
        kite | sky-other | 22 3338 55 6725
    """.strip().splitlines()]
    assert {task.strip(): cue for task, cue, _ in rows} == TASKS
    assert {task.strip(): tuple(map(int, sizes.split())) for task, _, sizes in rows} == SIZES


@pytest.mark.skipif(not (REAL / "nooch").is_dir(), reason="needs published lists")
@pytest.mark.parametrize("criterion", CRITERIA)
def test_the_published_lists_have_their_sizes(criterion):
    """As many images on each list that is there as we keep."""
    tasks = {slug(task): sizes for task, sizes in SIZES.items()}
    assert listed_tasks(REAL / "nooch")
    for task in listed_tasks(REAL / "nooch"):
        lists = [read_lists(REAL / "nooch", criterion, task, phase) for phase in PHASES]
        assert tuple(len(side) for pair in lists for side in pair) == tasks[task]


def test_waterbirds_is_a_suite():
    """Hard where the place is not the bird's; four environments; the data's own split, all of test."""
    n = 80
    rng = np.random.default_rng(0)
    y, place = rng.integers(0, 2, n), rng.integers(0, 2, n)
    factors = {"bird": np.where(y == 1, "waterbird", "landbird"), "background": np.where(place == 1, "water", "land"),
               "y": y, "place": place, "split": rng.choice(["train", "val", "test"], n)}
    built = dict(suite("nooch/waterbirds"))["waterbirds"].build(Collection("wb", np.arange(n).astype(str), factors))
    rows = built.rows("test")
    same = np.asarray(built.names["label"])[built.label] == np.where(
        np.asarray(built.names["domain"])[built.domain] == "water", "waterbird", "landbird")
    assert ((built.extra["kind"] == "easy") == same).all()
    assert len(rows) == int((factors["split"] == "test").sum())
    assert len(built.names["group"]) == 4
