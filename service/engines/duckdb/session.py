"""Connections to DuckDB, each with the tables of one statement and nothing else; kept for when it is asked again.

To register a table, to make a view of it, to have the text parsed and bound takes several times as long as to find one
key with it. So a `Session` whose execution ended well waits for the next one of the same text over the same tables, or of
another text over them, which is parsed and bound; what it has is what that would make anew. Of the answer nothing is
kept: what is not a query to be run again (DuckDB runs EXPLAIN at once, and keeps its rows) is closed, as is one that
failed or was cancelled.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Protocol

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset

from catalog import Scan, Table
from readers import KEY_GROUP, SUBTASK
from service.sql.plan import TableReference
from service.sql.types import Column

# About 40 KiB of memory each, and what their tables hold.
_MOST_IDLE = 32
_LONGEST_TEXT = 10_000
_CHEAPEST = (SUBTASK, KEY_GROUP)
_RUNS_AGAIN = "QUERY_RELATION"


class ScanReader(Protocol):
    """Who opens the scans of a session's tables: its execution."""

    def scan(self, reference: TableReference, columns: list[str], condition: pc.Expression | None) -> Scan:
        """Start to read a table."""

    def batches_of(self, scan: Scan) -> Iterator[pa.RecordBatch]:
        """The batches of a scan."""

    def fail(self, error: Exception) -> None:
        """Keep an error of a scan."""


@dataclass(frozen=True, slots=True, eq=False)
class SessionKey:
    """What a session is for: a text, and its tables by the names they have in it."""

    text: str
    tables: tuple[tuple[str, Table], ...]

    def is_of(self, other: SessionKey) -> bool:
        """Whether it is the same text over the very same tables."""
        return self.text == other.text and self.has_tables_of(other)

    def has_tables_of(self, other: SessionKey) -> bool:
        """Whether it is of the very same tables, by the same names, and of no others."""
        return len(self.tables) == len(other.tables) and all(
            name == known and table is one
            for (name, table), (known, one) in zip(self.tables, other.tables, strict=True)
        )


class Session:
    """A connection for one execution at a time.

    Attributes:
        key: what it is for.
        connection: to the engine.
        relation: the statement, once it is bound.
        columns: of its answer.
    """

    def __init__(self, key: SessionKey, connection: duckdb.DuckDBPyConnection) -> None:
        self.key = key
        self.connection = connection
        self.relation: duckdb.DuckDBPyRelation | None = None
        self.columns: tuple[Column, ...] = ()
        self._datasets: dict[str, _TableDataset] = {}

    def attach(self, references: Sequence[TableReference], reader: ScanReader) -> None:
        """Have `reader` read the tables; makes them the first time."""
        for reference in references:
            if reference.name not in self._datasets:
                self._register(reference)
            self._datasets[reference.name].attach(reference, reader)

    def bind(self) -> duckdb.DuckDBPyRelation:
        """The statement, parsed and bound, the first time.

        Raises:
            duckdb.Error: as DuckDB does.
        """
        if self.relation is None:
            relation = self.connection.sql(self.key.text)
            self.columns = tuple(
                Column(name, str(kind).replace('"NULL"', "NULL"))
                for name, kind in zip(relation.columns, relation.types, strict=True)
            )
            self.relation = relation
        return self.relation

    @property
    def can_run_again(self) -> bool:
        """Whether the same text would run again over the same tables, and is worth a session that waits."""
        return (
            self.relation is not None
            and self.relation.type == _RUNS_AGAIN
            and len(self.key.text) <= _LONGEST_TEXT
        )

    def be_for(self, key: SessionKey) -> None:
        """Forget the statement for another one over the same tables."""
        self.key = key
        self.relation = None
        self.columns = ()

    def detach(self) -> None:
        """Let go of the execution."""
        for table in self._datasets.values():
            table.detach()

    def close(self) -> None:
        """Let go of everything."""
        self.detach()
        self.relation = None
        self.connection.close()

    def _register(self, reference: TableReference) -> None:
        """The table under its name in the plan, with its columns in the table's order."""
        source = f"scan of {reference.name}"
        self._datasets[reference.name] = table = _TableDataset(reference.table.schema)
        self.connection.register(source, table)
        columns = ", ".join(map(identifier, reference.table.schema.names))
        self.connection.execute(
            f"CREATE TEMP VIEW {identifier(reference.name)} AS SELECT {columns} FROM {identifier(source)}"
        )


class IdleSessions:
    """Sessions that wait, the latest last; safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = count()
        self._waiting: OrderedDict[int, Session] = OrderedDict()

    def take(self, key: SessionKey) -> Session | None:
        """One for this text over these tables, or else for any text over them; None if none waits."""
        with self._lock:
            for number in reversed(self._waiting):
                if self._waiting[number].key.is_of(key):
                    return self._waiting.pop(number)
            for number, session in self._waiting.items():
                if session.key.has_tables_of(key):
                    del self._waiting[number]
                    session.be_for(key)
                    return session
        return None

    def put(self, session: Session) -> None:
        """Have it wait, detached; the one that waits for longest goes where there are too many."""
        with self._lock:
            self._waiting[next(self._numbers)] = session
            surplus = self._waiting.popitem(last=False)[1] if len(self._waiting) > _MOST_IDLE else None
        if surplus is not None:
            surplus.close()

    def clear(self) -> None:
        """Close all that wait."""
        with self._lock:
            waiting, self._waiting = self._waiting, OrderedDict()
        for session in waiting.values():
            session.close()


class _TableDataset(dataset.InMemoryDataset):  # type: ignore[misc]  # pyarrow has no types
    """A table as DuckDB reads it: for the execution that it is attached to."""

    def __init__(self, schema: pa.Schema) -> None:
        cheapest = [name for name in _CHEAPEST if name in schema.names]
        others = [name for name in schema.names if name not in cheapest]
        ordered = pa.schema([schema.field(name) for name in (*cheapest, *others)])
        super().__init__(ordered.empty_table())
        self._attached: tuple[TableReference, ScanReader] | None = None

    def attach(self, reference: TableReference, reader: ScanReader) -> None:
        self._attached = reference, reader

    def detach(self) -> None:
        self._attached = None

    def scanner(
        self, columns: Sequence[str] | None = None, filter: pc.Expression | None = None, **_: Any
    ) -> _Scanner:
        """What DuckDB calls to read: `columns` is None for all of them, in the dataset's order."""
        if self._attached is None:
            raise RuntimeError("expected an execution that reads the table, found none")
        reference, reader = self._attached
        try:
            names = list(self.schema.names if columns is None else columns)
            return _Scanner(reader, reader.scan(reference, names, filter))
        except Exception as error:
            reader.fail(error)
            raise


class _Scanner:
    """What DuckDB needs of a scanner: Arrow's own would read 16 batches ahead."""

    def __init__(self, reader: ScanReader, scan: Scan) -> None:
        self.projected_schema = scan.schema
        self._reader = reader
        self._scan = scan

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows, read when asked for."""
        batches = self._reader.batches_of(self._scan)
        return pa.RecordBatchReader.from_batches(self.projected_schema, batches)


def identifier(name: str) -> str:
    """A name as SQL has it, in quotes."""
    return '"' + name.replace('"', '""') + '"'
