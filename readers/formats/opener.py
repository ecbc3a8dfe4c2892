"""`Opener`: what a format does with the handles that `_metadata` records for it. `opening.OPENERS` lists them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from readers.formats.channelstate.layout import InFlightRecords
from readers.formats.entry import StateKind
from readers.formats.source import Source
from readers.metadata import KeyedStateHandle, StreamStateHandle
from readers.serializers.base import Serializer
from readers.storage.location import Ranges, SavepointLocation

_Handle = TypeVar("_Handle", contravariant=True)


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
