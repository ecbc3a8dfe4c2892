"""Keyed state with another number of key groups, or of subtasks: each entry goes to the key group of its key's hash code.

    read every entry ─▶ its new key group ─▶ spool: a file for some key groups ─▶ the file of each new subtask

Other processes each read the entries of one old subtask, and write what would be appended to the files of the spool into one file of the
target. Put together in the order of the old subtasks, that is the spool.

Flink checks nothing: a key in another group is restored, listed, and never found. So the hash codes are proven first: the key
groups of the source must be those that they say. What is in memory is a page of the source, or one file of the spool.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from readers import (
    Page,
    Source,
    StateName,
    StoredHeader,
    TemporaryFolder,
    kernel,
    key_groups_of_subtask,
    load_le_i4,
    load_le_i8,
    load_u1,
    store_1,
)
from readers.metadata import KeyedStateHandle, KeyGroupRange, Offsets
from writers.edits import Create, KeyedStateMaker, Work
from writers.encode.fitting import shown
from writers.errors import RefusedEditError
from writers.hashes import key_groups_of
from writers.headers import RegisteredState, registered_state, write_keyed_header
from writers.keyed.assembly import (
    KEY_ADDRESS,
    KEY_BYTES,
    VALUE_ADDRESS,
    VALUE_BYTES,
    EntrySegments,
    KeyGroupAssembler,
    NewKeys,
    StateFile,
    made_file,
)
from writers.keyed.carry import carrier_of, composed_part, key_block, state_names
from writers.keyed.masking import EntryMasker, RowMask
from writers.keyed.sampling import KeyChoice
from writers.target import JoinedTarget, TargetPart

MOST_KEY_GROUPS = 1 << 15  # Flink: KeyGroupRangeAssignment.UPPER_BOUND_MAX_PARALLELISM
# Each is a file, which is made durable and read back: about 5 ms.
_MOST_NEW_SUBTASKS = 1 << 12
_MOST_ONE_BYTE_GROUPS = 128
_FILE_BYTES = 32 << 20
_CHUNK_BYTES = 8 << 20
_MOST_FILES = 256
_FIELDS = 4  # of an entry in the spool: key group, state, bytes of the key, bytes of the value
_WORD_BYTES = 8


@kernel
def _gather(table: int, groups: int, count: int, old_width: int, new_width: int, output: int) -> int:
    """Write keys, with other key groups before them, and values; return the number of bytes."""
    position = 0
    for entry in range(count):
        group = load_le_i4(groups, entry * 4)
        if new_width == 2:
            store_1(output, position, (group >> 8) & 0xFF)
            position += 1
        store_1(output, position, group & 0xFF)
        position += 1
        field = entry * 32
        key = load_le_i8(table, field)
        for at in range(old_width, load_le_i8(table, field + 8)):
            store_1(output, position, load_u1(key, at))
            position += 1
        value = load_le_i8(table, field + 16)
        for at in range(load_le_i8(table, field + 24)):
            store_1(output, position, load_u1(value, at))
            position += 1
    return position


def check_new_subtasks(operator: str, parallelism: int) -> None:
    """Refuse to write the state of more subtasks than a writer ends with.

    Raises:
        RefusedEditError: there are more.
    """
    if parallelism > _MOST_NEW_SUBTASKS:
        raise RefusedEditError(
            f"{operator}: expected a parallelism of at most {_MOST_NEW_SUBTASKS:,} in a new savepoint, found {parallelism:,}; Flink "
            "deals the key groups out anew when it restores, so a job may have more"
        )


@dataclass(frozen=True, slots=True)
class SubtaskRanges:
    """How key groups are dealt out to subtasks. Flink: KeyGroupRangeAssignment#computeKeyGroupRangeForOperatorIndex."""

    max_parallelism: int
    parallelism: int

    def of(self, index: int) -> KeyGroupRange:
        """Return the key groups of a subtask."""
        return KeyGroupRange(*key_groups_of_subtask(index, self.parallelism, self.max_parallelism))


