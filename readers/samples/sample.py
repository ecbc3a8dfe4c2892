"""The first values of a state: what they show of classes that no snapshot describes.

The stages of a CEP pattern, as far as partial matches name them. The bytes are those of `serializers/cep.py`.

Each key has a computation that waits in the first stage, always; the others wait in later ones.

Flink: NFA#doProcess ("Handle the Start State, as it always have to remain"), NFAStateSerializer#serializeComputationStates
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from readers.cursor import Cursor
from readers.errors import ReaderError
from readers.formats.entry import Entry, StateKind
from readers.formats.source import Source, StateName
from readers.samples.layouts import (
    KryoObjects,
    cannot_read,
    field_steps,
    is_explained,
    kryo_objects,
    object_steps,
    string_end,
    subclass_object,
)
from readers.serializers.base import Serializer
from readers.serializers.cep import NFAStateSerializer
from readers.serializers.kryo.serializer import KryoSerializer
from readers.serializers.operators import TtlSerializer
from readers.serializers.pojo import PojoSerializer
from readers.serializers.primitives import StringSerializer

_EVENT_BYTES, _LONG_BYTES, _INT_BYTES = 12, 8, 4
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
    cursor.read(cursor.count("version", _INT_BYTES) * _INT_BYTES, "version")
    cursor.read(_LONG_BYTES * (1 + has_previous_timestamps), "timestamps")
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
