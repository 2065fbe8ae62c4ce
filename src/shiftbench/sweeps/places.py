"""Where the benchmarks of a study are: folders by pattern, the seeds of each, and parts that leave a domain out."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import MARKER, Benchmark
from shiftbench.shifts.leave_one_domain_out import leave_out
from shiftbench.shifts.recipe import collection_folder
from shiftbench.shifts.replicates import draw_of, same_rows


class Place(NamedTuple):
    """A benchmark of a study: its folder, digest and collection, and the seeds of its runs."""

    folder: str
    digest: str
    collection: str
    seeds: tuple[int, ...]


def places(
    folders: Sequence[Path | str], seeds: Sequence[int], collection: str | None, parts_below: Path | None, source: str
) -> Iterator[Place]:
    """The benchmarks in these folders, those with equal rows once; draw k of one is for seed k.

    With `parts_below` each is followed by its parts that leave a domain out, saved there. Where `collection` is None,
    collections are not looked for and nothing is saved: for who asks about runs and does none.
    """
    made = [(str(folder), Benchmark.load(folder)) for folder in folders]
    names: dict[str, list[tuple[str, Benchmark]]] = {}
    for folder, one in made:
        names.setdefault(one.name, []).append((folder, one))
    for alike in names.values():
        _check_draws(alike, seeds, source)
    seen: set[tuple[str, int | None]] = set()
    for folder, one in made:
        draw = draw_of(one.card)
        if (one.digest, draw) in seen or (draw is not None and draw not in seeds):
            continue
        seen.add((one.digest, draw))
        mine = tuple(dict.fromkeys(seeds)) if draw is None else (draw,)
        try:
            place = Path() if collection is None else collection_folder(one, folder, collection or None)
            parts = leave_out(one) if parts_below else []
        except ShiftBenchError as problem:
            hint = " In a study: collection = \"FOLDER\"." if "--collection" in str(problem) else ""
            raise ShiftBenchError(f"{source}: {problem}{hint}") from problem
        yield Place(folder, one.digest, str(place), mine)
        for part in parts:
            assert parts_below is not None
            kept = str(parts_below / part.name) if collection is None else _keep(part, parts_below, place, draw)
            yield Place(kept, part.digest, str(place), mine)


def _check_draws(alike: Sequence[tuple[str, Benchmark]], seeds: Sequence[int], source: str) -> None:
    """Benchmarks of one name must be one benchmark, or draws of one, with a draw for every seed."""
    first, one = alike[0]
    draws = {draw_of(one.card): one.digest}
    for folder, other in alike[1:]:
        draw = draw_of(other.card)
        if draws.setdefault(draw, other.digest) != other.digest or (None in draws and len(draws) > 1):
            raise ShiftBenchError(f"{source}: {first} and {folder} are both named '{one.name}', so scores could not "
                                  "tell them apart. Rename one folder and build it again.")
        if not same_rows(one, other):
            raise ShiftBenchError(f"{source}: {first} and {folder} are draws of '{one.name}', but their tests differ. "
                                  "Build them together: shiftbench build SUITE --draws.")
    lacking = [seed for seed in seeds if seed not in draws]
    if None not in draws and lacking:
        there = ", ".join(str(draw) for draw in sorted(draw for draw in draws if draw is not None))
        raise ShiftBenchError(f"{source}: '{one.name}' has draw {there} of its low-data items, but none for seed "
                              f"{', '.join(map(str, lacking))}. Build more with --draws {max(lacking) + 1}, or name "
                              "the seeds that have one.")


def match(pattern: str, bases: Sequence[Path], where: str) -> list[Path]:
    """The benchmarks a pattern names, by name, from the first base that has any."""
    for base in bases:
        place = Path(os.path.normpath(base / pattern))
        if (place / MARKER).is_file():
            return [place]
        root, parts = (Path(place.anchor), place.parts[1:]) if place.is_absolute() else (Path(), place.parts)
        found = sorted(one for one in root.glob(str(Path(*parts))) if (one / MARKER).is_file()) if parts else []
        if found:
            return found
    if any(sign in pattern for sign in "*?["):
        raise ShiftBenchError(f"{where}: '{pattern}' matches no benchmark. A benchmark is a folder with {MARKER}; the "
                              f"pattern is seen from {bases[0]}{os.sep}.")
    looked = [os.path.normpath(base / pattern) for base in bases]
    state = "is not a benchmark" if any(map(os.path.exists, looked)) else "is not there"
    raise ShiftBenchError(f"{where}: benchmark '{pattern}' {state} (looked at {' and '.join(dict.fromkeys(looked))}). "
                          "Build it first: shiftbench build RECIPE.toml --out FOLDER.")


def _keep(part: Benchmark, below: Path, collection: Path, draw: int | None) -> str:
    """Save a derived benchmark unless it is there: another process may be reading it."""
    folder = below / (part.name if draw is None else f"{part.name}.{draw}")
    if not (folder / MARKER).is_file() or Benchmark.load(folder).digest != part.digest:
        card = {**part.card, "collection": {**part.card["collection"], "path": os.path.relpath(collection, folder)},
                **({} if draw is None else {"draw": draw})}
        replace(part, card=card).save(folder, part.name)
    return str(folder)
