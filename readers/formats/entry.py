"""What an entry of a state is made of, whatever file it stands in.

`Entry` is derived from the state's meta info; a format composes its serializers into bytes, `readers.rows` turns
what comes out into rows. Columns of an entry, as the machine fills them:

| kind | key | namespace | map_key | value |
|---|---|---|---|---|
| VALUE REDUCING AGGREGATING | ✓ | ✓ | | value (struct of value and last_access with TTL) |
| LIST | ✓ | ✓ | | list of elements |
| MAP, an entry a map entry (RocksDB, canonical) | ✓ | ✓ | ✓ | value |
| MAP, an entry a map (heap) | ✓ | ✓ | | `WHOLE_MAP` in place of it: map |
| TIMER | ✓ | ✓ | | timestamp |
| OPERATOR_LIST UNION_LIST | | | | element |
| BROADCAST | | | ✓ | value |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import pyarrow as pa

from readers.decode.columns import NO_COLUMN, ColumnTree
from readers.decode.decoder import Decoder
from readers.decode.program import Code, Program
from readers.errors import CorruptDataError
from readers.headers.metainfo import BackendStateType, StateMetaInfo
from readers.serializers.base import OpaqueSerializer, Problem, Serializer
from readers.serializers.containers import ListSerializer, MapSerializer
from readers.serializers.operators import TimerSerializer, TtlSerializer
from readers.serializers.primitives import VoidNamespaceSerializer

WHOLE_MAP = "map"
"""The column of entries that are whole maps."""


UNDECODED = (
    "_undecoded"  # the bytes of a value whose class the savepoint does not describe; the value is null
)

OUT_OF_RANGE = "_out_of_range"  # JSON text of what other columns have NULL for, as their types cannot hold it


class StateKind(Enum):
    """What Flink calls the state; the names of `StateMeta.state_kind`."""

    VALUE = "VALUE"
    LIST = "LIST"
    MAP = "MAP"
    REDUCING = "REDUCING"
    AGGREGATING = "AGGREGATING"
    FOLDING = "FOLDING"
    TIMER = "TIMER"
    OPERATOR_LIST = "OPERATOR_LIST"
    UNION_LIST = "UNION_LIST"
    BROADCAST = "BROADCAST"
    RAW_KEYED = "RAW_KEYED"
    RAW_OPERATOR = "RAW_OPERATOR"
    COORDINATOR = "COORDINATOR"
    CHANNEL = "CHANNEL"
    MASTER = "MASTER"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The serializers of one state's entries.

    Attributes:
        kind: the state's kind.
        key, namespace: None where the state is not keyed.
        map_key: of MAP and BROADCAST.
        value: of one element, map value or value, with its TTL wrapper; None for timers.
    """

    kind: StateKind
    key: Serializer | None = None
    namespace: Serializer | None = None
    map_key: Serializer | None = None
    value: Serializer | None = None

    @property
    def ttl(self) -> bool:
        """Whether values carry the time of their last access."""
        return isinstance(self.value, TtlSerializer)

    def problems(self) -> Iterator[Problem]:
        """What of an entry is not decoded; the first name of a path is the column."""
        for name, tree in self._trees():
            for problem in tree.problems():
                yield Problem(path=(name, *problem.path), reason=problem.reason, sized=problem.sized)

    def is_raw(self, column: str) -> bool:
        """Whether a column can only be shown as bytes, because the end of a part of it is not known."""
        return any(problem.path[0] == column and not problem.sized for problem in self.problems())

    @property
    def is_open(self) -> bool:
        """Whether a value may be of a class that the savepoint does not describe; then its bytes have a column."""
        return self.value is not None and self.value.is_open and not self.is_raw("value")

    @property
    def has_outliers(self) -> bool:
        """Whether there are values that their columns cannot hold; then their text has a column."""
        return any(tree.has_outliers and not self.is_raw(name) for name, tree in self._trees())

    def refined(self, change: Callable[[Serializer], Serializer]) -> Entry:
        """The entry with `change` applied to its type trees."""
        changed: dict[str, Any] = {name: change(tree) for name, tree in self._trees()}
        return replace(self, **changed)

    def serializers(self) -> Iterator[Serializer]:
        """The roots of its type trees."""
        for _, tree in self._trees():
            yield tree

    def _trees(self) -> Iterator[tuple[str, Serializer]]:
        for name in ("key", "namespace", "map_key", "value"):
            tree: Serializer | None = getattr(self, name)
            if tree is not None:
                yield name, tree


class EntryLayout:
    """The columns of an entry in one format, and the way to emit into those that are wanted.

    Args:
        columns: name → type, in the order of the struct.
        wanted: the columns to fill; the others are read over.
    """

    def __init__(self, columns: dict[str, pa.DataType], wanted: frozenset[str] | None = None) -> None:
        names = [name for name in columns if wanted is None or name in wanted]
        self.tree = ColumnTree(pa.struct([pa.field(name, columns[name]) for name in names]))
        self.names = names

    def column(self, program: Program, name: str) -> AbstractContextManager[None]:
        """`with layout.column(program, "key"): …` emits into that column, or over it."""
        if program.column == NO_COLUMN:
            return nullcontext()
        return program.field(self.names.index(name), name) if name in self.names else program.without_column()

    def decoder(
        self,
        emit: Callable[[Program, EntryLayout], None],
        emit_undescribed: Callable[[Program, EntryLayout], None] | None = None,
    ) -> Decoder:
        """The decoder of a program that `emit` declares.

        `emit_undescribed` declares how entries are read whose value is of a class that the savepoint does not describe.
        """
        return Decoder(
            self.tree,
            self._code(emit),
            undescribed=self._code(emit_undescribed) if emit_undescribed else None,
        )

    def _code(self, emit: Callable[[Program, EntryLayout], None]) -> Code:
        program = Program(self.tree)
        emit(program, self)
        return program.finish()


