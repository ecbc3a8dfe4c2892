"""An object store on this machine that counts: HEAD, ranged GET and ListObjectsV2, all that S3 clients need to read.

Each answer is some milliseconds late. The process that measures stays small: nothing of ours is imported here.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import escape

_Served = tuple[float, float, int]
_STATISTICS = "/statistics"


def url_of(bucket: str, address: str) -> str:
    """Return the URL of a folder that is served."""
    return f"s3://{bucket}?endpoint={address}&region=us-east-1&anonymous=true"


@contextmanager
def serving(directory: Path, latency_ms: float = 0.0) -> Iterator[str]:
    """Run the server in a process of its own; yield its address."""
    command = [sys.executable, "-m", "benchmarks.countingstore", str(directory), str(latency_ms)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


def taken(address: str) -> tuple[int, int, int]:
    """Return requests, how many of them came one after the other, and bytes since the last call."""
    with urllib.request.urlopen(address + _STATISTICS) as answer:
        served = [(end, start, fetched) for start, end, fetched in json.load(answer)]
    waits, free = 0, 0.0
    for end, start, _ in sorted(served):
        if start >= free:
            waits, free = waits + 1, end
    return len(served), waits, sum(fetched for *_, fetched in served)


def main(directory: Path, latency_ms: float) -> None:
    """Serve until the process is ended, and print the address."""
    server = ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(_Handler, directory.resolve(), latency_ms / 1000, [])
    )
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()


class _Handler(BaseHTTPRequestHandler):
    """The folders of a directory as buckets."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def __init__(self, directory: Path, latency_s: float, counted: list[_Served], *arguments: object) -> None:
        self._directory = directory
        self._latency_s = latency_s
        self._counted = counted
        super().__init__(*arguments)  # type: ignore[arg-type]  # as the server gives them

    def log_message(self, *_: object) -> None:
        """Log nothing."""

    def do_HEAD(self) -> None:
        """Send the length and the age of an object."""
        self._get()

    def do_GET(self) -> None:
        """Send an object, a range of it, a listing, or the counts."""
        if self.path == _STATISTICS:
            body = json.dumps(self._counted).encode()
            self._counted.clear()
            self._send(200, {}, body)
            return
        self._get()

    def _get(self) -> None:
        self._started = time.monotonic()
        time.sleep(self._latency_s)
        parts = urlsplit(self.path)
        query = parse_qs(parts.query)
        path = self._directory / parts.path.strip("/")
        if "list-type" in query:
            self._list(path, query.get("prefix", [""])[0])
        elif not path.is_file():
            self._count(0)
            self._send(404, {}, b"")
        else:
            self._object(path)

    def _object(self, path: Path) -> None:
        size = path.stat().st_size
        wanted = self.headers.get("Range")
        start, end = 0, size
        headers = {"Last-Modified": "Sat, 01 Jan 2000 00:00:00 GMT", "ETag": '"1"', "Accept-Ranges": "bytes"}
        if wanted:
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            start, end = int(first), min(int(last) + 1, size)
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
        if self.command == "HEAD":
            self._count(0)
            self._send(200, headers | {"Content-Length": str(size)}, b"")
            return
        with path.open("rb") as file:
            file.seek(start)
            self._count(end - start)
            self._send(206 if wanted else 200, headers, file.read(end - start))

    def _list(self, bucket: Path, prefix: str) -> None:
        found = sorted(file.name for file in bucket.iterdir() if file.name.startswith(prefix))
        keys = "".join(
            f"<Contents><Key>{escape(name)}</Key><Size>{(bucket / name).stat().st_size}</Size></Contents>"
            for name in found
        )
        body = f"<ListBucketResult><IsTruncated>false</IsTruncated>{keys}</ListBucketResult>".encode()
        self._count(len(body))
        self._send(200, {"Content-Type": "application/xml"}, body)

    def _count(self, fetched: int) -> None:
        self._counted.append((self._started, time.monotonic(), fetched))

    def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(body))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
