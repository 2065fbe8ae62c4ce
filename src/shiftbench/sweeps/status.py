"""What a runs folder holds: which runs are done, failed and why, running now, or left unfinished."""

import fcntl
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.scores import label_of
from shiftbench.scoring.listing import LOG, last_line

if TYPE_CHECKING:
    from shiftbench.sweeps.jobs import Job
    from shiftbench.sweeps.study import Study
    from shiftbench.training.run import Outcome

STATES = ("failed", "running", "unfinished", "not started", "done")
"""In the order in which a person wants to read them."""

LEFT_OVER = "left over"
"""A run that the study at hand does not ask for: from another study, or from before it was changed."""

UNREADABLE = "unreadable"
"""A run that is done, but whose files are damaged."""

MARKS = {"run.json", "failed.json", "done", "lock"}
"""A folder that has one of these is a run's, however early the run ended."""


class Status(NamedTuple):
    """One run: its state and what it is. `seconds` is its training time so far, by its log."""

    run: str
    state: str
    benchmark: str = ""
    method: str = ""
    model: str = ""
    seed: int = -1
    seconds: float = 0.0
    reason: str = ""


def look(folder: Path | str) -> str:
    """The state of the run in this folder."""
    try:
        return _state(str(folder), os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return "not started"


Folders = Path | str | Mapping[str, Path]
"""A folder of runs, or the folder of each run by its name."""


def states(out: Folders) -> dict[str, str]:
    """Run -> state for every run of a folder, by name. Nothing is opened but the locks of runs that have not ended."""
    if isinstance(out, Mapping):
        return {name: look(out[name]) for name in sorted(out)}
    try:
        with os.scandir(out) as entries:
            folders = sorted((entry.name, entry.path) for entry in entries
                             if not entry.name.startswith(".") and entry.is_dir())
    except OSError as problem:
        raise ShiftBenchError(f"{out}: cannot be listed ({problem.strerror}). Name the folder that holds the "
                              "runs.") from problem
    states = {}
    for name, path in folders:
        try:
            files = os.listdir(path)
        except OSError:  # gone since, or not ours to read
            continue
        if not MARKS.isdisjoint(files):
            states[name] = _state(path, files)
    return states


def status(out: Folders, jobs: Iterable["Job"] | None = None) -> list[Status]:
    """Every run of a folder; with `jobs`, each of these in their order, and no other."""
    if jobs is None:
        return [describe(folder_of(out, name), state) for name, state in states(out).items()]
    runs = []
    for job in jobs:
        run = job.run
        folder = folder_of(out, run.id)
        # A run may fail before it has written what it is.
        runs.append(describe(folder, look(folder))._replace(
            benchmark=Path(job.benchmark).name, method=run.label, model=run.model, seed=run.seed))
    return runs


def left_out(out: Folders, jobs: Iterable["Job"] | None = None) -> list[Status]:
    """The runs that a report of the folder lacks: not done yet, or failed; with `jobs`, also done but `left over`.

    With `jobs` a run that none of them asks for is left over, and one that was never started is listed too.
    """
    if jobs is None:
        return [describe(folder_of(out, name), state) for name, state in states(out).items() if state != "done"]
    statuses = status(out, jobs)
    asked_for = {status.run for status in statuses}
    leftovers = [describe(folder_of(out, name), state)._replace(state=LEFT_OVER)
              for name, state in states(out).items() if name not in asked_for]
    return [*(status for status in statuses if status.state != "done"), *leftovers]


def facts_and_last(folder: Path | str, state: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The content of run.json and the last line of the log; each is empty where it is missing or cannot be read."""
    facts = _read_facts(folder, "run.json") if state != "not started" else {}
    return facts, last_line(os.path.join(folder, LOG)) if facts else {}


def describe(
    folder: Path | str, state: str, read: tuple[Mapping[str, Any], Mapping[str, Any]] | None = None
) -> Status:
    """A run by its files, or by what `facts_and_last` has read of them. What cannot be read stays empty: one bad folder
    must not hide the others."""
    facts, last = read or facts_and_last(folder, state)
    run, benchmark = (table if isinstance(table := facts.get(key), dict) else {} for key in ("run", "benchmark"))
    seed, seconds = run.get("seed"), last.get("seconds")
    return Status(os.path.basename(folder), state, str(benchmark.get("name", "")),
                  label_of(run) if "method" in run else "", str(run.get("model", "")),
                  seed if isinstance(seed, int) else -1, float(seconds) if isinstance(seconds, int | float) else 0.0,
                  failure(folder) if state == "failed" else "")


def failure(folder: Path | str) -> str:
    """Why a run failed, by its failed.json."""
    return str(_read_facts(folder, "failed.json").get("reason", "failed.json cannot be read"))


def summary(states: Iterable[str]) -> str:
    """How many runs are in each state: `105 runs: 2 failed, 1 running, 102 done`."""
    count = Counter(states)
    counts = [f"{count[state]:,} {state}" for state in ("failed", UNREADABLE, *STATES[1:], LEFT_OVER) if count[state]]
    total = count.total()
    return f"{total:,} {'run' if total == 1 else 'runs'}: {', '.join(counts) or 'none'}"


def outcome_facts(ends: Sequence["Outcome"]) -> dict[str, Any]:
    """How many runs ended in which state, and why runs failed; reasons that differ only in numbers count as one."""
    failed: dict[str, list[Outcome]] = {}
    for end in ends:
        if end.state == "failed":
            failed.setdefault(re.sub(r"\d[\d.e+-]*", "N", end.reason), []).append(end)
    most_first = sorted(failed.values(), key=len, reverse=True)
    notes = Counter(note for end in ends for note in end.notes)
    return {"runs": len(ends), "done": sum(end.state == "done" for end in ends), "failed": sum(map(len, most_first)),
            "reasons": [{"reason": alike[0].reason, "runs": len(alike), "example": alike[0].run}
                        for alike in most_first],
            "notes": [{"note": note, "runs": runs} for note, runs in notes.most_common()]}


def _state(folder: str, files: list[str]) -> str:
    if "done" in files:
        return "done"
    if "failed.json" in files:
        return "failed"
    if "lock" in files and _is_locked(os.path.join(folder, "lock")):
        return "running"
    return "unfinished" if "run.json" in files else "not started"


def folder_of(out: Folders, name: str) -> Path:
    """The folder of a run; for a run that is not there, one that cannot exist."""
    return out.get(name, Path(os.devnull, name)) if isinstance(out, Mapping) else Path(out) / name


def _is_locked(path: str) -> bool:
    """Whether a process holds the lock. We ask for a shared one and release it at once: two that ask do not collide."""
    try:
        with open(path, "rb") as handle:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _read_facts(folder: Path | str, name: str) -> dict[str, Any]:
    try:
        with open(os.path.join(folder, name), "rb") as handle:
            facts = json.loads(handle.read())
    except (OSError, ValueError, RecursionError):
        return {}
    return facts if isinstance(facts, dict) else {}


def counted(out: Folders, study: "Study | Path | str | None" = None) -> tuple[list[str] | None, list[Status]]:
    """Which runs of a folder count, None for all, and those that are missing or in the way (`left_out`).

    With a study only its own runs count.
    """
    if study is None:
        return None, left_out(out)
    from shiftbench.sweeps.study import Study

    home = next(iter(out.values())).parent if isinstance(out, Mapping) else out
    jobs = (study if isinstance(study, Study) else Study.load(study)).jobs(home, collections=False)
    absent = left_out(out, jobs)
    missing = {status.run for status in absent if status.state != LEFT_OVER}
    done = [run for run in dict.fromkeys(job.run.id for job in jobs) if run not in missing]
    if not done:
        raise ShiftBenchError(f"{home}: none of the {len(jobs):,} runs that the study asks for is done. Is it the "
                              "study that was swept, with the same --set?")
    return done, absent


def in_words(absent: Sequence[Status], most: int = 5) -> str:
    """The runs that a report lacks, the first of them by name."""
    descriptions = []
    for status in absent[:most]:
        facts = (status.method, status.benchmark and f"on {status.benchmark}",
                 f"seed {status.seed}" if status.seed >= 0 else "", status.reason.rstrip("."))
        descriptions.append(f"{status.run} ({status.state}: {', '.join(fact for fact in facts if fact)})")
    more = f" and {len(absent) - most:,} more" if len(absent) > most else ""
    return f"missing from the report: {summary(status.state for status in absent)}: {'; '.join(descriptions)}{more}."
