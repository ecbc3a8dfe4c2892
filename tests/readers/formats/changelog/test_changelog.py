"""Changelogs: cut, announced, replayed on bases of every backend; against real Flink, and against a model of each operation."""

from __future__ import annotations

import json
import struct
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import cramjam
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from readers.errors import CorruptDataError, ReaderError
from readers.formats.changelog.log import plain_stream, read_change_set
from readers.formats.changelog.source import ChangelogSource
from readers.formats.entry import StateKind
from readers.formats.opener import OpeningContext, opener_of
from readers.formats.source import Selection, StateName
from readers.keygroups import hash_string, key_group_of
from readers.metadata import (
    ChangelogStateBackendHandle,
    InMemoryChangelogStateHandle,
    KeyGroupRange,
    StateChange,
    StateRole,
)
from readers.rows import state_schema
from readers.savepoint import Savepoint
from readers.states import StatePart
from readers.storage.location import SavepointLocation
from tests.support.examples import examples
from tests.support.expected import Comparison, snapshots_of
from tests.support.paths import PROJECT
from tests.support.refused import not_refused
from tests.support.unpacked import unpacked

COMPILED = settings(deadline=None, max_examples=examples(60))  # the first example may compile the machine
ANY_SAVEPOINT = PROJECT / "tests/data/flink/1.20.3/wordcount-hashmap-savepoints/canonical"
BASE = "org.apache.flink.api.common.typeutils.base."
KEY_GROUPS = 128
ALL_KEY_GROUPS = KeyGroupRange(0, KEY_GROUPS - 1)

CLEAR, SET, SET_INTERNAL, ADD, MERGE_NS, ADD_ELEMENT, PUT, REMOVE, METADATA = range(9)


# ---- writing a log ----


def i4(number: int) -> bytes:
    return struct.pack(">i", number)


def i8(number: int) -> bytes:
    return struct.pack(">q", number)


def utf(text: str) -> bytes:
    return struct.pack(">H", len(text.encode())) + text.encode()


def string(text: str) -> bytes:
    return bytes([len(text) + 1]) + text.encode("ascii")


def versioned(name: str, body: bytes = b"", version: int = 3) -> bytes:
    return utf(name) + i4(version) + body


def basic(name: str) -> bytes:
    return versioned(f"{BASE}{name}Serializer${name}SerializerSnapshot")


def composite(name: str, *nested: bytes, version: int = 1) -> bytes:
    body = i4(911108) + i4(version) + i4(1333245) + i4(1) + i4(len(nested)) + b"".join(nested)
    return versioned(name, body)


STRING, LONG = basic("String"), basic("Long")
VOID = versioned("org.apache.flink.runtime.state.VoidNamespaceSerializer$VoidNamespaceSerializerSnapshot")
LIST = composite(f"{BASE}ListSerializerSnapshot", LONG)
MAP = composite(f"{BASE}MapSerializerSnapshot", STRING, LONG)
TTL = composite(
    "org.apache.flink.runtime.state.ttl.TtlStateFactory$TtlSerializerSnapshot", LONG, LONG, version=2
)
TTL_LIST = composite(f"{BASE}ListSerializerSnapshot", TTL)
TIMER = composite("org.apache.flink.streaming.api.operators.TimerSerializerSnapshot", STRING, VOID, version=2)


def announce(
    state_id: int, name: str, kind: str, value: bytes, namespace: bytes = VOID, ttl: bytes = b""
) -> bytes:
    """A METADATA change; `ttl` stands for the Java stream of a StateTtlConfig."""
    timers = kind == "TIMER"
    serializers = [("VALUE_SERIALIZER", value)]
    options = b"" if timers else utf("KEYED_STATE_TYPE") + utf(kind)
    if not timers:
        serializers.append(("NAMESPACE_SERIALIZER", namespace))
    info = utf(name) + i4(3 if timers else 0) + i4(0 if timers else 1) + options + i4(len(serializers))
    info += b"".join(utf(key) + i4(2) + snapshot for key, snapshot in serializers)
    tail = b"" if timers else (b"\1" + ttl if ttl else b"\0") + b"\0"
    return bytes([METADATA]) + i4(7) + info + tail + struct.pack(">h", state_id) + bytes([3 if timers else 0])


def change(
    operation: int, state_id: int, key: str, payload: bytes = b"", namespace: bytes = b"\0"
) -> StateChange:
    body = bytes([operation]) + struct.pack(">h", state_id) + string(key) + namespace + payload
    return StateChange(key_group_of(hash_string(key), KEY_GROUPS), body)


