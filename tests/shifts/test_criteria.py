"""The criteria against plain loops: areas, cues, hard items, gists, questions, published lists."""

import math
import re
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.collection import Collection, Tags
from shiftbench.shifts.challenge_sets import (
    TASKS,
    HardIds,
    kinds_by_list,
    listed_tasks,
    read_lists,
    read_splits,
    slug,
)
from shiftbench.shifts.cues import HARD_NEGATIVE, HARD_POSITIVE, areas, cues, cues_of, members, strengths
from shiftbench.shifts.gist import below_above, gists, matched, similarities
from shiftbench.shifts.out_of_context import holds
from tests.strategies import seeds

REAL = Path(__file__).parents[3] / "shared" / "data"
SIZES = (0.0, 0.03, 0.05, 0.1, 0.2, 0.7, 1.3)  # the thresholds themselves among them, and more than the whole image


def write_lists(folder, criterion: str, task: str, phase: str, ids: HardIds) -> list[Path]:
    """One challenge set as the authors publish it; ids that are whole numbers are written as such."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    paths = []
    for side, names in zip(("hard_positive", "hard_negative"), ids, strict=True):
        criterion = {"ce": "CE"}.get(criterion, criterion)
        paths.append(Path(folder) / f"nooch_ids_{criterion}_{slug(task)}_{side}_{phase}.npy")
        whole = all(re.fullmatch(r"0|[1-9]\d{0,17}", name) for name in names.tolist())
        np.save(paths[-1], names.astype(np.int64) if whole else names, allow_pickle=False)
    return paths


@st.composite
def tables(draw: st.DrawFn) -> Collection:
    """Items with tags that have areas; several instances of a tag, tags nobody carries, items without any."""
    n, width = draw(st.integers(1, 12)), draw(st.integers(2, 6))
    rng = np.random.default_rng(draw(seeds))
    rows = draw(st.integers(1, 40))
    return Collection("t", np.char.mod("i%d", np.arange(n)), tags=Tags.of(
        rng.integers(0, n, rows), rng.integers(0, width, rows), [f"t{k}" for k in range(width)],
        area=rng.choice(SIZES, rows)))


def area(collection, item, tag):
    """Area(C) of one item by going through all rows."""
    tags = collection.tags
    return sum(float(tags.area[r]) for r in range(len(tags.item)) if tags.item[r] == item and tags.tag[r] == tag)


def carries(collection, item, tag):
    return any(collection.tags.item[r] == item and collection.tags.tag[r] == tag
               for r in range(len(collection.tags.item)))


@given(tables(), st.data())
def test_strengths_are_the_papers_mean(collection, data):
    """A(C, Y) of every pair is the mean of Area(C) − Area(Y) over training items with Y, as a double loop has it."""
    n, width = len(collection), len(collection.tags.names)
    train = np.asarray(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    found = strengths(areas(collection), train)
    for y in range(width):
        positive = [i for i in range(n) if train[i] and carries(collection, i, y)]
        for c in range(width):
            if positive:
                mean = sum(area(collection, i, c) - area(collection, i, y) for i in positive) / len(positive)
                assert found[y, c] == pytest.approx(mean, abs=1e-9)
            else:
                assert math.isnan(found[y, c])


@given(tables(), st.sampled_from([-0.1, 0.0, 0.05, 0.2]), st.sampled_from([0.0, 0.05, 0.1, 0.5, 1.0]))
def test_members_are_the_papers(collection, alpha, beta):
    """The kinds of all tasks at once are those of a loop over items, tasks and cues; a task alone has the same."""
    table = areas(collection)
    chosen = cues(strengths(table), alpha)
    kinds = members(table, chosen, beta)
    for y in range(len(collection.tags.names)):
        mine = [c for c in range(len(collection.tags.names)) if chosen[y, c]]
        assert y not in mine
        assert (members(table, chosen, beta, np.asarray([y]))[:, 0] == kinds[:, y]).all()
        for i in range(len(collection)):
            sizes = [np.float32(area(collection, i, c)) for c in mine]
            there = carries(collection, i, y)
            positive = there and bool(mine) and all(size < np.float32(beta) for size in sizes)
            negative = not there and any(size > np.float32(beta) for size in sizes)
            assert kinds[i, y] == (HARD_POSITIVE if positive else HARD_NEGATIVE if negative else 0)


@given(tables(), st.floats(0, 2), st.floats(0, 2))
def test_membership_is_monotone_in_beta(collection, one, other):
    """A larger beta takes no hard positive away and adds no hard negative."""
    table = areas(collection)
    chosen = cues(strengths(table), 0.0)
    low, high = (members(table, chosen, beta) for beta in sorted((one, other)))
    assert (high[low == HARD_POSITIVE] == HARD_POSITIVE).all()
    assert (low[high == HARD_NEGATIVE] == HARD_NEGATIVE).all()


def test_many_tasks_do_not_get_mixed_up():
    """With more tasks than a machine word has bits, every task still sees its own cues alone."""
    rng = np.random.default_rng(0)
    n, width, rows = 300, 171, 3000
    table = areas(Collection("t", np.char.mod("%d", np.arange(n)), tags=Tags.of(
        rng.integers(0, n, rows), rng.integers(0, width, rows), [f"t{k}" for k in range(width)],
        area=rng.random(rows) / 3)))
    chosen = cues(strengths(table), 0.0)
    full = np.zeros((n, width), np.float32)
    full[table.item, table.tag] = table.area
    there = np.stack([table.carried(tag) for tag in range(width)], axis=1)
    large, small = (np.stack([test(full[:, chosen[y]]) for y in range(width)], axis=1) for test in (
        lambda x: (x > np.float32(0.1)).any(axis=1), lambda x: (x < np.float32(0.1)).all(axis=1)))
    kinds = members(table, chosen)
    assert ((kinds == HARD_NEGATIVE) == (large & ~there)).all()
    assert ((kinds == HARD_POSITIVE) == (small & there & chosen.any(axis=1))).all()


def small(area=(0.5, 0.1, 0.02, 0.3), kinds="object"):
    """Two cars on roads, a cat in a bowl."""
    return Collection("small", np.asarray(["a", "b"]), tags=Tags.of(
        [0, 0, 1, 1], [0, 1, 2, 3], ["road", "car", "cat", "bowl"], kinds, area))


def test_bad_tables_are_told_in_words():
    """No tags, no areas, some unknown areas, an unknown label, no positives, no cue: each error says what to do."""
    with pytest.raises(ShiftBenchError, match="has no tags"):
        areas(Collection("empty", np.asarray(["a"])))
    with pytest.raises(ShiftBenchError, match="no tag of kind any has an area"):
        areas(small(area=[np.nan] * 4))
    with pytest.raises(ShiftBenchError, match=r"1 of 4 areas are unknown \(NaN\), first 'cat' in item 'b'"):
        areas(small(area=[0.5, 0.1, np.nan, 0.3]))
    assert areas(small(area=[0.5, 0.1, np.nan, 0.3]), without=["cat"]).names == ("road", "car", "bowl")
    with pytest.raises(ShiftBenchError, match="No kind of tags named 'stuf'"):
        areas(small(kinds="stuff"), ["stuf"])
    table = areas(small())
    with pytest.raises(ShiftBenchError, match="Did you mean 'road'"):
        table.code("roads")
    with pytest.raises(ShiftBenchError, match=r"No training item carries 'cat'.*road, car\."):
        cues_of(table, strengths(table, np.asarray([True, False])), table.code("cat"))
    with pytest.raises(ShiftBenchError, match=r"'bowl' has no cue with A > 0.05. The nearest is 'cat' with A = -0.28"):
        cues_of(table, strengths(table), table.code("bowl"))
    for alpha, beta in ((math.nan, 0.1), (0.05, math.nan), (0.05, -1.0)):
        with pytest.raises(ShiftBenchError, match=r"(alpha|beta) is"):
            members(table, cues(strengths(table), alpha), beta)


def test_areas_above_one_are_kept():
    """Overlapping instances may cover more than the image: their sum counts as it is."""
    table = areas(small(area=[1.7, 0.1, 0.02, 0.3]))
    assert cues_of(table, strengths(table), table.code("car"))[0]._asdict() == {
        "tag": "road", "kind": "object", "strength": pytest.approx(1.6)}


def test_a_name_of_two_kinds_must_say_which():
    """`tree` the object and `tree` the stuff are two tags; the label is kept whatever its kind."""
    made = small(kinds=["stuff", "object", "object", "object"])
    assert areas(made, ["stuff"], label="car").names == ("road", "car")
    twice = Collection("two", np.asarray(["a"]), tags=Tags.of(
        [0, 0, 0], [0, 1, 2], ["tree", "tree", "car"], ["object", "stuff", "object"], [0.1, 0.2, 0.3]))
    table = areas(twice)
    assert table.titles == ("object:tree", "stuff:tree", "car")
    assert table.code("stuff:tree") == 1
    with pytest.raises(ShiftBenchError, match=r"object:tree, stuff:tree\. Name one"):
        table.code("tree")


@given(seeds)
def test_gists_are_means_and_similarities_cosines(seed):
    """An item's vector is the mean of its captions', its similarity the cosine to the mean of training positives."""
    rng = np.random.default_rng(seed)
    n, rows = 8, 20
    item, vectors = rng.integers(0, n, rows), rng.normal(size=(rows, 3)).astype(np.float32)
    carried, train = rng.random(n) < 0.6, rng.random(n) < 0.7
    gist = gists(item, vectors, n)
    means = {i: vectors[item == i].mean(axis=0) for i in range(n) if (item == i).any()}
    usual = [means[i] for i in range(n) if carried[i] and train[i] and i in means]
    if not usual:
        with pytest.raises(ShiftBenchError, match="has a caption"):
            similarities(gist, carried, train)
        return
    centre = np.mean(usual, axis=0)
    near = similarities(gist, carried, train)
    assert (similarities(gist, np.stack([carried, carried], axis=1), train)[:, 1] == near)[gist.known].all()
    for i in range(n):
        if i in means:
            cosine = means[i] @ centre / np.linalg.norm(means[i]) / np.linalg.norm(centre)
            assert near[i] == pytest.approx(cosine, abs=1e-5)
        else:
            assert math.isnan(near[i])


@given(seeds, st.integers(2, 30))
def test_gist_sets_have_the_sizes_of_the_others(seed, n):
    """In each split: as many as the other criterion has, none less similar left out, ties to the first item."""
    rng = np.random.default_rng(seed)
    near = rng.choice([0.1, 0.2, 0.3, 0.4, np.nan], n, p=[0.3, 0.2, 0.2, 0.2, 0.1])
    carried, split = rng.random(n) < 0.5, rng.choice(["train", "test"], n)
    like = np.where(rng.random(n) < 0.4, np.where(carried, HARD_POSITIVE, HARD_NEGATIVE), 0).astype(np.int8)
    made = matched(near, carried, split, like)
    lacking = 0
    for part in ("train", "test"):
        for code, side, sign in ((HARD_POSITIVE, carried, 1), (HARD_NEGATIVE, ~carried, -1)):
            able = [i for i in range(n) if split[i] == part and side[i] and not math.isnan(near[i])]
            wanted = int(((like == code) & (split == part)).sum())
            ranked = sorted(able, key=lambda i: (sign * near[i], i))[:wanted]
            assert sorted(ranked) == np.flatnonzero((made.kind == code) & (split == part)).tolist()
            lacking += wanted - len(ranked)
    assert made.short == lacking
    assert not made.kind[np.isnan(near)].any()


def test_tau_parts_far_from_near():
    """Below tau a positive is hard, above it a negative; at tau, or without captions, nobody is."""
    near = np.asarray([0.1, 0.5, 0.9, np.nan, 0.1, 0.5, 0.9, np.nan])
    carried = np.arange(8) < 4
    assert below_above(near, carried, 0.5).tolist() == [1, 0, 0, 0, 0, 0, 2, 0]
    with pytest.raises(ShiftBenchError, match="tau is nan"):
        below_above(near, carried, math.nan)
    with pytest.raises(ShiftBenchError, match="NaN or infinite"):
        gists(np.asarray([0]), [[np.nan]], 1)
    with pytest.raises(ShiftBenchError, match="one vector per row"):
        gists(np.asarray([0]), [1.0], 1)


def asked():
    return Collection("asked", np.char.mod("%d", np.arange(6)), {
        "y": np.asarray([0, 0, 1, 1, 0, 1]), "place": np.asarray([0, 1, 0, 1, 0, 1]),
        "year": np.asarray([2010, 2013, 2014, 2012, 2016, 2002]),
        "word": np.asarray(["a", "b c", "b c", "d", "a", "d"]),
        "nll": np.asarray([0.1, 1.8, 1.9, 2.5, 0.0, 1.0]), "flag": np.asarray([True, False, True, False, True, False]),
        "gap": np.asarray([0.1, np.nan, 1.9, 2.5, 0.0, 1.0])},
        Tags.of([0, 1, 1], [0, 0, 1], ["traffic light", "sofa"], area=[0.3, 0.05, 0.5]))


@pytest.mark.parametrize(("text", "answer"), [
    ("place != y", [1, 2]),
    ("y == place", [0, 3, 4, 5]),
    ("year >= 2013", [1, 2, 4]),
    ("year < 2012", [0, 5]),
    ("year not in 2010..2013", [2, 4, 5]),
    ("year in [2002, 2012..2013]", [1, 3, 5]),
    ("nll >= -log(0.15)", [2, 3]),
    ("nll > 0.1 and nll <= 1.9", [1, 2, 5]),
    ("word in [a, b c]", [0, 1, 2, 4]),
    ("word == b c", [1, 2]),
    ("word != 'd'", [0, 1, 2, 4]),
    ("flag", [0, 2, 4]),
    ("has:sofa or year > 2015", [1, 4]),
    ("area:traffic light > 0.1", [0]),
    ("place == 1 and year >= 2013 or word == a", [0, 1, 4]),
])
def test_questions_mean_what_they_say(text, answer):
    """An expression is true of just these items."""
    assert np.flatnonzero(holds(asked(), text)).tolist() == answer


@pytest.mark.parametrize(("text", "says"), [
    ("", "is empty"), ("yaer > 3", "Did you mean 'year'"), ("word == b", "No value named 'b'"),
    ("word > a", "compares numbers"), ("word in []", "lists no value"), ("word in [a, zz]", "No value named 'zz'"),
    ("gap > 1", r"1 missing values \(NaN\), first at item '1'"), ("word", "is no question"),
    ("nll > -log(0)", "above 0"), ("word >= year", "compares numbers"), ("__import__('os')", "No factor named"),
])
def test_bad_questions_are_told_in_words(text, says):
    """A slip of the pen is an error, never an empty or a full set."""
    with pytest.raises(ShiftBenchError, match=says):
        holds(asked(), text)


numbers = st.lists(st.integers(0, 10**12), unique=True, max_size=12)


@given(numbers, st.sampled_from(["CE", "gist"]), st.sampled_from(sorted(TASKS)), st.sampled_from(["valid", "test"]))
def test_lists_round_trip(tmp_path_factory, ids, criterion, task, phase):
    """What is written in the authors' format is read again, and says the kind of every item."""
    folder = tmp_path_factory.mktemp("lists")
    names = np.asarray([str(one) for one in ids], np.str_)
    given_ids = HardIds(names[::2], names[1::2])
    write_lists(folder, criterion, task, phase, given_ids)
    found = read_lists(folder, criterion.lower(), task, phase)
    assert [part.tolist() for part in found] == [part.tolist() for part in given_ids]
    assert listed_tasks(folder) == (task.replace(" ", "_"),)
    kinds = kinds_by_list(np.asarray([*names.tolist(), "x"]), found).tolist()
    assert kinds == [("hard_positive", "hard_negative")[place % 2] for place in range(len(ids))] + ["easy"]


