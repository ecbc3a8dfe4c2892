"""Entries that the classes of a jar do not describe, among entries that they do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from readers.errors import ReaderError
from readers.formats.entry import Entry, StateKind
from readers.formats.source import Selection, StateName
from readers.jars.jobclasses import JobClasses
from readers.rows import state_schema
from readers.savepoint import Savepoint
from readers.serializers.base import Serializer
from readers.serializers.kryo.serializer import KryoSerializer
from readers.serializers.kryo.settings import KryoRegistration, KryoSettings
from readers.serializers.primitives import LongSerializer, StringSerializer, VoidNamespaceSerializer
from readers.serializers.structs import TupleSerializer
from readers.states import StatePart
from tests.readers.decode.test_versions import OnePage
from tests.support.classwriter import class_file, write_jar
from tests.support.compatpairs import unpack_pairs

NAME, TEXT = "a.Pair", "Ljava/lang/String;"
GOOD, MORE, LESS = b"\x57\x01\x02\x04", b"\x57\x01\x02\x04\x06", b"\x57\x01\x02"
LONG = (9).to_bytes(8, "big")
VALUE = {"@class": NAME, "x": 1, "y": 2}


@pytest.fixture
def pair(tmp_path: Path) -> KryoSerializer:
    """A class of two ints, of which some bytes are another version."""
    jar = write_jar(tmp_path / "job.jar", {NAME: class_file(NAME, fields=[("x", "I"), ("y", "I")])})
    registrations = (KryoRegistration(class_name=NAME),)
    settings = KryoSettings(version=2, registrations=registrations, class_files=JobClasses.open([jar]).kryo)
    return KryoSerializer(NAME, settings)


def rows_of(serializer: Serializer, kind: StateKind, *values: bytes) -> list[dict[str, Any]]:
    entry = Entry(kind=kind, key=StringSerializer(), namespace=VoidNamespaceSerializer(), value=serializer)
    name = StateName(name="state")
    source = OnePage(
        subtask=0, path="x", size_bytes=0, entries={name: entry}, max_parallelism=128, values=values
    )
    part = StatePart(source=source, name=name, entry=entry)
    schema = state_schema(entry)
    return [row for batch in part.read(schema.names, schema, Selection()) for row in batch.to_pylist()]


@pytest.mark.parametrize("other", [MORE, LESS], ids=["longer", "shorter"])
def test_an_entry_that_does_not_fit_is_bytes_and_its_neighbours_are_values(
    other: bytes, pair: KryoSerializer
) -> None:
    rows = rows_of(pair, StateKind.VALUE, GOOD, other, GOOD)

    assert [(row["value"] and json.loads(row["value"]), row["_undecoded"]) for row in rows] == [
        (VALUE, None),
        (None, other),
        (VALUE, None),
    ]


@pytest.mark.parametrize("other", [MORE, LESS], ids=["longer", "shorter"])
def test_a_field_that_does_not_fit_spoils_its_entry_only(other: bytes, pair: KryoSerializer) -> None:
    serializer = TupleSerializer("Tuple2", (pair, LongSerializer()))

    rows = rows_of(serializer, StateKind.VALUE, GOOD + LONG, other + LONG, GOOD + LONG)

    assert [(row["value"] and row["value"]["f1"], row["_undecoded"]) for row in rows] == [
        (9, None),
        (None, other + LONG),
        (9, None),
    ]


def test_elements_before_one_that_does_not_fit_are_rows(pair: KryoSerializer) -> None:
    rows = rows_of(pair, StateKind.LIST, GOOD + b"," + MORE + b"," + GOOD)

    assert [
        (row["list_index"], row["value"] and json.loads(row["value"]), row["_undecoded"]) for row in rows
    ] == [
        (0, VALUE, None),
        (1, None, MORE + b"," + GOOD),
    ]


OTHERS = {
    "a field less": [("id", "J")],
    "a field more": [("id", "J"), ("name", TEXT), ("z", TEXT)],
    "a field before": [("a", "I"), ("id", "J"), ("name", TEXT)],
    "types changed": [("id", TEXT), ("name", "J")],
    "a double": [("id", "D"), ("name", TEXT)],
}
SLOW = ("kryo-in-list", "kryo-in-tuple", "kryo-in-map-value", "kryo-in-op-list", "kryo-in-broadcast")


def all_rows(savepoint: Savepoint) -> list[Any]:
    """The rows of each state; the class of the error where there are none."""
    found: list[Any] = []
    for state in (state for operator in savepoint.operators for state in operator.states):
        try:
            found.append([row for batch in state.read() for row in batch.to_pylist()])
        except ReaderError as error:
            found.append(type(error))
    return found


@pytest.mark.parametrize(
    "pair_name", ["native-kryo", *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]
)
@pytest.mark.parametrize("fields", OTHERS.values(), ids=OTHERS)
def test_with_other_versions_of_a_class_states_are_shown_as_without_jars(
    pair_name: str, fields: list[tuple[str, str]], tmp_path: Path
) -> None:
    jar = write_jar(tmp_path / "other.jar", {"app.Acc": class_file("app.Acc", fields=fields)})
    jobs = JobClasses.open([jar])
    savepoints = sorted((unpack_pairs(tmp_path, [pair_name]) / pair_name / "savepoints").iterdir())

    for path in savepoints:
        assert all_rows(Savepoint(path, jars=jobs)) == all_rows(Savepoint(path)), path.name
