"""Archives, unpacked file by file. What an archive names may not leave its folder, nor be a link or a device.

An archive is foreign: the names and types of its members are checked before a byte of them is written, and its
expansion is bounded. Files are moved into place after the whole archive was read and its checksums agree. An existing
file stays if it is the same.
"""

import bz2
import gzip
import hashlib
import lzma
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple, cast

from shiftbench.core.errors import Advance, ShiftBenchError, first_line, printable
from shiftbench.core.files import inside, staging
from shiftbench.downloads.transfer import BLOCK, digest

EXPANSION = 100
"""Bytes that an archive may expand to per byte: text is packed to a tenth, a bomb to a thousandth."""
SMALL = 1 << 20
FAULTS = (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, lzma.LZMAError, EOFError,
          NotImplementedError)
PACKED: dict[bytes, Callable[[IO[bytes]], IO[bytes]]] = {
    b"\x1f\x8b": lambda raw: cast(IO[bytes], gzip.GzipFile(fileobj=raw)), b"BZh": bz2.BZ2File,
    b"\xfd7zXZ": lzma.LZMAFile}
"""First bytes of a compressed file -> how to read it; these readers verify checksums, tarfile's own does not."""


class Damaged(ShiftBenchError):
    """A file that ends too early or is not an archive."""


class Unpacked(NamedTuple):
    """A file of an archive: its path below the root, its size and its SHA-256."""

    path: str
    size: int
    sha256: str


class Member(NamedTuple):
    name: str
    size: int
    content: Callable[[], IO[bytes]]


def unpack(
    archive: Path, root: Path, folder: str, strip: str = "", progress: Advance | None = None
) -> list[Unpacked]:
    """Write the files of a zip or tar archive to `root`/`folder`, without the leading folder `strip` of their names.

    All of them are written to a hidden folder first and are moved into place after the archive was read to its end.
    """
    with _faults(archive), staging(root) as hidden:
        files = list(_write_all(archive, hidden, strip, progress))
        parents = {os.path.dirname(file.path) for file in files}
        for parent in sorted(parents):
            inside(root, os.path.join(folder, parent)).mkdir(parents=True, exist_ok=True)
        for file in files:
            _move(archive, hidden / file.path, root / folder / file.path, file)
    return [file._replace(path=f"{folder}/{file.path}") for file in files]


def _write_all(
    archive: Path, hidden: Path, strip: str, progress: Advance | None
) -> Iterator[Unpacked]:
    """The members of an archive, written below `hidden` under their names."""
    room = EXPANSION * archive.stat().st_size + SMALL
    parents: set[str] = set()
    for member in _members(archive, room, progress):
        name = _checked(archive, member.name.removeprefix("./")).removeprefix(strip)
        parent = os.path.dirname(name)
        if parent not in parents:
            (hidden / parent).mkdir(parents=True, exist_ok=True)
            parents.add(parent)
        size, sha256 = _write(archive, member, hidden / name, room)
        room -= size
        yield Unpacked(name, size, sha256)


def _write(archive: Path, member: Member, path: Path, room: int) -> tuple[int, str]:
    """Write a member; returns its size and SHA-256."""
    size, sha256 = 0, hashlib.sha256()
    with member.content() as source, path.open("xb") as handle:
        while block := source.read(BLOCK):
            size += len(block)
            if size > room:
                raise _bomb(archive)
            sha256.update(block)
            handle.write(block)
    if size != member.size:
        raise Damaged(f"{archive}: its member '{member.name}' has {size:,} bytes where {member.size:,} are stated.")
    return size, sha256.hexdigest()


def _move(archive: Path, path: Path, target: Path, file: Unpacked) -> None:
    """Move a complete file into place, unless the same file is there already."""
    if not os.path.lexists(target):
        path.replace(target)
    elif target.is_symlink() or not target.is_file() or target.stat().st_size != file.size or \
            digest(target) != file.sha256:
        raise ShiftBenchError(f"{target}: is not the file that {archive.name} has under this name. It is not "
                              "overwritten; move it away and run the command again.")


def _members(archive: Path, room: int, progress: Advance | None) -> Iterator[Member]:
    """The files of an archive, in its order; folders are created as files need them."""
    total = archive.stat().st_size
    advance = progress or (lambda done, total: None)
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zipped:
            done = 0
            for entry in zipped.infolist():
                file_type = stat.S_IFMT(entry.external_attr >> 16)
                if file_type not in (0, stat.S_IFREG, stat.S_IFDIR):
                    raise _refused(archive, entry.filename, "a link or a device")
                if entry.flag_bits & 1:
                    raise _refused(archive, entry.filename, "encrypted")
                if not entry.is_dir():
                    yield Member(entry.filename, entry.file_size, partial(zipped.open, entry))
                done += entry.compress_size
                advance(min(done, total), total)
        return
    with archive.open("rb") as raw:
        start = raw.read(6)
        raw.seek(0)
        stream = next((read(raw) for magic, read in PACKED.items() if start.startswith(magic)), raw)
        with tarfile.open(fileobj=stream, mode="r|") as tar:
            for info in tar:
                if not (info.isreg() or info.isdir()):
                    raise _refused(archive, info.name, "a link or a device")
                if info.isreg():
                    yield Member(info.name, info.size, partial(_content, archive, tar, info))
                tar.members = []  # type: ignore[attr-defined] # otherwise tarfile remembers every member
                advance(raw.tell(), total)
        while block := stream.read(BLOCK):  # to the end, where the checksums are
            room -= len(block)
            if room < 0:
                raise _bomb(archive)


def _content(archive: Path, tar: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes]:
    content = tar.extractfile(info)
    if content is None:
        raise _refused(archive, info.name, "not a file")
    return content


def _checked(archive: Path, name: str) -> str:
    """A name that stays below its folder, written with slashes."""
    parts = name.split("/")
    if not name or name.startswith("/") or "\\" in name or printable(name) != name or ":" in parts[0] or \
            any(part in ("", ".", "..") for part in parts):
        raise _refused(archive, name, "outside the archive's own folder")
    return name


def _refused(archive: Path, name: str, reason: str) -> ShiftBenchError:
    return ShiftBenchError(f"{archive}: its member '{name}' is {reason}. Archives of data have only plain files; "
                           "nothing more of it is unpacked.")


def _bomb(archive: Path) -> ShiftBenchError:
    return ShiftBenchError(f"{archive}: expands to more than {EXPANSION} times its size. It is not what its makers "
                           "publish; nothing more of it is unpacked.")


@contextmanager
def _faults(archive: Path) -> Iterator[None]:
    try:
        yield
    except FAULTS as problem:
        raise Damaged(f"{archive}: is damaged or not a zip or tar archive ({first_line(problem)}).") from problem
    except OSError as problem:
        reason = problem.strerror or first_line(problem)
        raise ShiftBenchError(f"{archive}: cannot be unpacked ({reason}).") from problem
