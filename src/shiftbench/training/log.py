"""The log of a run: one JSON line per evaluation, appended as training goes."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shiftbench.core.files import writing

if TYPE_CHECKING:
    from shiftbench.training.checkpoint import Point


class Log:
    """Without a path nothing is written."""

    def __init__(self, path: Path | None) -> None:
        self.path = path

    def write(self, line: dict[str, object]) -> None:
        if self.path:
            with self.path.open("a", encoding="utf-8") as handle:
                handle.write(json.dumps(line) + "\n")

    def cut(self, point: "Point") -> None:
        """Drop what a killed process wrote after the checkpoint: those evaluations come again."""
        if self.path is None or not self.path.exists():
            return
        kept = [line for line in lines(self.path) if (line["stage"], line["step"]) <= (point.stage, point.step)]
        with writing(self.path) as hidden:  # a process killed here must not lose the lines before the checkpoint
            hidden.write_text("".join(f"{json.dumps(line)}\n" for line in kept), encoding="utf-8")


def lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a log, up to the first that is not whole: it was being written when its process died."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return []
    found = []
    for part in text.splitlines(keepends=True):
        try:
            line = json.loads(part)
        except json.JSONDecodeError:
            break
        if not (part.endswith("\n") and isinstance(line, dict) and isinstance(line.get("stage"), int)
                and isinstance(line.get("step"), int)):
            break
        found.append(line)
    return found
