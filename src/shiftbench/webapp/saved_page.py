"""A view as one HTML file: the page's scripts and the answers that the view asks for, so that it needs no server."""

import base64
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.webapp.page_files import PLACE, SAVED, VIEWS, page_file
from shiftbench.webapp.server import ANSWERS
from shiftbench.webapp.studio import Content, Query, Studio, request

MOST = 2_000
"""Requests whose answers a file carries."""


def saved_page(studio: Studio, route: str) -> str:
    """The file of a view in a state: saved_page(studio, "failures?audit=audit.json").

    The answer of the view names further requests in `also`, whose answers are carried too.
    """
    view, _, words = route.removeprefix("#").partition("?")
    if view not in VIEWS:
        raise unknown("view", view, VIEWS)
    first = request(view, **dict(parse_qsl(words)))
    answers: dict[str, Any] = {}
    waiting = [first]
    while waiting and len(answers) < MOST:
        path = waiting.pop(0)
        if path in answers:
            continue
        name, _, words = path.partition("?")
        try:
            answer = _finished(studio, name, Query(dict(parse_qsl(words))))
        except (ShiftBenchError, FileNotFoundError):
            if path == first:
                raise
            continue  # the page says that it was saved without that
        answers[path] = _carried(answer)
        if not isinstance(answer, Content):
            waiting += answer.get("also", [])
    return filled(f"#{view}{'?' + first.partition('?')[2] if '?' in first else ''}", answers)


def _finished(studio: Studio, name: str, query: Query) -> Mapping[str, Any] | Content:
    """An answer; one that says `scoring` is on its way, and a page would ask again."""
    answer = ANSWERS[name](studio, query)
    while not isinstance(answer, Content) and answer.get("scoring"):
        time.sleep(0.1)
        answer = ANSWERS[name](studio, query)
    return answer


def _carried(answer: Mapping[str, Any] | Content) -> Any:
    """Plain data as it is, a picture as a data: URL, numbers as base64."""
    if not isinstance(answer, Content):
        return answer
    text = base64.b64encode(answer.body).decode()
    return f"data:{answer.type};base64,{text}" if answer.type.startswith("image/") else text


def filled(route: str, answers: Mapping[str, Any]) -> str:
    """The page with answers in it. What was asked for once also answers for a state that is written otherwise."""
    times = Counter(path.partition("?")[0] for path in answers)
    alone = {f"*{path.partition('?')[0]}": answer for path, answer in answers.items()
             if times[path.partition("?")[0]] == 1}
    text = msgspec.json.encode({"#": route, **answers, **alone}).decode()
    return page_file(SAVED).decode().replace(PLACE, escaped(text))


def escaped(text: str) -> str:
    """JSON inside of a script: no letter of it can end the script or begin a comment.

    >>> print(escaped('"</script>"'))
    "\\u003c/script>"
    """
    return text.replace("<", "\\u003c")
