"""DuckDB, in this process.

A table is a subclass of `pyarrow.dataset.Dataset` whose `scanner(columns, filter)` opens a `Scan`: DuckDB hands it the
columns and the conditions it has left after planning, and takes batches until it has enough. What DuckDB 2.0 makes of
it:

* the filter is trusted: its columns are not asked for and it is not applied again, so the scan applies it exactly;
* `COUNT(*)` asks for the first column, so the dataset has the cheapest ones first, and a view has the table's order;
* an error inside a scan comes back as text with a trace in it, so the error itself is kept aside and raised instead.

One root connection has the settings, hardened and locked; each execution has a connection of its own to the same engine,
with the tables of its statement and nothing else (`duckdbsession`). Before a text runs, DuckDB's own parser says what is
in it: a statement that it reads differently from sqlglot is refused.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Generator, Iterator
from typing import Any

import duckdb
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from catalog import Scan
from catalog.errors import near_names
from service.encode.columns import decoded, decoded_schema
from service.engines.duckdb.session import IdleSessions, Session, SessionKey
from service.engines.duckdb.unchanged import answer_schema, as_they_are, unchanged_columns
from service.engines.engine import Engine, Execution, Progress
from service.engines.parallel import SplitCount, read_splits
from service.engines.spill import SpillFolder
from service.errors import (
    ColumnNotFoundError,
    EngineError,
    ForbiddenError,
    InvalidQueryError,
    InvalidValueError,
    MemoryExceededError,
    QueryCancelledError,
    QueryError,
    QuerySyntaxError,
    near_names_hint,
    query_error_of,
    without_folders,
)
from service.process import machine
from service.settings import Settings
from service.sql.functions import MACROS, is_allowed_function, is_allowed_table_function
from service.sql.plan import Plan, TableReference
from service.sql.types import Column

# What DuckDB finds at a time: a batch of more rows holds them in its memory and in ours.
_VECTOR_ROWS = 2048
_BATCH_ROWS = 65_536
_BATCH_BYTES = 1 << 20
_LARGE_BYTES = 1 << 18
_GATHER_S = 0.05
_MAX_EXPRESSION_DEPTH = 250

# Of what DuckDB's parser may find, by `type`: statements, FROM and their modifiers.
_NODES = frozenset(
    {
        "BASE_TABLE",
        "COLUMN_DATA",
        "CTE_NODE",
        "DISTINCT_MODIFIER",
        "EMPTY",
        "EMPTY_FROM",
        "EXPRESSION_LIST",
        "JOIN",
        "LIMIT_MODIFIER",
        "LIMIT_PERCENT_MODIFIER",
        "ORDER_MODIFIER",
        "PIVOT",
        "RECURSIVE_CTE_NODE",
        "SELECT_NODE",
        "SET_OPERATION_NODE",
        "SUBQUERY",
        "TABLE_FUNCTION",
    }
)
_MISSING_COLUMN = re.compile(
    r'(?:Referenced column|does not have a column named) "(?P<name>(?:[^"]|"")+)"'
    r"|Could not find key \"(?P<key>[^\"]+)\" in struct"
)
_MISSING_TABLE = re.compile(r'Referenced table "(?P<name>[^"]+)" not found')
_CANDIDATES = re.compile(r"Candidate (?:bindings|tables|Entries): (?P<names>[^\n]*)")
_KIND = re.compile(r"^(?P<kind>[A-Za-z][A-Za-z ]*?) Error: (?P<message>.*)", re.DOTALL)
_END_OF_MESSAGE = re.compile(
    r"\n\s*(?:LINE \d+:|Candidate functions:|Possible solutions:|Detail:).*", re.DOTALL
)


class DuckDBEngine(Engine):
    """DuckDB with the settings' limits.

    Args:
        settings: memory, threads and where to spill.
    """

    name = "duckdb"

    def __init__(self, settings: Settings) -> None:
        self._threads = settings.duckdb.threads or machine.cores()
        self._spill = SpillFolder(settings.storage.temp_directory)
        self._settings = _engine_settings(settings, self._threads, self._spill.path)
        self._lock = threading.Lock()
        self._root = self._connected()
        self._idle = IdleSessions()
        self._is_suspect = False

    def execution(self, plan: Plan, max_rows: int | None = None) -> DuckDBExecution:
        """As `Engine.execution`; rows are found as they are read."""
        return DuckDBExecution(plan, self, self._threads)

    def close(self) -> None:
        """As `Engine.close`."""
        self._idle.clear()
        self._root.close()
        self._spill.close()

    def session(self, key: SessionKey) -> Session:
        """A session for this text over these tables: one that waits, or else a new one."""
        if self._is_suspect:
            self._check_root()
        return self._idle.take(key) or Session(key, self._connection())

    def give_back(self, session: Session) -> None:
        """Keep a session whose execution ended well."""
        session.detach()
        self._idle.put(session)

    def suspect(self) -> None:
        """A query failed: look whether the engine is still there before the next one."""
        self._is_suspect = True

    def _connection(self) -> duckdb.DuckDBPyConnection:
        with self._lock:
            return self._root.cursor()

    def _check_root(self) -> None:
        """Have another engine if a query broke this one.

        An internal error of DuckDB's ends every connection: 2.0 has one where a time beyond its microseconds becomes text.
        """
        with self._lock:
            self._is_suspect = False
            try:
                with self._root.cursor() as connection:
                    connection.execute("SELECT 1").fetchall()
            except duckdb.FatalException:
                self._idle.clear()
                self._root.close()
                self._root = self._connected()

    def _connected(self) -> duckdb.DuckDBPyConnection:
        """The root connection of an engine."""
        root = duckdb.connect(":memory:")
        for name, value in self._settings.items():
            root.execute(f"SET GLOBAL {name}={_literal(value)}")
        for definition in MACROS:
            root.execute(definition)
        return root


class DuckDBExecution(Execution):
    """One plan on a connection of its own."""

    def __init__(self, plan: Plan, engine: DuckDBEngine, threads: int) -> None:
        self._plan = plan
        self._engine = engine
        self._session: Session | None = None
        self._reader: pa.RecordBatchReader | None = None
        self._unread: Generator[pa.RecordBatch] | None = None
        self._is_read = False
        self._threads = threads
        self._scans: list[Scan] = []
        self._counts: list[SplitCount] = []
        self._columns: tuple[Column, ...] = ()
        self._failure: QueryError | None = None
        self._closed = False
        self._lock = threading.Lock()

    @property
    def columns(self) -> tuple[Column, ...]:
        """As `Execution.columns`."""
        return self._columns

    @property
    def bytes_read(self) -> int:
        """As `Execution.bytes_read`."""
        return sum(scan.bytes_read for scan in self._scans)

    @property
    def bytes_total(self) -> int:
        """As `Execution.bytes_total`."""
        return sum(scan.bytes_total for scan in self._scans)

    @property
    def progress(self) -> Progress:
        """As `Execution.progress`."""
        return Progress(
            bytes_read=self.bytes_read,
            bytes_total=self.bytes_total,
            bytes_cached=sum(scan.bytes_cached for scan in self._scans),
            cache_hits=sum(scan.is_cached for scan in self._scans),
            rows_read=sum(count.rows for count in self._counts),
            splits_read=sum(count.splits for count in self._counts),
            splits_total=sum(len(scan.parts) for scan in self._scans),
        )

    def open(self) -> pa.RecordBatchReader:
        """As `Execution.open`."""
        sql = self._plan.query_sql()
        tables = tuple((reference.name, reference.table) for reference in self._plan.tables)
        with self._errors():
            session = self._taken(SessionKey(f"{self._plan.prefix} {sql}", tables))
            session.attach(self._plan.tables, self)
            if session.relation is None:
                self._check(sql, session.connection)
            relation = session.bind()
            self._columns = session.columns
            self._check_not_cancelled()
            self._reader = reader = self._unchanged() or relation.to_arrow_reader(_VECTOR_ROWS)
        return pa.RecordBatchReader.from_batches(decoded_schema(reader.schema), self._batches(reader))

    def cancel(self, error: QueryError) -> None:
        """As `Execution.cancel`."""
        with self._lock:
            if self._closed:
                return
            self._failure = self._failure or error
            if self._session is not None:
                self._session.connection.interrupt()

    def close(self) -> None:
        """As `Execution.close`."""
        with self._lock:
            ended_well = self._is_read and self._failure is None
            self._closed = True
            self._failure = self._failure or QueryCancelledError("the query was closed")
            session, self._session = self._session, None
        if self._reader is not None:
            self._reader.close()
        if self._unread is not None:
            self._unread.close()  # its reader would keep it, and it keeps this: no collector looks through Arrow
        if session is None:
            return
        if ended_well and session.can_run_again:
            self._engine.give_back(session)
        else:
            session.close()

    def _taken(self, key: SessionKey) -> Session:
        """A session, as long as it is not cancelled."""
        session = self._engine.session(key)
        with self._lock:
            if self._failure is None:
                self._session = session
                return session
        session.close()
        raise self._failure

    def _batches(self, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        """The rows, the first ones at once; then some more at a time, but never many bytes: they wait to be read."""
        waiting: list[pa.RecordBatch] = []
        size_bytes, rows, is_first, since = 0, 0, True, time.monotonic()
        while (batch := self._next(reader)) is not None:
            waiting.append(batch)
            size_bytes += batch.nbytes
            rows += batch.num_rows
            del batch
            is_late = time.monotonic() - since > _GATHER_S
            is_large = len(waiting) == 1 and size_bytes >= _LARGE_BYTES
            if is_first or is_late or is_large or size_bytes >= _BATCH_BYTES or rows >= _BATCH_ROWS:
                yield _together(waiting)
                size_bytes, rows, is_first, since = 0, 0, False, time.monotonic()
        if waiting:
            yield _together(waiting)

    def _next(self, reader: pa.RecordBatchReader) -> pa.RecordBatch | None:
        """The next rows; None if there are no more."""
        while True:
            with self._errors():
                self._check_not_cancelled()
                try:
                    batch = decoded(reader.read_next_batch())
                except StopIteration:
                    self._is_read = True
                    return None
            if batch.num_rows:
                return batch

    def _unchanged(self) -> pa.RecordBatchReader | None:
        """The rows as the scan has them, where the statement asks for no more; None where it does."""
        columns = unchanged_columns(self._plan)
        if columns is None:
            return None
        (reference,) = self._plan.tables
        schema = answer_schema(reference, columns, [column.name for column in self._columns])
        with self._scan_errors():
            scan = self.scan(reference, list(dict.fromkeys(columns)), None)
        self._unread = self._as_they_are(scan, columns, schema)
        return pa.RecordBatchReader.from_batches(schema, self._unread)

    def _as_they_are(self, scan: Scan, columns: list[str], schema: pa.Schema) -> Generator[pa.RecordBatch]:
        with self._scan_errors():
            yield from as_they_are(self.batches_of(scan), columns, schema)

    @contextlib.contextmanager
    def _scan_errors(self) -> Iterator[None]:
        """Keeps errors of a scan, as where DuckDB has it run, and raises what they mean."""
        try:
            yield
        except Exception as error:
            self.fail(error)
            assert self._failure is not None
            raise self._failure from self._failure.__cause__

    def scan(self, reference: TableReference, columns: list[str], condition: pc.Expression | None) -> Scan:
        """Start to read a table."""
        scan = reference.table.scan(columns, reference.predicate, condition)
        self._scans.append(scan)
        return scan

    def batches_of(self, scan: Scan) -> Iterator[pa.RecordBatch]:
        """The batches of a scan; an error of theirs is the execution's."""
        count = SplitCount()
        self._counts.append(count)
        started = time.monotonic()
        try:
            yield from read_splits(scan, self._threads, self._check_not_cancelled, count)
            scan.completed(time.monotonic() - started)
        except GeneratorExit:
            raise
        except Exception as error:
            self.fail(error)
            raise

    def fail(self, error: Exception) -> None:
        """Keep an error of a scan: DuckDB would make text of it."""
        failure = query_error_of(error)
        failure.__cause__ = None if failure is error else error
        self._failure = self._failure or failure

    def _check_not_cancelled(self) -> None:
        if self._failure is not None:
            raise self._failure

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Translates what DuckDB and Arrow raise."""
        try:
            yield
        except QueryError:
            raise
        except MemoryError as error:
            raise query_error_of(error) from error
        except (duckdb.Error, pa.ArrowException, OSError, RuntimeError, ValueError) as error:
            self._engine.suspect()
            if self._failure is not None:
                raise self._failure from self._failure.__cause__
            raise _translated(str(error), self._plan) from error

    def _check(self, sql: str, connection: duckdb.DuckDBPyConnection) -> None:
        """Refuse what DuckDB's parser reads differently from what the plan allows.

        Raises:
            QueryError: it is no statement to DuckDB, or not one that may run.
        """
        tree = connection.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()
        found = orjson.loads(tree[0][0])
        if found.get("error", True):
            text = str(found.get("error_message", ""))
            raise QuerySyntaxError(without_folders(text) or "expected one query")
        if len(found["statements"]) != 1:
            raise ForbiddenError("expected one statement, found several")
        tables = {reference.name for reference in self._plan.tables}
        tables |= {
            entry["key"]
            for node in _dictionaries(found)
            if "cte_map" in node
            for entry in node["cte_map"]["map"]
        }
        for node in _dictionaries(found):
            _check_node(node, tables)


def _engine_settings(settings: Settings, threads: int, spill: str) -> dict[str, str | int | bool]:
    """In this order: where to spill cannot be set once external access is off, and nothing once all is locked.

    They are set globally: several of them hold for the root connection only otherwise, and not for those of queries.
    """
    limits: dict[str, str | int | bool] = {
        "temp_directory": spill,
        "max_temp_directory_size": settings.duckdb.max_temp_size,
        "threads": threads,
    }
    if settings.duckdb.memory_limit:
        limits["memory_limit"] = settings.duckdb.memory_limit
    return limits | {
        "TimeZone": "UTC",
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "allow_community_extensions": False,
        "allow_extension_repositories": "forbidden",
        "allow_persistent_secrets": False,
        "python_enable_replacements": False,
        "max_expression_depth": _MAX_EXPRESSION_DEPTH,
        "enable_external_access": False,
        "lock_configuration": True,
    }


def _dictionaries(tree: Any) -> Iterator[dict[str, Any]]:
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node


def _check_node(node: dict[str, Any], tables: set[str]) -> None:
    kind = node.get("type")
    if not isinstance(kind, str):
        return
    if kind == "BASE_TABLE":
        path = node["qualified_name"]["path"]
        if len(path) != 1 or path[0].casefold() not in {table.casefold() for table in tables}:
            raise ForbiddenError("the statement names a table in a way that is not understood")
    elif kind == "TABLE_FUNCTION":
        name = node["function"]["function_name"]
        if not is_allowed_table_function(name):
            raise ForbiddenError(f"reading from {name}() is not allowed")
    elif node.get("class") == "FUNCTION" or kind == "FUNCTION":
        if not is_allowed_function(node["function_name"]):
            raise ForbiddenError(f"{node['function_name']}() is not allowed")
    elif kind.endswith(("_NODE", "_REF", "_MODIFIER")) and "class" not in node and kind not in _NODES:
        raise ForbiddenError("only queries are allowed")


def _translated(text: str, plan: Plan) -> QueryError:
    """The error that a text of DuckDB's means."""
    found = _KIND.match(text)
    kind, message = (found["kind"], found["message"]) if found else ("", text)
    candidates = _CANDIDATES.search(message)
    plain = without_folders(_CANDIDATES.sub("", _END_OF_MESSAGE.sub("", message)).strip())
    missing = _MISSING_COLUMN.search(message)
    if missing is not None:
        return _missing_column(missing["name"] or missing["key"], candidates, plan)
    unknown = _MISSING_TABLE.search(message)
    position = plan.position_of(unknown["name"]) if unknown else None
    hint = near_names_hint(tuple(re.findall(r'"([^"]+)"', candidates["names"]))) if candidates else None
    plain, _, advice = plain.partition("\n")
    error = _ERRORS.get(kind, EngineError)
    return error(
        _RENAMED.get(kind, plain), hint=hint or advice.strip() or None, position=position, detail=text
    )


