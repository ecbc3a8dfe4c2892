"""The header of an operator state file: which list and broadcast states it holds, and in which types.

| header (`OperatorBackendSerializationProxy`) | versions | |
|---|---|---|
| i4 | all | version: 1 (Flink 1.2) 2 (1.3, 1.4) 3 (1.5) 4 (1.6) 5 (1.7–1.17) 6 (since 1.18) |
| bool | 6 | the state is compressed |
| i2 n, n × meta info | all | list states |
| i2 n, n × meta info | 3– | broadcast states |
"""

from __future__ import annotations

from dataclasses import dataclass

from readers.cursor import Cursor
from readers.headers.metainfo import (
    BROADCAST_READERS,
    OPERATOR_READERS,
    StateMetaInfo,
    check_version,
    read_states,
)
from readers.headers.recovery import SNAPPY_HEADER_BYTES, read_resynchronised
from readers.snapshots.reading import UnknownSnapshot, refuse

_FIRST_WITH_BROADCAST_STATES = 3
_FIRST_WITH_COMPRESSION = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorHeader:
    """The header of an operator state file.

    Attributes:
        version: of the header.
        compressed: the state is a snappy stream.
        operator_states: list and union list states.
        broadcast_states: broadcast states.
        end: position behind the header.
    """

    version: int
    compressed: bool
    operator_states: tuple[StateMetaInfo, ...]
    broadcast_states: tuple[StateMetaInfo, ...]
    end: int

    @property
    def data_start(self) -> int:
        """The first offset that a state can have: behind the identifier of a snappy stream, if any."""
        return self.end + SNAPPY_HEADER_BYTES if self.compressed else self.end


def read_operator_header(cursor: Cursor, expected_end: int | None = None) -> OperatorHeader:
    """Read the header of operator state; the cursor then stands behind it.

    Args:
        cursor: at the header.
        expected_end: the smallest offset of a state, or the end of a file without any.

    Raises:
        UnsupportedVersionError: a header version that is not known.
        UnsupportedSerializerError: a serializer snapshot is not known, and its end was not found.
        CorruptDataError: the bytes are no header.
    """
    return read_resynchronised(cursor, read_known_operator_header, expected_end)


def read_known_operator_header(cursor: Cursor, unknown: UnknownSnapshot = refuse) -> OperatorHeader:
    """Read a header whose serializers are all known; see `read_operator_header`.

    Raises:
        ReaderError: one is not known and `unknown` refuses it, or the bytes are no header or not all of it.
    """
    version = cursor.i4()
    check_version(version, OPERATOR_READERS, "an operator state header", cursor)
    compressed = cursor.boolean() if version >= _FIRST_WITH_COMPRESSION else False
    operator_states = read_states(cursor, OPERATOR_READERS[version], unknown)
    broadcast_states: tuple[StateMetaInfo, ...] = ()
    if version >= _FIRST_WITH_BROADCAST_STATES:
        broadcast_states = read_states(cursor, BROADCAST_READERS[version], unknown)
    return OperatorHeader(
        version=version,
        compressed=compressed,
        operator_states=operator_states,
        broadcast_states=broadcast_states,
        end=cursor.position,
    )
