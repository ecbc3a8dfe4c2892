"""Unpacks archives of `tests/data/versions`, such as `jobs`: what jobs of Flink 1.7 to 1.13 wrote, and what they put in."""

from __future__ import annotations

import io
import lzma
import tarfile
from pathlib import Path

from tests.support.paths import DATA


def unpack_old(folder: Path, archive: str = "jobs") -> Path:
    """Unpack an archive into a folder, and return the folder."""
    data = lzma.decompress((DATA / "versions" / f"{archive}.tar.xz").read_bytes())
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        tar.extractall(folder, filter="data")
    return folder
