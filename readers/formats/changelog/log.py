"""The changelog: the changes of a subtask's keyed state since its base was written. `replay.py` applies them.

A segment file is `u1 compressed` and a stream (snappy if that is 1). At the offset of a handle in the plain stream:

| bytes | meaning |
|---|---|
| i4 n, n × group | a change set |
| group: i4 n, i4 key group, n × (i4 length, change) | key group -1: metadata, as a rule first |

| change | bytes behind `u1 operation` |
|---|---|
| METADATA (8) | i4 6 or 7, state meta info, [TTL and default value], i2 state id, u1 0 KEY_VALUE or 3 PRIORITY_QUEUE |
| others, of KEY_VALUE | i2 state id, key, namespace, payload |
| others, of PRIORITY_QUEUE | i2 state id, payload |

The end of TTL and default value is not known without parsing Java objects; so the state id is read from the last three
bytes of the change.

Flink: StateChangeFormat, StateChangeOperation, AbstractStateChangeLogger (records since 1.15).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from readers.compiled.kernel import kernel
from readers.cursor import Cursor
from readers.decode.loads import load_i4, store_4, store_8
from readers.errors import (
    CorruptDataError,
    UnsupportedSerializerError,
    UnsupportedStateError,
    UnsupportedVersionError,
    hex_window,
)
from readers.formats.snappy import decompress
from readers.metadata import ChangelogStateHandleStreamImpl, InMemoryChangelogStateHandle, KeyedStateHandle
from readers.metainfo import VALUE, BackendStateType, StateMetaInfo, read_meta_info
from readers.serializers.base import OpaqueSerializer
from readers.serializers.operators import TimerSerializer
from readers.storage.location import SavepointLocation

CLEAR, SET, SET_INTERNAL, ADD, MERGE_NS, ADD_ELEMENT, ADD_OR_UPDATE_ELEMENT, REMOVE_ELEMENT, METADATA = (
    *range(9),
)
SCOPE = 3  # the offset of key and namespace in a change: behind operation and state id

_METADATA_TAIL = 3  # state id and kind
_META_VERSIONS = (6, 7)
_SAMPLED_CHANGES = 2000  # of each change set, to deduce the type of the keys

Bounds = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSet:
    """Changes in order.

    Attributes:
        data: uint8, the plain stream.
        key_groups: int32 (changes,); -1 for metadata.
        starts, ends: int64 (changes,).
        path: the file, for errors.
    """

    data: NDArray[np.uint8]
    key_groups: NDArray[np.int32]
    starts: Bounds
    ends: Bounds
    path: str

    @property
    def operations(self) -> NDArray[np.uint8]:
        """Operation of each change, uint8 (changes,)."""
        return self.data[self.starts]

    @property
    def state_ids(self) -> NDArray[np.int64]:
        """State id of each change, int64 (changes,); meaningless for METADATA."""
        # No change has less than `SCOPE` bytes, so both bytes are there.
        high, low = (self.data[self.starts + at].astype(np.int64) for at in (1, 2))
        return high << 8 | low


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """A METADATA change: from here on `state_id` is this state.

    If the serializers cannot be read, `problem` has the reason, and `state` has a serializer that shows bytes.
    `data` are the bytes of the meta info, as the header of a state file has them, and `start` is where they begin in the change set.
    """

    state_id: int
    state: StateMetaInfo
    data: bytes = b""
    start: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRange:
    """Changes of one state in one key group, in order: indexes into a change set."""

    changes: ChangeSet
    indexes: Bounds

    @property
    def size_bytes(self) -> int:
        """Size of the changes."""
        return int((self.changes.ends[self.indexes] - self.changes.starts[self.indexes]).sum())


class Changelog:
    """The changes of one handle, by state and key group.

    Attributes:
        states: (name, is timers) → the first announcement of the state.
    """

    def __init__(self, change_sets: Iterable[ChangeSet]) -> None:
        self._sets = tuple(change_sets)
        self.states: dict[tuple[str, bool], Announcement] = {}
        # For each change set, int64 (changes,): the ordinal in `states` of each change's state, -1 for METADATA. State ids do
        # not serve: the same id may be announced again for another state.
        self._ordinals = _ordinals(self._sets, self.states)

    def has(self, name: str, timers: bool) -> bool:
        """Return whether there are changes of a state."""
        ordinal = self._ordinal(name, timers)
        return ordinal >= 0 and any((ordinals == ordinal).any() for ordinals in self._ordinals)

    def ranges(self, name: str, timers: bool, key_groups: frozenset[int]) -> dict[int, list[ChangeRange]]:
        """Return the changes of a state in these key groups, by key group."""
        found: dict[int, list[ChangeRange]] = {}
        ordinal = self._ordinal(name, timers)
        for changes, ordinals in zip(self._sets, self._ordinals, strict=True):
            indexes = np.flatnonzero(ordinals == ordinal) if ordinal >= 0 else np.empty(0, dtype=np.int64)
            order = indexes[np.argsort(changes.key_groups[indexes], kind="stable")]
            groups, first = np.unique(changes.key_groups[order], return_index=True)
            for group, part in zip(groups.tolist(), np.split(order, first[1:]), strict=bool(len(groups))):
                if group in key_groups:
                    found.setdefault(group, []).append(ChangeRange(changes=changes, indexes=part))
        return found

    def sample(self) -> list[tuple[ChangeSet, Bounds]]:
        """Return changes that begin with a key, spread over the log: change sets, each with indexes into it."""
        keyed = [ordinal for ordinal, (_, timers) in enumerate(self.states) if not timers]
        found = []
        for changes, ordinals in zip(self._sets, self._ordinals, strict=True):
            indexes = np.flatnonzero(np.isin(ordinals, keyed))
            found.append((changes, indexes[:: max(1, len(indexes) // _SAMPLED_CHANGES)]))
        return found

    def settings(self) -> Iterator[tuple[Announcement, ChangeSet, Bounds]]:
        """Yield the changes that set a state's value: its announcement, a change set and indexes into it."""
        for ordinal, ((_, timers), announcement) in enumerate(self.states.items()):
            for changes, ordinals in zip(self._sets, self._ordinals, strict=True):
                indexes = np.flatnonzero((ordinals == ordinal) & (changes.operations == SET))
                if len(indexes) and not timers:
                    yield announcement, changes, indexes

    def _ordinal(self, name: str, timers: bool) -> int:
        return list(self.states).index((name, timers)) if (name, timers) in self.states else -1


