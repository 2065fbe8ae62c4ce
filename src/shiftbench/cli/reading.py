"""How a reader is a command: the options that all have, what the command does, and commands for users' readers."""

import inspect
import types
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer
import typer.core
import typer.main

from shiftbench.cli.imports import OPTION, importing, load, words_after
from shiftbench.cli.output import Json, Quiet, noted, print_json, progress

Out = Annotated[Path, typer.Option("--out", "-o", help="Folder of the new collection.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace another collection that is in --out.")]
DropMissing = Annotated[bool, typer.Option("--drop-missing", help="Drop items whose image file is missing.")]


def read_and_save(
    form: str, sources: Sequence[Path | str], out: Path, options: Mapping[str, Any], overwrite: bool, json: bool,
    quiet: bool, bar: str = "",
) -> None:
    """Read and save, say on standard error what was left out or is missing, and show what was read.

    `bar` is the title of a progress bar, for readers that report progress.
    """
    from shiftbench.api import read as read_collection
    from shiftbench.readers import keep

    chosen: dict[str, Any] = {key: value for key, value in options.items() if value is not None}
    with noted() as notes:
        with progress(bar, quiet or json or not bar) as advance:
            collection = read_collection(form, *sources, **chosen | ({"progress": advance} if bar else {}))
        if not keep(collection, out, overwrite):
            warnings.warn(f"{out} holds this collection already; nothing was written.", UserWarning, stacklevel=2)
    if json:
        print_json({"collection": str(out), "items": len(collection), "digest": collection.digest, "notes": notes})
    elif not quiet:
        from shiftbench.cli.contents import show_collection

        show_collection(collection)


# Readers of users

class Formats(typer.core.TyperGroup):
    """The formats that have a command here, and those of readers that a user registered: a command is made for each."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), *own_readers()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return super().get_command(ctx, cmd_name) or (command_of(cmd_name) if cmd_name in own_readers() else None)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--help" in args:  # which answers before the options behind it are looked at
            load(words_after(OPTION, args))
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if super().get_command(ctx, args[0]) is None:
            load(words_after(OPTION, args))
        return super().resolve_command(ctx, args)


def own_readers() -> list[str]:
    """The names of registered and installed readers."""
    from shiftbench.core.plugins import load_installed
    from shiftbench.readers import READERS

    load_installed()
    return [name for name in READERS if not READERS.owner(name).ours]


def command_of(name: str) -> Any:
    """The command of a user's reader: its parameters without default are sources, the others options."""
    from shiftbench.readers import READERS

    reader = READERS[name]
    sources, options, hints = {}, {}, get_type_hints(reader)
    for key, parameter in inspect.signature(reader).parameters.items():
        kind, default = parameter.kind, parameter.default
        if default is parameter.empty and kind not in (parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD):
            many = kind is parameter.VAR_POSITIONAL
            sources[key] = _parameter(key, Annotated[list[str] if many else str, typer.Argument()])
        elif kind is not parameter.VAR_KEYWORD:
            options[key] = _parameter(key, _option_type(hints.get(key, str), default), default)

    def command(**words: Any) -> None:
        files = [file for key in sources for file in ([words[key]] if isinstance(words[key], str) else words[key])]
        chosen = {key: words[key] for key in (*options, "drop_missing")}
        read_and_save(name, files, words["out"], chosen, *(words[key] for key in ("overwrite", "json", "quiet")))

    command.__doc__ = reader.__doc__ or f"The reader {name} of {READERS.owner(name)}."
    parameters = [*sources.values(), *options.values(), *inspect.signature(_options).parameters.values()]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="markdown")
    app.command(name)(importing(command))
    return typer.main.get_command(app)


def _options(*, out: Out, drop_missing: DropMissing = False, overwrite: Overwrite = False, json: Json = False,
             quiet: Quiet = False) -> None:
    """The options that every reader has."""


def _parameter(key: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _option_type(hint: Any, default: Any) -> Any:
    """The type of an option: the parameter's where a command line has it, else that of its default, else text."""
    hints = get_args(hint) if isinstance(hint, types.UnionType) else [hint]
    kind = next((kind for kind in (*hints, type(default)) if kind in SIMPLE), str)
    return kind if default is not None else kind | None


SIMPLE = (str, int, float, bool, Path)
"""Types of options."""
