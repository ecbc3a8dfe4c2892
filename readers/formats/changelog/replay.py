"""Applies the changes of a changelog to the entries of its base.

| operation | payload | does |
|---|---|---|
| 0 CLEAR | – | removes the entry, or the whole map or list |
| 1 SET, 2 SET_INTERNAL | value, `ListSerializer`'s list, `MapSerializer`'s map | replaces it |
| 3 ADD | list or map | appends, puts all |
| 4 MERGE_NS | namespace (the target's), i4 n, n × namespace | moves the values of these namespaces to the target |
| 5 ADD_ELEMENT | element; i4 n, n × timer; of MAP as 6 | appends, adds |
| 6 ADD_OR_UPDATE_ELEMENT | map key, map value without null flag | puts |
| 7 REMOVE_ELEMENT | map key; timer | removes |

Changes are applied to bytes, never to values. An entry is kept by its composite key (`composite.py`), so the result has
RocksDB's layout, whatever the layout of the base. Changes are applied by key group; entries of a composite base in key
groups without changes pass unchanged.

For a REDUCING or AGGREGATING state MERGE_NS calls the user's function, which is not available here. Then the target has the values
of all merged namespaces, each as an entry of its own, until SET_INTERNAL replaces them. Flink does that at once: the
element that made the windows merge is added to the merged window.

Flink: ChangelogBackendLogApplier and the StateChangeApplier of each kind of state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from readers.cursor import Cursor
from readers.decode.decoder import Decoder, Page, walker
from readers.decode.program import Program
from readers.errors import CorruptDataError, UnsupportedSerializerError
from readers.formats.changelog.log import (
    ADD,
    ADD_ELEMENT,
    ADD_OR_UPDATE_ELEMENT,
    CLEAR,
    MERGE_NS,
    REMOVE_ELEMENT,
    SCOPE,
    SET,
    SET_INTERNAL,
    Announcement,
    Bounds,
    ChangeRange,
)
from readers.formats.composite import compose_prefix, emit_scope
from readers.formats.entry import Entry, EntryLayout, StateKind, keyed_entry, map_serializer
from readers.formats.rocksdb.database import framed
from readers.formats.rocksdb.sst.scan import PAGE_BYTES, PAGE_ENTRIES
from readers.keygroups import key_group_bytes
from readers.serializers.base import OpaqueSerializer, Serializer
from readers.serializers.operators import TimerSerializer

Operations = dict[int, Callable[[Any, "Change"], None]]

_DELIMITER = b","
_COMPOSITE_SEGMENTS = 2  # heap entries have one; those of Flink 1.2 have two, but no changelog


class Replay(ABC):
    """The entries of one state in one key group while changes are applied.

    Args:
        payloads: reads the payloads of changes.
        key_group: the key group.
    """

    def __init__(self, payloads: PayloadReader, key_group: int) -> None:
        self.payloads = payloads
        self.key_group = key_group

    @abstractmethod
    def load(self, page: Page) -> None:
        """Load entries of a base in the composite layout."""

    @abstractmethod
    def load_heap(self, page: Page) -> None:
        """Load entries of a base in the layout of the hashmap backend."""

    @abstractmethod
    def apply(self, changed: ChangeRange) -> None:
        """Apply changes.

        Raises:
            CorruptDataError: a change contradicts the layout, or the kind of state has no such operation.
        """

    @abstractmethod
    def entries(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield composite key and value of the entries that are left."""


