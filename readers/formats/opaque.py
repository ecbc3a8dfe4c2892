"""State whose layout belongs to the operator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

import numpy as np
import pyarrow as pa

from readers.decode.page import Page
from readers.decode.program import Program
from readers.formats.entry import Entry, EntryLayout, StateKind
from readers.formats.source import Selection, Source, StateName
from readers.serializers.base import OpaqueSerializer
from readers.storage.location import Stream


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
