"""Queries in processes of their own: they give the same answers, and none can hurt another or the server."""

from __future__ import annotations

import fcntl
import gc
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog import Catalog, connect
from catalog.cache.states import StateCache
from catalog.catalog import Root
from service.base.errors import (
    ColumnNotFoundError,
    EngineUnavailableError,
    MemoryExceededError,
    QueryCancelledError,
    QueryError,
    QueryTimeoutError,
    WorkerLostError,
)
from service.base.settings import InvalidSettingError, Settings, bytes_of
from service.query.encode import json_rows
from service.query.encode.formats import Column
from service.query.engines.duckdb.engine import DuckDBEngine
from service.query.engines.workers import WorkerEngine
from service.query.engines.workers import engine as engine_module
from service.query.engines.workers import pool as pool_module
from service.query.engines.workers.channel import Channel, ChannelClosedError, End, Frame, small_batches
from service.query.engines.workers.forks import ForkServer
from service.query.running.request import QueryRequest
from service.query.running.run import QueryState
from service.query.serving.registry import Queries
from service.query.sql.plan import ReadStatement
from service.query.sql.planner import plan
from tests.support.paths import DATA
from tests.support.thorough import thorough
from tests.support.waiting import PATIENCE_S, wait_until

FLINK = DATA / "flink"
NATIVE = FLINK / "2.3.0" / "wordcount-rocksdb-savepoints" / "native"
SAVEPOINTS = {
    "native": "2.3.0/wordcount-rocksdb-savepoints/native",
    "heap": "2.3.0/everything-hashmap-savepoints/canonical",
    "older": "1.20.3/everything-rocksdb-savepoints/native",
}
EVERYTHING = FLINK / "2.3.0" / "everything-rocksdb-savepoints" / "native"
LOOKUP = "SELECT key, value FROM native.aggregate WHERE key = 'key_1'"
ENDLESS = "SELECT count(*) FROM range(1000000000000)"
LONG = "SELECT x, repeat('x', 100) AS text FROM range(2000000) t(x)"
# DuckDB does not hear a cancel here for long.
DEAF = "SELECT length(lpad('x', 400000000, 'yz'))"
HOSTILE = [
    "SELECT repeat('x', 1000000000)",
    "SELECT list_sum(range(1000000000))",
    "SELECT list(x) FROM range(1000000000) t(x)",
    "SELECT list_sort(range(200000000))",
    "WITH RECURSIVE r(s) AS (SELECT 'x' UNION ALL SELECT s || s FROM r) SELECT max(length(s)) FROM r",
]


class Service:
    """Queries of workers over some savepoints."""

    def __init__(self, catalog: Catalog, **settings: Any) -> None:
        limits = Settings.of(
            **{"worker_memory": "500MB", "workers": 1, "max_row_bytes": 5_000_000, **settings}
        )
        self.engine = WorkerEngine(limits, running=8)
        self.queries = Queries(catalog, {"duckdb": self.engine}, limits)

    @property
    def pids(self) -> set[int]:
        return set(self.engine.pool.processes)

    def rows(self, sql: str, **request: Any) -> list[tuple[Any, ...]]:
        with self.queries.start(QueryRequest(sql=sql, **request)) as query:
            return rows_of(list(query.batches()))


def rows_of(batches: list[pa.RecordBatch]) -> list[tuple[Any, ...]]:
    return [
        row
        for batch in batches
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
    ]


def text_of(columns: tuple[Column, ...], batches: list[pa.RecordBatch]) -> list[str]:
    """Rows as JSON, also for values that Python has no type for."""
    return [row for batch in batches for row in json_rows(columns, batch)]


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    made = Service(Catalog([Root(path=str(FLINK / path), label=name) for name, path in SAVEPOINTS.items()]))
    with closing(made.queries):
        made.engine.start()
        yield made


@pytest.mark.slow
@pytest.mark.parametrize("name", thorough(SAVEPOINTS, ["native"]))
def test_every_table_has_the_same_rows_as_in_this_process(name: str, service: Service) -> None:
    settings = Settings()
    with closing(Queries(service.queries.catalog, {"duckdb": DuckDBEngine(settings)}, settings)) as here:
        for table in service.queries.catalog.database(name).tables:
            request = QueryRequest(sql=f'SELECT * FROM "{name}"."{table}"')
            with here.start(request) as own, service.queries.start(request) as other:
                expected, found = list(own.batches()), list(other.batches())

                assert (other.columns, other.schema) == (own.columns, own.schema)
                # Several states of a table are read at the same time, and come in any order.
                assert sorted(text_of(other.columns, found)) == sorted(text_of(own.columns, expected))
                assert other.progress.bytes_total == own.progress.bytes_total


