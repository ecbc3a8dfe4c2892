"""The service with Spark beside DuckDB: by HTTP and by command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pyarrow as pa
import pytest

from catalog import Catalog
from service.base.settings import Settings
from service.doors.app import create_app
from tests.spark.conftest import MANY, WORDCOUNT, processes_with, run_python
from tests.support.serving import listening
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ARROW = "application/vnd.apache.arrow.stream"


@pytest.fixture(scope="module")
def client(spark: SparkSession, savepoints: Catalog) -> Iterator[httpx.Client]:
    """A client of the service, whose Spark is that of the tests."""
    app = create_app(Settings.of(max_timeout_s=600), savepoints)
    with listening(app) as address, httpx.Client(base_url=address, timeout=120) as http:
        yield http


def asked(client: httpx.Client, sql: str, accept: str = "application/json", **body: Any) -> httpx.Response:
    return client.post(
        "/api/query",
        json={"sql": sql, "engine": "spark", "timeout_s": 110} | body,
        headers={"accept": accept},
    )


def test_spark_answers_as_duckdb_and_says_so(client: httpx.Client) -> None:
    sql = "SELECT _key_group, sum(value) AS total FROM w.aggregate__count GROUP BY ALL ORDER BY ALL"

    found = asked(client, sql).json()
    expected = asked(client, sql, engine="duckdb").json()

    assert (found["engine"], found["engine_reason"]) == ("spark", "the request names it")
    assert found["rows"] == expected["rows"]
    assert found["columns"] == expected["columns"]
    assert found["bytes_read"] > 0


def test_rows_beyond_those_wanted_are_cut(client: httpx.Client) -> None:
    answer = asked(client, "FROM w.aggregate__count ORDER BY key", max_rows=3).json()

    assert (answer["row_count"], answer["truncated"]) == (3, True)


def test_a_long_answer_is_streamed(client: httpx.Client) -> None:
    response = asked(client, "FROM w.aggregate__count ORDER BY key", ARROW)

    table = pa.ipc.open_stream(response.content).read_all()
    expected = asked(client, "FROM w.aggregate__count ORDER BY key", ARROW, engine="duckdb")
    assert table.equals(pa.ipc.open_stream(expected.content).read_all())


def test_what_spark_would_answer_otherwise_is_refused_by_name_and_not_by_auto(client: httpx.Client) -> None:
    sql = "SELECT approx_count_distinct(key) > 0 FROM w.aggregate__count"

    refused = asked(client, sql)
    answered = asked(client, sql, engine="auto")

    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "NOT_ON_SPARK")
    assert "duckdb" in refused.json()["error"]["hint"]
    assert (answered.json()["engine"], answered.json()["rows"]) == ("duckdb", [[True]])


def test_explain_shows_the_engine_and_its_plan(client: httpx.Client) -> None:
    [[_, text]] = asked(client, "EXPLAIN SELECT sum(value) FROM w.aggregate__count").json()["rows"]

    assert text.startswith("engine: spark\nreason: the request names it\n")
    assert "Arguments: savepoint(" in text


def test_errors_of_the_data_have_their_code(client: httpx.Client) -> None:
    response = asked(client, "SELECT value // (value - value) FROM w.aggregate__count")

    assert (response.status_code, response.json()["error"]["code"]) == (400, "INVALID_VALUE")


def test_a_query_is_cancelled_long_before_it_is_done(client: httpx.Client) -> None:
    body = {"sql": MANY, "engine": "spark", "timeout_s": 600}
    query_id = client.post("/api/queries", json=body).json()["query_id"]
    address = f"/api/queries/{query_id}"
    wait_until(lambda: client.get(address).json()["progress"]["splits_total"])

    client.delete(address)

    assert client.get(address).json()["state"] == "cancelled"


def test_a_query_that_is_late_ends(client: httpx.Client) -> None:
    response = asked(client, MANY, timeout_s=2)

    assert response.json()["error"]["code"] == "EXCEEDED_TIME_LIMIT"


def test_the_command_line_leaves_nothing_behind(tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    ran = run_python(
        *("-m", "service.cli", "query", "SELECT sum(value) AS s FROM aggregate__count"),
        *("--savepoint", str(WORDCOUNT), "--engine", "spark", "--format", "json", "--timeout-s", "200"),
        *("--spark-options", "spark.sql.shuffle.partitions=1"),
        folder=tmp_path,
        TMPDIR=str(temporary),
    )

    assert ran.returncode == 0, ran.stderr
    assert len(json.loads(ran.stdout)) == 1
    wait_until(lambda: not processes_with(str(temporary)))
    assert [path.name for path in temporary.iterdir()] == []
    assert [path.name for path in tmp_path.iterdir()] == ["tmp"]
