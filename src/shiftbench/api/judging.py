"""From predictions to scores, choices among settings, pages, and human baselines."""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shiftbench.api.folders import Advance, Place, benchmark_of, collection_of, places
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.registry import listed
from shiftbench.data.benchmark import CODED, Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.prediction_lists import Answers
from shiftbench.data.predictions import Predictions, read_predictions
from shiftbench.data.scores import RUN, Scores

if TYPE_CHECKING:
    from shiftbench.human import Key
    from shiftbench.leaderboard import Board
    from shiftbench.scoring import RunIndex
    from shiftbench.scoring.select import Selection
    from shiftbench.shifts.context.challenge_sets import Ranked
    from shiftbench.sweeps.status import Status
    from shiftbench.sweeps.study import Study


def score(
    benchmark: Benchmark | Place, *predictions: Predictions | Answers | Place, study: Place | None = None,
    nooch: Place | None = None, task: str = "", by: str | Sequence[str] = (),
    collection: Collection | Place | None = None, ignore_splits: bool = False,
    columns: Mapping[str, str] | None = None, ignore_extra: bool = False, **options: Any,
) -> Scores:
    """Score predictions of any model on a benchmark: average, per group and worst group, each with an interval.

    Several models are also compared, on the same items: rows of stat `difference` say how far each is behind the best
    one, with an interval and a p-value (docs/statistics.md).

    `by` are further groupings of any columns, as "region" or "male+female,label" (docs/groups.md); a column that the
    benchmark does not keep is looked for in its collection.

    Predictions whose `split` says `train` of items that the benchmark holds out are refused: the model has seen them.
    `ignore_splits` scores them all the same. `columns` says what the files call our columns, {"item": "img",
    "prediction": "pred"}; `ignore_extra` leaves out, and counts, predictions of items that the benchmark has not.

    Files that end in .json are annotators' answers to a study, whose key is in the folder `study`: their accuracy and
    agreement come with every model's accuracy on the same pairs of superclasses. `nooch` is the folder of NOOCh's
    published lists, which then say what is hard; no benchmark is needed with it: score("my.csv", nooch="nooch").
    """
    from shiftbench.scoring import score as score_one
    from shiftbench.scoring import versus

    by = listed(by)
    if "metrics" in options:
        options["metrics"] = listed(options["metrics"], ",")
    if nooch is not None and (columns or ignore_extra):
        raise ShiftBenchError("--column and --ignore-extra are for a benchmark, not for NOOCh's lists: rename the "
                              "columns to item and prediction.")
    if nooch is not None:
        return _score_on_lists(benchmark, predictions, nooch, task, ignore_splits,
                               {**options, **({"by": by} if by else {})})
    loaded = benchmark_of(benchmark)
    if not predictions:
        raise ShiftBenchError("There are no predictions to score. Name at least one file.")
    if by:
        options |= {"by": by, "collection": collection_for(benchmark, loaded, by, collection)}
    answers = [file for file in predictions if is_answers(file)]
    models = {name: read_predictions(file, loaded, ignore_splits=ignore_splits, columns=columns,
                                     ignore_extra=ignore_extra)
              for name, file in zip(_names(predictions), predictions, strict=True) if not is_answers(file)}
    parts = [score_one(loaded, model, run=name, method=name, **options) for name, model in models.items()]
    if len(models) > 1:
        parts.append(versus(loaded, models, **{name: value for name, value in options.items() if name != "metrics"}))
    if answers or study is not None:
        parts += _score_people(loaded, answers, models, study, {
            name: options[name] for name in ("level", "replicates") if name in options})
    return Scores.join(parts)


def is_answers(file: Any) -> bool:
    """Whether an argument of `score` is a file of annotators' answers: its name ends in .json."""
    return isinstance(file, str | Path) and Path(file).suffix.lower() == ".json"


def _score_people(
    benchmark: Benchmark, answers: Sequence[Any], models: Mapping[str, Predictions | Answers], study: Place | None,
    options: Mapping[str, Any],
) -> list[Scores]:
    """Scores of annotators, and of models on the same pairs of superclasses."""
    from shiftbench.human import find_key, human_scores, model_scores, read_answers

    key = find_key(study, answers)
    key.check(benchmark)
    people = [human_scores(benchmark, key, read_answers(answers, key), **options)] if answers else []
    classifiers = [(name, model) for name, model in models.items() if isinstance(model, Predictions)]
    return [*people, model_scores(benchmark, key, classifiers, **options)]


