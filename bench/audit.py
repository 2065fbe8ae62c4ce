"""An audit, from two tables to findings: against sliceline and DivExplorer, and its growth up to 10 million rows.

    python bench/audit.py [--others PYTHON [PYTHON]] [--rows 10000000] [--out FOLDER]
    python docs/write_tables.py audit_speed FOLDER/audit_speed.md         docs/audit.md
    python docs/write_tables.py audit_growth FOLDER/audit_growth.md

PYTHON is the interpreter of an environment with `pip install sliceline==0.3.0 divexplorer==0.2.6 numba`, or one for
each of the two; without it our times are shown alone. All three are given the same table in memory, 20,000 rows with 12
columns of four values and an error per row, and look at every context of up to three predicates with at least 200 rows;
DivExplorer has no limit of depth, but no four values hold so many. Each is warm: compiled, and run once on a small
table. One cell of three predicates is worse: ours must name it first, and what the others name first is printed.
`search` is the search alone, as theirs; `sb.audit` is what a user calls: it joins two tables by id, makes the
predicates, searches on one half of the rows and tests on the other.

The growth is that of `sb.audit` of two parquet files, 60 columns of four values and the predictions, in a process of
its own that imports, reads, joins, searches all pairs and tests: a tenth, three tenths and all of the rows. Errors are
0 and 1; squared errors are real numbers. Time of processors is what counts where the machine has other work. With
`--rows 0` there is no growth.
"""

import argparse
import json
import math
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

LEAST, DEPTH = 200, 3
CELL = {1: 2, 4: 0, 7: 3}
COLUMNS, GROUP = 60, 1_000_000
OTHERS = {"sliceline": "sliceline 0.3.0", "divexplorer": "DivExplorer 0.2.6"}


def table(rows: int, columns: int, cell: dict[int, int]) -> tuple[Any, Any]:
    """Codes, columns × rows, and errors: one in ten, and four in ten in the cell."""
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, 4, rows, dtype=np.int8) for _ in range(columns)])
    bad = np.logical_and.reduce([codes[column] == value for column, value in cell.items()])
    return codes, rng.random(rows) < np.where(bad, 0.4, 0.1)


