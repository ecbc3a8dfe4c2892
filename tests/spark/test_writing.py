"""Savepoints whose state Spark makes: byte for byte as this machine makes them, on a cluster of processes, whatever dies."""

from __future__ import annotations

import signal
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import catalog
import savepointdb
from catalog import Catalog
from service.cli import main
from service.query.engines.duckdb.engine import DuckDBEngine
from service.query.engines.spark.engine import SparkEngine
from service.tasks.copies import sample
from service.tasks.write.request import WriteRequest
from service.tasks.write.writing import run
from tests.service.tasks.write.test_differential import (
    CANONICAL,
    NATIVE,
    ROCKSDB,
    by_duckdb,
    scripts,
    tables_of,
)
from tests.spark.conftest import EVERYTHING, WORDCOUNT
from tests.support.objectstore import ObjectStore, Proxy
from tests.support.paths import PROJECT
from tests.support.waiting import wait_until
from tests.support.writings import context_over
from tests.writers.test_elsewhere import outcome
from tests.writers.test_savepoint import contents

pytestmark = pytest.mark.spark

INCREMENTAL = PROJECT / "tests/data/flink/2.3.0/wordcount-rocksdb-checkpoint-incremental/checkpoint/chk-2"
WORDCOUNT_NATIVE = PROJECT / "tests/data/flink/2.3.0/wordcount-rocksdb-savepoints/native"
_CASES = {
    "all rows": (WORDCOUNT, "UPDATE aggregate__count SET value = value + 1"),
    "checkpoint": (INCREMENTAL, "DELETE FROM aggregate__count WHERE value % 2 = 0; DROP TABLE source"),
    "types": (ROCKSDB, "ALTER TABLE kinds__value ALTER COLUMN value TYPE VARCHAR"),
    "subtasks": (NATIVE, "ALTER TABLE kinds SET (max_parallelism = 1000, parallelism = 5)"),
    "new state": (
        WORDCOUNT,
        "CREATE TABLE aggregate__twice (key VARCHAR, value BIGINT) AS SELECT key, value * 2 FROM aggregate__count; "
        "CREATE TABLE fresh__words (key BIGINT, value VARCHAR) WITH (kind = 'LIST', parallelism = '3') AS "
        "SELECT value % 100, key FROM aggregate__count",
    ),
    "offsets alone": (WORDCOUNT, "DROP TABLE aggregate__count"),
}
# What a driver writes by, in a process of its own.
DRIVER = """
import json, os, signal, sys, threading, time
from contextlib import closing
from pathlib import Path
import catalog
from service.query.engines.registry import open_engines
from service.base.errors import QueryError
from service.query.running.session import Session
from service.base.settings import UNLIMITED, Settings
from service.tasks.task import Context
from service.tasks.write.request import WriteRequest
from service.tasks.write.writing import run

url, python, *arguments = sys.argv[1:]
host = url.removeprefix("spark://").partition(":")[0]
options = (f"spark.driver.bindAddress={host} spark.driver.host={host} spark.executor.memory=512m "
           "spark.speculation=true spark.speculation.multiplier=1.1 spark.speculation.quantile=0.1")
settings = Settings().replaced(UNLIMITED | {"spark_master": url, "spark_python": python, "spark_options": options})
engines = open_engines(settings)

def write(source, sql, target, engine):
    known = catalog.connect(source)
    queries = Session(known, engines, settings)
    context = Context(catalog=known, settings=settings, start=queries.start, worker=queries.worker, is_alone=True)
    # A random statement may match no row.
    request = WriteRequest(sql=sql, engine=engine, target=os.fspath(target), allow_empty=True)
    return run(request, context)

def tell(**facts):
    print(json.dumps(facts), flush=True)
def executors():
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = open(f"/proc/{name}/cmdline").read().split(chr(0))
        except OSError:
            continue
        if words[0].endswith("java") and any(word.startswith("spark://CoarseGrainedScheduler") for word in words):
            if f"{os.environ['TMPDIR']}".encode() in open(f"/proc/{name}/environ", "rb").read():
                found.append(int(name))
    return found

def when_a_file_grows(target, act):
    def wait():
        while True:
            try:
                if any(file.stat().st_size for file in os.scandir(target) if not file.name.startswith(("_", "parts"))):
                    return act()
            except OSError:
                pass
            time.sleep(0.001)
    threading.Thread(target=wait, daemon=True).start()
"""
_ADDED = "UPDATE large__texts SET value = concat(value, '!')"


