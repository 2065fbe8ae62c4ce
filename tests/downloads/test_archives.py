"""Archives become plain files below their folder, or nothing more of them is unpacked."""

import io
import os
import stat
import tarfile
import zipfile

import pytest

from shiftbench.core.errors import ShiftBenchError
from shiftbench.downloads import archives
from shiftbench.downloads.archives import Damaged, unpack

FILES = {"top/a.txt": b"alpha", "top/deep/b.bin": bytes(range(256)) * 20, "top/empty": b""}


def tar(path, members=(), files=FILES, mode="w:gz"):
    with tarfile.open(path, mode) as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        for info in members:
            archive.addfile(info, io.BytesIO(b"x" * info.size))
    return path


def zipped(path, files=FILES):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def member(name, kind=tarfile.REGTYPE, link=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, 1 if kind == tarfile.REGTYPE else 0
    return info


def tree(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("make", [
    zipped, tar, lambda path: tar(path, mode="w"), lambda path: tar(path, mode="w:bz2"),
    lambda path: tar(path, mode="w:xz")], ids=["zip", "gz", "tar", "bz2", "xz"])
def test_files_are_those_of_the_archive(tmp_path, root, make):
    """Every file with its content below the folder, without the stripped prefix, and its size and SHA-256 told."""
    listed = unpack(make(tmp_path / "archive"), root, "set", "top/")
    assert tree(root) == {f"set/{name.removeprefix('top/')}": content for name, content in FILES.items()}
    assert {file.path: file.size for file in listed} == {name: len(content) for name, content in tree(root).items()}
    assert all(archives.digest(root / file.path) == file.sha256 for file in listed)


@pytest.mark.parametrize("name", ["../out", "a/../../out", "/out", "a//b", "a/./b", "c:\\out", "..\\out", "a\nb",
                                  "a\x1b[31m"])
def test_names_that_lead_out_are_refused(tmp_path, root, name):
    """Of a zip as of a tar archive, nothing lands outside the folder, and the member is named on one line."""
    for archive in (zipped(tmp_path / "a.zip", {name: b"x"}), tar(tmp_path / "a.tar.gz", files={name: b"x"})):
        with pytest.raises(ShiftBenchError, match="only plain files"):
            unpack(archive, root, "set")
    assert tree(tmp_path).keys() == {"a.zip", "a.tar.gz"}


@pytest.mark.parametrize("info", [
    member("link", tarfile.SYMTYPE, "/etc"), member("link", tarfile.SYMTYPE, "top/a.txt"),
    member("link", tarfile.LNKTYPE, "top/a.txt"), member("pipe", tarfile.FIFOTYPE), member("device", tarfile.CHRTYPE)],
    ids=["link out", "link inside", "hard link", "pipe", "device"])
def test_links_and_devices_are_refused(tmp_path, root, info):
    """No link is made, so none can be written through."""
    archive = tar(tmp_path / "a.tar.gz", [info, member(f"{info.name}/file")])
    with pytest.raises(ShiftBenchError, match="a link or a device"):
        unpack(archive, root, "set")
    assert not os.path.lexists(root / "set" / info.name)


def test_links_in_a_zip_are_refused(tmp_path, root):
    """A zip marks a link by its file mode."""
    info = zipfile.ZipInfo("link")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(info, "/etc")
    with pytest.raises(ShiftBenchError, match="a link or a device"):
        unpack(tmp_path / "a.zip", root, "set")


def test_a_link_that_lies_there_is_not_written_through(tmp_path, root):
    """Neither a folder that is a link out of the root nor a file that is a link takes a member."""
    (tmp_path / "elsewhere").mkdir()
    (root / "set").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ShiftBenchError, match="leads out of its folder"):
        unpack(zipped(tmp_path / "a.zip"), root, "set")
    (root / "other").mkdir()
    (root / "other" / "a.txt").symlink_to(tmp_path / "elsewhere" / "target")
    with pytest.raises(ShiftBenchError, match="not overwritten"):
        unpack(zipped(tmp_path / "a.zip"), root, "other", "top/")
    assert tree(tmp_path / "elsewhere") == {}


@pytest.mark.parametrize("make", [zipped, tar], ids=["zip", "tar"])
def test_expansion_is_bounded(tmp_path, root, make, monkeypatch):
    """An archive that becomes a hundred times its size and more is stopped, and nothing of it stays."""
    monkeypatch.setattr(archives, "SMALL", 0)
    archive = make(tmp_path / "bomb", files={"zeros": bytes(3_000_000), "more": bytes(3_000_000)})
    with pytest.raises(ShiftBenchError, match="expands to more than 100 times its size"):
        unpack(archive, root, "set")
    assert tree(root) == {}


@pytest.mark.parametrize("make", [zipped, tar], ids=["zip", "tar"])
def test_damage_is_noticed(tmp_path, root, make):
    """A truncated archive, one with a flipped byte and a file that is none are `Damaged`, and no file of them stays."""
    whole = make(tmp_path / "whole").read_bytes()
    middle = len(whole) // 2
    flipped = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1:]
    for content in (whole[:-30], whole[:middle], flipped, b"no archive at all", b""):
        (tmp_path / "damaged").write_bytes(content)
        with pytest.raises(ShiftBenchError) as problem:
            unpack(tmp_path / "damaged", root, "set")
        assert isinstance(problem.value, Damaged), problem.value
        assert tree(root) == {}


def test_a_wrong_sum_at_the_end_is_damage(tmp_path, root):
    """The last eight bytes of a gzip file are its sum and length; tar alone would not read so far."""
    content = bytearray(tar(tmp_path / "a.tar.gz").read_bytes())
    content[-6] ^= 1
    (tmp_path / "a.tar.gz").write_bytes(content)
    with pytest.raises(Damaged):
        unpack(tmp_path / "a.tar.gz", root, "set")


def test_a_name_that_comes_twice_is_refused(tmp_path, root):
    """Which of two members is meant cannot be known."""
    archive = tar(tmp_path / "a.tar.gz", [member("top/a.txt")])
    with pytest.raises(ShiftBenchError, match="cannot be unpacked"):
        unpack(archive, root, "set")
    assert tree(root) == {}


def test_what_is_there_stays(tmp_path, root):
    """The same file is kept as it is; another one is named and not overwritten; nothing hidden is left."""
    archive = zipped(tmp_path / "a.zip")
    unpack(archive, root, "set")
    before = (root / "set/top/a.txt").stat().st_ino
    (root / "set/top/empty").unlink()
    unpack(archive, root, "set")
    assert (root / "set/top/a.txt").stat().st_ino == before
    assert tree(root).keys() == {f"set/{name}" for name in FILES}
    (root / "set/top/a.txt").write_bytes(b"mine!")
    with pytest.raises(ShiftBenchError, match=r"a\.txt: is not the file that a\.zip has"):
        unpack(archive, root, "set")
    assert (root / "set/top/a.txt").read_bytes() == b"mine!"
    assert [path.name for path in root.iterdir()] == ["set"]
