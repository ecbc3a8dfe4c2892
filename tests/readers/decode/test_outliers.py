"""Values that their columns cannot hold: NULL there, exact text beside it, and the neighbours unharmed."""

from __future__ import annotations

import re
import shutil
import struct
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from readers.decode import instructions as op
from readers.decode.columns import ColumnTree
from readers.decode.decoder import Page
from readers.decode.program import Program
from readers.formats.composite import composite_columns, emit_composite
from readers.formats.entry import Entry, EntryLayout, StateKind
from readers.formats.heap.layout import emit_heap, heap_columns
from readers.formats.source import Selection
from readers.rows import RowNumbers, entry_columns, rows, state_schema
from readers.savepoint import Savepoint
from readers.serializers.base import Serializer
from readers.serializers.containers import ListSerializer, MapSerializer
from readers.serializers.operators import TtlSerializer
from readers.serializers.primitives import (
    InstantSerializer,
    IntSerializer,
    LocalDateSerializer,
    LocalDateTimeSerializer,
    LongSerializer,
    SqlTimestampSerializer,
    StringSerializer,
    VoidNamespaceSerializer,
)
from readers.serializers.structs import TupleSerializer
from readers.serializers.table.logicaltypes import RowType, timestamp_type
from readers.serializers.table.rowdata import RowDataSerializer, TimestampDataSerializer
from tests.support import encoders
from tests.support.examples import examples
from tests.support.paths import DATA
from tests.support.single_values import decode_columns, outliers, serializer_of, vectors

FLINK = DATA / "flink"
NANOS = 1_000_000_000
I8 = st.integers(-(2**63) + 1, 2**63 - 1)
NANOS_OF_SECOND = st.integers(0, NANOS - 1)
_MOMENT = re.compile(r"([+-]?\d{4,})-(\d\d)-(\d\d)(?:T(\d\d):(\d\d):(\d\d)\.(\d+))?")


def days_of(year: int, month: int, day: int) -> int:
    """Return the days since the epoch; numpy counts them in the same year of another 400 years."""
    era, year_of_era = divmod(year, 400)
    first = np.datetime64(f"{2000 + year_of_era:04d}-{month:02d}-{day:02d}", "D").astype(np.int64)
    return int(first) + (era - 5) * 146_097


def nanos_of(text: str) -> int:
    """Return the nanoseconds since the epoch of ISO text."""
    found = _MOMENT.fullmatch(text)
    assert found is not None, text
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    seconds = ((days_of(year, month, day) * 24 + hour) * 60 + minute) * 60 + second
    return seconds * NANOS + int((found[7] or "").ljust(9, "0"))


def shown(serializer: Serializer, *values: bytes) -> list[int]:
    """Return each value in nanoseconds since the epoch, from the column or, for an outlier, from its text."""
    arrays = decode_numbers(serializer, *values)
    aside = {outlier.entry: outlier for outlier in outliers(serializer, *values)}
    assert {row for row, number in enumerate(arrays) if number is None} == set(aside)
    return [
        nanos_of(orjson.loads(aside[row].json)) if number is None else number
        for row, number in enumerate(arrays)
    ]


def decode_numbers(serializer: Serializer, *values: bytes) -> list[int | None]:
    kind = serializer.arrow()
    scale = 24 * 60 * 60 * NANOS if pa.types.is_date(kind) else {"us": 1000, "ns": 1}[kind.unit]
    wrapped = TupleSerializer("Tuple1", (serializer,))
    found = decode_as_integers(wrapped, *values)
    return [None if number is None else number * scale for number in found]


def decode_as_integers(serializer: Serializer, *values: bytes) -> list[int | None]:
    numbers = []
    for column in decode_columns(serializer, *values):
        field = column.field(0)
        width = pa.int32() if pa.types.is_date(field.type) else pa.int64()
        numbers += field.view(width).to_pylist()
    return numbers


# ---- the full range of each type ----


@given(st.lists(st.tuples(I8, NANOS_OF_SECOND), min_size=1))
def test_instants_of_any_year_are_exact(instants):
    values = [struct.pack(">qi", *instant) for instant in instants]

    assert shown(InstantSerializer(), *values) == [second * NANOS + nano for second, nano in instants]


