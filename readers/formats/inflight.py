"""Channel state: the records that were in flight when an unaligned checkpoint was taken.

The file begins with `i4 0`. At each offset of a channel there is a network buffer, `i4 length, bytes`. The buffers of a channel, in the
order of their offsets, are a sequence of records that is cut anywhere:

| bytes | meaning |
|---|---|
| i4 length | of the record |
| u1 tag, … | a stream element: a record with or without timestamp, a watermark, … (`StreamElementSerializer`) |

An *input channel* (gate, channel of a subtask) begins with a whole record. A *result subpartition* (partition, subpartition of a
subtask) begins behind the last buffer that was sent, maybe within a record. The receiver has the beginning of that record: the
last bytes of one of its input channels. A record that was cut in two is shown whole, as a row of the input channel. The savepoint
does not record which channel that is: it is the only one, first among those with fitting indexes, behind which the bytes of
the subpartition are records up to the end. A part of a record whose other part is not found is shown as a fragment.

| column of a record | type | |
|---|---|---|
| kind | string | `record`, `watermark`, `latency_marker`, `watermark_status`, … or `fragment` |
| timestamp | timestamp[ms] | of the record or watermark |
| value | the type of the records, or bytes | |
| details | struct | of other elements |
| channel | int32 | the input channel (the sending subtask), or the subpartition (the receiving subtask) |
| fragment | binary | the bytes of a fragment, with the record's length if they have it |

The savepoint does not record the type of the records. If all records of a gate or partition are exactly one String each, and there
are too many of them for an accident, they are shown as strings, and a note of the state says so; others are shown as bytes.

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
from readers.decode.decoder import Page, walker
from readers.decode.loads import load_i4, load_u1, store_1, store_8
from readers.decode.program import Program
from readers.errors import CorruptDataError, ReaderError
from readers.formats.entry import Entry, StateKind
from readers.metadata import ChannelOffsets, ChannelStateHandle, OperatorState
from readers.serializers.base import Problem, Serializer
from readers.serializers.operators import StreamElementSerializer
from readers.serializers.primitives import BasicSerializer, StringSerializer
from readers.serializers.structs import ScalarLayout
from readers.storage.location import SavepointLocation

# Of larger channel state, channels are read one by one, and records cut in two are fragments.
_MAX_JOINED_BYTES = 256 << 20
_MAX_CANDIDATES = 256  # channels that are tried if none has fitting indexes
_LEAST_STRINGS = 6  # a record of another type passes for a string less than once in 128 times
_MAX_TAG = 6
_LENGTH_BYTES = 4
_HEADER_BYTES = 5  # segment 0 of a record: u1 fragment, i4 channel
_CHANNEL, _FRAGMENT = 4, 5  # numbers of the fields behind those of StreamElementSerializer

Bounds = NDArray[np.int64]


class InFlightBytesSerializer(BasicSerializer):
    """A record of unknown type: all of its bytes."""

    java_class = "?"
    name, layout = "?", ScalarLayout(pa.binary(), Program.rest)

    def problems(self) -> Iterator[Problem]:
        yield Problem(
            path=(), reason="the savepoint does not record the type of records in flight", sized=True
        )


class InFlightStringSerializer(StringSerializer):
    """A record that is a String by all evidence."""

    def problems(self) -> Iterator[Problem]:
        reason = (
            "the savepoint does not record the type of records in flight; each of these is exactly one String"
        )
        yield Problem(path=(), reason=reason, sized=True)


@dataclass(frozen=True)
class InFlightSerializer(StreamElementSerializer):
    """An element in flight, with its channel; see the table of the module."""

    def arrow(self) -> pa.DataType:
        return pa.struct(
            [*super().arrow(), pa.field("channel", pa.int32()), pa.field("fragment", pa.binary())]
        )

    def emit(self, program: Program) -> None:
        """Emit segment 0: u1 fragment, i4 channel; and segment 1: the element, or the bytes of a fragment."""
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
    """An input gate or a result partition of an operator; all of its channels have records of the same type."""

    is_input: bool
    index: int

    @property
    def name(self) -> str:
        """Name of the state with its records."""
        return f"input gate {self.index}" if self.is_input else f"result partition {self.index}"


@dataclass(kw_only=True, eq=False)
class Channel:
    """One input channel or result subpartition of a subtask.

    Attributes:
        operator_id, subtask: the subtask of the channel.
        gate: the gate or partition of the channel.
        index: the number of the channel in it.
        size_bytes: the size that `_metadata` records.
        read: reads the bytes.
        path: the file, for errors.
        completion: for an input channel, the bytes that its last record lacks, if they were found.
        skipped: for a result subpartition, the number of bytes that complete a record of an input channel; None if not known.
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
        """The buffers, joined."""
        return self.read()

    def records(self) -> tuple[NDArray[np.uint8], Bounds, Bounds, list[tuple[int, int]]]:
        """Return a buffer, starts and ends of the records in it, int64 (records,), and the bounds of fragments.

        Raises:
            CorruptDataError: an input channel does not begin with a record.
        """
        data = self.data
        if self.completion:
            data = np.concatenate([data, np.frombuffer(self.completion, dtype=np.uint8)])
        first = 0
        # A subpartition whose first record was not found begins where all that follows are records: the end always fits.
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
        """Return a page of the records, then the fragments, with two segments each."""
        data, starts, ends, fragments = self.records()
        starts = np.concatenate([starts, np.array([start for start, _ in fragments], dtype=np.int64)])
        ends = np.concatenate([ends, np.array([end for _, end in fragments], dtype=np.int64)])
        headers = np.zeros(len(starts), dtype=np.int64)
        headers[len(starts) - len(fragments) :] = _HEADER_BYTES
        index = self.index.to_bytes(4, "big", signed=True)
        # All rows share two headers at the beginning of the buffer, one of records and one of fragments.
        prefix = np.frombuffer(b"\0" + index + b"\1" + index, dtype=np.uint8)
        shift = len(prefix)
        begins = np.stack([headers, starts + shift], axis=1)
        behinds = np.stack([headers + _HEADER_BYTES, ends + shift], axis=1)
        return Page.of(np.concatenate([prefix, data]), (begins, behinds), -1, self.subtask, self.path)


