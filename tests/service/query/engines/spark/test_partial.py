"""A SELECT that is split: what executors compute of some rows, and what Spark merges."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp, parse_one
from sqlglot.optimizer.qualify import qualify

from service.query.engines.spark.partial import PartialSelect, merged_by_duckdb, partial_select
from service.spark.partial import TaskQuery
from service.spark.types import SavepointSourceError

_SCHEMA = pa.schema(
    [
        ("a", pa.int64()),
        ("b", pa.int32()),
        ("d", pa.float64()),
        ("t", pa.string()),
        ("f", pa.bool_()),
        ("_key_group", pa.int32()),
    ]
)
# What Spark is told in its own words.
_MERGES = (
    "CREATE MACRO merged_count(x) AS coalesce(sum(x), 0)::BIGINT",
    "CREATE MACRO merged_avg(x, y) AS sum(x)::DOUBLE / nullif(sum(y), 0)::DOUBLE",
)
_SPLIT = [
    'SELECT count(*), count("t"."a"), count_if("t"."a" > 0), min("t"."t"), max("t"."d") FROM "t"',
    'SELECT sum("t"."a"), sum("t"."b"), avg("t"."b"), bool_and("t"."f"), bool_or("t"."f") FROM "t"',
    'SELECT sum("t"."a") FILTER (WHERE "t"."f"), count(*) FILTER (WHERE "t"."d" > 1) FROM "t" WHERE "t"."b" <> 0',
    'SELECT "t"."_key_group", avg("t"."b"), sum("t"."a"), max("t"."t") FROM "t" GROUP BY "t"."_key_group" HAVING count("t"."b") > 1',
    'SELECT "t"."_key_group", avg("t"."b") FROM "t" GROUP BY "t"."_key_group"',
    'SELECT avg("t"."b") FILTER (WHERE "t"."f"), avg("t"."a") FROM "t"',
    'SELECT "t"."b" % 3, count(*), 1 + sum("t"."a") FROM "t" GROUP BY "t"."b" % 3 HAVING count(*) > 1',
    'SELECT "t"."d", "t"."t", max("t"."a") FROM "t" GROUP BY "t"."d", "t"."t"',
    'SELECT "t"."f", count(DISTINCT "t"."b"), sum(DISTINCT "t"."b"), min("t"."t") FROM "t" GROUP BY "t"."f"',
    'SELECT "t"."b", "t"."f", count(*) FROM "t" GROUP BY ROLLUP ("t"."b", "t"."f")',
    'SELECT DISTINCT "t"."t", "t"."b" + 1 FROM "t" WHERE "t"."f"',
    'SELECT "t"."a", "t"."t" || \'!\' AS "x" FROM "t" WHERE "t"."b" > 0 AND NOT "t"."f" ORDER BY "x", "t"."a" LIMIT 3',
    'SELECT 1 FROM "t" WHERE "t"."b" IS NULL',
    'SELECT median("t"."b"), count(DISTINCT "t"."a") FILTER (WHERE "t"."f") FROM "t" WHERE "t"."b" <> 1',
    'SELECT "t"."b", count(*) OVER (PARTITION BY "t"."b") FROM "t" WHERE "t"."a" > 0 QUALIFY count(*) OVER () < 9',
]
_IN_FEW_ROWS = _SPLIT[:4]
_NOT_SPLIT = [
    'SELECT "t"."a" FROM "t"',
    'SELECT median("t"."a") FROM "t"',
    'SELECT sum("t"."a"), stddev("t"."a") FROM "t"',
    'SELECT arg_max("t"."a", "t"."b") FROM "t"',
    'SELECT count(DISTINCT "t"."a") FILTER (WHERE "t"."f") FROM "t"',
    'SELECT count(*) OVER () FROM "t"',
    'SELECT count(*) FROM "t" JOIN "u" ON "t"."a" = "u"."a"',
    'SELECT count(*) FROM "t" WHERE "t"."a" = (SELECT max("u"."a") FROM "u")',
    'SELECT max("t"."a") FROM "t" WHERE "t"."b" < "outer"."b"',
    'SELECT count(*) FROM (SELECT 1) AS "t"',
]
_ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "a": st.none() | st.integers(-(2**63), 2**63 - 1),
            "b": st.none() | st.integers(-3, 3),
            "d": st.none() | st.sampled_from([float("nan"), float("inf"), -1.5, 0.0, 2.0]),
            "t": st.none() | st.sampled_from(["", "a", "B", "é", "\0"]),
            "f": st.none() | st.booleans(),
            "_key_group": st.integers(0, 4),
        }
    ),
    max_size=30,
)


def split(sql: str) -> PartialSelect | None:
    columns: object = dict.fromkeys(_SCHEMA.names, "unknown")
    known = {"t": columns, "u": columns, "outer": columns}
    select = qualify(
        parse_one(sql, dialect="duckdb"), schema=known, dialect="duckdb", validate_qualify_columns=False
    )
    assert isinstance(select, exp.Select)
    group = select.args.get("group")
    return partial_select(select, group.expressions if group is not None else [])


def batches(rows: list[dict[str, object]], size: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(rows), size):
        yield pa.RecordBatch.from_pylist(rows[start : start + size], _SCHEMA)


def answered(connection: duckdb.DuckDBPyConnection, sql: str, rows: pa.Table) -> list[str]:
    connection.register("t", rows)
    found = connection.execute(sql).fetchall()
    # A HUGEINT is a DECIMAL in Arrow.
    return sorted(str([int(one) if isinstance(one, Decimal) else one for one in row]) for row in found)


@pytest.fixture(scope="module")
def merging() -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB in place of Spark."""
    with duckdb.connect(":memory:") as connection:
        for macro in _MERGES:
            connection.execute(macro)
        yield connection


