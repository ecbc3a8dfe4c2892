"""The entries of a key group that statements changed, removed and added; all others keep their bytes.

`EntryCoder` knows the entries of one state and the rows of its table, with the checks that nothing of an entry is lost:

| kind | rows of an entry |
|---|---|
| value, reducing, aggregating, map | one |
| timer | one, with the time of the key in `timestamp` |
| list | one for each element |
| any with TTL | `value` and `ttl_timestamp` are the two fields of the entry's value |

A value that is set whole is encoded from its columns. An entry that is changed in part must be one whose columns hold all of its
bytes (`Encoder.restores`), or the statement is refused. The key of an entry keeps its bytes, but a timer's, which has its time in it:
a timer that changes is another one.

An entry of a list state is a whole list: it is encoded anew if an element of it changes, comes or goes, and is no more when it has none.
All elements of the lists that change are in memory; of all other lists only the number of elements is looked at.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from readers import ROW, Batch, Page, StateKind, StatePart, VoidNamespaceSerializer
from writers.changes import FIRST_ADDED, GroupChanges, StateChanges, UpdatedRows, array_of, united
from writers.encode.encoder import Encoder
from writers.encode.fitting import shown
from writers.errors import RefusedEditError, RestoreWarning, UnencodableTypeError, UnencodableValueError
from writers.keyed.assembly import EntrySegments, NewKeys

_SEGMENTS = 2
_VALUE = "value"
_TTL = "ttl_timestamp"
_TIMESTAMP = "timestamp"
_NAMES = ("key", "namespace", "map_key", _TIMESTAMP)
_EXPIRED = "a ttl_timestamp of 1970 is long past: Flink takes the value for expired and drops it"


class EntryCoder:
    """Rows of one state ↔ its canonical entries.

    Args:
        part: the state, in the layout of canonical entries.

    Attributes:
        warnings: what was noticed so far.
    """

    def __init__(self, part: StatePart) -> None:
        self.warnings: list[RestoreWarning] = []
        self.part = part
        self.name = part.name.name
        self.kind = part.entry.kind
        self._has_ttl = part.entry.ttl and not part.entry.is_raw(_VALUE)

    @property
    def is_list(self) -> bool:
        """True if a row is an element."""
        return self.kind is StateKind.LIST and not self.part.entry.is_raw(_VALUE)

    @cached_property
    def encoder(self) -> Encoder:
        """Encodes entries: key and value apart."""
        return Encoder.of_part(self.part, _SEGMENTS)

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of rows; of lists, those of an entry's only element, without its index."""
        empty = {field.name: pa.nulls(0, field.type) for field in self.encoder.schema}
        if self.is_list:
            empty[_VALUE] = empty[_VALUE].values
        return pa.table(self._as_rows(empty)).schema

    def rows(self, batch: Batch) -> dict[str, pa.Array]:
        """Return the columns of entries as rows have them; of lists, `value` is the column of the lists."""
        columns = dict(zip(self.encoder.schema.names, batch.arrays, strict=True))
        return columns if self.is_list else self._as_rows(columns)

    def elements(self, values: pa.Array) -> dict[str, pa.Array]:
        """Return the columns that elements have, of the values of lists."""
        return self._as_rows({_VALUE: values})

    def encoded(self, rows: pa.Table, group: int | NDArray[np.int32]) -> EntrySegments:
        """Return the entries of rows in a key group, or each in its own: of lists, each element is one.

        Raises:
            UnencodableValueError: a value that its type cannot hold; it names the key.
        """
        columns = self._as_entries({name: array_of(rows, name) for name in self.schema.names})
        if self.is_list:
            offsets = pa.array(np.arange(rows.num_rows + 1, dtype=np.int32))
            columns[_VALUE] = pa.ListArray.from_arrays(offsets, columns[_VALUE])
        return self._encode(columns, rows, group)

    def encoded_lists(
        self, elements: pa.Table, starts: NDArray[np.int64], group: int | NDArray[np.int32]
    ) -> EntrySegments:
        """Return the entries of lists.

        Args:
            elements: of all lists, in order.
            starts: the first element of each.
            group: the key group, or that of each.
        """
        columns = self._as_entries({name: array_of(elements, name) for name in self.schema.names})
        offsets = pa.array(np.append(starts, elements.num_rows).astype(np.int32))
        firsts = elements.take(pa.array(starts))
        lists = {name: array_of(firsts, name) for name in columns if name != _VALUE}
        lists[_VALUE] = pa.ListArray.from_arrays(offsets, columns[_VALUE])
        return self._encode(lists, firsts, group)

    def check_restorable(self, batch: Batch, exempt: NDArray[np.bool_]) -> None:
        """Check that entries that are changed in part hold nothing that their columns do not.

        Args:
            batch: the entries.
            exempt: bool (entries,), those of which nothing is kept.

        Raises:
            RefusedEditError: one does.
        """
        if exempt.all():
            return
        lost = ~(self.encoder.restores(batch) | exempt)
        if not lost.any():
            return
        row = int(np.flatnonzero(lost)[0])
        key = shown(batch.arrays[self.encoder.schema.get_field_index("key")][row])
        raise RefusedEditError(
            f"{self.name}, key {key}: expected a value whose columns hold all of its bytes, found one that would lose some "
            "if a part of it changed: set the whole value, or leave the row out by a WHERE"
        )

    def check_decoded(self, columns: dict[str, pa.Array], refused: str = "") -> None:
        """Check that the elements of lists are decoded.

        Args:
            columns: of the entries.
            refused: what cannot be done otherwise, for the message.

        Raises:
            RefusedEditError: those of one are not.
        """
        missing = np.flatnonzero(np.asarray(columns[_VALUE].is_null()))
        if len(missing):
            raise RefusedEditError(
                f"{self.name}, key {shown(columns['key'][int(missing[0])])}: expected a list whose elements are decoded, "
                f"found one with an object of a class that the savepoint does not describe{refused}"
            )

    def check_set(self, rows: pa.Table, is_set: NDArray[np.bool_]) -> None:
        """Check the values that statements set, and the namespaces.

        Args:
            rows: the rows after all changes.
            is_set: bool (rows,), whose value is set as a whole.

        Raises:
            UnencodableValueError: a NULL that Flink would not have stored, or could not store again; a namespace where there is none.
        """
        if isinstance(self.part.entry.namespace, VoidNamespaceSerializer):
            found = np.flatnonzero(np.asarray(pc.is_valid(array_of(rows, "namespace"))))
            if len(found):
                raise self._unencodable(
                    rows, int(found[0]), "expected NULL, as the state has no namespaces", "namespace"
                )
        if _VALUE not in rows.schema.names:
            return
        missing = np.flatnonzero(np.asarray(array_of(rows, _VALUE).is_null()) & is_set)
        if not len(missing):
            return
        if self.kind is not StateKind.MAP:
            what = "element" if self.is_list else "entry"
            reason = f"Flink keeps no {what} without one, DELETE it"
        elif self._holds_nulls:
            return
        else:
            reason = "the serializer of the map's values has no null, and the next savepoint of the hashmap backend would fail"
        raise self._unencodable(rows, int(missing[0]), f"expected a value, found NULL: {reason}", _VALUE)

    def notice(self, rows: pa.Table) -> None:
        """Keep a warning of rows that Flink would drop."""
        if _TTL not in rows.schema.names:
            return
        times = array_of(rows, _TTL).cast(pa.int64())
        found = np.flatnonzero(np.asarray(pc.less_equal(times, 0).fill_null(False)))
        if len(found):
            example = self.key_of(rows, int(found[0]))
            self.warnings.append(
                RestoreWarning(state=self.name, rows=len(found), example=example, text=_EXPIRED)
            )

    def key_of(self, rows: pa.Table, row: int) -> str:
        """Return the key of a row as text, with the namespace, map key or time that belong to it."""
        parts = []
        for name in _NAMES:
            if name in rows.schema.names:
                value = array_of(rows, name)[row]
                if value.is_valid or name == "key":
                    parts.append(f"{name} {shown(value)}")
        return ", ".join(parts)

    def _encode(
        self, columns: dict[str, pa.Array], rows: pa.Table, group: int | NDArray[np.int32]
    ) -> EntrySegments:
        """Return entries; `rows` has the key of each, for errors."""
        names = self.encoder.schema.names
        try:
            encoded = self.encoder.encode(
                pa.RecordBatch.from_arrays([columns[name] for name in names], names),
                np.full(rows.num_rows, group, dtype=np.int32),
            )
        except (UnencodableValueError, UnencodableTypeError) as error:
            raise self.located(error, rows) from error
        return EntrySegments.of(encoded.data, encoded.starts, encoded.ends)

    def located(
        self, error: UnencodableValueError | UnencodableTypeError, rows: pa.Table
    ) -> UnencodableValueError | UnencodableTypeError:
        """Return the error with the state and the key of the row."""
        key = f"{self.key_of(rows, error.row)}: " if 0 <= error.row < rows.num_rows else ""
        return type(error)(f"{key}{error.message}", breadcrumbs=(self.name, *error.breadcrumbs))

    def _unencodable(self, rows: pa.Table, row: int, message: str, column: str) -> UnencodableValueError:
        return UnencodableValueError(f"{self.key_of(rows, row)}: {message}", breadcrumbs=(self.name, column))

    def _as_rows(self, columns: dict[str, pa.Array]) -> dict[str, pa.Array]:
        if self.kind is StateKind.TIMER:
            columns[_TIMESTAMP] = columns.pop(_VALUE)
        elif self._has_ttl:
            columns[_VALUE], columns[_TTL] = columns[_VALUE].flatten()
        return columns

    def _as_entries(self, columns: dict[str, pa.Array]) -> dict[str, pa.Array]:
        if self.kind is StateKind.TIMER:
            columns[_VALUE] = columns.pop(_TIMESTAMP)
        elif self._has_ttl:
            wrapped = self.encoder.schema.field(_VALUE).type
            wrapped = wrapped.value_type if self.is_list else wrapped
            arrays = [columns[_VALUE], columns.pop(_TTL)]
            fields = [field.with_type(array.type) for field, array in zip(wrapped, arrays, strict=True)]
            columns[_VALUE] = pa.StructArray.from_arrays(arrays, fields=fields)
        return columns

    @cached_property
    def _holds_nulls(self) -> bool:
        encoder = Encoder.of(self.part.entry.part(_VALUE))
        try:
            encoder.encode(pa.RecordBatch.from_arrays([pa.nulls(1, encoder.schema.types[0])], ["value"]))
        except (UnencodableValueError, UnencodableTypeError):
            return False
        return True


def numbers_set_whole(changes: GroupChanges) -> NDArray[np.int64]:
    """Return the numbers of the rows whose value is set as a whole, ascending."""
    return united(
        [
            np.asarray(rows.column(ROW))
            for layer, rows in changes.layers
            if isinstance(layer, UpdatedRows) and layer.sets(_VALUE)
        ]
    )


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
            is_whole = np.isin(places, within(whole, first, len(page)))
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
        self._coder.check_decoded(columns, ": lists of its key group cannot change")
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


def editor_of(part: StatePart, changes: StateChanges) -> StateEditor:
    """Return the editor of a state in the layout of canonical entries."""
    kind = part.entry.kind
    # A list whose elements are not decoded is one row.
    if kind is StateKind.LIST and part.entry.is_raw("value"):
        return ValueEditor(part, changes)
    return EDITORS.get(kind, ValueEditor)(part, changes)


EDITORS: dict[StateKind, type[StateEditor]] = {StateKind.LIST: ListEditor, StateKind.TIMER: TimerEditor}