def random_scripts(count: int) -> list[str]:
    """Scripts of hypothesis."""
    found: list[str] = []

    @settings(max_examples=count, database=None, suppress_health_check=list(HealthCheck))
    @given(script=scripts)
    def collect(script: list[str]) -> None:
        found.append("; ".join(script))

    collect()
    return found


def rows_of(path: Path) -> dict[str, list[Any]]:
    """The rows of the tables that random scripts change."""
    return {
        name: sorted(zip(*(column.to_pylist() for column in rows.columns), strict=True), key=repr)
        for name, rows in tables_of(path).items()
    }


@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(script=scripts, source=st.sampled_from([CANONICAL, NATIVE, ROCKSDB]))
def test_random_scripts(
    script: list[str], source: Path, duckdb_engine: DuckDBEngine, spark_engine: SparkEngine
) -> None:
    known = catalog.connect(str(source))
    context = context_over(known, {"duckdb": duckdb_engine, "spark": spark_engine})
    with tempfile.TemporaryDirectory() as folder:
        for engine in ("local", "spark"):
            target = str(Path(folder, engine))
            run(WriteRequest(sql="; ".join(script), engine=engine, allow_empty=True, target=target), context)

        assert outcome(Path(folder, "spark")) == outcome(Path(folder, "local"))
        assert rows_of(Path(folder, "spark")) == by_duckdb(source, script)


def cases() -> dict[str, tuple[Path, str]]:
    """Sources and scripts, some of them random."""
    drawn = zip([CANONICAL, NATIVE, ROCKSDB], random_scripts(3), strict=False)
    return _CASES | {f"random {number}": case for number, case in enumerate(drawn)}


def check_case(name: str, source: Path, sql: str, folder: Path) -> None:
    """Compare what this machine and the cluster have written."""
    here, there = folder / f"{name} here", folder / f"{name} there"
    assert outcome(there) == outcome(here), name
    assert len(list(there.iterdir())) == len(list(here.iterdir())), name
    if name.startswith("random"):
        assert rows_of(there) == by_duckdb(source, [sql]), name


def test_a_write_that_is_interrupted_leaves_no_target(
    large: Path, tmp_path: Path, duckdb_engine: DuckDBEngine, spark_engine: SparkEngine
) -> None:
    known, target = catalog.connect(str(large)), tmp_path / "new"
    context = context_over(known, {"duckdb": duckdb_engine, "spark": spark_engine})

    def interrupt() -> None:
        wait_until(lambda: target.exists() and any(file.name[0] not in "_p" for file in target.iterdir()))
        signal.raise_signal(signal.SIGINT)

    thread = threading.Thread(target=interrupt, daemon=True)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        run(WriteRequest(sql=_ADDED, engine="spark", target=str(target)), context)
    thread.join()

    assert list(tmp_path.iterdir()) == []


SHOP = (
    "CREATE TABLE customers__name WITH (key_type = 'Long') AS SELECT range AS key, 'name ' || range AS value FROM range(60); "
    "CREATE TABLE orders__total WITH (key_type = 'Tuple2<String, Integer>', parallelism = '2') AS "
    "SELECT {'f0': (range % 60)::VARCHAR, 'f1': range::INTEGER} AS key, range AS value FROM range(180)"
)
MASKS = """version = 1
[[mask]]
columns = ["customers__name.value"]
with = "constant(hidden)"
[group.customer]
columns = ["customers.key", "orders.key.f0"]
"""


