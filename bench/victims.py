"""What kill_sweep.py kills, by engine: the worker processes of a driver, or nodes and workers of a Ray cluster."""

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

Target = tuple[str, Callable[[], bool]]
"""Something that can be killed: its name, and how; False where it was gone already."""


class Engine(Protocol):
    """Where the runs are done."""

    env: dict[str, str]

    def targets(self, driver: int) -> list[Target]:
        """What can be killed besides the driver."""

    def close(self) -> None: ...


class Local:
    """Worker processes of the driver."""

    def __init__(self) -> None:
        self.env: dict[str, str] = {}
        self.seen: set[tuple[int, str]] = set()

    def targets(self, driver: int) -> list[Target]:
        found = [pid for server in children(driver) for pid in children(server)]  # a server forks the workers
        self.seen |= {(pid, started(pid)) for pid in found}
        return [("worker", lambda pid=pid: self.kill(pid)) for pid in found]  # type: ignore[misc]

    def kill(self, pid: int) -> bool:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            return True
        return False

    def close(self) -> None:
        """No worker may outlive its driver."""
        time.sleep(1)
        alive = [pid for pid, start in self.seen if start and started(pid) == start]
        if alive:
            raise SystemExit(f"workers that outlived their drivers: {alive}")


class Ray:
    """A Ray cluster on this machine: its two nodes do the runs. A killed node is replaced by a new one."""

    def __init__(self) -> None:
        from ray_cluster import RayCluster

        self.cluster = RayCluster(nodes=2).__enter__()
        self.env = self.cluster.env

    def targets(self, driver: int) -> list[Target]:
        return [("node", self.kill_node), ("worker", self.kill_worker)]

    def kill_node(self) -> bool:
        self.cluster.kill_node()
        self.cluster.add_node()
        return True

    def kill_worker(self) -> bool:
        return bool(self.cluster.kill_worker())

    def close(self) -> None:
        self.cluster.__exit__()


ENGINES: dict[str, Callable[[], Engine]] = {"local": Local, "ray": Ray}


def children(pid: int) -> list[int]:
    found = []
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit() and int(stat_of(int(entry))[1]) == pid:
                found.append(int(entry))
        except OSError:
            continue
    return found


def stat_of(pid: int) -> list[str]:
    """State, parent, … as in proc(5), from the third field on."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def started(pid: int) -> str:
    """When a process that lives was started; empty where it does not."""
    try:
        stat = stat_of(pid)
    except OSError:
        return ""
    return "" if stat[0] in "ZX" else stat[19]
