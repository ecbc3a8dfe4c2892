"""Kryo objects: those that real Flink wrote, round trips of both versions, unknown classes, broken bytes."""

from __future__ import annotations

import base64
import contextlib
import json
import math
import struct
import uuid
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from readers.errors import CorruptDataError, ReaderError, UnsupportedSerializerError
from readers.keygroups import hash_long
from readers.serializers.containers import ListSerializer
from readers.serializers.kryo.serializer import KryoSerializer
from readers.serializers.kryo.settings import (
    KRYO_2_24,
    KRYO_5,
    KryoClass,
    KryoRegistration,
    KryoSettings,
    KryoType,
    kryo_type,
)
from readers.serializers.primitives import IntSerializer, LongSerializer
from readers.serializers.structs import TupleSerializer
from readers.stateinfo.refinement import Knowledge
from tests.support.single_values import decode, decode_columns, decode_one, serializer_of, vector, vectors_of

VERSIONS = [KRYO_2_24, KRYO_5]

# The user classes of the vectors.
CLASSES = {
    "Gen$Gk": KryoClass(
        fields=(
            ("name", "java.lang.String"), ("age", "int"), ("id", "long"), ("score", "double"), ("ok", "boolean"),
            ("boxed", "java.lang.Integer"), ("tags", "java.util.List<java.lang.String>"),
            ("m", "java.util.Map<java.lang.String, java.lang.Integer>"), ("arr", "int[]"), ("inner", "Gen$Inner"),
            ("sameInner", "Gen$Inner"), ("color", "Gen$Color"), ("nothing", "java.lang.Object"),
            ("uuid", "java.util.UUID"),
        )
    ),
    "Gen$Inner": KryoClass(fields=(("v", "int"),)),
    "Gen$Gk2": KryoClass(fields=(("s", "java.lang.String"), ("i", "int"))),
    "Gen$Color": KryoClass(constants=("RED", "GREEN", "BLUE")),
    "Gen$Pt": KryoClass(fields=(("arr", "double[]"), ("name", "java.lang.String"), ("opt", "java.lang.Long"), ("x", "int"))),
    "Gen$Rec": KryoClass(fields=(("a", "java.lang.String"), ("b", "int"), ("c", "java.util.List"))),
}  # fmt: skip

# The vectors' own words for values, where they are not the value.
WORDS = {
    '"str abc"': "abc",
    '{"Date": 5}': "1970-01-01T00:00:00.005Z",
    '{"Instant": "5s"}': "1970-01-01T00:00:05Z",
    '{"UUID": [1, 2]}': "00000000-0000-0001-0000-000000000002",
    '{"byte[]": "0102"}': "AQI=",
    '{"Timestamp": 1}': "1970-01-01T00:00:00.001",
    '{"Class": "String"}': "java.lang.String",
    '{"Tuple2": [1, "a"]}': {"@class": "org.apache.flink.api.java.tuple.Tuple2", "f0": 1, "f1": "a"},
    '{"Throwable": "java-serialized"}': [1],
    '{"InetSocketAddress": ["h", 80]}': "h:80",
    '{"sql.Date": 5}': "1970-01-01T00:00:00.005",
    '{"Duration": "1.5s"}': "PT1.5S",
    '{"ZonedDateTime": "..UTC"}': "2024-01-01T00:00Z",
    '{"same string twice": 1}': ["zz", "zz", 5],
    '{"record Rec": 1}': {"@class": "Gen$Rec", "a": "q", "b": 4, "c": [7]},
}


EXCEPTION = {
    "@class": "java.lang.IllegalStateException",
    "detailMessage": "m",
    "cause": {"@reference": "java.lang.IllegalStateException"},
    "stackTrace": [
        {
            "@class": "java.lang.StackTraceElement",
            "format": 1,
            "lineNumber": 120,
            "classLoaderName": "app",
            "declaringClass": "Gen",
            "fileName": "Gen.java",
            "methodName": "main",
            "moduleName": None,
            "moduleVersion": None,
        }
    ],
    "suppressedExceptions": [],
}


