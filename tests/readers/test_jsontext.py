"""Any Arrow value as JSON text, against Python's own json."""

from __future__ import annotations

import base64
import json
import math
from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from readers.jsontext import iso_timestamp, json_text

texts = st.text(max_size=8)
types: st.SearchStrategy[pa.DataType] = st.recursive(
    st.sampled_from([pa.int64(), pa.int8(), pa.float64(), pa.bool_(), pa.string(), pa.binary()]),
    lambda inner: st.one_of(
        inner.map(pa.list_),
        st.dictionaries(texts, inner, min_size=1, max_size=3).map(
            lambda fields: pa.struct(list(fields.items()))
        ),
        inner.map(lambda value: pa.map_(pa.string(), value)),
    ),
    max_leaves=5,
)


def values(data_type: pa.DataType) -> st.SearchStrategy[Any]:
    """Return a strategy of the values of an Arrow type, and null."""
    filled: st.SearchStrategy[Any]
    if pa.types.is_struct(data_type):
        filled = st.fixed_dictionaries({field.name: values(field.type) for field in data_type})
    elif pa.types.is_map(data_type):
        filled = st.lists(st.tuples(texts, values(data_type.item_type)), max_size=3)
    elif pa.types.is_list(data_type):
        filled = st.lists(values(data_type.value_type), max_size=3)
    else:
        filled = {
            pa.int64(): st.integers(-(2**63), 2**63 - 1),
            pa.int8(): st.integers(-128, 127),
            pa.float64(): st.floats(),
            pa.bool_(): st.booleans(),
            pa.string(): texts,
            pa.binary(): st.binary(max_size=6),
        }[data_type]
    return st.none() | filled


def plain(value: Any, data_type: pa.DataType) -> Any:
    """Return the value that the JSON text must hold."""
    if value is None:
        return None
    if pa.types.is_struct(data_type):
        return {field.name: plain(value[field.name], field.type) for field in data_type}
    if pa.types.is_map(data_type):
        return [{"key": key, "value": plain(item, data_type.item_type)} for key, item in value]
    if pa.types.is_list(data_type):
        return [plain(element, data_type.value_type) for element in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


@given(st.data())
def test_json_text_is_what_python_would_write(data: st.DataObject) -> None:
    data_type = data.draw(types)
    rows = data.draw(st.lists(values(data_type), max_size=5))

    found = json_text(pa.array(rows, data_type)).to_pylist()

    assert [None if text is None else json.loads(text) for text in found] == [
        plain(row, data_type) for row in rows
    ]


def test_slices_are_converted_alone() -> None:
    array = pa.array([[1], [2, 3], None, [4]]).slice(1, 2)

    assert json_text(array).to_pylist() == ["[2,3]", None]


@pytest.mark.parametrize(
    ("value", "data_type", "text"),
    [
        (0, pa.timestamp("ms"), "1970-01-01T00:00:00.000"),
        (-1, pa.timestamp("ns"), "1969-12-31T23:59:59.999999999"),
        (2**63 - 1, pa.timestamp("ms"), "+292278994-08-17T07:12:55.807"),
        (-(2**63), pa.timestamp("ms"), "-292275055-05-16T16:47:04.192"),
        (253_402_300_800_000, pa.timestamp("ms"), "+10000-01-01T00:00:00.000"),
        (0, pa.timestamp("us", "UTC"), "1970-01-01T00:00:00.000000Z"),
        (19_782, pa.date32(), "2024-02-29"),
        (-721_353, pa.date32(), "-0005-01-02"),
        (2**31 - 1, pa.date32(), "+5881580-07-11"),
        (86_398_123_456_789, pa.time64("ns"), "23:59:58.123456789"),
    ],
)
def test_dates_and_times_are_exact(value: int, data_type: pa.DataType, text: str) -> None:
    array = pa.array([value, None], pa.int64() if data_type.bit_width == 64 else pa.int32()).view(data_type)

    assert json_text(array).to_pylist() == [f'"{text}"', None]


@pytest.mark.parametrize(
    "data_type", [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(3)], ids=str
)
def test_bytes_of_each_arrow_type_are_base64(data_type: pa.DataType) -> None:
    array = pa.array([b"abc", b"\xff\x00\x01", None], data_type)

    assert json_text(array).to_pylist() == ['"YWJj"', '"/wAB"', None]


@given(st.datetimes(), st.sampled_from(["s", "ms", "us"]))
def test_iso_timestamp_agrees_with_python(moment: datetime, unit: str) -> None:
    digits = {"s": 0, "ms": 3, "us": 6}[unit]
    moment = moment.replace(microsecond=moment.microsecond // 10 ** (6 - digits) * 10 ** (6 - digits))
    days = moment.toordinal() - date(1970, 1, 1).toordinal()
    seconds = days * 86_400 + moment.hour * 3600 + moment.minute * 60 + moment.second
    value = seconds * 10**digits + moment.microsecond // 10 ** (6 - digits)

    timespec = {"s": "seconds", "ms": "milliseconds", "us": "microseconds"}[unit]
    assert iso_timestamp(value, unit) == moment.isoformat(timespec=timespec)
