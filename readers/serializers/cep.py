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

Up to 1.5 one value held the whole automaton of a key; later versions still register that state, and leave it empty. Its states are
`i4 n, n × (string name, i4 type)`, then n times `string name, i4 m, m × (string from, string to, i4 action,
bool present, i4 length, Java stream of the condition)`; they are shown as JSON text. A page is `name, i4 n, n × (event,
i8 timestamp, i4 counter, i4 references)`, an edge `i4 from, i4 to, DeweyNumber`, entries counted over all pages; a
computation `string state, string previous, i8 timestamp, DeweyNumber, i8 start timestamp, i4 counter, bool present, event`.

Later computations are `i4 n`, then n times `string state, NodeId previous, DeweyNumber version, i8 start timestamp,
[i8 previous timestamp,] bool present, EventId start event`. Composite version 1 has no previous timestamps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from readers.cursor import Cursor
from readers.decode.program import Program
from readers.javaio import JavaObject, read_object
from readers.serializers import structs
from readers.serializers.base import Layout, Serializer, Snapshot, SnapshotBody, composite_body, simple_body
from readers.serializers.primitives import BasicSerializer

_NFA = "org.apache.flink.cep.nfa."
_BUFFER = _NFA + "sharedbuffer."
# The constants of `StateType` and `StateTransitionAction`, in Flink's order.
_STATE_TYPES = ("Start", "Final", "Normal", "Stop")
_ACTIONS = ("TAKE", "IGNORE", "PROCEED")


@dataclass(frozen=True)
class LockableTypeSerializer(structs.StructSerializer, package=_BUFFER + "Lockable$"):
    """A value with the number of references to it."""

    element: Serializer

    name = "Lockable"

    @property
    def layout(self) -> structs.StructLayout:
        return structs.StructLayout(("references", structs.INT), ("element", self.element))


class EventIdSerializer(structs.StructSerializer, BasicSerializer, package=_BUFFER + "EventId$"):
    """The id of an event: its number among the events of one timestamp."""

    name, fixed_length = "EventId", 12
    layout = structs.StructLayout(("id", structs.INT), ("timestamp", structs.MILLISECONDS))


class DeweyNumberSerializer(BasicSerializer, package=_NFA + "DeweyNumber$"):
    """The version of a partial match: 1.0.2, as a list."""

    name, layout = "DeweyNumber", structs.INTS


@dataclass(frozen=True)
class NodeIdSerializer(structs.StructSerializer, package=_BUFFER + "NodeId$"):
    """The id of a node of the shared buffer, or null: an event under the name of a pattern."""

    event_id: Serializer

    type_name = "NodeId"

    @property
    def layout(self) -> structs.StructLayout:
        return structs.StructLayout(("event_id", self.event_id), ("page", structs.STRING))

    def emit(self, program: Program) -> None:
        structs.OptionalLayout(self.layout).emit(program)


@dataclass(frozen=True)
class SharedBufferEdgeSerializer(structs.StructSerializer, package=_BUFFER + "SharedBufferEdge$"):
    """An edge to the node of the event before."""

    node_id: Serializer
    version: Serializer

    type_name = "SharedBufferEdge"

    @property
    def layout(self) -> structs.StructLayout:
        return structs.StructLayout(("target", self.node_id), ("version", self.version))


@dataclass(frozen=True)
class SharedBufferNodeSerializer(Serializer, package=_BUFFER):
    """A list of lockable edges."""

    edge: Serializer

    type_name = "SharedBufferNode"

    @property
    def children(self) -> tuple[tuple[str, Serializer], ...]:
        return (("[]", self.edge),)

    @property
    def layout(self) -> structs.ListLayout:
        return structs.ListLayout(LockableTypeSerializer(self.edge))


@dataclass(frozen=True)
class LegacySharedBufferNodeSerializer(Serializer):
    """A list of edges, whose serializer is nested."""

    edges: Serializer

    java_class = _BUFFER + "SharedBufferNode$SharedBufferNodeSerializer"
    type_name = "SharedBufferNode"

    @property
    def children(self) -> tuple[tuple[str, Serializer], ...]:
        return (("edges", self.edges),)

    @property
    def layout(self) -> Layout:
        return self.edges


