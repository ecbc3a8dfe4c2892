"""The states of a source, key group by key group, as canonical entries; the order in a state is that of `_row`.

| source | entries |
|---|---|
| canonical | those of the file; a state that nobody changes is carried as one piece of bytes |
| RocksDB, changelog | canonical entries already: nothing is decoded |
| hashmap, its own layout | decoded by one program, and encoded by another |

| state | own layout | canonical |
|---|---|---|
| VALUE, REDUCING, AGGREGATING | namespace, key, value | composite key, value |
| LIST | …, count and elements | one value, the elements joined |
| MAP | …, count, keys and values | an entry for each key of the map |
| TIMER | timestamp, key, namespace | the same as a key, no value |

Nothing records where an entry ends in the own layout, so entries that cannot be told apart are refused, and so are those whose
columns do not hold all of their bytes. A list of many megabytes comes in several pages: its value is joined from them.

States that go, become empty, or get other names or types have another header (`AlteredHeader`), and those of other types other values
(`TypeEditor`). `try_types` makes such values, and writes nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from readers import (
    UNDECODED,
    WHOLE_MAP,
    BackendStateType,
    Batch,
    ComposedSource,
    Operator,
    Page,
    Selection,
    Source,
    StateKind,
    StateName,
    StatePart,
    StoredHeader,
)
from writers.encode.encoder import Encoder
from writers.encode.fitting import equal_values_loss, shown
from writers.errors import RefusedEditError, UnencodableTypeError, UnencodableValueError
from writers.evolution import Conversion, StateAlteration, TypeChange, retyped
from writers.headers import RegisteredState, registered_state, write_keyed_header
from writers.keyed.assembly import AddedState, EntrySegments
from writers.keyed.sampling import KeyChoice, KeyFilter

_SEGMENTS = 2
_DELIMITER = b","  # between the elements of a list


class Composer:
    """Makes canonical entries of one state.

    Args:
        part: the state in its own layout.
        composed: the same state in the canonical layout.
    """

    def __init__(self, part: StatePart, composed: StatePart) -> None:
        self._part = part
        # Flink has two ways to write null in binary rows: the entries say which.
        self._ways = [
            (
                Encoder.of_part(part, 1, reserves_nulls=reserves),
                Encoder.of_part(composed, _SEGMENTS, reserves_nulls=reserves),
            )
            for reserves in (True, False)
        ]

    def composed(self, pages: Iterable[Page]) -> Iterator[Page]:
        """Yield the entries of pages as canonical entries, in the same order.

        Raises:
            RefusedEditError: an entry is not decoded as a whole, or its columns do not hold all of its bytes.
            ReaderError: the bytes contradict the format.
        """
        waiting: list[Page] = []
        for page in pages:
            if page.undivided:
                raise self._refused("expected entries whose ends are known, found some that are not decoded")
            for batch in self._part.decoded([page]):
                found = self._page(batch)
                if not len(found):
                    continue
                if batch.page.first_index and self._part.entry.kind is StateKind.LIST:
                    waiting.append(found)
                    continue
                yield from _joined(waiting)
                waiting = [found]
        yield from _joined(waiting)

    def _page(self, batch: Batch) -> Page:
        names = self._ways[0][0].schema.names
        columns = dict(zip(names, batch.arrays, strict=True))
        self._check_decoded(batch, columns)
        composer = self._lossless(batch)
        groups = np.ascontiguousarray(batch.page.key_groups)
        whole = columns.pop(WHOLE_MAP, None)
        if whole is not None:
            parents = _parents(whole)
            repeated = pa.array(parents)
            for name in ("key", "namespace"):
                columns[name] = columns[name].take(repeated)
            pairs = whole.flatten()
            columns["map_key"], columns["value"] = pairs.field(0), pairs.field(1)
            groups = np.ascontiguousarray(groups[parents])
        rows = len(groups)
        if UNDECODED in composer.schema.names and (UNDECODED not in columns or whole is not None):
            columns[UNDECODED] = pa.nulls(rows, pa.binary())
        arrays = [columns[name] for name in composer.schema.names]
        encoded, error = composer.encode_arrays(arrays, rows, groups)
        if error is not None:
            raise self._refused(error.message) from error
        # An empty list is no entry.
        kept = (
            np.flatnonzero(np.asarray(pc.list_value_length(columns["value"])))
            if self._part.entry.kind is StateKind.LIST
            else np.arange(rows)
        )
        page = batch.page
        bounds = encoded.starts, encoded.ends
        return Page.of(encoded.data, bounds, groups, page.subtask, page.path).only(kept)

    def _check_decoded(self, batch: Batch, columns: dict[str, pa.Array]) -> None:
        is_undescribed = UNDECODED in columns and columns[UNDECODED].null_count < len(batch.page)
        entry = self._part.entry
        # The bytes of one value are the same in both layouts, those of a list or map are not.
        if entry.kind in (StateKind.LIST, StateKind.MAP):
            if is_undescribed:
                raise self._refused("expected classes that the savepoint describes, found another")
            if entry.is_raw("value") or entry.is_raw("map_key"):
                raise self._refused("expected elements that are decoded, found some that are not")
        if batch.outliers:
            path = ".".join(map(str, batch.outliers[0].path))
            raise self._refused(
                f"expected values that columns can hold, found {batch.outliers[0].json} in {path}"
            )

    def _lossless(self, batch: Batch) -> Encoder:
        """Return the encoder to canonical entries whose counterpart gives back the bytes of the batch."""
        for own, composer in self._ways:
            if own.restores(batch).all():
                return composer
        own = self._ways[0][0]
        row = int(np.flatnonzero(~own.restores(batch))[0])
        key = shown(batch.arrays[own.schema.get_field_index("key")][row])
        _, codes = self._part.programs()
        reason = equal_values_loss(codes[0]) or "its columns do not hold all of its bytes"
        raise self._refused(
            f"expected an entry that is the same when it is written again, found key {key}: {reason}"
        )

    def _refused(self, message: str) -> RefusedEditError:
        return RefusedEditError(
            f"{self._part.name.name}, in {self._part.source.path}: {message}; entries in the hashmap backend's own layout "
            "record no lengths, so they must be decoded to be written: take a canonical savepoint"
        )


def _parents(lists: pa.Array) -> NDArray[np.int64]:
    """Return the entry of each element of lists without nulls."""
    offsets: NDArray[np.int64] = np.asarray(lists.offsets, dtype=np.int64)
    counts = offsets[1:] - offsets[:-1]
    return np.repeat(np.arange(len(lists), dtype=np.int64), counts)


def _joined(pages: list[Page]) -> Iterator[Page]:
    """Yield pages as one where the pages behind the first one continue its last entry, which is a list."""
    if len(pages) < 2:
        yield from pages
        return
    first = pages[0]
    values = [page.data[int(page.starts[-1, 1]) : int(page.ends[-1, 1])].tobytes() for page in pages]
    joined = np.frombuffer(_DELIMITER.join(values), dtype=np.uint8)
    data = np.concatenate([first.data, joined])
    starts, ends = first.starts.copy(), first.ends.copy()
    starts[-1, 1], ends[-1, 1] = len(first.data), len(data)
    yield replace(first, data=data, starts=starts, ends=ends)


_KEYED_VERSION = 6  # of headers that Flink restores since 1.17
# States are read side by side, each with some pages in memory; many states of a large source are read key group by key group, which
# takes longer.
_MOST_SIDE_BY_SIDE = 32
_LARGE_SOURCE_BYTES = 256 << 20


class Carrier(ABC):
    """Carries the entries of one source.

    Args:
        source: the source.
        header: its header.
        max_parallelism: number of key groups of the operator.
        keep: which keys are carried; None for all.
    """

    def __init__(
        self, source: Source, header: StoredHeader, max_parallelism: int, keep: KeyChoice | None = None
    ) -> None:
        self._source = source
        self._names = state_names(header)
        self._filters = {} if keep is None else {name: KeyFilter(source, name, keep) for name in self._names}
        self._composers = (
            {} if source.is_composite else dict(_composers(source, self._names, max_parallelism))
        )

    @property
    def groups(self) -> Iterator[int]:
        """The key groups that may have entries, in the order in which they can be carried."""
        groups = self._source.key_group_range
        assert groups is not None
        return iter(range(groups.start, groups.end + 1))

    @abstractmethod
    def states(self, group: int) -> Iterator[tuple[int, Iterator[Page]]]:
        """Yield the id of each state with its entries in a key group, before the next is asked for."""

    def pages(self, state: int, selection: Selection) -> Iterator[Page]:
        """Yield the entries of a state, by its id."""
        name = self._names[state]
        pages = self._source.pages(name, selection)
        if name in self._filters:
            pages = self._filters[name].kept(pages)
        composer = self._composers.get(name)
        return pages if composer is None else composer.composed(pages)


class SideBySide(Carrier):
    """Reads all states at the same time, each from the first key group to the last, in the order of the source."""

    def __init__(
        self, source: Source, header: StoredHeader, max_parallelism: int, keep: KeyChoice | None = None
    ) -> None:
        super().__init__(source, header, max_parallelism, keep)
        self._order = (
            [group for group, _ in source.key_group_bytes(self._names[0]) or ()] if self._names else []
        )
        places: NDArray[np.int64] = np.zeros(max(self._order, default=0) + 1, dtype=np.int64)
        places[self._order] = np.arange(len(self._order))
        self._read = [
            _StatePages(self.pages(state, Selection()), places) for state in range(len(self._names))
        ]

    @property
    def groups(self) -> Iterator[int]:
        return iter(self._order)

    def states(self, group: int) -> Iterator[tuple[int, Iterator[Page]]]:
        for state, pages in enumerate(self._read):
            yield state, pages.of(group)


class GroupByGroup(Carrier):
    """Reads each state of each key group by itself."""

    def states(self, group: int) -> Iterator[tuple[int, Iterator[Page]]]:
        selection = Selection(key_groups=frozenset({group}))
        for state in range(len(self._names)):
            yield state, self.pages(state, selection)


class _StatePages:
    """The pages of one state, cut at key groups.

    Args:
        pages: the pages.
        places: the place of each key group in the order of the pages.
    """

    def __init__(self, pages: Iterator[Page], places: NDArray[np.int64]) -> None:
        self._pages = pages
        self._places = places
        self._page: Page | None = None
        self._position = 0

    def of(self, group: int) -> Iterator[Page]:
        """Yield the entries of a key group: of the first one that was not asked for, or of a later one."""
        place = int(self._places[group])
        while True:
            page = self._page
            if page is None or self._position == len(page):
                page = self._page = next(self._pages, None)
                self._position = 0
                if page is None:
                    return
            places = self._places[page.key_groups[self._position :]]
            first, behind = np.searchsorted(places, [place, place + 1]) + self._position
            self._position = int(behind)
            if behind > first:
                yield page.slice(int(first), int(behind))
            if behind < len(page):
                return


def carrier_of(
    source: Source, header: StoredHeader, max_parallelism: int, keep: KeyChoice | None = None
) -> Carrier:
    """Return the carrier of a source, for all keys or for those that stay."""
    # A changelog yields the key groups of its base first, and then those that only changes have.
    is_ordered = source.backend in {"rocksdb", "hashmap"}
    is_small = len(state_names(header)) <= _MOST_SIDE_BY_SIDE or source.size_bytes <= _LARGE_SOURCE_BYTES
    carrier = SideBySide if is_ordered and is_small else GroupByGroup
    return carrier(source, header, max_parallelism, keep)


def composed_part(source: Source, name: StateName, max_parallelism: int) -> StatePart:
    """Return a state in the layout of canonical entries, for entries that the writer has already."""
    composed = ComposedSource(
        subtask=source.subtask,
        path=source.path,
        size_bytes=source.size_bytes,
        entries=source.entries,
        max_parallelism=max_parallelism,
    )
    return StatePart(source=composed, name=name, entry=source.entries[name])


def _composers(
    source: Source, names: list[StateName], max_parallelism: int
) -> Iterator[tuple[StateName, Composer]]:
    for name in names:
        part = StatePart(source=source, name=name, entry=source.entries[name])
        yield name, Composer(part, composed_part(source, name, max_parallelism))


def key_block(header: StoredHeader) -> bytes:
    """Return the snapshot of the keys' serializer."""
    start, end = header.header.key_block
    return header.data[start:end]


