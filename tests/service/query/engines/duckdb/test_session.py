"""Connections that wait for the same statement: they give the same answers, and keep nothing of a query for another."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from catalog.table import FactsTable
from service.base.errors import QueryCancelledError, QueryError
from service.base.settings import Settings
from service.query.engines.duckdb.engine import DuckDBEngine
from service.query.engines.duckdb.session import IdleSessions, Session, SessionKey
from service.query.running.request import QueryRequest
from service.query.sql.plan import TableReference
from service.query.sql.planner import plan

STATEMENTS = [
    "SELECT * FROM aggregate ORDER BY ALL",
    "SELECT count(*), sum(value) FROM aggregate__count",
    "SELECT key FROM aggregate__count WHERE key = 'key_7'",
    "SELECT a.key, b.value FROM aggregate__count a JOIN aggregate__count b USING (key) ORDER BY ALL",
    "WITH few AS (SELECT key FROM aggregate__count WHERE value > 0) SELECT count(*) FROM few",
    "SELECT key FROM aggregate__count ORDER BY key LIMIT 3",
    "SELECT * FROM (PIVOT (SELECT _subtask, value FROM aggregate__count) ON _subtask IN (0, 1) USING sum(value))",
    "SELECT column_name FROM information_schema.columns WHERE table_name = 'aggregate' ORDER BY ALL",
    "DESCRIBE aggregate",
    "VALUES (1, 'a'), (2, NULL)",
]


@pytest.fixture
def engine() -> Iterator[DuckDBEngine]:
    made = DuckDBEngine(Settings.of(threads=2))
    yield made
    made.close()


def answer(engine: DuckDBEngine, planned: Any) -> tuple[Any, list[Any]]:
    """The columns and the rows."""
    execution = engine.execution(planned)
    try:
        rows = [row for batch in execution.open() for row in batch.to_pylist()]
        return execution.columns, rows
    finally:
        execution.close()


@pytest.mark.parametrize("sql", STATEMENTS)
def test_asked_again_a_statement_has_the_answer_of_a_new_engine(
    native: Any, engine: DuckDBEngine, sql: str
) -> None:
    fresh = DuckDBEngine(Settings.of(threads=2))

    found = [answer(engine, plan(sql, native.catalog)) for _ in range(3)]

    assert found == [answer(fresh, plan(sql, native.catalog))] * 3
    assert found[0][1]
    fresh.close()


@pytest.mark.slow
def test_other_texts_over_the_same_tables_have_the_answers_of_a_new_engine(
    native: Any, engine: DuckDBEngine
) -> None:
    fresh = DuckDBEngine(Settings.of(threads=2))
    texts = [
        f"SELECT key, value + {number} FROM aggregate__count WHERE key = 'key_{number}'"
        for number in range(50)
    ]
    texts += ["SELECT value FROM aggregate__count ORDER BY value", "SELECT count(*) FROM aggregate__count"]

    found = [answer(engine, plan(sql, native.catalog)) for sql in [*texts, *reversed(texts)]]

    expected = [answer(fresh, plan(sql, native.catalog)) for sql in texts]
    assert found == [*expected, *reversed(expected)]
    fresh.close()


def test_a_text_that_means_nothing_leaves_the_next_one_alone(native: Any, engine: DuckDBEngine) -> None:
    good = plan("SELECT count(*) FROM aggregate__count", native.catalog)
    expected = answer(engine, good)

    with pytest.raises(QueryError):
        answer(engine, plan("SELECT nothing FROM aggregate__count", native.catalog))

    assert answer(engine, good) == expected


def test_a_session_is_taken_for_its_own_text_before_another() -> None:
    root = duckdb.connect(":memory:")
    idle = IdleSessions()
    keys = [SessionKey(f"SELECT {number}", (("1: t", pa.schema([])),)) for number in range(3)]
    first, second = (Session(key, root.cursor()) for key in keys[:2])
    second.bind()
    for session in (second, first):
        idle.put(session)

    assert idle.take(keys[0]) is first
    assert idle.take(keys[2]) is second
    assert second.key is keys[2]
    assert second.relation is None
    assert idle.take(keys[2]) is None
    root.close()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT random() AS found FROM aggregate__count WHERE key = 'key_7'",
        "SELECT * FROM (PIVOT (SELECT 'found' AS name, random() AS value) ON name IN ('found') USING sum(value))",
        "SELECT now() AS found",
    ],
)
def test_what_changes_from_run_to_run_is_computed_anew(native: Any, engine: DuckDBEngine, sql: str) -> None:
    found = [answer(engine, plan(sql, native.catalog))[1][0]["found"] for _ in range(3)]

    assert len(set(found)) == 3


def test_another_table_of_the_same_name_is_another_answer(native: Any, engine: DuckDBEngine) -> None:
    planned = plan("SELECT value FROM aggregate__count", native.catalog)
    [reference] = planned.tables
    found = []

    for number in (1, 2):
        rows = pa.RecordBatch.from_pylist([{"value": number}])
        table = FactsTable("numbers", "", rows.schema, lambda rows=rows: rows)  # type: ignore[misc]
        own = TableReference(name=reference.name, database=None, table=table)
        found.append(answer(engine, replace(planned, tables=(own,)))[1])

    assert found == [[{"value": 1}], [{"value": 2}]]


@pytest.mark.slow
def test_the_same_statement_many_times_at_once(native: Any) -> None:
    sql = "SELECT key, value FROM aggregate__count WHERE key IN ('key_1', 'key_2') ORDER BY key"
    expected = native.rows(sql)

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: native.rows(sql), range(200)))

    assert len(expected) == 2
    assert answers == [expected] * 200


def test_a_query_that_was_not_read_or_was_cancelled_is_not_run_again_in_its_session(
    native: Any, engine: DuckDBEngine
) -> None:
    planned = plan("SELECT key FROM aggregate__count", native.catalog)
    expected = answer(engine, planned)
    unread = engine.execution(planned)
    unread.open()
    unread.close()
    cancelled = engine.execution(planned)
    reader = cancelled.open()
    cancelled.cancel(QueryCancelledError("the query was cancelled"))
    with pytest.raises(QueryError):
        list(reader)
    cancelled.close()

    assert answer(engine, planned) == expected


def test_where_there_may_be_more_rows_no_thread_goes_on_reading(native: Any) -> None:
    for _ in range(3):
        with native.queries.start(QueryRequest(sql="SELECT key FROM aggregate LIMIT 1", max_rows=1)) as query:
            rows = [row for batch in query.batches() for row in batch.to_pylist()]
        assert len(rows) == 1

    assert not [thread for thread in threading.enumerate() if thread.name.startswith("scan-")]


def test_of_the_sessions_that_wait_the_longest_goes_first() -> None:
    root = duckdb.connect(":memory:")
    idle = IdleSessions()
    keys = [SessionKey("SELECT 1", ((f"1: t{number}", pa.schema([])),)) for number in range(40)]
    made = [Session(key, root.cursor()) for key in keys]

    for session in made:
        idle.put(session)
    found = [idle.take(session.key) for session in made]

    kept = [session for session in found if session is not None]
    assert kept == made[-len(kept) :]
    assert 0 < len(kept) < len(made)
    with pytest.raises(duckdb.ConnectionException):
        made[0].connection.execute("SELECT 1")
    assert kept[0].connection.execute("SELECT 1").fetchall() == [(1,)]
    assert idle.take(kept[0].key) is None
    root.close()


def test_a_session_is_for_one_text_over_tables_of_the_same_names_and_columns() -> None:
    one, same, other = (pa.schema([("value", kind)]) for kind in (pa.int32(), pa.int32(), pa.int64()))
    key = SessionKey("SELECT 1", (("1: t", one),))

    assert key.is_of(SessionKey("SELECT 1", (("1: t", same),)))
    assert not key.is_of(SessionKey("SELECT 2", (("1: t", one),)))
    assert not key.is_of(SessionKey("SELECT 1", (("1: t", other),)))
    assert not key.is_of(SessionKey("SELECT 1", (("2: t", one),)))
    assert not key.is_of(SessionKey("SELECT 1", ()))
