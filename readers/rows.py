"""Entries → rows: the columns of a state, the same for all formats.

| column | type | in states |
|---|---|---|
| key, namespace | types of their serializers | keyed state; namespace is null for VoidNamespace |
| value | type of its serializer, without the TTL wrapper; bytes if it cannot be decoded | all but timers, which have `timestamp` |
| map_key | type of its serializer | MAP, BROADCAST |
| list_index | int32, from 0 | LIST, OPERATOR_LIST, UNION_LIST |
| ttl_timestamp | timestamp[ms], last access in UTC | states with TTL |
| _undecoded | bytes of a value of a class that the savepoint does not describe; the value is null | with POJOs |
| _out_of_range | JSON text of values that their columns cannot hold; those are null | with dates, maps |
| _key_group, _subtask | int32 | keyed state; operator state has `_subtask` |
| _row | int64, from 0 in each key group, or in the operator state of a subtask | none: only if it is asked for |

`_out_of_range` is an object of paths: `{"value.valid_to":"9999-12-31T00:00:00.000000000"}`, `{"value.days[3]":…}`, `{"key":…}`.

Each element of a list is a row, and so is each entry of a map: a value of any size can be streamed. Where an element is of a class that
the savepoint does not describe, the end of it is not known: one row has its bytes with those of all elements behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from readers.decode.columns import Outlier, Path
from readers.decode.decoder import Batch, Page
from readers.errors import CorruptDataError
from readers.formats.entry import WHOLE_MAP, Entry, StateKind, column_type
from readers.schemas import KEY_GROUP, OUT_OF_RANGE, ROW, SUBTASK, UNDECODED, sql_type
from readers.serializers.operators import TtlSerializer, UnshownSerializer

_INDEX = pa.int32()
_TIMESTAMP = pa.timestamp("ms")
_LISTS = frozenset({StateKind.LIST, StateKind.OPERATOR_LIST, StateKind.UNION_LIST})
_COUNTED_ROWS = 1 << 16
_MADE_OF_VALUE = frozenset({"value", "ttl_timestamp", "timestamp"})
COUNTED = frozenset({KEY_GROUP, SUBTASK})
"""Columns that are made without reading an entry."""

_DECODED = frozenset({"key", "namespace", "map_key", "value"})
_KEYED = frozenset(map(StateKind, ["VALUE", "LIST", "MAP", "REDUCING", "AGGREGATING", "FOLDING", "TIMER"]))


def is_keyed(kind: StateKind) -> bool:
    """Return whether entries of this kind have a key."""
    return kind in _KEYED


def state_schema(entry: Entry) -> pa.Schema:
    """Return the columns of a state's table, in order."""
    fields: list[tuple[str, pa.DataType]] = []
    if is_keyed(entry.kind):
        fields += [("key", column_type(entry, "key")), ("namespace", column_type(entry, "namespace"))]
    fields.append(
        ("timestamp", _TIMESTAMP) if entry.kind is StateKind.TIMER else ("value", _plain_value(entry))
    )
    if entry.map_key is not None:
        fields.append(("map_key", column_type(entry, "map_key")))
    if entry.kind in _LISTS:
        fields.append(("list_index", _INDEX))
    if entry.ttl and not entry.is_raw("value"):
        fields.append(("ttl_timestamp", _TIMESTAMP))
    if entry.has_undecoded:
        fields.append((UNDECODED, pa.binary()))
    if entry.has_outliers:
        fields.append((OUT_OF_RANGE, pa.string()))
    if is_keyed(entry.kind):
        fields.append((KEY_GROUP, _INDEX))
    fields.append((SUBTASK, _INDEX))
    return pa.schema(fields)


def entry_columns(entry: Entry, wanted: frozenset[str]) -> frozenset[str]:
    """Return the columns of an entry that rows with the columns `wanted` are made from."""
    if OUT_OF_RANGE in wanted:
        # Whether a value is out of range is known when it has been decoded.
        wanted |= _DECODED
    # The length of a list or a whole map is the number of its rows: it is decoded even if no column shows it.
    if entry.kind is StateKind.LIST or wanted & _MADE_OF_VALUE:
        wanted |= {"value"}
    return wanted | {WHOLE_MAP} if entry.kind is StateKind.MAP else wanted


