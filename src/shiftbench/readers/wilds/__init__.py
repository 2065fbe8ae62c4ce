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
    """A data set: who reads it, the folders it is unpacked into (newest first), and what the paper counts in it.

    `examples` and `domains` are of the paper's first table. A domain column is named only where the table counts that
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
    `y` as WILDS numbers it. Counts that are not the published ones are a warning: a sample is legal. A file or a column
    that is missing is an error. Items without labels come behind the labelled ones.

    shiftbench read wilds iwildcam --root data --out collections/iwildcam

    shiftbench read wilds camelyon17 --unlabelled --root data --out collections/camelyon17-unlabelled
    """
    known = OTHER_NAMES.get(dataset.lower(), dataset.lower())
    if known not in DATASETS:
        raise unknown("data set", dataset, DATASETS, "WILDS")
    facts = DATASETS[known]
    folder = find(root, facts.folders, version)
    official = scheme == OFFICIAL or (known, scheme) == ("amazon", "user")
    if not official and known != "amazon":
        raise ShiftBenchError(f"scheme={scheme}: only amazon has other split files. Other settings of {known} are "
                              "factors of its collection: split_….")
    collection = facts.read(folder, images) if official else amazon(folder, images, scheme)
    for note in differences(collection, known, folder, official):
        warnings.warn(f"{folder}: {note}.", stacklevel=2)
    if unlabelled:
        if not official:
            raise ShiftBenchError(f"scheme={scheme}: items without labels belong to the official split.")
        collection = with_unlabelled(known, collection, folder, root, images)
    return collection if name is None else replace(collection, name=name)


def differences(collection: Collection, dataset: str, folder: Path, official: bool = True) -> list[str]:
    """What is not as published: the release file, the number of examples, the number of domains. The numbers are of the
    official split."""
    facts = DATASETS[dataset]
    notes = [note for note in (released(folder),) if note]
    if not official:
        return notes
    # FMoW's table counts the sequestered images, whose rows are in the file but which are no items.
    items = _lines(folder / "rgb_metadata.csv") if dataset == "fmow" else len(collection)
    if items != facts.examples:
        notes.append(f"{items:,} examples, where {facts.examples:,} are published")
    if facts.domain:
        count = len(np.unique(collection.factors[facts.domain]))
        if count != facts.domains:
            notes.append(f"{count:,} values of {facts.domain}, where {facts.domains:,} are published")
    return notes


def _lines(path: Path) -> int:
    """Rows of a CSV file without line breaks in its values."""
    from shiftbench.core.tables import read_table

    return int(read_table(path, ("split",), every=False).num_rows)
