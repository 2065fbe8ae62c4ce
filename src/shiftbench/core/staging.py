"""Nothing is half-written: what is new is made in a staging folder and takes its place in one step.

A staging folder `.staging-HOST-XXXXXXXX` lies beside what it is for, on the same disk. The process that works in it
holds a lock on it, which the system lets go of when the process ends, however it ends: so a folder that nobody holds is
what a killed process left, and the next one of that machine that writes there clears it away. (Some network disks keep
a lock from other machines, so folders of other machines are left alone.)
"""

import ctypes
import errno
import fcntl
import hashlib
import os
import shutil
import socket
import stat
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from shiftbench.core.errors import ShiftBenchError

PREFIX = f".staging-{hashlib.sha256(socket.gethostname().encode()).hexdigest()[:6]}-"
OLD = "old"
"""In a staging folder: what had to be moved aside, where two folders cannot change places in one step."""


@contextmanager
def writing(path: Path | str) -> Iterator[Path]:
    """A temporary name for a file; when the block ends well, the file takes its place in one step."""
    target = Path(path)
    if target.is_dir():
        raise ShiftBenchError(f"{target} is a folder, but a file is to be written there. Choose another name.")
    with _said(target), staging(target.parent) as folder:
        hidden = folder / target.name
        yield hidden
        _sync(hidden)
        hidden.replace(target)


@contextmanager
def writing_folder(path: Path | str, marker: str) -> Iterator[Path]:
    """A temporary folder that takes the place of `path` when the block ends well.

    An existing folder is replaced only when it holds `marker`, the file by which we know our own; anything else a user
    keeps there is never deleted. A reader sees the old folder or the new one, at no moment none.
    """
    target = Path(path)
    if target.exists() and not (target / marker).is_file() and (not target.is_dir() or any(target.iterdir())):
        raise ShiftBenchError(f"{target} exists and has no {marker}: it is not ours to replace. Choose another folder.")
    with _said(target), staging(target.parent) as folder:
        hidden = folder / target.name
        hidden.mkdir()
        yield hidden
        for part in hidden.rglob("*"):
            if part.is_file():
                _sync(part)
        if not target.exists():
            hidden.rename(target)
        elif not _exchanged(hidden, target):
            _replace(hidden, target)


@contextmanager
def making_folder(path: Path | str) -> Iterator[Path]:
    """A temporary folder that becomes `path` when the block ends well, unless another process was first.

    For what is computed and the same whoever computes it.
    """
    target = Path(path)
    with _said(target), staging(target.parent) as folder:
        hidden = folder / target.name
        hidden.mkdir()
        yield hidden
        try:
            hidden.rename(target)
        except OSError as problem:
            if problem.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder of this machine for as long as the block lasts, below TMPDIR."""
    top = Path(tempfile.gettempdir()) / f"shiftbench-scratch-{os.getuid()}"
    try:
        top.mkdir(mode=0o700, exist_ok=True)
        foreign = top.stat().st_uid != os.getuid() or top.is_symlink()
    except OSError as problem:
        raise ShiftBenchError(f"{top}: cannot make the folder ({problem.strerror}).") from problem
    if foreign:
        raise ShiftBenchError(f"{top}: belongs to somebody else. Set TMPDIR to a folder of yours.")
    with staging(top) as folder:
        yield folder


@contextmanager
def staging(parent: Path) -> Iterator[Path]:
    """A folder below `parent` that this process holds and that is gone when the block ends."""
    parent.mkdir(parents=True, exist_ok=True)
    clear(parent)
    while True:
        folder = parent / f"{PREFIX}{uuid.uuid4().hex[:8]}"
        folder.mkdir()
        handle = os.open(folder, os.O_RDONLY)
        with suppress(OSError):  # a network disk may have no locks: then nobody can take this folder for a dead one's
            fcntl.flock(handle, fcntl.LOCK_EX)
        if folder.exists():  # else another process took it for a dead one's before we held it
            break
        os.close(handle)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)


def clear(parent: Path) -> None:
    """Remove the staging folders below `parent` that no process holds."""
    left: list[str] = []
    with suppress(OSError), os.scandir(parent) as entries:
        left = [entry.path for entry in entries if entry.name.startswith(PREFIX)]
    for path in left:
        with suppress(OSError):
            handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _finish(Path(path))
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(handle)


def _finish(folder: Path) -> None:
    """A process that was killed after it moved the old folder aside had the new one ready: put it there."""
    for old in (folder / OLD).iterdir() if (folder / OLD).is_dir() else ():
        target = folder.parent / old.name
        if not target.exists():
            (folder / old.name).rename(target)


def _replace(new: Path, target: Path) -> None:
    """In two steps; whoever is killed between them is helped by `_finish`."""
    old = new.parent / OLD / target.name
    old.parent.mkdir()
    target.rename(old)
    try:
        new.rename(target)
    except OSError:
        old.rename(target)
        raise


def _exchanged(one: Path, other: Path) -> bool:
    """Let two names change places in one step; False where the system or the disk cannot."""
    swap = getattr(ctypes.CDLL(None), "renameat2", None)  # Linux
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return swap is not None and swap(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0


def check_regular(path: Path | str) -> None:
    """A pipe, a socket or a device is not read: it may never end. What is not there is said by whoever opens it."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise ShiftBenchError(f"{path} is a pipe or a device, not a file. Write its content to a file first.")


def _sync(file: Path) -> None:
    with file.open("rb") as handle:
        os.fsync(handle.fileno())


@contextmanager
def _said(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        raise ShiftBenchError(f"{target}: cannot be written ({problem.strerror or problem}).") from problem
