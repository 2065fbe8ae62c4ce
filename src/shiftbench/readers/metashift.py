"""MetaShift's published candidate subsets: pickles of `subject(attribute)` or `class(context)` -> ids of images.

In `attributes-candidate-subsets.pkl` the word in brackets is an attribute of the subject; in
`full-candidate-subsets.pkl` it is another object in the image, or a second of the same (`man(man)`). An item of
`cat(black)` carries the tags `cat` of kind subject and `cat(black)` of kind attribute; an item of `cat(sofa)` carries
`cat` of kind subject and `cat(sofa)` of kind object. So the subsets of a class are the file's and no others: that some
image is in `cat(bed)` and in `sofa(lamp)` does not put it into `cat(sofa)`. The third file,
`structured-attributes-candidate-subsets.pkl`, has the attributes in levels: type of attribute -> subject -> attribute;
there the type (`color`, `pose`) is the kind of the tag.

A pickle is a program that can call whatever it can name. Here it may name only `dict`, `defaultdict`, `set` and `list`,
and its instructions are checked before it runs: a short file can neither fill the memory nor run forever.
"""

import io
import pickle
import pickletools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from shiftbench.core.arrays import Ints, encode
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.data.collection import Collection, Tags
from shiftbench.data.image_files import image_folder, paths_below
from shiftbench.readers.annotation_files import Images, Name, Sources, read_bytes, sorted_ids, source_files

CONTEXTS = ("auto", "attribute", "object")
SUBJECT = "subject"
"""Kind of a class that only its own subsets record: its absence elsewhere says nothing, so it is not a context."""


def metashift(
    *sources: Sources,
    contexts: Annotated[str, "What the words in brackets are: object, attribute or auto."] = "auto",
    images: Images = None,
    name: Name = "metashift",
) -> Collection:
    """MetaShift's published candidate-subset files. They are pickles: anything but plain sets and lists is refused.

    With contexts = auto, a file holds objects when at least half of the words in brackets are classes of the file too,
    as `sofa` in `cat(sofa)` is in `sofa(cat)`, and attributes otherwise. The folder of the images holds ID.jpg for each
    image.

    shiftbench read metashift attributes-candidate-subsets.pkl --out collections/metashift
    """
    if contexts not in CONTEXTS:
        raise unknown("kind of contexts", contexts, CONTEXTS)
    root = image_folder(images)
    ids: list[str] = []
    rows: list[tuple[int, tuple[str, str]]] = []
    for path in source_files(sources, "metashift"):
        subsets = list(_subsets(path))
        classes = {cls for _, cls, _, _ in subsets}
        words = {word for _, _, word, _ in subsets}
        default_kind = contexts
        if contexts == "auto":
            default_kind = "object" if 2 * len(words & classes) >= len(words) else "attribute"
        for kind, cls, word, members in subsets:
            rows += [(len(members), (SUBJECT, cls)), (len(members), (kind or default_kind, f"{cls}({word})"))]
            ids += members + members
    code, tags = encode([f"{kind}:{word}" for _, (kind, word) in rows])
    items = sorted_ids(ids)
    row_of = {item: row for row, item in enumerate(items)}
    item: Ints = np.fromiter([row_of[key] for key in ids], np.int64, len(ids))
    kinds, names = zip(*(tag.split(":", 1) for tag in tags), strict=True) if tags else ((), ())
    return Collection(
        name=name,
        items=np.asarray(items, np.str_),
        tags=Tags.of(item, np.repeat(code, [size for size, _ in rows]), names, kinds),
        pixels=None if root is None else paths_below(root, [f"{key}.jpg" for key in items]),
        root=root,
    )


def _subsets(path: Path) -> Iterator[tuple[str, str, str, list[str]]]:
    """Type of attribute ('' in a flat file), class, word in brackets and ids of every subset of a file."""
    content = _unpickle(path)
    if not _mapping(path, "it", content):
        raise ShiftBenchError(f"{path}: holds no subsets.")
    for key, members in content.items():
        if isinstance(members, Mapping):
            kind = str(key).strip()
            if kind == SUBJECT or ":" in kind:
                raise ShiftBenchError(f"{path}: {kind[:80]!r} cannot be the name of a type of attribute.")
            for cls, attributes in members.items():
                for word, inner in _mapping(path, f"{key}.{cls}", attributes).items():
                    yield kind, *_parse_key(path, f"{cls}({word})"), _ids(path, f"{key}.{cls}.{word}", inner)
        else:
            yield "", *_parse_key(path, key), _ids(path, str(key), members)


