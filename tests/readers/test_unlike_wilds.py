"""Files of WILDS that are missing or unlike the published ones are named."""

import re
import warnings
from pathlib import Path

import pytest

import shiftbench as sb
from shiftbench.core.errors import ShiftBenchError
from shiftbench.readers import READERS
from shiftbench.readers.wilds import DATASETS
from tests.readers.wilds_files import COLUMNS, NEEDED, place_of, read


@pytest.mark.parametrize(("name", "file"), [(name, file) for name, files in NEEDED.items() for file in files])
def test_a_missing_file_is_named(tmp_path: Path, name: str, file: str) -> None:
    """Without a file that the data set has, the error names it; of an image a warning does."""
    is_image = Path(file).suffix in (".jpg", ".png", ".npz")
    (place_of(tmp_path, name, images=is_image) / file).unlink()
    if is_image:
        with pytest.warns(UserWarning, match=f"1 of .*: {re.escape(file)}. --drop-missing"):
            every = sb.read("wilds", name, root=tmp_path)
        assert read(tmp_path, name, images=False).pixels is None
        with pytest.warns(UserWarning, match="dropped"):
            assert len(sb.read("wilds", name, root=tmp_path, drop_missing=True)) == len(every) - 1
        return
    with pytest.raises(ShiftBenchError) as problem:
        read(tmp_path, name)
    assert file in str(problem.value)


@pytest.mark.parametrize(("name", "file", "column"), COLUMNS)
def test_a_missing_column_is_named(tmp_path: Path, name: str, file: str, column: str) -> None:
    """A table without a column it needs is an error that names file and column."""
    path = place_of(tmp_path, name, images=False) / file
    path.write_text(path.read_text().replace(column, column + "s", 1))
    with pytest.raises(ShiftBenchError) as problem:
        read(tmp_path, name)
    assert file in str(problem.value)
    assert f"'{column}'" in str(problem.value)


@pytest.mark.parametrize("time", ["-1", "12-31T23:59:59Z", "²⁰¹²-12-31T23:59:59Z"])
def test_a_time_without_a_year_is_refused(tmp_path: Path, time: str) -> None:
    """No image of FMoW is sorted into a split by a year that its time does not say."""
    path = place_of(tmp_path, "fmow") / "rgb_metadata.csv"
    path.write_text(path.read_text().replace("2012-12-31T23:59:59Z", time, 1))
    with pytest.raises(ShiftBenchError, match=f"row 1 has '{time}', which is not a time"):
        read(tmp_path, "fmow")


def test_what_is_unlike_the_published_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample is read with a warning that counts; the published number of rows is read in silence."""
    place = place_of(tmp_path, "iwildcam")
    with pytest.warns(UserWarning, match="are published") as told:
        READERS["wilds"]("iwildcam", root=tmp_path)
    assert ["6 examples, where 203,029" in str(note.message) for note in told] == [True, False]
    assert "3 values of location, where 323" in str(told[1].message)
    monkeypatch.setitem(DATASETS, "iwildcam", DATASETS["iwildcam"]._replace(examples=6, domains=3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        READERS["wilds"]("iWildCam", root=place)
    (place / "RELEASE_v2.0.txt").unlink()
    with pytest.warns(UserWarning, match=r"RELEASE_v2\.0\.txt is missing"):
        READERS["wilds"]("iwildcam", root=tmp_path)


def test_fmow_counts_sequestered_images_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The published number of FMoW is that of the table's rows, not of the items."""
    place_of(tmp_path, "fmow")
    monkeypatch.setitem(DATASETS, "fmow", DATASETS["fmow"]._replace(examples=9))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert 0 < len(READERS["wilds"]("fmow", root=tmp_path)) < 9


def test_folders_and_versions(tmp_path: Path) -> None:
    """The newest version that is there is read, one that is asked for is, and an unknown one is refused by name."""
    place = place_of(tmp_path, "globalwheat")
    place.rename(tmp_path / "globalwheat_v1.0")
    assert len(read(tmp_path, "globalwheat")) == 9
    with pytest.raises(ShiftBenchError, match=r"has no folder globalwheat_v1\.1\. It has globalwheat_v1\.0"):
        read(tmp_path, "globalwheat", version="1.1")
    with pytest.raises(ShiftBenchError, match=r"Version 7\.0 cannot be read"):
        read(tmp_path, "globalwheat", version="7.0")
    with pytest.raises(ShiftBenchError, match=r"has no folder iwildcam_v2\.0"):
        read(tmp_path, "iwildcam")
    with pytest.raises(ShiftBenchError, match="Did you mean 'iwildcam'"):
        read(tmp_path, "iwildcm")
    with pytest.raises(ShiftBenchError, match="no such folder"):
        read(tmp_path / "nowhere", "iwildcam")
