"""The native layout of the hashmap backend: its checkpoints and native savepoints.

The stream is a `KeyedBackendSerializationProxy`, then at the handle's offset of each key group of the range:

| bytes | meaning |
|---|---|
| i4 | the key group, never compressed |
| u2 state id, i4 n, n × (namespace, key, value) | KEY_VALUE: every state of the proxy stands in every key group |
| u2 state id, i4 n, n × element | PRIORITY_QUEUE |

The value of a LIST is written by `ListSerializer`, that of a MAP by `MapSerializer`. Nothing records a length. To find the end of a
state, its serializers walk its entries, also if the state is not wanted; where they cannot, `entries.py` searches for the end.
Entries whose bounds are not certain, even of several states, become one row of bytes. With compression each state is a
snappy stream of its own; the streams of a key group follow each other. Flink 1.2 wrote a state by its namespaces: see `source.py`.

Flink: HeapSnapshotStrategy, CopyOnWriteStateMapSnapshot, HeapRestoreOperation.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from readers.cursor import Cursor
from readers.decode.decoder import Decoder, Page, walker
from readers.decode.program import Program
from readers.errors import CorruptDataError, ReaderError, UnsupportedSerializerError
from readers.formats.entry import (
    WHOLE_MAP,
    Entry,
    EntryLayout,
    StateKind,
    column_type,
    emit_undescribed,
    map_serializer,
)
from readers.formats.full.layout import is_key_group
from readers.formats.heap.entries import (
    BLOCK_HEADER_BYTES,
    Bounds,
    EntryReader,
    Gaps,
    PartialEntry,
    UncertainEndError,
    element_of,
)
from readers.formats.source import KeyBounds, checked_bounds
from readers.formats.streams import KeyGroupBody
from readers.schemas import UNDECODED
from readers.serializers.base import Problem
from readers.storage.filesystems import Stream

_TIMESTAMP_BYTES = 8
_BLOCK_HEADER = struct.Struct(">Hi")


def heap_columns(entry: Entry) -> dict[str, pa.DataType]:
    """Return the columns of an entry in this layout."""
    columns = {"key": column_type(entry, "key"), "namespace": column_type(entry, "namespace")}
    if entry.kind is StateKind.TIMER:
        return columns | {"value": pa.timestamp("ms")}
    if (raw := _raw_value(entry)) is not None:
        return columns | {raw: pa.binary()}
    if entry.kind is StateKind.MAP:
        columns[WHOLE_MAP] = _list_of_entries(entry)
    else:
        value = column_type(entry, "value")
        columns["value"] = pa.list_(value) if entry.kind is StateKind.LIST else value
    return columns | {UNDECODED: pa.binary()} if entry.is_open else columns


def _list_of_entries(entry: Entry) -> pa.DataType:
    """Return the type of a map as a list of structs: unlike those of an Arrow map, its keys may be null."""
    pair = map_serializer(entry).arrow()
    return pa.list_(pa.struct([("key", pair.key_type), ("value", pair.item_type)]))


def emit_heap(
    program: Program,
    layout: EntryLayout,
    entry: Entry,
    *,
    undescribed: bool = False,
    whole: bool = False,
    by_namespace: bool = False,
) -> None:
    """Emit one segment: namespace, key, value; for a timer timestamp, key, namespace.

    A part without a known end takes all bytes that follow, and so does an undescribed value; of a list or map, the elements from
    the first undescribed one on, unless `whole`. With `by_namespace` the
    namespace is a segment of its own.
    """
    if by_namespace:
        emit_namespace_alone(program, layout, entry)
        program.segment(1)
    if undescribed:
        _emit_parts(program, layout, entry, ("key",) if by_namespace else ("namespace", "key"))
        emit_element = None if whole else element_of(entry)
        value = WHOLE_MAP if entry.kind is StateKind.MAP else "value"
        emit_undescribed(program, layout, value, emit_element=emit_element, counted=True)
        return
    if by_namespace:
        emit_key_and_value(program, layout, entry)
    else:
        _emit_parts(program, layout, entry, _parts(entry))
    if entry.is_open:
        layout.null(program, UNDECODED)


def emit_namespace_alone(program: Program, layout: EntryLayout, entry: Entry) -> None:
    """Emit the namespace that entries of Flink 1.2 share."""
    _emit_parts(program, layout, entry, ("namespace",))


def emit_key_and_value(program: Program, layout: EntryLayout, entry: Entry) -> None:
    """Emit an entry of Flink 1.2 without its namespace."""
    _emit_parts(program, layout, entry, ("key", "value"))


def emit_scope(program: Program, layout: EntryLayout, entry: Entry) -> None:
    """Emit the bytes before the value: namespace and key; all of a timer."""
    _emit_parts(
        program, layout, entry, [name for name in _parts(entry) if name in layout.names or name != "value"]
    )


def _parts(entry: Entry) -> tuple[str, ...]:
    """Return the columns in the order of their bytes."""
    return ("value", "key", "namespace") if entry.kind is StateKind.TIMER else ("namespace", "key", "value")


def _raw_value(entry: Entry) -> str | None:
    """Return the column that has all bytes of a value, or of a whole map, whose end is not known; None if it is known."""
    return next((name for name in ("value", "map_key") if entry.is_raw(name)), None)


def _emit_parts(program: Program, layout: EntryLayout, entry: Entry, parts: Sequence[str]) -> None:
    ended = False
    for name in parts:
        raw = _raw_value(entry) if name == "value" else name if entry.is_raw(name) else None
        is_map = name == "value" and entry.kind is StateKind.MAP and raw is None
        with layout.column(program, WHOLE_MAP if is_map else raw or name):
            if ended:
                program.null()
            elif raw is not None:
                program.rest()
                ended = True
            else:
                _emit_part(program, entry, name)


def _emit_part(program: Program, entry: Entry, name: str) -> None:
    if name != "value":
        entry.part(name).emit(program)
    elif entry.kind is StateKind.TIMER:
        # TimerSerializer inverts the sign, so that the bytes of timers sort by time.
        program.flipped()
    elif entry.kind is StateKind.MAP:
        map_serializer(entry).emit(program)
    else:
        with program.list() if entry.kind is StateKind.LIST else nullcontext():
            entry.part("value").emit(program)


@dataclass(frozen=True, kw_only=True)
class Cut:
    """Entries of a state in a key group.

    Attributes:
        starts, ends: int64 (entries, segments).
        undivided: True if the bounds between the entries are not known: all of their bytes are one range.
        partial: the buffer that the bounds refer to, if this is a part of one large entry; else it is the key group's.
    """

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    undivided: bool = False
    partial: PartialEntry | None = None


def undivided(position: int, limit: int) -> Cut:
    """Return all bytes between two positions as one range of entries that cannot be told apart."""
    starts, ends = (np.array([[bound]], dtype=np.int64) for bound in (position, limit))
    return Cut(starts=starts, ends=ends, undivided=True)


class HeapKeyGroupReader:
    """Finds the entries of states in the key groups of one stream; belongs to one thread.

    Args:
        states: name and entry of the states, in the order of their ids.
        order: returns the ids in the order in which key groups have their states; see `entries.py`.
        ends: (key group, state id) → end of a state that cannot be walked; shared by all readers of a stream.
        max_parallelism: the number of key groups of the operator.
        path: the file, for errors.
    """

    def __init__(
        self,
        states: Sequence[tuple[str, Entry]],
        order: Callable[[], Sequence[int]],
        ends: dict[tuple[int, int], int | ReaderError],
        max_parallelism: int,
        path: str,
    ) -> None:
        self._states = states
        self._walkers: dict[int, Decoder] = {}
        self._readers: dict[int, EntryReader] = {}
        self._gaps = Gaps(states, self._walk, emit_scope, order, max_parallelism, path)
        self._ends = ends
        self._path = path

    def cuts(self, body: KeyGroupBody, wanted: int) -> Iterator[Cut]:
        """Find the entries of a state, some megabytes at a time, and large lists and maps in parts.

        Entries whose bounds are not certain come at once. For the arguments and errors see `cut`.
        """
        if not self._is_plain(wanted):
            yield self.cut(body, wanted)
            return
        count, position, _ = self._find(body, wanted)
        assert count is not None  # only where ends are uncertain
        for entries in self._entry_reader(wanted).ranges(body.data, position, body.last, count):
            yield Cut(starts=entries.starts, ends=entries.ends, partial=entries.partial)
            body.release(position, entries.behind)
            position = entries.behind

    def cut(self, body: KeyGroupBody, wanted: int) -> Cut:
        """Find the entries of state `wanted` in a key group.

        Raises:
            CorruptDataError: the bytes contradict the layout.
            UnsupportedSerializerError: a state cannot be walked, and its end is not certain.
        """
        count, position, unseen = self._find(body, wanted)
        if count is None:
            return undivided(position, body.last)
        left = replace(body, first=position)
        try:
            starts, ends = self._walk(wanted, left, position, count)
        except UnsupportedSerializerError as error:
            try:
                end = self._end(left, wanted, unseen, error)
            except UncertainEndError:
                if unsized(self._states[wanted][1]) is None:
                    raise
                return undivided(position, body.last)
            return self._split(replace(left, last=end), wanted, count, error)
        return Cut(starts=starts, ends=ends)

    def count(self, body: KeyGroupBody, wanted: int) -> int:
        """Count the entries that `cut` finds: the number before the state's entries, if each entry has a known end."""
        if not self._is_plain(wanted):
            return len(self.cut(body, wanted).starts)
        count = self._find(body, wanted)[0]
        assert count is not None  # only where ends are uncertain
        return count

    def sizes(self, body: KeyGroupBody) -> Iterator[tuple[int, int, int | None]]:
        """Yield (state, number of its entries, their bytes) until a state has no certain end; its bytes are None then.

        The last state need not be walked. For the arguments and errors see `cut`.
        """
        unseen, position = set(range(len(self._states))), body.first
        while unseen:
            state, count, position = self._block(body, position, unseen)
            unseen.remove(state)
            end = position if unseen else body.last
            if count and unseen:
                try:
                    end = self._behind(body, position, state, count, unseen)
                except UncertainEndError:
                    yield state, count, None
                    return
            yield state, count, end - position
            position = end

    def _find(self, body: KeyGroupBody, wanted: int) -> tuple[int | None, int, set[int]]:
        """Find a state: return the number of its entries, the position of the first, and the ids of the states behind it.

        The number is None if a state before it has no certain end: then no bound behind that is known.
        """
        unseen, position = set(range(len(self._states))), body.first
        while unseen:
            state, count, position = self._block(body, position, unseen)
            unseen.remove(state)
            if state == wanted:
                return count, position, unseen
            # An empty state ends where it begins, whatever its serializers.
            if count:
                try:
                    position = self._behind(body, position, state, count, unseen)
                except UncertainEndError:
                    # Values of the wanted state that decode would get lost in one row of bytes: an error is better.
                    if unsized(self._states[wanted][1]) is None:
                        raise
                    return None, position, unseen
        raise CorruptDataError(
            f"expected state {self._states[wanted][0]} in every key group, found {len(self._states)} others",
            path=self._path,
            position=position,
        )

    def _behind(self, body: KeyGroupBody, position: int, state: int, count: int, unseen: Set[int]) -> int:
        """Return the end of a state that stands before the wanted one."""
        try:
            return self._walk_over(state, body, position, count)
        except UnsupportedSerializerError as error:
            return self._end(replace(body, first=position), state, unseen, error)
        except CorruptDataError as error:
            # The states behind a damaged one are still there: their own bytes tell where they begin.
            try:
                return self._end(replace(body, first=position), state, unseen, error)
            except UncertainEndError:
                raise error.within(self._states[state][0]) from error
        except ReaderError as error:
            raise error.within(self._states[state][0]) from error

    def _walk_over(self, state: int, body: KeyGroupBody, position: int, count: int) -> int:
        """Walk over `count` entries of a state and return the position behind them."""
        if not self._is_plain(state):
            _, ends = self._walk(state, body, position, count)
            return int(ends[-1, 0])
        for entries in self._entry_reader(state).ranges(
            body.data, position, body.last, count, partials=False
        ):
            body.release(position, entries.behind)
            position = entries.behind
        return position

    def _is_plain(self, state: int) -> bool:
        return is_plain(self._states[state][1])

    def _entry_reader(self, state: int) -> EntryReader:
        if state not in self._readers:
            self._readers[state] = EntryReader(self._states[state][1], emit_heap, emit_scope, self._path)
        return self._readers[state]

    def order(self, body: KeyGroupBody) -> tuple[int, ...]:
        """Return the state ids in the order in which the key group has their states.

        Raises:
            ReaderError: one of the states cannot be walked.
        """
        return self._walk_all(body)[0]

    def fits(self, body: KeyGroupBody) -> bool:
        """Return whether all states can be walked and fill a key group exactly: then no type is that of another class."""
        try:
            return self._walk_all(body)[1] == body.last
        except (CorruptDataError, UnsupportedSerializerError):
            return False

    def _walk_all(self, body: KeyGroupBody) -> tuple[tuple[int, ...], int]:
        """Return the state ids in the order in which a key group has their states, and the position behind the last."""
        unseen, position = set(range(len(self._states))), body.first
        order = []
        while unseen:
            state, count, position = self._block(body, position, unseen)
            _, ends = self._walk(state, body, position, count)
            position = int(ends[-1, 0]) if count else position
            unseen.remove(state)
            order.append(state)
        return tuple(order), position

    def _block(self, body: KeyGroupBody, position: int, unseen: Set[int]) -> tuple[int, int, int]:
        """Read what stands before the entries of a state; return its id, the number of entries, and the position of the first."""
        left_bytes = body.last - position - BLOCK_HEADER_BYTES
        if left_bytes >= 0:
            # Most states are empty in a key group, and a scan of each state reads all of these: a cursor would cost most of the time.
            state, count = _BLOCK_HEADER.unpack_from(body.data, position)
            if state in unseen and 0 <= count <= left_bytes:
                return state, count, position + BLOCK_HEADER_BYTES
        cursor = Cursor(body.data, path=self._path, position=position, end=body.last)
        state = cursor.u2()
        if state not in unseen:
            message = f"expected one of the {len(unseen)} states not yet seen, found state id {state}"
            raise cursor.corrupt(message, position)
        return state, cursor.count(f"entries of state {self._states[state][0]}"), cursor.position

    def _walk(self, state: int, body: KeyGroupBody, position: int, count: int) -> Bounds:
        """Return the bounds of `count` entries of a state from `position` on."""
        if count == 0:
            empty: NDArray[np.int64] = np.empty((0, 1), dtype=np.int64)
            return empty, empty
        if state not in self._walkers:
            self._walkers[state] = _walker(self._states[state][1])
        return self._walkers[state].measure(body.data, position, body.last, count, self._path)

    def _end(self, left: KeyGroupBody, state: int, unseen: Set[int], error: ReaderError) -> int:
        """Return the end of a state that cannot be walked; the search for it runs once a stream."""
        state_of_group = (left.key_group, state)
        if state_of_group not in self._ends:
            try:
                self._ends[state_of_group] = self._gaps.end(left, state, unseen, error)
            except ReaderError as uncertain:
                self._ends[state_of_group] = uncertain
        end = self._ends[state_of_group]
        if isinstance(end, ReaderError):
            raise copy(end)  # an error that is raised gets a traceback, and breadcrumbs on the way
        return end

    def _split(self, left: KeyGroupBody, state: int, count: int, error: ReaderError) -> Cut:
        """Return the entries of a state whose values may take all bytes that are left.

        Raises:
            ReaderError: `error`, for other states.
        """
        entry = self._states[state][1]
        if unsized(entry) is None and not entry.is_open:
            raise error
        found = self._gaps.split(left, state, count)
        if found is None:
            return undivided(left.first, left.last)
        return Cut(starts=found[0], ends=found[1])


