"""What the readers of image annotations share: the annotation files, the order of ids, the folder of the images."""

import os
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from shiftbench.core.arrays import Strs
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import inside
from shiftbench.data.collection import Collection


def source_files(sources: Sequence[Path | str], format: str) -> list[Path]:
    """The files to read: one at least, none twice, for its areas would count twice."""
    if not sources:
        raise ShiftBenchError(f"Reading {format} needs one file at least. Give the annotation files.")
    paths = [Path(source) for source in sources]
    seen: set[str] = set()
    for path in paths:
        if os.path.realpath(path) in seen:
            raise ShiftBenchError(f"{path} is given twice. Give each file once.")
        seen.add(os.path.realpath(path))
    return paths


def sorted_ids(ids: Iterable[str]) -> list[str]:
    """Ids without doubles: whole numbers by value, then words by code point.

    >>> sorted_ids(["10", "n1", "9", "10"])
    ['9', '10', 'n1']
    """
    return sorted(set(ids), key=lambda name: (0, int(name), name) if _is_number(name) else (1, 0, name))


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


def with_files(collection: Collection, drop_missing: bool = False) -> Collection:
    """The collection, with a warning of image files that are not there, or without their items.

    Where not a single file is there, the folder is the wrong one.
    """
    missing = collection.without_file()
    if not len(missing) or collection.pixels is None:
        return collection
    count = f"{len(missing):,} of {len(collection):,} image files are not below {collection.root}"
    if len(missing) == len(collection):
        raise ShiftBenchError(f"{count}, the first is {collection.pixels[0]}. Name their folder with --images; "
                              "data sets of WILDS can be read with --no-images.")
    shown = ", ".join(collection.pixels[missing[:3]].tolist()) + (", …" if len(missing) > 3 else "")
    what = "Their items are dropped." if drop_missing else (
        "--drop-missing drops their items; shiftbench check lists them all.")
    warnings.warn(f"{count}: {shown}. {what}", stacklevel=3)
    if not drop_missing:
        return collection
    return collection.take(np.setdiff1d(np.arange(len(collection)), missing))


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdigit() and len(name) < 20
