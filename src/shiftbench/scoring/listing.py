"""Runs in a folder, which has one folder per run, and runs in memory, whose predictions come from outside.

Listing a folder takes few enough disk reads for a hundred thousand runs. Below: the log of a run, and a reader of very
many small files.
"""

import hashlib
import json
import os
import re
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import file_digests, path_of, read_json
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.prediction_lists import Answers
from shiftbench.data.predictions import PREDICTIONS, Predictions, read_predictions
from shiftbench.data.scores import run_id

RUNS = "the folder of a run nor a folder of runs"
LeftOut = dict[str, str]
"""Runs that could not be read, and why."""

_AS_JSON = json.JSONEncoder(sort_keys=True, default=str)


class Finished(NamedTuple):
    """A finished run: on disk, as its `run.json` describes it, or in memory with predictions from outside."""

    folder: Path  # for a run in memory, only its name
    settings: dict[str, Any]
    benchmark: dict[str, Any]
    files: Mapping[str, str] = {}  # the SHA-256 of its files by name; runs of older versions have none
    outside: Predictions | Answers | None = None

    @property
    def name(self) -> str:
        return self.folder.name

    def predictions(self, benchmark: Benchmark) -> Predictions | Answers:
        """The run's predictions; those on disk are checked against their digest."""
        return read_predictions(self.checked(PREDICTIONS), benchmark) if self.outside is None else self.outside

    def checked(self, name: str) -> Path:
        """The path of a file of the run, after checking that it is unchanged."""
        if name in self.files and file_digests(self.folder, [name])[name] != self.files[name]:
            raise damaged(self.folder / name)
        return self.folder / name

    @property
    def setting(self) -> str:
        """The run's settings, except benchmark and seed, as text: equal for all runs of one mean."""
        kept = {key: value for key, value in self.settings.items() if key not in ("benchmark", "seed")}
        return hashlib.sha256(written(kept).encode()).hexdigest()[:12]

    @property
    def model(self) -> str:
        """The net, with the features it is a head on and the weights it starts from: `mlp on lite@64`."""
        names = [str(self.settings.get(key) or "") for key in ("model", "features", "weights")]
        return " on ".join(name for name in names if name not in ("", "none"))

    @property
    def head(self) -> dict[str, Any]:
        """The columns that describe the run in a table of scores."""
        return {"run": self.name, "method": str(self.settings["method"]), "model": self.model,
                "setting": self.setting, "label": str(self.settings.get("name") or self.settings.get("preset") or ""),
                "seed": int(self.settings["seed"])}

    @property
    def benchmark_folder(self) -> Path:
        """The benchmark's folder: the path in run.json, else the same path relative to the runs folder."""
        if not self.benchmark["path"]:
            raise ShiftBenchError(f"{self.folder}: its benchmark '{self.benchmark['name']}' was in no folder when it "
                                  "was trained. Save it, and give it to score_runs as one of `benchmarks`.")
        path = Path(str(self.benchmark["path"]))
        near = [path, self.folder.parent / path, self.folder.parent.parent / path]
        return next((candidate for candidate in near if candidate.is_dir()), path)


def is_run_folder(source: object) -> bool:
    """Whether this is the folder of one run, finished or not."""
    return isinstance(source, str | Path) and (Path(source) / "run.json").is_file()


class Names(NamedTuple):
    """The runs of a folder by name, each in one of three states."""

    done: list[str]
    failed: list[str]
    unfinished: list[str]


def names_in(folder: Path | str, only: Collection[str] | None = None) -> Names:
    """The runs of a folder, or those of them named in `only`. No file is opened.

    A run is done if it has `done`, failed if it has `failed.json`, unfinished if it has only `run.json`; any other
    folder is not a run. Hidden names are skipped: a run that is being written may have one.
    """
    path = os.fspath(path_of(folder, RUNS))
    try:
        with os.scandir(path) as entries:
            wanted = sorted(entry.name for entry in entries if not entry.name.startswith(".") and entry.is_dir())
    except OSError as problem:
        raise ShiftBenchError(f"{path}: no such folder. A runs folder holds one folder per run.") from problem
    for name in wanted:
        if not name.isascii() and any("\ud800" <= letter <= "\udfff" for letter in name):
            raise ShiftBenchError(f"{path}: the name of its folder '{name}' is not UTF-8 text. Rename or remove it.")
    if only is not None:
        kept = set(only)
        wanted = [name for name in wanted if name in kept]
    names = Names([], [], [])
    for name in wanted:
        if os.access(f"{path}/{name}/done", os.F_OK):
            names.done.append(name)
        elif os.access(f"{path}/{name}/failed.json", os.F_OK):
            names.failed.append(name)
        elif os.access(f"{path}/{name}/run.json", os.F_OK):
            names.unfinished.append(name)
    return names


