"""Conversion of an Arrow column for the formats.

| function | result | for |
|---|---|---|
| plain | the same values in types that all formats have | Arrow, Parquet |
| json_column | JSON text of each value, `null` for NULL | JSON, JSON lines |
| text_column | text of each value, NULL for NULL | CSV, tables for people |

JSON text follows `readers.jsontext`. Types that only engines return: a UNION is an object of all its members, all but
one of them null; an INTERVAL is an ISO 8601 duration; a HUGEINT is a number if it fits into 64 bits, else a string;
decimals have no exponent.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from readers import json_text

# The SQL type of columns that already hold JSON text.
JSON_TEXT = "JSON TEXT"

_HUGE = frozenset({"HUGEINT", "UHUGEINT"})
# Text of this length always fits into 64 bits, so only longer text is parsed.
_SAFE_DIGITS = 18
_INT64 = range(-(2**63), 2**63)


def plain(array: pa.Array) -> pa.Array:
    """Convert types that some formats do not have: unions, intervals, dictionaries, extensions, large lists."""
    for test, convert in _PLAIN:
        if test(array.type):
            return convert(array)
    return array


def plain_type(arrow_type: pa.DataType) -> pa.DataType:
    """Return the type of the result of `plain`."""
    return plain(pa.nulls(0, arrow_type)).type


def decoded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Decode the dictionaries of a batch: every row may refer to one long value, which the size of the batch hides."""
    if not any(map(_has_dictionary, batch.schema.types)):
        return batch
    columns = [plain(array) if _has_dictionary(array.type) else array for array in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=decoded_schema(batch.schema))