def timer_change(operation: int, state_id: int, key: str, payload: bytes) -> StateChange:
    body = bytes([operation]) + struct.pack(">h", state_id) + payload
    return StateChange(key_group_of(hash_string(key), KEY_GROUPS), body)


def timer(key: str, timestamp: int) -> bytes:
    return struct.pack(">Q", timestamp ^ 1 << 63) + string(key) + b"\0"


TIMERS = StateChange(-1, announce(99, "_timer_state/event_user-timers", "TIMER", TIMER))


def source_of(
    *changes: StateChange, key_groups: KeyGroupRange = ALL_KEY_GROUPS, known_key: bool = True
) -> ChangelogSource:
    """A handle without a base; its timers tell the key's serializer if `known_key`."""
    log = InMemoryChangelogStateHandle(
        key_group_range=key_groups,
        from_sequence_number=0,
        to_sequence_number=1,
        changes=((TIMERS,) if known_key else ()) + changes,
    )
    handle = ChangelogStateBackendHandle(key_group_range=key_groups, materialized=(), non_materialized=(log,))
    return opened(handle)


def opened(
    handle: ChangelogStateBackendHandle,
    *siblings: ChangelogStateBackendHandle,
    savepoint: Path = ANY_SAVEPOINT,
) -> ChangelogSource:
    context = OpeningContext(
        location=SavepointLocation(savepoint), max_parallelism=KEY_GROUPS, siblings=siblings
    )
    source = opener_of(StateRole.MANAGED_KEYED, handle).open(handle, context)
    assert isinstance(source, ChangelogSource)
    return source


def rows_of(
    source: ChangelogSource, state: str, *columns: str, selection: Selection | None = None
) -> list[tuple[object, ...]]:
    name, entry = next((name, entry) for name, entry in source.entries.items() if name.name == state)
    part = StatePart(source=source, name=name, entry=entry)
    batches = part.read(columns, state_schema(entry), selection or Selection())
    return sorted(
        (tuple(row[column] for column in columns) for batch in batches for row in batch.to_pylist()), key=repr
    )


# ---- each operation ----


def test_the_last_set_wins_and_clear_removes():
    source = source_of(
        StateChange(-1, announce(0, "v", "VALUE", LONG)),
        change(SET, 0, "a", i8(1)),
        change(SET, 0, "b", i8(2)),
        change(SET, 0, "a", i8(3)),
        change(CLEAR, 0, "b"),
    )

    assert rows_of(source, "v", "key", "namespace", "value") == [("a", None, 3)]


def test_lists_are_set_extended_and_appended_to():
    source = source_of(
        StateChange(-1, announce(0, "l", "LIST", LIST)),
        change(ADD_ELEMENT, 0, "a", i8(0x2C2C2C2C2C2C2C2C)),
        change(SET, 0, "a", i4(2) + i8(1) + i8(2)),
        change(ADD, 0, "a", i4(1) + i8(3)),
        change(ADD_ELEMENT, 0, "a", i8(4)),
        change(ADD_ELEMENT, 0, "b", i8(5)),
        change(SET_INTERNAL, 0, "b", i4(0)),
    )

    assert rows_of(source, "l", "key", "list_index", "value") == [
        ("a", 0, 1),
        ("a", 1, 2),
        ("a", 2, 3),
        ("a", 3, 4),
    ]


def test_maps_are_put_to_removed_from_and_cleared():
    source = source_of(
        StateChange(-1, announce(0, "m", "MAP", MAP)),
        change(PUT, 0, "a", string("x") + i8(1)),
        change(PUT, 0, "a", string("y") + i8(2)),
        change(ADD, 0, "a", i4(2) + string("z") + b"\0" + i8(3) + string("x") + b"\1"),
        change(REMOVE, 0, "a", string("y")),
        change(PUT, 0, "b", string("x") + i8(4)),
        change(CLEAR, 0, "b"),
    )

    assert rows_of(source, "m", "key", "map_key", "value") == [("a", "x", None), ("a", "z", 3)]


def test_merged_namespaces_of_a_list_move_to_the_target():
    one, two, three = i8(1), i8(2), i8(3)
    source = source_of(
        StateChange(-1, announce(0, "l", "LIST", LIST, namespace=LONG)),
        change(ADD_ELEMENT, 0, "a", i8(10), one),
        change(ADD_ELEMENT, 0, "a", i8(20), two),
        change(ADD_ELEMENT, 0, "a", i8(30), three),
        change(MERGE_NS, 0, "a", one + i4(2) + two + three, one),
    )

    assert rows_of(source, "l", "namespace", "list_index", "value") == [(1, 0, 10), (1, 1, 20), (1, 2, 30)]


