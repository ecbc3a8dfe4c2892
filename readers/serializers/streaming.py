"""Wrappers that DataStream operators put around their values. Package `org.apache.flink.streaming`.

| serializer | snapshot | bytes |
|---|---|---|
| StreamElement | composite 2: [value] | u1 tag, then as below |
| TaggedUnion (`CoGroupedStreams`) | composite 2: [one, two] | u1 1 or 2, value |
| BufferEntry (`IntervalJoinOperator`) | composite 2: [element] | bool has been joined, element |
| JavaSerializer | – | one Java object stream |

| tag of a stream element | bytes |
|---|---|
| 0, 1 record | i8 timestamp, value; value |
| 2 watermark | i8 timestamp |
| 3 latency marker | i8 timestamp, i8 i8 operator id, i4 subtask |
| 4 watermark status | i4 |
| 5 record attributes | bool backlog |
| 6 internal watermark | i4 subpartition, i8 timestamp |
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from readers.decode.program import Program
from readers.javaio import read_object
from readers.serializers.base import Serializer, SnapshotBody, composite_body, simple_body
from readers.serializers.jsontree import json_of
from readers.serializers.primitives import BasicSerializer
from readers.serializers.structs import BOOLEAN, JsonLayout, StructLayout, StructSerializer

STREAMING = "org.apache.flink.streaming."

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


@dataclass(frozen=True)
class StreamElementSerializer(Serializer, package=STREAMING + "runtime.streamrecord."):
    """A record with or without a timestamp, or a watermark, status or marker; `details` are null for records."""

    value: Serializer

    @property
    def type_name(self) -> str:
        return f"StreamElement<{self.value.type_name}>"

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
class UnionSerializer(StructSerializer, package=STREAMING + "api.datastream.CoGroupedStreams$"):
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
class BufferEntrySerializer(StructSerializer, package=STREAMING + "api.operators.co.IntervalJoinOperator$"):
    """An element that waits for the elements of the other stream."""

    element: Serializer

    name = "BufferEntry"

    @property
    def layout(self) -> StructLayout:
        return StructLayout(("has_been_joined", BOOLEAN), ("element", self.element))


class JavaSerializer(BasicSerializer, package="org.apache.flink.runtime.state."):
    """Any `java.io.Serializable`, shown as JSON text."""

    name, layout = "Serializable", JsonLayout(lambda cursor: json_of(read_object(cursor)))


SNAPSHOTS: dict[str, SnapshotBody] = {
    STREAMING
    + "runtime.streamrecord.StreamElementSerializer$StreamElementSerializerSnapshot": composite_body(
        StreamElementSerializer, 1
    ),
    STREAMING + "api.datastream.CoGroupedStreams$UnionSerializerSnapshot": composite_body(UnionSerializer, 2),
    STREAMING + "api.operators.co.IntervalJoinOperator$BufferEntrySerializerSnapshot": composite_body(
        BufferEntrySerializer, 1
    ),
    "org.apache.flink.runtime.state.JavaSerializer$JavaSerializerSnapshot": simple_body(JavaSerializer()),
}
