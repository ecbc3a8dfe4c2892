"""The headers of state files: which states they hold, and in which types; and the bytes and snapshots that they are made of.

`DataOutput` writes big-endian bytes as `java.io.DataOutput` does: the opposite of `readers.cursor`.

| method | bytes | Java |
|---|---|---|
| `u1 u2 i4 i8 boolean` | 1 2 4 8 1 | `DataOutput#writeByte` … |
| `utf` | u2 length + modified UTF-8 | `DataOutput#writeUTF` |
| `blob` | i4 length + bytes | `BytePrimitiveArraySerializer` |

`write_snapshot` writes the snapshots of new states: the schema that Flink stores before the data. `readers.snapshots` describes the
forms.

| snapshot | bytes after `utf class, i4 version` |
|---|---|
| simple | version 3, nothing |
| composite | version 3: i4 911108, i4 outer version, outer body, i4 1333245, i4 1, i4 n, n × snapshot |
| POJO | version 2: utf class, three optional maps: fields, registered and other subclasses |
| enum | version 3: utf class, i4 n, n × utf constant |
| Kryo | version 2: utf class, three optional maps: registrations, default serializers as instances and as classes |
| DecimalData, TimestampData | version 3, 1: i4 precision, i4 scale; i4 precision |

States that a savepoint has keep the bytes of their snapshots, see `RegisteredState`. The types here are those that can be named
without one; their bytes are Flink's own, of 1.20 and of 2.x alike.

`readers.headers` describes the layout of headers. Flink 1.8 to 2.3 restores keyed headers of version 6 and operator headers of version 5
and later. What a state is registered with is kept as its bytes: a header that is read and written again is the same.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from typing import Any

import numpy as np

from readers import (
    COMPOSITE_MAGIC,
    KRYO_5,
    NESTED_MAGIC,
    OPTIONAL_MAP_MAGIC,
    BackendStateType,
    Serializer,
    StateMetaInfo,
    has_snapshot,
)
from readers.metadata import Offsets
from writers.errors import UnencodableTypeError, UnwritableError

_MOST_UTF_BYTES = 0xFFFF


class DataOutput:
    """A growing buffer; every method appends to it.

    Attributes:
        data: what was written.
    """

    __slots__ = ("data",)

    def __init__(self) -> None:
        self.data = bytearray()

    def raw(self, data: bytes | bytearray | memoryview) -> None:
        """Append bytes as they are."""
        self.data += data

    def u1(self, value: int) -> None:
        self.data.append(value)

    def boolean(self, value: bool) -> None:
        self.data.append(1 if value else 0)

    def u2(self, value: int) -> None:
        self.data += struct.pack(">H", value)

    def i4(self, value: int) -> None:
        self.data += struct.pack(">i", value)

    def i8(self, value: int) -> None:
        self.data += struct.pack(">q", value)

    def offsets(self, values: Offsets) -> None:
        """Append each number as an i8, without their count."""
        self.data += np.asarray(values, dtype=">i8").tobytes()

    def blob(self, data: bytes | bytearray) -> None:
        """Append an i4 length and the bytes."""
        self.i4(len(data))
        self.data += data

    def utf(self, text: str) -> None:
        """Append what `writeUTF` writes.

        Raises:
            UnwritableError: the text takes more bytes than its two bytes of length can say.
        """
        encoded = modified_utf8(text)
        if len(encoded) > _MOST_UTF_BYTES:
            raise UnwritableError(
                f"expected a text of at most {_MOST_UTF_BYTES} bytes, found {len(encoded)}: {text[:40]!r}…"
            )
        self.u2(len(encoded))
        self.data += encoded


def modified_utf8(text: str) -> bytes:
    """Return Java's modified UTF-8: U+0000 takes two bytes, and each half of a surrogate pair three."""
    if text.isascii() and "\0" not in text:
        return text.encode("ascii")
    return units_of(text).encode("utf-8", "surrogatepass").replace(b"\x00", b"\xc0\x80")