@given(st.lists(st.tuples(I8, st.integers(0, 999_999)), min_size=1))
@example([(-(2**63) + 1, 0), (2**63 - 1, 999_999)])
def test_sql_timestamps_of_any_year_are_exact(timestamps):
    """The milliseconds of the second are also in the nanoseconds."""
    values = [struct.pack(">qi", millis, millis % 1000 * 1_000_000 + nano) for millis, nano in timestamps]

    assert shown(SqlTimestampSerializer(), *values) == [
        millis * 1_000_000 + nano for millis, nano in timestamps
    ]


DATES = st.tuples(st.integers(-999_999_999, 999_999_999), st.integers(1, 12), st.integers(1, 28))


@given(st.lists(DATES, min_size=1))
def test_local_dates_of_any_year_are_exact(dates):
    values = [struct.pack(">iBB", *date) for date in dates]

    assert shown(LocalDateSerializer(), *values) == [days_of(*date) * 86_400 * NANOS for date in dates]


@given(st.lists(st.tuples(DATES, st.integers(0, 86_400 * NANOS - 1)), min_size=1))
def test_local_date_times_of_any_year_are_exact(times):
    values = [struct.pack(">iBB", *date) + encoders.local_time(nanos) for date, nanos in times]

    expected = [days_of(*date) * 86_400 * NANOS + nanos for date, nanos in times]
    assert shown(LocalDateTimeSerializer(), *values) == expected