def _parse_key(path: Path, key: Any) -> tuple[str, str]:
    """`cat(black)` -> cat, black."""
    cls, bracket, word = str(key).rstrip().partition("(")
    cls, word = cls.strip(), word.removesuffix(")").strip()
    if not (cls and bracket and word and str(key).rstrip().endswith(")")):
        raise ShiftBenchError(f"{path}: the key {str(key)[:80]!r} is not of the form subject(context), as cat(black).")
    return cls, word


def _ids(path: Path, key: str, members: Any) -> list[str]:
    """Ids of images, which are words or whole numbers."""
    if not isinstance(members, set | list):
        raise ShiftBenchError(f"{path}: {key} holds {_type_name(members)}, not a set of image ids.")
    for member in members:
        if not isinstance(member, str | int) or member == "":
            raise ShiftBenchError(f"{path}: {key} holds {_type_name(member)} that is not the id of an image.")
    return [str(member) for member in members]


def _mapping(path: Path, key: str, value: Any) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise ShiftBenchError(f"{path}: {key} holds {_type_name(value)}, not a dictionary of subsets.")
    return value


def _type_name(value: Any) -> str:
    return f"a {type(value).__name__}"


CONTAINERS = {f"{home} {name}" for home in ("builtins", "__builtin__") for name in ("dict", "set", "list")} | {
    "collections defaultdict"}
WORDS = {"BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "UNICODE", "BINSTRING", "SHORT_BINSTRING", "STRING"}
NUMBERS = {"BININT", "BININT1", "BININT2", "INT", "LONG", "LONG1", "LONG4"}
ARGUMENTS = {"EMPTY_TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "TUPLE"}  # of a call; a key of tuples could hash forever
NOTES = {"BINPUT", "LONG_BINPUT", "PUT", "MEMOIZE"}
PLAIN = WORDS | NUMBERS | ARGUMENTS | NOTES | {
    "PROTO", "FRAME", "STOP", "MARK", "BINGET", "LONG_BINGET", "GET", "EMPTY_DICT", "EMPTY_LIST", "EMPTY_SET", "LIST",
    "DICT", "APPEND", "APPENDS", "SETITEM", "SETITEMS", "ADDITEMS", "GLOBAL", "STACK_GLOBAL", "REDUCE"}


class PlainUnpickler(pickle.Unpickler):
    """Makes containers of words and numbers; it copies no more values into them than the file has bytes."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data))
        self.room = len(data)

    def find_class(self, module: str, name: str) -> Callable[..., Any]:
        if f"{module} {name}" not in CONTAINERS:
            raise ShiftBenchError(f"it asks for {module}.{name}, but only dict, defaultdict, set and list are "
                                  "allowed")
        if name in ("dict", "defaultdict"):
            return lambda default=None: {}
        return lambda values=(): self.copy(set if name == "set" else list, values)

    def copy(self, container: type, values: Any) -> Any:
        if values and not isinstance(values, list):
            raise ShiftBenchError("it makes a set or a list from something that is not a list")
        self.room -= len(values)
        if self.room < 0:
            raise ShiftBenchError("it copies more values than it holds")
        return container(values)


def _unpickle(path: Path) -> Any:
    """The content of a pickle of plain data; anything else is an error that names the file."""
    if path.is_dir():
        raise ShiftBenchError(f"{path} is a folder. Give the pickle itself.")
    data = read_bytes(path)
    if not data:
        raise ShiftBenchError(f"{path} is empty.")
    try:
        _check_instructions(data)
        return PlainUnpickler(data).load()
    except ShiftBenchError as problem:
        raise ShiftBenchError(f"{path}: not read: {problem}.") from None
    except Exception as problem:  # a damaged pickle may raise any error
        raise ShiftBenchError(f"{path}: cut off or no pickle. Copy or download it again.") from problem


def _check_instructions(data: bytes) -> None:
    """Every instruction is one that plain data needs, and every word and number is plain."""
    notes, arguments = 0, False
    value: Any
    for instruction, value, byte in pickletools.genops(data):
        name = instruction.name
        notes += name in NOTES
        if name not in PLAIN or (arguments and name != "REDUCE" and name not in NOTES):
            raise ShiftBenchError(f"byte {byte}: it uses the instruction {name}, which plain data does not need here")
        if name in NUMBERS and not -(2**63) <= value < 2**63:
            raise ShiftBenchError(f"byte {byte}: it holds a number of more than 64 bits")
        if name in NOTES and value is not None and int(value) > notes:
            raise ShiftBenchError(f"byte {byte}: it numbers its memo entries beyond their count")
        if name in WORDS and not value.isascii():
            value.encode()  # half of a surrogate pair is not text
        arguments = name in ARGUMENTS or (arguments and name in NOTES)
