"""`Snapshot`: the body of a serializer snapshot, as the serializer of its class reads it.

A snapshot is the schema that Flink stores before the data: `utf class, i4 version, body`. Each family of serializers
declares in its `SNAPSHOTS` which function reads the body of which snapshot class. That function sees this protocol
alone: the registry of all families stands above it, in `readers.snapshots`, and nested snapshots are read through
`nested`, `versioned` and `framed`. So no serializer imports the table that it is listed in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from readers.cursor import Cursor
from readers.serializers.base import Serializer

# `SimpleTypeSerializerSnapshot` repeats the serializer class in version 2 (Flink 1.7) and has no body from 3 on.
_SIMPLE_WITHOUT_BODY = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionalEntry:
    """One entry of a `LinkedOptionalMap`: a frame is None where Flink no longer found the class or field."""

    name: str
    key: Cursor | None
    value: Cursor | None


class Snapshot(Protocol):
    """The body of one serializer snapshot.

    Attributes:
        cursor: at the body; a reader leaves it behind the body.
        class_name: the snapshot class.
        version: the version of the snapshot class, not of the block around it.
    """

    cursor: Cursor
    class_name: str
    version: int

    def versioned(self) -> Serializer:
        """Read a nested snapshot: utf class, i4 version, body."""
        ...

    def composite(self) -> int:
        """Read the head of a composite snapshot and return its outer version; the outer body is next, then `nested`."""
        ...

    def nested(self, expected: int | None = None) -> tuple[Serializer, ...]:
        """Read the nested snapshots of a delegate: `expected` of them, if given.

        Raises:
            CorruptDataError: another number of them, or no delegate.
        """
        ...

    def is_at_nested(self) -> bool:
        """Return whether the nested snapshots of a delegate are next; reads nothing."""
        ...

    def optional_map(self) -> Iterator[OptionalEntry]:
        """Yield the entries of a `LinkedOptionalMap`."""
        ...

    def framed(self, entry: OptionalEntry) -> Serializer:
        """Read the serializer in the value frame of an entry; opaque where its class is not known."""
        ...


SnapshotBody: TypeAlias = Callable[[Snapshot], Serializer]
"""Reads the body of one serializer snapshot class; the values of the `SNAPSHOTS` tables."""


def simple_body(serializer: Serializer) -> SnapshotBody:
    """Return the reader of a `SimpleTypeSerializerSnapshot`, whose serializer has no parameters."""

    def read(snapshot: Snapshot) -> Serializer:
        if snapshot.version < _SIMPLE_WITHOUT_BODY:
            snapshot.cursor.utf("serializer class")
        return serializer

    return read


def composite_body(serializer: Callable[..., Serializer], count: int) -> SnapshotBody:
    """Return the reader of a `CompositeTypeSerializerSnapshot` without an outer body.

    Args:
        serializer: makes the serializer from the nested ones, in their order.
        count: the number of nested serializers.
    """

    def read(snapshot: Snapshot) -> Serializer:
        # The outer version does not matter: there is no outer body that could differ.
        snapshot.composite()
        return serializer(*snapshot.nested(count))

    return read
