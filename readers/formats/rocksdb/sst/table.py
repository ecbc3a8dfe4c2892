"""A table: one SST file, block-based, `format_version` 2 to 5.

| bytes | meaning |
|---|---|
| … | data blocks, in the order of their keys |
| … | other blocks: filters, index, properties, range tombstones |
| … | meta index: name → handle of such a block |
| u1 | footer: the kind of checksum of all blocks |
| varint × 4 | handles of the meta index and of the index |
| … | zeros up to 40 bytes of handles |
| u4 | format_version |
| u8 | magic, 88E241B785F4CFF7 |

The index is one block, or (type 2, ForSt) a block that leads to blocks: see `blocks.py`. Range tombstones are not applied. Flink
writes them for the key groups that a rescaled subtask lost, which no read of it wants; if one touches the range of a read,
RocksDB reads that range.

RocksDB: Footer, BlockBasedTable, TablePropertiesNames.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from readers.cursor import Cursor
from readers.errors import CorruptDataError
from readers.formats.rocksdb.sst.blocks import (
    LZ4,
    LZ4HC,
    NONE,
    SEQUENCE_BYTES,
    SNAPPY,
    TRAILER_BYTES,
    ZLIB,
    ZSTD,
    Keys,
    block_pairs,
    decompress_elsewhere,
    decompress_lz4,
    decompress_snappy,
    index_handles,
    plain_length,
)
from readers.formats.rocksdb.sst.checksums import CHECKSUMS, block_checksum
from readers.formats.rocksdb.sst.files import Files
from readers.formats.rocksdb.sst.manifest import COMPARATOR, DataFile, NotReadHereError
from readers.formats.rocksdb.sst.words import SLACK_BYTES

_FOOTER_BYTES = 53
_MAGIC = 0x88E241B785F4CFF7
_OLDEST_FORMAT, _NEWEST_FORMAT = 2, 5
_BINARY_SEARCH, _TWO_LEVEL = 0, 2
_MERGE_OPERATOR = b"StringAppendTESTOperator"
_MAX_META_BYTES = 1 << 26  # of a block of the index or of metadata: hostile handles must not allocate more
_WARM_GAP_BYTES = 1 << 17  # a request takes as long as so many bytes
_INDEX_BLOCKS_BYTES = 8 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockHandle:
    """The position of a block in its file, and its size without the trailer."""

    offset: int
    size_bytes: int


class TableFile:
    """The open file of a table; reads blocks.

    Args:
        files: opens the file.
        name: the name of the file.
        path: the path for errors, with the name.
    """

    def __init__(self, files: Files, name: str, path: str) -> None:
        self.path = path
        self._bytes = files.open(name)
        self.size_bytes = self._bytes.size_bytes

    def close(self) -> None:
        """Close the file."""
        self._bytes.close()

    def keep(self, offset: int, length: int) -> None:
        """Prepare for reads within these bytes; see `TableBytes.keep`."""
        self._bytes.keep(offset, length)

    def corrupt(self, message: str, position: int) -> CorruptDataError:
        """Return an error at a position of the file."""
        return CorruptDataError(message, path=self.path, position=position)

    def read_into(self, buffer: NDArray[np.uint8], offset: int) -> None:
        """Fill a buffer with the bytes from `offset` on."""
        done = self._bytes.read_into(buffer, offset)
        if done != len(buffer):
            raise self.corrupt(f"expected {len(buffer)} bytes, found {done}", offset)

    def read(self, offset: int, length: int) -> bytes:
        """Read `length` bytes from `offset` on."""
        buffer = np.empty(length, dtype=np.uint8)
        self.read_into(buffer, offset)
        return buffer.tobytes()

    def block(self, handle: BlockHandle, checksum: int) -> tuple[NDArray[np.uint8], int]:
        """Read a block of the index or of metadata; return its plain bytes, with slack behind them, and their number.

        Raises:
            CorruptDataError: a wrong checksum, or malformed compressed bytes.
            NotReadHereError: a compression that our reader does not know.
        """
        if handle.size_bytes > min(self.size_bytes - handle.offset - TRAILER_BYTES, _MAX_META_BYTES):
            raise self.corrupt(
                f"expected a block, found a handle of {handle.size_bytes} bytes", handle.offset
            )
        size = handle.size_bytes
        raw = np.zeros(size + TRAILER_BYTES + SLACK_BYTES, dtype=np.uint8)
        self.read_into(raw[: size + TRAILER_BYTES], handle.offset)
        address = raw.ctypes.data
        scratch = np.empty(8, dtype=np.int64)
        stored = int.from_bytes(raw[size + 1 : size + TRAILER_BYTES].tobytes(), "little")
        found = block_checksum(checksum, address, size, scratch.ctypes.data)
        if checksum and found != stored:
            raise self.corrupt(
                f"expected a block with checksum {stored:08x}, found {found:08x}", handle.offset
            )
        kind = int(raw[size])
        if kind == NONE:
            return raw, size
        if kind not in (SNAPPY, ZLIB, LZ4, LZ4HC, ZSTD):
            raise NotReadHereError(f"compression {kind}")
        length = plain_length(kind, address, size)
        if not 0 <= length <= _MAX_META_BYTES:
            raise self.corrupt("expected a compressed block with a length", handle.offset)
        plain = np.zeros(length + SLACK_BYTES, dtype=np.uint8)
        if kind == SNAPPY:
            is_whole = decompress_snappy(address, size, plain.ctypes.data, length)
        elif kind in (LZ4, LZ4HC):
            is_whole = decompress_lz4(address, size, plain.ctypes.data, length)
        else:
            is_whole = decompress_elsewhere(kind, raw[:size], plain, length)
        if not is_whole:
            raise self.corrupt(f"expected a block of compression {kind} and {length} bytes", handle.offset)
        return plain, length


class IndexBlocks:
    """The plain index blocks that were read last; shared by the tables of an instance, and by threads.

    Without them each lookup reads, checks and decompresses the whole index of every table that may have the key.

    Args:
        most_bytes: of all blocks; of one instance, RocksDB's own block cache takes as much by default.
    """

    def __init__(self, most_bytes: int = _INDEX_BLOCKS_BYTES) -> None:
        self._lock = threading.Lock()
        self._most_bytes = most_bytes
        self._blocks: OrderedDict[tuple[Hashable, int], tuple[NDArray[np.uint8], int]] = OrderedDict()
        self._size_bytes = 0

    def block(
        self, identity: Hashable, opened: TableFile, handle: BlockHandle, checksum: int
    ) -> tuple[NDArray[np.uint8], int]:
        """Return a block of the index, as `TableFile.block` does; it must not be written to.

        Args:
            identity: of the file: blocks of equal identities are the same.
            opened: the file.
            handle: of the block.
            checksum: the kind of its checksum.

        Raises:
            ReaderError, NotReadHereError: as `TableFile.block`.
        """
        key = identity, handle.offset
        with self._lock:
            if key in self._blocks:
                self._blocks.move_to_end(key)
                return self._blocks[key]
        block, length = opened.block(handle, checksum)
        with self._lock:
            if key not in self._blocks:
                self._blocks[key] = block, length
                self._size_bytes += len(block)
            while self._size_bytes > self._most_bytes:
                _, (dropped, _) = self._blocks.popitem(last=False)
                self._size_bytes -= len(dropped)
        return block, length


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The properties of a table that are known before its data are read.

    Attributes:
        name: the name of the file.
        path: the path for errors.
        identity: of the file.
        size_bytes: the size of the file.
        first_key, last_key: its least and its greatest key.
        checksum: the kind of checksum of its blocks.
        index: the handle of the index.
        is_partitioned: True if the index leads to blocks of the index.
        has_delta_handles: True if the handles in the index are delta encoded.
        has_user_keys: True if the keys in the index lack sequence numbers.
        can_merge: True if the merge operator is Flink's, so that operands can be joined.
        tombstones: the ranges that were deleted: first key, key behind the last.
        entries: how many it has, those among them that were overwritten, and `deletions`.
        deletions: the entries that delete others.
        plain_bytes: of all keys and values, uncompressed and in full.
        index_blocks: the index blocks that are kept.
    """

    name: str
    path: str
    identity: Hashable
    size_bytes: int
    first_key: bytes
    last_key: bytes
    checksum: int
    index: BlockHandle
    is_partitioned: bool
    has_delta_handles: bool
    has_user_keys: bool
    can_merge: bool
    tombstones: tuple[tuple[bytes, bytes], ...]
    entries: int
    deletions: int
    plain_bytes: int
    index_blocks: IndexBlocks

    def has_tombstone(self, first: bytes, behind: bytes | None) -> bool:
        """Return whether a range tombstone touches keys from `first` to `behind` (excluded)."""
        return any(end > first and (behind is None or start < behind) for start, end in self.tombstones)

    def handles(
        self, opened: TableFile, first: bytes, behind: bytes | None, keys: Keys | None = None
    ) -> Iterator[NDArray[np.int64]]:
        """Yield offset and size of the data blocks that may hold such keys, in order: an int64 (blocks, 2) per index block.

        With `keys`, blocks that hold none of these are left out.

        Raises:
            CorruptDataError: the index is malformed.
        """
        if keys is not None:
            # Smaller keys would seem to be in the first block: an index tells where a block ends, not where it begins.
            keys = keys.between(self.first_key, self.last_key)
        found = self._index(opened, self.index, first, behind, keys)
        if not self.is_partitioned:
            yield found
            return
        for offset, size in found.tolist():
            yield self._index(opened, BlockHandle(offset=offset, size_bytes=size), first, behind, keys)

    def warm(self, opened: TableFile, first: bytes, behind: bytes | None, keys: Keys | None = None) -> None:
        """Fetch what a lookup reads: the index, and the blocks to which it leads."""
        opened.keep(self.index.offset, self.index.size_bytes + TRAILER_BYTES)
        for handles in self.handles(opened, first, behind, keys):
            # As a rule one range: the blocks of a key, or of the entries of a map, follow each other.
            ends = handles[:, 0] + handles[:, 1] + TRAILER_BYTES
            gaps = np.flatnonzero(handles[1:, 0] - ends[:-1] > _WARM_GAP_BYTES)
            for one, last in zip([0, *(gaps + 1)], [*gaps, len(ends) - 1], strict=True):
                if len(ends):
                    opened.keep(int(handles[one, 0]), int(ends[last] - handles[one, 0]))

    def _index(
        self, opened: TableFile, handle: BlockHandle, first: bytes, behind: bytes | None, keys: Keys | None
    ) -> NDArray[np.int64]:
        block, length = self.index_blocks.block(self.identity, opened, handle, self.checksum)
        found = index_handles(
            block,
            length,
            first,
            behind,
            limit=self.size_bytes,
            delta=self.has_delta_handles,
            user_keys=self.has_user_keys,
            keys=keys,
        )
        if found is None:
            raise opened.corrupt("expected an index block", handle.offset)
        return found