def test_a_merge_that_needs_the_users_function_keeps_the_values_until_they_are_replaced():
    merged = (
        StateChange(-1, announce(0, "r", "REDUCING", LONG, namespace=LONG)),
        change(SET_INTERNAL, 0, "a", i8(10), i8(1)),
        change(SET_INTERNAL, 0, "a", i8(20), i8(2)),
        change(MERGE_NS, 0, "a", i8(1) + i4(1) + i8(2), i8(1)),
    )

    assert rows_of(source_of(*merged), "r", "namespace", "value") == [(1, 10), (1, 20)]
    replaced = source_of(*merged, change(SET_INTERNAL, 0, "a", i8(31), i8(1)))
    assert rows_of(replaced, "r", "namespace", "value") == [(1, 31)]


def test_timers_are_a_set():
    source = source_of(
        timer_change(ADD_ELEMENT, 99, "a", i4(2) + timer("a", 5) + timer("a", 7)),
        timer_change(ADD_ELEMENT, 99, "a", i4(1) + timer("a", 5)),
        timer_change(REMOVE, 99, "a", timer("a", 7)),
    )

    assert rows_of(source, "_timer_state/event_user-timers", "key", "timestamp") == [
        ("a", datetime.fromtimestamp(0.005, UTC).replace(tzinfo=None))
    ]


def test_ttl_values_carry_the_time_of_their_last_access():
    java = b"\xac\xed\x00\x05not parsed: the state id is in the last three bytes"
    source = source_of(
        StateChange(-1, announce(0, "t", "VALUE", TTL, ttl=java)),
        StateChange(-1, announce(1, "tl", "LIST", TTL_LIST, ttl=java)),
        change(SET, 0, "a", i8(1000) + i8(1)),
        change(ADD_ELEMENT, 1, "a", i8(2000) + i8(2)),
        change(ADD, 1, "a", i4(2) + i8(3000) + i8(3) + i8(4000) + i8(4)),
    )

    assert [row[0] for row in rows_of(source, "t", "value")] == [1]
    assert [row[0] for row in rows_of(source, "tl", "value")] == [2, 3, 4]
    assert (
        "ttl_timestamp"
        in state_schema(next(iter(entry for name, entry in source.entries.items() if name.name == "t"))).names
    )


def test_two_keys_and_namespaces_that_vary_are_told_apart():
    source = source_of(
        StateChange(-1, announce(0, "v", "VALUE", LONG, namespace=STRING)),
        change(SET, 0, "ab", i8(1), string("c")),
        change(SET, 0, "a", i8(2), string("bc")),
    )

    assert rows_of(source, "v", "key", "namespace", "value") == [("a", "bc", 2), ("ab", "c", 1)]


def test_a_new_announcement_changes_what_an_id_means():
    source = source_of(
        StateChange(-1, announce(0, "v", "VALUE", LONG)),
        change(SET, 0, "a", i8(1)),
        StateChange(-1, announce(0, "w", "VALUE", LONG)),
        StateChange(-1, announce(1, "v", "VALUE", LONG)),
        change(SET, 0, "a", i8(2)),
        change(SET, 1, "b", i8(3)),
    )

    assert rows_of(source, "v", "key", "value") == [("a", 1), ("b", 3)]
    assert rows_of(source, "w", "key", "value") == [("a", 2)]


def test_changes_of_other_key_groups_are_ignored():
    inside = key_group_of(hash_string("a"), KEY_GROUPS)
    source = source_of(
        StateChange(-1, announce(0, "v", "VALUE", LONG)),
        change(SET, 0, "a", i8(1)),
        change(SET, 0, "b", i8(2)),
        key_groups=KeyGroupRange(inside, inside),
    )

    assert rows_of(source, "v", "key") == [("a",)]


def test_a_selection_leaves_out_key_groups():
    source = source_of(
        StateChange(-1, announce(0, "v", "VALUE", LONG)), *(change(SET, 0, f"k{n}", i8(n)) for n in range(50))
    )
    group = key_group_of(hash_string("k7"), KEY_GROUPS)

    found = rows_of(source, "v", "key", selection=Selection(key_groups=frozenset({group})))

    assert ("k7",) in found
    assert all(key_group_of(hash_string(str(key)), KEY_GROUPS) == group for (key,) in found)


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["put", "put_all", "remove", "clear"]),
        st.sampled_from("abcd"),
        st.sampled_from("xyz"),
        st.integers(-5, 5),
    ),
    max_size=60,
)


