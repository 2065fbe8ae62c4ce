"""A file arrives whole and as published, or not at all, whatever the server does."""

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from shiftbench.core.errors import ShiftBenchError
from shiftbench.downloads import transfer as module
from shiftbench.downloads.data_sets import Checksum, File
from shiftbench.downloads.transfer import difference, digest, received, transfer
from tests.downloads.local_server import Answer

BODY = bytes(range(256)) * 40
OTHER = bytes(reversed(range(256))) * 40
SHA256 = Checksum("sha256", hashlib.sha256(BODY).hexdigest(), "the test")
PUBLISHED = File("set/data.bin", (), len(BODY), SHA256)
UNKNOWN = File("set/data.bin", ())
"""Of which neither size nor checksum is published."""
ARCHIVE = File("set/data.zip", (), unpack="set")


class Fetch:
    """Calls of `transfer` to one folder, with what was said and how long it would have waited."""

    def __init__(self, folder):
        self.target = folder / "set" / "data.bin"
        self.target.parent.mkdir(parents=True)
        self.lines, self.pauses, self.steps = [], [], []

    def __call__(self, file, *urls):
        self.used = transfer(file, self.target, urls, lambda *step: self.steps.append(step), self.lines.append,
                             self.pauses.append)
        return self.target.read_bytes()

    def left(self):
        return sorted(path.name for path in self.target.parent.iterdir())


@pytest.fixture
def fetch(tmp_path):
    return Fetch(tmp_path)


def test_a_file_arrives(server, fetch):
    """The bytes are the server's, nothing else is left, and the progress ends at the whole."""
    assert fetch(PUBLISHED, server.put("/a", Answer(BODY))) == BODY
    assert fetch.left() == ["data.bin"]
    assert fetch.steps[-1] == (len(BODY), len(BODY))


def test_a_broken_transfer_goes_on_where_it_broke_off(server, fetch):
    """The second request asks for the rest of the same version only."""
    url = server.put("/a", Answer(BODY, etag='"1"', sent=4000), Answer(BODY, etag='"1"'))
    assert fetch(UNKNOWN, url) == BODY
    assert server.ranges() == ["", "bytes=4000-"]
    assert server.requests[1][1]["If-Range"] == '"1"'
    assert "broke off at 4,000 of 10,240 bytes" in fetch.lines[0]


def test_another_run_goes_on_too(server, fetch):
    """What a killed or failed run left is not fetched again."""
    url = server.put("/a", Answer(BODY, etag='"1"', sent=4000), *[Answer(status=503)] * 5)
    with pytest.raises(ShiftBenchError, match=r"503.*4,000 bytes are kept; run the command again"):
        fetch(UNKNOWN, url)
    assert received(fetch.target) == (4000, len(BODY))
    server.put("/a", Answer(BODY, etag='"1"'))
    assert fetch(UNKNOWN, url) == BODY
    assert server.ranges()[-1] == "bytes=4000-"


def test_a_killed_process_leaves_what_has_arrived(server, fetch):
    """SIGKILL in the middle of a file: the next run asks for the rest alone."""
    url = server.put("/a", Answer(BODY, etag='"1"', sent=5000, hold=True), Answer(BODY, etag='"1"'))
    script = ("import sys, time; from pathlib import Path; from shiftbench.downloads.transfer import transfer; "
              "from shiftbench.downloads.data_sets import File; "
              "transfer(File('set/data.bin', ()), Path(sys.argv[1]), [sys.argv[2]], lambda done, total: print(done, "
              "flush=True), print, time.sleep)")
    with subprocess.Popen([sys.executable, "-c", script, str(fetch.target), url], stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "no_proxy": "*"}) as process:
        while int(process.stdout.readline()) < 5000:
            pass
        process.kill()
    assert received(fetch.target) == (5000, len(BODY))
    assert fetch(UNKNOWN, url) == BODY
    assert server.ranges() == ["", "bytes=5000-"]


