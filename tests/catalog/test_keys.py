"""Keys as people write them."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy
import pandas
import pyarrow as pa
import pytest

from catalog import NotAKeyError, key_of, parse_key, shown_key

PAIR = pa.struct([("f0", pa.string()), ("f1", pa.int64())])
NESTED = pa.struct([("f0", pa.int32()), ("f1", pa.struct([("f0", pa.string()), ("f1", pa.bool_())]))])
ROW = pa.struct([("__row_kind", pa.string()), ("f0", pa.string())])
SQL_ROW = pa.struct([("f0", pa.string()), ("__row_kind", pa.string())])
NANOS = pa.timestamp("ns")


@pytest.mark.parametrize(
    ("text", "key_type", "json"),
    [
        ("42", pa.int32(), "42"),
        ("42", pa.string(), '"42"'),
        ("99999999999", pa.int32(), None),
        ("x", pa.int64(), None),
        ("1_0", pa.int64(), None),
        ("1.5", pa.float64(), "1.5"),
        ("1.50", pa.decimal128(5, 2), '"1.50"'),
        ("1.500", pa.decimal128(5, 2), '"1.50"'),
        ("1.555", pa.decimal128(5, 2), None),
        ("1e3", pa.decimal128(5, 2), None),
        ("inf", pa.decimal128(5, 2), None),
        ("9" * 38, pa.decimal128(38, 0), '"' + "9" * 38 + '"'),
        ("1_0", pa.float64(), None),
        ("TRUE", pa.bool_(), "true"),
        ("yes", pa.bool_(), None),
        ("AQI=", pa.binary(), '"AQI="'),
        ("2024-02-28", pa.date32(), '"2024-02-28"'),
        ("12:00:00.5", pa.time64("ns"), '"12:00:00.500000000"'),
        ("1970-01-01T00:00:01.000000001", NANOS, '"1970-01-01T00:00:01.000000001"'),
        ("1970-01-01T00:00:01.000000001Z", NANOS, '"1970-01-01T00:00:01.000000001"'),
        ("1970-01-01 00:00:01+00:00", NANOS, '"1970-01-01T00:00:01.000000000"'),
        ('"1970-01-01T00:00:01.000000001"', NANOS, '"1970-01-01T00:00:01.000000001"'),
        ('"2024-02-28"', pa.date32(), '"2024-02-28"'),
        ('"2024-02-28', pa.date32(), None),
        ('"1.50"', pa.decimal128(5, 2), '"1.50"'),
        ('"42"', pa.int32(), "42"),
        ('"AQI="', pa.binary(), '"AQI="'),
        ('"42"', pa.string(), '"\\"42\\""'),
        ("yesterday", NANOS, None),
        ('{"f0": "a", "f1": 1}', PAIR, '{"f0":"a","f1":1}'),
        ('{"f1": 1, "f0": "a"}', PAIR, '{"f0":"a","f1":1}'),
        ('["a", 1]', PAIR, '{"f0":"a","f1":1}'),
        ('["a"]', PAIR, None),
        ('{"f0": "a"}', PAIR, None),
        ('{"f0": "a", "f1": 1, "f2": 2}', PAIR, None),
        ('{"f0": "a", "f1": true}', PAIR, None),
        ('{"f0": "a", "f1": null}', PAIR, '{"f0":"a","f1":null}'),
        ("(a,1)", PAIR, '{"f0":"a","f1":1}'),
        (" ( a , 1 ) ", PAIR, '{"f0":"a","f1":1}'),
        ("('a, b', 1)", PAIR, '{"f0":"a, b","f1":1}'),
        ("+I[a, 1]", PAIR, '{"f0":"a","f1":1}'),
        ("{f1: 1, f0: a}", PAIR, '{"f0":"a","f1":1}'),
        ("{'f0': 'it''s', 'f1': 1}", PAIR, '{"f0":"it\'s","f1":1}'),
        ("{f0=a, f1=1}", PAIR, '{"f0":"a","f1":1}'),
        ("(,null)", PAIR, '{"f0":"","f1":null}'),
        ("(host:80,1)", PAIR, '{"f0":"host:80","f1":1}'),
        ("(a,1", PAIR, None),
        ("a,1)", PAIR, None),
        ("(a,1)x", PAIR, None),
        ("(a,(1))", PAIR, None),
        ("(1,(a,true))", NESTED, '{"f0":1,"f1":{"f0":"a","f1":true}}'),
        ("(" * 100_000 + ")" * 100_000, PAIR, None),
        ("a", ROW, '{"__row_kind":"+I","f0":"a"}'),
        ("12", ROW, '{"__row_kind":"+I","f0":"12"}'),
        ("(a)", ROW, '{"__row_kind":"+I","f0":"a"}'),
        ("+I[a]", ROW, '{"__row_kind":"+I","f0":"a"}'),
        ("-D[a]", ROW, '{"__row_kind":"-D","f0":"a"}'),
        ("-D[a]", SQL_ROW, '{"f0":"a","__row_kind":"-D"}'),
        ('["a"]', SQL_ROW, '{"f0":"a","__row_kind":"+I"}'),
        ('["a", "-D"]', SQL_ROW, '{"f0":"a","__row_kind":"-D"}'),
        ("0.5", PAIR, None),
        ('"a"', PAIR, None),
        ("[{}]", pa.list_(pa.int64()), None),
        ("9" * 400, pa.int64(), None),
        ("+99999999999-01-01T00:00:00", pa.timestamp("ms"), None),
        ("+999999999-01-01T00:00:00", pa.timestamp("ms"), None),
        ("[" * 100_000, pa.list_(pa.int64()), None),
        ('{"f0": "a"', PAIR, None),
        ('{"f0": "a"}', ROW, '{"__row_kind":"+I","f0":"a"}'),
        ('["a"]', ROW, '{"__row_kind":"+I","f0":"a"}'),
        ('["-D", "a"]', ROW, '{"__row_kind":"-D","f0":"a"}'),
        ("[1, 2]", pa.list_(pa.int64()), "[1,2]"),
        ("[", pa.list_(pa.int64()), None),
        ('[{"key": "a", "value": 1}]', pa.map_(pa.string(), pa.int64()), '[{"key":"a","value":1}]'),
        ("[1]", pa.map_(pa.string(), pa.int64()), None),
    ],
)
def test_a_key_is_parsed_by_its_type(text: str, key_type: pa.DataType, json: str | None) -> None:
    if json is None:
        with pytest.raises(NotAKeyError):
            parse_key(text, key_type)
    else:
        assert parse_key(text, key_type).json == json


@pytest.mark.parametrize(
    ("text", "key_type", "json"),
    [
        ("5", pa.int64(), "5"),
        ("-5", pa.int64(), "-5"),
        ("0", pa.uint8(), "0"),
        ('"5"', pa.int64(), "5"),
        ("05", pa.int64(), None),
        ("+5", pa.int64(), None),
        ("00", pa.int32(), None),
        ("-0", pa.int32(), None),
        ("-05", pa.int16(), None),
        ('"05"', pa.int64(), None),
        ("05", pa.string(), '"05"'),
        ("05", pa.binary(), '"MDU="'),
        ("05", pa.decimal128(9, 0), None),
        ("1.5", pa.decimal128(5, 2), '"1.50"'),
        ("01.50", pa.decimal128(5, 2), None),
        ("0.5", pa.float64(), "0.5"),
        ("1", pa.float64(), "1"),
        ("01", pa.float64(), None),
        ("TRUE", pa.bool_(), "true"),
        ("1970-01-01T00:00:01Z", NANOS, '"1970-01-01T00:00:01.000000000"'),
        ("(05,5)", PAIR, '{"f0":"05","f1":5}'),
        ("(a,05)", PAIR, None),
        ("{f0: a, f1: +5}", PAIR, None),
        ('["a", "05"]', PAIR, None),
        ('["a", 5]', PAIR, '{"f0":"a","f1":5}'),
        ("05", pa.struct([("f0", pa.int64())]), None),
        ('["05"]', pa.list_(pa.int64()), None),
        ('[{"key": "05", "value": "05"}]', pa.map_(pa.string(), pa.int64()), None),
        ("(1,(05,true))", NESTED, '{"f0":1,"f1":{"f0":"05","f1":true}}'),
    ],
)
def test_an_id_is_a_number_only_by_its_own_text(text: str, key_type: pa.DataType, json: str | None) -> None:
    if json is None:
        with pytest.raises(NotAKeyError):
            parse_key(text, key_type, is_own_text=True)
    else:
        assert parse_key(text, key_type, is_own_text=True).json == json


@pytest.mark.parametrize(
    ("text", "key_type", "reason"),
    [
        ('{"f0": "a"}', PAIR, "expected the fields f0, f1; f1 is missing"),
        ("{}", PAIR, "expected the fields f0, f1; f0, f1 are missing"),
        ('{"f0": "a", "f2": 2}', PAIR, "expected the fields f0, f1; f1 is missing and f2 is unknown"),
        ("(a)", PAIR, "expected the fields f0, f1, found 1 value"),
        ("(a,1,2)", PAIR, "expected the fields f0, f1, found 3 values"),
        ("(a,b)", PAIR, "f1: expected an integer, found 'b'"),
        ("(1,(a,2))", NESTED, "f1: f1: expected true or false, found '2'"),
        ('{"g0": "a"}', ROW, "expected the field f0; f0 is missing and g0 is unknown"),
    ],
)
def test_a_struct_that_is_no_key_says_why(text: str, key_type: pa.DataType, reason: str) -> None:
    with pytest.raises(NotAKeyError) as raised:
        parse_key(text, key_type)

    assert (str(raised.value), raised.value.is_close) == (reason, True)


@pytest.mark.parametrize(
    ("text", "key_type", "value"),
    [
        ("42", pa.int32(), 42),
        ('["a", 1]', PAIR, {"f0": "a", "f1": 1}),
        ("1.50", pa.decimal128(5, 2), Decimal("1.50")),
        ("+10000-01-01T00:00:00", pa.timestamp("ms"), None),
    ],
)
def test_a_parsed_key_has_the_value_of_a_predicate(text: str, key_type: pa.DataType, value: Any) -> None:
    assert parse_key(text, key_type).value == value


def test_quotation_marks_are_no_part_of_keys_that_never_begin_with_one() -> None:
    for text in ("0-1", '"0-1"'):
        assert parse_key(text, pa.string(), is_unquoted=True).value == "0-1"
    with pytest.raises(NotAKeyError):
        parse_key('"0-1', pa.string(), is_unquoted=True)
    assert parse_key('"0-1"', pa.string()).value == '"0-1"'


@pytest.mark.parametrize(
    ("value", "key_type", "text"),
    [
        ("k", pa.string(), "k"),
        (7, pa.int32(), "7"),
        (1, NANOS, "1970-01-01T00:00:00.000000001"),
        (253_402_300_800_000, pa.timestamp("ms"), "+10000-01-01T00:00:00.000"),
        (-9_223_372_036_854_775_808, pa.timestamp("ms"), "-292275055-05-16T16:47:04.192"),
        (-735_203, pa.date32(), "-0043-01-31"),
        ({"f0": "a", "f1": 1}, PAIR, '{"f0":"a","f1":1}'),
        ({"f0": "a", "__row_kind": "+I"}, SQL_ROW, '{"f0":"a"}'),
        ({"f0": "a", "__row_kind": "-D"}, SQL_ROW, '{"f0":"a","__row_kind":"-D"}'),
    ],
)
def test_a_shown_key_can_be_parsed_again(value: Any, key_type: pa.DataType, text: str) -> None:
    keys = pa.array([value], key_type)

    assert shown_key(keys) == text
    assert parse_key(text, key_type).array.equals(keys)


@pytest.mark.parametrize(
    ("value", "key_type", "json"),
    [
        ("a", pa.string(), '"a"'),
        (UUID(int=1), pa.string(), '"00000000-0000-0000-0000-000000000001"'),
        (42, pa.int32(), "42"),
        ("42", pa.int32(), "42"),
        (numpy.int16(42), pa.int64(), "42"),
        (True, pa.bool_(), "true"),
        (1, pa.float64(), "1"),
        (1.5, pa.float32(), "1.5"),
        (Decimal("1.50"), pa.decimal128(5, 1), '"1.5"'),
        (2, pa.decimal128(5, 1), '"2.0"'),
        (date(2024, 2, 28), pa.date32(), '"2024-02-28"'),
        (time(12, 0, 0, 5), pa.time64("us"), '"12:00:00.000005"'),
        (datetime(2024, 2, 28, 12), NANOS, '"2024-02-28T12:00:00.000000000"'),
        (
            datetime(2024, 2, 28, 12, tzinfo=timezone(timedelta(hours=2))),
            pa.timestamp("ms"),
            '"2024-02-28T10:00:00.000"',
        ),
        (pandas.Timestamp(1), NANOS, '"1970-01-01T00:00:00.000000001"'),
        (b"\x01\x02", pa.binary(), '"AQI="'),
        (("a", 1), PAIR, '{"f0":"a","f1":1}'),
        ({"f1": 1, "f0": "a"}, PAIR, '{"f0":"a","f1":1}'),
        ((1, ("x", False)), NESTED, '{"f0":1,"f1":{"f0":"x","f1":false}}'),
        (["a"], ROW, '{"__row_kind":"+I","f0":"a"}'),
        (5, pa.struct([("f0", pa.int64())]), '{"f0":5}'),
        ((1, 2), pa.list_(pa.int32()), "[1,2]"),
        ({"a": 1}, pa.map_(pa.string(), pa.int32()), '[{"key":"a","value":1}]'),
    ],
)
def test_a_value_of_python_is_a_key_of_a_type(value: Any, key_type: pa.DataType, json: str) -> None:
    assert key_of(value, key_type).json == json


@pytest.mark.parametrize(
    ("value", "key_type", "message"),
    [
        (662, pa.string(), "expected a value of type text, found int 662"),
        (b"a", pa.string(), "expected a value of type text, found bytes b'a'"),
        (
            date(2024, 2, 28),
            pa.string(),
            "expected a value of type text, found date datetime.date(2024, 2, 28)",
        ),
        (True, pa.int32(), "expected a value of type INTEGER, found bool True"),
        (1, pa.bool_(), "expected a value of type BOOLEAN, found int 1"),
        (1.0, pa.int32(), "expected an integer, found '1.0'"),
        (2**31, pa.int32(), "expected an integer of 32 bits, found 2147483648"),
        (
            Decimal("1.55"),
            pa.decimal128(5, 1),
            "expected at most 5 digits, 1 of them behind the point, found 1.55",
        ),
        (datetime(2024, 2, 28), pa.date32(), "expected a value of type DATE"),
        (pandas.NaT, NANOS, "expected a date or time as ISO 8601 writes it, found 'NaT'"),
        (datetime(2024, 2, 28, 12, 0, 0, 1), pa.timestamp("ms"), "expected a date or time as ISO 8601"),
        (None, pa.string(), "expected a key, found None"),
        (("a",), PAIR, "expected the fields f0, f1, found 1 value"),
        (("a", "b"), PAIR, "f1: expected an integer, found 'b'"),
        (5, PAIR, "expected an object or array, found 5"),
        (object, pa.int64(), "expected a value of type BIGINT, found type <class 'object'>"),
    ],
)
def test_a_value_of_another_type_is_no_key(value: Any, key_type: pa.DataType, message: str) -> None:
    with pytest.raises(NotAKeyError) as raised:
        key_of(value, key_type)

    assert str(raised.value).startswith(message)
