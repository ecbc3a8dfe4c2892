"""Avro in Flink's encoding: values of real Flink, round trips of random schemas, recursion, broken schemas and bytes."""

from __future__ import annotations

import contextlib
import datetime
import json
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from readers.cursor import Cursor
from readers.errors import CorruptDataError, ReaderError, ValueOutOfRangeError
from readers.serializers.avro import AvroSerializer, read_schema
from readers.serializers.base import OpaqueSerializer
from readers.snapshots.reading import read_versioned
from tests.support.single_values import decode, decode_columns, decode_one, serializer_of, vectors_of

SNAPSHOT = "org.apache.flink.formats.avro.typeutils.AvroSerializerSnapshot"
TREE = {
    "type": "record",
    "name": "t.Node",
    "fields": [{"name": "v", "type": "int"}, {"name": "next", "type": ["null", "Node"]}],
}


def avro(schema: Any) -> AvroSerializer:
    text = json.dumps(schema)
    return AvroSerializer(text, "", read_schema(text))


def record(**fields: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": "R",
        "fields": [{"name": name, "type": kind} for name, kind in fields.items()],
    }


def i4(number: int) -> bytes:
    return struct.pack(">i", number)


def text(value: str) -> bytes:
    return i4(len(value.encode())) + value.encode()


@pytest.mark.parametrize("entry", vectors_of("AvroSerializer"), ids=lambda entry: entry["flink"])
def test_what_flink_wrote(entry: dict[str, Any]) -> None:
    first, second = decode(serializer_of(entry), *(bytes.fromhex(value["hex"]) for value in entry["values"]))

    described = entry["values"][0]["value"]
    same = {"by": b"\x01\x02", "m": [("k", 9)], "f": b"\x07\x08", "dec": Decimal("12.34")}
    assert first == described | same
    assert second == first | {"u": "x", "a": [], "m": []}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_snapshot_versions(version: int) -> None:
    schema = json.dumps(record(a="int"))

    def utf(value: str) -> bytes:
        return struct.pack(">H", len(value)) + value.encode()

    def string(value: str) -> bytes:
        count = len(value) + 1
        return (bytes([count]) if count < 128 else bytes([count & 0x7F | 0x80, count >> 7])) + value.encode()

    bodies = {1: utf(schema), 2: utf("a.B") + utf(schema), 3: string("a.B") + string(schema)}
    cursor = Cursor(utf(SNAPSHOT) + i4(version) + bodies[version])

    serializer = read_versioned(cursor)

    assert cursor.remaining == 0
    assert serializer.arrow() == pa.struct([("a", pa.int32())])
    assert serializer.type_name == "Avro<R>"


def test_a_union_with_null_is_nullable_and_others_are_structs() -> None:
    serializer = avro(record(a=["null", "long"], b=["string", "null"], c=["int", "string", "null"]))
    raw = i4(0) + i4(0) + text("x") + i4(1) + text("y")

    value = decode_one(serializer, raw)

    assert value == {"a": None, "b": "x", "c": {"int": None, "string": "y"}}
    assert decode_one(serializer, i4(1) + bytes(8) + i4(1) + i4(2)) == {"a": 0, "b": None, "c": None}


def test_arrays_in_several_blocks_are_one_list() -> None:
    serializer = avro({"type": "array", "items": "int"})

    assert decode_one(serializer, b"\x02" + i4(1) + i4(2) + b"\x01" + i4(3) + b"\0") == [1, 2, 3]


