"""Queries over HTTP and in process: they run, wait, keep their answers and end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import httpx
import pyarrow as pa
import pytest
from fastapi import FastAPI

from catalog import Catalog, connect
from service.base.errors import QueryCancelledError, QueryError, QueryNotFoundError
from service.base.principal import ANYBODY
from service.base.settings import Settings
from service.doors.app import create_app
from service.query.engines.duckdb.engine import DuckDBEngine
from service.query.running.request import QueryRequest
from service.query.running.run import QueryState
from service.query.serving.query import Query
from service.query.serving.registry import Queries
from service.query.serving.results import Spool, SpooledResults
from service.query.sql.plan import is_lookup
from service.query.sql.planner import plan
from tests.support.paths import DATA
from tests.support.waiting import wait_until

NATIVE = DATA / "flink" / "2.3.0" / "wordcount-rocksdb-savepoints" / "native"
ENDLESS = "SELECT count(*) FROM range(1000000000000)"
LOOKUP = "SELECT key, value FROM aggregate WHERE key = 'key_1'"
ARROW = "application/vnd.apache.arrow.stream"
LONG = "SELECT x, repeat('x', 100) AS text FROM range(2000000) t(x)"

Serving = Callable[[FastAPI], AbstractContextManager[str]]


@contextmanager
def queries_of(catalog: Catalog, **settings: Any) -> Iterator[Queries]:
    """Queries with these settings."""
    limits = Settings.of(**settings)
    queries = Queries(catalog, {"duckdb": DuckDBEngine(limits)}, limits)
    try:
        yield queries
    finally:
        queries.close()


@pytest.fixture
def http(client: httpx.Client) -> httpx.Client:
    """A client of the service."""
    return client


def start(http: httpx.Client, sql: str, **body: Any) -> Any:
    response = http.post("/api/queries", json={"sql": sql, **body})
    assert response.status_code == 202, response.text
    assert response.headers["location"] == f"/api/queries/{response.json()['query_id']}"
    return response.json()["query_id"]


def status(http: httpx.Client, query_id: str) -> Any:
    return http.get(f"/api/queries/{query_id}").json()


@pytest.mark.slow
def test_a_query_runs_while_its_client_does_something_else(http: httpx.Client) -> None:
    query_id = start(http, "SELECT count(*) FROM native.aggregate")
    wait_until(lambda: status(http, query_id)["result_ready"])
    wait_until(lambda: status(http, query_id)["state"] == "finished")
    told = status(http, query_id)
    answer = http.get(f"/api/queries/{query_id}/result").json()

    assert told["progress"]["rows_read"] == 1000
    assert told["progress"]["bytes_read"] > 0
    assert told["progress"]["splits_read"] == told["progress"]["splits_total"] > 0
    assert (told["row_count"], told["engine"]) == (1, "duckdb")
    assert (answer["rows"], answer["query_id"]) == ([[1000]], query_id)


def test_a_result_waits_for_its_rows(http: httpx.Client) -> None:
    query_id = start(http, "SELECT count(*) FROM range(300000000)")

    assert http.get(f"/api/queries/{query_id}/result").json()["rows"] == [[300_000_000]]


def test_a_result_comes_in_every_format(http: httpx.Client) -> None:
    query_id = start(http, "SELECT key, value FROM native.aggregate ORDER BY key LIMIT 2")
    response = http.get(f"/api/queries/{query_id}/result", headers={"accept": ARROW})

    assert pa.ipc.open_stream(response.content).read_all().column("key").to_pylist() == ["key_0", "key_1"]


def test_a_result_is_read_once(http: httpx.Client) -> None:
    query_id = start(http, "SELECT 1")
    address = f"/api/queries/{query_id}/result"

    assert http.get(address).status_code == 200
    again = http.get(address)
    assert (again.status_code, again.json()["error"]["code"]) == (410, "RESULT_GONE")
    assert status(http, query_id)["state"] == "finished"


def test_an_error_is_the_result(http: httpx.Client) -> None:
    query_id = start(http, "SELECT CAST(key AS INTEGER) FROM native.aggregate")
    wait_until(lambda: status(http, query_id)["state"] == "failed")

    assert status(http, query_id)["error"]["code"] == "INVALID_VALUE"
    for _ in range(2):
        response = http.get(f"/api/queries/{query_id}/result")
        assert (response.status_code, response.json()["error"]["code"]) == (400, "INVALID_VALUE")


def test_a_statement_that_means_nothing_is_refused_at_once(http: httpx.Client) -> None:
    response = http.post("/api/queries", json={"sql": "SELECT * FROM native.nothing"})

    assert (response.status_code, response.json()["error"]["code"]) == (404, "TABLE_NOT_FOUND")


def test_a_query_is_cancelled(http: httpx.Client) -> None:
    query_id = start(http, ENDLESS)

    assert http.delete(f"/api/queries/{query_id}").status_code == 204
    assert status(http, query_id)["state"] == "cancelled"
    response = http.get(f"/api/queries/{query_id}/result")
    assert (response.status_code, response.json()["error"]["code"]) == (409, "CANCELLED")
    assert http.delete(f"/api/queries/{query_id}").status_code == 204


def test_another_request_cancels_a_query_that_is_read(http: httpx.Client) -> None:
    query_id = start(http, ENDLESS)
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(http.get, f"/api/queries/{query_id}/result")
        time.sleep(0.3)
        http.delete(f"/api/queries/{query_id}")

        assert reading.result().json()["error"]["code"] == "CANCELLED"


def test_an_unknown_id_is_not_found(http: httpx.Client) -> None:
    for call in (http.get, http.delete):
        response = call("/api/queries/0123456789abcdef0123456789abcdef")
        assert (response.status_code, response.json()["error"]["code"]) == (404, "QUERY_NOT_FOUND")


def test_a_long_answer_is_read_as_a_stream(http: httpx.Client) -> None:
    query_id = start(http, "SELECT x, repeat('x', 100) AS text FROM range(300000) t(x)", max_rows=300_000)
    address = f"/api/queries/{query_id}/result"
    with http.stream("GET", address, headers={"accept": "text/csv"}) as response:
        lines = sum(chunk.count(b"\n") for chunk in response.iter_bytes())

    assert lines == 300_001


def test_the_list_begins_with_the_latest_query(http: httpx.Client) -> None:
    ids = []
    for number in range(3):
        ids.append(start(http, f"SELECT {number}"))
        http.get(f"/api/queries/{ids[-1]}/result")
    listed = http.get("/api/queries").json()["queries"]

    assert [one["query_id"] for one in listed if one["query_id"] in ids] == ids[::-1]
    assert {"sql", "user", "source", "engine", "elapsed_ms", "queued_ms", "created"} <= set(listed[0])


def test_a_statement_may_be_in_trinos_dialect(http: httpx.Client) -> None:
    def rows(dialect: str) -> Any:
        return http.post("/api/query", json={"sql": "SELECT 1 / 2", "dialect": dialect}).json()["rows"]

    assert (rows("duckdb"), rows("trino")) == ([[0.5]], [[0]])


def test_a_scan_larger_than_asked_for_is_refused(http: httpx.Client) -> None:
    body = {"sql": "SELECT * FROM native.aggregate", "max_bytes": 100}
    response = http.post("/api/query", json=body)

    assert (response.status_code, response.json()["error"]["code"]) == (413, "LIMIT_EXCEEDED")
    assert http.post("/api/query", json={**body, "max_bytes": 10**9}).status_code == 200


def test_limits_can_only_be_lowered() -> None:
    with queries_of(connect(NATIVE), max_timeout_s=0.3, max_scan_bytes=100) as queries:
        query = queries.start(QueryRequest(sql=ENDLESS, timeout_s=3600))
        with query, pytest.raises(Exception, match=r"0\.3 s"):
            list(query.batches())
        with pytest.raises(Exception, match="at most 100 bytes"):
            queries.start(QueryRequest(sql="SELECT * FROM aggregate", max_bytes=10**12))


def test_a_lookup_is_answered_while_endless_queries_have_all_slots(native: Any) -> None:
    with queries_of(native.catalog, max_running=2) as queries:
        endless = [queries.start(QueryRequest(sql=ENDLESS, user=name)) for name in "abc"]
        wait_until(lambda: [query.state for query in endless].count(QueryState.RUNNING) == 2)
        with queries.start(QueryRequest(sql=LOOKUP, user="d")) as lookup:
            rows = pa.Table.from_batches(lookup.batches()).to_pylist()
        states = [query.state for query in endless]
        for query in endless:
            query.close()

    assert rows == [{"key": "key_1", "value": 38}]
    assert states == [QueryState.RUNNING, QueryState.RUNNING, QueryState.QUEUED]


@pytest.mark.parametrize(
    "sql",
    [
        LOOKUP,
        "SELECT * FROM aggregate WHERE key IN ('key_1', 'key_2') AND value > 0 ORDER BY value LIMIT 5",
        "SELECT a.value AS v FROM aggregate a WHERE key = 'key_1' OR key = 'key_2'",
    ],
)
def test_a_lookup_is_known_by_its_keys(sql: str, native: Any) -> None:
    found = plan(sql, native.catalog)

    assert is_lookup(found, 1000)
    assert not is_lookup(found, 1 << 30)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1",
        "SELECT repeat('x', 1000000000)",
        "SELECT * FROM aggregate",
        "SELECT key FROM aggregate WHERE value = 1",
        "SELECT repeat(key, 1000000000) FROM aggregate WHERE key = 'key_1'",
        "SELECT key || key FROM aggregate WHERE key = 'key_1'",
        "SELECT value FROM aggregate, range(1000000000) WHERE key = 'key_1'",
        "SELECT a.value FROM aggregate a, aggregate b WHERE a.key = 'key_1' AND b.key = 'key_1'",
        "SELECT (SELECT list_sum(range(1000000000))) FROM aggregate WHERE key = 'key_1'",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n FROM r) SELECT value FROM aggregate WHERE key = 'key_1'",
        "SELECT value FROM aggregate WHERE key = 'key_1' UNION ALL SELECT value FROM aggregate WHERE key = 'key_1'",
        "SELECT value FROM aggregate WHERE key = 'key_1' AND value IN (SELECT * FROM range(1000000000))",
        "SELECT DISTINCT count(*) OVER () FROM aggregate WHERE key = 'key_1'",
        "EXPLAIN ANALYZE SELECT value FROM aggregate WHERE key = 'key_1'",
    ],
)
def test_a_query_that_may_take_long_is_no_lookup(sql: str, native: Any) -> None:
    assert not is_lookup(plan(sql, native.catalog), 0)


@pytest.mark.slow
def test_too_many_queries_are_refused_with_retry_after(serving: Serving) -> None:
    app = create_app(Settings.of(workers=1, max_running=1, max_queued=1), connect(NATIVE))
    with serving(app) as address, httpx.Client(base_url=address, timeout=60) as http:
        ids = [start(http, ENDLESS) for _ in range(2)]
        wait_until(lambda: status(http, ids[0])["state"] == "running")
        waiting = status(http, ids[1])
        refused = http.post("/api/query", json={"sql": "SELECT 1"})
        for query_id in ids:
            http.delete(f"/api/queries/{query_id}")

        assert waiting["state"] == "queued"
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "TOO_MANY_QUERIES")
        assert int(refused.headers["retry-after"]) >= 1
        assert http.post("/api/query", json={"sql": "SELECT 1"}).status_code == 200


@pytest.mark.slow
def test_others_are_answered_while_a_stream_waits_for_a_slot(serving: Serving) -> None:
    app = create_app(Settings.of(workers=1, max_running=1), connect(NATIVE))
    with (
        serving(app) as address,
        httpx.Client(base_url=address, timeout=60) as http,
        ThreadPoolExecutor(1) as pool,
    ):
        endless = start(http, ENDLESS)
        wait_until(lambda: status(http, endless)["state"] == "running")
        body, headers = {"sql": "SELECT 42 AS answer"}, {"accept": ARROW}
        streaming = pool.submit(
            lambda: http.post("/api/query", json=body, headers=headers, timeout=120),
        )
        wait_until(
            lambda: any(one["state"] == "queued" for one in http.get("/api/queries").json()["queries"])
        )
        healthy = http.get("/healthz").status_code
        http.delete(f"/api/queries/{endless}")

        assert healthy == 200
        assert pa.ipc.open_stream(streaming.result().content).read_all().to_pylist() == [{"answer": 42}]


@pytest.mark.slow
def test_two_hundred_clients_are_all_answered(client: httpx.Client) -> None:
    def one(number: int) -> Any:
        sql = f"SELECT count(*) FROM native.aggregate WHERE key = 'key_{number}'"
        return client.post("/api/query", json={"sql": sql}).json()["rows"]

    with ThreadPoolExecutor(64) as pool:
        assert list(pool.map(one, range(200))) == [[[1]]] * 200


def test_an_abandoned_query_ends(native: Any) -> None:
    with queries_of(native.catalog) as queries:
        query = queries.start(QueryRequest(sql=ENDLESS, abandoned_after_s=0.3))
        wait_until(lambda: query.state is QueryState.CANCELLED)

        assert queries.record(query.id, ANYBODY).error is not None


@pytest.mark.slow
def test_an_abandoned_result_is_dropped(native: Any) -> None:
    with queries_of(native.catalog) as queries:
        query = queries.start(QueryRequest(sql="SELECT 1", abandoned_after_s=600))
        wait_until(lambda: query.state is QueryState.FINISHED)
        query.check(time.monotonic() + 601)

        assert queries.find(query.id, ANYBODY) is None
        assert queries.record(query.id, ANYBODY).state is QueryState.FINISHED


def test_a_query_is_not_abandoned_while_a_client_waits(native: Any) -> None:
    request = QueryRequest(sql=ENDLESS, abandoned_after_s=600, timeout_s=3600)
    with (
        queries_of(native.catalog) as queries,
        queries.start(request) as query,
        ThreadPoolExecutor(1) as pool,
    ):
        reading = pool.submit(query.take)
        wait_until(lambda: query.attendance.idle_s(time.monotonic() + 601) == 0)
        query.check(time.monotonic() + 601)
        query.cancel()

        with pytest.raises(QueryCancelledError, match="the query was cancelled"):
            reading.result()


def test_another_users_query_is_not_found(native: Any) -> None:
    with (
        queries_of(native.catalog) as queries,
        queries.start(QueryRequest(sql=ENDLESS, user="alice")) as query,
    ):
        for user in (ANYBODY, ANYBODY.named("mallory")):
            with pytest.raises(QueryNotFoundError):
                queries.find(query.id, user)
            with pytest.raises(QueryNotFoundError):
                queries.record(query.id, user)
            assert queries.records(user) == []
        query.cancel()


@pytest.mark.slow
def test_a_stalled_client_costs_bounded_memory_and_no_slot(native: Any) -> None:
    limit = 1 << 20
    with queries_of(native.catalog, max_running=1, result_buffer_bytes=limit) as queries:
        with queries.start(QueryRequest(sql=LONG)) as stalled:
            first = stalled.take()
            assert first is not None
            with queries.start(QueryRequest(sql="SELECT 1")) as other:
                assert [batch.num_rows for batch in other.batches()] == [1]
            assert 0 < stalled.results.size_bytes <= 2 * limit
            rest = sum(batch.num_rows for batch in stalled.batches())

        assert first.num_rows + rest == 2_000_000


def test_a_cancel_reaches_a_query_that_waits_for_its_client(native: Any) -> None:
    with queries_of(native.catalog, result_buffer_bytes=1) as queries:
        query = queries.start(QueryRequest(sql=LONG))
        wait_until(lambda: query.is_ready)
        time.sleep(0.7)
        query.cancel()
        with pytest.raises(QueryCancelledError):
            query.take()
        query.close()

        assert query.state is QueryState.CANCELLED


def test_a_query_that_waits_for_a_slot_can_be_cancelled_and_can_be_late(native: Any) -> None:
    with (
        queries_of(native.catalog, max_running=1) as queries,
        queries.start(QueryRequest(sql=ENDLESS)) as running,
    ):
        cancelled = queries.start(QueryRequest(sql="SELECT 1"))
        late = queries.start(QueryRequest(sql="SELECT 1", timeout_s=0.2))
        cancelled.cancel()
        wait_until(lambda: late.state is QueryState.FAILED)

        assert cancelled.state is QueryState.CANCELLED
        assert running.state is QueryState.RUNNING


def test_history_is_bounded(native: Any) -> None:
    with queries_of(native.catalog, history_length=3) as queries:
        for number in range(5):
            with queries.start(QueryRequest(sql=f"SELECT {number}")) as query:
                list(query.batches())

        assert [record.sql for record in queries.records(ANYBODY)] == ["SELECT 4", "SELECT 3", "SELECT 2"]


def test_no_thread_is_left_when_all_ended(native: Any) -> None:
    before = {thread.name for thread in threading.enumerate()}
    with queries_of(native.catalog) as queries:
        made: list[Query] = [queries.start(QueryRequest(sql=sql)) for sql in (ENDLESS, LONG, "SELECT 1")]
        assert {f"query-{query.id}" for query in made[:1]} <= {
            thread.name for thread in threading.enumerate()
        }

    left = {thread.name for thread in threading.enumerate() if not thread.name.startswith("Dummy")} - before
    assert left == set()


def test_one_batch_always_has_room() -> None:
    buffer = SpooledResults(1, Spool("", 0).file(0))
    batch = pa.RecordBatch.from_pydict({"x": list(range(1000))})

    assert buffer.put(batch, 0)
    assert not buffer.put(batch, 0)
    assert buffer.take() == batch
    assert buffer.put(batch, 0)


def test_history_keeps_what_was_refused_with_its_database(native: Any) -> None:
    with queries_of(native.catalog) as queries:
        for sql in ("SELEC 1", "SELECT * FROM nothing", "DROP TABLE aggregate"):
            with pytest.raises(QueryError):
                queries.start(QueryRequest(sql=sql, schema="native"))
        records = queries.records(ANYBODY)

    assert [(one.sql, one.database, one.state, one.error and one.error.code) for one in records] == [
        ("DROP TABLE aggregate", "native", QueryState.FAILED, "FORBIDDEN"),
        ("SELECT * FROM nothing", "native", QueryState.FAILED, "TABLE_NOT_FOUND"),
        ("SELEC 1", "native", QueryState.FAILED, "SYNTAX_ERROR"),
    ]
