"""Clients that read slowly or not at all: their cost, their time, and the rows that they get."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st

from catalog import connect
from service.base.errors import QueryCancelledError, ReaderStalledError
from service.base.principal import ANYBODY
from service.base.settings import Settings
from service.query.engines.duckdb.engine import DuckDBEngine
from service.query.running.request import QueryRequest
from service.query.running.run import QueryState
from service.query.serving.query import Query
from service.query.serving.registry import Queries
from service.query.serving.results import Spool, SpooledResults
from tests.support.paths import DATA
from tests.support.waiting import wait_until
from tools.servers import served, share_bytes, workers_of
from tools.synthetic.savepoints import write_savepoint

NATIVE = DATA / "flink" / "2.3.0" / "wordcount-rocksdb-savepoints" / "native"
ARROW = "application/vnd.apache.arrow.stream"
LONG = "SELECT x, repeat('x', 100) AS text FROM range(200000) t(x)"
LONG_ROWS = 200_000
MOST_BYTES = 400_000_000

Serving = Callable[[FastAPI], AbstractContextManager[str]]


@contextmanager
def queries_of(**settings: Any) -> Iterator[Queries]:
    limits = Settings.of(**{"result_buffer_bytes": 1 << 20, **settings})
    with closing(Queries(connect(NATIVE), {"duckdb": DuckDBEngine(limits)}, limits)) as queries:
        yield queries


def numbers_of(query: Query) -> list[int]:
    return [number for batch in query.batches() for number in batch.column(0).to_pylist()]


def batch_of(number: int, rows: int) -> pa.RecordBatch:
    words = pa.array([f"{number}/{row}" for row in range(rows)]).dictionary_encode()
    return pa.RecordBatch.from_arrays([pa.array([number] * rows), words], ["number", "word"])


@given(
    memory_bytes=st.integers(1, 3000),
    file_bytes=st.integers(0, 10_000),
    total_bytes=st.integers(0, 10_000),
    steps=st.lists(st.integers(0, 60) | st.just("take"), max_size=60),
)
def test_batches_come_out_as_they_went_in_from_memory_and_from_the_file(
    memory_bytes: int, file_bytes: int, total_bytes: int, steps: list[Any]
) -> None:
    spool = Spool("", total_bytes)
    buffer = SpooledResults(memory_bytes, spool.file(file_bytes))
    waiting: list[pa.RecordBatch] = []
    for number, step in enumerate(steps):
        if step != "take":
            batch = batch_of(number, step)
            if buffer.put(batch, 0):
                waiting.append(batch)
        elif waiting:
            assert buffer.take() == waiting.pop(0)
        assert spool.size_bytes <= min(total_bytes, file_bytes)
    buffer.end()
    rest = [buffer.take() for _ in range(len(waiting) + 1)]
    left_bytes = spool.size_bytes
    buffer.abort(QueryCancelledError("done"))

    assert rest == [*waiting, None]
    assert left_bytes == 0


def test_an_aborted_buffer_releases_its_bytes_on_the_disk() -> None:
    spool = Spool("", 1 << 20)
    buffer = SpooledResults(1, spool.file(1 << 20))
    for number in range(3):
        assert buffer.put(batch_of(number, 100), 0)
    held = spool.size_bytes
    buffer.abort(QueryCancelledError("the reader is gone"))

    assert held > 0
    assert spool.size_bytes == 0
    with pytest.raises(QueryCancelledError, match="the reader is gone"):
        buffer.take()


def test_without_a_file_a_slow_client_holds_its_query_back(tmp_path: Path) -> None:
    buffer = SpooledResults(1, Spool(str(tmp_path / "nothing"), 1 << 20).file(1 << 20))

    assert [buffer.put(batch_of(number, 100), 0) for number in range(2)] == [True, False]
    assert buffer.take() == batch_of(0, 100)
    assert buffer.put(batch_of(1, 100), 0)


@pytest.mark.slow
def test_a_query_of_a_slow_client_ends_and_loses_no_rows() -> None:
    with queries_of() as queries, queries.start(QueryRequest(sql=LONG)) as query:
        wait_until(lambda: query.state is QueryState.FINISHED)
        spooled_bytes, blocked = queries.spool.size_bytes, queries.blocked
        numbers = numbers_of(query)

        assert query.results.size_bytes == 0
        assert spooled_bytes > 10 << 20
        assert blocked == 0
        assert sorted(numbers) == list(range(LONG_ROWS))
        assert queries.spool.size_bytes == 0


@pytest.mark.slow
def test_a_query_that_fills_its_file_waits_until_its_client_reads() -> None:
    with queries_of(spool_bytes=4 << 20) as queries, queries.start(QueryRequest(sql=LONG)) as query:
        wait_until(lambda: query.is_blocked)
        numbers = numbers_of(query)

        assert queries.blocked == 0
        assert sorted(numbers) == list(range(LONG_ROWS))
        assert query.state is QueryState.FINISHED


@pytest.mark.slow
def test_of_too_many_idle_queries_the_longest_idle_ends() -> None:
    with queries_of(spool_bytes=0, max_stalled=2, max_running=4) as queries, ExitStack() as stack:
        asked: list[Query] = []
        for _ in range(4):
            asked.append(stack.enter_context(queries.start(QueryRequest(sql=LONG, user="alice"))))
            wait_until(lambda: asked[-1].is_blocked or asked[-1].state.has_ended)
        wait_until(lambda: sum(query.state.has_ended for query in asked) == 2)
        ended = [
            record
            for record in queries.records(ANYBODY.named("alice"))
            if record.state is QueryState.CANCELLED
        ]

        assert [query.state for query in asked] == [QueryState.CANCELLED] * 2 + [QueryState.RUNNING] * 2
        assert {record.error and record.error.code for record in ended} == {"STALLED"}
        with pytest.raises(ReaderStalledError, match=r"nobody read the query's answer for \d+ s"):
            list(asked[0].batches())
        for query in asked[2:]:
            assert sorted(numbers_of(query)) == list(range(LONG_ROWS))


@pytest.mark.slow
def test_idle_queries_of_one_user_do_not_end_those_of_another() -> None:
    with queries_of(spool_bytes=0, max_stalled=2, max_running=4) as queries, ExitStack() as stack:
        patient = stack.enter_context(queries.start(QueryRequest(sql=LONG, user="alice")))
        wait_until(lambda: patient.is_blocked)
        greedy = [
            stack.enter_context(queries.start(QueryRequest(sql=LONG, user="mallory"))) for _ in range(3)
        ]
        wait_until(lambda: sum(query.state.has_ended for query in greedy) == 2)

        assert sorted(numbers_of(patient)) == list(range(LONG_ROWS))


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that waits for its readers for a second."""
    with served(NATIVE, "--stall-timeout-s", "1", "--spool-bytes", "1000000") as (_, address):
        yield address


