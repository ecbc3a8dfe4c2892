"""What the first stored values of a state show that no snapshot describes: fields of classes, subclasses, stages of patterns.

In: some kilobytes of a state. Out: whether the objects of two savepoints can have been written by one and the same class.

Objects of classes that no snapshot describes are fields one after the other. What a field may be is a step: from a position in the
bytes to the one behind the field. A layout is a list of steps, and fits objects if it leads from the start of each to its very end. All
layouts are tried at once: a place is a position in each object, and a step leads from one place to another.

What a class wrote, it reads: if no layout fits the objects of two savepoints, two different classes wrote them. Parts that need not be
alike in objects of one class, such as lists, are passed over where they may stand, so that they never count as a difference.

Flink ignores bytes that are left over. So a class fails to read objects of another one if each layout that fits its own objects
leads over the end of one of the others.

| object of a subclass of a POJO | meaning |
|---|---|
| u1 | 1 null, 2 the class itself, 4 a subclass by its name, 8 a registered subclass |
| u2 length, bytes | the name of the subclass |
| … | the fields of the subclass, written as an object of its own: the byte 2, then for each field in the order of names: bool null, value |

| object that Kryo wrote | meaning |
|---|---|
| varint | 0 null, 1 a class by its name, else the id of a registered class + 2 |
| [varint, string] | the number of the name, and at its first use the name |
| varint | 1: the object follows; more: an earlier object again |
| … | its fields, in the order of their names, without names or types |

Flink's Kryo counts references. A field is a number (with a variable or a fixed length), a string behind a marker like the last varint
above, or an object of a class: its marker and its own fields. What Kryo writes for a list, a map, an array or an object of a class
that is not final begins with a small number (0 for null), which is where objects of one class may differ in shape.

Flink: PojoSerializer#serialize. Kryo: Kryo#writeClassAndObject, DefaultClassResolver#writeName, FieldSerializer#write, Output#writeString

The stages of a CEP pattern are known as far as partial matches name them. The bytes are those of `serializers/cep.py`.

Each key has a computation that waits in the first stage, always; the others wait in later ones.

Flink: NFA#doProcess ("Handle the Start State, as it always have to remain"), NFAStateSerializer#serializeComputationStates
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import islice, product

from readers.cursor import Cursor
from readers.errors import ReaderError
from readers.formats.entry import Entry, StateKind
from readers.formats.source import Source, StateName
from readers.serializers.base import Serializer
from readers.serializers.cep import NFAStateSerializer
from readers.serializers.kryo.serializer import KryoSerializer
from readers.serializers.operators import TtlSerializer
from readers.serializers.pojo import PojoSerializer
from readers.serializers.primitives import StringSerializer

# In place of a position: a part of any length may stand here, and what is behind it is not known.
ANYWHERE = -1
_MOST_PLACES = 4_000
# One object alone fits too many layouts that its class does not have.
_LEAST_OBJECTS, _MOST_OBJECTS = 2, 5
_MOST_BYTES = 256


class Mode(Enum):
    """How bytes are tried."""

    EXACT = auto()  # as a writer of Flink wrote them
    OPEN = auto()  # the same, and parts of any length are passed over
    TEXTS = auto()  # as a writer of Flink wrote them, and what is a text beyond doubt is no number
    LENIENT = auto()  # as Flink reads them, whoever wrote them


Steps = Callable[[bytes, int, Mode], dict[str, int]]
"""The steps that are possible at a position of an object: the kind of field, and the position behind it."""


class _TooManyPlacesError(Exception):
    """There are more places than are tried."""


@dataclass(frozen=True, slots=True)
class _Object:
    data: bytes
    mode: Mode

    def is_read(self, position: int) -> bool:
        """Return whether nothing is left of it, as far as that matters."""
        return self.mode is Mode.LENIENT or position in (ANYWHERE, len(self.data))


def cannot_read(new: Sequence[bytes], old: Sequence[bytes], steps: Steps) -> bool:
    """Return whether the class that wrote some objects surely is another one than that of other objects, and fails to read these.

    Args:
        new: objects of the class that reads.
        old: objects that are to be read.
        steps: what fields may be.
    """
    new, old = _chosen(new), _chosen(old)
    if min(len(new), len(old)) < _LEAST_OBJECTS:
        return False
    try:
        return (
            _some_fits(_objects(new, Mode.EXACT), steps)
            and _some_fits(_objects(old, Mode.EXACT), steps)
            and not _some_fits(_objects([*new, *old], Mode.OPEN), steps)
            and not _some_fits(_objects(new, Mode.TEXTS) + _objects(old, Mode.LENIENT), steps)
        )
    except _TooManyPlacesError:
        return False


def is_explained(objects: Sequence[bytes], steps: Steps) -> bool:
    """Return whether a layout fits these objects."""
    try:
        return _some_fits(_objects(_chosen(objects), Mode.EXACT), steps)
    except _TooManyPlacesError:
        return False


def _chosen(objects: Sequence[bytes]) -> list[bytes]:
    """Return some objects that differ."""
    return [each for each in dict.fromkeys(objects) if len(each) <= _MOST_BYTES][:_MOST_OBJECTS]


def _objects(data: Sequence[bytes], mode: Mode) -> list[_Object]:
    return [_Object(each, mode) for each in data]


def _some_fits(objects: list[_Object], steps: Steps) -> bool:
    """Return whether a layout leads to the end of all objects."""
    known: list[dict[int, dict[str, int]]] = [{} for _ in objects]
    start = (0,) * len(objects)
    seen, left = {start}, [start]
    while left:
        place = left.pop()
        if all(each.is_read(position) for each, position in zip(objects, place, strict=True)):
            return True
        moves = []
        for each, position, own in zip(objects, place, known, strict=True):
            if position != ANYWHERE and position not in own:
                own[position] = steps(each.data, position, each.mode) if position < len(each.data) else {}
            moves.append(None if position == ANYWHERE else own[position])
        bound = [each for each in moves if each is not None]
        for kind in set(bound[0]).intersection(*bound[1:]):
            found = tuple(ANYWHERE if each is None else each[kind] for each in moves)
            if found not in seen:
                if len(seen) >= _MOST_PLACES:
                    raise _TooManyPlacesError
                seen.add(found)
                left.append(found)
    return False


_SUBCLASS, _TAGGED = 4, 8
_NAME_START = 3
_FIELDS, _NEW_OBJECT = b"\x02", b"\x01"
_NOT_NULL, _IS_NULL = 0, 1
_COUNT_BYTES = 4
# Fixed lengths of Flink's serializers: numbers, dates, instants, ids.
_LENGTHS = (1, 2, 4, 6, 8, 12, 16)
_KINDS = (*map(str, _LENGTHS), "string")


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
    if flag == _IS_NULL or (mode is Mode.LENIENT and flag != _NOT_NULL):
        return dict.fromkeys((*_KINDS, "any") if mode is Mode.OPEN else _KINDS, start)
    if flag != _NOT_NULL:
        return {}
    steps = {str(width): start + width for width in _LENGTHS if start + width <= len(data)}
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
    if first == _FIELDS or (first > b"\x01" and second == _NEW_OBJECT):
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


_EVENT_BYTES, _I8_BYTES, _I4_BYTES = 12, 8, 4
_LEAST_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    """Names of stages.

    Attributes:
        first: those in which a match begins.
        later: those that wait for events behind the first one.
    """

    first: frozenset[str]
    later: frozenset[str]


def stages_of(values: Iterable[bytes], *, has_previous_timestamps: bool) -> Stages:
    """Return the stages that stored states of automata name; values that cannot be read name none."""
    first: set[str] = set()
    later: set[str] = set()
    for value in values:
        try:
            cursor = Cursor(value)
            for _ in range(2):
                for _ in range(cursor.count("computations", _LEAST_BYTES)):
                    name, is_first = _computation(cursor, has_previous_timestamps)
                    (first if is_first else later).add(name)
        except ReaderError:
            continue
    return Stages(first=frozenset(first), later=frozenset(later))


def _computation(cursor: Cursor, has_previous_timestamps: bool) -> tuple[str, bool]:
    """Read a computation; return its stage, and whether no event came before it."""
    name = cursor.string("stage") or ""
    is_first = not cursor.boolean()
    if not is_first:
        cursor.read(_EVENT_BYTES, "event")
        cursor.string("stage")
    cursor.read(cursor.count("version", _I4_BYTES) * _I4_BYTES, "version")
    cursor.read(_I8_BYTES * (1 + has_previous_timestamps), "timestamps")
    if cursor.boolean():
        cursor.read(_EVENT_BYTES, "event")
    return name, is_first


_PLAIN = frozenset({StateKind.VALUE, StateKind.REDUCING, StateKind.AGGREGATING})
_ELEMENTS = frozenset({StateKind.OPERATOR_LIST, StateKind.UNION_LIST})
_TIMESTAMP_BYTES = 8  # behind a value with a time to live
_OF_THE_CLASS = 2
_KRYO_2 = 2
_BY_NAME = 1
# Where the ends of objects are not certain, all ways to cut some of them are tried.
_MOST_CUT, _MOST_WAYS = 2, 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueSample:
    """The first values of a state.

    Attributes:
        value: their serializer, without the time to live.
        values: the bytes of each.
        is_whole: True if these are all values of the state.
        bytes_read: how many bytes of state files were looked at.
    """

    value: Serializer
    values: tuple[bytes, ...]
    is_whole: bool
    bytes_read: int

    def unreadable_class(self, reader: ValueSample) -> str | None:
        """Return a class whose objects Kryo wrote, and that the class of the same name in another sample fails to read."""
        before, after = self._kryo_objects(), reader._kryo_objects()
        for class_bytes, old in before.items():
            new = after.get(class_bytes)
            if new is not None and _is_unreadable(old, new):
                return self._class_name(class_bytes)
        return None

    def kryo_classes(self) -> frozenset[str]:
        """Return the classes that Kryo wrote with their names: those that the type of the state does not tell."""
        names = (self._class_name(each) for each in self._kryo_objects() if each[0] == _BY_NAME)
        return frozenset(name for name in names if name.replace(".", "_").replace("$", "_").isidentifier())

    def unreadable_subclass(self, reader: ValueSample, described: Iterable[str]) -> str | None:
        """Return a subclass, not among the described ones, whose objects the class of its name in another sample fails to read."""
        known = frozenset(described)
        before, after = self.subclasses(), reader.subclasses()
        for name, old in before.items():
            if name not in known and name in after and cannot_read(after[name], old, object_steps):
                return name
        return None

    def subclasses(self) -> dict[str, list[bytes]]:
        """Return the objects of subclasses that are written with their names."""
        found: defaultdict[str, list[bytes]] = defaultdict(list)
        if isinstance(self.value, PojoSerializer):
            for name, data in filter(None, map(subclass_object, self.values)):
                found[name].append(data)
        return dict(found)

    def stages(self) -> Stages | None:
        """Return the stages of the CEP pattern; None if it is no state of one."""
        if not isinstance(self.value, NFAStateSerializer):
            return None
        return stages_of(self.values, has_previous_timestamps=self.value.has_previous_timestamps)

    def _kryo_objects(self) -> dict[bytes, list[KryoObjects]]:
        found: defaultdict[bytes, list[KryoObjects]] = defaultdict(list)
        for serializer, data in self._of_kryo():
            objects = kryo_objects(
                data, serializer.type_class, is_kryo_2=serializer.settings.version == _KRYO_2
            )
            if objects is not None:
                found[objects.class_bytes].append(objects)
        return found

    def _of_kryo(self) -> Iterator[tuple[KryoSerializer, bytes]]:
        """Yield what Kryo wrote up to the end of a value: the value, or the last field of a POJO."""
        if isinstance(self.value, KryoSerializer):
            yield from ((self.value, data) for data in self.values)
        elif isinstance(self.value, PojoSerializer):
            last = self.value.fields[-1].serializer if self.value.fields else None
            if isinstance(last, KryoSerializer):
                tails = (_last_field(self.value, data) for data in self.values)
                yield from ((last, data) for data in tails if data is not None)

    def _class_name(self, class_bytes: bytes) -> str:
        if class_bytes[0] == 1:
            return class_bytes[1:].decode(errors="replace")
        return self.value.type_class if isinstance(self.value, KryoSerializer) else self.value.type_name


def sample_of(places: Sequence[tuple[Source, StateName]], most_bytes: int) -> ValueSample | None:
    """Return the first values of a state, from at most so many bytes of its files; None if its values are not found so.

    Args:
        places: the sources that have the state, and its name there.
        most_bytes: of all of them together.

    Raises:
        ReaderError: a file is missing or contradicts its format.
    """
    values: list[bytes] = []
    left, is_whole, serializer = most_bytes, True, None
    for source, name in places:
        entry = source.entries[name]
        serializer = serializer or entry.value
        beginning = source.beginning(name, left)
        left -= beginning.bytes_read
        is_whole = is_whole and beginning.is_whole
        values += filter(None, (_value(entry, each) for each in beginning.entries))
    if serializer is None or not values:
        return None
    return ValueSample(
        value=serializer.value if isinstance(serializer, TtlSerializer) else serializer,
        values=tuple(values),
        is_whole=is_whole,
        bytes_read=most_bytes - left,
    )


def _value(entry: Entry, segments: tuple[bytes, ...]) -> bytes | None:
    """Return the bytes of a value in an entry; None for null, and where lists have no known ends."""
    if entry.kind in _PLAIN or entry.kind in _ELEMENTS:
        value = segments[-1]
    elif entry.kind is StateKind.MAP and segments[-1][:1] == b"\x00":
        value = segments[-1][1:]
    else:
        return None
    return value[:-_TIMESTAMP_BYTES] if isinstance(entry.value, TtlSerializer) else value


def _last_field(pojo: PojoSerializer, data: bytes) -> bytes | None:
    """Return the bytes of the last field of a POJO; None if those before it are not plain."""
    if not data or data[0] != _OF_THE_CLASS:
        return None
    position = 1
    for field in pojo.fields[:-1]:
        is_null, position = data[position : position + 1] != b"\x00", position + 1
        if is_null:
            continue
        length = field.serializer.fixed_length
        if length < 0:
            end = string_end(data, position) if isinstance(field.serializer, StringSerializer) else None
            if end is None:
                return None
            position = end
        else:
            position += length
    return data[position + 1 :] if data[position : position + 1] == b"\x00" else None


def _is_unreadable(old: list[KryoObjects], new: list[KryoObjects]) -> bool:
    """Return whether, however the objects are cut, those that can be objects of one class are unreadable for the other one."""
    before, after = _ways(old), _ways(new)
    return (
        bool(before)
        and bool(after)
        and all(cannot_read(reader, written, field_steps) for written in before for reader in after)
    )


def _ways(objects: list[KryoObjects]) -> list[list[bytes]]:
    """Return the ways to cut some values into objects of one class."""
    is_certain = all(len(each.splits) == 1 for each in objects)
    chosen = objects if is_certain else objects[:_MOST_CUT]
    ways = [
        [data for split in splits for data in split] for splits in product(*(each.splits for each in chosen))
    ]
    if len(ways) > _MOST_WAYS:
        return []
    return [way for way in ways if is_explained(way, field_steps)]
