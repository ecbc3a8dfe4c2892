"""Flink's dialect: statements with the rows that Flink has, and what is refused by its name."""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from catalog import Catalog, Root
from service.base.errors import QueryError
from service.cli import main
from service.query.sql.plan import Plan
from service.query.sql.planner import planned
from service.query.sql.translation.flink import REWRITTEN, SAME
from tests.support.paths import DATA

FLINK = DATA / "flink" / "2.3.0"
VALUES = "(VALUES (1), (CAST(NULL AS INT)), (2)) AS t (x)"
MOMENT = datetime.datetime(2024, 3, 5, 6, 7, 8)

# A select list, and its values in Flink.
MEANINGS: list[tuple[str, tuple[Any, ...]]] = [
    ("7 / 2, -7 / 2, 7.0 / 2, 7 % 4, MOD(-7, 4)", (3, -3, 3.5, 3, -3)),
    (
        "CAST(2.7 AS INT), CAST('2.7' AS INT), CAST(' 5 ' AS BIGINT), CAST(-2.7e0 AS INT), CAST(TRUE AS INT)",
        (2, 2, 5, -2, 1),
    ),
    ("TRY_CAST('x' AS INT), TRY_CAST('7' AS INT), TRY_CAST('x' AS DOUBLE)", (None, 7, None)),
    (
        "CAST(TRUE AS STRING), CAST(12 AS STRING), CAST(12.50 AS STRING), CAST(DATE '2024-01-02' AS STRING)",
        ("TRUE", "12", "12.50", "2024-01-02"),
    ),
    (
        "CAST(1e0 AS STRING), CAST(1e10 AS STRING), CAST(1.5e-5 AS STRING), CAST(123456789.5e0 AS STRING)",
        ("1.0", "1.0E10", "1.5E-5", "1.234567895E8"),
    ),
    (
        "CAST(0.1e0 AS STRING), CAST(1e7 AS STRING), CAST(9999999.5e0 AS STRING), CAST(-0.00012e0 AS STRING)",
        ("0.1", "1.0E7", "9999999.5", "-1.2E-4"),
    ),
    ("CAST('abc' AS VARCHAR(2)), CAST(12345 AS VARCHAR(2)), CAST(1.6 AS DECIMAL)", ("ab", "12", 2)),
    (
        "ARRAY[10, 20, 30][1], ARRAY[10, 20][3], MAP['k', 1, 'l', 2]['k'], MAP['k', 1]['z'], MAP[5, 'a'][5]",
        (10, None, 1, None, "a"),
    ),
    (
        "CARDINALITY(ARRAY[1, 2, 3]), CARDINALITY(MAP['a', 1]), CARDINALITY(CAST(NULL AS ARRAY<INT>))",
        (3, 1, None),
    ),
    (
        "ARRAY_CONTAINS(ARRAY[1, 2], 2), ARRAY_CONTAINS(ARRAY[1, CAST(NULL AS INT)], CAST(NULL AS INT))",
        (True, True),
    ),
    (
        "CONCAT('a', CAST(NULL AS STRING), 'b'), CONCAT('a', 'b'), CONCAT_WS('-', 'a', CAST(NULL AS STRING), 'b'), 'a' || 'b'",
        (None, "ab", "a-b", "ab"),
    ),
    (
        "UPPER('x'), LOWER('X'), CHAR_LENGTH('äb'), SUBSTRING('hello' FROM 2 FOR 3), SUBSTR('hello', -3, 2), SUBSTRING('hello', 2)",
        ("X", "x", 2, "ell", "ll", "ello"),
    ),
    (
        "TRIM(' a '), TRIM(BOTH 'x' FROM 'xax'), LPAD('a', 3, '*'), LEFT('abc', 2), LEFT('abc', -1), RIGHT('abc', 2)",
        ("a", "a", "**a", "ab", "", "bc"),
    ),
    (
        "REPLACE('abc', 'b', 'x'), REVERSE('abc'), INSTR('abc', 'c'), LOCATE('b', 'abc'), POSITION('b' IN 'abc')",
        ("axc", "cba", 3, 2, 2),
    ),
    ("SPLIT_INDEX('a,b', ',', 1), SPLIT_INDEX('a,b', ',', 5), REGEXP('abc', 'b+')", ("b", None, True)),
    (
        "REGEXP_EXTRACT('a12', '([0-9])([0-9])', 2), REGEXP_EXTRACT('a', '[0-9]'), REGEXP_REPLACE('aab', 'a', '$1')",
        ("2", None, "$1$1b"),
    ),
    (
        "GREATEST(1, CAST(NULL AS INT), 3), GREATEST(1, 3), LEAST(2, 1), IF(1 > 0, 'y', 'n'), IFNULL(CAST(NULL AS INT), 3)",
        (None, 3, 1, "y", 3),
    ),
    ("COALESCE(CAST(NULL AS INT), 2), NULLIF(1, 1), CASE WHEN 1 = 2 THEN 'a' ELSE 'b' END", (2, None, "b")),
    (
        "YEAR(DATE '2024-03-05'), EXTRACT(MONTH FROM DATE '2024-03-05'), HOUR(TIMESTAMP '2024-03-05 06:07:08')",
        (2024, 3, 6),
    ),
    (
        "DATE_FORMAT(TIMESTAMP '2024-03-05 06:07:08', 'yyyy-MM-dd HH:mm:ss'), TIMESTAMP '2024-03-05 06:07:08'",
        ("2024-03-05 06:07:08", MOMENT),
    ),
    (
        "DATE '2024-01-31' + INTERVAL '1' DAY, TIMESTAMP '2024-03-05 06:07:09' - INTERVAL '1' SECOND",
        (datetime.date(2024, 2, 1), MOMENT),
    ),
    (
        "CAST('2024-03-05 06:07:08.987' AS TIMESTAMP(0)) < CAST('2024-03-05 06:07:09' AS TIMESTAMP(3))",
        (True,),
    ),
    (
        "DATE_FORMAT(TO_TIMESTAMP_LTZ(1709618828000, 3), 'HH:mm'), CAST(CAST('2024-03-05 06:07:08.9876' AS TIMESTAMP(3)) AS STRING)",
        ("06:07", "2024-03-05 06:07:08.987"),
    ),
    (
        "TO_TIMESTAMP_LTZ(1709618828, 0) = CAST('2024-03-05 06:07:08' AS TIMESTAMP_LTZ(3)), "
        "CAST(TIMESTAMP '2024-03-05 06:07:08' AS STRING)",
        (True, "2024-03-05 06:07:08"),
    ),
    (
        "'it''s', 1 <> 2, 'abc' LIKE 'a%', 3 IN (1, 2), 2 BETWEEN 1 AND 3, CAST(NULL AS INT) IS NOT DISTINCT FROM CAST(NULL AS INT)",
        ("it's", True, True, False, True, True),
    ),
]
# A whole query, and its rows in Flink.
QUERIES: list[tuple[str, list[tuple[Any, ...]]]] = [
    (f"SELECT x FROM {VALUES} ORDER BY x", [(None,), (1,), (2,)]),
    (f"SELECT x FROM {VALUES} ORDER BY x DESC", [(2,), (1,), (None,)]),
    (f"SELECT x FROM {VALUES} ORDER BY x NULLS LAST", [(1,), (2,), (None,)]),
    (f"SELECT x, ROW_NUMBER() OVER (ORDER BY x) AS n FROM {VALUES} ORDER BY n", [(None, 1), (1, 2), (2, 3)]),
    (
        "SELECT AVG(x), SUM(x), COUNT(*), COUNT(DISTINCT x) FROM (VALUES (1), (2), (2)) AS t (x)",
        [(1, 5, 3, 2)],
    ),
    (
        "SELECT AVG(x), MAX(x), COUNT(*) FILTER (WHERE x > 2) FROM (VALUES (1.5e0), (3e0)) AS t (x)",
        [(2.25, 3.0, 1)],
    ),
    ("SELECT LISTAGG(x, ';') FROM (VALUES ('a')) AS t (x)", [("a",)]),
    (
        "SELECT e FROM (VALUES (ARRAY[1, 2])) AS v (a) CROSS JOIN UNNEST(v.a) AS t (e) ORDER BY e",
        [(1,), (2,)],
    ),
    (
        "SELECT k, x FROM (VALUES (MAP['a', 1, 'b', 2])) AS v (m) CROSS JOIN UNNEST(m) AS t (k, x) ORDER BY k",
        [("a", 1), ("b", 2)],
    ),
    (
        "SELECT n, e FROM (VALUES (1, ARRAY[7]), (2, CAST(NULL AS ARRAY<INT>))) AS v (n, a) "
        "LEFT JOIN UNNEST(v.a) AS t (e) ON TRUE ORDER BY n",
        [(1, 7), (2, None)],
    ),
    (
        "SELECT a[i] AS e FROM (VALUES (ARRAY[1, 2], 1), (ARRAY[1, 2], -1), (ARRAY[1, 2], 3)) AS t (a, i) "
        "ORDER BY e",
        [(None,), (None,), (1,)],
    ),
    ("SELECT TRY_CAST(x AS INT) AS y FROM (VALUES ('a'), ('7.9')) AS t (x) ORDER BY y", [(None,), (7,)]),
    (
        "WITH a AS (SELECT 1 AS `my x`) SELECT `my x` FROM a UNION ALL SELECT 2 ORDER BY 1 LIMIT 5",
        [(1,), (2,)],
    ),
]
REFUSED = [
    ("SELECT GREATEST()", "expected arguments of GREATEST(), found none"),
    ("SELECT LEAST()", "expected arguments of LEAST(), found none"),
    ("SELECT POSITION('a', 'banana', 3)", "expected POSITION(part IN text), found a third argument"),
    ("SELECT COLLECT(1)", "COLLECT()"),
    ("SELECT UUID()", "UUID()"),
    ("SELECT TIMESTAMPDIFF(DAY, DATE '2024-01-01', DATE '2024-01-02')", "TIMESTAMPDIFF()"),
    ("SELECT JSON_VALUE('{}', '$.a')", "JSONVALUE"),
    ("SELECT 'a' SIMILAR TO 'a'", "SIMILARTO"),
    ("SELECT EXTRACT(DOW FROM DATE '2024-01-01')", "DOW"),
    ("SELECT CAST('a' AS CHAR(3))", "CHAR(3)"),
    ("SELECT CAST('a' AS BYTES)", "BINARY"),
    ("SELECT CAST(ARRAY[1.5] AS ARRAY<INT>)", "its parts would be cast in another way"),
    ("SELECT CAST(ARRAY[1, 2] AS STRING)", "cast its parts"),
    ("SELECT CAST(TO_TIMESTAMP_LTZ(0) AS STRING)", "use DATE_FORMAT"),
    ("SELECT CAST('x' AS INT)", "Cannot cast 'x' to INT"),
    ("SELECT CAST(x AS INT) FROM (VALUES ('y')) AS t (x)", "Cannot cast 'y' to INT"),
    ("SELECT CAST(3000000000 AS INT)", "range"),
    ("SELECT 1 / 0", "ivision by zero"),
    ("SELECT AVG(DISTINCT x) FROM (VALUES (1)) AS t (x)", "AVG()"),
    ("SELECT * FROM UNNEST(ARRAY[1]) WITH ORDINALITY AS t (e, n)", "ORDINALITY"),
    # What DuckDB would do, and Flink does not know.
    ("SELECT read_text('/etc/passwd')", "READ_TEXT()"),
    ("SELECT getenv('HOME')", "GETENV()"),
    ("SELECT * FROM read_csv('/etc/passwd')", "read_csv"),
    ("SELECT * FROM '/etc/passwd'", "there is no table"),
    ("INSERT INTO t SELECT 1", "expected a query"),
    ("DROP TABLE t", "expected a query"),
    ("SELECT 1; SELECT 2", "one query"),
    ("SELECT 1; LOAD MODULE state; DELETE FROM x", "one query"),
    ("LOAD MODULE hive", "LOAD MODULE state"),
    ("USE CATALOG hive", "expected the catalog flink or state"),
    ("USE a.b.c", "one database"),
    ("", "expected a statement"),
]


