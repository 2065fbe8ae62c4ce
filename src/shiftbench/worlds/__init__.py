"""Built-in worlds: collections that are drawn, not downloaded."""

from collections.abc import Callable

from shiftbench.collection import Collection
from shiftbench.worlds.scenes import scenes as _scenes

WORLDS: dict[str, Callable[..., Collection]] = {"scenes": _scenes}
