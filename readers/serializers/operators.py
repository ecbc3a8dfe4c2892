"""What operators store beside and around the values of users: windows, timers, TTL, joined records, transactions of sinks.

| serializer | snapshot | bytes |
|---|---|---|
| TimeWindow (DataStream, SQL) | – | i8 start, i8 end (exclusive), ms |
| GlobalWindow | – | 00 |
| CountWindow | – | i8 id |
| Timer | composite 2: [key, namespace] | i8 timestamp with its sign bit inverted, key, namespace |
| Ttl | composite 2: [Long, value] | i8 last access, ms; value |
| TtlAware (since 2.0) | 1: bool, versioned inner | the inner serializer's |
| StreamElement | composite 2: [value] | u1 tag, then as below |
| TaggedUnion (`CoGroupedStreams`) | composite 2: [one, two] | u1 1 or 2, value |
| BufferEntry (`IntervalJoinOperator`) | composite 2: [element] | bool has been joined, element |
| JavaSerializer | – | one Java object stream |
| State of a sink | composite 4: bool may be null; [transaction, context] | [bool present,] holder, list, bool present, context |
| its holders, and lists of them | | transaction, i8 start time; i4 n, n × holder |
| Kafka: TransactionState | – | bool transactional, [utf id,] i8 producer id, i2 epoch |
| Kafka: ContextState | – | i4 n, n × utf id |
| Kafka: NextTransactionalIdHint | – | i8 next free id, i4 last parallelism |

| tag of a stream element | bytes |
|---|---|
| 0, 1 record | i8 timestamp, value; value |
| 2 watermark | i8 timestamp |
| 3 latency marker | i8 timestamp, i8 i8 operator id, i4 subtask |
| 4 watermark status | i4 |
| 5 record attributes | bool backlog |
| 6 internal watermark | i4 subpartition, i8 timestamp |

In the sinks with a two-phase commit, which are the Kafka producers of 1.4–1.14 and users' own, a transaction is never null up to
composite version 2; in version 3 it may be; version 4 has the bool. The class moved to `…sink.legacy` in 2.0. The producer of Kafka
0.11 has classes of its own with the same bytes.

Flink: TwoPhaseCommitSinkFunction, FlinkKafkaProducer, FlinkKafkaProducer011
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from readers.decode.program import Program
from readers.javaio import read_object
from readers.serializers.base import Problem, Serializer, Snapshot, SnapshotBody, composite_body, simple_body
from readers.serializers.jsontree import json_of
from readers.serializers.primitives import BasicSerializer, LongSerializer, NothingSerializer
from readers.serializers.structs import (
    BOOLEAN,
    INT,
    LONG,
    MILLISECONDS,
    SHORT,
    SORTED_MILLISECONDS,
    UTF,
    JsonLayout,
    ListLayout,
    OptionalLayout,
    StructLayout,
    StructSerializer,
)

_STREAMING = "org.apache.flink.streaming."
_WINDOWS = _STREAMING + "api.windowing.windows."
_TABLE = "org.apache.flink.table.runtime.operators.window."
_SINK = _STREAMING + "api.functions.sink."
TWO_PHASE_COMMIT = _SINK + "TwoPhaseCommitSinkFunction$StateSerializer"
_KAFKA = _STREAMING + "connectors.kafka."
_NULLABLE_VERSION, _FLAGGED_VERSION = 3, 4  # of the composite snapshot

_STREAM_DETAILS = pa.struct(
    [
        pa.field("operator_id_low", pa.int64()), pa.field("operator_id_high", pa.int64()),
        pa.field("subtask", pa.int32()), pa.field("status", pa.int32()), pa.field("backlog", pa.bool_()),
        pa.field("subpartition", pa.int32()),
    ]
)  # fmt: skip
_TIMESTAMP, _VALUE = "timestamp", "value"

# tag: (kind, the fields that follow, in byte order: timestamp, value or a field of the details)
_STREAM_ELEMENTS: dict[int, tuple[str, tuple[str, ...]]] = {
    0: ("record", (_TIMESTAMP, _VALUE)),
    1: ("record", (_VALUE,)),
    2: ("watermark", (_TIMESTAMP,)),
    3: ("latency_marker", (_TIMESTAMP, "operator_id_low", "operator_id_high", "subtask")),
    4: ("watermark_status", ("status",)),
    5: ("record_attributes", ("backlog",)),
    6: ("internal_watermark", ("subpartition", _TIMESTAMP)),
}


class TimeWindowSerializer(StructSerializer, BasicSerializer):
    java_class = _WINDOWS + "TimeWindow$Serializer"
    name, fixed_length = "TimeWindow", 16
    layout = StructLayout(("start", MILLISECONDS), ("end", MILLISECONDS))


class GlobalWindowSerializer(NothingSerializer):
    """The only global window: one byte, shown as the text `GlobalWindow`."""

    java_class = _WINDOWS + "GlobalWindow$Serializer"
    name, fixed_length = "GlobalWindow", 1

    def emit(self, program: Program) -> None:
        program.skip(1)
        program.constant("GlobalWindow")


class CountWindowSerializer(LongSerializer):
    java_class = _TABLE + "CountWindow$Serializer"
    name = "CountWindow"

    def hash_code(self, value: Any) -> int | None:
        # `CountWindow#hashCode` is not that of its id.
        return None


@dataclass(frozen=True)
class TimerSerializer(StructSerializer, package=_STREAMING + "api.operators."):
    """A timer. `readers.formats` makes the columns of timer states of its key and its namespace."""

    key: Serializer
    namespace: Serializer

    name = "Timer"

    @property
    def layout(self) -> StructLayout:
        return StructLayout(
            ("timestamp", SORTED_MILLISECONDS), ("key", self.key), ("namespace", self.namespace)
        )


@dataclass(frozen=True)
class TtlSerializer(StructSerializer, package="org.apache.flink.runtime.state.ttl.TtlStateFactory$"):
    """A value with the time of its last access.

    The TTL itself is not in the savepoint, so expired values that Flink has not cleaned up are shown.
    """

    value: Serializer

    @property
    def fixed_length(self) -> int:  # type: ignore[override]  # derived here
        return -1 if self.value.fixed_length < 0 else 8 + self.value.fixed_length

    @property
    def type_name(self) -> str:
        return self.value.type_name

    @property
    def serializer_name(self) -> str:
        return f"TtlSerializer<{self.value.serializer_name}>"

    @property
    def layout(self) -> StructLayout:
        return StructLayout(("value", self.value), ("last_access", MILLISECONDS))

    @property
    def is_unquoted(self) -> bool:
        return self.value.is_unquoted

    def emit(self, program: Program) -> None:
        # The bytes hold the time first, the column shows the value first.
        self.layout.emit_in_order(program, (1, 0))


@dataclass(frozen=True)
class UnshownSerializer(Serializer):
    """A value that no column shows, because only the number of values is asked for: an empty struct each."""

    value: Serializer

    java_class = ""

    name = "{self.value.type_name}"

    @property
    def is_open(self) -> bool:
        return self.value.is_open

    def problems(self) -> Iterator[Problem]:
        return self.value.problems()

    def arrow(self) -> pa.DataType:
        return pa.struct([])

    def emit(self, program: Program) -> None:
        program.struct()
        with program.without_column():
            self.value.emit(program)


def _ttl(snapshot: Snapshot) -> Serializer:
    snapshot.composite()
    _, value = snapshot.nested(2)
    return TtlSerializer(value)


def _ttl_aware(snapshot: Snapshot) -> Serializer:
    snapshot.cursor.boolean()
    return snapshot.versioned()


@dataclass(frozen=True)
class StreamElementSerializer(Serializer, package=_STREAMING + "runtime.streamrecord."):
    """A record with or without a timestamp, or a watermark, status or marker; `details` are null for records."""

    value: Serializer

    name = "StreamElement<{self.value.type_name}>"

    @property
    def children(self) -> tuple[tuple[str, Serializer], ...]:
        return ((_VALUE, self.value),)

    def arrow(self) -> pa.DataType:
        return pa.struct(
            [
                pa.field("kind", pa.string()),
                pa.field(_TIMESTAMP, pa.timestamp("ms")),
                pa.field(_VALUE, self.value.arrow()),
                pa.field("details", _STREAM_DETAILS),
            ]
        )

    def emit(self, program: Program) -> None:
        tags = program.switch({tag: kind for tag, (kind, _) in _STREAM_ELEMENTS.items()})
        for tag, (kind, fields) in _STREAM_ELEMENTS.items():
            with tags.case(tag):
                program.struct()
                with program.field(0):
                    program.constant(kind)
                self._emit_fields(program, fields)
        tags.end()

    def _emit_fields(self, program: Program, present: tuple[str, ...]) -> None:
        details = [name for name in present if name not in (_TIMESTAMP, _VALUE)]
        for name in present:
            if name == _TIMESTAMP:
                with program.field(1):
                    program.fixed(8)
            elif name == _VALUE:
                with program.field(2):
                    self.value.emit(program)
            else:
                _emit_detail(program, name, first=name == details[0])
        # Every column needs a value for each element: those that are not in the bytes are null.
        for index, name in ((1, _TIMESTAMP), (2, _VALUE)):
            if name not in present:
                with program.field(index):
                    program.null()
        with program.field(3):
            if not details:
                program.null()
            for index, field in enumerate(_STREAM_DETAILS):
                if details and field.name not in details:
                    with program.field(index):
                        program.null()


def _emit_detail(program: Program, name: str, *, first: bool) -> None:
    index = _STREAM_DETAILS.get_field_index(name)
    with program.field(3):
        # The struct has its value once, before the first of its fields.
        if first:
            program.struct()
        with program.field(index):
            if name == "backlog":
                program.boolean()
            elif name.startswith("operator_id"):
                program.fixed(8)
            else:
                program.fixed(4)


@dataclass(frozen=True)
class UnionSerializer(StructSerializer, package=_STREAMING + "api.datastream.CoGroupedStreams$"):
    """An element of one of two joined streams: a struct with one side null."""

    one: Serializer
    two: Serializer

    name = "TaggedUnion"

    @property
    def layout(self) -> StructLayout:
        return StructLayout(("one", self.one), ("two", self.two))

    def emit(self, program: Program) -> None:
        tags = program.switch({1: "one", 2: "two"})
        for tag in (1, 2):
            with tags.case(tag):
                self.layout.emit_one(program, tag - 1)
        tags.end()


@dataclass(frozen=True)
class BufferEntrySerializer(StructSerializer, package=_STREAMING + "api.operators.co.IntervalJoinOperator$"):
    """An element that waits for the elements of the other stream."""

    element: Serializer

    name = "BufferEntry"

    @property
    def layout(self) -> StructLayout:
        return StructLayout(("has_been_joined", BOOLEAN), ("element", self.element))


class JavaSerializer(BasicSerializer, package="org.apache.flink.runtime.state."):
    """Any `java.io.Serializable`, shown as JSON text."""

    name, layout = "Serializable", JsonLayout(lambda cursor: json_of(read_object(cursor)))


@dataclass(frozen=True)
class TransactionsSerializer(StructSerializer):
    """The open transaction, those that wait for their commit, and the sink's own context."""

    transaction: Serializer
    context: Serializer
    may_be_null: bool = False

    java_class = TWO_PHASE_COMMIT
    name = "Transactions"

    @property
    def children(self) -> tuple[tuple[str, Serializer], ...]:
        return (("transaction", self.transaction), ("context", self.context))

    @property
    def layout(self) -> StructLayout:
        holder = StructLayout(("transaction", self.transaction), ("start_time", MILLISECONDS))
        return StructLayout(
            ("pending", OptionalLayout(holder) if self.may_be_null else holder),
            ("pending_commits", ListLayout(holder)),
            ("context", OptionalLayout(self.context)),
        )


