"""Views of the states of SQL jobs: each field of a key and of a row is a column, in place of structs.

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
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from catalog.cache.states import StateCache
from catalog.naming import unique_names
from catalog.references import SavepointReference
from catalog.scan import Output, Predicate
from catalog.statetables import StatesTable, TableState
from readers import KEY_GROUP, OUT_OF_RANGE, ROW_KIND, SUBTASK, State

# Conditions on several key columns combine to so many keys at most: beyond that, a lookup a key costs more than a scan.
_MAX_KEYS = 1000
_TTL = "ttl_timestamp"
_NUMBERED = re.compile(r"f\d+")


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


def view_of(state: State) -> View | None:
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

    def _keys(self, state: State, predicate: Predicate) -> tuple[tuple[int, Any], ...] | None:
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
        for name in (_TTL, OUT_OF_RANGE, KEY_GROUP, SUBTASK)
        if name in schema.names
    ]
    every = [*keys, *described]
    # The fields of a row and the columns beside it may have one name: each of them gets its source as a tail.
    unique = unique_names((column.name, column.source) for column in every)
    renamed = [
        Column(name, column.type, column.source, column.path)
        for name, column in zip(unique, every, strict=True)
    ]
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
    return None if columns is None else (_renamed(column, "associations", "rank") for column in columns)


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
    return (field for field in row if field.name != ROW_KIND)


def _renamed(column: Column, old: str, new: str) -> Column:
    return Column(new, column.type, column.source, column.path) if column.name == old else column


def _type(schema: pa.Schema, name: str) -> Any:
    return schema.field(name).type if name in schema.names else None


def _is_row(data_type: Any) -> bool:
    return isinstance(data_type, pa.StructType) and data_type.get_field_index(ROW_KIND) >= 0


_BESIDE_ROW = {pa.int32(): "associations", pa.bool_(): "is_matched"}

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
