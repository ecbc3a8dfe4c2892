"""Keyed state as it was when it was last materialized, with the changes since."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from readers.cursor import Cursor
from readers.decode.page import Page
from readers.errors import ReaderError, UnsupportedStateError
from readers.formats.changelog import keys as deducedkeys
from readers.formats.changelog import log as changelog
from readers.formats.changelog import replay
from readers.formats.composite.source import FilesSource
from readers.formats.entry import Entry, StateKind
from readers.formats.opener import Opener, OpeningContext
from readers.formats.source import EntryChange, Selection, Source, StateName
from readers.headers.keyed import StoredHeader, read_known_keyed_header
from readers.headers.metainfo import BackendStateType, StateMetaInfo
from readers.metadata import ChangelogStateBackendHandle, KeyedStateHandle, StreamStateHandle
from readers.serializers.base import Serializer
from readers.storage.location import Ranges, SavepointLocation

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
    """Opens a base and its changes.

    Args:
        opener_of: returns the opener of the handle of a base, which may be of any snapshot format.
    """

    family = StateKind.VALUE
    sources = (ChangelogSource,)

    def __init__(self, opener_of: Callable[[KeyedStateHandle], Opener[Any]]) -> None:
        self._opener_of = opener_of

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
            yield from self._opener_of(base).first_ranges(base, first=first, few=few)

    def _bases(self, handle: ChangelogStateBackendHandle, context: OpeningContext) -> tuple[Source, ...]:
        return tuple(self._opener_of_base(base).open(base, context) for base in handle.materialized)

    def _opener_of_base(self, handle: KeyedStateHandle) -> Opener[Any]:
        # Flink never nests changelogs; made-up metadata could, to any depth.
        if isinstance(handle, ChangelogStateBackendHandle):
            raise UnsupportedStateError(f"expected a snapshot as base, found {type(handle).__name__}")
        return self._opener_of(handle)

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
        key = _recorded_key(bases, log) or deducedkeys.deduced_key(
            samples, context.max_parallelism, context.stated_key
        )
        if key is not None:
            return key
        for sibling in context.siblings:
            if sibling is handle or not isinstance(sibling, ChangelogStateBackendHandle):
                continue
            log = _log(sibling, context.location)
            samples += log.sample()
            logs.append(log)
            key = _recorded_key(self._bases(sibling, context), log) or deducedkeys.deduced_key(
                samples, context.max_parallelism, context.stated_key
            )
            if key is not None:
                return key
        return deducedkeys.sized_key(logs)


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
