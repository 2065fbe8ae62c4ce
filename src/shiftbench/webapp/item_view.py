"""One item: its picture, all annotations, the benchmarks and splits that hold it, and what every run predicted."""

import io
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image

from shiftbench.auditing.predicates import Predicate
from shiftbench.auditing.vocabulary import is_known, spelled
from shiftbench.core.arrays import Ints, Strs, Values
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import read_json
from shiftbench.data.benchmark import MARKER as BENCHMARK
from shiftbench.data.benchmark import UNLABELLED, Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.image_files import untrusted
from shiftbench.data.predictions import PREDICTIONS, Predictions
from shiftbench.data.scores import label_of
from shiftbench.images.decode import open_image
from shiftbench.scoring.listing import Finished
from shiftbench.scoring.reading import Reader
from shiftbench.webapp.coded_columns import coded
from shiftbench.webapp.looks import sealed
from shiftbench.webapp.outcomes import finished_runs
from shiftbench.webapp.shelf import Memory
from shiftbench.webapp.studio import Answer, Content, Query, Studio, request

SIDES = (128, 512)
"""The longest side of a picture on the wall, and of one in the panel."""
THUMBNAIL_ROOM = 64 << 20
"""Bytes of pictures that are kept."""
TYPE = "image/webp"
LONGEST = 20_000
"""Letters of a text that are shown."""
MOST_RUNS = 2_000
"""Runs of a folder whose predictions are read for an item."""
ROOM = 64 << 20
"""Bytes of predicted classes that are kept."""
SEALED = "This item is sealed: findings are confirmed on it. What models predict for it is not shown."
THUMBNAILS = Memory(THUMBNAIL_ROOM, len)
CLASSES = Memory(ROOM, lambda codes: int(codes.nbytes), alone=True)


def item(studio: Studio, query: Query) -> Mapping[str, Any]:
    """Everything that is known about an item."""
    collection = studio.shelf.collection(query.text("on"))
    row = row_of(collection, query)
    why = why_none(collection)
    texts = [str(text)[:LONGEST] for text in collection.texts.text[collection.texts.item == row]]
    factors = [_factor(collection, name, values, row) for name, values in collection.factors.items()]
    id = str(collection.items[row])
    return {"row": row, "id": id, "version": coded(collection).digest[:12], "pictures": not why,
            "why": "" if collection.pixels is None else why, "alt": texts[0] if texts else f"the image of {id}",
            "texts": texts, "factors": factors, "tags": _tags(collection, row),
            "sealed": SEALED if is_sealed(collection, row) else "",
            "benchmarks": [members.of(row) for members in benchmarks_of(studio, collection, row)],
            "command": studio.command("item", on=query.text("on"), id=id)}


def _factor(collection: Collection, name: str, values: Values, row: int) -> dict[str, Any]:
    value, known = values[row], bool(is_known(values[row:row + 1])[0])
    text = f"{value:.12g}" if values.dtype.kind == "f" else str(value)
    short = values.dtype.kind != "O"
    own = Predicate.of(name, text) if known else Predicate.of(name, kind="missing")
    return {"name": name, "value": text[:LONGEST] if known else "–",
            "above": _above(collection, text) if short else [],
            "is": own.facts() if short else None}


def _above(collection: Collection, name: str) -> list[str]:
    """The classes above a name in the hierarchy, by the first parent of each."""
    path: list[str] = []
    while collection.parents.get(name) and collection.parents[name][0] not in path:
        name = collection.parents[name][0]
        path.append(name)
    return path


def _tags(collection: Collection, row: int) -> list[dict[str, Any]]:
    """The tags of an item, those with boxes first, then the larger ones."""
    tags, names = collection.tags, spelled(collection.tags)
    start, stop = np.searchsorted(tags.item, [row, row + 1]).tolist()
    entries = []
    for number in range(start, stop):
        area, code = float(tags.area[number]), int(tags.tag[number])
        entries.append({"name": names[code], "kind": tags.kinds[code], "area": None if np.isnan(area) else area,
                        "boxes": tags.boxes[tags.box_row == number].tolist(),
                        "is": Predicate.of(f"has:{names[code]}", "yes", "tag").facts()})
    return sorted(entries, key=lambda tag: (not tag["boxes"], -(tag["area"] or 0), tag["name"]))


# Its picture, made when it is first requested; a limited number of bytes is kept

def look(studio: Studio, query: Query) -> Mapping[str, Any]:
    """How a wall shows the items of a collection: as pictures or as rows."""
    collection = studio.shelf.collection(query.text("on"))
    why = why_none(collection)
    return {"pictures": not why, "why": "" if collection.pixels is None else why,
            "version": coded(collection).digest[:12]}


