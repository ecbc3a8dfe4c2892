"""State files as wholes: broken ones, batches of any size, and scans of a part of them.

The files are what real Flink wrote (`tests/data`); they are read from memory, so that thousands of changed ones can be.
"""

from __future__ import annotations

import random
import resource
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from readers import type_named
from readers.decode.decoder import Decoder, Page
from readers.decode.program import Code, Program
from readers.errors import CorruptDataError, ReaderError, ReaderFailureError, UnsupportedSerializerError
from readers.formats.entry import Entry, EntryLayout, StateKind
from readers.formats.full.source import FullSource
from readers.formats.heap import entries as heapentries
from readers.formats.heap.layout import HeapKeyGroupReader
from readers.formats.heap.source import HeapSource
from readers.formats.operatorstate import OperatorSource
from readers.formats.source import Selection, Source
from readers.formats.streams import KeyGroupBody
from readers.keygroups import operator_id_of
from readers.metadata import KeyGroupsStateHandle, OperatorStreamStateHandle
from readers.savepoint import Savepoint
from readers.serializers.base import OpaqueSerializer, Serializer
from readers.serializers.primitives import LongSerializer, StringSerializer, VoidNamespaceSerializer
from readers.states import State, StatePart
from readers.storage.filesystems import BufferStream, ReadCounter
from tests.support.examples import examples
from tests.support.notation import json_text, plain_values
from tests.support.paths import DATA
from tests.support.thorough import thorough

EVERYTHING = DATA / "flink/2.3.0/everything-hashmap-savepoints"
COMPRESSED = DATA / "corpus/1.20.3/allstates-hashmap-compressed/canonical"
ALL_TYPES = DATA / "corpus/1.20.3/alltypes-hashmap/native"
MAX_SECONDS = 30.0  # of processor time, that of other threads included
MAX_BYTES = 256 << 20
MAX_PARALLELISM = 128


@dataclass(frozen=True)
class File:
    """One state file: what `_metadata` says of it, and its bytes."""

    handle: KeyGroupsStateHandle | OperatorStreamStateHandle
    kind: type[FullSource | HeapSource | OperatorSource]
    data: bytes

    @property
    def header_bytes(self) -> int:
        """Where the entries begin."""
        if isinstance(self.handle, OperatorStreamStateHandle):
            return min(int(offset) for info in self.handle.state_meta_infos for offset in info.offsets)
        return min(int(offset) for offset in self.handle.offsets if offset > 0)

    def source(self, data: bytes) -> Source:
        """A reader of `data` in place of the file."""
        stream = BufferStream("test", data, ReadCounter())
        if isinstance(self.handle, OperatorStreamStateHandle):
            return OperatorSource.open(0, self.handle, stream)
        assert self.kind is not OperatorSource
        return self.kind.open(0, self.handle, stream, MAX_PARALLELISM)  # type: ignore[arg-type,call-arg]  # not OperatorSource


@lru_cache
def file_of(savepoint: Path, uid: str, subtask: int = 0) -> File:
    """The file of an operator's keyed state, or of its operator state if it has no other."""
    opened = Savepoint(savepoint)
    operator = next(operator for operator in opened.operators if operator.operator_id == operator_id_of(uid))
    parts = [part for state in operator.states for part in state.parts if part.source.subtask == subtask]
    keyed = [part for part in parts if not isinstance(part.source, OperatorSource)] or parts
    source: Any = keyed[0].source
    return File(source.handle, type(source), bytes(source.stream.data))


SMALL = {
    "canonical": (EVERYTHING / "canonical", "tumbling-window"),
    "heap": (EVERYTHING / "native", "tumbling-window"),
    "list and union": (EVERYTHING / "native", "events"),
    "broadcast": (EVERYTHING / "native", "broadcast"),
    "compressed": (COMPRESSED, "win-sliding-agg"),
    "compressed operator state": (COMPRESSED, "opstate"),
}
LARGER = SMALL | {
    "all kinds, canonical": (EVERYTHING / "canonical", "kinds"),
    "all kinds, heap": (EVERYTHING / "native", "kinds"),
    "all kinds, compressed": (COMPRESSED, "kinds-tuple-nested"),
    "all types": (EVERYTHING / "canonical", "types"),
    "all types, heap": (EVERYTHING / "native", "types"),
    "states that cannot be walked": (ALL_TYPES, "types"),
}


