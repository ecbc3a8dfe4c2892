"""POJOs and records: `org.apache.flink.api.java.typeutils.runtime.PojoSerializer`.

Snapshot, version 2 (1.8 to 2.3): `utf class`, then optional maps of field → snapshot (in serialization order), registered
subclass → snapshot (in tag order) and non-registered subclass → snapshot (those met before it was taken).

| bytes | meaning |
|---|---|
| u1 flags | 1 null · 2 this class · 4 a class by name · 8 a registered class by tag |
| flags 2 | a field: bool is null, then its value |
| flags 4 | utf class name, then the bytes of that class's own serializer, with flags of its own |
| flags 8 | u1 tag, then likewise |

The column is a struct of the fields of the class and of all known subclasses. Where there are subclasses, `__class` holds
the name of the value's subclass, null for the class itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeAlias

import pyarrow as pa

from readers.decode.program import Program
from readers.errors import CorruptDataError
from readers.serializers.base import (
    OpaqueSerializer,
    OptionalEntry,
    Serializer,
    Snapshot,
    SnapshotBody,
    rebuild,
)

Subclasses: TypeAlias = Mapping[str, Mapping[str, Serializer]]
"""POJO class → name of a subclass that is not registered → its serializer."""

CLASS = "__class"
_NULL, _PLAIN, _BY_NAME, _BY_TAG = 1, 2, 4, 8


@dataclass(frozen=True)
class PojoField:
    """One field in serialization order.

    Attributes:
        name: in its class.
        serializer: of its values.
        hidden: True if it is in the bytes and no longer in the class.
        declared_in: the class that declares it, which may be a superclass; empty where that is not known.
    """

    name: str
    serializer: Serializer
    hidden: bool = False
    declared_in: str = dataclasses.field(default="", compare=False)


@dataclass(frozen=True)
class PojoSerializer(Serializer, package="org.apache.flink.api.java.typeutils.runtime."):
    """A POJO, or an object of one of its subclasses."""

    pojo_class: str
    fields: tuple[PojoField, ...]
    registered: tuple[tuple[str, Serializer], ...] = ()
    non_registered: tuple[tuple[str, Serializer], ...] = ()
    # Of these, those that the savepoint does not describe: jars do.
    assumed: frozenset[str] = frozenset()

    @property
    def is_open(self) -> bool:
        return True

    @property
    def is_assumed(self) -> bool:
        return bool(self.assumed) or super().is_assumed

    name = "{self.pojo_class}"

    @property
    def serializer_name(self) -> str:
        return f"PojoSerializer<{self.pojo_class}>"

    @property
    def children(self) -> tuple[tuple[str, Serializer], ...]:
        own = tuple((field.name, field.serializer) for field in self.fields)
        return own + tuple((f"({name})", serializer) for name, serializer in self._subclasses)

    @property
    def _subclasses(self) -> tuple[tuple[str, Serializer], ...]:
        return self.registered + self.non_registered

    def _columns(self) -> dict[str, tuple[str, Serializer]]:
        """Return column name → (class, serializer), in column order: own fields, then those that subclasses add."""
        columns = {field.name: ("", field.serializer) for field in self.fields if not field.hidden}
        for class_name, serializer in self._subclasses:
            if not isinstance(serializer, PojoSerializer):
                columns[_other_column(class_name)] = (class_name, serializer)
                continue
            for field in serializer.fields:
                if field.hidden:
                    continue
                # Subclasses may have fields of one name and different types: each of them gets a column.
                known = columns.setdefault(field.name, (class_name, field.serializer))
                if known[1].arrow() != field.serializer.arrow():
                    columns[f"{field.name}({class_name})"] = (class_name, field.serializer)
        return columns

    def arrow(self) -> pa.DataType:
        fields = [pa.field(name, serializer.arrow()) for name, (_, serializer) in self._columns().items()]
        return pa.struct([*fields, pa.field(CLASS, pa.string())] if self._subclasses else fields)

    def emit(self, program: Program) -> None:
        # An object of a class whose serializer is not known has no end that can be found: it has no case, and is an error.
        known = [(name, serializer) for name, serializer in self._subclasses if not _is_opaque(serializer)]
        flags = program.switch({_NULL: "null", _PLAIN: "value", _BY_NAME: "class name", _BY_TAG: "class tag"})
        with flags.case(_NULL):
            program.null()
        with flags.case(_PLAIN):
            self._emit_fields(program, self, None)
        # Flink writes registered classes by tag: the cases stand in the order in which it prefers them.
        with flags.case(_BY_TAG):
            # Without registered classes every tag is an error, which a class switch without classes raises.
            if self.registered:
                tags = program.switch(
                    {
                        tag: name
                        for tag, (name, serializer) in enumerate(self.registered)
                        if not _is_opaque(serializer)
                    }
                    or {0: ""}
                )
                for tag, (name, serializer) in enumerate(self.registered):
                    if not _is_opaque(serializer):
                        with tags.case(tag):
                            self._emit_subclass(program, name, serializer)
                tags.end()
            else:
                program.class_switch([])
        with flags.case(_BY_NAME):
            names = program.class_switch([name for name, _ in known])
            for index, (name, serializer) in enumerate(known):
                with names.case(index):
                    self._emit_subclass(program, name, serializer)
            names.end()
        flags.end()

    def _emit_subclass(self, program: Program, name: str, serializer: Serializer) -> None:
        if not isinstance(serializer, PojoSerializer):
            self._emit_other(program, name, serializer)
            return
        flags = program.switch({_NULL: "null", _PLAIN: "value"})
        with flags.case(_NULL):
            program.null()
        with flags.case(_PLAIN):
            self._emit_fields(program, serializer, name)
        flags.end()

    def _emit_fields(self, program: Program, actual: PojoSerializer, class_name: str | None) -> None:
        """Declare the fields of `actual` in their columns; the other columns are null."""
        columns = list(self._columns())
        program.struct()
        written = set()
        for field in actual.fields:
            column = _column_of(self._columns(), field, class_name)
            with program.nullable_field(None if field.hidden else columns.index(column), field.name):
                field.serializer.emit(program)
            if not field.hidden:
                written.add(column)
        self._emit_rest(program, columns, written, class_name)

    def _emit_other(self, program: Program, class_name: str, serializer: Serializer) -> None:
        """Declare an object of a subclass that is no POJO (Kryo, say), which has a column of its own."""
        columns = list(self._columns())
        column = _other_column(class_name)
        program.struct()
        with program.field(columns.index(column), column):
            serializer.emit(program)
        self._emit_rest(program, columns, {column}, class_name)

    def _emit_rest(
        self, program: Program, columns: list[str], written: set[str], class_name: str | None
    ) -> None:
        for index, column in enumerate(columns):
            if column not in written:
                with program.field(index, column):
                    program.null()
        if self._subclasses:
            with program.field(len(columns), CLASS):
                if class_name is None:
                    program.null()
                else:
                    program.constant(class_name)


def with_subclasses(serializer: Serializer, known: Subclasses) -> Serializer:
    """Return a type tree with the subclasses that other trees describe.

    A snapshot lists the subclasses that its serializer had met when it was taken. Heap backends serialize with copies of
    the serializer, so one subtask may lack the subclasses of another. A class has one layout in a savepoint: any
    description of it is right.
    """

    def add(node: Serializer) -> Serializer:
        if not isinstance(node, PojoSerializer):
            return node
        own = {name for name, _ in node._subclasses}
        others = known.get(node.pojo_class, {}).items()
        missing = tuple((name, subclass) for name, subclass in others if name not in own)
        return replace(node, non_registered=node.non_registered + missing) if missing else node

    return rebuild(serializer, add)


# Classes share the column of a field name, unless the types differ: see `PojoSerializer._columns`.
def _column_of(columns: dict[str, tuple[str, Serializer]], field: PojoField, class_name: str | None) -> str:
    own = f"{field.name}({class_name})"
    return own if class_name is not None and own in columns else field.name


def _other_column(class_name: str) -> str:
    return f"({class_name})"


def _is_opaque(serializer: Serializer) -> bool:
    return isinstance(serializer, OpaqueSerializer)


def _field(entry: OptionalEntry, serializer: Serializer) -> PojoField:
    if entry.key is None:
        return PojoField(entry.name, serializer, hidden=True)
    # Only a writer needs the class.
    with suppress(CorruptDataError):
        return PojoField(entry.name, serializer, declared_in=entry.key.utf("declaring class"))
    return PojoField(entry.name, serializer)


def _pojo(snapshot: Snapshot) -> Serializer:
    pojo_class = snapshot.cursor.utf("POJO class")
    fields = tuple(_field(entry, snapshot.framed(entry)) for entry in snapshot.optional_map())
    registered = tuple((entry.name, snapshot.framed(entry)) for entry in snapshot.optional_map())
    non_registered = tuple((entry.name, snapshot.framed(entry)) for entry in snapshot.optional_map())
    return PojoSerializer(pojo_class, fields, registered, non_registered)


SNAPSHOTS: dict[str, SnapshotBody] = {
    "org.apache.flink.api.java.typeutils.runtime.PojoSerializerSnapshot": _pojo
}
