"""A real cluster: a master and two workers as processes, executors that have never seen our code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

_EVERYTHING = "tests/data/flink/2.3.0/everything-rocksdb-savepoints/canonical"
_WORDCOUNT = "tests/data/flink/2.3.0/wordcount-rocksdb-savepoints/canonical"
_PRELUDE = f"""
import json, os, signal, sys, threading, time
from catalog import Catalog
from catalog.catalog import Root
from readers.decode.jsontext import json_text
from service.engines import DuckDBEngine
from service.engines.spark import SparkEngine
from service.engines.sparksession import SparkSettings
from service.errors import QueryCancelledError, QueryError
from service.settings import Settings
from service.sql import plan

url, python = sys.argv[1:3]
catalog = Catalog([Root(path={_EVERYTHING!r}, label="e"), Root(path={_WORDCOUNT!r}, label="w")])
duckdb = DuckDBEngine(Settings())
options = {{"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1",
           "spark.executor.memory": "512m", "spark.sql.shuffle.partitions": "4"}}
spark = SparkEngine(SparkSettings(master=url, python=python, options=options), duckdb)

def rows(engine, sql, **limits):
    execution = engine.execution(plan(sql, catalog), **limits)
    try:
        table = execution.open().read_all()
        return [str(row) for row in zip(*[json_text(c.combine_chunks()).to_pylist() for c in table.columns])]
    finally:
        execution.close()

def tell(**facts):
    print(json.dumps(facts), flush=True)
"""


def test_executors_without_our_code_answer_as_duckdb_and_survive_a_cancel_and_a_death(
    standalone: Any,
) -> None:
    script = (
        _PRELUDE
        + """
for sql in [
    "SELECT * FROM w.aggregate__count ORDER BY key",
    "SELECT sum(value), count(*), avg(value) FROM w.aggregate__count",
    "SELECT key, value FROM w.aggregate__count WHERE key = 'key_662'",
    "SELECT * FROM e.types__v_pojo ORDER BY key",
    "SELECT * FROM e.types__v_instant ORDER BY key",
    "SELECT state_name, key, value, map_key, list_index FROM e.kinds ORDER BY ALL",
    "SELECT a.key, b.value FROM w.aggregate__count a JOIN w.aggregate__count b ON a.key = b.key ORDER BY 1",
]:
    tell(sql=sql, same=rows(spark, sql, max_rows=10000) == rows(duckdb, sql))

context = spark._sessions._session.sparkContext
tell(executors=context._jsc.sc().getExecutorMemoryStatus().size() - 1)

many = "SELECT count(*) FROM w.aggregate__count a, w.aggregate__count b, w.aggregate__count c, w.aggregate__count d"
execution = spark.execution(plan(many, catalog), max_rows=1)
asked = []
def cancel():
    asked.append(time.monotonic())
    execution.cancel(QueryCancelledError("enough"))
threading.Timer(3, cancel).start()
try:
    execution.open()
except QueryCancelledError as error:
    tell(message=error.message, took_s=time.monotonic() - asked[0])
execution.close()
deadline = time.monotonic() + 5
while context.statusTracker().getActiveJobsIds() and time.monotonic() < deadline:
    time.sleep(0.1)
tell(active=len(context.statusTracker().getActiveJobsIds()))

port = context.getConf().get("spark.driver.port")
def executors():
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = open(f"/proc/{name}/cmdline").read().split(chr(0))
        except OSError:
            continue
        if words[0].endswith("java") and f"spark://CoarseGrainedScheduler@127.0.0.1:{port}" in words:
            found.append(int(name))
    return found
sql = "SELECT count(*), sum(a.value + b.value) FROM w.aggregate__count a, w.aggregate__count b, e.kinds__map c"
expected = rows(duckdb, sql)
started = executors()
threading.Timer(0.5, lambda: os.kill(started[0], signal.SIGKILL)).start()
found = rows(spark, sql, max_rows=10)
tell(same=found == expected, executors=len(started))
spark.close()
"""
    )

    *answers, executors, cancelled, jobs, death = standalone.run(script)

    assert all(answer["same"] for answer in answers)
    assert executors == {"executors": 2}
    assert cancelled["message"] == "enough"
    assert cancelled["took_s"] < 1
    assert jobs == {"active": 0}
    assert death == {"same": True, "executors": 2}


def test_without_a_master_spark_is_unavailable_and_duckdb_goes_on(standalone: Any) -> None:
    standalone.stop()
    script = (
        _PRELUDE
        + """
try:
    rows(spark, "SELECT count(*) FROM w.aggregate__count", max_rows=1)
except QueryError as error:
    tell(code=error.code, message=error.message)
tell(rows=rows(duckdb, "SELECT count(*) FROM w.aggregate__count"))
spark.close()
"""
    )

    error, answer = standalone.run(script)

    assert error["code"] == "ENGINE_UNAVAILABLE"
    assert answer == {"rows": ["('1000',)"]}


def test_workers_without_python_packages_are_named_as_the_reason(standalone: Any, tmp_path: Path) -> None:
    standalone.python.write_text(
        "#!/bin/sh\n# pyspark and its packages, without numba\n"
        + standalone.python.read_text().partition("\n")[2].replace(' "$@"', f' "{tmp_path}/start.py" "$@"')
    )
    (tmp_path / "start.py").write_text(
        "import runpy, sys\n"
        "class WithoutNumba:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'numba':\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}')\n"
        "sys.meta_path.insert(0, WithoutNumba())\n"
        "sys.argv = sys.argv[2:]\n"
        "runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)\n"
    )
    script = (
        _PRELUDE
        + """
try:
    rows(spark, "SELECT count(*) FROM w.aggregate__count", max_rows=1)
except QueryError as error:
    tell(code=error.code, message=error.message, hint=error.hint)
spark.close()
"""
    )

    (error,) = standalone.run(script)

    assert error["code"] == "ENGINE_UNAVAILABLE"
    assert "'numba'" in error["message"]
