"""The books: what a person has looked at, which items are sealed, and findings made by hand that were confirmed there.

Somebody who opens a hundred filters finds one in which a model seems to fail, whether it does or not. So every filter
and comparison that shows outcomes is counted as a look, 30 % of the items are *sealed* (no view shows their predictions
or errors), and a context that a person believes in is tested there, once. The k-th test, after L looks, this one
included, has the level

    α_k = α / (L (k + 1)),    α = 0.05.

**Why no more than 5 % of people end with a false confirmation, whichever filters they open.** Let H be everything known
before the k-th test: all that is open, and the numbers of earlier tests. The null is that among the sealed items which
H does not tell apart, those inside the context err like those outside. What H knows of the sealed outcomes are the
numbers of errors inside and outside the contexts tested before, of this model or of others. `fisher_within` is exact
given these numbers: it counts only orders of the items' outcomes that keep each of them. So P(false confirmation at k |
H) ≤ α_k, however the context was chosen from H. L and k are part of H, and L ≥ k, since every test is a look of its
own. Hence

    P(any false confirmation) ≤ E Σ_k α_k ≤ Σ_k α / (k (k + 1)) = α.

The bound holds without the factor 1 / L: looks at open items say nothing about sealed ones. It is there because in
practice some do: tables of scores count every item, so that whoever takes a context from a worst group in such a table
is not covered by the proof. An audit of all items shows many contexts at once: after it nothing of its run can be
confirmed (`failures_view`). Spending α / (L (L + 1)) would be as safe and harsher for the first test: at 50 looks
5 % / 2550 instead of 5 % / 100.
"""

import base64
import fcntl
import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from shiftbench.auditing.contrasts import compare, fisher_within
from shiftbench.auditing.join import Items
from shiftbench.auditing.predicates import Predicate
from shiftbench.core.arrays import Bools, Ints, Strs, uniform
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.image_files import trust_file

ALPHA = 0.05
"""The chance that any confirmation at all is false."""
SHARE = 0.3
"""Of the items, sealed."""
FILE = ".shiftbench-looks.jsonl"
LONGEST = 4000
"""Letters of a look's facts that are kept; of longer facts only the digest is kept."""

Codes = npt.NDArray[np.uint64]


# Sealed items

def codes_of(names: Strs) -> Codes:
    """A number of 64 bits per name, the same on every machine and whatever other names there are."""
    letters = np.ascontiguousarray(names, np.str_).view(np.uint32).reshape(len(names), -1)
    weights = (uniform(0, "letters of a name", np.arange(letters.shape[1])) * 2.0**53).astype(np.uint64)
    codes = np.zeros(len(names), np.uint64)
    with np.errstate(over="ignore"):
        for position in range(letters.shape[1]):  # letters beyond a name's end are 0, and add nothing
            codes += letters[:, position].astype(np.uint64) * (weights[position] * np.uint64(2) + np.uint64(1))
    return codes


def sealed(items: Strs) -> Bools:
    """Which items are sealed: chosen by a hash of their ids, so that it never changes."""
    if not len(items):
        return np.zeros(0, np.bool_)
    return np.asarray(uniform(0, "sealed items", codes_of(items).view(np.int64)) < SHARE, np.bool_)


def open_items(items: Items) -> Items:
    """Items without those that are sealed."""
    return items.take(np.flatnonzero(~sealed(items.known.items)))


# Confirmations

@dataclass(frozen=True)
class Confirmation:
    """A test of a context on the sealed items: on how many, at which level, after how many looks, and its result.

    Intervals miss with probability `level`: all of a person's together with at most 5 %.
    """

    subject: str
    members: tuple[Predicate, ...]
    number: int  # of confirmations so far, this one included: k
    looks: int  # so far, this one included: L
    level: float
    p: float
    n: int
    n_rest: int
    loss: float
    low: float
    high: float
    rest: float
    difference: float
    difference_low: float
    difference_high: float
    inside: str = field(default="", repr=False)  # the items, as codes in base64, on which later tests are conditioned
    outside: str = field(default="", repr=False)

    @property
    def confirmed(self) -> bool:
        return self.p <= self.level

    @property
    def context(self) -> str:
        return " and ".join(member.words for member in self.members)


