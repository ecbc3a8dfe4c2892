"""Random types with random values, encoded and decoded: the same values, and the same bytes when encoded again."""

from __future__ import annotations

import decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from readers.decode.decoder import Decoder
from readers.jsontext import json_text
from readers.serializers.avro import AvroSerializer, read_schema
from readers.serializers.base import Serializer
from readers.serializers.containers import (
    EnumSerializer,
    GenericArraySerializer,
    ListSerializer,
    MapSerializer,
    NullableSerializer,
    SetSerializer,
)
from readers.serializers.named import BASIC_TYPES
from readers.serializers.operators import StreamElementSerializer, TimeWindowSerializer, TtlSerializer
from readers.serializers.pojo import CLASS, PojoField, PojoSerializer
from readers.serializers.primitives import IntPrimitiveArraySerializer, StringArraySerializer
from readers.serializers.scala import OptionSerializer
from readers.serializers.structs import ROW_KIND, ROW_KINDS, EitherSerializer, RowSerializer, TupleSerializer
from readers.serializers.table.logicaltypes import (
    BIGINT,
    BOOLEAN,
    DATE,
    INT,
    SMALLINT,
    ArrayType,
    BytesType,
    LogicalType,
    MapType,
    RowType,
    TextType,
    decimal_type,
    timestamp_type,
)
from readers.serializers.table.rowdata import (
    DecimalDataSerializer,
    LinkedListSerializer,
    RowDataSerializer,
    StringDataSerializer,
    TimestampDataSerializer,
)
from tests.support.encoders import KINDS
from tests.support.single_values import column_and_program, page_of
from tools.roundtrip import loss_of
from writers import Encoder
from writers.encode import encoder
from writers.encode.fitting import equal_values_loss
from writers.encode.machine.execute import execute

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
# What `java.time` and the column of nanoseconds both have.

WORDS = ("A", "Xyz", "Tagged")
SCALARS = [
    *(
        serializer
        for name, serializer in BASIC_TYPES.items()
        if name not in ("BigInteger", "BigDecimal", "Character")
    ),
    EnumSerializer("E", WORDS),
    TimeWindowSerializer(),
    IntPrimitiveArraySerializer(),
    StringArraySerializer(),
    StringDataSerializer(),
    DecimalDataSerializer(decimal_type(7, 2)),
    DecimalDataSerializer(decimal_type(30, 4)),
    TimestampDataSerializer(3),
    TimestampDataSerializer(6),
    TimestampDataSerializer(9),
]
COLUMNS: list[LogicalType] = [
    BIGINT, INT, SMALLINT, BOOLEAN, DATE, TextType(), BytesType(), decimal_type(9, 3), decimal_type(25, 5),
    timestamp_type("TIMESTAMP", 3), timestamp_type("TIMESTAMP", 6), timestamp_type("TIMESTAMP_LTZ", 9),
]  # fmt: skip

AVRO = """{"type": "record", "name": "R", "fields": [
    {"name": "id", "type": "long"}, {"name": "either", "type": ["null", "int", "string"]},
    {"name": "maybe", "type": ["string", "null"]},
    {"name": "kind", "type": {"type": "enum", "name": "K", "symbols": ["A", "Xyz", "Tagged"]}},
    {"name": "tags", "type": {"type": "array", "items": ["null", "string"]}},
    {"name": "by_name", "type": {"type": "map", "values": "double"}},
    {"name": "four", "type": {"type": "fixed", "name": "F", "size": 4}},
    {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 3}}]}"""


def _row_type(kinds: list[LogicalType]) -> RowType:
    return RowType(tuple((f"f{index}", kind) for index, kind in enumerate(kinds)))


logical = st.recursive(
    st.sampled_from(COLUMNS),
    lambda inner: st.one_of(
        st.builds(ArrayType, inner),
        st.builds(MapType, inner, inner),
        st.lists(inner, min_size=1, max_size=3).map(_row_type),
    ),
    max_leaves=5,
)


def _pojo(fields: list[Serializer]) -> PojoSerializer:
    own = tuple(PojoField(f"f{index}", field) for index, field in enumerate(fields))
    registered = PojoSerializer("Tagged", (*own, PojoField("more", fields[0])))
    other = PojoSerializer("Named", own[:1])
    return PojoSerializer("Base", own, (("Tagged", registered),), (("Named", other),))


