"""Other tables over the same states: views of the states of SQL jobs, and wide tables.

A `ViewTable` shows each field of a key and of a row of a SQL job as a column, in place of structs:

| state | operator | view | columns, after those of the key |
|---|---|---|---|
| `accState` | group aggregate, over | `aggregate` | the accumulators |
| `distinctAcc_<i>` | the same | `distinct_<i>` | `distinct_value`, `count_or_mask` |
| `window-aggs` | window aggregate | `windows` | `slice_end`, or `window_start` and `window_end`; the accumulators |
| `left-records`, `right-records` | join | `left`, `right` | the row, `count`, `associations` |
| `IntervalJoinLeftCache`, `…RightCache` | interval join | `left`, `right` | `row_time`, the row, `is_matched` |
| `deduplicate-state` | deduplicate | `deduplicate` | the row |
| `data-state…`, `Top1-Rank-State` | Top-N | `top_n` | the row, `rank` where it is kept, `list_index` |

Key columns are k0, k1, … and row columns f0, f1, … unless `stateInfo` names them; a key column that would have the name of a
row column stays k0. In an outer join, `associations` counts the matches of a row on the other side. Without retractions,
`count_or_mask` is a bit mask of the filters that the value has passed. A view leaves out the row kinds, and unique keys, sort
keys and namespaces whose columns are in the row or null; all else of the state's own table is there.

A `WideTable` shows all keyed states of an operator side by side. Its split is some key groups of the operator, of which a few at a time
are read from all states and joined.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import readers
from catalog.cache.states import StateCache
from catalog.references import SavepointReference, unique_names
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

if TYPE_CHECKING:
    from catalog.wide.joining import StateRows


# Conditions on several key columns combine to so many keys at most: beyond that, a lookup a key costs more than a scan.
_MAX_KEYS = 1000
_TTL = "ttl_timestamp"
_NUMBERED = re.compile(r"f\d+")
_BESIDE_ROW = {pa.int32(): "associations", pa.bool_(): "is_matched"}
_REMARKS = (readers.UNDECODED, readers.OUT_OF_RANGE)
# What is joined at once, of all states together: decoded it is some times as much.
_CHUNK_BYTES = 4 << 20
_PRUNING = (KEY, readers.KEY_GROUP)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a view: a field, at any depth, of a column of the state.

    Attributes:
        name: in the view.
        type: of the field.
        source: the state's column.
        path: the names of the fields that lead from the source to the field.
    """

    name: str
    type: pa.DataType
    source: str
    path: tuple[str, ...] = ()

    def output(self) -> Output:
        """Return how a split makes the column."""
        return Output(self.name, self.type, source=self.source, path=self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The columns of a state as a view.

    Attributes:
        name: follows the operator's name.
        keys: the columns of the key.
        columns: all others.
        exploded: the state's column of lists whose elements are the rows; None if an entry is a row.
    """

    name: str
    keys: tuple[Column, ...]
    columns: tuple[Column, ...]
    exploded: str | None = None


def view_of(state: readers.State) -> View | None:
    """Return the view of a state of a SQL operator; None for other states."""
    for pattern, describe in _VIEWS:
        match = pattern.fullmatch(state.name)
        # Jobs of the DataStream API may use these names, too; only SQL's keys are rows.
        if match is not None and state.parts and _is_row(_type(state.schema, "key")):
            return _view(state.schema, match.expand(describe[0]), describe[1])
    return None


class ViewTable(StatesTable):
    """A state of a SQL operator, with a column for each field."""

    def __init__(
        self,
        name: str,
        comment: str,
        state: TableState,
        savepoint: SavepointReference,
        view: View,
        cache: StateCache | None = None,
    ) -> None:
        super().__init__(name, comment, savepoint, lambda: (state,), cache)
        self.view, self.exploded = view, view.exploded

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([(column.name, column.type) for column in self._columns.values()])

    @cached_property
    def _columns(self) -> dict[str, Column]:
        return {column.name: column for column in (*self.view.keys, *self.view.columns)}

    def _output(self, column: pa.Field, state: TableState) -> Output:
        return self._columns[column.name].output()

    def _keys(self, state: readers.State, predicate: Predicate) -> tuple[tuple[int, Any], ...] | None:
        keys = self._whole_keys(predicate)
        return None if keys is None else state.key_groups_of(keys)

    def _reads_whole_states(self, predicate: Predicate) -> bool:
        has_keys = any(predicate.of(column.name) is not None for column in self.view.keys)
        return not has_keys and super()._reads_whole_states(predicate)

    def _whole_keys(self, predicate: Predicate) -> tuple[dict[str, Any], ...] | None:
        """Return the keys that the conditions on key columns leave; None if one of the columns has no condition."""
        values = [predicate.of(column.name) for column in self.view.keys]
        count = 1
        for choice in values:
            # A column without a condition exceeds the limit alone.
            count *= _MAX_KEYS + 1 if choice is None else len(choice)
        if count > _MAX_KEYS or not values:
            return None
        names = [column.path[-1] for column in self.view.keys]
        return tuple(
            dict(zip(names, choice, strict=True))
            for choice in itertools.product(*(choice or () for choice in values))
        )


_Describe = Callable[[pa.Schema], Iterator[Column] | None]


def _view(schema: pa.Schema, name: str, describe: _Describe) -> View | None:
    exploded = "value" if pa.types.is_list(_type(schema, "value")) else None
    columns = describe(schema)
    if columns is None:
        return None
    described = list(columns)
    if exploded:
        described.append(Column("list_index", pa.int32(), "list_index"))
    taken = {column.name.casefold() for column in described}
    keys = [
        Column(_key_name(field.name, index, taken), field.type, "key", (field.name,))
        for index, field in enumerate(_fields(_type(schema, "key")))
    ]
    described += [
        Column(name, _type(schema, name), name)
        for name in (_TTL, readers.OUT_OF_RANGE, readers.KEY_GROUP, readers.SUBTASK)
        if name in schema.names
    ]
    every = [*keys, *described]
    # The fields of a row and the columns beside it may have one name: each of them gets its source as a tail.
    unique = unique_names((column.name, column.source) for column in every)
    renamed = [replace(column, name=name) for name, column in zip(unique, every, strict=True)]
    return View(
        name=name, keys=tuple(renamed[: len(keys)]), columns=tuple(renamed[len(keys) :]), exploded=exploded
    )


def _key_name(field: str, index: int, taken: set[str]) -> str:
    # Fields that the user has not named are f0, f1, … in keys as in rows.
    is_known = _NUMBERED.fullmatch(field) is None and field.casefold() not in taken
    return field if is_known else f"k{index}"


# ---- the columns of each kind ----


def _row(schema: pa.Schema) -> Iterator[Column] | None:
    """Yield the columns of a row, alone or in a tuple, in the value or the map key; then the numbers beside it."""
    value = _type(schema, "value")
    element = value.value_type if pa.types.is_list(value) else value
    if _is_row(element):
        return _row_columns(element, "value", ())
    if pa.types.is_struct(element) and element.num_fields == 2 and _is_row(element.field(0).type):
        first, second = element
        return itertools.chain(
            _row_columns(first.type, "value", (first.name,)),
            [Column(_BESIDE_ROW.get(second.type, second.name), second.type, "value", (second.name,))],
        )
    if _is_row(_type(schema, "map_key")):
        return itertools.chain(_row_columns(_type(schema, "map_key"), "map_key", ()), _counts(value))
    return None


def _input(schema: pa.Schema) -> Iterator[Column] | None:
    """Yield the columns of a row; or those of a key and a row, if the map key is a pair of both."""
    pair = _type(schema, "map_key")
    rows = list(_fields(pair)) if _is_row(pair) else []
    if len(rows) != 2 or not all(pa.types.is_struct(row.type) for row in rows):
        return _row(schema)
    # Flink keys an input without a unique key by a pair: its join key and the row itself.
    columns = [column for row in rows for column in _row_columns(row.type, "map_key", (row.name,))]
    return itertools.chain(columns, _counts(_type(schema, "value")))


def _counts(value: pa.DataType) -> Iterator[Column]:
    if not pa.types.is_struct(value):
        yield Column("count", value, "value")
        return
    for name, field in zip(("count", "associations"), value, strict=False):
        yield Column(name, field.type, "value", (field.name,))


def _ranked(schema: pa.Schema) -> Iterator[Column] | None:
    columns = _row(schema)
    if columns is None:
        return None
    return (replace(one, name="rank") if one.name == "associations" else one for one in columns)


def _interval(schema: pa.Schema) -> Iterator[Column] | None:
    columns = _row(schema)
    if columns is None:
        return None
    return itertools.chain([Column("row_time", pa.timestamp("ms"), "map_key")], columns)


def _windows(schema: pa.Schema) -> Iterator[Column] | None:
    columns, namespace = _row(schema), _type(schema, "namespace")
    if columns is None:
        return None
    if pa.types.is_struct(namespace):
        window = [
            Column(f"window_{field.name}", field.type, "namespace", (field.name,)) for field in namespace
        ]
    elif pa.types.is_int64(namespace):
        window = [Column("slice_end", pa.timestamp("ms"), "namespace")]
    else:
        window = [Column("window", namespace, "namespace")]
    return itertools.chain(window, columns)


def _distinct(schema: pa.Schema) -> Iterator[Column] | None:
    distinct = _type(schema, "map_key")
    if distinct is None:
        return None
    values = (
        _row_columns(distinct, "map_key", ())
        if _is_row(distinct)
        else iter([Column("distinct_value", distinct, "map_key")])
    )
    return itertools.chain(values, [Column("count_or_mask", _type(schema, "value"), "value")])


def _row_columns(row: pa.StructType, source: str, path: tuple[str, ...]) -> Iterator[Column]:
    for field in _fields(row):
        yield Column(field.name, field.type, source, (*path, field.name))


def _fields(row: pa.StructType) -> Iterator[pa.Field]:
    return (field for field in row if field.name != readers.ROW_KIND)


def _type(schema: pa.Schema, name: str) -> Any:
    return schema.field(name).type if name in schema.names else None


def _is_row(data_type: Any) -> bool:
    return isinstance(data_type, pa.StructType) and data_type.get_field_index(readers.ROW_KIND) >= 0


_VIEWS: tuple[tuple[re.Pattern[str], tuple[str, _Describe]], ...] = tuple(
    (re.compile(pattern), (name, describe))
    for pattern, name, describe in (
        (r"accState", "aggregate", _row),
        (r"distinctAcc_(\d+)", r"distinct_\1", _distinct),
        (r"window-aggs", "windows", _windows),
        (r"left-records", "left", _row),
        (r"right-records", "right", _row),
        (r"IntervalJoinLeftCache", "left", _interval),
        (r"IntervalJoinRightCache", "right", _interval),
        (r"multi-join-input-(\d+)", r"input_\1", _input),
        (r"deduplicate-state", "deduplicate", _row),
        (r"data-state(?:-with-append|-with-update)?|Top1-Rank-State", "top_n", _ranked),
    )
)


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
        names = columns or (readers.KEY_GROUP,)
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
            (KEY, NAMESPACE, readers.KEY_GROUP, *(column.contents if is_shown else column.outliers))
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


def _too_large(name: str, path: str) -> readers.UnsupportedStateError:
    return readers.UnsupportedStateError(
        f"expected at most 2 GiB of texts in one key group of {name}, found more: read the table of the state",
        path=path,
    )


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
        remarks = [(readers.UNDECODED, pa.list_(pa.string())), (readers.OUT_OF_RANGE, pa.string())]
        own = {name for column in self.columns for name in column.contents}
        # A map with a key that is NULL is in no column, whatever the types are.
        own |= {readers.OUT_OF_RANGE for column in self.columns if pa.types.is_map(column.type)}
        return pa.schema(
            [
                *(field for field in identity if field.name != readers.KEY_GROUP),
                *((column.name, column.type) for column in self.columns),
                *(remark for remark in remarks if remark[0] in own),
                identity.field(readers.KEY_GROUP),
            ]
        )

    @cached_property
    def unquoted(self) -> frozenset[str]:
        return self._states.unquoted & {KEY, NAMESPACE}

    @cached_property
    def size_bytes(self) -> int:
        return self._states.size_bytes

    @cached_property
    def own_size(self) -> readers.StateSize:
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
        self, predicate: Predicate, *, allow_partial: bool, damages: Mapping[int, readers.ReaderError]
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
        names = (KEY, NAMESPACE, readers.KEY_GROUP)
        return pa.schema(list(unified_columns([known.state for known in self.states], names).items()))

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
    ) -> tuple[tuple[readers.ReaderError, ...], Mapping[int, readers.ReaderError]]:
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
