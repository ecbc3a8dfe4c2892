"""Serializer snapshots and state headers: of real Flink, built ones, with unknown serializers, broken ones."""

from __future__ import annotations

import contextlib
import gzip
import json
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from readers import metadata
from readers.cursor import Cursor
from readers.errors import (
    CorruptDataError,
    ReaderError,
    UnsupportedSerializerError,
    UnsupportedVersionError,
)
from readers.formats.streams import header_of
from readers.headers import KeyedHeader, OperatorHeader, read_keyed_header, read_operator_header
from readers.javaio import STREAM_HEADER, read_object
from readers.metadata import read_metadata
from readers.metainfo import BackendStateType, StateMetaInfo
from readers.serializers.base import OpaqueSerializer, Serializer
from readers.serializers.containers import ListSerializer, MapSerializer, NullableSerializer
from readers.serializers.kryo.serializer import KryoSerializer
from readers.serializers.pojo import PojoSerializer
from readers.serializers.primitives import (
    IntSerializer,
    LongSerializer,
    StringSerializer,
    VoidNamespaceSerializer,
)
from readers.snapshots.java import serializer_of
from readers.snapshots.legacy import config_snapshot_body
from readers.snapshots.reading import ADAPTER_VERSION, read_block, read_versioned
from tests.support.paths import CORPUS, DATA
from tests.support.snapshots import needs_corpus


