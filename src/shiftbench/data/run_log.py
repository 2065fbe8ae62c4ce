"""Reading the log of a run: one line per evaluation, with the loss of training and the scores of validation."""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

LOG = "log.jsonl"
TAIL = 4096
"""Bytes at the end of a log that hold its last line."""
UNSHOWN = ("stage", "step", "seconds")
"""Numbers of a line that say where the others belong."""


def lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a log, up to the first that is not whole: it was being written when its process died."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return []
    parsed = []
    for text_line in text.splitlines(keepends=True):
        try:
            line = json.loads(text_line)
        except json.JSONDecodeError:
            break
        if not (text_line.endswith("\n") and isinstance(line, dict) and isinstance(line.get("stage"), int)
                and isinstance(line.get("step"), int)):
            break
        parsed.append(line)
    return parsed


def last_line(path: Path | str) -> dict[str, Any]:
    """The last whole line of a log, however long the log is; empty where there is none."""
    try:
        with open(path, "rb") as handle:
            handle.seek(max(0, handle.seek(0, os.SEEK_END) - TAIL))
            tail = handle.read().splitlines()
    except OSError:
        return {}
    for text in reversed(tail):
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(line, dict):
            return line
    return {}


def points(line: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Names and numbers of a line; those of a second stage have names of their own, since its steps start again."""
    for key, value in line.items():
        if key not in UNSHOWN and isinstance(value, int | float) and not isinstance(value, bool):
            yield name_in(line["stage"], key), float(value)


def name_in(stage: int, key: str) -> str:
    return f"stage{stage}/{key}" if stage else key
