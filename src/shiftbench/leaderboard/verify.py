"""Whether a submission counts: complete predictions for this benchmark, from enough seeds, by the rules."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from shiftbench.core.arrays import digest
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import inside
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.prediction_lists import Answers
from shiftbench.data.predictions import Predictions
from shiftbench.leaderboard.submission import (
    ELSEWHERE,
    Entry,
    find_files,
    fold_of,
    load,
    message_for_page,
    numbered,
    only,
)

REQUIRED: Mapping[str, int] = {"camelyon17": 10, "civilcomments": 5, "poverty": 5}
"""Seeds that WILDS requires; other data require 3, or 1 if nothing is trained on the benchmark."""
OTHERS = 3
SILENT = "not declared"


class Rule(NamedTuple):
    """A guideline of the paper's §9 and whether a submission follows it; `met` is None for advice not followed."""

    name: str
    met: bool | None
    says: str


@dataclass(frozen=True, eq=False)
class Verified:
    """An entry with its predictions by seed, as far as they could be read, and the reasons why it does not count."""

    entry: Entry
    predictions: Mapping[int, Predictions | Answers]
    rules: tuple[Rule, ...] = ()
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def valid(self) -> bool:
        return not self.reasons

    def has(self, split: str) -> bool:
        """Whether every seed predicts the split."""
        return bool(self.predictions) and all(split in predictions.split for predictions in self.predictions.values())


def required_seeds(benchmark: Benchmark) -> int:
    """The number of seeds that the benchmark's data require."""
    source = benchmark.card.get("collection")
    name = str(source.get("name", "")) if isinstance(source, Mapping) else ""
    return REQUIRED.get(name.lower(), OTHERS) if "train" in benchmark.splits else 1


def verify(root: Path, entry: Entry, benchmark: Benchmark, required: int) -> Verified:
    """Read a submission's predictions and check the rules. Every problem becomes a reason, never an error."""
    reasons, notes = list(entry.problems), list(entry.notes)
    if benchmark.digest not in entry.benchmark.split():  # a submission to folds names several
        if entry.benchmark:
            reasons.append(f"Its predictions are of another benchmark: digest {entry.benchmark[:16]}…, but "
                           f"'{benchmark.name}' has {benchmark.digest[:16]}…")
        return Verified(entry, {}, (), tuple(reasons), tuple(notes))
    predictions: dict[int, Predictions | Answers] = {}
    try:
        files = find_files(inside(root, entry.folder), fold_of(benchmark))
        if any(file.split for of_seed in files.values() for file in of_seed) and numbered(benchmark):
            notes.append("Numbers in its files are read as the benchmark's classes from 0: "
                         f"{', '.join(benchmark.names['label'][:10])}"
                         f"{' …' if len(benchmark.names['label']) > 10 else ''}.")
        for seed, of_seed in files.items():
            predictions[seed] = load(of_seed, benchmark)
    # An error of Arrow or the file system concerns this file alone; the other submissions are still listed.
    except (ShiftBenchError, OSError, ValueError, pa.ArrowException) as problem:
        return Verified(entry, {}, (), (*reasons, message_for_page(problem, root)), tuple(notes))
    return checked(entry, predictions, benchmark, required, reasons, notes)


def checked(
    entry: Entry, predictions: Mapping[int, Predictions | Answers], benchmark: Benchmark, required: int,
    reasons: Sequence[str] = (), notes: Sequence[str] = (),
) -> Verified:
    """An entry with its predictions by seed, checked against the rules."""
    verified, reasons = Verified(entry, predictions), list(reasons)
    lacking = [seed for seed, loaded in predictions.items() if "test" not in loaded.split]
    if lacking:
        reasons.append(f"Seed {', '.join(map(str, lacking))} has no predictions of test.")
    rules = _rules(verified, benchmark, required)
    reasons += [f"{rule.name}: {rule.says}." for rule in rules if rule.met is False and rule.says != SILENT]
    return replace(verified, rules=rules, reasons=tuple(reasons), notes=tuple([*notes, *_same_seeds(predictions)]))


