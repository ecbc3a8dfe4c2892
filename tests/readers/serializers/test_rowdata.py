"""SQL's internal data: values of real Flink, round trips of random types, keys, broken bytes."""

from __future__ import annotations

import contextlib
import datetime
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from readers.cursor import Cursor
from readers.decode.columns import Outlier
from readers.errors import CorruptDataError, ReaderError, UnsupportedSerializerError
from readers.keygroups import hash_binary_row
from readers.serializers.base import OpaqueSerializer, Serializer
from readers.serializers.containers import ListSerializer
from readers.serializers.primitives import IntSerializer, LongSerializer, StringSerializer
from readers.serializers.structs import ROW_KIND
from readers.serializers.table.logicaltypes import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    TIME,
    TINYINT,
    ArrayType,
    BytesType,
    LogicalType,
    MapType,
    RawType,
    RowType,
    TextType,
    decimal_type,
    timestamp_type,
)
from readers.serializers.table.rowdata import (
    ArrayDataSerializer,
    BinaryRowDataSerializer,
    LinkedListSerializer,
    MapDataSerializer,
    NullAwareMapSerializer,
    RawValueDataSerializer,
    RowDataSerializer,
    TimestampDataSerializer,
)
from readers.snapshots.reading import read_versioned
from tests.support.single_values import (
    decode,
    decode_columns,
    decode_one,
    outliers,
    same,
    serializer_of,
    vector,
    vectors_of,
)

TABLE = vectors_of("table.runtime.typeutils", "table.dataview")
EPOCH = datetime.datetime(1970, 1, 1)


def row_of(*types: LogicalType) -> RowDataSerializer:
    return RowDataSerializer(RowType(tuple((f"f{index}", kind) for index, kind in enumerate(types))))


@pytest.mark.parametrize("entry", TABLE, ids=lambda entry: f"{entry['type']} {entry['flink']}")
def test_what_flink_wrote(entry: dict[str, Any]) -> None:
    serializer = serializer_of(entry)

    assert serializer.fixed_length == entry["fixed_length"]
    for value in entry["values"]:
        assert same(value["value"], decode_one(serializer, bytes.fromhex(value["hex"])))


@pytest.mark.parametrize(
    "entry", vectors_of("RowDataSerializer"), ids=lambda entry: f"{entry['type']} {entry['flink']}"
)
def test_keys_are_encoded_as_flink_writes_them(entry: dict[str, Any]) -> None:
    serializer = serializer_of(entry)
    assert isinstance(serializer, RowDataSerializer | BinaryRowDataSerializer)
    if isinstance(serializer, BinaryRowDataSerializer) or "17" in entry["type"]:
        return

    for value in entry["values"]:
        raw = bytes.fromhex(value["hex"])
        row = decode_one(serializer, raw)

        assert serializer.encode(row) == raw
        assert serializer.hash_code(row) == hash_binary_row(raw[4:])


def test_names_of_nested_rows_come_from_the_snapshot_and_others_can_be_given() -> None:
    entry = next(entry for entry in TABLE if entry["type"].startswith("RowData(17"))
    serializer = serializer_of(entry)
    assert isinstance(serializer, RowDataSerializer)

    named = serializer.with_names(tuple(f"c{index}" for index in range(17)))

    assert named.arrow().field("c13").type == pa.struct([("n1", pa.int32()), ("n2", pa.string())])
    assert named.type_name == serializer.type_name


def test_a_row_whose_types_are_not_stored_is_shown_as_bytes() -> None:
    serializer = BinaryRowDataSerializer(2)

    assert decode_one(serializer, struct.pack(">i", 3) + b"abc") == b"abc"
    assert [problem.sized for problem in serializer.problems()] == [True]


def test_a_raw_field_with_an_unknown_serializer_is_shown_as_bytes() -> None:
    raw_type = RawType("a.B", OpaqueSerializer("a.BSerializer", "not known"))
    serializer = row_of(INT, raw_type)

    value = decode_one(serializer, write_row([(INT, 7), (BytesType(), b"0123456789")]))

    assert value == {"f0": 7, "f1": b"0123456789", ROW_KIND: "+I"}
    assert [(problem.path, problem.sized) for problem in serializer.problems()] == [(("f1",), True)]


