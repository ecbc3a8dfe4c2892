"""A Spark Connect server as a process, whose Python has no code of ours, and the service beside it.

The tests share the server, in this order: one of the last takes it away, and starts another.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pyarrow as pa
import pytest

from catalog import Catalog, connect
from catalog.catalog import Root
from readers.storage.location import StorageOptions
from service.base.errors import (
    EngineError,
    QueryCancelledError,
    QueryError,
)
from service.base.settings import Settings
from service.doors.app import create_app
from service.query.engines.duckdb.engine import DuckDBEngine
from service.query.engines.engine import Execution
from service.query.engines.spark.connect import ConnectSessions
from service.query.engines.spark.engine import SparkEngine
from service.query.engines.spark.sessions import SparkSettings
from service.query.sql.planner import plan
from service.tasks.write.request import WriteRequest
from service.tasks.write.writing import run
from tests.spark.conftest import (
    CASES,
    MANY,
    SHORT_LIVED_ALL,
    WORDCOUNT,
    free_port,
    one_of_each,
    processes_with,
    python_without,
    python_without_our_code,
    run_python,
)
from tests.spark.test_corpus import answer, tables
from tests.support.objectstore import KEY_VARIABLES, ObjectStore, Proxy
from tests.support.paths import PROJECT
from tests.support.serving import listening
from tests.support.waiting import wait_until
from tests.support.writings import context_over
from tests.writers.test_elsewhere import outcome

pytestmark = pytest.mark.spark

ARROW = "application/vnd.apache.arrow.stream"
SUM = "SELECT _subtask, count(*), sum(value), avg(value) FROM w.aggregate__count GROUP BY ALL ORDER BY ALL"


class ConnectServer:
    """A server of two cores.

    Attributes:
        url: where it listens, whichever process it is.
        without_duckdb: Python processes that start while there is this file have no DuckDB.
    """

    def __init__(self, folder: Path, cache: Path) -> None:
        self._folder = folder
        self._cache = cache
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"sc://127.0.0.1:{self._port}"
        self.without_duckdb = folder / "without-duckdb"
        (folder / "less").mkdir()
        (folder / "tmp").mkdir()
        python = python_without_our_code(folder)
        less = python_without("duckdb", folder / "less", python)
        self._python = folder / "either"
        self._python.write_text(
            f'#!/bin/sh\n[ -e "{self.without_duckdb}" ] && exec "{less}" "$@"\nexec "{python}" "$@"\n'
        )
        self._python.chmod(0o755)

    def start(self) -> None:
        import pyspark

        log = self._folder / "server.log"
        options = {
            "spark.connect.grpc.binding.port": str(self._port),
            "spark.connect.progress.reportInterval": "100ms",
            "spark.python.unix.domain.socket.enabled": "true",
            "spark.local.dir": str(self._folder / "tmp"),
            "spark.sql.shuffle.partitions": "2",
            "spark.ui.enabled": "false",
        }
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        environment |= SHORT_LIVED_ALL | {
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": str(self._python),
            "TMPDIR": str(self._folder / "tmp"),
            "XDG_CACHE_HOME": str(self._cache),
        }
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [
                    str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
                    *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
                    *("--master", "local[2]"),
                    *(word for option in options.items() for word in ("--conf", "=".join(option))),
                    "spark-internal",
                ],
                cwd=self._folder,
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

        def has_started() -> bool:
            assert self._process is not None
            assert self._process.poll() is None, log.read_text()[-2000:]
            return "Spark Connect server started" in log.read_text()

        wait_until(has_started, 120)

    def kill(self) -> None:
        """Kill the server and all processes that it has started."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        wait_until(lambda: not processes_with(str(self._folder)))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, executors_cache: Path) -> Iterator[ConnectServer]:
    found = ConnectServer(tmp_path_factory.mktemp("connect"), executors_cache)
    try:
        found.start()
        yield found
    finally:
        found.kill()


@pytest.fixture(scope="module")
def engine(
    server: ConnectServer, duckdb_engine: DuckDBEngine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkEngine]:
    settings = SparkSettings(
        remote=f"{server.url}/;user_id=tests",
        options={
            "spark.sql.shuffle.partitions": "4",
            "spark.sql.adaptive.coalescePartitions.enabled": "false",
        },
        export_directory=str(tmp_path_factory.mktemp("exports")),
    )
    found = SparkEngine(settings, duckdb_engine, str(tmp_path_factory.mktemp("engine")))
    yield found
    found.close()


