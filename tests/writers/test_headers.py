"""Headers of state files: those of real Flink, read and written again; new ones, read back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from readers.cursor import Cursor
from readers.headers import KeyedHeader, read_keyed_header, read_operator_header
from readers.metainfo import BackendStateType
from readers.serializers.containers import ListSerializer
from readers.serializers.primitives import LongSerializer, StringSerializer, VoidNamespaceSerializer
from tests.support.paths import DATA
from writers import UnwritableError
from writers.headers import (
    RegisteredState,
    registered_state,
    snapshot_block,
    write_keyed_header,
    write_operator_header,
    write_snapshot,
)

HEADERS = DATA / "headers"
KEYED = sorted(HEADERS.glob("*-keyed.bin"))
OPERATOR = sorted(HEADERS.glob("*-operator.bin"))


def keyed(path: Path) -> tuple[KeyedHeader, bytes]:
    data = path.read_bytes()
    header = read_keyed_header(Cursor(data))
    return header, data[: header.end]


@pytest.mark.parametrize("path", KEYED, ids=lambda path: path.stem)
def test_a_keyed_header_is_written_as_flink_wrote_it(path: Path) -> None:
    header, data = keyed(path)
    states = [registered_state(state, data) for state in header.states]
    start, end = header.key_block

    assert write_keyed_header(data[start:end], states, compressed=header.compressed) == data


@pytest.mark.parametrize("path", OPERATOR, ids=lambda path: path.stem)
def test_an_operator_header_is_written_as_flink_wrote_it(path: Path) -> None:
    data = path.read_bytes()
    header = read_operator_header(Cursor(data))
    states, broadcast = (
        [registered_state(state, data) for state in found]
        for found in (header.operator_states, header.broadcast_states)
    )

    written = write_operator_header(states, broadcast, version=header.version, compressed=header.compressed)

    assert written == data[: header.end]


def test_a_state_is_left_out_and_another_has_a_new_name() -> None:
    header, data = keyed(HEADERS / "1.20.3-allstates-keyed.bin")
    first, _, *rest = [registered_state(state, data) for state in header.states]
    start, end = header.key_block

    found = read_keyed_header(
        Cursor(write_keyed_header(data[start:end], [replace(first, name="other"), *rest]))
    )

    assert [state.name for state in found.states] == ["other", *(state.name for state in rest)]
    assert found.states[0].serializers == header.states[0].serializers
    assert found.key_serializer == header.key_serializer


def test_a_new_state_is_read_as_it_was_named() -> None:
    serializers = {
        "VALUE_SERIALIZER": ListSerializer(LongSerializer()),
        "NAMESPACE_SERIALIZER": VoidNamespaceSerializer(),
    }
    state = RegisteredState(
        name="totals",
        kind=BackendStateType.KEY_VALUE,
        options={"KEYED_STATE_TYPE": "LIST"},
        blocks={key: snapshot_block(write_snapshot(serializer)) for key, serializer in serializers.items()},
    )

    header = write_keyed_header(snapshot_block(write_snapshot(StringSerializer())), [state])
    found = read_keyed_header(Cursor(header))

    assert found.key_serializer == StringSerializer()
    assert [(state.name, state.keyed_state_type, dict(state.serializers)) for state in found.states] == [
        ("totals", "LIST", serializers)
    ]
    assert found.end == len(header)


def test_what_no_header_can_hold_is_refused() -> None:
    state = RegisteredState(name="s", kind=BackendStateType.OPERATOR, options={}, blocks={})

    with pytest.raises(UnwritableError, match="expected at most 32767 states of an operator, found 32768"):
        write_keyed_header(b"", [state] * 32_768)
    for version, compressed in ((4, False), (7, False), (5, True)):
        with pytest.raises(UnwritableError, match=f"found version {version}"):
            write_operator_header([], [], version=version, compressed=compressed)


def test_a_state_of_an_older_header_is_refused() -> None:
    header, data = keyed(HEADERS / "1.20.3-wordcount-keyed.bin")
    older = replace(header.states[0], blocks={})

    with pytest.raises(UnwritableError, match=r"in a header of Flink 1\.7 or later, found an older one"):
        registered_state(older, data)
