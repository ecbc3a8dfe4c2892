"""Builds the Maven project beside this file, and writes the savepoints with it.

A data set is a folder for each number of keys:

| name | content | keys |
|---|---|---|
| truth.json | the totals | all |
| hashmap-canonical | a canonical savepoint of the hashmap backend | up to 2 million: the heap has to hold them |
| rocksdb-canonical | the same of RocksDB: the same layout | all |
| rocksdb-native | a native savepoint of RocksDB | all |
| rocksdb-incremental | the second of two incremental checkpoints, with the files it shares with the first | all |
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VERSIONS = ("2.3.0", "2.2.0")
MOST_KEYS_ON_HEAP = 2_000_000
_HERE = Path(__file__).parent
_KINDS = {
    "rocksdb": ("rocksdb-canonical", "rocksdb-native", "rocksdb-incremental"),
    "hashmap": ("hashmap-canonical",),
}
_LAST_KIND = {"rocksdb": "rocksdb-native", "hashmap": "hashmap-canonical"}
# Flink's closure cleaner and serializers look into these packages.
_OPENED = ("java.lang", "java.util")
_HEAP_MIB = {"rocksdb": 2048, "hashmap": 5120}


class FlinkNotAvailableError(Exception):
    """The peers cannot run here; the message names what is missing."""


@dataclass(frozen=True, slots=True)
class DataSet:
    """The savepoints of one number of keys.

    Attributes:
        folder: of the savepoints.
        keys: how many keys they have.
    """

    folder: Path
    keys: int

    def savepoint(self, kind: str) -> Path:
        """Return the directory of a savepoint, without links: Flink would take their names for the job's."""
        return (self.folder / kind).resolve()

    def has(self, kind: str) -> bool:
        """Return whether a savepoint was written."""
        return (self.folder / kind / "_metadata").exists()

    def size_bytes(self, kind: str) -> int:
        """Return the size of a savepoint; that of a checkpoint includes the files that it shares with others."""
        savepoint = self.savepoint(kind)
        folder = savepoint.parent if kind.endswith("incremental") else savepoint
        return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())

    def truth(self) -> dict[str, Any]:
        """Return the totals that the job added up."""
        known: dict[str, Any] = json.loads((self.folder / "truth.json").read_text(encoding="utf-8"))
        return known


class Flink:
    """The peers, built for every version.

    Raises:
        FlinkNotAvailableError: there is no Java 17 or no Maven, or the build fails.
    """

    def __init__(self) -> None:
        missing = [program for program in ("java", "mvn") if shutil.which(program) is None]
        if missing:
            raise FlinkNotAvailableError(
                f"expected Java 17 or newer and Maven, found no {' and no '.join(missing)}"
            )
        self._paths = {version: _built(version) for version in VERSIONS}

    def command(self, version: str, program: str, arguments: Sequence[str], heap_mib: int) -> list[str]:
        """Return the command that runs one of the programs."""
        opened = [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENED]
        return [
            *(
                "java",
                f"-Xmx{heap_mib}m",
                "-Duser.timezone=UTC",
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
            ),
            *(*opened, "-classpath", self._paths[version], f"savepointdb.peers.{program}", *arguments),
        ]

    def write(self, data: DataSet) -> None:
        """Write the missing savepoints.

        Raises:
            FlinkNotAvailableError: the job fails.
        """
        data.folder.mkdir(parents=True, exist_ok=True)
        for backend, last in _LAST_KIND.items():
            if data.has(last) or (backend == "hashmap" and data.keys > MOST_KEYS_ON_HEAP):
                continue
            _clear(data.folder, backend)
            print(f"writing {data.keys:,} keys with Flink on {backend}", flush=True)
            arguments = [str(data.folder), str(data.keys), backend]
            command = self.command(VERSIONS[0], "Generate", arguments, _HEAP_MIB[backend])
            ended = subprocess.run(command, capture_output=True, text=True)
            if ended.returncode:
                raise FlinkNotAvailableError(f"expected Flink to write savepoints: {ended.stderr[-2000:]}")


def _clear(folder: Path, backend: str) -> None:
    """Remove the rest of a run that was killed."""
    for name in _KINDS[backend]:
        path = folder / name
        if path.is_symlink():
            path.unlink()
        else:
            shutil.rmtree(path, ignore_errors=True)
    for work in folder.glob("work-*"):
        shutil.rmtree(work, ignore_errors=True)
    if backend == "rocksdb":
        shutil.rmtree(folder / "checkpoints", ignore_errors=True)


def _built(version: str) -> str:
    """Build the project for a version of Flink; return its class path."""
    target = _HERE / "target" / version
    # A file each run: two runs may build at the same time.
    listed = target / f"classpath-{os.getpid()}"
    command = ["mvn", "--batch-mode", "--quiet", "-Dstyle.color=never", "--file", str(_HERE / "pom.xml")]
    command += [f"-Dflink.version={version}", f"-Dmdep.outputFile={listed}"]
    command += ["compile", "dependency:build-classpath"]
    try:
        ended = subprocess.run(command, capture_output=True, text=True)
        if ended.returncode:
            raise FlinkNotAvailableError(f"expected Maven to build the peers: {ended.stdout[-2000:]}")
        return f"{target / 'classes'}:{listed.read_text(encoding='utf-8')}"
    finally:
        listed.unlink(missing_ok=True)
