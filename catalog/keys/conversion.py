"""One text → one value of a type that has no parts: the conversions of keys, and of constants in SQL.

Integers and decimals become exactly what is written, or they are refused: nothing is rounded or wrapped.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa

_INTEGER = re.compile(r"[+-]?\d{1,20}", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,4})?|[+-]?inf(inity)?|nan", re.ASCII | re.IGNORECASE)
_UTC = re.compile(r"(Z|[+-]00:?00)\Z")
_MOST_DIGITS = 400


def value_of_text(text: str, data_type: pa.DataType) -> Any:
    """Return the value of a type that a text is, as Arrow takes it: a time is the number that Arrow stores.

    Raises:
        ValueError: the text is no such value.
        TypeError: the type has parts.
    """
    for test, convert in _CONVERSIONS:
        if test(data_type):
            return convert(text, data_type)
    raise TypeError(f"expected a type without parts, found {data_type}")


def _integer(text: str, data_type: pa.DataType) -> int:
    if not _INTEGER.fullmatch(text):
        raise ValueError(f"expected an integer, found {text!r}")
    value = int(text)
    least = -(1 << (data_type.bit_width - 1)) if pa.types.is_signed_integer(data_type) else 0
    if not least <= value < least + (1 << data_type.bit_width):
        raise ValueError(f"expected an integer of {data_type.bit_width} bits, found {text}")
    return value


def _floating(text: str, _type: pa.DataType) -> float:
    return float(_number(text))


def _decimal(text: str, data_type: pa.DataType) -> Decimal:
    value = Decimal(_number(text))
    fixed = Decimal(f"{value:.{data_type.scale}f}")
    if fixed != value or len(fixed.as_tuple().digits) > data_type.precision:
        raise ValueError(
            f"expected at most {data_type.precision} digits, {data_type.scale} of them behind the point, found {text}"
        )
    return fixed


def _number(text: str) -> str:
    if len(text) > _MOST_DIGITS or not _NUMBER.fullmatch(text):
        raise ValueError(f"expected a number, found {text[:_MOST_DIGITS]!r}")
    return text


def _boolean(text: str, _type: pa.DataType) -> bool:
    known = {"true": True, "false": False}
    if text.lower() not in known:
        raise ValueError(f"expected true or false, found {text!r}")
    return known[text.lower()]


def _temporal(text: str, data_type: pa.DataType) -> Any:
    try:
        if pa.types.is_timestamp(data_type):
            text = _UTC.sub("", text)
            data_type = pa.timestamp(data_type.unit)
        elif pa.types.is_time(data_type):
            # Arrow parses no times of a day.
            text = f"1970-01-01T{text}"
            data_type = pa.timestamp(data_type.unit)
        # The number that is stored: datetimes of Python have no nanoseconds.
        return pa.scalar(text).cast(data_type).value
    except pa.ArrowException as error:
        raise ValueError(f"expected a date or time as ISO 8601 writes it, found {text!r}") from error


def _bytes(text: str, _type: pa.DataType) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return text.encode()


_CONVERSIONS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[str, pa.DataType], Any]], ...] = (
    (pa.types.is_string, lambda text, _type: text),
    (pa.types.is_integer, _integer),
    (pa.types.is_floating, _floating),
    (pa.types.is_boolean, _boolean),
    (pa.types.is_decimal, _decimal),
    (pa.types.is_temporal, _temporal),
    (pa.types.is_binary, _bytes),
)