@dataclass
class InFlightRecords:
    """The channel state of a savepoint; files are read on first use.

    Args:
        operators: the operators in `_metadata`.
        storage: opens the files.
        elements: (operator id, name of a gate or partition) → the serializer of its records, if it is known.
    """

    operators: tuple[OperatorState, ...]
    storage: SavepointLocation
    elements: dict[tuple[str, str], Serializer] = field(default_factory=dict)
    _entries: dict[tuple[str, Gate], Entry] = field(default_factory=dict, repr=False)

    def channels(self, operator_id: str, subtask: int) -> list[Channel]:
        """Return the channels of one subtask."""
        return self._by_subtask.get((operator_id, subtask), [])

    def entry(self, operator_id: str, gate: Gate) -> Entry:
        """Return the serializer of the records of a gate or partition, as an entry."""
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
        """All channels; records that were cut in two are put together."""
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
                # Tag 0 is a record with a timestamp of 8 bytes, tag 1 a record without; other elements have no value.
                values = starts + np.choose(np.minimum(data[starts], 2), [9, 1, 0])
                chosen = data[starts] <= 1
                if (
                    strings.measure_each(data, values[chosen], ends[chosen], channel.path) != ends[chosen]
                ).any():
                    return False
            except ReaderError:
                return False
            # Null and the empty string are one byte, which proves nothing.
            count += int((ends[chosen] - values[chosen] > 1).sum())
        return count >= _LEAST_STRINGS


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
        # The recorded size is that of all buffers of the channel, so the last one ends before that; without one, with the file.
        end = min(offsets[-1] + channel.state_size, size) if channel.state_size > 0 else size
        memory = memoryview(stream.span(offsets[0], end))
        cursors = (Cursor(memory, path=stream.path, position=offset) for offset in offsets)
        buffers = [cursor.blob("network buffer") for cursor in cursors]
        return np.frombuffer(b"".join(buffers), dtype=np.uint8)

    return read


