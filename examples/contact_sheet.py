"""A contact sheet of the built-in world: one row of pictures per class.

    python examples/contact_sheet.py --out docs/images/scenes.png
"""

import argparse
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from shiftbench.worlds.scenes import draw, scenes

MARGIN = 84  # for the class names on the left


def contact_sheet(seed: int, size: int, columns: int) -> Image.Image:
    """The first pictures of every class, in the order in which a seed draws them."""
    kind = scenes(4000, seed, 32).factors["class"]
    classes = list(dict.fromkeys(sorted(kind.tolist(), key=lambda name: -np.count_nonzero(kind == name))))
    page = Image.new("RGB", (MARGIN + columns * size, len(classes) * size), "white")
    pen, font = ImageDraw.Draw(page), ImageFont.load_default(size=14)
    for row, name in enumerate(classes):
        pen.text((MARGIN - 10, (row + 0.5) * size), name, fill="black", font=font, anchor="rm")
        for column, picture in enumerate(draw(np.flatnonzero(kind == name)[:columns], seed, size)):
            page.paste(Image.fromarray(picture), (MARGIN + column * size, row * size))
    return page


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("docs/images/scenes.png"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--size", type=int, default=80)
    parser.add_argument("--columns", type=int, default=12)
    chosen = parser.parse_args()
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    contact_sheet(chosen.seed, chosen.size, chosen.columns).save(chosen.out, optimize=True)
    print(f"wrote {chosen.out}")