def plan_of(catalog: Catalog, sql: str) -> Plan:
    return planned(sql, catalog, dialect="flink", max_sql_bytes=1 << 20, constants={}, compat="flink")


@pytest.mark.parametrize(("columns", "expected"), MEANINGS)
def test_values_are_those_of_flink(native: Any, columns: str, expected: tuple[Any, ...]) -> None:
    assert native.rows(f"SELECT {columns}", dialect="flink") == [expected]


@pytest.mark.parametrize(("sql", "expected"), QUERIES)
def test_rows_are_those_of_flink(native: Any, sql: str, expected: list[tuple[Any, ...]]) -> None:
    assert native.rows(sql, dialect="flink") == expected


@pytest.mark.parametrize(("sql", "reason"), REFUSED)
def test_what_means_something_else_is_refused_by_its_name(native: Any, sql: str, reason: str) -> None:
    with pytest.raises(QueryError) as raised:
        native.rows(sql, dialect="flink")

    assert reason in str(raised.value)


def test_no_function_is_in_two_tables() -> None:
    assert not SAME & REWRITTEN.keys()


def test_columns_without_a_name_are_called_as_flink_calls_them(native: Any) -> None:
    plan = plan_of(native.catalog, "SELECT 1 + 1, key, UPPER(key) FROM aggregate__count LIMIT 1")

    assert [column.alias_or_name for column in plan.query.expressions] == ["EXPR$0", "key", "EXPR$2"]