def _is_readable(channel: Channel) -> bool:
    """Return whether the bytes of a channel can be read; if not, the error is raised when the channel itself is read."""
    try:
        return len(channel.data) >= 0
    except ReaderError:
        return False


class _UnfinishedChannels:
    """The input channels that end within a record.

    Args:
        channels: all input channels.
    """

    def __init__(self, channels: Iterable[Channel]) -> None:
        # By identity of the channel: the channel, and the bytes of its last record that it has.
        self._rests: dict[int, tuple[Channel, bytes]] = {}
        self._by_indexes: dict[tuple[int, int], list[int]] = defaultdict(list)
        for channel in channels:
            rest = bytes(memoryview(channel.data)[_cut(channel.data, 0)[2] :])
            if rest:
                self._rests[id(channel)] = channel, rest
                self._by_indexes[channel.subtask, channel.index].append(id(channel))

    def join(self, result: Channel) -> None:
        """Find the input channel with the beginning of a subpartition's first record, and complete that record.

        If an edge connects every subtask with every other, the index of the channel is the sender's subtask, and that of the
        subpartition the receiver's. On other edges the indexes mean nothing, so all channels are candidates.
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
    """Return how many of the `following` bytes complete the record that begins with `rest`; None if they cannot."""
    length = (rest + bytes(memoryview(following)[:_LENGTH_BYTES]))[:_LENGTH_BYTES]
    missing = _LENGTH_BYTES + int.from_bytes(length, "big", signed=True) - len(rest)
    return missing if len(length) == _LENGTH_BYTES and 0 < missing <= len(following) else None


def _may_begin(data: NDArray[np.uint8], position: int) -> bool:
    """Return whether a record that continues elsewhere may begin at `position`."""
    length = int.from_bytes(bytes(memoryview(data)[position : position + _LENGTH_BYTES]), "big", signed=True)
    return length > len(data) - position - _LENGTH_BYTES and int(data[position + _LENGTH_BYTES]) <= _MAX_TAG


@subroutine
def _is_element(data: int, position: int, length: int) -> bool:
    """Return whether `length` bytes at `position` may be a stream element: a known tag, and a length that fits it."""
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
    """Fill `fits`, see `_suffixes`; all but its last element are False.

    Backwards: what begins with a record fits if what follows the record fits, which is known by then.
    """
    for position in range(size - 5, -1, -1):
        length = load_i4(data, position)
        if 0 < length <= size - position - 4 and _is_element(data, position + 4, length):
            store_1(fits, position, load_u1(fits, position + 4 + length))


def _suffixes(data: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Return for each position, and the end, whether all bytes from there on are whole records: bool (bytes + 1,)."""
    fits = np.zeros(len(data) + 1, dtype=np.bool_)
    fits[-1] = True
    _find_suffixes(data, len(data), fits)
    return fits


@kernel
def _walk(data: int, size: int, position: int, starts: int, ends: int, room: int) -> tuple[int, int]:
    """Walk records and store up to `room` of them; return their number and the position behind them."""
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
    """Return starts and ends of the whole records from `position` on, int64 (records,), and the position behind them."""
    empty: Bounds = np.empty(0, dtype=np.int64)
    count, end = _walk(data, len(data), position, empty, empty, 0)
    starts: Bounds = np.empty(count, dtype=np.int64)
    ends: Bounds = np.empty(count, dtype=np.int64)
    _walk(data, len(data), position, starts, ends, count)
    return starts, ends, end
