"""Statements that a scan answers: the same columns and rows as DuckDB's, in this process and in workers."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog import Catalog, Database, connect
from catalog.catalog import Root
from service.base.errors import EngineRefusesError, QueryError
from service.base.principal import ANYBODY
from service.base.settings import Settings
from service.query.encode import json_rows
from service.query.engines.registry import open_engines
from service.query.engines.workers import WorkerEngine
from service.query.running.request import QueryRequest
from service.query.running.run import QueryState
from service.query.serving.registry import Queries
from service.query.sql.text import quoted
from tests.support.paths import DATA
from tests.support.thorough import thorough
from tests.support.waiting import wait_until

FLINK = DATA / "flink" / "2.3.0"
SAVEPOINTS = {
    "native": FLINK / "wordcount-rocksdb-savepoints" / "native",
    "canonical": FLINK / "wordcount-rocksdb-savepoints" / "canonical",
    "types": FLINK / "types-hashmap-savepoints" / "canonical",
    "kinds": FLINK / "kinds-hashmap-savepoints" / "canonical",
    "everything": FLINK / "everything-rocksdb-savepoints" / "native",
    "keys": DATA / "corpus/1.20.3/allstates-hashmap-compressed/canonical",
}
LOOKUP = "SELECT value FROM aggregate WHERE key = 'key_662'"


def queries_over(catalog: Catalog) -> Queries:
    limits = Settings()
    return Queries(catalog, open_engines(limits), limits)


def answer(queries: Queries, sql: str, **request: Any) -> tuple[Any, ...]:
    """The columns, the schema and the rows of an answer, rows in any order; the engine last."""
    with queries.start(QueryRequest(sql=sql, **request)) as query:
        columns, schema = query.columns, query.schema.remove_metadata()
        rows = [row for batch in query.batches() for row in json_rows(columns, batch)]
    return columns, schema, sorted(rows), query.engine


def keyed_tables(database: Database) -> Iterator[tuple[str, pa.Schema, list[Any]]]:
    """The tables with keys of texts or numbers: name, columns, some keys."""
    for name in database.tables:
        table = database.table(name)
        if "key" not in table.schema.names:
            continue
        kind = table.schema.field("key").type
        if not (pa.types.is_string(kind) or pa.types.is_signed_integer(kind)):
            continue
        keys = table.scan(["key"]).to_arrow().column("key").drop_null()
        yield name, table.schema, sorted(set(keys.to_pylist()))


def constant(value: Any) -> str:
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"


@pytest.mark.parametrize("name", thorough(SAVEPOINTS, ["types"]))
def test_the_rows_of_a_key_are_those_of_duckdb_in_every_table(name: str) -> None:
    scanned = 0
    with closing(queries_over(connect(SAVEPOINTS[name], name=name))) as queries:
        for table, _, keys in keyed_tables(queries.catalog.database(name)):
            shown = [*keys[:2], *keys[-1:], "no such key" if isinstance([*keys, ""][0], str) else 5_000_001]
            sql = f"SELECT * FROM {quoted(table)} WHERE key IN ({', '.join(map(constant, shown))})"
            *found, engine = answer(queries, sql)
            *expected, _ = answer(queries, sql, engine="duckdb")

            assert (table, found) == (table, expected)
            scanned += engine == "scan"
    assert scanned


@pytest.fixture(scope="module")
def types() -> Iterator[Queries]:
    with closing(queries_over(connect(SAVEPOINTS["types"], name="types"))) as queries:
        yield queries


@pytest.fixture(scope="module")
def tables(types: Queries) -> list[tuple[str, pa.Schema, list[Any]]]:
    return [known for known in keyed_tables(types.catalog.database("types")) if known[2]]


@given(data=st.data())
@settings(max_examples=40)
def test_random_conditions_keep_the_rows_that_duckdb_keeps(
    types: Queries, tables: list[tuple[str, pa.Schema, list[Any]]], data: st.DataObject
) -> None:
    table, schema, keys = data.draw(st.sampled_from(tables))
    plain = [
        name
        for name in schema.names
        if pa.types.is_string(schema.field(name).type) or pa.types.is_signed_integer(schema.field(name).type)
    ]
    chosen = data.draw(st.lists(st.sampled_from(keys), min_size=1, max_size=3))
    conditions = [f"key IN ({', '.join(map(constant, chosen))})"]
    for name in data.draw(st.lists(st.sampled_from(plain), max_size=2)):
        is_text = pa.types.is_string(schema.field(name).type)
        value = data.draw(st.sampled_from(keys) if is_text else st.integers(-200, 200))
        sign = data.draw(st.sampled_from(["=", "<>"] if is_text else ["=", "<>", "!=", "<", "<=", ">", ">="]))
        conditions.append(f"{quoted(name)} {sign} {constant(value if is_text else int(value))}")
    columns = data.draw(st.lists(st.sampled_from(schema.names).map(quoted), min_size=1, max_size=3))
    sql = f"SELECT {', '.join(columns)} FROM {quoted(table)} WHERE {' AND '.join(conditions)}"

    assert answer(types, sql)[:-1] == answer(types, sql, engine="duckdb")[:-1]


def test_an_answer_says_that_no_engine_was_needed(types: Queries) -> None:
    with closing(queries_over(connect(SAVEPOINTS["native"], name="native"))) as queries:
        with queries.start(QueryRequest(sql=LOOKUP)) as query:
            assert [batch.to_pylist() for batch in query.batches()] == [[{"value": 11290}]]
        with queries.start(QueryRequest(sql=LOOKUP, engine="duckdb")) as other:
            list(other.batches())
        with pytest.raises(EngineRefusesError, match="expected columns and conditions of one table"):
            list(queries.start(QueryRequest(sql="SELECT 1", engine="scan")).batches())

    assert (query.engine, query.engine_reason) == (
        "scan",
        "it looks up keys of one table, so it needs no engine",
    )
    assert (other.engine, other.engine_reason) == ("duckdb", "the request names it")
    assert query.progress == other.progress


def test_a_limit_ends_the_scan() -> None:
    sql = "SELECT key FROM aggregate WHERE key IN ('key_662', 'key_1', 'key_2') LIMIT"
    with closing(queries_over(connect(SAVEPOINTS["native"], name="native"))) as queries:
        assert [len(answer(queries, f"{sql} {limit}")[2]) for limit in (0, 1, 2, 9)] == [0, 1, 2, 3]
        with queries.start(QueryRequest(sql=f"{sql} 9", max_rows=2)) as query:
            assert sum(batch.num_rows for batch in query.batches()) == 2

    assert query.truncated


class Service:
    """Queries of workers over a savepoint."""

    def __init__(self, path: Path) -> None:
        limits = Settings.of(worker_memory="500MB", workers=1)
        self.engine = WorkerEngine(limits, running=8)
        catalog = Catalog([Root(path=str(path), label="one")])
        self.queries = Queries(catalog, open_engines(limits, self.engine), limits)


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    made = Service(SAVEPOINTS["native"])
    with closing(made.queries):
        yield made


def stopped_workers(service: Service) -> set[int]:
    """Stop all workers, also those that the pool has begun to start, and return their process ids."""
    answer(service.queries, LOOKUP)
    pool = service.engine.pool
    stopped: set[int] = set()

    def are_all_stopped() -> bool:
        # A worker that is being started is missing until it is among the processes.
        with pool._lock:
            is_whole = pool._missing <= 0
        running = set(pool.processes) - stopped
        for number in running:
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGSTOP)
        stopped.update(running)
        return is_whole and not running

    wait_until(are_all_stopped)
    return stopped


def wake(service: Service, stopped: set[int]) -> None:
    """Let those of the workers go on that the pool has still: it ends one whose query is late or cancelled."""
    for number in stopped & set(service.engine.pool.processes):
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGCONT)


@pytest.mark.slow
def test_workers_read_the_same_rows(service: Service) -> None:
    sql = "SELECT * FROM aggregate WHERE key IN ('key_662', 'key_1', 'none')"
    *found, engine = answer(service.queries, sql)

    assert (found, engine) == (list(answer(service.queries, sql, engine="duckdb")[:-1]), "scan")
    assert answer(service.queries, sql, engine="scan")[2] == found[2]


@pytest.mark.slow
def test_a_process_that_dies_costs_no_other_query(service: Service) -> None:
    stopped = stopped_workers(service)
    with service.queries.start(QueryRequest(sql=LOOKUP)) as lost:
        for number in stopped & set(service.engine.pool.processes):
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        with pytest.raises(QueryError) as raised:
            list(lost.batches())

    # The pool notices a moment later that those have died which waited.
    wait_until(lambda: not stopped & set(service.engine.pool.processes))
    assert raised.value.code == "WORKER_LOST"
    assert answer(service.queries, LOOKUP)[2] == ["[11290]"]


@pytest.mark.slow
def test_a_late_lookup_ends_with_its_process(service: Service) -> None:
    stopped = stopped_workers(service)
    late = service.queries.start(QueryRequest(sql=LOOKUP, timeout_s=600))
    wait_until(lambda: service.engine.pool._busy)
    late.check(time.monotonic() + 601)
    with late, pytest.raises(QueryError) as raised:
        list(late.batches())
    wake(service, stopped)

    assert raised.value.code == "EXCEEDED_TIME_LIMIT"
    assert len(stopped - set(service.engine.pool.processes)) == 1
    assert answer(service.queries, LOOKUP)[2] == ["[11290]"]


@pytest.mark.slow
def test_a_lookup_that_takes_long_does_not_keep_who_starts_it(service: Service) -> None:
    stopped = stopped_workers(service)
    with service.queries.start(QueryRequest(sql=LOOKUP)) as query:
        state, is_ready = query.state, query.is_ready
        wake(service, stopped)
        rows = [str(row) for batch in query.batches() for row in batch.to_pylist()]

    assert (state, is_ready) == (QueryState.RUNNING, False)
    assert rows == ["{'value': 11290}"]
    assert query.state is QueryState.FINISHED


@pytest.mark.slow
def test_lookups_that_are_cancelled_leave_their_places(service: Service) -> None:
    places = service.engine._places._value
    for _ in range(places + 1):
        stopped = stopped_workers(service)
        query = service.queries.start(QueryRequest(sql=LOOKUP))
        query.cancel()
        wake(service, stopped)
        with query, pytest.raises(QueryError) as raised:
            list(query.batches())

        assert (raised.value.code, query.state) == ("CANCELLED", QueryState.CANCELLED)

    assert service.engine._places._value == places
    assert answer(service.queries, LOOKUP)[2] == ["[11290]"]


@pytest.mark.slow
def test_lookups_of_many_threads_are_kept_and_counted_as_ever(service: Service) -> None:
    ended: list[tuple[str, QueryState, int]] = []
    service.queries.add_observer(lambda query: ended.append((query.id, query.state, query.row_count)))

    def look_up(number: int) -> str:
        with service.queries.start(QueryRequest(sql=LOOKUP, max_rows=number % 2)) as query:
            assert sum(batch.num_rows for batch in query.batches()) == number % 2
            assert query.truncated is not bool(number % 2)
        return query.id

    with ThreadPoolExecutor(16) as threads:
        numbers = list(threads.map(look_up, range(200)))
    records = {record.id: record for record in service.queries.records(ANYBODY)}

    assert sorted(ended) == sorted(
        (query, QueryState.FINISHED, number % 2) for number, query in enumerate(numbers)
    )
    assert {records[query].state for query in numbers if query in records} == {QueryState.FINISHED}
    assert service.engine._places._value > 0
    assert service.queries.open_states() == []


@pytest.mark.slow
def test_a_damaged_file_fails_as_ever(tmp_path: Path) -> None:
    shutil.copytree(FLINK / "wordcount-rocksdb-checkpoint-incremental" / "checkpoint", tmp_path / "s")
    damaged = list((tmp_path / "s" / "shared").iterdir())
    for file in damaged:
        content = file.read_bytes()
        file.write_bytes(content[: len(content) // 3])
    made = Service(tmp_path / "s" / "chk-2")
    with closing(made.queries):
        failures = []
        for engine in ("auto", "duckdb"):
            with pytest.raises(QueryError) as raised:
                answer(made.queries, LOOKUP, engine=engine)
            failures.append((type(raised.value), raised.value.code, raised.value.message))

    assert damaged
    assert failures[0] == failures[1]
