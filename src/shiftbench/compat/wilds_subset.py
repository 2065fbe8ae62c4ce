"""A benchmark as a WILDS data set: items (x, y, metadata), its subsets by split, and its `eval`."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from shiftbench.compat import wilds_eval
from shiftbench.compat.grouper import Columns, as_array
from shiftbench.compat.items import Inputs, collate_boxes, collate_graphs, image_size, targets
from shiftbench.compat.wilds_eval import (
    AS_GIVEN,
    EVALUATORS,
    Case,
    Groupings,
    Results,
    case_of,
    check_fit,
    classes,
    package_text,
    results_text,
)
from shiftbench.compat.wilds_metadata import (
    DATASETS,
    FROM,
    GAPS,
    OFFICIAL,
    UNLABELED_SPLITS,
    Named,
    Y,
    all_rows,
    columns,
    kind_column,
    labelled_rows,
    named,
)
from shiftbench.core.arrays import Ints, Strs, positions
from shiftbench.core.backend import torch
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.data.benchmark import TARGET_TRAIN, UNLABELLED, Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.groupings import OWN
from shiftbench.data.target import NO_LABEL

SPLIT_NAMES = {"train": "Train", "id_val": "Validation (ID)", "val": "Validation (OOD)", "id_test": "Test (ID)",
               "test": "Test (OOD)", "target_train": "Train (target)"}

Transform = Callable[[Any], Any]
Evaluated = tuple[Results, str]


class WILDSDataset:
    """The labelled rows of a benchmark; row i is (x, y, metadata).

    x is an image, a text, tokens or the lines of a molecule (`Inputs`), y what the kind of target has (`targets`). The
    columns of the metadata are the benchmark's domain and group, its further columns, every factor of the collection
    that is no fraction (the numbers of a grouper), y or the kinds of tokens, and from_source_domain; `metadata_map`
    says what the codes stand for. `eval` groups by `groupby_fields`, in any order, and classes also by `groupings`,
    which may overlap ("male+female,y"); without them, by those of the benchmark's card.

    With `compat="wilds-2.0"` a benchmark that is one of WILDS' ten (`build wilds`) has the package's own name, splits,
    metadata, numbers of classes and size of images, unless `groupby_fields` or `groupings` say otherwise.
    """

    collate: Callable[[Sequence[Any]], Any] | None = None
    _take: Callable[[Benchmark], Benchmark] = staticmethod(labelled_rows)
    """The part of a benchmark that the data set is about."""
    _has_labels = True

    def __init__(
        self, benchmark: Benchmark, collection: Collection, *, groupby_fields: Sequence[str] = ("group",),
        groupings: Sequence[str] | None = None, compat: str | None = None, split_scheme: str = "official",
        no_nl: bool = False, ood_val: bool = True,
    ) -> None:
        benchmark = self._take(benchmark)
        self.benchmark, self.collection, self.compat = benchmark, collection, compat
        self.dataset_name, self.split_scheme, self.no_nl = benchmark.name, split_scheme, no_nl
        self.inputs = Inputs(benchmark, collection)
        is_default = groupings is None and tuple(groupby_fields) == ("group",)
        self._named = named(benchmark, collection, split_scheme) if is_default and compat is not None else None
        titles = {**(self._named.splits if self._named is not None else {})}
        titles |= {name: SPLIT_NAMES[name] for name in benchmark.splits if name not in titles}
        renamed = {} if ood_val else {"id_val": "val", "val": "ood_val"}
        self._our_splits = {renamed.get(name, name): name for name in titles}
        self.split_dict = {name: code for code, name in enumerate(self._our_splits)}
        self.split_names = {name: titles[split] for name, split in self._our_splits.items()}
        table = columns(benchmark, collection, self.inputs.item) if self._named is None else self._named.columns
        self.y_array: Any = targets(benchmark, collection)
        self.metadata_fields: list[str] = list(table)
        self.metadata_map: dict[str, Sequence[Any]] | None = {
            field: list(column.names) for field, column in table.items() if column.names is not None}
        values = [column.values for column in table.values()]
        self._metadata = np.stack(values, axis=1).astype(np.result_type(np.int64, *values), copy=False)
        self.metadata_array: Any = torch.from_numpy(self._metadata)
        kind, outputs = benchmark.target.kind, len(benchmark.names["label"])
        self.n_classes = {"number": None, "tasks": 2, "tokens": benchmark.target.n}.get(kind, outputs)
        self.y_size = {"class": 1, "boxes": None, "tokens": None}.get(kind, outputs)
        self.is_classification, self.is_detection = kind in ("class", "tasks", "tokens"), kind == "boxes"
        if kind == "boxes":
            self.collate = collate_boxes
        elif self.inputs.graphs and kind != "tokens":
            self.collate = collate_graphs
        if self._named is not None:
            self._as_published(self._named)
            return
        self.groupby_fields = list(groupby_fields)
        for field in self.groupby_fields:
            if field not in self.metadata_map:
                raise unknown("column", field, self.metadata_map, benchmark.name)
        if groupings and kind != "class":
            raise ShiftBenchError(f"Benchmark '{benchmark.name}' asks for {kind}; `groupings` are for classes. Name "
                                  "columns as groupby_fields.")
        card_groupings = (benchmark.card.get(OWN) or ()) if kind == "class" and self._has_labels else ()
        self._by_card = is_default and bool(card_groupings)
        rules = Groupings(self.metadata_fields, self.metadata_map)
        self._groupings = rules._replace(known={
            spec: rules.of(self._metadata, spec, strict=spec not in card_groupings).names
            for spec in (card_groupings if groupings is None else groupings)})

    def _as_published(self, published: Named) -> None:
        """Name, names of values, label and number of classes as the package has them."""
        facts, y = DATASETS[published.name], published.columns.get("y")
        self.dataset_name, self.metadata_map = published.name, published.names or None
        if self.split_scheme == "official" or published.name == "fmow":
            self.split_scheme = OFFICIAL.get(self.collection.name, self.split_scheme)
        if self.is_classification and y is not None:
            self.y_array = torch.from_numpy(np.asarray(y.values, np.int64))
            self.n_classes = facts.n_classes or int(self.collection.factors["y"].max(initial=-1)) + 1
        else:
            self.n_classes = facts.n_classes

    @cached_property
    def original_resolution(self) -> tuple[int, int] | None:
        """Width and height of the images: as published, of the stored array, or of the first file; None without."""
        if self._named is not None:
            return DATASETS[self._named.name].resolution
        pixels, first = self.collection.pixels, int(self.inputs.item[0])
        if pixels is None:
            return None
        if str(pixels[first]).endswith(".npz") and pixels.dtype.kind == "U":
            return tuple(self.inputs[0].shape[:0:-1])
        return image_size(self.collection, first)

    def __len__(self) -> int:
        return len(self.benchmark)

    def __getitem__(self, idx: int) -> tuple[Any, Any, Any]:
        return self.get_input(idx), self.y_array[idx], self.metadata_array[idx]

    def get_input(self, idx: int) -> Any:
        """x of a row, before any transform."""
        x = self.inputs[idx]
        if self.no_nl:
            x[-1] = 0
        return x

    @property
    def split_array(self) -> Ints:
        return positions(self.benchmark.split, np.asarray(list(self._our_splits.values()), np.str_))

    def get_subset(self, split: str, frac: float = 1.0, transform: Transform | None = None) -> "WILDSSubset":
        """The rows of a split; with `frac` below 1 a share of them, drawn with numpy's global generator."""
        if split not in self.split_dict:
            raise unknown("split", split, self.split_dict, self.dataset_name)
        return WILDSSubset(self, drawn_share(self.benchmark.rows(self._our_splits[split]), frac), transform)

    def eval(
        self, y_pred: Any, y_true: Any, metadata: Any, prediction_fn: Transform | None = None
    ) -> Evaluated:
        """The metrics of the kind of target, of all items, of every group and of the worst, in the package's keys; and
        the same to be read.

        Classes: acc. Numbers: mse and r. Boxes: detection_acc, and its mean over groups; `y_pred` is a list of
        {"boxes", "scores"}. Tasks: ap of logits, and tokens: the share of right ones by kind; neither by group. An
        empty group is NaN, with `compat="wilds-2.0"` 0 as in the package; it is never the worst.

        A grouping's worst is `acc_wg[male+female,y]`. Where a benchmark's card says how it is scored, as CivilComments'
        by sixteen groups, the first such worst is `acc_wg` too, unless `groupby_fields` or `groupings` say otherwise.

        With `compat="wilds-2.0"` a benchmark that is one of WILDS' ten has that one's own keys, as `evaluate` gives
        them, and its text.
        """
        kind = self.benchmark.target.kind
        if prediction_fn is not None:
            if kind in AS_GIVEN:
                raise ShiftBenchError(f"{self.dataset_name} asks for {kind}, which is scored on the model's outputs; "
                                      "it takes no prediction_fn.")
            y_pred = prediction_fn(y_pred)
        here = as_array(metadata)
        predicted, label = (y_pred, y_true) if kind == "boxes" else (as_array(y_pred), as_array(y_true))
        check_fit(self.dataset_name, kind, predicted, label, here)
        if self._named is not None:
            case = case_of(self._named.name, predicted, label, here, None, self.metadata_map, compat=self.compat,
                           full_metadata=self._named.whole, split_scheme=self.split_scheme)
            results = EVALUATORS[self._named.name](case)
            return results, package_text(self._named.name, case, results)
        whole = Columns(self.metadata_fields, self._metadata, self.metadata_map)
        case = Case(predicted, label, here, whole, {}, self.compat, self.split_scheme)
        if kind == "class":
            return classes(case, self.groupby_fields, self._groupings, self._by_card)
        if kind == "number":
            results = wilds_eval.numbers(case, *self.groupby_fields)
        elif kind == "tasks":
            results = wilds_eval.tasks(case)
        elif kind == "boxes":
            results = wilds_eval.boxes(case, *self.groupby_fields)
        else:
            kinds = [self.metadata_fields.index(kind_column(position)) for position in range(self.y_array.shape[1])]
            results = wilds_eval.tokens(case, here[:, kinds])
        return results, results_text(results)


