"""Images in folders that say what they show: ImageFolder's one folder per class, ImageNet's split and class, or any
depth of folders, each level of which is a factor."""

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np

from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.registry import listed
from shiftbench.data.collection import Collection
from shiftbench.readers.annotation_files import Name

ENDINGS = (".jpeg", ".jpg", ".png", ".bmp", ".webp", ".tif", ".tiff")
DEEPEST = 16
"""Levels of nested folders: links could lead in a circle."""
SPLIT_FOLDERS = frozenset(("train", "training", "val", "valid", "validation", "dev", "test", "testing", "id_val",
                           "id_test"))
SKIPPED = "-"


def folder(
    source: Annotated[Path | str, "Folder that holds the folders of images."],
    *,
    levels: Annotated[str | Sequence[str], "What the levels of folders say, from the outside in, separated by commas; "
                      "'-' skips one. Default: label, or split,label."] = (),
    name: Name | None = None,
) -> Collection:
    """Images in folders per class, per split and class (ImageFolder), or any depth of folders, each level a factor.

    The levels domain,label read photo/dog/1.jpg as the factors domain = photo, label = dog. By default, one level is
    the label, and two are split and label where the outer folders are called train, val, test or the like; other depths
    must be named. An item is a path below the folder. Folders and images may be links. What is not an image at the
    depth of the levels is left out and counted in a warning.

    shiftbench read folder pacs --levels domain,label --out collections/pacs
    """
    root = Path(source)
    if not root.is_dir():
        raise ShiftBenchError(f"{root}: no such folder. Name the folder that holds the folders of images.")
    names = listed(levels, ",") or _default_levels(root)
    factors = [level for level in names if level != SKIPPED]
    if len(set(factors)) < len(factors) or len(names) > DEEPEST:
        raise ShiftBenchError(f"Levels {', '.join(names)} cannot be read: each has a name of its own, or is "
                              f"'{SKIPPED}' to be skipped, and there are at most {DEEPEST}.")
    contents = _Contents([], [], [], [])
    _collect(root, (), len(names), contents)
    if not contents.items:
        raise ShiftBenchError(f"{root}: holds no images {_deep(len(names))} ({'/'.join(names)}/IMAGE). Their names end "
                              f"in {', '.join(ENDINGS)}; --levels names the levels of folders.")
    if contents.others:
        warnings.warn(f"{len(contents.others):,} files and folders below {root} are not images "
                      f"{_deep(len(names))} ({'/'.join(names)}/IMAGE) and are left out; the first is "
                      f"{min(contents.others)}.", stacklevel=2)
    columns = {level: np.asarray(values, np.str_)
               for level, values in zip(names, zip(*contents.folders, strict=True), strict=True) if level != SKIPPED}
    common = _common_folder(root, contents.files)
    paths = np.asarray([file[len(common) + 1:] for file in contents.files], np.str_)
    items = np.asarray(contents.items, np.str_)
    return Collection(name or root.resolve().name or "folder", items, columns, pixels=paths, root=Path(common))


def imagenet(
    source: Annotated[Path | str, "Folder with train/ and val/, each with a folder per class."],
    *,
    name: Name = "imagenet",
) -> Collection:
    """ImageNet as it is unpacked: a folder per split and class (wnid). The images stay where they are.

    Factors: `wnid`, the folder of the class, and `split`, the folder above it, by the names they have. An item is a
    path below the folder.

    shiftbench read imagenet /data/imagenet --out collections/imagenet
    """
    root = Path(source)
    if not root.is_dir():
        raise ShiftBenchError(f"{root}: no such folder. Name the folder that holds train/ and val/.")
    splits = _inner_folders(root)
    if "train" not in splits:
        raise ShiftBenchError(f"{root}: has no folder train/. ImageNet is a folder with train/ and val/, each with a "
                              "folder per class.")
    for split in splits:
        if not _inner_folders(root / split):
            raise ShiftBenchError(f"{root / split}: has no folders of classes. Sort its images into one folder per "
                                  "class, as train/ is; ImageNet's validation images come unsorted.")
    return folder(root, levels=("split", "wnid"), name=name)


