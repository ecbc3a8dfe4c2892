"""Arrow types and the Spark types that stand for them: no other module maps one to the other.

| Arrow | Spark |
|---|---|
| bool, int8–int64, float32, float64, string, binary, date32, decimal128 | the same |
| uint8, uint16, uint32 | SMALLINT, INT, BIGINT |
| uint64 | DECIMAL(20,0) |
| float16 | FLOAT |
| timestamp[s, ms, us] | TIMESTAMP_NTZ; with a time zone TIMESTAMP |
| timestamp[ns] | TIMESTAMP_NTZ, and an error where a value is finer than a microsecond; or BIGINT |
| time32, time64 | STRING, `12:34:56.123456789`; or BIGINT |
| duration | INTERVAL DAY TO SECOND |
| null | STRING |
| dictionary | the type of its values |
| list of any kind, struct, map | ARRAY, STRUCT, MAP |

Spark has no nanoseconds, and has TIME only as a preview that is off by default. With `nanoseconds="bigint"`, times and
timestamp[ns] are BIGINT: nanoseconds of the day or since the epoch, exact for every value, and in the same order.

A value that its Spark type cannot hold is an error (milliseconds beyond the range of microseconds); values never wrap and are
never rounded.

Errors in Spark's Python, in a form that Spark carries to the driver.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Literal

import pyarrow as pa
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import from_arrow_type

from catalog import CatalogError
from readers import ReaderError, ValueOutOfRangeError

Nanoseconds = Literal["error", "bigint"]

# Of Spark's DECIMAL; Arrow's decimal256 has more.
_MAX_PRECISION = 38


class UnsupportedTypeError(TypeError):
    """An Arrow type for which no Spark type stands."""


def wire_type(arrow_type: pa.DataType, nanoseconds: Nanoseconds = "error") -> pa.DataType:
    """Return the Arrow type in which Spark takes values of an Arrow type.

    Raises:
        UnsupportedTypeError: no Spark type stands for it.
    """
    for test, convert in _WIRE_TYPES:
        if test(arrow_type):
            return convert(arrow_type, nanoseconds)
    raise UnsupportedTypeError(f"expected a type that Spark can hold, found {arrow_type}")


def spark_schema(schema: pa.Schema, nanoseconds: Nanoseconds = "error") -> spark.StructType:
    """Return the Spark schema that stands for an Arrow schema; all columns are nullable."""
    return spark.StructType(
        [
            spark.StructField(column.name, from_arrow_type(wire_type(column.type, nanoseconds)))
            for column in schema
        ]
    )


def wire_schema(schema: pa.Schema, nanoseconds: Nanoseconds = "error") -> pa.Schema:
    """Return the Arrow schema in which Spark takes rows of a schema."""
    return pa.schema([pa.field(column.name, wire_type(column.type, nanoseconds)) for column in schema])


def to_wire(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch as Spark takes it.

    Args:
        batch: the rows.
        schema: the schema that `wire_schema` returns.

    Raises:
        ValueOutOfRangeError: a value that its type in `schema` cannot hold.
    """
    arrays = []
    for column, target in zip(batch.columns, schema, strict=True):
        try:
            arrays.append(_cast(column, target.type))
        except pa.ArrowInvalid as error:
            raise ValueOutOfRangeError(
                f"expected values of column {target.name!r} that {spark_name(target.type)} can hold, found one that it "
                f"cannot: {error}"
            ) from error
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def spark_name(wire: pa.DataType) -> str:
    """Return the SQL name of the Spark type of a wire type."""
    return from_arrow_type(wire).simpleString().upper()


def _cast(array: pa.Array, target: pa.DataType) -> pa.Array:
    if array.type.equals(target):
        return array
    return array.cast(_between(array.type, target)).cast(target)


def _between(source: pa.DataType, target: pa.DataType) -> pa.DataType:
    """Return the type to cast to before `target`: Arrow cannot cast every type to its wire type directly.

    A dictionary is decoded, a time counts nanoseconds before it becomes a number or a text.
    """
    if pa.types.is_dictionary(source):
        return _between(source.value_type, target)
    # In nanoseconds, because a time of any unit becomes BIGINT nanoseconds or a text with nine digits.
    if pa.types.is_time(source):
        return pa.time64("ns")
    if pa.types.is_struct(source):
        return pa.struct(
            [(own.name, _between(own.type, new.type)) for own, new in zip(source, target, strict=True)]
        )
    if pa.types.is_map(source):
        return pa.map_(
            _between(source.key_type, target.key_type), _between(source.item_type, target.item_type)
        )
    if _is_list(source):
        return pa.list_(_between(source.value_type, target.value_type))
    return source


