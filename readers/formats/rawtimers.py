"""Timers in raw keyed state, one state per service and time domain: RocksDB jobs whose timers live on the heap, and all jobs up to 1.5.

The raw keyed stream has no header. At the handle's offset (-1: none) of each key group:

| bytes | meaning |
|---|---|
| [F1CD859F, i4 version] | since 1.4.1; version 2 since 1.8 |
| i4 n, n × service | |
| service: utf name | |
| version 2: versioned key snapshot, versioned namespace snapshot | |
| version 1: pairs of key and namespace | see `readers.snapshots.reading` |
| none: Java streams of the key serializer and of the namespace serializer | |
| i4 n, n × (key, namespace, i8 timestamp) | event time |
| i4 n, n × (key, namespace, i8 timestamp) | processing time |

The timestamp is last and its sign is not inverted. Flink: InternalTimerServiceSerializationProxy,
InternalTimersSnapshotReaderWriters, LegacyTimerSerializer.

Raw keyed state that an operator wrote itself is shown as bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from readers.cursor import Cursor
from readers.decode.decoder import Page, walker
from readers.decode.program import Program
from readers.errors import CorruptDataError, UnsupportedSerializerError, UnsupportedVersionError
from readers.formats.entry import Entry, EntryLayout, StateKind, column_type
from readers.formats.opener import Opener, OpeningContext
from readers.formats.operatorstate import BytesSource
from readers.formats.source import KeyBounds, Selection, Source, StateName, StateSize
from readers.formats.streams import regions_of
from readers.javaio import STREAM_HEADER, read_object
from readers.metadata import KeyGroupRange, KeyGroupsStateHandle
from readers.serializers.base import Serializer
from readers.snapshots.reading import read_pairs, read_versioned, serializer_of
from readers.storage.filesystems import Stream

MAGIC = bytes.fromhex("F1CD859F")
_UNVERSIONED, _VERSION_1, _VERSION_2 = 0, 1, 2
EVENT_TIMERS = "_timer_state/event_"
PROCESSING_TIMERS = "_timer_state/processing_"
_MAX_SERVICES = 1024  # of what is taken for timers without a magic number: more are some other raw state
_NO_SERVICES = frozenset(
    prefix + bytes(4) for prefix in (b"", *(MAGIC + bytes([0, 0, 0, version]) for version in (1, 2)))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RawTimers:
    """The timers of one service, time domain and key group.

    Attributes:
        service: the name of the timer service.
        domain: `EVENT` or `PROCESSING`.
        entry: the serializers.
        starts, ends: the bounds of the timers, int64 (timers, 1).
        position: of the number of timers, an i4 before them.
    """

    service: str
    domain: str
    entry: Entry
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    position: int

    @property
    def state(self) -> StateName:
        """The state that they belong to."""
        prefix = EVENT_TIMERS if self.domain == "EVENT" else PROCESSING_TIMERS
        return StateName(name=prefix + self.service, timers=True)


def is_raw_timers(data: NDArray[np.uint8], position: int) -> bool:
    """Return whether the raw state of a key group was written by timer services.

    Before 1.4.1 there was no magic number: then a service's name followed by a Java stream is taken for timers.
    """
    if data[position : position + len(MAGIC)].tobytes() == MAGIC:
        return True
    cursor = Cursor(memoryview(data), position=position)
    try:
        services = cursor.i4()
        if services > 0:
            cursor.utf()
            return services <= _MAX_SERVICES and bytes(cursor.read(len(STREAM_HEADER))) == STREAM_HEADER
    except CorruptDataError:
        return False
    return services == 0


def read_raw_timers(data: NDArray[np.uint8], position: int, limit: int, path: str) -> Iterator[RawTimers]:
    """Yield the timers of one key group by service and time domain, also where there are none.

    Raises:
        UnsupportedVersionError: newer than version 2.
        UnsupportedSerializerError: keys or namespaces have no known end.
        CorruptDataError: the bytes contradict the layout.
    """
    cursor = Cursor(memoryview(data), path=path, position=position, end=limit)
    version = _version(cursor)
    for _ in range(cursor.count("timer services", 2)):
        service = cursor.utf("timer service")
        key, namespace = _SERIALIZERS[version](cursor)
        entry = Entry(kind=StateKind.TIMER, key=key, namespace=namespace)
        walked = walker(partial(emit_raw_timer, layout=EntryLayout({}), entry=entry))
        for domain in ("EVENT", "PROCESSING"):
            position = cursor.position
            count = cursor.count("timers")
            starts, ends = walked.measure(data, cursor.position, limit, count, path)
            cursor.position = int(ends[-1, 0]) if count else cursor.position
            yield RawTimers(
                service=service, domain=domain, entry=entry, starts=starts, ends=ends, position=position
            )
    if cursor.remaining:
        raise cursor.corrupt(f"expected the end of the timers, found {cursor.remaining} bytes more")


def _version(cursor: Cursor) -> int:
    start = cursor.position
    if bytes(cursor.data[start : start + len(MAGIC)]) != MAGIC:
        return _UNVERSIONED
    cursor.read(len(MAGIC))
    version = cursor.i4()
    if version not in (_VERSION_1, _VERSION_2):
        raise UnsupportedVersionError(
            f"expected raw timers of version 1 or 2, found {version}", path=cursor.path, position=start
        )
    return version


def _pairs(cursor: Cursor) -> tuple[Serializer, Serializer]:
    start = cursor.position
    serializers = read_pairs(cursor)
    if len(serializers) != 2:
        raise cursor.corrupt(f"expected serializers of key and namespace, found {len(serializers)}", start)
    return serializers[0], serializers[1]


def _java_stream(cursor: Cursor) -> Serializer:
    # The object is read once only to find its end, which no length records.
    start = cursor.position
    read_object(cursor)
    return serializer_of(Cursor(cursor.data, path=cursor.path, position=start, end=cursor.position))


def raw_timer_columns(entry: Entry) -> dict[str, pa.DataType]:
    """Return the columns of a timer."""
    return {
        "key": column_type(entry, "key"),
        "namespace": column_type(entry, "namespace"),
        "value": pa.timestamp("ms"),
    }


def emit_raw_timer(program: Program, layout: EntryLayout, entry: Entry) -> None:
    """Emit one segment: key, namespace, timestamp."""
    for name in ("key", "namespace"):
        with layout.column(program, name):
            entry.part(name).emit(program)
    with layout.column(program, "value"):
        # Managed timers invert the sign, so that their bytes sort by time; these are plain longs.
        program.fixed(8)


def raw_key_bounds(entry: Entry) -> KeyBounds | None:
    """Return what finds keys in timers, where they come first."""
    key = walker(entry.part("key").emit)

    def bounds(page: Page) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        starts = page.starts[:, 0]
        return starts, key.measure_each(page.data, starts, page.ends[:, 0], page.path)

    return bounds


_SERIALIZERS: dict[int, Callable[[Cursor], tuple[Serializer, Serializer]]] = {
    _UNVERSIONED: lambda cursor: (_java_stream(cursor), _java_stream(cursor)),
    _VERSION_1: _pairs,
    _VERSION_2: lambda cursor: (read_versioned(cursor), read_versioned(cursor)),
}


ABSENT = -1  # the offset of a key group without raw state


@dataclass(frozen=True, slots=True, kw_only=True)
class RawBody:
    """The raw timers of a key group.

    Attributes:
        key_group: the key group.
        data, start, end: where its bytes are in a buffer.
        timers: of each service and time domain, in the order of the bytes.
    """

    key_group: int
    data: NDArray[np.uint8]
    start: int
    end: int
    timers: tuple[RawTimers, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class RawTimerSource(Source):
    """Raw keyed state that the timer service wrote.

    Attributes:
        handle: names the key groups and their offsets.
        stream: the stream of the handle.
    """

    handle: KeyGroupsStateHandle
    stream: Stream

    backend = "hashmap"

    @classmethod
    def open(cls, subtask: int, handle: KeyGroupsStateHandle, stream: Stream) -> Self:
        """Read the types of all timers: every key group records those of its own.

        Raises:
            UnsupportedSerializerError: the end of a timer is not known.
            ReaderError: the stream contradicts its format.
        """
        entries: dict[StateName, Entry] = {}
        regions = list(regions_of(handle, stream, absent=ABSENT))
        spans = stream.spans([region[1:] for region in regions])
        for (_, start, end), data in zip(regions, spans, strict=True):
            for timers in read_raw_timers(data, start, end, stream.path):
                entries.setdefault(timers.state, timers.entry)
        return cls(
            subtask=subtask,
            path=stream.path,
            size_bytes=handle.size_bytes,
            entries=entries,
            handle=handle,
            stream=stream,
        )

    @property
    def key_group_range(self) -> KeyGroupRange:
        return self.handle.key_group_range

    def columns(self, entry: Entry) -> dict[str, pa.DataType]:
        return raw_timer_columns(entry)

    def emit(self, program: Program, layout: EntryLayout, entry: Entry) -> None:
        emit_raw_timer(program, layout, entry)

    def pages(self, state: StateName, selection: Selection) -> Iterator[Page]:
        for body in self.bodies(selection):
            for timers in body.timers:
                if timers.state == state and len(timers.starts):
                    yield self.page(body, timers)

    def bodies(self, selection: Selection) -> Iterator[RawBody]:
        """Yield the timers of each selected key group.

        Raises:
            ReaderError: the stream contradicts its format.
        """
        regions = regions_of(self.handle, self.stream, absent=ABSENT)
        wanted = [region for region in regions if selection.wants(region[0])]
        spans = self.stream.spans([region[1:] for region in wanted])
        for (key_group, start, end), data in zip(wanted, spans, strict=True):
            selection.account(end - start)
            timers = tuple(read_raw_timers(data, start, end, self.path))
            yield RawBody(key_group=key_group, data=data, start=start, end=end, timers=timers)

    def page(self, body: RawBody, timers: RawTimers) -> Page:
        """Return timers of a key group as a page."""
        return Page.of(body.data, (timers.starts, timers.ends), body.key_group, self.subtask, self.path)

    def own_size(self, state: StateName, share: float) -> StateSize:
        if self.stream.is_remote:
            return super().own_size(state, share)
        return StateSize(sum(tally.size_bytes or 0 for tally in self.tallies([state], Selection())))

    def key_bounds(self, state: StateName) -> KeyBounds | None:
        return raw_key_bounds(self.entries[state])


class RawKeyedOpener(Opener[KeyGroupsStateHandle]):
    """Opens raw keyed state: timers if the timer service wrote it, else bytes."""

    family = StateKind.RAW_KEYED
    sources = (RawTimerSource, BytesSource)

    def open(self, handle: KeyGroupsStateHandle, context: OpeningContext) -> Source:
        stream = context.location.open_stream(handle.delegate)
        regions = list(regions_of(handle, stream, absent=ABSENT))
        reason = "written by the operator itself"
        spans = stream.spans([region[1:] for region in regions])
        if all(is_raw_timers(data, start) for (_, start, _), data in zip(regions, spans, strict=True)):
            try:
                source = RawTimerSource.open(context.subtask, handle, stream)
            except UnsupportedSerializerError as error:
                reason = f"timers: {error.message}"
            else:
                # Bytes of an operator may begin like timers; without any timer service, every key group has exactly such bytes.
                if source.entries or all(_is_without_timers(stream, *region[1:]) for region in regions):
                    return source
        ranges = [(stream, start, end, key_group) for key_group, start, end in regions]
        return BytesSource.open(context.subtask, "raw keyed state", self.family, ranges, reason)


def _is_without_timers(stream: Stream, start: int, end: int) -> bool:
    """Return whether the raw state of a key group has no timer service: RocksDB jobs before 1.10 write this if they use none."""
    return stream.span(start, end)[start:end].tobytes() in _NO_SERVICES
