"""`hash_codes` and `key_groups_of`: the same as the functions of one value, and as Flink's key groups."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from readers import Savepoint, Serializer, State, is_keyed
from readers.keygroups import key_group_of, murmur_hash
from readers.serializers.containers import GenericArraySerializer, ListSerializer
from readers.serializers.named import serializer_named
from readers.serializers.primitives import IntSerializer, LongSerializer, StringSerializer
from readers.serializers.structs import RowSerializer, TupleSerializer
from readers.serializers.table.logicaltypes import (
    BIGINT,
    BOOLEAN,
    INT,
    RowType,
    TextType,
    decimal_type,
    timestamp_type,
)
from readers.serializers.table.rowdata import RowDataSerializer
from tests.support.paths import DATA
from tests.support.unpacked import ARCHIVES, unpacked
from writers import RefusedEditError, UnencodableValueError, key_groups_of
from writers.hashes import hash_codes


def named(name: str) -> Serializer:
    serializer = serializer_named(name)
    assert serializer is not None
    return serializer


LONGS = st.integers(-(1 << 63), (1 << 63) - 1)
INTS = st.integers(-(1 << 31), (1 << 31) - 1)
TEXTS = st.text(max_size=12)
TIMES = st.datetimes(datetime.datetime(1700, 1, 1), datetime.datetime(2200, 1, 1))
MILLIS = TIMES.map(lambda time: time.replace(microsecond=time.microsecond // 1000 * 1000))
ROW = RowDataSerializer(RowType((("f0", BIGINT), ("f1", TextType()), ("f2", BOOLEAN), ("f3", INT))))
TUPLE = TupleSerializer("Tuple3", (StringSerializer(), LongSerializer(), IntSerializer()))
KINDS: dict[str, tuple[Serializer, st.SearchStrategy[Any]]] = {
    "Long": (LongSerializer(), LONGS),
    "Integer": (IntSerializer(), INTS),
    "String": (StringSerializer(), TEXTS),
    "Short": (named("Short"), st.integers(-(1 << 15), (1 << 15) - 1)),
    "Byte": (named("Byte"), st.integers(-128, 127)),
    "Boolean": (named("Boolean"), st.booleans()),
    "Double": (named("Double"), st.floats()),
    "Float": (named("Float"), st.floats(width=32)),
    "Date": (named("java.util.Date"), MILLIS),
    "LocalDate": (named("LocalDate"), st.dates()),
    "BigInteger": (named("BigInteger"), st.integers().map(str)),
    "list": (ListSerializer(IntSerializer()), st.lists(INTS, max_size=3)),
    "Row": (
        RowSerializer((StringSerializer(), IntSerializer())),
        st.fixed_dictionaries({"f0": st.none() | TEXTS, "f1": st.none() | INTS, "__row_kind": st.just("+I")}),
    ),
    "Tuple": (TUPLE, st.fixed_dictionaries({"f0": st.none() | TEXTS, "f1": LONGS, "f2": INTS})),
    "RowData": (
        ROW,
        st.fixed_dictionaries(
            {
                "f0": st.none() | LONGS,
                "f1": st.none() | TEXTS,
                "f2": st.none() | st.booleans(),
                "f3": INTS,
                "__row_kind": st.just("+I"),
            }
        ),
    ),
}


@pytest.mark.parametrize("name", KINDS)
@given(st.data())
def test_hash_codes_are_those_of_single_values(name: str, data: st.DataObject) -> None:
    serializer, values = KINDS[name]
    keys = data.draw(st.lists(values, max_size=6))
    cut = data.draw(st.integers(0, len(keys)))
    array = pa.array(keys, serializer.arrow())

    # A slice has the buffers of the whole.
    found = hash_codes(serializer, array.slice(cut)).tolist()

    assert found == [serializer.hash_code(key) for key in array.to_pylist()[cut:]]


@given(st.lists(INTS | st.sampled_from([0x5F5E1, 0x7FFFFFFF]), max_size=6), st.integers(1, 1 << 15))
def test_key_groups_are_those_of_single_hash_codes(codes: list[int], max_parallelism: int) -> None:
    groups = key_groups_of(IntSerializer(), pa.array(codes, pa.int32()), max_parallelism)

    assert groups.tolist() == [key_group_of(code, max_parallelism) for code in codes]


def test_the_hash_without_a_positive_counterpart_is_0() -> None:
    # Found by running murmur backwards from 0x80000000.
    code = unmixed(1 << 31)
    assert murmur_hash(code) == 0

    assert key_groups_of(IntSerializer(), pa.array([code], pa.int32()), 1000).tolist() == [0]


def unmixed(word: int) -> int:
    """The int32 whose murmur hash, before its sign goes, is a word."""
    mask = (1 << 32) - 1

    def rotated(value: int, bits: int) -> int:
        return (value >> bits | value << 32 - bits) & mask

    word ^= word >> 16
    word = word * pow(0xC2B2AE35, -1, 1 << 32) & mask
    word ^= word >> 13 ^ word >> 26
    word = word * pow(0x85EBCA6B, -1, 1 << 32) & mask
    word ^= word >> 16 ^ 4
    word = rotated((word - 0xE6546B64) * pow(5, -1, 1 << 32) & mask, 13)
    word = rotated(word * pow(0x1B873593, -1, 1 << 32) & mask, 15) * pow(0xCC9E2D51, -1, 1 << 32) & mask
    return word - (1 << 32) if word >> 31 else word


def test_many_keys_of_any_length() -> None:
    keys = [f"key_{number}" * (number % 7) for number in range(70_000)] + ["😀" * 50_000, "é", ""]

    found = hash_codes(StringSerializer(), pa.array(keys)).tolist()

    assert found == [StringSerializer().hash_code(key) for key in keys]


@pytest.mark.parametrize(
    ("serializer", "key"),
    [
        (GenericArraySerializer(IntSerializer()), [1]),
        (named("Long"), None),
        (TupleSerializer("Tuple1", (GenericArraySerializer(IntSerializer()),)), {"f0": [1]}),
        (
            RowDataSerializer(RowType((("f0", timestamp_type("TIMESTAMP", 6)),))),
            {"f0": None, "__row_kind": "+I"},
        ),
        (RowDataSerializer(RowType((("f0", decimal_type(30, 2)),))), {"f0": None, "__row_kind": "+I"}),
    ],
    ids=lambda value: value.type_name if isinstance(value, Serializer) else "",
)
def test_a_key_without_a_known_hash_code_is_refused(serializer: Serializer, key: Any) -> None:
    keys = pa.array([key], serializer.arrow())

    with pytest.raises(
        RefusedEditError, match=r"row 0, key: expected a key of type .* hash code in Java is known"
    ):
        key_groups_of(serializer, keys, 128)


def test_a_key_that_does_not_fit_is_refused() -> None:
    with pytest.raises(UnencodableValueError, match="row 1, key: expected a value of type INTEGER"):
        key_groups_of(IntSerializer(), pa.array([1, 1 << 40]), 128)


SAVEPOINTS = sorted(
    path.parent for path in (DATA / "flink").rglob("_metadata") if "changelog" not in str(path)
)


@pytest.mark.parametrize(
    "path",
    # Every kind of key and every format in every run, the other version of Flink beside the slow tests.
    [pytest.param(path, marks=() if "2.3.0" in path.parts else pytest.mark.slow) for path in SAVEPOINTS],
    ids=lambda path: "-".join(path.parts[-3:]),
)
def test_every_key_that_flink_wrote_lies_in_the_key_group_of_its_hash(path: Path) -> None:
    assert check_keys(path)


@pytest.mark.parametrize(
    "archive",
    [
        pytest.param(
            path.name.removesuffix(".tar.xz"), marks=pytest.mark.slow if "sql" not in path.name else ()
        )
        for path in sorted(ARCHIVES.iterdir())
    ],
)
def test_every_key_of_a_packed_savepoint_lies_in_the_key_group_of_its_hash(
    archive: str, tmp_path: Path
) -> None:
    check_keys(unpacked(archive, tmp_path).directory)


def check_keys(path: Path) -> int:
    """The number of keys of a savepoint whose key groups are those of their hashes; there are no others."""
    checked = 0
    for operator in Savepoint(path).operators:
        for state in operator.states:
            if is_keyed(state.kind) and state.entry is not None and state.status == "decoded":
                checked += check_state(state)
    return checked


def check_state(state: State) -> int:
    assert state.entry is not None
    assert state.entry.key is not None
    checked = 0
    for batch in state.read(["key", "_key_group"]):
        try:
            groups = key_groups_of(state.entry.key, batch.column("key"), state.max_parallelism)
        except RefusedEditError:
            # Java's hash code of a class of the user's is not known to the readers either.
            assert state.key_groups_of(batch.column("key").slice(0, 1).to_pylist()) is None
            continue
        assert groups.tolist() == batch.column("_key_group").to_pylist()
        checked += len(groups)
    return checked
