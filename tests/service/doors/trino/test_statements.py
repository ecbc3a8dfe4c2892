"""Every statement of the contract, and its answer."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import pytest

from catalog import connect
from service.base.settings import Settings
from service.doors.app import create_app
from tests.service.doors.trino.conftest import Serving, Speaker
from tests.support.damaged import write_in_files
from tests.support.paths import DATA

AGGREGATE = ["state_name", "key", "namespace", "value", "_key_group", "_subtask"]


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT 1", [[1]]),
        ("SELECT 1;", [[1]]),
        ("select version() = version()", [[True]]),
        ("VALUES (1, 'a'), (2, 'b')", [[1, "a"], [2, "b"]]),
        ("EXECUTE IMMEDIATE 'SELECT 1'", [[1]]),
        ("EXECUTE IMMEDIATE 'SELECT ?, ?, ?' USING 'it''s ?', BIGINT '10', NULL", [["it's ?", 10, None]]),
        ("EXECUTE IMMEDIATE 'SELECT count(*) FROM aggregate WHERE key = ?' USING 'key_662'", [[1]]),
        ("EXECUTE IMMEDIATE 'SELECT ''?'', \"?\" FROM (SELECT ? AS \"?\") -- ?' USING 7", [["?", 7]]),
        (
            "EXECUTE IMMEDIATE 'SELECT key FROM aggregate ORDER BY key LIMIT ?' USING 2",
            [["key_0"], ["key_1"]],
        ),
        ("EXECUTE IMMEDIATE 'SHOW CATALOGS'", [["flink"], ["system"]]),
        ("SELECT key, value FROM aggregate WHERE key = 'key_662'", [["key_662", 11290]]),
        ("SELECT value FROM flink.native.aggregate WHERE key = 'key_662'", [[11290]]),
        ('SELECT value FROM "FLINK"."Native"."AGGREGATE" WHERE key = \'key_662\'', [[11290]]),
        (
            "SELECT a.value = b.value FROM native.aggregate a JOIN canonical.aggregate b USING (key) WHERE key = 'key_1'",
            [[True]],
        ),
        ("TABLE StateMeta", None),
        ("SHOW CATALOGS", [["flink"], ["system"]]),
        ("SHOW CATALOGS LIKE 'f%'", [["flink"]]),
        ("SHOW SCHEMAS", [["canonical"], ["information_schema"], ["latest"], ["native"], ["savepointdb"]]),
        ("SHOW SCHEMAS FROM flink LIKE 'na\\_ive' ESCAPE '\\'", []),
        ("SHOW SCHEMAS IN flink LIKE 'na_ive'", [["native"]]),
        ("SHOW SCHEMAS FROM system", [["information_schema"], ["jdbc"], ["metadata"], ["runtime"]]),
        ("SHOW TABLES LIKE 'aggregate%'", [["aggregate"], ["aggregate__count"], ["aggregate__wide"]]),
        ("SHOW TABLES FROM flink.canonical LIKE 'timers'", [["timers"]]),
        ("SHOW TABLES FROM information_schema", [["columns"], ["schemata"], ["tables"], ["views"]]),
        (
            "SHOW COLUMNS FROM aggregate",
            [
                ["state_name", "varchar", "", ""],
                ["key", "varchar", "", ""],
                ["namespace", "varchar", "", ""],
                ["value", "bigint", "", ""],
                ["_key_group", "integer", "", ""],
                ["_subtask", "integer", "", ""],
            ],
        ),
        ("SHOW COLUMNS FROM flink.native.aggregate LIKE 'val%'", [["value", "bigint", "", ""]]),
        (
            "DESCRIBE information_schema.schemata",
            [["catalog_name", "varchar", "", ""], ["schema_name", "varchar", "", ""]],
        ),
        ("SHOW FUNCTIONS LIKE 'approx_d%'", [["approx_distinct", "", "", "aggregate", True, ""]]),
        ("EXPLAIN (TYPE VALIDATE) SELECT key FROM aggregate", [[True]]),
        (
            "SELECT schema_name FROM information_schema.schemata ORDER BY 1",
            [["canonical"], ["information_schema"], ["latest"], ["native"], ["savepointdb"]],
        ),
        (
            "SELECT table_name FROM information_schema.tables "
            "WHERE table_schema = 'native' AND table_type = 'BASE TABLE' AND table_name LIKE 'agg%' ORDER BY 1",
            [["aggregate"], ["aggregate__count"], ["aggregate__wide"]],
        ),
        ("SELECT table_name FROM information_schema.tables WHERE table_type = 'VIEW'", []),
        (
            "SELECT column_name, data_type, column_default, UPPER(is_nullable) AS is_nullable, comment "
            "FROM information_schema.columns WHERE table_schema = 'native' AND table_name = 'aggregate' "
            "ORDER BY ordinal_position LIMIT 1 OFFSET 3",
            [["value", "bigint", None, "YES", None]],
        ),
        ("SELECT view_definition FROM information_schema.views WHERE table_name = 'x'", []),
        ("SELECT table_cat FROM system.jdbc.catalogs", [["flink"], ["system"]]),
        ("SELECT TABLE_TYPE FROM system.jdbc.table_types ORDER BY TABLE_TYPE", [["TABLE"], ["VIEW"]]),
        (
            "SELECT TABLE_SCHEM, TABLE_CATALOG FROM system.jdbc.schemas "
            "WHERE TABLE_CATALOG = 'flink' AND TABLE_SCHEM LIKE 'nat%' ESCAPE '\\' ORDER BY TABLE_CATALOG, TABLE_SCHEM",
            [["native", "flink"]],
        ),
        (
            'SELECT "comment" FROM "system"."metadata"."table_comments" WHERE "catalog_name" = \'flink\' '
            "AND \"schema_name\" = 'native' AND \"table_name\" = 'timers'",
            [["the registered timers of all operators"]],
        ),
        ("SELECT coordinator, state FROM system.runtime.nodes", [[True, "active"]]),
        ("SELECT catalog_name FROM system.metadata.catalogs", [["flink"], ["system"]]),
        ("SELECT current_user, current_catalog, current_schema", [["alice", "flink", "native"]]),
    ],
)
def test_a_statement_has_its_answer(trino: Any, sql: str, rows: list[Any] | None) -> None:
    found = trino.rows(sql)

    assert found if rows is None else found == rows


@pytest.mark.parametrize(
    ("sql", "name", "position"),
    [
        ("SELEC 1", "SYNTAX_ERROR", (1, 7)),
        ("", "SYNTAX_ERROR", None),
        ("SELECT 'x", "SYNTAX_ERROR", (1, 8)),
        ("SELECT *\nFROM nope", "TABLE_NOT_FOUND", (2, 6)),
        ('SELECT * FROM native."aggregate$partitions"', "TABLE_NOT_FOUND", (1, 22)),
        ("SELECT * FROM nope.aggregate", "SCHEMA_NOT_FOUND", (1, 20)),
        ("SELECT * FROM hive.native.aggregate", "CATALOG_NOT_FOUND", (1, 27)),
        ("SELECT * FROM system.jdbc.nope", "TABLE_NOT_FOUND", (1, 27)),
        ("SELECT * FROM system.nope.x", "SCHEMA_NOT_FOUND", (1, 27)),
        ("SELECT\n  vlaue FROM aggregate", "COLUMN_NOT_FOUND", (2, 3)),
        ("SELECT CAST('x' AS bigint)", "INVALID_CAST_ARGUMENT", None),
        ("SELECT 1 / 0", "DIVISION_BY_ZERO", None),
        ("USE nope", "SCHEMA_NOT_FOUND", None),
        ("USE hive.native", "CATALOG_NOT_FOUND", None),
        ("SHOW TABLES FROM nope", "SCHEMA_NOT_FOUND", None),
        ("SHOW CREATE VIEW aggregate", "NOT_SUPPORTED", None),
        ("SHOW COLUMNS FROM nope", "TABLE_NOT_FOUND", None),
        ("SHOW ROLES", "NOT_SUPPORTED", (1, 1)),
        ("SET SESSION nope = 1", "INVALID_SESSION_PROPERTY", None),
        ("SET SESSION query_max_run_time = 'soon'", "INVALID_SESSION_PROPERTY", None),
        ("SET ROLE admin", "NOT_SUPPORTED", None),
        ("EXECUTE nothing", "NOT_FOUND", None),
        ("EXECUTE IMMEDIATE 'SELECT ?'", "GENERIC_USER_ERROR", (1, 1)),
        ("EXECUTE IMMEDIATE 'SELECT ?' USING 1, 2", "GENERIC_USER_ERROR", (1, 1)),
        ("CALL system.runtime.kill_query(query_id => 'nothing', message => 'x')", "NOT_FOUND", None),
    ],
)
def test_what_fails_has_trinos_name_and_says_where(
    trino: Any, sql: str, name: str, position: tuple[int, int] | None
) -> None:
    error = trino.error(sql)

    assert error["errorName"] == name, error
    assert {"message", "errorCode", "errorType", "failureInfo"} <= set(error)
    location = error.get("errorLocation")
    found = (location["lineNumber"], location["columnNumber"]) if location else None
    if position is not None:
        assert found == position


@pytest.mark.slow
def test_what_takes_longer_than_its_session_lets_it_has_trinos_name(trino: Any) -> None:
    endless = "SELECT count(*) FROM range(1000000000000)"

    error = trino.error(endless, **{"X-Trino-Session": "query_max_run_time=500ms"})

    assert error["errorName"] == "EXCEEDED_TIME_LIMIT", error
    assert {"message", "errorCode", "errorType", "failureInfo"} <= set(error)


def test_the_session_is_kept_by_headers(trino: Any) -> None:
    def headers(sql: str, **given: str) -> dict[str, str]:
        found: dict[str, str] = dict(trino.pages(sql, **given)[-1]["headers"])
        return {name: value for name, value in found.items() if name.startswith("x-trino-")}

    prepared = {"X-Trino-Prepared-Statement": f"one={quote_plus('SELECT ?')}"}
    started = headers("START TRANSACTION ISOLATION LEVEL READ UNCOMMITTED, READ WRITE")

    assert headers("USE canonical") == {"x-trino-set-schema": "canonical"}
    assert headers("USE FLINK.CANONICAL") == {
        "x-trino-set-catalog": "flink",
        "x-trino-set-schema": "canonical",
    }
    assert headers("SET SESSION query_max_run_time = '2s'") == {
        "x-trino-set-session": "query_max_run_time=2s"
    }
    assert headers("RESET SESSION query_max_run_time") == {"x-trino-clear-session": "query_max_run_time"}
    assert headers("PREPARE one FROM SELECT ?") == {"x-trino-added-prepare": "one=SELECT+%3F"}
    assert headers("DEALLOCATE PREPARE one", **prepared) == {"x-trino-deallocated-prepare": "one"}
    assert uuid.UUID(started["x-trino-started-transaction-id"])
    assert headers("COMMIT") == headers("ROLLBACK WORK") == {"x-trino-clear-transaction-id": "true"}


def test_statements_about_the_session_say_what_they_did(trino: Any) -> None:
    done = [
        "USE native",
        "START TRANSACTION",
        "COMMIT",
        "ROLLBACK",
        "RESET SESSION engine",
        "PREPARE x FROM SELECT 1",
    ]

    assert [trino.pages(sql)[-1]["updateType"] for sql in done] == [
        "USE",
        "START TRANSACTION",
        "COMMIT",
        "ROLLBACK",
        "RESET SESSION",
        "PREPARE",
    ]


def test_a_prepared_statement_is_run_and_described(trino: Any) -> None:
    statement = "SELECT count(*) AS found, key FROM aggregate WHERE key = ? AND value > ? GROUP BY key"
    prepared = {"X-Trino-Prepared-Statement": f"statement1={quote_plus(statement)}"}

    assert trino.rows("EXECUTE statement1 USING 'key_662', BIGINT '10'", **prepared) == [[1, "key_662"]]
    assert trino.rows("DESCRIBE INPUT statement1", **prepared) == [[0, "unknown"], [1, "unknown"]]
    assert trino.rows("DESCRIBE OUTPUT statement1", **prepared) == [
        ["found", "", "", "", "bigint", 0, False],
        ["key", "", "", "", "varchar", 0, False],
    ]


def test_what_is_prepared_must_mean_something(trino: Any) -> None:
    assert trino.error("PREPARE x FROM SELECT nope FROM nope")["errorName"] == "TABLE_NOT_FOUND"
    assert trino.error("PREPARE x FROM EXECUTE y")["errorName"] == "PERMISSION_DENIED"


@pytest.mark.slow
def test_a_partial_answer_warns(serving: Serving, tmp_path: Path) -> None:
    folder = write_in_files(DATA / "flink/2.3.0/wordcount-hashmap-savepoints/canonical", tmp_path / "jobs/sp")
    [file] = folder.glob("source-1.*")
    file.unlink()
    app = create_app(catalog=connect(tmp_path / "jobs"), settings=Settings())
    sql = "SELECT count(*) FROM sp.source_offsets"

    with serving(app) as address, Speaker(address) as speaker:
        failed = speaker.error(sql)
        pages = speaker.pages(sql, **{"X-Trino-Session": "allow_partial=true"})

    assert file.name in failed["message"]
    assert [page["data"] for page in pages if "data" in page] == [[[2]]]
    [warning] = pages[-1]["warnings"]
    assert warning["warningCode"]["name"] == "PARTIAL_RESULT"
    assert file.name in warning["message"]


def test_session_properties_are_listed_with_their_values(trino: Any) -> None:
    listed = trino.rows("SHOW SESSION LIKE 'query_max_run%'", **{"X-Trino-Session": "query_max_run_time=2s"})

    assert [row[:3] for row in listed] == [["query_max_run_time", "2s", ""]]


def test_the_plan_is_one_column_of_text(trino: Any) -> None:
    [page] = [page for page in trino.pages("EXPLAIN SELECT key FROM aggregate") if "data" in page]

    assert [column["name"] for column in page["columns"]] == ["Query Plan"]
    assert isinstance(page["data"][0][0], str)


def test_the_cost_of_a_query_is_json(trino: Any) -> None:
    [[text]] = trino.rows("EXPLAIN (TYPE IO, FORMAT JSON) SELECT key FROM aggregate")
    plan = json.loads(text)

    assert plan["inputTableColumnInfos"][0]["table"] == {
        "catalog": "flink",
        "schemaTable": {"schema": "native", "table": "aggregate"},
    }
    assert plan["estimate"]["outputSizeInBytes"] > 0


def test_a_table_is_shown_as_the_statement_that_would_make_it(trino: Any) -> None:
    [[text]] = trino.rows("SHOW CREATE TABLE aggregate__count")

    assert text.startswith("CREATE TABLE flink.native.aggregate__count (\n   key varchar,\n")


def test_metadata_of_jdbc_is_read_for_the_asked_schema_only(trino: Any) -> None:
    sql = (
        "SELECT TABLE_CAT, TABLE_SCHEM, TABLE_NAME, COLUMN_NAME, DATA_TYPE, TYPE_NAME, COLUMN_SIZE, DECIMAL_DIGITS, "
        "NUM_PREC_RADIX, NULLABLE, ORDINAL_POSITION, IS_NULLABLE FROM system.jdbc.columns "
        "WHERE TABLE_CAT = 'flink' AND TABLE_SCHEM LIKE 'native' ESCAPE '\\' AND TABLE_NAME LIKE 'aggregate' "
        "ESCAPE '\\' AND COLUMN_NAME LIKE '%' ESCAPE '\\' ORDER BY TABLE_CAT, TABLE_SCHEM, TABLE_NAME, ORDINAL_POSITION"
    )

    rows = trino.rows(sql)

    assert [row[3] for row in rows] == AGGREGATE
    assert rows[1] == [
        "flink",
        "native",
        "aggregate",
        "key",
        12,
        "varchar",
        2147483647,
        None,
        None,
        1,
        2,
        "YES",
    ]
    assert rows[3] == ["flink", "native", "aggregate", "value", -5, "bigint", 19, None, 10, 1, 4, "YES"]


@pytest.mark.parametrize(
    "table",
    [
        "procedures",
        "procedure_columns",
        "udts",
        "super_types",
        "super_tables",
        "attributes",
        "pseudo_columns",
    ],
)
def test_what_jdbc_asks_and_savepoints_do_not_have_is_empty(trino: Any, table: str) -> None:
    assert trino.rows(f"SELECT * FROM system.jdbc.{table}") == []


def test_an_unknown_catalog_is_an_error(trino: Any) -> None:
    error = trino.error("SELECT * FROM aggregate", **{"X-Trino-Catalog": "hive"})

    assert error["errorName"] == "CATALOG_NOT_FOUND"


def test_without_a_schema_the_newest_is_taken_and_named(trino: Any) -> None:
    headers = {"X-Trino-Schema": "", "X-Trino-Catalog": ""}

    assert trino.rows("SELECT count(*) FROM native.aggregate", **headers) == [[1000]]
    last = trino.pages("SELECT count(*) FROM aggregate", **headers)[-1]
    assert [warning["warningCode"]["name"] for warning in last["warnings"]] == ["DEFAULT_SCHEMA"]


def test_schemas_that_do_not_fit_a_pattern_are_listed(trino: Any) -> None:
    sql = "SELECT DISTINCT table_schema FROM information_schema.tables WHERE table_schema NOT LIKE 'nat%' ORDER BY 1"

    assert trino.rows(sql) == [["canonical"], ["latest"], ["savepointdb"]]


def test_tools_see_what_a_restore_does(trino: Any) -> None:
    rows = trino.rows(
        "SELECT DISTINCT flink, backend, outcome FROM restore_check WHERE operator_uid = 'aggregate' ORDER BY backend, outcome"
    )

    # The files of the sample are RocksDB's own.
    assert rows[-2:] == [["2.3.0", "rocksdb", "as-is"], ["2.3.0", "rocksdb", "restores"]]
    assert ["2.3.0", "hashmap", "fails"] in rows
    assert trino.rows("SELECT count(*) FROM required_classes") == [[0]]


def test_tools_see_how_much_state_there_is_and_where(trino: Any) -> None:
    sizes = "SELECT level, count(*), sum(entries) FROM canonical.xray WHERE operator_uid = 'aggregate' GROUP BY level ORDER BY level"
    keys = "SELECT state_name, distinct_keys, oldest_update FROM canonical.xray_keys WHERE operator_uid = 'aggregate'"

    assert trino.rows(sizes) == [
        ["key_group", 128, 1000],
        ["operator", 1, 1000],
        ["state", 1, 1000],
        ["subtask", 2, 1000],
    ]
    assert trino.rows(keys) == [["count", 1000, None]]
    assert trino.rows("SELECT max(bytes) FROM canonical.xray_largest WHERE state_name = 'count'") == [[18]]
    assert trino.rows("SELECT count(*) FROM canonical.xray_orphan_timers") == [[0]]