def expected_json(value: Any) -> Any:
    """Return the JSON value that the description of a vector stands for."""
    text = json.dumps(value)
    if text in WORDS or not isinstance(value, dict) or len(value) != 1:
        return WORDS.get(text, value)
    (inner,) = value.values()
    if isinstance(inner, dict):
        return [{"key": key, "value": item} for key, item in inner.items()]
    return inner


@pytest.mark.parametrize(
    "entry", vectors_of("KryoSerializer"), ids=lambda entry: f"{entry['type']} {entry['flink']}"
)
def test_what_flink_wrote(entry: dict[str, Any]) -> None:
    serializer = Knowledge(kryo=0, classes=CLASSES).inform(serializer_of(entry))

    for value in entry["values"]:
        if "hex" not in value:
            continue
        raw = bytes.fromhex(value["hex"])
        text = decode_one(serializer, raw)
        found = None if text is None else json.loads(text)
        check_value(entry["flink"], value["value"], found)


def check_value(flink: str, described: Any, found: Any) -> None:
    word = next(iter(described)) if isinstance(described, dict) and len(described) == 1 else ""
    if word == "Exception":
        assert found == EXCEPTION
    elif word == "POJO Pt":
        assert found == {"@class": "Gen$Pt", "arr": [1.0], "name": "p", "opt": None, "x": 5}
    elif word == "Pattern":
        flags = {"@class": "java.util.regex.Pattern", "pattern": "a+", "flags": 2}
        assert found == ("a+" if flink.startswith("1.") else flags)
    elif isinstance(found, dict) and found["@class"] == "Gen$Gk":
        check_gk(described, found)
    elif isinstance(found, dict) and found["@class"] == "Gen$Gk2":
        text = "a" * 70 if described["s"] == "a*70" else described["s"]
        assert found == {"@class": "Gen$Gk2", "s": text, "i": described["i"]}
    else:
        assert found == expected_json(described)


def check_gk(described: dict[str, Any], found: dict[str, Any]) -> None:
    inner = {"@class": "Gen$Inner", "v": 5}
    special = {"m": [{"key": "k", "value": 7}], "inner": inner, "sameInner": inner, "@class": "Gen$Gk"}

    assert found == {name: special.get(name, described.get(name)) for name in found}
    assert set(found) - {"@class"} == set(described)


def test_the_snapshot_says_which_kryo_wrote_the_values() -> None:
    for flink, version in (("1.", KRYO_2_24), ("2.", KRYO_5)):
        serializer = serializer_of(vector("Kryo Gk", flink))

        assert isinstance(serializer, KryoSerializer)
        assert serializer.settings.version == version


def test_a_version_that_nobody_knows_is_a_problem() -> None:
    serializer = KryoSerializer("java.util.UUID", KryoSettings(version=0))

    assert [problem.sized for problem in serializer.problems()] == [False]
    assert list(Knowledge(kryo=KRYO_5).inform(ListSerializer(serializer)).problems()) == []


@pytest.mark.parametrize(
    "type_class", ["java.util.UUID", "java.util.List", "java.lang.Object", "[I", "[[Ljava.lang.String;"]
)
def test_types_of_the_jdk_are_no_problem(type_class: str) -> None:
    assert list(KryoSerializer(type_class, KryoSettings(version=KRYO_2_24)).problems()) == []


def test_an_unknown_class_is_a_problem_until_its_fields_are_known() -> None:
    serializer = KryoSerializer("com.example.Order", KryoSettings(version=KRYO_5))

    (problem,) = serializer.problems()
    classes = {"com.example.Order": KryoClass(fields=(("id", "long"),))}
    known = Knowledge(kryo=0, classes=classes).inform(serializer)

    assert not problem.sized
    assert "com.example.Order" in problem.reason
    assert list(known.problems()) == []


