"""The engine DuckDB, in this process.

A table is a subclass of `pyarrow.dataset.Dataset` whose `scanner(columns, filter)` opens a `Scan`: DuckDB passes the columns
and the conditions that are left after its planning, and takes batches until it has enough. DuckDB 2.0 uses it as follows:

* it trusts the filter: it asks for none of its columns and does not apply it again, so the scan applies it exactly;
* `COUNT(*)` asks for the first column, so the dataset has the cheapest columns first, and a view has the table's order;
* it returns an error inside a scan as text with a trace, so the execution keeps the error itself and raises that.

A table whose whole state is in the cache of decoded states is no dataset: DuckDB reads the file of the cache itself (`cached`).
A statement that fails this way before it has a row runs once more over datasets, so a file that is damaged costs only time.

The root connection has the settings, hardened and locked. Each execution has a connection of its own to the same database,
with the tables of its statement and nothing else (`session`). Before a text runs, `guard` refuses what DuckDB's own parser
reads differently from sqlglot.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Generator, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from catalog import PlannedTable, Scan
from catalog.scan import ScanCounter
from readers import TemporaryFolder
from service.base import machine
from service.base.errors import (
    EngineError,
    EngineUnavailableError,
    MemoryExceededError,
    QueryCancelledError,
    QueryError,
    query_error_of,
)
from service.base.settings import InvalidSettingError, Settings
from service.query.encode.formats import decoded, decoded_schema
from service.query.engines.duckdb import guard
from service.query.engines.duckdb.errors import statement_error_of
from service.query.engines.duckdb.session import IdleSessions, Session, SessionKey
from service.query.engines.engine import Engine, Execution, Progress
from service.query.engines.parallel import SplitCount, read_splits
from service.query.sql.plan import Plan, TableReference, unread_files
from service.query.sql.text import text_constant
from service.query.sql.translation.macros import FLINK_MACROS, FLINK_PREFIX, MACROS, PREFIX

if TYPE_CHECKING:
    from service.query.engines.duckdb.cached import CachedFiles, OpenCacheFile

# The rows that DuckDB computes at a time: it copies a larger batch together, and holds the rows twice.
_VECTOR_ROWS = 2048
_BATCH_ROWS = 65_536
_BATCH_BYTES = 1 << 20
_LARGE_BYTES = 1 << 18
# Rows that come slowly are not held back for longer than this.
_GATHER_S = 0.05
# The share of the machine's memory where the settings leave it open; the rest is for scans and answers.
_OF_MACHINE = 0.8
_MAX_EXPRESSION_DEPTH = 250
# EXPLAIN would show the name of the file, and DESCRIBE reads none.
_WHOLE_READS = frozenset({"", "SUMMARIZE"})
# DuckDB's names of settings that have other keys here.
_KEYS = {"max_temp_directory_size": "max_temp_size"}


class DuckDBEngine(Engine):
    """DuckDB with the limits of the settings.

    Args:
        settings: memory, threads and the folder to spill to.
    """

    name = "duckdb"

    def __init__(self, settings: Settings) -> None:
        self._threads = settings.duckdb.threads or machine.cores()
        self._spill = TemporaryFolder(settings.storage.temp_directory)
        self._settings = _engine_settings(settings, self._threads, self._spill.path)
        self._lock = threading.Lock()
        self._files: CachedFiles | None = None
        try:
            self._root = self._connected()
        except InvalidSettingError:
            self._spill.close()
            raise
        self._idle = IdleSessions()
        self._is_suspect = False
        self._is_closed = False
        self._has_macros = False

    def execution(self, plan: Plan, max_rows: int | None = None) -> DuckDBExecution:
        """Implement `Engine.execution`; DuckDB computes rows as they are read, so it needs no `max_rows`."""
        return DuckDBExecution(plan, self, self._threads)

    def close(self) -> None:
        """Implement `Engine.close`."""
        if self._is_closed:
            return
        self._is_closed = True
        self._idle.clear()
        self._root.close()
        # Who holds this engine when the interpreter ends, such as a thread, must hold no object of DuckDB's: on standard error,
        # DuckDB's bindings would report these as leaks.
        del self._root
        self._spill.close()

    def session(self, key: SessionKey) -> Session:
        """Return a session for this text over these tables: one that waits, or else a new one.

        Raises:
            EngineUnavailableError: the engine is closed.
        """
        if self._is_closed:
            raise EngineUnavailableError("the engine is closed")
        if self._is_suspect:
            self._check_root()
        text = key.text.casefold()
        if not self._has_macros and (PREFIX in text or FLINK_PREFIX in text):
            self._define_macros()
        if key.cached:
            self._read_cached_files()
        return self._idle.take(key) or Session(key, self._connection(), self._files)

    def give_back(self, session: Session) -> None:
        """Keep a session whose execution ended well."""
        if session.files is not self._files:  # of a database that another one has replaced
            session.close()
            return
        session.detach()
        self._idle.put(session)

    def _read_cached_files(self) -> None:
        """Open a new database, which can read files of the cache, the first time: a database takes file systems only at its start.

        Most processes read no cache, and fsspec takes time to load.
        """
        with self._lock:
            if self._files is None:
                from service.query.engines.duckdb.cached import CachedFiles

                self._files = CachedFiles()
                self._connect_again()

    def suspect(self) -> None:
        """Note that a query failed: the database is checked before the next query."""
        self._is_suspect = True

    def _connection(self) -> duckdb.DuckDBPyConnection:
        with self._lock:
            return self._root.cursor()

    def _check_root(self) -> None:
        """Open a new database if a query has broken this one.

        An internal error of DuckDB ends every connection: in 2.0, a cast of a time beyond microseconds to text is one.
        """
        with self._lock:
            self._is_suspect = False
            try:
                with self._root.cursor() as connection:
                    connection.execute("SELECT 1").fetchall()
            except duckdb.FatalException:
                self._connect_again()

    def _connect_again(self) -> None:
        """Replace the database by a new one."""
        self._idle.clear()
        self._root.close()
        self._root = self._connected()
        self._has_macros = False

    def _connected(self) -> duckdb.DuckDBPyConnection:
        """Return the root connection of a new database.

        Raises:
            InvalidSettingError: DuckDB does not take a setting.
        """
        root = duckdb.connect(":memory:")
        if self._files is not None:
            root.register_filesystem(self._files)
            root.execute(f"SET GLOBAL allowed_directories=[{text_constant(self._files.root)}]")
        for name, value in self._settings.items():
            try:
                root.execute(f"SET GLOBAL {name}={_literal(value)}")
            except duckdb.Error as error:
                root.close()
                reason = str(error).splitlines()[0].partition("Error: ")[2]
                raise InvalidSettingError(
                    f"{_KEYS.get(name, name)}: expected what DuckDB takes, found {value!r}: {reason}"
                ) from error
        return root

    def _define_macros(self) -> None:
        """Define the functions of Trino and of Flink, which takes longer than to open the database: most databases see none of them."""
        with self._lock:
            if not self._has_macros:
                for definition in (*MACROS, *FLINK_MACROS):
                    self._root.execute(definition)
                self._has_macros = True


class DuckDBExecution(Execution):
    """One plan on a connection of its own."""

    def __init__(self, plan: Plan, engine: DuckDBEngine, threads: int) -> None:
        self._plan = plan
        self._engine = engine
        self._session: Session | None = None
        self._reader: pa.RecordBatchReader | None = None
        self._unread: Generator[pa.RecordBatch] | None = None
        self._first: list[pa.RecordBatch] = []
        self._files: dict[str, OpenCacheFile] = {}
        self._is_read = False
        self._threads = threads
        self._scans: list[Scan] = []
        self._titles: list[str] = []
        self._counts: list[SplitCount] = []
        self._failure: QueryError | None = None
        self._closed = False
        self._lock = threading.Lock()

    @property
    def progress(self) -> Progress:
        """Progress of all scans of the statement; see `Execution`."""
        incomplete = (
            file
            for title, scan in zip(self._titles, self._scans, strict=False)
            for file in unread_files(title, scan.counter.failures)
        )
        return Progress.of(self._scans, self._counts, incomplete)

    def open(self) -> pa.RecordBatchReader:
        """Implement `Execution.open`."""
        cached = self._cached_scans()
        if cached:
            try:
                return self._opened(cached)
            except MemoryExceededError:
                raise
            except QueryError:
                if self._failure is not None:
                    raise
                self._begin_again()
        return self._opened({})

    def _opened(self, cached: Mapping[str, Scan]) -> pa.RecordBatchReader:
        """Start; DuckDB itself reads the files of the cached scans of tables by their names."""
        sql = self._plan.text
        tables = tuple((reference.name, reference.table.schema) for reference in self._plan.tables)
        with self._errors():
            self._files = self._opened_files(cached)
            session = self._taken(SessionKey(f"{self._plan.prefix} {sql}", tables, frozenset(self._files)))
            if session.relation is None:
                session.is_as_planned = guard.check_statement(self._plan, session.connection)
                columns = guard.unchanged_columns(self._plan)
                is_answer = columns is not None and guard.is_meant(self._plan, session.connection)
                session.unchanged = columns if is_answer else None
            if not session.is_as_planned:
                self._plan = self._plan.with_all_rows()
            session.attach(self._plan.tables, self, self._files)
            relation = session.bind()
            self.columns = session.columns
            self._check_not_cancelled()
            self._reader = reader = self._unchanged(session.unchanged) or relation.to_arrow_reader(
                _VECTOR_ROWS
            )
        if self._files:
            self._first = [batch for batch in [self._next(reader)] if batch is not None]
            self._check_files()
        return pa.RecordBatchReader.from_batches(decoded_schema(reader.schema), self._batches(reader))

    def _cached_scans(self) -> dict[str, Scan]:
        """Return the scans whose rows DuckDB reads from one file of the cache, by the names of their tables."""
        plan = self._plan
        if plan.prefix not in _WHOLE_READS:
            return {}
        found = {
            reference.name: replace(reference.scan, counter=ScanCounter())
            for reference in plan.tables
            # The tables of the catalog itself are not planned before an engine reads them.
            if (reference.database is not None or isinstance(reference.table, PlannedTable))
            and reference.scan.cached is not None
        }
        if not found or not guard.reads_to_the_end(plan) or guard.unchanged_columns(plan) is not None:
            return {}
        from service.query.engines.duckdb.cached import (
            is_read_alike,  # heavy, and many processes read no cache
        )

        return {name: scan for name, scan in found.items() if is_read_alike(scan.schema)}

    def _opened_files(self, cached: Mapping[str, Scan]) -> dict[str, OpenCacheFile]:
        """Open the files of scans, by the names of their tables; without those that were evicted."""
        if not cached:
            return {}
        from service.query.engines.duckdb.cached import OpenCacheFile

        titles = {reference.name: reference.title for reference in self._plan.tables}
        opened = {}
        for name, scan in cached.items():
            assert scan.cached is not None  # `_cached_scans` has chosen it
            with contextlib.suppress(OSError):
                opened[name] = OpenCacheFile(scan.cached, scan.counter.add_cached)
                self._titles.append(titles[name])
                self._scans.append(scan)
        return opened

    def _check_files(self) -> None:
        """Raise an error if DuckDB may have read rows of a file of the cache that is not what it was."""
        if not all(file.is_unchanged for file in self._files.values()):
            raise EngineError("a file of the cache of decoded states changed while it was read; ask again")

    def _count_files(self) -> None:
        """Count the rows that DuckDB has read itself, now that it has read all."""
        for scan in self._scans[: len(self._files)]:  # they were opened before any other scan
            if scan.cached is not None:
                self._counts.append(SplitCount(splits=len(scan.splits), rows=scan.cached.rows))

    def _begin_again(self) -> None:
        """Forget an attempt that has returned no row."""
        with self._lock:
            session, self._session = self._session, None
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        if session is not None:
            session.close()
        self._files = {}
        self._is_read = False
        self._scans, self._titles, self._counts = [], [], []

    def cancel(self, error: QueryError) -> None:
        """Implement `Execution.cancel`."""
        with self._lock:
            if self._closed:
                return
            self._failure = self._failure or error
            if self._session is not None:
                self._session.connection.interrupt()

    def close(self) -> None:
        """Implement `Execution.close`."""
        with self._lock:
            ended_well = self._is_read and self._failure is None
            self._closed = True
            self._failure = self._failure or QueryCancelledError("the query was closed")
            session, self._session = self._session, None
        if self._reader is not None:
            self._reader.close()
        if self._unread is not None:
            # The Arrow reader holds the generator, and the generator this execution: Python's collector cannot see such a
            # cycle through Arrow.
            self._unread.close()
        self._files = {}
        if session is None:
            return
        if ended_well and session.can_run_again:
            self._engine.give_back(session)
        else:
            session.close()

    def _taken(self, key: SessionKey) -> Session:
        """Take a session; raise the reason if the execution is cancelled."""
        session = self._engine.session(key)
        with self._lock:
            if self._failure is None:
                self._session = session
                return session
        session.close()
        raise self._failure

    def _batches(self, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        """Yield the rows: the first ones at once, later ones in larger batches, but of few bytes, because they wait."""
        waiting: list[pa.RecordBatch] = []
        size_bytes, rows, is_first, since = 0, 0, True, time.monotonic()
        while (batch := self._next(reader)) is not None:
            waiting.append(batch)
            size_bytes += batch.nbytes
            rows += batch.num_rows
            del batch
            is_late = time.monotonic() - since > _GATHER_S
            # To put large batches together would copy what is large enough already.
            is_large = len(waiting) == 1 and size_bytes >= _LARGE_BYTES
            if is_first or is_late or is_large or size_bytes >= _BATCH_BYTES or rows >= _BATCH_ROWS:
                yield _together(waiting)
                size_bytes, rows, is_first, since = 0, 0, False, time.monotonic()
        if waiting:
            yield _together(waiting)

    def _next(self, reader: pa.RecordBatchReader) -> pa.RecordBatch | None:
        """Return the next rows; None if there are no more."""
        if self._first:
            return self._first.pop()
        while True:
            with self._errors():
                self._check_not_cancelled()
                try:
                    batch = decoded(reader.read_next_batch())
                except StopIteration:
                    self._check_files()
                    self._count_files()
                    self._is_read = True
                    return None
            if batch.num_rows:
                return batch

    def _unchanged(self, columns: list[str] | None) -> pa.RecordBatchReader | None:
        """Return the rows of the scan if they are those of the statement; None if DuckDB must compute them."""
        if columns is None:
            return None
        (reference,) = self._plan.tables
        schema = guard.answer_schema(reference, columns, [column.name for column in self.columns])
        with self._scan_errors():
            scan = self.scan(reference, list(dict.fromkeys(columns)), None)
        self._unread = self._as_they_are(scan, columns, schema)
        next(self._unread)
        return pa.RecordBatchReader.from_batches(schema, self._unread)

    def _as_they_are(self, scan: Scan, columns: list[str], schema: pa.Schema) -> Generator[pa.RecordBatch]:
        # For `_unchanged`: Python 3.13 closes a generator that never ran without releasing its arguments.
        yield
        with self._scan_errors():
            yield from guard.as_they_are(self.batches_of(scan), columns, schema)

    @contextlib.contextmanager
    def _scan_errors(self) -> Iterator[None]:
        """Keep an error of a scan that DuckDB does not run, and raise what it means."""
        try:
            yield
        except Exception as error:
            self.fail(error)
            assert self._failure is not None  # `fail` sets it, or a cancel did before
            raise self._failure from self._failure.__cause__

    def scan(self, reference: TableReference, columns: list[str], condition: pc.Expression | None) -> Scan:
        """Open the scan of a table, with a condition that DuckDB pushes down."""
        scan = reference.scan.narrowed(columns, condition)
        self._titles.append(reference.title)
        self._scans.append(scan)
        return scan

    def batches_of(self, scan: Scan) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a scan; keep its error, if it fails."""
        count = SplitCount()
        self._counts.append(count)
        scan.counter.on_check(self._check_not_cancelled)
        started = time.monotonic()
        try:
            yield from read_splits(scan, self._threads, self._check_not_cancelled, count)
            scan.completed(time.monotonic() - started)
        except GeneratorExit:  # DuckDB has enough rows: no error of the scan
            raise
        except Exception as error:
            self.fail(error)
            raise

    def fail(self, error: Exception) -> None:
        """Keep an error of a scan: DuckDB turns it into text."""
        failure = query_error_of(error)
        failure.__cause__ = None if failure is error else error
        self._failure = self._failure or failure

    def _check_not_cancelled(self) -> None:
        if self._failure is not None:
            raise self._failure

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Translate errors of DuckDB and Arrow."""
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
            text = str(error) if self._session is None else self._session.without_names(str(error))
            raise statement_error_of(text, self._plan) from error


def _engine_settings(settings: Settings, threads: int, spill: str) -> dict[str, str | int | bool]:
    """Return the settings of the database, in the order in which they must be set.

    The folder to spill to cannot be set once external access is off, and nothing once the configuration is locked. All are
    set globally: otherwise several of them hold for the root connection only, and not for those of queries.
    """
    limits: dict[str, str | int | bool] = {
        "temp_directory": spill,
        "max_temp_directory_size": settings.duckdb.max_temp_size,
        "threads": threads,
        "memory_limit": settings.duckdb.memory_limit or f"{int(machine.memory_bytes() * _OF_MACHINE)}B",
    }
    return limits | {
        "TimeZone": "UTC",
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "allow_community_extensions": False,
        "allow_extension_repositories": "forbidden",
        "allow_persistent_secrets": False,
        "python_enable_replacements": False,
        "max_expression_depth": _MAX_EXPRESSION_DEPTH,
        "enable_external_file_cache": False,
        "enable_external_access": False,
        "lock_configuration": True,
    }


def _together(waiting: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return the batches as one, and empty the list, so that the caller alone holds the rows."""
    batch = waiting.pop() if len(waiting) == 1 else pa.concat_batches(waiting)
    waiting.clear()
    return batch


def _literal(value: str | int | bool) -> str:
    return text_constant(value) if isinstance(value, str) else str(value).lower()
