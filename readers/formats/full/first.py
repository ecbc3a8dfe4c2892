"""The first entries of a state in the full layout: key groups are walked as far as some kilobytes reach.

An entry that the limit cuts is left out. See `full/layout.py` for the bytes.
"""

from __future__ import annotations

from readers.errors import CorruptDataError
from readers.formats.full.layout import END_OF_KEY_GROUP, LENGTHS_BYTES, MARK_BYTES, META_FOLLOWS

_LENGTH_BYTES = 4


def first_entries(data: bytes, wanted: int, path: str) -> tuple[list[tuple[bytes, bytes]], bool]:
    """Return keys and values of a state at the start of a key group, and whether the end of the key group was reached.

    Args:
        data: the key group, or the start of it.
        wanted: the id of the state.
        path: the file, for errors.

    Raises:
        CorruptDataError: a length is negative.
    """
    entries: list[tuple[bytes, bytes]] = []
    state, position = int.from_bytes(data[:MARK_BYTES], "big"), MARK_BYTES
    while state != END_OF_KEY_GROUP:
        bounds = _bounds(data, position, path)
        if bounds is None:
            return entries, False
        key_end, value_end = bounds
        key = data[position + _LENGTH_BYTES : key_end]
        if state == wanted:
            # The flag is no part of the key.
            plain = bytes([key[0] & ~META_FOLLOWS]) + key[1:]
            entries.append((plain, data[key_end + _LENGTH_BYTES : value_end]))
        position = value_end
        if key[0] & META_FOLLOWS:
            if position + MARK_BYTES > len(data):
                return entries, False
            state = int.from_bytes(data[position : position + MARK_BYTES], "big")
            position += MARK_BYTES
    return entries, True


def _bounds(data: bytes, position: int, path: str) -> tuple[int, int] | None:
    """Return where the key and the value of an entry end; None if the data end before."""
    if position + LENGTHS_BYTES > len(data):
        return None
    key_end = position + _LENGTH_BYTES + _length(data, position, 1, path)
    if key_end + _LENGTH_BYTES > len(data):
        return None
    value_end = key_end + _LENGTH_BYTES + _length(data, key_end, 0, path)
    return None if value_end > len(data) else (key_end, value_end)


def _length(data: bytes, position: int, least: int, path: str) -> int:
    length = int.from_bytes(data[position : position + _LENGTH_BYTES], "big", signed=True)
    if length < least:
        raise CorruptDataError(
            f"expected an entry of a key group, found a length of {length}", path=path, position=position
        )
    return length
