"""Masked values in place of the entries of a keyed state: decoded, masked row by row, and encoded anew.

| part of a state | with masks |
|---|---|
| a value, an element, an entry of a map, a timer | a row with other values, or none |
| a list | its elements; no list without any |
| a key | another key, in the key group of its hash code, with all of its rows |

An entry must be one whose columns hold all of its bytes. Values that are not decoded keep their bytes, unless a rule covers them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from readers import ROW, UNDECODED, Batch, Operator, Page, StateKind, StateName, StatePart
from writers.changes import GROUP, Layer, RemovedRows, StateChanges, UpdatedRows
from writers.errors import RefusedEditError
from writers.hashes import key_groups_of
from writers.keyed.carry import composed_part
from writers.keyed.values import EntryCoder
from writers.operatorstate.elements import rows_of_elements
from writers.operatorstate.rewrite import KINDS

_KEY, _VALUE, _MAP_KEY = "key", "value", "map_key"
_NULL_FLAG = 1


class RowMask(Protocol):
    """Masks the rows of a state."""

    @property
    def masks_key(self) -> bool:
        """True if keys get others."""

    @property
    def is_whole(self) -> bool:
        """True if nothing is masked."""

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows in the same types, without those that go; `_row` of a row stays."""


def row_schema(operator: Operator, name: StateName) -> pa.Schema:
    """Return the columns of the rows that a mask of a keyed state gets."""
    source = next(one for one in operator.sources if name in one.entries)
    return EntryCoder(composed_part(source, name, max(operator.metadata.max_parallelism, 1))).schema


class EntryMasker:
    """Masks the entries of one state in one source.

    Args:
        part: the state, in the layout of canonical entries.
        mask: of its rows.
        max_parallelism: number of key groups of the operator.
    """

    def __init__(self, part: StatePart, mask: RowMask, max_parallelism: int) -> None:
        self._part, self._mask, self._max_parallelism = part, mask, max_parallelism
        self._coder = EntryCoder(part)
        serializer = part.entry.key
        assert serializer is not None
        self._serializer = serializer

    def masked(self, page: Page) -> Iterator[Page]:
        """Yield the entries of a page with their masks, each in the key group of its key.

        Raises:
            RefusedEditError: the columns of an entry do not hold all of its bytes, or a key's hash code is not known.
            WriterError: a mask is no value of the type.
            ReaderError: the bytes contradict the format.
        """
        for batch in self._part.decoded([page]):
            exempt = np.zeros(len(batch.page), dtype=np.bool_)
            if self._part.entry.kind is StateKind.MAP:
                # Behind the flag of a null map value the hashmap backend writes bytes that hold nothing.
                exempt = batch.page.data[batch.page.starts[:, 1]] == _NULL_FLAG
            self._coder.check_restorable(batch, exempt)
            columns = self._coder.rows(batch)
            found = self._list_elements(columns) if self._coder.is_list else columns
            owners = np.asarray(found.pop(ROW)) if ROW in found else np.arange(len(batch.page))
            rows = pa.table(found | {ROW: pa.array(np.arange(len(owners)))})
            [before] = rows.combine_chunks().to_batches() or [None]
            if before is None:
                continue
            after = pa.Table.from_batches([self._mask.apply(before)])
            if after.num_rows:
                yield self._encoded(batch, owners[np.asarray(after.column(ROW))], after)

    def _encoded(self, batch: Batch, owners: NDArray[np.int64], rows: pa.Table) -> Page:
        """Return entries of masked rows; `owners` has the entry of each in the batch."""
        groups = np.ascontiguousarray(batch.page.key_groups[owners])
        starts = np.flatnonzero(np.append(True, np.diff(owners) != 0))
        if self._coder.is_list:
            groups = groups[starts]
        if self._mask.masks_key:
            keys = rows.column(_KEY).combine_chunks()
            groups = self._moved(batch, keys.take(pa.array(starts)) if self._coder.is_list else keys)
        is_decoded = np.ones(rows.num_rows, dtype=np.bool_)
        if UNDECODED in rows.schema.names:
            is_decoded = np.asarray(rows.column(UNDECODED).is_null())
        self._coder.check_set(rows, is_decoded)
        entries = (
            self._coder.encoded_lists(rows, starts, groups)
            if self._coder.is_list
            else self._coder.encoded(rows, groups)
        )
        return replace(entries.page(batch.page), key_groups=groups)

    def _moved(self, batch: Batch, keys: pa.Array) -> NDArray[np.int32]:
        """Return the key groups of masked keys, after a look at those of the keys before.

        Raises:
            RefusedEditError: a hash code is not known, or it is not what the source says.
        """
        before = batch.arrays[self._coder.encoder.schema.get_field_index(_KEY)]
        known = key_groups_of(self._serializer, before, self._max_parallelism)
        wrong = np.flatnonzero(known != batch.page.key_groups)
        if len(wrong):
            raise RefusedEditError(
                f"{self._coder.name}: expected keys in the key groups of their hash codes in Java, found one elsewhere: its "
                f"hash code is not that of {self._serializer.type_name}"
            )
        return key_groups_of(self._serializer, keys, self._max_parallelism)

    def _list_elements(self, columns: dict[str, pa.Array]) -> dict[str, pa.Array]:
        """Return the elements of lists as rows, with the number of the list of each in `_row`."""
        self._coder.check_decoded(columns)
        lists = columns[_VALUE]
        offsets = np.asarray(lists.offsets, dtype=np.int64)
        owners = np.repeat(np.arange(len(lists)), np.diff(offsets))
        elements = lists.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
        others = {name: array.take(pa.array(owners)) for name, array in columns.items() if name != _VALUE}
        return others | self._coder.elements(elements) | {ROW: pa.array(owners)}


def masked_changes(
    operator: Operator, masks: Mapping[str, RowMask], now_ms: int
) -> Iterator[tuple[str, StateChanges]]:
    """Yield the masks of list, union and broadcast states of an operator as changes of their rows, by their names.

    Args:
        operator: in the source.
        masks: of the rows of each state, by its name.
        now_ms: the time of the write.

    Raises:
        ReaderError: a state cannot be read.
    """
    for state in operator.states:
        if state.name not in masks or state.kind not in KINDS:
            continue
        paths = ((_MAP_KEY,), (_VALUE,)) if state.kind is StateKind.BROADCAST else ((_VALUE,),)
        layers: list[Layer] = []
        for part in state.parts:
            before = rows_of_elements(part)
            [batch] = before.combine_chunks().to_batches() or [None]
            if batch is None:
                continue
            after = masks[state.name].apply(batch)
            places = pa.array(np.full(after.num_rows, part.source.subtask, dtype=np.int32))
            found = {GROUP: places, ROW: after.column(ROW)}
            values = {str(number): after.column(path[0]) for number, path in enumerate(paths)}
            layers.append(UpdatedRows(pa.table(found | values), paths))
            gone = np.setdiff1d(np.asarray(batch.column(ROW)), np.asarray(after.column(ROW)))
            if len(gone):
                places = pa.array(np.full(len(gone), part.source.subtask, dtype=np.int32))
                layers.append(RemovedRows(pa.table({GROUP: places, ROW: pa.array(gone)})))
        yield state.name, StateChanges(layers=tuple(layers), now_ms=now_ms)
