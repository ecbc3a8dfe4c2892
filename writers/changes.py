"""What statements change in the rows of one state: layers of changed, removed and added rows, one a statement.

Each row has a place, the columns

    _group   int32   of keyed state the key group, of operator state the subtask
    _row     int64   the number of the row in the group, in the order in which its source yields it

Rows that a statement adds are numbered from `FIRST_ADDED` on, so that later statements can change them too. What a layer does to the
rows of a group is written once, in `StateChanges.applied`: the SELECT of a later statement and the writer both use it.

A layer may have more rows than memory holds: `Spool` keeps small layers in memory, and puts others into files that are mapped.
Nothing sorts a whole layer: each of its batches is sorted by place, and an index holds where each group is in them.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from readers import KEY_GROUP, OUT_OF_RANGE, ROW, UNDECODED, sql_type
from writers.encode.fitting import fitted, identities
from writers.errors import RefusedEditError

GROUP = "_group"
FIRST_ADDED = 1 << 40
"""The number of the first added row: no key group has as many rows."""

_INDEX = "list_index"
_TTL = "ttl_timestamp"
# What is kept in memory stays there to the end of the script; files that are mapped come and go with what is read of them.
_MEMORY_BYTES = 8 << 20
_BATCH_ROWS = 1 << 16

ColumnPath = tuple[str, ...]
"""A column and the fields that lead to a part of it: `("value", "price")`."""


class MappedRows:
    """A file of rows that is mapped: what is read of it counts as memory of this process until `forget`.

    Args:
        path: an Arrow IPC file; pickled, this is only its name.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with path.open("rb") as file:
            self._mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def __reduce__(self) -> tuple[type[MappedRows], tuple[Path]]:
        return MappedRows, (self._path,)

    def rows(self) -> pa.Table:
        """Return all rows, without reading them."""
        file = pa.ipc.open_file(pa.py_buffer(self._mapped))
        batches = []
        for number in range(file.num_record_batches):
            batches.append(file.get_batch(number))
            self.forget()  # the kernel maps 64 kB around the head of each
        return pa.Table.from_batches(batches, file.schema)

    def forget(self) -> None:
        """Give the memory back; rows that are still used are read from the file again."""
        self._mapped.madvise(mmap.MADV_DONTNEED)


@dataclass(frozen=True, eq=False)
class PlacedRows:
    """Rows with their places.

    Attributes:
        rows: has the columns `_group` and `_row`; no place comes twice.
        file: the file that `rows` is mapped from: a pickled layer names it; None if they are in memory.

    Raises:
        RefusedEditError: a place comes twice.
    """

    rows: pa.Table
    file: MappedRows | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.file is None:
            batches = map(_sorted_batch, self.rows.to_batches())
            object.__setattr__(self, "rows", pa.Table.from_batches(batches, self.rows.schema))
        _check_unique(self)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        state.pop("_index", None)
        if self.file is not None:
            state["rows"] = None
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        if state["file"] is not None:
            state["rows"] = state["file"].rows()
        self.__dict__.update(state)

    @cached_property
    def _index(self) -> _GroupIndex:
        return _GroupIndex.of(self.batches())

    @property
    def groups(self) -> NDArray[np.int32]:
        """The groups that it has rows of, ascending."""
        return np.unique(self._index.groups)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows, each batch sorted; those of a file do not stay in memory."""
        for batch in self.rows.to_batches():
            yield batch
            self._forget()

    def _forget(self) -> None:
        if self.file is not None:
            self.file.forget()

    def within(self, first: int, last: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the groups `first` to `last`, sorted as they are; the others are not read."""
        for batch in self.batches():
            start, end = np.searchsorted(_numbers(batch, GROUP), [first, last + 1]).tolist()
            if start < end:
                yield batch.slice(start, end - start)

    @property
    def facts(self) -> tuple[Any, ...]:
        """What the layer says beside its rows: the other arguments of its class."""
        return ()

    def of_group(self, group: int) -> pa.Table:
        """Return the rows of a group in one piece, ascending by `_row`."""
        self._forget()  # the group before
        pieces = [self.rows.slice(start, length) for start, length in self._index.pieces(group)]
        if not pieces:
            return self.rows.schema.empty_table()
        rows = pa.concat_tables(pieces).combine_chunks()
        if len(pieces) == 1:
            return rows
        self._forget()  # they are copied
        numbers = _numbers(rows, ROW)
        rises = (numbers[1:] >= numbers[:-1]).all()
        return rows if rises else rows.take(np.argsort(numbers, kind="stable"))


