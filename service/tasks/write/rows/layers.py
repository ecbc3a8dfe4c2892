"""The rows that a statement changes: their values in the types of the state, and the places of those that are added.

Some of them are shown, before and after, as texts for people; and what is near where a statement finds none.

`timers` shows the timers of all operators, so a new row says whose it is: `operator_id` or `operator_uid`, `timer_service` and
`time_domain`. Where keys or namespaces have several types they are shown as JSON text, and read from it.

Changed states of a new savepoint are read back: the rows of every key group that was touched are those of the script. They are counted
and hashed by DuckDB, on both sides: the source with the changes, and the new savepoint.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
from sqlglot import exp

from catalog import Table
from catalog.changedtables import STATE, StateRows, TableChanges, WritableState, changed_state
from catalog.errors import near_names
from catalog.statetables import TableState, TimersTable
from readers import (
    KEY_GROUP,
    OUT_OF_RANGE,
    ROW,
    SUBTASK,
    UNDECODED,
    Savepoint,
    State,
    TtlSerializer,
    VoidNamespaceSerializer,
    is_keyed,
    json_text,
    operator_id_of,
)
from service.base.errors import InvalidQueryError, NothingChangesError, QueryError
from service.query.sql.text import parsed, quoted, text_constant
from service.tasks.write.changes import (
    ALLOW_EMPTY,
    SOURCE,
    TARGET,
    Composition,
    Sample,
    ScriptContext,
    before_name,
)
from service.tasks.write.statements.parser import Statement
from service.tasks.write.statements.script import Insert, Merge
from writers import (
    GROUP,
    AddedRows,
    RemovedRows,
    StateChanges,
    UnencodableValueError,
    UnwritableError,
    UpdatedRows,
    comparable,
    differing,
    fitted,
    key_groups_of,
)

MOST_SAMPLES = 10
_MOST_CHARACTERS = 200
_MOST_NEAR = 3
_LOOKED_AT = 10_000
_PLACES = ("key", "namespace", "map_key", "list_index", "timestamp")
_HIDDEN = frozenset({STATE, GROUP, ROW, KEY_GROUP, SUBTASK, UNDECODED, OUT_OF_RANGE, "ttl_timestamp"})
Layer = UpdatedRows | RemovedRows | AddedRows


def samples_of(writable: WritableState, layers: Sequence[Layer], now_ms: int) -> list[Sample]:
    """Return samples of the rows of the layers of one statement.

    Args:
        writable: the state, before the statement.
        layers: of the statement.
        now_ms: the time of the write.
    """
    found: list[Sample] = []
    for layer in layers:
        if len(found) < MOST_SAMPLES:
            found += _samples(writable, layer, now_ms)
    return found[:MOST_SAMPLES]


def _samples(writable: WritableState, layer: Layer, now_ms: int) -> Iterator[Sample]:
    first = layer.rows.slice(0, MOST_SAMPLES)
    if isinstance(layer, AddedRows):
        for place, row in zip(_placed(first), _values(first), strict=True):
            yield Sample(place=place, before=None, after=row)
        return
    for group in dict.fromkeys(first.column(GROUP).to_pylist()):
        numbers = first.filter(pc.equal(first.column(GROUP), group)).column(ROW)
        before = writable.rows_at(group, numbers)
        if isinstance(layer, RemovedRows):
            for place, row in zip(_placed(before), _values(before), strict=True):
                yield Sample(place=place, before=row, after=None)
            continue
        after = StateChanges(layers=(layer,), now_ms=now_ms).applied(group, before)
        place_rows = _placed(before, [path[0] for path in layer.paths])
        for place, old, new in zip(
            place_rows, _parts(before, layer.paths), _parts(after, layer.paths), strict=True
        ):
            yield Sample(place=place, before=old, after=new)


def check_found(
    context: ScriptContext,
    statement: Statement,
    rows: int,
    name: str,
    tables: Mapping[str, Table] | None = None,
) -> None:
    """Refuse a statement that finds nothing to change: its conditions may have a typing error.

    Args:
        context: of the script.
        statement: the statement.
        rows: how many rows it has found; those that keep their values count.
        name: of its table in a SELECT.
        tables: that the SELECT reads.

    Raises:
        NothingChangesError: it has found none, and the client has not allowed that.
    """
    if rows or context.may_find_nothing(statement.name):
        return
    condition, near = getattr(statement, "condition", None), ""
    match statement:
        case Insert():
            message = f"the query has no rows to add to {statement.name}"
        case Merge():
            message = f"no clause of MERGE applies to a row of {statement.name} or of its source"
        case _ if condition is not None:
            message = f"no row of {statement.name} matches {_cut(' '.join(condition.split()))}"
            near = "; ".join(_near_values(context, condition, name, tables))
        case _:
            message = f"{statement.name} has no rows to change"
    raise NothingChangesError(message, hint="; ".join(filter(None, (near, ALLOW_EMPTY))))


def _near_values(
    context: ScriptContext, condition: str, name: str, tables: Mapping[str, Table] | None
) -> Iterator[str]:
    """Yield values of columns that are like the texts to which a condition compares them, among the first rows."""
    tree = parsed(f"SELECT 1 WHERE {condition}")
    for equal in islice(tree.find_all(exp.EQ), _MOST_NEAR):
        column, text = equal.this, equal.expression
        if not (isinstance(column, exp.Column) and isinstance(text, exp.Literal) and text.is_string):
            continue
        select = Composition(f"SELECT DISTINCT near FROM (SELECT {quoted(column.name)}::VARCHAR AS near ")
        select.add(f"FROM {name} LIMIT {_LOOKED_AT}) WHERE near IS NOT NULL")
        # The name may be that of a field, or of a column of another table.
        with suppress(QueryError):
            known = context.read(select, tables).column(0).to_pylist()
            near = () if text.this in known else near_names(text.this, known)
            if near:
                yield f"near values of {column.name}: {', '.join(map(_cut, near))}"


def _placed(rows: pa.Table, changed: Sequence[str] = ()) -> list[dict[str, str]]:
    """Return the columns that tell rows from others."""
    names = [
        name
        for name in _PLACES
        if name in rows.schema.names and name not in changed and rows.column(name).null_count < rows.num_rows
    ]
    if "key" not in rows.schema.names and SUBTASK in rows.schema.names:
        names.append(SUBTASK)
    return _dictionaries(rows, {name: rows.column(name) for name in names})


def _values(rows: pa.Table) -> list[dict[str, str]]:
    """Return all other columns."""
    names = [name for name in rows.schema.names if name not in _HIDDEN and name not in _PLACES]
    return _dictionaries(rows, {name: rows.column(name) for name in names})


def _parts(rows: pa.Table, paths: Sequence[tuple[str, ...]]) -> list[dict[str, str]]:
    columns = {}
    for path in paths:
        column = rows.column(path[0]).combine_chunks()
        columns[".".join(path)] = pc.struct_field(column, list(path[1:])) if path[1:] else column
    return _dictionaries(rows, columns)


def _dictionaries(rows: pa.Table, columns: Mapping[str, pa.Array | pa.ChunkedArray]) -> list[dict[str, str]]:
    texts = {name: _texts(column) for name, column in columns.items()}
    return [{name: column[number] for name, column in texts.items()} for number in range(rows.num_rows)]


def _texts(column: pa.Array | pa.ChunkedArray) -> list[str]:
    """Return values as a result shows them: texts as they are, all else as JSON."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    texts = array if pa.types.is_string(array.type) else json_text(array)
    return ["NULL" if text is None else _cut(text.strip('"')) for text in texts.to_pylist()]


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"


