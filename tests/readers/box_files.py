"""Small data sets of boxes in the layouts of YOLO, Pascal VOC, Open Images and LVIS: one content, four formats."""

import json
from pathlib import Path

import numpy as np
from PIL import Image

WORDS = ("cat", "driver's seat", "fire hydrant")
Boxes = list[list[tuple[int, float, float, float, float]]]
"""Per image its boxes: class, x, y, width, height, in pixels of an image of 200 × 100."""
WIDTH, HEIGHT = 200, 100


def some_boxes(images: int = 6, seed: int = 0) -> Boxes:
    """Whole pixels, so that every format can say them; the first image has none."""
    rng = np.random.default_rng(seed)
    return [[] if not n else [
        (int(rng.integers(3)), int(x := rng.integers(0, 150)), int(y := rng.integers(0, 80)),
         int(rng.integers(1, WIDTH - x)), int(rng.integers(1, HEIGHT - y))) for _ in range(rng.integers(1, 4))]
        for n in range(images)]


def picture(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (WIDTH // 10, HEIGHT // 10)).save(path)


def yolo(root: Path, boxes: Boxes, names: str | None = None) -> Path:
    for n, rows in enumerate(boxes):
        split = ("train", "val")[n % 2]
        picture(root / "images" / split / f"{n}.png")
        (root / "labels" / split).mkdir(parents=True, exist_ok=True)
        if rows:
            (root / "labels" / split / f"{n}.txt").write_text("".join(
                f"{word} {(x + w / 2) / WIDTH!r} {(y + h / 2) / HEIGHT!r} {w / WIDTH!r} {h / HEIGHT!r}\n"
                for word, x, y, w, h in rows))
    (root / "data.yaml").write_text(names or f"path: ../{root.name}\ntrain: images/train\nnc: 3\nnames:\n" + "".join(
        f"  {n}: {word}\n" for n, word in enumerate(WORDS)))
    return root


def voc(root: Path, boxes: Boxes) -> Path:
    (root / "Annotations").mkdir(parents=True)
    (root / "ImageSets" / "Main").mkdir(parents=True)
    for n, rows in enumerate(boxes):
        picture(root / "JPEGImages" / f"{n}.png")
        objects = "".join(
            f"<object><name>{WORDS[word]}</name><difficult>0</difficult><bndbox><xmin>{x + 1}</xmin>"
            f"<ymin>{y + 1}</ymin><xmax>{x + w}</xmax><ymax>{y + h}</ymax></bndbox>"
            "<part><name>head</name><bndbox><xmin>1</xmin><ymin>1</ymin>"
            "<xmax>2</xmax><ymax>2</ymax></bndbox></part></object>" for word, x, y, w, h in rows)
        (root / "Annotations" / f"{n}.xml").write_text(
            f"<annotation><folder>x</folder><filename>{n}.png</filename><size><width>{WIDTH}</width><height>{HEIGHT}"
            f"</height><depth>3</depth></size>{objects}</annotation>\n")
    for number, split in enumerate(("train", "val")):
        (root / "ImageSets" / "Main" / f"{split}.txt").write_text(
            "".join(f"{n}\n" for n in range(number, len(boxes), 2)))
    return root


def open_images(root: Path, boxes: Boxes) -> tuple[list[Path], Path]:
    root.mkdir(parents=True)
    files = []
    for number, split in enumerate(("train", "val")):
        files.append(root / f"{split}-annotations-bbox.csv")
        files[-1].write_text("ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,IsGroupOf\n" + "".join(
            f"{n},x,/m/{word},1,{x / WIDTH!r},{(x + w) / WIDTH!r},{y / HEIGHT!r},{(y + h) / HEIGHT!r},0\n"
            for n, rows in enumerate(boxes) if n % 2 == number for word, x, y, w, h in rows))
    (root / "classes.csv").write_text("".join(f"/m/{n},{word}\n" for n, word in enumerate(WORDS)))
    return files, root / "classes.csv"


def lvis(path: Path, boxes: Boxes) -> Path:
    path.write_text(json.dumps({
        "images": [{"id": n, "width": WIDTH, "height": HEIGHT, "neg_category_ids": [],
                    "not_exhaustive_category_ids": [],
                    "coco_url": f"http://images.cocodataset.org/train2017/{n}.png"} for n in range(len(boxes))],
        "categories": [{"id": n + 1, "name": word, "synset": f"x.n.0{n}", "frequency": "r", "synonyms": [word]}
                       for n, word in enumerate(WORDS)],
        "annotations": [{"id": 1, "image_id": n, "category_id": word + 1, "bbox": [x, y, w, h], "area": w * h,
                         "segmentation": [[1, 2, 3, 4, 5, 6]]}
                        for n, rows in enumerate(boxes) for word, x, y, w, h in rows]}))
    return path