def vectors(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(gzip.decompress((DATA / "vectors" / name).read_bytes()))[
        "vectors"
    ]
    return found


def params(found: list[dict[str, Any]], key: str) -> list[Any]:
    return [
        pytest.param(bytes.fromhex(vector[key]), id=f"{vector['flink']} {vector['type']}") for vector in found
    ]


VECTORS = [vector for vector in vectors("type-vectors.json.gz") if "snapshot_hex" in vector]
LEGACY = vectors("legacy-type-vectors.json.gz")
HEADERS = sorted((DATA / "headers").iterdir())

# Its padding is in the Java object alone, which the vector does not have.
WITHOUT_JAVA_OBJECT = ("1.6.4", "Nullable<Long>")


def opaque_parts(serializer: Serializer) -> list[str]:
    own = [serializer.java_class] if isinstance(serializer, OpaqueSerializer) else []
    return own + [part for _, child in serializer.children for part in opaque_parts(child)]


def legacy(flink: str, type_name: str) -> bytes:
    vector = next(v for v in LEGACY if (v["flink"], v["type"]) == (flink, type_name))
    return bytes.fromhex(vector["proxied_snapshot_hex"])


# ---- snapshots ----


@pytest.mark.parametrize("data", params(VECTORS, "snapshot_hex"))
def test_a_snapshot_is_read_to_its_last_byte(data: bytes) -> None:
    cursor = Cursor(data)

    serializer = read_versioned(cursor)

    assert cursor.remaining == 0
    assert not opaque_parts(serializer)


@pytest.mark.parametrize(
    "data",
    params([v for v in LEGACY if (v["flink"], v["type"]) != WITHOUT_JAVA_OBJECT], "proxied_snapshot_hex"),
)
def test_a_legacy_snapshot_is_read_to_its_last_byte(data: bytes) -> None:
    cursor = Cursor(data)

    serializer = read_block(cursor)

    assert cursor.remaining == 0
    assert not opaque_parts(serializer)


@pytest.mark.parametrize("type_name", sorted({v["type"] for v in LEGACY} - {"Kryo Gk", "Nullable<Long>"}))
def test_a_type_is_the_same_in_all_versions(type_name: str) -> None:
    newest = read_block(Cursor(legacy("1.8.3", type_name)))

    assert read_block(Cursor(legacy("1.6.4", type_name))) == newest
    assert read_block(Cursor(legacy("1.7.2", type_name))) == newest


def test_the_padding_of_a_nullable_comes_from_the_java_object() -> None:
    assert read_block(Cursor(legacy("1.7.2", "Nullable<Long>"))) == NullableSerializer(LongSerializer(), 8)
    with pytest.raises(UnsupportedSerializerError, match="NullableSerializer"):
        read_block(Cursor(legacy("1.6.4", "Nullable<Long>")))


@pytest.mark.parametrize(
    "type_name", ["Enum", "Tuple2<String,Long>", "Row(Int,String)", "Nullable<Long>", "Pojo Pt", "Pojo Base"]
)
def test_a_java_object_says_the_same_as_the_snapshot_beside_it(type_name: str) -> None:
    data = legacy("1.7.2", type_name)
    stream = Cursor(data, position=data.index(STREAM_HEADER))

    assert serializer_of(stream) == read_block(Cursor(data))


@pytest.mark.parametrize("flink", ["1.6.4", "1.7.2"])
def test_a_legacy_kryo_snapshot_has_its_registrations(flink: str) -> None:
    kryo = read_block(Cursor(legacy(flink, "Kryo Gk")))

    assert isinstance(kryo, KryoSerializer)
    assert kryo.type_class == "Leg$Gk"
    assert kryo.settings.registrations[0].class_name == "Leg$Gk"


def test_names_of_subclasses_are_read_from_a_legacy_pojo() -> None:
    pojo = read_block(Cursor(legacy("1.6.4", "Pojo Base")))

    assert isinstance(pojo, PojoSerializer)
    assert [field.name for field in pojo.fields] == ["id"]
    assert [name for name, _ in pojo.registered] == ["Leg$SubReg"]


@pytest.mark.parametrize(
    "name",
    [
        "my.shaded.org.apache.flink.api.common.typeutils.base.MapSerializerConfigSnapshot",
        "org.apache.flink.api.java.typeutils.MapSerializerConfigSnapshot",
    ],
)
def test_shaded_and_moved_config_snapshots_are_found(name: str) -> None:
    own = config_snapshot_body("org.apache.flink.api.common.typeutils.base.MapSerializerConfigSnapshot")

    assert own is not None
    assert config_snapshot_body(name) is own


def test_another_class_of_the_same_simple_name_is_not_taken_for_flinks() -> None:
    assert config_snapshot_body("com.acme.MapSerializerConfigSnapshot") is None


def test_an_unknown_block_version_is_refused() -> None:
    with pytest.raises(UnsupportedVersionError, match="found 3"):
        read_block(Cursor(struct.pack(">i", 3) + bytes(100)))


# ---- headers that are built here ----

BASE = "org.apache.flink.api.common.typeutils.base."
LONG = BASE + "LongSerializer$LongSerializerSnapshot"
STRING = BASE + "StringSerializer$StringSerializerSnapshot"
VOID_NAMESPACE = "org.apache.flink.runtime.state.VoidNamespaceSerializer$VoidNamespaceSerializerSnapshot"
CUSTOM = "com.acme.MoneySerializer$MoneySerializerSnapshot"


def i4(*numbers: int) -> bytes:
    return struct.pack(f">{len(numbers)}i", *numbers)


def utf(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def versioned(name: str, body: bytes = b"", version: int = 3) -> bytes:
    return utf(name) + i4(version) + body


def nested(*snapshots: bytes) -> bytes:
    return i4(1333245, 1, len(snapshots)) + b"".join(snapshots)


def composite(name: str, *snapshots: bytes, outer: bytes = b"", version: int = 1) -> bytes:
    return versioned(name, i4(911108, version) + outer + nested(*snapshots))


def block(snapshot: bytes) -> bytes:
    return i4(2) + snapshot


def meta(name: str, kind: int, options: dict[str, str], serializers: dict[str, bytes]) -> bytes:
    return (
        utf(name)
        + i4(kind, len(options))
        + b"".join(utf(key) + utf(value) for key, value in options.items())
        + i4(len(serializers))
        + b"".join(utf(key) + block(snapshot) for key, snapshot in serializers.items())
    )


def keyed_state(name: str, value: bytes, state_type: str = "VALUE", value_first: bool = True) -> bytes:
    serializers = {"VALUE_SERIALIZER": value, "NAMESPACE_SERIALIZER": versioned(VOID_NAMESPACE)}
    if not value_first:
        serializers = dict(reversed(serializers.items()))
    return meta(name, 0, {"KEYED_STATE_TYPE": state_type}, serializers)


def keyed_header(*states: bytes, key: bytes | None = None) -> bytes:
    return i4(6) + b"\0" + block(key or versioned(STRING)) + struct.pack(">h", len(states)) + b"".join(states)


def operator_state(name: str, value: bytes) -> bytes:
    return meta(name, 1, {"OPERATOR_STATE_DISTRIBUTION_MODE": "UNION"}, {"VALUE_SERIALIZER": value})


def operator_header(*states: bytes, broadcast: tuple[bytes, ...] = (), compressed: bool = False) -> bytes:
    counts = struct.pack(">h", len(states)), struct.pack(">h", len(broadcast))
    return i4(6) + bytes([compressed]) + counts[0] + b"".join(states) + counts[1] + b"".join(broadcast)


def serializer_proxy(stream: bytes) -> bytes:
    return i4(1, len(stream)) + stream


def pairs(*entries: tuple[bytes, bytes]) -> bytes:
    offsets, buffer = [], b""
    for stream, snapshot in entries:
        proxy = serializer_proxy(stream)
        offsets += [len(buffer), len(buffer) + len(proxy)]
        buffer += proxy + snapshot
    return i4(len(entries), *offsets, len(buffer)) + buffer


def java_stream(type_name: str, marker: str) -> bytes:
    """Return the Java stream of a parameterless serializer, from a vector that holds it."""
    data = legacy("1.6.4", type_name)
    start = data.index(STREAM_HEADER)
    while marker.encode() not in data[start : start + 80]:
        start = data.index(STREAM_HEADER, start + 1)
    cursor = Cursor(data, position=start)
    read_object(cursor)
    return data[start : cursor.position]


STRING_STREAM = java_stream("List<String>", "base.StringSerializer")
INT_STREAM = java_stream("Map<String,Int>", "base.IntSerializer")
STRING_PAIR = (STRING_STREAM, legacy("1.6.4", "String"))
INT_PAIR = (INT_STREAM, legacy("1.6.4", "Int"))
UNKNOWN_PAIR = (INT_STREAM, i4(1) + utf("com.acme.Config") + i4(1) + b"anything")


def read_keyed(data: bytes, expected_end: int | None = None) -> KeyedHeader:
    cursor = Cursor(data)
    header = read_keyed_header(cursor, expected_end)
    assert cursor.position == header.end
    return header


def names(header: KeyedHeader) -> list[str]:
    return [state.name for state in header.states]


def value_of(state: StateMetaInfo) -> Any:
    return state.value_serializer


def test_a_keyed_header_names_its_states_in_order() -> None:
    data = keyed_header(
        keyed_state("b", versioned(LONG)),
        keyed_state("a", composite(BASE + "ListSerializerSnapshot", versioned(LONG)), "LIST"),
    )

    header = read_keyed(data + b"data")

    assert header.version == 6
    assert not header.compressed
    assert header.key_serializer == StringSerializer()
    assert names(header) == ["b", "a"]
    assert [state.keyed_state_type for state in header.states] == ["VALUE", "LIST"]
    assert value_of(header.states[1]) == ListSerializer(LongSerializer())
    assert header.states[0].namespace_serializer == VoidNamespaceSerializer()
    assert header.end == header.data_start == len(data)


def test_a_map_of_the_second_state_api_has_a_user_key() -> None:
    serializers = {
        "USER_KEY_SERIALIZER": versioned(STRING),
        "VALUE_SERIALIZER": versioned(LONG),
        "NAMESPACE_SERIALIZER": versioned(VOID_NAMESPACE),
    }

    header = read_keyed(keyed_header(meta("m", 4, {"KEYED_STATE_TYPE": "MAP"}, serializers)))

    assert header.states[0].kind is BackendStateType.KEY_VALUE_V2
    assert header.states[0].user_key_serializer == StringSerializer()
    assert value_of(header.states[0]) == LongSerializer()


def test_an_operator_header_tells_broadcast_from_list_states() -> None:
    broadcast = meta(
        "rules",
        2,
        {"OPERATOR_STATE_DISTRIBUTION_MODE": "BROADCAST"},
        {"KEY_SERIALIZER": versioned(STRING), "VALUE_SERIALIZER": versioned(LONG)},
    )
    data = operator_header(operator_state("o", versioned(LONG)), broadcast=(broadcast,), compressed=True)

    header = read_operator_header(Cursor(data))

    assert header.operator_states[0].distribution_mode == "UNION"
    assert header.broadcast_states[0].key_serializer == StringSerializer()
    assert (header.end, header.data_start) == (len(data), len(data) + 10)


@pytest.mark.parametrize("version", [1, 2])
def test_keyed_headers_of_1_2_hold_java_objects_alone(version: int) -> None:
    state = i4(1) + utf("v") + serializer_proxy(STRING_STREAM) + serializer_proxy(INT_STREAM)
    data = i4(version) + serializer_proxy(STRING_STREAM) + b"\0\1" + state

    header = read_keyed(data)

    assert header.key_serializer == StringSerializer()
    assert value_of(header.states[0]) == IntSerializer()
    assert header.states[0].namespace_serializer == StringSerializer()
    assert header.states[0].keyed_state_type == "VALUE"


def test_a_list_state_of_1_2_is_a_list_also_where_its_element_is_stored() -> None:
    state = i4(2) + utf("l") + serializer_proxy(STRING_STREAM) + serializer_proxy(INT_STREAM)

    header = read_keyed(i4(1) + serializer_proxy(STRING_STREAM) + b"\0\1" + state)

    assert value_of(header.states[0]) == ListSerializer(IntSerializer())


@pytest.mark.parametrize("version", [3, 4])
def test_keyed_headers_of_1_3_to_1_5_hold_pairs(version: int) -> None:
    compressed = b"\1" if version == 4 else b""
    state = i4(6) + utf("m") + pairs(STRING_PAIR, (INT_STREAM, legacy("1.6.4", "Map<String,Int>")))

    header = read_keyed(i4(version) + compressed + pairs(STRING_PAIR) + b"\0\1" + state)

    assert header.compressed == (version == 4)
    assert header.states[0].keyed_state_type == "MAP"
    assert value_of(header.states[0]) == MapSerializer(StringSerializer(), IntSerializer())


def test_a_keyed_header_of_1_6_holds_pairs_behind_the_keys() -> None:
    state = (
        utf("v")
        + i4(0, 1)
        + utf("KEYED_STATE_TYPE")
        + utf("VALUE")
        + i4(2)
        + utf("NAMESPACE_SERIALIZER")
        + utf("VALUE_SERIALIZER")
        + pairs(STRING_PAIR, INT_PAIR)
    )

    header = read_keyed(i4(5) + b"\0" + pairs(STRING_PAIR) + b"\0\1" + state)

    assert value_of(header.states[0]) == IntSerializer()


def test_a_pair_with_an_unknown_snapshot_is_read_from_its_java_object() -> None:
    state = i4(1) + utf("v") + pairs(STRING_PAIR, UNKNOWN_PAIR)

    header = read_keyed(i4(3) + pairs(STRING_PAIR) + b"\0\1" + state)

    assert value_of(header.states[0]) == IntSerializer()


def test_an_operator_header_of_1_2_has_java_objects_without_a_length() -> None:
    data = i4(1) + b"\0\2" + utf("a") + b"\0" + INT_STREAM + utf("b") + b"\1" + STRING_STREAM

    header = read_operator_header(Cursor(data))

    assert [state.distribution_mode for state in header.operator_states] == ["SPLIT_DISTRIBUTE", "UNION"]
    assert [value_of(state) for state in header.operator_states] == [IntSerializer(), StringSerializer()]
    assert header.broadcast_states == ()


@pytest.mark.parametrize("version", [2, 3])
def test_operator_headers_of_1_3_to_1_5_hold_pairs(version: int) -> None:
    data = i4(version) + b"\0\1" + utf("a") + b"\1" + pairs(INT_PAIR)
    if version == 3:
        data += b"\0\1" + utf("b") + b"\2" + pairs(STRING_PAIR, INT_PAIR)

    header = read_operator_header(Cursor(data))

    assert value_of(header.operator_states[0]) == IntSerializer()
    assert [state.key_serializer for state in header.broadcast_states] == [StringSerializer()] * (version - 2)


def test_pairs_that_overlap_are_corrupt() -> None:
    proxy = serializer_proxy(INT_STREAM)
    buffer = proxy + legacy("1.6.4", "Int")
    overlapping = i4(2, 0, len(proxy), 0, len(proxy), len(buffer)) + buffer

    with pytest.raises(CorruptDataError, match="ascending"):
        read_keyed(i4(3) + overlapping + b"\0\0")


@pytest.mark.parametrize("version", [0, 7, -1])
def test_unknown_header_versions_are_refused(version: int) -> None:
    with pytest.raises(UnsupportedVersionError, match=f"found {version}"):
        read_keyed_header(Cursor(i4(version) + bytes(100)))
    with pytest.raises(UnsupportedVersionError, match=f"found {version}"):
        read_operator_header(Cursor(i4(version) + bytes(100)))


# ---- unknown serializers ----

BODIES = {
    "empty": versioned(CUSTOM),
    "with the serializer's class": versioned(CUSTOM, utf("com.acme.MoneySerializer"), version=2),
    "composite": composite(CUSTOM, versioned(LONG), versioned(STRING)),
    "composite with an outer body": composite(CUSTOM, versioned(LONG), outer=utf("EUR") + b"\1"),
    "composite of 1.7": versioned(CUSTOM, nested(versioned(LONG)), version=1),
    "composite of unknown ones": composite(CUSTOM, versioned("com.acme.OtherSnapshot"), versioned(STRING)),
    "of its own": versioned(CUSTOM, utf("EUR") + bytes(range(256)), version=1),
    "with text like a header's": versioned(CUSTOM, utf("VALUE_SERIALIZER") + i4(0, 1), version=1),
    "with a snapshot inside": versioned(CUSTOM, b"\7" + versioned(LONG) + b"\7", version=1),
}
every_body = pytest.mark.parametrize("unknown", BODIES.values(), ids=BODIES)
end_is_known = pytest.mark.parametrize("is_end_known", [True, False], ids=["end known", "end unknown"])
TAIL = bytes(range(100))  # the data behind the header


def is_custom(serializer: object) -> bool:
    return isinstance(serializer, OpaqueSerializer) and serializer.java_class == CUSTOM


@every_body
@end_is_known
@pytest.mark.parametrize("value_first", [True, False])
@pytest.mark.parametrize("position", [0, 1])
def test_states_behind_an_unknown_serializer_are_found(
    unknown: bytes, is_end_known: bool, value_first: bool, position: int
) -> None:
    states = [keyed_state("x", versioned(LONG)), keyed_state("y", versioned(LONG))]
    states.insert(position, keyed_state("unknown", unknown, value_first=value_first))
    data = keyed_header(*states)

    header = read_keyed(data + TAIL, len(data) if is_end_known else None)

    assert header.end == len(data)
    assert sorted(names(header)) == ["unknown", "x", "y"]
    assert is_custom(value_of(header.states[position]))
    assert value_of(header.states[-1]) == LongSerializer()
    assert all(state.namespace_serializer == VoidNamespaceSerializer() for state in header.states)


@every_body
def test_an_unknown_serializer_at_the_very_end_is_stepped_over(unknown: bytes) -> None:
    data = keyed_header(keyed_state("x", versioned(LONG)), keyed_state("unknown", unknown, value_first=False))

    header = read_keyed(data + TAIL, len(data))

    assert header.end == len(data)
    assert is_custom(value_of(header.states[1]))


@every_body
@end_is_known
def test_an_unknown_key_leaves_the_states(unknown: bytes, is_end_known: bool) -> None:
    data = keyed_header(keyed_state("x", versioned(LONG)), key=unknown)

    header = read_keyed(data + TAIL, len(data) if is_end_known else None)

    assert is_custom(header.key_serializer)
    assert names(header) == ["x"]
    assert header.end == len(data)


@every_body
@end_is_known
def test_an_unknown_map_key_leaves_the_value_of_the_map(unknown: bytes, is_end_known: bool) -> None:
    state = keyed_state("m", composite(BASE + "MapSerializerSnapshot", unknown, versioned(LONG)), "MAP")
    data = keyed_header(state, keyed_state("x", versioned(LONG)))

    header = read_keyed(data + TAIL, len(data) if is_end_known else None)

    value = value_of(header.states[0])
    assert isinstance(value, MapSerializer)
    assert is_custom(value.key)
    assert value.value == LongSerializer()
    assert names(header) == ["m", "x"]


@every_body
def test_many_unknown_serializers_are_stepped_over(unknown: bytes) -> None:
    states = [keyed_state(f"s{index}", unknown, value_first=index % 2 == 0) for index in range(40)]
    data = keyed_header(*states, key=unknown)

    header = read_keyed(data + TAIL, len(data))

    assert names(header) == [f"s{index}" for index in range(40)]
    assert all(is_custom(value_of(state)) for state in header.states)


@every_body
@pytest.mark.parametrize("compressed", [False, True])
def test_unknown_serializers_of_operator_state_are_stepped_over(unknown: bytes, compressed: bool) -> None:
    data = operator_header(operator_state("a", unknown), operator_state("b", unknown), compressed=compressed)
    tail = b"\xff\6\0\0sNaPpY" if compressed else b""

    header = read_operator_header(Cursor(data + tail + TAIL), len(data + tail))

    assert header.end == len(data)
    assert [state.name for state in header.operator_states] == ["a", "b"]
    assert all(is_custom(value_of(state)) for state in header.operator_states)


def test_timers_behind_an_unknown_serializer_are_found() -> None:
    timer = composite(
        "org.apache.flink.streaming.api.operators.TimerSerializerSnapshot",
        versioned(STRING),
        versioned(VOID_NAMESPACE),
        version=2,
    )
    data = keyed_header(
        keyed_state("x", versioned(CUSTOM, b"\1\2\3"), value_first=False),
        meta("_timer_state/event_user-timers", 3, {}, {"VALUE_SERIALIZER": timer}),
    )

    header = read_keyed(data + TAIL, len(data))

    assert header.states[1].kind is BackendStateType.PRIORITY_QUEUE


def test_an_adapted_snapshot_of_an_unknown_class_is_read_from_its_java_object() -> None:
    adapted = (
        utf("com.acme.Config") + i4(ADAPTER_VERSION) + serializer_proxy(INT_STREAM) + i4(1) + b"anything"
    )
    data = keyed_header(keyed_state("x", adapted), keyed_state("y", versioned(LONG)))

    header = read_keyed(data + TAIL, len(data))

    assert [value_of(state) for state in header.states] == [IntSerializer(), LongSerializer()]


def test_a_handle_that_begins_at_a_later_key_group_does_not_mislead() -> None:
    data = keyed_header(keyed_state("x", versioned(CUSTOM)), keyed_state("y", versioned(LONG)))

    header = read_keyed(data + TAIL, len(data) + 50)

    assert names(header) == ["x", "y"]


def test_where_nothing_can_be_found_behind_it_the_class_is_named() -> None:
    data = keyed_header(keyed_state("x", versioned(CUSTOM, b"\1\2\3")))[:-10] + TAIL

    with pytest.raises(
        UnsupportedSerializerError, match=r"MoneySerializerSnapshot version 3; could not read"
    ):
        read_keyed(data, len(data))


# ---- headers of real Flink ----


def read_any(path: Path, data: bytes, expected_end: int | None = None) -> KeyedHeader | OperatorHeader:
    if path.stem.endswith("keyed"):
        return read_keyed_header(Cursor(data), expected_end)
    return read_operator_header(Cursor(data), expected_end)


@pytest.mark.parametrize("path", HEADERS, ids=lambda path: path.stem)
@end_is_known
def test_a_header_of_flink_ends_where_its_data_begin(path: Path, is_end_known: bool) -> None:
    data = path.read_bytes()

    header = read_any(path, data, len(data) if is_end_known else None)

    assert header.data_start == len(data)


def test_the_states_of_a_flink_job_have_their_types() -> None:
    header = read_keyed((DATA / "headers" / "1.20.3-allstates-keyed.bin").read_bytes())

    assert [
        (state.name, state.keyed_state_type, value_of(state).type_name) for state in header.states[:8]
    ] == [
        ("val", "VALUE", "Long"),
        ("cleared", "VALUE", "Long"),
        ("list", "LIST", "List<Long>"),
        ("replaced", "LIST", "List<Long>"),
        ("map", "MAP", "Map<String, Long>"),
        ("map2", "MAP", "Map<Long, Tuple2<String, Integer>>"),
        ("red", "REDUCING", "Long"),
        ("agg", "AGGREGATING", "Tuple2<Long, Long>"),
    ]
    assert [state.name for state in header.states[8:]] == [
        "_timer_state/processing_user-timers",
        "_timer_state/event_user-timers",
    ]


@pytest.mark.parametrize("path", HEADERS, ids=lambda path: path.stem)
def test_a_truncated_header_is_a_reader_error(path: Path) -> None:
    data = path.read_bytes()
    end = len(data) - 10 if "compressed" in path.stem else len(data)
    step = max(1, end // 150)

    for length in range(0, end, step):
        with pytest.raises(ReaderError):
            read_any(path, data[:length], len(data))


@given(data=st.data())
def test_damaged_headers_give_a_header_or_a_reader_error(data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(HEADERS))
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    start = time.perf_counter()

    with contextlib.suppress(ReaderError):
        read_any(path, bytes(content), data.draw(st.sampled_from([None, len(content)])))

    assert time.perf_counter() - start < 60


@given(data=st.data())
def test_damaged_snapshots_give_a_serializer_or_a_reader_error(data: st.DataObject) -> None:
    vector = data.draw(st.sampled_from(LEGACY))
    content = bytearray(bytes.fromhex(vector["proxied_snapshot_hex"]))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    del content[data.draw(st.integers(0, len(content))) :]

    with contextlib.suppress(ReaderError):
        read_block(Cursor(bytes(content)))


class CorpusCase:
    """One case of the corpus: its files by name, because the folders that `_metadata` names are elsewhere."""

    def __init__(self, folder: Path) -> None:
        self.files = {path.name: path for path in folder.rglob("*") if path.is_file()}

    def content(self, handle: metadata.StreamStateHandle) -> bytes:
        if isinstance(handle, metadata.ByteStreamStateHandle):
            return handle.data
        if isinstance(handle, metadata.RelativeFileStateHandle):
            return self.files[handle.relative_path].read_bytes()
        if isinstance(handle, metadata.SegmentFileStateHandle):
            content = self.files[handle.file_path.rsplit("/", 1)[-1]].read_bytes()
            return content[handle.start_pos : handle.start_pos + handle.state_size]
        assert isinstance(handle, metadata.FileStateHandle)
        return self.files[handle.file_path.rsplit("/", 1)[-1]].read_bytes()

    def keyed(self, handle: metadata.KeyedStateHandle) -> Iterator[tuple[bytes, int]]:
        """Yield the keyed state files, each with the position where its header must end."""
        if isinstance(handle, metadata.KeyGroupsStateHandle):
            content = self.content(handle.delegate)
            offsets = [int(offset) for offset in handle.offsets if offset > 0]
            yield content, min(offsets, default=len(content))
        elif isinstance(handle, metadata.IncrementalRemoteKeyedStateHandle):
            content = self.content(handle.meta_state_handle)
            yield content, len(content)
        elif isinstance(handle, metadata.ChangelogStateBackendHandle):
            for materialized in handle.materialized:
                yield from self.keyed(materialized)


@pytest.mark.slow
@needs_corpus
@pytest.mark.parametrize(
    "folder", sorted(CORPUS.glob("*/*/")), ids=lambda path: f"{path.parent.name} {path.name}"
)
def test_every_header_of_the_corpus_ends_where_its_data_begin(folder: Path) -> None:
    case = CorpusCase(folder)

    for file in folder.rglob("_metadata"):
        for operator in read_metadata(file.read_bytes()).operators:
            for subtask in operator.subtasks:
                if subtask.managed_keyed_state is not None:
                    for content, end in case.keyed(subtask.managed_keyed_state):
                        assert read_keyed_header(Cursor(content)).data_start == end
                        assert read_keyed_header(Cursor(content), end).data_start == end
                handle = subtask.managed_operator_state
                if handle is not None and not isinstance(
                    handle.delegate, metadata.EmptySegmentFileStateHandle
                ):
                    content = case.content(handle.delegate)
                    offsets = [int(offset) for state in handle.state_meta_infos for offset in state.offsets]
                    end = min(offsets, default=len(content))
                    assert read_operator_header(Cursor(content), end).data_start == end


def test_equal_headers_are_read_once_and_each_error_has_its_own_path():
    read_from: list[str | None] = []

    def read(cursor: Cursor, end: int | None) -> int:
        read_from.append(cursor.path)
        return cursor.i4() + (end or 0)

    content, short = (np.frombuffer(data, dtype=np.uint8) for data in (b"\0\0\0\x07", b"\0"))
    found = [header_of(content, path, end, read) for path, end in (("a", None), ("b", None), ("c", 4))]
    paths = []
    for path in ("a", "b"):
        with pytest.raises(CorruptDataError) as caught:
            header_of(short, path, None, read)
        paths.append(caught.value.path)

    assert found == [7, 7, 11]
    assert paths == ["a", "b"]
    assert len(read_from) == 4
