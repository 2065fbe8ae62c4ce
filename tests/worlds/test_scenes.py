"""The built-in world keeps its promises: items on their own, truthful tags, contexts in communities."""

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.collection import Collection
from shiftbench.worlds import WORLDS
from shiftbench.worlds.scenes import draw, scenes

TABLE_1 = {  # the contexts of MetaShift's four tasks
    "cat": ("sofa", "bed", "shelf"),
    "dog": ("shelf", "cabinet", "bed", "bag", "box", "bench", "bike", "boat", "surfboard"),
    "bus": ("clock", "traffic light"),
    "truck": ("airplane", "cone", "fence", "bike", "mirror", "flag", "tower", "traffic light", "dog"),
    "elephant": ("fence", "rock"),
    "horse": ("barn", "dirt", "tree", "fence", "helmet", "car", "wagon", "statue", "cart"),
    "bowl": ("fruit", "tray"),
    "cup": ("coffee", "knife", "tray", "water", "cabinet", "computer", "lamp", "toilet", "box"),
}


@pytest.fixture(scope="module")
def world() -> Collection:
    return WORLDS["scenes"]()


def with_both(world: Collection, kind: str, context: str) -> set[int]:
    return set(np.flatnonzero(world.factors["class"] == kind)) & set(world.with_tag(context))


def overlap(world: Collection, kind: str, a: str, b: str) -> float:
    left, right = with_both(world, kind, a), with_both(world, kind, b)
    return len(left & right) / min(len(left), len(right))


@pytest.mark.slow
def test_an_item_is_the_same_however_many_are_drawn(world: Collection) -> None:
    """The first items of a long collection are those of a short one: pictures, factors, tags, boxes and captions."""
    few = scenes(40)
    assert (few.items == world.items[:40]).all()
    assert (few.pixels == world.pixels[:40]).all()
    assert all((few.factors[name] == world.factors[name][:40]).all() for name in world.factors)
    rows = np.flatnonzero(world.tags.item < 40)
    assert few.tags.names == world.tags.names
    for field in ("item", "tag", "area"):
        np.testing.assert_array_equal(getattr(few.tags, field), getattr(world.tags, field)[rows])
    np.testing.assert_array_equal(few.tags.boxes, world.tags.boxes[world.tags.box_row < len(rows)])
    assert few.texts.text.tolist() == world.texts.text[:200].tolist()


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(0, 5999), max_size=12))
def test_any_items_can_be_drawn_alone_and_in_any_order(world: Collection, index: list[int]) -> None:
    """`draw` gives the collection's pixels for any list of item numbers, repeated or empty."""
    np.testing.assert_array_equal(draw(index), world.pixels[np.asarray(index, np.int64)])


@pytest.mark.parametrize("size", [32, 50, 128, 256])
def test_annotations_do_not_depend_on_the_size(size: int) -> None:
    """Every size from 32 to 256 can be asked for; pixels follow it, areas, boxes and all else do not."""
    asked = scenes(12, seed=5, size=size)
    assert asked.pixels.shape == (12, size, size, 3)
    assert asked.digest == scenes(12, seed=5).digest
    assert (asked.pixels.reshape(12, -1).std(axis=1) > 5).all()


def test_seeds_differ() -> None:
    """Another seed is another world."""
    assert scenes(30, seed=1).digest != scenes(30, seed=2).digest
    assert (draw(range(30), 1) != draw(range(30), 2)).any(axis=(1, 2, 3)).all()


@pytest.mark.parametrize(("call", "words"), [
    (lambda: scenes(4, size=31), ["size is 31", "32 to 256"]),
    (lambda: draw([0], size=257), ["size is 257", "32 to 256"]),
    (lambda: scenes(0), ["items is 0", "at least 1"]),
    (lambda: draw([3, -2]), ["item -2", "from 0"]),
])
def test_impossible_requests_are_refused_in_words(call, words: list[str]) -> None:
    """A size or a number that cannot be drawn is named together with what is allowed."""
    with pytest.raises(ShiftBenchError) as caught:
        call()
    assert all(word in str(caught.value) for word in words)


def test_areas_are_shares_of_what_is_visible(world: Collection) -> None:
    """Each area is in (0, 1]; visible objects do not overlap, and together with the place they fill the picture."""
    tags = world.tags
    kinds = np.asarray(tags.kinds)[tags.tag]
    known = tags.area[kinds != "weather"]
    assert (known >= 0).all()
    assert (known <= 1).all()
    objects = np.bincount(tags.item[kinds == "object"], tags.area[kinds == "object"], len(world))
    place = np.bincount(tags.item[kinds == "place"], tags.area[kinds == "place"], len(world)) / 2  # place and location
    assert (objects <= 1).all()
    assert (objects + place <= 1 + 1e-5).all()
    assert (objects + place >= 0.97).all()  # the rest are things too small to be tagged
    assert (world.factor("area:cat")[world.factors["class"] == "cat"] > 0.02).all()


def test_boxes_lie_in_the_picture_and_are_large_enough(world: Collection) -> None:
    """Every visible object has boxes inside the picture whose total area is at least its visible area."""
    tags = world.tags
    assert (tags.boxes >= 0).all()
    assert (tags.boxes[:, :2] + tags.boxes[:, 2:] <= 1 + 1e-6).all()
    covered = np.bincount(tags.box_row, tags.boxes[:, 2] * tags.boxes[:, 3], len(tags.item))
    objects = np.asarray(tags.kinds)[tags.tag] == "object"
    assert (covered[objects] >= tags.area[objects] - 1e-6).all()
    assert (covered[~objects] == 0).all()


