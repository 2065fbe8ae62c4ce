"""Readers of collections of factors: what they read is what the files say, and a damaged file is one clear error."""

import csv
import gzip
import json
import struct
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from shiftbench.cli import app
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.collection import Collection
from shiftbench.readers import READERS
from shiftbench.readers.factors import COLOURS, OBJECTS, SHAPES
from shiftbench.worlds import sprites as grid

factors = READERS["factors"]
few = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


class Bomb:
    """An object whose unpickling would be noticed."""

    def __reduce__(self) -> tuple:
        return (Path("unpickled").touch, ())


def sprites(path: Path, rows: int = 20, side: int = 4, seed: int = 0, packed: bool = True, **other: np.ndarray) -> dict:
    """A file in the layout of dSprites, the pickled `metadata` included, and what is in it."""
    random = np.random.default_rng(seed)
    cell = np.stack([np.zeros(rows, int), *(random.integers(0, n, rows) for n in (3, 6, 40, 32, 32))], axis=1)
    value = np.stack([np.ones(rows), cell[:, 1] + 1, 0.5 + cell[:, 2] / 10, cell[:, 3] * 2 * np.pi / 39,
                      cell[:, 4] / 31, cell[:, 5] / 31], axis=1)
    content = {"metadata": np.array({"author": Bomb()}, dtype=object),
               "imgs": random.integers(0, 2, (rows, side, side), np.uint8),
               "latents_values": value, "latents_classes": cell} | other
    (np.savez_compressed if packed else np.savez)(path, **content)
    return content


