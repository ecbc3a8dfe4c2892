"""Savepoints that every door is asked about."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.doors import Door, doors_over
from tests.support.paths import DATA

SAMPLES = DATA / "flink" / "2.3.0" / "wordcount-rocksdb-savepoints"
NATIVE, CANONICAL = SAMPLES / "native", SAMPLES / "canonical"


@pytest.fixture(scope="session")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A savepoint whose `_metadata` is cut."""
    folder = tmp_path_factory.mktemp("conformance") / "broken"
    shutil.copytree(NATIVE, folder)
    content = (folder / "_metadata").read_bytes()
    (folder / "_metadata").write_bytes(content[: len(content) // 2])
    return folder


@pytest.fixture(scope="session")
def doors(broken: Path) -> Iterator[dict[str, Door]]:
    """All doors over the savepoints of this module."""
    with doors_over(NATIVE, CANONICAL, broken) as opened:
        yield opened