def value_type(entry: Entry) -> pa.DataType:
    """The column type of one value; bytes where it cannot be decoded."""
    if entry.value is None or entry.is_raw("value"):
        return pa.binary()
    return entry.value.arrow()


def column_type(entry: Entry, name: str) -> pa.DataType:
    """The column type of key, namespace or map_key; bytes where it cannot be decoded."""
    serializer: Serializer | None = getattr(entry, name)
    if serializer is None or entry.is_raw(name):
        return pa.binary()
    return serializer.arrow()


def emit_namespace(program: Program, layout: EntryLayout, namespace: Serializer) -> None:
    """A namespace; VoidNamespace's byte must be 0, and is shown as null."""
    with layout.column(program, "namespace"):
        namespace.emit(program)


def emit_undescribed(program: Program, layout: EntryLayout, value: str = "value") -> None:
    """A value of a class that the savepoint does not describe: null, and the bytes to the end of the segment."""
    with layout.column(program, value):
        program.null()
    with layout.column(program, UNDECODED):
        program.rest()


def emit_undivided(program: Program, layout: EntryLayout, entry: Entry) -> None:
    """A run of entries that cannot be told apart: all of its bytes, in the column whose end is not known."""
    place = next((name for name in ("key", "namespace") if entry.is_raw(name)), "value")
    if place == "value" and not entry.is_raw("value") and not entry.is_raw("map_key"):
        place = UNDECODED
    for name in layout.names:
        if name != place:
            with layout.column(program, name):
                program.null()
    with layout.column(program, place):
        program.rest()


def is_ambiguous(key: Serializer, namespace: Serializer) -> bool:
    """Whether a composite key carries lengths: both parts vary. Flink: CompositeKeySerializationUtils#isAmbiguousKeyPossible."""
    return key.fixed_length < 0 and namespace.fixed_length < 0


def map_serializer(entry: Entry) -> MapSerializer:
    """The entry's map keys and values as Flink's MapSerializer, which heap snapshots use."""
    assert entry.map_key is not None
    assert entry.value is not None
    return MapSerializer(entry.map_key, entry.value)


def keyed_entry(state: StateMetaInfo, key: Serializer) -> Entry:
    """What the entries of a registered keyed state are made of.

    A LIST is registered with a ListSerializer and a MAP with a MapSerializer; state V2 registers element and user value
    themselves. Flink: RegisteredKeyValueStateBackendMetaInfo, RegisteredPriorityQueueStateBackendMetaInfo.
    """
    value = state.value_serializer
    if value is None:
        raise CorruptDataError(f"expected a value serializer of state {state.name}, found none")
    if state.kind is BackendStateType.PRIORITY_QUEUE:
        if not isinstance(value, TimerSerializer):
            return Entry(kind=StateKind.TIMER, key=value, namespace=VoidNamespaceSerializer())
        return Entry(kind=StateKind.TIMER, key=value.key, namespace=value.namespace)
    kind = StateKind(state.keyed_state_type) if state.keyed_state_type in _KEYED_KINDS else StateKind.VALUE
    map_key = None
    is_whole = state.kind is not BackendStateType.KEY_VALUE_V2
    if kind is StateKind.LIST and is_whole and isinstance(value, ListSerializer):
        value = value.element
    elif kind is StateKind.MAP:
        if is_whole and isinstance(value, MapSerializer):
            map_key, value = value.key, value.value
        else:
            map_key = state.user_key_serializer or OpaqueSerializer(
                "?", "the map key's serializer is not recorded"
            )
    namespace = state.namespace_serializer or VoidNamespaceSerializer()
    return Entry(kind=kind, key=key, namespace=namespace, map_key=map_key, value=value)


def operator_entry(state: StateMetaInfo) -> Entry:
    """What the entries of a registered operator state are made of."""
    kind = _OPERATOR_KINDS.get(state.distribution_mode or "", StateKind.OPERATOR_LIST)
    value = state.value_serializer or OpaqueSerializer("?", "the serializer is not recorded")
    if kind is not StateKind.BROADCAST:
        return Entry(kind=kind, value=value)
    map_key = state.key_serializer or OpaqueSerializer("?", "the key's serializer is not recorded")
    return Entry(kind=kind, map_key=map_key, value=value)


_KEYED_KINDS = frozenset({"VALUE", "LIST", "MAP", "REDUCING", "AGGREGATING", "FOLDING"})
_OPERATOR_KINDS = {
    "SPLIT_DISTRIBUTE": StateKind.OPERATOR_LIST,
    "UNION": StateKind.UNION_LIST,
    "BROADCAST": StateKind.BROADCAST,
}
