"""`Source`: an opened handle, with the states that it holds and the entries of each.

A source is frozen. What becomes known after it was opened (names of fields, subclasses of a POJO) goes into a new one: `refine`.

Two seams go around decoding: `KeyBounds`, for those who only count keys, and `DifferingPages`, for those who compare two sources.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from readers.decode.decoder import Page
from readers.decode.program import Program
from readers.errors import CorruptDataError, ReaderError
from readers.formats.entry import Entry, EntryLayout, column_type
from readers.headers import StoredHeader
from readers.metadata import (
    KeyedStateHandle,
    KeyGroupRange,
    KeyGroupsSavepointStateHandle,
    StreamStateHandle,
)
from readers.serializers.base import Serializer
from readers.storage.location import SavepointLocation

KeyBounds = Callable[[Page], tuple[NDArray[np.int64], NDArray[np.int64]]]
"""Returns where the key of each entry of a page begins and ends in its buffer: two int64 arrays of its length."""


KeyReader = Callable[[Page], Iterator[tuple[Page, pa.Array]]]
"""Yields the entries of a page, some at a time, with their keys."""


def checked_bounds(
    page: Page, starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the bounds.

    Raises:
        CorruptDataError: one ends before it begins, because the entry is too short for what stands around the key.
    """
    short = np.flatnonzero(ends < starts)
    if len(short):
        at = int(starts[short[0]])
        raise CorruptDataError(
            "expected an entry with a key, found a shorter one", path=page.path, position=at
        )
    return starts, ends


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferingPages:
    """Entries of one state that may differ between two sources.

    All entries of both sides that have the same key, namespace and map key are in the same ones, or in none: then both sides
    have the same bytes. Entries with equal bytes may be here, too: nobody relies on their absence.

    Attributes:
        before, after: the entries of either side, in the layout of its source; they may be iterated several times.
        equal_entries: how many entries with equal bytes on both sides were left out since the last pages; None if they were not
            read.
    """

    before: Iterable[Page]
    after: Iterable[Page]
    equal_entries: int | None = 0


@dataclass(frozen=True, slots=True)
class PagesAnew:
    """Pages that are made each time they are iterated, as they would take much memory together.

    Attributes:
        make: makes them.
    """

    make: Callable[[], Iterator[Page]]

    def __iter__(self) -> Iterator[Page]:
        return self.make()


class CollectedPages:
    """Entries that may differ, collected until they are worth decoding: of most key groups only a few do."""

    def __init__(self) -> None:
        self._before: list[Page] = []
        self._after: list[Page] = []
        self._equal: int | None = 0

    def add(
        self, before: Iterable[Page], after: Iterable[Page], equal_entries: int | None
    ) -> Iterator[DifferingPages]:
        """Add entries of whole key groups, and yield what has come together."""
        self._before += before
        self._after += after
        self._equal = None if self._equal is None or equal_entries is None else self._equal + equal_entries
        if sum(map(len, (*self._before, *self._after))) >= _WORTH_DECODING:
            yield from self.rest()

    def rest(self) -> Iterator[DifferingPages]:
        """Yield what is left."""
        if self._before or self._after or self._equal != 0:
            yield DifferingPages(
                before=tuple(self._before), after=tuple(self._after), equal_entries=self._equal
            )
        self._before, self._after, self._equal = [], [], 0


_WORTH_DECODING = 1 << 15  # entries


