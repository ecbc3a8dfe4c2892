"""The files of a RocksDB instance."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from readers.decode.page import Page
from readers.errors import ReaderError
from readers.formats.beginning import header_of, keyed_entries
from readers.formats.composite import layout as composite
from readers.formats.composite.source import FilesSource
from readers.formats.entry import Entry, StateKind
from readers.formats.rocksdb.database import RocksDatabase, files_of, is_forst, read_only_copy
from readers.formats.rocksdb.files import LocalFiles, RemoteFiles
from readers.formats.rocksdb.sst import Files
from readers.formats.source import Selection, StateName
from readers.headers.keyed import KeyedHeader, read_keyed_header
from readers.headers.metainfo import BackendStateType
from readers.keygroups import key_group_bytes
from readers.metadata import IncrementalRemoteKeyedStateHandle
from readers.serializers.base import Serializer
from readers.storage.location import SavepointLocation


class RocksSource(FilesSource):
    """A RocksDB instance; opened on first use."""

    handle: IncrementalRemoteKeyedStateHandle

    def __init__(
        self,
        subtask: int,
        handle: IncrementalRemoteKeyedStateHandle,
        storage: SavepointLocation,
        max_parallelism: int,
    ) -> None:
        super().__init__(subtask, handle.meta_state_handle.path or "_metadata", handle, max_parallelism)
        self.storage = storage
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

    @cached_property
    def header(self) -> KeyedHeader:
        """The proxy, the only content of the meta stream."""
        stream = self.storage.open_stream(self.handle.meta_state_handle)
        size = stream.size_bytes
        return header_of(stream.span(0, size), self.path, size, read_keyed_header)

    @property
    def key_serializer(self) -> Serializer:
        return self.header.key_serializer

    @cached_property
    def entries(self) -> dict[StateName, Entry]:
        return dict(keyed_entries(self.header))

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

    def _ranges(
        self, state: StateName, selection: Selection, width: int
    ) -> Iterator[tuple[bytes, bytes | None]]:
        """The key ranges to read: those of the wanted keys, or of the wanted key groups within the handle's range.

        In ascending order, so that those of a key group come one after the other: who applies changes to a base relies on it.
        """
        entry = self.entries[state]
        if selection.keys is not None and entry.kind is not StateKind.TIMER:
            prefixes = [
                composite.encode_key_prefix(entry, key, group, self.max_parallelism)
                for group, key in selection.keys
                if group in self.key_group_range
            ]
            if None not in prefixes:
                found = sorted({prefix for prefix in prefixes if prefix is not None})
                yield from ((prefix, _successor(prefix)) for prefix in found)
                return
        groups = [
            group
            for group in range(self.key_group_range.start, self.key_group_range.end + 1)
            if selection.wants(group)
        ]
        for first, last in _consecutive(groups):
            yield first.to_bytes(width, "big"), _successor(last.to_bytes(width, "big"))

    def _open(self) -> RocksDatabase:
        with self._lock:
            if self._database is None:
                self._database = RocksDatabase(self._files(), self.path)
            return self._database

    def _files(self) -> Files:
        handles = files_of(self.handle)
        kind = RemoteFiles if self.storage.is_remote(handles.values()) else LocalFiles
        return kind(self.storage, handles, partial(read_only_copy, self.storage, self.handle))

    def close(self) -> None:
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None


def _key_groups(data: NDArray[np.uint8], starts: NDArray[np.int64], width: int) -> NDArray[np.int32]:
    groups = data[starts].astype(np.int32)
    return groups if width == 1 else groups << 8 | data[starts + 1].astype(np.int32)


def _successor(prefix: bytes) -> bytes | None:
    """The smallest bytes behind all that begin with `prefix`; None if there are none."""
    trimmed = prefix.rstrip(b"\xff")
    return trimmed[:-1] + bytes([trimmed[-1] + 1]) if trimmed else None


def _consecutive(numbers: list[int]) -> Iterator[tuple[int, int]]:
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
