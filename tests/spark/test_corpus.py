"""Every table of the corpus' savepoints has the same rows on both engines."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from catalog import Catalog, connect
from readers.decode.jsontext import json_text
from service.engines import DuckDBEngine
from service.engines.engine import Execution
from service.engines.spark import SparkEngine
from service.sql import plan

pytestmark = pytest.mark.spark

_CASES = [
    "1.20.3/wordcount-hashmap-savepoints/canonical",
    "2.3.0/alltypes-hashmap/canonical",
    "2.3.0/async-v2-hashmap/native",
    "2.3.0/source-kafka-hashmap/canonical",
    "2.3.0/sql-join-rocksdb/canonical",
]


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


@pytest.mark.parametrize("case", _CASES)
def test_every_table_has_the_same_rows(
    case: str, corpus: Path, duckdb_engine: DuckDBEngine, spark_engine: SparkEngine
) -> None:
    if not (corpus / case).is_dir():
        pytest.skip(f"the corpus has no {case}")
    catalog = connect(corpus / case)

    different = []
    for table in tables(catalog):
        planned = plan(f'SELECT * FROM "{table}"', catalog)
        expected = answer(duckdb_engine.execution(planned))
        if answer(spark_engine.execution(planned, 1_000_000)) != expected:
            different.append(table)

    assert different == []
