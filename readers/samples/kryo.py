"""Objects that Kryo wrote of classes that nothing describes: where they stand in a value, and what their fields may be.

| bytes | meaning |
|---|---|
| varint | 0 null, 1 a class by its name, else the id of a registered class + 2 |
| [varint, string] | the number of the name, and at its first use the name |
| varint | 1: the object follows; more: an earlier object again |
| … | its fields, in the order of their names, without names or types |

Flink's Kryo counts references. A field is a number (with a variable or a fixed length), a string behind a marker like the last varint
above, or an object of a class: its marker and its own fields. What Kryo writes for a list, a map, an array or an object of a class
that is not final begins with a small number (0 for null), which is where objects of one class may differ in shape.

Kryo: Kryo#writeClassAndObject, DefaultClassResolver#writeName, FieldSerializer#write, Output#writeString
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from readers.samples.layouts import ANYWHERE, Mode

_WIDTHS = (1, 2, 4, 8)
_INT_BYTES, _LONG_BYTES = 5, 9
_NULL, _NAME, _NEW = 0, 1, 1
_MOST_BACK = 16
# A marker and a text of some letters is a string, and nothing else.
_LEAST_TEXT = 4
_MOST_SPLITS, _MOST_ELEMENTS = 8, 64
_NO_TEXT, _ONE_LETTER = (b"\x80", b"\x81"), 0x82
_HIGH, _MORE, _LOW_6 = 0x80, 0x40, 0x3F
# Their serializers write texts and numbers in ways of their own.
_PLATFORM = ("java.", "javax.", "scala.", "kotlin.", "[")
_LISTS = frozenset(
    f"java.util.{name}" for name in ("ArrayList", "LinkedList", "HashSet", "LinkedHashSet", "Vector")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KryoObjects:
    """The objects of one class in a value.

    Attributes:
        class_bytes: the class, by its name or its id as it is written.
        splits: the fields of the objects; where an object ends may not be certain, then there are several ways to cut.
    """

    class_bytes: bytes
    splits: tuple[tuple[bytes, ...], ...]


def kryo_objects(data: bytes, type_class: str, *, is_kryo_2: bool) -> KryoObjects | None:
    """Return the objects of a class of the job in the bytes of a value: the value itself, or the elements of a list.

    None for null, for objects of several classes or of the platform's, and for what is no such value. An id counts only where the value
    is declared as a class of the job. Lists are cut as Kryo 2 writes them.
    """
    found = _class_at(data, 0)
    if found is None or data[found[1] : found[1] + 1] != bytes([_NEW]):
        return None
    class_bytes, position = found
    position += 1
    if class_bytes[1:].decode(errors="replace") not in _LISTS:
        is_named = class_bytes[0] == _NAME
        if _is_of_platform(class_bytes[1:].decode(errors="replace") if is_named else type_class):
            return None
        return KryoObjects(class_bytes=class_bytes, splits=((data[position:],),))
    counted = varint(data, position, _INT_BYTES)
    return _elements(data, *counted) if is_kryo_2 and counted is not None else None


def _elements(data: bytes, count: int, position: int) -> KryoObjects | None:
    """Return the elements of a list: all of one class, which is written anew before each."""
    found = _class_at(data, position)
    if not 1 <= count <= _MOST_ELEMENTS or found is None or data[found[1] : found[1] + 1] != bytes([_NEW]):
        return None
    class_bytes, end = found
    if class_bytes[0] != _NAME or _is_of_platform(class_bytes[1:].decode(errors="replace")):
        return None
    # The name comes once, and its number again.
    splits = list(
        islice(_cuts(data[end + 1 :], data[position : position + 2] + bytes([_NEW]), count), _MOST_SPLITS + 1)
    )
    if not splits or len(splits) > _MOST_SPLITS:
        return None
    return KryoObjects(class_bytes=class_bytes, splits=tuple(splits))


def _is_of_platform(class_name: str) -> bool:
    return class_name.startswith(_PLATFORM)


def _cuts(data: bytes, between: bytes, count: int) -> Iterator[tuple[bytes, ...]]:
    """Yield the ways to cut bytes into so many pieces with some bytes between them."""
    if count == 1:
        yield (data,)
        return
    start = data.find(between)
    # Behind the last place that leaves enough of them, no way is left.
    while start >= 0 and data.count(between, start) >= count - 1:
        rest = data[start + len(between) :]
        yield from ((data[:start], *pieces) for pieces in _cuts(rest, between, count - 1))
        start = data.find(between, start + 1)


def _class_at(data: bytes, position: int) -> tuple[bytes, int] | None:
    """Return a class as it is written, without the number of its name, and the position behind it; None for null."""
    found = varint(data, position, _INT_BYTES)
    if found is None or found[0] == _NULL:
        return None
    number, end = found
    if number != _NAME:
        return data[position:end], end
    counted = varint(data, end, _INT_BYTES)
    text = None if counted is None else _string_end(data, counted[1])
    if counted is None or text is None:
        return None
    name = data[counted[1] : text]
    # The last character of a plain text has the highest bit set.
    return bytes([_NAME]) + name[:-1] + bytes([name[-1] & ~_HIGH]), text


def field_steps(data: bytes, position: int, mode: Mode) -> dict[str, int]:
    """Return what may stand at a position of the fields of an object: see `layouts`."""
    if mode is Mode.TEXTS:
        return _steps_around_texts(data, position)
    steps = {str(width): position + width for width in _WIDTHS if position + width <= len(data)}
    for kind, most in (("int", _INT_BYTES), ("long", _LONG_BYTES)):
        found = varint(data, position, most, is_cut=mode is Mode.LENIENT)
        if found is not None:
            steps[kind] = found[1]
    marker = varint(data, position, _INT_BYTES)
    if marker is None:
        return steps
    value, end = marker
    if value == _NEW:
        text = _string_end(data, end)
        if text is not None:
            steps["string"] = text
    elif value <= _MOST_BACK:
        steps["string"] = end
    if mode is Mode.OPEN:
        # A class that writes itself may write texts without a marker; the end of another text is none.
        text = _string_end(data, position)
        is_inside = data[position - 1 : position].isalnum()
        if text is not None and (
            (not is_inside and _is_text(data[position:text], 1)) or data[position:text] in _NO_TEXT
        ):
            steps["text"] = text
        if value == _NULL:
            steps["any"] = end
        elif _may_vary(data, value, end):
            steps["any"] = ANYWHERE
    return steps


def _steps_around_texts(data: bytes, position: int) -> dict[str, int]:
    """Return what may stand at a position where a marker and a text of some letters are a string, and nothing else."""
    exact = field_steps(data, position, Mode.EXACT)
    start, end = _next_text(data, position)
    return {
        kind: behind
        for kind, behind in exact.items()
        if behind <= start or (position == start and kind == "string" and behind == end)
    }


def _next_text(data: bytes, position: int) -> tuple[int, int]:
    """Return where the next string of some letters begins and ends; the end of the data if there is none."""
    start = data.find(_NEW, position)
    while start >= 0:
        end = _string_end(data, start + 1)
        if end is not None and _is_text(data[start + 1 : end]):
            return start, end
        start = data.find(_NEW, start + 1)
    return len(data), len(data)


def _may_vary(data: bytes, value: int, end: int) -> bool:
    """Return whether a number may begin a list, a map, an array or an object, and not a text for certain."""
    is_class = end < len(data) and data[end] == _NEW and value < _HIGH
    if value > len(data) - end and not is_class:
        return False
    text = _string_end(data, end) if value == _NEW else None
    return text is None or not _is_text(data[end:text])


def _is_text(data: bytes, least: int = _LEAST_TEXT) -> bool:
    plain = data[:-1] + bytes([data[-1] & ~_HIGH])
    # A text of one letter has its length before it.
    if len(data) == 2 and data[0] == _ONE_LETTER:
        plain = data[1:]
    return len(plain) >= least and plain.isascii() and plain.decode().isprintable()


def varint(data: bytes, position: int, most: int, *, is_cut: bool = False) -> tuple[int, int] | None:
    """Return a number of variable length and the position behind it; None if it is longer than allowed, or the data end before.

    With `is_cut` a longer one ends after `most` bytes, as Kryo reads it.
    """
    value = 0
    for index, byte in enumerate(data[position : position + most]):
        value |= (byte & ~_HIGH) << (7 * index)
        if byte < _HIGH:
            return value, position + index + 1
    return (value, position + most) if is_cut and position + most <= len(data) else None


def _string_end(data: bytes, position: int) -> int | None:
    """Return the position behind a string; None if the data end before."""
    if position >= len(data):
        return None
    first = data[position]
    if first < _HIGH:
        return next((index + 1 for index in range(position, len(data)) if data[index] >= _HIGH), None)
    length, end = first & _LOW_6, position + 1
    if first & _MORE:
        rest = varint(data, end, _INT_BYTES - 1)
        if rest is None:
            return None
        length, end = length | rest[0] << 6, rest[1]
    for _ in range(min(length - 1, len(data))):
        if end >= len(data):
            return None
        end += 1 if data[end] < _HIGH else 2 if data[end] >> 5 == 0b110 else 3
    return end if end <= len(data) else None
