"""Reading a COCO-sized instances file into a collection, against pycocotools' load of the same file in the same run.

The file is made here, in a temporary folder: 118,287 images and 860,001 annotations with outlines, about 370 MB, laid
out as COCO's own. Each side runs in a fresh process: `COCO(path)` with its index, and our reader up to a checked
collection. Times are processor time without starting Python and importing; both sides use one thread. Memory is the
peak of the process, imports included; ours counts the pages of the mapped file, which the system takes back when it
needs them.

    python bench/read_coco.py [--annotations 860001] [--repeat 3]
"""

import argparse
import importlib.util
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from shiftbench.core.arrays import child

THEIRS = "from pycocotools.coco import COCO as load"
OURS = "from shiftbench.readers import READERS; load = READERS['coco']"
TIMED = """
import json, resource, sys, time
{load}
start = time.process_time()
held = load(sys.argv[1])
seconds = time.process_time() - start
print()
print(json.dumps([seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3]))
"""


def write(path: Path, n_images: int, n_annotations: int) -> None:
    """A file with the shape of instances_train2017.json: outlines of 4 to 200 points, areas in all their digits."""
    rng = child(0, "bench", "coco")
    ids = np.sort(rng.choice(600_000, n_images, replace=False))
    sides = rng.choice([(640, 480), (640, 427), (480, 640), (500, 375)], n_images)
    points = np.clip(rng.lognormal(2.57, 0.7, 4000), 4, 200).astype(int)
    outlines = [", ".join(f"{value:.2f}".rstrip("0").rstrip(".") for value in rng.uniform(0, 375, 2 * count))
                for count in points.tolist()]
    of = rng.integers(0, n_images, n_annotations)
    start = rng.uniform(0, 0.5, (n_annotations, 2))
    box = np.round(np.concatenate([start, rng.uniform(0, 0.5, (n_annotations, 2))], axis=1) * np.tile(sides[of], 2), 2)
    area = box[:, 2] * box[:, 3] * rng.uniform(0.3, 1, n_annotations)
    category = rng.integers(1, 91, n_annotations)
    drawn = rng.integers(0, len(outlines), n_annotations)
    with path.open("w") as file:
        file.write('{"info": {"description": "generated", "version": "1.0", "year": 2017}, "licenses": [], "images": [')
        file.write(", ".join(
            f'{{"license": 3, "file_name": "{key:012d}.jpg", "coco_url": "http://example.org/train2017/{key:012d}.jpg"'
            f', "height": {height}, "width": {width}, "date_captured": "2013-11-14 11:18:45", '
            f'"flickr_url": "http://example.org/8186/8119368305_4e622c8349_z.jpg", "id": {key}}}'
            for key, (width, height) in zip(ids.tolist(), sides.tolist(), strict=True)))
        file.write('], "annotations": [')
        for first in range(0, n_annotations, 20_000):
            rows = slice(first, first + 20_000)
            file.write(", " if first else "")
            file.write(", ".join(
                f'{{"segmentation": [[{outlines[outline]}]], "area": {size}, "iscrowd": 0, "image_id": {image}, '
                f'"bbox": {sides}, "category_id": {kind}, "id": {number}}}'
                for number, (outline, size, image, sides, kind) in enumerate(zip(
                    drawn[rows].tolist(), area[rows].tolist(), ids[of[rows]].tolist(), box[rows].tolist(),
                    category[rows].tolist(), strict=True), first)))
        file.write('], "categories": ')
        things = [{"supercategory": f"kind {key % 12}", "id": key, "name": f"thing {key}"} for key in range(1, 91)]
        json.dump(things, file)
        file.write("}")


def measure(load: str, path: Path) -> tuple[float, float]:
    """Seconds and MB of one load in a process of its own."""
    script = [sys.executable, "-c", TIMED.format(load=load), str(path)]
    seconds, memory = json.loads(subprocess.run(script, check=True, capture_output=True).stdout.splitlines()[-1])
    return seconds, memory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=118_287)
    parser.add_argument("--annotations", type=int, default=860_001)
    parser.add_argument("--repeat", type=int, default=3, help="measurements of each side, in turn; the best counts")
    asked = parser.parse_args()
    if importlib.util.find_spec("pycocotools") is None:
        sys.exit("pycocotools is needed to compare with. Install it: pip install pycocotools")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "instances_train2017.json"
        write(path, asked.images, asked.annotations)
        size = path.stat().st_size / 1e6
        print(f"file:        {size:.0f} MB, {asked.images:,} images, {asked.annotations:,} annotations")
        turns = [(measure(THEIRS, path), measure(OURS, path)) for _ in range(asked.repeat)]
    theirs, ours = (tuple(min(turn[side][part] for turn in turns) for part in (0, 1)) for side in (0, 1))
    print(f"pycocotools: {theirs[0]:.2f} s, peak memory {theirs[1]:.0f} MB")
    print(f"ours:        {ours[0]:.2f} s, peak memory {ours[1]:.0f} MB: {ours[1] / theirs[1]:.2f} of pycocotools'")
    print(f"ratio: {theirs[0] / ours[0]:.1f}")


if __name__ == "__main__":
    main()
