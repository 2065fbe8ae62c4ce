"""WILDS 2's items without labels (Sagawa et al., 2022), placed after the labelled items of the same data set.

Their splits are those of the package: `train_unlabeled`, `val_unlabeled`, `test_unlabeled`, `extra_unlabeled`. Their
label is empty (NaN among numbers) even where a file has one; `y` is -1. A factor that they lack is empty, -1
or NaN, and `unused` where it is another setting's split. An id is `unlabelled/` and the id in the source.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from shiftbench.core.arrays import Ints, Strs, Values
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.tables import filled, long_texts, read_table, strings, whole
from shiftbench.data.collection import Collection, Texts
from shiftbench.readers.wilds.comments import amazon as amazon_reviews
from shiftbench.readers.wilds.metadata import TEST, VAL, find, needed, pictures
from shiftbench.readers.wilds.photos import fmow_rows
from shiftbench.readers.wilds.poverty import HELD_OUT, next_fold

PREFIX = "unlabelled/"
CAMELYON = ("patient", "node", "x_coord", "y_coord", "slide", "center")
IWILDCAM = ("uid", "location_remapped", "sequence_remapped")
CLOCK = {"year": slice(0, 4), "month": slice(5, 7), "day": slice(8, 10), "hour": slice(11, 13), "minute": slice(14, 16),
         "second": slice(17, 19)}
"""Positions of the digits in 2013-06-05 05:44:19."""


def camelyon17(folder: Path, images: bool) -> Collection:
    """metadata.csv as the labelled one has it, without tumours; hospital 1 is val, hospital 2 test, others train."""
    (path,) = needed(folder, "metadata.csv")
    table = read_table(path, CAMELYON, text=("patient",), every=False)
    filled(path, table, CAMELYON)
    patient = strings(path, table, "patient")
    node, x, y, slide, center = (whole(path, table, column) for column in CAMELYON[1:])
    folders = [f"patient_{p}_node_{n}" for p, n in zip(patient.tolist(), node.tolist(), strict=True)]
    patches = [f"patch_{parent}_x_{left}_y_{top}"
               for parent, left, top in zip(folders, x.tolist(), y.tolist(), strict=True)]
    pixels, root = pictures(folder, [f"patches/{parent}/{patch}.png" for parent, patch in zip(
        folders, patches, strict=True)], images)
    split = np.where(center == TEST, "test_unlabeled", np.where(center == VAL, "val_unlabeled", "train_unlabeled"))
    return Collection("camelyon17", np.asarray(patches, np.str_), {
        "hospital": center, "slide": slide, "patient": patient, "node": node, "split": split}, pixels=pixels, root=root)


def iwildcam(folder: Path, images: bool) -> Collection:
    """metadata.csv names images/UID.jpg, all of them `extra_unlabeled`; a time may be missing."""
    (path,) = needed(folder, "metadata.csv")
    table = read_table(path, (*IWILDCAM, "datetime"), text=("uid", "datetime"), every=False)
    filled(path, table, IWILDCAM, blank=True)
    uid, times = strings(path, table, "uid"), strings(path, table, "datetime", gap="")
    pixels, root = pictures(folder, [f"images/{name}.jpg" for name in uid.tolist()], images)
    return Collection("iwildcam", uid, {
        "location": whole(path, table, "location_remapped"), "sequence": whole(path, table, "sequence_remapped"),
        **{unit: _digits(path, times, position) for unit, position in CLOCK.items()},
        "split": np.full(len(uid), "extra_unlabeled")}, pixels=pixels, root=root)


def civilcomments(folder: Path, images: bool) -> Collection:
    """unlabeled_data_with_identities.csv, all of it `extra_unlabeled`; their identities are not annotated."""
    (path,) = needed(folder, "unlabeled_data_with_identities.csv")
    table = read_table(path, ("comment_text",), text=("comment_text",), every=False)
    comments = long_texts(path, table, "comment_text", gap="")
    rows = np.flatnonzero(comments != "")
    return Collection("civilcomments", np.arange(len(comments)).astype(np.str_), {
        "split": np.full(len(comments), "extra_unlabeled")}, texts=Texts(rows, comments[rows]))


def poverty(folder: Path, images: bool) -> Collection:
    """unlabeled_metadata.csv has the country of images/landsat_poverty_img_ROW.npz; its fold decides as of the labelled
    ones: the fold's own countries are test, the next fold's val, others train."""
    (path,) = needed(folder, "unlabeled_metadata.csv")
    table = read_table(path, ("country",), text=("country",), every=False)
    filled(path, table, ("country",), blank=True)
    country = strings(path, table, "country")
    countries = tuple(name for group in HELD_OUT.values() for name in group)
    for row in np.flatnonzero(~np.isin(country, countries))[:1]:
        raise unknown("country", str(country[row]), countries, f"{path}: row {row}")
    folds: dict[str, Values] = {f"split_{fold}": _fold(country, fold) for fold in HELD_OUT}
    pixels, root = pictures(folder, [f"images/landsat_poverty_img_{row}.npz" for row in range(len(country))], images)
    return Collection("poverty", np.arange(len(country)).astype(np.str_), {
        "country": country, "split": folds["split_A"], **folds}, pixels=pixels, root=root)


def fmow(folder: Path, images: bool) -> Collection:
    """Rows of the labelled data set's own table, by their year t and the file's own split.

    Sequestered ones (seq) of t < 2013 are train; those that are neither test nor val are val from 2013 and test from
    2016 on.
    """
    rows = fmow_rows(folder)
    unassigned = ~np.isin(rows.file_split, ("test", "val"))
    split = np.select([unassigned & rows.late, unassigned & rows.between, (rows.file_split == "seq") & rows.before],
                      ["test_unlabeled", "val_unlabeled", "train_unlabeled"], "")
    kept = np.flatnonzero(split != "")
    pixels, root = pictures(folder, [f"images/rgb_img_{row}.png" for row in kept.tolist()], images)
    return Collection("fmow", kept.astype(np.str_), {
        "region": rows.region[kept], "year": rows.year[kept], "country": rows.country[kept], "split": split[kept]},
        pixels=pixels, root=root)


def amazon(folder: Path, images: bool) -> Collection:
    """Rows of the labelled data set that splits/user.csv numbers 11 (val), 12 (test) and 13 (extra)."""
    return amazon_reviews(folder, images, unlabelled=True)


class Unlabelled(NamedTuple):
    """The reader of the items without labels, and the folders that hold them; none if the labelled folder does."""

    read: Callable[[Path, bool], Collection]
    folders: tuple[str, ...] = ()


SETS = {
    "camelyon17": Unlabelled(camelyon17, ("camelyon17_unlabeled_v1.0",)),
    "iwildcam": Unlabelled(iwildcam, ("iwildcam_unlabeled_v1.0",)),
    "civilcomments": Unlabelled(civilcomments, ("civilcomments_unlabeled_v1.0",)),
    "poverty": Unlabelled(poverty, ("poverty_unlabeled_v1.0",)),
    "fmow": Unlabelled(fmow),
    "amazon": Unlabelled(amazon),
}


def with_unlabelled(dataset: str, labelled: Collection, folder: Path, root: Path | str, images: bool) -> Collection:
    """A collection, followed by its data set's items without labels; `folder` is that of the labelled ones."""
    if dataset not in SETS:
        raise ShiftBenchError(f"{dataset}: its items without labels cannot be read, only those of {', '.join(SETS)}.")
    source = SETS[dataset]
    unlabelled = source.read(find(root, source.folders, None) if source.folders else folder, images)
    n = len(unlabelled)
    factors = {name: np.concatenate([_with_gaps(name, values), _gaps(name, values, n) if name in ("label", "y")
                                     else unlabelled.factors.get(name, _gaps(name, values, n))])
               for name, values in labelled.factors.items()}
    pixels, common = _files(labelled, unlabelled)
    return replace(
        labelled, items=np.concatenate([labelled.items, np.char.add(PREFIX, unlabelled.items)]), factors=factors,
        texts=Texts(np.concatenate([labelled.texts.item, unlabelled.texts.item + len(labelled)]),
                    np.concatenate([labelled.texts.text, unlabelled.texts.text])),
        pixels=pixels, root=common)


