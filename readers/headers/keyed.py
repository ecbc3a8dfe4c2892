"""The header of a state file: which states it holds, in which types.

| keyed (`KeyedBackendSerializationProxy`) | versions | |
|---|---|---|
| i4 | all | version: 1 (Flink 1.2) 2 3 (1.3) 4 (1.4, 1.5) 5 (1.6) 6 (since 1.7) |
| bool | 4– | key groups are compressed |
| key serializer | 1 2 / 3–5 / 6 | serializer proxy / pairs of one / block |
| i2 n, n × meta info | all | the states; the index of one is its id in the data |

| operator (`OperatorBackendSerializationProxy`) | versions | |
|---|---|---|
| i4 | all | version: 1 (Flink 1.2) 2 (1.3, 1.4) 3 (1.5) 4 (1.6) 5 (1.7–1.17) 6 (since 1.18) |
| bool | 6 | the state is compressed |
| i2 n, n × meta info | all | list states |
| i2 n, n × meta info | 3– | broadcast states |

A serializer snapshot has no length. Behind one that is not known the header goes on at a place that must be
found: where something known begins, such that all the rest can be read, and to the last byte where the end
is known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from readers.errors import ReaderError, UnsupportedSerializerError, hex_window
from readers.headers.metainfo import (
    BROADCAST_READERS,
    DISTRIBUTION_MODE,
    KEYED_READERS,
    KEYED_STATE_TYPE,
    OPERATOR_READERS,
    SERIALIZER_KEYS,
    VALUE,
    MetaInfoReader,
    StateMetaInfo,
    check_version,
)
from readers.serializers.base import OpaqueSerializer
from readers.snapshots.legacy import config_snapshot_body, read_serializer_proxy, serializer_of
from readers.snapshots.reading import (
    ADAPTER_VERSION,
    COMPOSITE_MAGIC,
    NESTED_MAGIC,
    SnapshotReader,
    UnknownSnapshot,
    UnsupportedError,
    read_block,
    read_pairs,
)
from readers.snapshots.registry import snapshot_body

if TYPE_CHECKING:
    from readers.cursor import Cursor
    from readers.serializers.base import Serializer

# Limits of the search behind an unknown snapshot: it stays within a few seconds on any bytes.
_MAX_ATTEMPTS = 500
_MAX_BYTES_PARSED = 4 << 20
_MAX_BYTES_SCANNED = 16 << 20
_MAX_BODY = 1 << 20
_MAX_NAME = 255
_MAX_SNAPSHOT_VERSION = 255

# Snappy's stream identifier, which stands before the first block of compressed operator state.
_SNAPPY_HEADER_BYTES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedHeader:
    """The header of a keyed state file.

    Attributes:
        version: of the header.
        compressed: the key groups are snappy streams.
        key_serializer: of the keys of all states.
        states: in the order of their ids.
        end: position behind the header.
    """

    version: int
    compressed: bool
    key_serializer: Serializer
    states: tuple[StateMetaInfo, ...]
    end: int

    @property
    def data_start(self) -> int:
        """The first offset that a key group can have."""
        return self.end


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
        return self.end + _SNAPPY_HEADER_BYTES if self.compressed else self.end


def read_keyed_header(cursor: Cursor, expected_end: int | None = None) -> KeyedHeader:
    """The header of keyed state; the cursor then stands behind it.

    Args:
        cursor: at the header.
        expected_end: where the header ends as far as is known from elsewhere: the smallest key group offset
            that is not 0, or the end of a file that holds nothing else. It helps behind unknown serializers.

    Raises:
        UnsupportedVersionError: a header version that is not known.
        UnsupportedSerializerError: a serializer snapshot is not known, and what is behind it was not found.
        CorruptDataError: the bytes are no header.
    """
    return _resynchronised(cursor, _read_keyed_header, expected_end)


def read_known_keyed_header(cursor: Cursor) -> KeyedHeader:
    """As `read_keyed_header`, of which all serializers are known: then it does not matter what stands behind it.

    Raises:
        ReaderError: one is not known, or the bytes are no header or not all of it.
    """
    return _read_keyed_header(cursor, _not_known)


def read_operator_header(cursor: Cursor, expected_end: int | None = None) -> OperatorHeader:
    """The header of operator state; the cursor then stands behind it.

    Args:
        cursor: at the header.
        expected_end: the smallest offset of a state, or the end of a file without any.

    Raises:
        UnsupportedVersionError: a header version that is not known.
        UnsupportedSerializerError: a serializer snapshot is not known, and what is behind it was not found.
        CorruptDataError: the bytes are no header.
    """
    return _resynchronised(cursor, _read_operator_header, expected_end)


def read_known_operator_header(cursor: Cursor) -> OperatorHeader:
    """As `read_operator_header`, of which all serializers are known.

    Raises:
        ReaderError: one is not known, or the bytes are no header or not all of it.
    """
    return _read_operator_header(cursor, _not_known)


def _not_known(_snapshot: SnapshotReader, error: UnsupportedError) -> Serializer:
    raise error


def _read_keyed_header(cursor: Cursor, unknown: UnknownSnapshot) -> KeyedHeader:
    version = cursor.i4()
    check_version(version, KEYED_READERS, "a keyed state header", cursor)
    compressed = cursor.boolean() if version >= 4 else False
    key_serializer = _key_serializer(cursor, version, unknown)
    return KeyedHeader(
        version=version,
        compressed=compressed,
        key_serializer=key_serializer,
        states=_states(cursor, KEYED_READERS[version], unknown),
        end=cursor.position,
    )


def _key_serializer(cursor: Cursor, version: int, unknown: UnknownSnapshot) -> Serializer:
    if version <= 2:
        return serializer_of(read_serializer_proxy(cursor))
    if version <= 5:
        start = cursor.position
        serializers = read_pairs(cursor)
        if len(serializers) != 1:
            raise cursor.corrupt(f"expected one key serializer, found {len(serializers)}", start)
        return serializers[0]
    return read_block(cursor, unknown=unknown)


def _read_operator_header(cursor: Cursor, unknown: UnknownSnapshot) -> OperatorHeader:
    version = cursor.i4()
    check_version(version, OPERATOR_READERS, "an operator state header", cursor)
    compressed = cursor.boolean() if version >= 6 else False
    operator_states = _states(cursor, OPERATOR_READERS[version], unknown)
    broadcast_states: tuple[StateMetaInfo, ...] = ()
    if version >= 3:
        broadcast_states = _states(cursor, BROADCAST_READERS[version], unknown)
    return OperatorHeader(
        version=version,
        compressed=compressed,
        operator_states=operator_states,
        broadcast_states=broadcast_states,
        end=cursor.position,
    )


def _states(cursor: Cursor, read: MetaInfoReader, unknown: UnknownSnapshot) -> tuple[StateMetaInfo, ...]:
    start = cursor.position
    count = cursor.i2()
    if count < 0:
        raise cursor.corrupt(f"expected a number of states, found {count}", start)
    return tuple(read(cursor, unknown) for _ in range(count))


# ---- behind unknown snapshots ----


class _Header(Protocol):
    @property
    def data_start(self) -> int: ...


_H = TypeVar("_H", bound=_Header)


@dataclass(slots=True, kw_only=True)
class _Guess:
    """Where the body of an unknown snapshot ends: the guess in force (None: none is left), those to come."""

    end: int | None
    others: Iterator[int]


class _Guesses:
    """The `UnknownSnapshot` of a header: an unknown body ends where it is guessed to, until all of it fits.

    Args:
        limit: where the data begin at the latest.
        is_exact: they begin just there.
    """

    def __init__(self, limit: int, is_exact: bool) -> None:
        self.limit = limit
        self.is_exact = is_exact
        # By the position of the body, in the order in which they were met.
        self.guesses: dict[int, _Guess] = {}
        self.scanned = 0
        self.error: UnsupportedError | None = None

    def __call__(self, snapshot: SnapshotReader, error: UnsupportedError) -> Serializer:
        self.error = self.error or error
        cursor = snapshot.cursor
        body = cursor.position
        if body not in self.guesses:
            # Behind a wrong guess anything may look like a nested snapshot: there the name has to say so.
            is_expected = not self.guesses or snapshot.depth == 0
            name = _CLASS_NAME if is_expected else _SNAPSHOT_NAME
            if name.fullmatch(snapshot.class_name) is None:
                raise cursor.corrupt(f"expected a snapshot class, found {snapshot.class_name!r:.100}")
            self.scanned += min(self.limit - body, _MAX_BODY)
            if self.scanned > _MAX_BYTES_SCANNED:
                raise error
            ends = self._ends(snapshot, body)
            end = next(ends, None)
            self.guesses[body] = _Guess(end=end, others=ends)
        end = self.guesses[body].end
        if end is None or end > cursor.end:
            raise error
        cursor.position = end
        return OpaqueSerializer(snapshot.class_name, error.message)

    def advance(self) -> bool:
        """Take the next guess at the last body that has one; those behind it are met anew.

        A body without any guess left is tried once more: then the snapshot around it is the unknown one.
        """
        while self.guesses:
            body, guess = self.guesses.popitem()
            if guess.end is not None:
                self.guesses[body] = _Guess(end=next(guess.others, None), others=guess.others)
                return True
        return False

    def fits(self, header: _Header) -> bool:
        if not self.guesses:
            return True
        return header.data_start == self.limit if self.is_exact else header.data_start <= self.limit

    def _ends(self, snapshot: SnapshotReader, body: int) -> Iterator[int]:
        """Guesses, the best first: behind nested snapshots; where something known begins; right here."""
        composite_end = self._composite_end(snapshot, body)
        if composite_end is not None:
            yield composite_end
        limit = min(self.limit, body + _MAX_BODY)
        window = bytes(snapshot.cursor.data[body:limit])
        for is_known in (True, False):
            yield from (body + at for at in _continuations(window, is_known))
        if self.is_exact and self.limit - body <= _MAX_BODY:
            # Two bytes from the end is a count of states, which may be 0.
            distances = (0, 2, _SNAPPY_HEADER_BYTES, _SNAPPY_HEADER_BYTES + 2)
            ends = (self.limit - distance for distance in distances)
            yield from (end for end in ends if end >= body)
        elif not self.is_exact:
            yield body

    def _composite_end(self, snapshot: SnapshotReader, body: int) -> int | None:
        """Behind the nested snapshots of a `CompositeTypeSerializerSnapshot`, whatever its outer body is."""
        cursor = snapshot.cursor
        if bytes(cursor.data[body : body + 4]) not in (_COMPOSITE, _NESTED[:4]):
            return None
        window = bytes(cursor.data[body : min(self.limit, body + _MAX_BODY)])
        at = window.find(_NESTED)
        if at < 0:
            return None
        try:
            cursor.position = body + at
            snapshot.nested()
        except ReaderError:
            return None
        else:
            return cursor.position
        finally:
            cursor.position = body


def _resynchronised(
    cursor: Cursor, read: Callable[[Cursor, UnknownSnapshot], _H], expected_end: int | None
) -> _H:
    """The header, read again with other guesses until it fits.

    The end is taken as exact first, and as a limit next: a handle of rescaled state may begin at a later key
    group.
    """
    start = cursor.position
    limit = cursor.end if expected_end is None else expected_end
    if limit > cursor.end:
        raise cursor.corrupt(f"expected a header up to byte {limit}, found the end at {cursor.end}")
    first_error: UnsupportedError | None = None
    for is_exact in (True, False) if expected_end is not None else (False,):
        guesses = _Guesses(limit, is_exact)
        header = _search(cursor, read, guesses)
        if header is not None:
            return header
        first_error = first_error or guesses.error
        cursor.position = start
    if first_error is None:
        raise cursor.corrupt("expected a state header")
    position = first_error.position or start
    raise UnsupportedSerializerError(
        f"{first_error.message}; could not read on behind it; bytes {hex_window(cursor.data, position)}",
        path=cursor.path,
        position=first_error.position,
        breadcrumbs=first_error.breadcrumbs,
    ) from first_error


def _search(cursor: Cursor, read: Callable[[Cursor, UnknownSnapshot], _H], guesses: _Guesses) -> _H | None:
    start = cursor.position
    bytes_parsed = 0
    for _ in range(_MAX_ATTEMPTS):
        cursor.position = start
        try:
            header = read(cursor, guesses)
            if guesses.fits(header):
                return header
        except ReaderError:
            if not guesses.guesses:
                raise
        bytes_parsed += cursor.position - start
        if bytes_parsed > _MAX_BYTES_PARSED or not guesses.advance():
            return None
    return None


def _continuations(window: bytes, is_known: bool) -> Iterator[int]:
    """Where something begins that can stand behind a snapshot, ascending.

    Args:
        window: the bytes behind the snapshot's version.
        is_known: the key of the next serializer, the next state (or the count before it), or the next nested
            snapshot, if its class is known; else nested snapshots of classes that are not known either.
    """
    for match in _ANCHOR.finditer(window):
        at = match.start()
        if match["snapshot"] is not None:
            if _is_snapshot(window, at, is_known):
                yield at
        elif is_known and match["key"] is not None:
            yield at
        elif is_known:
            name_start = _name_start(window, at)
            if name_start is not None:
                yield from (found for found in (name_start - 2, name_start) if found >= 0)


def _name_start(window: bytes, end: int) -> int | None:
    """Where the utf begins that ends at `end`: no name holds a zero, so the last zero is in its length."""
    zero = window.rfind(0, max(0, end - 2 - _MAX_NAME), end)
    if zero >= 0 and int.from_bytes(window[zero : zero + 2], "big") == end - zero - 2:
        return zero
    return None


def _is_snapshot(window: bytes, at: int, is_known: bool) -> bool:
    """Whether the class of a snapshot, known or not, and a small version are there."""
    end = at + 2 + int.from_bytes(window[at : at + 2], "big")
    version = int.from_bytes(window[end : end + 4], "big")
    if end + 4 > len(window) or not (0 < version <= _MAX_SNAPSHOT_VERSION or version == ADAPTER_VERSION):
        return False
    name = window[at + 2 : end].decode("ascii", "replace")
    if (config_snapshot_body(name) or snapshot_body(name)) is not None:
        return is_known
    return not is_known and _SNAPSHOT_NAME.fullmatch(name) is not None


def _utf(text: str) -> bytes:
    return len(text).to_bytes(2, "big") + text.encode()


_COMPOSITE = COMPOSITE_MAGIC.to_bytes(4, "big")
_NESTED = NESTED_MAGIC.to_bytes(4, "big") + (1).to_bytes(4, "big")
_CLASS_NAME = re.compile(r"[\w$]+(?:\.[\w$]+)*")
_SNAPSHOT_NAME = re.compile(r"[\w$.]*(?:Snapshot|Config)[\w$]*")
# A state is recognised by what follows its name: the kind and its one option, or those of a timer, with none.
_ANCHOR = re.compile(
    rb"(?=(?P<key>%b))"
    rb"|(?=(?P<state>\x00{3}[\x00-\x04]\x00{3}\x01(?:%b|%b)|\x00{3}\x03\x00{7}\x01%b))"
    rb"|(?=(?P<snapshot>[\x00-\x03][\x00-\xff][A-Za-z_$][\w$.]))"
    % (
        b"|".join(_utf(key) for key in SERIALIZER_KEYS),
        _utf(KEYED_STATE_TYPE),
        _utf(DISTRIBUTION_MODE),
        _utf(VALUE),
    ),
    re.DOTALL,
)
