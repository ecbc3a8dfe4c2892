"""DuckDB's types, as types of Arrow, and the Spark types that stand for them.

Spark has no nanoseconds, so times and timestamp[ns] are BIGINT there, as in `service/spark/types.py`. Neither Spark nor Arrow
has HUGEINT: DECIMAL(38, 0) stands for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from sqlglot import exp

from service.base.errors import NotOnSparkError

MAX_PRECISION = 38
HUGEINT = pa.decimal128(MAX_PRECISION, 0)
TIMESTAMP = pa.timestamp("us")
_DIGITS = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 19}


@dataclass(frozen=True, slots=True)
class Term:
    """An expression for Spark, and its type in DuckDB.

    Attributes:
        node: the expression.
        type: its type, as an Arrow type; `pa.null()` for an untyped NULL.
        integer: value of an integer literal, which takes the type of the value beside it; None for other expressions.
        text: value of a text literal, likewise.
    """

    node: exp.Expr
    type: pa.DataType
    integer: int | None = None
    text: str | None = None


def is_integer(arrow_type: pa.DataType) -> bool:
    """Return whether a type is an integer type, HUGEINT included."""
    return bool(pa.types.is_signed_integer(arrow_type) or arrow_type == HUGEINT)


def is_number(arrow_type: pa.DataType) -> bool:
    """Return whether a type is a number."""
    return bool(is_integer(arrow_type) or pa.types.is_floating(arrow_type) or pa.types.is_decimal(arrow_type))


def is_nested(arrow_type: pa.DataType) -> bool:
    """Return whether a type is a list, a struct or a map."""
    return bool(pa.types.is_nested(arrow_type))


def is_nanoseconds(arrow_type: pa.DataType) -> bool:
    """Return whether a BIGINT stands for a type on Spark: nanoseconds of the day or since the epoch."""
    return bool(
        pa.types.is_time(arrow_type) or (pa.types.is_timestamp(arrow_type) and arrow_type.unit == "ns")
    )


def holds(arrow_type: pa.DataType, value: int) -> bool:
    """Return whether an integer type has this value."""
    if arrow_type == HUGEINT:
        return True
    half = 1 << (arrow_type.bit_width - 1)
    return bool(-half <= value < half)


def integer_type(value: int) -> pa.DataType:
    """Return the type of an integer literal that stands alone."""
    return next((fits for fits in (pa.int32(), pa.int64()) if holds(fits, value)), HUGEINT)


def digits_of(arrow_type: pa.DataType) -> tuple[int, int]:
    """Return (precision, scale) of an integer or decimal type."""
    if arrow_type in _DIGITS:
        return _DIGITS[arrow_type], 0
    return arrow_type.precision, arrow_type.scale


def decimal(precision: int, scale: int) -> pa.DataType:
    """Return a decimal type.

    Raises:
        NotOnSparkError: it has more digits than Spark's decimals.
    """
    if precision > MAX_PRECISION:
        raise NotOnSparkError(f"arithmetic of {precision} digits")
    return pa.decimal128(precision, scale)


def common_type(*operands: Term) -> pa.DataType:
    """Return the type to which DuckDB casts values to compare them or to return one of them.

    Raises:
        NotOnSparkError: the engines do not agree on a type.
    """
    first, *others = operands
    return reduce(_common, others, first).type


def _common(one: Term, other: Term) -> Term:
    for literal, beside in ((one, other), (other, one)):
        if literal.type == pa.null():
            return beside
    for literal, beside in ((one, other), (other, one)):
        # A literal takes the type beside it only if it fits: `tiny = 300` compares INTEGERs.
        fits = literal.integer is not None and is_integer(beside.type) and beside.integer is None
        if fits and literal.integer is not None and holds(beside.type, literal.integer):
            return Term(beside.node, beside.type)
        if literal.text is not None and beside.text is None and _is_read_from_text(beside.type):
            return Term(beside.node, beside.type)
    return Term(one.node, _common_of_types(one.type, other.type))


def _common_of_types(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    if one.equals(other):
        return one
    for test, merge in _COMMON:
        if test(one) and test(other):
            return merge(one, other)
    raise NotOnSparkError(f"{one} beside {other}")


def _wider_integer(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    return max(one, other, key=lambda kind: digits_of(kind)[0])


def _is_read_from_text(arrow_type: pa.DataType) -> bool:
    return bool(pa.types.is_temporal(arrow_type) or is_integer(arrow_type)) and not pa.types.is_duration(
        arrow_type
    )


def _merged_number(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    floats = [kind for kind in (one, other) if pa.types.is_floating(kind)]
    if floats:
        return max(floats, key=lambda kind: kind.bit_width)
    # Enough digits before and behind the point for both.
    (first, scale), (second, other_scale) = digits_of(one), digits_of(other)
    whole = max(first - scale, second - other_scale)
    widest = max(scale, other_scale)
    return decimal(whole + widest, widest)


def is_plain_instant(arrow_type: pa.DataType) -> bool:
    """Return whether a type is a date, or a timestamp without a zone that is a timestamp on Spark, too."""
    if pa.types.is_date32(arrow_type):
        return True
    return bool(pa.types.is_timestamp(arrow_type)) and arrow_type.tz is None and arrow_type.unit != "ns"


def _is_local_timestamp(arrow_type: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(arrow_type)) and arrow_type.tz is None


# (test, merge): the first test that both types pass gives their common type.
_COMMON = (
    (is_integer, _wider_integer),
    (is_number, _merged_number),
    (is_plain_instant, lambda _, __: TIMESTAMP),
    (_is_local_timestamp, lambda _, __: pa.timestamp("ns")),
)


def spark_name(arrow_type: pa.DataType) -> str:
    """Return the name of the Spark type that stands for a type of DuckDB.

    Raises:
        NotOnSparkError: there is none.
    """
    if is_nanoseconds(arrow_type):
        return "BIGINT"
    if pa.types.is_decimal(arrow_type):
        return f"DECIMAL({arrow_type.precision}, {arrow_type.scale})"
    if pa.types.is_timestamp(arrow_type):
        return "TIMESTAMP" if arrow_type.tz else "TIMESTAMP_NTZ"
    if pa.types.is_list(arrow_type):
        return f"ARRAY<{spark_name(arrow_type.value_type)}>"
    if pa.types.is_map(arrow_type):
        return f"MAP<{spark_name(arrow_type.key_type)}, {spark_name(arrow_type.item_type)}>"
    if pa.types.is_struct(arrow_type):
        fields = (f"`{part.name.replace('`', '``')}`: {spark_name(part.type)}" for part in arrow_type)
        return f"STRUCT<{', '.join(fields)}>"
    if arrow_type not in _NAMES:
        raise NotOnSparkError(f"a value of type {arrow_type}")
    return _NAMES[arrow_type]


_NAMES = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.binary(): "BINARY",
    pa.date32(): "DATE",
}
