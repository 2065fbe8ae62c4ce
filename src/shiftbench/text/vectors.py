"""The captions of a collection as one vector per item, kept in a memory-mapped file beside the collection."""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shiftbench.core.arrays import (
    Bools,
    Ints,
    Strs,
    cached_rows,
    check_writable,
    digest,
    may_write,
    write_rows,
)
from shiftbench.core.errors import Advance, ShiftBenchError
from shiftbench.core.files import locked, making_folder, write_json
from shiftbench.data.collection import Collection
from shiftbench.text.bert import Vectors
from shiftbench.text.encoders import Encoder

Marks = npt.NDArray[np.uint64]


@contextmanager
def vector_cache(folder: Path, encoder: Encoder, items: Strs) -> Iterator[tuple[Any, Any]]:
    """Two memory-mapped files in folder/texts/KEY/, a row per item: its vector, and the mark of what that was made from
    (0: no vector). They are created where missing, for this process alone.

    A second process waits, since what it needs is being computed. A folder that may not be written is read as it is.
    """
    facts = {"encoder": encoder.key, "items": digest({"items": items}), "width": encoder.width}
    key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]
    cache, shape = folder / "texts" / key, (len(items), encoder.width)
    if not cache.is_dir():
        with making_folder(cache) as hidden:
            np.lib.format.open_memmap(hidden / "vectors.npy", "w+", np.float32, shape).flush()
            np.lib.format.open_memmap(hidden / "marks.npy", "w+", np.uint64, shape[:1]).flush()
            write_json(hidden / "vectors.json", facts)
    # Who may not write need not wait: a mark never belongs to another vector.
    with locked(cache / "lock") if may_write(cache / "marks.npy") else nullcontext():
        yield (cached_rows(cache / "vectors.npy", shape, np.float32),
               cached_rows(cache / "marks.npy", shape[:1], np.uint64))


CHUNK = 1024
"""Captions per write to disk and per report of progress."""


def embed_texts(collection: Collection, encoder: Encoder, folder: Path | str | None = None,
                progress: Advance | None = None) -> tuple[Ints, Vectors]:
    """Item numbers, sorted, and for each the mean over its captions of the encoder's vectors (NOOCh, §3.1.2).

        e(item) = 1/n Σ encoder(caption),  not scaled to unit length again: its users take cosines

    An item is listed only when it has a caption; a blank caption is none. The same text is encoded once.
    With `folder` (the collection's) vectors are kept in folder/texts/KEY/, where KEY depends on the encoder and the
    items; a vector counts only with the mark of the captions it was made from, written after it. So a killed process
    leaves nothing wrong behind, the next one goes on, and a changed caption recomputes its item and no other.
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
    with vector_cache(Path(folder), encoder, collection.items) as (vectors, marked):
        missing = marked[rows] != marks
        check_writable(vectors, int(missing.sum()))

        def keep(numbers: Ints, values: Vectors) -> None:
            """Clear the old mark first and write the new one last, so that a mark never belongs to another vector."""
            write_rows(marked, rows[numbers], np.zeros(len(numbers), np.uint64))
            write_rows(vectors, rows[numbers], values)
            write_rows(marked, rows[numbers], marks[numbers])

        _fill(encoder, text, starts, missing, progress, keep)
        return rows, vectors[rows]


def _captions(collection: Collection) -> tuple[Ints, list[str]]:
    """Item and text of every caption that is not blank, in the order of the items."""
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


def _fill(encoder: Encoder, text: Sequence[str], starts: Ints, missing: Bools, progress: Advance | None,
          keep: Callable[[Ints, Vectors], None]) -> None:
    """Compute the means of the missing items, chunk by chunk, and hand each chunk over.

    The vector of a text that a later chunk needs again is kept until its last use.
    """
    numbers = np.flatnonzero(missing)
    if not len(numbers):
        return
    counts = np.diff(starts, append=len(text))[numbers]
    captions = np.repeat(starts[numbers] - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
    try:
        distinct_texts = pa.array([text[k] for k in captions.tolist()], pa.large_string()).dictionary_encode()
    except UnicodeEncodeError as problem:
        raise ShiftBenchError(f"A caption holds half a character ({problem.reason}): {ascii(problem.object)[:60]}. "
                              "Correct it in the source.") from problem
    codes = np.asarray(distinct_texts.indices.to_numpy(), np.int64)
    last_use = np.zeros(len(distinct_texts.dictionary), np.int64)
    np.maximum.at(last_use, codes, np.arange(len(codes)))
    vector_of: dict[int, npt.NDArray[np.float32]] = {}
    ends = np.cumsum(counts)
    for chunk in np.split(np.arange(len(numbers)), np.flatnonzero(np.diff(ends // CHUNK)) + 1):
        start, stop = int(ends[chunk[0]] - counts[chunk[0]]), int(ends[chunk[-1]])
        distinct, position = np.unique(codes[start:stop], return_inverse=True)
        new = [code for code in distinct.tolist() if code not in vector_of]
        fresh = encoder.encode(distinct_texts.dictionary.take(pa.array(new, pa.int64())).to_pylist())
        vector_of.update(zip(new, fresh, strict=True))
        vectors = np.stack([vector_of[code] for code in distinct.tolist()])
        sums = np.add.reduceat(vectors[position].astype(np.float64), ends[chunk] - counts[chunk] - start, axis=0)
        keep(numbers[chunk], (sums / counts[chunk][:, None]).astype(np.float32))
        for code in distinct[last_use[distinct] < stop].tolist():
            del vector_of[code]
        if progress:
            progress(stop, len(codes))
