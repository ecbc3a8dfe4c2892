"""The tables of all checkpoints of a job, on checkpoints that Flink wrote."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from catalog import Catalog, HistoryDatabase, NoSuchTableError, Root
from catalog.errors import NoSuchDatabaseError
from readers import ReaderError, operator_id_of
from tests.support.checkpoints import COUNTS, NOON, put
from tests.support.paths import DATA

SST_MAGIC = bytes.fromhex("f7cff485b741e288")
"""The last bytes of an SST file."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for number in (1, 2):
        put(tmp_path / "job" / f"chk-{number}", number)
    return tmp_path


def catalog_of(root: Path, **options: Any) -> Catalog:
    return Catalog([Root(path=str(root), label="prod")], **options)


def history(root: Path, name: str = "prod__job__history") -> HistoryDatabase:
    found = catalog_of(root).schema(name).database
    assert isinstance(found, HistoryDatabase)
    return found


def test_a_table_of_the_history_has_the_rows_of_all_checkpoints(root: Path) -> None:
    catalog = catalog_of(root)
    table = history(root).table("aggregate__count")

    rows = table.scan().to_arrow()

    assert table.schema.names[:3] == ["_checkpoint_id", "_checkpoint_at", "_database"]
    for number in (1, 2):
        database = catalog.database(f"chk-{number}")
        of_one = rows.filter(pa.compute.field("_checkpoint_id") == number)
        assert of_one.select(database.table("aggregate__count").schema.names).equals(
            database.scan("aggregate__count").to_arrow()
        )
        assert set(of_one["_database"].to_pylist()) == {database.name}
        assert set(of_one["_checkpoint_at"].to_pylist()) == {datetime.fromtimestamp(NOON + number, UTC)}


def test_a_key_prunes_in_each_checkpoint(root: Path) -> None:
    scan = history(root).table("aggregate").scan(["_checkpoint_id", "value"], key="key_662")

    assert sorted(zip(*scan.to_arrow().to_pydict().values(), strict=True)) == list(COUNTS.items())
    assert len(scan.splits) == 2
    assert len(scan.key_groups) == 1


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_checkpoint_that_is_not_wanted_is_not_read(root: Path, number: int) -> None:
    table = history(root).table("aggregate__count")

    for condition in ({"_checkpoint_id": number}, {"_database": f"prod__job__chk-{number}"}):
        scan = table.scan(["value"], key="key_662", **condition)

        wanted = [COUNTS[number]] if number in COUNTS else []
        assert scan.to_arrow()["value"].to_pylist() == wanted
        assert len(scan.splits) == len(wanted)


def test_the_headers_of_checkpoints_with_one_outline_are_parsed_once(root: Path) -> None:
    other = DATA / "flink" / "2.3.0" / "wordcount-hashmap-savepoints" / "canonical"
    shutil.copytree(other, root / "job" / "chk-3")
    put(root / "job" / "chk-4", 2)

    for name in ("aggregate__count", "AGGREGATE__count", operator_id_of("aggregate") + "__count"):
        found = history(root).table(name)

        assert [(member.database.folder, member.origin.folder) for member in found.members] == [
            ("chk-4", "chk-4"),
            ("chk-3", "chk-3"),
            ("chk-2", "chk-4"),
            ("chk-1", "chk-4"),
        ]
        for member in found.members:
            own = member.database.table("aggregate__count")
            assert member.table is own
            assert member.shown.schema.equals(own.schema)
            assert member.shown.unquoted == own.unquoted


def test_all_tables_of_the_checkpoints_are_those_of_the_history(root: Path) -> None:
    whole, newest = history(root), catalog_of(root).database("chk-2")

    assert whole.tables == newest.tables
    for listed in whole.listed():
        assert listed.schema == whole.table(listed.name).schema
    for name in whole.tables:
        assert whole.table(name).scan().to_arrow().num_rows == sum(
            catalog_of(root).database(f"chk-{number}").scan(name).to_arrow().num_rows for number in (1, 2)
        )


def test_rows_are_counted_without_a_column(root: Path) -> None:
    table = history(root).table("aggregate__count")

    counted = sum(batch.num_rows for split in table.scan([]).splits for batch in split.read())

    assert counted == table.scan().to_arrow().num_rows


def test_a_broken_checkpoint_is_left_out_and_named(root: Path) -> None:
    (root / "job" / "chk-2" / "_metadata").write_bytes(b"no savepoint")
    scan = history(root).table("aggregate").scan(["value"], key="key_662")

    assert scan.to_arrow()["value"].to_pylist() == [COUNTS[1]]
    [error] = history(root).table("aggregate").plan().incomplete
    assert 'checkpoint "prod__job__chk-2" is left out: ' in str(error)