@dataclass(frozen=True, eq=False)
class UpdatedRows(PlacedRows):
    """Rows of which columns, or parts of them, have other values.

    Attributes:
        paths: column `"0"` of `rows` has the values of `paths[0]`, and so on.
        prunes: whether these are the values before with fewer elements: all else of them must be kept, and nobody has accessed them.

    Raises:
        RefusedEditError: one path leads into another, or a place comes twice.
    """

    paths: tuple[ColumnPath, ...]
    prunes: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for one, other in combinations(self.paths, 2):
            shorter = min(len(one), len(other))
            if one[:shorter] == other[:shorter]:
                raise RefusedEditError(
                    f"expected each column to be set once, found {'.'.join(one)} and {'.'.join(other)}"
                )

    @property
    def facts(self) -> tuple[Any, ...]:
        return (self.paths, self.prunes)

    def sets(self, *columns: str) -> bool:
        """Return whether nothing is left of what was in columns."""
        return not self.prunes and all((name,) in self.paths for name in columns)


@dataclass(frozen=True, eq=False)
class RemovedRows(PlacedRows):
    """Rows that are no more."""


@dataclass(frozen=True, eq=False)
class AddedRows(PlacedRows):
    """Rows that were not there, with columns of the state's table; those that it does not have are null."""


Layer = UpdatedRows | RemovedRows | AddedRows


@dataclass(frozen=True, kw_only=True, eq=False)
class StateChanges:
    """The changes of one state, in the order of the statements.

    Attributes:
        layers: one or more a statement.
        now_ms: the time of the write: a changed or added value has been accessed then, unless its statement says otherwise.
    """

    layers: tuple[Layer, ...] = ()
    now_ms: int

    def followed_by(self, *layers: Layer) -> StateChanges:
        """Return the changes with those of a later statement."""
        return replace(self, layers=(*self.layers, *layers))

    @cached_property
    def groups(self) -> NDArray[np.int32]:
        """The groups that are touched, ascending."""
        touched = [layer.groups for layer in self.layers]
        return np.unique(np.concatenate([np.zeros(0, dtype=np.int32), *touched]))

    @property
    def next_added(self) -> int:
        """The number of the next row that is added to any group."""
        added = (layer.rows for layer in self.layers if isinstance(layer, AddedRows))
        return FIRST_ADDED + sum(int(rows.num_rows) for rows in added)

    def of_group(self, group: int) -> GroupChanges:
        """Return the changes of one group, read into memory."""
        layers = ((layer, layer.of_group(group)) for layer in self.layers)
        return GroupChanges(
            group, tuple((layer, rows) for layer, rows in layers if rows.num_rows), self.now_ms
        )

    def needs(self, columns: Iterable[str]) -> frozenset[str]:
        """Return the columns that `applied` needs to know these columns: an element's index depends on the keys of others."""
        wanted = frozenset(columns)
        has_added = any(isinstance(layer, AddedRows) for layer in self.layers)
        return wanted | {"key", "namespace"} if _INDEX in wanted and has_added else wanted

    def applied(self, group: int, rows: pa.Table) -> pa.Table:
        """Return the rows of one group after all changes.

        Rows that were there keep their order; rows that were added follow, those of lists with the other elements of their lists.

        Args:
            group: the group.
            rows: all of its rows before, with `_row` and any columns of the state's table; of lists, the elements of each in order.

        Raises:
            UnencodableValueError: a new value that the type of its column cannot hold.
            UnencodableTypeError: a new value of another type.
        """
        return self.of_group(group).applied(rows)


