"""The benchmarks of a study: those that it builds for itself, on a world or any collection, and where each lies."""

import inspect
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from shiftbench.core.errors import Advance, Say, ShiftBenchError, unknown
from shiftbench.core.files import locked, read_marker
from shiftbench.core.registry import find
from shiftbench.data import benchmark as benchmarks
from shiftbench.data import collection as collections
from shiftbench.data.benchmark import MARKER, Benchmark, collection_folder
from shiftbench.data.collection import Collection
from shiftbench.shifts.leave_one_domain_out import leave_out
from shiftbench.shifts.low_data import replicate_of, same_rows
from shiftbench.shifts.recipe import Recipe, several
from shiftbench.shifts.suites import Member, members, suite

Place = tuple[Path, Member]
"""The folder of a benchmark of a study, there or not, and what it is built from."""


@dataclass(frozen=True)
class Builds:
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
        collection = self.collection or ("." if self.world else "")
        every = [member for name in self.suites for member in members(suite(name), draws)]
        for member in every:
            if several(member.shift):
                raise ShiftBenchError(f"{self.source}: what suite member '{member.name}' stands for depends on the "
                                      "collection. Build the suite first, and name its folders as benchmarks.")
        for file in self.recipes:
            recipe = Recipe.load(file, {"collection": collection} if collection else {})
            every += members([(Path(file).stem, recipe.shift)], draws, recipe.seed)
        names = list(dict.fromkeys(member.name for member in every))
        for name in self.only:
            if name not in names:
                raise unknown("member", name, names, self.source)
        chosen = [member for member in every if not self.only or member.name in self.only]
        folders = [member.folder for member in chosen]
        for folder in folders:
            if folders.count(folder) > 1:
                raise ShiftBenchError(f"{self.source}: two of its benchmarks are named '{folder}'. Name fewer suites, "
                                      "or rename a recipe.")
        return chosen

    def folders(
        self, out: Path, draws: Sequence[int] = (), scratch: Path | None = None, say: Say | None = None,
        progress: Advance | None = None,
    ) -> list[Path]:
        """The folders of the benchmarks, built where they are missing: below `scratch`, if given, else below `out`."""
        base = scratch or out
        places = [(_at(out, base, Path("benchmarks", member.folder), benchmarks.MARKER), member)
                  for member in self.members(draws)]
        world = None
        if self.world:  # its folder is named by all that decides it
            facts = [str(self.world["name"]), *(f"{key}{value}" for key, value in sorted(self._options().items()))]
            world = _at(out, base, Path("collections", "-".join(facts)), collections.MARKER)
        if places and (_lacks(world) or self._missing(places, world)):
            with locked(base / ".making"):
                self._make(places, world, say or (lambda _: None), progress or (lambda *_: None))
        return [folder for folder, _ in places]

    def _missing(self, places: Sequence[Place], world: Path | None) -> list[Place]:
        """The benchmarks that are not there yet; those that are there are checked to be the requested ones."""
        missing: list[Place] = []
        digests: dict[Path, str] = {}
        for folder, member in places:
            if not (folder / benchmarks.MARKER).is_file():
                missing.append((folder, member))
                continue
            facts = read_marker(folder, benchmarks.MARKER, "benchmark", benchmarks.FORMAT, benchmarks.SHAPE)
            card, source = facts["card"], self._collection_of(member, world)
            if source not in digests:
                digests[source] = read_marker(source, collections.MARKER, "collection", collections.FORMAT,
                                             {"digest": str})["digest"]
            stored = card.get("collection", {})
            matches = stored.get("digest") == digests[source] and replicate_of(card) == member.replicate
            if world:  # a digest need not know the size of pictures, but the folder's name does
                matches = matches and Path(str(stored.get("path"))).name == source.name
            if not matches or {key: card.get(key) for key in member.facts} != member.facts:
                raise ShiftBenchError(f"{folder} is there, but was built from another collection or with other "
                                      f"settings than {self.source} asks for. Choose another --out.")
        return missing

    def _make(
        self, places: Sequence[Place], world: Path | None, say: Say, progress: Advance
    ) -> None:
        if world and _lacks(world):
            from shiftbench.worlds import WORLDS

            options = self._options()
            say(f"drawing {self.world['name']}" + "".join(f", {key} {value}" for key, value in options.items()))
            WORLDS[str(self.world["name"])](**options).save(world)
        missing = self._missing(places, world)
        if missing:
            say(f"building {len(missing)} {'benchmark' if len(missing) == 1 else 'benchmarks'} below "
                f"{missing[0][0].parent}")
        load = cache(Collection.load)
        for number, (folder, member) in enumerate(missing, 1):
            source = self._collection_of(member, world)
            member.save(load(source), folder.parent, source)
            progress(number, len(missing))

    def _collection_of(self, member: Member, world: Path | None) -> Path:
        """Where the collection of a benchmark is: the study's, or for a recipe its own."""
        shared = world or (Path(self.collection) if self.collection else None)
        return shared or next(Recipe.load(file).collection for file in self.recipes if Path(file).stem == member.name)

    def _options(self) -> dict[str, int]:
        """The settings of the world, checked."""
        from shiftbench.worlds import WORLDS

        where = f"{self.source} [world]"
        if not isinstance(self.world.get("name"), str):
            raise ShiftBenchError(f"{where}: 'name' is missing. Known worlds: {', '.join(WORLDS)}.")
        drawing = inspect.signature(find(WORLDS, "world", self.world["name"])).parameters
        options = {key: option.default for key, option in drawing.items() if isinstance(option.default, int)}
        for key, value in self.world.items():
            if key != "name" and key not in options:
                raise unknown("setting", key, ["name", *options], where)
            if key != "name" and (not isinstance(value, int) or isinstance(value, bool)):
                raise ShiftBenchError(f"{where}: '{key}' is {value!r}, but it must be a whole number.")
        return {key: self.world.get(key, default) for key, default in options.items()}


