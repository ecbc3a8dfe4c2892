"""Trino's dialect: it has the same meaning as in Trino, and gives access to nothing else."""

from __future__ import annotations

from typing import Any

import pytest

ATTACKS = [
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM TABLE(read_text('/etc/passwd'))",
    "SELECT * FROM '/etc/passwd'",
    'SELECT * FROM "/etc/passwd"',
    'SELECT * FROM "x.parquet"',
    "SELECT * FROM query('SELECT 1')",
    "SELECT * FROM TABLE(system.query('SELECT 1'))",
    "SELECT * FROM duckdb_settings()",
    "SELECT * FROM duckdb_secrets",
    "SELECT * FROM sqlite_master",
    "SELECT * FROM pg_catalog.pg_class",
    "SELECT * FROM memory.main.x",
    "SELECT * FROM system.information_schema.tables",
    "SELECT * FROM temp.main.x",
    "SELECT current_setting('temp_directory')",
    "SELECT getenv('HOME')",
    "SELECT read_text('/etc/passwd')",
    "SELECT json_execute_serialized_sql('{}')",
    "SELECT * FROM (SELECT * FROM read_csv('/etc/passwd')) t",
    "WITH t AS (SELECT * FROM glob('/*')) SELECT * FROM t",
    "SELECT (SELECT content FROM read_text('/etc/passwd'))",
    "SELECT 1; SELECT 2",
    "SELECT 1; DROP TABLE aggregate",
    "SELECT 1 /* ; */ ; ATTACH 'x'",
    "DROP TABLE aggregate",
    "DELETE FROM aggregate",
    "INSERT INTO aggregate VALUES (1)",
    "UPDATE aggregate SET value = 1",
    "MERGE INTO aggregate USING t ON true WHEN MATCHED THEN DELETE",
    "CREATE TABLE x AS SELECT 1",
    "CREATE VIEW x AS SELECT 1",
    "CREATE FUNCTION f(x bigint) RETURNS bigint RETURN x",
    "CREATE MACRO sum(x) AS 42",
    "ALTER TABLE aggregate RENAME TO x",
    "TRUNCATE TABLE aggregate",
    "GRANT SELECT ON aggregate TO mallory",
    "ANALYZE aggregate",
    "COPY aggregate TO '/tmp/x'",
    "ATTACH '/tmp/x.db'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "PRAGMA database_list",
    "SET memory_limit = '1TB'",
    "SET SESSION AUTHORIZATION root",
    "SET GLOBAL threads = 1",
    "RESET memory_limit",
    "CALL pragma_version()",
    "CALL system.runtime.exec('rm')",
    "CALL system.runtime.kill_query('x'); DROP TABLE aggregate",
    "EXPLAIN ANALYZE DROP TABLE aggregate",
    "EXPLAIN (TYPE VALIDATE) DROP TABLE aggregate",
    "EXPLAIN CREATE TABLE x AS SELECT 1",
    "EXECUTE IMMEDIATE 'DROP TABLE aggregate'",
    "EXECUTE IMMEDIATE 'EXECUTE IMMEDIATE ''SELECT 1'''",
    "EXECUTE IMMEDIATE 'SELECT * FROM read_text(?)' USING '/etc/passwd'",
    "EXECUTE IMMEDIATE 'SELECT ?' USING (SELECT content FROM read_text('/etc/passwd'))",
    "EXECUTE IMMEDIATE 'SELECT ?' USING 1) FROM read_text('/etc/passwd'",
    "EXECUTE IMMEDIATE 'SELECT * FROM range(?)' USING 1 --\n; DROP TABLE x",
    "DESCRIBE read_text('/etc/passwd')",
    'SHOW CREATE TABLE "/etc/passwd"',
    'USE "../../etc"',
]


@pytest.mark.parametrize("sql", ATTACKS)
def test_an_attack_is_refused(trino: Any, sql: str) -> None:
    error = trino.error(sql)

    assert error["errorType"] == "USER_ERROR", error
    assert "root:" not in str(error)


