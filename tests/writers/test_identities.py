"""`identities`: which rows are equal."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from writers.encode.fitting import identities

TEXTS = st.none() | st.sampled_from(["", "a", "b"])
NUMBERS = st.none() | st.integers(-1, 1)
KINDS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.string(), TEXTS),
    (pa.int64(), NUMBERS),
    (pa.null(), st.none()),
    (pa.list_(pa.int64()), st.none() | st.lists(NUMBERS, max_size=3)),
    (pa.map_(pa.string(), pa.int64()), st.none() | st.lists(st.tuples(st.sampled_from("ab"), NUMBERS))),
    (
        pa.struct([("x", pa.int64()), ("y", pa.list_(pa.string()))]),
        st.none() | st.fixed_dictionaries({"x": NUMBERS, "y": st.none() | st.lists(TEXTS, max_size=2)}),
    ),
]


@given(st.data())
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_rows_have_the_same_number_when_they_are_equal(
    kind: tuple[pa.DataType, Any], data: st.DataObject
) -> None:
    rows = data.draw(st.lists(st.tuples(kind[1], NUMBERS), max_size=8))
    first = pa.array([row[0] for row in rows], kind[0])
    second = pa.array([row[1] for row in rows], pa.int64())

    numbers = identities([first, second]).tolist()

    pairs = list(zip(first.to_pylist(), second.to_pylist(), strict=True))
    assert [[one == other for one in numbers] for other in numbers] == [
        [one == other for one in pairs] for other in pairs
    ]


def test_numbers_are_equal_as_java_says() -> None:
    values = pa.array([0.0, -0.0, math.nan, -math.nan, None, None, 0.0])

    zero, minus, nan, other_nan, null, other_null, other_zero = identities([values]).tolist()

    assert zero == other_zero != minus
    assert nan == other_nan
    assert null == other_null
    assert len({zero, minus, nan, null}) == 4
