"""Masks on Spark: its executors mask as DuckDB's scans do, below the statement."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from catalog import Catalog
from catalog.masks.masks import Masks
from service.query.engines.duckdb.engine import DuckDBEngine
from service.query.engines.spark.engine import SparkEngine
from tests.support.engines import rows_by

pytestmark = pytest.mark.spark

MASKS = """
version = 1
[[mask]]
columns = ["aggregate.key"]
with = "pseudonym"
"""
HIDDEN = re.compile(r"key_\d")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM w.aggregate__count",
        "SELECT min(key) AS a, max(key) AS b, count(DISTINCT key) AS c FROM w.aggregate__count",
        "SELECT count(*) AS n FROM w.aggregate__count WHERE key = 'key_662'",
        "SELECT count(*) AS n FROM w.aggregate__count WHERE key LIKE 'key%'",
        "SELECT key, count(*) AS n FROM w.aggregate GROUP BY key ORDER BY key LIMIT 5",
        "SELECT count(*) AS n FROM w.aggregate__count a JOIN w.aggregate b ON a.key = b.key",
    ],
)
def test_executors_mask_as_scans_here_do(
    savepoints: Catalog, spark_engine: SparkEngine, duckdb_engine: DuckDBEngine, sql: str
) -> None:
    masks = replace(Masks.parse(MASKS), secret=b"0123456789abcdef")
    visible = savepoints.visible(lambda _name: True, masks)

    found = rows_by(spark_engine, visible, sql, "duckdb")

    assert sorted(map(repr, found)) == sorted(map(repr, rows_by(duckdb_engine, visible, sql, "duckdb")))
    assert HIDDEN.search(repr(found)) is None
    assert found != rows_by(spark_engine, savepoints, sql, "duckdb") or "JOIN" in sql
