"""Spark's text is made from sqlglot's tree: a statement that DuckDB reads differently is not for Spark."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from service.base.errors import NotOnSparkError
from service.query.engines.spark.engine import translation
from service.query.sql.plan import ReadStatement
from service.query.sql.planner import plan


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 'a' || 'b' ^@ 'a' || 'b'",
        "SELECT date_add(DATE '2024-01-31', 1)",
        "SELECT 2 ^ ~1 * 3",
        "SELECT '{\"a\": 1}'::JSON -> '$.a' = '1'",
    ],
)
def test_what_duckdb_reads_in_its_own_way_is_not_for_spark(native: Any, sql: str) -> None:
    with pytest.raises(NotOnSparkError):
        translation(plan(sql, native.catalog))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT INTEGER '007'::VARCHAR || key FROM aggregate",
        "SELECT TIMESTAMP '2020-06-01 01:02:03'::DATE",
        "SELECT key FROM native.aggregate a WHERE a.value IS NOT NULL AND NOT 1 = 1 IS NULL",
        "SELECT bool_and(value > 1), date_trunc('hour', TIMESTAMP '2024-01-01 10:11:12') FROM aggregate",
        "SELECT DATE '2024-01-31' + INTERVAL 1 MONTH, count(*) FROM native.aggregate",
        "SELECT CAST(value AS INT), value::TEXT, len(key), substring(key, 1, 2) FROM aggregate",
    ],
)
def test_what_only_looks_different_is_for_spark(native: Any, sql: str) -> None:
    assert translation(plan(sql, native.catalog)).sql


def test_a_tree_of_another_meaning_is_not_for_spark(native: Any) -> None:
    planned = plan("SELECT 1 + 2 * 3", native.catalog)

    with pytest.raises(NotOnSparkError, match="way of its own"):
        translation(replace(planned, reading=ReadStatement(planned.query, "SELECT (1 + 2) * 3")))
