"""A view's answers without a server: a single one, or all that its page asks for, in one HTML file."""

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
"""Requests whose answers a file may contain."""


def saved_page(studio: Studio, route: str) -> str:
    """The file of a view in a state: saved_page(studio, "failures?audit=audit.json").

    The view's answer names further requests in `also`; the file contains their answers too.
    """
    view, _, state = route.removeprefix("#").partition("?")
    if view not in VIEWS:
        raise unknown("view", view, VIEWS)
    first = request(view, **dict(parse_qsl(state)))
    answers: dict[str, Any] = {}
    waiting = [first]
    while waiting and len(answers) < MOST:
        path = waiting.pop(0)
        if path in answers:
            continue
        try:
            answer = answer_to(studio, path)
        except (ShiftBenchError, FileNotFoundError):
            if path == first:
                raise
            continue  # the page says that this answer was not saved
        answers[path] = _carried(answer)
        if not isinstance(answer, Content):
            waiting += answer.get("also", [])
    return filled(f"#{view}{'?' + first.partition('?')[2] if '?' in first else ''}", answers)


def answer_to(studio: Studio, path: str) -> Mapping[str, Any] | Content:
    """The answer to a request: a view with its state. While runs are being scored, it asks again, as a page does."""
    name, _, state = path.partition("?")
    if name not in ANSWERS:
        raise unknown("view", name, ANSWERS)
    query = Query(dict(parse_qsl(state)))
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
    """The page with answers in it. A view's only answer also serves requests that write its state differently."""
    counts = Counter(path.partition("?")[0] for path in answers)
    single = {f"*{path.partition('?')[0]}": answer for path, answer in answers.items()
              if counts[path.partition("?")[0]] == 1}
    text = msgspec.json.encode({"#": route, **answers, **single}).decode()
    return page_file(SAVED).decode().replace(PLACE, escaped(text))


def escaped(text: str) -> str:
    """JSON inside a script element: no character of it can end the script or begin a comment.

    >>> print(escaped('"</script>"'))
    "\\u003c/script>"
    """
    return text.replace("<", "\\u003c")
