"""TOML: recipes and studies, and the values behind `--set`, parsed within the limits of `core.files`."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from datetime import date, time
from pathlib import Path
from typing import Any

from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import check_limits, limit_error, read_text


def read_toml(path: Path | str) -> dict[str, Any]:
    """The content of a TOML file, or an error that names the file and the place."""
    return parse_toml(read_text(path), str(path))


def parse_toml(text: str, where: str) -> dict[str, Any]:
    """The content of a TOML text; an error names `where`. Dates and times become ISO text."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise ShiftBenchError(f"{where}: not valid TOML: {problem}.") from problem
    except (RecursionError, ValueError) as problem:
        raise limit_error(problem, where) from problem
    check_limits(tables, where)
    return {key: _without_dates(value) for key, value in tables.items()}


def parse_value(text: str, where: str) -> Any:
    """One value in TOML: 0.06, true, [1, 2], "text"; what is not valid TOML is text without quotes."""
    try:
        tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    except (RecursionError, ValueError):
        pass  # parse_toml says what is wrong
    return text if "\n" in text else parse_toml(f"value = {text}", where)["value"]


def parse_changes(pairs: Sequence[str]) -> dict[str, Any]:
    """The `key=value` words of the command line; a value is TOML, or text where it is not valid TOML.

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


def to_toml(value: Any) -> str:
    """A value in TOML on one line, from which `parse_value` reads the same value.

    >>> to_toml({"cat": ("sofa", 'a "big" bed'), "two words": 0.5})
    '{cat = ["sofa", "a \\\\"big\\\\" bed"], "two words" = 0.5}'
    """
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + re.sub("[\x00-\x1f\x7f]", lambda match: f"\\u{ord(match[0]):04x}", escaped) + '"'
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{toml_key(key)} = {to_toml(content)}" for key, content in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(to_toml, value)) + "]"
    return repr(float(value)) if isinstance(value, float) else str(value)


def toml_key(name: str) -> str:
    """A key in TOML: bare where TOML allows it, else in quotes."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else to_toml(name)


def _without_dates(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_dates(content) for key, content in value.items()}
    if isinstance(value, list):
        return [_without_dates(content) for content in value]
    return value.isoformat() if isinstance(value, date | time) else value
