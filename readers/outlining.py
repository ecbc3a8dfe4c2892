"""The outline of a savepoint from the bytes of `_metadata` alone: the same as `Savepoint.outline`, several times faster.

A list of thousands of savepoints asks each of them. This walk makes no object of what it steps over. It knows what most savepoints
have: versions 4 to 6, keyed state of canonical savepoints, of the hashmap backend and of RocksDB, operator state, names in ASCII. Where
there is anything else, damaged bytes among it, it returns None: the reader of `_metadata` then decides, and says what is wrong.
The layouts are those of `readers.metadata.reader` and `readers.metadata.handles`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

import numpy as np

from readers.connectors.names import CONNECTOR_STATES
from readers.errors import ReaderError
from readers.formats.beginning import bytes_outline, first_offset, header_outline
from readers.formats.heap.source import key_groups_outline
from readers.formats.operatorstate.source import elements_outline
from readers.metadata import (
    MAGIC,
    FileStateHandle,
    Mode,
    Offsets,
    RelativeFileStateHandle,
    StateRole,
)
from readers.outlines import handle_outline, operator_outline, savepoint_outline
from readers.recognition import STATE_INFO_FILE_NAME
from readers.storage.location import (
    DEFAULT_OPTIONS,
    BufferStream,
    ReadCounter,
    SavepointLocation,
    StorageOptions,
    Stream,
)

_VERSIONS = range(4, 7)
_FIRST_WITH_NAMES = 5
_JAVA_STREAM_HEADER = b"\xac\xed\x00\x05"
_MAX_KEY_GROUPS = 1 << 15
_FULLY_FINISHED = -1
_INLINE, _FILE, _RELATIVE = 1, 2, 6
_KEY_GROUPS, _OPERATOR, _SAVEPOINT, _INCREMENTAL, _KEY_GROUPS_V2 = 3, 4, 7, 11, 12
_NAMES = frozenset(name.encode() for name in CONNECTOR_STATES)

_I4 = struct.Struct(">i").unpack_from
_I8 = struct.Struct(">q").unpack_from
_TWO_I4 = struct.Struct(">ii").unpack_from


class _UnusualError(Exception):
    """Something that this walk does not know."""


def quick_outline(
    path: str,
    *,
    roots: Iterable[str] = (),
    path_map: Mapping[str, str] | None = None,
    options: StorageOptions = DEFAULT_OPTIONS,
) -> bytes | None:
    """Return the outline of a savepoint on this machine without a `stateInfo`; None if it has to be opened for its outline.

    The arguments are those of `Savepoint`.
    """
    try:
        location = SavepointLocation(path, roots=roots, path_map=path_map, options=options)
        if not location.is_local or location.has_beside(STATE_INFO_FILE_NAME):
            return None
        with location.open_metadata() as stream:
            data = stream.data.tobytes()
        return _Walk(data, location).outline()
    # Behind its end a buffer has no bytes and no numbers. Whoever opens the savepoint gets the error, with its place.
    except (_UnusualError, ReaderError, IndexError, struct.error):
        return None


class _Walk:
    """A walk over the bytes of `_metadata`.

    Each step takes the position where something begins, and returns the position behind it.
    """

    def __init__(self, data: bytes, location: SavepointLocation) -> None:
        self._data = data
        self._location = location

    def outline(self) -> bytes:
        """Return the outline.

        Raises:
            _UnusualError: something is not known here.
            IndexError, struct.error: the bytes end too early.
        """
        data = self._data
        magic, version = _TWO_I4(data, 0)
        if magic != MAGIC or version not in _VERSIONS or _I8(data, 8)[0] < 0:
            raise _UnusualError
        master_states, operators = _TWO_I4(data, 16)
        if master_states or operators < 0:
            raise _UnusualError
        position, found = 24, []
        for _ in range(operators):
            position, operator = self._operator(position, version)
            found.append(operator)
        if data[position : position + len(_JAVA_STREAM_HEADER)] != _JAVA_STREAM_HEADER:
            raise _UnusualError
        return savepoint_outline(version, "", found)

    def _operator(self, position: int, version: int) -> tuple[int, bytes]:
        data = self._data
        name = uid = b""
        if version >= _FIRST_WITH_NAMES:
            position, name = self._text(position)
            position, uid = self._text(position)
        operator_id = data[position : position + 16].hex()
        parallelism, max_parallelism = _TWO_I4(data, position + 16)
        # A coordinator's bytes may be of a connector.
        if parallelism <= 0 or data[position + 24]:
            raise _UnusualError
        (subtasks,) = _I4(data, position + 25)
        position += 29
        if subtasks < 0 and subtasks != _FULLY_FINISHED:
            raise _UnusualError
        handles: list[tuple[int, list[bytes]]] = []
        for _ in range(subtasks):
            (index,) = _I4(data, position)
            position += 4
            if index < 0:
                if -(index + 1) >= parallelism:
                    raise _UnusualError
                continue
            if index >= parallelism:
                raise _UnusualError
            position, own = self._subtask(position)
            handles.append((index, own))
        handles.sort(key=lambda one: one[0])
        in_order = (handle for _, own in handles for handle in own)
        return position, operator_outline(operator_id, uid, name, max_parallelism, (), in_order)

    def _subtask(self, position: int) -> tuple[int, list[bytes]]:
        """Walk over managed and raw operator state, managed and raw keyed state, and two counts of channels."""
        data, found = self._data, []
        (flag,) = _I4(data, position)
        position += 4
        if flag == 1:
            position, state = self._operator_state(position)
            found.append(state)
        elif flag:
            raise _UnusualError
        (flag,) = _I4(data, position)
        tag = data[position + 4]
        position += 5
        if flag:
            raise _UnusualError
        if tag:
            keyed = _KEYED.get(tag)
            if keyed is None:
                raise _UnusualError
            position, state = keyed(self, position)
            found.append(state)
        # Raw keyed state, and the channels of inputs and of results.
        if data[position] or _TWO_I4(data, position + 1) != (0, 0):
            raise _UnusualError
        return position + 9, found

    def _operator_state(self, position: int) -> tuple[int, bytes]:
        data = self._data
        if data[position] != _OPERATOR:
            raise _UnusualError
        (count,) = _I4(data, position + 1)
        position += 5
        infos: list[tuple[bytes, Offsets]] = []
        if count < 0:
            raise _UnusualError
        for _ in range(count):
            position, name = self._text(position)
            if name in _NAMES or data[position] > max(Mode):
                raise _UnusualError
            (elements,) = _I4(data, position + 1)
            position, offsets = self._offsets(position + 5, elements)
            infos.append((name, offsets))
        position, stream = self._stream(position)
        found = elements_outline(infos, self._opened(stream))
        return position, _handle(StateRole.MANAGED_OPERATOR, "OperatorOpener", found)

    def _savepoint(self, position: int) -> tuple[int, bytes]:
        position, _, offsets = self._key_groups_of(position)
        position, stream = self._stream(position)
        found = self._header(stream, first_offset(offsets))
        return position, _handle(StateRole.MANAGED_KEYED, "FullOpener", found)

    def _key_groups(self, position: int) -> tuple[int, bytes]:
        position, first, offsets = self._key_groups_of(position)
        position, stream = self._stream(position)
        found = key_groups_outline(self._opened(stream), offsets, first)
        return position, _handle(StateRole.MANAGED_KEYED, "KeyGroupsOpener", found)

    def _key_groups_v2(self, position: int) -> tuple[int, bytes]:
        position, found = self._key_groups(position)
        return self._text(position)[0], found

    def _incremental(self, position: int) -> tuple[int, bytes]:
        """Walk over i8 checkpoint id; utf; range; i8 size; meta stream; shared and private files; utf."""
        position, _ = self._text(position + 8)
        position, _, _ = self._range(position)
        position, meta = self._stream(position + 8)
        for _ in range(2):
            (files,) = _I4(self._data, position)
            position += 4
            if files < 0:
                raise _UnusualError
            for _ in range(files):
                position, _ = self._text(position)
                position, _ = self._stream(position)
        position, _ = self._text(position)
        return position, _handle(StateRole.MANAGED_KEYED, "RocksOpener", self._header(meta, None))

    # ---- parts ----

    def _text(self, position: int) -> tuple[int, bytes]:
        data = self._data
        start = position + 2
        end = start + (data[position] << 8 | data[position + 1])
        text = data[start:end]
        if end > len(data) or not text.isascii():
            raise _UnusualError
        return end, text

    def _range(self, position: int) -> tuple[int, int, int]:
        """Walk over a range of key groups; return its first one and their number, too."""
        first, count = _TWO_I4(self._data, position)
        if first < 0 or count < 0 or first + count > _MAX_KEY_GROUPS:
            raise _UnusualError
        return position + 8, first, count

    def _key_groups_of(self, position: int) -> tuple[int, int, Offsets]:
        """Walk over a range of key groups and their offsets; return the first one and these, too."""
        position, first, count = self._range(position)
        position, offsets = self._offsets(position, count)
        return position, first, offsets

    def _offsets(self, position: int, count: int) -> tuple[int, Offsets]:
        end = position + 8 * count
        if count < 0 or end > len(self._data):
            raise _UnusualError
        return end, np.frombuffer(self._data, dtype=">i8", count=count, offset=position)

    def _stream(self, position: int) -> tuple[int, tuple[int, int, bytes]]:
        """Walk over a stream; return its tag, its size, and its bytes or its path, too."""
        data = self._data
        tag = data[position]
        if tag == _INLINE:
            position, _ = self._text(position + 1)
            (size,) = _I4(data, position)
            position += 4
            end = position + size
            if size < 0 or end > len(data):
                raise _UnusualError
            return end, (tag, size, data[position:end])
        if tag == _FILE:
            (size,) = _I8(data, position + 1)
            position, path = self._text(position + 9)
            return position, (tag, size, path)
        if tag == _RELATIVE:
            position, path = self._text(position + 1)
            (size,) = _I8(data, position)
            return position + 8, (tag, size, path)
        raise _UnusualError

    def _header(self, stream: tuple[int, int, bytes], end: int | None) -> bytes | None:
        tag, _, content = stream
        return bytes_outline(content, end) if tag == _INLINE else header_outline(self._opened(stream), end)

    def _opened(self, stream: tuple[int, int, bytes]) -> Stream:
        tag, size, content = stream
        if tag == _INLINE:
            return BufferStream("", content, ReadCounter())
        path = content.decode()
        if tag == _FILE:
            return self._location.open_stream(FileStateHandle(state_size=size, file_path=path))
        return self._location.open_stream(RelativeFileStateHandle(relative_path=path, state_size=size))


def _handle(role: StateRole, opener: str, found: bytes | None) -> bytes:
    if found is None:
        raise _UnusualError
    return handle_outline(role.name, opener, found)


_KEYED = {
    _KEY_GROUPS: _Walk._key_groups,
    _SAVEPOINT: _Walk._savepoint,
    _INCREMENTAL: _Walk._incremental,
    _KEY_GROUPS_V2: _Walk._key_groups_v2,
}
