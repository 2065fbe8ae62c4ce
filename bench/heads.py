"""Heads on cached features: runs per minute of the stacked way against the usual loop, one run after the other.

2,400 training items with 1,280 features each; every method that trains a head in one stage, 5 seeds, 16 settings
drawn from its search space, 300 steps, evaluated every 50. The usual loop is the method's loss, torch's gradient and
its fused Adam, a step and a run at a time, on a sample of the runs, scaled; it must end with the same accuracies. Both
use one thread. Run: python bench/heads.py
"""

import argparse
import time

import numpy as np
import torch

from shiftbench.core.arrays import child
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.methods import METHODS, Method, facts
from shiftbench.methods.method import Stage
from shiftbench.training.batches import Data
from shiftbench.training.lane import Lane
from shiftbench.training.loop import Fitting, learn
from shiftbench.training.run import Run
from shiftbench.training.step import Plain

ITEMS, WIDTH, SEEDS, DRAWS, STEPS = 4_000, 1_280, 5, 16, 300


def rows() -> tuple[Benchmark, torch.Tensor]:
    """Two classes and two domains that agree in nine of ten training items, both to be read off the features."""
    rng = child(0, "bench", "features")
    label = rng.integers(2, size=ITEMS)
    split = np.asarray(["train", "id_val", "test"])[np.repeat([0, 1, 2], [2_400, 600, 1_000])]
    domain = np.where(rng.random(ITEMS) < np.where(split == "test", 0.5, 0.9), label, 1 - label)
    names = np.asarray([f"i{number:05d}" for number in range(ITEMS)])
    words = {"label": np.asarray(["cat", "dog"])[label], "domain": np.asarray(["in", "out"])[domain]}
    x = rng.normal(size=(ITEMS, WIDTH)).astype(np.float32)
    x[:, 0] += 2.0 * label - 1
    x[:, 1] += 3.0 * domain - 1.5
    benchmark = Benchmark.of(Collection("noise", names), None, 0, np.arange(ITEMS), split, **words)
    return benchmark, torch.from_numpy(x)


def runs(benchmark: Benchmark, method: str, draws: int) -> list[Run]:
    """Settings of a method: its own numbers by its search space, learning rate and decay by laws of our own."""
    cls = METHODS[method]
    found = []
    for draw in range(draws):
        params = {key: law.draw(child(draw, "search", method, key)) for key, law in cls.space.items()
                  if key not in cls.shapes} if draw else {}
        rng = child(draw, "search", "run")
        lr, decay = (10 ** rng.uniform(-4.5, -2.5), 10 ** rng.uniform(-6, -2)) if draw else (1e-3, 0.0)
        found += [Run(benchmark.digest, method, params, "mlp" if cls.needs else "linear",
                      features="efficientnet-lite0", steps=STEPS, lr=lr, weight_decay=decay, seed=seed)
                  for seed in range(SEEDS)]
    return found


def one_by_one(data: Data, wanted: list[Run]) -> list[float]:
    """The usual loop: a run, then the next."""
    ends = []
    for run in wanted:
        lane = Lane(run, data, Stage(run.learner()), 0, None)
        way = Plain([lane])
        while lane.unfinished:
            for losses in way.advance(lane.until_evaluation):
                lane.record(losses)
            lane.evaluate()
        lane.take_best()
        ends.append(accuracy(data, lane.net))
    return ends


def at_once(data: Data, wanted: list[Run]) -> list[float]:
    fittings = [Fitting(run, data) for run in wanted]
    learn(fittings)
    return [accuracy(data, one.learned.net) for one in fittings if one.learned is not None]


def accuracy(data: Data, net: torch.nn.Module) -> float:
    test = data.benchmark.rows("test")
    return float((data.outputs(net, test).argmax(dim=1).numpy() == data.benchmark.label[test]).mean())  # type: ignore[arg-type]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--draws", type=int, default=DRAWS, help="settings per method")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    benchmark, x = rows()
    data = Data(benchmark, x, torch.device("cpu"))
    ours = theirs = 0.0
    print(f"{'method':<21}{'model':<8}{'runs':>6}{'one by one':>14}{'stacked':>12}{'ratio':>8}")
    listed = sorted(name for name, cls in METHODS.items()
                    if facts(name)["head_only"] and cls.fit is Method.fit and not cls().unlabelled_split())
    for method in listed:
        wanted = runs(benchmark, method, chosen.draws)
        sample = wanted[::max(1, len(wanted) // 5)][:5]
        started = time.process_time()
        single = one_by_one(data, sample)
        loop = (time.process_time() - started) * len(wanted) / len(sample)
        started = time.process_time()
        ends = at_once(data, wanted)
        stack = time.process_time() - started
        if not np.allclose([ends[wanted.index(run)] for run in sample], single, atol=0.02):
            raise SystemExit(f"{method}: the two ways disagree: {single}")
        print(f"{method:<21}{wanted[0].model:<8}{len(wanted):>6}{loop:>12.1f} s{stack:>10.1f} s{loop / stack:>8.1f}")
        ours, theirs = ours + stack, theirs + loop
    print(f"all: {theirs:.1f} s one by one, from 5 runs of each; {ours:.1f} s stacked; processor time of one thread")
    print(f"ratio: {theirs / ours:.1f}")


if __name__ == "__main__":
    main()
