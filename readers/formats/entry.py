"""`Entry`: the serializers of a state's entries, the same in all formats.

An `Entry` is derived from the meta info of the state. A format composes its serializers into a layout, and `readers.rows` turns
decoded entries into rows. The machine fills these columns of an entry:

| kind | key | namespace | map_key | value |
|---|---|---|---|---|
| VALUE REDUCING AGGREGATING | ✓ | ✓ | | value (struct of value and last_access with TTL) |
| LIST | ✓ | ✓ | | list of elements |
| MAP whose entries are map entries (RocksDB, canonical) | ✓ | ✓ | ✓ | value |
| MAP whose entries are maps (heap) | ✓ | ✓ | | none; `WHOLE_MAP` has the map, or the raw one of `value` and `map_key` its bytes |
| TIMER | ✓ | ✓ | | timestamp |
| OPERATOR_LIST UNION_LIST | | | | element |
| BROADCAST | | | ✓ | value |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

import pyarrow as pa

from readers.decode.columns import NO_COLUMN, ColumnTree
from readers.decode.decoder import Decoder
from readers.decode.program import Code, Program
from readers.errors import CorruptDataError
from readers.metainfo import (
    DISTRIBUTION_MODE,
    KEY,
    KEYED_STATE_TYPE,
    NAMESPACE,
    VALUE,
    BackendStateType,
    StateMetaInfo,
)
from readers.schemas import UNDECODED
from readers.serializers.base import (
    OpaqueSerializer,
    Problem,
    Serializer,
    rebuild_undescribed,
    undescribed,
)
from readers.serializers.containers import ListSerializer, MapSerializer
from readers.serializers.operators import TimerSerializer, TtlSerializer
from readers.serializers.primitives import VoidNamespaceSerializer

WHOLE_MAP = "map"
"""Column of entries that are whole maps."""


class StateKind(Enum):
    """Flink's kinds of states; the names are those of `StateMeta.state_kind`."""

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
        kind: kind of the state.
        key, namespace: None if the state is not keyed.
        map_key: None if the state is neither MAP nor BROADCAST.
        value: serializer of one element, map value or value, with its TTL wrapper; None for timers.
    """

    kind: StateKind
    key: Serializer | None = None
    namespace: Serializer | None = None
    map_key: Serializer | None = None
    value: Serializer | None = None
    _raw: frozenset[str] | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def ttl(self) -> bool:
        """True if values carry the time of their last access."""
        return isinstance(self.value, TtlSerializer)

    def told(self) -> str:
        """Return what is expected of its bytes, for errors."""
        types = ", ".join(f"{name} {tree.type_name}" for name, tree in self._trees())
        return f"{self.kind.value} entries ({types})"

    def problems(self) -> Iterator[Problem]:
        """Yield the parts of an entry that are not decoded; a path begins with the column."""
        for name, tree in self._trees():
            for problem in tree.problems():
                yield Problem(path=(name, *problem.path), reason=problem.reason, sized=problem.sized)

    def is_raw(self, column: str) -> bool:
        """Return whether a column is shown as bytes because the end of a part of it is not known."""
        if self._raw is None:
            # Asked for a dozen times for each key that is looked up, and always the same.
            unsized = frozenset(problem.path[0] for problem in self.problems() if not problem.sized)
            object.__setattr__(self, "_raw", unsized)
        return self._raw is not None and column in self._raw

    @property
    def unquoted(self) -> frozenset[str]:
        """Columns of texts that never begin with a quotation mark: see `Serializer.is_unquoted`."""
        return frozenset(name for name, tree in self._trees() if tree.is_unquoted and not self.is_raw(name))

    @property
    def is_open(self) -> bool:
        """True if a value may be of a class that the savepoint does not describe; its bytes have a column of their own."""
        return self.value is not None and self.value.is_open and not self.is_raw("value")

    @property
    def holds_objects(self) -> bool:
        """True if it has objects of Kryo that are neither numbers nor plain texts."""
        return any(node.holds_objects for tree in self.serializers() for node in undescribed(tree))

    @property
    def is_assumed(self) -> bool:
        """True if the classes of jars say how a part of it is laid out."""
        return any(tree.is_assumed for tree in self.serializers())

    @property
    def older(self) -> Entry | None:
        """The entry as an earlier version of Flink wrote it, if a savepoint can hold both; see `readers.decode.versions`."""
        older = self.refined(lambda tree: rebuild_undescribed(tree, lambda node: node.in_older_version()))
        return None if older is self or self.is_raw("key") or self.is_raw("value") else older

    @property
    def has_undecoded(self) -> bool:
        """True if a value may have bytes that are not decoded: they have a column of their own."""
        return self.is_open or (self.value is not None and self.older is not None)

    @property
    def has_outliers(self) -> bool:
        """True if columns may be unable to hold a value; the text of such values has a column of its own."""
        return any(tree.has_outliers and not self.is_raw(name) for name, tree in self._trees())

    def refined(self, change: Callable[[Serializer], Serializer]) -> Entry:
        """Return the entry with `change` applied to its type trees."""
        changed: dict[str, Any] = {}
        for name, tree in self._trees():
            refined = change(tree)
            if refined is not tree:
                changed[name] = refined
        # Most trees stay as they are, and a savepoint may have thousands of states.
        return replace(self, **changed) if changed else self

    def part(self, name: str) -> Serializer:
        """Return the serializer of a part that entries of this kind have."""
        tree: Serializer | None = getattr(self, name)
        assert tree is not None
        return tree

    def serializers(self) -> Iterator[Serializer]:
        """Yield the roots of its type trees."""
        for _, tree in self._trees():
            yield tree

    def _trees(self) -> Iterator[tuple[str, Serializer]]:
        for name in ("key", "namespace", "map_key", "value"):
            tree: Serializer | None = getattr(self, name)
            if tree is not None:
                yield name, tree


class EntryLayout:
    """The columns of an entry in one format, of which only some are filled.

    Args:
        columns: name → type, in the order of the struct.
        wanted: the columns to fill; the machine steps over the others. None for all.
    """

    def __init__(self, columns: dict[str, pa.DataType], wanted: frozenset[str] | None = None) -> None:
        names = [name for name in columns if wanted is None or name in wanted]
        self.tree = ColumnTree(pa.struct([pa.field(name, columns[name]) for name in names]))
        self.names = names

    def column(self, program: Program, name: str) -> AbstractContextManager[None]:
        """Return a context: `with layout.column(program, "key"): …` fills that column, or steps over its bytes."""
        # In a walker, and within a part that is stepped over, no column is filled.
        if program.column == NO_COLUMN:
            return nullcontext()
        return program.field(self.names.index(name), name) if name in self.names else program.without_column()

    def emit(self, program: Program, entry: Entry, name: str) -> None:
        """Declare a part of an entry, and its column; a part without a known end takes all bytes that follow."""
        with self.column(program, name):
            program.rest() if entry.is_raw(name) else entry.part(name).emit(program)

    def null(self, program: Program, name: str) -> None:
        """Declare that a column is null."""
        with self.column(program, name):
            program.null()

    def decoder(
        self,
        emit: Callable[[Program, EntryLayout], None],
        emit_undescribed: Callable[[Program, EntryLayout], None] | None = None,
        *,
        is_assumed: bool = False,
        kept: frozenset[int] | None = None,
    ) -> Decoder:
        """Return the decoder of a layout.

        Args:
            emit: declares the layout of an entry.
            emit_undescribed: declares the layout of an entry whose value is of a class that the savepoint does not describe;
                None if the format cannot tell where such a value ends.
            is_assumed: whether an entry that contradicts `emit` is one of these, too.
            kept: columns whose objects are kept as bytes, see `Decoder`; None to read them.
        """
        return Decoder(
            # Of its own: a decoder learns from its batches how much room the next one needs.
            self.tree.anew() if kept is None else self.tree.with_bytes(kept),
            self.code(emit),
            undescribed=self.code(emit_undescribed) if emit_undescribed else None,
            is_assumed=is_assumed,
            keeps_objects=kept is not None,
        )

    def code(self, emit: Callable[[Program, EntryLayout], None]) -> Code:
        """Return the program of a layout."""
        program = Program(self.tree)
        emit(program, self)
        return program.finish()


def column_type(entry: Entry, name: str) -> pa.DataType:
    """Return the column type of a part: bytes if it cannot be decoded."""
    serializer: Serializer | None = getattr(entry, name)
    if serializer is None or entry.is_raw(name):
        return pa.binary()
    return serializer.arrow()


def emit_undescribed(
    program: Program,
    layout: EntryLayout,
    value: str = "value",
    *,
    emit_element: Callable[[Program], None] | None = None,
    counted: bool = False,
) -> None:
    """Declare a value of a class that the savepoint does not describe: null, and the bytes to the end of the segment.

    With `emit_element` the value is a list: the elements before the first undescribed one, then null for those whose bytes follow.

    Args:
        program, layout: of the entry.
        value: the column.
        emit_element: declares an element; None if the value is no list.
        counted: True if a count stands before the elements, False if a delimiter joins them.
    """
    with layout.column(program, value):
        if emit_element is None:
            program.null()
        else:
            with program.first_elements(counted=counted):
                emit_element(program)
    with layout.column(program, UNDECODED):
        program.rest()


def emit_undivided(program: Program, layout: EntryLayout, entry: Entry) -> None:
    """Declare entries whose ends are not known as one row: all bytes stand in the first column without a known end."""
    # If none is raw, only the class of a value is not described: its column has the type of the described classes.
    target = next(
        (name for name in ("key", "namespace", "value", "map_key") if entry.is_raw(name)), UNDECODED
    )
    for name in layout.names:
        if name != target:
            layout.null(program, name)
    with layout.column(program, target):
        program.rest()


def is_ambiguous(entry: Entry) -> bool:
    """Return whether a composite key carries lengths: both parts vary.

    Flink: CompositeKeySerializationUtils#isAmbiguousKeyPossible.
    """
    return entry.part("key").fixed_length < 0 and entry.part("namespace").fixed_length < 0


def map_serializer(entry: Entry) -> MapSerializer:
    """Return a MapSerializer of the entry's map keys and values: heap snapshots write whole maps."""
    return MapSerializer(entry.part("map_key"), entry.part("value"))