def read_table(
    files: Files, path: str, expected: DataFile, index_blocks: IndexBlocks, identity: Hashable | None = None
) -> Table:
    """Read footer, properties and range tombstones of a table.

    Args:
        files: opens the file.
        path: of the instance, for errors.
        expected: the file as the MANIFEST describes it.
        index_blocks: keeps the blocks of the index.
        identity: of the file; its path if None.

    Raises:
        NotReadHereError: anything that our reader does not know.
        CorruptDataError: the size differs from the MANIFEST's, or the bytes contradict the format.
        OSError: the file cannot be read.
    """
    opened = TableFile(files, expected.name, f"{path}/{expected.name}")
    try:
        return _read_table(opened, expected, index_blocks, identity)
    finally:
        opened.close()


def plain_blocks(files: Files, name: str) -> Iterator[tuple[NDArray[np.uint8], int]]:
    """Yield the plain data blocks of a table, those of entries that count no more among them, each with its number of bytes.

    Raises:
        NotReadHereError: anything that our reader does not know.
        CorruptDataError: the bytes contradict the format.
        OSError: the file cannot be read.
    """
    opened = TableFile(files, name, name)
    try:
        whole = DataFile(
            number=0, level=0, size_bytes=opened.size_bytes, smallest=b"", largest=b"", largest_sequence=0
        )
        table = _read_table(opened, whole, IndexBlocks(), None)
        for handles in table.handles(opened, b"", None):
            for offset, size in handles.tolist():
                yield opened.block(BlockHandle(offset=offset, size_bytes=size), table.checksum)
    finally:
        opened.close()


