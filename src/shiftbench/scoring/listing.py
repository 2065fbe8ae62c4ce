"""What lies in a runs folder: one folder per run, listed with as few looks at the disk as a hundred thousand need."""

import hashlib
import json
import os
import re
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

from shiftbench.errors import ShiftBenchError
from shiftbench.files import read_json
from shiftbench.scoring.contents import contents, read_bytes

_AS_JSON = json.JSONEncoder(sort_keys=True, default=str)


class Finished(NamedTuple):
    """A finished run on disk: what `run.json` says of it."""

    folder: Path
    settings: dict[str, Any]
    benchmark: dict[str, Any]

    @property
    def setting(self) -> str:
        """A name for all that decides the run but benchmark and seed: equal for the runs that a mean is over."""
        kept = {key: value for key, value in self.settings.items() if key not in ("benchmark", "seed")}
        return hashlib.sha256(written(kept).encode()).hexdigest()[:12]

    @property
    def benchmark_folder(self) -> Path:
        """Where the benchmark is: the path as the run knew it, else the same path seen from the runs folder."""
        if not self.benchmark["path"]:
            raise ShiftBenchError(f"{self.folder}: its benchmark '{self.benchmark['name']}' was in no folder when it "
                                  "was trained. Save it, and give it to score_runs as one of `benchmarks`.")
        path = Path(str(self.benchmark["path"]))
        near = [path, self.folder.parent / path, self.folder.parent.parent / path]
        return next((place for place in near if place.is_dir()), path)


class Names(NamedTuple):
    """The runs of a folder by name, each in one of three states."""

    done: list[str]
    failed: list[str]
    unfinished: list[str]


def names_in(folder: Path | str, only: Collection[str] | None = None) -> Names:
    """The runs of a folder, or those of them named in `only`. No file is opened.

    A run is done where it has `done`, failed where it has `failed.json`, unfinished where it has `run.json` alone; any
    other folder is not a run. Hidden names are passed over: a run that is being written may have one.
    """
    place = os.fspath(folder)
    try:
        with os.scandir(place) as entries:
            wanted = sorted(entry.name for entry in entries if not entry.name.startswith(".") and entry.is_dir())
    except OSError as problem:
        raise ShiftBenchError(f"{place}: no such folder. A runs folder holds one folder per run.") from problem
    for name in wanted:
        if not name.isascii() and any("\ud800" <= letter <= "\udfff" for letter in name):
            raise ShiftBenchError(f"{place}: the name of its folder '{name}' is not UTF-8 text. Rename or remove it.")
    if only is not None:
        wanted = [name for name in wanted if name in set(only)]
    found = Names([], [], [])
    for name in wanted:
        if os.access(f"{place}/{name}/done", os.F_OK):
            found.done.append(name)
        elif os.access(f"{place}/{name}/failed.json", os.F_OK):
            found.failed.append(name)
        elif os.access(f"{place}/{name}/run.json", os.F_OK):
            found.unfinished.append(name)
    return found


def runs_in(folder: Path | str, only: Collection[str] | None = None) -> tuple[list[Finished], int]:
    """The finished runs of a runs folder, by name, and the number of those that are not: unfinished or failed."""
    names, place = names_in(folder, only), Path(folder)
    found = zip(names.done, contents([f"{place}/{name}/run.json" for name in names.done]), strict=True)
    finished = [_run(place / name, content) for name, content in found
                if content is not None or (place / name / "run.json").exists()]  # `done` alone does not make a run
    return finished, len(names.failed) + len(names.unfinished)


def read_run(folder: Path) -> Finished:
    """What run.json says of a run, finished or not."""
    return _run(folder, read_bytes(f"{folder}/run.json"))


def benchmarks_of(
    folder: Path | str, only: Collection[str] | None = None, known: Collection[str] = ()
) -> list[Path]:
    """Where the benchmarks of a folder's finished runs are, each once; those in no folder are left out.

    `only` names the runs to ask, `known` the digests of benchmarks that are at hand and need no folder.
    """
    first: dict[str, Finished] = {}
    for run in runs_in(folder, only)[0]:
        if run.benchmark["digest"] not in known:
            first.setdefault(str(run.benchmark["path"] or ""), run)
    return list(dict.fromkeys(run.benchmark_folder for path, run in first.items() if path))


def written(value: Any) -> str:
    """A setting in one spelling, whatever the order of its keys."""
    return _AS_JSON.encode(value)


class _Facts(TypedDict, total=False):
    """What is needed of run.json; msgspec passes over the rest of it."""

    run: Any
    benchmark: Any


_ODD = re.compile(rb"[0-9]{19}|\\u[dD]")
MOST_BRACKETS = 60
"""What is longer or nested deeper than a run of ours, or holds long numbers or halves of pairs of code points, is read
by `read_json`, which looks closely."""


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
        run, benchmark = facts.get("run"), facts.get("benchmark")
    except (fault, UnicodeError, RecursionError):  # slowly: the error shall name the file and the place
        plain = read_json(folder / "run.json")
        run, benchmark = (plain.get("run"), plain.get("benchmark")) if isinstance(plain, dict) else (None, None)
    if not (isinstance(run, dict) and "method" in run and "seed" in run and isinstance(benchmark, dict)
            and "name" in benchmark and "digest" in benchmark and "path" in benchmark):
        raise ShiftBenchError(f"{folder / 'run.json'}: does not describe a run: it needs 'run' with method and seed, "
                              "and 'benchmark' with name, digest and path. Train again.")
    return Finished(folder, run, benchmark)
