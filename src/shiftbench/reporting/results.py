"""What a page is made of: scores, benchmarks and pictures, read once and passed to every section."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.scores import RUN, Scores
from shiftbench.scoring.reading import RunIndex
from shiftbench.scoring.select import DEFAULT, Runs, chosen, setting_of

HUMAN, PAIRWISE = "human", "pairwise_accuracy"
ANNOTATED = (PAIRWISE, f"{PAIRWISE}_gap", "answered", "agreement", "fleiss_kappa")
"""Metrics that a human study adds to a table of scores; they belong to people and models, not to runs."""
REMEDY = ("write its runs down, shiftbench select RUNS --rule NAME --allow-target --out chosen.parquet, and report "
          "those: shiftbench report chosen.parquet")
"""A report never shows runs chosen by target labels, except by the oracle in the section about rules."""

Content = dict[str, Any]
"""The variables of a section's template. `figures` are its figures, `links` its anchors and heads if it has several."""


@dataclass(frozen=True, eq=False)
class Results:
    """The scores of a page in three forms, and what belongs to them."""

    scores: Scores  # as given
    runs: Scores  # those of runs alone
    shown: Scores  # those of the runs that the rule chose
    benchmarks: Sequence[Benchmark]  # in the order of the page
    known: Sequence[Benchmark]  # all given benchmarks, including the parts that leave a domain out
    shown_methods: Sequence[str]  # those of the tables
    methods: Sequence[str]  # these and all others, in the order of their colours
    level: float
    rule: str
    images: Mapping[str, Collection]  # by digest
    index: RunIndex | None = None  # the runs behind the scores, where they are available
    compare: Sequence[str] = ()  # two methods whose items are compared; default: see nooch.compared


class Section(NamedTuple):
    """A section of a page: which benchmarks it is about, and its content.

    Its template is `sections/NAME.html`; `anchor` and `head` are its entry in the contents.
    """

    name: str
    anchor: str
    head: str
    applies: Callable[[Benchmark], bool]
    content: Callable[[Results], Content | None]


def of_runs(scores: Scores) -> Scores:
    """The scores without those of a human study."""
    return scores.take(~np.isin(scores["metric"], ANNOTATED))


def shown_scores(scores: Scores, benchmarks: Sequence[Benchmark] = (), rule: str = DEFAULT) -> Scores:
    """The scores that a report's tables show: one run per benchmark, method and seed, chosen by the rule.

    Where every method has one setting nothing is chosen and the scores stay as they are; the parts of benchmarks that
    leave out a domain are dropped. Where the rule cannot choose, each setting is a method of its own. Means over the
    chosen runs are kept where they were scored, which `setting_of(rule)` tells; other means came before the choice.
    """
    runs = Runs(scores)
    kept = scores.take(np.isin(scores["benchmark"], [runs.benchmarks[code] for code in runs.originals]))
    crowded = runs.several
    if not crowded:
        return kept
    choice = chosen(scores.take(np.isin(scores["benchmark"], sorted(crowded))), rule, benchmarks=benchmarks,
                    remedy=REMEDY)
    decided = set(zip(choice["benchmark"].tolist(), choice.names.tolist(), strict=True))
    inside = np.isin(kept["benchmark"], sorted(crowded))
    means = kept.take(inside & (kept["stat"] != RUN) & (kept["setting"] == setting_of(rule)))
    undecided = kept.take(inside & (kept["stat"] == RUN) & np.asarray(
        [pair not in decided for pair in zip(kept["benchmark"].tolist(), kept.names.tolist(), strict=True)], np.bool_))
    words = [f"{name} ({setting or run})" for name, setting, run in zip(
        undecided.names.tolist(), undecided["setting"].tolist(), undecided["run"].tolist(), strict=True)]
    undecided = undecided.assign(label=np.asarray(words, np.str_))
    return Scores.join([kept.take(~inside), choice, means, undecided])