def _nest(inner: st.SearchStrategy[Serializer]) -> st.SearchStrategy[Serializer]:
    several = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        *(
            st.builds(kind, inner)
            for kind in (ListSerializer, SetSerializer, NullableSerializer, OptionSerializer)
        ),
        st.builds(GenericArraySerializer, inner),
        st.builds(LinkedListSerializer, inner, st.booleans()),
        st.builds(MapSerializer, inner, inner),
        several.map(lambda fields: TupleSerializer("T", tuple(fields))),
        st.builds(RowSerializer, several.map(tuple), st.booleans()),
        several.map(_pojo),
        st.builds(EitherSerializer, inner, inner),
        st.builds(StreamElementSerializer, inner),
        st.builds(TtlSerializer, inner),
    )


serializers = st.recursive(
    st.one_of(
        st.sampled_from(SCALARS),
        st.lists(logical, min_size=1, max_size=3).map(lambda kinds: RowDataSerializer(_row_type(kinds))),
        st.just(AvroSerializer(AVRO, "R", read_schema(AVRO))),
    ),
    _nest,
    max_leaves=4,
)


class Values:
    """Draws values of columns, most of which the type can hold: sides of a union, kinds and classes fit each other."""

    def __init__(self, data: st.DataObject) -> None:
        self._data = data
        self._nulls = data.draw(st.sampled_from([0, 0, 1, 5]))  # of 10 values

    def of(self, kind: pa.DataType) -> Any:
        """A value of an Arrow type, never null itself."""
        if pa.types.is_struct(kind):
            return self._struct(kind)
        if pa.types.is_map(kind):
            return [(self.of(kind.key_type), self.maybe(kind.item_type)) for _ in range(self._count())]
        if pa.types.is_list(kind):
            return [self.maybe(kind.value_type) for _ in range(self._count())]
        return self._data.draw(_leaf(kind))

    def maybe(self, kind: pa.DataType) -> Any:
        return None if self._data.draw(st.integers(0, 9)) < self._nulls else self.of(kind)

    def _struct(self, kind: pa.DataType) -> dict[str, Any]:
        values = {field.name: self.maybe(field.type) for field in kind}
        if set(values) in ({"left", "right"}, {"int", "string"}):
            values[self._data.draw(st.sampled_from(sorted(values)))] = None
        if "details" in values:
            values |= {"kind": "record", "details": None}
        if ROW_KIND in values:
            # A row without a kind is written as an insertion.
            values[ROW_KIND] = self._data.draw(st.sampled_from(ROW_KINDS))
        if CLASS in values:
            values[CLASS] = self._data.draw(st.sampled_from([None, "Tagged", "Named"]))
            own = ["f0"] if values[CLASS] == "Named" else [name for name in values if name.startswith("f")]
            kept = {*own, CLASS, *(["more"] if values[CLASS] == "Tagged" else [])}
            values = {name: value if name in kept else None for name, value in values.items()}
        return values

    def _count(self) -> int:
        return self._data.draw(st.integers(0, 4))


