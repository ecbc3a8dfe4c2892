"""The stream of one subtask's operator state, with other elements in some of its states.

| bytes | |
|---|---|
| header | as in the source, up to the first element |
| states that stay | their bytes, shifted |
| states that change | element after element, one offset each; a broadcast state is one element: i4 n, n × (key, value) |

Compressed elements stand in snappy chunks of their own, so they can be shifted too.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import cramjam
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from readers import OperatorSource
from readers.metadata import Mode, Offsets, OperatorStreamStateHandle, StateMetaInfo
from writers.edits import NewBytes
from writers.errors import RefusedEditError

IDENTIFIER = b"\xff\x06\x00\x00sNaPpY"
"""A snappy stream begins with it, before the first element."""
# A new stream is put together in memory.
_MOST_BYTES = 128 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Elements:
    """The elements of a state in one subtask.

    Attributes:
        data: large_binary, each of them; the entries of a broadcast state.
        is_broadcast: whether they are entries of a broadcast state.
    """

    data: pa.LargeBinaryArray
    is_broadcast: bool

    def stored(self) -> pa.LargeBinaryArray:
        """Return what each offset points to."""
        if not self.is_broadcast:
            return self.data
        return pa.array([len(self.data).to_bytes(4, "big") + bytes(_joined(self.data))], pa.large_binary())


@dataclass(frozen=True, slots=True)
class RewrittenStream:
    """A stream of operator state that no file has yet.

    Attributes:
        infos: where the elements of each state begin.
        chunks: its bytes.
    """

    infos: tuple[StateMetaInfo, ...]
    chunks: tuple[bytes | memoryview, ...]


class _Output:
    """A stream as far as it is written."""

    def __init__(self, *, compressed: bool) -> None:
        self.chunks: list[bytes | memoryview] = []
        self.size = 0
        self._compressed = compressed

    def append(self, data: bytes | memoryview) -> None:
        self.chunks.append(data)
        self.size += len(data)

    def append_elements(self, elements: pa.LargeBinaryArray) -> Offsets:
        """Append elements; return the offset of each."""
        if not self._compressed:
            begins = np.asarray(_begins(elements), dtype=np.int64)
            offsets: Offsets = begins[:-1] - begins[0] + self.size
            self.append(_joined(elements))
            return offsets
        found: NDArray[np.int64] = np.empty(len(elements), dtype=np.int64)
        for number, element in enumerate(elements):
            found[number] = self.size
            self.append(framed(element.as_py()))
        return found


def check_stream_size(size_bytes: int) -> None:
    """Check that a stream is small enough to be put together anew in memory.

    Raises:
        RefusedEditError: it is not.
    """
    if size_bytes > _MOST_BYTES:
        raise RefusedEditError(
            f"expected at most {_MOST_BYTES} bytes of operator state in one subtask, found {size_bytes}"
        )


def rewritten(source: OperatorSource, changed: Mapping[str, Elements]) -> RewrittenStream:
    """Return a stream with other elements in some states.

    Args:
        source: the stream as it is.
        changed: by the name of the state, which must be in the header.

    Raises:
        RefusedEditError: elements of two states share bytes, so they cannot be moved; or there is more than memory should hold.
    """
    check_stream_size(source.stream.size_bytes)
    regions = _regions(source)
    data = memoryview(source.stream.data)
    infos = {info.name: info for info in source.handle.state_meta_infos}
    first = min((start for start, _ in regions.values()), default=source.stream.size_bytes)
    output = _Output(compressed=source.header.compressed)
    output.append(data[:first])
    if source.header.compressed and first < source.header.data_start:
        output.append(IDENTIFIER)
    modes = _modes(source)
    for name in dict.fromkeys((*infos, *changed)):
        if name in changed:
            mode, offsets = modes[name], output.append_elements(changed[name].stored())
        else:
            mode, offsets = infos[name].distribution_mode, infos[name].offsets
            start, end = regions.get(name, (0, 0))
            offsets = offsets + (output.size - start)
            output.append(data[start:end])
        infos[name] = StateMetaInfo(name=name, distribution_mode=mode, offsets=offsets)
    return RewrittenStream(tuple(infos.values()), tuple(output.chunks))


def new_handle(stream: RewrittenStream) -> OperatorStreamStateHandle:
    """Return the handle of a stream, with a name of its own.

    Handles of one name, or of one file, are one handle to Flink when it redistributes state.
    """
    delegate = NewBytes(handle_name=str(uuid.uuid4()), data=b"".join(stream.chunks))
    return OperatorStreamStateHandle(state_meta_infos=stream.infos, delegate=delegate)


def _regions(source: OperatorSource) -> dict[str, tuple[int, int]]:
    """Return where the elements of each state are that has any.

    Raises:
        RefusedEditError: two states share bytes.
    """
    found = {name.name: region for name in source.entries if (region := source.region(name)) is not None}
    ordered = sorted(found.items(), key=lambda one: one[1])
    for (name, (_, end)), (other, (start, _)) in pairwise(ordered):
        if start < end:
            raise RefusedEditError(
                f"expected the elements of {name} and {other} apart, found both at byte {start} of {source.path}"
            )
    return found


def _modes(source: OperatorSource) -> dict[str, Mode]:
    """Return how each state of the header is distributed."""
    states = (*source.header.operator_states, *source.header.broadcast_states)
    return {state.name: Mode[state.distribution_mode or Mode.SPLIT_DISTRIBUTE.name] for state in states}


def _begins(elements: pa.LargeBinaryArray) -> NDArray[np.int64]:
    offsets = np.frombuffer(elements.buffers()[1], dtype=np.int64)
    return offsets[elements.offset : elements.offset + len(elements) + 1]


def _joined(elements: pa.LargeBinaryArray) -> memoryview:
    """Return the bytes of all elements, without a copy."""
    begins = _begins(elements)
    data = elements.buffers()[2]
    return memoryview(b"") if data is None else memoryview(data)[int(begins[0]) : int(begins[-1])]


def framed(element: bytes) -> bytes:
    """Return an element as snappy chunks with their checksums, without the identifier of a stream."""
    return bytes(cramjam.snappy.compress(element))[len(IDENTIFIER) :]
