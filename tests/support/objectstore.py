"""An object store for tests: moto's S3 in this process, and a proxy before it that counts, delays and spoils answers."""

from __future__ import annotations

import hashlib
import http.client
import logging
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import accumulate
from pathlib import Path
from typing import Any

import boto3
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends
from moto.server import ThreadedMotoServer

BUCKET = "bucket"
_PATIENCE_S = 60.0
KEY_VARIABLES = {"MOTO_ACCESS_KEY_ID": "AKIATESTTESTTESTTEST", "MOTO_SECRET_ACCESS_KEY": "very-secret-secret"}


@dataclass(frozen=True, slots=True)
class Request:
    """One request that the proxy saw, the bytes of the body that it sent back, those of the request's, and whose it was."""

    method: str
    key: str
    byte_range: str
    size_bytes: int
    sent_bytes: int = 0
    query: str = ""
    copied: str = ""
    client: str = ""


Spoil = Callable[["_Handler", int, list[tuple[str, str]], bytes], None]


@dataclass
class Fault:
    """Spoils the answers to some requests.

    Attributes:
        spoil: what is sent in place of the answer.
        method: of the requests; several with spaces between.
        key: is part of their path and query.
        times: so many of them; then they are answered again.
        after: so many are answered first.
        is_lost: True if the store never gets the request.
    """

    spoil: Spoil
    method: str = "GET"
    key: str = ""
    times: int = 1 << 30
    after: int = 0
    met: int = 0
    is_lost: bool = False

    def fits(self, method: str, path: str) -> bool:
        """Whether this request is to be spoiled; counts it."""
        if method not in self.method.split() or self.key not in path:
            return False
        self.met += 1
        return self.after < self.met <= self.after + self.times


class Rounds:
    """Lets requests through in rounds: none of a round is answered before all of it have come.

    So a client that sends one only after the answer to another of the same round waits for `_PATIENCE_S`, and has `failed`;
    one that gets through has waited so many times, however fast or slow it is.

    Args:
        sizes: how many requests there are in each.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        self._ends = list(accumulate(sizes))
        self._come = 0
        self._changed = threading.Condition()
        self.failed = False

    @property
    def left(self) -> int:
        """How many requests have not come."""
        return self._ends[-1] - self._come

    def wait(self) -> None:
        """Of a request: until the others of its round have come."""
        with self._changed:
            end = next((end for end in self._ends if self._come < end), None)
            self._come += 1
            self._changed.notify_all()
            whole = end is not None and self._changed.wait_for(
                lambda: self.failed or self._come >= end, _PATIENCE_S
            )
            if not whole:
                self.failed = True
                self._changed.notify_all()


@dataclass
class Proxy:
    """Stands between client and store."""

    store: tuple[str, int]
    latency_s: float = 0.0
    faults: list[Fault] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    address: tuple[str, int] = ("", 0)
    rounds: Rounds | None = None

    @property
    def options(self) -> str:
        """What to put behind a URL."""
        host, port = self.address
        patience = "connect_timeout=60&request_timeout=120"
        return f"?endpoint=http://{host}:{port}&region=us-east-1&credentials=MOTO&{patience}"

    def url(self, path: str) -> str:
        """The URL of a place in the bucket."""
        return f"s3://{BUCKET}/{path}{self.options}"

    def taken(self) -> list[Request]:
        """The requests since the last call."""
        with self.lock:
            found, self.requests = self.requests, []
        return found


@dataclass(frozen=True)
class ObjectStore:
    """The store itself."""

    address: tuple[str, int]
    client: Any

    def put(self, key: str, content: bytes) -> None:
        """An object."""
        s3_backends[DEFAULT_ACCOUNT_ID]["aws"].put_object(BUCKET, key, content)

    def modify(self, key: str, modified_s: int) -> None:
        """An object was modified at this time, in seconds since 1970."""
        found = s3_backends[DEFAULT_ACCOUNT_ID]["aws"].get_object(BUCKET, key)
        assert found is not None
        found.last_modified = datetime.fromtimestamp(modified_s, UTC).replace(tzinfo=None)

    def contents(self, prefix: str) -> dict[str, str]:
        """The hash of every object whose key begins so, by its key."""
        bucket = s3_backends[DEFAULT_ACCOUNT_ID]["aws"].get_bucket(BUCKET)
        found = [(key, bucket.keys[key].value) for key in sorted(bucket.keys) if key.startswith(prefix)]
        return {key: hashlib.sha256(value).hexdigest() for key, value in found}

    @property
    def uploads(self) -> list[str]:
        """The keys of uploads that were begun and not ended."""
        answer = self.client.list_multipart_uploads(Bucket=BUCKET)
        return [upload["Key"] for upload in answer.get("Uploads", ())]

    def delete(self, key: str) -> None:
        """An object goes."""
        self.client.delete_object(Bucket=BUCKET, Key=key)

    def upload(self, folder: Path, prefix: str) -> str:
        """All files of a folder; the prefix."""
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                self.put(f"{prefix}/{file.relative_to(folder).as_posix()}", file.read_bytes())
        return prefix

    @contextmanager
    def proxy(self, host: str = "127.0.0.1") -> Iterator[Proxy]:
        """A proxy before it, for a while, at an address of this machine."""
        found = Proxy(store=self.address)
        server = _Server(host)
        server.proxy = found
        found.address = server.server_address[:2]  # type: ignore[assignment]  # of an IPv4 server
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            server.server_close()
            server.hang_up()
            thread.join()


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    """A store with one bucket."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        client = boto3.client(
            "s3",
            endpoint_url=f"http://{host}:{port}",
            region_name="us-east-1",
            aws_access_key_id="a",
            aws_secret_access_key="b",
        )
        client.create_bucket(Bucket=BUCKET)
        yield ObjectStore((host, port), client)
        client.close()
    finally:
        server.stop()