def begun(address: str, sql: str, accept: str) -> socket.socket:
    """Return a connection whose answer has begun, and whose client reads no more."""
    host, port = address.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)))
    body = f'{{"sql": "{sql}", "max_rows": 1000000}}'
    head = (
        f"POST /api/query HTTP/1.1\r\nhost: {host}\r\naccept: {accept}\r\ncontent-type: application/json\r\n"
    )
    connection.sendall(f"{head}content-length: {len(body)}\r\n\r\n{body}".encode())
    assert connection.recv(12) == b"HTTP/1.1 200"
    return connection


def ends(connection: socket.socket) -> int:
    """Read to the end; return the number of bytes."""
    size_bytes = 0
    connection.settimeout(60)
    try:
        while part := connection.recv(1 << 20):
            size_bytes += len(part)
    except ConnectionResetError:
        pass
    return size_bytes


def codes(address: str, sql: str) -> list[tuple[str, str | None]]:
    return [
        (query["state"], query["error"] and query["error"]["code"])
        for query in httpx.get(f"{address}/api/queries", timeout=60).json()["queries"]
        if query["sql"] == sql
    ]


@pytest.mark.slow
def test_a_stalled_client_of_a_stream_is_disconnected_and_the_history_has_the_reason(impatient: str) -> None:
    sql = "SELECT x, repeat('x', 100) AS text FROM range(20000000) t(x)"
    with begun(impatient, sql, ARROW) as connection:
        wait_until(lambda: codes(impatient, sql) == [("cancelled", "STALLED")])
        wait_until(lambda: not lives(connection))
        size_bytes = ends(connection)
    metrics = httpx.get(f"{impatient}/metrics", timeout=60).text

    assert size_bytes < 50_000_000
    assert 'code="STALLED"' in metrics
    assert "savepointdb_queries_stalled 0.0" in metrics
    assert "savepointdb_spooled_bytes 0.0" in metrics


@pytest.mark.slow
def test_a_stalled_client_of_a_long_json_answer_is_disconnected(impatient: str) -> None:
    sql = "SELECT x, repeat('x', 100) AS text FROM range(300000) t(x)"
    with begun(impatient, sql, "application/json") as connection:
        wait_until(lambda: not lives(connection))
        size_bytes = ends(connection)

    assert size_bytes < 30_000_000
    wait_until(lambda: "savepointdb_spooled_bytes 0.0" in httpx.get(f"{impatient}/metrics", timeout=60).text)


def lives(connection: socket.socket) -> bool:
    """Return whether the server has the other end of a connection."""
    own = f":{connection.getsockname()[1]:04X}"
    entries = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return any(entry[2].endswith(own) and entry[3] == "01" for entry in entries)


@pytest.mark.slow
def test_forty_stalled_clients_cost_little_and_others_are_answered(tmp_path: Path) -> None:
    write_savepoint(tmp_path / "load" / "savepoint", 100_000, ("count",))
    sql = "SELECT key, value, repeat('x', 200) AS text FROM aggregate__count, range(40)"
    with served(tmp_path) as (server, address), ExitStack() as stack:
        httpx.post(f"{address}/api/query", json={"sql": "SELECT count(*) FROM aggregate__count"}, timeout=60)
        before = shared_bytes(server.pid)
        for number in range(40):
            stack.enter_context(begun(address, sql, ARROW if number % 4 else "application/jsonl"))
            answer = httpx.post(
                f"{address}/api/query", json={"sql": "SELECT count(*) FROM aggregate__count"}, timeout=60
            )
            assert answer.json()["rows"] == [[100_000]]
        wait_until(lambda: open_queries(address) <= Settings().slots.max_stalled)
        wait_until(lambda: shared_bytes(server.pid) - before < MOST_BYTES)


def open_queries(address: str) -> int:
    listed = httpx.get(f"{address}/api/queries", timeout=60).json()["queries"]
    return sum(query["state"] in ("queued", "running") for query in listed)


def shared_bytes(server: int) -> int:
    """Return the memory of a server and its processes; a shared page counts by its share."""
    return share_bytes(server) + sum(map(share_bytes, workers_of(server)))
