"""Serves a folder of savepoints, asks it the first three questions, and goes on serving.

`make run` calls this. It starts `savepointdb serve`, waits for `GET /healthz`, sends each question to
`POST /api/query` and prints the rows. Only the standard library is used: any HTTP client can do the same.
"""

from __future__ import annotations

import argparse
import http.client
import json
import signal
import socket
import subprocess
import sys
import sysconfig
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

HOST = "127.0.0.1"
START_TIMEOUT_S = 60
QUERY_TIMEOUT_S = 120
CELL_WIDTH = 44


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question and its SQL; `columns` are shown, all if empty."""

    title: str
    sql: str
    columns: tuple[str, ...] = ()


QUESTIONS = (
    Question(
        title="Which states are in the savepoint?",
        sql="SELECT * FROM StateMeta",
        columns=("operator_uid", "operator_name", "state_name", "state_kind", "key_type", "value_type"),
    ),
    Question(
        title="Up to where had the source read?",
        sql='SELECT value.f0 AS topic, value.f1 AS "partition", value.f2 AS "offset"\n'
        'FROM "source__topic-partition-offset-states"\n'
        "ORDER BY 1, 2",
    ),
    Question(
        title="What was the count of one key?",
        sql="SELECT value FROM aggregate WHERE key = 'key_662'",
    ),
)


def main() -> int:
    """Serve, ask, and wait for Ctrl-C, or stop after the answers with `--once`."""
    options = parse_arguments()
    # `docker stop` and process managers send SIGTERM, which ends Python without cleaning up.
    signal.signal(signal.SIGTERM, stop)
    port = free_port(options.port)
    url = f"http://{HOST}:{port}"
    with serving(options.root, port) as server:
        wait_until_healthy(url, server)
        for question in QUESTIONS:
            show(question, query(url, question.sql))
        if options.once:
            return 0
        print(f"\nsavepointdb serves {options.root} at {url} (Ctrl-C stops it). Ask it yourself:\n")
        print(f"  curl {url}/api/query -H 'content-type: application/json' -d '{curl_body()}'\n", flush=True)
        try:
            return server.wait()
        except KeyboardInterrupt:
            return 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--root", required=True, help="folder of savepoints to serve")
    parser.add_argument("--port", type=int, default=8080, help="0 takes any free port")
    parser.add_argument("--once", action="store_true", help="stop after the answers")
    return parser.parse_args()


def stop(_signal: int, _frame: object) -> NoReturn:
    """Leave through the `finally` blocks on SIGTERM: the service must not outlive this script."""
    sys.exit(0)


def free_port(port: int) -> int:
    """Return `port`, or any free one for 0; this check's message is clearer than a trace."""
    with socket.socket() as probe:
        # As servers do: else a port that was in use a minute ago would count as taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            sys.exit(
                f"Port {port} of {HOST} cannot be used ({error.strerror}). Take another: make run PORT=8081"
            )
        return int(probe.getsockname()[1])


@contextmanager
def serving(root: str, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run `savepointdb serve` while the block lasts."""
    if "://" not in root and not Path(root).is_dir():
        sys.exit(f"There is no folder {root} to serve. Name one: make run ROOT=/path/to/savepoints")
    command = [f"{sysconfig.get_path('scripts')}/savepointdb", "serve", "--root", root]
    # The program of the same environment, also if another one stands first in PATH.
    server = subprocess.Popen([*command, "--host", HOST, "--port", str(port)])
    try:
        yield server
    finally:
        server.terminate()
        try:
            server.wait(timeout=10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def wait_until_healthy(url: str, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        if server.poll() is not None:
            sys.exit(
                f"savepointdb stopped while starting (exit code {server.returncode}); its message is above."
            )
        try:
            with urllib.request.urlopen(f"{url}/healthz", timeout=5):
                return
        except (OSError, http.client.HTTPException):
            time.sleep(0.1)
    sys.exit(f"savepointdb did not answer {url}/healthz within {START_TIMEOUT_S} s.")


def query(url: str, sql: str) -> dict[str, Any]:
    body = json.dumps({"sql": sql}).encode()
    request = urllib.request.Request(f"{url}/api/query", body, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=QUERY_TIMEOUT_S) as response:
            answer: dict[str, Any] = json.load(response)
    except urllib.error.HTTPError as error:
        sys.exit(f"\n{sql}\nwas refused with status {error.code}: {error.read().decode(errors='replace')}")
    return answer


def show(question: Question, answer: dict[str, Any]) -> None:
    names = [column["name"] for column in answer["columns"]]
    shown = [names.index(name) for name in question.columns if name in names] or range(len(names))
    print(f"\n{question.title}\n")
    print("\n".join(f"  {line}" for line in question.sql.splitlines()) + "\n")
    print_table([names[i] for i in shown], [[row[i] for i in shown] for row in answer["rows"]])
    rows = "1 row" if answer["row_count"] == 1 else f"{answer['row_count']} rows"
    print(
        f"\n  {rows}, {answer['elapsed_ms']:.0f} ms on {answer['engine']}: {answer['engine_reason']}",
        flush=True,
    )


def print_table(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    lines = [names, *[[cell(value) for value in row] for row in rows]]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["─" * width for width in widths])
    numeric = [all(isinstance(row[i], int | float) for row in rows) for i in range(len(names))]
    for line in lines:
        cells = zip(line, widths, numeric, strict=True)
        print("  " + "  ".join(t.rjust(w) if right else t.ljust(w) for t, w, right in cells).rstrip())


def cell(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= CELL_WIDTH else text[: CELL_WIDTH - 1] + "…"


def curl_body() -> str:
    return json.dumps({"sql": "SELECT key, value FROM aggregate ORDER BY value DESC LIMIT 5"})


if __name__ == "__main__":
    sys.exit(main())
