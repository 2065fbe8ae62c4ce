"""The key of a study: what was asked and what is right. It stays with whoever runs the study."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from shiftbench.annotation.plan import CONDITIONS, Design
from shiftbench.benchmark import Benchmark
from shiftbench.errors import ShiftBenchError
from shiftbench.files import read_marker
from shiftbench.registry import make

MARKER = "key.json"
FORMAT = 1
SHAPE = {"id": str, "benchmark": {str: str}, "design": {str: object}, "notes": [str], "tasks": [dict]}


@dataclass(frozen=True, eq=False)
class Key:
    """Tasks as they are written: {"id", "condition", "split", "labels": [of group 0, of group 1], "examples": [[item…],
    [item…]], "questions": {image: {"item", "group"}}}. `id` is of all there is, so a study has one key and no other."""

    benchmark: Mapping[str, str]  # name and digest
    design: Design
    tasks: Sequence[Mapping[str, Any]]
    notes: tuple[str, ...] = ()

    @cached_property
    def id(self) -> str:
        asked = [self.benchmark["digest"], asdict(self.design), list(self.tasks)]
        return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:16]

    @cached_property
    def by_id(self) -> dict[str, Mapping[str, Any]]:
        return {task["id"]: task for task in self.tasks}

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The pairs of superclasses, each once, sorted."""
        return sorted({pair_of(task) for task in self.tasks})

    @property
    def splits(self) -> dict[str, str]:
        """The split of each condition, source first."""
        found = {task["condition"]: task["split"] for task in self.tasks}
        return {name: found[name] for name in CONDITIONS if name in found}

    def facts(self) -> dict[str, Any]:
        """What the file holds."""
        return {"format": "shiftbench study", "version": FORMAT, "id": self.id, "benchmark": dict(self.benchmark),
                "design": asdict(self.design), "notes": list(self.notes), "tasks": list(self.tasks)}

    def check(self, benchmark: Benchmark) -> None:
        """Refuse a benchmark that the study was not made of."""
        if self.benchmark["digest"] != benchmark.digest:
            raise ShiftBenchError(
                f"Study {self.id} was made of benchmark '{self.benchmark['name']}' with digest "
                f"{self.benchmark['digest'][:8]}…, but '{benchmark.name}' has {benchmark.digest[:8]}…. Give the "
                "benchmark it was made of, or make a study of this one.")

    @staticmethod
    def load(folder: Path | str) -> "Key":
        """From the folder of a study; a key that was changed no longer has its id and is refused."""
        place = Path(folder)
        facts = read_marker(place, MARKER, "study", FORMAT, SHAPE)
        design = make(Design, facts["design"], str(place / MARKER))
        key = Key(facts["benchmark"], design, facts["tasks"], tuple(facts["notes"]))
        if not {"name", "digest"} <= facts["benchmark"].keys() or key.id != facts["id"]:
            raise ShiftBenchError(f"{place / MARKER}: does not match its own id {facts['id']}; the key was changed "
                                  "after it was written. Use it as it was.")
        return key


def find_key(study: Path | str | None, answers: Sequence[Path | str]) -> Key:
    """The key of the folder `study`; without one, of a folder that the answers lie in or beside."""
    if study is not None:
        return Key.load(study)
    for file in answers:
        for folder in (Path(file).absolute().parent, Path(file).absolute().parent.parent):
            if (folder / MARKER).is_file():
                return Key.load(folder)
    raise ShiftBenchError(f"{answers[0]}: no {MARKER} of a study lies beside these answers. Say with --study where the "
                          "folder of the study is.")


def pair_of(task: Mapping[str, Any]) -> tuple[str, str]:
    """The two superclasses of a task in alphabetical order, whichever is group 0."""
    first, second = sorted(task["labels"])
    return first, second
