"""Facts from beside the state files of a savepoint, applied to the types in them.

`stateInfo` refines and never overrides: it names fields that have no names, and turns a VALUE into a REDUCING state.
Where it contradicts the bytes, the bytes are right and the contradiction is reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from readers.formats.entry import Entry, StateKind
from readers.serializers.base import (
    KRYO_2_24,
    KRYO_5,
    RecordSerializer,
    Serializer,
    nodes,
    rebuild,
    rebuild_undescribed,
)
from readers.serializers.named import serializer_named
from readers.serializers.operators import TtlSerializer
from readers.serializers.pojo import PojoField, PojoSerializer, with_subclasses
from readers.serializers.primitives import BytePrimitiveArraySerializer
from readers.stateinfo.file import OperatorInfo, PojoSubclass, StateInfo, TypeInfo

if TYPE_CHECKING:
    from readers.jars.jobclasses import JobClasses
    from readers.serializers.kryo.serializer import KryoSerializer
    from readers.serializers.kryo.settings import KryoClass
    from readers.serializers.protobuf import Descriptors

# Versions of `_metadata`.
_FIRST_WITH_KRYO_5 = 5  # Flink 2.0
_FIRST_WITH_ROW_KINDS = 3  # Flink 1.11
_REFINED_KINDS = frozenset({StateKind.REDUCING, StateKind.AGGREGATING, StateKind.FOLDING})


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A statement of `stateInfo` or of jars that the savepoint contradicts; or the reason why a file is not used.

    Attributes:
        message: what contradicts it.
        source: whose statement it is.
        leaves_bytes: only bytes that are left behind a value contradict it: Flink passes over these.
    """

    message: str
    source: str = "stateInfo"
    leaves_bytes: bool = False

    def __str__(self) -> str:
        return f"{self.source}: {self.message}"


