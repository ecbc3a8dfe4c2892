"""Connections to DuckDB, each with the tables of one statement and nothing else, kept for the same statement.

To register a table, create its view, parse and bind the text takes several times as long as to look up one key. So a
`Session` whose execution ended well waits for the next execution of the same text over the same tables, or of another text
over them, which it parses and binds. It keeps nothing of the answer: a session is closed if its statement cannot run again
(DuckDB runs EXPLAIN when it binds it, and keeps the rows), failed or was cancelled.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from service.sql.edits import quoted
from service.sql.plan import TableReference
from service.sql.types import Column

if TYPE_CHECKING:
    from service.engines.duckdb.tables import ScanReader, TableDataset

# A session takes about 40 KiB of memory, beside what its tables hold.
_MOST_IDLE = 32
_LONGEST_TEXT = 10_000
_RUNS_AGAIN = "QUERY_RELATION"
_SUMMARIZE = "SUMMARIZE "
_UNAVERAGED = "TIME_NS"


@dataclass(frozen=True, slots=True, eq=False)
class SessionKey:
    """The statement of a session: its text, and the names and columns of its tables.

    Executions attach scans of their own, so the rows of the tables do not matter.
    """

    text: str
    tables: tuple[tuple[str, pa.Schema], ...]

    def is_of(self, other: SessionKey) -> bool:
        """Return whether the other statement has the same text over tables of the same names and columns."""
        return self.text == other.text and self.has_tables_of(other)

    def has_tables_of(self, other: SessionKey) -> bool:
        """Return whether the other statement has tables of the same names and columns, and no others."""
        return len(self.tables) == len(other.tables) and all(
            name == known and schema.equals(one)
            for (name, schema), (known, one) in zip(self.tables, other.tables, strict=True)
        )


class Session:
    """A connection for one execution at a time.

    Attributes:
        key: the statement.
        connection: the connection to the database.
        relation: the bound statement; None before `bind`.
        columns: columns of the answer.
        is_as_planned: False if DuckDB reads conditions of the statement differently from its plan.
        unchanged: the columns of the only table that are the answer; None if DuckDB computes it.
    """

    def __init__(self, key: SessionKey, connection: duckdb.DuckDBPyConnection) -> None:
        self.key = key
        self.connection = connection
        self.relation: duckdb.DuckDBPyRelation | None = None
        self.columns: tuple[Column, ...] = ()
        self.is_as_planned = True
        self.unchanged: list[str] | None = None
        self._datasets: dict[str, TableDataset] = {}

    def attach(self, references: Sequence[TableReference], reader: ScanReader) -> None:
        """Let `reader` read the tables; register them the first time."""
        for reference in references:
            if reference.name not in self._datasets:
                self._register(reference)
            self._datasets[reference.name].attach(reference, reader)

    def bind(self) -> duckdb.DuckDBPyRelation:
        """Parse and bind the statement, the first time, and return it.

        Raises:
            duckdb.Error: DuckDB cannot parse or bind it.
        """
        if self.relation is None:
            relation = self.connection.sql(self._text())
            self.columns = tuple(
                Column(name, str(kind).replace('"NULL"', "NULL"))
                for name, kind in zip(relation.columns, relation.types, strict=True)
            )
            self.relation = relation
        return self.relation

    def _text(self) -> str:
        """Return the text to bind: that of the statement, but DuckDB's SUMMARIZE has no average of times in nanoseconds."""
        query = self.key.text.removeprefix(_SUMMARIZE)
        if query == self.key.text:
            return query
        relation = self.connection.sql(query)
        times = [
            name
            for name, kind in zip(relation.columns, relation.types, strict=True)
            if str(kind) == _UNAVERAGED
        ]
        if not times:
            return self.key.text
        texts = ", ".join(f"CAST({quoted(name)} AS VARCHAR) AS {quoted(name)}" for name in times)
        names = ", ".join("'" + name.replace("'", "''") + "'" for name in times)
        return (
            f"SELECT * REPLACE (CASE WHEN column_name IN ({names}) THEN '{_UNAVERAGED}' ELSE column_type END AS column_type) "
            f"FROM (SUMMARIZE SELECT * REPLACE ({texts}) FROM ({query}\n))"
        )

    @property
    def can_run_again(self) -> bool:
        """True if the same statement can run again, and its text is short enough to keep."""
        return (
            self.relation is not None
            and self.relation.type == _RUNS_AGAIN
            and len(self.key.text) <= _LONGEST_TEXT
        )

    def be_for(self, key: SessionKey) -> None:
        """Replace the statement by another one over the same tables."""
        self.key = key
        self.relation = None
        self.columns = ()

    def detach(self) -> None:
        """Release the execution: an idle session must not keep its scans."""
        for table in self._datasets.values():
            table.detach()

    def close(self) -> None:
        """Release everything."""
        self.detach()
        self.relation = None
        self.connection.close()

    def _register(self, reference: TableReference) -> None:
        """Register a table under its name in the plan, with its columns in the table's order."""
        from service.engines.duckdb.tables import TableDataset  # heavy, and many statements have no table

        source = f"scan of {reference.name}"
        self._datasets[reference.name] = table = TableDataset(reference.table.schema)
        self.connection.register(source, table)
        columns = ", ".join(map(quoted, reference.table.schema.names))
        self.connection.execute(
            f"CREATE TEMP VIEW {quoted(reference.name)} AS SELECT {columns} FROM {quoted(source)}"
        )


class IdleSessions:
    """Sessions that wait, the latest last. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = count()
        self._waiting: OrderedDict[int, Session] = OrderedDict()

    def take(self, key: SessionKey) -> Session | None:
        """Remove and return a session for this statement, or else for another one over the same tables; None if none waits."""
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
        """Add a detached session; close the oldest if too many wait."""
        with self._lock:
            self._waiting[next(self._numbers)] = session
            surplus = self._waiting.popitem(last=False)[1] if len(self._waiting) > _MOST_IDLE else None
        if surplus is not None:
            surplus.close()

    def clear(self) -> None:
        """Close all sessions that wait."""
        with self._lock:
            waiting, self._waiting = self._waiting, OrderedDict()
        for session in waiting.values():
            session.close()
