"""The same counting on Ray: pieces of a table are mapped to workers, their counts are summed.

Workers read the table themselves, so its folder must be visible on every machine of the cluster under the same name.
"""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np

from shiftbench.core.errors import ShiftBenchError
from shiftbench.metagraph.overlaps import Counts
from shiftbench.metagraph.stream import Piece, Source, Total, opened


@contextmanager
def on_ray(source: Source) -> Iterator[Total]:
    """`total(count, …)`, the sum of `count(source, piece, …)` over pieces, each piece a Ray task.

    On the cluster that this process is connected to, on that at RAY_ADDRESS, or on one of this machine's processors,
    which is started here and stopped at the end.
    """
    ray = _ray()
    started = not ray.is_initialized()
    if started:
        _connect(ray, os.environ.get("RAY_ADDRESS"))
    try:
        yield lambda count, *facts: _summed(ray, source, count, *facts)
    finally:
        if started:
            ray.shutdown()


def pieces(groups: int, parts: int) -> list[Piece]:
    """Row groups 0..groups - 1 in at most `parts` pieces of alike size."""
    bounds = np.linspace(0, groups, max(min(parts, groups), 1) + 1).round().astype(int).tolist()
    return [Piece(low, high) for low, high in pairwise(bounds)]


def _summed(ray: Any, source: Source, count: Callable[..., Counts], *facts: Any) -> Counts:
    task = ray.remote(num_cpus=1)(count)
    shared = [ray.put(fact) for fact in facts]  # sent once, not once per task
    workers = int(ray.cluster_resources().get("CPU", 1))
    parts = pieces(opened(source).num_row_groups, workers)
    waiting = [task.remote(source, piece, *shared, threads=1) for piece in parts]
    total: Counts | None = None
    while waiting:
        (done,), waiting = ray.wait(waiting)
        try:
            counts = ray.get(done)
        except ray.exceptions.RayTaskError as problem:
            if isinstance(problem.cause, ShiftBenchError):
                raise problem.cause from None
            raise
        total = counts.copy() if total is None else np.add(total, counts, out=total)
    assert total is not None
    return total


def _connect(ray: Any, address: str | None) -> None:
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    quiet = {"log_to_driver": False, "configure_logging": False}
    try:
        if port.isdigit():
            socket.create_connection((host, int(port)), timeout=5).close()  # Ray itself waits many minutes for nobody
        ray.init(address, **quiet) if address else ray.init("local", include_dashboard=False, **quiet)
    except (OSError, RuntimeError, ValueError) as problem:
        reason = str(problem).partition("\n")[0].rstrip(".")
        where = f"at RAY_ADDRESS={address}" if address else "on this machine"
        raise ShiftBenchError(f"No Ray cluster {where} ({reason}). Check that it runs and that this process may use it "
                              "(RAY_AUTH_MODE=token where it asks for a token), or use the engine local.") from problem


def _ray() -> Any:
    try:
        import ray
    except ImportError as problem:
        raise ShiftBenchError('The engine ray needs Ray. Install it: pip install "shiftbench[ray]".') from problem
    return ray