def drawn_share(rows: Ints, frac: float) -> Ints:
    """A share of the rows, in their order, drawn with numpy's global generator; all of them from 1 on."""
    if frac >= 1:
        return rows
    kept = int(np.round(len(rows) * frac))
    return np.sort(np.random.permutation(rows)[:kept])  # noqa: NPY002 -- scripts seed the global generator


class WILDSSubset:
    """Some rows of a data set, with a transform of x, or of x and y; everything else is the data set's."""

    def __init__(
        self, dataset: WILDSDataset, indices: Ints, transform: Callable[..., Any] | None, do_transform_y: bool = False
    ) -> None:
        self.dataset, self.indices, self.transform, self.do_transform_y = dataset, indices, transform, do_transform_y

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, idx: int) -> tuple[Any, Any, Any]:
        x, y, metadata = self.dataset[self.indices[idx]]
        if self.transform is None:
            return x, y, metadata
        return (*self.transform(x, y), metadata) if self.do_transform_y else (self.transform(x), y, metadata)

    def __getattr__(self, name: str) -> Any:
        # copying and worker processes ask for these before there is a data set
        if name == "dataset" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.dataset, name)

    @property
    def y_array(self) -> Any:
        return self.dataset.y_array[self.indices]

    @property
    def metadata_array(self) -> Any:
        return self.dataset.metadata_array[self.indices]

    @property
    def split_array(self) -> Ints:
        return self.dataset.split_array[self.indices]