def states_of(source: Source) -> list[State]:
    """The states of one file."""
    return [
        State(
            operator_id="",
            name=name.name,
            kind=entry.kind,
            max_parallelism=MAX_PARALLELISM,
            parts=(StatePart(source=source, name=name, entry=entry),),
        )
        for name, entry in source.entries.items()
    ]


def read(file: File, data: bytes) -> tuple[int, list[ReaderError]]:
    """How many rows its states have, and the errors of those that have none."""
    rows, errors = 0, []
    try:
        states = states_of(file.source(data))
    except ReaderError as error:
        return 0, [error]
    for state in states:
        try:
            for batch in state.read():
                batch.validate(full=True)
                rows += batch.num_rows
        except ReaderError as error:
            errors.append(error)
    return rows, errors


def read_within_limits(file: File, data: bytes) -> list[ReaderError]:
    """The errors of a changed file; any other exception, half a minute or 256 MB are too much."""
    start, peak = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    _, errors = read(file, data)

    assert time.process_time() - start < MAX_SECONDS
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) * 1024 < MAX_BYTES
    return errors


def changed(file: File, chance: random.Random) -> bytes:
    """The file with a few bytes replaced, removed or added; more often among its entries, by values that mean something."""
    out = bytearray(file.data)
    first = file.header_bytes if chance.random() < 0.7 else 0
    for _ in range(chance.choice([1, 1, 1, 2, 4, 16])):
        place = chance.randrange(first, len(out))
        kind = chance.random()
        if kind < 0.5:
            out[place] = chance.choice([0, 1, 2, 4, 8, 0x2C, 0x7F, 0x80, 0xFF, chance.randrange(256)])
        elif kind < 0.7:
            width = chance.choice([2, 4, 8])
            out[place : place + width] = chance.choice([b"\xff", b"\x7f", b"\0"]) * width
        elif kind < 0.85:
            del out[place : place + chance.randrange(1, 9)]
        else:
            out[place:place] = chance.randbytes(chance.randrange(1, 9))
    return bytes(out)


def seeded(name: str) -> random.Random:
    return random.Random(name)


@pytest.mark.parametrize("name", LARGER)
def test_the_unchanged_file_has_rows(name):
    file = file_of(*LARGER[name])

    rows, errors = read(file, file.data)

    assert rows
    assert all(isinstance(error, UnsupportedSerializerError) for error in errors)


@pytest.mark.parametrize("name", SMALL)
def test_a_prefix_of_a_file_is_rows_or_errors(name):
    file = file_of(*SMALL[name])

    for length in sorted(seeded(name).sample(range(len(file.data)), 60)):
        assert read_within_limits(file, file.data[:length])


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_every_prefix_of_a_file_is_rows_or_errors(name):
    file = file_of(*SMALL[name])

    for length in range(len(file.data)):
        assert read_within_limits(file, file.data[:length])


