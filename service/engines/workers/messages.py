"""What crosses between the server and its workers.

| frame | from | content |
|---|---|---|
| RUN | server | `Task`, pickled |
| CANCEL | server | nothing |
| RETIRE | server | nothing: no task follows; the worker ends when it has written what it keeps for others |
| COLUMNS | worker | JSON: `[[name, type], …]` |
| BATCH | worker | Arrow IPC stream: the schema and one batch; none in the first one |
| PROGRESS | worker | JSON: the fields of `Progress`; the first one says that it has begun |
| ERROR, END | worker | JSON: the fields of a `QueryError`; whether the worker may be used again |

The server unpickles nothing: a worker runs what a client wrote.
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
_PIECE_BYTES = 512 << 10


@dataclass(frozen=True, slots=True)
class _DatabaseTable:
    """A table that the worker finds by itself."""

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
class _Rows:
    """A table that lists what only the server knows."""

    name: str
    table: str
    comment: str
    rows: pa.RecordBatch

    def reference(self) -> TableReference:
        table = FactsTable(self.table, self.comment, self.rows.schema, lambda: self.rows)
        return TableReference(name=self.name, database=None, table=table)


@dataclass(frozen=True, slots=True)
class Task:
    """A plan without what does not travel: open savepoints."""

    statement: Plan
    tables: tuple[_DatabaseTable | _Rows, ...]

    @classmethod
    def of(cls, plan: Plan) -> Task:
        """The task of a plan.

        Raises:
            ReaderError: what lists a savepoint cannot read it.
        """
        return cls(replace(plan, tables=()), tuple(map(_travelling, plan.tables)))

    def plan(self) -> Plan:
        """The plan again; opens its savepoints, once a process.

        Raises:
            CatalogError, ReaderError: one of them is not there any more.
        """
        return replace(self.statement, tables=tuple(table.reference() for table in self.tables))


def _travelling(reference: TableReference) -> _DatabaseTable | _Rows:
    database, table = reference.database, reference.table
    if database is None:
        rows = table.scan().to_arrow().combine_chunks().to_batches()
        empty = pa.RecordBatch.from_pylist([], schema=table.schema)
        return _Rows(reference.name, table.name, table.comment, rows[0] if rows else empty)
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
    """The cache of decoded states; a process has one, for it counts how often a state is asked for."""
    cache: StateCache = pickle.loads(content)
    return cache


def columns_content(columns: tuple[Column, ...]) -> bytes:
    """Of COLUMNS."""
    return orjson.dumps([[column.name, column.type] for column in columns])


def columns_of(content: bytearray) -> tuple[Column, ...]:
    """What COLUMNS says."""
    return tuple(Column(name, kind) for name, kind in orjson.loads(content))


def batch_content(schema: pa.Schema, batch: pa.RecordBatch | None) -> memoryview:
    """Of BATCH."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        if batch is not None:
            writer.write_batch(batch)
    return memoryview(sink.getvalue())


def schema_of(content: bytearray) -> pa.Schema:
    """The schema in BATCH."""
    return pa.ipc.open_stream(pa.py_buffer(content)).schema


def batch_of(content: bytearray) -> pa.RecordBatch:
    """The batch in BATCH, without a copy."""
    return pa.ipc.open_stream(pa.py_buffer(content)).read_next_batch()


def pieces(batch: pa.RecordBatch, max_row_bytes: int) -> Iterator[pa.RecordBatch]:
    """A batch in parts that are small enough for one who has many of them to hold.

    Raises:
        MemoryExceededError: a row is longer than may be.
    """
    waiting = [batch]
    while waiting:
        part = waiting.pop()
        if part.nbytes <= _PIECE_BYTES:
            yield part
        elif part.num_rows > 1:
            half = part.num_rows // 2
            waiting += [part.slice(half), part.slice(0, half)]
        elif part.nbytes <= max_row_bytes:
            yield part
        else:
            raise MemoryExceededError(
                f"expected rows of at most {max_row_bytes} bytes, found one of {part.nbytes}",
                hint="ask for parts of long values: substring(), length(), a field of a struct",
            )


def progress_content(progress: Progress) -> bytes:
    """Of PROGRESS."""
    return orjson.dumps(progress)


def progress_of(content: bytearray) -> Progress:
    """What PROGRESS says."""
    return Progress(**orjson.loads(content))


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How a query ended.

    Attributes:
        is_worn: whether the worker has grown and should be replaced.
        error: None where it found all rows.
    """

    is_worn: bool
    error: QueryError | None = None

    def content(self) -> bytes:
        """Of END and ERROR."""
        return orjson.dumps({"is_worn": self.is_worn, "error": self.error and _fields(self.error)})

    @classmethod
    def of(cls, content: bytearray) -> End:
        """What END or ERROR says."""
        known = orjson.loads(content)
        error = known["error"]
        return cls(is_worn=known["is_worn"], error=None if error is None else _error(error))


def _fields(error: QueryError) -> dict[str, Any]:
    is_ours = type(error) is QueryError  # nobody foresaw it: its trace would be lost here
    trace = "".join(traceback.format_exception(error)) if is_ours else ""
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
    error = kind.__new__(kind)  # some kinds are made from less than this
    QueryError.__init__(error, fields.pop("message"), position=position and Position(**position), **fields)
    return error


def _kinds() -> dict[str, type[QueryError]]:
    found: dict[str, type[QueryError]] = {}
    waiting: list[type[QueryError]] = [QueryError]
    while waiting:
        kind = waiting.pop()
        found[kind.__name__] = kind
        waiting += kind.__subclasses__()
    return found