def sessions(engine: SparkEngine) -> ConnectSessions:
    assert isinstance(engine._sessions, ConnectSessions)
    return engine._sessions


def test_tables_have_the_same_rows(engine: SparkEngine, duckdb_engine: DuckDBEngine) -> None:
    folders = {"wordcount": WORDCOUNT, "types": CASES["types"]}
    catalog = Catalog([Root(path=str(folder), label=name) for name, folder in folders.items()])

    compared, different = 0, []
    for name, table in one_of_each(catalog):
        planned = plan(f'SELECT * FROM "{name}"."{table}"', catalog)
        expected = answer(duckdb_engine.execution(planned))
        if answer(engine.execution(planned, 1_000_000)) != expected:
            different.append(f"{name}.{table}")
        compared += 1

    assert different == []
    assert compared > 40


@pytest.mark.parametrize(
    "sql",
    [
        SUM,
        "SELECT key, value FROM w.aggregate__count WHERE key IN ('key_1', 'key_662') ORDER BY key",
        "SELECT * FROM w.aggregate__count ORDER BY key LIMIT 20",
        "SELECT a.key, b.value FROM w.aggregate__count a JOIN w.aggregate__count b ON a.key = b.key ORDER BY 1",
        "SELECT key, rank() OVER (PARTITION BY _subtask ORDER BY value DESC, key) FROM w.aggregate__count ORDER BY 1",
        "SELECT * FROM e.types__v_pojo ORDER BY key",
        "SELECT * FROM w.operators ORDER BY ALL",
    ],
)
def test_statements_have_the_same_answer(
    sql: str, savepoints: Catalog, engine: SparkEngine, duckdb_engine: DuckDBEngine
) -> None:
    found, expected = (
        each.execution(plan(sql, savepoints), 1000).open().read_all() for each in (engine, duckdb_engine)
    )

    assert found.equals(expected)
    assert found.num_rows > 1


def test_a_savepoint_is_written_as_on_this_machine(
    tmp_path: Path, engine: SparkEngine, duckdb_engine: DuckDBEngine
) -> None:
    context = context_over(connect(WORDCOUNT), {"duckdb": duckdb_engine, "spark": engine})

    for name in ("local", "spark"):
        sql = "UPDATE aggregate__count SET value = value + 1"
        request = WriteRequest(sql=sql, engine=name, target=str(tmp_path / name))
        assert run(request, context).engine == ("" if name == "local" else name)

    assert outcome(tmp_path / "spark") == outcome(tmp_path / "local")


def test_a_session_is_used_again_for_its_workers_stay(savepoints: Catalog, engine: SparkEngine) -> None:
    for sql in (SUM, "FROM w.aggregate__count"):
        engine.execution(plan(sql, savepoints), 10).open().read_all()

    assert len(sessions(engine)._idle) == 1


def test_the_server_says_how_much_runs_at_a_time(engine: SparkEngine) -> None:
    assert sessions(engine).parallelism == 2


def test_a_long_answer_is_written_by_the_executors_and_taken_away_after(
    savepoints: Catalog, engine: SparkEngine
) -> None:
    exports = Path(engine.settings.export_directory)
    planned = plan("SELECT key, value FROM w.aggregate__count ORDER BY key DESC", savepoints)

    execution = engine.execution(planned)
    reader = execution.open()
    files = sorted(exports.rglob("part-*.parquet"))
    keys = reader.read_all().column(0).to_pylist()
    execution.close()

    assert len(files) == 4  # by one of the options
    assert keys == sorted(keys, reverse=True)
    assert len(keys) == 1000
    assert list(exports.iterdir()) == []


def test_a_long_answer_needs_a_directory(
    savepoints: Catalog, engine: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "settings", replace(engine.settings, export_directory=""))
    monkeypatch.setattr("service.query.engines.spark.engine._MOST_COLLECTED_ROWS", 999)
    rows = "FROM w.aggregate__count"

    assert (
        engine.execution(plan(f"{rows} WHERE key != 'key_1'", savepoints)).open().read_all().num_rows == 999
    )
    with pytest.raises(EngineError, match="more than 999 rows") as raised:
        engine.execution(plan(rows, savepoints)).open()

    assert "spark_export_directory" in str(raised.value.hint)


def test_explain_shows_the_plan(savepoints: Catalog, engine: SparkEngine) -> None:
    execution = engine.execution(plan(f"EXPLAIN {SUM}", savepoints), 10)

    (row,) = execution.open().read_all().to_pylist()

    assert "MapInArrow" in row["explain_value"]
    assert "group 1" in row["explain_value"]


