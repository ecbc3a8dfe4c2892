"""Serializers as Flink 1.2–1.7 stored them, and up to 1.16 for classes without a newer snapshot.

1.2 stored the Java-serialised serializer alone. Since 1.3 a *config snapshot* stands beside it, which determines the
type except for the padding of a nullable. Where its class is not known, the Java object determines the type.

| serializer proxy (`TypeSerializerSerializationProxy`) | |
|---|---|
| i4 | version, 1 |
| i4 n, n bytes | a Java object stream |

A config snapshot has the frame of `reading.py`: utf class, i4 version. Then follows, by class
(`TypeSerializerConfigSnapshot#write`; names without `ConfigSnapshot`):

| config snapshot | behind the version |
|---|---|
| ParameterlessTypeSerializerConfig | utf canonical class name of the serializer |
| Collection, Map, Either, Row, Nullable, Timer, Composite (TTL), Option, Try, Traversable … | pairs |
| TupleSerializer | pairs, Java stream of the tuple class |
| GenericArraySerializer | 1: pairs, Java stream of the component class; 2: utf component class, nested |
| EnumSerializer | 1: utf class, Java stream of an array of constants; 2: utf class, i4 n, n × utf constant |
| EnumValueSerializer | 2: utf class, i4 n, n × (utf name, i4 id) |
| CopyableValueSerializer | utf class |
| KryoSerializer, ValueSerializer | utf class, i4 n, n × (utf tag, utf class, i4 kind; 1: utf, 2: Java stream, of its serializer) |
| PojoSerializer | utf class; offsets of fields, of registered, of other subclasses; i4 length, buffer |

Until 1.6 `LockableTypeSerializer` wrote the config snapshot of its element: only the Java object shows that it is one.
The offsets of a POJO are i4 n, n × (i4, i4). They are those of serializer proxy and block in the buffer, which holds
utf name, serializer proxy, block, again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar

from readers.cursor import Cursor
from readers.errors import CorruptDataError, UnsupportedSerializerError, UnsupportedVersionError
from readers.javaio import (
    STREAM_HEADER,
    JavaArray,
    JavaClass,
    JavaEnum,
    JavaObject,
    JavaValue,
    read_object,
)
from readers.serializers import cep, operators, primitives, scala, streaming, temporal
from readers.serializers.base import OpaqueSerializer, Serializer
from readers.serializers.cep import (
    DeweyNumberSerializer,
    EventIdSerializer,
    LegacySharedBufferNodeSerializer,
    LockableTypeSerializer,
    MigratedNFASerializer,
    NFAStateSerializer,
    NodeIdSerializer,
    PagedBufferSerializer,
    SharedBufferEdgeSerializer,
)
from readers.serializers.containers import (
    ArrayListSerializer,
    EnumSerializer,
    GenericArraySerializer,
    ListSerializer,
    MapSerializer,
    NullableSerializer,
)
from readers.serializers.kryo.serializer import KRYO_1, KryoSerializer
from readers.serializers.kryo.settings import KryoRegistration, KryoSettings
from readers.serializers.operators import TimerSerializer, TtlSerializer
from readers.serializers.pojo import PojoField, PojoSerializer
from readers.serializers.primitives import BASE, BasicSerializer, IntSerializer
from readers.serializers.scala import (
    SCALA,
    EnumValueSerializer,
    OptionSerializer,
    ScalaCaseClassSerializer,
    TraversableSerializer,
    TrySerializer,
)
from readers.serializers.snapshot import Snapshot
from readers.serializers.streaming import BufferEntrySerializer, StreamElementSerializer, UnionSerializer
from readers.serializers.transactions import KAFKA_SERIALIZERS, TWO_PHASE_COMMIT, TransactionsSerializer
from readers.serializers.tuples import RUNTIME, EitherSerializer, RowSerializer, TupleSerializer
from readers.serializers.values import CopyableValueSerializer, ValueSerializer, value_serializer

_PROXY_VERSION = 1
_KRYO_UNSPECIFIED, _KRYO_CLASS, _KRYO_INSTANCE = range(3)
_FLINK = "org.apache.flink."

# Java objects may share objects and refer in circles: a small stream can be an endless tree.
_MAX_DEPTH = 48
_MAX_SERIALIZERS = 10_000
_MAX_FIELD_NAME = 8192

_JAVA_TUPLE = "org.apache.flink.api.java.tuple."
_CASE_CLASS = SCALA + "CaseClassSerializer"
_UNNAMED = "a serializer that the savepoint does not name"
_OBJECT_OF_CLASS = STREAM_HEADER + b"sr"

_OPERATORS = "org.apache.flink.streaming.api.operators."
_INTERVAL_JOIN = "org.apache.flink.streaming.api.operators.co.IntervalJoinOperator"
_STATE = "org.apache.flink.runtime.state."
_CO_GROUPED = "org.apache.flink.streaming.api.datastream.CoGroupedStreams"
_STREAM_ELEMENT = "org.apache.flink.streaming.runtime.streamrecord.StreamElementSerializer"

_T = TypeVar("_T")
JavaReader: TypeAlias = "Callable[[_Conversion, JavaObject], Serializer]"


class ConfigSnapshot(Snapshot, Protocol):
    """The body of a config snapshot, whose nested serializers are *pairs*.

    Attributes:
        serializer: the Java stream of the serializer beside the snapshot; None where none stands there.
    """

    serializer: Cursor | None

    def pairs(self, expected: int | None = None) -> tuple[Serializer, ...]:
        """Read pairs of a Java-serialised serializer and its snapshot: `expected` of them, if given."""
        ...

    def pairs_at(self, buffer: Cursor, offsets: list[int]) -> tuple[Serializer, ...]:
        """Read the pairs at `offsets` of a buffer."""
        ...


ConfigSnapshotBody: TypeAlias = Callable[[ConfigSnapshot], Serializer]
"""Reads the body of one config snapshot class."""


@dataclass(frozen=True)
class OrdinalSerializer(IntSerializer):
    """An enum whose constants are not stored (1.2): its values are shown as their numbers."""

    enum_class: str

    java_class = BASE + "EnumSerializer"

    @property
    def type_name(self) -> str:
        return self.enum_class


def config_snapshot_body(class_name: str) -> ConfigSnapshotBody | None:
    """Return the reader of a config snapshot class; None where it is not known."""
    return _find(CONFIG_SNAPSHOTS, class_name)


def read_serializer_proxy(cursor: Cursor) -> Cursor:
    """Return a cursor at the Java stream of a serializer proxy; `cursor` moves behind it.

    Flink: TypeSerializerSerializationUtil$TypeSerializerSerializationProxy#read (since 1.2)

    Raises:
        UnsupportedVersionError: a version other than 1.
    """
    start = cursor.position
    version = cursor.i4()
    if version != _PROXY_VERSION:
        raise UnsupportedVersionError(
            f"expected a serializer proxy of version {_PROXY_VERSION}, found {version}",
            path=cursor.path,
            position=start,
        )
    return cursor.sub(cursor.i4(), "Java-serialised serializer")


def as_stored(stream: Cursor, described: Serializer) -> Serializer:
    """Return the serializer that a snapshot describes, corrected by the Java serializer beside it."""
    # Until 1.6 a `LockableTypeSerializer` wrote the config snapshot of its element: without its own class, a value would
    # begin four bytes too early.
    if (
        isinstance(described, LockableTypeSerializer)
        or _class_at(stream) != LockableTypeSerializer.java_class
    ):
        return described
    return LockableTypeSerializer(described)


def _class_at(stream: Cursor) -> str | None:
    """Return the class of the one object in a Java stream; None if the stream holds no object."""
    cursor = Cursor(stream.data, path=stream.path, position=stream.position, end=stream.end)
    try:
        is_object = bytes(cursor.read(len(_OBJECT_OF_CLASS))) == _OBJECT_OF_CLASS
        return cursor.utf("Java class") if is_object else None
    except CorruptDataError:
        return None


def serializer_of(stream: Cursor) -> Serializer:
    """Return the serializer that a Java stream holds; opaque, also when nested, where its class is not known.

    Raises:
        CorruptDataError: a broken stream, or a serializer without the fields of its class.
    """
    try:
        return _Conversion(stream).serializer(_java_value(stream))
    except UnsupportedSerializerError as error:
        return OpaqueSerializer("java.io.ObjectInputStream", error.message)


def _java_value(stream: Cursor) -> JavaValue:
    """Read the object of a Java stream; `stream` does not move, so that it can be read again."""
    return read_object(Cursor(stream.data, path=stream.path, position=stream.position, end=stream.end))


class _Conversion:
    """Converts the Java object of a serializer, with the objects in it, into a `Serializer`."""

    def __init__(self, stream: Cursor) -> None:
        self.stream = stream
        self.depth = 0
        self.converted = 0

    def serializer(self, value: JavaValue) -> Serializer:
        """Return the serializer of a Java object; opaque where its class is not known."""
        if not isinstance(value, JavaObject):
            raise self.unexpected("a serializer", value)
        self.converted += 1
        if self.depth >= _MAX_DEPTH or self.converted > _MAX_SERIALIZERS:
            raise self.stream.corrupt("expected a tree of serializers, found endless nesting")
        plain = _find(PLAIN_SERIALIZERS, value.class_name)
        if plain is not None:
            return plain
        # Subclasses of users, and those that Scala's macros generate, have the fields of their superclass.
        for java_class in reversed(value.java_class.hierarchy):
            convert = _find(JAVA_SERIALIZERS, java_class.name)
            if convert is not None:
                self.depth += 1
                serializer = convert(self, value)
                self.depth -= 1
                return serializer
        return OpaqueSerializer(value.class_name, "the class of this Java-serialised serializer is not known")

    def serializers(self, value: JavaValue) -> tuple[Serializer, ...]:
        """Return the serializers of a Java array."""
        if not isinstance(value, JavaArray):
            raise self.unexpected("an array of serializers", value)
        return tuple(self.serializer(element) for element in value.values)

    def class_name(self, value: JavaValue) -> str:
        """Return the name of a `java.lang.Class`."""
        if not isinstance(value, JavaClass):
            raise self.unexpected("a class", value)
        return value.name

    def unexpected(self, expected: str, found: JavaValue) -> CorruptDataError:
        """Return the error for a value of another type."""
        return self.stream.corrupt(f"expected {expected}, found {found!r:.100}")


# ---- Java objects ----


def _from_fields(serializer: Callable[..., Serializer], *names: str) -> JavaReader:
    """Return the converter of a serializer that is made of those in the fields `names`."""

    def convert(conversion: _Conversion, java: JavaObject) -> Serializer:
        return serializer(*(conversion.serializer(java.field(name)) for name in names))

    return convert


def _java_generic_array(conversion: _Conversion, java: JavaObject) -> Serializer:
    component = conversion.class_name(java.field("componentClass"))
    element = conversion.serializer(java.field("componentSerializer"))
    return GenericArraySerializer(element, component_class=component)


def _java_enum(conversion: _Conversion, java: JavaObject) -> Serializer:
    enum_class = conversion.class_name(java.field("enumClass"))
    constants = _constants(java.fields.get("values"))
    return EnumSerializer(enum_class, constants) if constants else OrdinalSerializer(enum_class)


def _java_tuple(conversion: _Conversion, java: JavaObject) -> Serializer:
    tuple_class = conversion.class_name(java.field("tupleClass"))
    return _tuple_of(tuple_class, conversion.serializers(java.field("fieldSerializers")))


def _java_case_class(conversion: _Conversion, java: JavaObject) -> Serializer:
    case_class = conversion.class_name(java.field("tupleClass"))
    return ScalaCaseClassSerializer(case_class, conversion.serializers(java.field("fieldSerializers")))


def _java_row(conversion: _Conversion, java: JavaObject) -> Serializer:
    return RowSerializer(conversion.serializers(java.field("fieldSerializers")), has_row_kind=False)


def _java_nullable(conversion: _Conversion, java: JavaObject) -> Serializer:
    return NullableSerializer(conversion.serializer(java.field("originalSerializer")), padding=_padding(java))


def _java_kryo(conversion: _Conversion, java: JavaObject) -> Serializer:
    """Convert a Kryo serializer of 1.2, which stored no snapshot."""
    type_class = conversion.class_name(java.field("type"))
    # The order of this dict is that of the ids: a class that is registered again keeps its id.
    registered = {type_class: ""}
    for known in _elements(java.field("registeredTypes")):
        registered.setdefault(conversion.class_name(known), "")
    for name in ("registeredTypesWithSerializerClasses", "registeredTypesWithSerializers"):
        registered |= _given(conversion, java.field(name))
    settings = KryoSettings(
        version=KRYO_1,
        registrations=tuple(
            KryoRegistration(class_name=name, serializer=serializer)
            for name, serializer in registered.items()
        ),
        default_serializers={
            **_given(conversion, java.field("defaultSerializers")),
            **_given(conversion, java.field("defaultSerializerClasses")),
        },
    )
    return KryoSerializer(type_class, settings)


def _given(conversion: _Conversion, value: JavaValue) -> dict[str, str]:
    """Return class → class of the Kryo serializer that it was given."""
    return {conversion.class_name(known): _serializer_class(holder) for known, holder in _entries(value)}


def _elements(value: JavaValue) -> tuple[JavaValue, ...]:
    return value.elements() if isinstance(value, JavaObject) else ()


def _entries(value: JavaValue) -> Iterator[tuple[JavaValue, JavaValue]]:
    return value.entries() if isinstance(value, JavaObject) else iter(())


def _serializer_class(holder: JavaValue) -> str:
    """Return the class of a Kryo serializer: the class itself, or an instance in a `SerializableSerializer`."""
    if isinstance(holder, JavaClass):
        return holder.name
    inner = holder.fields.get("serializer") if isinstance(holder, JavaObject) else None
    return inner.class_name if isinstance(inner, JavaObject) else _UNNAMED


def _java_written(serializer: type[ValueSerializer], holder: str) -> JavaReader:
    def convert(conversion: _Conversion, java: JavaObject) -> Serializer:
        return value_serializer(serializer, conversion.class_name(java.field(holder)))

    return convert


def _java_ttl(conversion: _Conversion, java: JavaObject) -> Serializer:
    fields = conversion.serializers(java.field("fieldSerializers"))
    if len(fields) != 2:
        raise conversion.unexpected("the serializers of a timestamp and a value", java)
    return TtlSerializer(fields[1])


def _java_pojo(conversion: _Conversion, java: JavaObject) -> Serializer:
    # The annotation holds i4 n, then for each field its class and, as block data, its name.
    blocks = [block for block in java.annotation if isinstance(block, bytes)]
    names = [Cursor(block).utf("field name") for block in blocks[1:]]
    serializers = conversion.serializers(java.field("fieldSerializers"))
    if len(names) != len(serializers):
        raise conversion.unexpected(f"{len(serializers)} field names", java)
    classes = java.field("registeredClasses")
    if not isinstance(classes, JavaObject):
        raise conversion.unexpected("registered classes", classes)
    registered_names = [conversion.class_name(registered) for registered, _ in classes.entries()]
    registered = conversion.serializers(java.field("registeredSerializers"))
    if len(registered_names) != len(registered):
        raise conversion.unexpected(f"{len(registered)} registered classes", java)
    return PojoSerializer(
        conversion.class_name(java.field("clazz")),
        tuple(PojoField(name, serializer) for name, serializer in zip(names, serializers, strict=True)),
        tuple(zip(registered_names, registered, strict=True)),
    )


def _padding(java: JavaObject) -> int:
    """Return the number of bytes behind the flag of a null: the length of `byte[] padding` (since 1.6)."""
    padding = java.fields.get("padding")
    return len(padding.values) if isinstance(padding, JavaArray) else 0


def _constants(value: JavaValue) -> tuple[str, ...]:
    if not isinstance(value, JavaArray):
        return ()
    return tuple(element.constant for element in value.values if isinstance(element, JavaEnum))


# ---- config snapshots ----


def _from_pairs(serializer: Callable[..., Serializer], count: int) -> ConfigSnapshotBody:
    """Return the reader of a config snapshot that is a list of `count` pairs."""

    def read(snapshot: ConfigSnapshot) -> Serializer:
        return serializer(*snapshot.pairs(count))

    return read


def _parameterless(snapshot: ConfigSnapshot) -> Serializer:
    # The name is the canonical one, with a dot before a nested class; that of windows and CEP is the binary one.
    name = snapshot.cursor.utf("serializer class")
    serializer = _find(CANONICAL_SERIALIZERS, name) or _find(PLAIN_SERIALIZERS, name)
    if serializer is None:
        raise _unsupported(snapshot, f"expected a known serializer, found {name}")
    return serializer


def _row(snapshot: ConfigSnapshot) -> Serializer:
    return RowSerializer(snapshot.pairs(), has_row_kind=False)


def _ttl(snapshot: ConfigSnapshot) -> Serializer:
    # The snapshot class is that of any composite serializer; in Flink only TTL state has one.
    _, value = snapshot.pairs(2)
    return TtlSerializer(value)


def _tuple(snapshot: ConfigSnapshot) -> Serializer:
    fields = snapshot.pairs()
    # Scala's case classes share the config snapshot of Java's tuples: the serializer beside it distinguishes them.
    tuple_class = _java_class(snapshot)
    if not tuple_class.startswith(_JAVA_TUPLE) and _is_case_class(snapshot.serializer):
        return ScalaCaseClassSerializer(tuple_class, fields)
    return _tuple_of(tuple_class, fields)


def _is_case_class(stream: Cursor | None) -> bool:
    java = None if stream is None else _java_value(stream)
    hierarchy = java.java_class.hierarchy if isinstance(java, JavaObject) else ()
    return any(java_class.name == _CASE_CLASS for java_class in hierarchy)


def _paged_buffer(snapshot: ConfigSnapshot) -> Serializer:
    # The third pair, if there is one, is that of the versions.
    name, event, *_ = snapshot.pairs()
    return PagedBufferSerializer(name, event)


def _generic_array(snapshot: ConfigSnapshot) -> Serializer:
    if snapshot.version == 1:
        elements = snapshot.pairs(1)
        return GenericArraySerializer(elements[0], component_class=_java_class(snapshot))
    component = snapshot.cursor.utf("component class")
    return GenericArraySerializer(snapshot.nested(1)[0], component_class=component)


def _nullable(snapshot: ConfigSnapshot) -> Serializer:
    inner = snapshot.pairs(1)
    # Only the Java object holds the padding.
    java = None if snapshot.serializer is None else _java_value(snapshot.serializer)
    if not isinstance(java, JavaObject):
        raise _unsupported(snapshot, "expected a Java-serialised NullableSerializer beside it, found none")
    return NullableSerializer(inner[0], padding=_padding(java))


def _enum(snapshot: ConfigSnapshot) -> Serializer:
    enum_class = snapshot.cursor.utf("enum class")
    if snapshot.version == 1:
        return EnumSerializer(enum_class, _constants(read_object(snapshot.cursor)))
    count = snapshot.cursor.count("enum constants", 2)
    return EnumSerializer(enum_class, tuple(snapshot.cursor.utf("enum constant") for _ in range(count)))


def _enumeration(snapshot: ConfigSnapshot) -> Serializer:
    # Version 1, without the names (up to 1.2), was never written.
    enumeration = snapshot.cursor.utf("Enumeration class")
    count = snapshot.cursor.count("enumeration values", 6)
    constants = tuple((snapshot.cursor.utf("enumeration value"), snapshot.cursor.i4()) for _ in range(count))
    return EnumValueSerializer(enumeration, constants)


def _copyable_value(snapshot: ConfigSnapshot) -> Serializer:
    return value_serializer(CopyableValueSerializer, snapshot.cursor.utf("value class"))


def _value(snapshot: ConfigSnapshot) -> Serializer:
    cursor = snapshot.cursor
    value_class = cursor.utf("value class")
    # The registrations serve to copy values, not to write them.
    for _ in range(cursor.count("registrations", 8)):
        _kryo_registration(cursor)
    return value_serializer(ValueSerializer, value_class)


def _kryo(snapshot: ConfigSnapshot) -> Serializer:
    """Read the snapshot of a Kryo serializer, always of Kryo 2. Flink: KryoRegistrationSerializerConfigSnapshot#write"""
    cursor = snapshot.cursor
    type_class = cursor.utf("generic type class")
    registrations = tuple(_kryo_registration(cursor) for _ in range(cursor.count("registrations", 8)))
    return KryoSerializer(type_class, KryoSettings(version=KRYO_1, registrations=registrations))


