"""Every block of README and docs runs on the built-in world, or says what it needs.

Pages are followed in a folder in which README and start.md were followed before, with smaller numbers: fewer and
smaller pictures, fewer steps, one seed. A block above which `<!-- needs: … -->` stands is left out.
"""

import io
import re
import runpy
import shlex
import shutil
import sys
import tomllib
from contextlib import redirect_stderr, redirect_stdout
from itertools import chain
from pathlib import Path

import pytest

from shiftbench import cli

ROOT = Path(__file__).parent.parent
FIRST = ("README.md", "docs/start.md")
"""What these two make, the other pages go on from."""
PAGES = (*FIRST, *sorted(set(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")) - set(FIRST)))
BLOCK = re.compile(r"(?m)^(?:<!-- needs: (?P<needs>.+) -->\n)?```(?P<language>\w*)\n(?P<body>[\s\S]*?)^```$")
COMMANDS = ("shiftbench ", "python ")
OTHERS = re.compile(r"(?m)^(?:pip|make|for|cd|export) ")
SMALLER = {r"--items \d{4,}": "--items 3000", r"--items 200\b": "--items 60", r"items = \d{4,}": "items = 3000",
           r"items=\d{4,}": "items=3000, size=32", r"--size \d+": "--size 32",
           r"size = 64": "size = 32", r"@\d+\b": "@32", r"--steps \d+": "--steps 10", r"steps = \d{2,}": "steps = 10",
           r"--model resnet18": "--model small-cnn", r"seeds = (?:\d+|\[[^]]*\])": "seeds = 1"}
"""What makes a block cheap without changing what it says; applied to the examples too."""
SHORT = {
    "read world": ["--size", "32"], "train": ["--steps", "10"], "pretrain": ["--steps", "2"],
    "conflicts": ["--steps", "32", "--repeats", "5"], "sweep": ["--workers", "1"],
    "sweep examples/fine_grained": ["--set", "methods=['irm', 'bn_adapt']"],
    "sweep examples/breeds": ["--set", "members=['rand']"],
    "sweep examples/nooch": ["--set", "members=['ce-bus']", "--set", "methods=['erm', 'group_dro']"],
    "build nooch/world": ["--only", "ce-"],
    "sweep study.toml": ["--set", "steps=10"],
    "sweep study.toml --out runs/study": ["--set", "lr=1e-3", "--set", "irm.penalty=1.0"],
}
"""Words that a command gets at its end, by how it begins; where the page has them too, these count."""


def smaller(text: str) -> str:
    for old, new in SMALLER.items():
        text = re.sub(old, new, text)
    return text


def commands(body: str) -> list[list[str]]:
    """The words of each command; a line that ends in a backslash goes on."""
    lines = body.replace("\\\n", " ").splitlines()
    return [shlex.split(line, comments=True) for line in lines if line.startswith(COMMANDS)]


def blocks(page: str) -> list[tuple[str, str]]:
    """Language and text of the blocks that are run."""
    found = [(block["language"], smaller(block["body"])) for block in BLOCK.finditer((ROOT / page).read_text())
             if not block["needs"]]
    return [(language, body) for language, body in found if language or commands(body)]


def run(program: str, words: list[str]) -> str:
    """Run a command in this process; gives what it says of a failure, or nothing."""
    said, module = io.StringIO(), words[0] == "-m"
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()), redirect_stderr(said):
        try:
            if program == "shiftbench":
                more = [short for start, short in SHORT.items() if " ".join(words).startswith(start)]
                patch.setattr(sys, "argv", ["shiftbench", *words, *chain(*more)])
                cli.main()
            else:
                patch.setattr(sys, "argv", words[module:])
                (runpy.run_module if module else runpy.run_path)(words[module], run_name="__main__")
        except SystemExit as end:
            return f"{end.code}: {said.getvalue()}" if end.code else ""
    return ""


def follow(page: str) -> int:
    """Do the blocks in order: commands end with 0, Python runs, TOML is saved under the name in its first line.

    So is Python whose first line names a file: commands import it. Returns how many were done.
    """
    scope: dict[str, object] = {}
    done = 0
    for done, (language, body) in enumerate(blocks(page), start=1):  # noqa: B007
        if language == "toml":
            tomllib.loads(body)
            name = re.match(r"# (\S+\.toml)\n", body)
            Path(name[1] if name else "recipe.toml").write_text(body)
        elif language == "python" and (file := re.match(r"# (\w+\.py)\n", body)):
            Path(file[1]).write_text(body)
        elif language == "python":
            exec(compile(body, page, "exec"), scope)  # noqa: S102
        else:
            for program, *words in commands(body):
                assert not (problem := run(program, words)), f"{page}: {program} {shlex.join(words)}\n{problem}"
    return done


@pytest.fixture(scope="module")
def reader(tmp_path_factory, workers_here, command_line):
    """The folder of someone who followed README and start.md."""
    place = tmp_path_factory.mktemp("reader")
    shutil.copytree(ROOT / "examples", place / "examples")
    for path in place.glob("examples/**/*.toml"):
        path.write_text(smaller(path.read_text()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cli, "app", command_line)
        with pytest.MonkeyPatch.context() as inner:
            inner.chdir(place)
            pages = {page: follow(page) for page in FIRST}
        yield place, pages


@pytest.mark.parametrize("page", PAGES)
def test_a_block_runs_or_says_what_it_needs(page):
    """A block with another program has a mark, and what is marked is something to run."""
    for block in BLOCK.finditer((ROOT / page).read_text()):
        other = not block["language"] and OTHERS.search(block["body"])
        assert block["needs"] or not other, f"{page}: mark this block:\n{block['body']}"
        assert not block["needs"] or other or block["language"] or commands(block["body"]), block["body"]


@pytest.mark.slow
@pytest.mark.usefixtures("registry", "few_replicates")
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)])
def test_a_page_can_be_followed(reader, tmp_path, monkeypatch, page):
    """From an empty folder with the examples: README and start.md, then any other; none of its blocks fails."""
    folder, blocks_run = reader
    if page not in FIRST:
        shutil.copytree(folder, tmp_path / "reader")
        monkeypatch.chdir(tmp_path / "reader")
        blocks_run = {page: follow(page)}
    assert blocks_run[page] == len(blocks(page)) > 0
