"""Run a finished model on items and return its predictions: open it, map its classes to labels, go batch by batch."""

import os
import platform
import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from shiftbench.core.arrays import Floats, Strs, digest, encode, in_short
from shiftbench.core.backend import load_torch
from shiftbench.core.errors import Advance, Say, ShiftBenchError
from shiftbench.core.files import lock, read_json, write_json
from shiftbench.core.registry import function_of_file
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.prediction_forms import named_columns
from shiftbench.data.predictions import Predictions
from shiftbench.hierarchies.hierarchy import Hierarchy
from shiftbench.models.names import LIBRARIES
from shiftbench.predicting.class_names import ClassMap, by_position, map_classes
from shiftbench.predicting.classifier import (
    Ahead,
    Classifier,
    Options,
    file_identity,
    from_function,
    log_probabilities,
    meaning,
)

Scores = npt.NDArray[np.float32]
Compute = Callable[[int, int], npt.NDArray[Any]]
SCORES, FACTS = "scores.float32", "batches.json"
BATCH = 64
PICKLES = (".pkl", ".pickle", ".joblib", ".sav")
FORMS = ("timm:NAME, torchvision:NAME, hf:FOLDER, hf-nli:FOLDER, openclip:MODEL/WEIGHTS, a file model.onnx, a function "
         "FILE.py:FUNCTION, or the folder of a finished run")
PACKAGES = ("torch", "timm", "torchvision", "transformers", "open_clip_torch", "onnxruntime", "numpy", "pillow")
"""The packages that the last bits of an output depend on: batches of different versions are not mixed."""


@dataclass(frozen=True, eq=False)
class Request:
    """The items to predict, their splits, and the labels; without labels, the model's own classes are predicted."""

    collection: Collection
    items: Strs
    split: Strs
    labels: tuple[str, ...]
    numbers: bool = False  # the target is a number or several tasks: outputs are taken as they are
    class_map: Mapping[str, str] = field(default_factory=dict)
    hierarchy: Hierarchy | None = None
    allow_unmapped: bool = False

    @staticmethod
    def of(benchmark: Benchmark, collection: Collection, splits: Sequence[str] = (), **options: Any) -> "Request":
        """The items of a benchmark, or of some of its splits."""
        if benchmark.target.lists:
            raise ShiftBenchError(f"Benchmark '{benchmark.name}' asks for {benchmark.target.words}, a list per item. "
                                  "Write a file of predictions (docs/tasks.md).")
        for split in splits:
            if split not in benchmark.splits:
                raise ShiftBenchError(f"Benchmark '{benchmark.name}' has no split '{split}'. Its splits: "
                                      f"{', '.join(benchmark.splits)}.")
        rows = np.flatnonzero(np.isin(benchmark.split, splits or benchmark.splits))
        return Request(collection, benchmark.items[rows], benchmark.split[rows], benchmark.names["label"],
                    not benchmark.target.has_classes, **options)

    @staticmethod
    def of_collection(collection: Collection, label: str = "", **options: Any) -> "Request":
        """All items of a collection; the labels are the values of a factor, or the model's own classes."""
        labels = encode(collection.factor(label))[1] if label else ()
        return Request(collection, collection.items, np.full(len(collection), "", np.str_), labels, **options)


def check_out(file: Path, overwrite: bool) -> Path:
    """The file for predictions: of a format that is written, and not there yet unless it may be replaced."""
    if file.suffix not in (".parquet", ".csv"):
        raise ShiftBenchError(f"{file}: predictions are written to a file that ends in .parquet or .csv.")
    if file.exists() and not overwrite:
        raise ShiftBenchError(f"{file}: is there already. Name another file, or replace it with --overwrite.")
    return file