def duckdb_error_of(text: str) -> QueryError:
    """The error that a text of DuckDB's means, of a value."""
    found = _KIND.match(text)
    kind, message = (found["kind"], found["message"]) if found else ("", text)
    plain = without_folders(_END_OF_MESSAGE.sub("", message).strip()).partition("\n")[0]
    return _ERRORS.get(kind, EngineError)(_RENAMED.get(kind, plain), detail=text)


def _missing_column(name: str, candidates: re.Match[str] | None, plan: Plan) -> ColumnNotFoundError:
    known = {column for reference in plan.tables for column in reference.table.schema.names}
    listed = re.findall(r'"([^"]+)"', candidates["names"]) if candidates else []
    near = tuple(dict.fromkeys([*near_names(name, known), *listed]))[:3]
    return ColumnNotFoundError(
        f"there is no column {name!r}", hint=near_names_hint(near), position=plan.position_of(name)
    )


def _together(waiting: list[pa.RecordBatch]) -> pa.RecordBatch:
    """The batches as one; the list is empty then, so that who takes it is the only one to have it."""
    batch = waiting.pop() if len(waiting) == 1 else pa.concat_batches(waiting)
    waiting.clear()
    return batch


def _literal(value: str | int | bool) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value).lower()


_ERRORS: dict[str, type[QueryError]] = {
    "Binder": InvalidQueryError,
    "Catalog": InvalidQueryError,
    "Parser": QuerySyntaxError,
    "Syntax": QuerySyntaxError,
    "Conversion": InvalidValueError,
    "Out of Range": InvalidValueError,
    "Invalid Input": InvalidValueError,
    "Invalid Type": InvalidValueError,
    "Mismatch Type": InvalidValueError,
    "Not implemented": InvalidQueryError,
    "Not Implemented": InvalidQueryError,
    "Permission": ForbiddenError,
    "Out of Memory": MemoryExceededError,
    "INTERRUPT": QueryCancelledError,
}
_RENAMED = {
    "Out of Memory": "the query needs more memory than it may have",
    "INTERRUPT": "the query was cancelled",
}
