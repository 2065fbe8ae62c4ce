"""ONNX files: the input's type, shape and layout come from the file, normalisation from the user."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from shiftbench.core.errors import ShiftBenchError, first_line
from shiftbench.predicting.class_names import class_list
from shiftbench.predicting.classifier import (
    Classifier,
    Options,
    Read,
    file_identity,
    read_arrays,
    read_columns,
    read_texts,
)

SIDE = 224
"""Pixels per side where neither the file nor the user sets the size."""
NUMBERS = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16,
           "tensor(uint8)": np.uint8}
CLASS_KEYS = ("classes", "labels", "class_names", "names")
"""Entries of a file's metadata under which exporters keep a JSON list of the names of classes."""


def open_onnx(path: Path, options: Options) -> Classifier:
    """A model that takes images (N × 3 × H × W or N × H × W × 3), texts (strings) or columns (N × D).

    Images are squeezed to the file's height and width. A pixel is from 0 to 1 before `mean` and `std`, or a whole
    number from 0 to 255 where the file takes uint8.
    """
    try:
        import onnxruntime
    except ImportError as problem:
        raise ShiftBenchError(f"{path}: needs the package onnxruntime. Install it with: "
                              'pip install "shiftbench[onnx]"') from problem
    if not path.is_file():
        raise ShiftBenchError(f"{path}: no such file.")
    providers = ["CPUExecutionProvider"]
    if options.device != "cpu" and "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        providers.insert(0, "CUDAExecutionProvider")
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4  # its errors are raised, and reported in one line
    settings.use_deterministic_compute = True
    try:
        session = onnxruntime.InferenceSession(str(path), settings, providers=providers)
    except Exception as problem:  # the package has many exceptions of its own
        raise ShiftBenchError(f"{path}: not a model that onnxruntime reads ({first_line(problem)[:200]}).") from problem
    inputs = session.get_inputs()
    if len(inputs) != 1:
        names = ", ".join(entry.name for entry in inputs)
        raise ShiftBenchError(f"{path}: has {len(inputs)} inputs ({names}), but one is filled. Wrap it in a "
                              "function: --model my_file.py:function.")
    outputs = [entry for entry in session.get_outputs() if entry.type in NUMBERS and len(entry.shape) == 2]
    if not outputs:
        types = ", ".join(f"{entry.name}: {entry.type}" for entry in session.get_outputs())
        raise ShiftBenchError(f"{path}: has no output of numbers, items × classes ({types}). Export it with one; of "
                              "scikit-learn with the option zipmap=False.")
    (entry,), answer = inputs, outputs[0].name
    read, prepare = _input(path, entry, options)
    fixed = entry.shape[0] if entry.shape and isinstance(entry.shape[0], int) else 0

    def classify(batch: Any) -> Any:
        values = prepare(batch)
        size, outputs = fixed or len(values), []
        for start in range(0, len(values), size):  # a file with a fixed number of items gets as many, the last repeated
            inputs = values[start:start + size]
            padded = np.concatenate([inputs, np.repeat(inputs[-1:], size - len(inputs), axis=0)])
            outputs.append(session.run([answer], {entry.name: padded})[0][:len(inputs)])
        return np.concatenate(outputs)

    return Classifier(str(path), read, classify, _classes(session.get_modelmeta().custom_metadata_map),
                      options.outputs, file_identity(path))


def _input(path: Path, entry: Any, options: Options) -> tuple[Read, Any]:
    """What the input reads from the items, and how a batch of it becomes the input's array."""
    shape = entry.shape
    if entry.type == "tensor(string)" and len(shape) in (1, 2):
        return read_texts, lambda texts: np.asarray(texts, np.object_).reshape(-1, *([1] if len(shape) == 2 else []))
    if entry.type not in NUMBERS or len(shape) not in (2, 4):
        raise ShiftBenchError(f"{path}: its input '{entry.name}' is {entry.type} of shape {shape}, but images, N × 3 × "
                              "H × W, columns, N × D, or texts can be given. Wrap it in a function: --model "
                              "my_file.py:function.")
    dtype = NUMBERS[entry.type]
    if len(shape) == 2:
        return read_columns, lambda columns: np.asarray(columns, dtype)
    last = shape[3] == 3 and shape[1] != 3
    sides = [side for side in (shape[1:3] if last else shape[2:4]) if isinstance(side, int)]
    size = sides[0] if sides else options.size or SIDE
    if len(set(sides)) > 1 or (options.size and options.size != size):
        raise ShiftBenchError(f"{path}: its input '{entry.name}' has shape {shape}, so that images cannot be squeezed "
                              f"to {options.size or 'a square'}. Wrap it in a function: --model my_file.py:function.")
    mean, std = np.asarray(options.mean or (0.0,), np.float32), np.asarray(options.std or (1.0,), np.float32)
    if dtype == np.uint8 and (options.mean or options.std):
        raise ShiftBenchError(f"{path}: takes whole numbers from 0 to 255, so mean and std have no use.")

    def prepare(pixels: Any) -> Any:
        values = pixels if dtype == np.uint8 else ((pixels.astype(np.float32) / 255 - mean) / std).astype(dtype)
        return np.ascontiguousarray(values if last else values.transpose(0, 3, 1, 2))

    return read_arrays(size), prepare


def _classes(facts: dict[str, str]) -> tuple[str, ...]:
    """The names of classes in a file's metadata, where there is a JSON list of them."""
    for key in CLASS_KEYS:
        with suppress(ValueError):
            if (names := class_list(json.loads(facts.get(key, "")))) is not None:
                return names
    return ()
