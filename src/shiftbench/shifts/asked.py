"""What a benchmark asks for where it is no class: the target, and the columns that hold its truth."""

from collections.abc import Mapping
from fnmatch import fnmatchcase

import numpy as np

from shiftbench.core.arrays import Floats, Ints, Strs, Values
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.data.benchmark import CODED
from shiftbench.data.collection import Collection
from shiftbench.data.target import BOXES, KINDS, TOKEN_KINDS, TOKENS, Target, boxes_text, kinds_text, tokens_text

TAKEN = ("item", "split", *CODED)


def asked(collection: Collection, rows: Ints, kind: str, label: str) -> tuple[str, Target, Mapping[str, Values]]:
    """The word that stands for the label, the target, and one column of the rows' truth per name.

    `number`  the factor `label`, or all that match the pattern (`y*`), as numbers
    `tasks`   the same, of 0, 1 and NaN
    `boxes`   the boxes of the tag `label`
    `tokens`  the two texts of each item: its tokens, and what kind each of them is, as numbers with spaces between
    """
    if kind in ("number", "tasks"):
        names = tuple(sorted(name for name in collection.factors if fnmatchcase(name, label)))
        if not names:
            raise unknown("factor", label, collection.factors)
        # A factor that is called label may not take the place of the rows' own column of that name.
        own = "target" if len(names) == 1 else "target:"
        columns = tuple(name if name not in TAKEN else own.replace(":", f":{name}") for name in names)
        return label, Target(kind, columns), {column: _numbers(collection, name, rows, kind)
                                              for column, name in zip(columns, names, strict=True)}
    if kind == "boxes":
        return label, Target(kind, (BOXES,)), {BOXES: _boxes(collection, rows, label)}
    if kind == "tokens":
        code, sort = _tokens(collection, rows)
        return "next token", Target(kind, (TOKENS, TOKEN_KINDS), int(code.max(initial=0)) + 1), {
            TOKENS: tokens_text(code), TOKEN_KINDS: kinds_text(sort, (code >= 0).sum(axis=1))}
    raise unknown("kind of target", kind, KINDS)


def truth_of(
    collection: Collection, rows: Ints, kind: str, label: str
) -> tuple[Strs, Target | None, Mapping[str, Values]]:
    """The label of some rows, and where the target is no class the target and its columns."""
    if kind == "class":
        return collection.factor(label)[rows].astype(np.str_), None, {}
    word, target, truth = asked(collection, rows, kind, label)
    return np.full(len(rows), word), target, truth


def _numbers(collection: Collection, name: str, rows: Ints, kind: str) -> Floats:
    values = collection.factors[name][rows]
    if np.asarray(values).dtype.kind not in "biuf":
        raise ShiftBenchError(f"Factor '{name}' holds words ('{values[0]}', …), so it is no target of kind {kind}. "
                              "Leave `target` out to predict it as a class.")
    made = np.asarray(values, np.float64)
    if kind == "number" and not np.isfinite(made).all():
        bad = int(np.flatnonzero(~np.isfinite(made))[0])
        raise ShiftBenchError(f"Factor '{name}' of item '{collection.items[rows[bad]]}' is {made[bad]}. A target of "
                              "kind number has no gaps.")
    if kind == "tasks" and not np.isin(made[~np.isnan(made)], (0.0, 1.0)).all():
        raise ShiftBenchError(f"Factor '{name}' has values besides 0, 1 and gaps, so it is no target of kind tasks. "
                              "Use target = \"number\".")
    return made


def _boxes(collection: Collection, rows: Ints, tag: str) -> Values:
    """Boxes as shares: left, top, right, bottom."""
    tags = collection.tags
    if tag not in tags.names:
        raise unknown("tag", tag, tags.names)
    mine = tags.tag[tags.box_row] == tags.names.index(tag)
    place = np.full(len(collection), -1)
    place[rows] = np.arange(len(rows))
    item = place[tags.item[tags.box_row[mine]]]
    box = tags.boxes[mine]
    corners = np.concatenate([box[:, :2], box[:, :2] + box[:, 2:]], axis=1)
    return boxes_text(item[item >= 0], corners[item >= 0], len(rows))


def _tokens(collection: Collection, rows: Ints) -> tuple[Ints, Ints]:
    from shiftbench.readers.wilds.comments import tokens

    if len(collection.texts.text) != 2 * len(collection):
        raise ShiftBenchError(f"Collection '{collection.name}' has no tokens: each item needs two texts, its tokens "
                              "and their kinds, as `read wilds py150` makes them.")
    code, sort = tokens(collection)
    return code[rows], sort[rows]
