"""A SQL text → a plan: allowed statements, names of tables, positions of errors."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.base.errors import (
    DatabaseNotFoundError,
    ForbiddenError,
    LimitExceededError,
    Position,
    QueryError,
    QuerySyntaxError,
    TableNotFoundError,
)
from service.query.sql.planner import plan, planned
from tests.support.attacks import ATTACKS


@pytest.mark.parametrize("sql", ATTACKS)
def test_a_statement_that_does_more_than_read_tables_is_refused(native: Any, sql: str) -> None:
    with pytest.raises(ForbiddenError):
        plan(sql, native.catalog)


@pytest.mark.parametrize("sql", ATTACKS)
def test_a_refused_statement_leaves_the_next_one_alone(native: Any, sql: str) -> None:
    with pytest.raises(QueryError):
        native.rows(sql)

    assert native.rows("SELECT sum(x)::INT FROM range(3) t(x)") == [(3,)]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM duckdb_settings",
        "SELECT * FROM sqlite_master",
        "SELECT * FROM pg_catalog.pg_class",
        "SELECT * FROM main.aggregate",
        "SELECT * FROM temp.main.aggregate",
        "SELECT * FROM system.information_schema.tables",
        'SELECT * FROM "1: native.aggregate"',
        "WITH duckdb_settings AS (SELECT 1), b AS (SELECT 2) SELECT * FROM b, (SELECT * FROM duckdb_views)",
        "SELECT * FROM (SHOW TABLES)",
        "SELECT * FROM aggregat",
        "SELECT * FROM nativ.aggregate",
    ],
)
def test_only_tables_of_the_catalog_are_tables(native: Any, sql: str) -> None:
    with pytest.raises((TableNotFoundError, DatabaseNotFoundError)):
        plan(sql, native.catalog)


@pytest.mark.parametrize(
    "sql", ["", "  ", "-- nothing", ";", "SELEC 1", "SELECT", "SELECT (1", "SELECT 'a", "SELECT * FROM a b c"]
)
def test_a_text_that_is_no_sql_is_a_syntax_error(native: Any, sql: str) -> None:
    with pytest.raises(QuerySyntaxError):
        native.rows(sql)


@pytest.mark.parametrize(
    ("sql", "line", "column"),
    [
        ("SELECT *\nFROM aggregat", 2, 6),
        ("EXPLAIN\n  SELECT * FROM aggregat", 2, 17),
        ("DESCRIBE\n aggregat", 2, 2),
        ("SELECT 1;\n SELECT 2", 1, 9),
        ("SELECT (\n 1 + ) FROM x", 2, 6),
        ("\n\nDROP TABLE x", 3, 1),
    ],
)
def test_an_error_has_a_position(native: Any, sql: str, line: int, column: int) -> None:
    with pytest.raises(QueryError) as caught:
        plan(sql, native.catalog)

    assert caught.value.position == Position(line, column)


def test_an_unknown_table_comes_with_near_names(native: Any) -> None:
    with pytest.raises(TableNotFoundError) as caught:
        plan("SELECT * FROM agregate", native.catalog)

    assert caught.value.hint is not None
    assert '"aggregate"' in caught.value.hint


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT value FROM aggregate WHERE key = 'key_662'",
        "select VALUE from AGGREGATE where KEY = 'key_662';",
        "SELECT value FROM native.aggregate WHERE key = 'key_662' -- the largest",
        "SELECT value FROM flink.\"native\".aggregate WHERE key = 'key_662'",
        "SELECT native.aggregate.value FROM native.aggregate WHERE native.aggregate.key = 'key_662'",
        "SELECT flink.native.aggregate.value FROM flink.native.aggregate WHERE key = 'key_662'",
        "SELECT native.a.value FROM (SELECT * FROM aggregate) a(native, key, n, value) WHERE key = 'x' UNION ALL"
        " SELECT value FROM aggregate WHERE key = 'key_662'",
        "WITH aggregate AS (SELECT * FROM aggregate) SELECT value FROM aggregate WHERE key = 'key_662'",
        "WITH a AS (SELECT * FROM aggregate), b AS (SELECT * FROM a) SELECT value FROM b WHERE key = 'key_662'",
        "SELECT max(value) FROM aggregate",
        "FROM aggregate SELECT value WHERE key = 'key_662'",
        "SELECT value FROM f7c20420360e0172e54933e6abdd481a WHERE key = 'key_662'",
        "SELECT value FROM aggregate__count WHERE key IN (SELECT 'key_662')",
        "/* a */ SELECT (SELECT value FROM aggregate b WHERE b.key = a.key) FROM aggregate a WHERE key = 'key_662'",
    ],
)
def test_a_table_is_found_by_all_its_names(native: Any, sql: str) -> None:
    if "native.a." in sql:
        with pytest.raises(QueryError):
            native.rows(sql)
        return
    assert native.rows(sql) == [(11290,)]


def test_tables_of_the_same_name_differ_by_their_databases(two: Any) -> None:
    rows = two.rows(
        "SELECT canonical.aggregate.value, native.aggregate.value FROM canonical.aggregate JOIN native.aggregate"
        " ON canonical.aggregate.key = native.aggregate.key WHERE native.aggregate.key = 'key_662'"
    )

    assert rows == [(11290, 11290)]


def test_dots_behind_a_column_are_fields_of_it(native: Any) -> None:
    rows = native.rows(
        'SELECT s.value.f0, "s"."value"."f1", native.s2.value.f2 FROM "source__topic-partition-offset-states" s,'
        " (SELECT {'value': {'f2': 1}} AS s2) native LIMIT 1"
    )

    assert rows == [("words", 0, 1)]


def test_show_and_describe(native: Any, two: Any) -> None:
    tables = {
        "StateMeta",
        "operators",
        "files",
        "timers",
        "aggregate",
        "aggregate__count",
        "mod7-no-uid__seen",
    }

    assert tables <= {name for [name] in native.rows("SHOW TABLES")}
    assert native.rows("SHOW TABLES FROM native") == native.rows("SHOW TABLES")
    names = [("canonical",), ("native",), ("latest",), ("savepointdb",)]
    assert two.rows("SHOW SCHEMAS") == two.rows("SHOW DATABASES") == names
    assert ("canonical", "aggregate") in two.rows("SHOW ALL TABLES")
    assert [row[:2] for row in native.rows("DESCRIBE aggregate")] == [
        ("state_name", "VARCHAR"),
        ("key", "VARCHAR"),
        ("namespace", "VARCHAR"),
        ("value", "BIGINT"),
        ("_key_group", "INTEGER"),
        ("_subtask", "INTEGER"),
    ]
    assert native.rows("SHOW COLUMNS FROM native.aggregate") == native.rows("DESCRIBE aggregate")
    assert native.rows("DESCRIBE SELECT value AS x FROM aggregate")[0][:2] == ("x", "BIGINT")


def test_explain_shows_the_plan(native: Any) -> None:
    [(kind, text)] = native.rows("EXPLAIN SELECT value FROM aggregate WHERE key = 'key_662'")

    assert kind == "physical_plan"
    assert "Projections" in text


def test_information_schema_lists_the_catalog(two: Any) -> None:
    assert two.rows("SELECT * FROM information_schema.schemata") == [
        ("flink", "canonical"),
        ("flink", "native"),
        ("flink", "latest"),
        ("flink", "savepointdb"),
    ]
    assert two.rows(
        "SELECT table_type FROM flink.information_schema.tables"
        " WHERE table_schema = 'native' AND table_name = 'aggregate'"
    ) == [("BASE TABLE",)]
    assert two.rows(
        "SELECT table_schema, data_type FROM information_schema.columns"
        " WHERE table_name = 'aggregate__count' AND column_name = 'value' ORDER BY 1"
    ) == [("canonical", "BIGINT"), ("latest", "BIGINT"), ("native", "BIGINT")]
    with pytest.raises(TableNotFoundError):
        plan("SELECT * FROM information_schema.nothing", two.catalog)


def test_select_star_keeps_the_order_of_the_table(native: Any) -> None:
    with_types = [name for name, *_ in native.rows("DESCRIBE SELECT * FROM aggregate")]

    assert with_types == native.catalog.database("native").table("aggregate").schema.names


def test_a_scan_has_the_columns_that_the_statement_names(native: Any) -> None:
    def columns(sql: str) -> Any:
        return plan(sql, native.catalog).tables[0].columns

    assert columns("SELECT value FROM aggregate WHERE key = 'a'") == ("key", "value")
    assert columns("SELECT count(*) FROM aggregate") == ()
    assert columns("SELECT * FROM aggregate") is None
    assert columns("SELECT a FROM aggregate a") is None
    assert columns("SELECT COLUMNS('v.*') FROM aggregate") is None
    assert columns("SELECT 1 FROM aggregate a NATURAL JOIN aggregate b") is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT " + "(" * 5000 + "1" + ")" * 5000,
        "SELECT " + "NOT " * 20000 + "true",
        "SELECT " + "-" * 1 + "- " * 1 + "1" + " + (1" * 3000 + ")" * 3000,
        "SELECT " + "x." * 3000 + "y",
    ],
)
def test_a_deep_statement_is_refused(native: Any, sql: str) -> None:
    with pytest.raises(QueryError):
        native.rows(sql)


def test_a_long_statement_is_refused(native: Any) -> None:
    with pytest.raises(LimitExceededError):
        plan("SELECT 1 -- " + "x" * 1000, native.catalog, max_sql_bytes=1000)


@given(st.text(max_size=60) | st.text("SELECT*FROM agregt'\"();,.=-/\n", max_size=60))
def test_any_text_is_a_plan_or_a_query_error(native: Any, text: str) -> None:
    for sql in (text, f"SELECT {text}", f"SELECT * FROM aggregate WHERE {text}"):
        with contextlib.suppress(QueryError):
            plan(sql, native.catalog)


@pytest.mark.parametrize("dialect", ["duckdb", "trino"])
@pytest.mark.parametrize(
    ("sql", "name"),
    [
        ("SELECT * FROM mod7-no-uid", "mod7-no-uid"),
        ("EXPLAIN SELECT * FROM mod7-no-uid", "mod7-no-uid"),
        (
            "SELECT *\nFROM Source__Topic-partition-offset-states AS s",
            "source__topic-partition-offset-states",
        ),
        ("SELECT n.key FROM native.mod7-no-uid__seen AS n", "mod7-no-uid__seen"),
    ],
)
def test_a_known_name_without_its_quotes_gets_a_hint(native: Any, dialect: str, sql: str, name: str) -> None:
    with pytest.raises(QuerySyntaxError) as caught:
        planned(sql, native.catalog, dialect=dialect, max_sql_bytes=1 << 20, constants={})

    assert caught.value.hint == f'quote it: "{name}"'
    assert caught.value.position is not None


def test_describe_gets_the_hint_too(native: Any) -> None:
    with pytest.raises(QuerySyntaxError) as caught:
        planned("DESCRIBE mod7-no-uid", native.catalog, dialect="duckdb", max_sql_bytes=1 << 20, constants={})

    assert (caught.value.hint, caught.value.position) == ('quote it: "mod7-no-uid"', Position(1, 14))


@pytest.mark.parametrize("sql", ["SELECT 'mod7-no-uid' FROM", "SELECT * FROM some-other-name"])
def test_other_wrong_statements_get_no_such_hint(native: Any, sql: str) -> None:
    with pytest.raises(QuerySyntaxError) as caught:
        planned(sql, native.catalog, dialect="duckdb", max_sql_bytes=1 << 20, constants={})

    assert caught.value.hint is None


def test_names_may_stand_in_backquotes_as_in_flink(native: Any) -> None:
    sql = "SELECT '`a`' AS `x\"y`, count(*) AS `count` FROM `mod7-no-uid__seen` -- `no`"

    assert native.rows(sql) == [("`a`", native.rows('SELECT count(*) FROM "mod7-no-uid__seen"')[0][0])]
    assert (
        planned(
            "SELECT `key` FROM `native`.`aggregate`",
            native.catalog,
            dialect="trino",
            max_sql_bytes=1 << 20,
            constants={},
        )
        .tables[0]
        .table.name
        == "aggregate"
    )
