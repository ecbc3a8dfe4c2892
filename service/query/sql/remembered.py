"""Queries that were planned before: a dashboard asks the same text again and again, and its tree does not change.

What is remembered of a text is what it says: its tree, and what that tells of tables of certain columns. Which tables its names mean,
and whether the client may see them, is asked each time; if a name means another table than before, the text is planned anew.
Nothing here keeps a savepoint open.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from catalog import Database, Table
from service.query.sql.plan import Plan, Reading, TableReference

_MOST_TEXTS = 128
# The tree of a text takes some hundred times its bytes.
_LONGEST_TEXT = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberedQuery:
    """A query over tables of savepoints.

    Attributes:
        nodes: where it names its tables, in order, as it names them.
        prefix: see `Plan`.
        reading: see `Plan`.
        tables: the tables, without what keeps them open.
    """

    nodes: tuple[exp.Table, ...]
    prefix: str
    reading: Reading
    tables: tuple[_RememberedTable, ...]

    @classmethod
    def of(cls, plan: Plan, nodes: Sequence[exp.Table]) -> RememberedQuery | None:
        """Return what to remember of a plan; None if it reads anything but tables that savepoints have under the names of `nodes`."""
        tables = [_RememberedTable.of(reference) for reference in plan.tables]
        known = tuple(table for table in tables if table is not None)
        if len(known) < len(tables) or len(nodes) != len(tables):
            return None
        return cls(nodes=tuple(nodes), prefix=plan.prefix, reading=plan.reading, tables=known)

    def again(self, found: Sequence[TableReference]) -> tuple[TableReference, ...] | None:
        """Return the tables of the plan for the tables that its names mean now; None if these are others."""
        if not all(table.is_of(reference) for table, reference in zip(self.tables, found, strict=True)):
            return None
        return tuple(
            replace(reference, **table.told) for table, reference in zip(self.tables, found, strict=True)
        )


@dataclass(frozen=True, slots=True)
class _RememberedTable:
    """A table of a remembered query.

    Attributes:
        name: in the plan.
        database: that it is in.
        table: the table.
        told: what the query tells of it.
    """

    name: str
    database: weakref.ref[Database]
    table: weakref.ref[Table]
    told: dict[str, Any]

    @classmethod
    def of(cls, reference: TableReference) -> _RememberedTable | None:
        """Return what to remember of a table; None unless it is of one savepoint."""
        if not isinstance(reference.database, Database):
            return None
        told = {"columns": reference.columns, "predicate": reference.predicate, "grounds": reference.grounds}
        return cls(reference.name, weakref.ref(reference.database), weakref.ref(reference.table), told)

    def is_of(self, reference: TableReference) -> bool:
        """Return whether a name means this table still."""
        return (
            self.name == reference.name
            and self.database() is reference.database
            and self.table() is reference.table
        )


class RememberedQueries:
    """The last texts. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queries: OrderedDict[tuple[str, str], RememberedQuery] = OrderedDict()

    def get(self, sql: str, compat: str) -> RememberedQuery | None:
        """Return what is known of a text; None if nothing is."""
        with self._lock:
            found = self._queries.get((sql, compat))
            if found is not None:
                self._queries.move_to_end((sql, compat))
        return found

    def put(self, sql: str, compat: str, query: RememberedQuery) -> None:
        """Remember a text, if it is short enough."""
        if len(sql) > _LONGEST_TEXT:
            return
        with self._lock:
            self._queries[sql, compat] = query
            if len(self._queries) > _MOST_TEXTS:
                self._queries.popitem(last=False)
