"""The choice of an engine, and the errors of one that is not there; no Spark is started."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from catalog import Catalog
from catalog.catalog import Root
from service.base.errors import EngineUnavailableError, InvalidRequestError
from service.base.settings import InvalidSettingError, Settings
from service.doors.app import create_app
from service.query.engines.duckdb.engine import DuckDBEngine
from service.query.engines.engine import Engine
from service.query.engines.spark.engine import SparkEngine
from service.query.engines.spark.executors import spark_error_of
from service.query.engines.spark.jvm import JvmSessions
from service.query.engines.spark.sessions import SparkSettings, check_java, check_reachable, spark_settings
from service.query.running.request import QueryRequest
from service.query.running.session import Choice, choose
from service.query.serving.registry import Queries
from service.query.sql.planner import plan
from tests.support.paths import DATA

FLINK = DATA / "flink" / "2.3.0"
CLUSTER = SparkSettings(master="spark://host:7077", threshold_bytes=10)
GONE = Settings.of(spark_master="spark://127.0.0.1:1", spark_threshold_bytes=1)
MEMORY = 1 << 30
COUNT = "SELECT count(*) AS n FROM w.aggregate__count"


@contextmanager
def queries_of(catalog: Catalog, settings: Settings) -> Iterator[Queries]:
    duckdb = DuckDBEngine(settings)
    spark = SparkEngine.of(settings, duckdb)
    with closing(Queries(catalog, {"duckdb": duckdb, "spark": spark}, settings)) as queries:
        yield queries


@pytest.fixture(scope="module")
def duckdb() -> Iterator[Engine]:
    with closing(DuckDBEngine(Settings())) as engine:
        yield engine


@pytest.fixture(scope="module")
def wordcount() -> Catalog:
    return Catalog([Root(path=str(FLINK / "wordcount-rocksdb-savepoints" / "canonical"), label="w")])


def chosen(sql: str, catalog: Catalog, size_bytes: int, duckdb: Engine, spark: SparkSettings) -> Choice:
    engines = {"duckdb": duckdb, "spark": SparkEngine(spark, duckdb)}
    return choose(plan(sql, catalog), size_bytes, engines, MEMORY)


def test_a_write_works_on_a_cluster_if_more_changes_than_this_machine_should_read(wordcount: Catalog) -> None:
    with queries_of(
        wordcount, Settings.of(spark_master="spark://host:7077", spark_threshold_bytes=10)
    ) as queries:
        assert queries.worker("auto", 10) is None
        found = queries.worker("auto", 11)
        assert found is not None
        assert found.name == "spark"
        assert queries.worker("local", 1 << 50) is None
        assert queries.worker("spark", 0) is found
    with queries_of(wordcount, Settings()) as queries:
        assert queries.worker("auto", 1 << 50) is None
        with pytest.raises(InvalidRequestError, match="expected an engine, found 'duckdb'") as raised:
            queries.worker("duckdb", 0)

    assert raised.value.hint == "engines are auto, local, spark"


def test_duckdb_does_no_work_of_a_write(wordcount: Catalog, duckdb: Engine) -> None:
    with pytest.raises(EngineUnavailableError, match="the engine duckdb writes no savepoints"):
        duckdb.work([], wordcount.database("w").reference)


def test_without_a_cluster_duckdb_answers(wordcount: Catalog, duckdb: Engine) -> None:
    sql, local = (
        "SELECT sum(value) FROM w.aggregate__count",
        SparkSettings(master="local[4]", threshold_bytes=0),
    )

    assert choose(plan(sql, wordcount), 1000, {"duckdb": duckdb}, MEMORY).engine == "duckdb"
    assert chosen(sql, wordcount, 1000, duckdb, SparkSettings()).engine == "duckdb"
    assert chosen(sql, wordcount, 1000, duckdb, local).engine == "duckdb"


def test_a_cluster_answers_what_is_more_than_the_threshold(wordcount: Catalog, duckdb: Engine) -> None:
    choice = chosen("SELECT sum(value) FROM w.aggregate__count", wordcount, 11, duckdb, CLUSTER)

    assert choice.engine == "spark"
    assert "more than the threshold, 10 B: Spark at spark://host:7077" in choice.reason


def test_what_is_pruned_is_not_counted(wordcount: Catalog, duckdb: Engine) -> None:
    whole, one_key = (
        "SELECT value FROM w.aggregate__count",
        "SELECT value FROM w.aggregate__count WHERE key = 'key_1'",
    )
    whole_bytes, key_bytes = (plan(sql, wordcount).size_bytes for sql in (whole, one_key))
    settings = SparkSettings(master="spark://host:7077", threshold_bytes=whole_bytes // 2)

    assert chosen(whole, wordcount, whole_bytes, duckdb, settings).engine == "spark"
    assert chosen(one_key, wordcount, key_bytes, duckdb, settings).engine == "duckdb"


def test_what_spark_would_answer_differently_stays_with_duckdb(wordcount: Catalog, duckdb: Engine) -> None:
    choice = chosen(
        "SELECT approx_count_distinct(key) FROM w.aggregate__count", wordcount, 11, duckdb, CLUSTER
    )

    assert choice.engine == "duckdb"
    assert "is not answered by Spark as by DuckDB" in choice.reason


def test_the_memory_of_the_machine_is_the_threshold_by_default(wordcount: Catalog, duckdb: Engine) -> None:
    sql, settings = "FROM w.aggregate__count", SparkSettings(master="yarn")
    small, large = (chosen(sql, wordcount, size, duckdb, settings) for size in (MEMORY, MEMORY + 1))

    assert (small.engine, large.engine) == ("duckdb", "spark")
    assert "the memory of this machine, 1.1 GB" in small.reason


def test_no_java_is_one_clear_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(EngineUnavailableError, match="Spark needs Java 17 or newer, found none") as raised:
        check_java()

    assert "duckdb" in str(raised.value.hint)


@pytest.mark.parametrize(
    ("version", "found"), [('openjdk version "11.0.2"', "11"), ('java version "1.8.0_372"', "8")]
)
def test_an_old_java_is_one_clear_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, found: str
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{version}' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(EngineUnavailableError, match=f"Java 17 or newer, found {found}"):
        check_java()


def test_no_pyspark_is_one_clear_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyspark", None)

    with pytest.raises(EngineUnavailableError, match="Spark is not installed") as raised:
        JvmSessions(SparkSettings(), tmp_path).new()

    assert "savepointdb[spark]" in str(raised.value.hint)


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        (
            "x\nSourceError: [savepoint CorruptDataError] expected 3 (/a/b/file)\n at",
            "CORRUPT_SAVEPOINT",
            "…/file",
        ),
        ("[savepoint MissingFileError] expected a file", "MISSING_FILE", "expected a file"),
        (
            "[USER_RAISED_EXCEPTION] lower() of x is not answered by Spark as by DuckDB",
            "NOT_ON_SPARK",
            "lower() of x",
        ),
        ("[DIVIDE_BY_ZERO] Division by zero. Use `try_divide`", "INVALID_VALUE", "Division by zero."),
        ("[CAST_OVERFLOW] The value 300 cannot be cast", "INVALID_VALUE", "The value 300"),
        ("ModuleNotFoundError: No module named 'pyarrow'", "ENGINE_UNAVAILABLE", "'pyarrow'"),
        ("Py4JNetworkError: Answer from Java side is empty", "ENGINE_UNAVAILABLE", "Spark is gone"),
        ("[INVALID_HANDLE.SESSION_CHANGED] The handle 1-2", "ENGINE_UNAVAILABLE", "Spark is gone"),
        ("java.lang.Oops: at /opt/secret/place.jar", "ENGINE_ERROR", "Spark:"),
    ],
)
def test_errors_of_spark_are_told_without_java(text: str, code: str, message: str) -> None:
    error = spark_error_of(text)

    assert error.code == code
    assert message in error.message
    assert "/opt/" not in error.message
    assert "\n" not in error.message


def test_settings_are_those_of_the_service() -> None:
    found = spark_settings(
        Settings.of(
            spark_master="spark://host:7077",
            spark_python="/opt/python",
            spark_options="spark.executor.memory=4g 'spark.executor.extraJavaOptions=-Xss4m -ea'",
            spark_export_directory="/shared",
            spark_threshold_bytes=5,
        )
    )

    assert found == SparkSettings(
        master="spark://host:7077",
        python="/opt/python",
        options={"spark.executor.memory": "4g", "spark.executor.extraJavaOptions": "-Xss4m -ea"},
        export_directory="/shared",
        threshold_bytes=5,
    )
    assert spark_settings(Settings()) == SparkSettings()


@pytest.mark.parametrize(
    "settings",
    [
        Settings.of(spark_options="executor.memory=4g"),
        Settings.of(spark_options="spark.executor.memory"),
        Settings.of(spark_options="spark.executor.memory='4g"),
        Settings.of(spark_master="yarn", spark_remote="sc://host"),
    ],
)
def test_settings_that_contradict_are_refused(settings: Settings) -> None:
    with pytest.raises(InvalidSettingError):
        spark_settings(settings)


@pytest.mark.parametrize(
    "address", ["spark://127.0.0.1:1", "spark://127.0.0.1:1,127.0.0.1:2", "sc://[::1]:1/;token=x"]
)
def test_an_address_where_nobody_listens_is_told_at_once(address: str) -> None:
    with pytest.raises(EngineUnavailableError, match="nobody answers at") as raised:
        check_reachable(address)

    assert "token" not in raised.value.message


@pytest.mark.parametrize("address", ["", "local[2]", "yarn", "k8s://https://host:1"])
def test_other_addresses_are_left_to_spark(address: str) -> None:
    check_reachable(address)


def test_what_a_connect_server_is_to_know_of_whom_is_not_shown() -> None:
    settings = SparkSettings(remote="sc://host:15002/;token=secret")

    assert settings.address == "sc://host:15002"


def test_duckdb_answers_where_spark_does_not_start_and_says_why(wordcount: Catalog) -> None:
    with queries_of(wordcount, GONE) as queries, queries.start(QueryRequest(sql=COUNT)) as query:
        rows = [row for batch in query.batches() for row in batch.to_pylist()]

        assert rows == [{"n": 1000}]
        assert query.engine == "duckdb"
        assert "more than the threshold, 1 B: Spark at spark://127.0.0.1:1; but " in query.engine_reason


def test_spark_by_name_is_an_error_where_it_does_not_start(wordcount: Catalog) -> None:
    with (
        queries_of(wordcount, GONE) as queries,
        queries.start(QueryRequest(sql=COUNT, engine="spark")) as query,
        pytest.raises(EngineUnavailableError) as raised,
    ):
        list(query.batches())

    assert "duckdb" in str(raised.value.hint)


def test_without_pyspark_duckdb_answers_and_says_why(
    wordcount: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)

    with queries_of(wordcount, GONE) as queries, queries.start(QueryRequest(sql=COUNT)) as query:
        assert [batch.to_pylist() for batch in query.batches()] == [[{"n": 1000}]]
        assert query.engine_reason.endswith("; but Spark is not installed")


def test_explain_shows_the_choice(wordcount: Catalog) -> None:
    with (
        queries_of(wordcount, Settings()) as queries,
        queries.start(QueryRequest(sql=f"EXPLAIN {COUNT}")) as query,
    ):
        [row] = [row for batch in query.batches() for row in batch.to_pylist()]
        reason = query.engine_reason

    assert row["explain_value"].startswith(f"engine: duckdb\nreason: {reason}\n")


@pytest.fixture(scope="module")
def address(wordcount: Catalog, serving: Callable[..., Any]) -> Iterator[str]:
    """The address of a service whose cluster is gone."""
    with serving(create_app(GONE.replaced({"workers": 1}), wordcount)) as found:
        yield found


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"engine": "spark"}, 503, "ENGINE_UNAVAILABLE"),
        ({"engine": "auto"}, 200, None),
        ({"engine": "duckdb"}, 200, None),
    ],
)
def test_over_http(address: str, body: dict[str, str], status: int, code: str | None) -> None:
    response = httpx.post(f"{address}/api/query", json={"sql": COUNT} | body, timeout=60)
    answer = response.json()

    assert response.status_code == status
    assert answer.get("error", {}).get("code") == code
    assert code or (answer["engine"], answer["rows"]) == ("duckdb", [[1000]])


def test_nothing_is_made_before_spark_is_wanted(tmp_path: Path, wordcount: Catalog) -> None:
    settings = Settings.of(temp_directory=str(tmp_path))
    duckdb = DuckDBEngine(settings)
    before = set(tmp_path.iterdir())

    SparkEngine.of(settings, duckdb).close()

    assert set(tmp_path.iterdir()) == before
    duckdb.close()
