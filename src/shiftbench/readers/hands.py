"""A second pair of hands: part of the work in a forked process, which sees the same mapped file and memory.

It can only help. Where there is no fork, where the process fails or takes too long, the answer is None and the caller
does the work itself, so nothing is lost and errors come from one place.
"""

import os
import select
import signal
import sys
import time
import warnings
from collections.abc import Callable
from types import TracebackType

MOST = 4  # processes; more are not faster, since what comes after the decoding is done by one


def hands() -> int:
    """How many processes may share the work: as many as there are processors for us, 1 where there is no fork."""
    if sys.platform != "linux":
        return 1
    return min(len(os.sched_getaffinity(0)), MOST)


class Hand:
    """Starts `work` at once; `result` waits for the bytes that it returns."""

    def __init__(self, work: Callable[[], bytes]) -> None:
        self._pid = 0
        self._pipe, out = os.pipe()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # of threads; the work below uses none
                self._pid = os.fork()
        except OSError:
            os.close(out)
            return
        if self._pid == 0:
            status = 1
            try:
                with os.fdopen(out, "wb") as pipe:
                    pipe.write(work())
                status = 0
            finally:
                os._exit(status)  # nothing of the parent's may run here, whatever happened
        os.close(out)

    def __enter__(self) -> "Hand":
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        os.close(self._pipe)

    def result(self, patience: float) -> bytes | None:
        """What the work returned, or None when it failed or said nothing for `patience` seconds."""
        if not self._pid:
            return None
        parts: list[bytes] = []
        end = time.monotonic() + patience
        while select.select([self._pipe], [], [], max(end - time.monotonic(), 0))[0]:
            parts.append(os.read(self._pipe, 1 << 20))
            if not parts[-1]:
                _, status = os.waitpid(self._pid, 0)
                self._pid = 0
                return b"".join(parts) if status == 0 else None
        return None
