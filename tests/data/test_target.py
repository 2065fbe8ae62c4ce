"""Truths that are lists, written as one text per item, come back as they were."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.target import (
    FIRST,
    KINDS,
    LAST,
    NO_LABEL,
    NumberTarget,
    Target,
    boxes_of,
    boxes_text,
    kinds_of,
    kinds_text,
    tokens_of,
    tokens_text,
)

share = st.floats(0, 1, width=32)
rows_of_tokens = st.lists(st.lists(st.integers(0, LAST - FIRST), max_size=7), max_size=5)


def padded(rows: list[list[int]]) -> np.ndarray:
    width = max([len(row) for row in rows], default=0)
    return np.asarray([row + [NO_LABEL] * (width - len(row)) for row in rows], np.int64).reshape(len(rows), width)


@given(st.lists(st.lists(st.tuples(share, share, share, share), max_size=4), max_size=6))
def test_boxes_come_back_bit_by_bit(lists):
    """boxes_of undoes boxes_text for 32-bit floats, items without boxes included."""
    row = np.repeat(np.arange(len(lists)), [len(one) for one in lists]).astype(np.int64)
    box = np.asarray([box for one in lists for box in one], np.float32).reshape(-1, 4)
    text = boxes_text(row, box, len(lists))
    assert len(text) == len(lists)
    again, boxes = boxes_of(text)
    assert np.array_equal(again, row)
    assert np.array_equal(boxes, box)


def test_boxes_need_not_be_sorted():
    """Boxes go to their item's text whatever their order, and keep it within the item."""
    box = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert boxes_text(np.array([2, 0, 2]), box, 4).tolist() == ["4 5 6 7", "", "0 1 2 3;8 9 10 11", ""]


@pytest.mark.parametrize("text", ["0 0 1", "0 0 1 1;", "0 0 1 wide", "0 0 1 1 1"])
def test_what_is_no_box_is_refused(text):
    """A box is four numbers."""
    with pytest.raises(ShiftBenchError, match="four numbers"):
        boxes_of(np.asarray(["", text]))


@given(rows_of_tokens)
def test_tokens_come_back(rows):
    """tokens_of undoes tokens_text, for token 0, the largest token, rows of unequal length and empty ones."""
    codes = padded(rows)
    text = tokens_text(codes)
    assert [len(one) for one in text.tolist()] == [len(row) for row in rows]
    again = tokens_of(text)
    assert [[code for code in row if code != NO_LABEL] for row in again.tolist()] == rows


@given(rows_of_tokens)
def test_a_token_survives_utf8(rows):
    """Every token is a character that files and digests can write."""
    for text, row in zip(tokens_text(padded(rows)).tolist(), rows, strict=True):
        assert [ord(mark) - FIRST for mark in text.encode().decode()] == row


@given(st.lists(st.lists(st.sampled_from([*range(10), NO_LABEL]), min_size=1, max_size=6), min_size=1, max_size=5))
def test_kinds_come_back(rows):
    """kinds_of undoes kinds_text, and a masked token at an item's end still takes its place in the text."""
    length = np.asarray([len(row) for row in rows])
    kinds = padded(rows)
    text = kinds_text(kinds, length)
    assert [len(one) for one in text.tolist()] == length.tolist()
    assert np.array_equal(kinds_of(text), kinds)


def test_what_cannot_be_written_is_refused():
    """A token beyond the last character, a gap within a row, a kind of two digits, and a character that is no token."""
    for wrong in ([[LAST - FIRST + 1]], [[1, -100, 2]]):
        with pytest.raises(ShiftBenchError):
            tokens_text(np.asarray(wrong))
    with pytest.raises(ShiftBenchError):
        kinds_text(np.asarray([[10]]))
    with pytest.raises(ShiftBenchError, match="Row 1"):
        tokens_of(np.asarray(["", "a"]))


def test_a_card_without_target_is_about_classes():
    """`Target.of` reads what a card holds, lists included, and knows its kinds."""
    assert Target.of({}) == Target()
    assert Target.of({"kind": "number", "columns": ["wealth"]}) == NumberTarget(("wealth",))
    assert {Target.of({"kind": kind}).kind for kind in KINDS} == set(KINDS)
    with pytest.raises(ShiftBenchError, match="Did you mean 'number'"):
        Target.of({"kind": "numbers"})
