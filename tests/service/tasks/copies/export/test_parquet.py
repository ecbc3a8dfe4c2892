"""Folders of Parquet files: every table, every row, exactly; nothing is written over, and nothing but a manifest says that all is whole."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyarrow import dataset

from catalog import connect
from tests.service.tasks.copies.export.conftest import expected, manifest_of, read, rows, tables_of
from tests.support.damaged import write_in_files
from tests.support.paths import DATA

FLINK = DATA / "flink"
WORDCOUNT = FLINK / "2.3.0/wordcount-rocksdb-savepoints/native"
CANONICAL = FLINK / "2.3.0/wordcount-hashmap-savepoints/canonical"
EVERYTHING = FLINK / "2.3.0/everything-rocksdb-savepoints/native"
CORPUS = DATA / "corpus/1.20.3/allstates-hashmap-compressed"
HISTORY = FLINK / "2.3.0/wordcount-rocksdb-checkpoint-incremental/checkpoint"
FACTS = {"StateMeta", "operators", "files", "source_offsets", "timers"}


def test_all_tables_have_all_rows_and_the_manifest_says_so(export: Any, tmp_path: Path) -> None:
    ended = export(WORDCOUNT, tmp_path / "to")

    tables = tables_of(tmp_path / "to")
    assert (ended.code, ended.err) == (0, "")
    assert tables.keys() == FACTS | {
        "aggregate__count",
        "mod7-no-uid__seen",
        "source__topic-partition-offset-states",
    }
    for name, table in tables.items():
        found = read(tmp_path / "to", table)
        assert rows(found) == rows(expected(WORDCOUNT, name))
        assert table["rows"] == found.num_rows
        assert table["schema"] == [{"name": one.name, "type": str(one.type)} for one in found.schema]
        for file in table["files"]:
            content = (tmp_path / "to" / file["path"]).read_bytes()
            assert (file["bytes"], file["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())
    files = {path.relative_to(tmp_path / "to").as_posix() for path in (tmp_path / "to").rglob("*.*")}
    assert files == {"manifest.json"} | {file["path"] for table in tables.values() for file in table["files"]}


@pytest.mark.slow
def test_tables_are_chosen_by_name_and_pattern(export: Any, tmp_path: Path) -> None:
    ended = export(WORDCOUNT, tmp_path / "to", "--tables", "AGGREGATE__c*,xray", "--tables", "aggregate")

    assert ended.code == 0
    assert tables_of(tmp_path / "to").keys() == {"aggregate__count", "xray", "aggregate"}


@pytest.mark.parametrize(
    ("table", "named"), [("kinds__list", []), ("types__v_pojo", ["v_pojo"]), ("types", [])]
)
def test_only_undecoded_states_of_chosen_tables_are_named(
    export: Any, tmp_path: Path, table: str, named: list[str]
) -> None:
    source = FLINK / "2.3.0/everything-hashmap-savepoints/canonical"
    ended = export(source, tmp_path / "to", "--tables", table)

    [savepoint] = manifest_of(tmp_path / "to")["savepoints"]
    assert ended.code == 0
    assert [state["state"] for state in savepoint["undecoded_states"]] == named
    assert ended.err.count("is exported as it is") == len(named)
    assert ("some bytes are not decoded" in ended.err) == table.startswith("types")


@pytest.mark.parametrize(
    ("name", "code", "told"),
    [("agregate__count", 1, "aggregate__count"), ("nothing*", 1, "expected tables that match")],
)
def test_an_unknown_table_is_named_before_anything_is_written(
    export: Any, tmp_path: Path, name: str, code: int, told: str
) -> None:
    ended = export(WORDCOUNT, tmp_path / "to", "--tables", name)

    assert ended.code == code
    assert told in ended.err
    assert not (tmp_path / "to" / "manifest.json").exists()


@pytest.mark.parametrize("name", ["manifest.json", "_unfinished/begun.json"])
@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "[" * 100_000,
        '{"layout": 1, "format": "parquet", "savepointdb": "1", "options": 1, "savepoints": []}',
        '{"layout": 1, "format": "parquet", "savepointdb": "1", "options": {}, "savepoints": [{"identity": 5}]}',
    ],
    ids=["empty", "list", "deep", "options", "savepoint"],
)
def test_a_damaged_note_of_an_export_is_an_error(
    export: Any, tmp_path: Path, name: str, content: str
) -> None:
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(content)

    ended = export(WORDCOUNT, tmp_path, "--tables", "operators")

    assert ended.code == 1
    assert f"{name}: expected " in ended.err or ": expected to go on with the export of None" in ended.err
    assert file.read_text() == content
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [file]


def test_a_savepoint_and_a_folder_with_something_else_are_no_targets(export: Any, tmp_path: Path) -> None:
    source = tmp_path / "savepoint"
    shutil.copytree(WORDCOUNT, source)
    before = sorted(path.name for path in source.rglob("*"))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")

    assert "savepoints are only read" in export(source, source).err
    assert "savepoints are only read" in export(source, source / "export").err
    assert "savepoints are only read" in export(WORDCOUNT, source / "deep" / "er").err
    ended = export(source, tmp_path / "other")

    assert (ended.code, "found notes.txt" in ended.err) == (1, True)
    assert sorted(path.name for path in source.rglob("*")) == before
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["notes.txt"]


@pytest.mark.slow
def test_an_export_is_repeated_without_a_write_and_takes_no_second_savepoint(
    export: Any, tmp_path: Path
) -> None:
    target = tmp_path / "to"
    export(WORDCOUNT, target, "--tables", "aggregate__count")
    before = {path: path.stat().st_mtime_ns for path in target.rglob("*")}

    again = export(WORDCOUNT, target, "--tables", "aggregate__count")
    others = export(WORDCOUNT, target, "--tables", "timers")
    other = export(EVERYTHING, target, "--tables", "aggregate__count")
    differently = export(WORDCOUNT, target, "--tables", "aggregate__count", "--partition-by", "_key_group")
    as_table = export(WORDCOUNT, target, "--format", "delta")

    assert (again.code, "is there already" in again.out) == (0, True)
    assert (others.code, "found one of others" in others.err) == (1, True)
    assert (other.code, "found one of" in other.err) == (1, True)
    assert (differently.code, "partition_by" in differently.err) == (1, True)
    assert (as_table.code, "found one in parquet" in as_table.err) == (1, True)
    assert {path: path.stat().st_mtime_ns for path in target.rglob("*")} == before


@pytest.mark.slow
def test_a_key_group_has_a_folder_that_readers_find(export: Any, tmp_path: Path) -> None:
    export(
        WORDCOUNT, tmp_path / "to", "--partition-by", "_key_group", "--tables", "aggregate__count,operators"
    )

    tables = tables_of(tmp_path / "to")
    wanted = expected(WORDCOUNT, "aggregate__count")
    groups = sorted(set(wanted["_key_group"].to_pylist()))
    assert sorted({file["key_group"] for file in tables["aggregate__count"]["files"]}) == groups
    assert ["key_group" in file for file in tables["operators"]["files"]] == [False]
    found = dataset.dataset(tmp_path / "to" / "aggregate__count", partitioning="hive").to_table()
    assert found["key_group"].to_pylist() == found["_key_group"].to_pylist()
    assert rows(found.drop_columns(["key_group"])) == rows(wanted)
    counted = duckdb.execute(
        f"SELECT count(*), count(DISTINCT key_group) FROM '{tmp_path}/to/aggregate__count/**/*.parquet'"
    )
    assert counted.fetchall() == [(wanted.num_rows, len(groups))]


@pytest.mark.slow
@pytest.mark.parametrize("source", [EVERYTHING, CORPUS])
def test_every_type_reads_back_as_it_was(export: Any, tmp_path: Path, source: Path) -> None:
    database = connect(str(source)).newest
    assert database is not None

    ended = export(source, tmp_path / "to")

    assert ended.code == 0
    tables = tables_of(tmp_path / "to")
    assert {table.name for _, table in database.state_tables()} | FACTS == tables.keys()
    for name, table in tables.items():
        wanted = expected(source, name)
        assert rows(read(tmp_path / "to", table)) == rows(wanted)
        # DuckDB knows nothing of Arrow's own types, which stand in the files, too.
        paths = [str(tmp_path / "to" / file["path"]) for file in table["files"]]
        (count,) = duckdb.execute("SELECT count(*) FROM read_parquet(?)", [paths]).fetchall()
        assert count == (wanted.num_rows,)


@pytest.mark.slow
def test_what_was_finished_before_an_error_is_not_written_again(export: Any, tmp_path: Path) -> None:
    source, target, tables = tmp_path / "source", tmp_path / "to", "operators,timers,aggregate__count"
    write_in_files(CANONICAL, source)
    damaged = max(source.glob("aggregate-*"), key=lambda file: file.stat().st_size)
    content = damaged.read_bytes()
    damaged.write_bytes(content[:-400] + b"\xff" * 400)
    failed = export(source, target, "--tables", tables)
    # Other tables under way have files, too, which are written again.
    whole = [target / "_unfinished/tables" / path.stem for path in target.glob("_unfinished/finished/*")]
    finished = {path: path.stat().st_mtime_ns for table in whole for path in table.glob("*.parquet")}

    damaged.write_bytes(content)
    # A process that was killed leaves what it has begun.
    for name in (".part-00000.parquet.0a1b2c3d", "part-00007.parquet"):
        begun = target / "_unfinished" / "tables" / "aggregate__count" / name
        begun.parent.mkdir(exist_ok=True)
        begun.write_bytes(b"PAR1")
    differently = export(source, target, "--tables", "operators")
    other = export(WORDCOUNT, target, "--tables", tables)
    ended = export(source, target, "--tables", tables)

    assert (failed.code, finished != {}) == (3, True)
    assert (differently.code, "another options" in differently.err) == (1, True)
    assert (other.code, "another identity" in other.err) == (1, True)
    assert ended.code == 0
    kept = {path.stat().st_mtime_ns for path in target.rglob("*.parquet")}
    assert set(finished.values()) <= kept
    assert {path.name for path in target.iterdir()} == {"manifest.json", *tables.split(",")}
    assert [path.name for path in (target / "aggregate__count").iterdir()] == ["part-00000.parquet"]
    for name, table in tables_of(target).items():
        assert rows(read(target, table)) == rows(expected(source, name))


@pytest.mark.slow
def test_a_partial_export_names_what_it_lacks(export: Any, tmp_path: Path) -> None:
    source = tmp_path / "source"
    write_in_files(CANONICAL, source)
    for damaged in source.glob("aggregate-*"):
        damaged.unlink()

    whole = export(source, tmp_path / "whole")
    ended = export(source, tmp_path / "to", "--allow-partial")

    assert whole.code == 3
    assert ended.code == 0
    assert "lacks rows" in ended.err
    (savepoint,) = manifest_of(tmp_path / "to")["savepoints"]
    lacking = [
        *savepoint["incomplete"],
        *(file for table in savepoint["tables"] for file in table["incomplete"]),
    ]
    assert {file["code"] for file in lacking} == {"MISSING_FILE"}


@pytest.mark.slow
def test_of_several_savepoints_the_newest_is_exported_and_named(export: Any, tmp_path: Path) -> None:
    ended = export(HISTORY, tmp_path / "to", "--tables", "aggregate__count")

    (savepoint,) = manifest_of(tmp_path / "to")["savepoints"]
    assert savepoint["checkpoint_id"] == 2
    assert "the newest of 2" in ended.err
