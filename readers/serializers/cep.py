"""Complex event processing: the shared buffer and the state of the automaton. Package `org.apache.flink.cep.nfa`.

| serializer | snapshot | bytes |
|---|---|---|
| Lockable | composite 1: [element] | i4 references, element |
| EventId | – | i4 id, i8 timestamp |
| DeweyNumber | – | i4 n, n × i4 |
| NodeId | composite 1: [EventId] | bool present, EventId, string page |
| SharedBufferEdge | composite 1: [NodeId, DeweyNumber] | NodeId target, DeweyNumber |
| SharedBufferNode (V2) | composite 1: [edge] | i4 n, n × (i4 references, edge) |
| SharedBufferNode | composite 1: [List of edges] | the list |
| NFAState | composite 2: bool previous timestamps; [DeweyNumber, NodeId, EventId] | partial, completed computations |

Computations are `i4 n`, then n times `string state, NodeId previous, DeweyNumber version, i8 start timestamp,
[i8 previous timestamp,] bool present, EventId start event`. Composite version 1 has no previous timestamps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from readers.decode.program import Program
from readers.serializers.base import Serializer, SnapshotBody
from readers.serializers.primitives import BasicSerializer, simple_body

if TYPE_CHECKING:
    from readers.stateinfo.snapshots import SnapshotReader

_NFA = "org.apache.flink.cep.nfa."
_BUFFER = _NFA + "sharedbuffer."


@dataclass(frozen=True)
class LockableTypeSerializer(Serializer):
    element: Serializer

    java_class = _BUFFER + "Lockable$LockableTypeSerializer"

    @property
    def type_name(self) -> str:
        return f"Lockable<{self.element.type_name}>"

    @property
    def children(self) -> tuple[tuple[str, Serializer], ...]:
        return (("element", self.element),)

    def arrow(self) -> pa.DataType:
        return pa.struct([pa.field("references", pa.int32()), pa.field("element", self.element.arrow())])

    def emit(self, program: Program) -> None:
        program.struct()
        with program.field(0):
            program.fixed(4)
        with program.field(1):
            self.element.emit(program)


class EventIdSerializer(BasicSerializer):
    java_class = _BUFFER + "EventId$EventIdSerializer"
    name, fixed_length = "EventId", 12
    arrow_type = pa.struct([pa.field("id", pa.int32()), pa.field("timestamp", pa.timestamp("ms"))])

    def emit(self, program: Program) -> None:
        program.struct()
        with program.field(0):
            program.fixed(4)
        with program.field(1):
            program.fixed(8)


class DeweyNumberSerializer(BasicSerializer):
    java_class = _NFA + "DeweyNumber$DeweyNumberSerializer"
    name, arrow_type = "DeweyNumber", pa.list_(pa.int32())

    def emit(self, program: Program) -> None:
        program.primitives(4)


@dataclass(frozen=True)
class NodeIdSerializer(Serializer):
    event_id: Serializer

    java_class = _BUFFER + "NodeId$NodeIdSerializer"

    @property
    def type_name(self) -> str:
        return "NodeId"

    @property
    def children(self) -> tuple[tuple[str, Serializer], ...]:
        return (("event_id", self.event_id),)

    def arrow(self) -> pa.DataType:
        return pa.struct([pa.field("event_id", self.event_id.arrow()), pa.field("page", pa.string())])

    def emit(self, program: Program) -> None:
        with program.nullable(null_flag=False):
            program.struct()
            with program.field(0):
                self.event_id.emit(program)
            with program.field(1):
                program.string()


@dataclass(frozen=True)
class SharedBufferEdgeSerializer(Serializer):
    node_id: Serializer
    version: Serializer

    java_class = _BUFFER + "SharedBufferEdge$SharedBufferEdgeSerializer"

    @property
    def type_name(self) -> str:
        return "SharedBufferEdge"

    @property
    def children(self) -> tuple[tuple[str, Serializer], ...]:
        return (("target", self.node_id), ("version", self.version))

    def arrow(self) -> pa.DataType:
        return pa.struct([pa.field(name, part.arrow()) for name, part in self.children])

    def emit(self, program: Program) -> None:
        program.struct()
        for index, (_, part) in enumerate(self.children):
            with program.field(index):
                part.emit(program)


@dataclass(frozen=True)
class SharedBufferNodeSerializer(Serializer):
    """A list of lockable edges."""

    edge: Serializer

    java_class = _BUFFER + "SharedBufferNodeSerializer"

    @property
    def type_name(self) -> str:
        return "SharedBufferNode"

    @property
    def children(self) -> tuple[tuple[str, Serializer], ...]:
        return (("[]", self.edge),)

    def arrow(self) -> pa.DataType:
        return pa.list_(LockableTypeSerializer(self.edge).arrow())

    def emit(self, program: Program) -> None:
        with program.list():
            LockableTypeSerializer(self.edge).emit(program)


@dataclass(frozen=True)
class LegacySharedBufferNodeSerializer(Serializer):
    """A list of edges."""

    edges: Serializer

    java_class = _BUFFER + "SharedBufferNode$SharedBufferNodeSerializer"

    @property
    def type_name(self) -> str:
        return "SharedBufferNode"

    @property
    def children(self) -> tuple[tuple[str, Serializer], ...]:
        return (("edges", self.edges),)

    def arrow(self) -> pa.DataType:
        return self.edges.arrow()

    def emit(self, program: Program) -> None:
        self.edges.emit(program)


@dataclass(frozen=True)
class NFAStateSerializer(Serializer):
    version: Serializer
    node_id: Serializer
    event_id: Serializer
    has_previous_timestamps: bool

    java_class = _NFA + "NFAStateSerializer"

    @property
    def type_name(self) -> str:
        return "NFAState"

    @property
    def children(self) -> tuple[tuple[str, Serializer], ...]:
        return (("version", self.version), ("previous", self.node_id), ("start_event", self.event_id))

    def arrow(self) -> pa.DataType:
        computation = pa.struct(
            [
                pa.field("state", pa.string()),
                pa.field("previous", self.node_id.arrow()),
                pa.field("version", self.version.arrow()),
                pa.field("start_timestamp", pa.timestamp("ms")),
                pa.field("previous_timestamp", pa.timestamp("ms")),
                pa.field("start_event", self.event_id.arrow()),
            ]
        )
        matches = pa.list_(computation)
        return pa.struct([pa.field("partial_matches", matches), pa.field("completed_matches", matches)])

    def emit(self, program: Program) -> None:
        program.struct()
        for index in range(2):
            with program.field(index), program.list():
                self._emit_computation(program)

    def _emit_computation(self, program: Program) -> None:
        program.struct()
        with program.field(0):
            program.string()
        with program.field(1):
            self.node_id.emit(program)
        with program.field(2):
            self.version.emit(program)
        with program.field(3):
            program.fixed(8)
        with program.field(4):
            if self.has_previous_timestamps:
                program.fixed(8)
            else:
                program.null()
        with program.field(5), program.nullable(null_flag=False):
            self.event_id.emit(program)


def _lockable(snapshot: SnapshotReader) -> Serializer:
    snapshot.composite()
    return LockableTypeSerializer(*snapshot.nested(1))


def _node_id(snapshot: SnapshotReader) -> Serializer:
    snapshot.composite()
    return NodeIdSerializer(*snapshot.nested(1))


def _edge(snapshot: SnapshotReader) -> Serializer:
    snapshot.composite()
    return SharedBufferEdgeSerializer(*snapshot.nested(2))


def _node(snapshot: SnapshotReader) -> Serializer:
    snapshot.composite()
    return SharedBufferNodeSerializer(*snapshot.nested(1))


def _legacy_node(snapshot: SnapshotReader) -> Serializer:
    snapshot.composite()
    return LegacySharedBufferNodeSerializer(*snapshot.nested(1))


def _nfa_state(snapshot: SnapshotReader) -> Serializer:
    version = snapshot.composite()
    has_previous_timestamps = version >= 2 and snapshot.cursor.boolean()
    version_serializer, node_id, event_id = snapshot.nested(3)
    return NFAStateSerializer(version_serializer, node_id, event_id, has_previous_timestamps)


SNAPSHOTS: dict[str, SnapshotBody] = {
    _BUFFER + "LockableTypeSerializerSnapshot": _lockable,
    _BUFFER + "EventId$EventIdSerializer$EventIdSerializerSnapshot": simple_body(EventIdSerializer()),
    _NFA + "DeweyNumber$DeweyNumberSerializer$DeweyNumberSerializerSnapshot": simple_body(
        DeweyNumberSerializer()
    ),
    _BUFFER + "NodeId$NodeIdSerializer$NodeIdSerializerSnapshot": _node_id,
    _BUFFER + "SharedBufferEdge$SharedBufferEdgeSerializer$SharedBufferEdgeSerializerSnapshot": _edge,
    _BUFFER + "SharedBufferNodeSerializerSnapshotV2": _node,
    _BUFFER + "SharedBufferNode$SharedBufferNodeSerializer$SharedBufferNodeSerializerSnapshot": _legacy_node,
    _NFA + "NFAStateSerializerSnapshot": _nfa_state,
}
