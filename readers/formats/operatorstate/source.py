"""Managed operator state: the list, union and broadcast states of one subtask."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from readers.decode.page import Page
from readers.decode.program import Program
from readers.formats.beginning import header_outline, is_small, read_header, small_or_header
from readers.formats.entry import Entry, EntryLayout, StateKind, operator_entry
from readers.formats.opener import Opener, OpeningContext
from readers.formats.operatorstate import layout as operatorstate
from readers.formats.operatorstate.layout import element_bounds
from readers.formats.source import Beginning, Selection, Source, StateName, StateSize, Tally
from readers.headers.operator import OperatorHeader, read_known_operator_header, read_operator_header
from readers.metadata import OperatorStreamStateHandle, StreamStateHandle
from readers.outlines import framed
from readers.storage.location import Ranges, Stream


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
        return operatorstate.operator_columns(entry)

    def emit(self, program: Program, layout: EntryLayout, entry: Entry) -> None:
        operatorstate.emit_operator(program, layout, entry)

    def emit_undescribed(
        self, program: Program, layout: EntryLayout, entry: Entry, *, whole: bool = False
    ) -> None:
        # An element is an entry of its own: there are no others before it.
        operatorstate.emit_operator(program, layout, entry, undescribed=True)

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
        data, starts, ends = operatorstate.plain_elements(
            span, bounds, self.path, compressed=self.header.compressed
        )
        indexes: NDArray[np.int32] | None = np.arange(len(starts), dtype=np.int32)
        if entry.kind is StateKind.BROADCAST:
            # A broadcast state is one element: all of its map entries.
            starts, ends = operatorstate.cut_broadcast(
                data, int(starts[0, 0]), int(ends[0, 0]), entry, self.path
            )
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
