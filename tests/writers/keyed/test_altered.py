"""Keyed states that go, become empty, or get other names or types, whatever wrote the source."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from readers import (
    RowSerializer,
    Savepoint,
    SavepointLocation,
    StateName,
    json_text,
    operator_id_of,
)
from readers.metadata import read_metadata
from readers.serializers.primitives import IntSerializer, LongSerializer, StringSerializer
from tests.support.paths import DATA
from writers import (
    AddedField,
    DroppedField,
    ExpiringValue,
    RefusedEditError,
    RenamedField,
    RetypedField,
    RewriteKeyedState,
    SavepointWriter,
    StateAlteration,
    UnencodableTypeError,
    UnencodableValueError,
)

FLINK = DATA / "flink/2.3.0"
HASHMAP = FLINK / "everything-hashmap-savepoints/canonical"
ROCKSDB = FLINK / "everything-rocksdb-savepoints/native"
HEAP = FLINK / "everything-hashmap-savepoints/native"
SOURCES = pytest.mark.parametrize("source", [HASHMAP, ROCKSDB, HEAP], ids=["canonical", "rocksdb", "hashmap"])
LONG, INT, STRING = LongSerializer(), IntSerializer(), StringSerializer()

Rows = dict[str, list[dict[str, Any]]]
Alter = Callable[..., Rows]


def listed(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows; as one text each where Python has no such dates."""
    try:
        found: list[dict[str, Any]] = batch.to_pylist()
    except OverflowError:
        found = [{"text": text} for text in json_text(batch.to_struct_array()).to_pylist()]
    return found


def rows(path: Path, uid: str) -> Rows:
    """State → its rows, of one operator."""
    operator = next(one for one in Savepoint(path).operators if one.operator_id == operator_id_of(uid))
    return {
        state.name: sorted(
            (row for batch in state.read() for row in listed(batch)),
            key=lambda row: str(list(row.items())),
        )
        for state in operator.states
    }


def values(found: Rows, state: str) -> list[Any]:
    return [row["value"] for row in found[state]]


@pytest.fixture
def alter(tmp_path: Path) -> Alter:
    """Returns what an operator has after alterations."""

    def altered(source: Path, uid: str, **alterations: StateAlteration) -> Rows:
        savepoint = Savepoint(source)
        operator = next(one for one in savepoint.operators if one.operator_id == operator_id_of(uid))
        edit = RewriteKeyedState(
            operator=operator,
            alterations={StateName(name=name): one for name, one in alterations.items()},
        )
        writer = SavepointWriter(SavepointLocation(source), [edit])
        expected = writer.summary
        assert writer.write(tmp_path / "new") == expected
        return rows(tmp_path / "new", uid)

    return altered


@SOURCES
def test_a_dropped_state_goes_and_the_others_stay(source: Path, alter: Alter) -> None:
    before = rows(source, "kinds")

    after = alter(source, "kinds", value=StateAlteration(dropped=True), map=StateAlteration(dropped=True))

    assert after == {name: found for name, found in before.items() if name not in ("value", "map")}


@SOURCES
def test_states_change_their_names(source: Path, alter: Alter) -> None:
    before = rows(source, "kinds")

    after = alter(source, "kinds", value=StateAlteration(name="map"), map=StateAlteration(name="value"))

    assert {**before, "map": before["value"], "value": before["map"]} == after


@SOURCES
def test_a_truncated_state_is_empty_and_still_there(source: Path, alter: Alter) -> None:
    before = rows(source, "kinds")

    after = alter(source, "kinds", list=StateAlteration(truncated=True))

    assert after == {**before, "list": []}


@pytest.mark.slow
@SOURCES
def test_every_kind_gets_another_type_of_its_values(source: Path, alter: Alter) -> None:
    before = rows(source, "kinds")
    text, number = (
        StateAlteration(types=(RetypedField((), STRING),)),
        StateAlteration(types=(RetypedField((), LONG),)),
    )

    after = alter(
        source, "kinds", value=text, list=number, **{"ttl-map": text, "ttl-list": text, "reducing": text}
    )

    for state in ("value", "ttl-map", "ttl-list", "reducing"):
        assert values(after, state) == [str(value) for value in values(before, state)]
        assert [{**row, "value": None} for row in after[state]] == [
            {**row, "value": None} for row in before[state]
        ]
    assert values(after, "list") == values(before, "list")
    assert after["map"] == before["map"]


