"""Serializer snapshots: the schema that Flink stores before the data.

A snapshot is `utf class, i4 version, body`. The body has no length: only its class knows where it ends.

| form | bytes | Flink |
|---|---|---|
| versioned | utf class, i4 version, body | `TypeSerializerSnapshot#writeVersionedSnapshot` (since 1.7) |
| block | i4 2 (1 in 1.3–1.6), versioned | `TypeSerializerSnapshotSerializationUtil` |
| nested | i4 1333245, i4 1, i4 n, n × versioned | `NestedSerializersSnapshotDelegate` |
| composite | i4 911108, i4 outer version, outer body, nested | `CompositeTypeSerializerSnapshot` (1.8) |
| optional map | i8 0x4F2C69A3D70, i4 n, n × (utf name, frame, frame) | `LinkedOptionalMapSerializer` |
| its frame | bool present, i4 length, key or value | |
| adapted | utf class, i4 0x7A53C4F0, serializer proxy, i4 version, body | 1.7–1.16: `java`, `legacy` |
| serializer proxy | i4 1, i4 n, n bytes of a Java object stream | `TypeSerializerSerializationProxy` (1.2) |
| pairs | i4 n, n × (i4 offset of serializer, i4 of block), i4 length, n × (serializer proxy, block) | |

*Pairs*: `TypeSerializerSerializationUtil#writeSerializersAndConfigsWithResilience` (1.3–1.16).

To add a type: write its serializer and its line in the `SNAPSHOTS` of its family; nothing else names types. A family is loaded when a
savepoint has a class that it may know: most savepoints have classes of one or two. Java-serialised serializers are handed to `java`,
which knows them all and is loaded for the first of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

from readers.cursor import Cursor
from readers.errors import ReaderError, UnsupportedSerializerError, UnsupportedVersionError
from readers.serializers.base import OpaqueSerializer, OptionalEntry, Serializer, SnapshotBody

if TYPE_CHECKING:
    from readers.snapshots.legacy import ConfigSnapshotBody


NESTED_MAGIC = 1333245
COMPOSITE_MAGIC = 911108
OPTIONAL_MAP_MAGIC = 0x4F2C69A3D70
ADAPTER_VERSION = 0x7A53C4F0
BLOCK_VERSIONS = (1, 2)
# The base class of snapshots that need their Java-serialised serializer beside them.
CONFIG_SNAPSHOT = "org.apache.flink.api.common.typeutils.TypeSerializerConfigSnapshot"
_COMPOSITE_VERSION = 3  # since 1.8; before, composite snapshots wrote their body without a head
_MAX_DEPTH = 48  # a nested snapshot takes a few bytes and some Python calls


UnknownSnapshot: TypeAlias = "Callable[[SnapshotReader, UnsupportedError], Serializer]"
"""Handles a snapshot that is not known: it moves the cursor behind the body, or raises the error."""

UnsupportedError = UnsupportedSerializerError | UnsupportedVersionError


def refuse(_snapshot: SnapshotReader, error: UnsupportedError) -> Serializer:
    """Raise the error: the `UnknownSnapshot` that accepts none."""
    raise error


@dataclass(slots=True, eq=False)
class SnapshotReader:
    """The body of one serializer snapshot: the `Snapshot` and `ConfigSnapshot` that readers of bodies are given.

    Attributes:
        cursor: at the body.
        class_name: the snapshot class.
        version: the version of the snapshot class.
        depth: the number of snapshots around it.
        unknown: handles nested snapshots that are not known.
        serializer: the Java stream of the serializer, which stands beside snapshots of before 1.17; else None.
        met: the snapshot classes that were read, its own and nested ones among them.
    """

    cursor: Cursor
    class_name: str
    version: int
    depth: int
    unknown: UnknownSnapshot
    serializer: Cursor | None
    met: list[str]

    def versioned(self) -> Serializer:
        """Read a nested snapshot."""
        return read_versioned(self.cursor, self.depth + 1, self.unknown, met=self.met)

    def composite(self) -> int:
        """Read the head of a composite and return its outer version, before 1.8 that of the snapshot; see `Snapshot`."""
        if self.version < _COMPOSITE_VERSION:
            return self.version
        self._magic(COMPOSITE_MAGIC, "composite snapshot")
        return self.cursor.i4()

    def nested(self, expected: int | None = None) -> tuple[Serializer, ...]:
        """Read the nested snapshots of a delegate: `expected` of them, if given."""
        self._magic(NESTED_MAGIC, "nested snapshots")
        version = self.cursor.i4()
        if version != 1:
            raise self.cursor.corrupt(f"expected nested snapshots of version 1, found {version}")
        count = self.cursor.count("nested snapshots", 6)
        if expected is not None and count != expected:
            raise self.cursor.corrupt(f"expected {expected} nested snapshots, found {count}")
        return tuple(self.versioned() for _ in range(count))

    def is_at_nested(self) -> bool:
        """Return whether nested snapshots are next."""
        cursor = self.cursor
        return bytes(cursor.data[cursor.position : cursor.end][:4]) == NESTED_MAGIC.to_bytes(4, "big")

    def optional_map(self) -> Iterator[OptionalEntry]:
        """Yield the entries of a `LinkedOptionalMap`, each frame with a cursor of its own."""
        start = self.cursor.position
        magic = self.cursor.i8()
        if magic != OPTIONAL_MAP_MAGIC:
            raise self.cursor.corrupt(f"expected an optional map, found {magic:#x}", start)
        for _ in range(self.cursor.count("map entries", 4)):
            name = self.cursor.utf("name")
            key = self.cursor.sub(self.cursor.i4()) if self.cursor.boolean() else None
            value = self.cursor.sub(self.cursor.i4()) if self.cursor.boolean() else None
            yield OptionalEntry(name=name, key=key, value=value)

    def framed(self, entry: OptionalEntry) -> Serializer:
        """Read the serializer in the value frame of an entry; opaque where its class is not known."""
        if entry.value is None:
            return OpaqueSerializer(entry.name, "the savepoint has no serializer for it")
        # The frame has a length, so the end of an unknown class is known.
        try:
            return read_versioned(entry.value, self.depth + 1, met=self.met)
        except (UnsupportedSerializerError, UnsupportedVersionError) as error:
            return OpaqueSerializer(_class_of(error), error.message)

    def pairs(self, expected: int | None = None) -> tuple[Serializer, ...]:
        """Read the nested serializers of a snapshot of before 1.7: `expected` of them, if given."""
        start = self.cursor.position
        serializers = read_pairs(self.cursor, self.depth + 1)
        if expected is not None and len(serializers) != expected:
            count = len(serializers)
            raise self.cursor.corrupt(f"expected {expected} nested serializers, found {count}", start)
        return serializers

    def pairs_at(self, buffer: Cursor, offsets: list[int]) -> tuple[Serializer, ...]:
        """Read the pairs at `offsets` of a buffer, where POJO snapshots of before 1.8 hold them."""
        return read_pairs_at(buffer, offsets, self.depth + 1)

    def _magic(self, magic: int, what: str) -> None:
        start = self.cursor.position
        found = self.cursor.i4()
        if found != magic:
            raise self.cursor.corrupt(f"expected {what} ({magic}), found {found}", start)


def read_versioned(
    cursor: Cursor,
    depth: int = 0,
    unknown: UnknownSnapshot = refuse,
    serializer: Cursor | None = None,
    met: list[str] | None = None,
) -> Serializer:
    """Read a versioned snapshot.

    Args:
        cursor: at the snapshot.
        depth: the number of snapshots around it.
        unknown: handles a snapshot class, or a version of one, that is not known.
        serializer: the Java stream of the serializer, where it stands beside the snapshot.
        met: the snapshot classes that are read are added to it.

    Raises:
        UnsupportedSerializerError: the class is not known, and `unknown` refused it.
        UnsupportedVersionError: the version is not known, and `unknown` refused it.
        CorruptDataError: the bytes are no snapshot.
    """
    if depth > _MAX_DEPTH:
        raise cursor.corrupt(f"serializer snapshots nest deeper than {_MAX_DEPTH} levels")
    name = cursor.utf("snapshot class")
    version = cursor.i4()
    is_adapted = version == ADAPTER_VERSION
    if is_adapted:
        serializer = read_serializer_proxy(cursor)
        version = cursor.i4()
    snapshot = SnapshotReader(cursor, name, version, depth, unknown, serializer, [] if met is None else met)
    snapshot.met.append(name)
    if is_adapted:
        snapshot.met.append(CONFIG_SNAPSHOT)
    body = body_of(name) or _unknown_class
    body_start = cursor.position
    try:
        return body(snapshot)
    except (UnsupportedSerializerError, UnsupportedVersionError) as error:
        # With the Java object at hand the type is known all the same; `unknown` only finds the end of the body.
        cursor.position = body_start
        opaque = unknown(snapshot, error)
        return opaque if serializer is None else serializer_of(serializer)


def body_of(class_name: str) -> SnapshotBody | ConfigSnapshotBody | None:
    """Return the reader for a snapshot class or config snapshot class; None where it is not known."""
    # The names of all config snapshots have this word. What reads them knows every family; Flink stores none since 1.17.
    if "Config" in class_name:
        from readers.snapshots.legacy import config_snapshot_body

        config = config_snapshot_body(class_name)
        if config is not None:
            return config
    return snapshot_body(class_name)


def _unknown_class(snapshot: SnapshotReader) -> Serializer:
    raise UnsupportedSerializerError(
        f"expected a known serializer snapshot, found {snapshot.class_name} version {snapshot.version}",
        path=snapshot.cursor.path,
        position=snapshot.cursor.position,
        breadcrumbs=(snapshot.class_name,),
    )


def read_block(
    cursor: Cursor,
    depth: int = 0,
    unknown: UnknownSnapshot = refuse,
    serializer: Cursor | None = None,
    met: list[str] | None = None,
) -> Serializer:
    """Read a snapshot block; the arguments are those of `read_versioned`.

    Raises:
        UnsupportedVersionError: neither version 1 nor 2; or a snapshot of a version that is not known.
        UnsupportedSerializerError: a snapshot class that is not known.
    """
    start = cursor.position
    version = cursor.i4()
    if version not in BLOCK_VERSIONS:
        raise UnsupportedVersionError(
            f"expected a serializer snapshot block of version 1 or 2, found {version}",
            path=cursor.path,
            position=start,
        )
    return read_versioned(cursor, depth, unknown, serializer, met)


def read_pairs(cursor: Cursor, depth: int = 0) -> tuple[Serializer, ...]:
    """Read pairs of a Java-serialised serializer and its snapshot. The snapshot decides, if it is known.

    Raises:
        CorruptDataError: offsets that do not ascend through the buffer, or a broken snapshot.
    """
    count = cursor.count("serializers", 8)
    offsets = [cursor.i4() for _ in range(2 * count)]
    return read_pairs_at(cursor.sub(cursor.i4(), "serializers and their snapshots"), offsets, depth)


def read_pairs_at(buffer: Cursor, offsets: list[int], depth: int) -> tuple[Serializer, ...]:
    """Read the pairs at `offsets` (serializer, snapshot, serializer, …) of a buffer; see `read_pairs`."""
    # Each reaches up to the next offset. Pairs that overlap would let a small buffer nest into endless work.
    for offset, following in pairwise([0, *offsets, buffer.remaining]):
        if offset > following:
            raise buffer.corrupt(f"expected ascending offsets, found {following} behind {offset}")
    frames = [
        Cursor(buffer.data, path=buffer.path, position=buffer.position + start, end=buffer.position + end)
        for start, end in pairwise([*offsets, buffer.remaining])
    ]
    return tuple(_pair(*pair, depth) for pair in zip(frames[::2], frames[1::2], strict=True))


def _pair(serializer_proxy: Cursor, snapshot: Cursor, depth: int) -> Serializer:
    serializer = read_serializer_proxy(serializer_proxy)
    try:
        return as_stored(serializer, read_block(snapshot, depth, serializer=serializer))
    except (UnsupportedSerializerError, UnsupportedVersionError):
        return serializer_of(serializer)


def _class_of(error: ReaderError) -> str:
    return error.breadcrumbs[-1] if error.breadcrumbs else "?"


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


def snapshot_body(class_name: str) -> SnapshotBody | None:
    """Return the reader for a snapshot class; None where it is not known."""
    body = _body(class_name)
    # Jars that shade Flink have a prefix of their own before its package.
    if body is None and not class_name.startswith(_FLINK):
        at = class_name.find("." + _FLINK)
        body = _body(class_name[at + 1 :]) if at >= 0 else None
    return body


def has_snapshot(class_name: str) -> bool:
    """Return whether a snapshot class is known."""
    return _body(class_name) is not None


def families() -> Iterator[tuple[str, Mapping[str, SnapshotBody]]]:
    """Yield the title of each family, as the README shows it, and its snapshot classes; loads all families."""
    return ((title, _snapshots(module)) for title, module in FAMILIES.items())


def _body(class_name: str) -> SnapshotBody | None:
    likely = next((modules for package, modules in _LIKELY.items() if class_name.startswith(package)), ())
    # A package is a hint alone: the family that knows the class may be any.
    for module in dict.fromkeys((*likely, *FAMILIES.values())):
        body = _snapshots(module).get(class_name)
        if body is not None:
            return body
    return None


@cache
def _snapshots(module: str) -> Mapping[str, SnapshotBody]:
    snapshots: Mapping[str, SnapshotBody] = import_module(module).SNAPSHOTS
    return snapshots


_FLINK = "org.apache.flink."
_SERIALIZERS = "readers.serializers."

FAMILIES: dict[str, str] = {
    "numbers, text, bytes, times": _SERIALIZERS + "primitives",
    "lists, maps, arrays, enums": _SERIALIZERS + "containers",
    "tuples, rows": _SERIALIZERS + "structs",
    "POJOs, records": _SERIALIZERS + "pojo",
    "Kryo 2 and 5": _SERIALIZERS + "kryo.serializer",
    "Avro": _SERIALIZERS + "avro",
    "Scala": _SERIALIZERS + "scala",
    "SQL": _SERIALIZERS + "table.rowdata",
    "records of operators and sinks": _SERIALIZERS + "operators",
    "variants": _SERIALIZERS + "table.variants",
    "CEP": _SERIALIZERS + "cep",
}
"""Title, as the README shows it → the module whose `SNAPSHOTS` are the snapshot classes of the family."""

_LIKELY: dict[str, tuple[str, ...]] = {
    _FLINK + "api.common.typeutils.base.": (
        FAMILIES["numbers, text, bytes, times"],
        FAMILIES["lists, maps, arrays, enums"],
    ),
    _FLINK + "api.java.typeutils.runtime.kryo.": (FAMILIES["Kryo 2 and 5"],),
    _FLINK + "api.java.typeutils.runtime.Pojo": (FAMILIES["POJOs, records"],),
    _FLINK + "api.java.typeutils.runtime.": (FAMILIES["tuples, rows"],),
    _FLINK + "streaming.": (FAMILIES["records of operators and sinks"],),
    _FLINK + "runtime.state.ttl.": (FAMILIES["records of operators and sinks"],),
    _FLINK + "formats.avro.": (FAMILIES["Avro"],),
    _FLINK + "api.scala.": (FAMILIES["Scala"],),
    _FLINK + "table.": (FAMILIES["SQL"],),
    _FLINK + "cep.": (FAMILIES["CEP"],),
}
"""Beginning of a class name → the families to look in first."""
