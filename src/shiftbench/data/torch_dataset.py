"""Map-style data sets of torch: anything with a length whose samples are (input, label), (input, label, metadata), or
a dict. torch itself is not imported; tensors are recognised by their methods."""

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from shiftbench.core.arrays import Images, Strs, Values
from shiftbench.core.errors import ShiftBenchError, first_line, unknown
from shiftbench.data.benchmark import UNLABELLED
from shiftbench.data.collection import Collection
from shiftbench.data.image_files import folder_for, png, write_image
from shiftbench.data.item_table import table

ID, LABEL, SPLIT, TEXT = "(row)", "label", "split", "(text)"
INPUTS = ("image", "img", "x", "input", "text")
"""Keys under which a sample that is a dict may have its input."""


class Sample(NamedTuple):
    """One sample: its input (None where only the path of its image is known), label and metadata."""

    x: Any
    y: Any
    metadata: Mapping[str, Any]


def from_torch(
    dataset: Any, *, id: str | None = None, label: str = LABEL, domain: str | None = None, image: str | None = None,
    classes: Sequence[str] | None = None, fields: Sequence[str] = (), images: bool | Path | str = True,
    name: str | None = None, **options: Any,
) -> Collection:
    """Read a data set, or a dict of them by split.

    Where it lists its files (`samples` or `imgs`, as torchvision's ImageFolder), images stay where they are and none is
    opened. Otherwise every sample is loaded once: pictures and tensors (uint8, or 0 to 1) become pixels where all have
    one size, and PNG files otherwise or where `images` names a folder; `images=False` leaves them out. A text becomes
    the text of its item, a vector its features. `classes`, by default those of the data set, name the labels. Metadata
    is a dict, or a row whose columns `fields` or `dataset.metadata_fields` name; its columns are factors, and `id` and
    `domain` may name one. In samples that are dicts `image` and `label` are keys. `options` are those of
    `item_table.table`.
    """
    called, sets = type(dataset).__name__, dataset if isinstance(dataset, Mapping) else {"": dataset}
    inputs, columns = _Inputs(called, images), dict[str, list[Any]]()
    for split, source in sets.items():
        where = f"{called}['{split}']" if split else called
        class_names = _words(source, classes)
        for row, sample in enumerate(_samples(where, source, image, label, fields)):
            inputs.add(sample.x, f"{where}[{row}]")
            values = {ID: f"{split}/{row}" if split else str(row), **({SPLIT: split} if split else {}),
                      **sample.metadata, LABEL: _named(sample.y, class_names, split, f"{where}[{row}]")}
            if columns and values.keys() != columns.keys():
                odd = sorted(values.keys() ^ columns.keys())[0]
                raise ShiftBenchError(f"{where}[{row}]: has other metadata than the samples before it: '{odd}'.")
            for key, value in values.items():
                columns.setdefault(key, []).append(_plain(value))
    if not columns:
        raise ShiftBenchError(f"{called}: has no samples.")
    return _collection(called, sets, inputs, columns, id, domain, name, options)


def _collection(
    called: str, sets: Mapping[str, Any], inputs: "_Inputs", columns: dict[str, list[Any]], id: str | None,
    domain: str | None, name: str | None, options: Mapping[str, Any],
) -> Collection:
    for role, column in (("id", id), ("domain", domain)):
        if column is not None and column not in columns:
            raise unknown("column", column, [key for key in columns if key != ID], f"{called}: {role}")
    files, root = _listed_files(sets)
    rows = {key: _column(called, key, values) for key, values in columns.items()
            if not any(isinstance(value, list | tuple | dict) for value in values)}
    if skipped := sorted(columns.keys() - rows.keys()):
        warnings.warn(f"{called}: metadata that is no number or word per item is left out: {', '.join(skipped)}.",
                      stacklevel=4)
    if id is not None:
        del rows[ID]
    elif files is not None:
        rows[ID] = pa.array(files)
    if inputs.texts:
        rows[TEXT] = pa.array(inputs.texts)
    vectors = {f"x{at}": pa.array(values) for at, values in enumerate(zip(*inputs.vectors, strict=True))}
    collection = table(
        pa.table({**rows, **vectors}), called=called, id=id or ID, label=LABEL, domain=domain,
        split=SPLIT if SPLIT in rows else None, text=TEXT if inputs.texts else None, features=tuple(vectors),
        name=name or called, **options)
    pixels, folder = (files, root) if files is not None else inputs.pixels()
    if pixels is None or inputs.unwanted:
        return collection
    return replace(collection, pixels=pixels, root=folder)


