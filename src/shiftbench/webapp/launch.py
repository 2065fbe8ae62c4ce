"""A running studio: it listens on this machine, prints its address, and serves until it is stopped."""

import getpass
import html
import secrets
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Any

from shiftbench.core.errors import ShiftBenchError
from shiftbench.webapp.shelf import Shelf
from shiftbench.webapp.studio import Content, Studio

HEIGHT = 760
"""Pixels of the frame in a notebook."""
EVERYWHERE = ("", "0.0.0.0", "::")  # noqa: S104 - what a user may ask for, with a token


class Running:
    """A studio that serves in a thread. A notebook shows it in a frame; `stop` ends it."""

    def __init__(self, studio: Studio, host: str, port: int, token: str) -> None:
        with _installed():
            import uvicorn

            from shiftbench.webapp.collection_view import warm
            from shiftbench.webapp.server import application
        if not token and not _is_loopback(host):
            raise ShiftBenchError(f"--host {host} lets other machines in. Choose a token for them with --token, or "
                                  "leave --host out and reach the studio through ssh.")
        self.host, self.token = host, token or secrets.token_urlsafe(16)
        self._socket = _bound(host, port)
        self.port = int(self._socket.getsockname()[1])
        config = uvicorn.Config(application(studio, self.token), log_level="warning", lifespan="off", access_log=False)
        self._server = uvicorn.Server(config)
        self._server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
        self._thread = Thread(target=self._server.run, args=([self._socket],), daemon=True)
        self._thread.start()
        Thread(target=warm, args=(studio,), daemon=True).start()  # while the browser opens

    @property
    def url(self) -> str:
        """The address to open, with the token."""
        name = "127.0.0.1" if self.host in EVERYWHERE else self.host
        return f"http://{f'[{name}]' if ':' in name else name}:{self.port}/?token={self.token}"

    @property
    def tunnel(self) -> str:
        """The command that makes the address work on another machine."""
        user = "USER"
        with suppress(OSError, KeyError, ImportError):
            user = getpass.getuser()
        inner = "127.0.0.1" if self.host in EVERYWHERE else self.host
        return f"ssh -N -L {self.port}:{inner}:{self.port} {user}@{socket.gethostname()}"

    def wait(self, signals: Sequence[int] = ()) -> None:
        """Serve until Ctrl-C, or until a signal handler has added a signal to the list."""
        with suppress(KeyboardInterrupt):
            while self._thread.is_alive() and not signals:
                self._thread.join(0.2)
        self.stop()

    def stop(self) -> None:
        """Stop serving, and free the port."""
        self._server.should_exit = True
        self._thread.join(10)
        if not self._thread.is_alive():  # one that is still answering closes the port when it is done
            self._socket.close()

    def __enter__(self) -> "Running":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"studio at {self.url} (stop it with .stop(); elsewhere: {self.tunnel})"

    def _repr_html_(self) -> str:
        return _frame(f'src="{html.escape(self.url)}"')


class Page(str):
    """A view as one HTML file, which a notebook shows without a server."""

    def _repr_html_(self) -> str:
        return _frame(f'srcdoc="{html.escape(self)}"')

    def save(self, path: Path | str) -> Path:
        """Write the file."""
        from shiftbench.core.files import write_text

        return write_text(path, self)


def start(
    folders: Sequence[Path | str], *, host: str = "127.0.0.1", port: int = 0, token: str = "", edit: bool = False
) -> Running:
    """Serve the things below some folders. Without `token` a random one is made, which is allowed on loopback only."""
    return Running(Studio(Shelf(folders), edit=edit), host, port, token)


def page(folders: Sequence[Path | str], view: str) -> Page:
    """One view of the things below some folders, with its answers and without a server."""
    with _installed():
        from shiftbench.webapp.server import saved_page

    return Page(saved_page(Studio(Shelf(folders)), view))


def answer(folders: Sequence[Path | str], request: str) -> Mapping[str, Any]:
    """The answer of a view about the things below some folders: answer(["demo"], "cross?on=…&a=class&b=light").

    It counts as a look, as on the page.
    """
    with _installed():
        from shiftbench.webapp.server import answer_to

    facts = answer_to(Studio(Shelf(folders)), request)
    if isinstance(facts, Content):
        raise ShiftBenchError(f"'{request.partition('?')[0]}' gives a picture or columns of numbers, which are not "
                              "printed.")
    return facts


@contextmanager
def _installed() -> Iterator[None]:
    """Explain how to install what the server needs, if it is missing."""
    try:
        yield
    except ModuleNotFoundError as problem:
        if problem.name not in ("uvicorn", "starlette"):
            raise
        raise ShiftBenchError('The studio needs starlette and uvicorn, which are not installed. Install them with: '
                              'pip install "shiftbench[studio]"') from problem


def _frame(source: str) -> str:
    return (f'<iframe title="shiftbench studio" width="100%" height="{HEIGHT}" style="border: 1px solid #ccc" {source}>'
            "</iframe>")


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _bound(host: str, port: int) -> Any:
    """A socket that listens at the address, bound before the address is printed."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(128)  # early connections wait for the server
    except (OSError, OverflowError) as problem:  # the second: no such port number
        why = getattr(problem, "strerror", None) or problem
        raise ShiftBenchError(f"--host {host} --port {port}: cannot listen there ({why}). Choose another port, or 0 "
                              "for a free one.") from problem
    return listening
