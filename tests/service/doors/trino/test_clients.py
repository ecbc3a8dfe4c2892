"""Python's clients: `trino` and its dialect for SQLAlchemy."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

import pytest
import sqlalchemy
import trino as client
from sqlalchemy import column, func, select, table
from trino.exceptions import TrinoQueryError, TrinoUserError

from tests.support.waiting import PATIENCE_S


def connect(address: str, **options: Any) -> Any:
    parts = urlsplit(address)
    given = {"user": "alice", "catalog": "flink", "schema": "native", **options}
    return client.dbapi.connect(host=parts.hostname, port=parts.port, **given)


@pytest.fixture
def cursor(address: str) -> Iterator[Any]:
    """A cursor of a connection to `native`."""
    connection = connect(address)
    yield connection.cursor()
    connection.close()


@pytest.fixture
def engine(address: str) -> Iterator[sqlalchemy.Engine]:
    """SQLAlchemy's, on `native`."""
    parts = urlsplit(address)
    made = sqlalchemy.create_engine(f"trino://alice@{parts.hostname}:{parts.port}/flink/native")
    yield made
    made.dispose()


def rows(cursor: Any, sql: str, *arguments: Any) -> Any:
    cursor.execute(sql, *arguments)
    return cursor.fetchall()


@pytest.mark.slow
def test_rows_and_their_types(cursor: Any) -> None:
    found = rows(
        cursor,
        "SELECT key, value, CAST(value AS decimal(12,2)) AS exact FROM aggregate WHERE key = 'key_662'",
    )

    assert found == [["key_662", 11290, Decimal("11290.00")]]
    assert [column[:2] for column in cursor.description] == [
        ("key", "varchar"),
        ("value", "bigint"),
        ("exact", "decimal(12,2)"),
    ]


def test_parameters(cursor: Any) -> None:
    sql = "SELECT count(*) FROM aggregate WHERE key = ? AND value > ?"

    assert rows(cursor, sql, ("key_662", 10)) == [[1]]
    assert rows(cursor, "SELECT ?, ?, ?", (Decimal("1.50"), "it's", None)) == [
        [Decimal("1.50"), "it's", None]
    ]
    assert rows(cursor, "SELECT ?, ?", ([1, 2], b"ab")) == [[[1, 2], b"ab"]]


@pytest.mark.slow
def test_two_savepoints_are_compared_by_a_table_function(cursor: Any) -> None:
    source = "TABLE(diff(?, ?, ?))"
    names = ("canonical", "native", "aggregate__count")
    joined = (
        "SELECT count(*) FROM canonical.aggregate__count a FULL JOIN native.aggregate__count b ON a.key = b.key "
        "WHERE a.value IS DISTINCT FROM b.value"
    )

    found = rows(cursor, f"SELECT count(*) FROM {source}", names)

    assert found == rows(cursor, joined)
    with pytest.raises(TrinoUserError) as raised:
        rows(cursor, "SELECT *\nFROM TABLE(diff('canonical', 'nativ', 'timers'))")
    assert (raised.value.error_name, raised.value.error_location) == ("SCHEMA_NOT_FOUND", (2, 31))


@pytest.mark.slow
def test_many_rows_come_whole_and_in_order(cursor: Any) -> None:
    assert rows(cursor, "SELECT * FROM range(100000)") == [[number] for number in range(100_000)]


@pytest.mark.slow
def test_a_reader_that_takes_its_time_gets_all_rows(cursor: Any) -> None:
    cursor.execute("SELECT x, repeat('x', 500) FROM range(40000) t(x)")
    first = cursor.fetchmany(10)
    time.sleep(1.5)

    assert [row[0] for row in first + cursor.fetchall()] == list(range(40_000))


def test_errors(cursor: Any) -> None:
    with pytest.raises(TrinoUserError) as caught:
        rows(cursor, "SELECT * FROM nope")

    assert (caught.value.error_name, caught.value.error_type) == ("TABLE_NOT_FOUND", "USER_ERROR")
    assert rows(cursor, "SELECT 1") == [[1]]


def test_transactions_and_use(address: str) -> None:
    options = {"isolation_level": client.transaction.IsolationLevel.READ_COMMITTED}
    with connect(address, **options) as connection:
        cursor = connection.cursor()
        assert rows(cursor, "SELECT count(*) FROM aggregate") == [[1000]]
        connection.commit()
        rows(cursor, "USE flink.canonical")
        assert rows(cursor, "SELECT current_schema") == [["canonical"]]


