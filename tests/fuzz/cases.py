"""One case: a command on a project in which one thing was changed, and whether it ended as it must."""

import contextlib
import ctypes
import io
import os
import re
import resource
import shutil
import signal
import struct
import sys
import traceback
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import typer
from numpy.random import Generator

from shiftbench import cli
from shiftbench.core.errors import ShiftBenchError
from tests.fuzz.hostile import BYTES, DIGITS, name
from tests.fuzz.mutations import TOML, mutated
from tests.fuzz.samples import Command

SECONDS = 20
"""A command that takes longer hangs; the slowest sound one takes three."""
GIGABYTES = 4
"""Memory that a command may take beyond what the process has."""
WORDS = "its words"
"""The target of a command whose command line is changed instead of a file."""
NAMES = "names of files"
"""The target of a command that lists folders, in which a name is changed."""
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""What a terminal may take for an order; a tab and a line break are ours."""
OWN = {"out", "-o", "--out"}
SIZES = {"--steps", "--replicates", "--repeats", "--items", "--n", "--workers", "--size", "--rescale", "--ladder",
         "--questions", "--examples", "--partners"}
"""Options whose large values ask for a long time and get it."""


class Target(NamedTuple):
    """What is changed for a command: a file, its words, or a name in one of the folders that it lists."""

    command: Command
    what: str
    listed: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.command.name}: {self.what}"


class End(NamedTuple):
    """How a command ended; `problem` is the traceback of what it did not catch."""

    code: int
    out: str
    err: str
    problem: str


class Overdue(BaseException):
    """The time is over. No `except Exception` stops it."""


class Project:
    """A project that every case finds as it was at first."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.content = {path: path.read_bytes() for path in self._files()}
        self.marks = self._marks()

    def _files(self) -> list[Path]:
        return [Path(folder) / file for folder, _, files in os.walk(self.place) for file in files]

    def _entries(self) -> Iterator[os.DirEntry[str]]:
        """Every file and folder; links are not followed. Called several times per case, so that paths stay strings."""
        folders = [str(self.place)]
        while folders:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    yield entry

    def _marks(self) -> dict[str, tuple[int, int]]:
        """Every file and folder, and the size of a file and when it was last written."""
        found = {}
        for entry in self._entries():
            facts = None if entry.is_dir(follow_symlinks=False) else entry.stat(follow_symlinks=False)
            found[entry.path] = (facts.st_size, facts.st_mtime_ns) if facts else (0, 0)
        return found

    def restore(self) -> None:
        """Everything as it was."""
        now = self._marks()
        for path in sorted(set(now) - set(self.marks), key=len, reverse=True):
            shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)
        changed = False
        for path, mark in self.marks.items():
            if now.get(path) == mark and not os.path.islink(path):
                continue
            changed = True
            if os.path.islink(path) or os.path.isfile(path):
                os.unlink(path)
            if Path(path) in self.content:
                if os.path.isdir(path):
                    shutil.rmtree(path)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                Path(path).write_bytes(self.content[Path(path)])
            else:
                os.makedirs(path, exist_ok=True)
        if changed:
            self.marks = self._marks()

    def left_over(self) -> list[str]:
        """Files that a command has written and not moved to their place, and what it wrote below out/."""
        new = {entry.path for entry in self._entries()} - self.marks.keys()
        return sorted(os.path.relpath(path, self.place) for path in new)


def prepare() -> None:
    """Build the command line once: typer builds it anew at every call."""
    if isinstance(cli.command.app, typer.Typer):
        cli.command.app = typer.main.get_command(cli.command.app)  # type: ignore[assignment]