def _contradiction(what: str, found: str, stated: str) -> Contradiction:
    return Contradiction(f"expected {what} {found} as the savepoint has it, found {stated}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """The facts that apply to the states of one operator.

    Attributes:
        kryo: the version of Kryo in its Flink.
        has_row_kinds: a `Row` of its Flink has a kind.
        classes: fields and constants of classes whose objects Kryo wrote.
        subclasses: of POJOs; the savepoint may not describe them.
        descriptors: of protobuf messages.
        jars: the classes of the job.
        operator: the operator in `stateInfo`.
        problems: the reasons why a `stateInfo` file is not used.
    """

    kryo: int
    has_row_kinds: bool = True
    classes: Mapping[str, KryoClass] = field(default_factory=dict)
    subclasses: tuple[PojoSubclass, ...] = ()
    descriptors: Descriptors | None = None
    jars: JobClasses | None = None
    operator: OperatorInfo | None = None
    problems: tuple[Contradiction, ...] = ()

    def inform(self, serializer: Serializer) -> Serializer:
        """Return a type tree whose Kryo serializers have version and classes, and whose POJOs have their subclasses."""
        tree = rebuild_undescribed(serializer, self._with_classes)
        return rebuild(tree, self._with_subclasses) if self.subclasses else tree

    def _with_classes(self, node: KryoSerializer) -> Serializer:
        class_files = self.jars.kryo if self.jars is not None else None
        return node.inform(
            self.kryo, self.classes, self.descriptors, class_files, has_row_kinds=self.has_row_kinds
        )

    def _with_subclasses(self, node: Serializer) -> Serializer:
        if not isinstance(node, PojoSerializer):
            return node
        described = {
            subclass.name: _subclass(node, subclass)
            for subclass in self.subclasses
            if subclass.extends == node.pojo_class
        }
        return with_subclasses(node, {node.pojo_class: described}) if described else node

    def refine(self, name: str, entry: Entry) -> tuple[Entry, tuple[Contradiction, ...]]:
        """Return the entry of a state, refined by `stateInfo`, and the contradictions between the two."""
        if self.operator is None:
            return entry, self.problems
        contradictions = list(self.problems)
        state = self.operator.state(name, entry.kind)
        types: list[tuple[str, TypeInfo | None]] = [("key", self.operator.key)]
        if state is not None:
            types += [("namespace", state.namespace), ("map_key", state.map_key), ("value", state.value)]
            entry = replace(entry, kind=_refined_kind(entry, state, contradictions))
        for attribute, info in types:
            tree: Serializer | None = getattr(entry, attribute)
            if info is not None and tree is not None:
                # The type may be given as it is without the message, too.
                type_names = {tree.type_name}
                if info.message is not None:
                    tree = self._with_message(attribute, tree, info.message, contradictions)
                refined = _refined_tree(attribute, tree, info, type_names, contradictions)
                changed: dict[str, Any] = {attribute: refined}
                entry = replace(entry, **changed)
        return entry, tuple(contradictions)

    def _with_message(
        self, attribute: str, tree: Serializer, message: str, contradictions: list[Contradiction]
    ) -> Serializer:
        """Return the tree with messages in the place of its `byte[]`."""
        if self.descriptors is None or message not in self.descriptors.messages:
            contradictions.append(Contradiction(f"expected a descriptor of {message}, found none"))
            return tree
        from readers.serializers.protobuf import ProtobufSerializer  # few savepoints need it

        serializer = ProtobufSerializer(message, self.descriptors)
        changed = rebuild(
            tree, lambda node: serializer if isinstance(node, BytePrimitiveArraySerializer) else node
        )
        if changed is tree:
            contradictions.append(
                _contradiction(f"the {attribute} type", tree.type_name, f"a message {message}")
            )
        return changed


def kryo_of(metadata_version: int) -> int:
    """Return the version of Kryo in the Flink that writes `_metadata` of this version."""
    return KRYO_5 if metadata_version >= _FIRST_WITH_KRYO_5 else KRYO_2_24


def has_row_kinds(metadata_version: int) -> bool:
    """Return whether a `Row` has a kind in the Flink that writes `_metadata` of this version."""
    return metadata_version >= _FIRST_WITH_ROW_KINDS


def _subclass(base: PojoSerializer, subclass: PojoSubclass) -> PojoSerializer:
    """Return the serializer of a subclass: its fields and inherited ones, by name. Flink: PojoTypeInfo."""
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
    # These kinds store the same bytes as a value.
    if entry.kind is StateKind.VALUE and state.kind in _REFINED_KINDS:
        return state.kind
    contradictions.append(_contradiction("the kind", entry.kind.value, state.kind.value))
    return entry.kind


def _refined_tree(
    attribute: str,
    tree: Serializer,
    info: TypeInfo,
    type_names: set[str],
    contradictions: list[Contradiction],
) -> Serializer:
    """Return the tree with the field names of `info`; `type_names` are further names that its type may have."""
    plain = tree.value if attribute == "value" and isinstance(tree, TtlSerializer) else tree
    if info.type is not None and info.type not in {plain.type_name, tree.type_name, *type_names}:
        contradictions.append(_contradiction(f"the {attribute} type", plain.type_name, info.type))
    if not info.fields:
        return tree
    record = record_of(tree, len(info.fields))
    if record is None:
        stated = f"names for {len(info.fields)} fields"
        contradictions.append(_contradiction(f"the {attribute} type", plain.type_name, stated))
        return tree
    return rebuild(tree, lambda node: record.with_names(info.fields) if node is record else node)


def record_of(tree: Serializer, width: int) -> RecordSerializer | None:
    """Return the record of a type tree that names are for; None if none has this number of fields."""
    from readers.serializers.table.rowdata import RowDataSerializer  # few savepoints need it

    records = [node for node in nodes(tree) if isinstance(node, RecordSerializer) and node.width == width]
    # Tuples around a row of SQL are Flink's own: the user's names are for the row. Else they are for the outermost record.
    rows = [record for record in records if isinstance(record, RowDataSerializer)]
    return (rows or records or [None])[-1]
