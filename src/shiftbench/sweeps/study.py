"""A study: which benchmarks, methods, settings and seeds. TOML in, a list of runs out."""

import os
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, fields
from itertools import product
from pathlib import Path
from typing import Any

from shiftbench.core.errors import Advance, Say, ShiftBenchError, unknown
from shiftbench.core.files import read_toml
from shiftbench.core.registry import load_plugins, make
from shiftbench.methods import METHODS
from shiftbench.methods.method import find_method
from shiftbench.methods.presets import PRESETS, VARIANTS, expand
from shiftbench.methods.space import SPACES
from shiftbench.sweeps.jobs import Job
from shiftbench.sweeps.storage import is_url
from shiftbench.sweeps.study_benchmarks import Builds, entries, match
from shiftbench.sweeps.study_settings import Block, layer, run_fields
from shiftbench.training.run import default_model, on_benchmark, task_of

MOST = 1_000_000
"""The most runs of one study; more is surely a mistake."""


@dataclass(frozen=True)
class Study:
    """Every benchmark with every method, every setting of it and every seed; runs that are equal count once.

        benchmarks = ["../benchmarks/dog-*"]  # folders or patterns, relative to this file
        seeds = 5                             # 0 to 4; or a list
        search = "domainbed"                  # a named search space: it decides the settings that it names
        draws = 20                            # settings drawn per method; the first is the defaults
        pinned = ["batch_size"]               # settings of [run] that win over the search space all the same

        [run]                                 # settings of every run; a list is a sweep
        model = "mlp"
        lr = [1e-3, 1e-4]

        [methods.erm]
        preset = ["resnet18", "augmix"]       # names for settings: see `shiftbench methods --presets`

        [methods.irm]                         # its own settings, and those of the run: these win over [run]
        penalty = [1.0, 10.0]
        anneal = {power = [10, -2, -0.3]}     # drawn, 10^U(-2, -0.3); also {uniform = [a, b]} and {choice = [...]}

    Lists are combined, each with each. Laws are drawn `draws` times, from a stream per method, draw and setting, the
    same for every benchmark and seed: one more setting moves no other, and runs pair across seeds. A method's own table
    wins over the search space, the search space over [run] where it names the setting, and [run] over a preset such as
    `metashift`. What --set changes in [run] is pinned. [[methods.irm]] more than once is one block after another.

    A study may make its own data, below the folder of its runs and only what is not there yet:

        suites = ["fine_grained/sprites/low_data"]     # or recipes = ["low.toml"], for any label and factor
        members = ["low-10"]                           # of their benchmarks
        redraw = true                                  # with each seed other low-data items
        collection = "../collections/dsprites"         # or a table [world], which is drawn:

        [world]
        name = "sprites"
        items = 3000

    Users' own code is loaded first, here and in every worker: import = ["my_methods.py", "my_package"]; files are
    relative to this one.
    """

    benchmarks: tuple[str, ...]  # folders that are there
    methods: Mapping[str, tuple[Mapping[str, Any], ...]]  # name -> blocks of settings
    run: Mapping[str, Any] = field(default_factory=dict)
    seeds: tuple[int, ...] = (0,)
    search: str = "defaults"
    draws: int = 20
    draw_seed: int = 0
    pinned: tuple[str, ...] = ()  # settings of [run] that win over the search space
    preset: tuple[str, ...] = ()  # names for settings, each in turn: metashift; a method may have its own besides
    leave_one_domain_out: bool = False  # also train without each training domain in turn, to choose settings by
    collection: str = ""  # where the collection is, for suites, recipes, and benchmarks that do not say
    world: Mapping[str, Any] = field(default_factory=dict)  # instead of it: name, items, size, seed; drawn below `out`
    suites: tuple[str, ...] = ()  # benchmarks of papers by name, built below `out` unless they are there
    recipes: tuple[str, ...] = ()  # files, the same
    members: tuple[str, ...] = ()  # names of the benchmarks of suites and recipes to keep; default: all
    redraw: bool = False  # other low-data items with each seed (Wiles et al.), in suites and recipes
    imports: tuple[str, ...] = ()  # users' own code, files or packages; `import` in a file
    source: str = "study"  # named in messages

    def __post_init__(self) -> None:
        load_plugins(self.imports)
        if self.search not in SPACES:
            raise unknown("search space", self.search, SPACES, self.source)
        for key in self.pinned:
            if key not in self.run:
                raise unknown("setting", key, self.run, f"{self.source}, pinned: [run]")
        _names(self.preset or "", self.source)
        for name, least in (("draws", 1), ("draw_seed", 0)):
            if getattr(self, name) < least:
                raise ShiftBenchError(f"{self.source}: '{name}' is {getattr(self, name)}, but must be at least "
                                      f"{least}.")
        if not self.seeds or min(self.seeds) < 0:
            raise ShiftBenchError(f"{self.source}: 'seeds' must be a number of seeds, at least 1, or a list of whole "
                                  "numbers from 0.")
        if not (self.benchmarks or self.suites or self.recipes):
            raise ShiftBenchError(f"{self.source}: names no benchmark. Add benchmarks = [\"FOLDER\"], or suites.")
        if self.redraw and not (self.suites or self.recipes):
            raise ShiftBenchError(f"{self.source}: 'redraw' is for benchmarks that the study builds, by suites or "
                                  "recipes. Build others with shiftbench build SUITE --replicates.")
        if not any(self.methods.values()):
            raise ShiftBenchError(f"{self.source}: names no method, so there is nothing to run. Add a table "
                                  f"[methods.NAME]. Known methods: {', '.join(METHODS)}.")

    @staticmethod
    def load(source: Path | str | Mapping[str, Any], changes: Mapping[str, Any] | None = None) -> "Study":
        """Read and check a study, from its file or from a dict of what a file would say; `changes` are settings that
        replace it.

        A change is named as in the file (`seeds`, `run.lr`, `methods.irm.penalty`) or shorter (`lr`, `irm.penalty`);
        `methods = ["erm"]` keeps these methods. Folders in a file are relative to it, those in changes and in a dict to
        the current folder.
        """
        changes = changes or {}
        if isinstance(source, Mapping):
            raw, where, base = deepcopy(dict(source)), "study", Path()
        else:
            raw, where, base = read_toml(source), str(source), Path(source).parent

        def bases(key: str) -> list[Path]:
            """Where the folders of a key are: beside the file, unless a change names them."""
            return [Path(), base] if key in changes else [base, Path()]

        keys = [option.name for option in fields(Study) if option.name not in ("imports", "source")]
        for key in raw:
            if key not in (*keys, "import"):
                raise unknown("key", key, [*keys, "import"], where)
        raw["imports"] = [_near(name, bases("imports")) if name.endswith(".py") else name
                          for name in _names_of("import", raw.pop("import", []), where)]
        load_plugins(raw["imports"])  # before a method is looked for
        if not isinstance(raw.setdefault("run", {}), dict):
            raise ShiftBenchError(f"{where}: 'run' is {raw['run']!r}, but it must be a table [run] of settings.")
        raw["methods"] = _blocks(raw.get("methods", {}), {}, where)
        for key, value in changes.items():
            _change(raw, key, value, keys, where)
        if isinstance(raw.get("pinned", []), list):
            raw["pinned"] = list(dict.fromkeys([*raw.get("pinned", []), *(
                key.removeprefix("run.") for key in changes if key.removeprefix("run.") in run_fields())]))
        if isinstance(raw.get("seeds"), int) and not isinstance(raw["seeds"], bool):
            if raw["seeds"] > MOST:
                raise ShiftBenchError(f"{where}: 'seeds' asks for {raw['seeds']:,} runs of each setting, more than "
                                      f"{MOST:,}. List the seeds, seeds = [0, 1], or give their number.")
            raw["seeds"] = list(range(raw["seeds"]))
        if "collection" in changes:
            raw.pop("world", None)  # the same study on another collection
        patterns = raw.get("benchmarks", [])
        patterns = [patterns] if isinstance(patterns, str | Path) else patterns
        if not isinstance(patterns, list) or not all(isinstance(pattern, str | Path) for pattern in patterns):
            raise ShiftBenchError(f"{where}: 'benchmarks' is {patterns!r}, but it must be a list of folders or "
                                  "patterns.")
        raw["benchmarks"] = list(dict.fromkeys(
            str(folder) for pattern in patterns for folder in match(str(pattern), bases("benchmarks"), where)))
        if isinstance(raw.get("collection"), str) and raw["collection"]:
            raw["collection"] = _near(raw["collection"], [Path()] if "collection" in changes else [base, Path()])
        if isinstance(raw.get("recipes"), list):
            raw["recipes"] = [_near(file, bases("recipes")) if isinstance(file, str) else file
                              for file in raw["recipes"]]
        study = make(Study, {**raw, "source": where}, where)
        if "draws" in raw and not any(block.laws for block in study.blocks()):
            raise ShiftBenchError(f"{where}: 'draws' is {study.draws}, but no setting is drawn. Name a search space, "
                                  "search = \"domainbed\", or write a law, penalty = {power = [10, -1, 5]}.")
        return study

    def blocks(self, task: str = "") -> Iterator[Block]:
        """The fixed, swept and drawn settings of every method and block, on a task of a paper by name, or on any."""
        run = layer(self.run, "", f"{self.source} [run]")
        space = SPACES[self.search]
        for method, tables in self.methods.items():
            for table in tables:
                where = f"{self.source} [methods.{method}]"
                of_method = layer({key: value for key, value in table.items() if key != "preset"}, method, where)
                for top, preset in product(self.preset or [""], _names(table.get("preset", ""), where)):
                    _, variant, protocol = expand([name for name in (top, preset) if name], method, task)
                    fixed = {"model": METHODS[method].model} if METHODS[method].model else {}
                    fixed |= VARIANTS[variant].settings if variant else {}
                    # A method with a model of its own takes neither the model of the others nor their features.
                    shared = {key: entry for key, entry in run.items() if "model" not in fixed or key != "features"}
                    pinned = {key: shared[key] for key in self.pinned if key in shared}
                    yield Block.of(method, variant, [
                        of_method, fixed, pinned, space.methods.get(variant or method, {}),
                        METHODS[method].space if space.own else {}, space.run, shared, protocol,
                        {"model": default_model(method, variant)}])

    def search_notes(self) -> list[str]:
        """Sentences on which settings of the file the search space keeps, and which it replaces."""
        space = SPACES[self.search]
        named = {method: {*space.run, *space.methods.get(method, {}), *(METHODS[method].space if space.own else ())}
                 for method in self.methods}
        kept, replaced = (", ".join(f"{key} = {value!r}" for key, value in self.run.items()
                                    if (key in self.pinned) is pinned and any(key in keys for keys in named.values()))
                          for pinned in (True, False))
        notes = [f"[run] {kept}: pinned, not searched"] if kept else []
        if replaced:
            notes.append(f"[run] {replaced}: replaced by search = \"{self.search}\"; pinned = [\"NAME\"] keeps a value")
        for method, tables in self.methods.items():
            fixed = dict.fromkeys(f"{key} = {value!r}" for table in tables for key, value in table.items()
                                  if key in named[method])
            notes += [f"[methods.{method}] {', '.join(fixed)}: pinned, not searched"] if fixed else []
        return notes

    def settings(self, task: str = "") -> list[dict[str, Any]]:
        """The settings of the runs, without benchmark and seed: whole, checked, each once, in a fixed order."""
        blocks = list(self.blocks(task))
        runs = sum(block.size(self.draws) for block in blocks) * len(self.seeds) * (
            len(self.benchmarks) + len(self.builds.members()))
        if runs > MOST:
            raise ShiftBenchError(f"{self.source}: asks for {runs:,} runs, more than {MOST:,}. Shorten its lists, or "
                                  "draw: {choice = [...]} in place of a list.")
        distinct = {str(settings): settings for block in blocks
                    for settings in block.settings(self.draws, self.draw_seed, self.source)}
        return list(distinct.values())

    def size_in_words(self) -> str:
        """How many runs the study asks for, counted before anything is drawn, built or timed."""
        loaded = list(entries(self.benchmarks, self.seeds, None, None, self.source))
        built, seeds, settings = len(self.builds.members()), len(set(self.seeds)), len(self.settings())
        runs = settings * (sum(len(entry.seeds) for entry in loaded) + built * seeds)
        more = ", and as many again without each training domain" if self.leave_one_domain_out else ""
        return (f"{_counted(runs, 'run')}: {_counted(settings, 'setting')} on "
                f"{_counted(len(loaded) + built, 'benchmark')} with {_counted(seeds, 'seed')}{more}")

    @property
    def builds(self) -> Builds:
        """What the study builds for itself."""
        return Builds(self.suites, self.recipes, self.members, self.world,
                      self.collection if self.suites or self.recipes else "", self.source)

    def prepare(
        self, out: Path | str, scratch: Path | str | None = None, say: Say | None = None,
        progress: Advance | None = None,
    ) -> list[Path]:
        """Draw and build what the study needs and `out` lacks: below `scratch`, if given, else below `out`. `progress`
        is called after every benchmark that is built."""
        if (self.suites or self.recipes) and is_url(out):
            raise ShiftBenchError(f"{self.source}: builds its benchmarks below --out, which must be a folder then, not "
                                  f"{out}. Build them first, and name them: benchmarks = [\"FOLDER\"].")
        return self.builds.folders(Path(out), self.seeds if self.redraw else (), Path(scratch) if scratch else None,
                                    say, progress)

    def jobs(self, out: Path | str, scratch: Path | str | None = None, *, collections: bool = True) -> list[Job]:
        """The runs, benchmark by benchmark. Benchmarks that are built for them are saved as `prepare` says.

        Without `collections` only benchmarks are looked for: the runs can then be named but not trained.
        """
        by_task, built = {"": self.settings()}, self.prepare(out, scratch)
        below = Path(scratch or out) / "benchmarks" if self.leave_one_domain_out else None
        jobs = []
        for entry in entries([*self.benchmarks, *built], self.seeds, self.collection if collections else None, below,
                             self.source):
            task = task_of(entry.benchmark)
            if task not in by_task:
                by_task[task] = self.settings(task)
            jobs += [Job(entry.folder, entry.collection, {**settings, "seed": seed})
                     for settings in (on_benchmark(setting, entry.benchmark) for setting in by_task[task])
                     for seed in entry.seeds]
        return jobs


