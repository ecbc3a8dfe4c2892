"""What is known of a savepoint beside its state files, applied to the types in them.

`stateInfo` refines and never overrides: it names fields that have no names, and tells a REDUCING state from a VALUE.
Where it contradicts the bytes, the bytes are right and the contradiction is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from readers.formats.entry import Entry, StateKind
from readers.serializers.base import RecordSerializer, Serializer, rebuilt
from readers.serializers.kryo.serializer import KRYO_1, KRYO_2, informed
from readers.serializers.kryo.settings import KryoClass
from readers.serializers.named import serializer_named
from readers.serializers.operators import TtlSerializer
from readers.serializers.pojo import PojoField, PojoSerializer, with_subclasses
from readers.serializers.primitives import BytePrimitiveArraySerializer
from readers.serializers.protobuf.descriptors import Descriptors
from readers.serializers.protobuf.serializer import ProtobufSerializer
from readers.serializers.table.rowdata import RowDataSerializer
from readers.stateinfo.file import OperatorInfo, PojoSubclass, StateInfo, TypeInfo

_FIRST_WITH_KRYO_2 = 5  # version of `_metadata`: Flink 2.0
_REFINED_KINDS = frozenset({StateKind.REDUCING, StateKind.AGGREGATING, StateKind.FOLDING})


@dataclass(frozen=True, slots=True)
class Contradiction:
    """What `stateInfo` says and the savepoint does not; or why the file is not used."""

    message: str

    def __str__(self) -> str:
        return f"stateInfo: {self.message}"


def _contradiction(what: str, found: str, stated: str) -> Contradiction:
    return Contradiction(f"expected {what} {found} as the savepoint has it, found {stated}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """What applies to the states of one operator.

    Attributes:
        kryo: which Kryo its Flink has.
        classes: what is known of classes whose objects Kryo wrote.
        subclasses: of POJOs, which the savepoint may not describe.
        descriptors: of protobuf messages.
        operator: what `stateInfo` says of the operator.
        problems: why there is no `stateInfo`, though there is a file.
    """

    kryo: int
    classes: Mapping[str, KryoClass] = field(default_factory=dict)
    subclasses: tuple[PojoSubclass, ...] = ()
    descriptors: Descriptors | None = None
    operator: OperatorInfo | None = None
    problems: tuple[Contradiction, ...] = ()

    def informed(self, serializer: Serializer) -> Serializer:
        """A type tree whose Kryo serializers know their version and classes, and whose POJOs know their subclasses."""
        tree = informed(serializer, self.kryo, self.classes, self.descriptors)
        return rebuilt(tree, self._with_subclasses) if self.subclasses else tree

    def _with_subclasses(self, node: Serializer) -> Serializer:
        if not isinstance(node, PojoSerializer):
            return node
        described = {
            subclass.name: _subclass(node, subclass)
            for subclass in self.subclasses
            if subclass.extends == node.pojo_class
        }
        return with_subclasses(node, {node.pojo_class: described}) if described else node

    def refined(self, name: str, entry: Entry) -> tuple[Entry, tuple[Contradiction, ...]]:
        """The entry of a state with what `stateInfo` says of it, and what of that cannot be."""
        if self.operator is None:
            return entry, self.problems
        contradictions = list(self.problems)
        state = self.operator.state(name, entry.kind)
        parts: list[tuple[str, TypeInfo | None]] = [("key", self.operator.key)]
        if state is not None:
            parts += [("namespace", state.namespace), ("map_key", state.map_key), ("value", state.value)]
            entry = replace(entry, kind=_refined_kind(entry, state, contradictions))
        for part, info in parts:
            tree: Serializer | None = getattr(entry, part)
            if info is not None and tree is not None:
                types = {tree.type_name}
                if info.message is not None:
                    tree = self._with_message(part, tree, info.message, contradictions)
                changed: dict[str, Any] = {part: _refined_tree(part, tree, info, types, contradictions)}
                entry = replace(entry, **changed)
        return entry, tuple(contradictions)

    def _with_message(
        self, part: str, tree: Serializer, message: str, contradictions: list[Contradiction]
    ) -> Serializer:
        """The tree with messages in the place of its `byte[]`."""
        if self.descriptors is None or message not in self.descriptors.messages:
            contradictions.append(Contradiction(f"expected a descriptor of {message}, found none"))
            return tree
        serializer = ProtobufSerializer(message, self.descriptors)
        changed = rebuilt(
            tree, lambda node: serializer if isinstance(node, BytePrimitiveArraySerializer) else node
        )
        if changed is tree:
            contradictions.append(_contradiction(f"the {part} type", tree.type_name, f"a message {message}"))
        return changed


def kryo_of(metadata_version: int) -> int:
    """Which Kryo the Flink has that writes `_metadata` of this version."""
    return KRYO_2 if metadata_version >= _FIRST_WITH_KRYO_2 else KRYO_1


def _subclass(base: PojoSerializer, subclass: PojoSubclass) -> PojoSerializer:
    """Its fields and those it inherits, in the order of their names. Flink: PojoTypeInfo."""
    own = tuple(
        PojoField(name, serializer)
        for name, type_name in subclass.fields
        for serializer in [serializer_named(type_name)]
        if serializer is not None
    )
    named = {known.name for known in own}
    inherited = tuple(known for known in base.fields if known.name not in named)
    return PojoSerializer(subclass.name, tuple(sorted((*own, *inherited), key=lambda known: known.name)))


def _refined_kind(entry: Entry, state: StateInfo, contradictions: list[Contradiction]) -> StateKind:
    if state.ttl is not None and state.ttl != entry.ttl:
        words = {True: "with TTL", False: "without TTL"}
        contradictions.append(_contradiction("values", words[entry.ttl], words[state.ttl]))
    if state.kind is entry.kind:
        return entry.kind
    if entry.kind is StateKind.VALUE and state.kind in _REFINED_KINDS:
        return state.kind
    contradictions.append(_contradiction("the kind", entry.kind.value, state.kind.value))
    return entry.kind


def _refined_tree(
    part: str, tree: Serializer, info: TypeInfo, types: set[str], contradictions: list[Contradiction]
) -> Serializer:
    """The tree with the names of `info`; `types` are what it may be called beside what it is called."""
    plain = tree.value if part == "value" and isinstance(tree, TtlSerializer) else tree
    if info.type is not None and info.type not in {plain.type_name, tree.type_name, *types}:
        contradictions.append(_contradiction(f"the {part} type", plain.type_name, info.type))
    if not info.fields:
        return tree
    record = record_of(tree, len(info.fields))
    if record is None:
        stated = f"names for {len(info.fields)} fields"
        contradictions.append(_contradiction(f"the {part} type", plain.type_name, stated))
        return tree
    return rebuilt(tree, lambda node: record.with_names(info.fields) if node is record else node)


def record_of(tree: Serializer, width: int) -> RecordSerializer | None:
    """The record that names are for: the row of SQL if there is one, for tuples around it are Flink's; else the outermost."""
    records: list[RecordSerializer] = []

    def note(node: Serializer) -> Serializer:
        if isinstance(node, RecordSerializer) and node.width == width:
            records.append(node)
        return node

    rebuilt(tree, note)  # innermost first
    rows = [record for record in records if isinstance(record, RowDataSerializer)]
    return (rows or records or [None])[-1]
