"""Arrays in an npz file, one member at a time: never unpickled, checked by header before anything is read.

An uncompressed member is mapped where it lies; a compressed one is read in blocks of rows. Both verify the archive's
checksum, so a damaged file is noticed.
"""

import math
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from shiftbench.core.arrays import BLOCK, Images, Values, blocks
from shiftbench.core.errors import Advance, ShiftBenchError, first_line, unknown
from shiftbench.core.files import check_regular


def numbered(rows: int) -> list[str]:
    """Ids of items that a file identifies only by their position."""
    return list(map(str, range(rows)))


DEFLATE = 1032  # bytes that one compressed byte can become, at most
LOCAL = struct.Struct("<4s22xHH")  # a member's own header: signature, lengths of its name and of what follows
DAMAGED = (zipfile.BadZipFile, zlib.error, struct.error, ValueError, EOFError, OSError, NotImplementedError,
           RuntimeError)


class Member(NamedTuple):
    """The header of an array; its values begin at byte `start` of the member."""

    info: zipfile.ZipInfo
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    by_column: bool
    start: int

    @property
    def name(self) -> str:
        return self.info.filename.removesuffix(".npy")

    @property
    def row_bytes(self) -> int:
        return math.prod(self.shape[1:]) * self.dtype.itemsize


class Npz:
    """An open npz file; every failure is one error that names the file and the member."""

    def __init__(self, path: Path) -> None:
        self.path = path
        check_regular(path)
        with self._reporting("the archive"):
            self.zip = zipfile.ZipFile(path)

    def __enter__(self) -> "Npz":
        return self

    def __exit__(self, *problem: object) -> None:
        self.zip.close()

    def member(self, name: str, kinds: str, shape: Sequence[int | None]) -> Member:
        """The header of an array of one of numpy's `kinds`; None in `shape` stands for any length above 0."""
        names = [entry.removesuffix(".npy") for entry in self.zip.namelist()]
        if name not in names:
            raise unknown("array", name, names, str(self.path))
        info = self.zip.getinfo(f"{name}.npy")
        with self._reporting(f"array '{name}'"), self.zip.open(info) as stream:
            member = Member(info, *_header(stream), stream.tell())
        fits = len(member.shape) == len(shape) and all(
            length > 0 if asked is None else length == asked for length, asked in zip(member.shape, shape, strict=True))
        if member.dtype.kind not in kinds or not fits:
            expected = " × ".join("N" if length is None else str(length) for length in shape)
            raise ShiftBenchError(f"{self.path}: array '{name}' is {member.dtype} of shape {member.shape}, but it "
                                  f"should be {' or '.join(KINDS[kind] for kind in kinds)} of shape {expected}.")
        size = member.start + member.shape[0] * member.row_bytes
        packed = min(info.compress_size, self.path.stat().st_size)
        if size != info.file_size or size > packed * (1 if info.compress_type == zipfile.ZIP_STORED else DEFLATE):
            raise ShiftBenchError(f"{self.path}: array '{name}' says it has {size} bytes, which is not what the "
                                  "archive holds. Copy or download the file again.")
        return member

    def array(self, member: Member) -> Values:
        """All values of a small array."""
        with self._reporting(f"array '{member.name}'"), self.zip.open(member.info) as stream:
            values = np.lib.format.read_array(stream, allow_pickle=False)
            stream.read(1)  # the checksum is verified at the end
            return values

    def blocks(self, member: Member, progress: Advance | None = None) -> Iterator[tuple[slice, Values]]:
        """The rows of a large array, a block at a time, in order."""
        self._by_row(member)
        with self._reporting(f"array '{member.name}'"), self.zip.open(member.info) as stream:
            stream.read(member.start)
            for rows in blocks(member.shape[0], member.row_bytes, progress):
                data = stream.read((rows.stop - rows.start) * member.row_bytes)
                yield rows, np.frombuffer(data, member.dtype).reshape(-1, *member.shape[1:])
            stream.read(1)

    def mapped(self, member: Member) -> Images | None:
        """An array of bytes where it lies in the file, for reading only; None where it is compressed."""
        if member.info.compress_type != zipfile.ZIP_STORED:
            return None
        self._by_row(member)
        with self._reporting(f"array '{member.name}'"):
            with self.path.open("rb") as file:
                file.seek(member.info.header_offset)
                signature, name, extra = LOCAL.unpack(file.read(LOCAL.size))
            if signature != b"PK\3\4" or member.info.flag_bits & 1:
                raise zipfile.BadZipFile("no plain member stands where the archive says")
            raw: npt.NDArray[np.uint8] = np.memmap(self.path, np.uint8, "r", shape=(member.info.file_size,),
                                                   offset=member.info.header_offset + LOCAL.size + name + extra)
            checksum = 0
            for start in range(0, len(raw), BLOCK):
                checksum = zlib.crc32(raw[start:start + BLOCK].data, checksum)
            if checksum != member.info.CRC:
                raise zipfile.BadZipFile("its checksum is wrong")
            return raw[member.start:].reshape(member.shape)

    def _by_row(self, member: Member) -> None:
        if member.by_column:
            raise ShiftBenchError(f"{self.path}: array '{member.name}' is stored by column (Fortran order), so its "
                                  "images cannot be read one after another. Save it in C order.")

    def _reporting(self, what: str) -> AbstractContextManager[None]:
        return readable(self.path, "npz file", DAMAGED, f"{what} ")


@contextmanager
def readable(path: Path, format: str, faults: tuple[type[Exception], ...], what: str = "") -> Iterator[None]:
    """Every failure in the block is one error that names the file."""
    try:
        yield
    except ShiftBenchError:
        raise
    except FileNotFoundError as problem:
        raise ShiftBenchError(f"{path}: no such file.") from problem
    except faults as problem:
        why = str(problem).splitlines()[0] if str(problem) else "it ends too early"
        raise ShiftBenchError(f"{path}: {what}cannot be read ({why}). It is damaged or no {format}; copy or download "
                              "it again.") from problem


KINDS = {"u": "bytes", "i": "whole numbers", "f": "numbers"}


def _header(stream: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any], bool]:
    version = np.lib.format.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"its header is of version {version}")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    try:
        shape, by_column, dtype = read(stream)
    except Exception as problem:  # numpy's parser raises the errors of Python's parser
        raise ValueError(first_line(problem)) from problem
    return shape, dtype, by_column and len(shape) > 1
