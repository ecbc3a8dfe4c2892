"""Timers in raw keyed state, built byte by byte as `InternalTimerServiceSerializationProxy` writes them."""

from __future__ import annotations

import struct
from dataclasses import replace

import numpy as np
import pytest

from readers.errors import ReaderError
from readers.formats.inflight import InFlightRecords
from readers.formats.opener import OpeningContext, opener_of
from readers.formats.source import Source
from readers.metadata import (
    ByteStreamStateHandle,
    FileStateHandle,
    KeyGroupRange,
    KeyGroupsStateHandle,
    OperatorState,
    StateRole,
    SubtaskState,
)
from readers.operators import Operator
from readers.stateinfo.refinement import Knowledge
from readers.states import State, StatePart
from readers.storage.location import SavepointLocation
from tests.support.encoders import string, utf
from tests.support.paths import DATA
from tests.support.refused import not_refused

SAVEPOINT = DATA / "flink/2.3.0/wordcount-rocksdb-savepoints/canonical"
BASE = "org.apache.flink.api.common.typeutils.base."
STRING = utf(f"{BASE}StringSerializer$StringSerializerSnapshot") + struct.pack(">i", 3)
VOID = utf(
    "org.apache.flink.runtime.state.VoidNamespaceSerializer$VoidNamespaceSerializerSnapshot"
) + struct.pack(">i", 3)


def timers(*entries: tuple[str, int]) -> bytes:
    """The timestamp is last, and its sign is not inverted."""
    parts = (string(key) + b"\0" + struct.pack(">q", timestamp) for key, timestamp in entries)
    return struct.pack(">i", len(entries)) + b"".join(parts)


def key_group(event: bytes, processing: bytes) -> bytes:
    head = bytes.fromhex("F1CD859F") + struct.pack(">ii", 2, 1)
    return head + utf("user-timers") + STRING + VOID + event + processing


def source_of(*groups: bytes | None) -> Source:
    handle = handle_of(*groups)
    context = OpeningContext(location=SavepointLocation(SAVEPOINT))
    return opener_of(StateRole.RAW_KEYED, handle).open(handle, context)


def handle_of(*groups: bytes | None) -> KeyGroupsStateHandle:
    """A raw keyed state handle whose key groups from 2 on hold `groups`; None for one that is not there."""
    offsets, data = [], b""
    for group in groups:
        offsets.append(-1 if group is None else len(data))
        data += group or b""
    return KeyGroupsStateHandle(
        key_group_range=KeyGroupRange(start=2, end=1 + len(groups)),
        offsets=np.array(offsets, dtype=np.int64),
        delegate=ByteStreamStateHandle(handle_name="test", data=data),
    )


def rows_of(source: Source) -> dict[str, list[tuple[str, int, int]]]:
    """By state: key, timestamp in milliseconds, key group."""
    rows = {}
    for name, entry in source.entries.items():
        state = State(
            operator_id="",
            name=name.name,
            kind=entry.kind,
            max_parallelism=128,
            parts=(StatePart(source=source, name=name, entry=entry),),
        )
        rows[name.name] = [
            (row["key"], row["timestamp"], row["_key_group"])
            for batch in state.read()
            for row in batch.set_column(
                batch.schema.get_field_index("timestamp"),
                "timestamp",
                batch.column("timestamp").cast("int64"),
            ).to_pylist()
        ]
    return rows


FULL = key_group(timers(("a", -1), ("b", 2**62)), timers(("c", 100_020)))


def test_timers_have_keys_and_timestamps_by_service_and_domain():
    source = source_of(FULL, None, key_group(timers(), timers(("d", 0))))

    assert rows_of(source) == {
        "_timer_state/event_user-timers": [("a", -1, 2), ("b", 2**62, 2)],
        "_timer_state/processing_user-timers": [("c", 100_020, 2), ("d", 0, 4)],
    }


def test_what_no_timer_service_wrote_is_shown_as_bytes():
    source = source_of(b"anything else", None, b"more")

    ((name, entry),) = source.entries.items()
    assert name.name == "raw keyed state"
    assert entry.is_raw("value")


def test_cut_off_timers_are_an_error():
    lengths = range(4, len(FULL))

    assert not_refused(lengths, lambda length: rows_of(source_of(FULL[:length])), ReaderError) == []


@pytest.mark.parametrize("length", range(4))
def test_timers_cut_off_within_their_magic_number_are_bytes(length):
    assert [name.name for name in source_of(FULL[:length]).entries] == ["raw keyed state"]


def test_bytes_behind_the_timers_are_an_error():
    with pytest.raises(ReaderError, match="1 bytes more"):
        rows_of(source_of(FULL + b"\0"))


def test_timers_of_a_subtask_whose_file_is_missing_are_an_error_not_less_rows():
    timers_of_one = handle_of(FULL)
    missing = replace(timers_of_one, delegate=FileStateHandle(file_path="file:/nowhere/timers", state_size=9))
    subtasks = tuple(
        SubtaskState(index=index, raw_keyed_state=handle)
        for index, handle in enumerate([timers_of_one, missing])
    )
    metadata = OperatorState(operator_id="0" * 32, parallelism=2, max_parallelism=128, subtasks=subtasks)
    location = SavepointLocation(SAVEPOINT)
    operator = Operator(metadata, location, InFlightRecords((metadata,), location, {}), Knowledge(kryo=2))

    states = operator.states

    assert {state.name for state in states} == set(rows_of(source_of(FULL)))
    for state in states:
        with pytest.raises(ReaderError, match="timers"):
            list(state.read())
