"""Columns that need no value: as many rows, with the same key groups, as when everything is decoded."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from readers.errors import ReaderError
from readers.formats.source import Selection
from readers.jsontext import json_text
from readers.schemas import KEY_GROUP, SUBTASK
from readers.states import State
from tests.support.expected import Snapshot, snapshots_of
from tests.support.paths import CORPUS
from tests.support.snapshots import COPIED, PACKED, needs_corpus, states_of
from tests.support.thorough import thorough
from tests.support.unpacked import unpacked

FAST = {
    "1.20.3/everything-hashmap-savepoints/canonical",
    "2.3.0/everything-rocksdb-savepoints/native",
    "2.3.0/wordcount-hashmap-savepoints/native",
    "1.20.3-changelog-hashmap-chk-1",
    "2.3.0-forst-chk-4",
}


def table(state: State, columns: list[str], selection: Selection | None = None) -> pa.Table:
    schema = pa.schema([field for field in state.schema if field.name in columns])
    return pa.Table.from_batches(list(state.read(columns, selection)), schema=schema)


def check(snapshot: Snapshot) -> int:
    checked = 0
    for state in states_of(snapshot):
        numbers = [name for name in (KEY_GROUP, SUBTASK) if name in state.schema.names]
        try:
            everything = table(state, state.schema.names)
        except ReaderError:
            continue
        expected = counted(everything.select(numbers))
        assert counted(table(state, numbers)) == expected, state.name
        for name in numbers:
            assert counted(table(state, [name])) == counted(everything.select([name])), state.name
        assert sum(batch.num_rows for batch in state.read([])) == everything.num_rows
        for name in state.schema.names:
            found = table(state, [name, *numbers])
            assert texts(found) == texts(everything.select(found.schema.names)), name
        if KEY_GROUP in numbers:
            some = frozenset(sorted({row[0] for row in expected})[::3])
            found = table(state, numbers, Selection(key_groups=some))
            assert counted(found) == Counter({row: expected[row] for row in expected if row[0] in some})
        checked += everything.num_rows
    return checked


def texts(found: pa.Table) -> Counter[tuple[str, ...]]:
    """As text, because NaN does not equal itself; in no order, as a changelog has none."""
    columns = [json_text(column.combine_chunks()).to_pylist() for column in found.columns]
    return Counter(zip(*columns, strict=True))


def counted(found: pa.Table) -> Counter[tuple[int, ...]]:
    return Counter(zip(*(column.to_pylist() for column in found.columns), strict=True))


@pytest.mark.parametrize("snapshot", thorough(COPIED, FAST), ids=lambda snapshot: snapshot.name)
def test_counting_finds_the_rows_that_reading_finds(snapshot: Snapshot) -> None:
    assert check(snapshot) > 0


@pytest.mark.parametrize("archive", thorough(PACKED, FAST))
def test_counting_packed_snapshots_finds_the_rows_that_reading_finds(archive: str, tmp_path: Path) -> None:
    assert check(unpacked(archive, tmp_path)) > 0


@pytest.mark.slow
@needs_corpus
@pytest.mark.parametrize("snapshot", list(snapshots_of(CORPUS)), ids=lambda snapshot: snapshot.name)
def test_counting_the_corpus_finds_the_rows_that_reading_finds(snapshot: Snapshot) -> None:
    check(snapshot)
