"""CURRENT and MANIFEST: the files of each column family.

CURRENT has the name of the MANIFEST and a line end. A MANIFEST is a log, cut into blocks of 32 KiB:

| bytes | meaning |
|---|---|
| u4 | masked CRC-32C of the type and the data |
| u2 | length of the data |
| u1 | 1 a whole record, 2 its first fragment, 3 a middle one, 4 the last; 0 with length 0: the rest of the block is empty |
| … | data |

A block ends with up to six zeros where no header fits. A record is a VersionEdit: fields, each behind its tag:

| tag | meaning | value |
|---|---|---|
| 1 | comparator | string |
| 2 3 4 9 10 203 | log number, next file number, last sequence number, … | varint |
| 5 | compaction pointer | varint level, string |
| 6 | deleted file | varint level, varint number |
| 7 100 102 103 | new file | see below |
| 200 | column family of the edit (0 if absent) | varint |
| 201 202 | the family is added, dropped | string name; nothing |
| 300 | the edit belongs to a group that counts as a whole | varint, edits of the group still to come |
| 8192 and up | fields of later versions, may be skipped | string |

| field of a new file | in tags |
|---|---|
| varint level, varint number | all |
| varint path | 102 |
| varint size, string smallest, string largest | all |
| varint smallest, varint largest sequence number | 100 102 103 |
| [varint tag, string]…, varint 1 | 103 |

Little endian; a string is a varint length and bytes. Other tags (blob files, write-ahead logs) are left to RocksDB.

A job appends to one MANIFEST as long as it runs: after 300 checkpoints of a state of two small files it has 46,000 edits, 4.7 MB. So
edits are read by a kernel, and of many only the files are kept that are there in the end.

RocksDB: log_format.h, VersionEdit (5.6 – 8.10).

The one signal of this package: RocksDB itself has to read these files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from readers.compiled.kernel import kernel
from readers.compiled.routines import subroutine
from readers.decode.loads import load_le_i2, load_le_i4, load_le_i8, load_u1, store_8
from readers.errors import CorruptDataError
from readers.formats.rocksdb.sst.checksums import crc32c, masked
from readers.formats.rocksdb.sst.files import Files
from readers.formats.rocksdb.sst.words import copy_words


class NotReadHereError(Exception):
    """Something whose meaning our reader does not know for certain; caught by `RocksDatabase.entries`, never seen outside."""


COMPARATOR = b"leveldb.BytewiseComparator"

_U2, _U4 = 0xFFFF, 0xFFFFFFFF
_BLOCK_BYTES = 1 << 15
_HEADER_BYTES = 7
_EMPTY, _WHOLE, _FIRST, _MIDDLE, _LAST = range(5)
_SEQUENCE_BYTES = 8
_MAX_LEVEL = 63
_MANIFEST_NAME = re.compile(rb"(MANIFEST-\d+)\n?")
_CUSTOM_END = 1
_CUSTOM_MUST_BE_KNOWN = 1 << 6
_CUSTOM_OLDEST_BLOB_FILE = 4
_MAY_BE_SKIPPED = 1 << 13

_COMPARATOR, _LAST_SEQUENCE, _COMPACT_POINTER, _DELETED_FILE, _NEW_FILE = 1, 4, 5, 6, 7
_NEW_FILE_2, _NEW_FILE_3, _NEW_FILE_4 = 100, 102, 103
_FAMILY, _FAMILY_ADD, _FAMILY_DROP, _ATOMIC_GROUP = 200, 201, 202, 300
_NUMBERS = (2, 3, 4, 9, 10, 200, 203, 300)

# What an event says, in the order in which those of an edit are applied.
_ADDS_FAMILY, _DROPS_FAMILY, _COMPARES, _DELETES, _ADDS = range(5)
# The words of an event.
(
    _KIND,
    _RECORD,
    _IN_FAMILY,
    _LEVEL,
    _NUMBER,
    _SIZE,
    _SMALLEST,
    _SMALLEST_BYTES,
    _LARGEST,
    _LARGEST_BYTES,
    _SEQUENCE,
) = range(11)
_WORDS = 11
# Events of so many bytes of edits are in memory at once; the shortest has two.
_BYTES_AT_ONCE = 1 << 18
_LEAST_EVENT_BYTES = 2
# What stops a kernel, in place of a number.
_IS_CUT, _HAS_WRONG_CHECKSUM, _HAS_WRONG_TYPE, _IS_MALFORMED, _IS_UNKNOWN = -1, -2, -3, -4, -5
_MEANINGS = {
    _IS_CUT: "a log that ends within a record",
    _HAS_WRONG_TYPE: "a log record of another type",
    _IS_UNKNOWN: "a VersionEdit with an unknown field, or a file elsewhere",
}
_EXPECTED = {
    _HAS_WRONG_CHECKSUM: "expected a log record with its checksum",
    _IS_MALFORMED: "expected a VersionEdit, found a field that does not fit",
}

_Events = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """An SST file as the MANIFEST describes it.

    Attributes:
        smallest: the least internal key.
        largest: the greatest internal key.
        largest_sequence: the greatest sequence number; 0 if it is not recorded.
    """

    number: int
    level: int
    size_bytes: int
    smallest: bytes
    largest: bytes
    largest_sequence: int

    @property
    def name(self) -> str:
        """The name of the file."""
        return f"{self.number:06d}.sst"

    @property
    def first_key(self) -> bytes:
        """The least key."""
        return self.smallest[:-_SEQUENCE_BYTES]

    @property
    def last_key(self) -> bytes:
        """The greatest key."""
        return self.largest[:-_SEQUENCE_BYTES]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The result of all edits.

    Attributes:
        families: name → files.
        last_sequence: entries with greater sequence numbers do not count yet.
    """

    families: dict[str, tuple[DataFile, ...]]
    last_sequence: int


