"""A real cluster: a master and two workers as processes, with executors that have no code of ours.

A driver is a process of its own, for there is one Spark in a process. The tests share the cluster, in this order.
"""

from __future__ import annotations

import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from catalog import Catalog
from catalog.catalog import Root
from readers import NotASavepointError, Savepoint
from tests.spark.conftest import (
    CASES,
    COMPILED_THERE,
    EVERYTHING,
    WORDCOUNT,
    kernels_in,
    one_of_each,
    python_without,
)
from tests.spark.test_writing import DRIVER, cases, check_case
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark

_STATEMENTS = [
    "SELECT sum(value), count(*), avg(value) FROM w.aggregate__count",
    "SELECT key, value FROM w.aggregate__count WHERE key = 'key_662'",
    "SELECT _key_group, sum(value) FROM w.aggregate__count GROUP BY ALL ORDER BY ALL",
    "SELECT * FROM e.types__v_pojo ORDER BY key",
    "SELECT state_name, key, value, map_key, list_index FROM e.kinds ORDER BY ALL",
    "SELECT a.key, b.value FROM w.aggregate__count a JOIN w.aggregate__count b ON a.key = b.key ORDER BY 1",
    "SELECT key, rank() OVER (PARTITION BY _subtask ORDER BY value DESC, key) FROM w.aggregate__count ORDER BY 1",
]
_PRELUDE = """
import json, os, signal, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
from catalog import Catalog
from catalog.catalog import Root
from readers.jsontext import json_text
from service.query.engines.duckdb.engine import DuckDBEngine
from service.query.engines.spark.engine import SparkEngine
from service.query.engines.spark.sessions import SparkSettings
from service.base.errors import QueryCancelledError, QueryError
from service.base.settings import Settings
from service.query.sql.planner import plan
import pyarrow as pa

url, python, *arguments = sys.argv[1:]
roots = [argument.split("=") for argument in arguments if "=" in argument]
catalog = Catalog([Root(path=path, label=label) for label, path in roots])
duckdb = DuckDBEngine(Settings())
options = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1",
           "spark.executor.memory": "512m", "spark.sql.shuffle.partitions": "4"}
spark = SparkEngine(SparkSettings(master=url, python=python, options=options), duckdb)

def shown(column):
    array = column.combine_chunks()
    is_odd = pa.types.is_time(array.type) or pa.types.is_null(array.type)
    return json_text(array.cast(pa.string()) if is_odd else array).to_pylist()

def rows(engine, sql, **limits):
    execution = engine.execution(plan(sql, catalog), **limits)
    try:
        table = execution.open().read_all()
        found = [str(row) for row in zip(*map(shown, table.columns))]
        return found if "ORDER BY" in sql else sorted(found)
    finally:
        execution.close()

def tell(**facts):
    print(json.dumps(facts), flush=True)
"""


def roots() -> list[str]:
    return [f"e={EVERYTHING}", f"w={WORDCOUNT}"]


def test_executors_without_our_code_answer_as_duckdb(standalone: Any) -> None:
    cases = {"e": EVERYTHING, "w": WORDCOUNT} | CASES
    catalog = Catalog([Root(path=str(folder), label=name) for name, folder in cases.items()])
    statements = [f'SELECT * FROM "{name}"."{table}"' for name, table in one_of_each(catalog)]
    script = (
        _PRELUDE
        + f"""
statements = {_STATEMENTS + statements!r}
rows(spark, statements[0], max_rows=10)  # starts Spark
with ThreadPoolExecutor(4) as pool:
    found = list(pool.map(lambda sql: rows(spark, sql, max_rows=100000), statements))
tell(different=[sql for sql, got in zip(statements, found) if got != rows(duckdb, sql)], count=len(statements))
tell(executors=spark._sessions._session.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1)
spark.close()
"""
    )

    answers, executors = standalone.run(script, *(f"{name}={folder}" for name, folder in cases.items()))

    assert answers == {"different": [], "count": len(_STATEMENTS) + len(statements)}
    assert len(statements) > 150
    assert executors == {"executors": 2}
    [unpacked] = (standalone.cache / "savepointdb" / "packages").iterdir()
    assert (unpacked / "service" / "spark" / "source.py").is_file()
    assert len(list(kernels_in(standalone.cache).glob(f"{COMPILED_THERE}-*"))) == 1


def test_workers_without_duckdb_give_rows_and_it_is_told(standalone: Any, tmp_path: Path) -> None:
    python = python_without("duckdb", tmp_path, standalone.python)
    script = (
        _PRELUDE
        + """
sql = "SELECT _subtask, count(*), sum(value), avg(value) FROM w.aggregate__count GROUP BY ALL ORDER BY ALL"
for number in range(2):
    execution = spark.execution(plan(sql, catalog), max_rows=10)
    table = execution.open().read_all()
    tell(remark=execution.remark, same=[str(row) for row in zip(*map(shown, table.columns))] == rows(duckdb, sql))
    execution.close()
spark.close()
"""
    )

    found = standalone.run(script, *roots(), python=python)

    remark = "the executors have no DuckDB to aggregate with, so Spark takes every row"
    assert found == [{"remark": remark, "same": True}] * 2


def test_workers_without_python_packages_are_named_as_the_reason(standalone: Any, tmp_path: Path) -> None:
    python = python_without("numba", tmp_path, standalone.python)
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

    (error,) = standalone.run(script, *roots(), python=python)

    assert error["code"] == "ENGINE_UNAVAILABLE"
    assert "'numba'" in error["message"]


