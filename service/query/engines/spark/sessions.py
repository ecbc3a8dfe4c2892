"""Spark's sessions: one for each query, of a JVM of ours (`jvm.py`) or of a Spark Connect server (`connect.py`)."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from service.query.engines.spark.settings import SparkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ARCHIVE = "savepointdb.zip"


class Sessions(ABC):
    """The sessions of one engine. Safe to share between threads.

    Args:
        settings: where Spark runs.
        directory: folder for the zip of our packages; made when it is needed.

    Attributes:
        has_duckdb: False once executors are found to have no DuckDB in their Python; the engine sets it.
    """

    def __init__(self, settings: SparkSettings, directory: Path) -> None:
        self.has_duckdb = True
        self._settings = settings
        self._archive = directory / _ARCHIVE
        self._lock = threading.Lock()

    @abstractmethod
    def new(self) -> SparkSession:
        """Return a session for one query, whose views no other query sees. The end of `tagged` gives it back.

        Raises:
            EngineUnavailableError: Spark is not installed, does not start or does not answer.
        """

    @property
    @abstractmethod
    def parallelism(self) -> int:
        """Number of tasks that run at a time, as far as known."""

    @abstractmethod
    def tagged(self, session: SparkSession, tag: str) -> AbstractContextManager[None]:
        """Give a tag to all jobs that this thread starts in the session."""

    @abstractmethod
    def cancel(self, tag: str) -> None:
        """Cancel the jobs with this tag that have started; does nothing if there are none."""

    @abstractmethod
    def tasks(self, tag: str) -> tuple[int, int]:
        """Return (tasks done, tasks in all) of the jobs with this tag, as far as they are planned."""

    @abstractmethod
    def running(self, tag: str) -> int:
        """Return how many tasks of the jobs with this tag run, as far as known; killed ones that have not ended included."""

    @abstractmethod
    def forget(self) -> None:
        """Drop broken sessions; the next query starts or asks for new ones."""

    @abstractmethod
    def close(self) -> None:
        """End all sessions."""


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
"""Settings of a session that the translation in `sql.py` relies on: they decide what a statement means."""
