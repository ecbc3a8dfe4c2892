"""Wrappers of operators and of CEP: those that real Flink wrote, and those that no vector holds."""

from __future__ import annotations

import contextlib
import datetime
import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readers.errors import ReaderError
from readers.serializers.cep import (
    DeweyNumberSerializer,
    EventIdSerializer,
    NFAStateSerializer,
    NodeIdSerializer,
    SharedBufferEdgeSerializer,
    SharedBufferNodeSerializer,
)
from readers.serializers.operators import JavaSerializer, StreamElementSerializer
from readers.serializers.primitives import IntSerializer
from tests.support.single_values import (
    EPOCH,
    decode,
    decode_columns,
    decode_one,
    serializer_of,
    vector,
    vectors_of,
)

NODE_ID = NodeIdSerializer(EventIdSerializer())
EDGE = SharedBufferEdgeSerializer(NODE_ID, DeweyNumberSerializer())
NFA_STATE = NFAStateSerializer(
    DeweyNumberSerializer(), NODE_ID, EventIdSerializer(), has_previous_timestamps=True
)


def ms(number: int) -> datetime.datetime:
    return EPOCH + datetime.timedelta(milliseconds=number)


EXPECTED: dict[str, list[Any]] = {
    "JavaSerializer(HashMap)": ['[{"key":"a","value":1}]'],
    "Lockable<String> (CEP)": [{"references": 2, "element": "e"}],
    "NodeId (CEP)": [{"event_id": {"id": 1, "timestamp": ms(2)}, "page": "p"}, None],
    "NFAState (CEP)": [],
    "TaggedUnion<Int,String>": [{"one": 1, "two": None}, {"one": None, "two": "b"}],
    "StreamElement<Int>": [
        {"kind": "record", "timestamp": ms(9), "value": 1, "details": None},
        {"kind": "record", "timestamp": None, "value": 1, "details": None},
        {"kind": "watermark", "timestamp": ms(7), "value": None, "details": None},
    ],
    "IntervalJoin List<BufferEntry<Int>>": [[{"has_been_joined": False, "element": 5}]],
}


@pytest.mark.parametrize("flink", ["1.", "2."])
@pytest.mark.parametrize("name", EXPECTED)
def test_what_flink_wrote(name: str, flink: str) -> None:
    entry = vector(name, flink)
    serializer = serializer_of(entry)

    values = [decode_one(serializer, bytes.fromhex(value["hex"])) for value in entry["values"]]

    assert values == EXPECTED[name]


def test_every_vector_of_these_families_is_expected() -> None:
    assert {entry["type"] for entry in vectors_of("cep.", "streaming.", "JavaSerializer")} <= {
        *EXPECTED, "TimeWindow", "GlobalWindow", "Timer<String,VoidNamespace>",
    }  # fmt: skip


def test_what_travels_between_operators_beside_records() -> None:
    serializer = StreamElementSerializer(IntSerializer())
    nothing = dict.fromkeys(
        ("operator_id_low", "operator_id_high", "subtask", "status", "backlog", "subpartition")
    )

    marker, status, attributes, internal = decode(
        serializer,
        b"\x03" + struct.pack(">qqqi", 5, 6, 7, 8),
        b"\x04" + struct.pack(">i", -1),
        b"\x05\x01",
        b"\x06" + struct.pack(">iq", 3, 9),
    )

    details = nothing | {"operator_id_low": 6, "operator_id_high": 7, "subtask": 8}
    assert marker == {"kind": "latency_marker", "timestamp": ms(5), "value": None, "details": details}
    assert status["details"] == nothing | {"status": -1}
    assert attributes["details"] == nothing | {"backlog": True}
    assert internal["details"] == nothing | {"subpartition": 3}
    assert internal["timestamp"] == ms(9)


def test_the_state_of_an_automaton() -> None:
    event = struct.pack(">iq", 1, 2)
    node = b"\x01" + event + b"\x02p"
    version = struct.pack(">iii", 2, 1, 0)
    computation = b"\x02s" + node + version + struct.pack(">qq", 3, 4) + b"\x01" + event
    raw = struct.pack(">i", 1) + computation + struct.pack(">i", 0)

    value = decode_one(NFA_STATE, raw)

    node_id = {"event_id": {"id": 1, "timestamp": ms(2)}, "page": "p"}
    assert value["completed_matches"] == []
    assert value["partial_matches"] == [
        {"state": "s", "previous": node_id, "version": [1, 0], "start_timestamp": ms(3), "previous_timestamp": ms(4),
         "start_event": {"id": 1, "timestamp": ms(2)}}
    ]  # fmt: skip


def test_a_node_of_the_shared_buffer_counts_references_of_its_edges() -> None:
    raw = struct.pack(">ii", 1, 4) + b"\x00" + struct.pack(">ii", 1, 2)

    value = decode_one(SharedBufferNodeSerializer(EDGE), raw)

    assert value == [{"references": 4, "element": {"target": None, "version": [2]}}]


def test_java_objects_end_where_the_stream_ends() -> None:
    entry = vector("JavaSerializer(HashMap)", "1.")
    raw = bytes.fromhex(entry["values"][0]["hex"])
    serializer = StreamElementSerializer(JavaSerializer())

    value = decode_one(serializer, b"\x01" + raw)

    assert json.loads(value["value"]) == [{"key": "a", "value": 1}]


@given(raw=st.binary(max_size=40), which=st.integers(0, 3))
def test_broken_bytes_end_in_a_value_or_an_error(raw: bytes, which: int) -> None:
    serializers = [
        StreamElementSerializer(JavaSerializer()),
        NFA_STATE,
        SharedBufferNodeSerializer(EDGE),
        JavaSerializer(),
    ]

    with contextlib.suppress(ReaderError):
        decode_columns(serializers[which], raw)
