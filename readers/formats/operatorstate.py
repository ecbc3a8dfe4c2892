"""State of operators without keys: list, union and broadcast state of one subtask, and state of unknown layout.

The stream of managed state is an `OperatorBackendSerializationProxy`, then the data at the offsets of the handle:

| mode | bytes |
|---|---|
| SPLIT_DISTRIBUTE, UNION | one offset per element: the element serializer's bytes |
| BROADCAST | one offset: i4 n, n × (key, value) |

With compression (since 1.18) one snappy stream follows the proxy. Each offset is then the file position of a chunk, from which
decompression starts anew.

Raw state of an operator, and the state of a coordinator or a hook, has a layout of its own: it is shown as bytes.

Flink: OperatorStateRestoreOperation, DefaultOperatorStateBackendSnapshotStrategy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from readers.cursor import Cursor
from readers.decode.columns import ColumnTree
from readers.decode.decoder import Page, walker
from readers.decode.program import Code, Program
from readers.errors import CorruptDataError, UnsupportedSerializerError
from readers.formats.entry import Entry, EntryLayout, StateKind, column_type, emit_undescribed, operator_entry
from readers.formats.opener import Opener, OpeningContext, framed
from readers.formats.snappy import decompress
from readers.formats.source import Beginning, Selection, Source, StateName, StateSize, Tally
from readers.formats.streams import header_outline, is_small, read_header, small_or_header
from readers.headers import OperatorHeader, read_known_operator_header, read_operator_header
from readers.metadata import MasterState, OperatorStreamStateHandle, StreamStateHandle
from readers.schemas import UNDECODED
from readers.serializers.base import OpaqueSerializer
from readers.storage.filesystems import BufferStream, ReadCounter, Stream
from readers.storage.location import Ranges


def operator_columns(entry: Entry) -> dict[str, pa.DataType]:
    """Return the columns of an element or of a broadcast entry."""
    if entry.kind is StateKind.BROADCAST:
        return {"map_key": column_type(entry, "map_key"), "value": column_type(entry, "value")}
    columns = {"value": column_type(entry, "value")}
    return columns | {UNDECODED: pa.binary()} if entry.is_open else columns


def emit_operator(program: Program, layout: EntryLayout, entry: Entry, *, undescribed: bool = False) -> None:
    """Emit one segment: the element, or key and value of a broadcast entry.

    A part without a known end takes all bytes that follow.
    """
    if entry.kind is StateKind.BROADCAST:
        layout.emit(program, entry, "map_key")
        if entry.is_raw("map_key"):
            layout.null(program, "value")
        else:
            layout.emit(program, entry, "value")
        return
    if undescribed:
        emit_undescribed(program, layout)
        return
    layout.emit(program, entry, "value")
    # An element fills its segment exactly: bytes left over mean that the serializer is not the one that wrote it.
    program.expect_end()
    if entry.is_open:
        layout.null(program, UNDECODED)


def operator_program(entry: Entry) -> tuple[ColumnTree, Code]:
    """Return the columns of an element or a broadcast entry, and the program that lays it out, for a writer of new ones."""
    layout = EntryLayout(operator_columns(entry))
    return layout.tree, layout.code(lambda program, columns: emit_operator(program, columns, entry))


def element_bounds(
    offsets: NDArray[np.int64], all_offsets: NDArray[np.int64], size: int, path: str
) -> NDArray[np.int64]:
    """Return start and end of each element, int64 (elements, 2): it ends where the next element of any state begins.

    Args:
        offsets: int64 (elements,), where the elements of a state begin.
        all_offsets: int64, those of all states.
        size: of the stream.
        path: the file, for errors.

    Raises:
        CorruptDataError: an offset outside the stream.
    """
    outside = np.flatnonzero((offsets < 0) | (offsets > size))
    if len(outside):
        message = f"expected an offset within {size} bytes of operator state, found {offsets[outside[0]]}"
        raise CorruptDataError(message, path=path)
    # States follow each other in the stream, and empty elements share their offset with the next one.
    later = np.sort(np.append(all_offsets, size))
    following = np.searchsorted(later, offsets, side="right")
    ends = np.where(following < len(later), later[np.minimum(following, len(later) - 1)], size)
    return np.stack([offsets, ends], axis=1)


def plain_elements(
    data: NDArray[np.uint8], bounds: NDArray[np.int64], path: str, *, compressed: bool
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """Return a buffer, and the starts and ends of the elements in it, int64 (elements, 1)."""
    if not compressed:
        return data, np.ascontiguousarray(bounds[:, :1]), np.ascontiguousarray(bounds[:, 1:])
    memory = memoryview(data)
    parts = [decompress(Cursor(memory, path=path, position=start, end=end)) for start, end in bounds.tolist()]
    ends = np.cumsum([len(part) for part in parts], dtype=np.int64).reshape(-1, 1)
    starts = np.zeros_like(ends)
    starts[1:] = ends[:-1]
    plain = np.concatenate(parts) if parts else np.empty(0, dtype=np.uint8)
    return plain, starts, ends


def cut_broadcast(
    data: NDArray[np.uint8], start: int, end: int, entry: Entry, path: str
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Find the entries of a broadcast state.

    Raises:
        CorruptDataError: the bytes contradict the layout, or do not end with the last entry.
        UnsupportedSerializerError: there are several entries, and their values have no known end.
    """
    cursor = Cursor(memoryview(data), path=path, position=start, end=end)
    count = cursor.count("broadcast entries")
    unsized = next((problem for problem in entry.problems() if not problem.sized), None)
    if unsized is not None and count > 1:
        message = f"expected serializers whose values have a known end, found {unsized.reason}"
        raise UnsupportedSerializerError(message, path=path, position=start, breadcrumbs=unsized.path)
    layout = EntryLayout({})
    entries = walker(lambda program: emit_operator(program, layout, entry))
    starts, ends = entries.measure(data, cursor.position, end, count, path)
    last = int(ends[-1, 0]) if count else cursor.position
    if last != end:
        cursor.position = last
        raise cursor.corrupt(
            f"expected the end of the broadcast state at byte {end}, found {end - last} bytes more"
        )
    return starts, ends


