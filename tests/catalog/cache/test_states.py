"""The cache of decoded states: the same rows as the savepoint, or none, while processes write, die or change files."""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pytest

import catalog
from catalog import Catalog, statetables
from catalog.cache import states as module
from catalog.cache.files import CacheDirectory
from catalog.cache.states import StateCache
from catalog.errors import CorruptCacheError
from catalog.references import StateReference
from catalog.scan import ANYTHING, CachedSplit, Predicate, Scan
from catalog.statetables import StatesTable, StateTable
from readers.errors import ReaderError
from readers.jsontext import json_text
from tests.support.classwriter import class_file, write_jar
from tests.support.expected import Snapshot
from tests.support.paths import PROJECT
from tests.support.snapshots import COPIED, PACKED
from tests.support.thorough import thorough
from tests.support.unpacked import unpacked

FLINK = PROJECT / "tests" / "data" / "flink"
SAMPLE = FLINK / "2.3.0" / "wordcount-rocksdb-savepoints" / "native"
FAST = {
    "2.3.0/wordcount-rocksdb-savepoints/native",
    "2.3.0/everything-hashmap-savepoints/canonical",
    "1.20.3-changelog-hashmap-chk-1",
    "1.20.3-sql-join-hashmap-canonical",
}
LARGEST = 1 << 30


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[StateCache]:
    made = StateCache(tmp_path / "cache", LARGEST, least_bytes=0)
    yield made
    made.close()


def tables_of(connected: Catalog) -> Iterator[StateTable]:
    for name in connected.databases:
        database = connected.database(name)
        for table in map(database.table, database.tables):
            if isinstance(table, StateTable):
                yield table


def reference_of(table: StatesTable) -> StateReference:
    return table.reference(table.states[0])


def rows(scan: Scan) -> Counter[tuple[Any, ...]]:
    """Return the rows as text, because NaN does not equal itself; in no order."""
    columns = [json_text(column.combine_chunks()).to_pylist() for column in scan.to_arrow().columns]
    return Counter(zip(*columns, strict=True))


def is_cached(scan: Scan) -> bool:
    return bool(scan.splits) and all(isinstance(split, CachedSplit) for split in scan.splits)


