"""How a column of Flink's State Catalog comes from a column of ours."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from readers import OUT_OF_RANGE, UNDECODED, conform

_WINDOW_FIELDS = ("window_start", "window_end")


class Form(Enum):
    """What is done to the values of a column."""

    SAME = "nothing"
    WINDOW = "the fields of windows get other names"
    FILLED = "a key without a list or map has an empty one"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a renamed table.

    Attributes:
        name: of the column.
        type: of the column.
        source: the column of our table.
        form: what is done to its values.
        path: the names of the fields that lead from the source to the value.
        beside: columns of our table that say why a value is NULL.
    """

    name: str
    type: pa.DataType
    source: str
    form: Form = Form.SAME
    path: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()

    @property
    def sources(self) -> tuple[str, ...]:
        """The columns of our table that it is made from."""
        return (self.source, *self.beside)

    def array(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the column from rows of our table."""
        array = batch.column(batch.schema.get_field_index(self.source))
        for name in self.path:
            array = pc.struct_field(array, name)
        if self.form is Form.WINDOW:
            children = [array.field(index) for index in range(array.type.num_fields)]
            return pa.StructArray.from_arrays(children, fields=list(self.type), mask=array.is_null())
        if self.form is Form.FILLED:
            return _filled(array, [batch.column(batch.schema.get_field_index(name)) for name in self.beside])
        return conform(array, self.type)


def same(name: str, field: pa.Field) -> Column:
    """Return a column that only has another name."""
    return Column(name=name, type=field.type, source=field.name)


def window(name: str, field: pa.Field) -> Column:
    """Return the column of windows: those of time have `window_start` and `window_end` there."""
    kind = field.type
    if not pa.types.is_struct(kind) or [one.name for one in kind] != ["start", "end"]:
        return same(name, field)
    renamed = pa.struct([pa.field(one, old.type) for one, old in zip(_WINDOW_FIELDS, kind, strict=True)])
    return Column(name=name, type=renamed, source=field.name, form=Form.WINDOW)


def filled(name: str, field: pa.Field, schema: pa.Schema) -> Column:
    """Return the column of a list or a map of the wide table with this schema."""
    beside = tuple(one for one in (UNDECODED, OUT_OF_RANGE) if one in schema.names)
    return Column(name=name, type=field.type, source=field.name, form=Form.FILLED, beside=beside)


def _filled(array: pa.Array, beside: list[pa.Array]) -> pa.Array:
    """Return lists or maps with empty ones in place of NULL, except where a remark says that there is something."""
    is_told = pa.array(np.zeros(len(array), dtype=np.bool_))
    for remark in beside:
        is_told = pc.or_(is_told, remark.is_valid())
    unknown = pc.and_(array.is_null(), is_told)
    kind = array.type
    if pa.types.is_map(kind):
        return pa.MapArray.from_arrays(array.offsets, array.keys, array.items, type=kind, mask=unknown)
    return pa.ListArray.from_arrays(array.offsets, array.values, type=kind, mask=unknown)
