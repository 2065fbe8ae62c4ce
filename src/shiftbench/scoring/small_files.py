"""The contents of very many small files, several read at once.

A file that is in memory takes 10 µs. One that is not takes a look at the disk or across the network, half a millisecond
or more, most of which is waiting: then it matters how many are asked for at a time.
"""

import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

THREADS = 16
CHUNK = 64
"""Files that a thread reads before it reports: few enough reports that threads cost nothing where all is in memory."""
AHEAD = 64 << 20
"""Bytes read ahead of whoever takes them, about."""
PIECE = 1 << 17


def contents(paths: Sequence[str]) -> Iterator[bytes | None]:
    """The bytes of every file, in order; None where one cannot be read."""
    if len(paths) <= CHUNK:
        yield from map(read_bytes, paths)
        return
    first = read_bytes(paths[0])
    yield first
    step = min(CHUNK, max(1, AHEAD // (2 * THREADS * max(1, len(first or b"")))))
    with ThreadPoolExecutor(THREADS) as pool:
        pending: deque[Future[list[bytes | None]]] = deque()
        for start in range(1, len(paths), step):
            pending.append(pool.submit(_chunk, paths[start:start + step]))
            if len(pending) >= 2 * THREADS:
                yield from pending.popleft().result()
        for future in pending:
            yield from future.result()


def read_bytes(path: str) -> bytes | None:
    """All of a file, a small one in four system calls; None where it cannot be read."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe is empty then, where it would wait for a writer
        try:
            parts = [os.read(handle, PIECE)]
            while parts[-1]:
                parts.append(os.read(handle, PIECE))
        finally:
            os.close(handle)
    except OSError:
        return None
    return b"".join(parts)


def _chunk(paths: Sequence[str]) -> list[bytes | None]:
    return [read_bytes(path) for path in paths]