@pytest.mark.parametrize("nanos", [-(2**63) - 1, -(2**63), 2**63 - 2, 2**63 - 1, 2**63, 2**63 + 1])
def test_what_is_a_nanosecond_too_many_does_not_wrap(nanos: int):
    """The greatest int64 is an outlier, too: as a time it is DuckDB's infinity."""
    second, rest = divmod(nanos, NANOS)
    day, of_day = divmod(nanos, 86_400 * NANOS)
    date = (2262, 4, 11) if nanos > 0 else (1677, 9, 21)
    assert days_of(*date) == day

    instant = shown(InstantSerializer(), struct.pack(">qi", second, rest))
    timestamp = shown(SqlTimestampSerializer(), struct.pack(">qi", second * 1000 + rest // 1_000_000, rest))
    local = shown(LocalDateTimeSerializer(), struct.pack(">iBB", *date) + encoders.local_time(of_day))

    assert [instant, timestamp, local] == [[nanos]] * 3
    fits = outliers(InstantSerializer(), struct.pack(">qi", second, rest)) == []
    assert fits == (nanos == 2**63 - 2)


@pytest.mark.parametrize("precision", [6, 9])
@given(times=st.lists(st.tuples(I8, st.integers(0, 999_999)), min_size=1))
def test_sql_times_of_any_year_are_exact_to_their_precision(precision, times):
    unit = 10 ** (9 - precision)
    values = [struct.pack(">qi", *time) for time in times]

    expected = [(millis * 1_000_000 + nano) // unit * unit for millis, nano in times]
    assert shown(TimestampDataSerializer(precision), *values) == expected


@pytest.mark.parametrize("precision", [6, 9])
@given(millis=I8, nano=st.integers(0, 999_999))
def test_times_in_binary_rows_are_exact_to_their_precision(precision, millis, nano):
    row = RowDataSerializer(RowType((("at", timestamp_type("TIMESTAMP", precision)),)))
    raw = bytes(8) + struct.pack("<II", nano, 16) + struct.pack("<q", millis)
    value = struct.pack(">i", len(raw)) + raw

    (found,) = decode_as_integers(row, value)
    aside = outliers(row, value)

    unit = 10 ** (9 - precision)
    expected = (millis * 1_000_000 + nano) // unit * unit
    if found is None:
        assert [outlier.path for outlier in aside] == [("value", "at")]
        assert nanos_of(orjson.loads(aside[0].json)) == expected
    else:
        assert aside == []
        assert found * unit == expected


# ---- which types have such values ----


def test_every_type_that_the_machine_may_stop_at_says_so():
    kinds = [serializer_of(entry) for entry in vectors() if "snapshot_hex" in entry]
    kinds += [kind.serializer for kind in (*encoders.LEAVES, *encoders.TIMES)]
    seen = set()
    for serializer in kinds:
        if any(not problem.sized for problem in serializer.problems()):
            continue
        tree = ColumnTree(pa.struct([("value", serializer.arrow())]))
        program = Program(tree)
        with program.field(0):
            serializer.emit(program)
        stops = bool(_STOPS & set(program.finish().instructions[:, 0].tolist()))
        assert serializer.has_outliers == (stops or _nullable_maps(serializer)), serializer.type_name
        seen.add(stops)

    assert seen == {False, True}


def _nullable_maps(serializer: Serializer) -> bool:
    """Return whether the type has a map whose keys may be null by its serializers; those of SQL maps always may."""
    if isinstance(serializer, MapSerializer) and serializer.key.is_nullable:
        return True
    if "MAP<" in serializer.type_name or "MULTISET<" in serializer.type_name:
        return serializer.has_outliers
    return any(_nullable_maps(child) for _, child in serializer.children)


_STOPS = {
    op.TIMESTAMP,
    op.INSTANT,
    op.LOCAL_DATE,
    op.LOCAL_DATE_TIME,
    op.TIMESTAMP_DATA,
    op.SLOT_TIMESTAMP,
}


# ---- rows ----

LAST = struct.pack(">qi", 253_402_300_799, 999_999_999)  # 9999-12-31
PLAIN = struct.pack(">qi", 1, 5)
TEXT = "9999-12-31T23:59:59.999999999"


def read(entry: Entry, *entries: tuple[bytes, bytes], heap: bool = False) -> list[dict[str, Any]]:
    """Return the rows of entries (key, value) in the layout of RocksDB or of the heap."""
    parts = [(b"\0" + key + value,) if heap else (b"\0" + key + b"\0", value) for key, value in entries]
    data = b"".join(part for segments in parts for part in segments)
    lengths = np.array([[len(part) for part in segments] for segments in parts], dtype=np.int64)
    ends = np.cumsum(lengths.reshape(-1)).reshape(lengths.shape)
    page = Page(
        data=np.frombuffer(data, dtype=np.uint8),
        starts=ends - lengths,
        ends=ends,
        key_groups=np.zeros(len(parts), dtype=np.int32),
        subtask=0,
        path="test",
    )
    schema = state_schema(entry)
    columns = heap_columns(entry) if heap else composite_columns(entry)
    layout = EntryLayout(columns, entry_columns(entry, frozenset(schema.names)))

    def emit(program: Program, to: EntryLayout) -> None:
        if heap:
            emit_heap(program, to, entry)
        else:
            emit_composite(program, to, entry, 128)

    batches = [
        rows(batch, layout.names, entry, schema, RowNumbers()) for batch in layout.decoder(emit).decode(page)
    ]
    for batch in batches:
        batch.validate(full=True)
    return [
        {name: value for name, value in row.items() if name not in ("namespace", "_key_group", "_subtask")}
        for batch in batches
        for row in batch.to_pylist()
    ]


def keyed(kind: StateKind, value: Serializer, key: Serializer, map_key: Serializer | None = None) -> Entry:
    return Entry(kind=kind, key=key, namespace=VoidNamespaceSerializer(), map_key=map_key, value=value)


def test_one_field_out_of_range_leaves_its_record_and_its_neighbours_as_they_are():
    record = TupleSerializer("Tuple3", (IntSerializer(), InstantSerializer(), StringSerializer()))
    values = [struct.pack(">i", number) + at + b"\2x" for number, at in ((1, PLAIN), (2, LAST), (3, PLAIN))]
    entry = keyed(StateKind.VALUE, record, IntSerializer())

    found = read(entry, *((struct.pack(">i", number), value) for number, value in enumerate(values)))

    assert [(row["key"], row["value"]["f0"], row["value"]["f2"]) for row in found] == [
        (0, 1, "x"),
        (1, 2, "x"),
        (2, 3, "x"),
    ]
    assert [row["value"]["f1"] is None for row in found] == [False, True, False]
    assert [row["_out_of_range"] for row in found] == [None, f'{{"value.f1":"{TEXT}"}}', None]


@pytest.mark.parametrize("heap", [False, True])
def test_elements_of_a_list_state_are_told_apart(heap):
    element = TtlSerializer(ListSerializer(InstantSerializer()))
    moments = [struct.pack(">q", 7) + struct.pack(">i", len(part)) + b"".join(part)
               for part in ([PLAIN], [PLAIN, LAST], [], [LAST])]  # fmt: skip
    value = struct.pack(">i", 4) + b"".join(moments) if heap else b",".join(moments)
    entry = keyed(StateKind.LIST, element, InstantSerializer())

    found = read(entry, (PLAIN, value), (LAST, value), heap=heap)

    key = f'"key":"{TEXT}"'
    assert [row["list_index"] for row in found] == [0, 1, 2, 3] * 2
    assert [row["key"] is None for row in found] == [False] * 4 + [True] * 4
    assert [[at is None for at in row["value"]] for row in found] == [[False], [False, True], [], [True]] * 2
    assert [row["_out_of_range"] for row in found] == [
        None,
        f'{{"value[1]":"{TEXT}"}}',
        None,
        f'{{"value[0]":"{TEXT}"}}',
        f"{{{key}}}",
        f'{{{key},"value[1]":"{TEXT}"}}',
        f"{{{key}}}",
        f'{{{key},"value[0]":"{TEXT}"}}',
    ]


def test_a_map_on_the_heap_has_null_keys_and_keys_out_of_range():
    entry = keyed(StateKind.MAP, InstantSerializer(), IntSerializer(), map_key=InstantSerializer())
    null = encoders.MIN_I8 + encoders.MIN_I4
    value = struct.pack(">i", 3) + null + b"\0" + PLAIN + LAST + b"\0" + LAST + PLAIN + b"\1"

    found = read(entry, (b"\0\0\0\7", value), heap=True)

    assert [(row["map_key"] is None, row["value"] is None) for row in found] == [
        (True, False),
        (True, True),
        (False, True),
    ]
    assert [row["_out_of_range"] for row in found] == [
        None,
        f'{{"map_key":"{TEXT}","value":"{TEXT}"}}',
        None,
    ]


@given(
    st.lists(
        st.dictionaries(st.none() | st.sampled_from("abc"), st.lists(st.sampled_from([PLAIN, LAST]))),
        min_size=1,
    )
)
@settings(max_examples=examples(60))
def test_maps_with_null_keys_are_null_and_their_text_has_every_entry(maps):
    kind = MapSerializer(StringSerializer(), ListSerializer(InstantSerializer()))
    values = [_map(found) for found in maps]
    entry = keyed(StateKind.VALUE, kind, LongSerializer())

    found = read(entry, *((struct.pack(">q", number), value) for number, value in enumerate(values)))

    for row, described in zip(found, maps, strict=True):
        plain = [
            (key, [None if at == LAST else 1_000_000_005 for at in ats]) for key, ats in described.items()
        ]
        aside = orjson.loads(row["_out_of_range"] or "{}")
        far = sum(ats.count(LAST) for ats in described.values())
        assert list(aside.values()).count(TEXT) == far
        if None in described:
            assert row["value"] is None
            assert [
                (pair["key"], [at and 1_000_000_005 for at in pair["value"]]) for pair in aside["value"]
            ] == plain
        else:
            assert [(key, [at and at.value for at in ats]) for key, ats in row["value"]] == plain
            assert len(aside) == far


def _map(described: dict[str | None, list[bytes]]) -> bytes:
    parts = [struct.pack(">i", len(described))]
    for key, moments in described.items():
        parts += [encoders.string(key), b"\0", struct.pack(">i", len(moments)), *moments]
    return b"".join(parts)


# ---- a savepoint ----

STORED = struct.pack(">iBB", 2024, 2, 29) + encoders.local_time((12 * 60 + 34) * 60 * NANOS + 56 * NANOS + 7)
FAR = struct.pack(">iBB", 9999, 12, 31) + STORED[6:]


def test_a_savepoint_with_a_time_of_the_year_9999_reads(tmp_path):
    folder = tmp_path / "savepoint"
    shutil.copytree(FLINK / "2.3.0" / "everything-hashmap-savepoints" / "canonical", folder)
    changed = 0
    for path in folder.iterdir():
        raw = path.read_bytes()
        if STORED in raw:
            path.write_bytes(raw.replace(STORED, FAR))
            changed += 1
    assert changed

    savepoint = Savepoint(folder)
    state = next(
        state
        for operator in savepoint.operators
        for state in operator.states
        if state.name == "v_local_date_time"
    )
    found = {row["key"]: row for batch in state.read() for row in batch.to_pylist()}
    only = [row for batch in state.read(["_out_of_range"], Selection()) for row in batch.to_pylist()]
    savepoint.close()

    text = '{"value":"9999-12-31T12:34:56.000000007"}'
    assert (found["k0"]["value"], found["k0"]["_out_of_range"]) == (None, text)
    assert found["k1"]["value"].year == 1900
    assert found["k1"]["_out_of_range"] is None
    assert sorted(row["_out_of_range"] or "" for row in only) == [""] * (len(found) - 1) + [text]
