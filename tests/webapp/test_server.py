"""The server gives its scripts to anybody on this machine, and data only to who has the token."""

import hashlib
import json
from importlib import resources
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from shiftbench.webapp.server import FILES, VENDORED
from tests.webapp.conftest import TOKEN


def get(url):
    with urlopen(url) as response:  # noqa: S310 - a server of this test
        return response.status, dict(response.headers), response.read()


def test_the_first_page_lists_what_lies_in_the_folder(studio):
    """Every kind of thing is found, under the path that it has in the folder."""
    answer = json.loads(get(f"{studio.root}api/home?token={TOKEN}")[2])
    assert {(thing["kind"], thing["id"]) for thing in answer["things"]} == {
        ("collection", "collections/scenes"), ("benchmark", "benchmarks/minority"), ("runs", "runs"),
        ("scores", "scores.parquet"), ("audit", "audit.json"), ("recipe", "recipes/minority.toml")}


@pytest.mark.parametrize("token", ["", "?token=", "?token=wrong", f"?token={TOKEN}x"])
def test_no_answer_without_the_token(studio, token):
    """A request without the token, or with another, is refused."""
    with pytest.raises(HTTPError, match="403"):
        get(f"{studio.root}api/home{token}")


@pytest.mark.parametrize("path", ["page/../server.py", "page/%2e%2e/server.py", "page//etc/passwd", "page/vendor/",
                                  "page/index.html%00", "etc/passwd"])
def test_no_path_of_a_url_reaches_a_file(studio, path):
    """Only the page's own files are served, by their names."""
    with pytest.raises(HTTPError, match="404"):
        get(studio.root + path)


@pytest.mark.parametrize("name", FILES)
def test_every_file_of_the_page_is_served_with_the_policy(studio, name):
    """Each has its type, and a policy under which nothing but this server is asked."""
    status, headers, body = get(f"{studio.root}page/{name}")
    assert status == 200
    assert body
    assert "default-src 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("script", VENDORED, ids=lambda script: script.file)
def test_scripts_of_others_are_as_published(script):
    """Each has the digest of its table, and its licence lies beside it."""
    page = resources.files("shiftbench.webapp") / "page"
    assert hashlib.sha256((page / script.file).read_bytes()).hexdigest() == script.sha256
