"""Lookups: what they find is what a scan finds of the same keys, whatever they leave unread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import cramjam
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from readers.errors import CorruptDataError, ReaderError
from readers.formats import snappy
from readers.formats.full import index, layout
from readers.formats.full import layout as full
from readers.formats.full.layout import LookupTarget, Search, in_rounds
from readers.formats.snappy import UnpackedWindows
from readers.formats.source import Selection
from readers.jsontext import json_text
from readers.states import State
from readers.storage import filesystems
from readers.storage.filesystems import BufferStream, ReadCounter, Windows
from tests.readers.formats.full.test_full import Framed, key_group
from tests.support.expected import Snapshot, snapshots_of
from tests.support.paths import CORPUS
from tests.support.snapshots import COPIED, PACKED, needs_corpus, states_of
from tests.support.thorough import thorough
from tests.support.unpacked import unpacked as unpacked_snapshot

UNSOURCED = [name for name in PACKED if "source" not in name]
FAST = {
    "1.20.3/everything-hashmap-savepoints/canonical",
    "1.20.3/wordcount-rocksdb-savepoints/canonical",
    "1.20.3-changelog-rocksdb-materialized-chk-3",
}
BEFORE, BEHIND = b"before", b"behind"
GROUP = b"\x07"
VOID = b"\0"

keys = st.binary(max_size=3).map(lambda content: bytes([len(content)]) + content)
values = st.one_of(st.binary(max_size=9), st.integers(50, 3000).map(bytes))
Table = dict[int, list[tuple[bytes, bytes, bytes]]]
tables: st.SearchStrategy[Table] = st.dictionaries(
    st.integers(0, 3),
    st.lists(st.tuples(keys, st.binary(max_size=3), values), min_size=1, max_size=12),
    min_size=1,
)
steps = st.integers(1, 200)


def rows_of(table: Table) -> list[Framed]:
    """The states in the order of the dictionary; of state 0 a key has one entry."""
    found = []
    for state, entries in table.items():
        several = [(key, tail, value) for key, tail, value in entries]
        if state == 0:
            several = [(key, VOID, value) for key, value in {key: value for key, _, value in entries}.items()]
        found += [(state, GROUP + key + tail, value) for key, tail, value in several]
    return found


def pieces_of(data: bytes, *, packed: bool, chunk_bytes: int = 100) -> Windows:
    """Of a key group that stands in a file, as it is or in small compressed chunks."""
    if packed:
        parts = [data[start : start + chunk_bytes] for start in range(0, len(data), chunk_bytes)]
        data = b"".join(bytes(cramjam.snappy.compress(part)) for part in parts)
    stream = BufferStream("file", BEFORE + data + BEHIND, ReadCounter())
    pieces = stream.windows(len(BEFORE), len(BEFORE) + len(data))
    return UnpackedWindows(pieces) if packed else pieces


def found_in(
    pieces: Windows, state: int, wanted: tuple[bytes, ...], ranges: full.StateRanges | None = None
) -> list[tuple[bytes, bytes]]:
    target = LookupTarget(state=state, width=1, keys=tuple(sorted(set(wanted))), is_single=state == 0)
    search = Search(pieces, target, ranges or full.StateRanges(), lambda _: None)
    found = []
    for _, (data, starts, ends) in in_rounds({0: search}):
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            key, value = (data[first:last].tobytes() for first, last in zip(start, end, strict=True))
            found.append((bytes([key[0] & 0x7F]) + key[1:], value))
    return found


def expected_of(rows: list[Framed], state: int, wanted: tuple[bytes, ...]) -> list[tuple[bytes, bytes]]:
    return [
        (key, value)
        for owner, key, value in rows
        if owner == state and (not wanted or key[1:].startswith(wanted))
    ]


def patched(patch: pytest.MonkeyPatch, step: int) -> None:
    """Key groups come in steps of some bytes, and what is larger is no more for memory."""
    patch.setattr(filesystems, "_STRETCH_BYTES", step)
    patch.setattr(snappy, "_STEP_BYTES", step)
    patch.setattr(snappy, "IN_MEMORY_BYTES", 5 * step)
    patch.setattr(layout, "PAGE_ENTRIES", 1 + step % 5)


@given(
    table=tables,
    state=st.integers(0, 3),
    more=st.lists(keys, max_size=3),
    packed=st.booleans(),
    step=steps,
    data=st.data(),
)
def test_a_lookup_finds_what_a_scan_finds_of_its_keys(
    table: Table, state: int, more: list[bytes], packed: bool, step: int, data: st.DataObject
) -> None:
    rows, ranges = rows_of(table), full.StateRanges()
    present = sorted({key[1 : 2 + key[1]] for _, key, _ in rows})
    wanted = (*data.draw(st.lists(st.sampled_from(present), max_size=5)), *more)
    with pytest.MonkeyPatch.context() as patch:
        patched(patch, step)

        found = [
            found_in(pieces_of(key_group(rows), packed=packed, chunk_bytes=step), state, wanted, ranges)
            for _ in range(2)
        ]

    assert found == [expected_of(rows, state, wanted)] * 2
    assert ranges.beginning(state) is not None


@given(
    table=st.dictionaries(
        st.integers(0, 1),
        st.lists(st.tuples(keys, st.binary(max_size=3), values), min_size=1, max_size=40),
        min_size=1,
    ),
    sorts=st.sampled_from(["sorted", "at first", "not"]),
    questions=st.lists(
        st.tuples(st.integers(0, 1), st.lists(st.integers(0, 99), max_size=3), st.lists(keys, max_size=1)),
        min_size=2,
        max_size=8,
    ),
    step=st.integers(20, 400),
    block=st.integers(1, 100),
    most_bytes=st.sampled_from([0, 300, 1 << 20]),
)
def test_what_lookups_leave_behind_changes_no_answer(
    table: Table,
    sorts: str,
    questions: list[tuple[int, list[int], list[bytes]]],
    step: int,
    block: int,
    most_bytes: int,
) -> None:
    for state, entries in table.items():
        ordered = len(entries) if sorts == "sorted" else len(entries) // 2 if sorts == "at first" else 0
        table[state] = sorted(entries[:ordered]) + entries[ordered:]
    rows, ranges = rows_of(table), full.StateRanges()
    group, present = key_group(rows), sorted({key[1 : 2 + key[1]] for _, key, _ in rows})
    with pytest.MonkeyPatch.context() as patch:
        patched(patch, step)
        patch.setattr(index, "_BLOCK_BYTES", block)
        patch.setattr(index, "_MOST_BYTES", most_bytes)

        for state, places, others in questions:
            wanted = (*(present[place % len(present)] for place in places), *others)
            known = found_in(pieces_of(group, packed=False), state, wanted, ranges)

            assert known == expected_of(rows, state, wanted)


@given(entries=st.lists(keys, min_size=1, max_size=9), is_single=st.booleans(), data=st.data())
def test_an_index_of_a_file_that_changes_is_given_up(
    entries: list[bytes], is_single: bool, data: st.DataObject
) -> None:
    group = key_group([(0, GROUP + key + VOID, b"value") for key in entries])
    place = data.draw(st.integers(2, len(group) - 3))
    changed = group[:place] + bytes([data.draw(st.integers(0, 255))]) + group[place + 1 :]
    found = index.StateIndex(2, 1, len(group), is_single=is_single)

    found.extend(np.frombuffer(changed, dtype=np.uint8), 2, len(group), is_whole=True)

    assert 2 <= found.end <= len(group)
    assert found.is_whole == (found.end == len(group))
    spans, behind = found.spans(entries)
    assert all(2 <= begin < end <= found.end for begin, end in spans)
    assert behind is None or behind == found.end


@given(table=tables, state=st.integers(0, 3), packed=st.booleans(), step=steps, data=st.data())
def test_in_a_truncated_key_group_a_lookup_finds_all_or_fails(
    table: Table, state: int, packed: bool, step: int, data: st.DataObject
) -> None:
    rows = rows_of(table)
    whole = key_group(rows)
    left = data.draw(st.integers(0, len(whole) - 1))
    wanted = tuple(sorted({key[1 : 2 + key[1]] for owner, key, _ in rows if owner == state})[:2])
    with pytest.MonkeyPatch.context() as patch:
        patched(patch, step)
        try:
            found = found_in(pieces_of(whole[:left], packed=packed, chunk_bytes=step), state, wanted)
        except CorruptDataError:
            return

    assert found == expected_of(rows, state, wanted)


@given(noise=st.binary(max_size=200), packed=st.booleans(), step=steps, wanted=st.lists(keys, max_size=2))
def test_random_bytes_end_in_entries_or_an_error(
    noise: bytes, packed: bool, step: int, wanted: list[bytes]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patched(patch, step)
        try:
            found = found_in(pieces_of(noise, packed=packed), 0, tuple(wanted))
        except CorruptDataError:
            return

    assert all(key[1:].startswith(tuple(wanted)) for key, _ in found) or not wanted


@given(noise=st.binary(max_size=200), step=steps)
def test_random_bytes_are_no_packed_key_group(noise: bytes, step: int) -> None:
    stream = BufferStream("file", noise, ReadCounter())
    with pytest.MonkeyPatch.context() as patch:
        patched(patch, step)
        with suppress(CorruptDataError):
            found_in(UnpackedWindows(stream.windows(0, len(noise))), 0, (b"\1a",))


@given(value=values, state=st.integers(0, 1), step=steps, noise=st.binary(max_size=50), packed=st.booleans())
def test_what_follows_the_wanted_state_is_not_looked_at(
    value: bytes, state: int, step: int, noise: bytes, packed: bool
) -> None:
    wanted = (state, GROUP + b"\1a" + VOID, value)
    other = (2, GROUP + b"\1a" + VOID, b"other")
    beginning = key_group([wanted, other])[: -len(key_group([other])) + 2]
    with pytest.MonkeyPatch.context() as patch:
        patched(patch, step)

        found = found_in(pieces_of(beginning + noise, packed=packed), state, (b"\1a",))

    assert found == [wanted[1:]]


@given(table=tables, step=steps, noise=st.binary(max_size=50), data=st.data())
def test_what_follows_the_last_of_single_entries_is_not_looked_at(
    table: Table, step: int, noise: bytes, data: st.DataObject
) -> None:
    rows = rows_of({0: [(b"\1a", VOID, b"value"), *table.pop(0, [])]} | table)
    own = [row for row in rows if row[0] == 0]
    last = data.draw(st.integers(0, len(own) - 1))
    wanted = [own[0][1][1:-1], own[last][1][1:-1]]
    left = len(key_group(rows[: last + 1])) - 2 * (last + 1 < len(own))
    with pytest.MonkeyPatch.context() as patch:
        patched(patch, step)

        found = found_in(pieces_of(key_group(rows)[:left] + noise, packed=False), 0, tuple(wanted))

    assert found == [row[1:] for row in (own[0], own[last])[: 1 + (last > 0)]]


def test_what_no_writer_puts_there_is_found_by_scans_alone() -> None:
    rows = [
        (1, GROUP + b"\1ax", b"1"),
        (0, GROUP + b"\1a\0", b"2"),
        (0, GROUP + b"\1a\0", b"3"),
        (1, GROUP + b"\1ay", b"4"),
    ]
    data = key_group(rows)

    again = found_in(pieces_of(data, packed=False), 1, (b"\1a",))
    twice = found_in(pieces_of(data, packed=False), 0, (b"\1a",))

    assert again == [(GROUP + b"\1ax", b"1")]
    assert twice == [(GROUP + b"\1a\0", b"2")]


def test_a_lookup_gives_back_and_counts_no_more_than_it_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(0, GROUP + bytes([1, number]) + VOID, bytes(90)) for number in range(200)]
    data = key_group(rows)
    counted: list[int] = []
    given_back: list[tuple[int, int]] = []
    monkeypatch.setattr(filesystems, "_STRETCH_BYTES", 1000)
    monkeypatch.setattr(
        BufferStream, "release", lambda _, start, length: given_back.append((start, start + length))
    )
    target = LookupTarget(state=0, width=1, keys=(bytes([1, 49]),), is_single=True)
    search = Search(pieces_of(data, packed=False), target, full.StateRanges(), counted.append)

    found = list(in_rounds({0: search}))

    assert len(found) == 1
    assert counted == [2 + 50 * (len(data) - 4) // 200]
    assert len(given_back) > 3
    assert [end for _, end in given_back[:-1]] == [start for start, _ in given_back[1:]]
    assert (given_back[0][0], given_back[-1][1]) == (len(BEFORE), len(BEFORE) + counted[0])


# --- real savepoints ---


def texts(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> dict[str, Counter[tuple[str, ...]]]:
    """The rows of each key, as text, because NaN does not equal itself; in no order, as a changelog has none."""
    table = pa.Table.from_batches(list(batches), schema=schema)
    columns = [json_text(column.combine_chunks()).to_pylist() for column in table.columns]
    found: dict[str, Counter[tuple[str, ...]]] = {}
    for row in zip(*columns, strict=True):
        found.setdefault(row[schema.names.index("key")], Counter())[row] += 1
    return found


def lookups_of(state: State) -> Iterator[dict[str, Any]]:
    """Keys to look up together, by their texts: the first ones, the last one, several; some that are not there."""
    known: dict[str, Any] = {}
    for batch in state.read(["key"]):
        column = batch.column("key")
        known.update(zip(json_text(column).to_pylist(), column.to_pylist(), strict=True))
    names = sorted(known)
    for chosen in (names[:1], names[1:2], names[-1:], names[::7], names[:40]):
        yield {name: known[name] for name in chosen}
    absent = {f'"{key}?"': f"{key}?" for key in known.values() if isinstance(key, str)}
    yield {name: key for name, key in absent.items() if name not in known}
    yield dict(list(absent.items())[:2]) | known if len(known) < 20 else known


def check(snapshot: Snapshot) -> Counter[str]:
    """How many rows were looked up, by the kind of source and state."""
    checked: Counter[str] = Counter()
    for state in states_of(snapshot):
        if "key" not in state.schema.names:
            continue
        try:
            everything = texts(state.read(), state.schema)
            lookups = list(lookups_of(state))
        except ReaderError:
            continue
        for wanted in lookups:
            found = state.key_groups_of(wanted.values())
            if not found:
                continue
            groups = frozenset(group for group, _ in found)
            selection = Selection(keys=found, key_groups=groups)
            rows = texts(state.read(selection=selection), state.schema)
            assert {name: rows.get(name) for name in wanted} == {
                name: everything.get(name) for name in wanted
            }, state.name
            kind = type(state.parts[0].source).__name__
            checked[f"{kind} {state.kind.name}"] += sum(rows[name].total() for name in wanted if name in rows)
    return checked


@pytest.mark.parametrize("snapshot", thorough(COPIED, FAST), ids=lambda snapshot: snapshot.name)
def test_lookups_find_the_rows_that_a_scan_finds(snapshot: Snapshot) -> None:
    assert check(snapshot).total() > 0


@pytest.mark.parametrize("archive", thorough(UNSOURCED, FAST))
def test_lookups_in_packed_snapshots_find_the_rows_that_a_scan_finds(archive: str, tmp_path: Path) -> None:
    assert check(unpacked_snapshot(archive, tmp_path)).total() > 0


@pytest.mark.slow
@needs_corpus
@pytest.mark.parametrize("snapshot", list(snapshots_of(CORPUS)), ids=lambda snapshot: snapshot.name)
def test_lookups_in_the_corpus_find_the_rows_that_a_scan_finds(snapshot: Snapshot) -> None:
    check(snapshot)
