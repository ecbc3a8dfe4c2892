"""`python -m benchmarks.spark` (`make bench-spark`): a scan by Spark on one worker of one core and on two, and by the readers.

The program starts two standalone masters and their workers from pyspark's package, on this machine, each worker with a core of
its own, and writes the savepoint. Before it measures, a session answers every question `_WARM_UPS` times over a savepoint of few
keys, and once over the large one: the service keeps its session, and in the first hundred questions the JVMs compile. Readers,
one worker and two take turns, so that they run under the same conditions. A figure is the least of some runs: other load, on
this machine or beside a virtual machine, only adds time.

CPU is that of the executors on one worker: of their Python, which reads and aggregates, and of their JVMs, which compute the
rest. Beside it stands that of the readers alone for the same columns, in one process. A second process of readers, which reads
the same at the same time on a core of its own, shows how much a second worker can gain at most.

Times are meaningful on an idle machine with a core for each worker and some more for the driver. CPU seconds are meaningful on
any machine, except for losses in shared caches.
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
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import catalog
from tools.synthetic.savepoints import UID, write_savepoint

_RUNS = 9
_WARM_UPS = 100
_FEW_KEYS = 20_000  # two tasks, so that both executors have some
_START_S = 60
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_Process = subprocess.Popen[str]
_Runs = dict[str, list[float]]  # by what is measured
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
        "--directory", type=Path, help="a folder to keep it in for the next run (default: none)"
    )
    parser.add_argument("--runs", type=int, default=_RUNS, help=f"runs of each question (default: {_RUNS})")
    parser.add_argument("--drive", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--read", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.drive:
        _drive(*arguments.drive)
        return 0
    if arguments.read:
        _read(arguments.read)
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
    with ExitStack() as stack:
        readers = [stack.enter_context(_reader(savepoint, core)) for core in range(2)]
        one, two = (stack.enter_context(_driver(savepoint, small, workers)) for workers in (1, 2))
        parties = [readers[:1], readers, [one], [two]]
        print(
            "| work | 1 worker | 2 workers | ratio | medians | readers | CPU: readers | Python | JVM | ratio |"
        )
        print("|---|---|---|---|---|---|---|---|---|---|")
        for name in _QUERIES:
            print(_row(name, *_in_turn(parties, name, runs)), flush=True)


def _row(name: str, alone: _Runs, pair: _Runs, one: _Runs, two: _Runs) -> str:
    """Return a line of the report."""
    python, jvm = min(zip(one["python"], one["jvm"], strict=True), key=sum)
    read = min(alone["cpu"])
    return (
        f"| {name} | {min(one['seconds']):.2f} s | {min(two['seconds']):.2f} s "
        f"| {min(one['seconds']) / min(two['seconds']):.2f} "
        f"| {statistics.median(one['seconds']) / statistics.median(two['seconds']):.2f} "
        f"| {2 * min(alone['seconds']) / min(pair['seconds']):.2f} "
        f"| {read:.2f} s | {python:.2f} s | {jvm:.2f} s | {(python + jvm) / read:.2f} |"
    )


def _in_turn(parties: Sequence[Sequence[_Process]], name: str, runs: int) -> list[_Runs]:
    """Return the measurements of each party for a question, run by run; the processes of one party work at the same time."""
    measured: list[_Runs] = [{} for _ in parties]
    for run in range(runs + 1):
        for found, processes in zip(measured, parties, strict=True):
            answers = _asked(processes, name)
            if run:
                for part in answers[0]:
                    found.setdefault(part, []).append(max(answer[part] for answer in answers))
    return measured


@contextmanager
def _reader(savepoint: Path, core: int) -> Iterator[_Process]:
    """Yield a process that reads the tables of questions, on a core of its own."""
    with _measuring(sys.stderr, "--read", str(savepoint)) as reader:
        _pin(reader, core)
        yield reader


def _read(savepoint: str) -> None:
    """Scan, in a process of its own, the tables of the questions named on standard input, and print the time of each scan."""
    database = catalog.connect(savepoint).default
    assert database is not None
    for line in sys.stdin:
        measured: dict[str, float] = {}
        if line.strip():
            _, table, columns = _QUERIES[line.strip()]
            before, started = time.process_time(), time.monotonic()
            for _ in database.table(table).scan(columns).to_reader():
                pass
            measured = {"seconds": time.monotonic() - started, "cpu": time.process_time() - before}
        print(json.dumps(measured), flush=True)


@contextmanager
def _driver(savepoint: Path, small: Path, workers: int) -> Iterator[_Process]:
    """Yield a process with a session on a cluster of its own, which has answered its first questions."""
    with (
        tempfile.TemporaryDirectory(prefix="savepointdb-spark-") as folder,
        _cluster(Path(folder), workers) as url,
        Path(folder, "driver.log").open("w") as log,
    ):
        try:
            with _measuring(log, "--drive", url, str(savepoint), str(small)) as driver:
                yield driver
        except SystemExit:
            sys.stderr.write(Path(log.name).read_text()[-3000:])
            raise


@contextmanager
def _measuring(log: IO[str], *arguments: str) -> Iterator[_Process]:
    """Yield a process of this program that is ready to measure questions by their names."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.spark", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
    )
    try:
        _asked([process], "")
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()


def _asked(processes: Sequence[_Process], name: str) -> list[dict[str, float]]:
    """Return the measurements of several processes of one question at the same time; for no question, wait until they are ready."""
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(f"{name}\n")
        process.stdin.flush()
    lines = [process.stdout.readline() if process.stdout is not None else "" for process in processes]
    if not all(lines):
        raise SystemExit("a process that measures has ended")
    return [json.loads(line) for line in lines]


def _pin(process: subprocess.Popen[Any], core: int) -> None:
    """Run a process, and those that it starts, on one core only."""
    os.sched_setaffinity(process.pid, {core % (os.cpu_count() or 1)})


def _drive(url: str, savepoint: str, small: str) -> None:
    """Run, in a process of its own, the queries named on standard input on a cluster, and print the time of each."""
    from service.base.settings import Settings
    from service.query.engines.duckdb.engine import DuckDBEngine
    from service.query.engines.spark.engine import SparkEngine
    from service.query.engines.spark.sessions import SparkSettings
    from service.query.sql.planner import plan

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
    """Return the CPU seconds so far of the Python processes under the executors of a cluster, and of the executors themselves."""
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
    """Yield the address of a master with some workers, of one core each."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = str(listener.getsockname()[1])
    url = f"spark://127.0.0.1:{port}"
    processes = []
    try:
        processes.append(_start(folder, "master.Master", "--host", "127.0.0.1", "--port", port))
        for core in range(workers):
            processes.append(
                _start(folder, "worker.Worker", "-c", "1", "-m", "2g", "--host", "127.0.0.1", url)
            )
            _pin(processes[-1], core)
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
