"""SHOW, DESCRIBE and SUMMARIZE: the statements that plan another one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from catalog import Catalog, connect
from catalog.catalog import Root
from service.base.errors import (
    DatabaseNotFoundError,
    ForbiddenError,
    InvalidQueryError,
    Position,
    QuerySyntaxError,
    SavepointError,
    TableNotFoundError,
)
from service.query.sql.planner import plan
from service.query.sql.schemas import as_identifier
from tests.support.paths import DATA

CHECKPOINTS = DATA / "flink" / "2.3.0" / "wordcount-rocksdb-checkpoint-incremental" / "checkpoint"
SAVEPOINT = DATA / "flink" / "2.3.0" / "wordcount-rocksdb-savepoints" / "native"
OF_CHECKPOINT = {1: 6774, 2: 11290}
"""The count of `key_662` in each."""


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A folder of two checkpoints, of which the second is newer."""
    folder = tmp_path / "job"
    shutil.copytree(CHECKPOINTS, folder)
    for number in (1, 2):
        os.utime(folder / f"chk-{number}" / "_metadata", (number, number))
    return folder


def test_a_table_without_a_database_is_of_the_newest_one(job: Path, ask_of: Callable[..., Any]) -> None:
    asker = ask_of(Catalog([Root(path=str(job))]))
    count = "SELECT value FROM aggregate WHERE key = 'key_662'"

    assert asker.rows(count) == [(OF_CHECKPOINT[2],)]
    assert plan(count, asker.catalog).warnings == (
        'tables that name no database are read from "job__chk-2", the newest of 2',
    )
    assert asker.rows(count, schema="chk-1") == [(OF_CHECKPOINT[1],)]
    assert plan(count, asker.catalog, schema="chk-1").warnings == ()
    assert plan('SELECT * FROM "chk-1".aggregate', asker.catalog).warnings == ()


def test_the_newest_that_cannot_be_read_is_passed_over(job: Path, ask_of: Callable[..., Any]) -> None:
    metadata = job / "chk-2" / "_metadata"
    metadata.write_bytes(metadata.read_bytes()[:1000])
    asker = ask_of(Catalog([Root(path=str(job))]))

    assert asker.rows("SELECT value FROM aggregate WHERE key = 'key_662'") == [(OF_CHECKPOINT[1],)]
    assert "job__chk-1" in plan("DESCRIBE aggregate", asker.catalog).warnings[0]


def test_the_tables_of_a_database_that_cannot_be_read_are_an_error_and_no_empty_list(
    job: Path, ask_of: Callable[..., Any]
) -> None:
    metadata = job / "chk-2" / "_metadata"
    metadata.write_bytes(metadata.read_bytes()[:1000])
    asker = ask_of(Catalog([Root(path=str(job))]))

    with pytest.raises(SavepointError):
        asker.rows('SHOW TABLES FROM "chk-2"')
    with pytest.raises(SavepointError):
        asker.rows("DESCRIBE", schema="chk-2")
    # A list of all databases has what can be read.
    assert asker.rows(
        "SELECT DISTINCT table_schema FROM information_schema.tables WHERE table_schema LIKE '%chk%'"
    ) == [("job__chk-1",)]


def test_statements_about_tables_take_the_newest_database_too(job: Path, ask_of: Callable[..., Any]) -> None:
    asker = ask_of(Catalog([Root(path=str(job))]))

    for sql in ("SHOW TABLES", "DESCRIBE aggregate", "SHOW CREATE TABLE aggregate", "SUMMARIZE aggregate"):
        assert '"job__chk-2"' in plan(sql, asker.catalog).warnings[0]
        assert asker.rows(sql)


def test_databases_that_were_only_registered_have_no_newest(job: Path) -> None:
    catalog = Catalog([])
    for number in (1, 2):
        catalog.add(f"c{number}", str(job / f"chk-{number}"))

    with pytest.raises(InvalidQueryError, match="names no database") as caught:
        plan("SELECT * FROM aggregate", catalog)

    assert "c1" in str(caught.value.hint)


def test_a_single_database_needs_no_warning(native: Any) -> None:
    assert plan("SELECT * FROM aggregate", native.catalog).warnings == ()