@contextlib.contextmanager
def reading_keys_from_the_cache() -> Iterator[None]:
    """Have no key group be small enough to look up a key in it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statetables, "_WALKED_BYTES", -1)
        yield


# ---- the same rows ----


def check(snapshot: Snapshot, cache: StateCache) -> int:
    checked = 0
    plain = {table.name: table for table in tables_of(catalog.connect(snapshot.directory))}
    tables = list(tables_of(catalog.connect(snapshot.directory, cache=cache)))
    # The cache knows nothing of formats and types: of very many states some are enough.
    for table in tables[:: 1 + len(tables) // 50]:
        if "_key_group" not in table.schema.names:
            continue
        try:
            expected = rows(plain[table.name].scan())
            path = cache.write(reference_of(table))
        except ReaderError:
            continue
        if not expected or path is None:
            continue
        checked += 1
        scan = table.scan()
        assert is_cached(scan), table.name
        assert rows(scan) == expected
        assert (scan.bytes_read, scan.bytes_cached > 0) == (0, True)
        if checked % 5 == 1:
            check_predicates(table, plain[table.name])
    return checked


def check_predicates(table: StateTable, plain: StateTable) -> None:
    found = plain.scan(["key", "_key_group", "_subtask"]).to_arrow()
    key, group, subtask = (found.column(name)[0].as_py() for name in ("key", "_key_group", "_subtask"))
    for name, value in (("_key_group", group), ("_subtask", subtask), ("_key_group", -5)):
        condition: dict[str, Any] = {name: value}
        for columns in (None, [name]):
            scan = table.scan(columns, **condition)
            assert rows(scan) == rows(plain.scan(columns, **condition)), (table.name, name)
            assert scan.bytes_read == 0
    if not pa.types.is_nested(plain.schema.field("key").type):
        with reading_keys_from_the_cache():
            assert is_cached(table.scan(key=key))
            assert rows(table.scan(key=key)) == rows(plain.scan(key=key)), table.name
    both = Predicate({"key": (key,), "_subtask": (subtask,)})
    kept = Counter(
        {
            row: number
            for row, number in rows(plain.scan(["key"])).items()
            if row in rows(plain.scan(["key"], both))
        }
    )
    assert kept == kept & rows(table.scan(["key"], both))


@pytest.mark.parametrize("snapshot", thorough(COPIED, FAST), ids=lambda snapshot: snapshot.name)
def test_the_cache_has_the_rows_of_the_savepoint(snapshot: Snapshot, cache: StateCache) -> None:
    assert check(snapshot, cache) > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(FAST & {snapshot.name for snapshot in COPIED}))
def test_the_cache_has_the_rows_of_states_that_are_written_in_many_pieces(
    name: str, cache: StateCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHUNK_BYTES", 1)
    [snapshot] = [one for one in COPIED if one.name == name]

    assert check(snapshot, cache) > 0


@pytest.mark.slow
@pytest.mark.parametrize("archive", thorough((name for name in PACKED if "source-" not in name), FAST))
def test_the_cache_has_the_rows_of_packed_savepoints(archive: str, cache: StateCache, tmp_path: Path) -> None:
    assert check(unpacked(archive, tmp_path / "snapshot"), cache) > 0


@pytest.mark.slow
def test_all_states_of_an_operator_come_from_where_they_are(cache: StateCache) -> None:
    path = PROJECT / "tests/data/flink/2.3.0/everything-hashmap-savepoints/native"
    connected = catalog.connect(path, cache=cache)
    some = [table for table in tables_of(connected) if "_key_group" in table.schema.names][::2]
    for table in some:
        cache.write(reference_of(table))
    for name in connected.default.tables if connected.default else ():
        scan = connected.table(name).scan()
        assert rows(scan) == rows(catalog.connect(path).table(name).scan())


# ---- when there is an entry ----


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The sample savepoint, to be changed."""
    shutil.copytree(SAMPLE, tmp_path / "savepoint")
    return tmp_path / "savepoint"


def counts(path: Path, cache: StateCache) -> StateTable:
    table = catalog.connect(path, cache=cache).table("aggregate__count")
    assert isinstance(table, StateTable)
    return table


def read_whole(table: StateTable, elapsed_s: float = 0.0) -> Scan:
    scan = table.scan(["value"])
    scan.to_arrow()
    scan.completed(elapsed_s)
    return scan


def test_the_second_whole_scan_is_worth_an_entry(cache: StateCache) -> None:
    table = counts(SAMPLE, cache)

    read_whole(table)
    cache.flush()
    assert not is_cached(table.scan())
    read_whole(table)
    cache.flush()

    assert is_cached(table.scan())


def test_a_slow_scan_is_worth_an_entry_at_once(cache: StateCache) -> None:
    table = counts(SAMPLE, cache)

    read_whole(table, elapsed_s=module.SLOW_SCAN_S)
    cache.flush()

    assert is_cached(table.scan())


def test_parts_of_a_state_small_states_and_readers_only_make_no_entry(tmp_path: Path) -> None:
    for cache in (
        StateCache(tmp_path / "cache", LARGEST, least_bytes=0, writes=False),
        StateCache(tmp_path / "cache", LARGEST),
    ):
        read_whole(counts(SAMPLE, cache), elapsed_s=9)
        cache.close()
    cache = StateCache(tmp_path / "cache", LARGEST, least_bytes=0)
    for predicate in (
        Predicate({"key": ("key_1",)}),
        Predicate({"_key_group": (1,)}),
        Predicate({"_subtask": (1,)}),
    ):
        counts(SAMPLE, cache).scan(["value"], predicate).completed(9)
    cache.close()

    assert not (tmp_path / "cache").exists()


def test_an_entry_of_another_process_is_used(cache: StateCache) -> None:
    cache.write(reference_of(counts(SAMPLE, cache)))
    other: StateCache = pickle.loads(pickle.dumps(cache))

    with reading_keys_from_the_cache():
        scan = counts(SAMPLE, other).scan(key="key_662")

    assert is_cached(scan)
    assert [row["value"] for row in scan.to_arrow().to_pylist()] == [11290]
    [split] = pickle.loads(pickle.dumps(scan.splits))
    assert sum(batch.num_rows for batch in split.read()) > 0


