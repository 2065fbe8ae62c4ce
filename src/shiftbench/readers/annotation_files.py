"""Annotation files become a collection: the table of formats, reading and keeping, and what readers share.

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
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin

import msgspec
import numpy as np

from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.files import check_regular
from shiftbench.core.registry import Registry, find
from shiftbench.data.collection import MARKER, Collection
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

READERS: Registry[Callable[..., Collection]] = Registry()
"""Format -> reader; `shiftbench.readers` enters ours."""
IN_MEMORY = ("hf", "table")
"""Formats that are also read from objects: data frames and data sets of Hugging Face."""


def read_files(
    format: str, sources: Sequence[Any], *, drop_missing: bool = False, **options: Any
) -> Collection:
    """Read annotation files into a collection. Missing image files are counted in a warning, or their items are
    dropped."""
    reader = find(READERS, "format", format)
    parameters = signature(reader).parameters
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    for key in options:
        if key not in parameters and not takes_any:
            settings = [name for name, parameter in parameters.items() if parameter.default is not parameter.empty]
            raise unknown("setting", key, settings, format)
    for source in sources:
        if isinstance(source, str | Path):
            check_regular(source)
        elif format not in IN_MEMORY and READERS.owner(format).ours:
            raise ShiftBenchError(f"{format}: is read from files, not from a {type(source).__name__}.")
    collection = reader(*(str(source) if isinstance(source, Path) else source for source in sources), **options)
    if not isinstance(collection, Collection):
        raise ShiftBenchError(f"{format}: {READERS.owner(format)} returns {type(collection).__name__}, but a reader "
                              "must return a Collection.")
    return _with_files(collection, drop_missing)


def _with_files(collection: Collection, drop_missing: bool = False) -> Collection:
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


def keep(collection: Collection, out: Path | str, overwrite: bool = False) -> bool:
    """Save a collection and return whether that was needed: if `out` holds the same one, nothing is written."""
    if (Path(out) / MARKER).exists():
        try:
            present = Collection.load(out)
        except ShiftBenchError:
            present = None
        if present is not None and present == collection:
            return False
        if not overwrite:
            content = "a damaged collection" if present is None else (
                f"another collection ('{present.name}', {len(present):,} items; this one is '{collection.name}', "
                f"{len(collection):,} items)")
            raise ShiftBenchError(f"{out} holds {content}. Name another folder, or replace it with --overwrite "
                                  "(overwrite=True); benchmarks that were built on it stay as they are.")
    collection.save(out)
    return True


# What readers share

LARGEST = 10
"""The largest area or side, in images: more is a mistake in the file, not an object that leaves its image."""


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

    def rank(name: str) -> tuple[int, int, str]:
        is_number = name.isascii() and name.isdigit() and len(name) < 20
        return (0, int(name), name) if is_number else (1, 0, name)

    return sorted(set(ids), key=rank)


def first_bracket(path: Path) -> str:
    """The first character of a JSON file that is not blank: `[` of a list, `{` of a dictionary."""
    with _mapped(path) as text:
        return _SIGN.search(text)[0].decode(errors="replace")  # type: ignore[index]


def read_bytes(path: Path) -> bytes:
    """The content of a file that memory holds."""
    check_regular(path)
    try:
        return path.read_bytes()
    except OSError as problem:
        raise ShiftBenchError(f"{path}: cannot be read ({problem.strerror}).") from problem


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