def shapes(path: Path, rows: int = 12, side: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """A file in the layout of 3dshapes.h5, and what is in it."""
    random = np.random.default_rng(0)
    labels = np.stack([*(random.integers(0, 10, rows) * 0.1 for _ in range(3)), 0.75 + random.integers(0, 8, rows) / 14,
                       random.integers(0, 4, rows), -30 + random.integers(0, 15, rows) * 60 / 14], axis=1)
    images = random.integers(0, 256, (rows, side, side, 3), np.uint8)
    with h5py.File(path, "w") as file:
        file.create_dataset("images", data=images, chunks=(5, side, side, 3), compression="gzip")
        file.create_dataset("labels", data=labels)
    return images, labels


def matrix(path: Path, values: np.ndarray) -> None:
    """A binary matrix file as smallNORB has them."""
    magic = {"uint8": 0x1E3D4C55, "int32": 0x1E3D4C54}[str(values.dtype)]
    lengths = (*values.shape, 1, 1)[:max(3, values.ndim)]
    data = struct.pack(f"<II{len(lengths)}i", magic, values.ndim, *lengths) + values.tobytes()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def norb(folder: Path, part: str = "training", rows: int = 6, end: str = "", side: int = 4) -> tuple:
    """The three files of one part of smallNORB, and what is in them."""
    random = np.random.default_rng(len(part))
    pairs = random.integers(0, 256, (rows, 2, side, side), np.uint8)
    category = random.integers(0, 5, rows, np.int32)
    info = np.stack([random.integers(0, 10, rows), random.integers(0, 9, rows), 2 * random.integers(0, 18, rows),
                     random.integers(0, 6, rows)], axis=1).astype(np.int32)
    for kind, values in (("dat", pairs), ("cat", category), ("info", info)):
        matrix(folder / f"smallnorb-5x46789x9x18x6x2x96x96-{part}-{kind}.mat{end}", values)
    return pairs, category, info


def table(path: Path, rows: list[dict]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return path


def patches() -> list[dict]:
    return [{"": row, "patient": f"{row % 3:03d}", "node": row % 2, "x_coord": 10 * row, "y_coord": 7, "tumor": row % 2,
             "slide": row % 4, "center": row % 5, "split": row // 5} for row in range(10)]


def photos() -> list[dict]:
    splits = ("train", "val", "test", "id_val", "id_test")
    return [{"split": splits[row % 5], "location_remapped": row % 3, "location": 99, "sequence_remapped": row // 2,
             "datetime": f"2013-06-{row + 1:02d} 0{row % 10}:44:19.000", "y": row % 4, "filename": f"f{row}.jpg"}
            for row in range(8)]


@given(rows=st.integers(1, 30), side=st.integers(1, 6), seed=st.integers(0, 5), packed=st.booleans())
@few
def test_dsprites_is_painted_in_one_channel(tmp_path: Path, rows: int, side: int, seed: int, packed: bool) -> None:
    """An image is white in the channel of its colour and black in the others; all other factors are the file's."""
    content = sprites(tmp_path / "d.npz", rows, side, seed, packed)
    read = factors(tmp_path / "d.npz", kind="dsprites", seed=seed)
    for row in range(rows):
        channel = COLOURS.index(read.factors["colour"][row])
        assert np.array_equal(read.pixels[row, :, :, channel], 255 * content["imgs"][row])
        assert not np.delete(read.pixels[row], channel, axis=2).any()
        cell = content["latents_classes"][row]
        assert read.factors["shape"][row] == SHAPES[cell[1]]
        assert read.factors["scale"][row] == pytest.approx(0.5 + cell[2] / 10)
        assert read.factors["orientation"][row] == pytest.approx(cell[3] * 360 / 39, abs=0.05)
        assert [read.factors[name][row] for name in ("x", "y")] == cell[4:].tolist()
    assert read.items.tolist() == [str(row) for row in range(rows)]


def test_dsprites_all_colours_are_three_items_per_image(tmp_path: Path) -> None:
    """With all colours, every image is there once in each, and the pictures differ in the channel alone."""
    content = sprites(tmp_path / "d.npz")
    read = factors(tmp_path / "d.npz", kind="dsprites", colours="all")
    assert read.items[:4].tolist() == ["0-red", "0-green", "0-blue", "1-red"]
    assert np.array_equal(read.factors["colour"], np.tile(COLOURS, 20))
    assert np.array_equal(read.factors["x"], np.repeat(content["latents_classes"][:, 4], 3))
    for channel in range(3):
        assert np.array_equal(read.pixels[channel::3, :, :, channel], 255 * content["imgs"])
    assert int(read.pixels.astype(int).sum()) == 3 * 255 * int(content["imgs"].sum())


def test_a_sprites_colour_depends_on_its_number_and_the_seed_alone(tmp_path: Path) -> None:
    """A longer file begins with the colours of a shorter one; colours are equally frequent; seeds differ."""
    sprites(tmp_path / "short.npz", 500, 1, seed=1)
    sprites(tmp_path / "long.npz", 3000, 1, seed=2)
    short, long, other = (factors(tmp_path / name, kind="dsprites", seed=seed).factors["colour"]
                          for name, seed in (("short.npz", 3), ("long.npz", 3), ("long.npz", 4)))
    assert np.array_equal(short, long[:500])
    assert (np.unique(long, return_counts=True)[1] > 850).all()
    assert 0.5 < np.mean(long != other) < 0.8


def test_a_dsprites_cell_is_the_same_in_the_world_of_sprites(tmp_path: Path) -> None:
    """A recipe for one fits the other: the factors have the same names and, cell by cell, the same values."""
    content = sprites(tmp_path / "d.npz", 200, 1)
    read = factors(tmp_path / "d.npz", kind="dsprites")
    colour = np.asarray([COLOURS.index(word) for word in read.factors["colour"]])
    place = np.ravel_multi_index((colour, *content["latents_classes"][:, 1:].T), (3, 3, 6, 40, 32, 32))
    drawn = grid.factors(place)
    assert drawn.keys() == read.factors.keys()
    for name, column in drawn.items():
        assert column.tolist() == read.factors[name].tolist()


def test_nothing_is_unpickled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pickle beside the arrays is not touched, and one in place of an array is an error."""
    monkeypatch.chdir(tmp_path)
    sprites(tmp_path / "d.npz")
    factors("d.npz", kind="dsprites")
    for name in ("imgs", "latents_classes"):
        sprites(tmp_path / "d.npz", **{name: np.array([[[Bomb()]]], dtype=object)})
        with pytest.raises(ShiftBenchError, match=f"array '{name}' is object"):
            factors("d.npz", kind="dsprites")
    assert not Path("unpickled").exists()


def test_shapes3d_is_what_the_file_says(tmp_path: Path) -> None:
    """Images are the file's; hues are rounded words of the grid, the shape has a name."""
    images, labels = shapes(tmp_path / "s.h5")
    read = factors(tmp_path / "s.h5", kind="shapes3d")
    assert np.array_equal(read.pixels, images)
    assert np.allclose(read.factors["object_hue"], labels[:, 2])
    assert np.allclose(read.factors["orientation"], labels[:, 5], atol=1e-6)
    assert set(map(str, read.factors["wall_hue"])) <= {f"0.{digit}" for digit in range(10)}
    assert read.factors["shape"].tolist() == [("cube", "cylinder", "sphere", "capsule")[int(n)] for n in labels[:, 4]]


def test_shapes3d_reads_no_other_file(tmp_path: Path) -> None:
    """A link into another file is refused, and so are arrays of another type or with a shape the file cannot hold."""
    images, labels = shapes(tmp_path / "s.h5")
    with h5py.File(tmp_path / "link.h5", "w") as file:
        file["images"] = h5py.ExternalLink(tmp_path / "s.h5", "images")
        file["labels"] = labels
    with h5py.File(tmp_path / "wide.h5", "w") as file:
        file["images"], file["labels"] = images.astype(np.int64), labels
    with h5py.File(tmp_path / "empty.h5", "w") as file:
        file.create_dataset("images", (10**9, 64, 64, 3), np.uint8, chunks=(1, 64, 64, 3))
        file["labels"] = labels
    for name, message in (("link", "a group or a link"), ("wide", "should be bytes"), ("empty", "too little")):
        with pytest.raises(ShiftBenchError, match=message):
            factors(tmp_path / f"{name}.h5", kind="shapes3d")


def test_shapes3d_without_h5py_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where h5py is missing, the message names the extra."""
    shapes(tmp_path / "s.h5")
    monkeypatch.setitem(__import__("sys").modules, "h5py", None)
    with pytest.raises(ShiftBenchError, match=r"shiftbench\[hdf5\]"):
        factors(tmp_path / "s.h5", kind="shapes3d")


@pytest.fixture(scope="module")
def arm(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """MPI3D with images of one pixel: its red and green are the number of the image in two bytes."""
    folder = tmp_path_factory.mktemp("mpi3d")
    number = np.arange(1036800).astype("<u4").view(np.uint8).reshape(-1, 4)[:, :3].reshape(-1, 1, 1, 3)
    np.savez(folder / "real.npz", images=number)
    np.savez_compressed(folder / "packed.npz", images=number)
    np.savez(folder / "complex.npz", images=number[:460800])
    return {path.stem: path for path in folder.iterdir()}


@pytest.mark.slow
def test_mpi3ds_factors_are_the_place_in_the_grid(arm: dict[str, Path]) -> None:
    """The image at a cell's place in row-major order has that cell's values, the last factor the fastest."""
    read = factors(arm["real"], kind="mpi3d")
    lengths = (6, 6, 2, 3, 3, 40, 40)
    for cell in np.random.default_rng(0).integers(0, lengths, (200, 7)).tolist():
        row = 0
        for place, length in zip(cell, lengths, strict=True):
            row = row * length + place
        found = [column[row] for column in read.factors.values()]
        assert found[:5] == [words[place] for words, place in zip(OBJECTS["simple"].values(), cell[:5], strict=False)]
        assert found[5:] == cell[5:]
        assert int.from_bytes(read.pixels[row].tobytes(), "little") == row


@pytest.mark.slow
def test_mpi3d_stored_or_compressed_is_the_same(arm: dict[str, Path]) -> None:
    """Stored images are used where they lie, compressed ones are unpacked, both are equal; complex is another grid."""
    stored, packed = (factors(arm[name], kind="mpi3d", name="arm") for name in ("real", "packed"))
    assert np.array_equal(stored.pixels, packed.pixels)
    assert Path(stored.pixels.filename) == arm["real"]
    assert not stored.pixels.flags.writeable
    other = factors(arm["complex"], kind="mpi3d", objects="complex")
    assert other.factors["object_shape"][[0, -1]].tolist() == ["coffee-cup", "beer-cup"]
    with pytest.raises(ShiftBenchError, match="Read it with objects = complex"):
        factors(arm["complex"], kind="mpi3d")


@pytest.mark.parametrize("end", ["", ".gz"])
def test_smallnorb_is_what_the_files_say(tmp_path: Path, end: str) -> None:
    """Both parts are read, training first; grey is red, green and blue alike; angles are in degrees."""
    tests = norb(tmp_path, "testing", 4, end)
    train = norb(tmp_path, "training", 6, end)
    pairs, category, info = (np.concatenate(parts) for parts in zip(train, tests, strict=True))
    left = factors(tmp_path, kind="smallnorb")
    assert np.array_equal(left.pixels, np.repeat(pairs[:, 0, :, :, None], 3, axis=3))
    assert left.items.tolist() == [*(f"training-{row}" for row in range(6)), *(f"testing-{row}" for row in range(4))]
    assert left.factors["source"].tolist() == ["training"] * 6 + ["testing"] * 4
    assert left.factors["category"].tolist() == [("animal", "human", "airplane", "truck", "car")[c] for c in category]
    assert np.array_equal(left.factors["azimuth"], info[:, 2] * 10)
    assert np.array_equal(left.factors["elevation"], 30 + 5 * info[:, 1])
    both = factors(tmp_path, kind="smallnorb", camera="both")
    right = factors(tmp_path, kind="smallnorb", camera="right")
    assert np.array_equal(both.pixels[::2], left.pixels)
    assert np.array_equal(both.pixels[1::2], right.pixels)
    assert both.items[:2].tolist() == ["training-0-left", "training-0-right"]
    assert np.array_equal(both.factors["lighting"], np.repeat(info[:, 3], 2))


def test_smallnorb_names_what_is_wrong(tmp_path: Path) -> None:
    """A missing part, a category that does not exist, rows that do not fit and a strange magic number are errors."""
    folder = tmp_path / "n"
    folder.mkdir()
    with pytest.raises(ShiftBenchError, match="no file that ends in"):
        factors(folder, kind="smallnorb")
    pairs, category, _ = norb(folder)
    dat, cat = (next(folder.glob(f"*-{kind}.mat")) for kind in ("dat", "cat"))
    with pytest.raises(ShiftBenchError, match="found beside them"):
        factors(cat, kind="smallnorb")
    for values, message in ((category + np.int32(5), "pair 0 has category"), (category[1:], "one row per pair"),
                            (pairs, "one row per pair")):
        matrix(cat, values)
        with pytest.raises(ShiftBenchError, match=message):
            factors(folder, kind="smallnorb")
    cat.unlink()
    with pytest.raises(ShiftBenchError, match=r"-cat\.mat: no such file"):
        factors(folder, kind="smallnorb")
    dat.write_bytes(b"MATLAB 5.0 MAT-file, Platform")
    with pytest.raises(ShiftBenchError, match="magic number"):
        factors(folder, kind="smallnorb")


def test_camelyon17_splits_by_hospital_as_wilds_does(tmp_path: Path) -> None:
    """Hospital 1 is val, hospital 2 test, the others as the file says; patients keep their zeros; files have names."""
    rows = patches()
    read = factors(table(tmp_path / "metadata.csv", rows), kind="camelyon17", images=tmp_path)
    expected = [{1: "val", 2: "test"}.get(row["center"], ("train", "id_val")[row["split"]]) for row in rows]
    assert read.factors["split"].tolist() == expected
    assert read.factors["patient"][:3].tolist() == ["000", "001", "002"]
    assert read.factors["tumor"].tolist() == [("normal", "tumor")[row["tumor"]] for row in rows]
    assert np.array_equal(read.factors["hospital"], [row["center"] for row in rows])
    assert read.pixels[1] == "patches/patient_001_node_1/patch_patient_001_node_1_x_10_y_7.png"
    assert Collection.load(read.save(tmp_path / "saved")) == read


def test_iwildcam_is_what_the_table_says(tmp_path: Path) -> None:
    """Locations, bursts, times and splits are the table's; animals have names where categories.csv is given."""
    rows = photos()
    path = table(tmp_path / "metadata.csv", rows)
    names = table(tmp_path / "categories.csv", [{"y": y, "name": f"animal {y}"} for y in (3, 0, 2, 1)])
    read, named = factors(path, kind="iwildcam"), factors(path, names, kind="iwildcam", images=tmp_path)
    assert np.array_equal(read.factors["animal"], [row["y"] for row in rows])
    assert named.factors["animal"].tolist() == [f"animal {row['y']}" for row in rows]
    same = table(tmp_path / "same.csv", [{"y": y, "name": "fox" if y > 1 else f"animal {y}"} for y in range(4)])
    assert sorted(set(factors(path, same, kind="iwildcam").factors["animal"].tolist())) == [
        "animal 0", "animal 1", "fox (y = 2)", "fox (y = 3)"]
    assert read.factors["split"].tolist() == [row["split"] for row in rows]
    assert np.array_equal(read.factors["location"], [row["location_remapped"] for row in rows])
    assert np.array_equal(read.factors["hour"], np.arange(8))
    assert set(read.factors["year"]) == {2013}
    assert named.pixels.tolist() == read.items.tolist() == [f"f{row}.jpg" for row in range(8)]


@pytest.mark.parametrize(("kind", "change", "message"), [
    ("camelyon17", {"tumor": 2}, "row 3 has 2 in column 'tumor'"),
    ("camelyon17", {"center": ""}, "row 3 has nothing in column 'center'"),
    ("camelyon17", {"slide": "x"}, "column 'slide' is not all whole numbers"),
    ("camelyon17", {"patient": "/../../../../x"}, "leads out of its folder"),
    ("iwildcam", {"split": "holdout"}, "row 3 has the split 'holdout'"),
    ("iwildcam", {"datetime": "yesterday"}, "column 'datetime'"),
    ("iwildcam", {"filename": "/etc/passwd"}, "leads out of its folder"),
    ("iwildcam", {"filename": "f0.jpg"}, "listed more than once"),
    ("iwildcam", {"y": 1.5}, "column 'y' is not all whole numbers"),
])
def test_a_wrong_row_of_metadata_is_named(tmp_path: Path, kind: str, change: dict, message: str) -> None:
    """What does not fit the format is an error that names the column, and the row where there is one."""
    rows = patches() if kind == "camelyon17" else photos()
    rows[3] |= change
    with pytest.raises(ShiftBenchError, match=message):
        factors(table(tmp_path / "metadata.csv", rows), kind=kind, images=tmp_path)


def test_a_name_missing_from_categories_is_named(tmp_path: Path) -> None:
    """An animal without a name is an error, not a number among names."""
    names = table(tmp_path / "categories.csv", [{"y": 0, "name": "empty"}])
    with pytest.raises(ShiftBenchError, match="no name for y = 1"):
        factors(table(tmp_path / "metadata.csv", photos()), names, kind="iwildcam")


def test_the_command_reads_a_collection(tmp_path: Path) -> None:
    """`shiftbench read factors` writes the collection that the reader gives; an option that does not fit exits 1."""
    sprites(tmp_path / "d.npz")
    command = ["read", "factors", str(tmp_path / "d.npz"), "--kind", "dsprites", "--out", str(tmp_path / "c"), "--json"]
    done = CliRunner().invoke(app, [*command, "--seed", "4"])
    assert done.exit_code == 0, done.output
    saved = Collection.load(tmp_path / "c")
    assert json.loads(done.output)["digest"] == saved.digest
    assert saved == factors(tmp_path / "d.npz", kind="dsprites", seed=4)
    failed = CliRunner().invoke(app, [*command, "--camera", "left"])
    assert failed.exit_code != 0
    assert "No option named 'camera'" in str(failed.exception or failed.output)
