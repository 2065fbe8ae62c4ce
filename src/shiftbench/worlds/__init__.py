"""Built-in worlds: collections that are drawn, not downloaded."""

from collections.abc import Callable

from shiftbench.data.collection import Collection
from shiftbench.worlds.scenes import scenes as _scenes
from shiftbench.worlds.sprites import sprites as _sprites

WORLDS: dict[str, Callable[..., Collection]] = {"scenes": _scenes, "sprites": _sprites}
