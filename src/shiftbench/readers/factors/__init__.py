"""Collections of factors: data sets whose every item has a value of every factor, as Wiles et al. (2022) use them."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from shiftbench.core.arrays import Advance
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.data.collection import Collection
from shiftbench.readers.annotation_files import Images, Name, source_files
from shiftbench.readers.factors.dsprites import dsprites
from shiftbench.readers.factors.mpi3d import mpi3d
from shiftbench.readers.factors.shapes3d import shapes3d
from shiftbench.readers.factors.smallnorb import smallnorb
from shiftbench.readers.wilds.metadata import camelyon17, iwildcam

KINDS: dict[str, Callable[..., Collection]] = {
    reader.__name__: reader for reader in (dsprites, shapes3d, mpi3d, smallnorb, camelyon17, iwildcam)}
SEVERAL = ("smallnorb", "iwildcam")  # the kinds that may be given more than one file


def factors(
    *sources: Annotated[Path | str, "The published files; for smallnorb also their folder."],
    kind: Annotated[str, "dsprites, shapes3d, mpi3d, smallnorb, camelyon17 or iwildcam."],
    colours: Annotated[str | None, "dsprites: one per image (default), or all three."] = None,
    seed: Annotated[int | None, "dsprites: which image gets which colour."] = None,
    objects: Annotated[str | None, "mpi3d: simple (default) or complex."] = None,
    camera: Annotated[str | None, "smallnorb: left (default), right or both."] = None,
    images: Images = None,
    name: Name | None = None,
    progress: Advance | None = None,
) -> Collection:
    """Data sets of factors, as published: dSprites, Shapes3D, MPI3D, smallNORB, Camelyon17, iWildCam.

    Sources are the npz of dsprites or mpi3d, 3dshapes.h5, the folder or the -dat.mat files of smallnorb, metadata.csv
    of camelyon17, or metadata.csv and optionally categories.csv of iwildcam. The images of camelyon17 are below the
    folder that holds patches/.

    shiftbench read factors dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz --kind dsprites --out collections/dsprites
    """
    if kind not in KINDS:
        raise unknown("kind", kind, KINDS, "Reading factors")
    reader, paths = KINDS[kind], source_files(sources, kind)
    if len(paths) > (2 if kind in SEVERAL else 1):
        raise ShiftBenchError(f"Reading {kind} takes {'at most two files' if kind in SEVERAL else 'one file'}, but "
                              f"{len(paths)} are given: {', '.join(map(str, paths))}.")
    options = {"colours": colours, "seed": seed, "objects": objects, "camera": camera, "images": images}
    chosen: dict[str, Any] = {option: value for option, value in options.items() if value is not None}
    accepted = inspect.signature(reader).parameters.keys()
    for option in chosen.keys() - accepted:
        raise unknown("option", option, accepted & options.keys(), f"Reading {kind}")
    if "progress" in accepted:
        chosen["progress"] = progress
    return reader(paths if kind in SEVERAL else paths[0], name=name or kind, **chosen)
