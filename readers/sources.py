"""One state handle of one subtask: opens its header, and gives the pages of a state.

A `Source` joins a format with the storage. Kinds:

| source | handle | layout |
|---|---|---|
| FullSource | KeyGroupsStateHandle, KeyGroupsSavepointStateHandle | `formats/full.py` |
| HeapSource | KeyGroupsStateHandle | `formats/heap.py` |
| RocksSource | IncrementalRemoteKeyedStateHandle | `formats/rocksdb.py` |
| ChangelogSource | ChangelogStateBackendHandle | `formats/changelog.py`, `formats/replay.py` |
| RawTimerSource | KeyGroupsStateHandle of raw keyed state | `formats/rawtimers.py` |
| OperatorSource | OperatorStreamStateHandle | `formats/operatorstate.py` |
| ChannelSource | ChannelStateHandle | `formats/channelstate.py` |

Headers are read when a source is opened, entries when `pages` is iterated.
"""

from __future__ import annotations

import shutil
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from readers.cursor import Cursor
from readers.decode.page import Page
from readers.decode.program import Program
from readers.errors import (
    CorruptDataError,
    ReaderError,
    UnsupportedSerializerError,
    UnsupportedStateError,
    UnsupportedVersionError,
)
from readers.formats import (
    changelog,
    channelstate,
    composite,
    deducedkeys,
    full,
    heap,
    heapmaps,
    operatorstate,
    rawtimers,
    replay,
)
from readers.formats.entry import Entry, EntryLayout, StateKind, keyed_entry, operator_entry
from readers.formats.operatorstate import element_bounds
from readers.formats.regions import regions
from readers.formats.rocksdb import RocksDatabase, files_of, is_forst, options_files, read_only_copy
from readers.formats.rocksfiles import RemoteFiles
from readers.formats.snappy import decompress
from readers.formats.sst import Directory, Files
from readers.keygroups import key_group_bytes
from readers.metadata import (
    ChangelogStateBackendHandle,
    IncrementalRemoteKeyedStateHandle,
    KeyedStateHandle,
    KeyGroupRange,
    KeyGroupsStateHandle,
    MasterState,
    OperatorStreamStateHandle,
    StateObject,
    StreamStateHandle,
)
from readers.serializers.base import OpaqueSerializer, Serializer
from readers.stateinfo.metainfo import BackendStateType
from readers.stateinfo.proxies import (
    KeyedHeader,
    OperatorHeader,
    read_keyed_header,
    read_known_keyed_header,
    read_known_operator_header,
    read_operator_header,
)
from readers.storage import BufferStream, Places, ReadCounter, SavepointLocation, Stream

_Header = TypeVar("_Header")

_ORDER_TRIES = 8
_LARGE_HEADER_BYTES = 1 << 20
# A smaller file is fetched as a whole: its data are as likely to be asked for as its header.
_SMALL_BYTES = 1 << 16
_NUMBER_BYTES = 4
EVENT_TIMERS = "_timer_state/event_"
PROCESSING_TIMERS = "_timer_state/processing_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which entries of a state to read; what a predicate leaves.

    Attributes:
        key_groups: these only; None for all.
        keys: entries of these keys only, where the source can seek; None for all. Other keys may come along.
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


