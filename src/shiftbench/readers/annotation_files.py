"""What readers of image annotations share: their files, large JSON decoded by type, ids, and the folder of the images.

A JSON file is mapped, not copied. The decoder skips what no type names, such as outlines and relations, which are most
of such a file. Memory holds the named members of the whole file once; the reader turns them into columns and frees
them.
"""

import gc
import mmap
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin

import msgspec
import numpy as np

from shiftbench.core.arrays import Floats, Ints
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import check_regular
from shiftbench.data.collection import Collection, Tags
from shiftbench.data.image_files import missing_files

T = TypeVar("T")
Sources = Annotated[Path | str, "One or more files; they are merged by image id."]
Images = Annotated[Path | str | None, "Folder of the image files; without it there are no pixels."]
Name = Annotated[str, "Name of the collection."]

BLOCK = 1 << 20
_SIGN = re.compile(rb"\S")
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"\s*:?|[][{}]')
_BYTE = re.compile(r"(?:JSON is malformed: )?(.*) \(byte (\d+)\)")
_FIELD = re.compile(r"(.*?)(?: - at `(?:key in )?\$(.*)`)?")


def source_files(sources: Sequence[Path | str], format: str) -> list[Path]:
    """The files to read: at least one, and none twice, because its areas would count twice."""
    if not sources:
        raise ShiftBenchError(f"Reading {format} needs at least one file. Give the annotation files.")
    paths = [Path(source) for source in sources]
    seen: set[str] = set()
    for path in paths:
        if os.path.realpath(path) in seen:
            raise ShiftBenchError(f"{path} is given twice. Give each file once.")
        seen.add(os.path.realpath(path))
    return paths


def sorted_ids(ids: Iterable[str]) -> list[str]:
    """Ids without duplicates: whole numbers by value, then words by code point.

    >>> sorted_ids(["10", "n1", "9", "10"])
    ['9', '10', 'n1']
    """
    return sorted(set(ids), key=lambda name: (0, int(name), name) if _is_number(name) else (1, 0, name))


def with_files(collection: Collection, drop_missing: bool = False) -> Collection:
    """The collection, with a warning about missing image files, or without their items.

    If all files are missing, the folder is wrong, which is an error.
    """
    if collection.pixels is None:
        return collection
    missing = missing_files(collection.pixels, collection.root)
    if not len(missing):
        return collection
    count = f"{len(missing):,} of {len(collection):,} image files are not below {collection.root}"
    if len(missing) == len(collection):
        raise ShiftBenchError(f"{count}, the first is {collection.pixels[0]}. Name their folder with --images; "
                              "data sets of WILDS can be read with --no-images.")
    examples = ", ".join(collection.pixels[missing[:3]].tolist()) + (", …" if len(missing) > 3 else "")
    remedy = "Their items are dropped." if drop_missing else (
        "--drop-missing drops their items; shiftbench check lists them all.")
    warnings.warn(f"{count}: {examples}. {remedy}", stacklevel=3)
    if not drop_missing:
        return collection
    return collection.take(np.setdiff1d(np.arange(len(collection)), missing))


LARGEST = 10
"""The largest area or side, in images: more is a mistake in the file, not an object that leaves its image."""


def box_tags(
    item: Ints, word: Ints, words: Sequence[str], boxes: Floats, area: Floats | None = None,
    where: Callable[[int], str] = "box {}".format,
) -> Tags:
    """Tags with areas from one row per box: row r says that item `item[r]` shows `words[word[r]]` in `boxes[r]`.

    A box is (x, y, width, height) as shares of the image, and its area is its width × height unless `area` has it.
    The vocabulary is in the order of names. `where(r)` names the place of row r in an error.
    """
    for row in np.flatnonzero(~((np.abs(boxes) <= LARGEST).all(axis=1) & (boxes[:, 2:] >= 0).all(axis=1)))[:1]:
        x, y, width, height = boxes[row].tolist()
        raise ShiftBenchError(f"{where(int(row))}: the box is {width:.4g} × {height:.4g} of the image at ({x:.4g}, "
                              f"{y:.4g}). Sides are positive, and at most {LARGEST} times those of the image.")
    names = sorted(set(words))
    code_of = {name: code for code, name in enumerate(names)}
    code = np.asarray([code_of[name] for name in words], np.int64)[word] if len(words) else word
    return Tags.of(item, code, names, "object", boxes[:, 2] * boxes[:, 3] if area is None else area, boxes)


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdigit() and len(name) < 20


