"""Fixtures that more than one room needs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# The first example of a type waits for the compiler, and machines differ: no deadlines.
settings.register_profile("tests", deadline=None)
settings.load_profile("tests")

PROJECT = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def corpus() -> Path:
    """A folder of savepoints written by real Flink, larger than tests/data; skips where there is none.

    Named by the environment variable SAVEPOINTDB_CORPUS, or `shared/corpus` beside the project.
    """
    folder = Path(os.environ.get("SAVEPOINTDB_CORPUS", PROJECT.parent / "shared" / "corpus"))
    if not folder.is_dir():
        pytest.skip("no corpus of savepoints; set SAVEPOINTDB_CORPUS")
    return folder
