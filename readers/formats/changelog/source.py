"""Keyed state as it was when it was last materialized, with the changes since.

A log does not describe its keys: their serializer is recorded in the header of the base, or with the timers. Without both, the
key groups give evidence: a key belongs to the key group that its hash selects. If there are too few keys to be certain,
the changes that set values still show how long keys are, because such a change ends where its value ends.

Flink: KeyGroupRangeAssignment
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import pyarrow as pa

from readers.cursor import Cursor
from readers.decode.decoder import Page, walker
from readers.decode.program import Program
from readers.errors import ReaderError, UnsupportedStateError
from readers.formats.changelog import log as changelog
from readers.formats.changelog import replay
from readers.formats.changelog.log import SCOPE, Bounds, Changelog, ChangeSet
from readers.formats.composite import FilesSource
from readers.formats.entry import Entry, EntryLayout, StateKind, keyed_entry
from readers.formats.opener import Opener, OpeningContext, opener_of
from readers.formats.source import EntryChange, Selection, Source, StateName
from readers.headers import StoredHeader, read_known_keyed_header
from readers.keygroups import key_group_of
from readers.metadata import ChangelogStateBackendHandle, KeyedStateHandle, StateRole, StreamStateHandle
from readers.metainfo import BackendStateType, StateMetaInfo
from readers.serializers.base import Problem, Serializer
from readers.serializers.primitives import (
    ByteSerializer,
    IntSerializer,
    LongSerializer,
    ShortSerializer,
    StringSerializer,
    VoidNamespaceSerializer,
)
from readers.storage.location import Ranges, SavepointLocation

_CERTAIN_BITS = 40  # a wrong type passes by chance once in 2^40 times
_MAX_KEY_BYTES = 64  # each length is tried
_SET_AT_ONCE = (StateKind.VALUE, StateKind.REDUCING, StateKind.AGGREGATING)


def deduced_key(
    samples: list[tuple[ChangeSet, Bounds]], max_parallelism: int, stated: Serializer | None = None
) -> Serializer | None:
    """Return the type of the keys: `stated` if no key contradicts it, else the basic type that certainly fits, else None.

    A key that is read as a wrong type is in the right key group once in `max_parallelism` times, and most wrong keys are
    equal. So a type that fits enough different keys is right.
    """
    if stated is not None and _evidence_bits(stated, samples, max_parallelism) is not None:
        return stated
    for serializer in KEY_TYPES:
        evidence = _evidence_bits(serializer, samples, max_parallelism)
        if evidence is not None and evidence >= _CERTAIN_BITS:
            return serializer
    return None


def sized_key(logs: Iterable[Changelog]) -> Serializer | None:
    """Return a serializer of keys as bytes, if exactly one length of key fits all changes that set a value; else None.

    Args:
        logs: the logs of all subtasks, which must agree.
    """
    lengths = set(range(1, _MAX_KEY_BYTES + 1))
    checked = False
    for announcement, changes, indexes in (setting for log in logs for setting in log.settings()):
        entry = keyed_entry(announcement.state, VoidNamespaceSerializer())
        is_raw = entry.is_raw("namespace") or entry.is_raw("value")
        if entry.kind in _SET_AT_ONCE and not announcement.problem and not is_raw:
            # Behind a key of the right length, namespace and value end exactly where the change ends.
            lengths = {length for length in lengths if _fits(length, entry, changes, indexes)}
            checked = True
    return SizedKeySerializer(lengths.pop()) if checked and len(lengths) == 1 else None


def _fits(length: int, entry: Entry, changes: ChangeSet, indexes: Bounds) -> bool:
    starts, ends = changes.starts[indexes] + SCOPE + length, changes.ends[indexes]
    if (starts >= ends).any():
        return False

    def emit(program: Program) -> None:
        entry.part("namespace").emit(program)
        entry.part("value").emit(program)

    try:
        found = walker(emit).measure_each(changes.data, starts, ends, changes.path)
    except ReaderError:
        return False
    return bool((found == ends).all())


def _evidence_bits(
    serializer: Serializer, samples: list[tuple[ChangeSet, Bounds]], max_parallelism: int
) -> float | None:
    """Return how improbable it is that all keys are in their key groups by chance, as -log2; None if one is not."""
    layout = EntryLayout({"key": serializer.arrow()})

    def emit(program: Program, columns: EntryLayout) -> None:
        program.skip(SCOPE)
        with columns.column(program, "key"):
            serializer.emit(program)

    decoder = layout.decoder(emit)
    seen = set()
    for changes, indexes in samples:
        starts, ends = (bounds[indexes].reshape(-1, 1) for bounds in (changes.starts, changes.ends))
        page = Page.of(changes.data, (starts, ends), changes.key_groups[indexes], 0, changes.path)
        try:
            for batch in decoder.decode(page):
                (keys,) = batch.arrays
                for key, key_group in zip(keys.to_pylist(), batch.page.key_groups.tolist(), strict=True):
                    # Equal keys prove as little as one: only different hashes count as evidence.
                    code = None if key is None else serializer.hash_code(key)
                    if code is None:
                        continue
                    if key_group_of(code, max_parallelism) != key_group:
                        return None
                    seen.add(code)
        except ReaderError:
            return None
    return len(seen) * math.log2(max_parallelism)


class DeducedLongSerializer(LongSerializer):
    """A key that fits a Long; a Double or a Date with the same bytes has the same hash."""

    def problems(self) -> Iterator[Problem]:
        yield _deduced("8 bytes that hash as a Long, which a Double or a Date does too")


class DeducedIntSerializer(IntSerializer):
    """A key that fits an Integer; a Float with the same bytes has the same hash."""

    def problems(self) -> Iterator[Problem]:
        yield _deduced("4 bytes that hash as an Integer, which a Float does too")


class DeducedShortSerializer(ShortSerializer):
    """A key that fits a Short; a Character with the same bytes has the same hash."""

    def problems(self) -> Iterator[Problem]:
        yield _deduced("2 bytes that hash as a Short, which a Character does too")


@dataclass(frozen=True)
class SizedKeySerializer(Serializer):
    """A key whose length is all that is known: shows its bytes."""

    length: int

    java_class = "?"

    @property
    def fixed_length(self) -> int:  # type: ignore[override]  # derived here
        return self.length

    name = "{self.length} bytes"

    def arrow(self) -> pa.DataType:
        return pa.binary()

    def emit(self, program: Program) -> None:
        program.raw_bytes(self.length)

    def problems(self) -> Iterator[Problem]:
        reason = (
            "a changelog without a base does not record how keys are serialized, the operator has no timers, and the "
            f"keys are too few to be certain: {self.length} bytes each"
        )
        yield Problem(path=(), reason=reason, sized=True)


def _deduced(found: str) -> Problem:
    reason = f"a changelog without a base does not record how keys are serialized; these have {found}"
    return Problem(path=(), reason=reason, sized=True)


KEY_TYPES: tuple[Serializer, ...] = (
    StringSerializer(),
    DeducedLongSerializer(),
    DeducedIntSerializer(),
    DeducedShortSerializer(),
    ByteSerializer(),
)


_COUNT_BYTES = 2  # of the number of states in a header


@dataclass(frozen=True, kw_only=True, eq=False)
class ChangelogSource(FilesSource):
    """A materialized base and the changes since. Entries that no change touches are the base's; the others are replayed.

    Attributes:
        bases: the sources of the materialized handles.
        log: the changes.
        described: the entries as base and log describe them. `entries` has raw bytes in place of those that cannot be
            replayed.
    """

    handle: ChangelogStateBackendHandle
    bases: tuple[Source, ...]
    log: changelog.Changelog
    described: Mapping[StateName, Entry]

    backend = "changelog"

    @property
    def layouts(self) -> frozenset[str]:
        return frozenset({self.backend}).union(*(base.layouts for base in self.bases))

    def refine(self, change: EntryChange) -> Self:
        """Return a source with refined base and log: whether changes can be replayed depends on the refined types."""
        described = {name: change(name, entry) for name, entry in self.described.items()}
        return replace(
            self,
            bases=tuple(base.refine(change) for base in self.bases),
            described=described,
            entries=_replayable(described, self.log),
        )

    def pages(self, state: StateName, selection: Selection) -> Iterator[Page]:
        entry = self.entries[state]
        groups = range(self.key_group_range.start, self.key_group_range.end + 1)
        # After a rescaling a base and a log may hold key groups of other subtasks, which read them from their own handles.
        wanted = frozenset(filter(selection.wants, groups))
        ranges = self.log.ranges(state.name, state.timers, wanted)
        selection.account(sum(changes.size_bytes for group in ranges.values() for changes in group))
        replayed = replay.EntryPages(self.subtask, self.path)
        entries = replay.replayer(entry, self.max_parallelism)
        for base in self.bases:
            if state in base.entries:
                pages = base.pages(state, replace(selection, key_groups=wanted))
                yield from replay.rebase(pages, ranges, entries, replayed)
        # `rebase` has taken the key groups of the base out of `ranges`; these have changes and no base.
        for key_group in sorted(ranges):
            yield from replayed.add(key_group, entries(key_group, [], ranges[key_group]))
        yield from replayed.rest()

    def stored_header(self) -> StoredHeader:
        """Return the header of the base, with the states that only the log has.

        Raises:
            UnsupportedStateError: there is no base, or base and log differ in the types of a state.
            ReaderError: the header is damaged.
        """
        base = self.bases[0].stored_header() if len(self.bases) == 1 else None
        if base is None:
            raise UnsupportedStateError(
                f"expected a changelog with one materialized base, found {len(self.bases)}: nothing else records how keys are "
                "serialized",
                path=self.path,
            )
        data, header = base.data, base.header
        known = {
            (state.name, state.kind is BackendStateType.PRIORITY_QUEUE): state for state in header.states
        }
        added = []
        for name, announcement in self.log.states.items():
            if name not in known:
                added.append(announcement.data)
            elif _blocks(known[name], data) != _blocks(
                announcement.state, announcement.data, announcement.start
            ):
                raise UnsupportedStateError(
                    f"expected state {name[0]} with the types of the base in the changelog, found others",
                    path=self.path,
                )
        if not added:
            return base
        count = header.key_block[1]
        states = (len(header.states) + len(added)).to_bytes(_COUNT_BYTES, "big")
        data = b"".join((data[:count], states, data[count + _COUNT_BYTES : header.end], *added))
        return StoredHeader(data=data, header=read_known_keyed_header(Cursor(data, path=self.path)))

    @property
    def is_near(self) -> bool:
        return all(base.is_near for base in self.bases)

    def damage(self) -> ReaderError | None:
        return next((error for base in self.bases if (error := base.damage())), None)

    def close(self) -> None:
        for base in self.bases:
            base.close()


class ChangelogOpener(Opener[ChangelogStateBackendHandle]):
    """Opens a base, which may be of any snapshot format, and its changes."""

    family = StateKind.VALUE
    sources = (ChangelogSource,)

    def open(self, handle: ChangelogStateBackendHandle, context: OpeningContext) -> Source:
        bases = self._bases(handle, context)
        log = _log(handle, context.location)
        described: dict[StateName, Entry] = {}
        for base in bases:
            for name, entry in base.entries.items():
                described.setdefault(name, entry)
        key = self._key_serializer(handle, bases, log, context)
        for (state, timers), announcement in log.states.items():
            name = StateName(name=state, timers=timers)
            described.setdefault(name, replay.announced_entry(announcement, key))
        paths = [stream.path for stream in handle.streams() if stream.path]
        return ChangelogSource(
            subtask=context.subtask,
            path=paths[-1] if paths else "_metadata",
            size_bytes=handle.size_bytes,
            entries=_replayable(described, log),
            max_parallelism=context.max_parallelism,
            handle=handle,
            bases=bases,
            log=log,
            described=described,
        )

    def first_ranges(
        self, handle: ChangelogStateBackendHandle, *, first: bool, few: bool
    ) -> Iterator[tuple[StreamStateHandle, Ranges]]:
        for base in handle.materialized:
            yield from opener_of(StateRole.MANAGED_KEYED, base).first_ranges(base, first=first, few=few)

    def _bases(self, handle: ChangelogStateBackendHandle, context: OpeningContext) -> tuple[Source, ...]:
        return tuple(self._opener_of_base(base).open(base, context) for base in handle.materialized)

    def _opener_of_base(self, handle: KeyedStateHandle) -> Opener[Any]:
        # Flink never nests changelogs; made-up metadata could, to any depth.
        if isinstance(handle, ChangelogStateBackendHandle):
            raise UnsupportedStateError(f"expected a snapshot as base, found {type(handle).__name__}")
        return opener_of(StateRole.MANAGED_KEYED, handle)

    def _key_serializer(
        self,
        handle: ChangelogStateBackendHandle,
        bases: tuple[Source, ...],
        log: changelog.Changelog,
        context: OpeningContext,
    ) -> Serializer | None:
        """Return the serializer of the keys, read or deduced from this handle or from as few siblings as it takes."""
        samples = log.sample()
        logs = [log]
        key = _recorded_key(bases, log) or deduced_key(samples, context.max_parallelism, context.stated_key)
        if key is not None:
            return key
        for sibling in context.siblings:
            if sibling is handle or not isinstance(sibling, ChangelogStateBackendHandle):
                continue
            log = _log(sibling, context.location)
            samples += log.sample()
            logs.append(log)
            key = _recorded_key(self._bases(sibling, context), log) or deduced_key(
                samples, context.max_parallelism, context.stated_key
            )
            if key is not None:
                return key
        return sized_key(logs)


def _blocks(state: StateMetaInfo, data: bytes, start: int = 0) -> dict[str, bytes]:
    """Return the serializers of a state as bytes that begin at `start`."""
    return {key: data[first - start : end - start] for key, (first, end) in state.blocks.items()}


def _log(handle: ChangelogStateBackendHandle, location: SavepointLocation) -> changelog.Changelog:
    return changelog.Changelog(changelog.read_changes(handle.non_materialized, location))


def _recorded_key(bases: tuple[Source, ...], log: changelog.Changelog) -> Serializer | None:
    """Return the key serializer of the base, or of timers in the log; None where there are neither."""
    for base in bases:
        # All states of an operator have the same keys: one base is enough.
        return base.key_serializer
    for state in log.states.values():
        timer = changelog.announced_key(state.state)
        if timer is not None:
            return timer.key
    return None


def _replayable(described: Mapping[StateName, Entry], log: changelog.Changelog) -> Mapping[StateName, Entry]:
    """Return the entries with raw bytes in place of those whose changes cannot be assigned to a key."""
    return {
        name: entry
        if replay.is_replayable(entry) or not log.has(name.name, name.timers)
        else replay.raw_entry(entry)
        for name, entry in described.items()
    }
