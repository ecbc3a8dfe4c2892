"""Two instances of RocksDB compared: the entries that differ, as if both were read whole, and no table that both have."""

from __future__ import annotations

import random
import shutil
import struct
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path

import pytest
import rocksdict
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from readers.decode.decoder import Page
from readers.errors import CorruptDataError, MissingFileError
from readers.formats.rocksdb.source import RocksSource
from readers.formats.source import Selection, StateName
from readers.savepoint import Savepoint
from tests.support.examples import examples
from tests.support.objectstore import ObjectStore, Proxy, Request
from tests.support.paths import DATA
from tests.support.sstfiles import (
    STATES,
    Shape,
    Write,
    batch,
    checkpoint,
    keys,
    lawful,
    rocks_sources,
    shapes,
    writes,
)
from tools.synthetic.rocksdb import DELETE, DELETE_RANGE, FLINK, MERGE, PUT, RocksWriter, flink_options

COUNT = StateName(name="count")
Pair = tuple[bytes, bytes]


@pytest.fixture(scope="module")
def options_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """OPTIONS as Flink writes them: with its merge operator."""
    return flink_options(FLINK, tmp_path_factory.mktemp("options"))


def entries(pages: Iterable[Page]) -> list[Pair]:
    found = []
    for page in pages:
        memory = page.data.tobytes()
        for (key, value), (key_end, end) in zip(page.starts.tolist(), page.ends.tolist(), strict=True):
            found.append((memory[key:key_end], memory[value:end]))
    return found


def source_of(directory: Path | str) -> RocksSource:
    """The first source of RocksDB of a savepoint."""
    operators = Savepoint(directory).operators
    parts = (part for operator in operators for state in operator.states for part in state.parts)
    return next(rocks_sources(part.source for part in parts))


def differing(
    before: RocksSource, after: RocksSource, state: StateName, selection: Selection | None = None
) -> tuple[list[Pair], list[Pair]]:
    """The entries that differ, of both sides; each key is in one pair of pages only."""
    pairs = before.differing(state, after, state, selection or Selection())
    assert pairs is not None
    found: tuple[list[Pair], list[Pair]] = ([], [])
    last = b""
    for pages in pairs:
        sides = entries(pages.before), entries(pages.after)
        keys = sorted({key for side in sides for key, _ in side})
        if not keys:
            continue
        assert not found[0] + found[1] or keys[0] > last
        last = keys[-1]
        found[0].extend(sides[0])
        found[1].extend(sides[1])
    return found


def expected(
    before: RocksSource, after: RocksSource, state: StateName, selection: Selection | None = None
) -> tuple[list[Pair], list[Pair]]:
    """The entries that differ, of both sides read whole."""
    selection = selection or Selection()
    one = entries(before.pages(state, selection))
    other = entries(after.pages(state, selection))
    return sorted(set(one) - set(other)), sorted(set(other) - set(one))


# --- random writes ---


@settings(
    max_examples=examples(20),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    rounds=st.lists(st.lists(writes, min_size=1, max_size=60), min_size=2, max_size=5),
    shape=shapes,
    between=st.integers(1, 4),
    compacted=st.integers(-1, 4),
    deleted=st.one_of(st.none(), st.tuples(st.integers(0, 4), keys, keys)),
    groups=st.tuples(st.integers(0, 2), st.integers(1, 9)),
    most=st.sampled_from([2, 1 << 13]),
    share=st.sampled_from([4, 1 << 30]),
)
def test_differing_entries_are_those_of_both_read_whole(
    tmp_path: Path,
    options_file: Path,
    rounds: list[list[Write]],
    shape: Shape,
    between: int,
    compacted: int,
    deleted: tuple[int, bytes, bytes] | None,
    groups: tuple[int, int],
    most: int,
    share: int,
) -> None:
    """Whatever is put, appended, deleted and compacted between two checkpoints of an instance."""
    directory = tmp_path / "db"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    writer = RocksWriter(directory / "instance", STATES, options_file, shape.adjust)
    made = list(lawful(rounds))
    if deleted is not None and deleted[0] < len(made):
        first, behind = sorted(deleted[1:])
        made[deleted[0]].append((DELETE_RANGE, first, behind + b"\x03"))
    between = min(between, len(made) - 1)
    for number, write in enumerate(made):
        if number == between:
            checkpoint(writer, directory / "before", groups)
        writer.write(iter([batch(write), batch(write, family=2)]))
        if number == compacted:
            compact(writer)
    checkpoint(writer, directory / "after")

    before, after = source_of(directory / "before"), source_of(directory / "after")

    common = Selection(key_groups=frozenset(range(groups[0], groups[0] + groups[1])))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("readers.formats.rocksdb.source._MAX_KEYS", most)
        patch.setattr("readers.formats.rocksdb.source._LEAST_SHARE", share)
        patch.setattr("readers.formats.rocksdb.sst.files._KEPT_BYTES", 300 * most)
        for name in STATES:
            state = StateName(name=name)
            assert differing(before, after, state) == expected(before, after, state, common)
            assert differing(after, before, state) == expected(after, before, state, common)
            assert differing(after, after, state) == ([], [])


