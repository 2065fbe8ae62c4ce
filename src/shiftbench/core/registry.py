"""Tables of named things (methods, shifts, readers, metrics, models, sections) and how settings become one of them.

Our own things and those of users are in one table each, and everything reads that table. A field of a dataclass is its
default, its type, its help text and its legal key. `make` checks a mapping of settings against the fields: an unknown
key or a value of the wrong type is an error that names the key and what is allowed. Plug-ins fill the tables too.
"""

import hashlib
import inspect
import sys
import traceback
import types
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import MISSING, fields
from datetime import date
from functools import cache
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from shiftbench.core.errors import ShiftBenchError, first_line, unknown

T = TypeVar("T")
_hints = cache(get_type_hints)
"""Reading a class's types takes longer than making one of it, and a study makes thousands."""


class Owner(NamedTuple):
    """Where a registered class or function comes from: its name, and the module that registered it."""

    module: str
    name: str  # qualified: a class inside another has both names
    file: str  # empty in a notebook or an interactive session
    code: str = ""  # digest of a user's code, where it can be read

    @staticmethod
    def of(thing: Any, module: str = "") -> "Owner":
        module = module or str(getattr(thing, "__module__", ""))
        name = str(getattr(thing, "__qualname__", type(thing).__qualname__))
        owner = Owner(module, name, getattr(sys.modules.get(module), "__file__", None) or "")
        return owner if owner.ours else owner._replace(code=_code_digest(thing))

    def __str__(self) -> str:
        return f"{self.name} of module {self.module} ({self.file or 'this session'})"

    @property
    def ours(self) -> bool:
        return self.module.startswith("shiftbench.")

    def replaces(self, other: "Owner") -> bool:
        """Whether this is the same thing once more: a file that is loaded again, or a cell of a notebook."""
        if not self.file:
            return not other.file and self.module == other.module
        return (self.file, self.name) == (other.file, other.name)


class Registry(dict[str, T]):
    """A table of named things. A name that is not in it is looked for in installed plug-ins, which are then loaded.

    Whoever shows a list of the names calls `load_installed` first.
    """

    def __init__(self, entries: Mapping[str, T] | Iterable[tuple[str, T]] = ()) -> None:
        super().__init__(entries)
        self.owners: dict[str, Owner] = {}  # of what `register` has entered

    def owner(self, name: str) -> Owner:
        return self.owners.get(name) or Owner.of(self[name])

    def __missing__(self, name: str) -> T:
        if name in self:
            return self[name]
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        if not dict.__contains__(self, name):
            load_installed()
        return dict.__contains__(self, name)

    def get(self, name: str, default: Any = None) -> Any:
        return dict.__getitem__(self, name) if name in self else default


def register(table: Registry[Any], name: str, owner: Owner | None = None) -> Callable[[T], T]:
    """Enter a class or function into a table under a name that is still free.

    The name stays free for the same class of the same file, and for anything of the same notebook: a cell may be run
    again. `owner` says who enters it, where that is not the module of the thing itself.
    """

    def enter(thing: T) -> T:
        new = owner or Owner.of(thing)
        if dict.__contains__(table, name) and not new.replaces(table.owner(name)):
            raise ShiftBenchError(f"The name '{name}' of {new} is taken by {table.owner(name)}. Choose another.")
        table[name] = thing
        table.owners[name] = new
        if not new.ours:
            note_module(new.module)
        if isinstance(thing, type):
            thing.name = name  # type: ignore[attr-defined]
        return thing

    return enter


def _code_digest(thing: Any) -> str:
    """Of the source of a function, or of a class's own functions: its fields are settings, which a run states."""
    parts = [part for part in vars(thing).values() if isinstance(part, types.FunctionType)] if isinstance(
        thing, type) else [thing]
    try:
        source = "".join(inspect.getsource(part) for part in parts if not part.__name__.startswith("__"))
    except (OSError, TypeError):
        return ""
    return hashlib.sha256(source.encode()).hexdigest()[:16] if source else ""


