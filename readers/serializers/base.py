"""`Serializer`: how one value is laid out; `Snapshot`: what a serializer is read from. The seam between value types and everything else.

A serializer does not decode. It *declares*: `arrow()` returns the type of its column, `emit(program)` describes its bytes.
`fixed_length` decides which composite keys of RocksDB are ambiguous. `hash_code` and `encode` find the key group and the
bytes of a key, so that a predicate on the key reads one key group only.

A snapshot is the schema that Flink stores before the data: `utf class, i4 version, body`. Each family of serializers
declares in its `SNAPSHOTS` which function reads the body of which snapshot class. That function sees this protocol
alone: the registry of all families stands above it, in `readers.snapshots`, and nested snapshots are read through
`nested`, `versioned` and `framed`. So no serializer imports the table that it is listed in.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, ClassVar, Protocol, TypeAlias

import pyarrow as pa

from readers.cursor import Cursor
from readers.decode.program import Program
from readers.errors import UnsupportedSerializerError


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A field of a value, or the whole of it, that is not decoded.

    Attributes:
        path: the names that lead to it, outermost first; empty for the value itself.
        reason: why it is not decoded, with the name of the class.
        sized: the end of its bytes is known, so the rest of the value is decoded.
    """

    path: tuple[str, ...]
    reason: str
    sized: bool


class Layout(Protocol):
    """The column type and the bytes of one value."""

    def arrow(self) -> pa.DataType:
        """Return the column type."""
        ...

    def emit(self, program: Program) -> None:
        """Declare the layout of one value, into the current column of `program`."""
        ...


class Serializer(ABC):
    """One node of a type tree. Immutable. A subclass has `arrow` and `emit`, or a `layout` that has them."""

    __slots__ = ()

    java_class: ClassVar[str]  # binary name of the TypeSerializer class
    name: ClassVar[str]  # `type_name` as a format of its attributes: `List<{self.element.type_name}>`
    is_nullable: ClassVar[bool] = True  # False if no bytes of a value stand for null
    fixed_length: int = -1  # `TypeSerializer#getLength`, -1 for variable

    def __init_subclass__(cls, *, package: str = "") -> None:
        """Name the class of Flink: that of the same name in `package`, which ends with `.`, or with `$` and a class around it."""
        super().__init_subclass__()
        if package:
            cls.java_class = package + cls.__name__

    @property
    def type_name(self) -> str:
        """The type as a Flink user writes it: `String`, `Map<String, Long>`, `Tuple2<String, Integer>`."""
        return self.name.format(self=self)

    @property
    def layout(self) -> Layout:
        """The column type and the bytes of a value."""
        raise NotImplementedError

    def arrow(self) -> pa.DataType:
        """Return the column type."""
        return self.layout.arrow()

    def emit(self, program: Program) -> None:
        """Declare the layout of one value, into the current column of `program`."""
        self.layout.emit(program)

    @property
    def children(self) -> tuple[tuple[str, Serializer], ...]:
        """The nested serializers, each with its name in paths."""
        return ()

    @property
    def is_open(self) -> bool:
        """True if a value may be of a class that the savepoint does not describe, as it is here: a subclass of a POJO."""
        return any(child.is_open for _, child in self.children)

    @property
    def is_assumed(self) -> bool:
        """True if the classes of jars say how a part of a value is laid out: they may be those of another version of the job."""
        return any(child.is_assumed for _, child in self.children)

    @property
    def has_outliers(self) -> bool:
        """True if there are values that the column type cannot hold; see `readers.decode.columns`."""
        return any(child.has_outliers for _, child in self.children)

    @property
    def is_unquoted(self) -> bool:
        """True if its values are texts that never begin with a quotation mark, and were JSON text in earlier versions."""
        return False

    @property
    def serializer_name(self) -> str:
        """The serializer with its parameters, short: `ListSerializer<LongSerializer>`."""
        name = self.java_class.rsplit(".", 1)[-1]
        inner = ", ".join(child.serializer_name for _, child in self.children)
        return f"{name}<{inner}>" if inner else name

    def problems(self) -> Iterator[Problem]:
        """Yield the fields of a value that are not decoded."""
        for name, child in self.children:
            for problem in child.problems():
                yield Problem(path=(name, *problem.path), reason=problem.reason, sized=problem.sized)

    def hash_code(self, value: Any) -> int | None:  # a value of any SQL type
        """Return Java's `hashCode` of `value` as an int32; None where the value alone does not determine it."""
        return None

    def encode(self, value: Any) -> bytes | None:  # a value of any SQL type
        """Return the bytes that Flink writes for `value`; None where they are not unique or not known."""
        return None