class KeyedStreamSource(Source):
    """What FullSource and HeapSource share: a stream with a proxy and key-group offsets."""

    def __init__(
        self, subtask: int, handle: KeyGroupsStateHandle, stream: Stream, max_parallelism: int
    ) -> None:
        super().__init__(subtask, stream.path, handle.size_bytes)
        self.handle = handle
        self.stream = stream
        self.max_parallelism = max_parallelism

    def streams(self) -> Iterator[StreamStateHandle]:
        return self.handle.streams()

    @property
    def key_group_range(self) -> KeyGroupRange:
        return self.handle.key_group_range

    @cached_property
    def header(self) -> KeyedHeader:
        """The KeyedBackendSerializationProxy at the start of the stream: it ends where the first key group begins."""
        end = _first_offset(self.handle.offsets)
        return _header(self.stream, end, read_known_keyed_header, read_keyed_header)

    @cached_property
    def entries(self) -> dict[StateName, Entry]:
        return dict(_keyed_entries(self.header))

    @cached_property
    def _names(self) -> tuple[StateName, ...]:
        """The names of the states in the order of their ids."""
        return tuple(name for name, _ in _keyed_entries(self.header))

    def key_group_bytes(self, state: StateName) -> list[tuple[int, int]]:
        regions = self._regions()
        return [(key_group, end - start) for key_group, start, end in regions]

    @abstractmethod
    def _regions(self) -> Iterator[tuple[int, int, int]]:
        """(key group, start, end) of the key groups in the stream."""

    def _release(self, start: int, end: int) -> None:
        """What stands in a key group is done with, from … to; what was decompressed goes by itself."""
        if not self.header.compressed:
            self.stream.release(start, end - start)

    def _wanted(self, selection: Selection) -> Iterator[tuple[tuple[int, int, int], NDArray[np.uint8]]]:
        """The regions of a selection, each with an array that has its bytes."""
        wanted = [region for region in self._regions() if selection.wants(region[0])]
        return zip(wanted, self.stream.spans([region[1:] for region in wanted]), strict=True)

    def _id_of(self, state: StateName) -> int:
        return self._names.index(state)

    def _page(
        self, data: NDArray[np.uint8], bounds: tuple[NDArray[np.int64], NDArray[np.int64]], key_group: int
    ) -> Page:
        starts, ends = bounds
        return Page(
            data=data,
            starts=starts,
            ends=ends,
            key_groups=np.full(len(starts), key_group, dtype=np.int32),
            subtask=self.subtask,
            path=self.path,
        )


class FullSource(KeyedStreamSource):
    """The full layout."""

    frames_values = True

    def columns(self, entry: Entry) -> dict[str, pa.DataType]:
        return composite.composite_columns(entry)

    def emit(self, program: Program, layout: EntryLayout, entry: Entry) -> None:
        composite.emit_composite(program, layout, entry, self.max_parallelism)

    def emit_undescribed(self, program: Program, layout: EntryLayout, entry: Entry) -> None:
        composite.emit_composite(program, layout, entry, self.max_parallelism, undescribed=True)

    def pages(self, state: StateName, selection: Selection) -> Iterator[Page]:
        number = self._id_of(state)
        for key_group, data, first, last in self._bodies(selection):
            for starts, ends, _ in full.cut_key_group(data, first, last, number, self.path, self._release):
                yield self._page(data, (starts, ends), key_group)

    def counts(self, state: StateName, selection: Selection) -> Iterator[tuple[int, int]]:
        number = self._id_of(state)
        for key_group, data, first, last in self._bodies(selection):
            yield key_group, full.count_key_group(data, first, last, number, self.path, self._release)

    def _bodies(self, selection: Selection) -> Iterator[tuple[int, NDArray[np.uint8], int, int]]:
        """The wanted key groups: buffer, start, end; decompressed if they are compressed."""
        for (key_group, start, end), span in self._wanted(selection):
            selection.account(end - start)
            data, first, last = span, start, end
            if self.header.compressed:
                data = decompress(Cursor(span, path=self.path, position=start, end=end))
                first, last = 0, len(data)
            yield key_group, data, first, last
            self.stream.release(start, end - start)

    def _regions(self) -> Iterator[tuple[int, int, int]]:
        return regions_of(self.handle, self.stream, absent=0)