def state_names(header: StoredHeader) -> list[StateName]:
    """Return the names of the states of a header, in the order of their ids."""
    return [
        StateName(name=state.name, timers=state.kind is BackendStateType.PRIORITY_QUEUE)
        for state in header.header.states
    ]


def check_carried(source: Source, header: StoredHeader | None) -> StoredHeader:
    """Return the header of a source whose states can be written as canonical key groups.

    Raises:
        RefusedEditError: Flink would not restore it, or it is not proven that it would.
    """
    if header is None:
        raise RefusedEditError(f"keyed state of the {source.backend} backend cannot be written yet")
    if any(state.kind is BackendStateType.KEY_VALUE_V2 for state in header.header.states):
        raise RefusedEditError(
            f"{source.path}: keyed state of state V2 cannot be written: its restore is not proven"
        )
    if header.header.version != _KEYED_VERSION:
        raise RefusedEditError(
            f"{source.path}: expected keyed state as Flink 1.8 and later write it (header version {_KEYED_VERSION}), "
            f"found version {header.header.version}: let a later Flink take a new savepoint"
        )
    names = state_names(header)
    opaque = [
        name.name for name in names if source.backend == "changelog" and source.entries[name].is_raw("key")
    ]
    if opaque:
        raise RefusedEditError(
            f"{source.path}: expected changes whose keys are decoded, found those of state {opaque[0]}: take a canonical savepoint"
        )
    if len(set(names)) < len(names):
        raise RefusedEditError(f"{source.path}: expected states of different names, found two of one name")
    return header


