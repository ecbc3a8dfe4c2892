"""State of connectors: which rows may change, and their values → bytes, for the sources that real Flink restored so.

| value | bytes, within a versioned value |
|---|---|
| KafkaPartitionSplit | utf topic, i4 partition, i8 starting offset, i8 stopping offset (smallest: none) |
| NumberSequenceSplit | utf id, i8 from, i8 to (inclusive) |
| FileSourceSplit | as it was, and bool → i8 offset of the reader (-1: none), i8 records after it |

A source keeps its splits twice: its readers where they are, its enumerator which of them are given out. A split that is only in one of
these is never read, or read twice, and Flink reports nothing. So positions of splits change, and the splits stay.

State of sinks stays as it is: a transaction that is changed, removed or made up would be committed twice, or never.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from readers import ROW, ConnectorLayout, ReaderError, Serializer, State, offset_problem
from writers.changes import StateChanges, UpdatedRows
from writers.errors import RefusedEditError, UnencodableValueError
from writers.headers import DataOutput

_NO_STOPPING_OFFSET = -(1 << 63)  # KafkaPartitionSplit.NO_STOPPING_OFFSET
_NO_OFFSET = -1  # CheckpointedPosition.NO_OFFSET
_NUMBER_BYTES, _LENGTH_BYTES = 8, 4
# Before the bytes of a split: the length of the element, the version of the split, its length.
_BODY_AT = 12


def check_changeable(state: State, changes: StateChanges) -> None:
    """Check that rows of a state may change so.

    Raises:
        RefusedEditError: Flink would lose or repeat records: the state of a sink, or one half of a source.
    """
    check_no_sink(state.name, state.entry.serializers() if state.entry is not None else ())
    if state.name == READER_STATE and not all(isinstance(layer, UpdatedRows) for layer in changes.layers):
        raise RefusedEditError(
            f"rows of {state.name} cannot be removed or added: {HALF_OF_A_SOURCE}; set their offsets instead"
        )


def check_no_sink(state: str, serializers: Iterable[Serializer]) -> None:
    """Check that a state is not of a sink.

    Args:
        state: its name.
        serializers: of its elements.

    Raises:
        RefusedEditError: it is.
    """
    if _is_of_sink(state, serializers):
        raise RefusedEditError(
            f"{state} cannot be changed: it holds transactions or files of a sink, which would be committed twice, or never"
        )


def is_of_sink(state: State) -> bool:
    """Return whether a state holds transactions or files of a sink."""
    return _is_of_sink(state.name, state.entry.serializers() if state.entry is not None else ())


def _is_of_sink(state: str, serializers: Iterable[Serializer]) -> bool:
    return state in _SINK_STATES or any(_TRANSACTIONS.search(one.java_class) for one in serializers)


def encoded_values(
    layout: ConnectorLayout,
    before: pa.Table,
    after: pa.Table,
    updated: NDArray[np.bool_],
    stored: pa.LargeBinaryArray,
) -> pa.LargeBinaryArray:
    """Return the elements of changed rows of a connector's state: i4 length and the bytes of the value.

    Args:
        layout: of the values.
        before: all rows as they were, in the order of their numbers.
        after: rows as they are now, with their numbers.
        updated: bool (rows of after,).
        stored: the elements as they were.

    Raises:
        RefusedEditError: no real Flink has restored values of this connector that were written so, or another split is named.
        UnencodableValueError: the connector could not read a value.
    """
    chosen = after.filter(pa.array(updated))
    if not len(chosen):
        return pa.array([], pa.large_binary())
    split = _SPLITS.get(layout.java_class)
    if split is None:
        raise RefusedEditError(
            f"values of {layout.java_class.rpartition('.')[2]} ({layout.connector}) cannot be set: "
            "no restore in Flink has proven such bytes"
        )
    numbers = chosen.column(ROW)
    rows = zip(
        numbers.to_pylist(),
        _values(before.column("value").take(numbers)),
        _values(chosen.column("value")),
        stored.take(numbers.combine_chunks()).to_pylist(),
        strict=True,
    )
    return pa.array([_element(layout, split, *row) for row in rows], pa.large_binary())


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Return values as the layout reads them: a time is its number of milliseconds."""
    numbers = [
        field.with_type(pa.int64()) if pa.types.is_timestamp(field.type) else field for field in column.type
    ]
    return list(column.cast(pa.struct(numbers)).to_pylist())


