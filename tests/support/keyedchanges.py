"""Changes of keyed state by places, as statements make them, and the savepoint that has them."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from readers import ROW, Operator, Savepoint, SavepointLocation, State, StateKind, StateName
from writers import (
    GROUP,
    AddedRows,
    RemovedRows,
    RewriteKeyedState,
    SavepointWriter,
    StateChanges,
    UpdatedRows,
    key_groups_of,
)

NOW = datetime.datetime(2026, 1, 2, 3, 4, 5)
_PLACE = pa.schema([(GROUP, pa.int32()), (ROW, pa.int64())])
_MADE = frozenset({"_key_group", "_subtask", "_undecoded", "_out_of_range"})

Row = dict[str, Any]


class KeyedDraft:
    """A savepoint, and changes of one operator's states.

    Args:
        path: the savepoint.
        state: a state of the operator.
    """

    def __init__(self, path: Path, state: str) -> None:
        self._path = path
        self.operator = operator_with(Savepoint(path), state)
        self.changes: dict[StateName, StateChanges] = {}

    def state(self, name: str) -> State:
        """A state of the operator."""
        return next(state for state in self.operator.states if state.name == name)

    def update(self, name: str, where: Callable[[Row], bool], **values: Callable[[Row], Any] | Any) -> None:
        """Set columns, `value__field` a part of one, in the rows that are chosen; values may be functions of the row."""
        state = self.state(name)
        paths = [tuple(path.split("__")) for path in values]
        chosen = [row for row in numbered_rows(state) if where(row)]
        columns = [
            pa.array([value(row) if callable(value) else value for row in chosen], _type(state, path))
            for path, value in zip(paths, values.values(), strict=True)
        ]
        schema = pa.schema([*_PLACE, *((str(number), column.type) for number, column in enumerate(columns))])
        rows = pa.table([*_places(chosen), *columns], schema=schema)
        self._add(name, UpdatedRows(rows, tuple(paths)))

    def remove(self, name: str, where: Callable[[Row], bool]) -> None:
        """Remove the rows that are chosen."""
        chosen = [row for row in numbered_rows(self.state(name)) if where(row)]
        self._add(name, RemovedRows(pa.table(_places(chosen), schema=_PLACE)))

    def insert(self, name: str, *rows: Row) -> None:
        """Add rows."""
        state = self.state(name)
        assert state.entry is not None
        assert state.entry.key is not None
        fields = [field for field in state.schema if any(field.name in row for row in rows)]
        columns = [pa.array([row.get(field.name) for row in rows], field.type) for field in fields]
        keys = pa.array([row["key"] for row in rows], state.schema.field("key").type)
        groups = key_groups_of(state.entry.key, keys, state.max_parallelism)
        first = self._of(name).next_added
        numbers = pa.array(range(first, first + len(rows)), pa.int64())
        schema = pa.schema([*_PLACE, *fields])
        self._add(name, AddedRows(pa.table([pa.array(groups), numbers, *columns], schema=schema)))

    def writer(self) -> SavepointWriter:
        """The writer of the changes."""
        edit = RewriteKeyedState(operator=self.operator, changes=self.changes)
        return SavepointWriter(SavepointLocation(self._path), [edit])

    def write(self, target: Path) -> KeyedDraft:
        """Write the savepoint with the changes; return a draft of it."""
        writer = self.writer()
        expected = writer.summary
        assert writer.write(target) == expected
        return KeyedDraft(target, self.operator.states[0].name)

    def rows(self, name: str, *columns: str) -> list[tuple[Any, ...]]:
        """The rows of a state, sorted; all columns but those that are made, or some."""
        names = columns or tuple(column for column in self.state(name).schema.names if column not in _MADE)
        found = [tuple(row[column] for column in names) for row in numbered_rows(self.state(name))]
        return sorted(found, key=repr)

    def everything(self) -> dict[str, list[tuple[Any, ...]]]:
        """The rows of all states."""
        return {state.name: self.rows(state.name) for state in self.operator.states}

    def _add(self, name: str, layer: UpdatedRows | RemovedRows | AddedRows) -> None:
        state = self.state(name)
        key = StateName(name=name, timers=state.kind is StateKind.TIMER)
        self.changes[key] = self._of(name).followed_by(layer)

    def _of(self, name: str) -> StateChanges:
        now_ms = int(NOW.replace(tzinfo=datetime.UTC).timestamp() * 1000)
        known: Mapping[str, StateChanges] = {key.name: value for key, value in self.changes.items()}
        return known.get(name, StateChanges(now_ms=now_ms))


def operator_with(savepoint: Savepoint, state: str) -> Operator:
    """The operator that has a state."""
    return next(
        operator for operator in savepoint.operators if any(one.name == state for one in operator.states)
    )


def numbered_rows(state: State) -> Iterator[Row]:
    """The rows of a state, with their numbers."""
    for batch in state.read([ROW, *state.schema.names]):
        yield from batch.to_pylist()


def _places(rows: list[Row]) -> list[pa.Array]:
    return [
        pa.array([row["_key_group"] for row in rows], pa.int32()),
        pa.array([row[ROW] for row in rows], pa.int64()),
    ]


def _type(state: State, path: tuple[str, ...]) -> pa.DataType:
    kind = state.schema.field(path[0]).type
    for step in path[1:]:
        kind = kind.field(step).type
    return kind
