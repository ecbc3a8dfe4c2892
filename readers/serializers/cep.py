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

| NFA (up to 1.5) | composite 2: [event, SharedBuffer] | states, i8 window, bool timeouts, SharedBuffer, computations |
| SharedBuffer (up to 1.5) | composite 2: [name, event, version] | pages, edges |

Up to 1.5 a key had its whole automaton in one value, and later versions keep that state registered, and empty. Its states are
`i4 n, n × (string name, i4 type)`, then n times `string name, i4 m, m × (string from, string to, i4 action,
bool present, i4 length, Java stream of the condition)`; they are shown as JSON text. A page is `name, i4 n, n × (event,
i8 timestamp, i4 counter, i4 references)`, an edge `i4 from, i4 to, DeweyNumber`, entries counted over all pages; a
computation `string state, string previous, i8 timestamp, DeweyNumber, i8 start timestamp, i4 counter, bool present, event`.

Later computations are `i4 n`, then n times `string state, NodeId previous, DeweyNumber version, i8 start timestamp,
[i8 previous timestamp,] bool present, EventId start event`. Composite version 1 has no previous timestamps.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from readers.cursor import Cursor
from readers.decode.program import Program, PythonLeaf
from readers.javaio import JavaObject, read_object
from readers.serializers.base import Serializer
from readers.serializers.leaves import json_text
from readers.serializers.primitives import BasicSerializer
from readers.serializers.snapshot import Snapshot, SnapshotBody, composite_body, simple_body

_NFA = "org.apache.flink.cep.nfa."
_BUFFER = _NFA + "sharedbuffer."
_STATE_TYPES = ("Start", "Final", "Normal", "Stop")
_ACTIONS = ("TAKE", "IGNORE", "PROCEED")
_COMPUTATION = (
    pa.field("state", pa.string()),
    pa.field("previous", pa.string()),
    pa.field("timestamp", pa.timestamp("ms")),
    pa.field("version", pa.list_(pa.int32())),
    pa.field("start_timestamp", pa.timestamp("ms")),
    pa.field("counter", pa.int32()),
)


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


class StatesLeaf:
    """The states and transitions of an automaton of up to 1.5, as JSON text."""

    def read(self, data: memoryview, position: int, limit: int) -> tuple[bytes | None, int]:
        cursor = Cursor(data, position=position, end=limit)
        count = cursor.count("states", 5)
        states = [
            {"name": cursor.string("state"), "type": _named(cursor, _STATE_TYPES)} for _ in range(count)
        ]
        transitions = [transition for _ in range(count) for transition in _transitions(cursor)]
        return json_text({"states": states, "transitions": transitions}), cursor.position

    def last(self) -> PythonLeaf:
        return self


def _transitions(cursor: Cursor) -> list[dict[str, str | None]]:
    cursor.string("state")
    return [_transition(cursor) for _ in range(cursor.count("transitions", 7))]


def _transition(cursor: Cursor) -> dict[str, str | None]:
    transition = {
        "from": cursor.string("state"),
        "to": cursor.string("state"),
        "action": _named(cursor, _ACTIONS),
        "condition": None,
    }
    if cursor.boolean():
        condition = read_object(cursor.sub(cursor.i4(), "condition"))
        transition["condition"] = condition.class_name if isinstance(condition, JavaObject) else None
    return transition


def _named(cursor: Cursor, names: tuple[str, ...]) -> str:
    ordinal = cursor.i4()
    if not 0 <= ordinal < len(names):
        raise cursor.corrupt(f"expected one of {', '.join(names)}, found {ordinal}", cursor.position - 4)
    return names[ordinal]


@dataclass(frozen=True)
class PagedBufferSerializer(Serializer):
    """The shared buffer of up to 1.5."""

    name: Serializer
    event: Serializer

    java_class = _NFA + "SharedBuffer$SharedBufferSerializer"

    @property
    def type_name(self) -> str:
        return f"SharedBuffer<{self.event.type_name}>"

    @property
    def children(self) -> tuple[tuple[str, Serializer], ...]:
        return (("name", self.name), ("event", self.event))

    def arrow(self) -> pa.DataType:
        entry = pa.struct(
            [
                pa.field("event", self.event.arrow()),
                pa.field("timestamp", pa.timestamp("ms")),
                pa.field("counter", pa.int32()),
                pa.field("references", pa.int32()),
            ]
        )
        page = pa.struct([pa.field("name", self.name.arrow()), pa.field("entries", pa.list_(entry))])
        edge = pa.struct(
            [
                pa.field("from", pa.int32()),
                pa.field("to", pa.int32()),
                pa.field("version", pa.list_(pa.int32())),
            ]
        )
        return pa.struct([pa.field("pages", pa.list_(page)), pa.field("edges", pa.list_(edge))])

    def emit(self, program: Program) -> None:
        program.struct()
        with program.field(0), program.list():
            program.struct()
            with program.field(0):
                self.name.emit(program)
            with program.field(1), program.list():
                self._emit_entry(program)
        with program.field(1), program.list():
            program.struct()
            for index in range(2):
                with program.field(index):
                    program.fixed(4)
            with program.field(2):
                program.primitives(4)

    def _emit_entry(self, program: Program) -> None:
        program.struct()
        with program.field(0):
            self.event.emit(program)
        with program.field(1):
            program.fixed(8)
        for index in (2, 3):
            with program.field(index):
                program.fixed(4)


