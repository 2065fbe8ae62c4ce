"""Results in a store behind a URL that fsspec understands: s3://bucket/runs, gs://…, sftp://…, file:///….

The packages behind a protocol (s3fs, gcsfs, …) and the keys to it must be there on every machine; fsspec's own settings
(~/.config/fsspec, FSSPEC_S3_KEY, …) are used. A run is trained in a scratch folder of the worker's machine and lies in
the store as

    ROOT/RUN/unfinished.tar                              where it stands: one file, so whole or not there
    ROOT/RUN/run.json  log.jsonl  predictions.parquet  checkpoint.safetensors  done          `done` last
    ROOT/RUN/failed.json                                 why it failed

What is promised: a reader that sees `done` sees the whole run. What is not: no lock holds across such a store, so two
drivers on one study may do a run twice. That costs time only. A run is decided by its settings, both write the same
bits (on machines of one kind), and whoever comes second leaves what is there. `memory://` is another store in every
process: good for tests alone.
"""

import json
import os
import re
import shutil
import tarfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from shiftbench.core.errors import ShiftBenchError

STATE = "unfinished.tar"
FETCHED = ("run.json", "log.jsonl", "predictions.parquet")
"""What scores and reports need of a finished run; weights stay where they are."""

URL = re.compile(r"([a-z][\w+.-]*::)*[a-z][\w+.-]+:/")

WHOLE = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "oss", "hf"}
"""Protocols where a file appears only when all of it is there. In others it is written under another name and moved."""

FEW = 20
"""Up to this many runs are asked for one by one; for more, all are listed."""


def is_url(out: Path | str) -> bool:
    """Whether results go to a store. Everything that does not begin with a protocol is a folder."""
    return bool(URL.match(str(out)))


def url_of(out: Path | str) -> str:
    """A URL as it was before somebody took it for a path: `Path("s3://a/b")` is `s3:/a/b`.

    >>> url_of("s3:/bucket/runs"), url_of("file:/runs"), url_of("file:///runs/")
    ('s3://bucket/runs', 'file:///runs', 'file:///runs')
    """
    protocol, path = str(out).split(":/", 1)
    root = "/" if protocol.endswith(("file", "local")) else ""
    return f"{protocol}://{root}{path.strip('/')}"


def fetch(url: Path | str, folder: Path | str) -> list[str]:
    """Copy to a local folder what scoring needs of finished runs, and why others failed; returns the finished runs.

    What is already there is not copied again, so that it can be called while a sweep runs.
    """
    store, local = Store(url), Path(folder)
    files = store.files()
    done = sorted(run for run, names in files.items() if "done" in names)
    failed = [run for run, names in files.items() if "failed.json" in names and "done" not in names]
    new = [run for run in done if not (local / run / "done").is_file()]
    store.get([(run, name) for run in new + failed for name in FETCHED if name in files[run]], local)
    store.get([(run, "done") for run in new] + [(run, "failed.json") for run in failed], local)
    for run in new:
        (local / run / "failed.json").unlink(missing_ok=True)
    return done


