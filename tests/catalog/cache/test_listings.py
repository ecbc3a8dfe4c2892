"""The tables of savepoints, remembered on disk: the same as those of the headers, and never those of other files."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import catalog
from catalog.cache.files import ListedTable, ListingCache
from catalog.cache.states import StateCache
from catalog.stateinfo import write
from readers import ReaderError, operator_id_of
from tests.support.paths import DATA

FLINK = DATA / "flink" / "2.3.0"
SAVEPOINTS = [
    FLINK / "wordcount-rocksdb-savepoints" / "native",
    FLINK / "everything-hashmap-savepoints" / "native",
]
CHECKPOINTS = FLINK / "wordcount-rocksdb-checkpoint-incremental" / "checkpoint"
ALL = sorted(path.parent for path in FLINK.rglob("_metadata") if path.parent.parent != CHECKPOINTS)
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


def test_lines_of_other_savepoints_with_the_same_tables_have_a_largest_size(directory: Path) -> None:
    size = 20_000
    cache = ListingCache(directory, size)
    table = ListedTable("one", "", pa.schema([("key", pa.string())]))
    for number in range(2000):
        key = f"{number:032x}"
        if number == 0 or cache.link(key, f"{number - 1:032x}") is None:
            cache.write(key, [table])

    assert sum(path.stat().st_size for path in directory.iterdir()) <= size
    assert ListingCache(directory, size).read(f"{1999:032x}") == (table,)
    assert cache.link(f"{3000:032x}", f"{4000:032x}") is None


def test_a_cache_that_is_not_to_grow_remembers_nothing(savepoint: Path, directory: Path) -> None:
    cache = StateCache(directory, 1 << 20, writes=False)
    found = catalog.connect(savepoint, cache=cache)

    assert [table.name for table in found.database(found.databases[0]).listed()]
    assert not directory.exists()


def test_savepoints_with_the_same_tables_share_what_is_remembered(tmp_path: Path, directory: Path) -> None:
    for number in range(3):
        shutil.copytree(SAVEPOINTS[0], tmp_path / "root" / f"savepoint-{number}")

    def all_listed() -> list[object]:
        found = catalog.connect(tmp_path / "root", cache=StateCache(directory, 1 << 20))
        return [found.database(name).listed() for name in found.databases]

    first, again = all_listed(), all_listed()

    assert len(remembered(directory)) == 1
    assert len({id(tables) for tables in again}) == 1
    assert [[table.name for table in tables] for tables in first] == [  # type: ignore[attr-defined]
        [table.name for table in tables]  # type: ignore[attr-defined]
        for tables in again
    ]


def checkpoints(root: Path, directory: Path | None, **options: object) -> dict[str, Listed]:
    """What a process that has just begun lists of all savepoints under a root, by folder."""
    cache = None if directory is None else StateCache(directory, 1 << 20)
    found = catalog.connect(root, cache=cache, **options)  # type: ignore[arg-type]
    return {
        database.folder: [(table.name, table.comment, table.schema) for table in database.listed()]
        for database in found.known()
    }


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A copy of a job with two checkpoints."""
    shutil.copytree(CHECKPOINTS, tmp_path / "job")
    return tmp_path / "job"


def test_the_next_checkpoint_of_a_job_has_the_tables_of_the_one_before(job: Path, directory: Path) -> None:
    found = catalog.connect(job, cache=StateCache(directory, 1 << 20))
    first, second = (found.database(name) for name in found.databases)

    assert first.listed() is second.listed()
    assert checkpoints(job, directory) == checkpoints(job, None)
    assert len((directory / "tables" / "index").read_bytes()) == 3 * 40


def test_a_checkpoint_that_lacks_a_file_has_its_own_tables(job: Path, directory: Path) -> None:
    for path in (job / "chk-2").iterdir():
        if path.name != "_metadata":
            path.unlink()

    found, expected = checkpoints(job, directory), checkpoints(job, None)

    assert found == expected
    assert found["chk-1"] != found["chk-2"]


def test_a_checkpoint_with_a_state_info_has_its_own_tables(tmp_path: Path, directory: Path) -> None:
    for number in (1, 2):
        shutil.copytree(OLD, tmp_path / "old" / f"savepoint-{number}")
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"vertices": [{"id": AGGREGATE, "name": "aggregate -> Sink: out"}]}))
    write(str(tmp_path / "old" / "savepoint-2"), plan=str(plan))

    found = checkpoints(tmp_path / "old", directory)

    assert found == checkpoints(tmp_path / "old", None)
    assert found["savepoint-1"] != found["savepoint-2"]


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(
    st.sampled_from(ALL),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), max_size=4),
    st.floats(0, 1.5),
)
def test_a_savepoint_that_was_changed_anywhere_is_listed_as_it_is(
    savepoint: Path, changes: list[tuple[float, int]], end: float
) -> None:
    """Bytes of `_metadata` are other ones, or its end is missing, while the tables of the whole one are remembered."""
    with tempfile.TemporaryDirectory() as folder:
        root, directory = Path(folder) / "job", Path(folder) / "cache"
        shutil.copytree(savepoint, root / "savepoint-1")
        checkpoints(root, directory)
        data = bytearray((savepoint / "_metadata").read_bytes())
        for place, value in changes:
            # Most bytes are entries: the first ones decide on more.
            data[int(place**3 * (len(data) - 1))] = value
        (root / "savepoint-1" / "_metadata").write_bytes(data[: int(end * len(data))])

        assert outcome(root, directory) == outcome(root, None)


def outcome(root: Path, directory: Path | None) -> object:
    try:
        return checkpoints(root, directory)
    except ReaderError as error:
        return type(error), str(error)


@pytest.mark.parametrize("damage", [truncated, flipped, emptied, replaced, lambda content: content[1:]])
def test_a_damaged_index_is_as_good_as_none(
    savepoint: Path, directory: Path, damage: Callable[[bytes], bytes]
) -> None:
    expected = listed(savepoint, directory)
    index = directory / "tables" / "index"
    index.write_bytes(damage(index.read_bytes()))

    assert listed(savepoint, directory) == expected
    without_state_files(savepoint)
    assert listed(savepoint, directory) == expected


def test_an_index_is_read_on_while_another_process_writes(savepoint: Path, directory: Path) -> None:
    found = catalog.connect(savepoint)
    tables = [
        ListedTable(one.name, one.comment, one.schema) for one in found.database(found.databases[0]).listed()
    ]
    first, second = ListingCache(directory), ListingCache(directory)
    for number in range(20):
        first.write(f"{number:032x}", tables[: number % 3 + 1])

        read = second.read(f"{number:032x}")
        assert read is not None
        assert [table.name for table in read] == [table.name for table in tables[: number % 3 + 1]]
        assert second.read(f"{number + 1:032x}") is None
