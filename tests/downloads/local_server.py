"""A server on this machine that misbehaves as it is told: each answer to a path is the next of its list."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread


@dataclass(frozen=True)
class Answer:
    """What a request gets. `sent` bytes of the body are sent before the connection is cut, or with `hold` kept open
    until the server ends; `length` is what Content-Length says, None the truth; `ranges` and `conditional` say whether
    Range and If-Range are honoured."""

    body: bytes = b""
    status: int = 200
    etag: str = ""
    sent: int | None = None
    length: int | None = None
    ranges: bool = True
    conditional: bool = True
    kind: str = "application/octet-stream"
    location: str = ""
    hold: bool = False

@dataclass
class Server:
    """The answers by path, the last one of a list again and again, and the requests as they came."""

    answers: dict[str, list[Answer]] = field(default_factory=dict)
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    port: int = 0
    ended: Event = field(default_factory=Event)

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def put(self, path: str, *answers: Answer) -> str:
        self.answers[path] = list(answers)
        return self.url(path)

    def next(self, path: str) -> Answer:
        answers = self.answers.get(path, [Answer(status=404)])
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def ranges(self) -> list[str]:
        return [headers.get("Range", "") for _, headers in self.requests]

def handler(server: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.requests.append((self.path, dict(self.headers)))
            answer = server.next(self.path)
            body, status, start = answer.body, answer.status, 0
            wanted = self.headers.get("Range", "")
            same = not answer.conditional or self.headers.get("If-Range", answer.etag) == answer.etag
            if status == 200 and wanted and answer.ranges and same:
                start = int(wanted.removeprefix("bytes=").rstrip("-"))
                status = 206 if start < len(body) else 416
            self.send_response(status)
            if status == 206:
                self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
            if answer.etag:
                self.send_header("ETag", answer.etag)
            if answer.location:
                self.send_header("Location", answer.location)
            rest = b"" if status == 416 else body[start:]
            self.send_header("Content-Type", answer.kind)
            self.send_header("Content-Length", str(len(rest) if answer.length is None else answer.length))
            self.end_headers()
            self.wfile.write(rest if answer.sent is None else rest[:answer.sent])
            if answer.hold:
                self.wfile.flush()
                server.ended.wait()
            self.close_connection = True

        def log_message(self, *words: object) -> None:
            pass

    return Handler

@contextmanager
def serving() -> Iterator[Server]:
    server = Server()
    service = ThreadingHTTPServer(("127.0.0.1", 0), handler(server))
    server.port = service.server_address[1]
    thread = Thread(target=service.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.ended.set()
        service.shutdown()
        service.server_close()
        thread.join()
