"""`Encoder`: what it writes, and what it refuses."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from readers.decode.columns import ColumnTree
from readers.decode.decoder import Batch, Decoder
from readers.decode.program import Program
from readers.serializers.base import Serializer
from readers.serializers.containers import EnumSerializer, ListSerializer, MapSerializer, NullableSerializer
from readers.serializers.named import serializer_named
from readers.serializers.pojo import PojoField, PojoSerializer
from readers.serializers.primitives import (
    BigDecSerializer,
    BigIntSerializer,
    BytePrimitiveArraySerializer,
    CharSerializer,
    DateSerializer,
    IntSerializer,
    LocalDateSerializer,
    LocalTimeSerializer,
    LongSerializer,
    StringSerializer,
    StringValueSerializer,
    VoidNamespaceSerializer,
)
from readers.serializers.structs import EitherSerializer, RowSerializer, TupleSerializer
from readers.serializers.table.logicaltypes import (
    BIGINT,
    TIME,
    ArrayType,
    RowType,
    TextType,
    decimal_type,
    timestamp_type,
)
from readers.serializers.table.rowdata import DecimalDataSerializer, RowDataSerializer
from tests.support.single_values import column_and_program, decode, decode_columns, page_of
from writers import Encoded, Encoder, UnencodableTypeError, UnencodableValueError
from writers.encode.fitting import fitted

LONG, STRING, INT = LongSerializer(), StringSerializer(), IntSerializer()


def batch_of(array: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([array], ["value"])


def encode_array(serializer: Serializer, array: pa.Array, **options: bool) -> list[bytes]:
    encoded = Encoder.of(serializer, **options).encode(batch_of(array))
    return entries_of(encoded)


def entries_of(encoded: Encoded) -> list[bytes]:
    return [encoded.entry(number)[0] for number in range(len(encoded))]


def encode(serializer: Serializer, *values: Any, **options: bool) -> list[bytes]:
    return encode_array(serializer, pa.array(values, serializer.arrow()), **options)


def test_text_has_the_units_of_utf_16() -> None:
    assert encode(STRING, "a", None, "", "é", "😀", "\0") == [
        b"\x02a",
        b"\0",
        b"\x01",
        b"\x02\xe9\x01",
        b"\x03\xbd\xb0\x03\x80\xbc\x03",
        b"\x02\0",
    ]


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 126, 127, 128, 20_000])
def test_text_of_any_length_at_the_end_of_its_buffer(length: int) -> None:
    text = "x" * length

    assert decode(STRING, *encode(STRING, text, "é" * length)) == [text, "é" * length]


def test_the_output_grows_with_a_row_that_is_larger_than_those_before() -> None:
    encoder = Encoder.of(STRING)
    first = encoder.encode(batch_of(pa.array(["a"] * 1000)))
    second = encoder.encode(batch_of(pa.array(["b" * 100_000, "c"])))

    assert entries_of(first) == [b"\x02a"] * 1000
    assert decode(STRING, *entries_of(second)) == ["b" * 100_000, "c"]


def test_a_row_may_stop_for_room_at_any_instruction() -> None:
    element = TupleSerializer("Tuple3", (STRING, MapSerializer(STRING, ListSerializer(LONG)), row_data()))
    value = {
        "f0": "k" * 700,
        "f1": [("m" * 500, list(range(200))), ("n", None)],
        "f2": {"f0": 5, "f1": "t" * 900, "f2": ["u" * 90] * 40, "__row_kind": "-D"},
    }

    whole = encode(element, value)

    for rows in range(2, 40):
        assert encode(element, *[value] * rows) == whole * rows


def row_data() -> RowDataSerializer:
    return RowDataSerializer(RowType((("f0", BIGINT), ("f1", TextType()), ("f2", ArrayType(TextType())))))


@pytest.mark.parametrize("first", [0, 1, 2, 3])
def test_slices_of_arrays(first: int) -> None:
    serializer = TupleSerializer(
        "Tuple2", (MapSerializer(STRING, ListSerializer(STRING)), ListSerializer(LONG))
    )
    values = [
        {"f0": [("a", ["b", "c"])], "f1": [1]},
        {"f0": [], "f1": [2, 3]},
        {"f0": [("d", []), ("e", ["f"])], "f1": []},
        {"f0": [("g", ["h"])], "f1": [4]},
    ]
    array = pa.array(values, serializer.arrow()).slice(first, 2)

    assert decode(serializer, *encode_array(serializer, array)) == values[first : first + 2]


def test_a_null_list_hides_the_elements_that_arrow_gives_it() -> None:
    serializer = NullableSerializer(ListSerializer(LONG))
    hidden = pa.ListArray.from_arrays(
        [0, 2, 4, 5], pa.array([1, 2, 3, 4, 5]), mask=pa.array([False, True, False])
    )

    assert decode(serializer, *encode_array(serializer, hidden)) == [[1, 2], None, [5]]
    assert decode(serializer, *encode_array(serializer, hidden.slice(1))) == [None, [5]]


def test_no_rows() -> None:
    for serializer in (
        STRING,
        ListSerializer(ListSerializer(STRING)),
        MapSerializer(STRING, LONG),
        row_data(),
    ):
        assert encode(serializer) == []


def test_columns_of_other_types_whose_values_fit() -> None:
    assert encode_array(INT, pa.array([1, None, 3], pa.int64()).drop_null()) == encode(INT, 1, 3)
    assert encode_array(STRING, pa.array(["a", "a"]).dictionary_encode()) == encode(STRING, "a", "a")
    assert encode_array(ListSerializer(INT), pa.array([[1]], pa.large_list(pa.int64()))) == encode(
        ListSerializer(INT), [1]
    )
    assert encode_array(STRING, pa.nulls(1)) == [b"\0"]


@pytest.mark.parametrize(
    ("serializer", "array", "message"),
    [
        (INT, pa.array([1, 2**31]), "row 1, value: expected a value of type INTEGER, found 2147483648 (BIGINT)"),
        (
            ListSerializer(INT),
            pa.array([[1], [2, 2**40]]),
            "row 1, value[]: expected a value of type INTEGER, found 1099511627776 (BIGINT)",
        ),
        (INT, pa.array([1.5]), "row 0, value: expected a value of type INTEGER, found 1.5 (DOUBLE)"),
        (
            serializer_named("Float"),
            pa.array([0.0, 1e300]),
            "row 1, value: expected a value of type FLOAT, found 1e+300 (DOUBLE)",
        ),
        (LONG, pa.array([1, None]), "row 1, value: expected a value of type BIGINT, found NULL, for which the serializer has no bytes"),
        (
            ListSerializer(LONG),
            pa.array([None], pa.list_(pa.int64())),
            "row 0, value: expected a value of type BIGINT[], found NULL",
        ),
        (
            StringValueSerializer(),
            pa.array([None], pa.string()),
            "row 0, value: expected a value of type VARCHAR, found NULL",
        ),
        (CharSerializer(), pa.array(["a", "ab"]), "row 1, value: expected a value that the serializer can write, found 'ab'"),
        (CharSerializer(), pa.array(["😀"]), "row 0, value: expected a value that the serializer can write, found '😀'"),
        (CharSerializer(), pa.array([""]), "row 0, value: expected a value that the serializer can write, found ''"),
        (
            EnumSerializer("Color", ("RED", "BLUE")),
            pa.array(["BLUE", "GREEN"]),
            "row 1, value: expected one of the constants that the savepoint describes, found 'GREEN'",
        ),
        (VoidNamespaceSerializer(), pa.array(["x"]), "row 0, value: expected NULL, found 'x'"),
        (BigIntSerializer(), pa.array(["1.5"]), "row 0, value: expected a decimal number, found '1.5'"),
        (BigDecSerializer(), pa.array([""]), "row 0, value: expected a decimal number, found ''"),
        (
            DecimalDataSerializer(decimal_type(5, 2)),
            pa.array([datetime.timedelta(0)], pa.duration("ms")),
            "value: expected a column of type DECIMAL(5,2), found DURATION[MS]",
        ),
        (
            DateSerializer(),
            pa.array([-(2**63)], pa.int64()).cast(pa.timestamp("ms")),
            "row 0, value: expected a value that the serializer can write",
        ),
        (
            EitherSerializer(LONG, LONG),
            pa.array([{"left": 1, "right": 2}]),
            "row 0, value: expected a value of a class or case that the savepoint describes",
        ),
        (
            RowSerializer((LONG,)),
            pa.array([{"f0": 1, "__row_kind": "?"}]),
            "row 0, value.__row_kind: expected one of the constants",
        ),
        (LONG, pa.array([[1]]), "value: expected a column of type BIGINT, found BIGINT[]"),
        (RowSerializer((LONG,)), pa.array([{"g": 1}]), "value: expected the fields f0, __row_kind, found g"),
    ],
)  # fmt: skip
def test_a_value_that_its_type_cannot_hold_is_an_error(
    serializer: Serializer, array: pa.Array, message: str
) -> None:
    with pytest.raises((UnencodableValueError, UnencodableTypeError)) as caught:
        encode_array(serializer, array)

    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("values", "target", "made"),
    [
        (pa.array([1.0, None, 0.0]), pa.bool_(), [True, None, False]),
        (pa.array([0.1, None, 1e23]), pa.decimal128(38, 2), ["0.10", None, "100000000000000000000000.00"]),
        (pa.array([5], pa.int32()), pa.decimal128(5, 2), ["5.00"]),
        (pa.array([5.0]), pa.int8(), [5]),
        (pa.array([], pa.timestamp("us")), pa.timestamp("ms"), []),
    ],
)
def test_values_are_the_same_in_another_type(values: pa.Array, target: pa.DataType, made: list[Any]) -> None:
    found = fitted(values, target, ("value",))

    assert found.equals(pa.array(made).cast(target))


@pytest.mark.parametrize(
    ("values", "target", "row"),
    [
        (pa.array([1.0, 0.5]), pa.bool_(), 1),
        (pa.array([0.1, 1.005]), pa.decimal128(38, 2), 1),
        (pa.array([1 / 3]), pa.decimal128(38, 2), 0),
        (pa.array([5000], pa.int32()), pa.decimal128(5, 2), 0),
        (pa.array([0.1, None, 2.0**24 + 1]), pa.float32(), 2),
        (pa.array([[0], [2**31 - 1]], pa.list_(pa.int32())).cast(pa.list_(pa.date32())), pa.list_(pa.date32()), 1),
    ],
)  # fmt: skip
def test_values_that_would_be_others_in_another_type_are_errors(
    values: pa.Array, target: pa.DataType, row: int
) -> None:
    with pytest.raises(UnencodableValueError) as caught:
        fitted(values, target, ("value",))

    assert caught.value.row == row


def test_the_last_day_of_all_that_a_savepoint_has_is_encoded_again() -> None:
    last = pa.array([2**31 - 1], pa.int32()).cast(pa.date32())

    (found,) = encode_array(LocalDateSerializer(), last)

    assert found == (5881580).to_bytes(4, "big") + bytes([7, 11])


def test_numbers_beyond_the_precision_of_a_decimal_are_errors() -> None:
    serializer = DecimalDataSerializer(decimal_type(3, 0))
    wide = pa.array([12_345]).cast(pa.decimal128(19, 0))
    too_large = pa.Array.from_buffers(pa.decimal128(3, 0), 1, wide.buffers())

    with pytest.raises(UnencodableValueError, match=r"row 0, value: expected a value that"):
        encode_array(serializer, too_large)


def test_times_beyond_a_day_are_errors() -> None:
    for serializer, unit in ((LocalTimeSerializer(), pa.time64("ns")), (time_row(), None)):
        values = pa.array([86_400 * 10**9]).cast(pa.time64("ns"), safe=False)
        if unit is None:
            fields = pa.array([86_400_000], pa.int32()).cast(pa.time32("ms"))
            values = pa.StructArray.from_arrays([fields, pa.nulls(1, pa.string())], ["f0", "__row_kind"])
        with pytest.raises(UnencodableValueError, match="expected a value that the serializer can write"):
            encode_array(serializer, values)


def time_row() -> RowDataSerializer:
    return RowDataSerializer(RowType((("f0", TIME),)))


def test_a_row_without_a_kind_is_an_insertion() -> None:
    for serializer in (RowSerializer((LONG,)), time_row()):
        value: dict[str, Any] = {"f0": None}

        (found,) = encode(serializer, value)

        assert decode(serializer, found) == [{"f0": None, "__row_kind": "+I"}]


def test_a_null_decimal_or_timestamp_owns_its_room_if_wanted() -> None:
    kinds = (decimal_type(38, 2), timestamp_type("TIMESTAMP", 6), decimal_type(5, 2))
    serializer = RowDataSerializer(RowType(tuple((f"f{index}", kind) for index, kind in enumerate(kinds))))
    value = {"f0": None, "f1": None, "f2": None, "__row_kind": "+I"}

    (reserved,) = encode(serializer, value)
    (short,) = encode(serializer, value, reserves_nulls=False)

    assert len(reserved) - len(short) == 16 + 8
    assert decode(serializer, reserved, short) == [value, value]


def test_flink_prefers_the_tag_of_a_registered_subclass_to_its_name() -> None:
    other = PojoSerializer("B", (PojoField("x", LONG),))
    serializer = PojoSerializer("A", (PojoField("x", LONG),), (("B", other),), (("C", other),))
    values = [{"x": 1, "__class": name} for name in (None, "B", "C")]

    found = encode(serializer, *values, None)

    assert [entry[0] for entry in found] == [2, 8, 4, 1]
    assert decode(serializer, *found) == [*values, None]


def test_an_unknown_subclass_is_an_error() -> None:
    other = PojoSerializer("B", (PojoField("x", LONG),))
    serializer = PojoSerializer("A", (PojoField("x", LONG),), (("B", other),))

    with pytest.raises(UnencodableValueError, match=r"row 0, value: expected a value of a class"):
        encode(serializer, {"x": 1, "__class": "D"})


def test_a_field_that_the_class_no_longer_has_is_refused() -> None:
    serializer = PojoSerializer("A", (PojoField("x", LONG), PojoField("y", LONG, hidden=True)))
    encoder = Encoder.of(serializer)

    assert [path for path, _ in encoder.refusals] == [("value", "y")] * len(encoder.refusals)
    with pytest.raises(UnencodableTypeError, match=r"row 0, value.y: a field that the class no longer has"):
        encoder.encode(batch_of(pa.array([{"x": 1}])))


def test_the_rows_before_an_error_are_encoded() -> None:
    encoder = Encoder.of(LONG)

    encoded, error = encoder.encode_arrays([pa.array([1, 2, None, 4])], 4)

    assert entries_of(encoded) == [b"\0" * 7 + b"\1", b"\0" * 7 + b"\2"]
    assert error is not None
    assert error.row == 2


def test_a_missing_column_is_an_error() -> None:
    with pytest.raises(UnencodableTypeError, match="expected a column value, found other"):
        Encoder.of(LONG).encode(pa.RecordBatch.from_arrays([pa.array([1])], ["other"]))


def test_segments_and_key_groups() -> None:
    tree = ColumnTree(pa.struct([("key", pa.string()), ("value", pa.int64())]))
    program = Program(tree)
    program.key_group(2)
    with program.field(0):
        program.string()
    program.segment(1)
    with program.field(1):
        program.fixed(8)
    encoder = Encoder(tree, program.finish(), segments=2)
    rows = pa.RecordBatch.from_arrays([pa.array([5, 6]), pa.array(["a", "bc"])], ["value", "key"])

    encoded = encoder.encode(rows, np.array([1, 300], dtype=np.int32))

    assert [encoded.entry(number) for number in range(2)] == [
        [b"\0\x01\x02a", b"\0" * 7 + b"\x05"],
        [b"\x01\x2c\x03bc", b"\0" * 7 + b"\x06"],
    ]
    assert encoded.ends.tolist() == [[4, 12], [17, 25]]
    with pytest.raises(ValueError, match="expected the key groups of the rows"):
        encoder.encode(rows)


@given(number=st.integers(-(10**400), 10**400), scale=st.integers(0, 40))
def test_numbers_of_any_size(number: int, scale: int) -> None:
    (whole,) = encode(BigIntSerializer(), str(number))
    sign, digits = "-" if number < 0 else "", f"{abs(number):0{scale + 1}d}"
    text = f"{sign}{digits[: len(digits) - scale]}{'.' if scale else ''}{digits[len(digits) - scale :]}"
    (fraction,) = encode(BigDecSerializer(), text)

    minimal = number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)
    known = {0: 1, 1: 2, 10: 3}
    expected = (
        known[number].to_bytes(4, "big")
        if number in known
        else (len(minimal) + 4).to_bytes(4, "big") + minimal
    )
    assert whole == expected
    assert fraction == expected + scale.to_bytes(4, "big")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1E+3", "00000002fffffffd"), ("-2.5e-1", "00000005e700000002"), ("+7", "000000050700000000"), ("-0", "0000000100000000")],
)  # fmt: skip
def test_numbers_with_an_exponent(text: str, expected: str) -> None:
    assert encode(BigDecSerializer(), text) == [bytes.fromhex(expected)]


@pytest.mark.parametrize("text", ["1E", "E1", "1.2.3", "--1", "1x", "1E12345678901", ".", "1E9999999999"])
def test_texts_that_are_no_numbers(text: str) -> None:
    with pytest.raises(UnencodableValueError, match=r"row 0, value: expected a "):
        encode(BigDecSerializer(), text)


@given(number=st.integers(-(10**38) + 1, 10**38 - 1))
def test_large_decimals_are_as_short_as_they_can_be(number: int) -> None:
    serializer = DecimalDataSerializer(decimal_type(38, 0))
    array = pa.Array.from_buffers(
        pa.decimal128(38, 0), 1, [None, pa.py_buffer(number.to_bytes(16, "little", signed=True))]
    )

    (found,) = encode_array(serializer, array)

    minimal = number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)
    assert found == len(minimal).to_bytes(4, "big") + minimal


@given(days=st.integers(-(2**31), 2**31 - 1))
def test_dates_of_all_columns(days: int) -> None:
    serializer = serializer_named("LocalDate")
    assert serializer is not None
    array = pa.array([days], pa.int32()).cast(pa.date32())

    (found,) = encode_array(serializer, array)

    (column,) = decode_columns(serializer, found)
    assert column.cast(pa.int32()).to_pylist() == [days]


def test_an_entry_that_holds_more_than_its_columns_is_not_restored() -> None:
    tree, code = column_and_program(STRING, enabled=True, ends=True)
    half_a_pair = b"\x02\x80\xb0\x03"  # U+D800, which no column of text can hold
    (batch,) = Decoder(tree, code).decode(page_of([b"\x02a", half_a_pair, b"\0"]))

    assert batch.arrays[0].to_pylist() == ["a", "\N{REPLACEMENT CHARACTER}", None]
    assert Encoder(tree, code).restores(batch).tolist() == [True, False, True]


def test_entries_behind_one_that_cannot_be_encoded_are_restored() -> None:
    tree, code = column_and_program(LONG, enabled=True, ends=True)
    (batch,) = Decoder(tree, code).decode(page_of([b"\0" * 8, b"\1" * 8, b"\2" * 8]))
    missing = Batch(batch.page, [pa.array([0, None, 0x0202020202020202])], [])

    assert Encoder(tree, code).restores(missing).tolist() == [True, False, True]


def test_text_is_not_taken_for_bytes() -> None:
    with pytest.raises(UnencodableTypeError, match="expected bytes, found text"):
        encode_array(BytePrimitiveArraySerializer(), pa.array(["a"]))
