"""Checks before Spark starts, so that what is missing is one clear error at once.

Spark itself tries to reach a master for a minute, and reports a missing or old Java only as a gateway that has exited.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import socket
import subprocess

from service.base.errors import EngineUnavailableError

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
