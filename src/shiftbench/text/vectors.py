"""The captions of a collection as one vector per item, kept in a memory-mapped file beside the collection."""

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shiftbench.core.arrays import Bools, Ints, Strs, cached_rows, check_writable, digest, may_write, write_rows
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import lock, making_folder, write_json
from shiftbench.data.collection import Collection
from shiftbench.text.encoders import Encoder

# Vectors of items on disk, each with a mark of what it was made from.

Vectors = npt.NDArray[np.float32]
Marks = npt.NDArray[np.uint64]

WAIT = 0.2
"""Seconds between two looks whether another process has finished."""


@dataclass(frozen=True, eq=False)
class Kept:
    """Two memory-mapped files, a row per item of the collection: its vector, and the mark of what that was made from.

    A mark of 0 stands for no vector.
    """

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
    cache = folder / "texts" / key
    if not cache.is_dir():
        _make(cache, facts, (len(items), encoder.width))
    if not may_write(cache / "marks.npy"):  # no need to wait: a mark never stands by a wrong vector
        yield _open(cache, (len(items), encoder.width))
        return
    while True:
        with lock(cache / "lock") as alone:
            if alone:
                yield _open(cache, (len(items), encoder.width))
                return
        time.sleep(WAIT)


def _make(cache: Path, facts: dict[str, Any], shape: tuple[int, int]) -> None:
    with making_folder(cache) as hidden:
        np.lib.format.open_memmap(hidden / "vectors.npy", "w+", np.float32, shape).flush()
        np.lib.format.open_memmap(hidden / "marks.npy", "w+", np.uint64, shape[:1]).flush()
        write_json(hidden / "vectors.json", facts)


def _open(cache: Path, shape: tuple[int, int]) -> Kept:
    return Kept(cached_rows(cache / "vectors.npy", shape, np.float32),
                cached_rows(cache / "marks.npy", shape[:1], np.uint64))


Report = Callable[[int, int], None]

CHUNK = 1024
"""Captions between two writes to disk and two reports of progress."""


def embed_texts(collection: Collection, encoder: Encoder, folder: Path | str | None = None,
                progress: Report | None = None) -> tuple[Ints, Vectors]:
    """Item numbers, sorted, and for each the mean over its captions of the encoder's vectors (NOOCh, §3.1.2).

        e(item) = 1/n Σ encoder(caption),  not brought to unit length again: its users take cosines

    An item is listed only when it has a caption; a blank caption is none. The same text is encoded once.
    With `folder` (the collection's) vectors are kept in folder/texts/KEY/, where KEY stands for the encoder and the
    items; a vector counts only with the mark of the captions it was made from, written after it. So a killed process
    leaves nothing wrong behind, the next one goes on, and a changed caption has its item, and no other, done again.
    `progress` gets the number of captions done and of all that were missing.
    """
    item, text = _captions(collection)
    starts = np.flatnonzero(np.diff(item, prepend=-1))
    rows = item[starts]
    if folder is None:
        out: Vectors = np.empty((len(rows), encoder.width), np.float32)
        _fill(encoder, text, starts, np.ones(len(rows), np.bool_), progress, out.__setitem__)
        return rows, out
    marks = _marks(text, starts)
    with kept_vectors(Path(folder), encoder, collection.items) as kept:
        missing = kept.marks[rows] != marks
        check_writable(kept.vectors, int(missing.sum()))
        _fill(encoder, text, starts, missing, progress,
              lambda which, values: kept.write(rows[which], values, marks[which]))
        return rows, kept.vectors[rows]


def _captions(collection: Collection) -> tuple[Ints, list[str]]:
    """Item and text of every caption that says something, in the order of the items."""
    item, text = collection.texts
    nonblank = np.asarray([isinstance(caption, str) and caption.strip() != "" for caption in text], np.bool_)
    if not nonblank.any():
        raise ShiftBenchError(f"Collection '{collection.name}' has no captions, so there is no text to embed. Read it "
                              "again with them (COCO: add the captions_*.json file to its sources).")
    order = np.flatnonzero(nonblank)
    order = order[np.argsort(item[order], kind="stable")]
    return item[order], text[order].tolist()


def _marks(text: Sequence[str], starts: Ints) -> Marks:
    """A number per item that identifies its captions, independent of their order; never 0, which means none."""
    marks = []
    for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(text)], strict=True):
        total = hashlib.blake2b(digest_size=8)
        for caption in sorted(text[start:stop]):
            encoded = caption.encode("utf-8", "surrogatepass")
            total.update(len(encoded).to_bytes(8, "little") + encoded)
        marks.append(int.from_bytes(total.digest(), "little") or 1)
    return np.asarray(marks, np.uint64)


def _fill(encoder: Encoder, text: Sequence[str], starts: Ints, missing: Bools, progress: Report | None,
          keep: Callable[[Ints, Vectors], None]) -> None:
    """Compute the means of the missing items, chunk by chunk, and hand each chunk over.

    A text that a later chunk needs again is held until its last use.
    """
    which = np.flatnonzero(missing)
    if not len(which):
        return
    counts = np.diff(starts, append=len(text))[which]
    inside = np.repeat(starts[which] - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
    try:
        words = pa.array([text[k] for k in inside.tolist()], pa.large_string()).dictionary_encode()
    except UnicodeEncodeError as problem:
        raise ShiftBenchError(f"A caption holds half a character ({problem.reason}): {ascii(problem.object)[:60]}. "
                              "Correct it in the source.") from problem
    codes = np.asarray(words.indices.to_numpy(), np.int64)
    last_use = np.zeros(len(words.dictionary), np.int64)
    np.maximum.at(last_use, codes, np.arange(len(codes)))
    held: dict[int, npt.NDArray[np.float32]] = {}
    ends = np.cumsum(counts)
    for chunk in np.split(np.arange(len(which)), np.flatnonzero(np.diff(ends // CHUNK)) + 1):
        start, stop = int(ends[chunk[0]] - counts[chunk[0]]), int(ends[chunk[-1]])
        distinct, position = np.unique(codes[start:stop], return_inverse=True)
        new = [code for code in distinct.tolist() if code not in held]
        fresh = encoder.encode(words.dictionary.take(pa.array(new, pa.int64())).to_pylist())
        held.update(zip(new, fresh, strict=True))
        vectors = np.stack([held[code] for code in distinct.tolist()])
        sums = np.add.reduceat(vectors[position].astype(np.float64), ends[chunk] - counts[chunk] - start, axis=0)
        keep(which[chunk], (sums / counts[chunk][:, None]).astype(np.float32))
        for code in distinct[last_use[distinct] < stop].tolist():
            del held[code]
        if progress:
            progress(stop, len(codes))
