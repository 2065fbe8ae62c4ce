"""What a study makes for itself: a world, and the benchmarks of suites and recipes on it or on any collection."""

import inspect
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.files import lock, read_marker
from shiftbench.core.registry import find
from shiftbench.data import benchmark as benchmarks
from shiftbench.data import collection as collections
from shiftbench.data.collection import Collection
from shiftbench.shifts.recipe import Recipe
from shiftbench.shifts.replicates import Member, draw_of, members
from shiftbench.shifts.suites import suite

Say = Callable[[str], None]


class Made(NamedTuple):
    """Where a benchmark of a study lies, or is to lie, and what it is."""

    folder: Path
    member: Member


@dataclass(frozen=True)
class Sources:
    """A collection, and the benchmarks built from it. All that is missing is made below the study's `out`.

    Every folder is written whole, so a killed process leaves nothing half-made; a second one waits for the first. A
    benchmark that is there but was built otherwise is an error: its runs would not be scored on what they saw.
    """

    suites: tuple[str, ...] = ()
    recipes: tuple[str, ...] = ()  # files
    only: tuple[str, ...] = ()  # names of the benchmarks to keep; default: all
    world: Mapping[str, Any] = field(default_factory=dict)
    collection: str = ""
    source: str = "study"  # named in messages

    def __post_init__(self) -> None:
        if self.world and not (self.suites or self.recipes):
            raise ShiftBenchError(f"{self.source}: draws a world, but builds nothing from it. Add suites = [\"NAME\"] "
                                  "or recipes = [\"FILE.toml\"].")
        if self.world and self.collection:
            raise ShiftBenchError(f"{self.source}: has both [world] and collection; give one of them.")
        if self.only and not (self.suites or self.recipes):
            raise ShiftBenchError(f"{self.source}: 'members' keeps some of what is built, but nothing is: there are no "
                                  "suites and no recipes.")
        if self.suites and not (self.world or self.collection):
            raise ShiftBenchError(f"{self.source}: suites need a collection. Add collection = \"FOLDER\", or a table "
                                  "[world] with name = \"sprites\" to draw one.")
        if self.world:
            self._options()

    def members(self, draws: Sequence[int] = ()) -> list[Member]:
        """What is built, each name once."""
        place = self.collection or ("." if self.world else "")
        listed = [one for name in self.suites for one in members(suite(name), draws)]
        for file in self.recipes:
            recipe = Recipe.load(file, {"collection": place} if place else {})
            listed += members([(Path(file).stem, recipe.shift)], draws, recipe.seed)
        names = list(dict.fromkeys(one.name for one in listed))
        for name in self.only:
            if name not in names:
                raise unknown("member", name, names, self.source)
        kept = [one for one in listed if not self.only or one.name in self.only]
        folders = [one.folder for one in kept]
        for folder in folders:
            if folders.count(folder) > 1:
                raise ShiftBenchError(f"{self.source}: two of its benchmarks are named '{folder}'. Name fewer suites, "
                                      "or rename a recipe.")
        return kept

    def folders(
        self, out: Path, draws: Sequence[int] = (), scratch: Path | None = None, say: Say | None = None
    ) -> list[Path]:
        """The folders of the benchmarks, built where they are missing: below `scratch`, if given, else below `out`."""
        wanted = self.members(draws)
        if not wanted:
            return []
        world = self._world(out, scratch)
        if (world and not (world / collections.MARKER).is_file()) or self._missing(out, wanted, scratch):
            with _alone(scratch or out):
                self._make(out, wanted, scratch or out, say or (lambda _: None))
        return [one.folder for one in self._places(out, wanted, scratch)]

    def _places(self, out: Path, wanted: Sequence[Member], scratch: Path | None) -> list[Made]:
        return [Made(_at(out, scratch, Path("benchmarks", one.folder), benchmarks.MARKER), one) for one in wanted]

    def _missing(self, out: Path, wanted: Sequence[Member], scratch: Path | None) -> list[Made]:
        """What is not there yet; what is there is checked to be what is wanted."""
        found: list[Made] = []
        digests: dict[Path, str] = {}
        for one in self._places(out, wanted, scratch):
            if not (one.folder / benchmarks.MARKER).is_file():
                found.append(one)
                continue
            facts = read_marker(one.folder, benchmarks.MARKER, "benchmark", benchmarks.FORMAT, benchmarks.SHAPE)
            card, place = facts["card"], self._collection_of(one.member, out, scratch)
            if place not in digests:
                digests[place] = read_marker(place, collections.MARKER, "collection", collections.FORMAT,
                                             {"digest": str})["digest"]
            there = card.get("collection", {})
            same = there.get("digest") == digests[place] and draw_of(card) == one.member.draw
            if self.world:  # a digest need not know the size of pictures, but the folder's name does
                same = same and Path(str(there.get("path"))).name == place.name
            if not same or {key: card.get(key) for key in one.member.facts} != one.member.facts:
                raise ShiftBenchError(f"{one.folder} is there, but was built from another collection or with other "
                                      f"settings than {self.source} asks for. Choose another --out.")
        return found

    def _make(self, out: Path, wanted: Sequence[Member], base: Path, say: Say) -> None:
        world = self._world(out, base)
        if world and not (world / collections.MARKER).is_file():
            from shiftbench.worlds import WORLDS

            options = self._options()
            say(f"drawing {self.world['name']}" + "".join(f", {key} {value}" for key, value in options.items()))
            WORLDS[str(self.world["name"])](**options).save(world)
        missing = self._missing(out, wanted, base)
        if missing:
            say(f"building {len(missing)} {'benchmark' if len(missing) == 1 else 'benchmarks'} below "
                f"{base / 'benchmarks'}")
        loaded: dict[Path, Collection] = {}
        for one in missing:
            place = self._collection_of(one.member, out, base)
            if place not in loaded:
                loaded[place] = Collection.load(place)
            one.member.save(loaded[place], one.folder.parent, place)

    def _collection_of(self, member: Member, out: Path, scratch: Path | None) -> Path:
        """Where the collection of a benchmark is: the study's, or for a recipe its own."""
        shared = self._world(out, scratch) or (Path(self.collection) if self.collection else None)
        return shared or next(Recipe.load(file).collection for file in self.recipes if Path(file).stem == member.name)

    def _world(self, out: Path, scratch: Path | None) -> Path | None:
        """A world's folder, named by all that decides it."""
        if not self.world:
            return None
        words = [str(self.world["name"]), *(f"{key}{value}" for key, value in sorted(self._options().items()))]
        return _at(out, scratch, Path("collections", "-".join(words)), collections.MARKER)

    def _options(self) -> dict[str, int]:
        """The settings of the world, checked."""
        from shiftbench.worlds import WORLDS

        where = f"{self.source} [world]"
        if not isinstance(self.world.get("name"), str):
            raise ShiftBenchError(f"{where}: 'name' is missing. Known worlds: {', '.join(WORLDS)}.")
        drawing = inspect.signature(find(WORLDS, "world", self.world["name"])).parameters
        known = {key: part.default for key, part in drawing.items() if isinstance(part.default, int)}
        for key, value in self.world.items():
            if key != "name" and key not in known:
                raise unknown("setting", key, ["name", *known], where)
            if key != "name" and (not isinstance(value, int) or isinstance(value, bool)):
                raise ShiftBenchError(f"{where}: '{key}' is {value!r}, but it must be a whole number.")
        return {key: self.world.get(key, default) for key, default in known.items()}


def _at(out: Path, scratch: Path | None, name: Path, marker: str) -> Path:
    """A folder of ours below `out` where it is there, else below `scratch`, if given."""
    return (out if scratch is None or (out / name / marker).is_file() else scratch) / name


@contextmanager
def _alone(place: Path) -> Iterator[None]:
    """While another process makes data here, wait for it: what it makes need not be made again."""
    while True:
        with lock(place / ".making") as mine:
            if mine:
                yield
                return
        time.sleep(0.2)
