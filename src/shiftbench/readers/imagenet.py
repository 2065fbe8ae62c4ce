"""ImageNet as it is unpacked: a folder per split, in it a folder per class, in it the images."""

import os
from pathlib import Path

import numpy as np

from shiftbench.collection import Collection
from shiftbench.errors import ShiftBenchError

ENDINGS = (".jpeg", ".jpg", ".png", ".bmp", ".webp", ".tif", ".tiff")


def imagenet(path: Path | str, *, name: str = "imagenet") -> Collection:
    """Read `train/n02088466/*.JPEG`, `val/n02088466/*.JPEG`: an item is a path below the folder.

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
    wnid: list[str] = []
    split: list[str] = []
    for part in splits:
        classes = _folders(root / part)
        if not classes:
            raise ShiftBenchError(f"{root / part}: has no folders of classes. Sort its images into one folder per "
                                  "class, as train/ is; ImageNet's validation images come unsorted.")
        for cls in classes:
            found = _images(root / part / cls)
            items += [f"{part}/{cls}/{file}" for file in found]
            wnid += [cls] * len(found)
            split += [part] * len(found)
    if not items:
        raise ShiftBenchError(f"{root}: holds no images. Their names end in {', '.join(ENDINGS)}.")
    paths = np.asarray(items, np.str_)
    return Collection(name, paths, {"wnid": np.asarray(wnid, np.str_), "split": np.asarray(split, np.str_)},
                      pixels=paths, root=root.resolve())


def _folders(path: Path) -> list[str]:
    with os.scandir(path) as entries:
        return sorted(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith("."))


def _images(path: Path) -> list[str]:
    with os.scandir(path) as entries:
        return sorted(entry.name for entry in entries
                      if entry.name.lower().endswith(ENDINGS) and not entry.name.startswith("."))
