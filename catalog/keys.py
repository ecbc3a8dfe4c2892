"""Keys as people write them: one parser for the command line, the API and constants of SQL.

A key is a text that is read as the type of the key column. It may be written as answers show it:

| column | text |
|---|---|
| text | the text itself; of UUIDs and other such classes that Kryo wrote, also in quotation marks |
| numbers, BOOLEAN | `42`, `-1.5`, `true` |
| dates and times | ISO 8601: `2024-05-01T12:00:00.123456789`, with or without `Z` |
| bytes | base64, or the text itself if it is no base64 |
| structs | a JSON object with all fields, or a JSON array of their values; `__row_kind` may be left out |
| lists, maps | JSON arrays; entries of maps are `{"key": …, "value": …}` |
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa

from readers import ROW_KIND, json_text

_INTEGER = re.compile(r"[+-]?\d{1,20}", re.ASCII)
_UTC = re.compile(r"(Z|[+-]00:?00)\Z")
_INSERT = "+I"
_NO_KEY = (ValueError, TypeError, LookupError, ArithmeticError, pa.ArrowException)


@dataclass(frozen=True, slots=True)
class Key:
    """A parsed key.

    Attributes:
        array: the key alone, in the type of its column.
    """

    array: pa.Array

    @property
    def value(self) -> Any:
        """The key as a predicate has it; None if Python has no such value: a time with nanoseconds."""
        try:
            return self.array[0].as_py()
        except (ValueError, ImportError):
            return None

    @property
    def json(self) -> str:
        """The key as JSON text, which is the same for equal keys of one type."""
        text: str = json_text(self.array)[0].as_py()
        return text


def parse_key(text: str, key_type: pa.DataType, *, is_unquoted: bool = False) -> Key | None:
    """Return the key of a type that a text stands for; None if it stands for none.

    Args:
        text: as answers show the key.
        key_type: of the key column.
        is_unquoted: True if the keys are texts that never begin with a quotation mark; see `Table.unquoted`.
    """
    try:
        value = unquoted(text) if is_unquoted else _of_text(text, key_type)
        return None if value is None else Key(pa.array([value], key_type))
    except _NO_KEY:
        return None


def unquoted(text: str) -> str:
    """Return a text without the quotation marks that JSON text has around it."""
    if not text.startswith('"'):
        return text
    inner = orjson.loads(text)
    return inner if isinstance(inner, str) else text


def shown_key(keys: pa.Array) -> str:
    """Return the first key of a column as a text that `parse_key` reads."""
    if pa.types.is_string(keys.type):
        return str(keys[0].as_py())
    text: str = json_text(keys.slice(0, 1))[0].as_py()
    return text.strip('"')


def _of_text(text: str, key_type: pa.DataType) -> Any:
    for test, parse in _PARSERS:
        if test(key_type):
            return parse(text, key_type)
    raise TypeError(f"expected a type of keys, found {key_type}")


def _of_json(value: Any, key_type: pa.DataType) -> Any:
    """Return a member of a struct or list."""
    if value is None:
        return None
    for test, convert in _NESTED:
        if test(key_type):
            return convert(value, key_type)
    if isinstance(value, str):
        return _of_text(value, key_type)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if pa.types.is_boolean(key_type) == isinstance(value, bool) and (
        not is_number or pa.types.is_integer(key_type) or _has_fraction(key_type)
    ):
        return _of_text(str(value), key_type)
    raise TypeError(f"expected a {key_type}, found {value!r}")


def _has_fraction(key_type: pa.DataType) -> bool:
    return bool(pa.types.is_floating(key_type) or pa.types.is_decimal(key_type))


def _text(text: str, _type: pa.DataType) -> str:
    return text


def _integer(text: str, _type: pa.DataType) -> int:
    if not _INTEGER.fullmatch(text):
        raise ValueError(f"expected an integer, found {text!r}")
    return int(text)


def _boolean(text: str, _type: pa.DataType) -> bool:
    return {"true": True, "false": False}[text.lower()]


def _temporal(text: str, key_type: pa.DataType) -> Any:
    if pa.types.is_timestamp(key_type):
        text = _UTC.sub("", text)
        key_type = pa.timestamp(key_type.unit)
    elif pa.types.is_time(key_type):
        # Arrow parses no times of a day.
        text = f"1970-01-01T{text}"
        key_type = pa.timestamp(key_type.unit)
    # The number that is stored: datetimes of Python have no nanoseconds.
    return pa.scalar(text).cast(key_type).value


def _bytes(text: str, _type: pa.DataType) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return text.encode()


def _nested(text: str, key_type: pa.DataType) -> Any:
    return _of_json(orjson.loads(text), key_type)


def _struct(value: Any, key_type: pa.DataType) -> dict[str, Any]:
    names = [field.name for field in key_type]
    if isinstance(value, list):
        if len(value) == len(names) - 1 and names[:1] == [ROW_KIND]:
            value = [_INSERT, *value]
        value = dict(zip(names, value, strict=True))
    if not isinstance(value, dict):
        raise TypeError(f"expected an object or array, found {value!r}")
    if ROW_KIND in names:
        value = {ROW_KIND: _INSERT} | value
    if value.keys() != set(names):
        raise ValueError(f"expected the fields {names}, found {list(value)}")
    return {field.name: _of_json(value[field.name], field.type) for field in key_type}


def _list(value: Any, key_type: pa.DataType) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"expected a list, found {value!r}")
    return [_of_json(element, key_type.value_type) for element in value]


def _map(value: Any, key_type: pa.DataType) -> list[tuple[Any, Any]]:
    if not isinstance(value, list):
        raise TypeError(f"expected a list of entries, found {value!r}")
    return [
        (_of_json(entry["key"], key_type.key_type), _of_json(entry["value"], key_type.item_type))
        for entry in value
    ]


_Test = Callable[[pa.DataType], bool]
_NESTED: tuple[tuple[_Test, Callable[[Any, pa.DataType], Any]], ...] = (
    (pa.types.is_struct, _struct),
    (pa.types.is_map, _map),
    (pa.types.is_list, _list),
)
_PARSERS: tuple[tuple[_Test, Callable[[str, pa.DataType], Any]], ...] = (
    (pa.types.is_string, _text),
    (pa.types.is_integer, _integer),
    (pa.types.is_floating, lambda text, _type: float(text)),
    (pa.types.is_boolean, _boolean),
    (pa.types.is_decimal, lambda text, _type: Decimal(text)),
    (pa.types.is_temporal, _temporal),
    (pa.types.is_binary, _bytes),
    (pa.types.is_nested, _nested),
)
