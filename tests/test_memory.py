"""A scan takes no more memory for more data: measured in processes of their own, on savepoints of hundreds of megabytes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from catalog.kernels import COMPILED_UNITS
from readers.compiled.kernel import compile_all
from tools.synthetic.onekey import (
    write_large_values,
    write_large_values_heap,
    write_large_values_native,
    write_one_key_heap,
    write_one_key_heap_packed,
    write_one_key_native,
    write_one_key_packed,
)
from tools.synthetic.savepoints import write_one_key, write_savepoint

MOST_MIB = 400
# LLVM loads the compiled kernels, and its code stays in the memory of the process.
LLVM_MIB = 50
ENTRIES = 10_000_000
BEGINNING = """
from service.base.machine import keep_little
keep_little()
import json, sys
from contextlib import closing
from pathlib import Path
import catalog
from service.query.encode import FORMATS
from service.query.engines.duckdb.engine import DuckDBEngine
from service.query.serving.registry import Queries
from service.query.running.request import QueryRequest
from service.base.settings import Settings

settings = Settings.of(timeout_s=600.0, threads=2)
with closing(Queries(catalog.connect(sys.argv[1]), {"duckdb": DuckDBEngine(settings)}, settings)) as queries:
    with queries.start(QueryRequest(sql=sys.argv[2])) as query:
"""
QUERY = """
        rows = [[int(value) for value in row.values()] for batch in query.batches() for row in batch.to_pylist()]
"""
EXPORT = """
        with open(sys.argv[3], "wb") as file:
            file.writelines(FORMATS["parquet"].write(query.columns, query.schema, query.batches()))
        from pyarrow import parquet
        rows = [[parquet.read_metadata(sys.argv[3]).num_rows]]
"""
END = """
status = Path("/proc/self/status").read_text()
peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))
print(json.dumps([rows, peak / 1024]))
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc"),
]


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """What the processes load: a compiler would be the most of their memory."""
    compile_all(COMPILED_UNITS)


def asked(savepoint: Path, sql: str) -> tuple[list[list[int]], float]:
    """The rows, and the peak memory in MiB."""
    return ran(QUERY, savepoint, sql)


def ran(program: str, *arguments: object) -> tuple[list[list[int]], float]:
    """What a program finds, and its peak memory in MiB."""
    command = [sys.executable, "-c", BEGINNING + program + END, *map(str, arguments)]
    rows, peak_mib = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return rows, peak_mib