def units_of(text: str) -> str:
    """Return a text in which each UTF-16 unit of another one is a character of its own."""
    units = text.encode("utf-16-be", "surrogatepass")
    return "".join(map(chr, struct.unpack(f">{len(units) // 2}H", units)))


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


KEYED_VERSION = 6
OPERATOR_VERSIONS = (5, 6)
_FIRST_WITH_COMPRESSION = 6  # of operator headers
_VERSION_BYTES = 4
_BLOCK_VERSION = 2
_MOST_STATES = 2**15 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredState:
    """One state, as a header registers it.

    Attributes:
        name: unique among the states of one kind.
        kind: the way the backend holds it.
        options: by `StateMetaInfoSnapshot.CommonOptionsKeys`, in their order.
        blocks: the snapshot of each serializer with the version before it, by `CommonSerializerKeys`, in their order.
    """

    name: str
    kind: BackendStateType
    options: Mapping[str, str]
    blocks: Mapping[str, bytes]


def registered_state(state: StateMetaInfo, header: bytes | memoryview) -> RegisteredState:
    """Return a state of a header that was read.

    Args:
        state: in a keyed header of version 6 or an operator header of version 5 or later.
        header: the bytes that it was read from, from their begin.
    """
    blocks = {key: bytes(header[start:end]) for key, (start, end) in state.blocks.items()}
    if blocks.keys() != state.serializers.keys():
        raise UnwritableError(
            f"expected state {state.name} in a header of Flink 1.7 or later, found an older one: "
            "let a later Flink take a new savepoint"
        )
    return RegisteredState(name=state.name, kind=state.kind, options=state.options, blocks=blocks)


def snapshot_block(snapshot: bytes) -> bytes:
    """Return a versioned snapshot as headers hold it."""
    return _BLOCK_VERSION.to_bytes(_VERSION_BYTES, "big") + snapshot


def snapshot_of(block: bytes) -> bytes:
    """Return the versioned snapshot that a header holds."""
    return block[_VERSION_BYTES:]


def write_keyed_header(
    key_block: bytes, states: Sequence[RegisteredState], *, compressed: bool = False
) -> bytes:
    """Return the header of a keyed state file; the index of a state is its id in the data.

    Raises:
        UnwritableError: there are more states than a header can hold.
    """
    output = DataOutput()
    output.i4(KEYED_VERSION)
    output.boolean(compressed)
    output.raw(key_block)
    _write_states(output, states)
    return bytes(output.data)


def write_operator_header(
    operator_states: Sequence[RegisteredState],
    broadcast_states: Sequence[RegisteredState],
    *,
    version: int = OPERATOR_VERSIONS[0],
    compressed: bool = False,
) -> bytes:
    """Return the header of an operator state file.

    Raises:
        UnwritableError: the version is not one that is written here or knows no compression, or there are too many states.
    """
    if version not in OPERATOR_VERSIONS or (compressed and version < _FIRST_WITH_COMPRESSION):
        raise UnwritableError(
            f"expected an operator state header of version 5, or 6 if it is compressed, found version {version}"
        )
    output = DataOutput()
    output.i4(version)
    if version >= _FIRST_WITH_COMPRESSION:
        output.boolean(compressed)
    _write_states(output, operator_states)
    _write_states(output, broadcast_states)
    return bytes(output.data)


def _write_states(output: DataOutput, states: Sequence[RegisteredState]) -> None:
    if len(states) > _MOST_STATES:
        raise UnwritableError(f"expected at most {_MOST_STATES} states of an operator, found {len(states)}")
    output.u2(len(states))
    for state in states:
        output.utf(state.name)
        output.i4(state.kind.value)
        output.i4(len(state.options))
        for option, value in state.options.items():
            output.utf(option)
            output.utf(value)
        output.i4(len(state.blocks))
        for key, block in state.blocks.items():
            output.utf(key)
            output.raw(block)