def test_scans_of_a_table_share_what_they_mean_to_the_cache_in_another_process(cache: StateCache) -> None:
    table = counts(SAMPLE, cache)
    one, other, whole = (
        pickle.loads(pickle.dumps(scan)).cache_use
        for scan in (table.scan(key="key_662"), table.scan(key="key_1"), table.scan())
    )

    assert one is other
    assert (one.states, one.reads_whole_states) == ((reference_of(table),), False)
    assert (whole.states, whole.reads_whole_states) == ((reference_of(table),), True)


def test_an_entry_that_another_process_makes_meanwhile_is_used(cache: StateCache, tmp_path: Path) -> None:
    table = counts(SAMPLE, cache)
    other = StateCache(cache.directory.path, cache.directory.max_bytes, least_bytes=0)
    before = table.scan()
    other.write(reference_of(counts(SAMPLE, other)))

    assert not is_cached(before)
    assert is_cached(table.scan())


def test_a_key_is_looked_up_in_the_savepoint_where_its_key_group_is_small(cache: StateCache) -> None:
    table = counts(SAMPLE, cache)
    cache.write(reference_of(table))

    looked_up = table.scan(key="key_662")
    group = looked_up.to_arrow().column("_key_group")[0].as_py()
    whole = table.scan(_key_group=group)

    assert not is_cached(looked_up)
    assert is_cached(whole)
    assert rows(looked_up) <= rows(whole)


@pytest.mark.parametrize("name", ["_metadata", "sst"])
def test_files_that_changed_or_are_gone_are_not_answered_from_the_cache(
    copied: Path, cache: StateCache, name: str
) -> None:
    table = counts(copied, cache)
    cache.write(reference_of(table))
    assert is_cached(table.scan())
    file = (
        copied / "_metadata"
        if name == "_metadata"
        else max(copied.iterdir(), key=lambda one: one.stat().st_size)
    )

    os.utime(file, ns=(1, 1))
    assert not is_cached(table.scan())
    assert cache.write(reference_of(table)) is None
    file.unlink()
    assert not is_cached(table.scan())


def test_another_state_info_is_another_entry(copied: Path, cache: StateCache) -> None:
    cache.write(reference_of(counts(copied, cache)))
    (copied / "stateInfo").write_text('{"version": 1, "operators": []}')

    assert not is_cached(counts(copied, cache).scan())


def test_other_jars_are_other_entries(copied: Path, cache: StateCache, tmp_path: Path) -> None:
    jar = write_jar(tmp_path / "job.jar", {"a.A": class_file("a.A")})

    def is_known() -> bool:
        database = catalog.connect(copied, cache=cache, jars=[jar]).default
        assert database is not None
        return is_cached(database.table("aggregate__count").scan())

    cache.write(reference_of(counts(copied, cache)))
    assert is_cached(counts(copied, cache).scan())
    assert not is_known()
    other = class_file("a.A", fields=[("x", "I")])
    write_jar(jar, {"a.A": other})
    assert not is_known()


