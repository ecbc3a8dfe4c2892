"""The elements of operator state in one subtask, and changes of its rows → the elements that it has then, and its stream with them.

| bytes | |
|---|---|
| header | as in the source, up to the first element |
| states that stay | their bytes, shifted |
| states that change | element after element, one offset each; a broadcast state is one element: i4 n, n × (key, value) |

Compressed elements stand in snappy chunks of their own, so they can be shifted too.

A row is an element of a list or union state, or an entry of a broadcast state. Rows that no statement changes keep their bytes. A row
that is changed in part is encoded from its columns, so these must hold all of it: its bytes are compared with what the
columns encode to before.

Flink gives each subtask its own copy of a broadcast state back, and never compares them. Copies that differ would stay different, and a
job of another parallelism would have a third of them at random. So rows of a broadcast state are changed only where its copies have the
same entries, in any order.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import cramjam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from readers import (
    OUT_OF_RANGE,
    ROW,
    UNDECODED,
    Batch,
    ConnectorSource,
    OperatorSource,
    Page,
    Selection,
    StateKind,
    StatePart,
)
from readers.metadata import Mode, Offsets, OperatorStreamStateHandle, StateMetaInfo
from writers.changes import FIRST_ADDED, GroupChanges, UpdatedRows, array_of, united
from writers.edits import NewBytes
from writers.encode.encoder import Encoder
from writers.encode.fitting import shown
from writers.errors import RefusedEditError, WriterError
from writers.operatorstate.connectors import check_offsets, encoded_values

IDENTIFIER = b"\xff\x06\x00\x00sNaPpY"
"""A snappy stream begins with it, before the first element."""
# A new stream is put together in memory.
_MOST_STREAM_BYTES = 128 << 20


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
        return pa.array([len(self.data).to_bytes(4, "big") + bytes(bytes_of(self.data))], pa.large_binary())


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
            self.append(bytes_of(elements))
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
    if size_bytes > _MOST_STREAM_BYTES:
        raise RefusedEditError(
            f"expected at most {_MOST_STREAM_BYTES} bytes of operator state in one subtask, found {size_bytes}"
        )


def rewritten(source: OperatorSource, changed: Mapping[str, Elements]) -> OperatorStreamStateHandle:
    """Return the handle of a stream with other elements in some states.

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
    return new_handle(infos.values(), b"".join(output.chunks))


def new_handle(infos: Iterable[StateMetaInfo], data: bytes) -> OperatorStreamStateHandle:
    """Return the handle of a stream that no file has yet, with a name of its own.

    Handles of one name, or of one file, are one handle to Flink when it redistributes state.
    """
    delegate = NewBytes(handle_name=str(uuid.uuid4()), data=data)
    return OperatorStreamStateHandle(state_meta_infos=tuple(infos), delegate=delegate)


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


def bytes_of(elements: pa.LargeBinaryArray) -> memoryview:
    """Return the bytes of all elements, without a copy."""
    begins = _begins(elements)
    data = elements.buffers()[2]
    return memoryview(b"") if data is None else memoryview(data)[int(begins[0]) : int(begins[-1])]


def framed(element: bytes) -> bytes:
    """Return an element as snappy chunks with their checksums, without the identifier of a stream."""
    return bytes(cramjam.snappy.compress(element))[len(IDENTIFIER) :]


_INDEX = "list_index"
_VALUE, _KEY = "value", "map_key"
# Operator state goes into memory with its changes.
_MOST_BYTES = 64 << 20


def changed_elements(part: StatePart, changes: GroupChanges) -> Elements:
    """Return the elements of a state in one subtask after all changes.

    Raises:
        RefusedEditError: a row is changed of which columns do not show all, or a key of a broadcast state comes twice.
        WriterError: a value that its type cannot hold.
        ReaderError: the elements cannot be read.
    """
    try:
        return _changed_elements(part, changes)
    except WriterError as error:
        error.breadcrumbs = (part.name.name, *error.breadcrumbs)
        raise


