"""`python -m benchmarks.spark` (`make bench-spark`): a scan by Spark on one worker of one core and on two, and by the readers.

Two standalone masters and their workers are started from pyspark's package, on this machine, and asked in turn, so that
both find it in the same mood; the savepoint is written for the purpose. Times are medians of a session that has answered
every question `_WARM_UPS` times over a savepoint of few keys, and once over this one: the service keeps its session, and the
first hundred questions of one are those in which its JVMs compile. CPU is that of the executors, on one worker: of their
Python, which reads and aggregates, and of their JVMs, which take what it finds and compute the rest; beside that of the
readers alone for the same columns, in one process.

The times mean something on a machine that does nothing else, with a core for each worker and some more for the driver. CPU
seconds do on any, but for what is lost to others in shared caches.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import catalog
from benchmarks.savepoints import UID, write_savepoint

_RUNS = 5
_WARM_UPS = 100
_FEW_KEYS = 20_000  # two tasks, so that both executors have some
_START_S = 60
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_WRITTEN = "SELECT key, value FROM aggregate__events"
_QUERIES = {
    "all columns of all that an operator keeps, counted": (
        "SELECT count(state_name), count(key), count(value), count(map_key), count(list_index) FROM aggregate",
        UID,
        ["state_name", "key", "value", "map_key", "list_index"],
    ),
    "the greatest of each of them, by state": (
        "SELECT state_name, count(*), max(key), max(value), max(map_key), max(list_index) FROM aggregate GROUP BY ALL",
        UID,
        ["state_name", "key", "value", "map_key", "list_index"],
    ),
    "sum of a column": ("SELECT sum(value) FROM aggregate__count", f"{UID}__count", ["value"]),
    "sums by key group": (
        "SELECT _key_group, count(*), sum(value.balance) FROM aggregate__account GROUP BY _key_group",
        f"{UID}__account",
        ["value", "_key_group"],
    ),
    "greatest of the entries of lists": (
        "SELECT max(value), max(key) FROM aggregate__events",
        f"{UID}__events",
        ["key", "value"],
    ),
    "all entries of lists, written as Parquet": (
        _WRITTEN,
        f"{UID}__events",
        ["key", "value"],
    ),
    "spread of a column: all rows go to the JVM": (
        "SELECT stddev(value) FROM aggregate__count",
        f"{UID}__count",
        ["value"],
    ),
}


def main() -> int:
    """Write the savepoint if need be, run every measurement, print the report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark", description=__doc__)
    parser.add_argument(
        "--keys", type=int, default=2_000_000, help="keys of the savepoint (default: 2000000)"
    )
    parser.add_argument(
        "--directory", type=Path, help="where to keep it for the next time (default: nowhere)"
    )
    parser.add_argument("--runs", type=int, default=_RUNS, help=f"of each question (default: {_RUNS})")
    parser.add_argument("--drive", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.drive:
        _drive(*arguments.drive)
        return 0
    directory = arguments.directory or Path(tempfile.mkdtemp(prefix="savepointdb-bench-"))
    try:
        few, many = (directory / f"canonical-{keys}" for keys in (_FEW_KEYS, arguments.keys))
        for folder, keys in ((few, _FEW_KEYS), (many, arguments.keys)):
            if not folder.exists():
                write_savepoint(folder, keys)
        _report(many, few, arguments.keys, arguments.runs)
    finally:
        if arguments.directory is None:
            shutil.rmtree(directory)
    return 0


def _report(savepoint: Path, small: Path, keys: int, runs: int) -> None:
    size = sum(file.stat().st_size for file in savepoint.iterdir())
    print(f"{keys:,} keys, {size / 1e6:,.0f} MB canonical; {os.cpu_count()} cores, {platform.machine()}\n")
    alone = {name: _readers(savepoint, table, columns) for name, (_, table, columns) in _QUERIES.items()}
    one, two = _on_workers(savepoint, small, runs)
    print("| work | 1 worker | 2 workers | ratio | CPU: readers alone | Python | ratio | JVM | both, ratio |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name in _QUERIES:
        first, second = one[name]["seconds"], two[name]["seconds"]
        python, jvm = one[name]["python"], one[name]["jvm"]
        print(
            f"| {name} | {first:.2f} s | {second:.2f} s | {first / second:.2f} | {alone[name]:.2f} s | {python:.2f} s "
            f"| {python / alone[name]:.2f} | {jvm:.2f} s | {(python + jvm) / alone[name]:.2f} |"
        )


def _readers(savepoint: Path, table: str, columns: list[str]) -> float:
    """CPU seconds of the readers alone, for a scan of these columns."""
    database = catalog.connect(str(savepoint)).default
    assert database is not None
    measured = []
    for _ in range(_RUNS + 1):
        before = time.process_time()
        for _ in database.table(table).scan(columns).to_reader():
            pass
        measured.append(time.process_time() - before)
    return statistics.median(measured[1:])


def _on_workers(savepoint: Path, small: Path, runs: int) -> list[dict[str, dict[str, float]]]:
    """Seconds and CPU seconds of each query, on one worker and on two; they are asked in turn."""
    measured: list[dict[str, list[dict[str, float]]]] = [{}, {}]
    with ExitStack() as stack:
        drivers = [stack.enter_context(_driver(savepoint, small, count)) for count in (1, 2)]
        for name in _QUERIES:
            for run in range(runs + 1):
                for found, driver in zip(measured, drivers, strict=True):
                    answer = _asked(driver, name)
                    if run:
                        found.setdefault(name, []).append(answer)
    return [
        {
            name: {part: statistics.median(run[part] for run in answers) for part in answers[0]}
            for name, answers in found.items()
        }
        for found in measured
    ]


@contextmanager
def _driver(savepoint: Path, small: Path, workers: int) -> Iterator[subprocess.Popen[str]]:
    """A process with a session on a cluster of its own, which has answered its first questions."""
    with (
        tempfile.TemporaryDirectory(prefix="savepointdb-spark-") as folder,
        _cluster(Path(folder), workers) as url,
        Path(folder, "driver.log").open("w") as log,
    ):
        driver = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.spark", "--drive", url, str(savepoint), str(small)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        try:
            _asked(driver, "")
            yield driver
        finally:
            assert driver.stdin is not None
            driver.stdin.close()
            if driver.wait():
                sys.stderr.write(Path(log.name).read_text()[-3000:])


def _asked(driver: subprocess.Popen[str], name: str) -> dict[str, float]:
    """What a driver measures of one query; of none, that it is ready."""
    assert driver.stdin is not None
    assert driver.stdout is not None
    driver.stdin.write(f"{name}\n")
    driver.stdin.flush()
    line = driver.stdout.readline()
    if not line:
        raise SystemExit("a driver ended")
    measured: dict[str, float] = json.loads(line)
    return measured


def _drive(url: str, savepoint: str, small: str) -> None:
    """In a process of its own: run the queries whose names come in on a cluster, and print what each took."""
    from service.engines.duckdb import DuckDBEngine
    from service.engines.spark import SparkEngine
    from service.engines.sparksession import SparkSettings
    from service.settings import Settings
    from service.sql import plan

    options = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "1g",
        "spark.sql.shuffle.partitions": "4",
    }
    duckdb = DuckDBEngine(Settings())
    exports = tempfile.mkdtemp(prefix="savepointdb-bench-")
    spark = SparkEngine(SparkSettings(master=url, options=options, export_directory=exports), duckdb)

    known = {path: catalog.connect(path) for path in (savepoint, small)}

    def ask(sql: str, path: str) -> None:
        execution = spark.execution(plan(sql, known[path]), None if sql == _WRITTEN else 10_000)
        for _ in execution.open():
            pass
        execution.close()

    for sql, _, _ in list(_QUERIES.values()) * _WARM_UPS:
        ask(sql, small)
    for line in sys.stdin:
        measured: dict[str, float] = {}
        if line.strip():
            before, started = _executors_cpu(url), time.monotonic()
            ask(_QUERIES[line.strip()][0], savepoint)
            measured["seconds"] = time.monotonic() - started
            measured["python"], measured["jvm"] = (
                after - own for after, own in zip(_executors_cpu(url), before, strict=True)
            )
        print(json.dumps(measured), flush=True)
    spark.close()
    duckdb.close()
    shutil.rmtree(exports)


def _executors_cpu(url: str) -> tuple[float, float]:
    """CPU seconds so far of the Python processes under the executors of a cluster, and of the executors themselves."""
    parents, ticks, commands = {}, {}, {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            status = Path("/proc", name, "stat").read_text().rpartition(")")[2].split()
            command = Path("/proc", name, "cmdline").read_text()
        except OSError:
            continue
        parents[int(name)] = int(status[1])
        ticks[int(name)] = sum(map(int, status[11:15]))
        commands[int(name)] = command
    workers = {
        process for process, command in commands.items() if "worker.Worker" in command and url in command
    }
    executors = {process for process in parents if _is_under(process, workers, parents)} - workers
    executors = {process for process in executors if "CoarseGrainedExecutorBackend" in commands[process]}
    python = {process for process in parents if _is_under(process, executors, parents)} - executors
    return sum(ticks[process] for process in python) / _TICKS_A_SECOND, sum(
        ticks[process] for process in executors
    ) / _TICKS_A_SECOND


def _is_under(process: int, roots: set[int], parents: dict[int, int]) -> bool:
    while process in parents and process not in roots:
        process = parents[process]
    return process in roots


@contextmanager
def _cluster(folder: Path, workers: int) -> Iterator[str]:
    """The address of a master with so many workers, of one core each."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = str(listener.getsockname()[1])
    url = f"spark://127.0.0.1:{port}"
    processes = []
    try:
        processes.append(_start(folder, "master.Master", "--host", "127.0.0.1", "--port", port))
        for _ in range(workers):
            processes.append(
                _start(folder, "worker.Worker", "-c", "1", "-m", "2g", "--host", "127.0.0.1", url)
            )
        _wait_for(folder, "Registering worker", workers)
        yield url
    finally:
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            process.wait()


def _start(folder: Path, name: str, *arguments: str) -> subprocess.Popen[bytes]:
    import pyspark

    environment = os.environ | {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_WORKER_DIR": str(folder / "work"),
    }
    command = [
        str(Path(pyspark.__file__).parent / "bin" / "spark-class"),
        f"org.apache.spark.deploy.{name}",
        "--webui-port",
        "0",
        *arguments,
    ]
    with (folder / f"{name}.log").open("ab") as log:
        return subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)


def _wait_for(folder: Path, text: str, count: int) -> None:
    deadline = time.monotonic() + _START_S
    log = folder / "master.Master.log"
    while log.read_text().count(text) < count:
        if time.monotonic() > deadline:
            raise SystemExit(log.read_text()[-2000:])
        time.sleep(0.2)


if __name__ == "__main__":
    sys.exit(main())