@dataclass(frozen=True)
class MigratedNFASerializer(Serializer):
    """The automaton of up to 1.5, with all that a key keeps."""

    event: Serializer
    buffer: Serializer

    java_class = _NFA + "NFA$NFASerializer"

    @property
    def type_name(self) -> str:
        return f"NFA<{self.event.type_name}>"

    @property
    def children(self) -> tuple[tuple[str, Serializer], ...]:
        return (("event", self.event), ("buffer", self.buffer))

    def arrow(self) -> pa.DataType:
        return pa.struct(
            [
                pa.field("states", pa.string()),
                pa.field("window_time", pa.int64()),
                pa.field("handle_timeout", pa.bool_()),
                pa.field("buffer", self.buffer.arrow()),
                pa.field(
                    "computations",
                    pa.list_(pa.struct([*_COMPUTATION, pa.field("event", self.event.arrow())])),
                ),
            ]
        )

    def emit(self, program: Program) -> None:
        program.struct()
        with program.field(0):
            program.python(StatesLeaf())
        with program.field(1):
            program.fixed(8)
        with program.field(2):
            program.boolean()
        with program.field(3):
            self.buffer.emit(program)
        with program.field(4), program.list():
            self._emit_computation(program)

    def _emit_computation(self, program: Program) -> None:
        program.struct()
        for index, field in enumerate(_COMPUTATION):
            with program.field(index):
                if pa.types.is_string(field.type):
                    program.string()
                elif pa.types.is_list(field.type):
                    program.primitives(4)
                else:
                    program.fixed(4 if field.type == pa.int32() else 8)
        with program.field(len(_COMPUTATION)), program.nullable(null_flag=False):
            self.event.emit(program)


def _nfa_state(snapshot: Snapshot) -> Serializer:
    version = snapshot.composite()
    has_previous_timestamps = version >= 2 and snapshot.cursor.boolean()
    version_serializer, node_id, event_id = snapshot.nested(3)
    return NFAStateSerializer(version_serializer, node_id, event_id, has_previous_timestamps)


def _paged_buffer(snapshot: Snapshot) -> Serializer:
    snapshot.composite()
    name, event, _ = snapshot.nested(3)
    return PagedBufferSerializer(name, event)


# Nested classes of CEP have a snapshot that is nested in their serializer.
_EVENT_ID = EventIdSerializer.java_class + "$EventIdSerializerSnapshot"
_DEWEY_NUMBER = DeweyNumberSerializer.java_class + "$DeweyNumberSerializerSnapshot"
_NODE_ID = NodeIdSerializer.java_class + "$NodeIdSerializerSnapshot"
_EDGE = SharedBufferEdgeSerializer.java_class + "$SharedBufferEdgeSerializerSnapshot"
_LEGACY_NODE = LegacySharedBufferNodeSerializer.java_class + "$SharedBufferNodeSerializerSnapshot"

SNAPSHOTS: dict[str, SnapshotBody] = {
    _BUFFER + "LockableTypeSerializerSnapshot": composite_body(LockableTypeSerializer, 1),
    _EVENT_ID: simple_body(EventIdSerializer()),
    _DEWEY_NUMBER: simple_body(DeweyNumberSerializer()),
    _NODE_ID: composite_body(NodeIdSerializer, 1),
    _EDGE: composite_body(SharedBufferEdgeSerializer, 2),
    _BUFFER + "SharedBufferNodeSerializerSnapshotV2": composite_body(SharedBufferNodeSerializer, 1),
    _LEGACY_NODE: composite_body(LegacySharedBufferNodeSerializer, 1),
    _NFA + "NFAStateSerializerSnapshot": _nfa_state,
    _NFA + "NFA$MigratedNFASerializerSnapshot": composite_body(MigratedNFASerializer, 2),
    _NFA + "SharedBuffer$SharedBufferSerializerSnapshot": _paged_buffer,
}
