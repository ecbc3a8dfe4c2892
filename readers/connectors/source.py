"""`ConnectorSource`: a state of bytes, with values in a connector's layout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa

from readers.connectors.layout import Layout
from readers.connectors.recoded import RecodedSerializer, recode
from readers.decode.page import Page
from readers.decode.program import Program
from readers.formats.entry import Entry, EntryLayout
from readers.formats.source import Selection, Source, StateName, StateSize, Tally
from readers.serializers.primitives import BytePrimitiveArraySerializer

_LENGTH_BYTES = 4  # before the bytes of a BytePrimitiveArraySerializer's element


@dataclass(frozen=True, kw_only=True, eq=False)
class ConnectorSource(Source):
    """One state of another source, with typed values.

    Attributes:
        inner: the source of the bytes.
        name: the state in it.
        layout: the layout of its values.
    """

    inner: Source
    name: StateName
    layout: Layout

    @classmethod
    def open(cls, inner: Source, name: StateName, layout: Layout) -> Self:
        """Return a source that reads the values of one state of `inner` with a layout."""
        return cls(
            subtask=inner.subtask,
            path=inner.path,
            size_bytes=inner.size_bytes,
            entries={name: replace(inner.entries[name], value=RecodedSerializer(layout))},
            inner=inner,
            name=name,
            layout=layout,
        )

    def over(self, inner: Source) -> Self:
        """Return the same values of another source of the bytes."""
        return replace(self, inner=inner, path=inner.path, size_bytes=inner.size_bytes)

    def columns(self, entry: Entry) -> dict[str, pa.DataType]:
        return {"value": self.layout.type}

    def emit(self, program: Program, layout: EntryLayout, entry: Entry) -> None:
        assert entry.value is not None
        with layout.column(program, "value"):
            entry.value.emit(program)
        program.expect_end()

    def pages(self, state: StateName, selection: Selection) -> Iterator[Page]:
        for page in self.inner.pages(state, selection):
            values = [recode(value, self.layout.type) for value in self._read(page)]
            ends = np.cumsum([len(value) for value in values], dtype=np.int64).reshape(-1, 1)
            starts = np.zeros_like(ends)
            starts[1:] = ends[:-1]
            yield replace(
                page, data=np.frombuffer(b"".join(values), dtype=np.uint8), starts=starts, ends=ends
            )

    def counts(self, state: StateName, selection: Selection) -> Iterator[tuple[int, int]]:
        return self.inner.counts(state, selection)

    def tallies(self, states: Sequence[StateName], selection: Selection) -> Iterator[Tally]:
        return self.inner.tallies(states, selection)

    @property
    def tallied_bytes(self) -> int:
        return self.inner.tallied_bytes

    def values(self) -> Iterator[Any]:
        """Yield each value as the layout reads it."""
        for page in self.inner.pages(self.name, Selection()):
            yield from self._read(page)

    def cost_bytes(self, state: StateName) -> int:
        return self.inner.cost_bytes(state)

    def own_size(self, state: StateName, share: float) -> StateSize:
        return self.inner.own_size(state, share)

    def close(self) -> None:
        self.inner.close()

    def _read(self, page: Page) -> Iterator[Any]:
        for value in bytes_of(page, self.inner.entries[self.name]):
            yield self.layout.read_whole(value, self.path)


def bytes_of(page: Page, entry: Entry) -> Iterator[bytes]:
    """Yield the bytes of each value of a page."""
    length = _LENGTH_BYTES if isinstance(entry.value, BytePrimitiveArraySerializer) else 0
    data = memoryview(page.data)
    for start, end in zip(page.starts[:, 0].tolist(), page.ends[:, 0].tolist(), strict=True):
        yield bytes(data[start + length : end])