def _kryo_registration(cursor: Cursor) -> KryoRegistration:
    class_name = cursor.utf("registration tag")
    cursor.utf("registered class")
    start = cursor.position
    kind = cursor.i4()
    serializer = ""
    if kind == _KRYO_CLASS:
        serializer = cursor.utf("Kryo serializer class")
    elif kind == _KRYO_INSTANCE:
        holder = read_object(cursor)
        instance = holder.field("serializer") if isinstance(holder, JavaObject) else holder
        if not isinstance(instance, JavaObject):
            raise cursor.corrupt(f"expected a Kryo serializer, found {instance!r:.100}", start)
        serializer = instance.class_name
    elif kind != _KRYO_UNSPECIFIED:
        raise cursor.corrupt(f"expected a kind of Kryo registration, found {kind}", start)
    return KryoRegistration(class_name=class_name, serializer=serializer)


def _pojo(snapshot: ConfigSnapshot) -> Serializer:
    cursor = snapshot.cursor
    pojo_class = cursor.utf("POJO class")
    offsets: list[int] = []
    counts = []
    for what in ("fields", "registered subclasses", "subclasses"):
        count = cursor.count(what, 8)
        offsets += [cursor.i4() for _ in range(2 * count)]
        counts.append(count)
    buffer = cursor.sub(cursor.i4(), "serializers and their snapshots")
    serializers = snapshot.pairs_at(buffer, offsets)
    named = list(zip((_name_before(buffer, offset) for offset in offsets[::2]), serializers, strict=True))
    registered_end = counts[0] + counts[1]
    return PojoSerializer(
        pojo_class,
        tuple(PojoField(name, serializer) for name, serializer in named[: counts[0]]),
        tuple(named[counts[0] : registered_end]),
        tuple(named[registered_end:]),
    )


