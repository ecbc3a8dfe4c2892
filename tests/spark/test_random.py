"""Random expressions mean on Spark what they mean on DuckDB, or are refused.

Values come from subqueries, so that Spark computes with them: dates before 1970, fractions of seconds with halves, numbers at
the ends of their types, NULL. One seed runs with the marker `spark`, more with `spark and slow`.
"""

from __future__ import annotations

import random

import pytest

from catalog import Catalog
from service.base.errors import NotOnSparkError, QueryError
from service.query.engines.duckdb.engine import DuckDBEngine
from service.query.engines.spark.engine import SparkEngine, translation
from service.query.sql.planner import plan
from tests.spark.test_differential import answer, rows
from tests.support.expressions import Expressions

pytestmark = pytest.mark.spark

_LEAVES = {
    "int": ["0", "1", "-7", "2", "NULL::INT", "s.key", "i", "j", "t", "b", "100", "g"],
    "double": ["0.5::DOUBLE", "d", "1e3", "-2.25::DOUBLE", "e", "NULL::DOUBLE"],
    "decimal": ["1.25", "-0.5", "n", "12.345", "m"],
    "text": ["'a'", "''", "'key_1'", "x", "y", "NULL::VARCHAR", "'_'", "'𝄞é'"],
    "bool": ["TRUE", "FALSE", "NULL::BOOL", "i > 1", "x = 'key_1'", "NULL"],
    "date": ["DATE '1969-12-31'", "a", "c", "NULL::DATE", "DATE '2024-02-29'", "DATE '1582-10-15'"],
    "time": ["u", "v", "w", "TIMESTAMP '1969-12-31 23:59:59.9995'", "TIMESTAMP '1970-01-01 00:00:00.0005'", "NULL::TIMESTAMP"],
    "list": ["[1, 2, NULL]", "[i, 2]", "l"],
}  # fmt: skip
_FORMS = {
    "int": [
        *(f"<int> {sign} <int>" for sign in ("+", "-", "*", "//", "%")), "(<int>)", "- (<int>)", "abs(<int>)", "sign(<int>)",
        "CASE WHEN <bool> THEN <int> ELSE <int> END", "CASE WHEN <bool> THEN <int> END", "CASE <int> WHEN <int> THEN 1 ELSE <int> END",
        "coalesce(<int>, <int>)", "nullif(<int>, <int>)", "greatest(<int>, <int>)", "least(<int>, 1)", "length(<text>)",
        "strpos(<text>, <text>)", "len(<list>)", "<list>[1]", "<list>[-1]", "<list>[<int>]", "(<double>)::INT",
        "(<decimal>)::INT", "(<int>)::BIGINT", "(<bool>)::INT",
        "epoch_ms(<time>)", "extract(year FROM <time>)", "extract(week FROM <date>)", "extract(dow FROM <time>)", "second(<time>)",
        "extract(doy FROM <date>)", "minute(<time>)", "hour(<time>)", "isodow(<date>)", "quarter(<date>)", "day(<time>)", "month(<date>)",
        "date_diff('day', <time>, <time>)", "date_diff('day', <date>, <date>)", "<date> - <date>", "(<int>)::SMALLINT", "(<int>)::TINYINT",
    ],
    "double": [
        *(f"<double> {sign} <double>" for sign in ("+", "-", "*", "/")), "<int> / <int>", "<double> / <int>", "sqrt(abs(<double>))",
        "round(<double>)", "floor(<double>)", "ceil(<double>)", "- (<double>)", "epoch(<time>)", "epoch(<date>)", "(<int>)::DOUBLE",
        "(<decimal>)::DOUBLE", "CASE WHEN <bool> THEN <double> END", "round(<double>, 1)", "abs(<double>)", "extract(epoch FROM <time>)",
    ],
    "decimal": [
        "<decimal> + <decimal>", "<decimal> - <int>", "<decimal> * <decimal>", "round(<decimal>, 1)", "- (<decimal>)", "abs(<decimal>)",
        "(<int>)::DECIMAL(12, 2)", "(<decimal>)::DECIMAL(10, 1)", "CASE WHEN <bool> THEN <decimal> ELSE <int> END", "floor(<decimal>)",
    ],
    "text": [
        "<text> || <text>", "concat(<text>, <int>, NULL)", "upper(<text>)", "lower(<text>)", "substring(<text>, 2, 3)", "left(<text>, 2)",
        "right(<text>, 3)", "replace(<text>, 'e', <text>)", "(<int>)::VARCHAR", "(<date>)::VARCHAR", "(<time>)::VARCHAR", "md5(<text>)",
        "CASE WHEN <bool> THEN <text> ELSE 'n' END", "coalesce(<text>, <text>)", "nullif(<text>, <text>)", "(<decimal>)::VARCHAR",
        "concat_ws('-', <text>, <int>)", "(<bool>)::VARCHAR", "greatest(<text>, <text>)", "sha256(<text>)",
    ],
    "bool": [
        *(f"<int> {sign} <int>" for sign in ("=", "<>", "<", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")),
        *(f"<text> {sign} <text>" for sign in ("=", "<", ">=")), *(f"<time> {sign} <time>" for sign in ("=", "<", ">")),
        "<double> < <double>", "<double> = <double>", "<decimal> = <int>", "<date> < <date>", "<date> <= <time>", "(<bool>) AND (<bool>)",
        "(<bool>) OR (<bool>)", "NOT (<bool>)", "<int> IN (<int>, <int>, 2)", "<int> BETWEEN <int> AND <int>", "<text> LIKE 'k%_1'",
        "(<int>) IS NULL", "(<text>) IS NOT NULL", "starts_with(<text>, 'k')", "contains(<text>, 'e')", "list_contains(<list>, <int>)",
        "<text> NOT IN ('a', <text>)", "isnan(<double>)", "<int> = <double>", "<time> BETWEEN <time> AND <time>",
    ],
    "date": [
        "<date> + 1", "<date> - 40", "(<time>)::DATE", "coalesce(<date>, <date>)", "greatest(<date>, <date>)", "<date> + (<int>)",
        "CASE WHEN <bool> THEN <date> END", "least(<date>, DATE '1950-06-07')",
    ],
    "time": [
        "<time> + INTERVAL 1 DAY", "<time> - INTERVAL 90 SECOND", "<time> + INTERVAL 1 MONTH", "<date> + INTERVAL 5 HOUR",
        "<date>::TIMESTAMP",
        "<time> - INTERVAL 3 YEAR", "date_trunc('hour', <time>)", "date_trunc('week', <time>)", "date_trunc('month', <date>)",
        "date_trunc('second', <time>)", "date_trunc('quarter', <time>)", "greatest(<time>, <time>)", "coalesce(<time>, <time>)",
        "CASE WHEN <bool> THEN <time> ELSE <time> END",
    ],
    "list": ["[<int>, <int>]", "[<int>]", "CASE WHEN <bool> THEN <list> ELSE <list> END"],
}  # fmt: skip
_AGGREGATES = (
    "count(<any>)", "count(DISTINCT <int>)", "sum(<int>)", "min(<int>)", "max(<text>)", "min(<date>)", "max(<time>)", "avg(<int>)",
    "sum(<decimal>)", "avg(<decimal>)", "bool_and(<bool>)", "bool_or(<bool>)", "count_if(<bool>)", "count(*) FILTER (<bool>)",
    "sum(<int>) FILTER (<bool>)", "median(<int>)", "min(<double>)", "max(<double>)", "avg(<int>) FILTER (<bool>)", "sum(DISTINCT <int>)",
    "max_by(<int>, s.key)", "list(<int> ORDER BY s.key)",
)  # fmt: skip
_STARTS = (
    "1969-12-31 23:59:59", "1900-02-28 12:34:56", "1970-01-01 00:00:00", "2024-02-29 23:59:58", "1582-10-04 01:02:03",
    "0044-03-15 11:00:00",
)  # fmt: skip
_SEEDS = [14, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(300, 305))]


@pytest.mark.parametrize("seed", _SEEDS)
def test_random_expressions_mean_what_they_mean_on_duckdb(
    seed: int, savepoints: Catalog, duckdb_engine: DuckDBEngine, spark_engine: SparkEngine
) -> None:
    made = Expressions(seed, _LEAVES, _FORMS)
    numbers = random.Random(seed)
    source = _values(numbers)

    def is_wanted(sql: str) -> bool:
        """Return whether DuckDB answers a statement and Spark may."""
        try:
            planned = plan(sql, savepoints)
            translation(planned)
            answer(duckdb_engine.execution(planned))
        except QueryError:
            return False
        return True

    single = [made.expression() for _ in range(100)]
    wanted = [text for text in single if is_wanted(f"SELECT {text} FROM {source}")]
    grouped = [
        f"SELECT {made.expression(2)} AS g, {made.filled(numbers.choice(_AGGREGATES))} AS x FROM {source} GROUP BY ALL"
        for _ in range(8)
    ]
    together = [
        f"SELECT {', '.join(wanted[start : start + 10])} FROM {source}" for start in range(0, len(wanted), 10)
    ]
    compared = 0
    for sql in [*together, *filter(is_wanted, grouped)]:
        planned = plan(sql, savepoints)
        expected = answer(duckdb_engine.execution(planned))
        try:
            found = answer(spark_engine.execution(planned, 100_000))
        except NotOnSparkError:  # of a value that Spark meets
            continue
        assert [column.type for column in found[1]] == [column.type for column in expected[1]], sql
        assert rows(found[0], in_order=False) == rows(expected[0], in_order=False), sql
        compared += 1

    assert len(wanted) > 30
    assert compared > 3


def _values(numbers: random.Random) -> str:
    """Return a subquery of rows with random values, one for each row of a small table."""

    def instant() -> str:
        micros = numbers.choice(["", ".5", ".0005", ".999999", ".9995", ".123456", ".0015", ".000001"])
        return f"TIMESTAMP '{numbers.choice(_STARTS)}{micros}'"

    columns = {
        "i": numbers.randint(-9, 9),
        "j": f"s.key * {numbers.randint(-3, 3)}",
        "t": f"CAST({numbers.randint(-128, 127)} AS TINYINT)",
        "b": f"CAST({numbers.choice([2**31, -(2**40), 2**62, -7])} AS BIGINT)",
        "g": "s._key_group",
        "d": f"{numbers.choice(['0.1', '-1.5', '1e300', '2.5', '-0.5', '3.5'])}::DOUBLE",
        "e": "s.key / 4",
        "n": f"{numbers.randint(-999, 999) / 100}",
        "m": "s.value * 0.05",
        "x": "'key_' || (s.key % 3)::VARCHAR",
        "y": f"{numbers.choice(['NULL', chr(39) + 'Straße' + chr(39), chr(39) + 'KEY_1' + chr(39)])}::VARCHAR",
        "a": f"{instant()}::DATE",
        "c": f"DATE '1970-01-03' - s.key * {numbers.randint(1, 400)}",
        "u": instant(),
        "v": f"{instant()} - INTERVAL 1 DAY",
        "w": f"CASE WHEN s.key % 2 = 0 THEN {instant()} ELSE {instant()} END",
        "l": "[s.key, s.value]",
    }
    items = ", ".join(f"{expression} AS {name}" for name, expression in columns.items())
    return f'(SELECT s.key, {items} FROM w."mod7-no-uid__seen" s) s'