def _at(out: Path, base: Path, name: Path, marker: str) -> Path:
    """A folder of ours below `out` where it is there, else below `base`."""
    return (out if (out / name / marker).is_file() else base) / name


def _lacks(world: Path | None) -> bool:
    return world is not None and not (world / collections.MARKER).is_file()


class Entry(NamedTuple):
    """A benchmark of a study: its folder and collection, and the seeds of its runs."""

    folder: str
    benchmark: Benchmark
    collection: str
    seeds: tuple[int, ...]


def entries(
    folders: Sequence[Path | str], seeds: Sequence[int], collection: str | None, parts_below: Path | None, source: str
) -> Iterator[Entry]:
    """The benchmarks in these folders, those with equal rows once; replicate k of one is for seed k.

    With `parts_below` each is followed by its parts that leave a domain out, saved there. Where `collection` is None,
    collections are not looked for and nothing is saved: enough to name the runs without doing them.
    """
    loaded = [(str(folder), Benchmark.load(folder)) for folder in folders]
    names: dict[str, list[tuple[str, Benchmark]]] = {}
    for folder, benchmark in loaded:
        names.setdefault(benchmark.name, []).append((folder, benchmark))
    for alike in names.values():
        _check_replicates(alike, seeds, source)
    seen: set[tuple[str, int | None]] = set()
    for folder, benchmark in loaded:
        draw = replicate_of(benchmark.card)
        if (benchmark.digest, draw) in seen or (draw is not None and draw not in seeds):
            continue
        seen.add((benchmark.digest, draw))
        its_seeds = tuple(dict.fromkeys(seeds)) if draw is None else (draw,)
        try:
            source_folder = Path() if collection is None else collection_folder(benchmark, collection or None)
            parts = leave_out(benchmark) if parts_below else []
        except ShiftBenchError as problem:
            hint = " In a study: collection = \"FOLDER\"." if "--collection" in str(problem) else ""
            raise ShiftBenchError(f"{source}: {problem}{hint}") from problem
        yield Entry(folder, benchmark, str(source_folder), its_seeds)
        for part in parts:
            assert parts_below is not None
            path = str(parts_below / part.name) if collection is None else _keep(part, parts_below, source_folder, draw)
            yield Entry(path, part, str(source_folder), its_seeds)


def _check_replicates(alike: Sequence[tuple[str, Benchmark]], seeds: Sequence[int], source: str) -> None:
    """Benchmarks of one name must be one benchmark, or replicates of one, with one for every seed."""
    first, benchmark = alike[0]
    draws = {replicate_of(benchmark.card): benchmark.digest}
    for folder, other in alike[1:]:
        draw = replicate_of(other.card)
        if draws.setdefault(draw, other.digest) != other.digest or (None in draws and len(draws) > 1):
            raise ShiftBenchError(f"{source}: {first} and {folder} are both named '{benchmark.name}', so scores could "
                                  "not tell them apart. Rename one folder and build it again.")
        if not same_rows(benchmark, other):
            raise ShiftBenchError(f"{source}: {first} and {folder} are replicates of '{benchmark.name}', but their "
                                  "tests differ. Build them together: shiftbench build SUITE --replicates.")
    missing = [seed for seed in seeds if seed not in draws]
    if None not in draws and missing:
        present = ", ".join(str(draw) for draw in sorted(draw for draw in draws if draw is not None))
        raise ShiftBenchError(f"{source}: '{benchmark.name}' has replicate {present} of its low-data items, but none "
                              f"for seed {', '.join(map(str, missing))}. Build more with --replicates "
                              f"{max(missing) + 1}, or name the seeds that have one.")


def match(pattern: str, bases: Sequence[Path], where: str) -> list[Path]:
    """The benchmarks a pattern names, by name, from the first base that has any."""
    for base in bases:
        folder = Path(os.path.normpath(base / pattern))
        if (folder / MARKER).is_file():
            return [folder]
        root, parts = (Path(folder.anchor), folder.parts[1:]) if folder.is_absolute() else (Path(), folder.parts)
        matches = sorted(path for path in root.glob(str(Path(*parts))) if (path / MARKER).is_file()) if parts else []
        if matches:
            return matches
    if any(sign in pattern for sign in "*?["):
        raise ShiftBenchError(f"{where}: '{pattern}' matches no benchmark. A benchmark is a folder with {MARKER}; the "
                              f"pattern is relative to {bases[0]}{os.sep}.")
    paths = [os.path.normpath(base / pattern) for base in bases]
    state = "is not a benchmark" if any(map(os.path.exists, paths)) else "is not there"
    raise ShiftBenchError(f"{where}: benchmark '{pattern}' {state} (looked at {' and '.join(dict.fromkeys(paths))}). "
                          "Build it first: shiftbench build RECIPE.toml --out FOLDER.")


def _keep(part: Benchmark, below: Path, collection: Path, draw: int | None) -> str:
    """Save a derived benchmark unless it is there: another process may be reading it."""
    folder = below / (part.name if draw is None else f"{part.name}.{draw}")
    if not (folder / MARKER).is_file() or Benchmark.load(folder).digest != part.digest:
        card = {**part.card, "collection": {**part.card["collection"], "path": os.path.relpath(collection, folder)},
                **({} if draw is None else {"draw": draw})}
        replace(part, card=card).save(folder, part.name)
    return str(folder)
