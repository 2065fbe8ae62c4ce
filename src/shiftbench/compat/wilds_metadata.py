"""The metadata of a benchmark as WILDS has it: one column of numbers per name, and what the numbers stand for.

A benchmark of one of WILDS' ten data sets has the package's own columns and numbers, where those are asked for (see
`Named`). The package has labelled and unlabelled items in two data sets, so each takes its rows of a benchmark first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from shiftbench.core.arrays import Bools, Floats, Ints, Values, encode, positions
from shiftbench.data.benchmark import UNLABELLED, Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.target import NO_LABEL, TOKEN_KINDS, TOKENS, kinds_of, tokens_of
from shiftbench.readers.wilds.comments import IDENTITIES, OTHER_MARKS, amazon_name
from shiftbench.readers.wilds.photos import HELD_OUT
from shiftbench.readers.wilds.wheat import SESSIONS
from shiftbench.shifts.suites import WITHOUT_LABELS

# The ten data sets as the package wilds 2.0.0 publishes them: columns, splits and fixed sizes

THREE = {"train": "Train", "val": "Validation", "test": "Test"}
FIVE = {"train": "Train", "val": "Validation (OOD)", "test": "Test (OOD)", "id_val": "Validation (ID)",
        "id_test": "Test (ID)"}
SATELLITES = {"train": "Train", "id_val": "ID Val", "id_test": "ID Test", "val": "OOD Val", "test": "OOD Test"}


class Known(NamedTuple):
    """The columns of a data set, how many values they have in the whole data, and the names of those values.

    A column in neither `names` nor `seen` is its own number.
    """

    fields: Sequence[str]
    sizes: Mapping[str, int] = {}
    names: Mapping[str, Sequence[object]] = {}
    splits: Mapping[str, str] = THREE  # in the package's order, with its words
    seen: Sequence[str] = ()  # columns whose words are numbered as they first appear
    source: Sequence[str] = ("train",)  # the splits whose rows have from_source_domain = 1
    resolution: tuple[int, int] | None = None
    n_classes: int | None = None  # None: one more than the largest label


DATASETS: Mapping[str, Known] = {
    "amazon": Known(("user", "product", "category", "year", "y"), seen=("user", "product", "category"), splits={
        name: FIVE[name] for name in ("train", "val", "id_val", "test", "id_test")},
        source=("train", "id_val", "id_test"), n_classes=5),
    "camelyon17": Known(("hospital", "slide", "y"), {"hospital": 5, "slide": 50}, splits={
        "train": "Train", "id_val": "Validation (ID)", "test": "Test", "val": "Validation (OOD)"},
        resolution=(96, 96), n_classes=2),
    "civilcomments": Known((*IDENTITIES, *OTHER_MARKS, "y"), {**dict.fromkeys(IDENTITIES, 2), "y": 2}, n_classes=2),
    "iwildcam": Known(("location", "sequence", "year", "month", "day", "hour", "minute", "second", "y"), splits={
        "train": "Train", "val": "Validation (OOD/Trans)", "test": "Test (OOD/Trans)",
        "id_val": "Validation (ID/Cis)", "id_test": "Test (ID/Cis)"}),
    "ogb-molpcba": Known(("scaffold",), n_classes=2),
    "poverty": Known(("urban", "y", "country"), {"urban": 2}, {
        "country": sorted(name for countries in HELD_OUT.values() for name in countries)},
        splits=SATELLITES, resolution=(224, 224)),
    "fmow": Known(("region", "year", "y"), {"region": 6, "year": 16}, {
        "region": ("Asia", "Europe", "Africa", "Americas", "Oceania", "Other"), "year": tuple(range(2002, 2018))},
        splits=SATELLITES, source=("train", "id_val", "id_test"), resolution=(224, 224),
        n_classes=62),
    "py150": Known(("repo",), splits=FIVE, n_classes=50_001),
    "rxrx1": Known(("cell_type", "experiment", "plate", "well", "site", "y"), {"cell_type": 4}, {
        "cell_type": ("HEPG2", "HUVEC", "RPE", "U2OS")}, seen=("cell_type", "experiment", "well"), splits={
        name: FIVE[name] for name in ("train", "val", "test", "id_test")}),
    "globalwheat": Known(("session", "country", "location", "stage"), {"session": 47}, {
        "session": SESSIONS,
        "country": ("Switzerland", "UK", "Belgium", "Norway", "France", "Canada", "US", "Mexico", "Japan", "China",
                    "Australia", "Sudan"),
        "location": ("Baima", "Brookstead", "Ciudad Obregon", "Gatton", "Gembloux", "Gréoux", "KSU", "Kyoto",
                     "Maricopa, AZ", "McAllister", "Mons", "NARO-Hokkaido", "NARO-Tsukuba", "NMBU", "Rothamsted",
                     "Saskatchewan", "Toulouse", "Usask", "VLB", "VSC", "Wad Medani",
                     "Eschikon"),
        "stage": ("Filling", "Filling-Ripening", "multiple", "Post-flowering", "Ripening"),
    }, splits=FIVE, resolution=(1024, 1024), n_classes=1),
}
"""In the order of the package's `benchmark_datasets`."""

