"""A Spark session as any program may have one, and our engine beside DuckDB. All tests share one JVM."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from catalog import Catalog
from catalog.catalog import Root
from readers.compiled.kernel import compile_all, folders
from service.base.settings import Settings
from service.query.engines.duckdb.engine import DuckDBEngine
from service.query.engines.spark.engine import SparkEngine
from service.query.engines.spark.sessions import SparkSettings
from tests.support import serving
from tests.support.paths import PROJECT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

workers_with_their_share = serving.workers_with_their_share

FLINK = PROJECT / "tests" / "data" / "flink"
EVERYTHING = FLINK / "2.3.0" / "everything-rocksdb-savepoints" / "canonical"
CORPUS = PROJECT / "tests" / "data" / "corpus" / "1.20.3"
CASES = {
    "states": CORPUS / "allstates-hashmap-compressed" / "canonical",
    "types": CORPUS / "alltypes-hashmap" / "canonical",
    "sql": CORPUS / "sql-window-hashmap" / "canonical",
    "native": FLINK / "2.3.0" / "everything-hashmap-savepoints" / "native",
}
WORDCOUNT = FLINK / "2.3.0" / "wordcount-rocksdb-savepoints" / "canonical"

# A task of this one does not notice that it was killed, so it is to end by itself: in half a minute.
MANY = (
    "SELECT count(*) FROM w.aggregate__count a, w.aggregate__count b, "
    'w."mod7-no-uid__seen" x, w."mod7-no-uid__seen" y, w."mod7-no-uid__seen" z'
)
# This does not.
ENDLESS = "SELECT count(*) FROM w.aggregate__count a, w.aggregate__count b, w.aggregate__count c, w.aggregate__count d"

# For a JVM that runs many small queries once: its second compiler would take more time than it saves.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# As above, for every JVM that a process starts, and those that these start.
SHORT_LIVED_ALL = {"JAVA_TOOL_OPTIONS": SHORT_LIVED}
# Executors of a cluster compile this unit themselves, and find all others compiled.
COMPILED_THERE = "readers.formats.full.layout"


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session without settings of ours."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.executorEnv.PYTHONPATH", str(PROJECT))
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.extraJavaOptions", SHORT_LIVED)
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def savepoints() -> Catalog:
    """The savepoints: `e` has everything, `w` is wordcount."""
    return Catalog([Root(path=str(EVERYTHING), label="e"), Root(path=str(WORDCOUNT), label="w")])


@pytest.fixture(scope="session")
def duckdb_engine() -> Iterator[DuckDBEngine]:
    engine = DuckDBEngine(Settings())
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def spark_engine(
    spark: SparkSession, duckdb_engine: DuckDBEngine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkEngine]:
    """The engine, in the JVM of `spark`."""
    engine = SparkEngine(SparkSettings(), duckdb_engine, str(tmp_path_factory.mktemp("spark")))
    yield engine
    engine.close()


@dataclass(frozen=True)
class Machine:
    """A place for a worker: its address, and the command that runs another there."""

    address: str = "127.0.0.1"
    command: tuple[str, ...] = ()


HERE = Machine()


class Standalone:
    """A master and workers of one core each, as processes; their Python has the installed packages, but not our code.

    Args:
        host: the address of master and driver.
        machines: one for each worker.

    Attributes:
        folder: where it works.
        url: of the master.
        python: of the executors.
        cache: where these keep what they compile.
        master, workers: the processes.
    """

    def __init__(
        self,
        folder: Path,
        python: Path,
        cache: Path,
        host: str = HERE.address,
        machines: Sequence[Machine] = (HERE, HERE),
    ) -> None:
        self.folder = folder
        self.python = python
        self.cache = cache
        for name in ("local", "tmp"):
            (folder / name).mkdir()
        environment = {
            name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")
        }
        self._environment = (
            environment
            | SHORT_LIVED_ALL
            | {
                "SPARK_DAEMON_MEMORY": "256m",
                "SPARK_WORKER_DIR": str(folder / "work"),
                "SPARK_LOCAL_DIRS": str(folder / "local"),
                "SPARK_LOG_DIR": str(folder),
                "XDG_CACHE_HOME": str(cache),
                "TMPDIR": str(folder / "tmp"),
            }
        )
        port = str(free_port())
        self.url = f"spark://{host}:{port}"
        self.master = self._start("master.Master", Machine(host), "--host", host, "--port", port)
        self._wait_for(self.master, "New state: ALIVE")
        self.workers = [self._start_worker(machine) for machine in machines]
        for worker in self.workers:
            self._wait_for(worker, "Successfully registered with master")

    def run(
        self,
        script: str,
        *arguments: str,
        python: Path | None = None,
        timeout_s: float = 600,
        expected: int = 0,
    ) -> list[dict[str, Any]]:
        """Run a driver's script in a process of its own, and expect an exit code; return the lines of JSON that it prints."""
        ran = subprocess.run(
            [sys.executable, "-c", script, self.url, str(python or self.python), *arguments],
            cwd=PROJECT,
            env=os.environ
            | SHORT_LIVED_ALL
            | {"PYTHONPATH": str(PROJECT), "TMPDIR": str(self.folder / "tmp")},
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        assert ran.returncode == expected, ran.stderr[-4000:]
        return [json.loads(line) for line in ran.stdout.splitlines()]

    def stop(self) -> None:
        for process in (*self.workers, self.master):
            process.terminate()
        for process in (*self.workers, self.master):
            process.wait(timeout=60)

    def processes(self) -> list[str]:
        """The commands of all processes in this folder, those of executors and drivers included."""
        return processes_with(str(self.folder))

    def _start_worker(self, machine: Machine) -> subprocess.Popen[bytes]:
        return self._start(
            "worker.Worker", machine, "-c", "1", "-m", "1g", "--host", machine.address, self.url
        )

    def _start(self, name: str, machine: Machine, *arguments: str) -> subprocess.Popen[bytes]:
        import pyspark

        spark_class = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
        log = self.folder / f"{name}-{secrets.token_hex(4)}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [
                    *machine.command,
                    *(spark_class, f"org.apache.spark.deploy.{name}", "--webui-port", "0", *arguments),
                ],
                cwd=self.folder,
                env=self._environment | {"SPARK_LOCAL_IP": machine.address},
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        process.log = log  # type: ignore[attr-defined]
        return process

    def _wait_for(self, process: subprocess.Popen[bytes], text: str) -> None:
        log: Path = process.log  # type: ignore[attr-defined]
        deadline = time.monotonic() + 300
        while text not in log.read_text():
            assert process.poll() is None, log.read_text()[-2000:]
            assert time.monotonic() < deadline, log.read_text()[-2000:]
            time.sleep(0.2)


