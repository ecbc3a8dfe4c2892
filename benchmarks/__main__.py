"""`make bench`: scans, lookups and peak memory on savepoints of two million keys, canonical and native, written for the purpose.

Each measurement is a process of its own, so its peak memory is its own, and its first query finds nothing warm except the page
cache. Times are medians (least – most) of the runs within; `MB/s` are of the bytes of the whole savepoint.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path

import catalog
import savepointdb
from benchmarks.growthsources import CHANGED_KEYS, write_edited
from catalog.masks.masks import Masks
from catalog.references import open_savepoint
from readers.formats.source import Selection
from readers.savepoint import Savepoint
from service.base.machine import keep_little
from service.base.settings import Settings
from service.query.encode import FORMATS
from service.query.engines.duckdb.engine import DuckDBEngine
from service.query.running.request import QueryRequest
from service.query.serving.registry import Queries
from tools.synthetic.rocksdb import FLINK, write_native_savepoint, write_next_checkpoint
from tools.synthetic.savepoints import STATES, write_savepoint

RUNS = 5
LOOKUP_RUNS = 50
EXPORT_RUNS = 2
_CHECKPOINTS = 10


def main() -> int:
    """Write the savepoint if need be, run every measurement, print the report."""
    keep_little()
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--keys", type=int, default=2_000_000, help="keys of the savepoint (default: 2000000)"
    )
    parser.add_argument(
        "--directory", type=Path, help="a folder to keep it in for the next run (default: none)"
    )
    parser.add_argument(
        "--native",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="measure a native RocksDB savepoint, too",
    )
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(asdict(_measure(arguments.measure, arguments.directory))))
        return 0
    directory = arguments.directory or Path(tempfile.mkdtemp(prefix="savepointdb-bench-"))
    try:
        for layout, write in WRITERS.items():
            if layout == "native" and not arguments.native:
                continue
            savepoint = directory / f"{layout}-{arguments.keys}"
            if not savepoint.exists():
                write(savepoint, arguments.keys)
            if layout in CHANGERS and not _changed(savepoint).exists():
                keys = range(0, arguments.keys, max(1, arguments.keys // CHANGED_KEYS))
                CHANGERS[layout](savepoint, _changed(savepoint), keys)
            _report(layout, savepoint, arguments.keys)
    finally:
        if arguments.directory is None:
            shutil.rmtree(directory)
    return 0


def _changed(savepoint: Path) -> Path:
    """Return the place of the savepoint that a job makes later."""
    return savepoint.with_name(f"{savepoint.name}-changed")


def _report(layout: str, savepoint: Path, keys: int) -> None:
    size = sum(file.stat().st_size for file in savepoint.iterdir())
    print(
        f"\n{keys:,} keys, four states, {size / 1e6:,.0f} MB {layout}; {os.cpu_count()} cores, {platform.machine()}, ",
        end="",
    )
    print(f"Python {platform.python_version()}\n")
    print("| what | median (least – most) | rows/s | MB/s | peak memory |")
    print("|---|---|---|---|---|")
    _in_process("SQL: count and sum of `count`", savepoint)  # compiles, if that has to be
    names = [*MEASUREMENTS, *(DIFFERENCES if _changed(savepoint).exists() else ())]
    for name in names:
        found = _in_process(name, savepoint)
        seconds = statistics.median(found.seconds)
        spread = f"{_time(seconds)} ({_time(min(found.seconds))} – {_time(max(found.seconds))})"
        rate = f"{found.rows / seconds / 1e6:,.1f} M" if found.rows > 1 else ""
        speed = f"{size / seconds / 1e6:,.0f}" if found.whole else ""
        print(f"| {name} | {spread} | {rate} | {speed} | {found.peak_mib:,.0f} MiB |", flush=True)
    base = [_seconds_of([sys.executable, "-c", "import pyarrow, duckdb"]) for _ in range(RUNS)]
    print(f"| a process that imports pyarrow and duckdb | {_time(statistics.median(base))} ", end="")
    print(f"({_time(min(base))} – {_time(max(base))}) | | | |", flush=True)
    for name, (sql, asked) in PROCESSES.items():
        runs = [_whole_process(sql, asked or savepoint) for _ in range(RUNS)]
        print(f"| `savepointdb query`, whole process: {name} | {_time(statistics.median(runs))} ", end="")
        print(f"({_time(min(runs))} – {_time(max(runs))}) | | | |", flush=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The result of a measurement: seconds of each run, rows of one, whether all files were read, peak memory."""

    seconds: list[float]
    rows: int
    whole: bool
    peak_mib: float