def _walker(entry: Entry) -> Decoder:
    require_sized(entry)
    layout = EntryLayout({})
    return walker(lambda program: emit_heap(program, layout, entry))


def heap_key_bounds(entry: Entry, *, by_namespace: bool) -> KeyBounds | None:
    """Return what finds keys in entries; None if the end of what stands before them, or of a key, is not known."""
    if entry.key is None or entry.namespace is None or entry.is_raw("key") or entry.is_raw("namespace"):
        return None
    key, namespace = walker(entry.key.emit), walker(entry.namespace.emit)

    def bounds(page: Page) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        # Flink 1.2 has the namespace apart; a timer has its time first and its namespace last.
        starts, limits = page.starts[:, -1], page.ends[:, -1]
        if entry.kind is StateKind.TIMER:
            starts = starts + _TIMESTAMP_BYTES
        elif not by_namespace:
            starts = namespace.measure_each(page.data, starts, limits, page.path)
        checked_bounds(page, starts, limits)
        return starts, key.measure_each(page.data, starts, limits, page.path)

    return bounds


def require_sized(entry: Entry) -> None:
    """Refuse entries without a known end.

    Raises:
        UnsupportedSerializerError: names the first part without a known end.
    """
    problem = unsized(entry)
    if problem is not None:
        message = f"expected serializers whose values have a known end, found {problem.reason}"
        raise UnsupportedSerializerError(message, breadcrumbs=problem.path)


