"""The history of a job on Spark and on DuckDB: the same rows, of checkpoints that share files, and of states that came later."""

from __future__ import annotations

import pytest

from catalog import Catalog, Root
from service.cli import main
from service.query.engines.duckdb.engine import DuckDBEngine
from service.query.engines.spark.engine import SparkEngine
from tests.support.checkpoints import put
from tests.support.engines import rows_by

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    root = tmp_path_factory.mktemp("root")
    for number in (1, 2):
        put(root / "job" / f"chk-{number}", number)
    script = "CREATE TABLE aggregate__flags AS SELECT 'key_662' AS key, 7 AS value"
    assert main(["write", str(root / "job" / "chk-2"), script, "--to", str(root / "job" / "chk-3")]) == 0
    return Catalog([Root(path=str(root), label="prod")])


@pytest.mark.parametrize(
    ("dialect", "sql"),
    [
        (
            "duckdb",
            "SELECT _checkpoint_id, _checkpoint_at, _database, value FROM job__history.aggregate__count "
            "WHERE key = 'key_662' ORDER BY _database",
        ),
        (
            "trino",
            "SELECT _database, count(*) AS n, sum(value) AS total FROM job__history.aggregate__count "
            "WHERE _checkpoint_id >= 2 GROUP BY _database ORDER BY _database",
        ),
        ("duckdb", "SELECT * FROM job__history.aggregate__flags ORDER BY _database"),
        (
            "duckdb",
            "SELECT _database, change, key, value_before, value_after FROM job__history.changes('aggregate__count') "
            "WHERE key < 'key_52' ORDER BY _database, key",
        ),
        (
            "trino",
            "SELECT _checkpoint_id, _database, change, count(*) AS n FROM TABLE(job__history.changes('aggregate__flags')) "
            "GROUP BY _checkpoint_id, _database, change",
        ),
        ("duckdb", "SELECT job, checkpoints, history FROM savepointdb.jobs"),
    ],
)
def test_spark_finds_the_rows_that_duckdb_finds(
    job: Catalog, spark_engine: SparkEngine, duckdb_engine: DuckDBEngine, dialect: str, sql: str
) -> None:
    found = rows_by(spark_engine, job, sql, dialect)

    assert found
    assert found == rows_by(duckdb_engine, job, sql, dialect)
