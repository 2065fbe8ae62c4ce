"""Verbs about training: methods, features, one run or a whole study, and the predictions of finished models.

    shiftbench methods [--presets]
    shiftbench embed BENCHMARK --model NAME
    shiftbench train BENCHMARK --method NAME --out RUNS
    shiftbench pretrain COLLECTION --label FACTOR --out FOLDER
    shiftbench retrain RUNS
    shiftbench sweep STUDY.toml --out RUNS
    shiftbench fetch URL --out RUNS
    shiftbench predict BENCHMARK|COLLECTION --model MODEL --out FILE
"""

import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Annotated

import typer

from shiftbench import api as verbs
from shiftbench.cli.command import (
    EVERY,
    Device,
    Json,
    Origin,
    Plugins,
    Quiet,
    bar_with_sentence,
    note,
    print_json,
    print_table,
    progress,
    say,
    teller,
)
from shiftbench.core.errors import Say, ShiftBenchError, printable

if TYPE_CHECKING:
    from shiftbench.sweeps.estimate import Estimate
    from shiftbench.sweeps.study import Study
    from shiftbench.training.run import Outcome

MOST = 40
"""Most lines of a table; the rest is only counted."""


def methods(
    presets: Annotated[bool, typer.Option("--presets", help="List presets: names for settings of a run.")] = False,
    plugins: Plugins = None,
    json: Json = False,
) -> None:
    """List every method with its family, what it needs and its hyperparameters; with --json also search spaces.

    shiftbench methods --presets
    """
    from shiftbench.core.registry import load_installed
    from shiftbench.methods import METHODS, facts
    from shiftbench.methods.presets import PRESETS, preset_facts

    load_installed()
    rows = [preset_facts(name) for name in PRESETS] if presets else [facts(name) for name in sorted(METHODS)]
    if json:
        print_json(rows)
    elif presets:
        print_table("", ["preset", "method", "settings", "source", "what it is"], [
            [row["name"], row["method"], _pairs(row["settings"]), f"{row['paper']}: {row['source']}", row["summary"]]
            for row in rows])
    else:
        print_table("", ["method", "family", "needs", "parameters", "what it does"], [
            [row["name"], row["family"], row["needs"], _pairs(row["parameters"]), row["summary"]] for row in rows])


def _pairs(settings: dict[str, object]) -> str:
    return ", ".join(f"{key} = {value}" for key, value in settings.items())


