"""A benchmark: the rows that a shift makes from a collection and a seed. It holds no pixels."""

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from shiftbench.core.arrays import Ints, Strs, Values, checked_seed, digest, encode, in_short, positions
from shiftbench.core.backend import notebook, torch_rows
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.files import check_parts, read_folder, read_marker, write_json, writing_folder
from shiftbench.core.tables import Tabular, read_table, strings, values_of, write_table
from shiftbench.data.collection import FORMAT as COLLECTION_FORMAT
from shiftbench.data.collection import MARKER as COLLECTION
from shiftbench.data.collection import Collection
from shiftbench.data.scores import Measure
from shiftbench.data.target import Target

T = TypeVar("T")

MARKER = "benchmark.json"
FORMAT = 1
SHAPE = {"name": str, "digest": str, "names": {str: [str]}, "extra": [str], "card": {str: object}}

TARGET_TRAIN, UNLABELLED = "target_train", "unlabelled"

_NUMBER = int | float | None
CARD = {
    "notes": [str], "params": {str: object}, "collection": {str: str | None}, "distance": _NUMBER,
    "subsets": {str: int | float}, "conditions": list, "target": {"kind": str, "columns": [str], "n": int},
    "explanation": [{"tag": str, "kind": str, "train": _NUMBER, "test": _NUMBER, "lift": object}],
    "cues": [{"tag": str, "kind": str, "strength": int | float}],
    "superclasses": [{"name": str, "source": [{"name": str}], "target": [{"name": str}]}],
}
"""The shape of a card's entries, which code that shows a card may rely on."""

SPLITS = ("train", "id_val", "val", "id_test", "test", TARGET_TRAIN, UNLABELLED)
"""`id_val` and `id_test` are drawn as `train` is; `val` and `test` are drawn after the shift, and so is `target_train`:
items to adapt to the target with, which no run trains on unless its method says so. Rows of `unlabelled` have no label:
methods may learn from their inputs and domains, and they are neither predicted nor scored."""

