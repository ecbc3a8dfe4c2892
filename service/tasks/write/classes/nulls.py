"""NULL in fields of POJOs that may be primitive in Java, in the rows that a script writes.

A savepoint does not say whether a field is an `int` or an `Integer`. A NULL that the state has already shows that it is an object; the
jars of the job say which it is. Where neither tells, the script is written, with a warning: Flink refuses a NULL for an `int`, and the
whole restore with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from readers import Savepoint, Serializer, State
from service.base.errors import InvalidValueError
from service.tasks.write.changedstates import ChangedStates
from writers import AddedRows, NullField, RestoreWarning, UpdatedRows, null_fields

_COLUMNS = ("value", "map_key")
_FIRST_ROWS = 10_000


def null_warnings(changed: ChangedStates, savepoint: Savepoint) -> Iterator[RestoreWarning]:
    """Yield the states that get NULL in fields which may be primitive.

    Raises:
        InvalidValueError: a jar says that such a field is primitive.
        ReaderError: the state cannot be read.
    """
    operators = {operator.operator_id: operator for operator in savepoint.operators}
    for (operator_id, number), changes in changed.table_changes.changes.items():
        state = operators[operator_id].states[number]
        found = {
            field
            for layer in changes.layers
            for path, column in _set_columns(layer)
            if (serializer := _serializer(state, path[0])) is not None
            for array in column.chunks
            for field in null_fields(serializer, path[1:], array)
        }
        yield from field_warnings(state.name, found - _stored(state) if found else found, savepoint)


def field_warnings(state: str, fields: Iterable[NullField], savepoint: Savepoint) -> Iterator[RestoreWarning]:
    """Yield a warning of each field that nothing shows to be an object.

    Raises:
        InvalidValueError: a jar says that it is primitive.
    """
    for field in sorted(fields, key=str):
        jars = savepoint.jars
        is_primitive = None if jars is None else jars.is_primitive(field.java_class, field.name)
        if is_primitive:
            raise InvalidValueError(
                f"{state}: expected a value for {field}, which is primitive in the jar, found NULL",
                hint="set a value; Flink refuses the whole restore otherwise",
            )
        if is_primitive is None:
            yield RestoreWarning(
                state=state,
                text=f"{field} gets NULL: if the field is primitive in Java (int, not Integer), Flink refuses the restore; a jar of "
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
