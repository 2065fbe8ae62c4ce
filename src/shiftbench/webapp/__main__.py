"""Print what a view of the studio shows, where no verb prints it: python -m shiftbench.webapp FOLDER… REQUEST

A request is a view and its state, as the studio writes it beside its numbers: 'cross?a=class&b=light&on=scenes'.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.webapp.shelf import Shelf
from shiftbench.webapp.studio import Content, Query, Studio


def answer(folders: Sequence[str], request: str) -> Mapping[str, Any]:
    """The answer to a request about the things below some folders. It counts as a look, as on the page."""
    from shiftbench.webapp.server import ANSWERS

    name, _, words = request.partition("?")
    if name not in ANSWERS:
        raise unknown("view", name, ANSWERS)
    facts = ANSWERS[name](Studio(Shelf(folders)), Query(dict(parse_qsl(words))))
    if isinstance(facts, Content):
        raise ShiftBenchError(f"'{name}' gives a picture or columns of numbers, which are not printed.")
    return facts


def main() -> None:
    if len(sys.argv) < 3:
        sys.exit("python -m shiftbench.webapp FOLDER… REQUEST: copy the command from a page of `shiftbench studio`.")
    try:
        facts = answer(sys.argv[1:-1], sys.argv[-1])
    except ShiftBenchError as problem:
        sys.exit(f"shiftbench: {problem}")
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(facts), indent=1).decode() + "\n")


if __name__ == "__main__":
    main()
