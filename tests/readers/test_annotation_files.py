"""Large JSON files: what a type names is decoded, and what is wrong is said with the file and the place."""

import gc
import json

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shiftbench.core.errors import ShiftBenchError
from shiftbench.readers.annotation_files import decode_json, first_bracket

in_folder = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
values = st.recursive(st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=6), lambda inner: st.lists(
    inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=3), max_leaves=8)
members = st.fixed_dictionaries({"a": values}, optional={"b": values, "skipped": values})
layouts = st.sampled_from([{}, {"indent": 1}, {"separators": (",", ":")}])


class Member(msgspec.Struct):
    a: object
    b: object = None


class Number(msgspec.Struct):
    n: int


@given(st.lists(members, max_size=8) | st.dictionaries(st.text(max_size=4), members, max_size=8), layouts)
@in_folder
def test_members_that_a_type_names_are_those_that_json_reads(tmp_path, wanted, layout):
    """A list or dictionary comes out in order; members that no type names are skipped, whatever they hold."""
    path = tmp_path / "file.json"
    path.write_text("\n " + json.dumps(wanted, **layout))

    def member(value):
        return Member(value["a"], value.get("b"))

    if isinstance(wanted, list):
        assert (first_bracket(path), decode_json(path, list[Member])) == ("[", [member(value) for value in wanted])
    else:
        assert (first_bracket(path), decode_json(path, dict[str, Member])) == ("{", {
            key: member(value) for key, value in wanted.items()})
    assert gc.isenabled()


@pytest.mark.parametrize("position", [0, 3, 7])
def test_a_wrong_element_is_named_by_its_position_or_key(tmp_path, position):
    """The error names the file, the number or key of the element, and the field."""
    path = tmp_path / "file.json"
    numbers = [{"n": 3}] * position + [{"n": "three"}] + [{"n": 3}] * 5
    path.write_text(json.dumps(numbers))
    with pytest.raises(ShiftBenchError, match=rf"file.json: \[{position}\].n: Expected int, got str"):
        decode_json(path, list[Number])
    text = json.dumps({f"key {key}": number for key, number in enumerate(numbers)})
    path.write_text(text)
    with pytest.raises(ShiftBenchError, match=rf"file.json: key {position}.n: Expected int, got str"):
        decode_json(path, dict[str, Number])
    path.write_text(text[:-1])
    with pytest.raises(ShiftBenchError, match=rf"file.json: cut off at byte {len(text) - 1}"):
        decode_json(path, dict[str, Number])
    assert gc.isenabled()
