"""The metadata of a benchmark as WILDS has it: one column of numbers per name, and what the numbers stand for.

A benchmark of one of WILDS' ten data sets has the package's own columns and numbers, where those are asked for (see
`Named`).
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from shiftbench.compat.wilds_ten import DATASETS, splits_of
from shiftbench.core.arrays import Floats, Ints, Values, encode, positions
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.target import NO_LABEL, TOKEN_KINDS, TOKENS, kinds_of, tokens_of
from shiftbench.readers.wilds.comments import amazon_name

SOURCE = ("train", "id_val", "id_test")
"""The splits that are drawn before the shift: their rows have from_source_domain = 1."""
Y, FROM = "y", "from_source_domain"
"""The last two columns, as the package has them."""


class Column(NamedTuple):
    """A number per row; names of those that are codes."""

    values: Ints | Floats
    names: Sequence[Any] | None = None


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
    table |= {name: Column(*encode(values)) for name, values in more.items()
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
    """The data set of WILDS that a benchmark is, where it asks what that one asks; else none.

    Its collection bears the name and has the columns (`read wilds`), and the target is the data set's own: a benchmark
    of Amazon's reviews that asks for the category is judged as any other.
    """
    name = NAMES.get(collection.name, collection.name)
    if collection.name == amazon_name(scheme):
        name = "amazon"
    if name not in DATASETS or not _asks_the_same(name, benchmark, collection):
        return None
    rows = collection.index(benchmark.items)
    split = np.full(len(collection), -1)
    split[rows] = positions(benchmark.split, np.asarray(list(splits_of(name, scheme)), np.str_))
    whole = {field: _column(collection, name, field, split) for field in DATASETS[name].fields}
    table = {field: Column(values[rows], names) for field, (values, names) in whole.items()}
    if name == "py150":
        table |= _kind_columns(benchmark)
    source = np.isin(benchmark.split, DATASETS[name].source).astype(np.int64)
    return Named(name, scheme, {**table, FROM: Column(source)},
                 None if name == "py150" else np.stack([column.values for column in whole.values()], axis=1))


def _asks_the_same(name: str, benchmark: Benchmark, collection: Collection) -> bool:
    """Whether a benchmark's target is that of the data set, and its collection has the columns."""
    factors = {FACTORS.get((name, field), field) for field in DATASETS[name].fields}
    if benchmark.target.kind != KINDS.get(name, "class") or not factors <= set(collection.factors):
        return False
    item = collection.index(benchmark.items)
    if name == "poverty":
        return len(benchmark.target.columns) == 1 and np.array_equal(
            benchmark.extra[benchmark.target.columns[0]], collection.factors[Y][item])
    if name in KINDS:
        return True
    label = np.asarray(benchmark.names["label"], np.str_)[benchmark.label]
    return "label" in collection.factors and bool((collection.factors["label"][item].astype(np.str_) == label).all())


def _column(collection: Collection, name: str, field: str, split: Ints) -> Column:
    """A column of all items as the package numbers it, and the names where it has those.

    Words are numbered by a list that is published, or as they first appear, in Amazon after the items are sorted by
    split. A word that the list lacks is numbered behind it. Whole numbers are themselves.
    """
    known, values = DATASETS[name], collection.factors[FACTORS.get((name, field), field)]
    if name == "amazon" and field in ("year", Y):
        first, last = (1, 5) if field == Y else (int(values.min()), int(values.max()))
        return Column(values - (0 if field == Y else first), list(range(first, last + 1)))
    if field not in (*known.seen, *known.names) and (name, field) not in WORDS:
        return Column(np.asarray(values, np.float64) if values.dtype.kind == "f" else values.astype(np.int64))
    words = values.astype(np.str_)
    listed: list[Any] = list(known.names.get(field, WORDS.get((name, field), ())))
    if field in known.seen:
        words_in_order = words[split >= 0][np.argsort(split[split >= 0])] if name == "amazon" else words
        present, first_at = np.unique(words_in_order, return_index=True)
        listed = present[np.argsort(first_at)].tolist()
    listed += np.setdiff1d(words, [str(word) for word in listed]).tolist()
    numbers = positions(words, np.asarray([str(word) for word in listed], np.str_))
    return Column(numbers, None if (name, field) in WORDS else listed)
