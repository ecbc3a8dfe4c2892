"""State of connectors: which rows may change, and their values → bytes, for the sources that real Flink restored so.

| value | bytes, within a versioned value |
|---|---|
| KafkaPartitionSplit | utf topic, i4 partition, i8 starting offset, i8 stopping offset (smallest: none) |
| NumberSequenceSplit | utf id, i8 from, i8 to (inclusive) |

A source keeps its splits twice: its readers where they are, its enumerator which of them are given out. A split that is only in one of
these is never read, or read twice, and Flink reports nothing. So positions of splits change, and the splits stay.

State of sinks stays as it is: a transaction that is changed, removed or made up would be committed twice, or never.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from readers import ROW, ConnectorLayout, ReaderError, Serializer, State
from writers.changes import StateChanges, UpdatedRows
from writers.errors import RefusedEditError, UnencodableValueError
from writers.output import DataOutput

_NO_STOPPING_OFFSET = -(1 << 63)  # KafkaPartitionSplit.NO_STOPPING_OFFSET


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
    if state in _SINK_STATES or any(_TRANSACTIONS.search(one.java_class) for one in serializers):
        raise RefusedEditError(
            f"{state} cannot be changed: it holds transactions or files of a sink, which would be committed twice, or never"
        )


def encoded_values(
    layout: ConnectorLayout, before: pa.Table, after: pa.Table, updated: NDArray[np.bool_]
) -> pa.LargeBinaryArray:
    """Return the elements of changed rows of a connector's state: i4 length and the bytes of the value.

    Args:
        layout: of the values.
        before: all rows as they were, in the order of their numbers.
        after: rows as they are now, with their numbers.
        updated: bool (rows of after,).

    Raises:
        RefusedEditError: no real Flink has restored values of this connector that were written so, or another split is named.
        UnencodableValueError: the connector could not read a value.
    """
    chosen = after.filter(pa.array(updated))
    values = chosen.column("value").to_pylist()
    if not values:
        return pa.array([], pa.large_binary())
    name = layout.java_class.rpartition(".")[2]
    split = _SPLITS.get(layout.java_class)
    if split is None:
        raise RefusedEditError(
            f"values of {name} ({layout.connector}) cannot be set: no restore in Flink has proven such bytes"
        )
    olds = before.column("value").take(chosen.column(ROW)).to_pylist()
    found = []
    for row, value, old in zip(chosen.column(ROW).to_pylist(), values, olds, strict=True):
        if value is None or any(value[field] != old[field] for field in split.fixed):
            raise RefusedEditError(
                f"element {row}: expected the same {' and '.join(split.fixed)} as before, found {value!s:.200}: "
                + HALF_OF_A_SOURCE
            )
        found.append(_element(layout, value, split))
    return pa.array(found, pa.large_binary())


def _element(layout: ConnectorLayout, value: Mapping[str, Any], split: _Split) -> bytes:
    """Return one element; it is read again, and must be the same value."""
    missing = [name for name in split.required if value[name] is None]
    if missing:
        raise UnencodableValueError(
            f"expected a number, found NULL of {', '.join(missing)}", breadcrumbs=("value",)
        )
    body = DataOutput()
    split.write(body, value)
    output = DataOutput()
    output.i4(8 + len(body.data))
    output.i4(split.version)
    output.blob(body.data)
    try:
        found = layout.read_whole(bytes(output.data[4:]))
    except ReaderError as error:
        raise UnencodableValueError(
            f"expected a value that {layout.java_class.rpartition('.')[2]} holds, found {value!s:.200}: {error.message}",
            breadcrumbs=("value",),
        ) from error
    if found != value:
        raise UnencodableValueError(
            f"expected {value!s:.200}, read {found!s:.200} back", breadcrumbs=("value",)
        )
    return bytes(output.data)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Split:
    """How the splits of a source are written.

    Attributes:
        version: of the value.
        fixed: the fields that name the split.
        required: the fields that are never null.
        write: appends the bytes of a value.
    """

    version: int
    fixed: tuple[str, ...]
    required: tuple[str, ...]
    write: Callable[[DataOutput, Mapping[str, Any]], None]


def _write_kafka_split(body: DataOutput, split: Mapping[str, Any]) -> None:
    body.utf(split["topic"])
    body.i4(split["partition"])
    body.i8(split["starting_offset"])
    stopping = split["stopping_offset"]
    body.i8(_NO_STOPPING_OFFSET if stopping is None else stopping)


def _write_number_split(body: DataOutput, split: Mapping[str, Any]) -> None:
    body.utf(split["split_id"])
    body.i8(split["from"])
    body.i8(split["to"])


READER_STATE = "SourceReaderState"
HALF_OF_A_SOURCE = "the source's enumerator has its splits too, and one that only one of them has is never read, or read twice"
_SINK_STATES = frozenset({"streaming_committer_raw_states", "writer_raw_states", "bucket-states"})
# TwoPhaseCommitSinkFunction, the Kafka producers of Flink 1.4 to 1.14, the sinks of 1.12 to 1.14.
_TRANSACTIONS = re.compile(r"TwoPhaseCommit|NextTransactionalIdHint|TransactionState")
_SPLITS = {
    "org.apache.flink.connector.kafka.source.split.KafkaPartitionSplit": _Split(
        version=0,
        fixed=("topic", "partition"),
        required=("starting_offset",),
        write=_write_kafka_split,
    ),
    "org.apache.flink.api.connector.source.lib.NumberSequenceSource$NumberSequenceSplit": _Split(
        version=1,
        fixed=("split_id",),
        required=("from", "to"),
        write=_write_number_split,
    ),
}
