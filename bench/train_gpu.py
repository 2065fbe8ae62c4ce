"""ResNet-18 on 64 px images, batch 128, on one GPU: model-steps per second against the usual loop, in one run.

The usual loop, as WILDS' and DomainBed's scripts have it: image files that four workers open, crop, flip and make
tensors of one by one, float32, a copy to the device per batch, a step at a time, the loss read after each. Ours is what
`shiftbench sweep` does with a run of precision bf16 and the same crops and flips: decoded images lie on the device, the
whole step is recorded once and replayed; with --packed eight runs go side by side. Everything between the first batch
and the last weights is in our time: recording, evaluation, choosing.

With --check every method, or those named, is trained packed, alone, and stopped and resumed, and must end with the same
bits; its model-steps per second at this size are told besides.
Run: python bench/train_gpu.py --packed; python bench/train_gpu.py --check
"""

import argparse
import contextlib
import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

from shiftbench.core.arrays import child
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.predictions import Predictions
from shiftbench.methods import METHODS
from shiftbench.methods.presets import VARIANTS
from shiftbench.models import build
from shiftbench.training.batches import Data
from shiftbench.training.evaluate import predict_all
from shiftbench.training.loop import Fitting, learn
from shiftbench.training.run import Run

SIDE, BATCH, CLASSES, PACK = 64, 128, 10, 8
MODEL_OF = {"pretrained": {"model": "efficientnet-lite0"}}
"""Of the methods that need another model than ResNet-18: this one's ImageNet weights come with a package."""


def rows(items: int) -> tuple[Collection, Benchmark]:
    """Random images of ten classes and two domains: a tenth each to choose, to test and to learn from without labels,
    the others to train on."""
    rng = child(0, "bench", "images")
    names = np.asarray([f"i{number:06d}" for number in range(items)])
    collection = Collection("noise", names, pixels=rng.integers(0, 256, (items, SIDE, SIDE, 3), dtype=np.uint8))
    label, domain = rng.integers(CLASSES, size=items), rng.integers(2, size=items)
    tenth = items // 10
    split = np.asarray(["train", "id_val", "test", "target_train"])[
        np.repeat([0, 1, 2, 3], [items - 3 * tenth, tenth, tenth, tenth])]
    words = {"label": np.char.add("class ", label.astype(str)), "domain": np.char.add("domain ", domain.astype(str))}
    return collection, Benchmark.of(collection, None, 0, np.arange(items), split, **words)


class Images(torch.utils.data.Dataset):  # type: ignore[type-arg]
    """The data set as most training scripts have it: a file at a time, through torchvision's transforms."""

    def __init__(self, folder: Path, label: np.ndarray) -> None:
        from torchvision import transforms

        self.folder, self.label = folder, label
        self.transform = transforms.Compose([
            transforms.RandomResizedCrop(SIDE, scale=(0.7, 1.0)), transforms.RandomHorizontalFlip(),
            transforms.ToTensor(), transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])])

    def __len__(self) -> int:
        return len(self.label)

    def __getitem__(self, item: int) -> tuple[torch.Tensor, int]:
        return self.transform(Image.open(self.folder / f"{item}.png").convert("RGB")), int(self.label[item])


def write(folder: Path, pixels: np.ndarray) -> None:
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda item: Image.fromarray(pixels[item]).save(folder / f"{item}.png"), range(len(pixels))))


def usual(folder: Path, label: np.ndarray, steps: int, workers: int, reads: bool) -> float:
    """Steps per second of the usual loop, its first fifty not counted."""
    loader = torch.utils.data.DataLoader(Images(folder, label), batch_size=BATCH, shuffle=True, drop_last=True,
                                         num_workers=workers, pin_memory=True)
    net = build("resnet18", CLASSES).cuda().train()
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)
    done, started = 0, 0.0
    while True:
        for x, truth in loader:
            if done == 50:
                torch.cuda.synchronize()
                started = time.perf_counter()
            loss = F.cross_entropy(net(x.cuda(non_blocking=True)), truth.cuda(non_blocking=True))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if reads:
                loss.item()
            done += 1
            if done == steps + 50:
                torch.cuda.synchronize()
                return steps / (time.perf_counter() - started)


def run(benchmark: Benchmark, **settings: object) -> Run:
    return Run(benchmark.digest, **{"model": "resnet18", "size": SIDE, "precision": "bf16", "batch_size": BATCH,
                                    "augment": "standard", "eval_every": 500, **settings})  # type: ignore[arg-type]


def ours(data: Data, lanes: int, steps: int) -> float:
    """Model-steps per second of `lanes` runs at once, from nothing to chosen weights."""
    fittings = [Fitting(run(data.benchmark, steps=steps, seed=seed), data) for seed in range(lanes)]
    torch.cuda.synchronize()
    started = time.perf_counter()
    learn(fittings)
    torch.cuda.synchronize()
    seconds = time.perf_counter() - started
    problems = [one.problem for one in fittings if one.problem is not None]
    if problems:
        raise SystemExit(f"a run failed: {problems[0]!r}")
    return lanes * steps / seconds


