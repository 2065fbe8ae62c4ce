"""A large JSON file in pieces: memory holds what was decoded from one block of it, never the whole file.

The file is mapped, not copied. A piece ends where one element seems to end and the next to begin as the first one
began. Whether it does is proved by decoding: text that stops inside a word or a deeper bracket cannot be closed from
outside, so a wrong cut is an error and the cut before it is tried.
"""

import mmap
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import check_regular

# What is wrong with a JSON file, in words that name the file and the byte, line or field.


_BYTE = re.compile(r"(?:JSON is malformed: )?(.*) \(byte (\d+)\)")
_FIELD = re.compile(r"(.*?)(?: - at `(?:key in )?\$(.*)`)?")


def spot(problem: Exception) -> tuple[str, int | None]:
    """What the decoder says of malformed text and at which byte of it; no byte when the text ends too early."""
    found = _BYTE.fullmatch(str(problem))
    return (found[1], int(found[2])) if found else (str(problem), None)


def malformed(path: Path, what: str, byte: int | None) -> ShiftBenchError:
    """Text that is not JSON at a byte, or that ends too early."""
    size, line = path.stat().st_size, 1
    byte = size if byte is None else byte
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


def misfit(path: Path, problem: Exception, place: str = "") -> ShiftBenchError:
    """JSON that does not hold what it should: the decoder names the field, `place` where that field's owner stands."""
    what, field = _FIELD.fullmatch(str(problem)).groups()  # type: ignore[union-attr]
    where = f"{place}{field or ''}".lstrip(".")
    return ShiftBenchError(f"{path}: {f'{where}: ' if where else ''}{what.replace('`', '')}.")


def unreadable(path: Path, problem: Exception, byte: int) -> ShiftBenchError:
    """Text that the decoder gives up on without saying where."""
    what = "is not UTF-8 text" if isinstance(problem, UnicodeDecodeError) else "brackets are nested too deeply"
    return ShiftBenchError(f"{path}: after byte {byte}: {what}.")


T = TypeVar("T")

BLOCK = 1 << 20
TRIES = 16
WINDOW = 256  # how far before an element the end of the last one is looked for
BEHIND = 16 << 20  # how much of the file that is decoded may stay in memory

_LIST = re.compile(rb"\s*:\s*(?=\[)")
_CLOSING = {"[": b"]", "{": b"}"}
_FIRST = {"[": re.compile(rb'\[\s*(\{\s*"[^"\\]*")'), "{": re.compile(rb'\{\s*"[^"\\]*"\s*:\s*(\{\s*"[^"\\]*")')}
_COMMA = {"[": re.compile(rb"\}\s*(),\s*\Z"), "{": re.compile(rb'\}\s*(),\s*"[^"\\]*"\s*:\s*\Z')}