def _rules(verified: Verified, benchmark: Benchmark, required: int) -> tuple[Rule, ...]:
    """The rules of §9 that files can show. Advice not followed is shown; only a violation is a reason."""
    entry, seeds = verified.entry, len(verified.predictions)
    chosen = entry.selected_on
    alone = "train" not in benchmark.splits  # evaluation only: models come from elsewhere
    allowed = {*benchmark.splits, *((ELSEWHERE,) if alone else ())} - {"test"}
    says = f"by {chosen}" if chosen else SILENT
    if chosen == "test":
        says += ", which is for the final evaluation only"
    elif chosen == ELSEWHERE and not alone:
        says = "by data elsewhere, although the benchmark has items to choose by"
    elif chosen and chosen not in (*benchmark.splits, ELSEWHERE):
        says += ", a split that the benchmark does not have" + (f"; say '{ELSEWHERE}'" if alone else "")
    both = [split for split in ("id_test", "test") if split in benchmark.splits]
    absent = [split for split in both if not verified.has(split)]
    data = entry.external_data
    return (
        Rule("Replicates", seeds >= required, f"{seeds} of the {required} seeds"),
        Rule("Model chosen (9.3)", chosen in allowed, says),
        Rule("External data (9.1)", None if data else data is not None, data or ("none" if data == "" else SILENT)),
        Rule("Architecture (9.1)", None if entry.model else True, entry.model or "the default"),
        Rule("Before and after the shift (9.4)", None if absent or len(both) < 2 else True,
             f"no predictions of {', '.join(absent)}" if absent else
             "both are shown" if len(both) == 2 else "the benchmark has no id_test"),
    )


def _same_seeds(predictions: Mapping[int, Predictions | Answers]) -> list[str]:
    """Seeds whose predictions of test are the same: correct for a deterministic method, else a copied file."""
    first_seeds: dict[str, int] = {}
    notes = []
    for seed, loaded in predictions.items():
        first = first_seeds.setdefault(_fingerprint(loaded), seed)
        if first != seed:
            notes.append(f"Seeds {first} and {seed} predict test alike to the last digit.")
    return notes


def _fingerprint(predictions: Predictions | Answers) -> str:
    tested = only(predictions, "test")
    if isinstance(tested, Predictions):
        return digest({"item": tested.item, "scores": tested.scores})
    return digest({"item": tested.item, **{f"{name}{number}": column for name, lists in tested.values.items()
                                           for number, column in enumerate(lists)}})


def refuse_copies(submissions: Sequence[Verified]) -> list[Verified]:
    """Only the first of submissions with the same predictions, or with the same method and authors, counts."""
    by_digest: dict[tuple[str, ...], str] = {}
    by_name: dict[tuple[str, tuple[str, ...]], str] = {}
    entries = []
    for verified in submissions:
        reasons, entry = list(verified.reasons), verified.entry
        if verified.valid:  # an entry that does not count cannot make another a copy
            digests = tuple(sorted(_fingerprint(predictions) for predictions in verified.predictions.values()))
            original = by_digest.setdefault(digests, entry.folder)
            first = by_name.setdefault((entry.method.lower(), entry.authors), entry.folder)
            if original != entry.folder:
                reasons.append(f"A duplicate: its predictions are those of '{original}'.")
            elif first != entry.folder:
                reasons.append(f"A duplicate: '{first}' is the same method by the same authors. Keep one.")
        entries.append(replace(verified, reasons=tuple(reasons)))
    return entries


def seeds_of(verified: Verified, split: str) -> dict[int, Predictions | Answers]:
    """A split's predictions by seed."""
    return {seed: only(values, split) for seed, values in verified.predictions.items()
            if bool(np.any(values.split == split))}