def compact(writer: RocksWriter) -> None:
    database = writer.open()
    database.get_column_family("count").compact_range(None, None)
    database.close()


def number(value: int) -> bytes:
    """A key of one of eight key groups."""
    return struct.pack(">BI", value % 8, value)


def filled(
    directory: Path,
    options_file: Path,
    count: int,
    adjust: Callable[[rocksdict.Options], None] = lambda _: None,
) -> RocksWriter:
    """An instance with a compacted table of keys of about 60 bytes each, and some in a smaller one above it."""
    writer = RocksWriter(directory, STATES, options_file, adjust)
    chance = random.Random(1)
    writer.write(iter([batch([(PUT, number(key), chance.randbytes(60)) for key in range(count)])]))
    compact(writer)
    some = [(PUT, number(key), chance.randbytes(60)) for key in range(0, count, 97)]
    writer.write(iter([batch(some)]))
    return writer


def size_of(directory: Path) -> int:
    return sum(file.stat().st_size for file in directory.glob("*.sst"))


def own_size(directory: Path, other: Path) -> int:
    """Bytes of the tables that another checkpoint of the instance has not."""
    return sum(file.stat().st_size for file in directory.glob("*.sst") if not (other / file.name).exists())


def test_of_shared_tables_only_blocks_with_keys_that_changed_are_read(
    tmp_path: Path, options_file: Path
) -> None:
    writer = filled(tmp_path / "db", options_file, 20_000)
    before = source_of(checkpoint(writer, tmp_path / "before"))
    changed = [1, 4096, 4097, 19_999]
    writes = [(PUT, number(key), b"new") for key in changed]
    writer.write(iter([batch([*writes, (DELETE, number(777), b""), (MERGE, number(70_000), b"more")])]))
    after = source_of(checkpoint(writer, tmp_path / "after"))
    read: list[int] = []

    found = differing(before, after, COUNT, Selection(account=read.append))

    assert found == expected(before, after, COUNT)
    assert [key for key, _ in found[0]] == sorted(map(number, [*changed, 777]))
    assert dict(found[1]) == {number(70_000): b"more"} | {number(key): b"new" for key in changed}
    total, own = size_of(tmp_path / "after"), own_size(tmp_path / "after", tmp_path / "before")
    assert total > 1_400_000
    assert own < 5_000
    # The new table; the ends of two tables with an index each; a block of either table for each key.
    assert sum(read) < own + 12_000 + 2 * 4_200 * len(found[0])


def test_checkpoints_with_the_same_tables_are_not_read(tmp_path: Path, options_file: Path) -> None:
    writer = filled(tmp_path / "db", options_file, 2_000)
    before = source_of(checkpoint(writer, tmp_path / "before"))
    after = source_of(checkpoint(writer, tmp_path / "after"))
    read: list[int] = []

    found = differing(before, after, COUNT, Selection(account=read.append))

    assert found == ([], [])
    assert sum(read) == 0


