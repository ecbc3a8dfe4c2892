"""What the entries of a state are made of, from its registration."""

from __future__ import annotations

import pytest

from readers.formats.entry import StateKind, keyed_entry
from readers.headers.metainfo import (
    KEYED_STATE_TYPE,
    NAMESPACE,
    USER_KEY,
    VALUE,
    BackendStateType,
    StateMetaInfo,
)
from readers.serializers.containers import ListSerializer, MapSerializer
from readers.serializers.primitives import LongSerializer, StringSerializer, VoidNamespaceSerializer

LONG, STRING = LongSerializer(), StringSerializer()


def registered(kind: str, backend: BackendStateType, value, user_key=None) -> StateMetaInfo:
    serializers = {NAMESPACE: VoidNamespaceSerializer(), VALUE: value}
    if user_key is not None:
        serializers[USER_KEY] = user_key
    return StateMetaInfo(name="s", kind=backend, options={KEYED_STATE_TYPE: kind}, serializers=serializers)


@pytest.mark.parametrize(
    ("backend", "registered_value"),
    [
        (BackendStateType.KEY_VALUE, ListSerializer(ListSerializer(LONG))),
        (BackendStateType.KEY_VALUE_V2, ListSerializer(LONG)),
    ],
)
def test_a_list_of_lists_has_lists_as_elements(backend, registered_value):
    entry = keyed_entry(registered("LIST", backend, registered_value), STRING)

    assert (entry.kind, entry.value) == (StateKind.LIST, ListSerializer(LONG))


def test_a_map_of_maps_of_state_v2_has_maps_as_values():
    value = MapSerializer(STRING, LONG)

    entry = keyed_entry(registered("MAP", BackendStateType.KEY_VALUE_V2, value, user_key=LONG), STRING)

    assert (entry.map_key, entry.value) == (LONG, value)
