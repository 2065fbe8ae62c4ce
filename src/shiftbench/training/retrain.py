"""Target-RT (BREEDS): how far a finished run gets on the target when its last layer is trained there."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from shiftbench.core.backend import choose_device, one_thread
from shiftbench.core.errors import Advance, ShiftBenchError
from shiftbench.core.files import read_json, scratch, write_json
from shiftbench.data.benchmark import TARGET_TRAIN, Benchmark, collection_of
from shiftbench.data.collection import Collection
from shiftbench.data.predictions import TARGET_RT, Predictions
from shiftbench.models.net import MODELS, build, load_into, read_weights
from shiftbench.models.wrapped import check_named
from shiftbench.scoring.listing import Finished, read_run
from shiftbench.training.batches import Data, load
from shiftbench.training.evaluate import evaluate
from shiftbench.training.folder import CHECKPOINT, is_done, load_run, save_weights, sign
from shiftbench.training.loop import Fitting, learn
from shiftbench.training.run import Run

RATES = (0.01, 0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 7.0, 8.0, 10.0, 11.0, 12.0)
"""Learning rates of BREEDS, A.7.1; also its 40,000 steps and batches of 128."""
STEPS, BATCH = 40_000, 128
TRAIN_ON, CHOOSE_ON, TEST_ON = TARGET_TRAIN, "val", "test"
FACTS = "target_rt.json"


class Retrained(NamedTuple):
    """The outcome: the learning rate that did best on `val`, and its accuracy there."""

    lr: float
    accuracy: float
    failed: tuple[float, ...] = ()  # learning rates at which the loss diverged


def retrain(
    folder: Path | str, benchmark: Benchmark, collection: Collection, *, steps: int = STEPS,
    rates: Sequence[float] = RATES, device: str = "auto", progress: Advance | None = None,
) -> Retrained:
    """Train the last layer of a finished run on the target, and write its predictions of `test` into the run's folder.

    It starts from the run's own last layer and uses SGD without momentum, all learning rates at once. **Our reading**:
    the paper takes the learning rate that is best on the test; we take the one that is best on `val`, items of the
    target that are in no other split. An earlier call with the same settings is not repeated.
    """
    folder = Path(folder)
    settings = {"steps": steps, "rates": list(rates), "batch_size": BATCH}
    if (folder / TARGET_RT).is_file() and (folder / FACTS).is_file():
        facts = read_json(folder / FACTS)
        if {key: facts.get(key) for key in settings} == settings:
            return Retrained(facts["lr"], facts["accuracy"], tuple(facts["failed"]))
    if not is_done(folder):
        raise ShiftBenchError(f"{folder}: the run is not finished. Finish it first, then retrain its last layer.")
    for split in (TRAIN_ON, CHOOSE_ON, TEST_ON):
        if split not in benchmark.splits:
            raise ShiftBenchError(f"Benchmark '{benchmark.name}' has no items in split '{split}', which retraining a "
                                  "last layer needs. Benchmarks of shift 'breeds' have them.")
    run = load_run(folder)
    check_named(run.model, folder)
    features, head = _features(folder, run, load(benchmark, collection, run, choose_device(device)))
    data = Data(benchmark, features, torch.device("cpu"))
    with scratch() as temporary:
        file = temporary / "head.safetensors"
        save_weights(file, head)
        start = Run(benchmark.digest, "last_layer", {"split": TRAIN_ON}, "linear", str(file), "efficientnet-lite0",
                    batch_size=BATCH, steps=steps, optimizer="sgd", momentum=0.0, eval_every=max(1, steps // 40),
                    resample=False, seed=run.seed)
        fittings = [Fitting(replace(start, lr=rate), data) for rate in rates]
        with one_thread():
            learn(fittings, progress=progress)
    accuracy = {fitting.run.lr: evaluate(fitting.run, data, fitting.learned.net, CHOOSE_ON)["accuracy"]
                for fitting in fittings if fitting.learned is not None}
    if not accuracy:
        raise fittings[0].problem or ShiftBenchError(f"{folder}: no learning rate worked.")
    best = max(accuracy, key=lambda rate: accuracy[rate])
    chosen = next(fitting.learned for fitting in fittings if fitting.run.lr == best)
    assert chosen is not None
    test = benchmark.rows(TEST_ON)
    outcome = Retrained(best, accuracy[best], tuple(fitting.run.lr for fitting in fittings if fitting.learned is None))
    Predictions(benchmark.items[test], benchmark.split[test], chosen.logits(TEST_ON).numpy(),
                benchmark.names["label"]).save(folder / TARGET_RT)
    sign(folder, TARGET_RT)
    write_json(folder / FACTS, {**settings, **outcome._asdict(), "accuracies": {f"{rate:g}": accuracy.get(rate)
                                                                         for rate in rates}})
    return outcome


def _features(folder: Path, run: Run, data: Data) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """The features of every row by the run's net, and its last layer."""
    file = read_run(folder).checked(CHECKPOINT)
    # Not with the weights the run began with: they need not be at hand any more, and the checkpoint has all.
    weights = run.weights if MODELS[run.model].source else "none"
    net = run.learner().net(build(run.model, data.n_outputs, data.n_inputs, weights, run.seed))
    load_into(net, read_weights(file), file)
    head = {f"head.{key}": value.detach().cpu().clone() for key, value in net.head.state_dict().items()}
    return data.outputs(net.to(data.device), np.arange(len(data.benchmark)), run.precision, net.features), head


def retrain_all(
    runs: Sequence[Finished], *, steps: int = STEPS, rates: float | Sequence[float] | None = None,
    collection: Collection | Path | str | None = None, device: str = "auto", progress: Advance | None = None,
) -> dict[str, Retrained]:
    """Retrain the last layer of each run on its own benchmark; by run."""
    chosen = (rates,) if isinstance(rates, int | float) else rates or RATES
    outcomes: dict[str, Retrained] = {}
    for number, run in enumerate(runs):
        benchmark = Benchmark.load(run.benchmark_folder)
        images = collection_of(benchmark, collection)
        outcomes[run.folder.name] = retrain(run.folder, benchmark, images, steps=steps, rates=chosen, device=device)
        if progress:
            progress(number + 1, len(runs))
    return outcomes