class _KeyValueReplay(Replay):
    """The common part of values, lists and maps: each change has a key and a namespace."""

    operations: ClassVar[Operations]

    def load_heap(self, page: Page) -> None:
        # The value of a heap entry has the bytes of a SET's payload; only its namespace stands before the key.
        payloads = self.payloads
        namespaces = payloads.namespace.measure_each(page.data, page.starts[:, 0], page.ends[:, 0], page.path)
        keys = payloads.key.measure_each(page.data, namespaces, page.ends[:, 0], page.path)
        data = memoryview(page.data)
        bounds = zip(
            *(column.tolist() for column in (page.starts[:, 0], namespaces, keys, page.ends[:, 0])),
            strict=True,
        )
        for start, namespace, key, end in bounds:
            scope = bytes(data[namespace:key]), bytes(data[start:namespace])
            self._apply(SET, Change(page.data, data, page.path, *scope, key, end))

    def apply(self, changed: ChangeRange) -> None:
        changes, payloads = changed.changes, self.payloads
        starts, ends = changes.starts[changed.indexes], changes.ends[changed.indexes]
        keys = payloads.key.measure_each(changes.data, starts + SCOPE, ends, changes.path)
        namespaces = payloads.namespace.measure_each(changes.data, keys, ends, changes.path)
        data = memoryview(changes.data)
        columns = (changes.data[starts], starts, keys, namespaces, ends)
        for operation, start, key, namespace, end in zip(
            *(column.tolist() for column in columns), strict=True
        ):
            scope = bytes(data[start + SCOPE : key]), bytes(data[key:namespace])
            self._apply(operation, Change(changes.data, data, changes.path, *scope, namespace, end))

    def _apply(self, operation: int, change: Change) -> None:
        apply = self.operations.get(operation)
        if apply is None:
            raise change.corrupt(
                f"expected an operation on {self.payloads.entry.kind.value} state, found {operation}"
            )
        apply(self, change)

    def prefix(self, key: bytes, namespace: bytes) -> bytes:
        """Return the composite key of a change."""
        return compose_prefix(
            self.payloads.entry, self.key_group, key, namespace, self.payloads.max_parallelism
        )


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a key-value state, and the bounds of its payload."""

    array: NDArray[np.uint8]
    data: memoryview
    path: str
    key: bytes
    namespace: bytes
    start: int
    end: int

    def payload(self) -> bytes:
        """Return the bytes of the payload."""
        return bytes(self.data[self.start : self.end])

    def cursor(self) -> Cursor:
        """Return a cursor at the beginning of the payload."""
        return Cursor(self.data, path=self.path, position=self.start, end=self.end)

    def corrupt(self, message: str) -> CorruptDataError:
        """Return an error at the beginning of the payload."""
        return self.cursor().corrupt(message)


class ValueReplay(_KeyValueReplay):
    """VALUE, REDUCING, AGGREGATING: a value per entry; more only after a merge that needs the user's function."""

    def __init__(self, payloads: PayloadReader, key_group: int) -> None:
        super().__init__(payloads, key_group)
        self.values: dict[bytes, list[bytes]] = {}

    def load(self, page: Page) -> None:
        for key, value in _composite_entries(page):
            self.values[key] = [value]

    def clear(self, change: Change) -> None:
        self.values.pop(self.prefix(change.key, change.namespace), None)

    def replace(self, change: Change) -> None:
        self.values[self.prefix(change.key, change.namespace)] = self.values_of(change)

    def merge(self, change: Change) -> None:
        target = self.values.setdefault(self.prefix(change.key, change.namespace), [])
        for namespace in self.payloads.merged_namespaces(change):
            # Windows that merge into one of themselves: its values stay.
            if namespace != change.namespace:
                target += self.values.pop(self.prefix(change.key, namespace), [])

    def values_of(self, change: Change) -> list[bytes]:
        """Return the values that the payload of a SET has: one."""
        return [change.payload()]

    def apply(self, changed: ChangeRange) -> None:
        super().apply(self._last_of_each(changed))

    def _last_of_each(self, changed: ChangeRange) -> ChangeRange:
        """Return the last change of each entry, or all if there are merges: other changes do not depend on earlier ones."""
        changes, payloads = changed.changes, self.payloads
        starts, ends = changes.starts[changed.indexes], changes.ends[changed.indexes]
        # A merge moves what earlier changes left at other namespaces.
        if (changes.data[starts] == MERGE_NS).any():
            return changed
        keys = payloads.key.measure_each(changes.data, starts + SCOPE, ends, changes.path)
        namespaces = payloads.namespace.measure_each(changes.data, keys, ends, changes.path)
        data = memoryview(changes.data)
        bounds = zip((starts + SCOPE).tolist(), namespaces.tolist(), strict=True)
        last = {bytes(data[start:end]): index for index, (start, end) in enumerate(bounds)}
        return ChangeRange(changes=changes, indexes=changed.indexes[sorted(last.values())])

    def entries(self) -> Iterator[tuple[bytes, bytes]]:
        for key, values in self.values.items():
            for value in values:
                yield key, value

    operations: ClassVar[Operations] = {CLEAR: clear, SET: replace, SET_INTERNAL: replace, MERGE_NS: merge}


