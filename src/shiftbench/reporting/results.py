"""The input of a page: scores, benchmarks and pictures, read once and passed to every section."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

import numpy as np
import pyarrow.parquet as pq

from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.tables import FAULTS
from shiftbench.data.benchmark import Benchmark, collection_if_there
from shiftbench.data.collection import Collection
from shiftbench.data.scores import RUN, VERSION_KEY, Scores
from shiftbench.scoring.listing import RunSource, run_folders
from shiftbench.scoring.reading import RunIndex
from shiftbench.scoring.runs import scores_of
from shiftbench.scoring.select import DEFAULT, Runs, chosen, chosen_means, setting_of
from shiftbench.sweeps.status import UNREADABLE, Status, counted, describe, folder_of

if TYPE_CHECKING:
    from shiftbench.sweeps.study import Study

HUMAN, PAIRWISE = "human", "pairwise_accuracy"
ANNOTATED = (PAIRWISE, f"{PAIRWISE}_gap", "answered", "agreement", "fleiss_kappa")
"""Metrics that a human study adds to a table of scores; they belong to people and models, not to runs."""
REMEDY = ("write its runs down, shiftbench select RUNS --rule NAME --allow-target --out chosen.parquet, and report "
          "those: shiftbench report chosen.parquet")
"""A report never shows runs chosen by target labels, except by the oracle in the section about rules."""

NO_STUDY = "A study selects among runs, and a table of scores has none: name a folder of runs."

Content = dict[str, Any]
"""The variables of a section's template. `figures` are its figures, `links` its anchors and heads if it has several."""


@dataclass(frozen=True, eq=False)
class Results:
    """The scores of a page in three forms, with their benchmarks, methods and runs."""

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


class Source(NamedTuple):
    """What a page or a table is about: scores, benchmarks with their folders, the runs, and those that are absent."""

    scores: Scores
    folders: Sequence[tuple[Benchmark, Benchmark | Path]]
    runs: RunIndex | None = None
    absent: Sequence[Status] = ()

    @property
    def benchmarks(self) -> list[Benchmark]:
        return [benchmark for benchmark, _ in self.folders]

    def chosen_by(self, rule: str) -> "Source":
        """The same with the means over the runs that a rule chooses, if the runs are available."""
        if self.runs is None:
            return self
        means = chosen_means(self.runs, self.scores, self.benchmarks, rule, remedy=REMEDY)
        return self._replace(scores=Scores.join([self.scores, means]))

    def pictures(self) -> list[Collection | None]:
        """The collections that images may be taken from; None where there is none, which a page allows."""
        collections = [collection_if_there(benchmark) for benchmark, _ in self.folders]
        return [None if collection is None or collection.foreign else collection for collection in collections]


def is_score_table(source: Any) -> bool:
    """Whether this is a table of scores, or the .parquet file of one."""
    if isinstance(source, Scores) or not isinstance(source, str | Path) or Path(source).suffix != ".parquet":
        return isinstance(source, Scores)
    try:
        return VERSION_KEY in (pq.read_schema(source).metadata or {})
    except (*FAULTS, OSError):
        return False  # the reader reports what is wrong


def is_runs(source: Any) -> TypeGuard[RunSource]:
    """Whether this is a folder of runs, or a list of runs and their folders."""
    return isinstance(source, list | tuple) or (isinstance(source, str | Path) and Path(source).is_dir())


def read_source(
    source: Scores | RunSource, benchmarks: Benchmark | Path | str | Sequence[Benchmark | Path | str] = (), *,
    rule: str = DEFAULT, study: "Study | Path | str | None" = None, tolerant: bool = False,
) -> Source:
    """Read a table of scores, or score runs and the means over the runs that `rule` chooses.

    With a study its runs alone count. A run that cannot be read is an error; if `tolerant`, it is absent.
    """
    return open_source(source, benchmarks, study=study, tolerant=tolerant).chosen_by(rule)


def open_source(
    source: Scores | RunSource, benchmarks: Benchmark | Path | str | Sequence[Benchmark | Path | str] = (), *,
    study: "Study | Path | str | None" = None, tolerant: bool = False,
) -> Source:
    """The same as `read_source`, before a rule has chosen."""
    if not is_runs(source):
        if study is not None:
            raise ShiftBenchError(NO_STUDY)
        if isinstance(benchmarks, Sequence) and not benchmarks:
            return Source(source if isinstance(source, Scores) else Scores.load(source), [])
        return Source(*scores_of(source, benchmarks))
    folders = source if isinstance(source, str | Path) else run_folders(source)
    if study is not None and not folders:
        raise ShiftBenchError(NO_STUDY)
    only, absent = counted(folders, study)
    unreadable: dict[str, str] | None = {} if tolerant else None
    index = RunIndex(source, only, unreadable)
    scores, pairs = scores_of(index, benchmarks, unreadable)
    for run, why in (unreadable or {}).items():
        folder = folder_of(folders, run)
        absent.append(describe(folder, UNREADABLE)._replace(reason=why.replace(f"{folder.parent}/", "")))
    return Source(scores, pairs, index, absent)


def check_compared(compare: Sequence[str], source: Scores | RunSource) -> Sequence[str]:
    """The two methods to compare item by item, or none; an error unless there are none or two, of runs."""
    if len(compare) not in (0, 2):
        raise ShiftBenchError(f"compare names {len(compare)} methods, but it takes two: erm,group_dro.")
    if compare and not is_runs(source):
        raise ShiftBenchError("Two methods are compared item by item, by predictions: report on a folder of runs.")
    return compare


def of_runs(scores: Scores) -> Scores:
    """The scores without those of a human study."""
    return scores.take(~np.isin(scores["metric"], ANNOTATED))


def shown_scores(scores: Scores, benchmarks: Sequence[Benchmark] = (), rule: str = DEFAULT) -> Scores:
    """The scores that a report's tables show: one run per benchmark, method and seed, chosen by the rule.

    Where every method has one setting nothing is chosen and the scores stay as they are; the parts of benchmarks that
    leave out a domain are dropped. Where the rule cannot choose, each setting is a method of its own. Means over the
    chosen runs are kept where they were scored, which `setting_of(rule)` identifies; other means predate the choice.
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
    labels = [f"{name} ({setting or run})" for name, setting, run in zip(
        undecided.names.tolist(), undecided["setting"].tolist(), undecided["run"].tolist(), strict=True)]
    undecided = undecided.assign(label=np.asarray(labels, np.str_))
    return Scores.join([kept.take(~inside), choice, means, undecided])
