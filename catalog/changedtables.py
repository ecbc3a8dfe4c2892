"""Tables that statements change: with the places of their rows, and with the changes of earlier statements.

| table | its rows |
|---|---|
| `ChangedTable` | those of a table of states, after the changes of a script |
| the same, numbered | … with `_state`, `_group` and `_row`, by which a writer finds them again (`writers.StateChanges`) |

Places count in whole key groups, so that a scan reads key groups whole, whatever keys it wants, and no cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from catalog.references import SavepointReference, StateReference
from catalog.scan import (
    ANYTHING,
    CachedSplit,
    DerivedSplit,
    Output,
    Predicate,
    Scan,
    ScanCounter,
    Split,
    StateSplit,
)
from catalog.statetables import StatesTable, StateTable, TableState
from catalog.table import Table
from catalog.views import ViewTable, WideTable
from readers import KEY_GROUP, OUT_OF_RANGE, ROW, SUBTASK, UNDECODED, Selection, State, StatePart, is_keyed
from writers import GROUP, GroupChanges, StateChanges

StateKey = tuple[str, int]
"""A state of a savepoint: the id of its operator, and its number among the operator's states."""

STATE = "_state"
"""The column of a numbered table that says which of its states a row is of: `WritableState.number`."""

_PLACES = (pa.field(STATE, pa.int32()), pa.field(GROUP, pa.int32()), pa.field(ROW, pa.int64()))
# Places of rows and facts about entries are what they are; the status of a value follows from the value.
_READ_ONLY = frozenset({KEY_GROUP, SUBTASK, UNDECODED, OUT_OF_RANGE, "list_index"})


@dataclass(frozen=True, kw_only=True, eq=False)
class TableChanges:
    """What the statements so far have changed in the states of a savepoint.

    Attributes:
        changes: of each state with changed rows.
        emptied: states that have no rows of the savepoint any more; what `changes` adds they have.
    """

    changes: Mapping[StateKey, StateChanges] = field(default_factory=dict)
    emptied: frozenset[StateKey] = frozenset()

    def without(self, states: Iterable[StateKey]) -> TableChanges:
        """Return the changes with some more states that have no rows at all."""
        gone = frozenset(states)
        kept = {key: one for key, one in self.changes.items() if key not in gone}
        return TableChanges(changes=kept, emptied=self.emptied | gone)

    def touches(self, table: StatesTable | WideTable) -> bool:
        """Return whether rows of a table may be others."""
        keys = {state_key(known) for known in table.states}
        return not keys.isdisjoint(self.changes) or not keys.isdisjoint(self.emptied)


def state_key(known: TableState) -> StateKey:
    """Return the key of a table's state."""
    return known.state.operator_id, known.number


