"""Java-serialised serializers, found and handed to `java`, which knows them all and is loaded for the first of them.

| serializer proxy (`TypeSerializerSerializationProxy`) | |
|---|---|
| i4 | version, 1 |
| i4 n, n bytes | a Java object stream |
"""

from __future__ import annotations

from readers.cursor import Cursor
from readers.errors import UnsupportedVersionError
from readers.serializers.base import Serializer

_PROXY_VERSION = 1


def read_serializer_proxy(cursor: Cursor) -> Cursor:
    """Return a cursor at the Java stream of a serializer proxy; `cursor` moves behind it.

    Flink: TypeSerializerSerializationUtil$TypeSerializerSerializationProxy#read (since 1.2)

    Raises:
        UnsupportedVersionError: a version other than 1.
    """
    start = cursor.position
    version = cursor.i4()
    if version != _PROXY_VERSION:
        raise UnsupportedVersionError(
            f"expected a serializer proxy of version {_PROXY_VERSION}, found {version}",
            path=cursor.path,
            position=start,
        )
    return cursor.sub(cursor.i4(), "Java-serialised serializer")


def serializer_of(stream: Cursor) -> Serializer:
    """Return the serializer that a Java stream holds; opaque, also when nested, where its class is not known.

    Raises:
        CorruptDataError: a broken stream, or a serializer without the fields of its class.
    """
    from readers.snapshots import java  # heavy, and Flink stores no such serializers since 1.17

    return java.serializer_of(stream)


def as_stored(stream: Cursor, described: Serializer) -> Serializer:
    """Return the serializer that a snapshot describes, corrected by the Java serializer beside it."""
    from readers.snapshots import java  # as above

    return java.as_stored(stream, described)
