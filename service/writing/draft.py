"""The state of a script: what the statements so far have changed, family by family."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import pyarrow as pa

from catalog import Database, Table
from readers import Savepoint
from service.errors import InvalidQueryError, QueryError
from service.sql.resolver import SystemTables
from service.writing.family import Context, Effect, Family
from service.writing.offsets import OffsetChanges
from service.writing.operators import OperatorChanges
from service.writing.statements.statement import Statement
from writers import Edit

FamilyT = TypeVar("FamilyT", bound=Family)
Run = Callable[[str, SystemTables], pa.Table]
"""Runs a SELECT; the tables hide those of the savepoint."""


class Draft:
    """A savepoint with the changes of a script.

    Args:
        database: the savepoint.
        run: runs a SELECT over it.
    """

    def __init__(self, database: Database, run: Run) -> None:
        self._run = run
        self._database = database
        ids = database.operator_names
        context = Context(database=database, select=self._select, operator_ids={one: one for one in ids})
        self._families = tuple(family(context) for family in FAMILIES)
        self._effects: list[Effect] = []

    @property
    def effects(self) -> tuple[Effect, ...]:
        """The effect of each statement, in order."""
        return tuple(self._effects)

    @property
    def edits(self) -> tuple[Edit, ...]:
        """The edits for the writer, in order."""
        return tuple(edit for family in self._families for edit in family.edits())

    def family(self, kind: type[FamilyT]) -> FamilyT:
        """Return the family of a class."""
        return next(family for family in self._families if isinstance(family, kind))

    def apply(self, statement: Statement) -> None:
        """Apply the next statement.

        Raises:
            QueryError: it means nothing, or is refused.
        """
        try:
            self._effects.append(self._applied(statement))
        except QueryError as error:
            error.position = error.position or statement.position
            raise

    def verify(self, savepoint: Savepoint) -> None:
        """Check that a new savepoint has the changes.

        Raises:
            UnwritableError: it has others.
        """
        for family in self._families:
            family.verify(savepoint)

    def close(self) -> None:
        """Release what the families hold."""
        for family in self._families:
            family.close()

    def _applied(self, statement: Statement) -> Effect:
        qualifier = statement.table[:-1]
        if qualifier and qualifier[-1].casefold() != self._database.name.casefold():
            raise InvalidQueryError(
                f"expected a table of {self._database.name!r}, found one of {'.'.join(qualifier)!r}"
            )
        kind = type(statement)
        for family in self._families:
            if kind in family.appliers and family.owns(statement.name):
                return family.appliers[kind](statement)
        raise InvalidQueryError(f"{statement.name!r} cannot be changed by this statement yet")

    def _select(self, sql: str, tables: Mapping[str, Table]) -> pa.Table:
        try:
            return self._run(sql, _DraftTables(self._database.name, self._families, tables))
        except QueryError as error:
            # It is a position in the text of the SELECT, which nobody has seen.
            error.position = None
            raise


class _DraftTables(SystemTables):
    """The tables that a script has changed: a SELECT of the script reads them in place of the savepoint's."""

    def __init__(self, database: str, families: Sequence[Family], tables: Mapping[str, Table]) -> None:
        self._qualifiers = ((), (database.casefold(),), ("flink", database.casefold()))
        self._families = families
        self._tables = tables

    def table(self, path: tuple[str, ...], databases: Sequence[str] | None) -> Table | None:
        name = path[-1]
        if path[:-1] not in self._qualifiers:
            return None
        if len(path) == 1 and name in self._tables:
            return self._tables[name]
        found = (family.table(name) for family in self._families)
        return next((table for table in found if table is not None), None)


# Their edits come in this order. What is in state files is found by the ids of operators in the source: it is changed first.
FAMILIES: tuple[type[Family], ...] = (OffsetChanges, OperatorChanges)
