"""Timers of several operators in one table: keys of several types."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from catalog import Database, connect
from catalog.statetables import StatesTable, TableState, TimersTable
from readers import json_text
from readers.serializers.table.logicaltypes import RowType
from readers.serializers.table.rowdata import RowDataSerializer
from tests.support.paths import DATA

WINDOWS = DATA / "corpus" / "1.20.3" / "sql-window-hashmap" / "canonical"
ROW = pa.struct([("f0", pa.string()), ("__row_kind", pa.string())])


@pytest.fixture
def database() -> Database:
    database = connect(WINDOWS).default
    assert database is not None
    return database


def with_key(known: TableState, fields: tuple[tuple[str, object], ...]) -> TableState:
    """The state of an operator that is keyed by a row of these fields."""
    serializer = RowDataSerializer(RowType(fields))  # type: ignore[arg-type]
    parts = tuple(replace(part, entry=replace(part.entry, key=serializer)) for part in known.state.parts)
    return replace(known, state=replace(known.state, parts=parts))


def test_a_key_without_fields_is_no_row_of_nulls(database: Database) -> None:
    """A SQL operator without GROUP BY has the key ROW<>: beside ROW<STRING>, both are JSON text."""
    timers = database.table("timers")
    assert isinstance(timers, StatesTable)
    first, second = timers.states
    reference = timers.reference(first).savepoint

    def key_type(*states: TableState) -> pa.DataType:
        return TimersTable("timers", "", reference, lambda: states).schema.field("key").type

    empty = with_key(second, ())
    assert key_type(first, second) == ROW
    assert key_type(first, empty) == key_type(empty, first) == pa.string()
    assert key_type(empty) == pa.struct([("__row_kind", pa.string())])
    shown = json_text(pa.array([{"__row_kind": "+I"}], key_type(empty))).to_pylist()
    assert shown == ['{"__row_kind":"+I"}']
    assert shown != json_text(pa.array([{"f0": None, "__row_kind": "+I"}], ROW)).to_pylist()
