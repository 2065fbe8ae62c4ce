"""MetaShift's published candidate subsets: pickles of `subject(attribute)` or `class(context)` -> ids of images.

In `attributes-candidate-subsets.pkl` the word in brackets is an attribute of the subject; in
`full-candidate-subsets.pkl` it is another object in the image. An item of `cat(black)` carries the tags `cat` of kind
subject and `cat(black)` of kind attribute; an item of `cat(sofa)` carries the objects `cat` and `sofa`. The third file,
`structured-attributes-candidate-subsets.pkl`, has the attributes in levels: type of attribute -> subject -> attribute.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from shiftbench.core.arrays import Ints, encode
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.data.collection import Collection, Tags
from shiftbench.readers import plain_pickle
from shiftbench.readers.images import below, folder, given, in_order

CONTEXTS = ("auto", "attribute", "object")
SUBJECT = "subject"
"""Kind of a class that is known from its attributes alone: where it is missing says nothing, so it is no context."""


def metashift(*sources: Path | str, name: str = "metashift", images: Path | str | None = None,
              contexts: str = "auto") -> Collection:
    """Read candidate subsets; with `images`, the folder that holds ID.jpg for each image, the items have pixels.

    `contexts` says what the words in brackets are. Left to itself, a file holds objects when at least half of these
    words are classes of the file too, as `sofa` in `cat(sofa)` is in `sofa(cat)`, and attributes otherwise.
    """
    if contexts not in CONTEXTS:
        raise unknown("kind of contexts", contexts, CONTEXTS)
    root = folder(images)
    ids: list[str] = []
    rows: list[tuple[int, tuple[str, str]]] = []
    for path in given(sources, "metashift"):
        subsets = dict(_subsets(path))
        classes = {cls for cls, _ in subsets}
        words = {word for _, word in subsets}
        kind = contexts if contexts != "auto" else "object" if 2 * len(words & classes) >= len(words) else "attribute"
        for (cls, word), members in subsets.items():
            context = ("object", word) if kind == "object" else ("attribute", f"{cls}({word})")
            rows += [(len(members), ("object" if kind == "object" else SUBJECT, cls)), (len(members), context)]
            ids += members + members
    code, tags = encode([f"{kind}:{word}" for _, (kind, word) in rows])
    items = in_order(ids)
    number = {item: place for place, item in enumerate(items)}
    item: Ints = np.fromiter([number[key] for key in ids], np.int64, len(ids))
    kinds, words_of = zip(*(tag.split(":", 1) for tag in tags), strict=True) if tags else ((), ())
    return Collection(
        name=name,
        items=np.asarray(items, np.str_),
        tags=Tags.of(item, np.repeat(code, [size for size, _ in rows]), words_of, kinds),
        pixels=None if root is None else below(root, [f"{key}.jpg" for key in items]),
        root=root,
    )


def _subsets(path: Path) -> Iterator[tuple[tuple[str, str], list[str]]]:
    """Class, word in brackets and ids of every subset of a file."""
    content = plain_pickle.load(path)
    if not _mapping(path, "it", content):
        raise ShiftBenchError(f"{path}: holds no subsets.")
    for key, members in content.items():
        if isinstance(members, Mapping):
            for cls, attributes in members.items():
                for word, inner in _mapping(path, f"{key}.{cls}", attributes).items():
                    yield _names(path, f"{cls}({word})"), _ids(path, f"{key}.{cls}.{word}", inner)
        else:
            yield _names(path, key), _ids(path, str(key), members)


def _names(path: Path, key: Any) -> tuple[str, str]:
    """`cat(black)` -> cat, black."""
    cls, bracket, word = str(key).rstrip().partition("(")
    cls, word = cls.strip(), word.removesuffix(")").strip()
    if not (cls and bracket and word and str(key).rstrip().endswith(")")):
        raise ShiftBenchError(f"{path}: the key {str(key)[:80]!r} is not of the form subject(context), as cat(black).")
    return cls, word


def _ids(path: Path, key: str, members: Any) -> list[str]:
    """Ids of images, which are words or whole numbers."""
    if not isinstance(members, set | list):
        raise ShiftBenchError(f"{path}: {key} holds {_kind(members)}, not a set of image ids.")
    for member in members:
        if not isinstance(member, str | int) or member == "":
            raise ShiftBenchError(f"{path}: {key} holds {_kind(member)} that is not the id of an image.")
    return [str(member) for member in members]


def _mapping(path: Path, key: str, value: Any) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise ShiftBenchError(f"{path}: {key} holds {_kind(value)}, not a dictionary of subsets.")
    return value


def _kind(value: Any) -> str:
    return f"a {type(value).__name__}"