# ---- queries that were written for Flink's State Catalog ----


@pytest.fixture
def state(tmp_path: Path, ask_of: Callable[[Catalog], Any]) -> Any:
    shutil.copytree(FLINK / "everything-rocksdb-savepoints" / "native", tmp_path / "savepoint-a")
    shutil.copytree(FLINK / "everything-hashmap-savepoints" / "canonical", tmp_path / "savepoint-b")
    return ask_of(Catalog([Root(path=str(tmp_path), label="test")]))


def test_queries_of_the_state_catalog_run_unchanged(state: Any, tmp_path: Path) -> None:
    def rows(sql: str) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = state.rows(sql, dialect="flink", compat="flink")
        return found

    create = f"CREATE CATALOG state WITH ('type' = 'state', 'directory.test' = '{tmp_path}');"
    use = f"{create} USE CATALOG state; USE `test/savepoint-a`;\n"
    assert len(rows(f"{use} SELECT * FROM metadata")) == 5
    assert rows(f"LOAD MODULE state;\nSELECT * FROM savepoint_metadata('{tmp_path}/savepoint-a');") == rows(
        f"{use} SELECT * FROM metadata"
    )
    assert rows(f"SELECT `operator-uid` FROM TABLE(savepoint_metadata('{tmp_path}/savepoint-b')) ORDER BY 1")[
        0
    ] == ("broadcast",)
    for database in ("test/savepoint-a", "test/savepoint-b"):
        use = f"USE `{database}`;"
        assert rows(f"{use} SELECT state_key FROM `uid_kinds_keyed` ORDER BY state_key") == [
            (f"k{number}",) for number in range(6)
        ]
        assert rows(f"{use} SELECT `value`, state_key FROM `uid_kinds_keyed` WHERE state_key = 'k3'") == [
            (3, "k3")
        ]
        assert rows(
            f"{use} SELECT * FROM `uid_kinds_list_keyed_flat` WHERE state_key = 'k2' ORDER BY list_index"
        ) == [("k2", index, index) for index in range(4)]
        assert rows(
            f"{use} SELECT map_key, map_value FROM `uid_kinds_map_keyed_flat` WHERE state_key = 'k2' ORDER BY map_key"
        ) == [
            ("m0", "text-0"),
            ("m2", "text-2"),
            ("m3", None),
        ]
        assert rows(
            f"{use} SELECT CARDINALITY(`list`), `map`['m2'], `list`[1] FROM `uid_kinds_keyed` WHERE state_key = 'k2'"
        ) == [(4, "text-2", 0)]
        assert rows(
            f"{use} SELECT k, v FROM uid_kinds_keyed CROSS JOIN UNNEST(`map`) AS t (k, v) WHERE state_key = 'k1' ORDER BY k"
        ) == [("m0", "text-0"), ("m2", "text-2"), ("m3", None)]
        assert rows(
            f"{use} SELECT CAST(state_window.window_start AS STRING), COUNT(*) FROM `uid_tumbling-window_windowed` GROUP BY "
            "state_window.window_start ORDER BY 1"
        ) == [("1970-01-01 00:00:00.000", 6), ("1970-01-01 00:00:10.000", 6)]
    a, b = "state.`test/savepoint-a`.uid_kinds_keyed", "state.`test/savepoint-b`.uid_kinds_keyed"
    assert rows(
        f"SELECT COUNT(*) FROM {a} AS a JOIN {b} AS b ON a.state_key = b.state_key AND a.`value` = b.`value`"
    ) == [(6,)]