def operator_header_of(stream: Stream, handle: OperatorStreamStateHandle) -> OperatorHeader:
    """Return the header at the start of the stream of a handle.

    Raises:
        ReaderError: the stream is cut off or contradicts its format.
    """
    end = _first_element(handle)
    return read_header(
        stream, stream.size_bytes if end is None else end, read_known_operator_header, read_operator_header
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class OperatorSource(Source):
    """One stream of operator state.

    Attributes:
        handle: names the states and where their elements begin.
        stream: the stream of the handle.
        header: the OperatorBackendSerializationProxy at its start.
    """

    handle: OperatorStreamStateHandle
    stream: Stream
    header: OperatorHeader

    frames_values = True

    @classmethod
    def open(cls, subtask: int, handle: OperatorStreamStateHandle, stream: Stream) -> Self:
        """Read the header of a stream.

        Raises:
            ReaderError: the stream is cut off or contradicts its format.
        """
        header = operator_header_of(stream, handle)
        states = (*header.operator_states, *header.broadcast_states)
        return cls(
            subtask=subtask,
            path=stream.path,
            size_bytes=handle.size_bytes,
            entries={StateName(name=state.name): operator_entry(state) for state in states},
            handle=handle,
            stream=stream,
            header=header,
        )

    @property
    def is_near(self) -> bool:
        return not self.stream.is_remote or is_small(self.handle.delegate)

    def columns(self, entry: Entry) -> dict[str, pa.DataType]:
        return operator_columns(entry)

    def emit(self, program: Program, layout: EntryLayout, entry: Entry) -> None:
        emit_operator(program, layout, entry)

    def emit_undescribed(
        self, program: Program, layout: EntryLayout, entry: Entry, *, whole: bool = False
    ) -> None:
        # An element is an entry of its own: there are no others before it.
        emit_operator(program, layout, entry, undescribed=True)

    def cost_bytes(self, state: StateName) -> int:
        bounds = self._bounds(state)
        return int((bounds[:, 1] - bounds[:, 0]).sum())

    def own_size(self, state: StateName, share: float) -> StateSize:
        return StateSize(self.cost_bytes(state))

    def pages(self, state: StateName, selection: Selection) -> Iterator[Page]:
        bounds = self._bounds(state)
        if not len(bounds):
            return
        selection.account(int((bounds[:, 1] - bounds[:, 0]).sum()))
        entry = self.entries[state]
        span = self.stream.span(int(bounds[:, 0].min()), int(bounds[:, 1].max()))
        data, starts, ends = plain_elements(span, bounds, self.path, compressed=self.header.compressed)
        indexes: NDArray[np.int32] | None = np.arange(len(starts), dtype=np.int32)
        if entry.kind is StateKind.BROADCAST:
            # A broadcast state is one element: all of its map entries.
            starts, ends = cut_broadcast(data, int(starts[0, 0]), int(ends[0, 0]), entry, self.path)
            indexes = None
        yield replace(Page.of(data, (starts, ends), -1, self.subtask, self.path), indexes=indexes)

    def beginning(self, state: StateName, most_bytes: int) -> Beginning:
        entries: list[tuple[bytes]] = []
        left, bounds = most_bytes, self._bounds(state)
        # A broadcast state is one element, and its entries have no lengths.
        if not self.is_near or self.header.compressed or self.entries[state].kind is StateKind.BROADCAST:
            return Beginning()
        for start, end in bounds.tolist():
            if end - start > left:
                break
            left -= end - start
            entries.append((self.stream.read(start, end - start),))
        is_whole = len(entries) == len(bounds)
        return Beginning(entries=tuple(entries), bytes_read=most_bytes - left, is_whole=is_whole)

    def region(self, state: StateName) -> tuple[int, int] | None:
        """Return where the elements of a state begin and end in the stream; None if it has none."""
        bounds = self._bounds(state)
        return (int(bounds[:, 0].min()), int(bounds[:, 1].max())) if len(bounds) else None

    def counts(self, state: StateName, selection: Selection) -> Iterator[tuple[int, int]]:
        if self.entries[state].kind is StateKind.BROADCAST:
            yield from super().counts(state, selection)
        else:
            yield -1, len(self._bounds(state))

    def tallies(self, states: Sequence[StateName], selection: Selection) -> Iterator[Tally]:
        for state in states:
            is_read = self.entries[state].kind is StateKind.BROADCAST  # its one element has all entries
            yield Tally(
                state=state,
                key_group=-1,
                entries=sum(count for _, count in self.counts(state, selection)),
                size_bytes=self.cost_bytes(state),
                origin="scan" if is_read else "metadata",
            )

    @property
    def tallied_bytes(self) -> int:
        return 0

    def _bounds(self, state: StateName) -> NDArray[np.int64]:
        # An element ends where the next one begins, and that may be of another state.
        infos = self.handle.state_meta_infos
        for info in infos:
            if info.name == state.name:
                everything = np.concatenate([one.offsets for one in infos])
                return element_bounds(info.offsets, everything, self.stream.size_bytes, self.path)
        return np.empty((0, 2), dtype=np.int64)


class OperatorOpener(Opener[OperatorStreamStateHandle]):
    """Opens managed operator state."""

    family = StateKind.OPERATOR_LIST
    sources = (OperatorSource,)

    def open(self, handle: OperatorStreamStateHandle, context: OpeningContext) -> Source:
        return OperatorSource.open(context.subtask, handle, context.location.open_stream(handle.delegate))

    def outline(self, handle: OperatorStreamStateHandle, context: OpeningContext) -> bytes | None:
        stream = context.location.open_stream(handle.delegate)
        infos = [(info.name.encode(), info.offsets) for info in handle.state_meta_infos]
        return elements_outline(infos, stream)

    def first_ranges(
        self, handle: OperatorStreamStateHandle, *, first: bool, few: bool
    ) -> Iterator[tuple[StreamStateHandle, Ranges]]:
        for stream in handle.streams():
            yield stream, small_or_header(stream, _first_element(handle))


def _first_element(handle: OperatorStreamStateHandle) -> int | None:
    """Return the lowest offset of an element; None if there are none."""
    return min((int(one.offsets.min()) for one in handle.state_meta_infos if len(one.offsets)), default=None)


def elements_outline(infos: Iterable[tuple[bytes, NDArray[np.int64]]], stream: Stream) -> bytes | None:
    """Return the outline of operator state; see `Opener.outline`.

    Args:
        infos: name of each state, and where its elements begin.
        stream: holds the header and the elements.

    Raises:
        ReaderError: the stream cannot be read.
    """
    # Of a broadcast state the first copy that is not empty is read: which one that is shows in the offsets.
    filled, begins = [], []
    for name, offsets in infos:
        if not len(offsets):
            filled.append(b"-" + name)
            continue
        first, last = int(offsets.min()), int(offsets.max())
        if first < 0 or last > stream.size_bytes:
            return None
        filled.append((b"+" if first < stream.size_bytes else b"-") + name)
        begins.append(first)
    header = header_outline(stream, min(begins, default=None))
    return None if header is None else framed((header, *filled))


ByteRange = tuple[Stream, int, int, int]
"""(stream, start, end, key group); the key group is -1 where there are none."""


@dataclass(frozen=True, kw_only=True, eq=False)
class BytesSource(Source):
    """One state whose rows are ranges of bytes.

    Attributes:
        ranges: the ranges, one a row.
    """

    ranges: tuple[ByteRange, ...]

    @classmethod
    def open(
        cls, subtask: int, name: str, kind: StateKind, ranges: Sequence[ByteRange], reason: str
    ) -> BytesSource:
        """Return the source of some ranges; `reason` is why they are not decoded."""
        return cls(
            subtask=subtask,
            path=ranges[0][0].path if ranges else name,
            size_bytes=sum(end - start for _, start, end, _ in ranges),
            entries={StateName(name=name): Entry(kind=kind, value=OpaqueSerializer("byte[]", reason))},
            ranges=tuple(ranges),
        )

    def columns(self, entry: Entry) -> dict[str, pa.DataType]:
        return {"value": pa.binary()}

    def emit(self, program: Program, layout: EntryLayout, entry: Entry) -> None:
        with layout.column(program, "value"):
            program.rest()

    def pages(self, state: StateName, selection: Selection) -> Iterator[Page]:
        for stream, start, end, key_group in self.ranges:
            # Operator state has no key groups: a selection of key groups does not concern it.
            if key_group >= 0 and not selection.wants(key_group):
                continue
            selection.account(end - start)
            bounds = np.array([[start]], dtype=np.int64), np.array([[end]], dtype=np.int64)
            yield Page.of(stream.span(start, end), bounds, key_group, self.subtask, self.path)


class RawOperatorOpener(Opener[OperatorStreamStateHandle]):
    """Opens raw operator state: a row a partition. Flink: OperatorStateCheckpointOutputStream."""

    family = StateKind.RAW_OPERATOR
    sources = (BytesSource,)

    def open(self, handle: OperatorStreamStateHandle, context: OpeningContext) -> Source:
        stream = context.location.open_stream(handle.delegate)
        offsets = [offset for info in handle.state_meta_infos for offset in info.offsets.tolist()]
        # The offset of a partition without bytes may be the end of the stream.
        inside = [offset for offset in offsets if offset < stream.size_bytes] or [0]
        begins = np.array(inside, dtype=np.int64)
        bounds = element_bounds(begins, begins, stream.size_bytes, stream.path)
        ranges = [(stream, start, end, -1) for start, end in bounds.tolist()]
        return BytesSource.open(
            context.subtask, "raw operator state", self.family, ranges, "written by the operator itself"
        )

    def outline(self, handle: OperatorStreamStateHandle, context: OpeningContext) -> bytes:
        self.open(handle, context)
        return b""


class CoordinatorOpener(Opener[StreamStateHandle]):
    """Opens the state of an operator's coordinator: one row."""

    family = StateKind.COORDINATOR
    sources = (BytesSource,)

    def open(self, handle: StreamStateHandle, context: OpeningContext) -> Source:
        stream = context.location.open_stream(handle)
        ranges = [(stream, 0, stream.size_bytes, -1)]
        return BytesSource.open(
            context.subtask, "coordinator state", self.family, ranges, "written by the operator's coordinator"
        )


class MasterOpener(Opener[MasterState]):
    """Opens the state of a hook of the job manager, which lies in `_metadata`: one row."""

    family = StateKind.MASTER
    sources = (BytesSource,)

    def open(self, handle: MasterState, context: OpeningContext) -> Source:
        stream = BufferStream(handle.name, handle.data, ReadCounter())
        ranges = [(stream, 0, len(handle.data), -1)]
        return BytesSource.open(context.subtask, handle.name, self.family, ranges, "written by a hook")