def embed(
    benchmark: Annotated[Path, typer.Argument(help="Folder of a benchmark.")],
    model: Annotated[str, typer.Option(
        help="Backbone; the weights of the default come with the package.")] = "efficientnet-lite0",
    size: Annotated[int, typer.Option(help="Pixels per side that the backbone sees.")] = 224,
    collection: Origin = None,
    plugins: Plugins = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compute the features of every item once, for training heads. It resumes when interrupted.

    shiftbench embed benchmarks/cat-dog --model efficientnet-lite0 --size 128
    """
    with progress(f"embedding with {model}", quiet or json) as advance:
        folder = verbs.embed(benchmark, model, size, collection, advance)
    if json:
        print_json({"features": str(folder), "model": model, "size": size})
    elif not quiet:
        say(f"features in {folder}; train on them with --model linear --features {model}@{size}")


def train(
    benchmark: Annotated[Path, typer.Argument(help="Folder of a benchmark.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of runs; this run gets a folder in it.")],
    method: Annotated[str, typer.Option(help="A learning rule; see `shiftbench methods`.")] = "",
    preset: Annotated[list[str] | None, typer.Option(
        help="Named settings: resnet50, wilds-fmow; see `shiftbench methods --presets`. Your options win.")] = None,
    model: Annotated[str | None, typer.Option(
        help="mlp on features, resnet18 on images, text-bag on texts, or one of yours: timm:NAME, torchvision:NAME, "
             "hf:NAME_OR_FOLDER, FILE.py:FUNCTION, sklearn:CLASS.")] = None,
    features: Annotated[str | None, typer.Option(
        help="Inputs of linear and mlp: BACKBONE@SIZE, columns or sentences.")] = None,
    weights: Annotated[str | None, typer.Option(help="Initial weights: none, imagenet (pretrained), a "
                                                "file or a folder.")] = None,
    steps: Annotated[int | None, typer.Option(help="Steps of the optimizer.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the run.")] = 0,
    changes: Annotated[list[str] | None, typer.Option("--set", help="A setting, e.g. --set lr=0.01.")] = None,
    collection: Origin = None,
    device: Device = "auto",
    strict: Annotated[bool, typer.Option("--strict", help="Refuse pretrained weights that have seen subclasses of the "
                                         "target (BREEDS).")] = False,
    plugins: Plugins = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train one method on a benchmark. A finished run is not repeated, and an interrupted run resumes.

    shiftbench train benchmarks/cat-dog --method group_dro --set step_size=0.1 --seed 1 --out runs
    """
    from shiftbench.core.files import parse_changes
    from shiftbench.methods import METHODS
    from shiftbench.methods.presets import variant_of
    from shiftbench.training.run import split_settings

    if not method and not preset and not (model or "").startswith("sklearn:"):
        raise typer.BadParameter("Name a method with --method, or a preset with --preset.")
    if method not in METHODS and variant_of(method):
        raise typer.BadParameter(f"'{method}' is a preset: --preset {variant_of(method)}")
    options = {"model": model, "features": features, "weights": weights, "steps": steps, "seed": seed}
    params, settings = split_settings({**{key: value for key, value in options.items() if value is not None},
                                       **parse_changes(changes or [])})
    with progress(f"training {method or ', '.join(preset or ())}", quiet or json) as advance:
        folder = verbs.train(benchmark, method, out, preset=preset or (), collection=collection, device=device,
                             params=params, strict=strict, progress=advance, say=teller(quiet or json), **settings)
    if json:
        print_json({"run": str(folder)})
    elif not quiet:
        say(f"done: {folder}")


def pretrain(
    collection: Annotated[Path, typer.Argument(help="Folder of a collection with images.")],
    label: Annotated[str, typer.Option(help="The factor to predict, e.g. class or shape.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder; weights.safetensors will be in it.")],
    model: Annotated[str, typer.Option(help="A model that takes images.")] = "resnet18",
    steps: Annotated[int, typer.Option(help="Steps of the optimizer.")] = 5000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split and of the run.")] = 0,
    changes: Annotated[list[str] | None, typer.Option("--set", help="A setting, e.g. --set lr=0.01.")] = None,
    device: Device = "auto",
    plugins: Plugins = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train a model on one collection and keep its weights, to start from on another. It resumes when interrupted.

    shiftbench pretrain collections/scenes --label class --model resnet18 --out pretrained/scenes

    shiftbench train benchmarks/low-10 --preset pretrained --model resnet18 \
        --weights pretrained/scenes/weights.safetensors --out runs
    """
    from shiftbench.core.files import parse_changes

    with progress(f"pretraining {model}", quiet or json) as advance:
        file = verbs.pretrain(collection, label, out, model=model, seed=seed, device=device, progress=advance,
                              steps=steps, **parse_changes(changes or []))
    if json:
        print_json({"weights": str(file), "model": model, "label": label})
    elif not quiet:
        say(f"weights in {file}; start from them with --preset pretrained --model {model} --weights {file}")


def retrain(
    runs: Annotated[Path, typer.Argument(help="Folder of finished runs on benchmarks with target_train.")],
    steps: Annotated[int, typer.Option(min=1, help="Steps per learning rate; BREEDS uses 40,000.")] = 40_000,
    rates: Annotated[str, typer.Option(
        help="Learning rates, separated by commas; default: the thirteen of BREEDS.")] = "",
    collection: Annotated[Path | None, typer.Option(help="Where their collection is now.")] = None,
    device: Device = "auto",
    plugins: Plugins = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Retrain the last layer of every finished run on the target, to see what its representation is worth (target-RT).

    We choose the learning rate on `val`; the paper chose it on test. Scores and reports then have
    `target_rt_accuracy`.

    shiftbench retrain runs --steps 4000
    """
    with progress("retraining", quiet or json) as advance:
        outcomes = verbs.retrain(runs, steps=steps, rates=_rates(rates) if rates else None, collection=collection,
                                 device=device, progress=advance)
    if json:
        print_json([{"run": run, **outcome._asdict()} for run, outcome in outcomes.items()])
    elif not quiet:
        print_table("", ["run", "learning rate", "accuracy on val"],
                    [[run, f"{outcome.lr:g}", outcome.accuracy] for run, outcome in outcomes.items()])
        say(f"{len(outcomes)} last layers retrained; `shiftbench report {runs}` shows them.")


def _rates(text: str) -> list[float]:
    try:
        rates = [float(word) for word in text.split(",")]
    except ValueError:
        rates = []
    if not rates or not all(0 < rate < float("inf") for rate in rates):
        raise ShiftBenchError(f"--rates '{text}': write learning rates above 0 with commas between: --rates 0.1,0.5,1.")
    return rates


def sweep(
    study: Annotated[Path, typer.Argument(help="A TOML file: benchmarks, methods, settings, seeds.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of runs; each gets a folder in it.")],
    engine: Annotated[str, typer.Option(help="local: processes here. ray: a cluster, RAY_ADDRESS.")] = "local",
    workers: Annotated[int, typer.Option(help="Processes; 0 means one per GPU, else one per core.")] = 0,
    device: Device = "auto",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count the runs, time a warm-up, do nothing.")] = False,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Also repeat runs that failed.")] = False,
    changes: Annotated[list[str] | None, typer.Option("--set", help="Replace a setting: --set seeds=1.")] = None,
    checkpoint_seconds: Annotated[float, typer.Option(help="Seconds of training that a kill may cost.")] = 30.0,
    logs: Annotated[list[str] | None, typer.Option("--log", help="Also log to tensorboard or mlflow.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse pretrained weights that have seen subclasses of the "
                                         "target (BREEDS).")] = False,
    plugins: Plugins = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train every run of a study. Start it again at any time: finished runs are not repeated, others resume.

    A study names benchmarks, methods and settings; **a list is a sweep**, in all combinations:

        benchmarks = ["benchmarks/*"]
        seeds = 5
        [run]
        model = "mlp"
        features = "efficientnet-lite0@96"
        lr = [1e-3, 1e-4]
        [methods.erm]
        [methods.irm]
        penalty = [1.0, 100.0]

    search = "domainbed" with draws = 20 draws settings from a paper's search space (also domainbed-small, subpopbench;
    wiles is a grid); penalty = {power = [10, -1, 5]} is a distribution of your own. See examples/studies. Where a
    search space names a setting, it wins over [run]. Settings of --set or pinned = ["lr"] stay; --dry-run lists them.

    A study can also build its own data below --out: suites = ["fine_grained/sprites/low_data"] on a world that a table
    [world] describes, or on collection = "FOLDER". See examples/fine_grained.

    import = ["my_methods.py"] loads methods, shifts, metrics or models of your own, here and in every worker.

    If a run fails, its reason is recorded and the others go on. The exit code is then 1; --retry-failed tries again.

    shiftbench sweep study.toml --out runs --dry-run

    shiftbench sweep study.toml --out runs --set seeds=1 --set irm.penalty=10.0

    shiftbench show runs; shiftbench report runs --out report.html
    """
    from shiftbench.core.files import parse_changes
    from shiftbench.sweeps.status import outcome_facts
    from shiftbench.sweeps.study import Study

    plan = Study.load(study, parse_changes(changes or []))
    if not (quiet or json):
        say(f"{study}: {plan.size_in_words()}", style="bold")
        for note in plan.search_notes():
            say(note)
    if dry_run:
        _dry_run(plan, study, out, workers, device, retry_failed, strict, json, quiet)
        return
    try:
        with progress("building benchmarks", quiet or json) as advance_building:
            plan.prepare(out, say=_making(quiet or json), progress=advance_building)
        with sweep_progress(quiet or json) as advance:
            ends = verbs.sweep(plan, out, engine=engine, workers=workers, device=device, retry_failed=retry_failed,
                               logs=logs or [], checkpoint_seconds=checkpoint_seconds, strict=strict,
                               progress=advance)
    except KeyboardInterrupt as stop:  # typer would exit silently
        sys.stderr.write(f"shiftbench: {printable(stop) or 'Stopped. Start the same again to go on.'}\n")
        raise typer.Exit(130) from None
    outcome = outcome_facts(ends)
    if json:
        print_json({"out": str(out), **outcome})
    elif not quiet:
        say(f"{out}: {outcome['done']:,} of {outcome['runs']:,} runs done, {outcome['failed']:,} failed")
        for note in outcome["notes"]:
            say(f"in {note['runs']:,} runs: {note['note']}")
        if outcome["reasons"]:
            print_table("", ["failed", "why", "for example"],
                        [[reason["runs"], reason["reason"], reason["example"]] for reason in outcome["reasons"]])
            say("try them again with --retry-failed")
        else:
            say(f"next: shiftbench report {out} --out report.html")
    if outcome["failed"]:
        raise typer.Exit(1)


class Tally:
    """The state of a sweep: runs done, failed and left, and how long the rest takes at the pace so far."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock, self.began = clock, clock()
        self.done = self.failed = self.earlier = self.total = 0

    def add(self, end: "Outcome", total: int) -> None:
        """Count a run; those that had ended before the sweep do not count for the pace."""
        self.total = total
        self.done += end.state == "done"
        self.failed += end.state == "failed"
        self.earlier += end.state in ("done", "failed") and not end.seconds

    def __str__(self) -> str:
        if not self.total:
            return "no run has ended yet"
        ended = self.done + self.failed
        left = self.total - ended
        sentence = f"{self.done:,} of {self.total:,} runs done, {self.failed:,} failed, {left:,} left"
        if left and ended > self.earlier:
            sentence += f", about {how_long((self.clock() - self.began) * left / (ended - self.earlier))} to go"
        return sentence


