"""Rows that are added to `timers`: which state each is of, and its key and namespace in the types of that state.

`timers` shows the timers of all operators, so a new row says whose it is: `operator_id` or `operator_uid`, `timer_service` and
`time_domain`. Where keys or namespaces have several types they are shown as JSON text,
and read from it.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from catalog.changedtables import WritableState
from catalog.statetables import TimersTable
from readers import VoidNamespaceSerializer, operator_id_of
from service.base.errors import InvalidQueryError
from service.query.sql.edits import quoted
from service.query.sql.literals import text_constant
from service.tasks.write.composition import Composition
from service.tasks.write.layers import folded
from service.tasks.write.statements.rows import Insert

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


def converted(reader: pa.RecordBatchReader, writable: WritableState) -> pa.RecordBatchReader:
    """Return rows of `timers` in the types of a state; one without namespaces has none.

    Raises:
        InvalidQueryError: a text is no JSON of the type, or a timer has a namespace that its state has not.
    """
    has_namespace = not _is_void(writable)
    names = [name for name in reader.schema.names if name != "namespace" or has_namespace]
    kinds = [_type(reader.schema.field(name).type, writable.state.schema.field(name).type) for name in names]
    schema = pa.schema(list(zip(names, kinds, strict=True)))

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in reader:
            if not has_namespace and "namespace" in batch.schema.names:
                values = batch.column("namespace")
                if values.null_count < len(values):
                    raise InvalidQueryError(
                        f"expected NULL in namespace: timers of {writable.state.name} have none"
                    )
            arrays = [
                array if array.type.equals(kind) else parsed(array, kind, name)
                for name, kind, array in zip(names, kinds, map(batch.column, names), strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def parsed(texts: pa.Array, kind: pa.DataType, column: str) -> pa.Array:
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


def _type(given: pa.DataType, own: pa.DataType) -> pa.DataType:
    """Return the type of a column of new rows: the state's where a text is given for another type."""
    return own if pa.types.is_string(given) else given


def _is_void(writable: WritableState) -> bool:
    entry = writable.state.entry
    return entry is None or isinstance(entry.namespace, VoidNamespaceSerializer)
