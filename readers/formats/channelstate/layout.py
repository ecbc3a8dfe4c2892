"""Channel state: the records that were in flight when an unaligned checkpoint was taken.

The file begins with `i4 0`. At each offset of a channel stands a network buffer, `i4 length, bytes`; the buffers of a channel, in the
order of their offsets, are one run of records, cut anywhere:

| bytes | meaning |
|---|---|
| i4 length | of the record |
| u1 tag, … | a stream element: a record with or without timestamp, a watermark, … (`StreamElementSerializer`) |

An *input channel* (gate, channel of a subtask) begins with a whole record. A *result subpartition* (partition, subpartition of a
subtask) begins where the last buffer that was sent ends, maybe within a record, whose beginning the receiver has: the last bytes
of one of its input channels. That is where a record that was cut in two is shown, whole; which input channel it is, the savepoint
does not say: it is the one, with fitting indexes if there is one such, behind which the result's bytes are records up to the end. A
piece whose other part is not found is shown as a fragment.

| column of a record | type | |
|---|---|---|
| kind | string | `record`, `watermark`, `latency_marker`, `watermark_status`, … or `fragment` |
| timestamp | timestamp[ms] | of the record or watermark |
| value | the type of the records, or bytes | |
| details | struct | of other elements |
| channel | int32 | the input channel (the sending subtask), or the subpartition (the receiving subtask) |
| fragment | binary | the bytes of a fragment, with the record's length if they have it |

The savepoint does not say of which type records are. Where all records of a gate or partition are exactly one String each, and there
are enough of them for that to be no accident, they are shown as such, and the state's note says so; others are bytes.

Flink: ChannelStateSerializerImpl, SpanningRecordSerializer, SpillingAdaptiveSpanningRecordDeserializer#getUnconsumedBuffer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from readers.compiled.kernel import kernel
from readers.compiled.routines import subroutine
from readers.cursor import Cursor
from readers.decode.decoder import walker
from readers.decode.loads import load_i4, load_u1, store_1, store_8
from readers.decode.page import Page
from readers.decode.program import Program
from readers.errors import CorruptDataError, ReaderError
from readers.formats.entry import Entry, EntryLayout, StateKind
from readers.metadata import (
    ChannelOffsets,
    ChannelStateHandle,
    OperatorState,
)
from readers.serializers.base import Problem, Serializer
from readers.serializers.primitives import BasicSerializer, StringSerializer
from readers.serializers.streaming import StreamElementSerializer
from readers.storage.location import SavepointLocation

_MAX_JOINED_BYTES = 256 << 20  # above that channels are read one by one, and records cut in two are fragments
_MAX_CANDIDATES = 256  # of channels that are tried without fitting indexes
_LEAST_STRINGS = 6  # a record of another type is taken for a string less than once in 128 times
_MAX_TAG = 6
_LENGTH_BYTES = 4
_HEADER_BYTES = 5  # what stands before a record in our buffer: u1 fragment, i4 channel
_CHANNEL, _FRAGMENT = 4, 5  # fields behind those of StreamElementSerializer

Bounds = NDArray[np.int64]


class InFlightBytesSerializer(BasicSerializer):
    """A record whose type is not known: all of its bytes."""

    java_class = "?"
    name, arrow_type = "?", pa.binary()

    def emit(self, program: Program) -> None:
        program.rest()

    def problems(self) -> Iterator[Problem]:
        yield Problem(
            path=(), reason="the savepoint does not say of which type records in flight are", sized=True
        )


class InFlightStringSerializer(StringSerializer):
    """A record that can be nothing but a String."""

    def problems(self) -> Iterator[Problem]:
        reason = "the savepoint does not say of which type records in flight are; each of these is exactly one String"
        yield Problem(path=(), reason=reason, sized=True)


@dataclass(frozen=True)
class InFlightSerializer(StreamElementSerializer):
    """An element in flight, with its channel; see the table of the module."""

    def arrow(self) -> pa.DataType:
        return pa.struct(
            [*super().arrow(), pa.field("channel", pa.int32()), pa.field("fragment", pa.binary())]
        )

    def emit(self, program: Program) -> None:
        """Segment 0: u1 fragment, i4 channel; segment 1: the element."""
        cases = program.switch({0: "element", 1: "fragment"})
        for fragment in (0, 1):
            with cases.case(fragment):
                with program.field(_CHANNEL):
                    program.fixed(4)
                program.segment(1)
                if fragment:
                    self._emit_fragment(program)
                else:
                    super().emit(program)
                    with program.field(_FRAGMENT):
                        program.null()
                    program.expect_end()
        cases.end()

    def _emit_fragment(self, program: Program) -> None:
        program.struct()
        with program.field(0):
            program.constant("fragment")
        for index in range(1, _CHANNEL):
            with program.field(index):
                program.null()
        with program.field(_FRAGMENT):
            program.rest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """An input gate or a result partition of an operator; its channels have records of one type."""

    is_input: bool
    index: int

    @property
    def name(self) -> str:
        """Of the state that has its records."""
        return f"input gate {self.index}" if self.is_input else f"result partition {self.index}"


@dataclass(kw_only=True, eq=False)
class Channel:
    """One input channel or result subpartition of a subtask.

    Attributes:
        operator_id, subtask: whose.
        gate: the gate or partition.
        index: of the channel in it.
        size_bytes: as recorded.
        read: gets the bytes.
        path: the file, for errors.
        completion: of an input channel, what its last record lacks, if that was found.
        skipped: of a result subpartition, how many bytes belong to a record that began elsewhere; None: not known.
    """

    operator_id: str
    subtask: int
    gate: Gate
    index: int
    size_bytes: int
    read: Callable[[], NDArray[np.uint8]]
    path: str
    completion: bytes = b""
    skipped: int | None = None

    @cached_property
    def data(self) -> NDArray[np.uint8]:
        """The buffers as one."""
        return self.read()

    def records(self) -> tuple[NDArray[np.uint8], Bounds, Bounds, list[tuple[int, int]]]:
        """A buffer, where the records in it stand (int64 (records,)), and where fragments do.

        Raises:
            CorruptDataError: an input channel that does not begin with a record.
        """
        data = self.data
        if self.completion:
            data = np.concatenate([data, np.frombuffer(self.completion, dtype=np.uint8)])
        first = 0
        if not self.gate.is_input:
            first = self.skipped if self.skipped is not None else int(np.flatnonzero(_suffixes(data))[0])
        starts, ends, end = _cut(data, first)
        fragments = [(0, first)] if first and self.skipped is None else []
        if end < len(data):
            if self.gate.is_input and len(data) - end >= _LENGTH_BYTES + 1 and not _may_begin(data, end):
                cursor = Cursor(memoryview(data), path=self.path, position=end)
                raise cursor.corrupt("expected a record in flight")
            fragments.append((end, len(data)))
        return data, starts, ends, fragments

    def page(self) -> Page:
        """Records, then fragments: two segments each."""
        data, starts, ends, fragments = self.records()
        starts = np.concatenate([starts, np.array([start for start, _ in fragments], dtype=np.int64)])
        ends = np.concatenate([ends, np.array([end for _, end in fragments], dtype=np.int64)])
        headers = np.zeros(len(starts), dtype=np.int64)
        headers[len(starts) - len(fragments) :] = _HEADER_BYTES
        index = self.index.to_bytes(4, "big", signed=True)
        prefix = np.frombuffer(b"\0" + index + b"\1" + index, dtype=np.uint8)
        shift = len(prefix)
        return Page(
            data=np.concatenate([prefix, data]),
            starts=np.stack([headers, starts + shift], axis=1),
            ends=np.stack([headers + _HEADER_BYTES, ends + shift], axis=1),
            key_groups=np.full(len(starts), -1, dtype=np.int32),
            subtask=self.subtask,
            path=self.path,
        )


@dataclass
class InFlightRecords:
    """The channel state of a savepoint; nothing is read until it is asked for.

    Args:
        operators: what `_metadata` says.
        storage: opens the files.
        elements: (operator id, name of a gate or partition) → the serializer of its records, where somebody knows it.
    """

    operators: tuple[OperatorState, ...]
    storage: SavepointLocation
    elements: dict[tuple[str, str], Serializer] = field(default_factory=dict)
    _entries: dict[tuple[str, Gate], Entry] = field(default_factory=dict, repr=False)

    def channels(self, operator_id: str, subtask: int) -> list[Channel]:
        """Those of one subtask."""
        return self._by_subtask.get((operator_id, subtask), [])

    def entry(self, operator_id: str, gate: Gate) -> Entry:
        """What the records of a gate or partition are made of."""
        if (operator_id, gate) not in self._entries:
            element = self.elements.get((operator_id, gate.name)) or self._element(operator_id, gate)
            entry = Entry(kind=StateKind.CHANNEL, value=InFlightSerializer(element))
            self._entries[operator_id, gate] = entry
        return self._entries[operator_id, gate]

    def _element(self, operator_id: str, gate: Gate) -> Serializer:
        if self._is_small and self._are_strings(operator_id, gate):
            return InFlightStringSerializer()
        return InFlightBytesSerializer()

    @cached_property
    def _channels(self) -> list[Channel]:
        return [
            channel
            for operator in self.operators
            for subtask in operator.subtasks
            for handle in (*subtask.input_channels, *subtask.result_subpartitions)
            for channel in _channels_of(operator.operator_id, subtask.index, handle, self.storage)
        ]

    @cached_property
    def _by_subtask(self) -> dict[tuple[str, int], list[Channel]]:
        found: dict[tuple[str, int], list[Channel]] = defaultdict(list)
        for channel in self._joined if self._is_small else self._channels:
            found[channel.operator_id, channel.subtask].append(channel)
        return found

    @cached_property
    def _is_small(self) -> bool:
        return sum(channel.size_bytes for channel in self._channels) <= _MAX_JOINED_BYTES

    @cached_property
    def _joined(self) -> list[Channel]:
        """The channels, with records that are cut in two put together."""
        readable = [channel for channel in self._channels if _is_readable(channel)]
        unfinished = _UnfinishedChannels(channel for channel in readable if channel.gate.is_input)
        for result in readable:
            if not result.gate.is_input and len(result.data):
                unfinished.join(result)
        return self._channels

    def _are_strings(self, operator_id: str, gate: Gate) -> bool:
        strings = walker(StringSerializer().emit)
        count = 0
        for channel in self._joined:
            if (channel.operator_id, channel.gate) != (operator_id, gate):
                continue
            try:
                data, starts, ends, _ = channel.records()
                values = starts + np.choose(np.minimum(data[starts], 2), [9, 1, 0])
                chosen = data[starts] <= 1
                if (
                    strings.measure_each(data, values[chosen], ends[chosen], channel.path) != ends[chosen]
                ).any():
                    return False
            except ReaderError:
                return False
            count += int((ends[chosen] - values[chosen] > 1).sum())
        return count >= _LEAST_STRINGS


def channel_columns(entry: Entry) -> dict[str, pa.DataType]:
    """The columns of a record in flight."""
    assert entry.value is not None
    return {"value": entry.value.arrow()}


def emit_channel(program: Program, layout: EntryLayout, entry: Entry) -> None:
    """Two segments: channel and element."""
    assert entry.value is not None
    with layout.column(program, "value"):
        entry.value.emit(program)


def _channels_of(
    operator_id: str, subtask: int, handle: ChannelStateHandle, storage: SavepointLocation
) -> Iterator[Channel]:
    for channel in handle.channels:
        yield Channel(
            operator_id=operator_id,
            subtask=subtask,
            gate=Gate(is_input=handle.is_input, index=channel.first),
            index=channel.second,
            size_bytes=max(channel.state_size, 0),
            read=_reader(handle, channel, storage),
            path=handle.delegate.name,
        )


def _reader(
    handle: ChannelStateHandle, channel: ChannelOffsets, storage: SavepointLocation
) -> Callable[[], NDArray[np.uint8]]:
    def read() -> NDArray[np.uint8]:
        stream = storage.open_stream(handle.delegate)
        size = stream.size_bytes
        offsets = sorted(channel.offsets.tolist())
        for offset in offsets:
            if not 0 <= offset <= size:
                message = f"expected a buffer within {size} bytes, found offset {offset}"
                raise CorruptDataError(message, path=stream.path, position=0)
        if not offsets:
            return np.empty(0, dtype=np.uint8)
        end = min(offsets[-1] + channel.state_size, size) if channel.state_size > 0 else size
        memory = memoryview(stream.span(offsets[0], end))
        cursors = (Cursor(memory, path=stream.path, position=offset) for offset in offsets)
        buffers = [cursor.blob("network buffer") for cursor in cursors]
        return np.frombuffer(b"".join(buffers), dtype=np.uint8)

    return read


def _is_readable(channel: Channel) -> bool:
    """Whether its bytes are there: an error is raised when the channel itself is read."""
    try:
        return len(channel.data) >= 0
    except ReaderError:
        return False


class _UnfinishedChannels:
    """The input channels that end within a record."""

    def __init__(self, channels: Iterable[Channel]) -> None:
        # By identity: the channel and the bytes of its last record that it has.
        self._rests: dict[int, tuple[Channel, bytes]] = {}
        self._by_indexes: dict[tuple[int, int], list[int]] = defaultdict(list)
        for channel in channels:
            rest = bytes(memoryview(channel.data)[_cut(channel.data, 0)[2] :])
            if rest:
                self._rests[id(channel)] = channel, rest
                self._by_indexes[channel.subtask, channel.index].append(id(channel))

    def join(self, result: Channel) -> None:
        """Find the channel that has the beginning of a result's first record, and complete it.

        An edge that connects all subtasks with all has the sender as channel, and the receiver as subpartition; on
        other edges the indexes say nothing.
        """
        suffixes = _suffixes(result.data)
        with_indexes = self._by_indexes.get((result.index, result.subtask), [])
        for candidates in (with_indexes, list(self._rests) if len(self._rests) <= _MAX_CANDIDATES else []):
            found = [
                (channel, missing)
                for channel, rest in (self._rests[key] for key in candidates if key in self._rests)
                for missing in [_missing(rest, result.data)]
                if missing is not None and suffixes[missing] and channel.operator_id != result.operator_id
            ]
            if len(found) == 1:
                channel, result.skipped = found[0]
                channel.completion = bytes(memoryview(result.data)[: result.skipped])
                del self._rests[id(channel)]
                return
        if suffixes[0]:
            result.skipped = 0


def _missing(rest: bytes, following: NDArray[np.uint8]) -> int | None:
    """How many of the `following` bytes complete a record of which `rest` is there; None if they cannot."""
    length = (rest + bytes(memoryview(following)[:_LENGTH_BYTES]))[:_LENGTH_BYTES]
    missing = _LENGTH_BYTES + int.from_bytes(length, "big", signed=True) - len(rest)
    return missing if len(length) == _LENGTH_BYTES and 0 < missing <= len(following) else None


def _may_begin(data: NDArray[np.uint8], position: int) -> bool:
    """Whether a record that goes on elsewhere may begin at `position`."""
    length = int.from_bytes(bytes(memoryview(data)[position : position + _LENGTH_BYTES]), "big", signed=True)
    return length > len(data) - position - _LENGTH_BYTES and int(data[position + _LENGTH_BYTES]) <= _MAX_TAG


@subroutine
def _is_element(data: int, position: int, length: int) -> bool:
    """Whether `length` bytes at `position` may be a stream element: the tag is known, and the length fits it."""
    if length < 1:
        return False
    tag = load_u1(data, position)
    if tag == 0:
        return length >= 9
    if tag == 2:
        return length == 9
    if tag == 3:
        return length == 29
    if tag == 4:
        return length == 5
    if tag == 5:
        return length == 2
    if tag == 6:
        return length == 13
    return tag == 1


@kernel
def _find_suffixes(data: int, size: int, fits: int) -> None:
    """Fill `fits`, bool (bytes + 1,), all False but the last."""
    for position in range(size - 5, -1, -1):
        length = load_i4(data, position)
        if 0 < length <= size - position - 4 and _is_element(data, position + 4, length):
            store_1(fits, position, load_u1(fits, position + 4 + length))


def _suffixes(data: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Whether what begins at each position, and at the end, is a run of records up to the end: bool (bytes + 1,)."""
    fits = np.zeros(len(data) + 1, dtype=np.bool_)
    fits[-1] = True
    _find_suffixes(data, len(data), fits)
    return fits


@kernel
def _walk(data: int, size: int, position: int, starts: int, ends: int, room: int) -> tuple[int, int]:
    """Walk records; fill in as many as there is `room` for. Returns their number and the position behind them."""
    found = 0
    while size - position > 4:
        length = load_i4(data, position)
        if length > size - position - 4 or not _is_element(data, position + 4, length):
            break
        if found < room:
            store_8(starts, found * 8, position + 4)
            store_8(ends, found * 8, position + 4 + length)
        found += 1
        position += 4 + length
    return found, position


def _cut(data: NDArray[np.uint8], position: int) -> tuple[Bounds, Bounds, int]:
    """Where the whole records from `position` on stand, int64 (records,), and the position behind them."""
    empty: Bounds = np.empty(0, dtype=np.int64)
    count, end = _walk(data, len(data), position, empty, empty, 0)
    starts: Bounds = np.empty(count, dtype=np.int64)
    ends: Bounds = np.empty(count, dtype=np.int64)
    _walk(data, len(data), position, starts, ends, count)
    return starts, ends, end


def gates(channels: Iterable[Channel]) -> list[Gate]:
    """The gates and partitions of channels, in order."""
    return list(dict.fromkeys(channel.gate for channel in channels))
