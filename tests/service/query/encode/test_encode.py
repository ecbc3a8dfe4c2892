"""Rows in every format: exact, whatever the values."""

from __future__ import annotations

import base64
import csv
import io
import json
import math
from collections.abc import Iterable
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from readers import sql_type
from service.query.encode import FORMATS, SPREADSHEET_CSV, json_rows, size_text, table_lines, value_lines
from service.query.encode.formats import JSON_TEXT, Column, json_column, text_column
from service.query.running.request import QueryRequest
from tests.support.examples import examples

LEAVES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.bool_(), st.booleans()),
    (pa.int8(), st.integers(-(2**7), 2**7 - 1)),
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.float64(), st.floats()),
    (pa.float32(), st.floats(width=32)),
    (pa.string(), st.text()),
    (pa.large_string(), st.text()),
    (pa.binary(), st.binary()),
    (pa.decimal128(38, 12), st.decimals(allow_nan=False, allow_infinity=False, places=12, min_value=-(10**20), max_value=10**20)),
    (pa.date32(), st.dates()),
    (pa.timestamp("us"), st.datetimes()),
    (pa.timestamp("ms"), st.integers(-(2**63), 2**63 - 1)),
    (pa.timestamp("us", "UTC"), st.datetimes()),
    (pa.null(), st.none()),
]  # fmt: skip


def typed_values(depth: int = 2) -> st.SearchStrategy[tuple[pa.DataType, st.SearchStrategy[Any]]]:
    leaf = st.sampled_from(LEAVES)
    return leaf if depth == 0 else leaf | st.deferred(lambda: nested(typed_values(depth - 1)))


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    def listed(pair: Any) -> Any:
        return pa.list_(pair[0]), st.lists(st.none() | pair[1], max_size=3)

    def structured(pairs: Any) -> Any:
        fields = [(f'f"{number}', arrow_type) for number, (arrow_type, _) in enumerate(pairs)]
        values = {name: st.none() | pair[1] for (name, _), pair in zip(fields, pairs, strict=True)}
        return pa.struct(fields), st.fixed_dictionaries(values)

    def mapped(pair: Any) -> Any:
        return pa.map_(pa.string(), pair[0]), st.lists(st.tuples(st.text(), st.none() | pair[1]), max_size=3)

    return inner.map(listed) | st.lists(inner, min_size=1, max_size=3).map(structured) | inner.map(mapped)


@st.composite
def arrays(draw: st.DrawFn) -> pa.Array:
    arrow_type, values = draw(typed_values())
    made = pa.array(draw(st.lists(st.none() | values, max_size=6)), arrow_type)
    start = draw(st.integers(0, len(made)))
    return made.slice(start, draw(st.integers(0, len(made) - start)))


def as_json(value: Any, arrow_type: pa.DataType) -> Any:
    """Return the expected JSON value, converted the slow way, value by value."""
    if value is None:
        return None
    if pa.types.is_struct(arrow_type):
        return {field.name: as_json(value[field.name], field.type) for field in arrow_type}
    if pa.types.is_map(arrow_type):
        return [{"key": key, "value": as_json(item, arrow_type.item_type)} for key, item in value]
    if pa.types.is_list(arrow_type):
        return [as_json(element, arrow_type.value_type) for element in value]
    if pa.types.is_floating(arrow_type) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value


def same(found: Any, wanted: Any, arrow_type: pa.DataType) -> bool:
    if found is None or wanted is None:
        return found is wanted
    if pa.types.is_struct(arrow_type):
        return list(found) == list(wanted) and all(
            same(found[field.name], wanted[field.name], field.type) for field in arrow_type
        )
    if pa.types.is_map(arrow_type):
        return len(found) == len(wanted) and all(
            one["key"] == other["key"] and same(one["value"], other["value"], arrow_type.item_type)
            for one, other in zip(found, wanted, strict=True)
        )
    if pa.types.is_list(arrow_type):
        return len(found) == len(wanted) and all(
            same(one, other, arrow_type.value_type) for one, other in zip(found, wanted, strict=True)
        )
    if pa.types.is_float32(arrow_type) and not isinstance(wanted, str):
        return bool(pa.scalar(float(found), pa.float32()) == pa.scalar(wanted, pa.float32()))
    if pa.types.is_temporal(arrow_type):
        return bool(instant(found, arrow_type) == wanted)
    return bool(found == wanted) and isinstance(found, type(wanted) | int | float)