# Unlabelled items, as in WILDS' `datasets.unlabeled`, and items with pseudolabels

USUAL = "test_unlabeled"
"""The package's split of target items where the collection does not give one."""
SOURCE = "train_unlabeled"
"""The split whose rows have from_source_domain = 1."""
FIRST = 10
"""Numbers of unlabeled splits begin here, so that none is that of a labelled one."""


def package_splits(benchmark: Benchmark, collection: Collection) -> Strs:
    """The package's split of each row to adapt with, of `unlabelled` and of `target_train`; empty for other rows.

    The factor that a benchmark takes its split from still says which of the four a row of `unlabelled` was; a word that
    is none of them, and a row of `target_train`, is `test_unlabeled`.
    """
    factor = str((benchmark.card.get("params") or {}).get("split") or "split")
    splits = np.full(len(benchmark), USUAL)
    if factor in collection.factors:
        values = collection.factors[factor].astype(np.str_)[collection.index(benchmark.items)]
        splits = np.where(np.isin(values, list(UNLABELED_SPLITS)), values, splits)
    return np.where(np.isin(benchmark.split, (UNLABELLED, TARGET_TRAIN)), splits, "")


class WILDSUnlabeledDataset(WILDSDataset):
    """The items of a benchmark to adapt with, in the package's unlabeled splits (`package_splits`); row i is (x,
    metadata).

    Columns, names and numbers are those of the labelled data set, so that one grouper can be built on both. y of a row
    of `target_train` stays with the benchmark; y of a row of `unlabelled` is -100, and what is not known of it is what
    the package says there.
    """

    _take = staticmethod(all_rows)
    _has_labels = False

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        split = package_splits(self.benchmark, self.collection)
        self._rows = np.flatnonzero(split != "")
        if not len(self._rows):
            raise ShiftBenchError(f"Benchmark '{self.benchmark.name}' has no rows of split '{UNLABELLED}' or "
                                  f"'{TARGET_TRAIN}', whose items are the unlabeled ones. Build it with items to adapt "
                                  "with; those of WILDS are read with: shiftbench read wilds NAME --unlabelled.")
        self._split, names = split[self._rows], list(UNLABELED_SPLITS)
        present = [name for name in names if (self._split == name).any()]
        self.split_dict = {name: FIRST + names.index(name) for name in present}
        self.split_names = {name: UNLABELED_SPLITS[name] for name in present}
        hidden = torch.from_numpy(self.benchmark.split[self._rows] == UNLABELLED)
        self._y, self.y_array = self.y_array[self._rows], None
        if isinstance(self._y, torch.Tensor):
            self._y[hidden] = torch.nan if self._y.is_floating_point() else NO_LABEL
        self.metadata_array = self.metadata_array[self._rows]
        gaps = GAPS.get(self._named.name, {}) if self._named is not None else {}
        for field, number in {**gaps, Y: NO_LABEL}.items():
            if field in self.metadata_fields:
                self.metadata_array[hidden, self.metadata_fields.index(field)] = number
        self.metadata_array[hidden, self.metadata_fields.index(FROM)] = torch.from_numpy(
            self._split == SOURCE)[hidden].to(self.metadata_array.dtype)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, idx: int) -> tuple[Any, Any]:  # type: ignore[override]
        return self.get_input(int(self._rows[idx])), self.metadata_array[idx]

    @property
    def split_array(self) -> Ints:
        return np.asarray([self.split_dict[word] for word in self._split.tolist()], np.int64)

    def get_subset(
        self, split: str, frac: float = 1.0, transform: Transform | None = None, load_y: bool = False
    ) -> "WILDSUnlabeledSubset":
        """The rows of an unlabeled split; with `load_y` their true labels, as in WILDS' fully labelled runs."""
        if split not in self.split_dict:
            raise unknown("split", split, self.split_dict, self.dataset_name)
        return WILDSUnlabeledSubset(self, drawn_share(np.flatnonzero(self._split == split), frac), transform, load_y)

    def eval(self, *arguments: Any, **options: Any) -> Any:
        raise AttributeError("Unlabeled items have no labels, so they cannot be evaluated.")


