"""What users are told: the one exception of shiftbench, the words it is built from, and the reports of long work.

A message says what is wrong, where, what is allowed and what to do. The command line prints it on one line and exits 1.
"""

import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches

Advance = Callable[[int, int], None]
"""Reports progress: (done, total)."""
Say = Callable[[str], None]
"""Takes a line that the user should know."""

LONGEST = 2000
"""The most characters of a message; the middle of a longer one is left out."""
_COMMANDS = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: object) -> str:
    """Text on one line that cannot control a terminal: control characters, line breaks, marks that change the writing
    direction and lone surrogates are escaped.

    >>> print(printable("a\\nb \\x1b[31mred"))
    a\\nb \\x1b[31mred
    """
    return _COMMANDS.sub(lambda match: ascii(match[0])[1:-1], str(text))


class ShiftBenchError(ValueError):
    """Bad input or a request that cannot be met. Never a bug: a bug keeps its traceback.

    Its message may quote the data; whatever that holds, the message is one printable line.
    """

    def __init__(self, message: str) -> None:
        line = printable(message)
        super().__init__(line if len(line) <= LONGEST else f"{line[:LONGEST - 200]} … {line[-190:]}")


def unknown(kind: str, name: object, known: Iterable[object], where: str = "") -> ShiftBenchError:
    """The error for an unknown name, with the most similar known one.

    >>> print(unknown("factor", "shap", ["hue", "shape"]))
    No factor named 'shap'. Did you mean 'shape'? Known factors: hue, shape.
    """
    names = sorted({str(candidate) for candidate in known})
    near = get_close_matches(str(name)[:100], names, n=1, cutoff=0.5)
    guess = f" Did you mean '{near[0]}'?" if near else ""
    choices = ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
    kinds = plural(kind)
    advice = f" Known {kinds}: {choices}." if names else f" There are no {kinds}."
    return ShiftBenchError(f"{where + ': ' if where else ''}No {kind} named '{name}'.{guess}{advice}")


def plural(kind: str) -> str:
    """The plural of a noun; of several words, that of the first: kinds of target. Words in s, as features, stay.

    >>> [plural(kind) for kind in ("class", "key", "hierarchy", "features", "kind of target", "way to paint")]
    ['classes', 'keys', 'hierarchies', 'features', 'kinds of target', 'ways to paint']
    """
    for link in (" of ", " to "):
        head, separator, rest = kind.partition(link)
        if separator:
            return plural(head) + link + rest
    if kind == "criterion":
        return "criteria"
    if kind.endswith(("ss", "x", "ch", "sh")):
        return f"{kind}es"
    if kind.endswith("s"):
        return kind
    return f"{kind[:-1]}ies" if kind.endswith("y") and kind[-2:-1] not in "aeou" else f"{kind}s"


def first_line(problem: BaseException) -> str:
    """The first line of an exception's message, at most 200 characters; its type where it has none."""
    return (str(problem).strip() or type(problem).__name__).splitlines()[0][:200]