def test_a_raw_field_is_read_by_its_serializer() -> None:
    serializer = row_of(RawType("java.lang.String", StringSerializer()))

    assert decode_one(serializer, write_row([(BytesType(), b"\x0bhello-raw!")]))["f0"] == "hello-raw!"


def test_a_raw_value_with_an_unknown_serializer_is_shown_as_bytes() -> None:
    serializer = RawValueDataSerializer(OpaqueSerializer("a.BSerializer", "not known"))

    assert decode_one(serializer, struct.pack(">i", 3) + b"abc") == b"abc"


def test_a_map_with_a_null_key_is_null_and_kept_as_text() -> None:
    keys = struct.pack("<iIII", 2, 2, 8, 0)
    values = struct.pack("<iIii", 2, 0, 5, 6)
    raw = struct.pack("<i", len(keys)) + keys + values
    value = struct.pack(">i", len(raw)) + raw
    serializer = MapDataSerializer(INT, INT)

    assert decode(serializer, value) == [None]
    assert outliers(serializer, value) == [
        Outlier(entry=0, path=("value",), json='[{"key":8,"value":5},{"key":null,"value":6}]')
    ]


def test_timestamps_beyond_the_column_are_null_and_kept_as_text() -> None:
    last = struct.pack(">qi", 253_402_300_799_999, 1999)
    serializer = TimestampDataSerializer(9)

    assert decode(serializer, last) == [None]
    assert outliers(serializer, last) == [
        Outlier(entry=0, path=("value",), json='"9999-12-31T23:59:59.999001999"')
    ]
    assert decode_one(TimestampDataSerializer(6), last).microsecond == 999_001


def test_linked_lists_of_all_versions() -> None:
    masked = LinkedListSerializer(IntSerializer(), has_null_mask=True)
    plain = LinkedListSerializer(IntSerializer(), has_null_mask=False)
    numbers = struct.pack(">9i", *range(9))

    assert decode_one(masked, struct.pack(">i", 10) + b"\x00\x40" + numbers) == [*range(9), None]
    assert decode_one(plain, struct.pack(">i", 9) + numbers) == list(range(9))
    assert decode_one(masked, bytes(4)) == []


def test_null_aware_maps_keep_entries_without_key_or_value() -> None:
    serializer = NullAwareMapSerializer(IntSerializer(), LongSerializer())
    raw = struct.pack(">i", 2) + b"\x01\x00" + bytes(8) + b"\x00" + bytes(4) + b"\x01"

    assert decode_one(serializer, raw) == [{"key": None, "value": 0}, {"key": 0, "value": None}]


def test_keys_with_nulls_that_may_reserve_space_are_not_guessed() -> None:
    for kind in (decimal_type(30, 2), timestamp_type("TIMESTAMP", 6)):
        assert row_of(INT, kind).encode({"f0": 1, "f1": None}) is None
    assert row_of(INT, TextType()).encode({"f0": 1, "f1": None}) is not None
    assert row_of(ArrayType(INT)).hash_code({"f0": [1]}) is None
    assert row_of(INT).encode({"f0": 2**31}) is None


@pytest.mark.parametrize(
    ("value", "unscaled_value"),
    [("1.2", 12), ("1.20", 12), ("1.25", None), ("999.9", 9999), ("1000", None), ("1E+2", 1000), ("1E+3", None), (7, 70),
     ("-0.1", -1), ("0E+99", 0), ("NaN", None), ("x", None), (1.5, None), ("1E-999999", None), ("1E+999999", None),
     ("9" * 5000, None), ("1." + "0" * 900, 10)],
)  # fmt: skip
def test_decimals_are_unscaled_exactly_or_not_at_all(value: Any, unscaled_value: int | None) -> None:
    assert decimal_type(4, 1).unscaled(value) == unscaled_value


# ---- an encoder of its own ------------------------------------------------------------------------------------------


