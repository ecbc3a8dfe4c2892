"""Namespaces, windows, timers and the TTL wrapper.

| serializer | snapshot | bytes |
|---|---|---|
| TimeWindow (DataStream, SQL) | – | i8 start, i8 end (exclusive), ms |
| GlobalWindow | – | 00 |
| CountWindow | – | i8 id |
| Timer | composite 2: [key, namespace] | i8 timestamp with its sign bit inverted, key, namespace |
| Ttl | composite 2: [Long, value] | i8 last access, ms; value |
| TtlAware (since 2.0) | 1: bool, versioned inner | the inner serializer's |
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from readers.decode.program import Program
from readers.serializers.base import Problem, Serializer, Snapshot, SnapshotBody, composite_body, simple_body
from readers.serializers.primitives import BasicSerializer, LongSerializer, NothingSerializer
from readers.serializers.structs import MILLISECONDS, SORTED_MILLISECONDS, StructLayout, StructSerializer

_STREAMING = "org.apache.flink.streaming.api.windowing.windows."
_TABLE = "org.apache.flink.table.runtime.operators.window."


class TimeWindowSerializer(StructSerializer, BasicSerializer):
    java_class = _STREAMING + "TimeWindow$Serializer"
    name, fixed_length = "TimeWindow", 16
    layout = StructLayout(("start", MILLISECONDS), ("end", MILLISECONDS))


class GlobalWindowSerializer(NothingSerializer):
    """The only global window: one byte, shown as the text `GlobalWindow`."""

    java_class = _STREAMING + "GlobalWindow$Serializer"
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
class TimerSerializer(StructSerializer, package="org.apache.flink.streaming.api.operators."):
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

    @property
    def type_name(self) -> str:
        return self.value.type_name

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


SNAPSHOTS: dict[str, SnapshotBody] = {
    _STREAMING + "TimeWindow$Serializer$TimeWindowSerializerSnapshot": simple_body(TimeWindowSerializer()),
    _TABLE + "TimeWindow$Serializer$TimeWindowSerializerSnapshot": simple_body(TimeWindowSerializer()),
    _STREAMING + "GlobalWindow$Serializer$GlobalWindowSerializerSnapshot": simple_body(
        GlobalWindowSerializer()
    ),
    _TABLE + "GlobalWindow$Serializer$GlobalWindowSerializerSnapshot": simple_body(GlobalWindowSerializer()),
    _TABLE + "CountWindow$Serializer$CountWindowSerializerSnapshot": simple_body(CountWindowSerializer()),
    "org.apache.flink.streaming.api.operators.TimerSerializerSnapshot": composite_body(TimerSerializer, 2),
    "org.apache.flink.runtime.state.ttl.TtlStateFactory$TtlSerializerSnapshot": _ttl,
    "org.apache.flink.runtime.state.v2.ttl.TtlStateFactory$TtlSerializerSnapshot": _ttl,
    "org.apache.flink.runtime.state.ttl.TtlAwareSerializerSnapshot": _ttl_aware,
}
