"""A data set is there whole and recorded, or what is missing of it is named."""

import hashlib
import io
import json
import shutil
import tarfile
import zipfile
from dataclasses import replace

import pytest

from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import lock
from shiftbench.downloads import fetching
from shiftbench.downloads.data_sets import CC0, Checksum, File, Source
from shiftbench.downloads.fetching import Options, compare, download, is_finished
from tests.downloads.local_server import Answer

TABLE = b"id,label\n1,cat\n"
QUICK = Options(wait=lambda seconds: None)


def packed(files):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return content.getvalue()


IMAGES = packed({"images/1.jpg": b"one", "images/2.jpg": b"two"})


def source_at(*urls, table_urls=()):
    """A data set of a table and an archive of images."""
    return Source(("toy",), "Toy", "toy", (
        File("toy/table.csv", tuple(table_urls), len(TABLE),
             Checksum("sha256", hashlib.sha256(TABLE).hexdigest(), "the test")),
        File("toy/images.zip", tuple(urls), len(IMAGES), exact=False, unpack="toy")), CC0, "Toy, 2026", "the test")


@pytest.fixture
def toy(server):
    return source_at(server.put("/images.zip", Answer(IMAGES)), table_urls=[server.put("/table.csv", Answer(TABLE))])


def files_below(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*")
                  if path.is_file() and ".downloads" not in path.parts)


def test_a_data_set_is_fetched_unpacked_and_recorded_once(tmp_path, toy, server):
    """The archive is gone afterwards, a check finds nothing, and a second download asks nobody."""
    assert download(toy, tmp_path, True, QUICK) == (tmp_path / "toy", True)
    assert files_below(tmp_path) == ["toy/images/1.jpg", "toy/images/2.jpg", "toy/table.csv"]
    assert compare(toy, tmp_path) == []
    requests = len(server.requests)
    assert download(toy, tmp_path, False, QUICK) == (tmp_path / "toy", False)
    assert len(server.requests) == requests


def test_archives_are_kept_on_request(tmp_path, toy):
    """With `keep_archives`, the folder can be another one's --from."""
    download(toy, tmp_path / "a", True, replace(QUICK, keep_archives=True))
    assert "toy/images.zip" in files_below(tmp_path / "a")
    download(toy, tmp_path / "b", True, replace(QUICK, origin=str(tmp_path / "a")))
    assert compare(toy, tmp_path / "b") == []


def test_a_licence_must_be_accepted(tmp_path, toy, server):
    """Without, nothing is asked of any server, and one line has name, address and terms."""
    with pytest.raises(ShiftBenchError, match=r"CC0 1\.0 \(https://.*Commercial use is allowed.*--accept-licence"):
        download(toy, tmp_path / "data")
    assert server.requests == []
    assert not (tmp_path / "data").exists()


def test_disk_space_is_checked_before_the_first_byte(tmp_path, toy, server, monkeypatch):
    """What must be fetched and unpacked is compared with what is free."""
    usage = shutil.disk_usage(tmp_path)
    need = len(TABLE) + 2 * len(IMAGES)
    monkeypatch.setattr(fetching.shutil, "disk_usage", lambda path: usage._replace(free=need - 1))
    with pytest.raises(ShiftBenchError, match="Choose a --root on another disk"):
        download(toy, tmp_path, True, QUICK)
    assert server.requests == []
    monkeypatch.setattr(fetching.shutil, "disk_usage", lambda path: usage._replace(free=need))
    assert download(toy, tmp_path, True, QUICK)[1]


def test_missing_and_altered_files_are_named_one_by_one(tmp_path, toy):
    """A check names each with what is wrong; a download brings the missing back and leaves the altered."""
    download(toy, tmp_path, True, QUICK)
    (tmp_path / "toy/images/1.jpg").unlink()
    (tmp_path / "toy/images/2.jpg").write_bytes(b"owt")
    (tmp_path / "toy/table.csv").write_bytes(TABLE + b"2,dog\n")
    assert compare(toy, tmp_path) == [
        ("toy/table.csv", "altered: 21 bytes instead of 15"), ("toy/images/1.jpg", "missing"),
        ("toy/images/2.jpg", "altered: its content differs")]
    with pytest.raises(ShiftBenchError, match=r"table\.csv: altered.*--check"):
        download(toy, tmp_path, True, QUICK)
    (tmp_path / "toy/table.csv").unlink()
    with pytest.raises(ShiftBenchError, match=r"2\.jpg: is not the file that images\.zip has"):
        download(toy, tmp_path, True, QUICK)
    (tmp_path / "toy/images/2.jpg").unlink()
    assert download(toy, tmp_path, True, QUICK)[1]
    assert compare(toy, tmp_path) == []


def test_a_half_download_is_named_file_by_file(tmp_path, toy, server):
    """Missing, half there, there but not unpacked: a check tells them apart, and the next download finishes."""
    assert [what for _, what in compare(toy, tmp_path)] == ["missing", "missing"]
    server.put("/images.zip", Answer(IMAGES, etag='"1"', sent=100), *[Answer(status=404)] * 9)
    with pytest.raises(ShiftBenchError, match="404"):
        download(toy, tmp_path, True, QUICK)
    assert compare(toy, tmp_path) == [("toy/images.zip", f"half-downloaded: 100 of {len(IMAGES)} bytes")]
    assert not is_finished(toy, tmp_path)
    server.put("/images.zip", Answer(IMAGES, etag='"1"'))
    download(toy, tmp_path, True, QUICK)
    assert server.ranges()[-1] == "bytes=100-"
    assert compare(toy, tmp_path) == []
    (tmp_path / ".downloads/toy.json").unlink()
    (tmp_path / "toy/images.zip").write_bytes(IMAGES)
    assert compare(toy, tmp_path) == [("toy/images.zip", "is not unpacked yet")]