_WALK_COST = 8  # to decompress or decode a byte, beside stepping over it


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The entries of a state to read; a predicate is pushed down as one.

    Attributes:
        key_groups: the key groups to read; None for all.
        keys: (key group, key) of the entries to read, for sources that can find a key; None for all. A source may return
            entries of other keys too.
        account: called with the number of bytes that are read.
    """

    key_groups: frozenset[int] | None = None
    keys: tuple[tuple[int, Any], ...] | None = None
    account: Callable[[int], None] = lambda _: None

    def wants(self, key_group: int) -> bool:
        """Return whether entries of a key group are to be read."""
        return self.key_groups is None or key_group in self.key_groups


@dataclass(frozen=True, slots=True, kw_only=True)
class StateName:
    """The name of a state, unique in a source: a timer state may share its `name` with another state."""

    name: str
    timers: bool = False


EntryChange = Callable[[StateName, Entry], Entry]
"""Returns the entry of a state with what is known of it from elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRun:
    """Entries of one state that follow each other in a stored key group, each as canonical savepoints have them.

    Attributes:
        state: the id of the state.
        start, end: where they begin and end; the last one says that the id of another state follows.
    """

    state: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredGroup:
    """The plain bytes of a key group in a canonical savepoint.

    Attributes:
        data: a buffer.
        runs: where each state has its entries.
        pages: yields the entries of a state, as `Source.pages` does, without reading the key group again.
        release: called with ranges of `data` that are not read again.
    """

    data: NDArray[np.uint8]
    runs: tuple[StateRun, ...]
    pages: Callable[[StateName], Iterator[Page]]
    release: Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How much of a state a source has in one key group.

    Attributes:
        state: the name of the state.
        key_group: -1 for operator state.
        entries: as the format stores them: of a map, `hashmap` has one for the whole map, others have one for each entry of it.
        size_bytes: of these entries in the file.
        is_estimate: whether the two numbers are estimates.
        origin: `metadata`, `headers`, `sst properties`, or `scan` where entries had to be found.
        stored: entries in files of RocksDB, those that were overwritten or deleted among them; 0 for other formats.
        deleted: those of them that delete, and those that these delete.
    """

    state: StateName
    key_group: int
    entries: int | None
    size_bytes: int | None
    is_estimate: bool = False
    origin: str = "scan"
    stored: int = 0
    deleted: int = 0


@dataclass(frozen=True, slots=True)
class StateSize:
    """The bytes of one state.

    Attributes:
        size_bytes: None if they are not known.
        is_estimate: whether the number is made from a part of the key groups.
    """

    size_bytes: int | None
    is_estimate: bool = False

    @classmethod
    def of_all(cls, sizes: Iterable[StateSize]) -> StateSize:
        """Return the sum; not known as soon as one of them is not."""
        known = list(sizes)
        if any(size.size_bytes is None for size in known):
            return cls(None)
        total = sum(size.size_bytes for size in known if size.size_bytes is not None)
        return cls(total, any(size.is_estimate for size in known))


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """The first entries of a state in a source.

    Attributes:
        entries: the segments of each entry, as those of a `Page`.
        bytes_read: how many bytes of the source were looked at.
        is_whole: True if these are all entries of the state.
    """

    entries: tuple[tuple[bytes, ...], ...] = ()
    bytes_read: int = 0
    is_whole: bool = False


class StoredGroups(ABC):
    """The key groups of one stream of a canonical savepoint."""

    @property
    @abstractmethod
    def delegate(self) -> StreamStateHandle:
        """The handle of the stream."""

    @property
    @abstractmethod
    def regions(self) -> Mapping[int, tuple[int, int]]:
        """Where each key group that is not empty begins and ends in the stream, in the order of their places."""

    @abstractmethod
    def group(self, key_group: int) -> StoredGroup | None:
        """Return a key group, decompressed; None if its states alternate: their entries are found by `Source.pages`.

        Raises:
            ReaderError: the bytes contradict the format.
        """


@dataclass(frozen=True, kw_only=True, eq=False)
class Source(ABC):
    """One opened handle of one subtask.

    Attributes:
        subtask: index of the subtask.
        path: the file, as the savepoint names it.
        size_bytes: size of the handle's state.
        entries: the serializers of each state's entries.
        location: where the files of the savepoint are; None if it is not known.
        backend: `hashmap`, `rocksdb`, `forst`, `changelog`, or `canonical` where all backends write the same layout.
        is_composite: True if an entry is a composite key and a value, as canonical savepoints have them.
        is_ordered: True if entries come in the order of their bytes, so that those of a key follow each other; not for timers.
        frames_values: True if the end of a value is known whatever its type.
        keeps_old_bytes: True if entries may be as an earlier version of Flink wrote them.
        frames_entries: True if the end of an entry is known whatever its types; else entries whose ends are not known
            become one row.
        describes_all: True if the serializers that wrote the values wrote the snapshots too, so that these describe every class.
    """

    # Compared by identity (eq=False): a source holds arrays and open files, and the parts of several states share it.
    subtask: int
    path: str
    size_bytes: int
    entries: Mapping[StateName, Entry]
    location: SavepointLocation | None = None

    backend: ClassVar[str] = "canonical"
    is_composite: ClassVar[bool] = False
    is_ordered: ClassVar[bool] = False
    frames_values: ClassVar[bool] = False
    keeps_old_bytes: ClassVar[bool] = False
    frames_entries: ClassVar[bool] = True
    describes_all: ClassVar[bool] = False

    @property
    def key_group_range(self) -> KeyGroupRange | None:
        """Key groups of the handle; None for operator state."""
        return None

    @property
    def recorded(self) -> KeyedStateHandle | None:
        """The handle of keyed state that it was opened from; None for other state."""
        return None

    @property
    def layouts(self) -> frozenset[str]:
        """The layouts of keyed state: `canonical`, or the backend that restores it; `changelog`, and those of its base.

        RocksDB before 1.13, and its full checkpoints up to 1.15, have the canonical layout behind a handle that hashmap takes for its
        own.
        """
        if self.backend == "canonical" and not isinstance(self.recorded, KeyGroupsSavepointStateHandle):
            return frozenset({"rocksdb"})
        return frozenset({self.backend})

    @property
    def key_serializer(self) -> Serializer | None:
        """Serializer of the keys of all states; None where the source does not record it."""
        return None

    def stored_header(self) -> StoredHeader | None:
        """Return the header of its keyed states, in whose order states are numbered; None if it has none.

        Raises:
            ReaderError: its file is missing.
        """
        return None

    def stored_groups(self) -> StoredGroups | None:
        """Return its key groups as canonical savepoints store them; None if it stores them otherwise."""
        return None

    @property
    def is_near(self) -> bool:
        """True if reading its entries takes no request to another machine."""
        return True

    def streams(self) -> Iterator[StreamStateHandle]:
        """Yield the handles of all streams that it reads; none if it also reads others, or bytes that have no handle."""
        yield from ()

    def has_bytes_of(self, other: Source) -> bool:
        """Return whether it reads the same bytes of the same files as another source; False if it is not known. Reads none.

        Raises:
            ReaderError: a file is missing.
        """
        return False

    @abstractmethod
    def columns(self, entry: Entry) -> dict[str, pa.DataType]:
        """Return the columns of an entry in this layout."""

    @abstractmethod
    def emit(self, program: Program, layout: EntryLayout, entry: Entry) -> None:
        """Declare the layout of an entry."""

    def emit_undescribed(
        self, program: Program, layout: EntryLayout, entry: Entry, *, whole: bool = False
    ) -> None:
        """Declare the layout of an entry that holds an object of a class that the savepoint does not describe.

        Only sources that frame values can: see `frames_values`. With `whole` a list is shown as bytes too, without the
        elements before the object.
        """
        raise NotImplementedError

    @abstractmethod
    def pages(self, state: StateName, selection: Selection) -> Iterator[Page]:
        """Yield the entries of a state.

        Raises:
            ReaderError: the file is missing or contradicts its format.
        """

    def beginning(self, state: StateName, most_bytes: int) -> Beginning:
        """Return its first entries of a state, from at most so many bytes; none if the format does not find them so cheaply.

        Bytes of other states that stand before them count. Nothing is fetched from another machine.

        Raises:
            ReaderError: the file is missing or contradicts its format.
        """
        return Beginning()

    def differing(
        self, state: StateName, other: Source, other_state: StateName, selection: Selection
    ) -> Iterator[DifferingPages] | None:
        """Yield the entries of a state that may differ from those of a state of another source: see `readers.differences`.

        None if this source knows no way to leave out equal entries of the other one: then both are read whole.

        Raises:
            ReaderError: a file is missing or contradicts its format.
        """
        return None

    def counts(self, state: StateName, selection: Selection) -> Iterator[tuple[int, int]]:
        """Yield (key group, number of entries); a key group may come several times, and is -1 for operator state.

        The numbers add up to the entries of `pages`. A format that records them overrides this and reads no entry.

        Raises:
            ReaderError: the file is missing or contradicts its format.
        """
        for page in self.pages(state, selection):
            yield from page.counts()

    def tallies(self, states: Sequence[StateName], selection: Selection) -> Iterator[Tally]:
        """Yield how much of some states it has in each key group, in no order; those of a key group add up.

        A format that records more than entries overrides this, and reads less.

        Raises:
            ReaderError: the file is missing or contradicts its format.
        """
        for state in states:
            for page in self.pages(state, selection):
                sizes = (page.ends - page.starts).sum(axis=1)
                groups, places = np.unique(page.key_groups, return_inverse=True)
                # How many entries stand in a range whose entries cannot be told apart is not known.
                counts = [None] * len(groups) if page.undivided else np.bincount(places).tolist()
                totals = np.bincount(places, weights=sizes).astype(np.int64).tolist()
                for group, count, total in zip(groups.tolist(), counts, totals, strict=True):
                    yield Tally(state=state, key_group=group, entries=count, size_bytes=total)

    def key_bounds(self, state: StateName) -> KeyBounds | None:
        """Return what finds the bytes of keys in the pages of a state; None if they are not found.

        It belongs to one thread, and raises ReaderError where bytes contradict the format. The bytes of a key are the same in all
        states of an operator.
        """
        return None

    def key_reader(self, state: StateName) -> KeyReader | None:
        """Return what reads the keys of entries alone; None if the end of a key is not known.

        It belongs to one thread, and raises ReaderError where bytes contradict the format.
        """
        entry, bounds = self.entries[state], self.key_bounds(state)
        if bounds is None:
            return None
        layout = EntryLayout({"key": column_type(entry, "key")})
        decoder = layout.decoder(lambda program, columns: columns.emit(program, entry, "key"))

        def keys(page: Page) -> Iterator[tuple[Page, pa.Array]]:
            starts, ends = bounds(page)
            done = 0
            for batch in decoder.decode(replace(page, starts=starts[:, None], ends=ends[:, None])):
                yield page.slice(done, done + len(batch.page)), batch.arrays[0]
                done += len(batch.page)

        return keys

    def plain_bytes(self, state: StateName) -> int | None:
        """Return the bytes of all keys and values in its files, those that count no more among them; None if not recorded."""
        return None

    @property
    def tallied_bytes(self) -> int:
        """About how many bytes `tallies` reads."""
        return self.size_bytes

    def refine(self, change: EntryChange) -> Self:
        """Return a source of the same handle with `change` applied to the entry of every state."""
        return replace(self, entries={name: change(name, entry) for name, entry in self.entries.items()})

    def assuming(self, described: Mapping[StateName, Entry]) -> Self:
        """Return a source that may fall back on entries as the savepoint alone describes them.

        The types of `entries` may be those of other classes. Where entries carry no lengths, that moves the ends of all that
        follow.
        """
        return self

    def cost_bytes(self, state: StateName) -> int:
        """Return about how many bytes a scan of the whole state reads."""
        return self.size_bytes

    @property
    def walk_bytes(self) -> int:
        """What it costs to find where each state has its entries, as a number of bytes that are read without being decoded."""
        return _WALK_COST * self.size_bytes

    def own_size(self, state: StateName, share: float) -> StateSize:
        """Return the bytes of one state, without those of other states; the states of a source have at most its size together.

        Args:
            state: its name.
            share: how much of the source may be walked to find them, up to 1 for all of it.
        """
        return StateSize(self.size_bytes if len(self.entries) <= 1 else None)

    def damage(self) -> ReaderError | None:
        """Return the error that a scan would raise at once, if that shows without reading entries; None if there is none."""
        return None

    def key_group_bytes(self, state: StateName) -> list[tuple[int, int]] | None:
        """Return (key group, about how many bytes a scan of it reads), by position; None if there are no key groups."""
        return None

    def close(self) -> None:  # noqa: B027  # most hold nothing
        """Release the files that the source holds open."""


@dataclass(frozen=True, kw_only=True, eq=False)
class HandleSource(Source):
    """A source that reads all streams of one handle of keyed state, and no others.

    Attributes:
        handle: names its streams and key groups.
    """

    handle: KeyedStateHandle

    @property
    def recorded(self) -> KeyedStateHandle:
        return self.handle

    def streams(self) -> Iterator[StreamStateHandle]:
        return self.handle.streams()

    @property
    def key_group_range(self) -> KeyGroupRange:
        return self.handle.key_group_range