def _read_table(
    opened: TableFile, expected: DataFile, index_blocks: IndexBlocks, identity: Hashable | None
) -> Table:
    # The size finds truncated copies before any of their bytes is interpreted.
    if opened.size_bytes != expected.size_bytes or opened.size_bytes < _FOOTER_BYTES:
        raise opened.corrupt(f"expected {expected.size_bytes} bytes, found {opened.size_bytes}", 0)
    footer = Cursor(opened.read(opened.size_bytes - _FOOTER_BYTES, _FOOTER_BYTES), path=opened.path)
    checksum = footer.u1()
    meta_index, index = _handle(footer), _handle(footer)
    version, magic = np.frombuffer(bytes(footer.data[41:]), dtype=[("version", "<u4"), ("magic", "<u8")])[0]
    if magic != _MAGIC or not _OLDEST_FORMAT <= version <= _NEWEST_FORMAT or checksum not in CHECKSUMS:
        raise NotReadHereError(f"a table of format {version} with checksum {checksum}")
    meta = dict(_pairs(opened, meta_index, checksum))
    # With a dictionary no block can be decompressed on its own.
    if b"rocksdb.properties" not in meta or b"rocksdb.compression_dict" in meta:
        raise NotReadHereError("a table without properties, or with a dictionary")
    properties = dict(_pairs(opened, _handle(Cursor(meta[b"rocksdb.properties"])), checksum))
    _check_known(properties)
    index_type = int.from_bytes(properties.get(b"rocksdb.block.based.table.index.type", b""), "little")
    if index_type not in (_BINARY_SEARCH, _TWO_LEVEL):
        raise NotReadHereError(f"an index of type {index_type}")
    return Table(
        name=expected.name,
        path=opened.path,
        identity=opened.path if identity is None else identity,
        size_bytes=opened.size_bytes,
        first_key=expected.first_key,
        last_key=expected.last_key,
        checksum=checksum,
        index=index,
        is_partitioned=index_type == _TWO_LEVEL,
        has_delta_handles=_flag(properties, b"rocksdb.index.value.is.delta.encoded"),
        has_user_keys=_flag(properties, b"rocksdb.index.key.is.user.key"),
        can_merge=properties.get(b"rocksdb.merge.operator") == _MERGE_OPERATOR,
        tombstones=_tombstones(opened, meta.get(b"rocksdb.range_del"), checksum),
        entries=_number(properties, b"rocksdb.num.entries"),
        deletions=_number(properties, b"rocksdb.deleted.keys"),
        plain_bytes=_number(properties, b"rocksdb.raw.key.size")
        + _number(properties, b"rocksdb.raw.value.size"),
        index_blocks=index_blocks,
    )


