"""Write the page of the command line from what the verbs say in `--help`.

    python docs/write_commands.py build/commands.md        make docs does this
"""

import sys
from itertools import groupby
from pathlib import Path
from typing import Any

import typer

from shiftbench.cli import app

HEAD = """# The command line

Every verb except `show` and `methods` is a function of the same name in Python; there, objects show themselves and
`sb.METHODS` lists the methods. [Some options](../python.md#words-that-differ-between-the-shell-and-python) are called
otherwise there. This page is written from the verbs' own `--help`. An error that you can correct is one
line on standard error with exit code 1; wrong usage exits with 2.
"""


def commands() -> list[tuple[str, Any, Any]]:
    """Name, command and context of every verb, those of `read` with their format, in the order of `--help`."""
    group: Any = typer.main.get_command(app)
    top = group.context_class(group, info_name="shiftbench")
    verbs = []
    for name in group.list_commands(top):
        verb = group.get_command(top, name)
        context = verb.context_class(verb, info_name=name, parent=top)
        verbs.append((name, verb, context))
        for format_name in verb.list_commands(context) if hasattr(verb, "list_commands") else ():
            reader = verb.get_command(context, format_name)
            verbs.append((f"{name} {format_name}", reader,
                          reader.context_class(reader, info_name=format_name, parent=context)))
    return verbs


def section(name: str, verb: Any, context: Any) -> str:
    """Heading, help, examples and options of one verb."""
    paragraphs = (verb.help or "").replace("\b\n", "").split("\n\n")
    examples = [text for text in paragraphs if text.startswith("shiftbench ")]
    prose = [text for text in paragraphs if text not in examples]
    usage = f"shiftbench {name} {' '.join(verb.collect_usage_pieces(context))}"
    rows = [record for option in verb.params if (record := option.get_help_record(context))]
    table = [f"| `{words}` | {cell(text)} |" for words, text in rows]
    shown = [" ".join(text.split()) for text in examples]  # a long one goes on over several lines of the docstring
    lines = [f"### {name}", *prose, "```\n" + "\n".join([usage, *([""] if shown else []), *shown]) + "\n```"]
    return "\n\n".join([*lines, "\n".join(["| argument or option | |", "|--|--|", *table])] if table else lines)


def cell(text: str) -> str:
    """Help of an option inside a table; what stands in brackets (a default, a range) is set apart."""
    text = " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
    before, bracket, last = text.rpartition(" [")
    return f"{before} <small>{last[:-1]}</small>" if bracket and last.endswith("]") else text


def page() -> str:
    """All of it: a heading per group of verbs, as `shiftbench --help` has them."""
    def panel(entry: tuple[str, Any, Any]) -> str:
        name, verb, _ = entry
        return "Data" if name.startswith("read") else verb.rich_help_panel or "Try it"

    verbs = commands()
    panels = list(dict.fromkeys(map(panel, verbs)))
    verbs.sort(key=lambda entry: panels.index(panel(entry)))
    parts = [HEAD]
    for name, entries in groupby(verbs, panel):
        parts += [f"## {name}", *(section(*entry) for entry in entries)]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(page(), encoding="utf-8")
