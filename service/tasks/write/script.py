"""A script: what its statements so far have changed; each sees what the earlier ones did."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from catalog import Database, Table
from doctor import SourceAgainst
from readers import Savepoint
from service.base.errors import InvalidQueryError, QueryError
from service.query.sql.resolver import SystemTables
from service.tasks.write.alterations import StateAlterations
from service.tasks.write.changes import ChangedStates, Changes, Effect, ScriptContext
from service.tasks.write.classes import null_warnings
from service.tasks.write.composition import Composition
from service.tasks.write.creating import StateCreations
from service.tasks.write.offsets import OffsetChanges
from service.tasks.write.operators import OperatorChanges
from service.tasks.write.request import WriteRequest
from service.tasks.write.rows import RowChanges
from service.tasks.write.statements.parser import Statement
from writers import CreateOperator, Edit, RestoreWarning, merged_edits

ChangesT = TypeVar("ChangesT", bound=Changes)
Run = Callable[[str, SystemTables], AbstractContextManager[pa.RecordBatchReader]]
"""Runs a SELECT, and ends it with the context; the tables hide those of the savepoint."""


class Script:
    """A savepoint with the changes of a script.

    Args:
        database: the savepoint.
        request: the script.
        folder: for rows that memory does not hold; its owner removes it.
        run: runs a SELECT over the savepoint.
        file: returns the table of a file that FROM names; None where no files are read.
    """

    def __init__(
        self,
        database: Database,
        request: WriteRequest,
        folder: Path,
        run: Run,
        file: Callable[[str], Table | None] | None,
    ) -> None:
        self._run = run
        self._database = database
        self._file = file
        counted = frozenset(map(str.casefold, request.expect))
        self._context = ScriptContext(
            database=database,
            select=self._select,
            changed_table=self._changed_table,
            folder=folder,
            parallelism=request.parallelism,
            max_parallelism=request.max_parallelism,
            # No change may be what the client expects of a table.
            may_find_nothing=lambda table: request.allow_empty or table.casefold() in counted,
            states=ChangedStates(folder),
            operator_ids={one: one for one in database.operator_names},
        )
        self._changes = tuple(kind(self._context) for kind in CHANGES)
        self._effects: list[Effect] = []

    @property
    def effects(self) -> tuple[Effect, ...]:
        """The effect of each statement, in order."""
        return tuple(self._effects)

    @property
    def edits(self) -> tuple[Edit, ...]:
        """The edits for the writer, in order."""
        found = merged_edits(edit for one in self._changes for edit in one.edits())
        # The uid of a new operator may be that of one that goes, or gets another.
        return tuple(sorted(found, key=lambda edit: isinstance(edit, CreateOperator)))

    @property
    def changes_nothing(self) -> bool:
        """Whether the savepoint stays as it is: rows that were found have the values that the statements give them."""
        if any(effect.is_change for effect in self._effects):
            return False
        rows = self.changes(RowChanges)
        return (
            not any(True for one in self._changes if one is not rows for _ in one.edits()) and not rows.differ
        )

    @property
    def warnings(self) -> tuple[RestoreWarning, ...]:
        """What Flink may refuse in the rows that the script writes.

        Raises:
            QueryError: a jar says that it does.
            ReaderError: a state that changes cannot be read.
        """
        changed = null_warnings(self._context.states, self._database.savepoint)
        return (*changed, *self.changes(StateCreations).warnings)

    @property
    def against(self) -> tuple[SourceAgainst, ...]:
        """The job that the new savepoint is for, as far as the source knows it: nothing if it has no operators."""
        source, states = self._database.savepoint, self._context.states
        if not source.operators:
            return ()
        ids = self._context.operator_ids
        operators = {operator.operator_id: operator for operator in source.operators}
        retyped = {
            (now, states.names.get((one, number), operators[one].states[number].name))
            for one, number in states.retyped
            if (now := ids[one]) is not None
        }
        return (SourceAgainst(source, dict(ids), frozenset(retyped)),)

    def changes(self, kind: type[ChangesT]) -> ChangesT:
        """Return the changes of a class."""
        return next(one for one in self._changes if isinstance(one, kind))

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
        for one in self._changes:
            one.verify(savepoint)

    def close(self) -> None:
        """Release what the changes hold."""
        for one in self._changes:
            one.close()

    def _applied(self, statement: Statement) -> Effect:
        qualifier = statement.table[:-1]
        if qualifier and qualifier[-1].casefold() != self._database.name.casefold():
            raise InvalidQueryError(
                f"expected a table of {self._database.name!r}, found one of {'.'.join(qualifier)!r}"
            )
        kind = type(statement)
        for one in self._changes:
            if kind in one.appliers and one.owns(statement.name):
                return one.appliers[kind](statement)
        raise InvalidQueryError(f"{statement.name!r} cannot be changed by this statement yet")

    def _changed_table(self, name: str) -> Table | None:
        # Those that take a table away come behind those that change its rows.
        found = (one.table(name) for one in reversed(self._changes))
        return next((table for table in found if table is not None), None)

    @contextmanager
    def _select(
        self, select: Composition, tables: Mapping[str, Table] | None = None
    ) -> Iterator[pa.RecordBatchReader]:
        known = _ScriptTables(self._database.name, self._changed_table, tables or {}, self._file)
        try:
            with self._run(select.text, known) as reader:
                yield reader
        except QueryError as error:
            error.position = error.position and select.position(error.position)
            raise


class _ScriptTables(SystemTables):
    """The tables that a script has changed: a SELECT of the script reads them in place of the savepoint's."""

    def __init__(
        self,
        database: str,
        changed: Callable[[str], Table | None],
        tables: Mapping[str, Table],
        file: Callable[[str], Table | None] | None,
    ) -> None:
        self._qualifiers = ((), (database.casefold(),), ("flink", database.casefold()))
        self._changed = changed
        self._tables = tables
        self._file = file

    def file(self, path: str) -> Table | None:
        return None if self._file is None else self._file(path)

    def table(self, path: tuple[str, ...], databases: Sequence[str] | None) -> Table | None:
        name = path[-1]
        if path[:-1] not in self._qualifiers:
            return None
        if len(path) == 1 and name in self._tables:
            return self._tables[name]
        return self._changed(name)


# Their edits come in this order. What is in state files is found by the ids of operators in the source: it is changed first.
CHANGES: tuple[type[Changes], ...] = (
    OffsetChanges,
    RowChanges,
    StateAlterations,
    StateCreations,
    OperatorChanges,
)
