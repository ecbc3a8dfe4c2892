"""Databases and tables: discovery, names, aliases, schemas, scans; on savepoints that Flink wrote."""

from __future__ import annotations

import pickle
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import catalog
from catalog.catalog import Catalog, Root
from catalog.errors import DuplicateDatabaseError
from catalog.references import open_savepoint, unique_names
from catalog.roots import find_savepoints
from readers.errors import MissingFileError, NotASavepointError
from tests.support.paths import DATA

FLINK = DATA / "flink"
WORDCOUNT = [
    FLINK / version / case / snapshot
    for version in ("1.20.3", "2.3.0")
    for case, snapshot in (
        ("wordcount-hashmap-savepoints", "canonical"),
        ("wordcount-hashmap-savepoints", "native"),
        ("wordcount-rocksdb-savepoints", "canonical"),
        ("wordcount-rocksdb-savepoints", "native"),
        ("wordcount-rocksdb-checkpoint-incremental", "checkpoint/chk-2"),
    )
]
every_wordcount = pytest.mark.parametrize("path", WORDCOUNT, ids=lambda path: "/".join(path.parts[-3:]))


@every_wordcount
def test_one_key_is_found_in_one_key_group(path: Path) -> None:
    table = catalog.connect(path).table("aggregate")

    scan = table.scan(columns=["value"], key="key_662")

    assert scan.to_arrow().to_pylist() == [{"value": 11290}]
    assert 0 < scan.bytes_read < 600
    assert table.scan(columns=["_key_group"], key="key_662").to_arrow().to_pylist() == [{"_key_group": 41}]


@every_wordcount
def test_an_operator_answers_to_uid_name_and_id_in_any_case(path: Path) -> None:
    connected = catalog.connect(path)
    database = connected.default
    assert database is not None
    operator_id = "f7c20420360e0172e54933e6abdd481a"

    for name in ("aggregate", operator_id, operator_id.upper()):
        assert database.table(name).scan(columns=["value"], key="key_662").to_arrow().num_rows == 1
        assert database.table(f"{name}__count").schema.names[:3] == ["key", "namespace", "value"]


def test_tables_of_a_savepoint_with_uids() -> None:
    database = catalog.connect(FLINK / "2.3.0" / "wordcount-hashmap-savepoints" / "canonical").default
    assert database is not None

    assert sorted(database.tables) == [
        "StateMeta",
        "aggregate",
        "aggregate__count",
        "aggregate__wide",
        "files",
        "mod7-no-uid",
        "mod7-no-uid__seen",
        "mod7-no-uid__wide",
        "operators",
        "required_classes",
        "restore_check",
        "source",
        "source__topic-partition-offset-states",
        "source_offsets",
        "timers",
        "xray",
        "xray_keys",
        "xray_largest",
        "xray_orphan_timers",
    ]
    assert (database.checkpoint_id, database.kind) == (1, "SAVEPOINT")


def test_uids_from_elsewhere_name_the_operators_of_old_savepoints() -> None:
    path = FLINK / "1.20.3" / "wordcount-hashmap-savepoints" / "canonical"

    database = catalog.connect(path, uids=["source", "aggregate", "other"]).default

    assert database is not None
    assert {"source", "aggregate", "aggregate__count"} <= set(database.tables)
    rows = database.table("StateMeta").scan(columns=["operator_uid", "state_name"]).to_arrow().to_pylist()
    assert {"operator_uid": "aggregate", "state_name": "count"} in rows


def test_state_meta_says_what_is_in_the_savepoint() -> None:
    table = catalog.connect(FLINK / "2.3.0" / "wordcount-rocksdb-savepoints" / "native").table("statemeta")

    rows = {row["state_name"]: row for row in table.scan().to_arrow().to_pylist()}

    assert rows["count"] | {"size_bytes": 0} == {
        "operator_id": "f7c20420360e0172e54933e6abdd481a",
        "operator_uid": "aggregate",
        "operator_name": "aggregate",
        "state_name": "count",
        "state_kind": "VALUE",
        "key_type": "String",
        "namespace_type": "VoidNamespace",
        "map_key_type": None,
        "value_type": "Long",
        "key_serializer": "StringSerializer",
        "namespace_serializer": "VoidNamespaceSerializer",
        "value_serializer": "LongSerializer",
        "has_ttl": False,
        "state_backend": "rocksdb",
        "parallelism": 2,
        "max_parallelism": 128,
        "size_bytes": 0,
        "decode_status": "decoded",
        "decode_note": None,
        "table_name": "aggregate__count",
        "size_is_estimate": False,
    }
    source = rows["topic-partition-offset-states"]
    assert (source["operator_uid"], source["state_kind"], source["key_type"], source["value_type"]) == (
        "source",
        "OPERATOR_LIST",
        None,
        "Tuple3<String, Integer, Long>",
    )