def _files(labelled: Collection, unlabelled: Collection) -> tuple[Strs | None, Path | None]:
    """The image files of both, below the folder that holds the two."""
    if labelled.pixels is None or unlabelled.pixels is None or labelled.root is None or unlabelled.root is None:
        return None, None
    common = Path(os.path.commonpath([labelled.root, unlabelled.root]))
    paths = [np.asarray(collection.pixels) if collection.root == common else np.char.add(
        f"{collection.root.relative_to(common).as_posix()}/", np.asarray(collection.pixels, np.str_))
        for collection in (labelled, unlabelled) if collection.root is not None]
    return np.concatenate(paths), common


def _with_gaps(name: str, values: Values) -> Values:
    """A factor in a type that has a gap: a label that is a whole number becomes a word."""
    return values.astype(np.str_) if name == "label" and values.dtype.kind in "iu" else values


def _gaps(name: str, values: Values, n: int) -> Values:
    """The values of a factor that is not known."""
    kind = _with_gaps(name, values).dtype.kind
    return np.full(n, np.nan if kind == "f" else -1 if kind in "iu" else "unused" if name.startswith("split_") else "")


def _fold(country: Strs, fold: str) -> Strs:
    return np.where(np.isin(country, HELD_OUT[fold]), "test_unlabeled", np.where(
        np.isin(country, HELD_OUT[next_fold(fold)]), "val_unlabeled", "train_unlabeled"))


def _digits(path: Path, times: Strs, position: slice) -> Ints:
    """Digits of each time, -1 where there is none."""
    digits = [text[position] if text else "-1" for text in times.tolist()]
    for row, text in enumerate(digits):
        if text != "-1" and not (text.isascii() and text.isdigit()):
            raise ShiftBenchError(f"{path}: row {row} has '{times[row]}' in column 'datetime', which is not a time "
                                  "like 2013-06-05 05:44:19.000.")
    return np.asarray(digits, np.int64)