def test_names_are_filtered_by_a_pattern(native: Any, two: Any) -> None:
    assert native.rows("SHOW TABLES LIKE 'AGG%_COUNT'") == [("aggregate__count",)]
    assert native.rows("SHOW TABLES FROM native LIKE '%offsets'") == [("source_offsets",)]
    assert native.rows("SHOW TABLES LIKE 'it''s'") == []
    assert two.rows("SHOW SCHEMAS LIKE 'nat%'") == two.rows("SHOW DATABASES LIKE 'NAT%'") == [("native",)]


@pytest.mark.parametrize(
    "sql",
    [
        "SHOW TABLES LIKE",
        "SHOW TABLES LIKE aggregate",
        "SHOW TABLES FROM LIKE 'x'",
        "SHOW TABLES LIKE 'a' 'b'",
        "SHOW CREATE aggregate",
        "SHOW CREATE TABLE",
        "SUMMARIZE",
        "SUMMARIZE aggregate b c d",
    ],
)
def test_half_a_statement_is_a_syntax_error(native: Any, sql: str) -> None:
    with pytest.raises(QuerySyntaxError):
        plan(sql, native.catalog)


def test_show_create_table_is_a_statement_with_the_columns(native: Any) -> None:
    expected = (
        "CREATE TABLE native.aggregate__count (\n"
        "    key VARCHAR,\n    namespace VARCHAR,\n    value BIGINT,\n    _key_group INTEGER,\n    _subtask INTEGER\n);\n"
        "COMMENT ON TABLE native.aggregate__count IS 'state count of operator aggregate';"
    )
    found = plan("SHOW CREATE TABLE Aggregate__Count", native.catalog)

    assert native.rows("SHOW CREATE TABLE native.aggregate__count") == [(expected,)]
    assert native.rows("SHOW CREATE TABLE Aggregate__Count") == [(expected,)]
    assert found.is_text
    with pytest.raises(TableNotFoundError) as caught:
        plan("SHOW CREATE TABLE\n agregate", native.catalog)
    assert caught.value.position == Position(2, 2)


@pytest.mark.slow
def test_what_show_create_table_says_is_sql(native: Any, everything: Any) -> None:
    for asker in (native, everything):
        for [name] in asker.rows("SHOW TABLES"):
            [(text,)] = asker.rows(f'SHOW CREATE TABLE "{name}"')
            with duckdb.connect() as connection:
                connection.execute("CREATE SCHEMA native")
                connection.execute(text)
                found = connection.execute(f'DESCRIBE native."{name}"').fetchall()
                [(comment,)] = connection.execute("SELECT comment FROM duckdb_tables()").fetchall()
            described = asker.rows(f'DESCRIBE "{name}"')
            assert [row[:2] for row in found] == [row[:2] for row in described]
            assert comment == asker.catalog.default.table(name).comment


def test_names_that_are_words_of_sql_are_quoted() -> None:
    sql = "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category IN ('reserved', 'type_function')"
    with duckdb.connect() as connection:
        reserved = connection.execute(sql).fetchall()

    for (word,) in reserved:
        assert as_identifier(word) == f'"{word}"'
    assert [as_identifier(name) for name in ("key", "Value", "a-b", 'a"b', "", "é", "1a")] == [
        *("key", "Value", '"a-b"', '"a""b"', '""', '"é"', '"1a"')
    ]


def test_describe_alone_lists_the_tables_with_their_comments(native: Any) -> None:
    rows = native.rows("DESCRIBE")

    assert [name for name, _ in rows] == [name for [name] in native.rows("SHOW TABLES")]
    assert ("aggregate__count", "state count of operator aggregate") in rows


def test_a_savepoint_is_described(native: Any) -> None:
    found = dict(native.rows("DESCRIBE DATABASE native"))

    made = native.catalog.default.created_at
    assert found == {
        "database": "native",
        "kind": "SAVEPOINT",
        "checkpoint_id": "2",
        "created_at": f"{made:%Y-%m-%d %H:%M:%S}+00",
        "job": "wordcount-rocksdb-savepoints",
        "job_id": None,
        "flink": "2.1 or newer",
        "operators": "3",
        "size_bytes": "69793",
        "tables": "19",
    }
    assert native.rows("DESCRIBE SCHEMA flink.NATIVE") == list(found.items())


