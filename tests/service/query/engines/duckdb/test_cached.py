"""Tables that DuckDB reads from the cache itself: the answers are those of the savepoint, also when the cache is damaged or evicted."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from catalog import Catalog, connect, statetables
from catalog.cache.states import StateCache
from catalog.scan import ANYTHING
from catalog.statetables import StateTable
from readers.errors import ReaderError
from readers.jsontext import json_text
from service.base.errors import EngineError, QueryError
from service.base.settings import Settings
from service.query.engines.duckdb.cached import OpenCacheFile
from service.query.engines.duckdb.engine import DuckDBEngine
from service.query.engines.engine import Progress
from service.query.engines.workers.channel import plan_of, task_content
from service.query.sql.planner import plan
from tests.support.expected import Snapshot
from tests.support.lookups import Lookups
from tests.support.paths import DATA
from tests.support.snapshots import COPIED

FLINK = DATA / "flink"
SAMPLE = FLINK / "2.3.0" / "wordcount-rocksdb-savepoints" / "native"
SNAPSHOTS = [snapshot for snapshot in COPIED if snapshot.directory.is_relative_to(FLINK / "2.3.0")]
ROOT = "savepointdb-cache://"

ALL_ROWS = "SELECT * FROM {t} WHERE _subtask >= 0"
STATEMENTS = (
    "SELECT count(*) FROM {t}",
    "SELECT t FROM {t} t",
    "SELECT _key_group, count(*), min(_subtask), count(DISTINCT key) FROM {t} GROUP BY ALL ORDER BY ALL",
    "SELECT * FROM {t} a WHERE EXISTS (FROM {t} b WHERE a.key = b.key AND a._key_group = b._key_group)",
    "SELECT key, _key_group FROM {t} ORDER BY hash(key), _key_group LIMIT 7",
    "SELECT DISTINCT typeof(COLUMNS(*)) FROM {t}",
    "SELECT count(COLUMNS(*)), max(hash(COLUMNS(*))), bit_xor(hash(t)) FROM {t} t",
    "DESCRIBE {t}",
    "EXPLAIN SELECT count(*) FROM {t}",
    "SELECT filename FROM {t}",
    "SELECT file_row_number FROM {t}",
    "SELECT CAST('n' || _key_group * 0 AS INTEGER) FROM {t}",
)


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[StateCache]:
    made = StateCache(tmp_path / "cache", 1 << 30, least_bytes=0)
    yield made
    made.close()


@pytest.fixture
def engine() -> Iterator[DuckDBEngine]:
    made = DuckDBEngine(Settings.of(threads=1))
    yield made
    made.close()


def written(cache: StateCache, connected: Catalog, some: slice = slice(None)) -> list[str]:
    """Make entries of all states that can have one, or of some; return the names of their tables."""
    names = []
    tables = [connected.table(name) for name in (connected.default.tables if connected.default else ())]
    for table in [table for table in tables if isinstance(table, StateTable)][some]:
        with contextlib.suppress(ReaderError):
            if cache.write(table.reference(table.states[0])) and table.plan().cached is not None:
                names.append(table.name)
    return names


def asked(engine: DuckDBEngine, connected: Catalog, sql: str) -> tuple[Any, Progress]:
    """Return columns and rows, or the error, and the progress."""
    execution = engine.execution(plan(sql, connected))
    try:
        reader = execution.open()
        found = pa.Table.from_batches(list(reader), reader.schema)
        texts = [json_text(column.combine_chunks()).to_pylist() for column in found.columns]
        return (execution.columns, sorted(zip(*texts, strict=True), key=repr)), execution.progress
    except QueryError as error:
        return (type(error), str(error), error.hint, error.position), execution.progress
    finally:
        execution.close()


@pytest.mark.slow
@pytest.mark.parametrize("snapshot", SNAPSHOTS, ids=lambda snapshot: snapshot.name)
def test_every_statement_has_the_same_answer_from_the_cache(
    snapshot: Snapshot, cache: StateCache, engine: DuckDBEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Else keys are looked up in the savepoint.
    monkeypatch.setattr(statetables, "_WALKED_BYTES", -1)
    plain, connected = connect(snapshot.directory), connect(snapshot.directory, cache=cache)
    # The savepoints of the job with many states have the same states: each is asked for others.
    some = slice(SNAPSHOTS.index(snapshot) % 4, None, 4) if "everything" in snapshot.name else slice(None)
    texts, names, read_by_duckdb = cycle(STATEMENTS), written(cache, connected, some), 0

    for name in names:
        quoted = f'"{name}"'
        chosen = (ALL_ROWS, *islice(texts, max(1, len(STATEMENTS) // len(names))))
        statements = [text.replace("{t}", quoted) for text in chosen]
        with duckdb.connect() as rows:
            rows.register(name, plain.table(name).plan(ANYTHING).to_arrow())
            made = Lookups(len(name), rows, quoted)
            statements += [made.statement() for _ in range(max(1, 4 // len(names)))]
        for sql in statements:
            expected, without = asked(engine, plain, sql)
            found, progress = asked(engine, connected, sql)
            assert found == expected, sql
            assert progress.bytes_read == 0 or "EXPLAIN" in sql
            read_by_duckdb += progress.bytes_cached > 0
            if sql == statements[0]:
                assert (progress.rows_read, progress.cache_hits) == (without.rows_read, 1)

    assert read_by_duckdb > 8


@pytest.fixture
def counted(cache: StateCache) -> Catalog:
    """The sample, with an entry for the counts."""
    connected = connect(SAMPLE, cache=cache)
    assert "aggregate__count" in written(cache, connected)
    return connected


SUM = "SELECT count(*), sum(value) FROM aggregate__count"


def rows_of(engine: DuckDBEngine, connected: Catalog, sql: str = SUM) -> tuple[Any, Progress]:
    execution = engine.execution(plan(sql, connected))
    try:
        found = [tuple(row.values()) for batch in execution.open() for row in batch.to_pylist()]
    finally:
        execution.close()
    return found, execution.progress


def file_of(connected: Catalog) -> Path:
    cached = connected.table("aggregate__count").plan().cached
    assert cached is not None
    return cached.path


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4 : len(content) // 2] = bytes(len(content) // 2 - 4)
    path.write_bytes(content)


def replace(path: Path) -> None:
    """Put a file of other rows in its place, in one step."""
    other = path.with_name("other")
    with duckdb.connect() as rows:
        rows.execute(
            f"COPY (SELECT * REPLACE (value + 1 AS value) FROM '{path}') TO '{other}' (FORMAT parquet)"
        )
    other.rename(path)


CHANGES: list[Any] = [
    replace,
    *(pytest.param(one, marks=pytest.mark.slow) for one in (truncate, damage, Path.unlink)),
]


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_changed_after_the_plan_is_not_read(
    counted: Catalog, engine: DuckDBEngine, change: Callable[[Path], None]
) -> None:
    expected, cached = rows_of(engine, counted)
    assert (cached.bytes_read, cached.rows_read) == (0, expected[0][0])
    planned = plan(SUM, counted)
    assert planned.tables[0].scan.cached is not None

    change(file_of(counted))
    execution = engine.execution(planned)
    found = [tuple(row.values()) for batch in execution.open() for row in batch.to_pylist()]
    execution.close()

    assert found == expected
    assert execution.progress.bytes_read > 0
    again, _ = rows_of(engine, counted)
    assert again == expected


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_changes_while_it_is_read_gives_the_right_rows(
    counted: Catalog, engine: DuckDBEngine, change: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, _ = rows_of(engine, connect(SAMPLE))
    path, read, reads = file_of(counted), OpenCacheFile.read, []

    def changing(file: OpenCacheFile, start: int, size_bytes: int) -> bytes:
        reads.append(start)
        if len(reads) == 3:
            change(path)
        return read(file, start, size_bytes)

    monkeypatch.setattr(OpenCacheFile, "read", changing)
    found, _ = rows_of(engine, counted)

    assert len(reads) >= 3
    assert found == expected


@pytest.mark.slow
def test_rows_that_were_given_before_a_file_changed_end_with_an_error(
    counted: Catalog, engine: DuckDBEngine
) -> None:
    path = file_of(counted)
    execution = engine.execution(plan("SELECT key, value + 1 AS more FROM aggregate__count", counted))
    reader = execution.open()
    assert reader.read_next_batch().num_rows

    os.utime(path, ns=(1, 1))

    with pytest.raises(EngineError, match="a file of the cache of decoded states changed while it was read"):
        list(reader)
    execution.close()


@pytest.mark.slow
def test_an_entry_that_is_evicted_stays_readable_and_is_closed_with_its_statement(
    counted: Catalog, engine: DuckDBEngine
) -> None:
    path = file_of(counted)
    execution = engine.execution(plan("SELECT key, value + 1 AS more FROM aggregate__count", counted))
    reader = execution.open()

    path.unlink()

    assert (
        sum(batch.num_rows for batch in reader)
        == counted.table("aggregate__count").scan().to_arrow().num_rows
    )
    execution.close()
    assert not any(str(path) in link for link in open_files())


def open_files() -> list[str]:
    """What this process has open."""
    found = []
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    return found


def test_the_file_of_a_plan_travels_with_it(counted: Catalog, engine: DuckDBEngine) -> None:
    rows_of(engine, counted)  # the first time DuckDB reads the end of the file once more
    travelled = plan_of(task_content(plan(SUM, counted)))

    assert travelled.tables[0].scan.cached is not None
    assert travelled.tables[0].scan.cached.path == file_of(counted)
    execution = engine.execution(travelled)
    assert [row for batch in execution.open() for row in batch.to_pylist()]
    execution.close()
    assert execution.progress == rows_of(engine, counted)[1]


@pytest.mark.slow
def test_a_session_that_waits_reads_the_entry_that_is_there_now(
    cache: StateCache, engine: DuckDBEngine, tmp_path: Path
) -> None:
    shutil.copytree(SAMPLE, tmp_path / "savepoint")
    connected = connect(tmp_path / "savepoint", cache=cache)
    written(cache, connected)
    first, _ = rows_of(engine, connected)
    path = file_of(connected)

    path.unlink()
    without, reading = rows_of(engine, connected)
    written(cache, connected)
    again, cached = rows_of(engine, connected)

    assert first == without == again
    assert reading.bytes_read > 0
    assert (cached.bytes_read, cached.cache_hits) == (0, 1)


def test_no_statement_names_a_file_of_the_cache(counted: Catalog, engine: DuckDBEngine) -> None:
    rows_of(engine, counted)
    path = file_of(counted)

    for sql in (
        "SELECT * FROM read_parquet('savepointdb-cache://*')",
        f"SELECT * FROM parquet_scan('{path}')",
        f"SELECT * FROM '{path}'",
        'SELECT * FROM "savepointdb-cache://1"',
        "SELECT * FROM glob('savepointdb-cache://*')",
        "SELECT sql FROM duckdb_views()",
        "SELECT current_setting('allowed_directories')",
        "COPY (SELECT 1) TO 'savepointdb-cache://1'",
        f"SELECT content FROM read_text('{path}')",
        "SUMMARIZE (FROM read_parquet('savepointdb-cache://*'))",
    ):
        with pytest.raises(QueryError) as caught:
            rows_of(engine, counted, sql)
        assert caught.value.status in (400, 403, 404), sql


def test_the_database_itself_opens_no_file_but_those_of_running_statements(
    counted: Catalog, engine: DuckDBEngine
) -> None:
    rows_of(engine, counted)
    path = file_of(counted)

    for name in (str(path), f"{ROOT}{'0' * 32}", f"{ROOT}../{path}", f"{ROOT}*"):
        for sql in (f"FROM read_parquet('{name}')", f"COPY (SELECT 1) TO '{name}' (FORMAT parquet)"):
            with engine._connection() as connection, pytest.raises(duckdb.Error):
                connection.execute(sql).fetchall()
    assert path.exists()