@pytest.mark.slow
def test_a_deadline_of_the_session(address: str) -> None:
    connection = connect(address, session_properties={"query_max_run_time": "500ms"})
    with pytest.raises(TrinoQueryError) as caught:
        rows(connection.cursor(), "SELECT count(*) FROM range(1000000000000)")
    connection.close()

    assert caught.value.error_name == "EXCEEDED_TIME_LIMIT"


def test_cancel_while_it_runs(address: str) -> None:
    connection = connect(address)
    cursor = connection.cursor()
    ended = threading.Event()

    def run() -> None:
        with pytest.raises((TrinoQueryError, client.exceptions.Error)):
            rows(cursor, "SELECT count(*) FROM range(1000000000000)")
        ended.set()

    thread = threading.Thread(target=run)
    thread.start()
    while cursor.query_id is None:
        time.sleep(0.02)
    time.sleep(0.2)
    cursor.cancel()

    assert ended.wait(PATIENCE_S)
    thread.join()
    connection.close()


def test_prepared_statements_of_older_clients(address: str) -> None:
    connection = connect(address, legacy_prepared_statements=True)

    assert rows(connection.cursor(), "SELECT count(*) FROM aggregate WHERE key = ?", ("key_662",)) == [[1]]
    connection.close()


@pytest.mark.slow
def test_nested_values_are_rows_arrays_and_maps(everything: str) -> None:
    # Python has no dates before the year 1.
    connection = connect(everything, schema=None, legacy_primitive_types=True)
    cursor = connection.cursor()
    [[schema]] = rows(
        cursor, "SELECT min(schema_name) FROM information_schema.schemata WHERE schema_name LIKE 'can%'"
    )
    columns = rows(
        cursor,
        f"SELECT table_name, column_name, data_type FROM information_schema.columns WHERE table_schema = '{schema}'",
    )
    for name in {name for name, _, _ in columns}:
        rows(cursor, f'SELECT * FROM "{schema}"."{name}"')
    connection.close()

    shapes = {data_type.partition("(")[0] for _, _, data_type in columns}
    assert {"row", "array", "map", "varchar", "bigint", "varbinary"} <= shapes


def test_inspect_lists_schemas_tables_and_columns(engine: sqlalchemy.Engine) -> None:
    inspector = sqlalchemy.inspect(engine)

    assert sorted(inspector.get_schema_names()) == [
        "canonical",
        "information_schema",
        "latest",
        "native",
        "savepointdb",
    ]
    assert {"StateMeta", "aggregate", "aggregate__count", "timers"} <= set(
        inspector.get_table_names("native")
    )
    assert inspector.get_view_names("native") == []
    assert inspector.has_table("aggregate", "native")
    assert not inspector.has_table("nope", "native")
    assert [(one["name"], str(one["type"])) for one in inspector.get_columns("aggregate", "native")] == [
        ("state_name", "VARCHAR"),
        ("key", "VARCHAR"),
        ("namespace", "VARCHAR"),
        ("value", "BIGINT"),
        ("_key_group", "INTEGER"),
        ("_subtask", "INTEGER"),
    ]
    assert inspector.get_indexes("aggregate", "native") == []
    assert inspector.get_pk_constraint("aggregate", "native")["constrained_columns"] == []
    assert inspector.get_foreign_keys("aggregate", "native") == []
    assert inspector.get_table_comment("timers", "native") == {
        "text": "the registered timers of all operators"
    }


def test_queries_that_sqlalchemy_writes(engine: sqlalchemy.Engine) -> None:
    aggregate = table("aggregate", column("key"), column("value"))
    words = select(aggregate.c.key, func.sum(aggregate.c.value).label("total"))
    grouped = (
        words.where(aggregate.c.key.like("key_66%"))
        .group_by(aggregate.c.key)
        .order_by(aggregate.c.key)
        .limit(2)
    )
    with engine.connect() as connection:
        value = connection.execute(select(aggregate.c.value).where(aggregate.c.key == "key_66")).scalar_one()
        assert connection.execute(grouped).fetchall()[0] == ("key_66", value)
        assert connection.scalar(sqlalchemy.text("SELECT version()"))


def test_reflected_tables_are_queried(engine: sqlalchemy.Engine) -> None:
    reflected = sqlalchemy.Table("aggregate", sqlalchemy.MetaData(), schema="native", autoload_with=engine)
    with engine.connect() as connection:
        found = connection.execute(select(func.count()).select_from(reflected)).scalar()

    assert found == 1000