class _Server(ThreadingHTTPServer):
    proxy: Proxy
    daemon_threads = True

    def __init__(self, host: str) -> None:
        super().__init__((host, 0), _Handler)
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._connections.discard(request)
        super().shutdown_request(request)

    def hang_up(self) -> None:
        """Close what clients keep open for their next request: a test process has only so many files."""
        with self._lock:
            for connection in self._connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that hang up are what some tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        """Not told."""

    def _forward(self) -> None:
        proxy = self.server.proxy
        time.sleep(proxy.latency_s)
        if proxy.rounds is not None:
            proxy.rounds.wait()
        with proxy.lock:
            fault = next((one for one in proxy.faults if one.fits(self.command, self.path)), None)
        sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if fault is not None and fault.is_lost:
            fault.spoil(self, 0, [], b"")
            return
        connection = http.client.HTTPConnection(*proxy.store)
        try:
            connection.request(self.command, self.path, sent or None, headers=dict(self.headers.items()))
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
        hidden = {"connection", "transfer-encoding", "date", "server"}
        headers = [(name, value) for name, value in answer.getheaders() if name.lower() not in hidden]
        path, _, query = self.path.partition("?")
        key = path.removeprefix(f"/{BUCKET}").removeprefix("/")
        request = Request(
            method=self.command,
            key=key,
            byte_range=self.headers.get("Range", ""),
            size_bytes=len(body),
            sent_bytes=len(sent),
            query=query,
            copied=self.headers.get("x-amz-copy-source", ""),
            client=self.client_address[0],
        )
        with proxy.lock:
            proxy.requests.append(request)
        if fault is None:
            self.answer(answer.status, headers, body)
        else:
            fault.spoil(self, answer.status, headers, body)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _forward

    def answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        """Send it as it is."""
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        if not any(name.lower() == "content-length" for name, _ in headers):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
            self.wfile.flush()


def status(code: int, name: str = "", message: str = "it says no") -> Spoil:
    """An error of S3; a HEAD has no body."""

    def spoil(handler: _Handler, *_: object) -> None:
        error = f'<?xml version="1.0"?><Error><Code>{name}</Code><Message>{message}</Message></Error>'
        body = error.encode() if name else b""
        handler.answer(code, [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))], body)

    return spoil


def cut_short(handler: _Handler, code: int, headers: list[tuple[str, str]], body: bytes) -> None:
    """The connection is closed in the middle of the body."""
    handler.send_response(code)
    for name, value in headers:
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body[: len(body) // 2])
    handler.wfile.flush()
    handler.close_connection = True


def wrong_length(handler: _Handler, code: int, headers: list[tuple[str, str]], body: bytes) -> None:
    """A whole answer, with half of the bytes that were asked for."""
    half = body[: len(body) // 2]
    others = [
        (name, value) for name, value in headers if name.lower() not in {"content-length", "content-range"}
    ]
    handler.answer(code, [*others, ("Content-Length", str(len(half)))], half)


def reset(handler: _Handler, *_: object) -> None:
    """The connection is reset."""
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.close_connection = True
    handler.rfile.close()
    handler.wfile.close()
    handler.connection.close()


def hang(handler: _Handler, *_: object) -> None:
    """Nothing comes, for longer than the client waits."""
    time.sleep(2.5)
    handler.close_connection = True
