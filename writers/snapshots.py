"""Serializer snapshots of new states: the schema that Flink stores before the data. `readers.snapshots` describes the forms.

| snapshot | bytes after `utf class, i4 version` |
|---|---|
| simple | version 3, nothing |
| composite | version 3: i4 911108, i4 outer version, outer body, i4 1333245, i4 1, i4 n, n × snapshot |
| POJO | version 2: utf class, three optional maps: fields, registered and other subclasses |
| enum | version 3: utf class, i4 n, n × utf constant |
| Kryo | version 2: utf class, three optional maps: registrations, default serializers as instances and as classes |
| DecimalData, TimestampData | version 3, 1: i4 precision, i4 scale; i4 precision |

States that a savepoint has keep the bytes of their snapshots: see `headers.py`. The types here are those that can be named
without one; their bytes are Flink's own, of 1.20 and of 2.x alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import is_dataclass
from typing import Any

from readers import COMPOSITE_MAGIC, KRYO_5, NESTED_MAGIC, OPTIONAL_MAP_MAGIC, Serializer, has_snapshot
from writers.errors import UnencodableTypeError
from writers.output import DataOutput

_SIMPLE_VERSION = 3
_COMPOSITE_VERSION = 3
_ENUM_VERSION = 3
_POJO_VERSION = 2
_KRYO_VERSION = 2
_DECIMAL_VERSION = 3
_TIMESTAMP_VERSION = 1
_NESTED_VERSION = 1

_BASE = "org.apache.flink.api.common.typeutils.base."
_RUNTIME = "org.apache.flink.api.java.typeutils.runtime."
_STREAMING = "org.apache.flink.streaming."
_KRYO = _RUNTIME + "kryo."
_WITHOUT_AVRO = _KRYO + "Serializers$DummyAvroKryoSerializerClass"
_WITH_AVRO = _KRYO + "Serializers$SpecificInstanceCollectionSerializerForArrayList"
_NO_SERIALIZER, _SERIALIZER_CLASS = 0, 1
_WINDOWS = _STREAMING + "api.windowing.windows."
_TABLE = "org.apache.flink.table.runtime.typeutils."


def write_snapshot(serializer: Serializer) -> bytes:
    """Return the versioned snapshot of a serializer.

    Raises:
        UnencodableTypeError: it holds more than its serializer keeps of it (Avro, SQL's rows, serializers that users gave to Kryo).
    """
    output = DataOutput()
    _write_versioned(output, serializer)
    return bytes(output.data)


def with_ttl(snapshot: bytes) -> bytes:
    """Return the snapshot of values with TTL, from that of the values, which keeps its bytes whatever it is."""
    output = DataOutput()
    name, outer_version, _ = _COMPOSITES[_TTL]
    _write_head(output, name, _COMPOSITE_VERSION)
    output.i4(COMPOSITE_MAGIC)
    output.i4(outer_version)
    _write_nested(output, 2)
    _write_head(output, _BASE + "LongSerializer$LongSerializerSnapshot", _SIMPLE_VERSION)
    output.raw(snapshot)
    return bytes(output.data)


def without_ttl(snapshot: bytes) -> bytes:
    """Return the snapshot of values, from that of the values with TTL.

    Raises:
        UnencodableTypeError: it is another one.
    """
    beginning = with_ttl(b"")
    if not snapshot.startswith(beginning):
        raise UnencodableTypeError("expected the snapshot of values with TTL, found another")
    return snapshot[len(beginning) :]


def _write_versioned(output: DataOutput, serializer: Serializer) -> None:
    if serializer.java_class in _COMPOSITES:
        _write_composite(output, serializer)
        return
    write = _OTHERS.get(serializer.java_class)
    if write is not None:
        write(output, serializer)
        return
    simple_name = serializer.java_class.rsplit(".", 1)[-1]
    name = _SIMPLE_NAMES.get(serializer.java_class, f"{serializer.java_class}${simple_name}Snapshot")
    # A serializer with attributes has them in its snapshot: only those without are simple.
    if is_dataclass(serializer) or not has_snapshot(name):
        raise _refused(serializer)
    _write_head(output, name, _SIMPLE_VERSION)


def _refused(serializer: Serializer) -> UnencodableTypeError:
    return UnencodableTypeError(
        f"expected a type whose snapshot can be written, found {serializer.type_name} "
        f"({serializer.java_class}): copy its state from a savepoint that has it"
    )


def _write_head(output: DataOutput, name: str, version: int) -> None:
    output.utf(name)
    output.i4(version)


def _write_composite(output: DataOutput, serializer: Serializer) -> None:
    name, outer_version, write_outer = _COMPOSITES[serializer.java_class]
    _write_head(output, name, _COMPOSITE_VERSION)
    output.i4(COMPOSITE_MAGIC)
    output.i4(outer_version)
    write_outer(output, serializer)
    nested = [child for _, child in serializer.children]
    if serializer.java_class in _WITH_TIME:
        _write_nested(output, len(nested) + 1)
        _write_head(output, _BASE + "LongSerializer$LongSerializerSnapshot", _SIMPLE_VERSION)
    else:
        _write_nested(output, len(nested))
    for child in nested:
        _write_versioned(output, child)


def _write_nested(output: DataOutput, count: int) -> None:
    output.i4(NESTED_MAGIC)
    output.i4(_NESTED_VERSION)
    output.i4(count)


def _nothing(_output: DataOutput, _serializer: Any) -> None:
    """Write no outer body."""


def _write_enum(output: DataOutput, serializer: Any) -> None:
    _write_head(output, _BASE + "EnumSerializer$EnumSerializerSnapshot", _ENUM_VERSION)
    output.utf(serializer.enum_class)
    output.i4(len(serializer.constants))
    for constant in serializer.constants:
        output.utf(constant)


def _write_pojo(output: DataOutput, serializer: Any) -> None:
    # A hidden field has no class any more, which its entry in the snapshot would name.
    if any(field.hidden for field in serializer.fields):
        raise _refused(serializer)
    _write_head(output, _RUNTIME + "PojoSerializerSnapshot", _POJO_VERSION)
    output.utf(serializer.pojo_class)
    fields = [
        (one.name, _texts(one.declared_in or serializer.pojo_class, one.name), write_snapshot(one.serializer))
        for one in serializer.fields
    ]
    _write_optional_map(output, fields)
    for subclasses in (serializer.registered, serializer.non_registered):
        _write_optional_map(output, [(name, b"", write_snapshot(one)) for name, one in subclasses])


def _texts(*texts: str) -> bytes:
    output = DataOutput()
    for text in texts:
        output.utf(text)
    return bytes(output.data)


def _write_optional_map(output: DataOutput, entries: Sequence[tuple[str, bytes, bytes]]) -> None:
    """Write name, key and value of each entry."""
    output.i8(OPTIONAL_MAP_MAGIC)
    output.i4(len(entries))
    for name, *frames in entries:
        output.utf(name)
        for frame in frames:
            output.boolean(True)
            output.blob(frame)


def _write_kryo(output: DataOutput, serializer: Any) -> None:
    """Write the class and the registrations.

    The bytes are the same in Kryo 2 and 5, but for Avro's registration: with Avro on the class path Flink 1 stores an instance of
    a class that Flink 2 does not have. What Flink stores without Avro names classes that Flink 2 has, and keeps the number.
    """
    settings = serializer.settings
    if settings.default_serializers:
        raise _refused(serializer)
    _write_head(output, _KRYO + "KryoSerializerSnapshot", _KRYO_VERSION)
    output.utf(serializer.type_class)
    entries = []
    for one in settings.registrations:
        is_avro = one.serializer == _WITHOUT_AVRO or (
            one.serializer == _WITH_AVRO and settings.version >= KRYO_5
        )
        if one.serializer and not is_avro:
            raise _refused(serializer)
        value = _texts(one.class_name) + _NO_SERIALIZER.to_bytes(4, "big")
        if is_avro:
            registered = _texts(_KRYO + "Serializers$DummyAvroRegisteredClass")
            value = registered + _SERIALIZER_CLASS.to_bytes(4, "big") + _texts(_WITHOUT_AVRO)
        entries.append((one.class_name, _texts(one.class_name), value))
    for registrations in (entries, (), ()):
        _write_optional_map(output, registrations)


def _write_decimal(output: DataOutput, serializer: Any) -> None:
    _write_head(output, _TABLE + "DecimalDataSerializer$DecimalSerializerSnapshot", _DECIMAL_VERSION)
    output.i4(serializer.kind.precision)
    output.i4(serializer.kind.scale)


def _write_timestamp(output: DataOutput, serializer: Any) -> None:
    _write_head(
        output, _TABLE + "TimestampDataSerializer$TimestampDataSerializerSnapshot", _TIMESTAMP_VERSION
    )
    output.i4(serializer.precision)


_SIMPLE_NAMES = {
    _RUNTIME + "Tuple0Serializer": _RUNTIME + "Tuple0SerializerSnapshot",
    _WINDOWS + "TimeWindow$Serializer": _WINDOWS + "TimeWindow$Serializer$TimeWindowSerializerSnapshot",
    _WINDOWS + "GlobalWindow$Serializer": _WINDOWS + "GlobalWindow$Serializer$GlobalWindowSerializerSnapshot",
}

_TTL = "org.apache.flink.runtime.state.ttl.TtlStateFactory$TtlSerializer"
# The time of the last access is the first nested serializer, and has no child in the tree.
_WITH_TIME = frozenset({_TTL})

_COMPOSITES: dict[str, tuple[str, int, Callable[[DataOutput, Any], None]]] = {
    _BASE + "ListSerializer": (_BASE + "ListSerializerSnapshot", 1, _nothing),
    _BASE + "SetSerializer": (_BASE + "SetSerializerSnapshot", 1, _nothing),
    _BASE + "MapSerializer": (_BASE + "MapSerializerSnapshot", 1, _nothing),
    _BASE + "GenericArraySerializer": (
        _BASE + "GenericArraySerializerSnapshot", 1, lambda output, one: output.utf(one.component_class),
    ),
    "org.apache.flink.runtime.state.ArrayListSerializer": (
        "org.apache.flink.runtime.state.ArrayListSerializerSnapshot", 1, _nothing,
    ),
    _RUNTIME + "NullableSerializer": (
        _RUNTIME + "NullableSerializer$NullableSerializerSnapshot", 2, lambda output, one: output.i4(one.padding),
    ),
    _RUNTIME + "TupleSerializer": (
        _RUNTIME + "TupleSerializerSnapshot", 2, lambda output, one: output.utf(one.tuple_class),
    ),
    _RUNTIME + "RowSerializer": (
        _RUNTIME + "RowSerializer$RowSerializerSnapshot", 4, lambda output, one: output.boolean(one.has_row_kind),
    ),
    _RUNTIME + "EitherSerializer": (_RUNTIME + "JavaEitherSerializerSnapshot", 1, _nothing),
    _STREAMING + "api.operators.TimerSerializer": (
        _STREAMING + "api.operators.TimerSerializerSnapshot", 2, _nothing,
    ),
    _TTL: (_TTL + "Snapshot", 2, _nothing),
}  # fmt: skip
"""Serializer → its composite snapshot: class, outer version, writer of the outer body."""

_OTHERS: dict[str, Callable[[DataOutput, Any], None]] = {
    _BASE + "EnumSerializer": _write_enum,
    _RUNTIME + "PojoSerializer": _write_pojo,
    _KRYO + "KryoSerializer": _write_kryo,
    _TABLE + "DecimalDataSerializer": _write_decimal,
    _TABLE + "TimestampDataSerializer": _write_timestamp,
}