def test_what_lists_the_catalog_is_answered_too(service: Service) -> None:
    found = service.rows(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = 'heap' ORDER BY 1"
    )

    assert [name for (name,) in found] == sorted(service.queries.catalog.database("heap").tables)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT CAST(NULL AS ENUM('a', 'b')) AS e UNION ALL SELECT 'b'",
        "SELECT [1, NULL], {'a': 1.5, 'b': [DATE '2026-01-01']}, MAP {'k': 'v'}, 12345678901234567890123::HUGEINT",
        "SELECT x, x % 7 = 0 AS seventh FROM range(100000) t(x) ORDER BY x",
        "SELECT 1 WHERE false",
        "SELECT 1 WHERE " + " OR ".join(f"1 = {number}" for number in range(2000)),
    ],
)
def test_answers_are_those_of_this_process(
    sql: str, service: Service, ask_of: Callable[[Catalog], Any]
) -> None:
    assert service.rows(sql) == ask_of(service.queries.catalog).rows(sql)


def test_an_error_keeps_its_code_and_its_place(service: Service) -> None:
    with pytest.raises(ColumnNotFoundError) as raised:
        service.rows("SELECT key,\n  valeu FROM native.aggregate")

    error = raised.value
    assert (error.code, error.status) == ("COLUMN_NOT_FOUND", 400)
    assert error.hint is not None
    assert error.hint.startswith('did you mean "value"')
    assert error.position is not None
    assert (error.position.line, error.position.column) == (2, 3)


@pytest.mark.slow
@pytest.mark.parametrize("sql", HOSTILE)
def test_a_query_without_bounds_ends_while_others_are_answered(sql: str, service: Service) -> None:
    with ThreadPoolExecutor(1) as threads:
        hostile = threads.submit(service.rows, sql, timeout_s=400)
        answers = 0
        while not hostile.done() or not answers:
            assert service.rows(LOOKUP) == [("key_1", 38)]
            answers += 1

    with pytest.raises(MemoryExceededError) as raised:
        hostile.result()
    assert (raised.value.code, raised.value.status) == ("EXCEEDED_MEMORY", 507)


@pytest.mark.slow
def test_a_query_that_does_not_hear_its_deadline_is_killed(service: Service) -> None:
    with pytest.raises(QueryTimeoutError):
        service.rows(f"SELECT sum(n) FROM (SELECT ({DEAF}) + x AS n FROM range(100000) t(x))", timeout_s=0.5)
    with pytest.raises(QueryTimeoutError):
        service.rows(ENDLESS, timeout_s=0.2)

    assert service.rows(LOOKUP) == [("key_1", 38)]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT])
def test_a_worker_that_ends_loses_only_its_query(number: signal.Signals, service: Service) -> None:
    with service.queries.start(QueryRequest(sql=LONG)) as other:
        first = other.take()
        with service.queries.start(QueryRequest(sql=ENDLESS)) as lost:
            pid = busy_with(service, lost)
            os.kill(pid, number)
            with pytest.raises(WorkerLostError, match=number.name) as raised:
                lost.take()
        rest = sum(batch.num_rows for batch in other.batches())

    assert (raised.value.code, raised.value.status) == ("WORKER_LOST", 500)
    assert first is not None
    assert first.num_rows + rest == 2_000_000
    wait_until(lambda: service.engine.pool.is_ready and pid not in service.pids)
    assert service.rows(LOOKUP) == [("key_1", 38)]


def busy_with(service: Service, query: Any) -> int:
    """The process id of the worker that runs a query."""
    wait_until(lambda: query._execution is not None and query._execution.has_begun)
    number: int = query._execution._worker.number
    assert number in service.pids
    return number


