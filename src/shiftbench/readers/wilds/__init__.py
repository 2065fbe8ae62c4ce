"""The ten data sets of WILDS (Koh et al., 2021), and the CelebA of its package, in the folders that WILDS lays out.

Nothing is downloaded.
"""

import os
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np

from shiftbench.core.arrays import Strs, Values
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.tables import read_table
from shiftbench.data.collection import Collection, Texts
from shiftbench.readers.annotation_files import Name
from shiftbench.readers.wilds.comments import amazon, civilcomments, py150, unlabelled_amazon, unlabelled_civilcomments
from shiftbench.readers.wilds.metadata import (
    find,
    released,
    unlabelled_camelyon17,
    unlabelled_iwildcam,
    wilds_camelyon17,
    wilds_iwildcam,
)
from shiftbench.readers.wilds.molecules import molpcba
from shiftbench.readers.wilds.photos import celeba, fmow, poverty, rxrx1, unlabelled_fmow, unlabelled_poverty
from shiftbench.readers.wilds.wheat import globalwheat

Reader = Callable[[Path, bool], Collection]


class Published(NamedTuple):
    """A data set: its reader, the folders it is unpacked into (newest first), and the paper's counts.

    `examples` and `domains` are from the paper's first table. A domain column is named only where the table counts that
    column's values over all splits (of Amazon's users, it leaves out those of val).
    """

    read: Reader
    folders: tuple[str, ...]
    examples: int
    domain: str = ""
    domains: int = 0
    unlabelled: Reader | None = None  # of WILDS 2's items without labels
    beside: str = ""  # the folder of these, where they have one of their own


DATASETS = {
    "iwildcam": Published(wilds_iwildcam, ("iwildcam_v2.0",), 203_029, "location", 323, unlabelled_iwildcam,
                          "iwildcam_unlabeled_v1.0"),
    "camelyon17": Published(wilds_camelyon17, ("camelyon17_v1.0",), 455_954, "hospital", 5, unlabelled_camelyon17,
                            "camelyon17_unlabeled_v1.0"),
    "rxrx1": Published(rxrx1, ("rxrx1_v1.0",), 125_510, "experiment", 51),
    "molpcba": Published(molpcba, ("ogbg_molpcba",), 437_929, "scaffold", 120_084),
    "globalwheat": Published(globalwheat, ("globalwheat_v1.1", "globalwheat_v1.0"), 6_515, "session", 47),
    "civilcomments": Published(civilcomments, ("civilcomments_v1.0",), 448_000, unlabelled=unlabelled_civilcomments,
                               beside="civilcomments_unlabeled_v1.0"),
    "fmow": Published(fmow, ("fmow_v1.1",), 523_846, unlabelled=unlabelled_fmow),
    "poverty": Published(poverty, ("poverty_v1.1",), 19_669, "country", 23, unlabelled_poverty,
                         "poverty_unlabeled_v1.0"),
    "amazon": Published(amazon, ("amazon_v2.1", "amazon_v2.0"), 539_502, unlabelled=unlabelled_amazon),
    "py150": Published(py150, ("py150_v1.0",), 150_000),
    "celeba": Published(celeba, ("celebA_v1.0",), 202_599),
}
OFFICIAL = "official"
OTHER_NAMES = {"ogbg-molpcba": "molpcba", "ogb-molpcba": "molpcba", "povertymap": "poverty"}


def wilds(
    dataset: Annotated[str, "iwildcam, camelyon17, rxrx1, molpcba, globalwheat, civilcomments, fmow, poverty, amazon, "
                       "py150 or celebA."],
    *,
    root: Annotated[Path | str, "Folder that holds iwildcam_v2.0/ and the like, as WILDS unpacks them."],
    version: Annotated[str | None, "Version to read; default: the newest in the folder."] = None,
    images: Annotated[bool, "Without images, only the tables must be there."] = True,
    scheme: Annotated[str, "Another split file of amazon: time, category_subpopulation, books_generalization, …."
                      ] = OFFICIAL,
    unlabelled: Annotated[bool, "Add WILDS 2's items without labels (iwildcam, camelyon17, civilcomments, poverty, "
                          "fmow, amazon)."] = False,
    name: Name | None = None,
) -> Collection:
    """One of the ten data sets of WILDS, or its CelebA, from the folder where WILDS or `shiftbench download` put it.

    Every collection has `split` in our words and the columns that WILDS calls metadata; `label` is the label in words,
    `y` as WILDS numbers it. Counts that differ from the published ones are a warning: a sample may be read. A missing
    file or column is an error. Items without labels follow the labelled ones.

    shiftbench read wilds iwildcam --root data --out collections/iwildcam

    shiftbench read wilds camelyon17 --unlabelled --root data --out collections/camelyon17-unlabelled
    """
    key = OTHER_NAMES.get(dataset.lower(), dataset.lower())
    if key not in DATASETS:
        raise unknown("data set", dataset, DATASETS, "WILDS")
    published = DATASETS[key]
    folder = find(root, published.folders, version)
    official = scheme == OFFICIAL or (key, scheme) == ("amazon", "user")
    if not official and key != "amazon":
        raise ShiftBenchError(f"scheme={scheme}: only amazon has other split files. Other settings of {key} are "
                              "factors of its collection: split_….")
    collection = published.read(folder, images) if official else amazon(folder, images, scheme)
    for note in differences(collection, key, folder, official):
        warnings.warn(f"{folder}: {note}.", stacklevel=2)
    if unlabelled:
        if not official:
            raise ShiftBenchError(f"scheme={scheme}: items without labels belong to the official split.")
        collection = _with_unlabelled(key, collection, folder, root, images)
    return collection if name is None else replace(collection, name=name)


def differences(collection: Collection, dataset: str, folder: Path, official: bool = True) -> list[str]:
    """What differs from the publication: the release file, and the official split's numbers of examples and domains."""
    published = DATASETS[dataset]
    notes = [note for note in (released(folder),) if note]
    if not official:
        return notes
    # FMoW's table counts the sequestered images, whose rows are in the file but are not items.
    items = (read_table(folder / "rgb_metadata.csv", ("split",), every=False).num_rows if dataset == "fmow" else
             len(collection))
    if items != published.examples:
        notes.append(f"{items:,} examples, where {published.examples:,} are published")
    if published.domain:
        count = len(np.unique(collection.factors[published.domain]))
        if count != published.domains:
            notes.append(f"{count:,} values of {published.domain}, where {published.domains:,} are published")
    return notes


# WILDS 2's items without labels (Sagawa et al., 2022), placed after the labelled items of the same data set.
#
# Their splits are those of the package: `train_unlabeled`, `val_unlabeled`, `test_unlabeled`, `extra_unlabeled`. Their
# label is empty (NaN among numbers) even where a file has one; `y` is -1. A factor that they lack is empty, -1
# or NaN, and `unused` where it is another setting's split. An id is `unlabelled/` and the id in the source.

PREFIX = "unlabelled/"


def _with_unlabelled(dataset: str, labelled: Collection, folder: Path, root: Path | str, images: bool) -> Collection:
    """A collection, followed by its data set's items without labels; `folder` is that of the labelled ones."""
    published = DATASETS[dataset]
    if published.unlabelled is None:
        known = ", ".join(name for name, other in DATASETS.items() if other.unlabelled is not None)
        raise ShiftBenchError(f"{dataset}: its items without labels cannot be read, only those of {known}.")
    if published.beside:
        folder = find(root, (published.beside,), None)
    unlabelled = published.unlabelled(folder, images)
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