@dataclass(eq=False)
class ChangedTable(Table):
    """A table of states with the changes of a script.

    Attributes:
        origin: the table as it is in the savepoint.
        changes: of the script.
        is_numbered: whether it has the columns `_state`, `_group` and `_row`.
        groups: the groups that it has the rows of; None for all.
    """

    origin: StatesTable
    changes: TableChanges
    is_numbered: bool = field(default=False, kw_only=True)
    groups: frozenset[int] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        self.name, self.comment, self._states = self.origin.name, self.origin.comment, self.origin.states
        self._numbers = {state_key(known): number for number, known in enumerate(self._states)}

    @cached_property
    def schema(self) -> pa.Schema:
        own = self.origin.schema
        return pa.schema([*own, *_PLACES]) if self.is_numbered else own

    @cached_property
    def unquoted(self) -> frozenset[str]:
        return self.origin.unquoted

    @cached_property
    def size_bytes(self) -> int:
        return self.origin.size_bytes

    def plan(self, predicate: Predicate = ANYTHING, *, allow_partial: bool = False) -> Scan:
        scan = self.origin.plan(self._pruning(predicate), allow_partial=allow_partial)
        known = {state_key(state): state for state in self._states}
        splits: list[Split] = []
        for split in scan.splits:
            origin = split.origin if isinstance(split, CachedSplit) else split
            assert isinstance(origin, StateSplit)
            key = origin.reference.operator_id, origin.reference.number
            if key in known and key not in self.changes.emptied:
                splits.append(self._split(replace(origin, keys=None), known[key]))
        for state in self._states:
            splits += self._added_splits(state)
        return Scan(schema=self.schema, splits=tuple(splits), unread=scan.unread)

    def _pruning(self, predicate: Predicate) -> Predicate:
        """Return a predicate with `_group` as the column that it counts."""
        for groups in (predicate.of(GROUP), self.groups):
            if groups is not None:
                predicate = predicate.and_(self.group_column, tuple(groups))
        return predicate

    @property
    def group_column(self) -> str:
        """The column of its states that `_group` has the values of."""
        return KEY_GROUP if KEY_GROUP in self._states[0].state.schema.names else SUBTASK

    def _split(self, origin: StateSplit, known: TableState) -> ChangedSplit:
        return ChangedSplit(
            origin=origin,
            columns=tuple(self.schema.names),
            changes=self.changes.changes.get(state_key(known)),
            number=self._numbers[state_key(known)],
            group_column=self.group_column,
            size_bytes=origin.size_bytes,
        )

    def _added_splits(self, known: TableState) -> Iterator[ChangedSplit]:
        """Yield a split of the rows that were added to groups without rows in the savepoint."""
        changes = self.changes.changes.get(state_key(known))
        if changes is None:
            return
        if state_key(known) in self.changes.emptied:
            left = frozenset(changes.groups.tolist())
        else:
            left = frozenset(changes.groups.tolist()) - _groups_of(known)
        if left:
            origin = StateSplit(
                reference=self.origin.reference(known),
                part=_NO_PART,
                outputs=self.origin.outputs(known),
                key_groups=left,
                keys=None,
                size_bytes=0,
                exploded=self.origin.exploded,
            )
            yield self._split(origin, known)


_NO_PART = -1