@pytest.mark.slow
def test_a_worker_that_dies_while_it_waits_is_replaced_and_costs_no_query(service: Service) -> None:
    service.rows("SELECT 1")
    for _ in range(5):
        killed = service.pids
        for pid in killed:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_until(partial(none_lives, killed))
        assert service.rows("SELECT 1") == [(1,)]
    wait_until(lambda: service.engine.pool.is_ready)


def test_lookups_have_workers_that_ran_nothing_else(service: Service) -> None:
    pool = service.engine.pool
    scanning = pool.take()
    pool.give_back(scanning)
    wait_until(lambda: any(not worker.nice for worker in pool._idle))
    first = pool.take(is_lookup=True)
    pool.give_back(first)
    again, scanning_again = pool.take(is_lookup=True), pool.take()
    for worker in (again, scanning_again):
        pool.give_back(worker)

    assert first is not scanning
    assert again is first
    assert scanning_again is scanning
    assert again.nice < scanning.nice


def test_what_runs_for_long_leaves_the_workers_of_others_alone(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "_IDLE_AFTER_LONG_S", PATIENCE_S)
    pool = service.engine.pool
    endless = pool.take(is_long=True)
    pool.give_back(endless)
    others = [pool.take(), pool.take(is_lookup=True)]
    endless_again = pool.take(is_long=True)
    for worker in (*others, endless_again):
        pool.give_back(worker)

    assert endless not in others
    assert endless_again is endless
    # More, where the tests run with a low priority themselves.
    assert os.getpriority(os.PRIO_PROCESS, endless.number) >= pool_module._NICE_OF_LONG


def test_a_query_of_a_user_who_took_much_goes_behind_all_others_at_once(service: Service) -> None:
    with service.queries.start(QueryRequest(sql=ENDLESS, user="greedy")) as query:
        wait_until(lambda: query.state is QueryState.RUNNING)
        query._ticket._started -= 60
    with service.queries.start(QueryRequest(sql=ENDLESS, user="greedy")) as query:
        pid = busy_with(service, query)
        execution: Any = query._execution
        priority = os.getpriority(os.PRIO_PROCESS, pid)

    assert execution.is_long
    assert priority >= pool_module._NICE_OF_LONG


def test_a_query_that_takes_much_yields_to_all_others(service: Service) -> None:
    with service.queries.start(QueryRequest(sql=ENDLESS)) as query:
        pid = busy_with(service, query)
        wait_until(lambda: os.getpriority(os.PRIO_PROCESS, pid) >= pool_module._NICE_OF_LONG)
        rows = service.rows(LOOKUP)
        query.cancel()

    assert rows == [("key_1", 38)]


@pytest.mark.slow
def test_the_fork_server_can_be_lost_without_a_query(service: Service) -> None:
    with service.queries.start(QueryRequest(sql=LONG)) as query:
        query.take()
        os.kill(service.engine.pool._forks[-1]._process.pid, signal.SIGKILL)
        service.engine.pool._forks[-1]._process.wait()
        with ThreadPoolExecutor(4) as threads:
            answers = list(
                threads.map(lambda _: service.rows("SELECT count(*) FROM range(50000000)"), range(4))
            )
        assert answers == [[(50_000_000,)]] * 4
        assert sum(batch.num_rows for batch in query.batches()) > 1_900_000


@pytest.mark.slow
def test_a_fork_server_ends_with_its_service_and_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    with closing(ForkServer(Settings(), 0)) as forks:
        forks.wait_until_ready()
        forks._control.close()
        forks._process.wait(PATIENCE_S)

    assert capfd.readouterr().err == ""


@pytest.mark.slow
def test_what_a_worker_keeps_of_decoded_states_others_use(tmp_path: Path) -> None:
    cache = StateCache(tmp_path, 1 << 30, least_bytes=0, slow_scan_s=0)
    sql = "SELECT * FROM kinds__map ORDER BY key, map_key"
    with closing(Service(connect(EVERYTHING, cache=cache)).queries) as queries:

        def asked() -> tuple[list[tuple[Any, ...]], int]:
            with queries.start(QueryRequest(sql=sql)) as query:
                return rows_of(list(query.batches())), query.progress.cache_hits

        first, hits = asked()
        # The worker keeps it behind the answer.
        wait_until(lambda: any(tmp_path.rglob("*.parquet")))
        engine: Any = queries._engines["duckdb"]
        worker = engine.pool.take()
        engine.pool.give_back(worker, is_worn=True)
        wait_until(lambda: not lives(worker.number))

        assert hits == 0
        assert asked() == (first, 1)


