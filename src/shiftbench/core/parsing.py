"""JSON and TOML from strangers: parsed within limits that no file of ours comes near, or refused in one line.

Python's parsers stop with three different exceptions at deep nesting and at long numbers, and what they let through may
stop whatever comes after: a number of more than 64 bits is in no array, half of a pair of code points in no file.
"""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from datetime import date, time
from typing import Any

from shiftbench.core.errors import ShiftBenchError

DEEPEST = 100
"""Lists and tables within each other."""
_LONG_NUMBER = re.compile(r"[0-9]{19}")
_HALF_PAIR = re.compile(r"\\u[dD][89a-fA-F]")
_CONTAINERS = {list, dict}


def parse_json(text: str, where: str) -> Any:
    """The content of a JSON text; `where` names its file in an error."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as problem:
        raise ShiftBenchError(f"{where}: not valid JSON, line {problem.lineno}: {problem.msg}.") from problem
    except RecursionError as problem:
        raise _too_deep(where) from problem
    except ValueError as problem:  # more digits than Python turns into a number
        raise _too_long(where) from problem
    odd = bool(_LONG_NUMBER.search(text) or _HALF_PAIR.search(text))
    if odd or text.count("[") + text.count("{") > DEEPEST:
        _check(value, where, odd)
    return value


def parse_toml(text: str, where: str) -> dict[str, Any]:
    """The content of a TOML text; `where` names its file in an error. Dates and times become their ISO text."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise ShiftBenchError(f"{where}: not valid TOML: {problem}.") from problem
    except RecursionError as problem:
        raise _too_deep(where) from problem
    except ValueError as problem:
        raise _too_long(where) from problem
    _check(tables, where, odd=True)
    return {key: _without_dates(value) for key, value in tables.items()}


def parse_value(text: str, where: str) -> Any:
    """One value as TOML writes it: 0.06, true, [1, 2], "text"; text without quotes is taken as it stands."""
    try:
        tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    except (RecursionError, ValueError):  # the same again says what is wrong
        pass
    return text if "\n" in text else parse_toml(f"value = {text}", where)["value"]


def to_toml(value: Any) -> str:
    """A value as TOML writes it, on one line: `parse_value` reads the same from it.

    >>> to_toml({"cat": ("sofa", 'a "big" bed'), "two words": 0.5})
    '{cat = ["sofa", "a \\\\"big\\\\" bed"], "two words" = 0.5}'
    """
    if isinstance(value, str):
        letters = {'"': '\\"', "\\": "\\\\"}
        return '"' + "".join(letters.get(sign) or (f"\\u{ord(sign):04x}" if ord(sign) < 32 or ord(sign) == 127 else
                                                   sign) for sign in value) + '"'
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{toml_key(key)} = {to_toml(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(to_toml, value)) + "]"
    return repr(float(value)) if isinstance(value, float) else str(value)


def toml_key(name: str) -> str:
    """A key as TOML writes it: bare where it may be, else in quotes."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else to_toml(name)


def parse_changes(pairs: Sequence[str]) -> dict[str, Any]:
    """`key=value` words from the command line; a value is read as TOML, else taken as text.

    >>> parse_changes(["p=0.06", "label=class", "classes=['cat', 'dog']"])
    {'p': 0.06, 'label': 'class', 'classes': ['cat', 'dog']}
    """
    changes: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise ShiftBenchError(f"'{pair}' is not a setting. Write --set key=value.")
        changes[key.strip()] = parse_value(value, f"--set {key.strip()}")
    return changes


def _check(value: Any, where: str, odd: bool) -> None:
    """Look at a tree layer by layer; at single values only where the text says that some may be `odd`."""
    layer = [value]
    for _ in range(DEEPEST + 1):
        below: list[Any] = []
        for one in layer:
            parts = one.values() if isinstance(one, dict) else one if isinstance(one, list) else [one]
            if odd:
                for part in (*one, *parts) if isinstance(one, dict) else parts:
                    _check_single(part, where)
            if not _CONTAINERS.isdisjoint(map(type, parts)):
                below += [part for part in parts if type(part) in _CONTAINERS]
        if not below:
            return
        layer = below
    raise _too_deep(where)


def _check_single(value: Any, where: str) -> None:
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise _too_long(where)
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as problem:
            raise ShiftBenchError(f"{where}: the text '{value[:40]}' holds half of a pair of code points, which is no "
                                  "character. Correct it.") from problem


def _without_dates(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_dates(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_without_dates(part) for part in value]
    return value.isoformat() if isinstance(value, date | time) else value


def _too_deep(where: str) -> ShiftBenchError:
    return ShiftBenchError(f"{where}: nested more than {DEEPEST} deep. No file that we read needs that.")


def _too_long(where: str) -> ShiftBenchError:
    return ShiftBenchError(f"{where}: holds a whole number of more than 64 bits. Write a smaller one, or a text.")
