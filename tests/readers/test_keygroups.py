"""Hashes, key groups and operator ids, against what Flink's own classes compute (1.20.1, JDK 17)."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from readers.keygroups import (
    hash_binary_row,
    hash_instant,
    hash_long,
    key_group_bytes,
    key_group_of,
    key_groups_of_subtask,
    murmur_hash,
    operator_id_of,
)
from readers.serializers import containers, primitives, structs
from readers.serializers.base import Serializer

STRING, INT, LONG = primitives.StringSerializer(), primitives.IntSerializer(), primitives.LongSerializer()
NOON = datetime.datetime(2024, 2, 29, 12, 34, 56)


def tuple_of(*fields: Serializer) -> Serializer:
    return structs.TupleSerializer("Tuple", fields)


def row_of(*fields: Serializer) -> Serializer:
    return structs.RowSerializer(fields)


def f(*values: Any) -> dict[str, Any]:
    """The columns of a tuple or row."""
    return {f"f{index}": value for index, value in enumerate(values)}


HASHES: list[tuple[Serializer, Any, int, int, int, int, int]] = [
    (STRING, "", 0, 593689054, 94, 2526, 31198),
    (STRING, "a", 97, 1455541201, 81, 3025, 19409),
    (STRING, "key_662", -815179886, 1432137001, 41, 3369, 11561),
    (STRING, "hello", 99162322, 1715862179, 35, 2723, 31395),
    (STRING, "user-1", -836031825, 1662039673, 121, 1657, 13945),
    (STRING, "été", 227742, 157703301, 5, 3205, 23685),
    (STRING, "日本", 835047, 1762503263, 95, 2655, 10847),
    (STRING, "😀", 1772899, 1934073014, 54, 3254, 7350),
    (INT, 0, 0, 593689054, 94, 2526, 31198),
    (INT, 1, 1, 68075478, 86, 4054, 16342),
    (INT, -1, -1, 1982413648, 80, 2896, 15184),
    (INT, 42, 42, 1134849565, 29, 3613, 28189),
    (INT, 127, 127, 1931274395, 27, 2203, 26779),
    (INT, 128, 128, 132521001, 41, 3113, 7209),
    (INT, 1000000, 1000000, 2127295249, 17, 785, 29457),
    (INT, -2147483648, -2147483648, 1718298732, 108, 2156, 10348),
    (INT, 2147483647, 2147483647, 1653689534, 62, 3262, 19646),
    (LONG, 0, 0, 593689054, 94, 2526, 31198),
    (LONG, 1, 1, 68075478, 86, 4054, 16342),
    (LONG, -1, 0, 593689054, 94, 2526, 31198),
    (LONG, 42, 42, 1134849565, 29, 3613, 28189),
    (LONG, 4294967296, 1, 68075478, 86, 4054, 16342),
    (LONG, 1700000000000, -807048821, 1892790720, 64, 448, 12736),
    (LONG, -9223372036854775808, -2147483648, 1718298732, 108, 2156, 10348),
    (primitives.BooleanSerializer(), True, 1231, 1090530765, 77, 3533, 11725),
    (primitives.BooleanSerializer(), False, 1237, 1530821891, 3, 3331, 32003),
    (primitives.ByteSerializer(), -1, -1, 1982413648, 80, 2896, 15184),
    (primitives.ShortSerializer(), 300, 300, 802221488, 48, 3504, 28080),
    (primitives.CharSerializer(), "A", 65, 743412968, 104, 1256, 5352),
    (primitives.FloatSerializer(), 1.5, 1069547520, 376679366, 70, 3014, 11206),
    (primitives.DoubleSerializer(), 1.5, 1073217536, 1684538177, 65, 833, 833),
    (primitives.DoubleSerializer(), -0.0, -2147483648, 1718298732, 108, 2156, 10348),
    (primitives.FloatSerializer(), float("nan"), 2143289344, 1927335251, 83, 3411, 19795),
    (primitives.DoubleSerializer(), float("nan"), 2146959360, 1585394089, 41, 425, 12713),
    (primitives.BigIntSerializer(), "12345678901234567890", -1436577082, 939484148, 116, 1012, 25588),
    (primitives.BigIntSerializer(), "-1", -1, 1982413648, 80, 2896, 15184),
    (primitives.BigDecSerializer(), "1.10", 3412, 62524793, 121, 3449, 3449),
    (primitives.LocalDateSerializer(), datetime.date(2024, 2, 29), 4145309, 125776286, 30, 414, 12702),
    (primitives.LocalTimeSerializer(), NOON.time(), 1274890546, 1598942544, 80, 3408, 27984),
    (primitives.LocalDateTimeSerializer(), NOON, 1271007663, 234496320, 64, 320, 8512),
    (
        primitives.DateSerializer(),
        datetime.datetime(2023, 11, 14, 22, 13, 20),
        -807048821,
        1892790720,
        64,
        448,
        12736,
    ),
    (
        primitives.SqlDateSerializer(),
        datetime.datetime(2023, 11, 14, 22, 13, 20),
        -807048821,
        1892790720,
        64,
        448,
        12736,
    ),
    (
        primitives.SqlTimestampSerializer(),
        datetime.datetime(2023, 11, 14, 22, 13, 20),
        -807048821,
        1892790720,
        64,
        448,
        12736,
    ),
    (tuple_of(STRING), f("a"), 97, 1455541201, 81, 3025, 19409),
    (tuple_of(STRING, INT), f("a", 1), 3008, 1123382429, 29, 1181, 29853),
    (tuple_of(LONG, STRING, STRING), f(1, None, "x"), 1081, 804539025, 17, 2705, 19089),
    (row_of(STRING), f("a"), 159, 760771008, 64, 448, 29120),
    (row_of(STRING, INT), f("a", 1), 4961, 1805388423, 7, 2695, 2695),
    (row_of(LONG, STRING), f(1, None), 1953, 989164468, 52, 948, 29620),
    (row_of(row_of(INT)), f(f(7)), 131, 1266020267, 43, 4011, 28587),
    (containers.ListSerializer(INT), [1, 2, 3], 30817, 1825691233, 97, 1633, 22113),
    (primitives.StringValueSerializer(), "a", 97, 1455541201, 81, 3025, 19409),
    (primitives.IntValueSerializer(), 5, 5, 236698494, 126, 2942, 15230),
    (primitives.LongValueSerializer(), 5, 48, 907422678, 86, 3030, 11222),
    (structs.EitherSerializer(INT, INT), {"left": 1, "right": None}, 1, 68075478, 86, 4054, 16342),
    (structs.EitherSerializer(INT, INT), {"left": None, "right": 1}, 1, 68075478, 86, 4054, 16342),
]


BINARY_ROWS = [
    ("00000000000000002a00000000000000", 907821237, 1145822917, 69, 3781, 24261),
    ("00000000000000006b65795f36363287", -844527255, 288113486, 78, 846, 17230),
    (
        "0000000000000000150000001000000061206c6f6e67206b65792030313233343536373839000000",
        -235149292, 1530530698, 10, 2954, 2954,
    ),
    ("000200000000000007000000000000000000000000000000", 1642018842, 160009546, 74, 3402, 3402),
    ("0000000000000000", -1670924195, 1651663115, 11, 267, 24843),
]  # fmt: skip

OPERATOR_IDS = {
    "": "00000000000000000000000000000000",
    "a": "897859f6655555855a890e51483ab5e6",
    "my-uid": "8409efe6adc6d20787611f16017c808f",
    "source-1": "f0bd8a29f4afd2e5cc43b41a168f6ab5",
    "stateful-op": "05cb19c14f6ea3c705db605b483d9907",
    "window-op": "cedd5860bcb2a78b46c5f18604a1a020",
    "kafka-source": "61252f73469d3ffba207c548d29a0267",
    "日本": "8617be787de7d486bd099c30ca8febae",
    "process": "4cd5c9eb987d451c700e0079a82c6902",
    "uid-123": "6da5d2fdd0b04d8fde99afbf4af8601f",
    "Source: Custom Source": "1640a1cd8726ec8c7d93a05ed1e790e7",
    "src-uid": "65eb651c08e51afc6b01b9ec8c609cba",
    "proc-uid": "4d0be9be59dc6eba85d3a355af130ca4",
    "sink-uid": "bd419052c77fadccebe36fde04758061",
    "the-quick-brown-fox-jumps-over-the-lazy-dog": "5378e8af3b21e92fa409842d81466b9c",
    "0123456789abcdef": "a7d14acf946de04bda08a7635c5bc387",
}


@pytest.mark.parametrize(("serializer", "value", "code", "mixed", "of_128", "of_4096", "of_32768"), HASHES)
def test_a_key_has_the_hash_and_the_key_groups_that_flink_gives_it(
    serializer, value, code, mixed, of_128, of_4096, of_32768
):
    assert serializer.hash_code(value) == code
    assert murmur_hash(code) == mixed
    assert [key_group_of(code, groups) for groups in (128, 4096, 32768)] == [of_128, of_4096, of_32768]


@pytest.mark.parametrize(("row", "code", "mixed", "of_128", "of_4096", "of_32768"), BINARY_ROWS)
def test_a_sql_key_has_the_hash_of_the_bytes_of_its_row(row, code, mixed, of_128, of_4096, of_32768):
    assert hash_binary_row(bytes.fromhex(row)) == code
    assert murmur_hash(code) == mixed
    assert [key_group_of(code, groups) for groups in (128, 4096, 32768)] == [of_128, of_4096, of_32768]


def test_times_finer_than_python_has_them_are_hashed_too():
    assert hash_instant(1_700_000_000, 5) == 1700000255
    assert hash_long((45_296 * 1_000_000_000) + 789) == 1274890791


def test_a_time_that_python_cannot_hold_has_no_hash():
    class Nanoseconds(datetime.datetime):
        """As pandas has it."""

        nanosecond = 7

    assert primitives.InstantSerializer().hash_code(Nanoseconds(2024, 2, 29)) is None


@pytest.mark.parametrize(
    ("serializer", "value"),
    [
        (STRING, 1),
        (INT, 1 << 31),
        (INT, True),
        (INT, "1"),
        (primitives.BigDecSerializer(), "1E+5"),
        (primitives.BigDecSerializer(), "x"),
        (primitives.BigDecSerializer(), "9" * 5000),
        (primitives.CharSerializer(), "ab"),
        (primitives.LocalDateSerializer(), NOON),
        (tuple_of(INT), f("a")),
        (tuple_of(INT), {"f1": 1}),
        (row_of(primitives.BytePrimitiveArraySerializer()), f(b"abc")),
        (containers.ListSerializer(INT), ["a"]),
        (containers.SetSerializer(INT), [1]),
        (containers.EnumSerializer("Color", ("RED",)), "RED"),
    ],
)
def test_a_value_that_is_no_key_of_the_type_or_has_no_portable_hash_has_none(serializer, value):
    assert serializer.hash_code(value) is None


@pytest.mark.parametrize(("uid", "operator_id"), OPERATOR_IDS.items())
def test_a_uid_has_the_operator_id_that_flink_derives_from_it(uid, operator_id):
    assert operator_id_of(uid) == operator_id


def test_the_prefix_of_a_composite_key_has_two_bytes_above_128_key_groups():
    assert [key_group_bytes(groups) for groups in (1, 128, 129, 32768)] == [1, 1, 2, 2]


@pytest.mark.parametrize(
    ("parallelism", "most"), [(1, 1), (1, 128), (2, 128), (3, 128), (7, 1000), (128, 128)]
)
def test_subtasks_share_all_key_groups(parallelism: int, most: int) -> None:
    ranges = [key_groups_of_subtask(subtask, parallelism, most) for subtask in range(parallelism)]

    assert [group for first, last in ranges for group in range(first, last + 1)] == list(range(most))
