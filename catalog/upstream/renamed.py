"""`RenamedTable`: one of our tables with other columns and another name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from catalog.predicate import ANYTHING, Predicate
from catalog.scan import DerivedSplit, Scan, ScanCounter, Split
from catalog.table import Extent, Table
from catalog.upstream.columns import Column, Form

if TYPE_CHECKING:
    from readers import StateSize


@dataclass(frozen=True, slots=True, kw_only=True)
class RenamedSplit(DerivedSplit):
    """A split of our table, with other columns.

    Attributes:
        columns: of its rows.
    """

    columns: tuple[Column, ...]

    def elsewhere(self) -> RenamedSplit:
        return renamed_split(self.origin.elsewhere(), self.columns)

    def narrowed(self, columns: Sequence[str]) -> RenamedSplit:
        by_name = {column.name: column for column in self.columns}
        chosen = tuple(by_name[name] for name in columns)
        sources = dict.fromkeys(source for column in chosen for source in column.sources)
        return renamed_split(self.origin.narrowed(list(sources)), chosen)

    def read(self, counter: ScanCounter | None = None) -> Iterator[pa.RecordBatch]:
        schema = pa.schema([(column.name, column.type) for column in self.columns])
        for batch in self.origin.read(counter):
            arrays = [column.array(batch) for column in self.columns]
            # Without columns only the number of rows counts, which a batch without arrays would lose.
            yield pa.RecordBatch.from_arrays(arrays, schema=schema) if arrays else batch


def renamed_split(origin: Split, columns: tuple[Column, ...]) -> RenamedSplit:
    """Return a split with these columns in place of its own."""
    return RenamedSplit(
        origin=origin, columns=columns, size_bytes=origin.size_bytes, cached_bytes=origin.cached_bytes
    )


class RenamedTable(Table):
    """One of our tables with other columns and another name.

    Args:
        name: as listed.
        origin: our table.
        columns: of the table.
        fixed: conditions that hold for all rows, as values of columns of our table that leave out other rows exactly.
    """

    def __init__(
        self, name: str, origin: Table, columns: tuple[Column, ...], fixed: dict[str, Any] | None = None
    ) -> None:
        self.name = name
        self.comment = origin.comment
        self.origin = origin
        self._columns = columns
        self._fixed = fixed or {}

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([(column.name, column.type) for column in self._columns])

    @cached_property
    def unquoted(self) -> frozenset[str]:
        known = self.origin.unquoted
        return frozenset(
            column.name for column in self._columns if column.source in known and not column.path
        )

    @property
    def size_bytes(self) -> int:
        return self.origin.size_bytes

    @property
    def own_size(self) -> StateSize | None:
        return self.origin.own_size

    @property
    def extent(self) -> Extent:
        return self.origin.extent

    def plan(self, predicate: Predicate = ANYTHING, *, allow_partial: bool = False) -> Scan:
        own = Predicate({name: (value,) for name, value in self._fixed.items()})
        for column in self._columns:
            values = predicate.of(column.name)
            is_same = column.form is Form.SAME and not column.path
            if values is not None and is_same and column.source not in self._fixed:
                own = own.and_(column.source, values)
        scan = self.origin.plan(own, allow_partial=allow_partial)
        splits = tuple(renamed_split(split, self._columns) for split in scan.splits)
        return replace(scan, schema=self.schema, splits=splits, counter=ScanCounter())
