"""Image files that a collection keeps itself: images that came as bytes inside a table, or out of memory.

Until the collection is saved they lie in a folder of this process, which goes when it ends; saved, they lie in
`images/` of the collection's own folder and move with it. A file holds the bytes as they came and is named by their
SHA-256, so that reading the same data twice gives the same names.
"""

import hashlib
import io
import os
import shutil
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from shiftbench.core.arrays import Ints, Strs, Values
from shiftbench.core.errors import ShiftBenchError, first_line
from shiftbench.core.files import inside

# The folders from which a collection may take files: those that this user made or confirmed, not a stranger's.

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


# Image files that a collection keeps itself: images that came as bytes inside a table, or out of memory.

FOLDER = "images"
"""Of a saved collection: where the images lie that it keeps itself."""
ENDINGS = {"JPEG": ".jpg", "TIFF": ".tif"}
"""Of files, by the name that pillow has for a format; others are the name in lower case."""


@cache
def _of_this_process() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="shiftbench-images-")


def folder_for(images: Path | str | None) -> Path:
    """The folder to write images into: the one that is named, or one of this process."""
    return Path(_of_this_process().name if images is None else images).resolve()


def is_kept(root: Path | None, home: Path | None) -> bool:
    """Whether a collection keeps its images itself: in the folder of this process, or below its own."""
    if root is None:
        return False
    if home is not None and root.is_relative_to(home):
        return True
    return bool(_of_this_process.cache_info().currsize) and root == folder_for(None)


def write_image(folder: Path, content: bytes, where: str) -> str:
    """Write an encoded image as it is, and give the name of its file below `folder`; `where` says whose it is."""
    digest = hashlib.sha256(content).hexdigest()
    name = f"{digest[:2]}/{digest[2:40]}{_ending(content, where)}"
    path = folder / name
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            hidden = path.with_name(f".{uuid.uuid4().hex}")
            hidden.write_bytes(content)
            hidden.replace(path)
    except OSError as problem:
        raise ShiftBenchError(f"{path}: cannot be written ({problem.strerror}). Name a folder with room for the images "
                              "with `images`.") from problem
    return name


def _ending(content: bytes, where: str) -> str:
    """The ending of an image's file; only its header is looked at."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(content)) as picture:
            return ENDINGS.get(str(picture.format), f".{str(picture.format).lower()}")
    except (OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError) as problem:
        why = first_line(problem) if "BytesIO" not in str(problem) else "its bytes are no image that pillow knows"
        raise ShiftBenchError(f"{where}: the image cannot be read ({why}). Replace it or drop the row.") from problem


def png(picture: object) -> bytes:
    """The bytes of a PNG file of a picture (of pillow, or uint8 height × width × 3)."""
    from PIL import Image

    stream = io.BytesIO()
    (picture if isinstance(picture, Image.Image) else Image.fromarray(picture)).save(stream, "PNG")  # type: ignore[arg-type]
    return stream.getvalue()


def link_images(root: Path, names: Iterable[str], folder: Path) -> None:
    """Put the files of these names into another folder: as links to the same bytes, or as copies on another disk."""
    for name in set(names):
        source, target = inside(root, name), folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with suppress(OSError):
            os.link(source, target)
        if not target.exists() and source.exists():
            shutil.copyfile(source, target)
