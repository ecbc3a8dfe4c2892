"""The headers of state files: which states a file holds, and in which types.

In: the first bytes of a state file. Out: the key serializer, the states with their kinds and serializers.

`readers.metainfo` reads one registered state: name, kind, serializers.

| header of keyed state (`KeyedBackendSerializationProxy`) | versions | |
|---|---|---|
| i4 | all | version: 1 (Flink 1.2) 2 3 (1.3) 4 (1.4, 1.5) 5 (1.6) 6 (since 1.7) |
| bool | 4– | key groups are compressed |
| key serializer | 1 2 / 3–5 / 6 | serializer proxy / pairs of one / block |
| i2 n, n × meta info | all | the states; the index of a state is its id in the data |

| header of operator state (`OperatorBackendSerializationProxy`) | versions | |
|---|---|---|
| i4 | all | version: 1 (Flink 1.2) 2 (1.3, 1.4) 3 (1.5) 4 (1.6) 5 (1.7–1.17) 6 (since 1.18) |
| bool | 6 | the state is compressed |
| i2 n, n × meta info | all | list states |
| i2 n, n × meta info | 3– | broadcast states |

A serializer snapshot has no length: only its class knows where it ends. Behind one that is not known, the header goes
on at a position that must be found. `read_resynchronised` guesses it: a position where something known begins, such
that the rest of the header can be read, up to the last byte where the end of the header is known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

from readers.cursor import Cursor
from readers.errors import ReaderError, UnsupportedSerializerError, hex_window
from readers.metainfo import (
    BROADCAST_READERS,
    DISTRIBUTION_MODE,
    KEYED_READERS,
    KEYED_STATE_TYPE,
    OPERATOR_READERS,
    SERIALIZER_KEYS,
    VALUE,
    StateMetaInfo,
    check_version,
    read_states,
)
from readers.serializers.base import OpaqueSerializer, Serializer
from readers.snapshots.reading import (
    ADAPTER_VERSION,
    COMPOSITE_MAGIC,
    NESTED_MAGIC,
    SnapshotReader,
    UnknownSnapshot,
    UnsupportedError,
    body_of,
    read_block,
    read_pairs,
    read_serializer_proxy,
    refuse,
    serializer_of,
)

# Limits of the search: it takes at most a few seconds on any bytes.
_MAX_ATTEMPTS = 500
_MAX_BYTES_PARSED = 4 << 20
_MAX_BYTES_SCANNED = 16 << 20
_MAX_BODY = 1 << 20
_MAX_NAME = 255
_MAX_SNAPSHOT_VERSION = 255

# Snappy's stream identifier, which stands before the first block of compressed operator state.
SNAPPY_HEADER_BYTES = 10


class Header(Protocol):
    """What the search asks of a header."""

    @property
    def data_start(self) -> int:
        """The first offset that the data behind the header can have."""
        ...


_H = TypeVar("_H", bound=Header)


def read_resynchronised(
    cursor: Cursor, read: Callable[[Cursor, UnknownSnapshot], _H], expected_end: int | None
) -> _H:
    """Read a header, again and again with other guesses, until it fits.

    Args:
        cursor: at the header; it then stands behind it.
        read: reads the header and hands snapshots that are not known to its second argument.
        expected_end: the end of the header according to the handle; None if the handle does not determine it.

    Raises:
        UnsupportedSerializerError: a snapshot is not known, and its end was not found.
        CorruptDataError: the bytes are no header.
    """
    start = cursor.position
    limit = cursor.end if expected_end is None else expected_end
    if limit > cursor.end:
        raise cursor.corrupt(f"expected a header up to byte {limit}, found the end at {cursor.end}")
    first_error: UnsupportedError | None = None
    # First as the exact end, then as a limit: a handle of rescaled state may begin at a later key group.
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
    """Return the first header that fits; None when there are no more guesses or the limits are reached."""
    start = cursor.position
    bytes_parsed = 0
    for _ in range(_MAX_ATTEMPTS):
        cursor.position = start
        try:
            header = read(cursor, guesses)
            if guesses.fits(header):
                return header
        except ReaderError:
            # Without a guess in force the error is that of the header itself.
            if not guesses.guesses:
                raise
        bytes_parsed += cursor.position - start
        if bytes_parsed > _MAX_BYTES_PARSED or not guesses.advance():
            return None
    return None


@dataclass(slots=True, kw_only=True)
class _Guess:
    """The guessed end of one unknown body (None: no guess is left), and the guesses to come."""

    end: int | None
    others: Iterator[int]


class _Guesses:
    """The `UnknownSnapshot` of a header: ends each unknown body where it is guessed to end.

    Args:
        limit: the last position at which the data can begin.
        is_exact: the data begin at exactly that position.
    """

    def __init__(self, limit: int, is_exact: bool) -> None:
        self.limit = limit
        self.is_exact = is_exact
        # By the position of the body, in the order in which reading came to them: `advance` goes back from the last.
        self.guesses: dict[int, _Guess] = {}
        self.scanned = 0
        self.error: UnsupportedError | None = None

    def __call__(self, snapshot: SnapshotReader, error: UnsupportedError) -> Serializer:
        self.error = self.error or error
        cursor = snapshot.cursor
        body = cursor.position
        if body not in self.guesses:
            # Behind a wrong guess any bytes may look like a nested snapshot: there the name must be that of one.
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
        """Take the next guess at the last body that has one; False if there is none.

        The bodies behind it are guessed anew. A body without any guess left is tried once more: then the snapshot
        around it is the unknown one.
        """
        while self.guesses:
            body, guess = self.guesses.popitem()
            if guess.end is not None:
                self.guesses[body] = _Guess(end=next(guess.others, None), others=guess.others)
                return True
        return False

    def fits(self, header: Header) -> bool:
        """Return whether the data can begin behind `header`."""
        # A header that was read without a guess is right, even if the handle states another end.
        if not self.guesses:
            return True
        return header.data_start == self.limit if self.is_exact else header.data_start <= self.limit

    def _ends(self, snapshot: SnapshotReader, body: int) -> Iterator[int]:
        """Yield guesses, the best first: behind nested snapshots; where something known begins; right here."""
        composite_end = self._composite_end(snapshot, body)
        if composite_end is not None:
            yield composite_end
        limit = min(self.limit, body + _MAX_BODY)
        window = bytes(snapshot.cursor.data[body:limit])
        for is_known in (True, False):
            yield from (body + at for at in _continuations(window, is_known))
        if self.is_exact and self.limit - body <= _MAX_BODY:
            # Two bytes before the end stands a count of states, which may be 0.
            distances = (0, 2, SNAPPY_HEADER_BYTES, SNAPPY_HEADER_BYTES + 2)
            ends = (self.limit - distance for distance in distances)
            yield from (end for end in ends if end >= body)
        elif not self.is_exact:
            yield body

    def _composite_end(self, snapshot: SnapshotReader, body: int) -> int | None:
        """Return the end of the nested snapshots of a `CompositeTypeSerializerSnapshot` with any outer body."""
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


def _continuations(window: bytes, is_known: bool) -> Iterator[int]:
    """Yield the positions where something begins that can stand behind a snapshot, ascending.

    Args:
        window: the bytes behind the snapshot's version.
        is_known: True for the key of the next serializer, the next state (or the count before it), and nested
            snapshots of known classes; False for nested snapshots of classes that are not known either.
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
                yield from (start for start in (name_start - 2, name_start) if start >= 0)