def thumbnail(studio: Studio, query: Query) -> Content:
    """The picture of an item: `side` is the longest side it is shown at."""
    collection = studio.shelf.collection(query.text("on"))
    side = next((side for side in SIDES if side >= query.whole("side", SIDES[0])), SIDES[-1])
    row = row_of(collection, query)
    picture = THUMBNAILS.get((query.text("on"), coded(collection).digest, row, side),
                             lambda: draw(collection, row, side))
    return Content(picture, TYPE, changes=False)


def pictures(studio: Studio, on: str, rows: Iterable[int]) -> list[str]:
    """The requests of a wall of items; none if their collection is not on the shelf."""
    if not on:
        return []
    wall = look(studio, Query({"on": on}))
    return [request("look", on=on), *(request("thumbnail", on=on, row=str(row), version=wall["version"])
                                      for row in rows if wall["pictures"])]


def opened(studio: Studio, on: str, id: str) -> list[str]:
    """The requests of the panel of an item; none if no item is open or there is no such item."""
    if not on or not id:
        return []
    collection = studio.shelf.collection(on)
    try:
        row = str(row_of(collection, Query({"id": id})))
    except ShiftBenchError:  # the panel says so
        return []
    return [request("item", on=on, id=id), request("predicted", on=on, row=row),
            request("thumbnail", on=on, row=row, side=str(SIDES[-1]), version=coded(collection).digest[:12])]


def row_of(collection: Collection, query: Query) -> int:
    """The item that a request names by its id or its number."""
    if query.text("id"):
        rows = np.flatnonzero(collection.items == query.text("id"))
        if not len(rows):
            raise ShiftBenchError(f"Collection '{collection.name}' has no item '{query.text('id')}'.")
        return int(rows[0])
    row = query.whole("row", -1, low=-1)
    if not 0 <= row < len(collection):
        raise ShiftBenchError(f"Item {query.text('row') or '(none)'} is not among the {len(collection):,} items of "
                              f"'{collection.name}', which are numbered from 0.")
    return row


def draw(collection: Collection, row: int, side: int) -> bytes:
    """An item's image as WebP, in its own proportions."""
    reason = why_none(collection)
    if reason or collection.pixels is None:
        raise ShiftBenchError(reason)
    if collection.pixels.dtype.kind == "U":
        picture = open_image(collection, row, None, least=2 * side)
    else:
        picture = Image.fromarray(np.asarray(collection.pixels[row]))
    picture.thumbnail((side, side))
    buffer = io.BytesIO()
    picture.save(buffer, "WEBP", quality=88, method=2)
    return buffer.getvalue()


def why_none(collection: Collection) -> str:
    """Why a collection's images are not shown; "" if they are."""
    pixels = collection.pixels
    if pixels is None or not len(pixels):
        return "The collection has no images."
    if collection.foreign:
        return str(untrusted(collection.home or Path(), collection.root or Path.cwd()))
    if pixels.dtype.kind == "U" and str(pixels[0]).endswith(".npz"):
        return "Its images are arrays with any number of channels, which cannot be shown as pictures."
    return ""


# The benchmarks that hold it

class Members(NamedTuple):
    """A benchmark by the items of its collection: item i is row `row[i]` of it, or not in it where that is -1."""

    id: str
    digest: str
    row: npt.NDArray[np.int32]
    split: Strs
    codes: Mapping[str, Ints]
    names: Mapping[str, tuple[str, ...]]
    has_classes: bool

    def of(self, item: int) -> dict[str, Any]:
        """The split, label and group of an item."""
        row = int(self.row[item])
        names = {column: self.names[column][int(codes[row])] for column, codes in self.codes.items()}
        split = str(self.split[row])
        return {"id": self.id, "split": split, **names, **({"label": "–"} if split == UNLABELLED else {})}


def benchmarks_of(studio: Studio, collection: Collection, row: int) -> list[Members]:
    """The benchmarks on the shelf that were built from this collection and hold the item."""
    digest = coded(collection).digest
    holding = []
    for thing in studio.shelf.things("benchmark"):
        try:
            marker = thing.path / BENCHMARK
            key = ("members", thing.path, marker.stat().st_mtime_ns, digest)
            members = studio.once(key, partial(_members, studio, thing.id, collection, digest))
        except (ShiftBenchError, OSError, KeyError, TypeError):  # the home page says that it cannot be read
            continue
        if members is not None and members.row[row] >= 0:
            holding.append(members)
    return holding


