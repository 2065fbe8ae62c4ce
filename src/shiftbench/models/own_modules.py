"""Models of the user's own: a registered function, a function in a file, and a module or a function in memory."""

import copy
import hashlib
import re
from functools import cache, partial
from pathlib import Path

import torch
from torch import nn

from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.plugins import function_of_file, loaded_plugins
from shiftbench.models.names import OBJECT, Model, facts, library_of
from shiftbench.models.net import Net
from shiftbench.models.weights import file_digest, weights_digest
from shiftbench.models.wrapped import Builder, called, facts_of, own_class


def own_class_of(name: str) -> type[Net]:
    """The class of the nets of a user's model, by the name that a run has for it."""
    library, model = library_of(name), facts(name)
    if model.builder is not None:
        return _registered(name, model)
    return _of_file(name, file_digest(file_of(name))) if library == "file" else _of_object(name)


_OBJECTS: dict[str, Builder] = {}


@cache
def _of_object(name: str) -> type[Net]:
    if name not in _OBJECTS:
        raise ShiftBenchError(f"Model '{name}' was a module in memory, which this process does not have. Only the same "
                              "object resumes its run: sb.train(…, model=OBJECT).")
    return own_class(name, _OBJECTS[name], facts(name))


@cache
def _registered(name: str, model: Model) -> type[Net]:
    assert model.builder is not None
    return own_class(name, model.builder, model)


@cache
def _of_file(name: str, digest: str) -> type[Net]:
    """The nets of FILE.py:FUNCTION as the file is now."""
    return own_class(name, _function(name), facts(name))


def file_of(name: str) -> Path:
    path = Path(name.rpartition(":")[0]).resolve()
    if not path.is_file():
        raise ShiftBenchError(f"Model '{name}': there is no file {path}.")
    return path


_RUN: set[Path] = set()
"""Files that this process has run because its user named them as a model."""


def check_named(name: str, folder: Path) -> None:
    """Refuse to run a file that a folder of runs names, and not the user."""
    if library_of(name) == "file" and file_of(name) not in _RUN and str(file_of(name)) not in loaded_plugins():
        raise ShiftBenchError(f"{folder}: its model {name} is code, which is run only where you name it: --import "
                              f"{name.rpartition(':')[0]}.")


def _function(name: str) -> Builder:
    """The function that FILE.py:FUNCTION names."""
    _RUN.add(file_of(name))
    try:
        return function_of_file(name)
    except ShiftBenchError as problem:
        raise ShiftBenchError(f"Model '{name}': {problem}") from problem


def name_object(thing: nn.Module | Builder, n_classes: int, n_inputs: int = 0, takes: str = "images") -> str:
    """Enter a module, or a function that builds one, and give the name under which `build` finds it in this process.

    The name has a digest of its structure and weights; those of a function are drawn from one seed for that.
    """
    if isinstance(thing, nn.Module):
        module, label = thing, type(thing).__name__

        def builder(n_classes: int) -> nn.Module:
            return copy.deepcopy(thing).cpu()  # where every net is drawn and tried
    elif callable(thing):
        label = getattr(thing, "__name__", type(thing).__name__)
        builder = partial(thing)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            module = called(label, thing, n_classes, n_inputs)
    else:
        raise ShiftBenchError(f"model: {type(thing).__name__} is neither a name, nor an nn.Module, nor a function that "
                              "builds one for a number of classes. An estimator of scikit-learn is fitted by sb.fit.")
    known = {"takes": takes, **facts_of(thing)}
    for key, value in known.items():
        setattr(builder, key, value)
    structure = re.sub(r" at 0x[0-9a-f]+", "", repr(module))
    content = f"{isinstance(thing, nn.Module)}{known}{structure}{weights_digest(module)}"
    name = f"{OBJECT}:{label}@{hashlib.sha256(content.encode()).hexdigest()[:12]}"
    _OBJECTS[name] = builder
    return name