@COMPILED
@given(OPERATIONS)
def test_a_map_replays_like_a_dict(operations):
    model: dict[str, dict[str, int]] = {}
    changes = [StateChange(-1, announce(0, "m", "MAP", MAP))]
    for operation, key, map_key, value in operations:
        if operation == "put":
            model.setdefault(key, {})[map_key] = value
            changes.append(change(PUT, 0, key, string(map_key) + i8(value)))
        elif operation == "put_all":
            model.setdefault(key, {}).update({map_key: value})
            changes.append(change(ADD, 0, key, i4(1) + string(map_key) + b"\0" + i8(value)))
        elif operation == "remove":
            model.get(key, {}).pop(map_key, None)
            changes.append(change(REMOVE, 0, key, string(map_key)))
        else:
            model.pop(key, None)
            changes.append(change(CLEAR, 0, key))

    expected = [(key, map_key, value) for key, entries in model.items() for map_key, value in entries.items()]
    assert rows_of(source_of(*changes), "m", "key", "map_key", "value") == sorted(expected, key=repr)


@COMPILED
@given(OPERATIONS)
def test_a_value_replays_like_the_last_of_its_changes(operations):
    model: dict[str, list[tuple[int, int]]] = {}
    changes = [StateChange(-1, announce(0, "r", "REDUCING", LONG, namespace=LONG))]
    for operation, key, _, value in operations:
        if operation in ("put", "put_all"):
            kept = [entry for entry in model.get(key, []) if entry[0] != value % 3]
            model[key] = [*kept, (value % 3, value)]
            changes.append(change(SET_INTERNAL, 0, key, i8(value), i8(value % 3)))
        elif operation == "clear":
            model[key] = [entry for entry in model.get(key, []) if entry[0] != value % 3]
            changes.append(change(CLEAR, 0, key, namespace=i8(value % 3)))
        else:
            merged = [(0, old) for _, old in sorted(model.get(key, []), key=lambda entry: entry[0])]
            model[key] = merged
            changes.append(change(MERGE_NS, 0, key, i8(0) + i4(2) + i8(1) + i8(2), i8(0)))

    expected = [(key, namespace, value) for key, entries in model.items() for namespace, value in entries]
    assert rows_of(source_of(*changes), "r", "key", "namespace", "value") == sorted(expected, key=repr)


@COMPILED
@given(OPERATIONS)
def test_a_list_replays_like_a_list(operations):
    model: dict[str, list[int]] = {}
    changes = [StateChange(-1, announce(0, "l", "LIST", LIST))]
    for operation, key, _, value in operations:
        if operation == "put":
            model.setdefault(key, []).append(value)
            changes.append(change(ADD_ELEMENT, 0, key, i8(value)))
        elif operation == "put_all":
            model.setdefault(key, []).extend([value, value + 1])
            changes.append(change(ADD, 0, key, i4(2) + i8(value) + i8(value + 1)))
        elif operation == "remove":
            model[key] = [value] * abs(value)
            changes.append(change(SET, 0, key, i4(abs(value)) + i8(value) * abs(value)))
        else:
            model.pop(key, None)
            changes.append(change(CLEAR, 0, key))

    expected = [(key, index, value) for key, values in model.items() for index, value in enumerate(values)]
    assert rows_of(source_of(*changes), "l", "key", "list_index", "value") == sorted(expected, key=repr)


# ---- keys without a serializer ----


def test_string_keys_are_known_by_their_hashes():
    changes = [change(SET, 0, f"k{n}", i8(n)) for n in range(20)]
    source = source_of(StateChange(-1, announce(0, "v", "VALUE", LONG)), *changes, known_key=False)

    assert rows_of(source, "v", "key", "value") == sorted(((f"k{n}", n) for n in range(20)), key=repr)
    assert not list(next(iter(source.entries.values())).problems())


def test_long_keys_are_known_by_their_hashes_and_the_doubt_is_told():
    def keyed(number: int) -> StateChange:
        return StateChange(
            key_group_of(number, KEY_GROUPS),
            bytes([SET]) + struct.pack(">h", 0) + i8(number) + b"\0" + i8(-number),
        )

    source = source_of(
        StateChange(-1, announce(0, "v", "VALUE", LONG)), *map(keyed, range(20)), known_key=False
    )

    assert rows_of(source, "v", "key", "value") == sorted(((n, -n) for n in range(20)), key=repr)
    (problem,) = next(iter(source.entries.values())).problems()
    assert "Double" in problem.reason
    assert problem.sized