CODED = ("label", "domain", "group")
NUMBER = re.compile(r"[-+]?\d+(\.\d+)?(e[-+]?\d+)?", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class Benchmark(Tabular):
    """Rows with split, label, domain and group, and the card that explains them.

    `label`, `domain` and `group` are codes; `names[column][code]` is the word. `extra` holds further columns by name.
    `home` is the folder that it was loaded from or saved in, from which it finds its collection.
    The card: which shift with which parameters and seed on which collection, distance, explanation, counts, notes.
    """

    items: Strs
    split: Strs
    label: Ints
    domain: Ints
    group: Ints
    names: Mapping[str, tuple[str, ...]]
    card: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Values] = field(default_factory=dict)
    home: Path | None = None

    def __post_init__(self) -> None:
        for column in ("split", *CODED):
            if len(getattr(self, column)) != len(self.items):
                raise ShiftBenchError(f"A benchmark needs one {column} per row: {len(getattr(self, column))} for "
                                      f"{len(self.items)} rows.")
        for word in np.unique(self.split).tolist():
            if word not in SPLITS:
                raise unknown("split", word, SPLITS)
        for column in CODED:
            codes = getattr(self, column)
            if len(codes) and (codes.min() < 0 or codes.max() >= len(self.names[column])):
                raise ShiftBenchError(f"A {column} code lies outside its {len(self.names[column])} names.")

    @staticmethod
    def of(
        collection: Collection,
        shift: Any,
        seed: int,
        rows: Ints,
        split: Strs,
        *,
        label: Values,
        domain: Values,
        group: Values | None = None,
        card: Mapping[str, Any] | None = None,
        extra: Mapping[str, Values] | None = None,
        target: Target | None = None,
    ) -> "Benchmark":
        """Make a benchmark from item numbers and one value per row; the default groups are cells of label × domain.

        Rows are sorted by split, then by item number, so their order does not reveal how they were drawn. Labels and
        groups of the split `unlabelled` are ignored. With a `target` that is not a class, `label` is one word for all
        rows, and `extra` holds the truth.
        """
        order = np.lexsort((rows, positions(np.asarray(split, np.str_), np.asarray(SPLITS))))
        columns: dict[str, Values] = {"label": np.asarray(label)[order], "domain": np.asarray(domain)[order]}
        hidden = np.asarray(split)[order] == UNLABELLED
        if len(rows) and hidden.all():
            raise ShiftBenchError("Every item is unlabelled, so there is nothing to learn. Name other splits.")
        if hidden.any():  # the label of another row, which is never read: it must not add a class
            columns["label"] = np.where(hidden, columns["label"][~hidden][0], columns["label"])
        factors = {"label": getattr(shift, "label", ""),
                   "domain": getattr(shift, "domain", "") or getattr(shift, "factor", "") or "domain"}
        y, y_names = encode(columns["label"])
        y = np.where(hidden, 0, y)
        d, d_names = encode(columns["domain"])
        if target is not None and target.one_per_column:
            y_names = target.columns  # one output each
        if group is None and target is not None:
            columns["group"] = columns["domain"].astype(np.str_)
        elif group is None:
            columns["group"] = cells(y, y_names, d, d_names, factors)
        else:
            columns["group"] = np.asarray(group)[order]
        if hidden.any():
            columns["group"] = np.where(hidden, UNLABELLED, columns["group"].astype(np.str_))
        g, g_names = encode(columns["group"])
        benchmark = Benchmark(
            items=collection.items[rows[order]],
            split=np.asarray(split, np.str_)[order],
            label=y, domain=d, group=g,
            names={"label": y_names, "domain": d_names, "group": g_names},
            extra={name: np.asarray(values)[order] for name, values in (extra or {}).items()},
        )
        params = asdict(shift) if is_dataclass(shift) and not isinstance(shift, type) else {}
        facts = {
            "shift": getattr(shift, "name", type(shift).__name__.lower()),
            "params": params,
            "seed": checked_seed(seed),
            "collection": {"name": collection.name, "digest": collection.digest},
            "distance": None,
            "notes": [],
            "factors": factors,
            **(card or {}),
            **({} if target is None else {"target": target.facts}),
            "counts": benchmark.counts(),
        }
        # A card equals what its file holds, so tuples become lists before saving.
        return replace(benchmark, card=json.loads(json.dumps(facts)))

    def __repr__(self) -> str:
        counts = in_short((f"{split} {len(self.rows(split)):,}" for split in SPLITS if (self.split == split).any()), 9)
        names = "; ".join(f"{column}s: {in_short(self.names[column])}" for column in ("label", "domain"))
        return (f"Benchmark('{self.name}': {len(self):,} rows; {counts or 'no split'}; {names}; "
                f"{len(self.names['group']):,} groups)")

    def _repr_html_(self) -> str:
        return str(notebook().html(self))

    def __len__(self) -> int:
        return len(self.items)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Benchmark):
            return NotImplemented
        own_card, other_card = ({key: card[key] for key in card if key != "name"} for card in (self.card, other.card))
        return self.digest == other.digest and own_card == other_card

    @property
    def target(self) -> Target:
        """The target of prediction: a class label, unless the card says otherwise."""
        facts = self.card.get("target")
        return Target.of(facts) if facts else Target()

    @property
    def headline(self) -> Measure:
        """The measure that ranks methods: the card's (`worst_group_accuracy[region]`), else the target's metric."""
        return Measure.parse(str(self.card.get("headline") or self.target.headline))

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that have labelled rows, in their usual order."""
        return tuple(name for name in SPLITS if name != UNLABELLED and (self.split == name).any())

    def rows(self, split: str) -> Ints:
        """Row numbers of a split."""
        if split not in SPLITS:
            raise unknown("split", split, SPLITS)
        return np.flatnonzero(self.split == split)

    def counts(self) -> dict[str, dict[str, int]]:
        """Rows per split and group."""
        table: dict[str, dict[str, int]] = {}
        for split in self.splits:
            n = np.bincount(self.group[self.rows(split)], minlength=len(self.names["group"]))
            table[split] = {name: int(k) for name, k in zip(self.names["group"], n, strict=True) if k}
        return table

    @cached_property
    def digest(self) -> str:
        """A digest of all rows and names, in order, but not of the card."""
        return digest({
            "items": self.items, "split": self.split,
            **{column: getattr(self, column) for column in CODED},
            **{f"names:{column}": np.asarray(self.names[column], np.str_) for column in CODED},
            **{f"extra:{name}": values for name, values in sorted(self.extra.items())},
        })

    @property
    def short_digest(self) -> str:
        """The digest by which scores identify their benchmark: 48 bits distinguish more benchmarks than anyone has."""
        return self.digest[:12]

    def to_arrow(self) -> pa.Table:
        """The rows as words: item, split, label, domain, group and the further columns."""
        return pa.table({name: pa.array(values) for name, values in table(
            self, ("item", "split", *CODED, *self.extra)).items()})

    def torch(
        self, split: str, transform: Callable[[Any], Any] | None = None, *,
        collection: Collection | Path | str | None = None,
    ) -> Any:
        """The rows of a split as a data set of torch, for your own training loop: (image or text, label, metadata).

        DataLoader(bench.torch("train"), batch_size=64, num_workers=2); see `compat.items.TorchRows`. A benchmark that
        was loaded or saved finds its collection; otherwise pass `collection`.
        """
        images = collection_of(self, collection)
        check_origin(self, images)
        return torch_rows().TorchRows(self, images, split, transform)

    def save(self, folder: Path | str, name: str = "") -> Path:
        """Write the folder of `docs/files.md`; an existing benchmark there is replaced in one step."""
        with writing_folder(folder, MARKER) as staging:
            columns = {"item": pa.array(self.items), "split": pa.array(self.split)}
            for column in CODED:
                names, codes = self.names[column], getattr(self, column)
                if column == "label" and (hidden := self.split == UNLABELLED).any():
                    names, codes = (*names, ""), np.where(hidden, len(names), codes)
                columns[column] = pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)),
                                                                 pa.array(names, pa.string()))
            columns |= {key: pa.array(values) for key, values in self.extra.items()}
            write_table(staging / "rows.parquet", pa.table(columns))
            write_json(staging / MARKER, {
                "format": "shiftbench benchmark", "version": FORMAT, "name": name or Path(folder).name,
                "digest": self.digest, "rows": len(self), "names": {key: list(self.names[key]) for key in CODED},
                "extra": list(self.extra), "card": self.card})
        return Path(folder)

    @staticmethod
    def load(folder: Path | str) -> "Benchmark":
        """Read a folder that `save` wrote and check its rows against their digest."""
        return read_folder(Path(folder), MARKER, Benchmark._read)

    @staticmethod
    def _read(folder: Path) -> "Benchmark":
        facts = read_marker(folder, MARKER, "benchmark", FORMAT, SHAPE)
        if not set(CODED) <= set(facts["names"]):
            raise ShiftBenchError(f"{folder / MARKER}: 'names' must have {', '.join(CODED)}. Build the benchmark "
                                  "again.")
        check_parts(str(folder / MARKER), facts["card"], CARD)
        file = folder / "rows.parquet"
        table = read_table(file, ["item", "split", *CODED, *facts["extra"]])
        names = {column: tuple(facts["names"][column]) for column in CODED}
        codes = {column: positions(strings(file, table, column), np.asarray(names[column], np.str_))
                 for column in CODED}
        split = strings(file, table, "split")
        codes["label"] = np.where(split == UNLABELLED, 0, codes["label"])
        benchmark = Benchmark(
            items=strings(file, table, "item"), split=split, **codes, names=names,
            card={**facts["card"], "name": facts["name"]},
            extra={key: values_of(file, table, key) for key in facts["extra"]}, home=folder,
        )
        if benchmark.digest != facts["digest"]:
            raise ShiftBenchError(f"{folder}: rows.parquet does not match the digest in {MARKER}; the rows were "
                                  "changed after they were built. Build the benchmark again.")
        return benchmark

    @property
    def name(self) -> str:
        """The folder's name once saved, else the shift's."""
        return str(self.card.get("name") or self.card.get("shift", "benchmark"))


def with_factor(factor: str, names: Sequence[str]) -> list[str]:
    """Values as words for the name of a group; bare numbers are written with their factor.

    >>> with_factor("y", ["0", "1"]), with_factor("place", ["land", "7"])
    (['y = 0', 'y = 1'], ['land', '7'])
    """
    bare = bool(factor) and all(NUMBER.fullmatch(name) for name in names)
    return [f"{factor} = {name}" for name in names] if bare else list(names)


def cells(label: Ints, labels: Sequence[str], domain: Ints, domains: Sequence[str], factors: Mapping[str, str]) -> Strs:
    """The name of each row's cell of label × domain; `factors` names the factors of the two."""
    y_names, d_names = with_factor(factors.get("label", ""), labels), with_factor(factors.get("domain", ""), domains)
    names: Strs = np.asarray([f"{y}, {d}" for y in y_names for d in d_names], np.str_)
    return np.asarray(names[label * len(d_names) + domain], np.str_)


