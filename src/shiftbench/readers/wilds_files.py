"""Where a WILDS data set lies on disk: its folder and version, the files it must have, and what is missing."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from shiftbench.arrays import Ints, Strs
from shiftbench.errors import ShiftBenchError
from shiftbench.readers.images import below

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
        raise ShiftBenchError(f"Version {version} is not one we read. Known: {', '.join(folders)}.")
    for name in wanted:
        if (base / name).is_dir():
            return base / name
        if base.resolve().name == name:
            return base
    stem = wanted[0].partition("_v")[0]
    others = sorted(path.name for path in base.glob(f"{stem}_v*") if path.is_dir())
    there = f" It has {', '.join(others)}." if others else ""
    raise ShiftBenchError(f"{base}: has no folder {' or '.join(wanted)}.{there} Unpack it there as WILDS lays "
                          "it out; nothing is downloaded here.")


def needed(place: Path, *names: str) -> list[Path]:
    """Files that must be there; all that are not are named at once."""
    paths = [place / name for name in names]
    missing = [name for name, path in zip(names, paths, strict=True) if not path.is_file()]
    if missing:
        raise ShiftBenchError(f"{place}: has no {', '.join(missing)}. The data set is not complete; unpack it again.")
    return paths


def released(place: Path) -> str | None:
    """What to say where the file that WILDS writes last, RELEASE_v….txt, is not there."""
    number = place.name.partition("_v")[2]
    name = f"RELEASE_v{number or '1'}.txt"
    return None if (place / name).is_file() else f"{name} is not there: perhaps it was not unpacked to the end"


def pictures(place: Path, names: Sequence[str], wanted: bool) -> tuple[Strs | None, Path | None]:
    """File names below the folder of a data set, and that folder; None where images are not wanted."""
    if not wanted:
        return None, None
    return below(place.resolve(), names), place.resolve()


def shuffled(rows: Ints, seed: int) -> Ints:
    """Rows in the order in which WILDS draws them: with numpy's generator, not ours, for they must be the same."""
    mixed = rows.copy()
    np.random.default_rng(seed + SHIFTED).shuffle(mixed)
    return mixed
