"""Values that Python has read, written again in a layout that the machine reads.

Connectors write few values, with little-endian numbers, magic numbers and versions of their own. Python reads them
(`Layout.read`) and writes them in this one layout:

| type | bytes |
|---|---|
| struct | its fields, each nullable |
| list | i4 n, n × nullable element |
| nullable | bool is null, value |
| string, binary | i4 length, UTF-8 or bytes |
| numbers, timestamps, bool | big endian |
"""

from __future__ import annotations

from typing import Any, Literal

import pyarrow as pa

from readers.connectors.layout import Layout
from readers.decode.program import Program
from readers.serializers.base import Serializer

_WIDTHS: dict[pa.DataType, Literal[2, 4, 8]] = {
    pa.int16(): 2, pa.int32(): 4, pa.int64(): 8, pa.timestamp("ms"): 8,
}  # fmt: skip


class RecodedSerializer(Serializer):
    """The values of a connector's layout, recoded; equal if the layouts are equal."""

    __slots__ = ("java_class", "recoded")

    def __init__(self, layout: Layout) -> None:
        self.recoded = layout
        self.java_class = layout.java_class  # type: ignore[misc]  # every instance has its own

    @property
    def type_name(self) -> str:
        return self.java_class.rsplit(".", 1)[-1]

    @property
    def serializer_name(self) -> str:
        return f"SimpleVersionedSerializer<{self.type_name}>"

    def arrow(self) -> pa.DataType:
        return self.recoded.type

    def emit(self, program: Program) -> None:
        _emit(program, self.recoded.type)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RecodedSerializer) and other.recoded is self.recoded

    def __hash__(self) -> int:
        return hash(self.java_class)


def recode(value: Any, data_type: pa.DataType) -> bytes:
    """Write a value of `data_type` as `RecodedSerializer` reads it; missing fields of dicts are null."""
    if pa.types.is_struct(data_type):
        return b"".join(_nullable(value.get(field.name), field.type) for field in data_type)
    if pa.types.is_list(data_type):
        return len(value).to_bytes(4, "big") + b"".join(
            _nullable(item, data_type.value_type) for item in value
        )
    if pa.types.is_string(data_type):
        # Java text may have a lone surrogate, which UTF-8 does not have.
        value = value.encode("utf-8", "replace")
    if pa.types.is_string(data_type) or pa.types.is_binary(data_type):
        return len(value).to_bytes(4, "big") + bytes(value)
    if pa.types.is_boolean(data_type):
        return b"\1" if value else b"\0"
    return int(value).to_bytes(_WIDTHS[data_type], "big", signed=True)


def _nullable(value: Any, data_type: pa.DataType) -> bytes:
    return b"\1" if value is None else b"\0" + recode(value, data_type)


def _emit(program: Program, data_type: pa.DataType) -> None:
    if pa.types.is_struct(data_type):
        program.struct()
        for index, field in enumerate(data_type):
            with program.field(index, field.name), program.nullable(null_flag=True):
                _emit(program, field.type)
    elif pa.types.is_list(data_type):
        with program.list(), program.nullable(null_flag=True):
            _emit(program, data_type.value_type)
    elif pa.types.is_string(data_type):
        program.text()
    elif pa.types.is_binary(data_type):
        program.blob()
    elif pa.types.is_boolean(data_type):
        program.boolean()
    else:
        program.fixed(_WIDTHS[data_type])
