"""Flink's dialect on Spark: statements over savepoints with the rows of Flink, and what is refused by its name."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from catalog import Catalog
from service.base.errors import NotOnSparkError
from service.query.engines.spark.engine import SparkEngine
from tests.support.engines import rows_by

pytestmark = pytest.mark.spark

STATEMENTS: list[tuple[str, list[tuple[Any, ...]]]] = [
    (
        "SELECT COUNT(*), SUM(`value`), MIN(`key`), MAX(`value`), COUNT(DISTINCT `value`) FROM w.aggregate__count",
        [(1000, Decimal(111695), "key_0", 11290, 201)],
    ),
    (
        "SELECT `key`, CAST(`value` AS STRING) AS t, CAST(`value` AS INT) AS i, COALESCE(`namespace`, '-') AS n "
        "FROM w.aggregate__count WHERE `value` > 199 ORDER BY `value` DESC, `key` LIMIT 2",
        [("key_662", "11290", 11290, "-"), ("key_227", "200", 200, "-")],
    ),
    # Integers stay integers.
    (
        "SELECT `key`, `value` / 100 AS hundreds FROM w.aggregate__count "
        "WHERE `key` IN ('key_662', 'key_1') ORDER BY `key`",
        [("key_1", 0), ("key_662", 112)],
    ),
    # NULL is the least.
    (
        "SELECT CASE WHEN `value` > 199 THEN CAST(NULL AS STRING) ELSE UPPER(`key`) END AS x, COUNT(*) AS n "
        "FROM `w`.`aggregate__count` WHERE `value` > 198 GROUP BY 1 ORDER BY x LIMIT 3",
        [(None, 6), ("KEY_254", 1), ("KEY_454", 1)],
    ),
    (
        "WITH big AS (SELECT `key`, `value` FROM w.aggregate__count WHERE `value` >= 200) "
        "SELECT s.`key`, b.`key` AS other FROM w.`mod7-no-uid__seen` AS s LEFT JOIN big AS b ON b.`value` = s.`value` "
        "ORDER BY other, s.`key` LIMIT 3",
        [(0, None), (1, None), (2, None)],
    ),
    (
        "USE `w`; SELECT `key`, ROW_NUMBER() OVER (ORDER BY `value` DESC, `key`) AS place FROM aggregate__count "
        "ORDER BY place LIMIT 2",
        [("key_662", 1), ("key_227", 2)],
    ),
]
REFUSED = [
    ("SELECT `value` / 100.0 AS x FROM w.aggregate__count", "int64 INTDIV decimal128(4, 1)"),
    ("SELECT MOD(`value`, 100) AS x FROM w.aggregate__count", "a part of the statement"),
    ("SELECT SUBSTRING(`key` FROM 1 FOR 5) AS x FROM w.aggregate__count", "substr()"),
    ("SELECT CAST(`key` AS INT) AS x FROM w.aggregate__count", "this cast of string"),
    ("SELECT CAST(1.5e0 AS STRING) AS x FROM w.aggregate__count", "this cast of double"),
    ("SELECT ARRAY[`value`][1] AS x FROM w.aggregate__count", "a subscript"),
    ("SELECT x FROM (VALUES (1)) AS t (x)", "FROM VALUES"),
]


@pytest.mark.parametrize(("sql", "expected"), STATEMENTS)
def test_savepoints_have_the_rows_of_flink(
    savepoints: Catalog, spark_engine: SparkEngine, sql: str, expected: list[tuple[Any, ...]]
) -> None:
    found = rows_by(spark_engine, savepoints, sql, "flink")

    assert [tuple(row.values()) for row in found] == expected


@pytest.mark.parametrize(("sql", "named"), REFUSED)
def test_what_spark_would_answer_in_another_way_is_refused_by_its_name(
    savepoints: Catalog, spark_engine: SparkEngine, sql: str, named: str
) -> None:
    with pytest.raises(NotOnSparkError) as refused:
        rows_by(spark_engine, savepoints, sql, "flink")

    assert refused.value.message.startswith(named)
    assert refused.value.message.endswith("is not answered by Spark as by DuckDB")
    assert refused.value.hint == 'ask for "engine": "duckdb"'
