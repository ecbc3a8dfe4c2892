"""Types with values, and the bytes that Flink writes for them: an encoder that shares nothing with the readers.

A `Kind` is a serializer, a strategy for values of it, their bytes, and what a reader must show: numbers, text and bytes as
Python has them, floats as their bits, dates and times as integers (days, milliseconds or nanoseconds), structs as dicts,
maps as lists of pairs. Written from Flink's `TypeSerializer#serialize` methods.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any

from hypothesis import strategies as st

from readers.serializers import containers, operators, pojo, primitives, structs
from readers.serializers.base import Serializer

MIN_I8 = b"\x80" + b"\0" * 7
MIN_I4 = b"\x80" + b"\0" * 3
NANOS_A_SECOND = 1_000_000_000
SECONDS_A_DAY = 86_400
I8_SECONDS = 9_223_372_036  # of an int64 of nanoseconds, either way


@dataclass(frozen=True)
class Kind:
    """One type.

    Attributes:
        serializer: what is tested.
        values: a strategy.
        encode: value → bytes.
        show: value → what a reader shows; the value itself by default.
        nullable: whether None is among the values.
    """

    serializer: Serializer
    values: st.SearchStrategy[Any]
    encode: Callable[[Any], bytes]
    show: Callable[[Any], Any] = lambda value: value
    nullable: bool = False


def bits(value: Any) -> Any:
    """A shown value with floats as their bits, so that -0.0 is not 0.0 and NaN is NaN."""
    if isinstance(value, float):
        return "NaN" if value != value else struct.pack(">d", value).hex()
    if isinstance(value, dict):
        return {name: bits(field) for name, field in value.items()}
    if isinstance(value, list | tuple):
        return [bits(element) for element in value]
    return value


# ---- numbers, text and bytes -----------------------------------------------------------------------------------


def integer(width: int) -> tuple[st.SearchStrategy[int], Callable[[int], bytes]]:
    bound = 1 << 8 * width - 1
    return st.integers(-bound, bound - 1), lambda value: value.to_bytes(width, "big", signed=True)


def utf16_units(text: str) -> list[int]:
    raw = text.encode("utf-16-be", "surrogatepass")
    return [raw[at] << 8 | raw[at + 1] for at in range(0, len(raw), 2)]


def varint(number: int) -> bytes:
    low, rest = number & 0x7F, number >> 7
    return bytes([low]) if rest == 0 else bytes([low | 0x80]) + varint(rest)


def string(text: str | None) -> bytes:
    if text is None:
        return b"\0"
    units = utf16_units(text)
    return varint(len(units) + 1) + b"".join(map(varint, units))


def string_value(text: str) -> bytes:
    units = utf16_units(text)
    return varint(len(units)) + b"".join(map(varint, units))


def utf(text: str) -> bytes:
    """`DataOutput#writeUTF`."""
    out = bytearray()
    for unit in utf16_units(text):
        if 0 < unit < 0x80:
            out.append(unit)
        elif unit < 0x800:
            out += bytes([0xC0 | unit >> 6, 0x80 | unit & 0x3F])
        else:
            out += bytes([0xE0 | unit >> 12, 0x80 | unit >> 6 & 0x3F, 0x80 | unit & 0x3F])
    return struct.pack(">H", len(out)) + bytes(out)


def big_integer(value: int | None) -> bytes:
    if value is None:
        return struct.pack(">i", 0)
    if value in (
        0,
        1,
        10,
    ):  # Flink does so for the constants alone; other objects of these values are written below
        return struct.pack(">i", {0: 1, 1: 2, 10: 3}[value])
    raw = value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True)
    return struct.pack(">i", len(raw) + 4) + raw


def big_decimal(value: tuple[int, int] | None) -> bytes:
    if value is None:
        return big_integer(None)
    unscaled, scale = value
    return big_integer(unscaled) + struct.pack(">i", scale)


def plain_decimal(value: tuple[int, int] | None) -> str | None:
    """`BigDecimal#toPlainString`."""
    if value is None:
        return None
    unscaled, scale = value
    sign, digits = "-" if unscaled < 0 else "", str(abs(unscaled))
    if scale <= 0:
        return sign + digits + ("0" * -scale if unscaled else "")
    digits = digits.zfill(scale + 1)
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}"


def counted(encode: Callable[[Any], bytes]) -> Callable[[list[Any]], bytes]:
    """i4 count, elements."""
    return lambda values: struct.pack(">i", len(values)) + b"".join(map(encode, values))


_TEXT = st.text(max_size=12) | st.text("abc", max_size=300)
_FLOAT, _DOUBLE = st.floats(width=32), st.floats()
_CHAR = st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"])


def _float(value: float) -> bytes:
    return struct.pack(">f", value)


def _double(value: float) -> bytes:
    return struct.pack(">d", value)


def _char(value: str) -> bytes:
    return struct.pack(">H", ord(value))


def _boolean(value: bool) -> bytes:
    return bytes([value])


def _arrays() -> list[Kind]:
    elements: list[tuple[Serializer, st.SearchStrategy[Any], Callable[[Any], bytes]]] = [
        (primitives.BooleanPrimitiveArraySerializer(), st.booleans(), _boolean),
        (primitives.ShortPrimitiveArraySerializer(), *integer(2)),
        (primitives.IntPrimitiveArraySerializer(), *integer(4)),
        (primitives.LongPrimitiveArraySerializer(), *integer(8)),
        (primitives.FloatPrimitiveArraySerializer(), _FLOAT, _float),
        (primitives.DoublePrimitiveArraySerializer(), _DOUBLE, _double),
        (primitives.CharPrimitiveArraySerializer(), _CHAR, _char),
        (primitives.StringArraySerializer(), st.none() | _TEXT, string),
    ]
    return [
        Kind(serializer, st.lists(values, max_size=5), counted(encode))
        for serializer, values, encode in elements
    ]


PRIMITIVES = [
    Kind(primitives.BooleanSerializer(), st.booleans(), _boolean),
    Kind(primitives.BooleanValueSerializer(), st.booleans(), _boolean),
    Kind(primitives.ByteSerializer(), *integer(1)),
    Kind(primitives.ByteValueSerializer(), *integer(1)),
    Kind(primitives.ShortSerializer(), *integer(2)),
    Kind(primitives.ShortValueSerializer(), *integer(2)),
    Kind(primitives.IntSerializer(), *integer(4)),
    Kind(primitives.IntValueSerializer(), *integer(4)),
    Kind(primitives.LongSerializer(), *integer(8)),
    Kind(primitives.LongValueSerializer(), *integer(8)),
    Kind(primitives.FloatSerializer(), _FLOAT, _float),
    Kind(primitives.FloatValueSerializer(), _FLOAT, _float),
    Kind(primitives.DoubleSerializer(), _DOUBLE, _double),
    Kind(primitives.DoubleValueSerializer(), _DOUBLE, _double),
    Kind(primitives.CharSerializer(), _CHAR, _char),
    Kind(primitives.CharValueSerializer(), _CHAR, _char),
    Kind(primitives.StringSerializer(), st.none() | _TEXT, string, nullable=True),
    Kind(primitives.StringValueSerializer(), _TEXT, string_value),
    Kind(
        primitives.BigIntSerializer(),
        st.none() | st.integers() | st.integers(-(1 << 2000), 1 << 2000) | st.sampled_from([0, 1, 10]),
        big_integer,
        lambda value: None if value is None else str(value),
        nullable=True,
    ),
    Kind(
        primitives.BigDecSerializer(),
        st.none() | st.tuples(st.integers(), st.integers(-40, 40)),
        big_decimal,
        plain_decimal,
        nullable=True,
    ),
    Kind(
        primitives.BytePrimitiveArraySerializer(),
        st.binary(max_size=40),
        lambda value: struct.pack(">i", len(value)) + value,
    ),
    Kind(primitives.VoidSerializer(), st.none(), lambda _: b"\0", nullable=True),
    Kind(primitives.VoidNamespaceSerializer(), st.none(), lambda _: b"\0", nullable=True),
    Kind(primitives.NullValueSerializer(), st.none(), lambda _: b"", nullable=True),
    Kind(primitives.Tuple0Serializer(), st.none(), lambda _: b"\x2a", nullable=True),
    *_arrays(),
]


# ---- times -----------------------------------------------------------------------------------------------------


def local_date(value: date) -> bytes:
    return struct.pack(">iBB", value.year, value.month, value.day)


def local_time(nanos: int) -> bytes:
    second, nano = divmod(nanos, NANOS_A_SECOND)
    return struct.pack(">BBBi", second // 3600, second // 60 % 60, second % 60, nano)


def days(value: date) -> int:
    return value.toordinal() - date(1970, 1, 1).toordinal()


def _or_null(
    values: st.SearchStrategy[Any], encode: Callable[[Any], bytes], null: bytes, show: Callable[[Any], Any]
) -> tuple[Any, ...]:
    """Values, encoder and what is shown, with null as a value."""
    return (
        st.none() | values,
        lambda value: null if value is None else encode(value),
        lambda value: None if value is None else show(value),
        True,
    )


def _millis(value: int) -> bytes:
    return struct.pack(">q", value)


def _total(value: tuple[int, int]) -> int:
    seconds, nanos = value
    return seconds * NANOS_A_SECOND + nanos


_MILLIS = st.integers(-(1 << 63) + 1, (1 << 63) - 1)
_SECONDS = st.tuples(st.integers(-I8_SECONDS + 1, I8_SECONDS - 1), st.integers(0, NANOS_A_SECOND - 1))
_NANOS_OF_DAY = st.integers(0, SECONDS_A_DAY * NANOS_A_SECOND - 1)
_NANOSECOND_DATES = st.dates(date(1678, 1, 1), date(2261, 12, 31))

TIMES = [
    *(
        Kind(serializer, *_or_null(_MILLIS, _millis, MIN_I8, lambda millis: millis))
        for serializer in (
            primitives.DateSerializer(),
            primitives.SqlDateSerializer(),
            primitives.SqlTimeSerializer(),
        )
    ),
    Kind(
        primitives.SqlTimestampSerializer(),
        *_or_null(
            _SECONDS,
            lambda value: struct.pack(">qi", value[0] * 1000 + value[1] // 1_000_000, value[1]),
            MIN_I8 + b"\0" * 4,
            _total,
        ),
    ),
    Kind(
        primitives.InstantSerializer(),
        *_or_null(_SECONDS, lambda value: struct.pack(">qi", *value), MIN_I8 + MIN_I4, _total),
    ),
    Kind(
        primitives.LocalDateSerializer(),
        *_or_null(st.dates(), local_date, MIN_I4 + b"\x80\0", days),
    ),
    Kind(
        primitives.LocalTimeSerializer(),
        *_or_null(_NANOS_OF_DAY, local_time, b"\x80\x80\0" + MIN_I4, lambda nanos: nanos),
    ),
    Kind(
        primitives.LocalDateTimeSerializer(),
        *_or_null(
            st.tuples(_NANOSECOND_DATES, _NANOS_OF_DAY),
            lambda value: local_date(value[0]) + local_time(value[1]),
            MIN_I4 + b"\x80\0" + b"\x80\x80\0" + MIN_I4,
            lambda value: days(value[0]) * SECONDS_A_DAY * NANOS_A_SECOND + value[1],
        ),
    ),
]


# ---- windows ---------------------------------------------------------------------------------------------------

_LONG = integer(8)

WINDOWS = [
    Kind(
        operators.TimeWindowSerializer(),
        st.tuples(_LONG[0], _LONG[0]),
        lambda window: struct.pack(">qq", *window),
        lambda window: {"start": window[0], "end": window[1]},
    ),
    Kind(operators.GlobalWindowSerializer(), st.just("GlobalWindow"), lambda _: b"\0"),
    Kind(operators.CountWindowSerializer(), *_LONG),
]


# ---- what is made of other types -------------------------------------------------------------------------------


def list_of(element: Kind) -> Kind:
    return Kind(
        containers.ListSerializer(element.serializer),
        st.lists(element.values, max_size=4),
        counted(element.encode),
        lambda values: [element.show(value) for value in values],
    )


def set_of(element: Kind) -> Kind:
    return Kind(
        containers.SetSerializer(element.serializer),
        st.lists(st.none() | element.values, max_size=4),
        counted(_flagged(element, null=1)),
        _shown_elements(element),
    )


def array_of(element: Kind) -> Kind:
    return Kind(
        containers.GenericArraySerializer(element.serializer, "Component"),
        st.lists(st.none() | element.values, max_size=4),
        counted(_flagged(element, null=0)),
        _shown_elements(element),
    )


def map_of(key: Kind, value: Kind) -> Kind:
    """Keys are not null: no column of type map can hold one."""
    pair = st.tuples(key.values.filter(lambda chosen: key.show(chosen) is not None), st.none() | value.values)
    return Kind(
        containers.MapSerializer(key.serializer, value.serializer),
        st.lists(pair, max_size=4),
        counted(lambda entry: key.encode(entry[0]) + _flagged(value, null=1)(entry[1])),
        lambda entries: [(key.show(left), _shown(value, right)) for left, right in entries],
    )


def nullable(inner: Kind, padding: int) -> Kind:
    return Kind(
        containers.NullableSerializer(inner.serializer, padding),
        st.none() | inner.values,
        lambda value: b"\1" + b"\0" * padding if value is None else b"\0" + inner.encode(value),
        lambda value: _shown(inner, value),
        nullable=True,
    )


def tuple_of(*fields: Kind) -> Kind:
    return Kind(
        structs.TupleSerializer(f"org.apache.flink.api.java.tuple.Tuple{len(fields)}", _serializers(fields)),
        st.tuples(*(field.values for field in fields)),
        lambda value: b"".join(field.encode(part) for field, part in zip(fields, value, strict=True)),
        lambda value: _shown_fields(fields, value),
    )


def row_of(*fields: Kind, has_kind: bool) -> Kind:
    def encode(value: tuple[int, tuple[Any, ...]]) -> bytes:
        kind, parts = value
        nulls = [part is None for part in parts]
        mask = [bool(kind & 1), bool(kind & 2), *nulls] if has_kind else nulls
        mask += [False] * (-len(mask) % 8)
        packed = bytes(
            sum(bit << 7 - place for place, bit in enumerate(mask[at : at + 8]))
            for at in range(0, len(mask), 8)
        )
        return packed + b"".join(
            field.encode(part) for field, part in zip(fields, parts, strict=True) if part is not None
        )

    def show(value: tuple[int, tuple[Any, ...]]) -> dict[str, Any]:
        kind = {"__row_kind": ("+I", "-U", "+U", "-D")[value[0]]} if has_kind else {}
        return _shown_fields(fields, value[1]) | kind

    return Kind(
        structs.RowSerializer(_serializers(fields), has_kind),
        st.tuples(st.integers(0, 3), st.tuples(*(st.none() | field.values for field in fields))),
        encode,
        show,
    )


def either_of(left: Kind, right: Kind) -> Kind:
    return Kind(
        structs.EitherSerializer(left.serializer, right.serializer),
        st.one_of(st.tuples(st.just(1), left.values), st.tuples(st.just(0), right.values)),
        lambda value: bytes([value[0]]) + (left if value[0] else right).encode(value[1]),
        lambda value: {
            "left": left.show(value[1]) if value[0] else None,
            "right": None if value[0] else right.show(value[1]),
        },
    )


def crow_of(row: Kind) -> Kind:
    return Kind(
        structs.CRowSerializer(row.serializer),
        st.tuples(row.values, st.booleans()),
        lambda value: row.encode(value[0]) + bytes([value[1]]),
        lambda value: {"row": row.show(value[0]), "is_added": value[1]},
    )


def enum_of(*constants: str) -> Kind:
    return Kind(
        containers.EnumSerializer("Color", constants),
        st.sampled_from(constants),
        lambda value: struct.pack(">i", constants.index(value)),
    )


def ttl_of(inner: Kind) -> Kind:
    return Kind(
        operators.TtlSerializer(inner.serializer),
        st.tuples(_LONG[0], inner.values),
        lambda value: struct.pack(">q", value[0]) + inner.encode(value[1]),
        lambda value: {"value": inner.show(value[1]), "last_access": value[0]},
    )


def timer_of(key: Kind, namespace: Kind) -> Kind:
    return Kind(
        operators.TimerSerializer(key.serializer, namespace.serializer),
        st.tuples(_LONG[0], key.values, namespace.values),
        lambda value: (
            struct.pack(">Q", value[0] + (1 << 63)) + key.encode(value[1]) + namespace.encode(value[2])
        ),
        lambda value: {
            "timestamp": value[0],
            "key": key.show(value[1]),
            "namespace": namespace.show(value[2]),
        },
    )


def pojo_of(fields: dict[str, Kind], registered: dict[str, Kind], seen: dict[str, Kind]) -> Kind:
    """A POJO whose subclasses have one field more each: `registered` and merely `seen` ones, class → that field.

    A value is None, or the class ("" for its own) with the values of all fields.
    """
    added = registered | seen
    subclasses = {name: fields | {f"of_{name}": extra} for name, extra in added.items()}

    def serializer(name: str, parts: dict[str, Kind]) -> pojo.PojoSerializer:
        return pojo.PojoSerializer(
            name, tuple(pojo.PojoField(field, kind.serializer) for field, kind in parts.items())
        )

    def own(parts: dict[str, Kind], values: tuple[Any, ...]) -> bytes:
        return b"\x02" + b"".join(
            _flagged(kind, null=1)(value) for kind, value in zip(parts.values(), values, strict=True)
        )

    def encode(value: tuple[str, tuple[Any, ...]] | None) -> bytes:
        if value is None:
            return b"\x01"
        name, values = value
        if name in registered:
            return bytes([8, list(registered).index(name)]) + own(subclasses[name], values)
        return own(fields, values) if not name else b"\x04" + utf(name) + own(subclasses[name], values)

    def show(value: tuple[str, tuple[Any, ...]] | None) -> dict[str, Any] | None:
        if value is None:
            return None
        name, values = value
        shown: dict[str, Any] = dict.fromkeys([*fields, *(f"of_{other}" for other in added)])
        parts = subclasses[name] if name else fields
        shown |= {field: _shown(parts[field], part) for field, part in zip(parts, values, strict=True)}
        return shown | {"__class": name or None} if added else shown

    classes = {"": fields} | subclasses
    values = st.one_of(
        *(
            st.tuples(st.just(name), st.tuples(*(st.none() | kind.values for kind in parts.values())))
            for name, parts in classes.items()
        )
    )
    base = serializer("Base", fields)
    return Kind(
        pojo.PojoSerializer(
            base.pojo_class,
            base.fields,
            tuple((name, serializer(name, subclasses[name])) for name in registered),
            tuple((name, serializer(name, subclasses[name])) for name in seen),
        ),
        st.none() | values,
        encode,
        show,
        nullable=True,
    )


def _serializers(kinds: tuple[Kind, ...]) -> tuple[Serializer, ...]:
    return tuple(kind.serializer for kind in kinds)


def _flagged(kind: Kind, null: int) -> Callable[[Any], bytes]:
    """A flag byte, `null` for null, and the value."""
    return lambda value: bytes([null]) if value is None else bytes([1 - null]) + kind.encode(value)


def _shown(kind: Kind, value: Any) -> Any:
    return None if value is None else kind.show(value)


def _shown_elements(element: Kind) -> Callable[[list[Any]], list[Any]]:
    return lambda values: [_shown(element, value) for value in values]


def _shown_fields(fields: tuple[Kind, ...], values: tuple[Any, ...]) -> dict[str, Any]:
    pairs = zip(fields, values, strict=True)
    return {f"f{index}": _shown(field, value) for index, (field, value) in enumerate(pairs)}


LEAVES = [*PRIMITIVES, *TIMES, *WINDOWS, enum_of("RED", "GREEN", "BLÜ")]


def _composites(inner: st.SearchStrategy[Kind]) -> st.SearchStrategy[Kind]:
    named = st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3)
    return st.one_of(
        inner.map(list_of),
        inner.map(set_of),
        inner.map(array_of),
        st.builds(map_of, st.sampled_from(_KEYS), inner),
        st.builds(nullable, inner, st.integers(0, 9)),
        st.lists(inner, min_size=1, max_size=4).map(lambda fields: tuple_of(*fields)),
        st.builds(
            lambda fields, has_kind: row_of(*fields, has_kind=has_kind),
            st.lists(inner, min_size=1, max_size=9),
            st.booleans(),
        ),
        st.builds(either_of, inner, inner),
        st.lists(inner, min_size=1, max_size=3).map(lambda fields: crow_of(row_of(*fields, has_kind=False))),
        st.builds(
            pojo_of,
            named,
            st.dictionaries(st.sampled_from(["R1", "R2"]), inner, max_size=2),
            st.dictionaries(st.sampled_from(["S1", "Sü"]), inner, max_size=2),
        ),
        inner.map(ttl_of),
    )


_KEYS = [kind for kind in LEAVES if not kind.nullable]

KINDS: st.SearchStrategy[Kind] = st.recursive(st.sampled_from(LEAVES), _composites, max_leaves=6)
"""Any type of these families."""
