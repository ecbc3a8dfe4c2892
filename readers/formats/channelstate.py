"""Channel state: the records that were in flight to and from a subtask, one state per gate or partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from readers.decode.decoder import Page
from readers.decode.program import Program
from readers.formats.entry import Entry, EntryLayout, StateKind
from readers.formats.inflight import Channel
from readers.formats.opener import Opener, OpeningContext
from readers.formats.source import Selection, Source, StateName, StateSize, Tally
from readers.metadata import SubtaskChannels


@dataclass(frozen=True, kw_only=True, eq=False)
class ChannelSource(Source):
    """The records in flight to and from one subtask; each input gate and each result partition is a state.

    Attributes:
        channels: all channels of the subtask.
    """

    channels: tuple[Channel, ...]

    def columns(self, entry: Entry) -> dict[str, pa.DataType]:
        return {"value": entry.part("value").arrow()}

    def emit(self, program: Program, layout: EntryLayout, entry: Entry) -> None:
        # Two segments: the channel, and the element.
        layout.emit(program, entry, "value")

    def pages(self, state: StateName, selection: Selection) -> Iterator[Page]:
        for channel in self._of(state):
            selection.account(channel.size_bytes)
            page = channel.page()
            if len(page):
                yield page

    def cost_bytes(self, state: StateName) -> int:
        return sum(channel.size_bytes for channel in self._of(state))

    def own_size(self, state: StateName, share: float) -> StateSize:
        return StateSize(self.cost_bytes(state))

    def tallies(self, states: Sequence[StateName], selection: Selection) -> Iterator[Tally]:
        for state in states:
            yield Tally(
                state=state,
                key_group=-1,
                entries=sum(count for _, count in self.counts(state, selection)),
                size_bytes=self.cost_bytes(state),
            )

    def _of(self, state: StateName) -> list[Channel]:
        return [channel for channel in self.channels if channel.gate.name == state.name]


class ChannelOpener(Opener[SubtaskChannels]):
    """Opens the channels of a subtask."""

    family = StateKind.CHANNEL
    sources = (ChannelSource,)

    def open(self, handle: SubtaskChannels, context: OpeningContext) -> Source:
        # A record may begin in one subtask and end in another: `InFlight` has joined those of the whole savepoint.
        in_flight = context.in_flight
        assert in_flight is not None
        channels = tuple(in_flight.channels(context.operator_id, context.subtask))
        return ChannelSource(
            subtask=context.subtask,
            path=channels[0].path if channels else "",
            size_bytes=sum(channel.size_bytes for channel in channels),
            entries={
                StateName(name=gate.name): in_flight.entry(context.operator_id, gate)
                for gate in dict.fromkeys(channel.gate for channel in channels)
            },
            channels=channels,
        )