def _counted(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def _names_of(key: str, value: Any, where: str) -> list[str]:
    """One name, or a list of names."""
    names = list(value) if isinstance(value, list | tuple) else [value]
    if not all(isinstance(name, str) for name in names):
        raise ShiftBenchError(f"{where}: '{key}' is {value!r}, but it must be a name or a list of names.")
    return names


def _names(value: Any, where: str) -> tuple[str, ...]:
    """The presets of a table, from one name or a list."""
    names = _names_of("preset", value, where)
    if not names:
        raise ShiftBenchError(f"{where}: 'preset' is {value!r}, but it must be a name or a list of names.")
    for name in filter(None, names):
        if name not in PRESETS:
            raise unknown("preset", name, PRESETS, where)
    return tuple(names)


def _near(name: str, bases: Sequence[Path]) -> str:
    """A file or folder from the first base where it is."""
    paths = [base / name for base in bases]
    return os.path.normpath(next((path for path in paths if path.exists()), paths[0]))


def _blocks(value: Any, before: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Methods as name -> blocks, from tables or from a list of names; a name keeps the blocks it had before."""
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        value = {name: before.get(name, {}) for name in value}
    if not isinstance(value, dict):
        raise ShiftBenchError(f"{where}: 'methods' is {value!r}, but it must be tables [methods.NAME], or a list of "
                              f"names. Known methods: {', '.join(METHODS)}.")
    blocks = {}
    for name, tables in value.items():
        find_method(name, where)
        several = tables if isinstance(tables, list | tuple) else [tables]
        if not all(isinstance(table, dict) for table in several):
            raise ShiftBenchError(f"{where}: [methods.{name}] must be a table of settings, not {tables!r}.")
        blocks[name] = tuple(dict(table) for table in several)
    return blocks


def _change(raw: dict[str, Any], key: str, value: Any, keys: Sequence[str], where: str) -> None:
    """Set `seeds`, `run.lr` or `lr`, `methods.irm.penalty` or `irm.penalty`."""
    head, _, option = key.removeprefix("methods.").partition(".")
    if key == "methods":
        raw["methods"] = _blocks(value, raw["methods"], f"{where}, --set")
    elif option and head in METHODS:
        if head not in raw["methods"]:
            raise unknown("method", head, raw["methods"], f"{where}, --set")
        for table in raw["methods"][head]:
            table[option] = value
    elif key.startswith("run.") or key in run_fields():
        raw["run"] = {**raw["run"], key.removeprefix("run."): value}
    elif key in keys and key != "run":
        raw[key] = value
    elif head == "world" and option and isinstance(raw.get("world"), dict):
        raw["world"] = {**raw["world"], option: value}
    else:
        raise unknown("setting", key, [*(name for name in keys if name != "run"), *run_fields(),
                                       *(f"{name}.SETTING" for name in raw["methods"])], f"{where}, --set")
