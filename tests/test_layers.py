"""Imports go in one direction, torch stays in its stage, and no message prints a bare {name}."""

import ast
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

import shiftbench
from shiftbench import VERBS

SOURCE = Path(__file__).parent.parent / "src" / "shiftbench"

ORDER = (
    "core", "data", "downloads", "worlds", "readers", "metagraph", "hierarchies", "text", "shifts", "scoring", "images",
    "auditing", "exports", "models", "methods", "training", "predicting", "conflict", "sweeps", "reporting", "human",
    "leaderboard", "webapp", "compat", "register", "api", "demonstration", "cli",
)
"""The whole architecture in a line: a part imports only from itself and from those before it."""

CONTRIBUTING = SOURCE.parent.parent / "CONTRIBUTING.md"
TORCH = ("core", "images", "models", "methods", "training", "predicting", "conflict", "compat")
FILES = sorted(SOURCE.rglob("*.py"))


def part(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


class Facts(NamedTuple):
    """What the laws below ask of a file."""

    imports: list[str]
    """Every module that it imports, at the top or inside a function; with a dot at its head if relative."""
    names: set[str]
    """Strings that may be names of modules of ours."""
    raised: list[tuple[int, str]]
    """Line and text of every plain string that is raised."""


@cache
def facts(path: Path) -> Facts:
    """Parse a file and walk over it once: that takes most of the time here."""
    found = Facts([], set(), [])
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.imports.extend(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.imports.append("." * node.level + (node.module or ""))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("shiftbench."):
            found.names.add(node.value)
        elif isinstance(node, ast.Raise) and node.exc is not None:
            joined = [value for part in ast.walk(node.exc) if isinstance(part, ast.JoinedStr) for value in part.values]
            found.raised.extend((part.lineno, part.value) for part in ast.walk(node.exc) if isinstance(
                part, ast.Constant) and isinstance(part.value, str) and part not in joined)
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_go_one_way(path):
    """A file imports only from parts that come before its own, and torch only in the torch stage."""
    own = part(path)
    if own in ("__init__", "__main__"):
        return
    assert own in ORDER, f"{own} has no place in ORDER"
    for name in facts(path).imports:
        assert not name.startswith("."), "relative imports hide the direction"
        top, _, rest = name.partition(".")
        if top == "shiftbench" and rest:
            assert ORDER.index(rest.split(".")[0]) <= ORDER.index(own), f"{own} imports {name}, which comes later"
        if top in ("torch", "torchvision"):
            assert own in TORCH, f"{own} imports {name} outside the torch stage"


def test_contributors_read_the_same_order():
    """CONTRIBUTING.md shows the order of the rooms as a line of arrows."""
    block = next(block for block in CONTRIBUTING.read_text().split("```") if "→" in block)
    assert tuple(block.replace("→", " ").split()) == ORDER


NAMED_LATER = {("core/backend.py", "shiftbench.reporting.notebook"), ("core/backend.py", "shiftbench.compat.items")}
"""What is loaded by its name from an earlier room: what a notebook shows of an object, and a data set of torch."""


def test_no_later_room_is_loaded_by_its_name():
    """A name in a string that is a module of ours goes the way of an import, except for notebooks and torch."""
    modules = {"shiftbench." + ".".join(path.relative_to(SOURCE).with_suffix("").parts) for path in FILES}
    named = {(path.relative_to(SOURCE).as_posix(), name) for path in FILES for name in facts(path).names & modules}
    later = {(file, name) for file, name in named
             if ORDER.index(name.split(".")[1]) > ORDER.index(file.split("/")[0].removesuffix(".py"))}
    assert later == NAMED_LATER


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_message_forgets_its_f(path):
    """A {name} in a plain string that is raised would be printed as it stands."""
    for line, text in facts(path).raised:
        assert "{" not in text, f"{path}:{line}: {text}"


def test_no_room_takes_the_name_of_a_verb():
    """`sb.score` is the function: a package of that name would take its place as soon as it is imported."""
    assert not set(VERBS) & {part(path) for path in FILES}


def test_the_verbs_of_the_package_are_the_functions_of_its_api():
    """`import shiftbench` names the verbs without loading them, and forgets none."""
    tree = ast.parse((SOURCE / "api.py").read_text())
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assigned = {target.id for node in tree.body if isinstance(node, ast.Assign) for target in node.targets}
    assert {name for name in functions | assigned if not name.startswith("_")} == set(VERBS)


def test_editors_know_every_public_name():
    """What `import shiftbench` loads later is imported for type checkers, the verbs with all of the api."""
    tree = ast.parse((SOURCE / "__init__.py").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    known = {alias.asname or alias.name for node in block.body if isinstance(node, ast.ImportFrom)
             for alias in node.names}
    assert known - {"*"} == set(shiftbench.__all__) - set(VERBS) - {"__version__"}
    assert "*" in known


def test_a_misspelt_name_is_known_to_be_one():
    """A type checker that saw `__getattr__` would take `sb.scor` for a name of ours."""
    tree = ast.parse((SOURCE / "__init__.py").read_text())
    assert "__getattr__" not in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    (block,) = [node for node in tree.body if isinstance(node, ast.If) and any(
        isinstance(part, ast.FunctionDef) for part in node.body)]
    assert ast.unparse(block.test) == "not TYPE_CHECKING"
    with pytest.raises(AttributeError, match="has no attribute 'setting'"):
        _ = shiftbench.setting


def test_no_two_modules_have_one_name():
    """A name leads to one file."""
    names = Counter(path.stem for path in FILES if not path.stem.startswith("__"))
    assert [name for name, times in names.items() if times > 1] == []


def test_no_file_says_nothing_by_its_name():
    """A helper lives with the idea it serves."""
    assert not [path for path in FILES if path.stem in ("utils", "util", "helpers", "common", "misc")]


def test_import_is_quick_and_needs_no_torch():
    """`import shiftbench, shiftbench.cli` loads neither torch nor anything that takes long."""
    script = ("import shiftbench, shiftbench.cli, sys;"
              "heavy = {'torch', 'torchvision', 'matplotlib', 'numba', 'igraph', 'scipy', 'jinja2', 'sklearn',"
              "'numpy', 'pyarrow', 'msgspec'};"
              "assert not heavy & set(sys.modules), heavy & set(sys.modules)")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
