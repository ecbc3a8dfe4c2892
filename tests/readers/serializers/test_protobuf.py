"""Protobuf messages: those that Kryo and chill wrote, every scalar type, merging, hostile bytes."""

from __future__ import annotations

import base64
import json
import struct
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readers.cursor import Cursor
from readers.errors import CorruptDataError, ReaderError
from readers.formats.entry import Entry, StateKind
from readers.serializers.containers import ListSerializer
from readers.serializers.kryo.serializer import KryoSerializer
from readers.serializers.primitives import BytePrimitiveArraySerializer, StringSerializer
from readers.serializers.protobuf import FieldType, ProtobufReader, ProtobufSerializer, read_descriptors
from readers.snapshots.reading import read_versioned
from readers.stateinfo.file import read_state_info, state_info_text
from readers.stateinfo.refinement import Knowledge
from tests.support.paths import DATA
from tests.support.refused import not_refused
from tests.support.single_values import decode, decode_one

WRITTEN = {
    name: tuple(bytes.fromhex(part) for part in parts)
    for name, *parts in (
        line.split() for line in (DATA / "connectors" / "protobuf.txt").read_text().splitlines()
    )
}
VALUES: dict[str, dict[str, Any]] = {
    "type": {
        "@class": "com.google.protobuf.Type",
        "name": "Größe",
        "fields": [
            {
                "kind": "TYPE_UINT64",
                "cardinality": "CARDINALITY_REPEATED",
                "number": -7,
                "name": "n",
                "type_url": "",
                "oneof_index": 0,
                "packed": True,
                "options": [],
                "json_name": "",
                "default_value": "",
            }
        ],
        "oneofs": ["either", ""],
        "options": [{"name": "o", "value": {"type_url": "u", "value": "AP8="}}],
        "syntax": "SYNTAX_PROTO3",
    },
    "struct": {
        "@class": "com.google.protobuf.Struct",
        "fields": [
            {
                "key": "list",
                "value": {
                    "list_value": {
                        "values": [
                            {"number_value": -1.5},
                            {"number_value": "NaN"},
                            {"null_value": "NULL_VALUE"},
                        ]
                    }
                },
            }
        ],
    },
    "empty": {"@class": "com.google.protobuf.BoolValue", "value": False},
}
SCALARS = [kind for kind in FieldType if kind not in (FieldType.GROUP, FieldType.MESSAGE, FieldType.ENUM)]


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])


