"""A large JSON file in pieces: memory holds one block of it and what was decoded from that block, never the whole file.

A piece ends where one element seems to end and the next to begin as the first one began. Whether it does is proved by
decoding: text that stops inside a word or a deeper bracket cannot be closed from outside, so a wrong cut is an error
and the cut before it is tried. Every error names the file and the byte or the field.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import msgspec

from shiftbench.errors import ShiftBenchError

T = TypeVar("T")

BLOCK = 4 << 20
TRIES = 16
WINDOW = 256  # how far before an element the end of the last one is looked for

_BYTE = re.compile(r"(?:JSON is malformed: )?(.*) \(byte (\d+)\)")
_FIELD = re.compile(r"(.*?)(?: - at `(?:key in )?\$(.*)`)?")
_LIST = re.compile(rb"\s*:\s*(?=\[)")
_CLOSING = {"[": b"]", "{": b"}"}
_FIRST = {"[": re.compile(rb'\[\s*(\{\s*"[^"\\]*")'), "{": re.compile(rb'\{\s*"[^"\\]*"\s*:\s*(\{\s*"[^"\\]*")')}
_BORDER = {"[": re.compile(rb"\}\s*,\s*()\Z"), "{": re.compile(rb'\}\s*,\s*()"[^"\\]*"\s*:\s*\Z')}


class Pieces:
    """One JSON file, read once from front to back.

        with Pieces(path) as file:
            head = file.before("annotations", Frame)
            for piece in file.elements(Annotation, "annotations"): ...
            tail = file.after(Frame)

    A file that is one list or one dictionary is read by `elements` or `entries` alone; `bracket` tells which it is.
    """

    def __init__(self, path: Path | str, block: int = BLOCK) -> None:
        self.path, self._block = Path(path), block
        self._text, self._offset = bytearray(), 0  # what was read and is not yet decoded, and where it begins
        self._ended, self._outer, self._missing = False, True, False
        if self.path.is_dir():
            raise ShiftBenchError(f"{self.path} is a folder. Give the annotation files themselves.")
        try:
            self._handle = self.path.open("rb", buffering=0)
        except OSError as problem:
            raise ShiftBenchError(f"{self.path}: cannot be read ({problem.strerror}).") from problem
        while not self._text.strip():
            if not self._fill():
                self._handle.close()
                raise ShiftBenchError(f"{self.path} is empty.")

    def __enter__(self) -> "Pieces":
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self._handle.close()

    @property
    def bracket(self) -> str:
        """The first sign of the file: `[` of a list, `{` of a dictionary."""
        return self._text.lstrip()[:1].decode(errors="replace")

    def before(self, key: str, frame: type[T]) -> T:
        """What stands before a member of the outermost dictionary; all of it when there is no such member."""
        word, seen, decoder = f'"{key}"'.encode(), 0, msgspec.json.Decoder(frame)
        self._outer = False
        while True:
            place = self._text.find(word, seen)
            if place < 0:
                seen = max(0, len(self._text) - len(word) + 1)
                if self._fill():
                    continue
                self._missing = True
                return self._whole(decoder, bytes(self._text), 0)
            try:  # ends well only where the word is a key of the outermost level
                head = decoder.decode(bytes(self._text[:place]) + word + b":0}")
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                seen = place + 1
                continue
            opening = _LIST.match(self._text, place + len(word))
            if opening is None:
                raise ShiftBenchError(f"{self.path}: '{key}' must be a list (byte {self._offset + place}).")
            self._skip(opening.end())
            return head

    def elements(self, member: type[T], where: str = "") -> Iterator[list[T]]:
        """The elements of a list, a piece at a time; `where` names the list in an error."""
        return self._pieces("[", member, list[member], where)  # type: ignore[valid-type]

    def entries(self, member: type[T]) -> Iterator[dict[str, T]]:
        """The entries of a dictionary, a piece at a time."""
        return self._pieces("{", member, dict[str, member], "")  # type: ignore[valid-type]

    def after(self, frame: type[T]) -> T:
        """What stands after the member whose elements were read."""
        while self._fill():
            pass
        text = b'{"":0' + (b"}" if self._missing else bytes(self._text))
        return self._whole(msgspec.json.Decoder(frame), text, 5)

    def _pieces(self, bracket: str, member: Any, kind: Any, where: str) -> Iterator[Any]:
        """From here on the text begins with the opening bracket, written over what parted it from the last piece."""
        if self._missing:
            return
        if self.bracket != bracket:
            what = "a list" if bracket == "[" else "a dictionary"
            raise ShiftBenchError(f"{self.path}: must be {what}, but begins with '{self.bracket}'.")
        self._skip(self._text.index(bracket.encode()))
        decoder, count, closed = msgspec.json.Decoder(kind), 0, False
        first = b""
        while not closed:
            if not self._ended:
                self._fill()
            if not first and (found := _FIRST[bracket].match(self._text)):
                first = bytes(found[1])
            for end, start in self._cuts(bracket, first):
                try:
                    piece = self._closed(decoder, end, bracket)
                    closed = self._ended
                except msgspec.ValidationError as problem:
                    self._misfit(problem, end, bracket, member, where, count)
                    continue
                except msgspec.DecodeError as problem:
                    what, place = _spot(problem)
                    if what == "trailing characters" and not self._outer:  # the list ends inside this block
                        start, closed = self._text.rfind(b"]", 0, place) + 1, True
                        piece = self._whole(decoder, bytes(self._text[:start]), 0)
                    elif self._ended or (place is not None and place < end):
                        raise self._malformed(what, place, 0) from problem
                    else:
                        continue
                except (UnicodeDecodeError, RecursionError) as problem:
                    raise self._unreadable(problem) from problem
                self._skip(start if closed else start - 1)
                if not closed:
                    self._text[:1] = bracket.encode()
                count += len(piece)
                yield piece
                break

    def _cuts(self, bracket: str, first: bytes) -> Iterator[tuple[int, int]]:
        """Where a piece may end and the next begin, the last place first; at the end of the file all that is left."""
        if self._ended:
            yield len(self._text), len(self._text)
            return
        place, tries = len(self._text), TRIES if first else 0
        while tries and (place := self._text.rfind(first, 2, place)) > 0:
            border = _BORDER[bracket].search(self._text, max(0, place - WINDOW), place)
            if border is not None:
                tries -= 1
                yield border.start() + 1, border.start(1)

    def _closed(self, decoder: "msgspec.json.Decoder[Any]", end: int, bracket: str) -> Any:
        """Decode the text up to a cut, where a closing bracket takes the place of the comma meanwhile."""
        if self._ended:
            return decoder.decode(self._text)
        kept = self._text[end:end + 1]
        self._text[end:end + 1] = _CLOSING[bracket]
        try:
            with memoryview(self._text) as view:
                return decoder.decode(view[:end + 1])
        finally:
            self._text[end:end + 1] = kept

    def _fill(self) -> bool:
        """Read one block, or as much again as is waiting; False at the end of the file."""
        size = max(self._block, len(self._text))
        try:
            more = self._handle.read(size)
        except OSError as problem:
            raise ShiftBenchError(f"{self.path}: cannot be read ({problem.strerror}).") from problem
        self._ended = not more
        self._text += more
        return bool(more)

    def _skip(self, length: int) -> None:
        del self._text[:length]
        self._offset += length

    def _whole(self, decoder: "msgspec.json.Decoder[T]", text: bytes, lead: int) -> T:
        """Decode text of which all but the first `lead` bytes stand in the file."""
        try:
            return decoder.decode(text)
        except msgspec.ValidationError as problem:
            raise self._wrong(problem, "") from problem
        except msgspec.DecodeError as problem:
            raise self._malformed(*_spot(problem), lead) from problem
        except (UnicodeDecodeError, RecursionError) as problem:
            raise self._unreadable(problem) from problem

    def _misfit(self, problem: Exception, end: int, bracket: str, member: Any, where: str, count: int) -> None:
        """Raise the error of the first element that is not as it should be; return when the cut was wrong instead."""
        parts: Any = list[msgspec.Raw] if bracket == "[" else dict[str, msgspec.Raw]
        try:
            raw = self._closed(msgspec.json.Decoder(parts), end, bracket)
        except msgspec.DecodeError as detail:
            what, place = _spot(detail)
            if what == "trailing characters" and not self._outer:
                inner = self._text[:self._text.rfind(b"]", 0, place) + 1]
                raw = self._whole(msgspec.json.Decoder(parts), bytes(inner), 0)
            elif self._ended or what == "trailing characters":
                raise self._malformed(what, place, 0) from detail
            else:
                return
        for key, part in enumerate(raw, count) if bracket == "[" else raw.items():
            try:
                msgspec.json.decode(part, type=member)
            except msgspec.ValidationError as detail:
                raise self._wrong(detail, f"{where}[{key}]" if bracket == "[" else str(key)) from problem
        raise self._wrong(problem, where)

    def _wrong(self, problem: Exception, place: str) -> ShiftBenchError:
        what, field = _FIELD.fullmatch(str(problem)).groups()  # type: ignore[union-attr]
        where = f"{place}{field or ''}".lstrip(".")
        return ShiftBenchError(f"{self.path}: {f'{where}: ' if where else ''}{what.replace('`', '')}.")

    def _malformed(self, what: str, place: int | None, lead: int) -> ShiftBenchError:
        byte = self._offset + (len(self._text) if place is None else place - lead)
        line = 1
        with self.path.open("rb") as again:
            for start in range(0, byte, BLOCK):
                line += again.read(min(BLOCK, byte - start)).count(b"\n")
            ahead = again.read(3)
        if place is None:
            return ShiftBenchError(f"{self.path}: cut off at byte {byte}, line {line}, in the middle of a value. "
                                   "Copy or download it again.")
        if ahead in (b"NaN", b"Inf"):
            what = "NaN and Infinity are not numbers in JSON"
        return ShiftBenchError(f"{self.path}: not valid JSON at byte {byte}, line {line}: {what}.")

    def _unreadable(self, problem: Exception) -> ShiftBenchError:
        what = "is not UTF-8 text" if isinstance(problem, UnicodeDecodeError) else "brackets are nested too deeply"
        return ShiftBenchError(f"{self.path}: after byte {self._offset}: {what}.")


def _spot(problem: Exception) -> tuple[str, int | None]:
    """What msgspec says of malformed text and at which byte; no byte when the text ends too early."""
    found = _BYTE.fullmatch(str(problem))
    return (found[1], int(found[2])) if found else (str(problem), None)
