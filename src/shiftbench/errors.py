"""The one exception of shiftbench, and the words it is built from.

A message says what is wrong, where, what is allowed and what to do. The command line prints it on one line and exits 1.
"""

from collections.abc import Iterable
from difflib import get_close_matches


class ShiftBenchError(ValueError):
    """Bad input or a request that cannot be met. Never a bug: a bug keeps its traceback."""


def unknown(kind: str, name: str, known: Iterable[str], where: str = "") -> ShiftBenchError:
    """The error for a name that is not there, with the nearest one that is.

    >>> print(unknown("factor", "shap", ["hue", "shape"]))
    No factor named 'shap'. Did you mean 'shape'? Known factors: hue, shape.
    """
    names = sorted(set(known))
    near = get_close_matches(name, names, n=1, cutoff=0.5)
    guess = f" Did you mean '{near[0]}'?" if near else ""
    shown = ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
    many = f"{kind}es" if kind.endswith("s") else f"{kind}s"
    if kind.endswith("y") and kind[-2:-1] not in "aeou":
        many = f"{kind[:-1]}ies"
    choice = f" Known {many}: {shown}." if names else f" There are no {many}."
    return ShiftBenchError(f"{where + ': ' if where else ''}No {kind} named '{name}'.{guess}{choice}")
