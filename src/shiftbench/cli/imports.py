"""--import FILE.py|PACKAGE: an option of every verb, which loads users' code before the verb looks names up."""

import inspect
from collections.abc import Callable
from functools import wraps
from itertools import pairwise
from typing import Annotated, Any

import typer

OPTION = "--import"


def load(names: list[str] | None) -> list[str] | None:
    """Load users' code; an error in it names the file."""
    if names:
        from shiftbench.core.plugins import load_plugins

        load_plugins(names)
    return names


Plugins = Annotated[list[str] | None, typer.Option(
    OPTION, callback=load, is_eager=True, metavar="FILE.py|PACKAGE",
    help="Your own methods, shifts, readers, metrics, models or sections; may be repeated. See docs/extend.md.")]


def importing(verb: Callable[..., Any]) -> Callable[..., Any]:
    """The verb with the option `--import`, before those about what is printed."""

    @wraps(verb)
    def run(plugins: object = None, **settings: Any) -> Any:
        return verb(**settings)

    parameters = list(inspect.signature(verb).parameters.values())
    last = next((number for number, one in enumerate(parameters) if one.name in ("json", "quiet")), len(parameters))
    parameters.insert(last, inspect.Parameter("plugins", inspect.Parameter.KEYWORD_ONLY, default=None,
                                              annotation=Plugins))
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters])
    run.__annotations__ = {**verb.__annotations__, "plugins": Plugins}
    return run


def words_after(option: str, words: list[str]) -> list[str]:
    """The values of an option in words that are not parsed yet: ["a.py"] of --import a.py, or --import=a.py."""
    values = [word.partition("=")[2] for word in words if word.startswith(f"{option}=")]
    return [*values, *(value for word, value in pairwise(words) if word == option)]