def test_an_unknown_class_at_the_end_of_a_frame_gives_its_bytes() -> None:
    serializer = KryoSerializer("java.lang.Object", KryoSettings(version=KRYO_2_24))
    raw = b"\x01\x00" + text_of("com.example.Order") + b"\x01\x54"

    assert json.loads(decode_one(serializer, raw)) == {
        "@class": "com.example.Order",
        "@kryo": base64.b64encode(raw).decode(),
    }


def test_an_unknown_class_before_other_fields_is_named() -> None:
    kryo = KryoSerializer("java.lang.Object", KryoSettings(version=KRYO_2_24))
    serializer = TupleSerializer("org.apache.flink.api.java.tuple.Tuple2", (kryo, IntSerializer()))
    raw = b"\x01\x00" + text_of("com.example.Order") + b"\x01\x54" + bytes(4)

    with pytest.raises(UnsupportedSerializerError, match=r"com\.example\.Order"):
        decode(serializer, raw)


def test_an_unknown_enum_of_kryo_5_is_not_taken_for_a_reference() -> None:
    raw = b"\x01\x00" + text_of("com.example.Color") + b"\x02"
    kryo = KryoSerializer("java.lang.Object", KryoSettings(version=KRYO_5))
    serializer = TupleSerializer("Tuple2", (kryo, IntSerializer()))

    with pytest.raises(UnsupportedSerializerError, match=r"com\.example\.Color"):
        decode(serializer, raw + bytes(4))


def test_registrations_of_known_classes_take_no_id() -> None:
    registrations = tuple(
        KryoRegistration(class_name=name, serializer=serializer)
        for name, serializer in (
            ("java.util.UUID", ""),
            ("a.A", ""),
            ("a.B", "x.Serializer"),
            ("a.A", ""),
            ("a.C", ""),
        )
    )
    ids = KryoSettings(version=KRYO_2_24, registrations=registrations).class_ids

    assert [ids[number] for number in (82, 85, 86, 87)] == ["java.util.UUID", "a.A", "a.B", "a.C"]
    assert 88 not in ids


def test_a_class_with_a_serializer_of_the_user_is_not_read_as_if_it_had_none() -> None:
    settings = KryoSettings(
        version=KRYO_2_24, default_serializers={"java.util.UUID": "com.example.UuidSerializer"}
    )
    serializer = KryoSerializer("java.util.UUID", settings)

    assert [problem.sized for problem in serializer.problems()] == [False]


def test_the_hashes_of_known_classes_are_javas() -> None:
    def code(class_name: str, value: Any) -> int | None:
        return KryoSerializer(class_name, KryoSettings(version=KRYO_2_24)).hash_code(value)

    assert code("java.util.UUID", str(uuid.UUID(int=(5 << 64) + 9))) == hash_long(5 ^ 9)
    assert code("java.util.UUID", "no uuid") is None
    assert code("java.lang.Integer", -7) == -7
    assert code("java.lang.String", "ab") == 31 * ord("a") + ord("b")
    assert code("java.lang.Long", "no number") is None
    assert code("java.time.Duration", "PT1S") is None


# Class, hex of an object of it in Kryo 2.24 and in Kryo 5, column type, value.
PLAIN = (
    ("java.lang.Integer", "020d", "020d", pa.int32(), -7),
    ("java.lang.Long", "098080d2c19d855c", "098080d2c19d855c", pa.int64(), 202_400_000_000_000),
    ("java.lang.Boolean", "0501", "0501", pa.bool_(), True),
    ("java.lang.Double", "0a3ff8000000000000", "0a000000000000f83f", pa.float64(), 1.5),
    ("java.lang.String", "030135b6", "030135b6", pa.string(), "56"),
    ("java.lang.String", "03018222", "03018222", pa.string(), '"'),
)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("case", PLAIN, ids=lambda case: f"{case[0]} {case[-1]}")
def test_values_of_known_classes_are_numbers_and_plain_text(case: Any, version: int) -> None:
    class_name, kryo_2, kryo_5, column, value = case
    serializer = KryoSerializer(class_name, KryoSettings(version=version))

    assert serializer.arrow() == column
    assert decode_one(serializer, bytes.fromhex(kryo_2 if version == KRYO_2_24 else kryo_5)) == value