class Killed(Exception):
    """Stands for the end of a process."""


def fastest(marks: list[tuple[float, int]]) -> float:
    """Steps per second between the two marks (seconds, steps done) where it went best; 0 for a run that broke."""
    return max(((after - before) / (late - early) for (early, before), (late, after) in pairwise(marks)), default=0.0)


def called(name: str) -> dict[str, object]:
    """The settings of a run of a method or a preset, by name."""
    if name in VARIANTS:
        return {"method": VARIANTS[name].method, "preset": name, "augment": "none",
                **{key: value for key, value in VARIANTS[name].settings.items() if key in ("model", "augment")}}
    return {"method": name, **({"model": METHODS[name].model} if METHODS[name].model else {})}


def check(data: Data, names: list[str], models: list[str]) -> int:
    """Each method on each model packed with its neighbours, alone, and stopped and resumed: the number of runs that
    differ."""
    short = {"steps": 72, "eval_every": 24, "precision": "bf16", "augment": "none"}
    chosen = [{**short, "model": model, **MODEL_OF.get(name, {}), **called(name)} for model in models for name in names]
    different = 0
    for first in range(0, len(chosen), PACK):
        runs = [run(data.benchmark, **settings) for settings in chosen[first:first + PACK]]
        packed = [Fitting(one, data) for one in runs]
        learn(packed)
        for one in packed:
            with tempfile.TemporaryDirectory() as place:
                def stop(done: int, total: int) -> None:
                    if done >= 6:
                        raise Killed

                with contextlib.suppress(Killed):
                    learn([Fitting(one.run, data, Path(place))], checkpoint_seconds=0, progress=stop)
                resumed = Fitting(one.run, data, Path(place))
                learn([resumed])
            alone = Fitting(one.run, data)
            marks: list[tuple[float, int]] = []
            learn([alone], progress=lambda done, total, marks=marks: marks.append((time.perf_counter(), done)))
            ends = [predict_all(other.run, data, other.learned.net) if other.learned else other.problem
                    for other in (one, alone, resumed)]
            same = all(isinstance(end, Predictions) and end == ends[0] for end in ends)
            different += not same
            problems = [other.problem for other in (one, alone, resumed) if other.problem is not None]
            recorded = "recorded" if alone.learned and alone.learned.net.recordable else "plain"
            print(f"{one.run.label:<22}{one.run.model:<32}{'same' if same else 'DIFFERS':<10}{recorded:<10}"
                  f"{fastest(marks):>8.0f} steps/s alone   {problems or ''}", flush=True)
    print(f"{len(chosen)} runs packed, alone and resumed: {different} differ")
    return different


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--packed", action="store_true", help=f"{PACK} runs side by side")
    parser.add_argument("--steps", type=int, default=2000, help="steps of each run")
    parser.add_argument("--check", nargs="*", metavar="METHOD", help="compare packed, alone and resumed; then end")
    parser.add_argument("--model", nargs="+", default=["resnet18"], metavar="MODEL",
                        help="with --check: on these models, as timm:resnet18 timm:vit_tiny_patch16_224")
    chosen = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("this bench needs a GPU; bench/heads.py runs on a processor")
    collection, benchmark = rows(20_000)
    data = Data(benchmark, torch.from_numpy(collection.pixels), torch.device("cuda"))
    if chosen.check is not None:
        names = chosen.check or sorted(name for name in (*METHODS, *VARIANTS) if not name.startswith("only_"))
        raise SystemExit("the ways of training disagree" if check(data, names, chosen.model) else 0)
    lanes = PACK if chosen.packed else 1
    train = benchmark.rows("train")
    with tempfile.TemporaryDirectory() as place:
        assert collection.pixels is not None
        write(Path(place), collection.pixels[train])
        ours(data, 1, 64)  # what a process loads once, which the usual loop's first steps do for it
        mine = ours(data, lanes, chosen.steps)
        theirs = usual(Path(place), benchmark.label[train], 300, workers=4, reads=True)
        tuned = usual(Path(place), benchmark.label[train], 300, workers=min(16, os.cpu_count() or 1), reads=False)
        again = ours(data, lanes, chosen.steps)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, ResNet-18, {SIDE} px, batch {BATCH}")
    print(f"the usual loop, 4 workers                   {theirs:8.1f} steps/s")
    print(f"a worker per core, the loss not read        {tuned:8.1f} steps/s")
    what = f"{lanes} runs at once" if lanes > 1 else "one run"
    print(f"{what + ', whole, twice':<40}    {mine:8.1f} model-steps/s, and {again:.1f}")
    print(f"ratio to the tuned loop: {min(mine, again) / tuned:.1f}")
    print(f"ratio: {min(mine, again) / theirs:.1f}")


if __name__ == "__main__":
    main()
