"""Sources whose entries are as RocksDB has them: a composite key and a value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from readers.decode.page import Page
from readers.decode.program import Program
from readers.formats.composite import layout as composite
from readers.formats.entry import Entry, EntryLayout
from readers.formats.keybounds import KeyBounds
from readers.formats.source import HandleSource, Selection, Source, StateName


@dataclass(frozen=True, kw_only=True, eq=False)
class CompositeSource(Source):
    """A source whose entries have the layout of `composite/layout.py`.

    Attributes:
        max_parallelism: number of key groups of the operator.
    """

    max_parallelism: int

    is_composite = True
    frames_values = True
    keeps_old_bytes = True  # RocksDB rewrites only what a job touches

    def columns(self, entry: Entry) -> dict[str, pa.DataType]:
        return composite.composite_columns(entry)

    def emit(self, program: Program, layout: EntryLayout, entry: Entry) -> None:
        composite.emit_composite(program, layout, entry, self.max_parallelism)

    def emit_undescribed(
        self, program: Program, layout: EntryLayout, entry: Entry, *, whole: bool = False
    ) -> None:
        composite.emit_composite(program, layout, entry, self.max_parallelism, undescribed=True, whole=whole)

    def key_bounds(self, state: StateName) -> KeyBounds | None:
        return composite.composite_key_bounds(self.entries[state], self.max_parallelism)


@dataclass(frozen=True, kw_only=True, eq=False)
class FilesSource(HandleSource, CompositeSource):
    """Keyed state in several files, none of which records how many bytes a key group takes."""

    def key_group_bytes(self, state: StateName) -> list[tuple[int, int]]:
        groups = self.key_group_range
        # Nothing but the sum is recorded. Key groups are hash buckets, so an equal share is the best estimate.
        each = self.size_bytes // max(groups.number_of_key_groups, 1)
        return [(group, each) for group in range(groups.start, groups.end + 1)]


@dataclass(frozen=True, kw_only=True, eq=False)
class ComposedSource(CompositeSource):
    """Entries of another source in this layout, as a writer has them: it decodes pages, and reads none."""

    def pages(self, state: StateName, selection: Selection) -> Iterator[Page]:
        return iter(())

    def keys(self, state: StateName, page: Page) -> Iterator[tuple[Page, pa.Array]]:
        """Yield entries of a state with their keys alone: values are not looked at."""
        entry = self.entries[state]
        layout = EntryLayout(self.columns(entry), frozenset({"key"}))
        decoder = layout.decoder(
            lambda program, columns: composite.emit_key_alone(program, columns, entry, self.max_parallelism)
        )
        for batch in decoder.decode(page):
            yield batch.page, batch.arrays[0]
