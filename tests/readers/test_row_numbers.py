"""The column `_row`: a row has one number in its key group, whichever other columns and key groups are read with it."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import pyarrow as pa
import pytest

from readers import KEY_GROUP, ROW, SUBTASK, Selection
from readers.errors import ReaderError
from readers.jsontext import json_text
from readers.states import State
from tests.support.expected import Snapshot, snapshots_of
from tests.support.paths import CORPUS
from tests.support.snapshots import COPIED, PACKED, needs_corpus, states_of
from tests.support.thorough import thorough
from tests.support.unpacked import unpacked

FAST = {
    "1.20.3/everything-hashmap-savepoints/canonical",
    "2.3.0/everything-rocksdb-savepoints/native",
    "1.20.3-changelog-hashmap-chk-1",
}


def place_of(state: State) -> str:
    """The column that `_row` counts in."""
    return KEY_GROUP if KEY_GROUP in state.schema.names else SUBTASK


def numbered(
    state: State, columns: list[str], selection: Selection | None = None
) -> dict[tuple[int, int], tuple[str, ...]]:
    """The values of rows as text, by place."""
    place = place_of(state)
    names = [name for name in state.schema.names if name in (place, *columns)]
    schema = pa.schema([*(state.schema.field(name) for name in names), (ROW, pa.int64())])
    found = pa.Table.from_batches(list(state.read([ROW, *names], selection)), schema=schema)
    places = zip(found.column(place).to_pylist(), found.column(ROW).to_pylist(), strict=True)
    values = [json_text(found.column(name).combine_chunks()).to_pylist() for name in columns]
    rows = dict(zip(places, zip(*values, strict=True) if values else [()] * found.num_rows, strict=True))
    assert len(rows) == found.num_rows
    return rows


def check(snapshot: Snapshot) -> int:
    checked = 0
    for state in states_of(snapshot):
        names = state.schema.names
        try:
            everything = numbered(state, names)
        except ReaderError:
            continue
        for _, rows in groupby(sorted(everything), lambda place: place[0]):
            found = [row for _, row in rows]
            assert found == list(range(len(found)))
        assert numbered(state, []).keys() == everything.keys()
        for index, name in enumerate(names):
            column = {place: (values[index],) for place, values in everything.items()}
            assert numbered(state, [name]) == column, (state.name, name)
        if place_of(state) == KEY_GROUP:
            some = frozenset(sorted({group for group, _ in everything})[::3])
            expected = {place: values for place, values in everything.items() if place[0] in some}
            assert numbered(state, names, Selection(key_groups=some)) == expected
        checked += len(everything)
    return checked


@pytest.mark.parametrize("snapshot", thorough(COPIED, FAST), ids=lambda snapshot: snapshot.name)
def test_a_row_has_one_number(snapshot: Snapshot) -> None:
    assert check(snapshot) > 0


@pytest.mark.parametrize("archive", thorough(PACKED, FAST))
def test_a_row_of_a_packed_snapshot_has_one_number(archive: str, tmp_path: Path) -> None:
    assert check(unpacked(archive, tmp_path)) > 0


@pytest.mark.slow
@needs_corpus
@pytest.mark.parametrize("snapshot", list(snapshots_of(CORPUS)), ids=lambda snapshot: snapshot.name)
def test_a_row_of_the_corpus_has_one_number(snapshot: Snapshot) -> None:
    check(snapshot)


def test_rows_are_numbered_whatever_keys_are_selected() -> None:
    (snapshot,) = (one for one in COPIED if one.name == "1.20.3/everything-rocksdb-savepoints/canonical")
    for state in states_of(snapshot):
        everything = numbered(state, ["key"]) if "key" in state.schema.names else {}
        for place, _ in list(everything.items())[:3]:
            group = place[0]
            selection = Selection(key_groups=frozenset({group}), keys=((group, "no such key"),))

            found = numbered(state, ["key"], selection)

            assert found == {place: key for place, key in everything.items() if place[0] == group}
