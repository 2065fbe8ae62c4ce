"""The whole flow on the built-in world: MetaShift's two kinds of shift, five methods, three seeds, one report."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from shiftbench import verbs
from shiftbench.benchmark import Benchmark
from shiftbench.collection import MARKER, Collection
from shiftbench.files import read_json, writing
from shiftbench.scores import Scores

LADDER = ("cabinet + bed", "bag + box", "bench + bike", "boat + surfboard")
"""The dog's training contexts of MetaShift's first task, from near to far of dog(shelf)."""
SHARES = (0.12, 0.06, 0.01)
"""The minority shares of MetaShift's Table 2."""
METHODS = {"erm": {}, "irm": {"anneal": 60}, "group_dro": {}, "coral": {}, "cdann": {}}
"""The five of MetaShift's tables. IRM's full penalty starts after a third of the steps, not after DomainBed's 500."""
SEEDS = (0, 1, 2)
FEATURES = "efficientnet-lite0@96"
SETTINGS = {"model": "mlp", "features": FEATURES, "batches": "domain", "steps": 200, "select_on": "last"}
"""As in DomainBed, which the paper used: batches hold as many items of each domain, and the last weights count."""

SUBSET = """# Cat against dog, after MetaShift's Table 1, task 1: only the dog's training contexts move.
collection = "../collections/{world}"
seed = 0

[shift.subset]
train = ["cat(sofa + bed)", "dog({contexts})"]
test = ["cat(shelf)", "dog(shelf)"]
moves = "dog"
n_train = 400
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
"""

Bar = Callable[[str], AbstractContextManager[Callable[[int, int], None]]]


class Shown(NamedTuple):
    """What the demo leaves: the scores, the benchmarks and the page."""

    scores: Scores
    benchmarks: tuple[Path, ...]
    page: Path


def demo(
    out: Path | str = "demo", items: int = 12_000, seed: int = 0, seeds: tuple[int, ...] = SEEDS, workers: int = 0,
    bar: Bar | None = None,
) -> Shown:
    """Draw, build, embed, train, score and report below `out`. What is already there is not done again.

    `seed` is the world's, `seeds` are those of the runs.
    """
    from shiftbench.scoring import score_runs
    from shiftbench.sweeps.local import Job, run_all
    from shiftbench.training import embed

    place = Path(out)
    shown = bar or (lambda what: nullcontext(lambda done, total: None))
    world = place / "collections" / f"scenes-{seed}"
    if not (world / MARKER).exists() or read_json(world / MARKER).get("items") != items:
        with shown("drawing the world") as advance:
            verbs.read("world", "scenes", out=world, items=items, seed=seed, progress=advance)
    folders = []
    for name, text in recipes(world.name).items():
        recipe = place / "recipes" / f"{name}.toml"
        with writing(recipe) as hidden:
            hidden.write_text(text)
        verbs.build(recipe, place / "benchmarks" / name)
        folders.append(place / "benchmarks" / name)
    made = [Benchmark.load(folder) for folder in folders]
    collection = Collection.load(world)
    rows = collection.index(np.unique(np.concatenate([benchmark.items for benchmark in made])))
    backbone, _, size = FEATURES.partition("@")
    with shown("embedding the items") as advance:
        embed(collection, rows, backbone=backbone, size=int(size), folder=world, progress=advance)
    jobs = [Job(folder, world, SETTINGS | {"benchmark": one.digest, "method": method, "params": params, "seed": draw})
            for (folder, one), (method, params), draw in product(
                zip(folders, made, strict=True), METHODS.items(), seeds)]
    with shown("training") as advance:
        runs = [folder.name for folder in run_all(jobs, place / "runs", workers, progress=advance)]
    table = place / "scores.parquet"
    scores = Scores.load(table) if table.exists() else None
    if scores is None or not set(runs) <= set(scores["run"].tolist()):
        scores = score_runs(place / "runs", only=runs)
        scores.save(table)
    verbs.report(scores, place / "report.html", benchmarks=folders, title="Cats and dogs out of context")
    return Shown(scores, tuple(folders), place / "report.html")


def recipes(world: str) -> dict[str, str]:
    """Name -> recipe: four training sets at growing distance, three minority shares."""
    ladder = {f"dog-{contexts.replace(' + ', '-')}": SUBSET.format(world=world, contexts=contexts)
              for contexts in LADDER}
    mixtures = {f"minority-{share:.0%}".rstrip("%"): SUBPOPULATION.format(world=world, share=share) for share in SHARES}
    return ladder | mixtures
