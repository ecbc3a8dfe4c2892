"""The contents of frames between the server and its workers.

| frame | from | content |
|---|---|---|
| RUN | server | `Task`, pickled |
| CANCEL | server | nothing |
| RETIRE | server | nothing: no task follows; the worker writes what it has for the cache and ends |
| COLUMNS | worker | JSON: `[[name, type], …]` |
| BATCH | worker | Arrow IPC stream: the schema and one batch; the first frame has the schema only |
| PROGRESS | worker | JSON: the fields of `Progress`; the first frame means that the worker has the task |
| ERROR, END | worker | JSON: `End` |

The server unpickles nothing that a worker sends: the worker runs what a client wrote.
"""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

import orjson
import pyarrow as pa

from catalog import Database, FactsTable, Predicate
from catalog.cache.states import StateCache
from catalog.references import SavepointReference
from service.engines.engine import Progress
from service.errors import MemoryExceededError, Position, QueryError
from service.sql.plan import Plan, TableReference
from service.sql.types import Column

_OPEN_DATABASES = 64
# The server holds a batch or two of each query that is read: with many queries, large batches would be much memory.
_BATCH_BYTES = 512 << 10


@dataclass(frozen=True, slots=True)
class _DatabaseTable:
    """A table of a savepoint, which the worker opens itself."""

    name: str
    database: str
    savepoint: SavepointReference
    uids: tuple[str, ...]
    cache: bytes | None
    table: str
    columns: tuple[str, ...] | None
    predicate: Predicate

    def reference(self) -> TableReference:
        database = _database(self.database, self.savepoint, self.uids, self.cache)
        return TableReference(
            name=self.name,
            database=database,
            table=database.table(self.table),
            columns=self.columns,
            predicate=self.predicate,
        )


@dataclass(frozen=True, slots=True)
class _CarriedTable:
    """A table that lists facts of the server, with its rows."""

    name: str
    table: str
    comment: str
    rows: pa.RecordBatch

    def reference(self) -> TableReference:
        table = FactsTable(self.table, self.comment, self.rows.schema, lambda: self.rows)
        return TableReference(name=self.name, database=None, table=table)


@dataclass(frozen=True, slots=True)
class Task:
    """A plan whose tables can be pickled: open savepoints cannot."""

    statement: Plan
    tables: tuple[_DatabaseTable | _CarriedTable, ...]

    @classmethod
    def of(cls, plan: Plan) -> Task:
        """Return the task of a plan.

        Raises:
            ReaderError: a savepoint whose facts a table lists cannot be read.
        """
        return cls(replace(plan, tables=()), tuple(map(_picklable, plan.tables)))

    def plan(self) -> Plan:
        """Return the plan; opens its savepoints, each once in a process.

        Raises:
            CatalogError, ReaderError: a savepoint is gone.
        """
        return replace(self.statement, tables=tuple(table.reference() for table in self.tables))


def _picklable(reference: TableReference) -> _DatabaseTable | _CarriedTable:
    database, table = reference.database, reference.table
    if database is None:
        rows = table.scan().to_arrow().combine_chunks().to_batches()
        empty = pa.RecordBatch.from_pylist([], schema=table.schema)
        return _CarriedTable(reference.name, table.name, table.comment, rows[0] if rows else empty)
    return _DatabaseTable(
        name=reference.name,
        database=database.name,
        savepoint=database.reference,
        uids=tuple(database.uids.values()),
        cache=None if database.cache is None else pickle.dumps(database.cache),
        table=table.name,
        columns=reference.columns,
        predicate=reference.predicate,
    )


@lru_cache(maxsize=_OPEN_DATABASES)
def _database(
    name: str, reference: SavepointReference, uids: tuple[str, ...], cache: bytes | None
) -> Database:
    return Database(name, reference, uids, None if cache is None else _cache(cache))


@lru_cache(maxsize=1)
def _cache(content: bytes) -> StateCache:
    """Return the cache of decoded states; a process has one, for the cache counts how often a state is read."""
    cache: StateCache = pickle.loads(content)
    return cache


