"""The folder of a human study: a page to hand out, and the key to keep.

    DIR/page/index.html, DIR/page/images/0001.jpg …   all that annotators get
    DIR/key.json                                      what is right; not for them
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from shiftbench.core.arrays import Images, Ints
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import read_marker, write_json, writing_folder
from shiftbench.core.registry import make
from shiftbench.core.rng import child
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.human.design import CONDITIONS, Design, Task, plan
from shiftbench.images.decode import images

# The key of a human study: its questions and the right answers. It stays with the person who runs the study.

MARKER = "key.json"
FORMAT = 1
SHAPE = {"id": str, "benchmark": {str: str}, "design": {str: object}, "notes": [str], "tasks": [dict]}


@dataclass(frozen=True, eq=False)
class Key:
    """Tasks as they are written: {"id", "condition", "split", "labels": [of group 0, of group 1], "examples": [[item…],
    [item…]], "questions": {image: {"item", "group"}}}. `id` is a digest of all the rest, so a human study has one key.
    """

    benchmark: Mapping[str, str]  # name and digest
    design: Design
    tasks: Sequence[Mapping[str, Any]]
    notes: tuple[str, ...] = ()

    @cached_property
    def id(self) -> str:
        asked = [self.benchmark["digest"], asdict(self.design), list(self.tasks)]
        return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:16]

    @cached_property
    def by_id(self) -> dict[str, Mapping[str, Any]]:
        return {task["id"]: task for task in self.tasks}

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The pairs of superclasses, each once, sorted."""
        return sorted({pair_of(task) for task in self.tasks})

    @property
    def splits(self) -> dict[str, str]:
        """The split of each condition, source first."""
        splits = {task["condition"]: task["split"] for task in self.tasks}
        return {name: splits[name] for name in CONDITIONS if name in splits}

    def facts(self) -> dict[str, Any]:
        """What the file holds."""
        return {"format": "shiftbench study", "version": FORMAT, "id": self.id, "benchmark": dict(self.benchmark),
                "design": asdict(self.design), "notes": list(self.notes), "tasks": list(self.tasks)}

    def check(self, benchmark: Benchmark) -> None:
        """Refuse a benchmark other than the one that the human study was made from."""
        if self.benchmark["digest"] != benchmark.digest:
            raise ShiftBenchError(
                f"Study {self.id} was made of benchmark '{self.benchmark['name']}' with digest "
                f"{self.benchmark['digest'][:8]}…, but '{benchmark.name}' has {benchmark.digest[:8]}…. Give the "
                "benchmark it was made of, or make a human study of this one.")

    @staticmethod
    def load(folder: Path | str) -> "Key":
        """Read the key from the folder of a human study; a changed key no longer matches its id and is refused."""
        path = Path(folder)
        facts = read_marker(path, MARKER, "study", FORMAT, SHAPE)
        design = make(Design, facts["design"], str(path / MARKER))
        key = Key(facts["benchmark"], design, facts["tasks"], tuple(facts["notes"]))
        if not {"name", "digest"} <= facts["benchmark"].keys() or key.id != facts["id"]:
            raise ShiftBenchError(f"{path / MARKER}: does not match its own id {facts['id']}; the key was changed "
                                  "after it was written. Use it as it was.")
        return key


def find_key(study: Path | str | None, answers: Sequence[Path | str]) -> Key:
    """The key of the folder `study`; without one, the key of a folder that holds the answers or stands beside them."""
    if study is not None:
        return Key.load(study)
    for file in answers:
        for folder in (Path(file).absolute().parent, Path(file).absolute().parent.parent):
            if (folder / MARKER).is_file():
                return Key.load(folder)
    raise ShiftBenchError(f"{answers[0]}: no {MARKER} of a human study lies beside these answers. Say with --study "
                          "where its folder is.")


def pair_of(task: Mapping[str, Any]) -> tuple[str, str]:
    """The two superclasses of a task in alphabetical order, whichever is group 0."""
    first, second = sorted(task["labels"])
    return first, second


QUALITY = 90


def write_study(
    benchmark: Benchmark, collection: Collection, out: Path | str, design: Design,
    progress: Callable[[int, int], None] | None = None,
) -> Key:
    """Write the folder of a human study and return its key. The same benchmark, design and seed make the same one.

    A folder that has another human study is left alone, since its answers would be worth nothing without its key; the
    same one is recognised and not written again.
    """
    tasks, notes = plan(benchmark, design)
    rows = np.unique(np.concatenate([np.concatenate([*task.examples, task.questions]) for task in tasks]))
    numbers = child(design.seed, "annotation", "images").permutation(len(rows)) + 1
    names = {int(row): f"{number:04d}" for row, number in zip(rows, numbers, strict=True)}
    key = Key({"name": benchmark.name, "digest": benchmark.digest}, design,
              [_entry(benchmark, task, f"t{number:03d}", names) for number, task in enumerate(tasks, 1)], tuple(notes))
    if (Path(out) / MARKER).is_file():
        there = Key.load(out)
        if there.id == key.id and (Path(out) / "page" / "index.html").is_file():
            return there
        raise ShiftBenchError(f"{out} has human study {there.id}, and its answers need its key. Choose another folder "
                              f"for human study {key.id}.")
    items = collection.index(benchmark.items[rows])
    with writing_folder(out, MARKER) as staging:
        (staging / "page" / "images").mkdir(parents=True)
        order = np.argsort(numbers)  # the time a file was written says no more than its name
        for done, one in enumerate(order):
            picture = cropped(images(collection, items[one:one + 1])[0], design.rescale, design.size)
            picture.save(staging / "page" / "images" / f"{numbers[one]:04d}.jpg", quality=QUALITY, subsampling=0)
            if progress is not None:
                progress(done + 1, len(order))
        shown = {"study": key.id, "size": design.size, "first": len(key.pairs), "tasks": [
            {"id": entry["id"], "examples": [[names[int(row)] for row in side] for side in task.examples],
             "questions": list(entry["questions"])} for task, entry in zip(tasks, key.tasks, strict=True)]}
        (staging / "page" / "index.html").write_text(page(shown), encoding="utf-8")
        write_json(staging / MARKER, key.facts())
    return key


def page(shown: dict[str, Any]) -> str:
    """The page with its style, its script and its tasks inside."""
    here = files("shiftbench.human")
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
