"""Managed operator state."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from readers.decode.page import Page
from readers.decode.program import Program
from readers.formats.beginning import read_header
from readers.formats.entry import Entry, EntryLayout, StateKind, operator_entry
from readers.formats.operatorstate import layout as operatorstate
from readers.formats.operatorstate.layout import element_bounds
from readers.formats.source import Selection, Source, StateName
from readers.headers.operator import OperatorHeader, read_known_operator_header, read_operator_header
from readers.metadata import OperatorStreamStateHandle
from readers.storage.location import Stream


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
        return read_header(self.stream, end, read_known_operator_header, read_operator_header)

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
