"""Columns in the types of a format: every value is there, exactly, or an error says which is not."""

from __future__ import annotations

import io
import pickle
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from readers import ValueOutOfRangeError
from service.tasks.copies.export.files.conversion import (
    FORMATS,
    NANOSECONDS,
    Conversion,
    TypeRules,
    UnexportableTypeError,
)
from service.tasks.copies.export.selection import folder_name, folder_names

Typed = tuple[pa.DataType, st.SearchStrategy[Any]]

_FREE: list[Typed] = [
    (pa.bool_(), st.booleans()),
    *(
        (kind, st.integers(*bounds))
        for kind, bounds in (
            (pa.int8(), (-128, 127)),
            (pa.int16(), (-(2**15), 2**15 - 1)),
            (pa.int32(), (-(2**31), 2**31 - 1)),
            (pa.int64(), (-(2**63), 2**63 - 1)),
            (pa.uint16(), (0, 2**16 - 1)),
            (pa.uint64(), (0, 2**64 - 1)),
        )
    ),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.string(), st.text(st.characters(exclude_categories=["Cs"]))),
    (pa.binary(), st.binary()),
    (pa.date32(), st.dates()),
    (pa.decimal128(20, 4), st.decimals(-(10**12), 10**12, places=4)),
    (
        pa.timestamp("ms"),
        st.datetimes().map(lambda one: one.replace(microsecond=one.microsecond // 1000 * 1000)),
    ),
    (pa.timestamp("us"), st.datetimes()),
    (pa.time32("ms"), st.times().map(lambda one: one.replace(microsecond=one.microsecond // 1000 * 1000))),
    (pa.duration("ms"), st.integers(-(2**40), 2**40).map(lambda ms: timedelta(milliseconds=ms))),
    (pa.null(), st.none()),
    (pa.struct([]), st.just({})),
]


def _composites(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    def struct(parts: list[Typed]) -> Typed:
        names = [f"f{number}" for number in range(len(parts))]
        kind = pa.struct([(name, part[0]) for name, part in zip(names, parts, strict=True)])
        values = st.tuples(*(st.none() | part[1] for part in parts))
        return kind, values.map(lambda row: dict(zip(names, row, strict=True)))

    return st.one_of(
        inner.map(lambda one: (pa.list_(one[0]), st.lists(st.none() | one[1], max_size=3))),
        inner.map(
            lambda one: (
                pa.map_(pa.string(), one[0]),
                st.dictionaries(st.text("abc"), st.none() | one[1], max_size=3).map(
                    lambda found: list(found.items())
                ),
            )
        ),
        st.lists(inner, min_size=1, max_size=3).map(struct),
    )


TYPES = st.recursive(st.sampled_from(_FREE), _composites, max_leaves=4)


def meant(value: Any, own: pa.DataType, rules: TypeRules) -> Any:
    """What a value of Arrow is in a format, by the table of the documentation."""
    if value is None:
        return None
    if pa.types.is_struct(own):
        parts = {part.name: meant(value[part.name], part.type, rules) for part in own}
        return parts if parts else "{}"
    if pa.types.is_map(own):
        return [(key, meant(one, own.item_type, rules)) for key, one in value]
    if pa.types.is_list(own):
        return [meant(one, own.value_type, rules) for one in value]
    if pa.types.is_duration(own) and rules.format != "parquet":
        return value // timedelta(milliseconds=1)
    if pa.types.is_time(own) and rules.format == "delta":
        return f"{value.isoformat(timespec='microseconds')}000"
    return value


@pytest.mark.slow
@given(st.data(), TYPES, st.sampled_from(FORMATS))
def test_what_a_file_has_is_what_was_converted(data: st.DataObject, typed: Typed, name: str) -> None:
    kind, values = typed
    rules = TypeRules(format=name)
    given_values = data.draw(st.lists(st.none() | values, max_size=5))
    array = pa.array(given_values, kind)
    # Rows in the middle of a batch stand somewhere else in its buffers.
    start = data.draw(st.integers(0, len(array)))
    batch = pa.RecordBatch.from_arrays([array], names=["value"]).slice(start)
    schema = rules.schema(batch.schema)

    found = read_back(pickle.loads(pickle.dumps(Conversion("table", schema, schema))).of(batch))

    expected = [meant(one, kind, rules) for one in given_values[start:]]
    assert found.schema.field("value").type == schema.field("value").type
    assert list(map(numbered, found["value"].to_pylist())) == list(map(numbered, expected))


def read_back(batch: pa.RecordBatch) -> pa.Table:
    sink = io.BytesIO()
    parquet.write_table(pa.Table.from_batches([batch]), sink)
    return parquet.read_table(io.BytesIO(sink.getvalue()))


def numbered(value: Any) -> Any:
    """A value in which whole numbers are equal, whatever their type."""
    return int(value) if isinstance(value, Decimal) and value == value.to_integral_value() else value


FINE = {
    "time": (pa.time64("ns"), 3_600_000_000_001),
    "timestamp": (pa.timestamp("ns"), 1_709_210_096_000_000_007),
}


@pytest.mark.parametrize("kind", FINE)
@pytest.mark.parametrize("nanoseconds", [None, *NANOSECONDS])
@pytest.mark.parametrize("name", FORMATS)
def test_nanoseconds_are_kept_or_refused(name: str, nanoseconds: str | None, kind: str) -> None:
    own, value = FINE[kind]
    rules = TypeRules(format=name, nanoseconds=nanoseconds)
    batch = pa.RecordBatch.from_arrays([pa.array([value, None], pa.int64()).cast(own)], names=["at"])
    schema = rules.schema(batch.schema)
    conversion = Conversion("clicks", schema, schema)
    is_exact = (
        nanoseconds in ("bigint", "text")
        or (name == "parquet" and nanoseconds is None)
        or (name == "delta" and kind == "time")
    )

    if not is_exact:
        with pytest.raises(ValueOutOfRangeError, match="table 'clicks', column 'at'"):
            conversion.of(batch)
        return
    (found,) = read_back(conversion.of(batch)).columns
    text = {"time": "01:00:00.000000001", "timestamp": "2024-02-29T12:34:56.000000007"}[kind]
    exact = found.cast(pa.int64()).to_pylist() if not pa.types.is_string(found.type) else found.to_pylist()
    assert exact == [text if pa.types.is_string(found.type) else value, None]


def test_a_time_beyond_microseconds_is_refused_by_name() -> None:
    rules = TypeRules(format="iceberg")
    batch = pa.RecordBatch.from_arrays([pa.array([2**62], pa.timestamp("ms"))], names=["end"])
    schema = rules.schema(batch.schema)

    with pytest.raises(ValueOutOfRangeError, match="table 'clicks', column 'end'"):
        Conversion("clicks", schema, schema).of(batch)
    with pytest.raises(UnexportableTypeError, match="column 'x': expected a type that delta can hold"):
        TypeRules(format="delta").schema(pa.schema([("x", pa.month_day_nano_interval())]))


def test_names_that_a_format_does_not_allow_are_spelled() -> None:
    schema = pa.schema([("a b", pa.int32()), ("A B", pa.int32()), ("x", pa.struct([("y,z", pa.int32())]))])

    assert TypeRules(format="parquet").schema(schema).names == ["a b", "A B", "x"]
    assert TypeRules(format="iceberg").schema(schema).names == ["a b", "A B~2", "x"]
    delta = TypeRules(format="delta").schema(schema)
    assert (delta.names, delta.field("x").type[0].name) == (["a~20b", "A~20B~2", "x"], "y~2cz")


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=300), unique_by=str.casefold))
def test_folders_of_tables_are_apart_and_steps_of_a_path(tables: list[str]) -> None:
    names = folder_names([(table, "id") for table in tables])

    assert len({name.casefold() for name in names}) == len(tables)
    for name in names:
        assert name.isascii()
        assert not set(name) & set('/\\:*?"<>|. ')
        assert 0 < len(name) < 200
        assert not name.startswith("_")


def test_names_of_folders_are_those_of_the_documentation() -> None:
    assert folder_name("Source: clicks__offsets") == "Source~3a~20clicks__offsets"
    assert folder_name("_private.Ä") == "~5fprivate~2e~c3~84"
    assert folder_name("con") == "con~"
    assert len(folder_name("x" * 1000)) == 150
    assert folder_names([("a", "1"), ("A", "2")]) == ["a_1", "A_2"]
