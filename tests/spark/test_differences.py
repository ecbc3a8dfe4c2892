"""`diff` on Spark and on DuckDB: the same rows, of savepoints that two formats hold, and of a job that went on."""

from __future__ import annotations

import pytest

from catalog import Catalog, Root
from service.query.engines.duckdb.engine import DuckDBEngine
from service.query.engines.spark.engine import SparkEngine
from tests.support.engines import rows_by
from tests.support.paths import DATA

pytestmark = pytest.mark.spark

FLINK = DATA / "flink" / "2.3.0"
JOB = FLINK / "wordcount-rocksdb-checkpoint-incremental" / "checkpoint"


@pytest.fixture(scope="module")
def compared() -> Catalog:
    roots = {
        "a": JOB / "chk-1",
        "b": JOB / "chk-2",
        "c": FLINK / "wordcount-hashmap-savepoints" / "canonical",
    }
    return Catalog([Root(path=str(path), label=label) for label, path in roots.items()])


@pytest.mark.parametrize(
    ("dialect", "sql"),
    [
        (
            "duckdb",
            "SELECT change, key, value_before, value_after FROM diff('a', 'b', 'aggregate__count') "
            "WHERE key < 'key_52' ORDER BY key",
        ),
        (
            "trino",
            "SELECT change, count(*) AS n FROM TABLE(diff('b', 'c', 'aggregate__count')) GROUP BY change",
        ),
        (
            "duckdb",
            "SELECT table_name, change, added, removed, changed FROM diff('a', 'b') ORDER BY table_name",
        ),
    ],
)
def test_spark_finds_the_rows_that_duckdb_finds(
    compared: Catalog, spark_engine: SparkEngine, duckdb_engine: DuckDBEngine, dialect: str, sql: str
) -> None:
    found = rows_by(spark_engine, compared, sql, dialect)

    assert found
    assert sorted(map(repr, found)) == sorted(map(repr, rows_by(duckdb_engine, compared, sql, dialect)))
