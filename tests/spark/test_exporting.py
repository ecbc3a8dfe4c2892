"""Exports whose files executors write: the same tables, files and manifest; and Spark reads what this machine has written."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from contextlib import closing
from datetime import date, datetime
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import catalog
from service.base.settings import Settings
from service.query.engines.spark.engine import SparkEngine
from service.query.engines.spark.packages import write_packages
from service.query.engines.spark.unpack import PACKAGES
from service.tasks.copies.export.exporting import Exported, run
from service.tasks.copies.export.request import ExportRequest
from service.tasks.task import Context
from tests.service.tasks.copies.export.conftest import (
    NAMESPACE,
    delta_table,
    expected,
    iceberg_table,
    manifest_of,
    read,
    rows,
    tables_of,
)
from tests.spark.conftest import CASES, EVERYTHING, FLINK, SHORT_LIVED
from tests.support.changing import TABLE, make_job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ICEBERG = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
ROWS = Path(__file__).parent / "IcebergRows.java"
SQLITE = "org.xerial:sqlite-jdbc:3.46.0.0"
REST = Path(__file__).parent / "IcebergRest.java"
WORDCOUNT_HISTORY = FLINK / "2.3.0" / "wordcount-rocksdb-checkpoint-incremental" / "checkpoint"
NAMES = (
    "row",
    "list_map",
    "avro_specific",
    "arr_byte",
    "byte",
    "bigdec",
    "nullable_list",
    "sql_date",
    "arr_tuple2",
)

pytestmark = pytest.mark.spark


def exported(
    engine: SparkEngine | None,
    request: ExportRequest,
    source: str = str(EVERYTHING),
    wait: Callable[[float], object] = lambda _: None,
) -> Exported:
    """Export by executors, or here."""
    found = catalog.connect(source)
    context = Context(
        catalog=found,
        settings=Settings(),
        start=lambda request: pytest.fail("an export runs no query"),
        worker=lambda name, size_bytes: engine,
    )
    return run(request, context, wait=wait)


def test_executors_write_what_this_machine_writes(spark_engine: SparkEngine, tmp_path: Path) -> None:
    tables = ("kinds__*", "types__v_row", "types__v_instant", "timers", "StateMeta")
    done = exported(spark_engine, ExportRequest(to=str(tmp_path / "far"), engine="spark", tables=tables))
    exported(None, ExportRequest(to=str(tmp_path / "here"), tables=tables))

    assert done.notes == ()
    far, here = tables_of(tmp_path / "far"), tables_of(tmp_path / "here")
    assert far.keys() == here.keys()
    for name, table in far.items():
        assert rows(read(tmp_path / "far", table)) == rows(expected(EVERYTHING, name))
        assert (table["rows"], table["schema"]) == (here[name]["rows"], here[name]["schema"])


def test_spark_reads_the_files(spark: SparkSession, tmp_path: Path) -> None:
    tables = ("kinds__map", "types__v_row", "types__v_instant", "types__v_big_decimal", "operators")
    exported(None, ExportRequest(to=str(tmp_path / "to"), tables=tables, nanoseconds="text"))

    for name, table in tables_of(tmp_path / "to").items():
        found = spark.read.parquet(str(tmp_path / "to" / table["folder"])).toArrow()
        assert rows(found) == rows(read(tmp_path / "to", table))
        assert found.num_rows == expected(EVERYTHING, name).num_rows


@pytest.mark.parametrize("format", ["iceberg", "delta"])
def test_spark_reads_each_commit_of_tables_that_follow(
    spark: SparkSession, tmp_path: Path, format: str
) -> None:
    to = tmp_path / "to"
    commits: list[list[str]] = []

    def committed(job: Path, checkpoint: int) -> None:
        if format == "delta":
            files = delta_table(to, TABLE, checkpoint).file_uris()
        else:
            with iceberg_table(to, TABLE, checkpoint) as (table, snapshot):
                files = [task.file.file_path for task in table.scan(snapshot_id=snapshot).plan_files()]
        commits.append(sorted(files))
        found = spark.read.parquet(*files).toArrow()
        assert rows(found) == rows(expected(job / f"chk-{checkpoint}", TABLE))

    following(tmp_path, to, format, committed)

    assert len(commits) == 4
    # One of 128 files for each key group with a change: most are those of the checkpoint before.
    assert [len(set(after) - set(before)) for before, after in pairwise(commits)] == [3, 2, 1]


def following(
    folder: Path,
    to: Path,
    format: str,
    committed: Callable[[Path, int], object] = lambda *_: None,
    **options: Any,
) -> None:
    """Export a job of four checkpoints, each when it comes, a file for each key group.

    Args:
        folder: gets the job, whose folder has the name of the namespace.
        to: the tables.
        format: of the tables.
        committed: called behind each commit, with the job and the number of its checkpoint.
        options: of the export, besides these.
    """
    written, job = make_job(folder / "written"), folder / NAMESPACE
    job.mkdir()
    numbers = iter(range(1, 5))
    last = next(numbers)
    shutil.copytree(written / "chk-1", job / "chk-1", copy_function=shutil.copy2)

    def wait(_: float) -> None:
        nonlocal last
        committed(job, last)
        last = next(numbers, 0)
        if not last:
            raise KeyboardInterrupt
        shutil.copytree(written / f"chk-{last}", job / f"chk-{last}", copy_function=shutil.copy2)

    request = ExportRequest(
        to=str(to), format=format, tables=(TABLE,), follow=True, partition_by="_key_group", **options
    )
    with pytest.raises(KeyboardInterrupt):
        exported(None, request, source=str(job), wait=wait)


@pytest.fixture(scope="module")
def iceberg_java(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Java with the library of Iceberg, brought by Maven. Its part for Spark does not run on this Spark, but that for Java does."""
    for tool in ("java", "javac", "mvn"):
        if shutil.which(tool) is None:
            pytest.skip(f"no {tool}")
    import pyspark

    folder = tmp_path_factory.mktemp("iceberg")
    for name in (ICEBERG, SQLITE):
        copy = ["mvn", "--batch-mode", "--quiet", "dependency:copy", f"-Dartifact={name}"]
        subprocess.run([*copy, f"-DoutputDirectory={folder}"], check=True, timeout=300, cwd=folder)
    return ["java", *SHORT_LIVED.split(), "-cp", f"{folder}/*:{Path(pyspark.__file__).parent / 'jars'}/*"]


