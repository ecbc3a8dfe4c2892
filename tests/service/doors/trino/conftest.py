"""The real application, and a minimal client of Trino's protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from catalog import Catalog
from catalog.catalog import Root
from service.base.settings import Settings
from service.doors.app import create_app
from tests.support.paths import DATA

FLINK = DATA / "flink" / "2.3.0"
JOB = FLINK / "wordcount-rocksdb-savepoints"

Serving = Callable[[FastAPI], AbstractContextManager[str]]


class Speaker:
    """Sends statements as clients do, and keeps the answers."""

    def __init__(self, address: str, **headers: str) -> None:
        self.http = httpx.Client(base_url=address, timeout=60)
        self.headers = {
            "X-Trino-User": "alice",
            "X-Trino-Catalog": "flink",
            "X-Trino-Schema": "native",
            "X-Trino-Client-Capabilities": "PARAMETRIC_DATETIME",
            **headers,
        }

    def __enter__(self) -> Speaker:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def post(self, sql: str, **headers: str) -> httpx.Response:
        return self.http.post("/v1/statement", content=sql.encode(), headers={**self.headers, **headers})

    def pages(self, sql: str, **headers: str) -> list[dict[str, Any]]:
        """All pages, the first one included."""
        response = self.post(sql, **headers)
        found = []
        while True:
            assert response.status_code == 200, response.text
            found.append(response.json() | {"headers": response.headers})
            if "nextUri" not in found[-1]:
                return found
            response = self.http.get(found[-1]["nextUri"], headers={**self.headers, **headers})

    def running(self, sql: str, **headers: str) -> dict[str, Any]:
        """The first page that shows that the query runs: before it, the query may not have started."""
        page: dict[str, Any] = self.post(sql, **headers).json()
        while page["stats"]["state"] != "RUNNING":
            page = self.http.get(page["nextUri"], headers={**self.headers, **headers}).json()
        return page

    def rows(self, sql: str, **headers: str) -> list[list[Any]]:
        pages = self.pages(sql, **headers)
        assert "error" not in pages[-1], pages[-1]["error"]
        return [row for page in pages for row in page.get("data", [])]

    def error(self, sql: str, **headers: str) -> dict[str, Any]:
        error: dict[str, Any] = self.pages(sql, **headers)[-1]["error"]
        return error

    def types(self, sql: str) -> list[str]:
        columns = next(page["columns"] for page in self.pages(sql) if "columns" in page)
        return [column["type"] for column in columns]


@pytest.fixture(scope="session")
def address(serving: Serving) -> Iterator[str]:
    """Address of a service over both savepoints of the sample job, `canonical` and `native`."""
    settings = Settings.of(max_sql_bytes=64 * 1024, max_request_bytes=128 * 1024)
    with serving(
        create_app(settings, Catalog([Root(path=str(JOB / name)) for name in ("canonical", "native")]))
    ) as found:
        yield found


@pytest.fixture(scope="session")
def everything(serving: Serving) -> Iterator[str]:
    """Address of a service over a savepoint with every kind of state and type."""
    catalog = Catalog(
        [Root(path=str(FLINK / "everything-hashmap-savepoints" / name)) for name in ("canonical", "native")]
    )
    with serving(create_app(Settings(), catalog)) as found:
        yield found


@pytest.fixture(scope="session")
def trino(address: str) -> Iterator[Speaker]:
    """A speaker of the protocol for the service."""
    with Speaker(address) as speaker:
        yield speaker
