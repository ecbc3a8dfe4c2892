"""The entries of a key group that statements changed, where a row is an element of a list.

An entry is a whole list: it is encoded anew if an element of it changes, comes or goes, and is no more when it has none. All elements
of the lists that change are in memory; of all other lists only the number of elements is looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from readers import ROW, Batch, Page
from writers.changes import FIRST_ADDED, GroupChanges, array_of
from writers.encode.fitting import shown
from writers.errors import RefusedEditError, UnencodableTypeError, UnencodableValueError
from writers.keyed.entries import numbers_set_whole
from writers.keyed.keys import NewKeys
from writers.keyed.segments import EntrySegments
from writers.keyed.values import StateEditor, without

_INDEX = "list_index"


class ListEditor(StateEditor):
    """Changes the lists of a state."""

    def _edited(self, changes: GroupChanges, pages: Iterable[Page]) -> Iterator[EntrySegments]:
        keys = NewKeys(self._added(changes)[1])
        reader = _ListReader(self, changes, keys)
        for page in pages:
            yield reader.untouched(page)
        self._check_found(reader.elements, changes)
        yield self._encoded(changes, reader.touched())

    def _encoded(self, changes: GroupChanges, before: pa.Table) -> EntrySegments:
        try:
            after = changes.applied(before)
        except (UnencodableValueError, UnencodableTypeError) as error:
            raise self.coder.located(error, before) from error
        numbers = np.asarray(array_of(after, ROW))
        self.coder.check_set(after, np.isin(numbers, numbers_set_whole(changes)))
        is_new = np.isin(numbers, changes.updated) | (numbers >= FIRST_ADDED)
        self.coder.notice(after.filter(pa.array(is_new)))
        starts = np.flatnonzero(np.asarray(array_of(after, _INDEX)) == 0)
        return self.coder.encoded_lists(after, starts, changes.group)


class _ListReader:
    """Reads the lists of a key group, and keeps the elements of those that change.

    Attributes:
        elements: the number of elements so far.
    """

    def __init__(self, editor: ListEditor, changes: GroupChanges, keys: NewKeys) -> None:
        self._coder = editor.coder
        self._keys = keys
        self._numbers = np.union1d(changes.updated, changes.removed)
        # An element that is removed or set keeps nothing of its bytes.
        self._replaced = np.union1d(changes.removed, numbers_set_whole(changes))
        self._touched: list[pa.Table] = []
        self.elements = 0

    def untouched(self, page: Page) -> EntrySegments:
        """Return the entries of a page that do not change."""
        entries = EntrySegments.of_page(page)
        gone: list[NDArray[np.int64]] = [np.zeros(0, dtype=np.int64)]
        has_added = self._keys.found(entries) >= 0
        done = 0
        for batch in self._coder.part.decoded([page]):
            count = len(batch.page)
            chosen = self._chosen(batch, has_added[done : done + count])
            gone.append(chosen + done)
            done += count
        return without(entries, np.concatenate(gone))

    def touched(self) -> pa.Table:
        """Return the elements of the lists that change, as they were."""
        index = pa.field(_INDEX, pa.int32())
        schema = pa.schema([*self._coder.schema, index, pa.field(ROW, pa.int64())])
        return pa.concat_tables([schema.empty_table(), *self._touched]).combine_chunks()

    def _chosen(self, batch: Batch, has_added: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the numbers of the entries that change, and keep their elements."""
        columns = self._coder.rows(batch)
        lists = columns["value"]
        self._check_decoded(columns, np.flatnonzero(np.asarray(lists.is_null())))
        offsets = np.asarray(lists.offsets, dtype=np.int64)
        counts = np.diff(offsets)
        ends = self.elements + np.cumsum(counts)
        starts = ends - counts
        self.elements = int(ends[-1]) if len(ends) else self.elements
        chosen = np.flatnonzero((_numbers_within(self._numbers, starts, ends) > 0) | has_added)
        if len(chosen):
            exempt = np.ones(len(batch.page), dtype=np.bool_)
            exempt[chosen] = (_numbers_within(self._replaced, starts, ends) == counts)[chosen]
            self._coder.check_restorable(batch, exempt)
            self._keep(columns, chosen, starts, counts, offsets)
        return chosen

    def _check_decoded(self, columns: dict[str, pa.Array], missing: NDArray[np.int64]) -> None:
        if len(missing):
            raise RefusedEditError(
                f"{self._coder.name}, key {shown(columns['key'][int(missing[0])])}: expected a list whose elements are decoded, "
                "found one with an object of a class that the savepoint does not describe: lists of its key group cannot change"
            )

    def _keep(
        self,
        columns: dict[str, pa.Array],
        chosen: NDArray[np.int64],
        starts: NDArray[np.int64],
        counts: NDArray[np.int64],
        offsets: NDArray[np.int64],
    ) -> None:
        """Keep the elements of the chosen entries, as rows."""
        lengths = counts[chosen]
        owners = pa.array(np.repeat(chosen, lengths))
        indexes = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        places = pa.array(np.repeat(offsets[chosen], lengths) + indexes)
        elements = self._coder.elements(columns["value"].values.take(places))
        others = {name: array.take(owners) for name, array in columns.items() if name != "value"}
        rows = others | elements
        rows[_INDEX] = pa.array(indexes.astype(np.int32))
        rows[ROW] = pa.array(np.repeat(starts[chosen], lengths) + indexes)
        self._touched.append(
            pa.table({name: rows[name] for name in (*self._coder.schema.names, _INDEX, ROW)})
        )


def _numbers_within(
    numbers: NDArray[np.int64], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return how many of the numbers, which ascend, are in each range."""
    found: NDArray[np.int64] = np.searchsorted(numbers, ends) - np.searchsorted(numbers, starts)
    return found
