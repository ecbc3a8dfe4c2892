"""What was in flight."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import pyarrow as pa

from readers.decode.page import Page
from readers.decode.program import Program
from readers.formats.channelstate import layout as channelstate
from readers.formats.entry import Entry, EntryLayout
from readers.formats.source import Selection, Source, StateName


class ChannelSource(Source):
    """What was in flight to and from a subtask: a state a gate or partition."""

    def __init__(self, subtask: int, operator_id: str, in_flight: channelstate.InFlightRecords) -> None:
        self._channels = in_flight.channels(operator_id, subtask)
        path = self._channels[0].path if self._channels else ""
        super().__init__(subtask, path, sum(channel.size_bytes for channel in self._channels))
        self._operator_id = operator_id
        self._in_flight = in_flight

    @cached_property
    def entries(self) -> dict[StateName, Entry]:
        return {
            StateName(name=gate.name): self._in_flight.entry(self._operator_id, gate)
            for gate in channelstate.gates(self._channels)
        }

    def columns(self, entry: Entry) -> dict[str, pa.DataType]:
        return channelstate.channel_columns(entry)

    def emit(self, program: Program, layout: EntryLayout, entry: Entry) -> None:
        channelstate.emit_channel(program, layout, entry)

    def pages(self, state: StateName, selection: Selection) -> Iterator[Page]:
        for channel in self._of(state):
            selection.account(channel.size_bytes)
            page = channel.page()
            if len(page):
                yield page

    def cost_bytes(self, state: StateName) -> int:
        return sum(channel.size_bytes for channel in self._of(state))

    def _of(self, state: StateName) -> list[channelstate.Channel]:
        return [channel for channel in self._channels if channel.gate.name == state.name]
