"""Key groups that were written with compression: those of any size are read as if they had been written without."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import cramjam
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from readers.cursor import Cursor
from readers.errors import CorruptDataError, StorageError
from readers.formats import snappy
from readers.formats.snappy import decompress, unpack
from readers.savepoint import Savepoint
from tests.support.examples import examples
from tests.support.paths import DATA
from tools.synthetic.onekey import write_one_key_heap_packed, write_one_key_packed
from tools.synthetic.savepoints import keyed_header, write_one_key

HEADER = b"before"
COMPRESSED = DATA / "corpus/1.20.3/allstates-hashmap-compressed/canonical"
LARGE = np.random.default_rng(7).integers(0, 4, 3 << 20, dtype=np.uint8).tobytes()


def packed(plain: bytes) -> bytes:
    """As `SnappyFramedOutputStream` writes it."""
    return bytes(cramjam.snappy.compress(plain))


def cursor_at(data: bytes) -> Cursor:
    return Cursor(np.frombuffer(HEADER + data, dtype=np.uint8), path="state-1", position=len(HEADER))


@pytest.fixture(autouse=True)
def least_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """What would be some megabytes in memory is some kilobytes."""
    monkeypatch.setattr(snappy, "IN_MEMORY_BYTES", 200_000)
    monkeypatch.setattr(snappy, "_STRETCH_BYTES", 50_000)


@settings(max_examples=examples(30))
@given(size=st.integers(0, len(LARGE)), offset=st.integers(0, 1000))
def test_all_plain_bytes_are_there(size: int, offset: int) -> None:
    plain = LARGE[offset : offset + size]

    found = unpack(cursor_at(packed(plain)), lambda _start, _end: None)

    assert found.data.tobytes() == plain == decompress(cursor_at(packed(plain))).tobytes()


def test_what_was_given_back_is_still_there() -> None:
    found = unpack(cursor_at(packed(LARGE)), lambda _start, _end: None)
    part = found.data[1_000_000:2_000_000]

    found.release(0, len(LARGE))

    assert part.tobytes() == LARGE[1_000_000:2_000_000]
    assert found.data.tobytes() == LARGE


def test_packed_bytes_are_given_back_in_order() -> None:
    data, given_back = packed(LARGE), []

    unpack(cursor_at(data), lambda start, end: given_back.append((start, end)))

    assert len(given_back) > 5
    assert given_back[0][0] >= len(HEADER)
    assert [end for _, end in given_back[:-1]] == [start for start, _ in given_back[1:]]
    assert given_back[-1][1] <= len(HEADER) + len(data)


@pytest.mark.parametrize("size", [1000, len(LARGE)])
def test_the_path_says_where_it_was_packed(size: int) -> None:
    found = unpack(cursor_at(packed(LARGE[:size])), lambda _start, _end: None)

    assert found.path == "state-1, unpacked from byte 6"


@settings(max_examples=examples(50))
@given(place=st.integers(0, 300_000), value=st.integers(0, 255))
def test_damaged_bytes_are_a_value_or_an_error(place: int, value: int) -> None:
    data = bytearray(packed(LARGE[:1_000_000]))
    data[place % len(data)] = value

    caught, size = None, 0
    try:
        size = len(unpack(cursor_at(bytes(data)), lambda _start, _end: None).data)
    except CorruptDataError as error:
        caught = error

    assert size <= 1_000_000 + (1 << 16)
    if caught is not None:
        assert caught.path == "state-1"
        assert len(HEADER) <= (caught.position or 0) <= len(HEADER) + len(data)


def test_no_room_is_an_error_of_the_storage(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path_factory.getbasetemp() / "not there"))

    with pytest.raises(StorageError, match="expected room for a key group among the temporary files"):
        unpack(cursor_at(packed(LARGE)), lambda _start, _end: None)


def rows_of(savepoint: Path) -> list[str]:
    """All rows of all states, sorted."""
    found = Savepoint(savepoint)
    states = [state for operator in found.operators for state in operator.states]
    rows = [f"{state.name}: {row}" for state in states for batch in state.read() for row in batch.to_pylist()]
    return sorted(rows)


def test_key_groups_in_files_have_the_rows_of_those_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    in_memory = rows_of(COMPRESSED)
    monkeypatch.setattr(snappy, "IN_MEMORY_BYTES", 0)

    assert rows_of(COMPRESSED) == in_memory
    assert len(in_memory) > 100


@pytest.mark.parametrize(
    "write", [write_one_key_packed, write_one_key_heap_packed], ids=["canonical", "heap"]
)
@pytest.mark.parametrize("entries", [1, 50_000])
def test_a_compressed_savepoint_has_the_rows_of_a_plain_one(
    write: Callable[[Path, int], int], entries: int, tmp_path: Path
) -> None:
    write(tmp_path / "packed", entries)
    write_one_key(tmp_path / "plain", entries)

    packed, plain = (
        [row for row in rows_of(tmp_path / name) if row.startswith("perDay")] for name in ("packed", "plain")
    )

    assert packed == plain
    assert len(packed) == entries


def test_an_error_says_where_in_what_was_packed_where(tmp_path: Path) -> None:
    savepoint = tmp_path / "savepoint"
    write_one_key_packed(savepoint, 1)
    file = savepoint / "subtask-0"
    begin = len(keyed_header(("perDay",)))
    plain = bytearray(decompress(Cursor(file.read_bytes(), position=begin)))
    plain[2] = 0x7F  # the length of the first key
    file.write_bytes(file.read_bytes()[:begin] + packed(bytes(plain)))

    with pytest.raises(CorruptDataError) as caught:
        rows_of(savepoint)

    assert str(caught.value.path).endswith(f"subtask-0, unpacked from byte {begin}")
    assert caught.value.position == 2


def test_an_error_of_a_heap_says_so_too(tmp_path: Path) -> None:
    savepoint = tmp_path / "savepoint"
    write_one_key_heap_packed(savepoint, 1)
    file = savepoint / "subtask-0"
    data = file.read_bytes()
    begin = len(keyed_header(("events", "perDay", "count"))) + 4
    first = packed(struct.pack(">HiHiHi", 0, 0, 1, 0, 2, 0))
    assert data[begin : begin + len(first)] == first
    other = packed(struct.pack(">HiHiHi", 7, 0, 1, 0, 2, 0))
    file.write_bytes(data[:begin] + other + data[begin + len(first) :])
    assert len(other) == len(first)

    with pytest.raises(CorruptDataError, match="expected one of the 3 states not yet seen") as caught:
        rows_of(savepoint)

    assert str(caught.value.path).endswith(f"subtask-0, unpacked from byte {begin}")
    assert caught.value.position == 0