def test_a_cluster_writes_savepoints_byte_for_byte_whatever_dies(
    standalone: Any, large: Path, tmp_path: Path
) -> None:
    listed = cases()
    script = (
        DRIVER
        + f"""
folder, large = arguments
for name, source, sql in {[[name, str(source), sql] for name, (source, sql) in listed.items()]!r}:
    here = write(source, sql, f"{{folder}}/{{name}} here", "local")
    there = write(source, sql, f"{{folder}}/{{name}} there", "spark")
    tell(name=name, engine=there.engine, same=here.effects == there.effects and here.summary == there.summary)

sql = "UPDATE large__texts SET value = concat(value, '!')"
write(large, sql, folder + "/large here", "local")
killed = []
def kill():
    killed.extend(executors())
    for executor in killed:
        os.kill(executor, signal.SIGKILL)
when_a_file_grows(folder + "/large there", kill)
write(large, sql, folder + "/large there", "spark")
tell(killed=len(killed))
when_a_file_grows(folder + "/killed", lambda: os.kill(os.getpid(), signal.SIGKILL))
write(large, sql, folder + "/killed", "spark")
"""
    )

    *found, death = standalone.run(script, str(tmp_path), str(large), expected=-signal.SIGKILL)

    assert [one["name"] for one in found if not one["same"]] == []
    assert {one["name"] for one in found if one["engine"]} >= {
        "all rows",
        "checkpoint",
        "types",
        "subtasks",
        "new state",
    }
    for name, (source, sql) in listed.items():
        check_case(name, source, sql, tmp_path)
    assert death["killed"] >= 1
    check_case("large", large, "", tmp_path)
    assert not (tmp_path / "killed" / "_metadata").exists()
    with pytest.raises(NotASavepointError):
        Savepoint(tmp_path / "killed")
    # A driver that is killed cannot remove its own files; those of all others must be gone in the end.
    for left in (standalone.folder / "tmp").glob("savepointdb-*"):
        shutil.rmtree(left)


def test_a_query_survives_its_executor_and_ends_when_told_and_the_master_may_go(standalone: Any) -> None:
    script = (
        _PRELUDE
        + """
sql = "SELECT count(*), sum(a.value + b.value) FROM w.aggregate__count a, w.aggregate__count b, e.kinds__map c"
expected = rows(duckdb, sql)
rows(spark, "SELECT sum(value) FROM w.aggregate__count", max_rows=10)
context = spark._sessions._session.sparkContext
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

many = "SELECT count(*) FROM w.aggregate__count a, w.aggregate__count b, w.aggregate__count c, w.aggregate__count d"
execution = spark.execution(plan(many, catalog), max_rows=1)
asked = []
def cancel():
    asked.append(time.monotonic())
    execution.cancel(QueryCancelledError("enough"))
def when_it_runs(act, later_s=0):
    def wait():
        while not context.statusTracker().getActiveJobsIds():
            time.sleep(0.05)
        time.sleep(later_s)
        act()
    threading.Thread(target=wait).start()
when_it_runs(cancel, 5)
try:
    execution.open()
except QueryCancelledError as error:
    tell(message=error.message, took_s=time.monotonic() - asked[0])
execution.close()
deadline = time.monotonic() + 120
while context.statusTracker().getActiveJobsIds() and time.monotonic() < deadline:
    time.sleep(0.1)
tell(active=len(context.statusTracker().getActiveJobsIds()))

# Such a task does not notice that it was killed: its executor is ended, and another takes its place.
def running():
    tracker = context._jsc.sc().statusTracker()
    return sum(executor.numRunningTasks() for executor in tracker.getExecutorInfos())
deadline = time.monotonic() + 120
while (running() or len(executors()) < 2) and time.monotonic() < deadline:
    time.sleep(0.1)
tell(running=running(), executors=len(executors()))

started = executors()
when_it_runs(lambda: os.kill(started[0], signal.SIGKILL))
found = rows(spark, sql, max_rows=10)
tell(same=found == expected, killed=started[0] not in executors())

os.kill(int(arguments[-1]), signal.SIGTERM)
time.sleep(2)
tell(without_master=rows(spark, sql, max_rows=10) == expected)
spark.close()
again = SparkEngine(SparkSettings(master=url, python=python, options=options), duckdb)
since = time.monotonic()
try:
    rows(again, sql, max_rows=10)
except QueryError as error:
    tell(code=error.code, message=error.message, at_once=time.monotonic() - since < 60)
tell(rows=rows(duckdb, "SELECT count(*) FROM w.aggregate__count"))
again.close()
"""
    )

    cancelled, jobs, left, death, orphaned, error, answer = standalone.run(
        script, *roots(), str(standalone.master.pid)
    )

    assert cancelled["message"] == "enough"
    assert cancelled["took_s"] < 60
    assert jobs == {"active": 0}
    assert left == {"running": 0, "executors": 2}
    assert death == {"same": True, "killed": True}
    assert orphaned == {"without_master": True}
    assert (error["code"], error["at_once"]) == ("ENGINE_UNAVAILABLE", True)
    assert answer == {"rows": ["('1000',)"]}


def test_nothing_is_left_behind(standalone: Any) -> None:
    standalone.stop()

    wait_until(lambda: not standalone.processes())
    left = [path for name in ("local", "tmp") for path in (standalone.folder / name).rglob("*")]
    assert [path for path in left if path.is_file()] == []
