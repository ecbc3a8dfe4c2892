"""Tables of Iceberg and Delta: a snapshot, or a version, for each checkpoint of a job, with all its rows; columns follow their states."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from service.cli import main
from tests.service.tasks.copies.export.conftest import expected, manifest_of, rows
from tests.support.changing import TABLE, make, make_job
from tests.support.checkpoints import NOON
from tests.support.paths import DATA

FLINK = DATA / "flink"
HISTORY = FLINK / "2.3.0/wordcount-rocksdb-checkpoint-incremental/checkpoint"
WORDCOUNT = FLINK / "2.3.0/wordcount-hashmap-savepoints/canonical"
EVERYTHING = FLINK / "2.3.0/everything-rocksdb-savepoints/native"
CORPUS = DATA / "corpus/1.20.3/allstates-hashmap-compressed"
TYPES = FLINK / "2.3.0/types-hashmap-savepoints/canonical"
NAMESPACE = "job"

AsOf = Callable[[Path, str, str], pa.Table]


def iceberg_as_of(folder: Path, table: str, checkpoint: str) -> pa.Table:
    """The rows of a table of Iceberg as of a checkpoint, by pyiceberg."""
    from pyiceberg.catalog import load_catalog

    catalog = load_catalog("savepointdb", type="sql", uri=f"sqlite:///{folder}/catalog.db")
    try:
        found = catalog.load_table((NAMESPACE, table))
        ids = {
            snapshot.summary["savepointdb.checkpoint-id"]: snapshot.snapshot_id
            for snapshot in found.snapshots()
            if snapshot.summary is not None
        }
        assert len(ids) == len(found.snapshots())
        return found.scan(snapshot_id=ids[checkpoint]).to_arrow()
    finally:
        catalog.close()


def delta_as_of(folder: Path, table: str, checkpoint: str) -> pa.Table:
    """The rows of a table of Delta as of a checkpoint, by deltalake."""
    from deltalake import DeltaTable, QueryBuilder

    path = folder / NAMESPACE / table
    history = DeltaTable(path).history()
    versions = {commit["savepointdb.checkpoint-id"]: commit["version"] for commit in history}
    assert len(versions) == len(history)
    found = DeltaTable(path, version=versions[checkpoint])
    return pa.table(QueryBuilder().register("found", found).execute("SELECT * FROM found").read_all())


READERS: dict[str, AsOf] = {"iceberg": iceberg_as_of, "delta": delta_as_of}
formats = pytest.mark.parametrize("name", list(READERS))


@pytest.fixture
def write(tmp_path: Path) -> Callable[[Path, str, str], Path]:
    """Write a savepoint anew by a script, as a checkpoint of the job."""

    def written(source: Path, script: str, target: str) -> Path:
        assert main(["write", str(source), script, "--to", str(tmp_path / target)]) == 0
        return tmp_path / target

    return written


@pytest.mark.slow
@formats
def test_a_table_as_of_a_checkpoint_is_that_of_the_checkpoint(export: Any, tmp_path: Path, name: str) -> None:
    job, target = tmp_path / NAMESPACE, tmp_path / "to"
    shutil.copytree(HISTORY, job)

    ended = export(job, target, "--format", name)

    assert (ended.code, ended.err) == (0, "")
    savepoints = manifest_of(target)["savepoints"]
    assert [savepoint["checkpoint_id"] for savepoint in savepoints] == [1, 2]
    for savepoint in savepoints:
        for table in savepoint["tables"]:
            found = READERS[name](target, table["folder"], str(savepoint["checkpoint_id"]))
            wanted = expected(job / f"chk-{savepoint['checkpoint_id']}", table["name"])
            assert found.schema.names == wanted.schema.names
            assert rows(found) == rows(wanted), table["name"]
            assert table["rows"] == wanted.num_rows


@pytest.mark.slow
@formats
def test_new_checkpoints_follow_and_known_ones_are_left_alone(export: Any, tmp_path: Path, name: str) -> None:
    job, target = tmp_path / NAMESPACE, tmp_path / "to"
    shutil.copytree(HISTORY, job)
    later = tmp_path / "later"
    (job / "chk-2").rename(later)
    first = export(job, target, "--format", name)
    before = {path: path.stat().st_mtime_ns for path in target.rglob("*.parquet")}
    later.rename(job / "chk-2")

    second = export(job, target, "--format", name)
    third = export(job, target, "--format", name)

    assert [ended.code for ended in (first, second, third)] == [0, 0, 0]
    assert "chk-1 is there already" in second.out
    assert "chk-2 is there already" in third.out
    assert {path: path.stat().st_mtime_ns for path in before} == before
    counts = [READERS[name](target, "aggregate__count", number).num_rows for number in ("1", "2")]
    assert counts == [expected(job / f"chk-{one}", "aggregate__count").num_rows for one in (1, 2)]


@pytest.mark.slow
def test_a_history_goes_on_only_forwards(export: Any, tmp_path: Path) -> None:
    target, options = (
        tmp_path / "to",
        ("--format", "delta", "--namespace", NAMESPACE, "--tables", "operators"),
    )
    export(HISTORY / "chk-2", target, *options)

    ended = export(HISTORY / "chk-1", target, *options)

    assert (ended.code, "is left out: it is older than" in ended.err) == (0, True)
    assert [one["checkpoint_id"] for one in manifest_of(target)["savepoints"]] == [2]


@pytest.mark.slow
@formats
def test_a_checkpoint_that_is_copied_in_late_is_left_out(export: Any, tmp_path: Path, name: str) -> None:
    job, target, options = tmp_path / NAMESPACE, tmp_path / "to", ("--format", name, "--tables", TABLE)
    make_job(job)
    (job / "chk-3").rename(tmp_path / "chk-3")
    first = export(job, target, *options)
    shutil.copytree(tmp_path / "chk-3", job / "chk-3")
    os.utime(job / "chk-3" / "_metadata", (NOON + 100, NOON + 100))

    late = export(job, target, *options)
    make(job, 5, job / "chk-4", f"DELETE FROM {TABLE} WHERE key = 'key_2'")
    next_one = export(job, target, *options)

    assert [ended.code for ended in (first, late, next_one)] == [0, 0, 0]
    for ended in (late, next_one):
        assert "job__chk-3 is left out: it is older than job__chk-" in ended.err
    assert [one["checkpoint_id"] for one in manifest_of(target)["savepoints"]] == [1, 2, 4, 5]
    for number in ("4", "5"):
        wanted = rows(expected(job / f"chk-{number}", TABLE))
        assert rows(READERS[name](target, TABLE, number)) == wanted


@pytest.mark.slow
@formats
def test_a_job_that_was_started_anew_between_two_exports_goes_on(
    export: Any, tmp_path: Path, name: str
) -> None:
    job, target, options = tmp_path / NAMESPACE, tmp_path / "to", ("--format", name, "--tables", TABLE)
    make_job(job)
    shutil.rmtree(job / "chk-1")
    shutil.rmtree(job / "chk-2")
    assert export(job, target, *options).code == 0
    for number in (1, 2):
        made = make(job, number, job / "chk-4", f"DELETE FROM {TABLE} WHERE key = 'key_{number + 1}'")
        os.utime(made / "_metadata", (NOON + 100 + number, NOON + 100 + number))
        assert export(job, target, *options).code == 0

    assert [one["checkpoint_id"] for one in manifest_of(target)["savepoints"]] == [3, 4, 1, 2]


@pytest.mark.slow
def test_older_checkpoints_may_lack_a_table_that_the_newest_has(
    export: Any, write: Callable[[Path, str, str], Path], tmp_path: Path
) -> None:
    job, target = tmp_path / "jobs", tmp_path / "to"
    job.mkdir()
    write(WORDCOUNT, "DROP TABLE aggregate__count", "jobs/one")
    shutil.copytree(WORDCOUNT, job / "two")
    for number, name in enumerate(("one", "two")):
        os.utime(job / name / "_metadata", (1_000_000_000 + number, 1_000_000_000 + number))
    tables = ("--tables", "aggregate__count,operators")

    ended = export(job, target, "--format", "delta", *tables)
    unknown = export(job, tmp_path / "other", "--format", "delta", "--tables", "agregate__count")

    assert ended.code == 0, ended.err
    found = [[table["name"] for table in one["tables"]] for one in manifest_of(target)["savepoints"]]
    assert found == [["operators"], ["aggregate__count", "operators"]]
    assert (unknown.code, "aggregate__count" in unknown.err) == (1, True)


@pytest.mark.slow
@formats
def test_columns_follow_their_states_and_older_checkpoints_keep_theirs(
    export: Any, write: Callable[[Path, str, str], Path], tmp_path: Path, name: str
) -> None:
    """A wider number, another type, a new field, a state that goes."""
    scripts = (
        "ALTER TABLE types__v_int ALTER COLUMN value TYPE BIGINT; DROP TABLE types__v_short",
        "ALTER TABLE types__v_int ALTER COLUMN value TYPE VARCHAR",
    )
    target = tmp_path / "to"
    paths = [EVERYTHING]
    for number, script in enumerate(scripts):
        paths.append(write(paths[-1], script, f"step-{number}"))
    options = ("--format", name, "--namespace", NAMESPACE, "--nanoseconds", "text")

    ended = [export(path, target, *options) for path in paths]

    assert [one.code for one in ended] == [0, 0, 0], ended
    found = [_as_of_each(name, target, "types__v_int"), _as_of_each(name, target, "types__v_short")]
    wanted = [expected(path, "types__v_int") for path in paths]
    assert [rows(one) for one in found[0]] == [rows(one) for one in wanted]
    assert [one.schema.field("value").type for one in wanted] == [pa.int32(), pa.int64(), pa.string()]
    assert [len(one) for one in found[1]] == [expected(EVERYTHING, "types__v_short").num_rows, 0, 0]
    assert len(manifest_of(target)["savepoints"]) == 3


@pytest.mark.slow
@formats
def test_a_key_group_is_a_partition(export: Any, tmp_path: Path, name: str) -> None:
    target = tmp_path / "to"
    options = ("--format", name, "--namespace", NAMESPACE, "--partition-by", "_key_group")

    ended = export(WORDCOUNT, target, *options, "--tables", "aggregate__count,StateMeta")

    assert ended.code == 0
    (found,) = _as_of_each(name, target, "aggregate__count")
    wanted = expected(WORDCOUNT, "aggregate__count")
    assert rows(found.select(wanted.schema.names)) == rows(wanted)
    if name == "delta":
        from deltalake import DeltaTable

        table = DeltaTable(target / NAMESPACE / "aggregate__count")
        assert table.metadata().partition_columns == ["_key_group"]
        assert len(table.file_uris(file_pruning_predicate="_key_group = 5")) == 1


def _as_of_each(name: str, target: Path, table: str) -> list[pa.Table]:
    """The rows of a table as of each of its snapshots or versions."""
    if name == "delta":
        from deltalake import DeltaTable, QueryBuilder

        path = target / NAMESPACE / table
        tables = [DeltaTable(path, version=version) for version in range(DeltaTable(path).version() + 1)]
        return [
            pa.table(QueryBuilder().register("found", one).execute("SELECT * FROM found").read_all())
            for one in tables
        ]
    from pyiceberg.catalog import load_catalog

    catalog = load_catalog("savepointdb", type="sql", uri=f"sqlite:///{target}/catalog.db")
    try:
        found = catalog.load_table((NAMESPACE, table))
        return [found.scan(snapshot_id=one.snapshot_id).to_arrow() for one in found.snapshots()]
    finally:
        catalog.close()


@formats
def test_an_export_goes_on_with_the_option_that_its_error_advises(
    export: Any, tmp_path: Path, name: str
) -> None:
    options = ("--format", name, "--namespace", NAMESPACE, "--tables", "types__v_datetime,operators")

    fine = export(TYPES, tmp_path, *options)
    text = export(TYPES, tmp_path, *options, "--nanoseconds", "text")
    again = export(TYPES, tmp_path, *options, "--nanoseconds", "text")
    other = export(TYPES, tmp_path, *options, "--nanoseconds", "bigint")

    assert (fine.code, "with nanoseconds as text or bigint" in fine.err) == (3, True)
    assert (text.code, again.code) == (0, 0), text.err
    (savepoint,) = manifest_of(tmp_path)["savepoints"]
    files = [file["path"] for table in savepoint["tables"] for file in table["files"]]
    # Nothing of the first run is left.
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("chk-*.parquet")} == set(files)
    assert not (tmp_path / "_unfinished").exists()
    assert rows(_as_of_each(name, tmp_path, "types__v_datetime")[0]) == rows(
        expected(TYPES, "types__v_datetime")
    )
    assert (other.code, "export to another folder" in other.err) == (1, True)


@formats
def test_an_export_goes_on_where_a_name_of_a_table_was_wrong(export: Any, tmp_path: Path, name: str) -> None:
    options = ("--format", name, "--namespace", NAMESPACE, "--tables")

    wrong = export(TYPES, tmp_path, *options, "operator")
    right = export(TYPES, tmp_path, *options, "operators")

    assert (wrong.code, 'did you mean "operators"' in wrong.err) == (1, True)
    assert right.code == 0, right.err
    assert rows(_as_of_each(name, tmp_path, "operators")[0]) == rows(expected(TYPES, "operators"))


def test_an_export_whose_tables_become_visible_keeps_its_options(export: Any, tmp_path: Path) -> None:
    options = ("--format", "delta", "--namespace", NAMESPACE, "--tables", "types__v_datetime")
    export(TYPES, tmp_path, *options)
    begun = tmp_path / "_unfinished" / "begun.json"
    begun.write_text(json.dumps({**json.loads(begun.read_text()), "is_written": True}))

    ended = export(TYPES, tmp_path, *options, "--nanoseconds", "text")

    assert (ended.code, "finish that one, or export to another folder" in ended.err) == (1, True)