def _tuple_of(tuple_class: str, fields: tuple[Serializer, ...]) -> Serializer:
    # Scala's tuples share the config snapshot of Java's.
    if tuple_class.startswith("scala."):
        return ScalaCaseClassSerializer(tuple_class, fields)
    return TupleSerializer(tuple_class, fields)


def _name_before(buffer: Cursor, offset: int) -> str:
    """Return the utf that ends at `offset` of a buffer."""
    end = buffer.position + offset
    # The nearest length that fits is right: no byte of a name is below 0x20, so no two of them look like a length.
    for start in range(end - 2, max(buffer.position, end - 2 - _MAX_FIELD_NAME) - 1, -1):
        if int.from_bytes(buffer.data[start : start + 2], "big") == end - start - 2:
            return Cursor(buffer.data, path=buffer.path, position=start, end=end).utf("name")
    raise buffer.corrupt("expected the name of a field or class before its serializer", end)


def _java_class(snapshot: ConfigSnapshot) -> str:
    value = read_object(snapshot.cursor)
    if not isinstance(value, JavaClass):
        raise snapshot.cursor.corrupt(f"expected a class, found {value!r:.100}")
    return value.name


def _unsupported(snapshot: ConfigSnapshot, message: str) -> UnsupportedSerializerError:
    return UnsupportedSerializerError(
        message,
        path=snapshot.cursor.path,
        position=snapshot.cursor.position,
        breadcrumbs=(snapshot.class_name,),
    )


