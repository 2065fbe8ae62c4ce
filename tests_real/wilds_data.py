"""Files in the layout of WILDS' ten data sets, drawn at random, that the package itself accepts."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

from shiftbench.readers.wilds.comments import IDENTITIES, OTHER_MARKS, PY150, TOKENS
from shiftbench.readers.wilds.molecules import ATOM_SIZES, BOND_SIZES
from shiftbench.readers.wilds.photos import LAND
from shiftbench.readers.wilds.wheat import SESSIONS
from tests.readers.wilds_files import COUNTRIES, TEN, packed, table

Draw = np.random.Generator
TEXTS = ['He said "no",\nand left.', "one\r\ntwo", " spaces ", "a, b;c", "ü — ☃", "'quoted'", "12", "1e5", "True",
         "x" * 999]
REGIONS = {"CHN": "Asia", "FRA": "Europe", "MLI": "Africa", "PER": "Americas", "FJI": "Oceania"}
HERE = {  # countries, places and stages of growth that GlobalWheat knows
    "country": ("Switzerland", "UK", "US", "Sudan"),
    "location": ("Maricopa, AZ", "Gréoux", "Ciudad Obregon", "Eschikon"),
    "stage": ("Filling", "Filling-Ripening", "multiple", "Ripening"),
}
FILES = {"official_train": range(40), "official_val": range(40, 60), "official_test": range(60, 90),
         "fixed_train_val": range(90, 100), "fixed_train_test": range(100, 110), "fixed_test_train": range(60, 75),
         "fixed_test_test": range(75, 90), "mixed_train_train": [*range(0, 40, 2), *range(60, 75)],
         "mixed_train_test": range(75, 90)}


def dense(draw: Draw, rows: int, values: int) -> list[int]:
    """Numbers below `values`, each at least once, as the package demands of labels."""
    return draw.permutation(np.concatenate([np.arange(values), draw.integers(0, values, rows - values)])).tolist()


def write_iwildcam(place: Path, draw: Draw) -> None:
    words = draw.choice(["train", "val", "test", "id_val", "id_test"], 300).tolist()
    second = draw.integers(0, 1_500_000_000, 300).astype("datetime64[s]")
    when = [f"{one} {two}.{n % 1000:03}" for n, (one, _, two) in enumerate(str(at).partition("T") for at in second)]
    columns = [dense(draw, 300, values) for values in (20, 40, 90)]
    table(place / "metadata.csv", ["", "split", "filename", "y", "location_remapped", "sequence_remapped", "datetime"],
          [[n, word, f"{n:08x}-21bc.jpg", *numbers, at] for n, (word, at, *numbers) in enumerate(
              zip(words, when, *columns, strict=True))])
    table(place / "categories.csv", ["y", "category_id", "name"], [[y, y * 7, f"animal {y}"] for y in range(20)])


def write_camelyon17(place: Path, draw: Draw) -> None:
    slides = dense(draw, 400, 50)  # ten of each hospital, as published
    table(place / "metadata.csv", ["", "patient", "node", "x_coord", "y_coord", "tumor", "slide", "center", "split"],
          [[n, f"{slide // 2:03}", slide % 2, n * 32, n * 64, draw.integers(2), slide, slide // 10, draw.integers(2)]
           for n, slide in enumerate(slides)])


def write_rxrx1(place: Path, draw: Draw) -> None:
    kinds = {"U2OS": 4, "HEPG2": 9, "RPE": 7, "HUVEC": 12}  # not in the order of the alphabet
    rows: list[list[object]] = []
    for cells, many in kinds.items():
        for number in range(1, many + 1):
            word = "train" if number <= many // 2 else "val" if number == many // 2 + 1 else "test"
            rows += [[n, cells, word, f"{cells}-{number:02}", draw.integers(1, 5), f"{'PBK'[n % 3]}{n:02}", site]
                     for n in range(4) for site in (1, 2)]
    columns = ["site_id", "cell_type", "dataset", "experiment", "plate", "well", "site", "sirna_id"]
    order, y = draw.permutation(len(rows)).tolist(), dense(draw, len(rows), 60)
    table(place / "metadata.csv", columns, [[*rows[at], number] for at, number in zip(order, y, strict=True)])


def write_civilcomments(place: Path, draw: Draw) -> None:
    marks = [*IDENTITIES, *OTHER_MARKS]
    scores = [0.0, 0.25, 0.49999999, 0.5, 0.500001, 1.0, 1, ""]
    rows = [[n, 9 * n, draw.choice(scores[:-1]), *(scores[at] for at in draw.integers(0, 8, len(marks))),
             TEXTS[n % len(TEXTS)] + " 7.", draw.choice(["train", "val", "test"])] for n in range(200)]
    table(place / "all_data_with_identities.csv", ["", "id", "toxicity", *marks, "comment_text", "split"], rows)


def write_fmow(place: Path, draw: Draw) -> None:
    edges = ["2012-12-31T23:59:59Z", "2013-01-01T00:00:00Z", "2015-12-31T23:59:59Z", "2016-01-01T00:00:00Z"]
    times = edges * 10 + [f"{year}-{month:02}-28T0{month % 10}:00:00Z" for year, month in zip(
        draw.integers(2002, 2018, 860).tolist(), draw.integers(1, 13, 860).tolist(), strict=True)]
    kinds, uses = draw.choice(["train", "train", "val", "test", "seq"], 900), draw.choice(LAND, 900)
    table(place / "rgb_metadata.csv", ["split", "category", "timestamp", "country_code"],
          list(zip(kinds, uses, times, draw.choice([*REGIONS, "XKX", ""], 900), strict=True)))
    table(place / "country_code_mapping.csv", ["name", "alpha-3", "region"],
          [["", code, region] for code, region in [("FJI", "Asia"), *REGIONS.items()]])


def write_poverty(place: Path, draw: Draw) -> None:
    table(place / "dhs_metadata.csv", ["", "lat", "lon", "wealthpooled", "country", "year", "urban"],
          [[n, *numbers, country, 2009 + n % 7, numbers[0] > 0] for n, (numbers, country) in enumerate(
              zip(draw.normal(size=(5000, 3)).tolist(), draw.choice(COUNTRIES, 5000).tolist(), strict=True))])


def write_amazon(place: Path, draw: Draw) -> None:
    columns = ["reviewerID", "asin", "overall", "reviewTime", "unixReviewTime", "reviewText", "summary", "verified",
               "category", "reviewYear"]
    texts = [*TEXTS, "NA", "null", "", "nan"]
    with (place / "reviews.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, quoting=csv.QUOTE_NONNUMERIC).writerows([columns, *(
            [f"A{draw.integers(40):03}", f"000{draw.integers(90)}", float(draw.integers(1, 6)), "1 1, 2013", 7,
             texts[n % len(texts)], "s", "True", str(draw.choice(["Books", "CDs_and_Vinyl", "NA"])),
             int(draw.integers(2000, 2019))] for n in range(400))])
    table(place / "splits/user.csv", ["split"], [[code] for code in draw.integers(-1, 5, 400).tolist()])


def write_py150(place: Path, draw: Draw) -> None:
    repos = [f"owner{n}/repo{n}" for n in range(12)]
    table(place / "metadata/repo_file_names/repo_ids.csv", ["id", "repo_name"],
          [[code, repo] for code, repo in zip(draw.permutation(99).tolist(), repos, strict=False)])
    for n, part in enumerate(PY150):
        names = [f"{repo}/a/b c\u2028{at}.py\n" for at, repo in enumerate(draw.choice(repos, 6 + n).tolist())]
        (place / f"metadata/repo_file_names/{part}.txt").write_text("".join(names), encoding="utf-8")
        for kind, numbers in (("", draw.integers(0, 50_001, (6 + n, 16))),
                              ("_tok_type", draw.choice(list(TOKENS.values()), (6 + n, 16)))):
            (place / f"processed/{part}_input{kind}.json").write_text(json.dumps(numbers.tolist()))


def write_globalwheat(place: Path, draw: Draw) -> None:
    def boxes() -> str:
        sides = draw.integers(0, 1024, (draw.integers(0, 5), 4)).tolist()
        return ";".join(f"{one} {two}.75 {three}.0 {four}" for one, two, three, four in sides) or "no_box"

    rows = [[f"i{n}.png", boxes(), draw.integers(len(SESSIONS))] for n in range(110)]
    for name, numbers in FILES.items():
        table(place / f"{name}.csv", ["image_name", "BoxesString", "domain"], [rows[n] for n in numbers])
    table(place / "metadata_domain.csv", ["name", "country", "location", "development_stage", "Number of images"],
          [[name, *(draw.choice(words) for words in HERE.values()), 7] for name in draw.permutation(SESSIONS)], ";")


def write_molpcba(place: Path, draw: Draw) -> None:
    atoms, bonds = draw.integers(2, 9, 40), draw.integers(0, 9, 40)
    packed(place / "raw/graph-label.csv.gz", draw.choice(["0", "1", "", "1.0"], (40, 128)).tolist())
    packed(place / "raw/num-node-list.csv.gz", atoms[:, None].tolist())
    packed(place / "raw/num-edge-list.csv.gz", bonds[:, None].tolist())
    packed(place / "raw/edge.csv.gz", [draw.integers(0, many, 2).tolist() for many in np.repeat(atoms, bonds).tolist()])
    packed(place / "raw/edge-feat.csv.gz", draw.integers(0, BOND_SIZES, (bonds.sum(), len(BOND_SIZES))).tolist())
    packed(place / "raw/node-feat.csv.gz", draw.integers(0, ATOM_SIZES, (atoms.sum(), len(ATOM_SIZES))).tolist())
    np.save(place / "raw/scaffold_group.npy", draw.integers(0, 9, 40))
    mixed = draw.permutation(40).tolist()
    for name, rows in (("train", mixed[:20]), ("valid", mixed[20:30]), ("test", mixed[30:])):
        packed(place / f"split/scaffold/{name}.csv.gz", [[row] for row in rows])
    packed(place / "mapping/mol.csv.gz", [["smiles", "mol_id"], *(["C" * (n + 1), f"C{n}"] for n in range(40))])


WRITERS: dict[str, Callable[[Path, Draw], None]] = {name: globals()[f"write_{name}"] for name in TEN}
