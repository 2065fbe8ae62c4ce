"""A study: which benchmarks, methods, settings and seeds. TOML in, a list of runs out."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from shiftbench.benchmark import MARKER, Benchmark
from shiftbench.errors import ShiftBenchError, unknown
from shiftbench.files import read_toml
from shiftbench.methods import METHODS
from shiftbench.methods.space import SPACES
from shiftbench.registry import make
from shiftbench.shifts.leave_out import leave_out
from shiftbench.shifts.recipe import collection_folder
from shiftbench.sweeps.settings import Block, layer, run_fields, settings
from shiftbench.sweeps.work import Job
from shiftbench.training.presets import PRESETS

MOST = 1_000_000
"""Runs of one study: more is a slip of the pen."""


@dataclass(frozen=True)
class Study:
    """Every benchmark with every method, every setting of it and every seed; runs that are equal count once.

        benchmarks = ["../benchmarks/dog-*"]  # folders or patterns, seen from this file
        seeds = 5                             # 0 to 4; or a list
        search = "domainbed"                  # a named search space: draws settings where the file gives none
        draws = 20                            # settings drawn per method; the first is the defaults

        [run]                                 # settings of every run; a list is a sweep
        model = "mlp"
        lr = [1e-3, 1e-4]

        [methods.erm]

        [methods.irm]                         # its own settings, and those of the run: these win over [run]
        penalty = [1.0, 10.0]
        anneal = {power = [10, 0, 4]}         # drawn, 10^U(0, 4); also {uniform = [a, b]} and {choice = [...]}

    Lists are taken each with each. Laws are drawn `draws` times, from a stream per method, draw and setting, the same
    for every benchmark and seed: a setting more moves no other, and runs pair across seeds. What the file gives stands
    above the search space, the search space above `preset`. [[methods.irm]] more than once is one block after another.
    """

    benchmarks: tuple[str, ...]  # folders
    methods: Mapping[str, tuple[Mapping[str, Any], ...]]  # name -> blocks of settings
    run: Mapping[str, Any] = field(default_factory=dict)
    seeds: tuple[int, ...] = (0,)
    search: str = "defaults"
    draws: int = 20
    draw_seed: int = 0
    preset: str = ""  # a paper's settings of a run: metashift
    leave_one_domain_out: bool = False  # also train without each training domain in turn, to choose settings by
    collection: str = ""  # where the collection is, for benchmarks that do not say
    source: str = "study"  # named in messages

    def __post_init__(self) -> None:
        if self.search not in SPACES:
            raise unknown("search space", self.search, SPACES, self.source)
        if self.preset and self.preset not in PRESETS:
            raise unknown("preset", self.preset, PRESETS, self.source)
        for name, least in (("draws", 1), ("draw_seed", 0)):
            if getattr(self, name) < least:
                raise ShiftBenchError(f"{self.source}: '{name}' is {getattr(self, name)}, but must be at least "
                                      f"{least}.")
        if not self.seeds or min(self.seeds) < 0:
            raise ShiftBenchError(f"{self.source}: 'seeds' must be a number of seeds, at least 1, or a list of whole "
                                  "numbers from 0.")
        if not self.benchmarks:
            raise ShiftBenchError(f"{self.source}: names no benchmark. Add benchmarks = [\"FOLDER\"].")
        if not any(self.methods.values()):
            raise ShiftBenchError(f"{self.source}: names no method, so there is nothing to run. Add a table "
                                  f"[methods.NAME]. Known methods: {', '.join(METHODS)}.")

    @staticmethod
    def load(path: Path | str, changes: Mapping[str, Any] | None = None) -> "Study":
        """Read and check a study; `changes` are settings that replace those of the file.

        A change is named as in the file (`seeds`, `run.lr`, `methods.irm.penalty`) or shorter (`lr`, `irm.penalty`);
        `methods = ["erm"]` keeps these methods. Folders in changes are seen from the current folder.
        """
        raw, where, base = read_toml(path), str(path), Path(path).parent
        known = [part.name for part in fields(Study) if part.name != "source"]
        for key in raw:
            if key not in known:
                raise unknown("key", key, known, where)
        if not isinstance(raw.setdefault("run", {}), dict):
            raise ShiftBenchError(f"{where}: 'run' is {raw['run']!r}, but it must be a table [run] of settings.")
        raw["methods"] = _blocks(raw.get("methods", {}), {}, where)
        for key, value in (changes or {}).items():
            _change(raw, key, value, known, where)
        if isinstance(raw.get("seeds"), int) and not isinstance(raw["seeds"], bool):
            if raw["seeds"] > MOST:
                raise ShiftBenchError(f"{where}: 'seeds' asks for {raw['seeds']:,} runs of each setting, more than "
                                      f"{MOST:,}. List the seeds, seeds = [0, 1], or give their number.")
            raw["seeds"] = list(range(raw["seeds"]))
        given = changes or {}
        patterns = [raw["benchmarks"]] if isinstance(raw.get("benchmarks"), str) else raw.get("benchmarks", [])
        if not isinstance(patterns, list) or not all(isinstance(part, str) for part in patterns):
            raise ShiftBenchError(f"{where}: 'benchmarks' is {patterns!r}, but it must be a list of folders or "
                                  "patterns.")
        bases = [Path(), base] if "benchmarks" in given else [base, Path()]
        raw["benchmarks"] = list(dict.fromkeys(
            str(folder) for pattern in patterns for folder in _match(pattern, bases, where)))
        if isinstance(raw.get("collection"), str) and raw["collection"]:
            near = [one / raw["collection"] for one in ([Path()] if "collection" in given else [base, Path()])]
            raw["collection"] = os.path.normpath(next((one for one in near if one.exists()), near[0]))
        made = make(Study, {**raw, "source": where}, where)
        if "draws" in raw and not any(block.laws for block in made.blocks()):
            raise ShiftBenchError(f"{where}: 'draws' is {made.draws}, but no setting is drawn. Name a search space, "
                                  "search = \"domainbed\", or write a law, penalty = {power = [10, -1, 5]}.")
        return made

    def blocks(self) -> Iterator[Block]:
        """Per method and block of settings: what is fixed, swept and drawn."""
        run = layer(self.run, "", f"{self.source} [run]")
        space, preset = SPACES[self.search], PRESETS.get(self.preset, {})
        for method, tables in self.methods.items():
            for table in tables:
                own = layer(table, method, f"{self.source} [methods.{method}]")
                yield Block.of(method, [own, run, space.methods.get(method, {}), METHODS[method].space if space.own
                                        else {}, space.run, preset, {"model": "mlp"}])

    def settings(self) -> list[dict[str, Any]]:
        """The settings of the runs, without benchmark and seed: whole, checked, each once, in a fixed order."""
        blocks = list(self.blocks())
        runs = sum(block.size(self.draws) for block in blocks) * len(self.seeds) * len(self.benchmarks)
        if runs > MOST:
            raise ShiftBenchError(f"{self.source}: asks for {runs:,} runs, more than {MOST:,}. Shorten its lists, or "
                                  "draw: {choice = [...]} in place of a list.")
        found = {str(one): one for block in blocks for one in settings(block, self.draws, self.draw_seed, self.source)}
        return list(found.values())

    def jobs(self, out: Path | str) -> list[Job]:
        """The runs, benchmark by benchmark. Derived benchmarks (leave_one_domain_out) are saved below `out`."""
        found = self.settings()
        return [Job(place, collection, {**one, "benchmark": digest, "seed": seed})
                for place, digest, collection in self._places(Path(out)) for one in found
                for seed in dict.fromkeys(self.seeds)]

    def _places(self, out: Path) -> Iterator[tuple[str, str, str]]:
        """Folder, digest and collection of each benchmark, those with equal rows once."""
        names: dict[str, str] = {}
        digests: set[str] = set()
        for folder in self.benchmarks:
            made = Benchmark.load(folder)
            if names.setdefault(made.name, folder) != folder and made.digest not in digests:
                raise ShiftBenchError(f"{self.source}: {names[made.name]} and {folder} are both named '{made.name}', "
                                      "so scores could not tell them apart. Rename one folder and build it again.")
            if made.digest in digests:
                continue
            digests.add(made.digest)
            try:
                collection = collection_folder(made, folder, self.collection or None)
                parts = leave_out(made) if self.leave_one_domain_out else []
            except ShiftBenchError as problem:
                hint = " In a study: collection = \"FOLDER\"." if "--collection" in str(problem) else ""
                raise ShiftBenchError(f"{self.source}: {problem}{hint}") from problem
            yield folder, made.digest, str(collection)
            for part in parts:
                yield _keep(part, out / "benchmarks" / part.name, collection), part.digest, str(collection)


def _keep(part: Benchmark, folder: Path, collection: Path) -> str:
    """Save a derived benchmark unless it is there: another process may be reading it."""
    if not (folder / MARKER).is_file() or Benchmark.load(folder).digest != part.digest:
        card = {**part.card, "collection": {**part.card["collection"], "path": os.path.relpath(collection, folder)}}
        replace(part, card=card).save(folder)
    return str(folder)


def _match(pattern: str, bases: Sequence[Path], where: str) -> list[Path]:
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
    places = [os.path.normpath(base / pattern) for base in bases]
    state = "is not a benchmark" if any(map(os.path.exists, places)) else "is not there"
    raise ShiftBenchError(f"{where}: benchmark '{pattern}' {state} (looked at {' and '.join(dict.fromkeys(places))}). "
                          "Build it first: shiftbench build RECIPE.toml --out FOLDER.")


def _blocks(value: Any, before: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Methods as name -> blocks, from tables or from a list of names; a name keeps the blocks it had before."""
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        value = {name: before.get(name, {}) for name in value}
    if not isinstance(value, dict):
        raise ShiftBenchError(f"{where}: 'methods' is {value!r}, but it must be tables [methods.NAME], or a list of "
                              f"names. Known methods: {', '.join(METHODS)}.")
    blocks = {}
    for name, tables in value.items():
        if name not in METHODS:
            raise unknown("method", name, METHODS, where)
        listed = tables if isinstance(tables, list | tuple) else [tables]
        if not all(isinstance(table, dict) for table in listed):
            raise ShiftBenchError(f"{where}: [methods.{name}] must be a table of settings, not {tables!r}.")
        blocks[name] = tuple(dict(table) for table in listed)
    return blocks


def _change(raw: dict[str, Any], key: str, value: Any, known: Sequence[str], where: str) -> None:
    """Set `seeds`, `run.lr` or `lr`, `methods.irm.penalty` or `irm.penalty`."""
    head, _, rest = key.removeprefix("methods.").partition(".")
    if key == "methods":
        raw["methods"] = _blocks(value, raw["methods"], f"{where}, --set")
    elif rest and head in METHODS:
        if head not in raw["methods"]:
            raise unknown("method", head, raw["methods"], f"{where}, --set")
        for table in raw["methods"][head]:
            table[rest] = value
    elif key.startswith("run.") or key in run_fields():
        raw["run"] = {**raw["run"], key.removeprefix("run."): value}
    elif key in known and key != "run":
        raw[key] = value
    else:
        raise unknown("setting", key, [*(name for name in known if name != "run"), *run_fields(),
                                       *(f"{name}.SETTING" for name in raw["methods"])], f"{where}, --set")