@pytest.mark.parametrize(
    "chosen", [{"fraction": 0.3}, {"where": "customers__name: key % 3 = 0"}], ids=["fraction", "where"]
)
def test_a_sample_by_a_field_of_keys(
    chosen: dict[str, Any], tmp_path: Path, duckdb_engine: DuckDBEngine, spark_engine: SparkEngine
) -> None:
    assert main(["create", str(tmp_path / "shop"), SHOP, "--flink", "2.3"]) == 0
    (tmp_path / "masks.toml").write_text(MASKS, encoding="utf-8")
    context = context_over(
        catalog.connect(str(tmp_path / "shop")), {"duckdb": duckdb_engine, "spark": spark_engine}
    )

    for engine in ("local", "spark"):
        told = sample.run(
            sample.SampleRequest(
                target=str(tmp_path / engine),
                mask=str(tmp_path / "masks.toml"),
                group="customer",
                parallelism=1,
                engine=engine,
                **chosen,
            ),
            context,
        )
        assert told.engine == ("spark" if engine == "spark" else "")

    assert outcome(tmp_path / "spark") == outcome(tmp_path / "local")
    with savepointdb.connect(tmp_path / "spark") as made:
        kept = made.sql("SELECT key, value FROM customers__name ORDER BY 1").fetchall()
        orders = made.sql(
            "SELECT key.f0::BIGINT, count(*) FROM orders__total GROUP BY 1 ORDER BY 1"
        ).fetchall()
    assert 5 < len(kept) < 35
    assert {value for _, value in kept} == {"hidden"}
    assert orders == [(key, 3) for key, _ in kept]


def test_a_state_like_that_of_another_savepoint(
    tmp_path: Path, duckdb_engine: DuckDBEngine, spark_engine: SparkEngine
) -> None:
    known = Catalog.of(
        [*catalog.connect(str(WORDCOUNT_NATIVE)).known(), *catalog.connect(str(EVERYTHING)).known()]
    )
    context = context_over(known, {"duckdb": duckdb_engine, "spark": spark_engine})
    sql = (
        "CREATE TABLE twins__pojo (LIKE canonical.types__v_pojo) AS SELECT * FROM canonical.types__v_pojo WHERE key < 'k3'; "
        "CREATE TABLE twins__pairs (LIKE canonical.types__v_tuple2_array) AS "
        "SELECT 'other ' || key AS key, value FROM canonical.types__v_tuple2_array"
    )

    for engine in ("local", "spark"):
        run(WriteRequest(database="native", sql=sql, engine=engine, target=str(tmp_path / engine)), context)

    assert outcome(tmp_path / "spark") == outcome(tmp_path / "local")
    with savepointdb.connect(tmp_path / "spark") as made, savepointdb.connect(EVERYTHING) as other:
        pojos = other.sql("SELECT key, value FROM types__v_pojo WHERE key < 'k3' ORDER BY key").fetchall()
        assert made.sql("SELECT key, value FROM twins__pojo ORDER BY key").fetchall() == pojos
        pairs = other.sql("SELECT 'other ' || key, value FROM types__v_tuple2_array ORDER BY key").fetchall()
        assert made.sql("SELECT key, value FROM twins__pairs ORDER BY key").fetchall() == pairs
    assert len(pojos) == 3
    assert len(pairs) == 2


def test_a_savepoint_in_a_store(
    store: ObjectStore, proxy: Proxy, tmp_path: Path, duckdb_engine: DuckDBEngine, spark_engine: SparkEngine
) -> None:
    source, sql = _CASES["new state"]
    known = catalog.connect(proxy.url(store.upload(source, "source")))
    context = context_over(known, {"duckdb": duckdb_engine, "spark": spark_engine})

    for target, engine in ((str(tmp_path / "here"), "local"), (proxy.url("there"), "spark")):
        run(WriteRequest(sql=sql, engine=engine, target=target), context)

    here = contents(tmp_path / "here")
    there = store.contents("there/")
    assert len(there) == len(here)
    files = sorted(digest for name, digest in here.items() if name != "_metadata")
    assert sorted(digest for key, digest in there.items() if key != "there/_metadata") == files
    assert store.uploads == []
