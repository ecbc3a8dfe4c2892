"""Savepoints in an object store: the rows of local ones, and no more requests and bytes than it takes."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import catalog
from catalog import Catalog
from catalog.catalog import Root
from catalog.references import open_savepoint
from readers.errors import AccessDeniedError, SavepointGoneError, StorageError
from readers.formats import streams
from readers.jsontext import json_text
from readers.metadata import (
    ByteStreamStateHandle,
    RelativeFileStateHandle,
    read_metadata,
)
from readers.storage.location import StorageOptions
from tests.support.metadata_writer import write_metadata
from tests.support.objectstore import Fault, ObjectStore, Proxy, Request, status
from tests.support.paths import DATA
from tests.support.thorough import thorough
from tests.support.unpacked import unpacked
from tests.support.waiting import wait_until

FLINK = DATA / "flink" / "2.3.0"
ONE_ROW = [{"key": "key_662", "value": 11290}]
FOLDERS = [
    "wordcount-hashmap-savepoints/canonical",
    "wordcount-hashmap-savepoints/native",
    "wordcount-rocksdb-savepoints/canonical",
    "wordcount-rocksdb-savepoints/native",
    "wordcount-rocksdb-checkpoint-incremental/checkpoint",
    "everything-hashmap-savepoints/native",
    "everything-rocksdb-savepoints/native",
]
ARCHIVES = [
    "2.3.0-forst-chk-4",
    "1.20.3-filemerging-rocksdb-chk-3",
    "1.20.3-changelog-rocksdb-materialized-chk-3",
]


@pytest.fixture
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary folder of the system of its own, to see what is left in it."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def left_behind(folder: Path) -> list[Path]:
    """Fetched files that are still there."""
    return [path for path in folder.glob("savepointdb-*/savepointdb-spill-*/**/*") if path.is_file()]


def same_rows(local: Catalog, remote: Catalog) -> int:
    """Compare all rows of all tables; how many there were."""
    count = 0
    # Their labels are the names of their roots.
    for name, other in zip(local.databases, remote.databases, strict=True):
        here, there = local.database(name), remote.database(other)
        assert Path(here.path).name == there.path.partition("?")[0].rpartition("/")[2]
        assert there.tables == here.tables
        for table in here.tables:
            # A remote MANIFEST is not read for the sizes of states.
            differing = {"path"} | ({"size_bytes"} if table == "StateMeta" else set())
            columns = [column for column in here.table(table).schema.names if column not in differing]
            rows = texts(here.table(table).scan(columns).to_arrow())
            assert texts(there.table(table).scan(columns).to_arrow()) == rows
            count += len(rows)
    for one in (local, remote):
        for name in one.databases:
            one.database(name).savepoint.close()
    return count


def texts(rows: pa.Table) -> list[tuple[str | None, ...]]:
    """Rows as JSON texts, which are equal for NaN, too, and exact; sorted."""
    columns = [json_text(rows.column(name).combine_chunks()).to_pylist() for name in rows.column_names]
    return sorted(zip(*columns, strict=True), key=repr)


@pytest.fixture(scope="session")
def outlined(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Savepoints of small state as they are with large state: what `_metadata` had inline is in files."""
    made: dict[str, Path] = {}

    def folder_of(name: str) -> Path:
        if name not in made:
            made[name] = tmp_path_factory.mktemp("outlined") / name.rpartition("/")[2]
            shutil.copytree(FLINK / name, made[name])
            for metadata in made[name].rglob("_metadata"):
                outline(metadata)
        return made[name]

    return folder_of


def outline(metadata: Path) -> None:
    """Put all inline streams of a savepoint into files beside its metadata."""
    count = 0

    def changed(value: Any) -> Any:
        nonlocal count
        if isinstance(value, ByteStreamStateHandle):
            count += 1
            (metadata.parent / f"file-{count}").write_bytes(value.data)
            return RelativeFileStateHandle(relative_path=f"file-{count}", state_size=len(value.data))
        if isinstance(value, tuple):
            parts = [changed(part) for part in value]
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        if is_dataclass(value) and not isinstance(value, type):
            return replace(value, **{one.name: changed(getattr(value, one.name)) for one in fields(value)})
        return value

    metadata.write_bytes(write_metadata(changed(read_metadata(metadata.read_bytes()))))