def _names(predictions: Sequence[Predictions | Answers | Place]) -> list[str]:
    """A name for each: the name of its file, with its folder where two files have the same name, as in runs.

    >>> _names(["mine.csv", "runs/a/predictions.parquet", "runs/b/predictions.parquet"])
    ['mine', 'a/predictions', 'b/predictions']
    """
    paths = [Path("predictions") if isinstance(source, Predictions | Answers) else Path(source)
             for source in predictions]
    names = [path.stem for path in paths]
    names = [f"{path.parent.name}/{name}" if names.count(name) > 1 and path.parent.name else name
             for path, name in zip(paths, names, strict=True)]
    return [f"{name} {number + 1}" if names.count(name) > 1 else name for number, name in enumerate(names)]


def collection_for(
    benchmark: Benchmark | Place, loaded: Benchmark, by: Sequence[str], collection: Collection | Place | None
) -> Collection | None:
    """The collection, if it is given or a grouping has a column that the benchmark's rows lack."""
    from shiftbench.data.groupings import columns_in
    from shiftbench.data.questions import base_of

    own = {*CODED, *loaded.extra}
    if collection is None and all(base_of(name, own) in own for grouping in by for name in columns_in(grouping, own)):
        return None
    return collection_of(benchmark, collection, needed=False)


def _score_on_lists(
    benchmark: Benchmark | Place, predictions: Sequence[Predictions | Answers | Place], folder: Place, task: str,
    ignore_splits: bool, options: Mapping[str, Any],
) -> Scores:
    """`score` on published lists; the first argument is a benchmark, or a file of predictions like the others."""
    from shiftbench.scoring import score as score_one
    from shiftbench.scoring.official import challenges, no_at_ties, on_lists

    parts = []
    if not isinstance(benchmark, Benchmark) and not Path(benchmark).exists():
        raise ShiftBenchError(f"{benchmark}: there is no such file. With nooch (--nooch) the first name is a file of "
                              "predictions, or the folder of a benchmark.")
    if not isinstance(benchmark, Benchmark) and Path(benchmark).is_file():
        for name, source in zip(_names((benchmark, *predictions)), (benchmark, *predictions), strict=True):
            if isinstance(source, Predictions | Answers):
                raise ShiftBenchError("Without a benchmark, name files of predictions to score on published lists.")
            parts += [score_one(challenge, loaded, run=f"{name}, {challenge.name}", method=name, **options)
                      for challenge, loaded in challenges(source, folder, task, ignore_splits=ignore_splits)]
        return Scores.join(parts)
    own = benchmark_of(benchmark)
    if not predictions:
        raise ShiftBenchError("There are no predictions to score. Name at least one file.")
    for name, source in zip(_names(predictions), predictions, strict=True):
        if isinstance(source, Answers):
            raise ShiftBenchError("Published lists are of classes; these predictions are boxes or tokens.")
        loaded = read_predictions(source, own, ignore_splits=ignore_splits)
        positive = task.replace("_", " ") or str(own.card.get("positive") or "")
        if isinstance(loaded, Predictions) and len(loaded.classes) == 2 and positive in loaded.classes:
            loaded = no_at_ties(loaded, positive)
        parts += [score_one(challenge, loaded, run=f"{name}, {challenge.name}", method=name, **options)
                  for challenge in on_lists(own, folder, task)]
    return Scores.join(parts)


def select(
    source: Scores | Place, rule: str = "", *, target: str = "accuracy", benchmarks: Place | Sequence[Place] = (),
    allow_target: bool = False,
) -> "Selection":
    """Which of several settings counts: what a rule chooses, or all rules side by side with their regret.

    A single rule that used labels of the target is refused unless `allow_target`.
    """
    from shiftbench.scoring.select import RULES, refuse_target
    from shiftbench.scoring.select import select as apply

    scores, folders = scores_of(source, benchmarks)
    selection = apply(scores, [rule] if rule else tuple(RULES), targets=[target],
                      benchmarks=[benchmark for benchmark, _ in folders])
    refuse_target(selection.choices if rule else (), allow_target=allow_target)
    return selection


