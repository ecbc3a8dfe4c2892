"""Basic types, times, containers, tuples, rows, POJOs, windows: against an independent encoder, and against Flink's bytes."""

from __future__ import annotations

import contextlib
import re
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from readers.errors import ReaderError
from readers.serializers import containers, operators, pojo, primitives, structs
from readers.serializers.base import Serializer
from readers.snapshots.reading import COMPOSITE_MAGIC, NESTED_MAGIC
from tests.support import encoders
from tests.support.encoders import KINDS, LEAVES, Kind, bits
from tests.support.examples import examples
from tests.support.notation import (
    java_date,
    java_date_time,
    java_time,
    json_text,
    normal,
    notation,
    plain_values,
)
from tests.support.single_values import decode_columns, serializer_of, vectors

MODULES = (primitives, containers, structs, pojo, operators)
# Tested in test_streaming.
WRAPPERS = (
    operators.StreamElementSerializer,
    operators.UnionSerializer,
    operators.BufferEntrySerializer,
    operators.JavaSerializer,
)
SIMPLE = settings(deadline=None, max_examples=examples(25))  # there are fifty of them
COMPOSED = settings(max_examples=examples(150))


def shown(serializer: Serializer, *values: bytes) -> list[Any]:
    return [value for column in decode_columns(serializer, *values) for value in plain_values(column)]


def check(kind: Kind, values: list[Any]) -> None:
    """Compare all values as one batch, and each as a batch of its own."""
    encoded = [kind.encode(value) for value in values]
    expected = bits([kind.show(value) for value in values])

    assert bits(shown(kind.serializer, *encoded)) == expected
    assert [bits(shown(kind.serializer, one))[0] for one in encoded] == expected


@pytest.mark.parametrize("kind", LEAVES, ids=lambda kind: kind.serializer.serializer_name)
@SIMPLE
@given(data=st.data())
def test_a_simple_type_shows_what_was_written(kind, data):
    check(kind, data.draw(st.lists(kind.values, min_size=1, max_size=20)))


@COMPOSED
@given(data=st.data())
def test_a_type_made_of_others_shows_what_was_written(data):
    kind = data.draw(KINDS)

    check(kind, data.draw(st.lists(kind.values, min_size=1, max_size=8)))


@COMPOSED
@given(data=st.data())
def test_a_timer_shows_what_was_written(data):
    kind = encoders.timer_of(
        data.draw(st.sampled_from(LEAVES)), data.draw(st.sampled_from(encoders.WINDOWS + encoders.PRIMITIVES))
    )

    check(kind, data.draw(st.lists(kind.values, min_size=1, max_size=8)))


@COMPOSED
@given(data=st.data())
def test_cut_or_changed_bytes_give_a_value_or_a_reader_error(data):
    kind = data.draw(KINDS)
    encoded = bytearray(kind.encode(data.draw(kind.values)))
    for place in data.draw(st.lists(st.integers(0, max(len(encoded) - 1, 0)), max_size=3)):
        encoded[place : place + 1] = data.draw(st.binary(max_size=3))
    cut = bytes(encoded[: data.draw(st.integers(0, len(encoded)))])

    for value in (bytes(encoded), cut):
        with contextlib.suppress(ReaderError):
            shown(kind.serializer, value)


def test_lone_surrogates_become_replacement_characters():
    units = [0x61, 0xD83D, 0x62, 0xDE00, 0xD83D]
    encoded = encoders.varint(len(units) + 1) + b"".join(map(encoders.varint, units))

    assert shown(primitives.StringSerializer(), encoded) == ["a\ufffdb\ufffd\ufffd"]


@pytest.mark.parametrize(
    ("scale", "text"), [(6000, "1.23E-5998"), (-6000, "1.23E+6002"), (-(2**31), "1.23E+2147483650")]
)
def test_a_decimal_with_thousands_of_zeros_has_an_exponent(scale, text):
    assert shown(primitives.BigDecSerializer(), encoders.big_decimal((123, scale))) == [text]


def test_a_tag_beyond_the_registered_subclasses_is_an_error():
    kind = encoders.pojo_of({}, {"R1": LEAVES[0]}, {})

    with pytest.raises(ReaderError, match="known tag, found 1"):
        shown(kind.serializer, b"\x08\x01\x02\x00")


