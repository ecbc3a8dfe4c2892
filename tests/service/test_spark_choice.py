"""Which engine answers, and what a user is told; no Spark is started here."""

from __future__ import annotations

from pathlib import Path

import pytest

from catalog import Catalog
from catalog.catalog import Root
from service.engines.spark import spark_error_of
from service.engines.sparkchoice import choose, shown_bytes
from service.engines.sparksession import SparkSessions, SparkSettings, check_java, write_packages
from service.errors import EngineUnavailableError
from service.sql import plan

DATA = Path(__file__).parent.parent / "data" / "flink" / "2.3.0"
CLUSTER = SparkSettings(master="spark://host:7077", threshold_bytes=10)


@pytest.fixture(scope="module")
def wordcount() -> Catalog:
    return Catalog([Root(path=str(DATA / "wordcount-rocksdb-savepoints" / "canonical"), label="w")])


def test_without_a_cluster_duckdb_answers(wordcount: Catalog) -> None:
    planned = plan("SELECT sum(value) FROM w.aggregate__count", wordcount)

    assert choose(planned, None).engine == "duckdb"
    assert choose(planned, SparkSettings()).engine == "duckdb"
    assert choose(planned, SparkSettings(master="local[4]", threshold_bytes=0)).engine == "duckdb"


def test_a_cluster_answers_what_is_more_than_the_threshold(wordcount: Catalog) -> None:
    choice = choose(plan("SELECT sum(value) FROM w.aggregate__count", wordcount), CLUSTER)

    assert choice.engine == "spark"
    assert "more than the threshold, 10 bytes: Spark at spark://host:7077" in choice.reason


def test_what_is_pruned_is_not_counted(wordcount: Catalog) -> None:
    whole = plan("SELECT value FROM w.aggregate__count", wordcount)
    one_key = plan("SELECT value FROM w.aggregate__count WHERE key = 'key_1'", wordcount)
    settings = SparkSettings(master="spark://host:7077", threshold_bytes=whole.size_bytes // 2)

    assert choose(whole, settings).engine == "spark"
    assert choose(one_key, settings).engine == "duckdb"


def test_what_spark_would_answer_differently_stays_with_duckdb(wordcount: Catalog) -> None:
    choice = choose(plan("SELECT approx_count_distinct(key) FROM w.aggregate__count", wordcount), CLUSTER)

    assert choice.engine == "duckdb"
    assert "is not answered by Spark as by DuckDB" in choice.reason


def test_the_memory_of_the_machine_is_the_threshold_by_default(wordcount: Catalog) -> None:
    choice = choose(plan("FROM w.aggregate__count", wordcount), SparkSettings(master="yarn"))

    assert choice.engine == "duckdb"
    assert "the memory of this machine" in choice.reason


@pytest.mark.parametrize(
    ("size_bytes", "shown"), [(0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 KB"), (12_345_678, "12.3 MB")]
)
def test_bytes_for_people(size_bytes: int, shown: str) -> None:
    assert shown_bytes(size_bytes) == shown


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
        SparkSessions(SparkSettings(), tmp_path).new()

    assert "savepointdb[spark]" in str(raised.value.hint)


def test_executors_get_the_packages_that_they_need(tmp_path: Path) -> None:
    import zipfile

    names = zipfile.ZipFile(write_packages(tmp_path / "packages.zip")).namelist()

    assert {
        "service/__init__.py",
        "service/spark/source.py",
        "catalog/scan.py",
        "readers/savepoint.py",
    } <= set(names)
    assert not [
        name
        for name in names
        if name.startswith("service/") and "spark" not in name and "__init__" not in name
    ]


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
        ("java.lang.Oops: at /opt/secret/place.jar", "ENGINE_ERROR", "Spark:"),
    ],
)
def test_errors_of_spark_are_told_without_java(text: str, code: str, message: str) -> None:
    error = spark_error_of(text)

    assert error.code == code
    assert message in error.message
    assert "/opt/" not in error.message
    assert "\n" not in error.message
