"""What a query is told when something goes away under it: its savepoint, or the service."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from catalog import Catalog
from catalog.catalog import Root
from service.base.settings import Settings
from service.doors.app import create_app
from tests.support.paths import DATA
from tests.support.waiting import PATIENCE_S, wait_until

FLINK = DATA / "flink" / "2.3.0"
NATIVE = FLINK / "everything-rocksdb-savepoints" / "native"
WORDCOUNT = FLINK / "wordcount-rocksdb-savepoints" / "native"
SLOW = "SELECT count(*) FROM range(3000000000)"
ENDLESS = "SELECT count(*) FROM range(1000000000000)"

Serving = Callable[[FastAPI], AbstractContextManager[str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Savepoints: those that are kept, and one for each test that removes it or something of it."""
    path = tmp_path_factory.mktemp("savepoints")
    for name in ("gone", "gone_while_open", "incomplete", "whole"):
        shutil.copytree(NATIVE, path / name)
    shutil.copytree(WORDCOUNT, path / "kept")
    return path


@pytest.fixture(scope="module")
def http(folder: Path, serving: Serving) -> Iterator[httpx.Client]:
    app = create_app(Settings.of(workers=1), Catalog([Root(path=str(folder), label="f")]))
    with serving(app) as address, httpx.Client(base_url=address, timeout=60) as client:
        yield client


def ask(http: httpx.Client, sql: str) -> tuple[int, Any]:
    response = http.post("/api/query", json={"sql": sql})
    return response.status_code, response.json()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "is_open"), [("gone", False), ("gone_while_open", True)], ids=["not open", "open"]
)
def test_a_savepoint_that_flink_removes_is_gone_and_others_are_not(
    name: str, is_open: bool, folder: Path, http: httpx.Client
) -> None:
    count = f'SELECT count(*) FROM {name}."kinds__map"'
    if is_open:
        assert ask(http, count)[1]["rows"] == [[18]]
    http.get(f"/api/databases/{name}/tables/kinds__map").raise_for_status()
    shutil.rmtree(folder / name)

    status, answer = ask(http, count)
    _, joined = ask(http, f"SELECT count(*), ({count}) FROM kept.aggregate")
    kept = ask(http, "SELECT count(*) FROM kept.aggregate")

    for found, rows in ((answer, [[18]]), (joined, [[1000, 18]])):
        if is_open and "rows" in found:  # what a worker has open is there as a whole
            assert found["rows"] == rows
        else:
            assert found["error"]["code"] == "SAVEPOINT_GONE"
            assert found["error"]["message"] == f'savepoint "f__{name}" was removed while the query ran'
    assert is_open or status == 410
    assert (kept[0], kept[1]["rows"]) == (200, [[1000]])


@pytest.mark.slow
def test_a_file_that_is_missing_from_a_savepoint_that_is_there_is_missing(
    folder: Path, http: httpx.Client
) -> None:
    http.get("/api/databases/incomplete/tables/kinds__map").raise_for_status()
    for file in (folder / "incomplete").iterdir():
        if file.name != "_metadata":
            file.unlink()

    status, answer = ask(http, 'SELECT * FROM incomplete."kinds__map"')

    assert (status, answer["error"]["code"]) == (410, "MISSING_FILE")


def test_an_answer_says_which_checkpoint_it_came_from(http: httpx.Client) -> None:
    _, answer = ask(http, "SELECT count(*) FROM kept.aggregate, whole.kinds__map")

    assert [(one["name"], one["checkpoint_id"]) for one in answer["databases"]] == [
        (f"f__{name}", http.get(f"/api/databases/{name}").json()["checkpoint_id"])
        for name in ("kept", "whole")
    ]


def test_a_service_is_ready_when_a_worker_is(http: httpx.Client) -> None:
    wait_until(lambda: http.get("/readyz").status_code == 200)

    assert http.get("/readyz").json() == {"status": "ok"}


@contextmanager
def served(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server of its own, and its address, ready."""
    command = [sys.executable, "-m", "service.cli", "serve", "--root", str(WORDCOUNT), "--port", "0"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        [*command, *arguments], stderr=subprocess.PIPE, text=True, env=environment
    ) as running:
        assert running.stderr is not None
        told = running.stderr.readline()
        address = next(word for word in told.split() if word.startswith("http://")).rstrip("/")
        try:
            wait_until(lambda: is_ready(address))
            yield running, address
        finally:
            running.kill()


def is_ready(address: str) -> bool:
    try:
        return httpx.get(f"{address}/readyz", timeout=60).status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.slow
def test_a_service_that_is_told_to_stop_ends_what_runs_and_takes_no_more() -> None:
    # What runs takes a second, and a minute on a busy machine, as it yields to everything else.
    limits = ("--timeout-s", "300", "--drain-s", "300")
    with served(*limits) as (running, address), ThreadPoolExecutor(1) as threads:
        slow = threads.submit(httpx.post, f"{address}/api/query", json={"sql": SLOW}, timeout=300)
        wait_until(lambda: bool(httpx.get(f"{address}/api/queries", timeout=60).json()["queries"]))
        running.send_signal(signal.SIGTERM)
        wait_until(lambda: httpx.get(f"{address}/readyz", timeout=60).status_code == 503)
        refused = httpx.post(f"{address}/api/query", json={"sql": "SELECT 1"}, timeout=60)

        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "SERVICE_ENDING")
        assert int(refused.headers["retry-after"]) > 0
        assert httpx.get(f"{address}/healthz", timeout=60).status_code == 200
        assert slow.result().json()["rows"] == [[3_000_000_000]]
        assert running.wait(PATIENCE_S) in (0, -signal.SIGTERM)


@pytest.mark.slow
def test_a_query_that_takes_longer_than_the_service_waits_is_told_so() -> None:
    with served("--drain-s", "0.5") as (running, address), ThreadPoolExecutor(1) as threads:
        endless = threads.submit(httpx.post, f"{address}/api/query", json={"sql": ENDLESS}, timeout=60)
        wait_until(lambda: bool(httpx.get(f"{address}/api/queries", timeout=60).json()["queries"]))
        running.send_signal(signal.SIGTERM)

        assert (endless.result().status_code, endless.result().json()["error"]["code"]) == (
            503,
            "SERVICE_ENDING",
        )
        assert running.wait(PATIENCE_S) in (0, -signal.SIGTERM)
