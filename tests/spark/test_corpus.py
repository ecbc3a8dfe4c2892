"""Every table of savepoints with all kinds of states, types and SQL operators has the same rows on both engines."""

from __future__ import annotations

import pyarrow as pa
import pytest

from catalog import Catalog, connect
from readers.jsontext import json_text
from service.query.engines.duckdb.engine import DuckDBEngine
from service.query.engines.engine import Execution
from service.query.engines.spark.engine import SparkEngine
from service.query.sql.planner import plan
from tests.spark.conftest import CASES

pytestmark = pytest.mark.spark


def answer(execution: Execution) -> tuple[pa.Schema, list[str]]:
    try:
        table = execution.open().read_all()
    finally:
        execution.close()
    columns = [json_text(_jsonable(column.combine_chunks())).to_pylist() for column in table.columns]
    return table.schema, sorted(str(row) for row in zip(*columns, strict=True))


def _jsonable(array: pa.Array) -> pa.Array:
    return array.cast(pa.string()) if pa.types.is_time(array.type) or pa.types.is_null(array.type) else array


def tables(catalog: Catalog) -> list[str]:
    database = catalog.default
    assert database is not None
    return database.tables


@pytest.mark.parametrize("case", CASES)
def test_every_table_has_the_same_rows(
    case: str, duckdb_engine: DuckDBEngine, spark_engine: SparkEngine
) -> None:
    catalog = connect(CASES[case])

    different = []
    for table in tables(catalog):
        planned = plan(f'SELECT * FROM "{table}"', catalog)
        expected = answer(duckdb_engine.execution(planned))
        if answer(spark_engine.execution(planned, 1_000_000)) != expected:
            different.append(table)

    assert different == []
