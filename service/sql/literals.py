"""Constants of a statement → the values of a column that `column = constant` looks for.

A constant is used only if DuckDB compares it with the column without a conversion that could make other values of the
column equal to it, or this value unequal.

| column | constants |
|---|---|
| text | text |
| integers | integers in range |
| boolean | TRUE, FALSE |
| decimals | numbers that fit it exactly |
| floating point | numbers that the type holds exactly, except zero, which has two encodings |
| date, timestamps | ISO text, DATE '…', TIMESTAMP '…' that fit it exactly |
| structs | {'name': constant, …} with all names in the column's order, ROW(constant, …) |
| lists | [constant, …] |

NULL equals nothing, so it is no value here.
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
    """Return the value of a constant in a column of this type; None if it has none for certain.

    Args:
        node: an expression.
        column: the type of the column.
        strict: True if text is text only: the constant is the value of another column, and DuckDB does not convert it.
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
    # A number that the type cannot hold is rounded before it is compared; the engine decides what matches then.
    exact = Decimal(value) == Decimal(literal.this)
    if column.bit_width == 32:
        exact = exact and value < 2**127 and struct.unpack("f", struct.pack("f", value))[0] == value
    # Zero has two encodings, and a lookup would find one of them.
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
    # The engine decides about constants that are finer than the unit of the column.
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
    members = {
        field.name: value_of(value, field.type, strict=True)
        for field, value in zip(fields, values, strict=True)
    }
    # Fewer members than fields: two fields have the same name.
    return None if None in members.values() or len(members) != len(fields) else members


def _named_fields(nodes: Sequence[exp.Expr], names: list[str]) -> list[exp.Expr] | None:
    """Return the values of `{'name': value}` or ROW(value); None if the names are not these."""
    if not any(isinstance(node, exp.PropertyEQ) for node in nodes):
        return list(nodes)
    if not all(isinstance(node, exp.PropertyEQ) for node in nodes):
        return None
    return [node.expression for node in nodes] if [node.this.name for node in nodes] == names else None


def _list(node: exp.Expr, column: pa.DataType) -> list[Any] | None:
    if not isinstance(node, exp.Array):
        return None
    elements = [value_of(element, column.value_type, strict=True) for element in node.expressions]
    return None if any(value is None for value in elements) else elements


def _signed(node: exp.Expr) -> tuple[exp.Literal | None, int]:
    """Return a literal and its sign; None if the node is no literal."""
    sign = -1 if isinstance(node, exp.Neg) else 1
    literal = node.this if isinstance(node, exp.Neg) else node
    return (literal if isinstance(literal, exp.Literal) else None), sign


def _is_type_of(target: exp.DataType, column: pa.DataType) -> bool:
    """Return whether a cast of text to this type gives a value of the column's type."""
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