class _Contents(NamedTuple):
    """The images (their ids, their folders from the outside in, their files) and everything else."""

    items: list[str]
    folders: list[tuple[str, ...]]
    files: list[str]
    others: list[str]


def _default_levels(root: Path) -> tuple[str, ...]:
    """The levels of a folder without --levels, where they are unambiguous."""
    depth = _depth(root)
    outer = _inner_folders(root)
    if depth == 1:
        return ("label",)
    if depth == 2 and SPLIT_FOLDERS.issuperset(name.lower() for name in outer):
        return ("split", "label")
    if not depth:
        raise ShiftBenchError(f"{root}: holds no folders of images. Their names end in {', '.join(ENDINGS)}; images "
                              "that lie in one folder need a table (shiftbench read table --image).")
    raise ShiftBenchError(f"{root}: its images lie {_deep(depth)}, and it is not clear what the folders mean ("
                          f"{', '.join(outer[:3])}{', …' if len(outer) > 3 else ''}). Name the levels, from the "
                          f"outside in: --levels {','.join(('domain', 'label', 'group')[:depth])}.")


def _depth(path: Path, above: int = 0) -> int:
    """How many folders deep the first image lies; 0 where there is none in a folder."""
    if above and _entries(path)[0]:
        return above
    if above < DEEPEST:
        for name in _inner_folders(path):
            if deep := _depth(path / name, above + 1):
                return deep
    return 0


def _deep(levels: int) -> str:
    return "1 folder deep" if levels == 1 else f"{levels} folders deep"


def _collect(path: Path, folders: tuple[str, ...], below: int, contents: _Contents) -> None:
    """Add the images of a folder, `below` levels of folders deeper, in the order of their names."""
    images, inner, others = _entries(path)
    prefix = "/".join((*folders, ""))
    contents.others.extend(prefix + name for name in (*others, *(images if below else inner)))
    if below:
        for name in inner:
            _collect(path / name, (*folders, name), below - 1, contents)
    else:
        contents.items.extend(prefix + name for name in images)
        contents.folders.extend([folders] * len(images))
        contents.files.extend(images.values())


def _inner_folders(path: Path) -> list[str]:
    return _entries(path)[1]


def _entries(path: Path) -> tuple[dict[str, str], list[str], list[str]]:
    """What a folder holds, sorted: images (name -> file, a link followed to it), folders and links to them, others."""
    real_path = os.path.realpath(path)
    images, folders, others = {}, [], []
    with _scan(path) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            name = _utf8(entry)
            if entry.is_dir():
                folders.append(name)
            elif not name.lower().endswith(ENDINGS):
                others.append(name)
            else:
                is_file = entry.is_file()
                if not is_file and os.path.exists(entry.path):
                    raise ShiftBenchError(f"{entry.path}: has the name of an image but is not a file. Remove it.")
                linked = is_file and entry.is_symlink()  # a link to nothing is a missing file, as others are
                images[name] = os.path.realpath(entry.path) if linked else f"{real_path}/{name}"
    return dict(sorted(images.items())), sorted(folders), sorted(others)


def _common_folder(root: Path, files: Sequence[str]) -> str:
    """The folder that holds all files, wherever links lead."""
    common = os.path.commonpath([str(root.resolve()), *{os.path.dirname(file) for file in files}])
    if common == os.sep:
        raise ShiftBenchError(f"{root}: its links lead to folders whose only common folder is {os.sep}. "
                              "Copy the images, or link them from one folder.")
    return common


@contextmanager
def _scan(path: Path) -> Iterator[Iterator[os.DirEntry[str]]]:
    try:
        with os.scandir(path) as entries:
            yield entries
    except OSError as problem:  # no permission, or links that lead in a circle
        raise ShiftBenchError(f"{problem.filename or path}: cannot be read ({problem.strerror}).") from problem


def _utf8(entry: os.DirEntry[str]) -> str:
    try:
        entry.name.encode()
    except UnicodeEncodeError as problem:
        raise ShiftBenchError(f"{os.fsencode(entry.path)!r}: its name is not UTF-8. Rename it.") from problem
    return entry.name