class HeapSource(KeyedStreamSource):
    """The native layout of the hashmap backend."""

    backend = "hashmap"
    frames_values = True
    frames_entries = False

    def columns(self, entry: Entry) -> dict[str, pa.DataType]:
        return heap.heap_columns(entry)

    def emit(self, program: Program, layout: EntryLayout, entry: Entry) -> None:
        heap.emit_heap(program, layout, entry, by_namespace=self._by_namespace)

    def emit_undescribed(self, program: Program, layout: EntryLayout, entry: Entry) -> None:
        heap.emit_heap(program, layout, entry, undescribed=True, by_namespace=self._by_namespace)

    @property
    def _by_namespace(self) -> bool:
        return self.header.version <= heapmaps.LAST_HEADER_VERSION

    def pages(self, state: StateName, selection: Selection) -> Iterator[Page]:
        number = self._id_of(state)
        walker = self._walker()
        for key_group, data, first, last in self._bodies(selection):
            for cut in walker.cuts(data, first, last, number, key_group):
                if cut.piece is not None:
                    page = self._page(cut.piece.data, (cut.starts, cut.ends), key_group)
                    yield replace(page, first_index=cut.piece.first_index)
                elif len(cut.starts):
                    page = self._page(data, (cut.starts, cut.ends), key_group)
                    yield replace(page, undivided=cut.undivided)

    def counts(self, state: StateName, selection: Selection) -> Iterator[tuple[int, int]]:
        number = self._id_of(state)
        walker = self._walker()
        for key_group, data, first, last in self._bodies(selection):
            yield key_group, walker.count(data, first, last, number, key_group)

    def _bodies(self, selection: Selection) -> Iterator[tuple[int, NDArray[np.uint8], int, int]]:
        """The wanted key groups: buffer, start, end; decompressed if they are compressed."""
        for (key_group, start, end), span in self._wanted(selection):
            selection.account(end - start)
            yield key_group, *self._body(span, key_group, start, end)
            self.stream.release(start, end - start)

    @cached_property
    def _order(self) -> tuple[int, ...]:
        """The state ids in the order of the key groups, from the smallest that can be walked; empty if none can."""
        walker = self._heap_walker()
        regions = sorted(self._regions(), key=lambda region: region[2] - region[1])
        for region in regions[:_ORDER_TRIES]:
            try:
                return walker.order(*self._body(self.stream.span(*region[1:]), *region))
            except UnsupportedSerializerError:
                continue
        return ()

    @cached_property
    def _ends(self) -> dict[tuple[int, int], int | ReaderError]:
        """Where states that cannot be walked end, as far as that was asked for."""
        return {}

    def _walker(self) -> heap.HeapWalker | heapmaps.HeapMapsWalker:
        if self._by_namespace:
            return heapmaps.HeapMapsWalker([self.entries[name] for name in self._names], self.path)
        return self._heap_walker()

    def _heap_walker(self) -> heap.HeapWalker:
        states = [(name.name, self.entries[name]) for name in self._names]
        return heap.HeapWalker(
            states, lambda: self._order, self._ends, self.max_parallelism, self.path, self._release
        )

    def _body(
        self, span: NDArray[np.uint8], key_group: int, start: int, end: int
    ) -> tuple[NDArray[np.uint8], int, int]:
        compressed = self.header.compressed
        return heap.key_group_body(span, key_group, start, end, self.path, compressed=compressed)

    def _regions(self) -> Iterator[tuple[int, int, int]]:
        return regions_of(self.handle, self.stream, absent=None)


