"""The arguments of every view: the state from its URL, and the studio with its shelf, memory and books."""

import shlex
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlencode

import msgspec

from shiftbench.auditing.predicates import Predicate
from shiftbench.core.errors import ShiftBenchError
from shiftbench.webapp.looks import Books
from shiftbench.webapp.shelf import Memory, Shelf

T = TypeVar("T")


# The state that a URL asks for

VIEWS = ("home", "collection", "graph", "design", "runs", "compare", "failures")
"""The pages, by their names in the address."""


def request(name: str, /, **state: str) -> str:
    """The request for a view in a state, as the page writes it: see `request` of answers.js.

    >>> request("items", where="", on="a b~", at="120")
    'items?at=120&on=a+b%7E'
    """
    encoded = urlencode(sorted((key, value) for key, value in state.items() if value)).replace("~", "%7E")
    return f"{name}?{encoded.replace('%2A', '*')}" if encoded else name


class Query(Mapping[str, str]):
    """The parameters of a request. A wrong one is an error that names it."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def text(self, name: str, default: str = "") -> str:
        return self._values.get(name, default)

    def whole(self, name: str, default: int, low: int = 0, high: int = 10**9) -> int:
        """A whole number, clipped to two limits."""
        return max(low, min(high, int(self.number(name, default))))

    def number(self, name: str, default: float) -> float:
        text = self._values.get(name, "")
        if not text:
            return default
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if value != value or value in (float("inf"), float("-inf")):
            raise ShiftBenchError(f"'{name}' is '{text}', but it must be a number.")
        return value

    def names(self, name: str) -> list[str]:
        """A JSON list of names; empty if it is missing."""
        return self._json(name, list[str], [])

    def table(self, name: str) -> dict[str, Any]:
        """A JSON object; empty if it is missing."""
        return self._json(name, dict[str, Any], {})

    def tables(self, name: str) -> dict[str, dict[str, Any] | None]:
        """A JSON object of objects; None for one that is removed."""
        return self._json(name, dict[str, dict[str, Any] | None], {})

    def where(self, name: str = "where") -> tuple[Predicate, ...]:
        """A filter: a JSON list of predicates, all of which an item must fulfil, in the words of an audit."""
        return tuple(self._json(name, list[Predicate], []))

    def _json(self, name: str, shape: type[T], default: T) -> T:
        text = self._values.get(name, "")
        if not text:
            return default
        try:
            return msgspec.json.decode(text, type=shape)
        except (msgspec.DecodeError, UnicodeEncodeError) as problem:
            raise ShiftBenchError(f"'{name}' cannot be read ({problem}). It is JSON, as the studio writes it."
                                  ) from problem


# The studio, and what a view returns

REMEMBERED = 64
"""Results that stay in memory: meta-graphs with their layouts, values of factors."""


@dataclass(frozen=True, eq=False)
class Studio:
    """A running studio. It is read-only unless `edit`; then recipes and views are saved below its first folder."""

    shelf: Shelf
    edit: bool = False
    _memory: Memory = field(default_factory=lambda: Memory(REMEMBERED), init=False, repr=False)

    def once(self, key: Hashable, compute: Callable[[], T]) -> T:
        """The result of `compute`, from memory if it has this key, which names everything the result depends on."""
        return self._memory.get(key, compute)

    @cached_property
    def books(self) -> Books:
        """The record of looks, of sealed items, and of what was confirmed on them."""
        return Books.of(self.shelf.folders[0], self.edit)

    def command(self, name: str, /, **state: str) -> str:
        """The command that prints an answer, for views that no verb prints."""
        return shlex.join(["shiftbench", "studio", *map(str, self.shelf.folders), "--print", request(name, **state)])

    def folder_for(self, kind: str) -> Path:
        """The folder into which a view saves: recipes, benchmarks, audits or views, below the studio's own."""
        if not self.edit:
            raise ShiftBenchError("The studio is read-only. Start it with --edit to save here, or copy the text.")
        return self.shelf.folders[0] / kind


class Content(NamedTuple):
    """An answer that is not plain data: a picture, or columns of numbers."""

    body: bytes
    type: str = "application/octet-stream"
    changes: bool = True  # False: a browser may keep it


Answer = Callable[[Studio, Query], Mapping[str, Any] | Content]
"""A view: what it shows in a state. A key `also` names further requests that its page makes at once."""
Action = Callable[[Studio, Mapping[str, Any]], Mapping[str, Any]]
"""What a button does: it changes something on disk and returns what."""
