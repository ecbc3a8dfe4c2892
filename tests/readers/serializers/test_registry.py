"""The registry of serializer snapshot classes: a type is added through it alone.

"I want to add a type" touches

    readers/serializers/FAMILY.py          the serializer, and the line of its snapshot class in `SNAPSHOTS`
    readers/snapshots/reading.py          for a new family: its line in `FAMILIES`
    readers/snapshots/{legacy,java}.py     for a type of before Flink 1.8: its config snapshot, its Java class
    tests/support/encoders.py              how a value is written, for the property tests
    tests/data/vectors                     values and snapshots that real Flink wrote
    README.md                              `make support` writes its table
"""

from __future__ import annotations

import importlib
import pkgutil
import struct
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pytest

from readers import serializers
from readers.cursor import Cursor
from readers.errors import UnsupportedSerializerError
from readers.serializers import primitives
from readers.serializers.base import Serializer, Snapshot
from readers.serializers.primitives import IntSerializer
from readers.serializers.structs import MILLISECONDS, StructLayout, StructSerializer
from readers.snapshots.reading import NESTED_MAGIC, families, read_versioned, snapshot_body
from tests.support.encoders import utf
from tests.support.single_values import decode_one

SNAPSHOT_CLASS = "com.example.MeasurementSerializerSnapshot"


@dataclass(frozen=True)
class MeasurementSerializer(StructSerializer):
    """i8 time, ms; the measured value. The unit is in the snapshot."""

    value: Serializer
    unit: str

    java_class = "com.example.MeasurementSerializer"
    name = "Measurement"

    @property
    def layout(self) -> StructLayout:
        return StructLayout(("time", MILLISECONDS), (f"value_{self.unit}", self.value))


def measurement(snapshot: Snapshot) -> Serializer:
    """A composite snapshot: utf unit; [value]."""
    snapshot.composite()
    unit = snapshot.cursor.utf("unit")
    (value,) = snapshot.nested(1)
    return MeasurementSerializer(value, unit)


def versioned(name: str, version: int, body: bytes = b"") -> bytes:
    return utf(name) + struct.pack(">i", version) + body


def measurement_snapshot() -> bytes:
    value = versioned(f"{IntSerializer.java_class}$IntSerializerSnapshot", 3)
    return versioned(SNAPSHOT_CLASS, 1, utf("kelvin") + struct.pack(">iii", NESTED_MAGIC, 1, 1) + value)


def test_a_type_is_added_by_one_line_of_the_registry(monkeypatch):
    monkeypatch.setitem(primitives.SNAPSHOTS, SNAPSHOT_CLASS, measurement)
    cursor = Cursor(measurement_snapshot())

    serializer = read_versioned(cursor)

    assert cursor.remaining == 0
    assert serializer == MeasurementSerializer(IntSerializer(), "kelvin")
    assert serializer.type_name == "Measurement<Integer>"
    assert serializer.serializer_name == "MeasurementSerializer<IntSerializer>"
    assert serializer.arrow() == pa.struct([("time", pa.timestamp("ms")), ("value_kelvin", pa.int32())])
    value = decode_one(serializer, struct.pack(">qi", 1_000, 293))
    assert (value["time"].isoformat(), value["value_kelvin"]) == ("1970-01-01T00:00:01", 293)


def test_a_type_that_is_not_in_the_registry_is_named():
    with pytest.raises(UnsupportedSerializerError, match=SNAPSHOT_CLASS):
        read_versioned(Cursor(measurement_snapshot()))


def test_a_shaded_class_is_found_by_the_name_that_flink_gives_it():
    name = f"{IntSerializer.java_class}$IntSerializerSnapshot"

    assert snapshot_body(f"com.example.shaded.{name}") is snapshot_body(name) is not None


def test_every_family_is_in_the_registry():
    modules = pkgutil.walk_packages(serializers.__path__, f"{serializers.__name__}.")
    declared = [getattr(importlib.import_module(module.name), "SNAPSHOTS", None) for module in modules]
    found: list[Mapping[str, object]] = [snapshots for snapshots in declared if snapshots is not None]
    registered = [snapshots for _, snapshots in families()]

    assert sorted(map(id, found)) == sorted(map(id, registered))
    assert len({name for snapshots in registered for name in snapshots}) == sum(map(len, found))
