"""A finished model as `predict` runs it: what it reads from items, its outputs for a batch, and what they mean."""

import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL.Image import Image

from shiftbench.core.arrays import Floats, Ints, Strs
from shiftbench.core.errors import ShiftBenchError, first_line
from shiftbench.data.collection import Collection
from shiftbench.data.item_table import features
from shiftbench.data.prediction_forms import are_counted, columns_of
from shiftbench.data.predictions import BELOW, sum_to_one
from shiftbench.images.decode import images, pictures

LOGITS, PROBABILITIES, AUTO = "logits", "probabilities", "auto"
OUTPUTS = (AUTO, LOGITS, PROBABILITIES)
TAKES = ("images", "texts", "columns")
"""What a model may take; by default the first of these that the collection has."""

Read = Callable[[Collection, Ints], Any]


@dataclass(frozen=True)
class Options:
    """How a model is run, where it does not specify that itself."""

    prompts: tuple[str, ...] = ()  # templates of zero-shot models, with {} for the label
    weights: str = ""  # a file of weights, for nets that are named without them
    takes: str = ""  # of TAKES
    size: int = 0  # pixels per side
    mean: tuple[float, ...] = ()  # of the channels, where a pixel is from 0 to 1
    std: tuple[float, ...] = ()
    outputs: str = AUTO
    device: str = "auto"

    def __post_init__(self) -> None:
        if self.outputs not in OUTPUTS:
            raise ShiftBenchError(f"outputs is '{self.outputs}', but must be one of {', '.join(OUTPUTS)}.")
        if self.takes and self.takes not in TAKES:
            raise ShiftBenchError(f"takes is '{self.takes}', but must be one of {', '.join(TAKES)}.")
        if self.size and not 8 <= self.size <= 4096:
            raise ShiftBenchError(f"size is {self.size}, but images have 8 to 4096 pixels per side.")
        for name, values in (("mean", self.mean), ("std", self.std)):
            if len(values) not in (0, 1, 3) or (name == "std" and min(values, default=1) <= 0):
                raise ShiftBenchError(f"{name} is {', '.join(map(str, values))}, but needs one number or one per "
                                      f"channel{', above 0' if name == 'std' else ''}: 0.485,0.456,0.406.")
        for prompt in self.prompts:
            if prompt.count("{}") != 1:
                raise ShiftBenchError(f"prompt: '{prompt}' must have {{}} once, where the label stands, as in 'a photo "
                                      f"of a {{}}'.")


def channels(values: str | float | Sequence[float], name: str) -> tuple[float, ...]:
    """Numbers of the channels, as numbers or as text with commas between them."""
    entries = values.split(",") if isinstance(values, str) else [values] if isinstance(values, int | float) else values
    try:
        return tuple(float(entry) for entry in entries if str(entry).strip())
    except (TypeError, ValueError) as problem:
        raise ShiftBenchError(f"{name} is '{values}', but must be numbers: 0.485,0.456,0.406.") from problem


class Ahead:
    """Reads the batch after the one that is asked for, so that images are decoded while a model computes."""

    def __init__(self, pool: Executor, read: Read, collection: Collection, rows: Ints, size: int) -> None:
        self.work = lambda start: read(collection, rows[start:start + size])
        self.pool, self.size, self.n = pool, size, len(rows)
        self.next: tuple[int, Future[Any]] | None = None

    def batch(self, start: int) -> Any:
        pending, self.next = self.next, None
        batch = pending[1].result() if pending is not None and pending[0] == start else self.work(start)
        if start + self.size < self.n:
            self.next = start + self.size, self.pool.submit(self.work, start + self.size)
        return batch


@dataclass(frozen=True, eq=False)
class Classifier:
    """`classify(read(collection, rows))` are the outputs, items × classes.

    `classes` names the outputs; without names they are the labels in their order. `identity` identifies all that the
    outputs depend on; a model in memory has none, so its finished batches are not kept.
    """

    name: str
    read: Read
    classify: Callable[[Any], Any]
    classes: tuple[str, ...] = ()
    outputs: str = LOGITS
    identity: str = ""

    def outputs_of(self, batch: Any, items: Strs) -> tuple[Floats, tuple[str, ...]]:
        """The outputs for a batch of these items, checked to be a table of numbers with a row for each, and the column
        names of a data frame of them. Columns named after the classes are put into the order of the classes.
        """
        try:
            values, columns = columns_of(self.classify(batch), self.name)
            numbers = np.asarray(values, np.float64)
        except ShiftBenchError:
            raise
        except Exception as problem:  # a user's model may raise anything
            raise ShiftBenchError(f"{self.name}: fails on the batch of {len(items)} items from '{items[0]}' on "
                                  f"({type(problem).__name__}: {first_line(problem)}).") from problem
        if numbers.ndim == 1 and len(numbers) == len(items):
            numbers = numbers[:, None]
        if numbers.ndim != 2 or len(numbers) != len(items):
            raise ShiftBenchError(f"{self.name}: gives an array of shape {numbers.shape} for {len(items)} items, but a "
                                  "row of numbers per item is needed.")
        if self.classes and numbers.shape[1] != len(self.classes):
            raise ShiftBenchError(f"{self.name}: has {numbers.shape[1]} outputs, but {len(self.classes)} classes are "
                                  "named. Name each output once.")
        for row in np.flatnonzero((np.isnan(numbers) | np.isposinf(numbers)).any(axis=1))[:1]:
            raise ShiftBenchError(f"{self.name}: gives a number that is not finite for item '{items[row]}'.")
        names = () if are_counted(columns) and set(map(str, columns)) != set(self.classes) else tuple(map(str, columns))
        if self.classes and sorted(names) == sorted(self.classes) and len(set(names)) == len(names):
            return numbers[:, [names.index(name) for name in self.classes]], self.classes
        return numbers, names


