"""The tables of savepoints, remembered on disk: the same as those of the headers, and never those of other files."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import catalog
from catalog.cache.listings import ListedTable, ListingCache
from catalog.cache.states import StateCache
from catalog.stateinfo import write
from readers import operator_id_of
from tests.support.paths import DATA

FLINK = DATA / "flink" / "2.3.0"
SAVEPOINTS = [
    FLINK / "wordcount-rocksdb-savepoints" / "native",
    FLINK / "everything-hashmap-savepoints" / "native",
]
# Without uids in `_metadata`.
OLD = DATA / "flink" / "1.20.3" / "wordcount-rocksdb-savepoints" / "native"
AGGREGATE = operator_id_of("aggregate")
Listed = list[tuple[str, str, pa.Schema]]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A directory for a cache."""
    return tmp_path / "cache"


@pytest.fixture
def savepoint(tmp_path: Path) -> Path:
    """A copy of a savepoint, with an old time."""
    copy = tmp_path / "savepoint-1"
    shutil.copytree(SAVEPOINTS[1], copy)
    return copy


def listed(savepoint: Path, directory: Path | None, **options: object) -> Listed:
    """What a process that has just begun lists."""
    cache = None if directory is None else StateCache(directory, 1 << 20)
    found = catalog.connect(savepoint, cache=cache, **options)  # type: ignore[arg-type]
    tables = found.database(found.databases[0]).listed()
    return [(table.name, table.comment, table.schema) for table in tables]


def remembered(directory: Path) -> list[Path]:
    return sorted((directory / "tables").glob("*.tables"))


def without_state_files(savepoint: Path) -> None:
    for path in savepoint.iterdir():
        if path.name != "_metadata":
            shutil.rmtree(path) if path.is_dir() else path.unlink()


@pytest.mark.parametrize("savepoint", SAVEPOINTS, ids=lambda path: str(path.name))
def test_remembered_tables_are_those_of_the_headers(savepoint: Path, directory: Path) -> None:
    expected = listed(savepoint, None)

    assert listed(savepoint, directory) == expected
    assert listed(savepoint, directory) == expected
    assert len(remembered(directory)) == 1
    for (_, _, schema), (_, _, other) in zip(listed(savepoint, directory), expected, strict=True):
        assert schema.equals(other, check_metadata=True)


def test_a_process_that_begins_reads_nothing_of_the_savepoint(savepoint: Path, directory: Path) -> None:
    expected = listed(savepoint, directory)
    without_state_files(savepoint)
    metadata = savepoint / "_metadata"
    status = metadata.stat()
    # The same size and time, so nothing shows that it was changed.
    with metadata.open("r+b") as file:
        file.seek(4)
        file.write(bytes(status.st_size - 4))
    os.utime(metadata, ns=(status.st_atime_ns, status.st_mtime_ns))

    assert listed(savepoint, directory) == expected


def test_another_metadata_has_other_tables(savepoint: Path, directory: Path) -> None:
    expected = listed(savepoint, directory)
    shutil.rmtree(savepoint)
    shutil.copytree(SAVEPOINTS[0], savepoint)

    assert listed(savepoint, directory) == listed(savepoint, None) != expected


def test_a_state_info_that_comes_later_counts(tmp_path: Path, directory: Path) -> None:
    savepoint = tmp_path / "old"
    shutil.copytree(OLD, savepoint)
    before = [name for name, *_ in listed(savepoint, directory)]
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"vertices": [{"id": AGGREGATE, "name": "aggregate -> Sink: out"}]}))
    write(str(savepoint), plan=str(plan))
    after = [name for name, *_ in listed(savepoint, directory)]

    assert ("aggregate" in before, "aggregate" in after) == (False, True)


def test_jars_that_are_given_count(directory: Path) -> None:
    savepoint = DATA / "corpus" / "1.20.3" / "alltypes-hashmap" / "canonical"
    jars = [DATA / "classes" / "jobs.jar"]

    without = dict.fromkeys(name for name, *_ in listed(savepoint, directory))
    schemas = [
        {name: schema for name, _, schema in listed(savepoint, directory, jars=given)} for given in ([], jars)
    ]

    name = next(name for name in without if name.endswith("v_kryo_generic"))
    assert [str(schema[name].field("value").type) for schema in schemas] == ["binary", "string"]


def test_uids_that_are_given_count(directory: Path) -> None:
    with_uid = [name for name, *_ in listed(OLD, directory, uids=["aggregate"])]
    without = [name for name, *_ in listed(OLD, directory)]

    assert ("aggregate" in with_uid, "aggregate" in without) == (True, False)


def test_tables_of_a_savepoint_with_missing_files_are_not_remembered(
    savepoint: Path, directory: Path
) -> None:
    without_state_files(savepoint)
    listed(savepoint, directory)

    assert remembered(directory) == []


def truncated(content: bytes) -> bytes:
    return content[:-1]


def flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def emptied(_content: bytes) -> bytes:
    return b""


def replaced(_content: bytes) -> bytes:
    return hashlib.blake2b(b"hostile", digest_size=16).digest() + b"hostile"


@pytest.mark.parametrize("damage", [truncated, flipped, emptied, replaced])
def test_a_damaged_file_is_made_anew(
    savepoint: Path, directory: Path, damage: Callable[[bytes], bytes]
) -> None:
    expected = listed(savepoint, directory)
    [path] = remembered(directory)
    good = path.read_bytes()
    path.write_bytes(damage(good))

    assert listed(savepoint, directory) == expected
    assert path.read_bytes() == good


def test_a_directory_that_cannot_be_written_changes_no_answer(savepoint: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    assert listed(savepoint, tmp_path / "file") == listed(savepoint, None)


def test_a_directory_has_a_largest_size(directory: Path) -> None:
    found = catalog.connect(SAVEPOINTS[1])
    listed_tables = found.database(found.databases[0]).listed()
    tables = [ListedTable(one.name, one.comment, one.schema) for one in listed_tables]
    size = 20_000
    cache = ListingCache(directory, size)
    for number in range(1000):
        cache.write(f"{number:032x}", tables[: number % 3 + 1])

    assert sum(path.stat().st_size for path in directory.iterdir()) <= size
    assert cache.read(f"{999:032x}") is not None
    assert cache.read(f"{0:032x}") is None


def test_a_cache_that_is_not_to_grow_remembers_nothing(savepoint: Path, directory: Path) -> None:
    cache = StateCache(directory, 1 << 20, writes=False)
    found = catalog.connect(savepoint, cache=cache)

    assert [table.name for table in found.database(found.databases[0]).listed()]
    assert not directory.exists()
