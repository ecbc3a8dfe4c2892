"""Files of the user: `stateInfo`, plans and uids, through the catalog."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import catalog
from catalog.stateinfo import read_uids, state_info_of, write
from readers.errors import CorruptDataError, MissingFileError, StorageError
from readers.serializers.protobuf import read_descriptors
from readers.stateinfo.file import read_state_info
from tests.support.paths import DATA

FLINK = DATA / "flink"
OLD = FLINK / "1.20.3" / "wordcount-hashmap-savepoints" / "canonical"
AGGREGATE = "f7c20420360e0172e54933e6abdd481a"


@pytest.fixture
def savepoint(tmp_path: Path) -> Path:
    return Path(shutil.copytree(OLD, tmp_path / "savepoint"))


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"vertices": [{"id": AGGREGATE, "name": "aggregate -> Sink: out"}]}))
    return path


def test_the_file_beside_a_savepoint_names_its_tables(savepoint: Path, plan: Path) -> None:
    where = write(savepoint, plan=plan)

    database = catalog.connect(savepoint).default

    assert where == str(savepoint / "stateInfo")
    assert database is not None
    assert {"aggregate", "aggregate__count"} <= set(database.tables)
    rows = database.table("StateMeta").scan(columns=["operator_uid", "decode_note"]).to_arrow().to_pylist()
    assert {"operator_uid": "aggregate", "decode_note": None} in rows
    assert [path.name for path in savepoint.iterdir() if path.name.startswith(".")] == []


def test_a_path_takes_the_place_of_the_file_beside(savepoint: Path, plan: Path, tmp_path: Path) -> None:
    (savepoint / "stateInfo").write_text("nothing", encoding="utf-8")
    output = tmp_path / "other.json"
    write(savepoint, output=output, plan=plan)

    database = catalog.connect(savepoint, state_info=output).default

    assert database is not None
    assert "aggregate__count" in database.tables
    assert set(
        database.table("StateMeta").scan(columns=["decode_note"]).to_arrow()["decode_note"].to_pylist()
    ) == {None}


def test_a_path_that_is_wrong_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "wrong").write_text("{}", encoding="utf-8")

    for path, error in ((tmp_path / "none", MissingFileError), (tmp_path / "wrong", CorruptDataError)):
        database = catalog.connect(OLD, state_info=path).default
        assert database is not None
        with pytest.raises(error):
            database.tables  # noqa: B018  # opens it


def test_a_new_file_is_seen_when_the_catalog_looks_again(savepoint: Path, plan: Path) -> None:
    connected = catalog.connect(savepoint)
    assert connected.default is not None
    before = connected.default.tables

    write(savepoint, plan=plan)
    connected.refresh()

    assert "aggregate" not in before
    assert "aggregate" in connected.default.tables


def test_a_place_that_cannot_be_written_to_is_an_error(savepoint: Path, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="place to write to"):
        write(savepoint, output=tmp_path / "none" / "stateInfo")


def test_a_file_that_cannot_be_replaced_leaves_nothing_behind(savepoint: Path) -> None:
    (savepoint / "stateInfo").mkdir()
    before = sorted(savepoint.iterdir())

    with pytest.raises(StorageError, match=r"expected a place to write to, found Is a directory.*stateInfo"):
        write(savepoint, output=savepoint / "stateInfo")

    assert sorted(savepoint.iterdir()) == before


def test_without_a_plan_the_text_has_the_states() -> None:
    document = json.loads(state_info_of(OLD))

    (operator,) = (operator for operator in document["operators"] if operator["id"] == AGGREGATE)
    assert "uid" not in operator
    assert operator["key"] == {"type": "String"}
    assert operator["states"] == [
        {
            "name": "count",
            "kind": "VALUE",
            "namespace": {"type": "VoidNamespace"},
            "value": {"type": "Long"},
            "ttl": False,
        }
    ]


def test_the_descriptors_of_protobuf_messages_are_kept(tmp_path: Path) -> None:
    written = (FLINK.parent / "connectors" / "protobuf.txt").read_text().split()
    descriptors = tmp_path / "type.desc"
    descriptors.write_bytes(bytes.fromhex(written[3]))

    info = read_state_info(state_info_of(OLD, protobuf=descriptors).encode())

    assert info.descriptors == read_descriptors(bytes.fromhex(written[3]))


def test_a_file_that_is_no_descriptor_set_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "all.proto"
    file.write_text("message All {}")

    with pytest.raises(CorruptDataError, match=r"all\.proto"):
        state_info_of(OLD, protobuf=file)


def test_uids_are_read_a_line_each(tmp_path: Path) -> None:
    path = tmp_path / "uids.txt"
    path.write_text("source\n\n  aggregate \r\nsource\n#1\n", encoding="utf-8")

    uids = read_uids(path)

    assert uids == ("source", "aggregate", "#1")
    database = catalog.connect(OLD, uids=uids).default
    assert database is not None
    assert "aggregate__count" in database.tables


def test_uids_that_are_no_text_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "uids").write_bytes(b"a\xff")

    with pytest.raises(CorruptDataError, match="UTF-8"):
        read_uids(tmp_path / "uids")
    with pytest.raises(MissingFileError):
        read_uids(tmp_path / "none")