ADDITIONAL = ("celebA", "domainnet", "waterbirds", "yelp", "bdd100k", "sqf", "encode")
UNLABELED = ("amazon", "camelyon17", "domainnet", "civilcomments", "iwildcam", "ogb-molpcba", "poverty", "fmow",
             "globalwheat")
UNLABELED_SPLITS = dict(zip(WITHOUT_LABELS, ("Unlabeled Train", "Unlabeled Validation", "Unlabeled Test",
                                             "Unlabeled Extra"), strict=True))
GAPS: Mapping[str, Mapping[str, int]] = {
    "civilcomments": dict.fromkeys((*IDENTITIES, *OTHER_MARKS), 2), "poverty": {"urban": NO_LABEL}}
"""The package's code for a column that is not known of an unlabelled item: a group of its own."""
CLASSES = {"amazon": "Amazon", "camelyon17": "Camelyon17", "civilcomments": "CivilComments", "iwildcam": "IWildCam",
           "ogb-molpcba": "OGBPCBA", "poverty": "PovertyMap", "fmow": "FMoW", "py150": "Py150", "rxrx1": "RxRx1",
           "globalwheat": "GlobalWheat"}
"""How the package's class of a data set begins, before `Dataset` and `UnlabeledDataset`."""

MEANS = {"BLUE": 0.059183, "GREEN": 0.088619, "RED": 0.104145, "SWIR1": 0.246874, "SWIR2": 0.168728,
         "TEMP1": 299.078023, "NIR": 0.253074, "DMSP": 4.005496, "VIIRS": 1.096089}
SPREADS = {"BLUE": 0.022926, "GREEN": 0.031880, "RED": 0.051458, "SWIR1": 0.088857, "SWIR2": 0.083240,
           "TEMP1": 4.300303, "NIR": 0.058973, "DMSP": 23.038301, "VIIRS": 4.786354}
"""Mean and standard deviation of PovertyMap's bands, by which its images were standardised."""


def splits_of(name: str, scheme: str) -> Mapping[str, str]:
    """The splits of a data set in a scheme, in the package's order and with its words."""
    if name == "rxrx1" and scheme != "official":
        return THREE
    if name == "globalwheat" and scheme != "official":
        return {split: FIVE[split] for split in THREE}
    if name == "amazon" and (scheme == "category_subpopulation" or scheme.endswith("_baseline")):
        return THREE
    return DATASETS[name].splits


# The columns of a benchmark's metadata

SOURCE = ("train", "id_val", "id_test")
"""The splits that are drawn before the shift: their rows have from_source_domain = 1."""
Y, FROM = "y", "from_source_domain"
"""The last two columns, as the package has them."""


class Column(NamedTuple):
    """A number per row; names of those that are codes."""

    values: Ints | Floats
    names: Sequence[Any] | None = None


def labelled_first(codes: Ints, names: Sequence[str], labelled: Bools) -> tuple[Ints, tuple[str, ...]]:
    """Codes of rows and their words: first the words of labelled rows, then those that only unlabelled ones have."""
    extra = np.setdiff1d(codes[~labelled], codes[labelled])
    order = np.concatenate([np.setdiff1d(np.arange(len(names)), extra), extra])
    return np.argsort(order)[codes], tuple(names[code] for code in order.tolist())


def all_rows(benchmark: Benchmark) -> Benchmark:
    """The benchmark with domains and groups that only unlabelled rows have numbered after the others, which keep the
    numbers that they have without such rows (`labelled_rows`)."""
    labelled = benchmark.split != UNLABELLED
    domain, group = (labelled_first(getattr(benchmark, column), benchmark.names[column], labelled)
                     for column in ("domain", "group"))
    return replace(benchmark, domain=domain[0], group=group[0],
                   names={**benchmark.names, "domain": domain[1], "group": group[1]})