RunSource = Path | str | Sequence[Path | str | Finished]
"""A folder of runs, the folder of one run, or a list of such folders and of runs in memory."""


def runs_in(
    source: RunSource, only: Collection[str] | None = None, left_out: LeftOut | None = None
) -> tuple[list[Finished], int]:
    """The finished runs of a source, by name, and the number of those that are not: unfinished or failed.

    The folder of one run stands for a folder with that run alone. A run.json that cannot be read is an error, unless
    `left_out` (run -> reason) is passed, which then records it.
    """
    if isinstance(source, list | tuple):
        return _gather(source, only, left_out)
    root = path_of(source, RUNS)
    if is_run_folder(root):
        root = root if root.name not in ("", "..") else root.resolve()
        only = [root.name] if only is None or root.name in only else []
        root = root.parent
    names = names_in(root, only)
    finished = []
    for name, content in zip(names.done, contents([f"{root}/{name}/run.json" for name in names.done]), strict=True):
        if content is None and not (root / name / "run.json").exists():
            continue  # `done` alone does not make a run
        with leaving_out(name, left_out):
            finished.append(_run(root / name, content))
    return finished, len(names.failed) + len(names.unfinished)


def _gather(
    sources: Sequence[Path | str | Finished], only: Collection[str] | None, left_out: LeftOut | None
) -> tuple[list[Finished], int]:
    """The runs of several sources; two of one name are an error."""
    only = only if only is None else set(only)
    parts = [([source], 0) if isinstance(source, Finished) else runs_in(source, only, left_out) for source in sources]
    finished = sorted((run for runs, _ in parts for run in runs if only is None or run.name in only),
                      key=lambda run: run.name)
    for first, second in pairwise(finished):
        if first.name == second.name and not (first.outside is None and second.outside is None):
            raise ShiftBenchError(f"Two runs are named '{first.name}'. Give the one from outside another name with "
                                  "--name.")
        if first.name == second.name:
            raise ShiftBenchError(f"{second.folder}: a run of this name is in another folder too. Name one of the two "
                                  "folders.")
    return finished, sum(unfinished for _, unfinished in parts)


def run_folders(sources: Sequence[Path | str | Finished]) -> dict[str, Path]:
    """The folder of every run on disk of several sources, finished or not, by name."""
    folders = [Path(source) for source in sources if not isinstance(source, Finished)]
    return {run.name: run for folder in folders for run in (
        [folder] if is_run_folder(folder) else [folder / name for names in names_in(folder) for name in names])}


@contextmanager
def leaving_out(run: str, left_out: LeftOut | None) -> Iterator[None]:
    """Record a run's error in `left_out`, or raise it if `left_out` is None."""
    try:
        yield
    except ShiftBenchError as problem:
        if left_out is None:
            raise
        left_out[run] = str(problem)


def damaged(path: Path | str) -> ShiftBenchError:
    """The error for a file whose digest differs from that in its run.json."""
    return ShiftBenchError(f"{path}: does not match its digest in run.json; the file was changed or damaged after the "
                           "run was done. Delete the run's folder and train again.")


def read_run(folder: Path) -> Finished:
    """A run as its run.json describes it, finished or not."""
    return _run(folder, read_bytes(f"{folder}/run.json"))


def written(value: Any) -> str:
    """A setting as text that does not depend on the order of its keys."""
    return _AS_JSON.encode(value)


class _Facts(TypedDict, total=False):
    """The keys of run.json that are needed; msgspec skips the others."""

    id: Any
    run: Any
    benchmark: Any
    files: Any


_ODD = re.compile(rb"[0-9]{19}|\\u[dD]")
MOST_BRACKETS = 60
"""A file that is longer or more deeply nested than the run.json of a run, or holds long numbers or lone surrogates, is
read by the stricter `read_json`."""


@cache
def _decoder() -> Any:
    import msgspec  # not at the top: training scores its evaluations on machines that lack it

    return msgspec.json.Decoder(_Facts), msgspec.MsgspecError


