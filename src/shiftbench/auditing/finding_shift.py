"""From a finding to a benchmark: train without the items of the context, test on them beside others like them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from shiftbench.auditing.contexts import holds, inside
from shiftbench.auditing.findings import Audit
from shiftbench.core.arrays import Bools, Strs, in_short
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.registry import make
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.shifts.low_data import LowData, Spurious, Unseen
from shiftbench.shifts.recipe import applied
from shiftbench.shifts.shift import Shift, ambiguous

LEAST = 10
"""Items of a label, inside the context and elsewhere, from which on the test has some of both."""
CONTEXT, IN, OUT = "context", "inside", "elsewhere"
"""The factor that says of each item whether it is in the context, and its values."""


def build_finding(
    audit: Audit, number: int, collection: Collection, *, label: str = "", seed: int = 0,
    changes: Mapping[str, Any] | None = None,
) -> Benchmark:
    """The shift of finding `number` of an audit, counted from 1: the factor `context` says which items are in it.

    A context that says nothing of the label is `unseen` in training or, where `changes` have `n_low`, rare in it
    (`low_data`). The test is uniform over label × context, so that its items are set against as many others with the
    same labels, and as large as the items allow; labels that have no such match are left out.

    A context of some labels alone ("cats at night") is a correlation (`spurious`): in training these labels go with
    the items elsewhere, all but `n_uncorrelated` of them, and all other labels with both. `changes` are settings of
    the shift.
    """
    if not 1 <= number <= len(audit.findings):
        raise ShiftBenchError(f"The audit has {len(audit.findings)} findings, so there is no finding {number}.")
    audited = str(audit.card.get("label") or "label")
    label = label or audited
    truth = collection.factor(label)
    members = [replace(member, column=label) if member.column == audited else member
               for member in audit.findings[number - 1].members]
    guessed = [member.words for member in members if member.kind == "prediction"]
    if guessed:
        raise ShiftBenchError(f"Finding {number} is about what the model says ({guessed[0]}), which no benchmark can "
                              "ask of items. Choose another finding, or audit with --exclude prediction.")
    about_label = [member for member in members if member.kind in ("label", "class")
                   and not member.column.startswith("has:")]
    others = [member for member in members if member not in about_label]
    if not others:
        raise ShiftBenchError(f"Finding {number} is about the label alone: a class that is hard is no shift. Choose "
                              "another finding.")
    mask = inside(others, collection, truth=truth, label=label)
    factor = CONTEXT if CONTEXT not in collection.factors else "context found"
    widened = replace(collection, factors={**collection.factors, factor: np.where(mask, IN, OUT)})
    labelled = np.ones(len(collection), np.bool_)
    for member in about_label:
        labelled &= holds(member, collection, truth=truth, label=label)
    shift, settings = _shift(truth.astype(np.str_), labelled, changes or {})
    rare: list[str] = []
    if settings.get("balanced", True) and not {"classes", "n_test"} & set(settings):
        few = settings.get("n_low", settings.get("n_uncorrelated", 0))
        kept, rare, n_test = _matched(collection, truth.astype(np.str_), mask, labelled, few if type(few) is int else 0)
        settings |= {"classes": kept, "n_test": n_test}
        if isinstance(settings.get("pairs"), dict):
            settings["pairs"] = {name: sides for name, sides in settings["pairs"].items() if name not in rare}
    built = applied(make(shift, {"label": label, "factor": factor, **settings}, f"finding {number}"), widened, seed)
    words = " and ".join(member.words for member in members)
    # The factor is in the rows, as their domain: the benchmark goes with the collection as it is.
    card = {**built.card, "collection": {"name": collection.name, "digest": collection.digest},
            "finding": {"number": number, "context": words, "predicates": [member.facts() for member in members]},
            "notes": [f"Made from finding {number} of an audit: {words}.", *built.card["notes"]]}
    if rare:
        card["notes"].append(f"Labels with fewer than {LEAST} items inside or elsewhere have no match and are left "
                             f"out: {in_short(rare, 12)}. With balanced = false they stay, and the test is random.")
    return replace(built, card=card)


def _matched(
    collection: Collection, truth: Strs, mask: Bools, labelled: Bools, few: int
) -> tuple[tuple[str, ...], list[str], int]:
    """The labels with items inside the context and elsewhere, the others, and the largest test that matches them.

    The test takes all items of cells that training does without, less the `few` that it has, and a third of others.
    """
    names = np.unique(truth).tolist()
    clear = np.ones(len(collection), np.bool_)
    clear[ambiguous(collection, names)] = False
    counts = {(name, side): int((clear & (truth == name) & (mask == side)).sum()) for name in names
              for side in (True, False)}
    kept = tuple(name for name in names if min(counts[name, True], counts[name, False]) >= LEAST)
    if len(kept) < 2:
        raise ShiftBenchError(f"Only {len(kept)} labels have {LEAST} items or more both inside the context and "
                              "elsewhere, and a test takes two. Choose another finding, or draw the test at random: "
                              "--set balanced=false.")
    unseen = {name for name in kept if labelled[truth == name].any()}
    each = min(counts[name, side] - few if side and name in unseen else counts[name, side] // 3
               for name in kept for side in (True, False))
    if each < 1:
        raise ShiftBenchError(f"Training is to have {few} items of the context, which leaves none of some label for "
                              "the test. Ask for fewer.")
    return kept, [name for name in names if name not in kept], 2 * len(kept) * each


def _shift(truth: Strs, labelled: Bools, changes: Mapping[str, Any]) -> tuple[type[Shift], dict[str, Any]]:
    """The shift that fits, and its settings; `labelled` are the items of the labels that the context names."""
    if labelled.all():
        if "n_low" in changes:
            return LowData, {"low": (IN,), **changes}
        return Unseen, {"unseen": (IN,), **changes}
    pairs = {name: (OUT,) if labelled[truth == name].any() else (IN, OUT) for name in np.unique(truth).tolist()}
    return Spurious, {"pairs": pairs, "against": True, "n_uncorrelated": 1, **changes}
