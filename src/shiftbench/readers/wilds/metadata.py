"""Camelyon17 and iWildCam as WILDS (Koh et al., 2021) publishes them: one metadata.csv each, images in files."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shiftbench.core.arrays import Ints, Strs, Values, to_strings
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.tables import filled, read_table, strings, whole, within
from shiftbench.data.collection import Collection
from shiftbench.data.image_files import image_folder, paths_below

SPLITS = ("train", "val", "test", "id_val", "id_test")
TUMOR = ("normal", "tumor")
CAMELYON = ("patient", "node", "x_coord", "y_coord", "tumor", "slide", "center", "split")
IWILDCAM = ("filename", "split", "y", "location_remapped", "sequence_remapped", "datetime")
VAL, TEST = 1, 2  # the hospitals that WILDS keeps for validation and test


def camelyon17(path: Path, name: str, images: Path | str | None = None) -> Collection:
    """Read metadata.csv of Camelyon17: patches of tissue from five hospitals. `images` is the folder above patches/.

    Factors: `tumor` (normal or tumor), `hospital` (0 to 4), `slide`, `patient`, `node`, and `split` as WILDS uses it:
    the file knows train (0) and id_val (1), and all of hospital 1 is val, all of hospital 2 test. Ids are the names of
    the patches without .png.
    """
    table = read_table(path, CAMELYON, text=("patient",))
    filled(path, table, CAMELYON)
    patient = strings(path, table, "patient")
    node, x, y, tumor, slide, center, split = (whole(path, table, column) for column in CAMELYON[1:])
    within(path, "tumor", tumor, 1)
    within(path, "split", split, 1)
    splits = np.where(center == TEST, "test", np.where(center == VAL, "val", np.where(split == 1, "id_val", "train")))
    folders = [f"patient_{p}_node_{n}" for p, n in zip(patient.tolist(), node.tolist(), strict=True)]
    patches = [f"patch_{folder}_x_{left}_y_{top}"
               for folder, left, top in zip(folders, x.tolist(), y.tolist(), strict=True)]
    root = image_folder(images)
    return Collection(
        name=name,
        items=np.asarray(patches, np.str_),
        factors={"tumor": np.asarray(TUMOR)[tumor], "hospital": center, "slide": slide, "patient": patient,
                 "node": node, "split": splits},
        pixels=None if root is None else paths_below(
            root, [f"patches/{folder}/{patch}.png" for folder, patch in zip(folders, patches, strict=True)]),
        root=root,
    )


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


def animals(path: Path, metadata: Path, y: Ints) -> Strs:
    """The name of each animal of `metadata`, from categories.csv.

    A class is a number y, and its name is for readers: if two y share a name, it includes the number, `fox (y = 17)`.
    """
    table = read_table(path, ("y", "name"), text=("name",))
    filled(path, table, ("y", "name"))
    number, title = whole(path, table, "y"), strings(path, table, "name")
    shared = np.isin(title, [name for name, owners in _owners(number, title).items() if len(owners) > 1])
    title = np.where(shared, np.char.add(np.char.add(np.char.add(title, " (y = "), number.astype(np.str_)), ")"), title)
    used = np.isin(number, y)
    number, title = number[used], title[used]
    if len(np.unique(number)) != len(number):
        raise ShiftBenchError(f"{path}: names the same y twice. Give categories.csv as published.")
    order = np.argsort(number)
    position = np.searchsorted(number[order], y).clip(max=max(len(number) - 1, 0))
    for row in np.flatnonzero(number[order][position] != y if len(number) else np.ones(len(y), np.bool_))[:1]:
        raise ShiftBenchError(f"{path}: has no name for y = {y[row]}, which {metadata} has in row {row}.")
    names: Strs = title[order][position]
    return names


def _owners(number: Ints, animal: Strs) -> dict[str, set[int]]:
    """The classes that each name covers."""
    owners: dict[str, set[int]] = {}
    for y, name in zip(number.tolist(), animal.tolist(), strict=True):
        owners.setdefault(name, set()).add(y)
    return owners


def _times(path: Path, table: pa.Table) -> dict[str, Values]:
    """When each picture was taken, as the camera says; a clock that was never set says 1970 or the like."""
    text = table["datetime"]
    try:
        # Fractions of a second are in the file but mean nothing there; everything before the point is kept.
        time = pc.strptime(pc.utf8_slice_codeunits(text, 0, 19), "%Y-%m-%d %H:%M:%S", "s")
    except pa.ArrowException as problem:
        raise ShiftBenchError(f"{path}: column 'datetime' has a value that is not a time like 2013-06-05 05:44:19.000 "
                              f"({str(problem).splitlines()[0]}).") from problem
    parts = {"year": pc.year(time), "month": pc.month(time), "hour": pc.hour(time)}
    return {"datetime": to_strings(text), **{key: np.asarray(part, np.int64) for key, part in parts.items()}}


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
    if not wanted:
        return None, None
    return paths_below(folder.resolve(), names), folder.resolve()


def shuffled(rows: Ints, seed: int) -> Ints:
    """Rows in the order in which WILDS draws them, by numpy's generator instead of ours, so that they are the same."""
    mixed = rows.copy()
    np.random.default_rng(seed + SHIFTED).shuffle(mixed)
    return mixed