def test_icebergs_own_library_reads_every_snapshot(iceberg_java: list[str], tmp_path: Path) -> None:
    job = tmp_path / NAMESPACE
    shutil.copytree(WORDCOUNT_HISTORY, job)
    wanted: list[Any] = []
    metadata: list[str] = []
    followed = tmp_path / "followed"
    followed.mkdir()
    following(followed, followed / "lake", "iceberg")
    lakes = [followed / "lake"]
    for source, tables in (
        (str(job), ("aggregate__count", "operators")),
        (str(CASES["sql"]), ("*window-aggs",)),
        (str(CASES["types"]), tuple(f"*__v_{name}" for name in NAMES)),
    ):
        to = tmp_path / f"lake-{len(lakes)}"
        request = ExportRequest(
            to=str(to), tables=tables, format="iceberg", namespace=NAMESPACE, nanoseconds="text"
        )
        exported(None, request, source=source)
        lakes.append(to)
    for to in lakes:
        for savepoint in manifest_of(to)["savepoints"]:
            for table in savepoint["tables"]:
                file = str(max((to / NAMESPACE / table["folder"] / "metadata").glob("*.metadata.json")))
                metadata += [] if file in metadata else [file]
                for row in expected(Path(savepoint["path"]), table["name"]).to_pylist():
                    wanted.append([file, str(savepoint["checkpoint_id"]), plain(row)])

    ran = subprocess.run(
        [*iceberg_java, str(ROWS), *metadata],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr
    assert len(metadata) == 4 + len(NAMES)
    found = [json.loads(line) for line in ran.stdout.splitlines()]
    assert sorted(map(json.dumps, found)) == sorted(map(json.dumps, wanted))


def test_tables_in_a_rest_catalog_follow(iceberg_java: list[str], tmp_path: Path) -> None:
    from pyiceberg.catalog import load_catalog

    served = [*iceberg_java, str(REST), str(tmp_path)]
    with subprocess.Popen(served, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            url = f"http://127.0.0.1:{int(server.stdout.readline())}"
            seen: list[int] = []

            def committed(job: Path, checkpoint: int) -> None:
                with closing(load_catalog("rest", type="rest", uri=url)) as found:
                    table = found.load_table((NAMESPACE, TABLE))
                    assert rows(table.scan().to_arrow()) == rows(expected(job / f"chk-{checkpoint}", TABLE))
                    seen[:] = [
                        int(one.summary["savepointdb.checkpoint-id"] or 0)
                        for one in table.snapshots()
                        if one.summary
                    ]

            following(tmp_path, tmp_path / "to", "iceberg", committed, catalog=url)
        finally:
            server.kill()

    assert seen == [1, 2, 3, 4]


def plain(value: Any) -> Any:
    """A value as `IcebergRows.java` writes it."""
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds")
    if isinstance(value, bytes):
        return value.hex()
    return str(value) if isinstance(value, date | Decimal) else value


def test_executors_need_nothing_else_of_the_service(tmp_path: Path) -> None:
    with zipfile.ZipFile(write_packages(tmp_path / "packages.zip")) as archive:
        archive.extractall(tmp_path / "unpacked")
    code = "import service.tasks.copies.export.files.parts, service; print(service.__file__)"
    environment = {"PYTHONPATH": str(tmp_path / "unpacked" / PACKAGES), "PATH": ""}

    ended = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 0, ended.stderr
    assert str(tmp_path) in ended.stdout
