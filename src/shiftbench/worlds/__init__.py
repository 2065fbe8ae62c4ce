"""Built-in worlds: collections that are drawn, not downloaded."""

from collections.abc import Callable
from typing import Annotated

from shiftbench.core.errors import Advance
from shiftbench.core.registry import find
from shiftbench.data.collection import Collection
from shiftbench.worlds.scenes import scenes as _scenes
from shiftbench.worlds.sprites import sprites as _sprites

WORLDS: dict[str, Callable[..., Collection]] = {"scenes": _scenes, "sprites": _sprites}


def world(
    world: Annotated[str, "Name of the world: scenes or sprites."],
    *,
    items: Annotated[int, "How many items to draw."] = 6000,
    seed: Annotated[int, "Item i of a seed is the same whatever else is drawn."] = 0,
    size: Annotated[int, "Pixels per side: 32 to 256; sprites 32, 64, 128, 256."] = 64,
    progress: Advance | None = None,
) -> Collection:
    """Draw a built-in world: no download, and the truth about every picture is known.

    shiftbench read world scenes --items 6000 --seed 0 --out collections/scenes
    """
    return find(WORLDS, "world", world)(items, seed, size, progress)