@contextlib.contextmanager
def limits(memory: bool) -> Iterator[None]:
    """Processor time, ten times as much by the clock, and in a process of our own memory."""
    if memory:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * 4096 + (GIGABYTES << 30), resource.RLIM_INFINITY))

    def overdue(*_: object) -> None:
        raise Overdue

    timers = {signal.ITIMER_PROF: (signal.SIGPROF, SECONDS), signal.ITIMER_REAL: (signal.SIGALRM, 10 * SECONDS)}
    before = {number: signal.signal(number, overdue) for number, _ in timers.values()}
    for timer, (_, seconds) in timers.items():
        signal.setitimer(timer, seconds, 1.0)
    try:
        yield
    finally:
        for timer in timers:
            signal.setitimer(timer, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def run(command: Command, words: Sequence[str] | None = None, memory: bool = False) -> End:
    """A command in this process, its output as the shell gets it."""
    _forget()
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", errors) for errors in ("strict", "backslashreplace"))
    code, problem = 0, ""
    argv, sys.argv = sys.argv, ["shiftbench", *(command.words if words is None else words)]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), limits(memory):
            try:
                if command.call is not None and words is None:
                    command.call()
                else:
                    cli.main()
                out.flush()
            except ShiftBenchError as message:
                code = 1
                err.write(f"shiftbench: {message}\n")
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except Overdue:
        problem = f"Overdue: after {SECONDS} s"
    except BaseException:
        problem = traceback.format_exc()
    finally:
        sys.argv = argv
    texts = []
    for stream in (out, err):
        with contextlib.suppress(UnicodeEncodeError):
            stream.flush()
        texts.append(stream.detach().getvalue().decode())  # type: ignore[attr-defined]
    return End(code, *texts, problem)


def _forget() -> None:
    """Data that a process keeps between two trainings: the next case has other files."""
    if "shiftbench.training.batches" in sys.modules:
        sys.modules["shiftbench.training.batches"]._LOADED.clear()  # type: ignore[attr-defined]


def verdict(command: Command, end: End, left: Sequence[str]) -> str:
    """What is wrong with how a command ended, in a line; empty where nothing is."""
    if end.problem:
        last = end.problem.strip().splitlines()
        ours = [line.strip() for line in last if "/shiftbench/" in line and "tests/fuzz" not in line]
        at = re.sub(r'File ".*/shiftbench/(.*)", line (\d+), in (\w+)', r"\1:\2 \3", ours[-1]) if ours else ""
        return f"{_short(last[-1])} at {at}" if at else _short(last[-1])
    if end.code not in (0, 1, 2):
        return f"exit code {end.code}"
    if CONTROL.search(end.out) or CONTROL.search(end.err):
        return "a control character is printed"
    said = [line for line in end.err.splitlines() if not line.startswith("note: ")]
    if end.code == 1 and not (len(said) == 1 and said[0].startswith("shiftbench: ") and len(said[0]) > 14) and not (
            command.finds and end.out and not said):
        return f"exit code 1 with {len(said)} lines: {_short(' | '.join(said))}"
    if end.code == 0 and said:
        return f"standard error says {_short(said[0])}"
    hidden = [path for path in left if Path(path).name.startswith(".")]
    if hidden:
        return f"left {hidden[0]}"
    if end.code and left and not command.keeps:
        return f"failed and left {left[0]}"
    return ""


def _short(text: str) -> str:
    return ascii(text)[1:-1][:160]


def case(project: Project, target: Target, number: int, seed: int, memory: bool = False) -> tuple[str, str]:
    """Do one case; gives what is wrong, and what happened at length. The same numbers make the same case."""
    rng = np.random.default_rng([seed, zlib.crc32(str(target).encode()), number])
    command = target.command
    words = _words(command, rng) if target.what == WORDS else None
    try:
        if target.what == NAMES:
            _rename(project, target.listed, rng)
        elif target.what != WORDS:
            _change(project.place / target.what, project.content[project.place / target.what], rng)
        before = set(project.left_over())
        end = run(command, words, memory)
        wrong = verdict(command, end, sorted(set(project.left_over()) - before))
        for after in command.then if end.code == 0 and not wrong and "--help" not in (words or ()) else ():
            end = run(Command(command.name, after), None, memory)
            wrong = verdict(command, end, ())
            wrong = f"then {after[0]}: {wrong or end.err}" if wrong or end.code else ""
        return wrong, f"{end.problem}{end.err}" if wrong else ""
    finally:
        project.restore()


def _change(path: Path, data: bytes, rng: Generator) -> None:
    """Another content; now and then no file, a folder or a link to itself in its place."""
    fate = rng.random()
    path.unlink()
    if fate < 0.01:
        path.mkdir()
    elif fate < 0.02:
        path.symlink_to(path.name)
    elif fate > 0.03:
        path.write_bytes(mutated(path.name, data, rng))


