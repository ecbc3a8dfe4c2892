"""Two dialects, one meaning: Trino's text has the answer of the DuckDB text that means the same, or is an error.

The pairs of texts are in `tests/support/dialects.py`. DuckDB's half runs in plain DuckDB. A fixed seed runs every time, many more
in `make test-slow`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from catalog.scan import ANYTHING
from service.base.errors import QueryError
from service.query.running.request import QueryRequest
from tests.support.answers import comparable
from tests.support.dialects import Pairs
from tests.support.examples import examples

_SEEDS = [14, *range(400, 400 + examples(20))]


@pytest.fixture(scope="module")
def plain(native: Any) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        rows = native.catalog.default.table("aggregate").plan(ANYTHING).to_arrow()
        connection.register("rows", rows)
        connection.execute("CREATE TABLE aggregate AS FROM rows")
        yield connection


@pytest.mark.slow
@pytest.mark.parametrize("seed", _SEEDS)
def test_trinos_text_has_the_answer_of_duckdbs(
    native: Any, plain: duckdb.DuckDBPyConnection, seed: int
) -> None:
    made = Pairs(seed)
    answered = 0
    for _ in range(150):
        trino, written = made.expression()
        tail = "AS x FROM aggregate WHERE key IN ('key_1', 'key_17', 'key_662')"
        try:
            expected = comparable(plain.sql(f"SELECT {written} {tail}").to_arrow_table())[1]
        except duckdb.Error:
            continue
        found = _answer(native, f"SELECT {trino} {tail}")
        if found is not None:
            assert found == expected, f"{trino}\n{written}"
            answered += 1

    assert answered > 60


def _answer(native: Any, sql: str) -> list[str] | None:
    """Return the rows; None if the statement is refused, or fails for a value."""
    try:
        with native.queries.start(QueryRequest(sql=sql, dialect="trino")) as query:
            batches = list(query.batches())
    except QueryError:
        return None
    return comparable(pa.Table.from_batches(batches))[1]
