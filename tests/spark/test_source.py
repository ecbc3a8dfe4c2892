"""The data source in a session of any program."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import savepointdb
from catalog import Split
from readers.storage.filesystems import ReadCounter
from tests.support.paths import DATA, PROJECT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

FLINK = PROJECT / "tests" / "data" / "flink"
EVERYTHING = FLINK / "2.3.0" / "everything-rocksdb-savepoints" / "canonical"
WORDCOUNT = FLINK / "2.3.0" / "wordcount-rocksdb-savepoints" / "canonical"


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    from service.spark import SavepointDataSource

    session = spark.newSession()
    session.dataSource.register(SavepointDataSource)
    return session


def read(session: SparkSession, path: Path, table: str, **options: str) -> DataFrame:
    return session.read.format("savepoint").options(table=table, **options).load(str(path))


def test_the_file_in_the_documentation_runs_as_it_is(tmp_path: Path) -> None:
    # Of so many rows the first ones fill the socket: Spark closes it while its worker still writes.
    savepoint, rows = tmp_path / "large", "SELECT 'k' || a AS key, a AS value FROM range(300000) t(a)"
    savepointdb.connect(WORDCOUNT).write(savepoint, f"INSERT INTO aggregate__count (key, value) {rows}")
    page = (PROJECT / "docs" / "guides" / "spark.md").read_text(encoding="utf-8")
    code = (
        page.partition("```python\n")[2]
        .partition("```")[0]
        .replace("/savepoints/savepoint-42", str(savepoint))
    )
    (tmp_path / "file.py").write_text(code)
    # As in an environment that is not activated: another Python is the first of that name.
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").symlink_to(Path(sys.base_prefix, "bin", "python3"))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}
    environment["PATH"] = f"{tmp_path / 'bin'}:{os.environ['PATH']}"

    ended = subprocess.run(
        [sys.executable, str(tmp_path / "file.py")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert ended.returncode == 0
    assert "only showing top 20 rows" in ended.stdout
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("pushdown", ["false", "true"])
def test_a_table_has_its_rows_whether_filters_are_pushed_or_not(session: SparkSession, pushdown: str) -> None:
    session.conf.set("spark.sql.python.filterPushdown.enabled", pushdown)
    counts = read(session, WORDCOUNT, "aggregate__count")

    assert counts.columns == ["key", "namespace", "value", "_key_group", "_subtask"]
    assert counts.count() == 1000
    assert [tuple(row) for row in counts.where("key = 'key_7'").collect()] == [("key_7", None, 60, 97, 1)]
    assert counts.where("key IN ('key_7', 'key_8') AND _subtask = 1").count() >= 1
    assert counts.where("_key_group = 97 AND key = 'nobody'").count() == 0


def test_a_view_in_sql_with_some_columns(session: SparkSession) -> None:
    session.sql(
        f"CREATE OR REPLACE TEMP VIEW counts USING savepoint OPTIONS (path '{WORDCOUNT}', table 'AGGREGATE__count',"
        " columns 'value, KEY')"
    )

    found = session.sql("SELECT * FROM counts ORDER BY key LIMIT 2").collect()

    assert [row.asDict() for row in found] == [{"value": 1, "key": "key_0"}, {"value": 38, "key": "key_1"}]


def test_executors_read_objects_by_the_jars_of_the_job(session: SparkSession) -> None:
    path, jar = DATA / "corpus/1.20.3/alltypes-hashmap/native", DATA / "classes/jobs.jar"
    options = {"uids": '["types"]', "jars": json.dumps([str(jar)])}

    found = read(session, path, "types__v_kryo_generic", **options).orderBy("key").collect()

    assert [json.loads(row["value"])["b"] for row in found] == ["one", None]


def test_a_url_without_an_authority_is_no_path(session: SparkSession) -> None:
    counts = session.read.format("savepoint").option("table", "aggregate__count").load(f"file:{WORDCOUNT}")

    assert counts.count() == 1000


def test_a_folder_of_savepoints_needs_the_name_of_one(session: SparkSession) -> None:
    folder = WORDCOUNT.parent
    counts = read(session, folder, "aggregate__count", database="native")

    with pytest.raises(Exception, match=r"\[savepoint NoSuchTableError\].*name the database") as missing:
        read(session, folder, "aggregate__count").count()

    assert "native" in str(missing.value)
    assert counts.count() == 1000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"table": "aggregate__cuont"}, r"\[savepoint NoSuchTableError\].*aggregate__count"),
        ({"table": "aggregate__count", "columns": "kee"}, r"\[savepoint NoSuchColumnError\]"),
        ({"table": "aggregate__count", "colums": "key"}, r"\[savepoint InvalidOptionError\].*colums"),
        (
            {"table": "aggregate__count", "partitions": "many"},
            r"\[savepoint InvalidOptionError\].*partitions",
        ),
        ({"table": "aggregate__count", "nanoseconds": "round"}, r"\[savepoint InvalidOptionError\]"),
        ({}, r"\[savepoint InvalidOptionError\].*'table'"),
    ],
)
def test_errors_say_what_was_expected(session: SparkSession, options: dict[str, str], message: str) -> None:
    with pytest.raises(Exception, match=message):
        session.read.format("savepoint").options(**options).load(str(WORDCOUNT)).count()


def test_nanoseconds_are_an_error_or_a_number_but_never_rounded(session: SparkSession) -> None:
    with pytest.raises(Exception, match=r"\[savepoint ValueOutOfRangeError\]"):
        read(session, EVERYTHING, "types__v_local_date_time").collect()

    exact = read(session, EVERYTHING, "types__v_local_date_time", nanoseconds="bigint")
    times = read(session, EVERYTHING, "types__v_local_time")

    assert 1_709_210_096_000_000_007 in [row.value for row in exact.collect()]
    assert "00:00:00.000000000" in [row.value for row in times.collect()]


def test_timestamps_have_no_time_zone(session: SparkSession) -> None:
    session.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")
    windows = read(session, EVERYTHING, "tumbling-window__window-contents")

    start = min(row.namespace.start for row in windows.collect())
    session.conf.set("spark.sql.session.timeZone", "UTC")

    assert start.tzinfo is None
    assert start == min(row.namespace.start for row in windows.collect())
    assert isinstance(start, datetime.datetime)


def test_our_service_is_not_needed() -> None:
    script = (
        "import sys\n"
        "for name in ('duckdb', 'fastapi', 'uvicorn', 'sqlglot', 'rich'): sys.modules[name] = None\n"
        "import service.spark\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", script], cwd=PROJECT, capture_output=True, text=True, check=False
    )

    assert done.stderr == ""
    assert done.returncode == 0


class _Sized(Split):
    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes

    def read(self, counter: ReadCounter | None = None) -> Iterator[pa.RecordBatch]:
        return iter(())


def test_splits_are_grouped_evenly_and_in_order() -> None:
    from service.spark.splits import grouped

    splits = [_Sized(4 << 20) for _ in range(32)]

    groups = list(grouped(splits, 8))

    assert [len(group) for group in groups] == [4] * 8
    assert [split for group in groups for split in group] == splits
    assert len(list(grouped([_Sized(10) for _ in range(30)], 8))) == 1
    assert list(grouped([], 8)) == []


def test_groups_of_uneven_splits_have_about_the_same_bytes() -> None:
    from service.spark.splits import grouped

    sizes = [(1 + number * 7 % 5) << 20 for number in range(60)]

    groups = list(grouped([_Sized(size) for size in sizes], 8))

    totals = [sum(split.size_bytes for split in group) for group in groups]
    assert len(groups) == 8
    assert max(totals) - min(totals) <= max(sizes)
    assert len(list(grouped([_Sized(600 << 20), _Sized(600 << 20)], 1))) == 2


def test_batches_are_put_together_and_cut() -> None:
    from service.spark.splits import rebatched

    batches = [
        pa.RecordBatch.from_pydict({"n": list(range(start, start + 30))}) for start in range(0, 300, 30)
    ]

    found = list(rebatched(batches, 100))

    assert all(batch.num_rows <= 100 for batch in found)
    assert [number for batch in found for number in batch.column(0).to_pylist()] == list(range(300))


@pytest.mark.parametrize(
    ("array", "nanoseconds", "expected"),
    [
        (pa.array([1, None], pa.uint8()), "error", pa.array([1, None], pa.int16())),
        (pa.array([2**64 - 1], pa.uint64()), "error", pa.array([2**64 - 1], pa.decimal128(20, 0))),
        (pa.array([3], pa.timestamp("ms")), "error", pa.array([3000], pa.timestamp("us"))),
        (pa.array([3000], pa.timestamp("ns")), "error", pa.array([3], pa.timestamp("us"))),
        (pa.array([3001], pa.timestamp("ns")), "bigint", pa.array([3001])),
        (pa.array([3001], pa.time64("ns")), "bigint", pa.array([3001])),
        (pa.array([3], pa.time32("ms")), "bigint", pa.array([3_000_000])),
        (pa.array([[3], None], pa.list_(pa.time32("ms"))), "bigint", pa.array([[3_000_000], None])),
        (pa.array([3001], pa.time64("ns")), "error", pa.array(["00:00:00.000003001"])),
        (pa.array(["a", "b"]).dictionary_encode(), "error", pa.array(["a", "b"])),
        (pa.nulls(2), "error", pa.nulls(2, pa.string())),
        (
            pa.array([[("a", 1)]], pa.map_(pa.string(), pa.uint32())),
            "error",
            pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
        ),
    ],
)
def test_values_as_spark_takes_them(array: pa.Array, nanoseconds: Any, expected: pa.Array) -> None:
    from service.spark.types import to_wire, wire_schema

    batch = pa.RecordBatch.from_arrays([array], ["value"])

    found = to_wire(batch, wire_schema(batch.schema, nanoseconds))

    assert found.column(0).type.equals(expected.type)
    assert found.column(0).to_pylist() == expected.to_pylist()


def test_a_value_that_spark_cannot_hold_is_an_error() -> None:
    from readers.errors import ValueOutOfRangeError
    from service.spark.types import to_wire, wire_schema

    batch = pa.RecordBatch.from_arrays([pa.array([2**62], pa.timestamp("ms"))], ["value"])

    with pytest.raises(ValueOutOfRangeError, match="TIMESTAMP_NTZ"):
        to_wire(batch, wire_schema(batch.schema))
