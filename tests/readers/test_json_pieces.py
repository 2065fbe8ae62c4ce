"""Large JSON files: pieces of any size hold the same elements, and the compiled scan gives what the decoder gives."""

import json
import math

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shiftbench.core.errors import ShiftBenchError
from shiftbench.readers.coco_file import _scanned, load
from shiftbench.readers.json_pieces import Pieces

in_folder = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
tricky = st.sampled_from(['}, {"a', '"annotations"', "}]", '\\"}, {"a": 1}', "]", "é", ""]) | st.text(max_size=6)
values = st.recursive(st.none() | st.booleans() | st.integers(-9, 9) | tricky, lambda inner: st.lists(inner, max_size=3)
                      | st.dictionaries(st.sampled_from(["a", "b", "annotations"]), inner, max_size=3), max_leaves=8)
elements = st.lists(st.fixed_dictionaries({"a": values}, optional={"b": values}), max_size=12)
layouts = st.sampled_from([{}, {"indent": 1}, {"separators": (",", ":")}])


class Element(msgspec.Struct):
    a: object
    b: object = None


class Frame(msgspec.Struct):
    x: object = None
    y: object = None


@given(elements, values, values, layouts, st.integers(1, 200))
@in_folder
def test_pieces_of_any_size_hold_the_same_elements(tmp_path, wanted, x, y, layout, block):
    """Whatever strings and brackets stand inside, a member's elements come out once and in order, with both ends."""
    path = tmp_path / "file.json"
    path.write_text(json.dumps({"x": x, "annotations": wanted, "y": y}, **layout))
    with Pieces(path, block) as file:
        head = file.before("annotations", Frame)
        found = [element for piece in file.elements(Element) for element in piece]
        tail = file.after(Frame)
    assert (head.x, tail.y) == (x, y)
    assert found == [Element(**element) for element in wanted]


@given(st.dictionaries(tricky, st.fixed_dictionaries({"a": values}, optional={"b": values}), max_size=8), layouts,
       st.integers(1, 200))
@in_folder
def test_a_dictionary_in_pieces_is_the_dictionary(tmp_path, wanted, layout, block):
    """The entries of a file that is one dictionary are those that json reads."""
    path = tmp_path / "file.json"
    path.write_text(json.dumps(wanted, **layout))
    with Pieces(path, block) as file:
        found = {key: value for piece in file.entries(Element) for key, value in piece.items()}
    assert found == {key: Element(**value) for key, value in wanted.items()}


@given(elements.filter(bool), st.integers(1, 100), st.data())
@in_folder
def test_a_wrong_element_is_named_by_its_place(tmp_path, wanted, block, data):
    """The error names the file, the number of the element and the field, in whichever piece it stands."""
    place = data.draw(st.integers(0, len(wanted) - 1))
    path = tmp_path / "file.json"
    path.write_text(json.dumps({"annotations": [{"n": 3}] * place + [{"n": "three"}] + [{"n": 3}] * 5}))

    class Number(msgspec.Struct):
        n: int

    with Pieces(path, block) as file:
        file.before("annotations", Frame)
        with pytest.raises(ShiftBenchError, match=rf"file.json: annotations\[{place}\].n: Expected int, got str"):
            list(file.elements(Number, "annotations"))


numbers = (st.floats(0, 1e6).map(repr) | st.integers(0, 10**19).map(str) | st.decimals(0, 10**6, places=12).map(str)
           | st.sampled_from(["12.5e1", "0", "0.0", "0.1000000000000000055511151231257827"]))
ids = st.integers(0, 10**6).map(str)
boxes = st.tuples(st.sampled_from(["", "-"]), numbers, numbers, numbers, numbers).map(
    lambda box: f"[{box[0]}{', '.join(box[1:])}]")
others = st.sampled_from(['"id": 7', '"segmentation": [[1.5, 2], [3, 4e1]]', '"iscrowd": 0', '"note": "a \\" } , {"',
                          '"segmentation": {"counts": "a\\\\]b", "size": [1, 2]}', '"flag": true', '"nothing": null'])


@st.composite
def annotations(draw: st.DrawFn) -> str:
    """The text of an annotation: plain most of the time, with members in any order and blanks anywhere."""
    members = [f'"image_id": {draw(ids)}', f'"category_id": {draw(ids)}', f'"area": {draw(numbers)}',
               f'"bbox": {draw(boxes)}', *draw(st.lists(others, max_size=3, unique=True))]
    members = draw(st.permutations(members))
    if draw(st.integers(0, 9)) == 0:
        members = [member for member in members if "area" not in member and "bbox" not in member]
    if draw(st.integers(0, 19)) == 0:
        members.append('"caption": "a dog"')
    blank = draw(st.sampled_from(["", " ", "\n  "]))
    return "{" + f",{blank}".join(members) + blank + "}"


@given(st.lists(annotations(), max_size=30), st.sampled_from([",", ", ", " ,\n"]))
@in_folder
def test_the_scan_gives_what_the_decoder_gives(tmp_path, texts, comma):
    """Every column of a file is the same to the last bit whether it is scanned or decoded, whatever stands in it."""
    path = tmp_path / "file.json"
    path.write_text('{"images": [], "annotations": [' + comma.join(texts) + '], "categories": []}')
    scanned, decoded = load(path, large=0), load(path)
    for one, other in zip(scanned.rows, decoded.rows, strict=True):
        assert np.array_equal(np.asarray(one), np.asarray(other), equal_nan=np.asarray(one).dtype.kind == "f")
    assert len(decoded.rows.image) == len(texts)
    assert all(math.isnan(area) or area >= 0 for area in decoded.rows.area)


def test_many_rows_are_scanned_by_many_threads_as_by_one(tmp_path, monkeypatch):
    """Shares that meet at the same comma are joined; one whose start was no comma between elements does not count."""
    rng = np.random.default_rng(0)
    rows = [{"note": '}, {"note' * (k % 3), "image_id": k, "category_id": int(rng.integers(9)),
             "area": rng.uniform(0.01, 99), "bbox": rng.uniform(0.01, 99, 4).tolist(),
             "parts": [{"note": "x"}, {"note": "y"}] * (k % 2)} for k in range(2000)]
    path = tmp_path / "file.json"
    path.write_text(json.dumps({"annotations": rows, "images": []}))
    decoded = load(path)
    for threads in (1, 2, 3, 4):
        monkeypatch.setattr("os.cpu_count", lambda threads=threads: threads)
        scanned = load(path, large=0)
        assert all(np.array_equal(one, other) for one, other in zip(scanned.rows, decoded.rows, strict=True))
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    with Pieces(path) as file:
        file.before("annotations", Frame)
        assert sum(len(part.image) for part in _scanned(file)) == len(rows), "the decoder had to help"
