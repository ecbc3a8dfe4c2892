"""The layout of a connector's value, the names of the states that have one, and the framing that all connectors share.

| framing | bytes |
|---|---|
| versioned value | i4 version, i4 length, bytes |
| versioned list | i4 version, i4 count, count × (i4 length, bytes) |

Flink: SimpleVersionedSerialization#writeVersionAndSerialize, #writeVersionAndSerializeList.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from readers.cursor import Cursor
from readers.errors import UnsupportedVersionError

COORDINATOR_STATE = "coordinator state"
READER_STATE = "SourceReaderState"
CONNECTOR_STATES = frozenset(
    {READER_STATE, COORDINATOR_STATE, "writer_raw_states", "bucket-states", "streaming_committer_raw_states"}
)
"""What has no state of such a name needs no connector."""


_LAST = (1 << 63) - 1
ASSIGNED = "ASSIGNED"


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetBounds:
    """The offsets from which a source can read on.

    Attributes:
        least, greatest: the offsets that stand for themselves.
        named: other numbers, each with its meaning.
    """

    least: int = 0
    greatest: int = _LAST
    named: Mapping[int, str] = field(default_factory=dict)

    def problem(self, offset: int | None) -> str:
        """Return why no source can read on from an offset; empty if it can, or if there is none."""
        if offset is None or self.least <= offset <= self.greatest or offset in self.named:
            return ""
        end = " on" if self.greatest == _LAST else f" to {self.greatest}"
        named = "".join(f", or {number} ({name})" for number, name in self.named.items())
        return f"expected an offset from {self.least}{end}{named}, found {offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOffset:
    """The offset of a source in one split or partition.

    Attributes:
        topic, partition: None for sources without topics.
        starting_offset: the next offset to read; negative numbers have a meaning of the connector.
        stopping_offset: the offset at which the source stops; None if it never stops.
        bounds: the starting offsets that the source can have.
        details: other fields of the split, for JSON.
    """

    topic: str | None = None
    partition: int | None = None
    starting_offset: int | None = None
    stopping_offset: int | None = None
    bounds: OffsetBounds = OffsetBounds()
    details: dict[str, Any]

    @property
    def problem(self) -> str:
        """Why the source cannot read on from its starting offset; empty if it can."""
        if self.partition is not None and self.partition < 0:
            return f"expected a partition from 0 on, found {self.partition}"
        return self.bounds.problem(self.starting_offset)


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of one value of a connector.

    Attributes:
        connector: name of the connector in Flink SQL: `kafka`, `filesystem`.
        java_class: class of the value.
        type: Arrow type of the result of `read`.
        read: cursor over one value → dicts, lists and scalars of that type. It need not check for the end.
        offsets: value → offsets of the source.
        starting_offset_at: bytes from the i8 of the starting offset to the end of the value; None where no i8 holds it.
    """

    connector: str
    java_class: str
    type: pa.DataType
    read: Callable[[Cursor], Any]
    offsets: Callable[[Any], Iterator[SourceOffset]] | None = None
    starting_offset_at: int | None = None

    def read_whole(self, data: bytes | memoryview, path: str | None = None) -> Any:
        """Read one value, which must end with the bytes.

        Raises:
            CorruptDataError: the bytes have another layout.
            UnsupportedVersionError: the version is unknown.
        """
        cursor = Cursor(data, path=path)
        value = self.read(cursor)
        expect_end(cursor)
        return value


def versioned(cursor: Cursor) -> tuple[int, Cursor]:
    """Read a versioned value: its version and a cursor over its bytes."""
    version = cursor.i4()
    return version, cursor.sub(cursor.i4(), "versioned value")


def versioned_list(cursor: Cursor) -> tuple[int, list[Cursor]]:
    """Read a versioned list: its version and a cursor over each element."""
    version = cursor.i4()
    count = cursor.count("versioned values", 4)
    return version, [cursor.sub(cursor.i4(), "versioned value") for _ in range(count)]


def check_version(cursor: Cursor, what: str, found: int, first: int, last: int | None = None) -> None:
    """Check that a version is one of `first` to `last`.

    Raises:
        UnsupportedVersionError: it is another.
    """
    last = first if last is None else last
    if not first <= found <= last:
        known = str(first) if first == last else f"{first} {'or' if last == first + 1 else 'to'} {last}"
        message = f"expected {what} of version {known}, found {found}"
        raise UnsupportedVersionError(message, path=cursor.path, position=cursor.position)


def expect_end(cursor: Cursor) -> None:
    """Check that no bytes are left.

    Raises:
        CorruptDataError: bytes are left.
    """
    if cursor.remaining:
        raise cursor.corrupt(f"expected the end of the value, found {cursor.remaining} bytes more")


def flag(cursor: Cursor) -> bool:
    """Read a byte 0 or 1.

    Raises:
        CorruptDataError: any other byte.
    """
    start = cursor.position
    found = cursor.u1()
    if found > 1:
        raise cursor.corrupt(f"expected a flag 0 or 1, found {found}", start)
    return found == 1


def named(cursor: Cursor, names: tuple[str, ...], what: str) -> str:
    """Read an i4 and return the name that it stands for.

    Raises:
        CorruptDataError: it stands for none.
    """
    ordinal = cursor.i4()
    if not 0 <= ordinal < len(names):
        raise cursor.corrupt(f"expected {what} below {len(names)}, found {ordinal}", cursor.position - 4)
    return names[ordinal]


ReadVersion = Callable[[int, Cursor], Any]
Offsets = Callable[[Any], Iterator[SourceOffset]]


def whole(read: ReadVersion, version: int, body: Cursor) -> Any:
    """Read a value, which must end with its bytes."""
    value = read(version, body)
    expect_end(body)
    return value


def versioned_layout(
    connector: str,
    java_class: str,
    data_type: pa.DataType,
    read: ReadVersion,
    offsets: Offsets | None = None,
    starting_offset_at: int | None = None,
) -> Layout:
    """Make the layout of a versioned value, an element of operator state; `read` gets its version and bytes."""

    def read_value(cursor: Cursor) -> Any:
        return whole(read, *versioned(cursor))

    return Layout(connector, java_class, data_type, read_value, offsets, starting_offset_at)


def coordinator_layout(
    connector: str,
    java_class: str,
    data_type: pa.DataType,
    read: ReadVersion,
    offsets: Offsets | None = None,
    splits: str = "splits",
) -> Layout:
    """Make the layout of a source's coordinator: i4 version of the coordinator, 0 or 1; the enumerator as a versioned value.

    In version 0 (Flink 1.12) splits that were assigned since may follow: Flink does not restore them, so they are not
    shown. Flink: SourceCoordinator#toBytes, SourceCoordinatorSerdeUtils.

    Args:
        connector, java_class, data_type, read: as of a versioned value.
        offsets: split → its offsets; the readers' own state is newer for splits that are assigned to one.
        splits: the member that holds the splits.
    """

    def read_value(cursor: Cursor) -> Any:
        coordinator_version = cursor.i4()
        check_version(cursor, "a source coordinator", coordinator_version, 0, 1)
        value = whole(read, *versioned(cursor))
        if coordinator_version == 0:
            cursor.position = cursor.end
        return value

    def offsets_left(state: dict[str, Any]) -> Iterator[SourceOffset]:
        for split in state.get(splits, ()):
            if offsets is not None and split.get("assignment_status") != ASSIGNED:
                yield from offsets(split)

    return Layout(connector, java_class, data_type, read_value, None if offsets is None else offsets_left)
