"""Savepoints written by real Flink, and the real application over them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from catalog import Catalog, connect
from catalog.catalog import Root
from service.base.settings import Settings
from service.doors.app import create_app
from service.query.engines.duckdb.engine import DuckDBEngine
from service.query.engines.engine import Progress
from service.query.running.request import QueryRequest
from service.query.serving.registry import Queries
from tests.support import serving as serving_support
from tests.support.paths import DATA
from tests.support.serving import listening

FLINK = DATA / "flink"
NATIVE = FLINK / "2.3.0" / "wordcount-rocksdb-savepoints" / "native"
workers_with_their_share = serving_support.workers_with_their_share


class Asker:
    """Asks a catalog through the whole service, in process."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        settings = Settings()
        self.engine = DuckDBEngine(settings)
        self.queries = Queries(catalog, {"duckdb": self.engine}, settings)
        self.bytes_read = 0
        self.progress = Progress()

    def rows(self, sql: str, **request: Any) -> list[tuple[Any, ...]]:
        with self.queries.start(QueryRequest(sql=sql, **request)) as query:
            batches = list(query.batches())
        self.bytes_read = query.progress.bytes_read
        self.progress = query.progress
        return [tuple(row) for batch in batches for row in zip(*map(_values, batch.columns), strict=True)]


def _values(array: Any) -> list[Any]:
    values: list[Any] = array.to_pylist()
    return values


@pytest.fixture
def ask_of() -> Iterator[Callable[[Catalog], Asker]]:
    """Makes an `Asker` of a catalog; closed at the end of the test."""
    made: list[Asker] = []

    def ask(catalog: Catalog) -> Asker:
        made.append(Asker(catalog))
        return made[-1]

    yield ask
    for asker in made:
        asker.queries.close()


@pytest.fixture(scope="session")
def native() -> Iterator[Asker]:
    """The sample savepoint: WordCount of Flink 2.3.0, RocksDB, native format."""
    asker = Asker(connect(NATIVE))
    yield asker
    asker.queries.close()


@pytest.fixture(scope="session")
def two() -> Iterator[Asker]:
    """Two savepoints of one job: `canonical` and `native`."""
    asker = Asker(Catalog([Root(path=str(NATIVE.parent / name)) for name in ("canonical", "native")]))
    yield asker
    asker.queries.close()


@pytest.fixture(scope="session")
def client() -> Iterator[httpx.Client]:
    """A client of the service, which listens on a port of its own, over both savepoints.

    Paths under the fixtures of Flink 2.3.0 may be registered.
    """
    catalog = Catalog([Root(path=str(NATIVE.parent / name)) for name in ("canonical", "native")])
    settings = Settings.of(max_sql_bytes=64 * 1024, max_request_bytes=128 * 1024)
    app = create_app(settings, catalog, roots=[str(FLINK / "2.3.0")])
    with listening(app) as address, httpx.Client(base_url=address, timeout=60) as http:
        yield http


@pytest.fixture(scope="session")
def serving() -> Callable[[FastAPI], AbstractContextManager[str]]:
    """Serves an application; gives its address."""
    return listening