def _changed_elements(part: StatePart, changes: GroupChanges) -> Elements:
    check_size(part.source.cost_bytes(part.name), part.name.name)
    _check_settable(part, changes)
    batches = list(part.entries(Selection()))
    before = _rows(part, batches)
    after = changes.applied(before)
    numbers = np.asarray(after.column(ROW))
    is_new = (numbers >= FIRST_ADDED) | np.isin(numbers, changes.updated)
    if isinstance(part.source, ConnectorSource):
        olds = [stored_entries(page) for page in part.source.inner.pages(part.name, Selection())]
        news = encoded_values(
            part.source.layout, before, after, is_new, joined(pa.chunked_array(olds, pa.large_binary()))
        )
    else:
        _check_restored(part, changes, batches, before)
        olds = [stored_entries(batch.page) for batch in batches]
        news = _encoded(Encoder.of_part(part, 1), part.name.name, after, is_new)
    places = np.where(is_new, len(before) + np.cumsum(is_new) - 1, numbers)
    both = pa.chunked_array([*olds, news], pa.large_binary())
    is_broadcast = part.entry.kind is StateKind.BROADCAST
    if is_broadcast and any(path[0] == _KEY for path in _set_paths(changes)):
        _check_unique(part, after, is_new)
    return Elements(data=joined(both.take(pa.array(places))), is_broadcast=is_broadcast)


def check_size(size_bytes: int, state: str) -> None:
    """Check that a state is small enough to be held in memory twice.

    Raises:
        RefusedEditError: it is not.
    """
    if size_bytes > _MOST_BYTES:
        raise RefusedEditError(
            f"expected at most {_MOST_BYTES} bytes of {state} in one subtask, found {size_bytes}"
        )


