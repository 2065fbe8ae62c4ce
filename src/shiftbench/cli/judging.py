"""Verbs that judge predictions: scores, failures, release, choice of settings, the cost of the shift, tables.

    shiftbench score BENCHMARK PREDICTIONS…
    shiftbench audit PREDICTIONS --data TABLE|COLLECTION|BENCHMARK
    shiftbench gate NEW [--against OLD] --data TABLE|COLLECTION|BENCHMARK
    shiftbench select SCORES|RUNS [--rule NAME]
    shiftbench gap RUNS…
    shiftbench table RUNS|SCORES --format latex
    shiftbench conflicts BENCHMARK --out FOLDER
"""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shiftbench import api as verbs
from shiftbench.cli.command import (
    Device,
    IgnoreExtra,
    Json,
    Methods,
    Names,
    Origin,
    Plugins,
    Quiet,
    Seeds,
    Settings,
    console,
    note,
    noted,
    pairs,
    print_json,
    print_table,
    progress,
    say,
)
from shiftbench.core.errors import ShiftBenchError

if TYPE_CHECKING:
    from shiftbench.auditing.findings import Audit, Finding


def score(
    benchmark: Annotated[Path, typer.Argument(help="Folder of a benchmark; not needed with --nooch.")],
    predictions: Annotated[list[Path] | None, typer.Argument(help="Parquet or CSV files with a column of item ids, and "
                                                            "JSON files of annotators' answers.")] = None,
    by: Annotated[list[str] | None, typer.Option(
        help="Score by further groups, from any columns: region, or urban,label, or male+female,label, or "
             "region!Other; may be repeated.")] = None,
    metrics: Annotated[str, typer.Option(
        help="Further metrics, separated by commas: auc, macro_recall, or one of your own (--import).")] = "",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Also write the scores: .parquet or .csv.")] = None,
    replicates: Annotated[int, typer.Option(
        min=0, help="Bootstrap replicates for metrics without a formula; 0 turns all intervals off.")] = 1000,
    level: Annotated[float, typer.Option(help="Level of the intervals.")] = 0.95,
    study: Annotated[Path | None, typer.Option(
        help="Folder of the human study that the annotators answered; default: the one beside the answers.")] = None,
    nooch: Annotated[Path | None, typer.Option(
        help="Folder of NOOCh's published lists, which say which images are hard.")] = None,
    task: Annotated[str, typer.Option(help="Class of the lists, if the folder has lists of several classes.")] = "",
    collection: Annotated[Path | None, typer.Option(help="Where its collection is now, for columns of --by.")] = None,
    ignore_splits: Annotated[bool, typer.Option("--ignore-splits", help="Score even if the predictions call items "
                                                "'train' that the benchmark holds out.")] = False,
    column: Annotated[list[str] | None, typer.Option(help="What the file calls a column of ours: --column item=img "
                                                     "--column prediction=pred; or confidence.")] = None,
    name: Names = None,
    method: Methods = None,
    setting: Settings = None,
    seed: Seeds = None,
    ignore_extra: IgnoreExtra = False,
    plugins: Plugins = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Score any model's predictions: on average, in every group and in the worst group, each with an interval.

    A file has a column `item` and either `prediction`, maybe with `confidence`, or one column of scores per class.
    With columns `method`, `model`, `setting` or `seed` it may hold several models.

    shiftbench score benchmarks/cat-dog my_model.csv --json

    shiftbench score benchmarks/mine other.csv --column item=img --column prediction=pred --ignore-extra

    shiftbench score benchmarks/mine a0.csv a1.csv --method forest --seed 0 --seed 1

    shiftbench score benchmarks/fmow my_model.csv --by region!Other --by region,year

    shiftbench score benchmarks/cat-dog my_model.csv --import my_metrics.py --metrics auc,cost

    shiftbench score benchmarks/breeds my_model.csv answers/*.json --study studies/breeds

    shiftbench score my_model.csv --nooch nooch --task "fire hydrant"
    """
    from shiftbench.data.predictions import is_answers
    from shiftbench.reporting.score_tables import to_json
    from shiftbench.reporting.terminal import score_tables

    files = predictions or []
    with noted():
        scores = verbs.score(benchmark, *files, replicates=replicates, level=level, study=study, nooch=nooch,
                             task=task, by=by or (), metrics=metrics, collection=collection,
                             ignore_splits=ignore_splits, columns=pairs(column or [], "--column", "item=img"),
                             name=name or (), method=method or (), setting=setting or (), seed=seed or (),
                             ignore_extra=ignore_extra)
    if out is not None:
        scores.save(out)
    if json:
        print_json(to_json(scores, level=level))
    elif not quiet:
        answers = [file for file in files if is_answers(file)]
        if answers or study is not None:
            from shiftbench.human.people import answer_notes, tables

            views, notes = tables(scores, level), answer_notes(answers, study)
        else:
            views, notes = score_tables(scores), ()
        for table in views:
            console().print(table)
        say(*notes)


def audit(
    predictions: Annotated[Path, typer.Argument(help="Parquet or CSV file of predictions, or the folder of a run.")],
    data: Annotated[Path, typer.Option(help="What is known about the items: a table, or the folder of a collection or "
                                       "a benchmark.")],
    label: Annotated[str, typer.Option(help="Column of the truth, in the data or in the predictions. Default: the "
                                       "benchmark's label, or a column label, true or truth.")] = "",
    loss: Annotated[str, typer.Option(help="Loss of an item: error, nll, squared, absolute, or a metric of your own "
                                      "that has `items` (--import).")] = "error",
    against: Annotated[Path | None, typer.Option(help="Predictions of an old model: find contexts that got worse or "
                                                 "better.")] = None,
    depth: Annotated[int, typer.Option(
        min=1, help="Maximum number of predicates of a context; above 3 the search is a beam.")] = 3,
    least: Annotated[int, typer.Option(
        min=0, help="Minimum number of items of a context; 0 means 20, or 0.5 % of all items.")] = 0,
    confirm: Annotated[float, typer.Option(help="Share of the items that contexts are tested on.")] = 0.5,
    fdr: Annotated[float, typer.Option(help="Share of false findings that is allowed, on average.")] = 0.1,
    dependence: Annotated[str, typer.Option(help="Dependence between contexts that the rate holds under: prds "
                                            "(positive), or any, which is stricter.")] = "prds",
    better: Annotated[bool, typer.Option("--better", help="Also find contexts that are better than the rest.")] = False,
    cluster: Annotated[str, typer.Option(help="Column of items that belong together, as frames of a video.")] = "",
    include: Annotated[list[str] | None, typer.Option(help="Use this column only, or 'has:*' for tags; may be "
                                                      "repeated.")] = None,
    exclude: Annotated[list[str] | None, typer.Option(help="Leave this column out; may be repeated.")] = None,
    most_values: Annotated[int, typer.Option(min=2, help="Maximum number of values of a column to group by.")] = 20,
    features: Annotated[Path | None, typer.Option(help="Embeddings of the items, whose clusters form groups: a table "
                                                  "by id, or the folder that `embed` wrote.")] = None,
    flips: Annotated[list[str] | None, typer.Option(help="Error rate of an annotation, light=night=0.08, or a table "
                                                    "of checked items with columns seen and true, "
                                                    "light=night=checked.csv; may be repeated.")] = None,
    split: Annotated[str, typer.Option(help="Split to audit, or all. Default: test, where there are splits.")] = "",
    id: Annotated[str, typer.Option(help="Column of the ids. Default: item, id or item_id.")] = "",
    column: Annotated[list[str] | None, typer.Option(help="What the file of predictions calls a column of ours: "
                                                     "--column prediction=pred.")] = None,
    unsealed: Annotated[bool, typer.Option("--unsealed", help="Leave out the items that the studio keeps to confirm "
                                           "findings made by hand.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the parts that the items are split into.")] = 0,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Also write the audit: .html, .json or "
                                             ".parquet.")] = None,
    keep: Annotated[Path | None, typer.Option(help="Add the findings to this .toml file of contexts, which `gate` "
                                              "tests.")] = None,
    plugins: Plugins = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find the contexts in which a model fails, from its predictions and a table of metadata.

    It searches contexts on one half of the items and tests them on the other: what it reports holds there, with an
    interval. If it finds nothing, it says how large a failure it could have found.

    shiftbench audit predictions.csv --data metadata.csv --label species

    shiftbench audit predictions.csv --data metadata.csv --out audit.html --exclude file_name

    shiftbench audit new.csv --data benchmarks/cat-dog --against old.csv

    shiftbench audit predictions.parquet --data frames.parquet --loss nll --cluster video --fdr 0.05
    """
    with progress("searching", quiet or json) as advance, noted():
        report = verbs.audit(
            predictions, data, label=label, loss=loss, against=against, depth=depth, least=least, confirm=confirm,
            fdr=fdr, dependence=dependence, better=better, cluster=cluster, include=include or (),
            exclude=exclude or (), most_values=most_values, features=features, flips=_flips(flips or []), split=split,
            id=id, columns=pairs(column or [], "--column", "prediction=pred"), unsealed=unsealed, seed=seed, out=out,
            keep=keep, progress=advance)
    if json:
        print_json(_plain(report))
        return
    for line in report.card["notes"]:
        note(line)
    if not quiet:
        say(*report.sentences())
        if report.findings:
            print_table("\nFindings", *_table(report))
    for file in (out, keep):
        if file is not None:
            say(f"Wrote {file}.")


def _flips(options: list[str]) -> dict[str, Any]:
    """Rates by annotation; what is no number after the last = is the file of a checked sample."""
    flips: dict[str, Any] = {}
    for name, value in pairs(options, "--flips", "light=night=0.08", "NAME=NUMBER or NAME=FILE",
                             str.rpartition).items():
        try:
            flips[name] = float(value)
        except ValueError:
            flips[name] = Path(value)
    return flips


def _table(report: "Audit") -> tuple[list[str], list[list[object]]]:
    scale, unit = (100.0, " in %") if report.card["unit"] == "share" else (1.0, "")
    columns = ["#", "context", "items", f"loss{unit}", "interval", "elsewhere", "difference", "interval", "ratio", "q"]
    return columns, [[number, finding.context, finding.n, *_numbers(finding, scale)]
                     for number, finding in enumerate(report.findings, 1)]


def _numbers(finding: "Finding", scale: float) -> list[object]:
    def show(value: float, form: str = ".3g") -> str:
        digits = f"{abs(value):{form.lstrip('+')}}"
        sign = "−" if value < 0 else form[:form.startswith("+")]
        return "–" if math.isnan(value) else f"{sign}{digits}"

    def ends(low: float, high: float) -> str:
        return f"{show(scale * low)} to {show(scale * high)}"

    return [show(scale * finding.loss), ends(finding.low, finding.high), show(scale * finding.rest),
            show(scale * finding.difference, "+.3g"), ends(finding.difference_low, finding.difference_high),
            show(finding.ratio), show(finding.q, ".2g")]


def _plain(report: "Audit") -> dict[str, Any]:
    rows = report.to_arrow().to_pylist()
    return {"sentences": report.sentences(), "findings": [row for row in rows if row["confirmed"]],
            "undecided": [row for row in rows if not row["confirmed"]], "card": dict(report.card)}


def gate(
    new: Annotated[Path, typer.Argument(help="Predictions of the new model: a parquet or CSV file, or the folder of a "
                                        "run.")],
    data: Annotated[Path, typer.Option(help="What is known about the items: a table, or the folder of a collection or "
                                       "a benchmark.")],
    against: Annotated[Path | None, typer.Option(help="Predictions of the old model, on the same items.")] = None,
    budget: Annotated[float, typer.Option(help="Points by which the loss may rise in a context; for a loss that is no "
                                          "share, in its own unit.")] = 1.0,
    floor: Annotated[list[str] | None, typer.Option(
        help="Least value of a metric, or the largest if lower is better: --floor worst_group_accuracy=0.8, or "
             "--floor 'worst_group_accuracy[region]=0.7'; may be repeated.")] = None,
    contexts: Annotated[Path | None, typer.Option(help="TOML file of contexts that `audit --keep` wrote.")] = None,
    unsure: Annotated[str, typer.Option(
        help="What a check with too few items counts as: fail, warn or pass.")] = "fail",
    level: Annotated[float, typer.Option(help="Probability with which all intervals hold at once.")] = 0.95,
    loss: Annotated[str, typer.Option(help="Loss of an item; default: that of the contexts, else error.")] = "",
    label: Annotated[str, typer.Option(help="Column of the truth, in the data or in the predictions.")] = "",
    cluster: Annotated[str, typer.Option(help="Column of items that belong together, as frames of a video.")] = "",
    split: Annotated[str, typer.Option(help="Split to test on, or all. Default: test, where there are splits.")] = "",
    id: Annotated[str, typer.Option(help="Column of the ids. Default: item, id or item_id.")] = "",
    column: Annotated[list[str] | None, typer.Option(help="What the files of predictions call a column of ours: "
                                                     "--column prediction=pred.")] = None,
    junit: Annotated[Path | None, typer.Option(help="Write JUnit XML, a test case per check.")] = None,
    summary: Annotated[Path | None, typer.Option(help="Write a Markdown table for a pull request.")] = None,
    plugins: Plugins = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Say whether a new model may be released: exit code 0 if every check passes, else 1.

    A check passes only if the data show that the loss in a context did not rise by more than the budget, or that a
    metric lies above its floor. "No significant difference" is not enough; with too few items, --unsure decides.

    shiftbench gate new.csv --against old.csv --data metadata.csv --contexts saved.toml --budget 1.0

    shiftbench gate new.csv --data benchmarks/cat-dog --floor worst_group_accuracy=0.8 --junit gate.xml

    shiftbench gate new.csv --against old.csv --data frames.csv --cluster video --unsure warn --summary gate.md
    """
    outcome = verbs.gate(
        new, data, against=against, budget=budget,
        floors=_floors(floor or []), contexts=contexts, unsure=unsure,
        level=level, loss=loss, label=label, split=split, id=id, cluster=cluster,
        columns=pairs(column or [], "--column", "prediction=pred"), junit=junit, summary=summary)
    if json:
        print_json({"passed": outcome.passed, "outcome": outcome.outcome, "unsure": outcome.unsure,
                    "level": outcome.level, "checks": outcome.to_arrow().to_pylist(), "notes": list(outcome.notes),
                    "search": outcome.search})
    else:
        for line in outcome.notes:
            note(line)
        if not quiet:
            say(outcome.headline())
            print_table("", ["", "check", ""], [[check.verdict, check.name, check.sentence()]
                                                for check in outcome.checks])
            say(*outcome.scope())
    if not outcome.passed:
        raise typer.Exit(1)


def _floors(options: list[str]) -> dict[str, float]:
    """Least values by metric: {"accuracy": 0.8} of --floor accuracy=0.8."""
    example, form = "accuracy=0.8", "NAME=NUMBER"
    floors: dict[str, float] = {}
    for name, value in pairs(options, "--floor", example, form, str.rpartition).items():
        try:
            floors[name] = float(value)
        except ValueError:
            raise ShiftBenchError(f"--floor '{name}={value}' is not of the form {form}. Write --floor "
                                  f"{example}.") from None
    return floors


def select(
    source: Annotated[list[Path], typer.Argument(help="A table of scores, a folder of runs, or files of predictions, "
                                                 "with --benchmark.")],
    rule: Annotated[str, typer.Option(help="Choose by this rule; without one, all are compared.")] = "",
    target: Annotated[str, typer.Option(help="Judge by accuracy, worst_group_accuracy, macro_f1, … on test, also over "
                                                "a grouping: worst_group_accuracy[region].")] = "accuracy",
    benchmark: Annotated[list[Path] | None, typer.Option(
        help="Benchmark of the scores: it says whether val shares domains with test, and which headline `wilds` "
             "chooses by; may be repeated. Runs know theirs.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the scores of the chosen runs.")] = None,
    allow_target: Annotated[bool, typer.Option("--allow-target", help="Choose even by labels of the target.")] = False,
    hardest: Annotated[int, typer.Option(min=0, help="Choose tasks instead: rank this many by how much more --method "
                                         "(default: erm) loses on their hard items than on all items.")] = 0,
    split: Annotated[str, typer.Option(help="The split that --hardest compares.")] = "test",
    name: Names = None,
    method: Methods = None,
    setting: Settings = None,
    seed: Seeds = None,
    ignore_extra: IgnoreExtra = False,
    plugins: Plugins = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Choose among runs that differ in their settings: compare all rules and their regret, or choose by one rule.

    Rules: id, leave_one_domain_out, worst_group, worst_class, nooch, f1, accuracy, ood, wilds, oracle. Rules that look
    at labels of the target are marked; to choose by one, say --allow-target.

    shiftbench select runs --rule worst_group --json

    shiftbench select runs --hardest 12
    """
    if hardest:
        tasks = verbs.hardest(source[0], hardest, method=(method or ["erm"])[0], split=split)
        if json:
            print_json([task._asdict() for task in tasks])
        else:
            print_table("", ["task", "loss on hard", "on all", "difference"],
                        [[task.task, task.hard, task.all, task.gap] for task in tasks])
        return
    from shiftbench.reporting.terminal import choices_table, rules_table
    from shiftbench.scoring.select import over_seeds

    selection = verbs.select(source, rule, target=target, benchmarks=benchmark or (), allow_target=allow_target,
                             out=out, name=name or (), method=method or (), setting=setting or (), seed=seed or (),
                             ignore_extra=ignore_extra)
    if json:
        print_json({"choices": [choice._asdict() | {"regret": choice.regret} for choice in selection.choices],
                    "means": [choice._asdict() for choice in over_seeds(selection.choices)],
                    "refused": [refusal._asdict() for refusal in selection.refused]})
    elif not quiet:
        console().print(choices_table(selection.choices) if rule else rules_table(selection, target))
        refused: dict[tuple[str, str, str], list[str]] = {}
        for refusal in selection.refused:
            refused.setdefault((refusal.rule, refusal.why, refusal.method), []).append(refusal.benchmark)
        for (title, why, tried), benchmarks in refused.items():
            say(f"{title} chose nothing on {', '.join(benchmarks)}{': ' + tried if tried else ''}: {why}")


def gap(
    runs: Annotated[list[Path], typer.Argument(
        help="Folders of runs on a benchmark and on its references, or files of predictions.")],
    reference: Annotated[str, typer.Option(help="Only this reference: mixed-to-test, …")] = "",
    benchmark: Annotated[list[Path] | None, typer.Option(
        help="Benchmark of files of predictions: one for all, or one per file.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Also write the scores: .parquet or .csv.")] = None,
    level: Annotated[float, typer.Option(help="Level of the intervals.")] = 0.95,
    name: Names = None,
    method: Methods = None,
    setting: Settings = None,
    seed: Seeds = None,
    ignore_extra: IgnoreExtra = False,
    plugins: Plugins = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure what the shift costs each method: in distribution minus out of distribution, with an interval.

    shiftbench gap runs runs-mixed

    shiftbench gap out.csv in.csv --benchmark bench --benchmark bench-mixed --method mine
    """
    from shiftbench.reporting.score_tables import to_json
    from shiftbench.scoring.metrics import in_words, is_worst

    scores = verbs.gap(*runs, reference=reference, level=level, benchmarks=benchmark or (), name=name or (),
                       method=method or (), setting=setting or (), seed=seed or (), ignore_extra=ignore_extra)
    if out is not None:
        scores.save(out)
    if json:
        print_json(to_json(scores, level=level))
    elif not quiet:
        values, names = list(scores), scores.names.tolist()
        rows = []
        for inside, outside, gap, title in zip(values[::3], values[1::3], values[2::3], names[::3], strict=True):
            # The name of a metric is short enough; over a grouping, words are shorter.
            metric = in_words(outside["metric"], outside["by"]) if outside["by"] else outside["metric"]
            rows.append([gap["benchmark"], gap["split"], title, gap["runs"], metric, gap["n"], inside["value"],
                         outside["value"], gap["value"], f"{gap['low']:.3f} to {gap['high']:.3f}"])
        print_table("", ["benchmark", "reference", "method", "runs", "metric", "items", "in", "out", "gap",
                         f"{level:.0%} interval"], rows)
        if any(is_worst(row["metric"]) for row in values):
            say("For a worst group, the items are those of the worst group out of distribution.")


def table(
    source: Annotated[list[Path], typer.Argument(help="A folder of runs, a table of scores, or files of "
                                                 "predictions, with --benchmark.")],
    format: Annotated[str, typer.Option(help="md, csv or latex. Default: by the ending of --out, else md.")] = "",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="File to write; default: print it.")] = None,
    metric: Annotated[list[str] | None, typer.Option(
        help="A metric, e.g. macro_f1; may be repeated. Default: accuracy and worst_group_accuracy.")] = None,
    split: Annotated[str, typer.Option(help="The split whose items count.")] = "test",
    against: Annotated[str, typer.Option(help="Compare with this method, e.g. erm. Default: with the best.")] = "",
    benchmark: Annotated[list[Path] | None, typer.Option(
        help="Folder of a benchmark that the runs or scores do not find themselves; may be repeated.")] = None,
    rule: Annotated[str, typer.Option(help="Chooses among a method's settings: see `shiftbench select`.")] = "id",
    study: Annotated[Path | None, typer.Option(help="The study that was swept: use only its runs.")] = None,
    name: Names = None,
    method: Methods = None,
    setting: Settings = None,
    seed: Seeds = None,
    ignore_extra: IgnoreExtra = False,
    plugins: Plugins = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a paper's table: means with intervals and p-values, as CSV, Markdown or LaTeX.

    From runs, methods are compared on the same items and over their seeds; from scores alone, by their intervals.
    p-values are corrected for all comparisons of a column.

    shiftbench table runs --format latex --out table.tex

    shiftbench table runs --against erm --metric accuracy --metric macro_f1

    shiftbench table scores.parquet --format csv

    shiftbench table runs mine.csv --benchmark benchmarks/cat-dog
    """
    from shiftbench.reporting.comparison import writer

    write = writer(format, out)
    lines = verbs.table(source if len(source) > 1 else source[0], out, format=format, metrics=metric or (), split=split,
                        against=against, benchmarks=benchmark or (), rule=rule, study=study, name=name or (),
                        method=method or (), setting=setting or (), seed=seed or (), ignore_extra=ignore_extra)
    if json:
        print_json([line._asdict() for line in lines])
    elif out is None:
        say(*write(lines).splitlines())
    elif not quiet:
        say(f"wrote {out}")


def conflicts(
    benchmark: Annotated[Path, typer.Argument(help="Folder of a benchmark whose groups are subsets.")],
    out: Annotated[Path, typer.Option(
        "--out", "-o", help="Folder for the matrix, the heatmap and the strongest conflicts.")],
    model: Annotated[str, typer.Option(help="linear or mlp on features; small-cnn, resnet18 on images.")] = "mlp",
    features: Annotated[str, typer.Option(help="Backbone and size for linear and mlp.")] = "",
    weights: Annotated[str, typer.Option(help="Initial weights of an image model: none, imagenet or a file.")] = "none",
    steps: Annotated[int, typer.Option(help="Steps per repeat; each step is evaluated.")] = 300,
    repeats: Annotated[int, typer.Option(help="Repeats from new initial weights; intervals need 5 or more.")] = 8,
    seed: Annotated[int, typer.Option(min=0, help="Seed of starts, batches and resampling.")] = 0,
    leave_out: Annotated[list[str] | None, typer.Option(
        help="Leave this subset out of training and test on it: is it too easy? May be repeated.")] = None,
    makeup: Annotated[str, typer.Option(help="Batches: varied (more precise) or plain (the paper).")] = "varied",
    changes: Annotated[list[str] | None, typer.Option("--set", help="Another setting, e.g. --set lr=0.01.")] = None,
    collection: Origin = None,
    device: Device = "auto",
    plugins: Plugins = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure training conflicts: how a step on each training subset changes the loss on every evaluation subset.

    Writes matrix.parquet, heatmap.png and conflicts.json. Further settings: lr, batch_size, skip, size, train_items,
    eval_items.

    shiftbench conflicts benchmarks/animals --features efficientnet-lite0@128 --out conflicts
    """
    from shiftbench.core.files import parse_changes

    settings: dict[str, Any] = {"model": model, "features": features, "weights": weights, "steps": steps,
                                "repeats": repeats, "seed": seed, "makeup": makeup,
                                "leave_out": tuple(leave_out or ()), **parse_changes(changes or [])}
    with progress(f"training {model}", quiet or json) as advance:
        matrix = verbs.conflicts(benchmark, out, collection=collection, device=device, progress=advance, **settings)
    facts = matrix.to_json()
    if json:
        print_json(facts)
    elif not quiet:
        cells = facts["cells"]
        say(f"{benchmark}: of {cells['all']:,} pairs {cells['helping']:,} help, {cells['conflicting']:,} "
            f"conflict, {cells['undecided']:,} are undecided. The strongest conflicts:")
        print_table("",
                    ["training on", "hurts", "", "effect", "low", "high"],
                    [list(cell.values()) for cell in facts["conflicts"]])
        say(f"little contribution: {', '.join(matrix.little) or 'none'}")
        if facts["left_out"]:
            print_table("left out of training", ["subset", "items", "accuracy", "low", "high"],
                        [list(row.values()) for row in facts["left_out"]])
        say(f"heatmap, matrix and settings in {out}")
