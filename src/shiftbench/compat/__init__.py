"""The interfaces of other packages: run a script that was written for one, with ours in place of its modules."""

import runpy
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

from shiftbench.core.errors import ShiftBenchError

Modules = Mapping[str, Mapping[str, object]]
Use = Mapping[str, Path]
AGAIN = """from pathlib import Path
from {module} import {name}
from shiftbench.compat import install
install({name}({{key: Path(folder) for key, folder in {use!r}.items()}}))
"""


@contextmanager
def answering(modules: Modules) -> Iterator[None]:
    """Make imports of these modules find ours, and only ours below them; restore the imports at the end."""
    def covered() -> list[str]:
        return [name for name in sys.modules if any(f"{name}.".startswith(f"{root}.") for root in modules)]

    before = {name: sys.modules.pop(name) for name in covered()}
    install(modules)
    try:
        yield
    finally:
        for name in covered():
            del sys.modules[name]
        sys.modules.update(before)


def install(modules: Modules) -> None:
    """Put modules of these names and contents where imports find them."""
    for name, names in modules.items():
        ours = ModuleType(name, "Answered by shiftbench.")
        ours.__dict__.update(names)
        ours.__path__ = []  # a package, in which nothing else is found
        ours.__spec__ = ModuleSpec(name, None, is_package=True)
        sys.modules[name] = ours
        parent, _, child = name.rpartition(".")
        if parent in modules and child not in modules[parent]:  # `wilds.get_dataset` is the function, as in the package
            setattr(sys.modules[parent], child, ours)


def run_script(script: Path | str, arguments: Sequence[str], modules: Modules) -> dict[str, object]:
    """Run a script as `python SCRIPT ARGUMENTS…` does, with these modules, and return its globals."""
    if not Path(script).is_file():
        raise ShiftBenchError(f"{script}: there is no such script.")
    argv, path = sys.argv, list(sys.path)
    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(Path(script).resolve().parent))
    try:
        with answering(modules):
            return runpy.run_path(str(script), run_name="__main__")
    finally:
        sys.argv, sys.path[:] = argv, path


def main(modules_for: Callable[[Use], Modules]) -> None:
    """`[--use NAME=FOLDER]… SCRIPT ARGS…`; everything after SCRIPT belongs to the script."""
    arguments, use = sys.argv[1:], dict[str, Path]()
    while arguments and arguments[0].startswith("-"):
        name, _, folder = (arguments[1] if len(arguments) > 1 else "").partition("=")
        if arguments[0] != "--use" or not name or not folder:
            break
        use[name] = Path(folder)
        arguments = arguments[2:]
    if not arguments or arguments[0].startswith("-"):
        raise SystemExit("usage: [--use NAME=FOLDER]… SCRIPT ARGS…")
    try:
        modules = modules_for(use)
        with TemporaryDirectory() as stand_ins:
            # a worker that a loader spawns imports the script again, and searches the same path as this process
            for root in (name for name in modules if "." not in name):
                Path(stand_ins, f"{root}.py").write_text(AGAIN.format(
                    module=modules_for.__module__, name=modules_for.__name__,
                    use={key: str(folder.resolve()) for key, folder in use.items()}))
            sys.path.insert(0, stand_ins)
            try:
                run_script(arguments[0], arguments[1:], modules)
            finally:
                sys.path.remove(stand_ins)
    except ShiftBenchError as problem:
        raise SystemExit(str(problem)) from problem
