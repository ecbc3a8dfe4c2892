"""`Serializer`: how one value is laid out. The seam between value types and everything else.

A serializer does not decode. It *declares*: `arrow()` says which column its values become, `emit(program)` how the bytes
are laid out. What else a reader must know of it: `minimum`, `fixed_length`, whether keys of it hash (`hash_code`) and can be
written (`encode`), so that a key predicate reads one key group.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, ClassVar

import pyarrow as pa

from readers.decode.program import Program
from readers.errors import UnsupportedSerializerError


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A part of a value that is not decoded.

    Attributes:
        path: where in the value, outermost first; empty for the value itself.
        reason: why, naming the class.
        sized: whether the bytes of that part can be told from what follows (then the rest of the value is decoded).
    """

    path: tuple[str, ...]
    reason: str
    sized: bool


class Serializer(ABC):
    """One node of a type tree. Immutable."""

    __slots__ = ()

    java_class: ClassVar[str]  # the TypeSerializer class, binary name
    is_nullable: ClassVar[bool] = True  # whether the bytes of a value may say null
    fixed_length: int = -1  # `TypeSerializer#getLength`, -1 for variable: which RocksDB keys are ambiguous

    @property
    @abstractmethod
    def type_name(self) -> str:
        """The type as a Flink user writes it: `String`, `Map<String, Long>`, `Tuple2<String, Integer>`."""

    @abstractmethod
    def arrow(self) -> pa.DataType:
        """The column type."""

    @abstractmethod
    def emit(self, program: Program) -> None:
        """Declare the layout of one value, into the program's current column."""

    @property
    def children(self) -> tuple[tuple[str, Serializer], ...]:
        """The nested serializers with the name of the path that leads there."""
        return ()

    @property
    def is_open(self) -> bool:
        """Whether a value may be of a class that the savepoint does not describe: a subclass of a POJO."""
        return any(child.is_open for _, child in self.children)

    @property
    def has_outliers(self) -> bool:
        """Whether there are values that the column type cannot hold; see `readers.decode.outliers`."""
        return any(child.has_outliers for _, child in self.children)

    @property
    def serializer_name(self) -> str:
        """The serializer with its parameters, short: `ListSerializer<LongSerializer>`."""
        name = self.java_class.rsplit(".", 1)[-1]
        inner = ", ".join(child.serializer_name for _, child in self.children)
        return f"{name}<{inner}>" if inner else name

    def problems(self) -> Iterator[Problem]:
        """What of a value is not decoded."""
        for name, child in self.children:
            for problem in child.problems():
                yield Problem(path=(name, *problem.path), reason=problem.reason, sized=problem.sized)

    def hash_code(self, value: Any) -> int | None:  # a value of any SQL type
        """Java's `hashCode` of `value` as an int32; None where it cannot be known from the value."""
        return None

    def encode(self, value: Any) -> bytes | None:  # a value of any SQL type
        """The bytes Flink writes for `value`; None where they are not unique or not known."""
        return None


class RecordSerializer(Serializer):
    """Records whose bytes carry no field names: f0, f1, … unless they are known from elsewhere."""

    __slots__ = ()

    @property
    @abstractmethod
    def width(self) -> int:
        """The number of fields."""

    @abstractmethod
    def with_names(self, names: tuple[str, ...]) -> RecordSerializer:
        """The same with names for its fields, as many as there are."""


def field_names(count: int, names: tuple[str, ...] = ()) -> tuple[str, ...]:
    """`names`; f0, f1, … if there are none."""
    return names or tuple(f"f{index}" for index in range(count))


class OpaqueSerializer(Serializer):
    """A serializer class that is not known here: the value's bytes, where the format frames them."""

    __slots__ = ("java_class", "reason")

    def __init__(self, java_class: str, reason: str) -> None:
        self.java_class = java_class  # type: ignore[misc]  # every instance has its own
        self.reason = reason

    @property
    def type_name(self) -> str:
        return self.java_class

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


def rebuilt(serializer: Serializer, change: Callable[[Serializer], Serializer]) -> Serializer:
    """A type tree whose serializers went through `change`, innermost first; the same one if nothing changed."""
    return _rebuilt(serializer, change)  # type: ignore[no-any-return]  # a serializer stays one


def _rebuilt(node: Any, change: Callable[[Serializer], Serializer]) -> Any:
    """A part of a type tree: a serializer, a field of one, or a tuple of these."""
    if isinstance(node, tuple):
        parts = tuple(_rebuilt(part, change) for part in node)
        return parts if any(new is not old for new, old in zip(parts, node, strict=True)) else node
    if is_dataclass(node) and not isinstance(node, type):
        old = {part.name: getattr(node, part.name) for part in fields(node) if part.init}
        new = {name: _rebuilt(part, change) for name, part in old.items()}
        if any(new[name] is not part for name, part in old.items()):
            node = replace(node, **new)
    return change(node) if isinstance(node, Serializer) else node
