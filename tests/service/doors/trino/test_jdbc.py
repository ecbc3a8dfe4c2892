"""trino-jdbc, driven by `Probe.java`: the requests of DBeaver, Tableau, Metabase and others."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

DRIVER = "io.trino:trino-jdbc:484"
PROBE = Path(__file__).parent / "Probe.java"
AGGREGATE = ["state_name", "key", "namespace", "value", "_key_group", "_subtask"]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def class_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The driver, brought by Maven, and the compiled probe."""
    for tool in ("java", "javac", "mvn"):
        if shutil.which(tool) is None:
            pytest.skip(f"no {tool}")
    folder = tmp_path_factory.mktemp("jdbc")
    copy = [
        "mvn",
        "--batch-mode",
        "--quiet",
        "dependency:copy",
        f"-Dartifact={DRIVER}",
        f"-DoutputDirectory={folder}",
    ]
    subprocess.run(copy, check=True, timeout=300, cwd=folder)
    [driver] = folder.glob("*.jar")
    subprocess.run(["javac", "-d", str(folder), "-cp", str(driver), str(PROBE)], check=True, timeout=120)
    return f"{folder}:{driver}"


@pytest.fixture(scope="module")
def answers(class_path: str, address: str) -> dict[str, list[str]]:
    """Output of the probe, by name."""
    url = f"jdbc:trino://{address.removeprefix('http://')}/flink/native"
    ran = subprocess.run(
        ["java", "-cp", class_path, "Probe", url], capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stderr
    found: dict[str, list[str]] = {}
    for line in ran.stdout.splitlines():
        name, _, answer = line.partition(": ")
        found.setdefault(name, []).append(answer)
    return found


def test_database_metadata(answers: dict[str, list[str]]) -> None:
    assert answers["product"] == ["Trino"]
    assert answers["version is known"] == ["true"]
    assert answers["catalogs"] == ["flink; system"]
    assert answers["schemas"] == ["native,flink"]
    assert answers["all schemas"] == [
        "canonical,flink; information_schema,flink; latest,flink; native,flink; savepointdb,flink"
    ]
    assert answers["table types"] == ["TABLE; VIEW"]
    assert answers["tables"] == [
        "flink,native,aggregate,TABLE; flink,native,aggregate__count,TABLE; flink,native,aggregate__wide,TABLE"
    ]
    columns = [column.split(",") for column in answers["columns"][0].split("; ")]
    assert [column[1] for column in columns] == AGGREGATE
    assert columns[3] == ["aggregate", "value", "-5", "bigint", "19", "10", "1", "4", "YES"]
    assert "varchar,12" in answers["types"][0].split("; ")


@pytest.mark.parametrize(
    "name",
    [
        "primary keys",
        "imported keys",
        "procedures",
        "procedure columns",
        "udts",
        "super types",
        "super tables",
        "attributes",
        "pseudo columns",
    ],
)
def test_metadata_that_savepoints_do_not_have_is_empty(answers: dict[str, list[str]], name: str) -> None:
    assert answers[name] == ["0"]


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("text", "key_662"),
        ("long", "11290"),
        ("integer division", "0 3"),
        ("decimal", "1.50"),
        ("timestamp", "2026-01-02 03:04:05.123456"),
        ("date", "2026-01-02"),
        ("bytes", "[0, -1]"),
        ("array", "[1, 2]"),
        ("map", "{a=1}"),
        ("row", "{a=1, b=x}"),
        ("boolean", "true"),
        ("double", "1.5"),
        ("null", "null"),
        ("infinity", "Infinity"),
        ("unnamed", "_col2"),
        ("type", "timestamp(6)"),
        ("nanoseconds", "timestamp(9) 2026-01-02 03:04:05.123456789"),
        ("sum", "19999900000"),
    ],
)
def test_values(answers: dict[str, list[str]], name: str, answer: str) -> None:
    assert answers[name] == [answer]


def test_prepared_statements(answers: dict[str, list[str]]) -> None:
    assert answers["parameters"] == ["2"]
    assert answers["column"] == ["found bigint"]
    assert answers["prepared"] == ["1"]
    assert answers["prepared again"] == ["0"]
    assert answers["arguments"] == ["1.50,2026-01-02 03:04:05.123,null,true"]


def test_the_session(answers: dict[str, list[str]]) -> None:
    assert answers["schema"] == answers["current"] == ["canonical"]
    assert answers["used"] == ["flink.native"]
    assert answers["in a transaction"] == ["1"]
    assert answers["property"] == ["query_max_run_time,30s"]
    assert answers["after"] == ["query_max_run_time,"]
    assert answers["valid"] == ["true"]


def test_errors_have_trinos_numbers(answers: dict[str, list[str]]) -> None:
    assert answers["failed"] == ["46", "1", "47", "8"]


def test_limits_timeout_and_cancel(answers: dict[str, list[str]]) -> None:
    assert answers["at most three"] == ["3"]
    assert answers["timeout"] == ["131075 true"]
    assert answers["cancelled"] == ["true"]
    assert answers["partially cancelled"] == ["3 true"]
    assert answers["killed"] == ["38 true"]
    assert answers["closed early"] == ["true"]
