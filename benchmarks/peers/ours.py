"""`python -m benchmarks.peers.ours`: one question to savepointdb, in a process of its own; prints its times as JSON.

| figure | from … to the last row |
|---|---|
| first_s | starting the engine and opening the savepoint, in a process that has answered nothing yet; compiled code is loaded, too |
| seconds | opening the savepoint anew, with the engine up: as a peer with its cluster up; median |
| warm_s | the statement, with the savepoint open; median. For `again`, with the state in the cache of decoded states |
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb

import catalog
from benchmarks.peers.questions import QUESTIONS, STATES
from catalog import Catalog
from catalog.cache.states import StateCache
from catalog.references import open_savepoint
from service.base.machine import keep_little
from service.base.settings import Settings
from service.query.encode import FORMATS
from service.query.engines.duckdb.engine import DuckDBEngine
from service.query.running.request import QueryRequest
from service.query.serving.registry import Queries
from service.query.serving.starts import IDLE_S

_LEAST_RUNS = 3
_MOST_RUNS = 21
_ENOUGH_S = 3.0
# The first query of an installation compiles.
_TIMEOUT_S = 600.0
_CACHE_BYTES = 4 << 30


def main() -> int:
    """Ask the question and print its times."""
    keep_little()
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers.ours", description=__doc__)
    parser.add_argument("--question", required=True, choices=QUESTIONS)
    parser.add_argument("--output", required=True, type=Path, help="a folder for Parquet files")
    parser.add_argument("savepoint", type=Path)
    arguments = parser.parse_args()
    ask = _Asked(arguments.savepoint, arguments.question, arguments.output)
    json.dump(ask.figures(), sys.stdout)
    return 0


class _Asked:
    def __init__(self, savepoint: Path, question: str, output: Path) -> None:
        self._savepoint = savepoint
        self._question = question
        self._output = output
        self._bytes_read = 0
        self._answer: Any = None

    def figures(self) -> dict[str, Any]:
        """Return all measurements."""
        started = time.perf_counter()
        settings = Settings.of(max_timeout_s=_TIMEOUT_S)
        with closing(Queries(Catalog(), {"duckdb": DuckDBEngine(settings)}, settings, IDLE_S)) as queries:
            self._opened_and_asked(queries)
            first_s = time.perf_counter() - started
            # Everything to Parquet takes seconds: in these, only the loading happens for the first time.
            is_long = self._question == "parquet"
            opened = [first_s] if is_long else _repeated(lambda: self._opened_and_asked(queries))
            if self._question == "again":
                self._fill_cache(queries)
            warm = [first_s] if is_long else _repeated(lambda: self._ask(queries))
            figures = {
                "first_s": first_s,
                "seconds": statistics.median(opened),
                "warm_s": statistics.median(warm),
                "bytes_read": self._bytes_read,
                "answer": self._answer,
            }
            if self._question == "again":
                figures["limit_s"] = self._over_parquet(queries)
        return figures

    def _opened_and_asked(self, queries: Queries) -> None:
        open_savepoint.cache_clear()
        queries.catalog = catalog.connect(self._savepoint)
        self._ask(queries)

    def _fill_cache(self, queries: Queries) -> None:
        """Ask until the state is worth a cache entry, and wait for the entry."""
        cache = StateCache(self._output / "cache", _CACHE_BYTES)
        queries.catalog = catalog.connect(self._savepoint, cache=cache)
        for _ in range(2):
            self._ask(queries)
        cache.flush()

    def _ask(self, queries: Queries) -> None:
        if self._question == "parquet":
            self._bytes_read = sum(self._export(queries, state) for state in STATES)
            return
        with queries.start(QueryRequest(sql=QUESTIONS[self._question].sql, timeout_s=_TIMEOUT_S)) as query:
            rows = [list(map(_plain, row.values())) for batch in query.batches() for row in batch.to_pylist()]
            self._bytes_read = query.progress.bytes_read
        self._answer = _SHAPES.get(self._question, list)(rows)

    def _export(self, queries: Queries, state: str) -> int:
        """Write a state to a file; return the bytes that were read."""
        self._output.mkdir(parents=True, exist_ok=True)
        with (
            queries.start(
                QueryRequest(sql=f"SELECT * FROM aggregate__{state}", timeout_s=_TIMEOUT_S)
            ) as query,
            (self._output / f"{state}.parquet").open("wb") as file,
        ):
            for chunk in FORMATS["parquet"].write(query.columns, query.schema, query.batches()):
                file.write(chunk)
            return query.progress.bytes_read

    def _over_parquet(self, queries: Queries) -> float:
        """Return DuckDB's time for the same statement over a Parquet file of the same rows."""
        self._export(queries, "count")
        sql = f"SELECT count(*), sum(value) FROM '{self._output / 'count.parquet'}'"
        with closing(duckdb.connect()) as connection:
            return statistics.median(_repeated(lambda: connection.execute(sql).fetchall()))


def _repeated(run: Callable[[], object]) -> list[float]:
    """Return the seconds of several runs; fewer runs if they are long."""
    seconds: list[float] = []
    while len(seconds) < _LEAST_RUNS or (len(seconds) < _MOST_RUNS and sum(seconds) < _ENOUGH_S):
        seconds.append(_seconds(run))
    return seconds


def _seconds(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def _plain(value: Any) -> Any:
    """Return a value for JSON; sums of 64-bit numbers are decimals."""
    return int(value) if isinstance(value, Decimal) else value


def _only_row(rows: Sequence[list[Any]]) -> Any:
    return rows[0]


def _only_value(rows: Sequence[list[Any]]) -> Any:
    return rows[0][0]


def _first_column(rows: Sequence[list[Any]]) -> Any:
    return [row[0] for row in rows]


_SHAPES: dict[str, Callable[[Sequence[list[Any]]], Any]] = {
    "count": _only_row,
    "again": _only_row,
    "key": _only_value,
    "metadata": _first_column,
}


if __name__ == "__main__":
    raise SystemExit(main())
