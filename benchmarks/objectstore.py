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
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import catalog
from benchmarks.countingstore import serving, taken, url_of
from tools.synthetic.rocksdb import write_native_savepoint
from tools.synthetic.savepoints import write_savepoint

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
    parser.add_argument("--ask", help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
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
            with serving(Path(served), arguments.latency_ms) as address:
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
        url = url_of(f"savepoint-{number}", address)
        # What a lookup leaves behind serves the next ones of its process, whichever key they want.
        for question in (*_QUESTIONS, *(one + _AGAIN for one in _TABLES)):
            inside, whole, counted = _measured(url, question, address, runs)
            requests, waits, fetched = min(counted)
            print(
                f"| {path.parent.name}/{path.name} | {size / 1e9:.2f} GB | {question} | {_spread(inside)} | {_spread(whole)} "
                f"| {requests} | {waits} | {fetched / 1e6:.2f} MB |",
                flush=True,
            )


def _measured(
    url: str, question: str, address: str, runs: int
) -> tuple[list[float], list[float], list[tuple[int, int, int]]]:
    """Return for each run: seconds in process, seconds of the whole process, and the requests of the former."""
    inside, whole, counted = [], [], []
    for _ in range(runs):
        taken(address)
        inside.append(float(_run("-m", "benchmarks.objectstore", "--ask", question, "--url", url)))
        counted.append(taken(address))
        if question in _QUESTIONS:
            started = time.perf_counter()
            _run("-m", "service.cli", "query", _QUESTIONS[question], "--savepoint", url)
            whole.append(time.perf_counter() - started)
    return inside, whole, counted


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
        taken(parse_qs(urlsplit(url).query)["endpoint"][0])
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


def _write_many_key_groups(directory: Path, keys: int) -> int:
    return write_savepoint(directory, keys, max_parallelism=1024)


_WRITERS: dict[str, Callable[[Path, int], int]] = {
    "canonical": write_savepoint,
    "canonical-1024": _write_many_key_groups,
    "native": write_native_savepoint,
}

if __name__ == "__main__":
    sys.exit(main())
