"""Images per second of the sprites at 64 px, against Pillow drawing the same shapes one by one.

    python bench/sprites.py [--items 20000]

Memory that a process touches for the first time has to be found by the system, which may take longer than painting it:
the first draw is shown beside the middle one of five.
"""

import argparse
import math
import os
import time

import numpy as np
from PIL import Image, ImageDraw

from shiftbench.worlds.sprites import draw, factors, order, sprites

SIZE, FINE = 64, 4
COLOURS = {"red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255)}


def outline(shape: str) -> np.ndarray:
    """A closed outline in pixels at scale 1, x to the right and y down."""
    t = np.linspace(0, 2 * math.pi, 96, endpoint=False)
    if shape == "square":
        return np.asarray([(-10, -10), (10, -10), (10, 10), (-10, 10)], float)
    if shape == "ellipse":
        return np.stack([14.5 * np.cos(t), 7.25 * np.sin(t)], axis=1)
    low, high = np.zeros(96), np.full(96, 2.0)  # the heart's radius by bisection
    for _ in range(30):
        r = (low + high) / 2
        inside = (r * r - 1) ** 3 <= r**5 * np.cos(t) ** 2 * np.sin(t) ** 3
        low, high = np.where(inside, r, low), np.where(inside, high, r)
    return np.stack([11.8 * low * np.cos(t), 11.8 * (0.294 - low * np.sin(t))], axis=1)


def with_pillow(number: np.ndarray) -> np.ndarray:
    """Turn and place the outline, fill it at four times the size, reduce: shaded edges as ours."""
    shown, pictures = factors(number), []
    outlines = {shape: outline(shape) for shape in ("square", "ellipse", "heart")}
    for colour, shape, scale, degrees, x, y in zip(*shown.values(), strict=True):
        turn = math.radians(degrees)
        points = scale * outlines[shape] @ [[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]]
        picture = Image.new("RGB", (SIZE * FINE, SIZE * FINE))
        corners = (points + np.asarray([16.5 + x, 16.5 + y])) * FINE
        ImageDraw.Draw(picture).polygon([*map(tuple, corners.tolist())], fill=COLOURS[colour])
        pictures.append(np.asarray(picture.reduce(FINE)))
    return np.stack(pictures)


def rate(what: str, items: int, seconds: float) -> float:
    print(f"{what:<46} {items:>6} images in {seconds:6.2f} s  {items / seconds:>8.0f} images/s")
    return items / seconds


def timed(number: np.ndarray) -> float:
    start = time.perf_counter()
    draw(number)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=20_000)
    items = parser.parse_args().items
    print(f"first picture, with stencils and loading or compiling: {timed(np.zeros(1, np.int64)):.1f} s")
    number = order(0)[:items]
    few = number[:500]
    start = time.perf_counter()
    pictures = with_pillow(few)
    theirs = rate("Pillow, outline by outline, one core", len(few), time.perf_counter() - start)
    apart = np.abs(pictures.astype(int) - draw(few)).sum() / pictures.sum()
    print(f"its pictures differ from ours by {apart:.1%} of their light, all at edges")
    rate(f"draw, {os.cpu_count()} cores, memory not touched before", items, timed(number))
    ours = rate(f"draw, {os.cpu_count()} cores, middle of five", items, sorted(timed(number) for _ in range(5))[2])
    start = time.perf_counter()
    sprites(items)
    rate("sprites: order of the grid, pixels, factors", items, time.perf_counter() - start)
    print(f"ratio: {ours / theirs:.1f}")


if __name__ == "__main__":
    main()
