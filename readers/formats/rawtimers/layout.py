"""Timers in raw keyed state: RocksDB jobs whose timers live on the heap, and all jobs up to 1.5.

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
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from readers.cursor import Cursor
from readers.decode.decoder import walker
from readers.decode.page import Page
from readers.decode.program import Program
from readers.errors import CorruptDataError, UnsupportedVersionError
from readers.formats.entry import Entry, EntryLayout, StateKind, column_type
from readers.formats.keybounds import KeyBounds
from readers.javaio import STREAM_HEADER, read_object
from readers.serializers.base import Serializer
from readers.snapshots.proxies import serializer_of
from readers.snapshots.reading import read_pairs, read_versioned

MAGIC = bytes.fromhex("F1CD859F")
_UNVERSIONED, _VERSION_1, _VERSION_2 = 0, 1, 2
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
    """

    service: str
    domain: str
    entry: Entry
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]


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


def is_no_timers(data: NDArray[np.uint8], position: int, limit: int) -> bool:
    """Return whether the raw state of a key group has no timer service: RocksDB jobs before 1.10 write this if they use none."""
    return data[position:limit].tobytes() in _NO_SERVICES


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
            count = cursor.count("timers")
            starts, ends = walked.measure(data, cursor.position, limit, count, path)
            cursor.position = int(ends[-1, 0]) if count else cursor.position
            yield RawTimers(service=service, domain=domain, entry=entry, starts=starts, ends=ends)
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