def test_an_object_of_another_class_is_no_number() -> None:
    serializer = KryoSerializer("java.lang.Integer", KryoSettings(version=KRYO_5))

    with pytest.raises(CorruptDataError, match=r'expected a java.lang.Integer, found "56"'):
        decode_one(serializer, bytes.fromhex("030135b6"))


def test_what_an_optional_holds_is_plain_where_it_is_text() -> None:
    """The registered classes String and Integer in an Optional, whose class stands there by name."""
    optional = b"\x01\x00" + text_of("java.util.Optional") + b"\x01"
    serializer = KryoSerializer("java.util.Optional", KryoSettings(version=KRYO_5))

    assert decode_one(serializer, optional + bytes.fromhex("030135b6")) == "56"
    assert decode_one(serializer, optional + bytes.fromhex("020d")) == "-7"
    assert decode_one(serializer, optional + b"\x00") is None


def test_values_of_an_open_type_are_json_text() -> None:
    serializer = KryoSerializer("java.lang.Object", KryoSettings(version=KRYO_5))

    assert decode_one(serializer, bytes.fromhex("030135b6")) == '"56"'


def test_declared_types_are_read_as_java_writes_them() -> None:
    text = KryoType("java.lang.String")

    assert kryo_type("java.util.Map<java.lang.String, java.util.List<java.lang.String>>") == KryoType(
        "java.util.Map", (text, KryoType("java.util.List", (text,)))
    )
    assert kryo_type("int[][]").name == "[[I"
    assert kryo_type("final com.example.Point[]") == KryoType("[Lcom.example.Point;", (), True)


def test_references_cannot_make_a_small_value_large() -> None:
    """Each list holds the one before it twice: 2^60 elements in a few hundred bytes."""
    raw = bytearray()
    for _ in range(60):
        raw += b"\x01\x00" + (text_of("java.util.ArrayList") if not raw else b"") + b"\x01\x02"
    raw += b"\x00"
    raw += b"".join(b"\x01\x00" + varint(2 + number) for number in range(59, 0, -1))
    serializer = KryoSerializer("java.lang.Object", KryoSettings(version=KRYO_2_24))

    with pytest.raises(ReaderError):
        decode(serializer, bytes(raw))


# ---- an encoder of its own ------------------------------------------------------------------------------------------


def varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def zigzag(number: int, bits: int) -> bytes:
    raw = (number << 1 ^ number >> bits - 1) & (1 << bits) - 1
    if raw >> 56 and bits == 64:
        return bytes([raw >> 7 * index & 0x7F | 0x80 for index in range(8)]) + bytes([raw >> 56])
    return varint(raw)


def text_of(text: str) -> bytes:
    units = struct.unpack(f"<{len(text.encode('utf-16-le')) // 2}H", text.encode("utf-16-le"))
    if text.isascii() and 1 < len(text) <= 32:
        raw = bytearray(text.encode())
        raw[-1] |= 0x80
        return bytes(raw)
    count = len(units) + 1
    head = bytes([0x80 | count]) if count < 64 else bytes([0xC0 | count & 0x3F]) + varint(count >> 6)
    return head + b"".join(chr(unit).encode("utf-8", "surrogatepass") if unit else b"\0" for unit in units)


JAVA_NAMES: dict[type, str] = {list: "java.util.ArrayList", dict: "java.util.HashMap", bytes: "[B"}


