"""A Spark session, started when first wanted and kept: where it runs, and with which code.

| setting | runs |
|---|---|
| none | in a JVM of its own on this machine, with all cores |
| `spark_master` | on a cluster: `spark://…`, `k8s://…`, `yarn`; or `local[2]` |
| `spark_remote` | on a Spark Connect server: `sc://…`; `sparkconnect.py` |

On this machine, executors find our packages where this process found them; to a cluster they are sent (`sparkpackages.py`).
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from service.engines.spark.packages import package_folders, write_packages
from service.errors import EngineUnavailableError
from service.process import machine
from service.settings import InvalidSettingError, Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OLDEST_JAVA = 17
_JAVA_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
DUCKDB_GOES_ON = 'ask for "engine": "duckdb", which needs nothing else'
_INSTALL = "pip install 'savepointdb[spark]'"
_ARCHIVE = "savepointdb.zip"
_CONNECT_S = 5.0
_ENDING_S = 5.0
_STUCK_S = 20.0
_CONNECT_PORT = 15002
_ADDRESS = re.compile(r"(?P<host>[^:/,;]+|\[[^\]]+\]):(?P<port>\d+)")

_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    """Where and how Spark runs.

    Attributes:
        master: as Spark has it; empty for this machine.
        remote: a Spark Connect server instead; empty for none.
        python: the interpreter of the workers; empty for this one's path.
        options: more of Spark's own settings.
        export_directory: where executors write answers too large for the driver; they and this process see it by this
            path. Empty for a temporary one, which does for this machine only.
        threshold_bytes: what a query may read before it goes to a cluster; None to go by this machine's memory.
    """

    master: str = ""
    remote: str = ""
    python: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    export_directory: str = ""
    threshold_bytes: int | None = None

    @property
    def is_local(self) -> bool:
        """Whether Spark runs on this machine, in this process' own JVM."""
        return not self.remote and (not self.master or self.master.startswith("local"))

    @property
    def place(self) -> str:
        """Where it runs, for people; without what a Connect server is to know of whom."""
        return self.remote.partition("/;")[0] or self.master or "local[*]"


def spark_settings(settings: Settings) -> SparkSettings:
    """Spark's part of the service's settings.

    Raises:
        InvalidSettingError: `spark_options` are not NAME=VALUE, or both a master and a Connect server are set.
    """
    if settings.spark.master and settings.spark.remote:
        raise InvalidSettingError("expected spark_master or spark_remote, found both")
    return SparkSettings(
        master=settings.spark.master,
        remote=settings.spark.remote,
        python=settings.spark.python,
        options=_named(settings.spark.options),
        export_directory=settings.spark.export_directory,
        threshold_bytes=settings.spark.threshold_bytes or None,
    )


def _named(text: str) -> dict[str, str]:
    try:
        pairs = [word.partition("=") for word in shlex.split(text)]
    except ValueError as error:
        raise InvalidSettingError(f"spark_options: {error}") from error
    for name, separator, _ in pairs:
        if not (name.startswith("spark.") and separator):
            raise InvalidSettingError(f"spark_options: expected spark.NAME=VALUE, found {name + separator!r}")
    return {name: value for name, _, value in pairs}