def _column(called: str, key: str, values: list[Any]) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowException, TypeError, OverflowError) as problem:
        raise ShiftBenchError(f"{called}: '{key}' has values of several types ({first_line(problem)}).") from problem


def _words(dataset: Any, classes: Sequence[str] | None) -> Sequence[str] | None:
    while classes is None and not hasattr(dataset, "classes") and hasattr(dataset, "dataset"):  # a Subset
        dataset = dataset.dataset
    names = classes if classes is not None else getattr(dataset, "classes", None)
    return [str(word) for word in names] if isinstance(names, list | tuple) else None


def _samples(where: str, dataset: Any, image: str | None, label: str, fields: Sequence[str]) -> Iterator[Sample]:
    """The samples in order; where the data set lists its files, their labels without opening any."""
    pairs = _listed(dataset)
    if pairs is not None:
        yield from (Sample(None, code, {}) for _, code in pairs)
        return
    if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
        raise ShiftBenchError(f"{where}: is a {type(dataset).__name__}, whose samples cannot be indexed. Give a "
                              "map-style data set, with __len__ and __getitem__.")
    names = tuple(fields) or tuple(getattr(dataset, "metadata_fields", None) or ())
    for row in range(len(dataset)):
        yield _sample(f"{where}[{row}]", dataset[row], image, label, names)


def _listed(dataset: Any) -> list[tuple[str, Any]] | None:
    """Path and label of every sample, where a data set lists them; a Subset has those of its indices."""
    if hasattr(dataset, "indices") and hasattr(dataset, "dataset"):
        parent_pairs = _listed(dataset.dataset)
        return None if parent_pairs is None else [parent_pairs[int(row)] for row in dataset.indices]
    pairs = getattr(dataset, "samples", None) or getattr(dataset, "imgs", None)
    if not isinstance(pairs, list) or len(pairs) != len(dataset) or not all(
            isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str | os.PathLike) for pair in pairs):
        return None
    return [(os.path.abspath(path), code) for path, code in pairs]


def _listed_files(sets: Mapping[str, Any]) -> tuple[Strs | None, Path | None]:
    """The files of all samples below the folder that holds them all."""
    samples = [_listed(dataset) for dataset in sets.values()]
    paths = [path for pairs in samples for path, _ in pairs or ()]
    if not paths or any(pairs is None for pairs in samples):
        return None, None
    root = os.path.commonpath([os.path.dirname(path) for path in paths])
    return np.asarray([os.path.relpath(path, root) for path in paths], np.str_), Path(root)


def _sample(where: str, sample: Any, image: str | None, label: str, names: tuple[str, ...]) -> Sample:
    if isinstance(sample, Mapping):
        key = image or next((key for key in INPUTS if key in sample), None)
        for wanted in (key, label):
            if wanted not in sample:
                raise unknown("key", wanted or "image", sample, where)
        return Sample(sample[key], sample[label], {str(name): value for name, value in sample.items()
                                                   if name not in (key, label)})
    if not isinstance(sample, tuple | list) or len(sample) not in (2, 3):
        length = f" of {len(sample)}" if isinstance(sample, tuple | list) else ""
        raise ShiftBenchError(f"{where}: is a {type(sample).__name__}{length}, not (input, label), (input, label, "
                              "metadata) or a dict.")
    if len(sample) == 2:
        return Sample(sample[0], sample[1], {})
    metadata = sample[2]
    if isinstance(metadata, Mapping):
        columns = {str(key): value for key, value in metadata.items()}
    else:
        values = np.atleast_1d(np.asarray(metadata)).tolist()
        names = names or (("metadata",) if len(values) == 1 else ())
        if len(names) != len(values):
            raise ShiftBenchError(f"{where}: has {len(values)} values of metadata, and {len(names)} are named. Name "
                                  "them all with `fields`.")
        columns = dict(zip(names, values, strict=True))
    if reserved := sorted({ID, LABEL, SPLIT} & columns.keys()):
        raise ShiftBenchError(f"{where}: its metadata has the key '{reserved[0]}', which is reserved. Rename it.")
    return Sample(sample[0], sample[1], columns)


