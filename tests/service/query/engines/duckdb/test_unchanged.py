"""Statements whose rows are those of the scan: which they are, and that rows and types are those of DuckDB."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog import connect
from catalog.table import FactsTable
from service.base.settings import Settings
from service.query.encode.formats import json_column
from service.query.engines.duckdb.engine import DuckDBEngine
from service.query.engines.duckdb.guard import as_they_are, unchanged_columns
from service.query.sql.plan import Plan, TableReference
from service.query.sql.planner import plan
from tests.service.conftest import FLINK, NATIVE
from tests.support.examples import examples

CATALOG = connect(NATIVE)
BATCH = pa.RecordBatch.from_pydict(
    {
        "key": ["a", "b"],
        "value": [{"id": 1}, {"id": 2}],
        "Odd name": pa.array([3, 4], pa.int32()),
    }
)
EVERYTHING = list(BATCH.schema.names)


def planned(sql: str, batch: pa.RecordBatch = BATCH) -> Plan:
    """The plan of a statement over a given table `numbers`."""
    table = FactsTable("numbers", "", batch.schema, lambda: batch)
    found = plan(sql.replace("numbers", "aggregate"), CATALOG)
    references = [TableReference(name=each.name, database=None, table=table) for each in found.tables]
    return replace(found, tables=tuple(references))


@pytest.fixture(scope="module")
def engine() -> Iterator[DuckDBEngine]:
    made = DuckDBEngine(Settings.of(threads=2))
    yield made
    made.close()


def answered(engine: DuckDBEngine, statement: Plan) -> pa.Table:
    """The answer, as one batch a column."""
    execution = engine.execution(statement)
    try:
        return execution.open().read_all().combine_chunks()
    finally:
        execution.close()


def texts(table: pa.Table) -> list[tuple[str, ...]]:
    """The rows, sorted, each value as JSON: some dates are beyond Python's."""
    columns = [
        [text for chunk in column.chunks for text in json_column(chunk).to_pylist()]
        for column in table.columns
    ]
    return sorted(zip(*columns, strict=True))


def assert_same(found: pa.Table, expected: pa.Table) -> None:
    """Check for the same columns and the same rows in any order; NaN equals NaN."""
    assert found.schema.names == expected.schema.names
    assert found.schema.types == expected.schema.types
    assert texts(found) == texts(expected)


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("SELECT * FROM numbers", EVERYTHING),
        ("select * from numbers as n", EVERYTHING),
        ("FROM numbers", EVERYTHING),
        ("SELECT key FROM numbers", ["key"]),
        ('SELECT "Odd name", key, key AS again FROM numbers', ["Odd name", "key", "key"]),
        ("SELECT *, key FROM numbers", [*EVERYTHING, "key"]),
    ],
)
def test_columns_as_they_are_need_no_engine(sql: str, columns: list[str]) -> None:
    assert unchanged_columns(planned(sql)) == columns


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT DISTINCT key FROM numbers",
        "SELECT key FROM numbers WHERE key = 'a'",
        "SELECT key FROM numbers ORDER BY key",
        "SELECT key FROM numbers LIMIT 1",
        "SELECT key FROM numbers OFFSET 1",
        "SELECT key FROM numbers GROUP BY key",
        "SELECT key FROM numbers GROUP BY ALL",
        "SELECT key FROM numbers QUALIFY row_number() OVER () = 1",
        "SELECT key FROM numbers HAVING true",
        "SELECT key FROM numbers USING SAMPLE 1 ROWS",
        "SELECT key FROM numbers TABLESAMPLE 50%",
        "SELECT count(*) FROM numbers",
        "SELECT upper(key) FROM numbers",
        "SELECT value.id FROM numbers",
        "SELECT n.key FROM numbers n",
        "SELECT n.* FROM numbers n",
        "SELECT KEY FROM numbers",
        "SELECT * EXCLUDE (key) FROM numbers",
        "SELECT * REPLACE (1 AS key) FROM numbers",
        "SELECT * RENAME (key AS k) FROM numbers",
        "SELECT COLUMNS('k.*') FROM numbers",
        "SELECT a, b FROM numbers AS n(a, b, c)",
        "SELECT 1 FROM numbers",
        "SELECT key FROM numbers, numbers",
        "SELECT key FROM numbers UNION ALL SELECT key FROM numbers",
        "SELECT key FROM (SELECT key FROM numbers)",
        "WITH n AS (SELECT key FROM numbers) SELECT key FROM n",
        "WITH n AS (SELECT 1) SELECT key FROM numbers",
        "SELECT key FROM numbers PIVOT (count(*) FOR key IN ('a'))",
        "EXPLAIN SELECT key FROM numbers",
        "DESCRIBE SELECT key FROM numbers",
        "SELECT * FROM numbers, unnest([1, 2])",
        "SELECT 1",
    ],
)
def test_anything_more_is_for_the_engine(sql: str) -> None:
    assert unchanged_columns(planned(sql)) is None