@pytest.fixture(scope="session")
def executors_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cache folder of executors of any cluster, with what is compiled here but for a unit: compiling all takes long."""
    compile_all()
    cache = tmp_path_factory.mktemp("cache")
    kept = next(folder for folder in folders() if folder.is_dir())
    shutil.copytree(kept, kernels_in(cache), ignore=shutil.ignore_patterns(f"{COMPILED_THERE}-*"))
    return cache


@pytest.fixture(scope="session")
def standalone(tmp_path_factory: pytest.TempPathFactory, executors_cache: Path) -> Iterator[Standalone]:
    """One cluster for all tests; the last test ends its master."""
    folder = tmp_path_factory.mktemp("standalone")
    cluster = Standalone(folder, python_without_our_code(folder), executors_cache)
    yield cluster
    cluster.stop()


def one_of_each(catalog: Catalog) -> Iterator[tuple[str, str]]:
    """Yield database and name of the first table of each kind and each list of types.

    All tables of `CASES` are read by `test_corpus.py`, in executors of this machine: others need not read a type twice.
    """
    seen = set()
    for name in catalog.databases:
        database = catalog.database(name)
        for table in database.tables:
            found = database.table(table)
            form = (type(found), *(str(field.type) for field in found.schema))
            if form not in seen:
                seen.add(form)
                yield name, table


def kernels_in(cache: Path) -> Path:
    """Return the folder of compiled code in a cache folder."""
    return cache / "savepointdb" / "kernels"


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A savepoint of two subtasks with some tens of megabytes each."""
    return savepoint_of_texts(tmp_path_factory.mktemp("large") / "savepoint", 2)


def savepoint_of_texts(target: Path, parallelism: int) -> Path:
    """Write a savepoint of 77 megabytes."""
    script = (
        f"CREATE TABLE large__texts (key BIGINT, value VARCHAR) WITH (parallelism = '{parallelism}') AS "
        "SELECT i, repeat(md5(i::VARCHAR), 8) FROM range(300000) t(i)"
    )
    ran = subprocess.run(
        [sys.executable, "-m", "savepointdb", "create", str(target), script],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return target


def run_python(*arguments: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python with our code in a process of its own, in a folder."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(PROJECT)} | environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def processes_with(text: str) -> list[str]:
    """The commands of all processes whose environment has this text."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if text in Path("/proc", name, "environ").read_text(errors="replace"):
                found.append(Path("/proc", name, "cmdline").read_text().replace("\0", " "))
    return found


def python_without_our_code(folder: Path) -> Path:
    """A Python with the packages of this one, except editable ones: it reads no `.pth` file."""
    python = folder / "python"
    packages = sysconfig.get_path("purelib")
    python.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{packages}" exec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    return python


def python_without(package: str, folder: Path, python: Path) -> Path:
    """The same Python, where a package is missing."""
    made = folder / "python"
    made.write_text(python.read_text().replace(' "$@"', f' "{folder}/start.py" "$@"'))
    made.chmod(0o755)
    (folder / "start.py").write_text(
        "import runpy, sys\n"
        "class Without:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {package!r}:\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}')\n"
        "sys.meta_path.insert(0, Without())\n"
        "sys.argv = sys.argv[2:]\n"
        "runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)\n"
    )
    return made


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