class TransactionStateSerializer(StructSerializer, BasicSerializer, package=_KAFKA + "FlinkKafkaProducer$"):
    """A transaction of a Kafka producer; without an id the producer is not transactional."""

    name = "KafkaTransactionState"
    layout = StructLayout(("transactional_id", OptionalLayout(UTF)), ("producer_id", LONG), ("epoch", SHORT))


class ContextStateSerializer(BasicSerializer, package=_KAFKA + "FlinkKafkaProducer$"):
    """The ids that a Kafka producer uses for its transactions."""

    name, layout = "KafkaTransactionContext", ListLayout(UTF)


class NextTransactionalIdHintSerializer(
    StructSerializer, BasicSerializer, package=_KAFKA + "FlinkKafkaProducer$"
):
    """The ids that a Kafka producer may take when it starts with another parallelism."""

    name, fixed_length = "NextTransactionalIdHint", 12
    layout = StructLayout(("next_free_transactional_id", LONG), ("last_parallelism", INT))


def _state(snapshot: Snapshot) -> Serializer:
    version = snapshot.composite()
    may_be_null = version == _NULLABLE_VERSION or (version >= _FLAGGED_VERSION and snapshot.cursor.boolean())
    transaction, context = snapshot.nested(2)
    return TransactionsSerializer(transaction, context, may_be_null)


