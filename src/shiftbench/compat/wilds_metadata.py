"""The metadata of a benchmark as WILDS has it: one column of numbers per name, and what the numbers stand for.

Of WILDS' ten data sets the columns, the numbers of values and the names are published and stay the same (`DATASETS`).
Where a column's names are only in the data (Amazon's users), the caller gives them as `metadata_map`. A benchmark of
one of the ten has its metadata as the package numbers it, for the package's own keys.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from shiftbench.core.arrays import Floats, Ints, Strs, Values, encode, positions
from shiftbench.core.errors import unknown
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.target import NO_LABEL, TOKEN_KINDS, TOKENS, kinds_of, tokens_of
from shiftbench.readers.wilds.comments import IDENTITIES, OTHER_MARKS
from shiftbench.readers.wilds.wheat import SESSIONS

SOURCE = ("train", "id_val", "id_test")
"""The splits that are drawn before the shift: their rows have from_source_domain = 1."""
Y, FROM = "y", "from_source_domain"
"""The last two columns, as the package has them."""


class Column(NamedTuple):
    """A number per row; names of those that are codes."""

    values: Ints | Floats
    names: tuple[str, ...] | None = None


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
        kinds = next_kinds(benchmark)
        table |= {kind_column(position): Column(kinds[:, position]) for position in range(kinds.shape[1])}
    source = np.isin(benchmark.split, SOURCE).astype(np.int64)
    return table | {FROM: Column(source, ("False", "True"))}


def next_kinds(benchmark: Benchmark) -> Ints:
    """The kind of the next token at each place, NO_LABEL where it is masked or there is none."""
    places = tokens_of(np.asarray(benchmark.extra[TOKENS])).shape[1]
    kinds = kinds_of(np.asarray(benchmark.extra[TOKEN_KINDS]))
    wide = np.full((len(benchmark), places), NO_LABEL)
    wide[:, :kinds.shape[1]] = kinds[:, :places]
    return wide[:, 1:]


class Known(NamedTuple):
    """The columns of a data set, how many values they have in the whole data, and the names of those values."""

    fields: Sequence[str]
    sizes: Mapping[str, int] = {}
    names: Mapping[str, Sequence[object]] = {}


DATASETS: Mapping[str, Known] = {
    "amazon": Known(("user", "product", "category", "year", "y")),
    "camelyon17": Known(("hospital", "slide", "y"), {"hospital": 5, "slide": 50}),
    "civilcomments": Known((*IDENTITIES, *OTHER_MARKS, "y"), {**dict.fromkeys(IDENTITIES, 2), "y": 2}),
    "fmow": Known(("region", "year", "y"), {"region": 6, "year": 16}, {
        "region": ("Asia", "Europe", "Africa", "Americas", "Oceania", "Other"), "year": tuple(range(2002, 2018))}),
    "globalwheat": Known(("session", "country", "location", "stage"), {"session": 47}, {
        "session": SESSIONS}),
    "iwildcam": Known(("location", "sequence", "year", "month", "day", "hour", "minute", "second", "y")),
    "ogb-molpcba": Known(("scaffold",)),
    "poverty": Known(("urban", "y", "country"), {"urban": 2}),
    "py150": Known(("repo",)),
    "rxrx1": Known(("cell_type", "experiment", "plate", "well", "site", "y"), {"cell_type": 4}, {
        "cell_type": ("HEPG2", "HUVEC", "RPE", "U2OS")}),
}

NAMES = {"molpcba": "ogb-molpcba"}
"""What the package calls a data set, where a collection's name is another."""
KINDS = {"ogb-molpcba": "tasks", "globalwheat": "boxes", "poverty": "number", "py150": "tokens"}
FACTORS = {("py150", "repo"): "repo_id"}
"""The factor that holds the package's number of a repository."""
WORDS = {("poverty", "urban"): ("rural", "urban")}
"""The package counts these from 0 and has no names for them."""