def test_after_all_attacks_others_are_answered(trino: Any) -> None:
    for sql in ATTACKS[::8]:
        trino.pages(sql)

    assert trino.rows("SELECT sum(x) FROM range(4) t(x)") == [[6]]
    assert trino.rows("SELECT count(*) FROM aggregate") == [[1000]]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1 / 2", 0),
        ("-7 / 2", -3),
        ("7 / -2", -3),
        ("9 / 2 / 2", 2),
        ("7 / 2 * 2", 6),
        ("2 * 7 / 4", 3),
        ("(1 + 2) / 2", 1),
        ("7 / 2e0", 3.5),
        ("7e0 / 2", 3.5),
        ("7 / 2.0", 3.5),
        ("CAST(7 AS smallint) / CAST(2 AS bigint)", 3),
        ("7 % 4", 3),
        ("date_diff('hour', TIMESTAMP '2026-01-01 00:59:00', TIMESTAMP '2026-01-01 01:00:00')", 0),
        ("date_diff('day', DATE '2026-01-01', DATE '2026-03-01')", 59),
        ("cardinality(ARRAY[1, NULL, 3])", 3),
        ("cardinality(MAP(ARRAY['a', 'b'], ARRAY[1, 2]))", 2),
        ("cardinality(ARRAY[])", 0),
        ("DECIMAL '1.50'", "1.50"),
        ("DECIMAL '-1.50'", "-1.50"),
        ("CAST(1.6 AS decimal)", "2"),
        ("CAST('1.25' AS decimal(4,1))", "1.3"),
        ("try_cast('x' AS bigint)", None),
        ("TRY(1 / 0)", None),
        (
            "format_datetime(TIMESTAMP '2026-01-02 03:04:05.678', 'yyyy-MM-dd''T''HH:mm:ss.SSS')",
            "2026-01-02T03:04:05.678",
        ),
        ("date_format(TIMESTAMP '2026-01-02 03:04:05', '%Y-%m')", "2026-01"),
        ("url_extract_host('https://alice@example.com:80/a?b#c')", "example.com"),
        ("infinity()", "Infinity"),
        ("-infinity()", "-Infinity"),
        ("nan()", "NaN"),
        ("X'00ff'", "AP8="),
        ("ARRAY[1, 2][1]", 1),
        ("MAP(ARRAY['a'], ARRAY[1])['a']", 1),
        ("MAP(ARRAY[1, 2], ARRAY['x', NULL])", {"1": "x", "2": None}),
        ("CAST(ROW(1, ROW('x')) AS row(a bigint, b row(c varchar)))", [1, ["x"]]),
        ("if(1 > 2, 'a', 'b')", "b"),
        ("regexp_like('abc', 'b')", True),
        ('json_extract_scalar(\'{"a": {"b": "c"}}\', \'$.a.b\')', "c"),
        ("date_trunc('hour', CAST('2026-01-02 03:04:05.000000' AS TIMESTAMP))", "2026-01-02 03:00:00.000"),
        ("TIMESTAMP '2026-01-02 03:04:05.123'", "2026-01-02 03:04:05.123"),
        ("TIMESTAMP '2026-01-02 03:04:05'", "2026-01-02 03:04:05"),
        ("from_unixtime(0)", "1970-01-01 00:00:00.000000 UTC"),
        ("DATE '0001-01-01'", "0001-01-01"),
        ("9223372036854775807", 9223372036854775807),
        ("CAST(9223372036854775807 AS decimal(38,0)) + 1", "9223372036854775808"),
        ("'a' || NULL", None),
    ],
)
def test_an_expression_means_what_it_means_in_trino(trino: Any, expression: str, value: Any) -> None:
    assert trino.rows(f"SELECT {expression}") == [[value]]


def test_aggregates_of_integers_divide_as_integers(trino: Any) -> None:
    [[whole, exact, half]] = trino.rows(
        "SELECT sum(x) / count(*), avg(x) / 2, max(x) / 2 FROM range(8) AS t(x)"
    )

    assert (whole, exact, half) == (3, 1.75, 3)


def test_columns_without_a_name_are_called_as_in_trino(trino: Any) -> None:
    sql = "SELECT count(*), key, sum(value) AS total, max(value) / 2 FROM aggregate GROUP BY key LIMIT 1"
    [page] = [page for page in trino.pages(sql) if "data" in page]

    assert [column["name"] for column in page["columns"]] == ["_col0", "key", "total", "_col3"]
    assert trino.rows("SELECT _col0 FROM (SELECT count(*) FROM aggregate)") == [[1000]]


@pytest.mark.parametrize(
    ("expression", "name"),
    [
        ("true", "boolean"),
        ("CAST(1 AS tinyint)", "tinyint"),
        ("1", "integer"),
        ("BIGINT '1'", "bigint"),
        ("CAST(1 AS real)", "real"),
        ("1e0", "double"),
        ("1.50", "decimal(3,2)"),
        ("'x'", "varchar"),
        ("X'00'", "varbinary"),
        ("DATE '2026-01-01'", "date"),
        ("TIME '01:02:03'", "time(6)"),
        ("TIMESTAMP '2026-01-01 00:00:00.000'", "timestamp(3)"),
        ("now()", "timestamp(6) with time zone"),
        ("ARRAY[BIGINT '1']", "array(bigint)"),
        ("MAP(ARRAY['a'], ARRAY[1.5])", "map(varchar, decimal(2,1))"),
        ("CAST(ROW(1, 'x') AS row(a bigint, \"B c\" varchar))", 'row(a bigint, "B c" varchar)'),
        ("NULL", "unknown"),
        ("CAST('{}' AS json)", "json"),
    ],
)
def test_a_type_has_trinos_name(trino: Any, expression: str, name: str) -> None:
    assert trino.types(f"SELECT {expression}") == [name]


def test_charts(trino: Any) -> None:
    sql = (
        "SELECT key AS key, COUNT(*) AS count, COUNT(DISTINCT key) AS u, approx_distinct(key) AS about "
        "FROM \"native\".aggregate WHERE key LIKE 'key_1%' AND _key_group IN (1, 2, 3) AND value >= 0 "
        "GROUP BY key ORDER BY count DESC LIMIT 10"
    )
    rows = trino.rows(sql)

    assert 0 < len(rows) <= 10
    assert all(row[1:] == [1, 1, 1] for row in rows)


def test_fields_of_rows_are_columns(trino: Any) -> None:
    rows = trino.rows(
        'SELECT value.f0, value.f2 FROM "source__topic-partition-offset-states" ORDER BY value.f2 LIMIT 1'
    )

    assert isinstance(rows[0][0], str)
    assert isinstance(rows[0][1], int)