def scores_of(
    source: "Scores | Place | RunIndex", benchmarks: Place | Sequence[Place] = (),
    unreadable: dict[str, str] | None = None,
) -> tuple[Scores, list[tuple[Benchmark, Path]]]:
    """The scores of a table or of a folder of runs, and the benchmarks they are about with their folders.

    Benchmarks are those given and, of runs, those that they were trained on; scores find theirs by its digest. A run
    that cannot be read is an error, or is noted in `unreadable` with the reason.
    """
    from shiftbench.scoring import RunIndex, named, score_runs

    folders = {Path(folder): Benchmark.load(folder) for folder in places(benchmarks)}
    if isinstance(source, Scores):
        scores = source
    elif isinstance(source, RunIndex) or Path(source).is_dir():
        index = RunIndex.of(source)
        scores = score_runs(index, benchmarks=list(folders.values()), left_out=unreadable)
        known = {benchmark.digest for benchmark in folders.values()}
        folders |= {folder: index.benchmark(folder)
                    for folder in index.benchmark_folders(set(scores["run"].tolist()), known)}
    else:
        scores = Scores.load(source)
    return scores, [(benchmark, folder) for folder, loaded in folders.items() for benchmark in named([loaded], scores)]


def hardest(source: Scores | Place, n: int = 12, *, method: str = "erm", split: str = "test") -> "list[Ranked]":
    """Rank tasks (benchmarks) by how much more hard items cost than the average item; the first n."""
    from shiftbench.shifts.context.challenge_sets import hardest_tasks

    scores = scores_of(source)[0].where(stat=RUN, split=split, metric="nll", by="")
    losses: dict[str, dict[str, list[float]]] = {"hard": {}, "all": {}}
    for row in scores.take(scores.names == method):
        if row["group"] in losses:
            losses[row["group"]].setdefault(row["benchmark"], []).append(row["value"])
    if not losses["hard"]:
        raise ShiftBenchError(f"No run of method '{method}' has a loss on hard items of {split}. Train it on "
                              "benchmarks of shift 'context' first, or name another method.")
    hard, every = ({task: sum(values) / len(values) for task, values in by_task.items()} for by_task in losses.values())
    return hardest_tasks(hard, every, min(n, len(hard)))


def power(
    benchmark: Benchmark | Place, difference: float | None = None, *, split: str = "test", **known: Any
) -> list[dict[str, Any]]:
    """Per group of a split: its items, the smallest difference they show, and what a difference (a share) needs."""
    from shiftbench.scoring.intervals import group_power

    loaded = benchmark_of(benchmark)
    return group_power({"all": len(loaded.rows(split)), **loaded.counts()[split]}, difference, **known)


def report(
    source: Scores | Place, out: Place, *, benchmarks: Place | Sequence[Place] = (), rule: str = "id",
    title: str = "shiftbench report", compare: str | Sequence[str] = (), study: "Study | Place | None" = None,
    figures: Place | None = None, left_out: "list[Status] | None" = None,
) -> Path:
    """One self-contained HTML page from a folder of runs or a table of scores.

    Runs that failed, that have not ended or that cannot be read are in no number; they are named on the page and in
    a warning, and added to `left_out`. With `study` the page has the runs of
    that study alone; what is missing of it, and what else lies in the folder, is named as well.

    Where a method has several settings, `rule` chooses the one that counts; one that used target labels is refused.
    `compare` names two methods of a runs folder: of benchmarks with hard items the page shows those on which the two
    differ most; without it the baseline and the method that is best on hard items.

    `figures` is a folder: each figure is written there as SVG and PNG, and the table behind it as CSV and LaTeX.
    """
    from shiftbench.reporting import report as write_report
    from shiftbench.reporting.results import REMEDY
    from shiftbench.scoring import RunIndex
    from shiftbench.scoring.select import chosen_means
    from shiftbench.sweeps.status import UNREADABLE, describe

    absent: list[Status] = []
    compare = listed(compare, ",")
    if len(compare) not in (0, 2):
        raise ShiftBenchError(f"compare names {len(compare)} methods, but it takes two: erm,group_dro.")
    if isinstance(source, Scores) or not Path(source).is_dir():
        if compare:
            raise ShiftBenchError("Two methods are compared item by item, by predictions: report on a folder of runs.")
        if study is not None:
            raise ShiftBenchError("A study says which runs belong to it, and scores do not: report on a folder of "
                                  "runs.")
        scores, folders = scores_of(source, benchmarks)
        loaded, index = [benchmark for benchmark, _ in folders], None
    else:
        only, absent = runs_of(source, study)
        unreadable: dict[str, str] = {}
        index = RunIndex(source, only, unreadable)
        scores, folders = scores_of(index, benchmarks, unreadable)
        absent += [describe(Path(source) / run, UNREADABLE)._replace(reason=why) for run, why in unreadable.items()]
        loaded = [benchmark for benchmark, _ in folders]
        scores = Scores.join([scores, chosen_means(index, scores, loaded, rule, remedy=REMEDY)])
    collections = [collection_of(folder, None, needed=False) for _, folder in folders]
    # A page can do without pictures.
    images = [None if collection is None or collection.foreign else collection for collection in collections]
    page = write_report(scores, loaded, out, collections=images, title=title, rule=rule, index=index, compare=compare,
                        absent=absent, figures=figures)
    if absent:
        warnings.warn(f"{source}: {_sentence(absent)}", UserWarning, stacklevel=2)
    if left_out is not None:
        left_out += absent
    return page


