"""Schema evolution: the type of values changes, and every value with it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from readers import (
    BackendStateType,
    PojoField,
    PojoSerializer,
    RowSerializer,
    Serializer,
    TtlSerializer,
    TupleSerializer,
)
from readers.cursor import Cursor
from readers.serializers.containers import ListSerializer, MapSerializer
from readers.serializers.primitives import DoubleSerializer, IntSerializer, LongSerializer, StringSerializer
from readers.snapshots.reading import read_versioned
from tests.support.single_values import decode
from writers import (
    AddedField,
    DroppedField,
    Encoder,
    ExpiringValue,
    RefusedEditError,
    RenamedField,
    RetypedField,
    TypeChange,
    UnencodableValueError,
)
from writers.evolution import retyped
from writers.headers import RegisteredState, snapshot_block, write_snapshot

LONG, INT, STRING = LongSerializer(), IntSerializer(), StringSerializer()
ADDRESS = PojoSerializer("com.acme.Address", (PojoField("city", STRING), PojoField("zip", INT)))
ORDER = PojoSerializer(
    "com.acme.Order", (PojoField("address", ADDRESS), PojoField("id", INT), PojoField("name", STRING))
)
ORDERS: list[dict[str, Any] | None] = [
    {"address": {"city": "Köln", "zip": 50667}, "id": 1, "name": "a"},
    {"address": None, "id": 2, "name": None},
    {"address": {"city": None, "zip": 1}, "id": None, "name": "c"},
    None,
]
TUPLE = TupleSerializer("org.apache.flink.api.java.tuple.Tuple2", (STRING, LONG))
ROW = RowSerializer((STRING, LONG))


def written(serializer: Serializer, values: list[Any], *changes: TypeChange) -> list[Any]:
    """Values after changes, through the bytes: encoded by the new type, and decoded by its snapshot."""
    column = pa.array(values, serializer.arrow())
    for change in changes:
        evolved = change.evolved(serializer)
        serializer, column = evolved.serializer, evolved.convert(column)
    encoded = Encoder.of(serializer).encode(pa.record_batch({"value": column}))
    read = read_versioned(Cursor(write_snapshot(serializer)))
    return decode(read, *(encoded.entry(number)[0] for number in range(len(encoded))))


def test_a_renamed_field_keeps_its_values() -> None:
    found = written(ORDER, ORDERS, RenamedField(("id",), "number"))

    assert [order and order["number"] for order in found] == [1, 2, None, None]
    assert found[0] == {"address": {"city": "Köln", "zip": 50667}, "number": 1, "name": "a"}


def test_a_field_of_a_field_is_renamed() -> None:
    found = written(ORDER, ORDERS, RenamedField(("address", "ZIP"), "code"))

    assert [order and order["address"] for order in found] == [
        {"city": "Köln", "code": 50667},
        None,
        {"city": None, "code": 1},
        None,
    ]


def test_fields_stand_in_the_order_of_their_names_whatever_happened() -> None:
    serializer: Serializer = ORDER
    for change in (RenamedField(("address",), "zone"), AddedField(("box",), STRING)):
        serializer = change.evolved(serializer).serializer

    assert [name for name, _ in serializer.children] == ["box", "id", "name", "zone"]


def test_an_added_field_has_its_default_in_every_value_and_stands_where_flink_sorts_it() -> None:
    change = AddedField(("count",), LONG, pa.scalar(7))

    found = written(ORDER, ORDERS, change)

    assert [order and order["count"] for order in found] == [7, 7, 7, None]
    evolved = change.evolved(ORDER).serializer
    assert [name for name, _ in evolved.children] == ["address", "count", "id", "name"]


def test_a_number_is_added_only_with_a_default_that_may_be_null() -> None:
    with pytest.raises(RefusedEditError, match="the field count of type Long needs a DEFAULT"):
        AddedField(("count",), LONG).evolved(ORDER)

    assert written(ORDER, ORDERS[:1], AddedField(("count",), LONG, pa.scalar(None)))[0]["count"] is None
    assert written(ORDER, ORDERS[:1], AddedField(("text",), STRING))[0]["text"] is None


def test_a_dropped_field_goes_with_its_values() -> None:
    found = written(ORDER, ORDERS, DroppedField(("address",)))

    assert found == [{"id": 1, "name": "a"}, {"id": 2, "name": None}, {"id": None, "name": "c"}, None]


def test_the_fields_of_rows_and_tuples_close_up() -> None:
    row = [{"f0": "a", "f1": 1, "__row_kind": "-D"}]

    assert written(TUPLE, [{"f0": "a", "f1": 1}], DroppedField(("f0",))) == [{"f0": 1}]
    assert written(ROW, row, DroppedField(("f0",))) == [{"f0": 1, "__row_kind": "-D"}]
    assert written(ROW, row, AddedField(("f2",), INT, pa.scalar(5))) == [
        {"f0": "a", "f1": 1, "f2": 5, "__row_kind": "-D"}
    ]
    assert written(TUPLE, [{"f0": "a", "f1": 1}], AddedField(("f2",), INT, pa.scalar(5))) == [
        {"f0": "a", "f1": 1, "f2": 5}
    ]


def test_a_field_of_a_named_row_keeps_the_names_of_stateinfo() -> None:
    row = ROW.with_names(("a", "b"))

    change = AddedField(("c",), LONG, pa.scalar(1)).evolved(row)

    assert [name for name, _ in change.serializer.children] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (RenamedField(("id",), "name"), "expected a new name, found a field name in com.acme.Order"),
        (RenamedField(("price",), "cost"), r"expected a field of com.acme.Order \(address, id, name\)"),
        (AddedField(("id",), LONG, pa.scalar(1)), "expected a new name, found a field id"),
        (AddedField(("address", "x"), INT, pa.scalar("a")), "expected a value of type INTEGER, found 'a'"),
        (DroppedField(("name", "x")), "expected a POJO, Row or Tuple, found String"),
        (ExpiringValue(None), "expected a state with TTL, found one without"),
        (RetypedField(("name",), ADDRESS), "expected a record to make com.acme.Address of, found String"),
        (RetypedField((), ADDRESS), "expected fields of com.acme.Order"),
    ],
)
def test_a_change_that_means_nothing_is_refused(change: TypeChange, message: str) -> None:
    with pytest.raises((RefusedEditError, UnencodableValueError), match=message):
        change.evolved(ORDER)


def test_names_of_positions_do_not_change() -> None:
    with pytest.raises(RefusedEditError, match="a savepoint has no names of such fields"):
        RenamedField(("f0",), "a").evolved(TUPLE)
    with pytest.raises(RefusedEditError, match="expected the field f2, behind the others"):
        AddedField(("x",), LONG, pa.scalar(1)).evolved(TUPLE)
    with pytest.raises(RefusedEditError, match="is its only one"):
        DroppedField(("f0",)).evolved(RowSerializer((STRING,)))
    with pytest.raises(RefusedEditError, match=r"found its subclass com.acme.Pair"):
        DroppedField(("f0",)).evolved(replace(TUPLE, tuple_class="com.acme.Pair"))


def test_a_class_with_subclasses_in_the_savepoint_is_refused() -> None:
    order = replace(ORDER, non_registered=(("com.acme.Rush", ADDRESS),))

    with pytest.raises(RefusedEditError, match="expected a class without subclasses"):
        RenamedField(("id",), "number").evolved(order)


@given(values=st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=20))
def test_an_integer_becomes_a_long_and_comes_back(values: list[int]) -> None:
    found = written(INT, values, RetypedField((), LONG), RetypedField((), STRING), RetypedField((), INT))

    assert found == values


def test_a_field_becomes_another_type() -> None:
    found = written(ORDER, ORDERS, RetypedField(("id",), LONG), RetypedField(("address", "zip"), STRING))

    assert [order and order["id"] for order in found] == [1, 2, None, None]
    assert found[0]["address"] == {"city": "Köln", "zip": "50667"}


def test_a_value_that_does_not_fit_is_an_error_that_names_it() -> None:
    with pytest.raises(
        UnencodableValueError, match=r"row 1, value: expected a value of type INTEGER, found 2147483648"
    ):
        written(LONG, [1, 2**31], RetypedField((), INT))
    with pytest.raises(UnencodableValueError, match=r"expected a value of type BIGINT, found 1.5"):
        written(DoubleSerializer(), [1.5], RetypedField((), LONG))


def test_a_pojo_becomes_another_class_by_the_names_of_its_fields() -> None:
    bill = PojoSerializer("com.acme.Bill", (PojoField("id", LONG), PojoField("name", STRING)))

    found = written(ORDER, ORDERS, DroppedField(("address",)), RetypedField((), bill))

    assert found == [{"id": 1, "name": "a"}, {"id": 2, "name": None}, {"id": None, "name": "c"}, None]


def test_a_named_row_becomes_a_pojo_and_a_pojo_a_row() -> None:
    pojo = PojoSerializer("com.acme.Pair", (PojoField("a", STRING), PojoField("b", LONG)))
    row = ROW.with_names(("a", "b"))

    assert written(row, [{"a": "x", "b": 1, "__row_kind": "+I"}], RetypedField((), pojo)) == [
        {"a": "x", "b": 1}
    ]
    assert written(pojo, [{"a": "x", "b": 1}], RetypedField((), row)) == [
        {"f0": "x", "f1": 1, "__row_kind": "+I"}
    ]


def test_ttl_is_switched_on_and_off() -> None:
    expiring = TtlSerializer(LONG)

    found = written(LONG, [1, 2], ExpiringValue(1_700_000_000_000))

    assert [value["value"] for value in found] == [1, 2]
    assert {value["last_access"].timestamp() for value in found} == {1_700_000_000}
    assert written(LONG, [1, 2], ExpiringValue(5), ExpiringValue(None)) == [1, 2]
    with pytest.raises(RefusedEditError, match="expected a state without TTL"):
        ExpiringValue(5).evolved(expiring)


def test_the_wrapper_of_ttl_has_no_name_in_a_path() -> None:
    found = written(ORDER, ORDERS[:1], ExpiringValue(5), RenamedField(("id",), "number"))

    assert found[0]["value"]["number"] == 1


def test_a_list_becomes_a_list_of_another_type() -> None:
    assert written(ListSerializer(INT), [[1, 2], []], RetypedField((), ListSerializer(LONG))) == [[1, 2], []]


@pytest.mark.parametrize(
    ("kind", "registered"), [("LIST", ListSerializer(INT)), ("MAP", MapSerializer(STRING, INT))]
)
def test_a_list_or_map_is_registered_with_the_new_type_of_its_values(
    kind: str, registered: Serializer
) -> None:
    state = RegisteredState(
        name="s",
        kind=BackendStateType.KEY_VALUE,
        options={"KEYED_STATE_TYPE": kind},
        blocks={"VALUE_SERIALIZER": snapshot_block(write_snapshot(registered))},
    )

    found = retyped(state, registered, LONG)

    whole = ListSerializer(LONG) if kind == "LIST" else MapSerializer(STRING, LONG)
    assert found.blocks == {"VALUE_SERIALIZER": snapshot_block(write_snapshot(whole))}
    assert found.name == "s"


def test_state_of_version_2_is_not_retyped() -> None:
    state = RegisteredState(name="s", kind=BackendStateType.KEY_VALUE_V2, options={}, blocks={})

    with pytest.raises(RefusedEditError, match="found s of kind KEY_VALUE_V2"):
        retyped(state, INT, LONG)
