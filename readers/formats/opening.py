"""The source of a handle, by what kind of state it is."""

from __future__ import annotations

from readers.errors import UnsupportedSerializerError, UnsupportedStateError
from readers.formats.beginning import regions_of
from readers.formats.changelog.source import ChangelogSource
from readers.formats.entry import StateKind
from readers.formats.keyed import snapshot_source
from readers.formats.opaque import BytesSource
from readers.formats.operatorstate.layout import element_bounds
from readers.formats.operatorstate.source import OperatorSource
from readers.formats.rawtimers import layout as rawtimers
from readers.formats.rawtimers.source import RawTimerSource
from readers.formats.source import Source
from readers.metadata import (
    ChangelogStateBackendHandle,
    KeyedStateHandle,
    KeyGroupsStateHandle,
    MasterState,
    OperatorStreamStateHandle,
    StreamStateHandle,
)
from readers.serializers.base import Serializer
from readers.storage.location import BufferStream, ReadCounter, SavepointLocation


def keyed_source(
    subtask: int,
    handle: KeyedStateHandle,
    storage: SavepointLocation,
    max_parallelism: int,
    siblings: tuple[KeyedStateHandle, ...] = (),
    stated_key: Serializer | None = None,
) -> Source:
    """The source of a managed keyed state handle; for `siblings` and `stated_key` see ChangelogSource.

    Raises:
        UnsupportedStateError: no format here serves it; the message names the handle.
    """
    if isinstance(handle, ChangelogStateBackendHandle):
        return ChangelogSource(subtask, handle, storage, max_parallelism, siblings, stated_key)
    return snapshot_source(subtask, handle, storage, max_parallelism)


def raw_keyed_source(subtask: int, handle: KeyedStateHandle, storage: SavepointLocation) -> Source:
    """The source of a raw keyed state handle: timers if the timer service wrote it, else bytes.

    Raises:
        UnsupportedStateError: a handle that raw keyed state never has.
    """
    if not isinstance(handle, KeyGroupsStateHandle):
        raise UnsupportedStateError(f"expected raw keyed state as key groups, found {type(handle).__name__}")
    stream = storage.open_stream(handle.delegate)
    places = list(regions_of(handle, stream, absent=-1))
    reason = "written by the operator itself"
    spans = stream.spans([place[1:] for place in places])
    if all(rawtimers.is_raw_timers(data, start) for (_, start, _), data in zip(places, spans, strict=True)):
        source = RawTimerSource(subtask, handle, stream)
        try:
            empty = all(
                rawtimers.is_no_timers(stream.span(start, end), start, end) for _, start, end in places
            )
            if source.entries or empty:
                return source
        except UnsupportedSerializerError as error:
            reason = f"timers: {error.message}"
    parts = ((stream, start, end, key_group) for key_group, start, end in places)
    return BytesSource(subtask, "raw keyed state", StateKind.RAW_KEYED, parts, reason)


def raw_operator_source(
    subtask: int, handle: OperatorStreamStateHandle, storage: SavepointLocation
) -> Source:
    """The source of a raw operator state handle: a row a partition. Flink: OperatorStateCheckpointOutputStream."""
    stream = storage.open_stream(handle.delegate)
    offsets = [offset for info in handle.state_meta_infos for offset in info.offsets.tolist()]
    inside = [offset for offset in offsets if offset < stream.size_bytes] or [0]
    places = (
        (stream, start, end, -1)
        for start, end in element_bounds(inside, inside, stream.size_bytes, stream.path)
    )
    return BytesSource(
        subtask, "raw operator state", StateKind.RAW_OPERATOR, places, "written by the operator itself"
    )


def coordinator_source(handle: StreamStateHandle, storage: SavepointLocation) -> Source:
    """The state of an operator's coordinator, as bytes."""
    stream = storage.open_stream(handle)
    places = [(stream, 0, stream.size_bytes, -1)]
    return BytesSource(
        0, "coordinator state", StateKind.COORDINATOR, places, "written by the operator's coordinator"
    )


def master_source(master: MasterState) -> Source:
    """The state of a hook of the job manager, as bytes."""
    stream = BufferStream(master.name, master.data, ReadCounter())
    return BytesSource(
        0, master.name, StateKind.MASTER, [(stream, 0, len(master.data), -1)], "written by a hook"
    )


def operator_source(
    subtask: int, handle: OperatorStreamStateHandle, storage: SavepointLocation
) -> OperatorSource:
    """The source of a managed operator state handle."""
    return OperatorSource(subtask, handle, storage.open_stream(handle.delegate))
