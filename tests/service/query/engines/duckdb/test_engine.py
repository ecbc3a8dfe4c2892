"""DuckDB: what it asks of a scan, how an execution ends, and that it leaves nothing behind."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from sqlglot import parse_one

from catalog.scan import ANYTHING, Predicate, Scan, Split
from catalog.table import FactsTable, Table
from readers.errors import CorruptDataError
from readers.storage.filesystems import ReadCounter
from service.base.errors import (
    ForbiddenError,
    InvalidQueryError,
    InvalidRequestError,
    MemoryExceededError,
    QueryCancelledError,
    QueryError,
    QuerySyntaxError,
    QueryTimeoutError,
    SavepointError,
)
from service.base.settings import Settings
from service.query.engines.duckdb.engine import DuckDBEngine
from service.query.running.request import QueryRequest
from service.query.serving.registry import Queries
from service.query.sql.plan import Plan, ReadStatement, TableReference
from service.query.sql.planner import plan
from tests.support.waiting import wait_until

ROWS = 1000


@dataclass
class NumberSplit(Split):
    """A split of numbers that counts the batches taken and notes whether it was closed."""

    table: NumberTable
    number: int
    columns: tuple[str, ...] = ("value", "_key_group")
    size_bytes: int = 64 << 20

    def narrowed(self, columns: Sequence[str]) -> NumberSplit:
        if self.number == 0:
            self.table.asked.append(list(columns))
        return replace(self, columns=tuple(columns))

    def read(self, counter: ReadCounter | None = None) -> Iterator[pa.RecordBatch]:
        try:
            for batch in range(self.table.batches):
                self.table.taken += 1
                if self.table.pause_s:
                    time.sleep(self.table.pause_s)
                if self.table.error is not None and batch == 2:
                    raise self.table.error
                start = (self.number * self.table.batches + batch) * ROWS
                columns = {
                    "value": pa.array(range(start, start + ROWS), pa.int64()),
                    "_key_group": pa.array([self.number] * ROWS, pa.int32()),
                }
                yield pa.RecordBatch.from_pydict({name: columns[name] for name in self.columns})
        finally:
            self.table.closed += 1


@dataclass
class NumberTable(Table):
    """A table that records how it is read."""

    splits: int = 1
    batches: int = 10
    pause_s: float = 0
    error: Exception | None = None
    taken: int = 0
    closed: int = 0
    asked: list[list[str]] = field(default_factory=list)
    name = "numbers"
    comment = "numbers"

    schema = pa.schema([("value", pa.int64()), ("_key_group", pa.int32())])
    size_bytes = 0

    def plan(self, predicate: Predicate = ANYTHING, *, allow_partial: bool = False) -> Scan:
        return Scan(self.schema, tuple(NumberSplit(self, number) for number in range(self.splits)))


@pytest.fixture
def engine() -> Iterator[DuckDBEngine]:
    made = DuckDBEngine(Settings.of(threads=4, memory_limit="200MB"))
    yield made
    made.close()


def plan_over(table: Table, sql: str, catalog: Any) -> Plan:
    """The plan of a statement, its only table replaced."""
    planned = plan(sql.replace("numbers", "aggregate"), catalog)
    [reference] = planned.tables
    return replace(planned, tables=(TableReference(name=reference.name, database=None, table=table),))


@pytest.fixture
def read(engine: DuckDBEngine, native: Any) -> Callable[[Table, str], list[Any]]:
    """Runs a statement over a table `numbers`."""

    def run(table: Table, sql: str) -> list[Any]:
        execution = engine.execution(plan_over(table, sql, native.catalog))
        try:
            return [tuple(row.values()) for batch in execution.open() for row in batch.to_pylist()]
        finally:
            execution.close()

    return run


def ours() -> set[str]:
    """The threads of our code: DuckDB's are dummies to Python."""
    return {thread.name for thread in threading.enumerate() if not thread.name.startswith("Dummy")}


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = ours()
    yield
    # The thread of a query that was closed may have its last steps before it.
    wait_until(lambda: ours() <= before)


def test_count_asks_for_the_cheapest_column(read: Any) -> None:
    table = NumberTable()

    assert read(table, "SELECT count(*) FROM numbers") == [(10 * ROWS,)]
    assert table.asked == [["_key_group"]]


def test_only_named_columns_are_read(read: Any) -> None:
    table = NumberTable()

    assert read(table, "SELECT value FROM numbers WHERE value = 5") == [(5,)]
    assert table.asked == [["value"]]


