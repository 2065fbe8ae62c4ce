"""The folder of a study: a page to hand out, and the key to keep.

    DIR/page/index.html, DIR/page/images/0001.jpg …   all that annotators get
    DIR/key.json                                      what is right; not for them
"""

import json
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from shiftbench.annotation.key import MARKER, Key
from shiftbench.annotation.plan import Design, Task, plan
from shiftbench.arrays import Images, Ints
from shiftbench.benchmark import Benchmark
from shiftbench.collection import Collection
from shiftbench.errors import ShiftBenchError
from shiftbench.files import write_json, writing_folder
from shiftbench.pixels.decode import images
from shiftbench.rng import child

QUALITY = 90


def write_study(
    benchmark: Benchmark, collection: Collection, out: Path | str, design: Design,
    progress: Callable[[int, int], None] | None = None,
) -> Key:
    """Write the folder of a study and give its key. The same benchmark, design and seed make the same study.

    A folder that has another study is left alone, since its answers would be worth nothing without its key; the same
    study is found and not written again.
    """
    tasks, notes = plan(benchmark, design)
    rows = np.unique(np.concatenate([np.concatenate([*task.examples, task.questions]) for task in tasks]))
    number = child(design.seed, "annotation", "images").permutation(len(rows)) + 1
    names = {int(row): f"{place:04d}" for row, place in zip(rows, number, strict=True)}
    key = Key({"name": benchmark.name, "digest": benchmark.digest}, design,
              [_entry(benchmark, task, f"t{place + 1:03d}", names) for place, task in enumerate(tasks)], tuple(notes))
    if (Path(out) / MARKER).is_file():
        there = Key.load(out)
        if there.id == key.id and (Path(out) / "page" / "index.html").is_file():
            return there
        raise ShiftBenchError(f"{out} has study {there.id}, and its answers need its key. Choose another folder for "
                              f"study {key.id}.")
    items = collection.index(benchmark.items[rows])
    with writing_folder(out, MARKER) as place:
        (place / "page" / "images").mkdir(parents=True)
        order = np.argsort(number)  # the time a file was written says no more than its name
        for done, one in enumerate(order):
            picture = cropped(images(collection, items[one:one + 1])[0], design.rescale, design.size)
            picture.save(place / "page" / "images" / f"{number[one]:04d}.jpg", quality=QUALITY, subsampling=0)
            if progress is not None:
                progress(done + 1, len(order))
        shown = {"study": key.id, "size": design.size, "first": len(key.pairs), "tasks": [
            {"id": entry["id"], "examples": [[names[int(row)] for row in side] for side in task.examples],
             "questions": list(entry["questions"])} for task, entry in zip(tasks, key.tasks, strict=True)]}
        (place / "page" / "index.html").write_text(page(shown), encoding="utf-8")
        write_json(place / MARKER, key.facts())
    return key


def page(shown: dict[str, Any]) -> str:
    """The page with its style, its script and its tasks inside."""
    here = files("shiftbench.annotation")
    whole = (here / "page.html").read_text(encoding="utf-8")
    for mark, text in (("/* style */", (here / "page.css").read_text(encoding="utf-8")),
                       ("/* script */", (here / "page.js").read_text(encoding="utf-8")),
                       ("/* study */", json.dumps(shown, separators=(",", ":")).replace("<", "\\u003c"))):
        whole = whole.replace(mark, text)
    return whole


def cropped(pixels: Images, rescale: int, size: int) -> Image.Image:
    """The centre, size × size, of an image whose shorter side was rescaled; a new picture, without any metadata."""
    picture = Image.fromarray(np.ascontiguousarray(pixels))
    factor = rescale / min(picture.size)
    wide, high = (max(rescale, round(side * factor)) for side in picture.size)
    left, top = (wide - size) / 2 / factor, (high - size) / 2 / factor
    box = (left, top, left + size / factor, top + size / factor)
    return picture.resize((size, size), Image.Resampling.BICUBIC, box=_inside(box, picture.size))


def _inside(box: tuple[float, float, float, float], limits: tuple[int, int]) -> tuple[float, float, float, float]:
    """Rounding may put an end of the box a hair outside the picture."""
    left, top, right, low = box
    return max(0.0, left), max(0.0, top), min(float(limits[0]), right), min(float(limits[1]), low)


def _entry(benchmark: Benchmark, task: Task, name: str, names: dict[int, str]) -> dict[str, Any]:
    def items(rows: Ints) -> list[str]:
        return [str(item) for item in benchmark.items[rows]]

    return {
        "id": name, "condition": task.condition, "split": task.split,
        "labels": [benchmark.names["label"][code] for code in task.labels],
        "examples": [items(side) for side in task.examples],
        "questions": {names[int(row)]: {"item": item, "group": int(group)} for row, item, group in zip(
            task.questions, items(task.questions), task.truth, strict=True)},
    }
