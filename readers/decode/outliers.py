"""Values that the type of their column cannot hold: the column has NULL, and their text is kept beside it.

| value | column | cannot hold |
|---|---|---|
| Instant, java.sql.Timestamp, LocalDateTime, TIMESTAMP above 6 | timestamp[ns] | years before 1677 and after 2262 |
| TIMESTAMP of 4 to 6 digits | timestamp[us] | years beyond ±290,000 |
| LocalDate | date32 | years beyond ±5,800,000 |
| a map in a value | map | a null key: the whole map is NULL, its entries are text |

The machine stops at such a value as it stops at one that only Python can read, and goes on behind it: what has none
pays nothing. Where it stood is found when the batch is done, from the offsets of the lists around it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from readers.decode import program as op
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
    """Where the cells stand in the entries of a batch that is done."""
    parents = _parents(arena.tree)
    return [_located(cell, arena, parents) for cell in cells]


def _located(cell: Cell, arena: Arena, parents: list[int]) -> Outlier:
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
    parents = [0] * len(tree.types)
    for column, children in enumerate(tree.children):
        for child in children:
            parents[child] = column
    return parents


def _offsets(arena: Arena, column: int) -> NDArray[np.int32]:
    entry = arena.table[column]
    start = int(entry[VALUES])
    offsets: NDArray[np.int32] = arena.memory[start : start + 4 * (int(entry[LENGTH]) + 1)].view(np.int32)
    return offsets


def maps_with_null_keys(arena: Arena) -> list[Cell]:
    """Make the maps NULL that have a null key; what they hold, as cells. Only whole rows may be in the arena."""
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
        _validity(arena, column)[maps] = 0
        arena.table[column][NULLS] += len(maps)
        validity[without] = 1
        arena.table[key][NULLS] -= len(without)
    return cells


def _validity(arena: Arena, column: int) -> NDArray[np.uint8]:
    """A byte an item, 0 for null: a view."""
    entry = arena.table[column]
    start = int(entry[VALIDITY])
    validity: NDArray[np.uint8] = arena.memory[start : start + int(entry[LENGTH])]
    return validity


@dataclass(frozen=True, slots=True)
class Place:
    """Where the machine stopped.

    Attributes:
        data: the page's bytes.
        instruction: int64 (6,), what it was about to do; see `program.py`.
        position: where the value begins, if it does not stand in a slot.
        region, slots: where the binary region and its slots begin, if it does.
    """

    data: memoryview
    instruction: NDArray[np.int64]
    position: int
    region: int
    slots: int


def value_text(place: Place) -> tuple[str, int] | None:
    """The value that the machine stopped at, as JSON text, and the position behind it; None if it is of another kind."""
    read = _READ.get(int(place.instruction[0]))
    if read is None:
        return None
    text, position = read(place)
    return f'"{text}"', position


def _timestamp(place: Place) -> tuple[str, int]:
    millis, nanos = _INSTANT.unpack_from(place.data, place.position)
    return _moment(millis // 1000, nanos), place.position + _INSTANT.size


def _instant(place: Place) -> tuple[str, int]:
    return _moment(*_INSTANT.unpack_from(place.data, place.position)), place.position + _INSTANT.size


def _timestamp_data(place: Place) -> tuple[str, int]:
    millis, nanos = _INSTANT.unpack_from(place.data, place.position)
    return _of_millis(millis, nanos, int(place.instruction[3])), place.position + _INSTANT.size


def _slot_timestamp(place: Place) -> tuple[str, int]:
    nanos, offset = _SLOT.unpack_from(place.data, place.slots + int(place.instruction[2]))
    (millis,) = _MILLIS.unpack_from(place.data, place.region + offset)
    return _of_millis(millis, nanos, int(place.instruction[3])), place.position


def _local_date(place: Place) -> tuple[str, int]:
    return date_text(*_DATE.unpack_from(place.data, place.position)), place.position + _DATE.size


def _local_date_time(place: Place) -> tuple[str, int]:
    date = date_text(*_DATE.unpack_from(place.data, place.position))
    hour, minute, second, nanos = _TIME.unpack_from(place.data, place.position + _DATE.size)
    clock = f"{hour:02d}:{minute:02d}:{second:02d}.{nanos:09d}"
    return f"{date}T{clock}", place.position + _DATE.size + _TIME.size


def _of_millis(millis: int, nanos: int, nanos_a_unit: int) -> str:
    seconds, rest = divmod(millis, 1000)
    text = _moment(seconds, rest * _NANOS_A_MILLISECOND + nanos)
    return text[:-3] if nanos_a_unit == _NANOS_A_MICROSECOND else text


def _moment(seconds: int, nanos: int) -> str:
    """As `jsontext.iso_timestamp` of nanoseconds, which are no int64 here."""
    days, second_of_day = divmod(seconds, _SECONDS_A_DAY)
    clock = f"{second_of_day // 3600:02d}:{second_of_day // 60 % 60:02d}:{second_of_day % 60:02d}"
    return f"{date_text(*civil_from_days(days))}T{clock}.{nanos:09d}"


_READ: dict[int, Callable[[Place], tuple[str, int]]] = {
    op.TIMESTAMP: _timestamp,
    op.INSTANT: _instant,
    op.LOCAL_DATE: _local_date,
    op.LOCAL_DATE_TIME: _local_date_time,
    op.TIMESTAMP_DATA: _timestamp_data,
    op.SLOT_TIMESTAMP: _slot_timestamp,
}