class ListReplay(ValueReplay):
    """LIST: the elements of each entry, joined in the end as RocksDB's merge operator joins them."""

    def load(self, page: Page) -> None:
        for key, value in _composite_entries(page):
            # The elements of the base stay joined: only their end matters, where others are appended.
            self.values[key] = [value] if value else []

    def apply(self, changed: ChangeRange) -> None:
        """Apply all changes: each may add to the list."""
        _KeyValueReplay.apply(self, changed)

    def add(self, change: Change) -> None:
        self.values.setdefault(self.prefix(change.key, change.namespace), []).extend(self.values_of(change))

    def add_element(self, change: Change) -> None:
        self.values.setdefault(self.prefix(change.key, change.namespace), []).append(change.payload())

    def values_of(self, change: Change) -> list[bytes]:
        """Return the elements of a list that `ListSerializer` wrote."""
        return self.payloads.elements(change)

    def entries(self) -> Iterator[tuple[bytes, bytes]]:
        for key, elements in self.values.items():
            if elements:
                yield key, _DELIMITER.join(elements)

    operations: ClassVar[Operations] = {**ValueReplay.operations, ADD: add, ADD_ELEMENT: add_element}


class MapReplay(_KeyValueReplay):
    """MAP: map key → null flag and value, as RocksDB has them."""

    def __init__(self, payloads: PayloadReader, key_group: int) -> None:
        super().__init__(payloads, key_group)
        self.maps: dict[bytes, dict[bytes, bytes]] = {}

    def load(self, page: Page) -> None:
        prefixes = self.payloads.prefix.measure_each(page.data, page.starts[:, 0], page.ends[:, 0], page.path)
        sizes = (prefixes - page.starts[:, 0]).tolist()
        for size, (key, value) in zip(sizes, _composite_entries(page), strict=True):
            self.maps.setdefault(key[:size], {})[key[size:]] = value

    def clear(self, change: Change) -> None:
        self.maps.pop(self.prefix(change.key, change.namespace), None)

    def replace(self, change: Change) -> None:
        self.maps[self.prefix(change.key, change.namespace)] = dict(self.payloads.map_entries(change))

    def add(self, change: Change) -> None:
        self._map_of(change).update(self.payloads.map_entries(change))

    def put(self, change: Change) -> None:
        end = self.payloads.map_key_end(change)
        # The payload has no null flag before the value, unlike a map: RocksDB's values always begin with one.
        self._map_of(change)[bytes(change.data[change.start : end])] = b"\0" + bytes(
            change.data[end : change.end]
        )

    def remove(self, change: Change) -> None:
        self._map_of(change).pop(change.payload(), None)

    def entries(self) -> Iterator[tuple[bytes, bytes]]:
        for prefix, entries in self.maps.items():
            for key, value in entries.items():
                yield prefix + key, value

    def _map_of(self, change: Change) -> dict[bytes, bytes]:
        return self.maps.setdefault(self.prefix(change.key, change.namespace), {})

    operations: ClassVar[Operations] = {
        CLEAR: clear,
        SET: replace,
        SET_INTERNAL: replace,
        ADD: add,
        ADD_ELEMENT: put,
        ADD_OR_UPDATE_ELEMENT: put,
        REMOVE_ELEMENT: remove,
    }


