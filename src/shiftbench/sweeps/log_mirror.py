"""Copies the logs of a sweep to TensorBoard or MLflow while it goes on, in a thread beside it."""

import time
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from threading import Event, Thread
from types import TracebackType

from shiftbench.core.errors import ShiftBenchError
from shiftbench.training.sinks import open_sinks, read_entry


class Mirror:
    """Inside `with Mirror(out, ["tensorboard"], runs):` the logs of these runs are copied as they grow.

    A sink that cannot take them stops nothing: what was missed is tried again, at the latest when the block ends; what
    is missing then stands in `problem` and in a warning. Runs that were done before are copied too, so that a sweep
    that starts again with a sink, or after its copy was killed, ends with all of them.
    """

    def __init__(self, out: Path | str, names: Sequence[str], runs: Iterable[str], seconds: float = 5.0) -> None:
        self.out, self.seconds, self.problem = Path(out), seconds, ""
        self.sinks = open_sinks(names, self.out)
        self.open: dict[str, object] = dict.fromkeys(runs) if names else {}  # run -> how its files looked last time
        self._stop = Event()
        self._thread = Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Mirror":
        if self.open:
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: BaseException | TracebackType | None) -> None:
        if self._thread.is_alive():
            self._stop.set()
            self._thread.join()
        if self.problem:
            warnings.warn(f"Not all logs could be copied, from run {self.problem}. The runs and their log.jsonl are "
                          "whole; the same sweep started again copies the rest.", RuntimeWarning, stacklevel=2)

    def _watch(self) -> None:
        wait = 0.0
        while not self._stop.wait(wait):
            began = time.monotonic()
            self.look()
            # Many runs take long to look at; the sweep must not lose more than a twentieth of a core to this.
            wait = max(self.seconds, 20 * (time.monotonic() - began))
        self.look()

    def look(self) -> None:
        """Copy what has changed since the last look."""
        self.problem = ""
        for run, before in list(self.open.items()):
            folder = self.out / run
            now = _looks(folder)
            if now is None or now == before:
                continue
            try:
                entry = read_entry(folder)
            except (ShiftBenchError, KeyError, TypeError, ValueError):
                continue  # its run.json is damaged, which training and scoring say better
            try:
                for sink in self.sinks:
                    sink.copy(entry)
            except Exception as problem:  # any error of another package: the sweep goes on
                self.problem = f"{run}: {type(problem).__name__}: {str(problem).strip().partition(chr(10))[0]}"
                return  # the next run would fail alike, after as long a wait
            self.open[run] = now
            if entry.state == "done":
                del self.open[run]


def _looks(folder: Path) -> tuple[int, int, bool] | None:
    """Size and time of the log, and whether the run has ended; None while there is nothing to tell."""
    ended = (folder / "done").is_file() or (folder / "failed.json").is_file()
    try:
        seen = (folder / "log.jsonl").stat()
    except OSError:
        return (0, 0, ended) if ended else None
    return seen.st_size, seen.st_mtime_ns, ended
