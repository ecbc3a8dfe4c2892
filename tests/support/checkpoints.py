"""Checkpoints of one job that Flink wrote, copied into folders as jobs have them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests.support.paths import DATA

CHECKPOINTS = DATA / "flink" / "2.3.0" / "wordcount-rocksdb-checkpoint-incremental" / "checkpoint"
NOON = 1_788_264_000
"""2026-09-01T12:00:00Z."""
COUNTS = {1: 6774, 2: 11290}
"""Number of the checkpoint → the count of `key_662` in it."""


def put(folder: Path, number: int = 1, modified_s: int | None = None) -> Path:
    """Copy a checkpoint to a folder, with the files that both checkpoints share beside it."""
    shutil.copytree(CHECKPOINTS / "shared", folder.parent / "shared", dirs_exist_ok=True)
    shutil.copytree(CHECKPOINTS / f"chk-{number}", folder)
    modified_s = NOON + number if modified_s is None else modified_s
    os.utime(folder / "_metadata", (modified_s, modified_s))
    return folder
