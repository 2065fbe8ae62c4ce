"""The studio's server: pages, answers and pictures, behind a token, on this machine alone by default; or in a file."""

import base64
import hmac
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from shiftbench.core.errors import ShiftBenchError, first_line, printable, unknown
from shiftbench.webapp import (
    collection_view,
    compare_view,
    design_view,
    failures_view,
    graph_view,
    home_view,
    item_view,
    runs_view,
)
from shiftbench.webapp.page_files import FILES, PLACE, SAVED, VIEWS, file_type, inline_hash, page_file
from shiftbench.webapp.studio import Action, Answer, Content, Query, Studio, request

LOG = logging.getLogger(__name__)
MODULES: tuple[Any, ...] = (
    home_view, collection_view, item_view, graph_view, design_view, runs_view, compare_view, failures_view)
"""Each has ANSWERS, and may have ACTIONS: names in the URL and what they do."""
ANSWERS: dict[str, Answer] = {name: answer for view in MODULES for name, answer in view.ANSWERS.items()}
ACTIONS: dict[str, Action] = {name: act for view in MODULES for name, act in getattr(view, "ACTIONS", {}).items()}
LARGEST = 1 << 20
"""Bytes of the largest request that an action takes."""


def application(studio: Studio, token: str) -> Starlette:
    """The web app. Only its scripts are public; every answer needs the token."""

    async def index(asked: Request) -> Response:
        return _response(page_file("index.html"), "text/html; charset=utf-8")

    async def file(asked: Request) -> Response:
        name = asked.path_params["name"]
        if name not in FILES:
            return _problem(404, "There is no such file.")
        return _response(page_file(name), file_type(name))

    async def answer(asked: Request) -> Response:
        if not _knows(asked, token):
            return _problem(403, "The token is missing or wrong. Open the address that `shiftbench studio` printed.")
        state = {name: value for name, value in asked.query_params.items() if name != "token"}
        view = ANSWERS.get(asked.path_params["name"])
        if view is None:
            return _problem(404, "There is no such view.")
        return await _answered(lambda: view(studio, Query(state)))

    async def act(asked: Request) -> Response:
        if not _knows(asked, token):
            return _problem(403, "The token is missing or wrong. Open the address that `shiftbench studio` printed.")
        action = ACTIONS.get(asked.path_params["name"])
        if action is None:
            return _problem(404, "There is no such action.")
        try:
            length = int(asked.headers.get("content-length", ""))
        except ValueError:
            length = LARGEST + 1
        if length > LARGEST:
            return _problem(413, "The request is too large.")
        try:
            facts = msgspec.json.decode(await asked.body(), type=dict[str, Any])
        except msgspec.DecodeError:
            return _problem(400, "The request is not JSON.")
        return await _answered(lambda: action(studio, facts))

    return Starlette(routes=[
        Route("/", index), Route("/page/{name:path}", file), Route("/api/{name}", answer),
        Route("/api/{name}", act, methods=["POST"]),
    ])


async def _answered(work: Callable[[], Mapping[str, Any] | Content]) -> Response:
    """Do the work in a thread; an error that the user can correct becomes one sentence."""
    try:
        result = await run_in_threadpool(work)
    except ShiftBenchError as problem:
        return _problem(400, str(problem))
    except FileNotFoundError as problem:
        return _problem(404, f"{printable(str(problem.filename))} is gone. Reload when it is back.")
    except Exception as problem:  # the page must report any error
        LOG.exception("a view failed")
        return _problem(500, f"The studio failed here ({type(problem).__name__}: {first_line(problem)}).")
    if isinstance(result, Content):
        return _response(result.body, result.type, result.changes)
    return _response(msgspec.json.encode(result), "application/json")


def _knows(asked: Request, token: str) -> bool:
    return hmac.compare_digest(asked.query_params.get("token", "").encode(), token.encode())


def _problem(status: int, message: str) -> Response:
    return _response(msgspec.json.encode({"error": message}), "application/json", status=status)


def _response(body: bytes, type: str, changes: bool = True, status: int = 200) -> Response:
    return Response(body, status, headers={
        "Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "no-store" if changes else "private, max-age=3600",
    }, media_type=type)


def _policy() -> str:
    """Scripts, pictures and requests from this server alone; the page's one inline script is allowed by its hash."""
    index = page_file("index.html").decode()
    start = index.index('<script type="importmap">') + len('<script type="importmap">')
    script = inline_hash(index[start:index.index("</script>", start)])
    return (f"default-src 'none'; script-src 'self' {script}; style-src 'self' 'unsafe-inline'; "
            "img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'")


POLICY = _policy()


# A view's answers without a server: a single one, or all that its page asks for, in one HTML file

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
