"""The studio's server: pages, answers and pictures, behind a token, on this machine alone by default."""

import hmac
import logging
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from shiftbench.core.errors import ShiftBenchError, first_line, printable
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
from shiftbench.webapp.page_files import FILES, file_type, inline_hash, page_file
from shiftbench.webapp.studio import Action, Answer, Content, Query, Studio

LOG = logging.getLogger(__name__)
VIEWS: tuple[Any, ...] = (
    home_view, collection_view, item_view, graph_view, design_view, runs_view, compare_view, failures_view)
"""Each has ANSWERS, and may have ACTIONS: names in the URL and what they do."""
ANSWERS: dict[str, Answer] = {name: answer for view in VIEWS for name, answer in view.ANSWERS.items()}
ACTIONS: dict[str, Action] = {name: action for view in VIEWS for name, action in getattr(view, "ACTIONS", {}).items()}
LARGEST = 1 << 20
"""Bytes of the largest request that an action takes."""


def application(studio: Studio, token: str) -> Starlette:
    """The web app. Only its scripts are public; every answer needs the token."""

    async def index(request: Request) -> Response:
        return _response(page_file("index.html"), "text/html; charset=utf-8")

    async def file(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in FILES:
            return _problem(404, "There is no such file.")
        return _response(page_file(name), file_type(name))

    async def answer(request: Request) -> Response:
        if not _knows(request, token):
            return _problem(403, "The token is missing or wrong. Open the address that `shiftbench studio` printed.")
        state = {name: value for name, value in request.query_params.items() if name != "token"}
        view = ANSWERS.get(request.path_params["name"])
        if view is None:
            return _problem(404, "There is no such view.")
        return await _answered(lambda: view(studio, Query(state)))

    async def act(request: Request) -> Response:
        if not _knows(request, token):
            return _problem(403, "The token is missing or wrong. Open the address that `shiftbench studio` printed.")
        action = ACTIONS.get(request.path_params["name"])
        if action is None:
            return _problem(404, "There is no such action.")
        try:
            length = int(request.headers.get("content-length", ""))
        except ValueError:
            length = LARGEST + 1
        if length > LARGEST:
            return _problem(413, "The request is too large.")
        try:
            facts = msgspec.json.decode(await request.body(), type=dict[str, Any])
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


def _knows(request: Request, token: str) -> bool:
    return hmac.compare_digest(request.query_params.get("token", "").encode(), token.encode())


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