def listed(words: str | Iterable[str], between: str = "") -> tuple[str, ...]:
    """Words where a list is meant: a string is one word, or several with `between` between them, never its letters.

    >>> listed("west"), listed("age, debt", ","), listed(["a", "b"]), listed("")
    (('west',), ('age', 'debt'), ('a', 'b'), ())
    """
    if not isinstance(words, str):
        return tuple(words)
    parts = words.split(between) if between else [words]
    return tuple(part.strip() for part in parts if part.strip())


class Lists:
    """Settings of which a list of words may be given as one word: Unseen(…, unseen="west") means ("west",).

    A dataclass inherits it. Without it a string would be taken for the list of its letters.
    """

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            value, hint = getattr(self, field.name), field.type
            if _is_words(hint) and isinstance(value, str):
                object.__setattr__(self, field.name, listed(value))
            elif get_origin(hint) is Mapping and _is_words(get_args(hint)[1]) and isinstance(value, Mapping):
                object.__setattr__(self, field.name, {name: listed(words) for name, words in value.items()})


def _is_words(hint: Any) -> bool:
    """Whether a field holds words: tuple[str, ...]."""
    return get_origin(hint) is tuple and get_args(hint)[0] is str


def find(table: Mapping[str, T], kind: str, name: str) -> T:
    """The entry of that name, or an error with the nearest known one."""
    if name not in table:
        raise unknown(kind, name, table)
    return table[name]


def make(cls: type[T], settings: Mapping[str, Any], where: str) -> T:
    """Build a dataclass from settings; `where` names the file or the call in an error."""
    hints = _hints(cls)  # type: ignore[arg-type]
    known = {field.name: field for field in fields(cls) if field.init}  # type: ignore[arg-type]
    for key in settings:
        if key not in known:
            raise unknown("setting", key, known, where)
    for key, field in known.items():
        if key not in settings and field.default is MISSING and field.default_factory is MISSING:
            raise ShiftBenchError(f"{where}: '{key}' is missing. It has no default, so it must be given.")
    return cls(**{key: _cast(value, hints[key], key, where) for key, value in settings.items()})


def _cast(value: Any, hint: Any, key: str, where: str) -> Any:
    """The value as the type the field declares; whole numbers pass as floats, lists as tuples."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        for option in get_args(hint):
            try:
                return _cast(value, option, key, where)
            except ShiftBenchError:
                continue
        raise _mismatch(value, hint, key, where)
    if hint is Any:
        return value
    if hint is None or hint is type(None):
        if value is None:
            return None
    elif hint is float:
        if isinstance(value, int | float) and not isinstance(value, bool):
            with suppress(OverflowError):
                return float(value)
    elif hint is int:
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    elif hint in (str, bool):
        if isinstance(value, hint):
            return value
        if hint is str and isinstance(value, date):  # TOML has dates; ours are ISO text
            return value.isoformat()
    elif origin is tuple:
        if isinstance(value, str) and _is_words(hint):
            return listed(value)
        if isinstance(value, list | tuple):
            return tuple(_cast(part, get_args(hint)[0], key, where) for part in value)
    elif isinstance(origin, type) and issubclass(origin, Mapping):
        if isinstance(value, Mapping):
            return {str(name): _cast(part, get_args(hint)[1], f"{key}.{name}", where) for name, part in value.items()}
    elif isinstance(value, hint):
        return value
    raise _mismatch(value, hint, key, where)


def _mismatch(value: Any, hint: Any, key: str, where: str) -> ShiftBenchError:
    wanted = hint.__name__ if isinstance(hint, type) and get_origin(hint) is None else str(hint).replace("typing.", "")
    return ShiftBenchError(f"{where}: '{key}' is {value!r}, but it must be of type {wanted}.")


# Plug-ins: files and packages of a user that register things. Loading one runs it, as any script that its user starts:
# a file or package is loaded because the user named it (`--import`, `import = [...]` in a study), an installed one
# because its entry point is in the group below. Worker processes load what their driver has loaded.

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
                if not file.is_file():
                    raise ShiftBenchError("there is no such file.")
                _execute(file, f"shiftbench_plugin_{len(_LOADED)}_{file.stem}")
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
