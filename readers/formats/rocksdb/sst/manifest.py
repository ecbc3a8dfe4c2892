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
| 7 100 102 103 | new file | see `_new_file` |
| 200 | column family of the edit (0 if absent) | varint |
| 201 202 | the family is added, dropped | string name; nothing |
| 300 | the edit belongs to a group that counts as a whole | varint, edits of the group still to come |
| 8192 and up | fields of later versions, may be skipped | string |

Little endian; a string is a varint length and bytes. Other tags (blob files, write-ahead logs) are left to RocksDB.

RocksDB: log_format.h, VersionEdit (5.6 – 8.10).

The one signal of this package: RocksDB itself has to read these files.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from readers.cursor import Cursor
from readers.formats.rocksdb.sst.checksums import crc32c, masked
from readers.formats.rocksdb.sst.files import Files


class NotReadHereError(Exception):
    """Something whose meaning our reader does not know for certain; caught by `RocksDatabase.entries`, never seen outside."""


COMPARATOR = b"leveldb.BytewiseComparator"

_BLOCK_BYTES = 1 << 15
_HEADER_BYTES = 7
_EMPTY, _WHOLE, _FIRST, _MIDDLE, _LAST = range(5)
_SEQUENCE_BYTES = 8
_MAX_LEVEL = 63
_VARINT_SHIFTS = range(0, 70, 7)  # a u64 takes ten bytes
_MANIFEST_NAME = re.compile(rb"(MANIFEST-\d+)\n?")
_CUSTOM_END = 1
_CUSTOM_MUST_BE_KNOWN = 1 << 6
_CUSTOM_OLDEST_BLOB_FILE = 4
_MAY_BE_SKIPPED = 1 << 13

_COMPARATOR, _LAST_SEQUENCE, _COMPACT_POINTER, _DELETED_FILE = 1, 4, 5, 6
_NUMBERS = frozenset({2, 3, 9, 10, 203})
_NEW_FILES = frozenset({7, 100, 102, 103})
_FAMILY, _FAMILY_ADD, _FAMILY_DROP, _ATOMIC_GROUP = 200, 201, 202, 300


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


