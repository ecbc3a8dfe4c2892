"""The sides that answer questions, and their commands.

| side | program |
|---|---|
| ours | savepointdb in a process of its own, timed from opening the savepoint to the last row |
| process | `savepointdb query`, from start to end |
| spa-buf, spa-file | Flink's State Processor API, over a file system with a read buffer, and over `file://` |
| sql-buf, sql-file | Flink's SQL connector `savepoint`, in the same two ways |

The SQL connector of Flink 2.3.0 does not read native savepoints of RocksDB, that of 2.2.0 does.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.flink import DataSet, Flink
from benchmarks.peers.questions import KEY, QUESTIONS

OURS, PROCESS = "ours", "process"
NEWEST, READS_NATIVE = "2.3.0", "2.2.0"
UNBUFFERED = frozenset({"spa-file", "sql-file"})
TITLES = {
    OURS: "savepointdb, in process",
    PROCESS: "savepointdb query",
    "spa-buf": "State Processor API, buffered",
    "spa-file": "State Processor API, file://",
    "sql-buf": "SQL connector, buffered",
    "sql-file": "SQL connector, file://",
}
_SPA = ("spa-buf", "spa-file")
_SQL = ("sql-buf", "sql-file")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A question about a savepoint, and the sides that answer it."""

    question: str
    kind: str
    sides: tuple[str, ...]


CASES = (
    *(
        Case(question=question, kind=kind, sides=(OURS, PROCESS, *_SPA, *_SQL))
        for kind in ("hashmap-canonical", "rocksdb-native")
        for question in ("count", "key", "group")
    ),
    Case(question="days", kind="hashmap-canonical", sides=(OURS, PROCESS, *_SPA, *_SQL)),
    Case(question="days", kind="rocksdb-native", sides=(OURS, PROCESS, *_SPA)),
    Case(question="parquet", kind="hashmap-canonical", sides=(OURS, *_SPA, *_SQL)),
    Case(question="parquet", kind="rocksdb-native", sides=(OURS, *_SPA)),
    Case(question="count", kind="rocksdb-incremental", sides=(OURS, PROCESS, "spa-file")),
    Case(question="metadata", kind="hashmap-canonical", sides=(OURS, PROCESS, "sql-buf")),
    Case(question="metadata", kind="rocksdb-native", sides=(OURS, PROCESS, "sql-file")),
    Case(question="again", kind="hashmap-canonical", sides=(OURS,)),
    Case(question="again", kind="rocksdb-native", sides=(OURS,)),
)
GROWTH = (
    Case(question="count", kind="rocksdb-canonical", sides=(OURS, "spa-buf")),
    Case(question="key", kind="rocksdb-canonical", sides=(OURS,)),
    Case(question="count", kind="rocksdb-native", sides=(OURS, "spa-buf")),
    Case(question="key", kind="rocksdb-native", sides=(OURS,)),
    Case(question="days", kind="rocksdb-canonical", sides=(OURS,)),
)


def command_of(side: str, case: Case, data: DataSet, output: Path, flink: Flink | None) -> Sequence[str]:
    """Return the command with which a side answers the question of a case.

    Args:
        side: one of the case's.
        case: the question.
        data: the savepoints.
        output: a folder for Parquet files, empty.
        flink: the peers; needed for their sides.
    """
    savepoint = data.savepoint(case.kind)
    if side == OURS:
        arguments = ["--question", case.question, "--output", str(output), str(savepoint)]
        return [sys.executable, "-m", "benchmarks.peers.ours", *arguments]
    if side == PROCESS:
        sql = QUESTIONS[case.question].sql
        command = [sys.executable, "-m", "service.cli", "query", sql, "--format", "json"]
        return [*command, "--savepoint", str(savepoint)]
    assert flink is not None
    reader, _, access = side.partition("-")
    backend = "hashmap" if case.kind.startswith("hashmap") else "rocksdb"
    version = READS_NATIVE if reader == "sql" and backend == "rocksdb" else NEWEST
    # The heap backend holds all rows as objects, which limits the number of keys.
    heap_mib = 1024 if backend == "rocksdb" else max(1024, data.keys * 5000 // 2_000_000)
    location = ("buf://" if access == "buf" else "file://") + str(savepoint)
    arguments = [reader, case.question, location, backend, KEY, str(output)]
    return flink.command(version, "Peer", arguments, heap_mib)
