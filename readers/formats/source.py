"""What every source says of its states, and gives of their entries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from readers.decode.page import Page
from readers.decode.program import Program
from readers.formats.entry import Entry, EntryLayout
from readers.metadata import KeyedStateHandle, KeyGroupRange, StreamStateHandle
from readers.serializers.base import Serializer


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which entries of a state to read; what a predicate leaves.

    Attributes:
        key_groups: these only; None for all.
        keys: entries of these keys only, where the source can tell them; None for all. Other keys may come along.
        account: called with the number of bytes that are read.
    """

    key_groups: frozenset[int] | None = None
    keys: tuple[tuple[int, Any], ...] | None = None
    account: Callable[[int], None] = lambda _: None

    def wants(self, key_group: int) -> bool:
        """Whether a key group may hold wanted entries."""
        return self.key_groups is None or key_group in self.key_groups


@dataclass(frozen=True, slots=True, kw_only=True)
class StateName:
    """What tells the states of a source apart: a timer state may share its name with another."""

    name: str
    timers: bool = False


class Source(ABC):
    """One handle of one subtask.

    Attributes:
        subtask: whose state it is.
        path: the file, as the savepoint names it.
        backend: `hashmap`, `rocksdb`, `forst`, `changelog`, or `canonical` where the layout is the same for all.
        size_bytes: of the handle.
        frames_values: whether the end of a value is known whatever its type.
        frames_entries: whether that of an entry is; else entries that cannot be told apart are one row.
    """

    backend: str = "canonical"
    frames_values: bool = False
    frames_entries: bool = True

    def __init__(self, subtask: int, path: str, size_bytes: int) -> None:
        self.subtask = subtask
        self.path = path
        self.size_bytes = size_bytes

    @property
    def key_group_range(self) -> KeyGroupRange | None:
        """The key groups of the handle; None for operator state."""
        return None

    @property
    def key_serializer(self) -> Serializer | None:
        """Of the keys of all states, where the source says it."""
        return None

    def streams(self) -> Iterator[StreamStateHandle]:
        """The handles of all that it reads; none where it reads more than that, or what is no handle's."""
        yield from ()

    @cached_property
    @abstractmethod
    def entries(self) -> dict[StateName, Entry]:
        """The states in it, with what their entries are made of."""

    @abstractmethod
    def columns(self, entry: Entry) -> dict[str, pa.DataType]:
        """The columns of an entry in this source's layout."""

    @abstractmethod
    def emit(self, program: Program, layout: EntryLayout, entry: Entry) -> None:
        """Declare the layout of an entry."""

    def emit_undescribed(self, program: Program, layout: EntryLayout, entry: Entry) -> None:
        """As `emit`, for an entry whose value is of a class that the savepoint does not describe.

        Only sources whose values have a known end can; `frames_values` says which.
        """
        raise NotImplementedError

    @abstractmethod
    def pages(self, state: StateName, selection: Selection) -> Iterator[Page]:
        """The entries of a state.

        Raises:
            ReaderError: as the format does.
        """

    def counts(self, state: StateName, selection: Selection) -> Iterator[tuple[int, int]]:
        """(key group, number of entries) of a state, as often as the source likes; key group -1 where there is none.

        As many entries as `pages` gives; where the format tells their number, they are not looked at.

        Raises:
            ReaderError: as the format does.
        """
        for page in self.pages(state, selection):
            yield from page.counts()

    def refine(self, change: Callable[[Serializer], Serializer]) -> None:
        """Apply what is known from elsewhere to the type trees of every state; before anything is read."""
        for name, entry in self.entries.items():
            self.entries[name] = entry.refined(change)

    def cost_bytes(self, state: StateName) -> int:
        """About how many bytes a scan of the whole state reads."""
        return self.size_bytes

    def key_group_bytes(self, state: StateName) -> list[tuple[int, int]] | None:
        """(key group, about how many bytes a scan of it reads), in order of position; None where there are no key groups."""
        return None

    def close(self) -> None:  # noqa: B027  # most hold nothing
        """Release what the source holds."""


class HandleSource(Source):
    """One that reads all of a handle of keyed state, and nothing else.

    Attributes:
        handle: names its streams and key groups.
    """

    handle: KeyedStateHandle

    def streams(self) -> Iterator[StreamStateHandle]:
        return self.handle.streams()

    @property
    def key_group_range(self) -> KeyGroupRange:
        return self.handle.key_group_range