def instant(text: str, arrow_type: pa.DataType) -> Any:
    if pa.types.is_date(arrow_type):
        return date.fromisoformat(text)
    if arrow_type.unit == "ms":
        return milliseconds(text)
    assert text.endswith("Z") == (arrow_type.tz is not None)
    return datetime.fromisoformat(text)


def milliseconds(text: str) -> int:
    """Parse an ISO 8601 text of any year: 400 years always have 146097 days."""
    day, _, clock = text.partition("T")
    year, month, of_month = day.rsplit("-", 2)
    cycles, of_cycle = divmod(int(year) - 1, 400)
    in_cycle = date(of_cycle + 1, int(month), int(of_month)).toordinal() - date(1970, 1, 1).toordinal()
    hours, minutes, seconds = clock.split(":")
    whole, _, fraction = seconds.partition(".")
    in_day = (int(hours) * 60 + int(minutes)) * 60 + int(whole)
    return ((cycles * 146_097 + in_cycle) * 86_400 + in_day) * 1000 + int(fraction or 0)


def plain_values(array: pa.Array) -> list[Any]:
    """Python's values; timestamps in milliseconds, which go beyond Python's years, as numbers."""
    return [python_value(value) for value in array]


def python_value(value: Any) -> Any:
    if not value.is_valid:
        return None
    if pa.types.is_timestamp(value.type) and value.type.unit == "ms":
        return value.value
    if pa.types.is_struct(value.type):
        return {name: python_value(value[name]) for name in value}
    if pa.types.is_map(value.type):
        return [(pair["key"].as_py(), python_value(pair["value"])) for pair in value.values]
    if pa.types.is_list(value.type):
        return [python_value(element) for element in value.values]
    return value.as_py()


@settings(max_examples=examples(400), deadline=None)
@given(arrays())
def test_json_says_each_value_exactly(array: pa.Array) -> None:
    texts = json_column(array).to_pylist()

    for text, value in zip(texts, plain_values(array), strict=True):
        wanted = as_json(value, array.type)
        assert same(json.loads(text), wanted, array.type), (text, wanted)


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(arrays(), min_size=1, max_size=3))
def test_json_lines_are_a_line_a_row_and_equal_the_rows_of_the_answer(several: list[pa.Array]) -> None:
    length = min(map(len, several))
    batch = pa.RecordBatch.from_arrays(
        [array.slice(0, length) for array in several], names=[f"c{number}" for number in range(len(several))]
    )
    columns = columns_of(batch)

    # Only this ends a line: text may hold U+2028 and the like, which `splitlines` takes for ends, too.
    lines = written("jsonl", batch).decode().split("\n")[:-1]
    rows = [json.loads(row) for row in json_rows(columns, batch)]

    assert [list(json.loads(line).values()) for line in lines] == rows or any("NaN" in line for line in lines)
    assert [list(row.values()) for row in json.loads(written("json", batch))] == rows
    assert len(rows) == length


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.tuples(st.none() | st.text(), st.none() | st.integers(-(2**63), 2**63 - 1)), max_size=5))
def test_csv_reads_back(rows: list[tuple[str | None, int | None]]) -> None:
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([text for text, _ in rows], pa.string()),
            pa.array([number for _, number in rows], pa.int64()),
        ],
        names=['a"b', "n"],
    )

    text = written("csv", batch).decode()
    found = list(csv.reader(io.StringIO(text, newline="")))

    assert found[0] == ['a"b', "n"]
    assert found[1:] == [[text or "", "" if number is None else str(number)] for text, number in rows]


def spreadsheet(names: list[str], batch: pa.RecordBatch) -> list[list[str]]:
    columns = [
        Column(name=name, type=sql_type(array.type)) for name, array in zip(names, batch.columns, strict=True)
    ]
    text = b"".join(SPREADSHEET_CSV.write(columns, batch.schema, [batch])).decode()
    return list(csv.reader(io.StringIO(text, newline="")))


@given(st.lists(st.tuples(st.text(alphabet="=+-@\t\r\n'\"a,", max_size=4), st.integers(-9, 9)), min_size=1))
@settings(max_examples=examples(200))
def test_a_spreadsheet_runs_nothing_and_no_other_text_is_changed(rows: list[tuple[str, int]]) -> None:
    batch = pa.record_batch({"text": [text for text, _ in rows], "number": [number for _, number in rows]})

    found = spreadsheet(["=1+1", "number"], batch)

    assert found[0] == ["'=1+1", "number"]
    assert found[1:] == [
        [f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text, str(number)]
        for text, number in rows
    ]


