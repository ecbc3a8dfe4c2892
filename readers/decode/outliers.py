"""Outliers: values that the type of their column cannot hold. The column has NULL, and the text is kept beside it.

| value | column | cannot hold |
|---|---|---|
| Instant, java.sql.Timestamp, LocalDateTime, TIMESTAMP above 6 | timestamp[ns] | years before 1677 and after 2262 |
| TIMESTAMP of 4 to 6 digits | timestamp[us] | years beyond ±290,000 |
| LocalDate | date32 | years beyond ±5,800,000 |
| a map in a value | map | a null key: the whole map is NULL, its entries are text |

The machine stops at such a value as at a Python leaf, and goes on behind it: a page without outliers costs nothing
more. The row and path of an outlier are derived when the batch is done, from the offsets of the lists around it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from readers.decode import instructions as op
from readers.decode.columns import LENGTH, NULLS, VALIDITY, VALUES, Arena, ColumnTree
from readers.jsontext import json_text
from readers.timetext import civil_from_days, date_text

Path = tuple[str | int, ...]

_SECONDS_A_DAY = 86_400
_NANOS_A_MILLISECOND = 1_000_000
_NANOS_A_MICROSECOND = 1000
_INSTANT = struct.Struct(">qi")
_DATE = struct.Struct(">iBB")
_TIME = struct.Struct(">BBBi")
_SLOT = struct.Struct("<iI")
_MILLIS = struct.Struct("<q")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlier:
    """One value that its column cannot hold.

    Attributes:
        entry: the number of the entry in its batch.
        path: the column, then names of fields and numbers of elements: `("value", "history", 3, "at")`.
        json: the value as JSON text.
    """

    entry: int
    path: Path
    json: str


@dataclass(frozen=True, slots=True)
class Cell:
    """An item of a column, and the text of what it cannot hold."""

    column: int
    index: int
    json: str


def located(cells: list[Cell], arena: Arena) -> list[Outlier]:
    """Return the outliers that the cells are, with their entry and path. The batch must be done."""
    parents = _parents(arena.tree)
    return [_located(cell, arena, parents) for cell in cells]


def _located(cell: Cell, arena: Arena, parents: list[int]) -> Outlier:
    # From the column up to the root: each list turns the number of an item into that of the list it is in.
    tree, column, index = arena.tree, cell.column, cell.index
    path: list[str | int] = []
    while column:
        parent = parents[column]
        if pa.types.is_struct(tree.types[parent]):
            path.append(tree.types[parent].field(tree.children[parent].index(column)).name)
        else:
            offsets = _offsets(arena, parent)
            item = int(np.searchsorted(offsets, index, side="right")) - 1
            path.append(index - int(offsets[item]))
            index = item
        column = parent
    return Outlier(entry=index, path=tuple(reversed(path)), json=cell.json)


def _parents(tree: ColumnTree) -> list[int]:
    """Return the parent of each column; the root is its own."""
    parents = [0] * len(tree.types)
    for column, children in enumerate(tree.children):
        for child in children:
            parents[child] = column
    return parents


def _offsets(arena: Arena, column: int) -> NDArray[np.int32]:
    """Return a view of the offsets of a LIST column."""
    entry = arena.table[column]
    start = int(entry[VALUES])
    offsets: NDArray[np.int32] = arena.memory[start : start + 4 * (int(entry[LENGTH]) + 1)].view(np.int32)
    return offsets


def maps_with_null_keys(arena: Arena) -> list[Cell]:
    """Make each map with a null key NULL, and return their entries as cells. Only whole rows may be in the arena."""
    cells = []
    for column in arena.tree.maps:
        key = arena.tree.children[arena.tree.children[column][0]][0]
        validity = _validity(arena, key)
        without = np.flatnonzero(validity == 0)
        if not len(without):
            continue
        maps = np.unique(np.searchsorted(_offsets(arena, column), without, side="right") - 1)
        texts = json_text(arena.lists_of_entries(column).take(pa.array(maps))).to_pylist()
        cells += [Cell(column, int(index), text) for index, text in zip(maps, texts, strict=True)]
        # Arrow aborts the process at a null key, also below a null map: the keys become empty values instead.
        _validity(arena, column)[maps] = 0
        arena.table[column][NULLS] += len(maps)
        validity[without] = 1
        arena.table[key][NULLS] -= len(without)
    return cells


def _validity(arena: Arena, column: int) -> NDArray[np.uint8]:
    """Return a view of the validity of a column: a byte an item, 0 for null."""
    entry = arena.table[column]
    start = int(entry[VALIDITY])
    validity: NDArray[np.uint8] = arena.memory[start : start + int(entry[LENGTH])]
    return validity


@dataclass(frozen=True, slots=True)
class UnreadValue:
    """A value that the machine stopped at, and where its bytes are.

    Attributes:
        data: the page's bytes.
        instruction: int64 (WORDS,), the instruction that lays out the value; see `instructions.py`.
        position: the begin of a value that is not in a slot.
        region, slots: the begin of the binary region and of its slots, for a value in a slot.
    """

    data: memoryview
    instruction: NDArray[np.int64]
    position: int
    region: int
    slots: int


def value_text(value: UnreadValue) -> tuple[str, int] | None:
    """Return the value as JSON text, and the position behind it; None if its instruction has no text."""
    read = _READ.get(int(value.instruction[op.OPCODE]))
    if read is None:
        return None
    text, position = read(value)
    return f'"{text}"', position


def _timestamp(value: UnreadValue) -> tuple[str, int]:
    millis, nanos = _INSTANT.unpack_from(value.data, value.position)
    return _moment(millis // 1000, nanos), value.position + _INSTANT.size


def _instant(value: UnreadValue) -> tuple[str, int]:
    return _moment(*_INSTANT.unpack_from(value.data, value.position)), value.position + _INSTANT.size


def _timestamp_data(value: UnreadValue) -> tuple[str, int]:
    millis, nanos = _INSTANT.unpack_from(value.data, value.position)
    return _of_millis(millis, nanos, int(value.instruction[op.NANOS_A_UNIT])), value.position + _INSTANT.size


def _slot_timestamp(value: UnreadValue) -> tuple[str, int]:
    nanos, offset = _SLOT.unpack_from(value.data, value.slots + int(value.instruction[op.SLOT]))
    (millis,) = _MILLIS.unpack_from(value.data, value.region + offset)
    return _of_millis(millis, nanos, int(value.instruction[op.NANOS_A_UNIT])), value.position


def _local_date(value: UnreadValue) -> tuple[str, int]:
    return date_text(*_DATE.unpack_from(value.data, value.position)), value.position + _DATE.size


def _local_date_time(value: UnreadValue) -> tuple[str, int]:
    date = date_text(*_DATE.unpack_from(value.data, value.position))
    hour, minute, second, nanos = _TIME.unpack_from(value.data, value.position + _DATE.size)
    clock = f"{hour:02d}:{minute:02d}:{second:02d}.{nanos:09d}"
    return f"{date}T{clock}", value.position + _DATE.size + _TIME.size


def _of_millis(millis: int, nanos: int, nanos_a_unit: int) -> str:
    seconds, rest = divmod(millis, 1000)
    text = _moment(seconds, rest * _NANOS_A_MILLISECOND + nanos)
    # Six digits, as `json_text` shows a column of microseconds.
    return text[:-3] if nanos_a_unit == _NANOS_A_MICROSECOND else text


def _moment(seconds: int, nanos: int) -> str:
    """Return ISO 8601 text as `jsontext.iso_timestamp` does, of seconds that no int64 of nanoseconds holds."""
    days, second_of_day = divmod(seconds, _SECONDS_A_DAY)
    clock = f"{second_of_day // 3600:02d}:{second_of_day // 60 % 60:02d}:{second_of_day % 60:02d}"
    return f"{date_text(*civil_from_days(days))}T{clock}.{nanos:09d}"


_READ: dict[int, Callable[[UnreadValue], tuple[str, int]]] = {
    op.TIMESTAMP: _timestamp,
    op.INSTANT: _instant,
    op.LOCAL_DATE: _local_date,
    op.LOCAL_DATE_TIME: _local_date_time,
    op.TIMESTAMP_DATA: _timestamp_data,
    op.SLOT_TIMESTAMP: _slot_timestamp,
}
