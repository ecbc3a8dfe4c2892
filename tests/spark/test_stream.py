"""The checkpoints of a job as a stream of Spark: exact rows, also over restarts, gaps and checkpoints that are gone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.changing import CHANGES, TABLE, make, make_job
from tests.support.checkpoints import NOON
from tests.support.paths import PROJECT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

Rows = list[tuple[Any, ...]]
ROWS: Rows = [(number, *row) for number, rows in CHANGES.items() for row in rows]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_job(tmp_path_factory.mktemp("written") / "job")


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    from service.spark import SavepointDataSource

    session = spark.newSession()
    session.dataSource.register(SavepointDataSource)
    return session


class Stream:
    """A job whose checkpoints appear, and a query that goes on from its own checkpoint of Spark.

    Args:
        folder: of both.
        written: all checkpoints of the job.
        session: runs the query.
    """

    def __init__(self, folder: Path, written: Path, session: SparkSession) -> None:
        self.job, self._written, self._session = folder / "job", written, session
        self._checkpoint = str(folder / "checkpoint")
        self.job.mkdir()

    def add(self, *numbers: int) -> None:
        for number in numbers:
            made = self.job / f"chk-{number}"
            shutil.copytree(self._written / made.name, made, copy_function=shutil.copy2)

    def remove(self, number: int) -> None:
        shutil.rmtree(self.job / f"chk-{number}")

    def read(self, **options: str) -> DataFrame:
        given = {"table": TABLE, "mode": "changes", **options}
        return self._session.readStream.format("savepoint").options(**given).load(str(self.job))

    def run(self, each: Callable[[int, Rows], object] = lambda *_: None, **options: str) -> Rows:
        """The rows of a run up to what is there now: checkpoint, change, key, and the values before and after."""
        names = ("_checkpoint_id", "change", "key", "value_before", "value_after")
        if options.get("mode") == "snapshot":
            names = ("_checkpoint_id", "key", "value")  # type: ignore[assignment]
        found: Rows = []

        def collected(batch: DataFrame, number: int) -> None:
            rows: Rows = [tuple(row) for row in batch.select(*names).collect()]
            each(number, rows)
            found.extend(rows)

        query = (
            self.read(**options)
            .writeStream.foreachBatch(collected)
            .option("checkpointLocation", self._checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return sorted(found, key=str)


@pytest.fixture
def stream(tmp_path: Path, written: Path, session: SparkSession) -> Stream:
    return Stream(tmp_path, written, session)


def summed(rows: Rows) -> dict[str, int]:
    """The state of a consumer that obeys each row, checkpoint by checkpoint."""
    state: dict[str, int] = {}
    order = {"reset": 0, "removed": 1, "changed": 2, "added": 3}
    for _, change, key, before, after in sorted(rows, key=lambda row: (row[0], order[row[1]])):
        if change == "reset":
            state.clear()
            continue
        assert state.pop(key, None) == before
        if after is not None:
            state[key] = after
    return state


def state_of(checkpoint: Path) -> dict[str, int]:
    from catalog import connect

    found = connect(str(checkpoint)).newest
    assert found is not None
    return {row["key"]: row["value"] for row in found.table(TABLE).scan().to_arrow().to_pylist()}


def test_a_stream_has_each_change_once_over_restarts(stream: Stream) -> None:
    stream.add(1, 2, 3)
    first = stream.run(since="1")
    again = stream.run(since="1")
    stream.add(4)
    last = stream.run(since="1")

    assert first == sorted([row for row in ROWS if row[0] < 4], key=str)
    assert again == []
    assert last == [row for row in ROWS if row[0] == 4]


def test_a_sink_of_files_sums_to_the_state(
    stream: Stream, session: SparkSession, tmp_path: Path, written: Path
) -> None:
    def run() -> None:
        query = (
            stream.read(since="earliest", partitions="2")
            .writeStream.format("parquet")
            .option("path", str(tmp_path / "sink"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    stream.add(1, 2)
    run()
    stream.add(3, 4)
    run()

    sink = session.read.parquet(str(tmp_path / "sink"))
    rows = [
        tuple(row)
        for row in sink.select("_checkpoint_id", "change", "key", "value_before", "value_after").collect()
    ]
    assert sink.columns == [
        "_checkpoint_id", "_checkpoint_at", "_database", "change", "key", "namespace", "value_before", "value_after", "_key_group",
    ]  # fmt: skip
    assert sorted([row for row in rows if row[0] > 1], key=str) == sorted(ROWS, key=str)
    assert summed(rows) == state_of(written / "chk-4")


def test_a_micro_batch_that_failed_comes_again_with_the_same_rows(stream: Stream) -> None:
    from pyspark.errors import StreamingQueryException

    seen: list[tuple[int, Rows]] = []

    def fails(number: int, rows: Rows) -> None:
        seen.append((number, sorted(rows, key=str)))
        raise RuntimeError("the sink is full")

    stream.add(1, 2, 3)
    with pytest.raises(StreamingQueryException):
        stream.run(fails, since="1")
    stream.add(4)
    stream.run(lambda number, rows: seen.append((number, sorted(rows, key=str))), since="1")

    before = sorted([row for row in ROWS if row[0] < 4], key=str)
    assert seen == [(0, before), (0, before), (1, [row for row in ROWS if row[0] == 4])]


def test_what_was_never_there_is_spanned(stream: Stream) -> None:
    stream.add(1, 2, 4)
    (stream.job / "chk-2" / "_metadata").write_bytes(b"no metadata")

    assert stream.run(since="1") == [
        (4, "changed", "key_1", 2, 3),
        (4, "changed", "key_662", 11290, 11292),
        (4, "removed", "key_0", 1, None),
    ]


def test_a_checkpoint_that_is_gone_is_an_error_or_a_reset(stream: Stream, written: Path) -> None:
    stream.add(1, 2)
    first = stream.run(since="snapshot")
    stream.remove(2)
    stream.add(3)

    with pytest.raises(Exception, match=r"\[savepoint CheckpointGoneError\].*chk-2.*on_gone"):
        stream.run(since="snapshot")
    reset = stream.run(since="snapshot", on_gone="reset")

    assert {row[:2] for row in first} == {(2, "added")}
    assert [row for row in reset if row[1] != "added"] == [(3, "reset", None, None, None)]
    assert summed([*first, *reset]) == state_of(written / "chk-3")


def test_a_snapshot_is_the_newest_checkpoint_of_each_micro_batch(stream: Stream, written: Path) -> None:
    stream.add(1, 2)
    first = stream.run(mode="snapshot", since="earliest")
    stream.remove(2)
    stream.add(3, 4)
    second = stream.run(mode="snapshot", since="earliest")

    assert first == sorted([(2, *one) for one in state_of(written / "chk-2").items()], key=str)
    assert second == sorted([(4, *one) for one in state_of(written / "chk-4").items()], key=str)


def test_a_job_that_counts_anew_goes_on(tmp_path: Path, written: Path) -> None:
    from service.spark.options import StreamOptions
    from service.spark.stream import FollowedJob

    job = Path(shutil.copytree(written, tmp_path / "job", copy_function=shutil.copy2))
    options = {"path": str(job), "table": TABLE, "mode": "changes"}
    found = FollowedJob(StreamOptions.parse(options))
    start = found.beginning()
    assert found.newest(start) is None
    again = make(tmp_path / "new", 2, job / "chk-4", f"DELETE FROM {TABLE} WHERE key = 'key_2'")
    os.utime(again / "_metadata", (NOON + 100, NOON + 100))
    shutil.rmtree(job / "chk-2")
    again.rename(job / "chk-2")
    found.catalog.refresh()

    end = found.newest(start)

    assert end is not None
    assert (start.token, end.token) == ("4", f"2@{NOON + 100}")
    rows = [row for split in found.splits(start, end) for batch in split.read() for row in batch.to_pylist()]
    assert [(row["_checkpoint_id"], row["change"], row["key"]) for row in rows] == [(2, "removed", "key_2")]


def test_a_type_that_changes_ends_the_query_until_it_is_restarted(stream: Stream) -> None:
    stream.add(1)
    query = (
        stream.read(since="snapshot")
        .writeStream.format("noop")
        .option("checkpointLocation", stream._checkpoint)
    )
    running = query.trigger(processingTime="100 milliseconds").start()
    try:
        while not running.recentProgress:
            running.awaitTermination(1)
        make(stream.job, 2, stream.job / "chk-1", f"ALTER TABLE {TABLE} ALTER COLUMN value TYPE VARCHAR")
        with pytest.raises(Exception, match=r"\[savepoint SchemaChangedError\].*restart the query"):
            running.awaitTermination(60)
    finally:
        running.stop()

    rows = stream.run(since="snapshot")
    assert ("key_662", "11290") in {(row[2], row[4]) for row in rows}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "all"}, r"\[savepoint InvalidOptionError\].*changes, snapshot, found 'all'"),
        ({"on_gone": "ignore"}, r"\[savepoint InvalidOptionError\].*fail, reset, found 'ignore'"),
        ({"columns": "key"}, r"\[savepoint InvalidOptionError\].*found columns"),
        ({"job": "nobody"}, r"\[savepoint NoSuchJobError\]"),
        ({"table": "aggregate__cuont"}, r"\[savepoint NoSuchTableError\].*aggregate__count"),
    ],
)
def test_options_that_mean_nothing_are_errors_at_once(
    stream: Stream, options: dict[str, str], message: str
) -> None:
    stream.add(1)

    with pytest.raises(Exception, match=message):
        stream.read(**options)


def test_a_beginning_that_is_none_ends_the_query(stream: Stream) -> None:
    stream.add(1)

    with pytest.raises(Exception, match=r"\[savepoint NoSuchCheckpointError\].*found 9"):
        stream.run(since="9")


def test_a_stream_needs_its_mode(session: SparkSession, written: Path) -> None:
    with pytest.raises(Exception, match=r"\[savepoint InvalidOptionError\].*mode"):
        session.readStream.format("savepoint").option("table", TABLE).option("job", "job").load(str(written))


def test_the_stream_in_the_documentation_runs_as_it_is(tmp_path: Path, written: Path) -> None:
    page = (PROJECT / "docs" / "guides" / "spark.md").read_text(encoding="utf-8")
    code = page.partition("## Follow a job")[2].partition("```python\n")[2].partition("```")[0]
    code = code.replace("/checkpoints/jobA", str(written)).replace("/lake", str(tmp_path / "lake"))
    (tmp_path / "file.py").write_text(
        f"{code}\nprint(spark.read.parquet({str(tmp_path / 'lake' / 'changes')!r}).count())\n"
    )

    ended = subprocess.run(
        [sys.executable, str(tmp_path / "file.py")],
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert ended.returncode == 0, ended.stderr[-2000:]
    # All rows of the first checkpoint, and the changes.
    assert ended.stdout.split() == [str(1000 + len(ROWS))]
