"""Snapshots of `tests/data/snapshots`: real Flink's files and what they hold, packed, for a changelog compresses a hundredfold."""

from __future__ import annotations

import tarfile
from pathlib import Path

from tests.support.expected import Snapshot, snapshots_of
from tests.support.paths import DATA

ARCHIVES = DATA / "snapshots"


def unpacked(archive: str, folder: Path) -> Snapshot:
    """The one snapshot in `<archive>.tar.xz`, unpacked into `folder`."""
    with tarfile.open(ARCHIVES / f"{archive}.tar.xz") as tar:
        if hasattr(tarfile, "data_filter"):  # since 3.11.4
            tar.extraction_filter = tarfile.data_filter
        tar.extractall(folder)
    (snapshot,) = snapshots_of(folder)
    return snapshot