def _element(layout: ConnectorLayout, split: _Split, row: int, old: Any, value: Any, stored: bytes) -> bytes:
    """Return one element; it is read again, and must be the same value."""
    name = layout.java_class.rpartition(".")[2]
    if value is None or any(value[field] != old[field] for field in old if field not in split.settable):
        raise RefusedEditError(
            f"element {row}: expected a {name} in which only {' and '.join(split.settable)} changes, "
            f"found {value!s:.200}: {HALF_OF_A_SOURCE}"
        )
    missing = [field for field in split.required if value[field] is None]
    if missing:
        raise UnencodableValueError(
            f"expected a number, found NULL of {', '.join(missing)}", breadcrumbs=("value",), row=row
        )
    body = DataOutput()
    split.write(body, value, stored[_BODY_AT:], old)
    output = DataOutput()
    output.i4(_BODY_AT - _LENGTH_BYTES + len(body.data))
    output.i4(split.version)
    output.blob(body.data)
    found: Any = None
    reason = "another value is read back"
    try:
        found = layout.read_whole(bytes(output.data[_LENGTH_BYTES:]))
    except ReaderError as error:
        reason = error.message
    if found is None or any(found.get(field) != value[field] for field in value):
        raise UnencodableValueError(
            f"expected a value that a {name} holds, found {value!s:.200}: {reason}",
            breadcrumbs=("value",),
            row=row,
        )
    assert layout.offsets is not None
    for before, after in zip(layout.offsets(old), layout.offsets(value), strict=True):
        # A split may end elsewhere now; where it can begin stays.
        bounds = replace(before.bounds, greatest=after.bounds.greatest)
        _check_offset(bounds.problem(after.starting_offset), row)
    return bytes(output.data)


def check_offsets(state: str, rows: pa.Table) -> None:
    """Check that a source can read on from each value of a state, if it holds offsets.

    Args:
        state: its name.
        rows: with the column `value`.

    Raises:
        UnencodableValueError: it cannot.
    """
    if not pa.types.is_struct(rows.schema.field("value").type):
        return
    for row, value in enumerate(rows.column("value").to_pylist()):
        _check_offset(offset_problem(state, value or {}), row)


def _check_offset(problem: str, row: int) -> None:
    if problem:
        raise UnencodableValueError(
            f"{problem}: no source can read on from there", breadcrumbs=("value",), row=row
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Split:
    """How the splits of a source are written.

    Attributes:
        version: of the value.
        settable: the fields that may change; the others name the split, or no restore has proven that they may change.
        required: the fields that are never null.
        write: appends the bytes of a value, which were others before: (output, value, bytes before, value before).
    """

    version: int
    settable: tuple[str, ...]
    required: tuple[str, ...]
    write: Callable[[DataOutput, Mapping[str, Any], bytes, Mapping[str, Any]], None]


def _write_kafka_split(
    body: DataOutput, split: Mapping[str, Any], _before: bytes, _old: Mapping[str, Any]
) -> None:
    body.utf(split["topic"])
    body.i4(split["partition"])
    body.i8(split["starting_offset"])
    stopping = split["stopping_offset"]
    body.i8(_NO_STOPPING_OFFSET if stopping is None else stopping)


def _write_number_split(
    body: DataOutput, split: Mapping[str, Any], _before: bytes, _old: Mapping[str, Any]
) -> None:
    body.utf(split["split_id"])
    body.i8(split["from"])
    body.i8(split["to"])


def _write_file_split(
    body: DataOutput, split: Mapping[str, Any], before: bytes, old: Mapping[str, Any]
) -> None:
    """Write a FileSourceSplit: the position of the reader is its end.

    Raises:
        UnencodableValueError: a number below 0.
        RefusedEditError: the reader is at an offset of the file's format.
    """
    if split["reader_offset"] is not None:
        raise RefusedEditError(
            "expected a reader that only counts records, found one at an offset of the file's format: no restore in Flink "
            "has proven that its position may change"
        )
    body.raw(before[: -(1 if old["records_after_offset"] is None else 1 + 2 * _NUMBER_BYTES)])
    records = split["records_after_offset"]
    body.boolean(records is not None)
    if records is not None:
        if records < 0:
            raise UnencodableValueError(
                f"expected a number of records from 0 on, found {records}",
                breadcrumbs=("value", "records_after_offset"),
            )
        body.i8(_NO_OFFSET)
        body.i8(records)


READER_STATE = "SourceReaderState"
HALF_OF_A_SOURCE = "the source's enumerator has its splits too, and one that only one of them has is never read, or read twice"
_SINK_STATES = frozenset({"streaming_committer_raw_states", "writer_raw_states", "bucket-states"})
# TwoPhaseCommitSinkFunction, the Kafka producers of Flink 1.4 to 1.14, the sinks of 1.12 to 1.14.
_TRANSACTIONS = re.compile(r"TwoPhaseCommit|NextTransactionalIdHint|TransactionState")
_SPLITS = {
    "org.apache.flink.connector.kafka.source.split.KafkaPartitionSplit": _Split(
        version=0,
        settable=("starting_offset", "stopping_offset"),
        required=("starting_offset",),
        write=_write_kafka_split,
    ),
    "org.apache.flink.api.connector.source.lib.NumberSequenceSource$NumberSequenceSplit": _Split(
        version=1, settable=("from", "to"), required=("from", "to"), write=_write_number_split
    ),
    "org.apache.flink.connector.file.src.FileSourceSplit": _Split(
        version=1, settable=("records_after_offset",), required=(), write=_write_file_split
    ),
}
