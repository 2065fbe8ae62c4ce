"""Benchmarks as folders of images: MetaShift's, torchvision's ImageFolder, DomainBed's, and WILDS'."""

import os
import shutil
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pyarrow as pa
from PIL import Image

from shiftbench.core.arrays import Ints, Strs
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import write_json, write_text
from shiftbench.core.tables import write_table
from shiftbench.data.benchmark import CODED, UNLABELLED, Benchmark, table
from shiftbench.data.collection import Collection
from shiftbench.exports.row_tables import write_rows
from shiftbench.images.decode import images

WILDS_SPLITS = ("train", "val", "test", "id_val", "id_test")
WILDS_FOLDER = "iwildcam_v2.0"
NO_TIME = "1970-01-01 00:00:00.000"


def to_folder(benchmark: Benchmark, collection: Collection | None, out: Path, copy: bool) -> pa.Schema:
    """MetaShift's layout: SPLIT/LABEL/GROUP/ITEM, an ImageFolder per split, and imageID_to_group as JSON and parquet.

    Image files are linked, or copied with `copy`; images kept in the collection are written as PNG.
    """
    source, words = _with_images(benchmark, collection), table(benchmark)
    files = _write(benchmark, source, out, copy, [words[column] for column in ("split", "label", "group")])
    groups = _subsets(benchmark, source)
    write_json(out / "imageID_to_group.json", groups)
    write_table(out / "imageID_to_group.parquet", pa.table({
        "item": pa.array(list(groups), pa.string()), "groups": pa.array(list(groups.values()), pa.list_(pa.string()))}))
    return write_rows(out, benchmark, files)


def to_torch(benchmark: Benchmark, collection: Collection | None, out: Path, copy: bool) -> pa.Schema:
    """SPLIT/CLASS/ITEM, which torchvision's ImageFolder opens, and rows.csv with the codes of label, domain and group.

    Every split has a folder of every class, so that ImageFolder(allow_empty=True) numbers the classes alike in all.
    """
    source, words = _with_images(benchmark, collection), table(benchmark)
    files = _write(benchmark, source, out, copy, [words["split"], words["label"]])
    for split in benchmark.splits:
        for label in benchmark.names["label"]:
            (out / split / _safe(label)).mkdir(parents=True, exist_ok=True)
    return write_rows(out, benchmark, files, {f"{column}_code": getattr(benchmark, column) for column in CODED})


def to_domainbed(benchmark: Benchmark, collection: Collection | None, out: Path, copy: bool) -> pa.Schema:
    """DOMAIN/CLASS/ITEM, which DomainBed's MultipleEnvironmentImageFolder opens; rows.csv has the splits.

    DomainBed splits every domain itself. Rows without a label are only in rows.csv.
    """
    source, words = _with_images(benchmark, collection), table(benchmark)
    labelled = np.flatnonzero(benchmark.split != UNLABELLED)
    return write_rows(out, benchmark, _write(benchmark, source, out, copy, [words["domain"], words["label"]], labelled))


def to_wilds(benchmark: Benchmark, collection: Collection | None, out: Path, copy: bool) -> pa.Schema:
    """iwildcam_v2.0/ with metadata.csv, categories.csv and train/: `get_dataset("iwildcam", root_dir=…)` opens it.

    WILDS has no data set for a user's images; that of iWildCam takes any number of classes and domains, and all five
    splits. `location_remapped` numbers the domains; every image is its own sequence, without a time.
    """
    source = _with_images(benchmark, collection)
    rows = np.flatnonzero(np.isin(benchmark.split, WILDS_SPLITS))
    if len(rows) < len(benchmark):
        others = sorted(set(benchmark.split.tolist()) - set(WILDS_SPLITS))
        warnings.warn(f"WILDS has no split {', '.join(others)}: those rows are only in rows.csv.", stacklevel=3)
    folder = out / WILDS_FOLDER
    files = _write(benchmark, source, folder, copy, [np.full(len(benchmark), "train")], rows)
    write_table(folder / "metadata.csv", pa.table({
        "filename": [Path(file).name for file in files[rows].tolist()], "split": benchmark.split[rows],
        "y": benchmark.label[rows], "location_remapped": np.unique(benchmark.domain[rows], return_inverse=True)[1],
        "sequence_remapped": np.arange(len(rows)), "datetime": [NO_TIME] * len(rows)}))
    labels = benchmark.names["label"]
    write_table(folder / "categories.csv", pa.table({"y": np.arange(len(labels)), "name": pa.array(labels)}))
    write_text(folder / "RELEASE_v2.0.txt", f"{benchmark.name}, laid out as iWildCam by shiftbench\n")
    return write_rows(out, benchmark, np.where(files == "", "", np.char.add(f"{WILDS_FOLDER}/", files)))