_NULL_FLAG = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class AlteredHeader:
    """The header of the states that stay.

    Attributes:
        data: its bytes.
        ids: the new id of each state, by the old one; None for a state that goes.
        first_added: the id of the first state that is added.
    """

    data: bytes
    ids: tuple[int | None, ...]
    first_added: int


def altered_header(
    header: StoredHeader,
    source: Source,
    alterations: Mapping[StateName, StateAlteration],
    added: Sequence[AddedState] = (),
) -> AlteredHeader:
    """Return the header of a source after alterations of its states, with added states behind them.

    Raises:
        RefusedEditError: two states would have one name, a type cannot change so, or added states have other keys.
        UnencodableTypeError: no snapshot of a new type can be written.
    """
    names = state_names(header)
    if not added and not any(name in alterations for name in names):
        return AlteredHeader(data=header.data, ids=tuple(range(len(names))), first_added=len(names))
    ids: list[int | None] = []
    states: list[RegisteredState] = []
    for name, registered in zip(names, header.header.states, strict=True):
        alteration = alterations.get(name, StateAlteration())
        if alteration.dropped:
            ids.append(None)
            continue
        ids.append(len(states))
        state = registered_state(registered, header.data)
        if alteration.types:
            value, whole = source.entries[name].part("value"), registered.value_serializer
            assert whole is not None
            for change in alteration.types:
                value = change.evolved(value).serializer
            state = retyped(state, whole, value)
        states.append(replace(state, name=alteration.name or state.name))
    first_added = len(states)
    states += [one.registered() for one in added]
    kinds_and_names = [(state.kind, state.name) for state in states]
    if len(set(kinds_and_names)) < len(states):
        raise RefusedEditError(
            f"expected states of different names, found {', '.join(sorted(state.name for state in states))}"
        )
    keys = key_block(header)
    for one in added:
        if one.key_block() != keys:
            raise RefusedEditError(
                f"expected keys of type {header.header.key_serializer.type_name} in the new state {one.name}, as the states "
                "of the operator have, found others"
            )
    data = write_keyed_header(keys, states, compressed=header.header.compressed)
    return AlteredHeader(data=data, ids=tuple(ids), first_added=first_added)


