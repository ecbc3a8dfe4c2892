"""`Changes`: those of the same thing, such as operators or offsets, and what they share. A script has one object of each class.

It says which statements are its own, what each of them does, which tables a later statement finds changed, the edits that write the
changes, and whether the new savepoint has them. A `Composition` is a SELECT made of parts of a script; its errors have their places in
the script.

Two things the classes of a job forbid, and no savepoint says.

NULL in fields of POJOs that may be primitive in Java: a savepoint does not say whether a field is an `int` or an `Integer`. A NULL that
the state has already shows that it is an object; the jars of the job say which it is. Where neither tells, the script is written, with a
warning: Flink refuses a NULL for an `int`, and the whole restore with it.

A class that several states have: ALTER changes one state, and the job has one class for all of them. Flink compares the fields in a
savepoint with those of the class by their names. A field that has another type in the class is refused with the whole restore; one that
has another name in the class is lost without a word. A field that is added or goes is no matter: Flink fills it, or leaves it out.
"""

from __future__ import annotations

import itertools
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
import pyarrow as pa

from catalog import Catalog, CatalogError, Database, PlannedTable, Scan, Table
from catalog.changedtables import STATE, StateKey, TableChanges, changed_state
from catalog.scan import FactsSplit
from catalog.statetables import TableState
from readers import ROW, Operator, PojoSerializer, Savepoint, Serializer, State, operator_id_of
from service.base import errors
from service.query.sql.text import quoted
from service.tasks.write.statements.parser import Fragment, Statement
from service.tasks.write.statements.script import Assignment, RowStatement
from writers import (
    GROUP,
    AddedRows,
    Edit,
    NullField,
    RemovedRows,
    RenamedField,
    RestoreWarning,
    Spool,
    StateChanges,
    TypeChange,
    UpdatedRows,
    null_fields,
)

TARGET = "_target"
"""The table of a statement, numbered, in the SELECTs that are made of it."""
SOURCE = "_source"
"""The rows of a query of a statement, kept."""


class Composition:
    """A SELECT, piece by piece.

    Pieces of a script are put into parentheses, or come last, and a line ends behind each: a comment at its end ends there.
    """

    def __init__(self, *pieces: str) -> None:
        self._pieces: list[str] = list(pieces)

    def add(self, *pieces: str) -> Composition:
        """Append pieces, and return the composition."""
        for piece in pieces:
            self._pieces.append(piece)
            if isinstance(piece, Fragment):
                self._pieces.append("\n")
        return self

    def expression(self, piece: str, name: str | None = None) -> Composition:
        """Append an expression in parentheses, perhaps with a name."""
        self.add("(", piece, ")")
        return self if name is None else self.add(f" AS {quoted(name)}")

    @property
    def pieces(self) -> tuple[str, ...]:
        """The pieces."""
        return tuple(self._pieces)

    @property
    def text(self) -> str:
        """The SELECT."""
        return "".join(self._pieces)

    def position(self, position: errors.Position) -> errors.Position | None:
        """Return the place in the script of a place in the SELECT; None if it is not from the script."""
        lines = self.text.splitlines(keepends=True)
        offset = sum(map(len, lines[: position.line - 1])) + position.column - 1
        for start, piece in self._placed():
            if isinstance(piece, Fragment) and start <= offset < start + len(piece):
                return piece.position(offset - start)
        return None

    def _placed(self) -> Iterator[tuple[int, str]]:
        start = 0
        for piece in self._pieces:
            yield start, piece
            start += len(piece)


def alias_of(statement: RowStatement) -> str:
    """Return the name of a statement's table in its expressions, quoted."""
    return quoted(statement.alias or statement.name)


def place_columns(statement: RowStatement) -> str:
    """Return the columns that say where a row is."""
    alias = alias_of(statement)
    return f"{alias}.{STATE}, {alias}.{GROUP}, {alias}.{ROW}"


