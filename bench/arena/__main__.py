"""Who finds what was planted, and who reports what is not there.

    python -m bench.arena --env sliceline=ENV/bin/python … --out arena.json
    python docs/write_tables.py arena arena.json

A runner for another tool needs an environment of its own: python -m venv ENV; ENV/bin/pip install sliceline==0.3.0
pandas (DivExplorer==0.2.6 pandas; pysubgroup==0.9.0 pandas; giskard==2.19.2; deepchecks==0.19.1 "numpy<2"
"scikit-learn<1.5" "setuptools<80"). TOOL is the name of a function of others.py, of which Giskard has two.
Ours is called as a user does, sb.audit on two tables, at --fdr 0.1.

Tools work side by side, each in a process of its own. A tool goes through all cases in --rounds rounds. Before the
first draw of a case it looks at --nulls tables with nothing to find: those of the case with their errors permuted. In a
round it then does --least draws of a case, and goes on up to --draws while it has used less than --seconds of processor
time, so that fast ones do more. Results are written after every case, beside those that --out has of other cases and
tools: runs of a few of them (--only, --env) add up. Per case and tool:

    recall      planted contexts that a report names: at least half of the items of both are in both
    precision   reported contexts that name a planted one; None where nothing is reported in any draw
    fdr         share of reported contexts whose true risk is not above that of the rest; 0 where nothing is reported
    reports     draws in which anything is reported; where nothing is planted, each of them is wrong
    nulls       permuted tables of this kind, and null_reports: the share of them with a report
    at_equal    recall and precision of the contexts whose score is above what one of ten permuted tables reaches, if
                there are 20 of these: what the tool would be worth at our false discovery rate; ours as it is

`recall_error` and `precision_error` are standard errors of a share to which two hits and two misses are added: where
all of a few draws agree, it is not 0.
"""

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bench.arena.tables import CASES, Cell, Table, draw, draw_null, inside
from shiftbench.core.files import write_json

HALF, FDR = 0.5, 0.1
FEW = 20
"""Permuted tables, below which one of ten is not a number to go by."""
LARGE = 10_000
"""Rows above which a table comes last: it takes slow tools ten seconds and more."""
OURS = "shiftbench"


class Context(NamedTuple):
    """A reported context: the number that its tool ranks by, the planted ones it names, and whether it is false."""

    score: float
    named: tuple[bool, ...]
    false: bool


class Report(NamedTuple):
    """What a tool says of one table."""

    contexts: tuple[Context, ...]
    planted: int
    seconds: float


def judged(table: Table, cells: Sequence[tuple[Cell, float]], seconds: float) -> Report:
    """What a report is worth, by the risk that the table was drawn with."""
    planted = [inside(table.codes, cell) for cell in table.cells]
    contexts = []
    for cell, score in cells:
        mask = inside(table.codes, cell)
        named = tuple(bool((mask & other).sum() >= HALF * (mask | other).sum()) for other in planted)
        contexts.append(Context(score, named, bool(table.risk[mask].mean() <= table.risk[~mask].mean() + 1e-9)))
    return Report(tuple(contexts), len(planted), seconds)


def ours(table: Table) -> Report:
    """What `sb.audit` reports, contexts within others too."""
    import shiftbench as sb

    ids = [f"i{number}" for number in range(len(table.error))]
    names = [f"c{column}" for column in range(table.codes.shape[1])]
    data = {"id": ids, "label": ["yes"] * len(ids), **dict(zip(names, table.codes.T.astype(str), strict=True))}
    start = time.thread_time()
    audit = sb.audit({"id": ids, "prediction": np.where(table.error, "no", "yes")}, data, include=names, least=20,
                     fdr=FDR)
    cells = [({int(one.column[1:]): int(one.value) for one in finding.members}, np.inf) for finding in audit]
    return judged(table, cells, time.thread_time() - start)


