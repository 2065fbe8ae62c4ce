"""A benchmark as a WILDS data set: items (x, y, metadata), its subsets by split, and its `eval`."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from PIL import Image

import shiftbench.pixels.needs_torch  # noqa: F401
from shiftbench.arrays import Ints, Strs, Values, encode
from shiftbench.benchmark import Benchmark
from shiftbench.collection import Collection
from shiftbench.compat.grouper import Columns, as_array
from shiftbench.compat.wilds_case import Case, Results
from shiftbench.errors import ShiftBenchError, unknown
from shiftbench.groupings import OWN, Coded, Grouping, group_by
from shiftbench.metrics.groups import Grouped, group_means
from shiftbench.pixels.decode import images, open_image

SPLIT_NAMES = {"train": "Train", "id_val": "Validation (ID)", "val": "Validation (OOD)", "id_test": "Test (ID)",
               "test": "Test (OOD)", "target_train": "Train (target)"}
SOURCE = ("train", "id_val", "id_test")
"""The splits that are drawn before the shift: their rows have from_source_domain = 1."""
LAST = ("y", "from_source_domain")
"""The last two columns of every metadata array, as the package has them."""

Transform = Callable[[Any], Any]
Evaluated = tuple[Results, str]


class WILDSDataset:
    """Every row of a benchmark; row i is (x, y, metadata).

    x is a PIL image, or the text where items have no images. The columns of the metadata are the benchmark's domain and
    group, its further columns, every factor of the collection that is no fraction (the numbers of a grouper), y and
    from_source_domain; `metadata_map` says what the codes stand for. `eval` groups by `groupby_fields`, in any order,
    and by `groupings`, which may overlap ("male+female,y"); without them, by those of the benchmark's card.
    """

    collate: Callable[[Sequence[Any]], Any] | None = None
    is_classification = True
    is_detection = False
    y_size = 1

    def __init__(
        self, benchmark: Benchmark, collection: Collection, *, groupby_fields: Sequence[str] = ("group",),
        groupings: Sequence[str] | None = None, compat: str | None = None,
    ) -> None:
        self.benchmark, self.collection, self.compat = benchmark, collection, compat
        self.dataset_name, self.split_scheme = benchmark.name, "official"
        self._item = collection.index(benchmark.items)
        self.split_dict = {name: code for code, name in enumerate(benchmark.splits)}
        self.split_names = {name: SPLIT_NAMES[name] for name in self.split_dict}
        codes = _columns(benchmark, collection, self._item)
        self.metadata_fields: list[str] = list(codes)
        self.metadata_map: dict[str, Sequence[str]] = {field: list(names) for field, (_, names) in codes.items()}
        self._metadata = np.stack([column for column, _ in codes.values()], axis=1).astype(np.int64)
        self.metadata_array: Any = torch.from_numpy(self._metadata)
        self.y_array: Any = torch.from_numpy(benchmark.label.astype(np.int64))
        self.n_classes = len(benchmark.names["label"])
        self.groupby_fields = list(groupby_fields)
        for field in self.groupby_fields:
            if field not in self.metadata_fields:
                raise unknown("column", field, self.metadata_fields, benchmark.name)
        own = benchmark.card.get(OWN) or ()
        self._by_card = groupings is None and bool(own) and self.groupby_fields == ["group"]
        self._known = {said: self._grouped(self._metadata, said, strict=said not in own).names
                       for said in (own if groupings is None else groupings)}

    def __len__(self) -> int:
        return len(self.benchmark)

    def __getitem__(self, idx: int) -> tuple[Any, Any, Any]:
        return self.get_input(idx), self.y_array[idx], self.metadata_array[idx]

    def get_input(self, idx: int) -> Any:
        """The image or the text of a row, before any transform."""
        row, pixels = int(self._item[int(idx)]), self.collection.pixels
        if pixels is None:
            return self._text[row]
        if pixels.dtype.kind == "U":
            return open_image(self.collection, row, None)
        return Image.fromarray(images(self.collection, np.asarray([row]))[0])

    @cached_property
    def _text(self) -> Mapping[int, str]:
        """The first text of every item."""
        texts = self.collection.texts
        first = {int(row): str(text) for row, text in zip(texts.item[::-1], texts.text[::-1], strict=True)}
        if missing := set(self._item.tolist()) - set(first):
            raise ShiftBenchError(f"Collection '{self.collection.name}' has neither an image nor a text of item "
                                  f"'{self.collection.items[min(missing)]}', so a script has nothing to look at.")
        return first

    @property
    def split_array(self) -> Ints:
        names: Strs = np.asarray(list(self.split_dict), np.str_)
        order = np.argsort(names)
        return order[np.searchsorted(names[order], self.benchmark.split)]

    def get_subset(self, split: str, frac: float = 1.0, transform: Transform | None = None) -> "WILDSSubset":
        """The rows of a split; with `frac` below 1 a share of them, drawn with numpy's global generator."""
        if split not in self.split_dict:
            raise unknown("split", split, self.split_dict, self.dataset_name)
        rows = self.benchmark.rows(split)
        if frac < 1:
            kept = int(np.round(len(rows) * frac))
            rows = np.sort(np.random.permutation(rows)[:kept])  # noqa: NPY002 -- scripts seed the global generator
        return WILDSSubset(self, rows, transform)

    def eval(
        self, y_pred: Any, y_true: Any, metadata: Any, prediction_fn: Transform | None = None
    ) -> Evaluated:
        """Accuracy of all items, of every group and of the worst, in the package's keys; and the same to be read.

        An empty group is NaN, with `compat="wilds-2.0"` 0 as in the package; it is never the worst. A grouping's worst
        is `acc_wg[male+female,y]`. Where a benchmark's card says how it is scored, as CivilComments' by sixteen groups,
        the first such worst is `acc_wg` too, unless `groupby_fields` or `groupings` say otherwise.
        """
        predicted = as_array(y_pred if prediction_fn is None else prediction_fn(y_pred))
        label, here = as_array(y_true), as_array(metadata)
        if predicted.shape != label.shape or len(here) != len(label):
            raise ShiftBenchError(f"{self.dataset_name}: predictions have the shape {predicted.shape}, labels "
                                  f"{label.shape} and metadata {here.shape}. Give one predicted class per item, or a "
                                  "prediction_fn that does, such as one that takes the argmax.")
        whole = Columns(self.metadata_fields, self._metadata, self.metadata_map)
        case = Case(predicted, label, here, whole, {}, self.compat, self.split_scheme)
        found = case.standard("acc", case.hits(), *self.groupby_fields)
        grouper = case.grouper(*self.groupby_fields)
        names = [grouper.group_str(group) for group in range(grouper.n_groups)]
        tables = [(names, group_means(case.hits(), case.groups(grouper), grouper.n_groups))]
        for said, known in self._known.items():
            part = self._grouped(here.astype(np.int64), said)
            names = list(dict.fromkeys((*known, *part.names)))
            place = np.asarray([names.index(name) for name in part.names], np.int64)
            tables.append((names, group_means(case.hits()[part.rows], place[part.group], len(names))))
            found |= _keys(case, *tables[-1]) | {f"acc_wg[{said}]": case.worst(tables[-1][1])}
        names, judged = tables[1 if self._by_card else 0]
        found["acc_wg"] = case.worst(judged)
        return found, _told(found, tables, names, judged)

    def _grouped(self, metadata: Ints, said: str, strict: bool = False) -> Grouping:
        """A grouping of rows of metadata; `label` is another word for y."""
        columns = {field: Coded(metadata[:, at], self.metadata_map[field])
                   for at, field in enumerate(self.metadata_fields)}
        return group_by({"label": columns["y"], **columns}, said, strict=strict)


