"""One registered state, as the header of a state file describes it: `StateMetaInfoSnapshot`.

| format | bytes | Flink |
|---|---|---|
| M1 | i4 StateDescriptor.Type, utf name, 2 × serializer proxy (namespace, value) | 1.2 keyed |
| M3 | i4 StateDescriptor.Type, utf name, 2 pairs (namespace, value) | 1.3–1.5 keyed |
| O1 | utf name, i1 mode, Java stream of the serializer, without a length | 1.2 operator |
| O2 | utf name, i1 mode, 1 pair (value) | 1.3–1.5 operator |
| O3 | utf name, i1 mode, 2 pairs (key, value) | 1.5 broadcast |
| M5 | utf name, i4 kind, i4 n, n × (utf option, utf value), i4 m, m × utf key, m pairs | 1.6 |
| M6 | utf name, i4 kind, i4 n, n × (utf option, utf value), i4 m, m × (utf key, block) | since 1.7 |

1.18 calls M6 version 7. `readers.snapshots.reading` explains *pairs* and *block*. `kind` is the ordinal of
`StateMetaInfoSnapshot.BackendStateType`.

Flink: StateMetaInfoSnapshotReadersWriters, LegacyStateMetaInfoReaders
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from readers.cursor import Cursor
from readers.errors import UnsupportedVersionError
from readers.javaio import read_object
from readers.serializers.base import Serializer
from readers.serializers.containers import ListSerializer
from readers.snapshots.reading import (
    CONFIG_SNAPSHOT,
    UnknownSnapshot,
    read_block,
    read_pairs,
    read_serializer_proxy,
    refuse,
    serializer_of,
)

KEYED_STATE_TYPE = "KEYED_STATE_TYPE"
DISTRIBUTION_MODE = "OPERATOR_STATE_DISTRIBUTION_MODE"

KEY = "KEY_SERIALIZER"
NAMESPACE = "NAMESPACE_SERIALIZER"
VALUE = "VALUE_SERIALIZER"
USER_KEY = "USER_KEY_SERIALIZER"
SERIALIZER_KEYS = (KEY, NAMESPACE, VALUE, USER_KEY)


class BackendStateType(Enum):
    """The way a backend holds a state, in the order of Flink's enum."""

    KEY_VALUE = 0
    OPERATOR = 1
    BROADCAST = 2
    PRIORITY_QUEUE = 3
    KEY_VALUE_V2 = 4