# ---- tables ----


def _find(table: Mapping[str, _T], class_name: str) -> _T | None:
    """Return the entry of a class: by its name; shaded, without the prefix; moved, by its simple name."""
    if class_name in table:
        return table[class_name]
    at = class_name.find(_FLINK)
    if at < 0 or (at and class_name[at - 1] != "."):
        return None
    if class_name[at:] in table:
        return table[class_name[at:]]
    simple_name = "." + class_name.rsplit(".", 1)[-1]
    moved = [entry for name, entry in table.items() if name.endswith(simple_name)]
    return moved[0] if len(moved) == 1 else None


_NODE_ID = NodeIdSerializer(EventIdSerializer())
_EDGE = SharedBufferEdgeSerializer(_NODE_ID, DeweyNumberSerializer())

PLAIN_SERIALIZERS: dict[str, Serializer] = {
    **{
        serializer.java_class: serializer()
        for module in (primitives, temporal, operators, streaming, scala, cep)
        for serializer in vars(module).values()
        if isinstance(serializer, type)
        and issubclass(serializer, BasicSerializer)
        and hasattr(serializer, "java_class")
    },
    **KAFKA_SERIALIZERS,
    _NODE_ID.java_class: _NODE_ID,
    _EDGE.java_class: _EDGE,
    LegacySharedBufferNodeSerializer.java_class: LegacySharedBufferNodeSerializer(ListSerializer(_EDGE)),
    NFAStateSerializer.java_class: NFAStateSerializer(
        DeweyNumberSerializer(), _NODE_ID, EventIdSerializer(), has_previous_timestamps=False
    ),
}