def test_logical_types() -> None:
    serializer = avro(
        record(
            day={"type": "int", "logicalType": "date"},
            ms={"type": "long", "logicalType": "timestamp-millis"},
            us={"type": "long", "logicalType": "local-timestamp-micros"},
            clock={"type": "int", "logicalType": "time-millis"},
            small={"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1},
            fixed={
                "type": "fixed",
                "name": "F",
                "size": 20,
                "logicalType": "decimal",
                "precision": 38,
                "scale": 0,
            },
            large={"type": "bytes", "logicalType": "decimal", "precision": 50, "scale": 1},
        )
    )
    raw = (
        i4(1)
        + struct.pack(">qq", 1500, 2)
        + i4(7)
        + i4(1)
        + b"\xf6"
        + b"\xff" * 19
        + b"\xfe"
        + i4(1)
        + b"\x05"
    )

    assert decode_one(serializer, raw) == {
        "day": datetime.date(1970, 1, 2),
        "ms": datetime.datetime(1970, 1, 1, 0, 0, 1, 500_000),
        "us": datetime.datetime(1970, 1, 1, 0, 0, 0, 2),
        "clock": 7,
        "small": Decimal("-1.0"),
        "fixed": Decimal(-2),
        "large": b"\x05",
    }


def test_a_decimal_beyond_its_precision_is_no_value() -> None:
    serializer = avro({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 0})

    assert decode_one(serializer, i4(1) + bytes([99])) == 99
    with pytest.raises(ValueOutOfRangeError):
        decode(serializer, i4(1) + bytes([100]))


def test_a_recursive_record_is_json_where_it_recurs() -> None:
    raw = i4(1) + i4(1) + i4(2) + i4(1) + i4(3) + i4(0)

    value = decode_one(avro(TREE), raw)

    assert value["v"] == 1
    assert json.loads(value["next"]) == {"v": 2, "next": {"v": 3, "next": None}}


def test_recursion_in_the_bytes_has_a_limit() -> None:
    with pytest.raises(CorruptDataError, match="nest"):
        decode(avro(TREE), (i4(1) + i4(1)) * 5000)


def test_types_used_twice_at_each_level_do_not_explode() -> None:
    schema: Any = record(a="int") | {"name": "L0"}
    for level in range(1, 40):
        fields = [{"name": "a", "type": schema}, {"name": "b", "type": f"L{level - 1}"}]
        schema = {"type": "record", "name": f"L{level}", "fields": fields}

    assert avro(schema).kind.columns() < 10_000


@pytest.mark.parametrize(
    "schema",
    ["", "{", "[" * 5000, '"nothing"', '{"type": "record", "name": "A"}', '{"type": "fixed", "name": "F", "size": -1}',
     '{"type": "array"}', "[1]", '{"type": "record", "name": "A", "fields": [1]}', "null", '{"type":' * 200 + "1" + "}" * 200],
)  # fmt: skip
def test_a_broken_schema_leaves_the_state_raw(schema: str) -> None:
    name = SNAPSHOT.encode()
    raw = struct.pack(">H", len(name)) + name + i4(1) + struct.pack(">H", len(schema)) + schema.encode()

    serializer = read_versioned(Cursor(raw))

    assert isinstance(serializer, OpaqueSerializer)


# ---- random schemas -------------------------------------------------------------------------------------------------


@st.composite
def typed(draw: st.DrawFn, depth: int = 3) -> tuple[Any, Any, bytes]:
    """A schema, a value as its column shows it, its bytes."""
    kinds = ["null", "boolean", "int", "long", "double", "string", "bytes", "enum", "fixed"]
    kind = draw(st.sampled_from(kinds + (["array", "map", "record", "union", "nullable"] if depth else [])))
    part: tuple[Any, Any, bytes] = draw(VALUES[kind](depth))
    return part


def scalar(schema: Any, values: st.SearchStrategy[Any], encode: Any) -> Any:
    return lambda _depth: values.map(lambda value: (schema, value, encode(value)))


def name_of(draw: st.DrawFn) -> str:
    return "N" + draw(st.uuids()).hex


@st.composite
def enums(draw: st.DrawFn, depth: int) -> tuple[Any, Any, bytes]:
    symbols = draw(st.lists(st.sampled_from("ABCDEFG"), min_size=1, unique=True))
    index = draw(st.integers(0, len(symbols) - 1))
    return {"type": "enum", "name": name_of(draw), "symbols": symbols}, symbols[index], i4(index)


@st.composite
def fixed(draw: st.DrawFn, depth: int) -> tuple[Any, Any, bytes]:
    value = draw(st.binary(max_size=9))
    return {"type": "fixed", "name": name_of(draw), "size": len(value)}, value, value


@st.composite
def arrays(draw: st.DrawFn, depth: int) -> tuple[Any, Any, bytes]:
    """The same value several times, in blocks."""
    schema, value, raw = draw(typed(depth - 1))
    blocks = draw(st.lists(st.integers(1, 3), max_size=3))
    body = b"".join(bytes([count]) + raw * count for count in blocks)
    return {"type": "array", "items": schema}, [value] * sum(blocks), body + b"\0"


@st.composite
def maps(draw: st.DrawFn, depth: int) -> tuple[Any, Any, bytes]:
    schema, value, raw = draw(typed(depth - 1))
    keys = draw(st.lists(st.text(max_size=4), max_size=3, unique=True))
    body = bytes([len(keys)]) * bool(keys) + b"".join(text(key) + raw for key in keys)
    return {"type": "map", "values": schema}, [(key, value) for key in keys], body + b"\0"


@st.composite
def records(draw: st.DrawFn, depth: int) -> tuple[Any, Any, bytes]:
    parts = draw(st.lists(typed(depth - 1), min_size=1, max_size=4))
    fields = [{"name": f"f{index}", "type": schema} for index, (schema, _, _) in enumerate(parts)]
    value = {f"f{index}": value for index, (_, value, _) in enumerate(parts)}
    return (
        {"type": "record", "name": name_of(draw), "fields": fields},
        value,
        b"".join(raw for *_, raw in parts),
    )


@st.composite
def unions(draw: st.DrawFn, depth: int) -> tuple[Any, Any, bytes]:
    number, flag = draw(st.integers(-(2**31), 2**31 - 1)), draw(st.booleans())
    value = {"int": None if flag else number, "string": "s" if flag else None}
    return ["int", "null", "string"], value, i4(2) + text("s") if flag else i4(0) + i4(number)


@st.composite
def nullables(draw: st.DrawFn, depth: int) -> tuple[Any, Any, bytes]:
    schema, value, raw = draw(
        typed(depth - 1).filter(lambda part: part[0] != "null" and not isinstance(part[0], list))
    )
    union = ["null", schema]
    return (union, value, i4(1) + raw) if draw(st.booleans()) else (union, None, i4(0))


VALUES: dict[str, Any] = {
    "null": scalar("null", st.none(), lambda _: b""),
    "boolean": scalar("boolean", st.booleans(), lambda value: bytes([value])),
    "int": scalar("int", st.integers(-(2**31), 2**31 - 1), i4),
    "long": scalar("long", st.integers(-(2**63), 2**63 - 1), lambda value: struct.pack(">q", value)),
    "double": scalar("double", st.floats(allow_nan=False), lambda value: struct.pack(">d", value)),
    "string": scalar("string", st.text(max_size=9), text),
    "bytes": scalar("bytes", st.binary(max_size=9), lambda value: i4(len(value)) + value),
    "enum": enums,
    "fixed": fixed,
    "array": arrays,
    "map": maps,
    "record": records,
    "union": unions,
    "nullable": nullables,
}


@given(part=typed(), copies=st.integers(1, 3))
def test_round_trip(part: tuple[Any, Any, bytes], copies: int) -> None:
    schema, value, raw = part

    assert decode(avro(schema), *([raw] * copies)) == [value] * copies


@given(part=typed(), data=st.data())
def test_broken_bytes_end_in_a_value_or_an_error(part: tuple[Any, Any, bytes], data: st.DataObject) -> None:
    schema, _, raw = part
    broken = bytearray(raw or b"\0")
    broken[data.draw(st.integers(0, len(broken) - 1))] = data.draw(st.integers(0, 255))

    with contextlib.suppress(ReaderError):
        decode_columns(avro(schema), bytes(broken[: data.draw(st.integers(0, len(broken)))]))


@given(raw=st.binary(max_size=40))
def test_text_is_repaired_as_java_does(raw: bytes) -> None:
    assert decode_one(avro("string"), i4(len(raw)) + raw) == raw.decode("utf-8", "replace")