def test_copies_of_tables_count_as_shared_and_are_read_once(tmp_path: Path, options_file: Path) -> None:
    writer = filled(tmp_path / "db", options_file, 2_000)
    before = source_of(checkpoint(writer, tmp_path / "before"))
    shutil.copytree(tmp_path / "before", tmp_path / "after")
    after = source_of(tmp_path / "after")
    read: list[int] = []

    assert differing(before, after, COUNT, Selection(account=read.append)) == ([], [])

    tables = size_of(tmp_path / "after")
    assert sum(read) == 2 * tables
    assert differing(before, after, COUNT, Selection(account=read.append)) == ([], [])
    assert sum(read) == 2 * tables


@pytest.mark.slow
def test_copy_that_differs_in_a_byte_is_read_and_found_damaged(tmp_path: Path, options_file: Path) -> None:
    writer = filled(tmp_path / "db", options_file, 2_000)
    before = source_of(checkpoint(writer, tmp_path / "before"))
    shutil.copytree(tmp_path / "before", tmp_path / "after")
    table = max((tmp_path / "after").glob("*.sst"), key=lambda file: file.stat().st_size)
    data = bytearray(table.read_bytes())
    data[1000] ^= 1
    table.unlink()
    table.write_bytes(data)

    with pytest.raises(CorruptDataError, match="another checksum"):
        differing(before, source_of(tmp_path / "after"), COUNT)


def test_shared_table_that_is_gone_is_an_error(tmp_path: Path, options_file: Path) -> None:
    writer = filled(tmp_path / "db", options_file, 2_000)
    before = source_of(checkpoint(writer, tmp_path / "before"))
    after = source_of(checkpoint(writer, tmp_path / "after"))
    next((tmp_path / "after").glob("*.sst")).unlink()

    with pytest.raises(MissingFileError, match="sst"):
        differing(before, after, COUNT)


def test_deleted_range_differs(tmp_path: Path, options_file: Path) -> None:
    """A range tombstone stands in a small table, and hides keys of shared ones."""
    writer = filled(tmp_path / "db", options_file, 4_000)
    before = source_of(checkpoint(writer, tmp_path / "before"))
    writer.write(iter([batch([(DELETE_RANGE, number(8), number(80)), (PUT, number(16), b"again")])]))
    after = source_of(checkpoint(writer, tmp_path / "after"))

    found = differing(before, after, COUNT)

    assert found == expected(before, after, COUNT)
    assert [key for key, _ in found[0]] == [number(key) for key in range(8, 80, 8)]
    assert found[1] == [(number(16), b"again")]


@pytest.mark.slow
def test_deleted_range_of_other_key_groups_does_not_matter(tmp_path: Path, options_file: Path) -> None:
    """A rescaled subtask deletes the key groups that it lost; those are outside of its handle."""
    writer = filled(tmp_path / "db", options_file, 20_000)
    before = source_of(checkpoint(writer, tmp_path / "before", (0, 4)))
    writer.write(iter([batch([(DELETE_RANGE, b"\x04", b"\x08"), (PUT, number(16), b"again")])]))
    after = source_of(checkpoint(writer, tmp_path / "after", (0, 4)))
    read: list[int] = []

    found = differing(before, after, COUNT, Selection(account=read.append))

    assert found[1] == [(number(16), b"again")]
    assert sum(read) < size_of(tmp_path / "after") / 10


@pytest.mark.slow
def test_more_keys_than_are_looked_up_at_once(tmp_path: Path, options_file: Path) -> None:
    """Small tables in several levels, and changes all over them."""

    def small_files(options: rocksdict.Options) -> None:
        options.set_target_file_size_base(200_000)
        options.set_max_bytes_for_level_base(600_000)

    writer = filled(tmp_path / "db", options_file, 60_000, small_files)
    before = source_of(checkpoint(writer, tmp_path / "before"))
    changes = [(PUT, number(key), struct.pack(">I", key)) for key in range(0, 60_000, 6)]
    writer.write(iter([batch(changes)]))
    after = source_of(checkpoint(writer, tmp_path / "after"))

    found = differing(before, after, COUNT)

    assert found == expected(before, after, COUNT)
    assert len(found[0]) == len(found[1]) == 10_000


