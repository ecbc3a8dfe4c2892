"""Tables that follow a job: after each commit they are the checkpoint, each checkpoint is there once, and what did not change stays."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import savepointdb
from catalog import Catalog, Root
from service.base.errors import InvalidRequestError
from service.base.settings import Settings
from service.tasks.copies.export.exporting import run
from service.tasks.copies.export.request import ExportRequest
from service.tasks.task import Context
from tests.service.tasks.copies.export.conftest import (
    NAMESPACE,
    delta_table,
    expected,
    iceberg_table,
    manifest_of,
    rows,
)
from tests.support.changing import TABLE, make, make_job, numbered
from tests.support.checkpoints import NOON
from tests.support.paths import PROJECT

KILLS = int(os.environ.get("KILLS", "10"))
formats = pytest.mark.parametrize("name", ["iceberg", "delta"])
Checkpoints = list[str]


def iceberg_read(target: Path, checkpoint: int) -> tuple[pa.Table, pa.Table]:
    with iceberg_table(target, TABLE, checkpoint) as (table, snapshot):
        scan = table.scan(snapshot_id=snapshot)
        return scan.to_arrow(), scan.to_duckdb("found").sql("FROM found").to_arrow_table()


def delta_read(target: Path, checkpoint: int) -> tuple[pa.Table, pa.Table]:
    from deltalake import QueryBuilder

    table = delta_table(target, TABLE, checkpoint)
    own = QueryBuilder().register("found", table).execute("SELECT * FROM found").read_all()
    with duckdb.connect() as connection:
        found = connection.register("found", table.to_pyarrow_dataset()).sql("FROM found").to_arrow_table()
    return pa.table(own), found


def iceberg_checkpoints(target: Path, table: str = TABLE) -> Checkpoints:
    """The checkpoints of the snapshots of a table, in their order."""
    from pyiceberg.catalog import load_catalog

    catalog = load_catalog("savepointdb", type="sql", uri=f"sqlite:///{target}/catalog.db")
    try:
        snapshots = catalog.load_table((NAMESPACE, table)).snapshots()
        return [str(one.summary["savepointdb.checkpoint-id"]) for one in snapshots if one.summary]
    finally:
        catalog.close()


def delta_checkpoints(target: Path, table: str = TABLE) -> Checkpoints:
    from deltalake import DeltaTable

    history = reversed(DeltaTable(target / NAMESPACE / table).history())
    return [one["savepointdb.checkpoint-id"] for one in history]


READ: dict[str, Callable[[Path, int], tuple[pa.Table, pa.Table]]] = {
    "iceberg": iceberg_read,
    "delta": delta_read,
}
CHECKPOINTS: dict[str, Callable[..., Checkpoints]] = {
    "iceberg": iceberg_checkpoints,
    "delta": delta_checkpoints,
}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_job(tmp_path_factory.mktemp("written") / NAMESPACE)


class Lake:
    """Follows a job into a folder, until each of some steps is done.

    Args:
        folder: of the job and of the tables.
        written: all checkpoints of the job.
        name: of the format.
    """

    def __init__(self, folder: Path, written: Path, name: str) -> None:
        self.job, self.target, self.name, self._written = folder / NAMESPACE, folder / "to", name, written
        self.job.mkdir()
        self.lines: list[str] = []
        self.warnings: list[str] = []

    def add(self, number: int) -> None:
        made = self.job / f"chk-{number}"
        shutil.copytree(self._written / made.name, made, copy_function=shutil.copy2)

    def follow(self, *steps: Callable[[], object], **options: Any) -> None:
        """Follow until nothing is new after the last step; a step is done where the follower waits."""
        left = list(steps)

        def wait(_: float) -> None:
            if not left:
                raise KeyboardInterrupt
            left.pop(0)()

        given: dict[str, Any] = {"tables": (TABLE, "StateMeta"), "follow": True, **options}
        catalog = Catalog([Root(path=str(self.job), label=NAMESPACE)])
        context = Context(
            catalog=catalog,
            settings=Settings(),
            start=lambda _: pytest.fail("no statement is needed"),
            is_alone=True,
            note=self.lines.append,
            warn=self.warnings.append,
        )
        with pytest.raises(KeyboardInterrupt):
            run(ExportRequest(to=str(self.target), format=self.name, **given), context, wait=wait)

    def check(self, *numbers: int) -> None:
        """Check that the table has these checkpoints, each once and whole; a checkpoint may be gone."""
        assert CHECKPOINTS[self.name](self.target) == [str(one) for one in numbers]
        for number in numbers:
            wanted = rows(expected(self._written / f"chk-{number}", TABLE))
            assert [rows(one) for one in READ[self.name](self.target, number)] == [wanted, wanted]
        assert not (self.target / "_unfinished").exists()

    def files(self, number: int) -> set[str]:
        """The files of the table as of a checkpoint, by the manifest."""
        (found,) = [one for one in manifest_of(self.target)["savepoints"] if one["checkpoint_id"] == number]
        (table,) = [one for one in found["tables"] if one["name"] == TABLE]
        return {file["path"] for file in table["files"]}


@pytest.fixture
def lake(tmp_path: Path, written: Path) -> Callable[[str], Lake]:
    return lambda name: Lake(tmp_path, written, name)


@pytest.mark.slow
@formats
def test_each_checkpoint_is_a_commit_that_is_the_checkpoint(lake: Callable[[str], Lake], name: str) -> None:
    found = lake(name)
    found.add(1)

    found.follow(lambda: found.add(2), lambda: found.add(3), lambda: found.add(4))

    found.check(1, 2, 3, 4)
    assert [line.partition(":")[0] for line in found.lines] == [
        f"job__chk-{one} in job" for one in range(1, 5)
    ]
    assert found.warnings == []


@pytest.mark.slow
@formats
def test_only_files_of_key_groups_with_a_change_are_written(lake: Callable[[str], Lake], name: str) -> None:
    found = lake(name)
    found.add(1)

    found.follow(lambda: found.add(2), lambda: found.add(3), partition_by="_key_group")

    found.check(1, 2, 3)
    first, second, third = (found.files(one) for one in (1, 2, 3))
    # key_0, key_1 and key_662 are of three key groups of 128, key_662 and the new key of two.
    assert (len(first), len(second - first), len(third - second)) == (128, 3, 2)
    assert {one.rpartition("/")[0] for one in first} == {one.rpartition("/")[0] for one in second}


@pytest.mark.slow
@formats
def test_a_table_without_a_change_keeps_its_file(
    lake: Callable[[str], Lake], name: str, tmp_path: Path
) -> None:
    found = lake(name)
    found.add(1)
    make(found.job, 2, found.job / "chk-1", 'DELETE FROM "mod7-no-uid__seen" WHERE key = 1')

    found.follow()

    assert CHECKPOINTS[name](found.target) == ["1", "2"]
    assert found.files(1) == found.files(2)
    wanted = rows(expected(found.job / "chk-2", TABLE))
    assert [rows(one) for one in READ[name](found.target, 2)] == [wanted, wanted]


@pytest.mark.slow
@formats
def test_what_is_gone_or_unreadable_is_spanned(lake: Callable[[str], Lake], name: str) -> None:
    found = lake(name)
    found.add(1)

    def damaged() -> None:
        found.add(2)
        (found.job / "chk-2" / "_metadata").write_bytes(b"no metadata")

    def later() -> None:
        shutil.rmtree(found.job / "chk-1")
        found.add(4)

    found.follow(damaged, lambda: None, later)

    found.check(1, 4)
    (warning,) = found.warnings
    assert warning.startswith("job__chk-2 is left out: ")


@pytest.mark.slow
@formats
def test_a_job_that_counts_from_1_again_goes_on(
    lake: Callable[[str], Lake], name: str, tmp_path: Path
) -> None:
    found = lake(name)
    found.add(3)
    found.add(4)
    again = make(tmp_path / "new", 1, found.job / "chk-4", f"DELETE FROM {TABLE} WHERE key = 'key_2'")
    os.utime(again / "_metadata", (NOON + 100, NOON + 100))

    found.follow(lambda: again.rename(found.job / again.name))

    assert CHECKPOINTS[name](found.target) == ["3", "4", "1"]
    wanted = rows(expected(found.job / "chk-1", TABLE))
    assert [rows(one) for one in READ[name](found.target, 1)] == [wanted, wanted]


@pytest.mark.slow
@formats
def test_a_checkpoint_that_goes_before_its_export_ends_does_not_stop_the_next(
    lake: Callable[[str], Lake], name: str
) -> None:
    found = lake(name)
    found.add(1)
    found.follow()
    # What a run leaves that is killed when it has begun a checkpoint, and written a part of it.
    begun = (
        '{"identity": "00", "namespace": "job", "path": "/gone/chk-2", "format": "%s", "options": {"tables": '
        '["%s", "StateMeta"], "partition_by": null, "nanoseconds": null, "allow_partial": false}}'
    )
    (found.target / "_unfinished").mkdir()
    (found.target / "_unfinished" / "begun.json").write_text(begun % (name, TABLE))

    found.follow(lambda: found.add(3))

    found.check(1, 3)


@pytest.mark.slow
@formats
def test_a_type_that_changes_is_evolution_of_the_table(
    lake: Callable[[str], Lake], name: str, tmp_path: Path
) -> None:
    found = lake(name)
    found.add(1)
    wider = f"ALTER TABLE {TABLE} ALTER COLUMN value TYPE VARCHAR"

    found.follow(lambda: make(found.job, 2, found.job / "chk-1", wider))

    for number in (1, 2):
        wanted = rows(expected(found.job / f"chk-{number}", TABLE))
        assert [rows(one) for one in READ[name](found.target, number)] == [wanted, wanted]
    assert READ[name](found.target, 2)[0].column("value").cast(pa.string())[0].as_py().isdecimal()


@pytest.mark.slow
def test_tables_that_others_have_changed_are_written_anew(lake: Callable[[str], Lake]) -> None:
    from deltalake import DeltaTable

    found = lake("delta")
    found.add(1)
    found.follow(partition_by="_key_group")
    table = DeltaTable(found.target / NAMESPACE / TABLE)
    table.delete("key = 'key_5'")
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    found.add(2)

    found.follow(partition_by="_key_group")

    wanted = rows(expected(found.job / "chk-2", TABLE))
    assert [rows(one) for one in delta_read_newest(found.target)] == [wanted]
    assert len(found.files(2) & found.files(1)) == 0


def delta_read_newest(target: Path) -> list[pa.Table]:
    from deltalake import DeltaTable, QueryBuilder

    table = DeltaTable(target / NAMESPACE / TABLE)
    return [pa.table(QueryBuilder().register("t", table).execute("SELECT * FROM t").read_all())]


@pytest.mark.parametrize("options", [{"format": "parquet"}, {"format": "delta", "database": "chk-1"}])
def test_only_a_history_is_followed(options: Any) -> None:
    with pytest.raises(InvalidRequestError, match="follow: expected"):
        ExportRequest(to="to", follow=True, **options)


def _wait_for(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.002)


@pytest.mark.slow
@formats
def test_a_follower_that_is_killed_at_any_moment_goes_on(tmp_path: Path, written: Path, name: str) -> None:
    """Kills while checkpoints come, `KILLS` of them (10 if not set); then each is there once, whole, in each table."""
    job, target = tmp_path / NAMESPACE, tmp_path / "to"
    job.mkdir()
    shutil.copytree(written / "chk-1", job / "chk-1", copy_function=shutil.copy2)
    command = [sys.executable, "-m", "savepointdb", "export", str(job), "--to", str(target), "--format", name]
    chance = random.Random(7)
    begun = target / "_unfinished" / "begun.json"
    last = KILLS + 2
    numbers = iter(range(2, last + 1))

    def started(*options: str) -> subprocess.Popen[bytes]:
        tables = ("--tables", f"{TABLE},StateMeta,timers", "--no-cache", "--interval", "0.05")
        return subprocess.Popen(
            [*command, *tables, "--partition-by", "_key_group", *options],
            cwd=PROJECT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def add() -> None:
        number = next(numbers)
        with savepointdb.connect(job / f"chk-{number - 1}") as before:
            changed = f"UPDATE {TABLE} SET value = value + 1 WHERE key IN ('key_{number}', 'key_662')"
            before.write(tmp_path / "next", changed)
        numbered(tmp_path / "next", number).rename(job / f"chk-{number}")

    interrupted = 0
    for _ in range(KILLS):
        add()
        with started("--follow") as process:
            try:
                _wait_for(begun.exists)
                time.sleep(chance.uniform(0.0, 1.0))
            finally:
                process.kill()
        interrupted += begun.exists()
    add()
    ended = started()
    _, err = ended.communicate(timeout=120)

    assert (ended.returncode, err) == (0, b"")
    assert interrupted > KILLS // 3
    wanted = [str(number) for number in range(1, last + 1)]
    for table in (TABLE, "StateMeta", "timers"):
        assert CHECKPOINTS[name](target, table) == wanted
    for number in range(1, last + 1):
        state = rows(expected(job / f"chk-{number}", TABLE))
        assert [rows(one) for one in READ[name](target, number)] == [state, state], number
    assert not (target / "_unfinished").exists()
