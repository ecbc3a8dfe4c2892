"""The entries of a key group that statements changed, removed and added, where a row is an entry; all others keep their bytes.

A value that is set whole is encoded from its columns. An entry that is changed in part must be one whose columns hold all of its
bytes (`Encoder.restores`), or the statement is refused. The key of an entry keeps its bytes, but a timer's, which has its time in it:
a timer that changes is another one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from readers import ROW, Page, StatePart
from writers.changes import FIRST_ADDED, GroupChanges, StateChanges
from writers.errors import RefusedEditError, UnencodableTypeError, UnencodableValueError
from writers.keyed.entries import EntryCoder, numbers_set_whole
from writers.keyed.keys import NewKeys
from writers.keyed.segments import EntrySegments


class StateEditor(ABC):
    """Changes the entries of one state in one source.

    Args:
        part: the state, in the layout of canonical entries.
        changes: what statements changed.
    """

    def __init__(self, part: StatePart, changes: StateChanges) -> None:
        self.coder = EntryCoder(part)
        self._changes = changes

    @property
    def groups(self) -> frozenset[int]:
        """The key groups that are touched."""
        return frozenset(self._changes.groups.tolist())

    def edited(self, group: int, pages: Iterable[Page]) -> Iterator[EntrySegments]:
        """Yield the entries of a key group after all changes.

        Args:
            group: the key group.
            pages: its entries before.

        Raises:
            RefusedEditError: an entry cannot be changed so.
            UnencodableValueError: a value that its type cannot hold.
        """
        return self._edited(self._changes.of_group(group), pages)

    @abstractmethod
    def _edited(self, changes: GroupChanges, pages: Iterable[Page]) -> Iterator[EntrySegments]:
        """Yield the entries of the key group of some changes."""

    def _changed(self, changes: GroupChanges, rows: pa.Table) -> pa.Table:
        """Return rows after all changes, without those that are added."""
        try:
            return changes.changed(rows)
        except (UnencodableValueError, UnencodableTypeError) as error:
            raise self.coder.located(error, rows) from error

    def _added(self, changes: GroupChanges) -> tuple[pa.Table, EntrySegments]:
        """Return the rows that are added, and their entries.

        Raises:
            RefusedEditError: two have one key.
        """
        rows = self._fitted(changes)
        self.coder.check_set(rows, np.ones(rows.num_rows, dtype=np.bool_))
        return rows, self.coder.encoded(rows, changes.group)

    def _fitted(self, changes: GroupChanges) -> pa.Table:
        try:
            return changes.added(self.coder.schema)
        except (UnencodableValueError, UnencodableTypeError) as error:
            raise type(error)(error.message, breadcrumbs=(self.coder.name, *error.breadcrumbs)) from error

    def _check_new(self, rows: pa.Table, keys: NewKeys) -> None:
        """Raise an error if two added rows have one key.

        Raises:
            RefusedEditError: they have.
        """
        repeated = keys.repeated()
        if repeated is not None:
            raise RefusedEditError(
                f"{self.coder.name}: expected each key once, found {self.coder.key_of(rows, repeated)} twice among the new rows"
            )

    def _check_absent(self, rows: pa.Table, keys: NewKeys, entries: EntrySegments) -> None:
        """Raise an error if an entry that is left has the key of an added row.

        Raises:
            RefusedEditError: it has.
        """
        found = keys.found(entries)
        if (found >= 0).any():
            key = self.coder.key_of(rows, int(found[found >= 0][0]))
            raise RefusedEditError(
                f"{self.coder.name}: expected rows with new keys, found {key}, which is there already: UPDATE it, or add "
                "ON CONFLICT to the INSERT"
            )

    def _check_found(self, rows: int, changes: GroupChanges) -> None:
        """Raise an error if rows are changed that the key group does not have.

        Raises:
            RefusedEditError: they are.
        """
        for numbers in (changes.updated, changes.removed):
            missing = numbers[(numbers >= rows) & (numbers < FIRST_ADDED)]
            if len(missing):
                raise RefusedEditError(
                    f"{self.coder.name}: expected row {missing[0]} of key group {changes.group}, found {rows} rows"
                )


class ValueEditor(StateEditor):
    """Changes a state whose entries keep their keys: value, reducing, aggregating, map."""

    def _edited(self, changes: GroupChanges, pages: Iterable[Page]) -> Iterator[EntrySegments]:
        rows, added = self._added(changes)
        self.coder.notice(rows)
        keys = NewKeys(added) if len(added) else None
        if keys is not None:
            self._check_new(rows, keys)
        updated, removed, whole = changes.updated, changes.removed, numbers_set_whole(changes)
        first = 0
        for page in pages:
            entries = EntrySegments.of_page(page)
            chosen = within(updated, first, len(page))
            if len(chosen):
                entries = self._updated(page, entries, chosen, first, changes, whole)
            entries = without(entries, within(removed, first, len(page)))
            if keys is not None:
                self._check_absent(rows, keys, entries)
            yield entries
            first += len(page)
        self._check_found(first, changes)
        yield added

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
        done = 0
        for batch in self.coder.part.decoded([page.only(chosen)]):
            places = chosen[done : done + len(batch.page)]
            done += len(places)
            is_whole = np.isin(places + first, whole)
            self.coder.check_restorable(batch, is_whole)
            before = pa.table(self.coder.rows(batch) | {ROW: pa.array(places + first)})
            after = self._changed(changes, before)
            self.coder.check_set(after, is_whole)
            self.coder.notice(after)
            entries = entries.with_values(places, self.coder.encoded(after, changes.group))
        return entries


class TimerEditor(StateEditor):
    """Changes timers: one that changes is removed, and another one is added."""

    def _edited(self, changes: GroupChanges, pages: Iterable[Page]) -> Iterator[EntrySegments]:
        # The keys of changed timers are known when all were read; the pages of a key group's timers are small.
        held = list(pages)
        added, _ = self._added(changes)
        rows = pa.concat_tables([*self._updated(changes, held), added]).combine_chunks()
        entries = self.coder.encoded(rows, changes.group)
        keys = NewKeys(entries)
        self._check_new(rows, keys)
        gone = np.union1d(changes.updated, changes.removed)
        first = 0
        for page in held:
            left = without(EntrySegments.of_page(page), within(gone, first, len(page)))
            self._check_absent(rows, keys, left)
            yield left
            first += len(page)
        self._check_found(first, changes)
        yield entries

    def _updated(self, changes: GroupChanges, pages: Iterable[Page]) -> Iterator[pa.Table]:
        """Yield the rows of the timers that change, as they are then."""
        first = 0
        for page in pages:
            chosen = within(changes.updated, first, len(page))
            done = 0
            for batch in self.coder.part.decoded([page.only(chosen)] if len(chosen) else []):
                places = chosen[done : done + len(batch.page)]
                done += len(places)
                self.coder.check_restorable(batch, np.zeros(len(places), dtype=np.bool_))
                before = pa.table({ROW: pa.array(places + first)} | self.coder.rows(batch))
                yield self._changed(changes, before)
            first += len(page)


def within(numbers: NDArray[np.int64], first: int, length: int) -> NDArray[np.int64]:
    """Return the numbers of a page's rows among these, counted from the begin of the page."""
    start, end = np.searchsorted(numbers, [first, first + length])
    return numbers[start:end] - first


def without(entries: EntrySegments, gone: NDArray[np.int64]) -> EntrySegments:
    """Return the entries that are left."""
    if not len(gone):
        return entries
    kept = np.ones(len(entries), dtype=np.bool_)
    kept[gone] = False
    return entries.take(kept)
