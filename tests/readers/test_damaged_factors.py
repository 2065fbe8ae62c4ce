"""Damaged files of factors: cut, changed and forged ones are named, and images stay on disk."""

import io
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shiftbench.core import arrays
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.collection import Collection
from shiftbench.readers.factors import KINDS
from tests.readers.test_factors import arm as arm
from tests.readers.test_factors import factors, norb, shapes, sprites


@given(kind=st.sampled_from(["dsprites", "stored", "shapes3d", "dat", "dat.gz", "info"]), data=st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_cut_file_is_one_clear_error(tmp_path: Path, kind: str, data: st.DataObject) -> None:
    """However much of a file's end is missing, reading it is an error that names the file."""
    form = {"stored": "dsprites"}.get(kind, kind if kind in KINDS else "smallnorb")
    if form == "smallnorb":
        for old in tmp_path.glob("*.mat*"):
            old.unlink()
        norb(tmp_path, end=".gz" if kind.endswith("gz") else "")
        path = next(tmp_path.glob(f"*-{kind.partition('.')[0]}.mat*"))
        source = tmp_path
    else:
        source = path = tmp_path / kind
        shapes(path) if form == "shapes3d" else sprites(tmp_path / "d.npz", packed=kind == "dsprites")
        if form == "dsprites":
            (tmp_path / "d.npz").rename(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(ShiftBenchError, match=str(path.name)):
        factors(source, kind=form)


@pytest.mark.slow
@given(place=st.integers(0, 10**6), mask=st.integers(1, 255), packed=st.booleans())
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_changed_byte_of_an_npz_is_noticed(tmp_path: Path, place: int, mask: int, packed: bool) -> None:
    """A file with one wrong byte gives an error that names it, or the same collection where the byte means nothing."""
    path = tmp_path / "d.npz"
    sprites(path, 6, 2, packed=packed)
    right = factors(path, kind="dsprites")
    data = bytearray(path.read_bytes())
    data[place % len(data)] ^= mask
    path.write_bytes(data)
    try:
        read = factors(path, kind="dsprites")
    except ShiftBenchError as problem:
        assert "d.npz" in str(problem)  # noqa: PT017
    else:
        assert read == right


def test_a_wrong_byte_in_stored_images_is_noticed(arm: dict[str, Path], tmp_path: Path) -> None:
    """Images that are used where they lie are held to the archive's checksum too."""
    data = bytearray(arm["real"].read_bytes())
    data[1_000_000] ^= 1
    (tmp_path / "real.npz").write_bytes(data)
    with pytest.raises(ShiftBenchError, match="checksum"):
        factors(tmp_path / "real.npz", kind="mpi3d")


def test_a_forged_size_is_noticed_before_reading(tmp_path: Path) -> None:
    """An array that says it is far larger than what the archive holds is refused by its header."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "|u1", "fortran_order": False, "shape": (10**9, 64, 64)})  # type: ignore[arg-type]
    sprites(tmp_path / "d.npz")
    with zipfile.ZipFile(tmp_path / "d.npz") as old, zipfile.ZipFile(tmp_path / "forged.npz", "w") as new:
        for name in old.namelist():
            new.writestr(name, header.getvalue() + bytes(100) if name == "imgs.npy" else old.read(name))
    with pytest.raises(ShiftBenchError, match="not what the archive holds"):
        factors(tmp_path / "forged.npz", kind="dsprites")


def test_room_that_the_disk_does_not_have_is_an_error() -> None:
    """Asking for more than the disk holds says so before anything is written."""
    with pytest.raises(ShiftBenchError, match="Set TMPDIR"):
        arrays.room((10**9, 10**9), Path("huge.npz"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["dsprites", "shapes3d", "smallnorb"])
def test_images_are_not_held_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Reading and saving takes memory for a few blocks, a small part of what the images take."""
    monkeypatch.setattr(arrays, "BLOCK", 1 << 18)
    if kind == "dsprites":
        sprites(tmp_path / "d.npz", 2000, 64)
    elif kind == "shapes3d":
        shapes(tmp_path / "d.npz", 2000, 64)
    else:
        norb(tmp_path, rows=1000, side=96)
    tracemalloc.start()
    read = factors(tmp_path if kind == "smallnorb" else tmp_path / "d.npz", kind=kind)
    saved = Collection.load(read.save(tmp_path / "saved"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert read.pixels.nbytes > 20 << 20
    assert peak < read.pixels.nbytes / 3
    assert saved == read


def test_an_option_of_another_kind_is_an_error(tmp_path: Path) -> None:
    """Kinds, options, choices and numbers of files that do not exist are errors that say what there is."""
    sprites(tmp_path / "d.npz")
    sprites(tmp_path / "e.npz")
    for sources, options, message in (
        (["d.npz"], {"kind": "sprites"}, "Did you mean 'dsprites'"),
        (["d.npz"], {"kind": "dsprites", "camera": "left"}, "No option named 'camera'"),
        (["d.npz"], {"kind": "dsprites", "colours": "two"}, "one"),
        (["d.npz"], {"kind": "mpi3d"}, "No array named 'images'"),
        (["d.npz", "e.npz"], {"kind": "dsprites"}, "takes one file"),
        (["x.npz"], {"kind": "dsprites"}, "x.npz: no such file"),
    ):
        with pytest.raises(ShiftBenchError, match=message):
            factors(*(tmp_path / source for source in sources), **options)
