"""A studio starts on this machine alone, says its address, and stops."""

import json
import re
import signal
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest

import shiftbench as sb
from shiftbench.core.errors import ShiftBenchError
from shiftbench.webapp.launch import start
from tests.webapp.conftest import Person, serving


def test_a_studio_in_python_serves_until_it_is_stopped(world):
    """`.url` answers, a notebook shows it in a frame, and after `.stop()` nobody listens."""
    running = sb.studio(world)
    answer = json.loads(urlopen(running.url.replace("/?", "/api/home?")).read())  # noqa: S310 - our own server
    assert len(answer["things"]) == 6
    assert running.url in running._repr_html_().replace("&amp;", "&")
    assert f"-L {running.port}:127.0.0.1:{running.port} " in running.tunnel
    running.stop()
    with pytest.raises(URLError):
        urlopen(running.url)  # noqa: S310


def test_each_studio_has_a_token_of_its_own(world):
    """Two studios of one folder listen at two ports, and the token of one does not open the other."""
    with start([world]) as one, start([world]) as other:
        assert one.port != other.port
        with pytest.raises(HTTPError, match="403"):
            urlopen(f"http://127.0.0.1:{one.port}/api/home?token={other.token}")


@pytest.mark.parametrize(("words", "says"), [
    ({"host": "0.0.0.0"}, "Choose a token"),  # noqa: S104
    ({"host": "no-such-host.invalid", "token": "t"}, "cannot listen there"),
    ({"folders": ["no-such-folder"]}, "is no folder"),
])
def test_what_cannot_be_served_is_one_sentence(world, words, says):
    """Other machines are let in only with a token; an address that is not there, and no folder, are named."""
    with pytest.raises(ShiftBenchError, match=says):
        start(**{"folders": [world], **words})


def test_a_port_that_is_taken_is_named(world):
    """The second studio at one port says so, and what to do."""
    with start([world]) as running, pytest.raises(ShiftBenchError, match=rf"--port {running.port}: cannot listen"):
        start([world], port=running.port)


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("at_once", [True, False])
def test_the_command_prints_its_address_and_stops_when_told(world, end, at_once):
    """The first line is the address alone, the next has the ssh line. Ctrl-C and SIGTERM end it without a trace, also
    when they come as soon as the address is there.
    """
    process = subprocess.Popen([sys.executable, "-m", "shiftbench", "studio", str(world)], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    url = process.stdout.readline().strip()
    if at_once:
        process.send_signal(end)
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{20,}", url)
    assert re.search(r"ssh -N -L (\d+):127\.0\.0\.1:\1 ", process.stdout.readline())
    if not at_once:
        assert urlopen(url).status == 200  # noqa: S310
        process.send_signal(end)
    _, errors = process.communicate(timeout=300)
    assert (process.returncode, errors) == (0, "")


class Proxy(BaseHTTPRequestHandler):
    """A proxy as hubs have it: /user/me/proxy/… goes to the studio, with the prefix taken away."""

    prefix, target = "/user/me/proxy", ""

    def do_GET(self):
        if not self.path.startswith(f"{self.prefix}/"):
            self.send_error(404)
            return
        try:
            answer = urlopen(self.target + self.path.removeprefix(f"{self.prefix}/"))  # noqa: S310
        except HTTPError as problem:
            answer = problem
        body = answer.read()
        self.send_response(answer.status)
        for name in ("Content-Type", "Content-Security-Policy"):
            self.send_header(name, answer.headers[name])
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


@pytest.mark.slow
def test_it_works_behind_a_prefix(browser, studio):
    """Every URL of the page is relative: behind a proxy's prefix are all things, pictures, views and files."""
    handler = type("Here", (Proxy,), {"target": studio.root})
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), handler)) as port:
        behind = type("Behind", (), {"root": f"http://127.0.0.1:{port}{Proxy.prefix}/"})
        behind.url = studio.url.replace(studio.root, behind.root)
        person = Person(browser, behind)
        page = person.open()
        page.get_by_role("link", name="collections/scenes").click()
        page.wait_for_function("() => document.querySelector('.long-wall .tile img')?.naturalWidth > 0")
        page.get_by_role("link", name="Meta-graph").click()
        page.locator(".disc").first.wait_for()
        page.get_by_text("Save", exact=True).click()
        with page.expect_download() as kept:
            page.get_by_role("button", name="This view as one HTML file").click()
        assert '"#":"#graph' in kept.value.path().read_text()
        person.close()
    assert all(url.startswith((behind.root, "data:")) for url in person.asked)