def test_an_object_of_a_class_that_nothing_describes_is_an_error_with_its_name():
    kind = encoders.pojo_of({}, {}, {"S1": LEAVES[0]})

    with pytest.raises(ReaderError, match=r"found an object of com\.example\.Other\$1"):
        shown(kind.serializer, b"\x04" + encoders.utf("com.example.Other$1") + b"\x02")


def test_a_class_name_that_is_none_is_corruption():
    kind = encoders.pojo_of({}, {}, {"S1": LEAVES[0]})

    with pytest.raises(ReaderError, match="the name of a known class"):
        shown(kind.serializer, b"\x04" + encoders.utf("a b") + b"\x02")


def test_a_field_of_a_subclass_with_the_type_of_another_ones_has_a_column_of_its_own():
    long, text = primitives.LongSerializer(), primitives.StringSerializer()
    one, two = (
        pojo.PojoSerializer(name, (pojo.PojoField("same", field),))
        for name, field in (("A", long), ("B", text))
    )
    serializer = pojo.PojoSerializer("Base", (), (("A", one), ("B", two)))

    values = shown(serializer, b"\x08\x00\x02\x00" + b"\0" * 7 + b"\x05", b"\x08\x01\x02\x00\x02x")

    assert values == [
        {"same": 5, "same(B)": None, "__class": "A"},
        {"same": None, "same(B)": "x", "__class": "B"},
    ]


def test_a_field_that_the_class_no_longer_has_is_read_over():
    fields = (
        pojo.PojoField("gone", primitives.StringSerializer(), hidden=True),
        pojo.PojoField("left", primitives.IntSerializer()),
    )

    assert shown(pojo.PojoSerializer("Base", fields), b"\x02\x00\x03xy\x00\x00\x00\x00\x07") == [{"left": 7}]


def test_what_one_tree_knows_of_subclasses_all_do():
    long = primitives.LongSerializer()
    subclass = pojo.PojoSerializer("Sub", (pojo.PojoField("id", long),))
    knows = containers.ListSerializer(pojo.PojoSerializer("Base", (), (), (("Sub", subclass),)))
    does_not = structs.TupleSerializer("Tuple1", (pojo.PojoSerializer("Base", ()),))

    known = {"Base": {"Sub": subclass}}

    completed = pojo.with_subclasses(does_not, known)
    assert completed.arrow() == structs.TupleSerializer("Tuple1", (knows.element,)).arrow()
    assert pojo.with_subclasses(knows, known) is knows


def test_types_that_nest_too_deep_are_an_error():
    kind = LEAVES[0]
    for _ in range(80):
        kind = encoders.list_of(kind)

    with pytest.raises(ReaderError, match="deeper"):
        shown(kind.serializer, b"\0\0\0\0")


# ---- what Flink wrote -----------------------------------------------------------------------------------------


def _family_vectors() -> list[Any]:
    modules = tuple(module.__name__ for module in MODULES)
    found = []
    for vector in vectors():
        if "snapshot_hex" not in vector or not vector["values"]:
            continue
        serializer = serializer_of(vector)
        if _made_of(serializer, modules):
            found.append(pytest.param(vector, id=f"{vector['type']}-{vector['flink']}"))
    return found


def _made_of(serializer: Serializer, modules: tuple[str, ...]) -> bool:
    is_one = type(serializer).__module__ in modules and not isinstance(serializer, WRAPPERS)
    return is_one and all(_made_of(child, modules) for _, child in serializer.children)


@pytest.mark.parametrize("vector", _family_vectors())
def test_the_bytes_that_flink_wrote_are_the_value_it_had(vector):
    serializer = serializer_of(vector)
    expected = [_spelled(serializer, entry["value"]) for entry in vector["values"]]

    decoded = shown(serializer, *(bytes.fromhex(entry["hex"]) for entry in vector["values"]))

    assert [json_text(_noted(serializer, value)) for value in decoded] == [
        json_text(value) for value in expected
    ]


@pytest.mark.parametrize("vector", _family_vectors())
def test_the_fixed_length_is_that_of_the_serializer(vector):
    assert serializer_of(vector).fixed_length == vector["fixed_length"]