def _leaf(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_boolean(kind):
        return st.booleans()
    if pa.types.is_integer(kind):
        return st.integers(-(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1)
    if pa.types.is_float32(kind):
        return st.floats(width=32, allow_nan=False)
    if pa.types.is_floating(kind):
        return st.floats(allow_nan=False)
    if pa.types.is_string(kind):
        return st.one_of(st.sampled_from(WORDS), texts)
    if pa.types.is_binary(kind):
        return st.one_of(st.binary(max_size=20), st.binary(min_size=4, max_size=4))
    if pa.types.is_decimal(kind):
        bound = 10**kind.precision - 1
        return st.integers(-bound, bound).map(
            lambda number: decimal.Decimal(number).scaleb(-kind.scale, decimal.Context(prec=40))
        )
    if pa.types.is_date(kind):
        return st.dates()
    if pa.types.is_time32(kind):
        return st.times().map(lambda value: value.replace(microsecond=value.microsecond // 1000 * 1000))
    if pa.types.is_time64(kind):
        return st.times()
    units = {"ms": 1, "us": 1000, "ns": 1_000_000}[kind.unit]
    # As far as a column of nanoseconds reaches.
    return st.integers(-(2**62) // 10**6, 2**62 // 10**6).map(lambda millis: millis * units)


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(serializer=serializers, data=st.data())
def test_what_is_encoded_is_decoded_to_the_same_values(serializer: Serializer, data: st.DataObject) -> None:
    tree, code = column_and_program(serializer, enabled=True, ends=True)
    values = [Values(data).maybe(serializer.arrow()) for _ in range(data.draw(st.integers(1, 3)))]
    rows = pa.array(values, serializer.arrow())
    encoder = Encoder(tree, code)

    entries = []
    for index in range(len(rows)):
        encoded, error = encoder.encode_arrays([rows.slice(index, 1)], 1)
        # A type without null, a side too many, a subclass with fields of another: refused, never written otherwise.
        if error is None:
            entries.append((index, encoded.entry(0)[0]))

    for index, entry in entries:
        (batch,) = Decoder(tree, code).decode(page_of([entry]))
        assert batch.outliers == []
        assert batch.arrays[0].to_pylist() == rows.slice(index, 1).to_pylist()
        again, error = encoder.encode_arrays(batch.arrays, 1)
        assert error is None
        assert again.entry(0) == [entry]
    if entries:
        chosen = rows.take(pa.array([index for index, _ in entries]))
        together, error = encoder.encode_arrays([chosen], len(chosen))
        assert error is None
        assert [together.entry(number)[0] for number in range(len(chosen))] == [entry for _, entry in entries]


class Guarded:
    """The machine with an output of exactly the room that it asked for, and a guard of other bytes behind it."""

    SIZE = 64

    def __init__(self) -> None:
        self.runs = 0
        self._execute = execute

    def execute(self, *arguments: Any) -> None:
        self.runs += 1
        *before, output, capacity, ends, stack, registers = arguments
        guarded = np.full(capacity + self.SIZE, 0xAA, dtype=np.uint8)
        guarded[:capacity] = output
        self._execute(*before, guarded, capacity, ends, stack, registers)
        assert (guarded[capacity:] == 0xAA).all()
        output[:] = guarded[:capacity]


def _no_more(output: np.ndarray[Any, Any], used: int, room: int) -> np.ndarray[Any, Any]:
    larger = np.zeros(used + room, dtype=np.uint8)
    larger[:used] = output[:used]
    return larger


@settings(max_examples=60, deadline=None)
@given(serializer=serializers, data=st.data())
def test_no_instruction_writes_more_than_the_room_that_it_asks_for(
    serializer: Serializer, data: st.DataObject
) -> None:
    tree, code = column_and_program(serializer, enabled=True, ends=True)
    values = Values(data)
    rows = pa.array([values.maybe(serializer.arrow()) for _ in range(3)], serializer.arrow())
    roomy, _ = Encoder(tree, code).encode_arrays([rows], 3)
    guarded = Guarded()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoder, "execute", guarded.execute)
        patch.setattr(encoder, "_grown", _no_more)
        patch.setattr(encoder, "_LEAST_BYTES", 0)
        patch.setattr(encoder, "_INITIAL_ROW_BYTES", 0)
        exact, _ = Encoder(tree, code).encode_arrays([rows], 3)

    assert exact.data.tobytes() == roomy.data.tobytes()
    assert exact.offsets.tolist() == roomy.offsets.tolist()
    assert guarded.runs > bool(len(roomy.data))


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_entries_made_by_hand_are_restored(data: st.DataObject) -> None:
    kind = data.draw(KINDS)
    tree, code = column_and_program(kind.serializer, enabled=True, ends=True)
    entries = [kind.encode(value) for value in data.draw(st.lists(kind.values, min_size=1, max_size=6))]

    (batch,) = Decoder(tree, code).decode(page_of(entries))

    beyond = {outlier.entry for outlier in batch.outliers}
    kept = Encoder(tree, code)
    for number in np.flatnonzero(~kept.restores(batch)).tolist():
        row = batch.arrays[0].slice(number, 1)
        encoded, error = kept.encode_arrays([row], 1)
        # A value beyond its column is NULL there.
        if number not in beyond:
            assert error is None
            assert loss_of([row], [entries[number]], encoded.entry(0)) or equal_values_loss(code)
            (again,) = Decoder(tree, code).decode(page_of(encoded.entry(0)))
            # As text: Python has no dates for some of them.
            assert json_text(again.arrays[0]).equals(json_text(row))