def memory() -> float:
    """The most memory that this process has had, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def seconds(work: Callable[[], object], times: int = 5) -> tuple[float, float]:
    """The time on the clock and on all processors, each the middle one of several runs."""
    each = []
    for _ in range(times):
        start = time.perf_counter(), time.process_time()
        work()
        each.append((time.perf_counter() - start[0], time.process_time() - start[1]))
    return statistics.median(wall for wall, _ in each), statistics.median(processors for _, processors in each)


def predicates_of(codes: Any) -> Any:
    """Every value of every column as a predicate."""
    from shiftbench.auditing.bit_sets import bits_of_codes
    from shiftbench.auditing.predicates import Predicate, Predicates

    listed = tuple(Predicate(f"c{c}", str(value), "factor", f"c{c}={value}")
                   for c in range(len(codes)) for value in range(4))
    bits = np.empty((len(listed), -(-codes.shape[1] // 64)), np.uint64)
    for c, column in enumerate(codes):
        bits[4 * c:4 * c + 4] = bits_of_codes(column, 4)
    return Predicates(listed, bits, codes.shape[1], np.repeat(np.arange(len(codes), dtype=np.int32), 4))


def sliceline(codes: Any, errors: Any) -> str:
    from sliceline.slicefinder import Slicefinder

    finder = Slicefinder(alpha=0.95, k=10, max_l=DEPTH, min_sup=LEAST, verbose=False)
    finder.fit(codes.T.astype(int), errors.astype(float))
    return " ".join(f"c{c}={value}" for c, value in enumerate(finder.top_slices_[0]) if value is not None)


def divexplorer(codes: Any, errors: Any) -> str:
    import pandas as pd
    from divexplorer import DivergenceExplorer

    columns = {f"c{c}": column.astype(int) for c, column in enumerate(codes)}
    frame = pd.DataFrame(columns | {"error": errors.astype(int)})
    patterns = DivergenceExplorer(frame).get_pattern_divergence(LEAST / len(frame), boolean_outcomes=["error"])
    best = patterns.sort_values("error_t", ascending=False)
    best = best[best["error_div"] > 0]
    return " ".join(sorted(best["itemset"].iloc[0]))


def other(name: str, file: str) -> None:
    """One of the others, in its own environment: print its time, its memory and its first context."""
    run = {"sliceline": sliceline, "divexplorer": divexplorer}[name]
    run(*table(2000, 4, {0: 1}))
    with np.load(file) as arrays:
        codes, errors = arrays["codes"], arrays["errors"]
    first: list[str] = []
    wall, processors = seconds(lambda: first.append(run(codes, errors)), times=1)
    print(json.dumps([wall, processors, memory(), first[0]]))


def compare(others: list[str]) -> list[str]:
    """Seconds of all on 20,000 × 12, and how many times ours go into them, as lines of a table."""
    from shiftbench.auditing.search import describe, search

    codes, errors = table(20_000, 12, CELL)
    predicates, loss = predicates_of(codes), errors * 1.0
    slices = search(predicates, loss, depth=DEPTH, least=LEAST)
    words = [predicates.list[p].words for p in slices.members[0]]
    assert sorted(words) == sorted(f"c{c}={value}" for c, value in CELL.items()), words
    ours = {"`sb.audit`": whole_audit(codes, errors),
            "its search alone": seconds(lambda: search(predicates_of(codes), loss, depth=DEPTH, least=LEAST)),
            "its search and choice": seconds(lambda: describe(
                predicates, loss, search(predicates_of(codes), loss, depth=DEPTH, least=LEAST)))}
    lines = [f"| {name} | {wall:.3f} | {processors:.3f} | {memory():.2f} | | |" for name, (wall, processors)
             in ours.items()]
    print(*lines, sep="\n", flush=True)
    audit = ours["`sb.audit`"]
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "table.npz", codes=codes, errors=errors)
        for name, python in zip(OTHERS, others * (2 if len(others) == 1 else 1), strict=False):
            wall, processors, most, first = run(python, "--run", name, str(Path(folder) / "table.npz"))
            print(f"{name}: first {first}")
            lines.append(f"| {OTHERS[name]} | {wall:.1f} | {processors:.1f} | {most:.2f} | {wall / audit[0]:,.0f} | "
                         f"{processors / audit[1]:,.0f} |")
            print(lines[-1], flush=True)
    return [f"| 20,000 × 12, depth 3, {slices.looked_at.sum():,} contexts | clock, s | processors, s | memory, GB | "
            "times `sb.audit`, by the clock | by processors |", "|--|--|--|--|--|--|", *lines]


def run(python: str, *words: str) -> list[Any]:
    """What this file prints last in a process of its own."""
    done = subprocess.run([python, __file__, *words], text=True, capture_output=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} failed: {done.stderr.strip().splitlines()[-1]}")
    return list(json.loads(done.stdout.splitlines()[-1]))


def whole_audit(codes: Any, errors: Any) -> tuple[float, float]:
    """What a user calls, from two tables in memory to findings."""
    import pyarrow as pa

    import shiftbench as sb

    ids = np.arange(len(errors)).astype(str)
    predictions = pa.table({"id": ids, "prediction": np.where(errors, "no", "yes")})
    data = pa.table({"id": ids, "label": np.full(len(ids), "yes")}
                    | {f"c{c}": np.char.add("v", column.astype(str)) for c, column in enumerate(codes)})
    audit = sb.audit(predictions, data, label="label", depth=DEPTH, least=LEAST // 2)
    print(*audit.sentences()[:3], sep="\n")
    return seconds(lambda: sb.audit(predictions, data, label="label", depth=DEPTH, least=LEAST // 2), times=9)


# Growth

def write_files(folder: Path, rows: int) -> None:
    """Two parquet files of so many rows, a row group at a time: two values together are worse by 2 points, or 10 %."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    values, word = pa.array(["v0", "v1", "v2", "v3"]), pa.dictionary(pa.int32(), pa.string())
    data = pa.schema([("id", pa.string()), ("label", pa.string()), ("target", pa.float32()),
                      *((f"c{c}", word) for c in range(COLUMNS))])
    guess = pa.schema([("id", pa.string()), ("prediction", pa.string()), ("score:target", pa.float32())])
    with pq.ParquetWriter(folder / "data.parquet", data) as table, pq.ParquetWriter(folder / "p.parquet", guess) as out:
        for start in range(0, rows, GROUP):
            rng, n = np.random.default_rng([0, start]), min(GROUP, rows - start)
            ids = pa.array(np.arange(start, start + n)).cast(pa.string())
            codes = [rng.integers(0, 4, n, dtype=np.int32) for _ in range(COLUMNS)]
            bad = (codes[1] == 2) & (codes[4] == 0)
            wrong = rng.random(n) < np.where(bad, 0.12, 0.1)
            table.write_table(pa.table([
                ids, pa.array(np.full(n, "yes")), pa.array(np.zeros(n, np.float32)),
                *(pa.DictionaryArray.from_arrays(pa.array(column), values) for column in codes)], schema=data))
            out.write_table(pa.table([ids, pa.array(np.where(wrong, "no", "yes")),
                                      pa.array((rng.normal(size=n) * (1 + 0.05 * bad)).astype(np.float32))],
                                     schema=guess))


