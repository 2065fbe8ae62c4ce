"""Where the runs of a sweep are done. Every engine takes the same packs and leaves the same folders."""

from collections.abc import Callable, Mapping
from typing import Any

from shiftbench.sweeps.work import Outcome


def local(*given: Any, **options: Any) -> list[Outcome]:
    from shiftbench.sweeps.local import run_packs

    return run_packs(*given, **options)


def ray(*given: Any, **options: Any) -> list[Outcome]:
    from shiftbench.sweeps.on_ray import run_packs

    return run_packs(*given, **options)


ENGINES: Mapping[str, Callable[..., list[Outcome]]] = {"local": local, "ray": ray}