@dataclass(frozen=True, slots=True)
class GroupChanges:
    """The changes of one group of a state.

    Attributes:
        group: the group.
        layers: each with its rows of this group.
        now_ms: see `StateChanges`.
    """

    group: int
    layers: tuple[tuple[Layer, pa.Table], ...]
    now_ms: int

    @property
    def removed(self) -> NDArray[np.int64]:
        """The numbers of the rows that are removed, ascending; added ones may be among them."""
        return self._numbers_of(RemovedRows)

    @property
    def updated(self) -> NDArray[np.int64]:
        """The numbers of the rows that have other values and are not removed, ascending; added ones may be among them."""
        updated, removed = self._numbers_of(UpdatedRows), self.removed
        return np.setdiff1d(updated, removed, assume_unique=True) if len(removed) else updated

    def _numbers_of(self, kind: type[PlacedRows]) -> NDArray[np.int64]:
        found = [_numbers(rows, ROW) for layer, rows in self.layers if isinstance(layer, kind)]
        return united(found)

    def applied(self, rows: pa.Table) -> pa.Table:
        """Return rows after all changes: see `StateChanges.applied`."""
        return self._applied(rows, adds=True)

    def changed(self, rows: pa.Table) -> pa.Table:
        """Return some rows of the group after all changes, without the added ones; no elements of lists."""
        return self._applied(rows, adds=False)

    def added(self, schema: pa.Schema) -> pa.Table:
        """Return the added rows after all changes, with `_row` and the columns of a schema; no elements of lists."""
        fields = [column for column in schema if column.name != ROW]
        empty = pa.schema([pa.field(ROW, pa.int64()), *fields]).empty_table()
        return self._applied(empty, adds=True)

    def _applied(self, rows: pa.Table, *, adds: bool) -> pa.Table:
        state = _Rows(rows, self.group, self.now_ms)
        for layer, changes in self.layers:
            match layer:
                case UpdatedRows():
                    state.update(changes, layer)
                case RemovedRows():
                    state.remove(changes)
                case AddedRows() if adds:
                    state.add(changes)
        return state.table


