"""Constants of a statement → the values of a column that `column = constant` looks for, and values → constants.

Both read and write values as keys are read (`catalog.keys`).

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

import base64
import datetime
import math
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
from sqlglot import exp

import catalog
from catalog import NotAKeyError
from readers import json_text
from service.base.errors import InvalidQueryError
from service.query.sql.types import sql_type

_INTEGER = re.compile(r"-?\d{1,20}")
_NUMBER = re.compile(r"\d{1,40}(?:\.\d{0,40})?|\.\d{1,40}")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIMESTAMP = re.compile(r"\d{4}-\d{2}-\d{2}(?:[ T]\d{2}:\d{2}:\d{2}(?:\.\d{1,6})?)?")
_MARK = '"'
_SIGNS = {1: "", -1: "-"}
# sqlglot counts BIT '101' among them, which is no hundred and one.
_INTEGERS = exp.DataType.INTEGER_TYPES - {exp.DataType.Type.BIT}
_TIMESTAMPS = frozenset(
    {exp.DataType.Type.TIMESTAMP, exp.DataType.Type.TIMESTAMPNTZ, exp.DataType.Type.DATETIME}
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


def condition_of(column: str, value: pa.Array) -> str:
    """Return the condition that is true where a column has the value that an array holds; where it can prune, it does."""
    return f"{column} = {_constant(value)}"


def value_constant(value: Any) -> str:
    """Return the constant of a value of Python.

    Raises:
        InvalidQueryError: SQL has no constant for it.
    """
    if type(value).__module__ == "numpy" and hasattr(value, "item"):
        value = value.item()
    value = str(value) if isinstance(value, UUID) else value
    try:
        if isinstance(value, str):
            value.encode()
        return _constant(pa.array([value]))
    except (pa.ArrowException, ValueError, TypeError, OverflowError, LookupError) as error:
        raise InvalidQueryError(
            f"expected a value that SQL has as a constant, found {type(value).__name__} {repr(value)[:100]}",
            hint="numbers, texts, bytes, dates and times, and lists and dicts of them have one",
        ) from error


def text_constant(text: str) -> str:
    """Return the constant of a text."""
    return "'" + text.replace("'", "''") + "'"


def _text(node: exp.Expr, _column: pa.DataType) -> str | None:
    return node.this if isinstance(node, exp.Literal) and node.is_string else None


def _integer(node: exp.Expr, column: pa.DataType) -> int | None:
    literal, sign = _signed(node)
    if literal is None or not _INTEGER.fullmatch(literal.this):
        return None
    value: int | None = _value(str(sign * int(literal.this)), column)
    return value


def _decimal(node: exp.Expr, column: pa.DataType) -> Decimal | None:
    literal, sign = _signed(node)
    if literal is None or literal.is_string or not _NUMBER.fullmatch(literal.this):
        return None
    value: Decimal | None = _value(f"{_SIGNS[sign]}{literal.this}", column)
    return value


def _floating(node: exp.Expr, column: pa.DataType) -> float | None:
    literal, sign = _signed(node)
    if literal is None or literal.is_string or not _NUMBER.fullmatch(literal.this):
        return None
    value: float | None = _value(f"{_SIGNS[sign]}{literal.this}", column)
    # A number that the type cannot hold is rounded before it is compared; the engine decides what matches then.
    # Zero has two encodings, and a lookup would find one of them.
    is_exact = value and math.isfinite(value) and Decimal(value) == sign * Decimal(literal.this)
    return value if is_exact else None


def _date(node: exp.Expr, column: pa.DataType) -> datetime.date | None:
    text = _text(node, column)
    value: datetime.date | None = _value(text, column) if text and _DATE.fullmatch(text) else None
    return value


def _timestamp(node: exp.Expr, column: pa.DataType) -> datetime.datetime | None:
    text = _text(node, column)
    is_known = text and column.tz is None and _TIMESTAMP.fullmatch(text)
    # The engine decides about constants that are finer than the unit of the column: they are no keys.
    value: datetime.datetime | None = _value(str(text), column) if is_known else None
    return value


def _value(text: str, column: pa.DataType) -> Any:
    """Return the value that a text is, as keys are read; None if it is none."""
    try:
        return catalog.parse_key(text, column).value
    except NotAKeyError:
        return None


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
    return pa.types.is_integer(column) and target.this in _INTEGERS


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


def _constant(value: pa.Array) -> str:
    """Return the constant for a value: of an array that holds nothing else."""
    if value.null_count:
        return "NULL"
    for test, written in _CONSTANTS:
        if test(value.type):
            return written(value)
    return _cast(value)


def _cast(value: pa.Array) -> str:
    text: str = json_text(value)[0].as_py()
    return f"TRY_CAST({text_constant(text.strip(_MARK))} AS {sql_type(value.type)})"


def _floating_constant(value: pa.Array) -> str:
    text = repr(value[0].as_py())
    is_plain = _NUMBER.fullmatch(text.removeprefix("-")) and Decimal(text) == Decimal(value[0].as_py())
    return text if is_plain else _cast(value)


def _time_constant(value: pa.Array) -> str:
    """Return a constant that prunes, if its text has no more digits than DuckDB keeps."""
    text = json_text(value)[0].as_py().strip(_MARK)
    text = text.removesuffix("000") if value.type.unit == "ns" else text
    is_plain = value.type.tz is None and _TIMESTAMP.fullmatch(text.replace("T", " "))
    return f"TIMESTAMP {text_constant(text.replace('T', ' '))}" if is_plain else _cast(value)


def _struct_constant(value: pa.Array) -> str:
    fields = (f"{text_constant(field.name)}: {_constant(value.field(field.name))}" for field in value.type)
    return "{" + ", ".join(fields) + "}"


def _list_constant(value: pa.Array) -> str:
    elements = value.flatten()
    constants = ", ".join(_constant(elements.slice(at, 1)) for at in range(len(elements)))
    # A list of Python without elements has no type of elements.
    is_plain = constants or pa.types.is_null(value.type.value_type)
    return f"[{constants}]" if is_plain else f"CAST([] AS {sql_type(value.type)})"


def _map_constant(value: pa.Array) -> str:
    # The keys of a slice are those of the whole array.
    whole = value.take(pa.array([0]))
    keys, items = whole.keys, whole.items
    entries = (f"{_constant(keys.slice(at, 1))}: {_constant(items.slice(at, 1))}" for at in range(len(keys)))
    return f"CAST(MAP {{{', '.join(entries)}}} AS {sql_type(value.type)})"


_CONSTANTS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], str]], ...] = (
    (pa.types.is_string, lambda value: text_constant(value[0].as_py())),
    (pa.types.is_integer, lambda value: str(value[0].as_py())),
    (pa.types.is_boolean, lambda value: str(value[0].as_py()).upper()),
    # A decimal with an exponent would be a DOUBLE.
    (pa.types.is_decimal, lambda value: format(value[0].as_py(), "f")),
    (pa.types.is_floating, _floating_constant),
    (pa.types.is_timestamp, _time_constant),
    (
        pa.types.is_binary,
        lambda value: f"from_base64({text_constant(base64.b64encode(value[0].as_py()).decode())})",
    ),
    (pa.types.is_struct, _struct_constant),
    (pa.types.is_map, _map_constant),
    (pa.types.is_list, _list_constant),
)
