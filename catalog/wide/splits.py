"""The split of a wide table: some key groups of an operator, of which a few at a time are read from all states and joined."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from catalog.scan import ScanCounter, Split
from catalog.splits import StateSplit
from catalog.wide.columns import KEY, NAMESPACE, StateColumn
from readers import KEY_GROUP, OUT_OF_RANGE, UNDECODED, UnsupportedStateError

if TYPE_CHECKING:
    from catalog.wide.joining import StateRows

_REMARKS = (UNDECODED, OUT_OF_RANGE)


@dataclass(frozen=True, slots=True, kw_only=True)
class WideState:
    """A state of a wide table.

    Attributes:
        column: of the wide table.
        rows: reads the state; the number of the part does not count.
        parts: the numbers of the parts to read.
    """

    column: StateColumn
    rows: StateSplit
    parts: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WideSplit(Split):
    """Some key groups of an operator.

    Attributes:
        states: of the operator.
        schema: the columns of its rows.
        chunks: key groups that are joined together; None for all.
        size_bytes: about how many bytes it reads.
    """

    states: tuple[WideState, ...]
    schema: pa.Schema
    chunks: tuple[frozenset[int] | None, ...]
    size_bytes: int

    def elsewhere(self) -> WideSplit:
        return replace(
            self, states=tuple(replace(state, rows=state.rows.elsewhere()) for state in self.states)
        )

    def narrowed(self, columns: Sequence[str]) -> WideSplit:
        # Without columns only the number of rows counts, which a batch without arrays would lose.
        names = columns or (KEY_GROUP,)
        return replace(self, schema=pa.schema([self.schema.field(name) for name in names]))

    @property
    def order(self) -> tuple[int, int]:
        return 0, min(self.wanted_key_groups, default=0)

    @property
    def wanted_key_groups(self) -> frozenset[int]:
        return frozenset[int]().union(*(groups or () for groups in self.chunks))

    def read(self, counter: ScanCounter | None = None) -> Iterator[pa.RecordBatch]:
        for groups in self.chunks:
            if counter is not None:
                counter.check()
            rows = [self._rows(state, groups, counter) for state in self.states]
            if any(one.batch.num_rows for one in rows):
                yield self._joined(rows)

    def _joined(self, rows: Sequence[StateRows]) -> pa.RecordBatch:
        from catalog.wide.joining import joined  # heavy, and every operator has a wide table that few ask for

        try:
            return joined(rows, self.schema)
        except (pa.ArrowInvalid, pa.ArrowCapacityError) as error:
            shown = " or ".join(one.column.name for one in rows if one.is_shown)
            raise _too_large(shown, self.states[0].rows.reference.savepoint.path) from error

    def _rows(
        self, state: WideState, groups: frozenset[int] | None, counter: ScanCounter | None
    ) -> StateRows:
        """Return the rows of a state in some key groups: all its columns that count if its own column is wanted, else its keys."""
        from catalog.wide.joining import StateRows  # as above

        column = state.column
        # The remarks are about all values: who wants these wants to know of each state.
        is_shown = column.name in self.schema.names or any(
            name in self.schema.names and name in column.contents for name in _REMARKS
        )
        names = dict.fromkeys(
            (KEY, NAMESPACE, KEY_GROUP, *(column.contents if is_shown else column.outliers))
        )
        own = {output.name for output in state.rows.outputs}
        split = state.rows.narrowed([name for name in names if name in own])
        schema = pa.schema([(output.name, output.type) for output in split.outputs])
        batches = [
            batch
            for part in state.parts
            for batch in replace(split, part=part, key_groups=groups or split.key_groups).read(counter)
        ]
        together = pa.Table.from_batches(batches, schema).combine_chunks().to_batches()
        if len(together) > 1:
            raise _too_large(column.name, split.reference.savepoint.path)
        batch = together[0] if together else pa.RecordBatch.from_pylist([], schema)
        return StateRows(column=column, batch=batch, is_shown=is_shown)


def _too_large(name: str, path: str) -> UnsupportedStateError:
    return UnsupportedStateError(
        f"expected at most 2 GiB of texts in one key group of {name}, found more: read the table of the state",
        path=path,
    )