def test_bad_lists_are_refused(tmp_path):
    """Python objects, wrong shapes, doubles, one id in both lists, a file that is cut off, a name that is not there."""
    path = tmp_path / "nooch_ids_CE_car_hard_positive_test.npy"
    np.save(tmp_path / "nooch_ids_CE_car_hard_negative_test.npy", np.asarray([7]))
    for value, says in ((np.asarray([{}], object), "never opened"), (np.zeros((2, 2), int), "one row"),
                        (np.asarray([0.5]), "one row"), (np.asarray([3, 3]), "image 3 more than once"),
                        (np.asarray([-3]), "the id -3"), (np.asarray([7]), "hard positive and a hard negative")):
        np.save(path, value, allow_pickle=True)
        with pytest.raises(ShiftBenchError, match=says):
            read_lists(tmp_path, "CE", "car", "test")
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(ShiftBenchError, match="not a list of ids"):
        read_lists(tmp_path, "CE", "car", "test")
    for words, says in ((("CE", "cart", "test"), "Did you mean 'car'"), (("CE", "car", "valid"), "no such file"),
                        (("EC", "car", "test"), "criterion of lists"), (("CE", "car", "train"), "split of lists"),
                        (("CE", "../car", "test"), "no name of a task")):
        with pytest.raises(ShiftBenchError, match=says):
            read_lists(tmp_path, *words)
    with pytest.raises(ShiftBenchError, match="no such folder"):
        read_lists(tmp_path / "nowhere", "CE", "car", "test")


