"""`ConnectorSource`: a state of bytes whose values are read with a connector's layout."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from readers.connectors.layout import Layout
from readers.connectors.recoded import RecodedSerializer, recode
from readers.decode.page import Page
from readers.decode.program import Program
from readers.formats.entry import Entry, EntryLayout
from readers.formats.source import Selection, Source, StateName
from readers.serializers.primitives import BytePrimitiveArraySerializer

_LENGTH_BYTES = 4  # before the bytes of a BytePrimitiveArraySerializer's element


class ConnectorSource(Source):
    """One state of another source, with typed values.

    Args:
        inner: where the bytes come from.
        name: the state in it.
        layout: that of its values.
    """

    def __init__(self, inner: Source, name: StateName, layout: Layout) -> None:
        super().__init__(inner.subtask, inner.path, inner.size_bytes)
        self.inner = inner
        self.name = name
        self.layout = layout

    @cached_property
    def entries(self) -> dict[StateName, Entry]:
        return {self.name: replace(self.inner.entries[self.name], value=RecodedSerializer(self.layout))}

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

    def values(self) -> Iterator[Any]:
        """The values as the layout reads them."""
        for page in self.inner.pages(self.name, Selection()):
            yield from self._read(page)

    def cost_bytes(self, state: StateName) -> int:
        return self.inner.cost_bytes(state)

    def close(self) -> None:
        self.inner.close()

    def _read(self, page: Page) -> Iterator[Any]:
        for value in bytes_of(page, self.inner.entries[self.name]):
            yield self.layout.read_whole(value, self.path)


def bytes_of(page: Page, entry: Entry) -> Iterator[bytes]:
    """The bytes of the values of a page."""
    length = _LENGTH_BYTES if isinstance(entry.value, BytePrimitiveArraySerializer) else 0
    data = memoryview(page.data)
    for start, end in zip(page.starts[:, 0].tolist(), page.ends[:, 0].tolist(), strict=True):
        yield bytes(data[start + length : end])
