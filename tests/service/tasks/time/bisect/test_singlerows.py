"""Which queries have a row whatever their tables hold; DuckDB says the same of empty tables."""

from __future__ import annotations

import duckdb
import pytest

from service.tasks.time.bisect import always_has_a_row

ALWAYS = [
    "SELECT count(*) FROM t",
    "FROM t SELECT count(*)",
    "SELECT sum(a) > 5 AS b FROM t WHERE a < 0",
    "SELECT 1 + coalesce(max(a), 0) FROM t JOIN u USING (a)",
    "SELECT count(*) FILTER (WHERE a > 1), 7 FROM t ORDER BY 1 LIMIT 1",
    "SELECT kurtosis_pop(a) FROM t",
    "SELECT n FROM (SELECT count(*) AS n FROM t)",
    "WITH c AS (SELECT count(*) AS n FROM t), d AS (SELECT * FROM c) SELECT n FROM d",
    "SELECT a FROM t UNION ALL SELECT max(a) FROM t",
    "SELECT 1",
]
NOT_ALWAYS = [
    "SELECT a FROM t",
    "SELECT count(*) FROM t HAVING count(*) > 0",
    "SELECT a, count(*) FROM t GROUP BY a",
    "SELECT count(*) OVER () FROM t",
    "SELECT (SELECT count(*) FROM u) FROM t",
    "SELECT n FROM (SELECT count(*) AS n FROM t) WHERE n > 0",
    "WITH t AS (SELECT a FROM t) SELECT a FROM t",
    "SELECT count(*) FROM t LIMIT 0",
    "SELECT count(*) FROM t OFFSET 1",
    "SELECT count(*) FROM t EXCEPT SELECT 0",
    "SELECT 1 WHERE false",
]


@pytest.mark.parametrize("sql", ALWAYS + NOT_ALWAYS)
def test_an_aggregate_over_no_rows_is_a_row(sql: str) -> None:
    with duckdb.connect() as session:
        session.execute("CREATE TABLE t (a INTEGER); CREATE TABLE u (a INTEGER)")
        rows = len(session.execute(sql).fetchall())

    assert (always_has_a_row(sql), rows > 0) == (sql in ALWAYS, sql in ALWAYS)


def test_what_is_no_query_has_no_certain_row() -> None:
    assert not always_has_a_row("SELECT FROM WHERE")
