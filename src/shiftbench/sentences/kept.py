"""Vectors of items on disk, each with a mark of what it was made from."""

import hashlib
import json
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftbench.arrays import Ints, Strs, digest
from shiftbench.errors import ShiftBenchError
from shiftbench.files import lock, write_json, write_rows
from shiftbench.sentences.encoders import Encoder

Vectors = npt.NDArray[np.float32]
Marks = npt.NDArray[np.uint64]

WAIT = 0.2
"""Seconds between two looks whether another process has finished."""


@dataclass(frozen=True, eq=False)
class Kept:
    """Two memory-mapped files, a row per item of the collection: its vector, and the mark of what that was made from.

    A mark of 0 stands for no vector.
    """

    place: Path
    vectors: Any
    marks: Any

    def write(self, rows: Ints, vectors: Vectors, marks: Marks) -> None:
        """The old mark goes first, the new one comes last: at no moment does a mark stand by another's vector."""
        write_rows(self.marks, rows, np.zeros_like(marks))
        write_rows(self.vectors, rows, vectors)
        write_rows(self.marks, rows, marks)


@contextmanager
def kept_vectors(folder: Path, encoder: Encoder, items: Strs) -> Iterator[Kept]:
    """The files in folder/texts/KEY/, made when they are not there, for this process alone.

    A second process waits: what it wants is being computed.
    """
    facts = {"encoder": encoder.key, "items": digest({"items": items}), "width": encoder.width}
    key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]
    place = folder / "texts" / key
    if not place.is_dir():
        _make(place, facts, (len(items), encoder.width))
    try:
        (place / "lock").touch()
    except OSError as problem:
        raise ShiftBenchError(f"{place}: cannot keep vectors there ({problem.strerror}).") from problem
    while True:
        with lock(place / "lock") as alone:
            if alone:
                yield _open(place, (len(items), encoder.width))
                return
        time.sleep(WAIT)


def _make(place: Path, facts: dict[str, Any], shape: tuple[int, int]) -> None:
    hidden = place.with_name(f".{place.name}-{uuid.uuid4().hex[:8]}")
    try:
        hidden.mkdir(parents=True)
        np.lib.format.open_memmap(hidden / "vectors.npy", "w+", np.float32, shape).flush()
        np.lib.format.open_memmap(hidden / "marks.npy", "w+", np.uint64, shape[:1]).flush()
        write_json(hidden / "vectors.json", facts)
        os.rename(hidden, place)
    except OSError as problem:
        shutil.rmtree(hidden, ignore_errors=True)
        if not place.is_dir():  # else another process was first: its files are as good
            raise ShiftBenchError(f"{place}: cannot keep vectors there ({problem.strerror}).") from problem


def _open(place: Path, shape: tuple[int, int]) -> Kept:
    found = []
    for name, wanted, kind in (("vectors.npy", shape, np.float32), ("marks.npy", shape[:1], np.uint64)):
        try:
            table = np.load(place / name, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError) as problem:
            raise ShiftBenchError(f"{place}: damaged ({problem}). Delete this folder, then try again.") from problem
        if table.shape != wanted or table.dtype != kind:
            raise ShiftBenchError(f"{place / name}: has {table.dtype} of shape {table.shape}, not {wanted}. Delete "
                                  f"the folder {place}; the vectors are computed again.")
        found.append(table)
    return Kept(place, *found)