class TimerReplay(Replay):
    """TIMER: a set of timers; a dict, so that their order does not change from one run to the next."""

    def __init__(self, payloads: PayloadReader, key_group: int) -> None:
        super().__init__(payloads, key_group)
        self.prefix = key_group.to_bytes(key_group_bytes(payloads.max_parallelism), "big")
        self.timers: dict[bytes, None] = {}

    def load(self, page: Page) -> None:
        for key, _ in _composite_entries(page):
            self.timers[key] = None

    def load_heap(self, page: Page) -> None:
        data = memoryview(page.data)
        for start, end in zip(page.starts[:, 0].tolist(), page.ends[:, 0].tolist(), strict=True):
            self.timers[self.prefix + bytes(data[start:end])] = None

    def apply(self, changed: ChangeRange) -> None:
        changes = changed.changes
        data = memoryview(changes.data)
        columns = (changes.starts[changed.indexes], changes.ends[changed.indexes])
        for start, end in zip(*(column.tolist() for column in columns), strict=True):
            operation = data[start]
            change = Change(changes.data, data, changes.path, b"", b"", start + SCOPE, end)
            if operation == ADD_ELEMENT:
                for timer in self.payloads.timers(change):
                    self.timers[self.prefix + timer] = None
            elif operation == REMOVE_ELEMENT:
                self.timers.pop(self.prefix + change.payload(), None)
            else:
                raise change.corrupt(f"expected an operation on timers, found {operation}")

    def entries(self) -> Iterator[tuple[bytes, bytes]]:
        for timer in self.timers:
            yield timer, b""


class PayloadReader:
    """Reads the payloads of changes, by walking them with the state's serializers; belongs to one thread.

    Args:
        entry: the state's serializers.
        max_parallelism: the number of key groups.
    """

    def __init__(self, entry: Entry, max_parallelism: int) -> None:
        self.entry = entry
        self.max_parallelism = max_parallelism
        self.key = walker(entry.part("key").emit)
        self.namespace = walker(entry.part("namespace").emit)
        is_map, is_known = entry.kind is StateKind.MAP, not entry.is_raw("value")
        self._element = walker(self._emit_element) if is_known and not is_map else None
        self._map_entry = walker(map_serializer(entry).emit_entry) if is_known and is_map else None
        self._map_key = walker(entry.part("map_key").emit) if is_map else None
        self.prefix = walker(self._emit_prefix)

    def merged_namespaces(self, change: Change) -> list[bytes]:
        """Return the merged namespaces of a MERGE_NS; the target stands before them."""
        cursor = change.cursor()
        _, ends = self.namespace.measure(change.array, cursor.position, change.end, 1, change.path)
        cursor.position = int(ends[0, 0])
        return _items(change, self.namespace, cursor.position)

    def elements(self, change: Change) -> list[bytes]:
        """Return the elements of a list; if their ends are not known, all of them as one."""
        # A list of one element needs no walk, so it can be read even if its end is not known. Elements may have no bytes.
        count = change.cursor().count("list elements", 0)
        if self._element is not None and count > 1:
            return _items(change, self._element, change.start)
        return [bytes(change.data[change.start + 4 : change.end])] if count else []

    def timers(self, change: Change) -> list[bytes]:
        """Return the timers of an ADD_ELEMENT."""
        return _items(change, self._required(self._element), change.start)

    def map_key_end(self, change: Change) -> int:
        """Return the end of the map key at the beginning of the payload."""
        _, ends = self._required(self._map_key).measure(
            change.array, change.start, change.end, 1, change.path
        )
        return int(ends[0, 0])

    def map_entries(self, change: Change) -> Iterator[tuple[bytes, bytes]]:
        """Yield the entries of a map that `MapSerializer` wrote: map key, null flag with value."""
        cursor = change.cursor()
        count = cursor.count("map entries")
        entry = self._required(self._map_entry)
        starts, ends = entry.measure(change.array, cursor.position, change.end, count, change.path)
        _check_end(change, ends, cursor.position)
        keys = self._required(self._map_key).measure_each(change.array, starts[:, 0], ends[:, 0], change.path)
        for start, key, end in zip(starts[:, 0].tolist(), keys.tolist(), ends[:, 0].tolist(), strict=True):
            yield bytes(change.data[start:key]), bytes(change.data[key:end])

    def _emit_element(self, program: Program) -> None:
        if self.entry.kind is StateKind.TIMER:
            TimerSerializer(self.entry.part("key"), self.entry.part("namespace")).emit(program)
        elif self.entry.value is not None:
            self.entry.value.emit(program)

    def _emit_prefix(self, program: Program) -> None:
        program.key_group(key_group_bytes(self.max_parallelism))
        emit_scope(program, EntryLayout({}), self.entry)

    def _required(self, decoder: Decoder | None) -> Decoder:
        if decoder is None:
            problem = next((problem for problem in self.entry.problems() if not problem.sized), None)
            reason = problem.reason if problem else self.entry.kind.value
            raise UnsupportedSerializerError(
                f"expected serializers whose values have a known end, to replay a changelog; found {reason}"
            )
        return decoder