class RocksSource(Source):
    """A RocksDB instance; opened on first use: of local files in a temporary folder of links that goes with the source."""

    frames_values = True

    def __init__(
        self,
        subtask: int,
        handle: IncrementalRemoteKeyedStateHandle,
        storage: SavepointLocation,
        max_parallelism: int,
    ) -> None:
        super().__init__(subtask, handle.meta_state_handle.path or "_metadata", handle.size_bytes)
        self.handle = handle
        self.storage = storage
        self.max_parallelism = max_parallelism
        self._lock = threading.Lock()
        self._database: RocksDatabase | None = None

    @cached_property
    def backend(self) -> str:  # type: ignore[override]  # told apart by a file
        """`forst` or `rocksdb`."""
        if any(state.kind is BackendStateType.KEY_VALUE_V2 for state in self.header.states):
            return "forst"
        try:
            is_of_forst = is_forst(self.storage, self.handle)
        except ReaderError:
            is_of_forst = False
        return "forst" if is_of_forst else "rocksdb"

    def streams(self) -> Iterator[StreamStateHandle]:
        return self.handle.streams()

    @property
    def key_group_range(self) -> KeyGroupRange:
        return self.handle.key_group_range

    @cached_property
    def header(self) -> KeyedHeader:
        """The proxy, the only content of the meta stream."""
        stream = self.storage.open_stream(self.handle.meta_state_handle)
        return read_keyed_header(
            Cursor(stream.span(0, stream.size_bytes), path=self.path), expected_end=stream.size_bytes
        )

    @property
    def key_serializer(self) -> Serializer:
        return self.header.key_serializer

    @cached_property
    def entries(self) -> dict[StateName, Entry]:
        return dict(_keyed_entries(self.header))

    def columns(self, entry: Entry) -> dict[str, pa.DataType]:
        return composite.composite_columns(entry)

    def emit(self, program: Program, layout: EntryLayout, entry: Entry) -> None:
        composite.emit_composite(program, layout, entry, self.max_parallelism)

    def emit_undescribed(self, program: Program, layout: EntryLayout, entry: Entry) -> None:
        composite.emit_composite(program, layout, entry, self.max_parallelism, undescribed=True)

    def pages(self, state: StateName, selection: Selection) -> Iterator[Page]:
        return self._pages(state, selection)

    def counts(self, state: StateName, selection: Selection) -> Iterator[tuple[int, int]]:
        for page in self._pages(state, selection, keys_only=True):
            yield from page.counts()

    def _pages(self, state: StateName, selection: Selection, *, keys_only: bool = False) -> Iterator[Page]:
        width = key_group_bytes(self.max_parallelism)
        for first, behind in self._ranges(state, selection, width):
            for data, starts, ends in self._open().entries(state.name, first, behind, keys_only=keys_only):
                selection.account(len(data))
                groups = _key_groups(data, starts[:, 0], width)
                page = Page(
                    data=data,
                    starts=starts,
                    ends=ends,
                    key_groups=groups,
                    subtask=self.subtask,
                    path=self.path,
                )
                yield page

    def key_group_bytes(self, state: StateName) -> list[tuple[int, int]]:
        groups = self.key_group_range
        each = self.size_bytes // max(groups.number_of_key_groups, 1)
        return [(group, each) for group in range(groups.start, groups.end + 1)]

    def _ranges(
        self, state: StateName, selection: Selection, width: int
    ) -> Iterator[tuple[bytes, bytes | None]]:
        """The key ranges to read: those of the wanted keys, or of the wanted key groups within the handle's range."""
        entry = self.entries[state]
        if selection.keys is not None and entry.kind is not StateKind.TIMER:
            prefixes = [
                composite.encode_key_prefix(entry, key, group, self.max_parallelism)
                for group, key in selection.keys
                if group in self.key_group_range
            ]
            if all(prefix is not None for prefix in prefixes):
                yield from ((prefix, _successor(prefix)) for prefix in prefixes if prefix is not None)
                return
        groups = [
            group
            for group in range(self.key_group_range.start, self.key_group_range.end + 1)
            if selection.wants(group)
        ]
        for first, last in _runs(groups):
            yield first.to_bytes(width, "big"), _successor(last.to_bytes(width, "big"))

    def _open(self) -> RocksDatabase:
        with self._lock:
            if self._database is None:
                self._database = RocksDatabase(self._files(), self.path)
            return self._database

    def _files(self) -> Files:
        handles = files_of(self.handle)
        if self.storage.is_remote(handles.values()):
            return RemoteFiles(self.storage, handles, partial(read_only_copy, self.storage, self.handle))
        directory = Path(mkdtemp(prefix="savepointdb-rocksdb-"))
        weakref.finalize(self, shutil.rmtree, directory, ignore_errors=True)
        read_only_copy(self.storage, self.handle, directory)
        return Directory(directory)

    def close(self) -> None:
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None