# `StateDescriptor.Type` and `OperatorStateHandle.Mode`, in Flink's order. Until 1.4 the second mode was called BROADCAST
# and meant union.
_STATE_TYPES = ("UNKNOWN", "VALUE", "LIST", "REDUCING", "FOLDING", "AGGREGATING", "MAP")
_MODES = ("SPLIT_DISTRIBUTE", "UNION", "BROADCAST")
# Flink's options are constants of an enum: other text shows that the bytes are no meta info, which the search behind
# unknown snapshots relies on.
_OPTION = re.compile(r"[A-Z][A-Z_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class StateMetaInfo:
    """One registered state.

    Attributes:
        name: unique among the states of one kind.
        kind: the way the backend holds it.
        options: by `StateMetaInfoSnapshot.CommonOptionsKeys`.
        serializers: by `StateMetaInfoSnapshot.CommonSerializerKeys`.
        blocks: likewise, where the block of each snapshot begins and ends in the header; of M6 only.
        snapshot_classes: the classes of its serializer snapshots, nested ones too; before M6 only their base class.
    """

    name: str
    kind: BackendStateType
    options: Mapping[str, str]
    serializers: Mapping[str, Serializer]
    blocks: Mapping[str, tuple[int, int]] = field(default_factory=dict, compare=False)
    snapshot_classes: frozenset[str] = field(default=frozenset({CONFIG_SNAPSHOT}), compare=False)

    @property
    def keyed_state_type(self) -> str | None:
        """VALUE, LIST, REDUCING, FOLDING, AGGREGATING or MAP; None for other than keyed state."""
        return self.options.get(KEYED_STATE_TYPE)

    @property
    def distribution_mode(self) -> str | None:
        """SPLIT_DISTRIBUTE, UNION or BROADCAST; None for other than operator state."""
        return self.options.get(DISTRIBUTION_MODE)

    @property
    def key_serializer(self) -> Serializer | None:
        """Serializer of the keys of a broadcast state. That of keyed state is in the header."""
        return self.serializers.get(KEY)

    @property
    def namespace_serializer(self) -> Serializer | None:
        """Serializer of the namespaces of keyed state."""
        return self.serializers.get(NAMESPACE)

    @property
    def value_serializer(self) -> Serializer | None:
        """Serializer of the whole list or map in KEY_VALUE, of one element or map value in all other kinds."""
        return self.serializers.get(VALUE)

    @property
    def user_key_serializer(self) -> Serializer | None:
        """Serializer of the map keys of a KEY_VALUE_V2 map."""
        return self.serializers.get(USER_KEY)


def read_meta_info(cursor: Cursor, unknown: UnknownSnapshot = refuse) -> StateMetaInfo:
    """Read M6, which changelogs hold too.

    Raises:
        UnsupportedSerializerError: a snapshot is not known, and `unknown` refused it.
        CorruptDataError: the bytes are no state meta info.
    """
    name, kind, options = _common(cursor)
    serializers, blocks = {}, {}
    met: list[str] = []
    for _ in range(cursor.count("serializers", 6)):
        key = _serializer_key(cursor)
        start = cursor.position
        serializers[key] = read_block(cursor, unknown=unknown, met=met)
        blocks[key] = start, cursor.position
    return StateMetaInfo(
        name=name,
        kind=kind,
        options=options,
        serializers=serializers,
        blocks=blocks,
        snapshot_classes=frozenset(met),
    )


def read_states(cursor: Cursor, read: MetaInfoReader, unknown: UnknownSnapshot) -> tuple[StateMetaInfo, ...]:
    """Read i2 n and n meta infos.

    Raises:
        CorruptDataError: a negative number of states, or the bytes are no meta info.
    """
    start = cursor.position
    count = cursor.i2()
    if count < 0:
        raise cursor.corrupt(f"expected a number of states, found {count}", start)
    return tuple(read(cursor, unknown) for _ in range(count))


def _m5(cursor: Cursor, _unknown: UnknownSnapshot) -> StateMetaInfo:
    name, kind, options = _common(cursor)
    start = cursor.position
    keys = [_serializer_key(cursor) for _ in range(cursor.count("serializers", 2))]
    serializers = read_pairs(cursor)
    if len(serializers) != len(keys):
        raise cursor.corrupt(f"expected {len(keys)} serializers, found {len(serializers)}", start)
    return StateMetaInfo(
        name=name, kind=kind, options=options, serializers=dict(zip(keys, serializers, strict=True))
    )


def _common(cursor: Cursor) -> tuple[str, BackendStateType, dict[str, str]]:
    name = cursor.utf("state name")
    ordinal = _ordinal(cursor.i4(), len(BackendStateType), "backend state type", cursor)
    options = {}
    for _ in range(cursor.count("options", 4)):
        start = cursor.position
        option = cursor.utf("option")
        if not _OPTION.fullmatch(option):
            raise cursor.corrupt(f"expected a state option, found {option!r:.100}", start)
        options[option] = cursor.utf("option value")
    return name, BackendStateType(ordinal), options


def _serializer_key(cursor: Cursor) -> str:
    start = cursor.position
    key = cursor.utf("serializer key")
    if key not in SERIALIZER_KEYS:
        raise cursor.corrupt(f"expected one of {', '.join(SERIALIZER_KEYS)}, found {key!r:.100}", start)
    return key


def _keyed_v1(cursor: Cursor, _unknown: UnknownSnapshot) -> StateMetaInfo:
    state_type, name = _keyed_legacy(cursor)
    namespace, value = (serializer_of(read_serializer_proxy(cursor)) for _ in range(2))
    # For a list state the RocksDB backend of 1.2 stored the serializer of an element, the heap backend that of the list.
    if state_type == "LIST" and not isinstance(value, ListSerializer):
        value = ListSerializer(value)
    return _key_value(name, state_type, namespace, value)


def _keyed_v3(cursor: Cursor, _unknown: UnknownSnapshot) -> StateMetaInfo:
    state_type, name = _keyed_legacy(cursor)
    namespace, value = _exactly(2, cursor)
    return _key_value(name, state_type, namespace, value)


def _keyed_legacy(cursor: Cursor) -> tuple[str, str]:
    ordinal = _ordinal(cursor.i4(), len(_STATE_TYPES), "state type", cursor)
    return _STATE_TYPES[ordinal], cursor.utf("state name")


def _key_value(name: str, state_type: str, namespace: Serializer, value: Serializer) -> StateMetaInfo:
    return StateMetaInfo(
        name=name,
        kind=BackendStateType.KEY_VALUE,
        options={KEYED_STATE_TYPE: state_type},
        serializers={NAMESPACE: namespace, VALUE: value},
    )


def _operator_v1(cursor: Cursor, _unknown: UnknownSnapshot) -> StateMetaInfo:
    name, mode = _operator_legacy(cursor)
    # The stream has no length: it is read once to find its end, and again by `serializer_of`.
    stream = Cursor(cursor.data, path=cursor.path, position=cursor.position, end=cursor.end)
    read_object(cursor)
    return _operator(name, mode, serializer_of(stream))


def _operator_v2(cursor: Cursor, _unknown: UnknownSnapshot) -> StateMetaInfo:
    name, mode = _operator_legacy(cursor)
    return _operator(name, mode, *_exactly(1, cursor))


def _broadcast_v3(cursor: Cursor, _unknown: UnknownSnapshot) -> StateMetaInfo:
    name, mode = _operator_legacy(cursor)
    key, value = _exactly(2, cursor)
    return StateMetaInfo(
        name=name,
        kind=BackendStateType.BROADCAST,
        options={DISTRIBUTION_MODE: mode},
        serializers={KEY: key, VALUE: value},
    )


def _operator_legacy(cursor: Cursor) -> tuple[str, str]:
    name = cursor.utf("state name")
    return name, _MODES[_ordinal(cursor.u1(), len(_MODES), "distribution mode", cursor)]


def _operator(name: str, mode: str, value: Serializer) -> StateMetaInfo:
    return StateMetaInfo(
        name=name,
        kind=BackendStateType.OPERATOR,
        options={DISTRIBUTION_MODE: mode},
        serializers={VALUE: value},
    )


def _exactly(count: int, cursor: Cursor) -> tuple[Serializer, ...]:
    start = cursor.position
    serializers = read_pairs(cursor)
    if len(serializers) != count:
        raise cursor.corrupt(f"expected {count} serializers, found {len(serializers)}", start)
    return serializers


def _ordinal(found: int, size: int, what: str, cursor: Cursor) -> int:
    if not 0 <= found < size:
        raise cursor.corrupt(f"expected a {what} below {size}, found {found}", cursor.position)
    return found


def check_version(version: int, known: Mapping[int, MetaInfoReader], what: str, cursor: Cursor) -> None:
    """Refuse a header version without a meta info reader.

    Raises:
        UnsupportedVersionError: the version is not in `known`.
    """
    if version not in known:
        raise UnsupportedVersionError(
            f"expected {what} of version {min(known)} to {max(known)}, found {version}",
            path=cursor.path,
            position=cursor.position - 4,
        )


MetaInfoReader: TypeAlias = Callable[[Cursor, UnknownSnapshot], StateMetaInfo]

# By the version of the header (`KeyedBackendSerializationProxy`, `OperatorBackendSerializationProxy`).
KEYED_READERS: dict[int, MetaInfoReader] = {
    1: _keyed_v1,
    2: _keyed_v1,
    3: _keyed_v3,
    4: _keyed_v3,
    5: _m5,
    6: read_meta_info,
}
OPERATOR_READERS: dict[int, MetaInfoReader] = {
    1: _operator_v1,
    2: _operator_v2,
    3: _operator_v2,
    4: _m5,
    5: read_meta_info,
    6: read_meta_info,
}
BROADCAST_READERS: dict[int, MetaInfoReader] = {
    3: _broadcast_v3,
    4: _m5,
    5: read_meta_info,
    6: read_meta_info,
}
