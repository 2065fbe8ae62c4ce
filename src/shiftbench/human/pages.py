"""A human study: its design, its tasks, and its folder with a page to hand out and a key to keep.

    DIR/page/index.html, DIR/page/images/0001.jpg …   all that annotators get
    DIR/key.json                                      the questions and the right answers, for whoever runs the study

A task is two superclasses, example images of each, and images to sort into them.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from shiftbench.core.arrays import Images, Ints, child
from shiftbench.core.errors import Advance, ShiftBenchError, unknown
from shiftbench.core.files import read_marker, write_json, writing_folder
from shiftbench.core.registry import make
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.images.decode import images

MARKER = "key.json"
FORMAT = 1
SHAPE = {"id": str, "benchmark": {str: str}, "design": {str: object}, "notes": [str], "tasks": [dict]}
CONDITIONS = {"source": ("id_test", "id_val"), "target": ("test",)}
"""The splits of the images to sort: the first of these that has rows."""
EXAMPLES = "train"
"""The split of the example images of both groups."""
QUALITY = 90


@dataclass(frozen=True)
class Design:
    """What a human study asks (Santurkar et al., 2021, A.6); the defaults are the paper's.

    Every superclass meets `partners` others, drawn at random; a pair drawn from both sides is one pair. Each pair is
    a task per condition, with the same examples in both, so that the images to sort are all that differs.
    """

    partners: int = 3
    examples: int = 20  # per group
    questions: int = 12  # half of each group
    conditions: tuple[str, ...] = ("source", "target")
    size: int = 224  # pixels per side of an image on the page
    rescale: int = 256  # its shorter side before the centre is cut out
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("partners", 1), ("examples", 1), ("questions", 2), ("size", 16)):
            if getattr(self, name) < least:
                raise ShiftBenchError(f"human study: '{name}' is {getattr(self, name)}, but must be {least} at least.")
        if self.questions % 2:
            raise ShiftBenchError(f"human study: 'questions' is {self.questions}, but half of them are of each group. "
                                  "Give an even number.")
        if self.rescale < self.size:
            raise ShiftBenchError(f"human study: the centre of {self.size} pixels cannot be cut out of an image "
                                  f"rescaled to {self.rescale}. Give a larger 'rescale'.")
        for name in self.conditions:
            if name not in CONDITIONS:
                raise unknown("condition", name, CONDITIONS)
        if not self.conditions or len(set(self.conditions)) < len(self.conditions):
            raise ShiftBenchError("human study: name each condition once: source, target or both.")


@dataclass(frozen=True, eq=False)
class Key:
    """The questions of a human study and the right answers. `id` is a digest of all the rest, so a study has one key.

    A task is {"id", "condition", "split", "labels": [of group 0, of group 1], "examples": [[item…], [item…]],
    "questions": {image: {"item", "group"}}}.
    """

    benchmark: Mapping[str, str]  # name and digest
    design: Design
    tasks: Sequence[Mapping[str, Any]]
    notes: tuple[str, ...] = ()

    @cached_property
    def id(self) -> str:
        content = [self.benchmark["digest"], asdict(self.design), list(self.tasks)]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

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
                f"Human study {self.id} was made of benchmark '{self.benchmark['name']}' with digest "
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


# The tasks

@dataclass(frozen=True, eq=False)
class Task:
    """Two groups of examples and images to sort into them; rows and labels are those of the benchmark."""

    condition: str
    split: str
    labels: tuple[int, int]  # of group 0 and group 1
    examples: tuple[Ints, Ints]
    questions: Ints
    truth: Ints  # 0 or 1 per question


class Deck:
    """Rows of a split and class, dealt in random order; none comes again before all have come."""

    def __init__(self, rows: Ints, rng: np.random.Generator) -> None:
        self.rows, self.rng, self.left = rows, rng, rng.permutation(rows)

    def deal(self, n: int) -> Ints:
        if len(self.left) < n:
            self.left = self.rng.permutation(self.rows)
        dealt, self.left = self.left[:n], self.left[n:]
        return dealt


def plan(benchmark: Benchmark, design: Design) -> tuple[list[Task], list[str]]:
    """The tasks in the order of the page, and notes on what could not be done.

    First every pair once, half of them under each condition, then every pair under its other condition: whoever does
    no more than the first half of the tasks sees no pair twice.
    """
    splits = {name: _split(benchmark, name) for name in design.conditions}
    needs = {EXAMPLES: design.examples} | dict.fromkeys(splits.values(), design.questions // 2)
    able, notes = _able(benchmark, needs)
    names = benchmark.names["label"]
    decks = {(split, code): Deck(benchmark.rows(split)[benchmark.label[benchmark.rows(split)] == code],
                                 child(design.seed, "annotation", split, names[code]))
             for split in needs for code in able}
    rng = child(design.seed, "annotation", "order")
    pairs = _pairs(able, names, design)
    dealt = []
    for index in rng.permutation(len(pairs)):
        labels = tuple(rng.permutation(pairs[index]).tolist())
        examples = (decks[EXAMPLES, labels[0]].deal(design.examples), decks[EXAMPLES, labels[1]].deal(design.examples))
        dealt.append((labels, examples))
    rounds = len(design.conditions)
    tasks = []
    for turn in range(rounds):
        for index, (labels, examples) in enumerate(dealt):
            condition = design.conditions[(index + turn) % rounds]
            asked = np.concatenate([decks[splits[condition], code].deal(design.questions // 2) for code in labels])
            order = rng.permutation(design.questions)
            tasks.append(Task(condition, splits[condition], labels, examples, asked[order],
                              np.repeat([0, 1], design.questions // 2)[order]))
    # The conditions take turns over pairs in random order; shuffling each round leaves no pattern to read off.
    half = len(dealt)
    return [tasks[start + index] for start in range(0, len(tasks), half) for index in rng.permutation(half)], notes


def _split(benchmark: Benchmark, condition: str) -> str:
    for split in CONDITIONS[condition]:
        if len(benchmark.rows(split)):
            return split
    others = [name for name in CONDITIONS if name != condition]
    raise ShiftBenchError(f"Benchmark '{benchmark.name}' has no split {' or '.join(CONDITIONS[condition])}, from which "
                          f"the images of condition '{condition}' come. Ask for condition {others[0]} alone.")


def _able(benchmark: Benchmark, needs: dict[str, int]) -> tuple[list[int], list[str]]:
    """The superclasses with enough items in every split, and a note on the others."""
    names = benchmark.names["label"]
    short: dict[int, str] = {}
    for split, n in needs.items():
        counts = np.bincount(benchmark.label[benchmark.rows(split)], minlength=len(names))
        short |= {int(code): f"{names[code]} ({counts[code]} of {n} in {split})" for code in np.flatnonzero(counts < n)}
    able = [code for code in range(len(names)) if code not in short]
    names_short = ", ".join(list(short.values())[:6]) + (f" and {len(short) - 6} more" if len(short) > 6 else "")
    if len(able) < 2:
        raise ShiftBenchError(f"Benchmark '{benchmark.name}': {len(able)} of {len(names)} superclasses have enough "
                              f"items for a human study, but two are needed. Too few: {names_short}. Lower 'examples' "
                              "or 'questions'.")
    many = f"{len(short)} superclasses have too few and are" if len(short) > 1 else "1 superclass has too few and is"
    return able, [f"{many} left out: {names_short}."] if short else []


def _pairs(able: Sequence[int], names: Sequence[str], design: Design) -> list[tuple[int, int]]:
    pairs: set[tuple[int, int]] = set()
    for code in able:
        others = [other for other in able if other != code]
        rng = child(design.seed, "annotation", "partners", names[code])
        for other in rng.permutation(others)[:design.partners].tolist():
            pairs.add((min(code, other), max(code, other)))
    return sorted(pairs)


# The folder

def write_study(
    benchmark: Benchmark, collection: Collection, out: Path | str, design: Design,
    progress: Advance | None = None,
) -> Key:
    """Write the folder of a human study and return its key. The same benchmark, design and seed make the same one.

    A folder with another human study is left alone, since its answers would be worthless without its key. The same
    study is recognised and not written again.
    """
    tasks, notes = plan(benchmark, design)
    rows = np.unique(np.concatenate([np.concatenate([*task.examples, task.questions]) for task in tasks]))
    numbers = child(design.seed, "annotation", "images").permutation(len(rows)) + 1
    names = {int(row): f"{number:04d}" for row, number in zip(rows, numbers, strict=True)}
    key = Key({"name": benchmark.name, "digest": benchmark.digest}, design,
              [_entry(benchmark, task, f"t{number:03d}", names) for number, task in enumerate(tasks, 1)], tuple(notes))
    if (Path(out) / MARKER).is_file():
        present = Key.load(out)
        if present.id == key.id and (Path(out) / "page" / "index.html").is_file():
            return present
        raise ShiftBenchError(f"{out} has human study {present.id}, and its answers need its key. Choose another "
                              f"folder for human study {key.id}.")
    items = collection.index(benchmark.items[rows])
    with writing_folder(out, MARKER) as staging:
        (staging / "page" / "images").mkdir(parents=True)
        order = np.argsort(numbers)  # the time a file was written says no more than its name
        for done, at in enumerate(order):
            picture = cropped(images(collection, items[at:at + 1])[0], design.rescale, design.size)
            picture.save(staging / "page" / "images" / f"{numbers[at]:04d}.jpg", quality=QUALITY, subsampling=0)
            if progress is not None:
                progress(done + 1, len(order))
        facts = {"study": key.id, "size": design.size, "first": len(key.pairs), "tasks": [
            {"id": entry["id"], "examples": [[names[int(row)] for row in side] for side in task.examples],
             "questions": list(entry["questions"])} for task, entry in zip(tasks, key.tasks, strict=True)]}
        (staging / "page" / "index.html").write_text(page(facts), encoding="utf-8")
        write_json(staging / MARKER, key.facts())
    return key


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


def page(facts: dict[str, Any]) -> str:
    """The page with its style, its script and its tasks inside."""
    here = files("shiftbench.human")
    whole = (here / "page.html").read_text(encoding="utf-8")
    for mark, text in (("/* style */", (here / "page.css").read_text(encoding="utf-8")),
                       ("/* script */", (here / "page.js").read_text(encoding="utf-8")),
                       ("/* study */", json.dumps(facts, separators=(",", ":")).replace("<", "\\u003c"))):
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