class SparkSessions:
    """The session of a JVM of ours, and one for each query. Safe to share between threads.

    Args:
        settings: where it runs.
        directory: where the zip of our packages is written.

    Attributes:
        has_duckdb: whether the executors' Python is taken to have it; to be set when one is found not to.
    """

    def __init__(self, settings: SparkSettings, directory: Path) -> None:
        self.has_duckdb = True
        self._settings = settings
        self._directory = directory
        self._lock = threading.Lock()
        self._session: SparkSession | None = None
        self._owned = False
        self._owns_jvm = False
        self._running: set[str] = set()
        self._is_suspect = False

    def new(self) -> SparkSession:
        """A session of its own: nobody else sees its views and data sources.

        Raises:
            EngineUnavailableError: Spark does not start: no pyspark, no Java, no cluster.
        """
        self._end_if_stuck()
        with self._lock:
            if self._session is None:
                self._session = self._started()
            session = self._session
        made = session.newSession()
        for name, value in MEANING.items():
            made.conf.set(name, value)
        return made

    @property
    def parallelism(self) -> int:
        """How many tasks run at a time, as far as is known."""
        session = self._session
        if session is None:
            return 1
        return int(session.sparkContext.defaultParallelism)

    @contextlib.contextmanager
    def tagged(self, session: SparkSession, tag: str) -> Iterator[None]:
        """The jobs of this thread have this tag."""
        context = session.sparkContext
        with self._lock:
            self._running.add(tag)
        context.addJobTag(tag)
        context.setInterruptOnCancel(True)
        try:
            yield
        finally:
            with contextlib.suppress(Exception):
                context.removeJobTag(tag)
            with self._lock:
                self._running.discard(tag)
                is_suspect = self._is_suspect
            if is_suspect:
                timer = threading.Timer(_STUCK_S, self._end_if_stuck)
                timer.daemon = True
                timer.start()

    def cancel(self, tag: str) -> None:
        """End the jobs that have this tag by now, if there are any."""
        session = self._session
        if session is None:
            return
        self._is_suspect = True
        with contextlib.suppress(Exception):
            session.sparkContext.cancelJobsWithTag(tag)

    def tasks(self, tag: str) -> tuple[int, int]:
        """(tasks done, tasks in all) of the jobs that have this tag, as far as they are planned."""
        session = self._session
        if session is None:
            return 0, 0
        done = total = 0
        with contextlib.suppress(Exception):
            tracker = session.sparkContext.statusTracker()
            java: Any = session.sparkContext._jsc.sc().statusTracker()
            for job in java.getJobIdsForTag(tag):
                found = tracker.getJobInfo(int(job))
                for stage in found.stageIds if found is not None else ():
                    info = tracker.getStageInfo(stage)
                    if info is not None:
                        done += info.numCompletedTasks
                        total += info.numTasks
        return done, total

    def forget(self) -> None:
        """Start anew next time: the session is broken."""
        self.close()

    def close(self) -> None:
        """Stop Spark, if it runs."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        session, self._session = self._session, None
        self.has_duckdb = True
        self._is_suspect = False
        owned, self._owned = self._owned, False
        if session is not None and owned:
            with contextlib.suppress(Exception):
                session.stop()
        if self._owns_jvm:
            self._owns_jvm = False
            _end_jvm()

    def _end_if_stuck(self) -> None:
        """End a JVM of ours where what was cancelled runs on: the next query starts another.

        A task that joins row by row looks neither at interrupts nor for whether it was killed. On a cluster its executor is
        ended and replaced (`spark.task.reaper`); here that is the driver, too, so it is done when no query runs.
        """
        with self._lock:
            if not self._is_suspect or self._running:
                return
            if self._session is None or not self._owns_jvm or not self._settings.is_local:
                self._is_suspect = False
                return
            deadline = time.monotonic() + _ENDING_S
            while _running_tasks(self._session):
                if time.monotonic() > deadline:
                    self._end()
                    return
                time.sleep(0.05)
            self._is_suspect = False

    def _started(self) -> SparkSession:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            import pyspark  # noqa: F401  # is it there?
            from pyspark import SparkContext
            from pyspark.sql import SparkSession
        except ImportError as error:
            raise EngineUnavailableError(
                "Spark is not installed", hint=f"{_INSTALL}; or {DUCKDB_GOES_ON}", detail=str(error)
            ) from error
        quiet()
        check_java()
        check_reachable(self._settings.master)
        python = self._settings.python or os.environ.get("PYSPARK_PYTHON") or sys.executable
        os.environ["PYSPARK_PYTHON"] = python  # pyspark reads it from there alone
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        builder = SparkSession.builder.master(self._settings.master or "local[*]").appName("savepointdb")
        for name, value in self._options().items():
            builder = builder.config(name, value)
        # What a program has already is not ours to stop. `getActiveSession` knows that of this thread only.
        self._owned = SparkContext._active_spark_context is None
        self._owns_jvm = SparkContext._gateway is None
        try:
            session = builder.getOrCreate()
            session.sparkContext.setLogLevel("ERROR")
        except Exception as error:  # Java's errors and Python's, of any kind
            raise self._unavailable(error) from error
        return session

    def _unavailable(self, error: Exception) -> EngineUnavailableError:
        return EngineUnavailableError(
            f"Spark does not start at {self._settings.place}", hint=DUCKDB_GOES_ON, detail=f"{error}"
        )

    def _options(self) -> dict[str, str]:
        options = dict(MEANING) | {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "64",
            "spark.sql.execution.arrow.pyspark.enabled": "true",
            # Over TCP, a task's last words wait for an acknowledgement that is delayed by 40 ms.
            "spark.python.unix.domain.socket.enabled": "true",
        }
        if self._settings.is_local:
            options |= {
                "spark.driver.host": "127.0.0.1",
                "spark.driver.bindAddress": "127.0.0.1",
                "spark.sql.shuffle.partitions": str(max(2, machine.cores())),
                "spark.executorEnv.PYTHONPATH": os.pathsep.join(map(str, package_folders())),
            }
        else:
            options |= {
                "spark.submit.pyFiles": str(write_packages(self._directory / _ARCHIVE)),
                "spark.task.reaper.enabled": "true",
                "spark.task.reaper.pollingInterval": "5s",
                "spark.task.reaper.killTimeout": f"{_STUCK_S:.0f}s",
            }
        return options | dict(self._settings.options)


def _running_tasks(session: SparkSession) -> int:
    """How many tasks run, those that were killed and have not ended among them."""
    with contextlib.suppress(Exception):
        java: Any = session.sparkContext._jsc.sc().statusTracker()
        return sum(executor.numRunningTasks() for executor in java.getExecutorInfos())
    return 0


def _end_jvm() -> None:
    """End the JVM that this process has started, if it has not ended by itself."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    gateway: Any = SparkContext._gateway
    if gateway is None or gateway.proc is None:  # it did not start, or not by us: spark-submit has its own
        return
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None
    with contextlib.suppress(Exception):
        gateway.shutdown()
    process: subprocess.Popen[bytes] = gateway.proc
    process.terminate()
    try:
        process.wait(_ENDING_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def quiet() -> None:
    """Have pyspark log no errors: it raises them, too."""
    for name in _LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)