MOVED = "moved"
"""Whether a changed row gets another key, namespace or map key."""
IDENTITY = frozenset({"key", "namespace", "map_key"})
"""Columns that tell a row from others."""
_GROUP_AND_ROW = ((GROUP, pa.int32()), (ROW, pa.int64()))
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
    return pa.schema([*_GROUP_AND_ROW, *map(state.schema.field, insertable(state))])


def placed_rows(
    reader: pa.RecordBatchReader, state: State, names: Sequence[str], first: int
) -> pa.RecordBatchReader:
    """Return new rows with places: in the groups of their keys, numbered from `first` on.

    Reading them raises an UnencodableValueError for a value that does not fit, which names the row by its key.
    """
    columns = [state.schema.field(name) for name in names]
    schema = pa.schema([*_GROUP_AND_ROW, *columns])

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
    elements = pa.RecordBatchReader.from_batches(layer.rows.schema, layer.batches())
    added = context.states.stored(elements, layer.rows.schema.names)
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
    new_values = ((str(number), kind) for number, (_, kind) in enumerate(columns))
    schema = pa.schema([*_GROUP_AND_ROW, *new_values, *([(MOVED, pa.bool_())] if compared else [])])

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
        place = _placed(row_of(error.row).slice(0, 1))[0] if error.row >= 0 else {}
        if not place:
            raise
        row = ", ".join(f"{name} {text}" for name, text in place.items())
        raise UnencodableValueError(
            error.message, breadcrumbs=(f"{row}, {'.'.join(error.breadcrumbs)}",)
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


COLUMNS = ("operator_id", "operator_uid", "timer_service", "time_domain", "key", "namespace", "timestamp")
_FACTS = COLUMNS[:4]
_OPERATOR = frozenset(COLUMNS[:2])
_OWN = COLUMNS[4:]
_VALUE = "value"


def timer_columns(statement: Insert, found: Sequence[str], table: TimersTable) -> list[str]:
    """Return which columns of `timers` the columns of a query are.

    Raises:
        InvalidQueryError: they do not say whose timers the rows are, or there are others.
    """
    known = table.schema.names
    given = list(statement.columns)
    if statement.is_by_name:
        given = list(found)
    elif not given:
        given = list(COLUMNS) if len(found) == len(COLUMNS) else known
    names = [folded(name, known) or name for name in given]
    missing = [name for name in (*_FACTS[2:], "key", "timestamp") if name not in names]
    if (
        missing
        or not _OPERATOR.intersection(names)
        or len(set(names)) != len(names)
        or set(names) - set(known)
    ):
        raise InvalidQueryError(
            "expected rows of timers with operator_id or operator_uid, timer_service, time_domain, key and timestamp, and with a "
            f"namespace if they have one; found {', '.join(names)}"
        )
    if len(names) != len(found):
        raise InvalidQueryError(f"expected {len(names)} values in a row, found {len(found)}")
    return names


def rows_of_state(
    writable: WritableState, table: TimersTable, names: Sequence[str], source: str, uids: Sequence[str]
) -> Composition:
    """Return a SELECT of the new rows that are timers of one state.

    Args:
        writable: the state.
        table: `timers`.
        names: the columns of the new rows.
        source: the table of the new rows.
        uids: the operator uids of the new rows; a savepoint of Flink 1.20 or before has only their hashes.
    """
    facts = {
        output.name: None if output.constant is None else str(output.constant)
        for output in table.outputs(writable.known)
        if output.name in _FACTS
    }
    given = [name for name in _FACTS if name in names]
    operator = ", ".join(quoted(name) for name in given if name in _OPERATOR)
    conditions = [f"coalesce({operator}) IS NOT NULL"]
    for name in given:
        values = [known] if (known := facts.get(name)) is not None else []
        if name == "operator_uid" and not values:
            values = [uid for uid in uids if operator_id_of(uid) == facts["operator_id"]]
        condition = f"{quoted(name)} = {text_constant(values[0])}" if values else "FALSE"
        # One name of the operator is enough.
        conditions.append(f"({quoted(name)} IS NULL OR {condition})" if name in _OPERATOR else condition)
    columns = ", ".join(quoted(name) for name in _OWN if name in names)
    return Composition(f"SELECT {columns} FROM {source} WHERE {' AND '.join(conditions)}")


def converted(
    reader: pa.RecordBatchReader, writable: WritableState, table: TimersTable
) -> pa.RecordBatchReader:
    """Return rows of `timers` in the types of a state; one without namespaces has none.

    Raises:
        InvalidQueryError: a text is no JSON of the type, or a timer has a namespace that its state has not.
    """
    has_namespace = not _is_void(writable)
    names = [name for name in reader.schema.names if name != "namespace" or has_namespace]
    schema = pa.schema([(name, writable.state.schema.field(name).type) for name in names])

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in reader:
            if not has_namespace and "namespace" in batch.schema.names:
                values = batch.column("namespace")
                if values.null_count < len(values):
                    raise InvalidQueryError(
                        f"expected NULL in namespace: timers of {writable.state.name} have none"
                    )
            with _named(partial(_row, pa.table(batch.columns, batch.schema.names))):
                arrays = [
                    _timer_values(
                        batch.column(name), table.schema.field(name).type, schema.field(name).type, name
                    )
                    for name in names
                ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def values_of(texts: pa.Array, kind: pa.DataType, column: str) -> pa.Array:
    """Return JSON texts as values of a type.

    Raises:
        InvalidQueryError: a text is no JSON of the type.
    """
    if not len(texts):
        return pa.nulls(0, kind)
    lines = pc.binary_join_element_wise(
        f'{{"{_VALUE}":', pc.fill_null(texts.cast(pa.string()), "null"), "}", ""
    )
    data = "\n".join(lines.to_pylist()).encode()
    try:
        found = pyarrow.json.read_json(
            io.BytesIO(data),
            read_options=pyarrow.json.ReadOptions(block_size=len(data) + 1),
            parse_options=pyarrow.json.ParseOptions(
                explicit_schema=pa.schema([(_VALUE, kind)]), unexpected_field_behavior="error"
            ),
        )
    except pa.ArrowInvalid as error:
        raise InvalidQueryError(f"expected JSON of the type {kind} in {column} of timers: {error}") from error
    if found.num_rows != len(texts):
        raise InvalidQueryError(f"expected one JSON value of the type {kind} in each {column} of timers")
    return pa.concat_arrays(found.column(_VALUE).chunks)


def _timer_values(array: pa.Array, shown: pa.DataType, own: pa.DataType, column: str) -> pa.Array:
    """Return a column of new timers in the type of a state: texts are JSON where `timers` shows it, or where the type is nested."""
    is_json = pa.types.is_string(array.type) and not pa.types.is_string(own)
    if is_json and (pa.types.is_nested(own) or pa.types.is_string(shown)):
        return values_of(array, own, column)
    return _fitted(array, own, (column,))


def _is_void(writable: WritableState) -> bool:
    entry = writable.state.entry
    return entry is None or isinstance(entry.namespace, VoidNamespaceSerializer)


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
            # Some bytes have many values, such as the texts of a number: that of the script may be another than the reader's.
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
    """Return some columns of the rows of a state, with values that are equal where their bytes are."""
    entry = known.state.entry
    assert entry is not None
    value = entry.value.value if isinstance(entry.value, TtlSerializer) else entry.value
    types = {"key": entry.key, "namespace": entry.namespace, "map_key": entry.map_key, "value": value}

    def compared(batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [
            array if (serializer := types.get(name)) is None else comparable(serializer, array)
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