def audit_files(loss: str, folder: str) -> None:
    """One audit of the two files: print its times, its memory and how many contexts it looked at."""
    start = time.perf_counter(), time.process_time()
    import shiftbench as sb

    real = loss != "error"
    audit = sb.audit(str(Path(folder) / "p.parquet"), str(Path(folder) / "data.parquet"), depth=2, loss=loss,
                     label="target" if real else "label", include="c*",
                     columns={"prediction": "score:target"} if real else None)
    times = time.perf_counter() - start[0], time.process_time() - start[1]
    assert not audit.findings or {one.column for one in audit.findings[0].members} == {"c1", "c4"}, audit.sentences()
    print(json.dumps([*times, memory(), audit.card["looked_at"]]))


def growth(rows: int) -> tuple[list[str], float]:
    """Times and memory of audits of a tenth, three tenths and all of the rows, as lines of a table; and their ratio:
    the time of processors of a row of the largest table, of errors, in that of a row of the smallest."""
    lines, per_row = [], []
    for n in (rows // 10, 3 * rows // 10, rows):
        with tempfile.TemporaryDirectory() as folder:
            write_files(Path(folder), n)
            for loss in ("error", "squared"):
                wall, processors, most, contexts = run(sys.executable, "--run", loss, folder)
                lines.append(f"| {n:,} × {COLUMNS} | {loss} | {contexts:,} | {wall:.1f} | {processors:.1f} | "
                             f"{1e6 * processors / n:.1f} | {most:.2f} |")
                per_row += [processors / n] if loss == "error" else []
                print(lines[-1], flush=True)
    return ["| rows × columns, depth 2 | loss | contexts | clock, s | processors, s | of a million rows | memory, GB |",
            "|--|--|--|--|--|--|--|", *lines], per_row[-1] / per_row[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--others", nargs="+", default=[], help="the Python of sliceline, and that of divexplorer")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--out", type=Path, help="a folder for the tables")
    parser.add_argument("--run", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        (other if options.run[0] in OTHERS else audit_files)(*options.run)
        return
    parts: dict[str, Callable[[], tuple[list[str], float]]] = {
        "audit_speed": lambda: (compare(options.others), math.nan)}
    if options.rows:
        parts["audit_growth"] = lambda: growth(options.rows)
    for name, work in parts.items():
        before = os.getloadavg()[0]
        lines, ratio = work()
        machine = (f"{os.cpu_count()} processors, {platform.machine()}, {platform.system()}; the machine had other "
                   f"work: a load of {before:.1f} before the run, {os.getloadavg()[0]:.1f} after it.")
        print(machine)
        if options.out:
            options.out.mkdir(parents=True, exist_ok=True)
            (options.out / f"{name}.md").write_text("\n".join([*lines, "", machine, ""]), encoding="utf-8")
        if math.isfinite(ratio):
            print(f"ratio: {ratio:.1f}")


if __name__ == "__main__":
    sys.exit(main())