def test_statements_about_the_session_hold_for_the_query_behind_them(state: Any) -> None:
    assert state.rows("USE `test/savepoint-a`", dialect="flink") == [("OK",)]
    plan = plan_of(state.catalog, "SET 'a' = 'b'; USE `test/savepoint-b`; SHOW TABLES")
    assert "test__savepoint-b" in plan.text
    assert any("SET has no effect" in warning for warning in plan.warnings)
    explained = plan_of(state.catalog, "EXPLAIN PLAN FOR SELECT * FROM `test/savepoint-a`.metadata")
    assert explained.prefix == "EXPLAIN"


# ---- the doors ----


def test_a_request_may_ask_for_flinks_names_and_dialect(client: httpx.Client) -> None:
    sql = "SELECT state_key, `count` FROM uid_aggregate_keyed WHERE state_key = 'key_662'"
    body = {"sql": sql, "database": "native", "compat": "flink"}

    assert client.post("/api/query", json=body).json()["rows"] == [["key_662", 11290]]
    # The dialect of Flink comes with its names, unless the request names another.
    half = {"sql": "SELECT 7 / 2", "compat": "flink"}
    assert client.post("/api/query", json=half).json()["rows"] == [[3]]
    assert client.post("/api/query", json=half | {"dialect": "duckdb"}).json()["rows"] == [[3.5]]
    assert client.post("/api/query", json=body | {"compat": ""}).json()["error"]["code"] == "TABLE_NOT_FOUND"
    assert (
        client.post("/api/query", json=body | {"compat": "hive"}).json()["error"]["code"] == "INVALID_REQUEST"
    )


def test_a_link_may_ask_for_flinks_names(client: httpx.Client) -> None:
    link = "/db/native/uid_aggregate_keyed.csv?columns=state_key&limit=1"

    answer = client.get(f"{link}&compat=flink")
    assert answer.text.splitlines()[0] == '"state_key"'
    again = client.get(f"{link}&compat=flink", headers={"If-None-Match": answer.headers["ETag"]})
    assert again.status_code == httpx.codes.NOT_MODIFIED
    assert client.get(link).status_code == httpx.codes.NOT_FOUND


def test_the_command_line_may_ask_for_flinks_names(capsys: pytest.CaptureFixture[str]) -> None:
    savepoint = str(FLINK / "wordcount-rocksdb-savepoints" / "native")
    options = ["--savepoint", savepoint, "--format", "csv"]

    sql = "SELECT `count` / 2 AS half FROM uid_aggregate_keyed WHERE state_key = 'key_662'"
    assert main(["query", sql, *options, "--compat", "flink"]) == 0
    assert capsys.readouterr().out.split() == ['"half"', "5645"]
    assert main(["query", "SELECT 7 / 2 AS x", *options, "--dialect", "flink"]) == 0
    assert capsys.readouterr().out.split() == ['"x"', "3"]
