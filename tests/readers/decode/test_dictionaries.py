"""Texts become dictionaries where they repeat, and no row changes."""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from readers import dictionary_schema, with_dictionaries
from readers.decode import dictionaries
from tests.support.interpreted import interpreted

# Beginnings that are alike, lengths around a word, no text at all, and texts that are not ASCII.
TEXTS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        ["", "\0", "\0\0", "monday", "tuesday", "a" * 7, "a" * 8, "a" * 9, "a" * 16, "a" * 15 + "b", "ä€𐍈"]
    ),
)


@st.composite
def columns(draw: st.DrawFn) -> pa.StringArray:
    """A column of texts, some of them in cycles, cut out of a longer one."""
    known = draw(st.lists(st.none() | TEXTS, min_size=1, max_size=30))
    some = draw(st.lists(st.sampled_from(known), max_size=60))
    values = known * draw(st.integers(0, 20)) + some + draw(st.lists(TEXTS, max_size=5))
    start = draw(st.integers(0, min(20, len(values))))
    return pa.array(values, pa.string())[start:]


def dictionary_of(array: pa.StringArray) -> pa.DictionaryArray:
    """The column of a batch that has only this one."""
    batch = pa.record_batch([array], names=["text"])
    found = with_dictionaries(batch, dictionary_schema(batch.schema))
    found.validate(full=True)
    return found.column(0)


@given(array=columns())
@settings(max_examples=50)
def test_dictionaries_have_the_rows_of_the_texts(array: pa.StringArray) -> None:
    found = dictionary_of(array)

    assert found.cast(pa.string()).equals(array)
    assert found.dictionary.null_count == 0


def test_a_dictionary_has_each_repeated_text_once() -> None:
    days = ["20240101", "20240102", None, "20240103", "of another length", ""]

    found = dictionary_of(pa.array(days * 100))

    assert sorted(found.dictionary.to_pylist()) == [
        "",
        "20240101",
        "20240102",
        "20240103",
        "of another length",
    ]
    assert found.to_pylist() == days * 100


@pytest.mark.parametrize(
    "texts",
    [
        [f"key_{number}" for number in range(5000)],
        [f"{number}" for number in range(2000)] * 20,
        [f"key_{number // 2}" for number in range(5000)],
        ["one", "two"],
    ],
    ids=["all new", "too many", "each twice", "too few rows"],
)
def test_texts_that_hardly_repeat_are_a_dictionary_of_all_rows(texts: list[str]) -> None:
    found = dictionary_of(pa.array(texts)[1:])

    assert found.dictionary.to_pylist() == found.to_pylist() == texts[1:]


def test_more_rows_than_are_counted_beforehand_are_numbered() -> None:
    texts = pa.array([None, *map(str, range(70_000))])

    assert dictionary_of(texts).cast(pa.string()).equals(texts)
    assert dictionary_of(texts[1:]).cast(pa.string()).equals(texts[1:])


def test_other_columns_stay_as_they_are() -> None:
    nested = pa.array([{"name": "a"}] * 300)
    batch = pa.record_batch(
        [pa.array(range(300)), nested, pa.array([b"x"] * 300)], names=["number", "row", "bytes"]
    )

    schema = dictionary_schema(batch.schema)

    assert schema == batch.schema
    assert with_dictionaries(batch, schema).equals(batch)


def test_duckdb_reads_structs_in_structs_that_are_a_part_of_more() -> None:
    structs = pa.array([None if number == 3 else {"inner": {"a": number}} for number in range(5)])
    part = pa.RecordBatch.from_arrays([structs], names=["value"]).slice(2, 3)

    found = with_dictionaries(part, dictionary_schema(part.schema))

    assert found.to_pylist() == part.to_pylist()
    with duckdb.connect() as connection:
        rows = connection.from_arrow(pa.RecordBatchReader.from_batches(found.schema, [found])).fetchall()
    assert rows == [({"inner": {"a": 2}},), (None,), ({"inner": {"a": 4}},)]


def test_rows_without_columns_keep_their_number() -> None:
    batch = pa.RecordBatch.from_struct_array(pa.array([{}] * 3, type=pa.struct([])))

    assert with_dictionaries(batch, dictionary_schema(batch.schema)).num_rows == 3


@given(array=columns().filter(len))
@settings(max_examples=10)
def test_numbers_are_those_of_their_source(array: pa.StringArray) -> None:
    _, offsets, data = array.buffers()
    beginning = offsets.address + 4 * array.offset
    text = (data.address, data.size) if data is not None else (0, 0)
    answers = []
    for kernel in (dictionaries.number_texts, interpreted(dictionaries.number_texts)):
        numbers, firsts = np.zeros(len(array), dtype=np.int32), np.zeros(1024, dtype=np.int32)
        records, slots = np.zeros((1024, 4), dtype=np.int64), np.zeros(4096, dtype=np.int32)
        known = kernel(beginning, *text, len(array), numbers, firsts, records, slots)
        answers.append((int(known), numbers.tolist(), firsts.tolist()))

    assert answers[0] == answers[1]
