"""One file over HTTP: resumed where it stopped, from whichever address answers, and checked before it gets its name.

What has arrived lies in NAME.part; NAME.part.json says which address it came from and how the server names that version
of the file (ETag or Last-Modified). A part is continued only if both ends are sure to belong together: the server
confirms the version, or the finished file will be checked against a published checksum or an archive's own. Proxies
come from the environment (https_proxy, http_proxy, no_proxy), as in urllib.
"""

import hashlib
import http.client
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from email.message import Message
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    UnknownHandler,
)

from shiftbench.core.errors import Advance, Say, ShiftBenchError, first_line
from shiftbench.core.files import read_json, write_json
from shiftbench.downloads.data_sets import File

BLOCK = 1 << 20
START = 1 << 10
"""Bytes that tell a web page from a file."""
TIMEOUT = 60.0
ATTEMPTS = 5
"""Rounds over the addresses without progress before a file is given up."""
PAUSE = 1.0
"""Seconds after the first such round; each further pause is twice as long."""
PASSING = {408, 425, 429}
"""Status codes below 500 that may change a little later."""
PAGE = re.compile(rb"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)?<(?:!doctype html|html)\b", re.IGNORECASE | re.DOTALL)
NOTES: Mapping[str, Any] = {"url": str, "version": str, "total": int | None, "resumed": bool}
"""What NAME.part.json says, and the types."""
RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")


class Interrupted(Exception):
    """The transfer did not finish; the same address may do better next time."""


class Useless(Exception):
    """This address does not have the file."""


def transfer(
    file: File, target: Path, urls: Sequence[str], progress: Advance, say: Say,
    wait: Callable[[float], None],
) -> str:
    """Fetch a file to `target` from the first address that has it; returns that address."""
    part, opener = _part(target), _opener()
    remaining, problems = list(urls), dict.fromkeys(urls, "was not tried")
    longest, fruitless = _length(part), 0
    while remaining and fruitless < ATTEMPTS:
        for url in tuple(remaining):
            try:
                _receive(opener, file, part, url, progress)
                _accept(file, part)
            except Useless as problem:
                remaining.remove(url)
                problems[url] = str(problem)
            except (Interrupted, OSError, http.client.HTTPException) as problem:
                problems[url] = first_line(problem) if str(problem) else type(problem).__name__
            else:
                part.replace(target)
                _forget(part)
                return url
            say(f"{url}: {problems[url]}.")
        fruitless = 0 if _length(part) > longest else fruitless + 1
        longest = max(longest, _length(part))
        if remaining and fruitless < ATTEMPTS:
            wait(PAUSE * 2 ** max(0, fruitless - 1))
    resumable = f" {_length(part):,} bytes are kept; run the command again to go on." if part.exists() else ""
    attempts = "; ".join(f"{url}: {problem}" for url, problem in problems.items())
    raise ShiftBenchError(f"{file.path}: no address has it. {attempts}.{resumable}")


def difference(file: File, path: Path) -> str:
    """How a file differs from its published size and checksum; empty if it does not."""
    size = path.stat().st_size
    if file.exact and file.size is not None and size != file.size:
        return f"has {size:,} bytes where {file.size:,} are published"
    if file.checksum is not None and digest(path, file.checksum.algorithm) != file.checksum.value:
        return f"does not have the {file.checksum.algorithm} checksum that {file.checksum.by} publishes"
    return ""


def digest(path: Path, algorithm: str = "sha256") -> str:
    """The checksum of a file; `git` is the id that git gives its content."""
    with path.open("rb") as handle:
        if algorithm != "git":
            return hashlib.file_digest(handle, lambda: hashlib.new(algorithm, usedforsecurity=False)).hexdigest()
        sha1 = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
        while block := handle.read(BLOCK):
            sha1.update(block)
        return sha1.hexdigest()


def received(target: Path) -> tuple[int, int | None] | None:
    """How much of a file has arrived and how much the server offered; None where nothing has."""
    part = _part(target)
    return (_length(part), _notes(part).get("total")) if part.exists() else None


def _opener() -> OpenerDirector:
    """Opens http and https, through the proxies of the environment, and nothing else."""
    opener = OpenerDirector()
    for handler in (ProxyHandler(), HTTPHandler(), HTTPSHandler(), HTTPDefaultErrorHandler(), HTTPErrorProcessor(),
                    _StayEncrypted(), UnknownHandler()):
        opener.add_handler(handler)
    return opener


