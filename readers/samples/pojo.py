"""Objects of subclasses of POJOs that no snapshot describes, and what their fields may be.

| bytes | meaning |
|---|---|
| u1 | 1 null, 2 the class itself, 4 a subclass by its name, 8 a registered subclass |
| u2 length, bytes | the name of the subclass |
| … | the fields of the subclass, written as an object of its own: the byte 2, then for each field in the order of names: bool null, value |

Flink: PojoSerializer#serialize
"""

from __future__ import annotations

from readers.cursor import Cursor
from readers.errors import ReaderError
from readers.samples.layouts import ANYWHERE, Mode

_SUBCLASS, _TAGGED = 4, 8
_NAME_START = 3
_FIELDS, _NEW = b"\x02", b"\x01"
_NOT_NULL, _NULL = 0, 1
_COUNT_BYTES = 4
# Fixed lengths of Flink's serializers: numbers, dates, instants, ids.
_WIDTHS = (1, 2, 4, 6, 8, 12, 16)
_KINDS = (*map(str, _WIDTHS), "string")


def subclass_object(data: bytes) -> tuple[str, bytes] | None:
    """Return the name of a subclass and the bytes of its object; None if the value is of the class itself, or null."""
    if not data or data[0] != _SUBCLASS:
        return None
    end = _NAME_START + int.from_bytes(data[1:_NAME_START], "big")
    if end > len(data):
        return None
    # Names of classes are seldom more than ASCII, where Java's UTF is the same.
    return data[_NAME_START:end].decode(errors="replace"), data[end:]


def object_steps(data: bytes, position: int, mode: Mode) -> dict[str, int]:
    """Return what may stand at a position of an object of a subclass: see `layouts`."""
    if position == 0:
        return {"flags": 1}
    flag, start = data[position], position + 1
    # Java takes each byte but 0 for true.
    if flag == _NULL or (mode is Mode.LENIENT and flag != _NOT_NULL):
        return dict.fromkeys((*_KINDS, "any") if mode is Mode.OPEN else _KINDS, start)
    if flag != _NOT_NULL:
        return {}
    steps = {str(width): start + width for width in _WIDTHS if start + width <= len(data)}
    text = string_end(data, start)
    if text is not None:
        steps["string"] = text
    if mode is Mode.OPEN:
        behind = start + _COUNT_BYTES
        count = int.from_bytes(data[start:behind], "big") if behind <= len(data) else None
        if count == 0:
            steps["any"] = behind
        if (count and count <= len(data) - behind) or _is_open(data, start):
            steps["any"] = ANYWHERE
    return steps


def _is_open(data: bytes, start: int) -> bool:
    """Return whether an object with fields may stand here, in whose place others of the class may have null: a POJO, or one of Kryo."""
    first, second = data[start : start + 1], data[start + 1 : start + 2]
    if first == _FIELDS or (first > b"\x01" and second == _NEW):
        return True
    if first == bytes([_TAGGED]):
        return data[start + 2 : start + 3] == _FIELDS
    named = subclass_object(data[start:])
    return named is not None and named[1][:1] == _FIELDS and named[0].isprintable()


def string_end(data: bytes, start: int) -> int | None:
    """Return the position behind a string; None if the data end before."""
    cursor = Cursor(data, position=start)
    try:
        cursor.string()
    except ReaderError:
        return None
    return cursor.position
