"""Options that several verbs share: what is printed, users' own code, and words that describe predictions."""

from collections.abc import Callable, Sequence
from functools import wraps
from inspect import Parameter, Signature, signature
from itertools import pairwise
from typing import Annotated, Any

import typer

from shiftbench.core.errors import ShiftBenchError

Json = Annotated[bool, typer.Option("--json", help="Print machine-readable JSON and nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bars, no table.")]
Verb = Callable[..., Any]


# --name, --method, --setting, --seed and --ignore-extra: what the user says of predictions from outside

def _words(
    name: Annotated[list[str] | None, typer.Option(
        "--name", help="Name of the run that predicted; repeated, one per file.")] = None,
    method: Annotated[list[str] | None, typer.Option(
        "--method", help="Method that predicted: one for all files, or repeated, one per file.")] = None,
    setting: Annotated[list[str] | None, typer.Option(
        "--setting", help="Setting of the method, in your words: lr=0.1; one for all files, or one per file.")] = None,
    seed: Annotated[list[int] | None, typer.Option(
        "--seed", min=0, help="Seed of the run that predicted: one for all files, or repeated, one per file.")] = None,
    ignore_extra: Annotated[bool, typer.Option(
        "--ignore-extra", help="Leave out predictions of items that are not in the benchmark, and say how many.")
    ] = False,
) -> None:
    """The options, as parameters."""


WORDS = signature(_words).parameters


def describing(verb: Verb) -> Verb:
    """The verb with these options in place of its parameter `described`, which receives those that the user gave."""

    @wraps(verb)
    def run(**settings: Any) -> Any:
        words = {word: settings.pop(word) for word in WORDS}
        return verb(**settings, described={word: value for word, value in words.items() if value})

    return _with_parameters(run, verb, "described", list(WORDS.values()), keep=False)


# --import FILE.py|PACKAGE: an option of every verb, which loads users' code before the verb looks names up

OPTION = "--import"


def load(names: list[str] | None) -> list[str] | None:
    """Load users' code; an error in it names the file."""
    if names:
        from shiftbench.core.registry import load_plugins

        load_plugins(names)
    return names


Plugins = Annotated[list[str] | None, typer.Option(
    OPTION, callback=load, is_eager=True, metavar="FILE.py|PACKAGE",
    help="Your own methods, shifts, readers, metrics, models or sections; may be repeated. See docs/extend.md.")]


def importing(verb: Verb) -> Verb:
    """The verb with the option `--import`, before those about what is printed."""

    @wraps(verb)
    def run(plugins: object = None, **settings: Any) -> Any:
        return verb(**settings)

    printed = next((name for name in signature(verb).parameters if name in ("json", "quiet")), "")
    plugins = Parameter("plugins", Parameter.KEYWORD_ONLY, default=None, annotation=Plugins)
    return _with_parameters(run, verb, printed, [plugins])


def _with_parameters(run: Verb, verb: Verb, before: str, more: Sequence[Parameter], keep: bool = True) -> Verb:
    """`run` with the parameters of a verb, and `more` before the parameter `before`, or without `keep` in its place."""
    parameters = [parameter for name, parameter in signature(verb).parameters.items() if keep or name != before]
    at = list(signature(verb).parameters).index(before) if before else len(parameters)
    parameters[at:at] = more
    run.__signature__ = Signature(  # type: ignore[attr-defined]
        [parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in parameters])
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def words_after(option: str, words: list[str]) -> list[str]:
    """The values of an option in arguments that are not parsed yet: ["a.py"] of --import a.py, or --import=a.py."""
    values = [word.partition("=")[2] for word in words if word.startswith(f"{option}=")]
    return [*values, *(value for word, value in pairwise(words) if word == option)]


# Options of the form NAME=VALUE

def rates(settings: list[str], option: str, example: str) -> dict[str, float]:
    """Numbers by name: {"accuracy": 0.8} of --floor accuracy=0.8; the last = is the one that counts."""
    numbers: dict[str, float] = {}
    for setting in settings:
        name, _, number = setting.rpartition("=")
        try:
            numbers[name] = float(number)
        except ValueError:
            name = ""
        if not name:
            raise ShiftBenchError(f"{option} '{setting}' is not of the form NAME=NUMBER. Write {option} {example}.")
    return numbers


def pairs(settings: Sequence[str], option: str, example: str) -> dict[str, str]:
    """The names in an option that may be repeated: {"valid": "val"} of --rename valid=val."""
    for setting in settings:
        if not all(setting.partition("=")):
            raise ShiftBenchError(f"{option} '{setting}' is not of the form NAME=NAME. Write {option} {example}.")
    return dict(setting.split("=", 1) for setting in settings)
