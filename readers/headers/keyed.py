"""The header of a keyed state file: which states it holds, and in which types.

| header (`KeyedBackendSerializationProxy`) | versions | |
|---|---|---|
| i4 | all | version: 1 (Flink 1.2) 2 3 (1.3) 4 (1.4, 1.5) 5 (1.6) 6 (since 1.7) |
| bool | 4– | key groups are compressed |
| key serializer | 1 2 / 3–5 / 6 | serializer proxy / pairs of one / block |
| i2 n, n × meta info | all | the states; the index of a state is its id in the data |
"""

from __future__ import annotations

from dataclasses import dataclass

from readers.cursor import Cursor
from readers.headers.metainfo import KEYED_READERS, StateMetaInfo, check_version, read_states
from readers.headers.recovery import read_resynchronised
from readers.serializers.base import Serializer
from readers.snapshots.proxies import read_serializer_proxy, serializer_of
from readers.snapshots.reading import UnknownSnapshot, read_block, read_pairs, refuse

_FIRST_WITH_COMPRESSION = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedHeader:
    """The header of a keyed state file.

    Attributes:
        version: of the header.
        compressed: the key groups are snappy streams.
        key_serializer: of the keys of all states.
        key_block: where its snapshot begins and ends in the header.
        key_classes: the classes of its serializer snapshots; since version 6 only.
        states: in the order of their ids.
        end: position behind the header.
    """

    version: int
    compressed: bool
    key_serializer: Serializer
    key_block: tuple[int, int]
    states: tuple[StateMetaInfo, ...]
    end: int
    key_classes: frozenset[str] = frozenset()

    @property
    def data_start(self) -> int:
        """The first offset that a key group can have."""
        return self.end


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredHeader:
    """The header of a keyed state file, and its bytes.

    Attributes:
        data: the bytes.
        header: what they say.
    """

    data: bytes
    header: KeyedHeader


def read_keyed_header(cursor: Cursor, expected_end: int | None = None) -> KeyedHeader:
    """Read the header of keyed state; the cursor then stands behind it.

    Args:
        cursor: at the header.
        expected_end: the end of the header according to the handle: the smallest key group offset that is not 0, or
            the end of a file that holds nothing else. It helps behind unknown serializers.

    Raises:
        UnsupportedVersionError: a header version that is not known.
        UnsupportedSerializerError: a serializer snapshot is not known, and its end was not found.
        CorruptDataError: the bytes are no header.
    """
    return read_resynchronised(cursor, read_known_keyed_header, expected_end)


def read_known_keyed_header(cursor: Cursor, unknown: UnknownSnapshot = refuse) -> KeyedHeader:
    """Read a header whose serializers are all known: then its end does not depend on the bytes behind it.

    Raises:
        ReaderError: one is not known and `unknown` refuses it, or the bytes are no header or not all of it.
    """
    version = cursor.i4()
    check_version(version, KEYED_READERS, "a keyed state header", cursor)
    compressed = cursor.boolean() if version >= _FIRST_WITH_COMPRESSION else False
    key_start = cursor.position
    met: list[str] = []
    key_serializer = _key_serializer(cursor, version, unknown, met)
    return KeyedHeader(
        version=version,
        compressed=compressed,
        key_serializer=key_serializer,
        key_block=(key_start, cursor.position),
        states=read_states(cursor, KEYED_READERS[version], unknown),
        end=cursor.position,
        key_classes=frozenset(met),
    )


def _key_serializer(cursor: Cursor, version: int, unknown: UnknownSnapshot, met: list[str]) -> Serializer:
    if version <= 2:
        return serializer_of(read_serializer_proxy(cursor))
    if version <= 5:
        start = cursor.position
        serializers = read_pairs(cursor)
        if len(serializers) != 1:
            raise cursor.corrupt(f"expected one key serializer, found {len(serializers)}", start)
        return serializers[0]
    return read_block(cursor, unknown=unknown, met=met)
