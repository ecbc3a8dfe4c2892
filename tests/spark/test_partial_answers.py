"""Answers over missing files: Spark fails with the name of the file, or answers in part when asked, as DuckDB does."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest

from catalog import Catalog
from catalog.catalog import Root
from readers import ReaderError
from service.base.errors import QueryError, query_error_of
from service.query.engines.duckdb.engine import DuckDBEngine
from service.query.engines.engine import Engine
from service.query.engines.spark.engine import SparkEngine
from service.query.sql.plan import Plan, UnreadFile
from service.query.sql.planner import plan
from tests.spark.conftest import FLINK
from tests.support.damaged import remove, write_in_files

pytestmark = pytest.mark.spark

CHECKPOINT = FLINK / "2.3.0" / "wordcount-rocksdb-checkpoint-incremental" / "checkpoint"
KEYED = 'SELECT key, value, "_subtask" FROM d.aggregate__count'
OFFSETS = 'SELECT operator_id, subtask, "partition" FROM d.source_offsets'


def answered(engine: Engine, planned: Plan) -> tuple[list[str], set[UnreadFile]]:
    """Return the rows of an answer, and the files that it lacks."""
    with closing(engine.execution(planned)) as execution:
        rows = execution.open().read_all().to_pylist()
        return sorted(map(str, rows)), {*planned.incomplete, *execution.progress.incomplete}


def failure(engine: Engine, catalog: Catalog, sql: str) -> str:
    try:
        answered(engine, plan(sql, catalog))
    except QueryError as error:
        return error.message
    except ReaderError as error:
        return query_error_of(error).message
    raise AssertionError("expected an error")


@pytest.mark.parametrize(
    ("sql", "pattern"),
    [
        (KEYED, "aggregate-1.*"),
        ("SELECT key, value FROM d.aggregate", "aggregate-*"),
        ("SELECT count(*), sum(value) FROM d.aggregate__count", "aggregate-1.*"),
        (OFFSETS, "source-1.*"),
        ("SELECT * FROM d.timers", "aggregate-*"),
    ],
)
def test_spark_answers_beside_missing_files_as_duckdb_does(
    sql: str, pattern: str, tmp_path: Path, duckdb_engine: DuckDBEngine, spark_engine: SparkEngine
) -> None:
    folder = write_in_files(FLINK / "2.3.0/wordcount-hashmap-savepoints/canonical", tmp_path / "d")
    files = sorted(folder.glob(pattern))
    for file in files:
        remove(file)
    catalog = Catalog([Root(path=str(folder), label="d")])

    expected = answered(duckdb_engine, plan(sql, catalog).partial())
    found = answered(spark_engine, plan(sql, catalog).partial())

    assert found == expected
    assert {Path(file.path or "").name for file in found[1]} == {file.name for file in files}
    assert any(file.name in failure(spark_engine, catalog, sql) for file in files)


def test_spark_answers_beside_a_missing_table_of_rocksdb_as_duckdb_does(
    tmp_path: Path, duckdb_engine: DuckDBEngine, spark_engine: SparkEngine
) -> None:
    job = shutil.copytree(CHECKPOINT, tmp_path / "job")
    whole = Catalog([Root(path=str(job / "chk-2"), label="d")])
    [operator] = [one for one in whole.database("d").savepoint.operators if one.metadata.uid == "aggregate"]
    rows = whole.database("d").table("files").scan(operator_id=operator.operator_id, subtask=1).to_arrow()
    shared = {path.name: path for path in (job / "shared").iterdir()}
    missing = next(
        shared[name] for row in rows.to_pylist() if (name := row["path"].rpartition("/")[2]) in shared
    )
    damaged = shutil.copytree(job, tmp_path / "damaged")
    (damaged / "shared" / missing.name).unlink()
    catalog = Catalog([Root(path=str(damaged / "chk-2"), label="d")])

    expected = answered(duckdb_engine, plan(KEYED, catalog).partial())
    found = answered(spark_engine, plan(KEYED, catalog).partial())

    assert found == expected
    assert [Path(file.path or "").name for file in found[1]] == [missing.name]
    assert found[0]
    assert missing.name in failure(spark_engine, catalog, KEYED)


def test_a_file_that_turns_out_corrupt_while_spark_reads_it_fails_the_query(
    tmp_path: Path, duckdb_engine: DuckDBEngine, spark_engine: SparkEngine
) -> None:
    folder = write_in_files(FLINK / "2.3.0/wordcount-hashmap-savepoints/canonical", tmp_path / "d")
    [file] = folder.glob("aggregate-1.*")
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2].ljust(len(data), b"\xff"))
    catalog = Catalog([Root(path=str(folder), label="d")])

    _, [lacking] = answered(duckdb_engine, plan(KEYED, catalog).partial())

    assert Path(lacking.path or "").name == file.name
    with pytest.raises(QueryError, match=file.name):
        answered(spark_engine, plan(KEYED, catalog).partial())
