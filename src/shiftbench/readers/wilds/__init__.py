"""The ten data sets of WILDS (Koh et al., 2021), and the CelebA of its package, in the folders that WILDS lays out.

Nothing is downloaded.
"""

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np

from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.data.collection import Collection
from shiftbench.readers.annotation_files import Name
from shiftbench.readers.wilds.comments import amazon, civilcomments, py150
from shiftbench.readers.wilds.metadata import find, released
from shiftbench.readers.wilds.molecules import molpcba
from shiftbench.readers.wilds.photos import camelyon17, celeba, fmow, iwildcam, rxrx1
from shiftbench.readers.wilds.poverty import poverty
from shiftbench.readers.wilds.wheat import globalwheat
from shiftbench.readers.wilds.without_labels import with_unlabelled


class Published(NamedTuple):
    """A data set: its reader, the folders it is unpacked into (newest first), and the paper's counts.

    `examples` and `domains` are from the paper's first table. A domain column is named only where the table counts that
    column's values over all splits (of Amazon's users, it leaves out those of val).
    """

    read: Callable[[Path, bool], Collection]
    folders: tuple[str, ...]
    examples: int
    domain: str = ""
    domains: int = 0


DATASETS = {
    "iwildcam": Published(iwildcam, ("iwildcam_v2.0",), 203_029, "location", 323),
    "camelyon17": Published(camelyon17, ("camelyon17_v1.0",), 455_954, "hospital", 5),
    "rxrx1": Published(rxrx1, ("rxrx1_v1.0",), 125_510, "experiment", 51),
    "molpcba": Published(molpcba, ("ogbg_molpcba",), 437_929, "scaffold", 120_084),
    "globalwheat": Published(globalwheat, ("globalwheat_v1.1", "globalwheat_v1.0"), 6_515, "session", 47),
    "civilcomments": Published(civilcomments, ("civilcomments_v1.0",), 448_000),
    "fmow": Published(fmow, ("fmow_v1.1",), 523_846),
    "poverty": Published(poverty, ("poverty_v1.1",), 19_669, "country", 23),
    "amazon": Published(amazon, ("amazon_v2.1", "amazon_v2.0"), 539_502),
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
        collection = with_unlabelled(key, collection, folder, root, images)
    return collection if name is None else replace(collection, name=name)


def differences(collection: Collection, dataset: str, folder: Path, official: bool = True) -> list[str]:
    """What differs from the publication: the release file, and the official split's numbers of examples and domains."""
    published = DATASETS[dataset]
    notes = [note for note in (released(folder),) if note]
    if not official:
        return notes
    # FMoW's table counts the sequestered images, whose rows are in the file but are not items.
    items = _count_rows(folder / "rgb_metadata.csv") if dataset == "fmow" else len(collection)
    if items != published.examples:
        notes.append(f"{items:,} examples, where {published.examples:,} are published")
    if published.domain:
        count = len(np.unique(collection.factors[published.domain]))
        if count != published.domains:
            notes.append(f"{count:,} values of {published.domain}, where {published.domains:,} are published")
    return notes


def _count_rows(path: Path) -> int:
    """The number of rows of a CSV file with a column `split`."""
    from shiftbench.core.tables import read_table

    return int(read_table(path, ("split",), every=False).num_rows)
