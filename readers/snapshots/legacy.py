"""Config snapshots of serializers, as Flink 1.3–1.7 stored them, and up to 1.16 for classes without a newer snapshot.

1.2 stored the Java-serialised serializer alone: see `java.py`. Since 1.3 a *config snapshot* stands beside it, which
determines the type except for the padding of a nullable.

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

from collections.abc import Callable
from typing import Protocol, TypeAlias

from readers.cursor import Cursor
from readers.errors import UnsupportedSerializerError
from readers.javaio import JavaClass, JavaObject, read_object
from readers.serializers import scala
from readers.serializers.base import Serializer, Snapshot
from readers.serializers.cep import MigratedNFASerializer, PagedBufferSerializer
from readers.serializers.containers import (
    EnumSerializer,
    GenericArraySerializer,
    ListSerializer,
    MapSerializer,
    NullableSerializer,
)
from readers.serializers.kryo.serializer import KryoSerializer
from readers.serializers.kryo.settings import KRYO_2_24, KryoRegistration, KryoSettings
from readers.serializers.operators import (
    TWO_PHASE_COMMIT,
    BufferEntrySerializer,
    StreamElementSerializer,
    TimerSerializer,
    TransactionsSerializer,
    TtlSerializer,
    UnionSerializer,
)
from readers.serializers.pojo import PojoField, PojoSerializer
from readers.serializers.primitives import BASE, CopyableValueSerializer, ValueSerializer, value_serializer
from readers.serializers.structs import RUNTIME, EitherSerializer, RowSerializer
from readers.snapshots.java import (
    CASE_CLASS,
    PLAIN_SERIALIZERS,
    constants_of,
    find_class,
    java_value,
    padding_of,
    tuple_of,
)

_KRYO_UNSPECIFIED, _KRYO_CLASS, _KRYO_INSTANCE = range(3)
_MAX_FIELD_NAME = 8192  # below 0x2020, the smallest number that two bytes of a name make

_JAVA_TUPLE = "org.apache.flink.api.java.tuple."

_OPERATORS = "org.apache.flink.streaming.api.operators."
_INTERVAL_JOIN = "org.apache.flink.streaming.api.operators.co.IntervalJoinOperator"
_CO_GROUPED = "org.apache.flink.streaming.api.datastream.CoGroupedStreams"
_STREAM_ELEMENT = "org.apache.flink.streaming.runtime.streamrecord.StreamElementSerializer"


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


def config_snapshot_body(class_name: str) -> ConfigSnapshotBody | None:
    """Return the reader of a config snapshot class; None where it is not known."""
    return find_class(CONFIG_SNAPSHOTS, class_name)


def _from_pairs(serializer: Callable[..., Serializer], count: int) -> ConfigSnapshotBody:
    """Return the reader of a config snapshot that is a list of `count` pairs."""

    def read(snapshot: ConfigSnapshot) -> Serializer:
        return serializer(*snapshot.pairs(count))

    return read


def _parameterless(snapshot: ConfigSnapshot) -> Serializer:
    # The name is the canonical one, with a dot before a nested class; that of windows and CEP is the binary one.
    name = snapshot.cursor.utf("serializer class")
    serializer = find_class(CANONICAL_SERIALIZERS, name) or find_class(PLAIN_SERIALIZERS, name)
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
        return scala.ScalaCaseClassSerializer(tuple_class, fields)
    return tuple_of(tuple_class, fields)


def _is_case_class(stream: Cursor | None) -> bool:
    java = None if stream is None else java_value(stream)
    hierarchy = java.java_class.hierarchy if isinstance(java, JavaObject) else ()
    return any(java_class.name == CASE_CLASS for java_class in hierarchy)


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
    java = None if snapshot.serializer is None else java_value(snapshot.serializer)
    if not isinstance(java, JavaObject):
        raise _unsupported(snapshot, "expected a Java-serialised NullableSerializer beside it, found none")
    return NullableSerializer(inner[0], padding=padding_of(java))


def _enum(snapshot: ConfigSnapshot) -> Serializer:
    enum_class = snapshot.cursor.utf("enum class")
    if snapshot.version == 1:
        return EnumSerializer(enum_class, constants_of(read_object(snapshot.cursor)))
    count = snapshot.cursor.count("enum constants", 2)
    return EnumSerializer(enum_class, tuple(snapshot.cursor.utf("enum constant") for _ in range(count)))


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
    return KryoSerializer(type_class, KryoSettings(version=KRYO_2_24, registrations=registrations))


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
    scala.SCALA + "EnumValueSerializer$ScalaEnumSerializerConfigSnapshot": scala.enumeration,
    scala.SCALA + "ScalaOptionSerializerConfigSnapshot": _from_pairs(scala.OptionSerializer, 1),
    scala.SCALA + "ScalaTrySerializerConfigSnapshot": _from_pairs(scala.TrySerializer, 2),
    scala.SCALA + "TraversableSerializerConfigSnapshot": _from_pairs(scala.TraversableSerializer, 1),
    _OPERATORS + "TimerSerializer$TimerSerializerConfigSnapshot": _from_pairs(TimerSerializer, 2),
    _INTERVAL_JOIN + "$BufferSerializerConfigSnapshot": _from_pairs(BufferEntrySerializer, 1),
    _STREAM_ELEMENT + "$StreamElementSerializerConfigSnapshot": _from_pairs(StreamElementSerializer, 1),
    MigratedNFASerializer.java_class + "ConfigSnapshot": _from_pairs(MigratedNFASerializer, 2),
    PagedBufferSerializer.java_class + "ConfigSnapshot": _paged_buffer,
    _CO_GROUPED + "$UnionSerializerConfigSnapshot": _from_pairs(UnionSerializer, 2),
    TWO_PHASE_COMMIT + "ConfigSnapshot": _from_pairs(TransactionsSerializer, 2),
    "org.apache.flink.api.common.typeutils.CompositeSerializer$ConfigSnapshot": _ttl,
}