def test_a_spreadsheet_reads_numbers_as_numbers_and_null_as_nothing() -> None:
    batch = pa.record_batch(
        {
            "decimal": pa.array([Decimal("-1.50"), None]),
            "float": pa.array([-0.5, None]),
            "text": pa.array(["-0.5", None]),
            "list": pa.array([["=a"], None]),
        }
    )

    assert spreadsheet(batch.schema.names, batch)[1:] == [
        ["-1.50", "-0.5", "'-0.5", '["=a"]'],
        ["", "", "", ""],
    ]


def test_csv_distinguishes_null_from_the_empty_string() -> None:
    batch = pa.RecordBatch.from_pydict({"a": ["", None, 'x,y\r\n"z"'], "b": [1.5, float("nan"), None]})

    assert written("csv", batch) == b'"a","b"\r\n"",1.5\r\n,NaN\r\n"x,y\r\n""z""",\r\n'


@settings(max_examples=examples(100), deadline=None)
@given(arrays())
def test_arrow_streams_back(array: pa.Array) -> None:
    batch = pa.RecordBatch.from_arrays([array], names=["a"])

    found = pa.ipc.open_stream(written("arrow", batch)).read_all()

    assert json_column(found.column("a").combine_chunks()).equals(json_column(array))


def test_parquet_reads_back() -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "a": pa.array([1, None]),
            "s": pa.array([{"x": [1, 2], "y": "z"}, None]),
            "m": pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int64())),
            "t": pa.array([2**62, 0], pa.int64()).view(pa.timestamp("ms")),
        }
    )

    found = parquet.read_table(io.BytesIO(written("parquet", batch)))

    assert json_column(found.to_struct_array().combine_chunks()).equals(json_column(batch.to_struct_array()))


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_every_format_has_an_answer_without_rows(name: str) -> None:
    schema = pa.schema([("a", pa.int64()), ("i", pa.month_day_nano_interval())])

    content = b"".join(FORMATS[name].write([Column("a", "BIGINT"), Column("i", "INTERVAL")], schema, []))

    assert content == {"json": b"[]\n", "jsonl": b"", "csv": b'"a","i"\r\n'}.get(name, content)
    if name == "parquet":
        assert parquet.read_table(io.BytesIO(content)).num_rows == 0


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_what_only_an_engine_makes_is_written_in_every_format(native: Any, name: str) -> None:
    sql = (
        "SELECT 1 AS a, 2 AS a, sum(1) AS h, INTERVAL 1 MONTH AS i, union_value(k := 1) AS u, 'a'::ENUM('a') AS e,"
        " [1, 2]::INT[2] AS l, uuid() IS NULL AS n, '101'::BIT AS b, [{'x': INTERVAL 36 HOUR}] AS d, TIME '10:00' AS t"
    )
    from_queries = native.queries.start(QueryRequest(sql=sql))
    with from_queries as query:
        content = b"".join(FORMATS[name].write(query.columns, query.schema, query.batches()))

    assert content
    if name == "jsonl":
        assert json.loads(content) == {
            "a": 1, "a_1": 2, "h": 1, "i": "P1M", "u": {"k": 1}, "e": "a", "l": [1, 2], "n": False, "b": "Bf0=",
            "d": [{"x": "PT129600S"}], "t": "10:00:00.000000",
        }  # fmt: skip


def test_names_that_repeat_get_numbers_where_they_must_differ() -> None:
    batch = pa.RecordBatch.from_arrays(
        [pa.array([number]) for number in range(4)], names=["a", "a", "a_1", "a"]
    )

    assert json.loads(written("jsonl", batch)) == {"a": 0, "a_2": 1, "a_1": 2, "a_3": 3}


@pytest.mark.parametrize(
    ("milliseconds_since_epoch", "text"),
    [
        (2**63 - 1, "+292278994-08-17T07:12:55.807"),
        (-(2**63), "-292275055-05-16T16:47:04.192"),
        (253_402_300_800_000, "+10000-01-01T00:00:00.000"),
        (-62_167_219_200_001, "-0001-12-31T23:59:59.999"),
        (-62_167_219_200_000, "0000-01-01T00:00:00.000"),
        (-1, "1969-12-31T23:59:59.999"),
    ],
)
def test_timestamps_of_any_year_are_exact(milliseconds_since_epoch: int, text: str) -> None:
    array = pa.array([milliseconds_since_epoch], pa.int64()).view(pa.timestamp("ms"))

    assert text_column(array).to_pylist() == [text]
    assert milliseconds(text) == milliseconds_since_epoch


