"""One text, one meaning: every statement has the answer that plain DuckDB gives over the same rows.

A statement that plain DuckDB refuses is refused here, too. Here some more are refused: forms that sqlglot cannot read are a
syntax error. A few hundred expressions run every time, thousands in `make test-slow`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from catalog.scan import ANYTHING
from service.base.errors import QueryError, QuerySyntaxError
from service.query.running.request import QueryRequest
from service.query.sql.text import parsed
from tests.support.answers import Answer, comparable
from tests.support.examples import examples
from tests.support.expressions import Expressions

_TABLES = ("aggregate", "mod7-no-uid__seen")
_TOGETHER = 12


@pytest.fixture(scope="module")
def plain(native: Any) -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB with the tables of the sample savepoint, without a line of ours between text and answer."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("CREATE SCHEMA native")
        for name in _TABLES:
            rows = native.catalog.default.table(name).plan(ANYTHING).to_arrow()
            connection.register("rows", rows)
            connection.execute(f'CREATE TABLE native."{name}" AS SELECT * FROM rows')
            connection.unregister("rows")
        connection.execute("SET search_path = 'native'")
        yield connection


_SEEDS = [14, *range(100, 100 + examples(30))]


@pytest.mark.slow
@pytest.mark.parametrize("seed", _SEEDS)
def test_expressions_mean_what_duckdb_reads(native: Any, plain: duckdb.DuckDBPyConnection, seed: int) -> None:
    """A dozen expressions at once, and those alone that DuckDB refuses."""
    made = Expressions(seed)
    accepted, refused, unread = [], [], 0
    for _ in range(300):
        text = made.expression()
        if _plain_answer(plain, _over_rows(text)) is None:
            refused.append(text)
        elif _is_read(_over_rows(text)):
            accepted.append(text)
        else:
            unread += 1

    for start in range(0, len(accepted), _TOGETHER):
        sql = _over_rows(", ".join(accepted[start : start + _TOGETHER]))
        assert _answer(native, sql) == _plain_answer(plain, sql), sql
    for text in refused[::4]:
        assert _answer(native, _over_rows(text)) is None, text
    assert len(accepted) > 100
    assert unread < 10


@pytest.mark.slow
@pytest.mark.parametrize("seed", _SEEDS)
def test_statements_mean_what_duckdb_reads(native: Any, plain: duckdb.DuckDBPyConnection, seed: int) -> None:
    made = Expressions(seed)
    for sql in filter(_is_read, (made.statement() for _ in range(120))):
        assert _answer(native, sql) == _plain_answer(plain, sql), sql


def _over_rows(text: str) -> str:
    return f"SELECT {text} FROM aggregate WHERE key IN ('key_1', 'key_17', 'key_662')"


def _is_read(sql: str) -> bool:
    """Return whether sqlglot can read a statement."""
    try:
        parsed(sql)
    except QuerySyntaxError:
        return False
    return True


def _plain_answer(plain: duckdb.DuckDBPyConnection, sql: str) -> Answer | None:
    """Return names of columns and rows; None if DuckDB refuses the statement."""
    try:
        return comparable(plain.sql(sql).to_arrow_table())
    except duckdb.Error:
        return None


def _answer(native: Any, sql: str) -> Answer | None:
    try:
        with native.queries.start(QueryRequest(sql=sql)) as query:
            batches = list(query.batches())
            names = [column.name for column in query.columns]
    except QueryError:
        return None
    # A reader of batches gives none for an answer without rows.
    return comparable(pa.Table.from_batches(batches)) if batches else (names, [])
