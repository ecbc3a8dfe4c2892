"""Raw keyed state: the timers of the timer service, or bytes of an operator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import pyarrow as pa

from readers.decode.page import Page
from readers.decode.program import Program
from readers.errors import UnsupportedSerializerError
from readers.formats.beginning import regions_of
from readers.formats.entry import Entry, EntryLayout, StateKind
from readers.formats.keybounds import KeyBounds
from readers.formats.opaque import BytesSource
from readers.formats.opener import Opener, OpeningContext
from readers.formats.rawtimers import layout as rawtimers
from readers.formats.source import Selection, Source, StateName, StateSize
from readers.metadata import KeyGroupRange, KeyGroupsStateHandle
from readers.storage.location import Stream

EVENT_TIMERS = "_timer_state/event_"
PROCESSING_TIMERS = "_timer_state/processing_"
ABSENT = -1  # the offset of a key group without raw state


@dataclass(frozen=True, kw_only=True, eq=False)
class RawTimerSource(Source):
    """Raw keyed state that the timer service wrote.

    Attributes:
        handle: names the key groups and their offsets.
        stream: the stream of the handle.
    """

    handle: KeyGroupsStateHandle
    stream: Stream

    backend = "hashmap"

    @classmethod
    def open(cls, subtask: int, handle: KeyGroupsStateHandle, stream: Stream) -> Self:
        """Read the types of all timers: every key group records those of its own.

        Raises:
            UnsupportedSerializerError: the end of a timer is not known.
            ReaderError: the stream contradicts its format.
        """
        entries: dict[StateName, Entry] = {}
        regions = list(regions_of(handle, stream, absent=ABSENT))
        spans = stream.spans([region[1:] for region in regions])
        for (_, start, end), data in zip(regions, spans, strict=True):
            for timers in rawtimers.read_raw_timers(data, start, end, stream.path):
                entries.setdefault(_timer_state(timers), timers.entry)
        return cls(
            subtask=subtask,
            path=stream.path,
            size_bytes=handle.size_bytes,
            entries=entries,
            handle=handle,
            stream=stream,
        )

    @property
    def key_group_range(self) -> KeyGroupRange:
        return self.handle.key_group_range

    def columns(self, entry: Entry) -> dict[str, pa.DataType]:
        return rawtimers.raw_timer_columns(entry)

    def emit(self, program: Program, layout: EntryLayout, entry: Entry) -> None:
        rawtimers.emit_raw_timer(program, layout, entry)

    def pages(self, state: StateName, selection: Selection) -> Iterator[Page]:
        regions = regions_of(self.handle, self.stream, absent=ABSENT)
        wanted = [region for region in regions if selection.wants(region[0])]
        spans = self.stream.spans([region[1:] for region in wanted])
        for (key_group, start, end), data in zip(wanted, spans, strict=True):
            selection.account(end - start)
            for timers in rawtimers.read_raw_timers(data, start, end, self.path):
                if _timer_state(timers) == state and len(timers.starts):
                    yield Page.of(data, (timers.starts, timers.ends), key_group, self.subtask, self.path)

    def own_size(self, state: StateName, share: float) -> StateSize:
        if self.stream.is_remote:
            return super().own_size(state, share)
        return StateSize(sum(tally.size_bytes or 0 for tally in self.tallies([state], Selection())))

    def key_bounds(self, state: StateName) -> KeyBounds | None:
        return rawtimers.raw_key_bounds(self.entries[state])


class RawKeyedOpener(Opener[KeyGroupsStateHandle]):
    """Opens raw keyed state: timers if the timer service wrote it, else bytes."""

    family = StateKind.RAW_KEYED
    sources = (RawTimerSource, BytesSource)

    def open(self, handle: KeyGroupsStateHandle, context: OpeningContext) -> Source:
        stream = context.location.open_stream(handle.delegate)
        regions = list(regions_of(handle, stream, absent=ABSENT))
        reason = "written by the operator itself"
        spans = stream.spans([region[1:] for region in regions])
        if all(
            rawtimers.is_raw_timers(data, start) for (_, start, _), data in zip(regions, spans, strict=True)
        ):
            try:
                source = RawTimerSource.open(context.subtask, handle, stream)
            except UnsupportedSerializerError as error:
                reason = f"timers: {error.message}"
            else:
                # Bytes of an operator may begin like timers; without any timer service, every key group has exactly such bytes.
                if source.entries or all(_is_without_timers(stream, *region[1:]) for region in regions):
                    return source
        ranges = [(stream, start, end, key_group) for key_group, start, end in regions]
        return BytesSource.open(context.subtask, "raw keyed state", self.family, ranges, reason)


def _is_without_timers(stream: Stream, start: int, end: int) -> bool:
    return rawtimers.is_no_timers(stream.span(start, end), start, end)


def _timer_state(timers: rawtimers.RawTimers) -> StateName:
    prefix = EVENT_TIMERS if timers.domain == "EVENT" else PROCESSING_TIMERS
    return StateName(name=prefix + timers.service, timers=True)
