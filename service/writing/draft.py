"""The state of a script: what the statements so far have changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from catalog import CatalogError, Database, Table
from catalog.savepointtables import SOURCE_OFFSETS_NAME
from readers import operator_id_of
from service.errors import InvalidQueryError, QueryError, query_error_of
from service.sql.resolver import SystemTables
from service.writing.offsets import DraftOffsets
from service.writing.script import DropTable, RenameTable, Statement, Update
from writers import DropOperator, Edit, RenameOperator

Select = Callable[[str, SystemTables], pa.Table]


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What one statement did.

    Attributes:
        table: the name of its table.
        rows: how many rows it changed; None where it changed no rows.
        text: what happened, and what Flink will do about it, for people.
    """

    table: str
    rows: int | None = None
    text: str


class DraftTables(SystemTables):
    """The tables that a script has changed: a SELECT of the script reads them in place of the savepoint's."""

    def __init__(self, database: Database, offsets: DraftOffsets) -> None:
        self._database = database
        self._offsets = offsets

    def table(self, path: tuple[str, ...], databases: Sequence[str] | None) -> Table | None:
        if path[-1] != SOURCE_OFFSETS_NAME or path[:-1] not in ((), (self._database.name.casefold(),)):
            return None
        return self._offsets.table


class Draft:
    """A savepoint with the changes of a script.

    Args:
        database: the savepoint.
        select: runs a SELECT over it.
    """

    def __init__(self, database: Database, select: Select) -> None:
        self._database = database
        self._select = select
        self._effects: list[Effect] = []
        self._edits: list[Edit] = []
        # The id of an operator in the source → its id now; None once it is dropped.
        self._ids: dict[str, str | None] = {
            operator_id: operator_id for operator_id in database.operator_names
        }
        self._offsets: DraftOffsets | None = None

    @property
    def effects(self) -> tuple[Effect, ...]:
        """The effect of each statement, in order."""
        return tuple(self._effects)

    @property
    def offsets(self) -> DraftOffsets | None:
        """The rows of `source_offsets`; None if no statement is about them."""
        return self._offsets

    @property
    def edits(self) -> tuple[Edit, ...]:
        """The edits for the writer, in order."""
        # Numbers are patched first: their places are those of the source.
        patches = tuple(self._offsets.edits()) if self._offsets is not None else ()
        return (*patches, *self._edits)

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

    def _applied(self, statement: Statement) -> Effect:
        if isinstance(statement, DropTable):
            return self._drop(statement)
        if isinstance(statement, RenameTable):
            return self._rename(statement)
        assert isinstance(statement, Update)
        return self._update(statement)

    def _drop(self, statement: DropTable) -> Effect:
        source_id, operator_id = self._operator(statement)
        self._edits.append(DropOperator(operator_id))
        self._ids[source_id] = None
        if self._offsets is not None:
            self._offsets.drop(source_id)
        name = statement.table[-1]
        return Effect(
            table=name, text=f"{name} is dropped: a job that has this operator starts it without state"
        )

    def _rename(self, statement: RenameTable) -> Effect:
        source_id, operator_id = self._operator(statement)
        self._edits.append(RenameOperator(operator_id, statement.name))
        self._ids[source_id] = operator_id_of(statement.name)
        name = statement.table[-1]
        text = (
            f"{name} has the uid {statement.name!r}: a job without such an operator restores only with "
            "allowNonRestoredState, and leaves this state out"
        )
        return Effect(table=name, text=text)

    def _update(self, statement: Update) -> Effect:
        name = statement.table[-1]
        self._check_database(statement)
        if name.casefold() != SOURCE_OFFSETS_NAME:
            raise InvalidQueryError(
                f"{name!r} cannot be updated yet, only {SOURCE_OFFSETS_NAME} can", position=statement.position
            )
        if self._offsets is None:
            self._offsets = DraftOffsets(self._database)
            for source_id, operator_id in self._ids.items():
                if operator_id is None:
                    self._offsets.drop(source_id)
        offsets = self._offsets
        rows = offsets.update(statement, lambda sql: self._select(sql, DraftTables(self._database, offsets)))
        return Effect(table=SOURCE_OFFSETS_NAME, rows=rows, text=_counted(rows))

    def _operator(self, statement: Statement) -> tuple[str, str]:
        """Return the id of an operator in the source, and its id now.

        Raises:
            QueryError: there is none of this name, or an earlier statement dropped it.
        """
        self._check_database(statement)
        name = statement.table[-1]
        for source_id, operator_id in self._ids.items():
            # An earlier statement may have given it this uid.
            if operator_id == operator_id_of(name) and operator_id != source_id:
                return source_id, operator_id
        try:
            source_id = self._database.operator_of(name)
        except CatalogError as error:
            raise query_error_of(error) from error
        found = self._ids[source_id]
        if found is None:
            raise InvalidQueryError(f"an earlier statement dropped {name!r}")
        return source_id, found

    def _check_database(self, statement: Statement) -> None:
        qualifier = statement.table[:-1]
        if qualifier and qualifier[-1].casefold() != self._database.name.casefold():
            raise InvalidQueryError(
                f"expected a table of {self._database.name!r}, found one of {'.'.join(qualifier)!r}"
            )


def _counted(rows: int) -> str:
    return (
        f"{rows} row of {SOURCE_OFFSETS_NAME} changes"
        if rows == 1
        else f"{rows} rows of {SOURCE_OFFSETS_NAME} change"
    )