def _members(studio: Studio, id: str, collection: Collection, digest: str) -> Members | None:
    """The items of a benchmark among those of a collection; None if it was built from another."""
    facts = read_json(studio.shelf.find("benchmark", id).path / BENCHMARK)
    if facts["card"]["collection"]["digest"] != digest:
        return None
    benchmark = studio.shelf.benchmark(id)
    rows = np.full(len(collection), -1, np.int32)
    rows[collection.index(benchmark.items)] = np.arange(len(benchmark))
    return Members(id, benchmark.digest, rows, benchmark.split, {"label": benchmark.label, "group": benchmark.group},
                   benchmark.names, benchmark.target.has_classes)


# What runs predicted

def predicted(studio: Studio, query: Query) -> Mapping[str, Any]:
    """What every finished run predicts for an item, by benchmark and method; nothing for a sealed item."""
    collection = studio.shelf.collection(query.text("on"))
    row = row_of(collection, query)
    command = studio.command("predicted", on=query.text("on"), id=str(collection.items[row]))
    if is_sealed(collection, row):
        return {"methods": [], "note": SEALED, "command": command}
    holding = {members.digest: members for members in benchmarks_of(studio, collection, row)}
    lines: dict[tuple[str, str], dict[str, Any]] = {}
    notes = []
    for folder in studio.shelf.things("runs"):
        runs = [run for run in finished_runs(folder.path) if run.benchmark["digest"] in holding]
        if len(runs) > MOST_RUNS:
            notes.append(f"{folder.id} has {len(runs):,} runs on these benchmarks; the first {MOST_RUNS:,} are shown.")
        for run, says in said(studio, runs[:MOST_RUNS], holding, row):
            members = holding[run.benchmark["digest"]]
            truth = members.of(row)["label"] if members.has_classes else None
            method = label_of(run.settings)
            line = lines.setdefault((members.id, method), {"benchmark": members.id, "method": method, "truth": truth,
                                                           "runs": []})
            line["runs"].append({"on": folder.id, "run": run.folder.name, "model": run.model, "says": says,
                                 "seed": run.head["seed"]})
    methods = [_summed(line) for _, line in sorted(lines.items())]
    return {"methods": methods, "note": " ".join(notes) or ("" if methods else "No finished run here predicts it."),
            "command": command}


def is_sealed(collection: Collection, row: int) -> bool:
    """Whether predictions for an item stay hidden, since findings are confirmed on it."""
    return bool(sealed(collection.items[row:row + 1])[0])


def _summed(line: dict[str, Any]) -> dict[str, Any]:
    times = Counter(run["says"] for run in line["runs"])
    return {**line, "right": None if line["truth"] is None else times[line["truth"]],
            "says": [{"name": name, "n": n} for name, n in times.most_common(5)]}


def said(
    studio: Studio, runs: Sequence[Finished], holding: Mapping[str, Members], item: int
) -> Iterator[tuple[Finished, str]]:
    """What runs predict for an item, as text; runs that do not predict it or cannot be read are left out."""
    reader = cache(lambda id: Reader(studio.shelf.benchmark(id)))
    for run in runs:
        members = holding[run.benchmark["digest"]]
        row = int(members.row[item])
        with suppress(ShiftBenchError, OSError):
            if members.has_classes:
                codes = CLASSES.get((run.folder, run.files.get(PREDICTIONS, "")),
                                    partial(_classes, run, reader, members.id))
                says = members.names["label"][int(codes[row])] if codes[row] >= 0 else ""
            else:
                says = _numbers(run, studio.shelf.benchmark(members.id), row)
            if says:
                yield run, says


def _classes(run: Finished, reader: Callable[[str], Reader], id: str) -> npt.NDArray[np.int32]:
    """The predicted class of each row of the benchmark, -1 where there is none."""
    scores, order = reader(id).read(run.folder / PREDICTIONS, run.files.get(PREDICTIONS, ""))
    return np.where(order.row >= 0, scores.argmax(axis=0)[order.row], -1).astype(np.int32)


def _numbers(run: Finished, benchmark: Benchmark, row: int) -> str:
    """Numbers and tasks, in the order of the benchmark's columns; lists are not shown."""
    predictions = run.predictions(benchmark)
    if not isinstance(predictions, Predictions):
        return ""
    rows = np.flatnonzero(predictions.item == benchmark.items[row])
    return ", ".join(f"{value:.4g}" for value in predictions.scores[rows[0]]) if len(rows) else ""


ANSWERS: dict[str, Answer] = {"look": look, "thumbnail": thumbnail, "item": item, "predicted": predicted}
