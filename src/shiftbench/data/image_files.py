"""Image files of a collection: those below a folder of the user, and those that the collection keeps itself.

A saved collection names the folder of its image files. If somebody else made the collection, that folder could be any
folder of this machine, so no file is taken from it until the user trusts it (`shiftbench trust`). Collections that this
user made are trusted by their digest.

Images that come as bytes inside a table, or from memory, are kept by the collection itself. Until it is saved they are
in a folder of this process, which is deleted when the process ends; saved, they are in `images/` of the collection's
own folder and move with it. A file holds the bytes as they came and is named by their SHA-256, so that reading the same
data twice gives the same names.
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
from shiftbench.core.files import file_digest, inside

ROOTS = "SHIFTBENCH_ROOTS"
"""The environment variable with further folders from which any collection may take files, for data that several
machines or users share, separated by `:`."""
FOLDER = "images"
"""The folder of a saved collection with the images that it keeps itself."""
ENDINGS = {"JPEG": ".jpg", "TIFF": ".tif"}
"""The ending of a file by pillow's name of its format; for other formats it is the name in lower case."""


def image_folder(images: Path | str | None) -> Path | None:
    """The folder of the images, which must exist; None when none is given."""
    if images is None:
        return None
    if not Path(images).is_dir():
        raise ShiftBenchError(f"{images}: no such folder. `images` is the folder that holds the image files.")
    return Path(images).resolve()


def paths_below(root: Path, names: Sequence[str]) -> Strs:
    """File names below a folder, or an error for the first that would lead out of it."""
    for name in names:
        if "\0" in name or not name:
            raise ShiftBenchError(f"{name!r} is not the name of an image file.")
        if ".." in name or name.startswith("/") or "\\" in name or ":" in name:
            inside(root, name.replace("\\", "/"))
    return np.asarray(names, np.str_)


def missing_files(pixels: Values | None, root: Path | None) -> Ints:
    """The numbers of the items whose image file is not below `root`; none if images are not files.

    Folders are listed, which is faster than a system call for each of a million files. A name that is not in the list
    gets one, since some disks take `A.JPG` for `a.jpg`.
    """
    if pixels is None or pixels.dtype.kind != "U":
        return np.zeros(0, np.int64)
    root, files, missing = root or Path.cwd(), dict[str, frozenset[str]](), []
    for row, name in enumerate(pixels.tolist()):
        folder, _, file = name.rpartition("/")
        if folder not in files:
            files[folder] = _files_in(root / folder)
        if file not in files[folder] and not (root / name).is_file():
            missing.append(row)
    return np.asarray(missing, np.int64)


def _files_in(folder: Path) -> frozenset[str]:
    """Names of the files in a folder; none where it cannot be listed."""
    try:
        with os.scandir(folder) as entries:
            return frozenset(entry.name for entry in entries if entry.is_file())
    except OSError:
        return frozenset()


def trust_file() -> Path:
    """The file of trusted collections, one per line: the SHA-256 of its collection.json, a tab, the folder."""
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return Path(base) / "shiftbench" / "collections"


def trusted_root(marker: Path) -> Path | None:
    """The folder that was last trusted for the collection with this collection.json; None if there is none."""
    with suppress(OSError, ShiftBenchError):
        marker_digest = file_digest(marker)
        lines = trust_file().read_text(encoding="utf-8", errors="surrogateescape").splitlines()
        for line in reversed(lines):
            digest, _, root = line.partition("\t")
            if digest == marker_digest and root:
                return Path(root)
    return None


def record_trust(marker: Path, root: Path | str) -> bool:
    """Trust the folder of a collection's files; False if that cannot be recorded."""
    if trusted_root(marker) == Path(root):
        return True
    with suppress(OSError, ShiftBenchError):
        trust_file().parent.mkdir(parents=True, exist_ok=True)
        with trust_file().open("a", encoding="utf-8", errors="surrogateescape") as file:
            file.write(f"{file_digest(marker)}\t{root}\n")  # processes that append short lines do not mix them
        return True
    return False