def shown(entry: Entry, wanted: frozenset[str]) -> Entry:
    """Return the entry for reading the columns `wanted`: lists and whole maps step over parts that no column shows."""
    if entry.kind not in (StateKind.LIST, StateKind.MAP) or entry.value is None or OUT_OF_RANGE in wanted:
        return entry
    if not wanted & _MADE_OF_VALUE:
        entry = replace(entry, value=UnshownSerializer(entry.value))
    if entry.map_key is not None and "map_key" not in wanted:
        entry = replace(entry, map_key=UnshownSerializer(entry.map_key))
    return entry


def is_row(entry: Entry, columns: Iterable[str]) -> bool:
    """Return whether every entry with these columns is one row: it is neither a list nor a whole map."""
    is_list = entry.kind is StateKind.LIST and not entry.is_raw("value")
    return not is_list and WHOLE_MAP not in columns


def counted_rows(
    counts: Iterable[tuple[int, int]], subtask: int, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield rows of which only `_key_group` and `_subtask` are selected.

    Args:
        counts: (key group, number of rows).
        subtask: index of the subtask.
        schema: the columns to return; others than these two are null.
    """
    groups: list[int] = []
    numbers: list[int] = []
    for group, number in counts:
        # A file may claim any number of entries: batches stay small whatever it claims.
        for start in range(0, number, _COUNTED_ROWS):
            groups.append(group)
            numbers.append(min(number - start, _COUNTED_ROWS))
            if sum(numbers) >= _COUNTED_ROWS:
                yield _repeated(groups, numbers, subtask, schema)
                groups, numbers = [], []
    if numbers:
        yield _repeated(groups, numbers, subtask, schema)


def _repeated(groups: list[int], numbers: list[int], subtask: int, schema: pa.Schema) -> pa.RecordBatch:
    length = sum(numbers)
    columns = {}
    if KEY_GROUP in schema.names:
        columns[KEY_GROUP] = pa.array(np.repeat(np.array(groups, dtype=np.int32), numbers))
    if SUBTASK in schema.names:
        columns[SUBTASK] = pa.array(np.full(length, subtask, dtype=np.int32))
    return _conformed(columns, schema, length)


class RowNumbers:
    """Numbers the rows of each key group as they come."""

    def __init__(self) -> None:
        self._next: dict[int, int] = {}

    def of(self, groups: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return the number of each row: an int64 array of the same length.

        Args:
            groups: the key groups of the next rows; -1 for those of operator state.
        """
        found = np.arange(len(groups), dtype=np.int64)
        # A page has few key groups, and each of them in one run, wherever it comes from.
        begins = np.flatnonzero(groups[1:] != groups[:-1]) + 1
        for start, end in pairwise([0, *begins.tolist(), len(groups)] if len(groups) else [0]):
            group = int(groups[start])
            first = self._next.get(group, 0)
            found[start:end] += first - start
            self._next[group] = first + end - start
        return found


def rows(
    batch: Batch, names: list[str], entry: Entry, schema: pa.Schema, row_numbers: RowNumbers
) -> pa.RecordBatch:
    """Return the rows of decoded entries.

    Args:
        batch: the entries.
        names: the columns that were decoded.
        entry: the serializers of the entries.
        schema: the columns to return; those that these entries do not have are null.
        row_numbers: have numbered the rows before these, if `_row` is among the columns.
    """
    page = batch.page
    columns = dict(zip(names, batch.arrays, strict=True))
    parents = _explode(columns, entry, page)
    for name in (KEY_GROUP, SUBTASK):
        if name in schema.names:
            numbers = (
                page.key_groups if name == KEY_GROUP else np.full(len(page), page.subtask, dtype=np.int32)
            )
            columns[name] = _numbers(numbers)
    if parents is not None:
        repeated = pa.array(parents)
        for name in (KEY_GROUP, SUBTASK, "key", "namespace"):
            if name in columns:
                columns[name] = columns[name].take(repeated)
        if UNDECODED in columns:
            columns[UNDECODED] = columns[UNDECODED].take(_last_rows(parents))
    if entry.ttl and "value" in columns and not entry.is_raw("value"):
        columns["ttl_timestamp"] = _child(columns["value"], 1)
        columns["value"] = _child(columns["value"], 0)
    length = len(parents) if parents is not None else len(page)
    if ROW in schema.names:
        columns[ROW] = pa.array(
            row_numbers.of(page.key_groups if parents is None else page.key_groups[parents])
        )
    if batch.outliers and OUT_OF_RANGE in schema.names:
        columns[OUT_OF_RANGE] = _texts(_placed(batch.outliers, entry, parents), length)
    return _conformed(columns, schema, length)


def _numbers(values: NDArray[np.int32]) -> pa.Array:
    """Return numbers as a column; `pa.array` would ask numpy for its masked arrays first, whose import takes 7 ms."""
    contiguous = np.ascontiguousarray(values, dtype=np.int32)
    return pa.Array.from_buffers(pa.int32(), len(contiguous), [None, pa.py_buffer(contiguous)])


def _conformed(columns: Mapping[str, pa.Array], schema: pa.Schema, length: int) -> pa.RecordBatch:
    """Return `length` rows with the columns of a schema; those that are not among `columns` are null."""
    arrays = [
        conform(columns[field.name], field.type) if field.name in columns else pa.nulls(length, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema) if arrays else _without_columns(length)


def conform(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Return an array as the type `target`; fields that its structs do not have become null.

    Subtasks may know different subclasses of a POJO: their structs differ in fields, never in the type of a field.

    Raises:
        CorruptDataError: the array is of another kind: bytes are never taken for text, or for a list.
    """
    if array.type.equals(target):
        return array
    if array.null_count == len(array):
        return pa.nulls(len(array), target)
    if _kind(array.type) != _kind(target):
        raise CorruptDataError(f"expected values of type {sql_type(target)}, found {sql_type(array.type)}")
    if pa.types.is_struct(target):
        have = {field.name: index for index, field in enumerate(array.type)}
        children = [
            conform(_child(array, have[field.name]), field.type)
            if field.name in have
            else pa.nulls(len(array), field.type)
            for field in target
        ]
        return pa.StructArray.from_arrays(children, fields=list(target), mask=array.is_null())
    if pa.types.is_list(target):
        return _with_values(array, conform(array.values, target.value_type), target)
    if pa.types.is_map(target):
        pairs = [conform(array.keys, target.key_type), conform(array.items, target.item_type)]
        fields = [target.key_field, target.item_field]
        return _with_values(array, pa.StructArray.from_arrays(pairs, fields=fields), target)
    return array.cast(target)


def _kind(data_type: pa.DataType) -> str:
    """Return what decides whether arrays of two types may be made alike: nested types and bytes stand alone."""
    kinds = {
        "struct": pa.types.is_struct,
        "list": pa.types.is_list,
        "map": pa.types.is_map,
        "bytes": pa.types.is_binary,
    }
    return next((kind for kind, test in kinds.items() if test(data_type)), "plain")


def _with_values(lists: pa.Array, values: pa.Array, target: pa.DataType) -> pa.Array:
    """Return lists or maps with other values in place of all of theirs; they may be a slice."""
    buffers = lists.buffers()[:2]
    return pa.Array.from_buffers(target, len(lists), buffers, lists.null_count, lists.offset, [values])


def merged_type(first: pa.DataType, second: pa.DataType) -> pa.DataType | None:
    """Return the type that arrays of both types conform to; None if there is none."""
    if first.equals(second):
        return first
    if pa.types.is_struct(first) and pa.types.is_struct(second):
        fields = {field.name: field.type for field in first}
        for field in second:
            merged = merged_type(fields.get(field.name, field.type), field.type)
            if merged is None:
                return None
            fields[field.name] = merged
        return pa.struct(list(fields.items()))
    if pa.types.is_list(first) and pa.types.is_list(second):
        merged = merged_type(first.value_type, second.value_type)
        return None if merged is None else pa.list_(merged)
    if pa.types.is_map(first) and pa.types.is_map(second):
        key = merged_type(first.key_type, second.key_type)
        item = merged_type(first.item_type, second.item_type)
        return None if key is None or item is None else pa.map_(key, item)
    return None


def _plain_value(entry: Entry) -> pa.DataType:
    if isinstance(entry.value, TtlSerializer) and not entry.is_raw("value"):
        return entry.value.value.arrow()
    return column_type(entry, "value")


def _explode(columns: dict[str, pa.Array], entry: Entry, page: Page) -> NDArray[np.int64] | None:
    """Replace lists and maps by their elements. Return the entry of each row; None if every entry is one row."""
    if entry.kind is StateKind.TIMER:
        if "value" in columns:
            columns["timestamp"] = columns.pop("value")
        return None
    if page.indexes is not None:
        columns["list_index"] = pa.array(page.indexes)
    array = columns.pop(WHOLE_MAP, None)
    if array is None and entry.kind is StateKind.LIST and not entry.is_raw("value"):
        array = columns.pop("value")
    if array is None:
        return None
    if array.null_count:
        return _explode_around(columns, array, entry)
    offsets = np.asarray(array.offsets, dtype=np.int64)
    counts = np.diff(offsets)
    parents = np.repeat(np.arange(len(array), dtype=np.int64), counts)
    if entry.kind is StateKind.MAP:
        columns["map_key"], columns["value"] = array.values.field(0), array.values.field(1)
    else:
        columns["value"] = array.flatten()
        # A list of many megabytes comes in several pages: `first_index` is the position of this one's first element.
        positions = np.arange(len(parents), dtype=np.int64) - offsets[:-1][parents] + page.first_index
        columns["list_index"] = pa.array(positions.astype(np.int32))
    return parents


def _last_rows(parents: NDArray[np.int64]) -> pa.Array:
    """Return the entry of the last row of each entry, null for its other rows: only there stand bytes that are not decoded."""
    return pa.array(parents, mask=np.append(parents[1:] == parents[:-1], [False])[: len(parents)])


def _explode_around(columns: dict[str, pa.Array], lists: pa.ListArray, entry: Entry) -> NDArray[np.int64]:
    """Return the same for lists or maps of which some are null, as their bytes are not decoded: these have one row."""
    missing = np.asarray(lists.is_null())
    offsets = np.asarray(lists.offsets, dtype=np.int64)
    counts = np.where(missing, 1, np.diff(offsets))
    parents = np.repeat(np.arange(len(lists), dtype=np.int64), counts)
    begins = np.concatenate([[0], np.cumsum(counts)[:-1]])
    positions = np.arange(len(parents), dtype=np.int64) - begins[parents]
    hidden = missing[parents]
    elements = pa.array(offsets[:-1][parents] + positions, mask=hidden)
    if entry.kind is StateKind.MAP:
        pairs = lists.values.take(elements)
        columns["map_key"], columns["value"] = _child(pairs, 0), _child(pairs, 1)
    else:
        columns["value"] = lists.values.take(elements)
        columns["list_index"] = pa.array(positions.astype(np.int32), mask=hidden)
    return parents


def _placed(
    outliers: Iterable[Outlier], entry: Entry, parents: NDArray[np.int64] | None
) -> Iterator[tuple[int, Path, str]]:
    """Yield (row, path, JSON text) of each outlier; an outlier in a key is in all rows of its entry."""
    for outlier in outliers:
        first, end = outlier.entry, outlier.entry + 1
        path = outlier.path
        if parents is not None:
            first, end = np.searchsorted(parents, [first, end]).tolist()
        if path[0] == WHOLE_MAP or (entry.kind is StateKind.LIST and path[0] == "value"):
            first += int(path[1])
            end = first + 1
            path = ("value", *path[2:]) if path[0] == "value" else (_MAP_COLUMNS[path[2]], *path[3:])
        if entry.ttl and path[0] == "value":
            # Rows show the value without its TTL wrapper, the struct that the second step of the path leads into.
            path = ("value", *path[2:])
        for row in range(first, end):
            yield row, path, outlier.json


_MAP_COLUMNS: dict[str | int, str] = {"key": "map_key", "value": "value"}


def _texts(outliers: Iterable[tuple[int, Path, str]], length: int) -> pa.Array:
    """Return the column `_out_of_range`: an object path → value in each row; null if there are none."""
    members: dict[int, list[str]] = {}
    for row, path, text in outliers:
        members.setdefault(row, []).append(f"{orjson.dumps(_dotted(path)).decode()}:{text}")
    texts = [f"{{{','.join(members[row])}}}" if row in members else None for row in range(length)]
    return pa.array(texts, pa.string())


def _dotted(path: Path) -> str:
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return "".join(steps).removeprefix(".")


def _child(array: pa.StructArray, index: int) -> pa.Array:
    """Return a field of a struct array, null where the struct is null."""
    # `field` alone ignores the nulls of the struct, but copies nothing.
    return pc.struct_field(array, [index]) if array.null_count else array.field(index)


def _without_columns(length: int) -> pa.RecordBatch:
    """Return rows without columns; only their number counts."""
    # `RecordBatch.from_arrays` without arrays has no rows.
    return pa.RecordBatch.from_struct_array(pa.array([{}] * length, type=pa.struct([])))
