"""Vectors of items on disk, each with a mark of what it was made from."""

import hashlib
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftbench.arrays import Ints, Strs, digest
from shiftbench.files import kept_rows, lock, may_write, write_json, write_rows
from shiftbench.sentences.encoders import Encoder
from shiftbench.staging import making_folder

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

    A second process waits: what it wants is being computed. A folder that may not be written is read as it is.
    """
    facts = {"encoder": encoder.key, "items": digest({"items": items}), "width": encoder.width}
    key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]
    place = folder / "texts" / key
    if not place.is_dir():
        _make(place, facts, (len(items), encoder.width))
    if not may_write(place / "marks.npy"):  # no need to wait: a mark never stands by a wrong vector
        yield _open(place, (len(items), encoder.width))
        return
    while True:
        with lock(place / "lock") as alone:
            if alone:
                yield _open(place, (len(items), encoder.width))
                return
        time.sleep(WAIT)


def _make(place: Path, facts: dict[str, Any], shape: tuple[int, int]) -> None:
    with making_folder(place) as hidden:
        np.lib.format.open_memmap(hidden / "vectors.npy", "w+", np.float32, shape).flush()
        np.lib.format.open_memmap(hidden / "marks.npy", "w+", np.uint64, shape[:1]).flush()
        write_json(hidden / "vectors.json", facts)


def _open(place: Path, shape: tuple[int, int]) -> Kept:
    return Kept(place, kept_rows(place / "vectors.npy", shape, np.float32),
                kept_rows(place / "marks.npy", shape[:1], np.uint64))
