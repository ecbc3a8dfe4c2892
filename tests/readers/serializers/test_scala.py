"""Scala types: values of real Flink, round trips, broken bytes."""

from __future__ import annotations

import contextlib
import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from readers.cursor import Cursor
from readers.errors import ReaderError
from readers.serializers.base import Serializer
from readers.serializers.primitives import IntSerializer, StringSerializer
from readers.serializers.scala import (
    SCALA,
    EnumValueSerializer,
    OptionSerializer,
    ScalaCaseClassSerializer,
    ScalaEitherSerializer,
    TraversableSerializer,
    TrySerializer,
    UnitSerializer,
)
from readers.snapshots.reading import COMPOSITE_MAGIC, NESTED_MAGIC, read_versioned
from tests.support.single_values import decode, decode_columns, decode_one, serializer_of, vectors_of

INT = "org.apache.flink.api.common.typeutils.base.IntSerializer$IntSerializerSnapshot"
PAIR = ScalaCaseClassSerializer("scala.Tuple2", (IntSerializer(), StringSerializer()))


def utf(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def i4(number: int) -> bytes:
    return struct.pack(">i", number)


def composite(name: str, outer_version: int, outer: bytes, nested: int) -> bytes:
    inner = utf(INT) + i4(3)
    head = utf(SCALA + name) + i4(3) + i4(COMPOSITE_MAGIC) + i4(outer_version)
    return head + outer + i4(NESTED_MAGIC) + i4(1) + i4(nested) + inner * nested


@pytest.mark.parametrize("entry", vectors_of("api.scala"), ids=lambda entry: entry["type"])
def test_what_flink_wrote(entry: dict[str, Any]) -> None:
    serializer = serializer_of(entry)

    for value in entry["values"]:
        found = decode_one(serializer, bytes.fromhex(value["hex"]))
        assert (list(found.values()) if isinstance(found, dict) else found) == value["value"]


@pytest.mark.parametrize(
    ("raw", "serializer"),
    [
        (composite("ScalaOptionSerializerSnapshot", 2, b"", 1), OptionSerializer(IntSerializer())),
        (composite("ScalaEitherSerializerSnapshot", 1, b"", 2), ScalaEitherSerializer(IntSerializer(), IntSerializer())),
        (composite("ScalaTrySerializerSnapshot", 2, b"", 2), TrySerializer(IntSerializer(), IntSerializer())),
        (
            composite("TraversableSerializerSnapshot", 2, utf("Seq.canBuildFrom"), 1),
            TraversableSerializer(IntSerializer(), "Seq.canBuildFrom"),
        ),
        (
            composite("Tuple2CaseClassSerializerSnapshot", 2, utf("scala.Tuple2"), 2),
            ScalaCaseClassSerializer("scala.Tuple2", (IntSerializer(), IntSerializer())),
        ),
        (
            utf(SCALA + "ScalaEnumSerializerSnapshot") + i4(3) + utf("a.Colors$") + i4(2)
            + utf("Red") + i4(0) + utf("Blue") + i4(7),
            EnumValueSerializer("a.Colors$", (("Red", 0), ("Blue", 7))),
        ),
        (utf(SCALA + "UnitSerializer$UnitSerializerSnapshot") + i4(3), UnitSerializer()),
    ],
)  # fmt: skip
def test_snapshots(raw: bytes, serializer: Serializer) -> None:
    cursor = Cursor(raw)

    assert read_versioned(cursor) == serializer
    assert cursor.remaining == 0


def test_constants_have_ids_of_their_own() -> None:
    tabulated = EnumValueSerializer("a.Colors$", (("Red", 0), ("Blue", 7)))
    sparse = EnumValueSerializer("a.Colors$", (("Red", -1), ("Blue", 10**6)))

    assert decode(tabulated, i4(7), i4(0)) == ["Blue", "Red"]
    assert tabulated.encode("Blue") == i4(7)
    assert decode(sparse, i4(-1)) == [-1]
    with pytest.raises(ReaderError):
        decode(tabulated, i4(3))


def test_unit_is_one_byte_that_says_nothing() -> None:
    assert decode(UnitSerializer(), b"\0", b"\0") == [None, None]


def test_either_and_try_have_one_side() -> None:
    either = ScalaEitherSerializer(IntSerializer(), StringSerializer())

    assert decode(either, b"\1" + i4(5), b"\0\2x") == [
        {"left": 5, "right": None},
        {"left": None, "right": "x"},
    ]
    assert TrySerializer(IntSerializer(), StringSerializer()).arrow() == pa.struct(
        [("success", pa.int32()), ("failure", pa.string())]
    )


@given(
    values=st.lists(
        st.lists(st.none() | st.tuples(st.integers(-9, 9), st.sampled_from(["", "ab"]))), min_size=1
    )
)
def test_traversables_of_case_classes_round_trip(values: list[list[tuple[int, str] | None]]) -> None:
    serializer = TraversableSerializer(PAIR, "List")

    def element(pair: tuple[int, str] | None) -> bytes:
        return b"\0" if pair is None else b"\1" + i4(pair[0]) + bytes([len(pair[1]) + 1]) + pair[1].encode()

    rows = decode(serializer, *(i4(len(value)) + b"".join(map(element, value)) for value in values))

    assert rows == [[pair and {"_1": pair[0], "_2": pair[1]} for pair in value] for value in values]


@given(raw=st.binary(max_size=24), which=st.integers(0, 3))
def test_broken_bytes_end_in_a_value_or_an_error(raw: bytes, which: int) -> None:
    serializers = [
        TraversableSerializer(OptionSerializer(PAIR), "List"),
        ScalaEitherSerializer(PAIR, IntSerializer()),
        EnumValueSerializer("a.Colors$", (("Red", 0),)),
        PAIR,
    ]

    with contextlib.suppress(ReaderError):
        decode_columns(serializers[which], raw)
