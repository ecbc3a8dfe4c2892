"""What the classes of a job forbid, and no savepoint says.

NULL in fields of POJOs that may be primitive in Java: a savepoint does not say whether a field is an `int` or an `Integer`. A NULL that
the state has already shows that it is an object; the jars of the job say which it is. Where neither tells, the script is written, with a
warning: Flink refuses a NULL for an `int`, and the whole restore with it.

A class that several states have: ALTER changes one state, and the job has one class for all of them. Flink compares the fields in a
savepoint with those of the class by their names. A field that has another type in the class is refused with the whole restore; one that
has another name in the class is lost without a word. A field that is added or goes is no matter: Flink fills it, or leaves it out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from readers import PojoSerializer, Savepoint, Serializer, State
from service.base.errors import InvalidQueryError, InvalidValueError
from service.tasks.write.changes import ChangedStates
from writers import AddedRows, NullField, RenamedField, RestoreWarning, TypeChange, UpdatedRows, null_fields

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
            for field, kind in old.items():
                new = now.get(name, {}).get(field)
                if name in now and (field in renamed if new is None else new != kind):
                    _check_gone(name, field, kind, altered, known)


def _check_gone(name: str, field: str, kind: str, altered: StateTypes, known: Iterable[StateTypes]) -> None:
    left = [
        one.table
        for one in known
        if any(owner == name and fields.get(field) == kind for owner, fields in _classes(one.after))
    ]
    if left:
        raise InvalidQueryError(
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
