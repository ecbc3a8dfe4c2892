"""Every answer names its checkpoints, in every format and protocol."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx
import orjson
import pyarrow as pa
import pytest
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet
from trino.dbapi import connect

from catalog import Catalog
from catalog.catalog import Root
from service.base.settings import Settings
from service.doors.app import create_app
from service.query.running.request import HEADER, Origin, headers_of
from tests.support.paths import DATA

FLINK = DATA / "flink" / "2.3.0"
WORDCOUNT = FLINK / "wordcount-rocksdb-savepoints"
STREAMS = {
    "application/vnd.apache.arrow.stream",
    "text/csv",
    "application/vnd.apache.parquet",
    "application/jsonl",
}
BOTH = "SELECT count(*) AS n FROM native.aggregate, canonical.aggregate"

Serving = Callable[[FastAPI], AbstractContextManager[str]]


@pytest.fixture(scope="module")
def http(serving: Serving) -> Iterator[httpx.Client]:
    app = create_app(
        Settings.of(workers=1),
        Catalog([Root(path=str(WORDCOUNT / name)) for name in ("canonical", "native")]),
    )
    with serving(app) as address, httpx.Client(base_url=address, timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def databases(http: httpx.Client) -> Any:
    """The savepoints in the JSON answer of the query that reads both."""
    answer = http.post("/api/query", json={"sql": BOTH}).json()
    assert [one["name"] for one in answer["databases"]] == ["native", "canonical"]
    for one in answer["databases"]:
        assert one["checkpoint_id"] == http.get(f"/api/databases/{one['name']}").json()["checkpoint_id"]
    return answer["databases"]


def streamed(http: httpx.Client, accept: str, sql: str = BOTH) -> httpx.Response:
    response = http.post("/api/query", json={"sql": sql}, headers={"accept": accept})
    assert response.status_code == 200, response.text
    return response


@pytest.mark.slow
@pytest.mark.parametrize("accept", sorted(STREAMS))
def test_a_stream_names_its_savepoints_in_a_header(accept: str, http: httpx.Client, databases: Any) -> None:
    expected = ", ".join(f'"{one["name"]}";checkpoint_id={one["checkpoint_id"]}' for one in databases)

    assert streamed(http, accept).headers["x-databases"] == expected


def test_arrow_and_parquet_name_their_savepoints_in_the_schema(http: httpx.Client, databases: Any) -> None:
    arrow = streamed(http, "application/vnd.apache.arrow.stream")
    table = pa.ipc.open_stream(arrow.content).read_all()
    file = parquet.read_table(io.BytesIO(streamed(http, "application/vnd.apache.parquet").content))

    for found in (table, file):
        assert found.to_pylist() == [{"n": 1_000_000}]
        assert orjson.loads(found.schema.metadata[b"savepointdb.databases"]) == databases
    assert table.schema.metadata[b"savepointdb.query_id"].decode() == arrow.headers["x-query-id"]


def test_an_answer_without_savepoints_names_none(http: httpx.Client) -> None:
    response = streamed(http, "application/vnd.apache.arrow.stream", "SELECT 1")

    assert "x-databases" not in response.headers
    assert pa.ipc.open_stream(response.content).schema.metadata[b"savepointdb.databases"] == b"[]"


def test_an_alias_is_replaced_by_its_savepoint(http: httpx.Client, databases: Any) -> None:
    response = streamed(http, "text/csv", "SELECT count(*) FROM latest.aggregate")

    assert response.headers["x-databases"] in {
        f'"{one["name"]}";checkpoint_id={one["checkpoint_id"]}' for one in databases
    }


def test_a_started_query_names_its_savepoints_while_it_runs_and_in_its_result(
    http: httpx.Client, databases: Any
) -> None:
    query_id = http.post("/api/queries", json={"sql": BOTH}).json()["query_id"]
    result = http.get(f"/api/queries/{query_id}/result", headers={"accept": "text/csv"})

    assert http.get(f"/api/queries/{query_id}").json()["databases"] == databases
    assert result.headers["x-databases"].startswith('"native";checkpoint_id=')


def test_trinos_info_uri_leads_to_the_savepoints(http: httpx.Client, databases: Any) -> None:
    address = urlsplit(str(http.base_url))
    # The user of the pages at `infoUri` is who asks for them: by address, where there are no keys.
    with connect(host=address.hostname, port=address.port, user="127.0.0.1", catalog="flink") as connection:
        cursor = connection.cursor()
        cursor.execute(BOTH)

        assert cursor.fetchall() == [[1_000_000]]
        told = http.get(cursor.info_uri).json()
    assert told["databases"] == databases


def test_pages_of_trinos_protocol_have_the_header(http: httpx.Client, databases: Any) -> None:
    page = http.post("/v1/statement", content=BOTH, headers={"x-trino-user": "somebody"})
    found = set()
    while "nextUri" in page.json():
        page = http.get(page.json()["nextUri"])
        found.add(page.headers.get("x-databases"))

    expected = ", ".join(f'"{one["name"]}";checkpoint_id={one["checkpoint_id"]}' for one in databases)
    assert page.headers["x-databases"] == expected
    assert found <= {None, expected}


@given(
    st.lists(
        st.builds(Origin, st.text(min_size=1, max_size=300), st.integers(0, 2**63 - 1), st.just("/path")),
        max_size=60,
    )
)
def test_the_header_is_short_and_safe_and_counts_all_savepoints(origins: list[Origin]) -> None:
    headers = headers_of(origins)
    value = headers.get(HEADER, "")
    members = value.split(", ") if value else []
    more = [int(member.removeprefix("more;databases=")) for member in members if member.startswith("more;")]
    named = [member for member in members if not member.startswith("more;")]

    assert len(value) <= 2000
    assert value.isascii()
    assert all(char.isprintable() for char in value)
    assert len(named) + sum(more) == len(origins)
    for member, origin in zip(named, origins, strict=False):
        name, _, number = member.rpartition(";checkpoint_id=")
        assert (unquote(name.strip('"')), int(number)) == (origin.name, origin.checkpoint_id)