def runs_of(source: Place, study: "Study | Place | None" = None) -> "tuple[list[str] | None, list[Status]]":
    """Which runs of a folder count, None for all, and those that are missing or in the way (`sweeps.status.left_out`).

    With a study its own count.
    """
    from shiftbench.sweeps.status import LEFT_OVER, left_out
    from shiftbench.sweeps.study import Study

    if study is None:
        return None, left_out(source)
    jobs = (study if isinstance(study, Study) else Study.load(study)).jobs(source, collections=False)
    absent = left_out(source, jobs)
    lacking = {status.run for status in absent if status.state != LEFT_OVER}
    done = [run for run in dict.fromkeys(job.run.id for job in jobs) if run not in lacking]
    if not done:
        raise ShiftBenchError(f"{source}: none of the {len(jobs):,} runs that the study asks for is done. Is it the "
                              "study that was swept, with the same --set?")
    return done, absent


def _sentence(absent: "Sequence[Status]", most: int = 5) -> str:
    """The runs that a report lacks, the first of them by name."""
    from shiftbench.sweeps.status import summary

    words = []
    for status in absent[:most]:
        known = (status.method, status.benchmark and f"on {status.benchmark}",
                 f"seed {status.seed}" if status.seed >= 0 else "", status.reason.rstrip("."))
        words.append(f"{status.run} ({status.state}: {', '.join(fact for fact in known if fact)})")
    more = f" and {len(absent) - most:,} more" if len(absent) > most else ""
    return f"not in the report are {summary(status.state for status in absent)}: {'; '.join(words)}{more}."


def study(
    benchmark: Benchmark | Place, out: Place, *, collection: Collection | Place | None = None,
    progress: Advance | None = None, **design: Any,
) -> "Key":
    """A web page on which people sort images into two unnamed superclasses, and its key; `score` reads their answers.

    `design` are the fields of `shiftbench.human.Design`: partners, examples, questions, conditions, size, rescale,
    seed. Hand out the folder `page` of `out`, and keep `key.json`.
    """
    from shiftbench.core.registry import make
    from shiftbench.human import Design, write_study

    images = collection_of(benchmark, collection)
    assert images is not None
    return write_study(benchmark_of(benchmark), images, out, make(Design, design, "study"), progress)


def board(
    folder: Place, benchmark: Benchmark | Place | Sequence[Benchmark | Place], out: Place | None = None, *,
    metric: str = "", seeds: int | None = None, title: str = "",
) -> "Board":
    """A leaderboard of a folder of submissions, each number recomputed from its predictions; see docs/board.md.

    Ranked by `metric` on test, by default what the benchmark's target has for accuracy; of several benchmarks, folds of
    one, by its mean over them. A submission of another benchmark, with too few seeds or against the rules is listed
    with the reason. `out` is the folder for index.html, board.json and board.csv.
    """
    from shiftbench.leaderboard import make_board, make_folds, write_board

    if isinstance(benchmark, Sequence) and not isinstance(benchmark, str):
        ranking = make_folds(folder, [benchmark_of(fold) for fold in benchmark], metric=metric)
    else:
        ranking = make_board(folder, benchmark_of(benchmark), metric=metric, seeds=seeds)
    if out is not None:
        write_board(ranking, out, title=title)
    return ranking