def test_a_damaged_archive_is_removed_and_fetched_again(tmp_path, toy, server):
    """Of an archive without a checksum, its own sums tell; nothing of it is unpacked."""
    server.put("/images.zip", Answer(IMAGES[:-20]))
    with pytest.raises(ShiftBenchError, match=r"images\.zip: is damaged.*removed; run the command again"):
        download(toy, tmp_path, True, QUICK)
    assert files_below(tmp_path) == ["toy/table.csv"]
    server.put("/images.zip", Answer(IMAGES))
    assert download(toy, tmp_path, True, QUICK)[1]


def test_an_archive_that_leads_out_leaves_nothing(tmp_path, toy, server):
    """The names are refused before anything is written."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        archive.addfile(tarfile.TarInfo("../../out"), io.BytesIO())
    server.put("/images.zip", Answer(content.getvalue()))
    with pytest.raises(ShiftBenchError, match="outside the archive's own folder"):
        download(toy, tmp_path / "data", True, QUICK)
    assert files_below(tmp_path) == ["data/toy/images.zip", "data/toy/table.csv"]


def test_one_s_own_folder_or_address_takes_the_place_of_the_published_ones(tmp_path, server):
    """Under the same names, or in a folder under the bare names; archives there are read where they lie."""
    toy, own = source_at(), tmp_path / "own"
    (own / "toy").mkdir(parents=True)
    (own / "toy/table.csv").write_bytes(TABLE)
    (own / "images.zip").write_bytes(IMAGES)
    download(toy, tmp_path / "a", True, replace(QUICK, origin=str(own)))
    assert files_below(tmp_path / "a") == ["toy/images/1.jpg", "toy/images/2.jpg", "toy/table.csv"]
    assert (own / "images.zip").exists()
    server.put("/mirror/toy/table.csv", Answer(TABLE))
    server.put("/mirror/toy/images.zip", Answer(IMAGES))
    download(toy, tmp_path / "b", True, replace(QUICK, origin=server.url("/mirror/")))
    assert compare(toy, tmp_path / "b") == []
    (own / "toy/table.csv").write_bytes(TABLE[::-1])
    with pytest.raises(ShiftBenchError, match=r"table\.csv: does not have the sha256 checksum"):
        download(toy, tmp_path / "c", True, replace(QUICK, origin=str(own)))
    (own / "toy/table.csv").unlink()
    with pytest.raises(ShiftBenchError, match=r"has neither toy/table\.csv nor table\.csv"):
        download(toy, tmp_path / "c", True, replace(QUICK, origin=str(own)))
    with pytest.raises(ShiftBenchError, match="neither a folder nor an address"):
        download(toy, tmp_path / "c", True, replace(QUICK, origin="ftp://data.invalid"))


def test_a_folder_of_somebody_else_is_left_alone(tmp_path, toy, server):
    """What another program unpacked there is neither fetched again nor overwritten."""
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy/RELEASE_v1.0.txt").write_text("1.0")
    with pytest.raises(ShiftBenchError, match=r"holds RELEASE_v1\.0\.txt already"):
        download(toy, tmp_path, True, QUICK)
    assert server.requests == []


def test_two_processes_do_not_fetch_one_data_set(tmp_path, toy):
    """The second one says so at once."""
    with lock(tmp_path / ".downloads/toy.lock") as alone:
        assert alone
        with pytest.raises(ShiftBenchError, match="another process is downloading toy"):
            download(toy, tmp_path, True, QUICK)


@pytest.mark.parametrize("text", [
    "no json", "[]", "{}", '{"format": "shiftbench download", "version": 1, "finished": true}',
    json.dumps({"format": "shiftbench download", "version": 1, "finished": True, "paths": ["../../etc/passwd"],
                "sizes": [1], "sha256": ["0"]}),
    json.dumps({"format": "shiftbench download", "version": 1, "finished": True, "paths": ["toy/table.csv"],
                "sizes": ["1"], "sha256": ["0"]})])
def test_a_strange_record_is_one_line(tmp_path, toy, text):
    """A record that was changed is refused, and no path of it is followed out of the root."""
    (tmp_path / ".downloads").mkdir()
    (tmp_path / ".downloads/toy.json").write_text(text)
    for act in (lambda: compare(toy, tmp_path), lambda: download(toy, tmp_path, True, QUICK)):
        with pytest.raises(ShiftBenchError, match=r"toy\.json"):
            act()


def test_a_login_is_told_with_what_to_do(tmp_path):
    """Without --from nothing is tried; with it the files are taken and checked."""
    toy = replace(source_at(), login="register, then use --from")
    with pytest.raises(ShiftBenchError, match="cannot be fetched by a program: register, then use --from"):
        download(toy, tmp_path, True, QUICK)
    (tmp_path / "own").mkdir()
    (tmp_path / "own/table.csv").write_bytes(TABLE)
    (tmp_path / "own/images.zip").write_bytes(IMAGES)
    assert download(toy, tmp_path / "data", True, replace(QUICK, origin=str(tmp_path / "own")))[1]