class Opening:
    """A query that a thread opens, and its result."""

    def __init__(self, execution: Execution) -> None:
        self.execution = execution
        self.failure: QueryError | None = None
        self._thread = threading.Thread(target=self._open)
        self._thread.start()

    def cancelled(self, message: str) -> str:
        """Cancel the query; return the message of its error."""
        self.execution.cancel(QueryCancelledError(message))
        self._thread.join()
        self.execution.close()
        assert self.failure is not None
        return self.failure.message

    def _open(self) -> None:
        try:
            self.execution.open()
        except QueryError as error:
            self.failure = error


def test_progress_is_told_while_it_runs_and_it_ends_when_told(
    savepoints: Catalog, engine: SparkEngine
) -> None:
    opening = Opening(engine.execution(plan(MANY, savepoints), 1))
    wait_until(lambda: opening.execution.progress.splits_total)

    assert opening.cancelled("enough") == "enough"
    # The session is free when the server has given up.
    wait_until(lambda: not sessions(engine)._running)
    again = engine.execution(plan(SUM, savepoints), 10)
    assert again.open().read_all().num_rows > 1
    assert again.progress.bytes_read == again.progress.bytes_total > 0
    assert len(sessions(engine)._idle) == 1


def test_a_cancel_before_the_server_knows_the_query_ends_it(savepoints: Catalog, engine: SparkEngine) -> None:
    opening = Opening(engine.execution(plan(MANY, savepoints), 1))
    wait_until(lambda: sessions(engine)._running)

    assert opening.cancelled("at once") == "at once"
    wait_until(lambda: not sessions(engine)._running)


def test_errors_have_their_codes(savepoints: Catalog, engine: SparkEngine, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(CASES["types"], tmp_path / "types"))
    table = next(name for name in tables(connect(folder)) if name.endswith("__v_int"))
    planned = plan(f'SELECT max(value) FROM "{table}"', connect(folder))
    for file in folder.iterdir():
        if file.name != "_metadata":
            file.unlink()

    with pytest.raises(QueryError) as missing:
        engine.execution(planned, 10).open()
    with pytest.raises(QueryError) as invalid:
        engine.execution(
            plan("SELECT value // (value - value) FROM w.aggregate__count", savepoints), 10
        ).open()

    assert (missing.value.code, invalid.value.code) == ("MISSING_FILE", "INVALID_VALUE")
    assert str(tmp_path) not in missing.value.message


