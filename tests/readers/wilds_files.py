"""Small files in the layout of each of WILDS' ten and of its CelebA, and how they are read."""

import csv
import gzip
import json
import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from shiftbench.data.collection import Collection
from shiftbench.readers import READERS
from shiftbench.readers.wilds import DATASETS
from shiftbench.readers.wilds.comments import IDENTITIES, OTHER_MARKS, PY150
from shiftbench.readers.wilds.photos import HELD_OUT
from shiftbench.readers.wilds.wheat import SESSIONS

POOR = 23 * 160  # rows of PovertyMap: 2,000 of them are set aside before any is trained on
TEN = [name for name in DATASETS if name != "celeba"]
COUNTRIES = [country for group in HELD_OUT.values() for country in group]


def table(path: Path, columns: Sequence[str], rows: Sequence[Sequence[object]], between: str = ",") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=between).writerows([columns, *rows])


def packed(path: Path, rows: Sequence[Sequence[object]]) -> None:
    """A table without header, in gzip, as OGB writes them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress("".join(",".join(map(str, row)) + "\n" for row in rows).encode()))


def touch(place: Path, names: Sequence[str]) -> None:
    for folder in {os.path.dirname(name) for name in names}:
        (place / folder).mkdir(parents=True, exist_ok=True)
    for name in names:  # thousands of them: a path object each costs more than the file
        os.close(os.open(f"{place}/{name}", os.O_CREAT))


def write_iwildcam(place: Path) -> None:
    words = ["train", "val", "test", "id_val", "id_test", "train"]
    table(place / "metadata.csv", ["", "split", "filename", "y", "location_remapped", "sequence_remapped", "datetime"],
          [[i, word, f"f{i}.jpg", i % 3, i // 2, i, f"2013-06-{i + 1:02} 05:4{i}:1{i}.000"]
           for i, word in enumerate(words)])
    table(place / "categories.csv", ["y", "category_id", "name"], [[2, 9, "zebra"], [0, 4, "empty"], [1, 7, "lion"]])
    touch(place, [f"train/f{i}.jpg" for i in range(6)])


def write_camelyon17(place: Path) -> None:
    rows = [[f"{i:03}", i % 2, i * 32, i * 64, i % 2, 20 + i, i % 5, i // 5 % 2] for i in range(10)]
    table(place / "metadata.csv", ["", "patient", "node", "x_coord", "y_coord", "tumor", "slide", "center", "split"],
          [[n, *row] for n, row in enumerate(rows)])
    where = [f"patient_{patient}_node_{node}" for patient, node, *_ in rows]
    touch(place, [f"patches/{one}/patch_{one}_x_{row[2]}_y_{row[3]}.png"
                  for one, row in zip(where, rows, strict=True)])


def write_rxrx1(place: Path) -> None:
    rows = [[f"{e}_{s}", "HEPG2", ("train", "val", "test")[e], f"HEPG2-0{e + 1}", 1, "B02", s, e * 10 + s]
            for e in range(3) for s in (1, 2)]
    columns = ["site_id", "cell_type", "dataset", "experiment", "plate", "well", "site", "sirna_id"]
    table(place / "metadata.csv", columns, rows)
    touch(place, [f"images/{row[3]}/Plate1/B02_s{row[6]}.png" for row in rows])


def write_molpcba(place: Path) -> None:
    packed(place / "raw/graph-label.csv.gz", [[0, "", 1], [1, 0, ""], ["", "", 0], [1, 1, 1]])
    packed(place / "raw/num-node-list.csv.gz", [[3], [4], [5], [2]])
    packed(place / "raw/num-edge-list.csv.gz", [[2], [4], [6], [1]])
    np.save(place / "raw/scaffold_group.npy", np.array([0, 0, 1, 2]))
    for name in ("edge", "edge-feat", "node-feat"):
        packed(place / f"raw/{name}.csv.gz", [[0, 1]])
    for name, rows in (("train", [3, 0]), ("valid", [1]), ("test", [2])):
        packed(place / f"split/scaffold/{name}.csv.gz", [[row] for row in rows])
    packed(place / "mapping/mol.csv.gz", [["PCBA-1", "smiles", "mol_id"], ["0", "CCO", "C1"], ["1", "C#N", "C2"],
                                          ["", "C", "C3"], ["1", "O=O", "C4"]])


def write_globalwheat(place: Path) -> None:
    def part(name: str, numbers: Sequence[int]) -> None:
        boxes = ["no_box", "0 0 512 256", "10 20 30 40;100 200 1024 1024"]
        table(place / f"{name}.csv", ["image_name", "BoxesString", "domain"],
              [[f"i{n}.png", boxes[n % 3], n % len(SESSIONS)] for n in numbers])

    for name, numbers in {"official_train": [0, 1, 2], "official_val": [3, 4], "official_test": [5, 20],
                          "fixed_train_val": [7], "fixed_train_test": [8], "fixed_test_train": [5],
                          "fixed_test_test": [20]}.items():
        part(name, numbers)
    table(place / "metadata_domain.csv", ["name", "country", "location", "development_stage"],
          [[name, f"land of {name}", "here, there", "Filling"] for name in reversed(SESSIONS)], ";")
    touch(place, [f"images/i{n}.png" for n in (*range(9), 20)])


def write_civilcomments(place: Path) -> None:
    marks = [*IDENTITIES, *OTHER_MARKS]
    rows = [[n, f"id{n}", 0.5 if n % 2 else 0.49, *(0.5 if n == at else "" for at in range(len(marks))),
             'He said "no",\nand left.' if n == 0 else f"comment {n}", ("train", "val", "test")[n % 3]]
            for n in range(20)]
    table(place / "all_data_with_identities.csv", ["", "id", "toxicity", *marks, "comment_text", "split"], rows)


def write_fmow(place: Path) -> None:
    # year, the file's split, and where that leads
    rows = [(2002, "train"), (2012, "val"), (2012, "test"), (2013, "val"), (2013, "train"), (2016, "seq"),
            (2017, "test"), (2016, "val"), (2015, "test")]
    table(place / "rgb_metadata.csv", ["split", "category", "timestamp", "country_code", "note"],
          [[word, "zoo" if n % 2 else "airport", f"{year}-12-31T23:59:59Z", ("FRA", "XXX", "ATA")[n % 3], "a, b"]
           for n, (year, word) in enumerate(rows)])
    table(place / "country_code_mapping.csv", ["name", "alpha-3", "region"],
          [["France", "FRA", "Europe"], ["Antarctica", "ATA", ""]])
    touch(place, [f"images/rgb_img_{n}.png" for n in range(9) if n != 5])


def write_poverty(place: Path, images: bool = True) -> None:
    table(place / "dhs_metadata.csv", ["lat", "lon", "wealthpooled", "country", "year", "urban"],
          [[0.5, -1.0, n / 8, COUNTRIES[n % 23], 2009 + n % 7, n % 2 == 0] for n in range(POOR)])
    touch(place, [f"images/landsat_poverty_img_{n}.npz" for n in range(POOR if images else 0)])


def write_amazon(place: Path) -> None:
    columns = ["reviewerID", "asin", "overall", "reviewTime", "unixReviewTime", "reviewText", "summary", "verified",
               "category", "reviewYear"]
    table(place / "reviews.csv", columns,
          [[f"00{n}", f"a{n}", n % 5 + 1.0, "1 1, 2013", 7, "NA" if n == 1 else f'line\n"two" {n}', "s", True, "Books",
            2010 + n] for n in range(7)])
    table(place / "splits/user.csv", ["split"], [[-1], [0], [1], [2], [3], [4], [0]])
    # As the package's scripts write them, with fractions; two of these have three splits and not five.
    for name, numbers in (("time", [0, 1, 2, 3, 4, -1, -1]), ("books_generalization", [-1, 0, -1, 3, 1, 4, 2]),
                          ("category_subpopulation", [0, -1, 1, 2, 0, 2, 1]),
                          ("time_baseline", [-1, -1, 2, 1, 0, 0, 2])):
        table(place / f"splits/{name}.csv", ["split"], [[float(number)] for number in numbers])


def write_py150(place: Path) -> None:
    table(place / "metadata/repo_file_names/repo_ids.csv", ["id", "repo_name"], [[7, "ann/one"], [3, "bob/two"]])
    for n, part in enumerate(PY150):
        files = ["ann/one/a.py", "bob/two/b/c.py"]
        (place / f"metadata/repo_file_names/{part}.txt").write_text("".join(f"{file}\n" for file in files))
        (place / "processed").mkdir(exist_ok=True)
        for kind, lists in (("", [[n, 5, 1], [9, n, 0]]), ("_tok_type", [[0, 1, -100], [6, 2, 1]])):
            (place / f"processed/{part}_input{kind}.json").write_text(json.dumps(lists))


def write_celeba(place: Path) -> None:
    rows = [[f"{n + 1:06}.jpg", 1 if n % 3 == 0 else -1, 1 if n % 2 else -1, 1] for n in range(12)]
    table(place / "list_attr_celeba.csv", ["image_id", "Blond_Hair", "Male", "Young"], rows)
    table(place / "list_eval_partition.csv", ["image_id", "partition"],
          [[row[0], n // 4] for n, row in enumerate(rows)])
    touch(place, [f"img_align_celeba/{row[0]}" for row in rows])


WRITERS: dict[str, Callable[[Path], None]] = {name: globals()[f"write_{name}"] for name in DATASETS}
NEEDED = {
    "iwildcam": ["metadata.csv", "train/f0.jpg"],
    "camelyon17": ["metadata.csv"],
    "rxrx1": ["metadata.csv", "images/HEPG2-01/Plate1/B02_s1.png"],
    "molpcba": ["raw/graph-label.csv.gz", "raw/num-node-list.csv.gz", "raw/edge.csv.gz", "raw/scaffold_group.npy",
                "split/scaffold/valid.csv.gz"],
    "globalwheat": ["official_test.csv", "fixed_train_val.csv", "metadata_domain.csv", "images/i20.png"],
    "civilcomments": ["all_data_with_identities.csv"],
    "fmow": ["rgb_metadata.csv", "country_code_mapping.csv", "images/rgb_img_8.png"],
    "poverty": ["dhs_metadata.csv", "images/landsat_poverty_img_0.npz"],
    "amazon": ["reviews.csv", "splits/user.csv"],
    "py150": ["metadata/repo_file_names/repo_ids.csv", "processed/IDtest_input_tok_type.json"],
    "celeba": ["list_attr_celeba.csv", "list_eval_partition.csv", "img_align_celeba/000001.jpg"],
}
COLUMNS = [
    ("iwildcam", "metadata.csv", "y"), ("camelyon17", "metadata.csv", "slide"), ("rxrx1", "metadata.csv", "sirna_id"),
    ("globalwheat", "official_val.csv", "BoxesString"), ("globalwheat", "metadata_domain.csv", "country"),
    ("civilcomments", "all_data_with_identities.csv", "LGBTQ"), ("fmow", "rgb_metadata.csv", "timestamp"),
    ("fmow", "country_code_mapping.csv", "region"), ("poverty", "dhs_metadata.csv", "urban"),
    ("amazon", "reviews.csv", "reviewText"), ("amazon", "splits/user.csv", "split"),
    ("py150", "metadata/repo_file_names/repo_ids.csv", "repo_name"), ("celeba", "list_attr_celeba.csv", "Male"),
    ("celeba", "list_eval_partition.csv", "partition"),
]


def place_of(root: Path, name: str, images: bool = True) -> Path:
    """Write a data set as WILDS unpacks it, with its release file.

    Without `images`, PovertyMap has none: its thousands of files take longer than the rest of a test.
    """
    place = root / DATASETS[name].folders[0]
    place.mkdir(parents=True)
    if name == "molpcba":
        (place / "raw").mkdir()
    if name == "poverty":
        write_poverty(place, images)
    else:
        WRITERS[name](place)
    (place / f"RELEASE_v{place.name.partition('_v')[2] or '1'}.txt").touch()
    return place


def read(root: Path, name: str, **options: object) -> Collection:
    """Read without the warning that a sample is a sample."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return READERS["wilds"](name, root=root, **options)
