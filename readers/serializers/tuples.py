"""Tuples, rows and Either. Package `org.apache.flink.api.java.typeutils.runtime`.

| serializer | snapshot | bytes |
|---|---|---|
| Tuple1…25 | composite 2: utf class; [fields] | the fields, no flags |
| Row | composite 2 (no row kind), 3 (row kind), 4: bool row kind; [fields] | mask, the fields that are not null |
| Either | composite 1: [left, right] | bool is left, value |
| CRow (rows that change, of the SQL planner up to 1.13) | composite 1: [row] | the row, bool is added |

The mask has 2 bits of row kind and a bit a field (1 null), most significant bit first, in whole bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from readers.decode.program import Program
from readers.keygroups import hash_row, hash_tuple
from readers.serializers.base import RecordSerializer, Serializer, field_names
from readers.serializers.snapshot import Snapshot, SnapshotBody, composite_body
from readers.serializers.struct import BOOLEAN, StructLayout, StructSerializer

RUNTIME = "org.apache.flink.api.java.typeutils.runtime."
ROW_KIND = "__row_kind"
ROW_KINDS = ["+I", "-U", "+U", "-D"]


@dataclass(frozen=True)
class TupleSerializer(StructSerializer, RecordSerializer, package=RUNTIME):
    """One of `Tuple1` to `Tuple25`."""

    tuple_class: str
    fields: tuple[Serializer, ...]
    names: tuple[str, ...] = ()

    @property
    def layout(self) -> StructLayout:
        return StructLayout(*zip(field_names(self.width, self.names), self.fields, strict=True))

    @property
    def fixed_length(self) -> int:  # type: ignore[override]  # derived here
        lengths = [field.fixed_length for field in self.fields]
        return -1 if any(length < 0 for length in lengths) else sum(lengths)

    @property
    def width(self) -> int:
        return len(self.fields)

    def with_names(self, names: tuple[str, ...]) -> TupleSerializer:
        return replace(self, names=names)

    @property
    def type_name(self) -> str:
        simple_name = self.tuple_class.rsplit(".", 1)[-1]
        return f"{simple_name}<{', '.join(field.type_name for field in self.fields)}>"

    def hash_code(self, value: Any) -> int | None:
        codes = _field_codes(self.children, value)
        # Java counts a null field as 0.
        return None if codes is None else hash_tuple([code or 0 for code in codes])

    def encode(self, value: Any) -> bytes | None:
        if not isinstance(value, dict) or set(value) != {name for name, _ in self.children}:
            return None
        fields = [field.encode(value[name]) for name, field in self.children]
        return None if any(field is None for field in fields) else b"".join(field or b"" for field in fields)


@dataclass(frozen=True)
class RowSerializer(RecordSerializer, package=RUNTIME):
    """A row by position: the names of named rows are not in the savepoint."""

    fields: tuple[Serializer, ...]
    has_row_kind: bool = True
    names: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        return len(self.fields)

    def with_names(self, names: tuple[str, ...]) -> RowSerializer:
        return replace(self, names=names)

    @property
    def type_name(self) -> str:
        return f"Row<{', '.join(field.type_name for field in self.fields)}>"

    @property
    def children(self) -> tuple[tuple[str, Serializer], ...]:
        return tuple(zip(field_names(self.width, self.names), self.fields, strict=True))

    def arrow(self) -> pa.DataType:
        fields = [pa.field(name, field.arrow()) for name, field in self.children]
        return pa.struct([*fields, pa.field(ROW_KIND, pa.string())] if self.has_row_kind else fields)

    def emit(self, program: Program) -> None:
        program.struct()
        # Before Flink 1.11 rows had no kind, and so no bits of it.
        kind_bits = 2 if self.has_row_kind else 0
        with program.mask(len(self.fields) + kind_bits):
            if self.has_row_kind:
                with program.field(len(self.fields), ROW_KIND):
                    program.row_kind(ROW_KINDS)
            for index, (name, field) in enumerate(self.children):
                with program.field(index, name), program.unmasked(index + kind_bits):
                    field.emit(program)

    def hash_code(self, value: Any) -> int | None:
        codes = _field_codes(self.children, value)
        if codes is None:
            return None
        kind = ROW_KINDS.index(value[ROW_KIND]) if value.get(ROW_KIND) in ROW_KINDS else 0
        return hash_row(codes, kind)


@dataclass(frozen=True)
class EitherSerializer(StructSerializer, package=RUNTIME):
    """A value of one of two types: a struct with one side null."""

    left: Serializer
    right: Serializer

    name = "Either"

    @property
    def layout(self) -> StructLayout:
        return StructLayout(("left", self.left), ("right", self.right))

    def emit(self, program: Program) -> None:
        flags = program.switch({0: "right", 1: "left"})
        for flag, present in ((1, 0), (0, 1)):
            with flags.case(flag):
                self.layout.emit_one(program, present)
        flags.end()

    def hash_code(self, value: Any) -> int | None:
        """Return the hash code of the side that is present."""
        if not isinstance(value, dict) or set(value) != {"left", "right"}:
            return None
        present = [(side, value[name]) for name, side in self.children if value[name] is not None]
        return present[0][0].hash_code(present[0][1]) if len(present) == 1 else None


@dataclass(frozen=True)
class CRowSerializer(StructSerializer, package="org.apache.flink.table.runtime.types."):
    """A row of the SQL planner before 1.14, with a flag: False retracts the row."""

    row: Serializer

    name = "CRow"

    @property
    def layout(self) -> StructLayout:
        return StructLayout(("row", self.row), ("is_added", BOOLEAN))


def _field_codes(children: tuple[tuple[str, Serializer], ...], value: Any) -> list[int | None] | None:
    """Return the hash codes of the fields of a struct value (None: null field); None where one is not known."""
    if not isinstance(value, dict) or not {name for name, _ in children} <= set(value):
        return None
    codes: list[int | None] = []
    for name, field in children:
        code = None if value[name] is None else field.hash_code(value[name])
        if code is None and value[name] is not None:
            return None
        codes.append(code)
    return codes


def _tuple(snapshot: Snapshot) -> Serializer:
    snapshot.composite()
    tuple_class = snapshot.cursor.utf("tuple class")
    return TupleSerializer(tuple_class, snapshot.nested())


def _row(snapshot: Snapshot) -> Serializer:
    version = snapshot.composite()
    has_row_kind = snapshot.cursor.boolean() if version >= 4 else version == 3
    return RowSerializer(snapshot.nested(), has_row_kind)


SNAPSHOTS: dict[str, SnapshotBody] = {
    RUNTIME + "TupleSerializerSnapshot": _tuple,
    RUNTIME + "RowSerializer$RowSerializerSnapshot": _row,
    RUNTIME + "JavaEitherSerializerSnapshot": composite_body(EitherSerializer, 2),
    RUNTIME + "EitherSerializerSnapshot": composite_body(EitherSerializer, 2),
    "org.apache.flink.table.runtime.types.CRowSerializerSnapshot": composite_body(CRowSerializer, 1),
}
