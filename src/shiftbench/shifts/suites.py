"""Suites: the benchmarks of a paper's table, by name. Each is a family of shifts on one collection."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

from shiftbench.core.arrays import checked_seed
from shiftbench.core.errors import Advance, ShiftBenchError
from shiftbench.core.registry import find
from shiftbench.data.benchmark import UNLABELLED, Benchmark, save_for
from shiftbench.data.collection import MARKER, Collection
from shiftbench.hierarchies.superclasses import TASKS as BREEDS
from shiftbench.readers.annotation_files import keep, read_files
from shiftbench.readers.wilds.comments import IDENTITIES
from shiftbench.shifts.conditions import Noise, Size, condition_facts
from shiftbench.shifts.low_data import LowData, Spurious, Unseen, Where
from shiftbench.shifts.metashift_tables import METASHIFT, Suite
from shiftbench.shifts.out_of_context import NOOCH
from shiftbench.shifts.recipe import Recipe, changed, each, several
from shiftbench.shifts.shift import Condition, Shift, Under, bare, under
from shiftbench.shifts.splits import Given
from shiftbench.shifts.subclasses import Breeds

# The suites of Wiles et al. (2022), Table 2: three shifts and two conditions on each of six data sets.
#
# `fine_grained/dsprites/low_data` is a family over N; `…/spurious`, `…/unseen`, `…/noise` (over p) and `…/size` (over
# n) are its like; `…/swapped` predicts colour and leaves out a shape (B.3). `fine_grained/sprites/…` are the dSprites
# ones on the built-in world, in its sizes.

COUNTS = (1, 5, 10, 50, 100, 500, 1000, 5000, 10_000)
"""The N of the authors' code; the paper's text does not list those of its figures."""
PORTIONS = (0.1, 0.2, 0.3, 0.4, 0.5)
"""Our choice of p: the paper's text does not list its own."""
TOTALS = (1000, 10_000, 100_000)
"""The n of the authors' code that every large data set has items for."""


@dataclass(frozen=True)
class Setup:
    """One row of Table 2: the shifts of a data set, and how far its N, p and n go."""

    spurious: Spurious
    low_data: LowData
    unseen: Shift
    counts: tuple[int, ...] = COUNTS
    totals: tuple[int, ...] = TOTALS
    ratio: float = 0.001  # N / n under the condition of size
    conditioned: LowData | None = None  # what the conditions are applied to; default: low_data
    swapped: Unseen | None = None  # the other factor is predicted (B.3)

    def suites(self) -> dict[str, Suite]:
        """The suites of the row by what they are about."""
        return {
            **({"swapped": {"unseen-swapped": self.swapped}} if self.swapped else {}),
            "spurious": {f"spurious-{n}": replace(self.spurious, n_uncorrelated=n) for n in self.counts},
            "low_data": {f"low-{n}": replace(self.low_data, n_low=n) for n in self.counts},
            "unseen": {"unseen": self.unseen},
            "noise": {f"noise-{100 * p:g}": self._under(10, Noise(p)) for p in PORTIONS},  # N = 10
            "size": {f"size-{n}": self._under(max(1, round(self.ratio * n)), Size(n, self.ratio)) for n in self.totals},
        }

    def _under(self, n_low: int, condition: Condition) -> Shift:
        return Under(replace(self.conditioned or self.low_data, n_low=n_low), (condition,))


def setup(
    label: str, factor: str, low: tuple[str, ...], pairs: Mapping[str, str | tuple[str, ...]] | None = None,
    counts: tuple[int, ...] = COUNTS, totals: tuple[int, ...] = TOTALS, ratio: float = 0.001, n_test: int = 10_000,
    n_val: int = 10_000, test_where: Where | None = None,
) -> Setup:
    """A row of Table 2 whose three shifts are on one factor; sizes of 0 are by share."""
    where = test_where or {}
    return Setup(Spurious(label, factor, pairs=pairs or {}, n_test=n_test, n_val=n_val, test_where=where),
                 LowData(label, factor, low, n_test=n_test, n_val=n_val, test_where=where),
                 Unseen(label, factor, low, n_test=n_test, n_val=n_val, test_where=where), counts, totals, ratio)