@pytest.mark.slow
def test_instances_that_share_nothing_are_compared(tmp_path: Path, options_file: Path) -> None:
    one = checkpoint(filled(tmp_path / "db1", options_file, 3_000), tmp_path / "before")
    other = checkpoint(filled(tmp_path / "db2", options_file, 3_500), tmp_path / "after")
    before, after = source_of(one), source_of(other)

    assert differing(before, after, COUNT) == expected(before, after, COUNT)


@pytest.mark.slow
def test_selection_leaves_out_other_key_groups(tmp_path: Path, options_file: Path) -> None:
    writer = filled(tmp_path / "db", options_file, 2_000)
    before = source_of(checkpoint(writer, tmp_path / "before"))
    writer.write(iter([batch([(PUT, number(key), b"new") for key in range(16)])]))
    after = source_of(checkpoint(writer, tmp_path / "after"))

    found = differing(before, after, COUNT, Selection(key_groups=frozenset({2, 5})))

    assert [key for key, _ in found[1]] == [number(2), number(10), number(5), number(13)]


@pytest.mark.slow
def test_ingested_table_is_compared_through_rocksdb(tmp_path: Path, options_file: Path) -> None:
    """The sequence number of its entries stands outside of their keys."""
    writer = filled(tmp_path / "db", options_file, 2_000)
    before = source_of(checkpoint(writer, tmp_path / "before"))
    table = rocksdict.SstFileWriter(writer.family_options)
    table.open(str(tmp_path / "ingested.sst"))
    table[number(8)] = b"ingested"
    table.finish()
    database = writer.open()
    database.get_column_family("count").ingest_external_file([str(tmp_path / "ingested.sst")])
    database.close()
    after = source_of(checkpoint(writer, tmp_path / "after"))

    found = differing(before, after, COUNT)

    assert found == expected(before, after, COUNT)
    assert found[1] == [(number(8), b"ingested")]


# --- in an object store ---


def moved(directory: Path, tables: str) -> None:
    """Move the tables of a checkpoint into another folder, under their own names there, as Flink shares them."""
    data = (directory / "_metadata").read_bytes()
    for file in directory.glob("*.sst"):
        name, size = file.name.encode(), file.stat().st_size
        path = f"{tables}/{file.name}".encode()
        relative = b"\x06" + struct.pack(">H", len(name)) + name + struct.pack(">q", size)
        absolute = b"\x02" + struct.pack(">q", size) + struct.pack(">H", len(path)) + path
        assert data.count(relative) == 1
        data = data.replace(relative, absolute)
        file.unlink()
    (directory / "_metadata").write_bytes(data)


def compared_remotely(
    directory: Path, options_file: Path, store: ObjectStore, proxy: Proxy, writes: list[Write]
) -> tuple[int, list[Request]]:
    """Compare two checkpoints in an object store, between which are some writes.

    Returns the size of the largest shared table, and the requests for tables.
    """
    writer = filled(directory / "db", options_file, 60_000)
    checkpoint(writer, directory / "before")
    writer.write(iter([batch(writes)]))
    checkpoint(writer, directory / "after")
    tables = {file.name: file.read_bytes() for file in (directory / "after").glob("*.sst")}
    wanted = expected(source_of(directory / "before"), source_of(directory / "after"), COUNT)
    for name, content in tables.items():
        store.put(f"{directory.name}/shared/{name}", content)
    for side in ("before", "after"):
        moved(directory / side, proxy.url(f"{directory.name}/shared").partition("?")[0])
        store.upload(directory / side, f"{directory.name}/chk-{side}")
    before, after = (source_of(proxy.url(f"{directory.name}/chk-{side}")) for side in ("before", "after"))
    proxy.taken()

    assert differing(before, after, COUNT) == wanted

    asked = [one for one in proxy.taken() if one.method == "GET" and one.key.endswith(".sst")]
    return max(map(len, tables.values())), asked


