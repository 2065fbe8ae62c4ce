"""All meta-graphs of collections that are streamed from parquet: time and memory at growing numbers of items.

Tables of (item, tag) are written to a temporary folder piece by piece, never held as a whole, and counted each in a
process of its own, which reports its time and the most memory it ever had; small tables are counted several times, and
the median is taken. Time is to be linear and memory flat: the last line is the time of the largest table over that of
the smallest, divided by how many times larger it is: 1 is linear. It is the time of all processors, which others who
use the machine disturb less than that on the wall.

    python bench/stream.py [--items 1000000 3000000 10000000] [--tags 400] [--mean 8]
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from shiftbench.core.arrays import child
from shiftbench.core.files import write_json
from shiftbench.data.collection import FORMAT, MARKER
from shiftbench.metagraph.catalogue import streamed

PIECE = 50_000  # items written at a time
THEMES = 20


def write(folder: Path, n_items: int, n_tags: int, mean: float) -> int:
    """A collection on disk with common and rare tags and themes in which tags meet; gives the number of rows."""
    folder.mkdir()
    rng = child(0, "bench", "stream")
    common = 1 / np.arange(1, n_tags + 1) ** 0.8
    liking = common * np.where(rng.random((THEMES, n_tags)) < 0.15, 1.0, 0.05)
    ladder = (np.cumsum(liking / liking.sum(axis=1, keepdims=True), axis=1) + np.arange(THEMES)[:, None]).ravel()
    names = [f"tag{code:04d}" for code in range(n_tags)]
    vocabulary = pa.array([f"object:{name}" for name in names])
    coded = pa.dictionary(pa.int32(), pa.string())
    schema = pa.schema({"item": coded, "tag": coded, "area": pa.float32()})
    rows = 0
    with pq.ParquetWriter(folder / "tags.parquet", schema, compression="zstd") as file:
        for low in range(0, n_items, PIECE):
            n = min(PIECE, n_items - low)
            item = low + np.repeat(np.arange(n), 1 + rng.poisson(mean, n))
            theme = item % THEMES
            tag = np.searchsorted(ladder, theme + rng.random(len(item))) - theme * n_tags
            keys = np.sort(((item - low) * n_tags + np.clip(tag, 0, n_tags - 1)).astype(np.int32))
            keys = keys[np.diff(keys, prepend=-1) > 0]
            ids = pc.utf8_lpad(pc.cast(pa.array(np.arange(low, low + n)), pa.string()), 10, padding="0")
            file.write_table(pa.table({
                "item": pa.DictionaryArray.from_arrays(pa.array(keys // n_tags), ids),
                "tag": pa.DictionaryArray.from_arrays(pa.array(keys % n_tags), vocabulary),
                "area": pa.nulls(len(keys), pa.float32())}, schema))
            rows += len(keys)
    write_json(folder / MARKER, {"format": "shiftbench collection", "version": FORMAT, "name": "bench",
                                 "items": n_items, "tags": [names, ["object"] * n_tags]})
    return rows


def count(folder: str, warm: str, times: str) -> None:
    """In a process of its own: count once for the compiler, then for the clock."""
    streamed(warm)
    taken = []
    for _ in range(int(times)):
        start = time.perf_counter(), time.process_time()
        found = streamed(folder)
        taken.append((time.perf_counter() - start[0], time.process_time() - start[1]))
    seconds, busy = np.median(taken, axis=0)
    print(json.dumps({"seconds": seconds, "busy": busy, "subsets": len(found.sizes), "edges": len(found.edges.weight),
                      "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, nargs="+", default=[1_000_000, 3_000_000, 10_000_000])
    parser.add_argument("--tags", type=int, default=400)
    parser.add_argument("--mean", type=float, default=8, help="tags of an item, on average, before doubles fall away")
    parser.add_argument("--count", nargs=3, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.count:
        count(*asked.count)
        return
    done = []
    with TemporaryDirectory() as place:
        root = Path(place)
        write(root / "warm", 20_000, asked.tags, asked.mean)
        for n in asked.items:
            begun = time.perf_counter()
            rows = write(root / str(n), n, asked.tags, asked.mean)
            made = time.perf_counter() - begun
            times = max(max(asked.items) // n // 2, 1)
            said = subprocess.run([sys.executable, __file__, "--count", root / str(n), root / "warm", str(times)],
                                  capture_output=True, text=True, check=True)
            facts = json.loads(said.stdout)
            done.append(facts["busy"])
            table = root / str(n) / "tags.parquet"
            print(f"{n:>12,} items, {rows:>11,} rows, {table.stat().st_size / 1e6:.0f} MB on disk: "
                  f"{facts['seconds']:.1f} s ({facts['busy']:.1f} s of processor time, "
                  f"{n / facts['seconds'] / 1e3:,.0f} thousand items/s), "
                  f"peak memory {facts['memory']:.2f} GB; {facts['subsets']:,} subsets, {facts['edges']:,} edges "
                  f"(written in {made:.0f} s)", flush=True)
            table.unlink()
    print(f"ratio: {done[-1] / done[0] / (asked.items[-1] / asked.items[0]):.1f}")


if __name__ == "__main__":
    main()
