"""The first use on a machine, which compiles the decoder: what the commands say, and what the service answers meanwhile."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import httpx
import pytest

from catalog.kernels import COMPILED_UNITS
from readers.compiled.kernel import folders, kernels_of
from tests.support.paths import DATA
from tests.support.waiting import wait_until

NATIVE = DATA / "flink" / "2.3.0" / "wordcount-rocksdb-savepoints" / "native"
COUNT = "SELECT count(*) FROM aggregate"


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "service.cli", *arguments]


@pytest.fixture
def nothing_compiled(tmp_path: Path) -> dict[str, str]:
    """The environment of a machine on which nothing is compiled yet."""
    return os.environ | {"SAVEPOINTDB_CACHE_DIR": str(tmp_path / "cache")}


# Seconds to compile, and read by all commands here; and what only writers need.
_READ, _WRITTEN = "readers.formats.rocksdb.sst.merge", "writers.encode.machine.execute"


@pytest.fixture
def not_all_compiled(nothing_compiled: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """The environment of a machine on which two units are not compiled yet: all together take a minute."""
    kept = tmp_path / "cache" / "kernels"
    kept.mkdir(parents=True)
    for unit in COMPILED_UNITS:
        next(iter(kernels_of(unit).values())).load()
        if unit not in (_READ, _WRITTEN):
            for file in (found for folder in folders() for found in folder.glob(f"{unit}-*.bin")):
                shutil.copy(file, kept)
    return nothing_compiled


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [("lookup", str(NATIVE), "key_662", "--format", "csv"), ("query", COUNT, "--savepoint", str(NATIVE))],
    ids=lambda arguments: arguments[0],
)
def test_a_command_says_once_that_it_compiles_though_nobody_watches(
    not_all_compiled: dict[str, str], arguments: tuple[str, ...]
) -> None:
    def run() -> tuple[int, str]:
        ended = subprocess.run(
            command(*arguments), env=not_all_compiled, capture_output=True, text=True, check=False
        )
        return ended.returncode, ended.stderr

    assert run() == (
        0,
        "savepointdb: compiling the decoder for this processor, once: seconds, or a minute on a slow machine\n",
    )
    assert run() == (0, "")


@pytest.fixture
def serving(not_all_compiled: dict[str, str]) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A service that begins to compile, and its address."""
    serve = command("serve", "--root", f"job={NATIVE}", "--port", "0")
    with subprocess.Popen(serve, env=not_all_compiled, stderr=subprocess.PIPE, text=True) as running:
        try:
            told = _line(running.stderr)
            yield running, next(word for word in told.split() if word.startswith("http://")).rstrip("/")
        finally:
            running.kill()


def _line(stream: IO[str] | None) -> str:
    assert stream is not None
    return stream.readline()


def _asked(client: httpx.Client, path: str) -> httpx.Response:
    """Ask until the service listens."""
    for _ in range(600):
        try:
            return client.get(path)
        except httpx.TransportError:
            time.sleep(0.05)
    raise AssertionError("the service does not listen")


def _wait_until_it_compiles(client: httpx.Client) -> None:
    """Wait until the process that compiles has begun."""
    wait_until(lambda: _asked(client, "/readyz").json() != {"status": "starting"})


@pytest.mark.slow
def test_the_service_answers_while_it_compiles(serving: tuple[subprocess.Popen[str], str]) -> None:
    running, address = serving
    with httpx.Client(base_url=address, timeout=400) as client:
        _wait_until_it_compiles(client)
        health, ready = client.get("/healthz"), client.get("/readyz")
        tables = client.get("/api/databases/job/tables").json()["tables"]
        page = client.get("/")
        started = client.post("/api/queries", json={"sql": COUNT, "timeout_s": 400}).json()
        waiting = client.get(f"/api/queries/{started['query_id']}").json()
        still = client.get("/readyz").json()
        answer: Any = client.get(f"/api/queries/{started['query_id']}/result").json()
        ended = client.get(f"/api/queries/{started['query_id']}").json()

    assert (health.json(), ready.status_code, ready.json()) == (
        {"status": "ok"},
        503,
        {"status": "compiling"},
    )
    assert {"aggregate", "StateMeta"} <= {table["name"] for table in tables}
    assert page.status_code == 200
    assert still == {"status": "compiling"}
    assert waiting["state"] in ("queued", "running")
    assert [warning for warning in waiting["warnings"] if "compiled for this processor" in warning]
    assert (answer["rows"], ended["warnings"], "warnings" in answer) == ([[1000]], [], False)
    assert "compiled for this processor" in _line(running.stderr)
    assert json.loads(httpx.get(f"{address}/readyz", timeout=60).content) == {"status": "ok"}


@pytest.mark.slow
def test_a_service_that_writes_compiles_before_the_first_write(
    not_all_compiled: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    not_all_compiled["SAVEPOINTDB_LOG_LEVEL"] = "info"
    serve = command("serve", "--root", f"job={NATIVE}", "--write-root", str(tmp_path / "out"), "--port", "0")
    with subprocess.Popen(serve, env=not_all_compiled, stderr=subprocess.PIPE, text=True) as running:
        try:
            address = next(word for word in _line(running.stderr).split() if word.startswith("http://"))
            with httpx.Client(base_url=address.rstrip("/"), timeout=60) as client:
                wait_until(lambda: _asked(client, "/readyz").json().get("writes") == "compiling")
                wait_until(lambda: client.get("/readyz").json() == {"status": "ok"}, patience_s=400)
        finally:
            running.terminate()
        _, told = running.communicate(timeout=60)

    assert [line for line in told.splitlines() if "what writes need is compiled" in line] != []
    kept = {path.name.partition("-")[0] for path in (tmp_path / "cache").rglob("writers.*.bin")}
    assert kept == {unit for unit in COMPILED_UNITS if unit.startswith("writers.")}


@pytest.mark.slow
def test_a_service_that_compiles_ends_at_a_signal(
    serving: tuple[subprocess.Popen[str], str], tmp_path: Path
) -> None:
    running, address = serving
    with httpx.Client(base_url=address, timeout=60) as client:
        _wait_until_it_compiles(client)
        assert client.get("/readyz").json() == {"status": "compiling"}

        running.send_signal(signal.SIGTERM)

    assert running.wait(60) in (0, -signal.SIGTERM)
    # It did not wait for the decoder.
    assert list((tmp_path / "cache").rglob(f"{_READ}-*")) == []
