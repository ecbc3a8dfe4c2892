"""Columns of tables → the types that a format of tables has. A value changes its type, and never its meaning: nothing is rounded.

| Arrow | Parquet | Iceberg | Delta |
|---|---|---|---|
| bool, int32, int64, float32, float64, string, binary, date32 | the same | the same | the same |
| int8, int16 | the same | int32 | the same |
| uint8 and uint16, uint32, uint64 | the same | int32, int64, decimal(20, 0) | int32, int64, decimal(20, 0) |
| decimal of at most 38 digits | the same | the same | the same |
| decimal of more digits | text | text | text |
| timestamp in seconds, milli- or microseconds | the same | microseconds | microseconds |
| timestamp in nanoseconds | the same | see below | see below |
| time in seconds, milli- or microseconds | the same | microseconds | text |
| time in nanoseconds | the same | see below | text |
| duration | the same | int64, in its unit | int64, in its unit |
| float16, null, dictionary | float32, string, the values | as Parquet | as Parquet |
| struct without fields | JSON text | JSON text | JSON text |
| list, struct, map | the same, of converted values | the same | the same |

Nanoseconds, where a format has none or `nanoseconds` says so: `micros` (the default), and a value that is finer is an error;
`bigint`, nanoseconds since the epoch or of the day; `text`, in ISO 8601.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from readers import ValueOutOfRangeError, json_text, sql_type

PARQUET, ICEBERG, DELTA = "parquet", "iceberg", "delta"
FORMATS = (PARQUET, ICEBERG, DELTA)
NANOSECONDS = ("micros", "bigint", "text")
_MAX_DIGITS = 38
# What Delta's protocol allows in no name of a column, unless readers know how to map columns.
_NOT_IN_DELTA = frozenset(" ,;{}()\n\t=")
_SMALL_INTEGERS = (pa.types.is_int8, pa.types.is_int16, pa.types.is_uint8, pa.types.is_uint16)


class UnexportableTypeError(TypeError):
    """A type for which a format has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeRules:
    """How types and names of columns become those of a format.

    Attributes:
        format: one of `FORMATS`.
        nanoseconds: one of `NANOSECONDS`; None for what the format has.
    """

    format: str
    nanoseconds: str | None = None

    def schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema that stands for one of a table.

        Raises:
            UnexportableTypeError: the format has no type for a column.
        """
        fields = []
        for name, column in zip(self._names(schema.names), schema, strict=True):
            try:
                fields.append(pa.field(name, self.type(column.type)))
            except UnexportableTypeError as error:
                raise UnexportableTypeError(f"column {column.name!r}: {error}") from error
        return pa.schema(fields)

    def type(self, arrow_type: pa.DataType) -> pa.DataType:
        """Return the type that stands for another.

        Raises:
            UnexportableTypeError: the format has none.
        """
        for test, convert in _TYPES:
            if test(arrow_type):
                return convert(self, arrow_type)
        raise UnexportableTypeError(
            f"expected a type that {self.format} can hold, found {sql_type(arrow_type)}"
        )

    @property
    def is_plain(self) -> bool:
        """True for Parquet files alone, which hold nearly all that Arrow does."""
        return self.format == PARQUET

    @property
    def _finest(self) -> str | None:
        """How nanoseconds are written; None as they are."""
        return self.nanoseconds or (None if self.is_plain else "micros")

    def _names(self, names: Sequence[str]) -> list[str]:
        """Return names of columns, or of fields, that the format allows, and that differ not only by case."""
        if self.is_plain:
            return list(names)
        found: list[str] = []
        taken: set[str] = set()
        for name in names:
            allowed = _allowed(name) if self.format == DELTA else name
            number, spelled = 1, allowed
            while spelled.casefold() in taken:
                number += 1
                spelled = f"{allowed}~{number}"
            taken.add(spelled.casefold())
            found.append(spelled)
        return found

    def _integer(self, arrow_type: pa.DataType) -> pa.DataType:
        is_small = any(test(arrow_type) for test in _SMALL_INTEGERS)
        if self.is_plain or (
            pa.types.is_signed_integer(arrow_type) and not (is_small and self.format == ICEBERG)
        ):
            return arrow_type
        if is_small:
            return pa.int32()
        return pa.int64() if pa.types.is_uint32(arrow_type) else pa.decimal128(20, 0)

    def _decimal(self, arrow_type: pa.DataType) -> pa.DataType:
        if arrow_type.precision > _MAX_DIGITS or arrow_type.scale < 0:
            return pa.string()
        return pa.decimal128(arrow_type.precision, arrow_type.scale)

    def _timestamp(self, arrow_type: pa.DataType) -> pa.DataType:
        if arrow_type.unit == "ns" and self._finest in _FINE:
            return _FINE[self._finest]
        if self.is_plain and not (arrow_type.unit == "ns" and self._finest):
            return arrow_type
        return pa.timestamp("us", tz="UTC" if arrow_type.tz else None)

    def _time(self, arrow_type: pa.DataType) -> pa.DataType:
        is_finer = pa.types.is_time64(arrow_type) and arrow_type.unit == "ns"
        if is_finer and self._finest in _FINE:
            return _FINE[self._finest]
        if self.format == DELTA:
            return _FINE["bigint"] if self.nanoseconds == "bigint" else pa.string()
        if self.is_plain and not (is_finer and self._finest):
            return arrow_type
        return pa.time64("us")

    def _duration(self, arrow_type: pa.DataType) -> pa.DataType:
        return arrow_type if self.is_plain else pa.int64()

    def _struct(self, arrow_type: pa.DataType) -> pa.DataType:
        if not arrow_type.num_fields:
            return pa.string()
        names = self._names([part.name for part in arrow_type])
        return pa.struct([(name, self.type(part.type)) for name, part in zip(names, arrow_type, strict=True)])

    def _list(self, arrow_type: pa.DataType) -> pa.DataType:
        return pa.list_(pa.field("element", self.type(arrow_type.value_type)))

    def _map(self, arrow_type: pa.DataType) -> pa.DataType:
        return pa.map_(self.type(arrow_type.key_type), self.type(arrow_type.item_type))

    def _values(self, arrow_type: pa.DataType) -> pa.DataType:
        return self.type(arrow_type.value_type)


@dataclass(frozen=True, slots=True)
class Conversion:
    """Batches of a table → batches of a format. Can be pickled.

    Attributes:
        table: for errors.
        schema: what `TypeRules.schema` has made of the table's.
        written: the same schema as files have it: with the numbers of fields, where a format knows columns by these.
    """

    table: str
    schema: pa.Schema
    written: pa.Schema = field(compare=False)

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a batch.

        Raises:
            ValueOutOfRangeError: a value is finer than its column, or beyond it.
        """
        arrays = []
        for name, column, target in zip(batch.schema.names, batch.columns, self.schema, strict=True):
            try:
                arrays.append(converted(column, target.type))
            except pa.ArrowInvalid as error:
                raise ValueOutOfRangeError(
                    f"table {self.table!r}, column {name!r}: expected values that {target.type} can hold, found one that it "
                    f"cannot: {error}; with nanoseconds as text or bigint, columns of nanoseconds hold every value"
                ) from error
        return pa.RecordBatch.from_arrays(arrays, schema=self.written)