def _keys(case: Case, names: Sequence[str], grouped: Grouped) -> Results:
    """`acc_male:1_y:toxic` and `count_male:1_y:toxic` of every group."""
    found: Results = {}
    for name, value, count in zip(names, grouped.value.tolist(), grouped.size.tolist(), strict=True):
        key = name.replace(" = ", ":").replace(", ", "_")
        found |= {f"acc_{key}": case.shown(value, count), f"count_{key}": count}
    return found


def _told(
    found: Results, tables: Sequence[tuple[Sequence[str], Grouped]], judged: Sequence[str], worst: Grouped
) -> str:
    """Every group that has items, with its count, and last which is the worst."""
    lines = [f"Average acc: {found['acc_avg']:.3f}"]
    for names, grouped in tables:
        lines += [f"  {names[group]}  [n = {grouped.size[group]:6.0f}]:\tacc = {grouped.value[group]:5.3f}"
                  for group in np.flatnonzero(grouped.size).tolist()]
    if worst.size.any():
        lowest = int(np.nanargmin(worst.value))
        lines.append(f"Worst group: {judged[lowest]}  [n = {worst.size[lowest]:6.0f}]")
    return "\n".join([*lines, f"Worst-group acc: {found['acc_wg']:.3f}", ""])


class WILDSSubset:
    """Some rows of a data set, with a transform of x; everything else is the data set's."""

    def __init__(self, dataset: WILDSDataset, indices: Ints, transform: Transform | None) -> None:
        self.dataset, self.indices, self.transform = dataset, indices, transform

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, idx: int) -> tuple[Any, Any, Any]:
        x, y, metadata = self.dataset[self.indices[idx]]
        return x if self.transform is None else self.transform(x), y, metadata

    def __getattr__(self, name: str) -> Any:
        # not what copying and worker processes ask for before there is a data set
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


def _columns(benchmark: Benchmark, collection: Collection, item: Ints) -> dict[str, tuple[Ints, tuple[str, ...]]]:
    """Codes and names by column; a name that is taken already keeps its first meaning."""
    found = {name: (getattr(benchmark, name), benchmark.names[name]) for name in ("domain", "group")}
    more: dict[str, Values] = {**{name: values[item] for name, values in collection.factors.items()}, **benchmark.extra}
    found |= {name: encode(values) for name, values in more.items()
              if name not in (*found, *LAST) and np.asarray(values).dtype.kind in "Ubiu"}
    source = np.isin(benchmark.split, SOURCE).astype(np.int64)
    return found | {"y": (benchmark.label, benchmark.names["label"]), "from_source_domain": (source, ("False", "True"))}
