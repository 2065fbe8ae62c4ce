"""`shiftbench read FORMAT`: every reader, ours or a user's, is a command made of its signature."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import pytest
import typer.main

import shiftbench as sb
from shiftbench.cli import app
from shiftbench.readers import READERS

READ = typer.main.get_command(app).commands["read"]
"""The group of commands."""


@pytest.mark.parametrize("format", [name for name in READERS if READERS.owner(name).ours])
def test_every_parameter_of_a_reader_of_ours_has_help(format):
    """So has the command, with an example of its own."""
    command = READ.get_command(None, format)
    assert [parameter.name for parameter in command.params if not getattr(parameter, "help", "")] == []
    assert f"\n\nshiftbench read {format} " in command.help
    assert command.name == format


@pytest.mark.usefixtures("registry")
def test_a_signature_becomes_sources_and_options(shell, tmp_path, monkeypatch):
    """Sources have no default; flags, lists, mappings and paths are taken from the words of a command line."""
    calls = []

    @sb.register.reader("mine")
    def mine(
        table: Annotated[Path, "A table."],
        *more: str,
        key: Annotated[str | None, "The column of keys."] = None,
        deep: bool = False,
        flat: bool = True,
        columns: Sequence[str] = ("a", "b"),
        words: dict[str, str] | None = None,
        seed: int = 3,
        place: Path | str | None = None,
        **rest: object,
    ) -> sb.Collection:
        """Items of mine."""
        calls.append((table, more, key, deep, flat, columns, words, seed, place, rest))
        return sb.Collection.from_frame({"id": ["1"], "label": ["x"]}, id="id", label="label", name="mine")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    out = shell("read", "mine", "--help")[1]
    for text in ("Items of mine.", "A table.", "The column of keys.", "--no-flat", "[default: a,b]", "--drop-missing"):
        assert text in out
    assert "--no-deep" not in out
    assert shell("read", "mine", "t.csv", "u", "v", "--out", "c", "--quiet")[0] == 0
    assert shell("read", "mine", "t.csv", "u", "--key", "k", "--deep", "--no-flat", "--columns", "c, d", "--words",
                 "x=y", "--words", "z=w", "--seed", "5", "--place", "here", "--out", "c", "--quiet")[0] == 0
    assert calls == [("t.csv", ("u", "v"), None, False, True, ("a", "b"), None, 3, None, {}),
                     ("t.csv", ("u",), "k", True, False, ("c", "d"), {"x": "y", "z": "w"}, 5, Path("here"), {})]
    code, _, err = shell("read", "mine", "t.csv", "u", "--words", "x", "--out", "c")
    assert (code, err) == (1, "shiftbench: --words 'x' is not of the form NAME=NAME. Write --words valid=val.\n")
    err = shell("read", "mine", "t.csv", "u", "--words", "x=y", "--words", "x=z", "--out", "c")[2]
    assert err == "shiftbench: --words names 'x' twice: y and z. Name it once.\n"
    for words in (("--seed", "-1"), ("--no-deep",), ("--rest", "r")):
        assert shell("read", "mine", "t.csv", "u", *words, "--out", "c")[0] == 2


@pytest.mark.usefixtures("registry")
def test_a_users_reader_may_report_its_progress(shell, tmp_path, monkeypatch):
    """`progress` is no option of the command: the command line passes the bar that it shows."""
    @sb.register.reader("slow")
    def slow(source, *, progress=None) -> sb.Collection:
        """Items that arrive one by one."""
        for done in range(1, 3):
            progress(done, 2)
        return sb.Collection.from_frame({"id": ["1"], "label": ["x"]}, id="id", label="label", name="slow")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("shiftbench.cli.command.EVERY", 0)
    assert "--progress" not in shell("read", "slow", "--help")[1]
    code, _, err = shell("read", "slow", "s", "--out", "c")
    assert (code, err) == (0, "reading slow: 1 of 2\nreading slow: 2 of 2\n")
    steps = []
    sb.read("slow", "s", progress=lambda done, total: steps.append((done, total)))
    assert steps == [(1, 2), (2, 2)]


def test_a_mapping_of_the_abstract_type_is_one_too():
    """`Mapping[str, str]` as our own readers have it."""
    assert Mapping[str, str] in READERS["table"].__annotations__["rename"].__origin__.__args__
    rename = next(option for option in READ.get_command(None, "table").params if option.name == "rename")
    assert rename.multiple


def test_formats_without_image_files_drop_no_items(shell):
    """A world is drawn, and a data set of Hugging Face brings its images."""
    for format, has in (("world", False), ("hf", False), ("coco", True), ("table", True)):
        options = {option.name for option in READ.get_command(None, format).params}
        assert ("drop_missing" in options) == has
