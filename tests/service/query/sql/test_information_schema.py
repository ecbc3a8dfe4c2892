"""The lists of `information_schema`: the rows of each savepoint, whether others have the same tables or not."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from catalog.cache.states import StateCache
from catalog.catalog import Catalog, Root
from service.query.sql.schemas import (
    Tables,
    columns_rows,
    information_schema_table,
    listed_schemas,
    schemata_rows,
    tables_of,
    tables_rows,
)
from tests.support.paths import DATA

FLINK = DATA / "flink" / "2.3.0"
WORDCOUNT, EVERYTHING = (
    FLINK / "wordcount-rocksdb-savepoints/native",
    FLINK / "everything-hashmap-savepoints/native",
)
ROWS: dict[str, Callable[[str, Tables], Iterator[dict[str, Any]]]] = {
    "schemata": schemata_rows,
    "tables": tables_rows,
    "columns": columns_rows,
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Savepoints of two jobs, one of which cannot be read, and one of which lacks its files."""
    root = tmp_path_factory.mktemp("root")
    for number in (1, 2, 3):
        shutil.copytree(WORDCOUNT, root / "a" / f"savepoint-{number}")
    shutil.copytree(EVERYTHING, root / "b" / "savepoint-4")
    for number, files in ((5, ()), (6, ("_metadata",))):
        (root / "b" / f"savepoint-{number}").mkdir()
        for name in files:
            shutil.copy(EVERYTHING / name, root / "b" / f"savepoint-{number}")
    (root / "b" / "savepoint-5" / "_metadata").write_bytes((EVERYTHING / "_metadata").read_bytes()[:100])
    return root


@pytest.mark.parametrize("name", ROWS)
def test_lists_have_the_rows_of_each_schema_in_order(root: Path, tmp_path: Path, name: str) -> None:
    plain = Catalog([Root(path=str(root))])
    expected = [
        row
        for one in listed_schemas(plain)
        for row in ROWS[name](one.name, () if name == "schemata" else tables_of(one.database))
    ]
    cached = [Catalog([Root(path=str(root))], cache=StateCache(tmp_path, 1 << 20)) for _ in range(2)]

    assert len(expected) > 5
    for catalog in (plain, *cached):
        assert information_schema_table(catalog, name).scan().to_arrow().to_pylist() == expected


def test_a_list_of_no_database_has_no_rows(root: Path) -> None:
    catalog = Catalog([Root(path=str(root))])

    assert information_schema_table(catalog, "columns", ["none"]).scan().to_arrow().num_rows == 0