def test_a_cancel_leaves_the_worker_for_the_next_query(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine a worker, which yields to everything else, may need longer than it gets to react.
    monkeypatch.setattr(engine_module, "_PATIENCE_S", PATIENCE_S)
    service.rows("SELECT 1")
    for _ in range(3):
        query = service.queries.start(QueryRequest(sql=ENDLESS))
        pid = busy_with(service, query)
        time.sleep(0.1)
        query.cancel()
        with pytest.raises(QueryCancelledError):
            query.take()
        query.close()
        assert pid in service.pids


@pytest.mark.slow
def test_queries_that_are_closed_at_once_leave_the_pool_whole(service: Service) -> None:
    for _ in range(30):
        service.queries.start(QueryRequest(sql=LOOKUP)).close()
        with service.queries.start(QueryRequest(sql=LONG, max_rows=10)) as query:
            assert sum(batch.num_rows for batch in query.batches()) == 10

    wait_until(lambda: not service.engine.pool._busy)


@pytest.mark.slow
def test_a_reader_that_stalls_holds_back_its_worker(service: Service) -> None:
    with service.queries.start(QueryRequest(sql="SELECT repeat('x', 10000) FROM range(1000000)")) as query:
        query.take()
        wait_until(lambda: query.is_blocked)
        pid = busy_with(service, query)

        assert query.row_count < 20_000
        assert query.results.size_bytes <= 4 << 20
        assert resident_bytes(pid) < 400 << 20


def test_a_long_answer_comes_whole(service: Service) -> None:
    with service.queries.start(
        QueryRequest(sql="SELECT x, repeat('x', 1000) FROM range(200000) t(x)")
    ) as query:
        numbers, longest = set(), 0
        for batch in query.batches():
            numbers.update(batch.column(0).to_pylist())
            longest = max(longest, batch.nbytes)

    assert numbers == set(range(200_000))
    assert longest <= 4 << 20


def test_a_row_that_is_too_long_for_the_server_is_refused(service: Service) -> None:
    assert service.rows("SELECT length(repeat('x', 10000000))") == [(10_000_000,)]
    assert len(service.rows("SELECT repeat('x', 4000000)")[0][0]) == 4_000_000
    with pytest.raises(
        MemoryExceededError, match="expected rows of at most 5000000 bytes, found one of 60000"
    ):
        service.rows("SELECT repeat('x', 6000000)")


def test_progress_is_told_while_a_query_runs(service: Service) -> None:
    with service.queries.start(
        QueryRequest(
            sql="SELECT count(*) FROM native.aggregate a, range(100000000) t(x) WHERE a.value = x % 50"
        )
    ) as query:
        wait_until(lambda: query.progress.rows_read == 1000)

        assert query.progress.bytes_read > 0
        assert not query.state.has_ended


@pytest.mark.slow
def test_a_process_that_cannot_be_started_costs_its_query_and_leaves_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made = Service(connect(NATIVE, name="native"), temp_directory=str(tmp_path))
    with closing(made.queries):
        with monkeypatch.context() as patch:
            patch.setattr(sys, "executable", str(tmp_path / "no-python"))
            with pytest.raises(EngineUnavailableError, match="no process can be started"):
                made.rows("SELECT 1")
        assert "workers cannot be started" in caplog.text
        assert list(tmp_path.iterdir()) == []
        assert made.rows("SELECT 1") == [(1,)]

        forks = made.engine.pool._running_forks()
        forks.kill()
        forks._process.wait()
        with pytest.raises(EngineUnavailableError, match="no process can be started"):
            forks.fork()
    gc.collect()  # a socket that was left open warns, and a warning is an error


@pytest.mark.slow
def test_workers_are_looked_after_when_something_unforeseen_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def changed() -> list[str]:
        raise KeyError("NUMBA_CACHE_DIR")

    made = Service(connect(NATIVE, name="native"), temp_directory=str(tmp_path))
    with closing(made.queries):
        monkeypatch.setattr(pool_module, "_RETRY_S", 0.01)
        with monkeypatch.context() as patch:
            patch.setattr(pool_module, "missing_units", changed)
            made.engine.pool.start()
            wait_until(lambda: "workers cannot be started" in caplog.text)

        wait_until(lambda: made.engine.pool.is_ready)


@pytest.mark.slow
def test_no_process_and_no_file_is_left_when_the_service_ends(tmp_path: Path) -> None:
    made = Service(connect(NATIVE, name="native"), temp_directory=str(tmp_path), workers=3)
    query = made.queries.start(QueryRequest(sql=ENDLESS))
    wait_until(lambda: len(made.pids) >= 3)
    pids = made.pids | {made.engine.pool._forks[0]._process.pid}
    made.queries.close()

    assert query.state.has_ended
    wait_until(lambda: not any(map(lives, pids)))
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(EngineUnavailableError):
        made.engine.pool.take()


SERVER = """
import sys, time, threading
from catalog import connect
from service.query.serving.registry import Queries
from service.query.running.request import QueryRequest
from service.query.running.run import QueryState
from service.base.settings import Settings
from service.query.engines.workers import WorkerEngine
from service.query.engines.workers import engine as engine_module
from service.query.engines.workers import pool as pool_module
settings = Settings.of(workers=2, worker_memory="2GB")
engine = WorkerEngine(settings, running=8)
queries = Queries(connect(sys.argv[1]), {"duckdb": engine}, settings)
running = [queries.start(QueryRequest(sql=sql)) for sql in sys.argv[2:]]
while len(engine.pool._busy) < len(running):
    time.sleep(0.01)
time.sleep(0.5)
print(*engine.pool.processes, engine.pool._forks[0]._process.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.slow
def test_no_process_is_left_when_the_service_is_killed() -> None:
    # One that holds the interpreter's lock inside DuckDB cannot notice by itself.
    command = [sys.executable, "-c", SERVER, str(NATIVE), ENDLESS, DEAF.replace("400000000", "1900000000")]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    ) as server:
        assert server.stdout is not None
        pids = list(map(int, server.stdout.readline().split()))
        assert len(pids) >= 3
        assert all(map(lives, pids))
        server.kill()

    wait_until(lambda: not any(map(lives, pids)))


def test_workers_inherit_no_socket_of_the_server(service: Service) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.set_inheritable(True)
        made = Service(service.queries.catalog)
        with closing(made.queries):
            made.rows("SELECT 1")
            port = f"{listener.getsockname()[1]:04X}"
            inode = os.stat(f"/proc/self/fd/{listener.fileno()}").st_ino
            for pid in made.pids:
                targets = [os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir()]
                assert f"socket:[{inode}]" not in targets, port


def test_workers_are_told_apart_in_a_server_with_a_thousand_open_files(service: Service) -> None:
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 2048:
        pytest.skip("few files may be open here")
    worker = service.engine.pool.take()
    connection = worker.connection
    with socket.socket(fileno=fcntl.fcntl(connection.fileno(), fcntl.F_DUPFD, 1500)) as high:
        worker.connection = high
        lives_on = not worker.has_died
        worker.kill()
        wait_until(lambda: worker.has_died)
    worker.connection = connection
    service.engine.pool.discard(worker)

    assert lives_on


def test_workers_are_forked_from_a_process_without_pandas(service: Service) -> None:
    forks = service.engine.pool._running_forks()

    mapped = Path(f"/proc/{forks._process.pid}/maps").read_text()

    assert "/pyarrow/" in mapped
    assert "/pandas/" not in mapped


def test_only_private_memory_is_limited_so_that_savepoints_of_any_size_can_be_mapped(
    service: Service,
) -> None:
    wait_until(lambda: bool(service.pids))
    pid = next(iter(service.pids))
    wait_until(lambda: limits_of(pid)["Max data size"] != "unlimited")  # it has just been forked
    limits = limits_of(pid)

    assert limits["Max address space"] == "unlimited"
    assert 500_000_000 <= int(limits["Max data size"]) <= 1_500_000_000
    assert limits["Max core file size"] == "0"


def limits_of(pid: int) -> dict[str, str]:
    """The soft limits of a process."""
    lines = Path(f"/proc/{pid}/limits").read_text().splitlines()[1:]
    return {line[:26].strip(): line[26:].split()[0] for line in lines}


@given(st.binary(max_size=60))
def test_bytes_that_are_no_frame_close_the_channel(content: bytes) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(content)
        theirs.shutdown(socket.SHUT_WR)
        frames: list[tuple[Frame, bytearray]] = []
        with pytest.raises(ChannelClosedError):
            frames += iter(Channel(ours).receive, None)

    assert all(frame in Frame and len(found) <= len(content) for frame, found in frames)


def test_a_length_is_checked_before_it_is_believed() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"\x04\xff\xff\xff\xff")
        with pytest.raises(ChannelClosedError, match="expected a frame of at most"):
            Channel(ours).receive()


@given(st.lists(st.one_of(st.binary(max_size=40), st.integers(16_370, 16_400).map(bytes)), max_size=5))
def test_frames_arrive_as_they_were_sent(contents: list[bytes]) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, ThreadPoolExecutor(1) as sender:
        sending = sender.submit(lambda: [Channel(theirs).send(Frame.BATCH, content) for content in contents])
        channel = Channel(ours)
        found = [channel.receive() for _ in contents]
        sending.result()

        assert found == [(Frame.BATCH, bytearray(content)) for content in contents]
        assert not channel.has_unread


def test_what_stands_behind_a_frame_is_not_lost_from_sight() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        other, channel = Channel(theirs), Channel(ours)
        theirs.sendall(b"".join((b"\x07", (2).to_bytes(4), b"{}", b"\x04", (1).to_bytes(4), b"x")))

        assert channel.receive() == (Frame.END, bytearray(b"{}"))
        assert channel.has_unread
        assert channel.has_arrived(0)
        assert channel.receive() == (Frame.BATCH, bytearray(b"x"))
        assert not channel.has_unread
        assert not channel.has_arrived(0)
        other.send(Frame.END)
        assert channel.has_arrived(0)


@given(
    st.lists(st.one_of(st.none(), st.text(max_size=50), st.just("y" * 3_000_000)), min_size=1, max_size=8),
)
def test_the_small_batches_of_a_batch_are_the_batch(values: list[str | None]) -> None:
    batch = pa.RecordBatch.from_pydict({"x": pa.array(values, pa.string()), "n": list(range(len(values)))})
    found = list(small_batches(batch, 1 << 23))

    assert pa.Table.from_batches(found).equals(pa.Table.from_batches([batch]))
    assert all(piece.nbytes <= 2 << 20 or piece.num_rows == 1 for piece in found)


def test_an_error_crosses_with_all_it_says() -> None:
    for kind in (QueryTimeoutError, QueryCancelledError, ColumnNotFoundError, QueryError):
        error = kind("a", hint="b", detail="c", code="D", status=418)
        found = End.of(bytearray(End(is_worn=True, error=error).content())).error

        assert type(found) is type(error)
        assert found is not None
        assert (found.message, found.hint, found.code, found.status) == ("a", "b", "D", 418)
        assert found.detail.startswith("c")


def test_sizes_are_read_as_people_write_them() -> None:
    assert [bytes_of(size) for size in ("4GB", "512MiB", "1.5 kb", "1000", "0")] == [
        4_000_000_000,
        512 << 20,
        1500,
        1000,
        0,
    ]
    for size in ("", "GB", "-1GB", "4 apples"):
        with pytest.raises(InvalidSettingError):
            bytes_of(size)


def lives(pid: int) -> bool:
    """True if a process runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def none_lives(pids: set[int]) -> bool:
    return not any(map(lives, pids))


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("SELECT count(*) FROM {} WHERE key = 'key_662'", 1),
        ("SELECT count(*) FROM {} WHERE NOT key = 'key_662'", 999),
        ("SELECT count(*) FROM {} WHERE key = 'key_662' OR true", 1000),
        ("SELECT count(*) FROM {} WHERE key = 'key_66'", 1),
    ],
)
def test_conditions_that_a_worker_does_not_read_leave_out_no_row(
    service: Service, text: str, count: int
) -> None:
    planned = plan("SELECT count(*) FROM native.aggregate WHERE key = 'key_662'", service.queries.catalog)
    statement = ReadStatement(planned.query, text.format(f'"{planned.tables[0].name}"'))
    with closing(service.engine.execution(replace(planned, reading=statement))) as execution:
        rows = execution.open().read_all().to_pylist()

    assert [list(row.values()) for row in rows] == [[count]]
