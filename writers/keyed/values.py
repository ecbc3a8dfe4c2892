"""One state's entries that statements changed: decoded, changed as rows, and encoded again; all others keep their bytes.

A value that is set whole is encoded from its columns. An entry that is changed in part must be one whose columns hold all of its
bytes (`Encoder.restores`), or the statement is refused. The key of an entry keeps its bytes, but a timer's, which has its time in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from readers import ROW, Batch, Page, StateKind, StatePart
from writers.changes import FIRST_ADDED, AddedRows, GroupChanges, StateChanges, UpdatedRows
from writers.encode.encoder import Encoder
from writers.errors import RefusedEditError, UnencodableTypeError, UnencodableValueError
from writers.keyed.segments import EntrySegments

_SEGMENTS = 2
_VALUE = ("value",)
_TTL = "ttl_timestamp"
_TIMESTAMP = "timestamp"


class StateEditor:
    """Changes the entries of one state in one source.

    Args:
        part: the state, in the layout of canonical entries.
        changes: what statements changed.
    """

    def __init__(self, part: StatePart, changes: StateChanges) -> None:
        self._part = part
        self._changes = changes

    @property
    def groups(self) -> frozenset[int]:
        """The key groups that are touched."""
        return frozenset(self._changes.groups.tolist())

    def edited(self, group: int, pages: Iterator[Page]) -> Iterator[EntrySegments]:
        """Yield the entries of a key group after all changes.

        Args:
            group: the key group.
            pages: its entries before.

        Raises:
            RefusedEditError: an entry cannot be changed so.
            UnencodableValueError: a value that its type cannot hold.
        """
        changes = self._changes.of_group(group)
        if self._part.entry.kind is StateKind.LIST:
            raise RefusedEditError(f"{self._name}: elements of lists cannot be changed yet")
        if any(isinstance(layer, AddedRows) for layer, _ in changes.layers):
            raise RefusedEditError(f"{self._name}: rows cannot be added yet")
        updated, removed = changes.updated, changes.removed
        whole = _whole(changes)
        first = 0
        for page in pages:
            entries = EntrySegments.of_page(page)
            chosen = _within(updated, first, len(page))
            if len(chosen):
                entries = self._updated(page, entries, chosen, first, changes, whole)
            gone = _within(removed, first, len(page))
            if len(gone):
                kept = np.ones(len(page), dtype=np.bool_)
                kept[gone] = False
                entries = entries.take(kept)
            yield entries
            first += len(page)
        self._check_found(first, updated, removed, group)

    def _check_found(
        self, rows: int, updated: NDArray[np.int64], removed: NDArray[np.int64], group: int
    ) -> None:
        for numbers in (updated, removed):
            missing = numbers[(numbers >= rows) & (numbers < FIRST_ADDED)]
            if len(missing):
                raise RefusedEditError(
                    f"{self._name}: expected row {missing[0]} of key group {group}, found {rows} rows"
                )

    def _updated(
        self,
        page: Page,
        entries: EntrySegments,
        chosen: NDArray[np.int64],
        first: int,
        changes: GroupChanges,
        whole: NDArray[np.int64],
    ) -> EntrySegments:
        """Return the entries of a page; those that are chosen have their new values."""
        some = Page(
            data=page.data,
            starts=np.ascontiguousarray(page.starts[chosen]),
            ends=np.ascontiguousarray(page.ends[chosen]),
            key_groups=np.ascontiguousarray(page.key_groups[chosen]),
            subtask=page.subtask,
            path=page.path,
        )
        done = 0
        for batch in self._part.decoded([some]):
            places = chosen[done : done + len(batch.page)]
            done += len(places)
            self._check_restorable(batch, np.isin(places + first, whole))
            encoded = self._encoded(batch, places + first, changes)
            if self._part.entry.kind is StateKind.TIMER:
                entries = entries.replaced(places, encoded)
            else:
                entries = entries.with_values(places, encoded)
        return entries

    def _encoded(self, batch: Batch, numbers: NDArray[np.int64], changes: GroupChanges) -> EntrySegments:
        names = self._encoder.schema.names
        rows = _to_rows(dict(zip(names, batch.arrays, strict=True)), self._part)
        before = pa.table(rows | {ROW: pa.array(numbers)})
        try:
            after = changes.changed(before).combine_chunks()
            columns = _to_entries(
                {name: _array(after, name) for name in rows}, self._part, self._encoder.schema
            )
            self._check_nulls(columns)
            encoded = self._encoder.encode(
                pa.RecordBatch.from_arrays([columns[name] for name in names], names),
                np.ascontiguousarray(batch.page.key_groups),
            )
        except (UnencodableValueError, UnencodableTypeError) as error:
            raise self._located(error, before) from error
        return EntrySegments.of(encoded.data, encoded.starts, encoded.ends)

    def _located(
        self, error: UnencodableValueError | UnencodableTypeError, rows: pa.Table
    ) -> UnencodableValueError | UnencodableTypeError:
        """Return the error with the state and the key of the row."""
        key = f"key {rows.column('key')[error.row].as_py()!r}: " if 0 <= error.row < rows.num_rows else ""
        return type(error)(f"{key}{error.message}", breadcrumbs=(self._name, *error.breadcrumbs))

    def _check_restorable(self, batch: Batch, whole: NDArray[np.bool_]) -> None:
        if whole.all():
            return
        lost = ~(self._encoder.restores(batch) | whole)
        if not lost.any():
            return
        row = int(np.flatnonzero(lost)[0])
        key = batch.arrays[self._encoder.schema.get_field_index("key")][row].as_py()
        raise RefusedEditError(
            f"{self._name}, key {key!r}: expected a value whose columns hold all of its bytes, found one that would lose some "
            "if a part of it changed: set the whole value, or leave the row out by a WHERE"
        )

    def _check_nulls(self, columns: dict[str, pa.Array]) -> None:
        """Refuse a null map value that the hashmap backend could not write again."""
        if self._part.entry.kind is not StateKind.MAP or self._holds_nulls:
            return
        values = columns["value"]
        missing = np.flatnonzero(np.asarray(values.is_null()))
        if len(missing):
            raise UnencodableValueError(
                "expected a value, found NULL: the serializer of the map's values has no null, and the next savepoint of "
                "the hashmap backend would fail",
                breadcrumbs=_VALUE,
                row=int(missing[0]),
            )

    @cached_property
    def _holds_nulls(self) -> bool:
        assert self._part.entry.value is not None
        encoder = Encoder.of(self._part.entry.value)
        try:
            encoder.encode(pa.RecordBatch.from_arrays([pa.nulls(1, encoder.schema.types[0])], ["value"]))
        except (UnencodableValueError, UnencodableTypeError):
            return False
        return True

    @cached_property
    def _encoder(self) -> Encoder:
        return Encoder.of_part(self._part, _SEGMENTS)

    @property
    def _name(self) -> str:
        return self._part.name.name


def _whole(changes: GroupChanges) -> NDArray[np.int64]:
    """Return the numbers of the rows whose value is set as a whole."""
    found = [
        np.asarray(rows.column(ROW))
        for layer, rows in changes.layers
        if isinstance(layer, UpdatedRows) and _VALUE in layer.paths
    ]
    return np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *found]))


def _within(numbers: NDArray[np.int64], first: int, length: int) -> NDArray[np.int64]:
    """Return the numbers of a page's rows among these, counted from the begin of the page."""
    start, end = np.searchsorted(numbers, [first, first + length])
    return numbers[start:end] - first


def _to_rows(columns: dict[str, pa.Array], part: StatePart) -> dict[str, pa.Array]:
    """Return the columns of entries as the state's table has them."""
    if part.entry.kind is StateKind.TIMER:
        columns[_TIMESTAMP] = columns.pop("value")
    elif part.entry.ttl and not part.entry.is_raw("value"):
        columns["value"], columns[_TTL] = columns["value"].flatten()
    return columns


def _to_entries(columns: dict[str, pa.Array], part: StatePart, schema: pa.Schema) -> dict[str, pa.Array]:
    """Return the columns of rows as entries have them."""
    if part.entry.kind is StateKind.TIMER:
        columns["value"] = columns.pop(_TIMESTAMP)
    elif _TTL in columns:
        wrapped = schema.field("value").type
        arrays = [columns["value"], columns.pop(_TTL)]
        fields = [field.with_type(array.type) for field, array in zip(wrapped, arrays, strict=True)]
        columns["value"] = pa.StructArray.from_arrays(arrays, fields=fields)
    return columns


def _array(rows: pa.Table, name: str) -> pa.Array:
    column = rows.column(name)
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