def replayer(
    entry: Entry, max_parallelism: int
) -> Callable[[int, list[Page], list[ChangeRange]], Iterator[tuple[bytes, bytes]]]:
    """Return the function (key group, pages of the base, changes) → composite entries."""
    if not is_replayable(entry):
        return lambda key_group, pages, ranges: chain(
            chain.from_iterable(map(_composite_entries, pages)),
            chain.from_iterable(raw_changes(changed, key_group, max_parallelism) for changed in ranges),
        )
    payloads = PayloadReader(entry, max_parallelism)

    def entries(
        key_group: int, pages: list[Page], ranges: list[ChangeRange]
    ) -> Iterator[tuple[bytes, bytes]]:
        replay = REPLAYS.get(entry.kind, ValueReplay)(payloads, key_group)
        for page in pages:
            (replay.load if page.starts.shape[1] == _COMPOSITE_SEGMENTS else replay.load_heap)(page)
        for changed in ranges:
            replay.apply(changed)
        return replay.entries()

    return entries


def rebase(
    pages: Iterable[Page],
    ranges: dict[int, list[ChangeRange]],
    replay: Callable[[int, list[Page], list[ChangeRange]], Iterator[tuple[bytes, bytes]]],
    replayed: EntryPages,
) -> Iterator[Page]:
    """Yield the pages of a base after the changes; removes the changes that it applies from `ranges`.

    Composite entries of key groups without changes pass unchanged. The key groups of a base come one after the other, so a
    key group is complete when the next one begins.
    """
    waiting: dict[int, list[Page]] = {}
    for page in pages:
        # Heap entries are always replayed, also without changes: the result has to have RocksDB's layout.
        touched = np.ones(len(page), dtype=np.bool_)
        if page.starts.shape[1] == _COMPOSITE_SEGMENTS:
            touched = np.isin(page.key_groups, np.array(list(ranges) + list(waiting), dtype=np.int32))
            if not touched.all():
                yield page.only(~touched)
        groups = np.unique(page.key_groups[touched]).tolist()
        for group in [group for group in waiting if group not in groups]:
            yield from replayed.add(group, replay(group, waiting.pop(group), ranges.pop(group, [])))
        for group in groups:
            waiting.setdefault(group, []).append(page.only(page.key_groups == group))
    for group, pages_of in waiting.items():
        yield from replayed.add(group, replay(group, pages_of, ranges.pop(group, [])))


def announced_entry(announcement: Announcement, key: Serializer | None) -> Entry:
    """Return the serializers of an announced state's entries."""
    if announcement.problem:
        key = OpaqueSerializer("?", announcement.problem)
    elif key is None:
        reason = "a changelog without a base does not record how keys are serialized, and the operator has no timers"
        key = OpaqueSerializer("?", reason)
    return keyed_entry(announcement.state, key)


