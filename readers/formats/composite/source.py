"""What the sources share whose entries are as RocksDB has them: a composite key and a value."""

from __future__ import annotations

import pyarrow as pa

from readers.decode.program import Program
from readers.formats.composite import layout as composite
from readers.formats.entry import Entry, EntryLayout
from readers.formats.source import HandleSource, Source, StateName
from readers.metadata import KeyedStateHandle


class CompositeSource(Source):
    """Entries as in `formats/composite.py`.

    Attributes:
        max_parallelism: the number of key groups of the operator.
    """

    frames_values = True
    max_parallelism: int

    def columns(self, entry: Entry) -> dict[str, pa.DataType]:
        return composite.composite_columns(entry)

    def emit(self, program: Program, layout: EntryLayout, entry: Entry) -> None:
        composite.emit_composite(program, layout, entry, self.max_parallelism)

    def emit_undescribed(self, program: Program, layout: EntryLayout, entry: Entry) -> None:
        composite.emit_composite(program, layout, entry, self.max_parallelism, undescribed=True)


class FilesSource(HandleSource, CompositeSource):
    """Keyed state in several files, where no offsets tell what a key group takes."""

    def __init__(self, subtask: int, path: str, handle: KeyedStateHandle, max_parallelism: int) -> None:
        super().__init__(subtask, path, handle.size_bytes)
        self.handle = handle
        self.max_parallelism = max_parallelism

    def key_group_bytes(self, state: StateName) -> list[tuple[int, int]]:
        groups = self.key_group_range
        each = self.size_bytes // max(groups.number_of_key_groups, 1)
        return [(group, each) for group in range(groups.start, groups.end + 1)]