class ChangelogSource(Source):
    """A materialised base and the changes since; what a change touches is replayed, all else is the base's.

    Args:
        siblings: the handles of the operator's other subtasks, which may tell the key's serializer if this one does not.
        stated_key: what `stateInfo` says, for where no handle does.
    """

    frames_values = True

    backend = "changelog"

    def __init__(
        self,
        subtask: int,
        handle: ChangelogStateBackendHandle,
        storage: SavepointLocation,
        max_parallelism: int,
        siblings: tuple[KeyedStateHandle, ...] = (),
        stated_key: Serializer | None = None,
    ) -> None:
        streams = [stream.path for stream in handle.streams() if stream.path]
        super().__init__(subtask, streams[-1] if streams else "_metadata", handle.size_bytes)
        self.handle = handle
        self.storage = storage
        self.max_parallelism = max_parallelism
        self._siblings = siblings
        self._stated_key = stated_key
        self._changes: list[Callable[[Serializer], Serializer]] = []

    def streams(self) -> Iterator[StreamStateHandle]:
        return self.handle.streams()

    @property
    def key_group_range(self) -> KeyGroupRange:
        return self.handle.key_group_range

    def refine(self, change: Callable[[Serializer], Serializer]) -> None:
        """Also the base, and what the log announces: whether changes can be replayed depends on it."""
        for base in self._bases:
            base.refine(change)
        self._changes.append(change)
        if "entries" in self.__dict__:
            super().refine(change)

    @cached_property
    def key_serializer(self) -> Serializer | None:
        """Of the base, or of the timers in the log; None where there are neither."""
        for base in self._bases:
            return base.key_serializer
        for state in self._log.states.values():
            timer = changelog.announced_key(state.state)
            if timer is not None:
                return timer.key
        return None

    @cached_property
    def entries(self) -> dict[StateName, Entry]:
        found: dict[StateName, Entry] = {}
        for base in self._bases:
            for name, entry in base.entries.items():
                found.setdefault(name, entry)
        key = self._found_key()
        for (state, timers), announcement in self._log.states.items():
            announced = replay.announced_entry(announcement, key)
            for change in self._changes:
                announced = announced.refined(change)
            found.setdefault(StateName(name=state, timers=timers), announced)
        return {
            name: entry
            if replay.is_replayable(entry) or not self._log.has(name.name, name.timers)
            else replay.raw_entry(entry)
            for name, entry in found.items()
        }

    def columns(self, entry: Entry) -> dict[str, pa.DataType]:
        return composite.composite_columns(entry)

    def emit(self, program: Program, layout: EntryLayout, entry: Entry) -> None:
        composite.emit_composite(program, layout, entry, self.max_parallelism)

    def emit_undescribed(self, program: Program, layout: EntryLayout, entry: Entry) -> None:
        composite.emit_composite(program, layout, entry, self.max_parallelism, undescribed=True)

    def pages(self, state: StateName, selection: Selection) -> Iterator[Page]:
        entry = self.entries[state]
        groups = range(self.key_group_range.start, self.key_group_range.end + 1)
        wanted = frozenset(filter(selection.wants, groups))
        runs = self._log.runs(state.name, state.timers, wanted)
        selection.account(sum(run.size_bytes for parts in runs.values() for run in parts))
        replayed = replay.EntryPages(self.subtask, self.path)
        entries = replay.replayer(entry, self.max_parallelism)
        for base in self._bases:
            if state in base.entries:
                pages = base.pages(state, replace(selection, key_groups=wanted))
                yield from replay.rebase(pages, runs, entries, replayed)
        for key_group in sorted(runs):
            yield from replayed.add(key_group, entries(key_group, [], runs[key_group]))
        yield from replayed.rest()

    def key_group_bytes(self, state: StateName) -> list[tuple[int, int]]:
        groups = self.key_group_range
        each = self.size_bytes // max(groups.number_of_key_groups, 1)
        return [(group, each) for group in range(groups.start, groups.end + 1)]

    @cached_property
    def _bases(self) -> tuple[Source, ...]:
        return tuple(
            keyed_source(self.subtask, base, self.storage, self.max_parallelism)
            for base in self.handle.materialized
        )

    @cached_property
    def _log(self) -> changelog.Changelog:
        return changelog.Changelog(changelog.read_changes(self.handle.non_materialized, self.storage))

    def _found_key(self) -> Serializer | None:
        """From this handle or else one of the siblings, as few of them as it takes."""
        others = (handle for handle in self._siblings if handle is not self.handle)
        samples, logs = [], []
        for handle in (self.handle, *others):
            source = self
            if isinstance(handle, ChangelogStateBackendHandle) and handle is not self.handle:
                source = ChangelogSource(self.subtask, handle, self.storage, self.max_parallelism)
            samples += source._log.sample()
            logs.append(source._log)
            key = source.key_serializer or deducedkeys.deduced_key(
                samples, self.max_parallelism, self._stated_key
            )
            if key is not None:
                return key
        return deducedkeys.sized_key(logs)

    def close(self) -> None:
        for base in self.__dict__.get("_bases", ()):
            base.close()


