"""State whose layout belongs to an operator, a coordinator or a hook: shown as bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from readers.decode.page import Page
from readers.decode.program import Program
from readers.formats.entry import Entry, EntryLayout, StateKind
from readers.formats.opener import Opener, OpeningContext
from readers.formats.operatorstate.layout import element_bounds
from readers.formats.source import Selection, Source, StateName
from readers.metadata import MasterState, OperatorStreamStateHandle, StreamStateHandle
from readers.serializers.base import OpaqueSerializer
from readers.storage.location import BufferStream, ReadCounter, Stream

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