def predict(
    request: Request, model: Any, options: Options, *, classes: Sequence[str] = (), batch_size: int = 0,
    out: Path | None = None, progress: Advance | None = None,
    say: Say | None = None, show: Callable[[ClassMap], None] | None = None,
) -> Predictions:
    """Log-probabilities of the labels for every item of a request, or the numbers where the request is about numbers.

    With `out` they are written there, and finished batches are kept beside it until then. `show` is called with the map
    from classes to labels before the first batch. In batches of the same size the numbers repeat to the bit; another
    size may change the last bits, since a library may then add in another order.
    """
    if batch_size < 0:
        raise ShiftBenchError(f"batch_size is {batch_size}, but must be at least 1.")
    classifier = open_model(model, request, options)
    if classes:
        classifier = replace(classifier, classes=tuple(classes))
    n, size = len(request.items), min(batch_size or BATCH, len(request.items))
    with ThreadPoolExecutor(1) as pool:
        ahead = Ahead(pool, classifier.read, request.collection, request.collection.index(request.items), size)
        job = _begin(classifier, request, ahead)
        if job.table is not None:
            for line in job.table.notes():
                (say or _ignore)(line)
            (show or _ignore)(job.table)
        if out is None or not classifier.identity:
            scores = in_batches(job.compute, n, len(job.labels), size, progress or _ignore)
        else:
            scores = in_kept_batches(job.compute, n, len(job.labels), size, progress or _ignore, say or _ignore,
                                     folder=Path(f"{out}.batches"), facts=_facts(job, options))
    predictions = Predictions(request.items, request.split, scores, job.labels)
    if out is not None:
        predictions.save(out)
        shutil.rmtree(f"{out}.batches", ignore_errors=True)
    return predictions


def _ignore(*_: Any) -> None:
    """For a caller who wants no reports."""


@dataclass(frozen=True, eq=False)
class _Job:
    """A model after its first batch: the names and meaning of its outputs, and which labels they count for."""

    classifier: Classifier
    request: Request
    ahead: Ahead
    first: Floats  # outputs of the first batch
    names: tuple[str, ...]  # of their columns
    table: ClassMap | None = None  # None: numbers, taken as they are
    meaning: str = ""  # logits or probabilities

    @property
    def labels(self) -> tuple[str, ...]:
        return self.request.labels if self.table is None else self.table.labels

    def compute(self, start: int, stop: int) -> Floats:
        """The scores of the items from `start` to `stop`."""
        items = self.request.items[start:stop]
        outputs, names = (self.first, self.names) if start == 0 else self.classifier.outputs_of(
            self.ahead.batch(start), items)
        if names != self.names:
            raise ShiftBenchError(f"{self.classifier.name}: calls its columns {in_short(names)} from item '{items[0]}' "
                                  f"on, but {in_short(self.names)} before.")
        if self.table is None:
            return outputs
        return self.table.sum(log_probabilities(outputs, self.meaning, self.classifier.name, items))


def _begin(classifier: Classifier, request: Request, ahead: Ahead) -> _Job:
    """Run the first batch, which shows what the outputs are."""
    first, names = classifier.outputs_of(ahead.batch(0), request.items[:ahead.size])
    if names and not classifier.classes:
        classifier = replace(classifier, classes=names)
    if not request.numbers:
        table = class_map(classifier, first.shape[1], request)
        return _Job(classifier, request, ahead, first, names, table,
                    meaning(first, classifier.outputs, classifier.name, request.items))
    if len(names) > 1:
        columns = named_columns(classifier.name, names, None, request.labels)
        first, names = first[:, [columns.index(label) for label in request.labels]], request.labels
        classifier = replace(classifier, classes=request.labels)
    if first.shape[1] != len(request.labels):
        raise ShiftBenchError(f"{classifier.name}: has {first.shape[1]} outputs, but {len(request.labels)} numbers are "
                              f"asked for ({', '.join(request.labels)}).")
    return _Job(classifier, request, ahead, first, names)


def class_map(classifier: Classifier, n_outputs: int, request: Request) -> ClassMap:
    """From the model's classes to the request's labels; without labels each class is its own."""
    if not request.labels:
        names = classifier.classes or tuple(map(str, range(n_outputs)))
        if len(set(names)) < len(names):  # ImageNet has two cranes
            names = tuple(f"{name} [{code}]" if names.count(name) > 1 else name for code, name in enumerate(names))
        return ClassMap(names, names, np.arange(n_outputs), ("name",) * n_outputs)
    if not classifier.classes:
        return by_position(n_outputs, request.labels, classifier.name)
    return map_classes(classifier.classes, request.labels, model=classifier.name, class_map=request.class_map,
                       hierarchy=request.hierarchy, allow_unmapped=request.allow_unmapped)


def _facts(job: _Job, options: Options) -> dict[str, Any]:
    """All that the scores depend on."""
    versions = {}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    classifier, request, table = job.classifier, job.request, job.table
    return {"model": classifier.name, "identity": classifier.identity, "collection": request.collection.digest,
            "ids": digest({"items": request.items}), "outputs": job.meaning, "versions": versions,
            "machine": platform.machine(),
            "options": {key: list(value) if isinstance(value, tuple) else value
                        for key, value in vars(options).items()},
            "map": [] if table is None else [[*pair] for pair in zip(table.classes, table.code.tolist(), strict=True)],
            "labels": list(request.labels)}


