"""A server that answers as real Flink has answered: `tests/data/flink-rest`, recorded by `tests/flink/cluster/record.py`."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.paths import DATA

RECORDED = DATA / "flink-rest"
VERSIONS = ("1.20.3", "2.3.0")

# Writes the whole answer, the status line included.
Hostile = Callable[["_Handler"], None]


class RecordedFlink:
    """A REST API with the answers of a version of Flink.

    Attributes:
        url: where it listens.
        job_id: the recorded job.
        answers: request → status and body, or what writes the answer.
        requests: what was asked for, in order: method, path, headers in small letters, and body.
    """

    def __init__(self, version: str) -> None:
        self.recorded = {
            path.stem: json.loads(path.read_text()) for path in sorted((RECORDED / version).glob("*.json"))
        }
        self.job_id: str = self.recorded["jobs-overview"]["body"]["jobs"][0]["jid"]
        self.answers: dict[str, tuple[int, Any] | Hostile] = {}
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        for name in ("config", "overview", "jobs-overview", "plan", "checkpoints", "savepoint-unknown"):
            self.answer(name)
        self.url = ""

    def answer(self, name: str, change: Callable[[Any], None] | None = None) -> None:
        """Answer from now on as Flink did in the recording of this name, but for a change."""
        recorded = json.loads(json.dumps(self.recorded[name]))
        if change is not None:
            change(recorded["body"])
        self.answers[recorded["request"]] = recorded["status"], recorded["body"]

    def request_of(self, name: str) -> str:
        """Return method and path of a recording."""
        request: str = self.recorded[name]["request"]
        return request

    def set(self, request: str, answer: tuple[int, Any] | Hostile) -> None:
        """Answer a request otherwise from now on."""
        self.answers[request] = answer


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    flink: RecordedFlink

    def do_GET(self) -> None:
        length = int(self.headers.get("content-length", 0))
        body = self.rfile.read(length) if length else b""
        headers = {name.casefold(): value for name, value in self.headers.items()}
        self.flink.requests.append((self.command, self.path, headers, body))
        missing = 404, {"errors": ["Not found."]}
        answer = self.flink.answers.get(f"{self.command} {self.path}", missing)
        self.close_connection = True
        with suppress(OSError):
            if callable(answer):
                answer(self)
            else:
                self.send(answer[0], json.dumps(answer[1]).encode())

    do_POST = do_GET

    def send(self, status: int, body: bytes, **headers: str) -> None:
        """Send an answer."""
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, *_: Any) -> None:
        """Say nothing: clients that are refused, and those that give up, are part of the tests."""


@contextmanager
def recorded_flink(version: str, tls: ssl.SSLContext | None = None) -> Iterator[RecordedFlink]:
    """Serve the answers of a version, over TLS if it is given."""
    flink = RecordedFlink(version)
    handler = type("Handler", (_Handler,), {"flink": flink})
    with _Server(("127.0.0.1", 0), handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        flink.url = f"http{'s' if tls else ''}://127.0.0.1:{server.server_address[1]}"
        try:
            yield flink
        finally:
            server.shutdown()
