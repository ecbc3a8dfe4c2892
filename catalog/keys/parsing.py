"""A text, or a value of Python, that stands for a key → the key, in the type of the key column.

A text may be written as answers show it; of any type but text also in quotation marks, as JSON text has it:

| column | text |
|---|---|
| text | the text itself; of UUIDs and other such classes that Kryo wrote, also in quotation marks |
| numbers, BOOLEAN | `42`, `-1.5`, `true` |
| dates and times | ISO 8601: `2024-05-01T12:00:00.123456789`, with or without `Z` |
| bytes | base64, or the text itself if it is no base64 |
| structs | all fields as a JSON object or array, or in brackets: `(a,1)`, `+I[a, 1]`, `{f0: a, f1: 1}`; `__row_kind` may be left out |
| structs of one field | that field alone, too |
| lists, maps | JSON arrays; entries of maps are `{"key": …, "value": …}` |

A value of Python has the type of the column, or is such a text:

| column | value |
|---|---|
| text | str, UUID |
| numbers, BOOLEAN | int, float, Decimal; bool |
| dates and times | date, time, datetime; one with a time zone is converted to UTC |
| bytes | bytes |
| structs | dict, or tuple or list of the values of all fields |
| lists, maps | list or tuple; dict |
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from uuid import UUID

import orjson
import pyarrow as pa

from catalog.errors import NotAKeyError
from catalog.keys.conversion import value_of_text
from catalog.keys.notation import Row, read_group
from readers import ROW_KIND, json_text

_INSERT = "+I"
_CLOSING = (")", "]", "}")
_SHOWN = 100
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


def parse_key(text: str, key_type: pa.DataType, *, is_unquoted: bool = False) -> Key:
    """Return the key of a type that a text stands for.

    Args:
        text: as answers show the key.
        key_type: of the key column.
        is_unquoted: True if the keys are texts that never begin with a quotation mark; see `Table.unquoted`.

    Raises:
        NotAKeyError: the text stands for no key of this type.
    """
    try:
        value = unquoted(text) if is_unquoted else _of_text(text, key_type)
        if value is None:
            raise NotAKeyError("expected a key, found null")
        return Key(pa.array([value], key_type))
    except _NO_KEY as error:
        raise NotAKeyError(str(error)) from error


def key_of(value: Any, key_type: pa.DataType, *, is_unquoted: bool = False) -> Key:
    """Return the key of a type that a value of Python stands for.

    Args:
        value: of the type of the column, or a text that stands for it.
        key_type: of the key column.
        is_unquoted: True if the keys are texts that never begin with a quotation mark; see `Table.unquoted`.

    Raises:
        NotAKeyError: the value stands for no key of this type.
    """
    if isinstance(value, str):
        return parse_key(value, key_type, is_unquoted=is_unquoted)
    if type(value).__module__ == "numpy" and hasattr(value, "item"):
        value = value.item()
    if len(_own_names(key_type)) == 1 and not isinstance(value, Mapping | list | tuple):
        value = [value]
    try:
        member = _member(value, key_type)
        if member is None:
            raise NotAKeyError("expected a key, found None")
        return Key(pa.array([member], key_type))
    except _NO_KEY as error:
        raise NotAKeyError(str(error)) from error


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
    first = keys.slice(0, 1)
    own = _own_names(keys.type)
    if own and len(own) < keys.type.num_fields and first.field(ROW_KIND)[0].as_py() == _INSERT:
        first = pa.StructArray.from_arrays([first.field(name) for name in own], own)
    text: str = json_text(first)[0].as_py()
    return text.strip('"')


def _of_text(text: str, key_type: pa.DataType) -> Any:
    if not pa.types.is_nested(key_type):
        # A column of several types of keys shows dates, decimals and the like as JSON text.
        return value_of_text(text if pa.types.is_string(key_type) else unquoted(text), key_type)
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        value = read_group(text) if text.rstrip()[-1:] in _CLOSING else text
        if pa.types.is_list(key_type) or pa.types.is_map(key_type):
            raise ValueError(f"expected a JSON array, found {text[:_SHOWN]!r}") from error
    if pa.types.is_struct(key_type) and not isinstance(value, dict | list | Row):
        names = _own_names(key_type)
        if len(names) != 1:
            raise ValueError(f"expected {_listed(key_type)}, found one value")
        # A key of one field is that field, whatever its text would be as JSON.
        value = {names[0]: text}
    return _member(value, key_type)


def _member(value: Any, data_type: pa.DataType) -> Any:
    """Return what JSON, the notation with brackets or Python says of a type."""
    if value is None:
        return None
    if isinstance(value, tuple) and not isinstance(value, Row):
        value = list(value)
    elif isinstance(value, Mapping):
        value = dict(value)
    for test, convert in _NESTED:
        if test(data_type):
            return convert(value, data_type)
    if isinstance(value, str):
        is_null = value == "null" and not pa.types.is_string(data_type)
        return None if is_null else value_of_text(value, data_type)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if (isinstance(value, bool) and pa.types.is_boolean(data_type)) or (
        is_number and (pa.types.is_integer(data_type) or _has_fraction(data_type))
    ):
        return value_of_text(str(value), data_type)
    # The first kind decides: a datetime is a date, too, but no day.
    kind = next((kind for kind in _OF_PYTHON if isinstance(value, kind[0])), None)
    if kind is not None and kind[1](data_type):
        return value_of_text(kind[2](value), data_type)
    if isinstance(value, bytes | bytearray | memoryview) and pa.types.is_binary(data_type):
        return bytes(value)
    # Not more of it: a value may be long.
    raise TypeError(f"expected {_named(data_type)}, found {type(value).__name__} {repr(value)[:_SHOWN]}")


def _named(data_type: pa.DataType) -> str:
    name = "text" if pa.types.is_string(data_type) else str(data_type)
    return f"a value of type {name}"


def _iso_utc(value: datetime.datetime) -> str:
    # A pandas Timestamp is a datetime, and writes its nanoseconds, too.
    return (value if value.tzinfo is None else value.astimezone(datetime.UTC)).isoformat()


def _has_fraction(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_floating(data_type) or pa.types.is_decimal(data_type))


def _own_names(data_type: pa.DataType) -> list[str]:
    """Return the names of the fields of a struct, without the kind of rows, which no key differs by."""
    return (
        [field.name for field in data_type if field.name != ROW_KIND] if pa.types.is_struct(data_type) else []
    )


def _struct(value: Any, data_type: pa.DataType) -> dict[str, Any]:
    names = [field.name for field in data_type]
    if isinstance(value, str):
        parsed: dict[str, Any] = _of_text(value, data_type)
        return parsed
    kind = _INSERT
    if isinstance(value, Row):
        kind, value = value
    if isinstance(value, list):
        own = _own_names(data_type)
        if len(value) not in (len(own), len(names)):
            plural = "" if len(value) == 1 else "s"
            raise NotAKeyError(
                f"expected {_listed(data_type)}, found {len(value)} value{plural}", is_close=True
            )
        value = dict(zip(own if len(value) == len(own) else names, value, strict=True))
    if not isinstance(value, dict):
        raise TypeError(f"expected an object or array, found {value!r}")
    if ROW_KIND in names:
        value = {ROW_KIND: kind} | value
    missing = [name for name in names if name not in value]
    unknown = [name for name in value if name not in names]
    if missing or unknown:
        lack = [f"{', '.join(missing)} {_is(missing)} missing"] if missing else []
        more = [f"{', '.join(unknown)} {_is(unknown)} unknown"] if unknown else []
        raise NotAKeyError(f"expected {_listed(data_type)}; {' and '.join(lack + more)}", is_close=True)
    return {field.name: _field(value[field.name], field) for field in data_type}


def _field(value: Any, field: pa.Field) -> Any:
    try:
        return _member(value, field.type)
    except (*_NO_KEY, NotAKeyError) as error:
        raise NotAKeyError(f"{field.name}: {error}", is_close=True) from error


def _listed(data_type: pa.DataType) -> str:
    names = _own_names(data_type)
    return f"the field{'' if len(names) == 1 else 's'} {', '.join(names)}"


def _is(names: list[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _list(value: Any, data_type: pa.DataType) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"expected a list, found {value!r}")
    return [_member(element, data_type.value_type) for element in value]


def _map(value: Any, data_type: pa.DataType) -> list[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        value = [{"key": key, "value": item} for key, item in value.items()]
    if not isinstance(value, list):
        raise TypeError(f"expected a list of entries, found {value!r}")
    return [
        (_member(entry["key"], data_type.key_type), _member(entry["value"], data_type.item_type))
        for entry in value
    ]


_NESTED: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any, pa.DataType], Any]], ...] = (
    (pa.types.is_struct, _struct),
    (pa.types.is_map, _map),
    (pa.types.is_list, _list),
)
_OF_PYTHON: tuple[tuple[type[Any], Callable[[pa.DataType], bool], Callable[[Any], str]], ...] = (
    (UUID, pa.types.is_string, str),
    (Decimal, pa.types.is_decimal, lambda value: f"{value:f}"),
    (datetime.datetime, pa.types.is_timestamp, _iso_utc),
    (datetime.date, pa.types.is_date, datetime.date.isoformat),
    (datetime.time, pa.types.is_time, datetime.time.isoformat),
)
