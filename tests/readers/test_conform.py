"""`conform`: arrays of one type as another, as subtasks that know different fields need it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from readers import CorruptDataError, conform

FEWER = pa.struct([("a", pa.int32())])
MORE = pa.struct([("a", pa.int32()), ("b", pa.string())])


def test_slices_of_lists_get_the_fields_of_the_other_type():
    lists = pa.array([[{"a": 1}], None, [{"a": 2}, {"a": 3}], []], pa.list_(FEWER))

    found = conform(lists.slice(1, 2), pa.list_(MORE))

    found.validate(full=True)
    assert found.to_pylist() == [None, [{"a": 2, "b": None}, {"a": 3, "b": None}]]


def test_slices_of_maps_get_the_fields_of_the_other_type():
    maps = pa.array([[("x", {"a": 1})], None, [("y", {"a": 2})]], pa.map_(pa.string(), FEWER))

    found = conform(maps.slice(1), pa.map_(pa.string(), MORE))

    found.validate(full=True)
    assert found.to_pylist() == [None, [("y", {"a": 2, "b": None})]]


@pytest.mark.parametrize("target", [pa.string(), pa.int64(), pa.list_(pa.int64()), MORE])
def test_bytes_are_never_taken_for_values(target: pa.DataType):
    with pytest.raises(CorruptDataError, match=r"expected values of type .*, found BLOB"):
        conform(pa.array([b"1"]), target)
