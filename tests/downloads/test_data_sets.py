"""The table of sources is whole: every entry can be fetched, checked, accepted, cited and read."""

import re
import shlex
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import typer

from shiftbench.cli import app
from shiftbench.core.errors import ShiftBenchError
from shiftbench.downloads.data_sets import SOURCES, find_source
from shiftbench.readers import READERS
from shiftbench.readers.factors import KINDS
from shiftbench.readers.wilds import DATASETS

LENGTH = {"sha256": 64, "md5": 32, "git": 40}
NO_HTTPS = {"images.cocodataset.org"}
"""Hosts whose certificate is another one's; an https address of the same file comes before them."""
COMMANDS = typer.main.get_command(app)
NOT_PUBLIC = {"world", "table", "hf", "folder", "yolo", "voc", "open_images"}
"""The built-in worlds, and formats for data of one's own; the last two are also those of public sets that the table
has no source for yet."""

every_source = pytest.mark.parametrize("source", SOURCES.values(), ids=lambda source: source.words)


def command_of(words):
    """The command of ours that a line names, and the words that follow."""
    command = COMMANDS
    while hasattr(command, "get_command"):
        command, words = command.get_command(None, words[0]), words[1:]
        assert command is not None, words
    return command, words


@every_source
def test_addresses_are_encrypted(source):
    """https, but for hosts without it, which come last; every file has an address unless a login is needed."""
    for file in source.files:
        assert bool(file.urls) != bool(source.login)
        assert len(set(file.urls)) == len(file.urls)
        for number, url in enumerate(map(urlsplit, file.urls)):
            assert url.scheme == "https" or (number > 0 and url.scheme == "http" and url.hostname in NO_HTTPS)
            assert url.hostname
            assert "@" not in url.netloc
            assert url.path.strip("/")


@every_source
def test_sizes_and_checksums_look_like_what_they_are(source):
    """Sizes are positive or unknown; a checksum has its algorithm's length and says who publishes it."""
    for file in source.files:
        assert file.size is None or file.size > 0
        if file.checksum is not None:
            assert re.fullmatch("[0-9a-f]+", file.checksum.value)
            assert len(file.checksum.value) == LENGTH[file.checksum.algorithm]
            assert file.checksum.by
    assert source.disk is None or source.disk > 0


@every_source
def test_every_entry_has_licence_citation_and_origin(source):
    """What a user accepts and cites, and where the facts come from."""
    assert source.licence.name
    assert source.licence.url.startswith("https://")
    assert source.licence.commercial in ("yes", "no", "not said")
    assert re.search(r"(19|20)\d\d", source.citation)
    assert source.origin
    assert source.what


@every_source
def test_paths_stay_in_the_folder_of_the_source(source):
    """Files and what is unpacked of them lie below one folder of the root."""
    for file in source.files:
        assert file.path.startswith(f"{source.folder}/")
        assert ".." not in file.path.split("/")
        assert not file.path.endswith(".part")
        assert file.unpack is None or f"{file.unpack}/".startswith(f"{source.folder}/")
        assert not file.strip or file.strip.endswith("/")


@every_source
def test_the_next_command_is_one_of_ours(source):
    """Its verb, its format and its options exist, and it reads from the folder that was downloaded."""
    if not source.read:
        assert source.words.endswith(("_unlabeled", "original"))
        return
    program, *words = shlex.split(source.read.format(root="data"))
    assert program == "shiftbench"
    command, rest = command_of(words)
    command.make_context(command.name, rest)
    assert f"data/{source.folder}" in source.read.format(root="data") or words[:2] == ["read", "wilds"]


def test_names_and_paths_are_unique():
    """A name means one source, and no file is claimed by two."""
    paths = Counter(file.path for source in SOURCES.values() for file in source.files)
    assert [path for path, times in paths.items() if times > 1] == []
    assert all(name == source.name for name, source in SOURCES.items())


def test_every_reader_of_public_data_has_a_source():
    """Each format, each kind of factors and each data set of WILDS can be had."""
    commands = [shlex.split(source.read)[1:] for source in SOURCES.values() if source.read]
    formats = {words[1] for words in commands if words[0] == "read"}
    assert READERS.keys() - NOT_PUBLIC <= formats
    assert DATASETS.keys() <= {words[2] for words in commands if words[:2] == ["read", "wilds"]}
    kinds = {words[words.index("--kind") + 1] for words in commands if "--kind" in words}
    assert KINDS.keys() - DATASETS.keys() == kinds


def test_folders_of_wilds_are_those_that_the_reader_looks_for():
    """What is downloaded as WILDS' data set is unpacked where `read wilds` finds it."""
    for name, published in DATASETS.items():
        source = find_source("celeba") if name == "celeba" else find_source("wilds", name)
        assert source.folder in published.folders


def test_a_name_may_be_given_in_words_or_as_one():
    """An unknown name gets the nearest known one."""
    assert find_source("wilds", "camelyon17") is find_source("wilds camelyon17")
    with pytest.raises(ShiftBenchError, match="Did you mean 'wilds camelyon17'"):
        find_source("wilds", "camelyon")


def test_the_page_has_the_table():
    """docs/download.md says of every source what `--list` says, and where its facts come from."""
    page = (Path(__file__).parents[2] / "docs" / "download.md").read_text(encoding="utf-8")
    rows = [f"| `{source.words}` | {source.size_in_words} | [{source.licence.name}]({source.licence.url}) | "
            f"{source.licence.commercial} | {source.checksums} | {source.origin} |" for source in SOURCES.values()]
    assert [line for line in page.splitlines() if line.startswith("| `")] == rows


def test_the_lists_of_nooch_are_all_there():
    """Two criteria, twelve tasks, two sides, two splits, and the split itself."""
    names = [file.path for file in find_source("nooch").files]
    assert sum("/nooch_ids_" in name for name in names) == 2 * 12 * 2 * 2
    assert "nooch/data/cocostuff_split_image_ids.npz" in names