def _with_images(benchmark: Benchmark, collection: Collection | None) -> Collection:
    if collection is None or collection.pixels is None:
        raise ShiftBenchError(f"Benchmark '{benchmark.name}' has no images at hand. Export it as csv, or say with "
                              "--collection where its collection is.")
    return collection


def _write(
    benchmark: Benchmark, collection: Collection, out: Path, copy: bool, folders: Sequence[Strs],
    rows: Ints | None = None,
) -> Strs:
    """Write the image of every row, or of `rows`, into the folders that `folders` names; returns the paths below `out`.

    A row without a label lies in the folder `_`.
    """
    row_of, pixels = collection.index(benchmark.items), collection.pixels
    assert pixels is not None
    linked = pixels.dtype.kind == "U"
    endings = [Path(str(pixels[row])).suffix if linked else ".png" for row in row_of]
    names = _file_names(benchmark.items.tolist(), endings, always=not linked)
    files = [""] * len(benchmark)
    for number in range(len(benchmark)) if rows is None else rows.tolist():
        folder = out.joinpath(*(_safe(str(words[number])) or "_" for words in folders))
        folder.mkdir(parents=True, exist_ok=True)
        target = folder / names[number]
        files[number] = target.relative_to(out).as_posix()
        if not linked:
            Image.fromarray(images(collection, row_of[[number]])[0]).save(target)
            continue
        source = collection.path(int(row_of[number]))
        if not source.is_file():
            raise ShiftBenchError(f"{source}: the image of item '{benchmark.items[number]}' is not there.")
        if copy:
            shutil.copyfile(source, target)
        else:
            os.symlink(source, target)
    return np.asarray(files, np.str_)


def _subsets(benchmark: Benchmark, collection: Collection) -> dict[str, list[str]]:
    """Every subset `label(context)` an item lies in, its own group first."""
    rows, words, tags = collection.index(benchmark.items), table(benchmark), collection.tags
    start = np.searchsorted(tags.item, np.arange(len(collection) + 1))
    subsets: dict[str, list[str]] = {}
    for number, row in enumerate(rows):
        label, carried = str(words["label"][number]), tags.tag[start[row]:start[row + 1]]
        contexts = [f"{label}({tags.names[code]})" for code in carried
                    if tags.kinds[code] != "attribute" and tags.names[code] != label]
        subsets[str(benchmark.items[number])] = list(dict.fromkeys([str(words["group"][number]), *contexts]))
    return subsets


def _file_names(items: Sequence[str], endings: Sequence[str], *, always: bool) -> list[str]:
    """A file name for every item, none twice: the item with the ending of its image. An item with that ending gets no
    second one, unless another item would have the same name.

    >>> _file_names(["a", "b.png"], [".png", ".png"], always=False)
    ['a.png', 'b.png']
    >>> _file_names(["a", "a.png", "b.png"], [".png", ".png", ".png"], always=False)
    ['a.png', 'a.png.png', 'b.png']
    """
    full = [_safe(item) + ending for item, ending in zip(items, endings, strict=True)]
    names = [name if always or not item.lower().endswith(ending.lower()) else _safe(item)
             for name, item, ending in zip(full, items, endings, strict=True)]
    count = Counter(names)
    names = [longer if count[name] > 1 else name for name, longer in zip(names, full, strict=True)]
    repeated = [name for name, n in Counter(names).items() if n > 1]
    if repeated:
        raise ShiftBenchError(f"Two items would both be the file '{repeated[0]}'. Export the benchmark as csv instead.")
    return names


def _safe(name: str) -> str:
    """A name that is one path part on every system: dog(shelf) stays, a/b becomes a%2Fb, `..` becomes %2E%2E."""
    quoted = quote(name, safe="()+ ,=&@'")
    return quoted.replace(".", "%2E") if quoted.strip(". ") == "" else quoted