def meaning(values: Floats, outputs: str, name: str, items: Strs) -> str:
    """Whether outputs are logits or probabilities: as asked for, else by the first batch.

    Rows from 0 to 1 that sum to 1 are probabilities; rows from 0 to 1 that do not are refused, since they may be
    either.
    """
    if outputs != AUTO:
        return outputs
    if (values < 0).any() or (values > 1 + 1e-6).any():
        return LOGITS
    for row in np.flatnonzero(~sum_to_one(values))[:1]:
        raise ShiftBenchError(f"{name}: its outputs lie between 0 and 1, but those of item '{items[row]}' sum to "
                              f"{values[row].sum():.4g}. Say what they are with --outputs logits or --outputs "
                              "probabilities.")
    return PROBABILITIES


def log_probabilities(values: Floats, outputs: str, name: str, items: Strs) -> Floats:
    """Logits or probabilities, items × classes, as log-probabilities."""
    if outputs == PROBABILITIES:
        for row in np.flatnonzero((values < BELOW).any(axis=1))[:1]:
            raise ShiftBenchError(f"{name}: a probability of item '{items[row]}' is {values[row].min():g}. "
                                  "Probabilities are from 0 to 1; say --outputs logits where they are logits.")
        for row in np.flatnonzero(~sum_to_one(values))[:1]:
            raise ShiftBenchError(f"{name}: the probabilities of item '{items[row]}' sum to {values[row].sum():.4g}, "
                                  "not to 1. Say --outputs logits where they are logits.")
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(values.clip(0)))
    top = values.max(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        return np.asarray(values - top - np.log(np.exp(values - top).sum(axis=1, keepdims=True)))


# What a model reads from the items

def read_pictures(work: Callable[[Image], Any]) -> Read:
    """Each image in its own size, through a transform of the model's library."""
    return lambda collection, rows: pictures(collection, rows, work)


def read_arrays(size: int = 0) -> Read:
    """Images as one uint8 array, N × H × W × 3."""
    return lambda collection, rows: images(collection, rows, size or None)


def read_texts(collection: Collection, rows: Ints) -> list[str]:
    return collection.first_texts(rows)


def read_columns(collection: Collection, rows: Ints) -> Floats:
    """The columns of features of a table, N × D."""
    names, values = features(collection)
    if not names:
        raise ShiftBenchError(f"Collection '{collection.name}' has no columns of features. Name them when it is read: "
                              "shiftbench read table … --features age,dose.")
    return values[rows]


def reader_for(collection: Collection, takes: str, size: int) -> Read:
    """What a function gets: what `takes` says, else images where there are some, else texts, else columns."""
    available = {"images": collection.pixels is not None, "texts": len(collection.texts.text) > 0, "columns": True}
    takes = takes or next(modality for modality in TAKES if available[modality])
    return {"images": read_arrays(size), "texts": read_texts, "columns": read_columns}[takes]


# A function of the user's own

def from_function(
    function: Callable[[Any], Any], collection: Collection, options: Options, name: str = "", identity: str = ""
) -> Classifier:
    """A function of a batch: a uint8 array of images, N × H × W × 3, a list of texts, or an array of columns, N × D.

    It returns N × classes logits or probabilities. Its attribute `classes` (or `classes_`) names them, or the columns
    of the data frame that it returns.
    """
    attributes = (getattr(function, attribute, None) for attribute in ("classes", "classes_"))
    classes: Sequence[Any] = next((names for names in attributes if names is not None), ())
    return Classifier(name or getattr(function, "__name__", type(function).__name__),
                      reader_for(collection, options.takes, options.size), function,
                      tuple(map(str, classes)), options.outputs, identity)


def file_identity(*paths: Path | str) -> str:
    """A digest of files that make up a model."""
    total = hashlib.sha256()
    for path in paths:
        total.update(Path(path).read_bytes())
    return total.hexdigest()