# The k-th label goes with the k-th value in the order of the published files, which is not that of the names.
SPRITES = {"square": "red", "ellipse": "green", "heart": "blue"}
OBJECTS = {"cone": "white", "cube": "green", "cylinder": "red", "hexagonal": "blue", "pyramid": "brown",
           "sphere": "olive"}
ROOMS = {"cube": "#1", "cylinder": "#2", "sphere": "#3", "capsule": "#4"}
TOYS = {"animal": "#1", "human": "#2", "airplane": "#3", "truck": "#4", "car": "#5"}
NORB = setup("category", "azimuth", ("#5..",), TOYS, counts=COUNTS[:7], totals=TOTALS[:2], n_test=2000, n_val=0,
             test_where={"source": ("testing",)})
"""Half of the toys are for test, as published: no toy of test is seen in training."""
HELD_OUT = {"split": ("val", "test")}  # the locations that are out of distribution in WILDS
CAMERAS = LowData("animal", "location", low_where=HELD_OUT, balanced=False, n_test=10_000, n_val=10_000)

SWAPPED = Unseen("colour", "shape", ("heart",), n_test=10_000, n_val=10_000)
"""B.3 predicts colour and leaves out "some shapes"; which ones it does not say."""

SETUPS = {
    "dsprites": replace(setup("shape", "colour", ("blue",), SPRITES), swapped=SWAPPED),
    "mpi3d": setup("object_shape", "object_color", ("red", "blue", "brown", "olive"), OBJECTS),
    "shapes3d": setup("shape", "object_hue", ("#3..",), ROOMS, totals=TOTALS[:2]),
    # Azimuth drifts or is unseen; correlation and conditions are on the lighting (D.1). The table has no A_c for that:
    # our reading is i > 4 again.
    "smallnorb": replace(NORB, spurious=replace(NORB.spurious, factor="lighting"),
                         conditioned=replace(NORB.low_data, factor="lighting")),
    # Hospitals are resplit at random, but for the unseen shift, which is WILDS' own (D.1).
    "camelyon17": replace(setup("tumor", "hospital", ("#2..3",), {"#1": ("#1..3",), "#2": ("#4..5",)}),
                          unseen=Given("tumor", "split", domain="hospital")),
    # Most locations lack most animals: the test is drawn at random, and an animal goes with its commonest location.
    "iwildcam": Setup(
        Spurious("animal", "location", pairing="commonest", balanced=False, n_test=10_000), CAMERAS,
        Given("animal", "split", domain="location")),
    "sprites": replace(setup("shape", "colour", ("blue",), SPRITES, (1, 10, 100, 1000), (100, 300, 1000), 0.01, 0, 0),
                       swapped=replace(SWAPPED, n_test=0, n_val=0)),
}

FINE_GRAINED = {f"fine_grained/{name}/{about}": shifts for name, row in SETUPS.items()
                for about, shifts in row.suites().items()}


# The ten data sets of WILDS as benchmarks: what is predicted, what moves, which groups and which number count.

SIXTEEN = "+".join(IDENTITIES) + ",label"
"""CivilComments is judged by sixteen groups that overlap: who is mentioned × the label."""

Y = ("y",)
"""The label as WILDS numbers it, by which its prediction files are read."""

WITHOUT_LABELS = ("train_unlabeled", "val_unlabeled", "test_unlabeled", "extra_unlabeled")
"""Splits of WILDS 2.0 that a collection has where it was read with --unlabelled."""


def _adapting(shift: Given, split: str = "test_unlabeled") -> Given:
    """The shift with one of those splits as our `unlabelled`, and without the others."""
    others = tuple(name for name in WITHOUT_LABELS if name != split)
    return replace(shift, rename={split: UNLABELLED}, ignore=(*shift.ignore, *others))


