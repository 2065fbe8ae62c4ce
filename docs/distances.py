"""Measure how the distances of the built-in world's ladders change with its size, and write them as a table.

    python docs/distances.py FILE        the same world of 6, 12 and 24 thousand items, two minutes
"""

import sys
from dataclasses import replace
from pathlib import Path

from shiftbench.shifts.suites import suite
from shiftbench.worlds import WORLDS

SIZES = (6_000, 12_000, 24_000)


def main(out: str) -> None:
    measured: dict[str, dict[tuple[str, int], list[float]]] = {}
    for size in SIZES:
        scenes = WORLDS["scenes"](items=size, seed=0, size=32)
        for key, shift in suite("metashift/world/table1"):
            card = replace(shift, n_train=0).build(scenes, 0).card
            both = {"spectral": card["distance"], "diffusion": card["diffusion_distances"][shift.moves]}
            for kind, value in both.items():
                measured.setdefault(key.rpartition("-")[0], {}).setdefault((kind, size), []).append(value)
    lines = ["| task | distance | " + " | ".join(f"{size:,} items" for size in SIZES) + " |", "|--|--|--|--|--|"]
    lines += [f"| {task} | {kind} | " + " | ".join(" ".join(f"{value:.2f}" for value in rungs[kind, size])
                                                 for size in SIZES) + " |"
              for task, rungs in measured.items() for kind in ("spectral", "diffusion")]
    Path(out).write_text("\n".join([*lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