@pytest.mark.parametrize("splits", [1, 8])
def test_all_splits_are_read_once(read: Any, splits: int) -> None:
    table = NumberTable(splits=splits)

    rows = read(table, "SELECT count(*), count(DISTINCT value), max(value) FROM numbers")

    assert rows == [(splits * 10 * ROWS, splits * 10 * ROWS, splits * 10 * ROWS - 1)]
    assert table.closed == splits


@pytest.mark.parametrize("splits", [1, 8])
def test_limit_stops_reading(read: Any, splits: int) -> None:
    table = NumberTable(splits=splits, batches=10_000)

    assert len(read(table, "SELECT value FROM numbers LIMIT 3")) == 3
    assert table.taken < 200
    assert table.closed <= splits


def test_between_the_runs_of_a_statement_nothing_reads(engine: DuckDBEngine, native: Any) -> None:
    table = NumberTable(splits=8, batches=10_000)
    planned = plan_over(table, "SELECT value FROM numbers LIMIT 3", native.catalog)
    before = ours()

    for _ in range(3):
        execution = engine.execution(planned)
        assert sum(batch.num_rows for batch in execution.open()) == 3
        execution.close()

        assert ours() == before


@pytest.mark.parametrize("splits", [1, 8])
def test_an_error_in_a_split_is_the_answer_and_names_no_folder(read: Any, splits: int) -> None:
    table = NumberTable(
        splits=splits, error=CorruptDataError("bad", path="/secret/folder/state-1", position=7)
    )

    with pytest.raises(SavepointError) as caught:
        read(table, "SELECT sum(value) FROM numbers")

    assert caught.value.code == "CORRUPT_SAVEPOINT"
    assert caught.value.message == "damaged or incomplete: bad (…/state-1, byte 7)"
    assert "/secret/folder/state-1" in caught.value.detail
    assert isinstance(caught.value.__cause__, CorruptDataError)


def test_a_table_that_cannot_be_scanned_is_the_answer(read: Any) -> None:
    class Broken(NumberTable):
        def plan(self, predicate: Predicate = ANYTHING, *, allow_partial: bool = False) -> Scan:
            raise CorruptDataError("bad header")

    with pytest.raises(SavepointError, match="bad header"):
        read(Broken(), "SELECT * FROM numbers")


def test_an_unforeseen_error_tells_nothing_of_the_inside(read: Any) -> None:
    with pytest.raises(QueryError) as caught:
        read(NumberTable(error=KeyError("/secret/x")), "SELECT sum(value) FROM numbers")

    assert caught.value.code == "INTERNAL_ERROR"
    assert "secret" not in caught.value.message


@pytest.mark.parametrize("splits", [1, 8])
def test_cancel_ends_a_slow_read(engine: DuckDBEngine, native: Any, splits: int) -> None:
    table = NumberTable(splits=splits, batches=10_000, pause_s=0.01)
    execution = engine.execution(plan_over(table, "SELECT sum(value) FROM numbers", native.catalog))
    timer = threading.Timer(0.2, execution.cancel, [QueryCancelledError("enough")])
    timer.start()
    started = time.monotonic()

    with pytest.raises(QueryCancelledError, match="enough"):
        list(execution.open())
    execution.close()

    assert time.monotonic() - started < 60
    assert table.closed == min(splits, 4)


def test_a_cancel_before_the_start_is_heard(engine: DuckDBEngine, native: Any) -> None:
    execution = engine.execution(plan_over(NumberTable(), "SELECT sum(value) FROM numbers", native.catalog))
    execution.cancel(QueryCancelledError("never mind"))

    with pytest.raises(QueryCancelledError, match="never mind"):
        execution.open()
    execution.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM range(1000000000000)",
        "WITH RECURSIVE r AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM r) SELECT max(x) FROM r",
        "SELECT count(*) FROM range(10000000) a, range(10000000) b, range(1000000) c",
        "SELECT * FROM range(1000000000000)",
    ],
)
def test_a_query_past_its_deadline_ends_then(native: Any, sql: str) -> None:
    started = time.monotonic()

    with pytest.raises(QueryTimeoutError):
        native.rows(sql, timeout_s=0.5)

    assert time.monotonic() - started < 60


