"""A savepoint with a file of many bytes, so that a write takes long enough to be ended in the middle."""

from __future__ import annotations

import shutil
from pathlib import Path

from readers import Savepoint
from tests.support.paths import DATA

SOURCE = DATA / "flink" / "1.20.3" / "everything-rocksdb-savepoints" / "native"
SCRIPT = "DROP TABLE broadcast"
"""A script that reads none of the files."""


def with_large_file(folder: Path, size_bytes: int) -> Path:
    """Copy a savepoint of real Flink, and give one of its files so many bytes, most of which take no space."""
    shutil.copytree(SOURCE, folder)
    files = (one for one in Savepoint(folder).metadata.streams() if one.path is not None)
    stream = max(files, key=lambda one: one.size_bytes)
    file = folder / Path(str(stream.path)).name
    metadata = folder / "_metadata"
    # A handle is the name of its file, then the size.
    before = file.name.encode() + stream.size_bytes.to_bytes(8, "big")
    after = file.name.encode() + size_bytes.to_bytes(8, "big")
    data = metadata.read_bytes()
    assert before in data
    metadata.write_bytes(data.replace(before, after))
    with file.open("r+b") as opened:
        opened.truncate(size_bytes)
    return folder
