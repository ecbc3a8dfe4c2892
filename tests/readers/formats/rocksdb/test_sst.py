"""SST files read without RocksDB: the same entries as through RocksDB, whatever was written, or an error, or the way back to it."""

from __future__ import annotations

import random
import shutil
import struct
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cramjam
import numpy as np
import pyarrow as pa
import pytest
import rocksdict
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from readers.errors import CorruptDataError, ReaderError
from readers.formats.rocksdb.database import RocksDatabase, read_only_copy
from readers.formats.rocksdb.source import RocksSource
from readers.formats.rocksdb.sst.blocks import (
    LZ4,
    SNAPPY,
    decompress_lz4,
    decompress_snappy,
    plain_length,
)
from readers.formats.rocksdb.sst.checksums import (
    CRC32C,
    block_checksum,
    crc32c,
    crc_word_by_tables,
    masked,
    xxh3,
)
from readers.formats.rocksdb.sst.files import Directory
from readers.formats.rocksdb.sst.manifest import NotReadHereError
from readers.formats.rocksdb.sst.scan import PAGE_BYTES, PAGE_ENTRIES, Entries, SstDatabase
from readers.formats.source import Selection
from readers.metadata import IncrementalRemoteKeyedStateHandle
from readers.savepoint import Savepoint
from readers.storage.location import SavepointLocation
from tests.support.examples import examples
from tests.support.paths import DATA
from tests.support.sstfiles import (
    Shape,
    Write,
    batch,
    keys,
    lawful,
    live,
    rocks_sources,
    shapes,
    varint,
    writes,
)
from tools.synthetic.rocksdb import (
    DELETE,
    DELETE_RANGE,
    FLINK,
    MERGE,
    PUT,
    RocksWriter,
    flink_options,
)

BY_FLINK = DATA / "flink"
FAMILIES = ("state", "other")
Pair = tuple[bytes, bytes]


@pytest.fixture(scope="module")
def options_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """OPTIONS as Flink writes them: with its merge operator."""
    return flink_options(FLINK, tmp_path_factory.mktemp("options"))


def pairs(pages: Iterator[Entries]) -> list[Pair]:
    found = []
    for data, starts, ends in pages:
        memory = data.tobytes()
        bounds = np.hstack([starts, ends]).tolist()
        found += [(memory[key:key_end], memory[value:end]) for key, value, key_end, end in bounds]
    return found


def through_rocksdb(
    directory: Path, family: str, first: bytes = b"", behind: bytes | None = None
) -> list[Pair]:
    options, families = rocksdict.Options.load_latest(str(directory))
    database = rocksdict.Rdict(
        str(directory),
        options=options,
        column_families=families,
        access_type=rocksdict.AccessType.read_only(),
    )
    try:
        found: list[Any] = list(database.get_column_family(family).items(from_key=first))
    finally:
        database.close()
    return [(key, value) for key, value in found if behind is None or key < behind]