WILDS = {
    "iwildcam": _adapting(Given(keep=Y, domain="location", headline="macro_f1"), "extra_unlabeled"),
    "camelyon17": _adapting(Given(keep=Y, domain="hospital", score_by=("slide",), headline="accuracy")),
    "rxrx1": Given(keep=Y, domain="experiment", score_by=("cell_type",), headline="accuracy"),
    "molpcba": Given("y*", domain="scaffold", ignore=("unused",), target="tasks"),
    "globalwheat": Given("wheat_head", domain="session", target="boxes"),
    "civilcomments": _adapting(Given(keep=Y, domain="black", groups=("black",), score_by=(SIXTEEN,),
                                     headline=f"worst_group_accuracy[{SIXTEEN}]"), "extra_unlabeled"),
    "fmow": _adapting(Given(keep=Y, domain="year", ignore=("unused",), score_by=("year", "region!Other"),
                            headline="worst_group_accuracy[region!Other]")),
    **{f"poverty-{fold}": _adapting(Given("label", split=f"split_{fold}", domain="country", groups=("urban",),
                                          target="number")) for fold in "ABCDE"},
    "amazon": _adapting(Given(keep=Y, domain="user", score_by=("user",), headline="tenth_percentile_accuracy[user]")),
    "amazon-time": Given(keep=Y, domain="year", score_by=("year",), headline="accuracy"),
    "amazon-category": Given(keep=Y, domain="category", score_by=("category",), headline="accuracy"),
    "py150": Given(domain="repo", target="tokens"),
    "celeba": Given(keep=Y, domain="male", headline="worst_group_accuracy"),
}
"""Each on the collection that `shiftbench read wilds NAME` makes: build wilds --only NAME --collection FOLDER.

Group DRO takes the domain for its groups (`by = "domain"`), in CivilComments the cells of black × label. PovertyMap's
groups are urban and rural, by which it is scored. `amazon-time` and `amazon-category` are for what
`read wilds amazon --scheme` makes of the package's other split files, and are ranked by what the package chooses by.

Of a collection that was read with --unlabelled, the items without labels of the test domains are the split `unlabelled`
or, where there are none, those of further domains: what WILDS 2.0 (Sagawa et al., 2022) adapts to in its main results.
"""


SUITES: dict[str, Suite] = {
    **METASHIFT,
    "breeds": {task: Breeds("wnid", task, given="split", held=0.04) for task in BREEDS},
    "breeds/world": {split: Breeds("breed", level=2, subclasses=8, split=split) for split in ("good", "rand", "bad")},
    "wilds": WILDS,
    **NOOCH,
    **FINE_GRAINED,
}


def suite(name: str, only: str = "", changes: Mapping[str, Any] | None = None) -> Iterator[tuple[str, Shift]]:
    """The shifts of a suite by name: the one named `only`, else those whose name begins so.

    `changes` are settings that replace those of each of them, named as in a recipe. One that a shift does not have, or
    by which the members of the suite differ, so that two of them would become the same, is refused.
    """
    chosen = only_of(find(SUITES, "suite", name), only, name)
    if not changes:
        yield from chosen.items()
        return
    variants = {key: changed(shift, changes, f"Suite '{name}', benchmark '{key}'") for key, shift in chosen.items()}
    for first, second in combinations(variants, 2):
        if variants[first] == variants[second] and chosen[first] != chosen[second]:
            replaced = ", ".join(f"{key} = {value!r}" for key, value in changes.items())
            raise ShiftBenchError(f"Suite '{name}': with {replaced} its benchmarks '{first}' and '{second}' are the "
                                  "same, for this is what they differ by. Choose one with --only, or change something "
                                  "else.")
    yield from variants.items()


def only_of(shifts: Suite, only: str, name: str) -> Suite:
    """The shift named `only`, else those whose name begins so."""
    chosen = {key: shift for key, shift in shifts.items() if key == only or (
        only not in shifts and key.startswith(only))}
    if not chosen:
        raise ShiftBenchError(f"Suite '{name}' has no benchmark that begins with '{only}'. It has {', '.join(shifts)}.")
    return chosen


# What is built: each benchmark of a suite, or its replicates, each with another choice of low-data items (Wiles et al.,
# 2022: "choose a different set of samples from the low-data region with each seed"). Replicates of one share its
# name, test, validation and large part; card["draw"] numbers them, and replicate k is for seed k.

