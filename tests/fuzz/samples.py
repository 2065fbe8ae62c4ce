"""Sound files of every format that a reader reads, and the command that reads them."""

import csv
import gzip
import inspect
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from shiftbench.readers import READERS
from shiftbench.readers.factors import KINDS
from shiftbench.readers.wilds import DATASETS
from tests.readers import box_files
from tests.readers import test_factors as factor_files
from tests.readers import test_gqa as gqa_files
from tests.readers.test_image_folders import written as write_folders
from tests.readers.test_metashift import written as write_pickle
from tests.readers.test_table import scans
from tests.readers.test_waterbirds import published
from tests.readers.wilds_files import POOR, place_of
from tests.shifts.test_breeds import imagenet as write_imagenet


@dataclass(frozen=True)
class Command:
    """A command line, or a call in Python, that is sound on sound files.

    `cost` is about how many times as long as a quick one it takes: it gets so many times fewer cases. What it writes
    goes below `out/`; `then` are commands that must take what it wrote.
    """

    name: str
    words: tuple[str, ...] = ()
    call: Callable[[], object] | None = None
    cost: int = 1
    then: tuple[tuple[str, ...], ...] = ()
    keeps: bool = False  # a failed run leaves what it has, by design: folders of runs
    refuses: bool = False  # it may refuse the file as it is: nothing says that it is sound
    finds: bool = False  # exit code 1 may also mean that it found something, on standard output


def reader(name: str, *words: str, cost: int = 1, refuses: bool = False) -> Command:
    """A command that reads a format; what it makes of a file must be a collection that can be shown."""
    form = name.partition(" ")[0]
    return Command(f"read {name}", ("read", form, *words, "--out", "out/c"), cost=cost, refuses=refuses,
                   then=(("show", "out/c"),))


def readers(place: Path) -> Iterator[Command]:
    """The commands of every reader that is registered, and their files below `place`/raw.

    A reader that has no sample here is fed files of every common format: it is fuzzed all the same.
    """
    (place / "raw").mkdir()
    for name in READERS:
        if name in SAMPLES:
            yield from SAMPLES[name](place / "raw")
        else:
            yield from _generic(name, place / "raw")


def _coco(raw: Path) -> Iterator[Command]:
    (raw / "pictures").mkdir()
    images = [{"id": k, "width": 100, "height": 50, "file_name": f"{k}.png"} for k in range(6)]
    for image in images:
        Image.new("RGB", (10, 5), (image["id"] * 40, 90, 10)).save(raw / "pictures" / image["file_name"])
    categories = [{"id": 18, "name": "dog", "supercategory": "animal"}, {"id": 7, "name": "sofa", "isthing": 1}]
    annotations = [{"id": k, "image_id": k % 6, "category_id": (18, 7)[k % 2], "area": 50.0 + k, "iscrowd": 0,
                    "bbox": [1, 2, 30, 20], "segmentation": [[1, 2, 3.5, 4]]} for k in range(9)]
    (raw / "instances.json").write_text(json.dumps(
        {"info": {"description": "toy"}, "images": images, "annotations": annotations, "categories": categories}))
    (raw / "captions.json").write_text(json.dumps(
        {"images": images, "annotations": [{"id": k, "image_id": k, "caption": f"a dog {k}"} for k in range(6)]}))
    yield reader("coco", "raw/instances.json", "raw/captions.json", "--images", "raw/pictures")
    box_files.lvis(raw / "lvis.json", box_files.some_boxes())
    yield reader("coco lvis", "raw/lvis.json")


def _factors(raw: Path) -> Iterator[Command]:
    factor_files.sprites(raw / "dsprites.npz")
    factor_files.shapes(raw / "shapes3d.h5")
    np.savez_compressed(raw / "mpi3d.npz", images=np.zeros((36, 2, 2, 3), np.uint8))
    (raw / "norb").mkdir()
    for part in ("training", "testing"):
        factor_files.norb(raw / "norb", part)
    factor_files.table(raw / "camelyon17.csv", factor_files.patches())
    factor_files.table(raw / "iwildcam.csv", factor_files.photos())
    (raw / "categories.csv").write_text("y,category_id,name\n" + "".join(f"{k},{k},animal {k}\n" for k in range(4)))
    files = {"dsprites": ["raw/dsprites.npz"], "shapes3d": ["raw/shapes3d.h5"], "mpi3d": ["raw/mpi3d.npz"],
             "smallnorb": ["raw/norb"], "camelyon17": ["raw/camelyon17.csv"],
             "iwildcam": ["raw/iwildcam.csv", "raw/categories.csv"]}
    for kind in KINDS:
        yield reader(f"factors {kind}", *files[kind], "--kind", kind, refuses=kind == "mpi3d")  # it is a million


def _folder(raw: Path) -> Iterator[Command]:
    write_folders(raw / "folders", [("photo", "cat"), ("photo", "dog"), ("sketch", "cat")])
    yield reader("folder", "raw/folders", "--levels", "domain,label")


def _gqa(raw: Path) -> Iterator[Command]:
    cat = {**gqa_files.CAT, "relations": [{"object": "2", "name": "near"}]}
    (raw / "graphs.json").write_text(json.dumps({str(k): {**gqa_files.SCENE, "objects": {"1": cat, "2": {
        **cat, "name": "sofa", "attributes": []}}} for k in range(5)}))
    objects = [{"object_id": k, "names": ["dog"], "x": 1, "y": 2, "w": 30, "h": 20} for k in range(3)]
    (raw / "objects.json").write_text(json.dumps([{"image_id": k, "objects": objects} for k in range(4)]))
    (raw / "attributes.json").write_text(json.dumps([{"image_id": k, "attributes": [
        {**one, "attributes": ["wet"]} for one in objects]} for k in range(4)]))
    (raw / "image_data.json").write_text(json.dumps([
        {"image_id": k, "width": 100, "height": 50, "url": "x"} for k in range(4)]))
    yield reader("gqa", "raw/graphs.json")
    yield reader("gqa genome", "raw/objects.json", "raw/attributes.json", "raw/image_data.json")