def labelled_rows(benchmark: Benchmark) -> Benchmark:
    """The rows of a benchmark that have a label, as if there were no others."""
    kept = benchmark.split != UNLABELLED
    if kept.all():
        return benchmark
    every = all_rows(benchmark)
    names = {column: words[:len(words) - len(np.setdiff1d(codes[~kept], codes[kept]))] for column, words, codes in (
        ("domain", every.names["domain"], every.domain), ("group", every.names["group"], every.group))}
    return replace(
        every, items=every.items[kept], split=every.split[kept], label=every.label[kept], domain=every.domain[kept],
        group=every.group[kept], names={**every.names, **names},
        extra={name: np.asarray(values)[kept] for name, values in every.extra.items()})


def kind_column(position: int) -> str:
    """The column that has the kind of the next token at a place.

    >>> kind_column(0)
    'tok_0_type'
    """
    return f"tok_{position}_type"


def columns(benchmark: Benchmark, collection: Collection, item: Ints) -> dict[str, Column]:
    """Domain, group, further columns and factors that are no fractions, y, from_source_domain.

    A name that is taken already keeps its first meaning. y is the class, or a target that is one number; with other
    targets there is none, and with tokens the kinds of the next tokens stand in its place, as in Py150.
    """
    target = benchmark.target
    table = {name: Column(getattr(benchmark, name), benchmark.names[name]) for name in ("domain", "group")}
    more: dict[str, Values] = {**{name: values[item] for name, values in collection.factors.items()}, **benchmark.extra}
    labelled = benchmark.split != UNLABELLED
    table |= {name: Column(*labelled_first(*encode(values), labelled)) for name, values in more.items()
              if name not in (*table, Y, FROM, *target.columns) and np.asarray(values).dtype.kind in "Ubiu"}
    if target.has_classes:
        table[Y] = Column(benchmark.label, benchmark.names["label"])
    elif target.in_units and len(target.columns) == 1:
        table[Y] = Column(np.asarray(benchmark.extra[target.columns[0]], np.float64))
    elif target.per_place:
        table |= _kind_columns(benchmark)
    source = np.isin(benchmark.split, SOURCE).astype(np.int64)
    return table | {FROM: Column(source, ("False", "True"))}


def next_kinds(benchmark: Benchmark) -> Ints:
    """The kind of the next token at each place, NO_LABEL where it is masked or there is none."""
    places = tokens_of(np.asarray(benchmark.extra[TOKENS])).shape[1]
    kinds = kinds_of(np.asarray(benchmark.extra[TOKEN_KINDS]))
    wide = np.full((len(benchmark), places), NO_LABEL)
    wide[:, :kinds.shape[1]] = kinds[:, :places]
    return wide[:, 1:]


def _kind_columns(benchmark: Benchmark) -> dict[str, Column]:
    kinds = next_kinds(benchmark)
    return {kind_column(position): Column(kinds[:, position]) for position in range(kinds.shape[1])}


NAMES = {"molpcba": "ogb-molpcba"}
"""What the package calls a data set, where a collection's name is another."""
OFFICIAL = {"poverty": "countries", "fmow": "time_after_2016", "amazon": "user", "molpcba": "scaffold"}
"""The package's own name for the official scheme of a collection."""
KINDS = {"ogb-molpcba": "tasks", "globalwheat": "boxes", "poverty": "number", "py150": "tokens"}
FACTORS = {("py150", "repo"): "repo_id"}
"""The factor that holds the package's number of a repository."""
WORDS = {("poverty", "urban"): ("rural", "urban")}
"""The package counts these from 0 and has no names for them."""


class Named(NamedTuple):
    """A data set of the package: its name, its columns of a benchmark's rows, and those of all items.

    `names` are what the package's `metadata_map` has, empty where it has none.
    """

    name: str
    scheme: str
    columns: Mapping[str, Column]
    whole: Floats | None

    @property
    def names(self) -> dict[str, Sequence[Any]]:
        names = {field: column.names for field, column in self.columns.items() if column.names is not None}
        return {**names, FROM: [False, True]} if names else {}

    @property
    def splits(self) -> Mapping[str, str]:
        return splits_of(self.name, self.scheme)


