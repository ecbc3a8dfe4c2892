"""A bounds-checked cursor over big-endian `java.io.DataOutput` bytes, for headers and metadata.

The values of state entries go through `readers.decode` instead. Every length is compared with the bytes that are left
before anything is allocated.

| method | bytes | Java |
|---|---|---|
| `u1 i1 u2 i2 i4 i8 boolean` | 1 1 2 2 4 8 1 | `DataInput#readByte` … |
| `utf` | u2 length + modified UTF-8 | `DataInput#readUTF` |
| `blob` | i4 length + bytes | `BytePrimitiveArraySerializer` |
| `string` | varint (units + 1) + varint UTF-16 units | `StringValue#readString` |
"""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from readers.errors import CorruptDataError, hex_window

_I2 = struct.Struct(">h")
_U2 = struct.Struct(">H")
_I4 = struct.Struct(">i")
_I8 = struct.Struct(">q")
_MAX_VARINT_BYTES = 5  # of an int32


class Cursor:
    """Reads from `data[position:end]`, in order.

    Args:
        data: the whole buffer; positions in errors are offsets into it.
        path: the file of the buffer, for errors.
        position: the first byte to read.
        end: the position behind the last byte; the end of `data` if not given.
    """

    __slots__ = ("data", "end", "path", "position")

    def __init__(
        self,
        data: bytes | memoryview | NDArray[np.uint8],
        *,
        path: str | None = None,
        position: int = 0,
        end: int | None = None,
    ) -> None:
        self.data = memoryview(data)
        self.path = path
        self.position = position
        # An end behind the buffer comes from a handle that lies: reads then fail at the end of the bytes.
        self.end = len(self.data) if end is None else min(end, len(self.data))

    @property
    def remaining(self) -> int:
        """Bytes left."""
        return self.end - self.position

    def corrupt(self, message: str, position: int | None = None) -> CorruptDataError:
        """Return a `CorruptDataError` at `position` (default: here) with a hex window: `raise cursor.corrupt(…)`."""
        at = self.position if position is None else position
        return CorruptDataError(f"{message}; bytes {hex_window(self.data, at)}", path=self.path, position=at)

    def read(self, length: int, what: str = "data") -> memoryview:
        """Return the next `length` bytes, without a copy.

        Raises:
            CorruptDataError: fewer are left, or `length` is negative.
        """
        start = self.position
        if length < 0 or length > self.end - start:
            raise self.corrupt(f"expected {length} bytes of {what}, found {self.remaining} left")
        self.position = start + length
        return self.data[start : start + length]

    def _skip(self, length: int) -> int:
        """Move behind the next `length` bytes, and return where they begin."""
        start = self.position
        if length > self.end - start:
            raise self.corrupt(f"expected {length} bytes of data, found {self.remaining} left")
        self.position = start + length
        return start

    def sub(self, length: int, what: str = "frame") -> Cursor:
        """Return a cursor over the next `length` bytes (a frame); this one moves behind them."""
        self.read(length, what)
        # Over the whole buffer, not over the slice: positions in errors stay offsets into the file.
        return Cursor(self.data, path=self.path, position=self.position - length, end=self.position)

    # `_metadata` of a job has thousands of numbers: none of them is worth a view of its own.
    def u1(self) -> int:
        return self.data[self._skip(1)]

    def i1(self) -> int:
        value = self.read(1)[0]
        return value - 256 if value > 127 else value

    def boolean(self) -> bool:
        return self.data[self._skip(1)] != 0

    def u2(self) -> int:
        value: int = _U2.unpack_from(self.data, self._skip(2))[0]
        return value

    def i2(self) -> int:
        value: int = _I2.unpack_from(self.data, self._skip(2))[0]
        return value

    def i4(self) -> int:
        value: int = _I4.unpack_from(self.data, self._skip(4))[0]
        return value

    def i8(self) -> int:
        value: int = _I8.unpack_from(self.data, self._skip(8))[0]
        return value

    def count(self, what: str, minimum_bytes: int = 1) -> int:
        """Read an i4 element count and check it: there must be `minimum_bytes` left for each element.

        Raises:
            CorruptDataError: it is negative, or too large for the bytes that are left.
        """
        start = self.position
        count = self.i4()
        if count < 0 or count * minimum_bytes > self.remaining:
            raise self.corrupt(
                f"expected a count of {what}, found {count} with {self.remaining} bytes left", start
            )
        return count

    def blob(self, what: str = "bytes") -> bytes:
        """Read an i4 length and that many bytes."""
        return bytes(self.read(self.i4(), what))

    def utf(self, what: str = "text") -> str:
        """Read what `writeUTF` writes: u2 byte length, modified UTF-8 (U+0000 as C0 80, surrogates as three bytes each).

        Raises:
            CorruptDataError: not modified UTF-8.
        """
        length = self.u2()
        return self.modified_utf8(length, what)

    def modified_utf8(self, length: int, what: str = "text") -> str:
        """Read `length` bytes of modified UTF-8."""
        start = self.position
        view = self.read(length, what)
        try:
            return str(view, "ascii")
        except UnicodeDecodeError:
            raw = bytes(view)
        try:
            # Pairs of surrogates are joined through UTF-16; lone ones, which no UTF-8 text can hold, are replaced.
            units = raw.replace(b"\xc0\x80", b"\x00").decode("utf-8", "surrogatepass")
            return units.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        except UnicodeDecodeError as error:
            raise self.corrupt(f"expected modified UTF-8 as {what}: {error.reason}", start) from error

    def varint(self, what: str = "length") -> int:
        """Read an unsigned LEB128 of at most five bytes."""
        value = 0
        for shift in range(0, 7 * _MAX_VARINT_BYTES, 7):
            byte = self.read(1, what)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise self.corrupt(f"expected a varint {what} of at most {_MAX_VARINT_BYTES} bytes")

    def string(self, what: str = "string") -> str | None:
        """Read what `StringValue#writeString` writes; None for null."""
        units = self.varint(what)
        if units == 0:
            return None
        # A unit takes at least a byte.
        if units - 1 > self.remaining:
            raise self.corrupt(
                f"expected {units - 1} characters of {what}, found {self.remaining} bytes left"
            )
        codes = [self.varint(what) & 0xFFFF for _ in range(units - 1)]
        return struct.pack(f"<{len(codes)}H", *codes).decode("utf-16-le", "replace")