# Class names as `Class#getCanonicalName` returns them.
CANONICAL_SERIALIZERS = {name.replace("$", "."): serializer for name, serializer in PLAIN_SERIALIZERS.items()}

CONFIG_SNAPSHOTS: dict[str, ConfigSnapshotBody] = {
    "org.apache.flink.api.common.typeutils.ParameterlessTypeSerializerConfig": _parameterless,
    BASE + "CollectionSerializerConfigSnapshot": _from_pairs(ListSerializer, 1),
    BASE + "MapSerializerConfigSnapshot": _from_pairs(MapSerializer, 2),
    BASE + "GenericArraySerializerConfigSnapshot": _generic_array,
    BASE + "EnumSerializer$EnumSerializerConfigSnapshot": _enum,
    RUNTIME + "TupleSerializerConfigSnapshot": _tuple,
    RUNTIME + "EitherSerializerConfigSnapshot": _from_pairs(EitherSerializer, 2),
    RUNTIME + "RowSerializer$RowSerializerConfigSnapshot": _row,
    RUNTIME + "NullableSerializer$NullableSerializerConfigSnapshot": _nullable,
    RUNTIME + "PojoSerializer$PojoSerializerConfigSnapshot": _pojo,
    RUNTIME + "kryo.KryoSerializer$KryoSerializerConfigSnapshot": _kryo,
    RUNTIME + "CopyableValueSerializer$CopyableValueSerializerConfigSnapshot": _copyable_value,
    RUNTIME + "ValueSerializer$ValueSerializerConfigSnapshot": _value,
    SCALA + "EnumValueSerializer$ScalaEnumSerializerConfigSnapshot": _enumeration,
    SCALA + "ScalaOptionSerializerConfigSnapshot": _from_pairs(OptionSerializer, 1),
    SCALA + "ScalaTrySerializerConfigSnapshot": _from_pairs(TrySerializer, 2),
    SCALA + "TraversableSerializerConfigSnapshot": _from_pairs(TraversableSerializer, 1),
    _OPERATORS + "TimerSerializer$TimerSerializerConfigSnapshot": _from_pairs(TimerSerializer, 2),
    _INTERVAL_JOIN + "$BufferSerializerConfigSnapshot": _from_pairs(BufferEntrySerializer, 1),
    _STREAM_ELEMENT + "$StreamElementSerializerConfigSnapshot": _from_pairs(StreamElementSerializer, 1),
    MigratedNFASerializer.java_class + "ConfigSnapshot": _from_pairs(MigratedNFASerializer, 2),
    PagedBufferSerializer.java_class + "ConfigSnapshot": _paged_buffer,
    _CO_GROUPED + "$UnionSerializerConfigSnapshot": _from_pairs(UnionSerializer, 2),
    TWO_PHASE_COMMIT + "ConfigSnapshot": _from_pairs(TransactionsSerializer, 2),
    "org.apache.flink.api.common.typeutils.CompositeSerializer$ConfigSnapshot": _ttl,
}