def test_huge_integers_are_numbers_as_long_as_64_bits_hold_them() -> None:
    values = [2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 10**30, 0, None]
    array = pa.array([None if value is None else Decimal(value) for value in values], pa.decimal128(38, 0))

    found = [json.loads(text) for text in json_column(array, "HUGEINT").to_pylist()]

    assert found == [2**63 - 1, str(2**63), -(2**63), str(-(2**63) - 1), str(10**30), 0, None]
    assert json.loads(json_column(array, "DECIMAL(38,0)")[5].as_py()) == "0"
    assert json_column(pa.array(['{"a":1}', None]), JSON_TEXT).to_pylist() == ['{"a":1}', "null"]


def test_a_table_aligns_and_cuts() -> None:
    batch = pa.RecordBatch.from_pydict(
        {"key": ["a", None, "日本\n"], "n": [1, 22, None], "long": ["x y " * 13] * 3}
    )

    lines = list(table_lines(columns_of(batch), batch.schema, [batch], width=40))

    assert lines == [
        "key        n  long",
        "──────  ────  ──────────────────────────",
        "a          1  x y x y x y x y x y x y x…",
        "NULL      22  x y x y x y x y x y x y x…",
        "日本\\n  NULL  x y x y x y x y x y x y x…",
    ]


def columns_of(batch: pa.RecordBatch) -> list[Column]:
    return [Column(field.name, sql_type(field.type)) for field in batch.schema]


def written(name: str, *batches: pa.RecordBatch) -> bytes:
    chunks: Iterable[bytes] = FORMATS[name].write(columns_of(batches[0]), batches[0].schema, batches)
    return b"".join(chunks)


def test_parquet_has_dictionaries_where_values_repeat() -> None:
    numbers = range(1000)
    struct = pa.array([{"same": number % 7, "other": number} for number in numbers])
    texts = pa.array([[f"text {number}"] for number in numbers])
    batch = pa.record_batch(
        {
            "day": [str(number % 100) for number in numbers],
            "key": [f"key_{number}" for number in numbers],
            "value": struct,
            "texts": texts,
            "days": pa.array([[("day", number)] for number in numbers], pa.map_(pa.string(), pa.int64())),
        }
    )

    file = parquet.ParquetFile(io.BytesIO(written("parquet", batch)))

    group = file.metadata.row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    assert {column.path_in_schema: column.has_dictionary_page for column in columns} == {
        "day": True,
        "key": False,
        "value.same": True,
        "value.other": False,
        "texts.list.element": False,
        "days.key_value.key": True,
        "days.key_value.value": False,
    }
    assert file.read().to_batches()[0].equals(batch)


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (12_345_678, "12 MB"), (5 * 10**18, "5000 PB")],
)
def test_sizes_for_people(size_bytes: int, text: str) -> None:
    assert size_text(size_bytes) == text


def test_control_characters_in_names_do_not_reach_the_terminal() -> None:
    batch = pa.record_batch({"\x1b[2J": pa.array([1])})
    columns = [Column("\x1b[2J", "BIGINT")]

    assert list(table_lines(columns, batch.schema, [batch])) == ["\\x1b[2J", "───────", "      1"]
    assert list(value_lines(columns, [batch])) == ["\\x1b[2J = 1"]


@given(
    rows=st.lists(
        st.tuples(
            st.none() | st.text(),
            st.none() | st.integers(-(2**63), 2**63 - 1),
            st.none() | st.booleans(),
        ),
        max_size=12,
    )
)
def test_few_rows_have_the_text_of_many(rows: list[tuple[str | None, int | None, bool | None]]) -> None:
    columns = [Column("text", "VARCHAR"), Column("number", "BIGINT"), Column("flag", "BOOLEAN")]
    arrays = [
        pa.array([row[at] for row in rows], kind)
        for at, kind in enumerate((pa.string(), pa.int64(), pa.bool_()))
    ]
    few = pa.RecordBatch.from_arrays(arrays, names=[column.name for column in columns])
    many = pa.concat_batches([few] * 20)

    assert json_rows(columns, many)[: len(rows)] == json_rows(columns, few)
