"""What is wrong with a JSON file, in words that name the file and the byte, line or field."""

import re
from pathlib import Path

from shiftbench.errors import ShiftBenchError

BLOCK = 1 << 20

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
