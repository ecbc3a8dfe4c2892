"""Records in flight: cut out of buffers, put together across channels, and shown as the type that is certain."""

from __future__ import annotations

import json
import struct
from collections import Counter
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from readers.errors import CorruptDataError, ReaderError
from readers.formats.channelstate import ChannelOpener
from readers.formats.entry import StateKind
from readers.formats.inflight import InFlightRecords
from readers.formats.opener import OpeningContext
from readers.formats.source import Selection, Source
from readers.metadata import (
    ByteStreamStateHandle,
    ChannelOffsets,
    InputChannelStateHandle,
    OperatorState,
    ResultSubpartitionStateHandle,
    SubtaskChannels,
    SubtaskState,
)
from readers.rows import state_schema
from readers.savepoint import Savepoint
from readers.serializers.primitives import LongSerializer
from readers.states import DECODED, PARTIAL, StatePart
from readers.storage.location import SavepointLocation
from tests.support.examples import examples
from tests.support.expected import Snapshot, snapshots_of
from tests.support.paths import DATA
from tests.support.unpacked import unpacked

COMPILED = settings(deadline=None, max_examples=examples(60))  # the first example may compile the machine
ANY_SAVEPOINT = DATA / "flink/1.20.3/wordcount-hashmap-savepoints/canonical"
SENDER, RECEIVER = "0" * 32, "1" * 32


def record(payload: bytes, timestamp: int | None = None) -> bytes:
    """A record as it is in a buffer: its length, the tag, maybe a timestamp, the value."""
    element = b"\1" if timestamp is None else b"\0" + struct.pack(">q", timestamp)
    return struct.pack(">i", len(element + payload)) + element + payload


def string(text: str) -> bytes:
    return bytes([len(text) + 1]) + text.encode("ascii")


def handle(kind: Any, first: int, second: int, *buffers: bytes) -> Any:
    """The state of one channel, in a file of its own."""
    data, offsets = b"\0\0\0\0", []
    for buffer in buffers:
        offsets.append(len(data))
        data += struct.pack(">i", len(buffer)) + buffer
    channel = ChannelOffsets(
        first=first, second=second, state_size=len(data), offsets=np.array(offsets, dtype=np.int64)
    )
    stream = ByteStreamStateHandle(handle_name="channels", data=data)
    return kind(subtask_index=0, channels=(channel,), state_size=len(data), delegate=stream)


def input_channel(gate: int, channel: int, *buffers: bytes) -> InputChannelStateHandle:
    made: InputChannelStateHandle = handle(InputChannelStateHandle, gate, channel, *buffers)
    return made


def result(partition: int, subpartition: int, *buffers: bytes) -> ResultSubpartitionStateHandle:
    made: ResultSubpartitionStateHandle = handle(
        ResultSubpartitionStateHandle, partition, subpartition, *buffers
    )
    return made


def in_flight(
    inputs: tuple[InputChannelStateHandle, ...] = (),
    results: tuple[ResultSubpartitionStateHandle, ...] = (),
    elements: Any = None,
) -> InFlightRecords:
    """One subtask that sends, and one that receives."""
    sender = SubtaskState(index=0, result_subpartitions=results)
    receiver = SubtaskState(index=0, input_channels=inputs)
    operators = tuple(
        OperatorState(operator_id=operator_id, parallelism=1, max_parallelism=128, subtasks=(subtask,))
        for operator_id, subtask in ((SENDER, sender), (RECEIVER, receiver))
    )
    return InFlightRecords(operators, SavepointLocation(ANY_SAVEPOINT), elements or {})


def source_of(operator_id: str, state: InFlightRecords) -> Source:
    context = OpeningContext(
        location=SavepointLocation(ANY_SAVEPOINT), operator_id=operator_id, in_flight=state
    )
    return ChannelOpener().open(SubtaskChannels(handles=()), context)


def values(state: InFlightRecords, operator_id: str) -> list[dict[str, Any]]:
    source = source_of(operator_id, state)
    found = []
    for name, entry in source.entries.items():
        part = StatePart(source=source, name=name, entry=entry)
        for batch in part.read(["value"], state_schema(entry), Selection()):
            found += [row["value"] for row in batch.to_pylist()]
    return found


def shown(state: InFlightRecords, operator_id: str) -> list[tuple[str, Any, Any]]:
    return [(row["kind"], row["value"], row["fragment"]) for row in values(state, operator_id)]


def test_records_are_cut_out_of_buffers_in_the_order_of_their_offsets():
    data = record(b"first") + record(b"second") + record(b"third")
    state = in_flight(inputs=(input_channel(0, 0, data[:7], data[7:9], data[9:]),))

    assert shown(state, RECEIVER) == [("record", text, None) for text in (b"first", b"second", b"third")]


def test_watermarks_and_timestamps_are_shown():
    watermark = struct.pack(">ibq", 9, 2, 5000)
    state = in_flight(inputs=(input_channel(0, 3, record(b"late", 1000) + watermark),))

    first, second = values(state, RECEIVER)

    assert (first["kind"], first["value"], first["timestamp"].second, first["channel"]) == (
        "record",
        b"late",
        1,
        3,
    )
    assert (second["kind"], second["value"], second["timestamp"].second) == ("watermark", None, 5)


@pytest.mark.parametrize("cut", [1, 3, 4, 5, 8])
def test_a_record_that_is_cut_in_two_is_shown_whole_where_it_arrives(cut):
    split = record(b"cut in two")
    state = in_flight(
        inputs=(input_channel(0, 0, record(b"before") + split[:cut]),),
        results=(result(0, 0, split[cut:] + record(b"behind")),),
    )

    assert shown(state, RECEIVER) == [("record", b"before", None), ("record", b"cut in two", None)]
    assert shown(state, SENDER) == [("record", b"behind", None)]