def _check_known(properties: dict[bytes, bytes]) -> None:
    """Refuse other comparators, and ingested files, whose sequence number stands outside of their keys.

    User-defined timestamps, which are a part of keys, would show in the comparator's name.
    """
    if properties.get(b"rocksdb.comparator", COMPARATOR) != COMPARATOR:
        raise NotReadHereError(f"comparator {properties[b'rocksdb.comparator']!r}")
    if b"rocksdb.external_sst_file.version" in properties:
        raise NotReadHereError("a table that was ingested")


def _tombstones(opened: TableFile, value: bytes | None, checksum: int) -> tuple[tuple[bytes, bytes], ...]:
    if value is None:
        return ()
    pairs = _pairs(opened, _handle(Cursor(value)), checksum)
    # The sequence numbers do not matter: reads that touch the range at all are left to RocksDB.
    return tuple((key[:-SEQUENCE_BYTES], end) for key, end in pairs)


def _pairs(opened: TableFile, handle: BlockHandle, checksum: int) -> Iterator[tuple[bytes, bytes]]:
    block, length = opened.block(handle, checksum)
    pairs = block_pairs(block[:length].tobytes())
    if pairs is None:
        raise opened.corrupt("expected a block of names and values", handle.offset)
    return pairs


def _handle(cursor: Cursor) -> BlockHandle:
    return BlockHandle(offset=_varint(cursor), size_bytes=_varint(cursor))


def _flag(properties: dict[bytes, bytes], name: bytes) -> bool:
    """Return a property that is 0 or 1; False if the RocksDB that wrote the table did not know it."""
    number = properties.get(name, b"\0")
    if number not in (b"\0", b"\1"):
        raise NotReadHereError(f"{name.decode()} {number!r}")
    return number == b"\1"


def _number(properties: dict[bytes, bytes], name: bytes) -> int:
    """Return a property that counts; 0 if the RocksDB that wrote the table did not know it."""
    return _varint(Cursor(properties[name])) if name in properties else 0


def _varint(cursor: Cursor) -> int:
    value = 0
    for shift in range(0, 63, 7):
        byte = cursor.u1()
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value
    raise cursor.corrupt("expected a varint of at most nine bytes")