def _ordinals(change_sets: Iterable[ChangeSet], states: dict[tuple[str, bool], Announcement]) -> list[Bounds]:
    """Return the ordinal of each change's state; fill `states` from the METADATA changes on the way."""
    ordinals_by_id: Bounds = np.full(1 << 16, -1, dtype=np.int64)
    found = []
    for changes in change_sets:
        ordinals: Bounds = np.full(len(changes.starts), -1, dtype=np.int64)
        ids, operations = changes.state_ids, changes.operations
        behind = 0
        for index in [*np.flatnonzero(operations == METADATA).tolist(), len(ordinals)]:
            ordinals[behind:index] = ordinals_by_id[ids[behind:index]]
            unknown = np.flatnonzero(ordinals[behind:index] < 0)
            if len(unknown):
                at = int(changes.starts[behind + int(unknown[0])])
                message = (
                    f"expected changes of announced states, found state id {ids[behind + int(unknown[0])]}"
                )
                raise CorruptDataError(message, path=changes.path, position=at)
            if index < len(ordinals):
                announcement = read_announcement(changes, index)
                key = (announcement.state.name, announcement.state.kind is BackendStateType.PRIORITY_QUEUE)
                states.setdefault(key, announcement)
                ordinals_by_id[announcement.state_id] = list(states).index(key)
            behind = index + 1
        found.append(ordinals)
    return found


def read_changes(handles: Iterable[KeyedStateHandle], storage: SavepointLocation) -> Iterator[ChangeSet]:
    """Read the changes of the non-materialised part of a handle, in order.

    Raises:
        UnsupportedStateError: a handle that has no changes.
        ReaderError: a file cannot be read, or contradicts the format.
    """
    for handle in handles:
        if isinstance(handle, InMemoryChangelogStateHandle):
            yield in_memory_changes(handle)
        elif isinstance(handle, ChangelogStateHandleStreamImpl):
            for segment, offset in handle.handles_and_offsets:
                stream = storage.open_stream(segment)
                yield read_change_set(plain_stream(stream.data, stream.path), offset, stream.path)
        else:
            raise UnsupportedStateError(
                f"expected changes in memory or in files, found {type(handle).__name__}"
            )


def plain_stream(data: NDArray[np.uint8], path: str) -> NDArray[np.uint8]:
    """Return the plain stream behind the flag of a segment file.

    Raises:
        CorruptDataError: the flag is neither 0 nor 1, or the compression is broken.
    """
    cursor = Cursor(memoryview(data), path=path)
    flag = cursor.u1()
    if flag not in (0, 1):
        raise cursor.corrupt(f"expected a compression flag, found {flag}", 0)
    return decompress(cursor) if flag else data[1:]