def test_operator_state_has_a_row_an_element() -> None:
    table = catalog.connect(FLINK / "2.3.0" / "wordcount-hashmap-savepoints" / "native").table("source")

    scan = table.scan(columns=["state_name", "key", "value", "list_index", "_subtask"])

    offsets = [("words", 0, 24750), ("words", 2, 36445), ("words", 1, 25000), ("words", 3, 25500)]
    assert scan.to_arrow().to_pylist() == [
        {
            "state_name": "topic-partition-offset-states",
            "key": None,
            "value": dict(zip(("f0", "f1", "f2"), offset, strict=True)),
            "list_index": index % 2,
            "_subtask": index // 2,
        }
        for index, offset in enumerate(offsets)
    ]


def test_states_of_different_types_share_a_column_of_json_text() -> None:
    table = catalog.connect(FLINK / "2.3.0" / "everything-hashmap-savepoints" / "canonical").table("kinds")

    assert table.schema.field("value").type == pa.string()
    assert table.schema.names[:4] == ["state_name", "key", "namespace", "value"]


def test_windows_stay_structs_beside_states_without_namespace() -> None:
    database = catalog.connect(FLINK / "2.3.0" / "everything-rocksdb-savepoints" / "canonical").default
    assert database is not None

    namespace = database.table("timers").schema.field("namespace").type

    assert namespace == pa.struct([("start", pa.timestamp("ms")), ("end", pa.timestamp("ms"))])


def test_a_predicate_leaves_splits_and_states_out() -> None:
    table = catalog.connect(FLINK / "2.3.0" / "wordcount-rocksdb-savepoints" / "canonical").table("aggregate")
    everything = len(table.scan().splits)

    one_subtask = table.scan(predicate=catalog.Predicate({"_subtask": (1,)}))
    other_state = table.scan(predicate=catalog.Predicate({"state_name": ("none",)}))
    one_group = table.scan(columns=["key"], predicate=catalog.Predicate({"_key_group": (41,)}))

    assert (everything, len(one_subtask.splits), other_state.splits) == (2, 1, ())
    assert "key_662" in one_group.to_arrow().column("key").to_pylist()
    assert one_group.to_arrow().num_rows < 30


def test_an_expression_is_applied_exactly_and_may_name_other_columns() -> None:
    table = catalog.connect(FLINK / "2.3.0" / "wordcount-hashmap-savepoints" / "canonical").table(
        "aggregate__count"
    )

    scan = table.scan(columns=["key"], expression=pc.field("value") == 11290)

    assert scan.to_arrow().to_pylist() == [{"key": "key_662"}]


def test_a_split_reads_the_same_in_another_process() -> None:
    scan = (
        catalog.connect(FLINK / "2.3.0" / "wordcount-rocksdb-savepoints" / "native").table("aggregate").scan()
    )

    for split in scan.splits:
        again = pickle.loads(pickle.dumps(split))  # our own bytes

        assert list(again.read()) == list(split.read())


def test_a_split_of_a_relative_path_reads_the_same_in_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(FLINK / "2.3.0")
    database = catalog.connect("wordcount-rocksdb-savepoints/native").default
    assert database is not None
    splits = [split.elsewhere() for split in database.table("aggregate").scan(["key"]).splits]

    monkeypatch.chdir(tmp_path)

    assert sum(batch.num_rows for split in splits for batch in split.read()) == 1000


def test_unknown_names_come_with_near_ones() -> None:
    connected = catalog.connect(FLINK / "2.3.0" / "wordcount-rocksdb-savepoints")

    with pytest.raises(catalog.NoSuchDatabaseError) as database:
        connected.database("nativ")
    with pytest.raises(catalog.NoSuchTableError) as table:
        connected.database("native").table("agregate")
    with pytest.raises(catalog.NoSuchColumnError) as column:
        connected.database("native").table("aggregate").scan(columns=["valu"])

    assert (database.value.near[0], table.value.near[0], column.value.near[0]) == (
        "wordcount-rocksdb-savepoints__native",
        "aggregate",
        "value",
    )


def test_a_root_with_several_savepoints_has_a_database_for_each(tmp_path: Path) -> None:
    shutil.copytree(
        FLINK / "2.3.0" / "wordcount-rocksdb-checkpoint-incremental" / "checkpoint", tmp_path / "job"
    )
    connected = Catalog([Root(path=str(tmp_path), label="all")])
    assert connected.databases == ["all__job__chk-1", "all__job__chk-2"]
    assert connected.default is None

    shutil.rmtree(tmp_path / "job" / "chk-1")
    connected.refresh()

    assert connected.databases == ["all__job__chk-2"]


