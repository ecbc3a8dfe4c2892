"""Kryo 5's primitives, as `com.esotericsoftware.kryo.io.Output` writes them; `readers.serializers.kryo.input` reads them."""

from __future__ import annotations

import struct
import sys
from array import array

_MOST_ASCII = 32  # characters; longer texts are units with a count before them
_ZIGZAG_BYTES = 9


class KryoOutput:
    """Bytes that grow.

    Attributes:
        data: what was written.
    """

    __slots__ = ("data",)

    def __init__(self) -> None:
        self.data = bytearray()

    def u1(self, value: int) -> None:
        """Write a byte."""
        self.data.append(value & 0xFF)

    def fixed(self, code: str, value: float) -> None:
        """Write one number of a `struct` code."""
        self.data += struct.pack(f"<{code}", value)

    def varint(self, value: int) -> None:
        """Write an int or a long that is expected to be positive: a negative int takes five bytes, see `positive_long`."""
        value &= 0xFFFFFFFF
        while value >= 0x80:
            self.data.append(value & 0x7F | 0x80)
            value >>= 7
        self.data.append(value)

    def positive_long(self, value: int) -> None:
        """Write a long that is expected to be positive, in at most nine bytes, the last of which has eight bits."""
        value &= (1 << 64) - 1
        for _ in range(_ZIGZAG_BYTES - 1):
            if value < 0x80:
                break
            self.data.append(value & 0x7F | 0x80)
            value >>= 7
        self.data.append(value)

    def zigzag(self, value: int) -> None:
        """Write an int or a long."""
        self.positive_long(value << 1 ^ value >> 63)

    def flagged(self, flag: bool, value: int) -> None:
        """Write a flag and a positive number."""
        first = value & 0x3F | (0x80 if flag else 0)
        if value <= 0x3F:
            self.data.append(first)
            return
        self.data.append(first | 0x40)
        self.varint(value >> 6)

    def text(self, value: str | None) -> None:
        """Write a string."""
        if value is None:
            self.u1(0x80)
        elif not value:
            self.u1(0x81)
        elif 1 < len(value) <= _MOST_ASCII and value.isascii():
            self.ascii_text(value)
        else:
            units = array("H", value.encode("utf-16-le" if sys.byteorder == "little" else "utf-16-be"))
            self.flagged(True, len(units) + 1)
            for unit in units:
                self._unit(unit)

    def ascii_text(self, value: str) -> None:
        """Write a string of ASCII characters: longer ones also mark their end, and have no count."""
        if len(value) < 2 or not value.isascii():
            self.text(value)
            return
        self.data += value.encode("ascii")
        self.data[-1] |= 0x80

    def _unit(self, unit: int) -> None:
        if unit < 0x80:
            self.data.append(unit)
        elif unit < 0x800:
            self.data += bytes((0xC0 | unit >> 6, 0x80 | unit & 0x3F))
        else:
            self.data += bytes((0xE0 | unit >> 12, 0x80 | unit >> 6 & 0x3F, 0x80 | unit & 0x3F))