def select_places(
    statement: RowStatement, assignments: Sequence[Assignment], compared: Sequence[int] = ()
) -> Composition:
    """Return `SELECT` with the places of rows, and new values named by their numbers.

    Args:
        statement: changes the rows.
        assignments: have the new values.
        compared: numbers of assignments; the values before are named `before_<number>`.
    """
    select = Composition("SELECT ", place_columns(statement))
    for number, assignment in enumerate(assignments):
        select.add(", ").expression(assignment.expression, str(number))
    for number in compared:
        path = ".".join(map(quoted, assignments[number].path))
        select.add(f", {alias_of(statement)}.{path} AS {before_name(number)}")
    return select


def before_name(number: int) -> str:
    """Return the column of the values before an assignment."""
    return f"before_{number}"


def add_conditions(select: Composition, conditions: Sequence[str | None]) -> None:
    """Append WHERE with all conditions that are not None."""
    word = " WHERE "
    for condition in conditions:
        if condition is not None:
            select.add(word).expression(condition)
            word = " AND "


def select_all(query: str) -> Composition:
    """Return a SELECT of the rows of a query."""
    return Composition("SELECT * FROM ").expression(query, SOURCE)


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
        dropped: states that go.
        names: the new names of states that have others.
        retyped: states whose values have other types, after the changes of their rows.
        now_ms: the time of the write: what it changes has been accessed then.
    """

    def __init__(self, directory: Path) -> None:
        self.spool = Spool(directory)
        self._directory = directory
        self._files = 0
        self.emptied: set[StateKey] = set()
        self.dropped: set[StateKey] = set()
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
        self._changes.pop(key, None)
        self.emptied.add(key)

    def drop(self, key: StateKey) -> None:
        """Forget the changes of a state: it goes."""
        self._changes.pop(key, None)
        self.dropped.add(key)

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

    @property
    def cut(self) -> Sample:
        """The sample without the ends of long values."""
        parts = (self.place, self.before, self.after)
        place, before, after = (None if part is None else _shortened(part) for part in parts)
        return Sample(place=place or {}, before=before, after=after)

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


_LONGEST_TEXT = 1000  # states hold values of many megabytes, and a report is for people


def _shortened(values: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value if len(value) <= _LONGEST_TEXT else f"{value[:_LONGEST_TEXT]}…"
        for name, value in values.items()
    }


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
        states: what it did in each state, if it is about several; the rows are counted in both.
        text: what happened, and what Flink will do about it, for people.
    """

    table: str
    changed: int = 0
    added: int = 0
    removed: int = 0
    key_groups: int = 0
    samples: tuple[Sample, ...] = ()
    states: tuple[Effect, ...] = ()
    text: str

    @property
    def is_change(self) -> bool:
        """Whether it is plain that a row is another one now; False if only a comparison can tell."""
        if self.added or self.removed:
            return not (self.added and self.removed)
        is_other = any(one.before != one.after for one in self.samples)
        return is_other or any(one.is_change for one in self.states)

    def within(self, room: int) -> Effect:
        """Return the effect with at most `room` samples, without the ends of long values."""
        samples = tuple(one.cut for one in self.samples[:room])
        states: list[Effect] = []
        for one in self.states:
            room -= len(states[-1].samples if states else samples)
            states.append(one.within(room))
        return replace(self, samples=samples, states=tuple(states))

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
        catalog: has it, and the other savepoints that statements may name.
        version: of `_metadata` in the new savepoint.
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
    catalog: Catalog
    version: int
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

    def types(self, types: Mapping[str, str]) -> pa.Schema:
        """Return what Arrow has for types of SQL, by the names of columns.

        Raises:
            QueryError: there is no such type.
        """
        columns = ", ".join(f"CAST(NULL AS {type_}) AS {quoted(name)}" for name, type_ in types.items())
        with self.select(Composition(f"SELECT {columns} LIMIT 0")) as reader:
            return reader.schema

    def count(self, table: Table, condition: str = "true") -> int:
        """Return the number of rows of a table that meet a condition."""
        select = Composition(f'SELECT count(*) FROM "counted" WHERE {condition}')
        return int(self.read(select, {"counted": table}).column(0)[0].as_py())

    def in_source(self, operator_id: str) -> Operator:
        """Return the operator of an id in the source."""
        operators = self.database.savepoint.operators
        return next(one for one in operators if one.operator_id == operator_id)

    def check_qualifier(self, path: Sequence[str]) -> None:
        """Check that a name with that of a database is one of the savepoint.

        Raises:
            InvalidQueryError: it is of another database.
        """
        qualifier = path[:-1]
        if qualifier and qualifier[-1].casefold() != self.database.name.casefold():
            raise errors.InvalidQueryError(
                f"expected a table of {self.database.name!r}, found one of {'.'.join(qualifier)!r}"
            )

    def operator(self, name: str) -> tuple[str, str]:
        """Return the id of an operator in the source, and its id now.

        Raises:
            QueryError: there is none of this name, or an earlier statement dropped it.
        """
        for source_id, operator_id in self.operator_ids.items():
            # An earlier statement may have given it this uid.
            if operator_id == operator_id_of(name) and operator_id != source_id:
                return source_id, operator_id
        with errors.translated(CatalogError):
            source_id = self.database.operator_of(name)
        found = self.operator_ids[source_id]
        if found is None:
            raise errors.InvalidQueryError(f"an earlier statement dropped {name!r}")
        return source_id, found


