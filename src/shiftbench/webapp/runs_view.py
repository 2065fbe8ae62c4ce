"""Runs: how a sweep stands, what failed and why, the settings of the runs as a table, and the curves of some.

The list of the runs and their states opens no file but the locks of runs that have not ended. Of a page of the table
the run.json and the end of the log are read, and kept as long as they do not change. Only sorting or filtering by what
stands in these files reads those of all runs, once.
"""

import json
import math
import os
import shlex
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from sys import intern
from typing import Any, NamedTuple

from shiftbench.auditing.predicates import Predicate
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import read_toml
from shiftbench.scoring.listing import LOG, lines, points, written
from shiftbench.scoring.runs import flat, telling
from shiftbench.sweeps.status import STATES, Status, describe, facts_and_last, states, summary
from shiftbench.webapp.shelf import Memory
from shiftbench.webapp.studio import Answer, Query, Studio, request

PAGE = 50
"""Rows of the table at a time."""
FAILED = 20
"""Failed runs that are listed with their reasons, as `shiftbench show` does."""
OVERLAID = 16
"""Runs whose curves are drawn at a time: eight colours, whole and dashed."""
POINTS = 2000
"""Points of a curve; a longer log is thinned."""
FRESH = 1.0
"""Seconds for which the states of a folder are taken as they are: several requests of a page share them."""
KEPT = 200_000
"""Rows that are kept in memory."""
FACTS = ("run", "state", "benchmark", "method", "seed", "step", "loss", "seconds")
"""The first columns of the table; settings follow."""
FREE = ("run", "state")
"""The columns that are known without opening a file."""


class Row(NamedTuple):
    """A run as its files describe it."""

    status: Status
    settings: Mapping[str, Any]
    texts: Mapping[str, str]  # the settings that may differ between runs, as text
    last: Mapping[str, Any]  # the last line of its log

    @staticmethod
    def read(path: str, state: str) -> "Row":
        facts, last = read = facts_and_last(path, state)
        run = facts.get("run")
        settings = flat(run) if isinstance(run, dict) else {}
        texts = {name: intern(written(value)) for name, value in settings.items() if name not in FACTS}
        return Row(describe(path, state, read), settings, texts, last)

    def value(self, column: str) -> Any:
        """The value of a column of the table; None where the run has none."""
        if column in ("step", "loss"):
            return self.last.get(column)
        if column in FACTS:
            return getattr(self.status, column)
        return self.settings.get(column)


STATES_OF, ROWS, WANTED = Memory(8, alone=True), Memory(KEPT), Memory(100)
"""The states of folders, the rows of runs, and the runs that studies ask for."""


def runs(studio: Studio, query: Query) -> Mapping[str, Any]:
    """The states of the runs of a folder, and a page of them as a table."""
    choices = [thing.id for thing in studio.shelf.things("runs")]
    id = query.text("on") or (choices[0] if choices else "")
    if not id:
        raise ShiftBenchError("There are no runs below the studio's folder yet. Start a sweep: it appears here.")
    folder = studio.shelf.runs(id)
    run_states = states_of(folder)
    counts = Counter(run_states.values())
    names = [run for run, state in run_states.items() if query.text("state") in ("", state)
             and query.text("find").lower() in run.lower()]
    where, sort = query.where(), query.text("sort") or "state"
    everything = sort not in FREE or any(predicate.column not in FREE for predicate in where)
    rows = read_rows(folder, names, run_states) if everything else []
    if everything:
        matching = [row for row in rows if all(_holds(predicate, row) for predicate in where)]
        matching.sort(key=lambda row: _order(row.value(sort)), reverse=bool(query.text("down")))
        matching.sort(key=lambda row: row.value(sort) is None)
        names = [row.status.run for row in matching]
    else:
        names = [run for run in names if all(_has_value(test, run if test.column == "run" else run_states[run])
                                             for test in where)]
        names.sort(key=lambda run: (STATES.index(run_states[run]) if sort == "state" else 0, run),
                   reverse=bool(query.text("down")))
    pages = max(1, math.ceil(len(names) / PAGE))
    page = min(query.whole("page", 0), pages - 1)
    page_rows = read_rows(folder, names[page * PAGE:(page + 1) * PAGE], run_states)
    columns, same = _columns(rows or page_rows)
    show = [run for run in query.names("show") if run in run_states][:OVERLAID] if query.text("show") else [
        run for run in names[page * PAGE:(page + 1) * PAGE] if run_states[run] == "running"][:8] or [
        row.status.run for row in page_rows if row.last][:4]
    failed = list(islice((run for run, state in run_states.items() if state == "failed"), FAILED))
    studio.shelf.runs(id)  # a folder that vanished while it was read is an error, not a folder of unfinished runs
    return {
        "on": id, "choices": choices, "folder": str(folder), "summary": summary(run_states.values()),
        "counts": [[state, counts[state]] for state in STATES if counts[state]],
        "failed": [describe(folder / run, "failed")._asdict() for run in failed],
        "failed_more": counts["failed"] - len(failed),
        "columns": [*FACTS, *columns, *(same if query.text("columns") == "all" else ())],
        "same": {} if not page_rows else {name: (rows or page_rows)[0].value(name) for name in same},
        "rows": [{column: row.value(column) for column in (*FACTS, *columns, *same)} |
                 {"steps": row.settings.get("steps"), "reason": row.status.reason} for row in page_rows],
        "show": show, "total": len(names), "all": len(run_states), "page": page, "pages": pages,
        "whole": bool(rows) or pages == 1,
        "command": shlex.join(["shiftbench", "show", str(folder)]), "settings_command": studio.command("runs", **query),
        "also": [request("runs-asked", on=id), request("curves", on=id, runs=json.dumps(show, separators=(",", ":")))]}