def _is_list(arrow_type: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(arrow_type)
        or pa.types.is_large_list(arrow_type)
        or pa.types.is_fixed_size_list(arrow_type)
    )


def _same(arrow_type: pa.DataType, _: Nanoseconds) -> pa.DataType:
    return arrow_type


def _always(wire: pa.DataType) -> Callable[[pa.DataType, Nanoseconds], pa.DataType]:
    return lambda _, __: wire


def _wire_timestamp(arrow_type: pa.DataType, nanoseconds: Nanoseconds) -> pa.DataType:
    if arrow_type.unit == "ns" and nanoseconds == "bigint":
        return pa.int64()
    return pa.timestamp("us", tz="UTC" if arrow_type.tz else None)


def _wire_decimal(arrow_type: pa.DataType, _: Nanoseconds) -> pa.DataType:
    if arrow_type.precision > _MAX_PRECISION or arrow_type.scale < 0:
        raise UnsupportedTypeError(f"expected at most {_MAX_PRECISION} digits, found {arrow_type}")
    return pa.decimal128(arrow_type.precision, arrow_type.scale)


# (test, wire type): the first test that passes decides.
_WIRE_TYPES: tuple[
    tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType, Nanoseconds], pa.DataType]], ...
] = (
    (pa.types.is_boolean, _same),
    (pa.types.is_signed_integer, _same),
    (pa.types.is_uint8, _always(pa.int16())),
    (pa.types.is_uint16, _always(pa.int32())),
    (pa.types.is_uint32, _always(pa.int64())),
    (pa.types.is_uint64, _always(pa.decimal128(20, 0))),
    (pa.types.is_float16, _always(pa.float32())),
    (pa.types.is_floating, _same),
    (pa.types.is_decimal, _wire_decimal),
    (pa.types.is_string, _same),
    (pa.types.is_large_string, _always(pa.string())),
    (pa.types.is_string_view, _always(pa.string())),
    (pa.types.is_null, _always(pa.string())),
    (pa.types.is_binary, _same),
    (pa.types.is_large_binary, _always(pa.binary())),
    (pa.types.is_binary_view, _always(pa.binary())),
    (pa.types.is_fixed_size_binary, _always(pa.binary())),
    (pa.types.is_date, _always(pa.date32())),
    (pa.types.is_timestamp, _wire_timestamp),
    (pa.types.is_time, lambda _, nanoseconds: pa.int64() if nanoseconds == "bigint" else pa.string()),
    (pa.types.is_duration, _always(pa.duration("us"))),
    (pa.types.is_struct, lambda kind, nanoseconds: pa.struct(list(wire_schema(kind, nanoseconds)))),
    (
        pa.types.is_map,
        lambda kind, how: pa.map_(wire_type(kind.key_type, how), wire_type(kind.item_type, how)),
    ),
    (_is_list, lambda kind, how: pa.list_(pa.field("element", wire_type(kind.value_type, how)))),
    (pa.types.is_dictionary, lambda kind, nanoseconds: wire_type(kind.value_type, nanoseconds)),
)


class SavepointSourceError(Exception):
    """An error of the readers or the catalog, as a user of the data source sees it.

    Spark keeps only the text of an exception, behind a trace: so the text begins with the name of its class, in brackets.
    """

    @classmethod
    def of(cls, error: Exception) -> SavepointSourceError:
        """Return an error in the form that Spark carries."""
        return cls(f"[savepoint {type(error).__name__}] {error}")


class CheckpointGoneError(LookupError):
    """A checkpoint that a stream needs was removed, or written anew."""


class SchemaChangedError(TypeError):
    """A checkpoint has columns that those of a stream cannot hold."""


class InvalidOptionError(ValueError):
    """An option of the data source that is missing, unknown or not as documented."""


@contextlib.contextmanager
def carried() -> Iterator[None]:
    """Raise errors of ours in the form that Spark carries."""
    try:
        yield
    except (
        CatalogError,
        CheckpointGoneError,
        InvalidOptionError,
        ReaderError,
        SchemaChangedError,
        UnsupportedTypeError,
    ) as error:
        raise SavepointSourceError.of(error) from error