@pytest.mark.parametrize(
    "arrow_type",
    [
        pa.null(),
        pa.uint64(),
        pa.large_string(),
        pa.dictionary(pa.int32(), pa.string()),
        pa.timestamp("ms", tz="UTC"),
        pa.timestamp("s"),
        pa.list_(pa.large_binary()),
        pa.struct([("f0", pa.time64("ns"))]),
        pa.map_(pa.string(), pa.duration("ms")),
        pa.binary(4),
    ],
    ids=str,
)
def test_types_that_an_engine_may_change_are_for_the_engine(arrow_type: pa.DataType) -> None:
    batch = pa.RecordBatch.from_arrays([pa.nulls(1, arrow_type)], ["value"])

    assert unchanged_columns(planned("SELECT * FROM numbers", batch)) is None


def values(arrow_type: pa.DataType) -> st.SearchStrategy[Any]:
    """Values of a column, NULL among them."""
    if pa.types.is_struct(arrow_type):
        found: st.SearchStrategy[Any] = st.fixed_dictionaries(
            {field.name: values(field.type) for field in arrow_type}
        )
    elif pa.types.is_map(arrow_type):
        keys = _VALUES[arrow_type.key_type]
        pairs = st.tuples(keys, values(arrow_type.item_type))
        found = st.lists(pairs, max_size=3, unique_by=lambda pair: pair[0])
    elif pa.types.is_list(arrow_type):
        found = st.lists(values(arrow_type.value_type), max_size=3)
    else:
        found = _VALUES[arrow_type]
    return st.none() | found


def types() -> st.SearchStrategy[pa.DataType]:
    return st.recursive(
        st.sampled_from(list(_VALUES)),
        lambda inner: st.one_of(
            inner.map(pa.list_),
            inner.map(lambda item: pa.map_(pa.string(), item)),
            st.lists(inner, min_size=1, max_size=3).map(
                lambda parts: pa.struct([(f"f{number}", part) for number, part in enumerate(parts)])
            ),
        ),
        max_leaves=4,
    )


@st.composite
def batches(draw: st.DrawFn) -> pa.RecordBatch:
    found = draw(st.lists(types(), min_size=1, max_size=4))
    rows = draw(st.integers(0, 5))
    arrays = [pa.array(draw(st.lists(values(each), min_size=rows, max_size=rows)), each) for each in found]
    return pa.RecordBatch.from_arrays(arrays, [f"c{number}" for number in range(len(arrays))])


@settings(max_examples=examples(30))
@given(batch=batches())
def test_rows_are_those_that_the_engine_gives(engine: DuckDBEngine, batch: pa.RecordBatch) -> None:
    names = ", ".join(batch.schema.names)
    short = planned(f"SELECT {names}, c0 AS again FROM numbers", batch)
    whole = planned(f"SELECT {names}, c0 AS again FROM numbers LIMIT 1000", batch)
    assert unchanged_columns(short) is not None
    assert unchanged_columns(whole) is None

    assert_same(answered(engine, short), answered(engine, whole))


@pytest.mark.slow
@pytest.mark.parametrize(
    "savepoint", sorted((FLINK / "2.3.0").glob("*/*/_metadata")), ids=lambda path: path.parent.name
)
def test_rows_of_savepoints_are_those_that_the_engine_gives(engine: DuckDBEngine, savepoint: Path) -> None:
    catalog = connect(savepoint.parent)
    assert catalog.default is not None
    for table in catalog.default.tables:
        short = plan(f'SELECT * FROM "{table}"', catalog)
        whole = plan(f'SELECT * FROM "{table}" LIMIT 100000', catalog)

        assert_same(answered(engine, short), answered(engine, whole))


def test_large_batches_are_cut() -> None:
    batch = pa.RecordBatch.from_pydict({"key": pa.array(range(150_000), pa.int64())})

    found = list(as_they_are([batch], ["key"], batch.schema))

    assert [part.num_rows for part in found] == [65_536, 65_536, 18_928]
    assert pa.Table.from_batches(found).column("key").to_pylist() == list(range(150_000))


_VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-(2**7), 2**7 - 1),
    pa.int16(): st.integers(-(2**15), 2**15 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
    pa.string(): st.text(),
    pa.binary(): st.binary(),
    pa.date32(): st.dates(),
    pa.timestamp("ms"): st.datetimes().map(lambda time: time.replace(microsecond=0)),
    pa.timestamp("us"): st.datetimes(),
    pa.timestamp("ns"): st.datetimes(datetime.datetime(1700, 1, 1), datetime.datetime(2200, 1, 1)),
    pa.decimal128(10, 2): st.decimals(-(10**7), 10**7, places=2),
    pa.decimal128(38, 9): st.decimals(-(10**15), 10**15, places=9).map(Decimal),
}
