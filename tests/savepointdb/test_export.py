"""Exports from Python."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyarrow import parquet

import savepointdb
from tests.support.paths import DATA

WORDCOUNT = DATA / "flink/2.3.0/wordcount-rocksdb-savepoints/native"


def test_tables_become_files(tmp_path: Path) -> None:
    with savepointdb.connect(WORDCOUNT) as connection:
        done = connection.export(tmp_path / "to", tables=["aggregate__count", "operators"])
        again = connection.export(tmp_path / "to", tables=["aggregate__count", "operators"])
        wanted = connection["aggregate__count"].scan().to_arrow()

    (savepoint,) = done.savepoints
    (file,) = savepoint.tables[0].files
    assert parquet.read_table(tmp_path / "to" / file.path).num_rows == wanted.num_rows == file.rows
    assert [table.name for table in savepoint.tables] == ["aggregate__count", "operators"]
    assert (list(again.savepoints), list(again.known)) == ([], ["native"])
    assert "2 tables" in repr(done)


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        savepointdb.InvalidRequestError, match="expected one of parquet, iceberg, delta, found 'csv'"
    ):
        savepointdb.export(WORDCOUNT, tmp_path / "to", "csv")
    with pytest.raises(savepointdb.InvalidRequestError, match="expected one of _key_group"):
        savepointdb.export(WORDCOUNT, tmp_path / "to", partition_by="key")
    with pytest.raises(savepointdb.ConflictError, match="savepoints are only read"):
        savepointdb.export(WORDCOUNT, WORDCOUNT / "inside")
    assert not (tmp_path / "to").exists()