def decoded_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema of the result of `decoded`."""
    fields = [
        field.with_type(plain_type(field.type)) if _has_dictionary(field.type) else field for field in schema
    ]
    return pa.schema(fields, schema.metadata)


def _has_dictionary(arrow_type: pa.DataType) -> bool:
    if isinstance(arrow_type, pa.BaseExtensionType):
        return _has_dictionary(arrow_type.storage_type)
    if pa.types.is_dictionary(arrow_type):
        return True
    children = (arrow_type.field(index).type for index in range(arrow_type.num_fields))
    return any(map(_has_dictionary, children))


def json_column(array: pa.Array, sql_type: str = "") -> pa.Array:
    """Return JSON text of each value; `sql_type` distinguishes HUGEINT from DECIMAL, and JSON from other text."""
    if sql_type == JSON_TEXT:
        return pc.fill_null(array, "null")
    text = _huge(array) if sql_type in _HUGE else json_text(_without_decimals(plain(array)))
    return pc.fill_null(text, "null")


def text_column(array: pa.Array, sql_type: str = "") -> pa.Array:
    """Return text of each value: strings unchanged, other values as in JSON but without quotes around them."""
    array = plain(array)
    if pa.types.is_string(array.type):
        return array
    text = _huge(array) if sql_type in _HUGE else json_text(_without_decimals(array))
    return text if pa.types.is_nested(array.type) else pc.utf8_trim(text, '"')


def is_number(arrow_type: pa.DataType) -> bool:
    """Return whether values of a type are written as numbers."""
    return any(test(arrow_type) for test in (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal))


def _huge(array: pa.Array) -> pa.Array:
    text = array.cast(pa.string())
    long = pc.fill_null(pc.greater(pc.utf8_length(text), _SAFE_DIGITS), False)
    if not pc.any(long).as_py():
        return text
    # JSON parsers read longer numbers as doubles, which would change them.
    exact = [digits if int(digits) in _INT64 else f'"{digits}"' for digits in text.filter(long).to_pylist()]
    return pc.replace_with_mask(text, long, pa.array(exact, pa.string()))


def _without_decimals(array: pa.Array) -> pa.Array:
    """Convert decimals to strings, also nested ones."""
    if pa.types.is_decimal(array.type):
        return decimal_text(array)
    if pa.types.is_nested(array.type):
        return _with_children(array, _without_decimals)
    return array


def decimal_text(array: pa.Array) -> pa.Array:
    """Return decimals as text without exponents."""
    text = array.cast(pa.string())
    odd = pc.fill_null(pc.match_substring(text, "E"), False)
    if not pc.any(odd).as_py():
        return text
    digits = [f"{value:f}" for value in array.filter(odd).to_pylist()]
    return pc.replace_with_mask(text, odd, pa.array(digits, pa.string()))


def _with_children(array: pa.Array, convert: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """Convert the values of a struct, list or map; returns the array itself if no type changes."""
    if pa.types.is_struct(array.type):
        before = [array.field(index) for index in range(array.type.num_fields)]
    elif pa.types.is_map(array.type):
        before = [array.keys, array.items]
    else:
        before = [array.values]
    after = [convert(child) for child in before]
    if all(one.type.equals(other.type) for one, other in zip(before, after, strict=True)):
        return array
    nulls = array.is_null()
    if pa.types.is_struct(array.type):
        fields = [pa.field(field.name, child.type) for field, child in zip(array.type, after, strict=True)]
        return pa.StructArray.from_arrays(after, fields=fields, mask=nulls)
    # Arrow refuses a mask if the offsets are a slice of an array.
    offsets = pa.array(array.offsets.to_numpy())
    made = pa.MapArray if pa.types.is_map(array.type) else pa.ListArray
    return made.from_arrays(offsets, *after, mask=nulls)


def _plain_nested(array: pa.Array) -> pa.Array:
    return _with_children(array, plain)


def _as_list(array: pa.Array) -> pa.Array:
    return _plain_nested(array.cast(pa.list_(array.type.value_type)))


def _union(array: pa.Array) -> pa.Array:
    """Convert a union to a struct of all members."""
    codes = array.type_codes
    dense = array.type.mode == "dense"
    children = []
    for code, index in zip(array.type.type_codes, range(array.type.num_fields), strict=True):
        chosen = pc.equal(codes, code)
        member = array.field(index)
        values = (
            member.take(pc.if_else(chosen, array.offsets, None))
            if dense
            else pc.if_else(chosen, member, None)
        )
        children.append(plain(values))
    fields = [pa.field(field.name, child.type) for field, child in zip(array.type, children, strict=True)]
    return pa.StructArray.from_arrays(children, fields=fields)


def _interval(array: pa.Array) -> pa.Array:
    return pa.array(
        [None if value is None else _iso_duration(*value) for value in array.to_pylist()], pa.string()
    )


def _iso_duration(months: int, days: int, nanoseconds: int) -> str:
    seconds, rest = divmod(abs(nanoseconds), 1_000_000_000)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    sign = "-" if nanoseconds < 0 else ""
    parts = [f"{value}{unit}" for value, unit in ((months, "M"), (days, "D")) if value]
    if nanoseconds or not parts:
        parts.append(f"T{sign}{seconds}{fraction}S")
    return "P" + "".join(parts)


def _is_other_string(arrow_type: pa.DataType) -> bool:
    return any(test(arrow_type) for test in (pa.types.is_large_string, pa.types.is_string_view))


def _is_other_binary(arrow_type: pa.DataType) -> bool:
    tests = (pa.types.is_large_binary, pa.types.is_fixed_size_binary, pa.types.is_binary_view)
    return any(test(arrow_type) for test in tests)


def _is_other_list(arrow_type: pa.DataType) -> bool:
    tests = (
        pa.types.is_large_list,
        pa.types.is_fixed_size_list,
        pa.types.is_list_view,
        pa.types.is_large_list_view,
    )
    return any(test(arrow_type) for test in tests)


def _is_extension(arrow_type: pa.DataType) -> bool:
    return isinstance(arrow_type, pa.BaseExtensionType)


_Test = Callable[[pa.DataType], bool]
_Convert = Callable[[pa.Array], pa.Array]
_PLAIN: tuple[tuple[_Test, _Convert], ...] = (
    (_is_extension, lambda array: plain(array.storage)),
    (pa.types.is_dictionary, lambda array: plain(array.dictionary_decode())),
    (pa.types.is_union, _union),
    (pa.types.is_interval, _interval),
    (_is_other_list, _as_list),
    (_is_other_string, lambda array: array.cast(pa.string())),
    (_is_other_binary, lambda array: array.cast(pa.binary())),
    (pa.types.is_nested, _plain_nested),
)