def test_files_that_change_while_an_entry_is_written_make_none(
    copied: Path, cache: StateCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = counts(copied, cache)
    write_rows = module._write_rows

    def changing(*arguments: Any) -> None:
        write_rows(*arguments)
        os.utime(copied / "_metadata", ns=(1, 1))

    monkeypatch.setattr(module, "_write_rows", changing)

    assert cache.write(reference_of(table)) is None
    assert not any(file.suffix == ".parquet" for file in cache.directory.path.iterdir())


def test_a_corrupt_entry_is_dropped_and_the_savepoint_answers(cache: StateCache) -> None:
    path = cache.write(reference_of(counts(SAMPLE, cache)))
    assert path is not None
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    other: StateCache = pickle.loads(pickle.dumps(cache))

    with pytest.raises(CorruptCacheError, match="expected a cache file of digest"):
        other.directory.check(path)
    with reading_keys_from_the_cache():
        scan = counts(SAMPLE, other).scan(key="key_662")

    assert [row["value"] for row in scan.to_arrow().to_pylist()] == [11290]
    assert scan.bytes_read > 0
    assert not path.exists()


def test_an_entry_that_is_evicted_before_it_is_read_costs_nothing(cache: StateCache) -> None:
    table = counts(SAMPLE, cache)
    path = cache.write(reference_of(table))
    assert path is not None
    scan = table.scan()
    assert is_cached(scan)

    path.unlink()

    assert rows(scan) == rows(counts(SAMPLE, cache).scan(None, ANYTHING))
    assert scan.bytes_read > 0


# ---- the directory ----

WRITER = """
import sys, time
from pathlib import Path
from catalog.cache.files import CacheDirectory

def fill(file):
    file.write(b"half")
    file.flush()
    print("half", flush=True)
    time.sleep(600)

CacheDirectory(Path(sys.argv[1]), 1 << 20).write("abc", fill)
"""


@pytest.fixture
def killed(tmp_path: Path) -> Iterator[tuple[CacheDirectory, subprocess.Popen[str]]]:
    """A process that is in the middle of an entry."""
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=PROJECT
    )
    assert writer.stdout is not None
    assert writer.stdout.readline() == "half\n"
    yield CacheDirectory(tmp_path, 1 << 20), writer
    writer.kill()
    writer.wait()
    writer.stdout.close()


def test_half_an_entry_is_none_and_its_writer_is_alone(
    killed: tuple[CacheDirectory, subprocess.Popen[str]],
) -> None:
    directory, _ = killed

    directory.sweep()

    assert directory.find("abc") is None
    assert directory.write("abc", lambda file: None) is None
    assert [file.name for file in directory.path.iterdir()] == ["abc.partial"]


def test_what_a_killed_writer_left_is_swept_or_written_over(
    killed: tuple[CacheDirectory, subprocess.Popen[str]],
) -> None:
    directory, writer = killed
    writer.send_signal(signal.SIGKILL)
    writer.wait()

    assert directory.find("abc") is None
    path = directory.write("abc", lambda file: written(file, b"whole"))
    assert path is not None
    assert path.read_bytes() == b"whole"
    (directory.path / "def.partial").write_bytes(b"half")
    directory.sweep()
    assert sorted(file.name for file in directory.path.iterdir()) == [path.name, "lock"]


def written(file: BinaryIO, content: bytes) -> None:
    file.write(content)


def test_of_two_writers_at_once_one_writes(tmp_path: Path) -> None:
    directory = CacheDirectory(tmp_path, 1 << 20)
    inside, go = threading.Event(), threading.Event()

    def slow(file: BinaryIO) -> None:
        inside.set()
        go.wait()
        file.write(b"first")

    thread = threading.Thread(target=directory.write, args=("abc", slow))
    thread.start()
    inside.wait()
    second = directory.write("abc", lambda file: written(file, b"second"))
    go.set()
    thread.join()

    assert second is None
    found = directory.find("abc")
    assert found is not None
    assert found.read_bytes() == b"first"


def test_the_least_recently_used_entries_go(tmp_path: Path) -> None:
    directory = CacheDirectory(tmp_path, 300)
    paths = {key: directory.write(key, lambda file: written(file, b"x" * 100)) for key in ("aa", "bb", "cc")}
    for age, key in enumerate(("bb", "cc", "aa")):
        os.utime(str(paths[key]), (age, age))

    directory.write("dd", lambda file: written(file, b"y" * 150))

    assert {key for key in ("aa", "bb", "cc", "dd") if directory.find(key)} == {"aa", "dd"}
    assert directory.size_bytes == 250
    assert directory.write("ee", lambda file: written(file, b"z" * 301)) is None
    assert directory.size_bytes == 250


def test_an_error_in_the_middle_leaves_nothing(tmp_path: Path) -> None:
    directory = CacheDirectory(tmp_path, 300)

    def broken(file: BinaryIO) -> None:
        file.write(b"half")
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        directory.write("aa", broken)

    assert list(directory.path.iterdir()) == []
