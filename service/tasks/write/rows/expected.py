"""`ExpectedRows`: how many rows of the tables of `--expect` a script changes.

A table counts under its name in the source, whatever name a statement or the client has for it. DROP TABLE counts the rows of these
tables alone: what goes may be large, or unreadable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from catalog import Table
from catalog.changedtables import ChangedTable, state_key
from catalog.savepointtables import SOURCE_OFFSETS_NAME
from catalog.statetables import StatesTable, StateTable
from service.base.errors import ConflictError, QueryError, TableNotFoundError
from service.query.sql.text import text_constant
from service.tasks.write.changes import Effect, ScriptContext
from service.tasks.write.rows.tables import RowChanges


class ExpectedRows:
    """The rows that statements change, add and remove in the tables that a client names.

    Args:
        expect: how many rows of each table are expected.
        context: of the script, which has no statement yet.
        rows: finds the tables.

    Raises:
        QueryError: rows of a table cannot be changed.
    """

    def __init__(self, expect: Mapping[str, int], context: ScriptContext, rows: RowChanges) -> None:
        self._expect, self._context, self._rows = expect, context, rows
        self._tables: dict[str, Table] = {}
        self._names: dict[str, str] = {}
        self._unknown: dict[str, TableNotFoundError] = {}
        self._found: Counter[str] = Counter()
        for name in expect:
            try:
                table = self._changeable(name)
            except TableNotFoundError as error:
                # A statement may make it, or give this name to another.
                self._unknown[name.casefold()] = error
                continue
            own = table.name.casefold()
            self._tables[own], self._names[name.casefold()] = table, own

    def _changeable(self, name: str) -> Table:
        if name.casefold() == SOURCE_OFFSETS_NAME:
            return self._context.database.table(name)
        return self._rows.changeable(name)

    def has(self, name: str) -> bool:
        """Return whether the client expects rows of a table, by a name that it has now."""
        return name.casefold() in self._unknown or self.own_name(name) in self._tables

    def own_name(self, name: str) -> str:
        """Return the name in the source of a table; the name as it is if the source has no such table."""
        try:
            return self._changeable(name).name.casefold()
        except QueryError:
            return name.casefold()

    def add(self, name: str, own: str, effect: Effect) -> None:
        """Count what a statement did.

        Args:
            name: of the statement's table.
            own: the name in the source that it had before the statement.
            effect: of the statement.
        """
        self._names.setdefault(name.casefold(), own)
        self._found[own] += effect.rows
        for one in effect.states:
            self._found[one.table.casefold()] += one.rows

    def count_dropped(self, own: str, operator_id: str | None) -> None:
        """Count the rows that go with a state, or with an operator.

        Args:
            own: the name of the state's table in the source.
            operator_id: of the operator in the source; None if only the state goes.
        """
        for name, table in self._tables.items():
            if operator_id is not None or name == own:
                self._found[name] += self._rows_of(table, operator_id)

    def _rows_of(self, table: Table, operator_id: str | None) -> int:
        """Return how many rows a table has now, perhaps only those of an operator."""
        states = self._context.states
        counted = table
        if isinstance(table, StatesTable):
            left = [
                known
                for known in table.states
                if operator_id in (None, known.state.operator_id) and state_key(known) not in states.dropped
            ]
            if not left:
                return 0
            counted = ChangedTable(table, states.table_changes)
        if operator_id is None or isinstance(table, StateTable):
            return self._context.count(counted)
        return self._context.count(counted, f"operator_id = {text_constant(operator_id)}")

    def check(self) -> None:
        """Check that the script changes what the client expects.

        Raises:
            QueryError: it does not, or there is no such table.
        """
        for name, rows in self._expect.items():
            own = self._names.get(name.casefold())
            if own is None:
                raise self._unknown[name.casefold()]
            if (found := self._found[own]) != rows:
                raise ConflictError(
                    f"expected {rows} rows of {name} to change, found {found}; nothing was written"
                )