def _run(folder: Path, content: bytes | None) -> Finished:
    decoder, fault = _decoder()
    try:
        text = content or b""
        if _ODD.search(text) or text.count(b"{") + text.count(b"[") > MOST_BRACKETS:
            raise UnicodeError
        facts = decoder.decode(text)
    except (fault, UnicodeError, RecursionError):  # slowly, so that the error names the file and the position
        plain = read_json(folder / "run.json")
        facts = plain if isinstance(plain, dict) else {}
    run, benchmark, files = facts.get("run"), facts.get("benchmark"), facts.get("files", {})
    if not (isinstance(run, dict) and "method" in run and "seed" in run and isinstance(benchmark, dict)
            and "name" in benchmark and "digest" in benchmark and "path" in benchmark):
        raise ShiftBenchError(f"{folder / 'run.json'}: does not describe a run: it needs 'run' with method and seed, "
                              "and 'benchmark' with name, digest and path. Train again.")
    if ("id" in facts and _id(run) != facts["id"]) or not isinstance(files, dict) or run.get(
            "benchmark", benchmark["digest"]) != benchmark["digest"]:
        raise ShiftBenchError(f"{folder / 'run.json'}: was changed after the run began: the settings in it are not "
                              f"those of run {facts.get('id')}. Delete the run's folder and train again.")
    return Finished(folder, run, benchmark, files)


def _id(settings: dict[str, Any]) -> str:
    """The id of a run with these settings; '' if no run could have them."""
    try:
        return run_id(settings)
    except (ValueError, RecursionError):  # half a character, or a number of thousands of digits
        return ""


# The log of a run: one line per evaluation, with the loss of training and the scores of validation.

LOG = "log.jsonl"
TAIL = 4096
"""Bytes at the end of a log that hold its last line."""
UNSHOWN = ("stage", "step", "seconds")
"""Numbers of a line that are not plotted: they say when it was written."""


def lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a log, up to the first that is not whole: it was being written when its process died."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return []
    parsed = []
    for text_line in text.splitlines(keepends=True):
        try:
            line = json.loads(text_line)
        except json.JSONDecodeError:
            break
        if not (text_line.endswith("\n") and isinstance(line, dict) and isinstance(line.get("stage"), int)
                and isinstance(line.get("step"), int)):
            break
        parsed.append(line)
    return parsed


def last_line(path: Path | str) -> dict[str, Any]:
    """The last whole line of a log, however long the log is; empty where there is none."""
    try:
        with open(path, "rb") as handle:
            handle.seek(max(0, handle.seek(0, os.SEEK_END) - TAIL))
            tail = handle.read().splitlines()
    except OSError:
        return {}
    for text in reversed(tail):
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(line, dict):
            return line
    return {}


def points(line: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Names and numbers of a line; those of a second stage have names of their own, since its steps start again."""
    for key, value in line.items():
        if key not in UNSHOWN and isinstance(value, int | float) and not isinstance(value, bool):
            yield name_in(line["stage"], key), float(value)


def name_in(stage: int, key: str) -> str:
    return f"stage{stage}/{key}" if stage else key


# The contents of very many small files, several read at once. A file that is in memory takes 10 µs. Any other needs the
# disk or the network, half a millisecond or more, most of which is waiting, so it pays to ask for many at a time.

THREADS = 16
CHUNK = 64
"""Files that a thread reads before it reports: few enough reports that threads cost nothing where all is in memory."""
AHEAD = 64 << 20
"""Bytes read ahead of whoever takes them, about."""
PIECE = 1 << 17


def contents(paths: Sequence[str]) -> Iterator[bytes | None]:
    """The bytes of every file, in order; None where one cannot be read."""
    if len(paths) <= CHUNK:
        yield from map(read_bytes, paths)
        return
    first = read_bytes(paths[0])
    yield first
    step = min(CHUNK, max(1, AHEAD // (2 * THREADS * max(1, len(first or b"")))))
    with ThreadPoolExecutor(THREADS) as pool:
        pending: deque[Future[list[bytes | None]]] = deque()
        for start in range(1, len(paths), step):
            pending.append(pool.submit(_chunk, paths[start:start + step]))
            if len(pending) >= 2 * THREADS:
                yield from pending.popleft().result()
        for future in pending:
            yield from future.result()


def read_bytes(path: str) -> bytes | None:
    """All of a file, a small one in four system calls; None where it cannot be read."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe is empty then, where it would wait for a writer
        try:
            parts = [os.read(handle, PIECE)]
            while parts[-1]:
                parts.append(os.read(handle, PIECE))
        finally:
            os.close(handle)
    except OSError:
        return None
    return b"".join(parts)


def _chunk(paths: Sequence[str]) -> list[bytes | None]:
    return [read_bytes(path) for path in paths]