def states_of(folder: Path) -> dict[str, str]:
    """Run -> state, as `shiftbench show` has it; two tabs share a listing."""
    return STATES_OF.get(folder, lambda: states(folder), stamp=time.monotonic() // FRESH)


def read_rows(folder: Path, names: Iterable[str], run_states: Mapping[str, str]) -> list[Row]:
    """The rows of these runs; a file is opened only where it has changed since."""
    def row(run: str) -> Row:
        path, state = f"{folder}/{run}", run_states[run]
        return ROWS.get(path, lambda: Row.read(path, state),
                        stamp=(state, changed(f"{path}/run.json"), changed(f"{path}/{LOG}")))

    return [row(run) for run in names]


def changed(path: Path | str) -> int:
    """When a file was changed; 0 if it is not there."""
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def _columns(rows: Sequence[Row]) -> tuple[list[str], list[str]]:
    """The settings that differ between runs, and those that are the same in all."""
    texts = [row.texts for row in rows if row.texts]
    differing = telling(texts) if texts else []
    return differing, [name for name in texts[0] if name not in differing] if texts else []


def _holds(predicate: Predicate, row: Row) -> bool:
    return _has_value(predicate, row.value(predicate.column))


def _has_value(predicate: Predicate, value: Any) -> bool:
    """Whether a column's value is the one that a filter names, as the table shows it."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(predicate.value) == value
        except ValueError:
            return False
    return in_short(value) == predicate.value


def in_short(value: Any) -> str:
    """A setting as the table writes it."""
    return "" if value is None else value if isinstance(value, str) else written(value)


def _order(value: Any) -> tuple[int, float, str]:
    """Numbers by size, then texts by letter."""
    if isinstance(value, int | float) and not math.isnan(value):
        return 0, float(value), ""
    return 1, 0.0, in_short(value)


# What studies ask for

def asked(studio: Studio, query: Query) -> Mapping[str, Any]:
    """Every study on the shelf that has runs in this folder: how many it asks for, and their states."""
    folder = studio.shelf.runs(query.text("on"))
    run_states, in_studies = states_of(folder), set[str]()
    answers: list[dict[str, Any]] = []
    for thing in studio.shelf.things("study"):
        wanted = _wanted(thing.path, folder)
        if isinstance(wanted, str):
            answers.append({"study": thing.id, "note": wanted})
        elif not run_states.keys().isdisjoint(wanted):
            counts = Counter(run_states.get(run, "not started") for run in wanted)
            answers.append({"study": thing.id, "asked": len(wanted), "summary": summary(
                state for state, n in counts.items() for _ in range(n)),
                "counts": [[state, counts[state]] for state in STATES if counts[state]],
                "command": shlex.join(["shiftbench", "sweep", str(thing.path), "--out", str(folder), "--dry-run"])})
            in_studies |= wanted
    return {"studies": answers, "left_over": len(run_states.keys() - in_studies) if in_studies else 0}


def _wanted(path: Path, folder: Path) -> set[str] | str:
    """The runs that a study asks for, or why they are not counted. Nothing is built, and no user's code is loaded."""
    return WANTED.get((path, folder), lambda: _count(path, folder), stamp=changed(path))


def _count(path: Path, folder: Path) -> set[str] | str:
    from shiftbench.sweeps.study import Study

    try:
        raw = read_toml(path)
        if raw.get("import") or raw.get("suites") or raw.get("recipes"):
            return "loads code or builds benchmarks first: --dry-run counts its runs."
        return {job.run.id for job in Study.load(path).jobs(folder, collections=False)}
    except ShiftBenchError as problem:
        return str(problem)


# Curves

def curves(studio: Studio, query: Query) -> Mapping[str, Any]:
    """The losses of training and one number of the evaluations of some runs, step by step, as their logs have them."""
    folder = studio.shelf.runs(query.text("on"))
    run_states = states_of(folder)
    chosen = [run for run in query.names("runs") if run in run_states][:OVERLAID]
    logs = {run: lines(folder / run / LOG) for run in chosen}
    names = list(dict.fromkeys(name for log in logs.values() for line in log for name, _ in points(line)))
    others = [name for name in names if name.rpartition("/")[2] not in ("loss", "best_step")]
    number = query.text("number") if query.text("number") in others else next(
        (name for end in ("worst_group_accuracy", "accuracy", "") for name in others if name.endswith(end)), "")
    rows = {row.status.run: row for row in read_rows(folder, chosen, run_states)}
    return {"numbers": others, "number": number, "series": [
        {"run": run, "label": _label(rows[run]), "state": run_states[run], "steps": rows[run].settings.get("steps"),
         "loss": _curve(logs[run], "loss"), "number": _curve(logs[run], number)} for run in chosen],
        "command": shlex.join(["cat", *(str(folder / run / LOG) for run in chosen)])}


def _label(row: Row) -> str:
    seed = f", seed {row.status.seed}" if row.status.seed >= 0 else ""
    return f"{row.status.method or row.status.run} on {row.status.benchmark or '?'}{seed}"


def _curve(log: Sequence[Mapping[str, Any]], name: str) -> list[tuple[int, float]]:
    curve = [(int(line["step"]), value) for line in log for key, value in points(line)
             if key == name and math.isfinite(value)]
    stride = math.ceil(len(curve) / POINTS) or 1
    return [*curve[:-1:stride], curve[-1]] if curve else []


ANSWERS: dict[str, Answer] = {"runs": runs, "runs-asked": asked, "curves": curves}