class Resharding:
    """The entries of an operator, dealt out anew.

    Args:
        sources: the keyed state of its subtasks, each with its header.
        old: the key groups and subtasks of the source.
        new: those of the new savepoint.
        keep: which keys stay; None for all.
        dropped: states that go.
        masks: of the rows of states.

    Attributes:
        header: of the file of each new subtask.
        compressed: whether its key groups are.

    Raises:
        RefusedEditError: subtasks have different types.
    """

    def __init__(
        self,
        sources: Sequence[tuple[Source, StoredHeader]],
        old: SubtaskRanges,
        new: SubtaskRanges,
        keep: KeyChoice | None = None,
        dropped: frozenset[StateName] = frozenset(),
        masks: Mapping[StateName, RowMask] | None = None,
    ) -> None:
        self._sources = sources
        self._keep, self._masks = keep, masks or {}
        self._old, self._new = old, new
        states: dict[StateName, RegisteredState] = {}
        first = sources[0][1]
        for source, header in sources:
            own = (registered_state(state, header.data) for state in header.header.states)
            known = [
                states.setdefault(name, state) == state
                for name, state in zip(state_names(header), own, strict=True)
            ]
            # One file has one header.
            if not all(known) or key_block(header) != key_block(first):
                raise RefusedEditError(
                    f"{source.path}: expected the states of all subtasks in the same types, found others: a subtask knows "
                    "classes that another does not"
                )
        # A subtask registers some states only when it needs them.
        for name in dropped:
            states.pop(name, None)
        self._names = list(states)
        self.compressed = first.header.compressed
        self.header = write_keyed_header(key_block(first), list(states.values()), compressed=self.compressed)

    @property
    def is_masked(self) -> bool:
        """True if some rows have masks, so that two keys may have become one."""
        return bool(self._masks)

    @property
    def is_empty(self) -> bool:
        """True if no state stays."""
        return not self._names

    @cached_property
    def _first_groups(self) -> NDArray[np.int64]:
        """The first key group of each file of the spool; no file has those of two subtasks."""
        each = max(1, min(-(-self.size_bytes // _FILE_BYTES), _MOST_FILES) // self._new.parallelism)
        firsts = [
            groups.start + groups.number_of_key_groups * part // each
            for groups in map(self._new.of, range(self._new.parallelism))
            for part in range(each)
        ]
        return np.unique(np.array(firsts, dtype=np.int64))

    @property
    def max_parallelism(self) -> int:
        """The new number of key groups."""
        return self._new.max_parallelism

    @property
    def size_bytes(self) -> int:
        """The bytes of all entries, about."""
        return sum(source.size_bytes for source, _ in self._sources)

    @cached_property
    def dealers(self) -> tuple[Dealer, ...]:
        """The work of each old subtask."""
        facts = self._names, self._first_groups, self._old, self._new, self._keep, self._masks
        return tuple(Dealer(source, header, *facts) for source, header in self._sources)

    @cached_property
    def _spooled(self) -> list[Path]:
        """The files of the spool; their folder goes with this object."""
        self._folder = TemporaryFolder()
        return _spool(Path(self._folder.path), len(self._first_groups), self.dealers)

    def spooled(self, groups: KeyGroupRange) -> Iterator[NDArray[np.uint8]]:
        """Yield the files of the spool that have the key groups of a subtask."""
        for number in self._files_of(groups):
            yield np.fromfile(self._spooled[number], dtype=np.uint8)

    def _files_of(self, groups: KeyGroupRange) -> list[int]:
        firsts = self._first_groups
        return np.flatnonzero((firsts >= groups.start) & (firsts <= groups.end)).tolist()

    def dealt(self, groups: KeyGroupRange, results: Sequence[Dealt]) -> tuple[tuple[TargetPart, ...], ...]:
        """Return the parts of each file of the spool that has key groups of a subtask, from the results of the dealings."""
        return tuple(tuple(one.part(number) for one in results) for number in self._files_of(groups))


@dataclass(frozen=True, slots=True, eq=False)
class Dealer(Work):
    """Deals out the entries of one old subtask: into the spool, or in another process into a file of the target.

    Attributes:
        source, header: its keyed state.
        names: the states in the order of their ids in the new header.
        first_groups: the first key group of each file of the spool.
        old, new: the key groups and subtasks.
        keep: which keys stay; None for all.
        masks: of the rows of states.
    """

    source: Source
    header: StoredHeader
    names: Sequence[StateName]
    first_groups: NDArray[np.int64]
    old: SubtaskRanges
    new: SubtaskRanges
    keep: KeyChoice | None
    masks: Mapping[StateName, RowMask]

    def blocks(self) -> Iterator[tuple[int, bytes]]:
        """Yield the number of the file of the spool that gets some entries, with a block of them.

        Raises:
            RefusedEditError: a key's hash code is not known, or it is not what the source says.
        """
        own = state_names(self.header)
        ids = {own.index(name): number for number, name in enumerate(self.names) if name in own}
        carrier = carrier_of(self.source, self.header, self.old.max_parallelism, self.keep)
        maskers = {
            name: EntryMasker(
                composed_part(self.source, name, self.old.max_parallelism), mask, self.old.max_parallelism
            )
            for name, mask in self.masks.items()
            if name in own
        }
        for group in carrier.groups:
            for state, pages in carrier.states(group):
                masker = maskers.get(own[state])
                for page in pages if state in ids else ():
                    for found in (page,) if masker is None else masker.masked(page):
                        for some, groups in self._resharded(own[state], found):
                            yield from self._divided(replace(some, key_groups=groups), ids[state])

    def _resharded(self, name: StateName, page: Page) -> Iterator[tuple[Page, NDArray[np.int32]]]:
        """Yield entries with their new key groups.

        Raises:
            RefusedEditError: a key's hash code is not known, or it is not what the source says.
        """
        if self.old.max_parallelism == self.new.max_parallelism:
            yield page, page.key_groups
            return
        part = composed_part(self.source, name, self.old.max_parallelism)
        serializer = part.entry.key
        assert serializer is not None
        if part.entry.is_raw("key"):
            raise RefusedEditError(
                f"{name.name}: expected keys whose hash codes in Java are known, found {serializer.type_name}"
            )
        read_keys = part.source.key_reader(name)
        assert read_keys is not None
        for some, keys in read_keys(page):
            known = key_groups_of(serializer, keys, self.old.max_parallelism)
            wrong = np.flatnonzero(known != some.key_groups)
            if len(wrong):
                row = int(wrong[0])
                raise RefusedEditError(
                    f"{name.name}: expected the key {shown(keys[row])} in key group {known[row]}, which its hash code in Java "
                    f"says, found it in {some.key_groups[row]}: its hash code is not that of {serializer.type_name}"
                )
            yield some, key_groups_of(serializer, keys, self.new.max_parallelism)

    def _divided(self, page: Page, state: int) -> Iterator[tuple[int, bytes]]:
        """Yield the number of each file that gets some of the entries, with a block of them."""
        numbers = np.searchsorted(self.first_groups, page.key_groups, side="right") - 1
        order = np.argsort(numbers, kind="stable")
        entries = EntrySegments.of_page(page)
        widths = _width(self.old.max_parallelism), _width(self.new.max_parallelism)
        bounds = np.flatnonzero(np.diff(numbers[order])) + 1
        for rows in np.split(order, bounds):
            if len(rows):
                groups = np.ascontiguousarray(page.key_groups[rows])
                yield int(numbers[rows[0]]), _block(entries.take(rows), groups, state, *widths)

    def do(self, target: JoinedTarget) -> Dealt:
        name, count = str(uuid.uuid4()), len(self.first_groups)
        bounds: NDArray[np.int64] = np.zeros(count + 1, dtype=np.int64)
        with TemporaryFolder() as folder, target.create(name) as file:
            for number, path in enumerate(_spool(Path(folder.path), count, [self])):
                with path.open("rb") as spooled:
                    while chunk := spooled.read(_CHUNK_BYTES):
                        file.write(chunk)
                bounds[number + 1] = bounds[number] + path.stat().st_size
        return Dealt(name=name, bounds=bounds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dealt:
    """The entries of one old subtask, in a file of the target.

    Attributes:
        name: of the file.
        bounds: where what belongs to each file of the spool begins, and the end.
    """

    name: str
    bounds: NDArray[np.int64]

    def part(self, number: int) -> TargetPart:
        """Return what belongs to a file of the spool."""
        start, end = self.bounds[number : number + 2].tolist()
        return TargetPart(name=self.name, start=start, size_bytes=end - start)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReshardedMaker(KeyedStateMaker):
    """Makes the keyed state of one new subtask.

    Attributes:
        resharding: of its operator; the makers of all subtasks share it.
        groups: those of the subtask.
    """

    resharding: Resharding
    groups: KeyGroupRange

    @property
    def size_bytes(self) -> int:
        return (
            self.resharding.size_bytes * self.groups.number_of_key_groups // self.resharding.max_parallelism
        )

    @property
    def preparations(self) -> Sequence[Work]:
        return self.resharding.dealers

    def prepared(self, results: Sequence[Any]) -> DealtMaker:
        return self._dealt(self.resharding.dealt(self.groups, results))

    def make(self, create: Create) -> KeyedStateHandle:
        return self._dealt(()).written(create, self.resharding.spooled(self.groups))

    def _dealt(self, parts: tuple[tuple[TargetPart, ...], ...]) -> DealtMaker:
        whole = self.resharding
        return DealtMaker(whole.header, whole.compressed, self.groups, parts, is_masked=whole.is_masked)


@dataclass(frozen=True, slots=True, eq=False)
class DealtMaker(KeyedStateMaker):
    """Makes the keyed state of one new subtask from entries that were dealt out.

    Attributes:
        header: of its file.
        compressed: whether key groups are.
        groups: the key groups of the subtask.
        parts: of each file of the spool, its parts in the order of the old subtasks.
        is_masked: whether two keys may have become one.
    """

    header: bytes
    compressed: bool
    groups: KeyGroupRange
    parts: tuple[tuple[TargetPart, ...], ...]
    is_masked: bool

    def make(self, create: Create) -> KeyedStateHandle:
        return self.written(create, map(_joined, self.parts))

    def written(self, create: Create, spooled: Iterable[NDArray[np.uint8]]) -> KeyedStateHandle:
        """Write the file of the subtask from the files of the spool that have its key groups; return its handle."""

        def write(file: StateFile) -> Offsets:
            file.write(self.header)
            assembler = KeyGroupAssembler(file, compressed=self.compressed)
            offsets: Offsets = np.zeros(self.groups.number_of_key_groups, dtype=np.int64)
            for data in spooled:
                for group, states in _groups(data) if len(data) else ():
                    assembler.begin()
                    for state, entries in states:
                        if self.is_masked and NewKeys(entries).repeated() is not None:
                            raise RefusedEditError(
                                f"expected masks that keep keys apart, found two entries of key group {group} that would become one"
                            )
                        assembler.state(state)
                        assembler.add(entries)
                    offsets[group - self.groups.start] = assembler.end()
            return offsets

        return made_file(create, self.groups, write)


def _joined(parts: Iterable[TargetPart]) -> NDArray[np.uint8]:
    """Return the bytes of parts, one after the other."""
    return np.concatenate([np.frombuffer(part.read(), dtype=np.uint8) for part in parts])


def _spool(folder: Path, count: int, dealers: Iterable[Dealer]) -> list[Path]:
    """Write the files of the spool into a folder."""
    paths = [folder / str(number) for number in range(count)]
    with ExitStack() as closing:
        files = [closing.enter_context(path.open("wb")) for path in paths]
        for dealer in dealers:
            for number, block in dealer.blocks():
                files[number].write(block)
    return paths


def _width(max_parallelism: int) -> int:
    return 1 if max_parallelism <= _MOST_ONE_BYTE_GROUPS else 2


def _block(
    entries: EntrySegments, groups: NDArray[np.int32], state: int, old_width: int, new_width: int
) -> bytes:
    """Return entries as the spool has them: their number and the size of their bytes, four numbers each, the bytes."""
    facts: NDArray[np.int64] = np.empty((len(entries), _FIELDS), dtype=np.int64)
    facts[:, 0], facts[:, 1] = groups, state
    facts[:, 2] = entries.table[:, KEY_BYTES] + (new_width - old_width)
    facts[:, 3] = entries.table[:, VALUE_BYTES]
    size = int(facts[:, 2:].sum())
    output: NDArray[np.uint8] = np.empty(size, dtype=np.uint8)
    _gather(np.ascontiguousarray(entries.table), groups, len(entries), old_width, new_width, output)
    head = np.array([len(entries), size], dtype=np.int64)
    return b"".join((head.tobytes(), facts.tobytes(), output.tobytes()))


def _groups(data: NDArray[np.uint8]) -> Iterator[tuple[int, Iterator[tuple[int, EntrySegments]]]]:
    """Yield each key group of a file of the spool with the entries of its states, in the order in which they came."""
    base = int(data.__array_interface__["data"][0])
    facts, tables, position = [], [], 0
    while position < len(data):
        count, size = data[position : position + 2 * _WORD_BYTES].view(np.int64).tolist()
        position += 2 * _WORD_BYTES
        behind = position + count * _FIELDS * _WORD_BYTES
        found = data[position:behind].view(np.int64).reshape(-1, _FIELDS)
        ends = np.cumsum(found[:, 2:]).reshape(-1, 2) + (base + behind)
        table: NDArray[np.int64] = np.empty((count, _FIELDS), dtype=np.int64)
        table[:, KEY_ADDRESS], table[:, VALUE_ADDRESS] = ends[:, 0] - found[:, 2], ends[:, 0]
        table[:, KEY_BYTES], table[:, VALUE_BYTES] = found[:, 2], found[:, 3]
        facts.append(found[:, :2])
        tables.append(table)
        position = behind + size
    places = np.concatenate(facts)
    order = np.lexsort((places[:, 1], places[:, 0]))
    places, entries = places[order], EntrySegments(np.concatenate(tables)[order], (data,))
    for rows in np.split(np.arange(len(places)), np.flatnonzero(np.diff(places[:, 0])) + 1):
        yield int(places[rows[0], 0]), _states(places[rows, 1], entries, rows)


def _states(
    states: NDArray[np.int64], entries: EntrySegments, rows: NDArray[np.int64]
) -> Iterator[tuple[int, EntrySegments]]:
    for some in np.split(np.arange(len(rows)), np.flatnonzero(np.diff(states)) + 1):
        yield int(states[some[0]]), entries.take(rows[some])
