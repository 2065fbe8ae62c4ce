"""A real data set of pictures: the emoji of four vendors. What they show is the label, who drew them the domain."""

import csv
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import resvg_py

from shiftbench.core.arrays import child
from tests_real.packages import FLUENT, NOTO, OPENMOJI, TWEMOJI, UNICODE, Package, read_json

VENDORS = {"noto": NOTO, "twemoji": TWEMOJI, "openmoji": OPENMOJI, "fluent": FLUENT}
SIDE = 96
LEFT_OUT = ("Flags",)
"""Groups that not all vendors draw: Noto and Fluent have no flags of countries."""
JOINER = "\u200d"
SHARES = {"train": 0.5, "id_val": 0.1, "id_test": 0.4}
"""Of the glyphs. A glyph is in one of these parts, whoever drew it."""
HELD = {"train": "target_train", "id_val": "unused", "id_test": "test"}
"""What a part of the glyphs is for the vendor that training does not see."""


class Glyph(NamedTuple):
    """An emoji: its code points as names of files have them, its Unicode group and name."""

    code: str
    group: str
    name: str


def code_of(points: str) -> str:
    """One spelling for a sequence of code points: without FE0F, which asks for colour and which vendors put as they
    like.

    >>> code_of("0023-FE0F-20E3")
    '23-20e3'
    """
    return "-".join(f"{int(point, 16):x}" for point in points.split("-") if int(point, 16) != 0xFE0F)


def draw(cache: Path) -> tuple[list[Glyph], Path]:
    """Glyphs that all four vendors draw, and the folder with a picture of each, VENDOR/CODE.png; drawn once.

    A sequence that joins others (a woman who runs, a family) is left out: it varies a glyph that is there, and a
    variant in training would tell the answer in test.
    """
    listed = read_json(UNICODE, "data-by-emoji.json", cache)
    glyphs = {code_of("-".join(f"{ord(point):x}" for point in said)): facts for said, facts in listed.items()
              if JOINER not in said and facts["group"] not in LEFT_OUT}
    bodies = {vendor: _bodies(package, cache) for vendor, package in VENDORS.items()}
    shared = sorted(code for code in glyphs if all(code in drawn for drawn in bodies.values()))
    folder = cache / f"emoji-{SIDE}"
    for vendor, drawn in bodies.items():
        if not (folder / vendor).is_dir():
            hidden = folder / f".{vendor}"
            hidden.mkdir(parents=True, exist_ok=True)
            for code in shared:
                picture = resvg_py.svg_to_bytes(svg_string=drawn[code], width=SIDE, height=SIDE, background="#ffffff",
                                                skip_system_fonts=True)
                (hidden / f"{code}.png").write_bytes(bytes(picture))
            hidden.rename(folder / vendor)  # a folder that is there is whole
    return [Glyph(code, glyphs[code]["group"], glyphs[code]["name"]) for code in shared], folder


def write_table(glyphs: list[Glyph], place: Path) -> None:
    """One row per glyph and vendor. Column `no_VENDOR` is the split in which that vendor is the unseen one: training
    sees the other three, and no glyph is in training and test at once."""
    order = child(0, "glyphs").permutation(len(glyphs))
    ends = np.cumsum([int(share * len(glyphs)) for share in SHARES.values()])[:-1]
    part = {int(row): name for name, rows in zip(SHARES, np.split(order, ends), strict=True) for row in rows}
    with place.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["emoji", "group", "vendor", "glyph", "name", "file", *(f"no_{unseen}" for unseen in VENDORS)])
        for row, (code, group, name) in enumerate(glyphs):
            for vendor in VENDORS:
                table.writerow([f"{vendor}/{code}", group, vendor, code, name, f"{vendor}/{code}.png", *(
                    HELD[part[row]] if vendor == unseen else part[row] for unseen in VENDORS)])


def _bodies(package: Package, cache: Path) -> dict[str, str]:
    """The SVG document of every glyph of a vendor, by code."""
    icons: dict[str, Any] = read_json(package, "icons.json", cache)
    found = {}
    for points, name in read_json(package, "chars.json", cache).items():
        if name in icons["icons"]:
            one = {"left": 0, "top": 0, "width": icons["width"], "height": icons["height"], **icons["icons"][name]}
            found[code_of(points)] = (
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{one["left"]} {one["top"]} {one["width"]} '
                f'{one["height"]}">{one["body"]}</svg>')
    return found