def is_plain(entry: Entry) -> bool:
    """Return whether each entry of a state has a certain end."""
    return not entry.is_open and unsized(entry) is None


def unsized(entry: Entry) -> Problem | None:
    """Return the first part of an entry without a known end; None if all have one."""
    return next((problem for problem in entry.problems() if not problem.sized), None)


def key_group_body(data: NDArray[np.uint8], key_group: int, start: int, end: int, path: str) -> Cursor:
    """Return a cursor at the first state of a key group.

    Raises:
        CorruptDataError: the number before it is not that of the key group.
    """
    cursor = Cursor(memoryview(data), path=path, position=start, end=end)
    found = cursor.i4()
    if found != key_group:
        raise cursor.corrupt(f"expected key group {key_group}, found {found}", start)
    return cursor


def is_heap_layout(stream: Stream, offsets: NDArray[np.int64], first_key_group: int) -> bool:
    """Return whether a KeyGroupsStateHandle (tags 3 and 12 record no backend) has this layout, and not the full one.

    The full layout has offset 0 for empty key groups, this one never. Here each offset leads to the number of its key group.
    There it leads to a state id and the length of a key: the same four bytes only for the number 0, or for a key of 64 KiB times
    the number. So the first key group decides, unless its number is 0: then the last one must agree. More are not looked
    at, because in remote files each look is a request.
    """
    if len(offsets) == 0 or (offsets <= 0).any() or (offsets > stream.size_bytes - 4).any():
        return False
    if not all(
        int.from_bytes(stream.read(int(offsets[index]), 4), "big") == first_key_group + index
        for index in _checked_indexes(offsets, first_key_group)
    ):
        return False
    # Key group 0 alone: the same four bytes begin an entry of state 0 with a short key, so all of it has to be walked.
    if first_key_group or len(offsets) > 1:
        return True
    start, end = int(offsets[0]), stream.size_bytes
    return not is_key_group(stream.span(start, end), start, end)


def asked_offsets(offsets: NDArray[np.int64], first_key_group: int) -> list[int]:
    """Return the offsets that `is_heap_layout` reads, to fetch them in time."""
    return (
        [int(offsets[index]) for index in _checked_indexes(offsets, first_key_group)] if len(offsets) else []
    )


def _checked_indexes(offsets: NDArray[np.int64], first_key_group: int) -> tuple[int, ...]:
    return (0,) if first_key_group or len(offsets) == 1 else (0, len(offsets) - 1)
