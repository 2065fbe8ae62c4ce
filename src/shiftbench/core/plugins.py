"""A user's own code: Python files and packages that register metrics of their own, loaded once in every process.

What is loaded here is run, as any script that its user starts. Nothing is ever loaded that the user has not named.
"""

import sys
from collections.abc import Iterable
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from shiftbench.core.errors import ShiftBenchError

_LOADED: dict[str, str] = {}


def load_plugins(names: Iterable[str]) -> None:
    """Run files (`mine.py`) and import packages (`mine.metrics`) that register things under new names.

    What was loaded before is passed over. An error in a file names the file.
    """
    for name in names:
        file = Path(name)
        key = str(file.resolve()) if file.suffix == ".py" else name
        if key in _LOADED:
            continue
        try:
            if file.suffix == ".py":
                _run(file.resolve())
            else:
                import_module(name)
        except ShiftBenchError as problem:
            raise ShiftBenchError(f"{name}: {problem}") from problem
        except Exception as problem:  # anything may go wrong in a stranger's file, and the user is to read where
            raise ShiftBenchError(f"{name}: cannot be imported ({type(problem).__name__}: {problem}).") from problem
        _LOADED[key] = name


def loaded_plugins() -> tuple[str, ...]:
    """What this process has loaded, for another process to load."""
    return tuple(_LOADED)


def _run(file: Path) -> None:
    if not file.is_file():
        raise ShiftBenchError("there is no such file.")
    name = f"shiftbench_plugin_{len(_LOADED)}_{file.stem}"
    spec = spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