@kernel
def _walk(
    data: int, limit: int, position: int, key_groups: int, starts: int, ends: int, room: int
) -> tuple[int, int]:
    """Walk a change set; store up to `room` of its changes.

    Returns:
        The number of changes; -1, or the position where the bytes contradict the format.
    """
    found = 0
    if limit - position < 4:
        return 0, position
    groups = load_i4(data, position)
    position += 4
    if groups < 0:
        return 0, position - 4
    for _ in range(groups):
        if limit - position < 8:
            return found, position
        changes = load_i4(data, position)
        key_group = load_i4(data, position + 4)
        if changes < 0:
            return found, position
        position += 8
        for _ in range(changes):
            if limit - position < 4:
                return found, position
            length = load_i4(data, position)
            # Operation and state id: no change is shorter.
            if length < 3 or length > limit - position - 4:
                return found, position
            position += 4
            if found < room:
                store_4(key_groups, found * 4, key_group)
                store_8(starts, found * 8, position)
                store_8(ends, found * 8, position + length)
            found += 1
            position += length
    return found, -1


def read_change_set(data: NDArray[np.uint8], position: int, path: str) -> ChangeSet:
    """Read the change set at `position` of a plain stream.

    Raises:
        CorruptDataError: the bytes contradict the layout.
    """
    if not 0 <= position < len(data):
        message = f"expected a change set within {len(data)} bytes of changelog, found offset {position}"
        raise CorruptDataError(message, path=path)
    # Twice: first to count, because the counts in the file may be those of hostile bytes.
    key_groups, starts, ends = _rooms(0)
    count, bad = _walk(data, len(data), position, key_groups, starts, ends, 0)
    if bad >= 0:
        window = hex_window(memoryview(data), bad)
        raise CorruptDataError(f"expected changes of a changelog; bytes {window}", path=path, position=bad)
    key_groups, starts, ends = _rooms(count)
    _walk(data, len(data), position, key_groups, starts, ends, count)
    return ChangeSet(data=data, key_groups=key_groups, starts=starts, ends=ends, path=path)


def in_memory_changes(handle: InMemoryChangelogStateHandle) -> ChangeSet:
    """Read the changes that `_metadata` itself has.

    Raises:
        CorruptDataError: a change has less than `SCOPE` bytes.
    """
    path = "_metadata"
    if any(len(change.change) < SCOPE for change in handle.changes):
        raise CorruptDataError(f"expected changes of at least {SCOPE} bytes", path=path)
    data = np.frombuffer(b"".join(change.change for change in handle.changes), dtype=np.uint8)
    ends = np.cumsum([len(change.change) for change in handle.changes], dtype=np.int64)
    starts = np.concatenate([np.zeros(1, dtype=np.int64), ends[:-1]]) if len(ends) else ends
    key_groups = np.array([change.key_group for change in handle.changes], dtype=np.int32)
    return ChangeSet(data=data, key_groups=key_groups, starts=starts, ends=ends, path=path)


def _rooms(count: int) -> tuple[NDArray[np.int32], Bounds, Bounds]:
    return np.empty(count, dtype=np.int32), np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)


# ---- metadata ----


def read_announcement(changes: ChangeSet, index: int) -> Announcement:
    """Read a METADATA change.

    Raises:
        UnsupportedVersionError: an unknown version of the meta info.
        CorruptDataError: the bytes contradict the layout.
    """
    end = int(changes.ends[index])
    start = int(changes.starts[index]) + 1
    memory = memoryview(changes.data)
    cursor = Cursor(memory, path=changes.path, position=start, end=end - _METADATA_TAIL)
    version = cursor.i4()
    if version not in _META_VERSIONS:
        raise UnsupportedVersionError(
            f"expected state meta info of version 6 or 7, found {version}", path=changes.path, position=start
        )
    state_id = Cursor(memory, path=changes.path, position=end - _METADATA_TAIL, end=end).u2()
    body = cursor.position
    try:
        state = read_meta_info(cursor)
        data = bytes(memory[body : cursor.position])
        return Announcement(state_id=state_id, state=state, data=data, start=body)
    except (UnsupportedSerializerError, UnsupportedVersionError) as error:
        cursor.position = body
        return Announcement(state_id=state_id, state=_without_serializers(cursor), problem=error.message)


def _without_serializers(cursor: Cursor) -> StateMetaInfo:
    """Read name, kind and options, which stand before the serializers."""
    name = cursor.utf("state name")
    start = cursor.position
    ordinal = cursor.i4()
    if not 0 <= ordinal < len(BackendStateType):
        raise cursor.corrupt(f"expected a backend state type, found {ordinal}", start)
    count = cursor.count("options", 4)
    options = {cursor.utf("option"): cursor.utf("option value") for _ in range(count)}
    opaque = OpaqueSerializer("?", "its serializer in the changelog is not known")
    return StateMetaInfo(
        name=name, kind=BackendStateType(ordinal), options=options, serializers={VALUE: opaque}
    )


def announced_key(state: StateMetaInfo) -> TimerSerializer | None:
    """Return the serializer of a timer state, which contains that of the keys; None for other states.

    Nothing else in a changelog describes the keys.
    """
    value = state.value_serializer
    return value if isinstance(value, TimerSerializer) else None