class RawTimerSource(Source):
    """Raw keyed state that the timer service wrote."""

    backend = "hashmap"

    def __init__(self, subtask: int, handle: KeyGroupsStateHandle, stream: Stream) -> None:
        super().__init__(subtask, stream.path, handle.size_bytes)
        self.handle = handle
        self.stream = stream

    @property
    def key_group_range(self) -> KeyGroupRange:
        return self.handle.key_group_range

    @cached_property
    def entries(self) -> dict[StateName, Entry]:
        found: dict[StateName, Entry] = {}
        regions = list(self._regions())
        for (_, start, end), data in zip(regions, self._spans(regions), strict=True):
            for timers in rawtimers.read_raw_timers(data, start, end, self.path):
                found.setdefault(_timer_state(timers), timers.entry)
        return found

    def columns(self, entry: Entry) -> dict[str, pa.DataType]:
        return rawtimers.raw_timer_columns(entry)

    def emit(self, program: Program, layout: EntryLayout, entry: Entry) -> None:
        rawtimers.emit_raw_timer(program, layout, entry)

    def pages(self, state: StateName, selection: Selection) -> Iterator[Page]:
        regions = [region for region in self._regions() if selection.wants(region[0])]
        for (key_group, start, end), data in zip(regions, self._spans(regions), strict=True):
            selection.account(end - start)
            for timers in rawtimers.read_raw_timers(data, start, end, self.path):
                if _timer_state(timers) == state and len(timers.starts):
                    yield Page(
                        data=data,
                        starts=timers.starts,
                        ends=timers.ends,
                        key_groups=np.full(len(timers.starts), key_group, dtype=np.int32),
                        subtask=self.subtask,
                        path=self.path,
                    )

    def _regions(self) -> Iterator[tuple[int, int, int]]:
        return regions_of(self.handle, self.stream, absent=-1)

    def _spans(self, regions: list[tuple[int, int, int]]) -> Iterator[NDArray[np.uint8]]:
        return self.stream.spans([region[1:] for region in regions])


class OperatorSource(Source):
    """Managed operator state."""

    frames_values = True

    def __init__(self, subtask: int, handle: OperatorStreamStateHandle, stream: Stream) -> None:
        super().__init__(subtask, stream.path, handle.size_bytes)
        self.handle = handle
        self.stream = stream

    @cached_property
    def header(self) -> OperatorHeader:
        """The OperatorBackendSerializationProxy at the start of the stream."""
        offsets = [int(offset) for state in self.handle.state_meta_infos for offset in state.offsets]
        end = min(offsets) if offsets else self.stream.size_bytes
        return _header(self.stream, end, read_known_operator_header, read_operator_header)

    @cached_property
    def entries(self) -> dict[StateName, Entry]:
        states = (*self.header.operator_states, *self.header.broadcast_states)
        return {StateName(name=state.name): operator_entry(state) for state in states}

    def columns(self, entry: Entry) -> dict[str, pa.DataType]:
        return operatorstate.operator_columns(entry)

    def emit(self, program: Program, layout: EntryLayout, entry: Entry) -> None:
        operatorstate.emit_operator(program, layout, entry)

    def emit_undescribed(self, program: Program, layout: EntryLayout, entry: Entry) -> None:
        operatorstate.emit_operator(program, layout, entry, undescribed=True)

    def cost_bytes(self, state: StateName) -> int:
        return sum(end - start for start, end in self._bounds(state))

    def pages(self, state: StateName, selection: Selection) -> Iterator[Page]:
        bounds = self._bounds(state)
        if not bounds:
            return
        selection.account(sum(end - start for start, end in bounds))
        entry = self.entries[state]
        span = self.stream.span(min(start for start, _ in bounds), max(end for _, end in bounds))
        data, starts, ends = operatorstate.plain_elements(
            span, bounds, self.path, compressed=self.header.compressed
        )
        indexes: NDArray[np.int32] | None = np.arange(len(starts), dtype=np.int32)
        if entry.kind is StateKind.BROADCAST:
            starts, ends = operatorstate.cut_broadcast(
                data, int(starts[0, 0]), int(ends[0, 0]), entry, self.path
            )
            indexes = None
        yield Page(
            data=data,
            starts=starts,
            ends=ends,
            key_groups=np.full(len(starts), -1, dtype=np.int32),
            subtask=self.subtask,
            path=self.path,
            indexes=indexes,
        )

    def counts(self, state: StateName, selection: Selection) -> Iterator[tuple[int, int]]:
        if self.entries[state].kind is StateKind.BROADCAST:
            yield from super().counts(state, selection)
        else:
            yield -1, len(self._bounds(state))

    def _bounds(self, state: StateName) -> list[tuple[int, int]]:
        everything = [offset for info in self.handle.state_meta_infos for offset in info.offsets.tolist()]
        for info in self.handle.state_meta_infos:
            if info.name == state.name:
                return element_bounds(info.offsets.tolist(), everything, self.stream.size_bytes, self.path)
        return []