def other(tool: str, python: str) -> Callable[[Table], Report]:
    """A process of another tool in its own environment, which is asked table by table."""
    process = subprocess.Popen([python, str(Path(__file__).with_name("others.py")), tool], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdin is not None
    assert process.stdout is not None

    def ask(table: Table) -> Report:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "table.npz"
            np.savez(path, codes=table.codes, error=table.error)
            print(path, file=process.stdin, flush=True)
            line = next((line for line in process.stdout if line.startswith("REPORT ")), "")
        if not line:
            raise RuntimeError(f"{tool} ended in an error: {python} {Path(__file__).with_name('others.py')} {tool}")
        answer = json.loads(line.removeprefix("REPORT "))
        cells = [({int(column): value for column, value in cell.items()}, score) for cell, score in answer["cells"]]
        return judged(table, cells, answer["seconds"])

    return ask


def means(reports: Sequence[Report], bar: float = -np.inf) -> dict[str, float | None]:
    """Means over reports, of the contexts whose score is above a bar."""
    rows = []
    for report in reports:
        shown = [context for context in report.contexts if context.score > bar]
        named = np.asarray([context.named for context in shown], np.bool_).reshape(len(shown), report.planted)
        rows.append([named.any(axis=0).mean() if report.planted else np.nan,
                     named.any(axis=1).mean() if report.planted and shown else np.nan,
                     np.mean([context.false for context in shown]) if shown else 0.0, bool(shown)])
    recall, precision, fdr, shown = np.asarray(rows, np.float64).T
    return {"recall": _mean(recall), "recall_error": _error(recall), "precision": _mean(precision),
            "precision_error": _error(precision), "fdr": _mean(fdr), "reports": _mean(shown)}


def _mean(shares: npt.NDArray[np.float64]) -> float | None:
    known = shares[~np.isnan(shares)]
    return float(known.mean()) if len(known) else None


def _error(shares: npt.NDArray[np.float64]) -> float | None:
    """The standard error of a mean of shares, with two hits and two misses added."""
    known = shares[~np.isnan(shares)]
    mean = (known.sum() + 2) / (len(known) + 4)
    return float(np.sqrt(mean * (1 - mean) / (len(known) + 4))) if len(known) else None


Reports = dict[tuple[str, str], list[Report]]
"""By case and tool."""


def rows_of(reports: Reports, nulls: Reports) -> list[dict[str, Any]]:
    """A line of the results per case and tool."""
    rows, tools = [], [OURS, *dict.fromkeys(tool for _, tool in list(reports) if tool != OURS)]
    for case in CASES:
        for tool in tools:
            draws = reports.get((case.name, tool), [])
            if not draws:
                continue
            null = nulls.get((case.null or case.name, tool), [])
            bar = -np.inf if tool == OURS else _bar(null)
            rows.append({"case": case.name, "planted": len(case.planted), "tool": tool, "draws": len(draws),
                         "seconds": float(np.median([report.seconds for report in draws])), **means(draws),
                         "nulls": len(null), "null_reports": means(null)["reports"] if null else None,
                         "at_equal": means(draws, bar) if case.planted and not np.isnan(bar) else None})
    return rows


def united(kept: Sequence[dict[str, Any]], rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The lines of earlier runs with those of this one, which replace lines of the same case and tool."""
    lines = {(row["case"], row["tool"]): row for row in [*kept, *rows]}
    order = [case.name for case in CASES]
    return sorted(lines.values(), key=lambda row: order.index(row["case"]))


def _bar(null: Sequence[Report]) -> float:
    """The score above which one of ten permuted tables has a report; NaN where they are too few."""
    best = [max((context.score for context in report.contexts), default=-np.inf) for report in null]
    return float(np.quantile(best, 1 - FDR, method="lower")) if len(best) >= FEW else np.nan


class Arena:
    """All reports up to now, by case and tool, to which every tool adds in a thread of its own."""

    def __init__(self, words: argparse.Namespace) -> None:
        self.words, self.writing = words, Lock()
        self.kept = json.loads(Path(words.out).read_text())["rows"] if words.out and Path(words.out).exists() else []
        self.reports: Reports = {}
        self.nulls: Reports = {}

    def run(self, tool: str, ask: Callable[[Table], Report]) -> None:
        """Let a tool look at all cases, round by round; those of one kind stand together, the largest tables last."""
        words = self.words
        cases = sorted((case for case in CASES if not words.only or case.name in words.only),
                       key=lambda case: (case.rows > LARGE, case.null or case.name))
        for number in range(1, words.rounds + 1):
            for case in cases:
                null = self.nulls.setdefault((case.null or case.name, tool), [])
                kind = next(other for other in CASES if other.name == (case.null or case.name))
                while case.planted and len(null) < words.nulls:
                    null.append(ask(draw_null(kind, len(null))))
                draws = self.reports.setdefault((case.name, tool), [])
                used, done = 0.0, 0
                while done < words.least or (used < words.seconds and done < words.draws):
                    draws.append(ask(draw(case, len(draws))))
                    used, done = used + draws[-1].seconds, done + 1
                print(f"{number} {tool}: {case.name}, {len(draws)} draws", flush=True)
                with self.writing:
                    if words.out:
                        write_json(words.out, {"rows": united(self.kept, rows_of(self.reports, self.nulls))})


def main(words: argparse.Namespace) -> None:
    tools = {OURS: ours, **{tool: other(tool, python) for tool, python in (pair.split("=", 1) for pair in words.env)}}
    arena = Arena(words)
    with ThreadPoolExecutor(len(tools)) as pool:
        for turn in [pool.submit(arena.run, tool, ask) for tool, ask in tools.items()]:
            turn.result()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nulls", type=int, default=FEW)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--least", type=int, default=8)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--env", action="append", default=[], metavar="TOOL=PYTHON")
    parser.add_argument("--only", action="append", default=[], metavar="CASE")
    parser.add_argument("--out", default="")
    main(parser.parse_args())