def keyed_entry(state: StateMetaInfo, key: Serializer) -> Entry:
    """Return the serializers of the entries of a registered keyed state.

    A LIST is registered with a ListSerializer and a MAP with a MapSerializer; state V2 registers the serializers of element and
    user value. Flink: RegisteredKeyValueStateBackendMetaInfo, RegisteredPriorityQueueStateBackendMetaInfo.

    Raises:
        CorruptDataError: the state is registered without a value serializer.
    """
    value = state.value_serializer
    if value is None:
        raise CorruptDataError(f"expected a value serializer of state {state.name}, found none")
    if state.kind is BackendStateType.PRIORITY_QUEUE:
        if not isinstance(value, TimerSerializer):
            # A serializer that is not known here: the key shows the bytes of the timer.
            return Entry(kind=StateKind.TIMER, key=value, namespace=VoidNamespaceSerializer())
        return Entry(kind=StateKind.TIMER, key=value.key, namespace=value.namespace)
    # StateDescriptor.Type may be UNKNOWN: such a state is shown as a VALUE of what its serializer reads.
    kind = StateKind(state.keyed_state_type) if state.keyed_state_type in _KEYED_KINDS else StateKind.VALUE
    map_key = None
    is_whole = state.kind is not BackendStateType.KEY_VALUE_V2
    if kind is StateKind.LIST and is_whole and isinstance(value, ListSerializer):
        value = value.element
    elif kind is StateKind.MAP:
        # RocksDB has the map key in the composite key, apart from the value.
        if is_whole and isinstance(value, MapSerializer):
            map_key, value = value.key, value.value
        else:
            map_key = state.user_key_serializer or OpaqueSerializer(
                "?", "the map key's serializer is not recorded"
            )
    namespace = state.namespace_serializer or VoidNamespaceSerializer()
    return Entry(kind=kind, key=key, namespace=namespace, map_key=map_key, value=value)


