"""Savepoints of which files are missing, cut or corrupt: nothing is left out in silence."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from catalog import Database, connect
from catalog.errors import NoSuchTableError
from catalog.references import open_savepoint
from readers.errors import CorruptDataError, MissingFileError, ReaderError
from tests.support.damaged import corrupt, cut, remove, write_in_files
from tests.support.paths import DATA

WORDCOUNT = DATA / "flink" / "2.3.0" / "wordcount-hashmap-savepoints" / "canonical"
EVERYTHING = DATA / "flink" / "2.3.0" / "everything-hashmap-savepoints" / "canonical"
CHECKPOINT = DATA / "flink" / "2.3.0" / "wordcount-rocksdb-checkpoint-incremental" / "checkpoint"
KAFKA = DATA / "metadata" / "2.3.0" / "source-kafka-hashmap" / "canonical"

every_damage = pytest.mark.parametrize("damage", [remove, cut, corrupt], ids=lambda one: one.__name__)


def opened(folder: Path) -> Database:
    database = connect(folder).default
    assert database is not None
    return database


def damaged(
    source: Path, folder: Path, damage: Callable[[Path], None], pattern: str
) -> tuple[Database, list[Path]]:
    files = sorted(write_in_files(source, folder / "savepoint").glob(pattern))
    assert files
    for file in files:
        damage(file)
    return opened(folder / "savepoint"), files


@every_damage
@pytest.mark.parametrize("source", [WORDCOUNT, KAFKA], ids=lambda one: one.parent.name)
def test_positions_of_a_source_are_never_left_out_in_silence(
    source: Path, damage: Callable[[Path], None], tmp_path: Path
) -> None:
    pattern = "source-1.*" if source == WORDCOUNT else "kafka-source-1.*"
    database, [file] = damaged(source, tmp_path, damage, pattern)

    with pytest.raises(ReaderError, match=file.name):
        database.table("source_offsets").scan()
    scan = database.table("source_offsets").scan(allow_partial=True)
    rows = scan.to_arrow().to_pylist()

    assert len(rows) == 2
    assert {row["connector"] for row in rows} == {"kafka"}
    [error] = scan.incomplete
    assert file.name in str(error)


@every_damage
def test_timers_are_never_left_out_in_silence(damage: Callable[[Path], None], tmp_path: Path) -> None:
    database, [file] = damaged(EVERYTHING, tmp_path, damage, "tumbling-window-0.*")
    timers = database.table("timers")

    with pytest.raises(ReaderError, match=file.name):
        timers.scan().to_arrow()
    scan = timers.scan(allow_partial=True)

    assert scan.to_arrow().num_rows == 54
    assert [file.name in str(error) for error in scan.incomplete] == [True]
    assert timers.scan(operator_uid="kinds").to_arrow().num_rows == 48


def test_timers_of_an_operator_without_any_file_are_missed(tmp_path: Path) -> None:
    database, files = damaged(EVERYTHING, tmp_path, remove, "tumbling-window-*")
    timers = database.table("timers")

    with pytest.raises(MissingFileError, match=files[0].name):
        timers.scan()
    scan = timers.scan(allow_partial=True)

    assert scan.to_arrow().num_rows == 48
    assert [error.path and Path(error.path).name for error in scan.incomplete] == [
        file.name for file in files
    ]


@every_damage
def test_a_state_of_which_a_file_cannot_be_read_says_so(
    damage: Callable[[Path], None], tmp_path: Path
) -> None:
    database, [file] = damaged(WORDCOUNT, tmp_path / "of my job", damage, "aggregate-1.*")
    states = {row["state_name"]: row for row in database.table("StateMeta").scan().to_arrow().to_pylist()}

    assert states["count"]["decode_status"] == "unreadable"
    assert file.name in states["count"]["decode_note"]
    assert "my job" not in states["count"]["decode_note"]
    assert str(tmp_path) not in states["count"]["decode_note"]
    assert states["seen"]["decode_status"] == "decoded"


@every_damage
@pytest.mark.parametrize("table", ["aggregate", "aggregate__count"])
def test_rows_of_a_state_are_those_of_the_files_that_can_be_read(
    table: str, damage: Callable[[Path], None], tmp_path: Path
) -> None:
    whole = opened(WORDCOUNT).table(table).scan().to_arrow().to_pylist()
    database, [file] = damaged(WORDCOUNT, tmp_path, damage, "aggregate-1.*")

    with pytest.raises(ReaderError, match=file.name):
        database.table(table).scan()
    scan = database.table(table).scan(allow_partial=True)
    rows = scan.to_arrow().to_pylist()

    assert sorted(rows, key=str) == sorted((row for row in whole if row["_subtask"] == 0), key=str)
    assert [file.name in str(error) for error in scan.incomplete] == [True]
    # A key of the other file is found as ever.
    assert database.table(table).scan(["value"], key="key_662").to_arrow().to_pylist() == [{"value": 11290}]


def test_a_state_whose_name_no_file_can_tell_is_not_unknown(tmp_path: Path) -> None:
    database, files = damaged(WORDCOUNT, tmp_path, remove, "aggregate-*")

    for name in ("aggregate__count", "AGGREGATE__count", "f7c20420360e0172e54933e6abdd481a__count"):
        with pytest.raises(MissingFileError, match=files[0].name):
            database.table(name)
    with pytest.raises(MissingFileError, match=files[0].name):
        database.table("aggregate").scan(state_name="count")
    with pytest.raises(NoSuchTableError, match="found no table 'source__nope'"):
        database.table("source__nope")
    assert database.table("aggregate").scan(allow_partial=True).to_arrow().num_rows == 0


def test_a_missing_table_of_rocksdb_makes_its_states_unreadable(tmp_path: Path) -> None:
    shutil.copytree(CHECKPOINT, tmp_path / "checkpoint")
    chk = tmp_path / "checkpoint" / "chk-2"
    whole = opened(chk)
    [operator] = [operator for operator in whole.savepoint.operators if operator.metadata.uid == "aggregate"]
    files = whole.table("files").scan(operator_id=operator.operator_id, subtask=1).to_arrow().to_pylist()
    shared = {path.name: path for path in (tmp_path / "checkpoint" / "shared").iterdir()}
    file = next(shared[name] for row in files if (name := row["path"].rpartition("/")[2]) in shared)
    file.unlink()
    open_savepoint.cache_clear()
    database = opened(chk)
    states = {row["state_name"]: row for row in database.table("StateMeta").scan().to_arrow().to_pylist()}

    scan = database.table("aggregate__count").scan(allow_partial=True)
    rows = scan.to_arrow()

    assert states["count"]["decode_status"] == "unreadable"
    assert file.name in states["count"]["decode_note"]
    assert states["seen"]["decode_status"] == "decoded"
    with pytest.raises(MissingFileError, match=file.name):
        database.table("aggregate__count").scan().to_arrow()
    assert set(rows["_subtask"].to_pylist()) == {0}
    assert [file.name in str(error) for error in scan.incomplete] == [True]


def test_rows_before_the_damage_are_kept_and_the_file_is_listed(tmp_path: Path) -> None:
    folder = write_in_files(WORDCOUNT, tmp_path / "savepoint")
    [file] = folder.glob("aggregate-1.*")
    data = bytearray(file.read_bytes())
    data[len(data) // 2 :] = b"\xff" * (len(data) - len(data) // 2)
    file.write_bytes(data)
    table = opened(folder).table("aggregate__count")

    with pytest.raises(CorruptDataError, match=file.name):
        table.scan().to_arrow()
    scan = table.scan(allow_partial=True)
    rows = scan.to_arrow()

    assert rows.num_rows >= opened(WORDCOUNT).table("aggregate__count").scan(_subtask=0).to_arrow().num_rows
    assert [type(error) for error in scan.incomplete] == [CorruptDataError]