class Member(NamedTuple):
    """One benchmark to be built: its folder, the name on its card, and which replicate it is, if any."""

    folder: str
    name: str
    shift: Shift
    replicate: int | None = None
    seed: int = 0

    @property
    def facts(self) -> dict[str, Any]:
        """The card's entries about how the benchmark was built."""
        inner, conditions = bare(self.shift)
        facts = {"shift": getattr(inner, "name", ""), "params": asdict(inner), "seed": self.seed}
        facts |= {"conditions": [condition_facts(condition) for condition in conditions]} if conditions else {}
        return dict(json.loads(json.dumps(facts | ({} if self.replicate is None else {"draw": self.replicate}))))

    def save(self, collection: Collection, out: Path | str, path: Path | str | None = None) -> Benchmark:
        """Build it and save it below `out`; `path` is where the collection is, for those who look for pixels."""
        benchmark = self.shift.build(collection, self.seed)
        card = {**benchmark.card, "name": self.name, **({} if self.replicate is None else {"draw": self.replicate})}
        return save_for(replace(benchmark, card=card), Path(out) / self.folder, path, self.name)


def members(shifts: Iterable[tuple[str, Shift]], replicates: Sequence[int] = (), seed: int = 0) -> list[Member]:
    """What to build for some shifts by name: with replicates, `low-10` becomes low-10.0, low-10.1, …, named `low-10`.

    A shift without low-data items, such as `unseen`, has no replicates and is built once, for all seeds.
    """
    wanted: list[Member] = []
    for name, shift in shifts:
        numbered = [(number, replicate(shift, number)) for number in dict.fromkeys(replicates)]
        several = [Member(f"{name}.{number}", name, other, number, seed) for number, other in numbered
                   if other is not None]
        wanted += several or [Member(name, name, shift, None, seed)]
    return wanted


def replicate(shift: Shift, number: int) -> Shift | None:
    """The shift with another choice of its N items; None where it has none."""
    inner, conditions = bare(shift)
    few = isinstance(inner, Spurious) or (isinstance(inner, LowData) and inner.n_low > 0)
    return under(replace(inner, draw=number), conditions) if few else None


def build_suite(
    name: Path | str, collection: Collection | Path | str | None, out: Path | str, *, seed: int | None = None,
    only: str = "", replicates: int = 0, changes: Mapping[str, Any] | None = None,
    progress: Advance | None = None,
) -> dict[Path, Benchmark]:
    """Build the benchmarks of a suite, or of a recipe that stands for several; by their folders below `out`.

    ImageNet as it is unpacked, a folder with train/ and val/, is read first, into a collection below `out`.
    """
    is_recipe = str(name) not in SUITES and Path(name).is_file()
    source = collection
    if is_recipe:
        top = {"collection": str(collection)} if isinstance(collection, Path | str) else {}
        plan = Recipe.load(name, {**(changes or {}), **top, **({} if seed is None else {"seed": seed})})
        if not several(plan.shift):
            raise ShiftBenchError(f"{name}: stands for one benchmark. Build it with `build`.")
        shifts, whole, seed = {"": plan.shift}, True, plan.seed
        source = collection if isinstance(collection, Collection) else plan.collection
    else:
        whole = any(several(shift) for shift in find(SUITES, "suite", str(name)).values())
        shifts = dict(suite(str(name), "" if whole else only, changes))
    if source is None:
        raise ShiftBenchError(f"Suite '{name}' needs a collection. Name its folder.")
    if not is_recipe and not isinstance(source, Collection) and not (Path(source) / MARKER).is_file() and (
            Path(source) / "train").is_dir():
        raw, source = str(source), Path(out) / "collection"
        keep(read_files("imagenet", [raw]), source, overwrite=True)
    images = source if isinstance(source, Collection) else Collection.load(source)
    if whole:  # the collection decides which benchmarks there are
        of_tags = {key: member for shift in shifts.values() for key, member in each(shift, images).items()}
        shifts = dict(only_of(of_tags, only, str(name)))
    wanted = members(shifts.items(), () if is_recipe else range(replicates), checked_seed(seed or 0))
    what = f"{'recipe' if is_recipe else 'suite'} '{name}'"
    hint = "" if is_recipe or only or len(wanted) == 1 else " Name the benchmark of your data set with --only."
    path = None if isinstance(source, Collection) else source
    benchmarks: dict[Path, Benchmark] = {}
    for number, member in enumerate(wanted):
        try:
            benchmarks[Path(out) / member.folder] = member.save(images, out, path)
        except ShiftBenchError as problem:
            raise ShiftBenchError(f"Benchmark '{member.name}' of {what} cannot be built on collection "
                                  f"'{images.name}': {problem}{hint}") from problem
        if progress:
            progress(number + 1, len(wanted))
    return benchmarks