class RecordSerializer(Serializer):
    """A record whose bytes carry no field names: f0, f1, … unless `stateInfo` names them."""

    __slots__ = ()

    @property
    @abstractmethod
    def width(self) -> int:
        """The number of fields."""

    @abstractmethod
    def with_names(self, names: tuple[str, ...]) -> RecordSerializer:
        """Return the same serializer with `names` for its fields, one for each."""


class UndescribedSerializer(Serializer):
    """A serializer whose snapshot does not describe its values: that of Kryo."""

    __slots__ = ()

    @property
    @abstractmethod
    def holds_objects(self) -> bool:
        """True if values are neither numbers nor plain texts: no frame marks their ends."""

    @abstractmethod
    def in_older_version(self) -> UndescribedSerializer:
        """Return it as the Kryo before its own wrote it; the same one if there was none before."""


def field_names(count: int, names: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return `names`; f0, f1, … if there are none."""
    return names or tuple(f"f{index}" for index in range(count))


class OpaqueSerializer(Serializer):
    """A serializer class that is not known: the value is shown as its bytes, where the format frames them."""

    __slots__ = ("java_class", "reason")

    def __init__(self, java_class: str, reason: str) -> None:
        self.java_class = java_class  # type: ignore[misc]  # every instance has its own
        self.reason = reason

    name = "{self.java_class}"

    def arrow(self) -> pa.DataType:
        return pa.binary()

    def emit(self, program: Program) -> None:
        message = f"expected a known serializer, found {self.java_class}: {self.reason}"
        raise UnsupportedSerializerError(message)

    def problems(self) -> Iterator[Problem]:
        yield Problem(path=(), reason=f"{self.java_class}: {self.reason}", sized=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpaqueSerializer) and other.java_class == self.java_class

    def __hash__(self) -> int:
        return hash(self.java_class)


def nodes(tree: Any) -> Iterator[Serializer]:
    """Yield the serializers of a type tree, innermost first."""
    parts = tree if isinstance(tree, tuple) else _attributes(tree).values()
    for part in parts:
        yield from nodes(part)
    if isinstance(tree, Serializer):
        yield tree


def rebuild(serializer: Serializer, change: Callable[[Serializer], Serializer]) -> Serializer:
    """Return a type tree whose serializers went through `change`, innermost first; the same one if nothing changed."""
    return _rebuild(serializer, change)  # type: ignore[no-any-return]  # a serializer stays one


def undescribed(tree: Serializer) -> Iterator[UndescribedSerializer]:
    """Yield the serializers of a type tree whose snapshots do not describe their values."""
    if UndescribedSerializer.__subclasses__():
        yield from (node for node in nodes(tree) if isinstance(node, UndescribedSerializer))


def rebuild_undescribed(serializer: Serializer, change: Callable[[Any], Serializer]) -> Serializer:
    """Return `rebuild` of the serializers that `undescribed` yields."""
    # Their class is loaded by the first savepoint that has one: as long as it is not, no tree has any.
    if not UndescribedSerializer.__subclasses__():
        return serializer
    return rebuild(serializer, lambda node: change(node) if isinstance(node, UndescribedSerializer) else node)


def _rebuild(node: Any, change: Callable[[Serializer], Serializer]) -> Any:
    """Rebuild a node of a type tree: a serializer, one of its attributes, or a tuple."""
    if isinstance(node, tuple):
        items = tuple(_rebuild(item, change) for item in node)
        return items if any(new is not old for new, old in zip(items, node, strict=True)) else node
    old = _attributes(node)
    new = {name: _rebuild(value, change) for name, value in old.items()}
    if any(new[name] is not value for name, value in old.items()):
        node = replace(node, **new)
    return change(node) if isinstance(node, Serializer) else node


def _attributes(node: Any) -> dict[str, Any]:
    """Return the attributes that a node of a type tree is made of; none if it is not made of any."""
    if not is_dataclass(node) or isinstance(node, type):
        return {}
    return {attribute.name: getattr(node, attribute.name) for attribute in fields(node) if attribute.init}


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


KRYO_2_24 = 2
KRYO_5 = 5