@pytest.mark.parametrize(
    ("write", "size_bytes"),
    [
        (write_one_key, 340_000_000),
        (write_one_key_native, 100_000_000),
        (write_one_key_heap, 180_000_000),
        (write_one_key_packed, 340_000_000),
        (write_one_key_heap_packed, 180_000_000),
    ],
    ids=["canonical", "RocksDB", "heap", "canonical, compressed", "heap, compressed"],
)
def test_a_map_of_ten_million_entries_under_one_key_is_read_in_bounded_memory(
    write: Callable[[Path, int], int], size_bytes: int, tmp_path: Path
) -> None:
    assert write(tmp_path / "savepoint", ENTRIES) > size_bytes

    rows, peak_mib = asked(
        tmp_path / "savepoint",
        "SELECT count(*), sum(value), count(DISTINCT key), max(map_key)::BIGINT FROM aggregate__perDay",
    )

    assert rows == [[ENTRIES, ENTRIES * (ENTRIES - 1) // 2, 1, ENTRIES - 1]]
    assert peak_mib < MOST_MIB


def test_more_keys_take_no_more_memory(tmp_path: Path) -> None:
    peaks = []
    for keys in (500_000, 2_500_000):
        write_savepoint(tmp_path / str(keys), keys)
        rows, peak_mib = asked(tmp_path / str(keys), "SELECT count(*), sum(value.id) FROM aggregate__account")
        assert rows == [[keys, keys * (keys - 1) // 2]]
        peaks.append(peak_mib)

    assert peaks[1] < MOST_MIB
    assert peaks[1] < 1.2 * peaks[0]


@pytest.mark.parametrize(
    ("write", "keys", "most"),
    [(write_large_values, 12, 6), (write_large_values_heap, 12, 7), (write_large_values_native, 24, 20)],
    ids=["canonical", "heap", "RocksDB"],
)
def test_values_of_a_hundred_megabytes_take_some_of_them(
    write: Callable[[Path, int, int], int], keys: int, most: int, tmp_path: Path
) -> None:
    """Of all there are two of each of two threads, one as bytes and as text, and the one before it, which DuckDB still keeps.

    Of RocksDB there are some more, as blocks and in a page.
    """
    value_bytes = 100_000_000
    assert write(tmp_path / "savepoint", keys, value_bytes) > keys * value_bytes

    rows, peak_mib = asked(
        tmp_path / "savepoint",
        "SELECT count(*), sum(strlen(value)), max(strlen(value)) FROM aggregate__events",
    )

    assert rows == [[keys, keys * value_bytes, value_bytes]]
    assert peak_mib < MOST_MIB + most * value_bytes / (1 << 20)


def test_an_export_of_values_of_a_hundred_megabytes_takes_some_of_them(tmp_path: Path) -> None:
    keys, value_bytes = 12, 100_000_000
    write_large_values(tmp_path / "savepoint", keys, value_bytes)

    rows, peak_mib = ran(EXPORT, tmp_path / "savepoint", "SELECT * FROM aggregate__events", tmp_path / "file")

    assert rows == [[keys]]
    assert peak_mib < MOST_MIB + 8 * value_bytes / (1 << 20)


def test_an_export_of_more_keys_takes_no_more_memory(tmp_path: Path) -> None:
    peaks = []
    for keys in (500_000, 2_500_000):
        write_savepoint(tmp_path / str(keys), keys, ("events",))
        rows, peak_mib = ran(
            EXPORT, tmp_path / str(keys), "SELECT * FROM aggregate__events", tmp_path / "file"
        )
        assert rows == [[3 * keys]]
        peaks.append(peak_mib)

    assert peaks[1] < MOST_MIB
    assert peaks[1] < 1.2 * peaks[0]


WRITE = """
from service.base.machine import keep_little
keep_little()
import json, sys
from pathlib import Path
from service.cli import main
rows = main(["write", *sys.argv[1:]])
"""


@pytest.mark.parametrize(
    ("script", "rows"),
    [
        ("UPDATE aggregate__count SET key = key || 'x'", [2_000_000, 2_000_000]),
        (
            "DELETE FROM aggregate__count USING (SELECT key, value FROM aggregate__count UNION ALL "
            "SELECT key, value + 1 AS value FROM aggregate__count) s "
            "WHERE s.key = aggregate__count.key AND s.value = aggregate__count.value AND s.value % 2 = 0",
            [1_076_923, 0],
        ),
    ],
    ids=["keys change", "a join"],
)
def test_a_write_takes_bounded_memory(script: str, rows: list[int], tmp_path: Path) -> None:
    write_savepoint(tmp_path / "savepoint", 2_000_000, ("count",))

    effect, peak_mib = written(tmp_path / "savepoint", script, tmp_path / "new")

    assert [effect["removed"], effect["added"]] == rows
    assert peak_mib < MOST_MIB + LLVM_MIB


def test_a_write_of_more_rows_takes_no_more_memory(tmp_path: Path) -> None:
    peaks = []
    for keys in (500_000, 6_000_000):
        write_savepoint(tmp_path / str(keys), keys, ("count",))
        script = "UPDATE aggregate__count SET value = value + 1"
        effect, peak_mib = written(tmp_path / str(keys), script, tmp_path / f"new-{keys}")
        assert effect["changed"] == keys
        peaks.append(peak_mib)

    assert peaks[1] < MOST_MIB
    assert peaks[1] < 1.2 * peaks[0]


def written(savepoint: Path, script: str, target: Path) -> tuple[dict[str, Any], float]:
    """What the only statement of a script did, and the peak memory in MiB."""
    program = [sys.executable, "-c", WRITE + END.replace("json.dumps([rows", "'\\n' + json.dumps([rows")]
    command = [*program, str(savepoint), script, "--json", "--to", str(target)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    report, _, peak = ended.stdout.rpartition("\n\n")
    [effect] = json.loads(report)["statements"]
    code, peak_mib = json.loads(peak)
    assert code == 0
    return effect, peak_mib
