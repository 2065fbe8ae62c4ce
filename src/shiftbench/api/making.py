"""From annotations to a benchmark: collections, their contents, and the shifts built on them."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from shiftbench.api.folders import Advance, Place, benchmark_of, collection_of, loaded
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.files import check_regular
from shiftbench.core.registry import find
from shiftbench.core.rng import checked_seed
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.checks import Finding
from shiftbench.data.collection import MARKER, Collection

if TYPE_CHECKING:
    from shiftbench.hierarchies.hierarchy import Hierarchy
    from shiftbench.hierarchies.superclasses import Superclasses
    from shiftbench.metagraph.graph import MetaGraph
    from shiftbench.shifts.replicates import Member
    from shiftbench.shifts.subset import Rung


def download(
    *name: str, root: Place = "data", origin: Place | None = None, accept_licence: bool = False,
    keep_archives: bool = False, progress: Advance | None = None,
) -> Path:
    """Fetch a published data set and give its folder: download("wilds", "camelyon17", accept_licence=True).

    `origin` is a folder or an address of one's own that has the files under the same names. A broken download goes on
    where it stopped, and a finished one is not repeated.
    """
    from shiftbench.downloads.data_sets import find_source
    from shiftbench.downloads.fetching import Options
    from shiftbench.downloads.fetching import download as fetch

    options = Options(None if origin is None else str(origin), keep_archives, progress or (lambda done, total: None))
    return fetch(find_source(*name), root, accept_licence, options)[0]


def read(
    format: str, *sources: Place, out: Place | None = None, overwrite: bool = False, drop_missing: bool = False,
    **options: Any,
) -> Collection:
    """Read annotations, or draw a world, into a collection: read("world", "scenes", items=6000, seed=0).

    Where `out` holds another collection it is replaced only with `overwrite`. Image files that are not there are
    counted in a warning; with `drop_missing` their items are dropped.
    """
    from shiftbench.readers import READERS
    from shiftbench.readers.annotation_files import with_files
    from shiftbench.worlds import WORLDS

    if format == "world":
        collection = find(WORLDS, "world", *map(str, sources))(**options)
    elif format in READERS:
        for source in sources:
            check_regular(source)
        collection = READERS[format](*map(str, sources), **options)
    else:
        raise unknown("format", format, [*READERS, "world"])
    collection = with_files(collection, drop_missing)
    if out is not None:
        keep(collection, out, overwrite)
    return collection


def keep(collection: Collection, out: Place, overwrite: bool = False) -> bool:
    """Save a collection, and say whether that was needed: where `out` holds the same one, nothing is written."""
    if (Path(out) / MARKER).exists():
        try:
            before = Collection.load(out)
        except ShiftBenchError:
            before = None
        if before is not None and before == collection:
            return False
        if not overwrite:
            what = "a damaged collection" if before is None else (
                f"another collection ('{before.name}', {len(before):,} items; this one is '{collection.name}', "
                f"{len(collection):,} items)")
            raise ShiftBenchError(f"{out} holds {what}. Name another folder, or replace it with --overwrite "
                                  "(overwrite=True); benchmarks that were built on it stay as they are.")
    collection.save(out)
    return True


def graph(collection: Collection | Place, cls: str, **options: Any) -> "MetaGraph":
    """The meta-graph of a class: its subsets, how they overlap, their communities and their embedding."""
    from shiftbench.metagraph.graph import meta_graph

    return meta_graph(loaded(collection), cls, **options)


def hierarchy(
    source: Collection | Place, *, edits: Place | None = None, classes: Place | None = None, tree: bool = False
) -> "Hierarchy":
    """A class hierarchy from BREEDS' files, WordNet 3.0, a collection, or a file of parents and children.

    `edits` is a script to apply to it, and `classes` is a file with the ids of the leaves to keep.
    """
    from shiftbench.hierarchies.edits import edited
    from shiftbench.hierarchies.sources import open_hierarchy, read_classes

    whole = open_hierarchy(source, None if classes is None else read_classes(classes))
    return edited(whole, edits or [], tree=tree) if edits or tree else whole


def superclasses(
    source: "Hierarchy | Collection | Place | None" = None, *, level: int | None = None, task: str = "", **choice: Any
) -> "Superclasses":
    """The superclasses of a level, or of a task by name, with the subclasses of their source and of their target.

    superclasses("breeds", level=4, subclasses=8, split="bad"); superclasses(task="living17") needs no files.
    """
    from shiftbench.hierarchies.hierarchy import Hierarchy
    from shiftbench.hierarchies.superclasses import named_task
    from shiftbench.hierarchies.superclasses import superclasses as cut

    whole = source if source is None or isinstance(source, Hierarchy) else hierarchy(source)
    if task:
        fixed = {"level": level, "root": choice.pop("root", ""), "subclasses": choice.pop("subclasses", None)}
        fixed_keys = [key for key, value in fixed.items() if value not in (None, "")]
        if fixed_keys:
            raise ShiftBenchError(f"Task '{task}' has its own {' and '.join(fixed_keys)}. Leave them or the task out.")
        choice.pop("balanced", None)
        return named_task(task, whole, **choice)
    if whole is None or level is None:
        raise ShiftBenchError("Superclasses are cut from a hierarchy at a level, or come with a task. Give one.")
    return cut(whole, level, **choice)


def ladder(collection: Collection | Place, test: str, k: int = 4, **options: Any) -> "list[Rung]":
    """k training sets for the class of a test subset, from near to far: ladder(scenes, "dog(shelf)", 4)."""
    from shiftbench.shifts.subset import ladder as climb

    return climb(loaded(collection), test, k, **options)


def build(recipe: Place, out: Place | None = None, changes: Mapping[str, Any] | None = None) -> Benchmark:
    """Apply the shift of a recipe to its collection; `changes` replace settings of the file."""
    from shiftbench.shifts.recipe import build as build_recipe

    return build_recipe(recipe, out, changes)


def suite(
    name: Place, collection: Collection | Place | None, out: Place, *, seed: int | None = None, only: str = "",
    replicates: int = 0, changes: Mapping[str, Any] | None = None, progress: Advance | None = None,
) -> list[Path]:
    """Build the benchmarks of a paper's table on a collection: suite("metashift/table1", "collections/vg", "out").

    Or those of a recipe that stands for several, as `leave_one_domain_out` without `test` does for one per domain; its
    collection and seed are the recipe's unless given.
    `changes` replace settings of every benchmark, as in `build`. With `replicates`, each benchmark with low-data
    items is built that many times, with other such items each time: `low-10.0`, `low-10.1`, …
    ImageNet as it is unpacked, a folder with train/ and val/, is read first, into a collection below `out`.
    """
    return list(build_suite(name, collection, out, seed, only, replicates, changes, progress))


def build_suite(
    name: Place, collection: Collection | Place | None, out: Place, seed: int | None, only: str, replicates: int,
    changes: Mapping[str, Any] | None, progress: Advance | None,
) -> dict[Path, Benchmark]:
    """The benchmarks of `suite` by their folders."""
    from shiftbench.shifts.recipe import Recipe, each, several
    from shiftbench.shifts.replicates import members
    from shiftbench.shifts.suites import SUITES, only_of
    from shiftbench.shifts.suites import suite as shifts_of

    if str(name) not in SUITES and Path(name).is_file():
        own = {"collection": str(collection)} if isinstance(collection, Path | str) else {}
        plan = Recipe.load(name, {**(changes or {}), **own, **({} if seed is None else {"seed": seed})})
        images = collection if isinstance(collection, Collection) else loaded(plan.collection)
        if not several(plan.shift):
            raise ShiftBenchError(f"{name}: stands for one benchmark. Build it with `build`.")
        wanted = members(only_of(each(plan.shift, images), only, str(name)).items(), (), plan.seed)
        path = None if isinstance(collection, Collection) else plan.collection
        return _save_all(wanted, images, path, out, f"recipe '{name}'", "", progress)
    if collection is None:
        raise ShiftBenchError(f"Suite '{name}' needs a collection. Name its folder.")
    wanted = members(shifts_of(str(name), only, changes), range(replicates), checked_seed(seed or 0))
    if not isinstance(collection, Collection) and not (Path(collection) / MARKER).is_file() and (
            Path(collection) / "train").is_dir():
        raw, collection = collection, Path(out) / "collection"
        read("imagenet", raw, out=collection, overwrite=True)
    images, path = loaded(collection), None if isinstance(collection, Collection) else Path(collection)
    hint = " Name the benchmark of your data set with --only." if not only and len(wanted) > 1 else ""
    return _save_all(wanted, images, path, out, f"suite '{name}'", hint, progress)


def _save_all(
    wanted: "Sequence[Member]", images: Collection, path: Path | None, out: Place, source: str, hint: str,
    progress: Advance | None,
) -> dict[Path, Benchmark]:
    """Build each benchmark and save it below `out`."""
    benchmarks: dict[Path, Benchmark] = {}
    for number, member in enumerate(wanted):
        try:
            benchmarks[Path(out) / member.folder] = member.save(images, out, path)
        except ShiftBenchError as problem:
            raise ShiftBenchError(f"Benchmark '{member.name}' of {source} cannot be built on collection "
                                  f"'{images.name}': {problem}{hint}") from problem
        if progress:
            progress(number + 1, len(wanted))
    return benchmarks


def reference(
    benchmark: Benchmark | Place, to: str, out: Place | None = None, *, seed: int = 0, given: str = "",
    collection: Collection | Place | None = None, **options: Any,
) -> Benchmark:
    """The in-distribution reference of a benchmark: reference("benchmarks/a", "mixed-to-test", "benchmarks/a-mixed").

    `given` is the factor with the split of that reference, where the data set has one; docs/settings.md explains
    `moved` and `unseen`.
    """
    from shiftbench.shifts.in_distribution import reference as make_reference

    images = collection_of(benchmark, collection) if given else None
    counterpart = make_reference(benchmark_of(benchmark), to, seed, given=given, collection=images, **options)
    if out is None:
        return counterpart
    path = counterpart.card.get("collection", {}).get("path")
    if collection is not None and not isinstance(collection, Collection):
        counterpart.card["collection"]["path"] = os.path.relpath(collection, out)
    elif path and not isinstance(benchmark, Benchmark):
        counterpart.card["collection"]["path"] = os.path.relpath(Path(benchmark) / path, out)
    counterpart.save(out)
    return replace(counterpart, card={**counterpart.card, "name": Path(out).name})


setting = reference
"""Its older name."""


def check(
    benchmark: Benchmark | Collection | Place, collection: Collection | Place | None = None
) -> list[Finding]:
    """What is wrong with a benchmark, or with a collection; `shiftbench.data.checks.uses` says what it is fit for.

    Where images are at hand, a file that is not there is a finding, and the same content under two ids is a leak.
    """
    from shiftbench.data.checks import check as find_faults
    from shiftbench.data.checks import check_collection
    from shiftbench.data.roots import missing_files
    from shiftbench.images.decode import content_hashes

    if isinstance(benchmark, Collection):
        return check_collection(benchmark)
    if not isinstance(benchmark, Benchmark) and (Path(benchmark) / MARKER).is_file():
        return check_collection(Collection.load(benchmark))
    loaded_benchmark = benchmark_of(benchmark)
    images = collection_of(benchmark, collection, needed=False)
    if images is None or images.pixels is None:
        return find_faults(loaded_benchmark)
    rows = images.index(loaded_benchmark.items)
    missing = np.isin(rows, missing_files(images.pixels, images.root))
    hashes = np.char.add("no file of ", loaded_benchmark.items).astype(np.object_)  # all differ
    hashes[~missing] = content_hashes(images, rows[~missing])
    return find_faults(loaded_benchmark, hashes, missing)


def trust(collection: Place, root: Place | None = None) -> Path:
    """Confirm the folder below which a collection that was made elsewhere has its files, or say another; gives it."""
    from shiftbench.data.collection import MARKER
    from shiftbench.data.roots import note, notes

    loaded_collection = Collection.load(collection)
    folder = Path(root).resolve() if root is not None else loaded_collection.root
    if folder is None or loaded_collection.root is None:
        raise ShiftBenchError(f"{collection}: names no folder of files, so there is nothing to trust.")
    if not folder.is_dir():
        raise ShiftBenchError(f"{folder}: no such folder. Name the folder that holds the files with --root.")
    if not note(Path(collection) / MARKER, folder):
        raise ShiftBenchError(f"{notes()}: cannot be written, so it cannot be noted. Set SHIFTBENCH_ROOTS={folder} "
                              "instead.")
    return folder


def export(
    benchmark: Benchmark | Place, out: Place, *, to: str = "folder", copy: bool = False,
    collection: Collection | Place | None = None,
) -> Path:
    """Write a benchmark in a layout that other tools read: `folder` (MetaShift's, an ImageFolder) or `csv`."""
    from shiftbench.exports import export as write_export

    images = collection_of(benchmark, collection, needed=False)
    return write_export(benchmark_of(benchmark), images, out, to=to, copy=copy)