# Opening a model

def open_model(model: Any, request: Request, options: Options) -> Classifier:
    """A model from what the user named: FORMS, or a function or module in memory."""
    if not isinstance(model, str | Path):
        return _in_memory(model, request, options)
    name, path = str(model), Path(model)
    library, _, address = name.partition(":")
    if path.suffix in PICKLES:
        raise ShiftBenchError(f"{name}: a pickle may hold any code, so it is not opened. Load it yourself in a "
                              "function, FILE.py:FUNCTION, or save the model as ONNX.")
    if path.suffix == ".onnx":
        from shiftbench.predicting.onnx_files import open_onnx

        return open_onnx(path, options)
    if library.endswith(".py") and address:
        return from_function(function_of_file(name), request.collection, options, name, file_identity(library))
    zero_shot = library in ("openclip", "hf-nli")
    if zero_shot and not request.labels:
        raise ShiftBenchError(f"{name}: a zero-shot model chooses among labels, and a collection has none. Name the "
                              "factor whose values they are: --label NAME.")
    if options.prompts and not zero_shot:
        raise ShiftBenchError(f"{name}: has classes of its own, so prompts have no use. They are for openclip: and "
                              "hf-nli:.")
    if zero_shot and address:
        torch_models = load_torch("shiftbench.predicting.torch_models")
        opener = torch_models.open_clip_model if library == "openclip" else torch_models.open_nli
        classifier: Classifier = opener(address, options, request.labels)
    elif library in LIBRARIES and address:
        classifier = load_torch("shiftbench.predicting.torch_models").open_library_model(name, options)
    elif (path / "run.json").is_file():
        classifier = load_torch("shiftbench.predicting.torch_models").open_run(path, options)
    else:
        raise ShiftBenchError(f"{name}: not a model that can be run. Name {FORMS}.")
    return classifier


def _in_memory(model: Any, request: Request, options: Options) -> Classifier:
    if not callable(model):
        raise ShiftBenchError(f"{type(model).__name__} is not a model: give a function of a batch, or name {FORMS}.")
    if hasattr(model, "state_dict") and hasattr(model, "eval"):
        classifier: Classifier = load_torch("shiftbench.predicting.torch_models").open_module(
            model, request.collection, options)
        return classifier
    return from_function(model, request.collection, options)


# Batch after batch

def in_batches(
    compute: Compute, n: int, width: int, size: int, progress: Advance, file: BinaryIO | None = None
) -> Scores:
    """compute(start, stop) of every batch of `size` items, n × width; a `file` has those before its position."""
    scores = np.empty((n, width), np.float32)
    done = 0 if file is None else file.tell() // (4 * width)
    if file is not None:
        scores[:done] = np.fromfile(file.name, np.float32, done * width).reshape(done, width)
    for start in range(done, n, size):
        stop = min(start + size, n)
        scores[start:stop] = compute(start, stop)
        if file is not None:
            file.write(scores[start:stop].tobytes())
            file.flush()
            os.fsync(file.fileno())
        progress(stop, n)
    return scores


def in_kept_batches(
    compute: Compute, n: int, width: int, size: int, progress: Advance, say: Say, *, folder: Path,
    facts: Mapping[str, Any],
) -> Scores:
    """The same; a killed process that is started again goes on with the batches in `folder`, and ends with the same
    bytes.

    `facts` describe all that the numbers depend on; batches of other facts are thrown away. A batch counts when it is
    whole in the file: what a killed process has written of its last one is written again.
    """
    expected = {**facts, "items": n, "width": width, "batch_size": size}
    folder.mkdir(parents=True, exist_ok=True)
    with lock(folder / "lock") as locked:
        if not locked:
            raise ShiftBenchError(f"{folder}: another process is writing these predictions. Wait for it, or end it.")
        if (folder / FACTS).is_file() and read_json(folder / FACTS) != expected:
            (folder / SCORES).unlink(missing_ok=True)
            say(f"{folder} has batches of another model or other settings: starting again")
        write_json(folder / FACTS, expected)
        with (folder / SCORES).open("ab") as file:
            done = min(file.tell() // (4 * width), n)
            done -= 0 if done == n else done % size
            file.seek(file.truncate(done * 4 * width))
            if done:
                say(f"{done:,} of {n:,} items were predicted before; going on")
            return in_batches(compute, n, width, size, progress, file)
