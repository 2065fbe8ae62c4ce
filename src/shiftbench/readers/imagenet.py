"""ImageNet as it is unpacked: a folder per split, in it a folder per class, in it the images."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.collection import Collection

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
            images = _images(root / part / cls)
            items += [f"{part}/{cls}/{name}" for name in images]
            files += images.values()
            wnid += [cls] * len(images)
            split += [part] * len(images)
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
    files = {}
    with _listed(path) as entries:
        for entry in entries:
            if entry.name.startswith(".") or not entry.name.lower().endswith(ENDINGS):
                continue
            there = entry.is_file()
            if not there and os.path.exists(entry.path):
                raise ShiftBenchError(f"{entry.path}: is named as an image, but is no file. Remove it.")
            linked = there and entry.is_symlink()  # a link to nothing is a missing file, as others are
            files[_utf8(entry)] = os.path.realpath(entry.path) if linked else f"{folder}/{entry.name}"
    return dict(sorted(files.items()))


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
