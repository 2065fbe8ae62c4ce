"""What items carry: tags with their areas and boxes, and texts."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from shiftbench.core.arrays import Ints, Values, in_short
from shiftbench.core.errors import ShiftBenchError, unknown


class Texts(NamedTuple):
    """Captions or documents: row r says that item number `item[r]` has `text[r]`; several per item are usual.

    `text` is an array of Python strings: one long text must not widen all the others.
    """

    item: Ints
    text: Values

    def __repr__(self) -> str:
        return f"Texts({len(self.text):,} of {len(np.unique(self.item)):,} items)"

    @staticmethod
    def none() -> "Texts":
        """Texts of a collection that has none."""
        return Texts(np.zeros(0, np.int64), np.zeros(0, np.object_))


@dataclass(frozen=True, eq=False)
class Tags:
    """Which item carries which tag, as a long table sorted by item, then tag, each pair once.

    Row r says that item number `item[r]` carries the tag `names[tag[r]]`, which is of kind `kinds[tag[r]]` and covers
    `area[r]` of the image (a share, summed over instances, so overlapping instances may exceed 1; NaN when unknown).
    The same word may occur twice in `names`, with two kinds (`grass` the object, `grass` the place).
    Box k, `boxes[k]` = (x, y, width, height) as shares of the image, belongs to row `box_row[k]`.
    """

    item: Ints
    tag: Ints
    area: npt.NDArray[np.float32]
    names: tuple[str, ...]
    kinds: tuple[str, ...]
    box_row: Ints
    boxes: npt.NDArray[np.float32]

    def __post_init__(self) -> None:
        """Check that every code has a name and every box a row, and that pairs are sorted."""
        for codes, limit, what in ((self.tag, len(self.names), "tag"), (self.box_row, len(self.tag), "row of a box")):
            if len(codes) and (codes.min() < 0 or codes.max() >= limit):
                raise ShiftBenchError(f"A {what} is outside 0..{limit - 1}: the table of tags was changed, or it does "
                                      "not belong to this vocabulary.")
        item, tag = np.diff(self.item), np.diff(self.tag)
        if ((item < 0) | ((item == 0) & (tag <= 0))).any():
            raise ShiftBenchError("A tag occurs twice for an item, or the rows are not in order of items and tags: the "
                                  "table of tags was changed. Make it again; Tags.of puts rows in order.")

    def __repr__(self) -> str:
        return (f"Tags({len(self.tag):,} of {len(np.unique(self.item)):,} items; {len(self.names):,} names: "
                f"{in_short(self.names) or 'none'}; kinds: {in_short(dict.fromkeys(self.kinds)) or 'none'}; "
                f"{len(self.boxes):,} boxes)")

    @staticmethod
    def of(
        item: npt.ArrayLike,
        tag: npt.ArrayLike,
        names: Sequence[str],
        kinds: Sequence[str] | str = "object",
        area: npt.ArrayLike | None = None,
        boxes: npt.ArrayLike | None = None,
    ) -> "Tags":
        """Make tags from one row per instance, in any order: merge pairs, sum their areas and keep their boxes.

        A row of `boxes` that is NaN means that this instance has none.
        """
        items, tags = np.asarray(item, np.int64), np.asarray(tag, np.int64)
        kind_names = (kinds,) * len(names) if isinstance(kinds, str) else tuple(kinds)
        if len(items) != len(tags) or len(kind_names) != len(names):
            raise ShiftBenchError(f"Tags need one tag per row and one kind per name; got {len(items)} items, "
                                  f"{len(tags)} tags, {len(names)} names, {len(kind_names)} kinds.")
        if len(set(zip(names, kind_names, strict=True))) != len(names):
            raise ShiftBenchError("A tag is listed twice with the same name and kind. List each once.")
        if len(tags) and (tags.min() < 0 or tags.max() >= len(names)):
            raise ShiftBenchError(f"A tag code is outside 0..{len(names) - 1}.")
        key = items * max(len(names), 1) + tags
        order = np.argsort(key, kind="stable")
        pairs, start = np.unique(key[order], return_index=True)
        share = np.full(len(items), np.nan) if area is None else np.asarray(area, np.float64)
        if np.isinf(share).any() or (share < 0).any():
            raise ShiftBenchError("An area is negative or infinite. Areas are shares of the image, at least 0.")
        has_area = ~np.isnan(share[order])
        total_area = np.add.reduceat(np.where(has_area, share[order], 0.0), start) if len(start) else np.zeros(0)
        n_areas = np.add.reduceat(has_area.astype(np.int64), start) if len(start) else np.zeros(0, np.int64)
        box = np.full((len(items), 4), np.nan) if boxes is None else np.asarray(boxes, np.float64).reshape(-1, 4)
        boxed = order[~np.isnan(box[order]).any(axis=1)]
        return Tags(
            item=pairs // max(len(names), 1),
            tag=pairs % max(len(names), 1),
            area=np.where(n_areas > 0, total_area, np.nan).astype(np.float32),
            names=tuple(names),
            kinds=kind_names,
            box_row=np.searchsorted(pairs, key[boxed]).astype(np.int64),
            boxes=box[boxed].astype(np.float32),
        )

    @staticmethod
    def none() -> "Tags":
        """Tags of a collection that has none."""
        return Tags.of([], [], ())

    def codes(self, name: str) -> Ints:
        """The codes of a tag: `grass` means every kind of grass, `place:grass` only the place."""
        kind, _, bare = name.partition(":")
        codes = [code for code, word in enumerate(self.names) if word == name] or [
            code for code, (word, of_kind) in enumerate(zip(self.names, self.kinds, strict=True))
            if word == bare and of_kind == kind]
        if not codes:
            raise unknown("tag", name, self.names)
        return np.asarray(codes, np.int64)

    def rows_of(self, name: str) -> Ints:
        """The rows of this table that carry a tag."""
        start, order = self._by_tag
        return np.sort(np.concatenate([order[start[code]:start[code + 1]] for code in self.codes(name)]))

    @cached_property
    def _by_tag(self) -> tuple[Ints, Ints]:
        order = np.argsort(self.tag, kind="stable")
        return np.searchsorted(self.tag[order], np.arange(len(self.names) + 1)), order
