"""The state of a script: what the statements so far have changed, family by family."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from catalog import Database, Table
from doctor import SourceAgainst
from readers import Savepoint
from service.base.errors import InvalidQueryError, QueryError
from service.query.sql.resolver import SystemTables
from service.tasks.write.alterations import StateAlterations
from service.tasks.write.changedstates import ChangedStates
from service.tasks.write.classes.nulls import null_warnings
from service.tasks.write.composition import Composition
from service.tasks.write.creating import StateCreations
from service.tasks.write.family import Context, CreationContext, Effect, Family
from service.tasks.write.localfiles import FileTables, no_file
from service.tasks.write.offsets import OffsetChanges
from service.tasks.write.operators import OperatorChanges
from service.tasks.write.rows import RowChanges
from service.tasks.write.statements.parser import Statement
from writers import CreateOperator, Edit, RestoreWarning, merged_edits

FamilyT = TypeVar("FamilyT", bound=Family)
Run = Callable[[str, SystemTables], AbstractContextManager[pa.RecordBatchReader]]
"""Runs a SELECT, and ends it with the context; the tables hide those of the savepoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftSettings:
    """What a script may do, beside what it says.

    Attributes:
        folder: for rows that memory does not hold; its owner removes it.
        files: returns the table of a file that FROM names.
        parallelism, max_parallelism: of operators that are created, whose statements do not say it.
        allow_empty: whether statements may find nothing to change.
        counted: casefolded names of tables whose changes the client counts: no change may be what it expects.
    """

    folder: Path
    files: FileTables = no_file
    parallelism: int = 1
    max_parallelism: int = 128
    allow_empty: bool = False
    counted: frozenset[str] = frozenset()

    def may_find_nothing(self, table: str) -> bool:
        """Return whether statements about a table may find nothing to change."""
        return self.allow_empty or table.casefold() in self.counted


class Draft:
    """A savepoint with the changes of a script.

    Args:
        database: the savepoint.
        run: runs a SELECT over it.
        settings: of the operators that it creates, and which files it may read.
    """

    def __init__(self, database: Database, run: Run, settings: DraftSettings) -> None:
        self._run = run
        self._database = database
        self._files = settings.files
        ids = database.operator_names
        creation = CreationContext(
            folder=settings.folder,
            parallelism=settings.parallelism,
            max_parallelism=settings.max_parallelism,
        )
        context = Context(
            database=database,
            select=self._select,
            changed_table=self._changed_table,
            creation=creation,
            may_find_nothing=settings.may_find_nothing,
            states=ChangedStates(settings.folder),
            operator_ids={one: one for one in ids},
        )
        self._context = context
        self._families = tuple(family(context) for family in FAMILIES)
        self._effects: list[Effect] = []

    @property
    def effects(self) -> tuple[Effect, ...]:
        """The effect of each statement, in order."""
        return tuple(self._effects)

    @property
    def edits(self) -> tuple[Edit, ...]:
        """The edits for the writer, in order."""
        found = merged_edits(edit for family in self._families for edit in family.edits())
        # The uid of a new operator may be that of one that goes, or gets another.
        return tuple(sorted(found, key=lambda edit: isinstance(edit, CreateOperator)))

    @property
    def changes_nothing(self) -> bool:
        """Whether the savepoint stays as it is: rows that were found have the values that the statements give them."""
        if any(effect.is_change for effect in self._effects):
            return False
        rows = self.family(RowChanges)
        return (
            not any(True for one in self._families if one is not rows for _ in one.edits())
            and not rows.differ
        )

    @property
    def warnings(self) -> tuple[RestoreWarning, ...]:
        """What Flink may refuse in the rows that the script writes.

        Raises:
            QueryError: a jar says that it does.
            ReaderError: a state that changes cannot be read.
        """
        changed = null_warnings(self._context.states, self._database.savepoint)
        return (*changed, *self.family(StateCreations).warnings)

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

    def _changed_table(self, name: str) -> Table | None:
        # A family that takes a table away comes behind those that change its rows.
        found = (family.table(name) for family in reversed(self._families))
        return next((table for table in found if table is not None), None)

    @contextmanager
    def _select(
        self, select: Composition, tables: Mapping[str, Table] | None = None
    ) -> Iterator[pa.RecordBatchReader]:
        known = _DraftTables(self._database.name, self._changed_table, tables or {}, self._files)
        try:
            with self._run(select.text, known) as reader:
                yield reader
        except QueryError as error:
            error.position = error.position and select.position(error.position)
            raise


class _DraftTables(SystemTables):
    """The tables that a script has changed: a SELECT of the script reads them in place of the savepoint's."""

    def __init__(
        self,
        database: str,
        changed: Callable[[str], Table | None],
        tables: Mapping[str, Table],
        files: FileTables,
    ) -> None:
        self._qualifiers = ((), (database.casefold(),), ("flink", database.casefold()))
        self._changed = changed
        self._tables = tables
        self._files = files

    def file(self, path: str) -> Table | None:
        return self._files(path)

    def table(self, path: tuple[str, ...], databases: Sequence[str] | None) -> Table | None:
        name = path[-1]
        if path[:-1] not in self._qualifiers:
            return None
        if len(path) == 1 and name in self._tables:
            return self._tables[name]
        return self._changed(name)


# Their edits come in this order. What is in state files is found by the ids of operators in the source: it is changed first.
FAMILIES: tuple[type[Family], ...] = (
    OffsetChanges,
    RowChanges,
    StateAlterations,
    StateCreations,
    OperatorChanges,
)
