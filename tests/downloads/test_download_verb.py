"""`shiftbench download` on the command line: lists, asks, fetches, checks, and says what to do next."""

import hashlib
import json
import sys
from dataclasses import replace

import pytest

import shiftbench as sb
from shiftbench.cli import main
from shiftbench.downloads import data_sets
from shiftbench.downloads.data_sets import SOURCES, Checksum, find_source
from tests.downloads.local_server import Answer

BODY = b"parent child\n"


@pytest.fixture
def shell(monkeypatch, capsys):
    def call(*words):
        monkeypatch.setattr(sys, "argv", ["shiftbench", "download", *map(str, words)])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code
        return code or 0, *capsys.readouterr()

    return call


@pytest.fixture
def tiny(server, monkeypatch):
    """BREEDS' source with one file, on the server of this test."""
    source = find_source("breeds")
    file = replace(source.files[0], urls=(server.put("/hierarchy", Answer(BODY)),), size=len(BODY),
                   checksum=Checksum("sha256", hashlib.sha256(BODY).hexdigest(), "the test"))
    monkeypatch.setitem(data_sets.SOURCES, source.name, replace(source, files=(file,)))
    return server


def test_the_list_shows_size_licence_and_checksums(shell):
    """Every source is a row; what nobody publishes is said so; JSON has addresses and checksums."""
    code, out, _ = shell("--list")
    assert code == 0
    assert all(source.words in out for source in SOURCES.values())
    assert "not published" in out
    listed = json.loads(shell("--list", "--json")[1])
    assert {tuple(row["name"].split()) for row in listed} == SOURCES.keys()
    coco = next(row for row in listed if row["name"] == "coco")
    assert coco["files"][0]["checksum"]["algorithm"] == "sha256"
    assert coco["licence"]["commercial"] == "not said"


def test_without_acceptance_it_is_one_line_and_exit_code_1(shell, tiny, tmp_path):
    """Nobody is there to ask, so the licence is told, and nothing is fetched."""
    code, out, err = shell("breeds", "--root", tmp_path / "data")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "--accept-licence" in err
    assert "none stated" in err
    assert tiny.requests == []


@pytest.mark.parametrize(("answer", "accepted"), [("y\n", True), ("n\n", False)])
def test_a_terminal_is_asked(shell, tiny, tmp_path, monkeypatch, answer, accepted):
    """The licence is shown before the question; no is no."""
    import io

    asked = io.StringIO(answer)
    asked.isatty = lambda: True
    monkeypatch.setattr(sys, "stdin", asked)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    code, _, err = shell("breeds", "--root", tmp_path)
    assert "none stated" in err
    assert (tmp_path / "breeds/class_hierarchy.txt").exists() == accepted
    assert code == (0 if accepted else 1)


def test_it_fetches_once_checks_and_says_what_comes_next(shell, tiny, tmp_path):
    """The next command names the folder; a second call fetches nothing; a check finds the altered file."""
    code, out, err = shell("breeds", "--root", tmp_path, "--accept-licence")
    assert (code, err) == (0, "")
    assert f"Next: shiftbench hierarchy {tmp_path}/breeds" in out
    assert "Santurkar" in out
    assert "nothing was fetched" in shell("breeds", "--root", tmp_path)[1]
    assert shell("breeds", "--root", tmp_path, "--check")[0] == 0
    (tmp_path / "breeds/class_hierarchy.txt").write_bytes(b"parent other\n")
    code, out, _ = shell("breeds", "--root", tmp_path, "--check")
    assert code == 1
    assert "breeds/class_hierarchy.txt  altered" in out
    report = json.loads(shell("breeds", "--root", tmp_path, "--check", "--json")[1])
    assert report["files"] == [{"path": "breeds/class_hierarchy.txt", "problem": "altered: its content differs"}]


def test_json_and_quiet(shell, tiny, tmp_path):
    """JSON is all of the output; quiet has none."""
    answer = json.loads(shell("breeds", "--root", tmp_path / "a", "--accept-licence", "--json")[1])
    assert (answer["folder"], answer["fetched"]) == (str(tmp_path / "a/breeds"), True)
    assert shell("breeds", "--root", tmp_path / "b", "--accept-licence", "--quiet") == (0, "", "")


def test_wrong_words(shell, tmp_path):
    """No name is wrong usage; an unknown one is one line with the nearest; ImageNet says what to do."""
    assert shell()[0] == 2
    code, _, err = shell("waterbird")
    assert code == 1
    assert "Did you mean 'waterbirds'" in err
    code, _, err = shell("imagenet", "--root", tmp_path, "--accept-licence")
    assert code == 1
    assert "register at https://image-net.org" in err


def test_python_has_the_same_verb(tiny, tmp_path):
    """sb.download takes the words of the name and gives the folder."""
    with pytest.raises(sb.ShiftBenchError, match="accept_licence=True"):
        sb.download("breeds", root=tmp_path)
    assert sb.download("breeds", root=tmp_path, accept_licence=True) == tmp_path / "breeds"
    assert (tmp_path / "breeds/class_hierarchy.txt").read_bytes() == BODY