@given(st.binary(max_size=3), st.integers(0, 400))
def test_damaged_lists_end_in_words(tmp_path_factory, junk, place):
    """Bytes cut off or replaced anywhere in a list or in the split's archive: it is read, or refused in words."""
    folder = tmp_path_factory.mktemp("damaged")
    paths = [*write_lists(folder, "CE", "car", "test", HardIds(np.asarray(["1", "2"]), np.asarray(["3"]))),
             folder / "ids.npz"]
    np.savez(paths[-1], train_ids=np.arange(9), valid_ids=np.asarray([10]), test_ids=np.asarray([11]))
    for path, read in ((paths[0], lambda: read_lists(folder, "CE", "car", "test")),
                       (paths[-1], lambda: read_splits(paths[-1]))):
        sound = path.read_bytes()
        for damaged in (sound[:place], sound[:place] + junk + sound[place + len(junk):]):
            path.write_bytes(damaged)
            with suppress(ShiftBenchError):
                read()
        path.write_bytes(sound)
    assert read_lists(folder, "CE", "car", "test").positive.tolist() == ["1", "2"]  # whole again, it is read
    assert read_splits(paths[-1])


@pytest.mark.real
@pytest.mark.skipif(not (REAL / "nooch").is_dir(), reason="the published sample is not beside the checkout")
def test_the_published_lists_are_as_the_paper_says():
    """Car: 1,539 hard positives and 949 hard negatives in test; gist sets of the same sizes, with other members."""
    for phase, sizes in (("test", (1539, 949)), ("valid", (740, 465))):
        ce, gist = (read_lists(REAL / "nooch", criterion, "car", phase) for criterion in ("CE", "gist"))
        assert tuple(map(len, ce)) == tuple(map(len, gist)) == sizes
        assert 0.5 < len(np.intersect1d(ce.positive, gist.positive)) / len(np.union1d(ce.positive, gist.positive)) < 0.7
