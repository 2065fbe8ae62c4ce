"""Camelyon17 and iWildCam as WILDS (Koh et al., 2021) publishes them, each a metadata.csv with images in files.

Each is read in three forms: as a collection of factors, as WILDS uses it, and as WILDS 2's items without labels.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shiftbench.core.arrays import Ints, Strs, Values, positions, to_strings
from shiftbench.core.errors import ShiftBenchError, first_line, unknown
from shiftbench.core.tables import filled, read_table, strings, whole, within
from shiftbench.data.collection import Collection
from shiftbench.data.image_files import image_folder, paths_below

SPLITS = ("train", "val", "test", "id_val", "id_test")
TUMOR = ("normal", "tumor")
CAMELYON = ("patient", "node", "x_coord", "y_coord", "slide", "center")
LABELLED = ("tumor", "split")  # columns of Camelyon17 that its items without labels lack
IWILDCAM = ("filename", "split", "y", "location_remapped", "sequence_remapped", "datetime")
UNLABELLED = ("uid", "location_remapped", "sequence_remapped")
CLOCK = {"year": (0, 4), "month": (5,), "day": (8,), "hour": (11,), "minute": (14,), "second": (17,)}
"""Positions of the digits in 2013-06-05 05:44:19, and their number where it is not two."""
VAL, TEST = 1, 2  # the hospitals that WILDS keeps for validation and test
MIXED_SLIDE = 23  # Camelyon17, mixed-to-test: this slide of the test hospital is trained on


def camelyon17(path: Path, name: str, images: Path | str | None = None) -> Collection:
    """Read metadata.csv of Camelyon17: patches of tissue from five hospitals. `images` is the folder above patches/.

    Factors: `tumor` (normal or tumor), `hospital` (0 to 4), `slide`, `patient`, `node`, and `split` as WILDS uses it:
    the file knows train (0) and id_val (1), and all of hospital 1 is val, all of hospital 2 test. Ids are the names of
    the patches without .png.
    """
    table, collection = _patches(path, (*CAMELYON, *LABELLED), name, images)
    tumor, split = (whole(path, table, column) for column in LABELLED)
    for column, values in zip(LABELLED, (tumor, split), strict=True):
        within(path, column, values, 1)
    facts = collection.factors
    splits = _of_hospital(facts["hospital"], np.where(split == 1, "id_val", "train"), "val", "test")
    return replace(collection, factors={"tumor": np.asarray(TUMOR)[tumor], **facts, "split": splits})


def wilds_camelyon17(folder: Path, images: bool = True) -> Collection:
    """Patches of tissue: `label` is normal or tumor, the domain is `hospital` (0 to 4), scores are also per `slide`.

    `split_mixed_to_test` is WILDS' in-distribution setting: slide 23 of the test hospital is in train.
    """
    (path,) = needed(folder, "metadata.csv")
    collection = camelyon17(path, "camelyon17", folder if images else None)
    factors = dict(collection.factors)
    label = factors.pop("tumor")
    mixed = np.where(factors["slide"] == MIXED_SLIDE, "train", factors["split"])
    return replace(collection, factors={
        "label": label, "y": (label == "tumor").astype(np.int64), **factors, "split_mixed_to_test": mixed})


def unlabelled_camelyon17(folder: Path, images: bool) -> Collection:
    """metadata.csv as the labelled one has it, without tumours; hospital 1 is val, hospital 2 test, others train."""
    (path,) = needed(folder, "metadata.csv")
    _, collection = _patches(path, CAMELYON, "camelyon17", folder if images else None)
    split = _of_hospital(collection.factors["hospital"], "train_unlabeled", "val_unlabeled", "test_unlabeled")
    return replace(collection, factors={**collection.factors, "split": split})


def _patches(
    path: Path, columns: Sequence[str], name: str, images: Path | str | None
) -> tuple[pa.Table, Collection]:
    """The patches that metadata.csv names, and where they lie."""
    table = read_table(path, columns, text=("patient",), every=False)
    filled(path, table, columns)
    patient = strings(path, table, "patient")
    node, x, y, slide, center = (whole(path, table, column) for column in CAMELYON[1:])
    folders = [f"patient_{p}_node_{n}" for p, n in zip(patient.tolist(), node.tolist(), strict=True)]
    patches = [f"patch_{folder}_x_{left}_y_{top}"
               for folder, left, top in zip(folders, x.tolist(), y.tolist(), strict=True)]
    root = image_folder(images)
    return table, Collection(
        name, np.asarray(patches, np.str_), {"hospital": center, "slide": slide, "patient": patient, "node": node},
        pixels=None if root is None else paths_below(
            root, [f"patches/{folder}/{patch}.png" for folder, patch in zip(folders, patches, strict=True)]),
        root=root)


def _of_hospital(hospital: Values, others: Any, val: str, test: str) -> Strs:
    """The split of each patch: two hospitals are kept for validation and test."""
    return np.where(hospital == TEST, test, np.where(hospital == VAL, val, others))


def iwildcam(sources: Sequence[Path], name: str, images: Path | str | None = None) -> Collection:
    """Read metadata.csv of iWildCam, and categories.csv after it if the animals are to have names.

    Factors: `animal` (the number y, or its name), `location` (the camera trap), `sequence` (pictures of one burst),
    `datetime`, `year`, `month`, `hour`, and `split` (train, val, test, id_val, id_test). Ids are the file names;
    `images` is the folder that holds the files themselves, train/ as published.
    """
    path = sources[0]
    table = read_table(path, IWILDCAM, text=("filename", "datetime"))
    filled(path, table, IWILDCAM)
    files, split = strings(path, table, "filename"), strings(path, table, "split")
    for row in np.flatnonzero(~np.isin(split, SPLITS))[:1]:
        raise ShiftBenchError(f"{path}: row {row} has the split '{split[row]}'. Allowed: {', '.join(SPLITS)}.")
    y, location, sequence = (whole(path, table, column) for column in ("y", "location_remapped", "sequence_remapped"))
    root = image_folder(images)
    return Collection(
        name=name,
        items=files,
        factors={"animal": y if len(sources) < 2 else animals(sources[1], path, y), "location": location,
                 "sequence": sequence, **_times(path, table), "split": split},
        pixels=None if root is None else paths_below(root, files.tolist()),
        root=root,
    )


def wilds_iwildcam(folder: Path, images: bool = True) -> Collection:
    """Photos of camera traps: `label` is the animal, `y` its number, the domain is `location`.

    The label has a name where categories.csv is there, else it is the number. Images lie in train/, whatever the split.
    """
    (path,) = needed(folder, "metadata.csv")
    collection = iwildcam([path], "iwildcam")
    factors = dict(collection.factors)
    y, times, categories = factors.pop("animal"), factors["datetime"], folder / "categories.csv"
    label = animals(categories, path, y) if categories.is_file() else y
    clock: dict[str, Values] = {unit: digits(path, times, *position) for unit, position in CLOCK.items()}
    pixels, root = pictures(folder, [f"train/{name}" for name in collection.items.tolist()], images)
    return replace(collection, factors={"label": label, "y": y, "location": factors["location"],
                                        "sequence": factors["sequence"], **clock, "split": factors["split"]},
                   pixels=pixels, root=root)


def unlabelled_iwildcam(folder: Path, images: bool) -> Collection:
    """metadata.csv names images/UID.jpg, all of them `extra_unlabeled`; a time may be missing."""
    (path,) = needed(folder, "metadata.csv")
    table = read_table(path, (*UNLABELLED, "datetime"), text=("uid", "datetime"), every=False)
    filled(path, table, UNLABELLED, blank=True)
    uid, times = strings(path, table, "uid"), strings(path, table, "datetime", gap="")
    pixels, root = pictures(folder, [f"images/{name}.jpg" for name in uid.tolist()], images)
    return Collection("iwildcam", uid, {
        "location": whole(path, table, "location_remapped"), "sequence": whole(path, table, "sequence_remapped"),
        **{unit: digits(path, times, *position) for unit, position in CLOCK.items()},
        "split": np.full(len(uid), "extra_unlabeled")}, pixels=pixels, root=root)


def animals(path: Path, metadata: Path, y: Ints) -> Strs:
    """The name of each animal of `metadata`, from categories.csv.

    A class is a number y, and its name is for readers: if two y share a name, it includes the number, `fox (y = 17)`.
    """
    table = read_table(path, ("y", "name"), text=("name",))
    filled(path, table, ("y", "name"))
    number, title = whole(path, table, "y"), strings(path, table, "name")
    owners = Counter(name for _, name in set(zip(number.tolist(), title.tolist(), strict=True)))
    shared = np.isin(title, [name for name, count in owners.items() if count > 1])
    title = np.where(shared, np.char.add(np.char.add(np.char.add(title, " (y = "), number.astype(np.str_)), ")"), title)
    used = np.isin(number, y)
    number, title = number[used], title[used]
    if len(np.unique(number)) != len(number):
        raise ShiftBenchError(f"{path}: names the same y twice. Give categories.csv as published.")
    position = positions(y.astype(np.str_), number.astype(np.str_))
    for row in np.flatnonzero(position < 0)[:1]:
        raise ShiftBenchError(f"{path}: has no name for y = {y[row]}, which {metadata} has in row {row}.")
    return np.asarray(title)[position]


def _times(path: Path, table: pa.Table) -> dict[str, Values]:
    """When each picture was taken, as the camera says; a clock that was never set says 1970 or the like."""
    text = table["datetime"]
    try:
        # Fractions of a second are in the file but mean nothing there; everything before the point is kept.
        time = pc.strptime(pc.utf8_slice_codeunits(text, 0, 19), "%Y-%m-%d %H:%M:%S", "s")
    except pa.ArrowException as problem:
        raise ShiftBenchError(f"{path}: column 'datetime' has a value that is not a time like 2013-06-05 05:44:19.000 "
                              f"({first_line(problem)}).") from problem
    parts = {"year": pc.year(time), "month": pc.month(time), "hour": pc.hour(time)}
    return {"datetime": to_strings(text), **{key: np.asarray(part, np.int64) for key, part in parts.items()}}


def one_of(path: Path, kind: str, column: str, values: Strs, allowed: Sequence[str]) -> None:
    """Check that a column has no other words."""
    for row in np.flatnonzero(~np.isin(values, allowed))[:1]:
        raise unknown(kind, str(values[row]), allowed, f"{path}: row {row}, column '{column}'")


def digits(path: Path, times: Values, start: int, length: int = 2) -> Ints:
    """The whole number at the same position of every time; -1 where there is no time."""
    numbers = []
    for row, time in enumerate(times.tolist()):
        word = time[start:start + length]
        if time and not (word.isascii() and word.isdigit()):
            raise ShiftBenchError(f"{path}: row {row} has '{time}', which is not a time like 2013-06-05 05:44:19.")
        numbers.append(int(word) if time else -1)
    return np.asarray(numbers, np.int64)


# A WILDS data set on disk: its folder and version, the files it must have, and those that are missing.

SHIFTED = 541_433  # what WILDS adds to every seed


def find(root: Path | str, folders: Sequence[str], version: str | None) -> Path:
    """The folder of a data set below `root`, or `root` itself; of several versions the newest, or the one asked for.

    `folders` are the names by which WILDS unpacks it, newest first: iwildcam_v2.0.
    """
    base = Path(root)
    if not base.is_dir():
        raise ShiftBenchError(f"{base}: no such folder. `root` is the folder that holds {folders[0]}/.")
    wanted = [name for name in folders if version is None or name.endswith(f"_v{version}")]
    if not wanted:
        raise ShiftBenchError(f"Version {version} cannot be read. Known: {', '.join(folders)}.")
    for name in wanted:
        if (base / name).is_dir():
            return base / name
        if base.resolve().name == name:
            return base
    stem = wanted[0].partition("_v")[0]
    others = sorted(path.name for path in base.glob(f"{stem}_v*") if path.is_dir())
    present = f" It has {', '.join(others)}." if others else ""
    raise ShiftBenchError(f"{base}: has no folder {' or '.join(wanted)}.{present} Unpack it there as WILDS lays "
                          "it out; nothing is downloaded here.")


def needed(folder: Path, *names: str) -> list[Path]:
    """The paths of required files; one error names all that are missing."""
    paths = [folder / name for name in names]
    missing = [name for name, path in zip(names, paths, strict=True) if not path.is_file()]
    if missing:
        raise ShiftBenchError(f"{folder}: has no {', '.join(missing)}. The data set is not complete; unpack it again.")
    return paths


def released(folder: Path) -> str | None:
    """A note if RELEASE_v….txt, the file that WILDS writes last, is missing."""
    number = folder.name.partition("_v")[2]
    name = f"RELEASE_v{number or '1'}.txt"
    return None if (folder / name).is_file() else f"{name} is missing: perhaps the archive was not unpacked completely"


def pictures(folder: Path, names: Sequence[str], wanted: bool) -> tuple[Strs | None, Path | None]:
    """File names below the folder of a data set, and that folder; None where images are not wanted."""
    return (paths_below(folder.resolve(), names), folder.resolve()) if wanted else (None, None)


def shuffled(rows: Ints, seed: int) -> Ints:
    """Rows in the order in which WILDS draws them, by numpy's generator instead of ours, so that they are the same."""
    mixed = rows.copy()
    np.random.default_rng(seed + SHIFTED).shuffle(mixed)
    return mixed