@dataclass
class Writer:
    """Writes values by Kryo's own rules: lists, maps, arrays, boxes, strings and UUIDs; `many` objects are written once."""

    version: int
    names: list[str] = field(default_factory=list)
    objects: list[int] = field(default_factory=list)
    kept: list[Any] = field(default_factory=list)

    def value(self, value: Any) -> bytes:
        if value is None:
            return b"\0"
        head, referenced = self.class_of(value)
        if not referenced:
            return head + self.body(value)
        if id(value) in self.objects and isinstance(value, list | dict):
            return head + varint(2 + self.objects.index(id(value)))
        self.objects.append(id(value))
        self.kept.append(value)
        return head + b"\x01" + self.body(value)

    def class_of(self, value: Any) -> tuple[bytes, bool]:
        if isinstance(value, bool):
            return varint(5), False
        if isinstance(value, int):
            return varint(9), False
        if isinstance(value, float):
            return varint(10), False
        if isinstance(value, str):
            return varint(3), True
        if isinstance(value, uuid.UUID):
            return varint(84), True
        name = JAVA_NAMES[type(value)]
        if name in self.names:
            return b"\x01" + varint(self.names.index(name)), True
        self.names.append(name)
        return b"\x01" + varint(len(self.names) - 1) + text_of(name), True

    def body(self, value: Any) -> bytes:
        order = ">" if self.version == KRYO_2_24 else "<"
        if isinstance(value, bool):
            return bytes([value])
        if isinstance(value, int):
            return zigzag(value, 64)
        if isinstance(value, float):
            return struct.pack(order + "d", value)
        if isinstance(value, str):
            return text_of(value)
        if isinstance(value, bytes):
            return varint(len(value) + 1) + value
        if isinstance(value, uuid.UUID):
            halves = struct.unpack(">2q", value.bytes)
            return (
                struct.pack("<2q", *halves)
                if self.version == KRYO_5
                else b"".join(zigzag(h, 64) for h in halves)
            )
        if isinstance(value, dict):
            count = len(value) + (self.version == KRYO_5)
            return varint(count) + b"".join(self.value(part) for entry in value.items() for part in entry)
        return self.elements(value)

    def elements(self, value: list[Any]) -> bytes:
        if self.version == KRYO_2_24:
            return varint(len(value)) + b"".join(map(self.value, value))
        if not value:
            return b"\x01"
        kinds = {type(element) for element in value if element is not None}
        if len(kinds) > 1:
            return self.header(len(value), flag=False) + b"".join(map(self.value, value))
        head = self.header(len(value), flag=True)
        if not kinds:
            return head + b"\0"
        example = next(element for element in value if element is not None)
        has_null = None in value
        name, referenced = self.class_of(example)
        return (
            head
            + name
            + bytes([has_null])
            + b"".join(self.known(element, referenced=referenced, nullable=has_null) for element in value)
        )

    def known(self, value: Any, *, referenced: bool, nullable: bool) -> bytes:
        if not referenced:
            marker = bytes([value is not None]) if nullable else b""
            return marker + (b"" if value is None else self.body(value))
        if value is None:
            return b"\0"
        if id(value) in self.objects and isinstance(value, list | dict):
            return varint(2 + self.objects.index(id(value)))
        self.objects.append(id(value))
        self.kept.append(value)
        return b"\x01" + self.body(value)

    def header(self, count: int, *, flag: bool) -> bytes:
        number = count + 1
        first = number & 0x3F | (0x80 if flag else 0)
        return bytes([first]) if number < 64 else bytes([first | 0x40]) + varint(number >> 6)


def as_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, list):
        return [as_json(element) for element in value]
    if isinstance(value, dict):
        return [{"key": as_json(key), "value": as_json(item)} for key, item in value.items()]
    return value


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(), st.text(max_size=80), st.binary(max_size=8),
    st.uuids(),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(st.text(max_size=3) | st.none(), max_size=80),
        inner.map(lambda shared: [shared, shared]),
        st.dictionaries(st.text(max_size=3), inner, max_size=3),
    ),
    max_leaves=12,
)