def is_replayable(entry: Entry) -> bool:
    """Return whether the entry of each change can be found: key, namespace and map key have known ends."""
    return not any(entry.is_raw(column) for column in ("key", "namespace", "map_key"))


def raw_entry(entry: Entry) -> Entry:
    """Return the entry of a state that cannot be replayed: each row is a change, with its bytes in the key column."""
    reasons = [
        problem.reason for problem in entry.problems() if not problem.sized and problem.path[0] != "value"
    ]
    opaque = OpaqueSerializer("changelog", f"not replayed, each row is a change of the log: {reasons[0]}")
    map_key = opaque if entry.kind is StateKind.MAP else None
    value = None if entry.kind is StateKind.TIMER else opaque
    return Entry(kind=entry.kind, key=opaque, namespace=opaque, map_key=map_key, value=value)


def raw_changes(changed: ChangeRange, key_group: int, max_parallelism: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield changes as entries without values; the key is the key group and all bytes of the change."""
    prefix = key_group.to_bytes(key_group_bytes(max_parallelism), "big")
    data = memoryview(changed.changes.data)
    columns = (changed.changes.starts[changed.indexes], changed.changes.ends[changed.indexes])
    for start, end in zip(*(column.tolist() for column in columns), strict=True):
        yield prefix + bytes(data[start:end]), b""


class EntryPages:
    """Collects entries into pages of a few megabytes.

    Args:
        subtask: the subtask of the state.
        path: the file, for errors.
    """

    def __init__(self, subtask: int, path: str) -> None:
        self._subtask = subtask
        self._path = path
        self._keys: list[bytes] = []
        self._values: list[bytes] = []
        self._key_groups: list[int] = []
        self._size = 0

    def add(self, key_group: int, entries: Iterable[tuple[bytes, bytes]]) -> Iterator[Page]:
        """Add the entries of a key group; yield each page that is full."""
        for key, value in entries:
            self._keys.append(key)
            self._values.append(value)
            self._key_groups.append(key_group)
            self._size += len(key) + len(value)
            if len(self._keys) >= PAGE_ENTRIES or self._size >= PAGE_BYTES:
                yield from self.rest()

    def rest(self) -> Iterator[Page]:
        """Yield the last page, if there are entries left."""
        if self._keys:
            data, starts, ends = framed(self._keys, self._values)
            groups = np.array(self._key_groups, dtype=np.int32)
            yield Page.of(data, (starts, ends), groups, self._subtask, self._path)
            self._keys, self._values, self._key_groups, self._size = [], [], [], 0


def _composite_entries(page: Page) -> Iterator[tuple[bytes, bytes]]:
    data = memoryview(page.data)
    for (key, value), (key_end, value_end) in zip(page.starts.tolist(), page.ends.tolist(), strict=True):
        yield bytes(data[key:key_end]), bytes(data[value:value_end])


def _items(change: Change, decoder: Decoder, position: int) -> list[bytes]:
    """Return the n items behind an i4 n; the last one ends with the payload."""
    cursor = Cursor(change.data, path=change.path, position=position, end=change.end)
    count = cursor.count("parts of a change")
    starts, ends = decoder.measure(change.array, cursor.position, change.end, count, change.path)
    _check_end(change, ends, cursor.position)
    bounds: Iterable[tuple[int, int]] = zip(starts[:, 0].tolist(), ends[:, 0].tolist(), strict=True)
    return [bytes(change.data[start:end]) for start, end in bounds]


def _check_end(change: Change, ends: Bounds, position: int) -> None:
    last = int(ends[-1, 0]) if len(ends) else position
    if last != change.end:
        raise change.corrupt(
            f"expected a change that ends at byte {change.end}, found its parts end at {last}"
        )


REPLAYS: dict[StateKind, type[Replay]] = {
    StateKind.LIST: ListReplay,
    StateKind.MAP: MapReplay,
    StateKind.TIMER: TimerReplay,
}