def test_too_few_keys_are_not_guessed_but_their_length_is_known():
    changes = [change(SET, 0, "only", i8(n)) for n in range(3)]
    source = source_of(StateChange(-1, announce(0, "v", "VALUE", LONG)), *changes, known_key=False)

    assert rows_of(source, "v", "key", "value") == [(b"\x05only", 2)]
    (problem,) = next(iter(source.entries.values())).problems()
    assert (problem.path, problem.sized) == (("key",), True)
    assert "how keys are serialized" in problem.reason
    assert "5 bytes each" in problem.reason


def test_keys_of_several_lengths_are_not_guessed_and_every_change_is_shown():
    changes = [change(SET, 0, key, i8(n)) for n, key in enumerate(("only", "three", "keys"))]
    source = source_of(StateChange(-1, announce(0, "v", "VALUE", LONG)), *changes, known_key=False)

    found = rows_of(source, "v", "key", "value")

    assert [key for key, _ in found] == sorted((made.change for made in changes), key=repr)
    (entry,) = source.entries.values()
    assert entry.kind is StateKind.VALUE
    assert "how keys are serialized" in next(entry.problems()).reason


def test_a_key_is_known_from_the_timers_of_another_subtask():
    log = InMemoryChangelogStateHandle(
        key_group_range=ALL_KEY_GROUPS, from_sequence_number=0, to_sequence_number=1, changes=(TIMERS,)
    )
    sibling = ChangelogStateBackendHandle(
        key_group_range=ALL_KEY_GROUPS, materialized=(), non_materialized=(log,)
    )
    alone = source_of(
        StateChange(-1, announce(0, "v", "VALUE", LONG)), change(SET, 0, "a", i8(1)), known_key=False
    )
    source = opened(alone.handle, alone.handle, sibling)

    assert rows_of(source, "v", "key", "value") == [("a", 1)]


@pytest.mark.parametrize("format_", ["canonical", "native"])
def test_a_key_is_known_from_the_header_of_a_base_in_one_stream(format_):
    """A state that is registered after the base was written stands in the log alone."""
    savepoint = PROJECT / "tests/data/flink/2.3.0/everything-hashmap-savepoints" / format_
    (kinds,) = (operator for operator in Savepoint(savepoint).operators if operator.answers_to("kinds"))
    base = kinds.metadata.subtasks[0].managed_keyed_state
    assert base is not None
    log = InMemoryChangelogStateHandle(
        key_group_range=base.key_group_range,
        from_sequence_number=0,
        to_sequence_number=1,
        changes=(StateChange(-1, announce(0, "later", "VALUE", LONG)),),
    )
    handle = ChangelogStateBackendHandle(
        key_group_range=base.key_group_range, materialized=(base,), non_materialized=(log,)
    )

    later = opened(handle, savepoint=savepoint).entries[StateName(name="later")]

    assert later.key is not None
    assert [later.key.type_name, *later.problems()] == ["String"]


@pytest.mark.parametrize(("stated", "problems"), [("Long", 0), ("Integer", 1)])
def test_state_info_names_the_type_of_keys_where_they_do_not_contradict_it(stated, problems, tmp_path):
    directory = unpacked("1.20.3-changelog-hashmap-chk-1", tmp_path).directory
    operator = {"id": "17e5add435a3bdf0ec481b49324253eb", "key": {"type": stated}}
    (directory / "stateInfo").write_text(json.dumps({"version": 1, "operators": [operator]}))

    states = [state for operator in Savepoint(directory).operators for state in operator.states]

    (seen,) = (state for state in states if state.name == "seen")
    assert seen.entry is not None
    assert len(list(seen.entry.problems())) == problems
    assert seen.schema.field("key").type == "int64"


def test_a_state_of_an_unknown_serializer_does_not_hide_its_neighbours():
    changes = [change(SET, 1, f"k{n}", i8(n)) for n in range(10)]
    source = source_of(
        StateChange(-1, announce(0, "strange", "VALUE", versioned("com.acme.StrangeSnapshot", b"?" * 9))),
        StateChange(-1, announce(1, "v", "VALUE", LONG)),
        change(SET, 0, "a", b"????"),
        *changes,
    )

    assert len(rows_of(source, "v", "key")) == 10
    assert rows_of(source, "strange", "key") == [(change(SET, 0, "a", b"????").change,)]


