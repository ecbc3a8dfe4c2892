"""`python -m benchmarks.cache SAVEPOINT`: queries whose states are cached, as when a dashboard runs them again.

Each query runs without a cache and with one whose entries are written, in turn. Times are the least and the median in ms; bytes
are those of the savepoint and of the cache. The savepoint is one of `make bench`.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from contextlib import ExitStack, closing
from pathlib import Path

from catalog import Catalog, connect
from catalog.cache.states import StateCache
from catalog.statetables import StatesTable
from service.base.settings import Settings
from service.query.engines.duckdb.engine import DuckDBEngine
from service.query.engines.engine import Progress
from service.query.running.request import QueryRequest
from service.query.serving.registry import Queries

RUNS = 7
TABLES = ("aggregate__count", "aggregate__account", "aggregate__perDay")
QUERIES = (
    "SELECT count(*) FROM aggregate__count",
    "SELECT count(*) FROM aggregate__perDay",
    "SELECT _key_group, count(*) FROM aggregate__count GROUP BY 1",
    "SELECT count(*), sum(value) FROM aggregate__count",
    "SELECT map_key, sum(value) FROM aggregate__perDay GROUP BY map_key",
    "SELECT avg(value.balance) FROM aggregate__account WHERE value.id < 1000",
    "SELECT value FROM aggregate__count WHERE key = 'key_662'",
    "SELECT value FROM aggregate__count JOIN (VALUES ('key_1'), ('key_662')) AS k(key) USING (key)",
)


def main() -> int:
    """Write the entries, run every query with and without them in turn, print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cache", description=__doc__)
    parser.add_argument("savepoint", type=Path)
    savepoint = parser.parse_args().savepoint
    with tempfile.TemporaryDirectory(prefix="savepointdb-bench-") as folder, ExitStack() as stack:
        cached = connect(savepoint, cache=StateCache(folder, 100 << 30))
        print("| entry | seconds | MB |\n|---|---|---|")
        for name in TABLES:
            _write(cached, name)
        asks = [stack.enter_context(closing(_queries(one))) for one in (connect(savepoint), cached)]
        print("\n| query | savepoint | bytes | cache | bytes |\n|---|---|---|---|---|")
        for sql in QUERIES:
            sides = [_times(sides_of) for sides_of in _by_turns(sql, asks)]
            print(f"| `{sql}` | {' | '.join(sides)} |", flush=True)
    return 0


def _write(cached: Catalog, name: str) -> None:
    table = cached.table(name)
    assert isinstance(table, StatesTable)
    assert cached.cache is not None
    started = time.perf_counter()
    path = cached.cache.write(table.reference(table.states[0]))
    size = path.stat().st_size / 1e6 if path else 0
    print(f"| {name} | {time.perf_counter() - started:.1f} | {size:,.0f} |", flush=True)


def _queries(connected: Catalog) -> Queries:
    settings = Settings()
    return Queries(connected, {"duckdb": DuckDBEngine(settings)}, settings)


def _by_turns(sql: str, asks: list[Queries]) -> list[tuple[list[float], int]]:
    """Return (seconds of each run, bytes) of each side, without the side's first run."""
    found: list[tuple[list[float], int]] = [([], 0) for _ in asks]
    for _ in range(RUNS + 1):
        for side, queries in enumerate(asks):
            started = time.perf_counter()
            progress = _answered(queries, sql)
            seconds = [*found[side][0], time.perf_counter() - started]
            found[side] = seconds, progress.bytes_read + progress.bytes_cached
    return [(seconds[1:], size) for seconds, size in found]


def _answered(queries: Queries, sql: str) -> Progress:
    with queries.start(QueryRequest(sql=sql)) as query:
        for _ in query.batches():
            pass
    return query.progress


def _times(side: tuple[list[float], int]) -> str:
    seconds, size_bytes = side
    return f"{min(seconds) * 1e3:,.1f} / {statistics.median(seconds) * 1e3:,.1f} | {size_bytes:,}"


if __name__ == "__main__":
    raise SystemExit(main())