def test_a_registered_path_keeps_its_name(tmp_path: Path) -> None:
    path = str(FLINK / "2.3.0" / "wordcount-rocksdb-savepoints" / "native")
    connected = Catalog()
    connected.add("mine", path)

    assert connected.add("mine", path).name == "mine"
    assert connected.databases == ["mine"]
    with pytest.raises(DuplicateDatabaseError):
        connected.add("Mine", str(FLINK / "2.3.0" / "wordcount-hashmap-savepoints" / "native"))
    with pytest.raises(NotASavepointError):
        connected.add("nothing", str(tmp_path))


def test_a_missing_state_file_fails_its_own_tables_only(tmp_path: Path) -> None:
    copy = tmp_path / "chk-2"
    shutil.copytree(
        FLINK / "2.3.0" / "wordcount-rocksdb-checkpoint-incremental" / "checkpoint", tmp_path / "job"
    )
    copy = tmp_path / "job" / "chk-2"
    for file in (tmp_path / "job" / "shared").iterdir():
        file.unlink()
    database = catalog.connect(copy).default
    assert database is not None

    assert database.table("source").scan().to_arrow().num_rows == 4
    exists = database.table("files").scan(columns=["exists"]).to_arrow().column("exists").to_pylist()
    assert {True, False} == set(exists)
    with pytest.raises(MissingFileError):
        database.table("aggregate").scan().to_arrow()


def test_colliding_table_names_get_a_tail() -> None:
    assert unique_names([("a", "1"), ("A", "2"), ("b", "3")]) == ["a_1", "A_2", "b"]


# --- many savepoints ---

SAVEPOINTS = 1000


class Opened:
    """Counts the `_metadata` files that this process opens under a folder."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self.files: list[str] = []
        sys.addaudithook(self._saw)

    def _saw(self, event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and str(arguments[0]).startswith(self._root):
            self.files.append(str(arguments[0]))

    def taken(self) -> list[str]:
        """Those since the last time."""
        found, self.files = self.files, []
        return [file for file in found if file.endswith("_metadata")]


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a thousand checkpoints."""
    root = tmp_path_factory.mktemp("many")
    metadata = (
        FLINK / "2.3.0" / "wordcount-rocksdb-checkpoint-incremental" / "checkpoint" / "chk-1" / "_metadata"
    )
    for number in range(SAVEPOINTS):
        folder = root / f"job-{number % 7}" / f"chk-{number}"
        folder.mkdir(parents=True)
        (folder / "_metadata").write_bytes(metadata.read_bytes())
    return root


@pytest.mark.slow
def test_a_thousand_savepoints_are_read_once_however_often_they_are_listed(many: Path) -> None:
    opened = Opened(many)
    connected = Catalog([Root(path=str(many))])
    assert opened.taken() == []

    first = [(one.name, one.checkpoint_id, one.kind) for one in connected.described()]

    assert len(first) == SAVEPOINTS
    assert {(number, kind) for _, number, kind in first} == {(1, "CHECKPOINT")}
    assert len(opened.taken()) == SAVEPOINTS
    connected.refresh()
    assert [(one.name, one.checkpoint_id, one.kind) for one in connected.described()] == first
    assert opened.taken() == []


def test_a_look_again_opens_only_what_is_new_or_was_replaced(many: Path, tmp_path: Path) -> None:
    root = tmp_path / "some"
    shutil.copytree(many / "job-0", root)
    connected = Catalog([Root(path=str(root))], rescan_after_s=0)
    before = {one.name: one for one in connected.described()}
    opened = Opened(root)
    shutil.copytree(root / "chk-0", root / "chk-2000")
    shutil.rmtree(root / "chk-7")
    replaced = root / "chk-14" / "_metadata"
    replaced.write_bytes((FLINK / "2.3.0/wordcount-rocksdb-savepoints/native/_metadata").read_bytes())
    opened.taken()

    after = {one.name: one.kind for one in connected.described()}

    assert after.keys() == before.keys() - {"some__chk-7"} | {"some__chk-2000"}
    assert (after["some__chk-14"], after["some__chk-2000"]) == ("SAVEPOINT", "CHECKPOINT")
    assert sorted(opened.taken()) == sorted([str(replaced), str(root / "chk-2000" / "_metadata")])


def test_a_lookup_notices_new_and_vanished_checkpoints(tmp_path: Path) -> None:
    checkpoints = FLINK / "2.3.0" / "wordcount-rocksdb-checkpoint-incremental" / "checkpoint"
    shutil.copytree(checkpoints / "chk-1", tmp_path / "job" / "chk-1")
    connected = Catalog([Root(path=str(tmp_path), label="all")], rescan_after_s=0)
    never = Catalog([Root(path=str(tmp_path))])
    shutil.copytree(checkpoints / "chk-2", tmp_path / "job" / "chk-2")

    assert connected.database("chk-2").checkpoint_id == 2
    shutil.rmtree(tmp_path / "job" / "chk-1")
    assert connected.databases == ["all__job__chk-2"]
    assert len(never.databases) == 1


