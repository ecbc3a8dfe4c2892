"""The retained checkpoints of a job whose changes are known: a real savepoint, and what scripts make of it."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import savepointdb
from tests.support.checkpoints import NOON
from tests.support.differing import BEFORE

TABLE = "aggregate__count"
# Checkpoint → the script that makes it of the one before.
SCRIPTS = {
    2: f"UPDATE {TABLE} SET value = value + 1 WHERE key IN ('key_662', 'key_1'); DELETE FROM {TABLE} WHERE key = 'key_0'",
    3: f"UPDATE {TABLE} SET value = value + 1 WHERE key = 'key_662'; INSERT INTO {TABLE} (key, value) VALUES ('new', 5)",
    4: f"DELETE FROM {TABLE} WHERE key = 'new'",
}
# Of each checkpoint: change, key, value before, value after.
CHANGES: dict[int, list[tuple[str, str, int | None, int | None]]] = {
    2: [("changed", "key_1", 2, 3), ("changed", "key_662", 11290, 11291), ("removed", "key_0", 1, None)],
    3: [("added", "new", None, 5), ("changed", "key_662", 11291, 11292)],
    4: [("removed", "new", 5, None)],
}


def make(job: Path, number: int, source: Path, script: str, *, folder: str | None = None) -> Path:
    """Write a checkpoint of a job from another one.

    Args:
        job: the folder of its checkpoints.
        number: of the checkpoint.
        source: the one before.
        script: what it changes.
        folder: its name; `chk-<number>` if not given.
    """
    job.mkdir(parents=True, exist_ok=True)
    target = job / (folder or f"chk-{number}")
    with savepointdb.connect(source) as connection:
        connection.write(target, script)
    return numbered(target, number)


def numbered(checkpoint: Path, number: int) -> Path:
    """Give a checkpoint a number and a time of its own: a written one has those of its source."""
    metadata = checkpoint / "_metadata"
    content = bytearray(metadata.read_bytes())
    content[8:16] = struct.pack(">q", number)
    metadata.write_bytes(content)
    os.utime(metadata, (NOON + number, NOON + number))
    return checkpoint


def make_job(job: Path, last: int = 4) -> Path:
    """Write the checkpoints 1 to `last` of a job."""
    make(job, 1, BEFORE, f"UPDATE {TABLE} SET value = 2 WHERE key = 'key_1'")
    for number in range(2, last + 1):
        make(job, number, job / f"chk-{number - 1}", SCRIPTS[number])
    return job
