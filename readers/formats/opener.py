"""`Opener`: what a format does with the handles that `_metadata` records for it.

`OPENERS` is the only place that maps a class of handle to a format. To add a format: a class of handle in `metadata/model.py` with a
line in `metadata/handles.py`, a module or folder here with a `Source` and an `Opener`, and one line in `OPENERS`. A format is
loaded when a savepoint has a handle of it.

The outline of a savepoint is a digest of what decides on its states and their types; `Savepoint.outline` makes it:

| parts | of |
|---|---|
| version, text of `stateInfo` | the savepoint |
| id, uid, name, max parallelism, coordinator, layouts of connectors | each operator |
| role, opener, and what `Opener.outline` returns | each handle of it, by subtask |
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, ClassVar, Generic, TypeVar

from readers.errors import UnsupportedStateError
from readers.formats.entry import StateKind
from readers.formats.inflight import InFlightRecords
from readers.formats.source import Source
from readers.metadata import (
    ChangelogStateBackendHandle,
    IncrementalRemoteKeyedStateHandle,
    KeyedStateHandle,
    KeyGroupsSavepointStateHandle,
    KeyGroupsStateHandle,
    MasterState,
    OperatorStreamStateHandle,
    StateRole,
    StreamStateHandle,
    SubtaskChannels,
)
from readers.serializers.base import Serializer
from readers.storage.location import Ranges, SavepointLocation

_Handle = TypeVar("_Handle", contravariant=True)
_LENGTH_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class OpeningContext:
    """The surroundings of a handle in its savepoint.

    Attributes:
        location: opens the streams of the handle.
        subtask: index of the handle's subtask.
        operator_id: 32 hex digits.
        max_parallelism: number of key groups of the operator.
        siblings: the managed keyed state of all subtasks of the operator; a changelog may find the type of its keys there.
        stated_key: the type of the keys that `stateInfo` states; used where no handle records it.
        in_flight: the channel state of the whole savepoint; None where a savepoint cannot have any.
    """

    location: SavepointLocation
    subtask: int = 0
    operator_id: str = ""
    max_parallelism: int = 1
    siblings: tuple[KeyedStateHandle, ...] = ()
    stated_key: Serializer | None = None
    in_flight: InFlightRecords | None = None


class Opener(ABC, Generic[_Handle]):
    """Opens the handles of one class.

    Attributes:
        family: the kind that stands for all states of such a handle, for one that cannot be opened.
        sources: the classes of the sources that it returns.
    """

    family: StateKind
    sources: ClassVar[tuple[type[Source], ...]]

    @abstractmethod
    def open(self, handle: _Handle, context: OpeningContext) -> Source:
        """Open a handle: read its header, and no entries.

        Raises:
            UnsupportedStateError: no format here reads such handles; the message names the class.
            ReaderError: a file is missing or contradicts its format.
        """

    def outline(self, handle: _Handle, context: OpeningContext) -> bytes | None:
        """Return bytes that decide on the states of a handle and their types: of handles with the same, `open` finds the same.

        A format whose header decides overrides this. None where only `open` knows, or would fail.

        Raises:
            ReaderError: `open` would raise it, too.
        """
        return None

    def first_ranges(
        self, handle: _Handle, *, first: bool, few: bool
    ) -> Iterator[tuple[StreamStateHandle, Ranges]]:
        """Yield the byte ranges of remote streams that `open` reads, so that those of all handles are fetched at once.

        Args:
            handle: a handle of a subtask.
            first: True for the first subtask; bytes that are the same for all subtasks are fetched for it alone.
            few: True if the operator has few subtasks. Then ranges on the way to the entries are fetched as well: that costs
                little, and saves a lookup two round trips.
        """
        yield from ()


class RefusingOpener(Opener[KeyedStateHandle]):
    """Refuses handles that Flink never records in a role.

    Args:
        family: the kind of the states that cannot be read.
        expected: the handles that the role may have, for the message.
    """

    sources = ()

    def __init__(self, family: StateKind, expected: str) -> None:
        self.family = family
        self._expected = expected

    def open(self, handle: KeyedStateHandle, context: OpeningContext) -> Source:
        raise UnsupportedStateError(f"expected {self._expected}, found {type(handle).__name__}")


def opener_of(role: StateRole, handle: object) -> Opener[Any]:
    """Return the opener of a handle in its role: that of its class, else that of the nearest base class."""
    # A class that Flink derived later (file merging) has the layout of its base; the last base of every role is in the table.
    return next(_opener(role, kind) for kind in type(handle).__mro__ if (role, kind) in OPENERS)


def openers() -> Iterator[Opener[Any]]:
    """Yield the openers of all formats; loads all of them."""
    return (_opener(role, kind) for role, kind in OPENERS)


@cache
def _opener(role: StateRole, kind: type) -> Opener[Any]:
    place = OPENERS[role, kind]
    if isinstance(place, Opener):
        return place
    module, _, name = place.partition(":")
    opener: Opener[Any] = getattr(import_module(module), name)()
    return opener


def framed(parts: Iterable[bytes]) -> bytes:
    """Return parts as one text of bytes, which no other parts have."""
    pieces: list[bytes] = []
    for part in parts:
        pieces += (len(part).to_bytes(_LENGTH_BYTES, "big"), part)
    return b"".join(pieces)


_FORMATS = "readers.formats."

OPENERS: dict[tuple[StateRole, type], str | Opener[Any]] = {
    (StateRole.MANAGED_OPERATOR, OperatorStreamStateHandle): _FORMATS + "operatorstate:OperatorOpener",
    (StateRole.RAW_OPERATOR, OperatorStreamStateHandle): _FORMATS + "operatorstate:RawOperatorOpener",
    (StateRole.MANAGED_KEYED, KeyGroupsSavepointStateHandle): _FORMATS + "full.source:FullOpener",
    (StateRole.MANAGED_KEYED, KeyGroupsStateHandle): _FORMATS + "heap.source:KeyGroupsOpener",
    (StateRole.MANAGED_KEYED, IncrementalRemoteKeyedStateHandle): _FORMATS + "rocksdb.source:RocksOpener",
    (StateRole.MANAGED_KEYED, ChangelogStateBackendHandle): _FORMATS + "changelog.source:ChangelogOpener",
    (StateRole.MANAGED_KEYED, KeyedStateHandle): RefusingOpener(
        StateKind.VALUE, "heap, full or RocksDB snapshots or a changelog"
    ),
    (StateRole.RAW_KEYED, KeyGroupsStateHandle): _FORMATS + "rawtimers:RawKeyedOpener",
    (StateRole.RAW_KEYED, KeyedStateHandle): RefusingOpener(
        StateKind.RAW_KEYED, "raw keyed state as key groups"
    ),
    (StateRole.CHANNEL, SubtaskChannels): _FORMATS + "channelstate:ChannelOpener",
    (StateRole.COORDINATOR, StreamStateHandle): _FORMATS + "operatorstate:CoordinatorOpener",
    (StateRole.MASTER, MasterState): _FORMATS + "operatorstate:MasterOpener",
}
"""Role and class of a handle → its opener, or `module:class` of it."""