class _Rows:
    """The rows of a group between two layers."""

    def __init__(self, rows: pa.Table, group: int, now_ms: int) -> None:
        self.table = rows.combine_chunks()
        self._group = group
        self._now_ms = now_ms
        self._lists = _lists_of(self.table)

    def update(self, changes: pa.Table, layer: UpdatedRows) -> None:
        positions, found = _positions(_numbers(self.table, ROW), _numbers(changes, ROW))
        if not len(positions):
            return
        news = {path: array_of(changes, str(index)).take(found) for index, path in enumerate(layer.paths)}
        is_accessed = not layer.prunes and any(path[0] == "value" for path in layer.paths)
        if is_accessed and (_TTL,) not in news and _TTL in self.table.schema.names:
            news[(_TTL,)] = self._now(len(positions))
        if layer.sets("value"):
            # They describe the value that was there.
            for name in (UNDECODED, OUT_OF_RANGE):
                news[(name,)] = pa.nulls(len(positions))
        for path, values in news.items():
            name = path[0]
            if name in self.table.schema.names:
                column = _replaced(array_of(self.table, name), positions, values, path, 1)
                self._set(name, column)

    def remove(self, changes: pa.Table) -> None:
        positions, _ = _positions(_numbers(self.table, ROW), _numbers(changes, ROW))
        if not len(positions):
            return
        kept = np.ones(self.table.num_rows, dtype=np.bool_)
        kept[positions] = False
        self.table = self.table.filter(pa.array(kept))
        if self._lists is not None:
            self._lists = self._lists[kept]
            self._number()

    def add(self, changes: pa.Table) -> None:
        added = self._conformed(changes)
        before = self.table.num_rows
        self.table = pa.concat_tables([self.table, added]).combine_chunks()
        if self._lists is None:
            return
        # An element with an index stands before the one that had it; without, or with one past the end, it is the last.
        lists = np.concatenate([self._lists, self._lists_of_added(before)])
        indexes = array_of(self.table, _INDEX)
        places = indexes.fill_null(np.iinfo(np.int32).max).to_numpy()
        is_old = np.arange(len(lists)) < before
        order = np.lexsort((is_old, places, lists))
        self.table = self.table.take(order)
        self._lists = lists[order]
        self._number()

    def _lists_of_added(self, before: int) -> NDArray[np.int64]:
        """Return the numbers of the lists that added elements go to: by key and namespace, or the only one."""
        assert self._lists is not None
        names = [name for name in ("key", "namespace") if name in self.table.schema.names]
        if not names:
            return np.zeros(self.table.num_rows - before, dtype=np.int64)
        same = identities([array_of(self.table, name) for name in names])
        numbers = np.full(int(same.max()) + 1 if len(same) else 0, -1, dtype=np.int64)
        numbers[same[:before]] = self._lists
        missing = numbers < 0
        # New lists are in the order of their first elements.
        firsts = np.unique(same[before:], return_index=True)
        new = firsts[0][missing[firsts[0]]][np.argsort(firsts[1][missing[firsts[0]]])]
        numbers[new] = (int(self._lists.max()) + 1 if before else 0) + np.arange(len(new))
        return numbers[same[before:]]

    def _number(self) -> None:
        """Number the elements of each list anew."""
        assert self._lists is not None
        length = len(self._lists)
        starts = np.flatnonzero(np.append(True, self._lists[1:] != self._lists[:-1])[:length])
        counts = np.diff(np.append(starts, length))
        numbers = pa.array((np.arange(length) - np.repeat(starts, counts)).astype(np.int32))
        unknown = array_of(self.table, _INDEX).is_null() if UNDECODED in self.table.schema.names else None
        self._set(_INDEX, numbers if unknown is None else pc.if_else(unknown, None, numbers))

    def _conformed(self, changes: pa.Table) -> pa.Table:
        """Return added rows with the columns of the table."""
        arrays = []
        for column in self.table.schema:
            if column.name in changes.schema.names:
                array = fitted(array_of(changes, column.name), column.type, (column.name,))
            elif column.name == KEY_GROUP:
                array = pa.array(np.full(changes.num_rows, self._group, dtype=np.int32))
            else:
                array = pa.nulls(changes.num_rows, column.type)
            if column.name == _TTL and array.null_count:
                array = array.fill_null(self._now(1)[0])
            arrays.append(array)
        return pa.Table.from_arrays(arrays, schema=self.table.schema)

    def _now(self, length: int) -> pa.Array:
        return pa.array(np.full(length, self._now_ms, dtype=np.int64)).cast(pa.timestamp("ms"))

    def _set(self, name: str, column: pa.Array) -> None:
        position = self.table.schema.get_field_index(name)
        self.table = self.table.set_column(position, self.table.schema.field(position), column)


def _lists_of(rows: pa.Table) -> NDArray[np.int64] | None:
    """Return the number of the list that each row is an element of; None if the indexes are not asked for."""
    if _INDEX not in rows.schema.names:
        return None
    # An element whose bytes are not decoded has no index: it stands for its list, or for the rest of the list before it.
    indexes = array_of(rows, _INDEX).fill_null(0).to_numpy()
    numbers: NDArray[np.int64] = np.cumsum(indexes == 0, dtype=np.int64) - 1
    return np.maximum(numbers, 0)


def _replaced(
    old: pa.Array, positions: NDArray[np.int64], values: pa.Array, path: ColumnPath, depth: int
) -> pa.Array:
    """Return a column with other values at some positions, in the part that the rest of the path leads to."""
    if depth == len(path):
        new = fitted(values, old.type, path)
        order = np.arange(len(old))
        order[positions] = len(old) + np.arange(len(positions))
        return pa.concat_arrays([old, new]).take(pa.array(order))
    index = old.type.get_field_index(path[depth]) if pa.types.is_struct(old.type) else -1
    if index < 0:
        raise RefusedEditError(
            f"expected a column with the field {'.'.join(path[: depth + 1])}, found {sql_type(old.type)}"
        )
    # `flatten` makes the fields of a struct null where it is null: one that gets a field has only that.
    children = old.flatten()
    children[index] = _replaced(children[index], positions, values, path, depth + 1)
    missing = np.array(old.is_null())
    missing[positions] = False
    return pa.StructArray.from_arrays(children, fields=list(old.type), mask=pa.array(missing))