class Numbering(NamedTuple):
    """The package's number of every word of a column, and the names where it has those of the data."""

    words: Strs
    numbers: Ints
    names: Sequence[str] | None = None

    def of(self, words: Strs, where: str) -> Ints:
        position = positions(words, self.words)
        for at in np.flatnonzero(position < 0)[:1]:
            raise unknown("value", str(words[at]), self.words.tolist(), where)
        return self.numbers[position]


class Named(NamedTuple):
    """A data set of the package: its name, its columns, the whole data's metadata, and names that only data have.

    `y` is the class of every row as WILDS numbers it, where the target is a class.
    """

    name: str
    fields: Sequence[str]
    numbering: Mapping[str, Numbering]
    whole: Floats | None
    names: Mapping[str, Sequence[str]]
    y: Column | None = None

    def metadata(
        self, here: Ints | Floats, fields: Sequence[str], names: Mapping[str, Sequence[str]], places: int
    ) -> Floats:
        """Rows of a benchmark's metadata in the package's columns: its own, kinds of tokens, from_source_domain."""
        metadata = []
        for field in self.fields:
            column = FACTORS.get((self.name, field), field)
            own = here[:, fields.index(column)]
            if field in self.numbering:
                numbers = self.numbering[field].of(np.asarray(names[column], np.str_), f"column '{column}'")
                own = numbers[own.astype(np.int64)]
            metadata.append(own)
        kinds = [here[:, fields.index(kind_column(position))] for position in range(places)]
        return np.stack([*metadata, *kinds, here[:, fields.index(FROM)]], axis=1)


def named(benchmark: Benchmark, collection: Collection) -> Named | None:
    """The data set of WILDS that a benchmark is, where it asks what that one asks; else none.

    Its collection bears the name and has the columns (`read wilds`), and the target is the data set's own: a benchmark
    of Amazon's reviews that asks for the category is judged as any other.
    """
    name = NAMES.get(collection.name, collection.name)
    if name not in DATASETS or benchmark.target.kind != KINDS.get(name, "class"):
        return None
    fields = DATASETS[name].fields
    factor = {field: FACTORS.get((name, field), field) for field in fields}
    if not set(factor.values()) <= set(collection.factors):
        return None
    numbering = {field: _numbering(collection, name, field, factor[field]) for field in fields if field != Y}
    whole = [numbering[field].of(collection.factors[factor[field]].astype(np.str_), f"factor '{factor[field]}'")
             if field in numbering else np.asarray(collection.factors[Y], np.float64) for field in fields]
    item = collection.index(benchmark.items)
    y = None
    if name == "poverty" and (len(benchmark.target.columns) != 1 or not np.array_equal(
            benchmark.extra[benchmark.target.columns[0]], collection.factors[Y][item])):
        return None
    if name not in KINDS:
        label = np.asarray(benchmark.names["label"], np.str_)[benchmark.label]
        if "label" not in collection.factors or (collection.factors["label"][item].astype(np.str_) != label).any():
            return None
        numbers = np.asarray(collection.factors[Y], np.int64)
        words = np.full(numbers.max(initial=-1) + 1, "", f"U{max(map(len, benchmark.names['label']), default=1)}")
        words[numbers[item]] = label
        y = Column(numbers[item], tuple(words.tolist()))
    return Named(name, fields, numbering, None if name == "py150" else np.stack(whole, axis=1),
                 {field: column.names for field, column in numbering.items() if column.names is not None}, y)


def _numbering(collection: Collection, name: str, field: str, factor: str) -> Numbering:
    """Known words have the package's numbers, whole numbers are themselves, other words are counted as they sort."""
    values = collection.factors[factor]
    known = DATASETS[name].names.get(field, WORDS.get((name, field)))
    if known is not None:
        return Numbering(np.asarray([str(word) for word in known], np.str_), np.arange(len(known)))
    if values.dtype.kind in "iu":
        present = np.unique(values)
        return Numbering(present.astype(np.str_), present.astype(np.int64))
    words = np.unique(values.astype(np.str_))
    return Numbering(words, np.arange(len(words)), words.tolist())