@pytest.mark.parametrize("folder", thorough(FOLDERS, FOLDERS[1:3]))
def test_rows_are_those_of_the_local_savepoint(
    store: ObjectStore, proxy: Proxy, outlined: Callable[[str], Path], at_home: Path, folder: str
) -> None:
    local = catalog.connect(outlined(folder))

    remote = catalog.connect(proxy.url(store.upload(outlined(folder), folder)))

    assert same_rows(local, remote) > 100
    assert not left_behind(at_home)


@pytest.mark.slow
@pytest.mark.parametrize("archive", thorough(ARCHIVES, ARCHIVES[:1]))
def test_rows_of_every_kind_of_file_are_those_of_the_local_one(
    store: ObjectStore, proxy: Proxy, tmp_path: Path, at_home: Path, archive: str
) -> None:
    unpacked(archive, tmp_path / "local")

    store.upload(tmp_path / "local", archive)

    assert same_rows(catalog.connect(tmp_path / "local"), catalog.connect(proxy.url(archive))) > 10


# --- requests and bytes ---


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files count as large that would else be fetched whole with their headers."""
    monkeypatch.setattr(streams, "_SMALL_STREAM_BYTES", 0)


def totals(requests: list[Request]) -> tuple[int, int, int]:
    """Return the number of HEADs, of GETs and of bytes."""
    heads = sum(one.method == "HEAD" for one in requests)
    return heads, len(requests) - heads, sum(one.size_bytes for one in requests if one.method == "GET")


@pytest.fixture(
    params=["hashmap-savepoints/canonical", "hashmap-savepoints/native", "rocksdb-savepoints/native"]
)
def wordcount(
    request: pytest.FixtureRequest,
    store: ObjectStore,
    proxy: Proxy,
    outlined: Callable[[str], Path],
    large: None,
) -> tuple[str, Catalog]:
    """A savepoint of two subtasks: its layout and its catalog."""
    layout: str = request.param
    remote = catalog.connect(proxy.url(store.upload(outlined(f"wordcount-{layout}"), f"counted/{layout}")))
    return layout, remote


def test_statemeta_reads_metadata_and_headers(wordcount: tuple[str, Catalog], proxy: Proxy) -> None:
    layout, remote = wordcount
    database = remote.default
    assert database is not None

    assert database.table("StateMeta").scan().to_arrow().num_rows > 0

    assert totals(proxy.taken()) == STATEMETA[layout]


def test_one_key_reads_its_key_group_or_blocks(wordcount: tuple[str, Catalog], proxy: Proxy) -> None:
    layout, remote = wordcount
    table = remote.table("aggregate__count")
    proxy.taken()

    scan = table.scan(columns=["key", "value"], key="key_662")

    assert scan.to_arrow().to_pylist() == ONE_ROW
    assert totals(proxy.taken()) == LOOKUP[layout]


# HEADs, GETs, bytes. Of two operators with two subtasks each, and a source: six files, `_metadata`, and whether there is
# `stateInfo`. RocksDB: the OPTIONS say whether it is ForSt; where all fits into one range, a table is one GET.
STATEMETA = {
    "hashmap-savepoints/canonical": (8, 7, 5242),
    "hashmap-savepoints/native": (8, 9, 5415),
    # One more: the folder is listed, for the tables that no header names.
    "rocksdb-savepoints/native": (10, 10, 33442),
}
LOOKUP = {
    "hashmap-savepoints/canonical": (0, 1, 280),
    "hashmap-savepoints/native": (0, 1, 196),
    "rocksdb-savepoints/native": (3, 3, 8555),
}


@pytest.mark.slow
@pytest.mark.parametrize("listable", [True, False], ids=["listed", "asked for"])
@pytest.mark.parametrize("damage", ["missing", "cut"])
def test_statemeta_knows_missing_tables_of_rocksdb(
    store: ObjectStore, proxy: Proxy, outlined: Callable[[str], Path], damage: str, listable: bool
) -> None:
    folder = outlined("wordcount-rocksdb-checkpoint-incremental/checkpoint")
    prefix = store.upload(folder, f"damaged/{damage}-{listable}")
    url = proxy.url(f"{prefix}/chk-2")
    whole = catalog.connect(url).default
    assert whole is not None
    [operator] = [one for one in whole.savepoint.operators if one.metadata.uid == "aggregate"]
    files = whole.table("files").scan(operator_id=operator.operator_id).to_arrow().to_pylist()
    shared = {path.name for path in (folder / "shared").iterdir()}
    file = next(name for row in files if (name := row["path"].rpartition("/")[2]) in shared)
    if damage == "missing":
        store.delete(f"{prefix}/shared/{file}")
    else:
        store.put(f"{prefix}/shared/{file}", (folder / "shared" / file).read_bytes()[:-1])
    if not listable:
        proxy.faults.append(Fault(status(403, "AccessDenied"), key="list-type"))
    open_savepoint.cache_clear()
    database = catalog.connect(url).default
    assert database is not None

    states = {row["state_name"]: row for row in database.table("StateMeta").scan().to_arrow().to_pylist()}

    assert states["count"]["decode_status"] == "unreadable"
    assert file in states["count"]["decode_note"]
    assert states["seen"]["decode_status"] == "decoded"


@pytest.mark.slow
@pytest.mark.parametrize("table", ["aggregate__count", "aggregate", "timers", "source_offsets", "StateMeta"])
def test_what_the_network_prevented_is_tried_again(
    store: ObjectStore, proxy: Proxy, outlined: Callable[[str], Path], table: str
) -> None:
    folder = outlined("everything-hashmap-savepoints/native" if table == "timers" else FOLDERS[1])
    database = catalog.connect(proxy.url(store.upload(folder, f"passing/{table}"))).default
    expected = catalog.connect(folder).table(table).scan().to_arrow()
    assert database is not None
    assert database.checkpoint_id
    # The answers to all requests for state files fail, at once and not for good.
    fault = Fault(status(400, "InvalidRequest"), method="HEAD")
    proxy.faults.append(fault)
    if table == "StateMeta":
        statuses = database.table(table).scan(["decode_status"]).to_arrow()
        assert set(statuses["decode_status"].to_pylist()) == {"unreadable"}
    else:
        with pytest.raises(StorageError):
            database.table(table).scan().to_arrow()
    assert fault.met
    proxy.faults.clear()

    def answer() -> list[tuple[str | None, ...]]:
        try:
            return texts(database.table(table).scan().to_arrow())
        except StorageError:
            return []

    wait_until(lambda: answer() == texts(expected))


def test_a_savepoint_that_did_not_fail_stays_open(
    store: ObjectStore, proxy: Proxy, outlined: Callable[[str], Path]
) -> None:
    database = catalog.connect(proxy.url(store.upload(outlined(FOLDERS[1]), "open"))).default
    assert database is not None
    known = database.table("aggregate__count"), database.savepoint

    open_savepoint.cache_clear()

    assert (database.table("aggregate__count"), database.savepoint) == known


# --- discovery ---


@pytest.mark.slow
def test_a_thousand_checkpoints_take_a_few_requests(store: ObjectStore, proxy: Proxy) -> None:
    for number in range(1000):
        store.put(f"many/chk-{number}/_metadata", b"meta")
        store.put(f"many/chk-{number}/data", b"data")

    found = Catalog([Root(path=proxy.url("many"))])

    assert len(found.databases) == 1000
    assert found.databases[9:11] == ["many__chk-9", "many__chk-10"]
    # Is there a `_metadata`; two pages of folders; three pages of 2000 files.
    assert len(proxy.taken()) <= 6


def test_single_file_savepoints_are_found_by_a_request_each(store: ObjectStore, proxy: Proxy) -> None:
    metadata = (FLINK / "wordcount-hashmap-savepoints" / "canonical" / "_metadata").read_bytes()
    store.put("old/savepoint-abc123", metadata)
    store.put("old/savepoint-notes", b"none")
    store.put("old/other", metadata)

    found = Catalog([Root(path=proxy.url("old"))])

    assert found.databases == ["old__savepoint-abc123"]
    assert {one.key.rpartition("/")[2] for one in proxy.taken() if "old/" in one.key} <= {
        "_metadata",
        "savepoint-abc123",
        "savepoint-notes",
    }
    assert found.database("savepoint-abc123").table("operators").scan().to_arrow().num_rows == 3


def test_checkpoints_beside_data_folders_are_listed_without_these(store: ObjectStore, proxy: Proxy) -> None:
    for number in range(20):
        store.put(f"jobs/a/chk-{number}/_metadata", b"meta")
        store.put(f"jobs/a/shared/{number}", b"data")
        store.put(f"jobs/b/savepoint-{number}/_metadata", b"meta")
    store.put("jobs/a/shared/chk-1/_metadata", b"not one")
    store.put("jobs/c/d/e/f/savepoint-1/_metadata", b"meta")

    found = Catalog([Root(path=proxy.url("jobs"))])

    assert len(found.databases) == 41
    listed = [one for one in proxy.taken() if one.method == "GET"]
    assert len(listed) == 1 + 3 + 20 + 1 + 4


def test_a_folder_that_may_not_be_listed_says_so(store: ObjectStore, proxy: Proxy) -> None:
    store.put("jobs/b/savepoint-1/_metadata", b"meta")
    proxy.faults.append(Fault(status(403, "AccessDenied"), key="list-type"))

    with pytest.raises(AccessDeniedError, match="expected a folder that may be listed, found access denied"):
        Catalog([Root(path=proxy.url("jobs"))])
    assert Catalog([Root(path=proxy.url("jobs/b/savepoint-1"))]).databases == ["savepoint-1"]


# --- faults in the middle ---


def test_a_savepoint_that_goes_during_a_scan_is_gone(
    store: ObjectStore, proxy: Proxy, outlined: Callable[[str], Path], at_home: Path, large: None
) -> None:
    folder = outlined("wordcount-hashmap-savepoints/native")
    scan = catalog.connect(proxy.url(store.upload(folder, "going"))).table("aggregate__count").scan()
    batches = scan.to_reader()
    proxy.faults.append(Fault(status(404, "NoSuchKey"), after=1))

    with pytest.raises(SavepointGoneError, match="going"):
        batches.read_all()

    assert not left_behind(at_home)


@pytest.mark.parametrize("key", ["key_662", None])
def test_rocksdb_files_that_cannot_be_fetched_leave_nothing(
    store: ObjectStore, proxy: Proxy, outlined: Callable[[str], Path], at_home: Path, key: str | None
) -> None:
    folder = outlined("wordcount-rocksdb-savepoints/native")
    remote = catalog.connect(proxy.url(store.upload(folder, "failing")))
    table = remote.table("aggregate__count")
    proxy.faults.append(Fault(status(400, "InvalidRequest")))
    proxy.taken()

    with pytest.raises(StorageError):
        (table.scan() if key is None else table.scan(key=key)).to_arrow()

    database = remote.default
    assert database is not None
    database.savepoint.close()
    assert not left_behind(at_home)


# --- fetched files ---


def test_fetched_rocksdb_files_are_kept(
    store: ObjectStore, proxy: Proxy, outlined: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = outlined("wordcount-rocksdb-savepoints/native")
    url = proxy.url(store.upload(folder, "kept"))
    options = StorageOptions(cache_directory=str(tmp_path), cache_bytes=1 << 20)

    def scanned() -> int:
        connected = Catalog([Root(path=url)], options=options)
        rows = connected.table("aggregate__count").scan().to_arrow().num_rows
        database = connected.default
        assert database is not None
        database.savepoint.close()
        return int(rows)

    assert scanned() == 1000
    fetched = [one for one in proxy.taken() if one.size_bytes > 1000 and one.method == "GET"]
    assert scanned() == 1000
    again = [one for one in proxy.taken() if one.size_bytes > 1000 and one.method == "GET"]

    assert len(again) < len(fetched)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 1 << 20