@pytest.mark.parametrize("odd", [{"total": "10240"}, {"url": 3}, {"version": [1]}, {"resumed": None}])
def test_notes_that_were_changed_are_not_believed(server, fetch, odd):
    """A part whose notes hold another type is fetched from its beginning, and can be asked about."""
    url = server.put("/a", Answer(BODY, etag='"1"'))
    part = fetch.target.with_name("data.bin.part")
    part.write_bytes(BODY[:4000])
    notes = {"url": url, "version": '"1"', "total": len(BODY), "resumed": False} | odd
    part.with_name("data.bin.part.json").write_text(json.dumps(notes))
    assert received(fetch.target) == (4000, None)
    assert fetch(UNKNOWN, url) == BODY
    assert server.ranges() == [""]


def test_a_server_without_ranges_starts_over(server, fetch):
    """A whole answer to a request for the rest replaces what was there."""
    url = server.put("/a", Answer(BODY, etag='"1"', sent=4000), Answer(BODY, etag='"1"', ranges=False))
    assert fetch(UNKNOWN, url) == BODY


def test_a_file_that_changed_is_not_stitched(server, fetch):
    """A new ETag brings the new file from its beginning, also where the server ignores If-Range."""
    for conditional in (True, False):
        new = Answer(OTHER, etag='"2"', conditional=conditional)
        assert fetch(UNKNOWN, server.put("/a", Answer(BODY, etag='"1"', sent=4000), new)) == OTHER


def test_a_part_without_a_version_goes_on_only_where_the_end_is_checked(server, fetch):
    """Without ETag and date a plain file starts over; an archive and a file with a checksum go on."""
    for file, expected in ((UNKNOWN, ""), (ARCHIVE, "bytes=4000-"), (PUBLISHED, "bytes=4000-")):
        server.requests.clear()
        assert fetch(file, server.put("/a", Answer(BODY, sent=4000), Answer(BODY))) == BODY
        assert server.ranges() == ["", expected]


def test_a_stitched_file_with_a_wrong_checksum_starts_over(server, fetch):
    """Two halves of two files of one length are noticed by the checksum, thrown away, and fetched as one."""
    url = server.put("/a", Answer(OTHER, sent=4000), Answer(BODY), Answer(BODY))
    assert fetch(PUBLISHED, url) == BODY
    assert server.ranges() == ["", "bytes=4000-", ""]
    assert any("fetched from its beginning" in line for line in fetch.lines)


def test_the_wrong_file_is_refused_and_the_mirror_asked(server, fetch):
    """A file with another checksum never gets its name; the next address is tried, this one not again."""
    wrong, right = server.put("/wrong", Answer(OTHER)), server.put("/right", Answer(BODY))
    assert fetch(PUBLISHED, wrong, right) == BODY
    assert fetch.used == right
    fetch.target.unlink()
    with pytest.raises(ShiftBenchError, match="sha256 checksum that the test publishes"):
        fetch(PUBLISHED, wrong)
    assert fetch.left() == []
    assert [path for path, _ in server.requests].count("/wrong") == 2


def test_a_size_that_is_not_the_published_one_is_refused_before_it_is_fetched(server, fetch):
    """The offer alone is enough, larger or smaller; sizes that are only about right do not count."""
    for body in (BODY + b"more", BODY[:-1]):
        with pytest.raises(ShiftBenchError, match=f"offers {len(body):,} bytes where 10,240 are published"):
            fetch(replace(PUBLISHED, checksum=None), server.put("/a", Answer(body)))
        assert fetch.left() == []
    assert fetch(File("set/data.bin", (), 9_000, exact=False), server.put("/a", Answer(BODY))) == BODY


def test_lies_about_the_length_are_noticed(server, fetch):
    """Content-Length above what comes is a broken transfer; below it, the checksum tells."""
    with pytest.raises(ShiftBenchError, match="broke off at 10,240 of 20,000 bytes"):
        fetch(UNKNOWN, server.put("/long", Answer(BODY, length=20_000, ranges=False)))
    fetch.target.with_name("data.bin.part").unlink()
    with pytest.raises(ShiftBenchError, match="checksum"):
        fetch(replace(PUBLISHED, size=None), server.put("/short", Answer(BODY, length=100)))
    assert not fetch.target.exists()


