"""Random writes to instances of RocksDB, and random shapes of their tables."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import rocksdict
from hypothesis import strategies as st

from readers.formats.changelog.source import ChangelogSource
from readers.formats.rocksdb.source import RocksSource
from readers.formats.source import Source
from tools.synthetic.rocksdb import DELETE, DELETE_RANGE, MERGE, PUT, SINGLE_DELETE, RocksWriter, metadata
from tools.synthetic.savepoints import keyed_header

Write = tuple[int, bytes, bytes]


def batch(writes: list[Write], family: int = 1) -> tuple[int, bytes]:
    """A WriteBatch's count and writes, of keys and values below 2 MiB."""
    records = []
    for kind, key, value in writes:
        record = bytes([kind, family]) + varint(len(key)) + key
        if kind in (PUT, MERGE, DELETE_RANGE):
            record += varint(len(value)) + value
        records.append(record)
    return len(records), b"".join(records)


def varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def lawful(rounds: list[list[Write]]) -> Iterator[list[Write]]:
    """With single deletes only of keys that were put once since, and nothing else: RocksDB refuses to compact others."""
    single = {key for writes in rounds for kind, key, _ in writes if kind == SINGLE_DELETE}
    there: set[bytes] = set()
    for writes in rounds:
        kept = []
        for kind, key, value in writes:
            if key in single and (kind, key in there) not in ((PUT, False), (SINGLE_DELETE, True)):
                continue
            there ^= {key} & single
            kept.append((kind, key, value))
        yield kept


def live(writer: RocksWriter, files: Path) -> Path:
    files.mkdir()
    for file in writer.live_files():
        shutil.copy(file, files)
    return files


def rocks_sources(sources: Iterable[Source]) -> Iterator[RocksSource]:
    """Yield sources of RocksDB, those below a changelog among them."""
    for source in sources:
        if isinstance(source, RocksSource):
            yield source
        elif isinstance(source, ChangelogSource):
            yield from rocks_sources(source.bases)


keys = st.binary(min_size=1, max_size=3).map(lambda key: bytes(byte % 4 for byte in key))
operands = st.binary(max_size=12)
writes = st.one_of(
    st.tuples(st.just(PUT), keys, operands),
    st.tuples(st.just(PUT), keys, st.integers(100, 6000).map(lambda size: bytes(range(250)) * (size // 250))),
    st.tuples(st.just(MERGE), keys, operands),
    st.tuples(st.just(DELETE), keys, st.just(b"")),
    st.tuples(st.sampled_from([PUT, SINGLE_DELETE]), keys.map(lambda key: b"\x09" + key), operands),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How tables are written."""

    compression: str
    checksum: str
    format_version: int
    block_size: int
    restart_interval: int
    index_type: str
    data_block_index: str

    def adjust(self, options: rocksdict.Options) -> None:
        block = rocksdict.BlockBasedOptions()
        block.set_format_version(self.format_version)
        block.set_checksum_type(getattr(rocksdict.ChecksumType, self.checksum)())
        block.set_block_size(self.block_size)
        block.set_metadata_block_size(self.block_size)
        block.set_block_restart_interval(self.restart_interval)
        block.set_index_block_restart_interval(self.restart_interval)
        block.set_index_type(getattr(rocksdict.BlockBasedIndexType, self.index_type)())
        block.set_data_block_index_type(getattr(rocksdict.DataBlockIndexType, self.data_block_index)())
        block.set_data_block_hash_ratio(0.75)
        options.set_block_based_table_factory(block)
        options.set_compression_type(getattr(rocksdict.DBCompressionType, self.compression)())


shapes = st.builds(
    Shape,
    compression=st.sampled_from(["none", "snappy", "lz4", "lz4hc", "zlib", "zstd"]),
    checksum=st.sampled_from(["crc32c", "xxh3", "no_checksum"]),
    format_version=st.sampled_from([2, 3, 4, 5]),
    block_size=st.sampled_from([1, 64, 4096]),
    restart_interval=st.sampled_from([1, 3, 16]),
    index_type=st.sampled_from(["binary_search", "two_level_index_search"]),
    data_block_index=st.sampled_from(["binary_search", "binary_and_hash"]),
)


STATES = ("count", "perDay")


def checkpoint(writer: RocksWriter, directory: Path, groups: tuple[int, int] = (0, 128)) -> Path:
    """Make a checkpoint of an instance with the families `STATES`; tables are links, so checkpoints of one instance share them.

    `groups` is the first key group of the handle, and their number.
    """
    directory.mkdir()
    files = []
    for file in writer.live_files():
        if file.suffix == ".sst":
            (directory / file.name).hardlink_to(file)
        else:
            shutil.copy(file, directory)
        files.append((file.name, file.name))
    (directory / "meta").write_bytes(keyed_header(STATES))
    (directory / "_metadata").write_bytes(metadata(directory, [(0, *groups, files)]))
    return directory
