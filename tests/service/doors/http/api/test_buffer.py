"""JSON answers have a limit of bytes, and cost the server little below it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx
import orjson
import pyarrow as pa
import pytest
from fastapi import FastAPI
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog import Catalog, connect
from service.base.errors import MemoryExceededError
from service.base.settings import Settings
from service.doors.app import create_app
from service.doors.http.api.answers import AnswerBuffer
from service.query.encode.formats import Column
from service.query.serving.results import Spool
from tests.support.examples import examples
from tests.support.paths import DATA
from tests.support.waiting import wait_until
from tools.servers import served

NATIVE = DATA / "flink" / "2.3.0" / "wordcount-rocksdb-savepoints" / "native"
MANY = "SELECT x, repeat('ä', 100) AS text FROM range(10000) t(x) ORDER BY x"
MOST_BYTES = 100_000

Serving = Callable[[FastAPI], AbstractContextManager[str]]


@pytest.fixture(scope="module")
def http(serving: Serving) -> Iterator[httpx.Client]:
    limits = Settings.of(workers=1, max_answer_bytes=MOST_BYTES, result_buffer_bytes=10_000)
    app = create_app(limits, connect(NATIVE))
    with serving(app) as address, httpx.Client(base_url=address, timeout=60) as client:
        yield client


def asked(http: httpx.Client, sql: str, **body: Any) -> Any:
    response = http.post("/api/query", json={"sql": sql, **body})
    assert response.status_code == 200, response.text
    return response.json()


@pytest.mark.slow
@pytest.mark.parametrize("max_rows", [10, 10_000])
def test_rows_behind_the_limit_of_bytes_are_cut_off_and_the_answer_says_so(
    http: httpx.Client, max_rows: int
) -> None:
    answer = asked(http, MANY, max_rows=max_rows)
    rows = answer["rows"]

    assert rows == [[number, "ä" * 100] for number in range(len(rows))]
    assert (answer["row_count"], answer["truncated"]) == (len(rows), True)
    assert len(rows) == 10 or MOST_BYTES - 300 < len(orjson.dumps(rows)) <= MOST_BYTES
    assert [column["name"] for column in answer["columns"]] == ["x", "text"]


@pytest.mark.slow
def test_an_answer_below_the_limit_is_whole(http: httpx.Client) -> None:
    answer = asked(http, "SELECT x FROM range(10000) t(x) ORDER BY x")

    assert answer["rows"] == [[number] for number in range(10_000)]
    assert (answer["row_count"], answer["truncated"]) == (10_000, False)


def test_a_row_longer_than_the_limit_is_cut_off(http: httpx.Client) -> None:
    answer = asked(http, "SELECT repeat('x', 200000)")

    assert (answer["rows"], answer["row_count"], answer["truncated"]) == ([], 0, True)


def test_a_query_whose_rest_is_not_wanted_has_finished(http: httpx.Client) -> None:
    sql = "SELECT x, repeat('x', 1000) FROM range(100000000) t(x)"
    answer = asked(http, sql, max_rows=1_000_000)
    record = http.get(f"/api/queries/{answer['query_id']}").json()

    assert answer["truncated"]
    assert (record["state"], record["row_count"], record["error"]) == ("finished", answer["row_count"], None)


def test_the_result_of_a_query_that_was_started_before_has_the_same_limit(http: httpx.Client) -> None:
    query_id = http.post("/api/queries", json={"sql": MANY}).json()["query_id"]
    answer = http.get(f"/api/queries/{query_id}/result").json()

    assert answer["truncated"]
    assert len(orjson.dumps(answer["rows"])) <= MOST_BYTES


@pytest.mark.slow
def test_what_was_collected_is_let_go_of(http: httpx.Client) -> None:
    for _ in range(3):
        asked(http, MANY)

    wait_until(lambda: "savepointdb_spooled_bytes 0.0" in http.get("/metrics").text)


@pytest.mark.slow
def test_an_answer_that_has_no_room_on_the_disk_is_an_error(serving: Serving) -> None:
    limits = Settings.of(workers=1, spool_total_bytes=0, result_buffer_bytes=10_000)
    with serving(create_app(limits, Catalog())) as address:
        short = httpx.post(f"{address}/api/query", json={"sql": "SELECT 1"}, timeout=60)
        long = httpx.post(f"{address}/api/query", json={"sql": MANY}, timeout=60)

    assert short.json()["rows"] == [[1]]
    assert (long.status_code, long.json()["error"]["code"]) == (507, "EXCEEDED_MEMORY")


@settings(max_examples=examples(40))
@given(
    texts=st.lists(st.lists(st.text(max_size=20), max_size=8), max_size=8),
    memory_bytes=st.integers(0, 300),
    max_bytes=st.integers(0, 600),
)
def test_rows_in_memory_and_in_a_file_are_the_first_ones_that_have_room(
    texts: list[list[str]], memory_bytes: int, max_bytes: int
) -> None:
    spool = Spool("", 1 << 20)
    rows = AnswerBuffer(memory_bytes, max_bytes, spool.file(1 << 20))
    rows.columns = [Column("text", "VARCHAR")]
    for batch in texts:
        if not rows.is_full:
            rows.add(pa.record_batch([pa.array(batch, pa.string())], ["text"]))
    text = b"[" + b"".join(rows.chunks()) + b"]"
    rows.close()

    everything = [[cell] for batch in texts for cell in batch]
    assert orjson.loads(text) == everything[: rows.row_count]
    assert len(text) == rows.size_bytes + 2 <= max_bytes + 2
    assert rows.is_full == (rows.row_count < len(everything))
    assert spool.size_bytes == 0


def test_what_does_not_fit_on_the_disk_is_not_collected() -> None:
    rows = AnswerBuffer(0, 1000, Spool("", 0).file(1000))
    rows.columns = [Column("x", "BIGINT")]

    with pytest.raises(MemoryExceededError, match="no room on the disk"):
        rows.add(pa.record_batch([pa.array([1])], ["x"]))


@pytest.mark.slow
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT repeat('x', 100000) FROM range(1000000)",
        f"SELECT text::ENUM('{'x' * 100_000}') FROM (SELECT repeat('x', 100000) AS text FROM range(60000))",
        f"SELECT {', '.join(['NULL'] * 300)} FROM range(100000000)",
    ],
    ids=["texts", "names", "nulls"],
)
def test_a_long_json_answer_costs_the_server_little(sql: str) -> None:
    with served(NATIVE) as (server, address):
        httpx.post(f"{address}/api/query", json={"sql": "SELECT 1"}, timeout=60)
        Path(f"/proc/{server.pid}/clear_refs").write_text("5")  # from now on the peak is measured
        answer = httpx.post(f"{address}/api/query", json={"sql": sql, "max_rows": 1_000_000}, timeout=120)
        status = Path(f"/proc/{server.pid}/status").read_text()

    assert answer.json()["truncated"]
    assert 60_000_000 < len(answer.content) < 70_000_000
    peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))
    assert peak / 1024 < 400