def test_a_checkpoint_that_is_removed_between_plan_and_read_is_left_out_and_named(root: Path) -> None:
    scan = history(root).table("aggregate__count").scan(["_database", "value"], key="key_662")
    shutil.rmtree(root / "job" / "chk-1")
    shutil.rmtree(root / "job" / "shared")

    rows = scan.to_arrow().to_pylist()

    named = {str(error).partition(" is left out: ")[0] for error in scan.incomplete}
    seen = {row["_database"] for row in rows}
    # What was open may still be read; what was not is named.
    assert {
        f'checkpoint "{name}"' for name in ("prod__job__chk-1", "prod__job__chk-2") if name not in seen
    } == named


def test_a_history_of_which_nothing_can_be_read_is_an_error(root: Path) -> None:
    for number in (1, 2):
        (root / "job" / f"chk-{number}" / "_metadata").write_bytes(b"no savepoint")
    whole = history(root)

    for ask in (lambda: whole.table("aggregate"), lambda: whole.tables):
        with pytest.raises(ReaderError, match="expected"):
            ask()


def test_unknown_tables_come_with_near_names(root: Path) -> None:
    with pytest.raises(NoSuchTableError, match="near: aggregate"):
        history(root).table("agregate")


def test_a_database_of_the_name_goes_before_the_history(root: Path) -> None:
    put(root / "job" / "history")
    catalog = catalog_of(root)

    assert catalog.schema("prod__job__history").database is catalog.database("prod__job__history")
    assert isinstance(catalog.schema("prod__job__~history").database, HistoryDatabase)
    assert catalog.job("job").history == "prod__job__~history"
    assert catalog.schema("history").database is catalog.database("prod__job__history")


def test_a_history_is_no_database(root: Path) -> None:
    with pytest.raises(NoSuchDatabaseError):
        catalog_of(root).database("prod__job__history")


def test_the_title_of_a_job_is_enough(root: Path) -> None:
    catalog = catalog_of(root)

    assert catalog.schema("JOB__history") == catalog.schema("prod__job__history")


def test_a_user_reads_only_the_visible_checkpoints(root: Path) -> None:
    some = catalog_of(root).visible(lambda name: name.endswith("chk-1"))

    rows = some.schema("prod__job__history").database.scan("aggregate", key="key_662").to_arrow()

    assert rows["value"].to_pylist() == [COUNTS[1]]
    assert some.schema("prod__job__history").database.table("operators").scan().to_arrow()[
        "_database"
    ].unique().to_pylist() == ["prod__job__chk-1"]


def test_a_new_checkpoint_is_in_the_history_at_once(root: Path) -> None:
    catalog = catalog_of(root, rescan_after_s=0)
    before = catalog.schema("prod__job__history").database

    put(root / "job" / "chk-3", 2)
    after = catalog.schema("prod__job__history").database

    assert [len(one.databases) for one in (before, after) if isinstance(one, HistoryDatabase)] == [2, 3]
    assert after.table("aggregate").plan().schema == before.table("aggregate").plan().schema


def test_the_histories_of_several_checkpoints_are_listed(root: Path) -> None:
    put(root / "alone" / "chk-1")
    catalog = catalog_of(root)

    assert catalog.all_schema_names[-1:] == ["prod__job__history"]
    assert [schema.name for schema in catalog.all_schemas()] == catalog.all_schema_names
    assert isinstance(catalog.schema("prod__alone__history").database, HistoryDatabase)
    assert catalog.schema_names == [
        "prod__alone__chk-1",
        "prod__job__chk-1",
        "prod__job__chk-2",
        "latest",
        "prod_latest",
    ]


def test_a_table_that_checkpoints_share_is_parsed_once(tmp_path: Path) -> None:
    for number in (1, 2):
        put(tmp_path / "job" / f"chk-{number}", 2)
    of_both = catalog_of(tmp_path)

    first = of_both.database("chk-1").scan("aggregate", key="key_662").to_arrow()
    for file in (tmp_path / "job" / "shared").iterdir():
        if file.read_bytes()[-8:] == SST_MAGIC:
            # The same file by its size and its time, without the end that leads to its blocks.
            status = file.stat()
            with file.open("r+b") as opened:
                opened.seek(-53, os.SEEK_END)
                opened.write(bytes(53))
            os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    second = of_both.database("chk-2").scan("aggregate", key="key_662").to_arrow()

    assert first["value"].to_pylist() == second["value"].to_pylist() == [COUNTS[2]]