def test_more_memory_than_allowed_is_an_error_and_the_engine_goes_on(
    engine: DuckDBEngine, native: Any
) -> None:
    queries = Queries(native.catalog, {"duckdb": engine}, Settings())
    sql = "SELECT list(a) FROM range(100000000) t(a)"

    with queries.start(QueryRequest(sql=sql)) as query, pytest.raises(MemoryExceededError):
        list(query.batches())

    with queries.start(QueryRequest(sql="SELECT 1")) as query:
        assert [batch.num_rows for batch in query.batches()] == [1]


def test_max_rows_cuts_and_says_so(native: Any) -> None:
    def rows(sql: str, max_rows: int) -> tuple[int, bool]:
        with native.queries.start(QueryRequest(sql=sql, max_rows=max_rows)) as query:
            found = sum(batch.num_rows for batch in query.batches())
            assert found == query.row_count
            return found, query.truncated

    assert rows("FROM range(200000)", 100_000) == (100_000, True)
    assert rows("FROM range(5)", 5) == (5, False)
    assert rows("FROM range(5)", 0) == (0, True)
    assert rows("FROM range(0)", 0) == (0, False)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT vlaue FROM aggregate", "there is no column 'vlaue'"),
        ("SELECT aggregate.vlaue FROM aggregate", "there is no column 'vlaue'"),
        ('SELECT value.f9 FROM "source__topic-partition-offset-states"', "there is no column 'f9'"),
        ("SELECT foo(1)", "Scalar Function with name foo does not exist!"),
        ("SELECT agregate.key FROM aggregate", 'Referenced table "agregate" not found!'),
        ("SELECT valu.f9 FROM aggregate", "there is no column 'valu'"),
        ("SELECT key FROM native.timers WHERE namespac.start.x > 1", "there is no column 'namespac'"),
        ("SELECT native.agregate.value.f0 FROM native.aggregate", "FROM has no table 'native.agregate'"),
        (
            "SELECT native.aggregate.value.f0 FROM native.aggregate AS a",
            "FROM has no table 'native.aggregate'",
        ),
        ("SELECT native.value.f0 FROM native.aggregate", "FROM has no table 'native.value'"),
        ("SELECT nothing.like.it FROM aggregate", 'Referenced table "nothing.like" not found!'),
        ("SELECT sum(key) FROM aggregate", "No function matches"),
        ("SELECT CAST(key AS INTEGER) FROM aggregate", "Could not convert string"),
    ],
)
def test_what_the_engine_refuses_is_told_plainly(native: Any, sql: str, message: str) -> None:
    with pytest.raises(InvalidQueryError) as caught:
        native.rows(sql)

    assert caught.value.message.startswith(message)
    assert "LINE" not in caught.value.message


def test_an_unknown_column_comes_with_position_and_near_names(native: Any) -> None:
    with pytest.raises(InvalidQueryError) as caught:
        native.rows("SELECT key,\n  vlaue FROM aggregate")

    assert caught.value.code == "COLUMN_NOT_FOUND"
    assert str(caught.value.hint).startswith('did you mean "value"')
    assert caught.value.position is not None
    assert (caught.value.position.line, caught.value.position.column) == (2, 3)


@pytest.mark.slow
def test_many_queries_at_once(native: Any) -> None:
    def ask(number: int) -> Any:
        return native.rows(f"SELECT key, {number} FROM aggregate WHERE key = 'key_{number}'")

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(ask, range(200)))

    assert answers == [[(f"key_{number}", number)] for number in range(200)]


def test_one_query_does_not_see_the_tables_of_another(native: Any, engine: DuckDBEngine) -> None:
    first = engine.execution(plan("SELECT * FROM aggregate", native.catalog))
    first.open()
    planned = plan("SELECT 1", native.catalog)
    other = plan("SELECT * FROM aggregate", native.catalog)
    second = engine.execution(replace(planned, reading=other.reading))

    with pytest.raises(QueryError):
        second.open()
    first.close()
    second.close()


