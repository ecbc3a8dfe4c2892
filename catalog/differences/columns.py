"""The columns of a table of differences, from those of the two tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import pyarrow as pa

from catalog.statetables import common_type
from readers import KEY_GROUP, conform, json_text

CHANGE = "change"
ADDED, REMOVED, CHANGED = "added", "removed", "changed"
_BEFORE, _AFTER = "_before", "_after"


class Role(Enum):
    """What a column of two tables is to their differences."""

    IDENTITY = "says which entry a row is"
    HIDDEN_IDENTITY = "says so, and is not shown"
    CONTENT = "is compared and shown twice, as before and after"
    FACT = "is shown and not compared"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedColumn:
    """A column of two tables.

    Attributes:
        name: in both.
        role: what it is to the differences.
        before, after: its type in either; that of the other where one does not have it.
        compared: the type in which values are compared.
        is_json: True if values are compared as JSON text.
    """

    name: str
    role: Role
    before: pa.DataType
    after: pa.DataType
    compared: pa.DataType
    is_json: bool

    def of_side(self, batch: pa.RecordBatch) -> pa.Array:
        """Return its values in rows of either side, in the type in which they are compared."""
        array = _column(batch, self.name)
        if pa.types.is_null(array.type):
            return pa.nulls(len(array), self.compared)
        # A text becomes JSON text, too: '5' is another value than 5.
        return json_text(array) if self.is_json else conform(array, self.compared)


@dataclass(frozen=True, slots=True)
class ComparedColumns:
    """The columns of both tables, in order, as they are compared."""

    columns: tuple[ComparedColumn, ...]

    @property
    def identity(self) -> tuple[ComparedColumn, ...]:
        """The columns that say which entry a row is."""
        return tuple(one for one in self.columns if one.role in (Role.IDENTITY, Role.HIDDEN_IDENTITY))

    @property
    def contents(self) -> tuple[ComparedColumn, ...]:
        """The columns that are compared and shown twice."""
        return tuple(one for one in self.columns if one.role is Role.CONTENT)

    @property
    def _shown_once(self) -> tuple[ComparedColumn, ...]:
        return tuple(one for one in self.columns if one.role in (Role.IDENTITY, Role.FACT))

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table of differences."""
        once = [(one.name, one.compared) for one in self._shown_once]
        twice = [
            field
            for one in self.contents
            for field in ((one.name + _BEFORE, one.before), (one.name + _AFTER, one.after))
        ]
        # The key group stands last, as in the tables of states.
        first = [field for field in once if field[0] != KEY_GROUP]
        last = [field for field in once if field[0] == KEY_GROUP]
        return pa.schema([(CHANGE, pa.string()), *first, *twice, *last])

    def rows(
        self, change: str, before: pa.RecordBatch | None, after: pa.RecordBatch | None
    ) -> pa.RecordBatch:
        """Return rows of the table from those of the sides that have them, row by row."""
        known = after if after is not None else before
        assert known is not None
        length = known.num_rows
        arrays = {CHANGE: pa.repeat(change, length)}
        for column in self._shown_once:
            arrays[column.name] = column.of_side(known)
        for column in self.contents:
            for tail, side, kind in ((_BEFORE, before, column.before), (_AFTER, after, column.after)):
                own = None if side is None else _column(side, column.name)
                is_absent = own is None or pa.types.is_null(own.type)
                arrays[column.name + tail] = pa.nulls(length, kind) if is_absent else own
        schema = self.schema
        return pa.RecordBatch.from_arrays([arrays[name] for name in schema.names], schema=schema)


def compared_columns(before: pa.Schema, after: pa.Schema, roles: Mapping[str, Role]) -> ComparedColumns:
    """Return the columns of the differences of two tables.

    Args:
        before, after: the columns of either table; of one that only one side has, twice the same.
        roles: the roles of the columns.
    """
    schemas = (before, after)
    names = dict.fromkeys(name for schema in schemas for name in schema.names)
    return ComparedColumns(tuple(_compared(name, roles[name], schemas) for name in names))


def _compared(name: str, role: Role, schemas: Sequence[pa.Schema]) -> ComparedColumn:
    types = [schema.field(name).type for schema in schemas if name in schema.names]
    compared = common_type(types)
    return ComparedColumn(
        name=name,
        role=role,
        before=types[0],
        after=types[-1],
        compared=compared,
        is_json=pa.types.is_string(compared) and not all(map(pa.types.is_string, types)),
    )


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    index = batch.schema.get_field_index(name)
    return pa.nulls(batch.num_rows) if index < 0 else batch.column(index)