@pytest.mark.slow
@SOURCES
def test_ttl_goes_on_and_off(source: Path, alter: Alter) -> None:
    before = rows(source, "kinds")
    on, off = (StateAlteration(types=(ExpiringValue(time),)) for time in (1_700_000_000_000, None))

    after = alter(
        source, "kinds", value=on, list=on, map=on, **{f"ttl-{one}": off for one in ("value", "list", "map")}
    )

    for state in ("value", "list", "map"):
        assert {row["ttl_timestamp"].timestamp() for row in after[state]} == {1_700_000_000}
        assert [{**row, "ttl_timestamp": None} for row in before[state]] == [
            {**row, "ttl_timestamp": None} for row in after[state]
        ]
        expiring = f"ttl-{state}"
        assert [{**row, "ttl_timestamp": None} for row in after[expiring]] == [
            {**row, "ttl_timestamp": None} for row in before[expiring]
        ]
        assert "ttl_timestamp" not in after[expiring][0]


def test_a_value_of_a_class_that_the_savepoint_does_not_describe_is_refused(alter: Alter) -> None:
    change = StateAlteration(types=(RenamedField(("name",), "title"),))

    with pytest.raises(
        RefusedEditError, match="v_pojo, key 'k2': expected a value of classes that the savepoint describes"
    ):
        alter(HASHMAP, "types", v_pojo=change)


def test_fields_of_a_pojo_change(alter: Alter) -> None:
    before = values(rows(ROCKSDB, "types"), "v_pojo")
    types = (
        RenamedField(("name",), "title"),
        AddedField(("count",), LONG, pa.scalar(3)),
        DroppedField(("balance",)),
    )

    after = values(alter(ROCKSDB, "types", v_pojo=StateAlteration(types=types)), "v_pojo")

    def expected(value: Any) -> Any:
        if value is None:
            return None
        rest = {name: one for name, one in value.items() if name not in ("name", "balance")}
        return {**rest, "title": value["name"], "count": 3}

    assert after == [expected(value) for value in before]


def test_an_operator_whose_states_all_go_has_no_keyed_state(alter: Alter, tmp_path: Path) -> None:
    source = FLINK / "wordcount-hashmap-savepoints/canonical"

    assert alter(source, "aggregate", count=StateAlteration(dropped=True)) == {}

    metadata = read_metadata((tmp_path / "new/_metadata").read_bytes())
    operator = next(one for one in metadata.operators if one.operator_id == operator_id_of("aggregate"))
    assert all(subtask.managed_keyed_state is None for subtask in operator.subtasks)


def test_a_renamed_state_is_copied_as_bytes(alter: Alter, tmp_path: Path) -> None:
    source = FLINK / "wordcount-hashmap-savepoints/canonical"
    before = rows(source, "aggregate")

    after = alter(source, "aggregate", count=StateAlteration(name="counts"))

    assert after == {"counts": before["count"]}


@pytest.mark.parametrize(
    ("state", "alteration", "error", "message"),
    [
        ("value", StateAlteration(name="map"), RefusedEditError, "expected states of different names"),
        ("nothing", StateAlteration(dropped=True), RefusedEditError, "expected a state nothing of kinds"),
        (
            "map",
            StateAlteration(types=(RetypedField((), LONG),)),
            UnencodableValueError,
            "expected a value of type BIGINT, found 'text-0'",
        ),
        (
            "aggregating",
            StateAlteration(types=(RetypedField((), RowSerializer((LONG, INT, INT))),)),
            RefusedEditError,
            "expected fields of Tuple2<Long, Integer>",
        ),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(
    state: str,
    alteration: StateAlteration,
    error: type[Exception],
    message: str,
    alter: Alter,
    tmp_path: Path,
) -> None:
    with pytest.raises(error, match=message):
        alter(HASHMAP, "kinds", **{state: alteration})

    assert not (tmp_path / "new").exists()


def test_a_class_whose_subclasses_are_in_the_savepoint_is_refused(alter: Alter) -> None:
    change = StateAlteration(types=(RenamedField(("city",), "town"),))

    with pytest.raises((RefusedEditError, UnencodableTypeError), match="expected a class without subclasses"):
        alter(HASHMAP, "types", v_pojo_subclasses=change)
