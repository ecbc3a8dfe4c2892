"""Exports with masks: the rows of Iceberg and Delta are the masked ones, and no byte of any file has a text that a mask hides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from catalog import Catalog, Root
from catalog.masks.masks import Masks
from readers import json_text
from tests.service.tasks.copies.export.conftest import delta_table, iceberg_table, rows
from tests.support.paths import DATA

SOURCE = DATA / "flink/2.3.0/wordcount-rocksdb-checkpoint-incremental/checkpoint"
JOB = "checkpoint"
TABLES = ("aggregate__count", "mod7-no-uid__seen", "source_offsets", "timers")
MASKS = """version = 1
secret_file = "mask.key"
[[mask]]
columns = ["aggregate.key"]
with = "pseudonym"
[[mask]]
columns = ["aggregate.value"]
with = "bucket(10)"
[[mask]]
columns = ["source_offsets.topic", "source.value.**"]
with = "null"
"""
SHORTEST = 6


@pytest.fixture
def masks(tmp_path: Path) -> Path:
    (tmp_path / "mask.key").write_text("a secret of the tests")
    (tmp_path / "masks.toml").write_text(MASKS, encoding="utf-8")
    return tmp_path / "masks.toml"


def iceberg_rows(target: Path, table: str, checkpoint: int) -> pa.Table:
    with iceberg_table(target, table, checkpoint) as (found, snapshot):
        return found.scan(snapshot_id=snapshot).to_arrow()


def delta_rows(target: Path, table: str, checkpoint: int) -> pa.Table:
    return delta_table(target, table, checkpoint).to_pyarrow_table()


def content(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """What is in the files of a folder: their bytes, and of those that are compressed what they hold."""
    for path in sorted(one for one in folder.rglob("*") if one.is_file()):
        yield path, path.read_bytes()
        if path.suffix == ".parquet":
            held = parquet.ParquetFile(path).read()
            texts = [json_text(one).to_pylist() for batch in held.to_batches() for one in batch.columns]
            yield path, repr(texts).encode()
        elif path.suffix == ".avro":
            from pyiceberg.avro.file import AvroFile
            from pyiceberg.io.pyarrow import PyArrowFileIO

            with AvroFile[Any](PyArrowFileIO().new_input(str(path))) as records:
                yield path, repr(list(records)).encode()


def hidden() -> list[bytes]:
    """The texts that the masks hide, of which no pseudonym is one by accident."""
    known = Catalog([Root(path=str(SOURCE))]).known()
    keys = [
        key
        for one in known
        for key in one.table("aggregate__count").scan(["key"]).to_arrow()["key"].to_pylist()
    ]
    return [key.encode() for key in sorted(set(keys)) if len(key) >= SHORTEST]


@pytest.mark.parametrize(
    ("file_format", "found"), [("iceberg", iceberg_rows), ("delta", delta_rows)], ids=["iceberg", "delta"]
)
def test_tables_have_masked_rows_and_no_file_a_hidden_text(
    file_format: str, found: Callable[[Path, str, int], pa.Table], export: Any, masks: Path, tmp_path: Path
) -> None:
    options = ("--format", file_format, "--namespace", "job")
    told = export(SOURCE, tmp_path / "masked", *options, "--mask", str(masks))
    plain = export(SOURCE, tmp_path / "plain", *options)

    assert (told.code, plain.code) == (0, 0), told.err + plain.err
    known = sorted(Catalog([Root(path=str(SOURCE))]).known(), key=lambda one: one.name)
    for number, database in enumerate(known, 1):
        for table in TABLES:
            wanted = database.masked(Masks.load(masks)).table(table).scan().to_arrow()
            assert rows(found(tmp_path / "masked", table, number)) == rows(wanted), (table, number)
    texts = hidden()
    assert len(texts) > 100
    assert [
        (path, text) for path, held in content(tmp_path / "masked") for text in texts if text in held
    ] == []
    # Without masks the rows have them, and the statistics of Parquet, which are not compressed; manifests have none.
    shown = [path for path, held in content(tmp_path / "plain") if any(text in held for text in texts)]
    assert len(shown) == 4
    assert {(path.parent.parent.name, path.suffix) for path in shown} == {("aggregate__count", ".parquet")}
    if file_format == "iceberg":
        assert any(
            path.suffix == ".avro" and b"-00000.parquet" in held
            for path, held in content(tmp_path / "masked")
        )