@dataclass(slots=True, kw_only=True)
class Family:
    """A column family; grows as edits are applied."""

    name: str
    files: dict[tuple[int, int], DataFile] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The result of all edits.

    Attributes:
        families: name → files.
        last_sequence: entries with greater sequence numbers do not count yet.
    """

    families: dict[str, tuple[DataFile, ...]]
    last_sequence: int


@dataclass(slots=True, kw_only=True)
class _Edit:
    comparator: bytes | None = None
    last_sequence: int = -1
    deleted: list[tuple[int, int]] = field(default_factory=list)
    added: list[DataFile] = field(default_factory=list)
    family: int = 0
    family_added: bytes | None = None
    family_dropped: bool = False
    to_come: int = 0


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
    records = _records(Cursor(files.read(match[1].decode()), path=path), verify=verify)
    families: dict[int, Family] = {}
    last_sequence = -1
    to_come = 0
    for record in records:
        edit = _edit(Cursor(record, path=path))
        _apply(edit, families)
        last_sequence = max(last_sequence, edit.last_sequence)
        to_come = edit.to_come
    # The edits of a group are applied one by one, so a group that does not end makes all of it void.
    if to_come or last_sequence < 0:
        raise NotReadHereError("a MANIFEST that is not complete")
    by_name = {family.name: tuple(family.files.values()) for family in families.values()}
    if len(by_name) != len(families):
        raise NotReadHereError("two column families of one name")
    return Manifest(families=by_name, last_sequence=last_sequence)


def _records(cursor: Cursor, *, verify: bool) -> list[bytes]:
    """Return the records of a log, put together from their fragments.

    Raises:
        NotReadHereError: the log ends within a record; RocksDB decides what that means.
    """
    records = []
    parts: list[bytes] = []
    while cursor.remaining:
        left = _BLOCK_BYTES - cursor.position % _BLOCK_BYTES
        if left < _HEADER_BYTES:
            cursor.read(min(left, cursor.remaining))
            continue
        if cursor.remaining < _HEADER_BYTES:
            raise NotReadHereError("a log that ends within a record")
        checksum = _fixed(cursor, 4)
        length = _fixed(cursor, 2)
        kind = cursor.u1()
        if length > min(cursor.remaining, left - _HEADER_BYTES):
            raise NotReadHereError("a log that ends within a record")
        data = bytes(cursor.read(length))
        # The log's file may be allocated ahead, and filled with zeros.
        if kind == _EMPTY and length == 0 and checksum == 0:
            cursor.read(min(left - _HEADER_BYTES, cursor.remaining))
            continue
        if verify and _checksum(kind, data) != checksum:
            raise cursor.corrupt(f"expected a log record with checksum {checksum:08x}")
        if kind not in (_WHOLE, _FIRST, _MIDDLE, _LAST) or (kind in (_WHOLE, _FIRST)) == bool(parts):
            raise NotReadHereError(f"a log record of type {kind}")
        parts.append(data)
        if kind in (_WHOLE, _LAST):
            records.append(b"".join(parts))
            parts = []
    if parts:
        raise NotReadHereError("a log that ends within a record")
    return records


def _checksum(kind: int, data: bytes) -> int:
    memory = np.frombuffer(bytes([kind]) + data, dtype=np.uint8)
    return int(masked(crc32c(0, memory.ctypes.data, len(memory))))


def _fixed(cursor: Cursor, width: int) -> int:
    return int.from_bytes(cursor.read(width), "little")


def _varint(cursor: Cursor) -> int:
    data, position = cursor.data, cursor.position
    value = 0
    for shift, byte in zip(_VARINT_SHIFTS, data[position : cursor.end], strict=False):
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            cursor.position = position + shift // 7 + 1
            return value
    raise cursor.corrupt("expected a varint of at most ten bytes")


def _string(cursor: Cursor) -> bytes:
    return bytes(cursor.read(_varint(cursor), "string of a VersionEdit"))


def _internal_key(cursor: Cursor) -> bytes:
    key = _string(cursor)
    if len(key) < _SEQUENCE_BYTES:
        raise cursor.corrupt(f"expected an internal key, found {len(key)} bytes")
    return key


def _edit(cursor: Cursor) -> _Edit:
    edit = _Edit()
    while cursor.remaining:
        tag = _varint(cursor)
        if tag in _NEW_FILES:
            edit.added.append(_new_file(cursor, tag))
        elif tag in _NUMBERS:
            _varint(cursor)
        elif tag >= _MAY_BE_SKIPPED and tag & _MAY_BE_SKIPPED:
            _string(cursor)
        elif tag == _COMPARATOR:
            edit.comparator = _string(cursor)
        elif tag == _LAST_SEQUENCE:
            edit.last_sequence = _varint(cursor)
        elif tag == _COMPACT_POINTER:
            # Where the next compaction begins: of no use to a reader.
            _varint(cursor)
            _string(cursor)
        elif tag == _DELETED_FILE:
            edit.deleted.append((_varint(cursor), _varint(cursor)))
        elif tag == _FAMILY:
            edit.family = _varint(cursor)
        elif tag == _FAMILY_ADD:
            edit.family_added = _string(cursor)
        elif tag == _FAMILY_DROP:
            edit.family_dropped = True
        elif tag == _ATOMIC_GROUP:
            edit.to_come = _varint(cursor)
        else:
            raise NotReadHereError(f"a VersionEdit with tag {tag}")
    return edit


def _new_file(cursor: Cursor, tag: int) -> DataFile:
    """A new file.

    | field | in tags |
    |---|---|
    | varint level, varint number | all |
    | varint path | 102 |
    | varint size, string smallest, string largest | all |
    | varint smallest, varint largest sequence number | 100 102 103 |
    | [varint tag, string]…, varint 1 | 103 |
    """
    level = _varint(cursor)
    number = _varint(cursor)
    # Path 0 is the folder of the instance; Flink sets no others (db_paths).
    if level > _MAX_LEVEL or (tag == 102 and _varint(cursor) != 0):
        raise NotReadHereError("a file elsewhere")
    size_bytes = _varint(cursor)
    smallest = _internal_key(cursor)
    largest = _internal_key(cursor)
    largest_sequence = 0
    if tag != 7:
        _varint(cursor)
        largest_sequence = _varint(cursor)
    if tag == 103:
        _skip_custom_fields(cursor)
    return DataFile(
        number=number,
        level=level,
        size_bytes=size_bytes,
        smallest=smallest,
        largest=largest,
        largest_sequence=largest_sequence,
    )


def _skip_custom_fields(cursor: Cursor) -> None:
    """Skip the fields that RocksDB may ignore, except that of blob files: values are in other files then."""
    while (tag := _varint(cursor)) != _CUSTOM_END:
        _string(cursor)
        if tag & _CUSTOM_MUST_BE_KNOWN or tag == _CUSTOM_OLDEST_BLOB_FILE:
            raise NotReadHereError(f"a file with field {tag}")


def _apply(edit: _Edit, families: dict[int, Family]) -> None:
    if edit.comparator not in (None, COMPARATOR):
        raise NotReadHereError(f"comparator {edit.comparator!r}")
    if edit.family_added is not None:
        families[edit.family] = Family(name=edit.family_added.decode("utf-8", "surrogateescape"))
    elif edit.family_dropped:
        families.pop(edit.family, None)
    family = families.get(edit.family)
    # No edit adds the default family: it is there from the beginning.
    if family is None and edit.family == 0:
        family = families[0] = Family(name="default")
    if family is None:
        if edit.added or edit.deleted:
            raise NotReadHereError("files of an unknown column family")
        return
    for level_and_number in edit.deleted:
        if family.files.pop(level_and_number, None) is None:
            raise NotReadHereError("a deleted file that was not there")
    for file in edit.added:
        family.files[file.level, file.number] = file
