"""What short commands load: a family of formats, serializers or connectors is loaded when a savepoint has it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support.paths import DATA

SAVEPOINT = DATA / "flink/2.3.0/wordcount-rocksdb-checkpoint-incremental/checkpoint/chk-2"
SCRIPT = """
import json, sys
from service import cli
assert cli.main(sys.argv[1:]) == 0
print(json.dumps(sorted(sys.modules)))
"""
HEAVY = {"numba", "pandas", "fastapi", "uvicorn", "pydantic", "polars", "pyspark", "boto3", "prompt_toolkit"}
NOT_FOR_A_LOOKUP = (
    "doctor",
    "writers.errors",
    "writers.savepoint",
    "readers.jars",
    "readers.connectors",
    "readers.formats.changelog",
    "readers.formats.full",
    "readers.formats.heap",
    "readers.serializers.avro",
    "readers.serializers.cep",
    "readers.serializers.kryo.serializer",
    "readers.serializers.protobuf",
    "readers.serializers.scala",
    "readers.serializers.table",
    "readers.snapshots.java",
    "readers.snapshots.legacy",
    "catalog.differences.summary",
    "catalog.upstream",
    "catalog.wide.joining",
    "catalog.xray",
    "duckdb",
    "service.spark",
    "service.query.engines.spark.sessions",
    "service.query.sql.translation.trino",
    "asyncio",
    "sqlglot.dialects.duckdb",
)
FOR_AN_ENGINE = {"duckdb", "sqlglot.dialects.duckdb"}
NOT_WITHOUT_A_TABLE = (
    "pyarrow._compute",
    "pyarrow.fs",
    "pyarrow._parquet",
    "llvmlite",
    "readers.decode",
    "readers.formats",
    "readers.metadata",
    "readers.serializers",
    "readers.savepoint",
    "catalog.savepointtables",
    "service.query.engines.duckdb.tables",
)


def test_a_lookup_loads_what_the_savepoint_has_and_nothing_else() -> None:
    loaded = loaded_by_query("SELECT value FROM aggregate__count WHERE key = 'key_521'")

    assert HEAVY & set(loaded) == set()
    assert among(loaded, NOT_FOR_A_LOOKUP) == []
    assert "readers.formats.rocksdb.source" in loaded


def test_a_statement_without_a_table_loads_nothing_that_reads_state() -> None:
    loaded = loaded_by_query("SELECT 1")

    assert HEAVY & set(loaded) == set()
    assert among(loaded, (*(set(NOT_FOR_A_LOOKUP) - FOR_AN_ENGINE), *NOT_WITHOUT_A_TABLE)) == []


def test_the_command_lookup_loads_no_sql() -> None:
    loaded = loaded_by("lookup", str(SAVEPOINT), "key_521")

    assert HEAVY & set(loaded) == set()
    assert among(loaded, ("duckdb", "sqlglot", "service.query.sql", "service.query.running")) == []


def loaded_by_query(statement: str) -> list[str]:
    return loaded_by("query", str(SAVEPOINT), statement)


def loaded_by(*arguments: str) -> list[str]:
    """The modules that a process has loaded when it has run a command."""
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments], capture_output=True, text=True, check=True
    )
    loaded: list[str] = json.loads(run.stdout.splitlines()[-1])
    return loaded


def among(loaded: list[str], unwanted: tuple[str, ...]) -> list[str]:
    """The loaded modules that are unwanted, or in an unwanted package."""
    return [
        name for name in loaded if name.startswith(tuple(f"{one}." for one in unwanted)) or name in unwanted
    ]


def test_parts_of_arrow_that_are_loaded_later_have_their_own_modules() -> None:
    program = (
        "from service.base.machine import load_parts_later, load_without_pandas; "
        "load_without_pandas(); load_parts_later(); from pyarrow import compute, dataset, parquet; "
        "print(parquet.ParquetWriter.__name__, dataset.Dataset.__name__, compute.sum([1, 2]).as_py())"
    )

    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert ended.stdout.split() == ["ParquetWriter", "Dataset", "3"]


@pytest.mark.skipif(sys.platform != "linux", reason="threads are listed by Linux")
def test_numpy_starts_no_threads() -> None:
    program = (
        "import os, sys; from service import cli; from service.base import machine; assert 'numpy' not in sys.modules; "
        "machine.keep_algebra_to_one_thread(); import numpy; print(len(os.listdir('/proc/self/task')))"
    )

    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert ended.stdout.split() == ["1"]