@pytest.mark.slow
@pytest.mark.parametrize("sql", _SPLIT)
@given(rows=_ROWS, size=st.integers(1, 7), most=st.integers(1, 20))
def test_merged_answers_are_the_answer_of_the_whole(
    sql: str, merging: duckdb.DuckDBPyConnection, rows: list[dict[str, object]], size: int, most: int
) -> None:
    found = split(sql)
    assert found is not None
    whole = pa.Table.from_pylist(rows, _SCHEMA)

    partial = TaskQuery(found.partial.sql("duckdb"), _SCHEMA, pa.schema([]), most_rows=most)
    merging.register("rows", _SCHEMA.empty_table())
    schema = merging.sql(partial.sql).to_arrow_table().schema
    answers = pa.Table.from_batches(partial.of(batches(rows, size)), schema)

    assert answered(merging, found.merged.sql("duckdb"), answers) == answered(merging, sql, whole)


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB without further functions."""
    with duckdb.connect(":memory:") as made:
        yield made


@pytest.mark.slow
@pytest.mark.parametrize("sql", _IN_FEW_ROWS)
@given(rows=_ROWS, most=st.integers(1, 20))
def test_duckdb_merges_what_executors_find_to_the_same_values_and_types(
    sql: str, connection: duckdb.DuckDBPyConnection, rows: list[dict[str, object]], most: int
) -> None:
    found = split(sql)
    assert found is not None
    connection.register("rows", _SCHEMA.empty_table())
    relation = connection.sql(found.partial.sql("duckdb"))
    hugeints = {
        name for name, kind in zip(relation.columns, relation.types, strict=True) if str(kind) == "HUGEINT"
    }
    partial = TaskQuery(found.partial.sql("duckdb"), _SCHEMA, pa.schema([]), most_rows=most)
    answers = pa.Table.from_batches(partial.of(batches(rows, 5)), relation.to_arrow_table().schema)
    connection.register("t", answers)
    merged = connection.sql(merged_by_duckdb(found.merged, hugeints).sql("duckdb"))
    types, answer = merged.types, merged.fetchall()
    connection.register("t", pa.Table.from_pylist(rows, _SCHEMA))
    whole = connection.sql(sql)

    assert types == whole.types
    assert sorted(map(str, answer)) == sorted(map(str, whole.fetchall()))
    assert found.is_small


@pytest.mark.parametrize("sql", _SPLIT)
def test_what_may_give_many_rows_is_known(sql: str) -> None:
    found = split(sql)

    assert found is not None
    assert found.is_small == (sql in _IN_FEW_ROWS)


@pytest.mark.parametrize("sql", _NOT_SPLIT)
def test_what_cannot_be_merged_is_not_split(sql: str) -> None:
    assert split(sql) is None


def test_no_more_groups_are_kept_than_some_rows_have() -> None:
    partial = TaskQuery(
        'SELECT "a" AS "group 1", count(*) AS "part 1" FROM rows GROUP BY 1',
        _SCHEMA,
        pa.schema([]),
        most_rows=4,
    )
    read = []

    def rows() -> Iterator[pa.RecordBatch]:
        for number in range(100):
            read.append(number)
            yield pa.RecordBatch.from_pylist([{"a": number}, {"a": -number}], _SCHEMA)

    first = next(partial.of(rows()))

    assert first.num_rows <= 4
    assert len(read) <= 3


def test_an_error_of_the_rows_stays_what_it_is_and_one_of_a_value_is_told() -> None:
    sql = 'SELECT sum(("a" * 100)::TINYINT) AS "part 1" FROM rows'
    partial = TaskQuery(sql, _SCHEMA, pa.schema([]))

    def broken() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pylist([{"a": 1}], _SCHEMA)
        raise FileNotFoundError("a file of the savepoint")

    with pytest.raises(FileNotFoundError, match="a file of the savepoint"):
        list(partial.of(broken()))
    with pytest.raises(SavepointSourceError, match=r"\[savepoint PartialError\] Conversion Error"):
        list(partial.of(batches([{"a": 2}], 1)))
    (answer,) = partial.of(batches([{"a": 1}], 1))

    assert answer.to_pylist() == [{"part 1": 100}]


@pytest.mark.parametrize("source", ["read_text('/etc/hostname')", "'/etc/hostname'", "answer"])
def test_nothing_but_the_rows_is_reached(source: str) -> None:
    answer = pa.table({"a": [1]})
    partial = TaskQuery(f'SELECT count(*) AS "part 1" FROM {source}', _SCHEMA, pa.schema([]))

    with pytest.raises(SavepointSourceError, match="PartialError"):
        list(partial.of([]))

    assert answer.num_rows == 1  # a variable of that name is no table
