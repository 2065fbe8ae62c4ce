"""A large JSON file of annotations, decoded by type: only the members that a type names become objects.

The file is mapped, not copied. The decoder skips what no type names, such as outlines and relations, which are most of
such a file. Memory holds the named members of the whole file once; the reader turns them into columns and lets them go.
"""

import gc
import mmap
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

import msgspec

from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import check_regular

T = TypeVar("T")

BLOCK = 1 << 20
_SIGN = re.compile(rb"\S")
_BYTE = re.compile(r"(?:JSON is malformed: )?(.*) \(byte (\d+)\)")
_FIELD = re.compile(r"(.*?)(?: - at `(?:key in )?\$(.*)`)?")


def first_bracket(path: Path) -> str:
    """The first character of a JSON file that is not blank: `[` of a list, `{` of a dictionary."""
    with _mapped(path) as text:
        return _SIGN.search(text)[0].decode(errors="replace")  # type: ignore[index]


def decode_json(path: Path, content: type[T]) -> T:
    """The content of a JSON file, or an error that names the file and the byte, line or field."""
    with _mapped(path) as text, _no_collection(), memoryview(text) as view:
        try:
            return msgspec.json.decode(view, type=content)
        except msgspec.ValidationError as problem:
            raise _misfit(path, view, problem, content) from problem
        except msgspec.DecodeError as problem:
            raise _malformed(path, problem) from problem
        except UnicodeDecodeError as problem:
            raise ShiftBenchError(f"{path}: is not UTF-8 text.") from problem
        except RecursionError as problem:
            raise ShiftBenchError(f"{path}: brackets are nested too deeply.") from problem


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
def _no_collection() -> Iterator[None]:
    """Turn the garbage collector off: millions of new objects without a cycle would be searched for one in vain."""
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
    what, byte = (match[1], int(match[2])) if match else (str(problem), size)
    with path.open("rb") as file:
        for start in range(0, byte, BLOCK):
            line += file.read(min(BLOCK, byte - start)).count(b"\n")
        ahead = file.read(3)
    if byte >= size and what != "trailing characters":
        return ShiftBenchError(f"{path}: cut off at byte {byte}, line {line}, in the middle of a value. "
                               "Copy or download it again.")
    if ahead in (b"NaN", b"Inf"):
        what = "NaN and Infinity are not numbers in JSON"
    return ShiftBenchError(f"{path}: not valid JSON at byte {byte}, line {line}: {what}.")


def _misfit(path: Path, text: memoryview, problem: Exception, content: Any) -> ShiftBenchError:
    """JSON that does not hold what it should. The decoder names the field, but of a dictionary's entry not the key."""
    what, field = _FIELD.fullmatch(str(problem)).groups()  # type: ignore[union-attr]
    if get_origin(content) is dict and field:
        try:
            entries = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        except msgspec.DecodeError as malformed:  # behind the field
            return _malformed(path, malformed)
        for key, entry in entries.items():
            try:
                msgspec.json.decode(entry, type=get_args(content)[1])
            except msgspec.ValidationError:
                field = field.replace("[...]", key, 1)
                break
    where = f"{field.lstrip('.')}: " if field else ""
    return ShiftBenchError(f"{path}: {where}{what.replace('`', '')}.")
