"""The studio's server: pages, answers and pictures, behind a token, on this machine alone by default; or in a file."""

import base64
import hashlib
import hmac
import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from shiftbench.core.errors import ShiftBenchError, first_line, printable, unknown
from shiftbench.reporting.charts import css
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
from shiftbench.webapp.studio import VIEWS, Action, Answer, Content, Query, Studio, request

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


# The files of the page, and the origin of each third-party script

PLACE = '{"answers": "here"}'
"""The placeholder for a view's answers in the inlined page."""
TYPES = {"html": "text/html; charset=utf-8", "js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8"}


class Vendored(NamedTuple):
    """A third-party script, as it was published."""

    file: str
    package: str
    version: str
    source: str  # its path in the npm package
    licence: str
    sha256: str


VENDORED = (
    Vendored("vendor/preact.js", "htm", "3.1.1", "preact/standalone.module.js", "Apache-2.0, holds preact: MIT",
             "72284e8e9079c87817145df1110f74e8a2aa040b2fc384922e18dfcb46fc1fd7"),
    Vendored("vendor/d3.min.js", "d3", "7.9.2", "dist/d3.min.js", "ISC",
             "912111098ea99503a6f4967361d2bbdc9dbf58cf9c678c8e27e5b02d1a07f0c1"),
    Vendored("vendor/plot.min.js", "@observablehq/plot", "0.6.17", "dist/plot.umd.min.js", "ISC",
             "4358086467740777dd788d6b27a95cebdbaefdd50c730a3060117073bd7134cb"),
)
OWN = ("app.js", "address.js", "answers.js", "parts.js", "items.js", "recipes.js", "saving.js", "studio.css",
       *(f"{view}.js" for view in VIEWS))
SAVED = "saved.html"
"""The page with all of its scripts inside, to which the answers of a view are added."""
FILES = ("index.html", SAVED, "palette.css", *OWN, *(script.file for script in VENDORED))
"""Every name that a URL may ask for."""


@cache
def page_file(name: str) -> bytes:
    """One file of the page. The palette is that of the report."""
    if name == "palette.css":
        return css().encode()
    if name == SAVED:
        return _inlined().encode()
    return (resources.files("shiftbench.webapp") / "page" / name).read_bytes()


def file_type(name: str) -> str:
    return TYPES[name.rsplit(".", 1)[1]]


def inline_hash(script: str) -> str:
    """How a content security policy names an inline script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _inlined() -> str:
    """The page as one file. Its modules are data: URLs of an import map, with the contents that the server serves."""
    modules = {"preact": "vendor/preact.js"} | {f"studio/{name}": name for name in OWN if name.endswith(".js")}
    urls = {name: f"data:text/javascript;base64,{base64.b64encode(page_file(file)).decode()}"
            for name, file in modules.items()}
    scripts = [page_file(f"vendor/{name}.min.js").decode().replace("</script", "<\\/script") for name in ("d3", "plot")]
    scripts += ['import "studio/app.js";', json.dumps({"imports": urls})]
    policy = ("default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; "
              f"form-action 'none'; script-src data: {' '.join(inline_hash(script) for script in scripts)}")
    styles = "".join(f"<style>{page_file(name).decode()}</style>\n" for name in ("palette.css", "studio.css"))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>shiftbench studio</title>
<link rel="icon" href="data:,">
{styles}<script type="importmap">{scripts[3]}</script>
<script>{scripts[0]}</script>
<script>{scripts[1]}</script>
</head>
<body>
<div id="studio"><p class="wait">Loading …</p></div>
<noscript>This page needs JavaScript.</noscript>
<script type="application/json" id="answers">{PLACE}</script>
<script type="module">{scripts[2]}</script>
</body>
</html>
"""


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
