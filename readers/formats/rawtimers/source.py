"""Raw keyed state: timers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from readers.decode.page import Page
from readers.decode.program import Program
from readers.formats.beginning import regions_of
from readers.formats.entry import Entry, EntryLayout
from readers.formats.rawtimers import layout as rawtimers
from readers.formats.source import Selection, Source, StateName
from readers.metadata import KeyGroupRange, KeyGroupsStateHandle
from readers.storage.location import Stream

EVENT_TIMERS = "_timer_state/event_"
PROCESSING_TIMERS = "_timer_state/processing_"


class RawTimerSource(Source):
    """Raw keyed state that the timer service wrote."""

    backend = "hashmap"

    def __init__(self, subtask: int, handle: KeyGroupsStateHandle, stream: Stream) -> None:
        super().__init__(subtask, stream.path, handle.size_bytes)
        self.handle = handle
        self.stream = stream

    @property
    def key_group_range(self) -> KeyGroupRange:
        return self.handle.key_group_range

    @cached_property
    def entries(self) -> dict[StateName, Entry]:
        found: dict[StateName, Entry] = {}
        regions = list(self._regions())
        for (_, start, end), data in zip(regions, self._spans(regions), strict=True):
            for timers in rawtimers.read_raw_timers(data, start, end, self.path):
                found.setdefault(_timer_state(timers), timers.entry)
        return found

    def columns(self, entry: Entry) -> dict[str, pa.DataType]:
        return rawtimers.raw_timer_columns(entry)

    def emit(self, program: Program, layout: EntryLayout, entry: Entry) -> None:
        rawtimers.emit_raw_timer(program, layout, entry)

    def pages(self, state: StateName, selection: Selection) -> Iterator[Page]:
        regions = [region for region in self._regions() if selection.wants(region[0])]
        for (key_group, start, end), data in zip(regions, self._spans(regions), strict=True):
            selection.account(end - start)
            for timers in rawtimers.read_raw_timers(data, start, end, self.path):
                if _timer_state(timers) == state and len(timers.starts):
                    yield Page(
                        data=data,
                        starts=timers.starts,
                        ends=timers.ends,
                        key_groups=np.full(len(timers.starts), key_group, dtype=np.int32),
                        subtask=self.subtask,
                        path=self.path,
                    )

    def _regions(self) -> Iterator[tuple[int, int, int]]:
        return regions_of(self.handle, self.stream, absent=-1)

    def _spans(self, regions: list[tuple[int, int, int]]) -> Iterator[NDArray[np.uint8]]:
        return self.stream.spans([region[1:] for region in regions])


def _timer_state(timers: rawtimers.RawTimers) -> StateName:
    prefix = EVENT_TIMERS if timers.domain == "EVENT" else PROCESSING_TIMERS
    return StateName(name=prefix + timers.service, timers=True)