# By serializer class, which is all that the config snapshots of before 1.8 hold.
KAFKA_SERIALIZERS: dict[str, BasicSerializer] = {
    f"{_KAFKA}{producer}${type(serializer).__name__}": serializer
    for producer in ("FlinkKafkaProducer", "FlinkKafkaProducer011")
    for serializer in (
        TransactionStateSerializer(),
        ContextStateSerializer(),
        NextTransactionalIdHintSerializer(),
    )
}

SNAPSHOTS: dict[str, SnapshotBody] = {
    _WINDOWS + "TimeWindow$Serializer$TimeWindowSerializerSnapshot": simple_body(TimeWindowSerializer()),
    _TABLE + "TimeWindow$Serializer$TimeWindowSerializerSnapshot": simple_body(TimeWindowSerializer()),
    _WINDOWS + "GlobalWindow$Serializer$GlobalWindowSerializerSnapshot": simple_body(
        GlobalWindowSerializer()
    ),
    _TABLE + "GlobalWindow$Serializer$GlobalWindowSerializerSnapshot": simple_body(GlobalWindowSerializer()),
    _TABLE + "CountWindow$Serializer$CountWindowSerializerSnapshot": simple_body(CountWindowSerializer()),
    _STREAMING + "api.operators.TimerSerializerSnapshot": composite_body(TimerSerializer, 2),
    "org.apache.flink.runtime.state.ttl.TtlStateFactory$TtlSerializerSnapshot": _ttl,
    "org.apache.flink.runtime.state.v2.ttl.TtlStateFactory$TtlSerializerSnapshot": _ttl,
    "org.apache.flink.runtime.state.ttl.TtlAwareSerializerSnapshot": _ttl_aware,
    _STREAMING
    + "runtime.streamrecord.StreamElementSerializer$StreamElementSerializerSnapshot": composite_body(
        StreamElementSerializer, 1
    ),
    _STREAMING + "api.datastream.CoGroupedStreams$UnionSerializerSnapshot": composite_body(
        UnionSerializer, 2
    ),
    _STREAMING + "api.operators.co.IntervalJoinOperator$BufferEntrySerializerSnapshot": composite_body(
        BufferEntrySerializer, 1
    ),
    "org.apache.flink.runtime.state.JavaSerializer$JavaSerializerSnapshot": simple_body(JavaSerializer()),
    **{
        f"{package}TwoPhaseCommitSinkFunction$StateSerializerSnapshot": _state
        for package in (_SINK, _SINK + "legacy.")
    },
    **{
        f"{name}${type(serializer).__name__}Snapshot": simple_body(serializer)
        for name, serializer in KAFKA_SERIALIZERS.items()
    },
}
