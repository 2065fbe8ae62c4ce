"""The page: scores and benchmarks in, one HTML file and the files of its figures out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

import numpy as np
import pyarrow.parquet as pq

from shiftbench import __version__
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.files import write_text
from shiftbench.core.registry import Registry, listed, load_installed
from shiftbench.core.tables import FAULTS
from shiftbench.data.benchmark import SPLITS, Benchmark, collection_if_there
from shiftbench.data.collection import Collection
from shiftbench.data.scores import MEAN, RUN, VERSION_KEY, Scores
from shiftbench.reporting.charts import css, drawn
from shiftbench.reporting.score_tables import breakable, enumeration, methods_in, pivot, probability
from shiftbench.reporting.sections.families import ACCURACY, families, findings
from shiftbench.scoring.intervals import LEVEL
from shiftbench.scoring.listing import RunSource, run_folders
from shiftbench.scoring.metrics import in_unit, percent
from shiftbench.scoring.reading import RunIndex
from shiftbench.scoring.rules import DEFAULT, Runs
from shiftbench.scoring.runs import scores_of
from shiftbench.scoring.select import chosen, chosen_means, setting_of
from shiftbench.sweeps.status import UNREADABLE, Status, counted, describe, folder_of
from shiftbench.sweeps.status import summary as summary_of

if TYPE_CHECKING:
    from shiftbench.sweeps.study import Study

HUMAN, PAIRWISE = "human", "pairwise_accuracy"
ANNOTATED = (PAIRWISE, f"{PAIRWISE}_gap", "answered", "agreement", "fleiss_kappa")
"""Metrics that a human study adds to a table of scores; they belong to people and models, not to runs."""
REMEDY = ("write its runs down, shiftbench select RUNS --rule NAME --allow-target --out chosen.parquet, and report "
          "those: shiftbench report chosen.parquet")
"""A report never shows runs chosen by target labels, except by the oracle in the section about rules."""

NO_STUDY = "A study selects among runs, and a table of scores has none: name a folder of runs."

FOLDER = Path(__file__).parent
LISTED = 200
"""The most absent runs that the page names."""


def report(
    scores: Scores,
    benchmarks: Sequence[Benchmark],
    out: Path | str,
    *,
    collections: Sequence[Collection | None] | None = None,
    title: str = "shiftbench report",
    level: float = LEVEL,
    rule: str = DEFAULT,
    index: RunIndex | None = None,
    compare: Sequence[str] = (),
    absent: Sequence[Status] = (),
    figures: Path | str | None = None,
) -> Path:
    """Write one self-contained HTML page: findings, the sections that apply, a card per benchmark.

    Where methods have several settings the tables show the runs that `rule` chooses, which may use no target label, and
    a section sets all rules side by side. Pictures come from the collection whose digest the card names. `level` is
    the level of the scores' intervals. `index` has the runs behind the scores: with it, benchmarks with hard items show
    those on which the two methods of `compare` differ most. `absent` are the runs that the scores lack. `figures` is a
    folder for every figure as SVG and PNG, and for its table as CSV and LaTeX.
    """
    results = results_of(scores, benchmarks, collections or (), level, rule, index, compare)
    load_installed()
    contents = {name: content for name, section in SECTIONS.items()
                if (content := section.content(results)) is not None}
    chapters = [chapter for content in contents.values() for chapter in content["chapters"]]
    summary = summary_of(run.state for run in absent) if absent else ""
    text = environment().get_template("page.html").render(
        title=title, version=__version__, level=f"{100 * level:g}", methods=results.methods,
        overview=_overview(results), findings=findings(results.shown, results.benchmarks),
        chosen=contents["selection"]["short"] if "selection" in contents else "", absent=summary,
        kinds={benchmark.target.kind for benchmark in results.benchmarks},
        chapters=[*chapters, _absent(absent, summary)] if absent else chapters)
    if figures is not None:
        from shiftbench.reporting.figures import write_figures

        write_figures([figure for content in contents.values() for figure in content["figures"]], figures)
    return write_text(out, text)


@cache
def environment(*folders: Path) -> Any:
    """The templates of a page, from `folders` first, then ours; names are escaped. They are compiled once."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    templates = Environment(loader=FileSystemLoader([*folders, FOLDER]), autoescape=True,
                            undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    templates.filters |= {"percent": percent, "in_unit": in_unit, "breakable": breakable, "probability": probability,
                          "drawn": drawn}
    templates.globals["style"] = css() + (FOLDER / "style.css").read_text(encoding="utf-8")
    return templates


def _overview(results: "Results") -> str:
    """Counts of what was measured."""
    scores, benchmarks = results.runs, results.benchmarks
    names = {benchmark.name for benchmark in benchmarks}
    single, means = scores.where(stat=RUN), scores.where(stat=MEAN)
    pairs = set(zip(single["benchmark"].tolist(), single["run"].tolist(), strict=True))
    counts = dict(zip(zip(means["benchmark"].tolist(), means.names.tolist(), strict=True), means["runs"].tolist(),
                      strict=True))
    runs = sum(benchmark in names for benchmark, _ in pairs) or sum(counts.values())
    sources = sorted({str((b.card.get("collection") or {}).get("name", "")) for b in benchmarks} - {""})
    origin = f" made from the collection{'s' if len(sources) > 1 else ''} {enumeration(sources)}" if sources else ""
    measured = f"{_many(len(results.shown_methods), 'method')} in {_many(runs, 'run')}" if results.shown_methods else \
        "No method yet"
    return f"{measured} on {_many(len(benchmarks), 'benchmark')}{origin}."