@contextmanager
def sweep_progress(quiet: bool = False) -> Iterator[Callable[["Outcome", int], None]]:
    """A callable (how a run ended, runs in all): a bar on a terminal, else a line now and then; nothing when quiet."""
    tally = Tally()
    if quiet:
        yield tally.add
    elif sys.stderr.isatty():
        with bar_with_sentence() as update:
            def advance(end: "Outcome", total: int) -> None:
                tally.add(end, total)
                update(tally.done + tally.failed, total, str(tally))

            yield advance
    else:
        over = Event()
        teller = Thread(target=_tell, args=(tally, over), daemon=True)
        teller.start()
        try:
            yield tally.add
        finally:
            over.set()
            teller.join()


def _tell(tally: Tally, over: Event) -> None:
    while not over.wait(EVERY):
        sys.stderr.write(f"{tally}\n")
        sys.stderr.flush()


def how_long(seconds: float) -> str:
    """A duration in words.

    >>> [how_long(seconds) for seconds in (0.4, 75, 5000, 400_000)]
    ['1 s', '75 s', '1 h 23 min', '4.6 days']
    """
    if math.isnan(seconds):
        return "unknown"
    if seconds < 100:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min" if minutes < 48 * 60 else f"{seconds / 86_400:.1f} days"


def _making(silent: bool) -> Say:
    """A callable that prints what is being made."""
    tell = teller(silent)
    return lambda line: tell(f"{line} …")


