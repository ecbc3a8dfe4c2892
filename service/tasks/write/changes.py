"""`Changes`: those of the same thing, such as operators or offsets. A script has one object of each class.

It says which statements are its own, what each of them does, which tables a later statement finds changed, the edits that
write the changes, and whether the new savepoint has them.
"""

from __future__ import annotations

import itertools
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from catalog import CatalogError, Database, PlannedTable, Scan, Table
from catalog.changedtables import StateKey, TableChanges
from catalog.scan import FactsSplit
from readers import Operator, Savepoint, operator_id_of
from service.base.errors import InvalidQueryError, translated
from service.tasks.write.composition import Composition
from service.tasks.write.statements.parser import Statement
from writers import AddedRows, Edit, RemovedRows, Spool, StateChanges, UpdatedRows

ALLOW_EMPTY = "--allow-empty, or allow_empty over HTTP and in Python, writes the savepoint anyway"
"""The hint of a write that changes nothing."""
_MEMORY_BYTES = 32 << 20


class ChangedStates:
    """The changes of each state so far.

    Args:
        directory: for rows that memory does not hold.

    Attributes:
        spool: keeps the rows of statements.
        emptied: states without any row of the savepoint.
        names: the new names of states that have others.
        retyped: states whose values have other types, after the changes of their rows.
        now_ms: the time of the write: what it changes has been accessed then.
    """

    def __init__(self, directory: Path) -> None:
        self.spool = Spool(directory)
        self._directory = directory
        self._files = 0
        self.emptied: set[StateKey] = set()
        self.names: dict[StateKey, str] = {}
        self.retyped: set[StateKey] = set()
        self._changes: dict[StateKey, StateChanges] = {}
        self.now_ms = time.time_ns() // 1_000_000

    @property
    def table_changes(self) -> TableChanges:
        """The changes so far; later statements do not change what is returned."""
        return TableChanges(changes=dict(self._changes), emptied=frozenset(self.emptied))

    def of(self, key: StateKey) -> StateChanges:
        """Return the changes of a state; without layers if it has none."""
        return self._changes.get(key) or StateChanges(now_ms=self.now_ms)

    def add(self, key: StateKey, *layers: UpdatedRows | RemovedRows | AddedRows) -> None:
        """Add the changes of a statement to those of a state; layers without rows change nothing."""
        for layer in layers:
            if not layer.rows.num_rows:
                continue
            before = self.of(key)
            joined = self.spool.joined(before.layers[-1], layer) if before.layers else None
            kept = (*before.layers, layer) if joined is None else (*before.layers[:-1], joined)
            self._changes[key] = replace(before, layers=kept)

    def empty(self, key: StateKey) -> None:
        """Remove all rows of a state."""
        self.forget(key)
        self.emptied.add(key)

    def forget(self, key: StateKey) -> None:
        """Forget the changes of a state: it goes."""
        self._changes.pop(key, None)

    def stored(self, reader: pa.RecordBatchReader, names: Sequence[str], number: str | None = None) -> Table:
        """Return the rows of a reader as a table that can be read several times.

        Args:
            reader: the rows.
            names: of the columns of the table.
            number: of one more column, which numbers the rows; None for none.
        """
        fields = [column.with_name(name) for column, name in zip(reader.schema, names, strict=True)]
        schema = pa.schema(fields if number is None else [*fields, pa.field(number, pa.int64())])
        batches = (
            pa.RecordBatch.from_arrays([*batch.columns, *extra], schema=schema)
            for batch, extra in _numbered(reader, is_wanted=number is not None)
        )
        held: list[pa.RecordBatch] = []
        size_bytes = 0
        for batch in batches:
            held.append(batch)
            size_bytes += batch.nbytes
            if size_bytes > _MEMORY_BYTES:
                held = self._mapped(schema, itertools.chain(held, batches))
        splits = tuple(map(FactsSplit, held))
        return PlannedTable("rows", "rows of a query", Scan(schema=schema, splits=splits))

    def _mapped(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> list[pa.RecordBatch]:
        """Write batches to a file, and return them as a map of it."""
        path = self._directory / f"rows-{self._files}.arrow"
        self._files += 1
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        found: list[pa.RecordBatch] = pa.ipc.open_file(pa.memory_map(str(path))).read_all().to_batches()
        return found


def _numbered(
    batches: Iterable[pa.RecordBatch], *, is_wanted: bool
) -> Iterator[tuple[pa.RecordBatch, list[pa.Array]]]:
    """Yield batches, each with the numbers of its rows if they are wanted."""
    first = 0
    for batch in batches:
        yield batch, [pa.array(np.arange(first, first + batch.num_rows))] if is_wanted else []
        first += batch.num_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A row that a statement changed, for people: names and values are texts.

    Attributes:
        place: the columns that tell the row from others.
        before: the columns that changed, as they were; None for a row that is added.
        after: the same columns as they are now; None for a row that is removed.
    """

    place: Mapping[str, str]
    before: Mapping[str, str] | None
    after: Mapping[str, str] | None

    def text(self) -> str:
        """Return the change as a line."""
        place = ", ".join(_listed(self.place))
        return f"{place}: {self._change()}" if place else self._change()

    def _change(self) -> str:
        if self.before is None:
            return ", ".join(["added", *_listed(self.after or {})])
        if self.after is None:
            return ", ".join(["removed", *_listed(self.before)])
        return ", ".join(f"{name} {value} → {self.after[name]}" for name, value in self.before.items())


def _listed(values: Mapping[str, str]) -> list[str]:
    return [f"{name} {value}" for name, value in values.items()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What one statement did.

    Attributes:
        table: the name of its table.
        changed, added, removed: how many rows.
        key_groups: how many key groups have such rows.
        samples: some of the rows.
        text: what happened, and what Flink will do about it, for people.
    """

    table: str
    changed: int = 0
    added: int = 0
    removed: int = 0
    key_groups: int = 0
    samples: tuple[Sample, ...] = ()
    text: str

    @property
    def is_change(self) -> bool:
        """Whether it is plain that a row is another one now; False if all samples show values that stay the same."""
        return bool(self.added or self.removed) or any(one.before != one.after for one in self.samples)

    @property
    def rows(self) -> int:
        """How many rows it changed, added or removed."""
        return self.changed + self.added + self.removed


class Select(Protocol):
    """Runs a SELECT over the savepoint as the script has left it."""

    def __call__(
        self, select: Composition, tables: Mapping[str, Table] | None = None
    ) -> AbstractContextManager[pa.RecordBatchReader]:
        """Return its rows, in a context that ends it.

        Args:
            select: the SELECT.
            tables: tables by names of their own, casefolded; they hide all others.

        Raises:
            QueryError: with the place in the script.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptContext:
    """What the changes of one script share.

    Attributes:
        database: the savepoint as it is.
        select: runs a SELECT over it.
        changed_table: returns a table, by its casefolded name, as the script has left it; None if no statement changed it.
        folder: for files that are gone with the script.
        parallelism, max_parallelism: of operators that are created, whose statements do not say it.
        may_find_nothing: returns whether statements about a table may find nothing to change, by the name of the table.
        states: what the statements have changed in its states.
        operator_ids: the id of an operator in the source → its id now; None once it is dropped.
        created: the id of an operator in the source → the names of the states that it gets.
    """

    database: Database
    select: Select
    changed_table: Callable[[str], Table | None]
    folder: Path
    parallelism: int
    max_parallelism: int
    may_find_nothing: Callable[[str], bool]
    states: ChangedStates
    operator_ids: dict[str, str | None] = field(default_factory=dict)
    created: dict[str, set[str]] = field(default_factory=dict)

    def read(self, select: Composition, tables: Mapping[str, Table] | None = None) -> pa.Table:
        """Return all rows of a SELECT that has few; see `Select`."""
        with self.select(select, tables) as reader:
            return reader.read_all()

    def constant(self, expression: str) -> pa.Scalar:
        """Return the value of an expression.

        Raises:
            QueryError: it means nothing.
        """
        return self.read(Composition("SELECT ").expression(expression, "value")).column(0)[0]

    def in_source(self, operator_id: str) -> Operator:
        """Return the operator of an id in the source."""
        operators = self.database.savepoint.operators
        return next(one for one in operators if one.operator_id == operator_id)

    def operator(self, name: str) -> tuple[str, str]:
        """Return the id of an operator in the source, and its id now.

        Raises:
            QueryError: there is none of this name, or an earlier statement dropped it.
        """
        for source_id, operator_id in self.operator_ids.items():
            # An earlier statement may have given it this uid.
            if operator_id == operator_id_of(name) and operator_id != source_id:
                return source_id, operator_id
        with translated(CatalogError):
            source_id = self.database.operator_of(name)
        found = self.operator_ids[source_id]
        if found is None:
            raise InvalidQueryError(f"an earlier statement dropped {name!r}")
        return source_id, found


class Changes(ABC):
    """The changes of the same thing.

    Args:
        context: what it shares with the others.
    """

    def __init__(self, context: ScriptContext) -> None:
        self.context = context

    @property
    @abstractmethod
    def appliers(self) -> Mapping[type[Statement], Callable[[Any], Effect]]:
        """What applies each class of statements: a statement → its effect. They raise a QueryError for what is refused."""

    def owns(self, table: str) -> bool:
        """Return whether a table is of these; the first that have it, and an applier, get a statement.

        Args:
            table: its name as it was written.

        Raises:
            QueryError: files that may have the table cannot be read.
        """
        return True

    @abstractmethod
    def edits(self) -> Iterator[Edit]:
        """Yield what writes the changes of all statements, in order."""

    def table(self, name: str) -> Table | None:
        """Return a table of the savepoint as the statements so far have changed it; None if they have not changed it.

        Args:
            name: casefolded.
        """
        return None

    def verify(self, savepoint: Savepoint) -> None:  # noqa: B027  # some have nothing to read back
        """Check that a new savepoint has the changes.

        Raises:
            UnwritableError: it has others.
        """

    def close(self) -> None:  # noqa: B027  # most hold nothing
        """Release what it holds."""