def table(benchmark: Benchmark, columns: Sequence[str] = ("item", "split", *CODED)) -> dict[str, Values]:
    """The rows as words, column by column, for exports and display."""
    words: dict[str, Values] = {"item": benchmark.items, "split": benchmark.split}
    for column in CODED:
        words[column] = np.asarray(benchmark.names[column], np.str_)[getattr(benchmark, column)]
    words["label"] = np.where(benchmark.split == UNLABELLED, "", words["label"])
    return {name: {**words, **benchmark.extra}[name] for name in columns}


# Between a saved benchmark and its collection

def save_for(benchmark: Benchmark, out: Path | str, collection: Path | str | None, name: str = "") -> Benchmark:
    """Save a benchmark with the path of its collection on its card, and return it under its new name.

    The path is a hint for finding pixels again, relative so that a project folder can be moved as a whole.
    """
    card = dict(benchmark.card)
    if collection is not None:
        card["collection"] = {**card.get("collection", {}), "path": os.path.relpath(collection, out)}
    replace(benchmark, card=card).save(out, name)
    return replace(benchmark, card={**card, "name": name or Path(out).name}, home=Path(out))


def saved_below(benchmark: Benchmark, collection: Collection, out: Path | str) -> tuple[Benchmark, Path, Collection]:
    """Save a benchmark in memory as out/benchmarks/NAME, where the runs of `out` find it; return it and its folder.

    A collection without a folder is saved too, as out/collections/NAME. An existing folder with the same content is
    kept; where another benchmark has the name, the digest is added to it.
    """
    if collection.home is None:
        home = _free(Path(out) / "collections", collection.name, collection.digest, Collection.load,
                     lambda there: there == collection)
        if not (home / COLLECTION).is_file():
            collection.save(home)
        collection = collection.lying_in(home)
    folder = _free(Path(out) / "benchmarks", benchmark.name, benchmark.digest, Benchmark.load,
                   lambda there: there.digest == benchmark.digest)
    if (folder / MARKER).is_file():
        return Benchmark.load(folder), folder, collection
    return save_for(benchmark, folder, collection.home), folder, collection


