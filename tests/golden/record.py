"""What is the same on every machine: rows of benchmarks, scores of predictions that are at hand, JSON of commands.

    python -m tests.golden.record      writes the three files beside this one anew

A change in them is a change that users see; the commit that makes it says why. What a processor has a say in (trained
nets) is not recorded here.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from shiftbench.cli import main
from shiftbench.core.arrays import child
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.prediction_lists import Answers
from shiftbench.data.predictions import Predictions
from shiftbench.data.scores import Scores
from shiftbench.data.target import (
    BOXES,
    TOKEN_KINDS,
    TOKENS,
    BoxTarget,
    NumberTarget,
    Target,
    TaskTarget,
    TokenTarget,
    boxes_of,
    boxes_text,
    kinds_text,
    tokens_of,
    tokens_text,
)
from shiftbench.scoring import means, score
from shiftbench.shifts.suites import SUITES, suite
from shiftbench.worlds import WORLDS

FOLDER = Path(__file__).parent
SCENES, SPRITES = {"items": 12_000, "seed": 0, "size": 32}, {"items": 6000, "seed": 0}
GIST = "gist"  # these benchmarks look at sentence vectors, whose last bits are the processor's


def digests(scenes: Collection, sprites: Collection) -> dict[str, dict[str, str]]:
    """Suite -> benchmark -> digest of its rows, of every suite that is made for a built-in world."""
    world = {name: sprites if "/sprites/" in name else scenes
             for name in SUITES if "/sprites/" in name or "/world" in name}
    return {name: {key: shift.build(collection, 0).digest for key, shift in suite(name) if GIST not in key}
            for name, collection in world.items()}


def scores(scenes: Collection, sprites: Collection) -> dict[str, list[list[Any]]]:
    """Name -> rows of scores: a run on a benchmark of each paper and each kind of target, and means of two methods."""
    table: dict[str, list[list[Any]]] = {}
    for name, benchmark in benchmarks(scenes, sprites):
        table[name] = listed(score(benchmark, guesses(benchmark, 0), method="erm"))
        runs = {method: [guesses(benchmark, 2 * code + seed) for seed in range(2)]
                for code, method in enumerate(("erm", "irm"))}
        table[f"{name}, means"] = listed(means(benchmark, runs))
    return table


def listed(scored: Scores) -> list[list[Any]]:
    """Rows as plain lists, those of `test` and of gaps alone, in the order of their names."""
    keys = ("method", "stat", "split", "by", "group", "metric", "n", "value", "low", "high", "p")
    rows = [[row[key] for key in keys] for row in scored if row["split"] not in ("train", "id_val", "val", "id_test")]
    return sorted(([None if value != value else value for value in row] for row in rows), key=lambda row: row[:6])


def benchmarks(scenes: Collection, sprites: Collection) -> Iterator[tuple[str, Benchmark]]:
    """A benchmark of each paper on the built-in worlds, and one of each kind of target that is no class."""
    members = (("metashift/world/table1", "cat-dog-1", scenes), ("metashift/world/table2", "minority-6", scenes),
               ("breeds/world", "rand", scenes), ("nooch/world", "ce-bus", scenes),
               ("fine_grained/sprites/low_data", "low-10", sprites))
    for name, key, collection in members:
        yield f"{name}/{key}", dict(suite(name))[key].build(collection, 0)
    n, rng = 90, child(0, "golden")
    split = np.repeat(["id_test", "test"], n // 2)
    place = np.asarray(["north", "south", "west"])[rng.integers(0, 3, n)]
    numbers = {"wealth": rng.normal(size=n)}
    yield "number", _of_target(split, place, NumberTarget(("wealth",)), numbers)
    tasks = {name: np.where(rng.random(n) < 0.2, np.nan, rng.integers(0, 2, n)) for name in ("p", "q")}
    yield "tasks", _of_target(split, place, TaskTarget(("p", "q")), tasks)
    row = np.repeat(np.arange(n), 2)
    corner = rng.random((2 * n, 2)) / 2
    boxes = boxes_text(row, np.concatenate([corner, corner + 0.25], axis=1), n)
    yield "boxes", _of_target(split, place, BoxTarget((BOXES,)), {BOXES: boxes})
    tokens = tokens_text(rng.integers(0, 20, (n, 6)))
    kinds = kinds_text(rng.integers(0, 7, (n, 6)))
    yield "tokens", _of_target(split, place, TokenTarget((TOKENS,), 20), {TOKENS: tokens, TOKEN_KINDS: kinds})


def _of_target(split: np.ndarray, domain: np.ndarray, target: Target, extra: dict[str, np.ndarray]) -> Benchmark:
    n = len(split)
    collection = Collection(target.kind, np.asarray([f"i{row:03d}" for row in range(n)]))
    return Benchmark.of(collection, None, 0, np.arange(n), split, label=np.full(n, target.kind), domain=domain,
                        extra=extra, target=target)


def guesses(benchmark: Benchmark, seed: int) -> Predictions | Answers:
    """Predictions of a model that knows something: the truth with noise, the same on every machine."""
    rng, target = child(seed, "guesses", benchmark.digest), benchmark.target
    if target.kind == "boxes":
        row, box = boxes_of(benchmark.extra[BOXES])
        near = np.clip(box + rng.normal(size=(len(box), 1)) * 0.02, 0, 1).astype(np.float32)
        sure = rng.random(len(box)).astype(np.float32)
        each = [row == number for number in range(len(benchmark))]
        return Answers.of(benchmark.items, benchmark.split, {
            "boxes": [near[mine] for mine in each], "scores": [sure[mine] for mine in each]})
    if target.kind == "tokens":
        tokens = np.roll(tokens_of(benchmark.extra[TOKENS]), -1, axis=1)  # a prediction is of the place behind it
        known = rng.random(tokens.shape) < 0.6
        return Answers.of(benchmark.items, benchmark.split, {
            "tokens": list(np.where(known, tokens, rng.integers(0, target.n, tokens.shape)))})
    if target.kind == "class":
        truth = np.eye(len(benchmark.names["label"]))[benchmark.label]
    else:
        truth = np.nan_to_num(np.stack([benchmark.extra[name] for name in target.columns], axis=1), nan=0.5)
    noisy = (truth + rng.normal(size=truth.shape) * 0.6).astype(np.float32)
    return Predictions(benchmark.items, benchmark.split, noisy, benchmark.names["label"])


def views(scenes: Collection, folder: Path) -> dict[str, Any]:
    """What `show`, `graph`, `hierarchy` and `board` print with --json, of one small world."""
    scenes.save(folder / "scenes")
    benchmark = dict(suite("metashift/world/table2"))["minority-6"].build(scenes, 0)
    benchmark.save(folder / "minority-6")
    for name, first in (("sure", 0), ("other", 3)):
        (folder / "submissions" / name).mkdir(parents=True)
        lines = {"method": name, "authors": [name], "selected_on": "id_val", "external_data": False,
                 "benchmark": benchmark.digest}
        (folder / "submissions" / name / "submission.toml").write_text(
            "".join(f"{key} = {json.dumps(value)}\n" for key, value in lines.items()))
        for seed in range(3):
            guesses(benchmark, first + seed).save(folder / "submissions" / name / f"seed-{seed}.parquet")
    return {
        "show collection": _printed("show", folder / "scenes", "--json"),
        "show benchmark": _printed("show", folder / "minority-6", "--json"),
        "graph": _printed("graph", folder / "scenes", "--class", "dog", "--from", "dog(shelf)", "--json"),
        "graph --all": _printed("graph", folder / "scenes", "--all", "--json"),
        "hierarchy": _printed("hierarchy", folder / "scenes", "--level", 2, "--json"),
        "board": _board(folder, "board", folder / "submissions", "--benchmark", folder / "minority-6", "--out",
                        folder / "board"),
    }


def _printed(*words: Any) -> Any:
    """The JSON that a command prints."""
    out = StringIO()
    before, sys.argv = sys.argv, ["shiftbench", *map(str, words)]
    try:
        with redirect_stdout(out), suppress(SystemExit):
            main()
    finally:
        sys.argv = before
    return json.loads(out.getvalue())


def _board(folder: Path, *words: Any) -> Any:
    """What a board writes, without what names the machine or the day."""
    _printed(*words, "--json")
    return json.loads((folder / "board" / "board.json").read_text())


def record() -> dict[str, Any]:
    """File name -> what is in it."""
    scenes, sprites = WORLDS["scenes"](**SCENES), WORLDS["sprites"](**SPRITES)
    with TemporaryDirectory() as folder:
        shown = views(WORLDS["scenes"](**{**SCENES, "items": 6000}), Path(folder))
    return {"digests.json": digests(scenes, sprites), "scores.json": scores(scenes, sprites), "views.json": shown}


def differences(mine: Any, golden: Any, where: str = "") -> list[str]:
    """Where two records differ; numbers may in their last digits, which libraries of linear algebra have a say in."""
    if isinstance(golden, dict) and isinstance(mine, dict):
        lines = [f"{where}/{key}: {'new' if key in mine else 'gone'}" for key in mine.keys() ^ golden.keys()]
        return lines + [line for key in golden if key in mine
                        for line in differences(mine[key], golden[key], f"{where}/{key}")]
    if isinstance(golden, list) and isinstance(mine, list) and len(golden) == len(mine):
        return [line for at, pair in enumerate(zip(mine, golden, strict=True))
                for line in differences(*pair, f"{where}/{at}")]
    if isinstance(golden, float) and isinstance(mine, int | float):
        return [] if abs(mine - golden) <= 1e-7 + 1e-7 * abs(golden) else [f"{where}: {mine}, recorded {golden}"]
    return [] if mine == golden else [f"{where}: {str(mine)[:80]}, recorded {str(golden)[:80]}"]


if __name__ == "__main__":
    for name, content in record().items():
        (FOLDER / name).write_text(json.dumps(content, indent=None, separators=(",", ":"), ensure_ascii=False) + "\n")
        print(f"{FOLDER / name}: {(FOLDER / name).stat().st_size:,} bytes")
