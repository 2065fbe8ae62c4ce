"""What mkdocs does for this site beyond its own: pages that are made at build time, and laws that a page keeps.

Made are the reference of Python (from `shiftbench.__all__`), that of the command line (build/commands.md, which
docs/write_commands.py writes) and a page per notebook. A link to a file outside docs becomes its name as code. A page
that would load anything from another host, and a public name without a docstring, stop the build.
"""

import hashlib
import json
import re
import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
COMMANDS = DOCS.parent / "build" / "commands.md"
STUDIO = DOCS.parent / "src" / "shiftbench" / "webapp" / "page"
PICTURES = DOCS / "images" / "pictures.json"
REFERENCE = {
    "reference/verbs.md": (
        "Verbs", "The verbs of the command line are functions of the same name: `import shiftbench as sb`, then "
        "`sb.read`, `sb.build`, `sb.score`. They take folders or objects and return objects. Some options of a verb "
        "are functions of their own, such as `sb.suite` (`build SUITE`) and `sb.reference` (`build --reference`)."),
    "reference/types.md": (
        "Types", "What verbs take and return. Fields cannot be assigned: methods return new objects. `Collection`, "
        "`Benchmark`, `Predictions` and `Scores` print one line and show a table in a notebook. `METHODS` maps names "
        "to the classes of methods, and every error that you can correct is a `ShiftBenchError`."),
    "reference/shifts.md": (
        "Shifts and conditions", "A shift is a class with `build(collection, seed)`; its fields are the settings of a "
        "recipe. [The guide](../shifts.md) says which to choose."),
    "reference/register.md": (
        "register", "Decorators that register your own code. [The guide](../extend.md) has an example of each."),
}
NEEDS = re.compile(r"(?m)^<!-- needs: (.+) -->\n```(\w*)$")
SHELL = re.compile(r"(?m)^```\n(?=(?:shiftbench|python|make|pip|for|cd|export|timeout) )")
LINK = re.compile(r"(?<!!)\[([^\]\n]+)\]\(([^)\s]+)\)")
REMOTE = re.compile(r"""<(?:script|img|iframe|source|link)\b[^>]*?\b(?:src|href)=["']?(?:https?:)?//[^"'>\s]+""")


def reference_of(name: str) -> str:
    """The page of the reference on which a public name stands."""
    import shiftbench

    if name in shiftbench.VERBS or name == "demo":
        return "reference/verbs.md"
    if name == "register":
        return "reference/register.md"
    return "reference/shifts.md" if shiftbench._HOME[name] == "shifts" else "reference/types.md"


def reference(path: str) -> str:
    """A list of the names, and then each of them from its docstring."""
    import shiftbench

    title, words = REFERENCE[path]
    names = [name for name in shiftbench.__all__ if not name.startswith("_") and reference_of(name) == path]
    links = " · ".join(f"[`{name}`][shiftbench.{name}]" for name in names)
    return "\n\n".join([f"# {title}", words, links, *(f"::: shiftbench.{name}" for name in names)]) + "\n"


def notebook_page(path: Path) -> str:
    """A notebook as Markdown: text, code, and what the code showed when the notebook was kept."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        parts += [shown for output in cell.get("outputs", ()) if (shown := _output(output))]
    note = f"*This page is the notebook `docs/notebooks/{path.name}`, with what it showed.*"
    return "\n\n".join([parts[0], note, *parts[1:]]) + "\n"


def _output(output: dict[str, Any]) -> str:
    data = output.get("data", {"text/plain": output.get("text", "")})
    if picture := "".join(data.get("image/png", "")).strip():
        return f'<div class="output"><img alt="" src="data:image/png;base64,{picture}"></div>'
    for kind in ("image/svg+xml", "text/html"):
        if kind in data:
            lines = (line for line in "".join(data[kind]).splitlines() if line.strip())
            return '<div class="output">\n' + "\n".join(lines) + "\n</div>"
    if "text/markdown" in data:
        return '<div class="output" markdown>\n\n' + "".join(data["text/markdown"]) + "\n\n</div>"
    text = "".join(data.get("text/plain", "")).strip("\n")
    return f'```text {{ .output }}\n{text}\n```' if text else ""


def digest(page: Path = STUDIO) -> str:
    """A digest of the studio's page: its scripts, its style and its frame."""
    files = sorted(path for path in page.iterdir() if path.suffix in {".js", ".css", ".html"})
    return hashlib.sha256(b"".join(path.name.encode() + b"\0" + path.read_bytes() for path in files)).hexdigest()


def stale(pictures: Path = PICTURES, page: Path = STUDIO) -> str:
    """One line if the studio's page has changed since its pictures were taken, else nothing."""
    if json.loads(pictures.read_text(encoding="utf-8"))["studio"] == digest(page):
        return ""
    return "The studio's page has changed since its pictures were taken: make pictures takes them again."


def notebooks() -> dict[str, Path]:
    """The notebooks by the page that shows them."""
    return {f"notebooks/{path.stem}.md": path for path in sorted((DOCS / "notebooks").glob("*.ipynb"))}


def for_site(markdown: str, path: str) -> str:
    """The page as the site shows it: what a block needs is its title, links lead to pages of the site alone."""
    def link(match: re.Match[str]) -> str:
        words, target = match.groups()
        file = (DOCS / path).parent.joinpath(target.partition("#")[0]).resolve()
        if re.match(r"[a-z]+:|#", target) or file.is_relative_to(DOCS):
            return match[0].replace(".ipynb)", ".md)")
        return words if words.startswith("`") else f"`{words}`"

    titled = NEEDS.sub(lambda match: f'```{match[2] or "bash"} title="needs {match[1]}"', markdown)
    return LINK.sub(link, SHELL.sub("```bash\n", titled))


def on_config(config: Any) -> Any:
    """Refuse a public name, or a public method of one, without a docstring, and pictures of an older page."""
    import griffe
    from mkdocs.exceptions import PluginError

    sys.path.insert(0, str(DOCS.parent / "src"))
    import shiftbench

    package = griffe.load("shiftbench", search_paths=[DOCS.parent / "src"], resolve_aliases=True)
    bare = undocumented(package, [name for name in shiftbench.__all__ if not name.startswith("_")])
    if bare:
        raise PluginError(f"No docstring: {', '.join(bare)}")
    if line := stale():
        raise PluginError(line)
    return config


def undocumented(package: Any, names: list[str]) -> list[str]:
    """Public names, and functions within them, that have no docstring. A shift's class says what its `build` does."""
    bare = [name for name in names if not package[name].has_docstring]
    for name in names:
        home = package[name].final_target if package[name].is_alias else package[name]
        bare += [f"{name}.{member}" for member, entry in home.members.items() if member[0] != "_" and member != "build"
                 and not entry.is_alias and entry.is_function and not entry.has_docstring]
    return bare


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are made."""
    from mkdocs.structure.files import File

    pages = {path: reference(path) for path in REFERENCE}
    pages |= {path: notebook_page(source) for path, source in notebooks().items()}
    pages["reference/commands.md"] = COMMANDS.read_text(encoding="utf-8")
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    return for_site(markdown, page.file.src_uri)


def on_post_page(output: str, page: Any, **_: Any) -> str:
    from mkdocs.exceptions import PluginError

    if remote := REMOTE.search(output):
        raise PluginError(f"{page.file.src_uri} loads from another host: {remote[0]}")
    return output
