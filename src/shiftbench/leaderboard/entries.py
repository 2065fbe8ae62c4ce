"""The description of a submission, `submission.toml`, read as an untrusted file. No score is taken from it."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import inside, read_toml

MARKER = "submission.toml"
ELSEWHERE = "elsewhere"
"""The model was chosen on data outside the benchmark: where the benchmark has nothing to train on, all are."""
CHOSEN = ("id_val", "val", "test", ELSEWHERE)
"""What may have chosen the model; test is against the rules, but an entry that says so is listed."""
MOST_SAID = 64 * 1024
"""Largest `submission.toml`, in bytes."""
LONGEST = 400
"""Longest text in it, in letters."""


@dataclass(frozen=True)
class Entry:
    """A submission in its own words. `problems` says what is wrong with them, `notes` what was not read."""

    folder: str
    method: str = ""
    authors: tuple[str, ...] = ()
    paper: str = ""  # a link
    code: str = ""  # a link
    selected_on: str = ""  # what chose the model: id_val, val or test, or data elsewhere
    external_data: str | None = None  # what else the model saw; "" where it declares none, None where it is silent
    model: str = ""  # the architecture, where it is not the benchmark's default
    parameters: int | None = None
    benchmark: str = ""  # the digest
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def algorithm(self) -> bool:
        """A training algorithm on the data and model that everyone has (§9.1); what is more has a table of its own."""
        return not (self.external_data or self.model)


def read_entry(root: Path, folder: str) -> Entry:
    """The submission in a folder of `root`. Problems are kept in the entry, so that one never hides others."""
    if not folder.isprintable():
        name = ascii(folder)
        return Entry(name, method=name, problems=("Its folder has a name that cannot be printed.",))
    try:
        path = inside(root, folder)
        facts = _facts(inside(path, MARKER), folder)
    except ValueError as problem:  # also a number with more digits than Python reads
        return Entry(folder, method=folder, problems=(told(problem, root),))
    reader = _Reader(facts)
    known = {field.name for field in fields(Entry)} - {"folder", "problems", "notes"}
    notes = [f"{MARKER} also says {', '.join(map(_shown, sorted(set(facts) - known)))}: not read. Numbers on this page "
             "are recomputed from the predictions."] if set(facts) - known else []
    words: dict[str, Any] = {
        "method": reader.text("method", needed=True) or folder, "authors": reader.names("authors"),
        "paper": reader.link("paper"), "code": reader.link("code"), "selected_on": reader.chosen(),
        "external_data": reader.external(), "model": reader.text("model"), "parameters": reader.count("parameters"),
        "benchmark": reader.text("benchmark", needed=True),
    }
    return Entry(folder, **words, problems=tuple(reader.problems), notes=tuple(notes))


def told(problem: Exception, root: Path) -> str:
    """A message without the path of the board's folder, since others read the page."""
    text = " ".join(str(problem).encode("utf-8", "replace").decode().split())
    for prefix in sorted({str(root), str(root.resolve())}, key=len, reverse=True):
        text = text.replace(f"{prefix}/", "").replace(prefix, root.name)
    return text[:600]


def _facts(path: Path, folder: str) -> dict[str, Any]:
    if not path.is_file():
        raise ShiftBenchError(f"{folder} has no {MARKER}.")
    if path.stat().st_size > MOST_SAID:
        raise ShiftBenchError(f"{path}: {path.stat().st_size:,} bytes, where at most {MOST_SAID:,} are read.")
    try:
        return read_toml(path)
    except RecursionError as problem:
        raise ShiftBenchError(f"{path}: nested too deep.") from problem


def _shown(word: str) -> str:
    return f"'{word[:40]}'"


class _Reader:
    """Reads field after field; it collects problems and leaves bad fields empty."""

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self.facts = facts
        self.problems: list[str] = []

    def wrong(self, key: str, allowed: str) -> None:
        state = f"'{key}' is not {allowed}" if key in self.facts else f"'{key}' is missing: {allowed}"
        self.problems.append(f"{MARKER}: {state}.")

    def text(self, key: str, needed: bool = False) -> str:
        value = self.facts.get(key, "")
        if _plain(value) and (value.strip() or not needed):
            return str(value.strip())
        self.wrong(key, f"a text of one line and at most {LONGEST} letters")
        return ""

    def names(self, key: str) -> tuple[str, ...]:
        value = self.facts.get(key)
        listed = [value] if isinstance(value, str) else value
        if isinstance(listed, list) and 0 < len(listed) <= 100 and all(
                _plain(name) and name.strip() for name in listed):
            return tuple(name.strip() for name in listed)
        self.wrong(key, 'a list of names, ["A. Author", "B. Author"]')
        return ()

    def link(self, key: str) -> str:
        value = self.facts.get(key, "")
        if value == "" or (_plain(value) and _is_link(value)):
            return str(value)
        self.wrong(key, "a link that begins with https:// or http://")
        return ""

    def chosen(self) -> str:
        value = self.facts.get("selected_on")
        if isinstance(value, str) and value in CHOSEN:
            return value
        self.wrong("selected_on", f"the split that chose the model, one of {', '.join(CHOSEN)}")
        return ""

    def external(self) -> str | None:
        """False, or what it is: data that is not declared cannot be told from none."""
        value: Any = self.facts.get("external_data")
        if value is False:
            return ""
        if _plain(value) and value.strip():
            return str(value.strip())
        self.wrong("external_data", "false, or a text that says which other data the model has seen")
        return None

    def count(self, key: str) -> int | None:
        value = self.facts.get(key)
        if value is None or (isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**15):
            return value
        self.wrong(key, "a number of parameters, such as 25_557_032")
        return None


def _plain(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST and (not value.strip() or value.strip().isprintable())


def _is_link(value: str) -> bool:
    try:
        parts = urlsplit(value)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and not any(map(str.isspace, value))
    except ValueError:
        return False