class Pieces:
    """One JSON file, read once from front to back.

        with Pieces(path) as file:
            head = file.before("annotations", Frame)
            for piece in file.elements(Annotation, "annotations"): ...
            tail = file.after(Frame)

    A file that is one list or one dictionary is read by `elements` or `entries` alone; `bracket` tells which it is.
    """

    def __init__(self, path: Path | str, block: int = BLOCK) -> None:
        self.path, self.block = Path(path), block
        if self.path.is_dir():
            raise ShiftBenchError(f"{self.path} is a folder. Give the annotation files themselves.")
        check_regular(self.path)
        try:
            with self.path.open("rb") as handle:
                self.size = self.path.stat().st_size
                if not self.size:
                    raise ShiftBenchError(f"{self.path} is empty.")
                self._text = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_COPY)  # what we write there stays here
        except OSError as problem:
            raise ShiftBenchError(f"{self.path}: cannot be read ({problem.strerror}).") from problem
        self.closed, self._outer, self._missing, self._first, self._kept = False, True, False, b"", 0
        self.at = 0
        """Where to go on: at the bracket that opens a list or dictionary, at the comma after an element, or behind all
        elements. Bracket or comma is overwritten by the bracket when the next piece is decoded."""
        while self._text[self.at:self.at + 1].isspace():
            self.at += 1
        if self.at == self.size:
            raise ShiftBenchError(f"{self.path} is empty.")

    def __enter__(self) -> "Pieces":
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        with suppress(BufferError):  # an error on its way up may hold on to the array; the map goes when the error does
            self._text.close()

    @property
    def bracket(self) -> str:
        """The first sign of what comes: `[` of a list, `{` of a dictionary."""
        return self._text[self.at:self.at + 1].decode(errors="replace")

    def before(self, key: str, frame: type[T]) -> T:
        """What stands before a member of the outermost dictionary; all of it when there is no such member."""
        word, short, decoder = f'"{key}"'.encode(), b'"":0}', msgspec.json.Decoder(frame)
        place, self._outer = self._text.find(word), False
        while place >= 0:
            here = slice(place, place + len(short))
            self._text[here] = short  # ends well only where the word is a key of the outermost level
            try:
                with memoryview(self._text) as view:
                    head = decoder.decode(view[:here.stop])
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                head = None
            finally:
                self._text[here] = word[:len(short)]
            if head is not None:
                opening = _LIST.match(self._text, place + len(word))
                if opening is None and self._text[place + len(word):].strip() in (b"", b":"):
                    raise malformed(self.path, "", None)
                if opening is None:
                    raise ShiftBenchError(f"{self.path}: '{key}' must be a list (byte {place}).")
                self.go(opening.end())
                self._learn("[")
                return head
            place = self._text.find(word, place + 1)
        self.closed, self._missing, self.at = True, True, self.size
        return self._whole(decoder, self._text[:], 0)

    def elements(self, member: type[T], where: str = "", count: int = 0) -> Iterator[list[T]]:
        """The elements of a list, a piece at a time; `where` names the list in an error.

        `count` is the number of its elements that were read before.
        """
        return self._pieces("[", member, list[member], where, count)  # type: ignore[valid-type]

    def entries(self, member: type[T]) -> Iterator[dict[str, T]]:
        """The entries of a dictionary, a piece at a time."""
        return self._pieces("{", member, dict[str, member], "", 0)  # type: ignore[valid-type]

    def after(self, frame: type[T]) -> T:
        """What stands after the member whose elements were read."""
        text = b'{"":0' + (b"}" if self._missing else self._text[self.at:])
        return self._whole(msgspec.json.Decoder(frame), text, self.at - 5)

    def borders(self, parts: int) -> list[int]:
        """Commas that seem to part the elements of the list at hand into shares of about the same length."""
        commas = {self.at}
        for part in range(1, parts if self._first else 1):
            place = self._text.find(self._first, self.at + (self.size - self.at) * part // parts)
            comma = _COMMA["["].search(self._text, max(self.at, place - WINDOW), max(place, 0))
            commas |= {comma.start(1)} if comma else set()
        return sorted(commas)[1:]

    def array(self) -> npt.NDArray[np.uint8]:
        """The file as it lies in memory; to be let go before the file is closed."""
        return np.frombuffer(self._text, np.uint8)

    def _pieces(self, bracket: str, member: Any, kind: Any, where: str, count: int) -> Iterator[Any]:
        if self._outer:
            if self.bracket != bracket:
                what = "a list" if bracket == "[" else "a dictionary"
                raise ShiftBenchError(f"{self.path}: must be {what}, but begins with '{self.bracket}'.")
            self._learn(bracket)
        decoder, reach = msgspec.json.Decoder(kind), self.block
        while not self.closed:
            stop = self.at + reach if self._first else self.size
            for end in self._commas(bracket, self.at + 1, stop) if stop < self.size else [self.size]:
                try:
                    piece = self._decoded(decoder, end, bracket)
                    self.closed = end == self.size
                except msgspec.ValidationError as problem:
                    self._misfit(problem, end, bracket, member, where, count)
                    continue
                except msgspec.DecodeError as problem:
                    what, place = self._spot(problem, self.at)
                    if place and what == "trailing characters" and not self._outer:  # the list ends in this block
                        end, self.closed = self._text.rfind(b"]", self.at, place) + 1, True
                        piece = self._whole(decoder, self._text[self.at:end], self.at)
                    elif end == self.size or (place is not None and place < end):
                        raise malformed(self.path, what, place) from problem
                    else:
                        continue
                except (UnicodeDecodeError, RecursionError) as problem:
                    raise unreadable(self.path, problem, self.at) from problem
                self.go(end)
                count, reach = count + len(piece), self.block
                yield piece
                break
            else:
                reach *= 2

    def _learn(self, bracket: str) -> None:
        """How elements begin."""
        found = _FIRST[bracket].match(self._text, self.at)
        self._first = found[1] if found else b""

    def _commas(self, bracket: str, start: int, stop: int) -> Iterator[int]:
        """Commas between elements, as it seems, the last first."""
        tries = TRIES
        while self._first and tries and (stop := self._text.rfind(self._first, start, stop)) > 0:
            comma = _COMMA[bracket].search(self._text, max(start, stop - WINDOW), stop)
            if comma is not None:
                tries -= 1
                yield comma.start(1)

    def _decoded(self, decoder: "msgspec.json.Decoder[Any]", end: int, bracket: str) -> Any:
        """Decode from here to a comma, where a closing bracket stands meanwhile, or to the end of the file."""
        self._text[self.at:self.at + 1] = bracket.encode()
        kept = self._text[end:end + 1]
        if kept:
            self._text[end:end + 1] = _CLOSING[bracket]
        try:
            with memoryview(self._text) as view:
                return decoder.decode(view[self.at:end + 1])
        finally:
            if kept:
                self._text[end:end + 1] = kept

    def go(self, end: int) -> None:
        """Go on from `end`; pages of the file before it are given back."""
        self.at = end
        if end - self._kept > BEHIND:
            self.forget(self._kept, end)
            self._kept = end

    def forget(self, start: int, end: int) -> None:
        """Give back the memory of a part of the file, which is read again if it is asked for again."""
        start, end = (place // mmap.PAGESIZE * mmap.PAGESIZE for place in (start, end))
        if end > start and hasattr(mmap, "MADV_DONTNEED"):
            self._text.madvise(mmap.MADV_DONTNEED, start, end - start)

    def _whole(self, decoder: "msgspec.json.Decoder[T]", text: bytes, start: int) -> T:
        """Decode a text that stands at `start` in the file."""
        try:
            return decoder.decode(text)
        except msgspec.ValidationError as problem:
            raise misfit(self.path, problem) from problem
        except msgspec.DecodeError as problem:
            raise malformed(self.path, *self._spot(problem, start)) from problem
        except (UnicodeDecodeError, RecursionError) as problem:
            raise unreadable(self.path, problem, self.at) from problem

    def _misfit(self, problem: Exception, end: int, bracket: str, member: Any, where: str, count: int) -> None:
        """Raise the error of the first element that is not as it should be; return when the cut was wrong instead."""
        parts: Any = list[msgspec.Raw] if bracket == "[" else dict[str, msgspec.Raw]
        try:
            self._decoded(msgspec.json.Decoder(parts), end, bracket)
        except msgspec.DecodeError as detail:
            what, place = self._spot(detail, self.at)
            if place and what == "trailing characters" and not self._outer:
                end = self._text.rfind(b"]", self.at, place)
            elif end == self.size or what == "trailing characters":
                raise malformed(self.path, what, place) from detail
            else:
                return
        except RecursionError as detail:
            raise unreadable(self.path, detail, self.at) from detail
        text = self._text[self.at:end] + _CLOSING[bracket] if end < self.size else self._text[self.at:]
        raw = self._whole(msgspec.json.Decoder(parts), text, self.at)
        for key, part in enumerate(raw, count) if bracket == "[" else raw.items():
            try:
                msgspec.json.decode(part, type=member)
            except msgspec.ValidationError as detail:
                raise misfit(self.path, detail, f"{where}[{key}]" if bracket == "[" else str(key)) from problem
        raise misfit(self.path, problem, where)

    def _spot(self, problem: Exception, start: int) -> tuple[str, int | None]:
        """What is wrong with a text that begins at `start`, and the byte of the file."""
        what, place = spot(problem)
        return what, None if place is None else start + place