def level(looks: int, number: int) -> float:
    """The level of the `number`-th test, after so many looks."""
    return ALPHA / (looks * (number + 1))


def key_of(subject: str, facts: Any) -> str:
    """The key of a look or a finding, which does not depend on the order of the facts."""
    text = json.dumps([subject, facts], sort_keys=True, default=str, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _finding_key(subject: str, members: Sequence[Predicate]) -> str:
    """Predicates in any order, whatever their words."""
    return key_of(subject, sorted([member.column, member.value, member.kind, str(member.low), str(member.high)]
                                  for member in members))


def _strata(codes: Codes, earlier: Sequence[Confirmation]) -> Ints:
    """A number per item, equal for items that earlier tests do not tell apart."""
    stratum = np.zeros(len(codes), np.int64)
    for test in earlier:
        sides = (np.isin(codes, _from_text(test.inside)), np.isin(codes, _from_text(test.outside)))
        stratum = np.unique(stratum * 3 + sides[0] + 2 * sides[1], return_inverse=True)[1]
    return stratum


def _to_text(codes: Codes) -> str:
    return base64.b64encode(codes.astype("<u8").tobytes()).decode()


def _from_text(text: str) -> Codes:
    return np.frombuffer(base64.b64decode(text), "<u8").astype(np.uint64)


# The books

class Books:
    """Looks and confirmations, a line each in files that only grow: the studio's folder, and the user's own.

    All are read; the first is written. Every change is made under a lock on all of them, so that two tabs and two
    processes count alike. Without a file, or where none can be written, looks are counted in memory; then nothing can
    be confirmed that a restart would forget.
    """

    def __init__(self, files: Sequence[Path] = ()) -> None:
        self.files = tuple(files)
        self._lock = Lock()
        self._offsets = dict.fromkeys(self.files, 0)
        self._looks: dict[str, dict[str, Any]] = {}
        self._tests: dict[str, Confirmation] = {}
        self._why_unwritable = ""  # why the file cannot be written

    @staticmethod
    def of(folder: Path, edit: bool) -> "Books":
        """The books of a studio's folder: in it where the studio may write there, else beside the user's settings."""
        users_file = trust_file().parent / "looks" / f"{hashlib.sha256(str(folder).encode()).hexdigest()[:16]}.jsonl"
        return Books((folder / FILE, users_file) if edit else (users_file, folder / FILE))

    def look(self, subject: str, facts: Mapping[str, Any]) -> int:
        """Count a look at a subject (data and model) in a state, once. Returns the number of all looks so far."""
        key = key_of(subject, facts)
        with self._lock:
            if key not in self._looks:
                with self._locked():
                    if key not in self._looks:
                        self._enter_look(key, subject, facts)
            return len(self._looks)

    @property
    def looks(self) -> list[dict[str, Any]]:
        """Every look, the first one first: its subject and its state."""
        with self._lock, self._locked(write=False):
            return list(self._looks.values())

    def tests(self) -> list[Confirmation]:
        """Every confirmation that was tried, the first one first."""
        with self._lock, self._locked(write=False):
            return list(self._tests.values())

    def next_level(self) -> float:
        """The level that a confirmation would have now."""
        with self._lock, self._locked(write=False):
            return level(len(self._looks) + 1, len(self._tests) + 1)

    def test_of(self, subject: str, members: Sequence[Predicate]) -> Confirmation | None:
        """The result for a finding, if it was tested."""
        with self._lock, self._locked(write=False):
            return self._tests.get(_finding_key(subject, members))

    def confirm(
        self, subject: str, members: Sequence[Predicate], items: Strs, inside: Bools, wrong: Bools
    ) -> Confirmation:
        """Test on the sealed ones of these items, for good, whether those inside are wrong more often.

        The same finding is not tested again: the first result is returned.
        """
        key = _finding_key(subject, members)
        closed = sealed(items)
        count = int(np.count_nonzero(inside & closed))
        if not members or not 0 < count < np.count_nonzero(closed):
            raise ShiftBenchError(f"{count:,} of the {np.count_nonzero(closed):,} sealed items are in this context, so "
                                  "there is nothing to compare. Choose another filter.")
        with self._lock, self._locked():
            if self._why_unwritable:
                raise ShiftBenchError(f"{self.files[0]}: the books cannot be written ({self._why_unwritable}), so a "
                                      "test cannot be limited to once and is not made.")
            if key not in self._tests:
                self._enter_look(key_of(subject, {"confirm": key}), subject, {"confirm": key})
                test = self._test(subject, tuple(members), codes_of(items[closed]), inside[closed], wrong[closed])
                self._append({"test": key, **asdict(test), "members": [member.facts() for member in members]})
                self._tests[key] = test
            return self._tests[key]

    def _test(
        self, subject: str, members: tuple[Predicate, ...], codes: Codes, inside: Bools, wrong: Bools
    ) -> Confirmation:
        looks, number = len(self._looks), len(self._tests) + 1
        alpha = level(looks, number)
        p = fisher_within(wrong, inside, _strata(codes, list(self._tests.values())))
        weights = inside.astype(np.float64)
        contrast = compare(wrong.astype(np.float64), weights, 1 - weights, alpha, plain=True)
        low = max(contrast.difference.low, 0.0) if p <= alpha else contrast.difference.low
        return Confirmation(
            subject, members, number, looks, alpha, p, int(inside.sum()), int((~inside).sum()), *contrast.inside,
            contrast.outside.value, contrast.difference.value, low, contrast.difference.high,
            _to_text(codes[inside]), _to_text(codes[~inside]))

    def _enter_look(self, key: str, subject: str, facts: Mapping[str, Any]) -> None:
        entry = {"subject": subject, "facts": dict(facts)}
        if len(json.dumps(entry, default=str)) > LONGEST:
            entry["facts"] = {}
        self._append({"look": key, **entry})
        self._looks[key] = entry

    # Files

    @contextmanager
    def _locked(self, write: bool = True) -> Iterator[None]:
        """Lock the files, and read what other processes have written."""
        with ExitStack() as handles:
            for file in sorted(self.files):  # in one order, so that there is no deadlock
                writes = write and file == self.files[0]
                try:
                    if writes:
                        file.parent.mkdir(parents=True, exist_ok=True)
                    handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND if writes else os.O_RDONLY, 0o666)
                except OSError as problem:
                    self._why_unwritable = problem.strerror or "no file" if writes else self._why_unwritable
                    continue
                handles.callback(os.close, handle)
                fcntl.flock(handle, fcntl.LOCK_EX if writes else fcntl.LOCK_SH)
                self._read_new_lines(file, handle)
            yield

    def _read_new_lines(self, file: Path, handle: int) -> None:
        size = os.fstat(handle).st_size
        if size < self._offsets[file]:  # the file was replaced: what was counted stays counted
            self._offsets[file] = 0
        if size == self._offsets[file]:
            return
        text = os.pread(handle, size - self._offsets[file], self._offsets[file])
        end = text.rfind(b"\n") + 1
        for line in text[:end].splitlines():
            self._enter(line)
        self._offsets[file] += end

    def _enter(self, line: bytes) -> None:
        """Enter a line of another process. An unreadable one counts as a look at something unknown."""
        try:
            facts = msgspec.json.decode(line, type=dict[str, Any])
            if "test" in facts:
                values = {name: math.nan if value is None else value for name, value in facts.items()}
                self._tests.setdefault(facts["test"], msgspec.convert(values, Confirmation))
            else:
                self._looks.setdefault(facts["look"], {"subject": facts["subject"], "facts": facts["facts"]})
        except (msgspec.MsgspecError, KeyError, TypeError):
            self._looks.setdefault(key_of("damaged line", repr(line)), {"subject": "", "facts": {}})

    def _append(self, facts: Mapping[str, Any]) -> None:
        if not self.files or self._why_unwritable:
            return
        file = self.files[0]
        line = msgspec.json.encode(facts) + b"\n"
        handle = os.open(file, os.O_RDWR | os.O_APPEND)
        try:
            size = os.fstat(handle).st_size
            if size and os.pread(handle, 1, size - 1) != b"\n":  # a process was killed while it wrote
                line = b"\n" + line
            os.write(handle, line)
            os.fsync(handle)
        except OSError as problem:
            raise ShiftBenchError(f"{file}: the books cannot be written ({problem.strerror}).") from problem
        finally:
            os.close(handle)
