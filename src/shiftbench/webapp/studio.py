"""What every view is given: the shelf, where it may write, and the books of what was looked at."""

import shlex
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, TypeVar

from shiftbench.core.errors import ShiftBenchError
from shiftbench.webapp.looks import Books
from shiftbench.webapp.query import Query, request
from shiftbench.webapp.shelf import Shelf

T = TypeVar("T")
REMEMBERED = 64
"""Results that stay in memory: meta-graphs with their layouts, values of factors."""


@dataclass(frozen=True, eq=False)
class Studio:
    """A running studio. It is read-only unless `edit`; then recipes and views are saved below its first folder."""

    shelf: Shelf
    edit: bool = False
    _memory: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)
    _lock: Lock = field(default_factory=Lock, init=False, repr=False)

    def once(self, key: Hashable, compute: Callable[[], T]) -> T:
        """What `compute` gives, from memory if it was asked for before under this key, which holds all it depends on.

        The oldest results are forgotten. Two requests at once may both compute: the results are the same.
        """
        with self._lock:
            if key in self._memory:
                self._memory[key] = self._memory.pop(key)  # the last one used goes last
                return self._memory[key]  # type: ignore[no-any-return]
        value = compute()
        with self._lock:
            self._memory[key] = value
            for old in list(self._memory)[:-REMEMBERED]:
                del self._memory[old]
        return value

    @cached_property
    def books(self) -> Books:
        """What was looked at here, which items are sealed, and what was confirmed on them."""
        return Books.of(self.shelf.folders[0], self.edit)

    def command(self, name: str, /, **state: str) -> str:
        """The command that prints an answer, for views that no verb prints (see `__main__.py`)."""
        return shlex.join(["python", "-m", "shiftbench.webapp", *map(str, self.shelf.folders), request(name, **state)])

    def folder_for(self, kind: str) -> Path:
        """The folder into which a view saves: recipes, benchmarks, audits or views, below the studio's own."""
        if not self.edit:
            raise ShiftBenchError("The studio is read-only. Start it with --edit to save here; or copy the text.")
        return self.shelf.folders[0] / kind


class Content(NamedTuple):
    """An answer that is not plain data: a picture, or columns of numbers."""

    body: bytes
    type: str = "application/octet-stream"
    changes: bool = True  # False: a browser may keep it


Answer = Callable[[Studio, Query], Mapping[str, Any] | Content]
"""A view: what it shows in a state. A key `also` names further requests that its page makes at once."""
Action = Callable[[Studio, Mapping[str, Any]], Mapping[str, Any]]
"""What a button does: it changes something on disk, and says what."""