def _rename(project: Project, listed: Sequence[str], rng: Generator) -> None:
    """A file or folder in a listed folder gets a hostile name."""
    folders = {os.path.normpath(project.place / folder) for folder in listed}
    entries = sorted(path for path in project.marks if os.path.dirname(path) in folders)
    path = Path(entries[rng.integers(len(entries))])
    new = BYTES[rng.integers(len(BYTES))] if rng.random() < 0.5 else name(rng).encode()
    new = new.replace(b"/", b"").replace(b"\0", b"")[:200] or b"x"
    if new in (b".", b".."):
        new = b"..."
    os.rename(path, os.path.join(os.fsencode(path.parent), new + os.fsencode(path.suffix)))


def _words(command: Command, rng: Generator) -> list[str]:
    """The command line with one value replaced, or with a further setting."""
    words = list(command.words)
    if "--set" in words or rng.random() < 0.2:
        key = ("p", "seed", "label", "lr", "steps.a", name(rng), "run.model", "penalty")[rng.integers(8)]
        said = TOML[rng.integers(len(TOML))] if rng.random() < 0.6 else name(rng)
        if rng.random() < 0.6:
            return [*words, "--set", f"{key}={said}".replace("\0", "")]
    free = [place for place in range(1, len(words)) if not words[place].startswith("--")
            and words[place - 1] not in OWN | SIZES and not words[place].startswith("out/")
            and "=" not in words[place]]
    if not free:
        return words
    new = (name(rng), "nan", "-1", "0", "1e-300", DIGITS, "-inf", os.fsdecode(BYTES[rng.integers(len(BYTES))]))
    words[free[rng.integers(len(free))]] = new[rng.integers(len(new))].replace("\0", "")
    return words


class Watch:
    """Which files below a folder are opened, whoever opens them (Linux: inotify)."""

    OPEN = 0x20

    def __init__(self, place: Path) -> None:
        self.place, self.libc = place, ctypes.CDLL(None, use_errno=True)
        self.handle = self.libc.inotify_init1(os.O_NONBLOCK)
        self.folders = {}
        for folder, _, _ in os.walk(place):
            self.folders[self.libc.inotify_add_watch(self.handle, os.fsencode(folder), self.OPEN)] = Path(folder)

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.handle)

    def opened(self) -> set[str]:
        """Since it was last asked: files, relative to the folder, and ending in / the folders that were listed."""
        found, head = set(), struct.Struct("iIII")
        while True:
            try:
                data = os.read(self.handle, 1 << 20)
            except BlockingIOError:
                return found
            place = 0
            while place < len(data):
                watch, mask, _, length = head.unpack_from(data, place)
                file = data[place + head.size:place + head.size + length].rstrip(b"\0")
                folder = self.folders[watch]
                if mask & 0x40000000:  # a folder was listed
                    found.add(f"{os.path.relpath(folder / os.fsdecode(file), self.place)}/")
                elif file:
                    found.add(os.path.relpath(folder / os.fsdecode(file), self.place))
                place += head.size + length


def targets(project: Project, commands: Sequence[Command]) -> list[Target]:
    """Every file that each command opens when all is sound: who reads what is watched, not listed."""
    found = []
    with Watch(project.place) as watch:
        for command in commands:
            watch.opened()
            end = run(command)
            assert not end.problem, (command.name, end.problem)
            assert end.code == 0 or (end.code == 1 and (command.finds or command.refuses)), (command.name, end)
            for after in () if end.code else command.then:
                assert run(Command(command.name, after)).code == 0, (command.name, after)
            opened = watch.opened()
            files = sorted(path for path in opened if project.place / path in project.content)
            found += [Target(command, path) for path in files if path in _different(files)]
            if command.words:
                found.append(Target(command, WORDS))
            listed = tuple(sorted(path for path in opened if path.endswith("/") and not path.startswith("out/")))
            if listed:
                found.append(Target(command, NAMES, listed))
            project.restore()
    return found


def _different(files: Sequence[str]) -> set[str]:
    """Of many files of one kind in one folder, a few."""
    by_kind: dict[tuple[str, str], list[str]] = {}
    for file in files:
        by_kind.setdefault((os.path.dirname(file), Path(file).suffix), []).append(file)
    return {file for alike in by_kind.values() for file in alike[:3]}