def trust_root(marker: Path, root: Path) -> None:
    """`record_trust` at the user's request: what prevents it is an error."""
    if not root.is_dir():
        raise ShiftBenchError(f"{root}: no such folder. Name the folder that holds the files with --root.")
    if not record_trust(marker, root):
        raise ShiftBenchError(f"{trust_file()}: cannot be written, so trust cannot be recorded. Set {ROOTS}={root} "
                              "instead.")


def is_allowed(root: Path, home: Path) -> bool:
    """Whether files below `root` may be used without asking: it is in the collection's own folder, or in ROOTS."""
    allowed = [home, *(Path(folder) for folder in os.environ.get(ROOTS, "").split(os.pathsep) if folder)]
    return any(root.resolve().is_relative_to(folder.resolve()) for folder in allowed)


def trusted_roots(folders: Iterable[Path | str], marker: str) -> str:
    """The folders that are trusted for these collections, as ROOTS holds them: for workers on other machines."""
    roots = [str(root) for folder in folders if (root := trusted_root(Path(folder) / marker)) is not None]
    return os.pathsep.join(dict.fromkeys([*filter(None, [os.environ.get(ROOTS)]), *roots]))


def untrusted(home: Path, root: Path) -> ShiftBenchError:
    """The error for a collection from elsewhere that names a folder of this machine."""
    return ShiftBenchError(f"{home}: says that its files are below {root}, but it was not made here. If files may be "
                           f"taken from there: shiftbench trust {home}; if they are elsewhere: shiftbench trust {home} "
                           "--root FOLDER.")


@cache
def _of_this_process() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="shiftbench-images-")


def folder_for(images: Path | str | None) -> Path:
    """The folder to write images to: the given one, or one of this process."""
    return Path(_of_this_process().name if images is None else images).resolve()


def is_kept(root: Path | None, home: Path | None) -> bool:
    """Whether a collection keeps its images itself: below its folder `home`, or in the folder of this process."""
    if root is None:
        return False
    if home is not None and root.is_relative_to(home):
        return True
    return bool(_of_this_process.cache_info().currsize) and root == folder_for(None)


def write_image(folder: Path, content: bytes, where: str) -> str:
    """Write the bytes of an image file, and return its name below `folder`; an error names `where`."""
    digest = hashlib.sha256(content).hexdigest()
    name = f"{digest[:2]}/{digest[2:40]}{_ending(content, where)}"
    path = folder / name
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_name(f".{uuid.uuid4().hex}")
            temporary.write_bytes(content)
            temporary.replace(path)
    except OSError as problem:
        raise ShiftBenchError(f"{path}: cannot be written ({problem.strerror}). Name a folder with room for the images "
                              "with `images`.") from problem
    return name


def _ending(content: bytes, where: str) -> str:
    """The ending of an image's file, from the header of the image."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(content)) as picture:
            return ENDINGS.get(str(picture.format), f".{str(picture.format).lower()}")
    except (OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError) as problem:
        reason = first_line(problem) if "BytesIO" not in str(problem) else "its bytes are no image that pillow knows"
        raise ShiftBenchError(f"{where}: the image cannot be read ({reason}). Replace it or drop the row.") from problem


def png(picture: object) -> bytes:
    """A picture (of pillow, or uint8 height × width × 3) as the bytes of a PNG file."""
    from PIL import Image

    stream = io.BytesIO()
    (picture if isinstance(picture, Image.Image) else Image.fromarray(picture)).save(stream, "PNG")  # type: ignore[arg-type]
    return stream.getvalue()


def link_images(root: Path, names: Iterable[str], folder: Path) -> None:
    """Put files into another folder: as hard links, or as copies on another disk."""
    for name in set(names):
        source, target = inside(root, name), folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with suppress(OSError):
            os.link(source, target)
        if not target.exists() and source.exists():
            shutil.copyfile(source, target)