def first_bracket(path: Path) -> str:
    """The first character of a JSON file that is not blank: `[` of a list, `{` of a dictionary."""
    with _mapped(path) as text:
        return _SIGN.search(text)[0].decode(errors="replace")  # type: ignore[index]


def decode_json(path: Path, content: type[T], once: str = "") -> T:
    """The content of a JSON file, or an error that names the file and the byte, line or field.

    `once` is a key of the outermost object that may not occur twice: the decoder would keep only the last.
    """
    with _mapped(path) as text, no_collection(), memoryview(text) as view:
        try:
            decoded = msgspec.json.decode(view, type=content)
        except msgspec.ValidationError as problem:
            raise _misfit(path, view, problem, content) from problem
        except msgspec.DecodeError as problem:
            raise _malformed(path, problem) from problem
        except UnicodeDecodeError as problem:
            raise ShiftBenchError(f"{path}: is not UTF-8 text.") from problem
        except RecursionError as problem:
            raise ShiftBenchError(f"{path}: brackets are nested too deeply.") from problem
        if once and _repeats(text, once):
            raise ShiftBenchError(f"{path}: has '{once}' twice. Join the two in one list.")
        return decoded


def _repeats(text: mmap.mmap, key: str) -> bool:
    """Whether the outermost object has a key twice. Usually one search shows that the key occurs once."""
    quoted = f'"{key}"'.encode()
    if text.find(quoted, text.find(quoted) + 1) < 0:
        return False
    depth = times = 0
    for match in _TOKEN.finditer(text):
        token = match[0]
        depth += (token in (b"{", b"[")) - (token in (b"}", b"]"))
        times += depth == 1 and token.startswith(quoted) and token.endswith(b":")
    return times > 1


@contextmanager
def _mapped(path: Path) -> Iterator[mmap.mmap]:
    if path.is_dir():
        raise ShiftBenchError(f"{path} is a folder. Give the annotation files themselves.")
    check_regular(path)
    try:
        with path.open("rb") as handle:
            if not path.stat().st_size:
                raise ShiftBenchError(f"{path} is empty.")
            text = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as problem:
        raise ShiftBenchError(f"{path}: cannot be read ({problem.strerror}).") from problem
    with text:
        if not _SIGN.search(text):
            raise ShiftBenchError(f"{path} is empty.")
        yield text


@contextmanager
def no_collection() -> Iterator[None]:
    """Turn the garbage collector off: it would search millions of new objects for cycles that they do not have."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _malformed(path: Path, problem: Exception) -> ShiftBenchError:
    """Text that is not JSON at a byte, or that ends too early."""
    match = _BYTE.fullmatch(str(problem))
    size, line = path.stat().st_size, 1
    message, byte = (match[1], int(match[2])) if match else (str(problem), size)
    with path.open("rb") as file:
        for start in range(0, byte, BLOCK):
            line += file.read(min(BLOCK, byte - start)).count(b"\n")
        ahead = file.read(3)
    if byte >= size and message != "trailing characters":
        return ShiftBenchError(f"{path}: cut off at byte {byte}, line {line}, in the middle of a value. "
                               "Copy or download it again.")
    if ahead in (b"NaN", b"Inf"):
        message = "NaN and Infinity are not numbers in JSON"
    return ShiftBenchError(f"{path}: not valid JSON at byte {byte}, line {line}: {message}.")


def _misfit(path: Path, text: memoryview, problem: Exception, content: Any) -> ShiftBenchError:
    """JSON that does not hold what it should. The decoder names the field, but not the key of a dictionary's entry."""
    message, field = _FIELD.fullmatch(str(problem)).groups()  # type: ignore[union-attr]
    if get_origin(content) is dict and field:
        try:
            entries = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        except msgspec.DecodeError as malformed:  # after the field
            return _malformed(path, malformed)
        for key, entry in entries.items():
            try:
                msgspec.json.decode(entry, type=get_args(content)[1])
            except msgspec.ValidationError:
                field = field.replace("[...]", key, 1)
                break
    where = f"{field.lstrip('.')}: " if field else ""
    return ShiftBenchError(f"{path}: {where}{message.replace('`', '')}.")
