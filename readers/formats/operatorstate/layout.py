"""Managed operator state: list, union and broadcast state of one subtask.

The stream is an `OperatorBackendSerializationProxy`, then the data at the offsets of the handle:

| mode | bytes |
|---|---|
| SPLIT_DISTRIBUTE, UNION | one offset per element: the element serializer's bytes |
| BROADCAST | one offset: i4 n, n × (key, value) |

With compression (since 1.18) one snappy stream follows the proxy. Each offset is then the file position of a chunk, from which
decompression starts anew.

Flink: OperatorStateRestoreOperation, DefaultOperatorStateBackendSnapshotStrategy.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from readers.columnnames import UNDECODED
from readers.cursor import Cursor
from readers.decode.columns import ColumnTree
from readers.decode.decoder import walker
from readers.decode.program import Code, Program
from readers.errors import CorruptDataError, UnsupportedSerializerError
from readers.formats.entry import Entry, EntryLayout, StateKind, column_type, emit_undescribed
from readers.formats.snappy import decompress


def operator_columns(entry: Entry) -> dict[str, pa.DataType]:
    """Return the columns of an element or of a broadcast entry."""
    if entry.kind is StateKind.BROADCAST:
        return {"map_key": column_type(entry, "map_key"), "value": column_type(entry, "value")}
    columns = {"value": column_type(entry, "value")}
    return columns | {UNDECODED: pa.binary()} if entry.is_open else columns


def emit_operator(program: Program, layout: EntryLayout, entry: Entry, *, undescribed: bool = False) -> None:
    """Emit one segment: the element, or key and value of a broadcast entry.

    A part without a known end takes all bytes that follow.
    """
    if entry.kind is StateKind.BROADCAST:
        layout.emit(program, entry, "map_key")
        if entry.is_raw("map_key"):
            layout.null(program, "value")
        else:
            layout.emit(program, entry, "value")
        return
    if undescribed:
        emit_undescribed(program, layout)
        return
    layout.emit(program, entry, "value")
    # An element fills its segment exactly: bytes left over mean that the serializer is not the one that wrote it.
    program.expect_end()
    if entry.is_open:
        layout.null(program, UNDECODED)


def operator_program(entry: Entry) -> tuple[ColumnTree, Code]:
    """Return the columns of an element or a broadcast entry, and the program that lays it out, for a writer of new ones."""
    layout = EntryLayout(operator_columns(entry))
    return layout.tree, layout.code(lambda program, columns: emit_operator(program, columns, entry))


def element_bounds(
    offsets: NDArray[np.int64], all_offsets: NDArray[np.int64], size: int, path: str
) -> NDArray[np.int64]:
    """Return start and end of each element, int64 (elements, 2): it ends where the next element of any state begins.

    Args:
        offsets: int64 (elements,), where the elements of a state begin.
        all_offsets: int64, those of all states.
        size: of the stream.
        path: the file, for errors.

    Raises:
        CorruptDataError: an offset outside the stream.
    """
    outside = np.flatnonzero((offsets < 0) | (offsets > size))
    if len(outside):
        message = f"expected an offset within {size} bytes of operator state, found {offsets[outside[0]]}"
        raise CorruptDataError(message, path=path)
    # States follow each other in the stream, and empty elements share their offset with the next one.
    later = np.sort(np.append(all_offsets, size))
    following = np.searchsorted(later, offsets, side="right")
    ends = np.where(following < len(later), later[np.minimum(following, len(later) - 1)], size)
    return np.stack([offsets, ends], axis=1)


def plain_elements(
    data: NDArray[np.uint8], bounds: NDArray[np.int64], path: str, *, compressed: bool
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """Return a buffer, and the starts and ends of the elements in it, int64 (elements, 1)."""
    if not compressed:
        return data, np.ascontiguousarray(bounds[:, :1]), np.ascontiguousarray(bounds[:, 1:])
    memory = memoryview(data)
    parts = [decompress(Cursor(memory, path=path, position=start, end=end)) for start, end in bounds.tolist()]
    ends = np.cumsum([len(part) for part in parts], dtype=np.int64).reshape(-1, 1)
    starts = np.zeros_like(ends)
    starts[1:] = ends[:-1]
    plain = np.concatenate(parts) if parts else np.empty(0, dtype=np.uint8)
    return plain, starts, ends


def cut_broadcast(
    data: NDArray[np.uint8], start: int, end: int, entry: Entry, path: str
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Find the entries of a broadcast state.

    Raises:
        CorruptDataError: the bytes contradict the layout, or do not end with the last entry.
        UnsupportedSerializerError: there are several entries, and their values have no known end.
    """
    cursor = Cursor(memoryview(data), path=path, position=start, end=end)
    count = cursor.count("broadcast entries")
    unsized = next((problem for problem in entry.problems() if not problem.sized), None)
    if unsized is not None and count > 1:
        message = f"expected serializers whose values have a known end, found {unsized.reason}"
        raise UnsupportedSerializerError(message, path=path, position=start, breadcrumbs=unsized.path)
    layout = EntryLayout({})
    entries = walker(lambda program: emit_operator(program, layout, entry))
    starts, ends = entries.measure(data, cursor.position, end, count, path)
    last = int(ends[-1, 0]) if count else cursor.position
    if last != end:
        cursor.position = last
        raise cursor.corrupt(
            f"expected the end of the broadcast state at byte {end}, found {end - last} bytes more"
        )
    return starts, ends
