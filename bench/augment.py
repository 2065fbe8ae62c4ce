"""Images per second of every augmentation at 64 px on one thread, against torchvision's image by image.

    python bench/augment.py [--items 256] [--device cuda]

torchvision's own batches are shown too: there all images of a batch get the same operations. Times are the process's
own, so that others at work on the machine count less; on a device they are the clock's, with the step recorded once.
"""

import argparse
import time
from collections.abc import Callable

import torch
from torchvision.transforms import v2

from shiftbench.images.augment import PRESETS, augment

SIDE, TIMES = 64, 7
THEIRS = {"randaugment": v2.RandAugment(num_ops=3, magnitude=5, num_magnitude_bins=11),
          "autoaugment": v2.AutoAugment(v2.AutoAugmentPolicy.CIFAR10), "augmix": v2.AugMix(severity=3)}


def pictures(items: int) -> torch.Tensor:
    """Soft patches of colour, N × H × W × 3."""
    soft = torch.rand(items, 3, 6, 6, generator=torch.Generator().manual_seed(0)) * 255
    large = torch.nn.functional.interpolate(soft, (SIDE, SIDE), mode="bilinear")
    return large.byte().permute(0, 2, 3, 1).contiguous()


def rate(what: str, items: int, work: Callable[[], object], device: str = "cpu", times: int = TIMES) -> float:
    """The middle one of several runs after one to warm up."""
    clock, seconds = (time.process_time if device == "cpu" else time.perf_counter), []
    for _ in range(times + 1):
        start = clock()
        work()
        if device != "cpu":
            torch.cuda.synchronize()
        seconds.append(clock() - start)
    middle = sorted(seconds[1:])[times // 2]
    print(f"{what:<44} {middle * 1e3:9.2f} ms for {items} images  {items / middle:>9.0f} images/s")
    return items / middle


def recorded(work: Callable[[], object]) -> Callable[[], object]:
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=256)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    options = parser.parse_args()
    items, device = options.items, options.device
    torch.set_num_threads(1)
    x = pictures(items)
    mean, std, on_device = torch.zeros(3, device=device), torch.ones(3, device=device), x.to(device)
    ours = {}
    for preset, n in PRESETS.items():
        u = torch.rand(items, n, generator=torch.Generator().manual_seed(1)).to(device)

        def work(preset: str = preset, u: torch.Tensor = u) -> object:
            return augment(on_device, preset, mean, std, u)

        ours[preset] = rate(preset, items, work if device == "cpu" else recorded(work), device)
    torch.manual_seed(0)
    planes = x.permute(0, 3, 1, 2).contiguous()
    theirs = {}
    for name, transform in THEIRS.items():
        theirs[name] = rate(f"torchvision {name}, image by image", items, lambda t=transform: [t(p) for p in planes])
        rate(f"torchvision {name}, one draw per batch", items, lambda t=transform: t(planes), times=31)
    for name in ("augmix", "autoaugment", "randaugment"):
        print(f"{name}: {ours[name] / theirs[name]:.1f} times torchvision's rate")
    print(f"ratio: {ours['randaugment'] / theirs['randaugment']:.1f}")


if __name__ == "__main__":
    main()
