"""What tests of exports share: the command, and what it has written."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from catalog import connect
from readers import json_text
from service.cli import main

NAMESPACE = "job"
"""The namespace of tables that keep several checkpoints."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a command."""

    code: int
    out: str
    err: str


@pytest.fixture
def export(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """Run `savepointdb export`."""

    def run(source: Path | str, target: Path | str, *options: str) -> Ended:
        code = main(["export", str(source), "--to", str(target), "--no-cache", *options])
        return Ended(code, *capsys.readouterr())

    return run


def manifest_of(folder: Path) -> dict[str, Any]:
    """The manifest of an export."""
    found: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    return found


def tables_of(folder: Path) -> dict[str, dict[str, Any]]:
    """The tables of the only savepoint of an export, by their names."""
    (savepoint,) = manifest_of(folder)["savepoints"]
    return {table["name"]: table for table in savepoint["tables"]}


def read(folder: Path, table: dict[str, Any]) -> pa.Table:
    """The rows of all files of a table, each read by itself."""
    return pa.concat_tables([parquet.ParquetFile(folder / file["path"]).read() for file in table["files"]])


def expected(source: Path, table: str) -> pa.Table:
    """The rows of a table of a savepoint."""
    database = connect(str(source)).newest
    assert database is not None
    return database.table(table).scan().to_arrow()


def rows(table: pa.Table) -> list[str]:
    """Rows as JSON, in an order that does not depend on files: Python has no dates beyond the year 9999."""
    found: list[str] = []
    for batch in table.to_batches():
        found += json_text(batch.to_struct_array()).to_pylist()
    return sorted(found)


@contextmanager
def iceberg_table(target: Path, folder: str, checkpoint: int) -> Iterator[tuple[Any, int]]:
    """A table of Iceberg in `NAMESPACE`, and the snapshot of a checkpoint."""
    from pyiceberg.catalog import load_catalog

    catalog = load_catalog("savepointdb", type="sql", uri=f"sqlite:///{target}/catalog.db")
    try:
        table = catalog.load_table((NAMESPACE, folder))
        ids = {
            one.summary["savepointdb.checkpoint-id"]: one.snapshot_id
            for one in table.snapshots()
            if one.summary
        }
        yield table, ids[str(checkpoint)]
    finally:
        catalog.close()


def delta_table(target: Path, folder: str, checkpoint: int) -> Any:
    """A table of Delta in `NAMESPACE`, as of a checkpoint."""
    from deltalake import DeltaTable

    path = target / NAMESPACE / folder
    versions = {one["savepointdb.checkpoint-id"]: one["version"] for one in DeltaTable(path).history()}
    return DeltaTable(path, version=versions[str(checkpoint)])
