"""Answers of two engines, or of one engine to two texts, in a form in which they can be compared."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa

Answer = tuple[list[str], list[str]]
"""Names of the columns, and the rows as sorted texts."""

_PLAN_NAME = re.compile(r'"\d+: native\.([^"]+)" AS "?(\1)"?')


def comparable(table: pa.Table) -> Answer:
    """Return an answer; the names of our tables in a plan become those of the catalog."""
    columns = [_values(column) for column in table.columns]
    # A column without an alias is named by its text, in which our tables have the names of the plan.
    names = [_PLAN_NAME.sub(r'"\2"', name) for name in table.column_names]
    return names, sorted(repr(row) for row in zip(*columns, strict=True))


def _values(column: pa.ChunkedArray) -> list[Any]:
    try:
        return column.to_pylist()  # type: ignore[no-any-return]  # pyarrow has no types
    except (OverflowError, ValueError):  # dates and times that Python does not have
        if pa.types.is_nested(column.type):
            return [str(value) for value in column]
        return [
            str(value) for value in column.cast(pa.int64() if column.type.bit_width == 64 else pa.int32())
        ]
