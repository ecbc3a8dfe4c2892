"""Values that change and entries that go: the new savepoint has the rows that the changes make of those of the source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from readers import (
    KEY_GROUP,
    ROW,
    Savepoint,
    SavepointLocation,
    Selection,
    State,
    StateKind,
    is_keyed,
    json_text,
)
from tests.support.paths import DATA
from writers import (
    GROUP,
    RemovedRows,
    RewriteKeyedState,
    SavepointWriter,
    StateChanges,
    UpdatedRows,
)

FLINK = DATA / "flink/2.3.0"
SOURCES = (
    "wordcount-hashmap-savepoints/canonical",
    "wordcount-rocksdb-savepoints/native",
    "wordcount-rocksdb-checkpoint-incremental/checkpoint/chk-2",
    "everything-hashmap-savepoints/canonical",
    "wordcount-hashmap-savepoints/native",
    "everything-hashmap-savepoints/native",
    "everything-rocksdb-savepoints/native",
)
NOW_MS = 1_800_000_000_000


def numbered(state: State) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each key group of a state, with their numbers."""
    names = [*state.schema.names, ROW]
    tables = [
        pa.Table.from_batches([batch])
        for part in state.parts
        for batch in part.read(names, state.schema, Selection())
    ]
    if tables:
        rows = pa.concat_tables(tables)
        for group in sorted(set(rows.column(KEY_GROUP).to_pylist())):
            yield group, rows.filter(pa.compute.equal(rows.column(KEY_GROUP), group)).sort_by(ROW)


def lines(rows: pa.Table) -> Counter[str]:
    shown = rows.drop_columns([ROW]) if ROW in rows.schema.names else rows
    return Counter(
        text for batch in shown.to_batches() for text in json_text(batch.to_struct_array()).to_pylist()
    )


def rotated(state: State) -> StateChanges:
    """Every third row of a key group is removed; the others have the value of the next row."""
    column = "timestamp" if state.kind is StateKind.TIMER else "value"
    removed, updated = [], []
    for group, rows in numbered(state):
        numbers = rows.column(ROW).to_pylist()
        gone = [number for number in numbers if number % 3 == 2]
        values = rows.column(column).combine_chunks().take(pa.array([*range(1, len(rows)), 0]))
        # NULL stands for an object whose class is not described; no value can be set to it.
        kept = [
            number
            for number, valid in zip(numbers, values.is_valid().to_pylist(), strict=True)
            if number % 3 != 2 and valid
        ]
        removed.append(
            pa.table({GROUP: pa.array([group] * len(gone), pa.int32()), ROW: pa.array(gone, pa.int64())})
        )
        updated.append(
            pa.table(
                {
                    GROUP: pa.array([group] * len(kept), pa.int32()),
                    ROW: pa.array(kept, pa.int64()),
                    "0": values.take(pa.array([numbers.index(one) for one in kept], pa.int64())),
                }
            )
        )
    layers = (
        UpdatedRows(pa.concat_tables(updated), ((column,),)),
        RemovedRows(pa.concat_tables(removed)),
    )
    return StateChanges(layers=layers, now_ms=NOW_MS)


def changeable(savepoint: Savepoint) -> Iterator[tuple[State, StateChanges]]:
    for operator in savepoint.operators:
        for state in operator.states:
            if is_keyed(state.kind) and state.kind is not StateKind.LIST and any(numbered(state)):
                yield state, rotated(state)


def state_of(savepoint: Savepoint, state: State) -> State:
    return next(
        one
        for operator in savepoint.operators
        if operator.operator_id == state.operator_id
        for one in operator.states
        if (one.name, one.kind) == (state.name, state.kind)
    )


@pytest.mark.parametrize(
    "name",
    [pytest.param(one, marks=pytest.mark.slow if "everything" in one else ()) for one in SOURCES],
)
def test_rows_are_those_that_the_changes_make(name: str, tmp_path: Path) -> None:
    savepoint = Savepoint(FLINK / name)
    changed = list(changeable(savepoint))
    edits = [
        RewriteKeyedState(
            operator=operator,
            changes={
                state.parts[0].name: changes
                for state, changes in changed
                if state.operator_id == operator.operator_id
            },
        )
        for operator in savepoint.operators
        if any(state.operator_id == operator.operator_id for state, _ in changed)
    ]

    SavepointWriter(SavepointLocation(FLINK / name), edits).write(tmp_path / "new")

    new = Savepoint(tmp_path / "new")
    for state, changes in changed:
        before = dict(numbered(state))
        expected = sum((lines(changes.applied(group, rows)) for group, rows in before.items()), Counter())
        found = sum((lines(rows) for _, rows in numbered(state_of(new, state))), Counter())
        assert found == expected, state.name