def stored_entries(page: Page) -> pa.LargeBinaryArray:
    """Return the bytes of the entries of a page, each with its only segment."""
    starts, ends = page.starts[:, 0], page.ends[:, 0]
    if len(page) and (starts[1:] == ends[:-1]).all():
        offsets = np.append(starts, ends[-1])
        return pa.Array.from_buffers(
            pa.large_binary(), len(page), [None, pa.py_buffer(offsets), pa.py_buffer(page.data)]
        )
    data = memoryview(page.data)
    pieces = [bytes(data[start:end]) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
    return pa.array(pieces, pa.large_binary())


def joined(elements: pa.ChunkedArray) -> pa.LargeBinaryArray:
    """Return elements in one array."""
    return pa.concat_arrays([*elements.chunks, pa.array([], pa.large_binary())])


def rows_of_elements(part: StatePart) -> pa.Table:
    """Return the rows of a state in one subtask, with their numbers.

    Raises:
        RefusedEditError: there are more than memory should hold.
        ReaderError: the elements cannot be read.
    """
    check_size(part.source.cost_bytes(part.name), part.name.name)
    return _rows(part, list(part.entries(Selection())))


def _rows(part: StatePart, batches: Sequence[Batch]) -> pa.Table:
    """Return the rows of elements with their numbers."""
    tree, _ = part.programs()
    schema = pa.schema(list(tree.root))
    found = pa.Table.from_batches(
        [pa.RecordBatch.from_arrays(batch.arrays, schema=schema) for batch in batches], schema
    )
    numbers = np.arange(len(found), dtype=np.int64)
    if part.entry.kind is not StateKind.BROADCAST:
        found = found.append_column(_INDEX, pa.array(numbers.astype(np.int32)))
    return found.append_column(ROW, pa.array(numbers))


def _encoded(encoder: Encoder, state: str, rows: pa.Table, chosen: NDArray[np.bool_]) -> pa.LargeBinaryArray:
    """Return the bytes of some rows of a state."""
    wanted = rows.filter(pa.array(chosen)).combine_chunks()
    try:
        check_offsets(state, wanted)
        names = encoder.schema.names
        encoded = encoder.encode(pa.record_batch([array_of(wanted, name) for name in names], names))
    except WriterError as error:
        number = int(wanted.column(ROW)[error.row].as_py()) if error.row >= 0 else -1
        error.row = number if number < FIRST_ADDED else -1
        raise
    return encoded.array()


def _check_settable(part: StatePart, changes: GroupChanges) -> None:
    """Check that columns hold all of what statements set.

    Raises:
        RefusedEditError: they show bytes, or text of an object.
    """
    for path in _set_paths(changes):
        if path[0] not in (_VALUE, _KEY):
            continue
        if part.entry.is_raw(path[0]):
            raise RefusedEditError(
                f"{'.'.join(path)} cannot be set: {_reason(part, path[0])}; rows can be removed"
            )
        serializer = part.entry.value if path[0] == _VALUE else part.entry.map_key
        if serializer is None or isinstance(part.source, ConnectorSource):
            continue
        for refused, reason in Encoder.of(serializer).refusals:
            shorter = min(len(path), len(refused))
            if (_VALUE, *path[1:])[:shorter] == refused[:shorter]:
                raise RefusedEditError(f"{'.'.join(path)} cannot be set: {reason}")


def _set_paths(changes: GroupChanges) -> Iterator[tuple[str, ...]]:
    for layer, rows in changes.layers:
        if isinstance(layer, UpdatedRows):
            yield from layer.paths
        else:
            yield from ((name,) for name in rows.schema.names if name in (_VALUE, _KEY))


def _reason(part: StatePart, column: str) -> str:
    return next(problem.reason for problem in part.entry.problems() if problem.path[0] == column)


def _check_restored(
    part: StatePart, changes: GroupChanges, batches: Sequence[Batch], before: pa.Table
) -> None:
    """Check that the columns of rows that keep a part of their bytes hold all of it.

    Raises:
        RefusedEditError: a row has bytes that no column shows.
    """
    kept = _kept_in_part(part, changes)
    if not len(kept):
        return
    encoder = Encoder.of_part(part, 1)
    restored = np.concatenate([encoder.restores(batch) for batch in batches] or [np.empty(0, dtype=np.bool_)])
    for name in (UNDECODED, OUT_OF_RANGE):
        if name in before.schema.names:
            restored &= np.asarray(before.column(name).is_null())
    lost = kept[~restored[kept]]
    if len(lost):
        raise RefusedEditError(
            f"element {lost[0]} cannot be changed in part: its bytes hold something that its columns do not show; "
            "set the whole value, or leave it out by a WHERE"
        )


def _kept_in_part(part: StatePart, changes: GroupChanges) -> NDArray[np.int64]:
    """Return the numbers of rows of the source of which a statement sets only a part."""
    whole = (_VALUE, _KEY) if part.entry.kind is StateKind.BROADCAST else (_VALUE,)
    found = [
        np.asarray(rows.column(ROW))
        for layer, rows in changes.layers
        if isinstance(layer, UpdatedRows) and not layer.sets(*whole)
    ]
    numbers = united(found)
    return np.setdiff1d(numbers[numbers < FIRST_ADDED], changes.removed)


def _check_unique(part: StatePart, rows: pa.Table, is_new: NDArray[np.bool_]) -> None:
    """Check that no two entries of a broadcast state have one key, and that a new one has a key.

    Raises:
        RefusedEditError: two have, or one has none.
    """
    keys = array_of(rows, _KEY)
    if keys.filter(pa.array(is_new)).null_count:
        raise RefusedEditError("expected a key for each entry of a broadcast state, found NULL")
    encoder = Encoder.of(part.entry.part(_KEY))
    stored = encoder.encode(pa.record_batch([keys], [_VALUE])).array()
    codes = np.asarray(pc.dictionary_encode(stored.cast(pa.binary())).indices)
    order = np.argsort(codes, kind="stable")
    twice = np.flatnonzero(codes[order][1:] == codes[order][:-1])
    if len(twice):
        key = shown(keys[int(order[twice[0] + 1])])
        raise RefusedEditError(f"expected each key of a broadcast state once, found {key} twice")


def check_alike(copies: Sequence[StatePart], subtask: int) -> StatePart:
    """Return the copy of a subtask; every other copy has the same entries.

    Raises:
        RefusedEditError: a copy has others.
        ReaderError: a copy cannot be read.
    """
    first = next(copy for copy in copies if copy.source.subtask == subtask)
    expected = _entries(first)
    for copy in copies:
        if copy is not first and _entries(copy) != expected:
            raise RefusedEditError(
                f"expected equal copies of the broadcast state {first.name.name} in all subtasks, found others in subtasks "
                f"{subtask} and {copy.source.subtask}: to write them alike would lose entries"
            )
    return first


def _entries(copy: StatePart) -> list[bytes]:
    found: list[bytes] = []
    for page in copy.source.pages(copy.name, Selection()):
        found += stored_entries(page).to_pylist()
    return sorted(found)
