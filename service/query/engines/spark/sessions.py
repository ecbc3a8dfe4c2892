"""The settings of Spark, parsed from those of the service.

| setting | Spark runs |
|---|---|
| none | in a JVM of its own on this machine, with all cores |
| `spark_master` | on a cluster: `spark://…`, `k8s://…`, `yarn`; or on this machine: `local[2]` |
| `spark_remote` | on a Spark Connect server: `sc://…` |

Spark's sessions: one for each query, of a JVM of ours (`jvm.py`) or of a Spark Connect server (`connect.py`).

Checks before Spark starts, so that what is missing is one clear error at once.

Spark itself tries to reach a master for a minute, and reports a missing or old Java only as a gateway that has exited.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import shutil
import socket
import subprocess
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from service.base.errors import EngineUnavailableError
from service.base.settings import InvalidSettingError, Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    """Settings of Spark: its place and its options.

    Attributes:
        master: Spark's master; empty for this machine.
        remote: address of a Spark Connect server, in place of a master; empty for none.
        python: path of Python on the workers; empty for the path of this one.
        options: further settings of Spark.
        export_directory: folder to which executors write answers that are too long for the driver; it has the same path
            for them and for this process. Empty for a temporary one, which works on this machine only.
        threshold_bytes: bytes above which a query goes to the cluster; None for the memory of this machine.
    """

    master: str = ""
    remote: str = ""
    python: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    export_directory: str = ""
    threshold_bytes: int | None = None

    @property
    def is_local(self) -> bool:
        """True if Spark runs on this machine, in a JVM of this process."""
        return not self.remote and (not self.master or self.master.startswith("local"))

    @property
    def address(self) -> str:
        """The address for people: without the parameters of a Connect server, which may have a token."""
        return self.remote.partition("/;")[0] or self.master or "local[*]"


def spark_settings(settings: Settings) -> SparkSettings:
    """Parse the group `spark` of the service's settings.

    Raises:
        InvalidSettingError: `spark_options` are not NAME=VALUE, or both a master and a Connect server are set.
    """
    given = settings.spark
    if given.master and given.remote:
        raise InvalidSettingError("expected spark_master or spark_remote, found both")
    parsed = {"options": _parsed_options(given.options), "threshold_bytes": given.threshold_bytes or None}
    return SparkSettings(**(vars(given) | parsed))


def _parsed_options(text: str) -> dict[str, str]:
    try:
        pairs = [word.partition("=") for word in shlex.split(text)]
    except ValueError as error:
        raise InvalidSettingError(f"spark_options: {error}") from error
    # A name without `spark.` is one of another program: Spark ignores it silently.
    for name, separator, _ in pairs:
        if not (name.startswith("spark.") and separator):
            raise InvalidSettingError(f"spark_options: expected spark.NAME=VALUE, found {name + separator!r}")
    return {name: value for name, _, value in pairs}


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


DUCKDB_GOES_ON = 'ask for "engine": "duckdb", which needs nothing else'
_OLDEST_JAVA = 17
# Java 8 calls itself 1.8.
_JAVA_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_CONNECT_S = 5.0
_CONNECT_PORT = 15002
_ADDRESS = re.compile(r"(?P<host>[^:/,;]+|\[[^\]]+\]):(?P<port>\d+)")
_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


def quiet() -> None:
    """Have pyspark log no errors: it raises them as well."""
    for name in _LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)


def check_java() -> None:
    """Check that there is a Java on which Spark runs.

    Raises:
        EngineUnavailableError: there is no Java, or it is too old.
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
    """Check that a server listens at `spark://…` or `sc://…`; pass over other addresses.

    Raises:
        EngineUnavailableError: no server listens there.
    """
    if not address.startswith(("spark://", "sc://")):
        return
    failures = []
    scheme, _, rest = address.partition("://")
    hosts = rest.partition("/")[0]
    if scheme == "sc" and not _ADDRESS.search(hosts):
        hosts += f":{_CONNECT_PORT}"
    # Masters may be several, with commas: one that listens is enough.
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