def _free(above: Path, name: str, digest: str, load: Callable[[Path], T], same: Callable[[T], bool]) -> Path:
    """The folder to save under this name: one that does not exist, or that holds the same."""
    file_name = re.sub(r"[^\w.()-]+", "-", name).strip(".") or "unnamed"
    for folder in (above / file_name, above / f"{file_name}-{digest[:12]}"):
        if not folder.exists() or same(load(folder)):
            return folder
    raise ShiftBenchError(f"{folder}: holds something else. Move it, or name another folder for the runs.")


def collection_path(benchmark: Benchmark, collection: Collection | Path | str | None = None) -> Path | None:
    """Where the collection of a benchmark should be: as given, or as its card says; None if neither says it."""
    if isinstance(collection, Path | str):
        return Path(collection)
    path = benchmark.card.get("collection", {}).get("path")
    return None if benchmark.home is None or not path else Path(os.path.normpath(benchmark.home / path))


def collection_folder(benchmark: Benchmark, override: Path | str | None = None) -> Path:
    """The folder of the collection that a benchmark was built from; the digest of a saved one is checked."""
    facts, home, path = benchmark.card.get("collection", {}), benchmark.home, collection_path(benchmark, override)
    if home is None and path is None:
        raise ShiftBenchError("A benchmark in memory does not know where its collection is. Give `collection`.")
    if path is None:
        raise ShiftBenchError(f"{home}: does not say where its collection is. Name it with --collection.")
    if home is None:
        return path
    if not path.exists():
        raise ShiftBenchError(f"{home}: its collection '{facts.get('name')}' is not at {path} any more. "
                              "Name it with --collection.")
    digest = str(read_marker(path, COLLECTION, "collection", COLLECTION_FORMAT, {"digest": str}).get("digest"))
    if digest != facts.get("digest"):
        raise ShiftBenchError(f"{path}: digest is {digest[:8]}, but {home} was built from "
                              f"{str(facts.get('digest'))[:8]}. The collection was changed; build the benchmark again.")
    return path


def collection_of(benchmark: Benchmark, collection: Collection | Path | str | None = None) -> Collection:
    """The collection of a benchmark: as given, or from where the saved benchmark says that it is."""
    return collection if isinstance(collection, Collection) else Collection.load(
        collection_folder(benchmark, collection))


def collection_if_there(
    benchmark: Benchmark, collection: Collection | Path | str | None = None
) -> Collection | None:
    """The collection of a benchmark; None where none is given and the saved benchmark's cannot be found."""
    try:
        return collection_of(benchmark, collection)
    except ShiftBenchError:
        if collection is not None:
            raise
        return None


def check_origin(benchmark: Benchmark, collection: Collection) -> None:
    """Check that a benchmark was built from this collection."""
    digest = benchmark.card.get("collection", {}).get("digest")
    if digest and digest != collection.digest:
        raise ShiftBenchError(f"collection: '{collection.name}' has digest {collection.digest[:8]}, but benchmark "
                              f"'{benchmark.name}' was built from {str(digest)[:8]}. Give the collection that it was "
                              "built from.")