def test_tags_say_what_the_factors_say(world: Collection) -> None:
    """Class, place, location, weather, colour and pose stand in the tags exactly as in the factors."""
    tags, factors = world.tags, world.factors
    has = {word: np.zeros(len(world), bool) for word in zip(tags.kinds, tags.names, strict=True)}
    for item, tag in zip(tags.item, tags.tag, strict=True):
        has[tags.kinds[tag], tags.names[tag]][item] = True
    for factor, kind in (("place", "place"), ("location", "place"), ("weather", "weather")):
        for word in set(factors[factor].tolist()) - {"none"}:
            assert (has[kind, word] == (factors[factor] == word)).all()
    assert ((factors["weather"] == "none") == (factors["location"] == "indoors")).all()
    for row in range(0, len(world), 7):
        kind = factors["class"][row]
        assert has["object", kind][row]
        assert has["attribute", f"{kind}({factors['colour'][row]})"][row]
        assert factors["pose"][row] == "still" or has["attribute", f"{kind}({factors['pose'][row]})"][row]


def test_the_hierarchy_reaches_from_every_breed_to_the_root(world: Collection) -> None:
    """Each of at least 14 classes has at least 4 breeds, all drawn, and every breed is four steps below the root."""
    breeds = {(kind, breed) for kind, breed in zip(world.factors["class"], world.factors["breed"], strict=True)}
    for kind in set(world.factors["class"].tolist()):
        assert sum(kind == owner for owner, _ in breeds) >= 4
    for kind, breed in breeds:
        path = [breed]
        while path[-1] in world.parents:
            (above,) = world.parents[path[-1]]
            path.append(above)
        assert path[1] == kind
        assert path[-1] == "entity"
        assert len(path) == 5


def test_every_item_has_five_captions_that_name_its_class(world: Collection) -> None:
    """Captions come five to an item, differ, and each names the class."""
    texts = world.texts.text.reshape(len(world), 5)
    assert (world.texts.item.reshape(len(world), 5) == np.arange(len(world))[:, None]).all()
    for kind, five in zip(world.factors["class"], texts, strict=True):
        assert all(kind in text for text in five)
        assert len(set(five)) == 5


def test_contexts_form_communities(world: Collection) -> None:
    """Among dogs, shelf meets cabinet and bed often, bag and box sometimes, boat and surfboard hardly ever."""
    near, middle, far = (np.mean([overlap(world, "dog", "shelf", other) for other in others])
                         for others in (("cabinet", "bed"), ("bag", "box"), ("boat", "surfboard")))
    assert near > middle + 0.05 > far + 0.1
    assert overlap(world, "dog", "boat", "surfboard") > 0.3
    assert overlap(world, "dog", "bench", "bike") > overlap(world, "dog", "bench", "shelf") + 0.1
    assert 0 < overlap(world, "dog", "bench", "boat") < 0.3  # the sea is joined to the street


def test_indoors_goes_with_cats_but_all_four_cells_are_filled(world: Collection) -> None:
    """Most cats are indoors and most dogs outdoors, with at least 250 items in each of the four cells."""
    kind, location = world.factors["class"], world.factors["location"]
    cell = {(k, where): int(((kind == k) & (location == where)).sum())
            for k in ("cat", "dog") for where in ("indoors", "outdoors")}
    assert min(cell.values()) >= 250
    assert cell["cat", "indoors"] > 1.5 * cell["cat", "outdoors"]
    assert cell["dog", "outdoors"] > 1.2 * cell["dog", "indoors"]


def test_the_contexts_of_the_paper_are_there(world: Collection) -> None:
    """Every context of MetaShift's Table 1 occurs with its class, those of cats and dogs often enough to train on."""
    for kind, contexts in TABLE_1.items():
        for context in contexts:
            least = 130 if kind in ("cat", "dog") else 25
            assert len(with_both(world, kind, context)) >= least, (kind, context)
    assert sum(kind == "object" for kind in world.tags.kinds) >= 14 + 30


@pytest.mark.slow
def test_another_process_draws_the_same_world() -> None:
    """Annotations and pixels do not depend on the process or on PYTHONHASHSEED."""
    code = ("import hashlib; from shiftbench.worlds.scenes import scenes; c = scenes(60, seed=9);"
            "print(c.digest, hashlib.sha256(c.pixels.tobytes()).hexdigest())")
    said = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": "7"}, check=True,
                          capture_output=True, text=True).stdout.split()
    here = scenes(60, seed=9)
    assert said == [here.digest, hashlib.sha256(here.pixels.tobytes()).hexdigest()]


def test_another_machine_draws_the_same_world() -> None:
    """Drawing is integer arithmetic: these are the pixels everywhere. Whoever changes the art changes this number."""
    assert hashlib.sha256(draw(range(48), seed=0, size=64).tobytes()).hexdigest()[:16] == "0190657d6d99f85b"


def test_progress_counts_up_to_the_number_of_items() -> None:
    """`progress` hears growing numbers and at last the total."""
    heard: list[tuple[int, int]] = []
    scenes(200, progress=lambda done, total: heard.append((done, total)))
    assert heard == sorted(heard)
    assert heard[-1] == (200, 200)


def test_a_saved_world_loads_as_it_was(world: Collection, tmp_path) -> None:
    """`Collection.load(save(x)) == x` for this world, pixels included."""
    few = scenes(25, seed=4)
    assert Collection.load(few.save(tmp_path / "scenes")) == few


@pytest.mark.slow
def test_the_world_is_imported_without_numba_or_torch() -> None:
    """Only the first picture pays for numba."""
    code = "import sys, shiftbench.worlds; assert not {'numba', 'torch'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