@pytest.mark.slow
def test_shared_tables_in_an_object_store_are_not_fetched(
    tmp_path: Path, options_file: Path, store: ObjectStore, proxy: Proxy
) -> None:
    writes = [(PUT, number(key), b"new") for key in (1, 30_000, 59_999)]

    size, asked = compared_remotely(
        tmp_path, options_file, store, proxy, [*writes, (DELETE, number(777), b"")]
    )

    fetched = sum(one.size_bytes for one in asked)
    assert size > 4_000_000
    assert 0 < fetched < size / 5


@pytest.mark.slow
def test_shared_table_in_an_object_store_that_is_needed_all_over_is_fetched_whole(
    tmp_path: Path, options_file: Path, store: ObjectStore, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each of many small sets of keys would send requests of its own."""
    monkeypatch.setattr("readers.formats.rocksdb.source._MAX_KEYS", 200)
    monkeypatch.setattr("readers.formats.rocksdb.sst.scan._MOST_WARM_BYTES", 20_000)
    writes = [(PUT, number(key), b"new") for key in range(0, 60_000, 6)]

    size, asked = compared_remotely(tmp_path, options_file, store, proxy, writes)

    assert sum(one.size_bytes for one in asked) < 1.5 * size
    assert len(asked) < 20


# --- what Flink wrote ---


def sources_of(directory: Path) -> list[tuple[str, RocksSource]]:
    """The sources of RocksDB of a savepoint, each once, with their operators."""
    found: dict[int, tuple[str, RocksSource]] = {}
    for operator in Savepoint(directory).operators:
        parts = [part.source for state in operator.states for part in state.parts]
        found |= {id(source): (operator.operator_id, source) for source in rocks_sources(parts)}
    return list(found.values())


def compare_all(folder: Path) -> int:
    """Compare each two checkpoints and native savepoints of a folder, subtask with subtask; return how many entries differ."""
    differ = 0
    savepoints = sorted(metadata.parent for metadata in folder.rglob("_metadata"))
    for one, other in pairwise(savepoints):
        news = sources_of(other)
        for operator, before in sources_of(one):
            for after in (source for known, source in news if known == operator):
                ours, theirs = before.key_group_range, after.key_group_range
                common = frozenset(range(max(ours.start, theirs.start), min(ours.end, theirs.end) + 1))
                if not common or not before.entries.keys() & after.entries.keys():
                    continue
                if before.max_parallelism != after.max_parallelism:
                    state = next(iter(before.entries))
                    assert before.differing(state, after, state, Selection()) is None
                    continue
                for state in before.entries.keys() & after.entries.keys():
                    selection = Selection(key_groups=common)
                    found = differing(before, after, state, selection)
                    assert found == expected(before, after, state, selection)
                    differ += len(found[0]) + len(found[1])
    return differ


@pytest.mark.parametrize("version", ["1.20.3", "2.3.0"])
def test_checkpoints_of_flink_differ_as_their_entries_do(version: str) -> None:
    assert compare_all(DATA / "flink" / version / "wordcount-rocksdb-checkpoint-incremental") > 100


CASES = (
    "1.20.3/allstates-rocksdb",
    "1.20.3/changelog-rocksdb-materialized",
    "1.20.3/filemerging-rocksdb-across",
    "1.20.3/wordcount-rocksdb-checkpoint-incremental-inline",
    "1.20.3/wordcount-rocksdb-maxpar1000",
    "2.3.0/forst",
)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_states_of_the_corpus_differ_as_their_entries_do(corpus: Path, case: str) -> None:
    compare_all(corpus / case)


@pytest.mark.slow
def test_rescaled_checkpoints_of_flink_differ_as_their_entries_do(corpus: Path, tmp_path: Path) -> None:
    base, rescaled = (
        corpus / "1.20.3" / name
        for name in ("wordcount-rocksdb-rescale-base", "wordcount-rocksdb-rescaled-3")
    )
    shutil.copytree(base, tmp_path / "a" / "base")
    shutil.copytree(rescaled, tmp_path / "a" / "rescaled")

    compare_all(tmp_path / "a")