def test_queries_do_not_see_each_other(savepoints: Catalog, engine: SparkEngine) -> None:
    counts = {"w.aggregate__count": 1000, 'w."mod7-no-uid__seen"': 7}
    found: dict[str, int] = {}

    def run(table: str) -> None:
        execution = engine.execution(plan(f"SELECT count(*) FROM {table}", savepoints), 1)
        found[table] = execution.open().read_all().column(0)[0].as_py()

    threads = [threading.Thread(target=run, args=(table,)) for table in counts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == counts


def test_credentials_of_a_root_reach_the_executors_and_are_shown_nowhere(
    store: ObjectStore, proxy: Proxy, engine: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in KEY_VARIABLES.items():
        monkeypatch.setenv(name.replace("MOTO", "REMOTE"), value)
    store.upload(WORDCOUNT, "remote")
    url = proxy.url("remote").replace("credentials=MOTO", "credentials=REMOTE")
    catalog = Catalog([Root(path=url, label="remote")])

    count, explained = (
        engine.execution(plan(sql, catalog), 10).open().read_all().to_pylist()
        for sql in (
            "SELECT count(key) AS n FROM aggregate__count",
            "EXPLAIN SELECT key FROM aggregate__count",
        )
    )

    assert count == [{"n": 1000}]
    shown = str(explained) + repr(StorageOptions().elsewhere([url]))
    assert not any(value in shown for value in KEY_VARIABLES.values())


def test_a_server_without_duckdb_gives_rows_and_it_is_told(
    server: ConnectServer, savepoints: Catalog, duckdb_engine: DuckDBEngine, tmp_path: Path
) -> None:
    planned = plan(SUM, savepoints)
    engine = SparkEngine(SparkSettings(remote=server.url), duckdb_engine, str(tmp_path))
    server.without_duckdb.touch()
    try:
        execution = engine.execution(planned, 10)
        found = execution.open().read_all()
    finally:
        server.without_duckdb.unlink()
        engine.close()

    assert execution.remark == "the executors have no DuckDB to aggregate with, so Spark takes every row"
    assert found.equals(duckdb_engine.execution(planned).open().read_all())


def test_the_service_goes_on_when_the_server_goes_and_comes_back(
    server: ConnectServer, savepoints: Catalog
) -> None:
    settings = Settings.of(
        spark_remote=f"{server.url}/;user_id=tests", spark_threshold_bytes=1, max_timeout_s=600
    )

    with (
        listening(create_app(settings, savepoints)) as address,
        httpx.Client(base_url=address, timeout=600) as client,
    ):

        def asked(sql: str, engine: str, **headers: str) -> httpx.Response:
            body = {"sql": sql, "engine": engine, "timeout_s": 500}
            return client.post("/api/query", json=body, headers=headers)

        def started() -> str:
            body = {"sql": MANY, "engine": "spark", "timeout_s": 600}
            path = f"/api/queries/{client.post('/api/queries', json=body).json()['query_id']}"
            wait_until(lambda: client.get(path).json()["progress"]["splits_total"])
            return path

        expected = asked(SUM, "duckdb").json()
        by_name, by_size = asked(SUM, "spark").json(), asked(SUM, "auto").json()
        rows = pa.ipc.open_stream(asked("FROM w.aggregate__count", "spark", accept=ARROW).content).read_all()
        cancelled = started()
        client.delete(cancelled)
        running = started()
        server.kill()
        wait_until(lambda: client.get(running).json()["state"] not in ("queued", "running"))
        failed = client.get(running).json()
        gone, other = asked(SUM, "spark").json(), asked(SUM, "auto").json()
        server.start()
        back = asked(SUM, "spark").json()

    assert by_name["rows"] == by_size["rows"] == back["rows"] == expected["rows"]
    assert {answer["engine"] for answer in (by_name, by_size, back)} == {"spark"}
    assert by_size["engine_reason"].endswith(f"Spark at {server.url}")
    assert rows.num_rows == 1000
    assert failed["error"]["code"] == gone["error"]["code"] == "ENGINE_UNAVAILABLE"
    assert "Spark is gone" in failed["error"]["message"]
    assert (other["engine"], other["rows"]) == ("duckdb", expected["rows"])
    assert other["engine_reason"].endswith(f"but nobody answers at {server.url}")


def test_sessions_of_a_server_that_is_no_more_are_left(
    savepoints: Catalog, engine: SparkEngine, duckdb_engine: DuckDBEngine
) -> None:
    before = list(sessions(engine)._idle)

    found, expected = (
        each.execution(plan(SUM, savepoints), 10).open().read_all() for each in (engine, duckdb_engine)
    )

    assert before
    assert found.equals(expected)
    assert len(sessions(engine)._open) == 1
    assert sessions(engine)._open[0] not in before


@pytest.mark.parametrize(("package", "is_file"), [("grpc", True), ("grpc", False), ("zstandard", False)])
def test_without_its_packages_it_is_told_what_to_install(package: str, is_file: bool, tmp_path: Path) -> None:
    file = tmp_path / "script.py"
    file.write_text(
        "import sys\n"
        f"sys.modules[{package!r}] = None\n"
        "from catalog import Catalog\n"
        "from service.query.engines.duckdb.engine import DuckDBEngine\n"
        "from service.query.engines.spark.engine import SparkEngine\n"
        "from service.query.engines.spark.sessions import SparkSettings\n"
        "from service.base.errors import EngineUnavailableError\n"
        "from service.base.settings import Settings\n"
        "from service.query.sql.planner import plan\n"
        "duckdb = DuckDBEngine(Settings())\n"
        "spark = SparkEngine(SparkSettings(remote='sc://127.0.0.1:1'), duckdb)\n"
        "try:\n"
        "    spark.execution(plan('SELECT 1', Catalog([])), 1).open()\n"
        "except EngineUnavailableError as error:\n"
        "    print(error.message, error.hint, sep='\\n')\n"
        "spark.close()\n"
        "duckdb.close()\n"
    )
    ran = run_python(*([str(file)] if is_file else ["-c", file.read_text()]), folder=PROJECT)

    assert ran.returncode == 0, ran.stderr
    message, hint = ran.stdout.splitlines()
    assert message == "what Spark Connect needs is not installed"
    assert hint.startswith("pip install 'savepointdb[connect]'; or ")
