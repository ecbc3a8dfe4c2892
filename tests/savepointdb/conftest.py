"""Connections of the Python face."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import savepointdb
from tests.support.paths import DATA

WORDCOUNT = DATA / "flink" / "2.3.0" / "wordcount-rocksdb-savepoints" / "native"


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keeps the tests away from the user's cache of decoded states."""
    monkeypatch.setenv("SAVEPOINTDB_CACHE_DIRECTORY", str(tmp_path / "states"))


@pytest.fixture
def db() -> Iterator[savepointdb.Connection]:
    with savepointdb.connect(WORDCOUNT) as connected:
        yield connected