def _many(n: int, word: str) -> str:
    return f"{n:,} {word}{'' if n == 1 else 's'}"


def _absent(runs: Sequence[Status], summary: str) -> "Chapter":
    """The runs that failed, have not ended or are left over."""
    from markupsafe import Markup

    heads = ("Run", "State", "Benchmark", "Method", "Seed", "Reason")
    rows = [(Markup("<code>{}</code>").format(run.run), run.state, run.benchmark or "–", run.method or "–",
             run.seed if run.seed >= 0 else "–", run.reason) for run in runs[:LISTED]]
    blocks: list[Block] = [("under", {"text": summary}),
                           ("plain", {"heads": heads, "rows": rows, "names": (1, 2, 3, 5)})]
    if len(runs) > LISTED:
        blocks.append(("foot", {"text": f"… and {len(runs) - LISTED} more."}))
    return Chapter("absent", "Runs that are not on this page", blocks)


# What a page is about

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


def results_of(
    scores: Scores, benchmarks: Sequence[Benchmark], collections: Sequence[Collection | None] = (),
    level: float = LEVEL, rule: str = DEFAULT, index: RunIndex | None = None, compare: Sequence[str] = (),
) -> Results:
    """The input of the sections of a page: chosen scores, benchmarks and methods in the order of the page."""
    runs = of_runs(scores)
    shown = shown_scores(runs, benchmarks, rule)
    by_name = {name: _unknown(name) for name in sorted(set(shown["benchmark"].tolist()))}
    by_name |= {benchmark.name: benchmark for benchmark in benchmarks
                if benchmark.name in by_name or "left_out" not in benchmark.card}
    order = [benchmark for family in families(list(by_name.values())) for benchmark in family.members]
    measures = sorted({ACCURACY, *(benchmark.headline for benchmark in order)})
    methods = methods_in(row["method"] for metric, by in measures
                         for split in SPLITS for row in pivot(shown, metric, split, by=by))
    others = [name for name in methods_in(runs.names.tolist()) if name not in methods]
    return Results(scores, runs, shown, order, benchmarks, methods, [*methods, *others], level, rule,
                   {collection.digest: collection for collection in collections if collection is not None}, index,
                   compare)


def _unknown(name: str) -> Benchmark:
    """A placeholder for a benchmark that has scores but was not given: its numbers are shown, its card is empty."""
    none, texts = np.zeros(0, np.int64), np.zeros(0, np.str_)
    return Benchmark(texts, texts, none, none, none, {"label": (), "domain": (), "group": ()},
                     {"name": name, "notes": ["The benchmark was not given to the report, so its card is empty."]})


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


# Sections

Block = tuple[str, Mapping[str, Any]]
"""A part of a section: a macro of page.html, and what it takes."""
Content = dict[str, Any]
"""What a section shows: its `chapters`, and all of its `figures`."""


class Chapter(NamedTuple):
    """Blocks under a heading; `link` is its entry in the contents where that is not the heading."""

    anchor: str
    head: str
    blocks: Sequence[Block]
    link: str = ""


class Section(NamedTuple):
    """A section of a page, and what a benchmark must have for the section to be about it.

    Its module is `sections.NAME`, with a function `content`, and is loaded where the section applies. A user's section
    has a `head` and a `function` in its place. The content is None where the scores lack what the section shows.
    """

    name: str
    head: str = ""
    shifts: tuple[str, ...] = ()  # one of these shifts; empty: any
    column: str = ""  # a further column of its rows
    classes: bool = False  # classes as its target
    function: Callable[[Results], Content | None] | None = None

    def applies(self, benchmark: Benchmark) -> bool:
        return (not self.shifts or benchmark.card.get("shift") in self.shifts) and (
            not self.column or self.column in benchmark.extra) and (
            not self.classes or benchmark.target.has_classes)

    def content(self, results: Results) -> Content | None:
        if not any(map(self.applies, results.benchmarks)):
            return None
        if self.function is not None:
            return self._own(self.function(results))
        content: Content | None = import_module(f"shiftbench.reporting.sections.{self.name}").content(results)
        return content

    def _own(self, content: Content | None) -> Content | None:
        """The chapter of a user's section: texts, then tables, then figures."""
        if content is None:
            return None
        if not isinstance(content, dict):
            raise ShiftBenchError(f"Section '{self.name}' gives {type(content).__name__}, but must give a dict of "
                                  f"{', '.join(OWN)}, or None.")
        for key in content:
            if key not in OWN:
                raise unknown("entry", key, OWN, f"section '{self.name}'")
        figures = list(content.get("figures", ()))
        blocks: list[Block] = [("under", {"text": breakable(text)}) for text in listed(content.get("text", ()))]
        blocks += [("plain", {"heads": list(map(breakable, heads)), "caption": breakable(caption), "rows": [
            [value if number else breakable(value) for number, value in enumerate(row)] for row in rows]})
            for caption, heads, rows in content.get("tables", ())]
        blocks += [("plot", {"figure": figure}) for figure in figures]
        return {"chapters": [Chapter(self.name, self.head, blocks)], "figures": figures}


OWN = ("text", "tables", "figures")
"""What the content of a user's section may have."""


SECTIONS: Registry[Section] = Registry((section.name, section) for section in (
    Section("families", classes=True),  # compared by accuracy, which other targets do not have
    Section("fine_grained", shifts=("spurious", "low_data", "unseen", "given")),
    Section("breeds", shifts=("breeds",)),
    Section("nooch", column="kind"),
    Section("selection"),
    Section("cards"),
))
