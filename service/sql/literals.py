"""Constants of a statement as the values that a column has: what `column = constant` says for certain.

A constant is taken only where DuckDB compares it with the column without a conversion that could make other values of
the column equal to it, or this one unequal.

| column | constants |
|---|---|
| text | text |
| integers | integers in range |
| boolean | TRUE, FALSE |
| decimals | numbers that fit it exactly |
| floating point | numbers that it holds exactly, but zero, which has two |
| date, timestamps | ISO text, DATE '…', TIMESTAMP '…' that fit it exactly |
| structs | {'name': constant, …} with its names in its order, ROW(constant, …) |
| lists | [constant, …] |

A constant that is NULL equals nothing, and is no value here.
"""

from __future__ import annotations

import datetime
import re
import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
from sqlglot import exp

_INTEGER = re.compile(r"-?\d{1,20}")
_NUMBER = re.compile(r"\d{1,40}(?:\.\d{0,40})?|\.\d{1,40}")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIMESTAMP = re.compile(r"\d{4}-\d{2}-\d{2}(?:[ T]\d{2}:\d{2}:\d{2}(?:\.\d{1,6})?)?")
_MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 1}
_TIMESTAMPS = frozenset(
    {
        exp.DataType.Type.TIMESTAMP,
        exp.DataType.Type.TIMESTAMPNTZ,
        exp.DataType.Type.DATETIME,
    }
)


def value_of(node: exp.Expr, column: pa.DataType, *, strict: bool = False) -> Any:
    """The value of a constant as a column of this type has it; None if it has not, or not surely.

    Args:
        node: an expression.
        column: the type.
        strict: whether text is only what a column of text is compared with, as where the constant is the value of
            another column.
    """
    node = node.unnest()
    if isinstance(node, exp.Boolean):
        return node.this if pa.types.is_boolean(column) else None
    if strict and not pa.types.is_string(column) and isinstance(node, exp.Literal) and node.is_string:
        return None
    if isinstance(node, exp.Cast):
        if not _is_type_of(node.to, column) or not node.this.is_string:
            return None
        node = node.this
    for test, value in _VALUES:
        if test(column):
            return value(node, column)
    return None


def _text(node: exp.Expr, _column: pa.DataType) -> str | None:
    return node.this if isinstance(node, exp.Literal) and node.is_string else None


def _integer(node: exp.Expr, column: pa.DataType) -> int | None:
    literal, sign = _signed(node)
    if literal is None or not _INTEGER.fullmatch(literal.this):
        return None
    value = sign * int(literal.this)
    least = -(1 << (column.bit_width - 1)) if pa.types.is_signed_integer(column) else 0
    return value if least <= value < least + (1 << column.bit_width) else None


def _decimal(node: exp.Expr, column: pa.DataType) -> Decimal | None:
    literal, sign = _signed(node)
    if literal is None or literal.is_string or not _NUMBER.fullmatch(literal.this):
        return None
    value = sign * Decimal(literal.this)
    digits = value.as_tuple()
    assert isinstance(digits.exponent, int)
    whole = len(digits.digits) + digits.exponent
    fits = -digits.exponent <= column.scale and whole <= column.precision - column.scale
    return Decimal(f"{value:.{column.scale}f}") if fits else None


def _floating(node: exp.Expr, column: pa.DataType) -> float | None:
    literal, sign = _signed(node)
    if literal is None or literal.is_string or not _NUMBER.fullmatch(literal.this):
        return None
    value = float(literal.this)
    exact = Decimal(value) == Decimal(literal.this)
    if column.bit_width == 32:
        exact = exact and value < 2**127 and struct.unpack("f", struct.pack("f", value))[0] == value
    return sign * value if exact and value else None


def _date(node: exp.Expr, _column: pa.DataType) -> datetime.date | None:
    text = _text(node, _column)
    if text is None or not _DATE.fullmatch(text):
        return None
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        return None


def _timestamp(node: exp.Expr, column: pa.DataType) -> datetime.datetime | None:
    text = _text(node, column)
    if text is None or column.tz is not None or not _TIMESTAMP.fullmatch(text):
        return None
    try:
        value = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    return value if value.microsecond % _MICROSECONDS[column.unit] == 0 else None


def _struct(node: exp.Expr, column: pa.DataType) -> dict[str, Any] | None:
    fields = list(column)
    if isinstance(node, exp.Struct):
        values = _named_fields(node.expressions, [field.name for field in fields])
    elif isinstance(node, exp.Tuple) or (isinstance(node, exp.Anonymous) and node.name.upper() == "ROW"):
        values = node.expressions
    else:
        return None
    if values is None or len(values) != len(fields):
        return None
    found = {
        field.name: value_of(value, field.type, strict=True)
        for field, value in zip(fields, values, strict=True)
    }
    return None if None in found.values() or len(found) != len(fields) else found


def _named_fields(nodes: Sequence[exp.Expr], names: list[str]) -> list[exp.Expr] | None:
    """The fields of `{'name': value}` or ROW(value), if they are called so."""
    if not any(isinstance(node, exp.PropertyEQ) for node in nodes):
        return list(nodes)
    if not all(isinstance(node, exp.PropertyEQ) for node in nodes):
        return None
    return [node.expression for node in nodes] if [node.this.name for node in nodes] == names else None


def _list(node: exp.Expr, column: pa.DataType) -> list[Any] | None:
    if not isinstance(node, exp.Array):
        return None
    found = [value_of(element, column.value_type, strict=True) for element in node.expressions]
    return None if any(value is None for value in found) else found


def _signed(node: exp.Expr) -> tuple[exp.Literal | None, int]:
    """A literal and its sign."""
    sign = -1 if isinstance(node, exp.Neg) else 1
    literal = node.this if isinstance(node, exp.Neg) else node
    return (literal if isinstance(literal, exp.Literal) else None), sign


def _is_type_of(target: exp.DataType, column: pa.DataType) -> bool:
    """Whether a cast of text to this type gives a value as the column has it."""
    if target.expressions or target.args.get("nested"):
        return False
    if pa.types.is_string(column):
        return target.this in exp.DataType.TEXT_TYPES
    if pa.types.is_date(column):
        return bool(target.this is exp.DataType.Type.DATE)
    if pa.types.is_timestamp(column):
        return target.this in _TIMESTAMPS
    return pa.types.is_integer(column) and target.this in exp.DataType.INTEGER_TYPES


_VALUES: tuple[tuple[Callable[[pa.DataType], bool], Callable[[exp.Expr, pa.DataType], Any]], ...] = (
    (pa.types.is_string, _text),
    (pa.types.is_integer, _integer),
    (pa.types.is_decimal, _decimal),
    (pa.types.is_floating, _floating),
    (pa.types.is_date, _date),
    (pa.types.is_timestamp, _timestamp),
    (pa.types.is_struct, _struct),
    (pa.types.is_list, _list),
)