@pytest.mark.parametrize("name", thorough(LARGER, [*SMALL, "all kinds, canonical", "all kinds, heap"]))
def test_a_corrupt_file_is_rows_or_errors(name):
    file, chance = file_of(*LARGER[name]), seeded(name)

    for _ in range(examples(100)):
        read_within_limits(file, changed(file, chance))


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_ten_thousand_corrupt_files_are_rows_or_errors(name):
    file, chance = file_of(*SMALL[name]), seeded(name)

    for _ in range(examples(10_000) // len(SMALL) + 1):
        read_within_limits(file, changed(file, chance))


# ---- batches and parts ----------------------------------------------------------------------------------------


def table_rows(columns: dict[str, pa.Array]) -> list[str]:
    names = sorted(columns)
    values = zip(*(plain_values(columns[name]) for name in names), strict=True)
    return [json_text({name: repr(value) for name, value in zip(names, row, strict=True)}) for row in values]


def rows_of(state: State, columns: list[str] | None = None, selection: Selection | None = None) -> list[str]:
    return [
        row
        for batch in state.read(columns, selection)
        for row in table_rows({name: batch.column(name) for name in batch.schema.names})
    ]


def readable(name: str) -> list[State]:
    file = file_of(*LARGER[name])
    states = states_of(file.source(file.data))
    return [state for state in states if state.note == "" and _is_readable(state)]


def _is_readable(state: State) -> bool:
    try:
        return any(batch.num_rows for batch in state.read())
    except UnsupportedSerializerError:
        return False


READABLE: Callable[[str], list[State]] = lru_cache(readable)
FILES = st.sampled_from(sorted(LARGER))


@settings(max_examples=examples(40))
@given(name=FILES, entries=st.integers(1, 9), size=st.integers(1, 200), data=st.data())
def test_batches_of_any_size_have_the_same_rows(name, entries, size, data):
    (part,) = data.draw(st.sampled_from(READABLE(name))).parts
    layout = EntryLayout(part.source.columns(part.entry))

    def code(emit: Callable[[Program, EntryLayout, Entry], None]) -> Code:
        program = Program(layout.tree)
        emit(program, layout, part.entry)
        return program.finish()

    def decoded(**limits: Any) -> list[str]:
        is_open = part.source.frames_values and part.entry.is_open
        undescribed = code(part.source.emit_undescribed) if is_open else None
        decoder = Decoder(layout.tree, code(part.source.emit), undescribed=undescribed, **limits)
        return [
            row
            for page in part.source.pages(part.name, Selection())
            for batch in decoder.decode(page)
            for row in table_rows(dict(zip(layout.names, batch.arrays, strict=True)))
        ]

    assert decoded(batch_entries=entries, batch_bytes=size) == decoded()


@settings(max_examples=examples(40))
@given(name=FILES, groups=st.frozensets(st.integers(0, MAX_PARALLELISM - 1)), data=st.data())
def test_a_scan_of_some_key_groups_has_the_rows_of_these(name, groups, data):
    state = data.draw(st.sampled_from(READABLE(name)))
    groups |= frozenset(data.draw(st.lists(st.sampled_from(_key_groups(state)), max_size=3)))
    keyed = "_key_group" in state.schema.names
    everything = [
        batch.filter(pa.array([group in groups for group in batch.column("_key_group").to_pylist()]))
        if keyed
        else batch
        for batch in state.read()
    ]
    expected = [
        row
        for batch in everything
        for row in table_rows({name: batch.column(name) for name in batch.schema.names})
    ]

    assert rows_of(state, selection=Selection(key_groups=groups)) == expected


def _key_groups(state: State) -> list[int]:
    if "_key_group" not in state.schema.names:
        return [0]
    return [group for batch in state.read(["_key_group"]) for group in batch.column(0).to_pylist()]


@settings(max_examples=examples(60))
@given(name=FILES, data=st.data())
def test_a_scan_of_some_columns_has_these_of_all_rows(name, data):
    state = data.draw(st.sampled_from(READABLE(name)))
    chosen = data.draw(st.lists(st.sampled_from(state.schema.names), unique=True))
    batches = list(state.read())
    some = list(state.read(chosen))

    assert sum(batch.num_rows for batch in some) == sum(batch.num_rows for batch in batches)
    for column in chosen:
        parts = [
            [plain for batch in read for plain in plain_values(batch.column(column))]
            for read in (some, batches)
        ]
        assert list(map(repr, parts[0])) == list(map(repr, parts[1]))


@pytest.mark.parametrize("name", ["all kinds, heap", "all kinds, canonical", "all kinds, compressed"])
def test_every_key_lies_in_the_key_group_of_its_hash(name):
    for state in READABLE(name):
        for batch in state.read(["key", "_key_group"]):
            keys = state.key_groups_of(batch.column("key").to_pylist())
            assert keys is not None
            assert [group for group, _ in keys] == batch.column("_key_group").to_pylist()


# ---- native heap data that cannot be walked -------------------------------------------------------------------


def test_a_heap_state_with_an_unknown_serializer_does_not_hide_those_behind_it():
    file = file_of(ALL_TYPES, "types")
    states = {state.name: state for state in states_of(file.source(file.data))}
    assert states["v_kryo_generic"].status == "raw"

    rows = Counter(
        {name: len(rows_of(state)) for name, state in states.items() if not name.startswith("v_pojo")}
    )

    assert rows["v_kryo_generic"] == 1
    assert rows["v_string"] + rows["v_long"] > 0


def test_the_bytes_of_a_heap_value_with_an_unknown_serializer_are_those_of_the_canonical_one():
    values = set()
    for savepoint in (ALL_TYPES, ALL_TYPES.parent / "canonical"):
        for subtask in (0, 1):
            file = file_of(savepoint, "types", subtask)
            states = {state.name: state for state in states_of(file.source(file.data))}
            values.add(
                (
                    subtask,
                    *(
                        value
                        for batch in states["v_kryo_generic"].read(["value"])
                        for value in batch[0].to_pylist()
                    ),
                )
            )

    assert len(values) == 2


def test_heap_entries_that_cannot_be_told_apart_are_one_row_of_bytes():
    file = file_of(ALL_TYPES, "types")
    source = file.source(file.data)
    source = source.refine(lambda _, entry: entry.refined(_unknown))

    states = {state.name: state for state in states_of(source)}
    rows = {
        name: [row for batch in state.read() for row in batch.to_pylist()] for name, state in states.items()
    }

    assert {state.status for state in states.values()} == {"raw"}
    assert all("do not record where entries end" in state.note for state in states.values())
    data = bytes(file.data)
    for found in rows.values():
        assert all(row["key"] and row["key"] in data for row in found)
        assert len(found) == len({row["_key_group"] for row in found})


RAW_COLUMNS = [("key",), ("namespace",), ("map_key",), ("value",), ("map_key", "value")]


@pytest.mark.parametrize("raw", RAW_COLUMNS, ids="+".join)
@pytest.mark.parametrize("name", ["all kinds, heap", "all kinds, canonical", "broadcast"])
def test_columns_of_unknown_types_are_bytes_beside_those_of_known_types(name: str, raw: tuple[str, ...]):
    file = file_of(*LARGER[name])
    source = file.source(file.data).refine(lambda _, entry: _without_types(entry, raw))

    for state in states_of(source):
        for columns in (None, ["map_key", "value"]):
            # Where a state before it ends may be uncertain in a heap snapshot; any other failure is none.
            with suppress(UnsupportedSerializerError):
                for batch in state.read(columns):
                    batch.validate(full=True)
        assert all(
            pa.types.is_binary(state.schema.field(name).type) for name in raw if name in state.schema.names
        )


OTHER_TYPES = (
    "Long", "String", "BigDecimal", "LocalDate", "java.util.Date", "TimeWindow", "Map<String, Long>", "Row(a String, b Long)",
    "Either<Long, String>", "Enum(com.example.E: A, B)", "Pojo(com.example.P: x Integer, y String)",
)  # fmt: skip


@pytest.mark.parametrize("other", OTHER_TYPES)
def test_columns_that_are_read_as_other_types_are_values_or_typed_errors(other: str):
    serializer, failed = type_named(other), []
    for name in ("all kinds, heap", "all kinds, canonical", "broadcast"):
        file = file_of(*LARGER[name])
        for column in ("key", "namespace", "map_key", "value"):
            # Behind a value without a known end, states of a heap snapshot are searched for.
            for unknown in ((), ("value",)) if column != "value" else ((),):
                source = file.source(file.data).refine(partial(_with_type, column, serializer, unknown))
                for state in states_of(source):
                    try:
                        for batch in state.read():
                            batch.validate(full=True)
                    except ReaderError as error:
                        if isinstance(error, ReaderFailureError):
                            failed.append((name, column, state.name, error.message))
    assert failed == []


def _with_type(
    column: str, serializer: Serializer, unknown: tuple[str, ...], _name: object, entry: Entry
) -> Entry:
    if getattr(entry, column) is not None:
        entry = replace(entry, **{column: serializer})  # type: ignore[arg-type]  # serializers
    return _without_types(entry, unknown)


def _without_types(entry: Entry, columns: tuple[str, ...]) -> Entry:
    unknown = OpaqueSerializer("com.example.Unknown", "made so")
    return replace(entry, **{name: unknown for name in columns if getattr(entry, name) is not None})  # type: ignore[arg-type]  # serializers


def test_the_bytes_of_a_heap_map_with_unknown_keys_stand_in_the_column_of_its_keys():
    file = file_of(*LARGER["all kinds, heap"])
    source = file.source(file.data).refine(lambda _, entry: _without_types(entry, ("map_key",)))
    state = next(state for state in states_of(source) if state.kind is StateKind.MAP)

    found = [row for batch in state.read(["map_key", "value"]) for row in batch.to_pylist()]

    assert found
    assert {row["value"] for row in found} == {None}
    assert all(len(row["map_key"]) > 4 for row in found)


def test_a_failure_that_no_check_foresees_names_the_state_its_types_and_the_position():
    file = file_of(EVERYTHING / "native", "tumbling-window")
    state = states_of(file.source(file.data))[0]
    part = replace(state.parts[0], entry=replace(state.parts[0].entry, value=None))

    with pytest.raises(ReaderFailureError) as failure:
        list(part.read(["value"], state.schema, Selection()))

    assert failure.value.breadcrumbs == (state.name,)
    assert failure.value.path == state.parts[0].source.path
    assert failure.value.message.startswith(
        "expected AGGREGATING entries (key String, namespace TimeWindow), but"
    )


def test_a_heap_state_of_unknown_end_names_those_it_hides():
    """The state behind may begin at two places: the text in its value looks like the state itself."""
    key, namespace = LongSerializer(), VoidNamespaceSerializer()
    entry = Entry(kind=StateKind.VALUE, key=key, namespace=namespace, value=StringSerializer())
    unknown = replace(entry, value=OpaqueSerializer("com.example.Unknown", "made so"))
    walker = HeapKeyGroupReader([("unknown", unknown), ("text", entry)], lambda: (0, 1), {}, 1, "file")
    inner = bytes.fromhex("0001 00000001 00 0000000000000001 02 61")
    outer = bytes.fromhex("0001 00000001 00 0000000000000002") + bytes([1 + len(inner)]) + inner
    data = bytes.fromhex("0000 00000001 00 0000000000000003 0102030405") + outer
    buffer = np.frombuffer(data, dtype=np.uint8)
    body = KeyGroupBody(key_group=0, data=buffer, first=0, last=len(data), path="file")

    whole = walker.cut(body, 0)

    assert whole.undivided
    assert (whole.starts.tolist(), whole.ends.tolist()) == ([[6]], [[len(data)]])
    with pytest.raises(UnsupportedSerializerError, match="the states behind it cannot be read: text"):
        walker.cut(body, 1)


def _unknown(tree: Serializer) -> Serializer:
    return OpaqueSerializer("com.example.Unknown", "made so") if "String" in tree.type_name else tree


def test_a_key_group_with_a_state_twice_is_corrupt():
    file = file_of(EVERYTHING / "native", "tumbling-window")
    assert isinstance(file.handle, KeyGroupsStateHandle)
    start = int(file.handle.offsets[0]) + 4
    twice = bytearray(file.data)
    twice[start + 6 : start + 8] = twice[start : start + 2]

    _, errors = read(file, bytes(twice))

    assert any(isinstance(error, CorruptDataError) and "not yet seen" in error.message for error in errors)


def test_empty_pages_have_no_batches():
    tree = EntryLayout({"value": pa.int32()}).tree
    program = Program(tree)
    decoder = Decoder(tree, program.finish())
    empty: np.ndarray[Any, np.dtype[np.int64]] = np.empty((0, 1), dtype=np.int64)
    page = Page(
        data=np.empty(0, dtype=np.uint8),
        starts=empty,
        ends=empty,
        key_groups=np.empty(0, dtype=np.int32),
        subtask=0,
        path="test",
    )

    assert list(decoder.decode(page)) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["heap", "all kinds, heap", "all types, heap"])
@pytest.mark.parametrize("window_bytes", [1, 16, 100])
def test_heap_entries_that_are_cut_in_pieces_have_the_same_rows(name, window_bytes, monkeypatch):
    states = readable(name)
    wanted = [rows_of(state) for state in states]
    monkeypatch.setattr(heapentries, "WINDOW_BYTES", window_bytes)
    monkeypatch.setattr(heapentries, "CUT_ENTRIES", 3)

    found = [rows_of(state) for state in states]
    pages = [
        page for state in states for part in state.parts for page in part.source.pages(part.name, Selection())
    ]

    assert found == wanted
    assert any(page.first_index for page in pages) == (name == "all kinds, heap" and window_bytes == 16)


@pytest.mark.parametrize("name", thorough(["heap", "all kinds, heap", "all types, heap"], ["heap"]))
def test_a_corrupt_heap_file_that_is_cut_in_pieces_is_rows_or_errors(name, monkeypatch):
    monkeypatch.setattr(heapentries, "WINDOW_BYTES", 100)
    monkeypatch.setattr(heapentries, "CUT_ENTRIES", 3)
    file, chance = file_of(*LARGER[name]), seeded(name)

    for _ in range(30):
        read_within_limits(file, changed(file, chance))
