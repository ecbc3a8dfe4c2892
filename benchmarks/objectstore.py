"""`python -m benchmarks.objectstore` (`make bench-storage`): small questions about a savepoint of a gigabyte in an object store.

A server on this machine answers HEAD, ranged GET and ListObjectsV2, all that S3 clients need, each some milliseconds late. The
report has for each savepoint: the time of the first question of a process that has loaded the readers (`in process`), the time
of `savepointdb query` from start to end (`whole process`), and for the former the requests, how many of them came one
after the other (`waits`), and bytes. Every measurement is a process of its own; only the page cache of the server stays warm.

| layout | |
|---|---|
| canonical | 128 key groups, Flink's default for a job of up to 85 subtasks |
| canonical-1024 | 1024 key groups |
| native | RocksDB's files, of 128 key groups |

Other savepoints with the states of `tools.synthetic.savepoints`, such as those of `benchmarks.peers`, which Flink writes, are given
by their paths.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import escape

import catalog
from tools.synthetic.rocksdb import write_native_savepoint
from tools.synthetic.savepoints import write_savepoint

_Served = tuple[float, float, int]
_STATISTICS = "/statistics"
_QUESTIONS = {
    "StateMeta": 'SELECT * FROM "StateMeta"',
    "one key": "SELECT value FROM aggregate__count WHERE key = 'key_662'",
    "one key, MAP": "SELECT value FROM aggregate__perDay WHERE key = 'key_662'",
}
_TABLES = {"one key": "aggregate__count", "one key, MAP": "aggregate__perDay"}
_AGAIN = ", again"


def main() -> int:
    """Write the savepoints if need be, serve them, ask the questions, print the report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.objectstore", description=__doc__)
    parser.add_argument(
        "--keys", type=int, default=10_000_000, help="keys of a savepoint (default: 10000000)"
    )
    parser.add_argument("--latency-ms", type=float, default=50.0, help="delay of every request (default: 50)")
    parser.add_argument(
        "--directory", type=Path, help="a folder to keep them in for the next run (default: none)"
    )
    parser.add_argument(
        "--layouts", nargs="*", choices=sorted(_WRITERS), default=list(_WRITERS), help="(default: all)"
    )
    parser.add_argument("--runs", type=int, default=5, help="runs of every question (default: 5)")
    parser.add_argument(
        "--savepoint", action="append", type=Path, default=[], help="another savepoint to measure"
    )
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--ask", help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        return _serve(arguments.directory, arguments.latency_ms / 1000)
    if arguments.ask:
        print(json.dumps(_ask(arguments.ask, arguments.url)), flush=True)
        # Arrow's threads sometimes abort a process that ends: apache/arrow#34314.
        os._exit(0)
    directory = arguments.directory or Path(tempfile.mkdtemp(prefix="savepointdb-bench-"))
    try:
        savepoints = [_written(directory, layout, arguments.keys) for layout in arguments.layouts]
        savepoints += [path.resolve() for path in arguments.savepoint]
        with tempfile.TemporaryDirectory() as served:
            for number, path in enumerate(savepoints):
                Path(served, f"savepoint-{number}").symlink_to(path)
            with _serving(Path(served), arguments.latency_ms) as address:
                _report(savepoints, address, arguments.latency_ms, arguments.runs)
    finally:
        if arguments.directory is None:
            shutil.rmtree(directory)
    return 0


def _written(directory: Path, layout: str, keys: int) -> Path:
    """Return the path of a savepoint of a layout; writes it if it does not exist."""
    path = directory.resolve() / f"{layout}-{keys}"
    if not path.exists():
        _WRITERS[layout](path, keys)
    return path


