"""The serializers of SQL's internal data. Package `org.apache.flink.table.runtime.typeutils`.

| serializer | snapshot | bytes |
|---|---|---|
| RowData | 3: i4 n, n × Java stream of a LogicalType, [fields] | i4 size, binary row |
| ArrayData | 3: Java streams of the element's LogicalType and TypeSerializer | i4 size, binary array |
| MapData | 3: Java streams of two LogicalTypes and two TypeSerializers | i4 size, binary map |
| StringData | – | i4 length, UTF-8 |
| DecimalData | 3: i4 precision, i4 scale | i8 unscaled up to precision 18, else i4 length, two's complement |
| TimestampData | 1: i4 precision | i8 ms, i4 nanos of the ms above precision 3 |
| RawValueData | composite 0: [inner] | i4 size, the inner serializer's bytes |
| BinaryRowData | 3: i4 n | i4 size, a binary row whose types are not stored: shown as bytes |
| SortedMap | 3: Java stream of a Comparator, [key, value] | as Map |
| External | composite 1: Java stream of a DataType, bool since 1.13; [inner] | the inner serializer's |
| LinkedList | composite 1, 2 (null mask), 3: bool null mask; [element] | i4 n, a bit each (1 null), the elements |
| WindowKey | composite 1: [row] | i8 window, row |
| ListView, MapView (`dataview`) | composite 1: [inner] | the inner serializer's |
| NullAwareMap (`dataview`) | composite 1: [key, value] | i4 n, n × (bool key is null, key, bool value is null, value) |
| Null (`dataview`) | – | one byte |
| SortedLong (since 2.3) | – | i8 with its sign bit inverted |
| RowDataKey (since 2.3) | 0: two times i4 length and Java stream, versioned row | the row |
| MetaSqnInfo, RowSqnInfo, Node (since 2.3) | composite 0: [fields] | the fields |

The savepoint holds the names of the fields of nested rows, and not those of a row's own fields: f0, f1, …
See `logicaltypes.py` for binary rows, arrays and maps. Flink 1.9 and 1.10 have other names for the classes of the same bytes: BaseRow,
BaseArray, BaseMap, BinaryString, Decimal, SqlTimestamp, BinaryGeneric (RawValueData), BinaryRow.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from readers.decode.program import Program
from readers.errors import CorruptDataError, UnsupportedSerializerError
from readers.javaio import JavaObject, JavaValue, read_object
from readers.keygroups import hash_binary_row
from readers.serializers import primitives
from readers.serializers.base import (
    Layout,
    Problem,
    RecordSerializer,
    Serializer,
    Snapshot,
    SnapshotBody,
    composite_body,
    simple_body,
)
from readers.serializers.containers import MapSerializer, NullableSerializer
from readers.serializers.primitives import BasicSerializer, NothingSerializer
from readers.serializers.structs import (
    LONG,
    ROW_KIND,
    ROW_KINDS,
    TEXT,
    ListLayout,
    ScalarLayout,
    StructLayout,
    StructSerializer,
)
from readers.serializers.table import logicaltypes
from readers.serializers.table.javatypes import logical_type_of, nullability_of
from readers.serializers.table.logicaltypes import (
    BytesType,
    LogicalType,
    NestedType,
    PhysicalType,
    RowType,
    TextType,
)

TABLE = "org.apache.flink.table.runtime.typeutils."
_DATA_VIEW = "org.apache.flink.table.dataview."
_SINK = "org.apache.flink.table.runtime.operators.sink."
_LINKED = "org.apache.flink.table.runtime.sequencedmultisetstate.linked."

_MIN_TYPE_BYTES = 6  # the shortest Java stream
_DELEGATE = bytes.fromhex("001457FD00000001")  # magic and version before the serializers of the fields
_ROW_KIND_COLUMN = pa.field(ROW_KIND, pa.string())


@dataclass(frozen=True)
class BinarySerializer(Serializer):
    """A binary row, array, map or raw value, behind an i4 size."""

    @property
    def kind(self) -> NestedType:
        """The type of the region behind the size."""
        raise NotImplementedError

    name = "{self.kind.name}"

    @property
    def serializer_name(self) -> str:
        return f"{self.java_class.rsplit('.', 1)[-1]}<{self.kind.name}>"

    @property
    def has_outliers(self) -> bool:
        return self.kind.has_outliers

    def arrow(self) -> pa.DataType:
        return self.kind.arrow()

    def emit(self, program: Program) -> None:
        with program.binary():
            self.kind.emit_region(program)

    def problems(self) -> Iterator[Problem]:
        yield from self.kind.problems()


@dataclass(frozen=True)
class RowDataSerializer(BinarySerializer, RecordSerializer, package=TABLE):
    """A row of SQL, with its kind in the column `__row_kind`.

    `nullability` has an entry for each field: see `nullability_of`.
    """

    row: RowType
    nullability: tuple[str, ...] = field(default=(), compare=False)

    @property
    def kind(self) -> RowType:
        return self.row

    @property
    def type_name(self) -> str:
        return f"ROW<{', '.join(field.name for field in self.field_types)}>"

    @property
    def field_types(self) -> tuple[LogicalType, ...]:
        """The types of the fields, in order."""
        return tuple(field for _, field in self.row.fields)

    @property
    def width(self) -> int:
        return len(self.row.fields)

    def with_names(self, names: tuple[str, ...]) -> RowDataSerializer:
        return replace(self, row=RowType(tuple(zip(names, self.field_types, strict=True))))

    def arrow(self) -> pa.DataType:
        return pa.struct([*self.row.arrow(), _ROW_KIND_COLUMN])

    def emit(self, program: Program) -> None:
        with program.binary():
            self.row.emit_region(program)
            with program.field(len(self.row.fields), ROW_KIND):
                program.binary_row_kind(ROW_KINDS)

    def hash_code(self, value: Any) -> int | None:
        """Return `BinaryRowData#hashCode`, which is over all bytes of the row."""
        row = self._encode_row(value)
        return None if row is None else hash_binary_row(row)

    def encode(self, value: Any) -> bytes | None:
        row = self._encode_row(value)
        return None if row is None else len(row).to_bytes(4, "big") + row

    def _encode_row(self, value: Any) -> bytes | None:
        if not isinstance(value, dict):
            return None
        kind = value.get(ROW_KIND) or ROW_KINDS[0]
        return self.row.encode_row(value, ROW_KINDS.index(kind)) if kind in ROW_KINDS else None


@dataclass(frozen=True)
class ArrayDataSerializer(BinarySerializer, package=TABLE):
    """An array of SQL."""

    element: LogicalType

    @property
    def kind(self) -> logicaltypes.ArrayType:
        return logicaltypes.ArrayType(self.element)


@dataclass(frozen=True)
class MapDataSerializer(BinarySerializer, package=TABLE):
    """A map of SQL."""

    key: LogicalType
    value: LogicalType

    @property
    def kind(self) -> logicaltypes.MapType:
        return logicaltypes.MapType(self.key, self.value)


@dataclass(frozen=True)
class RawValueDataSerializer(BinarySerializer, package=TABLE):
    """A value of RAW, which another serializer writes."""

    inner: Serializer

    @property
    def kind(self) -> logicaltypes.RawType:
        return logicaltypes.RawType(self.inner.type_name, self.inner)

    def emit(self, program: Program) -> None:
        if self.kind.is_decodable:
            super().emit(program)
        else:
            program.blob()


class StringDataSerializer(BasicSerializer, package=TABLE):
    name, layout = "STRING", TEXT

    def encode(self, value: Any) -> bytes | None:
        if not isinstance(value, str):
            return None
        raw = value.encode("utf-8", "replace")
        return len(raw).to_bytes(4, "big") + raw


@dataclass(frozen=True)
class DecimalDataSerializer(Serializer, package=TABLE):
    """A DECIMAL outside of rows."""

    kind: logicaltypes.DecimalType

    name = "{self.kind.name}"

    @property
    def serializer_name(self) -> str:
        return f"DecimalDataSerializer<{self.kind.precision}, {self.kind.scale}>"

    def arrow(self) -> pa.DataType:
        return self.kind.arrow()

    def emit(self, program: Program) -> None:
        if self.kind.is_compact:
            program.compact_decimal(self.kind.precision)
        else:
            program.decimal(self.kind.precision)

    def encode(self, value: Any) -> bytes | None:
        unscaled = self.kind.unscaled(value) if self.kind.is_compact else None
        return None if unscaled is None else unscaled.to_bytes(8, "big", signed=True)


@dataclass(frozen=True)
class TimestampDataSerializer(Serializer, package=TABLE):
    """A TIMESTAMP outside of rows."""

    precision: int

    @property
    def kind(self) -> LogicalType:
        """The type of this precision."""
        return logicaltypes.timestamp_type("TIMESTAMP", self.precision)

    @property
    def has_outliers(self) -> bool:
        return self.kind.has_outliers

    @property
    def fixed_length(self) -> int:  # type: ignore[override]  # derived here
        return 12 if isinstance(self.kind, logicaltypes.TimestampType) else 8

    name = "{self.kind.name}"

    @property
    def serializer_name(self) -> str:
        return f"TimestampDataSerializer<{self.precision}>"

    def arrow(self) -> pa.DataType:
        return self.kind.arrow()

    def emit(self, program: Program) -> None:
        if isinstance(self.kind, logicaltypes.TimestampType):
            program.timestamp_data(self.kind.nanos_a_unit)
        else:
            program.fixed(8)


@dataclass(frozen=True)
class BinaryRowDataSerializer(Serializer, package=TABLE):
    """A row of which only the number of fields is stored: it is shown as its bytes."""

    fields: int

    name = "BinaryRow({self.fields})"

    def arrow(self) -> pa.DataType:
        return pa.binary()

    def emit(self, program: Program) -> None:
        program.blob()

    def problems(self) -> Iterator[Problem]:
        yield Problem(
            path=(), reason=f"the types of the {self.fields} fields are not in the savepoint", sized=True
        )


class SortedMapSerializer(MapSerializer, package=TABLE):
    """A map sorted by a comparator, as rank operators keep it."""


@dataclass(frozen=True)
class WrappingSerializer(Serializer):
    """A serializer whose bytes are those of another one."""

    inner: Serializer

    name = "{self.inner.type_name}"

    @property
    def children(self) -> tuple[tuple[str, Serializer], ...]:
        return self.inner.children

    @property
    def serializer_name(self) -> str:
        return f"{self.java_class.rsplit('.', 1)[-1]}<{self.inner.serializer_name}>"

    @property
    def has_outliers(self) -> bool:
        return self.inner.has_outliers

    @property
    def layout(self) -> Layout:
        return self.inner

    def problems(self) -> Iterator[Problem]:
        yield from self.inner.problems()

    def hash_code(self, value: Any) -> int | None:
        # The classes around the value need not pass its hash on.
        return None

    def encode(self, value: Any) -> bytes | None:
        return self.inner.encode(value)


@dataclass(frozen=True)
class ExternalSerializer(WrappingSerializer, package=TABLE):
    """Converts external data to internal data, whose bytes it writes.

    `is_of_1_12`: its snapshot does not say whether the input is internal.
    """

    is_of_1_12: bool = field(default=False, compare=False)


class ListViewSerializer(WrappingSerializer, package=_DATA_VIEW):
    """A `ListView` of an aggregate function."""


class MapViewSerializer(WrappingSerializer, package=_DATA_VIEW):
    """A `MapView` of an aggregate function."""


class RowDataKeySerializer(WrappingSerializer, package=_LINKED):
    """A row as a key, with its generated equaliser and hash function (since 2.3)."""


@dataclass(frozen=True)
class LinkedListSerializer(Serializer, package=TABLE):
    """A linked list; since version 2 with a mask of its null elements."""

    element: Serializer
    has_null_mask: bool = True

    name = "List<{self.element.type_name}>"

    @property
    def children(self) -> tuple[tuple[str, Serializer], ...]:
        return (("[]", self.element),)

    def arrow(self) -> pa.DataType:
        return pa.list_(self.element.arrow())

    def emit(self, program: Program) -> None:
        with program.masked_list() if self.has_null_mask else program.list():
            self.element.emit(program)


@dataclass(frozen=True)
class WindowKeySerializer(StructSerializer, package=TABLE):
    """A key with the end of its window, for buffered records."""

    key: Serializer

    name = "WindowKey"

    @property
    def layout(self) -> StructLayout:
        return StructLayout(("window", LONG), ("key", self.key))


@dataclass(frozen=True)
class NullAwareMapSerializer(Serializer, package=_DATA_VIEW):
    """A map whose keys may be null: a list of entries, because the keys of a map column may not."""

    key: Serializer
    value: Serializer

    name = "Map<{self.key.type_name}, {self.value.type_name}>"

    @property
    def children(self) -> tuple[tuple[str, Serializer], ...]:
        return (("key", self.key), ("value", self.value))

    @property
    def layout(self) -> ListLayout:
        entry = StructLayout(("key", NullableSerializer(self.key)), ("value", NullableSerializer(self.value)))
        return ListLayout(entry)


class NullSerializer(NothingSerializer, package=_DATA_VIEW):
    """Null, which one byte stands for."""

    name, fixed_length = "Null", 1


class SortedLongSerializer(BasicSerializer, package=_SINK):
    """A long whose bytes sort like the numbers (since 2.3)."""

    name, layout, fixed_length = "Long", ScalarLayout(pa.int64(), Program.flipped), 8


@dataclass(frozen=True)
class LinkedRecordSerializer(StructSerializer):
    """A record of the linked multiset (since 2.3)."""

    fields: tuple[tuple[str, Serializer], ...]

    java_class = _LINKED + "NodeSerializer"
    name = "Node"

    @property
    def layout(self) -> StructLayout:
        return StructLayout(*self.fields)


def _row(snapshot: Snapshot) -> Serializer:
    cursor = snapshot.cursor
    count = cursor.count("row fields", _MIN_TYPE_BYTES)
    start = cursor.position
    types: list[LogicalType | None]
    nullability: tuple[str, ...] = ()
    try:
        objects = [read_object(cursor) for _ in range(count)]
        types = [_known_type(value) for value in objects]
        nullability = tuple(map(_nullability, objects))
    except (CorruptDataError, UnsupportedSerializerError):
        # A type of a class that is not known has no end that can be found. The serializers behind the types determine the
        # layout of the fields too, so reading goes on at their magic number.
        delegate = _DELEGATE + count.to_bytes(4, "big")
        at = bytes(cursor.data[start : cursor.end]).find(delegate)
        if at < 0:
            raise
        cursor.position, types = start + at, [None] * count
    fields = tuple(
        (f"f{index}", _physical_type(serializer) if kind is None else kind.refine(serializer))
        for index, (kind, serializer) in enumerate(zip(types, snapshot.nested(count), strict=True))
    )
    return RowDataSerializer(RowType(fields), nullability)


def _nullability(value: JavaValue) -> str:
    # A hostile object may hold no list of fields.
    try:
        return nullability_of(value)
    except UnsupportedSerializerError:
        return ""


def _known_type(value: JavaValue) -> LogicalType | None:
    try:
        return logical_type_of(value)
    except CorruptDataError:
        return None


def _physical_type(serializer: Serializer) -> LogicalType:
    if isinstance(serializer, BinarySerializer | DecimalDataSerializer | TimestampDataSerializer):
        return PhysicalType(serializer.kind)
    return PhysicalType(_PHYSICAL_TYPES.get(type(serializer)) or BytesType(serializer.type_name))


def _element_type(snapshot: Snapshot) -> LogicalType:
    """Read the type of an element.

    Raises:
        UnsupportedSerializerError: it is not known; no serializer in the snapshot could stand in for it.
    """
    start = snapshot.cursor.position
    value = read_object(snapshot.cursor)
    kind = _known_type(value)
    if kind is None:
        found = value.class_name if isinstance(value, JavaObject) else type(value).__name__
        raise UnsupportedSerializerError(
            f"expected a known LogicalType, found {found}",
            path=snapshot.cursor.path,
            position=start,
            breadcrumbs=(snapshot.class_name,),
        )
    return kind


def _array(snapshot: Snapshot) -> Serializer:
    element = _element_type(snapshot)
    read_object(snapshot.cursor)  # its TypeSerializer, which the type determines
    return ArrayDataSerializer(element)


def _map(snapshot: Snapshot) -> Serializer:
    key, value = _element_type(snapshot), _element_type(snapshot)
    for _ in range(2):
        read_object(snapshot.cursor)
    return MapDataSerializer(key, value)


def _decimal(snapshot: Snapshot) -> Serializer:
    precision, scale = snapshot.cursor.i4(), snapshot.cursor.i4()
    return DecimalDataSerializer(logicaltypes.decimal_type(precision, scale))


def _timestamp(snapshot: Snapshot) -> Serializer:
    return TimestampDataSerializer(snapshot.cursor.i4())


def _binary_row(snapshot: Snapshot) -> Serializer:
    return BinaryRowDataSerializer(snapshot.cursor.i4())


def _sorted_map(snapshot: Snapshot) -> Serializer:
    read_object(snapshot.cursor)
    return SortedMapSerializer(*snapshot.nested(2))


def _external(snapshot: Snapshot) -> Serializer:
    snapshot.composite()
    data_type = read_object(snapshot.cursor)
    # 1.12 does not write whether the input is internal, and has the same version.
    is_of_1_12 = snapshot.is_at_nested()
    if not is_of_1_12:
        snapshot.cursor.boolean()
    (inner,) = snapshot.nested(1)
    # Only the `DataType` holds the names of the row's own fields.
    if isinstance(data_type, JavaObject) and isinstance(inner, RowDataSerializer):
        kind = logical_type_of(data_type.field("logicalType"))
        if isinstance(kind, RowType) and len(kind.fields) == len(inner.row.fields):
            inner = inner.with_names(tuple(name for name, _ in kind.fields))
    return ExternalSerializer(inner, is_of_1_12)


def _linked_list(snapshot: Snapshot) -> Serializer:
    version = snapshot.composite()
    has_null_mask = snapshot.cursor.boolean() if version >= 3 else version == 2
    (element,) = snapshot.nested(1)
    return LinkedListSerializer(element, has_null_mask)


def _row_data_key(snapshot: Snapshot) -> Serializer:
    for what in ("equaliser", "hash function"):
        snapshot.cursor.blob(what)
    return RowDataKeySerializer(snapshot.versioned())


def _linked(*names: str) -> SnapshotBody:
    """Return the reader of a composite whose nested serializers are the fields `names`."""

    def read(snapshot: Snapshot) -> Serializer:
        snapshot.composite()
        return LinkedRecordSerializer(tuple(zip(names, snapshot.nested(len(names)), strict=True)))

    return read


# For fields whose SQL type is not known.
_PHYSICAL_TYPES: dict[type[Serializer], LogicalType] = {
    primitives.BooleanSerializer: logicaltypes.BOOLEAN, primitives.ByteSerializer: logicaltypes.TINYINT,
    primitives.ShortSerializer: logicaltypes.SMALLINT, primitives.IntSerializer: logicaltypes.INT,
    primitives.LongSerializer: logicaltypes.BIGINT, primitives.FloatSerializer: logicaltypes.FLOAT,
    primitives.DoubleSerializer: logicaltypes.DOUBLE, StringDataSerializer: TextType("STRING"),
    primitives.BytePrimitiveArraySerializer: BytesType("BYTES"),
}  # fmt: skip

SNAPSHOTS: dict[str, SnapshotBody] = {
    TABLE + "RowDataSerializer$RowDataSerializerSnapshot": _row,
    TABLE + "BaseRowSerializer$BaseRowSerializerSnapshot": _row,
    TABLE + "ArrayDataSerializer$ArrayDataSerializerSnapshot": _array,
    TABLE + "BaseArraySerializer$BaseArraySerializerSnapshot": _array,
    TABLE + "MapDataSerializer$MapDataSerializerSnapshot": _map,
    TABLE + "BaseMapSerializer$BaseMapSerializerSnapshot": _map,
    TABLE + "StringDataSerializer$StringDataSerializerSnapshot": simple_body(StringDataSerializer()),
    TABLE + "BinaryStringSerializer$BinaryStringSerializerSnapshot": simple_body(StringDataSerializer()),
    TABLE + "DecimalDataSerializer$DecimalSerializerSnapshot": _decimal,
    TABLE + "DecimalSerializer$DecimalSerializerSnapshot": _decimal,
    TABLE + "TimestampDataSerializer$TimestampDataSerializerSnapshot": _timestamp,
    TABLE + "SqlTimestampSerializer$SqlTimestampSerializerSnapshot": _timestamp,
    TABLE + "RawValueDataSerializer$RawValueDataSerializerSnapshot": composite_body(
        RawValueDataSerializer, 1
    ),
    TABLE + "BinaryGenericSerializer$BinaryGenericSerializerSnapshot": composite_body(
        RawValueDataSerializer, 1
    ),
    TABLE + "BinaryRowDataSerializer$BinaryRowDataSerializerSnapshot": _binary_row,
    TABLE + "BinaryRowSerializer$BinaryRowSerializerSnapshot": _binary_row,
    TABLE + "SortedMapSerializerSnapshot": _sorted_map,
    TABLE + "ExternalSerializer$ExternalSerializerSnapshot": _external,
    TABLE + "LinkedListSerializer$LinkedListSerializerSnapshot": _linked_list,
    TABLE + "WindowKeySerializer$WindowKeySerializerSnapshot": composite_body(WindowKeySerializer, 1),
    _DATA_VIEW + "ListViewSerializerSnapshot": composite_body(ListViewSerializer, 1),
    _DATA_VIEW + "MapViewSerializerSnapshot": composite_body(MapViewSerializer, 1),
    _DATA_VIEW + "NullAwareMapSerializerSnapshot": composite_body(NullAwareMapSerializer, 2),
    _DATA_VIEW + "NullSerializer$NullSerializerSnapshot": simple_body(NullSerializer()),
    _SINK + "SortedLongSerializer$SortedLongSerializerSnapshot": simple_body(SortedLongSerializer()),
    _LINKED + "RowDataKeySerializerSnapshot": _row_data_key,
    _LINKED + "MetaSqnInfoSerializer$MetaSqnInfoSerializerSnapshot": _linked("highest", "size"),
    _LINKED + "RowSqnInfoSerializer$RowSqnInfoSerializerSnapshot": _linked("first", "last"),
    _LINKED + "NodeSerializer$NodeSerializerSnapshot": _linked(
        "row", "sqn", "previous", "next", "next_for_record", "timestamp"
    ),
}
