"""Predictions of a timm net from JPEG files: items per second of `predict` against the usual loop.

Photos are noise of 320 × 240 pixels; the net has random weights, so that nothing is fetched. The usual loop opens,
transforms and stacks a batch of pictures and runs the net on it, in one thread, without TF32, on the same device. Both
must say the same; a second call must repeat to the bit; and a processor must agree. Run: python bench/predict.py
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import timm
import torch
from PIL import Image
from timm.data import create_transform, resolve_data_config

import shiftbench as sb
from shiftbench.core.arrays import child

AGREES = 1e-3
"""The largest difference of log-probabilities between devices."""


def photos(folder: Path, items: int) -> sb.Collection:
    rng = child(0, "bench", "photos")
    names = [f"{number:05d}.jpg" for number in range(items)]
    for name in names:
        coarse = Image.fromarray(rng.integers(0, 256, (15, 20, 3), dtype=np.uint8))
        coarse.resize((320, 240), Image.Resampling.BICUBIC).save(folder / name, quality=90)
    return sb.Collection("photos", np.asarray(names), pixels=np.asarray(names), root=folder)


@torch.inference_mode()
def usual(net: torch.nn.Module, folder: Path, names: list[str], size: int, device: str) -> np.ndarray:
    """A batch, then the next."""
    transform, outputs = create_transform(**resolve_data_config({}, model=net)), []
    with torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False):
        for start in range(0, len(names), size):
            pictures = [transform(Image.open(folder / name).convert("RGB")) for name in names[start:start + size]]
            outputs.append(net(torch.stack(pictures).to(device)).log_softmax(dim=1).cpu())
    return torch.cat(outputs).numpy()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=2_000)
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--batch-size", type=int, default=64)
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        collection = photos(folder, options.items)
        torch.manual_seed(0)
        net = timm.create_model(options.model).eval()
        torch.save(net.state_dict(), folder / "weights.pt")
        words = {"weights": str(folder / "weights.pt"), "batch_size": options.batch_size}
        few = collection.take(np.arange(min(32, options.items)))
        sb.predict(few, f"timm:{options.model}", device=device, **words)  # the device wakes up
        start = time.perf_counter()
        ours = sb.predict(collection, f"timm:{options.model}", device=device, **words)
        ours_s = time.perf_counter() - start
        again = sb.predict(collection, f"timm:{options.model}", device=device, **words)
        on_cpu = sb.predict(few, f"timm:{options.model}", device="cpu", **words)
        start = time.perf_counter()
        theirs = usual(net.to(device), folder, collection.items.tolist(), options.batch_size, device)
        usual_s = time.perf_counter() - start
    between = float(np.abs(ours.scores[:len(few)] - on_cpu.scores).max())
    with_usual = float(np.abs(ours.scores - theirs).max())
    print(f"{options.model}, {options.items:,} photos on {device}: predict {options.items / ours_s:,.0f} items/s "
          f"(with loading the net), the usual loop {options.items / usual_s:,.0f} items/s")
    print(f"repeats to the bit: {np.array_equal(ours.scores, again.scores)}; to the usual loop {with_usual:.1e}; to "
          f"the processor {between:.1e}")
    if not np.array_equal(ours.scores, again.scores) or max(between, with_usual) > AGREES:
        raise SystemExit("the numbers differ")
    print(f"ratio: {usual_s / ours_s:.1f}")


if __name__ == "__main__":
    main()