class ChannelSource(Source):
    """What was in flight to and from a subtask: a state a gate or partition."""

    def __init__(self, subtask: int, operator_id: str, in_flight: channelstate.InFlight) -> None:
        self._channels = in_flight.channels(operator_id, subtask)
        path = self._channels[0].path if self._channels else ""
        super().__init__(subtask, path, sum(channel.size_bytes for channel in self._channels))
        self._operator_id = operator_id
        self._in_flight = in_flight

    @cached_property
    def entries(self) -> dict[StateName, Entry]:
        return {
            StateName(name=gate.name): self._in_flight.entry(self._operator_id, gate)
            for gate in channelstate.gates(self._channels)
        }

    def columns(self, entry: Entry) -> dict[str, pa.DataType]:
        return channelstate.channel_columns(entry)

    def emit(self, program: Program, layout: EntryLayout, entry: Entry) -> None:
        channelstate.emit_channel(program, layout, entry)

    def pages(self, state: StateName, selection: Selection) -> Iterator[Page]:
        for channel in self._of(state):
            selection.account(channel.size_bytes)
            page = channel.page()
            if len(page):
                yield page

    def cost_bytes(self, state: StateName) -> int:
        return sum(channel.size_bytes for channel in self._of(state))

    def _of(self, state: StateName) -> list[channelstate.Channel]:
        return [channel for channel in self._channels if channel.gate.name == state.name]


class BytesSource(Source):
    """State whose layout belongs to the operator: shown as the bytes between known places."""

    def __init__(
        self,
        subtask: int,
        name: str,
        kind: StateKind,
        places: Iterable[tuple[Stream, int, int, int]],
        reason: str,
    ) -> None:
        self._places = tuple(places)
        path = self._places[0][0].path if self._places else name
        super().__init__(subtask, path, sum(end - start for _, start, end, _ in self._places))
        self._name = name
        self._entry = Entry(kind=kind, value=OpaqueSerializer("byte[]", reason))

    @cached_property
    def entries(self) -> dict[StateName, Entry]:
        return {StateName(name=self._name): self._entry}

    def columns(self, entry: Entry) -> dict[str, pa.DataType]:
        return {"value": pa.binary()}

    def emit(self, program: Program, layout: EntryLayout, entry: Entry) -> None:
        with layout.column(program, "value"):
            program.rest()

    def pages(self, state: StateName, selection: Selection) -> Iterator[Page]:
        for stream, start, end, key_group in self._places:
            if key_group >= 0 and not selection.wants(key_group):
                continue
            selection.account(end - start)
            yield Page(
                data=stream.span(start, end),
                starts=np.array([[start]], dtype=np.int64),
                ends=np.array([[end]], dtype=np.int64),
                key_groups=np.array([key_group], dtype=np.int32),
                subtask=self.subtask,
                path=self.path,
            )


def beginnings(handle: StateObject, *, first: bool) -> Iterator[tuple[StreamStateHandle, Places]]:
    """The streams of a handle that are read as soon as its source is opened, and which places of them.

    Args:
        handle: one of a subtask.
        first: whether the subtask is asked for what is the same for all: which backend wrote it.
    """
    if isinstance(handle, KeyGroupsStateHandle):
        numbers = []
        if not handle.savepoint:
            numbers = heap.asked_offsets(handle.offsets, handle.key_group_range.start)
        yield handle.delegate, _places(handle.delegate, _first_offset(handle.offsets), numbers)
    elif isinstance(handle, OperatorStreamStateHandle):
        offsets = [int(offset) for state in handle.state_meta_infos for offset in state.offsets]
        for stream in handle.streams():
            yield stream, _places(stream, min(offsets, default=None))
    elif isinstance(handle, IncrementalRemoteKeyedStateHandle):
        yield handle.meta_state_handle, _places(handle.meta_state_handle, None)
        if first:
            yield from ((stream, _places(stream, None)) for stream in options_files(handle))
    elif isinstance(handle, ChangelogStateBackendHandle):
        for base in handle.materialized:
            yield from beginnings(base, first=first)


