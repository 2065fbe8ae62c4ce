"""The seven takeaways of Wiles et al. (2022, §4.1), tested on a table of scores, with intervals.

A takeaway has parts, each one number with its interval over seeds against one bound. A part holds or fails where the
whole interval lies on one side of the bound, else it is open. A takeaway agrees where all of its parts hold, disagrees
where one fails, and is undecided otherwise. Every part is tested alone, at the level of its interval.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from shiftbench.methods.presets import family
from shiftbench.reporting.sections.fine_grained_scores import (
    COUNTED,
    Estimate,
    FineGrainedScores,
    agreement,
    estimate,
    leads,
    rows_by,
)
from shiftbench.scoring.intervals import LEVEL

AGREES, DIFFERS, OPEN = ("agrees", "does not agree", "undecided")
LIMITED = 5.0
"""Our reading of "limited improvement" and of "rarely much better": less than this many per cent over the baseline."""
CONSISTENT = 0.5
"""Our reading of "reasonably consistent": a rank correlation of methods above this."""
SHIFT_WORDS = {"spurious": "spurious correlation", "low_data": "low-data drift", "unseen": "unseen data shift"}


class Part(NamedTuple):
    """One statement: the number behind it, and whether it holds; None where that is open, with the reason."""

    text: str
    estimate: Estimate | None
    holds: bool | None
    why: str = ""


class Takeaway(NamedTuple):
    number: int
    claim: str
    parts: tuple[Part, ...]

    @property
    def verdict(self) -> str:
        if any(claim.holds is False for claim in self.parts):
            return DIFFERS
        return AGREES if self.parts and all(claim.holds for claim in self.parts) else OPEN


def takeaways(scores: FineGrainedScores, level: float = LEVEL) -> list[Takeaway]:
    """All seven, in the paper's order and words."""
    return [
        Takeaway(1, "While we can improve over ERM, no one method always performs best.", _best(scores, level)),
        Takeaway(2, "Pretraining is a powerful tool across different shifts and datasets.",
                 _across(scores, "pretrained", level)),
        Takeaway(3, "Heuristic augmentation improves generalization if the augmentation describes an attribute.",
                 _heuristics(scores, level)),
        Takeaway(4, "Learned data augmentation is effective across different conditions and distribution shifts.",
                 _across(scores, "stargan", level)),
        Takeaway(5, "Domain generalization algorithms offer limited performance improvement.", _limited(scores, level)),
        Takeaway(6, "The best algorithms may differ under the precise conditions.", _conditions(scores, level)),
        Takeaway(7, "The precise attributes we consider directly impact the results.", _attributes(scores, level)),
    ]


def _best(scores: FineGrainedScores, level: float) -> tuple[Part, ...]:
    rows = [row for row in scores.where(condition="") if np.isfinite(scores.base[row]).any()]
    if not rows:
        return (_missing("No benchmark of the three shifts without a condition has the baseline"),)
    others = [np.delete(scores.values[row], scores.methods.index(scores.baselines[row]), axis=0) for row in rows]
    ahead = np.stack([100 * leads(values, scores.base[row]) for values, row in zip(others, rows, strict=True)])
    estimates = [estimate(line[None], [""], level) for line in ahead]
    total = estimate(ahead, scores.collections(rows), level)
    clear = sum(lead.above() is True for lead in estimates)
    first = (f"On {clear} of {len(rows)} benchmarks the interval of the lead of the best method (chosen on the other "
             f"seeds) over {scores.baseline} is above 0; it is {_written(total, ' points')} on average")
    means = [np.where(known.any(axis=1), np.where(known, values, 0).sum(axis=1) / np.maximum(known.sum(axis=1), 1),
                      -np.inf) for values in scores.values[rows] for known in [np.isfinite(values)]]
    winners = Counter(scores.methods[int(mean.argmax())] for mean in means)
    winner, times = winners.most_common(1)[0]
    second = f"The best one is the same method, {winner}, on {times} of {len(rows)}"
    return _judged(first, total, total.above()), _alone(scores, rows, winner if times == len(rows) else "", second,
                                                        level)


