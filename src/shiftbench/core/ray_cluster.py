"""A Ray cluster to work on: the one this process is connected to, the one at RAY_ADDRESS, or one started here.

Since Ray 2.52 a cluster may ask for a token, and `ray start` makes it do so wherever it finds one. A client shows its
token only when RAY_AUTH_MODE=token says so; otherwise it is turned away after twenty seconds without a word about
tokens. So we ask first. Where the cluster wants a token, it is taken from where Ray looks: RAY_AUTH_TOKEN (the token
itself), else the file at RAY_AUTH_TOKEN_PATH, else ~/.ray/auth_token. On another machine than the head, copy that file
from there (`ray get-auth-token` prints it). RAY_AUTH_MODE, where it is set, is left as it is.
"""

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import shiftbench
from shiftbench.core.errors import ShiftBenchError, unknown

MODE = "RAY_AUTH_MODE"
TOKEN = "Where Ray looks for a token: RAY_AUTH_TOKEN, the file at RAY_AUTH_TOKEN_PATH, ~/.ray/auth_token."  # noqa: S105


class Cluster(NamedTuple):
    """A cluster and its resources; `ours` says that it was started for this sweep."""

    ray: Any
    cpus: int
    gpus: int
    ours: bool

    def kind(self, device: str) -> str:
        """The device of every task, cuda or cpu; Ray decides which GPU."""
        processor = device.partition(":")[0]
        if processor not in ("auto", "cpu", "cuda"):
            raise unknown("device", device, ["auto", "cpu", "cuda"])
        if processor == "cuda" and not self.gpus:
            raise ShiftBenchError("device=cuda, but the Ray cluster has no GPU. Add a node that has one, or use "
                                  "device=cpu.")
        return "cuda" if processor != "cpu" and self.gpus else "cpu"


@contextmanager
def ray_cluster(address: str | None = None, workers: int = 0) -> Iterator[Cluster]:
    """A cluster, in order of preference: connected already, at `address` or RAY_ADDRESS, of this machine's processors.

    Only what was started here is stopped here: an open connection stays open, a running cluster keeps running.
    `workers` = 0 means one per core for a cluster of this machine; others have the size they have.
    """
    ray = _ray()
    address = address or os.environ.get("RAY_ADDRESS") or None
    connected = ray.is_initialized()
    mode = os.environ.get(MODE)
    with _quiet(ray):
        try:
            if not connected:
                _connect(ray, address, workers)
            resources = ray.cluster_resources()
            cpus, gpus = (int(resources.get(resource, 0)) for resource in ("CPU", "GPU"))
            yield Cluster(ray, cpus, gpus, not connected and not address)
        finally:
            if not connected:
                ray.shutdown()
                if mode is None:
                    _set_mode(ray, None)


def _connect(ray: Any, address: str | None, workers: int) -> None:
    quiet = {"log_to_driver": False, "configure_logging": False}
    where = f"at {address}" if address else "on this machine"
    try:
        if not address:
            ray.init("local", num_cpus=workers or None, include_dashboard=False, **quiet)
            return
        host, _, port = address.rpartition(":")
        if port.isdigit():
            # Ray itself waits many minutes for an address where nothing runs.
            socket.create_connection((host.rpartition("/")[2].strip("[]"), int(port)), timeout=5).close()
            if "://" not in address and MODE not in os.environ and _asks_for_token(ray, address):
                if not _has_token():
                    raise ShiftBenchError(f"The Ray cluster {where} asks for a token, and there is none here. {TOKEN} "
                                          "Copy it from the head (`ray get-auth-token` prints it there).")
                _set_mode(ray, "token")
        ray.init(address, runtime_env=_our_code(), **quiet)
    except ShiftBenchError:
        raise
    except Exception as problem:
        reason = str(problem).partition("\n")[0].rstrip(".")
        if type(problem).__name__ == "AuthenticationError" or "InvalidAuthToken" in f"{problem.__cause__}":
            raise ShiftBenchError(f"The Ray cluster {where} does not let us in ({reason}). {TOKEN} It must be the "
                                  f"head's, with {MODE} unset or 'token'.") from problem
        if not isinstance(problem, OSError | RuntimeError | ValueError):
            raise
        raise ShiftBenchError(f"No Ray cluster {where} ({reason}). Check that it runs (`ray status`), or use the "
                              "engine local.") from problem


def _our_code() -> dict[str, Any]:
    """The code that the workers of a cluster import: this package, whichever version is installed there.

    Its dependencies must be installed. The copy is made once, so editing files does not change a running sweep.
    """
    return {"py_modules": [str(Path(shiftbench.__file__).parent)], "excludes": ["__pycache__"]}


def _asks_for_token(ray: Any, address: str) -> bool:
    """Whether a cluster refuses a connection without a token."""
    with _no_stderr():  # the refusal is also printed, by Ray's C++ part
        try:
            ray._raylet.GcsClient(address=address)
        except Exception as problem:  # no such call in this version of Ray, or no cluster: connecting will tell
            return type(problem).__name__ == "AuthenticationError"
    return False


def _has_token() -> bool:
    path = Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or Path.home() / ".ray" / "auth_token")
    return bool(os.environ.get("RAY_AUTH_TOKEN")) or path.is_file()


def _set_mode(ray: Any, mode: str | None) -> None:
    """Set or unset RAY_AUTH_MODE as if before Ray was imported, which reads it once."""
    if mode is None:
        os.environ.pop(MODE, None)
    else:
        os.environ[MODE] = mode
    with suppress(AttributeError):  # another version of Ray: then it counts for the next process
        ray._raylet.Config.initialize("")


@contextmanager
def _quiet(ray: Any) -> Iterator[None]:
    """Silence Ray's advice about tokens, and the lines that it prints for every worker that is lost."""
    logger, printer = logging.getLogger("ray"), ray._private.worker
    before = logger.level, getattr(printer, "_worker_logs_enabled", True)
    logger.setLevel(logging.ERROR)
    printer._worker_logs_enabled = False  # as Ray's own debugger does; log_to_driver=False leaves these
    try:
        yield
    finally:
        logger.setLevel(before[0])
        printer._worker_logs_enabled = before[1]


@contextmanager
def _no_stderr() -> Iterator[None]:
    stderr = os.dup(2)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(null)


def _ray() -> Any:
    try:
        import ray
    except ImportError as problem:
        raise ShiftBenchError('The engine ray needs Ray. Install it: pip install "shiftbench[ray]".') from problem
    return ray