def columns_content(columns: tuple[Column, ...]) -> bytes:
    """Return the content of COLUMNS."""
    return orjson.dumps([[column.name, column.type] for column in columns])


def columns_of(content: bytearray) -> tuple[Column, ...]:
    """Return the columns in COLUMNS."""
    return tuple(Column(name, kind) for name, kind in orjson.loads(content))


def batch_content(schema: pa.Schema, batch: pa.RecordBatch | None) -> memoryview:
    """Return the content of BATCH, with the schema only if there is no batch."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        if batch is not None:
            writer.write_batch(batch)
    return memoryview(sink.getvalue())


def schema_of(content: bytearray) -> pa.Schema:
    """Return the schema in BATCH."""
    return pa.ipc.open_stream(pa.py_buffer(content)).schema


def batch_of(content: bytearray) -> pa.RecordBatch:
    """Return the batch in BATCH, without a copy."""
    return pa.ipc.open_stream(pa.py_buffer(content)).read_next_batch()


def small_batches(batch: pa.RecordBatch, max_row_bytes: int) -> Iterator[pa.RecordBatch]:
    """Yield a batch as batches that are small enough for a server that holds some of many queries.

    Raises:
        MemoryExceededError: a row is longer than allowed.
    """
    waiting = [batch]
    while waiting:
        rows = waiting.pop()
        if rows.nbytes <= _BATCH_BYTES:
            yield rows
        elif rows.num_rows > 1:
            half = rows.num_rows // 2
            waiting += [rows.slice(half), rows.slice(0, half)]  # the first half is on top of the stack
        elif rows.nbytes <= max_row_bytes:
            yield rows
        else:
            raise MemoryExceededError(
                f"expected rows of at most {max_row_bytes} bytes, found one of {rows.nbytes}",
                hint="ask for parts of long values: substring(), length(), a field of a struct",
            )


def progress_content(progress: Progress) -> bytes:
    """Return the content of PROGRESS."""
    return orjson.dumps(progress)


def progress_of(content: bytearray) -> Progress:
    """Return the progress in PROGRESS."""
    return Progress(**orjson.loads(content))


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The end of a query in a worker.

    Attributes:
        is_worn: whether the worker has grown and should be replaced.
        error: the error of the query; None if it returned all rows.
    """

    is_worn: bool
    error: QueryError | None = None

    def content(self) -> bytes:
        """Return the content of END and ERROR."""
        return orjson.dumps({"is_worn": self.is_worn, "error": self.error and _fields(self.error)})

    @classmethod
    def of(cls, content: bytearray) -> End:
        """Return the end in END or ERROR."""
        known = orjson.loads(content)
        error = known["error"]
        return cls(is_worn=known["is_worn"], error=None if error is None else _error(error))


def _fields(error: QueryError) -> dict[str, Any]:
    # The root class is an error of ours that no code expects: the server logs its trace, which ends here otherwise.
    is_unexpected = type(error) is QueryError
    trace = "".join(traceback.format_exception(error)) if is_unexpected else ""
    return {
        "kind": type(error).__name__,
        "message": error.message,
        "hint": error.hint,
        "position": error.position and asdict(error.position),
        "detail": f"{error.detail}\n{trace}".strip(),
        "code": error.code,
        "status": error.status,
    }


def _error(fields: dict[str, Any]) -> QueryError:
    kind = _kinds().get(fields.pop("kind"), QueryError)
    position = fields.pop("position")
    error = kind.__new__(kind)  # constructors of subclasses take other arguments
    QueryError.__init__(error, fields.pop("message"), position=position and Position(**position), **fields)
    return error


def _kinds() -> dict[str, type[QueryError]]:
    """Return all classes of errors that are loaded, by name."""
    found: dict[str, type[QueryError]] = {}
    waiting: list[type[QueryError]] = [QueryError]
    while waiting:
        kind = waiting.pop()
        found[kind.__name__] = kind
        waiting += kind.__subclasses__()
    return found