def test_pieces_whose_other_part_is_missing_are_fragments():
    split = record(b"cut in two")
    receiver = in_flight(inputs=(input_channel(0, 0, record(b"before") + split[:8]),))
    sender = in_flight(results=(result(0, 0, split[8:] + record(b"behind")),))

    assert shown(receiver, RECEIVER) == [("record", b"before", None), ("fragment", None, split[:8])]
    assert shown(sender, SENDER) == [("record", b"behind", None), ("fragment", None, split[8:])]


def test_a_gate_and_a_partition_are_states_of_their_own():
    state = in_flight(
        inputs=(
            input_channel(0, 0, record(b"a")),
            input_channel(1, 0, record(b"b")),
            input_channel(0, 1, record(b"c")),
        )
    )

    names = [name.name for name in source_of(RECEIVER, state).entries]

    assert names == ["input gate 0", "input gate 1"]


def test_records_that_can_only_be_strings_are_text_and_the_note_says_so():
    texts = [f"record {number}" for number in range(9)]
    state = in_flight(inputs=(input_channel(0, 0, b"".join(record(string(text)) for text in texts)),))

    assert shown(state, RECEIVER) == [("record", text, None) for text in texts]
    (entry,) = source_of(RECEIVER, state).entries.values()
    assert "exactly one String" in next(entry.problems()).reason


def test_a_few_records_are_not_taken_for_strings():
    state = in_flight(inputs=(input_channel(0, 0, record(string("a")) + record(string("b"))),))

    assert shown(state, RECEIVER) == [("record", b"\2a", None), ("record", b"\2b", None)]


def test_a_known_type_is_decoded():
    data = b"".join(record(struct.pack(">q", number)) for number in range(3))
    elements = {(RECEIVER, "input gate 0"): LongSerializer()}
    state = in_flight(inputs=(input_channel(0, 0, data),), elements=elements)

    assert shown(state, RECEIVER) == [("record", number, None) for number in range(3)]


def test_an_offset_outside_the_file_is_an_error():
    channel = input_channel(0, 0, record(b"a"))
    outside = ChannelOffsets(first=0, second=0, state_size=9, offsets=np.array([10_000], dtype=np.int64))
    broken = InputChannelStateHandle(
        subtask_index=0, channels=(outside,), state_size=9, delegate=channel.delegate
    )

    with pytest.raises(CorruptDataError):
        values(in_flight(inputs=(broken,)), RECEIVER)


@COMPILED
@given(st.lists(st.binary(max_size=40), max_size=4), st.lists(st.binary(max_size=40), max_size=4))
def test_random_buffers_are_values_or_errors(arrived, sent):
    state = in_flight(inputs=(input_channel(0, 0, *arrived),), results=(result(0, 0, *sent),))
    for operator_id in (SENDER, RECEIVER):
        with suppress(ReaderError):
            values(state, operator_id)


@COMPILED
@given(
    st.lists(st.binary(min_size=1, max_size=20), min_size=1, max_size=12),
    st.data(),
)
def test_records_survive_any_cut_into_channels_and_buffers(payloads, data):
    stream = b"".join(record(payload) for payload in payloads)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), min_size=1, max_size=4)))
    received, sent = stream[: cuts[0]], stream[cuts[0] :]
    state = in_flight(
        inputs=(input_channel(0, 0, received),),
        results=(result(0, 0, sent[:3], sent[3:]),),
    )

    found = shown(state, RECEIVER) + shown(state, SENDER)

    whole = [value for kind, value, _ in found if kind == "record"]
    assert whole == payloads


def check(snapshot: Snapshot) -> None:
    assert snapshot.expected is not None
    rows = [json.loads(line) for line in snapshot.expected.read_text().splitlines()]
    found: Counter[str] = Counter()
    for operator in Savepoint(snapshot.directory).operators:
        for state in operator.states:
            if state.kind is StateKind.CHANNEL:
                assert state.status == PARTIAL
                read = [row["value"] for batch in state.read() for row in batch.to_pylist()]
                assert {element["kind"] for element in read} == {"record"}
                found.update(element["value"] for element in read)

    assert found == Counter(row["value"] for row in rows if row["kind"] == "in-flight")


def test_records_in_flight_of_real_flink_are_all_there(tmp_path):
    check(unpacked("1.20.3-unaligned-hashmap-chk-1", tmp_path))


@pytest.mark.slow
def test_records_in_flight_in_the_corpus_are_all_there(corpus):
    for snapshot in snapshots_of(corpus):
        if snapshot.case.startswith("unaligned-") and snapshot.expected is not None:
            check(snapshot)


def test_records_in_flight_are_decoded_if_state_info_names_their_type(tmp_path):
    directory = unpacked("1.20.3-unaligned-hashmap-chk-1", tmp_path).directory
    stated = {"name": "input gate 0", "kind": "CHANNEL", "value": {"type": "StreamElement<String>"}}
    operator = {"id": "59fa767824610e31f4a11d6125e09bf4", "states": [stated]}
    (directory / "stateInfo").write_text(json.dumps({"version": 1, "operators": [operator]}))

    states = [state for operator in Savepoint(directory).operators for state in operator.states]

    assert {state.name: state.status for state in states if state.kind is StateKind.CHANNEL} == {
        "input gate 0": DECODED,
        "result partition 0": PARTIAL,
    }