def _alone(scores: FineGrainedScores, rows: Sequence[int], winner: str, text: str, level: float) -> Part:
    """No method is always best: each is somewhere behind another, at a level shared among the benchmarks."""
    if len(rows) < 2:
        return Part(text, None, None, "one benchmark only")

    def behind(method: str, row: int, sure: float) -> bool | None:
        index = scores.methods.index(method)
        lead = leads(np.delete(scores.values[row], index, axis=0), scores.values[row, index])
        return estimate(lead[None], [""], sure).above()

    if winner and all(behind(winner, row, level) is False for row in rows):
        return Part(f"{text}, and ahead of every other there beyond its interval", None, False)
    shared = 1 - (1 - level) / len(rows)
    unbeaten = [method for method in scores.methods if not any(behind(method, row, shared) for row in rows)]
    if not unbeaten:
        return Part(f"{text}; every method is somewhere behind another one beyond its interval", None, True)
    who = unbeaten[0] if len(unbeaten) == 1 else f"{len(unbeaten)} of {len(scores.methods)} methods"
    return Part(text, None, None, f"{who} may be best everywhere")


def _across(scores: FineGrainedScores, method: str, level: float) -> tuple[Part, ...]:
    """A method improves on the baseline under every shift there is, of which there must be two."""
    if method not in scores.methods:
        return (_missing(f"No run of {method}"),)
    parts = []
    for shift, description in SHIFT_WORDS.items():
        rows = scores.where(shift=shift, condition="")
        change = estimate(scores.change(method)[rows], scores.collections(rows), level)
        if change.benchmarks:
            parts.append(_judged(f"Under {description} the change of {method} over {scores.against(method)} is "
                                 f"{_written(change, ' %')}", change, change.above()))
    if len(parts) < 2:
        parts.append(_missing(f"{len(parts)} of {len(COUNTED)} shifts have runs of {method} and the baseline"))
    return tuple(parts)


def _heuristics(scores: FineGrainedScores, level: float) -> tuple[Part, ...]:
    standard, rows = "imagenet_augment", scores.where(condition="")
    if standard not in scores.methods:
        return (_missing(f"No run of {standard}"),)
    change = estimate(scores.change(standard)[rows], scores.collections(rows), level)
    first = _judged(f"The change of {standard} over {scores.baseline} is {_written(change, ' %')}", change,
                    change.above())
    others = [method for method in scores.of_family(family(standard)) if method != standard]
    rows = [row for row in rows if all(np.isfinite(scores.change(method)[row]).any() for method in (standard, *others))]
    if not others or len(rows) < 3:
        return first, _missing("Too few other augmentations or benchmarks to compare how variable they are")
    # Per seed, so that the noise of single runs is in both and cancels.
    deviation, *deviations = (scores.change(method)[rows].std(axis=0, ddof=1) for method in (standard, *others))
    spread = estimate((np.mean(deviations, axis=0) - deviation)[None], [""], level)
    return first, _judged(
        f"The standard deviation of this change over benchmarks, for {', '.join(others)} minus that for {standard}, is "
        f"{_written(spread, ' points')}", spread, spread.above())


def _limited(scores: FineGrainedScores, level: float) -> tuple[Part, ...]:
    family, other = "domain generalization", "heuristic augmentation"
    methods_of = scores.of_family(family), scores.of_family(other)
    rows = scores.where(condition="")
    if not methods_of[0]:
        return (_missing(f"No run of {family}"),)
    best = [np.stack([scores.change(method) for method in methods]) for methods in methods_of if methods]
    ahead = [np.stack([leads(change[:, row], np.zeros(len(scores.seeds))) for row in rows]) for change in best if rows]
    if not ahead:
        return (_missing("No benchmark of the three shifts without a condition"),)
    change = estimate(ahead[0], scores.collections(rows), level)
    parts = [_judged(f"The change of the best {family} method (chosen on the other seeds) over "
                     f"{scores.baseline} is {_written(change, ' %')}; below {LIMITED:g} % counts as limited", change,
                     _below(change, LIMITED))]
    if not methods_of[1]:
        return (*parts, _missing(f"No run of {other} to compare with"))
    apart = estimate(ahead[0] - ahead[1], scores.collections(rows), level)
    return (*parts, _judged(f"Its change minus that of the best {other} is {_written(apart, ' points')}; below "
                            f"{LIMITED:g} counts as not much better", apart, _below(apart, LIMITED)))


def _conditions(scores: FineGrainedScores, level: float) -> tuple[Part, ...]:
    return _noise(scores, level), *_size(scores, level)