@dataclass(frozen=True)
class NFAStateSerializer(structs.StructSerializer, package=_NFA):
    """The state of the automaton of one key: its partial and its completed matches."""

    version: Serializer
    node_id: Serializer
    event_id: Serializer
    has_previous_timestamps: bool

    type_name = "NFAState"

    @property
    def children(self) -> tuple[tuple[str, Serializer], ...]:
        return (("version", self.version), ("previous", self.node_id), ("start_event", self.event_id))

    @property
    def layout(self) -> structs.StructLayout:
        computation = structs.StructLayout(
            ("state", structs.STRING),
            ("previous", self.node_id),
            ("version", self.version),
            ("start_timestamp", structs.MILLISECONDS),
            (
                "previous_timestamp",
                structs.MILLISECONDS
                if self.has_previous_timestamps
                else structs.AbsentLayout(structs.MILLISECONDS),
            ),
            ("start_event", structs.OptionalLayout(self.event_id)),
        )
        matches = structs.ListLayout(computation)
        return structs.StructLayout(("partial_matches", matches), ("completed_matches", matches))


def _states(cursor: Cursor) -> dict[str, Any]:
    """Read the states and transitions of an automaton of up to 1.5."""
    count = cursor.count("states", 5)
    states = [{"name": cursor.string("state"), "type": _named(cursor, _STATE_TYPES)} for _ in range(count)]
    return {
        "states": states,
        "transitions": [transition for _ in range(count) for transition in _transitions(cursor)],
    }


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
    # A condition is an object of a user's class: its class name is all that is shown of it.
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
class PagedBufferSerializer(structs.StructSerializer):
    """The shared buffer of up to 1.5."""

    page_name: Serializer
    event: Serializer

    java_class = _NFA + "SharedBuffer$SharedBufferSerializer"

    @property
    def type_name(self) -> str:
        return f"SharedBuffer<{self.event.type_name}>"

    @property
    def children(self) -> tuple[tuple[str, Serializer], ...]:
        return (("name", self.page_name), ("event", self.event))

    @property
    def layout(self) -> structs.StructLayout:
        entry = structs.StructLayout(
            ("event", self.event),
            ("timestamp", structs.MILLISECONDS),
            ("counter", structs.INT),
            ("references", structs.INT),
        )
        page = structs.StructLayout(("name", self.page_name), ("entries", structs.ListLayout(entry)))
        edge = structs.StructLayout(("from", structs.INT), ("to", structs.INT), ("version", structs.INTS))
        return structs.StructLayout(("pages", structs.ListLayout(page)), ("edges", structs.ListLayout(edge)))


@dataclass(frozen=True)
class MigratedNFASerializer(structs.StructSerializer):
    """The automaton of one key up to 1.5: its states, its shared buffer, its partial matches."""

    event: Serializer
    buffer: Serializer

    java_class = _NFA + "NFA$NFASerializer"

    @property
    def type_name(self) -> str:
        return f"NFA<{self.event.type_name}>"

    @property
    def children(self) -> tuple[tuple[str, Serializer], ...]:
        return (("event", self.event), ("buffer", self.buffer))

    @property
    def layout(self) -> structs.StructLayout:
        computation = structs.StructLayout(
            ("state", structs.STRING),
            ("previous", structs.STRING),
            ("timestamp", structs.MILLISECONDS),
            ("version", structs.INTS),
            ("start_timestamp", structs.MILLISECONDS),
            ("counter", structs.INT),
            ("event", structs.OptionalLayout(self.event)),
        )
        return structs.StructLayout(
            ("states", _STATES),
            ("window_time", structs.LONG),
            ("handle_timeout", structs.BOOLEAN),
            ("buffer", self.buffer),
            ("computations", structs.ListLayout(computation)),
        )


_STATES = structs.JsonLayout(_states)


def _nfa_state(snapshot: Snapshot) -> Serializer:
    version = snapshot.composite()
    # Composite version 1 has no flag and no such timestamps.
    has_previous_timestamps = version >= 2 and snapshot.cursor.boolean()
    version_serializer, node_id, event_id = snapshot.nested(3)
    return NFAStateSerializer(version_serializer, node_id, event_id, has_previous_timestamps)


def _paged_buffer(snapshot: Snapshot) -> Serializer:
    snapshot.composite()
    name, event, _ = snapshot.nested(3)  # the third, of versions, is always that of DeweyNumber
    return PagedBufferSerializer(name, event)


# Snapshot classes that are nested in their serializer, which is nested in the class of its values.
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
