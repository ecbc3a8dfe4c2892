"""What a state was when it was last materialised, and the changes since."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property

from readers.decode.page import Page
from readers.formats.changelog import keys as deducedkeys
from readers.formats.changelog import log as changelog
from readers.formats.changelog import replay
from readers.formats.composite.source import FilesSource
from readers.formats.entry import Entry
from readers.formats.keyed import snapshot_source
from readers.formats.source import Selection, Source, StateName
from readers.metadata import ChangelogStateBackendHandle, KeyedStateHandle
from readers.serializers.base import Serializer
from readers.storage.location import SavepointLocation


class ChangelogSource(FilesSource):
    """A materialised base and the changes since; what a change touches is replayed, all else is the base's.

    Args:
        siblings: the handles of the operator's other subtasks, which may tell the key's serializer if this one does not.
        stated_key: what `stateInfo` says, for where no handle does.
    """

    backend = "changelog"

    handle: ChangelogStateBackendHandle

    def __init__(
        self,
        subtask: int,
        handle: ChangelogStateBackendHandle,
        storage: SavepointLocation,
        max_parallelism: int,
        siblings: tuple[KeyedStateHandle, ...] = (),
        stated_key: Serializer | None = None,
    ) -> None:
        streams = [stream.path for stream in handle.streams() if stream.path]
        super().__init__(subtask, streams[-1] if streams else "_metadata", handle, max_parallelism)
        self.storage = storage
        self._siblings = siblings
        self._stated_key = stated_key
        self._changes: list[Callable[[Serializer], Serializer]] = []

    def refine(self, change: Callable[[Serializer], Serializer]) -> None:
        """Also the base, and what the log announces: whether changes can be replayed depends on it."""
        for base in self._bases:
            base.refine(change)
        self._changes.append(change)
        if "entries" in self.__dict__:
            super().refine(change)

    @cached_property
    def key_serializer(self) -> Serializer | None:
        """Of the base, or of the timers in the log; None where there are neither."""
        for base in self._bases:
            return base.key_serializer
        for state in self._log.states.values():
            timer = changelog.announced_key(state.state)
            if timer is not None:
                return timer.key
        return None

    @cached_property
    def entries(self) -> dict[StateName, Entry]:
        found: dict[StateName, Entry] = {}
        for base in self._bases:
            for name, entry in base.entries.items():
                found.setdefault(name, entry)
        key = self._found_key()
        for (state, timers), announcement in self._log.states.items():
            announced = replay.announced_entry(announcement, key)
            for change in self._changes:
                announced = announced.refined(change)
            found.setdefault(StateName(name=state, timers=timers), announced)
        return {
            name: entry
            if replay.is_replayable(entry) or not self._log.has(name.name, name.timers)
            else replay.raw_entry(entry)
            for name, entry in found.items()
        }

    def pages(self, state: StateName, selection: Selection) -> Iterator[Page]:
        entry = self.entries[state]
        groups = range(self.key_group_range.start, self.key_group_range.end + 1)
        wanted = frozenset(filter(selection.wants, groups))
        ranges = self._log.ranges(state.name, state.timers, wanted)
        selection.account(sum(changed.size_bytes for parts in ranges.values() for changed in parts))
        replayed = replay.EntryPages(self.subtask, self.path)
        entries = replay.replayer(entry, self.max_parallelism)
        for base in self._bases:
            if state in base.entries:
                pages = base.pages(state, replace(selection, key_groups=wanted))
                yield from replay.rebase(pages, ranges, entries, replayed)
        for key_group in sorted(ranges):
            yield from replayed.add(key_group, entries(key_group, [], ranges[key_group]))
        yield from replayed.rest()

    @cached_property
    def _bases(self) -> tuple[Source, ...]:
        return tuple(
            snapshot_source(self.subtask, base, self.storage, self.max_parallelism)
            for base in self.handle.materialized
        )

    @cached_property
    def _log(self) -> changelog.Changelog:
        return changelog.Changelog(changelog.read_changes(self.handle.non_materialized, self.storage))

    def _found_key(self) -> Serializer | None:
        """From this handle or else one of the siblings, as few of them as it takes."""
        others = (handle for handle in self._siblings if handle is not self.handle)
        samples, logs = [], []
        for handle in (self.handle, *others):
            source = self
            if isinstance(handle, ChangelogStateBackendHandle) and handle is not self.handle:
                source = ChangelogSource(self.subtask, handle, self.storage, self.max_parallelism)
            samples += source._log.sample()
            logs.append(source._log)
            key = source.key_serializer or deducedkeys.deduced_key(
                samples, self.max_parallelism, self._stated_key
            )
            if key is not None:
                return key
        return deducedkeys.sized_key(logs)

    def close(self) -> None:
        for base in self.__dict__.get("_bases", ()):
            base.close()
