"""Big-endian bytes as `java.io.DataOutput` writes them: the opposite of `readers.cursor`.

| method | bytes | Java |
|---|---|---|
| `u1 u2 i4 i8 boolean` | 1 2 4 8 1 | `DataOutput#writeByte` … |
| `utf` | u2 length + modified UTF-8 | `DataOutput#writeUTF` |
| `blob` | i4 length + bytes | `BytePrimitiveArraySerializer` |
"""

from __future__ import annotations

import struct

import numpy as np

from readers.metadata import Offsets
from writers.errors import UnwritableError

_MOST_UTF_BYTES = 0xFFFF


class DataOutput:
    """A growing buffer; every method appends to it.

    Attributes:
        data: what was written.
    """

    __slots__ = ("data",)

    def __init__(self) -> None:
        self.data = bytearray()

    def raw(self, data: bytes | bytearray | memoryview) -> None:
        """Append bytes as they are."""
        self.data += data

    def u1(self, value: int) -> None:
        self.data.append(value)

    def boolean(self, value: bool) -> None:
        self.data.append(1 if value else 0)

    def u2(self, value: int) -> None:
        self.data += struct.pack(">H", value)

    def i4(self, value: int) -> None:
        self.data += struct.pack(">i", value)

    def i8(self, value: int) -> None:
        self.data += struct.pack(">q", value)

    def offsets(self, values: Offsets) -> None:
        """Append each number as an i8, without their count."""
        self.data += np.asarray(values, dtype=">i8").tobytes()

    def blob(self, data: bytes | bytearray) -> None:
        """Append an i4 length and the bytes."""
        self.i4(len(data))
        self.data += data

    def utf(self, text: str) -> None:
        """Append what `writeUTF` writes.

        Raises:
            UnwritableError: the text takes more bytes than its two bytes of length can say.
        """
        encoded = modified_utf8(text)
        if len(encoded) > _MOST_UTF_BYTES:
            raise UnwritableError(
                f"expected a text of at most {_MOST_UTF_BYTES} bytes, found {len(encoded)}: {text[:40]!r}…"
            )
        self.u2(len(encoded))
        self.data += encoded


def modified_utf8(text: str) -> bytes:
    """Return Java's modified UTF-8: U+0000 takes two bytes, and each half of a surrogate pair three."""
    if text.isascii() and "\0" not in text:
        return text.encode("ascii")
    # Each UTF-16 unit becomes a character of its own.
    units = text.encode("utf-16-be", "surrogatepass")
    halves = "".join(map(chr, struct.unpack(f">{len(units) // 2}H", units)))
    return halves.encode("utf-8", "surrogatepass").replace(b"\x00", b"\xc0\x80")