def _dry_run(plan: "Study", study: Path, out: Path, workers: int, device: str, retry_failed: bool, strict: bool,
             json: bool, quiet: bool) -> None:
    from shiftbench.core.files import scratch
    from shiftbench.sweeps.estimate import estimate
    from shiftbench.sweeps.jobs import check_all_unseen

    with scratch() as folder:
        tell = _making(quiet or json)
        with progress("building benchmarks", quiet or json) as advance:
            plan.prepare(out, folder, tell, advance)
        jobs = plan.jobs(out, folder)
        if strict:
            check_all_unseen(jobs)
        tell("timing a warm-up of what is left, for two minutes or little more")
        with progress("warming up", quiet or json) as advance:
            estimated = estimate(jobs, out, workers=workers, device=device, retry_failed=retry_failed, progress=advance)
    if json:
        print_json({**estimated.to_json(), "search": plan.search_notes()})
    else:
        _print_estimate(estimated, study, quiet)
    if any(row.problem for row in estimated.rows):
        raise typer.Exit(1)


def _print_estimate(estimated: "Estimate", study: Path, quiet: bool) -> None:
    from shiftbench.sweeps.status import summary

    if not quiet:
        say(f"{study}: {summary(estimated.states.elements())}", style="bold")
        _print_counts(estimated)
        if estimated.rows:
            columns = ["method", "model", "inputs", "batch", "runs", "at once", "ms a step", "s a run", "one worker"]
            _print_some("\nwarm-up", columns, [
                [row.shape.method, row.shape.model, row.shape.inputs, f"{row.shape.items:,} {row.shape.batches}",
                 row.runs, row.runs / row.packs, 1000 * row.cost.step * row.packs / row.runs if row.cost else math.nan,
                 row.seconds / row.runs if row.cost else math.nan, row.problem or how_long(row.seconds)]
                for row in estimated.rows])
    left = estimated.left
    say(*([""] if left else []), f"{left:,} runs left, about {how_long(estimated.seconds)} with {estimated.workers} "
        f"{'worker' if estimated.workers == 1 else 'workers'} on {estimated.device}" if left else
        "nothing is left to do", style="bold")
    if left and not quiet:
        if estimated.embedding:
            say(f"of this {how_long(estimated.embedding)} to compute features that are not cached yet")
        say(f"assumed: {'; '.join(estimated.assumed)}.")


