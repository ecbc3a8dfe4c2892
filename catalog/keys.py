"""One text → one value of a type that has no parts: the conversions of keys, and of constants in SQL.

Integers and decimals become exactly what is written, or they are refused: nothing is rounded or wrapped.

Structs and lists as people and Java write them, which is no JSON: `(a,1)`, `+I[a, 1]`, `{f0: a, f1: 1}`.

    group  = [word] ( "(" items ")" | "[" items "]" | "{" items "}" )
    items  = nothing | item { "," item }
    item   = value; in "{", name (":" | "=") value
    value  = group | text in single or double quotes | text without commas and brackets

The word before a group is the kind of a row (`+I`), or the name of a class, which says nothing about the value.

The rows of a key as people read them: a namespace, the place in a map or a list, and the value, as JSON text.

A text, or a value of Python, that stands for a key → the key, in the type of the key column.

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

The states of a database that have keys: where a key is looked up, and what it is as a value of the tables there.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

import orjson
import pyarrow as pa
import pyarrow.compute as pc

import readers
from catalog.database import Database
from catalog.errors import NotAKeyError
from catalog.scan import Predicate
from catalog.statetables import StatesTable, timer_service_of
from catalog.table import Table
from readers import ROW_KIND, ReaderError, State, conform, json_text, sql_type

_INTEGER = re.compile(r"[+-]?\d{1,20}", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,4})?|[+-]?inf(inity)?|nan", re.ASCII | re.IGNORECASE)
_UTC = re.compile(r"(Z|[+-]00:?00)\Z")
_FAR_YEAR = re.compile(r"[+-]\d{4,10}(?=-)")
_IN_A_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_OTHER_NUMBER = re.compile(r"\+|-?0\d|-0\Z", re.ASCII)
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


def value_of_own_text(text: str, data_type: pa.DataType) -> Any:
    """Return what `value_of_text` does, of numbers only where they have no plus sign and no leading zero: these make other ids.

    Raises:
        ValueError: the text is no such value.
        TypeError: the type has parts.
    """
    is_number = any(test(data_type) for test in _NUMBERS)
    if is_number and _OTHER_NUMBER.match(text):
        raise ValueError(f"expected a number without a plus sign and leading zeros, found {text[:_SHOWN]!r}")
    return value_of_text(text, data_type)


def _integer(text: str, data_type: pa.DataType) -> int:
    if not _INTEGER.fullmatch(text):
        raise ValueError(f"expected an integer, found {text!r}")
    value = int(text)
    least = -(1 << (data_type.bit_width - 1)) if pa.types.is_signed_integer(data_type) else 0
    if not least <= value < least + (1 << data_type.bit_width):
        raise ValueError(f"expected an integer of {data_type.bit_width} bits, found {text}")
    return value


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
        # Arrow parses years of four digits; 400 years later the calendar is the same.
        sign_and_year = _FAR_YEAR.match(text)
        eras, year = divmod(int(sign_and_year[0]) - 2000, 400) if sign_and_year else (0, 0)
        near = f"{2000 + year}{text[sign_and_year.end() :]}" if sign_and_year else text
        era = 146_097 if pa.types.is_date(data_type) else 146_097 * 86_400 * _IN_A_SECOND[data_type.unit]
        # The number that is stored: datetimes of Python have no nanoseconds.
        return pa.scalar(near).cast(data_type).value + eras * era
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
    (pa.types.is_floating, lambda text, _: float(_number(text))),
    (pa.types.is_boolean, _boolean),
    (pa.types.is_decimal, _decimal),
    (pa.types.is_temporal, _temporal),
    (pa.types.is_binary, _bytes),
)
_NUMBERS = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)


_CLOSING = {"(": ")", "[": "]", "{": "}"}
_KINDS = frozenset({"+I", "-U", "+U", "-D"})
_OPENING = re.compile(r"\s*([\w.$]*|[+-][IUD])\s*([(\[{])")
_NAME = re.compile(r"\s*(?:([A-Za-z_]\w*)|'([^']*)'|\"([^\"]*)\")\s*[:=]")
_QUOTED = re.compile(r"\s*(?:'((?:[^']|'')*)'|\"((?:[^\"]|\"\")*)\")\s*(?=[,)\]}]|\Z)")
_BLANKS = re.compile(r"\s*")
_BARE = re.compile(r"[^,()\[\]{}]*")
_MOST_DEPTH = 32


class Row(NamedTuple):
    """The values of a row, in the order of its fields."""

    kind: str
    values: list[Any]


Group = dict[str, Any] | list[Any] | Row


def read_group(text: str) -> Group:
    """Return the group that a whole text is: its values by name, or in their order.

    Raises:
        ValueError: it is none.
    """
    group, end = _group(text, 0, 0)
    if group is None or text[end:].strip():
        raise ValueError("expected one pair of brackets around all")
    return group


def _group(text: str, start: int, depth: int) -> tuple[Group | None, int]:
    opening = _OPENING.match(text, start)
    if opening is None:
        return None, start
    if depth == _MOST_DEPTH:
        raise ValueError(f"expected at most {_MOST_DEPTH} brackets inside each other")
    word, bracket = opening.groups()
    names: list[str] = []
    values: list[Any] = []
    end = _after_blanks(text, opening.end())
    is_open = text[end : end + 1] != _CLOSING[bracket]
    while is_open:
        if bracket == "{":
            name, end = _name(text, end)
            names.append(name)
        value, end = _value(text, end, depth)
        values.append(value)
        is_open = text[end : end + 1] == ","
        end += is_open
    if text[end : end + 1] != _CLOSING[bracket]:
        raise ValueError(f"expected {_CLOSING[bracket]!r}, found {text[end : end + 10]!r}")
    if names:
        return dict(zip(names, values, strict=True)), end + 1
    return Row(word, values) if word in _KINDS else values, end + 1


def _name(text: str, start: int) -> tuple[str, int]:
    found = _NAME.match(text, start)
    if found is None:
        raise ValueError(f"expected the name of a field, found {text[start : start + 10]!r}")
    return next(name for name in found.groups() if name is not None), found.end()


def _value(text: str, start: int, depth: int) -> tuple[Any, int]:
    quoted = _QUOTED.match(text, start)
    if quoted is not None:
        single, double = quoted.groups()
        return single.replace("''", "'") if single is not None else double.replace('""', '"'), quoted.end()
    group, end = _group(text, start, depth + 1)
    if group is not None:
        return group, _after_blanks(text, end)
    bare = _BARE.match(text, start)
    assert bare is not None  # it matches nothing, too
    return bare.group().strip(), bare.end()


def _after_blanks(text: str, start: int) -> int:
    blanks = _BLANKS.match(text, start)
    assert blanks is not None  # it matches nothing, too
    return blanks.end()


_TEXT = pa.string()
ENTRIES = pa.schema([("namespace", _TEXT), ("map_key", _TEXT), ("list_index", pa.int32()), ("value", _TEXT)])


def entries_of(batch: pa.RecordBatch, value: str, json_columns: Collection[str] = ()) -> pa.RecordBatch:
    """Return the rows of states as entries.

    Args:
        batch: the rows; a column that they do not have is null.
        value: the column with the value.
        json_columns: columns whose texts are JSON already.
    """

    def column(name: str) -> pa.Array:
        if name not in batch.schema.names:
            return pa.nulls(batch.num_rows, _TEXT)
        return batch.column(name) if name in json_columns else readers.json_text(batch.column(name))

    def namespace() -> pa.Array:
        # SQL's operators store of a window its end, in milliseconds.
        if "namespace" in batch.schema.names and pa.types.is_int64(batch.schema.field("namespace").type):
            return readers.json_text(batch.column("namespace").cast(pa.timestamp("ms")))
        return column("namespace")

    has_index = "list_index" in batch.schema.names
    index = batch.column("list_index") if has_index else pa.nulls(batch.num_rows, pa.int32())
    return pa.RecordBatch.from_arrays([namespace(), column("map_key"), index, column(value)], schema=ENTRIES)


_INSERT = "+I"
_SHOWN = 100
_Read = Callable[[str, pa.DataType], Any]
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
        """The key as a predicate has it; None if Python has no such value: a time with nanoseconds, or beyond the year 9999."""
        try:
            return self.array[0].as_py()
        except (ValueError, OverflowError, ImportError):
            return None

    @property
    def json(self) -> str:
        """The key as JSON text, which is the same for equal keys of one type."""
        text: str = json_text(self.array)[0].as_py()
        return text


def parse_key(
    text: str, key_type: pa.DataType, *, is_unquoted: bool = False, is_own_text: bool = False
) -> Key:
    """Return the key of a type that a text stands for.

    Args:
        text: as answers show the key.
        key_type: of the key column.
        is_unquoted: True if the keys are texts that never begin with a quotation mark; see `Table.unquoted`.
        is_own_text: True if `01` and `+1` are other keys than the number 1, as among ids, whose texts decide.

    Raises:
        NotAKeyError: the text stands for no key of this type.
    """
    read = value_of_own_text if is_own_text else value_of_text
    try:
        value = unquoted(text) if is_unquoted else _of_text(text, key_type, read)
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
        member = _member(value, key_type, value_of_text)
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


def _of_text(text: str, key_type: pa.DataType, read: _Read) -> Any:
    if not pa.types.is_nested(key_type):
        # A column of several types of keys shows dates, decimals and the like as JSON text.
        return read(text if pa.types.is_string(key_type) else unquoted(text), key_type)
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        value = read_group(text) if text.rstrip()[-1:] in _CLOSING.values() else text
        if pa.types.is_list(key_type) or pa.types.is_map(key_type):
            raise ValueError(f"expected a JSON array, found {text[:_SHOWN]!r}") from error
    if pa.types.is_struct(key_type) and not isinstance(value, dict | list | Row):
        names = _own_names(key_type)
        if len(names) != 1:
            raise ValueError(f"expected {_listed(key_type)}, found one value")
        # A key of one field is that field, whatever its text would be as JSON.
        value = {names[0]: text}
    return _member(value, key_type, read)


def _member(value: Any, data_type: pa.DataType, read: _Read) -> Any:
    """Return what JSON, the notation with brackets or Python says of a type."""
    if value is None:
        return None
    if isinstance(value, tuple) and not isinstance(value, Row):
        value = list(value)
    elif isinstance(value, Mapping):
        value = dict(value)
    for test, convert in _NESTED:
        if test(data_type):
            return convert(value, data_type, read)
    if isinstance(value, str):
        is_null = value == "null" and not pa.types.is_string(data_type)
        return None if is_null else read(value, data_type)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if (isinstance(value, bool) and pa.types.is_boolean(data_type)) or (
        is_number and any(test(data_type) for test in _NUMBERS)
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
    name = "text" if pa.types.is_string(data_type) else sql_type(data_type)
    return f"a value of type {name}"


def _iso_utc(value: datetime.datetime) -> str:
    # A pandas Timestamp is a datetime, and writes its nanoseconds, too.
    return (value if value.tzinfo is None else value.astimezone(datetime.UTC)).isoformat()


def _own_names(data_type: pa.DataType) -> list[str]:
    """Return the names of the fields of a struct, without the kind of rows, which no key differs by."""
    return (
        [field.name for field in data_type if field.name != ROW_KIND] if pa.types.is_struct(data_type) else []
    )


def _struct(value: Any, data_type: pa.DataType, read: _Read) -> dict[str, Any]:
    names = [field.name for field in data_type]
    if isinstance(value, str):
        parsed: dict[str, Any] = _of_text(value, data_type, read)
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
    return {field.name: _field(value[field.name], field, read) for field in data_type}


def _field(value: Any, field: pa.Field, read: _Read) -> Any:
    try:
        return _member(value, field.type, read)
    except (*_NO_KEY, NotAKeyError) as error:
        raise NotAKeyError(f"{field.name}: {error}", is_close=True) from error


def _listed(data_type: pa.DataType) -> str:
    names = _own_names(data_type)
    return f"the field{'' if len(names) == 1 else 's'} {', '.join(names)}"


def _is(names: list[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _list(value: Any, data_type: pa.DataType, read: _Read) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"expected a list, found {value!r}")
    return [_member(element, data_type.value_type, read) for element in value]


def _map(value: Any, data_type: pa.DataType, read: _Read) -> list[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        value = [{"key": key, "value": item} for key, item in value.items()]
    if not isinstance(value, list):
        raise TypeError(f"expected a list of entries, found {value!r}")
    return [
        (_member(entry["key"], data_type.key_type, read), _member(entry["value"], data_type.item_type, read))
        for entry in value
    ]


_NESTED: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any, pa.DataType, _Read], Any]], ...] = (
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


_KEY = "key"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedState:
    """A state with rows for each key.

    Attributes:
        table: a table with the state's rows, which has a column `key`.
        key_type: of the state's own keys; the table of several states may show them as text.
        operator_id, operator: the id of its operator, and the name of the operator's table.
        state, kind: as shown.
        value: the column with the value.
        facts: columns that have these values in the rows of the state, and in no others.
        is_unquoted: True if the keys are texts that never begin with a quotation mark.
        json_columns: text columns of the table in which the state's values, which are no texts, stand as JSON text.
    """

    table: Table
    key_type: pa.DataType
    operator_id: str
    operator: str
    state: str
    kind: str
    value: str = "value"
    facts: Mapping[str, str] = field(default_factory=dict)
    is_unquoted: bool = False
    json_columns: frozenset[str] = frozenset()

    @property
    def column_type(self) -> pa.DataType:
        """The type of the keys in the table."""
        return self.table.schema.field(_KEY).type

    def parse(self, text: str) -> Key:
        """Return the key that a text stands for.

        Raises:
            NotAKeyError: the state has no such keys.
        """
        return parse_key(text, self.key_type, is_unquoted=self.is_unquoted)

    def in_column(self, key: Key) -> pa.Array:
        """Return a key as the table shows it."""
        # A column of several types of keys is text: texts are as they are, other keys are JSON text.
        if pa.types.is_string(self.column_type) and not pa.types.is_string(self.key_type):
            return pa.array([key.json])
        return conform(key.array, self.column_type)

    @property
    def predicate(self) -> Predicate:
        """The condition that the rows of the state meet."""
        return Predicate({name: (value,) for name, value in self.facts.items()})

    def rows_of(
        self, key: Key, table: Table, is_key: Callable[[pa.Array], pa.Array]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a key, without SQL.

        Args:
            key: the key.
            table: the table of the state, or one with rows about it.
            is_key: tells by the keys of rows which of them have the key: Arrow cannot compare nested values.

        Raises:
            ReaderError: the savepoint cannot be read.
        """
        predicate = self.predicate
        if table.schema.field(_KEY).type.equals(self.key_type) and key.value is not None:
            predicate = predicate.and_(_KEY, (key.value,))
        scan = table.scan(table.schema.names, predicate)
        for split in scan.splits:
            for batch in scan.read(split):
                kept = is_key(batch.column(_KEY))
                for name, value in self.facts.items():
                    kept = pc.and_(kept, pc.equal(batch.column(name), value))
                rows = batch.filter(kept)
                if rows.num_rows:
                    yield rows