def _named(y: Any, class_names: Sequence[str] | None, split: str, where: str) -> Any:
    """A label as its class; None where there is none in the split `unlabelled`."""
    value = _plain(y)
    if isinstance(value, list | tuple | dict):
        raise ShiftBenchError(f"{where}: its label is {type(y).__name__} of several values, but an item has one label.")
    if isinstance(value, int) and split == UNLABELLED:
        return None
    if class_names is None or not isinstance(value, int):
        return value
    if not 0 <= value < len(class_names):
        raise ShiftBenchError(f"{where}: has the label {value}, but there are {len(class_names)} classes, 0 to "
                              f"{len(class_names) - 1}. An item without a label belongs in the split 'unlabelled'.")
    return class_names[value]


def _plain(value: Any) -> Any:
    """A number or word of Python; a list where there are several."""
    if hasattr(value, "tolist"):  # an array or a tensor
        value = value.tolist()
    return value[0] if isinstance(value, list) and len(value) == 1 else value


class _Inputs:
    """The inputs of samples, collected one by one: pixels while all have one size, else files; texts; vectors."""

    def __init__(self, called: str, images: bool | Path | str) -> None:
        self.called, self.unwanted = called, images is False
        self.folder = None if isinstance(images, bool) else folder_for(images)
        self.pictures: list[Images] = []
        self.files: list[str] = []
        self.texts: list[str] = []
        self.vectors: list[list[float]] = []

    def add(self, x: Any, where: str) -> None:
        if x is None:
            return
        if isinstance(x, str):
            self.texts.append(x)
            return
        values = np.asarray(x.convert("RGB") if hasattr(x, "convert") else x)
        if values.ndim == 1 and values.dtype.kind in "iufb":
            self.vectors.append(values.astype(np.float64).tolist())
        elif not self.unwanted:
            self._add_picture(_picture(values, where), where)

    def _add_picture(self, picture: Images, where: str) -> None:
        differs = bool(self.pictures) and picture.shape != self.pictures[0].shape
        if self.folder is None and differs:
            self.folder = folder_for(None)
        if self.folder is None:
            self.pictures.append(picture)
            return
        for pending in (*self.pictures, picture):
            self.files.append(write_image(self.folder, png(pending), where))
        self.pictures = []

    def pixels(self) -> tuple[Values | None, Path | None]:
        if self.files:
            return np.asarray(self.files, np.str_), self.folder
        return np.stack(self.pictures) if self.pictures else None, None


def _picture(values: Values, where: str) -> Images:
    """An image as height × width × 3, uint8; channels may come first, as in tensors."""
    if values.ndim == 3 and values.shape[0] in (1, 3) and values.shape[2] not in (1, 3):
        values = values.transpose(1, 2, 0)
    if values.ndim == 2:
        values = values[:, :, None]
    if values.ndim != 3 or values.shape[2] not in (1, 3) or values.dtype.kind not in "uifb":
        raise ShiftBenchError(f"{where}: its input has shape {' × '.join(map(str, values.shape)) or '()'} "
                              f"({values.dtype}), which is neither an image of 1 or 3 channels, a text nor a vector.")
    if values.dtype.kind == "f":
        low, high = float(values.min(initial=0.0)), float(values.max(initial=0.0))
        if not (low >= 0 and high <= 1):
            raise ShiftBenchError(f"{where}: its image has values from {low:.3g} to {high:.3g}, but floating-point "
                                  "images go from 0 to 1. Remove the normalisation: dataset.transform = None.")
        values = np.rint(values * 255)
    elif values.size and (values.min() < 0 or values.max() > 255):
        raise ShiftBenchError(f"{where}: its image has values beyond 0 to 255.")
    return np.ascontiguousarray(np.broadcast_to(values.astype(np.uint8), (*values.shape[:2], 3)))