def write_row(fields: list[tuple[LogicalType, Any]], *, prefix: bool = True) -> bytes:
    """Encode as `BinaryRowWriter`: slots in order, behind them the data that do not fit."""
    head = ((len(fields) + 63 + 8) // 64) * 8
    raw = bytearray(head + 8 * len(fields))
    for index, (kind, value) in enumerate(fields):
        if value is None:
            raw[(8 + index) // 8] |= 1 << (8 + index) % 8
        else:
            write_slot(raw, head + 8 * index, kind, value)
    return struct.pack(">i", len(raw)) + bytes(raw) if prefix else bytes(raw)


def write_array(kind: LogicalType, values: list[Any], *, prefix: bool = True) -> bytes:
    width = WIDTHS.get(kind, 8)
    head = 4 + (len(values) + 31) // 32 * 4
    raw = bytearray((head + width * len(values) + 7) // 8 * 8)
    raw[0:4] = struct.pack("<i", len(values))
    for index, value in enumerate(values):
        if value is None:
            raw[4 + index // 8] |= 1 << index % 8
        else:
            write_slot(raw, head + width * index, kind, value)
    return struct.pack(">i", len(raw)) + bytes(raw) if prefix else bytes(raw)


def write_map(
    key: LogicalType, value: LogicalType, entries: list[tuple[Any, Any]], *, prefix: bool = True
) -> bytes:
    keys = write_array(key, [entry[0] for entry in entries], prefix=False)
    raw = (
        struct.pack("<i", len(keys))
        + keys
        + write_array(value, [entry[1] for entry in entries], prefix=False)
    )
    return struct.pack(">i", len(raw)) + raw if prefix else raw


def write_slot(raw: bytearray, at: int, kind: LogicalType, value: Any) -> None:
    if kind in CODES:
        packed = struct.pack("<" + CODES[kind], stored(kind, value))
        raw[at : at + len(packed)] = packed
        return
    if isinstance(kind, TextType | BytesType):
        data = value.encode() if isinstance(value, str) else value
        if len(data) <= 7:
            raw[at : at + 8] = data.ljust(7, b"\0") + bytes([0x80 + len(data)])
            return
        low, area = len(data), data
    elif isinstance(kind, ArrayType):
        area = write_array(kind.element, value, prefix=False)
        low = len(area)
    elif isinstance(kind, MapType):
        area = write_map(kind.key, kind.value, value, prefix=False)
        low = len(area)
    elif isinstance(kind, RowType):
        area = write_row([(part, value[name]) for name, part in kind.fields], prefix=False)
        low = len(area)
    elif kind == LARGE:
        number = unscaled(value, 3)
        data = number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)
        area, low = data.ljust(16, b"\0"), len(data)
    else:
        micros = (value - EPOCH) // datetime.timedelta(microseconds=1)
        area, low = struct.pack("<q", micros // 1000), micros % 1000 * 1000
    raw[at : at + 8] = struct.pack("<II", low, len(raw))
    raw += area + bytes(-len(area) % 8)


def unscaled(value: Decimal, scale: int) -> int:
    whole, _, fraction = f"{value:f}".partition(".")
    return int(whole + fraction.ljust(scale, "0"))


def stored(kind: LogicalType, value: Any) -> Any:
    if isinstance(value, Decimal):
        return unscaled(value, 2)
    if isinstance(value, datetime.datetime):
        return (value - EPOCH) // datetime.timedelta(milliseconds=1)
    if isinstance(value, datetime.date):
        return value.toordinal() - EPOCH.toordinal()
    if isinstance(value, datetime.time):
        return value.hour * 3_600_000 + value.minute * 60_000 + value.second * 1000
    return value


SMALL, LARGE = decimal_type(10, 2), decimal_type(30, 3)
MILLIS, MICROS = timestamp_type("TIMESTAMP", 3), timestamp_type("TIMESTAMP_LTZ", 6)
CODES: dict[LogicalType, str] = {
    BOOLEAN: "?", TINYINT: "b", SMALLINT: "h", INT: "i", BIGINT: "q", FLOAT: "f", DOUBLE: "d", DATE: "i", TIME: "i",
    SMALL: "q", MILLIS: "q",
}  # fmt: skip
WIDTHS: dict[LogicalType, int] = {BOOLEAN: 1, TINYINT: 1, SMALLINT: 2, INT: 4, FLOAT: 4, DATE: 4, TIME: 4}
MILLISECONDS = st.integers(-(10**13), 10**13)
SCALARS: dict[LogicalType, st.SearchStrategy[Any]] = {
    BOOLEAN: st.booleans(),
    TINYINT: st.integers(-128, 127),
    SMALLINT: st.integers(-(2**15), 2**15 - 1),
    INT: st.integers(-(2**31), 2**31 - 1),
    BIGINT: st.integers(-(2**63), 2**63 - 1),
    FLOAT: st.floats(width=32, allow_nan=False),
    DOUBLE: st.floats(allow_nan=False),
    DATE: st.dates(),
    TIME: st.integers(0, 86_399).map(lambda s: datetime.time(s // 3600, s // 60 % 60, s % 60)),
    SMALL: st.decimals(-99_999_999, 99_999_999, places=2),
    LARGE: st.integers(-(10**30) + 1, 10**30 - 1).map(lambda number: Decimal(f"{number}E-3")),
    MILLIS: MILLISECONDS.map(lambda ms: EPOCH + datetime.timedelta(milliseconds=ms)),
    MICROS: st.datetimes(),
    TextType(): st.text(max_size=12),
    BytesType(): st.binary(max_size=12),
}


@st.composite
def typed(draw: st.DrawFn, depth: int = 2) -> tuple[LogicalType, st.SearchStrategy[Any]]:
    """A type and its values."""
    shape = draw(st.sampled_from(["scalar", "scalar", "array", "map", "row"] if depth else ["scalar"]))
    if shape == "scalar":
        scalar = draw(st.sampled_from(list(SCALARS)))
        return scalar, SCALARS[scalar]
    if shape == "row":
        parts = draw(st.lists(typed(depth - 1), max_size=3))
        values = st.fixed_dictionaries(
            {f"n{index}": st.none() | part for index, (_, part) in enumerate(parts)}
        )
        return RowType(tuple((f"n{index}", kind) for index, (kind, _) in enumerate(parts))), values
    kind, values = draw(typed(depth - 1))
    if shape == "array":
        return ArrayType(kind), st.lists(st.none() | values, max_size=40 if depth == 1 else 3)
    key = draw(st.sampled_from([TextType(), INT, BIGINT, LARGE]))
    return MapType(key, kind), st.lists(st.tuples(SCALARS[key], st.none() | values), max_size=3)


@given(data=st.data(), kind=st.integers(0, 3))
def test_rows_round_trip(data: st.DataObject, kind: int) -> None:
    parts = data.draw(st.lists(typed(), max_size=6)) + [(INT, SCALARS[INT])] * data.draw(
        st.sampled_from([0, 0, 60])
    )
    rows = data.draw(
        st.lists(st.tuples(*(st.none() | values for _, values in parts)), min_size=1, max_size=3)
    )
    serializer = row_of(*(part for part, _ in parts))
    raws = [bytearray(write_row(list(zip((part for part, _ in parts), row, strict=True)))) for row in rows]
    for raw in raws:
        raw[4] = kind

    values = decode(serializer, *map(bytes, raws))

    names = [f"f{index}" for index in range(len(parts))]
    expected_kind = {ROW_KIND: ["+I", "-U", "+U", "-D"][kind]}
    assert values == [dict(zip(names, row, strict=True)) | expected_kind for row in rows]


@given(data=st.data())
def test_arrays_and_maps_round_trip(data: st.DataObject) -> None:
    kind, values = data.draw(typed())
    elements = data.draw(st.lists(st.none() | values, max_size=70))
    entries = data.draw(st.lists(st.tuples(SCALARS[INT], st.none() | values), max_size=5))

    assert decode_one(ArrayDataSerializer(kind), write_array(kind, elements)) == elements
    assert decode_one(MapDataSerializer(INT, kind), write_map(INT, kind, entries)) == entries


@given(data=st.data())
def test_rows_in_a_list_end_where_the_next_begins(data: st.DataObject) -> None:
    kind, values = data.draw(typed())
    rows = data.draw(st.lists(st.none() | values, max_size=4))
    raw = struct.pack(">i", len(rows)) + b"".join(write_row([(kind, row)]) for row in rows)

    found = decode_one(ListSerializer(row_of(kind)), raw)

    assert [row["f0"] for row in found] == rows


@given(data=st.data())
def test_keys_are_encoded_and_hashed_as_they_are_written(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(list(SCALARS)), max_size=5))
    row = [data.draw(SCALARS[kind]) for kind in kinds]
    value = {f"f{index}": part for index, part in enumerate(row)}
    raw = write_row(list(zip(kinds, row, strict=True)))

    assert row_of(*kinds).encode(value) == raw
    assert row_of(*kinds).hash_code(value) == hash_binary_row(raw[4:])


@given(data=st.data())
def test_broken_bytes_end_in_a_value_or_an_error(data: st.DataObject) -> None:
    parts = data.draw(st.lists(typed(), min_size=1, max_size=4))
    row = data.draw(st.tuples(*(st.none() | values for _, values in parts)))
    raw = bytearray(write_row(list(zip((part for part, _ in parts), row, strict=True))))
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))

    with contextlib.suppress(ReaderError):
        decode_columns(
            row_of(*(part for part, _ in parts)), bytes(raw[: data.draw(st.integers(0, len(raw)))])
        )


@pytest.mark.parametrize("size", [0, 15, 2**31 - 1, -1])
def test_a_row_shorter_than_its_slots_is_corrupt(size: int) -> None:
    with pytest.raises(CorruptDataError):
        decode(row_of(INT), struct.pack(">i", size) + bytes(15))


# ---- types of classes that are not known ----


def changed_row(
    old: bytes, new: bytes, name: str = "RowData(INT,VARCHAR)"
) -> tuple[Serializer, dict[str, Any]]:
    """Return the serializer of a row that Flink wrote, with other types and the same serializers of its fields; and the vector."""
    entry = vector(name, "1.20")
    types, magic, fields = bytes.fromhex(entry["snapshot_hex"]).partition(bytes.fromhex("001457fd"))
    assert old in types
    cursor = Cursor(types.replace(old, new) + magic + fields)
    serializer = read_versioned(cursor)
    assert cursor.remaining == 0
    return serializer, entry


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(b"typeRoot", b"typeR00t", id="a class without a root"),
        pytest.param(b"\xac\xed\x00\x05sr", b"\xac\xed\x00\x05yr", id="a stream that is not parsed"),
    ],
)
def test_a_row_whose_types_are_not_known_is_laid_out_by_its_serializers(old: bytes, new: bytes) -> None:
    serializer, entry = changed_row(old, new)

    assert serializer.type_name == "ROW<INT, STRING>"
    for value in entry["values"]:
        assert same(value["value"], decode_one(serializer, bytes.fromhex(value["hex"])))
    reasons = [(problem.path, problem.reason, problem.sized) for problem in serializer.problems()]
    reason = "its SQL type is of a class that is not known; shown as its serializer lays it out"
    assert reasons == [(("f0",), reason, True), (("f1",), reason, True)]


def test_dates_and_times_are_numbers_then() -> None:
    known = serializer_of(vector("RowData(17 mixed fields)", "1.20"))
    serializer, entry = changed_row(b"typeRoot", b"typeR00t", "RowData(17 mixed fields)")
    assert isinstance(known, RowDataSerializer)
    assert isinstance(serializer, RowDataSerializer)

    physical = [kind.name for kind in serializer.field_types]
    declared = [kind.name for kind in known.field_types]

    assert len(physical) == len(declared) == 17
    assert {a: b for a, b in zip(declared, physical, strict=True) if a != b} == {
        "DATE": "INT",
        "TIME": "INT",
        "TIMESTAMP_LTZ(9)": "TIMESTAMP(9)",
        "VARCHAR(20)": "STRING",
        "VARBINARY(10)": "BYTES",
        "ROW<n1 INT, n2 VARCHAR(10)>": "ROW<f0 INT, f1 VARCHAR(10)>",
    }
    for value in entry["values"]:
        decode_one(serializer, bytes.fromhex(value["hex"]))


def test_without_the_serializers_of_its_fields_such_a_row_is_an_error() -> None:
    entry = vector("RowData(INT,VARCHAR)", "1.20")
    data = bytes.fromhex(entry["snapshot_hex"]).partition(bytes.fromhex("001457fd"))[0]

    with pytest.raises(ReaderError):
        read_versioned(Cursor(data.replace(b"\xac\xed\x00\x05sr", b"\xac\xed\x00\x05yr")))


def test_an_array_of_a_type_that_is_not_known_is_an_unknown_serializer() -> None:
    entry = next(entry for entry in vectors_of("ArrayDataSerializer") if entry["flink"].startswith("1.20"))

    with pytest.raises(UnsupportedSerializerError, match="expected a known LogicalType"):
        read_versioned(Cursor(bytes.fromhex(entry["snapshot_hex"]).replace(b"typeRoot", b"typeR00t")))
