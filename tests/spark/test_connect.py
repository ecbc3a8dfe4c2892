"""A Spark Connect server as a process; left out where what its clients need is not installed (`pyspark[connect]`)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.conftest import PROJECT, WORDCOUNT, free_port, python_without_our_code
from tests.waiting import wait_until

pytest.importorskip("grpc", reason="pyspark[connect] is not installed")

pytestmark = pytest.mark.spark

# A process that has a Spark of its own has no Connect session besides.
_DRIVER = """
import sys
from catalog import connect
from service.engines import DuckDBEngine
from service.engines.spark import SparkEngine
from service.engines.sparksession import SparkSettings
from service.settings import Settings
from service.sql import plan

url, path = sys.argv[1:]
savepoint = connect(path)
duckdb = DuckDBEngine(Settings())
spark = SparkEngine(SparkSettings(remote=url), duckdb)
try:
    for sql in [
        "SELECT sum(value) AS s, count(*) AS n FROM aggregate__count",
        "SELECT key, value FROM aggregate__count WHERE key IN ('key_1', 'key_662') ORDER BY key",
        "SELECT * FROM aggregate__count ORDER BY key LIMIT 20",
    ]:
        tables = []
        for engine in (spark, duckdb):
            execution = engine.execution(plan(sql, savepoint), 100)
            tables.append(execution.open().read_all())
            execution.close()
        print(tables[0].equals(tables[1]), tables[0].num_rows)
finally:
    spark.close()
    duckdb.close()
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """The address of a server whose Python has not seen our code."""
    import pyspark

    port = free_port()
    log = tmp_path / "server.log"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": str(python_without_our_code(tmp_path)),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
                *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
                *("--master", "local[2]", "--conf", f"spark.connect.grpc.binding.port={port}"),
                "spark-internal",
            ],
            cwd=tmp_path,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_until(lambda: "Spark Connect server started" in log.read_text(), 120)
        yield f"sc://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=30)


def test_a_connect_server_answers_as_duckdb(server: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _DRIVER, server, str(WORDCOUNT)],
        cwd=PROJECT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(PROJECT), os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr[-4000:]
    assert ran.stdout.splitlines() == ["True 1", "True 2", "True 20"]
