"""The split of a wide table: some key groups of an operator, of which a few at a time are read from all states and joined.

`WideTable`: all keyed states of an operator, side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from catalog.references import SavepointReference
from catalog.scan import ANYTHING, Output, Predicate, Scan, ScanCounter, Split, StateSplit
from catalog.statetables import (
    SPLIT_BYTES,
    StatesTable,
    TableState,
    UnreadOperator,
    divided,
    unified_columns,
    unified_output,
)
from catalog.table import Extent, Table
from catalog.wide.columns import KEY, NAMESPACE, StateColumn, state_columns
from readers import KEY_GROUP, OUT_OF_RANGE, UNDECODED, ReaderError, StateSize, UnsupportedStateError

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


# What is joined at once, of all states together: decoded it is some times as much.
_CHUNK_BYTES = 4 << 20
_PRUNING = (KEY, KEY_GROUP)


class WideTable(Table):
    """A row for each key and namespace of an operator, with a column for each keyed state.

    Args:
        name: as listed.
        operator: the name of the table of the operator.
        savepoint: that the states are in.
        states: the keyed states of the operator that have parts.
        find_unread: returns the handles that may hold more states of the operator.

    Attributes:
        operator: the name of the table of the operator.
    """

    def __init__(
        self,
        name: str,
        operator: str,
        savepoint: SavepointReference,
        states: tuple[TableState, ...],
        find_unread: Callable[[], tuple[UnreadOperator, ...]],
    ) -> None:
        self.name = name
        self.operator = operator
        self.comment = f"the keyed states of operator {operator} side by side"
        self._states = _KeyedStates(name, self.comment, savepoint, lambda: states, None, find_unread)

    @property
    def states(self) -> tuple[TableState, ...]:
        """States that its columns come from."""
        return self._states.states

    @cached_property
    def columns(self) -> tuple[StateColumn, ...]:
        """Columns of its states, in their order."""
        return state_columns([known.state for known in self.states])

    @cached_property
    def schema(self) -> pa.Schema:
        identity = self._states.schema
        remarks = [(UNDECODED, pa.list_(pa.string())), (OUT_OF_RANGE, pa.string())]
        own = {name for column in self.columns for name in column.contents}
        # A map with a key that is NULL is in no column, whatever the types are.
        own |= {OUT_OF_RANGE for column in self.columns if pa.types.is_map(column.type)}
        return pa.schema(
            [
                *(field for field in identity if field.name != KEY_GROUP),
                *((column.name, column.type) for column in self.columns),
                *(remark for remark in remarks if remark[0] in own),
                identity.field(KEY_GROUP),
            ]
        )

    @cached_property
    def unquoted(self) -> frozenset[str]:
        return self._states.unquoted & {KEY, NAMESPACE}

    @cached_property
    def size_bytes(self) -> int:
        return self._states.size_bytes

    @cached_property
    def own_size(self) -> StateSize:
        return self._states.own_size

    @cached_property
    def extent(self) -> Extent:
        return Extent.of(self._splits(ANYTHING, allow_partial=True, damages={}))

    def plan(self, predicate: Predicate = ANYTHING, *, allow_partial: bool = False) -> Scan:
        # A state may be called like a column of its own table that prunes there.
        own = Predicate({name: predicate.values[name] for name in _PRUNING if name in predicate.values})
        unread, damages = self._states.unreadable(own, allow_partial=allow_partial)
        splits = self._splits(own, allow_partial=allow_partial, damages=damages)
        return Scan(schema=self.schema, splits=splits, unread=unread)

    def _splits(
        self, predicate: Predicate, *, allow_partial: bool, damages: Mapping[int, ReaderError]
    ) -> tuple[WideSplit, ...]:
        states = tuple(
            WideState(
                column=column,
                rows=replace(self._states.whole_split(known, predicate), may_be_partial=allow_partial),
                parts=tuple(
                    number for number, part in enumerate(known.state.parts) if id(part.source) not in damages
                ),
            )
            for known, column in zip(self.states, self.columns, strict=True)
        )
        return tuple(
            WideSplit(states=states, schema=self.schema, chunks=chunks, size_bytes=size_bytes)
            for chunks, size_bytes in _chunks(self.states, [state.rows for state in states])
        )


class _KeyedStates(StatesTable):
    """The keyed states of an operator; its columns are those that they share: key, namespace and key group."""

    @cached_property
    def schema(self) -> pa.Schema:
        return unified_columns([known.state for known in self.states], (KEY, NAMESPACE, KEY_GROUP))

    def _output(self, column: pa.Field, state: TableState) -> Output:
        return unified_output(column, state.state)

    def outputs(self, state: TableState) -> tuple[Output, ...]:
        shared = super().outputs(state)
        names = {output.name for output in shared}
        # A namespace that none of the states has is no column.
        names |= {NAMESPACE}
        own = (Output(field.name, field.type, source=field.name) for field in state.state.schema)
        return (*shared, *(output for output in own if output.name not in names))

    def unreadable(
        self, predicate: Predicate, *, allow_partial: bool
    ) -> tuple[tuple[ReaderError, ...], Mapping[int, ReaderError]]:
        """Return the errors of files that may hold wanted rows, and the id of each source that lacks files with its error.

        Raises:
            ReaderError: there is such a file, unless `allow_partial`.
        """
        return self._unreadable(self.states, predicate, allow_partial=allow_partial)


def _chunks(
    states: tuple[TableState, ...], rows: list[StateSplit]
) -> Iterator[tuple[tuple[frozenset[int] | None, ...], int]]:
    """Yield the chunks of key groups of each split, and its bytes."""
    sizes: dict[int, int] = {}
    for known in states:
        for part in known.state.parts:
            own = part.source.key_group_bytes(part.name)
            if own is None:
                yield (None,), sum(known.state.size_bytes for known in states)
                return
            for group, size in own:
                sizes[group] = sizes.get(group, 0) + size
    # A key that one state cannot be asked for may be in any key group of it, and its row needs all states.
    known_groups = [split.key_groups for split in rows]
    wanted = (
        frozenset[int]().union(*(groups for groups in known_groups if groups is not None))
        if all(groups is not None for groups in known_groups)
        else None
    )
    ordered = sorted(sizes.items())
    for groups, size_bytes in divided(ordered, wanted, SPLIT_BYTES):
        own_sizes = [(group, size) for group, size in ordered if groups is None or group in groups]
        yield tuple(chunk for chunk, _ in divided(own_sizes, None, _CHUNK_BYTES)), size_bytes
