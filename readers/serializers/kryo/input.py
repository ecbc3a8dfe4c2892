"""Kryo's primitives; the versions 2.24 and 5 differ in the byte order of fixed numbers.

| item | bytes |
|---|---|
| count, ordinal, class | varint, 5 bytes at most |
| int, long | zigzag varint, 5 and 9 bytes at most; "positive" ones without the zigzag |
| short, char, float, double | fixed; big endian in 2.24, little endian in 5 |
| string | bit 7 clear: ASCII up to a byte that has it set; else length + 1 (6 bits, 7 a byte), units of 1–3 bytes |
| header of a collection (5) | 1 bit flag, count + 1 (6 bits, then 7 a byte) |

Source: `com.esotericsoftware.kryo.io.Input`.
"""

from __future__ import annotations

import struct
from typing import Any

from readers.cursor import Cursor
from readers.serializers.jsontree import MAX_NODES, clean_text

_MAX_ZIGZAG_BYTES = 9


class KryoInput(Cursor):
    """A cursor over Kryo's primitives."""

    __slots__ = ("order", "version")

    def __init__(self, data: memoryview, version: int, *, position: int, end: int) -> None:
        super().__init__(data, position=position, end=end)
        self.version = version
        self.order = ">" if version < 5 else "<"

    def fixed(self, code: str) -> Any:
        """Read one number of a `struct` code, in the byte order of the version."""
        layout = struct.Struct(self.order + code)
        return layout.unpack(self.read(layout.size))[0]

    def varlong(self) -> int:
        """Read an unsigned number of at most nine bytes, the last of which has eight bits."""
        value = 0
        for index in range(_MAX_ZIGZAG_BYTES):
            byte = self.u1()
            if index == _MAX_ZIGZAG_BYTES - 1:
                return value | byte << 7 * index
            value |= (byte & 0x7F) << 7 * index
            if byte < 0x80:
                break
        return value

    def positive_long(self) -> int:
        """Read a long that Kryo expects to be positive: a negative one takes nine bytes."""
        value = self.varlong()
        return value - (1 << 64) if value >> 63 else value

    def positive_int(self) -> int:
        """Read an int that Kryo expects to be positive: a negative one takes five bytes."""
        # The fifth byte holds more bits than an int has.
        value = self.varint("number") & 0xFFFFFFFF
        return value - (1 << 32) if value >> 31 else value

    def zigzag(self) -> int:
        """Read an int or long."""
        value = self.varlong()
        return value >> 1 ^ -(value & 1)

    def size(self, offset: int = 0) -> int:
        """Read a count of elements of at least a byte each, stored with `offset` added."""
        start = self.position
        count = self.varint("count") - offset
        if not 0 <= count <= self.remaining:
            raise self.corrupt(f"expected a count, found {count} with {self.remaining} bytes left", start)
        return count

    def flagged_size(self) -> tuple[bool, int]:
        """Read Kryo 5's header of a collection: a flag and the count."""
        start = self.position
        byte = self.u1()
        count = byte & 0x3F
        if byte & 0x40:
            count |= self.varint("count") << 6
        flag = byte >= 0x80
        # Flagged elements that are all null have no bytes: the bytes that are left do not limit their count.
        if count < 1 or count - 1 > (MAX_NODES if flag else self.remaining):
            raise self.corrupt(f"expected a count, found {count - 1} with {self.remaining} bytes left", start)
        return flag, count - 1

    def text(self) -> str | None:
        """Read a string; None for null."""
        start = self.position
        first = self.u1()
        if first < 0x80:
            return self._ascii(start)
        units = first & 0x3F
        if first & 0x40:
            units |= self.varint("length") << 6
        if units == 0:
            return None
        if units - 1 > self.remaining:
            raise self.corrupt(f"expected {units - 1} characters, found {self.remaining} bytes left", start)
        return clean_text("".join(chr(self._unit()) for _ in range(units - 1)))

    def name(self, what: str) -> str:
        """Read a string that is not null."""
        text = self.text()
        if text is None:
            raise self.corrupt(f"expected {what}, found null")
        return text

    def _ascii(self, start: int) -> str:
        while self.u1() < 0x80:
            pass
        raw = bytearray(self.data[start : self.position])
        # Bit 7 marks the last character.
        raw[-1] &= 0x7F
        return raw.decode("ascii")

    def _unit(self) -> int:
        first = self.u1()
        if first < 0x80:
            return first
        if first & 0xE0 == 0xC0:
            return (first & 0x1F) << 6 | self.u1() & 0x3F
        if first & 0xF0 == 0xE0:
            return (first & 0xF) << 12 | (self.u1() & 0x3F) << 6 | self.u1() & 0x3F
        raise self.corrupt(f"expected a character, found {first:#x}", self.position - 1)
