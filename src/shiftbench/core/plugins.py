"""A user's own code: files and packages that register methods, shifts, readers, metrics, models and sections.

What is loaded here is run, as any script that its user starts. A file or package is loaded because the user named it
(`--import`, `import = [...]` in a study), a plug-in because the user installed its package: its entry point is in the
group `shiftbench.plugins`. Worker processes load what their driver has.
"""

import hashlib
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from shiftbench.core.errors import ShiftBenchError, first_line

GROUP = "shiftbench.plugins"
_LOADED: dict[str, None] = {}
"""What another process has to load, in order: what the user named, and whatever else has registered something."""
_TRIED: set[str] = set()
"""Groups of entry points that were loaded."""


def load_plugins(names: Iterable[str]) -> None:
    """Run files (`mine.py`) and import packages (`mine.methods`) that register things under new names.

    What this process has loaded before is passed over. An error names the file or package, and its line.
    """
    for name in names:
        file = Path(name).resolve() if name.endswith(".py") else None
        key = str(file) if file else name
        if key in _LOADED:
            continue
        try:
            if file is None:
                import_module(name)
            elif not _imported(file):
                _run(file)
        except (Exception, SystemExit) as problem:  # anything may go wrong in a stranger's file
            _LOADED.pop(key, None)
            known = isinstance(problem, ShiftBenchError)
            raise ShiftBenchError(f"{name}: {problem}" if known else
                                  f"{name}: cannot be imported ({_reason(problem)}).") from problem
        _LOADED[key] = None


def load_installed() -> None:
    """Import the plug-ins of installed packages, once. One that cannot be imported is a warning: work that does not
    need it goes on."""
    if GROUP in _TRIED:
        return
    _TRIED.add(GROUP)
    from importlib.metadata import entry_points  # takes as long to import as the rest of the command line

    for point in entry_points(group=GROUP):
        try:
            point.load()
        except (Exception, SystemExit) as problem:
            package = point.module if point.dist is None else point.dist.name
            warnings.warn(f"The plug-in of package '{package}' ({point.value}) cannot be loaded: "
                          f"{_reason(problem)}. What it registers is missing.", UserWarning, stacklevel=2)


def loaded_plugins() -> tuple[str, ...]:
    """The users' code that this process has loaded, for another process to load: files and modules."""
    return tuple(_LOADED)


def note_module(name: str) -> None:
    """Note that a module has registered something. A notebook cannot be loaded by another process, and is not noted."""
    key = _key(name)
    if key:
        _LOADED[key] = None


def import_name(module: str) -> str:
    """What `--import` is given for a module that has registered something, without its folder; empty for a notebook."""
    key = _key(module)
    return Path(key).name if key.endswith(".py") else key


def _key(name: str) -> str:
    """How another process loads a module: by its name, or by its file where it is in no package."""
    module = sys.modules.get(name)
    file, spec = getattr(module, "__file__", None), getattr(module, "__spec__", None)
    if file and spec is not None and spec.parent:
        return str(spec.name)
    return str(Path(file).resolve()) if file else ""


def _imported(file: Path) -> bool:
    """Whether a module of this file has been imported under some name, perhaps as the script that runs."""
    files = (getattr(module, "__file__", None) or "" for module in list(sys.modules.values()))
    return any(name.endswith(file.name) and Path(name).resolve() == file for name in files)


def _run(file: Path) -> None:
    if not file.is_file():
        raise ShiftBenchError("there is no such file.")
    _execute(file, f"shiftbench_plugin_{len(_LOADED)}_{file.stem}")


def _execute(file: Path, name: str) -> ModuleType:
    spec = spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    if str(file.parent) not in sys.path:
        sys.path.append(str(file.parent))  # it may import a file beside it, as a script may
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def function_of_file(name: str) -> Callable[..., Any]:
    """The function FILE.py:FUNCTION. The file is run as it is now, as a script that its user starts."""
    file, _, function = name.rpartition(":")
    path = Path(file).resolve()
    if not path.is_file():
        raise ShiftBenchError(f"{file}: there is no such file.")
    module = f"shiftbench_file_{hashlib.sha256(path.read_bytes()).hexdigest()[:12]}_{path.stem}"
    try:
        loaded = sys.modules[module] if module in sys.modules else _execute(path, module)
    except (Exception, SystemExit) as problem:  # anything may go wrong in a stranger's file
        raise ShiftBenchError(f"{file}: cannot be imported ({_reason(problem)}).") from problem
    thing: Callable[..., Any] | None = getattr(loaded, function, None)
    if not callable(thing):
        raise ShiftBenchError(f"{file}: has no function '{function}'.")
    return thing


def _reason(problem: BaseException) -> str:
    """An error in a few words, with the line of the user's code that raised it."""
    if isinstance(problem, ShiftBenchError):
        return str(problem).rstrip(".")
    frames = [frame for frame in traceback.extract_tb(problem.__traceback__)
              if not frame.filename.startswith(("<", str(Path(__file__).parent)))]
    where = f" in line {frames[-1].lineno} of {Path(frames[-1].filename).name}" if frames else ""
    return f"{type(problem).__name__}: {first_line(problem)}{where}"