@dataclass(slots=True)
class _Family:
    """A column family, and the edits that added and dropped it; -1 if none has dropped it."""

    name: str
    added: int
    dropped: int = -1


def read_manifest(files: Files, path: str, *, verify: bool = True) -> Manifest:
    """Read the MANIFEST that CURRENT names.

    Args:
        files: of the instance.
        path: for errors.
        verify: whether checksums are compared.

    Raises:
        NotReadHereError: anything that our reader does not know.
        CorruptDataError: a wrong checksum, or fields that do not fit.
        OSError: a file cannot be read.
    """
    match = _MANIFEST_NAME.fullmatch(files.read("CURRENT"))
    if match is None:
        raise NotReadHereError("CURRENT without the name of a MANIFEST")
    content = files.read(match[1].decode())
    # Kernels load up to seven bytes behind the last one.
    log = np.zeros(len(content) + 8, dtype=np.uint8)
    log[: len(content)] = np.frombuffer(content, dtype=np.uint8)
    ends = np.empty(len(content) // _HEADER_BYTES + 1, dtype=np.int64)
    count, position = _join_records(log, len(content), verify, ends)
    _check(count, position, path)
    families: dict[int, _Family] = {}
    left = np.empty((0, _WORDS), dtype=np.int64)
    last_sequence, to_come = -1, 0
    for first, behind in _portions(ends[:count]):
        events, sequence, to_come = _events_of(log, ends, first, behind, path)
        last_sequence = max(last_sequence, sequence)
        left = _applied(events, left, families, log)
    # The edits of a group are applied one by one, so a group that does not end makes all of it void.
    if to_come or last_sequence < 0:
        raise NotReadHereError("a MANIFEST that is not complete")
    by_number: dict[int, list[DataFile]] = {
        number: [] for number, family in families.items() if family.dropped < 0
    }
    for event in left[np.argsort(left[:, _SMALLEST])].tolist():
        by_number[event[_IN_FAMILY]].append(_file_of(event, log))
    by_name = {families[number].name: tuple(found) for number, found in by_number.items()}
    if len(by_name) != len(by_number):
        raise NotReadHereError("two column families of one name")
    return Manifest(families=by_name, last_sequence=last_sequence)


def _portions(ends: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield the first edit, and the one behind the last, of some edits at a time."""
    first = 0
    while first < len(ends):
        start = int(ends[first - 1]) if first else 0
        behind = max(int(np.searchsorted(ends, start + _BYTES_AT_ONCE)), first + 1)
        yield first, behind
        first = behind


def _events_of(
    log: NDArray[np.uint8], ends: NDArray[np.int64], first: int, behind: int, path: str
) -> tuple[_Events, int, int]:
    """Return the events of some edits, their last sequence number, and how many edits are still to come behind them."""
    start = int(ends[first - 1]) if first else 0
    room = (int(ends[behind - 1]) - start) // _LEAST_EVENT_BYTES + 1
    events = np.empty((room, _WORDS), dtype=np.int64)
    count, position, sequence, to_come = _read_edits(log, start, ends, first, behind, events)
    _check(count, position, path)
    return events[:count], sequence, to_come


def _check(count: int, position: int, path: str) -> None:
    if count in _EXPECTED:
        raise CorruptDataError(_EXPECTED[count], path=path, position=position)
    if count < 0:
        raise NotReadHereError(_MEANINGS[count])


def _applied(events: _Events, left: _Events, families: dict[int, _Family], log: NDArray[np.uint8]) -> _Events:
    """Apply events: return the files that are there behind them.

    Args:
        events: of some edits.
        left: the files that were there before.
        families: known so far; changes.
        log: has the names.

    Raises:
        NotReadHereError: an event contradicts those before it.
    """
    # No edit adds the default family: it is there from the beginning.
    families.setdefault(0, _Family("default", -1))
    for event in events[events[:, _KIND] < _DELETES].tolist():
        text = log[event[_SMALLEST] : event[_SMALLEST] + event[_SMALLEST_BYTES]].tobytes()
        number = event[_IN_FAMILY]
        if event[_KIND] == _COMPARES and text != COMPARATOR:
            raise NotReadHereError(f"comparator {text!r}")
        if event[_KIND] == _ADDS_FAMILY:
            if number in families:
                raise NotReadHereError("a column family that is added twice")
            families[number] = _Family(text.decode("utf-8", "surrogateescape"), event[_RECORD])
        elif event[_KIND] == _DROPS_FAMILY and number in families:
            families[number].dropped = event[_RECORD]
    files = events[events[:, _KIND] >= _DELETES]
    for number in np.unique(files[:, _IN_FAMILY]).tolist():
        records = files[files[:, _IN_FAMILY] == number, _RECORD]
        family = families.get(number)
        if family is None or records[0] < family.added or 0 <= family.dropped <= records[-1]:
            raise NotReadHereError("files of an unknown column family")
    every: _Events = np.concatenate([left, files])
    files = every[np.lexsort([every[:, word] for word in (_KIND, _RECORD, _NUMBER, _LEVEL, _IN_FAMILY)])]
    place = files[:, [_IN_FAMILY, _LEVEL, _NUMBER]]
    is_next = np.append(False, (place[1:] == place[:-1]).all(axis=1))[: len(files)]
    is_added = files[:, _KIND] == _ADDS
    was_there = is_next & np.append(False, is_added[:-1])[: len(files)]
    if not (is_added | was_there).all():
        raise NotReadHereError("a deleted file that was not there")
    is_left = is_added & ~np.append(is_next[1:], False)[: len(files)]
    dropped = [number for number, family in families.items() if family.dropped >= 0]
    found: _Events = files[is_left & ~np.isin(files[:, _IN_FAMILY], dropped)]
    return found


def _file_of(event: list[int], log: NDArray[np.uint8]) -> DataFile:
    smallest, largest = (
        log[event[start] : event[start] + event[length]].tobytes()
        for start, length in ((_SMALLEST, _SMALLEST_BYTES), (_LARGEST, _LARGEST_BYTES))
    )
    return DataFile(
        number=event[_NUMBER],
        level=event[_LEVEL],
        size_bytes=event[_SIZE],
        smallest=smallest,
        largest=largest,
        largest_sequence=event[_SEQUENCE],
    )


@kernel
def _join_records(log: int, length: int, verify: bool, ends: int) -> tuple[int, int]:
    """Put the records of a log together at its beginning, and store where each ends.

    Returns:
        Their number, or what is wrong; and a position in the log.
    """
    position = 0
    joined = 0
    count = 0
    is_open = False
    while position < length:
        left = _BLOCK_BYTES - position % _BLOCK_BYTES
        if left < _HEADER_BYTES:
            position += left
            continue
        if length - position < _HEADER_BYTES:
            return _IS_CUT, position
        checksum = load_le_i4(log, position) & _U4
        size = load_le_i2(log, position + 4) & _U2
        kind = load_u1(log, position + 6)
        if size > min(length - position, left) - _HEADER_BYTES:
            return _IS_CUT, position
        # The log's file may be allocated ahead, and filled with zeros.
        if kind == _EMPTY and size == 0 and checksum == 0:
            position += left
            continue
        if verify and masked(crc32c(0, log + position + 6, size + 1)) != checksum:
            return _HAS_WRONG_CHECKSUM, position
        if kind < _WHOLE or kind > _LAST or (kind <= _FIRST) == is_open:
            return _HAS_WRONG_TYPE, position
        # At least a header lies between the two.
        copy_words(log + joined, log + position + _HEADER_BYTES, size)
        joined += size
        position += _HEADER_BYTES + size
        is_open = kind in (_FIRST, _MIDDLE)
        if not is_open:
            store_8(ends, count * 8, joined)
            count += 1
    if is_open:
        return _IS_CUT, position
    return count, position


@subroutine
def _varint(log: int, position: int, end: int) -> tuple[int, int]:
    """Read an unsigned varint of up to 63 bits; return it, or `_IS_MALFORMED`, and the position behind it."""
    value = 0
    shift = 0
    while position < end and shift < 63:
        byte = load_u1(log, position)
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    return _IS_MALFORMED, position


@subroutine
def _string(log: int, position: int, end: int) -> tuple[int, int]:
    """Read the length of a string; return it, or `_IS_MALFORMED`, and the position of its bytes."""
    length, position = _varint(log, position, end)
    if length > end - position:
        return _IS_MALFORMED, position
    return length, position


@subroutine
def _new_file(log: int, position: int, end: int, tag: int, event: int) -> tuple[int, int]:
    """Read a new file into an event; return 0 or what is wrong, and the position behind it."""
    level, position = _varint(log, position, end)
    number, position = _varint(log, position, end)
    if level < 0 or number < 0:
        return _IS_MALFORMED, position
    # Path 0 is the folder of the instance; Flink sets no others (db_paths).
    path = 0
    if tag == _NEW_FILE_3:
        path, position = _varint(log, position, end)
    if level > _MAX_LEVEL or path != 0:
        return _IS_UNKNOWN, position
    size, position = _varint(log, position, end)
    smallest_bytes, smallest = _string(log, position, end)
    if size < 0 or smallest_bytes < _SEQUENCE_BYTES:
        return _IS_MALFORMED, position
    largest_bytes, largest = _string(log, smallest + smallest_bytes, end)
    if largest_bytes < _SEQUENCE_BYTES:
        return _IS_MALFORMED, position
    position = largest + largest_bytes
    sequence = 0
    if tag != _NEW_FILE:
        sequence, position = _varint(log, position, end)
        sequence, position = _varint(log, position, end)
        if sequence < 0:
            return _IS_MALFORMED, position
    if tag == _NEW_FILE_4:
        field, position = _varint(log, position, end)
        while field != _CUSTOM_END:
            length, position = _string(log, position, end)
            if field < 0 or length < 0:
                return _IS_MALFORMED, position
            # RocksDB may ignore others, except that of blob files: values are in other files then.
            if field & _CUSTOM_MUST_BE_KNOWN or field == _CUSTOM_OLDEST_BLOB_FILE:
                return _IS_UNKNOWN, position
            position += length
            field, position = _varint(log, position, end)
    store_8(event, _KIND * 8, _ADDS)
    store_8(event, _LEVEL * 8, level)
    store_8(event, _NUMBER * 8, number)
    store_8(event, _SIZE * 8, size)
    store_8(event, _SMALLEST * 8, smallest)
    store_8(event, _SMALLEST_BYTES * 8, smallest_bytes)
    store_8(event, _LARGEST * 8, largest)
    store_8(event, _LARGEST_BYTES * 8, largest_bytes)
    store_8(event, _SEQUENCE * 8, sequence)
    return 0, position


@kernel
def _read_edits(
    log: int, start: int, ends: int, first: int, behind: int, events: int
) -> tuple[int, int, int, int]:
    """Read edits into events.

    Returns:
        The number of events, or what is wrong; a position in the joined log; the greatest last sequence number, -1 without one;
        and how many edits of a group are to come behind the last one.
    """
    count = 0
    position = start
    last_sequence = -1
    to_come = 0
    for record in range(first, behind):
        end = load_le_i8(ends, record * 8)
        family = 0
        to_come = 0
        own = count
        while position < end:
            at = position
            event = events + count * (_WORDS * 8)
            tag, position = _varint(log, position, end)
            if tag < 0:
                return _IS_MALFORMED, at, 0, 0
            if tag in (_NEW_FILE, _NEW_FILE_2, _NEW_FILE_3, _NEW_FILE_4):
                wrong, position = _new_file(log, position, end, tag, event)
                if wrong < 0:
                    return wrong, at, 0, 0
                count += 1
            elif tag in (_COMPARATOR, _FAMILY_ADD, _COMPACT_POINTER) or tag & _MAY_BE_SKIPPED:
                # Where the next compaction begins is of no use to a reader.
                level = 0
                if tag == _COMPACT_POINTER:
                    level, position = _varint(log, position, end)
                length, position = _string(log, position, end)
                if level < 0 or length < 0:
                    return _IS_MALFORMED, at, 0, 0
                if tag in (_COMPARATOR, _FAMILY_ADD):
                    store_8(event, _KIND * 8, _COMPARES if tag == _COMPARATOR else _ADDS_FAMILY)
                    store_8(event, _SMALLEST * 8, position)
                    store_8(event, _SMALLEST_BYTES * 8, length)
                    count += 1
                position += length
            elif tag == _DELETED_FILE:
                level, position = _varint(log, position, end)
                number, position = _varint(log, position, end)
                if level < 0 or number < 0:
                    return _IS_MALFORMED, at, 0, 0
                store_8(event, _KIND * 8, _DELETES)
                store_8(event, _LEVEL * 8, level)
                store_8(event, _NUMBER * 8, number)
                store_8(event, _SMALLEST * 8, at)
                count += 1
            elif tag == _FAMILY_DROP:
                store_8(event, _KIND * 8, _DROPS_FAMILY)
                store_8(event, _SMALLEST_BYTES * 8, 0)
                store_8(event, _SMALLEST * 8, at)
                count += 1
            elif tag in _NUMBERS:
                number, position = _varint(log, position, end)
                if number < 0:
                    return _IS_MALFORMED, at, 0, 0
                if tag == _LAST_SEQUENCE:
                    last_sequence = max(last_sequence, number)
                elif tag == _FAMILY:
                    family = number
                elif tag == _ATOMIC_GROUP:
                    to_come = number
            else:
                return _IS_UNKNOWN, at, 0, 0
        for index in range(own, count):
            store_8(events, (index * _WORDS + _RECORD) * 8, record)
            store_8(events, (index * _WORDS + _IN_FAMILY) * 8, family)
    return count, position, last_sequence, to_come
