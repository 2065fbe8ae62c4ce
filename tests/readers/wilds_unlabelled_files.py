"""Small files in the layout of WILDS 2's folders of items without labels."""

from collections.abc import Callable
from pathlib import Path

from tests.readers.wilds_files import COUNTRIES, IDENTITIES, OTHER_MARKS, table, touch


def write_camelyon17(place: Path) -> None:
    rows = [[f"{i:03}", i % 2, i * 32, i * 64, -1, 60 + i, i % 5] for i in range(10)]
    table(place / "metadata.csv", ["", "patient", "node", "x_coord", "y_coord", "tumor", "slide", "center"],
          [[n, *row] for n, row in enumerate(rows)])
    where = [f"patient_{patient}_node_{node}" for patient, node, *_ in rows]
    touch(place, [f"patches/{one}/patch_{one}_x_{row[2]}_y_{row[3]}.png" for one, row in zip(where, rows, strict=True)])


def write_iwildcam(place: Path) -> None:
    rows = [[f"u{i}", (1, -1, 99999)[i % 3], 10 + i // 2, i, "" if i == 2 else f"2013-06-{i + 1:02} 05:4{i}:1{i}.000"]
            for i in range(5)]
    table(place / "metadata.csv", ["uid", "y", "location_remapped", "sequence_remapped", "datetime"], rows)
    touch(place, [f"images/u{i}.jpg" for i in range(5)])


def write_civilcomments(place: Path) -> None:
    marks = [*IDENTITIES, *OTHER_MARKS]
    table(place / "unlabeled_data_with_identities.csv", ["", "id", "toxicity", *marks, "comment_text", "split"],
          [[n, f"id{n}", 0.9, *("" for _ in marks), f'unheard "{n}",\nreally', "unlabeled"] for n in range(6)])


def write_poverty(place: Path) -> None:
    table(place / "unlabeled_metadata.csv", ["lat", "lon", "country", "year"],
          [[0.5, -1.0, COUNTRIES[n % 23], 2009 + n % 7] for n in range(46)])
    touch(place, [f"images/landsat_poverty_img_{n}.npz" for n in range(46)])


WRITERS: dict[str, Callable[[Path], None]] = {
    "camelyon17": write_camelyon17, "iwildcam": write_iwildcam, "civilcomments": write_civilcomments,
    "poverty": write_poverty}


def write(root: Path, name: str) -> Path:
    """The folder of a data set's items without labels, with its release file."""
    place = root / f"{name}_unlabeled_v1.0"
    place.mkdir(parents=True)
    WRITERS[name](place)
    (place / "RELEASE_v1.0.txt").touch()
    return place
