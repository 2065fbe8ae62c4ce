"""Batch after batch, each kept on disk until all are there: a killed process goes on, and ends with the same bytes."""

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import lock, read_json, write_json

Scores = npt.NDArray[np.float32]
Compute = Callable[[int, int], npt.NDArray[Any]]
Report = Callable[[int, int], None]
SCORES, FACTS = "scores.float32", "batches.json"


def folder_of(out: Path | str) -> Path:
    """The folder beside an output file that holds its finished batches."""
    return Path(f"{out}.batches")


def in_batches(
    n: int, width: int, size: int, compute: Compute, progress: Report | None = None,
) -> Scores:
    """compute(start, stop) of every batch of `size` items, n × width."""
    scores = np.empty((n, width), np.float32)
    for start in range(0, n, size):
        stop = min(start + size, n)
        scores[start:stop] = compute(start, stop)
        if progress:
            progress(stop, n)
    return scores


def in_kept_batches(
    folder: Path, facts: Mapping[str, Any], n: int, width: int, size: int, compute: Compute,
    progress: Report | None = None, say: Callable[[str], None] | None = None,
) -> Scores:
    """The same, with the batches that `folder` has from an earlier process. `drop` removes it when all is saved.

    `facts` describe all that the numbers depend on; batches of other facts are thrown away. A batch counts when it is
    whole in the file: what a killed process has written of its last one is written again.
    """
    wanted = {**facts, "items": n, "width": width, "batch_size": size}
    folder.mkdir(parents=True, exist_ok=True)
    with lock(folder / "lock") as held:
        if not held:
            raise ShiftBenchError(f"{folder}: another process is writing these predictions. Wait for it, or end it.")
        if (folder / FACTS).is_file() and read_json(folder / FACTS) != wanted:
            (folder / SCORES).unlink(missing_ok=True)
            if say:
                say(f"{folder} has batches of another model or other settings: starting anew")
        write_json(folder / FACTS, wanted)
        return _go_on(folder / SCORES, n, width, size, compute, progress, say)


def _go_on(
    path: Path, n: int, width: int, size: int, compute: Compute, progress: Report | None,
    say: Callable[[str], None] | None,
) -> Scores:
    row = 4 * width
    with path.open("ab") as file:
        done = min(file.tell() // row, n)
        done -= 0 if done == n else done % size
        file.truncate(done * row)
        if done and say:
            say(f"{done:,} of {n:,} items were predicted before; going on")

        def compute_and_keep(start: int, stop: int) -> npt.NDArray[Any]:
            values = np.asarray(compute(start + done, stop + done), np.float32)
            file.write(values.tobytes())
            file.flush()
            os.fsync(file.fileno())
            return values

        def advance(at: int, _: int) -> None:
            if progress:
                progress(at + done, n)

        rest = in_batches(n - done, width, size, compute_and_keep, advance)
    before = np.fromfile(path, np.float32, done * width).reshape(done, width)
    return np.concatenate([before, rest])


def drop(folder: Path) -> None:
    """Remove the batches of an output that is whole."""
    shutil.rmtree(folder, ignore_errors=True)