def test_a_root_that_is_gone_for_a_while_hides_nothing(tmp_path: Path) -> None:
    checkpoints = FLINK / "2.3.0" / "wordcount-rocksdb-checkpoint-incremental" / "checkpoint"
    shutil.copytree(checkpoints, tmp_path / "job")
    connected = Catalog([Root(path=str(tmp_path / "job"))], rescan_after_s=0)
    before = connected.databases
    (tmp_path / "job").rename(tmp_path / "away")

    assert connected.databases == before
    with pytest.raises(NotASavepointError):
        connected.refresh()
    (tmp_path / "away").rename(tmp_path / "job")
    assert connected.databases == before


def test_databases_that_cannot_be_read_are_listed_among_the_others(tmp_path: Path) -> None:
    checkpoints = FLINK / "2.3.0" / "wordcount-rocksdb-checkpoint-incremental" / "checkpoint"
    shutil.copytree(checkpoints, tmp_path / "job")
    (tmp_path / "job" / "chk-1" / "_metadata").write_bytes(b"no metadata")
    connected = Catalog([Root(path=str(tmp_path), label="all")])

    found = {one.name: one.is_described for one in connected.described()}

    assert found == {"all__job__chk-1": False, "all__job__chk-2": True}


METADATA = (WORDCOUNT[0] / "_metadata").read_bytes()


def test_single_file_savepoints_are_found_among_others(tmp_path: Path) -> None:
    job = tmp_path / "job"
    job.mkdir()
    for number in range(200):
        (job / f"{number:03d}.log").write_bytes(b"no savepoint")
    (job / "savepoint-abc123").write_bytes(METADATA)
    (job / "savepoint-list.txt").write_bytes(b"savepoint-abc123")
    (job / "savepoint-broken").symlink_to(tmp_path / "nowhere")
    (job / "savepoint-elsewhere").symlink_to(WORDCOUNT[0] / "_metadata")
    shutil.copytree(WORDCOUNT[0], tmp_path / "chk-1")
    (tmp_path / "chk-1" / "savepoint-inside").write_bytes(METADATA)

    found = [one.relative for one in find_savepoints(str(tmp_path))]

    assert sorted(found) == [("chk-1",), ("job", "savepoint-abc123")]
    connected = catalog.connect(tmp_path)
    assert len(connected.databases) == 2
    for name in connected.databases:
        assert connected.database(name).table("operators").scan().to_arrow().num_rows > 0


def test_metadata_that_flink_still_writes_is_no_savepoint(tmp_path: Path) -> None:
    unfinished = tmp_path / "job" / "chk-9" / "._metadata.inprogress.83f80c0b-e27b-4744-9700-2dc80365968a"
    unfinished.parent.mkdir(parents=True)
    unfinished.write_bytes(METADATA)
    assert list(find_savepoints(str(tmp_path))) == []

    unfinished.rename(unfinished.with_name("_metadata"))

    assert [one.relative for one in find_savepoints(str(tmp_path))] == [("job", "chk-9")]


def test_a_large_folder_is_not_read_for_its_savepoints(tmp_path: Path) -> None:
    for number in range(100):
        (tmp_path / f"{number:03d}").write_bytes(METADATA if number in (7, 99) else b"")

    assert [one.relative for one in find_savepoints(str(tmp_path))] == [("007",)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "folder",
    [
        FLINK.parent / "corpus" / "1.20.3" / "alltypes-hashmap" / "canonical",
        FLINK / "2.3.0" / "everything-rocksdb-savepoints" / "native",
    ],
    ids=["types", "rocksdb"],
)
def test_a_split_where_a_file_is_missing_gives_its_own_rows_or_says_so(folder: Path, tmp_path: Path) -> None:
    files = sorted(file.name for file in folder.iterdir() if file.name != "_metadata")
    missed = set()
    for file in files:
        copied = Path(shutil.copytree(folder, tmp_path / file))
        database = catalog.connect(copied).default
        assert database is not None
        splits = [split for table in database.tables for split in database.table(table).scan().splits]
        expected = [_texts(split.read()) for split in splits]
        (copied / file).unlink()
        open_savepoint.cache_clear()  # as another process, on a machine that has not all of it

        for split, batches in zip(pickle.loads(pickle.dumps(splits)), expected, strict=True):
            try:
                assert _texts(split.read()) == batches
            except MissingFileError as error:
                missed.add(Path(str(error.path)).name)

    assert missed == set(files)


def _texts(batches: Iterable[pa.RecordBatch]) -> list[str]:
    """Return the values as text: NaN does not equal itself, and Python has no dates beyond year 9999."""
    return [column.to_string(window=1000) for batch in batches for column in batch.columns]