# ---- bad input ----


def change_set(*groups: tuple[int, list[bytes]]) -> bytes:
    body = b"".join(
        i4(len(changes)) + i4(group) + b"".join(i4(len(made)) + made for made in changes)
        for group, changes in groups
    )
    return i4(len(groups)) + body


SAMPLE = change_set((-1, [announce(0, "v", "VALUE", LONG)]), (3, [change(SET, 0, "a", i8(1)).change] * 3))


def test_a_compressed_segment_is_the_plain_one():
    plain = np.frombuffer(b"\0" + SAMPLE, dtype=np.uint8)
    compressed = np.frombuffer(b"\1" + bytes(cramjam.snappy.compress(SAMPLE)), dtype=np.uint8)

    assert bytes(plain_stream(plain, "f")) == bytes(plain_stream(compressed, "f")) == SAMPLE
    assert read_change_set(plain_stream(compressed, "f"), 0, "f").key_groups.tolist() == [-1, 3, 3, 3]


def test_a_truncated_change_set_is_an_error():
    def read(length: int) -> None:
        read_change_set(np.frombuffer(SAMPLE[:length] or b"\0", dtype=np.uint8), 0, "f")

    assert not_refused(range(len(SAMPLE)), read, CorruptDataError) == []


def test_an_offset_outside_the_file_is_an_error():
    with pytest.raises(CorruptDataError):
        read_change_set(np.frombuffer(SAMPLE, dtype=np.uint8), len(SAMPLE), "f")


@COMPILED
@given(st.binary(max_size=60), st.integers(0, 3), st.integers(0, 9))
def test_a_broken_change_is_a_value_or_an_error(noise, state_id, operation):
    made = StateChange(3, bytes([operation]) + struct.pack(">h", state_id) + noise)
    states = [("VALUE", LONG), ("LIST", LIST), ("MAP", MAP), ("REDUCING", LONG)]
    announced = [StateChange(-1, announce(n, f"s{n}", kind, value)) for n, (kind, value) in enumerate(states)]
    with suppress(ReaderError):
        source = source_of(*announced, made)
        for name in source.entries:
            rows_of(source, name.name, "key")


@COMPILED
@given(st.integers(0, 200), st.integers(1, 255))
def test_a_broken_announcement_is_a_value_or_an_error(position, flip):
    announcement = bytearray(announce(0, "v", "VALUE", LONG))
    announcement[1 + position % (len(announcement) - 1)] ^= flip
    with suppress(ReaderError):
        source = source_of(StateChange(-1, bytes(announcement)), change(SET, 0, "a", i8(1)))
        for name in source.entries:
            rows_of(source, name.name, "key")


def test_a_change_of_a_state_that_was_not_announced_is_an_error():
    with pytest.raises(CorruptDataError, match="announced"):
        source_of(change(SET, 5, "a", i8(1))).entries  # noqa: B018  # read when asked for


# ---- real Flink ----


@pytest.mark.parametrize(
    "archive",
    [
        "1.20.3-changelog-hashmap-chk-1",
        "1.20.3-changelog-hashmap-materialized-chk-3",
        "1.20.3-changelog-rocksdb-materialized-chk-3",
        "2.3.0-forst-chk-4",
        "1.20.3-filemerging-rocksdb-chk-3",
    ],
)
def test_checkpoints_of_real_flink_hold_what_the_job_put_in(archive, tmp_path):
    snapshot = unpacked(archive, tmp_path)
    comparison = Comparison(snapshot=snapshot, treatments={})
    found = comparison.decoded(Savepoint(snapshot.directory))

    assert found == comparison.expected()


def test_forst_is_told_from_rocksdb(tmp_path):
    backends = {
        state.backend
        for archive in ("2.3.0-forst-chk-4", "1.20.3-filemerging-rocksdb-chk-3")
        for operator in Savepoint(unpacked(archive, tmp_path / archive).directory).operators
        for state in operator.states
    }

    assert backends == {"", "forst", "rocksdb"}


@pytest.mark.slow
def test_changelogs_of_the_corpus_hold_what_the_jobs_put_in(corpus):
    for snapshot in snapshots_of(corpus):
        if snapshot.case.startswith("changelog-") and snapshot.expected is not None:
            comparison = Comparison(snapshot=snapshot, treatments={})
            found = comparison.decoded(Savepoint(snapshot.directory))

            assert found == comparison.expected(), snapshot.name
