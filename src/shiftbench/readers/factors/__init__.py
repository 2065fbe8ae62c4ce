"""Collections of factors: data sets whose every item has a value of every factor, as Wiles et al. (2022) use them."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.data.collection import Collection
from shiftbench.readers.annotation_files import source_files
from shiftbench.readers.factors.dsprites import dsprites
from shiftbench.readers.factors.mpi3d import mpi3d
from shiftbench.readers.factors.shapes3d import shapes3d
from shiftbench.readers.factors.smallnorb import smallnorb
from shiftbench.readers.npz import Advance
from shiftbench.readers.wilds.metadata import camelyon17, iwildcam

KINDS: dict[str, Callable[..., Collection]] = {
    reader.__name__: reader for reader in (dsprites, shapes3d, mpi3d, smallnorb, camelyon17, iwildcam)}
SEVERAL = ("smallnorb", "iwildcam")  # the kinds that may be given more than one file


def factors(
    *sources: Path | str, kind: str, name: str | None = None, progress: Advance | None = None, **options: Any
) -> Collection:
    """Read a data set of factors: dsprites, shapes3d, mpi3d, smallnorb, camelyon17 or iwildcam.

    dsprites    the npz;  `colours` one (a colour per image, drawn by `seed`) or all (three items per image)
    shapes3d    3dshapes.h5; needs h5py
    mpi3d       an npz;  `objects` simple or complex
    smallnorb   the folder, or the -dat.mat files;  `camera` left, right or both
    camelyon17  metadata.csv;  `images` the folder above patches/
    iwildcam    metadata.csv, then maybe categories.csv;  `images` the folder of the files
    """
    if kind not in KINDS:
        raise unknown("kind", kind, KINDS, "Reading factors")
    reader, paths = KINDS[kind], source_files(sources, kind)
    if len(paths) > (2 if kind in SEVERAL else 1):
        raise ShiftBenchError(f"Reading {kind} takes {'two files at most' if kind in SEVERAL else 'one file'}, but "
                              f"{len(paths)} are given: {', '.join(map(str, paths))}.")
    known = inspect.signature(reader).parameters.keys() - {"path", "sources", "name", "progress"}
    for option in options:
        if option not in known:
            raise unknown("option", option, known, f"Reading {kind}")
    if "progress" in inspect.signature(reader).parameters:
        options["progress"] = progress
    return reader(paths if kind in SEVERAL else paths[0], name=name or kind, **options)