JAVA_SERIALIZERS: dict[str, JavaReader] = {
    BASE + "ListSerializer": _from_fields(ListSerializer, "elementSerializer"),
    _STATE + "ArrayListSerializer": _from_fields(ArrayListSerializer, "elementSerializer"),
    BASE + "MapSerializer": _from_fields(MapSerializer, "keySerializer", "valueSerializer"),
    _STATE + "HashMapSerializer": _from_fields(MapSerializer, "keySerializer", "valueSerializer"),
    BASE + "GenericArraySerializer": _java_generic_array,
    BASE + "EnumSerializer": _java_enum,
    RUNTIME + "TupleSerializer": _java_tuple,
    RUNTIME + "RowSerializer": _java_row,
    RUNTIME + "EitherSerializer": _from_fields(EitherSerializer, "leftSerializer", "rightSerializer"),
    RUNTIME + "NullableSerializer": _java_nullable,
    RUNTIME + "PojoSerializer": _java_pojo,
    RUNTIME + "kryo.KryoSerializer": _java_kryo,
    RUNTIME + "CopyableValueSerializer": _java_written(CopyableValueSerializer, "valueClass"),
    RUNTIME + "ValueSerializer": _java_written(ValueSerializer, "type"),
    _CASE_CLASS: _java_case_class,
    SCALA + "OptionSerializer": _from_fields(OptionSerializer, "elemSerializer"),
    _OPERATORS + "TimerSerializer": _from_fields(TimerSerializer, "keySerializer", "namespaceSerializer"),
    _STREAM_ELEMENT: _from_fields(StreamElementSerializer, "typeSerializer"),
    _CO_GROUPED + "$UnionSerializer": _from_fields(UnionSerializer, "oneSerializer", "twoSerializer"),
    _STATE + "ttl.TtlStateFactory$TtlSerializer": _java_ttl,
    TWO_PHASE_COMMIT: _from_fields(TransactionsSerializer, "transactionSerializer", "contextSerializer"),
    MigratedNFASerializer.java_class: _from_fields(
        MigratedNFASerializer, "eventSerializer", "sharedBufferSerializer"
    ),
    PagedBufferSerializer.java_class: _from_fields(PagedBufferSerializer, "keySerializer", "valueSerializer"),
    LockableTypeSerializer.java_class: _from_fields(LockableTypeSerializer, "elementSerializer"),
}