def _groups_of(known: TableState) -> frozenset[int]:
    """Return the groups of which a scan of the savepoint has splits."""
    found: set[int] = set()
    for part in known.state.parts:
        sizes = part.source.key_group_bytes(part.name)
        found.update([part.source.subtask] if sizes is None else (group for group, _ in sizes))
    return frozenset(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedSplit(DerivedSplit):
    """Some key groups of one part of a state, after the changes of a script; or groups that no part has.

    Attributes:
        origin: the split of the savepoint; its part is -1 for groups that no part has.
        columns: names of the columns of its rows, places among them.
        changes: of the state; None if it has none.
        number: of the state, among those of the table.
        group_column: the column of the state that `_group` has the values of.
        size_bytes: about how many bytes it reads.
    """

    origin: StateSplit
    columns: tuple[str, ...]
    changes: StateChanges | None
    number: int
    group_column: str

    def narrowed(self, columns: Sequence[str]) -> ChangedSplit:
        return replace(self, columns=tuple(columns))

    def read(self, counter: ScanCounter | None = None) -> Iterator[pa.RecordBatch]:
        own = self.origin.narrowed([name for name in self.columns if name not in _PLACE_NAMES])
        for batch in self._rows(own, counter or ScanCounter()):
            yield self._of_table(own, batch)

    def _rows(self, own: StateSplit, counter: ScanCounter) -> Iterator[pa.RecordBatch]:
        """Yield rows of the state after the changes, with `_row` and the column of groups."""
        state = own.reference.state()
        sources = {*own.sources, self.group_column, ROW}
        if self.changes is not None:
            sources |= self.changes.needs(own.sources)
        schema = pa.schema([*(one for one in state.schema if one.name in sources), (ROW, pa.int64())])
        if own.part == _NO_PART:
            assert self.changes is not None
            for group in sorted(own.key_groups or ()):
                yield from self._changed(self.changes.of_group(group), [], schema)
            return
        selection = Selection(key_groups=own.key_groups, account=counter.add)
        state.check(selection)
        batches = state.parts[own.part].read(sources, state.schema, selection)
        if self.changes is None:
            yield from batches
            return
        touched = frozenset(self.changes.groups.tolist())
        # The index of an element depends on others of its list; all other rows change without the rest of their group.
        is_whole = "list_index" in schema.names
        current: GroupChanges | None = None
        held: list[pa.RecordBatch] = []
        seen: set[int] = set()
        for group, rows in _runs(batches, self.group_column):
            if current is not None and group != current.group:
                yield from self._changed(current, held, schema)
                current, held = None, []
            if group not in touched:
                yield rows
                continue
            # A source yields a group in one piece; otherwise the numbers of the rows would begin anew.
            assert current is not None or group not in seen
            seen.add(group)
            current = current or self.changes.of_group(group)
            if is_whole:
                held.append(rows)
            else:
                yield from self._shown(current.changed(pa.Table.from_batches([rows])), group)
        if current is not None:
            yield from self._changed(current, held, schema)
        missing = (
            own.key_groups if own.key_groups is not None else {state.parts[own.part].source.subtask}
        ) & touched
        for group in sorted(missing - seen):
            yield from self._changed(self.changes.of_group(group), [], schema)

    def _changed(
        self, changes: GroupChanges, held: Sequence[pa.RecordBatch], schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a group that are left: those that were held back, after the changes, or those that are added."""
        rows = changes.applied(pa.Table.from_batches(held, None if held else schema))
        yield from self._shown(rows, changes.group)

    def _shown(self, found: pa.Table, group: int) -> Iterator[pa.RecordBatch]:
        if SUBTASK in found.schema.names and found.num_rows:
            index = found.schema.get_field_index(SUBTASK)
            found = found.set_column(
                index, found.schema.field(index), self._subtasks(found.column(index), group)
            )
        yield from found.combine_chunks().to_batches()

    def _subtasks(self, known: pa.ChunkedArray, group: int) -> pa.ChunkedArray:
        """Return the column of subtasks with those of added rows: of the part that has the group."""
        if not known.null_count:
            return known
        subtask = group if self.group_column == SUBTASK else _subtask_of(self.origin.reference, group)
        return known if subtask is None else pc.fill_null(known, pa.scalar(subtask, known.type))

    def _of_table(self, own: StateSplit, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows of the table, with the wanted columns in order."""
        found = own.rows_of_table(rows)
        if not own.outputs:
            found = pa.RecordBatch.from_struct_array(pa.array([{}] * rows.num_rows, pa.struct([])))
        places = {
            STATE: pa.repeat(pa.scalar(self.number, pa.int32()), rows.num_rows),
            GROUP: rows.column(self.group_column),
            ROW: rows.column(ROW),
        }
        arrays = [places[name] if name in places else found.column(name) for name in self.columns]
        return pa.RecordBatch.from_arrays(arrays, self.columns) if arrays else found


_PLACE_NAMES = frozenset({STATE, GROUP, ROW})


def _subtask_of(reference: StateReference, group: int) -> int | None:
    """Return the subtask whose key groups have this one; None if no part has it."""
    for part in reference.state().parts:
        own = part.source.key_group_range
        if own is not None and own.start <= group <= own.end:
            return int(part.source.subtask)
    return None


def _runs(batches: Iterable[pa.RecordBatch], column: str) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield neighbours of the same group together, with their group."""
    for batch in batches:
        groups = np.asarray(batch.column(column))
        begins = np.flatnonzero(np.append(True, groups[1:] != groups[:-1])[: len(groups)]).tolist()
        for start, end in zip(begins, [*begins[1:], len(groups)], strict=True):
            yield int(groups[start]), batch.slice(start, end - start)


@dataclass(frozen=True, slots=True, kw_only=True)
class WritableState:
    """One state whose rows a statement about a table may change.

    Attributes:
        known: the state.
        number: of the state, among those of the table.
        table: the rows of all states of the table, numbered, as the statements so far have left them.
        rows: those of the state, in its columns.
        paths: name of a column of the table → the column of the state that it shows, and the fields that lead to its value.
            Columns that are not among them are computed.
    """

    known: TableState
    number: int
    table: ChangedTable
    rows: ChangedTable
    paths: Mapping[str, tuple[str, ...]]

    @property
    def key(self) -> StateKey:
        """The key of the state."""
        return state_key(self.known)

    @property
    def state(self) -> State:
        """The state."""
        return self.known.state

    def rows_at(self, group: int, numbers: pa.Array | pa.ChunkedArray) -> pa.Table:
        """Return rows of a group by their numbers, in the columns of the state, with `_group` and `_row`."""
        wanted = pc.field(ROW).isin(numbers) & (pc.field(GROUP) == group)
        return self.rows.plan(ANYTHING.and_(GROUP, (group,))).narrowed(expression=wanted).to_arrow()


def writable_states_of(table: StatesTable, changes: TableChanges) -> tuple[WritableState, ...]:
    """Return the states that statements about a table may change; none if the table cannot be changed."""
    if isinstance(table, ViewTable) and table.exploded:
        return ()
    numbered = ChangedTable(table, changes, is_numbered=True)
    return tuple(
        WritableState(
            known=known,
            number=number,
            table=numbered,
            rows=changed_rows(table, known, changes),
            paths=_paths(table, known),
        )
        for number, known in enumerate(table.states)
    )


def changed_rows(table: StatesTable, known: TableState, changes: TableChanges) -> ChangedTable:
    """Return the rows of one state of a table, in the columns of the state, numbered."""
    own = StateTable(table.name, table.comment, table.savepoint, lambda: (known,))
    return ChangedTable(own, changes, is_numbered=True)


def changed_state(
    known: TableState, savepoint: SavepointReference, changes: TableChanges, groups: frozenset[int] | None
) -> ChangedTable:
    """Return the rows of a state after the changes, in some groups or in all."""
    own = StateTable(known.state.name, "", savepoint, lambda: (known,))
    return ChangedTable(own, changes, groups=groups)


class StateRows(Table):
    """The rows of an open state, in some groups or in all; its splits stay in this process.

    Args:
        state: the state.
        groups: key groups, or subtasks of operator state; None for all.
    """

    comment = ""

    def __init__(self, state: State, groups: frozenset[int] | None) -> None:
        self.name, self.schema = state.name, state.schema
        self._state, self._groups = state, groups

    @property
    def size_bytes(self) -> int:
        return self._state.size_bytes

    def plan(self, predicate: Predicate = ANYTHING, *, allow_partial: bool = False) -> Scan:
        self._state.check(Selection(key_groups=self._groups))
        parts = self._state.parts
        if not is_keyed(self._state.kind) and self._groups is not None:
            parts = tuple(part for part in parts if part.source.subtask in self._groups)
        splits = tuple(
            _OpenSplit(
                part, self.schema, tuple(self.schema.names), self._groups, part.source.cost_bytes(part.name)
            )
            for part in parts
        )
        return Scan(schema=self.schema, splits=splits)


@dataclass(frozen=True, slots=True)
class _OpenSplit(Split):
    """Some key groups of one part of an open state."""

    part: StatePart
    schema: pa.Schema
    columns: tuple[str, ...]
    groups: frozenset[int] | None
    size_bytes: int

    def narrowed(self, columns: Sequence[str]) -> _OpenSplit:
        return replace(self, columns=tuple(columns))

    def read(self, counter: ScanCounter | None = None) -> Iterator[pa.RecordBatch]:
        keyed = self.groups if KEY_GROUP in self.schema.names else None
        selection = Selection(key_groups=keyed, account=(counter or ScanCounter()).add)
        for batch in self.part.read(self.columns, self.schema, selection):
            yield batch.select(self.columns) if self.columns else batch


def _paths(table: StatesTable, known: TableState) -> dict[str, tuple[str, ...]]:
    """Return what the columns of a table show of a state, without those that are computed."""
    own = known.state.schema
    return {
        output.name: (output.source, *output.path)
        for output in table.outputs(known)
        if output.source is not None and output.source not in _READ_ONLY and _shows(output, own)
    }


def _shows(output: Output, schema: pa.Schema) -> bool:
    """Return whether a column shows a value as it is: in its own type."""
    kind = schema.field(output.source).type
    for name in output.path:
        kind = kind.field(name).type
    return bool(kind.equals(output.type))