def _noted(serializer: Serializer, value: Any) -> Any:
    if isinstance(serializer, operators.TtlSerializer):
        return {"lastAccess": value["last_access"], "user": notation(serializer.value, value["value"])}
    if isinstance(serializer, operators.TimerSerializer):
        return {"ts": value["timestamp"], "key": value["key"], "ns": value["namespace"]}
    if isinstance(serializer, primitives.ValueSerializer):
        return notation(serializer.plain, value)
    return notation(serializer, value)


def _spelled(serializer: Serializer, value: Any) -> Any:
    """Return a value of the vectors, whose texts were written by hand, in the notation of the tests."""
    for family, spell in _SPELLINGS.items():
        if isinstance(serializer, family) and value is not None:
            return spell(value)
    return normal(value)


def _repeated(text: str) -> str:
    times = re.fullmatch(r"(.)\*(\d+)", text)
    return times[1] * int(times[2]) if times else text


def _decimal(text: str) -> str:
    """Return the number of texts like `12 (a remark)` and `-1E+5`."""
    number = text.split(" ")[0]
    digits, _, exponent = number.partition("E+")
    return digits + "0" * int(exponent or 0)


def _instant(text: str) -> str:
    seconds, nanos = (-2, 500_000_000) if text.startswith("-1.5") else map(int, text.split("."))
    return java_date_time(seconds * encoders.NANOS_A_SECOND + nanos, seconds=True) + "Z"


def _timestamp(value: dict[str, int]) -> str:
    return java_date_time(value["ms"] // 1000 * encoders.NANOS_A_SECOND + value["nanos"])


def _row(value: dict[str, Any]) -> dict[str, Any]:
    fields = value["f"]
    return {"$row": value["kind"], "fields": list(fields.values()) if isinstance(fields, dict) else fields}


def _pojo(value: dict[str, Any]) -> dict[str, Any]:
    shown = {name: field for name, field in value.items() if not name.startswith("@")}
    return shown | {"$class": value["@class"]} if "@class" in value else shown


_SPELLINGS: dict[type[Serializer], Any] = {
    primitives.StringSerializer: _repeated,
    primitives.BigIntSerializer: _decimal,
    primitives.BigDecSerializer: _decimal,
    primitives.NothingSerializer: lambda value: "GlobalWindow" if value == "GlobalWindow" else None,
    operators.CountWindowSerializer: lambda value: value["id"],
    containers.SetSerializer: lambda value: {"$set": sorted(value, key=json_text)},
    primitives.BytePrimitiveArraySerializer: lambda value: {"$bytes": value},
    primitives.SqlDateSerializer: lambda millis: java_date(millis // 86_400_000),
    primitives.SqlTimeSerializer: lambda millis: java_time(millis * 1_000_000, seconds=True),
    primitives.DateSerializer: lambda millis: {"$millis": millis},
    primitives.SqlTimestampSerializer: _timestamp,
    primitives.InstantSerializer: _instant,
    containers.MapSerializer: lambda value: {
        "$map": sorted([list(pair) for pair in value.items()], key=json_text)
    },
    structs.RowSerializer: _row,
    structs.EitherSerializer: lambda value: {f"${side}": part for side, part in value.items()},
    pojo.PojoSerializer: _pojo,
    operators.TimerSerializer: lambda value: value | {"ns": None},
}


def test_a_snapshot_of_rows_that_change_has_that_of_the_row():
    row = next(vector for vector in vectors() if vector["serializer_class"].endswith("RowSerializer"))
    name = encoders.utf("org.apache.flink.table.runtime.types.CRowSerializerSnapshot")
    outer = struct.pack(">iii", 3, COMPOSITE_MAGIC, 1)
    nested = struct.pack(">iii", NESTED_MAGIC, 1, 1)
    snapshot = name + outer + nested + bytes.fromhex(row["snapshot_hex"])

    serializer = serializer_of({"snapshot_hex": snapshot.hex()})
    value = bytes.fromhex(row["values"][0]["hex"])

    assert serializer == structs.CRowSerializer(serializer_of(row))
    (shown_row,) = shown(serializer_of(row), value)
    assert shown(serializer, value + b"\1") == [{"row": shown_row, "is_added": True}]
