"""Every command block of README and docs runs on the built-in world, or says what it needs."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"(?m)^(?:<!-- needs: (?P<needs>.+) -->\n)?```(?P<language>\w*)\n(?P<body>[\s\S]*?)^```$")
COMMAND = re.compile(r"(?m)^(?:shiftbench|python|pip|make|for) ")
FOLLOWED = ("README.md", "start.md", "table.md")
"""Pages whose unmarked blocks are followed in order, in an empty folder with the examples; others mark every block."""
SMALL = {"--items 12000": "--items 3000", "--items 6000": "--items 3000", "items=6000": "items=3000",
         "--size 128": "--size 32", "@128": "@32"}
"""What makes a block cheap without changing what it says."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_command_block_runs_or_says_what_it_needs(page):
    """A block of commands on a page that is not followed below has a mark `<!-- needs: … -->` above it."""
    for block in BLOCK.finditer(page.read_text()):
        if COMMAND.search(block["body"]) and not block["language"]:
            assert block["needs"] or page.name in FOLLOWED, f"{page.name}: mark this block:\n{block['body']}"


@pytest.mark.slow
@pytest.mark.parametrize("name", FOLLOWED)
def test_a_page_can_be_followed(shell, tmp_path, monkeypatch, name):
    """Each unmarked block, in order: shell commands end with 0, Python runs, recipes are saved under their name."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "examples", "examples")
    scope: dict[str, object] = {}
    for block in BLOCK.finditer(next(page for page in PAGES if page.name == name).read_text()):
        body = block["body"]
        for old, new in SMALL.items():
            body = body.replace(old, new)
        if block["needs"]:
            continue
        if block["language"] == "toml":
            Path("recipe.toml").write_text(body)
        elif block["language"] == "python":
            exec(compile(body.replace('out="collections/scenes")', 'out="collections/other")'), name, "exec"), scope)  # noqa: S102
        else:
            for line in body.splitlines():
                if line.startswith("shiftbench "):
                    code, _, said = shell(*shlex.split(line, comments=True)[1:])
                    assert code == 0, f"{line}\n{said}"
