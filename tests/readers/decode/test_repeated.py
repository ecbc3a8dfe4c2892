"""Bytes that entry after entry has in common are compared instead of read, and every entry is decoded as if they were read."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from readers.decode.columns import ColumnTree
from readers.decode.decoder import Decoder, Page
from readers.decode.program import Program
from readers.errors import CorruptDataError
from readers.savepoint import Savepoint
from readers.serializers.primitives import StringSerializer
from tests.support.paths import DATA

KEYS = st.sampled_from(
    ["", "a", "b", "key_1", "key_12345", "key_12346", "a long key of more than two words", "ä€𐍈"]
)


def decoded(parts: list[tuple[bytes, bytes]], *, repeated: bool, ambiguous: bool) -> list[object]:
    """The map keys of entries, or the error of the first that contradicts the layout; key and namespace have no column."""
    tree = ColumnTree(pa.struct([pa.field("map_key", pa.string())]))
    program = Program(tree)
    program.key_group(1)
    with program.repeated() if repeated else nullcontext(), program.without_column():
        if ambiguous:
            program.mark()
        program.string()
        if ambiguous:
            program.length_suffix()
            program.string()
            program.length_suffix()
        else:
            program.skip(1)
    with program.field(0, "map_key"):
        program.string()
    program.expect_end()
    data = np.frombuffer(b"".join(map(b"".join, parts)), dtype=np.uint8)
    ends = np.cumsum([len(scope) + len(key) for scope, key in parts], dtype=np.int64).reshape(-1, 1)
    starts = np.concatenate([np.zeros((1, 1), dtype=np.int64), ends[:-1]])
    groups = np.zeros(len(parts), dtype=np.int32)
    page = Page(data=data, starts=starts, ends=ends, key_groups=groups, subtask=0, path="")
    found: list[object] = []
    try:
        for batch in Decoder(tree, program.finish(), batch_entries=7).decode(page):
            found += batch.arrays[0].to_pylist()
    except CorruptDataError as error:
        found.append((error.message, error.position))
    return found


def text(value: str) -> bytes:
    return StringSerializer().encode(value) or b""


def scope(key: str, namespace: str, *, ambiguous: bool) -> bytes:
    """A key group, a key and its namespace."""
    if not ambiguous:
        return b"\7" + text(key) + b"\0"
    parts = [text(key), text(namespace)]
    return b"\7" + b"".join(part + bytes([len(part)]) for part in parts)


@given(
    entries=st.lists(st.tuples(KEYS, KEYS, st.integers(1, 4), st.text(max_size=9)), min_size=1, max_size=30),
    ambiguous=st.booleans(),
    damage=st.none() | st.tuples(st.integers(0), st.integers(0, 255), st.booleans()),
)
@settings(max_examples=60)
def test_map_keys_are_those_that_are_read_behind_every_key(
    entries: list[tuple[str, str, int, str]], ambiguous: bool, damage: tuple[int, int, bool] | None
) -> None:
    parts = [
        (scope(key, namespace, ambiguous=ambiguous), text(f"{map_key}{number}"))
        for key, namespace, times, map_key in entries
        for number in range(times)
    ]
    if damage is not None:
        place, byte, shortened = damage
        number = place % len(parts)
        raw = bytearray(parts[number][0])
        raw[place % len(raw)] = byte
        parts[number] = bytes(raw[: place % len(raw)] if shortened else raw), parts[number][1]

    found = decoded(parts, repeated=True, ambiguous=ambiguous)

    assert found == decoded(parts, repeated=False, ambiguous=ambiguous)
    assert damage is not None or len(found) == len(parts)


@pytest.mark.parametrize(
    ("savepoint", "maps"),
    [
        pytest.param("corpus/1.20.3/allstates-hashmap-compressed/canonical", 10, marks=pytest.mark.slow),
        ("flink/2.3.0/everything-rocksdb-savepoints/native", 1),
        ("flink/2.3.0/everything-rocksdb-savepoints/canonical", 1),
    ],
)
def test_maps_of_real_savepoints_are_the_same_without_their_keys(savepoint: str, maps: int) -> None:
    compared = 0
    for operator in Savepoint(DATA / savepoint).operators:
        for state in operator.states:
            if not {"key", "map_key"} <= set(state.schema.names):
                continue
            whole = pa.Table.from_batches(state.read(), state.schema)
            some = pa.Table.from_batches(list(state.read(["map_key", "value"])))
            assert some.equals(whole.select(some.schema.names))
            compared += len(some) > 0

    assert compared >= maps
