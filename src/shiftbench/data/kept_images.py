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
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from shiftbench.core.errors import ShiftBenchError, first_line
from shiftbench.core.files import inside

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
