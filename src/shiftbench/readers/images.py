"""What the readers of image annotations share: which files they were given, the order of ids, where the images lie."""

import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from shiftbench.core.arrays import Strs
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import inside
from shiftbench.data.collection import Collection


def given(sources: Sequence[Path | str], format: str) -> list[Path]:
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


def in_order(ids: Iterable[str]) -> list[str]:
    """Ids without doubles: whole numbers by value, then words by code point.

    >>> in_order(["10", "n1", "9", "10"])
    ['9', '10', 'n1']
    """
    return sorted(set(ids), key=lambda name: (0, int(name), name) if _is_number(name) else (1, 0, name))


def folder(images: Path | str | None) -> Path | None:
    """The folder of the images, which must be there; None when none is given."""
    if images is None:
        return None
    if not Path(images).is_dir():
        raise ShiftBenchError(f"{images}: no such folder. `images` is the folder that holds the image files.")
    return Path(images).resolve()


def below(root: Path, names: Sequence[str]) -> Strs:
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


# ImageNet as it is unpacked: a folder per split, in it a folder per class, in it the images.

ENDINGS = (".jpeg", ".jpg", ".png", ".bmp", ".webp", ".tif", ".tiff")


def imagenet(path: Path | str, *, name: str = "imagenet") -> Collection:
    """Read `train/n02088466/*.JPEG`, `val/n02088466/*.JPEG`: an item is a path below the folder.

    Folders of classes and images may be links, as subsets of ImageNet are often made of.

    Factors: `wnid`, the folder of the class, and `split`, the folder above it, by the names they have.
    """
    root = Path(path)
    if not root.is_dir():
        raise ShiftBenchError(f"{root}: no such folder. Name the folder that holds train/ and val/.")
    splits = _folders(root)
    if "train" not in splits:
        raise ShiftBenchError(f"{root}: has no folder train/. ImageNet is a folder with train/ and val/, each with a "
                              "folder per class.")
    items: list[str] = []
    files: list[str] = []
    wnid: list[str] = []
    split: list[str] = []
    for part in splits:
        classes = _folders(root / part)
        if not classes:
            raise ShiftBenchError(f"{root / part}: has no folders of classes. Sort its images into one folder per "
                                  "class, as train/ is; ImageNet's validation images come unsorted.")
        for cls in classes:
            found = _images(root / part / cls)
            items += [f"{part}/{cls}/{name}" for name in found]
            files += found.values()
            wnid += [cls] * len(found)
            split += [part] * len(found)
    if not items:
        raise ShiftBenchError(f"{root}: holds no images. Their names end in {', '.join(ENDINGS)}.")
    common = os.path.commonpath([str(root.resolve()), *{os.path.dirname(file) for file in files}])
    if common == os.sep:
        raise ShiftBenchError(f"{root}: links in it lead to folders that have no other folder in common than {os.sep}. "
                              "Copy the images, or link them from one folder.")
    below = np.asarray([file[len(common) + 1:] for file in files], np.str_)
    return Collection(name, np.asarray(items, np.str_), {"wnid": np.asarray(wnid, np.str_),
                                                         "split": np.asarray(split, np.str_)},
                      pixels=below, root=Path(common))


def _folders(path: Path) -> list[str]:
    """The names of folders, and of links to folders."""
    with _listed(path) as entries:
        return sorted(_utf8(entry) for entry in entries if not entry.name.startswith(".") and entry.is_dir())


def _images(path: Path) -> dict[str, str]:
    """Name -> file of the images of a class, sorted; a link is followed to where the image lies."""
    folder = os.path.realpath(path)
    found = {}
    with _listed(path) as entries:
        for entry in entries:
            if entry.name.startswith(".") or not entry.name.lower().endswith(ENDINGS):
                continue
            there = entry.is_file()
            if not there and os.path.exists(entry.path):
                raise ShiftBenchError(f"{entry.path}: is named as an image, but is no file. Remove it.")
            linked = there and entry.is_symlink()  # a link to nothing is a missing file, as others are
            found[_utf8(entry)] = os.path.realpath(entry.path) if linked else f"{folder}/{entry.name}"
    return dict(sorted(found.items()))


@contextmanager
def _listed(path: Path) -> Iterator[Iterator[os.DirEntry[str]]]:
    try:
        with os.scandir(path) as entries:
            yield entries
    except OSError as problem:  # no right to look, or links that lead round in a circle
        raise ShiftBenchError(f"{problem.filename or path}: cannot be read ({problem.strerror}).") from problem


def _utf8(entry: os.DirEntry[str]) -> str:
    try:
        entry.name.encode()
    except UnicodeEncodeError as problem:
        raise ShiftBenchError(f"{os.fsencode(entry.path)!r}: its name is not UTF-8. Rename it.") from problem
    return entry.name