@pytest.mark.parametrize("page", [
    Answer(b"<!DOCTYPE html><html>log in</html>"), Answer(b"\n <HTML><body>quota</body>"),
    Answer(b"please log in", kind="text/html; charset=utf-8"), Answer(b"<!-- x --><html>", kind="application/zip")])
def test_a_web_page_is_not_taken_for_the_file(server, fetch, page):
    """A login page is refused by its type or its first bytes, also where nothing is published of the file."""
    with pytest.raises(ShiftBenchError, match="web page instead of the file"):
        fetch(UNKNOWN, server.put("/a", page))
    assert fetch.left() == []
    assert len(server.requests) == 1


def test_a_missing_file_is_asked_for_once_and_a_failing_server_again(server, fetch):
    """404 rules an address out; 500 does not; the pauses grow, and a mirror is asked before any pause."""
    gone, ill = server.put("/gone", Answer(status=404)), server.put("/ill", *[Answer(status=500)] * 3, Answer(BODY))
    assert fetch(PUBLISHED, gone, ill) == BODY
    assert [path for path, _ in server.requests] == ["/gone", "/ill", "/ill", "/ill", "/ill"]
    assert fetch.pauses == [1.0, 2.0, 4.0]


def test_attempts_end(server, fetch):
    """A server that never gets well is given up, in one line that names each address with its answer."""
    first, second = server.put("/a", Answer(status=500)), server.put("/b", Answer(status=404))
    with pytest.raises(ShiftBenchError) as problem:
        fetch(PUBLISHED, first, second)
    assert f"{first}: answers 500; {second}: answers 404" in str(problem.value)
    assert [path for path, _ in server.requests].count("/a") == module.ATTEMPTS


def test_a_slow_but_steady_server_is_not_given_up(server, fetch):
    """As long as every attempt brings something, there is another."""
    server.put("/a", *[Answer(BODY, etag='"1"', sent=512)] * 19, Answer(BODY, etag='"1"'))
    assert fetch(UNKNOWN, server.url("/a")) == BODY


def test_no_connection_is_one_line(server, fetch):
    """A port that nobody listens on is told like any other address that fails."""
    with pytest.raises(ShiftBenchError, match="no address has it"):
        fetch(PUBLISHED, "http://127.0.0.1:9/nothing")


def test_a_proxy_of_the_environment_is_used(server, fetch, monkeypatch):
    """The request for a host that does not exist reaches the proxy, with the whole address."""
    monkeypatch.setenv("http_proxy", server.url(""))
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    server.put("http://data.invalid/a", Answer(BODY))
    assert fetch(PUBLISHED, "http://data.invalid/a") == BODY


def test_redirections_are_followed_but_not_out_of_encryption(server, fetch):
    """A moved file is found; a step from https to http is refused; file: is never opened."""
    server.put("/new", Answer(BODY))
    assert fetch(PUBLISHED, server.put("/old", Answer(status=302, location=server.url("/new")))) == BODY
    with pytest.raises(module.Useless, match="without encryption"):
        module._StayEncrypted().redirect_request(
            module.Request("https://a.invalid/x"), None, 302, "", None, "http://a.invalid/x")
    fetch.target.unlink()
    with pytest.raises(ShiftBenchError, match="no address has it"):
        fetch(UNKNOWN, server.put("/old", Answer(status=302, location="file:///etc/hostname")))
    assert not fetch.target.exists()


def test_checksums_are_those_of_the_usual_tools(tmp_path):
    """md5 and sha256 are hashlib's, git's id is that of `git hash-object`."""
    path = tmp_path / "empty"
    path.write_bytes(b"")
    assert digest(path, "git") == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
    path.write_bytes(BODY)
    assert digest(path, "md5") == hashlib.new("md5", BODY, usedforsecurity=False).hexdigest()
    assert difference(PUBLISHED, path) == ""
    path.write_bytes(OTHER)
    assert "checksum" in difference(PUBLISHED, path)