def _places(stream: StreamStateHandle, end: int | None, numbers: Iterable[int] = ()) -> Places:
    """The header, which ends at `end`, and the four bytes at some numbers; all of a small stream."""
    size = stream.size_bytes
    if size <= _SMALL_BYTES or end is None:
        return ((0, min(size, _LARGE_HEADER_BYTES)),)
    header = min(max(end, 0), size, _LARGE_HEADER_BYTES)
    found = [number for number in numbers if header <= number <= size - _NUMBER_BYTES]
    if header in found:
        header += _NUMBER_BYTES
    return ((0, header), *((number, number + _NUMBER_BYTES) for number in found if number >= header))


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
    if isinstance(handle, IncrementalRemoteKeyedStateHandle):
        return RocksSource(subtask, handle, storage, max_parallelism)
    if isinstance(handle, KeyGroupsStateHandle):
        stream = storage.open_stream(handle.delegate)
        first = handle.key_group_range.start
        if not handle.savepoint and heap.is_heap_layout(stream, handle.offsets, first):
            return HeapSource(subtask, handle, stream, max_parallelism)
        return FullSource(subtask, handle, stream, max_parallelism)
    if isinstance(handle, ChangelogStateBackendHandle):
        return ChangelogSource(subtask, handle, storage, max_parallelism, siblings, stated_key)
    raise UnsupportedStateError(
        f"expected heap, full or RocksDB snapshots or a changelog, found {type(handle).__name__}"
    )


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


def regions_of(
    handle: KeyGroupsStateHandle, stream: Stream, *, absent: int | None
) -> Iterator[tuple[int, int, int]]:
    """(key group, start, end) of the key groups in a handle's stream; see `formats.regions`."""
    return regions(
        handle.offsets, handle.key_group_range.start, stream.size_bytes, stream.path, absent=absent
    )


def _keyed_entries(header: KeyedHeader) -> Iterator[tuple[StateName, Entry]]:
    for state in header.states:
        entry = keyed_entry(state, header.key_serializer)
        yield StateName(name=state.name, timers=entry.kind is StateKind.TIMER), entry


def _timer_state(timers: rawtimers.RawTimers) -> StateName:
    prefix = EVENT_TIMERS if timers.domain == "EVENT" else PROCESSING_TIMERS
    return StateName(name=prefix + timers.service, timers=True)


def _header(
    stream: Stream,
    end: int | None,
    read_known: Callable[[Cursor], _Header],
    read: Callable[[Cursor, int | None], _Header],
) -> _Header:
    """What stands before `end`; of a remote file no more than that is fetched.

    After a rescaling `end` may be far behind the header: then a beginning of it is tried first.
    """
    size = stream.size_bytes if end is None else max(0, min(end, stream.size_bytes))
    if stream.is_remote and size > _LARGE_HEADER_BYTES:
        try:
            return read_known(Cursor(stream.span(0, _LARGE_HEADER_BYTES), path=stream.path))
        except (CorruptDataError, UnsupportedSerializerError, UnsupportedVersionError):
            pass
    return read(Cursor(stream.span(0, size), path=stream.path), end)


def _first_offset(offsets: NDArray[np.int64]) -> int | None:
    used = offsets[offsets > 0]
    return int(used.min()) if len(used) else None


def _key_groups(data: NDArray[np.uint8], starts: NDArray[np.int64], width: int) -> NDArray[np.int32]:
    groups = data[starts].astype(np.int32)
    return groups if width == 1 else groups << 8 | data[starts + 1].astype(np.int32)


def _successor(prefix: bytes) -> bytes | None:
    """The smallest bytes behind all that begin with `prefix`; None if there are none."""
    trimmed = prefix.rstrip(b"\xff")
    return trimmed[:-1] + bytes([trimmed[-1] + 1]) if trimmed else None


def _runs(numbers: list[int]) -> Iterator[tuple[int, int]]:
    """Consecutive numbers as (first, last)."""
    first = last = None
    for number in numbers:
        if first is None or last is None:
            first = last = number
        elif number == last + 1:
            last = number
        else:
            yield first, last
            first = last = number
    if first is not None and last is not None:
        yield first, last