def named(benchmark: Benchmark, collection: Collection, scheme: str = "official") -> Named | None:
    """The data set of WILDS that a benchmark represents, with the same target; None for other benchmarks.

    Its collection has the name and the columns (`read wilds`), and the target is the data set's own: a benchmark of
    Amazon's reviews whose target is the category is evaluated as any other. Where all its rows have labels, items of
    the collection without one (`read wilds --unlabelled`) have no effect.
    """
    name = NAMES.get(collection.name, collection.name)
    if collection.name == amazon_name(scheme):
        name = "amazon"
    if name not in DATASETS or not _asks_the_same(name, benchmark, collection):
        return None
    item = collection.index(benchmark.items)
    keep = _has_label(collection) | bool((benchmark.split == UNLABELLED).any())
    keep[item] = True
    kept = np.flatnonzero(keep)
    rows = np.searchsorted(kept, item)
    split = np.full(len(kept), -1)
    split[rows] = positions(benchmark.split, np.asarray(list(splits_of(name, scheme)), np.str_))
    whole = {field: _column(collection, name, field, kept, split) for field in DATASETS[name].fields}
    table = {field: Column(values[rows], names) for field, (values, names) in whole.items()}
    if name == "py150":
        table |= _kind_columns(benchmark)
    source = np.isin(benchmark.split, DATASETS[name].source).astype(np.int64)
    return Named(name, scheme, {**table, FROM: Column(source)},
                 None if name == "py150" else np.stack([column.values for column in whole.values()], axis=1))


def _has_label(collection: Collection) -> Bools:
    """Whether each item has a label: those that `read wilds --unlabelled` adds have an empty one, or NaN."""
    label = collection.factors.get("label")
    if label is None:
        return np.ones(len(collection), np.bool_)
    return ~np.isnan(label) if label.dtype.kind == "f" else label.astype(np.str_) != ""


def _asks_the_same(name: str, benchmark: Benchmark, collection: Collection) -> bool:
    """Whether a benchmark's target, on the rows that have one, is that of the data set, and its collection has the
    columns."""
    factors = {FACTORS.get((name, field), field) for field in DATASETS[name].fields}
    if benchmark.target.kind != KINDS.get(name, "class") or not factors <= set(collection.factors):
        return False
    labelled = benchmark.split != UNLABELLED
    item = collection.index(benchmark.items[labelled])
    if name == "poverty":
        return len(benchmark.target.columns) == 1 and np.array_equal(
            np.asarray(benchmark.extra[benchmark.target.columns[0]], np.float64)[labelled],
            np.asarray(collection.factors[Y], np.float64)[item], equal_nan=True)
    if name in KINDS:
        return True
    label = np.asarray(benchmark.names["label"], np.str_)[benchmark.label[labelled]]
    return "label" in collection.factors and bool((collection.factors["label"][item].astype(np.str_) == label).all())


def _column(collection: Collection, name: str, field: str, kept: Ints, split: Ints) -> Column:
    """A column of the kept items as the package numbers it, and the names where it has those.

    Words are numbered by a list that is published, or as they first appear, in Amazon after the items are sorted by
    split. A word that the list lacks is numbered behind it. Whole numbers are themselves. Amazon's years are counted
    from the first of all its items: in the package labelled and unlabelled ones are lines of one table.
    """
    published, factor = DATASETS[name], collection.factors[FACTORS.get((name, field), field)]
    values = factor[kept]
    if name == "amazon" and field in ("year", Y):
        first, last = (1, 5) if field == Y else (int(factor.min()), int(factor.max()))
        return Column(values - (0 if field == Y else first), list(range(first, last + 1)))
    if field not in (*published.seen, *published.names) and (name, field) not in WORDS:
        return Column(np.asarray(values, np.float64) if values.dtype.kind == "f" else values.astype(np.int64))
    words = values.astype(np.str_)
    order: list[Any] = list(published.names.get(field, WORDS.get((name, field), ())))
    if field in published.seen:
        words_in_order = words[split >= 0][np.argsort(split[split >= 0])] if name == "amazon" else words
        present, first_at = np.unique(words_in_order, return_index=True)
        order = present[np.argsort(first_at)].tolist()
    order += np.setdiff1d(words, [str(word) for word in order]).tolist()
    numbers = positions(words, np.asarray([str(word) for word in order], np.str_))
    return Column(numbers, None if (name, field) in WORDS else order)