def written(
    directory: Path,
    options_file: Path,
    rounds: list[list[Write]],
    adjust: Callable[[rocksdict.Options], None] = lambda _: None,
    compacted: int = -1,
) -> Path:
    """An instance with one file of level 0 a round, all compacted after round `compacted`; its files, as a savepoint has them."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    writer = RocksWriter(directory / "instance", FAMILIES, options_file, adjust)
    for number, made in enumerate(lawful(rounds)):
        writer.write(iter([batch(made), batch(made, family=2)]))
        if number == compacted:
            database = writer.open()
            database.get_column_family("state").compact_range(None, None)
            database.close()
    return live(writer, directory / "files")


# --- what is written ---


@settings(
    max_examples=examples(15),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    rounds=st.lists(st.lists(writes, min_size=1, max_size=60), min_size=1, max_size=5),
    shape=shapes,
    compacted=st.integers(-1, 3),
    first=st.one_of(st.just(b""), keys),
    behind=st.one_of(st.none(), keys),
)
def test_scan_equals_rocksdb(
    tmp_path: Path,
    options_file: Path,
    rounds,
    shape: Shape,
    compacted: int,
    first: bytes,
    behind: bytes | None,
):
    files = written(tmp_path / "db", options_file, rounds, shape.adjust, compacted)
    expected = {family: through_rocksdb(files, family, first, behind) for family in FAMILIES}

    found = {
        family: pairs(SstDatabase(Directory(files), "db").entries(family, first, behind))
        for family in FAMILIES
    }

    assert found == expected


@pytest.mark.slow
def test_scan_of_many_tables_and_levels_equals_rocksdb(tmp_path: Path, options_file: Path):
    def small_files(options: rocksdict.Options) -> None:
        options.set_target_file_size_base(20_000)
        options.set_max_bytes_for_level_base(60_000)

    chance = random.Random(7)
    numbers = [struct.pack(">I", number) for number in range(6000)]
    rounds = [
        [
            (
                chance.choice((PUT, MERGE, MERGE, DELETE)),
                chance.choice(numbers),
                chance.randbytes(chance.randrange(40)),
            )
            for _ in range(9000)
        ]
        for _ in range(7)
    ]
    files = written(tmp_path, options_file, rounds, small_files, compacted=4)
    expected = through_rocksdb(files, "state")

    database = SstDatabase(Directory(files), "db")

    assert len(list(files.glob("*.sst"))) > 10
    assert pairs(database.entries("state", b"", None)) == expected
    for first, behind in [(numbers[0], numbers[1]), (numbers[2999], numbers[3500]), (numbers[5990], None)]:
        assert pairs(database.entries("state", first, behind)) == [
            pair for pair in expected if pair[0] >= first and (behind is None or pair[0] < behind)
        ]


@pytest.mark.slow
def test_pages_are_bounded_and_a_larger_entry_has_its_own(tmp_path: Path, options_file: Path):
    large = random.Random(1).randbytes(3 << 19)
    many = [(PUT, struct.pack(">I", number), b"v") for number in range(PAGE_ENTRIES + 5000)]
    appended = [[(MERGE, b"list", large)] for _ in range(13)]
    files = written(tmp_path, options_file, [many, *appended])

    pages = list(SstDatabase(Directory(files), "db").entries("state", b"", None))

    assert [len(starts) for _, starts, _ in pages] == [PAGE_ENTRIES, 5000, 1]
    assert all(len(data) <= PAGE_BYTES for data, _, _ in pages[:2])
    assert pairs(iter(pages[2:])) == [(b"list", b",".join([large] * 13))]


# --- what Flink wrote ---


def handles(folder: Path) -> Iterator[tuple[SavepointLocation, IncrementalRemoteKeyedStateHandle]]:
    """All RocksDB handles of the savepoints below a folder that can be opened."""
    for metadata in sorted(folder.rglob("_metadata")):
        savepoint = Savepoint(metadata.parent)
        parts = (
            part for operator in savepoint.operators for state in operator.states for part in state.parts
        )
        sources = {id(part.source): part.source for part in parts}
        for source in rocks_sources(sources.values()):
            yield source.location, source.handle


def compare_handles(folder: Path, directory: Path) -> int:
    compared = 0
    for storage, handle in handles(folder):
        directory.mkdir()
        read_only_copy(storage, handle, directory)
        options, families = rocksdict.Options.load_latest(str(directory))
        database = rocksdict.Rdict(
            str(directory),
            options=options,
            column_families=families,
            access_type=rocksdict.AccessType.read_only(),
        )
        mine = RocksDatabase(Directory(directory), "db")
        for family in families:
            expected = list(database.get_column_family(family).items())
            assert pairs(mine.entries(family, b"", None)) == expected
            compared += 1
        database.close()
        mine.close()
        shutil.rmtree(directory)
    return compared


def test_scan_of_flinks_files_equals_rocksdb(tmp_path: Path):
    assert compare_handles(BY_FLINK, tmp_path / "files")


@pytest.mark.slow
def test_scan_of_the_corpus_equals_rocksdb(corpus: Path, tmp_path: Path):
    assert compare_handles(corpus, tmp_path / "files") > 1000


# --- seeks ---


class CountedDirectory(Directory):
    """Counts how often RocksDB asks for the folder."""

    asked = 0

    def directory(self) -> Path:
        self.asked += 1
        return super().directory()


sought = st.integers(0, 40).map(lambda value: struct.pack(">BI", 7, value))
seek_writes = st.lists(
    st.one_of(
        st.tuples(st.sampled_from([PUT, MERGE]), sought, st.binary(max_size=5)),
        st.tuples(st.just(DELETE), sought, st.just(b"")),
    ),
    min_size=1,
    max_size=60,
)


@settings(
    max_examples=examples(10),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    rounds=st.lists(seek_writes, min_size=1, max_size=3),
    wanted=st.lists(sought, min_size=1, max_size=5),
    shape=shapes,
)
def test_seeks_equal_rocksdb_and_never_open_it(
    rounds: list[list[Write]], wanted: list[bytes], shape: Shape, tmp_path: Path, options_file: Path
):
    directory = CountedDirectory(written(tmp_path / "db", options_file, rounds, shape.adjust))
    expected = [through_rocksdb(directory.directory(), "state", key, key + b"\0") for key in wanted]
    database = RocksDatabase(directory, "db")
    directory.asked = 0

    # Again and again: the second time the index is at hand.
    found = [[pairs(database.entries("state", key, key + b"\0")) for key in wanted] for _ in range(40)]

    assert found == [expected] * 40
    assert directory.asked == 0
    database.close()


def test_lookups_make_no_folder_for_rocksdb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    state = next(
        state
        for operator in Savepoint(BY_FLINK / "2.3.0" / "wordcount-rocksdb-savepoints" / "native").operators
        for state in operator.states
        if any(isinstance(part.source, RocksSource) for part in state.parts)
    )
    asked = pa.Table.from_batches(state.read())["key"].to_pylist()[:40]

    found = []
    for key in asked:
        selection = Selection(keys=state.key_groups_of([key]))
        found += [row for batch in state.read(selection=selection) for row in batch["key"].to_pylist()]

    assert found == asked
    assert list(tmp_path.iterdir()) == []


def test_index_blocks_that_exceed_their_memory_are_read_again(
    tmp_path: Path, options_file: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("readers.formats.rocksdb.sst.table._INDEX_BLOCKS_BYTES", 500)
    rounds = [[(PUT, number(value), b"%d" % value) for value in range(first, 4000, 3)] for first in range(3)]
    database = SstDatabase(Directory(written(tmp_path, options_file, rounds)), "db")

    for value in [*range(0, 4000, 97), *range(0, 4000, 301)]:
        key = number(value)
        assert pairs(database.entries("state", key, key + b"\0", few=True)) == [(key, b"%d" % value)]


# --- what is for RocksDB ---


def some(count: int = 100) -> list[Write]:
    return [(PUT, struct.pack(">I", number), b"value %d" % number) for number in range(count)]


def number(value: int) -> bytes:
    return struct.pack(">I", value)


def test_range_tombstone_in_the_range_is_for_rocksdb(tmp_path: Path, options_file: Path):
    rounds = [some(), [(DELETE_RANGE, number(20), number(30))]]
    files = written(tmp_path, options_file, rounds)

    with pytest.raises(NotReadHereError, match="tombstone"):
        pairs(SstDatabase(Directory(files), "db").entries("state", number(29), number(40)))
    with pytest.raises(NotReadHereError, match="tombstone"):
        pairs(SstDatabase(Directory(files), "db").entries("state", b"", number(21)))

    assert pairs(RocksDatabase(Directory(files), "db").entries("state", b"", None)) == through_rocksdb(
        files, "state"
    )


def test_range_tombstone_elsewhere_does_not_matter(tmp_path: Path, options_file: Path):
    rounds = [some(), [(DELETE_RANGE, number(20), number(30))]]
    files = written(tmp_path, options_file, rounds)

    for first, behind in [(b"", number(20)), (number(30), None)]:
        expected = through_rocksdb(files, "state", first, behind)
        assert pairs(SstDatabase(Directory(files), "db").entries("state", first, behind)) == expected


@pytest.mark.parametrize("checksum", ["xxhash", "xxhash64"])
def test_unknown_checksum_is_for_rocksdb(tmp_path: Path, options_file: Path, checksum: str):
    shape = Shape(
        compression="none",
        checksum=checksum,
        format_version=5,
        block_size=4096,
        restart_interval=16,
        index_type="binary_search",
        data_block_index="binary_search",
    )
    files = written(tmp_path, options_file, [some()], shape.adjust)

    with pytest.raises(NotReadHereError, match="checksum"):
        pairs(SstDatabase(Directory(files), "db").entries("state", b"", None))

    assert pairs(RocksDatabase(Directory(files), "db").entries("state", b"", None)) == through_rocksdb(
        files, "state"
    )


def test_newer_table_format_is_for_rocksdb(tmp_path: Path, options_file: Path):
    def newest(options: rocksdict.Options) -> None:
        options.set_block_based_table_factory(rocksdict.BlockBasedOptions())

    files = written(tmp_path, options_file, [some()], newest)

    with pytest.raises(NotReadHereError, match="format"):
        pairs(SstDatabase(Directory(files), "db").entries("state", b"", None))


def test_ingested_table_is_for_rocksdb(tmp_path: Path, options_file: Path):
    writer = RocksWriter(tmp_path / "instance", FAMILIES, options_file)
    writer.write(iter([batch(some())]))
    table = rocksdict.SstFileWriter(writer.family_options)
    table.open(str(tmp_path / "ingested.sst"))
    table[number(5)] = b"ingested"
    table.finish()
    database = writer.open()
    database.get_column_family("state").ingest_external_file([str(tmp_path / "ingested.sst")])
    database.close()
    files = live(writer, tmp_path / "files")

    with pytest.raises(NotReadHereError, match="ingested"):
        pairs(SstDatabase(Directory(files), "db").entries("state", b"", None))

    assert (number(5), b"ingested") in pairs(
        RocksDatabase(Directory(files), "db").entries("state", b"", None)
    )


def test_unknown_entry_is_for_rocksdb_from_there_on(tmp_path: Path, options_file: Path):
    writer = RocksWriter(tmp_path / "instance", FAMILIES, options_file)
    unknown = PAGE_ENTRIES + 4000
    writer.write(iter([batch(some(PAGE_ENTRIES + 5000))]))
    database = writer.open()
    database.get_column_family("state").put_entity(number(unknown), names=[b""], values=[b"wide"])
    database.get_column_family("state").flush()
    database.close()
    files = live(writer, tmp_path / "files")

    pages = SstDatabase(Directory(files), "db").entries("state", b"", None)
    assert [len(next(pages)[1]) for _ in range(2)] == [PAGE_ENTRIES, 4000]
    with pytest.raises(NotReadHereError):
        next(pages)

    assert pairs(RocksDatabase(Directory(files), "db").entries("state", b"", None)) == through_rocksdb(
        files, "state"
    )


def test_write_ahead_log_is_for_rocksdb(tmp_path: Path, options_file: Path):
    files = written(tmp_path, options_file, [some()])
    (files / "000999.log").write_bytes(b"writes")

    with pytest.raises(NotReadHereError, match="log"):
        pairs(SstDatabase(Directory(files), "db").entries("state", b"", None))


def test_unknown_family_has_no_entries(tmp_path: Path, options_file: Path):
    files = written(tmp_path, options_file, [some()])

    assert pairs(RocksDatabase(Directory(files), "db").entries("nobody", b"", None)) == []


# --- hostile bytes ---


@pytest.fixture(
    scope="module", params=["snappy", "lz4", "zstd", "zlib", "none", "unchecked", "unchecked-snappy"]
)
def intact(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, options_file: Path
) -> Path:
    shape = Shape(
        compression=request.param.removeprefix("unchecked-").replace("unchecked", "none"),
        checksum="no_checksum" if request.param.startswith("unchecked") else "xxh3",
        format_version=5,
        block_size=256,
        restart_interval=4,
        index_type="two_level_index_search",
        data_block_index="binary_and_hash",
    )
    directory = tmp_path_factory.mktemp(request.param)
    lists = [(MERGE, number(value), b"element %d" % value) for value in range(0, 400, 3)]
    files = written(directory, options_file, [some(300), lists], shape.adjust)
    (files / shape.checksum).touch()
    return files


@pytest.fixture(scope="module")
def entries(intact: Path) -> list[Any]:
    return pairs(SstDatabase(Directory(intact), "db").entries("state", b"", None))


@pytest.fixture
def damaged(intact: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return Path(shutil.copytree(intact, tmp_path / "damaged"))


@settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_damaged_file_gives_an_error_or_the_same_entries(
    intact: Path, entries: list[Any], damaged: Path, data: st.DataObject
):
    is_checked = not (intact / "no_checksum").exists()
    names = sorted(file.name for file in intact.iterdir() if file.suffix == ".sst" or "MANIFEST" in file.name)
    file = damaged / data.draw(st.sampled_from(names))
    whole = (intact / file.name).read_bytes()
    content = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(content) - 1))
        content[position] = data.draw(st.integers(0, 255))
    if file.suffix == ".sst" and data.draw(st.integers(0, 9)) == 0:
        content = content[: data.draw(st.integers(0, len(content)))]
    file.write_bytes(content)

    try:
        found = pairs(SstDatabase(Directory(damaged), "db").entries("state", b"", None))
    except (CorruptDataError, NotReadHereError):
        return
    finally:
        file.write_bytes(whole)

    if is_checked:
        assert found == entries


def test_wrong_checksum_names_file_and_position(tmp_path: Path, options_file: Path):
    files = written(tmp_path, options_file, [some()])
    table = min(files.glob("*.sst"))
    content = bytearray(table.read_bytes())
    content[20] ^= 1
    table.write_bytes(content)

    database = RocksDatabase(Directory(files), "db")

    with pytest.raises(CorruptDataError, match="checksum") as found:
        [pairs(database.entries(family, b"", None)) for family in FAMILIES]

    assert found.value.path == f"db/{table.name}"
    assert found.value.position == 0


def test_missing_table_is_a_reader_error(tmp_path: Path, options_file: Path):
    files = written(tmp_path, options_file, [some()])
    for table in files.glob("*.sst"):
        table.unlink()

    with pytest.raises(ReaderError):
        pairs(RocksDatabase(Directory(files), "db").entries("state", b"", None))


# --- checksums and compression ---


def padded(data: bytes) -> np.ndarray:
    return np.frombuffer(data + bytes(64), dtype=np.uint8)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0x2D06800538D394C2),
        (b"a", 0xE6C632B61E964E1F),
        (b"abc", 0x78AF5F94892F3950),
    ],
)
def test_xxh3_of_known_inputs(data: bytes, expected: int):
    memory, scratch = padded(data), np.zeros(8, dtype=np.int64)

    found = xxh3(memory.ctypes.data, len(data), scratch.ctypes.data)

    assert found % 2**64 == expected


def test_crc32c_of_known_input():
    memory = padded(b"123456789")

    assert crc32c(0, memory.ctypes.data, 9) == 0xE3069283
    assert block_checksum(CRC32C, memory.ctypes.data, 8, 0) == masked(0xE3069283)


@given(crc=st.integers(0, 2**32 - 1), word=st.binary(min_size=8, max_size=8))
def test_crc32c_by_tables_equals_that_by_bytes(crc: int, word: bytes):
    memory = padded(word)
    halves = crc32c(crc ^ 0xFFFFFFFF, memory.ctypes.data, 3)
    expected = crc32c(halves, memory.ctypes.data + 3, 5) ^ 0xFFFFFFFF

    assert crc_word_by_tables(crc, int.from_bytes(word, "little", signed=True)) == expected


compressible = st.lists(
    st.one_of(st.binary(max_size=40), st.sampled_from([b"abc", b"abcabcabc", bytes(90)]))
).map(b"".join)
CODECS: dict[int, tuple[Callable[[bytes], Any], Callable[..., bool]]] = {
    SNAPPY: (cramjam.snappy.compress_raw, decompress_snappy),
    LZ4: (
        lambda data: varint(len(data)) + bytes(cramjam.lz4.compress_block(data, store_size=False)),
        decompress_lz4,
    ),
}


@pytest.mark.parametrize("kind", CODECS)
@given(data=compressible)
def test_decompression_undoes_compression(kind: int, data: bytes):
    compress, decompress = CODECS[kind]
    block = bytes(compress(data))
    memory, plain = padded(block), np.zeros(len(data) + 64, dtype=np.uint8)

    assert plain_length(kind, memory.ctypes.data, len(block)) == len(data)
    assert decompress(memory.ctypes.data, len(block), plain.ctypes.data, len(data))
    assert plain[: len(data)].tobytes() == data


@pytest.mark.parametrize("kind", CODECS)
@given(block=st.binary(max_size=200), size=st.integers(0, 300))
def test_decompression_of_any_bytes_stays_within_its_memory(kind: int, block: bytes, size: int):
    _, decompress = CODECS[kind]
    memory, plain = padded(block), np.full(size + 128, 0xAA, dtype=np.uint8)

    decompress(memory.ctypes.data, len(block), plain.ctypes.data, size)

    assert (plain[size + 64 :] == 0xAA).all()
