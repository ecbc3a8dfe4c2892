"""One meaning: Spark answers what DuckDB answers, to the last digit, or refuses the statement.

`queries.sql` and `refused.sql` hold the statements, one a paragraph: add to them.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import pyarrow as pa
import pytest

from catalog import Catalog
from readers.jsontext import json_text
from service.base.errors import NotOnSparkError
from service.query.encode.formats import Column
from service.query.engines.duckdb.engine import DuckDBEngine
from service.query.engines.engine import Execution
from service.query.engines.spark.engine import SparkEngine, translation
from service.query.sql.planner import plan

pytestmark = pytest.mark.spark

_FOLDER = Path(__file__).parent
_OPERANDS = {
    "types__v_byte": ["value", "1", "100", "-1", "NULL"],
    "types__v_int": ["value", "2", "0", "1.5", "_subtask"],
    "types__v_long": ["value", "3", "2.25", "_key_group"],
    "types__v_double": ["value", "2", "0.5", "0"],
    "types__v_float": ["value", "2", "0.1"],
}
_AGGREGATES = [
    "count(value)",
    "sum(value)",
    "avg(value)",
    "min(value)",
    "max(value)",
    "count(DISTINCT value)",
]
_TEXTS = [
    "length(key)",
    "upper(key)",
    "lower(key)",
    "substring(key, 2, 4)",
    "replace(key, '_', '-')",
    "left(key, 5)",
    "right(key, 1)",
    "starts_with(key, 'key_1')",
    "contains(key, '6')",
    "strpos(key, '_')",
    "key LIKE 'key_1%'",
    "concat(right(key, 1), '!')",
    "left(key, 5) || '?'",
    "CASE WHEN key < 'key_5' THEN 'low' ELSE left(key, 5) END",
    "left(md5(key), 1)",
]
_CONDITIONS = [
    "value BETWEEN -1 AND 1",
    "value IN (0, 1, 2)",
    "value IS NULL",
    "NOT value > 0",
    "value > 0 OR value < -100",
    "CASE WHEN value > 0 THEN 'above' WHEN value = 0 THEN 'zero' END",
    "nullif(value, 0) IS NULL",
]
_WINDOWS = ["row_number()", "rank()", "dense_rank()", "lag(value)", "lead(value)", "count(*)", "max(value)"]
_INTEGERS = ["TINYINT", "SMALLINT", "INTEGER", "BIGINT"]
_TABLES = [*_OPERANDS, "types__v_short", "types__v_boolean"]


def statements(name: str) -> list[str]:
    paragraphs = (_FOLDER / name).read_text().split("\n\n")
    return [text.strip() for text in paragraphs if not text.startswith("--")]


def generated() -> list[str]:
    """Operators over all pairs of operands, and aggregates over all numbers."""
    made = []
    for table, operands in _OPERANDS.items():
        pairs = [
            (left, right) for left, right in itertools.product(operands, operands) if "value" in (left, right)
        ]
        for operator in ("=", "<", ">=", "IS DISTINCT FROM"):
            items = ", ".join(f"{left} {operator} {right}" for left, right in pairs)
            made.append(f"SELECT key, {items} FROM e.{table} ORDER BY key")
        items = ", ".join(f"{left} / {right}" for left, right in pairs if "NULL" not in (left, right))
        made.append(f"SELECT key, {items} FROM e.{table} ORDER BY key")
        items = ", ".join(f"coalesce({left}, {right}), greatest({left}, {right})" for left, right in pairs)
        made.append(f"SELECT key, {items} FROM e.{table} ORDER BY key")
    for table in _OPERANDS:
        if table != "types__v_long":
            made += [f"SELECT {aggregate} FROM e.{table}" for aggregate in _AGGREGATES]
    for one, other in itertools.combinations(_TABLES, 2):
        if "boolean" not in other:
            made.append(f"SELECT value FROM e.{one} UNION SELECT value FROM e.{other} ORDER BY value")
    return made + _generated_by_form()


def _generated_by_form() -> list[str]:
    """Groups by each function of texts; conditions, windows, casts of each number; joins and sets of each kind."""
    made = [
        f"SELECT {text} AS x, count(*), min(value), max(key) FROM w.aggregate__count GROUP BY ALL ORDER BY ALL LIMIT 50"
        for text in _TEXTS
    ]
    for table in _OPERANDS:
        conditions = ", ".join(f"{condition} AS c{number}" for number, condition in enumerate(_CONDITIONS))
        made.append(f"SELECT key, {conditions} FROM e.{table} ORDER BY key")
        windows = ", ".join(f"{function} OVER (ORDER BY value, key) AS w" for function in _WINDOWS)
        made.append(f"SELECT key, {windows} FROM e.{table} ORDER BY key")
        if table not in ("types__v_double", "types__v_float"):
            casts = ", ".join(f"TRY_CAST(value AS {name}) AS x" for name in _INTEGERS)
            made.append(f"SELECT key, {casts} FROM e.{table} ORDER BY key")
    for join in ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"):
        made.append(
            f'SELECT a.key, b.key, a.value, b.value FROM w."mod7-no-uid__seen" a {join} w."mod7-no-uid__seen" b '
            "ON a.key + 2 = b.key ORDER BY ALL"
        )
    for operator in ("UNION ALL", "INTERSECT", "EXCEPT"):
        made.append(
            'SELECT key FROM w."mod7-no-uid__seen" WHERE key < 5 '
            f'{operator} SELECT key + 2 FROM w."mod7-no-uid__seen" ORDER BY key'
        )
    return made


def answer(execution: Execution) -> tuple[pa.Table, tuple[Column, ...]]:
    try:
        table = execution.open().read_all()
        return table, execution.columns
    finally:
        execution.close()


def rows(table: pa.Table, *, in_order: bool) -> list[str]:
    columns = [json_text(_jsonable(column.combine_chunks())).to_pylist() for column in table.columns]
    texts = [str(row) for row in zip(*columns, strict=True)]
    return texts if in_order else sorted(texts)


def _jsonable(array: pa.Array) -> pa.Array:
    return array.cast(pa.string()) if pa.types.is_time(array.type) or pa.types.is_null(array.type) else array


@pytest.mark.parametrize("sql", [*statements("queries.sql"), *generated()])
def test_both_engines_give_the_same_answer(
    sql: str, savepoints: Catalog, duckdb_engine: DuckDBEngine, spark_engine: SparkEngine
) -> None:
    planned = plan(sql, savepoints)

    expected, expected_columns = answer(duckdb_engine.execution(planned))
    found, columns = answer(spark_engine.execution(planned, 100_000))

    assert columns == expected_columns
    assert found.schema.equals(expected.schema)
    assert rows(found, in_order="ORDER BY" in sql) == rows(expected, in_order="ORDER BY" in sql)


@pytest.mark.parametrize("sql", statements("refused.sql"))
def test_what_would_differ_is_refused(sql: str, savepoints: Catalog, spark_engine: SparkEngine) -> None:
    with pytest.raises(NotOnSparkError) as raised:
        answer(spark_engine.execution(plan(sql, savepoints), 100_000))

    assert raised.value.code == "NOT_ON_SPARK"
    assert raised.value.hint


@pytest.mark.parametrize("sql", statements("queries.sql"))
def test_an_untranslated_function_never_reaches_spark(sql: str, savepoints: Catalog) -> None:
    text = translation(plan(sql, savepoints)).sql

    assert "savepoint_table_" in text or " FROM " not in sql or "FROM (SELECT" in sql
    assert not any(name in text.lower() for name in ("reflect(", "java_method(", "using savepoint"))


def test_of_tied_rows_both_engines_take_one(
    savepoints: Catalog, duckdb_engine: DuckDBEngine, spark_engine: SparkEngine
) -> None:
    """DuckDB does not say which."""
    table = "w.aggregate__count"
    tied = plan(f"SELECT key FROM {table} WHERE value % 5 = (SELECT max(value % 5) FROM {table})", savepoints)
    one = plan(f"SELECT max_by(key, value % 5), arg_min(key, -(value % 5)) FROM {table}", savepoints)
    no_tie = plan(f"SELECT arg_max(key, {{'v': value % 5, 'k': key}}) FROM {table}", savepoints)

    keys = answer(duckdb_engine.execution(tied))[0][0].to_pylist()
    found = [
        column.to_pylist()
        for engine in (duckdb_engine, spark_engine)
        for column in answer(engine.execution(one, 10))[0]
    ]

    assert len(keys) > 1
    assert len(found) == 4
    assert all(key in keys for (key,) in found)
    assert answer(duckdb_engine.execution(no_tie))[0][0].to_pylist() == [max(keys)]


@pytest.mark.parametrize("value", ["value / 7", "value * 1e9 / 3 - 5e10", "(value / 7)::FLOAT", "value"])
def test_sums_of_floating_point_numbers_have_the_same_first_digits(
    value: str, savepoints: Catalog, duckdb_engine: DuckDBEngine, spark_engine: SparkEngine
) -> None:
    """The last digits depend on the order of the rows; docs/reference/tables.md says how many of them."""
    names = ("sum", "avg", "stddev", "variance", "stddev_pop", "var_pop")
    aggregates = ", ".join(f"{name}({value}) AS {name}" for name in names)
    planned = plan(f"SELECT {aggregates} FROM w.aggregate__count", savepoints)
    values = plan(f"SELECT sum(abs({value})::DOUBLE) AS total FROM w.aggregate__count", savepoints)

    (expected,) = answer(duckdb_engine.execution(planned))[0].to_pylist()
    (found,) = answer(spark_engine.execution(planned, 10))[0].to_pylist()

    (absolute,) = answer(duckdb_engine.execution(values))[0][0].to_pylist()
    error = 1000 * 2**-52
    for name in names:
        size = absolute if name in ("sum", "avg") else abs(expected[name])
        assert abs(found[name] - expected[name]) <= error * size
