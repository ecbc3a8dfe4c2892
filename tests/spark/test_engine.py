"""The engine: answers, exports, EXPLAIN, cancel, errors."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from catalog import Catalog
from catalog.catalog import Root
from readers.errors import MissingFileError
from readers.storage.location import StorageOptions
from service.base.errors import (
    ColumnNotFoundError,
    EngineError,
    InvalidValueError,
    QueryCancelledError,
    QueryError,
)
from service.query.engines.duckdb.engine import DuckDBEngine
from service.query.engines.spark.engine import SparkEngine, SparkExecution, translation
from service.query.engines.spark.executors import SparkTable, rows_of_files, spark_error_of
from service.query.sql.planner import plan, planned
from service.spark.files import FileWriter
from service.spark.types import SavepointSourceError
from tests.spark.conftest import ENDLESS, MANY, WORDCOUNT, processes_with, run_python
from tests.support.objectstore import KEY_VARIABLES, ObjectStore, Proxy
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT key, substr(key, 2, 3), value / 7, count_if(value > 10) FROM w.aggregate__count GROUP BY key, value ORDER BY key",
        "SELECT CAST(value AS varchar), CAST(key AS varchar), CAST(value AS integer) FROM w.aggregate__count ORDER BY 2",
        "SELECT key, CAST(value AS date) + INTERVAL '1' MONTH, CAST(value AS date) - INTERVAL '2' DAY "
        "FROM e.types__v_local_date_time ORDER BY key",
        "SELECT key, date_trunc('month', CAST(value AS date)), dow(value) FROM e.types__v_local_date_time ORDER BY key",
    ],
)
def test_trinos_statements_are_answered_as_by_duckdb(
    savepoints: Catalog, spark_engine: SparkEngine, duckdb_engine: DuckDBEngine, sql: str
) -> None:
    asked = planned(sql, savepoints, dialect="trino", max_sql_bytes=1 << 20, constants={})
    answers = []
    for engine in (spark_engine, duckdb_engine):
        execution = engine.execution(asked)
        answers.append(execution.open().read_all().to_pylist())
        execution.close()

    assert answers[0] == answers[1] != []


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM e.kinds__wide ORDER BY key",
        "SELECT key, reducing FROM e.kinds__wide WHERE key = 'k3'",
        "SELECT count(*) AS n FROM e.kinds__wide",
        "SELECT state_key, list_index, list_value FROM e.uid_kinds_list_keyed_flat ORDER BY 1, 2",
    ],
)
def test_states_side_by_side_are_read_by_executors(
    savepoints: Catalog, spark_engine: SparkEngine, duckdb_engine: DuckDBEngine, sql: str
) -> None:
    asked = planned(sql, savepoints, dialect="duckdb", max_sql_bytes=1 << 20, constants={}, compat="flink")
    answers = []
    for engine in (spark_engine, duckdb_engine):
        execution = engine.execution(asked)
        answers.append(execution.open().read_all().to_pylist())
        execution.close()

    assert answers[0] == answers[1] != []


def test_an_answer_without_a_limit_is_written_by_the_executors_and_taken_away_after(
    savepoints: Catalog, spark_engine: SparkEngine
) -> None:
    sql = "SELECT key, value, key AS again, {'a': value} AS s FROM w.aggregate__count ORDER BY key DESC"
    execution = spark_engine.execution(plan(sql, savepoints))

    table = execution.open().read_all()
    execution.close()

    assert table.num_rows == 1000
    assert table.schema.names == ["key", "value", "again", "s"]
    assert table.column(0).to_pylist() == sorted(table.column(0).to_pylist(), reverse=True)
    assert list(_exports(spark_engine)) == []


@pytest.mark.parametrize(
    "sql",
    [
        "FROM w.aggregate__count",
        "SELECT upper(key), value / 7, value::HUGEINT * value AS h, _subtask, key FROM w.aggregate__count WHERE value % 3 = 1",
        "SELECT 1 AS one, NULL, 'x' FROM w.aggregate__count WHERE key LIKE 'key_1%'",
        "SELECT key FROM w.aggregate__count WHERE key = 'nothing'",
        "SELECT * FROM e.types__v_pojo",
    ],
)
def test_what_is_made_of_each_row_is_written_beside_the_readers(
    sql: str, savepoints: Catalog, spark_engine: SparkEngine, duckdb_engine: DuckDBEngine
) -> None:
    planned = plan(sql, savepoints)
    execution = spark_engine.execution(planned)

    found = execution.open().read_all()
    execution.close()

    assert translation(planned).computed
    expected = duckdb_engine.execution(planned).open().read_all()
    assert found.schema.equals(expected.schema)
    assert sorted(map(str, found.to_pylist())) == sorted(map(str, expected.to_pylist()))
    assert list(_exports(spark_engine)) == []


@pytest.mark.parametrize(
    "sql",
    [
        "FROM w.aggregate__count ORDER BY key",
        "FROM w.aggregate__count LIMIT 5",
        "SELECT DISTINCT value FROM w.aggregate__count",
        "SELECT key, row_number() OVER (ORDER BY key) FROM w.aggregate__count",
        "SELECT value, count(*) FROM w.aggregate__count GROUP BY value",
        "SELECT a.key FROM w.aggregate__count a JOIN w.aggregate__count b ON a.key = b.key",
        "FROM w.aggregate__count UNION ALL FROM w.aggregate__count",
        "FROM w.aggregate__count WHERE value > (SELECT avg(value) FROM w.aggregate__count)",
        "FROM w.StateMeta",
    ],
)
def test_what_is_made_of_several_rows_is_not(sql: str, savepoints: Catalog) -> None:
    assert translation(plan(sql, savepoints)).computed == ""


def test_a_folder_where_executors_do_not_write_is_told(tmp_path: Path) -> None:
    rows = pa.RecordBatch.from_pydict({"c0": [1, 2]})

    with pytest.raises(SavepointSourceError) as refused:
        list(FileWriter(str(tmp_path / "nowhere")).savepoint(iter([rows])))
    told = spark_error_of(f"{type(refused.value).__name__}: {refused.value}")

    assert isinstance(told, EngineError)
    assert told.message.startswith("an executor cannot write …/part-000000-")
    assert told.message.endswith("No such file or directory")
    assert "spark_export_directory" in str(told.hint)


def test_a_missing_state_file_is_not_taken_for_one_that_cannot_be_written(tmp_path: Path) -> None:
    def rows() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"c0": list(range(100_000))})
        raise MissingFileError("it was there")

    with pytest.raises(MissingFileError, match="it was there"):
        list(FileWriter(str(tmp_path)).written(rows()))


def test_a_file_that_is_only_where_an_executor_wrote_it_is_missed(tmp_path: Path) -> None:
    rows = pa.RecordBatch.from_pydict({"c0": [1, 2]})
    (written,) = FileWriter(str(tmp_path)).savepoint(iter([rows, rows.slice(1)]))
    (name,) = written.column("file").to_pylist()

    assert [batch.to_pydict() for batch in rows_of_files(tmp_path, [name])] == [{"c0": [1, 2, 2]}]
    with pytest.raises(EngineError, match="1 of 2 files that executors wrote are not found here") as missed:
        rows_of_files(tmp_path, [name, "part-000001-another.parquet"])
    assert "spark_export_directory" in str(missed.value.hint)


def test_no_more_rows_than_are_asked_for_reach_the_driver(
    savepoints: Catalog, spark_engine: SparkEngine
) -> None:
    execution = spark_engine.execution(plan("FROM w.aggregate__count", savepoints), 10)

    rows = execution.open().read_all().num_rows
    execution.close()

    assert rows == 11  # one more, by which it is known that there are more


def test_explain_shows_the_plan_without_paths(savepoints: Catalog, spark_engine: SparkEngine) -> None:
    sql = "EXPLAIN SELECT value FROM w.aggregate__count WHERE key = 'key_1'"
    execution = spark_engine.execution(plan(sql, savepoints), 10)

    (row,) = execution.open().read_all().to_pylist()
    execution.close()

    assert [column.name for column in execution.columns] == ["explain_key", "explain_value"]
    assert "Arguments: savepoint(" in row["explain_value"]
    assert "namespace" not in row["explain_value"]


def test_describe_is_what_duckdb_says(
    savepoints: Catalog, spark_engine: SparkEngine, duckdb_engine: DuckDBEngine
) -> None:
    planned = plan("DESCRIBE w.aggregate__count", savepoints)

    found, expected = (
        engine.execution(planned).open().read_all() for engine in (spark_engine, duckdb_engine)
    )

    assert found.equals(expected)


def test_a_cancel_is_told_and_ends_the_jobs(savepoints: Catalog, spark_engine: SparkEngine) -> None:
    execution = spark_engine.execution(plan(MANY, savepoints), 1)
    timer = threading.Timer(2, execution.cancel, [QueryCancelledError("enough")])
    timer.start()
    with pytest.raises(QueryCancelledError, match="enough"):
        execution.open()
    timer.join()
    execution.close()

    wait_until(_nothing_runs)


def test_a_cancel_before_spark_has_begun_ends_the_query(
    savepoints: Catalog, spark_engine: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    execution = spark_engine.execution(plan(MANY, savepoints), 1)

    def cancelled(session: SparkSession, tables: Sequence[SparkTable]) -> None:
        execution.cancel(QueryCancelledError("at once"))

    monkeypatch.setattr("service.query.engines.spark.executors.be_parallel", cancelled)
    with pytest.raises(QueryCancelledError, match="at once"):
        execution.open()

    assert isinstance(execution, SparkExecution)
    thread = execution._thread
    assert thread is not None
    wait_until(lambda: not thread.is_alive())
    wait_until(_nothing_runs)


def test_what_does_not_notice_a_cancel_does_not_run_on(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, threading, time\n"
        "from catalog import Catalog\n"
        "from catalog.catalog import Root\n"
        "from service.query.engines.duckdb.engine import DuckDBEngine\n"
        "from service.query.engines.spark.engine import SparkEngine\n"
        "from service.query.engines.spark.sessions import SparkSettings\n"
        "from service.base.errors import QueryCancelledError\n"
        "from service.base.settings import Settings\n"
        "from service.query.sql.planner import plan\n"
        "from pyspark import SparkContext\n"
        f"catalog = Catalog([Root(path={str(WORDCOUNT)!r}, label='w')])\n"
        "duckdb = DuckDBEngine(Settings())\n"
        "spark = SparkEngine(SparkSettings(master='local[2]'), duckdb)\n"
        "def count():\n"
        "    execution = spark.execution(plan('SELECT count(*) FROM w.aggregate__count', catalog), 1)\n"
        "    return execution.open().read_all().column(0)[0].as_py()\n"
        "print(count())\n"
        "first = SparkContext._gateway.proc\n"
        f"endless = [spark.execution(plan({ENDLESS!r}, catalog), 1) for _ in range(2)]\n"
        "def run(execution):\n"
        "    try:\n"
        "        execution.open()\n"
        "    except QueryCancelledError:\n"
        "        pass\n"
        "threads = [threading.Thread(target=run, args=(one,)) for one in endless]\n"
        "for thread in threads: thread.start()\n"
        "scheduler = SparkContext._active_spark_context._jsc.sc().taskScheduler()\n"
        "while 'driver -> 2' not in scheduler.runningTasksByExecutors().toString(): time.sleep(0.1)\n"
        "time.sleep(3)\n"
        "for execution in endless: execution.cancel(QueryCancelledError('enough'))\n"
        "for thread in threads: thread.join()\n"
        "for execution in endless: execution._thread.join()\n"
        "print(count())\n"
        "second = SparkContext._gateway.proc\n"
        "print(first is second or first.poll() is not None)\n"
        "spark.close()\n"
        "print(second.poll() is not None)\n"
        "duckdb.close()\n"
    )
    ran = run_python(str(script), folder=tmp_path, TMPDIR=str(tmp_path))

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == ["1000", "1000", "True", "True"]
    assert processes_with(str(tmp_path)) == []
    assert [path.name for path in tmp_path.iterdir()] == ["script.py"]


def test_a_cancel_before_it_starts_is_raised(savepoints: Catalog, spark_engine: SparkEngine) -> None:
    execution = spark_engine.execution(plan("FROM w.aggregate__count", savepoints), 1)

    execution.cancel(QueryCancelledError("never mind"))

    with pytest.raises(QueryCancelledError, match="never mind"):
        execution.open()
    execution.close()


def test_progress_is_told_while_it_runs_and_after(savepoints: Catalog, spark_engine: SparkEngine) -> None:
    execution = spark_engine.execution(plan("SELECT sum(value) FROM w.aggregate__count", savepoints), 1)

    execution.open().read_all()
    progress = execution.progress
    execution.close()

    assert progress.bytes_read == progress.bytes_total > 0
    assert progress.splits_total
    assert progress.splits_read == progress.splits_total


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        ("SELECT kee FROM w.aggregate__count", ColumnNotFoundError),
        ("SELECT value // (value - value) FROM w.aggregate__count", InvalidValueError),
        ("SELECT value::TINYINT * 100::TINYINT FROM w.aggregate__count", InvalidValueError),
    ],
)
def test_errors_are_those_of_duckdb(
    sql: str,
    error: type[QueryError],
    savepoints: Catalog,
    spark_engine: SparkEngine,
    duckdb_engine: DuckDBEngine,
) -> None:
    for engine in (duckdb_engine, spark_engine):
        execution = engine.execution(plan(sql, savepoints))
        with pytest.raises(error):
            execution.open().read_all()
        execution.close()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT reflect('java.lang.System', 'getenv', 'HOME')",
        "SELECT java_method('java.lang.System', 'exit', 1)",
        "SELECT * FROM text.`/etc/passwd`",
        "SELECT * FROM '/etc/passwd'",
        "SET spark.sql.ansi.enabled = false",
        "ADD JAR '/tmp/x.jar'",
        "CREATE TEMP VIEW v USING text OPTIONS (path '/etc/passwd')",
        "CREATE FUNCTION f AS 'java.lang.Object'",
        "SELECT 1; SELECT 2",
        "SELECT * FROM savepoint_table_1",
    ],
)
def test_what_is_no_query_of_the_catalog_never_reaches_spark(sql: str, savepoints: Catalog) -> None:
    with pytest.raises(QueryError) as raised:
        plan(sql, savepoints)

    assert raised.value.status in (400, 403, 404)


def test_queries_do_not_see_each_other(savepoints: Catalog, spark_engine: SparkEngine) -> None:
    found: dict[str, list[int]] = {}

    def run(table: str) -> None:
        execution = spark_engine.execution(plan(f"SELECT count(*) FROM {table}", savepoints), 1)
        found[table] = execution.open().read_all().column(0).to_pylist()
        execution.close()

    threads = [
        threading.Thread(target=run, args=(table,))
        for table in ("w.aggregate__count", 'w."mod7-no-uid__seen"', "e.types__v_int")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == {"w.aggregate__count": [1000], 'w."mod7-no-uid__seen"': [7], "e.types__v_int": [3]}


def _exports(engine: SparkEngine) -> list[Path]:
    return list((engine._directory / "exports").iterdir())


def _nothing_runs() -> bool:
    from pyspark import SparkContext

    return not SparkContext.getOrCreate().statusTracker().getActiveJobsIds()


def test_a_value_without_an_answer_is_the_same_error_beside_the_readers(
    savepoints: Catalog, spark_engine: SparkEngine
) -> None:
    sql = "SELECT sum((value * 1000)::TINYINT) FROM w.aggregate__count"

    with pytest.raises(InvalidValueError, match="INT8"):
        spark_engine.execution(plan(sql, savepoints), 10).open()


def test_spark_takes_groups_and_not_rows_where_these_can_be_merged(
    savepoints: Catalog, spark_engine: SparkEngine
) -> None:
    sql = "EXPLAIN SELECT left(key, 5), sum(value), avg(value) FROM w.aggregate__count WHERE value > 3 GROUP BY 1"
    execution = spark_engine.execution(plan(sql, savepoints), 10)

    (row,) = execution.open().read_all().to_pylist()
    execution.close()

    assert "group 1" in row["explain_value"]
    assert "value" not in row["explain_value"].replace("explain_value", "")


def test_duckdb_merges_what_tasks_find_where_that_is_little(
    savepoints: Catalog, spark_engine: SparkEngine
) -> None:
    sql = "SELECT _subtask, sum(value) FROM w.aggregate__count GROUP BY ALL UNION ALL SELECT 0, count(*) FROM w.operators"
    texts = []
    for prefix in ("EXPLAIN ", ""):
        execution = spark_engine.execution(plan(prefix + sql, savepoints), 10)
        texts.append(str(execution.open().read_all().to_pylist()))
        execution.close()

    assert "== Merged by DuckDB ==" in texts[0]
    assert "Exchange" not in texts[0]
    assert texts[1].count("_subtask") == 3


def test_credentials_of_a_root_reach_the_executors_and_are_shown_nowhere(
    store: ObjectStore, proxy: Proxy, spark_engine: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark_engine.execution(plan("SELECT 1", Catalog([])), 1).open()  # it has started, without what is set now
    for name, value in KEY_VARIABLES.items():
        monkeypatch.setenv(name.replace("MOTO", "LATE"), value)
    store.upload(WORDCOUNT, "late")
    url = proxy.url("late").replace("credentials=MOTO", "credentials=LATE")
    catalog = Catalog([Root(path=url, label="late")])

    answers = []
    for sql in (
        "SELECT count(*), sum(value) FROM aggregate__count",
        "EXPLAIN SELECT key FROM aggregate__count",
    ):
        execution = spark_engine.execution(plan(sql, catalog), 10)
        answers.append(execution.open().read_all().to_pylist())
        execution.close()

    assert next(iter(answers[0][0].values())) == 1000
    shown = str(answers[1]) + repr(catalog.databases) + repr(StorageOptions().elsewhere([url]))
    assert not any(value in shown for value in KEY_VARIABLES.values())
    assert dict(StorageOptions().elsewhere([url]).variables).keys() == {
        "LATE_ACCESS_KEY_ID",
        "LATE_SECRET_ACCESS_KEY",
    }
