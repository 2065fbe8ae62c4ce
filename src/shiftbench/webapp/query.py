"""What a URL asks of a view: its state, as text, numbers and a filter."""

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar
from urllib.parse import urlencode

import msgspec

from shiftbench.auditing.predicates import Predicate
from shiftbench.core.errors import ShiftBenchError

T = TypeVar("T")


def request(name: str, /, **state: str) -> str:
    """The request for a view in a state, as the page writes it: see `request` of answers.js.

    >>> request("items", where="", on="a b~", at="120")
    'items?at=120&on=a+b%7E'
    """
    words = urlencode(sorted((key, value) for key, value in state.items() if value)).replace("~", "%7E")
    return f"{name}?{words.replace('%2A', '*')}" if words else name


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
        """A whole number between two limits, which are kept to."""
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
        """A JSON list of names; none if it is not there."""
        return self._json(name, list[str], [])

    def table(self, name: str) -> dict[str, Any]:
        """A JSON object; empty if it is not there."""
        return self._json(name, dict[str, Any], {})

    def tables(self, name: str) -> dict[str, dict[str, Any] | None]:
        """A JSON object of objects; None for one that is taken away."""
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