def _imagenet(raw: Path) -> Iterator[Command]:
    write_imagenet(raw / "imagenet", ["n01", "n02", "n03"], 2, 1)
    yield reader("imagenet", "raw/imagenet")


def _metashift(raw: Path) -> Iterator[Command]:
    write_pickle(raw / "subsets.pkl", {f"{cls}({word})": {str(k), str(k + 1), "7"}
                                       for k, cls in enumerate(("cat", "dog")) for word in ("black", "wet", "brown")})
    yield reader("metashift", "raw/subsets.pkl")


def _table(raw: Path) -> Iterator[Command]:
    path = scans(raw / "scans.csv", rows=24)
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    (raw / "scans.tsv").write_text("\n".join("\t".join(row) for row in [rows[0], *(row.values() for row in rows)]))
    pq.write_table(pa.table({name: [row[name] for row in rows] for name in rows[0]}), raw / "scans.parquet")
    roles = ("--id", "scan", "--label", "tumor", "--domain", "hospital", "--split", "part")
    yield reader("table csv", "raw/scans.csv", *roles, "--features", "age,dose", "--text", "note")
    yield reader("table tsv", "raw/scans.tsv", *roles)
    yield reader("table parquet", "raw/scans.parquet", *roles)
    (raw / "scans.jsonl").write_text("".join(json.dumps(row | {"seen": ["a", "b"]}) + "\n" for row in rows))
    (raw / "scans.csv.gz").write_bytes(gzip.compress(path.read_bytes()))
    with pa.OSFile(str(raw / "scans.arrow"), "wb") as file, pa.ipc.new_stream(file, pa.Table.from_pylist(
            rows).schema) as stream:
        stream.write_table(pa.Table.from_pylist(rows))
    yield reader("table jsonl", "raw/scans.jsonl", *roles, "--tags-in", "seen")
    yield reader("table gzip", "raw/scans.csv.gz", *roles, "--tags", "tumor")
    yield reader("table arrow", "raw/scans.arrow", *roles)
    with suppress(ImportError):
        from openpyxl import Workbook

        book = Workbook()
        for row in [list(rows[0]), *([*row.values()] for row in rows)]:
            book.active.append(row)
        book.save(raw / "scans.xlsx")
        yield reader("table xlsx", "raw/scans.xlsx", *roles)


def _open_images(raw: Path) -> Iterator[Command]:
    box_files.open_images(raw / "boxes", box_files.some_boxes())
    yield reader("open_images", "raw/boxes/train-annotations-bbox.csv", "--classes", "raw/boxes/classes.csv")


def _voc(raw: Path) -> Iterator[Command]:
    box_files.voc(raw / "voc", box_files.some_boxes(2))
    yield reader("voc", "raw/voc")


def _yolo(raw: Path) -> Iterator[Command]:
    box_files.yolo(raw / "yolo", box_files.some_boxes(2))
    yield reader("yolo", "raw/yolo")


def _waterbirds(raw: Path) -> Iterator[Command]:
    published(raw / "waterbirds", rows=30, images=True)
    yield reader("waterbirds", "raw/waterbirds")


def _wilds(raw: Path) -> Iterator[Command]:
    for name in DATASETS:
        bare = name == "poverty"  # it needs thousands of rows, and a file for each
        place_of(raw / "wilds", name, images=not bare)
        yield reader(f"wilds {name}", name, "--root", "raw/wilds", *(["--no-images"] if bare else []),
                     cost=4 if bare else 1)
    assert POOR > 3000


SAMPLES: dict[str, Callable[[Path], Iterator[Command]]] = {
    "coco": _coco, "factors": _factors, "folder": _folder, "gqa": _gqa, "imagenet": _imagenet, "metashift": _metashift,
    "open_images": _open_images, "table": _table, "voc": _voc, "waterbirds": _waterbirds, "wilds": _wilds,
    "yolo": _yolo}


def _generic(name: str, raw: Path) -> Iterator[Command]:
    """Any reader on a file of each common format; what it needs to be told it is told with a word.

    Nothing says that such a file is sound for it: it may refuse every one, but only with a message.
    """
    place = raw / "generic"
    if not place.is_dir():
        place.mkdir()
        content = {"images": [{"id": 1, "label": "a"}], "label": ["a", "b"], "item": {"x": 1}}
        (place / "file.json").write_text(json.dumps(content))
        (place / "file.jsonl").write_text('{"item": 1, "label": "a"}\n{"item": 2, "label": "b"}\n')
        (place / "file.csv").write_text("item,label,split\n1,a,train\n2,b,test\n")
        pq.write_table(pa.table({"item": ["1", "2"], "label": ["a", "b"]}), place / "file.parquet")
        np.savez(place / "file.npz", images=np.zeros((2, 2, 2, 3), np.uint8), label=np.arange(2))
        (place / "file.txt").write_text("a b\nc d\n")
    wanted = [one for one in inspect.signature(READERS[name]).parameters.values()
              if one.kind is one.KEYWORD_ONLY and one.default is one.empty]
    for file in sorted(path.name for path in place.iterdir()):
        def call(file: str = file) -> object:
            return READERS[name](f"raw/generic/{file}", **{one.name: "item" for one in wanted}).save("out/c")

        yield Command(f"read {name} {file}", call=call, refuses=True)
