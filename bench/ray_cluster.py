"""A Ray cluster of several nodes on this machine, to be damaged: workers and nodes can be killed, nodes added.

    with RayCluster(nodes=2) as cluster:
        subprocess.Popen(command, env=os.environ | cluster.env)     # or run_packs(..., address=cluster.address)
        cluster.kill_worker()
        cluster.kill_node()
        cluster.add_node()

Every node is a raylet with processes of its own, as on a machine of its own. The head has no processor, so that runs
are on nodes that may be lost. The cluster is held by a process of its own, which ends with ours, however that ends.

By hand: `python bench/ray_cluster.py --nodes 2` prints the address, then obeys lines: working, worker, node, add,
quit.
"""

import argparse
import contextlib
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path
from threading import Lock
from typing import Any

from shiftbench.core.arrays import child

NOTICE = {"health_check_period_ms": 500, "health_check_failure_threshold": 4, "health_check_timeout_ms": 10_000}
"""A node that is gone is noticed after two seconds, not fifteen; one that is slow is still waited for."""


class RayCluster:
    """A head, and `nodes` raylets of one processor each. Its methods may be called from any thread."""

    def __init__(self, nodes: int = 2, seed: int = 0) -> None:
        self.command = [sys.executable, __file__, "--nodes", str(nodes), "--seed", str(seed)]
        self.turn = Lock()

    def __enter__(self) -> "RayCluster":
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.address = self._answer()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate("quit\n")

    @property
    def env(self) -> dict[str, str]:
        """What a process needs to find the cluster."""
        return {"RAY_ADDRESS": self.address}

    def working(self) -> int:
        """How many processes are doing runs now."""
        return int(self._ask("working"))

    def kill_worker(self) -> int:
        """Kill a process that is doing a run; gives its id, 0 where none is at work."""
        return int(self._ask("worker"))

    def kill_node(self) -> int:
        """Cut a node's power, one that is at work: all its processes are killed. Gives how many were at work, or 0."""
        return int(self._ask("node"))

    def add_node(self) -> None:
        self._ask("add")

    def _ask(self, word: str) -> str:
        with self.turn:
            assert self.process.stdin
            self.process.stdin.write(f"{word}\n")
            self.process.stdin.flush()
            return self._answer()

    def _answer(self) -> str:
        assert self.process.stdout
        for line in self.process.stdout:
            mark, _, answer = line.strip().partition(": ")
            if mark == "cluster":
                return answer
        raise RuntimeError("the cluster has ended")


class Nodes:
    """The cluster itself, in the process that holds it."""

    def __init__(self, nodes: int, seed: int) -> None:
        from ray.cluster_utils import Cluster

        self.rng = child(seed, "bench", "ray cluster")
        head = {"num_cpus": 0, "include_dashboard": False, "_system_config": NOTICE}
        self.cluster = Cluster(initialize_head=True, head_node_args=head)
        self.nodes = [self.cluster.add_node(num_cpus=1) for _ in range(nodes)]

    def obey(self, word: str) -> int:
        if word == "add":
            self.nodes.append(self.cluster.add_node(num_cpus=1))
            return len(self.nodes)
        return {"working": self.working, "worker": self.kill_worker, "node": self.kill_node}[word]()

    def working(self) -> int:
        return sum(len(at_work(node)) for node in self.nodes)

    def kill_worker(self) -> int:
        working = [process for node in self.nodes for process in at_work(node)]
        if not working:
            return 0
        process = working[int(self.rng.integers(len(working)))]
        kill(process)
        return process

    def kill_node(self) -> int:
        working = [node for node in self.nodes if at_work(node)]
        if not working:
            return 0
        node = working[int(self.rng.integers(len(working)))]
        lost = len(at_work(node))
        for process in [*children(raylet(node)), raylet(node)]:
            kill(process)
        self.cluster.remove_node(node, allow_graceful=False)
        self.nodes.remove(node)
        return max(1, lost)  # one may have ended since


def raylet(node: Any) -> int:
    return int(node.all_processes["raylet"][0].process.pid)


def at_work(node: Any) -> list[int]:
    """Workers of a node that have a task: Ray names a process after what it does."""
    return [process for process in children(raylet(node)) if title(process).startswith("ray::shiftbench")]


def children(parent: int) -> list[int]:
    found = []
    for place in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            if int(place.read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(place.parent.name))
    return found


def title(process: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace")
    return ""


def kill(process: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def main() -> None:
    words = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    words.add_argument("--nodes", type=int, default=2)
    words.add_argument("--seed", type=int, default=0, help="of what is killed")
    given = words.parse_args()
    logging.getLogger("ray").setLevel(logging.ERROR)
    nodes = Nodes(given.nodes, given.seed)
    print(f"cluster: {nodes.cluster.address}", flush=True)
    for line in sys.stdin:
        if line.strip() == "quit":
            break
        print(f"cluster: {nodes.obey(line.strip())}", flush=True)
    nodes.cluster.shutdown()


if __name__ == "__main__":
    main()