def _positions(
    numbers: NDArray[np.int64], wanted: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where the wanted numbers, which ascend, are that are there, and which of the wanted these are."""
    if not len(numbers):
        nothing: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        return nothing, nothing
    # A page of a large group is asked for with all changes of the group.
    first, end = np.searchsorted(wanted, [numbers.min(), numbers.max() + 1])
    wanted = wanted[first:end]
    order = np.argsort(numbers, kind="stable")
    places = order[np.searchsorted(numbers, wanted, sorter=order)]
    found = np.flatnonzero(numbers[places] == wanted)
    return places[found], found + first


def united(numbers: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return the numbers of rows of several layers, ascending: in each they ascend, and none comes twice."""
    if len(numbers) == 1:
        return numbers[0]
    return np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *numbers]))


def array_of(rows: pa.Table, name: str) -> pa.Array:
    """Return a column of rows in one piece."""
    column = rows.column(name)
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays([*column.chunks, pa.nulls(0, column.type)])


def _numbers(rows: pa.Table | pa.RecordBatch, name: str) -> NDArray[Any]:
    return np.asarray(rows.column(name))


@dataclass(frozen=True, slots=True)
class _GroupIndex:
    """Where the rows of each group are.

    Attributes:
        groups: int32, ascending; a group stands once for each batch that has rows of it.
        starts, lengths: int64, the rows.
    """

    groups: NDArray[np.int32]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]

    @classmethod
    def of(cls, batches: Iterable[pa.RecordBatch]) -> _GroupIndex:
        """Return the index of rows in sorted batches."""
        groups = [np.zeros(0, dtype=np.int32)]
        starts, lengths = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
        first = 0
        for batch in batches:
            numbers = _numbers(batch, GROUP)
            begins = np.flatnonzero(np.append(True, numbers[1:] != numbers[:-1])[: len(numbers)])
            groups.append(numbers[begins])
            starts.append(first + begins)
            lengths.append(np.diff(np.append(begins, len(numbers))))
            first += len(numbers)
        found = np.concatenate(groups)
        order = np.argsort(found, kind="stable")
        return cls(found[order], np.concatenate(starts)[order], np.concatenate(lengths)[order])

    def pieces(self, group: int) -> Iterator[tuple[int, int]]:
        """Yield (first row, number of rows)."""
        first, end = np.searchsorted(self.groups, [group, group + 1])
        yield from zip(self.starts[first:end].tolist(), self.lengths[first:end].tolist(), strict=True)

    @property
    def scattered(self) -> NDArray[np.int32]:
        """The groups that several batches have rows of."""
        return np.unique(self.groups[1:][self.groups[1:] == self.groups[:-1]])