def converted(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Return a column in another type, which `TypeRules.type` has returned for its own.

    Raises:
        pyarrow.ArrowInvalid: a value is finer than the type, or beyond it.
    """
    own = array.type
    if own.equals(target):
        return array
    if pa.types.is_dictionary(own):
        return converted(array.dictionary_decode(), target)
    if pa.types.is_string(target):
        return _text(array)
    if pa.types.is_struct(own):
        children = [converted(array.field(number), part.type) for number, part in enumerate(target)]
        return pa.StructArray.from_arrays(children, fields=list(target), mask=array.is_null())
    if pa.types.is_map(own):
        children = [converted(array.keys, target.key_type), converted(array.items, target.item_type)]
        return pa.MapArray.from_arrays(_offsets(array), *children, type=target, mask=array.is_null())
    if _is_list(own):
        values = converted(array.values, target.value_type)
        return pa.ListArray.from_arrays(_offsets(array), values, type=target, mask=array.is_null())
    if pa.types.is_time(own) and pa.types.is_integer(target):
        return array.cast(pa.time64("ns")).cast(target)
    return array.cast(target)


def _text(array: pa.Array) -> pa.Array:
    own = array.type
    if pa.types.is_null(own):
        return pa.nulls(len(array), pa.string())
    if pa.types.is_struct(own):  # without fields
        return pc.if_else(array.is_valid(), pa.scalar("{}"), pa.scalar(None, pa.string()))
    if pa.types.is_timestamp(own):
        return pc.utf8_trim(json_text(array), '"')
    if pa.types.is_time(own):
        return array.cast(pa.time64("ns")).cast(pa.string())
    return array.cast(pa.string())


def _offsets(array: pa.Array) -> pa.Array:
    # Arrow refuses a mask if the offsets are a slice of an array.
    return pa.array(array.offsets.to_numpy())


def _allowed(name: str) -> str:
    """Return a name with `~` and two hexadecimal digits in place of what Delta allows in none."""
    if _NOT_IN_DELTA.isdisjoint(name):
        return name
    return "".join(f"~{ord(char):02x}" if char in _NOT_IN_DELTA else char for char in name)


def _is_list(arrow_type: pa.DataType) -> bool:
    return bool(pa.types.is_list(arrow_type))


def _same(_: TypeRules, arrow_type: pa.DataType) -> pa.DataType:
    return arrow_type


def _always(target: pa.DataType) -> Callable[[TypeRules, pa.DataType], pa.DataType]:
    return lambda _, __: target


_FINE: dict[str | None, pa.DataType] = {"bigint": pa.int64(), "text": pa.string()}
# (test, type): the first test that passes decides.
_TYPES: tuple[tuple[Callable[[Any], bool], Callable[[TypeRules, pa.DataType], pa.DataType]], ...] = (
    (pa.types.is_boolean, _same),
    (pa.types.is_integer, TypeRules._integer),
    (pa.types.is_float16, _always(pa.float32())),
    (pa.types.is_floating, _same),
    (pa.types.is_decimal, TypeRules._decimal),
    (pa.types.is_string, _same),
    (pa.types.is_large_string, _always(pa.string())),
    (pa.types.is_string_view, _always(pa.string())),
    (pa.types.is_null, _always(pa.string())),
    (pa.types.is_binary, _same),
    (pa.types.is_large_binary, _always(pa.binary())),
    (pa.types.is_binary_view, _always(pa.binary())),
    (pa.types.is_fixed_size_binary, _always(pa.binary())),
    (pa.types.is_date, _always(pa.date32())),
    (pa.types.is_timestamp, TypeRules._timestamp),
    (pa.types.is_time, TypeRules._time),
    (pa.types.is_duration, TypeRules._duration),
    (pa.types.is_struct, TypeRules._struct),
    (pa.types.is_map, TypeRules._map),
    (_is_list, TypeRules._list),
    (pa.types.is_dictionary, TypeRules._values),
)