@pytest.mark.parametrize("sql", ["SELECT * FROM aggregate", "SELECT key, upper(key) FROM aggregate"])
@pytest.mark.parametrize("is_cancelled", [False, True], ids=["unread", "cancelled"])
def test_nothing_keeps_what_was_not_read_to_its_end(
    sql: str, is_cancelled: bool, native: Any, engine: DuckDBEngine
) -> None:
    execution = engine.execution(plan(sql, native.catalog))
    reader = execution.open()
    if is_cancelled:
        execution.cancel(QueryCancelledError("the query was cancelled"))
        with pytest.raises(QueryCancelledError):
            list(reader)
    execution.close()
    kept = weakref.ref(execution)
    del execution, reader
    gc.collect()

    assert kept() is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("python_enable_replacements", False),
        ("enable_external_access", False),
        ("lock_configuration", True),
        ("allow_community_extensions", False),
        ("autoinstall_known_extensions", False),
        ("autoload_known_extensions", False),
        ("allow_persistent_secrets", False),
        ("enable_progress_bar", False),
        ("max_expression_depth", 250),
        ("TimeZone", "UTC"),
    ],
)
def test_settings_hold_for_the_connections_of_queries(engine: DuckDBEngine, name: str, value: Any) -> None:
    connection = engine._root.cursor()

    assert connection.execute("SELECT current_setting(?)", [name]).fetchall() == [(value,)]
    connection.close()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM duckdb_settings()",
        "SELECT * FROM duckdb_settings",
        "SELECT * FROM memory.main.x",
        "SELECT current_setting('temp_directory')",
        "SELECT 1 WHERE EXISTS (FROM glob('*'))",
        "SELECT * FROM (DESCRIBE SELECT 1)",
        "WITH x AS (INSERT INTO t VALUES (1) RETURNING *) SELECT * FROM x",
        "INSERT INTO t VALUES (1)",
        "COPY (SELECT 1) TO '/tmp/x'",
    ],
)
def test_the_engine_refuses_what_should_never_have_come_to_it(
    native: Any, engine: DuckDBEngine, sql: str
) -> None:
    query: Any = parse_one(sql, read="duckdb")
    execution = engine.execution(Plan(sql=sql, reading=ReadStatement(query, sql), tables=()))

    with pytest.raises((ForbiddenError, QuerySyntaxError)):
        execution.open()
    execution.close()


def test_python_variables_are_no_tables(engine: DuckDBEngine) -> None:
    secret = pa.table({"a": [1]})
    connection = engine._root.cursor()

    with pytest.raises(Exception, match="does not exist"):
        connection.sql("SELECT * FROM secret")
    assert secret.num_rows == 1
    connection.close()


def test_settings_are_locked(engine: DuckDBEngine) -> None:
    connection = engine._root.cursor()

    for statement in ("SET memory_limit = '1TB'", "SET enable_external_access = true", "INSTALL httpfs"):
        with pytest.raises(Exception, match=r"(?i)lock|disabled|not allowed|forbidden"):
            connection.execute(statement)
    connection.close()


def test_the_spill_folder_goes_with_the_engine(tmp_path: Path) -> None:
    engine = DuckDBEngine(Settings.of(temp_directory=str(tmp_path)))
    made = list(tmp_path.iterdir())

    engine.close()

    assert len(made) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_interpreter_ends_quietly_with_a_query_unread(native: Any) -> None:
    path = native.catalog.database("native").path
    script = f"""
import catalog
from service.query.engines.duckdb.engine import DuckDBEngine
from service.query.serving.registry import Queries
from service.query.running.request import QueryRequest
from service.base.settings import Settings
engine = DuckDBEngine(Settings())
queries = Queries(catalog.connect({path!r}), {{"duckdb": engine}}, Settings())
query = queries.start(QueryRequest(sql="SELECT * FROM aggregate, range(100000)"))
next(query.batches())
print("read")
"""
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "read\n", "")


def test_an_engine_that_is_not_there_says_so(native: Any) -> None:
    with pytest.raises(InvalidRequestError, match="expected an engine, found 'spark'"):
        native.rows("SELECT 1", engine="spark")


def test_a_query_that_breaks_duckdb_leaves_it_to_the_next_one(engine: DuckDBEngine, native: Any) -> None:
    last = pa.record_batch({"value": pa.array([0, 2**63 - 2], pa.timestamp("ms"))})
    table = FactsTable("numbers", "moments", last.schema, lambda: last)

    def answer(sql: str) -> list[Any]:
        execution = engine.execution(plan_over(table, sql, native.catalog))
        try:
            return list(execution.open().read_all().column(0).to_pylist())
        finally:
            execution.close()

    with pytest.raises(QueryError):
        answer("SELECT CAST(value AS VARCHAR) FROM numbers")

    assert answer("SELECT CAST(count(value) AS VARCHAR) FROM numbers") == ["2"]
    assert answer("SELECT epoch_ms(value) FROM numbers WHERE value < '2000-01-01'") == [0]