class Store:
    """The runs of a sweep in a store. Every question is asked anew: others write there."""

    def __init__(self, url: Path | str) -> None:
        self.url = url_of(url)
        with self._asking("opened"):
            from fsspec.core import url_to_fs  # type: ignore[import-untyped, unused-ignore]

            fs, root = url_to_fs(self.url, use_listings_cache=False)
        self.fs: Any = fs
        self.root: str = root.rstrip("/")

    def files(self, run: str = "") -> dict[str, set[str]]:
        """Run -> the names of its files, for one run or in one listing for all."""
        runs: dict[str, set[str]] = {}
        with self._asking("listed"):
            self.fs.invalidate_cache()
            top = f"{self.root}/{run}" if run else self.root
            with suppress(FileNotFoundError):
                for path in self.fs.find(top, maxdepth=1 if run else 2):
                    folder, _, name = str(path)[len(self.root):].strip("/").rpartition("/")
                    if folder and "/" not in folder and not folder.startswith(".") and not name.startswith("."):
                        runs.setdefault(folder, set()).add(name)
        return runs

    def states(self, runs: Iterable[str]) -> dict[str, str]:
        """Run -> done, failed, unfinished or not started; running is not known here. A few are asked for one by one."""
        names = list(runs)
        if len(names) <= FEW:
            return {run: self.look(run) for run in names}
        files = self.files()
        return {run: _state(files.get(run, set())) for run in names}

    def look(self, run: str) -> str:
        return _state(self.files(run).get(run, set()))

    def failure(self, run: str) -> str:
        """Why a run failed."""
        try:
            return str(json.loads(self.fs.cat_file(self._path(run, "failed.json")))["reason"])
        except (OSError, ValueError, KeyError, TypeError):  # damaged, or gone since: the run failed all the same
            return "failed.json cannot be read"

    def give_up(self, run: str, reason: str) -> str:
        """Record that a run failed, unless it ended otherwise; returns how it stands then."""
        state = self.look(run)
        if state in ("done", "failed"):
            return state
        facts = {"reason": reason, "when": datetime.now(UTC).isoformat(timespec="seconds")}
        self._write_file(run, "failed.json", lambda handle: handle.write(json.dumps(facts, indent=1).encode() + b"\n"))
        return "failed"

    def forget_failure(self, run: str) -> None:
        self._remove(run, {"failed.json"})

    def progress(self, run: str) -> str:
        """A text that changes with every checkpoint of a run."""
        try:
            self.fs.invalidate_cache()
            return str(self.fs.ukey(self._path(run, STATE)))
        except FileNotFoundError:  # none yet
            return ""

    def bring(self, run: str, folder: Path) -> bool:
        """Fetch the present state of a run into `folder`; True where it is done and nothing is left to do."""
        stored = self.files(run).get(run, set())
        if "done" in stored:
            return True
        folder.mkdir(parents=True, exist_ok=True)
        if STATE in stored:
            with self._asking("read"), self.fs.open(self._path(run, STATE), "rb") as handle, \
                    tarfile.open(fileobj=handle, mode="r|") as tar:
                tar.extractall(folder, filter="data")
        return False

    def send(self, run: str, folder: Path) -> None:
        """Store the files of a run in `folder`: everything and then `done`, or why it failed, or its present state."""
        stored = self.files(run).get(run, set())
        if "done" in stored:
            return
        names = _names(folder)
        if "done" in names:
            temporary = ("done", "failed.json", "resume.", "stage-")
            self._copy(run, folder, [name for name in names if not name.startswith(temporary)] + ["done"])
            self._remove(run, stored & {STATE, "failed.json"})
        elif "failed.json" in names:
            self._copy(run, folder, [name for name in ("run.json", "log.jsonl", "failed.json") if name in names])
        elif any(name.endswith(".safetensors") for name in names):
            self._write_file(run, STATE, lambda handle: _pack(folder, handle))

    def get(self, files: Sequence[tuple[str, str]], local: Path) -> None:
        """Copy files (run, name) to `local`, several at once where the store can."""
        with self._asking("read"):
            try:
                for run in {run for run, _ in files}:
                    (local / run).mkdir(parents=True, exist_ok=True)
                if files:
                    self.fs.get([self._path(run, name) for run, name in files],
                                [str(local / run / name) for run, name in files])
            except OSError as problem:  # the store's own errors name no file of ours
                if Path(str(problem.filename or "")).is_relative_to(local):
                    raise ShiftBenchError(f"{problem.filename}: cannot be written ({problem.strerror}). Choose a "
                                          "folder that is yours with --out.") from problem
                raise

    def _path(self, run: str, name: str) -> str:
        return f"{self.root}/{run}/{name}"

    def _copy(self, run: str, folder: Path, names: Sequence[str]) -> None:
        for name in names:
            with (folder / name).open("rb") as source:
                self._write_file(run, name, partial(shutil.copyfileobj, source))

    def _write_file(self, run: str, name: str, write: Callable[[Any], Any]) -> None:
        protocols = {self.fs.protocol} if isinstance(self.fs.protocol, str) else set(self.fs.protocol)
        hidden = name if protocols & WHOLE else f".{name}-{uuid.uuid4().hex[:8]}"
        with self._asking("written"):
            self.fs.makedirs(f"{self.root}/{run}", exist_ok=True)
            try:
                with self.fs.open(self._path(run, hidden), "wb") as handle:
                    write(handle)
                if hidden != name:
                    self.fs.mv(self._path(run, hidden), self._path(run, name))
            except BaseException:
                if hidden != name:
                    self._remove(run, {hidden})
                raise

    def _remove(self, run: str, names: set[str]) -> None:
        for name in names:
            with suppress(Exception):  # gone already; or it stays, and `done` outweighs it
                self.fs.rm_file(self._path(run, name))

    @contextmanager
    def _asking(self, verb: str) -> Iterator[None]:
        try:
            yield
        except ShiftBenchError:
            raise
        except Exception as problem:  # every store has exceptions of its own
            reason = f"{type(problem).__name__}: {problem}".partition("\n")[0].rstrip(".")
            raise ShiftBenchError(f"{self.url}: cannot be {verb} ({reason}). Check the address, that the package for "
                                  "its protocol is installed, and your keys to it.") from problem


def _state(names: set[str]) -> str:
    if "done" in names:
        return "done"
    if "failed.json" in names:
        return "failed"
    return "unfinished" if names else "not started"


def _names(folder: Path) -> list[str]:
    """A run's files, without its lock and what is being written."""
    return sorted(file.name for file in folder.iterdir()
                  if file.is_file() and not file.name.startswith(".") and file.name != "lock")


def _pack(folder: Path, handle: Any) -> None:
    """Write the state from which a run can resume, while it is being trained.

    A checkpoint is replaced, never changed: a hard link keeps the present one. The other files are read after it: a log
    that is too long is cut when the run resumes, but missing lines would stay missing.
    """
    copies = folder / f".{uuid.uuid4().hex}"
    copies.mkdir()
    try:
        for name in sorted(_names(folder), key=lambda name: (name != "resume.safetensors", name)):
            with suppress(FileNotFoundError):
                (os.link if name.endswith(".safetensors") else shutil.copyfile)(folder / name, copies / name)
        with tarfile.open(fileobj=handle, mode="w|") as tar:
            for file in sorted(copies.iterdir()):
                tar.add(file, file.name)
    finally:
        shutil.rmtree(copies, ignore_errors=True)