def test_other_schemas_are_described(job: Path, ask_of: Callable[..., Any]) -> None:
    asker = ask_of(Catalog([Root(path=str(job))]))

    assert asker.rows('DESCRIBE SCHEMA "job__history"') == [
        ("database", "job__history"),
        ("kind", "HISTORY"),
        ("checkpoints", "2"),
        ("newest", "job__chk-2"),
        ("oldest", "job__chk-1"),
        ("tables", str(len(asker.rows('SHOW TABLES FROM "job__history"')))),
    ]
    assert asker.rows("DESCRIBE DATABASE savepointdb") == [
        ("database", "savepointdb"),
        ("kind", "LISTINGS"),
        ("tables", "2"),
    ]
    with pytest.raises(DatabaseNotFoundError) as caught:
        plan("DESCRIBE DATABASE\n job__histori", asker.catalog)
    assert caught.value.position == Position(2, 2)


@pytest.mark.parametrize(
    ("sql", "first"),
    [
        ("DESCRIBE information_schema.tables", ("table_catalog", "VARCHAR")),
        ("DESCRIBE savepointdb.checkpoints", ("database", "VARCHAR")),
        ('DESCRIBE "job__history".aggregate__count', ("_checkpoint_id", "BIGINT")),
        (
            "DESCRIBE SELECT * FROM diff('job__chk-1', 'job__chk-2', 'aggregate__count')",
            ("change", "VARCHAR"),
        ),
        ("DESCRIBE diff('job__chk-1', 'job__chk-2', 'aggregate__count')", ("change", "VARCHAR")),
    ],
)
def test_everything_in_from_is_described(
    job: Path, ask_of: Callable[..., Any], sql: str, first: tuple[str, str]
) -> None:
    asker = ask_of(Catalog([Root(path=str(job))]))

    assert asker.rows(sql)[0][:2] == first


def test_trino_s_dialect_has_statements_about_tables(native: Any) -> None:
    for sql in (
        "SHOW TABLES LIKE 'agg%'",
        "DESCRIBE aggregate",
        "SHOW CREATE TABLE aggregate",
        "SHOW SCHEMAS",
    ):
        assert native.rows(sql, dialect="trino") == native.rows(sql)
    for sql in ("SUMMARIZE aggregate", "DESCRIBE SELECT 1", "summarize\nSELECT 1"):
        with pytest.raises(ForbiddenError, match="is not Trino's") as caught:
            native.rows(sql, dialect="trino")
        assert caught.value.hint == "the dialect duckdb has it"


def test_summarize_has_a_row_a_column(native: Any) -> None:
    rows = native.rows("SUMMARIZE aggregate__count")
    by_name = {row[0]: row for row in rows}
    [(smallest, largest, count)] = native.rows(
        "SELECT min(value), max(value), count(*) FROM aggregate__count"
    )

    assert list(by_name) == ["key", "namespace", "value", "_key_group", "_subtask"]
    assert by_name["value"][1:4] == ("BIGINT", str(smallest), str(largest))
    assert by_name["value"][10] == count
    assert native.rows("SUMMARIZE SELECT value FROM native.aggregate WHERE key = 'key_662'")[0][2] == "11290"


@pytest.mark.slow
def test_summarize_takes_every_type(everything: Any) -> None:
    names = [name for [name] in everything.rows("SHOW TABLES")]

    for name in names:
        described = everything.rows(f'DESCRIBE "{name}"')
        assert [row[:2] for row in everything.rows(f'SUMMARIZE "{name}"')] == [row[:2] for row in described]


@pytest.fixture
def everything(ask_of: Callable[..., Any]) -> Any:
    """A savepoint with states of every kind."""
    return ask_of(connect(DATA / "flink" / "2.3.0" / "everything-rocksdb-savepoints" / "native"))


@pytest.mark.parametrize(
    "sql", ["SUMMARIZE SELECT * FROM read_csv('/etc/passwd')", "SUMMARIZE DELETE FROM aggregate"]
)
def test_summarize_opens_no_door(native: Any, sql: str) -> None:
    with pytest.raises((ForbiddenError, QuerySyntaxError)):
        native.rows(sql)