def part(number: int, data: bytes | str) -> bytes:
    raw = data.encode() if isinstance(data, str) else data
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def count(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def field(
    name: str, number: int, kind: FieldType, *, repeated: bool = False, of: str = "", oneof: bool = False
) -> bytes:
    data = part(1, name) + count(3, number) + count(4, 3 if repeated else 1) + count(5, kind)
    return part(2, data + (part(6, f".{of}") if of else b"") + (count(9, 0) if oneof else b""))


def descriptor_set(*, proto3: bool = True) -> bytes:
    """`shop.All` with a field of each type, lists of them, a message, a map, an enum and a oneof."""
    fields = [field(kind.name.lower(), kind, kind) for kind in SCALARS]
    fields += [field(f"{kind.name.lower()}s", kind + 20, kind, repeated=True) for kind in SCALARS]
    fields += [
        field("color", 50, FieldType.ENUM, of="shop.Color"),
        field("colors", 51, FieldType.ENUM, of="shop.Color", repeated=True),
        field("inner", 52, FieldType.MESSAGE, of="shop.All"),
        field("inners", 53, FieldType.MESSAGE, of="shop.All", repeated=True),
        field("counts", 54, FieldType.MESSAGE, of="shop.All.CountsEntry", repeated=True),
        field("left", 55, FieldType.INT32, oneof=True),
        field("right", 56, FieldType.STRING, oneof=True),
    ]
    entry = part(1, "CountsEntry") + field("key", 1, FieldType.STRING) + field("value", 2, FieldType.INT64)
    message = part(1, "All") + b"".join(fields) + part(3, entry + part(7, count(7, 1)))
    colors = part(2, part(1, "RED") + count(2, 0)) + part(2, part(1, "BLUE") + count(2, -1))
    file = part(1, "shop/all-things.proto") + part(2, "shop") + part(4, message)
    file += part(5, part(1, "Color") + colors) + (part(12, "proto3") if proto3 else b"")
    return part(1, file)


ALL = read_descriptors(descriptor_set())


def encoded(kind: FieldType, value: Any) -> bytes:
    """Encode a scalar without its tag."""
    formats = {
        FieldType.DOUBLE: "<d",
        FieldType.FLOAT: "<f",
        FieldType.FIXED64: "<Q",
        FieldType.FIXED32: "<I",
        FieldType.SFIXED32: "<i",
        FieldType.SFIXED64: "<q",
    }
    if kind in formats:
        return struct.pack(formats[kind], value)
    if kind in (FieldType.SINT32, FieldType.SINT64):
        return varint(value << 1 ^ value >> 63)
    if kind in (FieldType.STRING, FieldType.BYTES):
        raw = value.encode() if isinstance(value, str) else value
        return varint(len(raw)) + raw
    return varint(int(value))


def wire_type(kind: FieldType) -> int:
    return {8: 1, 4: 5}.get(
        len(encoded(kind, 0)) if kind not in (FieldType.STRING, FieldType.BYTES) else 0,
        2 if kind in (FieldType.STRING, FieldType.BYTES) else 0,
    )


def scalar(kind: FieldType, value: Any, offset: int = 0) -> bytes:
    return varint(kind + offset << 3 | wire_type(kind)) + encoded(kind, value)


def shown(value: Any) -> Any:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def values_of(kind: FieldType) -> st.SearchStrategy[Any]:
    if kind is FieldType.BOOL:
        return st.booleans()
    if kind is FieldType.STRING:
        return st.text()
    if kind is FieldType.BYTES:
        return st.binary()
    if kind in (FieldType.DOUBLE, FieldType.FLOAT):
        finite = st.floats(allow_nan=False, allow_infinity=False, width=32)
        return st.floats(allow_nan=False, allow_infinity=False) if kind is FieldType.DOUBLE else finite
    bits = 64 if "64" in kind.name else 32
    unsigned = kind.name.startswith(("UINT", "FIXED"))
    return st.integers(0, 2**bits - 1) if unsigned else st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def tree(data: bytes) -> dict[str, Any]:
    """Return the members that are no defaults."""
    empty = ProtobufReader(ALL).tree("shop.All", memoryview(b""))
    found = ProtobufReader(ALL).tree("shop.All", memoryview(data))
    return {name: value for name, value in found.items() if name not in empty or value != empty[name]}


# ---- what Kryo wrote ----


def serializer_of(name: str, *, described: bool) -> KryoSerializer:
    snapshot, _, descriptors = WRITTEN[name]
    given = read_descriptors(descriptors) if described else None
    serializer = Knowledge(kryo=2, descriptors=given).inform(read_versioned(Cursor(snapshot)))
    assert isinstance(serializer, KryoSerializer)
    return serializer


@pytest.mark.parametrize("name", VALUES)
def test_a_message_that_kryo_wrote_is_shown_with_its_descriptor(name):
    serializer = serializer_of(name, described=True)

    assert list(serializer.problems()) == []
    assert json.loads(decode_one(serializer, WRITTEN[name][1])) == VALUES[name]


@pytest.mark.parametrize("name", VALUES)
def test_a_message_without_a_descriptor_is_its_bytes_and_hides_nothing(name):
    serializer = serializer_of(name, described=False)
    value = WRITTEN[name][1]

    (problem,) = serializer.problems()
    assert problem.reason == f"{VALUES[name]['@class']}: protobuf, which needs a descriptor"
    assert problem.sized
    shown_value = json.loads(decode_one(ListSerializer(serializer), b"\0\0\0\2" + value + value)[1])
    assert shown_value["@class"] == VALUES[name]["@class"]
    assert value.endswith(base64.b64decode(shown_value["@protobuf"]))


def test_java_classes_are_those_of_protoc():
    assert ALL.java_classes == {
        "shop.AllThings$All": "shop.All",
        "shop.AllThings$All$CountsEntry": "shop.All.CountsEntry",
    }
    assert read_descriptors(WRITTEN["type"][2]).java_classes["com.google.protobuf.Type"] == (
        "google.protobuf.Type"
    )


# ---- every type ----


@given(st.sampled_from(SCALARS).flatmap(lambda kind: st.tuples(st.just(kind), values_of(kind))))
def test_a_scalar_round_trips(case):
    kind, value = case
    name = kind.name.lower()

    found = ProtobufReader(ALL).tree("shop.All", memoryview(scalar(kind, value)))

    assert found[name] == shown(value)


@given(
    st.sampled_from(SCALARS).flatmap(
        lambda kind: st.tuples(st.just(kind), st.lists(values_of(kind), min_size=1))
    ),
    st.booleans(),
)
def test_a_repeated_scalar_round_trips_packed_and_not(case, packed):
    kind, values = case
    if packed and kind not in (FieldType.STRING, FieldType.BYTES):
        data = part(kind + 20, b"".join(encoded(kind, value) for value in values))
    else:
        data = b"".join(scalar(kind, value, 20) for value in values)

    assert tree(data)[f"{kind.name.lower()}s"] == [shown(value) for value in values]


def test_enums_are_their_constants_and_unknown_ones_their_numbers():
    assert tree(count(50, -1) + part(51, varint(0) + varint(-1) + varint(7))) == {
        "color": "BLUE",
        "colors": ["RED", "BLUE", 7],
    }


def test_a_map_is_its_entries_with_defaults_for_what_is_left_out():
    data = part(54, part(1, "a") + count(2, -5)) + part(54, b"")

    assert tree(data) == {"counts": [{"key": "a", "value": -5}, {"key": "", "value": 0}]}


def test_the_last_of_a_oneof_counts():
    assert tree(count(55, 1) + part(56, "x")) == {"right": "x"}
    assert tree(part(56, "x") + count(55, 1)) == {"left": 1}


def test_the_last_scalar_counts_and_messages_are_merged():
    data = part(52, count(5, 1) + count(3, 9)) + part(52, count(5, 2)) + count(5, 1) + count(5, 3)

    found = tree(data)

    assert found["int32"] == 3
    assert (found["inner"]["int32"], found["inner"]["int64"]) == (2, 9)


def test_absent_fields_of_proto2_are_left_out_and_those_of_proto3_have_their_default():
    old = ProtobufReader(read_descriptors(descriptor_set(proto3=False))).tree("shop.All", memoryview(b""))
    new = ProtobufReader(ALL).tree("shop.All", memoryview(b""))

    assert all(value == [] for value in old.values())
    assert (new["int64"], new["string"], new["bool"], new["double"], new["color"]) == (
        0,
        "",
        False,
        0.0,
        "RED",
    )
    assert "inner" not in new
    assert "left" not in new


def test_unknown_fields_are_kept():
    group = varint(91 << 3 | 3) + count(1, 5) + varint(91 << 3 | 4)

    assert tree(count(90, 7) + group) == {
        "@unknown": [
            {"field": 90, "value": 7},
            {"field": 91, "value": base64.b64encode(count(1, 5)).decode()},
        ]
    }


# ---- stateInfo ----


def refined(value: Any, members: dict[str, Any], *, described: bool = True) -> tuple[Entry, tuple[str, ...]]:
    document = {
        "version": 1,
        "operators": [{"id": "0" * 32, "states": [{"name": "s", "kind": "VALUE", "value": members}]}],
    }
    if described:
        document["protobuf"] = base64.b64encode(descriptor_set()).decode()
    info = read_state_info(json.dumps(document).encode())
    assert read_state_info(state_info_text(info).encode()) == info
    knowledge = Knowledge(kryo=2, descriptors=info.descriptors, operator=info.operators["0" * 32])
    entry, contradictions = knowledge.refine("s", Entry(kind=StateKind.VALUE, value=value))
    return entry, tuple(map(str, contradictions))


def test_bytes_that_state_info_says_are_messages_are_shown_as_such():
    entry, contradictions = refined(
        ListSerializer(BytePrimitiveArraySerializer()), {"type": "List<byte[]>", "message": "shop.All"}
    )
    message = count(5, 4)

    assert contradictions == ()
    assert entry.value is not None
    assert entry.value.type_name == "List<Protobuf<shop.All>>"
    (values,) = decode(entry.value, b"\0\0\0\1" + len(message).to_bytes(4) + message)
    assert json.loads(values[0])["int32"] == 4


def test_what_state_info_says_of_other_types_is_a_contradiction():
    entry, contradictions = refined(StringSerializer(), {"message": "shop.All"})
    assert contradictions == (
        "stateInfo: expected the value type String as the savepoint has it, found a message shop.All",
    )
    assert entry.value == StringSerializer()

    _, contradictions = refined(BytePrimitiveArraySerializer(), {"message": "shop.None"})
    assert contradictions == ("stateInfo: expected a descriptor of shop.None, found none",)


# ---- hostile bytes ----


@given(st.binary(max_size=200))
def test_random_bytes_are_a_message_or_an_error(data):
    with suppress(ReaderError):
        ProtobufReader(ALL).tree("shop.All", memoryview(data))
    with suppress(ReaderError):
        read_descriptors(data)


def test_a_truncated_value_is_an_error():
    serializer, written = serializer_of("type", described=True), WRITTEN["type"][1]

    assert (
        not_refused(range(len(written)), lambda length: decode_one(serializer, written[:length]), ReaderError)
        == []
    )


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_broken_descriptors_are_descriptors_or_an_error(position, flip):
    data = bytearray(descriptor_set())
    data[position % len(data)] ^= flip
    with suppress(ReaderError):
        read_descriptors(bytes(data))


def test_messages_and_groups_nest_to_a_limit():
    data = b""
    for _ in range(120):
        data = part(52, data)
    groups = varint(9 << 3 | 3) * 5000

    with pytest.raises(CorruptDataError, match="nest deeper than 100"):
        ProtobufReader(ALL).tree("shop.All", memoryview(data))
    with pytest.raises(CorruptDataError, match="nest deeper than 100"):
        ProtobufReader(ALL).tree("shop.All", memoryview(groups))


@pytest.mark.slow
def test_packed_numbers_are_counted():
    with pytest.raises(CorruptDataError, match="at most 1000000 values"):
        ProtobufReader(ALL).tree("shop.All", memoryview(part(28, b"\1" * 1_000_001)))


def test_a_message_of_another_wire_type_is_an_error():
    with pytest.raises(CorruptDataError, match="expected bytes of the field inner, found a number"):
        ProtobufReader(ALL).tree("shop.All", memoryview(count(52, 1)))


def test_the_same_message_and_descriptors_are_the_same_type():
    assert ProtobufSerializer("shop.All", ALL) == ProtobufSerializer("shop.All", ALL)
    assert ProtobufSerializer("shop.All", ALL) != ProtobufSerializer("shop.Other", ALL)