class Changes(ABC):
    """The changes of the same thing.

    Args:
        context: what it shares with the others.
    """

    appliers: ClassVar[Mapping[type[Statement], Callable[[Any, Any], Effect]]]
    """What applies each class of statements: the changes and a statement → its effect. They raise a QueryError for what is refused."""
    only: ClassVar[str | None] = None
    """The casefolded name of the only table that they change; None for those of `owns`."""
    writers: ClassVar[tuple[type[Changes], ...]] = ()
    """The classes that show, write and verify what these change, if not they themselves do."""

    def __init__(self, context: ScriptContext) -> None:
        self.context = context

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

    @property
    def warnings(self) -> Sequence[RestoreWarning]:
        """What Flink may refuse in them, beside NULL."""
        return ()

    @property
    def differ(self) -> bool:
        """Whether the new savepoint has something that the source has not."""
        return any(True for _ in self.edits())

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


_VALUE, _MAP_KEY = "value", "map_key"
_COLUMNS = (_VALUE, _MAP_KEY)
_FIRST_ROWS = 10_000


def null_warnings(changed: ChangedStates, database: Database) -> Iterator[RestoreWarning]:
    """Yield the states that get NULL in fields which may be primitive.

    Raises:
        InvalidValueError: a jar says that such a field is primitive.
        ReaderError: the state cannot be read.
    """
    savepoint = database.savepoint
    operators = {operator.operator_id: operator for operator in savepoint.operators}
    for (operator_id, number), changes in changed.table_changes.changes.items():
        state = operators[operator_id].states[number]
        found = {
            one
            for layer in changes.layers
            for path, column in _set_columns(layer)
            if (serializer := _serializer(state, path[0])) is not None
            for array in column.chunks
            for one in null_fields(serializer, path[1:], array)
        }
        if any(_makes_objects(state, layer) for layer in changes.layers):
            known = TableState(state, number, operators[operator_id].metadata.uid)
            groups = frozenset(changes.groups.tolist())
            rows = changed_state(known, database.reference, changed.table_changes, groups)
            serializer = _serializer(state, _VALUE)
            for batch in rows.scan([_VALUE]).to_reader():
                found.update(null_fields(serializer, (), batch.column(0)) if serializer is not None else ())
        yield from field_warnings(state.name, found - _stored(state) if found else found, savepoint)


def field_warnings(state: str, fields: Iterable[NullField], savepoint: Savepoint) -> Iterator[RestoreWarning]:
    """Yield a warning of each field that nothing shows to be an object.

    Raises:
        InvalidValueError: a jar says that it is primitive.
    """
    for one in sorted(fields, key=str):
        jars = savepoint.jars
        is_primitive = None if jars is None else jars.is_primitive(one.java_class, one.name)
        if is_primitive:
            raise errors.InvalidValueError(
                f"{state}: expected a value for {one}, which is primitive in the jar, found NULL",
                hint="set a value; Flink refuses the whole restore otherwise",
            )
        if is_primitive is None:
            yield RestoreWarning(
                state=state,
                text=f"{one} gets NULL: if the field is primitive in Java (int, not Integer), Flink refuses the restore; a jar of "
                "the job tells (--jar)",
            )