class WILDSUnlabeledSubset(WILDSSubset):
    """Some rows of an unlabeled data set: (x, metadata), or (x, y, metadata) with `load_y`."""

    def __init__(self, dataset: WILDSUnlabeledDataset, indices: Ints, transform: Transform | None, load_y: bool = False
                 ) -> None:
        super().__init__(dataset, indices, transform)
        self.load_y = load_y

    def __getitem__(self, idx: int) -> Any:
        row = self.indices[idx]
        x, metadata = self.dataset[row]  # type: ignore[misc]
        x = x if self.transform is None else self.transform(x)
        return (x, self.dataset._y[row], metadata) if self.load_y else (x, metadata)  # type: ignore[attr-defined]


class WILDSPseudolabeledSubset(WILDSSubset):
    """The rows of an unlabeled subset with labels that a model has given them: (x, label, metadata)."""

    def __init__(
        self, reference_subset: WILDSUnlabeledSubset, pseudolabels: Any, transform: Transform | None,
        collate: Callable[..., Any] | None = None,
    ) -> None:
        if len(reference_subset) != len(pseudolabels):
            raise ShiftBenchError(f"There are {len(reference_subset)} items but {len(pseudolabels)} labels.")
        super().__init__(reference_subset.dataset, reference_subset.indices, transform)
        self.pseudolabels = pseudolabels
        if collate is not None:
            self.collate = collate

    def __getitem__(self, idx: int) -> Any:
        x, metadata = self.dataset[self.indices[idx]]  # type: ignore[misc]
        return x if self.transform is None else self.transform(x), self.pseudolabels[idx], metadata
