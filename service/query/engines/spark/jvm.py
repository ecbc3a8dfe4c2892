"""Sessions in a JVM that this process starts with the first query and keeps: on this machine or on a cluster's master.

On this machine, executors find our packages where this process found them; a cluster gets them as a zip (`packages.py`).
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from service.base import machine
from service.base.errors import EngineUnavailableError
from service.query.engines.spark.packages import package_folders, write_packages
from service.query.engines.spark.sessions import (
    DUCKDB_GOES_ON,
    MEANING,
    Sessions,
    SparkSettings,
    check_java,
    check_reachable,
    quiet,
)

if TYPE_CHECKING:
    from pyspark import SparkStageInfo
    from pyspark.sql import SparkSession

_INSTALL = "pip install 'savepointdb[spark]'"
_ENDING_S = 5.0
_STUCK_S = 20.0


class JvmSessions(Sessions):
    """One session of the JVM, and one for each query that is made of it."""

    def __init__(self, settings: SparkSettings, directory: Path) -> None:
        super().__init__(settings, directory)
        self._session: SparkSession | None = None
        self._owned = False
        self._owns_jvm = False
        self._running: set[str] = set()
        self._is_suspect = False

    def new(self) -> SparkSession:
        """Implement `Sessions.new`.

        Raises:
            EngineUnavailableError: Spark does not start: no pyspark, no Java, no cluster.
        """
        self._end_if_stuck()
        with self._lock:
            if self._session is None:
                self._session = self._started()
            session = self._session
        made = session.newSession()  # shares the executors, but has views and settings of its own
        for name, value in MEANING.items():
            made.conf.set(name, value)
        return made

    @property
    def parallelism(self) -> int:
        """Cores of the executors, as Spark counts them; 1 before Spark has started."""
        session = self._session
        if session is None:
            return 1
        return int(session.sparkContext.defaultParallelism)

    @contextlib.contextmanager
    def tagged(self, session: SparkSession, tag: str) -> Iterator[None]:
        """Implement `Sessions.tagged`; the last query of a stuck JVM ends it."""
        context = session.sparkContext
        with self._lock:
            self._running.add(tag)
        context.addJobTag(tag)
        # Without it, a cancel only marks tasks as killed and interrupts no thread.
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
        """Implement `Sessions.cancel`."""
        session = self._session
        if session is None:
            return
        self._is_suspect = True
        with contextlib.suppress(Exception):
            session.sparkContext.cancelJobsWithTag(tag)

    def tasks(self, tag: str) -> tuple[int, int]:
        """Implement `Sessions.tasks`."""
        stages = self._stages(tag)
        return sum(stage.numCompletedTasks for stage in stages), sum(stage.numTasks for stage in stages)

    def running(self, tag: str) -> int:
        """Implement `Sessions.running`."""
        return sum(stage.numActiveTasks for stage in self._stages(tag))

    def _stages(self, tag: str) -> list[SparkStageInfo]:
        """Return what Spark knows of the stages of a query; nothing more once it is gone."""
        stages: list[SparkStageInfo] = []
        session = self._session
        if session is None:
            return stages
        with contextlib.suppress(Exception):
            tracker = session.sparkContext.statusTracker()
            # pyspark's tracker knows groups of jobs, but not tags.
            java: Any = session.sparkContext._jsc.sc().statusTracker()
            jobs = (tracker.getJobInfo(int(job)) for job in java.getJobIdsForTag(tag))
            found = (tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds)
            stages += (stage for stage in found if stage is not None)
        return stages

    def forget(self) -> None:
        """Implement `Sessions.forget`: the next query starts another JVM."""
        self.close()

    def close(self) -> None:
        """Implement `Sessions.close`."""
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
        """End our JVM if cancelled tasks still run in it and no query does: the next query starts another JVM.

        A task that joins row by row checks neither for interrupts nor whether it was killed. On a cluster,
        `spark.task.reaper` ends its executor, and the cluster replaces that. On this machine the executor is the driver.
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
        # For this user alone: executors run the code in the zip.
        self._archive.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            import pyspark  # noqa: F401  # the check that it is installed
            from pyspark import SparkContext
            from pyspark.sql import SparkSession
        except ImportError as error:
            raise EngineUnavailableError(
                "Spark is not installed", hint=f"{_INSTALL}; or {DUCKDB_GOES_ON}", detail=str(error)
            ) from error
        quiet()
        check_reachable(self._settings.master)
        check_java()
        python = self._settings.python or os.environ.get("PYSPARK_PYTHON") or sys.executable
        os.environ["PYSPARK_PYTHON"] = python  # pyspark reads it only from the environment
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        builder = SparkSession.builder.master(self._settings.master or "local[*]").appName("savepointdb")
        for name, value in self._options().items():
            builder = builder.config(name, value)
        # A program may have a context already, which is not ours to stop. `getActiveSession` looks at this thread only.
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
            f"Spark does not start at {self._settings.address}", hint=DUCKDB_GOES_ON, detail=f"{error}"
        )

    def _options(self) -> dict[str, str]:
        options = dict(MEANING) | {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "64",
            "spark.sql.execution.arrow.pyspark.enabled": "true",
            # Over TCP, the last packet of a task waits for an acknowledgement that is delayed by 40 ms.
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
                "spark.submit.pyFiles": str(write_packages(self._archive)),
                "spark.task.reaper.enabled": "true",
                "spark.task.reaper.pollingInterval": "5s",
                "spark.task.reaper.killTimeout": f"{_STUCK_S:.0f}s",
            }
        return options | dict(self._settings.options)


def _running_tasks(session: SparkSession) -> int:
    """Return the number of tasks that run, killed ones that have not ended included."""
    # The status tracker is seconds late on a machine that is busy; the scheduler counts by itself.
    with contextlib.suppress(Exception):
        scheduler: Any = session.sparkContext._jsc.sc().taskScheduler()
        counts = scheduler.runningTasksByExecutors().valuesIterator()
        running = 0
        while counts.hasNext():
            running += counts.next()
        return running
    return 0


def _end_jvm() -> None:
    """End the JVM that this process has started, unless it has ended by itself."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    gateway: Any = SparkContext._gateway
    if gateway is None or gateway.proc is None:  # it did not start, or `spark-submit` started it
        return
    # pyspark keeps the JVM in attributes of classes, and starts another one only if these are empty.
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
