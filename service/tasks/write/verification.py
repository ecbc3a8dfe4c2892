"""Reads changed states of a new savepoint back: the rows of every key group that was touched are those of the script.

The rows are counted and hashed by DuckDB, on both sides: the source with the changes, and the new savepoint.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from catalog import Table
from catalog.changedtables import StateRows, TableChanges, changed_state
from catalog.statetables import TableState
from readers import KEY_GROUP, SUBTASK, Savepoint, TtlSerializer
from service.query.sql.edits import quoted
from service.tasks.write.changes import ScriptContext
from service.tasks.write.composition import Composition
from writers import UnwritableError, comparable_numbers

_ROWS = "_rows"


def verify_states(context: ScriptContext, savepoint: Savepoint) -> None:
    """Check the states that statements changed rows of.

    Raises:
        UnwritableError: a row is another one.
    """
    changes = context.states.table_changes
    new = {operator.operator_id: operator for operator in savepoint.operators}
    for (operator_id, number), changed in changes.changes.items():
        now = context.operator_ids.get(operator_id)
        # Values of other types cannot be compared, and a dropped operator has none.
        if now is None or (operator_id, number) in context.states.retyped:
            continue
        known = _in_source(context, operator_id, number)
        state = known.state
        name = context.states.names.get((operator_id, number), state.name)
        written = [one for one in new[now].states if (one.name, one.kind) == (name, state.kind)]
        groups: frozenset[int] | None = frozenset(changed.groups.tolist())
        skipped = {SUBTASK}
        if written and written[0].max_parallelism != state.max_parallelism:
            # Keys are in other groups now.
            groups = None
            skipped.add(KEY_GROUP)
        columns = [
            one.name for one in state.schema if one.name not in skipped and not pa.types.is_null(one.type)
        ]
        rows = changed_state(known, context.database.reference, changes, groups)
        read = StateRows(written[0], groups) if written else None
        expected = _summary(context, rows, columns)
        found = _summary(context, read, columns) if read else (0, 0)
        if expected != found and read is not None:
            # A number of any length has many texts: that of the script may be another than the reader's.
            expected, found = (
                _summary(context, _comparable(context, table, known, columns), columns)
                for table in (rows, read)
            )
        if expected != found:
            raise UnwritableError(_difference(known, expected, found))


def rows_differ(context: ScriptContext) -> bool:
    """Return whether a row of the states that statements changed is another one than in the source."""
    changes = context.states.table_changes
    for (operator_id, number), changed in changes.changes.items():
        known = _in_source(context, operator_id, number)
        columns = [one.name for one in known.state.schema if not pa.types.is_null(one.type)]
        groups = frozenset(changed.groups.tolist())
        before, after = (
            _summary(context, changed_state(known, context.database.reference, one, groups), columns)
            for one in (TableChanges(), changes)
        )
        if before != after:
            return True
    return False


def _in_source(context: ScriptContext, operator_id: str, number: int) -> TableState:
    operator = context.in_source(operator_id)
    return TableState(operator.states[number], number, operator.metadata.uid)


def _comparable(context: ScriptContext, table: Table, known: TableState, columns: Sequence[str]) -> Table:
    """Return some columns of the rows of a state, with one text for each number of any length."""
    entry = known.state.entry
    assert entry is not None
    value = entry.value.value if isinstance(entry.value, TtlSerializer) else entry.value
    types = {"key": entry.key, "namespace": entry.namespace, "map_key": entry.map_key, "value": value}

    def compared(batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [
            array if (serializer := types.get(name)) is None else comparable_numbers(serializer, array)
            for name, array in zip(columns, batch.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, names=list(columns))

    select = Composition(f"SELECT {', '.join(map(quoted, columns))} FROM {_ROWS}")
    with context.select(select, {_ROWS: table}) as reader:
        batches = pa.RecordBatchReader.from_batches(reader.schema, map(compared, reader))
        return context.states.stored(batches, columns)


def _summary(context: ScriptContext, table: Table, columns: Sequence[str]) -> tuple[int, int]:
    """Return the number of rows, and the sum of their hashes."""
    listed = ", ".join(map(quoted, columns))
    select = Composition(f"SELECT count(*), coalesce(sum(hash({listed})::HUGEINT), 0) FROM {_ROWS}")
    (count,), (hashes,) = (column.to_pylist() for column in context.read(select, {_ROWS: table}).columns)
    return int(count), int(hashes)


def _difference(known: TableState, expected: tuple[int, int], found: tuple[int, int]) -> str:
    state = f"the state {known.state.name} of operator {known.operator_uid or known.state.operator_id}"
    if expected[0] != found[0]:
        return (
            f"expected {expected[0]} rows of {state} in the key groups of the script, read {found[0]} back; "
            "nothing was written"
        )
    return f"expected the rows of the script in {state}, read others back; nothing was written"
