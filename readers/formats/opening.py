"""Opens the handles of `_metadata`: `OPENERS` is the only place that maps a class of handle to a format.

To add a format: a class of handle in `metadata/model.py` with a line in `metadata/handles.py`, a folder here with a `Source` and an
`Opener`, and one line in `OPENERS`.
"""

from __future__ import annotations

from typing import Any

from readers.errors import UnsupportedStateError
from readers.formats.changelog.source import ChangelogOpener
from readers.formats.channelstate.source import ChannelOpener
from readers.formats.entry import StateKind
from readers.formats.full.source import FullOpener
from readers.formats.heap.source import KeyGroupsOpener
from readers.formats.opaque import CoordinatorOpener, MasterOpener, RawOperatorOpener
from readers.formats.opener import Opener, OpeningContext
from readers.formats.operatorstate.source import OperatorOpener
from readers.formats.rawtimers.source import RawKeyedOpener
from readers.formats.rocksdb.source import RocksOpener
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
    return next(OPENERS[role, kind] for kind in type(handle).__mro__ if (role, kind) in OPENERS)


# The table does not exist yet when the changelog's opener is made for it: that gets this function.
def _opener_of_base(handle: KeyedStateHandle) -> Opener[Any]:
    return opener_of(StateRole.MANAGED_KEYED, handle)


OPENERS: dict[tuple[StateRole, type], Opener[Any]] = {
    (StateRole.MANAGED_OPERATOR, OperatorStreamStateHandle): OperatorOpener(),
    (StateRole.RAW_OPERATOR, OperatorStreamStateHandle): RawOperatorOpener(),
    (StateRole.MANAGED_KEYED, KeyGroupsSavepointStateHandle): FullOpener(),
    (StateRole.MANAGED_KEYED, KeyGroupsStateHandle): KeyGroupsOpener(),
    (StateRole.MANAGED_KEYED, IncrementalRemoteKeyedStateHandle): RocksOpener(),
    (StateRole.MANAGED_KEYED, ChangelogStateBackendHandle): ChangelogOpener(_opener_of_base),
    (StateRole.MANAGED_KEYED, KeyedStateHandle): RefusingOpener(
        StateKind.VALUE, "heap, full or RocksDB snapshots or a changelog"
    ),
    (StateRole.RAW_KEYED, KeyGroupsStateHandle): RawKeyedOpener(),
    (StateRole.RAW_KEYED, KeyedStateHandle): RefusingOpener(
        StateKind.RAW_KEYED, "raw keyed state as key groups"
    ),
    (StateRole.CHANNEL, SubtaskChannels): ChannelOpener(),
    (StateRole.COORDINATOR, StreamStateHandle): CoordinatorOpener(),
    (StateRole.MASTER, MasterState): MasterOpener(),
}
