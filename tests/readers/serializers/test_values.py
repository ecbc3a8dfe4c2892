"""Classes that write themselves: Flink's value classes, and those of users."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from readers.cursor import Cursor
from readers.serializers.base import OpaqueSerializer, Serializer
from readers.serializers.primitives import (
    BASE,
    VALUES,
    BooleanValueSerializer,
    CopyableValueSerializer,
    DoubleValueSerializer,
    LongValueSerializer,
    ValueSerializer,
)
from readers.snapshots.java import PLAIN_SERIALIZERS
from readers.snapshots.reading import read_versioned
from tests.support.single_values import decode_one, serializer_of, vectors_of

RUNTIME = "org.apache.flink.api.java.typeutils.runtime."


def snapshot_of(serializer: str, value_class: str) -> Serializer:
    name = f"{RUNTIME}{serializer}${serializer}Snapshot".encode()
    text = value_class.encode()
    data = len(name).to_bytes(2, "big") + name + (2).to_bytes(4, "big") + len(text).to_bytes(2, "big") + text
    return read_versioned(Cursor(data))


def test_what_flink_wrote() -> None:
    entries = [
        entry
        for entry in vectors_of("ValueSerializer")
        if entry["serializer_class"].removeprefix(RUNTIME) in ("CopyableValueSerializer", "ValueSerializer")
    ]

    assert len(entries) == 4
    for entry in entries:
        serializer = serializer_of(entry)
        for value in entry["values"]:
            assert decode_one(serializer, bytes.fromhex(value["hex"])) == value["value"]
            assert serializer.encode(value["value"]) == bytes.fromhex(value["hex"])
        assert serializer.fixed_length == entry["fixed_length"]


def test_a_null_value_has_bytes_only_if_it_writes_itself() -> None:
    alone = PLAIN_SERIALIZERS[BASE + "NullValueSerializer"]
    within = snapshot_of("CopyableValueSerializer", "org.apache.flink.types.NullValue")

    assert (alone.fixed_length, within.fixed_length) == (0, 1)
    assert (decode_one(alone, b""), decode_one(within, b"\0")) == (None, None)


def test_names_are_those_of_the_class() -> None:
    serializer = snapshot_of("CopyableValueSerializer", "org.apache.flink.types.LongValue")

    assert serializer == CopyableValueSerializer(LongValueSerializer())
    assert (serializer.type_name, serializer.serializer_name) == (
        "LongValue",
        "CopyableValueSerializer<LongValue>",
    )


@pytest.mark.parametrize(
    ("value_class", "raw", "value"),
    [
        ("BooleanValue", "01", True),
        ("ByteValue", "ff", -1),
        ("ShortValue", "0102", 258),
        ("IntValue", "fffffffe", -2),
        ("FloatValue", "3f800000", 1.0),
        ("DoubleValue", "3ff0000000000000", 1.0),
        ("CharValue", "0041", "A"),
        ("NullValue", "00", None),
    ],
)
def test_each_value_class_writes_its_plain_type(value_class: str, raw: str, value: Any) -> None:
    serializer = snapshot_of("ValueSerializer", f"org.apache.flink.types.{value_class}")

    assert decode_one(serializer, bytes.fromhex(raw)) == value


def test_every_value_class_is_tested() -> None:
    assert len(VALUES) == 10


@pytest.mark.parametrize("serializer", ["CopyableValueSerializer", "ValueSerializer"])
def test_a_class_of_a_user_is_opaque(serializer: str) -> None:
    found = snapshot_of(serializer, "com.example.Money")

    assert isinstance(found, OpaqueSerializer)
    assert [problem.sized for problem in found.problems()] == [False]
    assert "com.example.Money" in next(iter(found.problems())).reason


@pytest.mark.parametrize(
    ("serializer", "value", "code"),
    [
        (ValueSerializer(BooleanValueSerializer()), True, 1),
        (ValueSerializer(BooleanValueSerializer()), False, 0),
        (ValueSerializer(LongValueSerializer()), 7, 50),
        (ValueSerializer(LongValueSerializer()), 2**31 - 1, -(2**31) + 42),
        (ValueSerializer(DoubleValueSerializer()), 1.0, 0x3FF00000 + 31),
    ],
)
def test_hash_codes_are_those_of_the_value_classes(serializer: Serializer, value: Any, code: int) -> None:
    assert serializer.hash_code(value) == code
    assert serializer.arrow() in (pa.bool_(), pa.int64(), pa.float64())
