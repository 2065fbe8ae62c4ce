"""Waterbirds as Sagawa et al. (2020) publish it: birds pasted on places, one metadata.csv, images in files."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa

from shiftbench.core.arrays import Ints
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.tables import filled, read_table, strings, whole
from shiftbench.data.collection import Collection
from shiftbench.data.image_files import image_folder, missing_files, paths_below
from shiftbench.readers.annotation_files import Name

COLUMNS = ("img_id", "img_filename", "y", "split", "place", "place_filename")
BIRDS = ("landbird", "waterbird")
PLACES = ("land", "water")
SPLITS = ("train", "val", "test")
METADATA = "metadata.csv"


def waterbirds(
    source: Annotated[Path | str, "Folder with metadata.csv and the images, as published."],
    *,
    images: Annotated[Path | str | None, "Folder of the images, if it is not the source."] = None,
    name: Name = "waterbirds",
) -> Collection:
    """Waterbirds as published: birds on land or water backgrounds, with the split of its makers.

    Factors: `bird` (landbird, waterbird) and `background` (land, water) in words, `y` and `place` as the same in the
    file's numbers, so that `place != y` selects the birds out of place; `split` (train, val, test), `species` (the
    folder of the image), `file` and `place_file`. Ids are img_id. The source may be
    metadata.csv alone: without the images beside it, the collection has no pixels.

    shiftbench read waterbirds waterbird_complete95_forest2water2 --out collections/waterbirds
    """
    path = Path(source) / METADATA if Path(source).is_dir() else Path(source)
    table = read_table(path, COLUMNS, text=("img_id", "img_filename", "place_filename"))
    filled(path, table, COLUMNS)
    y, background, split = (_codes(path, table, column, words) for column, words in (
        ("y", BIRDS), ("place", PLACES), ("split", SPLITS)))
    ids, files = strings(path, table, "img_id"), strings(path, table, "img_filename")
    root = image_folder(images if images is not None else path.parent)
    assert root is not None
    paths = paths_below(root, files.tolist())
    collection = Collection(
        name=name,
        items=ids,
        factors={"bird": np.asarray(BIRDS)[y], "background": np.asarray(PLACES)[background], "y": y,
                 "place": background, "split": np.asarray(SPLITS)[split],
                 "species": np.asarray([file.partition("/")[0] for file in files.tolist()], np.str_), "file": files,
                 "place_file": strings(path, table, "place_filename")},
        pixels=paths,
        root=root,
    )
    # The published folder has its images beside metadata.csv; a copy of the table alone is a collection too.
    without_images = images is None and len(missing_files(collection.pixels, collection.root)) == len(collection)
    return replace(collection, pixels=None, root=None) if without_images else collection


def _codes(path: Path, table: pa.Table, column: str, words: tuple[str, ...]) -> Ints:
    """A column of whole numbers from 0, one for each word."""
    values = whole(path, table, column)
    for row in np.flatnonzero((values < 0) | (values >= len(words)))[:1]:
        allowed = ", ".join(f"{code} ({word})" for code, word in enumerate(words))
        raise ShiftBenchError(f"{path}: row {row} has {values[row]} in column '{column}'. Allowed: {allowed}.")
    return values
