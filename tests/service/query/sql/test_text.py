"""The statement that runs is the user's own text: it means what DuckDB reads, and other names replace those of its tables."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime
from typing import Any

import duckdb
import pytest

from service.base.errors import ForbiddenError, InvalidQueryError, QueryError
from service.query.engines.duckdb.guard import check_statement
from service.query.sql.names import with_databases
from service.query.sql.plan import Plan, ReadStatement
from service.query.sql.planner import plan
from tests.service.query.sql.test_pruning import CASES, WITHS


def with_text(planned: Plan, text: str) -> Plan:
    """The plan of a statement that DuckDB reads as another one."""
    return replace(planned, reading=ReadStatement(planned.query, text))


KEY = "WHERE key = 'key_662'"


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("SELECT TIMESTAMPTZ '2020-06-01 01:00:00+02'::TIMESTAMP", datetime(2020, 5, 31, 23)),
        ("SELECT TIMESTAMPTZ '2020-06-01 01:00:00+02'::DATE", date(2020, 5, 31)),
        ("SELECT TIMESTAMP '2020-06-01 01:02:03.5'::DATE", date(2020, 6, 1)),
        ("SELECT DECIMAL(4, 1) '1.25'::VARCHAR", "1.3"),
        ("SELECT DATE '2020-6-1'::VARCHAR", "2020-06-01"),
        ("SELECT INTEGER '007'::VARCHAR || '!'", "7!"),
        ("SELECT date_add(DATE '2020-06-01', 1)", date(2020, 6, 2)),
        ("SELECT typeof(date_add(DATE '2020-06-01', 1))", "DATE"),
        ("SELECT 'a' || 'b' ^@ 'a' || 'b'", "trueb"),
        ("SELECT 2 ^ ~1 * 3", 0.0625),
        ("SELECT $$it's$$ || 'a'", "it'sa"),
        ("SELECT E'a\\tb'", "a\tb"),
        ("SELECT list_transform([1, 2], lambda x: x + 1)", [2, 3]),
        ("SELECT /* FROM aggregate */ 1 -- FROM aggregate", 1),
        ("SELECT {'a': DATE '2020-6-1'::VARCHAR}.a", "2020-06-01"),
        ("SELECT (DATE '2020-1-1' + INTERVAL '1' MONTH - INTERVAL 1 DAY * 2)::DATE", date(2020, 1, 30)),
    ],
)
def test_an_expression_means_what_was_written(native: Any, sql: str, value: Any) -> None:
    assert native.rows(sql) == [(value,)]
    with duckdb.connect() as plain:
        plain.execute("SET TimeZone='UTC'")
        assert plain.execute(sql).fetchall() == [(value,)]


@pytest.mark.parametrize(
    "condition",
    [
        "TIMESTAMP '2020-05-31 23:00:00' = TIMESTAMPTZ '2020-06-01 01:00:00+02'::TIMESTAMP",
        "DATE '2020-6-1'::VARCHAR = '2020-06-01' AND key = 'key_662'",
        "key = VARCHAR 'key_662'::VARCHAR",
    ],
)
def test_a_condition_on_typed_literals_finds_its_row(native: Any, condition: str) -> None:
    assert native.rows(f"SELECT key FROM aggregate WHERE ({condition}) AND key = 'key_662'") == [("key_662",)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sql", "text"),
    [
        (
            'SELECT "native" . aggregate. key -- it\'s\nFROM /* TABLE */ "native" /**/ . aggregate ;',
            'SELECT "aggregate". key -- it\'s\nFROM /* TABLE */ "1: native.aggregate" AS "aggregate"',
        ),
        (
            "FROM aggregate AS a SELECT a.value::INT",
            'FROM "1: native.aggregate" AS a SELECT a.value::INT',
        ),
        ("from a : AGGREGATE select 1", 'from a : "1: native.aggregate" select 1'),
        ("TABLE aggregate", 'SELECT * FROM "1: native.aggregate" AS "aggregate"'),
        ("EXPLAIN ANALYZE FROM aggregate", 'FROM "1: native.aggregate" AS "aggregate"'),
        ("DESCRIBE FROM aggregate", 'FROM "1: native.aggregate" AS "aggregate"'),
        (
            "WITH aggregate AS (FROM aggregate) SELECT * FROM aggregate, native.aggregate b",
            'WITH aggregate AS (FROM "2: native.aggregate" AS "aggregate") SELECT * FROM aggregate,'
            ' "1: native.aggregate" b',
        ),
        (
            "SELECT '𝄞 native.aggregate', flink.native.aggregate.* FROM flink.native.aggregate",
            'SELECT \'𝄞 native.aggregate\', "aggregate".* FROM "1: native.aggregate" AS "aggregate"',
        ),
        ("VALUES (DATE '2020-1-1'::VARCHAR)", "VALUES (DATE '2020-1-1'::VARCHAR)"),
    ],
)
def test_only_names_are_replaced_in_the_text(native: Any, sql: str, text: str) -> None:
    assert plan(sql, native.catalog).text == text
    assert native.rows(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM aggregate PIVOT (max(value) FOR state_name IN ('count'))",
        "SELECT count(*) FROM aggregate TABLESAMPLE 100%",
        "SELECT count(*) FROM (TABLE aggregate ORDER BY aggregate.key)",
        "SELECT count(*) FROM aggregate, LATERAL (SELECT aggregate.key)",
        "SELECT count(COLUMNS(* EXCLUDE (value))) FROM aggregate",
        "SELECT count(aggregate) FROM aggregate",
        "SELECT count(DISTINCT native.aggregate.key) FROM native.aggregate GROUP BY native.aggregate.state_name",
        "SELECT CASE (SELECT count(*) FROM aggregate) WHEN 0 THEN 0 WHEN 1 THEN 1 ELSE count(*) END FROM aggregate",
    ],
)
def test_every_form_of_a_statement_reads_its_tables(native: Any, sql: str) -> None:
    count = native.rows("SELECT count(*) FROM aggregate")[0][0]

    assert native.rows(sql)[0][0] == count


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT (WITH duckdb_settings AS (SELECT 1) SELECT 1) FROM duckdb_settings",
        "WITH duckdb_settings AS (SELECT * FROM duckdb_settings) SELECT * FROM duckdb_settings",
        "WITH a AS (SELECT * FROM duckdb_views), duckdb_views AS (SELECT 1) SELECT * FROM a",
        "SELECT /* /* */ */ 1 FROM duckdb_settings",
        "SELECT main.getenv('HOME')",
        "SELECT 1 WHERE $1",
        "SELECT \"getenv\"('HOME')",
        "SELECT 'HOME'.getenv()",
        "SELECT list_transform(['HOME'], lambda x: getenv(x))",
        "SELECT getenv('HOME') OVER ()",
        "SELECT * FROM aggregate AT (VERSION => 1), duckdb_tables",
    ],
)
def test_a_text_that_reaches_further_than_its_tables_is_refused(native: Any, sql: str) -> None:
    with pytest.raises(QueryError):
        native.rows(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM duckdb_settings",
        "WITH t AS (SELECT 1) SELECT (SELECT 1 FROM t), (WITH u AS (SELECT 1) SELECT 1) FROM u",
        "WITH t AS (SELECT * FROM t) SELECT * FROM t",
        "WITH t AS (SELECT * FROM u), u AS (SELECT 1) SELECT * FROM t",
        "SELECT * FROM (SHOW TABLES)",
        "SELECT * FROM (SUMMARIZE SELECT 1)",
        "SELECT getenv('HOME') OVER ()",
        "SELECT main.getenv('HOME')",
        "SELECT sum(x) FILTER (getenv('HOME') = '') FROM range(3) t(x)",
        "SELECT * FROM range(3), read_text('/etc/passwd')",
    ],
)
def test_the_guard_refuses_what_the_planner_would_not_see(native: Any, sql: str) -> None:
    planned = with_text(plan("SELECT 1", native.catalog), sql)

    with duckdb.connect() as connection, pytest.raises(ForbiddenError):
        check_statement(planned, connection)


def test_a_statement_that_lacks_a_planned_table_is_refused(native: Any) -> None:
    planned = with_text(plan("SELECT * FROM aggregate", native.catalog), "SELECT 1")

    with duckdb.connect() as connection, pytest.raises(InvalidQueryError, match="read in two ways"):
        check_statement(planned, connection)


@pytest.mark.slow
@pytest.mark.parametrize(
    "sql",
    [
        *(f"SELECT * {tail}" for tail, _ in CASES if tail.startswith("FROM")),
        *(sql for sql, _ in WITHS if "FROM (WITH" not in sql),
    ],
)
def test_duckdb_reads_the_conditions_that_save_reading(native: Any, sql: str) -> None:
    with duckdb.connect() as connection:
        assert check_statement(plan(sql, native.catalog), connection)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*) FROM {} WHERE NOT key = 'key_662'",
        "SELECT count(*) FROM {} WHERE key = 'key_662' OR true",
        "SELECT count(*) FROM {} WHERE key = 'key_66'",
        "SELECT count(*) FROM (SELECT 'x') t(key), (SELECT 1 FROM {}) WHERE key = 'key_662'",
    ],
)
def test_conditions_that_duckdb_does_not_read_leave_out_no_row(native: Any, text: str) -> None:
    planned = plan(f"SELECT count(*) FROM aggregate {KEY}", native.catalog)
    other = with_text(planned, text.format('"1: native.aggregate"'))
    execution = native.engine.execution(other)
    rows = execution.open().read_all().to_pylist()
    execution.close()
    count = native.rows(text.format("aggregate"))

    assert [tuple(row.values()) for row in rows] == count


_VALUES = "SELECT count(*) FROM {} AS a JOIN (VALUES ('key_1')) AS v(key) USING (key)"
_COMMON = (
    "WITH w(key) AS (VALUES ('key_1')) SELECT count(*) FROM {} AS a WHERE a.key IN (SELECT w.key FROM w)"
)


@pytest.mark.parametrize(
    ("planned", "written"),
    [
        (_VALUES, _VALUES.replace("'key_1'", "'key_' || '2'")),
        (_VALUES, _VALUES.replace("USING (key)", "ON true")),
        (_VALUES, _VALUES.replace("JOIN", "LEFT JOIN")),
        (_VALUES, _VALUES.replace("(VALUES ('key_1'))", "(SELECT upper('key_1') UNION ALL SELECT 'key_3')")),
        (_COMMON, _COMMON.replace("'key_1'", "'key_1'), ('key_2'")),
        (_COMMON, _COMMON.replace("VALUES ('key_1')", "SELECT 'key_' || range FROM range(9)")),
        (
            _COMMON,
            _COMMON.replace("WITH w(key)", "WITH w(key, other)").replace("'key_1'", "'key_2', 'key_1'"),
        ),
    ],
)
def test_constants_that_duckdb_reads_differently_leave_out_no_row(
    native: Any, planned: str, written: str
) -> None:
    known = plan(planned.format("aggregate"), native.catalog)
    assert known.tables[0].predicate.values
    execution = native.engine.execution(with_text(known, written.format('"1: native.aggregate"')))
    rows = execution.open().read_all().to_pylist()
    execution.close()

    assert [tuple(row.values()) for row in rows] == native.rows(written.format("aggregate"))


def test_columns_that_duckdb_reads_differently_are_duckdbs(native: Any) -> None:
    planned = plan("SELECT key, value FROM aggregate", native.catalog)
    other = with_text(planned, 'SELECT upper(key) AS key, value FROM "1: native.aggregate"')
    execution = native.engine.execution(other)
    rows = execution.open().read_all().to_pylist()
    execution.close()

    assert sorted(tuple(row.values()) for row in rows) == sorted(
        native.rows("SELECT upper(key), value FROM aggregate")
    )


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT Previous.t.v.f0 FROM PREVIOUS.t -- x", 'SELECT "p-1".t.v.f0 FROM "p-1".t -- x'),
        ("FROM diff('previous', 'b', 'previous')", "FROM diff('p-1', 'b', 'previous')"),
        ("SELECT previous.v.f0 FROM previous.t AS previous", 'SELECT previous.v.f0 FROM "p-1".t AS previous'),
        ("WITH previous AS (SELECT 'previous') FROM previous", None),
    ],
)
def test_other_names_of_databases_stand_where_they_are_databases(sql: str, expected: str | None) -> None:
    assert with_databases(sql, {"previous": "p-1"}) == (expected or sql)
