"""SQL's VARIANT outside of rows (since 2.1): `org.apache.flink.api.common.typeutils.base.VariantSerializer`.

| bytes | |
|---|---|
| i4 length of the value, i4 length of the metadata, value, metadata | |
| metadata: u1 | version 1; bits 6–7: size of its numbers, less one |
| n, (n + 1) × offset, texts | the names of fields |
| value: u1, bits 0–1 | 0 primitive, 1 short text, 2 object, 3 array |
| primitive: bits 2–7 kind | see `_PRIMITIVES` |
| short text: bits 2–7 length | UTF-8 |
| object: bits 2–3, 4–5, 6 | sizes of offsets and ids, less one; n has four bytes |
| n, n × id, (n + 1) × offset, values | |
| array: bits 2–3, 4 | size of offsets, less one; n has four bytes |
| n, (n + 1) × offset, values | |

All numbers are little-endian. The column is JSON text. Source: Apache Parquet's Variant Binary Encoding, Flink: BinaryVariant.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Context, Decimal
from itertools import pairwise
from typing import Any

from readers.cursor import Cursor
from readers.serializers.base import SnapshotBody
from readers.serializers.jsontree import MAX_NODES, json_bytes, json_float
from readers.serializers.primitives import BASE, BasicSerializer, simple
from readers.serializers.structs import JsonLayout

_PRIMITIVE, _SHORT_TEXT, _OBJECT, _ARRAY = range(4)
_MAX_DEPTH = 100  # of Python calls, against hostile values
_EPOCH = date(1970, 1, 1)
_EXACT = Context(prec=80)  # the default of 28 digits would round decimals of 38


def _variant(cursor: Cursor) -> Any:
    sizes = [cursor.i4(), cursor.i4()]
    value, metadata = (cursor.sub(size, "variant") for size in sizes)
    return _Variant(value, metadata).read()


class VariantSerializer(BasicSerializer, package=BASE):
    name, layout = "Variant", JsonLayout(_variant)


@dataclass(slots=True)
class _Region:
    """A range of the bytes of a variant: nothing outside of it is read."""

    cursor: Cursor

    def at(self, offset: int) -> _Region:
        """Return the region that begins `offset` bytes further on."""
        cursor = self.cursor
        if offset > cursor.remaining:
            raise cursor.corrupt(f"expected an offset up to {cursor.remaining}, found {offset}")
        return _Region(
            Cursor(cursor.data, path=cursor.path, position=cursor.position + offset, end=cursor.end)
        )

    def number(self, size: int) -> int:
        """Read an unsigned number."""
        return int.from_bytes(self.cursor.read(size), "little")

    def signed(self, size: int) -> int:
        """Read a signed number."""
        return int.from_bytes(self.cursor.read(size), "little", signed=True)

    def numbers(self, count: int, size: int) -> list[int]:
        """Read `count` unsigned numbers."""
        if count * size > self.cursor.remaining:
            raise self.cursor.corrupt(
                f"expected {count} numbers of {size} bytes, found {self.cursor.remaining}"
            )
        return [self.number(size) for _ in range(count)]

    def text(self, length: int) -> str:
        """Read `length` bytes of UTF-8."""
        return bytes(self.cursor.read(length)).decode("utf-8", "replace")


class _Variant:
    """One value with the names of its fields."""

    def __init__(self, value: Cursor, metadata: Cursor) -> None:
        self._value = _Region(value)
        self._names = _names(_Region(metadata)) if metadata.remaining else []
        self._nodes = 0

    def read(self) -> Any:
        """Return the JSON tree of the value."""
        return self._read(self._value, 0)

    def _read(self, region: _Region, depth: int) -> Any:
        # Offsets may lead to the same bytes again and again, so values are counted.
        self._nodes += 1
        if depth > _MAX_DEPTH or self._nodes > MAX_NODES:
            raise region.cursor.corrupt(f"expected a variant of at most {_MAX_DEPTH} levels, found more")
        header = region.cursor.u1()
        kind, detail = header & 3, header >> 2
        if kind == _SHORT_TEXT:
            return region.text(detail)
        if kind == _PRIMITIVE:
            read = _PRIMITIVES.get(detail)
            if read is None:
                raise region.cursor.corrupt(f"expected a kind of primitive, found {detail}")
            return read(region)
        return self._object(region, detail, depth) if kind == _OBJECT else self._array(region, detail, depth)

    def _object(self, region: _Region, detail: int, depth: int) -> dict[str, Any]:
        offset_size, id_size = (detail & 3) + 1, (detail >> 2 & 3) + 1
        count = region.number(4 if detail >> 4 & 1 else 1)
        ids = region.numbers(count, id_size)
        offsets = region.numbers(count + 1, offset_size)
        members = {}
        for number, offset in zip(ids, offsets[:-1], strict=True):
            if number >= len(self._names):
                raise region.cursor.corrupt(f"expected a name below {len(self._names)}, found {number}")
            members[self._names[number]] = self._read(region.at(offset), depth + 1)
        return members

    def _array(self, region: _Region, detail: int, depth: int) -> list[Any]:
        count = region.number(4 if detail >> 2 & 1 else 1)
        offsets = region.numbers(count + 1, (detail & 3) + 1)
        return [self._read(region.at(offset), depth + 1) for offset in offsets[:-1]]


def _names(region: _Region) -> list[str]:
    header = region.cursor.u1()
    if header & 15 != 1:
        raise region.cursor.corrupt(f"expected metadata of a variant of version 1, found {header & 15}")
    size = (header >> 6) + 1
    offsets = region.numbers(region.number(size) + 1, size)
    names = []
    for start, end in pairwise(offsets):
        if start > end:
            raise region.cursor.corrupt(f"expected ascending offsets, found {end} behind {start}")
        names.append(region.at(start).text(end - start))
    return names


def _float(layout: str) -> Callable[[_Region], float | str]:
    return lambda region: json_float(struct.unpack(layout, region.cursor.read(struct.calcsize(layout)))[0])


def _decimal(size: int) -> Callable[[_Region], str]:
    def read(region: _Region) -> str:
        scale = region.number(1)
        return format(Decimal(region.signed(size)).scaleb(-scale, _EXACT), "f")

    return read


def _date(region: _Region) -> str:
    days = region.signed(4)
    try:
        return (_EPOCH + timedelta(days=days)).isoformat()
    except OverflowError:
        # Python's dates end with the year 9999.
        return f"{days} days since 1970"


def _timestamp(suffix: str) -> Callable[[_Region], str]:
    def read(region: _Region) -> str:
        micros = region.signed(8)
        seconds, rest = divmod(micros, 1_000_000)
        days, second = divmod(seconds, 86_400)
        try:
            day = _EPOCH + timedelta(days=days)
        except OverflowError:
            return f"{micros} microseconds since 1970{suffix}"
        return f"{day}T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}.{rest:06}{suffix}"

    return read


_PRIMITIVES: dict[int, Callable[[_Region], Any]] = {
    0: lambda region: None,
    1: lambda region: True,
    2: lambda region: False,
    3: lambda region: region.signed(1),
    4: lambda region: region.signed(2),
    5: lambda region: region.signed(4),
    6: lambda region: region.signed(8),
    7: _float("<d"),
    8: _decimal(4),
    9: _decimal(8),
    10: _decimal(16),
    11: _date,
    12: _timestamp("Z"),
    13: _timestamp(""),
    14: _float("<f"),
    15: lambda region: json_bytes(bytes(region.cursor.read(region.number(4)))),
    16: lambda region: region.text(region.number(4)),
}

SNAPSHOTS: dict[str, SnapshotBody] = dict([simple(VariantSerializer)])
