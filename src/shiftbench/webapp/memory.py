"""What the studio keeps in memory: computed values, up to a limit, as long as nothing has changed."""

from collections.abc import Callable, Hashable
from threading import RLock
from typing import Any, TypeVar

T = TypeVar("T")


class Memory:
    """Values by key. When they need more than `room`, the least recently used are dropped.

    The room is a number of values or, with a `size`, of bytes. With `alone`, a value that two requests
    ask for together is computed once; otherwise both may compute it, and neither waits.
    """

    def __init__(self, room: int, size: Callable[[Any], int] = lambda value: 1, *, alone: bool = False) -> None:
        self.room, self.used = room, 0
        self._size, self._alone = size, alone
        self._values: dict[Hashable, tuple[Hashable, Any]] = {}
        self._lock = RLock()

    def get(self, key: Hashable, compute: Callable[[], T], stamp: Hashable = None) -> T:
        """The value under a key, computed if it is not there or was computed under another `stamp`."""
        with self._lock:
            if key in self._values and self._values[key][0] == stamp:
                self._values[key] = self._values.pop(key)  # the most recently used goes last
                return self._values[key][1]  # type: ignore[no-any-return]
            if self._alone:
                return self._keep(key, stamp, compute())
        value = compute()
        with self._lock:
            return self._keep(key, stamp, value)

    def forget(self) -> None:
        """Compute everything anew from now on."""
        with self._lock:
            self._values.clear()
            self.used = 0

    def _keep(self, key: Hashable, stamp: Hashable, value: T) -> T:
        if key in self._values:
            self.used -= self._size(self._values.pop(key)[1])
        self._values[key] = (stamp, value)
        self.used += self._size(value)
        while self.used > self.room and len(self._values) > 1:
            self.used -= self._size(self._values.pop(next(iter(self._values)))[1])
        return value
