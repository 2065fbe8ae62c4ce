"""The whole flow on the built-in world: MetaShift's two kinds of shift, five methods, one study, one report."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from shiftbench import api as verbs
from shiftbench.core.backend import load_torch
from shiftbench.core.errors import Advance, ShiftBenchError
from shiftbench.core.files import read_json, write_text
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import MARKER
from shiftbench.data.scores import Scores

if TYPE_CHECKING:
    from shiftbench.auditing.findings import Audit
    from shiftbench.training.run import Outcome

LADDER = ("cabinet + bed", "bag + box", "bench + bike", "boat + surfboard")
"""The dog's training contexts of MetaShift's first task, from near to far of dog(shelf)."""
SHARES = (0.12, 0.06, 0.01)
"""The minority shares of MetaShift's Table 2."""
SEEDS = (0, 1, 2)
FEATURES = "efficientnet-lite0@96"

SUBSET = """# Cat against dog, after MetaShift's Table 1, task 1: only the dog's training contexts move.
collection = "../collections/{world}"
seed = 0

[shift.subset]
train = ["cat(sofa + bed)", "dog({contexts})"]
test = ["cat(shelf)", "dog(shelf)"]
moves = "dog"
n_train = 400
n_ood = 200
"""

SUBPOPULATION = """# Cat against dog, after MetaShift's Table 2: cats are mostly indoors and dogs mostly outdoors.
collection = "../collections/{world}"
seed = 0

[shift.subpopulation]
label = "class"
factor = "location"
majority = {{cat = "indoors", dog = "outdoors"}}
p = {share}
n_train = 700
n_test = 400
n_val = 200
n_ood = 120
"""

HELD_OUT = ("dog-bag-box", "minority-12")
"""The benchmarks on which runs are also trained without each domain in turn, which some selection rules need."""

STUDY = """# The five methods of MetaShift's tables at two learning rates. As in DomainBed, which the paper used, a
# batch holds as many items of each domain, and the last weights count.
benchmarks = [{benchmarks}]
seeds = [{seeds}]
leave_one_domain_out = {held_out}

[run]
model = "mlp"
features = "{features}"
batches = "domain"
steps = 200
select_on = "last"
lr = [1e-3, 3e-3]

[methods.erm]

[methods.irm]
anneal = 0.3  # share of the steps before the full penalty

[methods.group_dro]

[methods.coral]

[methods.cdann]
"""

Bar = Callable[[str], AbstractContextManager[Advance]]


class Shown(NamedTuple):
    """What the demo leaves: the scores, the benchmarks, the page, and where ERM fails under the strongest shift."""

    scores: Scores
    benchmarks: tuple[Path, ...]
    page: Path
    audit: "Audit"


def demo(
    out: Path | str = "demo", items: int = 12_000, seed: int = 0, seeds: tuple[int, ...] = SEEDS, workers: int = 0,
    bar: Bar | None = None,
) -> Shown:
    """Draw, build, embed, train, score, report and audit below `out`. What is already there is not done again.

    `seed` is the world's, `seeds` are those of the runs.
    """
    from shiftbench.scoring import score_runs
    from shiftbench.scoring.select import chosen_means
    from shiftbench.sweeps.jobs import embed_missing
    from shiftbench.sweeps.study import Study

    root = Path(out)
    progress = bar or (lambda what: nullcontext(lambda done, total: None))
    world = root / "collections" / f"scenes-{seed}"
    if not (world / MARKER).exists() or read_json(world / MARKER).get("items") != items:
        with progress("drawing the world") as advance:
            verbs.read("world", "scenes", out=world, items=items, seed=seed, progress=advance)
    folders = []
    for name, text in recipes(world.name).items():
        recipe = root / "recipes" / f"{name}.toml"
        write_text(recipe, text)
        verbs.build(recipe, root / "benchmarks" / name)
        folders.append(root / "benchmarks" / name)
    outcomes: list[Outcome] = []
    for file, names, held_out in (("study", [folder.name for folder in folders], "false"),
                                  ("held_out", HELD_OUT, "true")):
        write_text(root / f"{file}.toml", STUDY.format(
            features=FEATURES, seeds=", ".join(map(str, seeds)), held_out=held_out,
            benchmarks=", ".join(f'"benchmarks/{name}"' for name in names)))
        study = Study.load(root / f"{file}.toml")
        with progress("embedding the items") as advance:
            embed_missing(study.jobs(root / "runs"), progress=advance)
        with progress("training") as advance:
            outcomes += verbs.sweep(study, root / "runs", workers=workers, progress=_counting(advance))
    failed = [outcome for outcome in outcomes if outcome.state == "failed"]
    if failed:
        raise ShiftBenchError(f"{root / 'runs'}: {len(failed)} of {len(outcomes)} runs failed. The first, "
                              f"{failed[0].run}: {failed[0].reason}")
    table = root / "scores.parquet"
    scores = Scores.load(table) if table.exists() else None
    if scores is None or not {outcome.run for outcome in outcomes} <= set(scores["run"].tolist()):
        with progress("scoring"):
            scores = score_runs(root / "runs", only=[outcome.run for outcome in outcomes])
            benchmarks = [Benchmark.load(folder) for folder in folders]
            scores = Scores.join([scores, chosen_means(root / "runs", scores, benchmarks)])
            scores.save(table)
    with progress("reporting"):
        verbs.report(scores, root / "report.html", benchmarks=folders, title="Cats and dogs out of context")
        benchmarks = [Benchmark.load(folder) for folder in folders]
        write_text(root / "tables.md", f"{tables_text(scores, benchmarks)}\n")
    with progress("auditing"):
        audit = verbs.audit(_first_run(root, folders[-1]), folders[-1], out=root / "audit.json")
    return Shown(scores, tuple(folders), root / "report.html", audit)


def _first_run(root: Path, benchmark: Path) -> Path:
    """The folder of ERM's first run on a benchmark."""
    from shiftbench.sweeps.study import Study

    return next(root / "runs" / job.run.id for job in Study.load(root / "study.toml").jobs(root / "runs")
                if job.run.method == "erm" and Path(job.benchmark).name == benchmark.name)


def tables_text(scores: Scores, benchmarks: Sequence[Benchmark]) -> str:
    """The demo's tables as Markdown, under a line that says which command made them on what."""
    from shiftbench.reporting import distance_tables, share_tables, shown_scores
    from shiftbench.reporting.score_tables import as_markdown

    chosen = shown_scores(scores, benchmarks)
    tables = [*distance_tables(chosen, benchmarks), *share_tables(chosen, benchmarks)]
    processor = load_torch().backends.cpu.get_cpu_capability()
    return "\n\n".join([f"Written by `shiftbench demo` on a processor with {processor}; bold is the best, ≈ not "
                        "distinguishable from it.", *map(as_markdown, tables)])


def _counting(advance: Advance) -> "Callable[[Outcome, int], None]":
    ended = count(1)
    return lambda outcome, total: advance(next(ended), total)


def recipes(world: str) -> dict[str, str]:
    """Name -> recipe: four training sets at growing distance, three minority shares."""
    ladder = {f"dog-{contexts.replace(' + ', '-')}": SUBSET.format(world=world, contexts=contexts)
              for contexts in LADDER}
    mixtures = {f"minority-{share:.0%}".rstrip("%"): SUBPOPULATION.format(world=world, share=share) for share in SHARES}
    return ladder | mixtures
