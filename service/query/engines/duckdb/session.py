"""Connections to DuckDB, each with the tables of one statement and nothing else, kept for the same statement.

To register a table, create its view, parse and bind the text takes several times as long as to look up one key. So a
`Session` whose execution ended well waits for the next execution of the same text over the same tables, or of another text
over them, which it parses and binds. It keeps nothing of the answer: a session is closed if its statement cannot run again
(DuckDB runs EXPLAIN when it binds it, and keeps the rows), failed or was cancelled.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from service.query.encode.formats import Column
from service.query.sql.plan import TableReference
from service.query.sql.text import quoted, text_constant

if TYPE_CHECKING:
    from service.query.engines.duckdb.cached import CachedFiles, OpenCacheFile
    from service.query.engines.duckdb.tables import ScanReader, TableDataset

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

    Attributes:
        text: of the statement.
        tables: names and columns.
        cached: the names of those that DuckDB reads from files of the cache.
    """

    text: str
    tables: tuple[tuple[str, pa.Schema], ...]
    cached: frozenset[str] = frozenset()

    def is_of(self, other: SessionKey) -> bool:
        """Return whether the other statement has the same text over tables of the same names and columns."""
        return self.text == other.text and self.has_tables_of(other)

    def has_tables_of(self, other: SessionKey) -> bool:
        """Return whether the other statement has tables of the same names and columns, read in the same way, and no others."""
        return (
            self.cached == other.cached
            and len(self.tables) == len(other.tables)
            and all(
                name == known and schema.equals(one)
                for (name, schema), (known, one) in zip(self.tables, other.tables, strict=True)
            )
        )


class Session:
    """A connection for one execution at a time.

    Args:
        key: the statement.
        connection: the connection to the database.
        files: the files of the cache that the database can read.

    Attributes:
        key: the statement.
        connection: the connection to the database.
        relation: the bound statement; None before `bind`.
        columns: columns of the answer.
        is_as_planned: False if DuckDB reads conditions of the statement differently from its plan.
        unchanged: the columns of the only table that are the answer; None if DuckDB computes it.
        files: see above.
    """

    def __init__(
        self, key: SessionKey, connection: duckdb.DuckDBPyConnection, files: CachedFiles | None = None
    ) -> None:
        self.key = key
        self.connection = connection
        self.relation: duckdb.DuckDBPyRelation | None = None
        self.columns: tuple[Column, ...] = ()
        self.is_as_planned = True
        self.unchanged: list[str] | None = None
        self._datasets: dict[str, TableDataset] = {}
        self.files = files
        self._file_names: dict[str, str] = {}

    def attach(
        self, references: Sequence[TableReference], reader: ScanReader, opened: Mapping[str, OpenCacheFile]
    ) -> None:
        """Let `reader` read the tables, and DuckDB the opened files of those that it reads itself; register them the first time."""
        for reference in references:
            if reference.name in opened:
                self._attach_file(reference, opened[reference.name])
                continue
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
        names = ", ".join(map(text_constant, times))
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
        if self.files is not None:
            for name in self._file_names.values():
                self.files.remove(name)

    def without_names(self, text: str) -> str:
        """Return a text of DuckDB without the names of its files, which only this session knows."""
        for name in self._file_names.values():
            text = text.replace(name, "the cache of decoded states")
        return text

    def close(self) -> None:
        """Release everything."""
        self.detach()
        self.relation = None
        self.connection.close()

    def _register(self, reference: TableReference) -> None:
        """Register a table under its name in the plan, with its columns in the table's order."""
        from service.query.engines.duckdb.tables import (
            TableDataset,  # heavy, and many statements have no table
        )

        source = f"scan of {reference.name}"
        self._datasets[reference.name] = table = TableDataset(reference.table.schema)
        self.connection.register(source, table)
        columns = ", ".join(map(quoted, reference.table.schema.names))
        self._define(reference, f"SELECT {columns} FROM {quoted(source)}")

    def _attach_file(self, reference: TableReference, file: OpenCacheFile) -> None:
        """Let DuckDB read a file of the cache as a table; its name stays, so that the statement stays bound."""
        from service.query.engines.duckdb.cached import source_of  # heavy, and many processes read no cache

        assert self.files is not None  # the engine opens the files through it
        name = self._file_names.get(reference.name)
        if name is not None:
            self.files.put(name, file)
            return
        self._file_names[reference.name] = name = self.files.new_name()
        self.files.put(name, file)
        self._define(reference, source_of(name, reference.table.schema))

    def _define(self, reference: TableReference, query: str) -> None:
        self.connection.execute(f"CREATE TEMP VIEW {quoted(reference.name)} AS {query}")


class IdleSessions:
    """Sessions that wait, the latest last. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[Session] = []

    def take(self, key: SessionKey) -> Session | None:
        """Remove and return a session for this statement, or else for another one over the same tables; None if none waits."""
        with self._lock:
            same = (session for session in reversed(self._waiting) if session.key.is_of(key))
            alike = (session for session in self._waiting if session.key.has_tables_of(key))
            found = next(chain(same, alike), None)
            if found is None:
                return None
            self._waiting.remove(found)
        if found.key.text != key.text:
            found.be_for(key)
        return found

    def put(self, session: Session) -> None:
        """Add a detached session; close the oldest if too many wait."""
        with self._lock:
            self._waiting.append(session)
            surplus = self._waiting.pop(0) if len(self._waiting) > _MOST_IDLE else None
        if surplus is not None:
            surplus.close()

    def clear(self) -> None:
        """Close all sessions that wait."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for session in waiting:
            session.close()