class TypeEditor:
    """Writes the values of one state anew, in another type.

    Args:
        part: the state, in the layout of canonical entries.
        changes: of the type of its values, in order.

    Raises:
        RefusedEditError: the type cannot change so.
    """

    def __init__(self, part: StatePart, changes: Sequence[TypeChange]) -> None:
        self._part = part
        self._conversions: list[Conversion] = []
        value = part.entry.part("value")
        for change in changes:
            evolved = change.evolved(value)
            self._conversions.append(evolved.convert)
            value = evolved.serializer
        entry = replace(part.entry, value=value)
        assert isinstance(part.source, ComposedSource)
        source = replace(part.source, entries={part.name: entry})
        self._old = Encoder.of_part(part, _SEGMENTS)
        self._new = Encoder.of_part(StatePart(source=source, name=part.name, entry=entry), _SEGMENTS)

    def edited(self, pages: Iterator[Page]) -> Iterator[EntrySegments]:
        """Yield the entries of pages in their new type; keys keep their bytes.

        Raises:
            RefusedEditError: the columns of an entry do not hold all of its bytes.
            UnencodableValueError: a value that the new type cannot hold.
        """
        for batch in self._part.decoded(pages):
            self._check_restorable(batch)
            columns = dict(zip(self._old.schema.names, batch.arrays, strict=True))
            self._check_described(batch, columns.pop(UNDECODED, None))
            try:
                columns["value"] = self._converted(columns["value"])
                columns[UNDECODED] = pa.nulls(len(batch.page), pa.binary())
                names = self._new.schema.names
                encoded = self._new.encode(
                    pa.RecordBatch.from_arrays([columns[name] for name in names], names),
                    np.ascontiguousarray(batch.page.key_groups),
                )
            except (UnencodableValueError, UnencodableTypeError) as error:
                raise self._located(error, batch) from error
            values = EntrySegments.of(encoded.data, encoded.starts, encoded.ends)
            yield EntrySegments.of_page(batch.page).with_values(np.arange(len(batch.page)), values)

    def _converted(self, values: pa.Array) -> pa.Array:
        if self._part.entry.kind is not StateKind.LIST:
            for convert in self._conversions:
                values = convert(values)
            return values
        elements = values.flatten()
        for convert in self._conversions:
            elements = convert(elements)
        offsets = values.offsets
        # A slice of a list array has the offsets of the whole.
        starts = pa.array(np.asarray(offsets) - (np.asarray(offsets)[0] if len(offsets) else 0), pa.int32())
        return pa.ListArray.from_arrays(starts, elements)

    def _check_described(self, batch: Batch, undecoded: pa.Array | None) -> None:
        if undecoded is None or undecoded.null_count == len(undecoded):
            return
        row = int(np.flatnonzero(np.asarray(undecoded.is_valid()))[0])
        raise RefusedEditError(
            f"{self._part.name.name}, key {_key(batch, self._old, row)}: expected a value of classes that the savepoint "
            "describes, found one of another: DELETE it before, or let the job write it anew"
        )

    def _check_restorable(self, batch: Batch) -> None:
        lost = ~self._old.restores(batch)
        if lost.any() and self._part.entry.kind is StateKind.MAP:
            # Behind the flag of a null map value the hashmap backend writes bytes that hold nothing.
            flags = batch.page.data[batch.page.starts[:, 1]]
            lost &= flags != _NULL_FLAG
        if not lost.any():
            return
        raise RefusedEditError(
            f"{self._part.name.name}, key {_key(batch, self._old, int(np.flatnonzero(lost)[0]))}: expected a value whose "
            "columns hold all of its bytes, found one that would lose some if it was written in another type"
        )

    def _located(
        self, error: UnencodableValueError | UnencodableTypeError, batch: Batch
    ) -> UnencodableValueError | UnencodableTypeError:
        """Return the error with the state; the row of an element of a list is not that of its entry."""
        is_row = self._part.entry.kind is not StateKind.LIST and 0 <= error.row < len(batch.page)
        key = f"key {_key(batch, self._old, error.row)}: " if is_row else ""
        return type(error)(f"{key}{error.message}", breadcrumbs=(self._part.name.name, *error.breadcrumbs))


def _key(batch: Batch, encoder: Encoder, row: int) -> str:
    return shown(batch.arrays[encoder.schema.get_field_index("key")][row])


def try_types(operator: Operator, name: StateName, types: Sequence[TypeChange]) -> int:
    """Return how many entries of a state have other bytes after changes of their type.

    Args:
        operator: the operator in the source.
        name: of the state.
        types: the changes, in order.

    Raises:
        WriterError: the type cannot change so, or a value is none of the new type; the error names its key.
        ReaderError: the state cannot be read.
    """
    most = max(operator.metadata.max_parallelism, 1)
    entries = 0
    for source in operator.sources:
        if name not in source.entries or source.key_group_range is None:
            continue
        header = check_carried(source, source.stored_header())
        altered_header(header, source, {name: StateAlteration(types=tuple(types))})
        editor = TypeEditor(composed_part(source, name, most), types)
        for segments in editor.edited(_pages(source, header, name, most)):
            entries += len(segments)
    return entries


def _pages(source: Source, header: StoredHeader, name: StateName, most: int) -> Iterator[Page]:
    if source.stored_groups() is not None:
        return source.pages(name, Selection())
    return carrier_of(source, header, most).pages(state_names(header).index(name), Selection())
