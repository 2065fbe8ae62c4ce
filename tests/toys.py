"""A toy that can be learned in a blink: two classes apart in feature space, two domains, groups of unequal size."""

from functools import partial

import numpy as np
import torch

from shiftbench.data.benchmark import TARGET_TRAIN, Benchmark
from shiftbench.data.collection import Collection
from shiftbench.methods import METHODS, Batch, Method, Task
from shiftbench.models import build
from shiftbench.training.batches import Data
from shiftbench.training.loop import Fitting
from shiftbench.training.loop import learn as learn_all
from shiftbench.training.run import Run

torch.set_num_threads(1)  # tensors this small are slower on two

CPU = torch.device("cpu")
FEATURES = "efficientnet-lite0@32"
"""Named in a run so that a head may be trained; the toys bring features of their own."""


def toy_rows(n: int = 240, seed: int = 0) -> tuple[Collection, Benchmark]:
    """Rows of four splits; domain and label agree in nine of ten training items, in half of the test's.

    The last twelfth is `target_train`, for methods that learn from unlabelled items.
    """
    rng = np.random.default_rng(seed)
    split = np.asarray(["train", "id_val", "test"])[np.repeat([0, 1, 2], [n // 2, n // 4, n - n // 2 - n // 4])]
    split = np.where(np.arange(n) < n - n // 12, split, TARGET_TRAIN)
    label = rng.integers(0, 2, n)
    agree = rng.random(n) < np.where(np.isin(split, ("test", TARGET_TRAIN)), 0.5, 0.9)
    domain = np.where(agree, label, 1 - label)
    pixels = rng.integers(0, 90, (n, 16, 16, 3), dtype=np.uint8)
    pixels[label == 1, :8] += 120  # class 1 is bright above
    collection = Collection("toy", np.asarray([f"i{k:03d}" for k in range(n)]), pixels=pixels)
    words = {"label": np.asarray(["cat", "dog"])[label], "domain": np.asarray(["in", "out"])[domain]}
    return collection, Benchmark.of(collection, None, seed, np.arange(n), split, **words)


def toy_features(benchmark: Benchmark, width: int = 8, seed: int = 0) -> torch.Tensor:
    """Class in the first feature, domain in the second, noise in the others."""
    x = np.random.default_rng(seed).normal(size=(len(benchmark), width)) * 0.5
    x[:, 0] += 4.0 * benchmark.label - 2
    x[:, 1] += 2.0 * benchmark.domain - 1
    return torch.from_numpy(x.astype(np.float32))


def toy_run(benchmark: Benchmark, **settings) -> Run:
    return Run(**{"benchmark": benchmark.digest, "model": "mlp", "features": FEATURES, "steps": 40, "lr": 0.02,
                  "batch_size": 16, "eval_every": 10, **settings})


def learn(run: Run, benchmark: Benchmark, x: torch.Tensor, folder=None, **options) -> torch.Tensor:
    """Train in memory and give the logits of every row."""
    one = fitted(run, benchmark, x, folder, **options)
    return one.data.outputs(one.learned.net, np.arange(len(benchmark)))


def learn_pack(runs: list[Run], benchmark: Benchmark, x: torch.Tensor) -> list[torch.Tensor]:
    """Train several runs at once and give the logits of every row; they are those that each gives alone."""
    return [one.data.outputs(one.learned.net, np.arange(len(benchmark))) for one in fitted_pack(runs, benchmark, x)]


def fitted_pack(runs: list[Run], benchmark: Benchmark, x: torch.Tensor) -> list[Fitting]:
    """Train several runs at once; each ends as it does alone (see test_packs.py)."""
    data = Data(benchmark, x, CPU)
    pack = [Fitting(run, data) for run in runs]
    learn_all(pack)
    for one in pack:
        if one.problem is not None:
            raise one.problem
    return pack


def fitted(run: Run, benchmark: Benchmark, x: torch.Tensor, folder=None, **options) -> Fitting:
    """Train in memory; what breaks the run is raised."""
    one = Fitting(run, Data(benchmark, x, CPU), folder)
    learn_all([one], **options)
    if one.problem is not None:
        raise one.problem
    return one


def ten_rows() -> tuple[torch.Tensor, Batch, Task]:
    """Ten fixed rows: three classes, two domains of six and four rows, three groups, one weight each."""
    rng = np.random.default_rng(7)
    label = np.asarray([0, 1, 2, 0, 1, 2, 0, 0, 1, 2])
    domain = np.asarray([0, 1, 0, 0, 1, 0, 1, 0, 1, 0])
    group = np.asarray([0, 1, 2, 0, 1, 2, 2, 0, 1, 2])
    x = torch.from_numpy(rng.normal(size=(10, 5)).astype(np.float32))
    counts = np.zeros((2, 3), np.int64)
    np.add.at(counts, (domain, label), 1)
    batch = Batch(x, *(torch.from_numpy(codes) for codes in (label, domain, group)), torch.arange(10))
    return x, batch, Task(3, 2, 3, 64, torch.from_numpy(counts), torch.from_numpy(np.bincount(group)), 10,
                          partial(net_of, seed=2))


def net_of(n_classes: int = 3, n_inputs: int = 5, model: str = "mlp", seed: int = 1):
    return build(model, n_classes, n_inputs, seed=seed)


def check_a_pack(name: str, params: list[dict], benchmark: Benchmark, x: torch.Tensor) -> None:
    """Runs with other hyperparameters, trained at once, each end with the weights they have alone, bit for bit."""
    data = Data(benchmark, x, CPU)
    pack = [Fitting(toy_run(benchmark, method=name, steps=12, params=one, seed=seed), data)
            for seed in (0, 1) for one in params]
    learn_all(pack)
    ends = [one.learned.logits("test") for one in pack]
    for one, end in zip(pack, ends, strict=True):
        assert torch.equal(end, fitted(one.run, benchmark, x).learned.logits("test"))
    assert not torch.equal(ends[0], ends[1])


HEADS = sorted(name for name, cls in METHODS.items()
               if cls.needs in ("", "features") and not cls.model and name != "last_layer")
"""The methods that run on cached features. `last_layer` needs a target to learn, which the toy has not."""


def with_draws(batch: Batch, method: Method) -> Batch:
    """The batch with the random numbers that the method wants."""
    u = np.random.default_rng(11).random((len(batch.x), method.draws), np.float32)
    return batch._replace(u=torch.from_numpy(u)) if method.draws else batch


def method_of(name: str, **params) -> Method:
    return METHODS[name](**params)