def _noise(scores: FineGrainedScores, level: float) -> Part:
    pairs = _ends(scores, "noise")
    if not pairs:
        return _missing("No shift was run at two levels of label noise")
    across, lost = agreement(scores, pairs, level)
    holds = across.above(CONSISTENT)
    if holds is False and not lost.above():
        holds = None
    return _judged(f"The rank correlation of methods between the least and the most label noise is {_written(across)}; "
                   f"above {CONSISTENT:g} counts as consistent", across, holds)


def _size(scores: FineGrainedScores, level: float) -> list[Part]:
    pairs = _ends(scores, "size")
    if not pairs:
        return [_missing("No shift was run at two data-set sizes")]
    parts, (few, many) = [], (list(side) for side in zip(*pairs, strict=True))
    heuristics = scores.of_family("heuristic augmentation")
    if heuristics:
        changes = np.mean([scores.change(method) for method in heuristics], axis=0)
        change = estimate(changes[few] - changes[many], scores.collections(few), level)
        parts.append(_judged(f"From the largest data set to the smallest the change of heuristic augmentation moves by "
                             f"{_written(change, ' points')}", change, _below(change, 0)))
    for method in ("pretrained", "stargan"):
        if method in scores.methods:
            change = estimate(scores.change(method)[few], scores.collections(few), level)
            parts.append(_judged(f"With the fewest items the change of {method} over {scores.against(method)} is "
                                 f"{_written(change, ' %')}", change, change.above()))
    return parts or [_missing("No run of heuristic augmentation, pretrained or stargan at two data-set sizes")]


def _ends(scores: FineGrainedScores, condition: str) -> list[tuple[int, int]]:
    """For every shift under a condition, the benchmarks with its least and its greatest strength."""
    by_shift: dict[tuple[str, ...], list[tuple[float, int]]] = {}
    for x, rows in rows_by(scores, condition).items():
        for row in rows:
            position = scores.places[row]
            key = (position.base,) if condition == "noise" else (
                position.collection, position.shift, position.label, position.factor)
            by_shift.setdefault(key, []).append((x, row))
    return [(min(pairs)[1], max(pairs)[1]) for pairs in by_shift.values() if len({x for x, _ in pairs}) > 1]


def _attributes(scores: FineGrainedScores, level: float) -> tuple[Part, ...]:
    rows = scores.where(condition="")
    key = [(position.collection, position.shift, position.n) for position in scores.places]
    pairs = [(a, b) for a in rows for b in rows if a < b and key[a] == key[b]
             and scores.places[a][2:4] != scores.places[b][2:4]]
    if not pairs:
        return (_missing("No collection was run with two pairs of label and factor under one shift"),)
    across, lost = agreement(scores, pairs, level)
    holds = _below(across, CONSISTENT)
    if holds and not lost.above():
        holds = None  # it is no higher between seeds of one benchmark: noise, not factors
    return (_judged(f"The rank correlation of methods between other labels and factors of a collection is "
                    f"{_written(across)}, {_written(lost)} lower than between seeds of one benchmark; below "
                    f"{CONSISTENT:g} counts as another order", across, holds),)


def _below(point: Estimate, than: float) -> bool | None:
    above = point.above(than)
    return None if above is None else not above


def _judged(text: str, point: Estimate, holds: bool | None) -> Part:
    why = "fewer than two seeds" if point.seeds < 2 else "the interval holds both answers"
    return Part(text, point, holds, "" if holds is not None else why)


def _missing(why: str) -> Part:
    return Part("", None, None, why)


def _written(point: Estimate, unit: str = "") -> str:
    """A number with its interval, or with what it lacks.

    >>> _written(Estimate(1.24, -0.5, 3.0, 3, 1, 1), " %"), _written(Estimate(2.0, float("nan"), float("nan"), 1, 1, 1))
    ('+1.2 % [−0.5, +3.0]', '+2.00 [one seed]')
    """
    if not point.benchmarks:
        return "an unknown amount"
    digits = 1 if unit else 2
    value, low, high = (f"{round(x, digits) + 0.0:+.{digits}f}".replace("-", "−") for x in point[:3])
    return f"{value}{unit} [{low}, {high}]" if point.seeds > 1 else f"{value}{unit} [one seed]"
