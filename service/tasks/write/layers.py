"""The rows of layers: values in the types of the state, and the places of rows that are added."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from catalog.changedtables import WritableState
from readers import KEY_GROUP, OUT_OF_RANGE, ROW, SUBTASK, UNDECODED, State, VoidNamespaceSerializer, is_keyed
from service.base.errors import InvalidQueryError
from service.tasks.write.changes import ScriptContext
from service.tasks.write.composition import SOURCE, TARGET, Composition, before_name
from service.tasks.write.samples import place_text
from writers import GROUP, AddedRows, UnencodableValueError, differing, fitted, key_groups_of

MOVED = "moved"
"""Whether a changed row gets another key, namespace or map key."""
IDENTITY = frozenset({"key", "namespace", "map_key"})
"""Columns that tell a row from others."""
_INDEX = "list_index"
OPTIONAL = frozenset({"list_index", "ttl_timestamp", SUBTASK})
"""Columns that an added row may lack."""


def check_not_assumed(table: str, state: State) -> None:
    """Refuse to change a state whose values jars describe: these may be of another version of the job.

    Raises:
        InvalidQueryError: they do.
    """
    if any(part.entry.is_assumed for part in state.parts):
        raise InvalidQueryError(
            f"{table} cannot be changed while the classes of jars say how its values are laid out",
            hint="leave the jars out: what the savepoint does not describe is bytes then",
        )


def insertable(state: State) -> list[str]:
    """Return the columns that an added row may have, in order; those that it must have come first."""
    hidden = {KEY_GROUP, UNDECODED, OUT_OF_RANGE}
    if is_keyed(state.kind):
        hidden.add(SUBTASK)
    if state.entry is not None and isinstance(state.entry.namespace, VoidNamespaceSerializer):
        hidden.add("namespace")
    names = [name for name in state.schema.names if name not in hidden]
    order = ["key", "namespace", "map_key", "value"]
    return sorted(
        names, key=lambda name: (name in OPTIONAL, order.index(name) if name in order else len(order))
    )


def added_schema(state: State) -> pa.Schema:
    """Return the columns of added rows: their places, then those that they may have."""
    names = insertable(state)
    columns = [state.schema.field(name) for name in names]
    return pa.schema([(GROUP, pa.int32()), (ROW, pa.int64()), *columns])


def placed_rows(
    reader: pa.RecordBatchReader, state: State, names: Sequence[str], first: int
) -> pa.RecordBatchReader:
    """Return new rows with places: in the groups of their keys, numbered from `first` on.

    Reading them raises an UnencodableValueError for a value that does not fit, which names the row by its key.
    """
    columns = [state.schema.field(name) for name in names]
    schema = pa.schema([(GROUP, pa.int32()), (ROW, pa.int64()), *columns])

    def placed() -> Iterator[pa.RecordBatch]:
        number = first
        for batch in reader:
            with _named(partial(_row, pa.table(batch.columns, names))):
                arrays = {
                    column.name: _fitted(array, column.type, (column.name,))
                    for column, array in zip(columns, batch.columns, strict=True)
                }
            places = places_of_added(state, arrays, batch.num_rows, number)
            number += batch.num_rows
            yield pa.RecordBatch.from_arrays([*places.values(), *arrays.values()], schema=schema)

    return pa.RecordBatchReader.from_batches(schema, placed())


def check_indexes(context: ScriptContext, writable: WritableState, layer: AddedRows) -> None:
    """Check that added elements of lists have indexes that their lists have then.

    Raises:
        QueryError: one is negative, or would leave a gap.
    """
    own = [name for name in insertable(writable.state) if name in IDENTITY] or [GROUP]
    listed = ", ".join(own)
    same = " AND ".join(f"n.{name} IS NOT DISTINCT FROM o.{name}" for name in own)
    # Only the groups of the new elements are read.
    groups = ", ".join(map(str, layer.groups.tolist())) or "NULL"
    select = Composition(
        f"SELECT {', '.join(f'n.{name}' for name in own)}, n.{_INDEX}, coalesce(o.length, 0) + n.before "
        f"FROM (SELECT {listed}, {_INDEX}, row_number() OVER (PARTITION BY {listed} ORDER BY {_INDEX}) - 1 AS before "
        f"FROM {SOURCE} WHERE {_INDEX} IS NOT NULL) n "
        f"LEFT JOIN (SELECT {listed}, count(*) AS length FROM {TARGET} WHERE {GROUP} IN ({groups}) GROUP BY ALL) o "
        f"ON {same} WHERE NOT n.{_INDEX} BETWEEN 0 AND coalesce(o.length, 0) + n.before LIMIT 1"
    )
    added = context.states.stored(reader_of(layer.rows), layer.rows.schema.names)
    for row in context.read(select, {TARGET: writable.table, SOURCE: added}).to_pylist():
        *place, index, end = row.items()
        shown = ", ".join(f"{'_subtask' if name == GROUP else name} {value}" for name, value in place)
        raise InvalidQueryError(
            f"{shown}: expected a {_INDEX} from 0 to {end[1]}, the end of the list, found {index[1]}",
            hint=f"leave {_INDEX} out: the element becomes the last one",
        )


def places_of_added(
    state: State, columns: Mapping[str, pa.Array], rows: int, first: int
) -> dict[str, pa.Array]:
    """Return the columns `_group` and `_row` of rows that are added."""
    if is_keyed(state.kind):
        assert state.entry is not None
        assert state.entry.key is not None
        groups = pa.array(key_groups_of(state.entry.key, columns["key"], state.max_parallelism))
    else:
        # Operator state that names no subtask goes to the first one that has the state.
        subtask = state.parts[0].source.subtask
        given = columns.get(SUBTASK, pa.nulls(rows, pa.int32()))
        groups = pc.fill_null(given.cast(pa.int32()), pa.scalar(subtask, pa.int32()))
    return {GROUP: groups, ROW: pa.array(np.arange(first, first + rows, dtype=np.int64))}


def fitted_values(
    reader: pa.RecordBatchReader,
    columns: Sequence[tuple[tuple[str, ...], pa.DataType]],
    row_at: Callable[[int, int], pa.Table],
    compared: Sequence[int] = (),
) -> pa.RecordBatchReader:
    """Return places and new values, in the types of the columns that get them; and in `MOVED` whether compared values are others.

    Reading them raises an UnencodableValueError for a value that does not fit, which names the row by its key.

    Args:
        reader: the places and the new values; the columns of these are named by their numbers.
        columns: the paths and the types of the columns.
        row_at: returns the row at a place, before it changes.
        compared: numbers of columns whose values before are in the reader; without any there is no `MOVED`.
    """
    flag = [(MOVED, pa.bool_())] if compared else []
    schema = pa.schema(
        [
            (GROUP, pa.int32()),
            (ROW, pa.int64()),
            *((str(number), kind) for number, (_, kind) in enumerate(columns)),
            *flag,
        ]
    )

    def values() -> Iterator[pa.RecordBatch]:
        for batch in reader:
            with _named(partial(_row_before, batch, row_at)):
                new = [
                    _fitted(batch.column(str(number)), kind, path)
                    for number, (path, kind) in enumerate(columns)
                ]
                olds = [
                    fitted(batch.column(before_name(number)), columns[number][1], columns[number][0])
                    for number in compared
                ]
            moved = [differing(olds, [new[number] for number in compared])] if compared else []
            places = [batch.column(GROUP), batch.column(ROW)]
            yield pa.RecordBatch.from_arrays([*places, *new, *moved], schema=schema)

    return pa.RecordBatchReader.from_batches(schema, values())


def _fitted(array: pa.Array, kind: pa.DataType, path: tuple[str, ...]) -> pa.Array:
    """Return new values in the type of their column.

    Raises:
        UnencodableValueError: a value does not fit, or is NULL as the key of a map.
    """
    if path == ("map_key",) and array.null_count:
        raise UnencodableValueError(
            "expected a value, found NULL: leave the row out by a WHERE, or give it a value",
            breadcrumbs=path,
            row=pc.index(array.is_null(), True).as_py(),
        )
    return fitted(array, kind, path)


@contextmanager
def _named(row_of: Callable[[int], pa.Table]) -> Iterator[None]:
    """Let an error about the row of a batch name the row by what tells it from others."""
    try:
        yield
    except UnencodableValueError as error:
        place = place_text(row_of(error.row)) if error.row >= 0 else ""
        if not place:
            raise
        raise UnencodableValueError(
            error.message, breadcrumbs=(f"{place}, {'.'.join(error.breadcrumbs)}",)
        ) from error


def _row(rows: pa.Table, row: int) -> pa.Table:
    return rows.slice(row, 1)


def _row_before(places: pa.RecordBatch, row_at: Callable[[int, int], pa.Table], row: int) -> pa.Table:
    return row_at(places.column(GROUP)[row].as_py(), places.column(ROW)[row].as_py())


def reader_of(table: pa.Table) -> pa.RecordBatchReader:
    """Return a reader of the rows of a table."""
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches())


def type_of(schema: pa.Schema, path: Sequence[str]) -> pa.DataType:
    """Return the type of a column, or of the field that a path leads to."""
    kind = schema.field(path[0]).type
    for name in path[1:]:
        kind = kind.field(name).type
    return kind


def shared_group(state: State) -> int | None:
    """Return a key group, or a subtask of operator state, that two parts of a state have; None if each has its own.

    Rows are numbered in the groups of a part: two parts with one group would have the same places.
    """
    seen: set[int] = set()
    for part in state.parts:
        sizes = part.source.key_group_bytes(part.name)
        own = {part.source.subtask} if sizes is None else {group for group, _ in sizes}
        if not seen.isdisjoint(own):
            return min(seen & own)
        seen |= own
    return None


def folded(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that a name is in any case."""
    return next((one for one in known if one.casefold() == name.casefold()), None)
