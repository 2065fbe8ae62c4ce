"""The documentation site, without building it: pages, links, names and verbs. `make docs` builds it, strictly."""

import ast
import inspect
import json
import re
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

import shiftbench as sb
from docs.build_site import (
    DOCS,
    PICTURES,
    REFERENCE,
    digest,
    for_site,
    notebook_page,
    notebooks,
    reference,
    reference_of,
    stale,
)
from docs.write_commands import commands, page
from docs.write_tables import PAGES
from shiftbench.cli import PANELS

ROOT = DOCS.parent
SITE = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)|<img [^>]*src=\"([^\"]+)\"")
FENCE = re.compile(r"(?ms)^```.*?^```$|`[^`\n]+`")
FRAGMENTS = {f"studies/{name}.md" for name in PAGES}
"""Tables that pages quote whole; they are no pages."""


def nav(entries=SITE["nav"]) -> list[str]:
    """The pages of the nav, in order."""
    if isinstance(entries, str):
        return [entries]
    values = entries.values() if isinstance(entries, dict) else entries
    return [page for entry in values for page in nav(entry)]


def sources() -> list[Path]:
    return [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as mkdocs and GitHub name them."""
    lines = re.sub(r"(?ms)^```.*?^```$", "", text).splitlines()
    headings = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line.lstrip("#")) for line in lines if re.match(r"#+ ", line)]
    slugs = [re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings]
    return {slug.encode("ascii", "ignore").decode() for slug in slugs}


def test_every_page_is_in_the_nav_once():
    """Pages of docs, of the reference and of notebooks; tables that a page quotes are left out by name."""
    written = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")} - FRAGMENTS
    assert len(nav()) == len(set(nav()))
    missing = {*written, *REFERENCE, *notebooks(), "reference/commands.md"} ^ set(nav())
    assert not missing, "Pages and the nav of mkdocs.yml differ. Put a new page where a reader would look for it."
    studies = [line for line in SITE["exclude_docs"].split() if "studies/" in line]
    assert studies == ["studies/*.md", *(f"!{page}" for page in nav() if page.startswith("studies/"))]


@pytest.mark.parametrize("path", sources(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(path):
    """A relative link is a file of this checkout, and its anchor a heading of that file."""
    text = path.read_text(encoding="utf-8")
    for match in LINK.finditer(FENCE.sub(lambda code: code[0] if "](" in code[0] else "", text)):
        target, _, anchor = (match[1] or match[2]).partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        file = (path.parent / target).resolve() if target else path
        assert file.is_relative_to(ROOT), match[0]
        assert file.exists(), match[0]
        if anchor:
            assert anchor in anchors(file.read_text(encoding="utf-8")), match[0]


def test_a_link_out_of_the_docs_is_code_on_the_site():
    """The site holds no source: what a page says of a file there remains, without the link. Notebooks are pages."""
    text = "[`x`](../src/x.py) [plug-in](../examples/plugin) [a](words.md#b) [b](https://c.org) [n](notebooks/n.ipynb)"
    assert for_site(text, "extend.md") == "`x` `plug-in` [a](words.md#b) [b](https://c.org) [n](notebooks/n.md)"
    assert for_site("```\nshiftbench demo\n```\n```\nitem,cat\n```", "x.md") == (
        "```bash\nshiftbench demo\n```\n```\nitem,cat\n```")
    assert for_site("<!-- needs: a GPU -->\n```\nmake\n```", "x.md") == '```bash title="needs a GPU"\nmake\n```'


def test_every_public_name_has_a_sentence():
    """In its docstring, or below it where it is a table; and each stands on one page of the reference."""
    names = [name for name in sb.__all__ if name != "__version__"]
    pages = {path: reference(path) for path in REFERENCE}
    for name in names:
        text = described(name)
        assert text, f"shiftbench.{name} has no docstring."
        assert re.match(r"[\s\S]{10,}?[.:]", text), f"The docstring of shiftbench.{name} is no sentence: {text!r}"
        assert [path for path in pages if f"::: shiftbench.{name}\n" in pages[path]] == [reference_of(name)]


def described(name: str) -> str:
    value = getattr(sb, name)
    if inspect.isclass(value) or callable(value) or inspect.ismodule(value):
        own = vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__
        return "" if own is None or own.startswith(f"{name}(") else inspect.cleandoc(own)
    for file in (ROOT / "src/shiftbench" / sb._HOME[name]).glob("*.py"):
        body = ast.parse(file.read_text(encoding="utf-8")).body
        for statement, after in pairwise(body):
            targets = getattr(statement, "targets", [getattr(statement, "target", None)])
            if any(getattr(target, "id", "") == name for target in targets) and isinstance(after, ast.Expr):
                return ast.literal_eval(after.value)
    return ""


def test_the_reference_of_the_command_line_has_every_verb():
    """Each with its usage and what `--help` says of every option, and every format of `read`."""
    text = page()
    verbs = {verb.__name__ for panel in PANELS.values() for verb in panel}
    assert {name for name, _, _ in commands()} >= {*verbs, "demo", "read", "read table", "read coco"}
    for name, verb, context in commands():
        section = text.partition(f"### {name}\n")[2].partition("\n### ")[0]
        assert f"shiftbench {name}" in section
        for option in verb.params:
            if record := option.get_help_record(context):
                assert f"| `{record[0]}` |" in section


def test_a_notebook_is_a_page_with_what_it_showed():
    """Text, code and outputs, in order."""
    for path in notebooks().values():
        text = notebook_page(path)
        assert text.startswith("# ")
        assert text.count("```python\n") > 3
        assert 'class="output"' in text


def test_pictures_that_are_older_than_the_page_are_told(tmp_path):
    """A changed script of the studio makes one line that says what to do; what is no source of the page does not."""
    pictures, page = tmp_path / "pictures.json", tmp_path / "page"
    page.mkdir()
    (page / "app.js").write_text("1")
    pictures.write_text(json.dumps({"studio": digest(page)}))
    (page / "notes.txt").write_text("2")
    assert stale(pictures, page) == ""
    (page / "app.js").write_text("3")
    assert "make pictures" in stale(pictures, page)
    assert set(json.loads(PICTURES.read_text(encoding="utf-8"))) == {"studio"}


def test_results_list_every_study_and_bench():
    """Each bench that can be run, and each table in docs/studies by the page that quotes it, with a date."""
    text = (DOCS / "results.md").read_text(encoding="utf-8")
    benches = [path for path in (ROOT / "bench").glob("*.py") if "__main__" in path.read_text(encoding="utf-8")
               and path.name != "ray_cluster.py"]  # a tool of kill_sweep.py
    assert len(benches) > 10
    logged = (DOCS / "studies" / "benches.md").read_text(encoding="utf-8")
    missing = [path.name for path in benches if f"python bench/{path.name}" not in text + logged]
    assert not missing, "Add it to `make bench`, or a line to docs/results.md with the date of its figures."
    assert not [name for name, place in PAGES.items() if f"]({place})" not in text]
    rows = [line for line in text.splitlines() if line.startswith("| ") and "`" in line]
    assert not [row for row in rows if not re.search(r"20\d\d-\d\d-\d\d|not on record", row)]


def test_the_site_loads_nothing_from_elsewhere():
    """No fonts, and search works from disk: the frame in place of a worker is ours."""
    assert SITE["theme"]["font"] is False
    assert "offline" in SITE["plugins"]
    own = [*SITE["extra"]["polyfills"], *SITE["extra_css"]]
    assert all((DOCS / file).is_file() for file in own)
    assert any("iframe-worker" in file for file in own)  # else the plug-in takes one from a host of its own
    assert not [file for file in own if re.search(r"https?://", (DOCS / file).read_text(encoding="utf-8"))]