def _in_process(name: str, savepoint: Path) -> Measured:
    command = [sys.executable, "-m", "benchmarks", "--measure", name, "--directory", str(savepoint)]
    return Measured(**json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def _whole_process(sql: str, savepoint: Path) -> float:
    return _seconds_of([sys.executable, "-m", "service.cli", "query", sql, "--savepoint", str(savepoint)])


def _seconds_of(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - started


def _measure(name: str, savepoint: Path) -> Measured:
    run, whole, runs = (MEASUREMENTS | DIFFERENCES)[name]
    once = run(savepoint)
    seconds = []
    rows = 0
    for _ in range(runs):
        started = time.perf_counter()
        rows = once()
        seconds.append(time.perf_counter() - started)
    return Measured(seconds=seconds, rows=rows, whole=whole, peak_mib=_peak_bytes() / (1 << 20))


def _peak_bytes() -> int:
    """Return the peak memory of this process; `getrusage` would begin with that of the process that forked it."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmHWM:"))


def _read_files(savepoint: Path) -> Callable[[], int]:
    buffer = bytearray(1 << 20)

    def once() -> int:
        for path in savepoint.iterdir():
            with path.open("rb", buffering=0) as file:
                while file.readinto(buffer):
                    pass
        return 1

    return once


def _walk(savepoint: Path) -> Callable[[], int]:
    states = Savepoint(savepoint).operators[0].states
    state = next(state for state in states if state.name == "count")

    def once() -> int:
        return sum(len(page) for part in state.parts for page in part.source.pages(part.name, Selection()))

    return once


def _scan(table: str) -> Callable[[Path], Callable[[], int]]:
    """Return a measurement of every row of a table through the readers and the catalog, on one thread."""

    def prepare(savepoint: Path) -> Callable[[], int]:
        database = catalog.connect(savepoint).default
        assert database is not None
        known = database.table(table)
        return lambda: sum(batch.num_rows for batch in known.scan().to_reader())

    return prepare


def _query(sql: str, masked: str = "", rule: str = "") -> Callable[[Path], Callable[[], int]]:
    """Return a measurement of an SQL query through DuckDB, on all cores; over a masked column if one is named."""

    def prepare(savepoint: Path) -> Callable[[], int]:
        settings = Settings()
        known = catalog.connect(savepoint)
        if masked:
            text = f'version = 1\n[[mask]]\ncolumns = ["{masked}"]\nwith = "{rule}"\n'
            known = known.visible(lambda _: True, Masks.parse(text))
        queries = Queries(known, {"duckdb": DuckDBEngine(settings)}, settings)

        def once() -> int:
            with queries.start(QueryRequest(sql=sql)) as query:
                return sum(batch.num_rows for batch in query.batches())

        return once

    return prepare


def _history(savepoint: Path) -> Callable[[], int]:
    """Return a measurement of one key in ten checkpoints, which share all files of state: hard links."""
    folder = tempfile.TemporaryDirectory(dir=savepoint.parent)
    for number in range(1, _CHECKPOINTS + 1):
        checkpoint = Path(folder.name, "job", f"chk-{number}")
        checkpoint.mkdir(parents=True)
        for file in savepoint.iterdir():
            (checkpoint / file.name).hardlink_to(file)
    settings = Settings()
    queries = Queries(catalog.connect(folder.name), {"duckdb": DuckDBEngine(settings)}, settings)
    sql = "SELECT _database, value FROM job__history.aggregate__count WHERE key = 'key_662'"

    def once() -> int:
        assert Path(folder.name).exists()  # removed with this function
        with queries.start(QueryRequest(sql=sql)) as query:
            return sum(batch.num_rows for batch in query.batches())

    return once


def _diff(table: str) -> Callable[[Path], Callable[[], int]]:
    """Return a measurement of the rows of a table that differ in the later savepoint."""

    def prepare(savepoint: Path) -> Callable[[], int]:
        before, after = (catalog.connect(path).default for path in (savepoint, _changed(savepoint)))
        assert before is not None
        assert after is not None
        return lambda: sum(
            batch.num_rows for batch in catalog.diff_table(before, after, table).scan().to_reader()
        )

    return prepare


def _followed(savepoint: Path) -> Callable[[], int]:
    """Return a measurement of a follower: from the moment at which a checkpoint is whole to its last row, with the longest wait."""
    folder = tempfile.TemporaryDirectory(dir=savepoint.parent)
    numbers = count(1)

    def add() -> None:
        number = next(numbers)
        checkpoint = Path(folder.name, "job", f"chk-{number}")
        checkpoint.mkdir(parents=True)
        source = _changed(savepoint) if number % 2 == 0 else savepoint
        for file in source.iterdir():
            if file.name != "_metadata":
                (checkpoint / file.name).hardlink_to(file)
        # A copy, with the time of a new checkpoint.
        (checkpoint / "_metadata").write_bytes((source / "_metadata").read_bytes())

    add()
    followed = savepointdb.connect(folder.name).follow("aggregate__count", job="job", since=1)

    def once() -> int:
        add()
        return len(next(followed))

    return once


def _summary(savepoint: Path) -> Callable[[], int]:
    """Return a measurement of what differs in all states, in two threads, of savepoints that are opened for it."""

    def once() -> int:
        open_savepoint.cache_clear()
        before, after = (catalog.connect(path).default for path in (savepoint, _changed(savepoint)))
        assert before is not None
        assert after is not None
        scan = catalog.SummaryTable(before, after).scan(["changed"])
        with ThreadPoolExecutor(2) as threads:
            found = threads.map(lambda split: [batch.to_pylist() for batch in scan.read(split)], scan.splits)
            return sum(row["changed"] or 0 for batches in found for rows in batches for row in rows)

    return once


def _export(savepoint: Path) -> Callable[[], int]:
    """Return a measurement of every row of every state into a Parquet file for each state."""
    settings = Settings()
    queries = Queries(catalog.connect(savepoint), {"duckdb": DuckDBEngine(settings)}, settings)

    def once() -> int:
        rows = 0
        with tempfile.TemporaryDirectory() as folder:
            for state in STATES:
                sql = f"SELECT * FROM aggregate__{state}"
                with queries.start(QueryRequest(sql=sql)) as query, Path(folder, state).open("wb") as file:
                    file.writelines(FORMATS["parquet"].write(query.columns, query.schema, query.batches()))
                    rows += query.row_count
        return rows

    return once


def _made(make: Callable[[savepointdb.Connection, Path], int]) -> Callable[[Path], Callable[[], int]]:
    """Return a measurement of a new savepoint, written, read back and checked; `make` returns its rows."""

    def prepare(savepoint: Path) -> Callable[[], int]:
        def once() -> int:
            with (
                tempfile.TemporaryDirectory(dir=savepoint.parent) as folder,
                savepointdb.connect(savepoint) as source,
            ):
                return make(source, Path(folder, "new"))

        return once

    return prepare


def _time(seconds: float) -> str:
    return f"{seconds * 1000:,.1f} ms" if seconds < 1 else f"{seconds:,.2f} s"


WRITERS: dict[str, Callable[[Path, int], object]] = {
    "canonical": write_savepoint,
    "native": write_native_savepoint,
}

_ACCOUNTS = "SELECT key, value.id, value.name, value.balance FROM aggregate__account"
_MASKS = (
    ("name", "null"),
    ("name", "truncate(3)"),
    ("id", "bucket(1000)"),
    ("name", "hash"),
    ("name", "pseudonym"),
    ("id", "pseudonym"),
)

MEASUREMENTS: dict[str, tuple[Callable[[Path], Callable[[], int]], bool, int]] = {
    "read the files, nothing else": (_read_files, True, RUNS),
    "cut the entries of `count` out of all": (_walk, True, RUNS),
    "scan `count` (Long), one thread": (_scan("aggregate__count"), True, RUNS),
    "scan `account` (POJO), one thread": (_scan("aggregate__account"), True, RUNS),
    "scan `perDay` (MAP), one thread": (_scan("aggregate__perDay"), True, RUNS),
    "scan `events` (LIST), one thread": (_scan("aggregate__events"), True, RUNS),
    "SQL: count and sum of `count`": (
        _query("SELECT count(*), sum(value) FROM aggregate__count"),
        True,
        RUNS,
    ),
    "SQL: group `perDay` by day": (
        _query("SELECT map_key, sum(value) FROM aggregate__perDay GROUP BY map_key"),
        True,
        RUNS,
    ),
    "SQL: group `count` by value": (
        _query("SELECT value, count(*) FROM aggregate__count GROUP BY value"),
        True,
        RUNS,
    ),
    "SQL: all of `account`": (_query(_ACCOUNTS), True, RUNS),
    **{
        f"SQL: all of `account`, masked: {column} {rule}": (
            _query(_ACCOUNTS, f"*.value.{column}", rule),
            True,
            RUNS,
        )
        for column, rule in _MASKS
    },
    "everything to Parquet": (_export, True, EXPORT_RUNS),
    "sample of 1 % of the keys, written": (
        _made(lambda source, new: sum(one.entries for one in source.sample(new, 0.01).states)),
        True,
        RUNS,
    ),
    "DELETE KEY, written": (
        _made(lambda source, new: source.write(new, "DELETE KEY 'key_662'").rows),
        False,
        RUNS,
    ),
    "RENAME KEY, written": (
        _made(lambda source, new: source.write(new, "RENAME KEY 'key_662' TO 'another'").rows),
        False,
        RUNS,
    ),
    "SQL: one key": (_query("SELECT value FROM aggregate__count WHERE key = 'key_662'"), False, LOOKUP_RUNS),
    f"SQL: one key in {_CHECKPOINTS} checkpoints": (_history, False, LOOKUP_RUNS),
    "SQL: StateMeta": (_query("SELECT * FROM StateMeta"), False, LOOKUP_RUNS),
}

CHANGERS: dict[str, Callable[[Path, Path, range], object]] = {
    "canonical": write_edited,
    "native": write_next_checkpoint,
}
"""Write a savepoint as it is after some keys of `count` got other values."""

DIFFERENCES: dict[str, tuple[Callable[[Path], Callable[[], int]], bool, int]] = {
    f"diff of `count`, {CHANGED_KEYS:,} keys changed": (_diff("aggregate__count"), False, RUNS),
    f"diff of `account`, {CHANGED_KEYS:,} keys of `count` changed": (
        _diff("aggregate__account"),
        False,
        RUNS,
    ),
    f"follow `count`: {CHANGED_KEYS:,} changes, from the checkpoint to the last row": (
        _followed,
        False,
        RUNS,
    ),
    f"diff of all states, {CHANGED_KEYS:,} keys of `count` changed, two threads": (_summary, False, RUNS),
}

PROCESSES: dict[str, tuple[str, Path | None]] = {
    "no table": ("SELECT 1", FLINK),
    "a small savepoint": ("SELECT count(*), max(value) FROM aggregate", FLINK),
    "one key": ("SELECT value FROM aggregate__count WHERE key = 'key_662'", None),
    "count and sum of `count`": ("SELECT count(*), sum(value) FROM aggregate__count", None),
    "StateMeta": ("SELECT * FROM StateMeta", None),
}
"""Statements, and the savepoint they are asked of if it is another."""


if __name__ == "__main__":
    raise SystemExit(main())
