"""Opens the handles of `_metadata`: `OPENERS` is the only place that maps a class of handle to a format.

To add a format: a class of handle in `metadata/model.py` with a line in `metadata/handles.py`, a folder here with a `Source` and an
`Opener`, and one line in `OPENERS`. A format is loaded when a savepoint has a handle of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any

from readers.errors import UnsupportedStateError
from readers.formats.entry import StateKind
from readers.formats.opener import Opener, OpeningContext
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


def changelog_opener() -> Opener[Any]:
    """Return the opener of changelogs, which opens what a changelog goes on from by the table, too."""
    from readers.formats.changelog.source import ChangelogOpener  # loaded when it is needed, as all formats

    return ChangelogOpener(lambda handle: opener_of(StateRole.MANAGED_KEYED, handle))


@cache
def _opener(role: StateRole, kind: type) -> Opener[Any]:
    place = OPENERS[role, kind]
    if isinstance(place, Opener):
        return place
    module, _, name = place.partition(":")
    opener: Opener[Any] = getattr(import_module(module), name)()
    return opener


_FORMATS = "readers.formats."

OPENERS: dict[tuple[StateRole, type], str | Opener[Any]] = {
    (StateRole.MANAGED_OPERATOR, OperatorStreamStateHandle): _FORMATS + "operatorstate.source:OperatorOpener",
    (StateRole.RAW_OPERATOR, OperatorStreamStateHandle): _FORMATS + "opaque:RawOperatorOpener",
    (StateRole.MANAGED_KEYED, KeyGroupsSavepointStateHandle): _FORMATS + "full.source:FullOpener",
    (StateRole.MANAGED_KEYED, KeyGroupsStateHandle): _FORMATS + "heap.source:KeyGroupsOpener",
    (StateRole.MANAGED_KEYED, IncrementalRemoteKeyedStateHandle): _FORMATS + "rocksdb.source:RocksOpener",
    (StateRole.MANAGED_KEYED, ChangelogStateBackendHandle): _FORMATS + "opening:changelog_opener",
    (StateRole.MANAGED_KEYED, KeyedStateHandle): RefusingOpener(
        StateKind.VALUE, "heap, full or RocksDB snapshots or a changelog"
    ),
    (StateRole.RAW_KEYED, KeyGroupsStateHandle): _FORMATS + "rawtimers.source:RawKeyedOpener",
    (StateRole.RAW_KEYED, KeyedStateHandle): RefusingOpener(
        StateKind.RAW_KEYED, "raw keyed state as key groups"
    ),
    (StateRole.CHANNEL, SubtaskChannels): _FORMATS + "channelstate.source:ChannelOpener",
    (StateRole.COORDINATOR, StreamStateHandle): _FORMATS + "opaque:CoordinatorOpener",
    (StateRole.MASTER, MasterState): _FORMATS + "opaque:MasterOpener",
}
"""Role and class of a handle → its opener, or `module:name` of what makes it."""