def operator_entry(state: StateMetaInfo) -> Entry:
    """Return the serializers of the entries of a registered operator state."""
    # SPLIT_DISTRIBUTE is Flink's default.
    kind = _OPERATOR_KINDS.get(state.distribution_mode or "", StateKind.OPERATOR_LIST)
    value = state.value_serializer or OpaqueSerializer("?", "the serializer is not recorded")
    if kind is not StateKind.BROADCAST:
        return Entry(kind=kind, value=value)
    map_key = state.key_serializer or OpaqueSerializer("?", "the key's serializer is not recorded")
    return Entry(kind=kind, map_key=map_key, value=value)


def state_meta_info(name: str, entry: Entry) -> StateMetaInfo:
    """Return the registration of a state with such entries, as Flink's backends make it."""
    if entry.kind is StateKind.TIMER:
        timer = TimerSerializer(entry.part("key"), entry.part("namespace"))
        return StateMetaInfo(
            name=name, kind=BackendStateType.PRIORITY_QUEUE, options={}, serializers={VALUE: timer}
        )
    value = entry.part("value")
    if entry.kind in _DISTRIBUTIONS:
        of_keys = {} if entry.map_key is None else {KEY: entry.map_key}
        return StateMetaInfo(
            name=name,
            kind=BackendStateType.BROADCAST if of_keys else BackendStateType.OPERATOR,
            options={DISTRIBUTION_MODE: _DISTRIBUTIONS[entry.kind]},
            serializers={VALUE: value} | of_keys,
        )
    if entry.kind is StateKind.LIST:
        value = ListSerializer(value)
    elif entry.kind is StateKind.MAP:
        value = map_serializer(entry)
    return StateMetaInfo(
        name=name,
        kind=BackendStateType.KEY_VALUE,
        options={KEYED_STATE_TYPE: entry.kind.value},
        serializers={VALUE: value, NAMESPACE: entry.part("namespace")},
    )


_KEYED_KINDS = frozenset({"VALUE", "LIST", "MAP", "REDUCING", "AGGREGATING", "FOLDING"})
_OPERATOR_KINDS = {
    "SPLIT_DISTRIBUTE": StateKind.OPERATOR_LIST,
    "UNION": StateKind.UNION_LIST,
    "BROADCAST": StateKind.BROADCAST,
}
_DISTRIBUTIONS = {kind: mode for mode, kind in _OPERATOR_KINDS.items()}