def _print_counts(estimated: "Estimate") -> None:
    """Runs per benchmark and method, `2 of 3` where 2 of 3 remain."""
    methods = list(dict.fromkeys(method for _, method in estimated.counts))
    rows = {benchmark: [_left(estimated.counts.get((benchmark, method), Counter())) for method in methods]
            for benchmark, _ in estimated.counts}
    if len(methods) <= 10:
        _print_some("", ["runs", *methods], [[name, *cells] for name, cells in rows.items()])
    else:
        _print_some("", ["benchmark", "method", "runs"], [
            [name, method, cell] for name, cells in rows.items() for method, cell in zip(methods, cells, strict=True)])


def _left(count: Counter[str]) -> str:
    done = count["done"] + count["failed"]
    return f"{count.total() - done:,} of {count.total():,}" if done else f"{count.total():,}"


def _print_some(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    print_table(title, columns, rows[:MOST])
    if len(rows) > MOST:
        say(f"… and {len(rows) - MOST:,} more lines; --json has all")


def fetch(
    url: Annotated[str, typer.Argument(
        help="Store into which a sweep on Ray wrote its runs: s3://…, gs://…, file:///….")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of runs on this machine.")],
    plugins: Plugins = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Copy finished runs from a store to a folder, to show, score and report them. Weights stay in the store.

    shiftbench fetch s3://bucket/runs --out runs
    """
    done = verbs.fetch(url, out)
    if json:
        print_json({"out": str(out), "runs": done})
    elif not quiet:
        say(f"{out}: {len(done):,} finished runs")


def predict(
    source: Annotated[Path, typer.Argument(help="Folder of a benchmark or of a collection.")],
    model: Annotated[str, typer.Option(
        help="timm:NAME, torchvision:NAME, hf:FOLDER, hf-nli:FOLDER, openclip:MODEL/WEIGHTS, model.onnx, "
             "FILE.py:FUNCTION, or the folder of a finished run.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write: .parquet or .csv.")] = Path(
        "predictions.parquet"),
    split: Annotated[str, typer.Option(help="Predict only these splits, separated by commas: test, or val,test.")] = "",
    label: Annotated[str, typer.Option(help="For a collection: the factor whose values are the labels.")] = "",
    map: Annotated[Path | None, typer.Option(
        help="File that maps the model's classes to labels: a .csv with columns class and label, or a .toml.")] = None,
    hierarchy: Annotated[Path | None, typer.Option(
        help="Hierarchy that puts classes below a label: see `shiftbench hierarchy`. Default: the collection's.")
    ] = None,
    classes: Annotated[Path | None, typer.Option(
        help="Names of the model's outputs in their order, where it has none: a line each, or .json.")] = None,
    allow_unmapped: Annotated[bool, typer.Option(
        "--allow-unmapped", help="Go on even if no class maps to a label; that label is never predicted.")] = False,
    map_out: Annotated[Path | None, typer.Option(help="Write the label of every class: .csv, to edit for --map.")
                       ] = None,
    prompt: Annotated[list[str] | None, typer.Option(
        help="Sentence with {} for the label, for openclip: and hf-nli:; may be repeated, they are averaged.")] = None,
    weights: Annotated[str, typer.Option(help="Weights of timm: and torchvision:, a file or none; default: the "
                                         "library's.")] = "",
    takes: Annotated[str, typer.Option(help="What a function receives: images, texts or columns.")] = "",
    size: Annotated[int, typer.Option(help="Pixels per side of images for a function or an open ONNX file.")] = 0,
    mean: Annotated[str, typer.Option(help="Mean of each channel, for an ONNX file: 0.485,0.456,0.406.")] = "",
    std: Annotated[str, typer.Option(help="Standard deviation per channel, for an ONNX file: 0.229,0.224,0.225.")] = "",
    outputs: Annotated[str, typer.Option(help="What a function or an ONNX file returns: logits or probabilities.")
                       ] = "auto",
    batch_size: Annotated[int, typer.Option(min=1, help="Items per batch.")] = 64,
    collection: Origin = None,
    device: Device = "auto",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if it exists.")] = False,
    plugins: Plugins = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run a finished model, and write its predictions for `score`, `gap`, `select`, `report` and `board`.

    The model's classes are mapped to the labels: by --map, by name, by synonyms, by the class hierarchy. If it is
    interrupted, start it again: it resumes.

    shiftbench predict benchmarks/cat-dog --model timm:resnet50.a1_in1k --hierarchy wordnet --out resnet50.parquet

    shiftbench predict benchmarks/cat-dog --model openclip:ViT-B-32/openai --prompt 'a photo of a {}'

    shiftbench predict benchmarks/cat-dog --model my_file.py:function --out mine.csv
    """
    notes: list[str] = []

    def keep_and_print(line: str) -> None:
        notes.append(line)
        if not quiet and not json:
            note(line)

    with progress(f"predicting with {model}", quiet or json) as advance:
        predictions = verbs.predict(
            source, model, out, collection=collection, split=split, label=label, classes=classes or (), map=map,
            hierarchy=hierarchy, allow_unmapped=allow_unmapped, map_out=map_out, prompt=prompt or (), weights=weights,
            takes=takes, size=size, mean=mean, std=std, outputs=outputs, batch_size=batch_size, device=device,
            overwrite=overwrite, progress=advance, say=keep_and_print)
    if json:
        print_json({"predictions": str(out), "items": len(predictions), "classes": list(predictions.classes),
                    "notes": notes})
    elif not quiet:
        say(f"wrote {out}: {len(predictions):,} items; next: shiftbench score {source} {out}")