def keyed_states(database: Database) -> Iterator[KeyedState]:
    """Yield the keyed states of a database, its timers last.

    Raises:
        ReaderError: `_metadata` or the headers of an operator cannot be read.
    """
    for operator_id, table in database.state_tables():
        state = table.states[0].state
        if _KEY in table.schema.names:
            yield KeyedState(
                table=table,
                key_type=table.schema.field(_KEY).type,
                operator_id=operator_id,
                operator=database.operator_names[operator_id],
                state=state.name,
                kind=state.kind.value,
                is_unquoted=_KEY in table.unquoted,
            )
    timers = database.timers
    for known in timers.states:
        if _KEY in known.state.schema.names:
            yield _timers(database, timers, known.state)


def unread_operators(database: Database) -> Iterator[tuple[str, ReaderError]]:
    """Yield the operators of which no keyed state is known, because their files cannot be opened, each with a reason.

    Raises:
        ReaderError: `_metadata` cannot be read.
    """
    for operator in database.savepoint.operators:
        errors = [handle.error for handle in operator.unread if handle.key_groups is not None]
        if errors and not any(_KEY in state.schema.names for state in operator.states):
            yield database.operator_names[operator.operator_id], errors[0]


def _timers(database: Database, table: StatesTable, state: State) -> KeyedState:
    domain, service = timer_service_of(state.name)
    return KeyedState(
        table=table,
        key_type=state.schema.field(_KEY).type,
        operator_id=state.operator_id,
        operator=database.operator_names[state.operator_id],
        state=service,
        kind=f"{domain} TIMER",
        value="timestamp",
        facts={"operator_id": state.operator_id, "timer_service": service, "time_domain": domain},
        is_unquoted=_KEY in state.unquoted,
        json_columns=frozenset(
            column.name
            for column in state.schema
            if pa.types.is_string(table.schema.field(column.name).type)
            and not pa.types.is_string(column.type)
        ),
    )