class _StayEncrypted(HTTPRedirectHandler):
    """Follows redirections, but not from https to anything else."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: http.client.HTTPMessage, newurl: str
    ) -> Request | None:
        if urlsplit(req.full_url).scheme == "https" and urlsplit(newurl).scheme != "https":
            raise Useless(f"leads on to {urlsplit(newurl).scheme}://{urlsplit(newurl).netloc}, without encryption")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _receive(opener: OpenerDirector, file: File, part: Path, url: str, progress: Advance) -> None:
    """Bring the part to its full length, from where it stands if it may be continued."""
    notes = _notes(part)
    offset = _length(part) if _may_continue(file, notes, url) else 0
    headers = {"User-Agent": "shiftbench", "Accept-Encoding": "identity"}
    if offset:
        headers["Range"] = f"bytes={offset}-"
        if notes["url"] == url and notes["version"]:
            headers["If-Range"] = notes["version"]
    try:
        response = opener.open(Request(url, headers=headers), timeout=TIMEOUT)  # noqa: S310 - only http and https
    except HTTPError as problem:
        problem.close()
        if problem.code == 416 and offset and notes.get("total") == offset:
            return
        if problem.code == 416:
            _discard(part)
        if problem.code == 416 or problem.code in PASSING or problem.code >= 500:
            raise Interrupted(f"answers {problem.code}") from problem
        raise Useless(f"answers {problem.code}") from problem
    with response:
        version = _version(response.headers)
        offset, total = _extent(response, part, offset, notes, version, url)
        _check_offer(file, response.headers, total)
        _write(file, part, response, offset, total, progress, {
            "url": url, "version": version, "total": total, "resumed": bool(offset)})


def _extent(
    response: Any, part: Path, offset: int, notes: dict[str, Any], version: str, url: str
) -> tuple[int, int | None]:
    """Where the answer begins and how long the whole file is. A part that does not belong to it is discarded."""
    if response.status != 206:
        length = response.headers.get("Content-Length", "")
        return 0, int(length) if length.isdigit() else None
    match = RANGE.fullmatch(response.headers.get("Content-Range", "").strip())
    total = int(match[3]) if match and match[3] != "*" else None
    fits = match is not None and int(match[1]) == offset and total == notes["total"]
    if not fits or (notes["url"] == url and version != notes["version"]):
        _discard(part)
        raise Interrupted("the file changed between two parts, so it is fetched from its beginning")
    return offset, total


def _check_offer(file: File, headers: Message, total: int | None) -> None:
    if file.exact and file.size is not None and total is not None and total != file.size:
        raise Useless(f"offers {total:,} bytes where {file.size:,} are published")
    if headers.get_content_type() == "text/html" and not file.path.endswith((".html", ".htm")):
        raise Useless("answers with a web page instead of the file: a login, a quota or an error")


def _write(
    file: File, part: Path, response: Any, offset: int, total: int | None, progress: Advance, notes: dict[str, Any]
) -> None:
    expected = total or file.size or 0
    block = response.read(START)
    if not offset and PAGE.match(block) and not file.path.endswith((".html", ".htm")):
        raise Useless("answers with a web page instead of the file: a login, a quota or an error")
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        write_json(_notes_path(part), notes)
        handle = part.open("r+b" if offset else "wb")
    except OSError as problem:
        raise ShiftBenchError(f"{part}: cannot be written ({problem.strerror}).") from problem
    with handle:
        handle.seek(offset)
        handle.truncate()
        while block:
            try:
                handle.write(block)
                handle.flush()  # a killed process leaves the bytes that have arrived
            except OSError as problem:
                raise ShiftBenchError(f"{part}: cannot be written ({problem.strerror}).") from problem
            offset += len(block)
            progress(offset, max(expected, offset))
            block = response.read1(BLOCK)
        os.fsync(handle.fileno())
    if total is not None and offset < total:
        raise Interrupted(f"broke off at {offset:,} of {total:,} bytes")


def _accept(file: File, part: Path) -> None:
    """Check the whole file against what is published. If it differs, discard it: a file put together from parts is
    fetched once more, otherwise this address is given up."""
    problem = difference(file, part)
    if not problem:
        return
    resumed = _notes(part).get("resumed")
    _discard(part)
    if resumed:
        raise Interrupted(f"{problem}, so it is fetched from its beginning")
    raise Useless(problem)


def _may_continue(file: File, notes: dict[str, Any], url: str) -> bool:
    if not notes:
        return False
    checked = file.checksum is not None
    return checked or (notes["url"] == url and bool(notes["version"] or file.unpack is not None))


def _version(headers: Message) -> str:
    """How the server names this version of the file: a strong ETag, else the time of its last change."""
    etag = str(headers.get("ETag", ""))
    return etag if etag and not etag.startswith("W/") else str(headers.get("Last-Modified", ""))


def _part(target: Path) -> Path:
    return target.with_name(f"{target.name}.part")


def _notes_path(part: Path) -> Path:
    return part.with_name(f"{part.name}.json")


def _notes(part: Path) -> dict[str, Any]:
    """The notes about a part; empty if the part or its notes are missing or not ours."""
    if not part.is_file() or not _notes_path(part).is_file():
        return {}
    with suppress(ShiftBenchError):
        notes = read_json(_notes_path(part))
        if isinstance(notes, dict) and all(isinstance(notes.get(key, ...), kind) for key, kind in NOTES.items()):
            return notes
    return {}


def _forget(part: Path) -> None:
    _notes_path(part).unlink(missing_ok=True)


def _discard(part: Path) -> None:
    part.unlink(missing_ok=True)
    _forget(part)


def _length(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0
