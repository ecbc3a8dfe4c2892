"""Keys as people write them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from catalog import parse_key, shown_key

PAIR = pa.struct([("f0", pa.string()), ("f1", pa.int64())])
ROW = pa.struct([("__row_kind", pa.string()), ("f0", pa.string())])
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
        ("TRUE", pa.bool_(), "true"),
        ("yes", pa.bool_(), None),
        ("AQI=", pa.binary(), '"AQI="'),
        ("2024-02-28", pa.date32(), '"2024-02-28"'),
        ("12:00:00.5", pa.time64("ns"), '"12:00:00.500000000"'),
        ("1970-01-01T00:00:01.000000001", NANOS, '"1970-01-01T00:00:01.000000001"'),
        ("1970-01-01T00:00:01.000000001Z", NANOS, '"1970-01-01T00:00:01.000000001"'),
        ("1970-01-01 00:00:01+00:00", NANOS, '"1970-01-01T00:00:01.000000000"'),
        ("yesterday", NANOS, None),
        ('{"f0": "a", "f1": 1}', PAIR, '{"f0":"a","f1":1}'),
        ('{"f1": 1, "f0": "a"}', PAIR, '{"f0":"a","f1":1}'),
        ('["a", 1]', PAIR, '{"f0":"a","f1":1}'),
        ('["a"]', PAIR, None),
        ('{"f0": "a"}', PAIR, None),
        ('{"f0": "a", "f1": 1, "f2": 2}', PAIR, None),
        ('{"f0": "a", "f1": true}', PAIR, None),
        ('{"f0": "a", "f1": null}', PAIR, '{"f0":"a","f1":null}'),
        ("(a,1)", PAIR, None),
        ("0.5", PAIR, None),
        ('"a"', PAIR, None),
        ("[{}]", pa.list_(pa.int64()), None),
        ("9" * 400, pa.int64(), None),
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
    key = parse_key(text, key_type)

    assert (None if key is None else key.json) == json


@pytest.mark.parametrize(
    ("text", "key_type", "value"),
    [
        ("42", pa.int32(), 42),
        ('["a", 1]', PAIR, {"f0": "a", "f1": 1}),
        ("1.50", pa.decimal128(5, 2), Decimal("1.50")),
    ],
)
def test_a_parsed_key_has_the_value_of_a_predicate(text: str, key_type: pa.DataType, value: Any) -> None:
    key = parse_key(text, key_type)

    assert key is not None
    assert key.value == value


def test_quotation_marks_are_no_part_of_keys_that_never_begin_with_one() -> None:
    for text in ("0-1", '"0-1"'):
        key = parse_key(text, pa.string(), is_unquoted=True)
        assert key is not None
        assert key.value == "0-1"
    assert parse_key('"0-1', pa.string(), is_unquoted=True) is None
    kept = parse_key('"0-1"', pa.string())
    assert kept is not None
    assert kept.value == '"0-1"'


@pytest.mark.parametrize(
    ("value", "key_type", "text"),
    [
        ("k", pa.string(), "k"),
        (7, pa.int32(), "7"),
        (1, NANOS, "1970-01-01T00:00:00.000000001"),
        ({"f0": "a", "f1": 1}, PAIR, '{"f0":"a","f1":1}'),
    ],
)
def test_a_shown_key_can_be_parsed_again(value: Any, key_type: pa.DataType, text: str) -> None:
    keys = pa.array([value], key_type)

    assert shown_key(keys) == text
    parsed = parse_key(text, key_type)
    assert parsed is not None
    assert parsed.array.equals(keys)
