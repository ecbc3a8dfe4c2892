"""Entries and registrations: each is made from the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from readers import state_meta_info
from readers.cursor import Cursor
from readers.formats.entry import keyed_entry, operator_entry
from readers.headers import read_keyed_header, read_operator_header
from tests.support.paths import DATA

HEADERS = DATA / "headers"


@pytest.mark.parametrize("path", sorted(HEADERS.glob("*-keyed.bin")), ids=lambda path: path.stem)
def test_a_keyed_state_is_registered_as_flink_registered_it(path: Path) -> None:
    header = read_keyed_header(Cursor(path.read_bytes()))

    for state in header.states:
        made = state_meta_info(state.name, keyed_entry(state, header.key_serializer))
        assert made == state
        assert list(made.serializers) == list(state.serializers)


@pytest.mark.parametrize("path", sorted(HEADERS.glob("*-operator.bin")), ids=lambda path: path.stem)
def test_an_operator_state_is_registered_as_flink_registered_it(path: Path) -> None:
    header = read_operator_header(Cursor(path.read_bytes()))

    for state in (*header.operator_states, *header.broadcast_states):
        made = state_meta_info(state.name, operator_entry(state))
        assert made == state
        assert list(made.serializers) == list(state.serializers)
