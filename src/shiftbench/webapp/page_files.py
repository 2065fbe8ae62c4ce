"""The files of the page, and the origin of each third-party script."""

import base64
import hashlib
import json
from functools import cache
from importlib import resources
from typing import NamedTuple

from shiftbench.reporting.charts import css

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
VIEWS = ("home", "collection", "graph", "design", "runs", "compare", "failures")
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
