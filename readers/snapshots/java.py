"""Java-serialised serializers, converted into `Serializer`s. Flink 1.2–1.16 stored them.

1.2 stored nothing else of a type. Later they stand beside a snapshot, and determine the type where the class of the
snapshot is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from readers.cursor import Cursor
from readers.errors import CorruptDataError, UnsupportedSerializerError
from readers.javaio import STREAM_HEADER, JavaArray, JavaClass, JavaEnum, JavaObject, JavaValue, read_object
from readers.serializers import cep, containers, operators, primitives, scala
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
from readers.serializers.kryo.serializer import KryoSerializer
from readers.serializers.kryo.settings import KRYO_2_24, KryoRegistration, KryoSettings
from readers.serializers.operators import (
    KAFKA_SERIALIZERS,
    TWO_PHASE_COMMIT,
    StreamElementSerializer,
    TimerSerializer,
    TransactionsSerializer,
    TtlSerializer,
    UnionSerializer,
)
from readers.serializers.pojo import PojoField, PojoSerializer
from readers.serializers.primitives import (
    BASE,
    BasicSerializer,
    CopyableValueSerializer,
    IntSerializer,
    ValueSerializer,
    value_serializer,
)
from readers.serializers.scala import SCALA, OptionSerializer, ScalaCaseClassSerializer
from readers.serializers.structs import RUNTIME, EitherSerializer, RowSerializer, TupleSerializer

_FLINK = "org.apache.flink."

# Java objects may share objects and refer in circles: a small stream can be an endless tree.
_MAX_DEPTH = 48
_MAX_SERIALIZERS = 10_000

CASE_CLASS = SCALA + "CaseClassSerializer"
_UNNAMED = "a serializer that the savepoint does not name"
_OPERATORS = "org.apache.flink.streaming.api.operators."
_STATE = "org.apache.flink.runtime.state."
_CO_GROUPED = "org.apache.flink.streaming.api.datastream.CoGroupedStreams"
_STREAM_ELEMENT = "org.apache.flink.streaming.runtime.streamrecord.StreamElementSerializer"
_OBJECT_OF_CLASS = STREAM_HEADER + b"sr"

_T = TypeVar("_T")
JavaReader: TypeAlias = "Callable[[_Conversion, JavaObject], Serializer]"


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
        return _Conversion(stream).serializer(java_value(stream))
    except UnsupportedSerializerError as error:
        return OpaqueSerializer("java.io.ObjectInputStream", error.message)


def java_value(stream: Cursor) -> JavaValue:
    """Read the object of a Java stream; `stream` does not move, so that it can be read again."""
    return read_object(Cursor(stream.data, path=stream.path, position=stream.position, end=stream.end))


def find_class(table: Mapping[str, _T], class_name: str) -> _T | None:
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


@dataclass(frozen=True)
class OrdinalSerializer(IntSerializer):
    """An enum whose constants are not stored (1.2): its values are shown as their numbers."""

    enum_class: str

    java_class = BASE + "EnumSerializer"

    name = "{self.enum_class}"


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
        plain = find_class(PLAIN_SERIALIZERS, value.class_name)
        if plain is not None:
            return plain
        # Subclasses of users, and those that Scala's macros generate, have the fields of their superclass.
        for java_class in reversed(value.java_class.hierarchy):
            convert = find_class(JAVA_SERIALIZERS, java_class.name)
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


def _from_fields(serializer: Callable[..., Serializer], *names: str) -> JavaReader:
    """Return the converter of a serializer that is made of those in the fields `names`."""

    def convert(conversion: _Conversion, java: JavaObject) -> Serializer:
        return serializer(*(conversion.serializer(java.field(name)) for name in names))

    return convert


def _java_generic_array(conversion: _Conversion, java: JavaObject) -> Serializer:
    component = conversion.class_name(java.field("componentClass"))
    element = conversion.serializer(java.field("componentSerializer"))
    return containers.GenericArraySerializer(element, component_class=component)


def _java_enum(conversion: _Conversion, java: JavaObject) -> Serializer:
    enum_class = conversion.class_name(java.field("enumClass"))
    constants = constants_of(java.fields.get("values"))
    return containers.EnumSerializer(enum_class, constants) if constants else OrdinalSerializer(enum_class)


def _java_tuple(conversion: _Conversion, java: JavaObject) -> Serializer:
    tuple_class = conversion.class_name(java.field("tupleClass"))
    return tuple_of(tuple_class, conversion.serializers(java.field("fieldSerializers")))


def _java_case_class(conversion: _Conversion, java: JavaObject) -> Serializer:
    case_class = conversion.class_name(java.field("tupleClass"))
    return ScalaCaseClassSerializer(case_class, conversion.serializers(java.field("fieldSerializers")))


def _java_row(conversion: _Conversion, java: JavaObject) -> Serializer:
    return RowSerializer(conversion.serializers(java.field("fieldSerializers")), has_row_kind=False)


def _java_nullable(conversion: _Conversion, java: JavaObject) -> Serializer:
    return containers.NullableSerializer(
        conversion.serializer(java.field("originalSerializer")), padding=padding_of(java)
    )


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
        version=KRYO_2_24,
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


def padding_of(java: JavaObject) -> int:
    """Return the number of bytes behind the flag of a null: the length of `byte[] padding` (since 1.6)."""
    padding = java.fields.get("padding")
    return len(padding.values) if isinstance(padding, JavaArray) else 0


def constants_of(value: JavaValue) -> tuple[str, ...]:
    if not isinstance(value, JavaArray):
        return ()
    return tuple(element.constant for element in value.values if isinstance(element, JavaEnum))


def tuple_of(tuple_class: str, fields: tuple[Serializer, ...]) -> Serializer:
    # Scala's tuples share the config snapshot of Java's.
    if tuple_class.startswith("scala."):
        return ScalaCaseClassSerializer(tuple_class, fields)
    return TupleSerializer(tuple_class, fields)


# ---- tables ----


_NODE_ID = NodeIdSerializer(EventIdSerializer())
_EDGE = SharedBufferEdgeSerializer(_NODE_ID, DeweyNumberSerializer())

PLAIN_SERIALIZERS: dict[str, Serializer] = {
    **{
        serializer.java_class: serializer()
        for module in (primitives, operators, scala, cep)
        for serializer in vars(module).values()
        if isinstance(serializer, type)
        and issubclass(serializer, BasicSerializer)
        and hasattr(serializer, "java_class")
        # What a NullValue writes by itself is not what its serializer writes.
        and serializer is not primitives.WrittenNullValueSerializer
    },
    **KAFKA_SERIALIZERS,
    _NODE_ID.java_class: _NODE_ID,
    _EDGE.java_class: _EDGE,
    LegacySharedBufferNodeSerializer.java_class: LegacySharedBufferNodeSerializer(
        containers.ListSerializer(_EDGE)
    ),
    NFAStateSerializer.java_class: NFAStateSerializer(
        DeweyNumberSerializer(), _NODE_ID, EventIdSerializer(), has_previous_timestamps=False
    ),
}


JAVA_SERIALIZERS: dict[str, JavaReader] = {
    BASE + "ListSerializer": _from_fields(containers.ListSerializer, "elementSerializer"),
    _STATE + "ArrayListSerializer": _from_fields(containers.ArrayListSerializer, "elementSerializer"),
    BASE + "MapSerializer": _from_fields(containers.MapSerializer, "keySerializer", "valueSerializer"),
    _STATE + "HashMapSerializer": _from_fields(containers.MapSerializer, "keySerializer", "valueSerializer"),
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
    CASE_CLASS: _java_case_class,
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
