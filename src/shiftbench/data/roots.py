"""The folders from which a collection may take files: those that this user made or confirmed, not a stranger's.

A collection of image files says in collection.json where they lie. One that came from elsewhere could say `/`, and an
export would then copy whatever files it names. So every collection that is saved here is noted, by the SHA-256 of its
collection.json and the folder of its files, in ~/.config/shiftbench/collections; one that is not noted there has to be
confirmed first (`shiftbench trust`). Where several machines or users share data, SHIFTBENCH_ROOTS names folders, with :
between, whose files any collection may use.
"""

import hashlib
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from shiftbench.core.arrays import Ints, Strs, Values
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import inside

ROOTS = "SHIFTBENCH_ROOTS"


def notes() -> Path:
    """The file of confirmed collections, one per line: SHA-256, tab, folder."""
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return Path(base) / "shiftbench" / "collections"


def noted_root(marker: Path) -> Path | None:
    """The folder that was last confirmed for the collection with this collection.json; None if there is none."""
    own = _digest(marker)
    try:
        lines = notes().read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    for line in reversed(lines):
        digest, _, root = line.partition("\t")
        if digest == own and root:
            return Path(root)
    return None


def note(marker: Path, root: Path | str) -> bool:
    """Confirm the folder of a collection's files; False if the confirmation cannot be written."""
    if noted_root(marker) == Path(root):
        return True
    with suppress(OSError):
        notes().parent.mkdir(parents=True, exist_ok=True)
        with notes().open("a", encoding="utf-8", errors="surrogateescape") as file:
            file.write(f"{_digest(marker)}\t{root}\n")  # one short line: processes that append do not mix theirs
        return True
    return False


def confirm(marker: Path, root: Path) -> None:
    """`note` for a person who asked for it: what stands in the way is an error."""
    if not root.is_dir():
        raise ShiftBenchError(f"{root}: no such folder. Name the folder that holds the files with --root.")
    if not note(marker, root):
        raise ShiftBenchError(f"{notes()}: cannot be written, so it cannot be noted. Set {ROOTS}={root} instead.")


def is_safe(root: Path, home: Path) -> bool:
    """Whether files below `root` may be used without asking: it is in the collection's own folder, or allowed."""
    allowed = [home, *(Path(part) for part in os.environ.get(ROOTS, "").split(os.pathsep) if part)]
    return any(root.resolve().is_relative_to(part.resolve()) for part in allowed)


def confirmed(folders: Iterable[Path | str], marker: str) -> str:
    """The folders that were confirmed for collections, as SHIFTBENCH_ROOTS has them: for workers on other machines."""
    noted = [str(root) for folder in folders if (root := noted_root(Path(folder) / marker)) is not None]
    return os.pathsep.join(dict.fromkeys([*filter(None, [os.environ.get(ROOTS)]), *noted]))


def unconfirmed(home: Path, root: Path) -> ShiftBenchError:
    return ShiftBenchError(f"{home}: says that its files lie below {root}, but it was not made here. If files may be "
                           f"taken from there: shiftbench trust {home}; if they lie elsewhere: shiftbench trust {home} "
                           "--root FOLDER.")


def _digest(marker: Path) -> str:
    try:
        return hashlib.sha256(marker.read_bytes()).hexdigest()
    except OSError:
        return ""


def image_folder(images: Path | str | None) -> Path | None:
    """The folder of the images, which must be there; None when none is given."""
    if images is None:
        return None
    if not Path(images).is_dir():
        raise ShiftBenchError(f"{images}: no such folder. `images` is the folder that holds the image files.")
    return Path(images).resolve()


def paths_below(root: Path, names: Sequence[str]) -> Strs:
    """File names below a folder, or an error for the first that would leave it."""
    for name in names:
        if "\0" in name or not name:
            raise ShiftBenchError(f"{name!r} is not the name of an image file.")
        if ".." in name or name.startswith("/") or "\\" in name or ":" in name:
            inside(root, name.replace("\\", "/"))
    return np.asarray(names, np.str_)


def missing_files(pixels: Values | None, root: Path | None) -> Ints:
    """The numbers of the items whose image file is not below `root`; empty if images are not files.

    Folders are listed, which is faster than asking for a million files one by one; a name that is not in the list
    is asked for, since some disks take `A.JPG` for `a.jpg`.
    """
    if pixels is None or pixels.dtype.kind != "U":
        return np.zeros(0, np.int64)
    root, present = root or Path.cwd(), {}
    missing = []
    for row, name in enumerate(pixels.tolist()):
        above, _, file = name.rpartition("/")
        if above not in present:
            present[above] = _files_in(root / above)
        if file not in present[above] and not (root / name).is_file():
            missing.append(row)
    return np.asarray(missing, np.int64)


def _files_in(folder: Path) -> frozenset[str]:
    """Names of the files in a folder; none where it cannot be listed."""
    try:
        with os.scandir(folder) as entries:
            return frozenset(entry.name for entry in entries if entry.is_file())
    except OSError:
        return frozenset()
