"""Fixtures that more than one room needs."""

from __future__ import annotations

import atexit
import fcntl
import gc
import os
import subprocess
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings

from tests.support.differing import write_after
from tests.support.examples import examples
from tests.support.paths import CORPUS

if TYPE_CHECKING:
    from tests.support.objectstore import ObjectStore, Proxy

# The tests start a hundred processes: each would compile all modules anew where the environment keeps no bytecode.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Each client of httpx reads all authorities that sign certificates, which takes 20 ms, a thousand times. Here one is enough.
os.environ["SSL_CERT_FILE"] = str(Path(__file__).parent / "support" / "authority.pem")

# Whichever test comes first: Python's values of nanoseconds need pandas, and a command run in this process would hide it.
pa.scalar(None)

# Python's own (700, 10, 10) cost a tenth of the time of all tests: most of what they make is gone without a collector.
_GARBAGE_THRESHOLDS = (20_000, 20, 50)

# The first example of a type waits for the compiler, and machines differ: no deadlines, neither for a test nor for its examples.
settings.register_profile(
    "tests", deadline=None, max_examples=examples(50), suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("tests")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keeps the garbage collector away from what is loaded and collected.

    It stays to the end, and looking through it again and again takes a quarter of the time of all tests.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        gc.set_threshold(*_GARBAGE_THRESHOLDS)
        atexit.register(gc.unfreeze)  # DuckDB complains of what is left at the end


@pytest.fixture(scope="session")
def after(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The later one of two savepoints that differ, as `tests.support.differing` says."""
    return write_after(tmp_path_factory.mktemp("differing"))


@pytest.fixture(scope="session")
def compiled_decoder(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Nothing is left to compile: else the first processes say so, and wait for it, where tests read what they write."""
    from readers import missing_units

    # Processes of tests share the folder above.
    with (tmp_path_factory.getbasetemp().parent / "compiling.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if missing_units():
            subprocess.run([sys.executable, "-m", "service.cli", "compile"], check=True, capture_output=True)


@pytest.fixture(scope="session")
def corpus() -> Path:
    """A folder of savepoints written by real Flink, larger than tests/data; skips where there is none.

    Named by the environment variable SAVEPOINTDB_CORPUS, or `shared/corpus` beside the project.
    """
    if not CORPUS.is_dir():
        pytest.skip("no corpus of savepoints; set SAVEPOINTDB_CORPUS")
    return CORPUS


@pytest.fixture(scope="session")
def store() -> Iterator[ObjectStore]:
    """An object store in this process."""
    from tests.support.objectstore import KEY_VARIABLES, object_store  # slow to load, and not needed by most

    with pytest.MonkeyPatch.context() as patch, object_store() as found:
        for name, value in KEY_VARIABLES.items():
            patch.setenv(name, value)
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        yield found


@pytest.fixture
def proxy(store: ObjectStore) -> Iterator[Proxy]:
    """What stands between the store and a test: counts its requests, and spoils answers if told to."""
    from catalog.references import open_savepoint
    from readers.storage import remote

    with store.proxy() as found:
        yield found
    # Each connection of a client takes three open files, and a process may have had a thousand.
    open_savepoint.cache_clear()
    remote._client.cache_clear()
