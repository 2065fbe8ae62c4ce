"""Tables of named things (shifts, methods, models, readers) and how settings become one of them.

A field of a dataclass is its default, its type, its help text and its legal key. `make` checks a mapping of settings
against the fields: an unknown key or a value of the wrong type is an error that names the key and what is allowed.
"""

import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields
from datetime import date
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from shiftbench.core.errors import ShiftBenchError, unknown

T = TypeVar("T")
_hints = cache(get_type_hints)
"""Reading a class's types takes longer than making one of it, and a study makes thousands."""


def register(table: dict[str, Any], name: str) -> Callable[[T], T]:
    """Enter a class or function into a table under a name that is still free."""

    def enter(thing: T) -> T:
        if name in table:
            raise ShiftBenchError(f"The name '{name}' is taken by {table[name]!r}. Choose another.")
        table[name] = thing
        if isinstance(thing, type):
            thing.name = name  # type: ignore[attr-defined]
        return thing

    return enter


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