@pytest.mark.parametrize("version", VERSIONS)
@given(values=st.lists(VALUES, min_size=1, max_size=4))
def test_round_trip(version: int, values: list[Any]) -> None:
    serializer = KryoSerializer("java.lang.Object", KryoSettings(version=version))

    rows = decode(serializer, *(Writer(version).value(value) for value in values))

    assert [None if row is None else json.loads(row) for row in rows] == [as_json(value) for value in values]


@pytest.mark.parametrize("version", VERSIONS)
@given(data=st.data())
def test_broken_bytes_end_in_a_value_or_an_error(version: int, data: st.DataObject) -> None:
    entries = [
        entry
        for entry in vectors_of("KryoSerializer")
        if (entry["flink"][0] == "1") == (version == KRYO_2_24)
    ]
    values = [value["hex"] for entry in entries for value in entry["values"] if "hex" in value]
    raw = bytearray(bytes.fromhex(data.draw(st.sampled_from(values))))
    position = data.draw(st.integers(0, len(raw) - 1))
    raw[position] = data.draw(st.integers(0, 255))
    end = data.draw(st.integers(0, len(raw)))
    serializer = KryoSerializer("java.lang.Object", KryoSettings(version=version, classes=CLASSES))

    with contextlib.suppress(ReaderError):
        decode_columns(serializer, bytes(raw[:end]))


@pytest.mark.parametrize("version", VERSIONS)
def test_nesting_has_a_limit(version: int) -> None:
    head = b"\x01\x00" + text_of("java.util.ArrayList") + b"\x01"
    again = b"\x01\x00\x01"
    count = b"\x01" if version == KRYO_2_24 else b"\x02"
    serializer = KryoSerializer("java.lang.Object", KryoSettings(version=version))

    with pytest.raises(CorruptDataError, match="nest"):
        decode(serializer, head + count + (again + count) * 1000 + b"\0")


def _named(number: int, class_name: str) -> bytes:
    """Return a class that is written by its name for the first time."""
    text = class_name.encode()
    return bytes((1, number)) + text[:-1] + bytes((text[-1] | 0x80,))


ROW = _named(0, "org.apache.flink.types.Row") + b"\x01"
OBJECTS = b"\x01\x02\x09\x04"  # an array with the long 2
UPDATE_AFTER = b"\x01\x03"


@pytest.mark.parametrize(
    ("has_row_kinds", "body", "shown"),
    [
        pytest.param(False, _named(1, "[Ljava.lang.Object;") + OBJECTS, {"fields": [2]}, id="1.10"),
        pytest.param(
            True,
            _named(1, "[Ljava.lang.Object;") + OBJECTS + UPDATE_AFTER,
            {"fields": [2], "kind": "UPDATE_AFTER"},
            id="1.12",
        ),
        pytest.param(
            True,
            b"\x00" + _named(1, "[Ljava.lang.Object;") + OBJECTS + UPDATE_AFTER + b"\x00",
            {
                "fieldByName": None,
                "fieldByPosition": [2],
                "kind": "UPDATE_AFTER",
                "positionByName": None,
            },
            id="1.13",
        ),
    ],
)
def test_a_row_of_each_version_of_flink(has_row_kinds: bool, body: bytes, shown: dict[str, Any]) -> None:
    row = KryoSerializer("org.apache.flink.types.Row", KryoSettings(version=KRYO_2_24))
    known = Knowledge(kryo=0, has_row_kinds=has_row_kinds).inform(row)
    pair = TupleSerializer("Tuple2", (known, LongSerializer()))

    found = decode_one(pair, ROW + body + (5).to_bytes(8, "big"))

    assert json.loads(found["f0"]) == {"@class": "org.apache.flink.types.Row"} | shown
    assert found["f1"] == 5