def _report(savepoints: list[Path], address: str, latency_ms: float, runs: int) -> None:
    print(
        f"{latency_ms:g} ms a request; {os.cpu_count()} cores, {platform.machine()}, "
        f"Python {platform.python_version()}; median of {runs} runs (fastest – slowest)\n"
    )
    print("| savepoint | size | question | in process | whole process | requests | waits | fetched |")
    print("|---|---|---|---|---|---|---|---|")
    for number, path in enumerate(savepoints):
        size = sum(file.stat().st_size for file in path.iterdir())
        url = f"s3://savepoint-{number}?endpoint={address}&region=us-east-1&anonymous=true"
        # What a lookup leaves behind serves the next ones of its process, whichever key they want.
        for question in (*_QUESTIONS, *(one + _AGAIN for one in _TABLES)):
            inside, whole, taken = _measured(url, question, address, runs)
            requests, waits, fetched = min(taken)
            print(
                f"| {path.parent.name}/{path.name} | {size / 1e9:.2f} GB | {question} | {_spread(inside)} | {_spread(whole)} "
                f"| {requests} | {waits} | {fetched / 1e6:.2f} MB |",
                flush=True,
            )


def _measured(
    url: str, question: str, address: str, runs: int
) -> tuple[list[float], list[float], list[tuple[int, int, int]]]:
    """Return for each run: seconds in process, seconds of the whole process, and the requests of the former."""
    inside, whole, taken = [], [], []
    for _ in range(runs):
        _taken(address)
        inside.append(float(_run("-m", "benchmarks.objectstore", "--ask", question, "--url", url)))
        taken.append(_taken(address))
        if question in _QUESTIONS:
            started = time.perf_counter()
            _run("-m", "service.cli", "query", _QUESTIONS[question], "--savepoint", url)
            whole.append(time.perf_counter() - started)
    return inside, whole, taken


def _spread(seconds: list[float]) -> str:
    if not seconds:
        return ""
    return f"{statistics.median(seconds):.2f} s ({min(seconds):.2f} – {max(seconds):.2f})"


def _run(*arguments: str) -> str:
    return subprocess.run([sys.executable, *arguments], check=True, capture_output=True, text=True).stdout


def _ask(question: str, url: str) -> float:
    """Return the seconds from the path to the rows."""
    started = time.perf_counter()
    connected = catalog.connect(url)
    if question.endswith(_AGAIN):
        table = connected.table(_TABLES[question.removesuffix(_AGAIN)])
        table.scan(columns=["value"], key="key_662").to_arrow()
        _taken(parse_qs(urlsplit(url).query)["endpoint"][0])
        started = time.perf_counter()
        rows = table.scan(columns=["value"], key="key_662").to_arrow()
    elif question == "StateMeta":
        rows = connected.table("StateMeta").scan().to_arrow()
    else:
        rows = connected.table(_TABLES[question]).scan(columns=["value"], key="key_662").to_arrow()
    seconds = time.perf_counter() - started
    if rows.num_rows == 0:
        raise SystemExit(f"expected rows of {question}, found none")
    return seconds


# --- the server ---


@contextmanager
def _serving(directory: Path, latency_ms: float) -> Iterator[str]:
    """Run the server in a process of its own; yield its address."""
    command = [sys.executable, "-m", "benchmarks.objectstore", "--serve"]
    command += ["--directory", str(directory), "--latency-ms", str(latency_ms)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


def _taken(address: str) -> tuple[int, int, int]:
    """Return requests, how many of them came one after the other, and bytes since the last call."""
    with urllib.request.urlopen(address + _STATISTICS) as answer:
        served = [(end, start, fetched) for start, end, fetched in json.load(answer)]
    waits, free = 0, 0.0
    for end, start, _ in sorted(served):
        if start >= free:
            waits, free = waits + 1, end
    return len(served), waits, sum(fetched for *_, fetched in served)


def _serve(directory: Path, latency_s: float) -> int:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, directory.resolve(), latency_s, []))
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()
    return 0


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


def _write_many_key_groups(directory: Path, keys: int) -> int:
    return write_savepoint(directory, keys, max_parallelism=1024)


_WRITERS: dict[str, Callable[[Path, int], int]] = {
    "canonical": write_savepoint,
    "canonical-1024": _write_many_key_groups,
    "native": write_native_savepoint,
}

if __name__ == "__main__":
    sys.exit(main())