def _sorted_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch sorted by place."""
    groups, numbers = _numbers(batch, GROUP), _numbers(batch, ROW)
    before, after = slice(None, -1), slice(1, None)
    rises = (groups[after] > groups[before]) | (
        (groups[after] == groups[before]) & (numbers[after] >= numbers[before])
    )
    return batch if rises.all() else batch.take(pa.array(np.lexsort((numbers, groups))))


def _check_unique(layer: PlacedRows) -> None:
    """Raise an error if a place comes twice.

    Raises:
        RefusedEditError: one does.
    """
    for batch in layer.batches():
        _check_differ(_numbers(batch, GROUP), _numbers(batch, ROW))
    for group in layer._index.scattered.tolist():
        pieces = layer._index.pieces(group)
        numbers = [_numbers(layer.rows.slice(start, length), ROW) for start, length in pieces]
        merged = np.sort(np.concatenate(numbers))
        _check_differ(np.full(len(merged), group, dtype=np.int32), merged)
        layer._forget()


def _check_differ(groups: NDArray[np.int32], numbers: NDArray[np.int64]) -> None:
    same = np.flatnonzero((groups[1:] == groups[:-1]) & (numbers[1:] == numbers[:-1]))
    if len(same):
        at = int(same[0])
        raise RefusedEditError(
            f"expected to change each row once in a statement, found row {numbers[at]} of group {groups[at]} twice: "
            "a row of FROM or of the source matches it more than once"
        )


class Spool:
    """Keeps the layers of a script: in memory up to a size in total, beyond it in files.

    Args:
        directory: where files go: it is there, and its owner removes it.
        memory_bytes: the most that is kept in memory.
    """

    def __init__(self, directory: Path, memory_bytes: int = _MEMORY_BYTES) -> None:
        self._directory = directory
        self._left_bytes = memory_bytes
        self._files = 0

    def updated(
        self, rows: pa.RecordBatchReader, paths: Sequence[ColumnPath], *, prunes: bool = False
    ) -> UpdatedRows:
        """Return changed rows: see `UpdatedRows`."""
        kept, file = self._kept(rows)
        return UpdatedRows(kept, tuple(paths), prunes, file=file)

    def removed(self, rows: pa.RecordBatchReader) -> RemovedRows:
        """Return removed rows: see `RemovedRows`."""
        kept, file = self._kept(rows)
        return RemovedRows(kept, file=file)

    def added(self, rows: pa.RecordBatchReader) -> AddedRows:
        """Return added rows: see `AddedRows`."""
        kept, file = self._kept(rows)
        return AddedRows(kept, file=file)

    def joined(self, layer: Layer, following: Layer) -> Layer | None:
        """Return one layer that does what two do, one after the other; None if they set other columns, or are large.

        A script that updates the rows of a state a thousand times would go through a thousand layers at each statement.
        """
        if not isinstance(layer, UpdatedRows) or not isinstance(following, UpdatedRows):
            return None
        are_alike = layer.facts == following.facts and layer.rows.schema == following.rows.schema
        if not are_alike or layer.file is not None or following.file is not None:
            return None
        rows = pa.concat_tables([layer.rows, following.rows]).combine_chunks()
        groups, numbers = _numbers(rows, GROUP), _numbers(rows, ROW)
        order = np.lexsort((numbers, groups))
        groups, numbers = groups[order], numbers[order]
        # Of a row that both change, the later values are the last in order.
        is_last = np.append((groups[1:] != groups[:-1]) | (numbers[1:] != numbers[:-1]), True)
        found = UpdatedRows(rows.take(pa.array(order[is_last])), *layer.facts)
        self._left_bytes += layer.rows.nbytes + following.rows.nbytes - found.rows.nbytes
        return found

    def _kept(self, rows: pa.RecordBatchReader) -> tuple[pa.Table, MappedRows | None]:
        schema = rows.schema
        held: list[pa.RecordBatch] = []
        size = 0
        for batch in rows:
            held.append(batch)
            size += batch.nbytes
            if size > self._left_bytes:
                path = self._directory / f"layer-{self._files}.arrow"
                self._files += 1
                _store(path, schema, held, rows)
                file = MappedRows(path)
                return file.rows(), file
        self._left_bytes -= size
        # Few batches, so that a group is in few of them.
        return pa.Table.from_batches(held, schema).combine_chunks(), None

    def files(self) -> list[Path]:
        """Return the files that it wrote."""
        return [self._directory / f"layer-{number}.arrow" for number in range(self._files)]


def _store(
    path: Path, schema: pa.Schema, held: Iterable[pa.RecordBatch], rest: Iterable[pa.RecordBatch]
) -> None:
    """Write batches to a file, each sorted by place."""
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema) as writer:
        for batch in _larger(chain(held, rest)):
            for start in range(0, batch.num_rows, _BATCH_ROWS):
                writer.write_batch(_sorted_batch(batch.slice(start, _BATCH_ROWS)))


def _larger(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield small batches joined to large ones, so that a group is in few of them."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(one.num_rows for one in held) >= _BATCH_ROWS:
            yield pa.concat_batches(held)
            held = []
    if held:
        yield pa.concat_batches(held)