def _name_start(window: bytes, end: int) -> int | None:
    """Return where the utf begins that ends at `end`."""
    # No name holds a zero byte, so the last zero before the end is in the length of the utf.
    zero = window.rfind(0, max(0, end - 2 - _MAX_NAME), end)
    if zero >= 0 and int.from_bytes(window[zero : zero + 2], "big") == end - zero - 2:
        return zero
    return None


def _is_snapshot(window: bytes, at: int, is_known: bool) -> bool:
    """Return whether a snapshot class, known or not as asked, and a small version stand at `at`."""
    end = at + 2 + int.from_bytes(window[at : at + 2], "big")
    version = int.from_bytes(window[end : end + 4], "big")
    if end + 4 > len(window) or not (0 < version <= _MAX_SNAPSHOT_VERSION or version == ADAPTER_VERSION):
        return False
    name = window[at + 2 : end].decode("ascii", "replace")
    if body_of(name) is not None:
        return is_known
    return not is_known and _SNAPSHOT_NAME.fullmatch(name) is not None


def _utf(text: str) -> bytes:
    return len(text).to_bytes(2, "big") + text.encode()


_COMPOSITE = COMPOSITE_MAGIC.to_bytes(4, "big")
_NESTED = NESTED_MAGIC.to_bytes(4, "big") + (1).to_bytes(4, "big")
_CLASS_NAME = re.compile(r"[\w$]+(?:\.[\w$]+)*")
_SNAPSHOT_NAME = re.compile(r"[\w$.]*(?:Snapshot|Config)[\w$]*")
# A state is recognised by the bytes behind its name: the kind and its one option, or a timer's kind and no option.
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


_FIRST_WITH_BROADCAST_STATES = 3
_FIRST_COMPRESSED_OPERATOR_STATE = 6


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
    compressed = cursor.boolean() if version >= _FIRST_COMPRESSED_OPERATOR_STATE else False
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