def _set_columns(layer: object) -> Iterator[tuple[tuple[str, ...], pa.ChunkedArray]]:
    """Yield the columns, or parts of them, that a layer sets."""
    if isinstance(layer, UpdatedRows):
        yield from ((path, layer.rows.column(str(number))) for number, path in enumerate(layer.paths))
    elif isinstance(layer, AddedRows):
        yield from (
            ((name,), layer.rows.column(name)) for name in _COLUMNS if name in layer.rows.schema.names
        )


def _makes_objects(state: State, layer: object) -> bool:
    """Return whether a layer sets fields of objects that may be NULL: an object with this field and no other is made then."""
    may_be_null = 2 if _MAP_KEY in state.schema.names else 3
    return isinstance(layer, UpdatedRows) and any(len(path) >= may_be_null for path in layer.paths)


def _serializer(state: State, column: str) -> Serializer | None:
    return getattr(state.entry, column, None) if column in _COLUMNS else None


def _stored(state: State) -> set[NullField]:
    """Return the fields that have NULL in the first values of the state."""
    columns = [name for name in _COLUMNS if name in state.schema.names]
    found: set[NullField] = set()
    rows = 0
    for batch in state.read(columns):
        for name in columns:
            serializer = _serializer(state, name)
            if serializer is not None:
                found.update(null_fields(serializer, (), batch.column(name)))
        rows += batch.num_rows
        if rows >= _FIRST_ROWS:
            break
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class StateTypes:
    """The types of a state before and after a script.

    Attributes:
        table: the name of its table.
        before, after: the trees of its types.
        changes: what ALTER did to them.
    """

    table: str
    before: tuple[Serializer, ...]
    after: tuple[Serializer, ...]
    changes: tuple[TypeChange, ...] = ()


def check_shared_classes(states: Iterable[StateTypes]) -> None:
    """Check that no state keeps a field as another state no longer has it.

    Raises:
        InvalidQueryError: one does.
    """
    known = list(states)
    for altered in known:
        now = dict(_classes(altered.after))
        renamed = {change.path[-1] for change in altered.changes if isinstance(change, RenamedField)}
        for name, old in _classes(altered.before):
            for one, kind in old.items():
                new = now.get(name, {}).get(one)
                if name in now and (one in renamed if new is None else new != kind):
                    _check_gone(name, one, kind, altered, known)


def check_created_classes(created: Sequence[StateTypes], kept: Iterable[StateTypes]) -> None:
    """Check that new states have the fields of a class in the types that all other states have them in.

    Raises:
        InvalidQueryError: one has another type.
    """
    if not any(True for one in created for _ in _classes(one.after)):
        return
    known = [(one.table, *owned) for one in itertools.chain(kept, created) for owned in _classes(one.after)]
    for one in created:
        for name, fields in _classes(one.after):
            for table, owner, others in known:
                wrong = [
                    field
                    for field, kind in fields.items()
                    if owner == name and others.get(field, kind) != kind
                ]
                if wrong:
                    raise errors.InvalidQueryError(
                        f"the field {wrong[0]} of {name} is {fields[wrong[0]]} in {one.table}, and {others[wrong[0]]} in {table}: "
                        "the job has one class for both, so Flink would refuse the restore",
                        hint="give the field one type in both",
                    )


def _check_gone(name: str, field: str, kind: str, altered: StateTypes, known: Iterable[StateTypes]) -> None:
    left = [
        one.table
        for one in known
        if any(owner == name and fields.get(field) == kind for owner, fields in _classes(one.after))
    ]
    if left:
        raise errors.InvalidQueryError(
            f"the field {field} of {name} changes in {altered.table}, and stays as it was in {', '.join(left)}: the job has one class "
            "for all of them, so Flink would refuse the restore, or lose the field",
            hint="alter all of these states in one script",
        )


def _classes(trees: Iterable[Serializer]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each POJO class in type trees, with the types of its fields."""
    for tree in trees:
        if isinstance(tree, PojoSerializer):
            yield tree.pojo_class, {field.name: field.serializer.type_name for field in tree.fields}
        yield from _classes(child for _, child in tree.children)
