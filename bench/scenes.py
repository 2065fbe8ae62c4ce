"""Images per second of the built-in world at 64 px, against Pillow drawing the same polygons one by one.

    python bench/scenes.py [--items 6000]
"""

import argparse
import os
import time

import numpy as np
from PIL import Image, ImageDraw

from shiftbench.worlds.scenes import draw, scenes
from shiftbench.worlds.scenes.layout import Layout, arrange
from shiftbench.worlds.scenes.scene import sample
from shiftbench.worlds.scenes.sheet import sheet

SIZE = 64


def with_pillow(layout: Layout) -> np.ndarray:
    """The same sprites at twice the size, one `ImageDraw.polygon` per polygon, then halved; no areas, no camera."""
    art, side, pictures = sheet(), 2 * SIZE, []
    for item in range(len(layout.first) - 1):
        picture = Image.new("RGB", (side, side))
        pen = ImageDraw.Draw(picture, "RGBA")
        for instance in layout.placed[layout.first[item]:layout.first[item + 1]].tolist():
            sprite, x, y, wide, high = instance[:5]
            for p in range(art.first[sprite], art.first[sprite + 1]):
                role, *literal, shade, alpha, _, _ = art.ink[p].tolist()
                base = (instance[5:8], instance[8:11], literal)[role]
                rgb = [c * shade >> 8 if shade <= 256 else c + ((255 - c) * (shade - 256) >> 8) for c in base]
                spots = art.points[art.start[p]:art.start[p + 1]].tolist()
                corners = [((x + u * wide / 1024) * side / 16384, side - (y + v * high / 1024) * side / 16384)
                           for u, v in spots]
                pen.polygon(corners, fill=(*rgb, min(255, alpha)))
        pictures.append(np.asarray(picture.reduce(2)))
    return np.stack(pictures)


def rate(what: str, items: int, seconds: float) -> float:
    print(f"{what:<46} {items:>6} images in {seconds:6.2f} s  {items / seconds:>8.0f} images/s")
    return items / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=6000)
    items = parser.parse_args().items
    start = time.perf_counter()
    draw([0])
    print(f"first picture, with loading or compiling: {time.perf_counter() - start:.1f} s")
    few = min(items, 300)
    start = time.perf_counter()
    with_pillow(arrange(sample(np.arange(few), 0), 0))
    theirs = rate("Pillow, polygon by polygon, one core", few, time.perf_counter() - start)
    start = time.perf_counter()
    draw(np.arange(items))
    ours = rate(f"draw, {os.cpu_count()} cores", items, time.perf_counter() - start)
    start = time.perf_counter()
    scenes(items)
    rate("scenes: pixels, tags, boxes, captions, factors", items, time.perf_counter() - start)
    print(f"ratio: {ours / theirs:.1f}")


if __name__ == "__main__":
    main()
