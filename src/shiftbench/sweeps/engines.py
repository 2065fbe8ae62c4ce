"""Where the runs of a sweep are done. Every engine takes the same packs and leaves the same folders."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from shiftbench.core.errors import ShiftBenchError
from shiftbench.sweeps.storage import is_url
from shiftbench.sweeps.work import Outcome


def local(*given: Any, **options: Any) -> list[Outcome]:
    from shiftbench.sweeps.local import run_packs

    return run_packs(*given, **options)


def ray(*given: Any, **options: Any) -> list[Outcome]:
    from shiftbench.sweeps.on_ray import run_packs

    return run_packs(*given, **options)


ENGINES: Mapping[str, Callable[..., list[Outcome]]] = {"local": local, "ray": ray}


def check_place(out: Path | str, engine: str, logs: Sequence[str], leave_one_domain_out: bool) -> None:
    """A URL is only for what the workers of a cluster bring there."""
    if not is_url(out):
        return
    if engine == "local":
        raise ShiftBenchError(f"--out {out}: the local engine writes to a folder. Name one, or use --engine ray.")
    if logs or leave_one_domain_out:
        what = "leave_one_domain_out" if leave_one_domain_out else "--log"
        raise ShiftBenchError(f"--out {out}: {what} needs a folder that this machine sees, not a URL.")
