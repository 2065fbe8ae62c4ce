"""shiftbench read FORMAT SOURCE... --out COLLECTION: every reader, ours or a user's, is a command by its signature.

Parameters without a default are sources, the others and those after * are options. A text in the annotation of a
parameter, `Annotated[str, "Column to predict."]`, is its help, and the docstring of the reader that of the command.
"""

import inspect
import types
import warnings
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin, get_type_hints

import typer
import typer.core
import typer.main

from shiftbench.cli.command import (
    Json,
    Plugins,
    Quiet,
    load,
    noted,
    pairs,
    print_json,
    print_table,
    progress,
    say_titled,
)
from shiftbench.core.registry import listed, load_installed

if TYPE_CHECKING:
    from shiftbench.data.collection import Collection

Out = Annotated[Path, typer.Option("--out", "-o", help="Folder of the new collection.")]
DropMissing = Annotated[bool, typer.Option("--drop-missing", help="Drop items whose image file is missing.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace another collection that is in --out.")]

SIMPLE = (str, int, float, bool, Path)
"""Types of options."""
PYTHON_ONLY = ("progress", "called")
"""Parameters of readers that are no options."""
BRING_IMAGES = ("hf", "world")
"""Formats whose images cannot be missing."""


class Formats(typer.core.TyperGroup):
    """The commands of `read`, made when they are asked for: `--import` and installed plug-ins bring further readers."""

    def list_commands(self, ctx: Any) -> list[str]:
        from shiftbench.readers import READERS

        load_installed()
        return [*READERS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        from shiftbench.readers import READERS

        return command_of(cmd_name) if cmd_name in READERS else None

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        # --import FILE or --import=FILE, before the arguments are parsed: it may bring the format that they name
        load([*(word.partition("=")[2] for word in args if word.startswith("--import=")),
              *(value for word, value in pairwise(args) if word == "--import")])
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        from shiftbench.readers import READERS

        self.commands = dict.fromkeys(READERS, self)  # the names to suggest for a misspelt one
        return super().resolve_command(ctx, args)


read = typer.Typer(cls=Formats, no_args_is_help=True,
                   help="Make a collection: read annotations, or draw a built-in world.")


@read.callback()
def _imports(plugins: Plugins = None) -> None:
    """Make a collection: read annotations, or draw a built-in world."""


def command_of(format: str) -> Any:
    """The command of a reader: read, save, print notes on standard error, and show the collection."""
    from shiftbench.readers import READERS
    from shiftbench.readers.annotation_files import keep, read_files

    reader = READERS[format]
    parameters = inspect.signature(reader).parameters
    hints = get_type_hints(reader, include_extras=True)
    sources, options = [], []
    for key, parameter in parameters.items():
        if key in PYTHON_ONLY or parameter.kind is parameter.VAR_KEYWORD:
            continue
        if parameter.default is parameter.empty and parameter.kind is not parameter.KEYWORD_ONLY:
            sources.append(_source(parameter, [*_leaves(hints.get(key))]))
        else:
            options.append(_option(parameter, [*_leaves(hints.get(key))]))

    def command(*, out: Out, drop_missing: DropMissing = False, overwrite: Overwrite = False,
                plugins: Plugins = None, json: Json = False, quiet: Quiet = False, **arguments: Any) -> None:
        values = [arguments.pop(source.name) for source in sources]
        files = [file for value in values for file in (value if isinstance(value, list) else [value])]
        settings = {key: _value(parameters[key], value) for key, value in arguments.items() if value is not None}
        bar = f"drawing {files[0]}" if format == "world" else f"reading {settings.get('kind', format)}"
        with noted() as notes:
            with progress(bar, quiet or json or "progress" not in parameters) as advance:
                if "progress" in parameters:
                    settings["progress"] = advance
                collection = read_files(format, files, drop_missing=drop_missing, **settings)
            if not keep(collection, out, overwrite):
                warnings.warn(f"{out} holds this collection already; nothing was written.", UserWarning, stacklevel=2)
        if json:
            print_json({"collection": str(out), "items": len(collection), "digest": collection.digest, "notes": notes})
        elif not quiet:
            show_collection(collection)

    to, *common, _ = inspect.signature(command).parameters.values()
    if format in BRING_IMAGES:
        common = [option for option in common if option.name != "drop_missing"]
    all_parameters = [*sources, to, *options, *common]
    command.__doc__ = reader.__doc__ or f"The reader {format} of {READERS.owner(format)}."
    command.__signature__ = inspect.Signature(all_parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in all_parameters}
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="markdown")
    app.command(format)(command)
    return typer.main.get_command(app)


def _leaves(hint: Any) -> Iterator[Any]:
    """The types and texts of an annotation: str, None and "Column to predict." of Annotated[str | None, "Column …"]."""
    if get_origin(hint) in (Annotated, Union, types.UnionType):
        for argument in get_args(hint):
            yield from _leaves(argument)
    else:
        yield hint


def _source(parameter: inspect.Parameter, leaves: list[Any]) -> inspect.Parameter:
    type_ = Path if Path in leaves else str
    several = parameter.kind is parameter.VAR_POSITIONAL
    return inspect.Parameter(parameter.name, inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[
        list[type_] if several else type_, typer.Argument(help=_help(leaves))])  # type: ignore[valid-type]


def _option(parameter: inspect.Parameter, leaves: list[Any]) -> inspect.Parameter:
    """An option of the first type that a command line can parse; a list is separated by commas, a mapping NAME=NAME."""
    key, default = parameter.name, parameter.default
    type_: Any = next((type_ for type_ in (*leaves, type(default)) if type_ in SIMPLE), str)
    if any(get_origin(leaf) in (Mapping, dict) for leaf in leaves):
        type_, default = list[str], None
    if isinstance(default, tuple | list):
        default = ",".join(map(str, default))
    names = [f"--{key.replace('_', '-')}"] if default is False else []
    option = typer.Option(*names, help=_help(leaves), min=0 if key == "seed" else None)
    return inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[
        type_ if default is not None else type_ | None, option])


def _help(leaves: list[Any]) -> str | None:
    return next((leaf for leaf in leaves if isinstance(leaf, str)), None)


def _value(parameter: inspect.Parameter, value: Any) -> Any:
    """The value of an option as the reader takes it."""
    if isinstance(value, list):
        return pairs(value, f"--{parameter.name.replace('_', '-')}", "valid=val")
    return listed(value, ",") if isinstance(parameter.default, tuple | list) else value


def show_collection(collection: "Collection") -> None:
    from shiftbench.reporting.terminal import COLUMNS, collection_facts, contents_rows, contents_title

    facts = collection_facts(collection)
    say_titled(facts["name"], contents_title(facts))
    print_table("", COLUMNS, contents_rows(collection, facts))