def check_java() -> None:
    """Whether there is a Java that Spark runs on.

    Raises:
        EngineUnavailableError: there is none, or it is too old.
    """
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=os.path.join(home, "bin") if home else None)
    wanted = f"Spark needs Java {_OLDEST_JAVA} or newer"
    if java is None:
        raise EngineUnavailableError(f"{wanted}, found none", hint=DUCKDB_GOES_ON)
    try:
        shown = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        raise EngineUnavailableError(f"{wanted}, found one that does not run", hint=DUCKDB_GOES_ON) from error
    found = _JAVA_VERSION.search(shown.stderr + shown.stdout)
    if found is None or int(found[1]) < _OLDEST_JAVA:
        raise EngineUnavailableError(
            f"{wanted}, found {found[1] if found else 'one that does not say its version'}",
            hint=DUCKDB_GOES_ON,
        )


def check_reachable(address: str) -> None:
    """Whether anybody listens at `spark://…` or `sc://…`; others are passed over. Spark itself tries for a minute.

    Raises:
        EngineUnavailableError: nobody does.
    """
    if not address.startswith(("spark://", "sc://")):
        return
    failures = []
    scheme, _, rest = address.partition("://")
    hosts = rest.partition("/")[0]
    if scheme == "sc" and not _ADDRESS.search(hosts):
        hosts += f":{_CONNECT_PORT}"
    for found in _ADDRESS.finditer(hosts):
        try:
            socket.create_connection((found["host"].strip("[]"), int(found["port"])), _CONNECT_S).close()
        except (OSError, OverflowError) as error:
            failures.append(f"{found.group()}: {error}")
        else:
            return
    if failures:
        raise EngineUnavailableError(
            f"nobody answers at {address.partition('/;')[0]}", hint=DUCKDB_GOES_ON, detail="; ".join(failures)
        )


MEANING = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.runSQLOnFiles": "false",
    "spark.sql.execution.arrow.localRelationThreshold": f"{(1 << 31) - 1}b",
    # How much comes of a table is known only when it is read.
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.autoBroadcastJoinThreshold": "10MB",
}
"""What the translation of `sparksql.py` relies on."""
