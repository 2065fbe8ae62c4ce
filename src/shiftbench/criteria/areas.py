"""How much of each item every tag covers: what the CE criterion is computed from."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from shiftbench.arrays import Bools, Ints
from shiftbench.collection import Collection, Tags
from shiftbench.errors import ShiftBenchError, unknown

Shares = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Areas:
    """The sparse table items × tags of Area(C): row r says that tag `tag[r]` covers `area[r]` of item `item[r]`.

    Rows are sorted by item, then tag, each pair once. An area is the sum over the tag's instances, so it may exceed 1
    where they overlap. A tag that an item does not carry has no row and the area 0; one it carries may have the area 0.
    """

    item: Ints
    tag: Ints
    area: Shares
    names: tuple[str, ...]
    kinds: tuple[str, ...]
    n_items: int

    def code(self, name: str) -> int:
        """The number of a tag by its name, or by kind and name where two kinds share one."""
        full = [f"{kind}:{word}" for kind, word in zip(self.kinds, self.names, strict=True)]
        found = [code for code, word in enumerate(self.names) if word == name] or [
            code for code, word in enumerate(full) if word == name]
        if not found:
            raise unknown("tag", name, self.titles)
        if len(found) > 1:
            raise ShiftBenchError(f"'{name}' is the name of {len(found)} tags: "
                                  f"{', '.join(full[code] for code in found)}. Name one of these.")
        return found[0]

    @cached_property
    def titles(self) -> tuple[str, ...]:
        """The names, with their kind before those that two kinds share."""
        times = Counter(self.names)
        return tuple(f"{kind}:{word}" if times[word] > 1 else word
                     for kind, word in zip(self.kinds, self.names, strict=True))

    def carried(self, tag: int) -> Bools:
        """Which items carry a tag: Y = 1, however small its area."""
        answer = np.zeros(self.n_items, np.bool_)
        answer[self.item[self.tag == tag]] = True
        return answer

    def present(self, tag: int) -> Bools:
        """Where a tag covers something: area > 0, as the environments of NOOCh are made."""
        answer = np.zeros(self.n_items, np.bool_)
        answer[self.item[(self.tag == tag) & (self.area > 0)]] = True
        return answer

    def all_carried(self) -> Bools:
        """`carried` of every tag, items × tags."""
        answer = np.zeros((self.n_items, len(self.names)), np.bool_)
        answer[self.item, self.tag] = True
        return answer


def areas(collection: Collection, kinds: Sequence[str] = (), without: Sequence[str] = (), label: str = "") -> Areas:
    """The areas of a collection's tags of these kinds (default: all), those named in `without` left out.

    The label is there whatever its kind.
    """
    tags = collection.tags
    if not len(tags.tag):
        raise ShiftBenchError(f"Collection '{collection.name}' has no tags, so it has no areas. Read annotations with "
                              "areas, for example COCO's instances and stuff files, or choose a factor expression.")
    for kind in kinds:
        if kind not in tags.kinds and not set(kinds) & set(tags.kinds):
            raise unknown("kind of tags", kind, set(tags.kinds), f"Collection '{collection.name}'")
    kept = np.asarray([(not kinds or tags.kinds[code] in kinds) and not set(_both(tags, code)) & set(without)
                       for code in range(len(tags.names))], np.bool_)
    if label and label not in (name for code in np.flatnonzero(kept).tolist() for name in _both(tags, code)):
        kept[tags.codes(label)] = True
    number = np.cumsum(kept) - 1
    rows = np.flatnonzero(kept[tags.tag])
    codes = np.flatnonzero(kept).tolist()
    made = Areas(tags.item[rows], number[tags.tag[rows]], tags.area[rows], tuple(tags.names[code] for code in codes),
                 tuple(tags.kinds[code] for code in codes), len(collection))
    missing = np.isnan(made.area)
    if len(rows) and missing.all():
        raise ShiftBenchError(f"Collection '{collection.name}': no tag of kind {' or '.join(kinds) or 'any'} has an "
                              "area. Read annotations with areas, or choose criterion 'gist' with tau, or a factor "
                              "expression.")
    for row in np.flatnonzero(missing)[:1]:
        worst = np.bincount(made.tag[missing], minlength=len(codes))
        listed = ", ".join(made.titles[code] for code in np.argsort(-worst, kind="stable")[:5] if worst[code])
        raise ShiftBenchError(
            f"Collection '{collection.name}': {int(missing.sum())} of {len(rows)} areas are unknown (NaN), first "
            f"'{made.titles[made.tag[row]]}' in item '{collection.items[made.item[row]]}'. Leave such tags out with "
            f"`without` or `kinds` (most often unknown: {listed}).")
    return made


def _both(tags: Tags, code: int) -> tuple[str, str]:
    return tags.names[code], f"{tags.kinds[code]}:{tags.names[code]}"
