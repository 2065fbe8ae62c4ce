"""The log of a run: one JSON line per evaluation, appended as training goes."""

import json
from pathlib import Path

from shiftbench.training.checkpoint import Point


class Log:
    """Without a path nothing is written."""

    def __init__(self, path: Path | None) -> None:
        self.path = path

    def write(self, line: dict[str, object]) -> None:
        if self.path:
            with self.path.open("a", encoding="utf-8") as handle:
                handle.write(json.dumps(line) + "\n")

    def cut(self, point: Point) -> None:
        """Drop what a killed process wrote after the checkpoint: those evaluations come again."""
        if self.path is None or not self.path.exists():
            return
        kept = []
        for text in self.path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                line = json.loads(text)
                if (line["stage"], line["step"]) <= (point.stage, point.step):
                    kept.append(text)
            except (json.JSONDecodeError, KeyError, TypeError):
                break  # the line that was being written when the process died
        self.path.write_text("".join(f"{text}\n" for text in kept), encoding="utf-8")
